/*
 * Tasks are derived: each open iteration has one for each worker that lived while it was open. A
 * record exists for what cannot be derived, that a task ended or was closed. Ids are the same under
 * every leader.
 *
 *     open ──(it says so)──► ended (or drained: its worker goes, and that is why)
 *       ╰──(its worker is lost, or no client reaches it)──► lost
 *
 * Recovery tasks (recovery.c) come on top of these, with an id and a record of their own, and are
 * forgotten as soon as they have ended or their loss is counted.
 */
#include "dispatcher/core/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned successors; /* bits */
} states[] = {
    [MR_TASK_OPEN] = {"open", 1u << MR_TASK_ENDED | 1u << MR_TASK_LOST},
    [MR_TASK_ENDED] = {"ended", 0},
    [MR_TASK_LOST] = {"lost", 0},
};

const char *mr_task_state_name(enum mr_task_state state)
{
    return states[state].name;
}

static void task_key(const struct mr_task *task, char *out, size_t size)
{
    snprintf(out, size, "tasks/%s", task->id);
}

void mr_task_free(struct mr_task *task)
{
    if (task == NULL) {
        return;
    }
    for (size_t i = 0; task->grants != NULL && i < task->iteration->rec->n_providers; i++) {
        mr_record_free(task->grants[i].rec);
    }
    mr_free(task->grants);
    mr_sharing_report_free(task->sharing);
    mr_record_free(task->rec);
    mr_free(task);
}

/* @rec: of a recovery task, taken; NULL: derived. */
static struct mr_task *add_task(mr_core *core, struct mr_iteration *it,
                                struct mr_core_worker *worker, Millrace__TaskRecord *rec)
{
    struct mr_task *task = mr_calloc(1, sizeof *task);

    if (task == NULL) {
        mr_core_nomem(core);
        mr_record_free(rec);
        return NULL;
    }
    task->iteration = it;
    task->worker = worker;
    task->state = MR_TASK_OPEN;
    task->waited_for = MR_NEVER;
    task->rec = rec;
    if (rec != NULL) {
        snprintf(task->id, sizeof task->id, "%s/%s/%u", it->rec->id, worker->ref, rec->recovery);
    } else {
        snprintf(task->id, sizeof task->id, "%s/%s", it->rec->id, worker->ref);
    }
    if (it->rec->n_providers > 0) {
        task->grants = mr_calloc(it->rec->n_providers, sizeof *task->grants);
        if (task->grants == NULL) {
            mr_core_nomem(core);
            mr_task_free(task);
            return NULL;
        }
    }
    TAILQ_INSERT_TAIL(&it->tasks, task, in_iteration);
    TAILQ_INSERT_TAIL(&worker->tasks, task, in_worker);
    it->open_tasks++;
    it->draining_tasks += mr_core_worker_is_draining(worker) ? 1 : 0;
    worker->recoveries += rec != NULL ? 1 : 0;
    core->tasks++;
    mr_core_index(core, &core->tasks_by_id, task->id, task);
    mr_iteration_note_task(core, task);
    if (it->rounds != NULL) {
        mr_iteration_unsettle(core, it); /* it is to take turns */
    }
    return task;
}

struct mr_task *mr_task_add(mr_core *core, struct mr_iteration *it, struct mr_core_worker *worker)
{
    return add_task(core, it, worker, NULL);
}

/* It made nothing for long, and now something: whoever was closed for that may read there again. */
static void note_going_on(mr_core *core, struct mr_task *producing)
{
    struct mr_iteration *user;

    producing->barren = false;
    TAILQ_FOREACH(user, &producing->iteration->makes->users, in_production)
    {
        mr_iteration_look_again(core, user);
    }
}

void mr_task_note_progress(mr_core *core, struct mr_task *task,
                           const Millrace__TaskProgress *progress)
{
    bool wanted = progress->sessions > 0 && !progress->finished &&
                  !mr_task_is_held_up(core, task) &&
                  progress->produced == progress->delivered + progress->skipped;
    int64_t timeout_ms = core->config.task_timeout_ms;

    if (!wanted || task->state != MR_TASK_OPEN) {
        task->waited_for = MR_NEVER;
    } else if (task->waited_for == MR_NEVER || task->produced != progress->produced) {
        task->waited_for = core->now;
    }
    if (progress->rounds != NULL) {
        mr_consumers_note_missing(core, task->iteration, progress->rounds);
    }
    if (task->barren && task->produced != progress->produced) {
        note_going_on(core, task);
    }
    task->produced = progress->produced;
    task->delivered = progress->delivered;
    task->abandoned = progress->abandoned;
    task->finished = progress->finished;
    if (timeout_ms > 0 && task->waited_for != MR_NEVER) {
        mr_alarm_by(core, &task->iteration->alarm, mr_time_add(task->waited_for, timeout_ms));
    }
}

/*
 * The task that has read there for its iteration before @task, or NULL. What @task says of elements
 * that nobody gets is said for both of them then (docs/adr/0010): only the worker knows what the
 * first one did not come to say.
 */
static struct mr_task *read_before(const struct mr_task *task)
{
    struct mr_task *other = NULL;

    if (task->iteration->uses != NULL && mr_task_is_recovery(task)) {
        TAILQ_FOREACH(other, &task->iteration->tasks, in_iteration)
        {
            if (other->worker == task->worker && !mr_task_is_recovery(other)) {
                break;
            }
        }
    }
    return other;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t said_abandoned(const struct mr_task *task)
{
    uint64_t stored = task->rec != NULL ? task->rec->abandoned : 0;

    /* Its end is the last word: what clients held then is with them (mr_client_hold()). */
    return task->state == MR_TASK_ENDED && task->rec != NULL ? stored
                                                             : larger(stored, task->abandoned);
}

static uint64_t said_skipped(const struct mr_task *task)
{
    uint64_t stored = task->rec != NULL ? task->rec->skipped : 0;

    return larger(stored, task->sharing != NULL ? task->sharing->skipped : 0);
}

uint64_t mr_task_abandoned(const struct mr_task *task)
{
    const struct mr_task *before = read_before(task);
    uint64_t told = before != NULL ? said_abandoned(before) : 0;

    return larger(said_abandoned(task), told) - told;
}

uint64_t mr_task_skipped(const struct mr_task *task)
{
    const struct mr_task *before = read_before(task);
    uint64_t told = before != NULL ? said_skipped(before) : 0;

    return larger(said_skipped(task), told) - told;
}

int64_t mr_task_stalled_ms(const mr_core *core, const struct mr_task *task)
{
    return task->state == MR_TASK_OPEN && task->waited_for != MR_NEVER
               ? core->now - task->waited_for
               : 0;
}

struct mr_task *mr_task_find(const mr_core *core, const char *id)
{
    return mr_map_get(&core->tasks_by_id, id);
}

uint64_t mr_task_granted(const struct mr_task *task)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < task->iteration->rec->n_providers; i++) {
        sum += task->grants[i].rec != NULL ? task->grants[i].rec->granted : 0;
    }
    return sum;
}

uint64_t mr_task_granted_elements(const struct mr_task *task, uint64_t most)
{
    const struct mr_iteration *it = task->iteration;
    uint64_t sum = 0;

    for (size_t i = 0; i < it->rec->n_providers; i++) {
        uint64_t splits = task->grants[i].rec != NULL ? task->grants[i].rec->granted : 0;
        uint64_t elements;

        splits = splits < most ? splits : most;
        if (splits > 0 && it->rec->providers[i]->split_elements == 0) {
            return 0;
        }
        if (__builtin_mul_overflow(splits, it->rec->providers[i]->split_elements, &elements)) {
            elements = MR_COUNT_MAX;
        }
        sum = mr_count_add(sum, elements);
    }
    return sum;
}

void mr_task_move(mr_core *core, struct mr_task *task, enum mr_task_state to)
{
    struct mr_iteration *it = task->iteration;

    MR_ASSERT((states[task->state].successors & 1u << to) != 0);
    task->state = to;
    it->open_tasks--;
    it->draining_tasks -= mr_core_worker_is_draining(task->worker) ? 1 : 0;
    it->ended_tasks += to == MR_TASK_ENDED && !task->drained ? 1 : 0;
    it->uncounted_tasks += to == MR_TASK_LOST && !task->counted ? 1 : 0;
    task->worker->recoveries -= mr_task_is_recovery(task) ? 1 : 0;
    if (to == MR_TASK_ENDED) {
        mr_grants_void(task); /* clients have returned all of it */
    }
    mr_iteration_note_task(core, task);
    mr_core_worker_note_dropped(core, task);
    mr_iteration_unsettle(core, it);
    if (it->rounds != NULL) {
        mr_rounds_note(core, it, false);
    }
    mr_core_trace(core, "task %s: %s", task->id, task->drained ? "drained" : states[to].name);
}

static bool give_record(mr_core *core, struct mr_task *task)
{
    MR_ASSERT(task->rec == NULL);
    task->rec = mr_core_new_record(core, &millrace__task_record__descriptor);
    return task->rec != NULL;
}

static void put_task(mr_core *core, const struct mr_task *task)
{
    char key[MR_KEY_SIZE];

    task_key(task, key, sizeof key);
    mr_core_put(core, key, &task->rec->base);
}

/* The task that @worker has in @it like every other worker. */
static struct mr_task *derived_task(const mr_core *core, const struct mr_iteration *it,
                                    const struct mr_core_worker *worker)
{
    char id[MR_TASK_ID_SIZE];

    snprintf(id, sizeof id, "%s/%s", it->rec->id, worker->ref);
    return mr_task_find(core, id);
}

void mr_task_recover(mr_core *core, struct mr_iteration *it, struct mr_core_worker *worker,
                     bool isolated)
{
    Millrace__TaskRecord *rec = mr_core_new_record(core, &millrace__task_record__descriptor);
    struct mr_task *task;

    if (rec == NULL) {
        return;
    }
    rec->recovery = ++it->rec->recoveries;
    rec->isolated = isolated;
    it->unwritten = true;
    task = derived_task(core, it, worker);
    rec->behind = task != NULL && task->rec != NULL ? task->rec->behind : 0;
    task = add_task(core, it, worker, rec);
    if (task != NULL) {
        mr_core_trace(core, "task %s: opened, a recovery task%s", task->id,
                      isolated ? " for suspects" : "");
        mr_core_worker_note_task(core, task);
        put_task(core, task);
    }
}

struct mr_task *mr_task_adopt_recovery(mr_core *core, struct mr_iteration *it,
                                       struct mr_core_worker *worker, Millrace__TaskRecord *rec)
{
    return add_task(core, it, worker, rec);
}

void mr_task_join_in(mr_core *core, struct mr_task *task)
{
    MR_ASSERT(task->rec->isolated);
    task->rec->isolated = false;
    put_task(core, task);
}

uint32_t mr_task_attempt(const struct mr_task *task)
{
    return mr_task_is_recovery(task) ? 1 + task->rec->recovery : task->worker->rec->life;
}

void mr_task_close_unreachable(mr_core *core, struct mr_task *task)
{
    struct mr_iteration *it = task->iteration;
    bool recovers = mr_task_is_recovery(task);
    struct mr_task *derived = recovers ? derived_task(core, it, task->worker) : task;
    const struct mr_task *producing = mr_task_producing(core, task);

    if (!recovers && !give_record(core, task)) {
        return;
    }
    if (!recovers) {
        task->rec->lost = true;
        task->rec->abandoned = said_abandoned(task); /* nobody says it under the next leader */
        task->rec->skipped = said_skipped(task);
    }
    mr_task_move(core, task, MR_TASK_LOST); /* the record of a recovery task goes with the count */
    if (producing != NULL && derived != NULL && derived->rec != NULL) {
        derived->rec->behind = mr_task_granted(producing);
    }
    if (!recovers || (producing != NULL && derived != NULL && derived->rec != NULL)) {
        put_task(core, derived);
    }
    mr_iteration_settle(core, it);
}

bool mr_task_disown(mr_core *core, struct mr_task *task, const mr_error *why)
{
    if (core->full || !mr_core_has_room(core, 1 + mr_iteration_settle_changes(task->iteration))) {
        return false; /* the worker says it again */
    }
    mr_core_note(core, "%s: closed", why->message);
    mr_task_close_unreachable(core, task);
    return true;
}

void mr_task_leave_grants(mr_core *core, struct mr_task *task)
{
    char key[MR_KEY_SIZE];

    for (size_t i = 0; i < task->iteration->rec->n_providers; i++) {
        if (task->grants[i].rec != NULL) {
            mr_grant_key(task, i, key, sizeof key);
            mr_core_leave_over(core, key);
            mr_record_free(task->grants[i].rec);
            task->grants[i].rec = NULL;
        }
    }
}

void mr_task_remove(mr_core *core, struct mr_task *task)
{
    struct mr_iteration *it = task->iteration;
    char key[MR_KEY_SIZE];

    if (task->state == MR_TASK_OPEN) {
        mr_core_worker_note_dropped(core, task);
    }
    mr_task_leave_grants(core, task);
    if (task->rec != NULL) {
        task_key(task, key, sizeof key);
        mr_core_leave_over(core, key);
    }
    it->open_tasks -= task->state == MR_TASK_OPEN ? 1 : 0;
    it->draining_tasks -=
        task->state == MR_TASK_OPEN && mr_core_worker_is_draining(task->worker) ? 1 : 0;
    it->ended_tasks -= task->state == MR_TASK_ENDED && !task->drained ? 1 : 0;
    it->uncounted_tasks -= task->state == MR_TASK_LOST && !task->counted ? 1 : 0;
    task->worker->recoveries -= task->state == MR_TASK_OPEN && mr_task_is_recovery(task) ? 1 : 0;
    core->tasks--;
    mr_map_remove(&core->tasks_by_id, task->id);
    TAILQ_REMOVE(&it->tasks, task, in_iteration);
    TAILQ_REMOVE(&task->worker->tasks, task, in_worker);
    mr_task_free(task);
}

/* What @task has said of elements that nobody gets is with its iteration from now on; or, if others
 * may come to read there and say it again, with the task before it. */
static void hand_over_counts(mr_core *core, const struct mr_task *task)
{
    struct mr_task *before = read_before(task);
    Millrace__IterationRecord *it = task->iteration->rec;

    if (before != NULL && before->rec != NULL) {
        before->rec->abandoned = larger(said_abandoned(before), said_abandoned(task));
        before->rec->skipped = larger(said_skipped(before), said_skipped(task));
        put_task(core, before);
    } else {
        it->abandoned = mr_count_add(it->abandoned, mr_task_abandoned(task));
        it->skipped = mr_count_add(it->skipped, mr_task_skipped(task));
    }
}

bool mr_task_give_up_counts(mr_core *core, struct mr_task *task)
{
    if (mr_task_abandoned(task) == 0 && mr_task_skipped(task) == 0) {
        return true;
    }
    if (core->full || !mr_core_has_room(core, 2)) {
        return false;
    }
    MR_ASSERT(!mr_task_is_recovery(task));
    hand_over_counts(core, task);
    task->abandoned = 0;
    if (task->sharing != NULL) {
        task->sharing->skipped = 0;
    }
    if (task->rec != NULL) {
        task->rec->abandoned = task->rec->skipped = 0;
        put_task(core, task);
    }
    mr_iteration_put(core, task->iteration);
    return true;
}

void mr_task_retire(mr_core *core, struct mr_task *task)
{
    char key[MR_KEY_SIZE];

    MR_ASSERT(mr_task_is_recovery(task));
    MR_ASSERT(task->state != MR_TASK_OPEN);
    hand_over_counts(core, task);
    task->iteration->unwritten = true;
    task_key(task, key, sizeof key);
    mr_core_delete(core, key);
    mr_record_free(task->rec);
    task->rec = NULL;
    mr_task_remove(core, task);
}

/* ---------------------------------------------------------------- TaskEnded */

static void set_message(mr_core *core, Millrace__TaskRecord *rec, const char *message)
{
    char text[MR_ERROR_MESSAGE_SIZE];

    mr_line_copy(message, text, sizeof text);
    mr_core_set(core, &rec->message, text);
}

/* Whose number is too large for one transaction is not waited for. */
static void note_holders(mr_core *core, struct mr_iteration *it,
                         const Millrace__TaskEndedRequest *in)
{
    for (size_t i = 0; i < in->n_holders; i++) {
        const Millrace__Holder *holder = in->holders[i];

        if (i < MR_HOLDERS_MAX && mr_core_has_room(core, 2 + mr_iteration_settle_changes(it))) {
            mr_client_hold(core, it, in->task_id, holder);
        } else {
            mr_iteration_note_abandoned(core, it, holder->elements, 0);
        }
    }
}

/* The record of a recovery task goes; that a pipeline came to its end is noted with the iteration,
 * and so is what went with clients. */
static void end_recovery(mr_core *core, struct mr_task *task, const Millrace__TaskEndedRequest *in)
{
    struct mr_iteration *it = task->iteration;
    struct mr_task *producing = mr_task_producing(core, task);

    if (task->drained && producing != NULL) {
        producing->barren = true; /* that its worker drains may be heard of later */
    }
    if (!task->drained) {
        it->unwritten = it->unwritten || !it->rec->pipeline_ended;
        it->rec->pipeline_ended = true;
    }
    mr_task_move(core, task, MR_TASK_ENDED);
    if (!task->drained) {
        mr_given_back_drop_unwanted(core, it, task);
    }
    task->rec->abandoned = mr_count_add(in->abandoned, 0);
    task->rec->skipped = it->uses != NULL ? mr_count_add(in->skipped, 0) : 0;
    mr_task_retire(core, task);
    note_holders(core, it, in);
}

/* In the words that clients have for it that hear of it from the worker: a file that is missing is
 * missing there. */
static void fail_iteration(mr_core *core, struct mr_task *task, int code)
{
    mr_error why;

    mr_error_set(&why, code, "worker %s: %s", task->worker->rec->address, task->rec->message);
    mr_iteration_fail(core, task->iteration, code, why.message);
}

static void end_task(mr_core *core, struct mr_task *task, int code,
                     const Millrace__TaskEndedRequest *in)
{
    struct mr_iteration *it = task->iteration;

    if (mr_task_is_recovery(task) && code >= 0) {
        end_recovery(core, task, in);
        mr_iteration_settle(core, it);
        return;
    }
    if (task->rec == NULL && !give_record(core, task)) {
        return;
    }
    task->rec->ended = true;
    task->rec->drained = task->drained;
    task->rec->code = code;
    task->rec->skipped = it->uses != NULL ? mr_count_add(in->skipped, 0) : 0;
    task->rec->abandoned = mr_count_add(in->abandoned, 0);
    set_message(core, task->rec, in->message);
    mr_task_move(core, task, MR_TASK_ENDED);
    put_task(core, task);
    note_holders(core, it, in);
    if (code < 0) {
        fail_iteration(core, task, code);
    } else {
        mr_iteration_settle(core, it);
    }
}

void mr_core_do_task_ended(mr_core *core, const Millrace__TaskEndedRequest *in)
{
    struct mr_core_worker *worker = mr_core_worker_live(core, in->incarnation);
    struct mr_task *task = mr_task_find(core, in->task_id);
    mr_error err;

    if (worker == NULL) {
        mr_error_set(&err, MR_ENOTFOUND, "worker %.8s is not registered", in->incarnation);
        mr_core_refuse(core, &millrace__task_ended_reply__descriptor, &err);
        return;
    }
    mr_core_worker_seen(core, worker);
    if (task != NULL && task->worker != worker) {
        mr_error_set(&err, MR_EPRECOND, "task %s is not of worker %.8s", task->id, in->incarnation);
        mr_core_refuse(core, &millrace__task_ended_reply__descriptor, &err);
        return;
    }
    if (task != NULL && (task->iteration->makes != NULL || task->iteration->rec->joining)) {
        mr_error_set(&err, MR_EPRECOND, "task %s does not end by itself: %s", task->id,
                     task->iteration->makes != NULL ? "it makes a production"
                                                    : "it is joining one");
        mr_core_refuse(core, &millrace__task_ended_reply__descriptor, &err);
        return;
    }
    if (task == NULL && mr_task_refuse_held(core, in->task_id, &err) <
                            0) { /* its end counts when it is there again */
        mr_core_refuse(core, &millrace__task_ended_reply__descriptor, &err);
        return;
    }
    if (in->end_round > MR_COUNT_SAID_MAX) {
        mr_error_set(&err, MR_EINVAL,
                     "task %.100s ended at round %" PRIu64 ": nothing counts that far", in->task_id,
                     in->end_round);
        mr_core_refuse(core, &millrace__task_ended_reply__descriptor, &err);
        return;
    }
    /* A task that is gone or closed needs no end any more: the worker may drop it. */
    if (task != NULL && task->state == MR_TASK_OPEN && task->iteration->rounds != NULL &&
        in->code >= 0) {
        mr_rounds_note_end(core, task, in->end_round);
    }
    if (task != NULL && task->state == MR_TASK_OPEN) {
        task->drained = in->drained && in->code >= 0;
        end_task(core, task, in->code <= 0 ? in->code : MR_EUNKNOWN, in);
    }
    mr_core_reply(core, &millrace__task_ended_reply__descriptor, true /* fenced */);
}
