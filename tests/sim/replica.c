/*
 * A dispatcher replica: its terms, takeover and group commit, around the real core. Effects are
 * held until the batch with the changes they rest on is committed; one batch is in flight and the
 * next gathers; what happened to a batch is settled by sending the same one again. loop.c brings
 * messages and time into the core.
 */
#include "sim.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <millrace/base.h>
#include <string.h>

#define RESEND_MS 500

/* What the core says of itself shows which rare branches were taken. */
static void trace(void *ctx, const char *line)
{
    static const struct {
        const char *about, *text;
        enum sim_rare rare;
    } signs[] = {
        {"worker", ": lost", SIM_RARE_WORKER_LOST},
        {"worker", ": superseded", SIM_RARE_SUPERSEDED},
        {"client", ": lost to", SIM_RARE_CLIENT_LOST},
        {"", "one more grace", SIM_RARE_BRAKE},
        {"task", "no client reaches", SIM_RARE_UNREACHABLE},
        {"task", "opened, a recovery task", SIM_RARE_RECOVERY},
        {"task", "a recovery task for suspects", SIM_RARE_SUSPECT},
    };

    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (strncmp(line, signs[i].about, strlen(signs[i].about)) == 0 &&
            strstr(line, signs[i].text) != NULL) {
            sim_rare(ctx, signs[i].rare);
            if (signs[i].rare == SIM_RARE_WORKER_LOST || signs[i].rare == SIM_RARE_CLIENT_LOST) {
                sim_moment(ctx, SIM_MOMENT_GIVEN_UP, NULL, NULL);
            }
        }
    }
    if (strncmp(line, "task ", 5) == 0 && strstr(line, ": lost") != NULL && sim_is_recovery(line)) {
        sim_rare(ctx, SIM_RARE_RECOVERY_LOST);
    }
    sim_say(ctx, "%s", line);
}

/* ---------------------------------------------------------------- terms */

static void drop_messages(struct sim_message **list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mr_free(list[i]);
    }
}

static void drop_state(struct sim_replica *replica)
{
    mr_core_free(replica->core);
    replica->core = NULL;
    for (size_t i = 0; i < replica->ngathering; i++) {
        mr_free(replica->gathering[i].key);
        mr_free(replica->gathering[i].value);
    }
    mr_free(replica->gathering);
    replica->gathering = NULL;
    replica->ngathering = replica->cap_gathering = 0;
    drop_messages(replica->held, replica->nheld);
    drop_messages(replica->flying, replica->nflying);
    mr_free(replica->held);
    mr_free(replica->flying);
    replica->held = replica->flying = NULL;
    replica->nheld = replica->cap_held = replica->nflying = 0;
    replica->flight = NULL;
    replica->nstreams = 0;
}

void sim_replica_drop(struct sim *sim, struct sim_replica *replica)
{
    (void)sim;
    drop_state(replica);
    drop_messages(replica->mailbox, replica->nmailbox);
    mr_free(replica->mailbox);
    replica->mailbox = NULL;
    replica->nmailbox = replica->cap_mailbox = 0;
    replica->role = SIM_STANDBY;
}

static void step_down(struct sim *sim, struct sim_replica *replica, const char *why)
{
    sim_say(sim, "dispatcher %d: steps down, %s", replica->number, why);
    drop_state(replica);
    replica->role = SIM_STANDBY;
}

void sim_replica_deposed(struct sim *sim, struct sim_replica *replica)
{
    step_down(sim, replica, "another term began");
}

/* Another one may do better; what was decided and not committed is forgotten. */
void sim_replica_resign(struct sim *sim, struct sim_replica *replica)
{
    sim_rare(sim, SIM_RARE_RESIGNED);
    replica->resigned_at = sim->now;
    if (sim->store.leader_create == replica->epoch && sim_store_reaches(sim, replica)) {
        sim->store.lease_until = sim->now;
    }
    step_down(sim, replica, "it lost many workers");
    replica->next_tick += SIM_LEASE_MS; /* not itself again */
}

/* @epoch is the replica's, unless a bug is put in that loads more than once in a term. */
mr_core *sim_replica_load(struct sim *sim, struct sim_replica *replica, uint64_t epoch)
{
    struct mr_core_config config = {
        .epoch = epoch,
        .loads = replica->loads,
        .worker_timeout_ms = SIM_WORKER_TIMEOUT_MS,
        .client_timeout_ms = SIM_CLIENT_TIMEOUT_MS,
        .job_gc_timeout_ms = sim->job_gc_ms,
        .takeover_grace_ms = SIM_WORKER_TIMEOUT_MS + SIM_LEASE_MS,
        .heartbeat_ms = SIM_HEARTBEAT_MS,
        .gc_dynamic = sim->gc_dynamic,
        .may_resign = replica->resigned_at == 0 ||
                      sim->now - replica->resigned_at > 10 * SIM_WORKER_TIMEOUT_MS,
        .trace = trace,
        .trace_ctx = sim,
    };
    mr_core *core = mr_core_new(&config);
    mr_error err = {0};
    int rc = MR_OK;

    MR_ASSERT(core != NULL);
    for (size_t i = 0; i < sim->store.count && rc == MR_OK; i++) {
        const struct sim_kv *kv = &sim->store.kvs[i];

        if (strncmp(kv->key, "meta/", 5) == 0) {
            continue;
        }
        rc = strncmp(kv->key, "blobs/", 6) == 0
                 ? mr_core_load_blob(core, kv->key, &err)
                 : mr_core_load(core, kv->key, kv->value, strlen(kv->value), &err);
    }
    if (rc == MR_OK) {
        rc = mr_core_ready(core, sim->now + replica->clock_origin, &err);
    }
    if (rc == MR_EUNAVAIL && sim->store.leader_create != replica->epoch) {
        mr_core_free(core); /* it slept while it loaded, and has seen what its successor wrote */
        return NULL;
    }
    if (rc < 0) {
        sim_violation(sim, "takeover at epoch %lld: %s", (long long)replica->epoch, err.message);
        mr_core_free(core);
        return NULL;
    }
    return core;
}

static void load(struct sim *sim, void *arg)
{
    struct sim_replica *replica = arg;
    const struct sim_kv *last = sim_store_get(&sim->store, "meta/batch");

    if (replica->role != SIM_LOADING) {
        return;
    }
    replica->batch_mod = last != NULL ? last->mod : 0;
    replica->core = sim_replica_load(sim, replica, (uint64_t)replica->epoch);
    if (replica->core == NULL) {
        step_down(sim, replica, "it cannot use the state");
        return;
    }
    replica->fenced_at = sim->now - SIM_LEASE_MS; /* nothing of this term is committed yet */
    replica->late_ms = 0;
    replica->memory = ++sim->memories;
    sim_check_term(sim, replica);
    if (replica->core != NULL) {
        replica->role = SIM_LEADING;
        sim->takeovers++;
        sim_moment(sim, SIM_MOMENT_LEADING, NULL, NULL);
        sim_say(sim, "dispatcher %d: leads", replica->number);
    }
}

void sim_replica_elected(struct sim *sim, struct sim_replica *replica, int64_t epoch)
{
    replica->role = SIM_LOADING;
    replica->epoch = epoch;
    replica->batch_number = 0;
    replica->loads = 0;
    sim_after(sim, sim_delay(sim), &replica->process, load, replica, false);
}

/* ---------------------------------------------------------------- batches */

static void resend(struct sim *sim, void *arg);

static void send_flight(struct sim *sim, struct sim_replica *replica)
{
    sim_store_send(sim, replica, replica->flight);
    sim_after(sim, RESEND_MS, &replica->process, resend, replica->flight, false);
}

void sim_replica_commit(struct sim *sim, struct sim_replica *replica)
{
    struct sim_batch *batch = sim_batch_new(sim);

    batch->replica = replica->number;
    batch->epoch = replica->epoch;
    batch->memory = replica->memory;
    batch->batch_mod = replica->batch_mod;
    batch->nonce = mr_rng_next(&sim->rng);
    batch->number = ++replica->batch_number;
    batch->changes = replica->gathering;
    batch->count = replica->ngathering;
    replica->gathering = NULL;
    replica->ngathering = replica->cap_gathering = 0;
    replica->flying = replica->held;
    replica->nflying = replica->nheld;
    replica->held = NULL;
    replica->nheld = replica->cap_held = 0;
    replica->flight = batch;
    replica->flight_sent = sim->now;
    send_flight(sim, replica);
}

void sim_replica_pump(struct sim *sim, struct sim_replica *replica)
{
    if (replica->role == SIM_LEADING && replica->flight == NULL &&
        (replica->ngathering > 0 || replica->nheld > 0)) {
        sim_replica_commit(sim, replica);
    }
}

void sim_replica_gather(struct sim_replica *replica, char *key, char *value)
{
    for (size_t i = 0; i < replica->ngathering; i++) {
        if (strcmp(replica->gathering[i].key, key) == 0) { /* the last write wins */
            mr_free(replica->gathering[i].value);
            mr_free(key);
            replica->gathering[i].value = value;
            return;
        }
    }
    if (replica->ngathering == replica->cap_gathering) {
        replica->cap_gathering = 2 * replica->cap_gathering + 8;
        replica->gathering =
            mr_reallocarray(replica->gathering, replica->cap_gathering, sizeof *replica->gathering);
        MR_ASSERT(replica->gathering != NULL);
    }
    replica->gathering[replica->ngathering++] = (struct sim_change){key, value};
}

/* The wrong way: what a read shows settles a timeout, and the changes go into another batch. */
static void read_settles(struct sim *sim, struct sim_replica *replica)
{
    struct sim_batch *batch = replica->flight;
    const struct sim_kv *last = sim_store_get(&sim->store, "meta/batch");
    struct sim_change *newer = replica->gathering;
    size_t n = replica->ngathering;

    if (last != NULL && last->mod != batch->batch_mod) {
        struct sim_answer answer = {
            .batch = batch, .verdict = SIM_COMMITTED, .batch_mod = last->mod};

        sim_replica_settled(sim, replica, &answer);
        return;
    }
    replica->gathering = NULL;
    replica->ngathering = replica->cap_gathering = 0;
    for (size_t i = 0; i < batch->count; i++) {
        sim_replica_gather(replica, mr_strdup(batch->changes[i].key),
                           batch->changes[i].value != NULL ? mr_strdup(batch->changes[i].value)
                                                           : NULL);
    }
    for (size_t i = 0; i < n; i++) {
        sim_replica_gather(replica, newer[i].key, newer[i].value);
    }
    mr_free(newer);
    for (size_t i = 0; i < replica->nflying; i++) {
        replica->held = mr_reallocarray(replica->held, replica->nheld + 1, sizeof *replica->held);
        replica->held[replica->nheld++] = replica->flying[i];
        replica->cap_held = replica->nheld;
    }
    mr_free(replica->flying);
    replica->flying = NULL;
    replica->nflying = 0;
    replica->flight = NULL;
    sim_replica_commit(sim, replica);
}

static void resend(struct sim *sim, void *arg)
{
    struct sim_batch *batch = arg;
    struct sim_replica *replica = &sim->replicas[batch->replica];

    if (replica->flight != batch) {
        return;
    }
    if (sim->bug == SIM_BUG_READ_SETTLES) {
        read_settles(sim, replica);
    } else {
        send_flight(sim, replica);
    }
}

static void leave(struct sim *sim, struct sim_message **messages, size_t n,
                  const struct sim_batch *aborted)
{
    for (size_t i = 0; i < n; i++) {
        if (aborted != NULL) {
            messages[i]->aborted = true;
            messages[i]->nonce = aborted->nonce;
        }
        if (aborted != NULL && messages[i]->call == 0) {
            mr_free(messages[i]); /* a push: the stream breaks instead */
        } else {
            sim_send(sim, messages[i]);
        }
    }
    mr_free(messages);
}

/* "It was not applied", to all whose calls are in @batch or rest on it. */
static void say_aborted(struct sim *sim, struct sim_replica *replica, const struct sim_batch *batch)
{
    leave(sim, replica->flying, replica->nflying, batch);
    leave(sim, replica->held, replica->nheld, batch);
    replica->flying = replica->held = NULL;
    replica->nflying = replica->nheld = replica->cap_held = 0;
}

/* Definitely not applied: what was decided is forgotten, and the term goes on from what the store
 * has. */
static void refused(struct sim *sim, struct sim_replica *replica, const struct sim_batch *batch)
{
    if (batch->attempts > 1 && sim->bug != SIM_BUG_REFUSAL_SETTLES) {
        sim_rare(sim, SIM_RARE_REFUSED_LATE); /* an earlier attempt may be applied yet */
        return;
    }
    sim_rare(sim, SIM_RARE_REFUSED);
    sim_say(sim, "dispatcher %d: the store refuses a batch", replica->number);
    say_aborted(sim, replica, batch);
    sim_streams_break(sim, replica);
    drop_state(replica);
    replica->role = SIM_LOADING;
    replica->loads++;
    sim_after(sim, sim_delay(sim), &replica->process, load, replica, false);
}

static void committed(struct sim *sim, struct sim_replica *replica, const struct sim_answer *answer)
{
    struct sim_message **leaving = replica->flying;
    size_t n = replica->nflying;

    replica->flight = NULL;
    replica->batch_mod = answer->batch_mod;
    replica->fenced_at = replica->flight_sent;
    replica->flying = NULL;
    replica->nflying = 0;
    leave(sim, leaving, n, NULL);
    if (answer->deposed && sim->bug != SIM_BUG_NO_FENCE) {
        sim_rare(sim, SIM_RARE_DEPOSED_COMMITTED);
        step_down(sim, replica, "it was deposed");
        return;
    }
    sim_replica_pump(sim, replica);
}

void sim_replica_settled(struct sim *sim, struct sim_replica *replica,
                         const struct sim_answer *answer)
{
    enum sim_verdict verdict = answer->verdict;

    if (replica->flight != answer->batch) {
        return;
    }
    if (sim->bug == SIM_BUG_READ_SETTLES && !answer->deposed) {
        verdict = SIM_COMMITTED; /* "the key shows the number of our batch" */
    }
    switch (verdict) {
    case SIM_COMMITTED:
        committed(sim, replica, answer);
        break;
    case SIM_NOT_COMMITTED:
        if (sim->bug == SIM_BUG_NO_NONCE) {
            say_aborted(sim, replica, answer->batch);
        }
        if (answer->deposed) {
            sim_rare(sim, SIM_RARE_DEPOSED_REFUSED);
        }
        step_down(sim, replica, "its batch was refused");
        break;
    case SIM_REFUSED:
        refused(sim, replica, answer->batch);
        break;
    case SIM_FULL:
        break; /* nothing is known: it is sent again */
    }
}
