#include "dispatcher/turn/turn.h"

#include "base/log.h"
#include "dispatcher/turn/internal.h"

#define TURN_MS_MAX                                                                                \
    1000 /* a turn at least this often: it is how a pause of the process is noticed */
#define LATE_MS_MIN 200 /* less is ordinary scheduling */
#define DRAIN_MS 1000
#define COMPLAIN_EVERY_MS 5000
#define STRETCH_TOLD_EVERY_MS 60000

/* ---- what has happened ---- */

/* The last turn took long, or the process did not run. */
void mr_turn_begin(mr_turn *t, const struct mr_turn_times *times)
{
    int64_t busy = times->idle_ms - t->now_ms;
    int64_t slept = times->now_ms - MR_MAX(times->due_ms, times->idle_ms);
    int64_t late = (busy >= LATE_MS_MIN ? busy : 0) + (slept >= LATE_MS_MIN ? slept : 0);

    t->now_ms = times->now_ms;
    t->wall_ms = times->wall_ms;
    if (late > 0) {
        mr_turn_was_deaf(t, late);
        mr_log(MR_LOG_WARN, "the dispatcher was held up, moving deadlines", "ms", "%lld",
               (long long)late, NULL);
    }
}

static struct mr_streams *streams_with(mr_turn *t, const struct mr_dstream *d)
{
    return d->method->follow ? &t->followers : &t->streams;
}

static void stop(mr_turn *t)
{
    t->stopping = true;
    t->drain_until_ms = t->now_ms + DRAIN_MS;
    mr_follow_leader(&t->follower, NULL, 0, t->now_ms);
}

void mr_turn_take(mr_turn *t, const struct mr_item *item)
{
    enum mr_peer_state state;
    int64_t epoch;

    switch (item->kind) {
    case MR_ITEM_CALL: mr_turn_call(t, item->call); break;
    case MR_ITEM_MEMBER: mr_member_deliver(t->member, item->event, t->now_ms, t->wall_ms); break;
    case MR_ITEM_STREAM_SENT: mr_dstream_sent(item->stream); break;
    case MR_ITEM_STREAM_ENDED: mr_streams_ended(streams_with(t, item->stream), item->stream); break;
    case MR_ITEM_FOLLOW_ALIVE:
        if (mr_follow_heard(&t->follower, item->follow, t->now_ms)) {
            mr_member_peer(t->member, item->follow->epoch, MR_PEER_ALIVE, t->now_ms, t->wall_ms);
        }
        break;
    case MR_ITEM_FOLLOW_ENDED:
        if (mr_follow_ended(&t->follower, item->follow, t->now_ms, &epoch, &state)) {
            mr_member_peer(t->member, epoch, state, t->now_ms, t->wall_ms);
        }
        break;
    case MR_ITEM_PROBED:
        mr_member_probed(t->member, item->epoch, item->refused, t->now_ms, t->wall_ms);
        break;
    case MR_ITEM_STOP: stop(t); break;
    case MR_ITEM_DRIVER: MR_ASSERT(!"of the driver's own"); break;
    }
}

/* ---- what is due ---- */

/* After STOP: what was accepted is committed first, within reason; then leadership is handed
 * over. */
static void drain(mr_turn *t)
{
    bool quiet = t->held == NULL && STAILQ_EMPTY(&t->uploads) &&
                 mr_member_newest(t->member) == mr_member_committed(t->member);

    if (t->stopping && !t->leaving && (quiet || t->now_ms >= t->drain_until_ms)) {
        t->leaving = true;
        mr_member_stop(t->member, t->now_ms, t->wall_ms);
    }
}

/* Most workers are silent: if that is this process's fault, another one hears them. */
static void resign(mr_turn *t)
{
    if (!t->resigning) {
        return;
    }
    t->resigning = false;
    if (!t->serving || t->ndispatchers < 2) {
        return; /* Nobody else can judge. */
    }
    mr_log(MR_LOG_WARN, "many workers are silent, letting another dispatcher lead", NULL);
    t->resigned_ms = t->now_ms;
    mr_member_step_down(t->member, t->opts.lease_ttl_ms, t->now_ms, t->wall_ms);
}

/* Somebody should know why nothing works. */
static void complain(mr_turn *t)
{
    const char *trouble = mr_member_trouble(t->member);
    bool fine = t->serving ? mr_member_stalled_ms(t->member, t->now_ms) <= MR_STALLED_MS
                           : mr_turn_led_by_another(t);

    if (fine || t->stopping) {
        t->silent_since_ms = t->now_ms;
        t->complain_ms = t->now_ms + COMPLAIN_EVERY_MS;
    } else if (t->now_ms >= t->complain_ms) {
        t->complain_ms = t->now_ms + COMPLAIN_EVERY_MS;
        mr_log(MR_LOG_WARN,
               t->serving ? "etcd does not answer, retrying"
                          : "etcd does not answer or nobody leads, retrying",
               "for_ms", "%lld", (long long)(t->now_ms - t->silent_since_ms), "error", "%s",
               trouble[0] != '\0' ? trouble : "no answer yet", NULL);
    }
}

int64_t mr_turn_due(const mr_turn *t)
{
    int64_t due = t->now_ms + TURN_MS_MAX;

    due = MR_MIN(due, mr_member_due(t->member));
    due = MR_MIN(due, mr_follow_due(&t->follower));
    due = MR_MIN(due, mr_turn_timer_due(t));
    if (t->serving && !LIST_EMPTY(&t->followers.all)) {
        due = MR_MIN(due, t->beat_ms);
    }
    if (!STAILQ_EMPTY(&t->waiting)) {
        due = MR_MIN(due, STAILQ_FIRST(&t->waiting)->arrived_ms + MR_WAITING_MS);
    }
    if (t->stopping && !t->leaving) {
        due = MR_MIN(due, t->drain_until_ms);
    }
    return due;
}

/* What is written to etcd is measured; when it is too much, grants become longer. */
static void keep_budget(mr_turn *t)
{
    mr_budget_update(&t->budget, mr_member_written(t->member), t->now_ms);
    if (mr_budget_stretch_ms(&t->budget) > MR_GRANT_MS && t->now_ms >= t->stretch_told_ms) {
        t->stretch_told_ms = t->now_ms + STRETCH_TOLD_EVERY_MS;
        mr_log(MR_LOG_INFO, "the write budget of etcd is used up, grants of splits become longer",
               "bytes_per_s", "%lld", (long long)mr_budget_rate(&t->budget), "budget", "%lld",
               (long long)t->opts.etcd_write_budget, "grant_ms", "%lld",
               (long long)mr_budget_stretch_ms(&t->budget), NULL);
    }
}

/* Those who follow hear that this loop turns. */
static void beat(mr_turn *t)
{
    struct mr_header_info info = mr_turn_header(t);
    struct mr_dstream *d;

    if (t->now_ms < t->beat_ms) {
        return;
    }
    t->beat_ms = t->now_ms + MR_BEAT_MS;
    LIST_FOREACH(d, &t->followers.all, link) {
        struct mr_buf b = mr_reply_pack(d->method->reply, NULL, &info, d->method->contact, NULL);

        mr_dstream_send(d, &b);
    }
}

/* Messages that are there come before timers: whoever slept must hear its workers before it judges
 * them. */
void mr_turn_end(mr_turn *t)
{
    int64_t epoch;

    mr_turn_wait(t);
    mr_turn_timer(t);
    mr_turn_upload(t);
    drain(t);
    if (mr_follow_tick(&t->follower, t->now_ms, &epoch)) {
        mr_member_peer(t->member, epoch, MR_PEER_AWAY, t->now_ms, t->wall_ms);
    }
    mr_member_tick(t->member, t->now_ms, t->wall_ms);
    mr_turn_wait(t); /* The tick may have made this one the leader, or ended its term. */
    if (t->serving) {
        mr_turn_release(t);
        keep_budget(t);
        beat(t);
    }
    resign(t);
    complain(t);
}

bool mr_turn_serves(const mr_turn *t)
{
    return t->serving;
}

int64_t mr_turn_epoch(const mr_turn *t)
{
    return mr_member_epoch(t->member);
}

int64_t mr_turn_store_ms(const mr_turn *t)
{
    return mr_member_answered_ms(t->member);
}

size_t mr_turn_waiting(const mr_turn *t)
{
    return t->nwaiting;
}

/* ---- beginning and end ---- */

/* From any thread: what it reads never changes. */
static void post_event(void *ctx, struct mr_member_event *event)
{
    const mr_turn *t = ctx;

    t->port.post(t->port.ctx, event);
}

static int make_member(mr_turn *t, mr_error *err)
{
    const struct mr_turn_options *o = &t->opts;
    struct mr_member_options m = {.store = o->store,
                                  .cluster = t->cluster,
                                  .instance = t->instance,
                                  .secret = o->secret,
                                  .address = t->address,
                                  .version = MR_VERSION,
                                  .socket = o->socket,
                                  .ttl_ms = o->lease_ttl_ms,
                                  .started_ms = o->started_ms,
                                  .seed = mr_rng_next(&t->rng),
                                  .prefixes = t->prefixes,
                                  .nprefixes = mr_turn_prefixes(t->prefixes),
                                  .ops = &mr_turn_member_ops,
                                  .ctx = t,
                                  .post = post_event};

    return mr_member_new(&m, &t->member, err);
}

int mr_turn_new(const struct mr_turn_options *opts, const struct mr_turn_port *port, int64_t now_ms,
                mr_turn **ret, mr_error *err)
{
    mr_turn *t = mr_calloc(1, sizeof *t);
    int rc;

    MR_CHECK_ALLOC(t, err);
    t->opts = *opts;
    t->port = *port;
    mr_rng_seed(&t->rng, opts->seed);
    t->follower.ops = &t->port.follow;
    t->follower.ctx = t->port.ctx;
    t->held_tail = &t->held;
    STAILQ_INIT(&t->waiting);
    STAILQ_INIT(&t->uploads);
    t->now_ms = now_ms;
    t->silent_since_ms = now_ms;
    t->complain_ms = now_ms + COMPLAIN_EVERY_MS;
    (void)snprintf(t->instance, sizeof t->instance, "%s", opts->instance);
    t->cluster = mr_strdup(opts->cluster);
    t->address = mr_strdup(opts->address);
    rc = t->cluster == NULL || t->address == NULL ? mr_error_nomem(err) : make_member(t, err);
    t->opts.secret = NULL; /* The member has it. */
    if (rc < 0) {
        mr_turn_free(t);
        return rc;
    }
    *ret = t;
    return MR_OK;
}

void mr_turn_drop(mr_turn *t, const struct mr_item *item)
{
    enum mr_peer_state state;
    mr_error err;
    int64_t epoch;

    switch (item->kind) {
    case MR_ITEM_CALL:
        if (item->call->stream == NULL) {
            (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                      "the dispatcher is stopping");
            mr_turn_answer(t, item->call, NULL, &err);
        } else {
            mr_turn_drop_call(item->call);
        }
        break;
    case MR_ITEM_MEMBER: mr_member_discard(t->member, item->event); break;
    case MR_ITEM_STREAM_ENDED: mr_streams_ended(streams_with(t, item->stream), item->stream); break;
    case MR_ITEM_FOLLOW_ENDED:
        (void)mr_follow_ended(&t->follower, item->follow, 0, &epoch, &state);
        break;
    case MR_ITEM_STREAM_SENT:
    case MR_ITEM_FOLLOW_ALIVE:
    case MR_ITEM_PROBED:
    case MR_ITEM_STOP:
    case MR_ITEM_DRIVER: break;
    }
}

void mr_turn_unfollow(mr_turn *t)
{
    mr_follow_stop(&t->follower);
}

bool mr_turn_follows(const mr_turn *t)
{
    return t->follower.open > 0;
}

static void fail_all(mr_turn *t)
{
    mr_error why;

    (void)mr_error_set_traits(&why, MR_EUNAVAIL, MR_RETRYABLE | MR_MAYBE_APPLIED,
                              "the dispatcher is stopping");
    mr_turn_fail_held(t, &why, 0);
    mr_turn_fail_uploads(t, &why);
    mr_turn_end_streams(t, "the dispatcher is stopping");
    t->stopping = true;
    mr_turn_wait(t);
}

void mr_turn_free(mr_turn *t)
{
    if (t == NULL) {
        return;
    }
    if (t->member != NULL) {
        fail_all(t);
    }
    mr_member_free(t->member);
    mr_core_free(t->core);
    mr_outcome_clear(&t->outcome);
    mr_map_free(&t->pushes);
    mr_streams_free(&t->streams);
    mr_streams_free(&t->followers);
    for (size_t i = 0; i < t->ndispatchers; i++) {
        mr_free(t->dispatchers[i]);
    }
    mr_free(t->cluster);
    mr_free(t->address);
    mr_free(t);
}
