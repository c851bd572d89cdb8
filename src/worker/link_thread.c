#include "worker/link_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "millrace/service.rpc.h"
#include "worker/conn.h"
#include "worker/progress.h"

/* One try to register: then the failure is logged. */
#define REGISTER_CALL_MS 5000
/* Of failures in a row so many are one line in the log. */
#define REGISTER_LOG_EVERY 15u
#define HEARTBEAT_CALL_MS 2000
#define GOODBYE_CALL_MS 2000 /* without it, only silence says that the worker is gone */

static bool is_stopping(struct mr_link *link)
{
    MR_LOCK(&link->lock);
    return link->stopping;
}

/* ---- the task list ---- */

/* The dispatchers do not know us (any more), or we were replaced: registering tells. */
static void on_refused(void *ctx, const mr_error *err, bool *again)
{
    struct mr_link *link = mr_link_of(ctx);

    if (is_stopping(link)) {
        return; /* It was told that we leave. */
    }
    mr_log(MR_LOG_INFO, "the dispatcher ended the task list, registering again", "error", "%s",
           err->message, NULL);
    mr_mutex_lock(&link->lock);
    mr_registration_refused(&link->registration, err->code);
    mr_mutex_unlock(&link->lock);
    mr_link_wake(link);
}

static enum mr_registration_update look_at_update(struct mr_link *link,
                                                  const Millrace__WorkerUpdate *update)
{
    char incarnation[MR_INCARNATION_BYTES_MAX + 1];
    uint64_t epoch = mr_control_learned(link->control, NULL, incarnation);

    MR_LOCK(&link->lock);
    return mr_registration_update(&link->registration, incarnation, epoch, update->follows);
}

static void on_update(void *ctx, const ProtobufCMessage *message)
{
    const Millrace__WorkerUpdate *update = (const Millrace__WorkerUpdate *)message;
    struct mr_link *link = mr_link_of(ctx);

    switch (look_at_update(link, update)) {
    case MR_REGISTRATION_APPLY:
        mr_assignments_apply(link->worker, update);
        mr_mutex_lock(&link->lock);
        mr_registration_applied(&link->registration, update->version);
        mr_mutex_unlock(&link->lock);
        break;
    case MR_REGISTRATION_MISSED:
        mr_log(MR_LOG_WARN, "an update of the task list was missed, asking for all of it", NULL);
        break;
    case MR_REGISTRATION_ANOTHER_CLUSTERS: break;
    }
    mr_link_wake(link);
}

static const struct mr_control_watch_ops watch_ops = {.update = on_update, .refused = on_refused};

static void close_watch(struct mr_link *link)
{
    mr_control_watch_free(link->watch);
    link->watch = NULL;
}

static int open_watch(struct mr_link *link, mr_error *err)
{
    link->watch_request.incarnation = link->worker->incarnation;
    return mr_control_watch_new(link->control, MR_METHOD_WATCH_WORKER, &link->watch_request.base,
                                &millrace__worker_update__descriptor, &watch_ops, link,
                                &link->watch, err);
}

/* ---- registering ---- */

static void note_registered(struct mr_link *link, const Millrace__RegisterWorkerReply *reply)
{
    struct mr_worker *w = link->worker;
    char cluster[MR_NAME_BYTES_MAX + 1];
    char incarnation[MR_INCARNATION_BYTES_MAX + 1];
    uint64_t epoch = mr_control_learned(link->control, cluster, incarnation);

    mr_mutex_lock(&link->lock);
    bool same = mr_registration_registered(&link->registration, mr_now_ms(), cluster, incarnation,
                                           epoch, reply->heartbeat_ms);
    link->has_ticket_key = reply->ticket_key.len == sizeof link->ticket_key;
    if (link->has_ticket_key) {
        memcpy(link->ticket_key, reply->ticket_key.data, sizeof link->ticket_key);
    }
    mr_mutex_unlock(&link->lock);
    mr_log(MR_LOG_INFO, "registered", "address", "%s", w->address, "cluster", "%s",
           reply->header->cluster, NULL);
    if (!same) {
        mr_log(MR_LOG_WARN, "the cluster is another one than before, dropping all tasks", "address",
               "%s", w->address, NULL);
    }
}

static int register_worker(struct mr_link *link, mr_error *err)
{
    struct mr_worker *w = link->worker;
    Millrace__RegisterWorkerRequest req = MILLRACE__REGISTER_WORKER_REQUEST__INIT;
    MR_AUTO(mr_link_free_message) ProtobufCMessage *reply = NULL;

    mr_control_speak_as(link->control, &w->lives->who);
    req.incarnation = w->incarnation;
    req.address = w->address;
    req.tags = w->tags;
    req.n_tags = w->ntags;
    MR_TRY(mr_control_call(link->control, MR_METHOD_REGISTER_WORKER, &req.base,
                           &millrace__register_worker_reply__descriptor, REGISTER_CALL_MS,
                           &link->cancel, &reply, err));
    note_registered(link, (const Millrace__RegisterWorkerReply *)reply);
    return MR_OK;
}

/* ---- heartbeats ---- */

static bool is_draining(struct mr_worker *w)
{
    MR_LOCK(&w->lock);
    return w->draining;
}

/* It is known that the worker drains: the list gets no longer. */
static void note_final(struct mr_link *link, const Millrace__WorkerHeartbeatReply *reply)
{
    mr_mutex_lock(&link->lock);
    bool is_new = mr_registration_note_final(&link->registration, reply->version);
    mr_mutex_unlock(&link->lock);
    if (is_new) {
        mr_worker_note_progress(link->worker);
    }
}

/* Said with each answer until it says itself that it drains. */
static void obey_drain(struct mr_worker *w)
{
    mr_mutex_lock(&w->lock);
    bool is_new = !w->told_to_drain;
    w->told_to_drain = true;
    mr_mutex_unlock(&w->lock);
    if (is_new) {
        mr_log(MR_LOG_INFO, "draining: a dispatcher was asked for it", NULL);
        mr_worker_drain(w);
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
    MR_AUTO(mr_link_free_message) ProtobufCMessage *reply = NULL;

    *from = mr_progress_fill(progress, *from, &req);
    req.incarnation = w->incarnation;
    req.leaving = leaving && *from == 0;
    req.draining = is_draining(w);
    int rc = mr_control_call(link->control, MR_METHOD_WORKER_HEARTBEAT, &req.base,
                             &millrace__worker_heartbeat_reply__descriptor,
                             leaving ? GOODBYE_CALL_MS : HEARTBEAT_CALL_MS,
                             leaving ? &never : &link->cancel, &reply, err);
    const Millrace__WorkerHeartbeatReply *answer = (const void *)reply;
    if (answer != NULL && req.draining && !answer->drain_unwritten) {
        note_final(link, answer);
    }
    if (answer != NULL && answer->drain && !leaving) {
        obey_drain(w);
    }
    return rc;
}

/* A worker of many tasks says it in several requests. */
static int heartbeat(struct mr_link *link, bool leaving, mr_error *err)
{
    MR_AUTO(mr_progress_free) struct mr_progress *progress = NULL;
    size_t from = 0;

    mr_mutex_lock(&link->lock);
    mr_registration_beats(&link->registration);
    mr_mutex_unlock(&link->lock);
    MR_TRY(mr_progress_new(link->worker, &progress, err));
    do {
        MR_TRY(send_progress(link, progress, &from, leaving, err));
    } while (from != 0);
    return MR_OK;
}

static void beat(struct mr_link *link)
{
    char incarnation[MR_INCARNATION_BYTES_MAX + 1];
    mr_error err = {0};
    int rc = heartbeat(link, false, &err);

    (void)mr_control_learned(link->control, NULL, incarnation);
    mr_mutex_lock(&link->lock);
    enum mr_registration_note note =
        mr_registration_beaten(&link->registration, mr_now_ms(), rc, incarnation);
    mr_mutex_unlock(&link->lock);
    if (note == MR_REGISTRATION_FORGOTTEN) {
        mr_log(MR_LOG_INFO, "the dispatcher does not know this worker, registering again", "error",
               "%s", err.message, NULL);
    } else if (note == MR_REGISTRATION_SILENT && !is_stopping(link)) {
        mr_log(MR_LOG_WARN, "heartbeat, going on with what there is to do", "error", "%s",
               err.message, NULL);
    } else if (note == MR_REGISTRATION_HEARD) {
        mr_log(MR_LOG_INFO, "the dispatcher answers again", "dispatchers", "%s",
               link->worker->dispatchers, NULL);
    }
}

/* ---- the thread ---- */

static void note_failure(struct mr_link *link, const mr_error *err)
{
    mr_mutex_lock(&link->lock);
    bool says_so = link->registration.failures % REGISTER_LOG_EVERY == 0 && !link->stopping;
    int64_t wait_ms = mr_registration_failed(&link->registration, mr_now_ms(), mr_random_u64());
    mr_mutex_unlock(&link->lock);
    if (says_so) {
        mr_log(MR_LOG_WARN, "registering with the dispatcher, retrying", "dispatchers", "%s",
               link->worker->dispatchers, "error", "%s", err->message, "retry_ms", "%lld",
               (long long)wait_ms, NULL);
    }
}

/* Until @until_ms, or until somebody has something for the thread to do. */
static void rest(struct mr_link *link, int64_t until_ms)
{
    int64_t now_ms = mr_now_ms();
    int64_t expires_ms = mr_conn_expire_waiting(link->worker, now_ms);

    until_ms = expires_ms >= 0 && expires_ms < until_ms ? expires_ms : until_ms;
    MR_LOCK(&link->lock);
    if (!link->stopping && !link->woken && until_ms > now_ms) {
        (void)mr_cond_wait_ms(&link->changed, &link->lock, until_ms - now_ms);
    }
    link->woken = false;
}

static void do_step(struct mr_link *link, enum mr_registration_step step, int64_t until_ms)
{
    mr_error err = {0};
    int rc = MR_OK;

    switch (step) {
    case MR_REGISTRATION_DROP_TASKS:
        close_watch(link); /* Without a watch nobody else touches the tasks. */
        mr_assignments_drop(link->worker);
        break;
    case MR_REGISTRATION_BEGIN_LIFE:
        rc = mr_worker_begin_life(link->worker) ? MR_OK : mr_error_nomem(&err);
        break;
    case MR_REGISTRATION_REGISTER:
        close_watch(link);
        rc = register_worker(link, &err);
        break;
    case MR_REGISTRATION_WATCH: rc = open_watch(link, &err); break;
    case MR_REGISTRATION_BEAT: beat(link); break;
    case MR_REGISTRATION_REST: rest(link, until_ms); break;
    }
    if (rc < 0) {
        note_failure(link, &err);
    } else {
        MR_LOCK(&link->lock);
        mr_registration_done(&link->registration, step);
    }
}

static void *link_main(void *arg)
{
    struct mr_link *link = mr_link_of(arg);

    for (;;) {
        int64_t until_ms = 0;

        mr_mutex_lock(&link->lock);
        bool stopping = link->stopping;
        enum mr_registration_step step =
            mr_registration_next(&link->registration, mr_now_ms(), &until_ms);
        mr_mutex_unlock(&link->lock);
        if (stopping) {
            return NULL;
        }
        do_step(link, step, until_ms);
    }
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
        if (link->registration.registered) {
            mr_error err = {0};

            if (heartbeat(link, true, &err) < 0) {
                mr_log(MR_LOG_INFO, "leaving without a good-bye", "error", "%s", err.message, NULL);
            }
        }
    }
    close_watch(link);
}
