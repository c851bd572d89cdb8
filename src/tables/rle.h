/*
 * Parquet's hybrid of runs and bit-packed integers (levels, and indices of dictionaries).
 *
 * Threads: none of its own.
 */
#pragma once

#include "base/base.h"

#define MR_RLE_CHUNK 1024u

struct mr_rle {
    const unsigned char *at;
    const unsigned char *end;
    unsigned width;   /* 0..32 */
    uint32_t repeats; /* of `value`, still to come */
    uint32_t value;
    uint64_t packed;      /* values of the packed run, still to come */
    uint64_t packed_next; /* number of the next of them */
    const unsigned char *packed_at;
};

/* false: there is no such width. */
bool mr_rle_begin(struct mr_rle *r, const void *p, size_t n, unsigned width);
/* Up to @most values: how many; 0: there are none left, or the bytes are damaged. *@repeated: they
 * are all buf[0], and may be more than MR_RLE_CHUNK; else no more than that, one behind the
 * other. */
uint32_t mr_rle_next(struct mr_rle *r, uint32_t most, uint32_t buf[MR_RLE_CHUNK], bool *repeated);
