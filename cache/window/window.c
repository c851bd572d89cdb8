#include "cache/window/window.h"

#include "base/base.h"

void mr_window_init(mr_window *w, const struct mr_window_limits *limits)
{
    MR_ASSERT(limits->flush_bytes > 0);
    MR_ASSERT(limits->flush_bytes <= limits->unstored_bytes_max / 2);
    MR_ASSERT(limits->unstored_bytes_max <= limits->bytes_max / 4);
    *w = (mr_window){.limits = *limits};
    LIST_INIT(&w->readers);
}

void mr_window_clear(mr_window *w)
{
    MR_ASSERT(LIST_EMPTY(&w->readers));
    mr_free(w->files);
}

/* ---- production ---- */

uint64_t mr_window_demand(const mr_window *w)
{
    const mr_window_reader *r;
    uint64_t fastest = 0, target = 1;
    bool anybody = false;

    LIST_FOREACH(r, &w->readers, link) {
        if (r->started) {
            anybody = true;
            fastest = MR_MAX(r->next, fastest);
        }
    }
    if (!anybody || w->finished) {
        return 0;
    }
    if (w->end > 0) {
        uint64_t row_bytes = w->appended_bytes / w->end;

        target = w->limits.ahead_bytes / (row_bytes == 0 ? 1 : row_bytes);
        target = target == 0 ? 1 : target;
    }
    return w->end - fastest < target ? target - (w->end - fastest) : 0;
}

bool mr_window_room(const mr_window *w, uint64_t bytes)
{
    return bytes <= w->limits.unstored_bytes_max &&
           w->unstored_bytes <= w->limits.unstored_bytes_max - bytes;
}

void mr_window_append(mr_window *w, uint64_t rows, uint64_t bytes)
{
    MR_ASSERT(!w->finished);
    MR_ASSERT(rows > 0);
    w->end += rows;
    w->unstored_bytes += bytes;
    w->appended_bytes += bytes;
}

void mr_window_finish(mr_window *w)
{
    w->finished = true;
}

/* ---- storage ---- */

bool mr_window_flush_due(const mr_window *w, uint64_t ready)
{
    /* More may be appended while the file is written: all that memory holds must fit. */
    return ready >= w->limits.flush_bytes &&
           w->file_bytes + w->limits.unstored_bytes_max <= w->limits.bytes_max;
}

int mr_window_stored(mr_window *w, uint64_t end, uint64_t bytes, uint64_t file_bytes, mr_error *err)
{
    if (!mr_grow(&w->files, &w->cap, w->nfiles, 1, sizeof w->files[0])) {
        return mr_error_nomem(err);
    }
    MR_ASSERT(end > w->stored_end);
    MR_ASSERT(end <= w->end);
    MR_ASSERT(bytes <= w->unstored_bytes);
    w->files[w->nfiles++] = (struct mr_window_file){end, file_bytes};
    w->stored_end = end;
    w->unstored_bytes -= bytes;
    w->file_bytes += file_bytes;
    return MR_OK;
}

/* Elements from here on must stay. */
static uint64_t hold(const mr_window *w)
{
    const mr_window_reader *r;
    uint64_t min = UINT64_MAX;

    LIST_FOREACH(r, &w->readers, link) {
        bool holds = r->started ? r->lag == MR_CACHE_LAG_WAIT : r->next == 0;

        if (holds && r->returned < min) {
            min = r->returned;
        }
    }
    return min;
}

/* Without one file less there is no room for another. */
static bool is_full(const mr_window *w)
{
    return w->nfiles > 0 && w->file_bytes + w->limits.unstored_bytes_max > w->limits.bytes_max;
}

bool mr_window_trim_due(const mr_window *w)
{
    return is_full(w) && hold(w) >= w->files[0].end;
}

bool mr_window_held(const mr_window *w)
{
    return is_full(w) && hold(w) < w->files[0].end;
}

/* Elements [r->next, upto) are not to be had. */
static void skip(mr_window_reader *r, uint64_t upto)
{
    if (r->started) {
        r->skipped += upto - r->next;
        if (r->ngaps == MR_WINDOW_GAPS_MAX) {
            memmove(r->gaps, r->gaps + 1, (MR_WINDOW_GAPS_MAX - 1) * sizeof r->gaps[0]);
            r->ngaps--;
        }
        r->gaps[r->ngaps++] = (struct mr_window_gap){r->next, upto};
    } else {
        r->returned = upto;
    }
    r->next = upto;
}

void mr_window_trim(mr_window *w)
{
    mr_window_reader *r;

    MR_ASSERT(w->nfiles > 0);
    w->head = w->files[0].end;
    w->file_bytes -= w->files[0].bytes;
    w->nfiles--;
    memmove(w->files, w->files + 1, w->nfiles * sizeof w->files[0]);
    LIST_FOREACH(r, &w->readers, link) {
        if (r->next < w->head) {
            MR_ASSERT(r->lag == MR_CACHE_LAG_SKIP || !r->started);
            skip(r, w->head);
        }
    }
}

uint64_t mr_window_file_end(const mr_window *w, uint64_t index)
{
    for (size_t i = 0; i < w->nfiles && index >= w->head; i++) {
        if (index < w->files[i].end) {
            return w->files[i].end;
        }
    }
    return 0;
}

/* ---- readers ---- */

void mr_window_join(mr_window *w, mr_window_reader *r, enum mr_cache_lag lag)
{
    *r = (mr_window_reader){.lag = lag, .next = w->head, .returned = w->head};
    LIST_INSERT_HEAD(&w->readers, r, link);
}

void mr_window_start(mr_window *w, mr_window_reader *r)
{
    MR_ASSERT(!r->started);
    r->started = true;
}

void mr_window_resume(mr_window *w, mr_window_reader *r, uint64_t from)
{
    MR_ASSERT(!r->started);
    MR_ASSERT(from <= w->end);
    r->started = true;
    r->next = r->returned = from;
    if (from < w->head) {
        skip(r, w->head);
    }
}

void mr_window_set_lag(mr_window *w, mr_window_reader *r, enum mr_cache_lag lag)
{
    r->lag = lag;
}

void mr_window_leave(mr_window *w, mr_window_reader *r)
{
    LIST_REMOVE(r, link);
}

void mr_window_read(mr_window *w, mr_window_reader *r, uint64_t upto)
{
    MR_ASSERT(r->started);
    MR_ASSERT(upto > r->next);
    MR_ASSERT(upto <= w->end);
    r->next = upto;
}

void mr_window_pass(mr_window *w, mr_window_reader *r, uint64_t upto)
{
    MR_ASSERT(r->started);
    MR_ASSERT(upto > r->next);
    MR_ASSERT(upto <= w->stored_end);
    skip(r, upto);
}

int mr_window_returned(mr_window *w, mr_window_reader *r, uint64_t upto, mr_error *err)
{
    size_t passed = 0;

    if (upto > r->next) {
        return mr_error_set(err, MR_EINVAL, "returned up to %" PRIu64 ", and was handed %" PRIu64,
                            upto, r->next);
    }
    r->returned = MR_MAX(r->returned, upto);
    while (passed < r->ngaps && r->gaps[passed].end <= r->returned) {
        passed++;
    }
    r->ngaps -= passed;
    memmove(r->gaps, r->gaps + passed, r->ngaps * sizeof r->gaps[0]);
    return MR_OK;
}

/* Elements from @first on that @r skipped; forgets those gaps. */
static uint64_t forget_gaps(mr_window_reader *r, uint64_t first)
{
    uint64_t sum = 0;

    while (r->ngaps > 0 && r->gaps[r->ngaps - 1].end > first) {
        struct mr_window_gap *gap = &r->gaps[r->ngaps - 1];
        uint64_t from = MR_MAX(gap->first, first);

        sum += gap->end - from;
        if (gap->first < first) {
            gap->end = first;
            break;
        }
        r->ngaps--;
    }
    return sum;
}

int mr_window_rewind(mr_window *w, mr_window_reader *r, uint64_t index, mr_error *err)
{
    MR_ASSERT(r->started);
    if (index < r->returned || index > r->next) {
        return mr_error_set(err, MR_EINVAL,
                            "going back to %" PRIu64 ", outside of %" PRIu64
                            " (returned) to %" PRIu64 " (handed out)",
                            index, r->returned, r->next);
    }
    /* What is gone of it, or cannot be read, counts when it is passed again; so it must not have
     * been counted before. */
    r->skipped -= forget_gaps(r, index);
    r->next = index;
    if (index < w->head) {
        skip(r, w->head);
    }
    return MR_OK;
}
