/* What bounds a job: the verdict as a table, and from heartbeats to the status document, in virtual
 * time. */
#include "core_support.h"

#include "base/base.h"
#include "dispatcher/views/why.h"
#include "millrace/service.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define S UINT64_C(1000000000)

/* ---- the verdict ---- */

/* In tenths of ten seconds. */
struct times {
    unsigned clients, memory, window, splits, pool, others, work[2], storage[2], scarce;
};

struct example {
    const char *what;
    unsigned waited, starved; /* of the readers' ten seconds, in tenths of a second */
    unsigned least, others;   /* coordinated: waited, of two consumers */
    struct times pipeline;
    struct times reading; /* it reads a production, if anything is said here */
    unsigned idle;
    bool young; /* readers have read for a second */
    enum mr_bound bound;
    unsigned permille;
    const char *name;
    const char *place;
};

static const struct example examples[] = {
    {.what = "nobody has read for long",
     .young = true,
     .waited = 5,
     .pipeline = {.work = {100}},
     .bound = MR_BOUND_UNKNOWN},
    {.what = "the trainer works",
     .waited = 20,
     .starved = 20,
     .pipeline = {.clients = 80, .work = {20}},
     .bound = MR_BOUND_TRAINER,
     .permille = 800},
    {.what = "the trainer works, and nothing is known of the pipeline",
     .waited = 20,
     .starved = 20,
     .bound = MR_BOUND_TRAINER,
     .permille = 800},
    {.what = "it waits, and nothing is known of the pipeline",
     .waited = 90,
     .starved = 90,
     .bound = MR_BOUND_UNKNOWN},
    {.what = "operators of the client",
     .waited = 90,
     .starved = 10,
     .pipeline = {.clients = 90, .work = {10}},
     .bound = MR_BOUND_CLIENT,
     .permille = 800},
    {.what = "the reader starves while workers wait for it",
     .waited = 95,
     .starved = 90,
     .pipeline = {.clients = 90, .work = {10}},
     .bound = MR_BOUND_NETWORK,
     .permille = 810},
    {.what = "an operator",
     .waited = 100,
     .starved = 100,
     .pipeline = {.clients = 10, .work = {20, 70}},
     .bound = MR_BOUND_CPU,
     .permille = 700,
     .name = "map (step 1)"},
    {.what = "storage",
     .waited = 100,
     .starved = 100,
     .pipeline = {.work = {20, 20}, .storage = {60}},
     .bound = MR_BOUND_STORAGE,
     .permille = 600,
     .name = "range (step 0)",
     .place = "nfs4 at /data"},
    {.what = "the dispatcher hands out splits slowly",
     .waited = 100,
     .starved = 100,
     .pipeline = {.splits = 70, .work = {30}},
     .bound = MR_BOUND_SPLITS,
     .permille = 700},
    {.what = "a worker has no split while another one works",
     .waited = 100,
     .starved = 100,
     .pipeline = {.clients = 10, .work = {90}},
     .idle = 1,
     .bound = MR_BOUND_SPLITS,
     .permille = 900},
    {.what = "an idle worker is of no concern to a trainer that works",
     .waited = 10,
     .starved = 10,
     .pipeline = {.clients = 90, .work = {10}},
     .idle = 3,
     .bound = MR_BOUND_TRAINER,
     .permille = 900},
    {.what = "the task waits for memory",
     .waited = 100,
     .starved = 100,
     .pipeline = {.memory = 60, .work = {40}},
     .bound = MR_BOUND_MEMORY,
     .permille = 600},
    {.what = "calls are made one by one for want of memory",
     .waited = 100,
     .starved = 100,
     .pipeline = {.work = {100}, .scarce = 80},
     .bound = MR_BOUND_MEMORY,
     .permille = 800},
    {.what = "others have the pool",
     .waited = 100,
     .starved = 100,
     .pipeline = {.work = {30}, .pool = 70},
     .bound = MR_BOUND_POOL,
     .permille = 700},
    {.what = "a consumer that works while the other one waits",
     .waited = 50,
     .starved = 50,
     .least = 10,
     .others = 90,
     .pipeline = {.clients = 90, .work = {10}},
     .bound = MR_BOUND_CONSUMER,
     .permille = 900,
     .place = "consumer 1"},
    {.what = "consumers that wait alike",
     .waited = 90,
     .starved = 90,
     .least = 88,
     .others = 92,
     .pipeline = {.work = {100}},
     .bound = MR_BOUND_CPU,
     .permille = 900,
     .name = "range (step 0)"},
    {.what = "a production: its operator",
     .waited = 100,
     .starved = 100,
     .pipeline = {.work = {0, 100}},
     .reading = {.window = 90, .clients = 10},
     .bound = MR_BOUND_CPU,
     .permille = 900,
     .name = "map (step 1)"},
    {.what = "a production that another reader holds up",
     .waited = 100,
     .starved = 100,
     .pipeline = {.clients = 80, .work = {20}},
     .reading = {.window = 100},
     .bound = MR_BOUND_CONSUMER,
     .permille = 800},
    {.what = "a production whose readers are far away",
     .waited = 100,
     .starved = 100,
     .pipeline = {.clients = 80, .work = {20}},
     .reading = {.clients = 100},
     .bound = MR_BOUND_NETWORK,
     .permille = 1000},
};

static void fill(const struct times *t, struct mr_iteration_times *ret)
{
    *ret = (struct mr_iteration_times){
        .n = 2, .names = {"range (step 0)", "map (step 1)"}, .file_system = "nfs4 at /data"};
    ret->lately.spent[MR_SPENT_CLIENTS] = t->clients * S / 10;
    ret->lately.spent[MR_SPENT_MEMORY] = t->memory * S / 10;
    ret->lately.spent[MR_SPENT_WINDOW] = t->window * S / 10;
    ret->lately.spent[MR_SPENT_SPLITS] = t->splits * S / 10;
    ret->lately.spent[MR_SPENT_POOL] = t->pool * S / 10;
    ret->lately.spent[MR_SPENT_OTHERS] = t->others * S / 10;
    ret->lately.scarce = t->scarce * S / 10;
    for (int i = 0; i < 2; i++) {
        ret->lately.operators[i] =
            (struct mr_operator_times){t->work[i] * S / 10, t->storage[i] * S / 10};
    }
}

static bool is_anything(const struct times *t)
{
    static const struct times nothing;

    return memcmp(t, &nothing, sizeof nothing) != 0;
}

static void judge(const struct example *e, struct mr_iteration_times *pipeline,
                  struct mr_iteration_times *reading, struct mr_why *ret)
{
    const uint64_t elapsed = e->young ? S : 10 * S;
    struct mr_why_in in = {.readers = {.elapsed = elapsed,
                                       .waited = e->waited * S / 10,
                                       .starved = e->starved * S / 10},
                           .nreaders = 1,
                           .coordinated = e->others > 0,
                           .consumer = 1,
                           .least = {.elapsed = 10 * S, .waited = e->least * S / 10},
                           .others = {.elapsed = 10 * S, .waited = e->others * S / 10},
                           .idle = e->idle};

    fill(&e->pipeline, pipeline);
    fill(&e->reading, reading);
    in.pipeline = is_anything(&e->pipeline) ? pipeline : NULL;
    in.reading = is_anything(&e->reading) ? reading : NULL;
    mr_why_judge(&in, ret);
}

static void the_verdict_is_what_most_of_the_time_went_to(void **state)
{
    struct mr_iteration_times pipeline, reading;
    struct mr_why why;

    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        const struct example *e = &examples[i];
        uint32_t sum = 0;

        judge(e, &pipeline, &reading, &why);
        if (why.bound != e->bound || why.permille != e->permille) {
            fail_msg("%s: %s, %u", e->what, mr_bound_name(why.bound), why.permille);
        }
        assert_string_equal(why.name, e->name != NULL ? e->name : "");
        assert_string_equal(why.place, e->place != NULL ? e->place : "");
        assert_true(strlen(why.advice) > 0);
        for (size_t k = 0; k < why.n; k++) {
            assert_true(k == 0 || why.parts[k].permille <= why.parts[k - 1].permille);
            sum += why.parts[k].permille;
        }
        if (is_anything(&e->pipeline) && why.n > 0) { /* each is rounded */
            assert_in_range(sum, 1000 - why.n, 1000 + why.n);
        }
    }
}

static void any_numbers_are_judged(void **state)
{
    struct mr_iteration_times most;
    struct mr_why why;

    memset(&most, 0xff, sizeof most);
    most.n = MR_TIMES_OPERATORS;
    for (int i = 0; i < MR_TIMES_OPERATORS; i++) {
        most.names[i][0] = '\0';
        most.lately.operators[i] = (struct mr_operator_times){UINT64_MAX / 64, UINT64_MAX / 64};
    }
    for (int i = 0; i < MR_SPENT_COUNT; i++) {
        most.lately.spent[i] = UINT64_MAX / 64;
    }
    struct mr_why_in in = {.readers = {UINT64_MAX, UINT64_MAX, UINT64_MAX},
                           .nreaders = 1,
                           .pipeline = &most,
                           .reading = &most};
    mr_why_judge(&in, &why);
    assert_true(why.n <= MR_WHY_PARTS);
}

static void what_is_old_fades(void **state)
{
    assert_int_equal(mr_times_fade(1000, 0), 1000);
    assert_int_equal(mr_times_fade(1000, MR_TIMES_WINDOW_MS), 500);
    assert_true(mr_times_fade(UINT64_MAX, 1) < UINT64_MAX);
    assert_int_equal(mr_times_fade(UINT64_MAX, -5), UINT64_MAX);
    assert_int_equal(mr_times_fade(5, INT64_MAX), 0);
}

/* ---- from heartbeats to the status document ---- */

struct fixture {
    struct table t;
    char it[64];
    uint64_t seconds; /* since the beginning */
};

static int setup(void **state)
{
    struct fixture *f = mr_calloc(1, sizeof *f);

    table_open_usual(&f->t);
    assert_int_equal(open_job(&f->t, (struct open_args){.client = "c1",
                                                        .dataset = "numbers",
                                                        .name = "train",
                                                        .dynamic = true}),
                     MR_OK);
    keep_id(f->it, opened(&f->t)->iteration_id);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    table_close(&f->t);
    mr_free(f);
    return 0;
}

static void say_reader(struct fixture *f, uint64_t waited_percent)
{
    Millrace__ReaderTimes times = MILLRACE__READER_TIMES__INIT;
    Millrace__ClientHeartbeatRequest in = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_CLIENT_HEARTBEAT, .client_heartbeat = &in};
    char client[64];

    keep_id(client, id_of("c1"));
    times.elapsed_ns = f->seconds * S;
    times.waited_ns = times.starved_ns = f->seconds * S / 100 * waited_percent;
    in.client = client;
    in.iteration_id = f->it;
    in.times = &times;
    table_step(&f->t, &command);
    assert_int_equal(the_reply(&f->t)->error.code, MR_OK);
}

/* Workers w1 and w2 say that their tasks worked at @name all the time. */
static void say_tasks(struct fixture *f, const char *name, size_t n)
{
    static const char *const workers[] = {"w1", "w2"};
    Millrace__OperatorTimes one = MILLRACE__OPERATOR_TIMES__INIT;
    Millrace__OperatorTimes *all[64];
    Millrace__TaskTimes times = MILLRACE__TASK_TIMES__INIT;

    one.name = (char *)(uintptr_t)name;
    one.work_ns = f->seconds * S;
    for (size_t i = 0; i < n; i++) {
        all[i] = &one;
    }
    times.operators = all;
    times.n_operators = n;
    times.file_system = (char *)(uintptr_t) "nfs4 at\n/data";
    for (size_t i = 0; i < 2; i++) {
        Millrace__TaskProgress progress = MILLRACE__TASK_PROGRESS__INIT;
        char id[128];

        keep_id(id, task_of(f->it, workers[i], 1));
        progress.task_id = id;
        progress.times = &times;
        assert_int_equal(beat_with_progress(&f->t, workers[i], &progress), MR_OK);
    }
}

static void beat(struct fixture *f, uint64_t seconds, const char *name)
{
    for (uint64_t i = 0; i < seconds; i++) {
        table_wait(&f->t, 1000);
        f->seconds++;
        say_tasks(f, name, 1);
        say_reader(f, 90);
    }
}

static const char *status_of(struct fixture *f)
{
    const struct mr_status_about about = {
        .cluster = "test", .incarnation = "", .leader = "", .version = ""};
    struct mr_command command = {.kind = MR_COMMAND_STATUS, .status = &about};

    table_step(&f->t, &command);
    return ((const Millrace__StatusReply *)the_reply(&f->t)->message)->json;
}

static void heartbeats_become_a_verdict(void **state)
{
    struct fixture *f = *state;

    assert_null(strstr(status_of(f), "\"bound\""));
    beat(f, 10, "map (step 2, train.py:41)");
    const char *json = status_of(f);
    assert_non_null(strstr(json,
                           "\"why\":{\"bound\":\"cpu\",\"permille\":900,\"operator\":\"map (step "
                           "2, train.py:41)\""));
}

/* Sums that are lower than before, and some that grow faster than time goes by. */
static void a_reader_that_begins_anew_does_no_harm(void **state)
{
    struct fixture *f = *state;

    beat(f, 10, "map");
    f->seconds = 0;
    beat(f, 3, "map");
    f->seconds = UINT64_MAX / S / 200;
    beat(f, 3, "map");
    assert_non_null(strstr(status_of(f), "\"bound\":\"cpu\""));
}

static void a_new_leader_begins_anew(void **state)
{
    struct fixture *f = *state;

    beat(f, 10, "map");
    table_take_over(&f->t);
    assert_null(strstr(status_of(f), "\"bound\""));
    assert_true(watch_client(&f->t, "c1", f->it) != NULL);
    beat(f, 10, "map");
    assert_non_null(strstr(status_of(f), "\"bound\":\"cpu\""));
}

/* As many names as it likes: few are kept, and each in few bytes. */
static void what_a_worker_says_is_bounded(void **state)
{
    struct fixture *f = *state;
    char name[4000];

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < 100; i++) {
        name[0] = (char)('a' + i % 20);
        name[1] = '\n';
        table_wait(&f->t, 1000);
        f->seconds++;
        say_tasks(f, name, 64);
        say_reader(f, 90);
    }
    const char *json = status_of(f);
    assert_true(strlen(json) < 10000);
    assert_null(strchr(json, '\n'));
}

static void who_is_silent_is_not_judged(void **state)
{
    struct fixture *f = *state;

    beat(f, 10, "map");
    table_wait(&f->t, MR_TIMES_WINDOW_MS + 1000);
    assert_null(strstr(status_of(f), "\"bound\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verdict_is_what_most_of_the_time_went_to),
        cmocka_unit_test(any_numbers_are_judged),
        cmocka_unit_test(what_is_old_fades),
        cmocka_unit_test_setup_teardown(heartbeats_become_a_verdict, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reader_that_begins_anew_does_no_harm, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_leader_begins_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_worker_says_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_silent_is_not_judged, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
