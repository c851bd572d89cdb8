/* What the dispatcher says of the rounds, and what it is told: the schedule with its outcomes, the
 * horizon, tasks that are closing; and where this consumer is, with the promises that it made. */
#include "client/rounds_internal.h"

#include "element/unpack.h"

/* Tasks that are in no schedule any more are over for this consumer, too. */
static void forget_tasks(mr_client_rounds *rounds)
{
    size_t n = 0;

    for (size_t i = 0; i < rounds->ntasks; i++) {
        if (rounds->tasks[i]->index == MR_ROUND_NOBODY) {
            mr_client_rounds_task_free(rounds->tasks[i]);
        } else {
            rounds->tasks[n++] = rounds->tasks[i];
        }
    }
    rounds->ntasks = n;
}

/* A task that is in the schedule is found at its place in it. (A schedule may name one twice.) */
__attribute__((unused)) static bool check(const mr_client_rounds *rounds)
{
    for (size_t i = 0; i < rounds->ntasks; i++) {
        const struct mr_round_task *task = rounds->tasks[i];

        if (task->index >= rounds->schedule->n_tasks || rounds->by_index[task->index] != task) {
            return false;
        }
    }
    return true;
}

static void set_outcomes(mr_client_rounds *rounds)
{
    const Millrace__RoundSchedule *schedule = rounds->schedule;

    for (size_t i = 0; i < schedule->n_outcomes; i++) {
        struct mr_round_task *task = rounds->by_index[schedule->outcomes[i]->task];

        task->has_outcome = true;
        task->delivered = schedule->outcomes[i]->delivered_below;
    }
}

static int take_schedule(mr_client_rounds *rounds, const Millrace__RoundSchedule *schedule,
                         mr_error *err)
{
    MR_TRY(mr_schedule_check(schedule, err));
    MR_AUTO(mr_free)
    struct mr_round_task **by_index =
        mr_calloc(schedule->n_tasks + 1, sizeof(struct mr_round_task *));
    MR_CHECK_ALLOC(by_index, err);
    for (size_t i = 0; i < schedule->n_tasks; i++) {
        by_index[i] = mr_client_rounds_task_get(rounds, schedule->tasks[i]);
        MR_CHECK_ALLOC(by_index[i], err);
    }
    ProtobufCMessage *copy = mr_message_copy(&schedule->base);
    MR_CHECK_ALLOC(copy, err);
    for (size_t i = 0; i < rounds->ntasks; i++) {
        rounds->tasks[i]->index = MR_ROUND_NOBODY;
    }
    for (size_t i = 0; i < schedule->n_tasks; i++) {
        by_index[i]->index = (uint32_t)i;
    }
    millrace__round_schedule__free_unpacked(rounds->schedule, NULL);
    mr_free(rounds->by_index);
    rounds->schedule = (Millrace__RoundSchedule *)copy;
    rounds->by_index = MR_TAKE(by_index);
    set_outcomes(rounds);
    forget_tasks(rounds);
    MR_ASSERT_SLOW(check(rounds));
    return MR_OK;
}

static int check_place(mr_client_rounds *rounds, const Millrace__RoundsUpdate *update,
                       mr_error *err)
{
    uint32_t i = rounds->config.consumer_index;

    if (update->refused[0] != '\0') {
        rounds->failed = mr_error_set(&rounds->failure, MR_EPRECOND, "%s", update->refused);
        return mr_client_rounds_fail(rounds, err);
    }
    if (i < update->n_sessions && update->sessions[i] > rounds->config.session) {
        rounds->failed = mr_error_set(&rounds->failure, MR_EPRECOND,
                                      "another process has taken the place of consumer %u", i);
        return mr_client_rounds_fail(rounds, err);
    }
    return MR_OK;
}

static int take_outcomes(mr_client_rounds *rounds, mr_error *err)
{
    for (size_t i = 0; i < rounds->ntasks; i++) {
        const struct mr_round_task *task = rounds->tasks[i];
        if (task->has_outcome) {
            MR_TRY(mr_client_rounds_begin_behind(rounds, task, task->delivered, err));
        }
    }
    return MR_OK;
}

static void note_closing(mr_client_rounds *rounds, const Millrace__RoundsUpdate *update)
{
    for (size_t i = 0; i < update->n_closing; i++) {
        struct mr_round_task *task = mr_client_rounds_task_find(rounds, update->closing[i]);

        if (task != NULL && !task->closing) {
            task->closing = true;
            rounds->reports++;
        }
    }
}

int mr_client_rounds_update(mr_client_rounds *rounds, const Millrace__RoundsUpdate *update,
                            mr_error *err)
{
    if (rounds->failed < 0) {
        return mr_client_rounds_fail(rounds, err);
    }
    MR_TRY(check_place(rounds, update, err));
    if (update->schedule != NULL) {
        MR_TRY(take_schedule(rounds, update->schedule, err));
    }
    if (rounds->schedule == NULL) {
        return MR_OK;
    }
    note_closing(rounds, update);
    if (update->horizon > rounds->horizon) {
        rounds->horizon = update->horizon;
        rounds->report_at = rounds->position + (rounds->horizon - rounds->position + 1) / 2;
    }
    if (update->ask != 0 && update->ask != rounds->ask) {
        rounds->ask = update->ask;
        rounds->reports++;
    }
    return take_outcomes(rounds, err);
}

void mr_client_rounds_finish(mr_client_rounds *rounds)
{
    rounds->finished = true;
}

bool mr_client_rounds_must_report(const mr_client_rounds *rounds)
{
    return rounds->reported < rounds->reports;
}

static bool is_in_doubt(const struct mr_round_task *task)
{
    return task->closing && !task->has_outcome;
}

static Millrace__ClosingReport *closing_report(const mr_client_rounds *rounds,
                                               struct mr_round_task *task)
{
    Millrace__ClosingReport *closing = &task->report;

    millrace__closing_report__init(closing);
    closing->task_id = task->id;
    closing->held_below = MR_MAX(task->held, rounds->first);
    closing->ended = task->ended;
    closing->end_round = task->end_round;
    return closing;
}

uint64_t mr_client_rounds_report(mr_client_rounds *rounds, Millrace__ConsumerReport *ret)
{
    millrace__consumer_report__init(ret);
    ret->session = rounds->config.session;
    ret->from_round = rounds->first;
    ret->position = rounds->position;
    ret->returned = rounds->returned;
    ret->ask = rounds->ask;
    ret->closing = rounds->closing;
    for (size_t i = 0; i < rounds->ntasks; i++) {
        if (is_in_doubt(rounds->tasks[i])) {
            ret->closing[ret->n_closing++] = closing_report(rounds, rounds->tasks[i]);
        }
    }
    return rounds->reports + 1;
}

void mr_client_rounds_reported(mr_client_rounds *rounds, uint64_t number)
{
    rounds->reported = MR_MAX(rounds->reported, number - 1);
}
