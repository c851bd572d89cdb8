#include "cache/internal.h"

int mr_cache_reader_open(mr_cache_log *log, const struct mr_cache_reader_options *opts,
                         mr_cache_reader **ret, uint64_t *first, mr_error *err)
{
    MR_AUTO(mr_free) mr_cache_reader *r = mr_calloc(1, sizeof *r);

    MR_CHECK_ALLOC(r, err);
    r->ready = opts->ready;
    r->ctx = opts->ctx;
    MR_LOCK(&log->lock);
    mr_window_join(&log->window, &r->cursor, opts->lag);
    r->log = log;
    atomic_fetch_add(&log->refs, 1);
    LIST_INSERT_HEAD(&log->readers, r, link);
    *first = r->cursor.next;
    *ret = MR_TAKE(r);
    return MR_OK;
}

uint64_t mr_cache_reader_start(mr_cache_reader *r)
{
    mr_cache_log *log = r->log;

    MR_LOCK(&log->lock);
    mr_window_start(&log->window, &r->cursor);
    pthread_cond_broadcast(&log->producer);
    pthread_cond_signal(&log->work); /* it may not hold the head any more */
    return r->cursor.next;
}

void mr_cache_reader_resume(mr_cache_reader *r, uint64_t from)
{
    mr_cache_log *log = r->log;

    MR_LOCK(&log->lock);
    mr_window_resume(&log->window, &r->cursor, from);
    pthread_cond_broadcast(&log->producer);
    pthread_cond_signal(&log->work);
}

void mr_cache_reader_set_lag(mr_cache_reader *r, enum mr_cache_lag lag)
{
    MR_LOCK(&r->log->lock);
    mr_window_set_lag(&r->log->window, &r->cursor, lag);
    pthread_cond_signal(&r->log->work); /* it may not hold the head any more */
}

void mr_cache_reader_close(mr_cache_reader *r)
{
    if (r == NULL) {
        return;
    }
    mr_cache_log *log = r->log;
    mr_mutex_lock(&log->lock);
    r->due = r->armed = false;
    while (r->calling) {
        mr_cond_wait(&log->idle, &log->lock);
        r->due = false;
    }
    LIST_REMOVE(r, link);
    mr_window_leave(&log->window, &r->cursor);
    pthread_cond_signal(&log->work);
    mr_mutex_unlock(&log->lock);
    mr_cache_run_unref(r->held);
    mr_free(r);
    mr_cache_log_unref(log);
}

/* ---- reading ---- */

/* Everything that there is was read. */
static int at_end_locked(mr_cache_reader *r, mr_error *err)
{
    mr_cache_log *log = r->log;

    if (log->window.finished) {
        return MR_END;
    }
    if (log->failure.code != MR_OK) {
        *err = log->failure;
        return log->failure.code;
    }
    r->armed = true;
    return MR_TIMEOUT;
}

/* The record with element @index from the storage. No lock is held. */
static int load(mr_cache_log *log, uint64_t index, bool known, uint64_t key,
                struct mr_cache_run **ret, mr_error *err)
{
    const struct mr_storage_ops *ops = log->cache->storage->ops;
    struct mr_storage_value value;
    MR_AUTO(mr_cache_run_unref) struct mr_cache_run *run = NULL;

    if (!known) {
        MR_TRY(ops->find(log->storage, index, false /* upwards */, &key, err));
    }
    MR_TRY(ops->get(log->storage, key, &value, err));
    MR_TRY(mr_cache_run_load(log->cache, log->id, key, &value, &run, err));
    if (index - run->first >= run->rows) {
        return mr_error_set(err, MR_EDATALOSS,
                            "the record of elements %" PRIu64 " to %" PRIu64
                            " should hold %" PRIu64,
                            run->first, run->first + run->rows, index);
    }
    *ret = MR_TAKE(run);
    return MR_OK;
}

/* The record in memory with element @index, or NULL. */
static struct mr_cache_run *find_in_tail_locked(const mr_cache_log *log, uint64_t index)
{
    size_t low = 0, high = log->ntail;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct mr_cache_run *run = log->tail[middle];

        if (index < run->first) {
            high = middle;
        } else if (index >= run->first + run->rows) {
            low = middle + 1;
        } else {
            return run;
        }
    }
    return NULL;
}

static void read_ended_locked(mr_cache_log *log)
{
    log->reads--;
    if (log->reads == 0) {
        pthread_cond_broadcast(&log->idle);
    }
}

/* A reference to the record with the reader's next element. The lock is held on entry and exit, but
 * not meanwhile. */
static int find_locked(mr_cache_reader *r, uint64_t next, struct mr_cache_run **ret, mr_error *err)
{
    mr_cache_log *log = r->log;
    struct mr_cache_run *run = find_in_tail_locked(log, next);
    bool known = next == log->window.head || r->at == next;
    uint64_t key = r->at == next ? r->key : next;

    if (run != NULL) {
        log->read_memory_views++;
    } else if (r->held != NULL && next >= r->held->first && next - r->held->first < r->held->rows) {
        run = r->held;
    }
    if (run != NULL) {
        *ret = mr_cache_run_ref(run);
        return MR_OK;
    }
    log->reads++;
    log->read_disk_records++;
    mr_mutex_unlock(&log->lock);
    int rc = load(log, next, known, key, ret, err);
    mr_mutex_lock(&log->lock);
    read_ended_locked(log);
    return rc;
}

/* It could not be read, though it should be there: the log has failed. Returns the code. */
static int unreadable_locked(mr_cache_log *log, uint64_t next, int rc, mr_error *err)
{
    if (rc == MR_EEXHAUSTED) {
        return rc; /* memory: the next try may succeed */
    }
    if (rc == MR_ENOTFOUND) {
        rc = mr_error_set(err, MR_EDATALOSS, "the record is missing");
    }
    mr_error_wrap(err, "element %" PRIu64 " is not what was written", next);
    mr_cache_log_fail_locked(log, err);
    mr_error_wrap(err, "log '%s' in %s", log->name, log->cache->storage->place);
    return rc;
}

/* The reader is handed @view of @run; *@drop: a reference to release. */
static void advance_locked(mr_cache_reader *r, struct mr_cache_run *run, const mr_cache_view *view,
                           struct mr_cache_run **drop)
{
    uint64_t next = view->first + view->rows;
    /* What is read of an open record may be all there is now, and not all there will be. */
    bool whole = run->sealed && next == run->first + run->rows;

    mr_window_read(&r->log->window, &r->cursor, next);
    r->at = next;
    r->key = whole ? next : run->first;
    *drop = r->held;
    r->held = run->cache != NULL && !whole ? mr_cache_run_ref(run) : NULL;
    pthread_cond_signal(&r->log->producer);
}

/* MR_OK: *@ret; or the log goes on without this element: try again. */
#define AGAIN 100

static int next_locked(mr_cache_reader *r, uint64_t rows_max, uint64_t bytes_max,
                       mr_cache_view **ret, struct mr_cache_run *drop[2], mr_error *err)
{
    mr_cache_log *log = r->log;
    uint64_t next = r->cursor.next;

    if (log->closed) {
        return mr_error_set(err, MR_ECANCELED, "log '%s' was closed", log->name);
    }
    MR_ASSERT(r->cursor.started);
    if (next == log->window.end) {
        return at_end_locked(r, err);
    }
    int rc = find_locked(r, next, &drop[0], err);
    if (log->closed || r->cursor.next != next) {
        return AGAIN; /* closed, or dropped, while it was read */
    }
    if (rc < 0) {
        return unreadable_locked(log, next, rc, err);
    }
    MR_TRY(mr_cache_view_new(drop[0], next, rows_max, bytes_max, ret, err));
    advance_locked(r, drop[0], *ret, &drop[1]);
    return MR_OK;
}

int mr_cache_reader_next(mr_cache_reader *r, uint64_t rows_max, uint64_t bytes_max,
                         mr_cache_view **ret, mr_error *err)
{
    mr_cache_log *log = r->log;
    mr_error local;
    bool fails;
    int rc;

    do {
        struct mr_cache_run *drop[2] = {NULL, NULL};

        mr_mutex_lock(&log->lock);
        fails = log->failure.code == MR_OK;
        rc = next_locked(r, rows_max, bytes_max, ret, drop, err == NULL ? &local : err);
        fails = fails && log->failure.code != MR_OK;
        mr_mutex_unlock(&log->lock);
        mr_cache_run_unref(drop[0]);
        mr_cache_run_unref(drop[1]);
        if (fails) {
            mr_cache_set_failed(log->cache);
            mr_cache_log_tell(log);
        }
    } while (rc == AGAIN);
    return rc;
}

/* From @at on a record is found that begins behind @index. */
static bool is_behind(mr_cache_log *log, uint64_t index, uint64_t at, uint64_t *key)
{
    return log->cache->storage->ops->find(log->storage, at, true /* upwards */, key, NULL) ==
               MR_OK &&
           *key > index;
}

/*
 * Where the next record begins that can be found behind element @index, in a file that ends at
 * @end; @end if there is none. No lock is held.
 *
 * The storage may not see past the damage before it is asked for an element far enough behind it:
 * ever further steps find one, then halving the last step finds the nearest.
 */
static uint64_t find_record_behind(mr_cache_log *log, uint64_t index, uint64_t end)
{
    uint64_t low = index + 1, high = end, found = end, key;

    for (uint64_t step = 1; step < end - index; step *= 2) {
        if (is_behind(log, index, index + step, &key)) {
            high = index + step;
            found = MR_MIN(key, end);
            break;
        }
        low = index + step + 1;
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (is_behind(log, index, middle, &key)) {
            high = middle;
            found = MR_MIN(key, found);
        } else {
            low = middle + 1;
        }
    }
    return found;
}

uint64_t mr_cache_reader_pass(mr_cache_reader *r)
{
    mr_cache_log *log = r->log;
    uint64_t next, end;

    MR_LOCK(&log->lock);
    next = r->cursor.next;
    end = mr_window_file_end(&log->window, next);
    if (log->closed || end == 0) {
        return 0;
    }
    log->reads++;
    mr_mutex_unlock(&log->lock);
    end = find_record_behind(log, next, end);
    mr_mutex_lock(&log->lock);
    read_ended_locked(log);
    if (log->closed || r->cursor.next != next) {
        return 0; /* closed, or dropped meanwhile: next() says what comes */
    }
    mr_window_pass(&log->window, &r->cursor, end);
    r->at = r->key = end;
    return end - next;
}

/* ---- cursors ---- */

int mr_cache_reader_returned(mr_cache_reader *r, uint64_t upto, mr_error *err)
{
    mr_cache_log *log = r->log;

    MR_LOCK(&log->lock);
    int rc = mr_window_returned(&log->window, &r->cursor, upto, err);
    if (mr_window_trim_due(&log->window)) {
        pthread_cond_signal(&log->work);
    }
    return rc;
}

int mr_cache_reader_rewind(mr_cache_reader *r, uint64_t index, mr_error *err)
{
    MR_LOCK(&r->log->lock);
    return mr_window_rewind(&r->log->window, &r->cursor, index, err);
}

void mr_cache_reader_stats(const mr_cache_reader *r, struct mr_cache_reader_stats *ret)
{
    MR_LOCK(&r->log->lock);
    *ret = (struct mr_cache_reader_stats){
        .next = r->cursor.next, .returned = r->cursor.returned, .skipped = r->cursor.skipped};
}
