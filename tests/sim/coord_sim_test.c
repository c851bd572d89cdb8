/*
 * Whole clusters of members over the fake store, on virtual time.
 *
 * Each member, while it leads, counts: it takes the number it loaded, hands out the next ones, writes them, and
 * believes in them when its batch is committed; this is what a dispatcher does with splits. A checker outside keeps its
 * own list: a number that was believed in belongs to one member for good and is in the store, whatever happened to the
 * leaders.
 *
 * Scenarios first, then walks from a seed (MR_SEED replays one, MR_SEEDS is how many) through crashes, pauses, cuts,
 * lost leases and all the ways in which the store can fail to answer. At the end the rare branches must have been
 * taken.
 */
#include "base/alloc.h"
#include "base/rng.h"
#include "coord/bytes.h"
#include "coord/fake/fake.h"
#include "coord/member.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef __SANITIZE_THREAD__
#define WALKS 30 /* there is one thread, and it takes twenty times as long */
#else
#define WALKS 150
#endif
#define NODES 3
#define NUMBERS_MAX 20000
#define TTL_MS 10000
#define QUEUE_MAX 4096

struct node {
    struct sim *sim;
    int id;
    bool up;
    bool paused;
    int64_t paused_until_ms;
    uint64_t incarnation; /* of this process */
    mr_store *store;
    mr_member *member;
    struct mr_member_event *queue[QUEUE_MAX];
    size_t queued;
    bool leads;
    bool stopped;
    char life[33]; /* the store's, as it was told at the last load */
    int64_t next;  /* number to hand out */
    struct {
        int64_t number;
        uint64_t batch;
    } pending[QUEUE_MAX];
    size_t npending;
    int64_t work_ms;          /* when it hands out next */
    bool litter[NUMBERS_MAX]; /* numbers whose second key is still there */
    struct {
        int64_t number;
        uint64_t batch;
    } swept[QUEUE_MAX]; /* whose second key goes with that batch */
    size_t nswept;
    int64_t followed_epoch; /* whose live stream it has */
};

struct sim {
    mr_fake *fake;
    int64_t ttl_ms;
    struct mr_rng rng;
    struct node nodes[NODES];
    uint64_t owners[NUMBERS_MAX]; /* the checker's: who believes in this number; 0: nobody */
    bool gone[NUMBERS_MAX];       /* the checker's: somebody believes that the second key of this number is deleted */
    int64_t sweeps;
    bool full;
    int64_t believed;
    int64_t first_believed_ms; /* after `mark` */
    int64_t mark_ms;
    unsigned terms, lost, refused, forced, unknown_owner;
    bool work;
};

static unsigned all_terms, all_lost, all_refused, all_deposed_alive, all_swept_while_full;

/* ---- what a member tells its node ---- */

static void on_leader(void *ctx, const struct mr_leader_view *leader)
{
    struct node *n = ctx;

    n->followed_epoch = leader->known ? leader->epoch : 0;
}

static void on_load_begin(void *ctx, int64_t epoch, const char *incarnation)
{
    struct node *n = ctx;

    assert_true(epoch > 0);
    assert_int_equal(strlen(incarnation), 32);
    memcpy(n->life, incarnation, sizeof n->life);
    n->leads = false;
    n->next = 0;
    n->npending = 0;
    n->nswept = 0;
    memset(n->litter, 0, sizeof n->litter);
}

static int on_load_key(void *ctx, const char *key, const void *value, size_t size, mr_error *err)
{
    struct node *n = ctx;

    (void)err, (void)size;
    if (strcmp(key, "counter") == 0) {
        n->next = strtoll(value, NULL, 10);
    } else if (strncmp(key, "litter/", 7) == 0) {
        n->litter[strtoll(key + 7, NULL, 10)] = true;
    }
    return MR_OK;
}

static int on_load_end(void *ctx, mr_error *err)
{
    struct node *n = ctx;

    (void)err;
    n->leads = true;
    n->sim->terms++;
    n->work_ms = mr_fake_now_ms(n->sim->fake);
    return MR_OK;
}

static void believe(struct node *n, int64_t number)
{
    struct sim *s = n->sim;
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
    struct node *n = ctx;
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
            all_swept_while_full += n->sim->full;
        } else {
            n->swept[kept++] = n->swept[i];
        }
    }
    n->nswept = kept;
}

static void on_lost(void *ctx, const mr_error *err)
{
    struct node *n = ctx;

    assert_true(err->code < 0);
    n->leads = false;
    n->npending = 0;
    n->nswept = 0;
    n->sim->lost++;
}

static void on_refused(void *ctx, uint64_t batch, const mr_error *err)
{
    struct node *n = ctx;

    (void)batch, (void)err;
    n->leads = false;
    n->npending = 0;
    n->nswept = 0;
    n->sim->refused++;
}

static struct node *by_address(struct sim *s, const char *address)
{
    return &s->nodes[address[0] - '0'];
}

static void on_probe(void *ctx, const char *address, int64_t epoch)
{
    struct node *n = ctx;
    const struct node *other = by_address(n->sim, address);

    /* A paused process still accepts connects; one that is gone refuses them. */
    mr_member_probed(n->member, epoch, !other->up, mr_fake_now_ms(n->sim->fake), 1);
}

static void on_store(void *ctx, const struct mr_store_status *status)
{
    (void)ctx;
    (void)status;
}

static void on_peers(void *ctx, const struct mr_dispatcher_record *peers, size_t count)
{
    (void)ctx;
    for (size_t i = 0; i < count; i++) {
        all_deposed_alive += peers[i].deposed_alive;
    }
}

static bool on_follows(void *ctx, const char *instance)
{
    const struct node *n = ctx;
    char other[33];

    for (int i = 0; i < NODES; i++) {
        const struct node *o = &n->sim->nodes[i];

        (void)snprintf(other, sizeof other, "%032llx", (unsigned long long)o->incarnation);
        if (o->up && o->followed_epoch == mr_member_epoch(n->member) && strcmp(other, instance) == 0) {
            return true;
        }
    }
    return false;
}

static void on_stopped(void *ctx)
{
    ((struct node *)ctx)->stopped = true;
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
    struct node *n = ctx;

    assert_true(n->queued < QUEUE_MAX);
    n->queue[n->queued++] = event;
}

/* ---- nodes ---- */

static void start_node(struct sim *s, int id)
{
    static const struct mr_member_prefix prefixes[] = {{.key = "counter"},
                                                       {.key = "litter/", .keys_only = true, .page = 7}};
    struct node *n = &s->nodes[id];
    char instance[33];
    char address[2] = {(char)('0' + id), '\0'};
    struct mr_member_options o = {.cluster = "t",
                                  .socket = address,
                                  .instance = instance,
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
    n->leads = false;
    n->stopped = false;
    n->npending = 0;
    n->nswept = 0;
    n->followed_epoch = 0;
    n->incarnation = mr_rng_next(&s->rng) | 1;
    (void)snprintf(instance, sizeof instance, "%032llx", (unsigned long long)n->incarnation);
    assert_int_equal(mr_fake_connect(s->fake, &n->store, NULL), MR_OK);
    o.store = n->store;
    assert_int_equal(mr_member_new(&o, &n->member, NULL), MR_OK);
}

/* As SIGKILL would: nothing is said to anybody, but its connections break. */
static void kill_node(struct sim *s, int id)
{
    struct node *n = &s->nodes[id];
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
        struct node *o = &s->nodes[i];

        if (epoch != 0 && o->up && !o->paused && o->followed_epoch == epoch) {
            mr_member_peer(o->member, epoch, MR_PEER_LOST, mr_fake_now_ms(s->fake), 1);
        }
    }
}

/* Delete the oldest second key that there is. */
static void sweep(struct node *n)
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

    assert_int_equal(mr_member_add(n->member, &w, 1, false, &batch, &err), MR_OK);
    n->litter[number] = false;
    n->swept[n->nswept].number = number;
    n->swept[n->nswept++].batch = batch;
}

/* A leader hands out what it likes, now and then, and sweeps; a store that is full is spared, as a rule. */
static void work(struct node *n, int64_t now)
{
    char value[32], key[48], litter[48], owner[32];
    uint64_t batch;
    mr_error err;

    if (!n->sim->work || !n->leads || now < n->work_ms || n->next >= NUMBERS_MAX || n->npending == QUEUE_MAX) {
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
    struct mr_write writes[] = {
        {"counter", value, strlen(value)}, {key, owner, strlen(owner)}, {litter, owner, strlen(owner)}};

    assert_int_equal(mr_member_add(n->member, writes, 3, false, &batch, &err), MR_OK);
    n->litter[n->next] = true;
    n->pending[n->npending].number = n->next++;
    n->pending[n->npending++].batch = batch;
}

static void turn(struct node *n)
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

static int64_t due(struct sim *s)
{
    int64_t next = mr_fake_next_ms(s->fake);

    for (int i = 0; i < NODES; i++) {
        struct node *n = &s->nodes[i];
        int64_t d = n->up && !n->paused ? mr_member_due(n->member) : INT64_MAX;

        if (n->up && n->paused) {
            d = n->paused_until_ms;
        } else if (n->leads && s->work && n->work_ms < d) {
            d = n->work_ms;
        }
        next = d < next ? d : next;
    }
    return next;
}

static void run_until(struct sim *s, int64_t until)
{
    while (mr_fake_now_ms(s->fake) < until) {
        int64_t now = mr_fake_now_ms(s->fake);
        int64_t next = due(s);

        next = next <= now ? now : next;
        /* Work that is due now and cannot be done must not stop the clock. */
        if (!mr_fake_step(s->fake, next < until ? next : until) && next <= now) {
            (void)mr_fake_step(s->fake, now + 1);
        }
        for (int i = 0; i < NODES; i++) {
            struct node *n = &s->nodes[i];

            if (n->up && n->paused && mr_fake_now_ms(s->fake) >= n->paused_until_ms) {
                n->paused = false;
            }
            turn(n);
        }
    }
}

static void run_ms(struct sim *s, int64_t ms)
{
    run_until(s, mr_fake_now_ms(s->fake) + ms);
}

static int leader_of(const struct sim *s)
{
    int found = -1;

    for (int i = 0; i < NODES; i++) {
        if (s->nodes[i].up && s->nodes[i].leads) {
            found = i;
        }
    }
    return found;
}

static int await_leader(struct sim *s)
{
    for (int i = 0; i < 60000 && leader_of(s) < 0; i++) {
        run_ms(s, 1);
    }
    assert_true(leader_of(s) >= 0);
    return leader_of(s);
}

/* Who has a live stream to the leader learns of its loss; here, that the stream is there. */
static struct sim *sim_with_ttl(uint64_t seed, int64_t ttl_ms)
{
    struct sim *s = mr_calloc(1, sizeof *s);

    assert_non_null(s);
    assert_int_equal(mr_fake_new(seed, &s->fake, NULL), MR_OK);
    mr_rng_seed(&s->rng, seed);
    s->work = true;
    s->ttl_ms = ttl_ms;
    for (int i = 0; i < NODES; i++) {
        start_node(s, i);
    }
    return s;
}

static struct sim *sim_new(uint64_t seed)
{
    return sim_with_ttl(seed, TTL_MS);
}

/* What was believed in is in the store, with its owner. */
static void check_store(struct sim *s)
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
            fail_msg("number %lld was acknowledged by %s; the store has '%.*s'", (long long)i, owner,
                     (int)kv.value.size, kv.key.size != 0 ? (const char *)kv.value.data : "");
        }
        (void)snprintf(key, sizeof key, "/millrace/t/litter/%lld", (long long)i);
        if (s->gone[i] && mr_fake_get(s->fake, key).key.size != 0) {
            fail_msg("%s was deleted, and is there", key);
        }
    }
}

static void sim_free(struct sim *s)
{
    for (int i = 0; i < NODES; i++) {
        if (s->nodes[i].up) {
            kill_node(s, i);
        }
    }
    all_terms += s->terms;
    all_lost += s->lost;
    all_refused += s->refused;
    mr_fake_free(s->fake);
    mr_free(s);
}

/* How long nothing is committed after this moment. */
static int64_t outage_ms(struct sim *s)
{
    s->mark_ms = mr_fake_now_ms(s->fake);
    s->first_believed_ms = 0;
    for (int i = 0; i < 60000 && s->first_believed_ms == 0; i++) {
        run_ms(s, 1);
    }
    assert_true(s->first_believed_ms != 0);
    return s->first_believed_ms - s->mark_ms;
}

/* ---- scenarios ---- */

static void one_leads_and_the_others_know_it(void **state)
{
    struct sim *s = sim_new(1);
    int leader = await_leader(s);

    (void)state;
    run_ms(s, 5000);
    assert_int_equal(s->terms, 1);
    for (int i = 0; i < NODES; i++) {
        const struct mr_leader_view *v = mr_member_leader(s->nodes[i].member);

        assert_true(v->known);
        assert_int_equal(v->epoch, mr_member_epoch(s->nodes[leader].member));
        assert_int_equal(v->record.address[0], '0' + leader);
    }
    assert_true(s->believed > 20);
    assert_true(mr_member_may_answer(s->nodes[leader].member, mr_fake_now_ms(s->fake)));
    check_store(s);
    sim_free(s);
}

static void a_killed_leader_is_replaced_within_half_a_second(void **state)
{
    struct sim *s = sim_new(2);

    (void)state;
    for (int round = 0; round < 10; round++) {
        int leader = await_leader(s);

        run_ms(s, 2000); /* older than min_tenure */
        kill_node(s, leader);
        assert_in_range(outage_ms(s), 1, 499);
        start_node(s, leader);
    }
    check_store(s);
    sim_free(s);
}

static void a_leader_without_a_stream_to_it_is_replaced_when_its_lease_ends(void **state)
{
    struct sim *s = sim_new(3);
    int leader = await_leader(s);

    (void)state;
    run_ms(s, 2000);
    for (int i = 0; i < NODES; i++) {
        s->nodes[i].followed_epoch = 0; /* nobody had one: no evidence, no force */
    }
    kill_node(s, leader);
    assert_in_range(outage_ms(s), TTL_MS / 2, TTL_MS + 2000);
    sim_free(s);
}

static void a_leader_that_was_restarted_does_not_wait_for_its_own_lease(void **state)
{
    struct sim *s = sim_new(21);

    (void)state;
    (void)await_leader(s);
    for (int round = 0; round < 5; round++) {
        int leader = await_leader(s);

        run_ms(s, 100 + 700 * round);
        for (int i = 0; i < NODES; i++) {
            s->nodes[i].followed_epoch = 0; /* nobody else notices */
        }
        kill_node(s, leader);
        start_node(s, leader); /* it holds the same socket */
        if (round == 4) {
            /* The read that precedes the force is lost: it is tried again. */
            mr_fake_script(s->nodes[leader].store, MR_FAKE_RANGE, MR_FAKE_LOST_REQUEST, 0);
        }
        assert_in_range(outage_ms(s), 1, 150);
        assert_int_equal(leader_of(s), leader);
    }
    check_store(s);
    sim_free(s);
}

static void a_dead_leader_that_nobody_knew_is_replaced_after_three_seconds(void **state)
{
    struct sim *s = sim_new(22);
    int leader = await_leader(s);
    int64_t epoch = mr_member_epoch(s->nodes[leader].member);

    (void)state;
    run_ms(s, 2000);
    for (int i = 0; i < NODES; i++) {
        s->nodes[i].followed_epoch = 0;
    }
    kill_node(s, leader);
    for (int i = 0; i < NODES; i++) {
        if (i != leader) {
            mr_member_peer(s->nodes[i].member, epoch, MR_PEER_AWAY, mr_fake_now_ms(s->fake), 1);
        }
    }
    assert_in_range(outage_ms(s), 2500, 6000);
    check_store(s);
    sim_free(s);
}

/* Do all others take the leader's process for gone? */
static bool gone_for_others(struct sim *s, int leader)
{
    bool gone = true;

    for (int i = 0; i < NODES; i++) {
        gone = gone && (i == leader || mr_member_leader_gone(s->nodes[i].member));
    }
    return gone;
}

static void a_living_leader_that_cannot_be_reached_is_left_alone(void **state)
{
    struct sim *s = sim_new(23);
    int leader = await_leader(s);

    (void)state;
    for (int t = 0; t < 60; t++) {
        for (int i = 0; i < NODES; i++) {
            if (i != leader) {
                mr_member_peer(s->nodes[i].member, mr_member_epoch(s->nodes[leader].member), MR_PEER_AWAY,
                               mr_fake_now_ms(s->fake), 1);
            }
        }
        run_ms(s, 500);
    }
    assert_int_equal(s->terms, 1);
    assert_false(gone_for_others(s, leader));
    sim_free(s);
}

static void a_young_term_is_left_alone(void **state)
{
    struct sim *s = sim_new(4);
    int leader = await_leader(s);

    (void)state;
    run_ms(s, 50);
    kill_node(s, leader);
    run_ms(s, 200);
    assert_true(gone_for_others(s, leader));  /* Known to be dead meanwhile: nobody is sent there. */
    assert_in_range(outage_ms(s), 300, 1300); /* until it is a second old */
    assert_false(gone_for_others(s, leader));
    sim_free(s);
}

static void a_silent_leader_is_replaced_after_three_seconds(void **state)
{
    struct sim *s = sim_new(5);
    int leader = await_leader(s);
    struct node *old = &s->nodes[leader];

    (void)state;
    run_ms(s, 3000);
    /* Its host is gone: streams break, connects are not refused but unanswered, and nobody renews the lease. */
    old->paused = true;
    old->paused_until_ms = mr_fake_now_ms(s->fake) + 60000;
    for (int i = 0; i < NODES; i++) {
        if (i != leader) {
            mr_member_peer(s->nodes[i].member, mr_member_epoch(old->member), MR_PEER_LOST, mr_fake_now_ms(s->fake), 1);
        }
    }
    assert_in_range(outage_ms(s), 2500, 6000);
    run_ms(s, 70000); /* It wakes and finds itself deposed. */
    check_store(s);
    sim_free(s);
}

static void wrong_force_is_damped(void **state)
{
    struct sim *s = sim_new(6);
    unsigned before;

    (void)state;
    (void)await_leader(s);
    run_ms(s, 2000);
    /* A fault that makes every leader look dead to the others, although it is alive. */
    before = s->terms;
    for (int t = 0; t < 600; t++) {
        int leader = leader_of(s);

        for (int i = 0; i < NODES && leader >= 0; i++) {
            int64_t epoch = mr_member_epoch(s->nodes[leader].member);

            if (i != leader) {
                int64_t now = mr_fake_now_ms(s->fake);

                mr_member_peer(s->nodes[i].member, epoch, MR_PEER_LOST, now, 1);
                mr_member_probed(s->nodes[i].member, epoch, true, now, 1);
                mr_member_probed(s->nodes[i].member, epoch, true, now, 1);
            }
        }
        run_ms(s, 100);
    }
    /* A minute, undamped one term a second; damped they are soon as long as a lease. */
    assert_in_range(s->terms - before, 1, 20);
    assert_true(s->believed > 300);
    check_store(s);
    sim_free(s);
}

static void a_leader_that_stops_hands_over_at_once(void **state)
{
    struct sim *s = sim_new(7);
    int leader = await_leader(s);

    (void)state;
    run_ms(s, 5000);
    mr_member_stop(s->nodes[leader].member, mr_fake_now_ms(s->fake), 1);
    assert_in_range(outage_ms(s), 1, 99);
    run_ms(s, 1000);
    assert_true(s->nodes[leader].stopped);
    assert_int_not_equal(leader_of(s), leader);
    check_store(s);
    sim_free(s);
}

/* The key of a process that was killed is there for a TTL, and says that it has run for long. */
static void a_leader_that_stops_names_nobody_who_is_gone(void **state)
{
    struct sim *s = sim_new(7);
    int leader = await_leader(s);
    int older = (leader + 1) % NODES;
    int younger = (leader + 2) % NODES;

    (void)state;
    run_ms(s, 5000);
    kill_node(s, younger);
    run_ms(s, 100);
    start_node(s, younger);
    run_ms(s, 5000);
    kill_node(s, older);
    run_ms(s, 100);
    mr_member_stop(s->nodes[leader].member, mr_fake_now_ms(s->fake), 1);
    assert_in_range(outage_ms(s), 1, 99);
    assert_int_equal(leader_of(s), younger);
    check_store(s);
    sim_free(s);
}

static void an_idle_leader_keeps_its_right_to_answer(void **state)
{
    struct sim *s = sim_new(8);
    int leader = await_leader(s);
    mr_member *m = s->nodes[leader].member;

    (void)state;
    s->work = false;
    for (int i = 0; i < 300; i++) {
        run_ms(s, 100);
        assert_true(mr_member_may_answer(m, mr_fake_now_ms(s->fake)));
    }
    /* Cut off from the store it loses the right after half a TTL, though nobody has told it anything. */
    mr_fake_cut(s->nodes[leader].store, true);
    run_ms(s, TTL_MS / 2 + 100);
    assert_false(mr_member_may_answer(m, mr_fake_now_ms(s->fake)));
    mr_fake_cut(s->nodes[leader].store, false);
    run_ms(s, 20000);
    (void)await_leader(s);
    sim_free(s);
}

/* A member of the store that says nothing costs one request; the lease, however short, must outlast several. */
static void an_outage_shorter_than_the_lease_costs_nobody_the_lead(void **state)
{
    static const int64_t ttls_ms[] = {2000, 3000, TTL_MS, 60000};

    (void)state;
    for (size_t i = 0; i < sizeof ttls_ms / sizeof ttls_ms[0]; i++) {
        struct sim *s = sim_with_ttl(31 + i, ttls_ms[i]);
        mr_store *store;

        run_ms(s, 10000);
        store = s->nodes[await_leader(s)].store;
        for (int64_t phase = 0; phase < 20; phase++) {
            run_ms(s, ttls_ms[i] + phase * ttls_ms[i] / 160);
            mr_fake_cut(store, true);
            run_ms(s, ttls_ms[i] * 6 / 10);
            mr_fake_cut(store, false);
        }
        run_ms(s, 2 * ttls_ms[i]);
        assert_int_equal(s->lost, 0);
        check_store(s);
        sim_free(s);
    }
}

static void a_refused_batch_makes_the_leader_load_again(void **state)
{
    struct sim *s = sim_new(9);
    int leader = await_leader(s);

    (void)state;
    run_ms(s, 1000);
    mr_fake_script(s->nodes[leader].store, MR_FAKE_TXN, MR_FAKE_REFUSED, 0);
    run_ms(s, 1000);
    assert_int_equal(s->refused, 1);
    assert_int_equal(leader_of(s), leader); /* in the same term */
    assert_int_equal(s->lost, 0);
    int64_t before = s->believed;

    run_ms(s, 1000);
    assert_true(s->believed > before);
    check_store(s);
    sim_free(s);
}

static void an_answer_that_was_lost_is_found_again(void **state)
{
    static const enum mr_fake_fault faults[] = {MR_FAKE_LOST_ANSWER, MR_FAKE_APPLIED_LATER, MR_FAKE_LOST_REQUEST,
                                                MR_FAKE_DELAYED, MR_FAKE_UNAVAILABLE};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct sim *s = sim_new(10 + i);
        int leader = await_leader(s);

        run_ms(s, 1000);
        mr_fake_script(s->nodes[leader].store, MR_FAKE_TXN, faults[i], 700);
        int64_t before = s->believed;

        run_ms(s, 6000);
        assert_true(s->believed > before + 20);
        assert_int_equal(s->terms, 1); /* no reason to end the term */
        check_store(s);
        sim_free(s);
    }
}

static void a_leader_key_of_an_earlier_attempt_is_cleared(void **state)
{
    struct sim *s = sim_new(20);

    (void)state;
    /* The campaign of the first one is answered "unknown" and applied, or applied much later. */
    for (int i = 0; i < NODES; i++) {
        run_ms(s, 4);
        mr_fake_script(s->nodes[i].store, MR_FAKE_TXN, i == 1 ? MR_FAKE_APPLIED_LATER : MR_FAKE_LOST_ANSWER, 300);
    }
    (void)await_leader(s);
    run_ms(s, 5000);
    assert_true(s->believed > 20);
    check_store(s);
    sim_free(s);
}

static void fill_store(struct sim *s, bool full)
{
    s->full = full;
    mr_fake_full(s->fake, full);
}

static void a_full_store_is_led_on_and_swept(void **state)
{
    struct sim *s = sim_new(30);
    int leader = await_leader(s);

    (void)state;
    run_ms(s, 3000);
    fill_store(s, true);
    run_ms(s, 1000);
    int64_t believed = s->believed;
    int64_t sweeps = s->sweeps;

    run_ms(s, 3000);
    assert_true(s->believed <= believed + 1);
    assert_true(s->sweeps > sweeps);
    assert_true(mr_member_full(s->nodes[leader].member));
    for (int i = 0; i < 20 && !mr_member_leads(s->nodes[leader].member); i++) {
        run_ms(s, 10); /* It may be loading, having tried to put something. */
    }
    assert_true(mr_member_may_answer(s->nodes[leader].member, mr_fake_now_ms(s->fake)));
    s->work = false; /* An idle leader finds out by itself that there is room. */
    fill_store(s, false);
    run_ms(s, TTL_MS);
    assert_false(mr_member_full(s->nodes[leader].member));
    s->work = true;
    run_ms(s, 1000);
    assert_true(s->believed > believed + 5);
    assert_int_equal(s->terms, 1 + s->refused); /* loads; the term is the same */
    assert_int_equal(s->lost, 0);
    check_store(s);
    sim_free(s);
}

/* Two dispatchers that do not see each other, and both see the store. */
static void partitioned_pairs_leave_each_other_alone(void **state)
{
    struct sim *s = sim_new(31);

    (void)state;
    (void)await_leader(s);
    run_ms(s, 2000);
    for (int t = 0; t < 600; t++) {
        int leader = leader_of(s);

        assert_true(leader >= 0);
        for (int i = 0; i < NODES; i++) {
            int64_t epoch = mr_member_epoch(s->nodes[leader].member);
            int64_t now = mr_fake_now_ms(s->fake);

            if (i != leader && t % 7 == 0) {
                mr_member_peer(s->nodes[i].member, epoch, MR_PEER_LOST, now, 1);
            }
            if (i != leader) {
                mr_member_probed(s->nodes[i].member, epoch, false /* not refused: unanswered */, now, 1);
            }
        }
        run_ms(s, 100);
    }
    assert_int_equal(s->terms, 1);
    check_store(s);
    sim_free(s);
}

static int64_t incarnations(struct sim *s, char now[33])
{
    const struct node *n = &s->nodes[await_leader(s)];

    if (strcmp(now, n->life) != 0) {
        memcpy(now, n->life, sizeof n->life);
        return 1;
    }
    return 0;
}

static void a_store_that_was_built_anew_begins_another_incarnation(void **state)
{
    struct sim *s = sim_new(32);
    char life[33] = "";

    (void)state;
    assert_int_equal(incarnations(s, life), 1);
    run_ms(s, 2000);
    kill_node(s, leader_of(s));
    assert_int_equal(incarnations(s, life), 0); /* another leader, the same store */
    run_ms(s, 2000);
    mr_fake_rename(s->fake, 2);
    kill_node(s, leader_of(s));
    assert_int_equal(incarnations(s, life), 1);
    run_ms(s, 2000);
    sim_free(s);
}

static void a_later_epoch_that_callers_know_ends_the_incarnation_once(void **state)
{
    struct sim *s = sim_new(33);
    char life[33] = "";
    int leader = await_leader(s);

    (void)state;
    assert_int_equal(incarnations(s, life), 1);
    run_ms(s, 2000);
    mr_member_later_epoch(s->nodes[leader].member, mr_fake_now_ms(s->fake));
    run_ms(s, 2000);
    assert_int_equal(s->lost, 1);
    for (int i = 0; i < NODES && !s->nodes[i].leads; i++) {
    }
    mr_member_later_epoch(s->nodes[leader].member, mr_fake_now_ms(s->fake));
    run_ms(s, 5000);
    assert_int_equal(s->lost, 1);
    check_store(s);
    sim_free(s);
}

/* ---- walks ---- */

static void mishap(struct sim *s)
{
    struct node *n = &s->nodes[mr_rng_below(&s->rng, NODES)];
    int64_t now = mr_fake_now_ms(s->fake);

    switch (mr_rng_below(&s->rng, 9)) {
    case 0:
        if (n->up) {
            kill_node(s, n->id);
        }
        break;
    case 1:
    case 2:
        if (!n->up) {
            start_node(s, n->id);
        }
        break;
    case 3:
        if (n->up && !n->paused) {
            n->paused = true;
            n->paused_until_ms = now + (int64_t)mr_rng_below(&s->rng, 15000);
        }
        break;
    case 4:
        if (n->up) {
            mr_fake_cut(n->store, mr_rng_below(&s->rng, 2) == 0);
        }
        break;
    case 5:
        if (n->up) {
            const struct mr_leader_view *v = mr_member_leader(n->member);

            if (v->known) {
                (void)mr_fake_expire(s->fake, v->lease);
            }
        }
        break;
    case 6:
        if (n->up) {
            mr_fake_break_watches(n->store);
        }
        break;
    case 8:
        fill_store(s, !s->full);
        break;
    case 7:
        if (n->up && !n->paused && n->followed_epoch != 0) {
            /* A stream breaks without anybody having died. */
            mr_member_peer(n->member, n->followed_epoch, MR_PEER_LOST, now, 1);
        }
        break;
    default:
        break;
    }
}

static void walk(uint64_t seed)
{
    struct sim *s = sim_new(seed);
    struct mr_fake_odds odds = {.permille = {0, 40, 40, 40, 20, 3, 20, 300}, .delay_ms_max = 4000};

    for (int i = 0; i < 120; i++) {
        if (i == 20) {
            mr_fake_odds(s->fake, &odds);
        }
        run_ms(s, (int64_t)mr_rng_below(&s->rng, 1500));
        mishap(s);
        if (i % 10 == 0) {
            (void)mr_fake_compact(s->fake, mr_fake_revision(s->fake), NULL);
        }
    }
    /* Peace: somebody leads before long, and counting goes on. */
    mr_fake_odds(s->fake, NULL);
    fill_store(s, false);
    for (int i = 0; i < NODES; i++) {
        struct node *n = &s->nodes[i];

        n->paused = false;
        if (!n->up) {
            start_node(s, i);
        }
        mr_fake_cut(n->store, false);
    }
    run_ms(s, 3 * TTL_MS);
    int64_t before = s->believed;

    run_ms(s, 5000);
    if (s->believed <= before) {
        fail_msg("nothing is committed any more");
    }
    check_store(s);
    sim_free(s);
}

static void random_walks(void **state)
{
    const char *seed = getenv("MR_SEED");
    uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : 1000;
    const char *seeds = getenv("MR_SEEDS");
    uint64_t count = seed != NULL ? 1 : seeds != NULL ? strtoull(seeds, NULL, 10) : WALKS;

    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        printf("%s", seed != NULL ? "walking\n" : "");
        /* The last one printed is the one that failed. */
        fprintf(stderr, "\rseed %llu ", (unsigned long long)first + i);
        walk(first + i);
    }
    fprintf(stderr, "\n");
    if (seed == NULL) {
        /* The walks went where it is dangerous. */
        assert_true(all_terms > count);
        assert_true(all_lost > count);
        assert_true(all_refused > 0);
        assert_true(all_deposed_alive > 0);
        assert_true(all_swept_while_full > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_leads_and_the_others_know_it),
        cmocka_unit_test(a_killed_leader_is_replaced_within_half_a_second),
        cmocka_unit_test(a_leader_without_a_stream_to_it_is_replaced_when_its_lease_ends),
        cmocka_unit_test(a_leader_that_was_restarted_does_not_wait_for_its_own_lease),
        cmocka_unit_test(a_dead_leader_that_nobody_knew_is_replaced_after_three_seconds),
        cmocka_unit_test(a_living_leader_that_cannot_be_reached_is_left_alone),
        cmocka_unit_test(a_young_term_is_left_alone),
        cmocka_unit_test(a_silent_leader_is_replaced_after_three_seconds),
        cmocka_unit_test(wrong_force_is_damped),
        cmocka_unit_test(a_leader_that_stops_hands_over_at_once),
        cmocka_unit_test(a_leader_that_stops_names_nobody_who_is_gone),
        cmocka_unit_test(an_idle_leader_keeps_its_right_to_answer),
        cmocka_unit_test(an_outage_shorter_than_the_lease_costs_nobody_the_lead),
        cmocka_unit_test(a_refused_batch_makes_the_leader_load_again),
        cmocka_unit_test(an_answer_that_was_lost_is_found_again),
        cmocka_unit_test(a_leader_key_of_an_earlier_attempt_is_cleared),
        cmocka_unit_test(a_full_store_is_led_on_and_swept),
        cmocka_unit_test(partitioned_pairs_leave_each_other_alone),
        cmocka_unit_test(a_store_that_was_built_anew_begins_another_incarnation),
        cmocka_unit_test(a_later_epoch_that_callers_know_ends_the_incarnation_once),
        cmocka_unit_test(random_walks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
