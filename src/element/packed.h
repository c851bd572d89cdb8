/*
 * A block in its encoded form (block.h) whose bytes are lent: sent as it is, decoded only where its
 * rows have to be told apart. The bytes come in any number of pieces, aligned to nothing.
 *
 * Threads: a packed block is immutable; ref, unref and reading from any thread.
 */
#pragma once

#include "element/block.h"

typedef struct mr_packed mr_packed;

/* The encoded block in @iov[0..n), which is copied; the bytes stay where they are until
 * @unhold(@hold) is called, once, by the last unref. MR_EDATALOSS: these are no header and
 * directory of a block of that size (columns are checked when it is unpacked). On failure @hold is
 * still the caller's. */
int mr_packed_new(const struct iovec *iov, size_t n, void *hold, void (*unhold)(void *hold),
                  mr_packed **ret, mr_error *err);
mr_packed *mr_packed_ref(mr_packed *p);
void mr_packed_unref(mr_packed *p); /* NULL is fine */

uint32_t mr_packed_rows(const mr_packed *p);
/* Lent, as long as the caller holds its reference. */
const struct iovec *mr_packed_iov(const mr_packed *p, size_t *count);
/* The block, in memory of its own: one copy. MR_EDATALOSS names the fault. */
int mr_packed_unpack(const mr_packed *p, mr_block **ret, mr_error *err);

/* A part of a message: rows in either form, one of the two is set. */
struct mr_part {
    mr_block *block;
    mr_packed *packed;
};
struct mr_part mr_part_ref(struct mr_part part);
void mr_part_unref(struct mr_part part); /* zeros are fine */
uint32_t mr_part_count(struct mr_part part);
size_t mr_part_bytes(struct mr_part part);
/* Make it a block, if it is packed. On failure it stays as it was. */
int mr_part_unpack(struct mr_part *part, mr_error *err);
