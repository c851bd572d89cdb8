/*
 * When a leader may be removed by others, and when not.
 *
 *  - Its stream has ended, or is silent: connect to it. Refused twice in a row, the process is
 *    gone: that is evidence.
 *  - It accepts, or nothing is heard: ask for the remaining time of its lease, again and again. Not
 *    renewed for SILENT_MS is evidence.
 *  - This process holds the socket that the leader listened on, having been restarted: evidence
 *    that does not age.
 *
 * With evidence, an own read that etcd answers in time (else the fault may be ours), and a term
 * that is old enough, the key is deleted. A wrong guess costs a term, so each one makes every term
 * be left alone for twice as long (min_tenure_ms()).
 */
#include "coord/election_internal.h"

#define PROBE_GAP_MS 50
#define PROBE_GAP_MS_MAX 1000
/* a member that etcd answers slower than this has no business deposing anybody */
#define LIST_ANSWER_MS_MAX 1000
#define TTL_EVERY_MS 500
#define SILENT_MS 3000 /* without a renewal of the leader's lease */
#define MIN_TENURE_MS 1000

void mr_election_forget_suspicion(mr_election *e)
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

/* Somebody was deposed alive so often. Leaders carry it on: who has said so may be gone by now. */
void mr_election_hear_of_wrong(mr_election *e, uint32_t times, uint64_t when_ms, uint64_t wall_ms)
{
    if (wall_ms >= e->wrong_wall_ms + MR_DEPOSED_FORGET_MS) {
        e->wrong = 0;
    }
    if (times > e->wrong && wall_ms < when_ms + MR_DEPOSED_FORGET_MS) {
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
    int64_t tenure = MIN_TENURE_MS << MR_MIN(wrong, 10);

    return MR_MIN(tenure, e->ttl_ms);
}

static void probe_again(mr_election *e, int64_t at_ms)
{
    e->refusals = 0;
    e->forcing = false;
    e->probe_ms = at_ms;
}

void mr_election_look_again(mr_election *e, int64_t now_ms)
{
    probe_again(e, now_ms + PROBE_GAP_MS);
}

/* A leader whose record cannot be read has no address. */
static bool may_probe(const struct mr_election *e)
{
    return !e->probing && e->leader.record.address[0] != '\0';
}

/* There is evidence; the answer of an own read, in time, is the last condition but min_tenure. */
static void start_forcing(mr_election *e)
{
    e->forcing = true;
    e->list_to_force = false;
    e->list_ms = 0;
}

void mr_election_compare_sockets(mr_election *e)
{
    if (e->config.socket[0] != '\0' && strcmp(e->leader.record.socket, e->config.socket) == 0) {
        e->certain = true;
        start_forcing(e);
    }
}

static void force_or_wait(mr_election *e, const struct mr_election_event *in,
                          struct mr_election_actions *out)
{
    int64_t tenure = min_tenure_ms(e);

    if (in->now_ms < e->leader_since_ms + tenure) {
        probe_again(e, e->leader_since_ms + tenure);
        e->suspect = true;
        return;
    }
    e->busy = true;
    e->forcing = false;
    mr_election_emit(e, out, MR_ELECTION_DELETE)->epoch = e->leader.epoch;
}

void mr_election_suspicion_tick(mr_election *e, int64_t now_ms, struct mr_election_actions *out)
{
    if (!e->suspect || now_ms < e->no_force_ms || e->busy) {
        return;
    }
    if (may_probe(e) && now_ms >= e->probe_ms) {
        e->probing = true;
        e->probe_ms = INT64_MAX;
        struct mr_election_action *a = mr_election_emit(e, out, MR_ELECTION_PROBE);

        a->record = e->leader.record;
        a->epoch = e->leader.epoch;
    }
    if (!e->reading_ttl && now_ms >= e->ttl_read_ms) {
        e->reading_ttl = true;
        mr_election_emit(e, out, MR_ELECTION_READ_TTL)->lease = e->leader.lease;
    }
}

int64_t mr_election_suspicion_due(const mr_election *e)
{
    int64_t probe = may_probe(e) ? e->probe_ms : INT64_MAX;
    int64_t ttl = e->reading_ttl ? INT64_MAX : e->ttl_read_ms;
    int64_t next = MR_MIN(probe, ttl);

    if (!e->suspect || e->busy) {
        return INT64_MAX;
    }
    return MR_MAX(next, e->no_force_ms);
}

void mr_election_on_peer(mr_election *e, const struct mr_election_event *in,
                         struct mr_election_actions *out)
{
    bool back = in->kind == MR_ELECTION_PEER_BACK;
    bool away = in->kind == MR_ELECTION_PEER_AWAY;

    if (!e->leader.known || in->epoch != e->leader.epoch || e->state != MR_ELECTION_FOLLOWING) {
        return;
    }
    if (back) {
        mr_election_forget_suspicion(e);
    } else if (e->suspect) {
        /* It was silent, and now its stream has ended: has it died? */
        e->probe_ms = !away && !e->probing && e->probe_ms == INT64_MAX ? in->now_ms : e->probe_ms;
    } else {
        mr_election_forget_suspicion(e);
        e->suspect = true;
        e->probe_ms = away ? INT64_MAX : in->now_ms;
        e->ttl_read_ms = away ? in->now_ms : INT64_MAX;
        e->renewed_ms = away ? in->now_ms : INT64_MIN;
    }
}

void mr_election_on_probed(mr_election *e, const struct mr_election_event *in,
                           struct mr_election_actions *out)
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
    /* It accepts, or nothing is heard: no evidence that the process is gone. Watch how its lease
     * does. */
    e->refusals = 0;
    e->renewed_ms = e->renewed_ms == INT64_MIN ? in->now_ms : e->renewed_ms;
    e->ttl_read_ms = e->ttl_read_ms == INT64_MAX ? in->now_ms : e->ttl_read_ms;
    /* A process that is being killed may still have its listening socket for a moment: ask again
     * soon, then more rarely. */
    e->probe_ms = in->now_ms + e->probe_gap_ms;
    e->probe_gap_ms =
        2 * e->probe_gap_ms < PROBE_GAP_MS_MAX ? 2 * e->probe_gap_ms : PROBE_GAP_MS_MAX;
}

void mr_election_on_ttl(mr_election *e, const struct mr_election_event *in,
                        struct mr_election_actions *out)
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

void mr_election_listed_to_force(mr_election *e, const struct mr_election_event *in,
                                 struct mr_election_actions *out)
{
    if (!e->forcing || e->state != MR_ELECTION_FOLLOWING || !e->leader.known) {
        return;
    }
    if (in->rc < 0 || in->now_ms > e->list_ms + LIST_ANSWER_MS_MAX) {
        if (e->certain) {
            e->list_ms = in->now_ms + PROBE_GAP_MS; /* The evidence does not age. */
        } else {
            mr_election_look_again(e, in->now_ms); /* etcd is slow for us: the fault may be ours. */
        }
        return;
    }
    force_or_wait(e, in, out);
}
