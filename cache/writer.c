/*
 * The thread of a log that makes files of what was appended and drops the oldest ones. Only this
 * thread flushes and drops, so that a file is never dropped while it is being made; the producer
 * only puts, and waits for room.
 *
 * A file is dropped before the next one is written, so that both never exceed the log's bytes.
 */
#include "cache/internal.h"

/* The lock is held on entry and exit, but not meanwhile. */
static int drop_oldest_locked(mr_cache_log *log, mr_error *err)
{
    /* First the head, then the file: a reader that finds nothing sees why. */
    mr_window_trim(&log->window);
    mr_mutex_unlock(&log->lock);
    int rc = log->cache->storage->ops->remove_oldest(log->storage, err);
    mr_mutex_lock(&log->lock);
    return rc;
}

/* Take what @file holds off the tail; the caller releases it. */
static int move_locked(mr_cache_log *log, const struct mr_storage_file *file,
                       struct mr_cache_run ***ret, size_t *n, mr_error *err)
{
    uint64_t charge = 0, ready = 0;
    size_t count = 0;

    while (count < log->ntail && log->tail[count]->first <= file->last) {
        count++;
    }
    if (count == 0) {
        return mr_error_set(err, MR_EINTERNAL,
                            "a file up to element %" PRIu64 " holds nothing that was not stored",
                            file->last);
    }
    MR_AUTO(mr_free)
    struct mr_cache_run **runs = mr_memdup(log->tail, count * sizeof *runs);
    MR_CHECK_ALLOC(runs, err);
    for (size_t i = 0; i < count; i++) {
        charge += runs[i]->charge;
        ready += runs[i]->put ? runs[i]->charge : 0;
    }
    const struct mr_cache_run *last = runs[count - 1];
    MR_TRY(mr_window_stored(&log->window, last->first + last->rows, charge, file->bytes, err));
    for (size_t i = 0; i < count; i++) {
        runs[i]->put = true; /* the producer need not count it any more */
    }
    log->ntail -= count;
    memmove(log->tail, log->tail + count, log->ntail * sizeof log->tail[0]);
    log->ready_bytes -= ready;
    log->written_bytes += file->bytes;
    *ret = MR_TAKE(runs);
    *n = count;
    return MR_OK;
}

/* The lock is held on entry and exit, but not meanwhile. */
static int write_file_locked(mr_cache_log *log, mr_error *err)
{
    struct mr_cache_run **runs = NULL;
    struct mr_storage_file file;
    size_t n = 0;

    mr_mutex_unlock(&log->lock);
    int rc = log->cache->storage->ops->flush(log->storage, &file, err);
    mr_mutex_lock(&log->lock);
    MR_TRY(rc);
    MR_TRY(move_locked(log, &file, &runs, &n, err));
    pthread_cond_broadcast(&log->producer);
    mr_mutex_unlock(&log->lock);
    for (size_t i = 0; i < n; i++) {
        mr_cache_run_unref(runs[i]);
    }
    mr_free(runs);
    mr_mutex_lock(&log->lock);
    return MR_OK;
}

void *mr_cache_writer_main(void *ctx)
{
    mr_cache_log *log = ctx;
    mr_error err;
    int rc = MR_OK;

    mr_mutex_lock(&log->lock);
    while (!log->closed && log->failure.code == MR_OK && rc == MR_OK) {
        if (mr_window_trim_due(&log->window)) {
            rc = drop_oldest_locked(log, &err);
        } else if (mr_window_flush_due(&log->window, log->ready_bytes)) {
            rc = write_file_locked(log, &err);
        } else {
            mr_cond_wait(&log->work, &log->lock);
        }
    }
    if (rc < 0) {
        mr_cache_log_fail_locked(log, &err);
    }
    mr_mutex_unlock(&log->lock);
    if (rc < 0) {
        mr_cache_set_failed(log->cache);
        mr_cache_log_tell(log);
    }
    return NULL;
}
