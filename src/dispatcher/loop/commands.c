/* Calls and timers: from the mailbox into the core, and what comes out of it into the member. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/shares.h"
#include "dispatcher/loop/internal.h"

#include <string.h>

#define DEAF_HOLD_MS_MAX 2000
#define FOLLOWERS_TOLD_MS 60000
#define FOLLOWERS_TOLD_MAX 10u

/* The core cannot go on, or its changes cannot be committed: the state is loaded again, here or
 * elsewhere. */
static void give_up(struct mr_loop *l, const mr_error *why)
{
    mr_log(MR_LOG_ERROR, "the state cannot be kept, giving up this term", "error", "%s",
           why->message, NULL);
    mr_member_step_down(l->member, 0 /* no hold-off */, l->now_ms, (uint64_t)mr_wall_ms());
}

/* Bulk is small: a command has at most MR_CORE_CHANGES_MAX changes. */
static int add_changes(struct mr_loop *l, bool alone, uint64_t *batch, mr_error *err)
{
    struct mr_write writes[MR_CORE_CHANGES_MAX];
    size_t n = l->outcome.nchanges;

    *batch = 0;
    if (n == 0) {
        return MR_OK;
    }
    MR_ASSERT(n <= MR_CORE_CHANGES_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct mr_change *c = &l->outcome.changes[i];

        writes[i] = (struct mr_write){.key = c->key, .value = c->value, .size = c->size};
    }
    return mr_member_add(l->member, writes, n, alone, batch, err);
}

void mr_loop_was_deaf(struct mr_loop *l, int64_t late_ms)
{
    int64_t hold_ms =
        2 * l->opts.heartbeat_ms < DEAF_HOLD_MS_MAX ? 2 * l->opts.heartbeat_ms : DEAF_HOLD_MS_MAX;

    l->late_ms += late_ms;
    if (l->timer_ran) { /* Once: a loop that is always late still has to do what is due. */
        l->timer_from_ms = l->now_ms + hold_ms;
        l->timer_ran = false;
    }
}

static bool is_stalled(const struct mr_loop *l)
{
    return mr_member_stalled_ms(l->member, l->now_ms) > MR_STALLED_MS;
}

/* So much waits for etcd that there may be no room for another command. It is asked again; that
 * ends no term. */
static bool is_behind(const struct mr_loop *l)
{
    return mr_member_backlog(l->member) > MR_COMMIT_BACKLOG_BYTES_MAX - MR_TXN_BYTES_MAX;
}

/* While etcd is silent, heartbeats are refused: that time is nobody's silence. */
static void watch_stall(struct mr_loop *l)
{
    if (!is_stalled(l)) {
        if (l->refusing_since_ms != 0) {
            mr_loop_was_deaf(l, l->now_ms - l->refusing_since_ms);
        }
        l->refusing_since_ms = 0;
    } else if (l->refusing_since_ms == 0) {
        l->refusing_since_ms = l->now_ms;
    }
}

static void note_tally(struct mr_loop *l, const struct mr_tally *tally)
{
    struct mr_tally *all = &l->numbers.tally;

    all->assigned += tally->assigned;
    all->returned += tally->returned;
    all->given_back += tally->given_back;
    all->lost += tally->lost;
}

/* One command. @call (may be NULL) is answered through its effects; after a failure it still is the
 * caller's. */
static int step(struct mr_loop *l, struct mr_command *in, struct mr_call *call, mr_error *err)
{
    bool alone = l->now_ms < l->single_until_ms;
    uint64_t batch = 0;
    int rc;

    watch_stall(l);
    in->now_ms = l->now_ms;
    in->wall_ms = mr_wall_ms();
    in->late_ms = l->late_ms;
    in->full = mr_member_full(l->member);
    in->grant_ms = mr_budget_stretch_ms(&l->budget);
    l->late_ms = 0;
    in->token = ++l->tokens;
    in->host = call != NULL && call->share != NULL ? call->share->host : NULL;
    rc = mr_core_step(l->core, in, &l->outcome, err);
    if (rc >= 0) {
        rc = add_changes(l, alone, &batch, err);
    }
    if (rc >= 0) {
        note_tally(l, &l->outcome.tally);
        rc = mr_loop_hold(l, call, batch, alone, err);
    }
    mr_outcome_clear(&l->outcome);
    return rc;
}

void mr_loop_run(struct mr_loop *l, struct mr_command *in, struct mr_call *call)
{
    mr_error err;
    mr_error told;

    if (step(l, in, call, &err) >= 0) {
        return;
    }
    (void)mr_error_set_traits(&told, MR_EUNAVAIL, MR_RETRYABLE | MR_MAYBE_APPLIED, "%.200s",
                              err.message);
    bool held = false;

    for (struct mr_held_effect *h = l->held; h != NULL; h = h->next) {
        held = held || (call != NULL && h->call == call);
    }
    if (call != NULL && !held) {
        mr_loop_answer(l, call, NULL, &told);
    }
    give_up(l, &err);
}

/* ---- all calls ---- */

/* While etcd is silent it is from memory, and says so: just then somebody wants to know how things
 * stand. */
static void status(struct mr_loop *l, struct mr_call *call)
{
    struct mr_status_about about = {
        .cluster = l->cluster,
        .incarnation = l->incarnation,
        .leader = l->address,
        .version = MR_VERSION,
        .dispatchers = (const char *const *)l->dispatchers,
        .ndispatchers = l->ndispatchers,
        .store_bytes_per_s = mr_budget_rate(&l->budget),
        .store_silent_ms = is_stalled(l) ? mr_member_stalled_ms(l->member, l->now_ms) : 0};
    struct mr_command in = {.kind = MR_COMMAND_STATUS, .status = &about};

    mr_loop_run(l, &in, call);
}

/* A watch is subscribed when it is decided, not when it is answered: pushes that follow are held
 * behind its first update. */
static bool subscribe(struct mr_loop *l, struct mr_call *call)
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
        mr_loop_drop_call(call);
        return false;
    }
    rc = mr_streams_subscribe(&l->streams, call->stream, topic, client, &err);
    if (rc < 0) {
        mr_loop_answer(l, call, NULL, &err);
    }
    return rc >= 0;
}

/* Whoever registers says whose address it is; who has it and is connected is no less at home. */
static bool is_watching(const struct mr_loop *l, const struct mr_command *in)
{
    const char *address = in->kind == MR_COMMAND_REGISTER_WORKER
                              ? in->register_worker->address
                              : mr_core_newcomer_address(l->core, in->watch_worker->incarnation);
    bool awaited = false;
    const char *incarnation =
        address != NULL ? mr_core_worker_at(l->core, address, &awaited) : NULL;

    return awaited || (incarnation != NULL && mr_streams_of(&l->streams, incarnation) != NULL);
}

/* Requests of all kinds that the core takes as they are: the union's members are all pointers to
 * the message. */
static void plain(struct mr_loop *l, struct mr_call *call)
{
    struct mr_command in = {.kind = call->method->command, .seed = mr_random_u64()};
    const void *request = call->request;

    memcpy(&in.open, &request, sizeof request);
    if (in.kind == MR_COMMAND_REGISTER_WORKER || in.kind == MR_COMMAND_WATCH_WORKER) {
        in.worker_watches = is_watching(l, &in);
    }
    if (call->stream != NULL && !subscribe(l, call)) {
        return;
    }
    mr_loop_run(l, &in, call);
}

static void decide(struct mr_loop *l, struct mr_call *call)
{
    switch (call->method->command) {
    case MR_COMMAND_REGISTER_DATASET:
        mr_loop_register(l, call);
        break;
    case MR_COMMAND_STATUS:
        status(l, call);
        break;
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
        plain(l, call);
        break;
    case MR_COMMAND_STORE_PART:
    case MR_COMMAND_TIMER:
        MR_ASSERT(!"a call");
        break;
    }
}

/* Anybody may call himself one, as often as he likes: not every one is worth a line. */
static void tell_of_standby(struct mr_loop *l, const char *instance)
{
    if (l->now_ms >= l->followers_told_ms) {
        l->followers_told_ms = l->now_ms + FOLLOWERS_TOLD_MS;
        l->followers_told = 0;
    }
    if (instance[0] != '\0' && l->followers_told < FOLLOWERS_TOLD_MAX) {
        l->followers_told++;
        mr_log(MR_LOG_INFO, "a standby is here", "instance", "%s", instance, NULL);
    }
}

/* A standby asks to be told when this process is gone. The stream's life is the message. */
static void follow(struct mr_loop *l, struct mr_call *call)
{
    const Millrace__RequestHeader *h = mr_call_header(call);
    const Millrace__FollowRequest *request = (const Millrace__FollowRequest *)call->request;
    mr_error err;

    if (!l->serving || h == NULL || h->epoch != (uint64_t)mr_member_epoch(l->member)) {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                  "dispatcher %s does not lead at that epoch", l->address);
        mr_loop_answer(l, call, NULL, &err);
        return;
    }
    if (!call->stream->ended &&
        mr_streams_subscribe(&l->followers, call->stream, "follow", request->instance, &err) < 0) {
        mr_loop_answer(l, call, NULL, &err);
        return;
    }
    tell_of_standby(l, request->instance);
    mr_loop_answer(l, call, NULL, NULL);
}

static bool wrong_cluster(struct mr_loop *l, struct mr_call *call)
{
    const Millrace__RequestHeader *h = mr_call_header(call);
    mr_error err;

    if (h == NULL || h->cluster[0] == '\0' || strcmp(h->cluster, l->cluster) == 0) {
        return false;
    }
    (void)mr_error_set(&err, MR_EPRECOND, "this is a dispatcher of cluster '%s', not of '%.64s'",
                       l->cluster, h->cluster);
    mr_loop_answer(l, call, NULL, &err);
    return true;
}

/* Ids are told to everybody: they are no right to speak. */
static bool is_forged(struct mr_loop *l, struct mr_call *call)
{
    mr_error err;

    if (mr_call_vet_speaker(call, &err) == MR_OK) {
        return false;
    }
    mr_loop_answer(l, call, NULL, &err);
    return true;
}

/* Does the caller know a later epoch of this incarnation? Perhaps we were deposed; perhaps the
 * store went back; perhaps it made that up. */
static void compare_epochs(struct mr_loop *l, const struct mr_call *call)
{
    const Millrace__RequestHeader *h = mr_call_header(call);

    if (h != NULL && h->epoch > (uint64_t)mr_member_epoch(l->member) &&
        strcmp(h->incarnation, l->incarnation) == 0) {
        mr_member_later_epoch(l->member, h->epoch, h->epoch_signature);
    }
}

/* What can be said at once of a call to the leader: that etcd is not fit for it. */
static bool refused_by_store(struct mr_loop *l, struct mr_call *call)
{
    int64_t stalled = mr_member_stalled_ms(l->member, l->now_ms);
    mr_error err;

    watch_stall(l);
    if (mr_member_full(l->member) && call->method->writes) {
        (void)mr_error_set_traits(
            &err, MR_EEXHAUSTED, MR_RETRYABLE,
            "etcd is full (alarm NOSPACE): compact it, defragment its members, then "
            "'etcdctl alarm disarm'");
    } else if (stalled > MR_STALLED_MS && call->method->command != MR_COMMAND_STATUS) {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                  "etcd does not answer (for %lld ms)", (long long)stalled);
    } else if (is_behind(l)) {
        (void)mr_error_set_traits(&err, MR_EEXHAUSTED, MR_RETRYABLE,
                                  "etcd is behind: %zu bytes wait for it",
                                  mr_member_backlog(l->member));
    } else {
        return false;
    }
    mr_loop_answer(l, call, NULL, &err);
    return true;
}

static void wait_for_leader(struct mr_loop *l, struct mr_call *call)
{
    call->next = NULL;
    *l->waiting_tail = call;
    l->waiting_tail = &call->next;
    l->nwaiting++;
}

bool mr_loop_led_by_another(const struct mr_loop *l)
{
    const struct mr_leader_view *leader = mr_member_leader(l->member);

    /* A process that is gone leads nobody, and one that is frozen; its key will be gone soon. So is
     * an earlier one at this one's address. */
    return leader->known && !mr_member_leader_gone(l->member) &&
           !mr_peer_silent(l->peer, leader->epoch) &&
           strcmp(leader->record.instance, l->instance) != 0 &&
           strcmp(leader->record.address, l->address) != 0;
}

/* Definitions of known content are anybody's to give. */
static bool looked_up(struct mr_loop *l, struct mr_call *call)
{
    const Millrace__GetDatasetRequest *r = (const Millrace__GetDatasetRequest *)call->request;
    struct mr_header_info info = mr_loop_header(l);

    return !l->serving && !l->stopping && call->method->command == MR_COMMAND_GET_DATASET &&
           r->want_definition && r->fingerprint[0] != '\0' &&
           mr_side_submit(l->side, call, &info, NULL) >= 0;
}

void mr_loop_call(struct mr_loop *l, struct mr_call *call)
{
    if (wrong_cluster(l, call)) {
        return;
    }
    if (call->method->follow) {
        follow(l, call);
        return;
    }
    if (looked_up(l, call)) {
        return;
    }
    if (l->stopping || (!l->serving && mr_loop_led_by_another(l))) {
        mr_loop_refuse(l, call);
        return;
    }
    if (!l->serving) {
        wait_for_leader(l, call);
        return;
    }
    compare_epochs(l, call);
    if (!is_forged(l, call) && !refused_by_store(l, call)) {
        decide(l, call);
    }
}

void mr_loop_waiting(struct mr_loop *l)
{
    bool settled = l->serving || l->stopping || mr_loop_led_by_another(l);

    while (l->waiting != NULL &&
           (settled || l->now_ms >= mr_call_arrived_ms(l->waiting) + MR_WAITING_MS)) {
        struct mr_call *call = l->waiting;

        l->waiting = call->next;
        l->nwaiting--;
        if (l->waiting == NULL) {
            l->waiting_tail = &l->waiting;
        }
        if (l->serving && !l->stopping) {
            mr_loop_call(l, call);
        } else {
            mr_loop_refuse(l, call);
        }
        settled = l->serving || l->stopping ||
                  mr_loop_led_by_another(l); /* The call may have ended the term. */
    }
}

void mr_loop_timer(struct mr_loop *l)
{
    struct mr_command in = {.kind = MR_COMMAND_TIMER};

    if (!l->serving) {
        return;
    }
    watch_stall(l);
    if (mr_loop_timer_due(l) <= l->now_ms) {
        l->timer_ran = true;
        mr_loop_run(l, &in, NULL);
    }
}

int64_t mr_loop_timer_due(const struct mr_loop *l)
{
    int64_t due;

    if (!l->serving || is_stalled(l) || is_behind(l)) {
        return INT64_MAX; /* Nothing new is decided; etcd's answer will be a turn. */
    }
    due = mr_core_next_timer(l->core);
    return due > l->timer_from_ms ? due : l->timer_from_ms;
}
