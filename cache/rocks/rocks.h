/*
 * The storage port over RocksDB: one database in one directory, one column family a log.
 *
 * What it relies on is in README.md. Threads: as the port says.
 */
#ifndef MR_CACHE_ROCKS_H
#define MR_CACHE_ROCKS_H

#include "cache/storage.h"

struct mr_rocks_options {
    const char *dir;
    /* what a log may have put and not flushed: sizes the write buffers */
    uint64_t log_memory_bytes;
    uint32_t logs_max; /* sizes the threads that flush */
};

/*
 * Lock the directory (made if missing), wipe what an earlier life left there, open. MR_EPRECOND: it
 * is in use.
 */
int mr_rocks_open(const struct mr_rocks_options *opts, mr_storage **ret, mr_error *err);

#endif
