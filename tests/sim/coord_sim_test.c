/*
 * Whole clusters of members over the fake store, on virtual time.
 *
 * Each member, while it leads, counts: it takes the number it loaded, hands out the next ones,
 * writes them, and believes in them when its batch is committed; this is what a dispatcher does
 * with splits. A checker outside keeps its own list: a number that was believed in belongs to one
 * member for good and is in the store, whatever happened to the leaders. Here are the named cases;
 * coord_walk_test.c has the walks.
 */
#include "coord_world.h"

#include "coord/bytes.h"
#include "coord/record.h"

static int64_t epoch_of(const struct coord_sim *s, int leader)
{
    return mr_member_epoch(s->nodes[leader].member);
}

/* No node has a stream to the leader whose loss it would notice. */
static void nobody_follows(struct coord_sim *s)
{
    for (int i = 0; i < NODES; i++) {
        s->nodes[i].followed_epoch = 0;
    }
}

/* What the streams of the others say about the leader of @epoch. */
static void tell_others(struct coord_sim *s, int leader, int64_t epoch, enum mr_peer_state state)
{
    for (int i = 0; i < NODES; i++) {
        if (i != leader) {
            mr_member_peer(s->nodes[i].member, epoch, state, mr_fake_now_ms(s->fake), 1);
        }
    }
}

/* The others have tried to connect to the leader. */
static void others_probed(struct coord_sim *s, int leader, bool refused)
{
    for (int i = 0; i < NODES; i++) {
        if (i != leader) {
            mr_member_probed(s->nodes[i].member, epoch_of(s, leader), refused,
                             mr_fake_now_ms(s->fake), 1);
        }
    }
}

static void one_leads_and_the_others_know_it(void **state)
{
    struct coord_sim *s = coord_new(1);
    int leader = coord_await_leader(s);

    coord_run_ms(s, 5000);
    assert_int_equal(s->terms, 1);
    for (int i = 0; i < NODES; i++) {
        const struct mr_leader_view *v = mr_member_leader(s->nodes[i].member);

        assert_true(v->known);
        assert_int_equal(v->epoch, mr_member_epoch(s->nodes[leader].member));
        assert_int_equal(v->record.address[0], '0' + leader);
    }
    assert_true(s->believed > 20);
    assert_true(mr_member_may_answer(s->nodes[leader].member, mr_fake_now_ms(s->fake)));
    coord_free(s);
}

static void a_killed_leader_is_replaced_within_half_a_second(void **state)
{
    struct coord_sim *s = coord_new(2);

    for (int round = 0; round < 10; round++) {
        int leader = coord_await_leader(s);

        coord_run_ms(s, 2000); /* older than min_tenure */
        coord_kill_node(s, leader);
        assert_in_range(coord_outage_ms(s), 1, 499);
        coord_start_node(s, leader);
    }
    coord_free(s);
}

static void a_leader_without_a_stream_to_it_is_replaced_when_its_lease_ends(void **state)
{
    struct coord_sim *s = coord_new(3);
    int leader = coord_await_leader(s);

    coord_run_ms(s, 2000);
    nobody_follows(s); /* nobody had one: no evidence, no force */
    coord_kill_node(s, leader);
    assert_in_range(coord_outage_ms(s), TTL_MS / 2, TTL_MS + 2000);
    coord_free(s);
}

static void a_leader_that_was_restarted_does_not_wait_for_its_own_lease(void **state)
{
    struct coord_sim *s = coord_new(21);

    (void)coord_await_leader(s);
    for (int round = 0; round < 5; round++) {
        int leader = coord_await_leader(s);

        coord_run_ms(s, 100 + 700 * round);
        nobody_follows(s);
        coord_kill_node(s, leader);
        coord_start_node(s, leader); /* it holds the same socket */
        if (round == 4) {
            /* The read that precedes the force is lost: it is tried again. */
            mr_fake_script(s->nodes[leader].store, MR_FAKE_RANGE, MR_FAKE_LOST_REQUEST, 0);
        }
        assert_in_range(coord_outage_ms(s), 1, 150);
        assert_int_equal(coord_leader_of(s), leader);
    }
    coord_free(s);
}

static void a_dead_leader_that_nobody_knew_is_replaced_after_three_seconds(void **state)
{
    struct coord_sim *s = coord_new(22);
    int leader = coord_await_leader(s);
    int64_t epoch = mr_member_epoch(s->nodes[leader].member);

    coord_run_ms(s, 2000);
    nobody_follows(s);
    coord_kill_node(s, leader);
    tell_others(s, leader, epoch, MR_PEER_AWAY);
    assert_in_range(coord_outage_ms(s), 2500, 6000);
    coord_free(s);
}

/* Do all others take the leader's process for gone? */
static bool gone_for_others(struct coord_sim *s, int leader)
{
    bool gone = true;

    for (int i = 0; i < NODES; i++) {
        gone = gone && (i == leader || mr_member_leader_gone(s->nodes[i].member));
    }
    return gone;
}

static void a_living_leader_that_cannot_be_reached_is_left_alone(void **state)
{
    struct coord_sim *s = coord_new(23);
    int leader = coord_await_leader(s);

    for (int t = 0; t < 60; t++) {
        tell_others(s, leader, epoch_of(s, leader), MR_PEER_AWAY);
        coord_run_ms(s, 500);
    }
    assert_int_equal(s->terms, 1);
    assert_false(gone_for_others(s, leader));
    coord_free(s);
}

/* Connections to it break again and again, and one is refused; but it accepts others, and renews
 * its lease. */
static void a_living_leader_whose_streams_break_is_left_alone(void **state)
{
    struct coord_sim *s = coord_new(24);
    int leader = coord_await_leader(s);

    coord_run_ms(s, 2000);
    for (int t = 0; t < 60; t++) {
        tell_others(s, leader, epoch_of(s, leader), MR_PEER_LOST);
        if (t == 0) {
            others_probed(s, leader, true /* refused */);
        }
        coord_run_ms(s, 500);
    }
    assert_int_equal(s->terms, 1);
    coord_free(s);
}

/* Two take the key of a dead leader away; the request of one of them stays in a queue for some
 * seconds. */
static void a_late_force_deposes_nobody_else(void **state)
{
    struct coord_sim *s = coord_new(25);
    int leader = coord_await_leader(s);

    coord_run_ms(s, 2000);
    mr_fake_script(s->nodes[(leader + 1) % NODES].store, MR_FAKE_TXN, MR_FAKE_APPLIED_LATER, 3000);
    coord_kill_node(s, leader);
    assert_in_range(coord_outage_ms(s), 1, 499);
    coord_run_ms(s, 2 * TTL_MS);
    assert_int_equal(s->terms, 2);
    coord_free(s);
}

static void a_young_term_is_left_alone(void **state)
{
    struct coord_sim *s = coord_new(4);
    int leader = coord_await_leader(s);

    coord_run_ms(s, 50);
    coord_kill_node(s, leader);
    coord_run_ms(s, 200);
    assert_true(gone_for_others(s, leader)); /* Known to be dead meanwhile: nobody is sent there. */
    assert_in_range(coord_outage_ms(s), 300, 1300); /* until it is a second old */
    assert_false(gone_for_others(s, leader));
    coord_free(s);
}

static void a_silent_leader_is_replaced_after_three_seconds(void **state)
{
    struct coord_sim *s = coord_new(5);
    int leader = coord_await_leader(s);
    struct coord_node *old = &s->nodes[leader];

    coord_run_ms(s, 3000);
    /* Its host is gone: streams break, connects are not refused but unanswered, and nobody renews
     * the lease. */
    old->paused = true;
    old->paused_until_ms = mr_fake_now_ms(s->fake) + 60000;
    tell_others(s, leader, epoch_of(s, leader), MR_PEER_LOST);
    assert_in_range(coord_outage_ms(s), 2500, 6000);
    coord_run_ms(s, 70000); /* It wakes and finds itself deposed. */
    coord_free(s);
}

static void wrong_force_is_damped(void **state)
{
    struct coord_sim *s = coord_new(6);
    unsigned before;

    (void)coord_await_leader(s);
    coord_run_ms(s, 2000);
    /* A fault that makes every leader look dead to the others, although it is alive. */
    before = s->terms;
    for (int t = 0; t < 600; t++) {
        int leader = coord_leader_of(s);

        if (leader >= 0) {
            tell_others(s, leader, epoch_of(s, leader), MR_PEER_LOST);
            others_probed(s, leader, true /* refused */);
            others_probed(s, leader, true /* refused */);
        }
        coord_run_ms(s, 100);
    }
    /* A minute, undamped one term a second; damped they are soon as long as a lease. */
    assert_in_range(s->terms - before, 1, 20);
    assert_true(s->believed > 300);
    coord_free(s);
}

/* Whoever was taken for dead may be the one who does not see others. */
static void who_was_deposed_alive_forces_nobody_for_a_lease(void **state)
{
    struct coord_sim *s = coord_new(36);
    int first = coord_await_leader(s);
    int second = (first + 1) % NODES;
    int64_t epoch = mr_member_epoch(s->nodes[first].member);

    coord_kill_node(s, (first + 2) % NODES);
    coord_run_ms(s, 2000);
    mr_member_peer(s->nodes[second].member, epoch, MR_PEER_LOST, mr_fake_now_ms(s->fake), 1);
    for (int i = 0; i < 2; i++) {
        mr_member_probed(s->nodes[second].member, epoch, true, mr_fake_now_ms(s->fake), 1);
    }
    for (int i = 0; i < 1000 && !s->nodes[second].leads; i++) {
        coord_run_ms(s, 1);
    }
    assert_true(s->nodes[second].leads);
    coord_run_ms(s, TTL_MS /
                        2); /* long enough for the next term, which is left alone for two seconds */
    coord_kill_node(s, second);
    /* The rest of its own time; the lease of the dead one would last longer. */
    assert_in_range(coord_outage_ms(s), TTL_MS / 2 - 100, TTL_MS * 8 / 10);
    assert_true(s->nodes[first].leads);
    coord_free(s);
}

static void a_leader_that_stops_hands_over_at_once(void **state)
{
    struct coord_sim *s = coord_new(7);
    int leader = coord_await_leader(s);

    coord_run_ms(s, 5000);
    mr_member_stop(s->nodes[leader].member, mr_fake_now_ms(s->fake), 1);
    assert_in_range(coord_outage_ms(s), 1, 99);
    coord_run_ms(s, 1000);
    assert_true(s->nodes[leader].stopped);
    assert_int_not_equal(coord_leader_of(s), leader);
    coord_free(s);
}

/* The key of a process that was killed is there for a TTL, and says that it has run for long. */
static void a_leader_that_stops_names_nobody_who_is_gone(void **state)
{
    struct coord_sim *s = coord_new(7);
    int leader = coord_await_leader(s);
    int older = (leader + 1) % NODES;
    int younger = (leader + 2) % NODES;

    coord_run_ms(s, 5000);
    coord_kill_node(s, younger);
    coord_run_ms(s, 100);
    coord_start_node(s, younger);
    coord_run_ms(s, 5000);
    coord_kill_node(s, older);
    coord_run_ms(s, 100);
    mr_member_stop(s->nodes[leader].member, mr_fake_now_ms(s->fake), 1);
    assert_in_range(coord_outage_ms(s), 1, 99);
    assert_int_equal(coord_leader_of(s), younger);
    coord_free(s);
}

static void an_idle_leader_keeps_its_right_to_answer(void **state)
{
    struct coord_sim *s = coord_new(8);
    int leader = coord_await_leader(s);
    mr_member *m = s->nodes[leader].member;

    s->work = false;
    for (int i = 0; i < 300; i++) {
        coord_run_ms(s, 100);
        assert_true(mr_member_may_answer(m, mr_fake_now_ms(s->fake)));
    }
    /* Cut off from the store it loses the right after half a TTL, though nobody has told it
     * anything. */
    mr_fake_cut(s->nodes[leader].store, true);
    coord_run_ms(s, TTL_MS / 2 + 100);
    assert_false(mr_member_may_answer(m, mr_fake_now_ms(s->fake)));
    mr_fake_cut(s->nodes[leader].store, false);
    coord_run_ms(s, 20000);
    (void)coord_await_leader(s);
    coord_free(s);
}

/* A member of the store that says nothing costs one request; the lease, however short, must outlast
 * several. */
static void an_outage_shorter_than_the_lease_costs_nobody_the_lead(void **state)
{
    static const int64_t ttls_ms[] = {2000, 3000, TTL_MS, 60000};

    for (size_t i = 0; i < sizeof ttls_ms / sizeof ttls_ms[0]; i++) {
        struct coord_sim *s = coord_with_ttl(31 + i, ttls_ms[i]);
        mr_store *store;

        coord_run_ms(s, 10000);
        store = s->nodes[coord_await_leader(s)].store;
        for (int64_t phase = 0; phase < 20; phase++) {
            coord_run_ms(s, ttls_ms[i] + phase * ttls_ms[i] / 160);
            mr_fake_cut(store, true);
            coord_run_ms(s, ttls_ms[i] * 6 / 10);
            mr_fake_cut(store, false);
        }
        coord_run_ms(s, 2 * ttls_ms[i]);
        assert_int_equal(s->lost, 0);
        coord_free(s);
    }
}

static void a_refused_batch_makes_the_leader_load_again(void **state)
{
    struct coord_sim *s = coord_new(9);
    int leader = coord_await_leader(s);

    coord_run_ms(s, 1000);
    mr_fake_script(s->nodes[leader].store, MR_FAKE_TXN, MR_FAKE_REFUSED, 0);
    coord_run_ms(s, 1000);
    assert_int_equal(s->refused, 1);
    assert_int_equal(coord_leader_of(s), leader); /* in the same term */
    assert_int_equal(s->lost, 0);
    int64_t before = s->believed;

    coord_run_ms(s, 1000);
    assert_true(s->believed > before);
    coord_free(s);
}

static void an_answer_that_was_lost_is_found_again(void **state)
{
    static const enum mr_fake_fault faults[] = {MR_FAKE_LOST_ANSWER, MR_FAKE_APPLIED_LATER,
                                                MR_FAKE_LOST_REQUEST, MR_FAKE_DELAYED,
                                                MR_FAKE_UNAVAILABLE};

    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct coord_sim *s = coord_new(10 + i);
        int leader = coord_await_leader(s);

        coord_run_ms(s, 1000);
        mr_fake_script(s->nodes[leader].store, MR_FAKE_TXN, faults[i], 700);
        int64_t before = s->believed;

        coord_run_ms(s, 6000);
        assert_true(s->believed > before + 20);
        assert_int_equal(s->terms, 1); /* no reason to end the term */
        coord_free(s);
    }
}

static void a_leader_key_of_an_earlier_attempt_is_cleared(void **state)
{
    struct coord_sim *s = coord_new(20);

    /* The campaign of the first one is answered "unknown" and applied, or applied much later. */
    for (int i = 0; i < NODES; i++) {
        coord_run_ms(s, 4);
        mr_fake_script(s->nodes[i].store, MR_FAKE_TXN,
                       i == 1 ? MR_FAKE_APPLIED_LATER : MR_FAKE_LOST_ANSWER, 300);
    }
    (void)coord_await_leader(s);
    coord_run_ms(s, 5000);
    assert_true(s->believed > 20);
    coord_free(s);
}

static void a_full_store_is_led_on_and_swept(void **state)
{
    struct coord_sim *s = coord_new(30);
    int leader = coord_await_leader(s);

    coord_run_ms(s, 3000);
    coord_fill_store(s, true);
    coord_run_ms(s, 1000);
    int64_t believed = s->believed;
    int64_t sweeps = s->sweeps;

    coord_run_ms(s, 3000);
    assert_true(s->believed <= believed + 1);
    assert_true(s->sweeps > sweeps);
    assert_true(mr_member_full(s->nodes[leader].member));
    for (int i = 0; i < 20 && !mr_member_leads(s->nodes[leader].member); i++) {
        coord_run_ms(s, 10); /* It may be loading, having tried to put something. */
    }
    assert_true(mr_member_may_answer(s->nodes[leader].member, mr_fake_now_ms(s->fake)));
    s->work = false; /* An idle leader finds out by itself that there is room. */
    coord_fill_store(s, false);
    coord_run_ms(s, TTL_MS);
    assert_false(mr_member_full(s->nodes[leader].member));
    s->work = true;
    coord_run_ms(s, 1000);
    assert_true(s->believed > believed + 5);
    assert_int_equal(s->terms, 1 + s->refused); /* loads; the term is the same */
    assert_int_equal(s->lost, 0);
    coord_free(s);
}

/* Two dispatchers that do not see each other, and both see the store. */
static void partitioned_pairs_leave_each_other_alone(void **state)
{
    struct coord_sim *s = coord_new(31);

    (void)coord_await_leader(s);
    coord_run_ms(s, 2000);
    for (int t = 0; t < 600; t++) {
        int leader = coord_leader_of(s);

        assert_true(leader >= 0);
        if (t % 7 == 0) {
            tell_others(s, leader, epoch_of(s, leader), MR_PEER_LOST);
        }
        others_probed(s, leader, false /* not refused: unanswered */);
        coord_run_ms(s, 100);
    }
    assert_int_equal(s->terms, 1);
    coord_free(s);
}

static int64_t incarnations(struct coord_sim *s, char now[33])
{
    const struct coord_node *n = &s->nodes[coord_await_leader(s)];

    if (strcmp(now, n->life) != 0) {
        memcpy(now, n->life, sizeof n->life);
        return 1;
    }
    return 0;
}

static void a_store_that_was_built_anew_begins_another_incarnation(void **state)
{
    struct coord_sim *s = coord_new(32);
    char life[33] = "";

    assert_int_equal(incarnations(s, life), 1);
    coord_run_ms(s, 2000);
    coord_kill_node(s, coord_leader_of(s));
    assert_int_equal(incarnations(s, life), 0); /* another leader, the same store */
    coord_run_ms(s, 2000);
    mr_fake_rename(s->fake, 2);
    coord_kill_node(s, coord_leader_of(s));
    assert_int_equal(incarnations(s, life), 1);
    coord_run_ms(s, 2000);
    coord_free(s);
}

static void on_put(void *ctx, int rc, const struct mr_txn_result *r, const mr_error *err)
{
    *(int *)ctx = rc;
}

/* By hand. */
static void put(struct coord_sim *s, const char *key, const char *value)
{
    struct mr_op op = {.kind = MR_OP_PUT, .key = mr_bytes_str(key), .value = mr_bytes_str(value)};
    struct mr_txn txn = {.success = &op, .nsuccess = 1};
    mr_store *store = NULL;
    int rc = 1;

    assert_int_equal(mr_fake_connect(s->fake, &store, NULL), MR_OK);
    store->ops->txn(store, &txn, 1000, on_put, &rc);
    mr_fake_advance(s->fake, 100);
    assert_int_equal(rc, MR_OK);
    store->ops->close(store);
}

/* All that is there would be dropped for a new one: nobody leads until somebody puts it right. */
static void a_bad_incarnation_is_not_replaced(void **state)
{
    static const char *const values[] = {"{}", "garbage", "{\"id\":\"7\"}"};
    struct coord_sim *s = coord_new(35);
    char key[128], life[33] = "";

    snprintf(key, sizeof key, "/millrace/t/%s", MR_KEY_INCARNATION);
    assert_int_equal(incarnations(s, life), 1);
    coord_run_ms(s, 2000);
    struct mr_kv kv = mr_fake_get(s->fake, key);
    char *good = mr_strndup((const char *)kv.value.data, kv.value.size);

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        unsigned terms = s->terms;
        int leader = coord_leader_of(s);

        put(s, key, values[i]);
        coord_kill_node(s, leader);
        coord_run_ms(s, 20000);
        assert_int_equal(s->terms, terms);
        kv = mr_fake_get(s->fake, key);
        assert_int_equal(kv.value.size, strlen(values[i]));
        put(s, key, good);
        assert_int_equal(incarnations(s, life), 0);
        coord_start_node(s, leader);
        coord_run_ms(s, 2000);
    }
    mr_free(good);
    coord_free(s);
}

static void a_later_epoch_that_a_leader_signed_ends_the_incarnation_once(void **state)
{
    struct coord_sim *s = coord_new(33);
    char life[33] = "";
    int leader = coord_await_leader(s);
    mr_member *m = s->nodes[leader].member;
    uint64_t later = (uint64_t)mr_member_epoch(m) + 1000;
    uint64_t signature = mr_member_sign(m, later); /* from before the store went back */

    assert_int_equal(incarnations(s, life), 1);
    coord_run_ms(s, 2000);
    mr_member_later_epoch(m, later, signature);
    coord_run_ms(s, 2000);
    assert_int_equal(s->lost, 1);
    assert_int_equal(incarnations(s, life), 1);
    for (leader = 0; leader < NODES && !s->nodes[leader].leads; leader++) {
    }
    assert_true(leader < NODES);
    mr_member_later_epoch(s->nodes[leader].member, later,
                          signature); /* of another incarnation by now */
    coord_run_ms(s, 5000);
    assert_int_equal(s->lost, 1);
    coord_free(s);
}

static void what_callers_make_up_ends_nothing(void **state)
{
    struct coord_sim *s = coord_new(34);
    char life[33] = "";
    int leader = coord_await_leader(s);
    mr_member *m = s->nodes[leader].member;
    uint64_t epoch = (uint64_t)mr_member_epoch(m);
    uint64_t own = mr_member_sign(m, epoch); /* which everybody is given */

    assert_int_equal(incarnations(s, life), 1);
    coord_run_ms(s, 2000);
    for (uint64_t later = 1; later < 1000; later++) {
        mr_member_later_epoch(m, epoch + later, 0);
        mr_member_later_epoch(m, epoch + later, own);
    }
    mr_member_later_epoch(m, UINT64_MAX, own);
    mr_member_later_epoch(m, epoch, own);
    coord_run_ms(s, 5000);
    assert_int_equal(s->lost, 0);
    assert_int_equal(incarnations(s, life), 0);
    coord_free(s);
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
        cmocka_unit_test(a_living_leader_whose_streams_break_is_left_alone),
        cmocka_unit_test(a_late_force_deposes_nobody_else),
        cmocka_unit_test(a_young_term_is_left_alone),
        cmocka_unit_test(a_silent_leader_is_replaced_after_three_seconds),
        cmocka_unit_test(wrong_force_is_damped),
        cmocka_unit_test(who_was_deposed_alive_forces_nobody_for_a_lease),
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
        cmocka_unit_test(a_bad_incarnation_is_not_replaced),
        cmocka_unit_test(a_later_epoch_that_a_leader_signed_ends_the_incarnation_once),
        cmocka_unit_test(what_callers_make_up_ends_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
