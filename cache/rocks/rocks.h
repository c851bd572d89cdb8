/*
 * The storage port over RocksDB: one database in one directory, one column family a log.
 *
 * What it relies on is in README.md. Threads: as the port says.
 */
#pragma once

#include "cache/storage.h"

/* Lock directory @dir (made if missing), wipe what an earlier life left there, open. MR_EPRECOND:
 * it is in use. @log_memory_bytes, what a log may have put and not flushed, sizes the write
 * buffers; @logs_max the threads that flush. */
int mr_rocks_open(const char *dir, uint64_t log_memory_bytes, uint32_t logs_max, mr_storage **ret,
                  mr_error *err);
