/* A growable string of bytes. Zero-initialise it (MR_BUF_INIT); the first failed allocation sets
 * `failed`, later appends do nothing, so that a caller may check once at the end. */
#pragma once

#include "base/base.h"
#include "base/memory.h"

struct mr_buf {
    unsigned char *data; /* NUL-terminated beyond `len` once something was appended */
    size_t len;
    size_t cap;
    bool failed;
    bool spare;        /* the memory is of base/spare.h: it is to become a large buffer's */
    mr_memory *memory; /* lent; what `cap` is charged to; NULL: nothing */
    size_t refused;    /* bytes that it did not give */
};

#define MR_BUF_INIT                                                                                \
    {                                                                                              \
        NULL, 0, 0, false, false, NULL, 0                                                          \
    }

void mr_buf_append(struct mr_buf *b, const void *p, size_t n);
void mr_buf_puts(struct mr_buf *b, const char *s);
void mr_buf_printf(struct mr_buf *b, const char *fmt, ...) MR_PRINTF(2, 3);
/* Room for @n more bytes; the pointer to write them to, or NULL. Add to `len` what was written. */
void *mr_buf_reserve(struct mr_buf *b, size_t n);
/* The bytes (freed with mr_free(); @b is not `spare`); @b is empty afterwards. NULL after a failed
 * allocation. */
void *mr_buf_take(struct mr_buf *b, size_t *len);
void mr_buf_clear(struct mr_buf *b); /* keeps the memory */
/* MR_EEXHAUSTED for one that failed. */
int mr_buf_error(const struct mr_buf *b, mr_error *err);
void mr_buf_free(struct mr_buf *b);
MR_AUTO_DEFINE(struct mr_buf, mr_buf_free)
