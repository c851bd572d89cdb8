/*
 * Protobuf's wire format, from bytes that nobody has checked: a bounds-checked reader of fields.
 * Nothing is copied or allocated; spans point into the message. Pure.
 */
#pragma once

#include "ops/tensor.h"

enum mr_wire_type {
    MR_WIRE_VARINT = 0,
    MR_WIRE_64 = 1,
    MR_WIRE_BYTES = 2,
    MR_WIRE_32 = 5,
};

/* What of a message is not read yet. */
struct mr_wire {
    const unsigned char *at;
    const unsigned char *end;
};

struct mr_wire_field {
    uint32_t number;
    uint32_t type;
    uint64_t varint;        /* MR_WIRE_VARINT */
    struct mr_string bytes; /* MR_WIRE_BYTES, MR_WIRE_32, MR_WIRE_64 */
};

struct mr_wire mr_wire_open(struct mr_string message);

/* The next varint, @n bytes, field; false if there is none that makes sense. */
bool mr_wire_varint(struct mr_wire *r, uint64_t *ret);
bool mr_wire_bytes(struct mr_wire *r, uint64_t n, struct mr_string *ret);
bool mr_wire_field_next(struct mr_wire *r, struct mr_wire_field *f);
