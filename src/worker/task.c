/*
 * A task: one run of a dataset graph for one iteration, or one reading of a production that several
 * iterations share.
 *
 * Happy path: rows come from an engine (pipeline.c) or from a production (reading.c), as far ahead
 * as credits ask for, and go into the book; at their end wait until all elements arrived at
 * clients, then tell the dispatcher, once, until it answers. A task that makes a production
 * (producing.c) has neither clients nor an end.
 *
 * Failures: an error of the pipeline is the task's end too, with a code: readers get it after the
 * rows before it, the dispatcher when those have arrived. A dispatcher that is away is waited for
 * (splits at hand are used up meanwhile).
 *
 * Close: the dispatcher no longer lists the task: it is dropped. Its streams end, its thread is
 * told to stop and frees the last of it when the engine has let go; nobody waits for that but
 * mr_worker_stop().
 */
#include "worker/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/rng.h"

#include <inttypes.h>
#include <millrace/base.h>
#include <stdio.h>
#include <string.h>

#define SESSIONS_MAX 4096u
#define KEPT_BYTES_MAX (256 * MR_MIB)
#define READING_KEPT_BYTES_MAX (64 * MR_MIB)
/*
 * At most once: whoever has received everything, and has neither returned any of it for so long nor
 * closed, does not keep others any longer: they end, and what it closes with after that is
 * nobody's. It counts that itself.
 */
#define CLIENT_RESTS_MS 5000

struct mr_worker_task *mr_worker_task_ref(struct mr_worker_task *t)
{
    unsigned before = atomic_fetch_add(&t->refs, 1);

    MR_ASSERT(before > 0);
    return t;
}

void mr_worker_task_unref(struct mr_worker_task *t)
{
    if (atomic_fetch_sub(&t->refs, 1) != 1) {
        return;
    }
    MR_ASSERT(t->engine == NULL);
    MR_ASSERT(t->reader == NULL);
    MR_ASSERT(t->made == NULL);
    struct mr_worker *w = t->worker;
    mr_split_feed_free(t->feed);
    mr_book_free(t->book);
    mr_turns_free(t->turns);
    mr_free(t->id);
    mr_free(t->iteration);
    mr_free(t->job);
    mr_free(t->dataset);
    mr_free(t->fingerprint);
    mr_free(t->host);
    mr_free(t->splits);
    mr_free(t->production);
    mr_free(t->released);
    (void)pthread_cond_destroy(&t->changed);
    (void)pthread_mutex_destroy(&t->lock);
    mr_free(t);
    MR_LOCK(&w->lock);
    w->ntasks--;
    (void)pthread_cond_broadcast(&w->changed);
}

void mr_worker_task_changed_locked(struct mr_worker_task *t)
{
    mr_reading_note_returned_locked(t);
    if (t->cancelled || mr_book_low(t->book) || mr_book_deserted(t->book) ||
        mr_book_settled(t->book) || mr_book_waits_for_clients(t->book)) {
        (void)pthread_cond_broadcast(&t->changed);
    }
}

/* ---- sending ---- */

void mr_worker_task_pump(struct mr_worker_task *t)
{
    if (t->turns != NULL) {
        mr_turns_pump(t);
        return;
    }
    for (;;) {
        struct mr_book_message m;
        mr_error err;

        mr_mutex_lock(&t->lock);
        int rc = t->cancelled ? MR_END : mr_book_next(t->book, &m, &err);
        if (rc == MR_END) {
            mr_mutex_unlock(&t->lock);
            return;
        }
        struct mr_conn *c = m.owner;
        (void)atomic_fetch_add(&c->refs, 1);
        if (rc < 0) {
            c->session = NULL;
            mr_book_disconnect(m.session);
        }
        mr_worker_task_changed_locked(t);
        mr_mutex_unlock(&t->lock);
        if (rc == MR_OK) {
            mr_conn_send(c, &m);
            mr_book_message_free(&m);
        } else {
            mr_log(MR_LOG_WARN, "making a message, breaking the stream off", "task", "%s", t->id,
                   "error", "%s", err.message, NULL);
            mr_rpc_stream_cancel(c->stream);
        }
        mr_conn_unref(c);
    }
}

/* The connection of @s, if it has one, loses it; a reference to its stream, or NULL. t->lock is
 * held. */
static mr_rpc_stream *detach_locked(mr_book_session *s)
{
    struct mr_conn *c = mr_book_owner(s);

    if (c == NULL) {
        return NULL;
    }
    c->session = NULL;
    mr_book_disconnect(s);
    return mr_rpc_stream_ref(c->stream);
}

bool mr_worker_task_has_released_locked(const struct mr_worker_task *t, const char *client)
{
    size_t n = t->nreleased < MR_RELEASED_MAX ? t->nreleased : MR_RELEASED_MAX;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(t->released[i], client) == 0) {
            return true;
        }
    }
    return false;
}

/* Without memory it is not remembered: a session of a client that is gone may then be kept for too
 * long. */
static void remember_released_locked(struct mr_worker_task *t, const char *client)
{
    if (mr_worker_task_has_released_locked(t, client) || strlen(client) >= MR_RELEASED_ID_SIZE) {
        return;
    }
    if (t->released == NULL) {
        t->released = mr_calloc(MR_RELEASED_MAX, sizeof *t->released);
    }
    if (t->released != NULL) {
        (void)snprintf(t->released[t->nreleased++ % MR_RELEASED_MAX], MR_RELEASED_ID_SIZE, "%s",
                       client);
    }
}

void mr_worker_task_release_client(struct mr_worker_task *t, const char *client)
{
    mr_rpc_stream *stream = NULL;

    mr_mutex_lock(&t->lock);
    remember_released_locked(t, client);
    mr_book_session *s = mr_book_find(t->book, client);
    if (s != NULL) {
        stream = detach_locked(s);
        mr_book_abandon(t->book, s); /* Had it said good-bye, its session would be closed. */
        mr_worker_task_changed_locked(t);
    }
    mr_mutex_unlock(&t->lock);
    if (stream != NULL) {
        mr_rpc_stream_finish(stream, MR_ECANCELED, "the dispatcher has released this client");
        mr_rpc_stream_unref(stream);
    }
    mr_worker_task_pump(t);
}

/* ---- rows of a task's own pipeline ---- */

/* Memory is short: one block at a time, when the one before was sent. That wakes us, whoever else
 * makes room. */
static bool holds_back_locked(const struct mr_worker_task *t)
{
    return mr_book_has_ready(t->book) && mr_memory_is_short(t->worker->memory, MR_MEMORY_AHEAD, 0);
}

static int wait_demand(struct mr_worker_task *t, uint32_t *rows, mr_error *err)
{
    MR_LOCK(&t->lock);
    if (mr_book_demand(t->book) == 0 || holds_back_locked(t)) {
        while (!t->cancelled && (!mr_book_low(t->book) || holds_back_locked(t)) &&
               !mr_worker_task_has_nothing(t)) {
            mr_cond_wait(&t->changed, &t->lock);
        }
    }
    if (t->cancelled) {
        return mr_error_set(err, MR_ECANCELED, "the task was cancelled");
    }
    if (mr_worker_task_has_nothing(t)) {
        return MR_END;
    }
    *rows = mr_book_demand(t->book);
    return MR_OK;
}

static int put_into_book(struct mr_worker_task *t, mr_block *block, mr_error *err)
{
    mr_mutex_lock(&t->lock);
    int rc = mr_book_add(t->book, block, err);
    mr_mutex_unlock(&t->lock);
    mr_worker_task_pump(t);
    return rc;
}

static const struct mr_sink book_sink = {.wait = wait_demand, .put = put_into_book};

/* ---- the thread ---- */

/*
 * All that is left is with clients that are here: how long to wait for them to return it, or close.
 * -1: that is not so, or they keep nobody, and whoever comes later may get it. @returned and
 * @since_ms: when one of them returned something last. t->lock is held.
 */
static int64_t patience_locked(struct mr_worker_task *t, uint64_t *returned, int64_t *since_ms)
{
    struct mr_book_counts counts;

    if (mr_worker_task_drains(t) && mr_book_waits_for_clients(t->book)) {
        return 0;
    }
    if (!mr_book_keeps_clients(t->book)) {
        *since_ms = 0;
        return -1;
    }
    mr_book_counts(t->book, &counts);
    if (*since_ms == 0 || *returned != counts.returned) {
        *returned = counts.returned;
        *since_ms = mr_now_ms();
    }
    int64_t left_ms = *since_ms + CLIENT_RESTS_MS - mr_now_ms();
    return left_ms > 0 ? left_ms : 0;
}

/*
 * Wait until every element was returned, or is with clients that rest: one thread may read two
 * iterators in turn, so that the one waits for the end and the other for its turn. False:
 * cancelled. A pipeline that did not finish never settles.
 */
static bool wait_settled(struct mr_worker_task *t)
{
    uint64_t returned = 0;
    int64_t since_ms = 0;

    mr_mutex_lock(&t->lock);
    while (!t->cancelled && !mr_book_settled(t->book)) {
        int64_t left_ms = patience_locked(t, &returned, &since_ms);

        if (left_ms != 0) {
            (void)mr_cond_wait_ms(&t->changed, &t->lock, left_ms);
            continue;
        }
        mr_book_stop_waiting(t->book);
        mr_log(MR_LOG_INFO, "the end does not wait any longer for readers that rest with elements",
               "task", "%s", t->id, "job", "%s", t->job, NULL);
        t->settled = true;
        mr_mutex_unlock(&t->lock);
        mr_worker_task_pump(t); /* Others may have to be told the end. */
        mr_mutex_lock(&t->lock);
        break; /* Who was told it does not come for what is given back meanwhile. */
    }
    bool settled = !t->cancelled;
    t->settled = settled;
    mr_mutex_unlock(&t->lock);
    return settled;
}

/* Clients that rest with elements, as the end has them. */
struct holders {
    Millrace__Holder all[MR_HOLDERS_MAX];
    Millrace__Holder *list[MR_HOLDERS_MAX];
    char ids[MR_HOLDERS_MAX][MR_RELEASED_ID_SIZE];
};

/* Of those that are too many nobody waits to hear what they used. t->lock is held. */
static void list_holders_locked(const struct mr_worker_task *t, struct holders *h,
                                Millrace__TaskEndedRequest *req)
{
    const mr_book_session *s = NULL;

    req->holders = h->list;
    while ((s = mr_book_each(t->book, s)) != NULL) {
        uint64_t kept = mr_book_kept(s);
        Millrace__Holder *holder = &h->all[req->n_holders];
        char *id = h->ids[req->n_holders];

        if (kept == 0) {
            continue;
        }
        if (req->n_holders == MR_HOLDERS_MAX || strlen(mr_book_client(s)) >= sizeof h->ids[0]) {
            req->abandoned += kept;
            continue;
        }
        (void)snprintf(id, sizeof h->ids[0], "%s", mr_book_client(s));
        millrace__holder__init(holder);
        holder->client = id;
        holder->elements = kept;
        h->list[req->n_holders++] = holder;
    }
}

static void report_end(struct mr_worker_task *t, int code, const char *message, uint64_t end_round)
{
    Millrace__TaskEndedRequest req = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_book_counts counts;
    struct holders holders;
    mr_error err;

    req.incarnation = t->worker->incarnation;
    req.task_id = t->id;
    req.code = code;
    req.message = (char *)(uintptr_t)message;
    req.drained = code == MR_OK && mr_worker_task_was_cut(t);
    req.end_round = end_round;
    mr_mutex_lock(&t->lock);
    req.skipped = t->skipped;
    mr_book_counts(t->book, &counts);
    req.abandoned = counts.lost + counts.untaken + t->before.missing;
    list_holders_locked(t, &holders, &req);
    mr_mutex_unlock(&t->lock);
    if (mr_link_task_ended(t->worker->link, &req, t, &err) < 0 && !atomic_load(&t->stop)) {
        mr_log(MR_LOG_WARN, "the dispatcher did not take the end of a task", "task", "%s", t->id,
               "error", "%s", err.message, NULL);
    }
    atomic_store(&t->ended, true);
    mr_worker_note_progress(t->worker);
}

static void say_failed(const struct mr_worker_task *t, const mr_error *err)
{
    mr_log(MR_LOG_ERROR, "the pipeline failed", "task", "%s", t->id, "job", "%s", t->job, "dataset",
           "%s", t->dataset, "error", "%s", err->message, NULL);
}

static void finish(struct mr_worker_task *t, int code, const mr_error *err)
{
    if (code < 0) {
        say_failed(t, err);
    }
    mr_mutex_lock(&t->lock);
    mr_book_finish(t->book, code, code < 0 ? err->message : NULL);
    mr_mutex_unlock(&t->lock);
    mr_worker_task_pump(t);
}

static int run(struct mr_worker_task *t, mr_error *err)
{
    if (t->kind == MR_TASK_READING) {
        return mr_reading_run(t, err);
    }
    if (mr_worker_task_has_nothing(t)) { /* It began in order to end. */
        mr_split_feed_close(t->feed);
        return MR_END;
    }
    return mr_pipeline_run(t, &book_sink, err);
}

/* Rows go to clients, whoever made them. */
static void serve(struct mr_worker_task *t)
{
    mr_error err;

    mr_error_clear(&err);
    int rc = run(t, &err);
    int code = rc == MR_END ? MR_OK : rc;
    if (code < 0 && atomic_load(&t->disowned)) {
        mr_log(MR_LOG_INFO, "this task gets no more, waiting for the next list of tasks", "task",
               "%s", t->id, "error", "%s", err.message, NULL);
    } else if (!atomic_load(&t->stop)) {
        finish(t, code, &err);
    }
    if (wait_settled(t)) {
        report_end(t, code, code < 0 ? err.message : "", 0);
    }
}

/* Rows go to consumers, in rounds. They hear from the dispatcher that the pipeline has failed. */
static void take_turns(struct mr_worker_task *t)
{
    uint64_t end_round = 0;
    mr_error err;

    mr_error_clear(&err);
    int rc = mr_pipeline_run(t, &mr_turns_sink, &err);
    if (rc == MR_END) {
        if (mr_turns_finish(t, &end_round)) {
            report_end(t, MR_OK, "", end_round);
        }
    } else if (!atomic_load(&t->stop) && !atomic_load(&t->disowned)) {
        say_failed(t, &err);
        report_end(t, rc, err.message, 0);
    }
}

static void *task_main(void *arg)
{
    struct mr_worker_task *t = arg;
    struct mr_worker *w = t->worker;

    (void)mr_memory_enter(w->memory);
    if (t->kind == MR_TASK_PRODUCING) {
        mr_producing_run(t);
    } else if (t->kind == MR_TASK_TURNS) {
        take_turns(t);
    } else {
        serve(t);
    }
    mr_reading_close(t);
    mr_mutex_lock(&w->lock);
    mr_share_give(t->at_work, 1);
    t->at_work = NULL;
    if (w->draining) {
        mr_drain_begin_locked(w);
    }
    mr_mutex_unlock(&w->lock);
    mr_worker_task_unref(t);
    return NULL;
}

/* ---- life ---- */

static enum mr_worker_task_kind kind_of(const Millrace__TaskAssignment *a)
{
    if (a->rounds != NULL) {
        return MR_TASK_TURNS;
    }
    if (a->production[0] == '\0') {
        return MR_TASK_OWN;
    }
    return a->producing ? MR_TASK_PRODUCING : MR_TASK_READING;
}

/* What is asked for. false: no memory. */
static bool take_assignment(struct mr_worker_task *t, const Millrace__TaskAssignment *a)
{
    bool dynamic = a->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;

    t->kind = kind_of(a);
    t->production = mr_strdup(a->production);
    t->joining = a->joining;
    t->lag = a->unread || a->lag == MILLRACE__LAG__LAG_SKIP ? MR_CACHE_LAG_SKIP : MR_CACHE_LAG_WAIT;
    t->id = mr_strdup(a->task_id);
    t->iteration = mr_strdup(a->iteration_id);
    t->job = mr_strdup(a->job_id);
    t->dataset = mr_strdup(a->dataset_id);
    t->fingerprint = mr_strdup(a->fingerprint);
    t->host = mr_strdup(a->host[0] != '\0' ? a->host : "unknown");
    t->definition_size = a->definition_size;
    t->dynamic = dynamic && t->kind != MR_TASK_READING;
    t->ends_by_itself = dynamic && (t->kind == MR_TASK_OWN || t->kind == MR_TASK_READING);
    t->at_least_once = a->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE;
    t->seed = a->seed;
    t->repetition = a->repetition;
    t->attempt = a->attempt;
    t->providers = (uint32_t)a->n_providers;
    t->splits = mr_calloc(a->n_providers + 1, sizeof t->splits[0]);
    for (size_t i = 0; t->splits != NULL && i < a->n_providers; i++) {
        t->splits[i] = a->providers[i]->splits;
    }
    return t->id != NULL && t->iteration != NULL && t->job != NULL && t->dataset != NULL &&
           t->fingerprint != NULL && t->host != NULL && t->splits != NULL && t->production != NULL;
}

static struct mr_book_limits limits_of(const struct mr_worker_task *t)
{
    struct mr_book_limits limits = {.message_bytes = MR_DATA_MESSAGE_BYTES_TARGET,
                                    .kept_bytes = KEPT_BYTES_MAX,
                                    .sessions = SESSIONS_MAX,
                                    .repeats = t->at_least_once};
    uint64_t budget = mr_memory_limit(t->worker->memory);

    if (limits.kept_bytes > budget / 4) {
        limits.kept_bytes = budget / 4;
    }
    if (t->kind == MR_TASK_READING) {
        /* What it holds is in memory, and the window is not. */
        limits.kept_bytes =
            limits.kept_bytes < READING_KEPT_BYTES_MAX ? limits.kept_bytes : READING_KEPT_BYTES_MAX;
        limits.given_is_told = true;
    }
    return limits;
}

static int task_new(struct mr_worker *w, const Millrace__TaskAssignment *a,
                    struct mr_worker_task **ret, mr_error *err)
{
    struct mr_worker_task *t = mr_calloc(1, sizeof *t);

    if (t == NULL) {
        return mr_error_nomem(err);
    }
    atomic_init(&t->refs, 1);
    t->worker = w;
    t->more = true;
    mr_mutex_init(&t->lock);
    mr_cond_init(&t->changed);
    mr_mutex_lock(&w->lock);
    w->ntasks++; /* Until mr_worker_task_unref() lets go of the last reference. */
    mr_mutex_unlock(&w->lock);
    int rc = take_assignment(t, a) ? MR_OK : mr_error_nomem(err);
    struct mr_book_limits limits = limits_of(t);
    if (rc == MR_OK) {
        rc = mr_book_new(&limits, &t->book, err);
    }
    if (rc == MR_OK && t->kind == MR_TASK_TURNS) {
        rc = mr_turns_new(a->rounds, limits.kept_bytes, &t->turns, err);
    }
    if (rc == MR_OK && t->dynamic) {
        rc = mr_split_feed_new(t->providers, t->at_least_once, &t->feed, err);
    }
    if (rc < 0) {
        mr_worker_task_unref(t);
        return rc;
    }
    *ret = t;
    return MR_OK;
}

int mr_worker_task_list(struct mr_worker *w, const Millrace__TaskAssignment *a,
                        struct mr_worker_task **ret, mr_error *err)
{
    struct mr_worker_task *t = NULL;
    int rc = task_new(w, a, &t, err);

    if (rc < 0) {
        return rc;
    }
    (void)mr_worker_task_ref(t); /* the list's */
    mr_mutex_lock(&w->lock);
    TAILQ_INSERT_TAIL(&w->tasks, t, link);
    t->listed = true;
    if (w->draining) {
        mr_worker_task_drain(t);
    }
    mr_mutex_unlock(&w->lock);
    *ret = t;
    return MR_OK;
}

int mr_worker_task_begin_locked(struct mr_worker_task *t, const char *host, mr_error *err)
{
    static const char *const names[MR_TASK_KINDS] = {
        [MR_TASK_OWN] = "mr-task",
        [MR_TASK_PRODUCING] = "mr-produce",
        [MR_TASK_READING] = "mr-read",
        [MR_TASK_TURNS] = "mr-turns",
    };
    struct mr_worker *w = t->worker;
    pthread_t thread;

    if (t->begun) {
        return MR_OK;
    }
    int rc = mr_shares_take(&w->at_work, host, 1, &t->at_work, err);
    if (rc < 0) {
        return rc;
    }
    (void)mr_worker_task_ref(t); /* the thread's */
    rc = mr_thread_start(&thread, names[t->kind], task_main, t, err);
    if (rc < 0) {
        mr_share_give(t->at_work, 1);
        t->at_work = NULL;
        (void)atomic_fetch_sub(&t->refs, 1); /* The list has another one. */
        return rc;
    }
    (void)pthread_detach(thread); /* w->ntasks says when it is through. */
    t->begun = true;
    return MR_OK;
}

int mr_worker_task_start(struct mr_worker_task *t, mr_error *err)
{
    struct mr_worker *w = t->worker;
    int rc = MR_OK;

    mr_mutex_lock(&w->lock);
    if (t->kind != MR_TASK_OWN) {
        rc = mr_worker_task_begin_locked(t, t->host, err);
    } else if (w->draining) {
        mr_drain_begin_locked(w);
    }
    mr_mutex_unlock(&w->lock);
    if (rc < 0) {
        mr_worker_task_drop(t);
        return rc;
    }
    mr_reading_attach(t);
    mr_conn_admit_waiting(w, t);
    return MR_OK;
}

void mr_worker_task_hold(struct mr_worker_task *t, bool held)
{
    if (atomic_exchange(&t->held, held) == held) {
        return;
    }
    mr_log(MR_LOG_DEBUG, held ? "task held, its job is set aside" : "task held no more", "task",
           "%s", t->id, NULL);
    if (held) {
        mr_reading_set_unread(t);
    } else {
        mr_link_wake_calls(t->worker->link);
    }
}

/* After it was said that the task is cancelled: its thread opens the production first, and then
 * looks at that. */
static void cancel_production(struct mr_worker_task *t)
{
    mr_chain *made;

    mr_mutex_lock(&t->worker->lock);
    made = t->made == NULL ? NULL : mr_chain_ref(t->made);
    mr_mutex_unlock(&t->worker->lock);
    if (made != NULL) {
        mr_chain_cancel(made);
        mr_chain_unref(made);
    }
}

void mr_worker_task_drop(struct mr_worker_task *t)
{
    struct mr_worker *w = t->worker;
    mr_book_session *s;
    mr_rpc_stream *stream;

    mr_mutex_lock(&w->lock);
    TAILQ_REMOVE(&w->tasks, t, link);
    t->listed = false;
    (void)pthread_cond_broadcast(&w->changed);
    mr_mutex_unlock(&w->lock);
    atomic_store(&t->stop, true);
    if (t->feed != NULL) {
        mr_split_feed_cancel(
            t->feed); /* Before anything is dropped: that makes no grant finished. */
    }
    mr_mutex_lock(&t->lock);
    t->cancelled = true; /* nothing is sent from here on */
    mr_reading_put_down_locked(t);
    if (t->engine != NULL) {
        mr_engine_cancel(t->engine);
    }
    (void)pthread_cond_broadcast(&t->changed);
    mr_mutex_unlock(&t->lock);
    cancel_production(t);
    mr_link_wake_calls(w->link);
    /* One after the other: a stream is ended without the lock. */
    for (;;) {
        stream = NULL;
        mr_mutex_lock(&t->lock);
        for (s = mr_book_each(t->book, NULL); s != NULL && stream == NULL;
             s = mr_book_each(t->book, s)) {
            stream = detach_locked(s);
        }
        if (t->turns != NULL) {
            stream = mr_turns_cut_locked(t);
        }
        mr_mutex_unlock(&t->lock);
        if (stream == NULL) {
            break;
        }
        mr_rpc_stream_finish(stream, MR_EUNAVAIL, "moved: the task was taken from this worker");
        mr_rpc_stream_unref(stream);
    }
    mr_worker_task_unref(t); /* the list's */
}
