/* A reader that is a consumer of a coordinated job, against a dispatcher and two workers that do as
 * the test says. */
#include "base/sync.h"
#include "client/losses.h"
#include "client/reader_internal.h"
#include "fake_service.h"
#include "fake_turns.h"
#include "wait.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>

#define LONG_MS 20000

struct fixture {
    mr_rpc_runtime *rt;
    struct fake_service d;
    struct fake_turns w[2];
    mr_reader *r;
    struct mr_loss_tally losses;
    /* what the dispatcher says: tasks 0 and 1 take turns from round 0 on */
    Millrace__RoundsUpdate update;
    Millrace__RoundSchedule schedule;
    Millrace__RoundSegment segment;
    Millrace__RoundSegment *segments[1];
    Millrace__RoundOutcome outcome;
    Millrace__RoundOutcome *outcomes[1];
    char *tasks[2];
    uint32_t turns[2];
    uint64_t sessions[2];
    char *closing[1];
};

static void fill_update(struct fixture *f)
{
    millrace__rounds_update__init(&f->update);
    millrace__round_schedule__init(&f->schedule);
    millrace__round_segment__init(&f->segment);
    millrace__round_outcome__init(&f->outcome);
    f->tasks[0] = (char *)(uintptr_t) "task-0";
    f->tasks[1] = (char *)(uintptr_t) "task-1";
    f->turns[1] = 1;
    f->segments[0] = &f->segment;
    f->outcomes[0] = &f->outcome;
    f->segment.tasks = f->turns;
    f->segment.n_tasks = 2;
    f->schedule.tasks = f->tasks;
    f->schedule.n_tasks = 2;
    f->schedule.segments = f->segments;
    f->schedule.n_segments = 1;
    f->schedule.outcomes = f->outcomes;
    f->sessions[0] = f->sessions[1] = 1;
    f->update.horizon = 100;
    f->update.schedule = &f->schedule;
    f->update.sessions = f->sessions;
    f->update.n_sessions = 2;
    f->update.closing = f->closing;
    f->d.rounds = &f->update;
    f->d.consumer_session = 1;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    mr_loss_tally_init(&f->losses);
    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    fake_service_start(&f->d, f->rt, 0);
    fill_update(f);
    for (int i = 0; i < 2; i++) {
        fake_turns_start(&f->w[i], f->rt, f->tasks[i]);
        f->d.tasks[i].id = f->tasks[i];
        f->d.tasks[i].address = f->w[i].address;
        f->d.tasks[i].incarnation = f->w[i].incarnation;
    }
    f->d.ntasks = 2;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    if (f->r != NULL) {
        mr_reader_close(f->r);
    }
    fake_service_stop(&f->d);
    fake_turns_stop(&f->w[0]);
    fake_turns_stop(&f->w[1]);
    mr_rpc_release(f->rt);
    mr_loss_tally_destroy(&f->losses);
    free(f);
    return 0;
}

/* Consumer 1 of 2. @resume < 0: where the others are. */
static void open_reader(struct fixture *f, int64_t resume)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    struct mr_read_options opts = {
        .service = mr_strdup(f->d.address),
        .losses = &f->losses,
        .job.base = PROTOBUF_C_MESSAGE_INIT(&millrace__job_spec__descriptor),
        .job.name = mr_strdup("rounds"),
        .job.trainer = mr_strdup(""),
        .compression = "NONE",
        .job.target_workers = (char *)"AUTO",
        .connect_timeout_ms = PATIENCE_MS,
        .heartbeat_ms = 20,
        .dataset_id = mr_strdup("digits"),
        .job.num_consumers = 2,
        .consumer_index = 1,
        .job.last_round = MILLRACE__LAST_ROUND__LAST_ROUND_PAD,
        .resumes = resume >= 0,
        .resume_round = resume >= 0 ? (uint64_t)resume : 0,
    };

    assert_int_equal(mr_spec_new(&leaf, 1, NULL, &opts.spec, NULL), MR_OK);
    assert_int_equal(mr_reader_open(&opts, &f->r, NULL), MR_OK);
}

/* Both streams are open. */
static void open_streams(struct fixture *f)
{
    open_reader(f, -1);
    fake_turns_wait_opens(&f->w[0], 1);
    fake_turns_wait_opens(&f->w[1], 1);
}

#define NOTHING UINT64_MAX

/* Rounds @a and @b, if they are some; all below @complete are. @opened: the first message of its
 * stream. */
static void send_rounds(struct fake_turns *w, bool opened, uint64_t complete, uint64_t a,
                        uint64_t b)
{
    Millrace__RoundHeader header = MILLRACE__ROUND_HEADER__INIT;
    uint64_t rounds[2] = {a, b};

    header.opened = opened;
    header.complete_below = complete;
    header.rounds = rounds;
    header.n_rounds = (a != NOTHING ? 1u : 0u) + (b != NOTHING ? 1u : 0u);
    fake_turns_send(w, &header, (uint32_t)header.n_rounds);
}

static int pull(struct fixture *f, int timeout_ms, int64_t *value, mr_error *err)
{
    struct mr_want want = {.rows_max = 100};
    mr_block *block = NULL;
    int rc = mr_reader_pull(f->r, want, timeout_ms, &block, err);

    if (rc == MR_OK) {
        assert_int_equal(mr_block_rows(block), 1);
        *value = *(const int64_t *)mr_block_column(block, 0)->data;
        mr_block_unref(block);
    }
    return rc;
}

static void expect_round(struct fixture *f, int64_t round)
{
    int64_t value = -1;

    assert_int_equal(pull(f, LONG_MS, &value, NULL), MR_OK);
    assert_int_equal(value, round);
}

static void expect_nothing_yet(struct fixture *f)
{
    int64_t value = -1;

    assert_int_equal(pull(f, 0, &value, NULL), MR_TIMEOUT);
}

static void expect_error(struct fixture *f, int code, const char *what)
{
    int64_t value;
    mr_error err = {0};

    assert_int_equal(pull(f, LONG_MS, &value, &err), code);
    if (strstr(err.message, what) == NULL) {
        fail_msg("'%s' is not in: %s", what, err.message);
    }
    assert_int_equal(pull(f, 0, &value, &err), code); /* and stays */
}

/* Say to the consumer what was changed by the test under the lock. */
static void push(struct fixture *f)
{
    fake_service_push(&f->d);
}

static void it_says_who_it_is(void **state)
{
    struct fixture *f = *state;

    f->d.from_round = 0;
    open_streams(f);
    assert_int_equal(f->d.num_consumers, 2);
    assert_int_equal(f->d.consumer_index, 1);
    assert_int_equal(f->d.last_round, MILLRACE__LAST_ROUND__LAST_ROUND_PAD);
    assert_int_equal(f->d.resume_round, -1);
    assert_int_equal(f->w[0].open.consumer_index, 1);
    assert_int_equal(f->w[0].open.session, 1);
    assert_int_equal(f->w[0].open.received_below, 0);
    assert_in_range(f->w[0].limit_round, 4, 200);
    assert_in_range(f->w[0].limit_bytes, 1, 64 << 20);
    MR_LOCK(&f->d.lock);
    WAIT_UNTIL(&f->d, f->d.reports > 0);
    assert_int_equal(f->d.report_session, 1);
}

static void rounds_come_in_order_whoever_sends_first(void **state)
{
    struct fixture *f = *state;

    open_streams(f);
    send_rounds(&f->w[1], true, 4, 1, 3);
    fake_turns_wait_received(&f->w[1], 4);
    expect_nothing_yet(f);
    send_rounds(&f->w[0], true, 3, 0, 2);
    for (int64_t round = 0; round < 4; round++) {
        expect_round(f, round);
    }
    expect_nothing_yet(f);
    send_rounds(&f->w[0], false, 5, 4, NOTHING);
    expect_round(f, 4);
}

static void a_round_waits_until_all_have_it(void **state)
{
    struct fixture *f = *state;

    open_streams(f);
    send_rounds(&f->w[1], true, 0, 1, NOTHING);
    send_rounds(&f->w[0], true, 0, 0, NOTHING);
    fake_turns_wait_received(&f->w[0], 1);
    fake_turns_wait_received(&f->w[1], 2);
    expect_nothing_yet(f);
    send_rounds(&f->w[1], false, 2, NOTHING, NOTHING); /* round 1 is; it is not its turn */
    send_rounds(&f->w[0], false, 1, NOTHING, NOTHING); /* a message without elements is enough */
    expect_round(f, 0);
    expect_round(f, 1);
    fake_turns_wait_returned(&f->w[1], 2); /* nothing of it is left here: the worker hears that */
}

static void what_was_complete_without_it_comes_first(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundHeader header = MILLRACE__ROUND_HEADER__INIT;

    open_streams(f);
    send_rounds(&f->w[0], true, 1, 0, NOTHING);
    header.opened = true;
    header.complete_before = 2; /* an earlier session had round 1 */
    fake_turns_send(&f->w[1], &header, 0);
    fake_turns_wait_received(&f->w[0], 1);
    send_rounds(&f->w[0], false, 3, 2, NOTHING);
    fake_turns_wait_received(&f->w[0], 3);
    expect_nothing_yet(f); /* round 0 is complete, and could be void for those who had round 1 */
    send_rounds(&f->w[1], false, 2, 1, NOTHING);
    for (int64_t round = 0; round < 3; round++) {
        expect_round(f, round);
    }
}

/* Worker 0 is lost: the consumer promises not to listen, says what it has, and does as was
 * decided. */
static void close_task(struct fixture *f)
{
    open_streams(f);
    send_rounds(&f->w[0], true, 0, 0, 2);
    send_rounds(&f->w[1], true, 4, 1, 3);
    fake_turns_wait_received(&f->w[0], 3);
    fake_turns_wait_received(&f->w[1], 4);
    mr_mutex_lock(&f->d.lock);
    f->closing[0] = f->tasks[0];
    f->update.n_closing = 1;
    mr_mutex_unlock(&f->d.lock);
    push(f);
    fake_turns_wait_ends(&f->w[0], 1);
    mr_mutex_lock(&f->d.lock);
    WAIT_UNTIL(&f->d, strcmp(f->d.closing, "task-0") == 0);
    assert_int_equal(f->d.held_below, 3);
    mr_mutex_unlock(&f->d.lock);
    expect_nothing_yet(f);
}

/* Of its rounds those below @delivered count. */
static void decide(struct fixture *f, uint64_t delivered)
{
    mr_mutex_lock(&f->d.lock);
    f->outcome.delivered_below = delivered;
    f->outcome.void_below = 100;
    f->schedule.n_outcomes = 1;
    f->update.n_closing = 0;
    mr_mutex_unlock(&f->d.lock);
    push(f);
}

static void what_was_delivered_is_returned_though_nobody_said_so(void **state)
{
    struct fixture *f = *state;

    close_task(f);
    decide(f, 1);
    expect_round(f, 0);
    expect_round(f, 1);
    expect_round(f, 3); /* 2 is void for all, though it is here */
    assert_int_equal(f->w[0].opens, 1);
}

static void what_is_void_is_returned_by_nobody(void **state)
{
    struct fixture *f = *state;

    close_task(f);
    decide(f, 0);
    expect_round(f, 1);
    expect_round(f, 3);
    send_rounds(&f->w[1], false, 6, 5, NOTHING);
    expect_round(f, 5);
}

static void what_others_returned_and_is_not_here_is_an_error(void **state)
{
    struct fixture *f = *state;

    open_streams(f);
    send_rounds(&f->w[0], true, 1, 0, NOTHING);
    send_rounds(&f->w[1], true, 0, NOTHING, NOTHING);
    expect_round(f, 0); /* so it has begun */
    decide(f, 3);
    expect_error(f, MR_EDATALOSS, "round 2");
}

/* It has returned nothing yet: then it begins behind. */
static void who_comes_late_begins_behind_what_was_delivered(void **state)
{
    struct fixture *f = *state;

    open_streams(f);
    decide(f, 3);
    mr_mutex_lock(&f->d.lock);
    WAIT_UNTIL(&f->d, f->d.report_from == 3);
    mr_mutex_unlock(&f->d.lock);
    send_rounds(&f->w[1], true, 4, 1, 3); /* it was asked for both */
    expect_round(f, 3);
}

static void messages_that_cannot_be_are_not_taken(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundHeader header = MILLRACE__ROUND_HEADER__INIT;
    uint64_t rounds[2] = {0, 2};

    open_streams(f);
    header.opened = true;
    header.complete_below = 1;
    header.rounds = rounds;
    header.n_rounds = 2;
    fake_turns_send(&f->w[0], &header, 1); /* of two rounds, one element */
    fake_turns_wait_opens(&f->w[0], 2);
    assert_int_equal(f->w[0].open.received_below, 0); /* nothing of it counts */
    header.n_rounds = 1;
    fake_turns_send(&f->w[0], &header, 2);
    fake_turns_wait_opens(&f->w[0], 3);
    rounds[0] = 2; /* 0 was its first */
    fake_turns_send(&f->w[0], &header, 1);
    fake_turns_wait_opens(&f->w[0], 4);
    assert_int_equal(f->w[0].open.received_below, 0);
    fake_turns_send(&f->w[0], NULL, 0); /* no rounds at all */
    fake_turns_wait_opens(&f->w[0], 5);
    send_rounds(&f->w[0], true, 1, 0, NOTHING);
    send_rounds(&f->w[1], true, 0, NOTHING, NOTHING);
    expect_round(f, 0);
}

static void a_stream_that_breaks_goes_on_where_it_was(void **state)
{
    struct fixture *f = *state;

    open_streams(f);
    send_rounds(&f->w[1], true, 2, 1, NOTHING);
    send_rounds(&f->w[0], true, 1, 0, 2);
    fake_turns_wait_received(&f->w[0], 3);
    uint64_t number = f->w[0].number;
    fake_turns_break(&f->w[0]);
    fake_turns_wait_opens(&f->w[0], 2);
    assert_int_equal(f->w[0].number, number + 1);
    assert_int_equal(f->w[0].open.received_below, 3);
    assert_int_equal(f->w[0].open.returned_below, 0);
    send_rounds(&f->w[0], true, 3, 2, 4); /* once more, and a new one */
    fake_turns_wait_received(&f->w[0], 5);
    for (int64_t round = 0; round < 3; round++) {
        expect_round(f, round);
    }
    expect_nothing_yet(f);
}

static void a_worker_whose_process_is_gone_is_named(void **state)
{
    struct fixture *f = *state;

    open_streams(f);
    fake_turns_stop(&f->w[1]);
    MR_LOCK(&f->d.lock);
    WAIT_UNTIL(&f->d, strcmp(f->d.refusing, f->w[1].incarnation) == 0);
}

/* An attempt that came to nothing for another reason is no sign of life. */
static void only_a_connection_ends_a_refusal(void **state)
{
    struct mr_read_task t = {0};
    mr_error refused = {.code = MR_EUNAVAIL,
                        .message = "Failed to connect to remote host: Connection refused"};
    mr_error late = {.code = MR_EUNAVAIL,
                     .message = "Failed to connect to remote host: FD shutdown"};

    mr_read_note_failure(&t, &late);
    assert_int_equal(t.refused, 0);
    mr_read_note_failure(&t, &refused);
    mr_read_note_failure(&t, &late);
    assert_int_equal(t.refused, 1);
    mr_read_note_failure(&t, &refused);
    assert_int_equal(t.refused, 2);
    t.connected = true;
    mr_read_note_failure(&t, &late);
    assert_int_equal(t.refused, 0);
}

static void a_worker_that_refuses_for_good_ends_the_read_when_it_is_due(void **state)
{
    struct fixture *f = *state;

    open_streams(f);
    send_rounds(&f->w[1], true, 0, NOTHING, NOTHING);
    send_rounds(&f->w[0], true, 1, 0, NOTHING);
    expect_round(f, 0);
    fake_turns_refuse(&f->w[1], MR_EPRECOND);
    expect_error(f, MR_EPRECOND, "as the test says");
}

/* Without its word nothing may be returned: not even the round of another one, which comes
 * before. */
static void a_worker_that_refuses_at_once_ends_the_read_before_it_began(void **state)
{
    struct fixture *f = *state;

    open_streams(f);
    fake_turns_refuse(&f->w[1], MR_EPRECOND);
    send_rounds(&f->w[0], true, 1, 0, NOTHING);
    expect_error(f, MR_EPRECOND, "as the test says");
}

static void elements_of_another_kind_are_an_error(void **state)
{
    struct fixture *f = *state;

    open_streams(f);
    f->w[0].strings = true;
    send_rounds(&f->w[0], true, 1, 0, NOTHING);
    expect_error(f, MR_EINVAL, "");
}

static void another_process_has_its_place(void **state)
{
    struct fixture *f = *state;

    open_streams(f);
    send_rounds(&f->w[0], true, 1, 0, NOTHING);
    send_rounds(&f->w[1], true, 0, NOTHING, NOTHING);
    expect_round(f, 0);
    mr_mutex_lock(&f->d.lock);
    f->sessions[1] = 2;
    mr_mutex_unlock(&f->d.lock);
    push(f);
    expect_error(f, MR_EPRECOND, "another process has taken the place of consumer 1");
}

static void all_are_new(void **state)
{
    struct fixture *f = *state;

    f->update.refused = (char *)(uintptr_t) "all consumers are new; say resume_round";
    open_reader(f, -1);
    expect_error(f, MR_EPRECOND, "resume_round");
}

static void it_resumes_where_it_was_told_to(void **state)
{
    struct fixture *f = *state;

    f->d.from_round = 7;
    open_reader(f, 7);
    fake_turns_wait_opens(&f->w[0], 1);
    fake_turns_wait_opens(&f->w[1], 1);
    assert_int_equal(f->d.resume_round, 7);
    assert_int_equal(f->w[1].open.from_round, 7);
    send_rounds(&f->w[0], true, 9, 8, NOTHING);
    send_rounds(&f->w[1], true, 8, 7, NOTHING);
    expect_round(f, 7);
    expect_round(f, 8);
}

static void what_it_was_to_resume_with_is_gone(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundHeader header = MILLRACE__ROUND_HEADER__INIT;

    f->d.from_round = 7;
    open_reader(f, 7);
    fake_turns_wait_opens(&f->w[1], 1);
    header.opened = true;
    header.kept_from = 11;
    fake_turns_send(&f->w[1], &header, 0);
    expect_error(f, MR_EPRECOND, "round 7");
}

static void it_ends_with_the_iteration(void **state)
{
    struct fixture *f = *state;
    int64_t value;

    open_streams(f);
    send_rounds(&f->w[0], true, 1, 0, NOTHING);
    send_rounds(&f->w[1], true, 0, NOTHING, NOTHING);
    expect_round(f, 0);
    mr_mutex_lock(&f->d.lock);
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    push(f);
    assert_int_equal(pull(f, LONG_MS, &value, NULL), MR_END);
    assert_int_equal(pull(f, LONG_MS, &value, NULL), MR_END);
}

static void it_ends_with_an_error_of_the_iteration(void **state)
{
    struct fixture *f = *state;

    open_streams(f);
    mr_mutex_lock(&f->d.lock);
    f->d.finished = true;
    f->d.error_code = MR_EINVAL;
    mr_mutex_unlock(&f->d.lock);
    push(f);
    expect_error(f, MR_EINVAL, "the iteration failed");
}

/* A new leader may know that it is over, and not how it was. */
static void it_ends_though_nobody_knows_how(void **state)
{
    struct fixture *f = *state;
    int64_t value;

    open_streams(f);
    mr_mutex_lock(&f->d.lock);
    f->d.job_finished = true;
    f->d.forgets_end = true;
    f->d.refuse_heartbeat = MR_ENOTFOUND; /* it is to attach again */
    mr_mutex_unlock(&f->d.lock);
    assert_int_equal(pull(f, LONG_MS, &value, NULL), MR_END);
}

static void who_comes_when_it_is_over_has_nothing(void **state)
{
    struct fixture *f = *state;
    int64_t value;

    f->d.job_finished = true;
    open_reader(f, -1);
    assert_int_equal(pull(f, LONG_MS, &value, NULL), MR_END);
}

/* A worker reads ahead before all consumers are there: it may have failed before this one came. */
static void who_comes_when_it_has_failed_is_told(void **state)
{
    struct fixture *f = *state;

    f->d.job_finished = true;
    f->d.error_code = MR_EINVAL;
    open_reader(f, -1);
    expect_error(f, MR_EINVAL, "the iteration failed");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_says_who_it_is),
        TEST(rounds_come_in_order_whoever_sends_first),
        TEST(a_round_waits_until_all_have_it),
        TEST(what_was_complete_without_it_comes_first),
        TEST(what_was_delivered_is_returned_though_nobody_said_so),
        TEST(what_is_void_is_returned_by_nobody),
        TEST(what_others_returned_and_is_not_here_is_an_error),
        TEST(who_comes_late_begins_behind_what_was_delivered),
        TEST(messages_that_cannot_be_are_not_taken),
        TEST(a_stream_that_breaks_goes_on_where_it_was),
        TEST(a_worker_whose_process_is_gone_is_named),
        cmocka_unit_test(only_a_connection_ends_a_refusal),
        TEST(a_worker_that_refuses_for_good_ends_the_read_when_it_is_due),
        TEST(a_worker_that_refuses_at_once_ends_the_read_before_it_began),
        TEST(elements_of_another_kind_are_an_error),
        TEST(another_process_has_its_place),
        TEST(all_are_new),
        TEST(it_resumes_where_it_was_told_to),
        TEST(what_it_was_to_resume_with_is_gone),
        TEST(it_ends_with_the_iteration),
        TEST(it_ends_with_an_error_of_the_iteration),
        TEST(it_ends_though_nobody_knows_how),
        TEST(who_comes_when_it_is_over_has_nothing),
        TEST(who_comes_when_it_has_failed_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
