/* The core and time: who is given up when, what is forgotten after how long, under leaders that
 * come and go. */
#include "core_support.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

static const int64_t hundred[] = {100};

static struct table *start(const struct mr_core_config *config)
{
    struct table *t = mr_calloc(1, sizeof *t);

    table_open(t, config);
    assert_int_equal(put_dataset(t, "numbers", FP1, hundred, 1), MR_OK);
    return t;
}

static void stop(struct table *t)
{
    table_close(t);
    mr_free(t);
}

static void keep(char *out, const char *id)
{
    snprintf(out, 64, "%s", id);
}

/* The iteration that was opened last. */
static void release_opened(struct table *t, const char *client)
{
    char iteration[64];

    keep(iteration, opened(t)->iteration_id);
    assert_int_equal(release_client(t, client, iteration), MR_OK);
}

static void add_workers(struct table *t, int from, int to)
{
    char name[16], address[16];

    for (int i = from; i < to; i++) {
        snprintf(name, sizeof name, "w%d", i);
        snprintf(address, sizeof address, "h%d:1", i);
        assert_int_equal(add_worker(t, name, address), MR_OK);
    }
}

static size_t lost_workers(struct table *t, int n)
{
    char name[16];
    size_t lost = 0;

    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "w%d", i);
        lost += beat_worker(t, name) == MR_ENOTFOUND ? 1 : 0;
    }
    return lost;
}

/* Timers run until @ms are over or one of them asks for another leader. */
static bool resigns_within(struct table *t, int64_t ms)
{
    int64_t until = t->now + ms;
    struct mr_command timer = {.kind = MR_COMMAND_TIMER};

    while (mr_core_next_timer(t->core) <= until) {
        if (mr_core_next_timer(t->core) > t->now) {
            t->wall += mr_core_next_timer(t->core) - t->now;
            t->now = mr_core_next_timer(t->core);
        }
        table_step(t, &timer);
        for (size_t i = 0; i < t->out.neffects; i++) {
            if (t->out.effects[i].kind == MR_EFFECT_RESIGN) {
                return true;
            }
        }
    }
    t->wall += until - t->now;
    t->now = until;
    return false;
}

/* ---------------------------------------------------------------- silence */

/* Their last heartbeats are spread over seconds: no single moment has many silent ones. */
static void mass_expiry_that_comes_bit_by_bit_is_braked(void **state)
{
    struct table *t = start(NULL);

    for (int i = 0; i < 12; i++) {
        add_workers(t, i, i + 1);
        table_wait(t, SECOND);
    }
    table_wait(t, 62 * SECOND);
    assert_int_equal(lost_workers(t, 12), 0);
    stop(t);
}

static void few_silent_workers_are_lost_without_a_grace(void **state)
{
    struct table *t = start(NULL);

    add_workers(t, 0, 9);
    for (int i = 0; i < 61; i++) {
        table_wait(t, SECOND);
        assert_int_equal(beat_worker(t, "w3") + beat_worker(t, "w4") + beat_worker(t, "w5") +
                             beat_worker(t, "w6") + beat_worker(t, "w7") + beat_worker(t, "w8"),
                         MR_OK);
    }
    assert_int_equal(lost_workers(t, 9), 3);
    stop(t);
}

static void a_leader_that_keeps_hearing_nobody_resigns_once(void **state)
{
    struct mr_core_config config = {.may_resign = true};
    struct table *t = start(&config);

    add_workers(t, 0, 12);
    assert_false(resigns_within(t, 119 * SECOND));
    assert_true(resigns_within(t, 2 * SECOND));
    assert_false(resigns_within(t, 59 * SECOND)); /* nobody has taken over: one more grace, */
    assert_int_equal(table_count(t, "workers/"), 12);
    assert_false(resigns_within(t, 2 * SECOND)); /* and then it is true */
    assert_int_equal(lost_workers(t, 12), 12);
    stop(t);
}

static void timers_that_run_late_find_nobody_silent(void **state)
{
    struct table *t = start(NULL);
    struct mr_command timer = {.kind = MR_COMMAND_TIMER, .late_ms = 500 * SECOND};
    char iteration[64];

    add_workers(t, 0, 1);
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    keep(iteration, opened(t)->iteration_id);
    t->now += 500 * SECOND;
    t->wall += 500 * SECOND;
    table_step(t, &timer);
    assert_int_equal(beat_worker(t, "w0"), MR_OK);
    assert_int_equal(beat_client(t, "c1", iteration, NULL), MR_OK);
    stop(t);
}

/* ---------------------------------------------------------------- takeover */

static void nothing_is_collected_before_clients_found_the_new_leader(void **state)
{
    struct mr_core_config config = {
        .job_gc_timeout_ms = 20, .finished_retention_ms = 20, .client_timeout_ms = 10000};
    struct table *t = start(&config);
    char iteration[64], job[64];

    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    keep(iteration, opened(t)->iteration_id);
    keep(job, opened(t)->job_id);
    release_client(t, "c1", iteration);
    table_take_over(t);
    table_wait(t, 14 * SECOND);
    open_job(t, (struct open_args){
                    .client = "c2", .dataset = "numbers", .name = "train", .job_id = job});
    assert_string_equal(opened(t)->iteration_id, iteration);
    release_client(t, "c2", iteration);
    table_wait(t, 2 * SECOND);
    assert_int_equal(table_count(t, "iterations/"), 0);
    stop(t);
}

static void what_a_leader_saw_end_needs_no_grace(void **state)
{
    struct mr_core_config config = {.job_gc_timeout_ms = SECOND, .finished_retention_ms = SECOND};
    struct table *t = start(&config);
    char early[64], late[64];

    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "early"});
    keep(early, opened(t)->iteration_id);
    open_job(t, (struct open_args){.client = "c2", .dataset = "numbers", .name = "late"});
    keep(late, opened(t)->iteration_id);
    release_client(t, "c1", early);
    table_take_over(t);
    table_wait(t, 1);
    release_client(t, "c2", late); /* this leader knows that nobody reads it any more */
    table_wait(t, 2 * SECOND);
    assert_int_equal(table_count(t, "iterations/"), 1);
    open_job(t, (struct open_args){.client = "c3", .dataset = "numbers", .name = "early"});
    assert_string_equal(opened(t)->iteration_id,
                        early); /* but not who would come back to that one */
    release_client(t, "c3", early);
    table_wait(t, 2 * SECOND);
    assert_int_equal(table_count(t, "iterations/"), 0);
    stop(t);
}

/* The pass goes on after that, and tells of it at its end. */
static void what_went_with_clients_of_a_forgotten_worker_is_counted(void **state)
{
    struct mr_core_config config = {.worker_retention_ms = 100 * SECOND};
    struct table *t = start(&config);
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &request};
    char iteration[64];

    add_workers(t, 0, 2);
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    keep(iteration, opened(t)->iteration_id);
    request.incarnation = (char *)(uintptr_t)id_of("w0");
    request.task_id = (char *)(uintptr_t)task_of(iteration, "w0", 1);
    request.abandoned = 40;
    table_step(t, &command);
    for (int i = 0; i < 300 && table_count(t, "workers/") == 2; i++) {
        assert_int_equal(beat_worker(t, "w1"), MR_OK);
        assert_int_equal(beat_client(t, "c1", iteration, NULL), MR_OK);
        table_wait(t, SECOND);
    }
    assert_int_equal(table_count(t, "workers/"), 1);
    table_take_over(t);
    end_task(t, "w1", task_of(iteration, "w1", 1), 0, NULL);
    table_wait(t, 0);
    const Millrace__ClientUpdate *update = watch_client(t, "c1", iteration);

    assert_true(update->finished);
    assert_int_equal(update->end->abandoned, 40);
    stop(t);
}

static void retention_fires_though_a_leader_lives_a_day(void **state)
{
    struct mr_core_config config = {.job_gc_timeout_ms = 2 * DAY,
                                    .finished_retention_ms = 2 * DAY,
                                    .client_retention_ms = 2 * DAY,
                                    .worker_retention_ms = 2 * DAY,
                                    .dataset_retention_ms = 2 * DAY};
    struct table *t = start(&config);
    char iteration[64];

    assert_int_equal(put_dataset(t, "", FP2, hundred, 1), MR_OK);
    add_workers(t, 0, 1);
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    end_task(t, "w0", task_of(opened(t)->iteration_id, "w0", 1), 0, NULL);
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .repetition = 1});
    keep(iteration, opened(t)->iteration_id);
    open_job(t, (struct open_args){.client = "c2", .dataset = FP2, .name = "short"});
    release_opened(t, "c2");
    release_client(t, "c1", iteration);
    for (int day = 0; day < 2; day++) {
        table_wait(t, DAY - HOUR);
        table_take_over(t);
    }
    assert_int_equal(table_count(t, "iterations/"), 3);
    assert_int_equal(table_count(t, "clients/"), 2);
    assert_int_equal(table_count(t, "workers/"), 1);
    for (int day = 0; day < 3; day++) {
        table_wait(t, DAY - HOUR);
        table_take_over(t);
    }
    assert_int_equal(
        table_count(t, "iterations/") + table_count(t, "clients/") + table_count(t, "workers/"), 0);
    assert_int_equal(table_count(t, "jobs/"), 2);
    for (int day = 0; day < 5; day++) {
        table_wait(t, DAY - HOUR);
        table_take_over(t);
    }
    assert_int_equal(table_count(t, "jobs/"), 0);
    for (int day = 0; day < 3; day++) {
        table_wait(t, DAY - HOUR);
        table_take_over(t);
    }
    table_wait(t, HOUR);
    assert_int_equal(t->count, 2); /* a dataset with a name and its definition */
    stop(t);
}

/* The records of a job that somebody reads again say so, whoever looks at them (`millrace
 * state`). */
static void records_say_since_when_nobody_reads_and_only_then(void **state)
{
    struct table *t = start(NULL);
    static const char *const clients[] = {"c1", "c2"};
    char key[80];

    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_job(t, (struct open_args){.client = clients[i],
                                                        .dataset = "numbers",
                                                        .name = "train",
                                                        .dynamic = true}),
                         MR_OK);
        snprintf(key, sizeof key, "iterations/%s", opened(t)->iteration_id);
        assert_null(strstr(table_get(t, "jobs/train"), "\"releasedMs\""));
        assert_null(strstr(table_get(t, key), "\"unreadMs\""));
        release_opened(t, clients[i]);
        assert_non_null(strstr(table_get(t, "jobs/train"), "\"releasedMs\""));
        assert_non_null(strstr(table_get(t, key), "\"unreadMs\""));
    }
    stop(t);
}

static void a_time_that_is_still_to_come_counts_as_now(void **state)
{
    struct table *t = start(NULL);

    t->wall += 30 * DAY; /* this leader's clock is ahead */
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    release_opened(t, "c1");
    t->wall -= 30 * DAY;
    table_take_over(t);
    table_wait(t, 29 * DAY);
    assert_int_equal(table_count(t, "jobs/"), 1);
    table_wait(t, 9 * DAY);
    assert_int_equal(table_count(t, "jobs/"), 0);
    stop(t);
}

/* ---------------------------------------------------------------- what is over is not run again */

static void a_forgotten_repetition_is_not_run_again(void **state)
{
    struct table *t = start(NULL);
    char iteration[64];

    add_workers(t, 0, 1);
    open_job(t, (struct open_args){
                    .client = "a", .dataset = "numbers", .name = "train", .dynamic = true});
    keep(iteration, opened(t)->iteration_id);
    end_task(t, "w0", task_of(iteration, "w0", 1), 0, NULL);
    release_client(t, "a", iteration);
    table_wait(t, HOUR);
    assert_int_equal(table_count(t, "iterations/"), 0);
    table_take_over(t);
    open_job(t, (struct open_args){
                    .client = "b", .dataset = "numbers", .name = "train", .dynamic = true});
    assert_true(opened(t)->finished);
    assert_int_equal(table_count(t, "iterations/"), 0);
    stop(t);
}

static void a_dynamic_iteration_is_collected_once_its_job_has_gone_on(void **state)
{
    struct table *t = start(NULL);
    char first[64], job[64];
    struct open_args args = {
        .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true};

    add_workers(t, 0, 1);
    open_job(t, args);
    keep(first, opened(t)->iteration_id);
    keep(job, opened(t)->job_id);
    release_client(t, "c1", first);
    for (int i = 0; i < 60; i++) {
        table_wait(t, 10 * SECOND);
        beat_worker(t, "w0");
    }
    assert_int_equal(watch_worker(t, "w0")->n_tasks, 1); /* it may still be wanted */
    args.repetition = 1;
    open_job(t, args);
    assert_string_not_equal(opened(t)->iteration_id, first);
    table_wait(t, 0);
    assert_int_equal(watch_worker(t, "w0")->n_tasks, 1); /* only the second one's */
    assert_non_null(strstr(table_get(t, "jobs/train"), "\"collected\":[{\"collectedMs\":"));
    args.client = "c2";
    args.repetition = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_job(t, args), MR_OK);
        assert_true(opened(t)->finished);
        assert_non_null(strstr(opened(t)->end->error, "collected at 2023-11-14T22:23:20Z"));
        args.iteration_id = first; /* was reading it */
        assert_int_equal(open_job(t, args), MR_EPRECOND);
        assert_non_null(strstr(the_reply(t)->error.message, "collected at 2023"));
        args.iteration_id = NULL;
        table_take_over(t);
        table_wait(t, HOUR);
    }
    assert_int_equal(table_count(t, "iterations/"),
                     1); /* of the first, only the job's memory is left */
    stop(t);
}

/* From its first repetition on it is not the lowest one: nothing waits for those before it. */
static void a_job_that_was_resumed_keeps_no_epoch(void **state)
{
    struct table *t = start(NULL);
    struct open_args args = {
        .client = "c1", .dataset = "numbers", .name = "train", .repetition = 5};

    add_workers(t, 0, 1);
    for (int i = 0; i < 3000; i++, args.repetition++) {
        assert_int_equal(open_job(t, args), MR_OK);
        assert_false(opened(t)->finished);
        end_task(t, "w0", task_of(opened(t)->iteration_id, "w0", 1), 0, NULL);
        table_wait(t, 10);
    }
    assert_true(table_count(t, "iterations/") <= 66);
    assert_non_null(
        strstr(table_get(t, "jobs/train"), "\"ended\":[{\"first\":\"5\",\"count\":\"3000\"}]"));
    table_take_over(t);
    args.repetition = 17;
    open_job(t, args);
    assert_true(opened(t)->finished);
    args.repetition = 0;
    open_job(t, args);
    assert_false(opened(t)->finished);
    end_task(t, "w0", task_of(opened(t)->iteration_id, "w0", 1), 0, NULL);
    stop(t);
}

/* Every second repetition is left in its middle: those are collected, and the others wait for
 * nothing. */
static void repetitions_that_are_left_early_do_not_pile_up(void **state)
{
    struct table *t = start(NULL);
    struct open_args args = {.client = "c1", .dataset = "numbers", .name = "train"};

    add_workers(t, 0, 1);
    for (; args.repetition < 500; args.repetition++) {
        assert_int_equal(open_job(t, args), MR_OK);
        assert_false(opened(t)->finished);
        if (args.repetition % 2 == 1) {
            end_task(t, "w0", task_of(opened(t)->iteration_id, "w0", 1), 0, NULL);
        } else if (args.repetition % 4 == 0) {
            release_opened(t, "c1");
        }
        for (int i = 0; i < 3; i++) {
            table_wait(t, 40 * SECOND);
            assert_int_equal(beat_worker(t, "w0"), MR_OK);
        }
    }
    assert_true(table_count(t, "iterations/") < 30);
    assert_true(strlen(table_get(t, "jobs/train")) < 4096);
    stop(t);
}

static void a_late_call_to_a_job_that_died_makes_no_new_one(void **state)
{
    struct table *t = start(NULL);
    char job[64];

    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    keep(job, opened(t)->job_id);
    release_opened(t, "c1");
    table_wait(t, 8 * DAY);
    assert_int_equal(table_count(t, "jobs/"), 0);
    assert_int_equal(open_job(t, (struct open_args){.client = "c1",
                                                    .dataset = "numbers",
                                                    .name = "train",
                                                    .job_id = job}),
                     MR_ENOTFOUND);
    assert_int_equal(table_count(t, "jobs/"), 0);
    stop(t);
}

static void a_job_with_a_client_does_not_die(void **state)
{
    struct table *t = start(NULL);
    char iteration[64];

    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    keep(iteration, opened(t)->iteration_id);
    for (int i = 0; i < 10 * 24 * 60; i++) {
        table_wait(t, MINUTE);
        assert_int_equal(beat_client(t, "c1", iteration, NULL), MR_OK);
    }
    stop(t);
}

/* ---------------------------------------------------------------- order and left-overs */

static void a_dataset_goes_before_its_parts(void **state)
{
    struct mr_core_config config = {.dataset_retention_ms = 2 * HOUR};
    struct table *t = start(&config);
    struct mr_command timer = {.kind = MR_COMMAND_TIMER};
    char dataset[64];

    snprintf(dataset, sizeof dataset, "datasets/%s", FP2);
    assert_int_equal(put_dataset(t, "", FP2, hundred, 1), MR_OK);
    while (table_get(t, dataset) != NULL) {
        assert_int_equal(table_count(t, "blobs/"), 2);
        table_wait(t, mr_core_next_timer(t->core) - t->now - 1);
        t->now++;
        t->wall++;
        table_step(t, &timer);
    }
    table_take_over(t); /* whatever the last leader did not get to */
    table_wait(t, 0);
    assert_int_equal(table_count(t, "blobs/"), 1);
    stop(t);
}

/* Its iterations are more than one transaction: a leader that dies after the first leaves
 * left-overs, nothing else. */
static void a_job_that_goes_goes_as_a_whole(void **state)
{
    struct table *t = start(NULL);
    struct open_args args = {
        .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true};

    add_workers(t, 0, 3);
    for (args.repetition = 0; args.repetition < 200; args.repetition++) {
        assert_int_equal(open_job(t, args), MR_OK);
        get_splits(t, "w0", task_of(opened(t)->iteration_id, "w0", 1), 0, 1, 4);
    }
    args.repetition = 199;
    open_job(t, args);
    release_opened(t, "c1");
    while (table_count(t, "jobs/") > 0) {
        struct mr_command timer = {.kind = MR_COMMAND_TIMER};

        t->wall += HOUR;
        t->now += HOUR;
        table_step(t, &timer);
    }
    table_take_over(t);
    assert_int_equal(open_job(t, args), MR_OK); /* a new job of that name, with a new beginning */
    table_wait(t, 0);
    assert_int_equal(table_count(t, "iterations/"), 1);
    assert_int_equal(table_count(t, "grants/") + table_count(t, "cursors/"), 0);
    stop(t);
}

/* ---------------------------------------------------------------- a task that hangs */

static void report(struct table *t, const char *worker, const char *task, uint64_t produced,
                   uint32_t sessions)
{
    Millrace__WorkerHeartbeatRequest in = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    Millrace__TaskProgress progress = MILLRACE__TASK_PROGRESS__INIT;
    Millrace__TaskProgress *list[] = {&progress};
    struct mr_command command = {.kind = MR_COMMAND_WORKER_HEARTBEAT, .worker_heartbeat = &in};

    progress.task_id = (char *)(uintptr_t)task;
    progress.produced = progress.delivered = produced;
    progress.sessions = sessions;
    in.incarnation = (char *)(uintptr_t)id_of(worker);
    in.tasks = list;
    in.n_tasks = 1;
    table_step(t, &command);
    assert_int_equal(the_reply(t)->error.code, MR_OK);
}

static bool shown_as_stalled(struct table *t)
{
    struct mr_status_about about = {
        .cluster = "prod", .incarnation = "abc", .leader = "d0:5050", .version = "0.1.0"};
    struct mr_command command = {.kind = MR_COMMAND_STATUS, .status = &about};

    table_step(t, &command);
    return strstr(((const Millrace__StatusReply *)the_reply(t)->message)->json, "stalledMs") !=
           NULL;
}

/* Heartbeats for @seconds: w0 makes nothing more, w1 goes on. */
static void hang(struct table *t, const char *iteration, int seconds, uint32_t sessions)
{
    char stuck[128], other[128];

    snprintf(stuck, sizeof stuck, "%s", task_of(iteration, "w0", 1));
    snprintf(other, sizeof other, "%s", task_of(iteration, "w1", 1));
    for (int i = 0; i < seconds; i++) {
        table_wait(t, SECOND);
        report(t, "w0", stuck, 7, sessions);
        report(t, "w1", other, 7 + (uint64_t)(t->now / SECOND), sessions);
        assert_int_equal(beat_client(t, "c1", iteration, NULL), MR_OK);
    }
}

static void a_stuck_task_is_shown_and_not_closed_unless_that_was_asked_for(void **state)
{
    struct table *t = start(NULL);
    char iteration[64];

    add_workers(t, 0, 2);
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers"});
    keep(iteration, opened(t)->iteration_id);
    hang(t, iteration, 100, 0 /* nobody waits for it */);
    assert_false(shown_as_stalled(t));
    hang(t, iteration, 59, 1);
    assert_false(shown_as_stalled(t));
    hang(t, iteration, 2, 1);
    assert_true(shown_as_stalled(t));
    hang(t, iteration, 1000, 1);
    assert_false(watch_client(t, "c1", iteration)->tasks[0]->lost);
    stop(t);
}

static void finish_pipeline(struct table *t, const char *worker, const char *iteration,
                            uint32_t sessions)
{
    Millrace__TaskProgress progress = MILLRACE__TASK_PROGRESS__INIT;

    progress.task_id = (char *)(uintptr_t)task_of(iteration, worker, 1);
    progress.produced = progress.delivered = 7;
    progress.sessions = sessions;
    progress.finished = true;
    assert_int_equal(beat_with_progress(t, worker, &progress), MR_OK);
}

/* A reader rests with elements, and another one waits for the end. */
static void a_pipeline_that_has_ended_is_not_what_is_waited_for(void **state)
{
    struct mr_core_config config = {.task_timeout_ms = 90 * SECOND};
    struct table *t = start(&config);
    struct open_args args = {.client = "c1", .dataset = "numbers", .name = "shared"};
    char iteration[64];

    add_workers(t, 0, 2);
    open_job(t, args);
    keep(iteration, opened(t)->iteration_id);
    hang(t, iteration, 3, 1);
    assert_non_null(strstr(waits_for(t, "c1", iteration),
                           "the pipeline at worker h0:1 has given nothing for "));
    args.client = "c2";
    assert_int_equal(open_job(t, args), MR_OK);
    for (int i = 0; i < 200; i++) {
        table_wait(t, SECOND);
        finish_pipeline(t, "w0", iteration, 2);
        finish_pipeline(t, "w1", iteration, 2);
        assert_int_equal(beat_client(t, "c1", iteration, NULL), MR_OK);
        assert_int_equal(beat_client(t, "c2", iteration, NULL), MR_OK);
    }
    assert_false(shown_as_stalled(t));
    assert_string_equal(
        waits_for(t, "c2", iteration),
        "the pipeline at worker h0:1 (and 1 more) has ended, and 1 other reader of the job may not "
        "have used the last elements yet");
    assert_false(watch_client(t, "c2", iteration)->tasks[0]->lost);
    assert_int_equal(release_client(t, "c1", iteration), MR_OK);
    assert_string_equal(waits_for(t, "c2", iteration), ""); /* its end is on its way */
    stop(t);
}

static void a_stuck_task_is_closed_after_the_task_timeout(void **state)
{
    struct mr_core_config config = {.task_timeout_ms = 90 * SECOND};
    struct table *t = start(&config);
    char iteration[64];

    add_workers(t, 0, 2);
    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers"});
    keep(iteration, opened(t)->iteration_id);
    hang(t, iteration, 89, 1);
    assert_false(watch_client(t, "c1", iteration)->tasks[0]->lost);
    hang(t, iteration, 3, 1);
    assert_true(watch_client(t, "c1", iteration)->tasks[0]->lost);
    assert_int_equal(watch_worker(t, "w0")->n_tasks, 0);
    end_task(t, "w1", task_of(iteration, "w1", 1), 0, NULL);
    assert_true(watch_client(t, "c1", iteration)->finished);
    assert_int_equal(watch_client(t, "c1", iteration)->end->lost_workers, 1);
    stop(t);
}

/* ---------------------------------------------------------------- by command */

static int delete_dataset(struct table *t, const char *id)
{
    Millrace__DeleteDatasetRequest in = MILLRACE__DELETE_DATASET_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_DELETE_DATASET, .delete_dataset = &in};

    in.dataset_id = (char *)(uintptr_t)id;
    table_step(t, &command);
    return the_reply(t)->error.code;
}

static int delete_job(struct table *t, const char *name, bool force)
{
    Millrace__DeleteJobRequest in = MILLRACE__DELETE_JOB_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_DELETE_JOB, .delete_job = &in};

    in.job = (char *)(uintptr_t)name;
    in.force = force;
    table_step(t, &command);
    assert_true(the_reply(t)->fenced);
    return the_reply(t)->error.code;
}

static void a_named_dataset_goes_by_command_unless_it_is_used(void **state)
{
    struct table *t = start(NULL);

    open_job(t, (struct open_args){.client = "c1", .dataset = "numbers", .name = "train"});
    assert_int_equal(delete_dataset(t, "numbers"), MR_EPRECOND);
    assert_non_null(strstr(the_reply(t)->error.message, "used by job 'train': 1 job"));
    assert_int_equal(delete_dataset(t, "letters"), MR_ENOTFOUND);
    assert_int_equal(delete_job(t, "train", true), MR_OK);
    assert_int_equal(delete_dataset(t, "numbers"), MR_OK);
    assert_int_equal(delete_dataset(t, "numbers"), MR_ENOTFOUND);
    table_wait(t, 0);
    assert_int_equal(t->count, 0);
    stop(t);
}

static void a_job_with_clients_goes_only_by_force(void **state)
{
    struct table *t = start(NULL);
    char iteration[64], job[64];
    bool told = false;

    add_workers(t, 0, 1);
    open_job(t, (struct open_args){
                    .client = "c1", .dataset = "numbers", .name = "train", .dynamic = true});
    keep(iteration, opened(t)->iteration_id);
    keep(job, opened(t)->job_id);
    open_job(t, (struct open_args){
                    .client = "c2", .dataset = "numbers", .name = "train", .dynamic = true});
    assert_int_equal(delete_job(t, "train", false), MR_EPRECOND);
    assert_non_null(strstr(the_reply(t)->error.message, "has 2 clients"));
    assert_int_equal(table_count(t, "jobs/"), 1);
    assert_int_equal(delete_job(t, job, true), MR_OK); /* by its id */
    assert_int_equal(((const Millrace__DeleteJobReply *)the_reply(t)->message)->clients, 2);
    for (size_t i = 0; i < t->out.neffects; i++) {
        told = told || (t->out.effects[i].kind == MR_EFFECT_END_CLIENT &&
                        strcmp(t->out.effects[i].topic, id_of("c1")) == 0);
    }
    assert_true(told);
    assert_int_equal(beat_client(t, "c1", iteration, NULL), MR_ENOTFOUND);
    assert_int_equal(open_job(t, (struct open_args){.client = "c1",
                                                    .dataset = "numbers",
                                                    .name = "train",
                                                    .dynamic = true,
                                                    .job_id = job}),
                     MR_ENOTFOUND);
    assert_int_equal(watch_worker(t, "w0")->n_tasks, 0);
    table_take_over(t); /* whatever the last leader did not get to */
    table_wait(t, HOUR);
    assert_int_equal(
        table_count(t, "iterations/") + table_count(t, "clients/") + table_count(t, "jobs/"), 0);
    stop(t);
}

/* Sweeps of parameters use each name once: a full table is no reason to refuse a new one for
 * days. */
static void a_full_table_of_jobs_makes_room(void **state)
{
    const struct mr_core_config config = {.epoch = 50};
    struct table *t = mr_calloc(1, sizeof *t);
    mr_core *core = mr_core_new(&config);
    struct mr_outcome out = {0};
    char key[64], value[256];

    table_open_usual(t);
    for (size_t i = 0; i < t->count; i++) {
        if (strncmp(t->keys[i], "blobs/", 6) != 0) {
            assert_int_equal(
                mr_core_load(core, t->keys[i], t->values[i], strlen(t->values[i]), NULL), MR_OK);
        }
    }
    for (int i = 1; i <= MR_CORE_JOBS_MAX; i++) { /* the one that was used last comes first */
        snprintf(key, sizeof key, "jobs/j%d", i);
        snprintf(value, sizeof value,
                 "{\"id\":\"3.%d\",\"name\":\"j%d\",\"datasetId\":\"numbers\",\"targetWorkers\":"
                 "\"AUTO\",\"releasedMs\":\"%d\"}",
                 i, i, 2 * MR_CORE_JOBS_MAX - i);
        assert_int_equal(mr_core_load(core, key, value, strlen(value), NULL), MR_OK);
    }
    assert_int_equal(mr_core_ready(core, 0, NULL), MR_OK);

    Millrace__OpenRequest in = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__JobSpec spec = MILLRACE__JOB_SPEC__INIT;
    struct mr_command command = {
        .kind = MR_COMMAND_OPEN, .open = &in, .now_ms = 1000, .wall_ms = 3 * MR_CORE_JOBS_MAX};

    spec.name = (char[]){"new"};
    in.job = &spec;
    in.dataset_id = (char[]){"numbers"};
    in.client = (char *)(uintptr_t)id_of("c1");
    assert_int_equal(mr_core_step(core, &command, &out, NULL), MR_OK);
    assert_int_equal(out.effects[0].error.code,
                     MR_EEXHAUSTED); /* their users may not have found this leader yet */
    mr_outcome_clear(&out);
    command.now_ms = 3600 * 1000;
    assert_int_equal(mr_core_step(core, &command, &out, NULL), MR_OK);
    assert_int_equal(out.effects[0].error.code, MR_OK);
    snprintf(key, sizeof key, "jobs/j%d", MR_CORE_JOBS_MAX);
    assert_string_equal(out.changes[0].key, key);
    assert_null(out.changes[0].value);
    assert_string_equal(out.changes[1].key, "jobs/new");
    mr_outcome_clear(&out);
    mr_core_free(core);
    table_close(t);
    mr_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mass_expiry_that_comes_bit_by_bit_is_braked),
        cmocka_unit_test(few_silent_workers_are_lost_without_a_grace),
        cmocka_unit_test(a_leader_that_keeps_hearing_nobody_resigns_once),
        cmocka_unit_test(timers_that_run_late_find_nobody_silent),
        cmocka_unit_test(nothing_is_collected_before_clients_found_the_new_leader),
        cmocka_unit_test(what_a_leader_saw_end_needs_no_grace),
        cmocka_unit_test(what_went_with_clients_of_a_forgotten_worker_is_counted),
        cmocka_unit_test(retention_fires_though_a_leader_lives_a_day),
        cmocka_unit_test(records_say_since_when_nobody_reads_and_only_then),
        cmocka_unit_test(a_time_that_is_still_to_come_counts_as_now),
        cmocka_unit_test(a_forgotten_repetition_is_not_run_again),
        cmocka_unit_test(a_dynamic_iteration_is_collected_once_its_job_has_gone_on),
        cmocka_unit_test(a_job_that_was_resumed_keeps_no_epoch),
        cmocka_unit_test(repetitions_that_are_left_early_do_not_pile_up),
        cmocka_unit_test(a_late_call_to_a_job_that_died_makes_no_new_one),
        cmocka_unit_test(a_job_with_a_client_does_not_die),
        cmocka_unit_test(a_dataset_goes_before_its_parts),
        cmocka_unit_test(a_job_that_goes_goes_as_a_whole),
        cmocka_unit_test(a_stuck_task_is_shown_and_not_closed_unless_that_was_asked_for),
        cmocka_unit_test(a_pipeline_that_has_ended_is_not_what_is_waited_for),
        cmocka_unit_test(a_stuck_task_is_closed_after_the_task_timeout),
        cmocka_unit_test(a_named_dataset_goes_by_command_unless_it_is_used),
        cmocka_unit_test(a_job_with_clients_goes_only_by_force),
        cmocka_unit_test(a_full_table_of_jobs_makes_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
