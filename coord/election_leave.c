/*
 * The ways out. A term ends because it is handed over (stopping), given up (step down), or lost:
 * the fence failed, the key is another's, the lease is gone. All of them give the lease back, which
 * takes along whatever hangs on it, and then begin again with another one, or are done.
 *
 * Handing over: who is there? The best of them is named in the leader key, so that the others let
 * it go first; then the key is deleted, then the lease revoked. Each step is a courtesy to those
 * who stay: none of them has to succeed.
 */
#include "coord/election_internal.h"

#define REVOKE_ATTEMPTS 3

/* Give the lease back and start again with another one (or not at all, when stopping). */
static void leave(mr_election *e, int64_t at_ms)
{
    mr_election_enter(e, e->lease != 0 || e->stopping ? MR_ELECTION_LEAVING : MR_ELECTION_JOINING,
                      at_ms);
}

void mr_election_lose_lease(mr_election *e, int64_t now_ms)
{
    e->lease = 0;
    e->lease_gone = false;
    leave(e, now_ms);
}

void mr_election_end_term(mr_election *e, const struct mr_election_event *in,
                          struct mr_election_actions *out)
{
    e->epoch = 0;
    e->deposed = true;
    (void)mr_election_emit(e, out, MR_ELECTION_DEPOSED);
    leave(e, in->now_ms);
}

void mr_election_on_lease_gone(mr_election *e, const struct mr_election_event *in,
                               struct mr_election_actions *out)
{
    if (e->state == MR_ELECTION_LEADING || e->state == MR_ELECTION_RESIGNING) {
        mr_election_nobody_leads(e, in->now_ms, out);
        e->epoch = 0;
        (void)mr_election_emit(e, out, MR_ELECTION_DEPOSED);
        mr_election_lose_lease(e, in->now_ms);
    } else if (e->state != MR_ELECTION_LEAVING && e->state != MR_ELECTION_DONE && !e->busy) {
        mr_election_lose_lease(e, in->now_ms); /* While a request is out, its answer comes first. */
    }
}

void mr_election_on_step_down(mr_election *e, const struct mr_election_event *in,
                              struct mr_election_actions *out)
{
    if (e->state == MR_ELECTION_LEADING) {
        e->epoch = 0;
        e->hold_ms = in->now_ms + in->hold_off_ms;
        (void)mr_election_emit(e, out, MR_ELECTION_DEPOSED);
        mr_election_nobody_leads(e, in->now_ms, out);
        leave(e, in->now_ms); /* The lease takes the leader key along. */
    }
}

void mr_election_on_fenced(mr_election *e, const struct mr_election_event *in,
                           struct mr_election_actions *out)
{
    if (e->state == MR_ELECTION_LEADING || e->state == MR_ELECTION_RESIGNING) {
        mr_election_nobody_leads(e, in->now_ms, out);
        mr_election_end_term(e, in, out);
    }
}

/* Only somebody who is certainly there is named: the key of a process that was killed outlives it
 * by a TTL, and the longer it had run, the better it would look. Waiting for the dead costs the
 * others their head start. */
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

void mr_election_on_named(mr_election *e, const struct mr_election_event *in,
                          struct mr_election_actions *out)
{
    /* A courtesy: whatever became of it, the key goes next. */
    if (e->state == MR_ELECTION_RESIGNING) {
        e->busy = true;
        mr_election_emit(e, out, MR_ELECTION_DELETE)->epoch = e->epoch;
    }
}

void mr_election_resign(mr_election *e, struct mr_election_actions *out)
{
    const struct mr_dispatcher_record *successor = choose_successor(e);

    e->busy = true;
    if (successor == NULL || e->attempts > 0) {
        mr_election_emit(e, out, MR_ELECTION_DELETE)->epoch = e->epoch;
        return;
    }
    struct mr_election_action *a = mr_election_emit(e, out, MR_ELECTION_NAME);

    a->epoch = e->epoch;
    a->lease = e->lease;
    a->record = e->leader.record;
    memcpy(a->record.successor, successor->instance, sizeof a->record.successor);
}

void mr_election_on_stop(mr_election *e, const struct mr_election_event *in,
                         struct mr_election_actions *out)
{
    if (e->stopping) {
        return;
    }
    e->stopping = true;
    if (e->state == MR_ELECTION_LEADING) {
        mr_election_enter(e, MR_ELECTION_RESIGNING, in->now_ms);
        e->fresh = false;
    } else if (e->state != MR_ELECTION_JOINING || !e->busy) {
        /* An answer that is under way finds another state and is ignored; the lease takes its key
         * along. */
        mr_election_enter(e, MR_ELECTION_LEAVING, in->now_ms);
    }
}

void mr_election_on_resigned(mr_election *e, const struct mr_election_event *in,
                             struct mr_election_actions *out)
{
    if (in->rc < 0) {
        mr_election_back_off(e, in->now_ms);
        return;
    }
    e->epoch = 0;
    e->deposed = false;
    mr_election_nobody_leads(e, in->now_ms, out);
    (void)mr_election_emit(e, out, MR_ELECTION_DEPOSED);
    leave(e, in->now_ms);
}

void mr_election_on_revoked(mr_election *e, const struct mr_election_event *in,
                            struct mr_election_actions *out)
{
    if (in->rc < 0 && in->rc != MR_ENOTFOUND && e->attempts < REVOKE_ATTEMPTS) {
        mr_election_back_off(e, in->now_ms);
        return;
    }
    if (e->deposed && in->rc >= 0) {
        /* The lease was alive, so the leader key was removed by somebody who believed us dead. */
        if (in->wall_ms >= e->deposed_wall_ms + MR_DEPOSED_FORGET_MS) {
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
        (void)mr_election_emit(e, out, MR_ELECTION_STOPPED);
    } else {
        mr_election_enter(e, MR_ELECTION_JOINING, MR_MAX(in->now_ms, e->hold_ms));
    }
}
