/*
 * A task: one run of a dataset graph for one iteration.
 *
 * Happy path: fetch the definition, open the engine, pull blocks as far ahead as credits ask for, put them into the
 * book; at the pipeline's end wait until all elements arrived at clients, then tell the dispatcher, once, until it
 * answers.
 *
 * Failures: an error of the pipeline is the task's end too, with a code: readers get it after the rows before it, the
 * dispatcher when those have arrived. A dispatcher that is away is waited for (splits at hand are used up meanwhile).
 *
 * Close: the dispatcher no longer lists the task: it is dropped. Its streams end, its thread is told to stop and frees
 * the last of it when the engine has let go; nobody waits for that but mr_worker_stop().
 */
#include "worker/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/rng.h"

#include <inttypes.h>
#include <millrace/dataset.h> /* mr_free */
#include <stdio.h>
#include <string.h>

/* When a pulled block is large enough. */
#define PULL_BYTES (256 * MR_KIB)
#define SESSIONS_MAX 4096u
#define KEPT_BYTES_MAX (256 * MR_MIB)
/* What one grant may consist of: at worst every split is a range of its own. */
#define RANGES_MAX MR_GRANT_SPLITS_MAX

struct mr_task *mr_task_ref(struct mr_task *t)
{
    unsigned before = atomic_fetch_add(&t->refs, 1);

    MR_ASSERT(before > 0);
    return t;
}

void mr_task_unref(struct mr_task *t)
{
    if (atomic_fetch_sub(&t->refs, 1) != 1) {
        return;
    }
    MR_ASSERT(t->engine == NULL);
    struct mr_worker *w = t->worker;
    mr_split_feed_free(t->feed);
    mr_book_free(t->book);
    mr_free(t->id);
    mr_free(t->iteration);
    mr_free(t->job);
    mr_free(t->dataset);
    mr_free(t->fingerprint);
    mr_free(t->splits);
    mr_free(t->released);
    (void)pthread_cond_destroy(&t->changed);
    (void)pthread_mutex_destroy(&t->lock);
    mr_free(t);
    MR_LOCK(&w->lock);
    w->ntasks--;
    (void)pthread_cond_broadcast(&w->changed);
}

void mr_task_changed_locked(struct mr_task *t)
{
    if (t->cancelled || mr_book_low(t->book) || mr_book_settled(t->book)) {
        (void)pthread_cond_broadcast(&t->changed);
    }
}

/* ---- sending ---- */

void mr_task_pump(struct mr_task *t)
{
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
        mr_task_changed_locked(t);
        mr_mutex_unlock(&t->lock);
        if (rc == MR_OK) {
            mr_conn_send(c, &m);
            mr_book_message_free(&m);
        } else {
            mr_log(MR_LOG_WARN, "making a message, breaking the stream off", "task", "%s", t->id, "error", "%s",
                   err.message, NULL);
            mr_rpc_stream_cancel(c->stream);
        }
        mr_conn_unref(c);
    }
}

/* The connection of @s, if it has one, loses it; a reference to its stream, or NULL. t->lock is held. */
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

bool mr_task_has_released_locked(const struct mr_task *t, const char *client)
{
    size_t n = t->nreleased < MR_RELEASED_MAX ? t->nreleased : MR_RELEASED_MAX;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(t->released[i], client) == 0) {
            return true;
        }
    }
    return false;
}

/* Without memory it is not remembered: a session of a client that is gone may then be kept for too long. */
static void remember_released_locked(struct mr_task *t, const char *client)
{
    if (mr_task_has_released_locked(t, client) || strlen(client) >= MR_RELEASED_ID_SIZE) {
        return;
    }
    if (t->released == NULL) {
        t->released = mr_calloc(MR_RELEASED_MAX, sizeof *t->released);
    }
    if (t->released != NULL) {
        (void)snprintf(t->released[t->nreleased++ % MR_RELEASED_MAX], MR_RELEASED_ID_SIZE, "%s", client);
    }
}

void mr_task_release_client(struct mr_task *t, const char *client)
{
    mr_rpc_stream *stream = NULL;

    mr_mutex_lock(&t->lock);
    remember_released_locked(t, client);
    mr_book_session *s = mr_book_find(t->book, client);
    if (s != NULL) {
        stream = detach_locked(s);
        mr_book_abandon(t->book, s); /* Had it said good-bye, its session would be closed. */
        mr_task_changed_locked(t);
    }
    mr_mutex_unlock(&t->lock);
    if (stream != NULL) {
        mr_rpc_stream_finish(stream, MR_ECANCELED, "the dispatcher has released this client");
        mr_rpc_stream_unref(stream);
    }
    mr_task_pump(t);
}

/* ---- splits ---- */

static int ask_splits(struct mr_task *t, const struct mr_split_request *ask, mr_error *err)
{
    Millrace__GetSplitsRequest req = MILLRACE__GET_SPLITS_REQUEST__INIT;
    Millrace__GetSplitsReply *reply;
    struct mr_grant_report report;
    struct mr_range *ranges;
    int rc;

    req.incarnation = t->worker->incarnation;
    req.task_id = t->id;
    req.iteration_id = t->iteration;
    req.provider = ask->provider;
    req.repetition = ask->repetition;
    req.seq = ask->seq;
    req.want = ask->want;
    if (t->at_least_once) {
        mr_grant_report_fill(&report, t->feed, ask->provider);
        req.report = &report.base;
    }
    rc = mr_link_splits(t->worker->link, &req, &t->stop, &reply, err);
    if (rc < 0) {
        return rc;
    }
    ranges = reply->n_ranges > RANGES_MAX ? NULL : mr_calloc(reply->n_ranges, sizeof ranges[0]);
    if (ranges == NULL) {
        rc = mr_error_set(err, MR_EEXHAUSTED, "no memory for a grant of %zu ranges", reply->n_ranges);
    } else {
        for (size_t i = 0; i < reply->n_ranges; i++) {
            ranges[i] = (struct mr_range){.first = reply->ranges[i]->first, .count = reply->ranges[i]->count};
        }
        rc = mr_split_feed_answer(t->feed, ask, ranges, reply->n_ranges, reply->end, err);
    }
    mr_free(ranges);
    millrace__get_splits_reply__free_unpacked(reply, NULL);
    return rc;
}

static void *asker_main(void *arg)
{
    struct mr_task *t = arg;
    struct mr_split_request ask;

    while (mr_split_feed_wait(t->feed, &ask)) {
        mr_error err;

        int rc = ask_splits(t, &ask, &err);

        if (rc < 0) {
            mr_error_wrap(&err, "asking for splits of iteration %s", t->iteration);
            /* The task is over for the dispatcher, or we are: not an error of the pipeline, and nobody's to be told. */
            atomic_store(&t->disowned, rc == MR_ENOTFOUND || rc == MR_EPRECOND);
            mr_split_feed_fail(t->feed, &err);
        }
    }
    return NULL;
}

/* ---- the pipeline ---- */

static int fetch_dataset(struct mr_task *t, mr_dataset **ret, mr_error *err)
{
    Millrace__GetDatasetRequest req = MILLRACE__GET_DATASET_REQUEST__INIT;
    Millrace__GetDatasetReply *reply;
    int rc;

    req.dataset_id = t->dataset;
    req.want_definition = true;
    req.fingerprint = t->fingerprint;
    rc = mr_link_dataset(t->worker->link, &req, &t->stop, &reply, err);
    if (rc < 0) {
        mr_error_wrap(err, "fetching dataset '%s'", t->dataset);
        return rc;
    }
    rc = mr_dataset_parse(reply->definition.data, reply->definition.len, ret, err);
    if (rc < 0) {
        mr_error_wrap(err, "dataset '%s'", t->dataset);
    }
    millrace__get_dataset_reply__free_unpacked(reply, NULL);
    return rc;
}

/* The dispatcher made its table of splits from the same definition: both must count the same. */
static int check_providers(const struct mr_task *t, const mr_dataset *ds, mr_error *err)
{
    int64_t splits[64];
    size_t n = 0;
    int rc = mr_dataset_providers(ds, splits, sizeof splits / sizeof splits[0], &n, err);

    if (rc == MR_OK && n != t->providers) {
        rc = mr_error_set(err, MR_EINTERNAL, "dataset '%s' has %zu split providers here, %u at the dispatcher",
                          t->dataset, n, t->providers);
    }
    for (size_t i = 0; rc == MR_OK && i < n; i++) {
        if (splits[i] != t->splits[i]) {
            rc = mr_error_set(err, MR_EINTERNAL,
                              "source %zu of dataset '%s' has %" PRId64 " splits here, %" PRId64
                              " at the dispatcher: do they run the same version?",
                              i, t->dataset, splits[i], t->splits[i]);
        }
    }
    return rc;
}

/*
 * Unseeded operators draw from the iteration's seed. Copies of one dataset (OFF) must not all come in one order; parts
 * of it (DYNAMIC) must not depend on the worker that has them.
 */
static uint64_t task_seed(const struct mr_task *t)
{
    uint64_t seed = t->dynamic ? t->seed : mr_mix64(t->seed ^ mr_hash64(t->id, strlen(t->id)));

    return seed == 0 ? 1 : seed;
}

static int open_engine(struct mr_task *t, mr_error *err)
{
    struct mr_worker *w = t->worker;
    struct mr_split_source source;
    struct mr_engine_options opts = {.seed = task_seed(t),
                                     .epoch = t->repetition,
                                     .memory_budget_bytes = w->memory_budget_bytes,
                                     .threads = w->threads};
    mr_engine_iter *engine = NULL;
    mr_dataset *ds = NULL;
    int rc = fetch_dataset(t, &ds, err);

    if (rc == MR_OK && t->dynamic) {
        rc = check_providers(t, ds, err);
        source = mr_split_feed_source(t->feed);
        opts.splits = &source;
    }
    if (rc == MR_OK) {
        rc = mr_engine_open(ds, &opts, &engine, err);
    }
    if (rc == MR_OK) {
        MR_LOCK(&t->lock);
        t->engine = engine;
        t->spec_hash = mr_spec_hash(mr_dataset_spec(ds));
        if (t->cancelled) {
            mr_engine_cancel(engine);
        }
    }
    mr_dataset_unref(ds);
    return rc;
}

static void close_engine(struct mr_task *t)
{
    mr_engine_iter *engine;

    mr_mutex_lock(&t->lock);
    engine = t->engine;
    t->engine = NULL;
    mr_mutex_unlock(&t->lock);
    mr_engine_close(engine);
}

/* Wait until rows are wanted; 0: cancelled. */
static uint32_t wait_demand(struct mr_task *t)
{
    MR_LOCK(&t->lock);
    if (mr_book_demand(t->book) == 0) {
        while (!t->cancelled && !mr_book_low(t->book)) {
            mr_cond_wait(&t->changed, &t->lock);
        }
    }
    return t->cancelled ? 0 : mr_book_demand(t->book);
}

static int check_rows(const mr_block *block, mr_error *err)
{
    uint32_t rows = mr_block_rows(block);

    /* Only a block of few rows can hold one that is too large to be sent. */
    if (mr_block_row_bytes(block, 0, rows) <= MR_ELEMENT_BYTES_MAX) {
        return MR_OK;
    }
    for (uint32_t r = 0; r < rows; r++) {
        size_t bytes = mr_block_row_bytes(block, r, 1);

        if (bytes > MR_ELEMENT_BYTES_MAX) {
            return mr_error_set(err, MR_EEXHAUSTED, "an element of %zu bytes is above the limit of %llu", bytes,
                                MR_ELEMENT_BYTES_MAX);
        }
    }
    return MR_OK;
}

/* Pull and hand over until the pipeline is over: MR_END, or its error. */
static int produce(struct mr_task *t, mr_error *err)
{
    for (;;) {
        struct mr_want want = {.rows_max = wait_demand(t), .bytes_hint = PULL_BYTES};
        mr_block *block;
        int rc;

        if (want.rows_max == 0) {
            return mr_error_set(err, MR_ECANCELED, "the task was cancelled");
        }
        rc = mr_engine_pull(t->engine, want, -1, &block, err);
        if (rc == MR_OK) {
            rc = check_rows(block, err);
            if (rc < 0) {
                mr_block_unref(block);
                return rc;
            }
            mr_mutex_lock(&t->lock);
            rc = mr_book_add(t->book, block, err);
            mr_mutex_unlock(&t->lock);
            mr_task_pump(t);
        }
        if (rc != MR_OK) {
            return rc;
        }
    }
}

static int run_pipeline(struct mr_task *t, mr_error *err)
{
    pthread_t asker;
    int rc = open_engine(t, err);

    if (rc < 0) {
        return rc;
    }
    if (t->dynamic) {
        rc = mr_thread_start(&asker, "mr-splits", asker_main, t, err);
    }
    if (rc == MR_OK) {
        rc = produce(t, err);
        if (t->dynamic) {
            if (rc == MR_END) {
                mr_split_feed_close(t->feed);
            } else {
                mr_split_feed_cancel(t->feed);
            }
            (void)pthread_join(asker, NULL);
        }
    }
    close_engine(t);
    return rc;
}

/* Wait until every element arrived; false: cancelled. A pipeline that did not finish never settles. */
static bool wait_settled(struct mr_task *t)
{
    MR_LOCK(&t->lock);
    while (!t->cancelled && !mr_book_settled(t->book)) {
        mr_cond_wait(&t->changed, &t->lock);
    }
    return !t->cancelled;
}

static void report_end(struct mr_task *t, int code, const char *message)
{
    Millrace__TaskEndedRequest req = MILLRACE__TASK_ENDED_REQUEST__INIT;
    mr_error err;

    req.incarnation = t->worker->incarnation;
    req.task_id = t->id;
    req.code = code;
    req.message = (char *)(uintptr_t)message;
    if (mr_link_task_ended(t->worker->link, &req, &t->stop, &err) < 0 && !atomic_load(&t->stop)) {
        mr_log(MR_LOG_WARN, "the dispatcher did not take the end of a task", "task", "%s", t->id, "error", "%s",
               err.message, NULL);
    }
}

static void finish(struct mr_task *t, int code, const mr_error *err)
{
    if (code < 0) {
        mr_log(MR_LOG_ERROR, "the pipeline failed", "task", "%s", t->id, "job", "%s", t->job, "dataset", "%s",
               t->dataset, "error", "%s", err->message, NULL);
    }
    mr_mutex_lock(&t->lock);
    mr_book_finish(t->book, code, code < 0 ? err->message : NULL);
    mr_mutex_unlock(&t->lock);
    mr_task_pump(t);
}

static void *task_main(void *arg)
{
    struct mr_task *t = arg;
    mr_error err;
    int rc;

    mr_error_clear(&err);
    rc = run_pipeline(t, &err);
    int code = rc == MR_END ? MR_OK : rc;
    if (code < 0 && atomic_load(&t->disowned)) {
        mr_log(MR_LOG_INFO, "the dispatcher gives no more splits, waiting for the next list of tasks", "task", "%s",
               t->id, "error", "%s", err.message, NULL);
    } else if (!atomic_load(&t->stop)) {
        finish(t, code, &err);
    }
    if (wait_settled(t)) {
        report_end(t, code, code < 0 ? err.message : "");
    }
    mr_task_unref(t);
    return NULL;
}

/* ---- life ---- */

static int task_new(struct mr_worker *w, const Millrace__TaskAssignment *a, struct mr_task **ret, mr_error *err)
{
    struct mr_book_limits limits = {.message_bytes = MR_DATA_MESSAGE_BYTES_TARGET,
                                    .kept_bytes = KEPT_BYTES_MAX,
                                    .sessions = SESSIONS_MAX,
                                    .until_returned = a->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE};
    struct mr_task *t = mr_calloc(1, sizeof *t);
    int rc = MR_OK;

    if (t == NULL) {
        return mr_error_nomem(err);
    }
    if (w->memory_budget_bytes != 0 && limits.kept_bytes > w->memory_budget_bytes / 4) {
        limits.kept_bytes = w->memory_budget_bytes / 4;
    }
    atomic_init(&t->refs, 1);
    t->worker = w;
    t->id = mr_strdup(a->task_id);
    t->iteration = mr_strdup(a->iteration_id);
    t->job = mr_strdup(a->job_id);
    t->dataset = mr_strdup(a->dataset_id);
    t->fingerprint = mr_strdup(a->fingerprint);
    t->dynamic = a->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    t->at_least_once = limits.until_returned;
    t->seed = a->seed;
    t->repetition = a->repetition;
    t->attempt = a->attempt;
    t->providers = (uint32_t)a->n_providers;
    t->splits = mr_calloc(a->n_providers + 1, sizeof t->splits[0]);
    for (size_t i = 0; t->splits != NULL && i < a->n_providers; i++) {
        t->splits[i] = a->providers[i]->splits;
    }
    mr_mutex_init(&t->lock);
    mr_cond_init(&t->changed);
    mr_mutex_lock(&w->lock);
    w->ntasks++; /* Until mr_task_unref() lets go of the last reference. */
    mr_mutex_unlock(&w->lock);
    if (t->id == NULL || t->iteration == NULL || t->job == NULL || t->dataset == NULL || t->fingerprint == NULL ||
        t->splits == NULL) {
        rc = mr_error_nomem(err);
    }
    if (rc == MR_OK) {
        rc = mr_book_new(&limits, &t->book, err);
    }
    if (rc == MR_OK && t->dynamic) {
        rc = mr_split_feed_new(t->providers, t->at_least_once, &t->feed, err);
    }
    if (rc < 0) {
        mr_task_unref(t);
        return rc;
    }
    *ret = t;
    return MR_OK;
}

int mr_task_start(struct mr_worker *w, const Millrace__TaskAssignment *a, mr_error *err)
{
    struct mr_task *t = NULL;
    pthread_t thread;
    int rc = task_new(w, a, &t, err);

    if (rc < 0) {
        return rc;
    }
    (void)mr_task_ref(t); /* the list's */
    mr_mutex_lock(&w->lock);
    TAILQ_INSERT_TAIL(&w->tasks, t, link);
    mr_mutex_unlock(&w->lock);
    (void)mr_task_ref(t); /* this function's */
    rc = mr_thread_start(&thread, "mr-task", task_main, t, err);
    if (rc < 0) {
        mr_task_unref(t); /* the thread's */
        mr_task_drop(t);
    } else {
        (void)pthread_detach(thread); /* w->ntasks says when it is through. */
        mr_conn_admit_waiting(w, t);
    }
    mr_task_unref(t);
    return rc;
}

void mr_task_drop(struct mr_task *t)
{
    struct mr_worker *w = t->worker;
    mr_book_session *s;
    mr_rpc_stream *stream;

    mr_mutex_lock(&w->lock);
    TAILQ_REMOVE(&w->tasks, t, link);
    mr_mutex_unlock(&w->lock);
    atomic_store(&t->stop, true);
    if (t->feed != NULL) {
        mr_split_feed_cancel(t->feed); /* Before anything is dropped: that makes no grant finished. */
    }
    mr_mutex_lock(&t->lock);
    t->cancelled = true;
    if (t->engine != NULL) {
        mr_engine_cancel(t->engine);
    }
    (void)pthread_cond_broadcast(&t->changed);
    mr_mutex_unlock(&t->lock);
    mr_link_wake_calls(w->link);
    /* One after the other: a stream is ended without the lock. */
    for (;;) {
        stream = NULL;
        mr_mutex_lock(&t->lock);
        for (s = mr_book_each(t->book, NULL); s != NULL && stream == NULL; s = mr_book_each(t->book, s)) {
            stream = detach_locked(s);
        }
        mr_mutex_unlock(&t->lock);
        if (stream == NULL) {
            break;
        }
        mr_rpc_stream_finish(stream, MR_EUNAVAIL, "moved: the task was taken from this worker");
        mr_rpc_stream_unref(stream);
    }
    mr_task_unref(t); /* the list's */
}
