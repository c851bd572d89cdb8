/*
 * The store: one leased leader key, one batch key, and everything else; transactions apply at one
 * moment, in one order. A transaction may arrive late, be applied and its answer lost, or get lost
 * itself.
 */
#include "sim.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <inttypes.h>
#include <millrace/base.h>
#include <stdlib.h>
#include <string.h>

const struct sim_kv *sim_store_get(const struct sim_store *store, const char *key)
{
    uintptr_t at = (uintptr_t)mr_map_get(&store->index, key);

    return at == 0 ? NULL : &store->kvs[at - 1];
}

static void put(struct sim_store *store, const char *key, const char *value)
{
    struct sim_kv *kv = (struct sim_kv *)(uintptr_t)sim_store_get(store, key);

    if (kv == NULL) {
        if (store->count == store->cap) {
            store->cap = store->cap == 0 ? 64 : 2 * store->cap;
            store->kvs = mr_reallocarray(store->kvs, store->cap, sizeof *store->kvs);
            MR_ASSERT(store->kvs != NULL);
        }
        kv = &store->kvs[store->count++];
        *kv = (struct sim_kv){.key = mr_strdup(key), .create = store->revision};
        mr_map_put(&store->index, kv->key, (void *)(uintptr_t)store->count, NULL);
    }
    mr_free(kv->value);
    kv->value = mr_strdup(value);
    kv->mod = store->revision;
}

static void delete (struct sim_store *store, const char *key)
{
    uintptr_t at = (uintptr_t)mr_map_remove(&store->index, key);

    if (at == 0) {
        return;
    }
    struct sim_kv *kv = &store->kvs[at - 1];

    mr_free(kv->key);
    mr_free(kv->value);
    store->count--;
    if (at - 1 != store->count) {
        *kv = store->kvs[store->count];
        mr_map_put(&store->index, kv->key, (void *)at, NULL);
    }
}

static void free_batch(struct sim_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        mr_free(batch->changes[i].key);
        mr_free(batch->changes[i].value);
    }
    mr_free(batch->changes);
    mr_free(batch);
}

void sim_store_free(struct sim_store *store)
{
    struct sim_batch *batch;

    for (size_t i = 0; i < store->count; i++) {
        mr_free(store->kvs[i].key);
        mr_free(store->kvs[i].value);
    }
    mr_free(store->kvs);
    mr_map_free(&store->index);
    while ((batch = store->batches) != NULL) {
        store->batches = batch->next;
        free_batch(batch);
    }
}

struct sim_batch *sim_batch_new(struct sim *sim)
{
    struct sim_batch *batch = mr_calloc(1, sizeof *batch);

    MR_ASSERT(batch != NULL);
    batch->next = sim->store.batches;
    sim->store.batches = batch;
    return batch;
}

/* ---------------------------------------------------------------- leadership */

bool sim_store_reaches(const struct sim *sim, const struct sim_replica *replica)
{
    return !sim->store.away && !sim_is_cut(sim, SIM_NODE_REPLICA(replica->number), SIM_NODE_STORE);
}

static void expire(struct sim *sim)
{
    struct sim_store *store = &sim->store;

    if (store->leader >= 0 && store->lease_until <= sim->now) {
        store->revision++;
        store->leader = -1;
        store->leader_create = 0;
    }
}

void sim_store_campaign(struct sim *sim, struct sim_replica *replica)
{
    struct sim_store *store = &sim->store;

    expire(sim);
    if (!sim_store_reaches(sim, replica)) {
        return;
    }
    if (store->leader == replica->number) {
        /* An older life of its own: a term is never resumed. */
        store->revision++;
        store->leader = -1;
    }
    if (store->leader >= 0 || store->full) {
        return;
    }
    store->leader = replica->number;
    store->leader_create = ++store->revision;
    store->lease_until = sim->now + SIM_LEASE_MS;
    sim_replica_elected(sim, replica, store->leader_create);
}

struct deposed {
    struct sim_replica *replica;
    int64_t epoch;
};

static void deposed(struct sim *sim, void *arg)
{
    struct deposed *news = arg;

    if (news->replica->epoch == news->epoch && news->replica->role != SIM_STANDBY) {
        sim_replica_deposed(sim, news->replica);
    }
}

void sim_store_renew(struct sim *sim, struct sim_replica *replica)
{
    struct sim_store *store = &sim->store;

    expire(sim);
    if (!sim_store_reaches(sim, replica)) {
        return;
    }
    if (store->leader == replica->number && store->leader_create == replica->epoch) {
        /* Never shorter: a store that was started again has given all leases their whole time, and
         * more. */
        if (store->lease_until < sim->now + SIM_LEASE_MS) {
            store->lease_until = sim->now + SIM_LEASE_MS;
        }
    } else if (store->leader_create != replica->epoch) {
        struct deposed *news =
            mr_malloc(sizeof *news); /* which takes its time: until then it goes on believing */

        *news = (struct deposed){replica, replica->epoch};
        sim_after(sim, sim_delay(sim), &replica->process, deposed, news, true);
    }
}

/* ---------------------------------------------------------------- batches */

struct in_transit {
    struct sim_batch *batch;
    unsigned attempt;
    uint64_t life; /* of the sender */
};

static void answered(struct sim *sim, void *arg)
{
    struct sim_answer *answer = arg;

    sim_replica_settled(sim, &sim->replicas[answer->batch->replica], answer);
}

/* What the batch key holds. */
static void batch_value(const struct sim_batch *batch, char *out, size_t size)
{
    snprintf(out, size, "%" PRIi64 " %" PRIu64 " %" PRIu64, batch->epoch, batch->number,
             batch->nonce);
}

static void apply(struct sim *sim, struct sim_batch *batch)
{
    struct sim_store *store = &sim->store;
    char value[80];

    store->revision++;
    sim_check_batch(sim, batch);
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->changes[i].value != NULL) {
            put(store, batch->changes[i].key, batch->changes[i].value);
        } else {
            delete (store, batch->changes[i].key);
        }
    }
    batch_value(batch, value, sizeof value);
    put(store, "meta/batch", value);
    batch->applied = true;
    sim_check_applied(sim, batch);
}

/* The compares, and one of the branches. */
static void execute(struct sim *sim, struct sim_batch *batch, struct sim_answer *answer)
{
    struct sim_store *store = &sim->store;
    const struct sim_kv *last = sim_store_get(store, "meta/batch");
    bool holds =
        store->leader_create == batch->epoch && (last != NULL ? last->mod : 0) == batch->batch_mod;
    char value[80];

    batch_value(batch, value, sizeof value);
    if (sim->bug == SIM_BUG_NO_FENCE) {
        holds = last == NULL || strcmp(last->value, value) != 0;
    }
    if (holds) {
        apply(sim, batch);
        sim_moment(sim, SIM_MOMENT_APPLIED, NULL, NULL);
        last = sim_store_get(store, "meta/batch");
    }
    answer->batch_mod = last != NULL ? last->mod : 0;
    answer->verdict =
        holds || (last != NULL && strcmp(last->value, value) == 0 && sim->bug != SIM_BUG_NO_NONCE)
            ? SIM_COMMITTED
            : SIM_NOT_COMMITTED;
    if (!holds && batch->applied && answer->verdict == SIM_COMMITTED) {
        sim_rare(sim, SIM_RARE_SETTLED_BY_NONCE);
    }
}

/* The transaction reaches the store. */
static void arrived(struct sim *sim, void *arg)
{
    struct in_transit *transit = arg;
    struct sim_store *store = &sim->store;
    struct sim_batch *batch = transit->batch;
    struct sim_replica *replica = &sim->replicas[batch->replica];
    struct sim_answer answer = {.batch = batch};

    expire(sim);
    if (!sim_store_reaches(sim, replica)) {
        return;
    }
    if (transit->attempt < batch->arrived) {
        sim_rare(sim, SIM_RARE_LATE_ATTEMPT);
    } else {
        batch->arrived = transit->attempt;
    }
    if (store->full) {
        answer.verdict = SIM_FULL;
        sim_rare(sim, SIM_RARE_STORE_FULL);
    } else if (sim_draw(sim, 1000) < sim->faults.refusal_permille) {
        answer.verdict = SIM_REFUSED;
    } else {
        execute(sim, batch, &answer);
    }
    answer.deposed = store->leader_create != batch->epoch;
    if (replica->process.life == transit->life &&
        !sim_chance(sim, sim->faults.answer_loss_percent)) {
        struct sim_answer *copy = mr_memdup(&answer, sizeof answer);

        MR_ASSERT(copy != NULL);
        sim_after(sim, sim_delay(sim), &replica->process, answered, copy, true);
    }
}

static int64_t slowness(struct sim *sim)
{
    int64_t most = sim->faults.store_slow_ms;

    return sim->store.slow_ms + (most > 0 ? (int64_t)sim_draw(sim, (uint64_t)most) : 0);
}

void sim_store_send(struct sim *sim, struct sim_replica *replica, struct sim_batch *batch)
{
    batch->attempts++;
    if (sim_chance(sim, sim->faults.loss_percent)) {
        return;
    }
    struct in_transit *transit = mr_calloc(1, sizeof *transit);

    *transit = (struct in_transit){batch, batch->attempts, replica->process.life};
    sim_after(sim, sim_delay(sim) + slowness(sim), NULL, arrived, transit, true);
}
