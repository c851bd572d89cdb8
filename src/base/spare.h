/*
 * Large pieces of memory that are used again. malloc() gives those of threads other than the first
 * one back to the system and faults them in anew, which costs more than filling them: elements of
 * images come and go at a rate of gigabytes a second.
 *
 * What the calling thread gave back itself, and last, comes first: its core has it in its cache.
 * What another thread gave back, and has just read, is expensive to write (a line comes from
 * another core's cache several times slower than from memory): such a piece rests until
 * MR_SPARE_REST_BYTES, its own included, have been given back since. The one that has rested
 * longest comes first.
 *
 * Up to MR_SPARE_BYTES_MAX stay in this process, the longest unused of which make room for others.
 * With MILLRACE_MALLOC=keep in the environment, and under sanitizers, nothing stays.
 *
 * Threads: safe from any thread, also in a forked child; nobody waits.
 */
#pragma once

#include <stddef.h>

#define MR_SPARE_BYTES_MAX ((size_t)256 << 20)
/* Smaller pieces are malloc's. */
#define MR_SPARE_PIECE_MIN ((size_t)16 << 10)
#define MR_SPARE_REST_BYTES ((size_t)4 << 20)

/* @size bytes, 16-aligned; NULL: there is no memory. Freed with mr_spare_free(). */
void *mr_spare_malloc(size_t size);
void mr_spare_free(void *p); /* NULL is fine */
/* Give back all that is unused. */
void mr_spare_trim(void);
/* Bytes that are unused. For tests. */
size_t mr_spare_bytes(void);
