/*
 * Reading Thrift's compact protocol, bounds-checked: what Parquet describes itself in. After a
 * fault all that is read is 0 and every struct ends, so that callers look at `fault` once.
 *
 * Threads: none of its own.
 */
#pragma once

#include "base/base.h"

enum mr_thrift_type {
    MR_THRIFT_TRUE = 1,
    MR_THRIFT_FALSE = 2,
    MR_THRIFT_I8 = 3,
    MR_THRIFT_I16 = 4,
    MR_THRIFT_I32 = 5,
    MR_THRIFT_I64 = 6,
    MR_THRIFT_DOUBLE = 7,
    MR_THRIFT_BYTES = 8,
    MR_THRIFT_LIST = 9,
    MR_THRIFT_SET = 10,
    MR_THRIFT_MAP = 11,
    MR_THRIFT_STRUCT = 12,
};

struct mr_thrift {
    const unsigned char *at;
    const unsigned char *end;
    const char *fault; /* NULL: none so far */
    bool cut_short;    /* the fault is that bytes are missing */
};

/* A field of a struct; zero before the first. */
struct mr_thrift_field {
    int16_t id;
    uint8_t type;
};

void mr_thrift_begin(struct mr_thrift *t, const void *p, size_t n);
/* The next field of the struct; false behind the last. Each is read or skipped. */
bool mr_thrift_next(struct mr_thrift *t, struct mr_thrift_field *f);
int64_t mr_thrift_int(struct mr_thrift *t, const struct mr_thrift_field *f);
int32_t mr_thrift_int32(struct mr_thrift *t, const struct mr_thrift_field *f);
bool mr_thrift_bool(struct mr_thrift *t, const struct mr_thrift_field *f);
/* Lent. */
const char *mr_thrift_bytes(struct mr_thrift *t, const struct mr_thrift_field *f, size_t *n);
/* How many structs the list has, at most as many as there are bytes. */
uint32_t mr_thrift_structs(struct mr_thrift *t, const struct mr_thrift_field *f);
/* Whether the field is a struct, whose fields come next. */
bool mr_thrift_struct(struct mr_thrift *t, const struct mr_thrift_field *f);
void mr_thrift_skip(struct mr_thrift *t, const struct mr_thrift_field *f);
