/*
 * Happy path: register, watch the task list (assignments.c does what it says), heartbeat. If an
 * update of the list was missed, or a task could not be started, all of it is asked for again, by
 * registering.
 *
 * Failures: no answer: tried again for ever, said once. "Not found" (the dispatchers lost us, or
 * their store was made anew): drop all tasks, which were given up, and register again. "Failed
 * precondition" (another process has this address now, or a dispatcher of another cluster answers
 * at one of ours): register, with back-off, since that may pass; the tasks stay, since they may be
 * ours still.
 *
 * A cluster of another incarnation (its etcd was restored or made anew) has other tasks under the
 * same names, and what it believes to be ours may be older than what we know: all tasks are
 * dropped, and the worker begins another life.
 */
#include "worker/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "control/control.h"
#include "millrace/service.rpc.h"
#include "worker/progress.h"

#include <millrace/base.h>
#include <string.h>

/* One try to register: then the failure is logged. */
#define REGISTER_CALL_MS 5000
/* Of failures in a row so many are one line in the log. */
#define REGISTER_LOG_EVERY 15u
#define HEARTBEAT_CALL_MS 2000
#define GOODBYE_CALL_MS 2000 /* without it, only silence says that the worker is gone */
#define HEARTBEAT_DEFAULT_MS 1000u
#define HEARTBEAT_MIN_MS 10u
#define HEARTBEAT_MAX_MS 60000u
#define BACK_OFF_BASE_MS 100
#define BACK_OFF_MAX_MS 2000

struct mr_link {
    struct mr_worker *worker;
    mr_control *control;
    pthread_t thread;
    atomic_bool cancel; /* the link thread's own calls; set with `stopping` */
    Millrace__WatchWorkerRequest watch_request;

    pthread_mutex_t lock; /* guards everything below; no other lock is taken under it */
    pthread_cond_t changed;
    bool started;
    bool stopping;
    bool woken;
    bool beat;          /* now, not when it is due */
    bool registered;    /* at least once: there is somebody to say goodbye to */
    bool listed;        /* a list of tasks came: from then on the worker is there for others */
    bool must_register; /* anew */
    bool forgotten;     /* by the dispatchers: what we have is nobody's */
    /* the list is wanted again: a task could not be started, or a client may be gone */
    bool incomplete;
    uint32_t heartbeat_ms;
    mr_control_watch *watch; /* the link thread's */
};

/* ---- calls of tasks ---- */

static bool link_stopping(struct mr_link *link)
{
    MR_LOCK(&link->lock);
    return link->stopping;
}

/* true if the link is stopping or @ms are over; woken by mr_link_wake() too. */
static void link_pause(struct mr_link *link, int64_t ms)
{
    MR_LOCK(&link->lock);
    if (!link->stopping && !link->woken) {
        (void)mr_cond_wait_ms(&link->changed, &link->lock, ms);
    }
    link->woken = false;
}

/* Wait out a back-off, which only @stop cuts short (mr_link_wake_calls()). */
static void call_pause(struct mr_link *link, const atomic_bool *stop, int64_t ms)
{
    int64_t until = mr_now_ms() + ms;

    MR_LOCK(&link->lock);
    for (int64_t left = ms; !atomic_load(stop) && left > 0; left = until - mr_now_ms()) {
        (void)mr_cond_wait_ms(&link->changed, &link->lock, left);
    }
}

/* While the job of @t is set aside nobody would answer. True: it was, and is not any more, or @t
 * was dropped. */
static bool wait_held(struct mr_link *link, const struct mr_worker_task *t)
{
    if (!atomic_load(&t->held)) {
        return false;
    }
    MR_LOCK(&link->lock);
    while (!atomic_load(&t->stop) && atomic_load(&t->held)) {
        mr_cond_wait(&link->changed, &link->lock);
    }
    return true;
}

/* The connection repeats what got no definite answer; here is repeated what the service says may be
 * tried again. */
static int call_until_answered(struct mr_link *link, const char *method, ProtobufCMessage *req,
                               const ProtobufCMessageDescriptor *desc, int64_t timeout_ms,
                               const struct mr_worker_task *t, ProtobufCMessage **ret,
                               mr_error *err)
{
    int64_t started = mr_now_ms();
    uint32_t attempt = 0;

    for (;;) {
        if (wait_held(link, t)) {
            started = mr_now_ms();
            attempt = 0;
        }
        int64_t left = timeout_ms < 0 ? -1 : started + timeout_ms - mr_now_ms();
        mr_error why = {0};
        int rc = mr_control_call(link->control, method, req, desc,
                                 timeout_ms >= 0 && left < 0 ? 0 : left, &t->stop, ret, &why);

        if (rc == MR_OK) {
            return MR_OK;
        }
        if (rc != MR_ECANCELED && atomic_load(&t->held)) {
            continue; /* whatever was said of it: it is asked again when that is over */
        }
        if (rc == MR_ECANCELED || (why.traits & (MR_RETRYABLE | MR_MAYBE_APPLIED)) == 0 ||
            (timeout_ms >= 0 && mr_now_ms() - started >= timeout_ms)) {
            if (err != NULL) {
                *err = why;
            }
            return rc;
        }
        call_pause(link, &t->stop,
                   mr_backoff_ms(attempt++, BACK_OFF_BASE_MS, BACK_OFF_MAX_MS, mr_random_u64()));
    }
}

int mr_link_dataset(struct mr_link *link, Millrace__GetDatasetRequest *req,
                    const struct mr_worker_task *t, Millrace__GetDatasetReply **ret, mr_error *err)
{
    return call_until_answered(
        link, MR_METHOD_GET_DATASET, &req->base, &millrace__get_dataset_reply__descriptor,
        (int64_t)link->worker->dispatcher_timeout_ms, t, (ProtobufCMessage **)(void *)ret, err);
}

int mr_link_splits(struct mr_link *link, Millrace__GetSplitsRequest *req,
                   const struct mr_worker_task *t, Millrace__GetSplitsReply **ret, mr_error *err)
{
    return call_until_answered(
        link, MR_METHOD_GET_SPLITS, &req->base, &millrace__get_splits_reply__descriptor,
        (int64_t)link->worker->dispatcher_timeout_ms, t, (ProtobufCMessage **)(void *)ret, err);
}

int mr_link_task_ended(struct mr_link *link, Millrace__TaskEndedRequest *req,
                       const struct mr_worker_task *t, mr_error *err)
{
    ProtobufCMessage *reply;
    int rc = call_until_answered(link, MR_METHOD_TASK_ENDED, &req->base,
                                 &millrace__task_ended_reply__descriptor, -1, t, &reply, err);

    if (rc == MR_OK) {
        protobuf_c_message_free_unpacked(reply, NULL);
    }
    return rc;
}
/* ---- the task list ---- */

/* Other refusals say nothing of our tasks: not even that they come from our cluster. */
static bool is_forgotten(int code)
{
    return code == MR_ENOTFOUND;
}

/* The dispatchers do not know us (any more), or we were replaced: registering tells. */
static void on_refused(void *ctx, const mr_error *err, bool *again)
{
    struct mr_link *link = ctx;

    if (link_stopping(link)) {
        return; /* It was told that we leave. */
    }
    mr_log(MR_LOG_INFO, "the dispatcher ended the task list, registering again", "error", "%s",
           err->message, NULL);
    MR_LOCK(&link->lock);
    link->forgotten = link->forgotten || is_forgotten(err->code);
    link->must_register = true;
    link->woken = true;
    (void)pthread_cond_broadcast(&link->changed);
}

/* Do the dispatchers speak for another incarnation of the cluster than the one that we registered
 * with? */
static bool is_other_cluster(struct mr_link *link)
{
    struct mr_worker *w = link->worker;
    char incarnation[MR_INCARNATION_BYTES_MAX + 1];

    (void)mr_control_learned(link->control, NULL, incarnation);
    MR_LOCK(&w->lock);
    return w->cluster_incarnation != NULL && strcmp(w->cluster_incarnation, incarnation) != 0;
}

static void ask_to_register(struct mr_link *link)
{
    MR_LOCK(&link->lock);
    link->must_register = true;
    (void)pthread_cond_broadcast(&link->changed);
}
static void on_update(void *ctx, const ProtobufCMessage *message)
{
    struct mr_link *link = ctx;
    struct mr_worker *w = link->worker;

    if (is_other_cluster(link)) {
        ask_to_register(link); /* What it lists was another life's of ours. */
        return;
    }
    mr_mutex_lock(&w->lock);
    w->epoch = mr_control_learned(link->control, NULL, NULL);
    mr_mutex_unlock(&w->lock);
    if (!mr_assignments_apply(w, (const Millrace__WorkerUpdate *)message)) {
        mr_log(MR_LOG_WARN, "an update of the task list was missed, asking for all of it", NULL);
        ask_to_register(link);
    }
    MR_LOCK(&link->lock);
    if (!link->listed) {
        link->listed = true;
        (void)pthread_cond_broadcast(&link->changed);
    }
}

static const struct mr_control_watch_ops watch_ops = {.update = on_update, .refused = on_refused};

/* ---- registering ---- */

static int set_string(char **to, const char *text, mr_error *err)
{
    char *copy = mr_strdup(text);

    if (copy == NULL) {
        return mr_error_nomem(err);
    }
    mr_free(*to);
    *to = copy;
    return MR_OK;
}

/* Whom we work for now. *@other: not for whom we did before. */
static int learn_cluster(struct mr_link *link, bool *other, mr_error *err)
{
    struct mr_worker *w = link->worker;
    char cluster[MR_NAME_BYTES_MAX + 1];
    char incarnation[MR_INCARNATION_BYTES_MAX + 1];
    uint64_t epoch = mr_control_learned(link->control, cluster, incarnation);

    MR_LOCK(&w->lock);
    w->epoch = epoch;
    w->list_is_final = false; /* it may be another life, with tasks of its own */
    *other = w->cluster_incarnation != NULL && strcmp(w->cluster_incarnation, incarnation) != 0;
    int rc = set_string(&w->cluster, cluster, err);
    return rc < 0 ? rc : set_string(&w->cluster_incarnation, incarnation, err);
}

static uint32_t clamp_heartbeat(uint32_t ms)
{
    ms = ms == 0 ? HEARTBEAT_DEFAULT_MS : ms;
    ms = ms < HEARTBEAT_MIN_MS ? HEARTBEAT_MIN_MS : ms;
    return ms > HEARTBEAT_MAX_MS ? HEARTBEAT_MAX_MS : ms;
}

/* *@other: with another cluster than before. All tasks were dropped, and this life has to end. */
static int register_life(struct mr_link *link, bool *other, mr_error *err)
{
    struct mr_worker *w = link->worker;
    Millrace__RegisterWorkerRequest req = MILLRACE__REGISTER_WORKER_REQUEST__INIT;
    Millrace__RegisterWorkerReply *reply;

    mr_control_speak_as(link->control, &w->lives->who);
    req.incarnation = w->incarnation;
    req.address = w->address;
    req.tags = w->tags;
    req.n_tags = w->ntags;
    int rc = mr_control_call(link->control, MR_METHOD_REGISTER_WORKER, &req.base,
                             &millrace__register_worker_reply__descriptor, REGISTER_CALL_MS,
                             &link->cancel, (ProtobufCMessage **)(void *)&reply, err);
    if (rc < 0) {
        return rc;
    }
    rc = learn_cluster(link, other, err);
    if (rc == MR_OK) {
        mr_mutex_lock(&link->lock);
        link->heartbeat_ms =
            clamp_heartbeat(w->heartbeat_ms != 0 ? w->heartbeat_ms : reply->heartbeat_ms);
        link->must_register = false;
        mr_mutex_unlock(&link->lock);
        mr_log(MR_LOG_INFO, "registered", "address", "%s", w->address, "cluster", "%s",
               reply->header->cluster, NULL);
    }
    protobuf_c_message_free_unpacked(&reply->base, NULL);
    if (rc == MR_OK && *other) {
        mr_log(MR_LOG_WARN, "the cluster is another one than before, dropping all tasks", "address",
               "%s", w->address, NULL);
        mr_assignments_drop(w);
    }
    return rc;
}

static int register_once(struct mr_link *link, mr_error *err)
{
    bool other = false;
    int rc = register_life(link, &other, err);

    while (rc == MR_OK && other) {
        rc = mr_worker_begin_life(link->worker) ? register_life(link, &other, err)
                                                : mr_error_nomem(err);
    }
    link->watch_request.incarnation = link->worker->incarnation;
    return rc;
}

static bool take_forgotten(struct mr_link *link)
{
    MR_LOCK(&link->lock);
    bool forgotten = link->forgotten;

    link->forgotten = false;
    return forgotten;
}

/* Register and open the watch, however long it takes; false: stopping. */
static bool join(struct mr_link *link)
{
    uint32_t attempt = 0;
    mr_error err;

    /* Without a watch nobody else touches the tasks. */
    mr_control_watch_free(link->watch);
    link->watch = NULL;
    if (take_forgotten(link)) {
        mr_assignments_drop(link->worker);
    }
    for (;;) {
        int rc = register_once(link, &err);

        if (rc == MR_OK) {
            rc = mr_control_watch_new(
                link->control, MR_METHOD_WATCH_WORKER, &link->watch_request.base,
                &millrace__worker_update__descriptor, &watch_ops, link, &link->watch, &err);
        }
        if (link_stopping(link)) {
            return false;
        }
        if (rc == MR_OK) {
            break;
        }
        int64_t wait = mr_backoff_ms(attempt, BACK_OFF_BASE_MS, BACK_OFF_MAX_MS, mr_random_u64());
        if (attempt++ % REGISTER_LOG_EVERY == 0) {
            mr_log(MR_LOG_WARN, "registering with the dispatcher, retrying", "dispatchers", "%s",
                   link->worker->dispatchers, "error", "%s", err.message, "retry_ms", "%lld",
                   (long long)wait, NULL);
        }
        call_pause(link, &link->cancel, wait);
    }
    MR_LOCK(&link->lock);
    link->registered = true;
    return true;
}

/* ---- heartbeats ---- */

static bool is_draining(struct mr_worker *w)
{
    MR_LOCK(&w->lock);
    return w->draining;
}

/* The dispatcher has heard that we drain: tasks that it has for us are all in the list of this
 * version. */
static void note_final(struct mr_worker *w, uint64_t version)
{
    MR_LOCK(&w->lock);
    if (version == w->list_version && !w->list_is_final) {
        w->list_is_final = true;
        (void)pthread_cond_broadcast(&w->changed);
    }
}

/* One request. With @leaving the last one: it does not wait for long, since silence says the same
 * later. */
static int send_progress(struct mr_link *link, struct mr_progress *progress, size_t *from,
                         bool leaving, mr_error *err)
{
    const atomic_bool never = false;
    struct mr_worker *w = link->worker;
    Millrace__WorkerHeartbeatRequest req = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;

    *from = mr_progress_fill(progress, *from, &req);
    req.incarnation = w->incarnation;
    req.leaving = leaving && *from == 0;
    req.draining = is_draining(w);
    int rc = mr_control_call(link->control, MR_METHOD_WORKER_HEARTBEAT, &req.base,
                             &millrace__worker_heartbeat_reply__descriptor,
                             leaving ? GOODBYE_CALL_MS : HEARTBEAT_CALL_MS,
                             leaving ? &never : &link->cancel, &reply, err);
    if (reply != NULL) {
        if (req.draining) {
            note_final(w, ((const Millrace__WorkerHeartbeatReply *)reply)->version);
        }
        protobuf_c_message_free_unpacked(reply, NULL);
    }
    return rc;
}

/* A worker of many tasks says it in several requests. */
static int heartbeat(struct mr_link *link, bool leaving, mr_error *err)
{
    struct mr_progress *progress;
    size_t from = 0;
    int rc;

    mr_mutex_lock(&link->lock);
    link->beat = false; /* What is said is as new as whoever asked for it. */
    mr_mutex_unlock(&link->lock);
    rc = mr_progress_new(link->worker, &progress, err);
    if (rc < 0) {
        return rc;
    }
    do {
        rc = send_progress(link, progress, &from, leaving, err);
    } while (rc >= 0 && from != 0);
    mr_progress_free(progress);
    return rc;
}

/* ---- the thread ---- */

/* Wait for the next heartbeat or something else to do; false: stopping. *@again: register again. */
static bool wait_turn(struct mr_link *link, int64_t next_ms, bool *again)
{
    for (;;) {
        int64_t now = mr_now_ms();
        int64_t expires = mr_conn_expire_waiting(link->worker, now);
        int64_t until = expires >= 0 && expires < next_ms ? expires : next_ms;

        mr_mutex_lock(&link->lock);
        *again = link->must_register;
        bool stopping = link->stopping;
        bool beat = link->beat;
        mr_mutex_unlock(&link->lock);
        if (stopping) {
            return false;
        }
        if (*again || beat || now >= next_ms) {
            return true;
        }
        link_pause(link, until > now ? until - now : 0);
    }
}

static void *link_main(void *arg)
{
    struct mr_link *link = arg;
    bool silent = false; /* the dispatchers: said once */
    int64_t next_ms = 0;
    bool again = true;

    do {
        mr_error err;

        if (again) {
            if (!join(link)) {
                break;
            }
            next_ms = mr_now_ms() + link->heartbeat_ms;
            continue;
        }
        int rc = heartbeat(link, false, &err);
        if (is_forgotten(rc) || rc == MR_EPRECOND) {
            mr_log(MR_LOG_INFO, "the dispatcher does not know this worker, registering again",
                   "error", "%s", err.message, NULL);
            ask_to_register(link);
            MR_LOCK(&link->lock);
            link->forgotten = link->forgotten || is_forgotten(rc);
        } else if (rc < 0 && !silent && !link_stopping(link)) {
            mr_log(MR_LOG_WARN, "heartbeat, going on with what there is to do", "error", "%s",
                   err.message, NULL);
        } else if (rc == MR_OK && is_other_cluster(link)) {
            ask_to_register(link);
        } else if (rc == MR_OK && silent) {
            mr_log(MR_LOG_INFO, "the dispatcher answers again", "dispatchers", "%s",
                   link->worker->dispatchers, NULL);
        }
        silent = rc < 0;
        if (rc == MR_OK) {
            MR_LOCK(&link->lock);
            link->must_register = link->must_register || link->incomplete;
            link->incomplete = false;
        }
        next_ms = mr_now_ms() + link->heartbeat_ms;
    } while (wait_turn(link, next_ms, &again));
    return NULL;
}

void mr_link_list_again(struct mr_link *link)
{
    MR_LOCK(&link->lock);
    link->incomplete = true;
}

void mr_link_beat(struct mr_link *link)
{
    MR_LOCK(&link->lock);
    link->beat = true;
    link->woken = true;
    (void)pthread_cond_broadcast(&link->changed);
}

void mr_link_wake(struct mr_link *link)
{
    MR_LOCK(&link->lock);
    link->woken = true;
    (void)pthread_cond_broadcast(&link->changed);
}

void mr_link_wake_calls(struct mr_link *link)
{
    mr_control_wake(link->control);
    MR_LOCK(&link->lock);
    (void)pthread_cond_broadcast(&link->changed);
}

int mr_link_wait_registered(struct mr_link *link, int64_t timeout_ms, mr_error *err)
{
    int64_t until = timeout_ms < 0 ? INT64_MAX : mr_now_ms() + timeout_ms;

    MR_LOCK(&link->lock);
    while (!link->listed && !link->stopping) {
        int64_t left = timeout_ms < 0 ? -1 : until - mr_now_ms();

        if (timeout_ms >= 0 && left <= 0) {
            return MR_TIMEOUT;
        }
        (void)mr_cond_wait_ms(&link->changed, &link->lock, left);
    }
    return link->stopping ? mr_error_set(err, MR_ECANCELED, "the worker was stopped") : MR_OK;
}

int mr_link_new(struct mr_worker *w, struct mr_link **ret, mr_error *err)
{
    struct mr_control_options opts = {.service = w->dispatchers, .cluster = w->cluster_wanted};
    struct mr_link *link = mr_calloc(1, sizeof *link);
    int rc;

    if (link == NULL) {
        return mr_error_nomem(err);
    }
    rc = mr_control_new(w->rt, &opts, &link->control, err);
    if (rc < 0) {
        mr_free(link);
        return rc;
    }
    link->worker = w;
    atomic_init(&link->cancel, false);
    millrace__watch_worker_request__init(&link->watch_request);
    link->watch_request.incarnation = w->incarnation;
    link->heartbeat_ms = clamp_heartbeat(w->heartbeat_ms);
    mr_mutex_init(&link->lock);
    mr_cond_init(&link->changed);
    *ret = link;
    return MR_OK;
}

int mr_link_start(struct mr_link *link, mr_error *err)
{
    int rc = mr_thread_start(&link->thread, "mr-link", link_main, link, err);

    link->started = rc == MR_OK;
    return rc;
}

void mr_link_stop(struct mr_link *link)
{
    mr_mutex_lock(&link->lock);
    link->stopping = true;
    (void)pthread_cond_broadcast(&link->changed);
    mr_mutex_unlock(&link->lock);
    atomic_store(&link->cancel, true);
    mr_link_wake_calls(link);
    if (link->started) {
        (void)pthread_join(link->thread, NULL);
        link->started = false;
        if (link->registered) {
            mr_error err = {0};

            if (heartbeat(link, true, &err) < 0) {
                mr_log(MR_LOG_INFO, "leaving without a good-bye", "error", "%s", err.message, NULL);
            }
        }
    }
    mr_control_watch_free(link->watch);
    link->watch = NULL;
}

void mr_link_free(struct mr_link *link)
{
    if (link == NULL) {
        return;
    }
    mr_control_free(link->control);
    (void)pthread_cond_destroy(&link->changed);
    (void)pthread_mutex_destroy(&link->lock);
    mr_free(link);
}
