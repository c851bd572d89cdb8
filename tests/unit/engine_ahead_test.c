/* Pulling ahead: what waits is bounded; the elements are the same whoever pulls the input, and
 * whenever that changes. The clock is this test's: each thread has one, and each look
 * at it takes `step` ns. */
#include "base/sync.h"
#include "dataset/graph.h"
#include "engine/ahead.h"
#include "engine_support.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#define QUICK_STEP INT64_C(20000)
#define SLOW_STEP (2 * MR_NS_PER_MS)
#define ELEMENTS 40000
#define BLOCKS_MAX 256u
#define MANY 10000

static _Thread_local int64_t now = 1;
static atomic_int_least64_t step = QUICK_STEP;
static int paused;  /* threads, so often */
static int resumed; /* and so often again */
static bool slow_in_place;
static int64_t buffer_size; /* -1: automatic */

int64_t __wrap_mr_now_ns(void);
int __real_mr_driver_pause(struct mr_driver *d, mr_error *err);
int __wrap_mr_driver_pause(struct mr_driver *d, mr_error *err);
void __real_mr_driver_resume(struct mr_driver *d);
void __wrap_mr_driver_resume(struct mr_driver *d);

int64_t __wrap_mr_now_ns(void)
{
    now += atomic_load(&step);
    return now;
}

int __wrap_mr_driver_pause(struct mr_driver *d, mr_error *err)
{
    paused++;
    atomic_store(&step, slow_in_place ? SLOW_STEP : QUICK_STEP);
    return __real_mr_driver_pause(d, err);
}

void __wrap_mr_driver_resume(struct mr_driver *d)
{
    resumed++;
    atomic_store(&step, QUICK_STEP);
    __real_mr_driver_resume(d);
}

static int begin(void **state)
{
    paused = resumed = 0;
    slow_in_place = false;
    buffer_size = -1;
    atomic_store(&step, QUICK_STEP);
    return 0;
}

static int begin_with_room(void **state)
{
    (void)begin(state);
    buffer_size = 3;
    return 0;
}

static mr_dataset *make_numbers(void)
{
    return make_one("prefetch", make_range(0, ELEMENTS, 1), "buffer_size", buffer_size);
}

static mr_engine_iter *open_numbers(void)
{
    mr_dataset *ds = make_numbers();
    mr_engine_iter *it = open_with(ds, &(struct read_options){0});

    mr_dataset_unref(ds);
    return it;
}

/* The next element, which must be @want. */
static void expect_next(mr_engine_iter *it, int64_t want)
{
    mr_block *block = NULL;

    CHECK_OK(mr_engine_pull(it, (struct mr_want){.rows_max = 1}, -1, &block, e));
    assert_int_equal(mr_block_rows(block), 1);
    assert_int_equal(*(const int64_t *)mr_block_data(block, 0), want);
    mr_block_unref(block);
}

static void expect_end(mr_engine_iter *it)
{
    mr_block *block = NULL;
    mr_error err;

    assert_int_equal(mr_engine_pull(it, (struct mr_want){.rows_max = 1}, -1, &block, &err), MR_END);
}

/* What an iterator leaves that has found out which way is the quicker one. */
static uint32_t outcome(bool in_place)
{
    const struct mr_trial t = {
        .phase = MR_TRIAL_RESTING, .second = in_place, .rest_ns = MR_TRIAL_REST_NS_MAX};

    return mr_trial_outcome(&t);
}

static bool is_in_place(void)
{
    return paused > resumed;
}

static void elements_are_the_same_whoever_pulls(void **state)
{
    mr_engine_iter *it = open_numbers();

    for (int64_t i = 0; i < ELEMENTS; i++) {
        expect_next(it, i);
    }
    expect_end(it);
    mr_engine_close(it);
    assert_in_range(paused, 2, ELEMENTS / 100);
}

/* A copy of @it, which has given @given elements, gives those behind. */
static void expect_copy_to_go_on(mr_engine_iter *it, int64_t given)
{
    mr_engine_iter *copy = open_numbers();
    void *saved = NULL;
    size_t size = 0;

    CHECK_OK(mr_engine_save(it, &saved, &size, e));
    CHECK_OK(mr_engine_restore(copy, saved, size, e));
    mr_free(saved);
    for (int64_t i = given; i < MR_MIN(given + 100, ELEMENTS); i++) {
        expect_next(copy, i);
    }
    mr_engine_close(copy);
}

/* The thread's calls take long in the first iterator: it works in place, and so does the next one
 * from its first element on, and is saved and restored there. */
static void the_next_iterator_begins_as_the_last_one_worked(void **state)
{
    mr_dataset *ds = make_numbers();
    mr_engine_iter *it = open_with(ds, &(struct read_options){0});
    mr_engine_iter *copy;
    void *saved = NULL;
    size_t size = 0;

    atomic_store(&ds->trial_outcome, outcome(true));
    mr_engine_close(it);
    it = open_with(ds, &(struct read_options){0});
    assert_false(is_in_place());
    expect_next(it, 0);
    assert_true(is_in_place());
    CHECK_OK(mr_engine_save(it, &saved, &size, e));
    mr_engine_close(it);
    copy = open_with(ds, &(struct read_options){0});
    CHECK_OK(mr_engine_restore(copy, saved, size, e));
    mr_free(saved);
    for (int64_t i = 1; i < ELEMENTS; i++) {
        expect_next(copy, i);
    }
    expect_end(copy);
    mr_engine_close(copy);
    mr_dataset_unref(ds);
}

/* ---- a shuffle, whose input is pulled ahead if that is known to pay or not ---- */

#define SHUFFLED 400

/* ... and which is itself pulled ahead. */
static mr_dataset *make_shuffled(void)
{
    mr_dataset *ds = make("shuffle", make_range(0, SHUFFLED, 1), NULL,
                          ATTRS(INT_ATTR("buffer_size", 50), INT_ATTR("seed", 7)), NULL);

    return make_one("prefetch", ds, "buffer_size", 1);
}

static mr_engine_iter *open_shuffled(mr_dataset *ds)
{
    return open_with(ds, &(struct read_options){.threads = 2});
}

static int64_t next_shuffled(mr_engine_iter *it)
{
    mr_block *block = NULL;

    CHECK_OK(mr_engine_pull(it, (struct mr_want){.rows_max = 1}, -1, &block, e));
    int64_t value = *(const int64_t *)mr_block_data(block, 0);
    mr_block_unref(block);
    return value;
}

static void a_shuffle_begins_as_the_last_one_worked(void **state)
{
    mr_dataset *ds = make_shuffled();
    mr_dataset *shuffle = ds->inputs[0];
    mr_engine_iter *it = open_shuffled(ds);

    (void)next_shuffled(it);
    mr_engine_close(it);
    assert_int_equal(paused, 0);
    atomic_store(&shuffle->trial_outcome, outcome(true));
    it = open_shuffled(shuffle); /* nobody pulls it ahead */
    (void)next_shuffled(it);
    mr_engine_close(it);
    assert_int_equal(paused, 0);
    it = open_shuffled(ds);
    (void)next_shuffled(it);
    mr_engine_close(it);
    assert_int_equal(paused, 1);
    mr_dataset_unref(ds);
}

/* Whatever was known when it was saved and when it was restored. */
static void a_shuffle_goes_on_in_the_same_order(void **state)
{
    const uint32_t known[] = {0, outcome(false), outcome(true)};
    mr_dataset *ds = make_shuffled();
    mr_engine_iter *it = open_shuffled(ds);
    int64_t want[SHUFFLED];

    for (int i = 0; i < SHUFFLED; i++) {
        want[i] = next_shuffled(it);
    }
    mr_engine_close(it);
    for (int way = 0; way < 9; way++) {
        void *saved = NULL;
        size_t size = 0;

        atomic_store(&ds->inputs[0]->trial_outcome, known[way / 3]);
        it = open_shuffled(ds);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(next_shuffled(it), want[i]);
        }
        CHECK_OK(mr_engine_save(it, &saved, &size, e));
        mr_engine_close(it);
        atomic_store(&ds->inputs[0]->trial_outcome, known[way % 3]);
        it = open_shuffled(ds);
        CHECK_OK(mr_engine_restore(it, saved, size, e));
        mr_free(saved);
        for (int i = 10; i < SHUFFLED; i++) {
            assert_int_equal(next_shuffled(it), want[i]);
        }
        expect_end(it);
        mr_engine_close(it);
    }
    mr_dataset_unref(ds);
}

static void it_is_saved_either_way(void **state)
{
    mr_engine_iter *it = open_numbers();
    int ways = 0;

    for (int64_t i = 0; i < ELEMENTS && ways != 3; i++) {
        bool in_place = is_in_place();

        expect_next(it, i);
        if (in_place == is_in_place() && (ways & (1 << in_place)) == 0) {
            int before[2] = {paused, resumed};

            expect_copy_to_go_on(it, i + 1);
            paused = before[0];
            resumed = before[1];
            ways |= 1 << in_place;
        }
    }
    assert_int_equal(ways, 3);
    mr_engine_close(it); /* while it is in place */
    assert_true(is_in_place());
}

static void what_takes_long_goes_back_to_a_thread(void **state)
{
    mr_engine_iter *it = open_numbers();
    int64_t i = 0;

    slow_in_place = true;
    while (!is_in_place()) {
        expect_next(it, i++);
    }
    for (int calls = 0; calls < 1000 && is_in_place(); calls++) {
        expect_next(it, i++);
    }
    assert_false(is_in_place());
    expect_next(it, i);
    mr_engine_close(it);
}

/* ---- how much waits ---- */

/* Elements that come one by one, however many are asked for, and at once. */
static mr_dataset *make_small_blocks(void)
{
    return make_one("padded_batch", make_range(0, INT64_C(1) << 40, 1), "batch_size", 1);
}

/* How many blocks wait when the thread has nothing to do any more. */
static uint32_t blocks_when_idle(struct mr_ahead *a)
{
    for (;;) {
        mr_mutex_lock(&a->driver.lock);
        bool idle = a->driver.idle == a->driver.nthreads;
        uint32_t blocks = a->blocks;
        mr_mutex_unlock(&a->driver.lock);
        if (idle) {
            return blocks;
        }
        (void)sched_yield();
    }
}

/* ... because the queue is full. */
static uint32_t blocks_when_full(struct mr_ahead *a)
{
    for (;;) {
        mr_mutex_lock(&a->driver.lock);
        bool full = a->full;
        uint32_t blocks = a->blocks;
        mr_mutex_unlock(&a->driver.lock);
        if (full) {
            return blocks;
        }
        (void)sched_yield();
    }
}

static void wait_for_blocks(struct mr_ahead *a, uint32_t at_least)
{
    while (blocks_when_idle(a) < at_least) {
        (void)sched_yield();
    }
}

struct opened {
    mr_dataset *ds;
    struct mr_env env;
    struct mr_ahead ahead;
};

/* @budget: bytes that may wait; 0: as many as the machine has. */
static void open_ahead(struct opened *o, mr_dataset *ds, uint64_t rows_max, uint64_t budget)
{
    const struct mr_engine_options opts = {.threads = 2, .memory_budget_bytes = budget};
    struct mr_op_iter *input = NULL;

    o->ds = ds;
    CHECK_OK(mr_env_init(&o->env, o->ds, &opts, e));
    struct mr_op_ctx ctx = {.env = &o->env, .path = MR_ROOT_PATH, .outermost = true};
    CHECK_OK(mr_op_open(&ctx, o->ds, &input, e));
    mr_ahead_init(&o->ahead, &o->env, o->ds, input, rows_max);
    o->ahead.unusual = true; /* no trial */
}

static void open_small_blocks(struct opened *o, uint64_t rows_max)
{
    open_ahead(o, make_small_blocks(), rows_max, 0);
    o->ahead.unusual = false;
}

static void close_ahead(struct opened *o)
{
    mr_ahead_close(&o->ahead);
    mr_env_destroy(&o->env);
    mr_dataset_unref(o->ds);
}

/* At most so many elements. */
static void pull_some(struct opened *o, uint32_t rows)
{
    const struct mr_pull pull = {
        .rows = rows, .bytes = MR_BLOCK_BYTES_HINT, .deadline_ms = MR_NO_DEADLINE};
    mr_block *block = NULL;

    CHECK_OK(mr_ahead_pull(&o->ahead, &pull, &block, e));
    mr_block_unref(block);
}

static void pull_one(struct opened *o)
{
    pull_some(o, 1);
}

static void small_blocks_are_counted(void **state)
{
    static const uint64_t sizes[] = {0, 5, 1000};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct opened o;

        open_small_blocks(&o, sizes[i]);
        for (int turn = 0; turn < 3; turn++) {
            pull_one(&o);
            assert_in_range(blocks_when_idle(&o.ahead), 1,
                            sizes[i] > BLOCKS_MAX ? sizes[i] : BLOCKS_MAX);
        }
        close_ahead(&o);
    }
}

/* The thread rests from a full queue on until that is half empty, if blocks are quickly made. */
static void the_thread_is_not_woken_for_each_block(void **state)
{
    struct opened o;

    open_ahead(&o, make_small_blocks(), 0, 0);
    pull_one(&o);
    uint32_t full = blocks_when_full(&o.ahead); /* or one less, if that one was given since */
    uint64_t low = o.ahead.low;

    assert_in_range(full, 8, BLOCKS_MAX);
    assert_in_range(low, full / 2, (full + 1) / 2);
    for (uint32_t left = full - 1; left > low; left--) {
        pull_one(&o);
        assert_int_equal(blocks_when_idle(&o.ahead), left);
    }
    pull_one(&o);
    wait_for_blocks(&o.ahead, (uint32_t)low + 2);
    close_ahead(&o);
}

/* Of what takes long, as much is ready as there is room for. */
static void what_takes_long_is_made_as_soon_as_there_is_room(void **state)
{
    struct opened o;

    atomic_store(&step, SLOW_STEP);
    open_small_blocks(&o, 20);
    for (int i = 0; i < 50; i++) {
        pull_one(&o);
        wait_for_blocks(&o.ahead, 20);
    }
    close_ahead(&o);
}

/* With so many elements in the queue the thread rests; UINT64_MAX: it does not. */
static uint64_t rests_with(struct mr_ahead *a)
{
    MR_LOCK(&a->driver.lock);
    return a->full ? a->rows : UINT64_MAX;
}

/* ... even if all that waits is what is left of one block. */
static void what_waits_is_counted_in_elements(void **state)
{
    const uint32_t room = 50;
    struct opened o;

    open_ahead(&o, make_range(0, INT64_C(1) << 40, 1), room, 0);
    pull_one(&o);
    (void)blocks_when_full(&o.ahead); /* each with twice the elements of the one before */
    atomic_store(&step, SLOW_STEP);
    do {
        pull_some(&o, MANY);
    } while (blocks_when_full(&o.ahead) > 1);
    for (int i = 0; i < MANY; i++) {
        pull_one(&o);
        assert_true(rests_with(&o.ahead) >= room);
    }
    close_ahead(&o);
}

/* ... and even if the last call was quick: others behind it may take long again. */
static void what_takes_long_now_and_then_is_made_as_soon(void **state)
{
    const uint32_t room = 20;
    struct opened o;

    atomic_store(&step, SLOW_STEP);
    open_ahead(&o, make_small_blocks(), room, 0);
    pull_one(&o);
    (void)blocks_when_full(&o.ahead);
    atomic_store(&step, QUICK_STEP / 10);
    for (int i = 0; i < 5; i++) {
        pull_one(&o);
        assert_true(rests_with(&o.ahead) >= room);
        wait_for_blocks(&o.ahead, room);
        assert_int_equal(o.ahead.slow, 0);
    }
    close_ahead(&o);
}

/* What there is beyond the elements that were asked for gives way, as does what is automatic: of
 * blocks that double, one more than there is memory for. */
static void small_blocks_have_no_room_where_there_is_no_memory(void **state)
{
    const uint64_t budget = 10000;
    static const uint64_t sizes[] = {0, 1};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct opened o;

        open_ahead(&o, make_range(0, INT64_C(1) << 40, 1), sizes[i], budget);
        for (int turn = 0; turn < 3; turn++) {
            pull_one(&o);
            (void)blocks_when_full(&o.ahead);
            assert_in_range(o.ahead.bytes, budget / 4, 2 * budget);
        }
        close_ahead(&o);
    }
}

/* Such as those that fill the buffer of a shuffle: neither way is tried. */
static void unusual_calls_are_not_measured(void **state)
{
    struct opened o;

    open_ahead(&o, make_small_blocks(), 0, 0);
    for (int i = 0; i < 10000; i++) {
        pull_one(&o);
    }
    assert_int_equal(paused, 0);
    o.ahead.unusual = false;
    for (int i = 0; i < 10000; i++) {
        pull_one(&o);
    }
    assert_true(paused > 0);
    close_ahead(&o);
}

/* What an iterator has found out is kept for the next one, as soon as it has. */
static void what_was_found_out_is_kept(void **state)
{
    struct opened o;
    bool chosen = false;

    open_small_blocks(&o, 0);
    for (int i = 0; i < MANY; i++) {
        pull_one(&o);
        chosen = chosen || o.ahead.trial.phase == MR_TRIAL_RESTING;
        assert_true(mr_ahead_is_known(o.ds) == chosen);
    }
    assert_true(chosen);
    close_ahead(&o);
}

static void the_thread_rests_behind_the_end(void **state)
{
    const struct mr_pull pull = {
        .rows = MANY, .bytes = MR_BLOCK_BYTES_HINT, .deadline_ms = MR_NO_DEADLINE};
    struct opened o;
    mr_block *block = NULL;
    mr_error err;

    open_ahead(&o, make_range(0, 10, 1), 0, 0);
    while (mr_ahead_pull(&o.ahead, &pull, &block, &err) == MR_OK) {
        mr_block_unref(block);
    }
    assert_int_equal(blocks_when_idle(&o.ahead), 0);
    close_ahead(&o);
}

/* ---- which way is found to be the quicker one ---- */

/* Calls in ways that take @ns for an element: how many of @calls were in the second one. */
static int calls_in_second(struct mr_trial *t, const int64_t ns[2], int calls)
{
    int64_t time = t->last != 0 ? t->last : 1;
    int second = 0;

    for (int i = 0; i < calls; i++) {
        time += 10 * ns[t->second];
        second += t->second;
        (void)mr_trial_note(t, time, 10);
    }
    return second;
}

#define LONG 200000 /* calls of 100 us: 20 s */

static void the_quicker_way_is_used(void **state)
{
    struct mr_trial t = {0};

    assert_in_range(calls_in_second(&t, (int64_t[]){10000, 12000}, LONG), 200, LONG / 100);
    assert_false(t.second);
    t = (struct mr_trial){0};
    assert_in_range(calls_in_second(&t, (int64_t[]){12000, 10000}, LONG), LONG * 0.99, LONG - 200);
    assert_true(t.second);
}

/* From the first call on, and for half as long as the one before would have kept to it: after some
 * that were too short for a choice it is measured again. */
static void the_next_trial_begins_with_the_choice(void **state)
{
    struct mr_trial t = {0};
    struct mr_trial next = {0};

    (void)calls_in_second(&t, (int64_t[]){12000, 10000}, LONG);
    assert_true(t.second && t.rest_ns > 4 * MR_TRIAL_REST_NS_MIN);
    mr_trial_resume(&next, mr_trial_outcome(&t));
    const int64_t half = next.rest_ns;
    assert_in_range(half, t.rest_ns / 2, t.rest_ns / 2 + t.rest_ns / 16);
    assert_int_equal(calls_in_second(&next, (int64_t[]){12000, 10000}, 10000), 10000);
    while (next.rest_ns == half) { /* it is confirmed */
        (void)calls_in_second(&next, (int64_t[]){12000, 10000}, 1);
    }
    assert_int_equal(next.rest_ns, MR_MIN(2 * half, MR_TRIAL_REST_NS_MAX));
    (void)calls_in_second(&next, (int64_t[]){10000, 30000}, LONG); /* and it changes */
    assert_false(next.second);

    t = (struct mr_trial){.phase = MR_TRIAL_RESTING, .rest_ns = MR_TRIAL_REST_NS_MAX};
    next = (struct mr_trial){0};
    mr_trial_resume(&next, mr_trial_outcome(&t));
    assert_int_equal(next.rest_ns, MR_TRIAL_REST_NS_MAX / 2);
    assert_false(next.second);
    for (int i = 0; i < 10; i++) {
        uint32_t outcome = mr_trial_outcome(&next);

        next = (struct mr_trial){0};
        mr_trial_resume(&next, outcome);
    }
    assert_int_equal(next.rest_ns, MR_TRIAL_REST_NS_MIN);
    next = (struct mr_trial){0};
    mr_trial_resume(&next, 0);
    assert_int_equal(next.phase, MR_TRIAL_SETTLING);
}

static void the_first_way_wins_a_draw(void **state)
{
    struct mr_trial t = {0};

    assert_in_range(calls_in_second(&t, (int64_t[]){10000, 9900}, LONG), 200, LONG / 100);
}

/* It was chosen, and is slow now. */
static void what_changes_is_noticed(void **state)
{
    struct mr_trial t = {0};

    (void)calls_in_second(&t, (int64_t[]){12000, 10000}, LONG);
    (void)calls_in_second(&t, (int64_t[]){10000, 30000}, LONG);
    assert_false(t.second);
}

/* All is slow in the beginning, in whatever way. */
static void what_is_measured_first_does_not_count(void **state)
{
    struct mr_trial t = {0};

    while (!t.second) {
        (void)calls_in_second(&t, (int64_t[]){30000, 30000}, 1);
    }
    while (t.phase != MR_TRIAL_RESTING) {
        (void)calls_in_second(&t, (int64_t[]){10000, 12000}, 1);
    }
    assert_false(t.second);
}

/* A pause of the consumer is in one of the two measures. */
static void one_long_pause_does_not_count(void **state)
{
    struct mr_trial t = {0};

    while (t.phase != MR_TRIAL_MEASURING) {
        (void)calls_in_second(&t, (int64_t[]){10000, 12000}, 1);
    }
    t.last += 3 * MR_NS_PER_S;
    (void)mr_trial_note(&t, t.last + 3 * MR_NS_PER_S, 10);
    while (t.phase != MR_TRIAL_RESTING) {
        (void)calls_in_second(&t, (int64_t[]){10000, 12000}, 1);
    }
    assert_false(t.second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(elements_are_the_same_whoever_pulls, begin),
        cmocka_unit_test_setup(it_is_saved_either_way, begin),
        cmocka_unit_test_setup(the_next_iterator_begins_as_the_last_one_worked, begin),
        cmocka_unit_test_setup(a_shuffle_begins_as_the_last_one_worked, begin),
        cmocka_unit_test_setup(a_shuffle_goes_on_in_the_same_order, begin),
        cmocka_unit_test_setup(what_takes_long_goes_back_to_a_thread, begin),
        cmocka_unit_test_setup(elements_are_the_same_whoever_pulls, begin_with_room),
        cmocka_unit_test_setup(it_is_saved_either_way, begin_with_room),
        cmocka_unit_test_setup(what_takes_long_goes_back_to_a_thread, begin_with_room),
        cmocka_unit_test_setup(small_blocks_are_counted, begin),
        cmocka_unit_test_setup(the_thread_is_not_woken_for_each_block, begin),
        cmocka_unit_test_setup(what_takes_long_is_made_as_soon_as_there_is_room, begin),
        cmocka_unit_test_setup(what_waits_is_counted_in_elements, begin),
        cmocka_unit_test_setup(what_takes_long_now_and_then_is_made_as_soon, begin),
        cmocka_unit_test_setup(small_blocks_have_no_room_where_there_is_no_memory, begin),
        cmocka_unit_test_setup(what_was_found_out_is_kept, begin),
        cmocka_unit_test_setup(the_thread_rests_behind_the_end, begin),
        cmocka_unit_test_setup(unusual_calls_are_not_measured, begin),
        cmocka_unit_test(the_quicker_way_is_used),
        cmocka_unit_test(the_next_trial_begins_with_the_choice),
        cmocka_unit_test(the_first_way_wins_a_draw),
        cmocka_unit_test(what_changes_is_noticed),
        cmocka_unit_test(what_is_measured_first_does_not_count),
        cmocka_unit_test(one_long_pause_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
