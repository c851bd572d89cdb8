#include "worker/link_internal.h"

#include "access/server.h"
#include "base/clock.h"
#include "base/rng.h"
#include "millrace/service.rpc.h"

#define BACK_OFF_BASE_MS 100
#define BACK_OFF_MAX_MS 2000

/* ---- life ---- */

int mr_link_new(struct mr_worker *w, const struct mr_worker_options *opts, struct mr_link **ret,
                mr_error *err)
{
    const struct mr_rpc_files files = mr_access_files(&opts->access, NULL);
    struct mr_control_options control = {
        .service = opts->dispatchers, .cluster = opts->cluster, .files = &files};
    struct mr_link *link = mr_calloc(1, sizeof *link);

    MR_CHECK_ALLOC(link, err);
    int rc = mr_control_new(w->rt, &control, &link->control, err);
    if (rc < 0) {
        mr_free(link);
        return rc;
    }
    link->magic = MR_LINK_MAGIC;
    link->worker = w;
    atomic_init(&link->cancel, false);
    millrace__watch_worker_request__init(&link->watch_request);
    mr_registration_init(&link->registration, (uint32_t)opts->heartbeat_ms);
    mr_mutex_init(&link->lock);
    mr_cond_init(&link->changed);
    *ret = link;
    return MR_OK;
}

void mr_link_free(struct mr_link *link)
{
    if (link == NULL) {
        return;
    }
    mr_control_free(link->control);
    (void)pthread_cond_destroy(&link->changed);
    (void)pthread_mutex_destroy(&link->lock);
    link->magic = 0;
    mr_free(link);
}

bool mr_worker_begin_life(struct mr_worker *w)
{
    struct mr_life *life = mr_calloc(1, sizeof *life);

    if (life == NULL) {
        return false;
    }
    mr_identity_draw(&life->who);
    life->before = w->lives;
    w->lives = life;
    w->incarnation = life->who.id;
    return true;
}

void mr_worker_free_lives(struct mr_worker *w)
{
    while (w->lives != NULL) {
        struct mr_life *life = w->lives;

        w->lives = life->before;
        mr_free(life);
    }
}

/* ---- its thread ---- */

static void wake_locked(struct mr_link *link)
{
    link->woken = true;
    (void)pthread_cond_broadcast(&link->changed);
}

void mr_link_wake(struct mr_link *link)
{
    MR_LOCK(&link->lock);
    wake_locked(link);
}

void mr_link_beat(struct mr_link *link)
{
    MR_LOCK(&link->lock);
    mr_registration_want_beat(&link->registration);
    wake_locked(link);
}

void mr_link_list_again(struct mr_link *link)
{
    MR_LOCK(&link->lock);
    mr_registration_want_list(&link->registration);
}

int mr_worker_wait_registered(mr_worker *w, int64_t timeout_ms, mr_error *err)
{
    struct mr_link *link = w->link;
    int64_t until = timeout_ms < 0 ? INT64_MAX : mr_now_ms() + timeout_ms;

    MR_LOCK(&link->lock);
    while (!link->registration.listed && !link->stopping) {
        int64_t left = timeout_ms < 0 ? -1 : until - mr_now_ms();

        if (timeout_ms >= 0 && left <= 0) {
            return MR_TIMEOUT;
        }
        (void)mr_cond_wait_ms(&link->changed, &link->lock, left);
    }
    return link->stopping ? mr_error_set(err, MR_ECANCELED, "the worker was stopped") : MR_OK;
}

bool mr_worker_trouble(mr_worker *w, char *why, size_t size)
{
    bool ever;

    return mr_control_trouble(w->link->control, why, size, &ever);
}

bool mr_link_list_is_final(struct mr_link *link)
{
    MR_LOCK(&link->lock);
    return link->registration.list_is_final;
}

void mr_link_cluster(struct mr_link *link, struct mr_registration_cluster *ret)
{
    MR_LOCK(&link->lock);
    *ret = link->registration.cluster;
}

int mr_link_check_ticket(struct mr_link *link, const char *iteration, const char *client,
                         const ProtobufCBinaryData *ticket, mr_error *err)
{
    MR_LOCK(&link->lock);
    if (!link->has_ticket_key) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                   "worker %s has not registered with a dispatcher yet",
                                   link->worker->address);
    }
    if (!mr_ticket_is(link->ticket_key, iteration, client, ticket->data, ticket->len)) {
        return mr_error_set(
            err, MR_EPERM, "client %.8s shows no ticket of a dispatcher for iteration %.40s%s",
            client, iteration,
            ticket->len == 0 ? ": it is of an older version, or was not admitted" : "");
    }
    return MR_OK;
}

/* ---- calls of tasks ---- */

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

const struct mr_link_method mr_link_dataset = {MR_METHOD_GET_DATASET,
                                               &millrace__get_dataset_reply__descriptor, false};
const struct mr_link_method mr_link_splits = {MR_METHOD_GET_SPLITS,
                                              &millrace__get_splits_reply__descriptor, false};
const struct mr_link_method mr_link_task_ended = {MR_METHOD_TASK_ENDED,
                                                  &millrace__task_ended_reply__descriptor, true};

/* The connection repeats what got no definite answer; here is repeated what the service says may be
 * tried again. */
int mr_link_call(struct mr_link *link, const struct mr_worker_task *t,
                 const struct mr_link_method *method, ProtobufCMessage *req, ProtobufCMessage **ret,
                 mr_error *err)
{
    int64_t timeout_ms = method->for_ever ? -1 : (int64_t)link->worker->dispatcher_timeout_ms;
    int64_t started = mr_now_ms();
    uint32_t attempt = 0;

    for (;;) {
        if (wait_held(link, t)) {
            started = mr_now_ms();
            attempt = 0;
        }
        int64_t left = timeout_ms < 0 ? -1 : started + timeout_ms - mr_now_ms();
        mr_error why = {0};
        int rc = mr_control_call(link->control, method->name, req, method->reply,
                                 timeout_ms >= 0 && left < 0 ? 0 : left, &t->stop, ret, &why);

        if (rc == MR_OK) {
            return MR_OK;
        }
        if (rc != MR_ECANCELED && atomic_load(&t->held)) {
            continue; /* whatever was said of it: it is asked again when that is over */
        }
        if (rc == MR_ECANCELED || (why.traits & (MR_RETRYABLE | MR_MAYBE_APPLIED)) == 0 ||
            (timeout_ms >= 0 && mr_now_ms() - started >= timeout_ms)) {
            return mr_error_pass(err, rc, &why);
        }
        call_pause(link, &t->stop,
                   mr_backoff_ms(attempt++, BACK_OFF_BASE_MS, BACK_OFF_MAX_MS, mr_random_u64()));
    }
}

void mr_link_free_message(ProtobufCMessage *m)
{
    if (m != NULL) {
        protobuf_c_message_free_unpacked(m, NULL);
    }
}

void mr_link_wake_calls(struct mr_link *link)
{
    mr_control_wake(link->control);
    MR_LOCK(&link->lock);
    (void)pthread_cond_broadcast(&link->changed);
}
