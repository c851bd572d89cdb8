/* Which calls are decided, and how; which wait for a leader, and which are refused at once. */
#include "base/log.h"
#include "dispatcher/turn/internal.h"

#define FOLLOWERS_TOLD_MS 60000
#define FOLLOWERS_TOLD_MAX 10u

/* While etcd is silent it is from memory, and says so: just then somebody wants to know how things
 * stand. */
static void status(mr_turn *t, struct mr_call *call)
{
    struct mr_status_about about = {
        .cluster = t->cluster,
        .incarnation = t->incarnation,
        .leader = t->address,
        .version = MR_VERSION,
        .dispatchers = (const char *const *)t->dispatchers,
        .ndispatchers = t->ndispatchers,
        .store_bytes_per_s = mr_budget_rate(&t->budget),
        .store_silent_ms = mr_turn_is_stalled(t) ? mr_member_stalled_ms(t->member, t->now_ms) : 0};
    struct mr_command in = {.kind = MR_COMMAND_STATUS, .status = &about};

    mr_turn_run(t, &in, call);
}

/* A watch is subscribed when it is decided, not when it is answered: pushes that follow are held
 * behind its first update. */
static bool subscribe(mr_turn *t, struct mr_call *call)
{
    const char *topic = NULL;
    const char *client = NULL;
    mr_error err;
    int rc;

    if (call->method->command == MR_COMMAND_WATCH_CLIENT) {
        const Millrace__WatchClientRequest *r = (const Millrace__WatchClientRequest *)call->request;

        topic = r->iteration_id;
        client = r->client;
    } else {
        topic = ((const Millrace__WatchWorkerRequest *)call->request)->incarnation;
    }
    if (call->stream->ended) {
        mr_turn_drop_call(call);
        return false;
    }
    rc = mr_streams_subscribe(&t->streams, call->stream, topic, client, &err);
    if (rc < 0) {
        mr_turn_answer(t, call, NULL, &err);
    }
    return rc >= 0;
}

/* Whoever registers says whose address it is; who has it and is connected is no less at home. */
static bool is_watching(const mr_turn *t, const struct mr_command *in)
{
    const char *address = in->kind == MR_COMMAND_REGISTER_WORKER
                              ? in->register_worker->address
                              : mr_core_newcomer_address(t->core, in->watch_worker->incarnation);
    bool awaited = false;
    const char *incarnation =
        address != NULL ? mr_core_worker_at(t->core, address, &awaited) : NULL;

    return awaited || (incarnation != NULL && mr_streams_of(&t->streams, incarnation) != NULL);
}

/* Requests of all kinds that the core takes as they are: the union's members are all pointers to
 * the message. */
static void plain(mr_turn *t, struct mr_call *call)
{
    struct mr_command in = {.kind = call->method->command,
                            .seed = mr_rng_next(&t->rng),
                            .attach_only = call->attach_only};
    const void *request = call->request;

    memcpy(&in.open, &request, sizeof request);
    if (in.kind == MR_COMMAND_REGISTER_WORKER || in.kind == MR_COMMAND_WATCH_WORKER) {
        in.worker_watches = is_watching(t, &in);
    }
    if (call->stream != NULL && !subscribe(t, call)) {
        return;
    }
    mr_turn_run(t, &in, call);
}

static void decide(mr_turn *t, struct mr_call *call)
{
    switch (call->method->command) {
    case MR_COMMAND_REGISTER_DATASET: mr_turn_register(t, call); break;
    case MR_COMMAND_STATUS: status(t, call); break;
    case MR_COMMAND_GET_DATASET:
    case MR_COMMAND_OPEN:
    case MR_COMMAND_WATCH_CLIENT:
    case MR_COMMAND_CLIENT_HEARTBEAT:
    case MR_COMMAND_RELEASE_CLIENT:
    case MR_COMMAND_REGISTER_WORKER:
    case MR_COMMAND_WATCH_WORKER:
    case MR_COMMAND_WORKER_HEARTBEAT:
    case MR_COMMAND_GET_SPLITS:
    case MR_COMMAND_TASK_ENDED:
    case MR_COMMAND_DELETE_DATASET:
    case MR_COMMAND_DELETE_JOB:
    case MR_COMMAND_DRAIN_WORKER: plain(t, call); break;
    case MR_COMMAND_STORE_PART:
    case MR_COMMAND_TIMER: MR_ASSERT(!"a call"); break;
    }
}

/* Anybody may call himself one, as often as he likes: not every one is worth a line. */
static void tell_of_standby(mr_turn *t, const char *instance)
{
    if (t->now_ms >= t->followers_told_ms) {
        t->followers_told_ms = t->now_ms + FOLLOWERS_TOLD_MS;
        t->followers_told = 0;
    }
    if (instance[0] != '\0' && t->followers_told < FOLLOWERS_TOLD_MAX) {
        t->followers_told++;
        mr_log(MR_LOG_INFO, "a standby is here", "instance", "%s", instance, NULL);
    }
}

/* A standby asks to be told when this process is gone. The stream's life is the message. */
static void follow(mr_turn *t, struct mr_call *call)
{
    const Millrace__RequestHeader *h = mr_call_header(call);
    const Millrace__FollowRequest *request = (const Millrace__FollowRequest *)call->request;
    mr_error err;

    if (!t->serving || h == NULL || h->epoch != (uint64_t)mr_member_epoch(t->member)) {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                  "dispatcher %s does not lead at that epoch", t->address);
        mr_turn_answer(t, call, NULL, &err);
        return;
    }
    if (!call->stream->ended &&
        mr_streams_subscribe(&t->followers, call->stream, "follow", request->instance, &err) < 0) {
        mr_turn_answer(t, call, NULL, &err);
        return;
    }
    tell_of_standby(t, request->instance);
    mr_turn_answer(t, call, NULL, NULL);
}

static bool wrong_cluster(mr_turn *t, struct mr_call *call)
{
    const Millrace__RequestHeader *h = mr_call_header(call);
    mr_error err;

    if (h == NULL || h->cluster[0] == '\0' || strcmp(h->cluster, t->cluster) == 0) {
        return false;
    }
    (void)mr_error_set(&err, MR_EPRECOND, "this is a dispatcher of cluster '%s', not of '%.64s'",
                       t->cluster, h->cluster);
    mr_turn_answer(t, call, NULL, &err);
    return true;
}

/* Ids are told to everybody: they are no right to speak. */
static bool is_forged(mr_turn *t, struct mr_call *call)
{
    mr_error err;

    if (mr_call_vet_speaker(call, &err) == MR_OK) {
        return false;
    }
    mr_turn_answer(t, call, NULL, &err);
    return true;
}

/* Does the caller know a later epoch of this incarnation? Perhaps we were deposed; perhaps the
 * store went back; perhaps it made that up. */
static void compare_epochs(mr_turn *t, const struct mr_call *call)
{
    const Millrace__RequestHeader *h = mr_call_header(call);

    if (h != NULL && h->epoch > (uint64_t)mr_member_epoch(t->member) &&
        strcmp(h->incarnation, t->incarnation) == 0) {
        mr_member_later_epoch(t->member, h->epoch, h->epoch_signature);
    }
}

/* What can be said at once of a call to the leader: that etcd is not fit for it. */
static bool refused_by_store(mr_turn *t, struct mr_call *call)
{
    int64_t stalled = mr_member_stalled_ms(t->member, t->now_ms);
    mr_error err;

    mr_turn_watch_stall(t);
    if (mr_member_full(t->member) && call->method->writes) {
        (void)mr_error_set_traits(
            &err, MR_EEXHAUSTED, MR_RETRYABLE,
            "etcd is full (alarm NOSPACE): compact it, defragment its members, then 'etcdctl alarm "
            "disarm'");
    } else if (stalled > MR_STALLED_MS && call->method->command != MR_COMMAND_STATUS) {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                  "etcd does not answer (for %lld ms)", (long long)stalled);
    } else if (mr_turn_is_behind(t)) {
        (void)mr_error_set_traits(&err, MR_EEXHAUSTED, MR_RETRYABLE,
                                  "etcd is behind: %zu bytes wait for it",
                                  mr_member_backlog(t->member));
    } else {
        return false;
    }
    mr_turn_answer(t, call, NULL, &err);
    return true;
}

static void wait_for_leader(mr_turn *t, struct mr_call *call)
{
    STAILQ_INSERT_TAIL(&t->waiting, call, link);
    t->nwaiting++;
}

/* Definitions of known content are anybody's to give. */
static bool looked_up(mr_turn *t, struct mr_call *call)
{
    const Millrace__GetDatasetRequest *r = (const Millrace__GetDatasetRequest *)call->request;
    struct mr_header_info info = mr_turn_header(t);

    return !t->serving && !t->stopping && call->method->command == MR_COMMAND_GET_DATASET &&
           r->want_definition && r->fingerprint[0] != '\0' &&
           t->port.define(t->port.ctx, call, &info, NULL) >= 0;
}

void mr_turn_call(mr_turn *t, struct mr_call *call)
{
    if (wrong_cluster(t, call)) {
        return;
    }
    if (call->method->follow) {
        follow(t, call);
        return;
    }
    if (looked_up(t, call)) {
        return;
    }
    if (t->stopping || (!t->serving && mr_turn_led_by_another(t))) {
        mr_turn_refuse(t, call);
        return;
    }
    if (!t->serving) {
        wait_for_leader(t, call);
        return;
    }
    compare_epochs(t, call);
    if (!is_forged(t, call) && !refused_by_store(t, call)) {
        decide(t, call);
    }
}

void mr_turn_wait(mr_turn *t)
{
    bool settled = t->serving || t->stopping || mr_turn_led_by_another(t);

    struct mr_call *call;

    while ((call = STAILQ_FIRST(&t->waiting)) != NULL &&
           (settled || t->now_ms >= call->arrived_ms + MR_WAITING_MS)) {
        STAILQ_REMOVE_HEAD(&t->waiting, link);
        t->nwaiting--;
        if (t->serving && !t->stopping) {
            mr_turn_call(t, call);
        } else {
            mr_turn_refuse(t, call);
        }
        settled = t->serving || t->stopping ||
                  mr_turn_led_by_another(t); /* The call may have ended the term. */
    }
}
