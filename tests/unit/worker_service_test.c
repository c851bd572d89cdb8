/* A worker between a dispatcher and clients that do as the test says: registering, reading,
 * sharing, broken streams, splits, the end, errors, stopping. No assertion is about time: waiting
 * is for events. */
#include "base/limits.h"
#include "engine/engine.h"
#include "rpc/port.h"
#include "tests/support/h2.h"
#include "tests/support/port.h"
#include "worker/worker.h"
#include "worker_fake.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define N 1000
#define SHORT 100
#define HOST_TASKS 2 /* at work at once, of the worker that has few */
#define LONG_MS 60000
#define BUDGET_MIB 64 /* of the worker that has little memory */
#define OTHER_HOST "127.0.0.2"
#define WAITING 4 /* streams for tasks that are not here, of that worker */

struct fixture {
    mr_rpc_runtime *rt;
    struct fake_dispatcher *d;
    mr_worker *w;
};

/* range(n).map(x -> 100 / (50 - x)): fails at 50. */
static mr_dataset *make_failing(int64_t n)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    mr_dataset *range = fake_range(n);
    mr_builder *b;
    mr_block *constant;
    mr_function *fn;
    mr_dataset *ds;
    uint32_t fifty;
    uint32_t hundred;
    uint32_t out;
    size_t nout;
    mr_error err;

    assert_int_equal(mr_builder_new(mr_dataset_spec(range), NULL, &b, NULL), MR_OK);
    for (int i = 0; i < 2; i++) {
        struct mr_column column = {
            .kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &(int64_t){i == 0 ? 50 : 100}};

        assert_int_equal(mr_block_new(1, &column, 1, &constant, NULL), MR_OK);
        assert_int_equal(mr_builder_constant(b, constant, i == 0 ? &fifty : &hundred, NULL), MR_OK);
        mr_block_unref(constant);
    }
    uint32_t sub[2] = {fifty, 0};
    if (mr_builder_add(b, "sub", sub, 2, NULL, 0, NULL, 0, &out, 1, &nout, &err) != MR_OK) {
        fail_msg("%s", err.message);
    }
    uint32_t div[2] = {hundred, out};
    assert_int_equal(mr_builder_add(b, "floor_div", div, 2, NULL, 0, NULL, 0, &out, 1, &nout, NULL),
                     MR_OK);
    assert_int_equal(mr_builder_finish(b, &out, 1, NULL, &fn, NULL), MR_OK);
    mr_builder_free(b);
    if (mr_dataset_apply("map", &range, 1, NULL, 0, &fn, 1, NULL, &ds, &err) != MR_OK) {
        fail_msg("%s", err.message);
    }
    (void)leaf;
    mr_function_unref(fn);
    mr_dataset_unref(range);
    return ds;
}

static mr_worker *start_worker(struct fixture *f, struct mr_worker_options opts)
{
    char list[64];
    mr_worker *w;
    mr_error err;

    (void)snprintf(list, sizeof list, "127.0.0.1:%d", fake_dispatcher_port(f->d));
    opts.dispatchers = list;
    if (mr_worker_start(&opts, &w, &err) != MR_OK) {
        fail_msg("%s", err.message);
    }
    return w;
}

static int setup_with(void **state, struct mr_worker_options opts)
{
    struct fixture *f = mr_calloc(1, sizeof *f);
    mr_dataset *ds = fake_range(N);

    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    f->d = fake_dispatcher_new(f->rt, mr_test_port());
    fake_add_dataset(f->d, "range", ds);
    mr_dataset_unref(ds);
    ds = fake_range(SHORT);
    fake_add_dataset(f->d, "short", ds);
    mr_dataset_unref(ds);
    f->w = start_worker(f, opts);
    assert_int_equal(mr_worker_wait_registered(f->w, 30000, NULL), MR_OK);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, (struct mr_worker_options){0});
}

static int setup_small(void **state)
{
    return setup_with(
        state, (struct mr_worker_options){.tasks_max = 2 * HOST_TASKS, .waiting_max = WAITING});
}

static int setup_tight(void **state)
{
    return setup_with(state,
                      (struct mr_worker_options){.memory_budget_bytes = BUDGET_MIB * MR_MIB});
}

/* Whoever finds no room for a definition there is told at once. */
static int setup_hasty(void **state)
{
    return setup_with(state, (struct mr_worker_options){.memory_budget_bytes = BUDGET_MIB * MR_MIB,
                                                        .definition_wait_ms = 1});
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mr_worker_free(f->w);
    fake_dispatcher_free(f->d);
    mr_rpc_release(f->rt);
    mr_free(f);
    return 0;
}

static struct fake_client *open_client(struct fixture *f, const char *task, const char *client,
                                       uint64_t resume_from, uint64_t credit)
{
    struct fake_open open = {.address = mr_worker_address(f->w),
                             .incarnation = fake_incarnation(f->d),
                             .task = task,
                             .client = client,
                             .session = 1,
                             .resume_from = resume_from,
                             .credit = credit};

    return fake_client_open(f->rt, &open);
}

static void assert_all_once(const unsigned *seen, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(seen[i], 1);
    }
}

static void one_client_reads_it_all(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, 2);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_wait_delivered(f->d, "t1", N);
    fake_client_free(c);
}

/* A request has a size: what does not fit into one heartbeat goes with another. */
static void many_tasks_take_several_heartbeats(void **state)
{
    enum { TASKS = 15, NAME_BYTES = 5000 };
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    static char names[TASKS][NAME_BYTES + 1];

    for (size_t i = 0; i < TASKS; i++) {
        memset(names[i], 'a' + (int)i, NAME_BYTES);
        fake_assign(f->d, names[i], "range", -1, 0);
    }
    struct fake_client *c = open_client(f, names[TASKS - 1], "a", 0, 2);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    fake_wait_delivered(f->d, names[TASKS - 1], N);
    fake_client_free(c);
}

static void a_client_may_come_before_its_task(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    struct fake_client *c = open_client(f, "t1", "a", 0, 2);

    fake_wait_heartbeats(f->d, 2);
    fake_assign(f->d, "t1", "range", -1, 0);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    fake_client_free(c);
}

static void the_end_is_not_reported_before_all_arrived(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;
    uint64_t got = 0;
    bool end = false;

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, N);
    while (!end && fake_client_next(c, &m)) {
        got += m.header->elements;
        end = m.header->end;
        mr_frame_content_free(&m);
    }
    assert_int_equal(got, N);
    fake_wait_heartbeats(f->d, 3);
    assert_false(fake_has_ended(f->d, "t1"));
    fake_client_credit(c, N, N);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(c);
}

static void a_report_is_repeated_until_it_is_taken(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_fail_once(f->d, "TaskEnded", MR_EUNAVAIL);
    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, 2);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(c);
}

static void a_broken_stream_loses_and_doubles_nothing(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    struct mr_frame_content m;
    uint64_t have = 0;

    fake_assign(f->d, "t1", "range", -1, 0);
    /* Several times: take a message, know a part of it, break off without a word. */
    for (int i = 0; i < 5; i++) {
        struct fake_client *c = open_client(f, "t1", "a", have, have + 40);

        assert_true(fake_client_next(c, &m));
        assert_int_equal(m.header->first_element, have);
        const int64_t *data = mr_block_column(m.blocks[0], 0)->data;
        uint32_t keep = (mr_block_rows(m.blocks[0]) + 1) / 2;
        for (uint32_t r = 0; r < keep; r++) {
            seen[data[r]]++;
        }
        have += keep;
        mr_frame_content_free(&m);
        fake_client_free(c);
    }
    struct fake_client *c = open_client(f, "t1", "a", have, have + 2);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(c);
}

static void what_a_leaving_client_had_not_received_goes_on(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    struct mr_frame_content m;

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *a = open_client(f, "t1", "a", 0, 100);
    assert_true(fake_client_next(a, &m));
    seen[*(const int64_t *)mr_block_column(m.blocks[0], 0)->data]++; /* It takes one, and goes. */
    mr_frame_content_free(&m);
    fake_client_done(a, 1);
    while (fake_client_next(a, &m)) {
        mr_frame_content_free(&m);
    }
    struct fake_client *b = open_client(f, "t1", "b", 0, 2);
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(a);
    fake_client_free(b);
}

static void what_a_leaving_client_had_not_used_goes_on(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    struct mr_frame_content m;
    uint64_t got = 0;

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *a = open_client(f, "t1", "a", 0, 100);
    while (got < 100 && fake_client_next(a, &m)) {
        const int64_t *data = mr_block_column(m.blocks[0], 0)->data;

        seen[data[0]] += got == 0; /* It uses the first of a hundred, and goes. */
        got += m.header->elements;
        mr_frame_content_free(&m);
    }
    assert_int_equal(got, 100);
    fake_client_give_back(a, 100, 1);
    assert_int_equal(fake_client_wait_end(a), MR_OK);
    struct fake_client *b = open_client(f, "t1", "b", 0, 2);
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    assert_int_equal(fake_abandoned(f->d, "t1"), 0);
    fake_client_free(a);
    fake_client_free(b);
}

static void what_a_dead_client_takes_along_is_in_the_end(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    struct mr_frame_content m;
    uint64_t got = 0;

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *a = open_client(f, "t1", "a", 0, 100);
    while (got < 100 && fake_client_next(a, &m)) {
        got += m.header->elements;
        mr_frame_content_free(&m);
    }
    fake_client_returned(a, 100, 100, 60);
    fake_client_free(a);
    struct fake_client *b = open_client(f, "t1", "b", 0, N);
    while (got < N && fake_client_next(b, &m)) {
        got += m.header->elements;
        mr_frame_content_free(&m);
    }
    assert_int_equal(got, N);
    fake_client_credit(b, N, N - 100);
    fake_wait_heartbeats(f->d, 3);
    assert_false(fake_has_ended(f->d, "t1")); /* a may come back */
    fake_release_client(f->d, "a");
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    assert_int_equal(fake_abandoned(f->d, "t1"), 40);
    fake_client_free(b);
}

static void expect_refusal(struct fixture *f, struct fake_open open, int code, const char *word)
{
    struct fake_client *c;
    struct mr_frame_content m;

    open.credit = 1; /* if it is served it is served at once */
    c = fake_client_open(f->rt, &open);
    assert_true(fake_client_next(c, &m));
    assert_int_equal(m.header->code, code);
    assert_int_equal(m.header->elements, 0);
    assert_false(m.header->task_failed);
    assert_non_null(strstr(m.header->message, word));
    mr_frame_content_free(&m);
    assert_false(fake_client_next(c, &m));
    fake_client_free(c);
}

static bool has_one_session(const struct fake_progress *p)
{
    return p->sessions == 1;
}

/* Its stream says why it is refused, and no more: no session is left behind that could be sent
 * something on it. */
static void a_first_message_that_acknowledges_too_much_is_refused(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    struct fake_open wrong = {.address = mr_worker_address(f->w),
                              .incarnation = fake_incarnation(f->d),
                              .task = "t1",
                              .client = "bad",
                              .session = 1,
                              .credit = 1000,
                              .returned = 1};

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *c = open_client(f, "t1", "good", 0, 2);
    expect_refusal(f, wrong, MR_EINVAL, "acknowledged");
    fake_wait_heartbeats(f->d, 1);
    fake_wait_progress(f->d, "t1", has_one_session);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    fake_client_free(c);
}

/* Everybody who comes then is told the end at once; but who is refused is told why, and nothing
 * else is sent on that stream, whatever else happens to the task meanwhile. */
static void who_is_refused_at_the_end_is_told_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;
    struct fake_open wrong = {.address = mr_worker_address(f->w),
                              .incarnation = fake_incarnation(f->d),
                              .task = "t1",
                              .client = "bad",
                              .returned = 1};
    bool end = false;

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *a = open_client(f, "t1", "a", 0, N);
    while (!end) {
        assert_true(fake_client_next(a, &m));
        end = m.header->end;
        mr_frame_content_free(&m);
    }
    fake_client_credit(a, N, N);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    for (uint64_t i = 1; i <= 20; i++) {
        wrong.session = i;
        fake_client_credit(a, N + i, N); /* the worker looks whom it could send something */
        expect_refusal(f, wrong, MR_EINVAL, "acknowledged");
    }
    fake_client_done(a, N);
    assert_int_equal(fake_client_wait_end(a), MR_OK);
    fake_client_free(a);
}

static void a_dead_client_is_replaced_on_the_dispatchers_word(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    struct mr_frame_content m;

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *a = open_client(f, "t1", "a", 0, 100);
    assert_true(fake_client_next(a, &m));
    unsigned sent = m.header->elements;
    mr_frame_content_free(&m);
    struct fake_client *b = open_client(f, "t1", "b", 0, 2);
    fake_release_client(f->d, "a");
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    /* a has acknowledged nothing and may yet use all it was sent, at most its credit: nobody else
     * gets that. */
    unsigned lost = 0;
    for (unsigned i = 0; i < N; i++) {
        assert_true(seen[i] <= 1);
        lost += seen[i] == 0;
    }
    assert_in_range(lost, sent, 100);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(a);
    fake_client_free(b);
}

static void splits_are_asked_for_until_the_end(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_assign(f->d, "t1", "range", N, 37);
    struct fake_client *c = open_client(f, "t1", "a", 0, 2);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    assert_int_equal(fake_grants(f->d), (N + 36) / 37 + 1);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(c);
}

/* ---- at least once ---- */

/* Take messages until @n elements of the session have come. */
static void receive(struct fake_client *c, uint64_t n)
{
    struct mr_frame_content m;
    uint64_t got = 0;

    while (got < n) {
        assert_true(fake_client_next(c, &m));
        got = m.header->first_element + m.header->elements;
        mr_frame_content_free(&m);
    }
    assert_int_equal(got, n);
}

#define GRANTS(first, last) (((UINT64_C(2) << (last)) - 1) & ~((UINT64_C(1) << (first)) - 1))

static void grants_are_finished_when_all_of_them_was_returned(void **state)
{
    struct fixture *f = *state;

    fake_assign_at_least_once(f->d, "t1", "short", SHORT, 10);
    struct fake_client *c = open_client(f, "t1", "a", 0, 100);
    receive(c, 100);
    fake_client_returned(c, 100, 100, 9);
    fake_wait_delivered(f->d, "t1", 100);
    fake_wait_heartbeats(f->d, 2);
    assert_int_equal(fake_finished(f->d, "t1") & GRANTS(1, 10), 0); /* arrived is not returned */
    fake_client_returned(c, 100, 100, 10);
    fake_wait_finished(f->d, "t1",
                       GRANTS(1, 1) | GRANTS(11, 11)); /* the eleventh answer had no splits */
    fake_client_returned(c, 100, 100, 35);
    fake_wait_finished(f->d, "t1", GRANTS(1, 3) | GRANTS(11, 11));
    assert_false(fake_has_ended(f->d, "t1"));
    fake_client_returned(c, 100, 100, 100);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(c);
}

static void what_a_dead_client_had_not_returned_is_given_to_another(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_assign_at_least_once(f->d, "t1", "range", N, 37);
    struct fake_client *a = open_client(f, "t1", "a", 0, 100);
    receive(a, 100);
    fake_client_returned(a, 100, 100, 40);
    fake_wait_delivered(f->d, "t1", 100);
    fake_client_free(a);
    fake_release_client(f->d, "a");
    struct fake_client *b = open_client(f, "t1", "b", 0, 2);
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(seen[i], i < 40 ? 0 : 1);
    }
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(b);
}

/* It hears only later that it is gone, begins anew, and dies. The worker was told already, and asks
 * again. */
static void what_a_client_takes_after_its_release_is_given_to_another(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    struct mr_frame_content m;

    fake_assign_at_least_once(f->d, "t1", "range", N, 37);
    struct fake_client *a = open_client(f, "t1", "a", 0, 100);
    receive(a, 100);
    fake_release_client(f->d, "a");
    while (fake_client_next(a, &m)) { /* the worker ends it */
        mr_frame_content_free(&m);
    }
    fake_client_free(a);
    a = open_client(f, "t1", "a", 0, 50);
    receive(a, 50);
    fake_client_free(a);
    struct fake_client *b = open_client(f, "t1", "b", 0, 2);
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(b);
}

/* The task ends for nobody while one client still has elements in its hands. */
static void the_end_waits_for_what_another_client_has_not_returned(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_assign_at_least_once(f->d, "t1", "range", N, 400);
    struct fake_client *a = open_client(f, "t1", "a", 0, 50);
    receive(a, 50);
    struct fake_client *b = open_client(f, "t1", "b", 0, N);
    uint64_t got = 0;
    struct mr_frame_content m;
    while (got < N - 50) {
        assert_true(fake_client_next(b, &m));
        got = m.header->first_element + m.header->elements;
        assert_false(m.header->end);
        mr_frame_content_free(&m);
    }
    fake_client_returned(b, N, got, got);
    fake_wait_heartbeats(f->d, 2);
    assert_false(fake_has_ended(f->d, "t1"));
    fake_client_done(a, 20); /* it goes, and leaves thirty */
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(seen[i], i >= 20 && i < 50 ? 1 : 0);
    }
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(a);
    fake_client_free(b);
}

/* A recovery task is a task like any other, of an iteration that this worker works for already. */
static void two_tasks_of_one_iteration_are_apart(void **state)
{
    struct fixture *f = *state;
    unsigned first[N] = {0};
    unsigned second[N] = {0};

    fake_assign_at_least_once(f->d, "t1", "range", N, 100);
    fake_assign_at_least_once(f->d, "t1/r1", "short", SHORT, 3);
    struct fake_client *a = open_client(f, "t1", "a", 0, 2);
    struct fake_client *b = open_client(f, "t1/r1", "a", 0, 2); /* the same client reads both */
    assert_int_equal(fake_client_drain(b, second, N, NULL), MR_OK);
    assert_int_equal(fake_wait_ended(f->d, "t1/r1", NULL), MR_OK);
    assert_false(fake_has_ended(f->d, "t1"));
    assert_int_equal(fake_client_drain(a, first, N, NULL), MR_OK);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    assert_all_once(first, N);
    assert_all_once(second, SHORT);
    assert_int_equal(second[SHORT], 0);
    fake_client_free(a);
    fake_client_free(b);
}

/* Stopping drops what was not returned: that finishes nothing. */
static void a_worker_that_stops_finishes_nothing(void **state)
{
    struct fixture *f = *state;

    fake_assign_at_least_once(f->d, "t1", "short", SHORT, 10);
    struct fake_client *c = open_client(f, "t1", "a", 0, 100);
    receive(c, 100);
    fake_client_returned(c, 100, 100, 20);
    fake_wait_finished(f->d, "t1", GRANTS(1, 2) | GRANTS(11, 11));
    mr_worker_stop(f->w, 0);
    assert_int_equal(fake_finished(f->d, "t1"), GRANTS(1, 2) | GRANTS(11, 11));
    assert_false(fake_has_ended(f->d, "t1"));
    fake_client_free(c);
}

static void a_lost_answer_of_a_grant_is_asked_for_again(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_fail_once(f->d, "GetSplits", MR_EUNAVAIL);
    fake_assign(f->d, "t1", "range", N, 400);
    struct fake_client *c = open_client(f, "t1", "a", 0, 2);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    fake_client_free(c);
}

static bool has_a_session(const struct fake_progress *p)
{
    return p->sessions == 1;
}

static bool has_two_sessions(const struct fake_progress *p)
{
    return p->sessions == 2;
}

static void a_task_that_the_dispatcher_disowns_is_no_failure(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;

    fake_fail_once(f->d, "GetSplits", MR_EPRECOND);
    fake_assign(f->d, "t1", "range", N, 400);
    struct fake_client *c = open_client(f, "t1", "a", 0, 2);
    fake_wait_failed(f->d);
    fake_wait_progress(f->d, "t1",
                       has_a_session); /* who comes later hears that the task is not here */
    fake_wait_heartbeats(f->d, 3);
    fake_unassign(f->d, "t1");
    assert_false(
        fake_client_next(c, &m)); /* no end, no error: the stream is over, the client looks again */
    assert_false(fake_has_ended(f->d, "t1"));
    fake_client_free(c);
}

/* Whoever is released in the list that says so hears of it when the worker has taken all of that
 * list. */
static void set_aside(struct fixture *f, const char *released)
{
    fake_hold(f->d);
    fake_release_client(f->d, released);
    fake_set_aside(f->d, "t1");
    fake_tell(f->d);
}

static void a_task_whose_job_is_set_aside_goes_on_when_it_is_there_again(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    struct mr_frame_content m;

    fake_assign(f->d, "t1", "range", N, 100);
    struct fake_client *c = open_client(f, "t1", "a", 0, 10);
    assert_true(fake_client_next(c, &m));
    for (uint32_t r = 0; r < mr_block_rows(m.blocks[0]); r++) {
        seen[((const int64_t *)mr_block_column(m.blocks[0], 0)->data)[r]]++;
    }
    uint64_t got = m.header->elements;
    mr_frame_content_free(&m);
    struct fake_client *b = open_client(f, "t1", "b", 0, 0);
    fake_wait_progress(f->d, "t1", has_two_sessions);
    set_aside(f, "b");
    (void)fake_client_wait_end(b);
    fake_client_free(b);
    fake_client_credit(c, N, got); /* more than its grants hold: it has to ask */
    fake_set_aside(f->d, NULL);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(c);
}

static void a_failing_pipeline_tells_readers_and_dispatcher(void **state)
{
    struct fixture *f = *state;
    mr_dataset *ds = make_failing(N);
    struct mr_frame_content m;
    uint64_t got = 0;
    char *message = NULL;

    fake_add_dataset(f->d, "failing", ds);
    mr_dataset_unref(ds);
    fake_assign(f->d, "t1", "failing", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, N);
    for (;;) {
        assert_true(fake_client_next(c, &m));
        got += m.header->elements;
        bool end = m.header->end;
        if (end) {
            assert_int_equal(m.header->code, MR_EINVAL);
            assert_true(m.header->task_failed);
            assert_true(strlen(m.header->message) > 0);
        }
        mr_frame_content_free(&m);
        fake_client_credit(c, N, got);
        if (end) {
            break;
        }
    }
    assert_int_equal(got, 50); /* all that come before the bad one */
    assert_int_equal(fake_wait_ended(f->d, "t1", &message), MR_EINVAL);
    assert_true(strlen(message) > 0);
    mr_free(message);
    fake_client_free(c);
}

/* Its end, which is an error of that code, for want of memory; *@message is freed with
 * mr_free(). */
static void expect_no_memory(struct fixture *f, const char *task, char **message)
{
    struct fake_client *c = open_client(f, task, "b", 0, 1);

    assert_int_equal(fake_client_drain(c, NULL, 0, message), MR_EEXHAUSTED);
    fake_client_free(c);
}

static bool has_no_session(const struct fake_progress *p)
{
    return p->sessions == 0;
}

/* What a shuffle that nobody reads any more holds cannot be thrown away: whom it keeps from reading
 * is told that. */
static void who_finds_no_memory_is_told_who_has_it(void **state)
{
    struct fixture *f = *state;
    struct mr_attr large = {.name = "batch_size", .kind = MR_ATTR_INT, .i = MR_MIB / 8};
    struct mr_attr buffer = {.name = "buffer_size", .kind = MR_ATTR_INT, .i = BUDGET_MIB * 5 / 8};
    mr_dataset *ds = fake_apply(
        "shuffle", fake_apply("batch", fake_range(INT64_C(1) << 40), &large, 1), &buffer, 1);
    struct mr_frame_content m;
    char *message = NULL;

    fake_add_dataset(f->d, "hungry", ds);
    mr_dataset_unref(ds);
    fake_assign(f->d, "t1", "hungry", -1, 0);
    fake_assign(f->d, "t2", "hungry", -1, 0);
    fake_assign(f->d, "t3", "hungry", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, 1);
    assert_true(fake_client_next(c, &m));
    mr_frame_content_free(&m);
    expect_no_memory(f, "t2", &message);
    assert_ptr_equal(strstr(message, "job j1 holds "), message);
    assert_non_null(strstr(message, " MiB (raise --memory-budget): "));
    mr_free(message);
    fake_client_done(c, 1);
    assert_int_equal(fake_client_wait_end(c), MR_OK);
    fake_client_free(c);
    fake_wait_progress(f->d, "t1", has_no_session);
    expect_no_memory(f, "t3", &message);
    assert_ptr_equal(strstr(message, "job j1 holds "), message);
    assert_non_null(strstr(
        message, " MiB unread (read it, millrace job delete j1, or raise --memory-budget): "));
    assert_non_null(strstr(message, " of which are in use"));
    mr_free(message);
}

/* Half of the budget and more, as a constant; @first makes it another one. Returns how many splits
 * it has. */
static int64_t add_table(struct fixture *f, const char *id, int64_t first)
{
    int64_t splits = 0;
    size_t providers = 0;
    uint32_t n = BUDGET_MIB * 5 / 8 * (MR_MIB / 8);
    int64_t *values = mr_calloc(n, sizeof *values);
    mr_block *block = NULL;

    assert_non_null(values);
    values[0] = first;
    struct mr_column column = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = values};
    assert_int_equal(mr_block_new(n, &column, 1, &block, NULL), MR_OK);
    struct mr_attr tensors = {.name = "tensors", .kind = MR_ATTR_BLOCK, .block = block};
    mr_dataset *ds = fake_apply("from_tensor_slices", NULL, &tensors, 1);
    mr_block_unref(block);
    mr_free(values);
    fake_add_dataset(f->d, id, ds);
    assert_int_equal(mr_dataset_providers(ds, &splits, 1, &providers, NULL), MR_OK);
    assert_int_equal(providers, 1);
    mr_dataset_unref(ds);
    return splits;
}

/* A definition is in use as long as its task is, read or not: whom it keeps out is told whose it
 * is. */
static void who_finds_no_room_for_a_definition_is_told_who_has_it(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;
    char *message = NULL;

    add_table(f, "one", 1);
    add_table(f, "two", 2);
    fake_assign(f->d, "t1", "one", -1, 0);
    fake_assign(f->d, "t2", "two", -1, 0);
    fake_assign(f->d, "t3", "two", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, 1);
    assert_true(fake_client_next(c, &m));
    mr_frame_content_free(&m);
    expect_no_memory(f, "t2", &message);
    assert_ptr_equal(strstr(message, "job j1 holds "), message);
    assert_non_null(strstr(
        message, " MiB (raise --memory-budget): dataset 'two': no room for its definition of "));
    mr_free(message);
    fake_client_done(c, 1);
    assert_int_equal(fake_client_wait_end(c), MR_OK);
    fake_client_free(c);
    fake_wait_progress(f->d, "t1", has_no_session);
    expect_no_memory(f, "t3", &message);
    assert_ptr_equal(strstr(message, "job j1 holds "), message);
    assert_non_null(strstr(
        message,
        " MiB unread (read it, millrace job delete j1, or raise --memory-budget): dataset "));
    mr_free(message);
}

/* It waits for readers as long as its job does, unless the dispatcher is told otherwise. */
static void a_dynamic_task_that_has_the_room_is_named_with_the_way_out(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;
    char *message = NULL;

    fake_assign(f->d, "t1", "one", add_table(f, "one", 1), 1);
    (void)add_table(f, "two", 2);
    fake_assign(f->d, "t2", "two", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, 1);
    assert_true(fake_client_next(c, &m));
    mr_frame_content_free(&m);
    fake_client_done(c, 1);
    assert_int_equal(fake_client_wait_end(c), MR_OK);
    fake_client_free(c);
    fake_wait_progress(f->d, "t1", has_no_session);
    expect_no_memory(f, "t2", &message);
    assert_non_null(
        strstr(message,
               " MiB unread (read it, millrace job delete j1, dispatcher --gc-dynamic, or raise "));
    mr_free(message);
}

static void a_dataset_that_is_gone_is_an_error_of_the_task(void **state)
{
    struct fixture *f = *state;
    char *message = NULL;

    fake_assign(f->d, "t1", "nowhere", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, N);
    assert_int_equal(fake_client_drain(c, NULL, 0, NULL), MR_ENOTFOUND);
    assert_int_equal(fake_wait_ended(f->d, "t1", &message), MR_ENOTFOUND);
    assert_non_null(strstr(message, "nowhere"));
    mr_free(message);
    fake_client_free(c);
}

static unsigned count_threads(const char *name)
{
    DIR *all = opendir("/proc/self/task");
    const struct dirent *entry;
    unsigned n = 0;

    assert_non_null(all);
    while ((entry = readdir(all)) != NULL) {
        char path[512], comm[64] = "";

        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file != NULL) { /* else it has just ended */
            n += fgets(comm, sizeof comm, file) != NULL && strncmp(comm, name, strlen(name)) == 0;
            (void)fclose(file);
        }
    }
    (void)closedir(all);
    return n;
}

static void assign_five(struct fixture *f)
{
    char task[8];

    fake_hold(f->d);
    for (int i = 1; i <= 5; i++) {
        (void)snprintf(task, sizeof task, "t%d", i);
        fake_assign(f->d, task, "short", SHORT, 10);
    }
    fake_tell(f->d);
}

/* Whoever opens jobs and does not read them costs no threads. */
static void a_task_begins_with_its_first_reader(void **state)
{
    struct fixture *f = *state;
    unsigned seen[SHORT] = {0};

    assign_five(f);
    struct fake_client *c =
        open_client(f, "t5", "a", 0, SHORT); /* the last of them: the others have come, too */
    assert_int_equal(fake_client_drain(c, seen, SHORT, NULL), MR_OK);
    assert_all_once(seen, SHORT);
    assert_true(count_threads("mr-task") <= 1);
    assert_true(count_threads("mr-splits") <= 1);
    fake_client_free(c);
}

/* What a client of @task is told first: an element, or that it is refused, and why. */
static int begin_to_read(struct fixture *f, const char *task, const char *word,
                         struct fake_client **ret)
{
    struct mr_frame_content m;

    *ret = open_client(f, task, "a", 0, 1);
    assert_true(fake_client_next(*ret, &m));
    int code = m.header->code;
    assert_true(code == MR_OK ? m.header->elements > 0 : strstr(m.header->message, word) != NULL);
    mr_frame_content_free(&m);
    return code;
}

/* As fake_client_open(), by hand. */
static void open_by_hand(struct fixture *f, struct h2 *h, const char *task, const char *client)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;
    Millrace__ReadOpen open = MILLRACE__READ_OPEN__INIT;
    unsigned char bytes[512] = {0};

    open.worker_incarnation = (char *)(uintptr_t)fake_incarnation(f->d);
    open.task_id = (char *)(uintptr_t)task;
    open.attempt = 1;
    open.client = (char *)(uintptr_t)client;
    open.session = 1;
    req.open = &open;
    req.limit_elements = 1;
    req.limit_bytes = N;
    size_t size = millrace__read_request__get_packed_size(&req);
    assert_in_range(size, 1, 255);
    bytes[4] = (unsigned char)size; /* gRPC's prefix of a message */
    (void)millrace__read_request__pack(&req, bytes + 5);
    assert_int_equal(h2_data(h, h2_call(h, "/millrace.Worker/Read"), bytes, size + 5), size + 5);
}

/* One host has half of them at work. */
static void so_many_tasks_are_at_work_and_no_more(void **state)
{
    struct fixture *f = *state;
    struct fake_client *idle[HOST_TASKS], *c;
    const char *limit =
        "host 127.0.0.1 has 2 of 4 tasks at work (2 are taken in all) and may have no more than it "
        "leaves free: end some of its, or ask again later";

    assign_five(f);
    assert_int_equal(begin_to_read(f, "t1", "", &idle[0]), MR_OK);
    assert_int_equal(begin_to_read(f, "t2", "", &idle[1]), MR_OK);
    assert_int_equal(begin_to_read(f, "t3", limit, &c), MR_EEXHAUSTED);
    fake_client_free(c);

    fake_unassign(f->d, "t1");
    int code = begin_to_read(f, "t3", limit, &c);
    while (code == MR_EEXHAUSTED) { /* until the thread of the one that goes has gone */
        fake_client_free(c);
        code = begin_to_read(f, "t3", limit, &c);
    }
    assert_int_equal(code, MR_OK);
    fake_client_free(c);
    fake_client_free(idle[0]);
    fake_client_free(idle[1]);
}

/* What is said by hand goes over a socket. */
static void needs_sockets(void)
{
    if (strcmp(mr_rpc_transport, "grpc") != 0) {
        skip();
    }
}

static void a_host_leaves_tasks_at_work_to_others(void **state)
{
    struct fixture *f = *state;
    struct fake_client *greedy[HOST_TASKS], *c;
    struct h2 other;

    needs_sockets();
    assign_five(f);
    assert_int_equal(begin_to_read(f, "t1", "", &greedy[0]), MR_OK);
    assert_int_equal(begin_to_read(f, "t2", "", &greedy[1]), MR_OK);
    assert_int_equal(begin_to_read(f, "t3", "tasks at work", &c), MR_EEXHAUSTED);
    fake_client_free(c);
    h2_open_from(&other, mr_worker_address(f->w), OTHER_HOST);
    assert_true(h2_hear(&other, LONG_MS)); /* its settings */
    open_by_hand(f, &other, "t3", "b");
    fake_wait_progress(f->d, "t3", has_one_session);
    h2_close(&other);
    fake_client_free(greedy[0]);
    fake_client_free(greedy[1]);
}

/* Streams of one host that wait for tasks that never come do not keep others from waiting for
 * theirs. */
static void a_host_leaves_waiting_to_others(void **state)
{
    struct fixture *f = *state;
    struct fake_open later = {.address = mr_worker_address(f->w),
                              .incarnation = fake_incarnation(f->d),
                              .task = "later",
                              .client = "a",
                              .session = 1};
    struct h2 greedy;

    needs_sockets();
    h2_open_from(&greedy, mr_worker_address(f->w), OTHER_HOST);
    assert_true(h2_hear(&greedy, LONG_MS)); /* its settings */
    for (size_t i = 0; i < WAITING + 1; i++) {
        open_by_hand(f, &greedy, "none", "b");
    }
    while (greedy.ended == 0) {
        assert_true(h2_hear(&greedy, LONG_MS));
    }
    expect_refusal(f, later, MR_EUNAVAIL, "moved: task later is not at"); /* when it has waited */
    h2_close(&greedy);
}

/* They end one after the other, although few are at work at once. */
static void tasks_that_nobody_reads_end_when_their_worker_drains(void **state)
{
    struct fixture *f = *state;
    char task[8];

    assign_five(f);
    mr_worker_drain(f->w);
    for (int i = 1; i <= 5; i++) {
        (void)snprintf(task, sizeof task, "t%d", i);
        assert_int_equal(fake_wait_ended(f->d, task, NULL), MR_OK);
        assert_true(fake_has_drained(f->d, task));
    }
    assert_int_equal(fake_grants(f->d), 0);
    assert_true(mr_worker_wait_drained(f->w, MR_DRAIN_ENDED, 30000));
}

static void names_that_are_not_ours_are_refused(void **state)
{
    struct fixture *f = *state;
    struct fake_open good = {.address = mr_worker_address(f->w),
                             .incarnation = fake_incarnation(f->d),
                             .task = "t1",
                             .client = "a",
                             .session = 1};
    struct fake_open open;

    fake_assign(f->d, "t1", "range", -1, 0);
    open = good;
    open.incarnation = "somebody else";
    expect_refusal(f, open, MR_EUNAVAIL, "moved");
    open = good;
    open.attempt = 2;
    expect_refusal(f, open, MR_EUNAVAIL, "moved");
    open = good;
    open.task = "t2";
    expect_refusal(f, open, MR_EUNAVAIL, "moved");
    open = good;
    open.cluster = "another";
    expect_refusal(f, open, MR_EUNAVAIL, "works for cluster 'test', not for 'another'");
    open = good;
    open.cluster_incarnation = "00000000000000000000000000000002";
    expect_refusal(f, open, MR_EUNAVAIL, "works for another incarnation of the cluster");
    open = good;
    open.resume_from = 5;
    expect_refusal(f, open, MR_EABORTED, "cannot go on");
}

static void a_task_that_is_taken_away_ends_its_streams(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, 2);
    assert_true(fake_client_next(c, &m));
    mr_frame_content_free(&m);
    fake_unassign(f->d, "t1");
    while (fake_client_next(c, &m)) {
        mr_frame_content_free(&m);
    }
    fake_client_free(c);
    assert_false(fake_has_ended(f->d, "t1"));
}

/* What came after the update that was lost does not follow on what the worker knows: it asks for
 * all. */
static void an_update_that_was_missed_is_made_up_for(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, 2);
    assert_true(fake_client_next(c, &m));
    mr_frame_content_free(&m);
    fake_list_quietly(f->d, "t1", false);
    fake_lose_update(f->d);
    fake_assign(f->d, "t2", "range", -1, 0);
    while (fake_client_next(c, &m)) { /* t1 is dropped after all */
        mr_frame_content_free(&m);
    }
    fake_client_free(c);
    fake_wait_registrations(f->d, 2);
    c = open_client(f, "t2", "a", 0, 2);
    assert_true(fake_client_next(c, &m));
    mr_frame_content_free(&m);
    fake_client_free(c);
}

static void a_forgotten_worker_registers_again(void **state)
{
    struct fixture *f = *state;

    fake_wait_registrations(f->d, 1);
    fake_fail_once(f->d, "WorkerHeartbeat", MR_ENOTFOUND);
    fake_wait_registrations(f->d, 2);
    fake_wait_heartbeats(f->d, 2);
}

/* Another process has our address, or another cluster's dispatcher that of ours: we may have our
 * tasks still. */
static void a_refusal_takes_no_task_away(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    struct mr_frame_content m;

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, 2);
    assert_true(fake_client_next(c, &m));
    for (uint32_t r = 0; r < mr_block_rows(m.blocks[0]); r++) {
        seen[((const int64_t *)mr_block_column(m.blocks[0], 0)->data)[r]]++;
    }
    uint64_t got = m.header->elements;
    mr_frame_content_free(&m);
    fake_fail_once(f->d, "WorkerHeartbeat", MR_EPRECOND);
    fake_wait_registrations(f->d, 2);
    fake_client_credit(c, got + 10, got);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    fake_client_free(c);
}

static void reading_goes_on_while_no_dispatcher_answers(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    int port = fake_dispatcher_port(f->d);
    mr_dataset *ds = fake_range(N);

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, 2);
    struct mr_frame_content m;
    assert_true(fake_client_next(c, &m));
    for (uint32_t r = 0; r < mr_block_rows(m.blocks[0]); r++) {
        seen[((const int64_t *)mr_block_column(m.blocks[0], 0)->data)[r]]++;
    }
    uint64_t got = m.header->elements;
    mr_frame_content_free(&m);
    fake_dispatcher_free(f->d);
    fake_client_credit(c, got + 10, got);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    /* It comes back at the same place and hears of the end. */
    f->d = fake_dispatcher_new(f->rt, port);
    fake_add_dataset(f->d, "range", ds);
    mr_dataset_unref(ds);
    fake_assign(f->d, "t1", "range", -1, 0);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(c);
}

static void stopping_under_load_is_clean(void **state)
{
    struct fixture *f = *state;
    struct fake_client *clients[4];
    struct mr_frame_content m;

    fake_assign(f->d, "t1", "range", -1, 0);
    fake_assign(f->d, "t2", "range", N, 3);
    for (int i = 0; i < 4; i++) {
        char name[8];

        (void)snprintf(name, sizeof name, "c%d", i);
        clients[i] = open_client(f, i % 2 == 0 ? "t1" : "t2", name, 0, 50);
        assert_true(fake_client_next(clients[i], &m));
        mr_frame_content_free(&m);
    }
    mr_worker_stop(f->w, 0);
    assert_int_equal(mr_worker_wait_registered(f->w, 0, NULL), MR_ECANCELED);
    for (int i = 0; i < 4; i++) {
        while (fake_client_next(clients[i], &m)) {
            mr_frame_content_free(&m);
        }
        fake_client_free(clients[i]);
    }
}

static void bad_options_are_named(void **state)
{
    struct fixture *f = *state;
    struct mr_worker_options opts = {0};
    char taken[64];
    mr_worker *w;
    mr_error err;

    assert_int_equal(mr_worker_start(&opts, &w, &err), MR_EINVAL);
    opts.dispatchers = "no port";
    assert_int_equal(mr_worker_start(&opts, &w, &err), MR_EINVAL);
    (void)snprintf(taken, sizeof taken, "127.0.0.1:%d", mr_worker_port(f->w));
    opts.dispatchers = "127.0.0.1:1";
    opts.listen = taken;
    assert_int_equal(mr_worker_start(&opts, &w, &err), MR_EUNAVAIL);
    opts.listen = "127.0.0.1:0";
    opts.advertise = "worker-0.pool:%port%";
    assert_int_equal(mr_worker_start(&opts, &w, &err), MR_OK);
    char want[64];
    (void)snprintf(want, sizeof want, "worker-0.pool:%d", mr_worker_port(w));
    assert_string_equal(mr_worker_address(w), want);
    assert_int_equal(mr_worker_wait_registered(w, 1, &err), MR_TIMEOUT);
    mr_worker_free(w);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_client_reads_it_all),
        TEST(many_tasks_take_several_heartbeats),
        TEST(a_client_may_come_before_its_task),
        TEST(the_end_is_not_reported_before_all_arrived),
        TEST(a_report_is_repeated_until_it_is_taken),
        TEST(a_broken_stream_loses_and_doubles_nothing),
        TEST(what_a_leaving_client_had_not_received_goes_on),
        TEST(what_a_leaving_client_had_not_used_goes_on),
        TEST(what_a_dead_client_takes_along_is_in_the_end),
        TEST(a_first_message_that_acknowledges_too_much_is_refused),
        TEST(who_is_refused_at_the_end_is_told_nothing_else),
        TEST(a_dead_client_is_replaced_on_the_dispatchers_word),
        TEST(splits_are_asked_for_until_the_end),
        TEST(grants_are_finished_when_all_of_them_was_returned),
        TEST(what_a_dead_client_had_not_returned_is_given_to_another),
        TEST(what_a_client_takes_after_its_release_is_given_to_another),
        TEST(the_end_waits_for_what_another_client_has_not_returned),
        TEST(two_tasks_of_one_iteration_are_apart),
        TEST(a_worker_that_stops_finishes_nothing),
        TEST(a_lost_answer_of_a_grant_is_asked_for_again),
        TEST(a_task_that_the_dispatcher_disowns_is_no_failure),
        TEST(a_task_whose_job_is_set_aside_goes_on_when_it_is_there_again),
        TEST(a_failing_pipeline_tells_readers_and_dispatcher),
        TEST(a_dataset_that_is_gone_is_an_error_of_the_task),
        TEST(a_task_begins_with_its_first_reader),
        cmocka_unit_test_setup_teardown(who_finds_no_memory_is_told_who_has_it, setup_tight,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_dynamic_task_that_has_the_room_is_named_with_the_way_out,
                                        setup_hasty, teardown),
        cmocka_unit_test_setup_teardown(who_finds_no_room_for_a_definition_is_told_who_has_it,
                                        setup_hasty, teardown),
        cmocka_unit_test_setup_teardown(so_many_tasks_are_at_work_and_no_more, setup_small,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_host_leaves_tasks_at_work_to_others, setup_small,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_host_leaves_waiting_to_others, setup_small, teardown),
        cmocka_unit_test_setup_teardown(tasks_that_nobody_reads_end_when_their_worker_drains,
                                        setup_small, teardown),
        TEST(names_that_are_not_ours_are_refused),
        TEST(a_task_that_is_taken_away_ends_its_streams),
        TEST(an_update_that_was_missed_is_made_up_for),
        TEST(a_forgotten_worker_registers_again),
        TEST(a_refusal_takes_no_task_away),
        TEST(reading_goes_on_while_no_dispatcher_answers),
        TEST(stopping_under_load_is_clean),
        TEST(bad_options_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
