/* The road in, and what a member does while it is in: lease, own key, campaign, following or
 * leading. The request of a state is sent by its tick and answered by its event; an answer that is
 * not the state's any more is ignored. */
#include "coord/election_internal.h"

#include "base/clock.h"

#define RETRY_BASE_MS 50
#define RETRY_MAX_MS 2000
#define RENEW_MS_MAX 1000      /* others judge a leader by its renewals, so they come often */
#define CAMPAIGN_SPREAD_MS 200 /* after a leader vanished, so that not all replicas rush */
#define SUCCESSOR_HEAD_START_MS 300
#define LIST_EVERY_MS 2000

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

struct mr_election_action *mr_election_emit(mr_election *e, struct mr_election_actions *out,
                                            enum mr_election_action_kind kind)
{
    MR_ASSERT(out->n < MR_ELECTION_ACTIONS_MAX);
    struct mr_election_action *a = &out->list[out->n++];

    memset(a, 0, sizeof *a);
    a->kind = kind;
    a->serial = e->serial;
    return a;
}

void mr_election_enter(mr_election *e, enum mr_election_state state, int64_t at_ms)
{
    e->state = state;
    e->serial++;
    e->busy = false;
    e->attempts = 0;
    e->retry_ms = at_ms;
}

void mr_election_back_off(mr_election *e, int64_t now_ms)
{
    e->busy = false;
    e->retry_ms =
        now_ms + mr_backoff_ms(e->attempts++, RETRY_BASE_MS, RETRY_MAX_MS, mr_rng_next(&e->rng));
}

static int64_t renew_every_ms(const mr_election *e)
{
    return MR_MIN(e->ttl_ms / 8, RENEW_MS_MAX);
}

static void see_leader(mr_election *e, const struct mr_leader_view *leader, int64_t now_ms,
                       struct mr_election_actions *out)
{
    bool other_term = e->leader.known != leader->known || e->leader.epoch != leader->epoch;

    e->leader = *leader;
    if (other_term) {
        e->leader_since_ms = now_ms;
        mr_election_forget_suspicion(e);
        (void)mr_election_emit(e, out, MR_ELECTION_LEADER);
    }
}

void mr_election_nobody_leads(mr_election *e, int64_t now_ms, struct mr_election_actions *out)
{
    struct mr_leader_view nobody = {0};

    see_leader(e, &nobody, now_ms, out);
}

static void watch_from(mr_election *e, int64_t revision, struct mr_election_actions *out)
{
    e->watching = true;
    mr_election_emit(e, out, MR_ELECTION_WATCH)->revision = revision;
}

/* ---- answers ---- */

static void on_granted(mr_election *e, const struct mr_election_event *in,
                       struct mr_election_actions *out)
{
    if (in->rc < 0) {
        mr_election_back_off(e, in->now_ms);
        return;
    }
    e->lease = in->lease;
    e->ttl_ms = in->ttl_s * 1000;
    e->renew_ms = in->now_ms + renew_every_ms(e);
    mr_election_enter(e, e->stopping ? MR_ELECTION_LEAVING : MR_ELECTION_REGISTERING, in->now_ms);
}

static void on_renewed(mr_election *e, const struct mr_election_event *in,
                       struct mr_election_actions *out)
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

static void on_registered(mr_election *e, const struct mr_election_event *in,
                          struct mr_election_actions *out)
{
    if (in->rc == MR_ENOTFOUND) {
        mr_election_lose_lease(e, in->now_ms);
    } else if (in->rc < 0) {
        mr_election_back_off(e, in->now_ms);
    } else {
        mr_election_enter(e, MR_ELECTION_CAMPAIGNING, in->now_ms);
    }
}

static void follow(mr_election *e, const struct mr_election_event *in,
                   struct mr_election_actions *out)
{
    mr_election_enter(e, MR_ELECTION_FOLLOWING, in->now_ms);
    e->seen_revision = in->revision;
    see_leader(e, &in->leader, in->now_ms, out);
    watch_from(e, in->revision + 1, out);
    mr_election_compare_sockets(e);
}

static void on_campaigned(mr_election *e, const struct mr_election_event *in,
                          struct mr_election_actions *out)
{
    if (in->rc == MR_ENOTFOUND) {
        mr_election_lose_lease(e, in->now_ms);
    } else if (in->rc < 0) {
        mr_election_back_off(
            e, in->now_ms); /* Perhaps applied: the next attempt finds our key, and clears it. */
    } else if (in->succeeded) {
        mr_election_enter(e, MR_ELECTION_LEADING, in->now_ms);
        e->epoch = in->revision;
        e->seen_revision = in->revision;
        e->list_ms = in->now_ms; /* Who is there? Callers are told. */
        see_leader(e, &in->leader, in->now_ms, out);
        watch_from(e, in->revision + 1, out);
        mr_election_emit(e, out, MR_ELECTION_ELECTED)->epoch = e->epoch;
    } else if (!in->leader.known) {
        mr_election_back_off(e, in->now_ms);
    } else if (strcmp(in->leader.record.instance, e->config.instance) == 0) {
        e->leader = in->leader;
        mr_election_enter(e, MR_ELECTION_CLEARING, in->now_ms);
    } else {
        follow(e, in, out);
    }
}

/* CLEARING, FOLLOWING (forced) and RESIGNING all delete the leader key, under its create
 * revision. */
static void on_deleted(mr_election *e, const struct mr_election_event *in,
                       struct mr_election_actions *out)
{
    switch (e->state) {
    case MR_ELECTION_CLEARING:
        if (in->rc < 0) {
            mr_election_back_off(e, in->now_ms);
        } else {
            mr_election_nobody_leads(e, in->now_ms, out);
            mr_election_enter(e, MR_ELECTION_CAMPAIGNING, in->now_ms);
        }
        break;
    case MR_ELECTION_FOLLOWING:
        e->busy = false;
        if (in->rc < 0 && e->suspect) {
            mr_election_look_again(
                e, in->now_ms); /* Unknown: the evidence is looked at before any retry. */
        } else {
            mr_election_enter(e, MR_ELECTION_CAMPAIGNING, in->now_ms);
        }
        break;
    case MR_ELECTION_RESIGNING: mr_election_on_resigned(e, in, out); break;
    case MR_ELECTION_JOINING:
    case MR_ELECTION_REGISTERING:
    case MR_ELECTION_CAMPAIGNING:
    case MR_ELECTION_LEADING:
    case MR_ELECTION_LEAVING:
    case MR_ELECTION_DONE: break;
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

static void on_seen(mr_election *e, const struct mr_election_event *in,
                    struct mr_election_actions *out)
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
                mr_election_end_term(e, in, out);
            }
        }
        return;
    }
    if (e->state != MR_ELECTION_FOLLOWING) {
        return; /* A request is on its way that will show the key. */
    }
    if (!in->leader.known) {
        int64_t delay = campaign_delay_ms(e);

        mr_election_nobody_leads(e, in->now_ms, out);
        if (!e->busy) {
            e->retry_ms = in->now_ms + delay;
        }
    } else if (strcmp(in->leader.record.instance, e->config.instance) == 0) {
        e->leader = in->leader; /* A forgotten campaign of ours came through late. */
        mr_election_enter(e, MR_ELECTION_CLEARING, in->now_ms);
    } else {
        see_leader(e, &in->leader, in->now_ms, out);
    }
}

static void on_watch_lost(mr_election *e, const struct mr_election_event *in,
                          struct mr_election_actions *out)
{
    e->watching = false;
    e->watch_ms = in->now_ms + mr_backoff_ms(e->watch_attempts++, RETRY_BASE_MS, RETRY_MAX_MS,
                                             mr_rng_next(&e->rng));
    if (in->rc != MR_ERANGE) {
        return;
    }
    if (e->state == MR_ELECTION_FOLLOWING && !e->busy) {
        mr_election_enter(e, MR_ELECTION_CAMPAIGNING,
                          e->watch_ms); /* It reads the key, and starts a new watch. */
    } else {
        e->seen_revision = -1; /* Leading: the fence tells what was missed. */
    }
}

/* ---- ticks ---- */

static void campaign(mr_election *e, const struct mr_election_event *in,
                     struct mr_election_actions *out)
{
    struct mr_election_action *a = mr_election_emit(e, out, MR_ELECTION_CAMPAIGN);

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
    struct mr_election_action *a = mr_election_emit(e, out, MR_ELECTION_REGISTER);

    a->lease = e->lease;
    memcpy(a->dispatcher.instance, e->config.instance, sizeof a->dispatcher.instance);
    memcpy(a->dispatcher.address, e->config.address, sizeof a->dispatcher.address);
    memcpy(a->dispatcher.version, e->config.version, sizeof a->dispatcher.version);
    a->dispatcher.started_ms = e->config.started_ms;
    a->dispatcher.deposed_alive = e->deposed_alive;
    a->dispatcher.deposed_ms = e->deposed_wall_ms;
}

/* The request that this state is about. */
static void state_tick(mr_election *e, const struct mr_election_event *in,
                       struct mr_election_actions *out)
{
    if (e->busy || in->now_ms < e->retry_ms) {
        return;
    }
    switch (e->state) {
    case MR_ELECTION_JOINING:
        e->busy = true;
        (void)mr_election_emit(e, out, MR_ELECTION_GRANT);
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
            mr_election_enter(e, MR_ELECTION_CAMPAIGNING, in->now_ms);
            e->busy = true;
            campaign(e, in, out);
        }
        break;
    case MR_ELECTION_CLEARING:
        e->busy = true;
        mr_election_emit(e, out, MR_ELECTION_DELETE)->epoch = e->leader.epoch;
        break;
    case MR_ELECTION_RESIGNING:
        if (e->fresh) {
            mr_election_resign(e, out);
            break;
        }
        e->busy = true; /* until it is known who there is */
        if (!e->listing) {
            e->listing = true;
            (void)mr_election_emit(e, out, MR_ELECTION_LIST);
        }
        break;
    case MR_ELECTION_LEAVING:
        e->busy = true;
        if (e->lease == 0) {
            e->state = MR_ELECTION_DONE;
            (void)mr_election_emit(e, out, MR_ELECTION_STOPPED);
        } else {
            mr_election_emit(e, out, MR_ELECTION_REVOKE)->lease = e->lease;
        }
        break;
    case MR_ELECTION_LEADING:
    case MR_ELECTION_DONE: break;
    }
}

static bool wants_list(const mr_election *e)
{
    return (e->state == MR_ELECTION_FOLLOWING && e->forcing) || e->state == MR_ELECTION_LEADING;
}

static void on_tick(mr_election *e, const struct mr_election_event *in,
                    struct mr_election_actions *out)
{
    if (e->lease_gone) {
        mr_election_on_lease_gone(e, in, out);
    }
    state_tick(e, in, out);
    if (e->lease != 0 && !e->renewing && in->now_ms >= e->renew_ms &&
        e->state != MR_ELECTION_LEAVING) {
        e->renewing = true;
        e->renew_ms = in->now_ms + renew_every_ms(e);
        mr_election_emit(e, out, MR_ELECTION_RENEW)->lease = e->lease;
    }
    if ((e->state == MR_ELECTION_FOLLOWING || e->state == MR_ELECTION_LEADING) && !e->watching &&
        in->now_ms >= e->watch_ms) {
        watch_from(e, e->seen_revision < 0 ? 0 : e->seen_revision + 1, out);
    }
    if (e->state == MR_ELECTION_FOLLOWING && e->leader.known) {
        mr_election_suspicion_tick(e, in->now_ms, out);
    }
    if (wants_list(e) && !e->listing && in->now_ms >= e->list_ms) {
        e->listing = true;
        e->list_to_force = e->forcing;
        e->list_ms = e->forcing ? in->now_ms : in->now_ms + LIST_EVERY_MS;
        (void)mr_election_emit(e, out, MR_ELECTION_LIST);
    }
}

/* Who is there: to hand over to, and whether etcd answers in time to somebody who wants to
 * force. */
static void on_listed(mr_election *e, const struct mr_election_event *in,
                      struct mr_election_actions *out)
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
            mr_election_hear_of_wrong(e, in->dispatchers[i].deposed_alive,
                                      in->dispatchers[i].deposed_ms, in->wall_ms);
        }
    }
    if (to_force) {
        mr_election_listed_to_force(e, in, out);
    }
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
        due = MR_MIN(due, e->renew_ms);
    }
    if ((e->state == MR_ELECTION_FOLLOWING || e->state == MR_ELECTION_LEADING) && !e->watching) {
        due = MR_MIN(due, e->watch_ms);
    }
    if (e->state == MR_ELECTION_FOLLOWING && e->leader.known) {
        due = MR_MIN(due, mr_election_suspicion_due(e));
    }
    if (wants_list(e) && !e->listing) {
        due = MR_MIN(due, e->list_ms);
    }
    return due;
}

static const struct {
    mr_election_handler *handle;
    /* to the request of a state: those to an earlier state come too late to matter */
    bool answers_state;
} events[] = {
    [MR_ELECTION_TICK] = {NULL, false}, /* as after every event */
    [MR_ELECTION_FENCED] = {mr_election_on_fenced, false},
    [MR_ELECTION_STEP_DOWN] = {mr_election_on_step_down, false},
    [MR_ELECTION_STOP] = {mr_election_on_stop, false},
    [MR_ELECTION_PEER_BACK] = {mr_election_on_peer, false},
    [MR_ELECTION_PEER_LOST] = {mr_election_on_peer, false},
    [MR_ELECTION_PEER_AWAY] = {mr_election_on_peer, false},
    [MR_ELECTION_PROBED] = {mr_election_on_probed, false},
    [MR_ELECTION_GRANTED] = {on_granted, true},
    [MR_ELECTION_RENEWED] = {on_renewed, false},
    [MR_ELECTION_REVOKED] = {mr_election_on_revoked, true},
    [MR_ELECTION_REGISTERED] = {on_registered, true},
    [MR_ELECTION_CAMPAIGNED] = {on_campaigned, true},
    [MR_ELECTION_NAMED] = {mr_election_on_named, true},
    [MR_ELECTION_DELETED] = {on_deleted, true},
    [MR_ELECTION_TTL] = {mr_election_on_ttl, false},
    [MR_ELECTION_LISTED] = {on_listed, false},
    [MR_ELECTION_SEEN] = {on_seen, false},
    [MR_ELECTION_WATCH_LOST] = {on_watch_lost, false},
};

void mr_election_step(mr_election *e, const struct mr_election_event *in,
                      struct mr_election_actions *out)
{
    mr_election_hear_of_wrong(e, e->leader.record.deposed_alive, e->leader.record.deposed_ms,
                              in->wall_ms);
    MR_ASSERT(in->kind < sizeof events / sizeof events[0]);
    if (events[in->kind].answers_state && in->serial != e->serial) {
        return;
    }
    if (events[in->kind].handle != NULL) {
        events[in->kind].handle(e, in, out);
    }
    on_tick(e, in, out);
}
