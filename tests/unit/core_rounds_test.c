/* Coordinated reads, as the dispatcher decides about them: places and sessions, turns and the
 * horizon, what becomes of a lost worker's rounds, the end. Another leader takes over between the
 * steps. */
#include "core_support.h"

#include "base/base.h"
#include "dispatcher/model/rounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const char FP[] = "00000000000000000000000000000001";

struct fixture {
    struct table t;
    char it[64];
    uint64_t from; /* where sessions begin that are not the first */
};

/* Consumer @index of @n of job @job; @resume < 0: no resume_round. */
static int open_named(struct fixture *f, const char *job, const char *client, uint32_t index,
                      int64_t resume, const char *iteration, uint32_t n)
{
    Millrace__OpenRequest request = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__JobSpec spec = MILLRACE__JOB_SPEC__INIT;
    Millrace__ResumeRound round = MILLRACE__RESUME_ROUND__INIT;
    struct mr_command command = {.kind = MR_COMMAND_OPEN, .open = &request};

    spec.name = (char *)(uintptr_t)job;
    spec.num_consumers = n;
    request.client = (char *)(uintptr_t)id_of(client);
    request.dataset_id = (char *)"d";
    request.job = &spec;
    request.consumer_index = index;
    request.iteration_id = (char *)(uintptr_t)iteration;
    round.round = resume < 0 ? 0 : (uint64_t)resume;
    request.resume = resume < 0 ? NULL : &round;
    table_step(&f->t, &command);
    return the_reply(&f->t)->error.code;
}

static int open_as(struct fixture *f, const char *client, uint32_t index, int64_t resume,
                   const char *iteration, uint32_t n)
{
    return open_named(f, "train", client, index, resume, iteration, n);
}

static int open2(struct fixture *f, const char *client, uint32_t index)
{
    return open_as(f, client, index, -1, "", 2);
}

/* A job of three consumers, e0 to e2. */
static void open_three(struct fixture *f)
{
    assert_int_equal(open_named(f, "three", "e0", 0, -1, "", 3), MR_OK);
    snprintf(f->it, sizeof f->it, "%s", opened(&f->t)->iteration_id);
    assert_int_equal(open_named(f, "three", "e1", 1, -1, "", 3), MR_OK);
    assert_int_equal(open_named(f, "three", "e2", 2, -1, "", 3), MR_OK);
}

/* ... whose second one has restarted. */
static int open_another_of_three(struct fixture *f)
{
    return open_named(f, "three", "g1", 1, -1, "", 3);
}

/* Its heartbeat: where it is, and what it says of the task that is closing (NULL: none is). */
static void report_of(struct fixture *f, const char *client, uint64_t session, uint64_t position,
                      Millrace__ClosingReport *closing)
{
    Millrace__ClientHeartbeatRequest request = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;
    Millrace__ConsumerReport said = MILLRACE__CONSUMER_REPORT__INIT;
    struct mr_command command = {.kind = MR_COMMAND_CLIENT_HEARTBEAT, .client_heartbeat = &request};
    const Millrace__ClientUpdate *update = watch_client(&f->t, client, f->it);

    said.ask = update->rounds->ask;
    said.session = session;
    said.from_round = session > 1 && position > 0 ? f->from : 0;
    said.position = position;
    said.returned = position - said.from_round;
    said.closing = &closing;
    said.n_closing = closing != NULL ? 1 : 0;
    request.client = (char *)(uintptr_t)id_of(client);
    request.iteration_id = f->it;
    request.rounds = &said;
    table_step(&f->t, &command);
    assert_int_equal(the_reply(&f->t)->error.code, MR_OK);
    table_wait(&f->t, 1);
}

/* ... namely that it has all its rounds below @held. */
static void report(struct fixture *f, const char *client, uint64_t session, uint64_t position,
                   const char *closing, uint64_t held)
{
    Millrace__ClosingReport doubt = MILLRACE__CLOSING_REPORT__INIT;

    doubt.task_id = (char *)(uintptr_t)closing;
    doubt.held_below = held;
    report_of(f, client, session, position, closing != NULL ? &doubt : NULL);
}

static const Millrace__RoundsUpdate *rounds_of(struct fixture *f, const char *client)
{
    return watch_client(&f->t, client, f->it)->rounds;
}

static int setup(void **state)
{
    static const int64_t hundred[] = {100};
    struct fixture *f = mr_calloc(1, sizeof *f);

    table_open(&f->t, NULL);
    *state = f;
    assert_int_equal(put_dataset(&f->t, "d", FP, hundred, 1), MR_OK);
    add_worker(&f->t, "w1", "a:1");
    add_worker(&f->t, "w2", "b:1");
    assert_int_equal(open2(f, "c0", 0), MR_OK);
    snprintf(f->it, sizeof f->it, "%s", opened(&f->t)->iteration_id);
    assert_int_equal(opened(&f->t)->consumer_session, 1);
    assert_int_equal(opened(&f->t)->from_round, 0);
    assert_int_equal(open2(f, "c1", 1), MR_OK);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    table_close(&f->t);
    mr_free(f);
    return 0;
}

static void workers_take_turns(void **state)
{
    struct fixture *f = *state;
    const Millrace__RoundsUpdate *rounds = rounds_of(f, "c0");

    assert_int_equal(rounds->schedule->n_segments, 1);
    assert_int_equal(rounds->schedule->segments[0]->n_tasks, 2);
    assert_int_equal(rounds->horizon, 16);
    assert_int_equal(rounds->n_sessions, 2);
    const Millrace__WorkerUpdate *update = watch_worker(&f->t, "w2");

    assert_int_equal(update->tasks[0]->rounds->num_consumers, 2);
    assert_int_equal(update->tasks[0]->rounds->spans[0]->first, 1);
    assert_int_equal(update->tasks[0]->rounds->spans[0]->stride, 2);
}

static void whoever_comes_takes_turns_from_the_horizon_on(void **state)
{
    struct fixture *f = *state;

    add_worker(&f->t, "w3", "c:1");
    table_wait(&f->t, 1);
    table_take_over(&f->t);
    const Millrace__RoundsUpdate *rounds = rounds_of(f, "c0");

    assert_int_equal(rounds->schedule->n_segments, 2);
    assert_int_equal(rounds->schedule->segments[1]->from_round, 16);
    assert_int_equal(rounds->schedule->segments[1]->n_tasks, 3);
}

static void the_horizon_moves_with_the_readers(void **state)
{
    struct fixture *f = *state;

    report(f, "c0", 1, 7, NULL, 0);
    assert_int_equal(rounds_of(f, "c0")->horizon, 16);
    report(f, "c0", 1, 8, NULL, 0);
    assert_int_equal(rounds_of(f, "c0")->horizon, 24);
    table_take_over(&f->t);
    assert_int_equal(rounds_of(f, "c0")->horizon, 24);
}

/* At a steady pace it lies fifteen seconds of reading ahead, and takes a write in five seconds or
 * so. */
static void the_horizon_takes_few_writes(void **state)
{
    struct fixture *f = *state;
    char key[80], *last = NULL;
    unsigned writes = 0;

    snprintf(key, sizeof key, "rounds/%s", f->it);
    for (uint64_t second = 1; second <= 60; second++) {
        table_wait(&f->t, 1000);
        report(f, "c0", 1, 100 * second, NULL, 0);
        report(f, "c1", 1, 100 * second, NULL, 0);
        const char *record = table_get(&f->t, key);

        assert_non_null(record);
        writes += second > 10 && strcmp(record, last) != 0 ? 1 : 0;
        assert_true(second <= 10 || rounds_of(f, "c0")->horizon >= 100 * second + 1400);
        free(last);
        last = strdup(record);
    }
    free(last);
    assert_in_range(writes, 1, 50 / 4);
}

static void who_must_mean_the_same_job(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(open_as(f, "c2", 2, -1, "", 3), MR_EINVAL);
    assert_int_equal(open_as(f, "c2", 2, -1, "", 2), MR_EINVAL);
    assert_int_equal(open_as(f, "c2", 0, -1, "", 0), MR_EINVAL);
    /* A repeated call finds its own place again. */
    assert_int_equal(open2(f, "c1", 1), MR_OK);
    assert_int_equal(opened(&f->t)->consumer_session, 1);
}

static void who_restarts_begins_where_the_others_are(void **state)
{
    struct fixture *f = *state;

    report(f, "c0", 1, 5, NULL, 0);
    report(f, "c1", 1, 5, NULL, 0);
    assert_int_equal(open2(f, "c9", 1), MR_EUNAVAIL);
    assert_true((the_reply(&f->t)->error.traits & MR_RETRYABLE) != 0);
    report(f, "c0", 1, 6, NULL, 0);
    assert_int_equal(open2(f, "c9", 1), MR_OK);
    assert_int_equal(opened(&f->t)->consumer_session, 2);
    assert_int_equal(opened(&f->t)->from_round, 6);
    /* Whoever had it does not get it back by saying that it was here before. */
    assert_int_equal(open_as(f, "c1", 1, -1, f->it, 2), MR_EPRECOND);
    assert_int_equal(open2(f, "c1", 1), MR_EPRECOND);
    table_take_over(&f->t);
    assert_int_equal(rounds_of(f, "c9")->sessions[1], 2);
}

static void all_new_is_told_to_all(void **state)
{
    struct fixture *f = *state;

    report(f, "c0", 1, 5, NULL, 0);
    report(f, "c1", 1, 5, NULL, 0);
    assert_int_equal(open2(f, "d1", 1), MR_EUNAVAIL);
    report(f, "c0", 1, 5, NULL, 0);
    assert_int_equal(open2(f, "d1", 1), MR_OK);
    assert_int_equal(open2(f, "d0", 0), MR_EUNAVAIL);
    /* It has gone on with what the one before it had received; consumer 0 has not. */
    f->from = 5;
    report(f, "d1", 2, 8, NULL, 0);
    assert_int_equal(open2(f, "d0", 0), MR_EPRECOND);
    assert_non_null(strstr(the_reply(&f->t)->error.message, "are new"));
    assert_non_null(strstr(the_reply(&f->t)->error.message, "(0: 5 when last heard, 1: 8)"));
    assert_string_not_equal(rounds_of(f, "d1")->refused, "");
    /* With a word from whoever runs the job it goes on. */
    assert_int_equal(open_as(f, "d0", 0, 5, "", 2), MR_OK);
    assert_string_equal(rounds_of(f, "d1")->refused, "");
}

/* Restarts one after the other: who has read a round with one that was there before knows as
 * much. */
static void all_may_restart_in_turn(void **state)
{
    struct fixture *f = *state;

    report(f, "c0", 1, 5, NULL, 0);
    report(f, "c1", 1, 5, NULL, 0);
    assert_int_equal(open2(f, "d1", 1), MR_EUNAVAIL);
    report(f, "c0", 1, 5, NULL, 0);
    assert_int_equal(open2(f, "d1", 1), MR_OK);
    f->from = 5;
    report(f, "d1", 2, 6, NULL, 0);
    report(f, "c0", 1, 6, NULL, 0);
    table_take_over(&f->t);
    assert_int_equal(open2(f, "d0", 0), MR_EUNAVAIL);
    report(f, "d1", 2, 7, NULL, 0);
    assert_int_equal(open2(f, "d0", 0), MR_OK);
    assert_int_equal(opened(&f->t)->from_round, 7);
}

/* Each one that restarts hears where the others are now, not where they were when an earlier one
 * asked. */
static void answers_are_good_until_a_place_is_taken(void **state)
{
    struct fixture *f = *state;

    report(f, "c0", 1, 5, NULL, 0);
    report(f, "c1", 1, 5, NULL, 0);
    assert_int_equal(open2(f, "d1", 1), MR_EUNAVAIL);
    report(f, "c0", 1, 5, NULL, 0);
    assert_int_equal(open2(f, "e1", 1), MR_OK); /* yet another process */
    assert_int_equal(opened(&f->t)->from_round, 5);
    assert_int_equal(open2(f, "f1", 1), MR_EUNAVAIL);
    report(f, "c0", 1, 6, NULL, 0);
    assert_int_equal(open2(f, "f1", 1), MR_OK);
    assert_int_equal(opened(&f->t)->from_round, 6);
}

/* Of those that are half a round apart, the one that is ahead: what it has returned nobody can have
 * again. */
static void who_restarts_begins_where_the_furthest_is(void **state)
{
    static const struct {
        const char *client;
        uint64_t position;
    } others[] = {{"e0", 5}, {"e2", 6}};
    struct fixture *f = *state;

    open_three(f);
    assert_int_equal(open_another_of_three(f), MR_EUNAVAIL);
    for (size_t i = 0; i < 2; i++) {
        report(f, others[i].client, 1, others[i].position, NULL, 0);
    }
    assert_int_equal(open_another_of_three(f), MR_OK);
    assert_int_equal(opened(&f->t)->from_round, 6);
}

/* It is told to ask again, and why. */
static void expect_another_to_wait(struct fixture *f, const char *why)
{
    assert_int_equal(open_another_of_three(f), MR_EUNAVAIL);
    assert_true((the_reply(&f->t)->error.traits & MR_RETRYABLE) != 0);
    assert_non_null(strstr(the_reply(&f->t)->error.message, why));
}

/* Somebody who left lets the others go on with what was complete, each at its own pace: where they
 * come to rest is where the new one belongs. */
static void who_restarts_waits_until_the_others_have_come_together(void **state)
{
    struct fixture *f = *state;

    open_three(f);
    assert_int_equal(open_another_of_three(f), MR_EUNAVAIL);
    report(f, "e0", 1, 5, NULL, 0);
    report(f, "e2", 1, 14, NULL, 0);
    expect_another_to_wait(f, "0: 5, 1: not known, 2: 14");
    table_wait(&f->t, MR_STILL_MS - 10);
    report(f, "e0", 1, 9, NULL, 0);
    table_wait(&f->t, MR_STILL_MS - 10);
    expect_another_to_wait(f, "being asked");
    report(f, "e2", 1, 14, NULL, 0);
    report(f, "e0", 1, 9, NULL, 0);
    expect_another_to_wait(f, "0: 9, 1: not known, 2: 14");
    report(f, "e0", 1, 12, NULL, 0);
    expect_another_to_wait(f, "0: 12, 1: not known, 2: 14");
    report(f, "e0", 1, 14, NULL, 0);
    assert_int_equal(open_another_of_three(f), MR_OK);
    assert_int_equal(opened(&f->t)->from_round, 14);
}

/* Those that stand apart are of no one round. */
static void who_restarts_is_told_that_the_others_stand_apart(void **state)
{
    struct fixture *f = *state;

    open_three(f);
    report(f, "e0", 1, 5, NULL, 0);
    report(f, "e2", 1, 14, NULL, 0);
    table_wait(&f->t, MR_STILL_MS);
    assert_int_equal(open_another_of_three(f), MR_EUNAVAIL);
    report(f, "e0", 1, 5, NULL, 0);
    report(f, "e2", 1, 14, NULL, 0);
    assert_int_equal(open_another_of_three(f), MR_EPRECOND);
    assert_non_null(strstr(the_reply(&f->t)->error.message, "more than a round apart (0: 5, "));
}

/* A session number says of which of two processes a report is, and of which moment of one. */
static void reports_of_another_session_count_for_nothing(void **state)
{
    struct fixture *f = *state;

    report(f, "c0", 2, 9, NULL, 0);
    assert_int_equal(open2(f, "d1", 1), MR_EUNAVAIL);
    report(f, "c0", 2, 9, NULL, 0);
    assert_int_equal(open2(f, "d1", 1), MR_EUNAVAIL); /* it has not said where it is */
    report(f, "c0", 1, 5, NULL, 0);
    assert_int_equal(open2(f, "d1", 1), MR_OK);
    assert_int_equal(opened(&f->t)->from_round, 5);
}

/* One that hangs may be anywhere. */
static void who_does_not_answer_is_not_believed(void **state)
{
    struct fixture *f = *state;

    report(f, "c0", 1, 5, NULL, 0);
    report(f, "c1", 1, 5, NULL, 0);
    assert_int_equal(open2(f, "d1", 1), MR_EUNAVAIL);
    table_wait(&f->t, MR_ASK_MS);
    assert_int_equal(open2(f, "d1", 1), MR_EPRECOND);
    assert_non_null(
        strstr(the_reply(&f->t)->error.message, "(0: 5 when last heard, 1: 5 when last heard)"));
    assert_string_equal(rounds_of(f, "c0")->refused, ""); /* it may be well */
}

/* Round 1 is w2's: consumer 0 has returned it, consumer 1 has it; of round 3 only consumer 0 has
 * anything. */
static void a_lost_workers_rounds_are_decided_once(void **state)
{
    struct fixture *f = *state;
    char task[200];

    snprintf(task, sizeof task, "%s", task_of(f->it, "w2", 1));
    assert_int_equal(leave(&f->t, "w2"), MR_OK);
    table_wait(&f->t, 1);
    assert_int_equal(rounds_of(f, "c0")->n_closing, 1);
    report(f, "c0", 1, 3, task, 4);
    assert_int_equal(rounds_of(f, "c0")->schedule->n_outcomes, 0);
    table_take_over(&f->t); /* and asks again */
    assert_int_equal(rounds_of(f, "c0")->n_closing, 1);
    report(f, "c1", 1, 1, task, 2);
    assert_int_equal(rounds_of(f, "c0")->schedule->n_outcomes, 0);
    report(f, "c0", 1, 3, task, 4);
    const Millrace__RoundsUpdate *rounds = rounds_of(f, "c1");

    assert_int_equal(rounds->n_closing, 0);
    assert_int_equal(rounds->schedule->n_outcomes, 1);
    assert_int_equal(rounds->schedule->outcomes[0]->delivered_below, 2);
    assert_int_equal(rounds->schedule->outcomes[0]->void_below, 16);
    assert_int_equal(rounds->schedule->segments[1]->n_tasks, 1);
    table_take_over(&f->t);
    assert_int_equal(rounds_of(f, "c1")->schedule->outcomes[0]->delivered_below, 2);
}

/* Consumer 1 is new and has begun with round 8, of w1. Round 7 is w2's: nobody has it. */
static void what_is_before_the_first_round_of_a_session_it_has_not_returned(void **state)
{
    struct fixture *f = *state;
    char task[200];

    report(f, "c0", 1, 5, NULL, 0);
    report(f, "c1", 1, 5, NULL, 0);
    assert_int_equal(open2(f, "c9", 1), MR_EUNAVAIL);
    report(f, "c0", 1, 6, NULL, 0);
    assert_int_equal(open2(f, "c9", 1), MR_OK);
    snprintf(task, sizeof task, "%s", task_of(f->it, "w2", 1));
    assert_int_equal(leave(&f->t, "w2"), MR_OK);
    table_wait(&f->t, 1);
    f->from = 8;
    report(f, "c9", 2, 9, task, 8);
    report(f, "c0", 1, 6, task, 7);
    assert_int_equal(rounds_of(f, "c0")->schedule->n_outcomes, 1);
    assert_int_equal(rounds_of(f, "c0")->schedule->outcomes[0]->delivered_below, 6);
}

/* w2 had come to its end before round 5. Consumer 0 knows it, and has gone on with rounds of w1. */
static void what_is_behind_an_end_was_returned_by_nobody(void **state)
{
    struct fixture *f = *state;
    Millrace__ClosingReport doubt = MILLRACE__CLOSING_REPORT__INIT;

    assert_int_equal(leave(&f->t, "w2"), MR_OK);
    table_wait(&f->t, 1);
    doubt.task_id = (char *)(uintptr_t)task_of(f->it, "w2", 1);
    doubt.held_below = 4;
    report_of(f, "c1", 1, 4, &doubt);
    doubt.ended = true;
    doubt.end_round = 5;
    report_of(f, "c0", 1, 9, &doubt);
    assert_int_equal(rounds_of(f, "c0")->schedule->n_outcomes, 1);
    assert_int_equal(rounds_of(f, "c0")->schedule->outcomes[0]->delivered_below, 4);
}

/* A host that refuses connections has no process there any more; but a process that was heard of
 * just now lives. */
static void who_refuses_connections_and_is_silent_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    Millrace__ClientHeartbeatRequest request = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_CLIENT_HEARTBEAT, .client_heartbeat = &request};
    char *refusing[1] = {(char *)(uintptr_t)id_of("w2")};

    request.client = (char *)(uintptr_t)id_of("c0");
    request.iteration_id = f->it;
    request.refusing = refusing;
    request.n_refusing = 1;
    table_step(&f->t, &command);
    assert_int_equal(rounds_of(f, "c0")->n_closing, 0);
    table_wait(&f->t, 1600);
    assert_int_equal(rounds_of(f, "c0")->n_closing, 0); /* silence alone takes its time */
    table_step(&f->t, &command);
    table_wait(&f->t, 1);
    assert_int_equal(rounds_of(f, "c0")->n_closing, 1);
    /* The last one that is left is closed by nobody's word: there would be nothing to go on
     * with. */
    refusing[0] = (char *)(uintptr_t)id_of("w1");
    table_step(&f->t, &command);
    table_wait(&f->t, 1);
    assert_int_equal(rounds_of(f, "c0")->n_closing, 1);
}

/* Nothing is decided against somebody who may come back with what it returned: its place is taken
 * first. */
static void who_is_gone_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    char task[200];

    snprintf(task, sizeof task, "%s", task_of(f->it, "w2", 1));
    assert_int_equal(release_client(&f->t, "c1", f->it), MR_OK);
    assert_int_equal(leave(&f->t, "w2"), MR_OK);
    table_wait(&f->t, 1);
    report(f, "c0", 1, 1, task, 4);
    assert_int_equal(rounds_of(f, "c0")->schedule->n_outcomes, 1);
    assert_int_equal(rounds_of(f, "c0")->schedule->outcomes[0]->delivered_below, 0);
    assert_int_equal(rounds_of(f, "c0")->sessions[1], 2);
    assert_int_equal(open_as(f, "c1", 1, -1, f->it, 2), MR_EPRECOND);
}

static int end_at(struct fixture *f, const char *worker, uint64_t round)
{
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &request};

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.task_id = (char *)(uintptr_t)task_of(f->it, worker, 1);
    request.end_round = round;
    table_step(&f->t, &command);
    return the_reply(&f->t)->error.code;
}

static void the_end_is_the_same_for_all(void **state)
{
    struct fixture *f = *state;

    report(f, "c0", 1, 7, NULL, 0);
    report(f, "c1", 1, 7, NULL, 0);
    assert_int_equal(end_at(f, "w1", 4), MR_OK);
    assert_false(watch_client(&f->t, "c0", f->it)->finished);
    table_take_over(&f->t);
    report(f, "c0", 1, 8, NULL, 0);
    report(f, "c1", 1, 6, NULL, 0);
    assert_int_equal(end_at(f, "w2", 9), MR_OK);
    assert_false(
        watch_client(&f->t, "c0", f->it)->finished); /* consumer 1 has not returned round 7 yet */
    report(f, "c1", 1, 8, NULL, 0);
    const Millrace__ClientUpdate *update = watch_client(&f->t, "c1", f->it);

    assert_true(update->finished);
    assert_int_equal(update->end->rounds, 8);
    table_take_over(&f->t);
    table_wait(&f->t, 1);
    assert_null(table_get(&f->t, "rounds/nothing"));
    assert_int_equal(table_count(&f->t, "rounds/"), 0);
    assert_int_equal(table_count(&f->t, "consumers/"), 0);
}

/* A worker says who keeps the others waiting; people see it while that is new. */
struct waiting {
    uint32_t consumer;
    uint64_t ms;
};

static void on_job(void *ctx, const struct mr_job_numbers *n)
{
    assert_true(n->coordinated);
}

static void on_waited_for(void *ctx, const char *label, uint32_t consumer, uint64_t ms)
{
    struct waiting *w = ctx;

    if (consumer == w->consumer) {
        w->ms += ms;
    }
}

/* As metrics have it. */
static uint64_t waited_for(const struct fixture *f, uint32_t consumer)
{
    struct waiting w = {.consumer = consumer};
    struct mr_core_visitor visitor = {.job = on_job, .waited_for = on_waited_for, .ctx = &w};

    mr_core_visit_jobs(f->t.core, &visitor);
    return w.ms;
}

static void who_keeps_others_waiting_is_named(void **state)
{
    struct fixture *f = *state;
    Millrace__TaskProgress progress = MILLRACE__TASK_PROGRESS__INIT;
    Millrace__RoundProgress rounds = MILLRACE__ROUND_PROGRESS__INIT;
    struct mr_status_about about = {
        .cluster = "c", .incarnation = "i", .leader = "l", .version = "v"};
    struct mr_command command = {.kind = MR_COMMAND_STATUS, .status = &about};
    uint32_t missing[] = {1};

    rounds.missing = missing;
    rounds.n_missing = 1;
    rounds.waiting_ms = 700;
    progress.task_id = (char *)(uintptr_t)task_of(f->it, "w1", 1);
    progress.rounds = &rounds;
    assert_int_equal(beat_with_progress(&f->t, "w1", &progress), MR_OK);
    table_step(&f->t, &command);
    assert_non_null(strstr(((const Millrace__StatusReply *)the_reply(&f->t)->message)->json,
                           "\"missedMs\":\"700\""));
    assert_int_equal(waited_for(f, 1), 700);
    assert_int_equal(waited_for(f, 0), 0);
    table_wait(&f->t, 60000);
    table_step(&f->t, &command);
    assert_int_equal(waited_for(f, 1), 0);
    assert_null(
        strstr(((const Millrace__StatusReply *)the_reply(&f->t)->message)->json, "missedMs"));
}

static void say_missing(struct fixture *f, uint32_t consumer)
{
    Millrace__TaskProgress progress = MILLRACE__TASK_PROGRESS__INIT;
    Millrace__RoundProgress rounds = MILLRACE__ROUND_PROGRESS__INIT;

    rounds.missing = &consumer;
    rounds.n_missing = 1;
    rounds.waiting_ms = 7000;
    progress.task_id = (char *)(uintptr_t)task_of(f->it, "w1", 1);
    progress.rounds = &rounds;
    assert_int_equal(beat_with_progress(&f->t, "w1", &progress), MR_OK);
}

static void a_consumer_is_told_what_it_waits_for(void **state)
{
    struct fixture *f = *state;

    assert_string_equal(waits_for(&f->t, "c0", f->it), ""); /* nothing is known here */
    report(f, "c0", 1, 4, NULL, 0);
    report(f, "c1", 1, 3, NULL, 0);
    say_missing(f, 1);
    assert_string_equal(
        waits_for(&f->t, "c0", f->it),
        "consumer 1 is at round 3 and has not asked for what others wait for, for 7 s");

    /* A worker is lost; who has not said what it has of it is more to the point. */
    assert_int_equal(leave(&f->t, "w1"), MR_OK);
    table_wait(&f->t, 1);
    report(f, "c0", 1, 4, task_of(f->it, "w1", 1), 4);
    assert_string_equal(
        waits_for(&f->t, "c0", f->it),
        "worker a:1 is lost, and consumer 1 has not said which of its rounds it has");
    report(f, "c1", 1, 3, task_of(f->it, "w1", 1), 4);

    assert_int_equal(release_client(&f->t, "c1", f->it), MR_OK);
    assert_string_equal(waits_for(&f->t, "c0", f->it),
                        "consumer 1 of 2 has gone, and nobody has taken its place");
    assert_int_equal(leave(&f->t, "w2"), MR_OK);
    assert_string_equal(waits_for(&f->t, "c0", f->it), "the service has no worker");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(workers_take_turns),
        CASE(whoever_comes_takes_turns_from_the_horizon_on),
        CASE(the_horizon_moves_with_the_readers),
        CASE(the_horizon_takes_few_writes),
        CASE(who_must_mean_the_same_job),
        CASE(who_restarts_begins_where_the_others_are),
        CASE(all_new_is_told_to_all),
        CASE(all_may_restart_in_turn),
        CASE(answers_are_good_until_a_place_is_taken),
        CASE(who_restarts_begins_where_the_furthest_is),
        CASE(who_restarts_waits_until_the_others_have_come_together),
        CASE(who_restarts_is_told_that_the_others_stand_apart),
        CASE(reports_of_another_session_count_for_nothing),
        CASE(who_does_not_answer_is_not_believed),
        CASE(a_lost_workers_rounds_are_decided_once),
        CASE(what_is_before_the_first_round_of_a_session_it_has_not_returned),
        CASE(what_is_behind_an_end_was_returned_by_nobody),
        CASE(who_refuses_connections_and_is_silent_is_not_waited_for),
        CASE(who_is_gone_is_not_waited_for),
        CASE(the_end_is_the_same_for_all),
        CASE(who_keeps_others_waiting_is_named),
        CASE(a_consumer_is_told_what_it_waits_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
