#include "worker/task.h"

#include "base/clock.h"
#include "base/log.h"
#include "worker/conn.h"

struct mr_worker_task *mr_worker_task_ref(struct mr_worker_task *t)
{
    unsigned before = atomic_fetch_add(&t->refs, 1);

    MR_ASSERT(before > 0);
    return t;
}

void mr_worker_task_unref(struct mr_worker_task *t)
{
    if (t == NULL || atomic_fetch_sub(&t->refs, 1) != 1) {
        return;
    }
    MR_ASSERT(t->engine == NULL);
    struct mr_worker *w = t->worker;
    if (t->kind->free != NULL) {
        t->kind->free(t);
    }
    mr_split_feed_free(t->feed);
    mr_cpu_share_unref(t->share);
    millrace__task_assignment__free_unpacked(t->a, NULL);
    (void)pthread_cond_destroy(&t->changed);
    (void)pthread_mutex_destroy(&t->lock);
    t->magic = 0;
    mr_free(t);
    MR_LOCK(&w->lock);
    w->ntasks--;
    (void)pthread_cond_broadcast(&w->changed);
}

struct mr_worker_task *mr_worker_task_find_locked(struct mr_worker *w, const char *id)
{
    struct mr_worker_task *t;

    TAILQ_FOREACH(t, &w->tasks, link) {
        if (strcmp(t->id, id) == 0) {
            return t;
        }
    }
    return NULL;
}

struct mr_worker_task *mr_worker_task_next(struct mr_worker *w, struct mr_worker_task *last)
{
    mr_mutex_lock(&w->lock);
    /* Where the last one was dropped meanwhile: from the beginning. */
    struct mr_worker_task *t =
        last == NULL || !last->listed ? TAILQ_FIRST(&w->tasks) : TAILQ_NEXT(last, link);
    if (t != NULL) {
        (void)mr_worker_task_ref(t);
    }
    mr_mutex_unlock(&w->lock);
    mr_worker_task_unref(last);
    return t;
}

void mr_worker_note_progress(struct mr_worker *w)
{
    MR_LOCK(&w->lock);
    (void)pthread_cond_broadcast(&w->changed);
}

/* ---- draining ---- */

/*
 * Going on purpose. What a worker that drains has begun it finishes, as far as time allows; what it
 * has not opened it gives back, so that it is neither lost nor read twice.
 *
 * Happy path: the dispatcher is told and gives us no more; the feed of each DYNAMIC task gives back
 * what the engine has not taken (split_feed.h) and then tells it that the sources are over; the
 * pipeline flushes, clients read the rest, and the task says that it has ended, because it drained.
 * When all have, nothing is left that could be lost.
 *
 * Not waited for: OFF tasks, whose readers hear that a copy went; coordinated ones, whose rounds go
 * by the schedule; and producing tasks, which end with those that read them.
 *
 * A task's feed and lock are taken under the worker's lock.
 */

/* Its sources are cut off when the worker drains. */
static bool gives_back(const struct mr_worker_task *t)
{
    return t->feed != NULL && t->kind->gives_back;
}

static void drain_task(struct mr_worker_task *t)
{
    if (gives_back(t)) {
        mr_split_feed_tell(t->feed, mr_splits_drain);
        MR_LOCK(&t->lock);
        (void)pthread_cond_broadcast(&t->changed);
    }
}

bool mr_worker_task_splits(const struct mr_worker_task *t, bool (*are)(const mr_splits *splits))
{
    return gives_back(t) && mr_split_feed_is(t->feed, are);
}

bool mr_worker_task_has_nothing(const struct mr_worker_task *t)
{
    return mr_worker_task_splits(t, mr_splits_are_untouched);
}

/* If it drains, tasks that nobody has come to read have to end: as many of them begin as may. When
 * one is through, it is the others' turn. worker->lock is held, no other. */
static void begin_drained_locked(struct mr_worker *w)
{
    struct mr_worker_task *t;

    if (!w->draining) {
        return;
    }
    TAILQ_FOREACH(t, &w->tasks, link) {
        if (gives_back(t)) {
            (void)mr_worker_task_begin_locked(t, t->host, NULL);
        }
    }
}

void mr_worker_drain(mr_worker *w)
{
    struct mr_worker_task *t;

    mr_mutex_lock(&w->lock);
    w->draining = true;
    TAILQ_FOREACH(t, &w->tasks, link) {
        drain_task(t);
    }
    begin_drained_locked(w);
    mr_mutex_unlock(&w->lock);
    mr_link_beat(w->link);
}

bool mr_worker_was_told_to_drain(mr_worker *w)
{
    MR_LOCK(&w->lock);
    return w->told_to_drain;
}

static bool is_through_locked(struct mr_worker *w, enum mr_drain_stage stage)
{
    struct mr_worker_task *t;

    TAILQ_FOREACH(t, &w->tasks, link) {
        if (gives_back(t) && !mr_split_feed_is(t->feed, mr_splits_have_given_back)) {
            return false;
        }
        if (stage == MR_DRAIN_ENDED && t->ends && !atomic_load(&t->ended)) {
            return false;
        }
    }
    return stage == MR_DRAIN_GIVEN_BACK || mr_link_list_is_final(w->link);
}

bool mr_worker_wait_drained(mr_worker *w, enum mr_drain_stage stage, int64_t timeout_ms)
{
    int64_t until = mr_now_ms() + timeout_ms;

    if (mr_worker_wait_registered(w, 0, NULL) == MR_TIMEOUT) {
        return true; /* nobody has given us anything */
    }
    MR_LOCK(&w->lock);
    while (!is_through_locked(w, stage)) {
        int64_t left = until - mr_now_ms();

        if (left <= 0) {
            return false;
        }
        (void)mr_cond_wait_ms(&w->changed, &w->lock, left);
    }
    return true;
}

/* ---- making one ---- */

/* All tasks of a job are one share of the cores; so is a production, whoever reads it. */
static int find_share(struct mr_worker_task *t, mr_error *err)
{
    const Millrace__TaskAssignment *a = t->a;
    struct mr_cpu_names names = {.owner = a->owner,
                                 .owner_weight = a->owner_weight,
                                 .job = a->job_id[0] != '\0' ? a->job_id : a->iteration_id};

    return mr_cpu_share_get(&names, &t->share, err);
}

static int task_new(struct mr_worker *w, Millrace__TaskAssignment *a,
                    const struct mr_worker_task_kind *kind, struct mr_worker_task **ret,
                    mr_error *err)
{
    bool dynamic = a->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    struct mr_worker_task *t = mr_calloc(1, kind->size);

    MR_CHECK_ALLOC(t, err);
    t->magic = MR_WORKER_TASK_MAGIC;
    atomic_init(&t->refs, 1);
    t->worker = w;
    t->kind = kind;
    t->a = a;
    t->id = a->task_id;
    t->host = a->host[0] != '\0' ? a->host : "unknown";
    t->dynamic = dynamic && kind->has_pipeline;
    t->ends = dynamic && kind->ends;
    t->at_least_once = a->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE;
    t->providers = (uint32_t)a->n_providers;
    mr_mutex_init(&t->lock);
    mr_cond_init(&t->changed);
    mr_mutex_lock(&w->lock);
    w->ntasks++; /* Until mr_worker_task_unref() lets go of the last reference. */
    mr_mutex_unlock(&w->lock);
    int rc = kind->init != NULL ? kind->init(t, err) : MR_OK;
    rc = rc == MR_OK ? find_share(t, err) : rc;
    if (rc == MR_OK && t->dynamic) {
        rc = mr_split_feed_new(t->providers, t->at_least_once, &t->feed, err);
    }
    if (rc < 0) {
        t->a = NULL; /* the caller's still */
        mr_worker_task_unref(t);
        return rc;
    }
    *ret = t;
    return MR_OK;
}

int mr_worker_task_list(struct mr_worker *w, Millrace__TaskAssignment *a,
                        const struct mr_worker_task_kind *kind, struct mr_worker_task **ret,
                        mr_error *err)
{
    struct mr_worker_task *t = NULL;

    MR_TRY(task_new(w, a, kind, &t, err));
    (void)mr_worker_task_ref(t); /* the list's */
    *ret = t;
    MR_LOCK(&w->lock);
    TAILQ_INSERT_TAIL(&w->tasks, t, link);
    t->listed = true;
    if (w->draining) {
        drain_task(t);
    }
    return MR_OK;
}

/* ---- its thread ---- */

static void *task_main(void *arg)
{
    struct mr_worker_task *t = mr_worker_task_of(arg);
    struct mr_worker *w = t->worker;

    (void)mr_memory_enter(w->memory);
    mr_cpu_enter(t->share);
    t->kind->run(t);
    mr_cpu_leave();
    mr_worker_task_is_at(t, MR_AT_NOTHING);
    mr_mutex_lock(&w->lock);
    mr_share_give(t->at_work, 1);
    t->at_work = NULL;
    begin_drained_locked(w);
    mr_mutex_unlock(&w->lock);
    mr_worker_task_unref(t);
    return NULL;
}

int mr_worker_task_begin_locked(struct mr_worker_task *t, const char *host, mr_error *err)
{
    struct mr_worker *w = t->worker;
    pthread_t thread;

    if (t->begun) {
        return MR_OK;
    }
    MR_TRY(mr_shares_take(&w->at_work, host, 1, &t->at_work, err));
    (void)mr_worker_task_ref(t); /* the thread's */
    int rc = mr_thread_start(&thread, t->kind->thread, task_main, t, err);
    if (rc < 0) {
        mr_share_give(t->at_work, 1);
        t->at_work = NULL;
        (void)atomic_fetch_sub(&t->refs, 1); /* The list has another one. */
    } else {
        (void)pthread_detach(thread); /* w->ntasks says when it is through. */
        t->begun = true;
        (void)pthread_cond_signal(&w->look_due);
    }
    return rc;
}

int mr_worker_task_start(struct mr_worker_task *t, mr_error *err)
{
    struct mr_worker *w = t->worker;
    int rc = MR_OK;

    mr_mutex_lock(&w->lock);
    if (!t->kind->on_demand) {
        rc = mr_worker_task_begin_locked(t, t->host, err);
    } else {
        begin_drained_locked(w);
    }
    mr_mutex_unlock(&w->lock);
    if (rc < 0) {
        mr_worker_task_drop(t);
    } else if (t->kind->find_window != NULL) {
        t->kind->find_window(t);
    }
    return rc;
}

void mr_worker_task_report_end(struct mr_worker_task *t, Millrace__TaskEndedRequest *req)
{
    mr_error err;

    req->incarnation = t->worker->incarnation;
    req->task_id = t->id;
    req->drained = req->code == MR_OK &&
                   (t->kind->was_cut != NULL ? t->kind->was_cut(t)
                                             : mr_worker_task_splits(t, mr_splits_were_cut));
    ProtobufCMessage *reply = NULL;
    int rc = mr_link_call(t->worker->link, t, &mr_link_task_ended, &req->base, &reply, &err);
    if (rc < 0 && !atomic_load(&t->stop)) {
        mr_log(MR_LOG_WARN, "the dispatcher did not take the end of a task", "task", "%s", t->id,
               "error", "%s", err.message, NULL);
    }
    mr_link_free_message(reply);
    atomic_store(&t->ended, true);
    mr_worker_note_progress(t->worker);
}

/* ---- what the dispatcher says ---- */

void mr_worker_task_hold(struct mr_worker_task *t, bool held)
{
    if (atomic_exchange(&t->held, held) == held) {
        return;
    }
    mr_log(MR_LOG_DEBUG, held ? "task held, its job is set aside" : "task held no more", "task",
           "%s", t->id, NULL);
    if (!held) {
        mr_link_wake_calls(t->worker->link);
    } else if (t->kind->set_aside != NULL) {
        t->kind->set_aside(t);
    }
}

/* One after the other: a stream is ended without the lock. */
static void end_streams(struct mr_worker_task *t)
{
    while (t->kind->streams != NULL) {
        mr_mutex_lock(&t->lock);
        mr_rpc_stream *stream = t->kind->streams->cut_locked(t);
        mr_mutex_unlock(&t->lock);
        if (stream == NULL) {
            return;
        }
        mr_conn_end(stream, MR_EUNAVAIL, "moved: the task was taken from this worker");
    }
}

void mr_worker_task_drop(struct mr_worker_task *t)
{
    struct mr_worker *w = t->worker;

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
    t->cancelled = true;
    if (t->kind->cancel_locked != NULL) {
        t->kind->cancel_locked(t);
    }
    if (t->engine != NULL) {
        mr_engine_cancel(t->engine);
    }
    (void)pthread_cond_broadcast(&t->changed);
    mr_mutex_unlock(&t->lock);
    mr_link_wake_calls(w->link);
    end_streams(t);
    mr_worker_task_unref(t); /* the list's */
}
