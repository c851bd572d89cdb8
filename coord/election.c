#include "coord/election.h"

#include "base/assert.h"
#include "base/clock.h"

#include <string.h>

#define RETRY_BASE_MS 50
#define RETRY_MAX_MS 2000
#define RENEW_MS_MAX 1000      /* others judge a leader by its renewals, so they come often */
#define CAMPAIGN_SPREAD_MS 200 /* after a leader vanished, so that not all replicas rush */
#define SUCCESSOR_HEAD_START_MS 300
#define PROBE_GAP_MS 50
#define PROBE_GAP_MS_MAX 1000
#define LIST_ANSWER_MS_MAX 1000 /* a member that etcd answers slower than this has no business deposing anybody */
#define LIST_EVERY_MS 2000
#define TTL_EVERY_MS 500
#define SILENT_MS 3000 /* without a renewal of the leader's lease */
#define MIN_TENURE_MS 1000
#define DEPOSED_FORGET_MS 600000
#define REVOKE_ATTEMPTS 3

void mr_election_init(mr_election *e, const struct mr_election_config *config)
{
    *e = (mr_election){.config = *config, .state = MR_ELECTION_JOINING};
    mr_rng_seed(&e->rng, config->seed);
}

const struct mr_leader_view *mr_election_leader(const mr_election *e)
{
    return &e->leader;
}

bool mr_election_leader_gone(const mr_election *e)
{
    return e->leader.known && (e->certain || (e->suspect && e->refused));
}

static struct mr_election_action *emit(mr_election *e, struct mr_election_actions *out,
                                       enum mr_election_action_kind kind)
{
    MR_ASSERT(out->n < MR_ELECTION_ACTIONS_MAX);
    struct mr_election_action *a = &out->list[out->n++];

    memset(a, 0, sizeof *a);
    a->kind = kind;
    a->serial = e->serial;
    return a;
}

static void enter(mr_election *e, enum mr_election_state state, int64_t at_ms)
{
    e->state = state;
    e->serial++;
    e->busy = false;
    e->attempts = 0;
    e->retry_ms = at_ms;
}

static void back_off(mr_election *e, int64_t now_ms)
{
    e->busy = false;
    e->retry_ms = now_ms + mr_backoff_ms(e->attempts++, RETRY_BASE_MS, RETRY_MAX_MS, mr_rng_next(&e->rng));
}

static int64_t renew_every_ms(const mr_election *e)
{
    return e->ttl_ms / 8 < RENEW_MS_MAX ? e->ttl_ms / 8 : RENEW_MS_MAX;
}

static void forget_suspicion(mr_election *e)
{
    e->suspect = false;
    e->refusals = 0;
    e->forcing = false;
    e->certain = false;
    e->refused = false;
    e->ttl_last_s = -1;
    e->renewed_ms = INT64_MIN;
    e->probe_ms = INT64_MAX;
    e->probe_gap_ms = PROBE_GAP_MS;
    e->ttl_read_ms = INT64_MAX;
}

static void see_leader(mr_election *e, const struct mr_leader_view *leader, int64_t now_ms,
                       struct mr_election_actions *out)
{
    bool other_term = e->leader.known != leader->known || e->leader.epoch != leader->epoch;

    e->leader = *leader;
    if (other_term) {
        e->leader_since_ms = now_ms;
        forget_suspicion(e);
        (void)emit(e, out, MR_ELECTION_LEADER);
    }
}

static void nobody_leads(mr_election *e, int64_t now_ms, struct mr_election_actions *out)
{
    struct mr_leader_view nobody = {0};

    see_leader(e, &nobody, now_ms, out);
}

static void watch_from(mr_election *e, int64_t revision, struct mr_election_actions *out)
{
    e->watching = true;
    emit(e, out, MR_ELECTION_WATCH)->revision = revision;
}

/* Give the lease back and start again with another one (or not at all, when stopping). */
static void leave(mr_election *e, int64_t at_ms)
{
    enter(e, e->lease != 0 || e->stopping ? MR_ELECTION_LEAVING : MR_ELECTION_JOINING, at_ms);
}

/* The lease is gone: nothing may be put with it any more, and a term that rested on it is over. */
static void lose_lease(mr_election *e, int64_t now_ms)
{
    e->lease = 0;
    e->lease_gone = false;
    leave(e, now_ms);
}

static void end_term(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    e->epoch = 0;
    e->deposed = true;
    (void)emit(e, out, MR_ELECTION_DEPOSED);
    leave(e, in->now_ms);
}

/* ---- forcing ---- */

/* Somebody was deposed alive so often. Leaders carry it on: who has said so may be gone by now. */
static void hear_of_wrong(mr_election *e, uint32_t times, uint64_t when_ms, uint64_t wall_ms)
{
    if (wall_ms >= e->wrong_wall_ms + DEPOSED_FORGET_MS) {
        e->wrong = 0;
    }
    if (times > e->wrong && wall_ms < when_ms + DEPOSED_FORGET_MS) {
        e->wrong = times;
        e->wrong_wall_ms = when_ms;
    }
}

/* How long every term must be left alone, given who was wrongly deposed lately. */
static int64_t min_tenure_ms(const mr_election *e)
{
    uint32_t wrong = e->wrong;

    if (e->certain && wrong == 0) {
        return 0; /* The tenure is for guesses. */
    }
    int64_t tenure = MIN_TENURE_MS << (wrong < 10 ? wrong : 10);

    return tenure < e->ttl_ms ? tenure : e->ttl_ms;
}

static void probe_again(mr_election *e, int64_t at_ms)
{
    e->refusals = 0;
    e->forcing = false;
    e->probe_ms = at_ms;
}

/* Does this process hold the socket that the leader listened on? Then that one is gone. */
static bool inherited_socket(const mr_election *e)
{
    return e->config.socket[0] != '\0' && strcmp(e->leader.record.socket, e->config.socket) == 0;
}

/* There is evidence; the answer of an own read, in time, is the last condition but min_tenure. */
static void start_forcing(mr_election *e)
{
    e->forcing = true;
    e->list_to_force = false;
    e->list_ms = 0;
}

static void force_or_wait(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    int64_t tenure = min_tenure_ms(e);

    if (in->now_ms < e->leader_since_ms + tenure) {
        probe_again(e, e->leader_since_ms + tenure);
        e->suspect = true;
        return;
    }
    e->busy = true;
    e->forcing = false;
    emit(e, out, MR_ELECTION_DELETE)->epoch = e->leader.epoch;
}

static void suspicion_tick(mr_election *e, int64_t now_ms, struct mr_election_actions *out)
{
    if (!e->suspect || now_ms < e->no_force_ms || e->busy) {
        return;
    }
    if (!e->probing && now_ms >= e->probe_ms) {
        e->probing = true;
        e->probe_ms = INT64_MAX;
        struct mr_election_action *a = emit(e, out, MR_ELECTION_PROBE);

        a->record = e->leader.record;
        a->epoch = e->leader.epoch;
    }
    if (!e->reading_ttl && now_ms >= e->ttl_read_ms) {
        e->reading_ttl = true;
        emit(e, out, MR_ELECTION_READ_TTL)->lease = e->leader.lease;
    }
}

static void on_probed(mr_election *e, const struct mr_election_event *in)
{
    e->probing = false;
    if (!e->suspect || in->epoch != e->leader.epoch || e->state != MR_ELECTION_FOLLOWING) {
        return;
    }
    e->refused = in->refused;
    if (in->refused && e->refusals++ > 0) {
        start_forcing(e);
        return;
    }
    if (in->refused) {
        e->probe_ms = in->now_ms + PROBE_GAP_MS;
        return;
    }
    /* It accepts, or nothing is heard: no evidence that the process is gone. Watch how its lease does. */
    e->refusals = 0;
    e->renewed_ms = e->renewed_ms == INT64_MIN ? in->now_ms : e->renewed_ms;
    e->ttl_read_ms = e->ttl_read_ms == INT64_MAX ? in->now_ms : e->ttl_read_ms;
    /* A process that is being killed may still have its listening socket for a moment: ask again soon, then more
     * rarely. */
    e->probe_ms = in->now_ms + e->probe_gap_ms;
    e->probe_gap_ms = 2 * e->probe_gap_ms < PROBE_GAP_MS_MAX ? 2 * e->probe_gap_ms : PROBE_GAP_MS_MAX;
}

static void on_ttl(mr_election *e, const struct mr_election_event *in)
{
    e->reading_ttl = false;
    if (!e->suspect || e->state != MR_ELECTION_FOLLOWING) {
        return;
    }
    e->ttl_read_ms = in->now_ms + TTL_EVERY_MS;
    if (in->rc < 0) {
        e->renewed_ms = in->now_ms; /* Our own view is broken: nothing is known of the leader's. */
        return;
    }
    /* Whole seconds: a value that does not fall was renewed in between. */
    if (in->ttl_s >= 0 && in->ttl_s >= e->ttl_last_s) {
        e->renewed_ms = in->now_ms;
    }
    e->ttl_last_s = in->ttl_s;
    /* What has run out of it is the time since then, less the part of a second that was cut off. */
    int64_t run_out_ms = ((int64_t)e->leader.record.ttl_s - in->ttl_s - 1) * 1000;

    if (in->ttl_s >= 0 && e->leader.record.ttl_s > 0 && in->now_ms - run_out_ms < e->renewed_ms) {
        e->renewed_ms = in->now_ms - run_out_ms;
    }
    if (in->now_ms >= e->renewed_ms + SILENT_MS) {
        start_forcing(e);
    }
}

static void on_listed(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    bool to_force = e->list_to_force;

    e->listing = false;
    e->list_to_force = false;
    if (e->state == MR_ELECTION_RESIGNING && !e->fresh) {
        e->fresh = true; /* Or as fresh as it gets. */
        e->busy = false;
    }
    if (in->rc >= 0) {
        e->npeers = 0;
        for (size_t i = 0; i < in->ndispatchers; i++) {
            if (in->follows[i] && e->npeers < sizeof e->peers / sizeof e->peers[0]) {
                e->peers[e->npeers++] = in->dispatchers[i];
            }
            hear_of_wrong(e, in->dispatchers[i].deposed_alive, in->dispatchers[i].deposed_ms, in->wall_ms);
        }
    }
    if (!to_force || !e->forcing || e->state != MR_ELECTION_FOLLOWING || !e->leader.known) {
        return;
    }
    if (in->rc < 0 || in->now_ms > e->list_ms + LIST_ANSWER_MS_MAX) {
        if (e->certain) {
            e->list_ms = in->now_ms + PROBE_GAP_MS; /* The evidence does not age. */
        } else {
            probe_again(e, in->now_ms + PROBE_GAP_MS); /* etcd is slow for us: the fault may be ours. */
        }
        return;
    }
    force_or_wait(e, in, out);
}

/* ---- the main road ---- */

static void on_granted(mr_election *e, const struct mr_election_event *in)
{
    if (in->rc < 0) {
        back_off(e, in->now_ms);
        return;
    }
    e->lease = in->lease;
    e->ttl_ms = in->ttl_s * 1000;
    e->renew_ms = in->now_ms + renew_every_ms(e);
    enter(e, e->stopping ? MR_ELECTION_LEAVING : MR_ELECTION_REGISTERING, in->now_ms);
}

static void on_renewed(mr_election *e, const struct mr_election_event *in)
{
    e->renewing = false;
    if (in->lease != e->lease || e->lease == 0) {
        return;
    }
    if (in->rc < 0) {
        e->renew_ms = in->now_ms + RETRY_BASE_MS;
        return;
    }
    e->lease_gone = e->lease_gone || in->ttl_s <= 0;
}

static void on_lease_gone(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    if (e->state == MR_ELECTION_LEADING || e->state == MR_ELECTION_RESIGNING) {
        nobody_leads(e, in->now_ms, out);
        e->epoch = 0;
        (void)emit(e, out, MR_ELECTION_DEPOSED);
        lose_lease(e, in->now_ms);
    } else if (e->state != MR_ELECTION_LEAVING && e->state != MR_ELECTION_DONE && !e->busy) {
        lose_lease(e, in->now_ms); /* While a request is out, its answer comes first. */
    }
}

static void on_registered(mr_election *e, const struct mr_election_event *in)
{
    if (in->rc == MR_ENOTFOUND) {
        lose_lease(e, in->now_ms);
    } else if (in->rc < 0) {
        back_off(e, in->now_ms);
    } else {
        enter(e, MR_ELECTION_CAMPAIGNING, in->now_ms);
    }
}

static void follow(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    enter(e, MR_ELECTION_FOLLOWING, in->now_ms);
    e->seen_revision = in->revision;
    see_leader(e, &in->leader, in->now_ms, out);
    watch_from(e, in->revision + 1, out);
    if (inherited_socket(e)) {
        e->certain = true;
        start_forcing(e);
    }
}

static void on_campaigned(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    if (in->rc == MR_ENOTFOUND) {
        lose_lease(e, in->now_ms);
    } else if (in->rc < 0) {
        back_off(e, in->now_ms); /* Perhaps applied: the next attempt finds our key, and clears it. */
    } else if (in->succeeded) {
        enter(e, MR_ELECTION_LEADING, in->now_ms);
        e->epoch = in->revision;
        e->seen_revision = in->revision;
        e->list_ms = in->now_ms; /* Who is there? Callers are told. */
        see_leader(e, &in->leader, in->now_ms, out);
        watch_from(e, in->revision + 1, out);
        emit(e, out, MR_ELECTION_ELECTED)->epoch = e->epoch;
    } else if (!in->leader.known) {
        back_off(e, in->now_ms);
    } else if (strcmp(in->leader.record.instance, e->config.instance) == 0) {
        e->leader = in->leader;
        enter(e, MR_ELECTION_CLEARING, in->now_ms);
    } else {
        follow(e, in, out);
    }
}

/* CLEARING, FOLLOWING (forced) and RESIGNING all delete the leader key, under its create revision. */
static void on_deleted(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    switch (e->state) {
    case MR_ELECTION_CLEARING:
        if (in->rc < 0) {
            back_off(e, in->now_ms);
        } else {
            nobody_leads(e, in->now_ms, out);
            enter(e, MR_ELECTION_CAMPAIGNING, in->now_ms);
        }
        break;
    case MR_ELECTION_FOLLOWING:
        e->busy = false;
        if (in->rc < 0 && e->suspect) {
            probe_again(e, in->now_ms + PROBE_GAP_MS); /* Unknown: the evidence is looked at again before any retry. */
        } else {
            enter(e, MR_ELECTION_CAMPAIGNING, in->now_ms);
        }
        break;
    case MR_ELECTION_RESIGNING:
        if (in->rc < 0) {
            back_off(e, in->now_ms);
        } else {
            e->epoch = 0;
            e->deposed = false;
            nobody_leads(e, in->now_ms, out);
            (void)emit(e, out, MR_ELECTION_DEPOSED);
            leave(e, in->now_ms);
        }
        break;
    case MR_ELECTION_JOINING:
    case MR_ELECTION_REGISTERING:
    case MR_ELECTION_CAMPAIGNING:
    case MR_ELECTION_LEADING:
    case MR_ELECTION_LEAVING:
    case MR_ELECTION_DONE:
        break;
    }
}

static void on_revoked(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    if (in->rc < 0 && in->rc != MR_ENOTFOUND && e->attempts < REVOKE_ATTEMPTS) {
        back_off(e, in->now_ms);
        return;
    }
    if (e->deposed && in->rc >= 0) {
        /* The lease was alive, so the leader key was removed by somebody who believed us dead. */
        if (in->wall_ms >= e->deposed_wall_ms + DEPOSED_FORGET_MS) {
            e->deposed_alive = 0;
        }
        e->deposed_alive++;
        e->deposed_wall_ms = in->wall_ms;
        e->no_force_ms = in->now_ms + e->ttl_ms;
    }
    e->deposed = false;
    e->lease = 0; /* Revoked, gone before, or left to run out. */
    e->lease_gone = false;
    if (e->stopping) {
        e->state = MR_ELECTION_DONE;
        (void)emit(e, out, MR_ELECTION_STOPPED);
    } else {
        enter(e, MR_ELECTION_JOINING, in->now_ms > e->hold_ms ? in->now_ms : e->hold_ms);
    }
}

static int64_t campaign_delay_ms(mr_election *e)
{
    const char *successor = e->leader.record.successor;

    if (!e->leader.known || successor[0] == '\0') {
        return (int64_t)mr_rng_below(&e->rng, CAMPAIGN_SPREAD_MS + 1);
    }
    return strcmp(successor, e->config.instance) == 0 ? 0 : SUCCESSOR_HEAD_START_MS;
}

static void on_seen(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    e->watch_attempts = 0;
    if (in->revision <= e->seen_revision) {
        return;
    }
    e->seen_revision = in->revision;
    if (e->state == MR_ELECTION_LEADING || e->state == MR_ELECTION_RESIGNING) {
        if (!in->leader.known || in->leader.epoch != e->epoch) {
            see_leader(e, &in->leader, in->now_ms, out);
            if (e->state == MR_ELECTION_LEADING) {
                end_term(e, in, out);
            }
        }
        return;
    }
    if (e->state != MR_ELECTION_FOLLOWING) {
        return; /* A request is on its way that will show the key. */
    }
    if (!in->leader.known) {
        int64_t delay = campaign_delay_ms(e);

        nobody_leads(e, in->now_ms, out);
        if (!e->busy) {
            e->retry_ms = in->now_ms + delay;
        }
    } else if (strcmp(in->leader.record.instance, e->config.instance) == 0) {
        e->leader = in->leader; /* A forgotten campaign of ours came through late. */
        enter(e, MR_ELECTION_CLEARING, in->now_ms);
    } else {
        see_leader(e, &in->leader, in->now_ms, out);
    }
}

static void on_watch_lost(mr_election *e, const struct mr_election_event *in)
{
    e->watching = false;
    e->watch_ms = in->now_ms + mr_backoff_ms(e->watch_attempts++, RETRY_BASE_MS, RETRY_MAX_MS, mr_rng_next(&e->rng));
    if (in->rc != MR_ERANGE) {
        return;
    }
    if (e->state == MR_ELECTION_FOLLOWING && !e->busy) {
        enter(e, MR_ELECTION_CAMPAIGNING, e->watch_ms); /* It reads the key, and starts a new watch. */
    } else {
        e->seen_revision = -1; /* Leading: the fence tells what was missed. */
    }
}

/* ---- stopping ---- */

/*
 * Only somebody who is certainly there is named: the key of a process that was killed outlives it by a TTL, and the
 * longer it had run, the better it would look. Waiting for the dead costs the others their head start.
 */
static const struct mr_dispatcher_record *choose_successor(const mr_election *e)
{
    const struct mr_dispatcher_record *best = NULL;

    for (size_t i = 0; i < e->npeers; i++) {
        const struct mr_dispatcher_record *p = &e->peers[i];
        int newer = best != NULL ? strverscmp(p->version, best->version) : 1;

        if (strcmp(p->instance, e->config.instance) != 0 &&
            (newer > 0 || (newer == 0 && p->started_ms < best->started_ms))) {
            best = p;
        }
    }
    return best;
}

static void on_named(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    /* A courtesy: whatever became of it, the key goes next. */
    if (e->state == MR_ELECTION_RESIGNING) {
        e->busy = true;
        emit(e, out, MR_ELECTION_DELETE)->epoch = e->epoch;
    }
}

static void resign(mr_election *e, struct mr_election_actions *out)
{
    const struct mr_dispatcher_record *successor = choose_successor(e);

    e->busy = true;
    if (successor == NULL || e->attempts > 0) {
        emit(e, out, MR_ELECTION_DELETE)->epoch = e->epoch;
        return;
    }
    struct mr_election_action *a = emit(e, out, MR_ELECTION_NAME);

    a->epoch = e->epoch;
    a->lease = e->lease;
    a->record = e->leader.record;
    memcpy(a->record.successor, successor->instance, sizeof a->record.successor);
}

static void on_stop(mr_election *e, const struct mr_election_event *in)
{
    if (e->stopping) {
        return;
    }
    e->stopping = true;
    if (e->state == MR_ELECTION_LEADING) {
        enter(e, MR_ELECTION_RESIGNING, in->now_ms);
        e->fresh = false;
    } else if (e->state != MR_ELECTION_JOINING || !e->busy) {
        /* An answer that is under way finds another state and is ignored; the lease takes its key along. */
        enter(e, MR_ELECTION_LEAVING, in->now_ms);
    }
}

/* ---- ticks ---- */

static void campaign(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    struct mr_election_action *a = emit(e, out, MR_ELECTION_CAMPAIGN);

    a->lease = e->lease;
    memcpy(a->record.instance, e->config.instance, sizeof a->record.instance);
    memcpy(a->record.address, e->config.address, sizeof a->record.address);
    memcpy(a->record.version, e->config.version, sizeof a->record.version);
    memcpy(a->record.socket, e->config.socket, sizeof a->record.socket);
    a->record.since_ms = in->wall_ms;
    a->record.deposed_alive = e->wrong;
    a->record.deposed_ms = e->wrong_wall_ms;
    a->record.ttl_s = (uint32_t)(e->ttl_ms / 1000);
}

static void register_self(mr_election *e, struct mr_election_actions *out)
{
    struct mr_election_action *a = emit(e, out, MR_ELECTION_REGISTER);

    a->lease = e->lease;
    memcpy(a->dispatcher.instance, e->config.instance, sizeof a->dispatcher.instance);
    memcpy(a->dispatcher.address, e->config.address, sizeof a->dispatcher.address);
    memcpy(a->dispatcher.version, e->config.version, sizeof a->dispatcher.version);
    a->dispatcher.started_ms = e->config.started_ms;
    a->dispatcher.deposed_alive = e->deposed_alive;
    a->dispatcher.deposed_ms = e->deposed_wall_ms;
}

/* The request that this state is about. */
static void state_tick(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    if (e->busy || in->now_ms < e->retry_ms) {
        return;
    }
    switch (e->state) {
    case MR_ELECTION_JOINING:
        e->busy = true;
        (void)emit(e, out, MR_ELECTION_GRANT);
        break;
    case MR_ELECTION_REGISTERING:
        e->busy = true;
        register_self(e, out);
        break;
    case MR_ELECTION_CAMPAIGNING:
        e->busy = true;
        campaign(e, in, out);
        break;
    case MR_ELECTION_FOLLOWING:
        if (!e->leader.known) {
            enter(e, MR_ELECTION_CAMPAIGNING, in->now_ms);
            e->busy = true;
            campaign(e, in, out);
        }
        break;
    case MR_ELECTION_CLEARING:
        e->busy = true;
        emit(e, out, MR_ELECTION_DELETE)->epoch = e->leader.epoch;
        break;
    case MR_ELECTION_RESIGNING:
        if (e->fresh) {
            resign(e, out);
            break;
        }
        e->busy = true; /* until it is known who there is */
        if (!e->listing) {
            e->listing = true;
            (void)emit(e, out, MR_ELECTION_LIST);
        }
        break;
    case MR_ELECTION_LEAVING:
        e->busy = true;
        if (e->lease == 0) {
            e->state = MR_ELECTION_DONE;
            (void)emit(e, out, MR_ELECTION_STOPPED);
        } else {
            emit(e, out, MR_ELECTION_REVOKE)->lease = e->lease;
        }
        break;
    case MR_ELECTION_LEADING:
    case MR_ELECTION_DONE:
        break;
    }
}

static bool wants_list(const mr_election *e)
{
    return (e->state == MR_ELECTION_FOLLOWING && e->forcing) || e->state == MR_ELECTION_LEADING;
}

static void on_tick(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    if (e->lease_gone) {
        on_lease_gone(e, in, out);
    }
    state_tick(e, in, out);
    if (e->lease != 0 && !e->renewing && in->now_ms >= e->renew_ms && e->state != MR_ELECTION_LEAVING) {
        e->renewing = true;
        e->renew_ms = in->now_ms + renew_every_ms(e);
        emit(e, out, MR_ELECTION_RENEW)->lease = e->lease;
    }
    if ((e->state == MR_ELECTION_FOLLOWING || e->state == MR_ELECTION_LEADING) && !e->watching &&
        in->now_ms >= e->watch_ms) {
        watch_from(e, e->seen_revision < 0 ? 0 : e->seen_revision + 1, out);
    }
    if (e->state == MR_ELECTION_FOLLOWING && e->leader.known) {
        suspicion_tick(e, in->now_ms, out);
    }
    if (wants_list(e) && !e->listing && in->now_ms >= e->list_ms) {
        e->listing = true;
        e->list_to_force = e->forcing;
        e->list_ms = e->forcing ? in->now_ms : in->now_ms + LIST_EVERY_MS;
        (void)emit(e, out, MR_ELECTION_LIST);
    }
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t mr_election_due(const mr_election *e)
{
    int64_t due = INT64_MAX;
    bool resting = e->state == MR_ELECTION_LEADING || e->state == MR_ELECTION_DONE ||
                   (e->state == MR_ELECTION_FOLLOWING && e->leader.known);

    if (!e->busy && !resting) {
        due = e->retry_ms;
    }
    if (e->lease != 0 && !e->renewing && e->state != MR_ELECTION_LEAVING) {
        due = earlier(due, e->renew_ms);
    }
    if ((e->state == MR_ELECTION_FOLLOWING || e->state == MR_ELECTION_LEADING) && !e->watching) {
        due = earlier(due, e->watch_ms);
    }
    if (e->state == MR_ELECTION_FOLLOWING && e->leader.known && e->suspect && !e->busy) {
        int64_t probe = e->probing ? INT64_MAX : e->probe_ms;
        int64_t ttl = e->reading_ttl ? INT64_MAX : e->ttl_read_ms;
        int64_t next = earlier(probe, ttl);

        due = earlier(due, next > e->no_force_ms ? next : e->no_force_ms);
    }
    if (wants_list(e) && !e->listing) {
        due = earlier(due, e->list_ms);
    }
    return due;
}

static void on_peer(mr_election *e, const struct mr_election_event *in)
{
    bool back = in->kind == MR_ELECTION_PEER_BACK;
    bool away = in->kind == MR_ELECTION_PEER_AWAY;

    if (!e->leader.known || in->epoch != e->leader.epoch || e->state != MR_ELECTION_FOLLOWING) {
        return;
    }
    if (back) {
        forget_suspicion(e);
    } else if (e->suspect) {
        /* It was silent, and now its stream has ended: has it died? */
        e->probe_ms = !away && !e->probing && e->probe_ms == INT64_MAX ? in->now_ms : e->probe_ms;
    } else {
        forget_suspicion(e);
        e->suspect = true;
        e->probe_ms = away ? INT64_MAX : in->now_ms;
        e->ttl_read_ms = away ? in->now_ms : INT64_MAX;
        e->renewed_ms = away ? in->now_ms : INT64_MIN;
    }
}

static void on_step_down(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    if (e->state == MR_ELECTION_LEADING) {
        e->epoch = 0;
        e->hold_ms = in->now_ms + in->hold_off_ms;
        (void)emit(e, out, MR_ELECTION_DEPOSED);
        nobody_leads(e, in->now_ms, out);
        leave(e, in->now_ms); /* The lease takes the leader key along. */
    }
}

/* Answers to the request of a state; those to an earlier state come too late to matter. */
static bool is_state_answer(enum mr_election_event_kind kind)
{
    return kind == MR_ELECTION_GRANTED || kind == MR_ELECTION_REVOKED || kind == MR_ELECTION_REGISTERED ||
           kind == MR_ELECTION_CAMPAIGNED || kind == MR_ELECTION_NAMED || kind == MR_ELECTION_DELETED;
}

void mr_election_step(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out)
{
    hear_of_wrong(e, e->leader.record.deposed_alive, e->leader.record.deposed_ms, in->wall_ms);
    if (is_state_answer(in->kind) && in->serial != e->serial) {
        return;
    }
    switch (in->kind) {
    case MR_ELECTION_TICK:
        break;
    case MR_ELECTION_FENCED:
        if (e->state == MR_ELECTION_LEADING || e->state == MR_ELECTION_RESIGNING) {
            nobody_leads(e, in->now_ms, out);
            end_term(e, in, out);
        }
        break;
    case MR_ELECTION_STEP_DOWN:
        on_step_down(e, in, out);
        break;
    case MR_ELECTION_STOP:
        on_stop(e, in);
        break;
    case MR_ELECTION_PEER_BACK:
    case MR_ELECTION_PEER_LOST:
    case MR_ELECTION_PEER_AWAY:
        on_peer(e, in);
        break;
    case MR_ELECTION_PROBED:
        on_probed(e, in);
        break;
    case MR_ELECTION_GRANTED:
        on_granted(e, in);
        break;
    case MR_ELECTION_RENEWED:
        on_renewed(e, in);
        break;
    case MR_ELECTION_REVOKED:
        on_revoked(e, in, out);
        break;
    case MR_ELECTION_REGISTERED:
        on_registered(e, in);
        break;
    case MR_ELECTION_CAMPAIGNED:
        on_campaigned(e, in, out);
        break;
    case MR_ELECTION_NAMED:
        on_named(e, in, out);
        break;
    case MR_ELECTION_DELETED:
        on_deleted(e, in, out);
        break;
    case MR_ELECTION_TTL:
        on_ttl(e, in);
        break;
    case MR_ELECTION_LISTED:
        on_listed(e, in, out);
        break;
    case MR_ELECTION_SEEN:
        on_seen(e, in, out);
        break;
    case MR_ELECTION_WATCH_LOST:
        on_watch_lost(e, in);
        break;
    }
    on_tick(e, in, out);
}
