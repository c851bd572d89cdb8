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
#include "worker/session/reading.h"
#include "base/log.h"
#include "worker/kinds.h"
#include "worker/serving.h"

#include <millrace/dataset.h> /* mr_free */

/* What it holds is in memory, and the window is not. */
#define KEPT_BYTES_MAX (64 * MR_MIB)

struct reading {
    struct mr_serving serving; /* whose task.lock guards the rest */
    struct mr_reading state;
    char *production;
    mr_chain_reader *reader; /* NULL while there is no window, or when it is over */
    enum mr_cache_lag lag;
    bool over;     /* no reader will be opened any more */
    bool answered; /* joining: what the dispatcher has to know is known, `first` or `refused` */
    uint64_t read; /* elements of the production, when it is over */
    char refused[MR_ERROR_MESSAGE_SIZE];
};

static struct reading *reading_of(struct mr_worker_task *t)
{
    MR_ASSERT(t->kind == &mr_kind_reading);
    return (struct reading *)t;
}

static enum mr_cache_lag lag_of(const Millrace__TaskAssignment *a)
{
    return a->unread || a->lag == MILLRACE__LAG__LAG_SKIP ? MR_CACHE_LAG_SKIP : MR_CACHE_LAG_WAIT;
}

/* On the producer's thread. */
static void on_ready(void *ctx)
{
    struct reading *r = reading_of(mr_worker_task_of(ctx));

    mr_mutex_lock(&r->serving.task.lock);
    r->state.more = true;
    mr_mutex_unlock(&r->serving.task.lock);
    /* Whoever wakes needs the lock at once. The task stays: a reader is not closed while this is
     * called. */
    (void)pthread_cond_broadcast(&r->serving.task.changed);
}

/* ---- where it stands ---- */

/* Its cursor follows the book. */
static void note_returned_locked(struct mr_serving *s)
{
    struct reading *r = (struct reading *)s;
    uint64_t upto;

    if (mr_reading_returns(&r->state, &upto)) {
        mr_chain_returned(r->reader, upto);
    }
}

/* It is dropped, or through, and has sent its last: the next task of its iteration begins behind
 * that. */
static void reading_cancel_locked(struct mr_worker_task *t)
{
    struct reading *r = reading_of(t);
    struct mr_reading_stand stand;

    if (mr_reading_stand(&r->state, &stand)) {
        mr_chain_put_down(r->reader, &stand);
    }
}

/* ---- life ---- */

static bool reading_is_its(const Millrace__TaskAssignment *a)
{
    return a->production[0] != '\0' && !a->producing;
}

static int reading_init(struct mr_worker_task *t, mr_error *err)
{
    struct reading *r = reading_of(t);

    r->lag = lag_of(t->a);
    r->serving.returned_locked = note_returned_locked;
    r->production = mr_strdup(t->a->production);
    MR_CHECK_ALLOC(r->production, err);
    MR_TRY(mr_serving_init(&r->serving, KEPT_BYTES_MAX, true /* reports_given */, err));
    mr_reading_init(&r->state, r->serving.book, t->a->joining);
    return MR_OK;
}

static void reading_free(struct mr_worker_task *t)
{
    struct reading *r = reading_of(t);

    MR_ASSERT(r->reader == NULL);
    mr_serving_free(t);
    mr_free(r->production);
}

/* ---- opening and deciding ---- */

/* Of elements that it could not have, clients did not know @skipped. */
static void note_counts_locked(struct reading *r, uint64_t skipped)
{
    (void)atomic_fetch_add(&r->serving.task.worker->numbers.skipped, skipped);
    r->serving.skipped = r->state.skipped;
    r->serving.missing = r->state.before.missing;
}

static void start_locked(struct reading *r)
{
    struct mr_reading_stand before;
    uint64_t first = mr_chain_start(r->reader);
    bool resumes = mr_chain_stand(r->reader, &before);
    mr_reading_started(&r->state, first, resumes ? &before : NULL);
    note_counts_locked(r, 0);
    (void)pthread_cond_broadcast(&r->serving.task.changed);
}

/* It was given up while nobody read it. Was that an earlier task's? Then there is nothing to come,
 * and what the window still had counts as skipped. */
static bool miss_locked(struct reading *r, mr_chain *p)
{
    struct mr_worker_task *t = &r->serving.task;
    struct mr_reading_stand before;
    uint64_t unread;

    if (!mr_chain_missed(p, t->a->iteration_id, &before, &unread)) {
        return false;
    }
    note_counts_locked(r, mr_reading_missed(&r->state, &before, unread));
    (void)pthread_cond_broadcast(&t->changed);
    return true;
}

static int open_locked(struct reading *r, mr_chain *p, mr_error *err)
{
    struct mr_worker_task *t = &r->serving.task;
    struct mr_cache_reader_options opts = {.lag = r->lag, .ready = on_ready, .ctx = t};
    uint64_t first;
    mr_error why;

    if (r->state.joining && mr_chain_failed(p, &why)) {
        return mr_error_set(err, MR_EPRECOND, "the pipeline failed: %s", why.message);
    }
    int rc = mr_chain_join(p, t->a->iteration_id, &opts, &r->reader, &first, err);
    if (rc == MR_EPRECOND && !r->state.joining && miss_locked(r, p)) {
        return MR_OK;
    }
    MR_TRY(rc);
    mr_reading_joined(&r->state, first);
    if (!r->state.joining) {
        start_locked(r);
    }
    return MR_OK;
}

/* If it reads a window that is there, and has no reader yet: open one. */
static void reading_find_window(struct mr_worker_task *t)
{
    struct reading *r = reading_of(t);
    struct mr_worker *w = t->worker;
    mr_chain *p = NULL;
    bool answer = false;
    int rc = MR_OK;
    mr_error err;

    mr_mutex_lock(&w->lock);
    mr_mutex_lock(&t->lock);
    if (r->reader == NULL && !r->state.gone && !r->over && !t->cancelled) {
        p = mr_producing_window_locked(w, r->production);
    }
    if (p != NULL) {
        rc = open_locked(r, p, &err);
        answer = r->state.joining && (rc == MR_OK || rc == MR_EPRECOND);
        r->answered = answer;
        (void)snprintf(r->refused, sizeof r->refused, "%s", rc == MR_EPRECOND ? err.message : "");
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
static int change_production_locked(struct reading *r, const char *production,
                                    mr_chain_reader **old, mr_error *err)
{
    char *name;

    if (strcmp(production, r->production) == 0) {
        return MR_OK;
    }
    if (!r->state.joining) {
        return mr_error_set(err, MR_EINVAL, "task %s reads production %s, and is now to read %s",
                            r->serving.task.id, r->production, production);
    }
    name = mr_strdup(production);
    MR_CHECK_ALLOC(name, err);
    mr_free(r->production);
    r->production = name;
    *old = r->reader; /* While it is joining, nobody reads. */
    r->reader = NULL;
    mr_reading_closed(&r->state);
    r->answered = false;
    return MR_OK;
}

static void set_lag_locked(struct reading *r, enum mr_cache_lag lag)
{
    if (r->reader != NULL && lag != r->lag) {
        mr_chain_set_lag(r->reader, lag);
    }
    r->lag = lag;
}

/* Its clients are not served: nobody is held up by it before the assignment comes again. */
static void reading_set_aside(struct mr_worker_task *t)
{
    MR_LOCK(&t->lock);
    set_lag_locked(reading_of(t), MR_CACHE_LAG_SKIP);
}

/* The assignment came again, perhaps with another production, or decided. */
static void reading_assign(struct mr_worker_task *t, const Millrace__TaskAssignment *a)
{
    struct reading *r = reading_of(t);
    mr_chain_reader *old = NULL;
    mr_error err;

    mr_mutex_lock(&t->lock);
    int rc = change_production_locked(r, a->production, &old, &err);
    if (rc == MR_OK) {
        set_lag_locked(r, lag_of(a));
        if (!a->joining && mr_reading_decided(&r->state)) {
            start_locked(r);
        }
    }
    mr_mutex_unlock(&t->lock);
    if (rc < 0) {
        mr_log(MR_LOG_ERROR, "an assignment that cannot be followed", "task", "%s", t->id, "error",
               "%s", err.message, NULL);
    }
    mr_chain_leave(old);
    reading_find_window(t);
}

static bool reading_is_joining(struct mr_worker_task *t)
{
    MR_LOCK(&t->lock);
    return reading_of(t)->state.joining;
}

/* ---- from the window into the book ---- */

static bool may_read_locked(const struct reading *r, bool resting)
{
    enum mr_reading_step next = mr_reading_next(&r->state, resting);

    return next == MR_READING_READ ||
           (next == MR_READING_READ_END && mr_chain_caught_up(r->reader));
}

static void go_back_locked(struct reading *r)
{
    uint64_t at;

    if (mr_reading_goes_back(&r->state, &at)) {
        mr_chain_rewind(r->reader, at);
    }
}

/* Wait until there is something to read, and somebody for it. MR_OK with how many @rows; MR_END:
 * the window is gone. */
static int wait_demand(struct reading *r, uint32_t *rows, mr_error *err)
{
    struct mr_worker_task *t = &r->serving.task;
    bool resting = false;

    MR_LOCK(&t->lock);
    for (go_back_locked(r); !t->cancelled && !may_read_locked(r, resting); go_back_locked(r)) {
        if (resting) {
            mr_worker_task_is_at(t, mr_book_demand(r->serving.book) > 0 ? MR_AT_WINDOW
                                                                        : MR_AT_CLIENTS);
            mr_cond_wait(&t->changed, &t->lock);
        }
        resting = true;
    }
    if (t->cancelled) {
        return mr_error_set(err, MR_ECANCELED, "the task was cancelled");
    }
    *rows = mr_reading_rows(&r->state);
    r->state.more = false; /* unless it is said meanwhile */
    return r->state.gone ? MR_END : MR_OK;
}

/* Takes what is in @rows. */
static int put_into_book(struct reading *r, struct mr_chain_rows *rows, mr_error *err)
{
    struct mr_worker_task *t = &r->serving.task;
    uint64_t at = rows->at;
    int rc = MR_OK;

    mr_mutex_lock(&t->lock);
    r->state.more = true;
    if (t->spec_hash == 0) {
        t->spec_hash = mr_chain_spec_hash(mr_chain_of(r->reader)); /* before anything is sent */
    }
    for (size_t i = 0; i < rows->n && rc == MR_OK; i++) {
        uint32_t n = mr_part_count(rows->parts[i]);

        rc = mr_book_feed(r->serving.book, rows->parts[i], at, err);
        rows->parts[i] = (struct mr_part){0};
        at += n;
    }
    mr_mutex_unlock(&t->lock);
    mr_chain_rows_free(rows);
    return rc;
}

/* What of the window it missed, by now; clients are told. */
static void note_skipped(struct reading *r)
{
    struct mr_worker_task *t = &r->serving.task;

    mr_mutex_lock(&t->lock);
    if (r->reader != NULL && !r->state.joining) {
        note_counts_locked(r, mr_reading_skips(&r->state, mr_chain_skipped(r->reader)));
    }
    mr_mutex_unlock(&t->lock);
    mr_serving_pump(t);
}

static int fill(struct mr_serving *s, mr_error *err)
{
    struct reading *r = reading_of(&s->task);
    struct mr_chain_rows rows;
    uint32_t demand = 0;

    for (;;) {
        MR_TRY(wait_demand(r, &demand, err));
        mr_worker_task_is_at(&s->task, MR_AT_WINDOW);
        /* This thread alone lets go of a reader that was started. */
        int rc = mr_chain_read(r->reader, demand, MR_DATA_MESSAGE_BYTES_TARGET, &rows, err);
        note_skipped(r); /* before what comes behind it */
        if (rc == MR_OK) {
            rc = put_into_book(r, &rows, err);
        }
        if (rc == MR_OK || rc == MR_TIMEOUT) {
            mr_serving_pump(&s->task);
            continue;
        }
        if (rc == MR_END && mr_chain_failed(mr_chain_of(r->reader), err)) {
            return err->code;
        }
        atomic_store(&s->task.disowned, rc == MR_ECANCELED);
        return rc;
    }
}

static void close_reader(struct reading *r)
{
    struct mr_worker_task *t = &r->serving.task;

    mr_mutex_lock(&t->lock);
    mr_chain_reader *reader = r->reader;
    if (reader != NULL) {
        struct mr_chain_stats stats;

        mr_chain_stats(mr_chain_of(reader), &stats);
        r->read = mr_reading_produced(&r->state, stats.end);
    }
    /* Else it was done when that was said, and somebody else may go on there already. */
    if (!t->cancelled) {
        reading_cancel_locked(t);
    }
    r->reader = NULL;
    mr_reading_closed(&r->state);
    r->over = true;
    mr_mutex_unlock(&t->lock);
    mr_chain_leave(reader);
}

static void reading_run(struct mr_worker_task *t)
{
    struct reading *r = reading_of(t);

    mr_serving_run(&r->serving, fill);
    close_reader(r);
}

/* ---- the rest of its table ---- */

static bool reading_was_cut(struct mr_worker_task *t)
{
    return mr_producing_was_cut(t->worker, reading_of(t)->production);
}

static void reading_progress(struct mr_worker_task *t, struct mr_worker_task_progress *ret)
{
    struct reading *r = reading_of(t);
    struct mr_chain_stats stats;

    note_skipped(r);
    MR_LOCK(&t->lock);
    mr_serving_progress_locked(&r->serving, ret);
    ret->base.produced = r->over ? r->read : 0;
    if (r->reader != NULL) {
        mr_chain_stats(mr_chain_of(r->reader), &stats);
        ret->base.produced = mr_reading_produced(&r->state, stats.end);
    }
    if (r->state.joining && r->answered) {
        millrace__join_answer__init(&ret->join);
        (void)snprintf(ret->text, sizeof ret->text, "%s", r->refused);
        ret->join.first = r->state.first;
        ret->join.refused = ret->text;
        ret->base.join = &ret->join;
    }
}

static void reading_usage_locked(struct mr_worker_task *t, struct mr_worker_task_usage *ret)
{
    mr_serving_usage_locked(t, ret);
    ret->unread = false; /* then it goes back in its window, and holds little */
}

const struct mr_worker_task_kind mr_kind_reading = {
    .name = "reading",
    .thread = "mr-read",
    .size = sizeof(struct reading),
    .source = MR_SENT_WINDOW,
    .ends = true,
    .is_its = reading_is_its,
    .init = reading_init,
    .free = reading_free,
    .run = reading_run,
    .cancel_locked = reading_cancel_locked,
    .assign = reading_assign,
    .set_aside = reading_set_aside,
    .find_window = reading_find_window,
    .is_joining = reading_is_joining,
    .was_cut = reading_was_cut,
    .progress = reading_progress,
    .usage_locked = reading_usage_locked,
    .streams = &mr_serving_streams,
};
