/* The cache of the tests over the storage in memory. */
#include "cache.h"

#include "cache/fake/fake.h"
#include "cache/internal.h"

#include <stdio.h>

void test_cache_open(struct test_cache *t, uint64_t disk, uint64_t memory, uint32_t logs)
{
    struct mr_cache_limits limits = {.log_bytes_max = disk,
                                     .log_bytes_min = 8 * 1024 * 1024,
                                     .log_memory_bytes = memory,
                                     .logs_max = logs};
    mr_storage *storage;
    mr_error err;

    *t = (struct test_cache){0};
    if (mr_storage_fake_new(&storage, &err) < 0 ||
        mr_cache_new(storage, &limits, &t->cache, &err) < 0) {
        test_die("opening the cache: %s", err.message);
    }
    t->storage = storage;
}

void test_cache_close(struct test_cache *t)
{
    mr_cache_close(t->cache);
}

bool test_cache_is_fake(void)
{
    return true;
}
