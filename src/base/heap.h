/*
 * What glibc's malloc does with memory that was freed. It is set up to keep it, since giving it
 * back and faulting it in again costs more than half of the throughput of large messages; what is
 * too much is given back now and then.
 *
 * With MILLRACE_MALLOC=keep in the environment nothing here does anything.
 *
 * Threads: safe from any thread.
 */
#pragma once

#include <stddef.h>

/* For the whole process: large blocks come from the heap, and its end stays. */
void mr_heap_keep_large(void);

/* For a program of ours, before it starts a thread: at most one arena a core. Each keeps what its
 * fullest hour took, and up to 64 MiB of its end for good, so that glibc's eight a core hold a
 * multiple of any budget. */
void mr_heap_few_arenas(void);

/* So much that is free may stay. */
#define MR_HEAP_FREE_BYTES ((size_t)256 << 20)

/* Give back what is free if it is more than that. It may take a second, in which some threads wait:
 * not often. */
void mr_heap_trim(void);
