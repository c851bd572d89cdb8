/*
 * A record as it is stored: a header, a directory of chunks, their bytes. Little-endian.
 *
 *   header, 64 bytes
 *       checksum  u64  XXH3-64 of the rest of the header and of the directory
 *       magic     u32  "MRR1"
 *       version   u16
 *       reserved  u16  0
 *       log       u64  id of the log: a record of another log is refused
 *       first     u64  index of the first element
 *       rows      u32
 *       chunks    u32
 *       payload   u64  bytes of all chunks
 *       reserved  16 bytes, 0
 *   directory: one entry a chunk, then zeros to a multiple of 64
 *       rows      u32
 *       bytes     u32  in units of 64
 *   payload: the chunks, each a multiple of 64 long
 *
 * The checksum is of what says whose record this is. That its bytes are those that were put is the
 * storage's to verify (storage.h), over header, directory and payload alike.
 *
 * Pure.
 */
#pragma once

#include "cache/cache.h"

#define MR_RECORD_CHUNK_BYTES_MAX (UINT32_MAX * 64ull)

/* The header, as it is stored. Whoever writes one sets `log` to `payload`, and zero the rest. */
struct mr_record_head {
    uint64_t checksum;
    uint32_t magic;
    uint16_t version;
    uint16_t reserved;
    uint64_t log;
    uint64_t first;
    uint32_t rows;
    uint32_t chunks;
    uint64_t payload;
    uint64_t reserved2[2];
};
_Static_assert(sizeof(struct mr_record_head) == 64, "the header has no holes");

/* Bytes of header and directory. */
size_t mr_record_front_bytes(uint32_t chunks);

/* Write header and directory to @front, which is mr_record_front_bytes() long. @chunks agree with
 * @head. */
void mr_record_encode(const struct mr_record_head *head, const struct mr_cache_view_chunk *chunks,
                      void *front);

/* Check @data as far as it can be without its payload's meaning: everything but the checksum.
 * MR_EDATALOSS names the fault. */
int mr_record_parse(const void *data, size_t size, struct mr_record_head *ret, mr_error *err);
/* The same, the checksum, and whose record it is. */
int mr_record_decode(const void *data, size_t size, uint64_t log, uint64_t first,
                     struct mr_record_head *ret, mr_error *err);
/* Rows and bytes of chunk @i of a record that was parsed. */
struct mr_cache_view_chunk mr_record_chunk(const void *data, uint32_t i);
