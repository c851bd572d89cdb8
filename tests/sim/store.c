/* The store is coord/fake, which the conformance suite holds to the contract. Here is each
 * dispatcher's way to it, on which requests are late, lost or refused; and what the judge sees of
 * it: transactions, as they are applied. */
#include "sim.h"

#include "coord/bytes.h"
#include "coord/record.h"

#include <stdlib.h>

#define ROOT "/millrace/" SIM_CLUSTER "/"
#define COMPACT_EVERY_MS 300000

/* ---------------------------------------------------------------- looking at it */

static const char *key_of(char out[256], const char *key)
{
    snprintf(out, 256, ROOT "%s", key);
    return out;
}

bool sim_store_has(const struct sim *sim, const char *key)
{
    char full[256];

    return mr_fake_get(sim->store.fake, key_of(full, key)).key.size > 0;
}

struct listing {
    void (*fn)(void *ctx, const char *key, const char *value, size_t size);
    void *ctx;
};

static void list_one(void *ctx, const struct mr_kv *kv)
{
    const struct listing *l = ctx;
    char key[512];

    snprintf(key, sizeof key, "%.*s", (int)(kv->key.size - strlen(ROOT)),
             (const char *)kv->key.data + strlen(ROOT));
    l->fn(l->ctx, key, kv->value.data, kv->value.size);
}

void sim_store_each(const struct sim *sim, const char *prefix,
                    void (*fn)(void *ctx, const char *key, const char *value, size_t size),
                    void *ctx)
{
    struct listing l = {fn, ctx};
    char full[256];

    mr_fake_each(sim->store.fake, key_of(full, prefix), list_one, &l);
}

static void count_one(void *ctx, const char *key, const char *value, size_t size)
{
    (void)key, (void)value, (void)size;
    ++*(unsigned *)ctx;
}

unsigned sim_store_count(const struct sim *sim, const char *prefix)
{
    unsigned n = 0;

    sim_store_each(sim, prefix, count_one, &n);
    return n;
}

bool sim_store_has_batch(const struct sim *sim, const struct sim_batch *batch)
{
    struct mr_kv kv = mr_fake_get(sim->store.fake, ROOT MR_KEY_BATCH);

    return batch != NULL && mr_bytes_equal(kv.value, mr_bytes_str(batch->value));
}

static struct mr_kv leader_key(const struct sim *sim)
{
    return mr_fake_get(sim->store.fake, ROOT MR_KEY_LEADER);
}

int64_t sim_store_epoch(const struct sim *sim)
{
    return leader_key(sim).create_revision;
}

void sim_store_depose(struct sim *sim)
{
    (void)mr_fake_expire(sim->store.fake, leader_key(sim).lease);
}

void sim_store_keep_leader(struct sim *sim, int64_t ms)
{
    (void)mr_fake_prolong(sim->store.fake, leader_key(sim).lease, ms);
}

/* ---------------------------------------------------------------- what is applied */

static const struct mr_op *batch_op(const struct mr_txn *txn)
{
    for (size_t i = 0; i < txn->nsuccess; i++) {
        if (txn->success[i].kind == MR_OP_PUT &&
            mr_bytes_equal(txn->success[i].key, mr_bytes_str(ROOT MR_KEY_BATCH))) {
            return &txn->success[i];
        }
    }
    return NULL;
}

static struct sim_batch *find_batch(struct sim *sim, struct mr_bytes value)
{
    char text[256];

    snprintf(text, sizeof text, "%.*s", (int)value.size, (const char *)value.data);
    return mr_map_get(&sim->store.batches, text);
}

/* What coordination writes for itself is none of the judge's business. */
static bool is_state(const char *key)
{
    return strncmp(key, "meta/", 5) != 0 && strcmp(key, MR_KEY_LEADER) != 0 &&
           strncmp(key, MR_KEY_DISPATCHERS, strlen(MR_KEY_DISPATCHERS)) != 0;
}

static size_t changes_of(const struct mr_txn *txn, struct sim_change *out)
{
    size_t n = 0;

    for (size_t i = 0; i < txn->nsuccess; i++) {
        const struct mr_op *op = &txn->success[i];
        char *key;

        if (op->kind == MR_OP_GET || op->key.size <= strlen(ROOT)) {
            continue;
        }
        key = sim_got(
            mr_strndup((const char *)op->key.data + strlen(ROOT), op->key.size - strlen(ROOT)));
        if (!is_state(key)) {
            mr_free(key);
            continue;
        }
        out[n++] = (struct sim_change){
            key, op->kind == MR_OP_PUT ? mr_strndup(op->value.data, op->value.size) : NULL};
    }
    return n;
}

static void on_applied(void *ctx, const struct mr_txn *txn, bool succeeded, int64_t revision)
{
    struct sim *sim = ctx;
    const struct mr_op *op = batch_op(txn);
    struct sim_batch *batch = op != NULL ? find_batch(sim, op->value) : NULL;
    struct sim_change changes[128];

    sim->store.revision = revision;
    if (batch != NULL && batch->settled) {
        sim_rare(sim, SIM_RARE_LATE_ATTEMPT);
    }
    if (!succeeded) {
        return;
    }
    size_t n = changes_of(txn, changes);

    if (batch != NULL) {
        batch->applied = true;
    }
    sim->store.applied(sim, changes, n, batch);
    for (size_t i = 0; i < n; i++) {
        mr_free(changes[i].key);
        mr_free(changes[i].value);
    }
    if (batch != NULL) {
        sim_moment(sim, SIM_MOMENT_APPLIED, NULL, NULL);
    }
}

/* ---------------------------------------------------------------- ways to it */

/* The fake's own functions, and those with ours among them. There is one world at a time. */
static const struct mr_store_ops *fake_ops;
static struct mr_store_ops way_ops;
static struct sim *world;

static struct sim_replica *whose(const mr_store *s)
{
    int i = 0;

    while (world->replicas[i].way != s) {
        i++;
    }
    return &world->replicas[i];
}

/* A batch goes out for the first time, or again. */
static void note_sent(struct sim *sim, struct sim_replica *replica, const struct mr_txn *txn)
{
    const struct mr_op *op = batch_op(txn);
    struct sim_batch *batch = op != NULL ? find_batch(sim, op->value) : NULL;

    if (op == NULL) {
        return;
    }
    if (batch == NULL) {
        batch = sim_got(mr_calloc(1, sizeof *batch));
        snprintf(batch->value, sizeof batch->value, "%.*s", (int)op->value.size,
                 (const char *)op->value.data);
        const char *number = strstr(batch->value, "\"number\":\"");

        batch->number = number != NULL ? strtoull(number + strlen("\"number\":\""), NULL, 10) : 0;
        batch->memory = replica->memory;
        batch->next = sim->store.sent;
        sim->store.sent = batch;
        sim_must(mr_map_put(&sim->store.batches, batch->value, batch, NULL));
    }
    replica->flight = batch;
}

/* The lease ends, and its owner is not told. */
static void lose_lease(struct sim *sim, void *arg)
{
    struct sim_replica *replica = arg;

    if (sim_replica_epoch(replica) == sim_store_epoch(sim)) {
        sim_store_deafen(sim, replica, 2000);
        sim_store_depose(sim);
    }
}

static void draw_fault(struct sim *sim, struct sim_replica *replica)
{
    const struct sim_faults *f = &sim->faults;
    int64_t slow = sim->store.slow_ms;

    slow += f->store_slow_ms > 0 ? (int64_t)sim_draw(sim, (uint64_t)f->store_slow_ms) : 0;
    slow += sim_chance(sim, f->slow_percent) ? 200 + (int64_t)sim_draw(sim, 4000) : 0;
    if (sim_chance(sim, f->loss_percent)) {
        mr_fake_script(replica->way, MR_FAKE_TXN, MR_FAKE_LOST_REQUEST, 0);
    } else if (sim_draw(sim, 1000) < f->refusal_permille) {
        mr_fake_script(replica->way, MR_FAKE_TXN, MR_FAKE_REFUSED, 0);
    } else if (sim_chance(sim, f->answer_loss_percent) && sim_chance(sim, 50)) {
        mr_fake_script(replica->way, MR_FAKE_TXN, MR_FAKE_APPLIED_LATER,
                       slow + 1 + (int64_t)sim_draw(sim, 300));
    } else if (sim_chance(sim, f->answer_loss_percent)) {
        mr_fake_script(replica->way, MR_FAKE_TXN, MR_FAKE_LOST_ANSWER, 0);
        if (sim_chance(sim, 2)) {
            sim_after(sim, 5, &replica->process, lose_lease, replica, false);
        }
    } else if (slow > 0) {
        mr_fake_script(replica->way, MR_FAKE_TXN, MR_FAKE_DELAYED, slow);
    }
}

static void way_txn(mr_store *s, const struct mr_txn *txn, int64_t timeout_ms, mr_txn_done *done,
                    void *ctx)
{
    struct sim_replica *replica = whose(s);

    note_sent(world, replica, txn);
    draw_fault(world, replica);
    fake_ops->txn(s, txn, timeout_ms, done, ctx);
}

static void way_close(mr_store *s)
{
    whose(s)->way = NULL;
    fake_ops->close(s);
}

mr_store *sim_store_connect(struct sim *sim, struct sim_replica *replica)
{
    sim_must(mr_fake_connect(sim->store.fake, &replica->way, NULL));
    world = sim;
    fake_ops = replica->way->ops;
    way_ops = *fake_ops;
    way_ops.txn = way_txn;
    way_ops.close = way_close;
    replica->way->ops = &way_ops;
    replica->deaf_until = 0;
    sim_store_sync(sim);
    return replica->way;
}

void sim_store_sync(struct sim *sim)
{
    for (int i = 0; i < SIM_REPLICAS; i++) {
        mr_store *way = sim->replicas[i].way;
        bool cut = sim->store.away || sim_is_cut(sim, SIM_NODE_REPLICA(i), SIM_NODE_STORE);

        if (way != NULL && cut != sim->replicas[i].is_cut) {
            sim->replicas[i].is_cut = cut;
            mr_fake_cut(way, cut);
        } else if (way == NULL) {
            sim->replicas[i].is_cut = false;
        }
    }
}

static void hears(struct sim *sim, void *arg)
{
    const struct sim_replica *replica = arg;

    if (replica->way != NULL && replica->deaf_until <= sim->now) {
        mr_fake_deafen(replica->way, false);
    }
}

void sim_store_deafen(struct sim *sim, struct sim_replica *replica, int64_t ms)
{
    if (replica->way != NULL && replica->deaf_until < sim->now + ms) {
        replica->deaf_until = sim->now + ms;
        mr_fake_deafen(replica->way, true);
        sim_after(sim, ms, NULL, hears, replica, false);
    }
}

void sim_store_fill(struct sim *sim, bool full)
{
    sim->store.full = full;
    mr_fake_full(sim->store.fake, full);
}

/* ---------------------------------------------------------------- beginning and end */

static void compact(struct sim *sim, void *arg)
{
    (void)mr_fake_compact(sim->store.fake, mr_fake_revision(sim->store.fake), NULL);
    sim_after(sim, COMPACT_EVERY_MS, NULL, compact, NULL, false);
}

void sim_store_init(struct sim *sim, sim_applied_fn *applied)
{
    sim_must(mr_fake_new(sim->seed + 1, &sim->store.fake, NULL));
    sim->store.applied = applied;
    mr_fake_observe(sim->store.fake, on_applied, sim);
    sim_after(sim, COMPACT_EVERY_MS, NULL, compact, NULL, false);
}

void sim_store_free(struct sim *sim)
{
    struct sim_batch *batch;

    while ((batch = sim->store.sent) != NULL) {
        sim->store.sent = batch->next;
        mr_free(batch);
    }
    mr_map_free(&sim->store.batches);
    mr_fake_free(sim->store.fake);
}
