/* The encoded form of a block, as structs: see block.h for what it says. Little-endian. */
#pragma once

#include "element/internal.h"

#define MR_WIRE_MAGIC 0x3142524du /* "MRB1" */
#define MR_WIRE_VERSION 1
#define MR_WIRE_CHECKSUM 1u /* flag: `checksum` is set */

struct mr_wire_header {
    uint32_t magic;
    uint16_t version;
    uint16_t flags;
    uint32_t rows;
    uint32_t columns;
    uint64_t total_bytes;
    uint64_t spec_hash;
    uint64_t checksum;
    uint64_t reserved[3];
};

struct mr_wire_column {
    uint8_t kind;
    uint8_t dtype;
    uint8_t rank;
    uint8_t reserved[5];
    uint64_t offset;
    uint64_t bytes;
    uint64_t values;
};

_Static_assert(sizeof(struct mr_wire_header) == 64, "the header is 64 bytes");
_Static_assert(sizeof(struct mr_wire_column) == 32, "a directory entry is 32 bytes");
