/* The rounds on the stream of one task: what it is opened with, what comes, how far the worker may
 * go. */
#include "client/rounds_internal.h"

/* NULL: it is not known. */
static bool is_wanted(const struct mr_round_task *task)
{
    return task != NULL && task->index != MR_ROUND_NOBODY && !task->closing && !task->has_outcome;
}

bool mr_client_rounds_wants(const mr_client_rounds *rounds, const char *task_id)
{
    return is_wanted(mr_client_rounds_task_find(rounds, task_id));
}

/* What the receipts say: its end counts as a round of its own. */
static uint64_t received_below(const mr_client_rounds *rounds, const struct mr_round_task *task)
{
    bool all =
        task->ended && mr_client_rounds_task_next(rounds, task, task->held) >= task->end_round;

    return all ? task->end_round + 1 : task->held;
}

static uint64_t returned_below(const mr_client_rounds *rounds, const struct mr_round_task *task)
{
    bool all = task->ended &&
               mr_client_rounds_task_next(rounds, task, rounds->position) >= task->end_round;

    return all ? MR_MAX(task->end_round + 1, rounds->position) : rounds->position;
}

int mr_client_rounds_open(mr_client_rounds *rounds, const char *task_id, Millrace__RoundOpen *ret,
                          mr_error *err)
{
    struct mr_round_task *task = mr_client_rounds_task_get(rounds, task_id);

    MR_CHECK_ALLOC(task, err);
    task->told_limit = 0;
    task->told_received = 0;
    task->told_returned = 0;
    ret->consumer_index = rounds->config.consumer_index;
    ret->session = rounds->config.session;
    ret->from_round = rounds->first;
    ret->received_below = received_below(rounds, task);
    ret->returned_below = returned_below(rounds, task);
    return MR_OK;
}

static int out_of_turn(const struct mr_round_task *task, uint64_t round, uint64_t expected,
                       mr_error *err)
{
    return mr_error_set(err, MR_EDATALOSS,
                        "task %.60s sent round %" PRIu64 ", its next one is %" PRIu64, task->id,
                        round, expected);
}

/* Its elements from @first on are new. */
static int take_rounds(mr_client_rounds *rounds, struct mr_round_task *task,
                       const Millrace__RoundHeader *header, size_t *first, mr_error *err)
{
    uint64_t held = task->held;
    size_t i = 0;

    while (i < header->n_rounds && header->rounds[i] < held) {
        i++;
    }
    *first = i;
    for (; i < header->n_rounds; i++) {
        uint64_t expected = mr_client_rounds_task_next(rounds, task, held);

        /* Beyond the horizon the schedule may be one that is not known here yet. */
        if (header->rounds[i] < held || header->rounds[i] == MR_ROUND_NEVER ||
            (expected < rounds->horizon && header->rounds[i] != expected)) {
            return out_of_turn(task, header->rounds[i], expected, err);
        }
        held = header->rounds[i] + 1;
    }
    task->held = held;
    return MR_OK;
}

int mr_client_rounds_receive(mr_client_rounds *rounds, const char *task_id,
                             const Millrace__RoundHeader *header, size_t *first, mr_error *err)
{
    struct mr_round_task *task = mr_client_rounds_task_find(rounds, task_id);

    *first = header->n_rounds;
    if (rounds->failed < 0) {
        return mr_client_rounds_fail(rounds, err);
    }
    if (task == NULL || task->closing || task->has_outcome) {
        return MR_OK;
    }
    if (header->ended && task->ended && header->end_round != task->end_round) {
        return mr_error_set(err, MR_EDATALOSS,
                            "task %.60s ended at round %" PRIu64 ", and now at %" PRIu64, task->id,
                            task->end_round, header->end_round);
    }
    if (header->opened) {
        MR_TRY(mr_client_rounds_begin_behind(rounds, task, header->kept_from, err));
    }
    MR_TRY(take_rounds(rounds, task, header, first, err));
    if (header->opened) {
        task->met = true;
        task->complete_before = MR_MAX(task->complete_before, header->complete_before);
    }
    if (header->ended) {
        task->ended = true;
        task->end_round = header->end_round;
    }
    task->complete = MR_MAX(task->complete, header->complete_below);
    return MR_OK;
}

/* Rounds of all tasks together that may be here at once. */
static uint64_t window(const mr_client_rounds *rounds)
{
    size_t segment = mr_schedule_segment(rounds->schedule, rounds->position);
    size_t n = rounds->schedule->segments[segment]->n_tasks;

    return (uint64_t)rounds->config.ahead * (n > 0 ? n : 1);
}

/* It has grown by @step at least. Whatever the numbers are: they come from outside. */
static bool has_grown(uint64_t now, uint64_t told, uint64_t step)
{
    return now > told && now - told >= step;
}

bool mr_client_rounds_tell(mr_client_rounds *rounds, const char *task_id,
                           Millrace__ReadRequest *ret)
{
    struct mr_round_task *task = mr_client_rounds_task_find(rounds, task_id);

    if (!is_wanted(task)) { /* or there is no schedule */
        return false;
    }
    uint64_t room = window(rounds);
    uint64_t limit =
        room < MR_ROUND_NEVER - rounds->position ? rounds->position + room : MR_ROUND_NEVER;
    uint64_t received = received_below(rounds, task);
    uint64_t returned = returned_below(rounds, task);
    bool nothing_left = mr_client_rounds_task_next(rounds, task, rounds->position) >= task->held;

    limit = MR_MAX(limit, task->complete_before);
    ret->limit_round = limit;
    ret->received_below = received;
    ret->returned_below = returned;
    if (received <= task->told_received && limit >= task->told_limit &&
        !has_grown(limit, task->told_limit, room / 2) &&
        !has_grown(returned, task->told_returned, room / 2) &&
        (returned <= task->told_returned || !nothing_left)) {
        return false;
    }
    task->told_limit = limit;
    task->told_received = received;
    task->told_returned = returned;
    return true;
}
