/*
 * The groups of a coordinated task: the rows of its pipeline in the order in which they came, as
 * many to a group as there are consumers. A group is found by its ordinal (0, 1, 2, ...); the
 * oldest are dropped when everybody has returned them.
 *
 * Pure: no I/O, no clock, no lock. One owner at a time.
 */
#pragma once

#include "element/block.h"

typedef struct mr_row_groups mr_row_groups;

int mr_row_groups_new(uint32_t consumers, mr_row_groups **ret, mr_error *err);
void mr_row_groups_free(mr_row_groups *g); /* NULL is fine */

/* Takes the block in any case, also when it fails (out of memory). */
int mr_row_groups_add(mr_row_groups *g, mr_block *block, mr_error *err);
/* There will be no more rows. What is left of a group is filled up with its first ones again, or
 * dropped. */
int mr_row_groups_finish(mr_row_groups *g, bool pad, mr_error *err);

/* Groups that are whole, those that were dropped included. */
uint64_t mr_row_groups_whole(const mr_row_groups *g);
/* Rows that came. */
uint64_t mr_row_groups_rows(const mr_row_groups *g);
/* What is kept. */
size_t mr_row_groups_bytes(const mr_row_groups *g);

/* The element of @consumer in group @ordinal, which is whole and kept: a block of one row, the
 * caller's reference. */
int mr_row_groups_element(const mr_row_groups *g, uint64_t ordinal, uint32_t consumer,
                          mr_block **ret, mr_error *err);
/* Forget the groups before @ordinal. */
void mr_row_groups_drop(mr_row_groups *g, uint64_t ordinal);
