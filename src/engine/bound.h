/*
 * The values of an enclosing function for one row: what attributes and captures inside it stand for
 * at run time.
 *
 * Threads: immutable; ref and unref from any thread.
 */
#pragma once

#include "engine/env.h"

struct mr_bound;

/* Bind row @row of @values (columns as expansion->numbers says; NULL if there are none). The
 * expansion must outlive it. */
int mr_bound_new(const struct mr_expansion *expansion, const mr_block *values, uint32_t row,
                 struct mr_bound **ret, mr_error *err);
struct mr_bound *mr_bound_ref(struct mr_bound *b); /* NULL is fine */
void mr_bound_unref(struct mr_bound *b);           /* NULL is fine */
MR_AUTO_DEFINE(struct mr_bound, mr_bound_unref)

/* Scalar values. */
int mr_bound_int(const struct mr_bound *b, uint32_t value, int64_t *ret, mr_error *err);
/* A vector; *@ret is freed with mr_free(). */
int mr_bound_ints(const struct mr_bound *b, uint32_t value, int64_t **ret, size_t *n,
                  mr_error *err);
int mr_bound_bytes(const struct mr_bound *b, uint32_t value, const void **ret, size_t *size,
                   mr_error *err);
/* A block of one row whose columns are these values. */
int mr_bound_select(const struct mr_bound *b, const uint32_t *values, size_t n, mr_block **ret,
                    mr_error *err);

/* For the state of an iterator. The block has no columns' worth of data if the expansion needs
 * none: then NULL. */
const mr_block *mr_bound_row(const struct mr_bound *b);
