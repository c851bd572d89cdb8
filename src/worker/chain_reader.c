/* Readers of a chain: joining, reading from log to log, cursors. */
#include "worker/chain_internal.h"

#include "base/log.h"

static struct mr_chain_place *find_place_locked(const mr_chain *p, const char *who)
{
    struct mr_chain_place *place;

    LIST_FOREACH(place, &p->places, link) {
        if (strcmp(place->who, who) == 0) {
            break;
        }
    }
    return place;
}

/* There from the beginning: a reader that leaves must not need memory to be followed. NULL: no
 * memory. */
static struct mr_chain_place *get_place_locked(mr_chain *p, const char *who)
{
    struct mr_chain_place *place = find_place_locked(p, who);

    if (place != NULL) {
        return place;
    }
    place = mr_calloc(1, sizeof *place);
    if (place != NULL) {
        place->who = mr_strdup(who);
    }
    if (place == NULL || place->who == NULL) {
        mr_free(place);
        return NULL;
    }
    LIST_INSERT_HEAD(&p->places, place, link);
    p->nplaces++;
    return place;
}

/* Of somebody who has read nothing, and is gone, nothing needs to be known. */
static void leave_place_locked(mr_chain *p, struct mr_chain_place *place)
{
    place->readers--;
    if (place->readers == 0 && !place->is_set) {
        LIST_REMOVE(place, link);
        p->nplaces--;
        mr_free(place->who);
        mr_free(place);
    }
}

static int join_locked(mr_chain *p, mr_chain_reader *r, const char *who, uint64_t *first,
                       mr_error *err)
{
    if (p->closed || p->given_up) {
        return mr_error_set(err, MR_EPRECOND, "production %s was given up", p->id);
    }
    r->place = get_place_locked(p, who);
    MR_CHECK_ALLOC(r->place, err);
    r->place->readers++;
    r->at = r->joined = p->n - 1; /* What is before it is old, or damaged. */
    int rc = mr_cache_reader_open(MR_CHAIN_LOG(p, r->at).log, &r->opts, &MR_CHAIN_IN(r, r->at),
                                  first, err);
    if (rc < 0) {
        leave_place_locked(p, r->place);
    }
    return rc;
}

int mr_chain_join(mr_chain *p, const char *who, const struct mr_cache_reader_options *opts,
                  mr_chain_reader **ret, uint64_t *first, mr_error *err)
{
    MR_AUTO(mr_free) mr_chain_reader *r = mr_calloc(1, sizeof *r);

    MR_CHECK_ALLOC(r, err);
    r->opts = *opts;
    MR_LOCK(&p->lock);
    MR_TRY(join_locked(p, r, who, first, err));
    *first += MR_CHAIN_LOG(p, r->at).base;
    r->chain = mr_chain_ref(p);
    LIST_INSERT_HEAD(&p->readers, r, link);
    *ret = MR_TAKE(r);
    return MR_OK;
}

/* In each log from where the one before stood; what is in logs before the first of them is gone. */
static void resume_locked(mr_chain_reader *r)
{
    const mr_chain *p = r->chain;
    uint64_t base = MR_CHAIN_LOG(p, r->joined).base;

    r->returned = r->place->stand.at;
    r->past_skipped = r->returned < base ? base - r->returned : 0;
    for (uint32_t i = r->joined; i < p->n; i++) {
        struct mr_cache_log_stats log;
        uint64_t from = r->returned - MR_MIN(r->returned, MR_CHAIN_LOG(p, i).base);

        mr_cache_log_stats(MR_CHAIN_LOG(p, i).log, &log);
        mr_cache_reader_resume(MR_CHAIN_IN(r, i), MR_MIN(from, log.end));
    }
}

uint64_t mr_chain_start(mr_chain_reader *r)
{
    const mr_chain *p = r->chain;
    struct mr_cache_reader_stats stats;

    MR_LOCK(&r->chain->lock);
    if (r->place->is_set) {
        resume_locked(r);
    }
    for (uint32_t i = r->joined; i < p->n && !r->place->is_set; i++) {
        (void)mr_cache_reader_start(MR_CHAIN_IN(r, i));
    }
    r->started = true;
    mr_cache_reader_stats(MR_CHAIN_IN(r, r->joined), &stats);
    return MR_CHAIN_LOG(p, r->joined).base + stats.next;
}

void mr_chain_put_down(mr_chain_reader *r, const struct mr_reading_stand *stand)
{
    struct mr_chain_place *place = r->place;

    MR_LOCK(&r->chain->lock);
    if (!place->is_set || stand->at >= place->stand.at) { /* it never goes back */
        place->stand = *stand;
    }
    place->is_set = true;
}

bool mr_chain_stand(mr_chain_reader *r, struct mr_reading_stand *ret)
{
    MR_LOCK(&r->chain->lock);
    *ret = r->place->stand;
    return r->place->is_set;
}

bool mr_chain_missed(mr_chain *p, const char *who, struct mr_reading_stand *ret, uint64_t *elements)
{
    struct mr_chain_stats stats;
    const struct mr_chain_place *place;

    mr_chain_stats(p, &stats);
    MR_LOCK(&p->lock);
    place = find_place_locked(p, who);
    if (!p->given_up || place == NULL || !place->is_set) {
        return false;
    }
    *ret = place->stand;
    *elements = stats.end > place->stand.at ? stats.end - place->stand.at : 0;
    return true;
}

void mr_chain_leave(mr_chain_reader *r)
{
    if (r == NULL) {
        return;
    }
    mr_chain *p = r->chain;

    mr_mutex_lock(&p->lock);
    LIST_REMOVE(r, link);
    leave_place_locked(p, r->place);
    mr_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < MR_CHAIN_LOGS_MAX; i++) {
        mr_cache_reader_close(MR_CHAIN_IN(r, i));
    }
    mr_free(r);
    mr_chain_unref(p);
}

/* It has left out @elements. Said when it begins, and with their number when the log is behind:
 * there may be many. */
static void note_unreadable(mr_chain_reader *r, uint64_t elements, const mr_error *why)
{
    if (r->unreadable == 0) {
        mr_log(MR_LOG_WARN,
               "a record of a shared production cannot be read, its elements are skipped",
               "production", "%s", r->chain->id, "reader", "%s", r->place->who, "error", "%s",
               why->message, NULL);
    }
    r->unreadable += elements;
}

/* Go on to the next log. What was not read of this one could not be. false: there is none. */
static bool next_log(mr_chain_reader *r)
{
    mr_chain *p = r->chain;
    struct mr_cache_log_stats log;
    struct mr_cache_reader_stats stats;

    MR_LOCK(&p->lock);
    if (p->closed) {
        return false;
    }
    mr_cache_log_stats(MR_CHAIN_LOG(p, r->at).log, &log);
    mr_cache_reader_stats(MR_CHAIN_IN(r, r->at), &stats);
    MR_CHAIN_LOST(r, r->at) = log.end - stats.next;
    r->unreadable += MR_CHAIN_LOST(r, r->at);
    if (r->unreadable > 0) {
        mr_log(MR_LOG_WARN, "elements of a shared production could not be read and are skipped",
               "production", "%s", p->id, "reader", "%s", r->place->who, "elements", "%" PRIu64,
               r->unreadable, NULL);
        r->unreadable = 0;
    }
    if (r->at + 1 == p->n) {
        return false;
    }
    r->at++;
    return true;
}

static int read_view(mr_chain_reader *r, uint64_t rows_max, uint64_t bytes_max, mr_cache_view **ret,
                     mr_error *err)
{
    for (;;) {
        uint64_t passed = 0;
        mr_error why;
        int rc = mr_cache_reader_next(MR_CHAIN_IN(r, r->at), rows_max, bytes_max, ret, &why);

        if (rc == MR_OK || rc == MR_TIMEOUT) {
            return rc;
        }
        if (rc != MR_END) {
            rc = mr_chain_fail_over(r->chain, r->at, rc, &why);
            if (rc < 0) {
                return mr_error_pass(err, rc, &why);
            }
            passed = mr_cache_reader_pass(MR_CHAIN_IN(r, r->at));
        }
        if (passed > 0) {
            note_unreadable(r, passed, &why);
        } else if (!next_log(r)) {
            return MR_END;
        }
    }
}

MR_AUTO_DEFINE(struct mr_chain_rows, mr_chain_rows_free)

/* The @skip first rows of @part were handed out before. */
static int cut_front(struct mr_part *part, uint32_t skip, mr_error *err)
{
    mr_block *rest;

    MR_TRY(mr_part_unpack(part, err));
    MR_TRY(mr_block_slice(part->block, skip, mr_block_rows(part->block) - skip, &rest, err));
    mr_block_unref(part->block);
    part->block = rest;
    return MR_OK;
}

static int open_view(mr_cache_view *view, struct mr_chain_rows *ret, mr_error *err)
{
    MR_AUTO(mr_chain_rows_free)
    struct mr_chain_rows *rows =
        &(struct mr_chain_rows){.parts = mr_calloc(view->nchunks, sizeof rows->parts[0])};

    MR_CHECK_ALLOC(rows->parts, err);
    for (size_t i = 0; i < view->nchunks; i++) {
        const struct mr_cache_view_chunk *chunk = &view->chunks[i];

        MR_TRY(mr_packed_new(view->iov + chunk->iov_first, chunk->iov_count, view,
                             mr_cache_view_unref, &rows->parts[i].packed, err));
        (void)mr_cache_view_ref(view);
        rows->n++;
        if (mr_packed_rows(rows->parts[i].packed) != chunk->rows) {
            return mr_error_set(err, MR_EDATALOSS, "a chunk of %u rows holds a block of %u",
                                chunk->rows, mr_packed_rows(rows->parts[i].packed));
        }
    }
    if (view->skip > 0) {
        MR_TRY(cut_front(&rows->parts[0], view->skip, err));
    }
    *ret = *rows;
    *rows = (struct mr_chain_rows){0};
    return MR_OK;
}

int mr_chain_read(mr_chain_reader *r, uint64_t rows_max, uint64_t bytes_max,
                  struct mr_chain_rows *ret, mr_error *err)
{
    mr_cache_view *view;

    MR_TRY(read_view(r, rows_max, bytes_max, &view, err));
    uint64_t first = view->first + view->skip;
    int rc = open_view(view, ret, err);
    if (rc == MR_OK) {
        ret->at = MR_CHAIN_LOG(r->chain, r->at).base + first;
    } else { /* Nobody has it: it comes again. */
        (void)mr_cache_reader_rewind(MR_CHAIN_IN(r, r->at), first, NULL);
    }
    mr_cache_view_unref(view);
    return rc;
}

void mr_chain_rows_free(struct mr_chain_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        mr_part_unref(rows->parts[i]);
    }
    mr_free(rows->parts);
    *rows = (struct mr_chain_rows){0};
}

/* The number of element @index in log @i, as far as @r was handed elements of it. */
static uint64_t index_in(const mr_chain_reader *r, uint32_t i, uint64_t index)
{
    struct mr_cache_reader_stats stats;
    uint64_t base = MR_CHAIN_LOG(r->chain, i).base;

    mr_cache_reader_stats(MR_CHAIN_IN(r, i), &stats);
    return index <= base ? 0 : MR_MIN(index - base, stats.next);
}

void mr_chain_returned(mr_chain_reader *r, uint64_t upto)
{
    MR_LOCK(&r->chain->lock);
    r->returned = MR_MAX(upto, r->returned);
    for (uint32_t i = r->joined; i <= r->at; i++) {
        /* It was handed out: that is all that could be wrong with it. */
        (void)mr_cache_reader_returned(MR_CHAIN_IN(r, i), index_in(r, i, upto), NULL);
    }
}

void mr_chain_rewind(mr_chain_reader *r, uint64_t index)
{
    mr_chain *p = r->chain;

    MR_LOCK(&p->lock);
    for (;; r->at--) {
        struct mr_cache_reader_stats stats;
        uint64_t to = index_in(r, r->at, index);

        mr_cache_reader_stats(MR_CHAIN_IN(r, r->at), &stats);
        MR_CHAIN_LOST(r, r->at) = 0;
        (void)mr_cache_reader_rewind(MR_CHAIN_IN(r, r->at), MR_MAX(stats.returned, to), NULL);
        if (r->at == r->joined || index >= MR_CHAIN_LOG(p, r->at).base) {
            return;
        }
    }
}

void mr_chain_set_lag(mr_chain_reader *r, enum mr_cache_lag lag)
{
    MR_LOCK(&r->chain->lock);
    r->opts.lag = lag;
    for (uint32_t i = r->joined; i < r->chain->n; i++) {
        mr_cache_reader_set_lag(MR_CHAIN_IN(r, i), lag);
    }
}

bool mr_chain_caught_up(mr_chain_reader *r)
{
    mr_chain *p = r->chain;
    struct mr_cache_reader_stats stats;
    struct mr_cache_log_stats log;

    MR_LOCK(&p->lock);
    if (p->closed) {
        return true; /* which reading tells */
    }
    mr_cache_reader_stats(MR_CHAIN_IN(r, r->at), &stats);
    mr_cache_log_stats(MR_CHAIN_LOG(p, r->at).log, &log);
    return r->at + 1 == p->n && stats.next == log.end;
}

mr_chain *mr_chain_of(const mr_chain_reader *r)
{
    return r->chain;
}

uint64_t mr_chain_skipped(mr_chain_reader *r)
{
    MR_LOCK(&r->chain->lock);
    uint64_t skipped = r->past_skipped;
    for (uint32_t i = r->joined; i < r->chain->n; i++) {
        struct mr_cache_reader_stats stats;

        mr_cache_reader_stats(MR_CHAIN_IN(r, i), &stats);
        skipped += stats.skipped + MR_CHAIN_LOST(r, i);
    }
    return skipped;
}
