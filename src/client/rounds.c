/*
 * What must hold here, and why:
 *
 *  A round is returned when it is complete, or when an outcome says that it was delivered. Then everybody has it, or
 *  has begun behind it.
 *  Whoever promised not to listen to a task any more returns none of its rounds before the outcome: the dispatcher
 *  decides on what was reported with the promise.
 *  A new session returns nothing before it has everything that was complete without it ("may start"). From then on a
 *  round that anybody returns is one that this session has received: it can never be told of a delivered round in the
 *  middle of its own that it lacks.
 */
#include "client/rounds.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "rounds/schedule.h"

#include <millrace/dataset.h> /* mr_free */

#include <inttypes.h>
#include <string.h>

struct task {
    char *id;
    uint32_t index; /* in the schedule; MR_ROUND_NOBODY: it is not in there (any more) */
    bool closing;   /* promised not to listen */
    bool has_outcome;
    uint64_t delivered; /* outcome: its rounds below count, the others are void */
    bool met;           /* it has answered this session */
    uint64_t complete_before;
    uint64_t held; /* all its rounds below have come */
    uint64_t complete;
    bool ended;
    uint64_t end_round;
    uint64_t told_limit;
    uint64_t told_received;
    uint64_t told_returned;
};

struct mr_rounds {
    struct mr_rounds_config config;
    Millrace__RoundSchedule *schedule; /* NULL: nothing was heard yet */
    struct task **by_index;            /* schedule->n_tasks */
    struct task **tasks;
    size_t ntasks;
    uint64_t horizon;
    uint64_t first;
    uint64_t position;
    uint64_t returned;
    bool started;
    bool finished;
    bool ready_to_take; /* the last mr_rounds_next() said TAKE */
    uint64_t ask;
    uint64_t report_at; /* a position at which the dispatcher should hear of it */
    uint64_t reports;   /* reasons to report so far */
    uint64_t reported;
    int failed;
    mr_error failure;
};

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static int fail(mr_rounds *rounds, mr_error *err)
{
    if (err != NULL) {
        *err = rounds->failure;
    }
    return rounds->failed;
}

mr_rounds *mr_rounds_new(const struct mr_rounds_config *config)
{
    mr_rounds *rounds = mr_calloc(1, sizeof *rounds);

    if (rounds != NULL) {
        rounds->config = *config;
        rounds->config.ahead = config->ahead < 2 ? 2 : config->ahead;
        rounds->first = config->from_round;
        rounds->position = config->from_round;
        rounds->report_at = MR_ROUND_NEVER;
    }
    return rounds;
}

static void free_task(struct task *task)
{
    if (task != NULL) {
        mr_free(task->id);
        mr_free(task);
    }
}

void mr_rounds_free(mr_rounds *rounds)
{
    if (rounds == NULL) {
        return;
    }
    for (size_t i = 0; i < rounds->ntasks; i++) {
        free_task(rounds->tasks[i]);
    }
    if (rounds->schedule != NULL) {
        millrace__round_schedule__free_unpacked(rounds->schedule, NULL);
    }
    mr_free(rounds->tasks);
    mr_free(rounds->by_index);
    mr_free(rounds);
}

uint64_t mr_rounds_position(const mr_rounds *rounds)
{
    return rounds->position;
}

uint64_t mr_rounds_first(const mr_rounds *rounds)
{
    return rounds->first;
}

/* ---------------------------------------------------------------- tasks */

static struct task *find_task(const mr_rounds *rounds, const char *id)
{
    for (size_t i = 0; i < rounds->ntasks; i++) {
        if (strcmp(rounds->tasks[i]->id, id) == 0) {
            return rounds->tasks[i];
        }
    }
    return NULL;
}

static struct task *add_task(mr_rounds *rounds, const char *id)
{
    struct task **bigger = mr_reallocarray(rounds->tasks, rounds->ntasks + 1, sizeof(struct task *));
    struct task *task;

    if (bigger == NULL) {
        return NULL;
    }
    rounds->tasks = bigger;
    task = mr_calloc(1, sizeof *task);
    if (task == NULL) {
        return NULL;
    }
    task->id = mr_strdup(id);
    if (task->id == NULL) {
        free_task(task);
        return NULL;
    }
    task->index = MR_ROUND_NOBODY;
    task->held = rounds->first;
    bigger[rounds->ntasks++] = task;
    return task;
}

static struct task *task_of(mr_rounds *rounds, const char *id)
{
    struct task *task = find_task(rounds, id);

    return task != NULL ? task : add_task(rounds, id);
}

/* Its first round that is not below @from, as far as the schedule is known. */
static uint64_t round_from(const mr_rounds *rounds, const struct task *task, uint64_t from)
{
    return task->index == MR_ROUND_NOBODY ? MR_ROUND_NEVER : mr_schedule_next(rounds->schedule, task->index, from);
}

static bool is_void(const struct task *task, uint64_t round)
{
    return (task->has_outcome && round >= task->delivered) || (task->ended && round >= task->end_round);
}

/* ---------------------------------------------------------------- where it begins */

/* Begin at @round: whatever is before it is of no concern. MR_EPRECOND: it was to begin with one before that. */
static int begin_at(mr_rounds *rounds, uint64_t round, mr_error *err)
{
    if (rounds->config.placed) {
        rounds->failed = mr_error_set(&rounds->failure, MR_EPRECOND,
                                      "round %" PRIu64 " cannot be had any more: the first that can is %" PRIu64,
                                      rounds->first, round);
        return fail(rounds, err);
    }
    rounds->first = round;
    rounds->position = max_u64(rounds->position, round);
    for (size_t i = 0; i < rounds->ntasks; i++) {
        rounds->tasks[i]->held = max_u64(rounds->tasks[i]->held, round);
    }
    return MR_OK;
}

/* Rounds of @task below @below were returned by others, and some of them are not here. */
static int begin_behind(mr_rounds *rounds, const struct task *task, uint64_t below, mr_error *err)
{
    uint64_t missing = round_from(rounds, task, max_u64(task->held, rounds->position));

    if (missing >= below) {
        return MR_OK;
    }
    if (rounds->started) {
        rounds->failed = mr_error_set(&rounds->failure, MR_EDATALOSS,
                                      "round %" PRIu64 " was returned by other consumers and is lost here", missing);
        return fail(rounds, err);
    }
    return begin_at(rounds, mr_schedule_behind(rounds->schedule, task->index, below), err);
}

/* ---------------------------------------------------------------- the dispatcher */

static Millrace__RoundSchedule *copy_schedule(const Millrace__RoundSchedule *schedule)
{
    size_t size = millrace__round_schedule__get_packed_size(schedule);
    uint8_t *bytes = mr_malloc(size + 1);
    Millrace__RoundSchedule *copy;

    if (bytes == NULL) {
        return NULL;
    }
    millrace__round_schedule__pack(schedule, bytes);
    copy = millrace__round_schedule__unpack(NULL, size, bytes);
    mr_free(bytes);
    return copy;
}

/* Tasks that are in no schedule any more are over for this consumer, too. */
static void forget_tasks(mr_rounds *rounds)
{
    size_t n = 0;

    for (size_t i = 0; i < rounds->ntasks; i++) {
        if (rounds->tasks[i]->index == MR_ROUND_NOBODY) {
            free_task(rounds->tasks[i]);
        } else {
            rounds->tasks[n++] = rounds->tasks[i];
        }
    }
    rounds->ntasks = n;
}

static void set_outcomes(mr_rounds *rounds)
{
    const Millrace__RoundSchedule *schedule = rounds->schedule;

    for (size_t i = 0; i < schedule->n_outcomes; i++) {
        struct task *task = rounds->by_index[schedule->outcomes[i]->task];

        task->has_outcome = true;
        task->delivered = schedule->outcomes[i]->delivered_below;
    }
}

static int take_schedule(mr_rounds *rounds, const Millrace__RoundSchedule *schedule, mr_error *err)
{
    Millrace__RoundSchedule *copy = NULL;
    struct task **by_index = NULL;
    int rc = mr_schedule_check(schedule, err);

    if (rc < 0) {
        return rc;
    }
    copy = copy_schedule(schedule);
    by_index = mr_calloc(schedule->n_tasks + 1, sizeof(struct task *));
    if (copy == NULL || by_index == NULL) {
        goto no_memory;
    }
    for (size_t i = 0; i < schedule->n_tasks; i++) {
        by_index[i] = task_of(rounds, schedule->tasks[i]);
        if (by_index[i] == NULL) {
            goto no_memory;
        }
    }
    for (size_t i = 0; i < rounds->ntasks; i++) {
        rounds->tasks[i]->index = MR_ROUND_NOBODY;
    }
    for (size_t i = 0; i < schedule->n_tasks; i++) {
        by_index[i]->index = (uint32_t)i;
    }
    if (rounds->schedule != NULL) {
        millrace__round_schedule__free_unpacked(rounds->schedule, NULL);
    }
    mr_free(rounds->by_index);
    rounds->schedule = copy;
    rounds->by_index = by_index;
    set_outcomes(rounds);
    forget_tasks(rounds);
    return MR_OK;
no_memory:
    if (copy != NULL) {
        millrace__round_schedule__free_unpacked(copy, NULL);
    }
    mr_free(by_index);
    return mr_error_nomem(err);
}

static int check_place(mr_rounds *rounds, const Millrace__RoundsUpdate *update, mr_error *err)
{
    uint32_t i = rounds->config.consumer_index;

    if (update->refused[0] != '\0') {
        rounds->failed = mr_error_set(&rounds->failure, MR_EPRECOND, "%s", update->refused);
        return fail(rounds, err);
    }
    if (i < update->n_sessions && update->sessions[i] > rounds->config.session) {
        rounds->failed =
            mr_error_set(&rounds->failure, MR_EPRECOND, "another process has taken the place of consumer %u", i);
        return fail(rounds, err);
    }
    return MR_OK;
}

static int take_outcomes(mr_rounds *rounds, mr_error *err)
{
    for (size_t i = 0; i < rounds->ntasks; i++) {
        const struct task *task = rounds->tasks[i];
        int rc = task->has_outcome ? begin_behind(rounds, task, task->delivered, err) : MR_OK;

        if (rc < 0) {
            return rc;
        }
    }
    return MR_OK;
}

static void note_closing(mr_rounds *rounds, const Millrace__RoundsUpdate *update)
{
    for (size_t i = 0; i < update->n_closing; i++) {
        struct task *task = find_task(rounds, update->closing[i]);

        if (task != NULL && !task->closing) {
            task->closing = true;
            rounds->reports++;
        }
    }
}

int mr_rounds_update(mr_rounds *rounds, const Millrace__RoundsUpdate *update, mr_error *err)
{
    int rc = rounds->failed < 0 ? fail(rounds, err) : check_place(rounds, update, err);

    if (rc == MR_OK && update->schedule != NULL) {
        rc = take_schedule(rounds, update->schedule, err);
    }
    if (rc < 0 || rounds->schedule == NULL) {
        return rc;
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

void mr_rounds_finish(mr_rounds *rounds)
{
    rounds->finished = true;
}

bool mr_rounds_must_report(const mr_rounds *rounds)
{
    return rounds->reported < rounds->reports;
}

static bool is_in_doubt(const struct task *task)
{
    return task->closing && !task->has_outcome;
}

uint64_t mr_rounds_report(const mr_rounds *rounds, Millrace__ConsumerReport *ret)
{
    Millrace__ConsumerReport report = MILLRACE__CONSUMER_REPORT__INIT;

    report.session = rounds->config.session;
    report.from_round = rounds->first;
    report.position = rounds->position;
    report.returned = rounds->returned;
    report.ask = rounds->ask;
    report.closing = mr_calloc(rounds->ntasks + 1, sizeof *report.closing);
    for (size_t i = 0; report.closing != NULL && i < rounds->ntasks; i++) {
        const struct task *task = rounds->tasks[i];
        Millrace__ClosingReport *closing;

        if (!is_in_doubt(task)) {
            continue;
        }
        closing = mr_calloc(1, sizeof *closing);
        if (closing == NULL) {
            mr_rounds_report_clear(&report);
            return 0;
        }
        millrace__closing_report__init(closing);
        report.closing[report.n_closing++] = closing;
        closing->held_below = max_u64(task->held, rounds->first);
        closing->ended = task->ended;
        closing->end_round = task->end_round;
        closing->task_id = mr_strdup(task->id);
        if (closing->task_id == NULL) {
            closing->task_id = (char *)protobuf_c_empty_string;
            mr_rounds_report_clear(&report);
            return 0;
        }
    }
    if (report.closing == NULL) {
        return 0;
    }
    *ret = report;
    return rounds->reports + 1;
}

void mr_rounds_reported(mr_rounds *rounds, uint64_t number)
{
    if (number > 0) {
        rounds->reported = max_u64(rounds->reported, number - 1);
    }
}

void mr_rounds_report_clear(Millrace__ConsumerReport *report)
{
    for (size_t i = 0; i < report->n_closing; i++) {
        millrace__closing_report__free_unpacked(report->closing[i], NULL);
    }
    mr_free(report->closing);
    report->closing = NULL;
    report->n_closing = 0;
}

/* ---------------------------------------------------------------- streams */

bool mr_rounds_wants(const mr_rounds *rounds, const char *task_id)
{
    const struct task *task = find_task(rounds, task_id);

    return task != NULL && task->index != MR_ROUND_NOBODY && !task->closing && !task->has_outcome;
}

/* What the receipts say: its end counts as a round of its own. */
static uint64_t received_below(const mr_rounds *rounds, const struct task *task)
{
    bool all = task->ended && round_from(rounds, task, task->held) >= task->end_round;

    return all ? task->end_round + 1 : task->held;
}

static uint64_t returned_below(const mr_rounds *rounds, const struct task *task)
{
    bool all = task->ended && round_from(rounds, task, rounds->position) >= task->end_round;

    return all ? max_u64(task->end_round + 1, rounds->position) : rounds->position;
}

int mr_rounds_open(mr_rounds *rounds, const char *task_id, Millrace__RoundOpen *ret, mr_error *err)
{
    struct task *task = task_of(rounds, task_id);

    if (task == NULL) {
        return mr_error_nomem(err);
    }
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

static int out_of_turn(const struct task *task, uint64_t round, uint64_t expected, mr_error *err)
{
    return mr_error_set(err, MR_EDATALOSS, "task %.60s sent round %" PRIu64 ", its next one is %" PRIu64, task->id,
                        round, expected);
}

/* Its elements from @first on are new. */
static int take_rounds(mr_rounds *rounds, struct task *task, const Millrace__RoundHeader *header, size_t *first,
                       mr_error *err)
{
    uint64_t held = task->held;
    size_t i = 0;

    while (i < header->n_rounds && header->rounds[i] < held) {
        i++;
    }
    *first = i;
    for (; i < header->n_rounds; i++) {
        uint64_t expected = round_from(rounds, task, held);

        /* Beyond the horizon the schedule may be one that is not known here yet. */
        if (header->rounds[i] < held || (expected < rounds->horizon && header->rounds[i] != expected)) {
            return out_of_turn(task, header->rounds[i], expected, err);
        }
        held = header->rounds[i] + 1;
    }
    task->held = held;
    return MR_OK;
}

int mr_rounds_receive(mr_rounds *rounds, const char *task_id, const Millrace__RoundHeader *header, size_t *first,
                      mr_error *err)
{
    struct task *task = find_task(rounds, task_id);
    int rc;

    *first = header->n_rounds;
    if (rounds->failed < 0) {
        return fail(rounds, err);
    }
    if (task == NULL || task->closing || task->has_outcome) {
        return MR_OK;
    }
    if (header->ended && task->ended && header->end_round != task->end_round) {
        return mr_error_set(err, MR_EDATALOSS, "task %.60s ended at round %" PRIu64 ", and now at %" PRIu64, task->id,
                            task->end_round, header->end_round);
    }
    if (header->opened) {
        rc = begin_behind(rounds, task, header->kept_from, err);
        if (rc < 0) {
            return rc;
        }
    }
    rc = take_rounds(rounds, task, header, first, err);
    if (rc < 0) {
        return rc;
    }
    if (header->opened) {
        task->met = true;
        task->complete_before = max_u64(task->complete_before, header->complete_before);
    }
    if (header->ended) {
        task->ended = true;
        task->end_round = header->end_round;
    }
    task->complete = max_u64(task->complete, header->complete_below);
    return MR_OK;
}

/* Rounds of all tasks together that may be here at once. */
static uint64_t window(const mr_rounds *rounds)
{
    size_t segment = mr_schedule_segment(rounds->schedule, rounds->position);
    size_t n = rounds->schedule->segments[segment]->n_tasks;

    return (uint64_t)rounds->config.ahead * (n > 0 ? n : 1);
}

bool mr_rounds_tell(mr_rounds *rounds, const char *task_id, Millrace__ReadRequest *ret)
{
    struct task *task = find_task(rounds, task_id);
    uint64_t room, limit, received, returned;
    bool nothing_left;

    if (task == NULL || rounds->schedule == NULL || !mr_rounds_wants(rounds, task_id)) {
        return false;
    }
    room = window(rounds);
    limit = max_u64(rounds->position + room, task->complete_before);
    received = received_below(rounds, task);
    returned = returned_below(rounds, task);
    nothing_left = round_from(rounds, task, rounds->position) >= task->held;
    ret->limit_round = limit;
    ret->received_below = received;
    ret->returned_below = returned;
    if (received <= task->told_received && limit < task->told_limit + room / 2 && limit >= task->told_limit &&
        returned < task->told_returned + room / 2 && (returned <= task->told_returned || !nothing_left)) {
        return false;
    }
    task->told_limit = limit;
    task->told_received = received;
    task->told_returned = returned;
    return true;
}

/* ---------------------------------------------------------------- next */

/* Nobody in this segment has any more rounds, from the position on. */
static bool is_over_from(const mr_rounds *rounds, size_t segment)
{
    const Millrace__RoundSegment *turns = rounds->schedule->segments[segment];

    for (size_t i = 0; i < turns->n_tasks; i++) {
        const struct task *task = rounds->by_index[turns->tasks[i]];

        if (!is_void(task, round_from(rounds, task, rounds->position))) {
            return false;
        }
    }
    return true;
}

/* Move on over rounds that nobody returns. False: at the horizon, or where the schedule has nobody (yet). */
static bool skip_voids(mr_rounds *rounds)
{
    while (rounds->position < rounds->horizon) {
        size_t segment = mr_schedule_segment(rounds->schedule, rounds->position);
        uint64_t begin = rounds->schedule->segments[segment]->from_round;
        uint64_t end = mr_schedule_segment_end(rounds->schedule, segment);
        uint32_t owner = mr_schedule_owner(rounds->schedule, rounds->position);

        if (rounds->position < begin) {
            rounds->position = begin < rounds->horizon ? begin : rounds->horizon;
            continue; /* what was there is forgotten, and void for whoever may begin there */
        }
        if (owner != MR_ROUND_NOBODY && !is_void(rounds->by_index[owner], rounds->position)) {
            return true;
        }
        if (owner != MR_ROUND_NOBODY && !is_over_from(rounds, segment)) {
            rounds->position++;
        } else if (end == MR_ROUND_NEVER) {
            return false; /* whoever joins, or the end of the iteration, says how it goes on */
        } else {
            rounds->position = end < rounds->horizon ? end : rounds->horizon;
        }
    }
    return false;
}

/* Whose word or rounds are missing before it may begin: all that may have been complete without this session. NULL:
 * nothing is, or it has begun. */
static const struct task *missing_to_start(const mr_rounds *rounds)
{
    for (size_t i = 0; !rounds->started && i < rounds->ntasks; i++) {
        const struct task *task = rounds->tasks[i];

        if (task->has_outcome || round_from(rounds, task, rounds->first) >= rounds->horizon) {
            continue;
        }
        if (task->closing || !task->met || round_from(rounds, task, task->held) < task->complete_before) {
            return task;
        }
    }
    return NULL;
}

static bool is_ready(const mr_rounds *rounds, const struct task *task)
{
    uint64_t round = rounds->position;

    if (round >= task->held || missing_to_start(rounds) != NULL) {
        return false;
    }
    return task->has_outcome || (!task->closing && round < task->complete);
}

/* Of whom something is waited for before the round of @task may be returned. */
static const struct task *waited_for(const mr_rounds *rounds, const struct task *task)
{
    const struct task *missing = rounds->position < task->held ? missing_to_start(rounds) : NULL;

    return missing != NULL ? missing : task;
}

int mr_rounds_next(mr_rounds *rounds, struct mr_rounds_next *ret, mr_error *err)
{
    struct task *task = NULL;

    if (rounds->failed < 0) {
        return fail(rounds, err);
    }
    rounds->ready_to_take = false;
    if (rounds->schedule != NULL && skip_voids(rounds)) {
        task = rounds->by_index[mr_schedule_owner(rounds->schedule, rounds->position)];
        rounds->ready_to_take = is_ready(rounds, task);
    }
    if (rounds->position >= rounds->report_at) {
        rounds->report_at = rounds->position < rounds->horizon ? rounds->horizon : MR_ROUND_NEVER;
        rounds->reports++;
    }
    ret->round = rounds->position;
    ret->task_id = NULL;
    if (task != NULL) {
        ret->task_id = rounds->ready_to_take ? task->id : waited_for(rounds, task)->id;
    }
    ret->turn = rounds->ready_to_take ? MR_ROUNDS_TAKE : rounds->finished ? MR_ROUNDS_END : MR_ROUNDS_WAIT;
    return MR_OK;
}

void mr_rounds_taken(mr_rounds *rounds)
{
    MR_ASSERT(rounds->ready_to_take);
    rounds->ready_to_take = false;
    rounds->position++;
    rounds->returned++;
    rounds->started = true;
}
