/*
 * Iterator states as bytes: nested records with lengths, numbers little-endian, blocks in their
 * encoding.
 *
 * One function describes a part of a state for both directions, as the routines of XDR do: saving,
 * it writes what it is pointed at; restoring, it reads that, and trusts nothing. What does not fit
 * is MR_EINVAL. Threads: none.
 */
#pragma once

#include "base/buf.h"
#include "element/block.h"

struct mr_state {
    bool restores;
    struct mr_buf buf;      /* saving: what was written; `failed`: there was no memory for all */
    const unsigned char *p; /* restoring: what is left */
    size_t left;
};

int mr_state_u64(struct mr_state *s, uint64_t *v, mr_error *err);
/* A number that must be at most @max. */
int mr_state_bounded(struct mr_state *s, uint64_t *v, uint64_t max, mr_error *err);
int mr_state_u32(struct mr_state *s, uint32_t *v, uint32_t max, mr_error *err);
int mr_state_bool(struct mr_state *s, bool *v, mr_error *err);
/* How many of something follow; as many as there are bytes at most. */
int mr_state_count(struct mr_state *s, uint64_t *n, mr_error *err);
/* What is read is lent. */
int mr_state_bytes(struct mr_state *s, const void **p, size_t *n, mr_error *err);
/* NULL is kept as NULL. What is read takes the place of what was there, and fits @spec (NULL:
 * anything). */
int mr_state_block(struct mr_state *s, mr_block **block, const mr_spec *spec, mr_error *err);
/* Its rows from *@used on, which is 0 then. */
int mr_state_rest(struct mr_state *s, mr_block **block, uint32_t *used, const mr_spec *spec,
                  mr_error *err);
/* @failure counts only with a negative *@code. */
int mr_state_error(struct mr_state *s, int *code, mr_error *failure, mr_error *err);
/* The one or the other. */
int mr_state_block_or_error(struct mr_state *s, mr_block **block, const mr_spec *spec, int *code,
                            mr_error *failure, mr_error *err);
/* Whether the input has ended, and an error that was met and is still to be given, with a count of
 * at most @most (NULL: without); @failed = MR_OK: there is none. */
int mr_state_ending(struct mr_state *s, bool *ended, uint64_t *count, uint64_t most, int *failed,
                    mr_error *failure, mr_error *err);
/* A record within: *@mark is for its end, where all of it must have been read. */
int mr_state_begin(struct mr_state *s, size_t *mark, mr_error *err);
int mr_state_end(struct mr_state *s, size_t mark, mr_error *err);

int mr_state_damaged(mr_error *err);
