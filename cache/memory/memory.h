/*
 * The storage port in memory: for a window where there is no disk to be had. What was put is
 * copied, a file is a run of records, and nothing fails but for memory.
 *
 * Threads: as the port says.
 */
#ifndef MR_CACHE_MEMORY_H
#define MR_CACHE_MEMORY_H

#include "cache/storage.h"

int mr_storage_memory_new(mr_storage **ret, mr_error *err);

#endif
