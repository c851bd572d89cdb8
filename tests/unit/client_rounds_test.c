/* A consumer's rounds: when one may be returned, promises, outcomes, where a new session begins,
 * what is told. */
#include "client/rounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    mr_client_rounds *rounds;
};

static char *const tasks[] = {(char *)"A", (char *)"B"};

/* A has the even rounds, B the odd ones. @closing: B is; @delivered >= 0: B's rounds below count,
 * up to the horizon. */
static int update(struct fixture *f, uint64_t horizon, bool closing, int64_t delivered)
{
    Millrace__RoundsUpdate update = MILLRACE__ROUNDS_UPDATE__INIT;
    Millrace__RoundSchedule schedule = MILLRACE__ROUND_SCHEDULE__INIT;
    Millrace__RoundSegment first = MILLRACE__ROUND_SEGMENT__INIT,
                           second = MILLRACE__ROUND_SEGMENT__INIT;
    Millrace__RoundSegment *segments[] = {&first, &second};
    Millrace__RoundOutcome outcome = MILLRACE__ROUND_OUTCOME__INIT, *outcomes = &outcome;
    uint32_t both[] = {0, 1}, one[] = {0};
    char *doubt[] = {tasks[1]};

    first.tasks = both;
    first.n_tasks = 2;
    second.from_round = horizon;
    second.tasks = one;
    second.n_tasks = 1;
    outcome.task = 1;
    outcome.delivered_below = (uint64_t)delivered;
    outcome.void_below = horizon;
    schedule.tasks = (char **)(uintptr_t)tasks;
    schedule.n_tasks = 2;
    schedule.segments = segments;
    schedule.n_segments = delivered >= 0 ? 2 : 1;
    schedule.outcomes = &outcomes;
    schedule.n_outcomes = delivered >= 0 ? 1 : 0;
    update.schedule = &schedule;
    update.horizon = horizon;
    update.closing = doubt;
    update.n_closing = closing ? 1 : 0;
    return mr_client_rounds_update(f->rounds, &update, NULL);
}

/* The worker of @task sends its rounds from @first on, @n of them; all below @complete are
 * complete. */
static size_t receive(struct fixture *f, const char *task, uint64_t first, size_t n,
                      uint64_t complete, bool opened, uint64_t complete_before)
{
    Millrace__RoundHeader header = MILLRACE__ROUND_HEADER__INIT;
    uint64_t rounds[8];
    size_t known;

    for (size_t i = 0; i < n; i++) {
        rounds[i] = first + 2 * i;
    }
    header.rounds = rounds;
    header.n_rounds = n;
    header.complete_below = complete;
    header.opened = opened;
    header.complete_before = complete_before;
    assert_int_equal(mr_client_rounds_receive(f->rounds, task, &header, &known, NULL), MR_OK);
    return known;
}

static enum mr_client_rounds_turn turn(struct fixture *f, uint64_t *round)
{
    struct mr_client_rounds_next next;

    assert_int_equal(mr_client_rounds_next(f->rounds, &next, NULL), MR_OK);
    *round = next.round;
    return next.turn;
}

static void take(struct fixture *f, uint64_t expected)
{
    uint64_t round;

    assert_int_equal(turn(f, &round), MR_ROUNDS_TAKE);
    assert_int_equal(round, expected);
    mr_client_rounds_taken(f->rounds);
}

static void begin(struct fixture *f, uint64_t from, bool placed)
{
    struct mr_client_rounds_config config = {
        .session = 2, .from_round = from, .placed = placed, .ahead = 2};

    f->rounds = mr_client_rounds_new(&config);
    assert_non_null(f->rounds);
}

static int setup(void **state)
{
    static struct fixture fixture;

    *state = &fixture;
    begin(&fixture, 0, false);
    assert_int_equal(update(&fixture, 10, false, -1), MR_OK);
    return 0;
}

static int teardown(void **state)
{
    mr_client_rounds_free(((struct fixture *)*state)->rounds);
    return 0;
}

static void what_is_complete_is_returned_in_order(void **state)
{
    struct fixture *f = *state;
    uint64_t round;

    receive(f, "A", 0, 2, 1, true, 0);
    assert_int_equal(turn(f, &round),
                     MR_ROUNDS_WAIT); /* B was not met: it may have completed something */
    receive(f, "B", 1, 1, 0, true, 0);
    take(f, 0);
    assert_int_equal(turn(f, &round), MR_ROUNDS_WAIT);
    receive(f, "B", 1, 0, 2, false, 0);
    take(f, 1);
    assert_int_equal(turn(f, &round), MR_ROUNDS_WAIT); /* round 2 is here, and not complete */
    receive(f, "A", 0, 2, 3, false, 0);
    take(f, 2);
    assert_int_equal(receive(f, "A", 0, 3, 3, false, 0), 2); /* two are known */
}

static void a_new_session_waits_for_what_is_complete(void **state)
{
    struct fixture *f = *state;
    Millrace__ReadRequest request = MILLRACE__READ_REQUEST__INIT;
    uint64_t round;

    receive(f, "A", 0, 1, 1, true, 0);
    receive(f, "B", 1, 1, 8, true, 8);
    assert_int_equal(turn(f, &round), MR_ROUNDS_WAIT);
    assert_true(mr_client_rounds_tell(f->rounds, "B", &request));
    assert_int_equal(request.limit_round, 8); /* whatever its window is */
    receive(f, "B", 3, 3, 8, false, 0);
    take(f, 0);
}

static void a_promise_is_kept_until_the_outcome(void **state)
{
    struct fixture *f = *state;
    Millrace__ConsumerReport report = MILLRACE__CONSUMER_REPORT__INIT;
    uint64_t round, number;

    receive(f, "A", 0, 3, 10, true, 0);
    receive(f, "B", 1, 2, 4, true, 0);
    take(f, 0);
    assert_int_equal(update(f, 10, true, -1), MR_OK);
    assert_int_equal(turn(f, &round), MR_ROUNDS_WAIT); /* round 1 is here and complete, and B's */
    assert_false(mr_client_rounds_wants(f->rounds, "B"));
    assert_int_equal(receive(f, "B", 5, 1, 6, false, 0), 1); /* not listened to */
    assert_true(mr_client_rounds_must_report(f->rounds));
    number = mr_client_rounds_report(f->rounds, &report);
    assert_int_equal(report.n_closing, 1);
    assert_string_equal(report.closing[0]->task_id, "B");
    assert_int_equal(report.closing[0]->held_below, 4);
    mr_client_rounds_reported(f->rounds, number);
    assert_false(mr_client_rounds_must_report(f->rounds));
    assert_int_equal(update(f, 10, false, 2), MR_OK);
    take(f, 1);
    take(f, 2);
    take(f, 4); /* 3 is void, though it is here */
}

static void who_lacks_what_was_delivered_begins_behind_it(void **state)
{
    struct fixture *f = *state;
    uint64_t round;

    receive(f, "A", 0, 2, 4, true, 4);
    assert_int_equal(update(f, 10, false, 4), MR_OK); /* B's rounds 1 and 3 */
    assert_int_equal(mr_client_rounds_first(f->rounds), 4);
    assert_int_equal(turn(f, &round), MR_ROUNDS_WAIT);
    assert_int_equal(round, 4);
}

static void who_is_to_begin_there_or_not_at_all_fails(void **state)
{
    struct fixture *f = *state;

    mr_client_rounds_free(f->rounds);
    begin(f, 0, true);
    assert_int_equal(update(f, 10, false, 4), MR_EPRECOND);
    assert_int_equal(mr_client_rounds_next(f->rounds, &(struct mr_client_rounds_next){0}, NULL),
                     MR_EPRECOND);
}

static void in_the_middle_nothing_may_be_missing(void **state)
{
    struct fixture *f = *state;

    receive(f, "A", 0, 2, 4, true, 0);
    receive(f, "B", 1, 0, 0, true, 0);
    take(f, 0);
    assert_int_equal(update(f, 10, false, 4), MR_EDATALOSS);
}

static void nobody_passes_the_horizon(void **state)
{
    struct fixture *f = *state;
    uint64_t round;

    receive(f, "A", 0, 6, 100, true, 0);
    receive(f, "B", 1, 6, 100, true, 0);
    for (uint64_t i = 0; i < 10; i++) {
        take(f, i);
    }
    assert_int_equal(turn(f, &round), MR_ROUNDS_WAIT);
    assert_true(mr_client_rounds_must_report(f->rounds));
    mr_client_rounds_finish(f->rounds);
    assert_int_equal(turn(f, &round), MR_ROUNDS_END);
}

static void a_place_that_is_taken_is_lost(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundsUpdate update = MILLRACE__ROUNDS_UPDATE__INIT;
    uint64_t sessions[] = {3};

    update.sessions = sessions;
    update.n_sessions = 1;
    assert_int_equal(mr_client_rounds_update(f->rounds, &update, NULL), MR_EPRECOND);
}

static void the_end_is_acknowledged(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundHeader header = MILLRACE__ROUND_HEADER__INIT;
    Millrace__ReadRequest request = MILLRACE__READ_REQUEST__INIT;
    uint64_t round;
    size_t first;

    receive(f, "A", 0, 2, 4, true, 0);
    header.opened = true;
    header.ended = true;
    header.end_round = 1;
    assert_int_equal(mr_client_rounds_receive(f->rounds, "B", &header, &first, NULL), MR_OK);
    assert_true(mr_client_rounds_tell(f->rounds, "B", &request));
    assert_int_equal(request.received_below, 2);
    assert_int_equal(request.returned_below, 2); /* it has nothing that is still to be returned */
    take(f, 0);
    take(f, 2);
    assert_int_equal(turn(f, &round), MR_ROUNDS_WAIT);
    header.end_round = 3;
    assert_int_equal(mr_client_rounds_receive(f->rounds, "B", &header, &first, NULL), MR_EDATALOSS);
}

/* Its position is beyond rounds that nobody has: whoever decides has to know that. */
static void a_promise_names_the_end(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundHeader header = MILLRACE__ROUND_HEADER__INIT;
    Millrace__ConsumerReport report = MILLRACE__CONSUMER_REPORT__INIT;
    size_t first;

    receive(f, "A", 0, 2, 4, true, 0);
    header.opened = true;
    header.ended = true;
    header.end_round = 1;
    assert_int_equal(mr_client_rounds_receive(f->rounds, "B", &header, &first, NULL), MR_OK);
    take(f, 0);
    take(f, 2);
    assert_int_equal(update(f, 10, true, -1), MR_OK);
    assert_true(mr_client_rounds_report(f->rounds, &report) != 0);
    assert_int_equal(report.position, 3);
    assert_string_equal(report.closing[0]->task_id, "B");
    assert_int_equal(report.closing[0]->held_below, 0);
    assert_true(report.closing[0]->ended);
    assert_int_equal(report.closing[0]->end_round, 1);
}

static void a_message_that_cannot_be_is_refused(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundHeader header = MILLRACE__ROUND_HEADER__INIT;
    uint64_t rounds[] = {2};
    size_t first;

    header.rounds = rounds;
    header.n_rounds = 1;
    assert_int_equal(mr_client_rounds_receive(f->rounds, "A", &header, &first, NULL),
                     MR_EDATALOSS); /* 0 is missing */
    rounds[0] = 1;
    assert_int_equal(mr_client_rounds_receive(f->rounds, "A", &header, &first, NULL),
                     MR_EDATALOSS); /* B's turn */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(what_is_complete_is_returned_in_order),
        CASE(a_new_session_waits_for_what_is_complete),
        CASE(a_promise_is_kept_until_the_outcome),
        CASE(who_lacks_what_was_delivered_begins_behind_it),
        CASE(who_is_to_begin_there_or_not_at_all_fails),
        CASE(in_the_middle_nothing_may_be_missing),
        CASE(nobody_passes_the_horizon),
        CASE(a_place_that_is_taken_is_lost),
        CASE(the_end_is_acknowledged),
        CASE(a_promise_names_the_end),
        CASE(a_message_that_cannot_be_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
