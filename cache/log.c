#include "cache/internal.h"

#include "base/clock.h"
#include "base/limits.h"

#define AHEAD_BYTES (1 * MR_MIB) /* how far production runs ahead of the fastest reader */

/* ---- open and close ---- */

static void destroy(mr_cache_log *log)
{
    if (log == NULL) {
        return;
    }
    mr_window_clear(&log->window);
    mr_free(log->tail);
    mr_free(log->name);
    pthread_mutex_destroy(&log->lock);
    pthread_cond_destroy(&log->producer);
    pthread_cond_destroy(&log->work);
    pthread_cond_destroy(&log->idle);
    mr_free(log);
}
MR_AUTO_DEFINE(mr_cache_log, destroy)

void mr_cache_log_unref(mr_cache_log *log)
{
    if (atomic_fetch_sub(&log->refs, 1) == 1) {
        destroy(log);
    }
}

static int make(mr_cache *cache, const char *name, uint64_t bytes_max, mr_cache_log **ret,
                mr_error *err)
{
    struct mr_window_limits limits = {.bytes_max = bytes_max, .ahead_bytes = AHEAD_BYTES};
    uint64_t memory_bytes = cache->limits.log_memory_bytes;
    MR_AUTO(destroy) mr_cache_log *log = mr_calloc(1, sizeof *log);

    MR_CHECK_ALLOC(log, err);
    limits.unstored_bytes_max = MR_MIN(memory_bytes, bytes_max / 4);
    limits.flush_bytes = limits.unstored_bytes_max / 4;
    atomic_init(&log->refs, 1);
    log->cache = cache;
    /* When there is no room for one, what there is besides the open record makes a file. */
    log->chunk_bytes_max = (limits.unstored_bytes_max / 2) & ~(uint64_t)(MR_CACHE_ALIGNMENT - 1);
    mr_mutex_init(&log->lock);
    mr_cond_init(&log->producer);
    mr_cond_init(&log->work);
    mr_cond_init(&log->idle);
    LIST_INIT(&log->readers);
    log->name = mr_strdup(name);
    MR_CHECK_ALLOC(log->name, err);
    mr_window_init(&log->window, &limits);
    *ret = MR_TAKE(log);
    return MR_OK;
}

/* Count the log in; begin anew if an earlier one failed and nobody holds anything. */
static int reserve(mr_cache *cache, uint64_t *bytes, uint64_t *id, mr_error *err)
{
    MR_LOCK(&cache->lock);
    if (cache->logs == cache->limits.logs_max) {
        return mr_error_set(err, MR_EEXHAUSTED,
                            "there are %" PRIu32 " logs, as many as there may be", cache->logs);
    }
    uint64_t left = cache->limits.log_bytes_max - cache->reserved_bytes;
    *bytes = *bytes == 0 ? left : *bytes;
    uint64_t least = cache->limits.log_bytes_min;
    if (*bytes < least) {
        return mr_error_set(err, left < least ? MR_EEXHAUSTED : MR_EINVAL,
                            "a log of %" PRIu64 " bytes is too small, %" PRIu64 " is the least",
                            *bytes, least);
    }
    if (*bytes > left) {
        return mr_error_set(err, MR_EEXHAUSTED,
                            "%" PRIu64 " bytes are more than the %" PRIu64 " that are free", *bytes,
                            left);
    }
    if (cache->failed && cache->logs == 0 && atomic_load(&cache->pinned) == 0) {
        /* No log: nobody else is in the storage or waits for this lock but to be counted in. */
        MR_TRY(cache->storage->ops->reset(cache->storage, err));
        cache->failed = false;
    }
    cache->logs++;
    cache->reserved_bytes += *bytes;
    *id = cache->next_id++;
    return MR_OK;
}

/* Of the bytes that were reserved for it. */
static int open_reserved(mr_cache *cache, const char *name, uint64_t bytes, uint64_t id,
                         mr_cache_log **ret, mr_error *err)
{
    MR_AUTO(destroy) mr_cache_log *log = NULL;

    MR_TRY(make(cache, name, bytes, &log, err));
    log->id = id;
    int rc = cache->storage->ops->create(cache->storage, id, &log->storage, err);
    if (rc < 0) {
        mr_cache_set_failed(cache);
        return rc;
    }
    rc = mr_thread_start(&log->writer, "cache-writer", mr_cache_writer_main, log, err);
    if (rc < 0) {
        (void)cache->storage->ops->drop(log->storage, NULL);
        return rc;
    }
    *ret = MR_TAKE(log);
    return MR_OK;
}

int mr_cache_log_open(mr_cache *cache, const char *name, uint64_t bytes_max, mr_cache_log **ret,
                      mr_error *err)
{
    uint64_t id = 0;
    int rc = reserve(cache, &bytes_max, &id, err);

    if (rc == MR_OK) {
        rc = open_reserved(cache, name, bytes_max, id, ret, err);
        if (rc < 0) {
            mr_cache_release_log(cache, bytes_max);
        }
    }
    if (rc < 0) {
        mr_error_wrap(err, "opening log '%s' in %s", name, cache->storage->place);
        return rc;
    }
    atomic_fetch_add(&cache->refs, 1);
    return MR_OK;
}

void mr_cache_log_close(mr_cache_log *log)
{
    if (log == NULL) {
        return;
    }
    mr_cache *cache = log->cache;
    mr_mutex_lock(&log->lock);
    MR_ASSERT(!log->closed);
    log->closed = true;
    mr_cache_log_ready_locked(log);
    pthread_cond_broadcast(&log->work);
    mr_mutex_unlock(&log->lock);
    mr_cache_log_tell(log);

    pthread_join(log->writer, NULL);
    mr_mutex_lock(&log->lock);
    while (log->reads > 0) {
        mr_cond_wait(&log->idle, &log->lock);
    }
    mr_mutex_unlock(&log->lock);
    /* Who reads from now on sees `closed` first. */
    if (cache->storage->ops->drop(log->storage, NULL) < 0) {
        mr_cache_set_failed(cache); /* files may be left */
    }
    for (size_t i = 0; i < log->ntail; i++) {
        mr_cache_run_unref(log->tail[i]);
    }
    mr_cache_release_log(cache, log->window.limits.bytes_max);
    mr_cache_log_unref(log);
    mr_cache_unref(cache);
}

/* ---- failure, and telling readers ---- */

void mr_cache_log_fail_locked(mr_cache_log *log, const mr_error *err)
{
    if (log->failure.code != MR_OK) {
        return;
    }
    log->failure = *err;
    mr_error_wrap(&log->failure, "log '%s' in %s", log->name, log->cache->storage->place);
    pthread_cond_broadcast(&log->producer);
    mr_cache_log_ready_locked(log);
}

void mr_cache_log_ready_locked(mr_cache_log *log)
{
    struct mr_cache_reader *r;

    LIST_FOREACH(r, &log->readers, link) {
        r->due = r->due || (r->armed && r->ready != NULL);
        r->armed = false;
    }
}

static struct mr_cache_reader *due_locked(const mr_cache_log *log)
{
    struct mr_cache_reader *r;

    LIST_FOREACH(r, &log->readers, link) {
        /* If it is being called, whoever calls it looks again. */
        if (r->due && !r->calling) {
            return r;
        }
    }
    return NULL;
}

void mr_cache_log_tell(mr_cache_log *log)
{
    struct mr_cache_reader *r;

    mr_mutex_lock(&log->lock);
    while ((r = due_locked(log)) != NULL) {
        r->due = false;
        r->calling = true; /* so that it is not closed meanwhile */
        mr_mutex_unlock(&log->lock);
        r->ready(r->ctx);
        mr_mutex_lock(&log->lock);
        r->calling = false;
        pthread_cond_broadcast(&log->idle);
    }
    mr_mutex_unlock(&log->lock);
}

/* ---- the producer ---- */

/* MR_OK: go on. */
static int stopped_locked(const mr_cache_log *log, mr_error *err)
{
    if (log->cancelled) {
        return mr_error_set(err, MR_ECANCELED, "log '%s' was cancelled", log->name);
    }
    if (log->failure.code != MR_OK) {
        if (err != NULL) {
            *err = log->failure;
        }
        return log->failure.code;
    }
    return MR_OK;
}

int mr_cache_log_wait(mr_cache_log *log, uint64_t *rows, mr_error *err)
{
    MR_LOCK(&log->lock);
    for (;;) {
        uint64_t demand = mr_window_demand(&log->window);

        MR_TRY(stopped_locked(log, err));
        if (log->window.finished) {
            return MR_END;
        }
        if (demand > 0) {
            *rows = demand;
            return MR_OK;
        }
        mr_cond_wait(&log->producer, &log->lock);
    }
}

/* MR_EINVAL: it is none. */
static int measure(const mr_cache_log *log, const struct mr_cache_chunk *chunk, uint64_t *bytes,
                   mr_error *err)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < chunk->n; i++) {
        sum += chunk->iov[i].iov_len;
    }
    if (chunk->rows == 0 || sum == 0 || sum % MR_CACHE_ALIGNMENT != 0) {
        return mr_error_set(err, MR_EINVAL,
                            "a chunk of %" PRIu32 " rows and %" PRIu64
                            " bytes: neither may be 0, and the bytes must be a multiple of %u",
                            chunk->rows, sum, MR_CACHE_ALIGNMENT);
    }
    if (sum > log->chunk_bytes_max) {
        return mr_error_set(err, MR_EINVAL,
                            "a chunk of %" PRIu64
                            " bytes is more than log '%s' takes at once (%" PRIu64
                            "): give the cache more memory",
                            sum, log->name, log->chunk_bytes_max);
    }
    *bytes = sum;
    return MR_OK;
}

static struct mr_cache_run *last_locked(const mr_cache_log *log)
{
    return log->ntail == 0 ? NULL : log->tail[log->ntail - 1];
}

/* The record that takes the next chunk, the last of the tail; *@fresh: it is new. */
static int open_run_locked(mr_cache_log *log, struct mr_cache_run **ret, bool *fresh, mr_error *err)
{
    MR_AUTO(mr_cache_run_unref) struct mr_cache_run *run = NULL;

    *ret = last_locked(log);
    *fresh = *ret == NULL || (*ret)->sealed;
    if (!*fresh) {
        return MR_OK;
    }
    MR_TRY(mr_cache_run_new(log->window.end, &run, err));
    run->opened_ms = mr_now_ms();
    if (!mr_grow(&log->tail, &log->tail_cap, log->ntail, 1, sizeof log->tail[0])) {
        return mr_error_nomem(err);
    }
    log->tail[log->ntail++] = *ret = MR_TAKE(run);
    return MR_OK;
}

/* The last record takes no more: a reference to it, for the storage; or NULL. */
static struct mr_cache_run *seal_locked(mr_cache_log *log)
{
    struct mr_cache_run *run = last_locked(log);

    if (run == NULL || run->sealed) {
        return NULL;
    }
    run->sealed = true;
    return mr_cache_run_ref(run);
}

/* Add @chunk to the tail. *@sealed are records for the storage, references. */
static int add_locked(mr_cache_log *log, const struct mr_cache_chunk *chunk, uint64_t bytes,
                      bool *copied, struct mr_cache_run *sealed[2], mr_error *err)
{
    struct mr_cache_run *run = last_locked(log);
    bool fresh;

    if (run != NULL && mr_now_ms() - run->opened_ms >= MR_CACHE_RECORD_AGE_MS) {
        sealed[0] = seal_locked(log);
    }
    MR_TRY(open_run_locked(log, &run, &fresh, err));
    uint64_t charge = fresh ? 0 : run->charge;
    int rc = mr_cache_run_add(run, chunk, bytes, copied, err);
    if (rc < 0) {
        if (fresh) {
            log->ntail--;
            mr_cache_run_unref(run);
        }
        return rc;
    }
    mr_window_append(&log->window, chunk->rows, run->charge - charge);
    if (run->payload >= MR_CACHE_RECORD_BYTES) {
        sealed[1] = seal_locked(log);
    }
    mr_cache_log_ready_locked(log);
    return MR_OK;
}

static int store(mr_cache_log *log, const struct mr_cache_run *run, size_t front, mr_error *err)
{
    struct mr_record_head head = {.log = log->id,
                                  .first = run->first,
                                  .payload = run->payload,
                                  .rows = run->rows,
                                  .chunks = (uint32_t)run->nchunks};
    size_t niov = run->niov + 1;
    MR_AUTO(mr_free) struct iovec *iov = mr_malloc(niov * sizeof *iov + front);

    MR_CHECK_ALLOC(iov, err);
    iov[0] = (struct iovec){iov + niov, front};
    memcpy(iov + 1, run->iov, run->niov * sizeof *iov);
    mr_record_encode(&head, run->chunks, iov[0].iov_base);
    return log->cache->storage->ops->put(log->storage, run->first, iov, niov, err);
}

/* Give @run, whose reference it takes, to the storage. Takes log->lock to say so. */
static void put(mr_cache_log *log, struct mr_cache_run *run)
{
    size_t front = mr_record_front_bytes((uint32_t)run->nchunks);
    mr_error err;
    int rc = store(log, run, front, &err);

    mr_mutex_lock(&log->lock);
    if (rc < 0) {
        mr_cache_log_fail_locked(log, &err);
    } else {
        log->appended_bytes += front + run->payload;
        /* If a flush took it along already, it is in a file. */
        if (!run->put) {
            run->put = true;
            log->ready_bytes += run->charge;
            pthread_cond_signal(&log->work);
        }
    }
    mr_mutex_unlock(&log->lock);
    if (rc < 0) {
        mr_cache_set_failed(log->cache);
        mr_cache_log_tell(log);
    }
    mr_cache_run_unref(run);
}

int mr_cache_log_append(mr_cache_log *log, const struct mr_cache_chunk *chunk, mr_error *err)
{
    struct mr_cache_run *sealed[2] = {NULL, NULL};
    bool release = true;
    uint64_t bytes = 0;
    int rc = measure(log, chunk, &bytes, err);

    if (rc == MR_OK) {
        mr_mutex_lock(&log->lock);
        MR_ASSERT(!log->window.finished);
        while ((rc = stopped_locked(log, err)) == MR_OK && !mr_window_room(&log->window, bytes)) {
            log->waiting = true;
            mr_cond_wait(&log->producer, &log->lock);
        }
        log->waiting = false;
        if (rc == MR_OK) {
            rc = add_locked(log, chunk, bytes, &release, sealed, err);
        }
        mr_mutex_unlock(&log->lock);
        mr_cache_log_tell(log);
    }
    for (size_t i = 0; i < 2; i++) {
        if (sealed[i] != NULL) {
            put(log, sealed[i]);
        }
    }
    if (release && chunk->release != NULL) {
        chunk->release(chunk->ctx);
    }
    return rc;
}

void mr_cache_log_finish(mr_cache_log *log)
{
    mr_mutex_lock(&log->lock);
    mr_window_finish(&log->window);
    mr_cache_log_ready_locked(log);
    pthread_cond_broadcast(&log->producer);
    mr_mutex_unlock(&log->lock);
    mr_cache_log_tell(log);
}

void mr_cache_log_cancel(mr_cache_log *log)
{
    MR_LOCK(&log->lock);
    log->cancelled = true;
    pthread_cond_broadcast(&log->producer);
}

void mr_cache_log_stats(mr_cache_log *log, struct mr_cache_log_stats *ret)
{
    const mr_cache_reader *r;

    MR_LOCK(&log->lock);
    *ret = (struct mr_cache_log_stats){.head = log->window.head,
                                       .end = log->window.end,
                                       .held = log->waiting && mr_window_held(&log->window),
                                       .failure = log->failure,
                                       .bytes_max = log->window.limits.bytes_max,
                                       .chunk_bytes_max = log->chunk_bytes_max,
                                       .file_bytes = log->window.file_bytes,
                                       .memory_bytes = log->window.unstored_bytes,
                                       .appended_bytes = log->appended_bytes,
                                       .written_bytes = log->written_bytes,
                                       .read_disk_records = log->read_disk_records,
                                       .read_memory_views = log->read_memory_views,
                                       .files = log->window.nfiles};
    LIST_FOREACH(r, &log->readers, link) {
        ret->readers++;
    }
}
