/*
 * Reading FlatBuffers, bounds-checked: what Arrow's files describe themselves in. What is absent,
 * or lies outside of the bytes, is the default; the latter sets `bad`.
 *
 * Threads: none of its own.
 */
#pragma once

#include "base/base.h"

struct mr_flat {
    const unsigned char *data;
    size_t size;
    bool bad;
};

/* A table: where it begins; 0: there is none, and all its fields are absent. */
typedef size_t mr_flat_table;

struct mr_flat_vector {
    size_t at;
    uint32_t n;
};

mr_flat_table mr_flat_root(struct mr_flat *f);
int64_t mr_flat_int(struct mr_flat *f, mr_flat_table t, int field, int bytes, int64_t absent);
mr_flat_table mr_flat_child(struct mr_flat *f, mr_flat_table t, int field);
/* Of structs, or of offsets of tables (4 bytes each). */
struct mr_flat_vector mr_flat_list(struct mr_flat *f, mr_flat_table t, int field, size_t width);
mr_flat_table mr_flat_item(struct mr_flat *f, struct mr_flat_vector v, uint32_t i);
/* Lent; NULL: absent. */
const char *mr_flat_string(struct mr_flat *f, mr_flat_table t, int field, size_t *n);
/* The number of 8 bytes at @at, which a vector has. */
int64_t mr_flat_i64(const struct mr_flat *f, size_t at);
int32_t mr_flat_i32(const struct mr_flat *f, size_t at);
