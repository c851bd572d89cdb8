#include "cache/internal.h"

#include "base/rng.h"

int mr_cache_new(mr_storage *storage, const struct mr_cache_limits *limits, mr_cache **ret,
                 mr_error *err)
{
    mr_cache *cache = mr_calloc(1, sizeof *cache);

    if (cache == NULL) {
        storage->ops->close(storage);
        return mr_error_nomem(err);
    }
    atomic_init(&cache->refs, 1);
    mr_mutex_init(&cache->lock);
    cache->storage = storage;
    cache->next_id =
        mr_random_u64(); /* No block of an earlier life's log is taken for one of ours. */
    cache->limits = *limits;
    *ret = cache;
    return MR_OK;
}

void mr_cache_unref(mr_cache *cache)
{
    if (atomic_fetch_sub(&cache->refs, 1) != 1) {
        return;
    }
    cache->storage->ops->close(cache->storage);
    pthread_mutex_destroy(&cache->lock);
    mr_free(cache);
}

void mr_cache_close(mr_cache *cache)
{
    if (cache == NULL) {
        return;
    }
    mr_mutex_lock(&cache->lock);
    MR_ASSERT(cache->logs == 0);
    mr_mutex_unlock(&cache->lock);
    mr_cache_unref(cache);
}

uint64_t mr_cache_bytes_free(mr_cache *cache)
{
    MR_LOCK(&cache->lock);
    return cache->limits.log_bytes_max - cache->reserved_bytes;
}

void mr_cache_set_failed(mr_cache *cache)
{
    MR_LOCK(&cache->lock);
    cache->failed = true;
}

void mr_cache_release_log(mr_cache *cache, uint64_t bytes)
{
    MR_LOCK(&cache->lock);
    cache->logs--;
    cache->reserved_bytes -= bytes;
}
