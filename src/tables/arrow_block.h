/*
 * Arrow's arrays as columns of blocks. What lies in memory as a block wants it is not copied:
 * numbers, and the bytes of strings.
 *
 *   bool, ints, floats            their dtype
 *   date32, time32                int32; date64, time64, timestamps and durations int64: the
 *                                 numbers of the file, in its unit
 *   utf8, binary, of fixed size   string
 *   dictionaries of these         what the indices stand for
 *   lists                         a vector, of a length of its own in each row
 *   lists of fixed size           a vector
 *
 * Threads: none of its own.
 */
#pragma once

#include "element/block.h"
#include "tables/arrow_abi.h"

/* What a column of schema @s is as a component of elements; false: nothing. */
bool mr_arrow_leaf(const struct ArrowSchema *s, struct mr_leaf_spec *ret);

struct mr_arrow_want {
    const struct ArrowSchema *schema;
    const struct mr_column *instead; /* of one row, a scalar: what null is; NULL: an error */
};

/* Column of @array, which is moved into it, also on failure. With `instead` nulls are that, and a
 * list that is null is empty; else they are 0, "" and empty, and `bad[i]` becomes @mark in each row
 * that has one; *@bad is made where it is NULL, and freed with mr_free(). */
int mr_arrow_column(const struct mr_arrow_want *want, struct ArrowArray *array, uint32_t **bad,
                    uint32_t mark, struct mr_owned_column *ret, mr_error *err);
void mr_owned_column_free(struct mr_owned_column *c);
