/* The cache of the tests over RocksDB, in a temporary directory. */
#include "cache.h"

#include "cache/rocks/rocks.h"

#include "cache/internal.h"

#include <stdlib.h>

void test_cache_open(struct test_cache *t, uint64_t disk, uint64_t memory, uint32_t logs)
{
    struct mr_cache_limits limits = {.log_bytes_max = disk,
                                     .log_bytes_min = 8 * 1024 * 1024,
                                     .log_memory_bytes = memory,
                                     .logs_max = logs};
    mr_storage *storage;
    mr_error err;

    *t = (struct test_cache){0};
    strcpy(t->dir, "/tmp/mr-cache-XXXXXX");
    if (mkdtemp(t->dir) == NULL) {
        test_die("no temporary directory");
    }
    if (mr_rocks_open(t->dir, memory, logs, &storage, &err) < 0 ||
        mr_cache_new(storage, &limits, &t->cache, &err) < 0) {
        test_die("opening the cache: %s", err.message);
    }
}

void test_cache_close(struct test_cache *t)
{
    char command[128];

    mr_cache_close(t->cache);
    (void)snprintf(command, sizeof command, "rm -rf %s", t->dir);
    if (system(command) != 0) {
        test_die("%s: cannot be removed", t->dir);
    }
}

bool test_cache_is_fake(void)
{
    return false;
}
