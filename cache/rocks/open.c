/* The cache over RocksDB: how its bytes are divided. */
#include "cache/rocks/rocks.h"

#include "base/error.h"
#include "base/limits.h"
#include "base/scope.h"
#include "cache/internal.h"

#include <inttypes.h>

#define DISK_BYTES (10240 * MR_MIB)
#define DISK_BYTES_MIN (32 * MR_MIB)
/* For RocksDB's own files: manifest, options, log, and what a file has besides its records. */
#define DISK_BYTES_RESERVED (8 * MR_MIB)
#define MEMORY_BYTES (256 * MR_MIB)
#define MEMORY_BYTES_MIN (16 * MR_MIB)
#define LOGS_MAX 4u
#define LOGS_LIMIT 1024u
/* Quarters of what a log may have unstored that it holds: those records 4, write buffer 4, the
 * record being put 2. */
#define QUARTERS_PER_LOG 10

static int open_over_rocks(const struct mr_cache_options *opts, mr_cache **ret, mr_error *err)
{
    uint64_t disk = opts->disk_bytes_max == 0 ? DISK_BYTES : opts->disk_bytes_max;
    uint64_t memory = opts->memory_bytes_max == 0 ? MEMORY_BYTES : opts->memory_bytes_max;
    uint32_t logs = opts->logs_max == 0 ? LOGS_MAX : opts->logs_max;
    struct mr_cache_limits limits = {.log_bytes_max = disk - DISK_BYTES_RESERVED,
                                     .log_memory_bytes = memory / logs * 4 / QUARTERS_PER_LOG,
                                     .logs_max = logs};
    struct mr_rocks_options rocks = {
        .dir = opts->dir, .log_memory_bytes = limits.log_memory_bytes, .logs_max = logs};
    mr_storage *storage = NULL;

    if (disk < DISK_BYTES_MIN || memory < MEMORY_BYTES_MIN || logs > LOGS_LIMIT) {
        return mr_error_set(err, MR_EINVAL,
                            "%" PRIu64 " bytes of disk (at least %llu), %" PRIu64
                            " of memory (at least %llu), %" PRIu32 " logs (at most %u)",
                            disk, DISK_BYTES_MIN, memory, MEMORY_BYTES_MIN, logs, LOGS_LIMIT);
    }
    if (limits.log_memory_bytes < MR_MIB) {
        return mr_error_set(err, MR_EINVAL,
                            "%" PRIu64 " bytes of memory are too few for %" PRIu32 " logs", memory,
                            logs);
    }
    MR_TRY(mr_rocks_open(&rocks, &storage, err));
    return mr_cache_new(storage, &limits, ret, err);
}

int mr_cache_open(const struct mr_cache_options *opts, mr_cache **ret, mr_error *err)
{
    MR_TRY_WRAP(open_over_rocks(opts, ret, err), err, "cache directory '%s'", opts->dir);
    return MR_OK;
}
