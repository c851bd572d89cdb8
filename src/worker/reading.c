/*
 * A task whose rows come from a production on this worker, made by another task of it.
 *
 * Happy path: a reader is opened as soon as both are there (by whichever comes last), at the start
 * of the window; the task's thread reads as far ahead as credits ask for; what applications
 * returned moves the reader's cursor; at the production's end the book is finished as after a
 * pipeline.
 *
 * Joining: the reader pins what is there and the dispatcher is told where it begins. Then the
 * assignment comes again: with the same production, and reading begins; or with another one, and
 * this reader is closed unread.
 *
 * Somebody of its iteration read here before (its task was closed, since no client reached us, and
 * nobody else is left to go on): the reader begins behind all that was sent to anybody then, so
 * that nothing comes twice. What of that may not have arrived counts as abandoned. We alone decide
 * where that is, when the earlier task is dropped: the dispatcher cannot know, and lists the new
 * one no sooner. docs/adr/0010.
 *
 * Nobody there: what was read ahead is dropped and the reader goes back, so that a job without
 * clients holds no memory.
 *
 * Failures: elements that fell out of the window are counted and clients are told. A production
 * that is closed under its reader is over for this task too: the next list of tasks says what
 * follows.
 */
#include "worker/internal.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"

#include <millrace/base.h>
#include <stdio.h>
#include <string.h>

/* On the producer's thread. */
static void on_ready(void *ctx)
{
    struct mr_worker_task *t = ctx;

    mr_mutex_lock(&t->lock);
    t->more = true;
    mr_mutex_unlock(&t->lock);
    /* Whoever wakes needs the lock at once. The task stays: a reader is not closed while this is
     * called. */
    (void)pthread_cond_broadcast(&t->changed);
}

/* ---- opening and deciding ---- */

/* The production that @t reads, if it is here. w->lock and t->lock are held. */
static mr_chain *find_locked(struct mr_worker *w, const struct mr_worker_task *t)
{
    struct mr_worker_task *other;

    TAILQ_FOREACH(other, &w->tasks, link)
    {
        if (other->kind == MR_TASK_PRODUCING && other->made != NULL &&
            strcmp(other->production, t->production) == 0) {
            return other->made;
        }
    }
    return NULL;
}

static void start_locked(struct mr_worker_task *t)
{
    mr_chain_start(t->reader, &t->first);
    if (!mr_chain_stand(t->reader, &t->before)) {
        t->before.at = t->first;
    }
    t->more = true;
    (void)pthread_cond_broadcast(&t->changed);
}

static int open_locked(struct mr_worker_task *t, mr_chain *p, mr_error *err)
{
    struct mr_chain_reader_options opts = {
        .name = t->id, .who = t->iteration, .lag = t->lag, .ready = on_ready, .ctx = t};
    uint64_t unread;
    mr_error why;
    int rc;

    if (t->joining && mr_chain_failed(p, &why)) {
        return mr_error_set(err, MR_EPRECOND, "the pipeline failed: %s", why.message);
    }
    rc = mr_chain_join(p, &opts, &t->reader, &t->first, err);
    t->before = (struct mr_chain_stand){.at = t->first};
    if (rc == MR_OK && !t->joining) {
        start_locked(t);
    }
    if (rc == MR_EPRECOND && !t->joining && mr_chain_missed(p, t->iteration, &t->before, &unread)) {
        t->window_gone = true;
        t->skipped = t->before.skipped + unread;
        (void)pthread_cond_broadcast(&t->changed);
        rc = MR_OK;
    }
    return rc;
}

/* What was delivered and what was skipped add up to it when all is read. */
uint64_t mr_reading_produced_locked(const struct mr_worker_task *t, uint64_t end)
{
    return t->before.skipped + (end > t->before.at ? end - t->before.at : 0);
}

void mr_reading_put_down_locked(struct mr_worker_task *t)
{
    struct mr_chain_stand stand = t->before;
    struct mr_book_counts counts;
    struct mr_book_stand book;

    if (t->reader == NULL || t->joining) {
        return;
    }
    mr_book_counts(t->book, &counts);
    mr_book_stand(t->book, &book);
    stand.at = book.at > t->first ? book.at : t->first;
    stand.skipped += stand.at - t->before.at -
                     book.fed; /* what it skipped behind that the next one will find gone, too */
    stand.told = t->skipped > stand.told ? t->skipped : stand.told;
    stand.missing += counts.lost + counts.untaken + book.missing;
    mr_chain_put_down(t->reader, &stand);
}

void mr_reading_attach(struct mr_worker_task *t)
{
    struct mr_worker *w = t->worker;
    mr_chain *p = NULL;
    bool answer = false;
    int rc = MR_OK;
    mr_error err;

    if (t->kind != MR_TASK_READING) {
        return;
    }
    mr_mutex_lock(&w->lock);
    mr_mutex_lock(&t->lock);
    if (t->reader == NULL && !t->window_gone && !t->over && !t->cancelled) {
        p = find_locked(w, t);
    }
    if (p != NULL) {
        rc = open_locked(t, p, &err);
        answer = t->joining && (rc == MR_OK || rc == MR_EPRECOND);
        t->answered = answer;
        (void)snprintf(t->refused, sizeof t->refused, "%s", rc == MR_EPRECOND ? err.message : "");
    }
    mr_mutex_unlock(&t->lock);
    mr_mutex_unlock(&w->lock);
    if (answer) {
        mr_link_beat(w->link);
    }
    if (rc == MR_EPRECOND && !answer) {
        mr_log(MR_LOG_ERROR, "a task has nothing to read, waiting for the next list of tasks",
               "task", "%s", t->id, "error", "%s", err.message, NULL);
    } else if (rc < 0 && rc != MR_EPRECOND) {
        mr_log(MR_LOG_ERROR, "opening a reader, tried again after the next heartbeat", "task", "%s",
               t->id, "error", "%s", err.message, NULL);
        mr_link_list_again(w->link);
    }
}

/* Another production than before: possible only as long as nothing was delivered. *@old is to be
 * closed. */
static int change_production_locked(struct mr_worker_task *t, const char *production,
                                    mr_chain_reader **old, mr_error *err)
{
    char *name;

    if (strcmp(production, t->production) == 0) {
        return MR_OK;
    }
    if (!t->joining) {
        return mr_error_set(err, MR_EINVAL, "task %s reads production %s, and is now to read %s",
                            t->id, t->production, production);
    }
    name = mr_strdup(production);
    if (name == NULL) {
        return mr_error_nomem(err);
    }
    mr_free(t->production);
    t->production = name;
    *old = t->reader; /* While it is joining, nobody reads. */
    t->reader = NULL;
    t->answered = false;
    return MR_OK;
}

static void set_lag_locked(struct mr_worker_task *t, enum mr_cache_lag lag)
{
    if (t->reader != NULL && lag != t->lag) {
        mr_chain_set_lag(t->reader, lag);
    }
    t->lag = lag;
}

void mr_reading_set_unread(struct mr_worker_task *t)
{
    if (t->kind == MR_TASK_READING) {
        MR_LOCK(&t->lock);
        set_lag_locked(t, MR_CACHE_LAG_SKIP);
    }
}

void mr_reading_update(struct mr_worker_task *t, const Millrace__TaskAssignment *a)
{
    mr_chain_reader *old = NULL;
    mr_error err;

    if (t->kind != MR_TASK_READING) {
        return;
    }
    mr_mutex_lock(&t->lock);
    int rc = change_production_locked(t, a->production, &old, &err);
    if (rc == MR_OK) {
        set_lag_locked(t, a->unread || a->lag == MILLRACE__LAG__LAG_SKIP ? MR_CACHE_LAG_SKIP
                                                                         : MR_CACHE_LAG_WAIT);
        if (t->joining && !a->joining) {
            t->joining = false;
            t->answered = false;
            if (t->reader != NULL) {
                start_locked(t);
            }
        }
    }
    mr_mutex_unlock(&t->lock);
    if (rc < 0) {
        mr_log(MR_LOG_ERROR, "an assignment that cannot be followed", "task", "%s", t->id, "error",
               "%s", err.message, NULL);
    }
    mr_chain_leave(old);
    mr_reading_attach(t);
}

/* ---- reading ---- */

static bool may_read_locked(const struct mr_worker_task *t, bool resting)
{
    if (t->window_gone) {
        return true;
    }
    if (t->reader == NULL || t->joining || !t->more) {
        return false;
    }
    if (mr_book_each(t->book, NULL) == NULL) {
        /* Nothing for nobody; but that it is over has to be found. */
        return mr_chain_caught_up(t->reader);
    }
    return resting ? mr_book_low(t->book) : mr_book_demand(t->book) > 0;
}

static void go_back_locked(struct mr_worker_task *t)
{
    uint64_t at;

    if (t->reader != NULL && mr_book_deserted(t->book) && mr_book_take_back(t->book, &at)) {
        mr_chain_rewind(t->reader, at);
        t->more = true;
    }
}

/* Wait until there is something to read, and somebody for it. *@rows: how many; false:
 * cancelled. */
static bool wait_turn(struct mr_worker_task *t, uint32_t *rows)
{
    MR_LOCK(&t->lock);
    go_back_locked(t);
    if (!may_read_locked(t, false)) {
        while (!t->cancelled && !may_read_locked(t, true)) {
            mr_cond_wait(&t->changed, &t->lock);
            go_back_locked(t);
        }
    }
    *rows = mr_book_demand(t->book);
    *rows = *rows == 0 ? 1 : *rows;
    t->more = false; /* unless it is said meanwhile */
    return !t->cancelled;
}

/* Takes what is in @rows. */
static int feed(struct mr_worker_task *t, struct mr_chain_rows *rows, mr_error *err)
{
    uint64_t at = rows->at;
    int rc = MR_OK;

    mr_mutex_lock(&t->lock);
    t->more = true;
    if (t->spec_hash == 0) {
        t->spec_hash = mr_chain_spec_hash(mr_chain_of(t->reader)); /* before anything is sent */
    }
    for (size_t i = 0; i < rows->n && rc == MR_OK; i++) {
        uint32_t n = mr_part_count(rows->parts[i]);

        rc = mr_book_feed(t->book, rows->parts[i], at, err);
        rows->parts[i] = (struct mr_part){0};
        at += n;
    }
    mr_mutex_unlock(&t->lock);
    mr_chain_rows_free(rows);
    return rc;
}

/* Of what was skipped, what clients were not told by the tasks before: told again it would be twice
 * as much to them. */
static uint64_t new_skipped_locked(const struct mr_worker_task *t)
{
    return t->skipped > t->before.told ? t->skipped - t->before.told : 0;
}

/* It was given up while nobody read it: there is nothing to come, and what it still had is said to
 * be missed. */
static bool window_is_gone(struct mr_worker_task *t)
{
    MR_LOCK(&t->lock);
    if (t->window_gone) {
        (void)atomic_fetch_add(&t->worker->numbers.skipped, new_skipped_locked(t));
        mr_book_set_skipped(t->book, new_skipped_locked(t));
    }
    return t->window_gone;
}

int mr_reading_run(struct mr_worker_task *t, mr_error *err)
{
    struct mr_chain_rows rows;
    uint32_t demand;

    for (;;) {
        if (!wait_turn(t, &demand)) {
            return mr_error_set(err, MR_ECANCELED, "the task was cancelled");
        }
        if (window_is_gone(t)) {
            return MR_END;
        }
        /* This thread alone lets go of a reader that was started. */
        int rc = mr_chain_read(t->reader, demand, MR_DATA_MESSAGE_BYTES_TARGET, &rows, err);
        mr_reading_note_skipped(t); /* before what comes behind it */
        if (rc == MR_OK) {
            rc = feed(t, &rows, err);
        }
        if (rc == MR_OK || rc == MR_TIMEOUT) {
            mr_worker_task_pump(t);
            continue;
        }
        if (rc == MR_END && mr_chain_failed(mr_chain_of(t->reader), err)) {
            return err->code;
        }
        atomic_store(&t->disowned, rc == MR_ECANCELED);
        return rc;
    }
}

void mr_reading_note_returned_locked(struct mr_worker_task *t)
{
    if (t->reader != NULL && !t->joining) {
        uint64_t needed = mr_book_needed(t->book);

        if (needed > t->returned) {
            t->returned = needed;
            mr_chain_returned(t->reader, needed);
        }
    }
}

void mr_reading_note_skipped(struct mr_worker_task *t)
{
    mr_mutex_lock(&t->lock);
    if (t->reader != NULL && !t->joining) {
        uint64_t before = new_skipped_locked(t);

        t->skipped = t->before.skipped + mr_chain_skipped(t->reader);
        uint64_t now = new_skipped_locked(t);

        (void)atomic_fetch_add(&t->worker->numbers.skipped, now > before ? now - before : 0);
        mr_book_set_skipped(t->book, now);
    }
    mr_mutex_unlock(&t->lock);
    mr_worker_task_pump(t);
}

void mr_reading_close(struct mr_worker_task *t)
{
    mr_chain_reader *r;

    mr_mutex_lock(&t->lock);
    r = t->reader;
    if (r != NULL) {
        struct mr_chain_stats stats;

        mr_chain_stats(mr_chain_of(r), &stats);
        t->read = mr_reading_produced_locked(t, stats.end);
    }
    if (!t->cancelled) { /* Else it was done when that was said, and somebody else may go on there
                            already. */
        mr_reading_put_down_locked(t);
    }
    t->reader = NULL;
    t->over = true;
    mr_mutex_unlock(&t->lock);
    mr_chain_leave(r);
}
