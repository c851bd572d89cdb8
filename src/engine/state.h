/*
 * Iterator states as bytes: nested records with lengths, numbers little-endian, blocks in their
 * encoding. Reading trusts nothing. Threads: none.
 */
#ifndef MR_ENGINE_STATE_H
#define MR_ENGINE_STATE_H

#include "base/buf.h"
#include "element/block.h"

struct mr_state_out {
    struct mr_buf buf;
};

struct mr_state_in {
    const unsigned char *p;
    size_t left;
};

void mr_state_put_u64(struct mr_state_out *out, uint64_t v);
void mr_state_put_bytes(struct mr_state_out *out, const void *p, size_t n);
/* NULL is kept as NULL. */
int mr_state_put_block(struct mr_state_out *out, const mr_block *block, mr_error *err);
void mr_state_put_error(struct mr_state_out *out, int code, const mr_error *err);
/* A record: its length is filled in by end(). */
size_t mr_state_begin(struct mr_state_out *out);
void mr_state_end(struct mr_state_out *out, size_t begin);

int mr_state_get_u64(struct mr_state_in *in, uint64_t *ret, mr_error *err);
/* A number that must be at most @max. */
int mr_state_get_bounded(struct mr_state_in *in, uint64_t max, uint64_t *ret, mr_error *err);
int mr_state_get_bool(struct mr_state_in *in, bool *ret, mr_error *err);
/* Lent. */
int mr_state_get_bytes(struct mr_state_in *in, const void **ret, size_t *n, mr_error *err);
int mr_state_get_block(struct mr_state_in *in, const mr_spec *spec, mr_block **ret, mr_error *err);
int mr_state_get_error(struct mr_state_in *in, int *code, mr_error *ret, mr_error *err);
/* A record as a reader of its own. */
int mr_state_get_record(struct mr_state_in *in, struct mr_state_in *ret, mr_error *err);
int mr_state_damaged(mr_error *err);

/*
 * Whether the input has ended, and an error that was met and is still to be given, with a count of
 * at most @most; @failed = MR_OK: there is none.
 */
void mr_state_put_end(struct mr_state_out *out, bool ended, uint64_t count, int failed,
                      const mr_error *failure);
int mr_state_get_end(struct mr_state_in *in, uint64_t most, bool *ended, uint64_t *count,
                     int *failed, mr_error *failure, mr_error *err);

#endif
