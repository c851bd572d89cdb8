/* Splits: who is given which, and what becomes of those that somebody lost. */
#include "core_support.h"

#include "base/buf.h"
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const int64_t hundred[] = {100};

static bool is_awaited(struct table *t, const char *address)
{
    bool awaited;

    assert_non_null(mr_core_worker_at(t->core, address, &awaited));
    return awaited;
}

/* Just after a takeover nobody is connected: a live worker's place is kept until it has come back,
 * or has not. */
static void who_lived_before_a_takeover_is_awaited(void **state)
{
    struct table *t = *state;

    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    add_worker(t, "w3", "c:1");
    assert_false(is_awaited(t, "a:1"));
    table_take_over(t);
    assert_int_equal(add_worker(t, "w4", "d:1"), MR_OK);
    assert_false(is_awaited(t, "d:1"));
    (void)watch_worker(t, "w2");
    assert_false(is_awaited(t, "b:1")); /* From now on its stream says whether it is there. */
    table_wait(t, 20 * 1000);
    assert_int_equal(beat_worker(t, "w1"), MR_OK); /* It is about to watch. */
    assert_true(is_awaited(t, "c:1"));
    table_wait(t, 20 * 1000); /* more than half a worker timeout in all */
    assert_int_equal(beat_worker(t, "w4"), MR_OK);
    assert_false(is_awaited(t, "c:1"));
    assert_true(is_awaited(t, "a:1"));
}

/* After a takeover all of them come at once. And it is first contact: a leader that was deposed
 * must not capture it. */
static void a_worker_that_finds_the_next_leader_writes_nothing(void **state)
{
    struct table *t = *state;

    add_worker(t, "w1", "a:1");
    assert_true(the_reply(t)->fenced);
    table_take_over(t);
    assert_int_equal(add_worker(t, "w1", "a:1"), MR_OK);
    assert_true(the_reply(t)->fenced);
    assert_int_equal(t->out.nchanges, 0);
}

static void grants_are_larger_when_the_store_must_be_spared(void **state)
{
    struct table *t = *state;
    char iteration[64], w1[128];

    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep_id(iteration, opened(t)->iteration_id);
    snprintf(w1, sizeof w1, "%s", task_of(iteration, "w1", 1));
    assert_int_equal(get_splits(t, "w1", w1, 0, 1, 4), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->count, 4);
    t->grant_ms = 3 * MR_GRANT_MS;
    assert_int_equal(get_splits(t, "w1", w1, 0, 2, 4), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->count, 12);
}

/* That somebody is gone could not be written down. */
static void nobody_is_given_up_while_the_store_is_full(void **state)
{
    struct table *t = *state;

    add_worker(t, "w1", "a:1");
    t->full = true;
    table_wait(t, 200 * 1000);
    assert_int_equal(beat_worker(t, "w1"), MR_OK);
    t->full = false;
    table_wait(t, 200 * 1000);
    assert_int_equal(beat_worker(t, "w1"), MR_ENOTFOUND);
}

static void splits_are_answered_by_number(void **state)
{
    struct table *t = *state;
    char iteration[64], w1[128], w2[128];

    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep_id(iteration, opened(t)->iteration_id);
    snprintf(w1, sizeof w1, "%s", task_of(iteration, "w1", 1));
    snprintf(w2, sizeof w2, "%s", task_of(iteration, "w2", 1));
    assert_int_equal(get_splits(t, "w1", w1, 0, 1, 10), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->first, 0);
    assert_int_equal(splits(t)->ranges[0]->count, 10);
    assert_int_equal(get_splits(t, "w2", w2, 0, 1, 0), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->first, 10);
    assert_int_equal(splits(t)->ranges[0]->count, 8); /* unmeasured: little at first */
    assert_int_equal(get_splits(t, "w1", w1, 0, 1, 99), MR_OK);
    assert_int_equal(t->out.nchanges, 0);
    assert_int_equal(splits(t)->ranges[0]->first,
                     0); /* the same answer again, under the next leader too */
    table_take_over(t);
    assert_int_equal(get_splits(t, "w1", w1, 0, 1, 99), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->first, 0);
    assert_int_equal(splits(t)->ranges[0]->count, 10);
    assert_int_equal(get_splits(t, "w1", w1, 0, 2, 1000), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->first, 18);
    assert_int_equal(splits(t)->ranges[0]->count,
                     21); /* ceil(82 / 4): the others must not run dry */
    assert_int_equal(get_splits(t, "w1", w1, 0, 1, 99), MR_ERANGE);
    assert_int_equal(get_splits(t, "w2", w1, 0, 3, 1), MR_EPRECOND); /* somebody else's task */
    assert_int_equal(get_splits(t, "w1", w1, UINT64_MAX, 3, 1), MR_EINVAL);
    assert_int_equal(get_splits(t, "w1", w1, 0, 4, 1),
                     MR_EPRECOND); /* whose answers are those? The task is closed */
    assert_int_equal(get_splits(t, "w1", w1, 0, 3, 1), MR_EPRECOND);
    assert_int_equal(watch_worker(t, "w1")->n_tasks, 0);
}

static void repetitions_of_a_source_are_shared(void **state)
{
    struct table *t = *state;
    const int64_t three[] = {3};
    char iteration[64], w1[128], w2[128];

    put_dataset(t, "three", FP2, three, 1);
    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "three", .name = "train", .dynamic = true});
    keep_id(iteration, opened(t)->iteration_id);
    snprintf(w1, sizeof w1, "%s", task_of(iteration, "w1", 1));
    snprintf(w2, sizeof w2, "%s", task_of(iteration, "w2", 1));
    for (uint64_t seq = 1; seq <= 3; seq++) {
        get_splits(t, "w1", w1, 0, seq, 5);
        assert_int_equal(splits(t)->ranges[0]->first, seq - 1);
        assert_int_equal(splits(t)->ranges[0]->count, 1);
    }
    get_splits(t, "w1", w1, 0, 4, 5);
    assert_true(splits(t)->end);
    assert_true(the_reply(t)->fenced);
    get_splits(t, "w2", w2, 0, 1, 5); /* it got none of the first */
    assert_true(splits(t)->end);
    get_splits(t, "w2", w2, 1, 2, 5);
    assert_int_equal(splits(t)->ranges[0]->first, 0);
    get_splits(t, "w1", w1, 3, 5,
               5); /* went on early: 2 of repetition 1 and all 3 of 2 are dropped */
    assert_int_equal(splits(t)->ranges[0]->first, 0);
    get_splits(t, "w2", w2, 1, 3, 5);
    assert_true(splits(t)->end);
    char key[128];

    snprintf(key, sizeof key, "cursors/%s/0", iteration);
    assert_string_equal(table_get(t, key),
                        "{\"repetition\":\"3\",\"next\":\"1\",\"dropped\":\"5\"}");
}

static void what_a_lost_worker_held_is_counted_and_not_given_again(void **state)
{
    struct table *t = *state;
    char iteration[64];

    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep_id(iteration, opened(t)->iteration_id);
    get_splits(t, "w1", task_of(iteration, "w1", 1), 0, 1, 25);
    for (int i = 0; i < 61; i++) {
        table_wait(t, 1000);
        beat_worker(t, "w2");
        beat_client(t, "c1", iteration, NULL);
    }
    assert_int_equal(beat_worker(t, "w1"), MR_ENOTFOUND);
    assert_int_equal(get_splits(t, "w1", task_of(iteration, "w1", 1), 0, 2, 25), MR_ENOTFOUND);
    assert_true(watch_client(t, "c1", iteration)->tasks[0]->lost);
    assert_int_equal(add_worker(t, "w1", "a:1"),
                     MR_OK); /* it comes back: another life, a fresh task */
    assert_int_equal(get_splits(t, "w1", task_of(iteration, "w1", 1), 0, 2, 25), MR_EPRECOND);
    assert_int_equal(get_splits(t, "w1", task_of(iteration, "w1", 2), 0, 1, 0), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->first, 25);
    table_take_over(t);
    assert_int_equal(end_task(t, "w1", task_of(iteration, "w1", 2), 0, NULL), MR_OK);
    assert_int_equal(end_task(t, "w2", task_of(iteration, "w2", 1), 0, NULL), MR_OK);
    const Millrace__ClientUpdate *update = watch_client(t, "c1", iteration);

    assert_true(update->finished);
    assert_int_equal(update->end->lost_splits, 25);
    assert_int_equal(update->end->lost_elements, 25000);
    assert_int_equal(update->end->lost_workers, 1);
}

/* Worker w1 comes back and still has task @before, of a life that is lost, or forgotten:
 * @refused. */
static void expect_another_identity(struct table *t, const char *iteration, const char *before,
                                    int refused)
{
    char task[128];

    assert_int_equal(beat_worker(t, "w1"), MR_ENOTFOUND);
    assert_int_equal(add_worker(t, "w1", "a:1"), MR_OK);
    assert_int_equal(watch_worker(t, "w1")->n_tasks, 1);
    snprintf(task, sizeof task, "%s", watch_worker(t, "w1")->tasks[0]->task_id);
    assert_string_not_equal(task, before);
    assert_int_equal(get_splits(t, "w1", before, 0, 2, 25), refused);
    assert_int_equal(get_splits(t, "w1", task, 0, 1, 0), MR_OK);
    assert_int_equal(splits(t)->ranges[0]->first, 25);
    table_take_over(t);
    end_task(t, "w1", before, 0, NULL); /* nobody's */
    assert_false(watch_client(t, "c1", iteration)->finished);
    assert_int_equal(end_task(t, "w1", task, 0, NULL), MR_OK);
    assert_int_equal(end_task(t, "w2", task_of(iteration, "w2", 1), 0, NULL), MR_OK);
    assert_true(watch_client(t, "c1", iteration)->finished);
}

/* Workers w1 and w2 read a DYNAMIC iteration, w1 its first 25 splits. */
static void begin_reading(struct table *t, char iteration[64], char task[128])
{
    add_worker(t, "w1", "a:1");
    add_worker(t, "w2", "b:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep_id(iteration, opened(t)->iteration_id);
    snprintf(task, 128, "%s", task_of(iteration, "w1", 1));
    get_splits(t, "w1", task, 0, 1, 25);
}

static void who_comes_back_after_retention_is_somebody_else(void **state)
{
    struct table *t = *state;
    char iteration[64], before[128];

    begin_reading(t, iteration, before);
    while (table_count(t, "workers/") == 2) {
        table_wait(t, 1000);
        beat_worker(t, "w2");
        beat_client(t, "c1", iteration, NULL);
    }
    expect_another_identity(t, iteration, before, MR_ENOTFOUND);
}

static void whose_record_somebody_deleted_is_somebody_else(void **state)
{
    struct table *t = *state;
    char iteration[64], before[128];

    begin_reading(t, iteration, before);
    for (size_t i = t->count; i-- > 0;) {
        if (strncmp(t->keys[i], "workers/", 8) == 0) {
            table_delete(t, t->keys[i]);
        }
    }
    table_take_over(t);
    assert_int_equal(add_worker(t, "w2", "b:1"), MR_OK);
    expect_another_identity(t, iteration, before, MR_EPRECOND);
}

static void keep_note(void *ctx, bool is_loss, const char *line)
{
    struct mr_buf *notes = ctx;

    mr_buf_printf(notes, "%s%s\n", is_loss ? "! " : "", line);
}

/* One line each in a dispatcher's log, without the moves that only a debugger wants. */
static void who_comes_and_goes_and_what_is_lost_is_noted(void **state)
{
    struct mr_buf notes = MR_BUF_INIT;
    struct mr_core_config config = {.note = keep_note, .trace_ctx = &notes};
    struct table *t = mr_calloc(1, sizeof *t);
    char iteration[64];

    table_open(t, &config);
    assert_int_equal(put_dataset(t, "numbers", FP1, hundred, 1), MR_OK);
    add_worker(t, "w1", "a:1");
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep_id(iteration, opened(t)->iteration_id);
    get_splits(t, "w1", task_of(iteration, "w1", 1), 0, 1, 25);
    add_worker(t, "w2", "a:1"); /* another process at its address */
    end_task(t, "w2", task_of(iteration, "w2", 1), MR_EDATALOSS, "x.tfrecord at 17: corrupt");
    assert_string_equal(
        (const char *)notes.data,
        "worker ba180358.1 at a:1: registered\n"
        "worker ba180358.1 at a:1: superseded\n"
        "! iteration 5.3 of job train: 25 splits lost\n"
        "worker 6e7d5791.1 at a:1: registered\n"
        "! iteration 5.3 of job train: failed, worker a:1: x.tfrecord at 17: corrupt\n");
    mr_buf_free(&notes);
    table_close(t);
    mr_free(t);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, core_setup, core_teardown)
    const struct CMUnitTest tests[] = {
        T(who_lived_before_a_takeover_is_awaited),
        T(splits_are_answered_by_number),
        T(a_worker_that_finds_the_next_leader_writes_nothing),
        T(grants_are_larger_when_the_store_must_be_spared),
        T(nobody_is_given_up_while_the_store_is_full),
        T(repetitions_of_a_source_are_shared),
        T(what_a_lost_worker_held_is_counted_and_not_given_again),
        T(who_comes_back_after_retention_is_somebody_else),
        T(whose_record_somebody_deleted_is_somebody_else),
        T(who_comes_and_goes_and_what_is_lost_is_noted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
