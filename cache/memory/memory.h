/*
 * The storage port in memory: for a window where there is no disk to be had. What was put is
 * copied, a file is a run of records, and nothing fails but for memory.
 *
 * Threads: as the port says.
 */
#ifndef MR_CACHE_MEMORY_H
#define MR_CACHE_MEMORY_H

#include "cache/storage.h"

#include <stdatomic.h>

/* For what extends it (cache/fake): its logs may belong to any storage that begins with this. */
struct mr_memory_storage {
    mr_storage base;
    _Atomic uint64_t bytes;
    _Atomic unsigned logs;
};
extern const struct mr_storage_ops mr_memory_storage_ops;

int mr_storage_memory_new(mr_storage **ret, mr_error *err);

#endif
