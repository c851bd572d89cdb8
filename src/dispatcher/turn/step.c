/* One command: the core decides, its changes go to the member, and its effects are held. */
#include "base/log.h"
#include "dispatcher/turn/internal.h"

#define DEAF_HOLD_MS_MAX 2000

/* The core cannot go on, or its changes cannot be committed: the state is loaded again, here or
 * elsewhere. */
static void give_up(mr_turn *t, const mr_error *why)
{
    mr_log(MR_LOG_ERROR, "the state cannot be kept, giving up this term", "error", "%s",
           why->message, NULL);
    mr_member_step_down(t->member, 0 /* no hold-off */, t->now_ms, t->wall_ms);
}

/* Bulk is small: a command has at most MR_CORE_CHANGES_MAX changes. */
static int add_changes(mr_turn *t, bool alone, uint64_t *batch, mr_error *err)
{
    struct mr_write writes[MR_CORE_CHANGES_MAX];
    size_t n = t->outcome.nchanges;

    *batch = 0;
    if (n == 0) {
        return MR_OK;
    }
    MR_ASSERT(n <= MR_CORE_CHANGES_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct mr_change *c = &t->outcome.changes[i];

        writes[i] = (struct mr_write){.key = c->key, .value = c->value, .size = c->size};
    }
    return mr_member_add(t->member, writes, n, alone, batch, err);
}

void mr_turn_was_deaf(mr_turn *t, int64_t late_ms)
{
    int64_t hold_ms =
        2 * t->opts.heartbeat_ms < DEAF_HOLD_MS_MAX ? 2 * t->opts.heartbeat_ms : DEAF_HOLD_MS_MAX;

    t->late_ms += late_ms;
    if (t->timer_ran) { /* Once: a loop that is always late still has to do what is due. */
        t->timer_from_ms = t->now_ms + hold_ms;
        t->timer_ran = false;
    }
}

bool mr_turn_is_stalled(const mr_turn *t)
{
    return mr_member_stalled_ms(t->member, t->now_ms) > MR_STALLED_MS;
}

bool mr_turn_is_behind(const mr_turn *t)
{
    return mr_member_backlog(t->member) > MR_COMMIT_BACKLOG_BYTES_MAX - MR_TXN_BYTES_MAX;
}

void mr_turn_watch_stall(mr_turn *t)
{
    if (!mr_turn_is_stalled(t)) {
        if (t->refusing_since_ms != 0) {
            mr_turn_was_deaf(t, t->now_ms - t->refusing_since_ms);
        }
        t->refusing_since_ms = 0;
    } else if (t->refusing_since_ms == 0) {
        t->refusing_since_ms = t->now_ms;
    }
}

static void note_tally(mr_turn *t, const struct mr_tally *tally)
{
    struct mr_tally *all = &t->tally;

    all->assigned += tally->assigned;
    all->returned += tally->returned;
    all->given_back += tally->given_back;
    all->lost += tally->lost;
    all->worked_ns += tally->worked_ns;
    all->waited_ns += tally->waited_ns;
}

/* One command. @call (may be NULL) is answered through its effects; after a failure it still is the
 * caller's. */
static int step(mr_turn *t, struct mr_command *in, struct mr_call *call, mr_error *err)
{
    bool alone = t->now_ms < t->single_until_ms;
    uint64_t batch = 0;
    int rc;

    mr_turn_watch_stall(t);
    in->now_ms = t->now_ms;
    in->wall_ms = (int64_t)t->wall_ms;
    in->late_ms = t->late_ms;
    in->full = mr_member_full(t->member);
    in->grant_ms = mr_budget_stretch_ms(&t->budget);
    t->late_ms = 0;
    in->token = ++t->tokens;
    in->host = call != NULL ? call->host : NULL;
    in->owner = call != NULL ? call->owner : NULL;
    in->quota = call != NULL ? &call->quota : NULL;
    rc = mr_core_step(t->core, in, &t->outcome, err);
    if (rc >= 0) {
        rc = add_changes(t, alone, &batch, err);
    }
    if (rc >= 0) {
        note_tally(t, &t->outcome.tally);
        rc = mr_turn_hold(t, call, batch, alone, err);
    }
    mr_outcome_clear(&t->outcome);
    return rc;
}

void mr_turn_run(mr_turn *t, struct mr_command *in, struct mr_call *call)
{
    mr_error err;
    mr_error told;

    if (step(t, in, call, &err) >= 0) {
        return;
    }
    (void)mr_error_set_traits(&told, MR_EUNAVAIL, MR_RETRYABLE | MR_MAYBE_APPLIED, "%.200s",
                              err.message);
    bool held = false;

    for (struct mr_held_effect *h = t->held; h != NULL; h = h->next) {
        held = held || (call != NULL && h->call == call);
    }
    if (call != NULL && !held) {
        mr_turn_answer(t, call, NULL, &told);
    }
    give_up(t, &err);
}

void mr_turn_timer(mr_turn *t)
{
    struct mr_command in = {.kind = MR_COMMAND_TIMER};

    if (!t->serving) {
        return;
    }
    mr_turn_watch_stall(t);
    if (mr_turn_timer_due(t) <= t->now_ms) {
        t->timer_ran = true;
        mr_turn_run(t, &in, NULL);
    }
}

int64_t mr_turn_timer_due(const mr_turn *t)
{
    int64_t due;

    if (!t->serving || mr_turn_is_stalled(t) || mr_turn_is_behind(t)) {
        return INT64_MAX; /* Nothing new is decided; etcd's answer will be a turn. */
    }
    due = mr_core_next_timer(t->core);
    return MR_MAX(due, t->timer_from_ms);
}
