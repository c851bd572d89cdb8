/* What the harness does not see: what an error says, memory budgets, epochs, waiting and cancelling,
 * reads from elsewhere. */
#include "engine_outside.h"

#include "base/sync.h"
#include "dataset/graph.h"
#include "engine/env.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- errors ---- */

static void errors_name_operator_and_element(void **state)
{
    mr_dataset *range = make_range(0, 8, 1);
    mr_function *fn = fn_divide(range, 5);
    mr_dataset *ds = make_with_function("map", range, fn, NULL, 0);
    struct read_options options = {.errors_max = 100};
    struct lines l = read_all(ds, &options);

    assert_int_equal(l.n, 8);
    assert_string_equal(l.text[4], "-100");
    assert_non_null(strstr(l.text[5], "!-3 map (step 2), element 5: "));
    assert_non_null(strstr(l.text[5], "floor_div"));
    assert_string_equal(l.text[6], "100");
    lines_free(&l);
    mr_dataset_unref(ds);
}

static void bound_arguments_are_checked(void **state)
{
    mr_dataset *ds = make_ints((const int64_t[]){2, 0, 1}, 3);
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner = make_range(0, 3, 1);

    inner = make("batch", inner, NULL, ATTRS(VALUE_ATTR("batch_size", 0)), b);
    ds = make_with_function("flat_map", ds, finish_dataset(b, inner), NULL, 0);
    struct read_options options = {.errors_max = 100};
    struct lines l = read_all(ds, &options);
    assert_int_equal(l.n, 2 + 1 + 3);
    assert_string_equal(l.text[0], "<2>0,1");
    assert_non_null(strstr(
        l.text[2], "flat_map (step 2), element 1: batch (step 2): argument 'batch_size' is 0"));
    assert_string_equal(l.text[5], "<1>2");
    lines_free(&l);
    mr_dataset_unref(ds);
}

static void budgets_name_what_is_too_large(void **state)
{
    mr_dataset *ds = make_one("shuffle", make_range(0, 1 << 20, 1), "buffer_size", 1 << 20);
    struct read_options options = {.budget_bytes = 1 << 20, .most = 1};
    struct lines l = read_all(ds, &options);

    assert_non_null(strstr(l.text[0], "!-8 shuffle (step 2)"));
    assert_non_null(strstr(l.text[0], "the memory budget is 1048576"));
    lines_free(&l);
    mr_dataset_unref(ds);

    ds = make_one("batch", make_range(0, 1 << 20, 1), "batch_size", 1 << 20);
    l = read_all(ds, &options);
    assert_non_null(strstr(l.text[0], "!-8 batch (step 2)"));
    assert_non_null(strstr(l.text[0], "the memory budget is 1048576"));
    lines_free(&l);
    mr_dataset_unref(ds);
}

/* What operators hold is on the budget as long as they hold it: at the end that is nothing. */
static void what_was_held_is_let_go(void **state)
{
    const struct {
        const char *op;
        const char *arg;
        int64_t value;
    } cases[] = {{"prefetch", "buffer_size", -1},
                 {"prefetch", "buffer_size", 3},
                 {"batch", "batch_size", 7},
                 {"window", "size", 5}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read_options options = {.threads = 3};
        mr_dataset *ds = make_one(cases[i].op, map_affine(make_range(0, 1000, 1), 2), cases[i].arg,
                                  cases[i].value);
        mr_engine_iter *it = open_with(ds, &options);
        struct lines l = {0};

        assert_int_equal(read_on(it, &options, &l), MR_END);
        if (mr_engine_held_bytes(it) != 0) {
            fail_msg("%s holds %zu bytes", cases[i].op, mr_engine_held_bytes(it));
        }
        lines_free(&l);
        mr_engine_close(it);
        mr_dataset_unref(ds);
    }
}

/* ---- order ---- */

static struct lines epochs(mr_dataset *ds, int n)
{
    struct lines all = {0};

    for (int i = 0; i < n; i++) {
        struct read_options options = {.epoch = (uint64_t)i, .seed = 7};
        mr_engine_iter *it = open_with(ds, &options);

        (void)read_on(it, &options, &all);
        mr_engine_close(it);
    }
    return all;
}

static void an_epoch_is_a_pass(void **state)
{
    mr_dataset *once = make("shuffle", make_range(0, 30, 1), NULL,
                            ATTRS(INT_ATTR("buffer_size", 30), INT_ATTR("seed", 3)), NULL);
    mr_dataset *twice = make_one("repeat", mr_dataset_ref(once), "count", 2);
    struct lines apart = epochs(once, 2);
    struct lines together = epochs(twice, 1);
    struct lines first = {.text = apart.text, .n = 30};
    struct lines second = {.text = apart.text + 30, .n = 30};

    lines_expect(&together, &apart, "two epochs and one of two passes");
    size_t same = 0;
    for (size_t i = 0; i < 30; i++) {
        same += strcmp(first.text[i], second.text[i]) == 0;
    }
    assert_true(same < 15); /* another order */
    lines_sort(&first);
    lines_sort(&second);
    lines_expect(&second, &first, "the elements of two epochs");
    lines_free(&apart);
    lines_free(&together);
    mr_dataset_unref(once);
    mr_dataset_unref(twice);
}

static void loops_over_a_dataset_are_epochs(void **state)
{
    mr_dataset *ds = make("shuffle", make_range(0, 30, 1), NULL,
                          ATTRS(INT_ATTR("buffer_size", 30), INT_ATTR("seed", 3)), NULL);
    struct lines want = epochs(ds, 3);
    struct lines got = {0};

    for (int i = 0; i < 3; i++) {
        struct mr_engine_options opts = {.seed = 1, .count_epochs = true};
        struct read_options options = {.rows = 0};
        mr_engine_iter *it = NULL;

        CHECK_OK(mr_engine_open(ds, &opts, &it, e));
        (void)read_on(it, &options, &got);
        mr_engine_close(it);
    }
    lines_expect(&got, &want, "three loops");
    lines_free(&got);
    lines_free(&want);
    mr_dataset_unref(ds);
}

static mr_engine_iter *open_counted(mr_dataset *ds)
{
    struct mr_engine_options opts = {.seed = 1, .count_epochs = true};
    mr_engine_iter *it = NULL;

    CHECK_OK(mr_engine_open(ds, &opts, &it, e));
    return it;
}

/* A loop that is taken up again where it was left: the passes behind it are those that would have
 * come, in another process, too. One that was left earlier takes none back. */
static void epochs_go_on_behind_a_state(void **state)
{
    mr_dataset *ds = make("shuffle", make_range(0, 30, 1), NULL,
                          ATTRS(INT_ATTR("buffer_size", 30), INT_ATTR("seed", 3)), NULL);
    struct lines all = epochs(ds, 5);
    struct lines want = {.text = all.text + 60, .n = 90}; /* from the third on */
    struct lines got = {0};
    struct read_options options = {.rows = 0};
    void *saved = NULL;
    size_t size = 0;

    mr_engine_close(open_counted(ds));
    mr_engine_close(open_counted(ds));
    mr_engine_iter *it = open_counted(ds);
    options.most = 10;
    (void)read_on(it, &options, &got);
    CHECK_OK(mr_engine_save(it, &saved, &size, e));
    mr_engine_close(it);

    mr_dataset *again = make("shuffle", make_range(0, 30, 1), NULL,
                             ATTRS(INT_ATTR("buffer_size", 30), INT_ATTR("seed", 3)), NULL);
    options.most = 0;
    for (int i = 0; i < 3; i++) {
        it = open_counted(again);
        if (i == 0) {
            CHECK_OK(mr_engine_restore(it, saved, size, e));
        }
        (void)read_on(it, &options, &got);
        mr_engine_close(it);
    }
    lines_expect(&got, &want, "three loops, the first of which was left");
    lines_free(&got);

    it = open_counted(again); /* the sixth */
    CHECK_OK(mr_engine_restore(it, saved, size, e));
    mr_engine_close(it);
    assert_int_equal(again->opened, 6);
    mr_free(saved);
    lines_free(&all);
    mr_dataset_unref(ds);
    mr_dataset_unref(again);
}

#define OUTER 3
#define INNER 2
#define SHUFFLED 20

/* x -> dataset of INNER shuffles in one another's place. */
static mr_function *fn_shuffles(const mr_dataset *ds)
{
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *middle = make_range(0, INNER, 1);
    mr_builder *of_middle = begin_for(middle, b);
    mr_dataset *last = make_one("shuffle", make_range(0, SHUFFLED, 1), "buffer_size", SHUFFLED);
    mr_function *fn = finish_dataset(of_middle, last);

    return finish_dataset(b, make("flat_map", middle, fn, NULL, 0, b));
}

/* Datasets that functions make have orders of their own, and so have those that are made for the
 * elements of these. */
static void each_dataset_has_its_order(void **state)
{
    mr_dataset *ds = make_range(0, OUTER, 1);
    mr_function *fn = fn_shuffles(ds);
    struct read_options options = {0};

    ds = make_with_function("flat_map", ds, fn, NULL, 0);
    struct lines l = read_all(ds, &options);
    assert_int_equal(l.n, OUTER * INNER * SHUFFLED);
    for (size_t i = 0; i < OUTER * INNER; i++) {
        for (size_t k = 0; k < i; k++) {
            size_t same = 0;

            for (size_t j = 0; j < SHUFFLED; j++) {
                same += strcmp(l.text[i * SHUFFLED + j], l.text[k * SHUFFLED + j]) == 0;
            }
            assert_true(same < SHUFFLED / 2);
        }
    }
    lines_free(&l);
    mr_dataset_unref(ds);
}

static void seeds_make_orders(void **state)
{
    mr_dataset *ds = make_one("shuffle", make_range(0, 30, 1), "buffer_size", 30);
    struct read_options one = {.seed = 1};
    struct read_options two = {.seed = 2};
    struct lines a = read_all(ds, &one);
    struct lines b = read_all(ds, &one);
    struct lines c = read_all(ds, &two);
    size_t same = 0;

    lines_expect(&b, &a, "one seed twice");
    for (size_t i = 0; i < 30; i++) {
        same += strcmp(a.text[i], c.text[i]) == 0;
    }
    assert_true(same < 15);
    lines_free(&a);
    lines_free(&b);
    lines_free(&c);
    mr_dataset_unref(ds);
}

/* Without a seed one order that is asked for is the dataset's, whatever is drawn for the
 * iteration. */
static void one_order_needs_no_seed(void **state)
{
    mr_dataset *range = make_range(0, 30, 1);
    mr_dataset *ds =
        make("shuffle", range, NULL,
             ATTRS(INT_ATTR("buffer_size", 30), BOOL_ATTR("reshuffle_each_iteration", 0)), NULL);
    mr_dataset *tail = make_one("skip", mr_dataset_ref(ds), "count", 10);
    struct lines all = read_all(ds, &(struct read_options){.seed = 1});
    struct lines rest = read_all(tail, &(struct read_options){.seed = 2, .epoch = 3});

    assert_int_equal(rest.n, 20);
    for (size_t i = 0; i < rest.n; i++) {
        assert_string_equal(rest.text[i], all.text[10 + i]);
    }
    lines_free(&all);
    lines_free(&rest);
    mr_dataset_unref(ds);
    mr_dataset_unref(tail);
}

/* ---- waiting ---- */

static void *cancel_when_waiting(void *arg)
{
    void **both = arg;
    struct outside *o = both[0];

    mr_mutex_lock(&o->lock);
    while (!o->waiting) {
        mr_cond_wait(&o->changed, &o->lock);
    }
    mr_mutex_unlock(&o->lock);
    mr_engine_cancel(both[1]);
    return NULL;
}

static void cancel_ends_waiting(void **state)
{
    for (int kind = 0; kind < 4; kind++) {
        struct outside *o = outside_new(1000, 3);
        struct mr_external_opener opener = {.ctx = o, .open = outside_open};
        mr_dataset *ds = make_outside();
        struct read_options options = {.external = &opener, .threads = 4};
        struct lines l = {0};
        pthread_t thread;

        if (kind == 1) {
            ds = make_one("prefetch", ds, "buffer_size", -1);
        } else if (kind == 2) {
            ds = map_affine(ds, 3);
        } else if (kind == 3) {
            ds = make_one("batch", make_one("shuffle", ds, "buffer_size", 100), "batch_size", 10);
        }
        mr_engine_iter *it = open_with(ds, &options);
        void *both[2] = {o, it};
        CHECK_OK(mr_thread_start(&thread, "cancel", cancel_when_waiting, both, e));
        assert_int_equal(read_on(it, &options, &l), MR_ECANCELED);
        assert_int_equal(pthread_join(thread, NULL), 0);
        mr_engine_close(it);
        lines_free(&l);
        mr_dataset_unref(ds);
        free(o);
    }
}

static void time_outs_lose_nothing(void **state)
{
    struct outside *o = outside_new(6, 3);
    struct mr_external_opener opener = {.ctx = o, .open = outside_open};
    mr_dataset *ds =
        make_one("batch", make_one("prefetch", map_affine(make_outside(), 0), "buffer_size", 2),
                 "batch_size", 2);
    struct read_options options = {.external = &opener};
    mr_engine_iter *it = open_with(ds, &options);
    struct lines l = {0};
    mr_block *block = NULL;
    mr_error err;

    options.most = 1;
    (void)read_on(it, &options, &l);
    lines_expect_text(&l, "<2>1,4");
    assert_int_equal(mr_engine_pull(it, (struct mr_want){.rows_max = 1}, 20, &block, &err),
                     MR_TIMEOUT);
    mr_mutex_lock(&o->lock);
    o->blocks_at = -1; /* it goes on */
    (void)pthread_cond_broadcast(&o->changed);
    mr_mutex_unlock(&o->lock);
    mr_engine_cancel(it);
    mr_engine_close(it);
    lines_free(&l);
    mr_dataset_unref(ds);
    free(o);
}

/* The first three numbers of very many, behind a thread that goes on looking for a fourth. */
static mr_dataset *make_three_and_no_end(void)
{
    mr_dataset *ds = make_range(0, INT64_MAX, 1);
    mr_builder *b = begin_for(ds, NULL);
    uint32_t in[2] = {0, add_int(b, 3)};
    uint32_t out = add_op(b, "less", in, 2, NULL, 0);

    return make_one("prefetch", make_with_function("filter", ds, finish(b, &out, 1), NULL, 0),
                    "buffer_size", 1);
}

static void looking_for_ever_can_be_ended(void **state)
{
    mr_dataset *ds = make_three_and_no_end();
    struct read_options options = {.most = 3, .threads = 2};
    struct lines l = {0};
    mr_engine_iter *it = open_with(ds, &options);
    void *saved = NULL;
    size_t size = 0;

    (void)read_on(it, &options, &l);
    lines_expect_text(&l, "0 1 2");
    CHECK_OK(mr_engine_save(it, &saved, &size, e));
    mr_engine_close(it);
    it = open_with(ds, &options);
    CHECK_OK(mr_engine_restore(it, saved, size, e));
    mr_engine_close(it);
    mr_free(saved);
    lines_free(&l);

    /* The end of a pass closes what still looks. */
    ds = make_one(
        "repeat",
        map_affine(make_one("take", make_one("prefetch", ds, "buffer_size", 1), "count", 3), 2),
        "count", 2);
    options.most = 0;
    l = read_all(ds, &options);
    lines_expect_text(&l, "1 4 7 1 4 7");
    lines_free(&l);
    mr_dataset_unref(ds);
}

/* What fails again and again takes no time and no room: no reason to pull ever more of it. */
static void errors_do_not_pile_up(int64_t buffer_size)
{
    static const int64_t zeros[4096];
    mr_dataset *ds = make_ints(zeros, 4096);
    mr_function *fn = fn_divide(ds, 0);
    struct read_options options = {.threads = 2};

    ds = make_one("prefetch", make_with_function("map", ds, fn, NULL, 0), "buffer_size",
                  buffer_size);
    mr_engine_iter *it = open_with(ds, &options);
    for (int i = 0; i < 500; i++) {
        mr_block *block = NULL;
        void *saved = NULL;
        size_t size = 0;

        assert_int_equal(mr_engine_pull(it, (struct mr_want){.rows_max = 1}, -1, &block, NULL),
                         MR_EINVAL);
        CHECK_OK(mr_engine_save(it, &saved, &size, e)); /* what waits is in it */
        mr_free(saved);
        assert_in_range(size, 1, 4096);
    }
    mr_engine_close(it);
    mr_dataset_unref(ds);
}

static void errors_that_wait_are_few(void **state)
{
    errors_do_not_pile_up(-1);
    errors_do_not_pile_up(5);
}

static void waiting_for_others_can_be_ended(void **state)
{
    struct outside *o = outside_new(1000, 3);
    struct mr_external_opener opener = {.ctx = o, .open = outside_open};
    mr_dataset *ds =
        make_one("take", make_one("prefetch", make_outside(), "buffer_size", -1), "count", 3);
    struct read_options options = {.external = &opener, .threads = 4};

    ds = make_one("repeat", ds, "count", 2);
    struct lines l = read_all(ds, &options);
    lines_expect_text(&l, "0 1 2 0 1 2");
    lines_free(&l);
    mr_dataset_unref(ds);
    free(o);
}

/* Whoever makes the elements may say that they were cancelled, which this iterator was not: an error
 * like any, also where a thread of its own finds it. */
static void who_says_cancelled_is_heard(void **state)
{
    for (int way = 0; way < 4; way++) {
        struct outside *o = outside_new(1000, -1);
        struct mr_external_opener opener = {.ctx = o, .open = outside_open};
        struct read_options options = {.external = &opener, .threads = 4};
        mr_dataset *ds = make_outside();

        o->cancelled_at = 3;
        ds = way == 1 ? make_one("prefetch", ds, "buffer_size", -1) : ds;
        ds = way == 2 ? map_affine(ds, 2) : ds;
        ds = way == 3 ? make("unbatch", make_one("batch", ds, "batch_size", 1), NULL, NULL, 0, NULL)
                      : ds;
        struct lines l = read_all(ds, &options);
        assert_int_equal(l.n, 4);
        assert_non_null(strstr(l.text[3], "!-1 the job was cancelled"));
        lines_free(&l);
        mr_dataset_unref(ds);
        free(o);
    }
}

/* An element that fails has had its turn: those behind it come where they would have come. */
static void an_error_takes_its_turn(void **state)
{
    for (int calls = 0; calls <= 2; calls += 2) {
        struct read_options options = {.threads = 3, .errors_max = 10};
        mr_dataset *ds = make_range(0, 2, 1);
        mr_builder *b = begin_for(ds, NULL);
        mr_dataset *inner = make_range(0, 5, 1);
        mr_function *divide = fn_divide(inner, 2);
        mr_function *fn = finish_dataset(b, make_with_function("map", inner, divide, NULL, 0));

        ds = make_with_function("interleave", ds, fn,
                                ATTRS(INT_ATTR("cycle_length", 2), INT_ATTR("block_length", 1),
                                      INT_ATTR("num_parallel_calls", calls)));
        struct lines l = read_all(ds, &options);
        for (size_t i = 0; i < l.n; i++) {
            if (l.text[i][0] == '!') {
                l.text[i][1] = '\0';
            }
        }
        lines_expect_text(&l, "-50 -50 -100 -100 ! ! 100 100 50 50");
        lines_free(&l);
        mr_dataset_unref(ds);
    }
}

/* ---- reads from elsewhere ---- */

static void iterators_count_repetitions(void **state)
{
    struct outside *o = outside_new(4, -1);
    struct mr_external_opener opener = {.ctx = o, .open = outside_open};
    mr_dataset *one = make_outside();
    mr_dataset *ds = make_one("repeat", mr_dataset_ref(one), "count", 3);
    struct read_options options = {.external = &opener};
    struct lines l = read_all(ds, &options);

    lines_expect_text(&l, "0 1 2 3 0 1 2 3 0 1 2 3");
    assert_int_equal(o->ordinal, 2);
    lines_free(&l);
    l = read_all(one, &options);
    assert_int_equal(o->ordinal, 3);
    assert_int_equal(o->opened, 4);
    assert_int_equal(o->closed, 4);
    lines_free(&l);
    mr_dataset_unref(ds);
    mr_dataset_unref(one);
    free(o);
}

static void outside_cannot_be_saved(void **state)
{
    struct outside *o = outside_new(4, -1);
    struct mr_external_opener opener = {.ctx = o, .open = outside_open};
    mr_dataset *ds = map_affine(make_outside(), 0);
    struct read_options options = {.external = &opener};
    mr_engine_iter *it = open_with(ds, &options);
    void *saved = NULL;
    size_t size;
    mr_error err;

    assert_int_equal(mr_engine_save(it, &saved, &size, &err), MR_EPRECOND);
    assert_non_null(strstr(err.message, "distribute (step 2)"));
    mr_engine_close(it);

    options.external = NULL;
    struct mr_engine_options opts = {0};
    assert_int_equal(mr_engine_open(ds, &opts, &it, &err), MR_EUNIMPL);
    mr_dataset_unref(ds);
    free(o);
}

static void the_machine_has_something(void **state)
{
    assert_true(mr_machine_cores() >= 1);
    assert_true(mr_machine_memory_bytes() >= 16u << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_operator_and_element),
        cmocka_unit_test(bound_arguments_are_checked),
        cmocka_unit_test(budgets_name_what_is_too_large),
        cmocka_unit_test(what_was_held_is_let_go),
        cmocka_unit_test(an_epoch_is_a_pass),
        cmocka_unit_test(loops_over_a_dataset_are_epochs),
        cmocka_unit_test(epochs_go_on_behind_a_state),
        cmocka_unit_test(each_dataset_has_its_order),
        cmocka_unit_test(seeds_make_orders),
        cmocka_unit_test(one_order_needs_no_seed),
        cmocka_unit_test(cancel_ends_waiting),
        cmocka_unit_test(time_outs_lose_nothing),
        cmocka_unit_test(looking_for_ever_can_be_ended),
        cmocka_unit_test(errors_that_wait_are_few),
        cmocka_unit_test(waiting_for_others_can_be_ended),
        cmocka_unit_test(an_error_takes_its_turn),
        cmocka_unit_test(who_says_cancelled_is_heard),

        cmocka_unit_test(iterators_count_repetitions),
        cmocka_unit_test(outside_cannot_be_saved),
        cmocka_unit_test(the_machine_has_something),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
