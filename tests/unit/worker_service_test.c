/* A worker between a dispatcher and clients that do as the test says: registering, reading,
 * sharing, broken streams, splits, the end, errors, stopping. No assertion is about time: waiting
 * is for events. */
#include "worker_service_support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* range(n).map(x -> 100 / (50 - x)): fails at 50. */
static mr_dataset *make_failing(int64_t n)
{
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
    mr_function_unref(fn);
    mr_dataset_unref(range);
    return ds;
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
                       has_one_session); /* who comes later hears that the task is not here */
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

/* Whoever knows the worker's address and all names there are, and was not admitted by a
 * dispatcher. */
static void who_shows_no_ticket_gets_nothing(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    struct fake_open good = {.address = mr_worker_address(f->w),
                             .incarnation = fake_incarnation(f->d),
                             .task = "t1",
                             .client = "a",
                             .session = 1};
    struct fake_open open = good;

    fake_assign(f->d, "t1", "range", -1, 0);
    open.no_ticket = true;
    expect_refusal(f, open, MR_EPERM, "client a shows no ticket of a dispatcher for iteration i1");
    open = good;
    open.iteration = "i2"; /* was admitted to another one */
    expect_refusal(f, open, MR_EPERM, "shows no ticket");

    struct fake_client *c = open_client(f, "t1", "a", 0, N); /* and nothing was taken from it */
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    fake_client_free(c);
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

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, service_setup, service_teardown)

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
        TEST(a_lost_answer_of_a_grant_is_asked_for_again),
        TEST(a_task_that_the_dispatcher_disowns_is_no_failure),
        TEST(a_task_whose_job_is_set_aside_goes_on_when_it_is_there_again),
        TEST(a_failing_pipeline_tells_readers_and_dispatcher),
        TEST(a_dataset_that_is_gone_is_an_error_of_the_task),
        TEST(names_that_are_not_ours_are_refused),
        TEST(who_shows_no_ticket_gets_nothing),
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
