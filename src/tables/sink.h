/*
 * A column that is being made: values, of which some are null, in Arrow's layout. It counts in the
 * memory budget.
 *
 * Threads: none of its own.
 */
#pragma once

#include "base/base.h"
#include "base/memory.h"
#include "tables/arrow_abi.h"

enum mr_sink_kind {
    MR_SINK_FIXED, /* `width` bytes a value */
    MR_SINK_BITS,  /* bools */
    MR_SINK_BYTES, /* strings: Arrow's large ones */
    MR_SINK_LISTS, /* of the values of another sink: Arrow's large ones */
};

struct mr_sink {
    enum mr_sink_kind kind;
    size_t width;
    size_t n;
    size_t cap; /* values that there is room for */
    unsigned char *data;
    size_t data_cap;
    int64_t *offsets;     /* BYTES, LISTS: cap + 1 */
    unsigned char *valid; /* NULL: all are */
    int64_t nulls;
    mr_memory *memory; /* the budget of the thread that began it, or NULL */
    size_t charged;    /* to it: what there is room for */
};

void mr_sink_begin(struct mr_sink *s, enum mr_sink_kind kind, size_t width);
void mr_sink_free(struct mr_sink *s);
/* Room for @n values more. */
int mr_sink_reserve(struct mr_sink *s, size_t n, mr_error *err);
/* BYTES: room for @n bytes behind the last value. */
int mr_sink_reserve_bytes(struct mr_sink *s, size_t n, mr_error *err);
/* There is room; they are values already. */
void mr_sink_add_valid(struct mr_sink *s, size_t n);
/* `valid` is there. */
int mr_sink_need_valid(struct mr_sink *s, mr_error *err);
/* @n nulls, for which there is room. */
int mr_sink_add_nulls(struct mr_sink *s, size_t n, mr_error *err);
/* What the sink holds, which is empty then. @child (moved) is that of LISTS, else NULL. */
int mr_sink_take(struct mr_sink *s, struct ArrowArray *child, struct ArrowArray *ret,
                 mr_error *err);

/* An array of @n_buffers buffers, NULL or of mr_malloc(), and room for @n_children, zeroed: its
 * release() frees them all. They have @bytes, which are charged until then: the columns of a row
 * group wait for one another. On failure nothing was taken. */
int mr_arrow_array(int64_t length, int64_t nulls, void *const *buffers, int n_buffers,
                   int64_t n_children, uint64_t bytes, struct ArrowArray *ret, mr_error *err);
/* What it has, children included, is charged no longer: it goes into a block, which is. */
void mr_arrow_array_discharge(struct ArrowArray *a);
/* A schema with copies of @format and @name, and room for @n_children. */
int mr_arrow_schema(const char *format, const char *name, bool nullable, int64_t n_children,
                    struct ArrowSchema *ret, mr_error *err);
