#include "coord_world.h"

#include "coord/bytes.h"

#include <stdlib.h>

struct coord_tally coord_tally;

/* ---- what a member tells its node ---- */

static void on_leader(void *ctx, const struct mr_leader_view *leader)
{
    struct coord_node *n = ctx;

    n->followed_epoch = leader->known ? leader->epoch : 0;
}

/* What it has not been told of is not its own any more. */
static void stop_leading(struct coord_node *n)
{
    n->leads = false;
    n->npending = 0;
    n->nswept = 0;
}

static void on_load_begin(void *ctx, int64_t epoch, const char *incarnation)
{
    struct coord_node *n = ctx;

    assert_true(epoch > 0);
    assert_int_equal(strlen(incarnation), 32);
    memcpy(n->life, incarnation, sizeof n->life);
    stop_leading(n);
    n->next = 0;
    memset(n->litter, 0, sizeof n->litter);
}

static int on_load_key(void *ctx, const char *key, const void *value, size_t size, mr_error *err)
{
    struct coord_node *n = ctx;

    if (strcmp(key, "counter") == 0) {
        n->next = strtoll(value, NULL, 10);
    } else if (strncmp(key, "litter/", 7) == 0) {
        n->litter[strtoll(key + 7, NULL, 10)] = true;
    }
    return MR_OK;
}

static int on_load_end(void *ctx, mr_error *err)
{
    struct coord_node *n = ctx;

    n->leads = true;
    n->sim->terms++;
    n->work_ms = mr_fake_now_ms(n->sim->fake);
    return MR_OK;
}

static void believe(struct coord_node *n, int64_t number)
{
    struct coord_sim *s = n->sim;
    uint64_t me = n->incarnation;

    assert_in_range(number, 0, NUMBERS_MAX - 1);
    if (s->owners[number] != 0 && s->owners[number] != me) {
        fail_msg("number %lld belongs to %llu, and now to %llu as well", (long long)number,
                 (unsigned long long)s->owners[number], (unsigned long long)me);
    }
    s->owners[number] = me;
    s->believed++;
    if (s->mark_ms != 0 && s->first_believed_ms == 0) {
        s->first_believed_ms = mr_fake_now_ms(s->fake);
    }
}

static void on_committed(void *ctx, uint64_t batch)
{
    struct coord_node *n = ctx;
    size_t kept = 0;

    for (size_t i = 0; i < n->npending; i++) {
        if (n->pending[i].batch <= batch) {
            believe(n, n->pending[i].number);
        } else {
            n->pending[kept++] = n->pending[i];
        }
    }
    n->npending = kept;
    kept = 0;
    for (size_t i = 0; i < n->nswept; i++) {
        if (n->swept[i].batch <= batch) {
            n->sim->gone[n->swept[i].number] = true;
            n->sim->sweeps++;
            coord_tally.swept_while_full += n->sim->full;
        } else {
            n->swept[kept++] = n->swept[i];
        }
    }
    n->nswept = kept;
}

static void on_lost(void *ctx, const mr_error *err)
{
    struct coord_node *n = ctx;

    assert_true(err->code < 0);
    stop_leading(n);
    n->sim->lost++;
}

static void on_refused(void *ctx, uint64_t batch, const mr_error *err)
{
    struct coord_node *n = ctx;

    stop_leading(n);
    n->sim->refused++;
}

static struct coord_node *by_address(struct coord_sim *s, const char *address)
{
    return &s->nodes[address[0] - '0'];
}

static void on_probe(void *ctx, const char *address, int64_t epoch)
{
    struct coord_node *n = ctx;
    const struct coord_node *other = by_address(n->sim, address);

    /* A paused process still accepts connects; one that is gone refuses them. */
    mr_member_probed(n->member, epoch, !other->up, mr_fake_now_ms(n->sim->fake), 1);
}

static void on_store(void *ctx, const struct mr_store_status *status)
{
}

static void on_peers(void *ctx, const struct mr_dispatcher_record *peers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        coord_tally.deposed_alive += peers[i].deposed_alive;
    }
}

static bool on_follows(void *ctx, const char *instance)
{
    const struct coord_node *n = ctx;
    char other[33];

    for (int i = 0; i < NODES; i++) {
        const struct coord_node *o = &n->sim->nodes[i];

        (void)snprintf(other, sizeof other, "%032llx", (unsigned long long)o->incarnation);
        if (o->up && o->followed_epoch == mr_member_epoch(n->member) &&
            strcmp(other, instance) == 0) {
            return true;
        }
    }
    return false;
}

static void on_stopped(void *ctx)
{
    ((struct coord_node *)ctx)->stopped = true;
}

static const struct mr_member_ops ops = {.leader = on_leader,
                                         .load_begin = on_load_begin,
                                         .load_key = on_load_key,
                                         .load_end = on_load_end,
                                         .committed = on_committed,
                                         .lost = on_lost,
                                         .refused = on_refused,
                                         .probe = on_probe,
                                         .peers = on_peers,
                                         .follows = on_follows,
                                         .store = on_store,
                                         .stopped = on_stopped};

static void post(void *ctx, struct mr_member_event *event)
{
    struct coord_node *n = ctx;

    assert_true(n->queued < QUEUE_MAX);
    n->queue[n->queued++] = event;
}

/* ---- nodes ---- */

void coord_start_node(struct coord_sim *s, int id)
{
    static const struct mr_member_prefix prefixes[] = {
        {.key = "counter"}, {.key = "litter/", .keys_only = true, .page = 7}};
    struct coord_node *n = &s->nodes[id];
    char instance[33];
    char address[2] = {(char)('0' + id), '\0'};
    struct mr_member_options o = {.cluster = "t",
                                  .socket = address,
                                  .instance = instance,
                                  .secret = "00112233445566778899aabbccddeeff",
                                  .address = address,
                                  .version = "1",
                                  .ttl_ms = s->ttl_ms,
                                  .started_ms = (uint64_t)mr_fake_now_ms(s->fake),
                                  .seed = mr_rng_next(&s->rng),
                                  .prefixes = prefixes,
                                  .nprefixes = 2,
                                  .ops = &ops,
                                  .ctx = n,
                                  .post = post};

    n->sim = s;
    n->id = id;
    n->up = true;
    n->paused = false;
    n->stopped = false;
    stop_leading(n);
    n->followed_epoch = 0;
    n->incarnation = mr_rng_next(&s->rng) | 1;
    (void)snprintf(instance, sizeof instance, "%032llx", (unsigned long long)n->incarnation);
    assert_int_equal(mr_fake_connect(s->fake, &n->store, NULL), MR_OK);
    o.store = n->store;
    assert_int_equal(mr_member_new(&o, &n->member, NULL), MR_OK);
}

void coord_kill_node(struct coord_sim *s, int id)
{
    struct coord_node *n = &s->nodes[id];
    int64_t epoch = mr_member_epoch(n->member);

    n->up = false;
    n->leads = false;
    n->store->ops->close(n->store);
    for (size_t i = 0; i < n->queued; i++) {
        mr_member_discard(n->member, n->queue[i]);
    }
    n->queued = 0;
    mr_member_free(n->member);
    n->member = NULL;
    for (int i = 0; i < NODES; i++) {
        struct coord_node *o = &s->nodes[i];

        if (epoch != 0 && o->up && !o->paused && o->followed_epoch == epoch) {
            mr_member_peer(o->member, epoch, MR_PEER_LOST, mr_fake_now_ms(s->fake), 1);
        }
    }
}

/* Delete the oldest second key that there is. */
static void sweep(struct coord_node *n)
{
    char key[48];
    int64_t number = 0;
    uint64_t batch;
    mr_error err;

    while (number < n->next && !n->litter[number]) {
        number++;
    }
    if (number >= n->next || n->nswept == QUEUE_MAX) {
        return;
    }
    (void)snprintf(key, sizeof key, "litter/%lld", (long long)number);
    struct mr_write w = {key, NULL, 0};

    if (mr_member_add(n->member, &w, 1, false, &batch, &err) < 0) {
        assert_int_equal(err.code, MR_EEXHAUSTED); /* an allocation of a sweep: nothing was added */
        return;
    }
    n->litter[number] = false;
    n->swept[n->nswept].number = number;
    n->swept[n->nswept++].batch = batch;
}

/* A leader hands out what it likes, now and then, and sweeps; a store that is full is spared, as a
 * rule. */
static void work(struct coord_node *n, int64_t now)
{
    char value[32], key[48], litter[48], owner[32];
    uint64_t batch;
    mr_error err;

    if (!n->sim->work || !n->leads || now < n->work_ms || n->next >= NUMBERS_MAX ||
        n->npending == QUEUE_MAX) {
        return;
    }
    n->work_ms = now + 20 + (int64_t)mr_rng_below(&n->sim->rng, 60);
    if (mr_rng_below(&n->sim->rng, 3) == 0) {
        sweep(n);
    }
    if (mr_member_full(n->member) && mr_rng_below(&n->sim->rng, 8) != 0) {
        return;
    }
    (void)snprintf(value, sizeof value, "%lld", (long long)n->next + 1);
    (void)snprintf(key, sizeof key, "numbers/%lld", (long long)n->next);
    (void)snprintf(owner, sizeof owner, "%llu", (unsigned long long)n->incarnation);
    (void)snprintf(litter, sizeof litter, "litter/%lld", (long long)n->next);
    struct mr_write writes[] = {{"counter", value, strlen(value)},
                                {key, owner, strlen(owner)},
                                {litter, owner, strlen(owner)}};

    if (mr_member_add(n->member, writes, 3, false, &batch, &err) < 0) {
        assert_int_equal(err.code, MR_EEXHAUSTED);
        return;
    }
    n->litter[n->next] = true;
    n->pending[n->npending].number = n->next++;
    n->pending[n->npending++].batch = batch;
}

static void turn(struct coord_node *n)
{
    int64_t now = mr_fake_now_ms(n->sim->fake);

    if (!n->up || n->paused) {
        return;
    }
    for (size_t i = 0; i < n->queued; i++) {
        struct mr_member_event *ev = n->queue[i];

        n->queue[i] = NULL;
        mr_member_deliver(n->member, ev, now, 1);
    }
    n->queued = 0;
    work(n, now);
    mr_member_tick(n->member, now, 1);
}

static int64_t due(struct coord_sim *s)
{
    int64_t next = mr_fake_next_ms(s->fake);

    for (int i = 0; i < NODES; i++) {
        struct coord_node *n = &s->nodes[i];
        int64_t d = n->up && !n->paused ? mr_member_due(n->member) : INT64_MAX;

        if (n->up && n->paused) {
            d = n->paused_until_ms;
        } else if (n->leads && s->work && n->work_ms < d) {
            d = n->work_ms;
        }
        next = MR_MIN(d, next);
    }
    return next;
}

static void run_until(struct coord_sim *s, int64_t until)
{
    while (mr_fake_now_ms(s->fake) < until) {
        int64_t now = mr_fake_now_ms(s->fake);
        int64_t next = due(s);

        next = MR_MAX(now, next);
        /* Work that is due now and cannot be done must not stop the clock. */
        if (!mr_fake_step(s->fake, MR_MIN(next, until)) && next <= now) {
            (void)mr_fake_step(s->fake, now + 1);
        }
        for (int i = 0; i < NODES; i++) {
            struct coord_node *n = &s->nodes[i];

            if (n->up && n->paused && mr_fake_now_ms(s->fake) >= n->paused_until_ms) {
                n->paused = false;
            }
            turn(n);
        }
    }
}

void coord_run_ms(struct coord_sim *s, int64_t ms)
{
    run_until(s, mr_fake_now_ms(s->fake) + ms);
}

int coord_leader_of(const struct coord_sim *s)
{
    int found = -1;

    for (int i = 0; i < NODES; i++) {
        if (s->nodes[i].up && s->nodes[i].leads) {
            found = i;
        }
    }
    return found;
}

int coord_await_leader(struct coord_sim *s)
{
    for (int i = 0; i < 60000 && coord_leader_of(s) < 0; i++) {
        coord_run_ms(s, 1);
    }
    assert_true(coord_leader_of(s) >= 0);
    return coord_leader_of(s);
}

struct coord_sim *coord_with_ttl(uint64_t seed, int64_t ttl_ms)
{
    struct coord_sim *s = mr_calloc(1, sizeof *s);

    assert_non_null(s);
    assert_int_equal(mr_fake_new(seed, &s->fake, NULL), MR_OK);
    mr_rng_seed(&s->rng, seed);
    s->work = true;
    s->ttl_ms = ttl_ms;
    for (int i = 0; i < NODES; i++) {
        coord_start_node(s, i);
    }
    return s;
}

struct coord_sim *coord_new(uint64_t seed)
{
    return coord_with_ttl(seed, TTL_MS);
}

/* What was believed in is in the store, with its owner. */
static void check_store(struct coord_sim *s)
{
    for (int64_t i = 0; i < NUMBERS_MAX; i++) {
        char key[64], owner[32];

        if (s->owners[i] == 0) {
            continue;
        }
        (void)snprintf(key, sizeof key, "/millrace/t/numbers/%lld", (long long)i);
        (void)snprintf(owner, sizeof owner, "%llu", (unsigned long long)s->owners[i]);
        struct mr_kv kv = mr_fake_get(s->fake, key);

        if (kv.key.size == 0 || !mr_bytes_equal(kv.value, mr_bytes_str(owner))) {
            fail_msg("number %lld was acknowledged by %s; the store has '%.*s'", (long long)i,
                     owner, (int)kv.value.size,
                     kv.key.size != 0 ? (const char *)kv.value.data : "");
        }
        (void)snprintf(key, sizeof key, "/millrace/t/litter/%lld", (long long)i);
        if (s->gone[i] && mr_fake_get(s->fake, key).key.size != 0) {
            fail_msg("%s was deleted, and is there", key);
        }
    }
}

void coord_free(struct coord_sim *s)
{
    check_store(s);
    for (int i = 0; i < NODES; i++) {
        if (s->nodes[i].up) {
            coord_kill_node(s, i);
        }
    }
    coord_tally.terms += s->terms;
    coord_tally.lost += s->lost;
    coord_tally.refused += s->refused;
    mr_fake_free(s->fake);
    mr_free(s);
}

int64_t coord_outage_ms(struct coord_sim *s)
{
    s->mark_ms = mr_fake_now_ms(s->fake);
    s->first_believed_ms = 0;
    for (int i = 0; i < 60000 && s->first_believed_ms == 0; i++) {
        coord_run_ms(s, 1);
    }
    assert_true(s->first_believed_ms != 0);
    return s->first_believed_ms - s->mark_ms;
}

void coord_fill_store(struct coord_sim *s, bool full)
{
    s->full = full;
    mr_fake_full(s->fake, full);
}
