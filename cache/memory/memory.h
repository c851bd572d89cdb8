/*
 * The storage port in memory: for a window where there is no disk to be had. What was put is
 * copied, a file is a run of records, and nothing fails but for memory.
 *
 * Threads: as the port says.
 */
#ifndef MR_CACHE_MEMORY_H
#define MR_CACHE_MEMORY_H

#include "cache/storage.h"

/* Of any mr_storage whose `ops` they are, or begin with (cache/fake). */
extern const struct mr_storage_ops mr_memory_storage_ops;

#endif
