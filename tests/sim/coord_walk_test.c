/* Walks of members over the fake store from a seed (MR_SEED replays one, MR_SEEDS is how many)
 * through crashes, pauses, cuts, lost leases and all the ways in which the store can fail to
 * answer. At the end the rare branches must have been taken. */
#include "coord_world.h"

#include "base/base.h"

#include <stdlib.h>

#ifdef __SANITIZE_THREAD__
#define WALKS 30 /* there is one thread, and it takes twenty times as long */
#else
#define WALKS 150
#endif

static void mishap(struct coord_sim *s)
{
    struct coord_node *n = &s->nodes[mr_rng_below(&s->rng, NODES)];
    int64_t now = mr_fake_now_ms(s->fake);

    switch (mr_rng_below(&s->rng, 9)) {
    case 0:
        if (n->up) {
            coord_kill_node(s, n->id);
        }
        break;
    case 1:
    case 2:
        if (!n->up) {
            coord_start_node(s, n->id);
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
    case 8: coord_fill_store(s, !s->full); break;
    case 7:
        if (n->up && !n->paused && n->followed_epoch != 0) {
            /* A stream breaks without anybody having died. */
            mr_member_peer(n->member, n->followed_epoch, MR_PEER_LOST, now, 1);
        }
        break;
    default: break;
    }
}

static void walk(uint64_t seed)
{
    struct coord_sim *s = coord_new(seed);
    struct mr_fake_odds odds = {.permille = {0, 40, 40, 40, 20, 3, 20, 300}, .delay_ms_max = 4000};

    for (int i = 0; i < 120; i++) {
        if (i == 20) {
            mr_fake_odds(s->fake, &odds);
        }
        coord_run_ms(s, (int64_t)mr_rng_below(&s->rng, 1500));
        mishap(s);
        if (i % 10 == 0) {
            (void)mr_fake_compact(s->fake, mr_fake_revision(s->fake), NULL);
        }
    }
    /* Peace: somebody leads before long, and counting goes on. */
    mr_fake_odds(s->fake, NULL);
    coord_fill_store(s, false);
    for (int i = 0; i < NODES; i++) {
        struct coord_node *n = &s->nodes[i];

        n->paused = false;
        if (!n->up) {
            coord_start_node(s, i);
        }
        mr_fake_cut(n->store, false);
    }
    coord_run_ms(s, 3 * TTL_MS);
    int64_t before = s->believed;

    coord_run_ms(s, 5000);
    if (s->believed <= before) {
        fail_msg("nothing is committed any more");
    }
    coord_free(s);
}

static void random_walks(void **state)
{
    const char *seed = getenv("MR_SEED");
    uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : 1000;
    const char *seeds = getenv("MR_SEEDS");
    uint64_t count = seed != NULL ? 1 : seeds != NULL ? strtoull(seeds, NULL, 10) : WALKS;

    for (uint64_t i = 0; i < count; i++) {
        printf("%s", seed != NULL ? "walking\n" : "");
        /* The last one printed is the one that failed. */
        fprintf(stderr, "\rseed %llu ", (unsigned long long)first + i);
        walk(first + i);
    }
    fprintf(stderr, "\n");
    if (seed == NULL) {
        /* The walks went where it is dangerous. */
        assert_true(coord_tally.terms > count);
        assert_true(coord_tally.lost > count);
        assert_true(coord_tally.refused > 0);
        assert_true(coord_tally.deposed_alive > 0);
        assert_true(coord_tally.swept_while_full > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_walks)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
