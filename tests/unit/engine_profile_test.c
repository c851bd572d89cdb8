/* Where the time of an iterator goes. No clock: each look says how much time went by. */
#include "base/base.h"
#include "engine/profile.h"
#include "engine_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define NS 1200u

struct fixture {
    struct mr_profile *p;
    mr_dataset *ds[3];
    uint32_t number[3];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_int_equal(mr_profile_new(&f->p, NULL), MR_OK);
    for (uint32_t i = 0; i < 3; i++) {
        f->ds[i] = make_range(0, i + 1, 1);
        f->number[i] = mr_profile_number(f->p, f->ds[i]);
        assert_int_equal(f->number[i], i + 1);
        assert_int_equal(mr_profile_number(f->p, f->ds[i]), i + 1);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mr_profile_free(f->p);
    for (uint32_t i = 0; i < 3; i++) {
        mr_dataset_unref(f->ds[i]);
    }
    free(f);
    return 0;
}

/* A thread of @stage does @what for operator @number. */
static struct mr_doing *take(struct fixture *f, uint32_t stage, uint32_t number,
                             enum mr_doing_what what)
{
    struct mr_doing *doing = mr_profile_take(f->p, stage);

    assert_non_null(doing);
    atomic_store(&doing->word, mr_doing_word(number, what));
    return doing;
}

static uint64_t spent(const struct fixture *f, uint32_t number, enum mr_doing_what what)
{
    return f->p->operators[number - 1].ns[what];
}

static void test_a_consumer_that_does_not_pull_costs_nothing(void **state)
{
    struct fixture *f = *state;
    struct mr_doing *driver = take(f, 2, 1, MR_DOING_WORK);

    assert_false(mr_profile_look(f->p, NS));
    assert_int_equal(spent(f, 1, MR_DOING_WORK), 0);
    mr_profile_leave(f->p, driver);
}

static void test_what_the_consumer_does_itself(void **state)
{
    struct fixture *f = *state;
    struct mr_doing *consumer = take(f, 0, 2, MR_DOING_WORK);

    assert_true(mr_profile_look(f->p, NS));
    atomic_store(&consumer->word, mr_doing_word(1, MR_DOING_SPLITS));
    assert_true(mr_profile_look(f->p, NS));
    assert_int_equal(spent(f, 2, MR_DOING_WORK), NS);
    assert_int_equal(spent(f, 1, MR_DOING_SPLITS), NS);
    mr_profile_leave(f->p, consumer);
    assert_false(mr_profile_look(f->p, NS));
}

/* consumer ─► stage 3 (two threads) ─► one of them waits for stage 2, whose thread reads a file */
static void test_waits_go_to_what_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct mr_doing *all[] = {take(f, 0, 3, MR_DOING_STAGE), take(f, 3, 2, MR_DOING_STAGE),
                              take(f, 3, 3, MR_DOING_WORK), take(f, 2, 1, MR_DOING_STORAGE)};

    assert_true(mr_profile_look(f->p, NS));
    assert_int_equal(spent(f, 3, MR_DOING_WORK), NS / 2);
    assert_int_equal(spent(f, 1, MR_DOING_STORAGE), NS / 2);
    assert_int_equal(f->p->pool_ns, 0);
    for (size_t i = 0; i < 4; i++) {
        mr_profile_leave(f->p, all[i]);
    }
}

static void test_handed_over_and_not_begun_is_a_wait_for_the_pool(void **state)
{
    struct fixture *f = *state;
    struct mr_doing *consumer = take(f, 0, 3, MR_DOING_STAGE);

    assert_true(mr_profile_look(f->p, NS));
    assert_int_equal(f->p->pool_ns, NS);
    mr_profile_leave(f->p, consumer);
}

/* Seen while it changed: two stages seem to wait for each other. */
static void test_a_circle_ends(void **state)
{
    struct fixture *f = *state;
    struct mr_doing *all[] = {take(f, 0, 3, MR_DOING_STAGE), take(f, 3, 2, MR_DOING_STAGE),
                              take(f, 2, 3, MR_DOING_STAGE)};

    assert_true(mr_profile_look(f->p, NS));
    for (size_t i = 0; i < 3; i++) {
        mr_profile_leave(f->p, all[i]);
    }
}

static void test_memory_counts_while_stages_give_way(void **state)
{
    struct fixture *f = *state;
    struct mr_doing *consumer = take(f, 0, 1, MR_DOING_WORK);

    mr_profile_gave_way(f->p);
    assert_true(mr_profile_look(f->p, NS));
    assert_true(mr_profile_look(f->p, NS));
    assert_int_equal(f->p->memory_ns, NS);
    mr_profile_leave(f->p, consumer);
}

static void test_threads_and_operators_beyond_the_limits(void **state)
{
    struct fixture *f = *state;
    struct mr_doing *all[MR_PROFILE_THREADS];
    mr_dataset *more[MR_PROFILE_OPERATORS];

    for (uint32_t i = 0; i < MR_PROFILE_THREADS; i++) {
        all[i] = mr_profile_take(f->p, 0);
        assert_non_null(all[i]);
    }
    assert_null(mr_profile_take(f->p, 0));
    for (uint32_t i = 0; i < MR_PROFILE_THREADS; i++) {
        mr_profile_leave(f->p, all[i]);
    }
    for (uint32_t i = 0; i < MR_PROFILE_OPERATORS; i++) {
        more[i] = make_range(0, i + 10, 1);
        assert_in_range(mr_profile_number(f->p, more[i]), 4, MR_PROFILE_OPERATORS);
    }
    for (uint32_t i = 0; i < MR_PROFILE_OPERATORS; i++) {
        mr_dataset_unref(more[i]);
    }
}

/* ---- a whole engine: it is looked at from inside of what it calls ---- */

struct source {
    mr_engine_iter *it;
    int asked;
};

static int source_next(void *ctx, uint32_t provider, uint64_t repetition, struct mr_range *ret,
                       mr_origin **origin, mr_error *err)
{
    struct source *s = ctx;

    assert_true(mr_engine_look(s->it, NS));
    *ret = (struct mr_range){.first = 0, .count = 4};
    return s->asked++ == 0 ? MR_OK : MR_END;
}

static void test_an_engine_says_what_it_waits_for(void **state)
{
    struct source s = {0};
    struct mr_split_source splits = {.ctx = &s, .next = source_next};
    struct mr_engine_options opts = {.seed = 1, .splits = &splits, .profile = true};
    mr_dataset *ds = map_affine(make_range(0, 100, 1), 0);
    struct mr_want want = {.rows_max = 100};
    struct mr_engine_times times;
    uint32_t rows = 0;
    mr_block *block;
    mr_error err;

    assert_int_equal(mr_engine_open(ds, &opts, &s.it, &err), MR_OK);
    assert_false(mr_engine_look(s.it, NS));
    while (mr_engine_pull(s.it, want, -1, &block, &err) == MR_OK) {
        rows += mr_block_rows(block);
        mr_block_unref(block);
    }
    assert_int_equal(rows, 4);
    assert_false(mr_engine_look(s.it, NS));
    mr_engine_times(s.it, &times);
    assert_int_equal(times.splits_ns, (uint64_t)s.asked * NS);
    assert_int_equal(times.n, 0);
    mr_engine_close(s.it);
    mr_dataset_unref(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_consumer_that_does_not_pull_costs_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_the_consumer_does_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waits_go_to_what_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_handed_over_and_not_begun_is_a_wait_for_the_pool,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_circle_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_counts_while_stages_give_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads_and_operators_beyond_the_limits, setup,
                                        teardown),
        cmocka_unit_test(test_an_engine_says_what_it_waits_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
