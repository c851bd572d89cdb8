/*
 * Memory: every allocation of Millrace's own goes through here, so that a test can fail the nth
 * one.
 *
 * Threads: safe from any thread.
 */
#pragma once

#include <millrace/base.h>

#define MR_ALIGNMENT 64

void *mr_malloc(size_t size) __attribute__((malloc));
void *mr_calloc(size_t n, size_t size) __attribute__((malloc)); /* NULL on overflow too */
void *mr_realloc(void *p, size_t size);
/* n * size with the overflow checked. */
void *mr_reallocarray(void *p, size_t n, size_t size);
/* Room for @more entries of @size bytes behind the @n that *@array has; @array is the address of
 * the pointer, and *@cap counts entries. false: no memory, and nothing has changed. */
bool mr_grow(void *array, size_t *cap, size_t n, size_t more, size_t size);
/* Aligned to MR_ALIGNMENT; freed with mr_free(). */
void *mr_malloc_aligned(size_t size) __attribute__((malloc));
/* @p, of @size bytes that are about to be written, may lie in huge pages where that saves most of
 * its page faults: advice to the system, which may have none. Nothing happens for less than 4
 * MiB. */
void mr_advise_large(void *p, size_t size);
char *mr_strdup(const char *s) __attribute__((malloc));
char *mr_strndup(const char *s, size_t n) __attribute__((malloc));
/* n = 0 gives a freeable pointer */
void *mr_memdup(const void *p, size_t n) __attribute__((malloc));
char *mr_asprintf(const char *fmt, ...) MR_PRINTF(1, 2);

/* Let the nth allocation from now on (1 = the next) fail, once; 0 turns it off. For tests. */
void mr_alloc_fail_at(uint64_t nth);
/* Allocations since the start of the process. For tests. */
uint64_t mr_alloc_count(void);
