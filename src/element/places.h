/*
 * The place of a row: a number of the element that is the same wherever and however often it is
 * made, in whatever company. Who reads splits gives rows their places, and what is drawn at random
 * for an element is a function of its place.
 *
 * Blocks that hold the rows of others as they are (slices, joins, permutations, zips) hand places
 * on; a row that was put together of several has the place of the first. Rows of which some have
 * none are together rows without places. Mostly a block has none, which costs a comparison; rows as
 * they were read are a run of numbers, which costs no memory.
 *
 * Not for: elements that are counted where they come by, as in a pipeline that reads everything.
 *
 * Threads: a block's places change only while nobody shares it.
 */
#pragma once

#include <millrace/block.h>

bool mr_block_placed(const mr_block *block);
/* Of row @row of a block that has places. */
uint64_t mr_block_place(const mr_block *block, uint32_t row);
/* The same of all rows: of row r it is *@first + (ret[r], or r if NULL is returned). Lent. */
const uint64_t *mr_block_places(const mr_block *block, uint64_t *first);

/* The places of the rows of *@block, the caller's reference, are @first, @first + 1, ...; it may be
 * exchanged for another block over the same buffers. On failure (no memory) it stays as it was. */
int mr_block_set_place(mr_block **block, uint64_t first, mr_error *err);
/* The same: each place it has becomes larger by @more. */
int mr_block_move_places(mr_block **block, uint64_t more, mr_error *err);
/* Row r of @block, which nobody shares yet, has the place @places[r]. */
int mr_block_set_places(mr_block *block, const uint64_t *places, mr_error *err);
/* Row i of @to, which nobody shares yet, has the place of row i of @from, or none. */
void mr_block_place_as(mr_block *to, const mr_block *from);
/* The rows of @block, which nobody shares yet, have no places. */
void mr_block_displace(mr_block *block);
