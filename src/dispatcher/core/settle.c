/*
 * What the changes of its tasks mean for an iteration: losses are counted, and it ends or goes on.
 *
 * It is over when no task is open and one at least saw the end of the data. Nothing that came back,
 * from lost workers (at least once) or unopened from such as drained, may be waiting either. A task
 * that ended because its worker drained is no sign that this is all. An iteration whose tasks were
 * all lost stays open: whoever is there goes on with it, or the next worker.
 *
 * A change of a task only marks its iteration; it is settled when a step has room for all that
 * follows.
 */
#include "dispatcher/core/internal.h"

#include <inttypes.h>
#include <string.h>

void mr_iteration_unsettle(mr_core *core, struct mr_iteration *it)
{
    if (!it->is_unsettled && !it->rec->finished) {
        it->is_unsettled = true;
        TAILQ_INSERT_TAIL(&core->unsettled, it, unsettled);
    }
}

void mr_iteration_leave_unsettled(mr_core *core, struct mr_iteration *it)
{
    if (it->is_unsettled) {
        it->is_unsettled = false;
        TAILQ_REMOVE(&core->unsettled, it, unsettled);
    }
}

/* Is it the first sign in this iteration of the loss of its worker, which may have had several
 * tasks? */
static bool is_first_loss(const struct mr_task *task)
{
    const struct mr_task *other;

    if (!mr_task_is_recovery(task)) {
        return true; /* it stands before those that came on top of it */
    }
    TAILQ_FOREACH(other, &task->iteration->tasks, in_iteration)
    {
        if (other == task || (other->worker == task->worker && other->state == MR_TASK_LOST)) {
            break;
        }
    }
    return other == task;
}

/* At most once: what was given to the pipeline that the task's elements come from, and was not
 * counted when the task before it at the same production was lost. *@elements: what comes of it at
 * most; 0: not known. */
static uint64_t splits_behind(const mr_core *core, const struct mr_task *task, uint64_t *elements)
{
    const struct mr_task *source =
        task->iteration->uses != NULL ? mr_task_producing(core, task) : task;
    uint64_t granted = source != NULL ? mr_task_granted(source) : 0;
    uint64_t before = mr_task_is_recovery(task) ? task->rec->behind : 0;
    uint64_t splits = granted > before ? granted - before : 0;

    *elements = splits > 0 ? mr_task_granted_elements(source, splits) : 0;
    return splits;
}

void mr_iteration_note_lost(struct mr_iteration *it, uint64_t splits, uint64_t elements)
{
    bool known = (it->rec->lost_splits == 0 || it->rec->lost_elements > 0) && elements > 0;

    if (splits > 0) {
        it->rec->lost_splits += splits;
        it->rec->lost_elements = known ? mr_count_add(it->rec->lost_elements, elements) : 0;
    }
}

uint64_t mr_iteration_lost_splits(const struct mr_iteration *it)
{
    uint64_t sum = it->rec->lost_splits;
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        sum += task->state == MR_TASK_LOST && !task->counted ? mr_task_granted(task) : 0;
    }
    return sum;
}

static void note_counted(struct mr_task *task)
{
    struct mr_iteration *it = task->iteration;

    if (mr_stamp_compare(task->worker->lost, it->losses_counted_to) > 0) {
        it->losses_counted_to = task->worker->lost;
    }
    task->counted = true;
    it->uncounted_tasks--;
    it->unwritten = true;
}

static void set_counted_to(mr_core *core, struct mr_iteration *it)
{
    char stamp[MR_STAMP_SIZE];

    mr_stamp_print(it->losses_counted_to, stamp);
    mr_core_set(core, &it->rec->losses_counted_to,
                mr_stamp_is_set(it->losses_counted_to) ? stamp : "");
}

void mr_iteration_forgive_losses(mr_core *core, struct mr_iteration *it)
{
    struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        if (task->state == MR_TASK_LOST && !task->counted &&
            !mr_core_worker_is_live(task->worker)) {
            note_counted(task);
        }
    }
    set_counted_to(core, it);
}

static void count_loss(mr_core *core, struct mr_task *task, char *why, size_t size)
{
    struct mr_iteration *it = task->iteration;

    it->rec->lost_workers += is_first_loss(task) ? 1 : 0;
    if (mr_iteration_repeats(it)) {
        mr_recovery_return(core, task, why, size);
    } else {
        uint64_t elements;
        uint64_t lost = splits_behind(core, task, &elements);

        mr_iteration_note_lost(it, lost, elements);
        core->out->tally.lost +=
            it->uses == NULL ? lost : 0; /* once: the production's own iteration counts them */
    }
    note_counted(task);
}

/* Losses that the record does not have yet. @why: see mr_recovery_return(). */
static void count_losses(mr_core *core, struct mr_iteration *it, char *why, size_t size)
{
    struct mr_task *task, *next;

    if (it->uncounted_tasks == 0) {
        return; /* nearly always: no walk over all tasks for each one that ends */
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        if (task->state == MR_TASK_LOST && !task->counted) {
            count_loss(core, task, why, size);
        }
    }
    for (task = TAILQ_FIRST(&it->tasks); task != NULL; task = next) {
        next = TAILQ_NEXT(task, in_iteration);
        if (task->state == MR_TASK_LOST && mr_task_is_recovery(task)) {
            mr_task_retire(core, task);
        }
    }
    set_counted_to(core, it);
}

uint64_t mr_iteration_repeated(const struct mr_iteration *it)
{
    uint64_t sum = 0;

    if (it->rec->end != NULL) {
        return it->rec->end->repeated_splits;
    }
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        sum += it->cursors[i].rec != NULL ? it->cursors[i].rec->repeated_splits : 0;
    }
    return sum;
}

/* As far as is known of tasks that were lost. */
static uint64_t abandoned_elements(const struct mr_iteration *it)
{
    const struct mr_task *task;
    uint64_t sum = it->rec->abandoned;

    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        sum = mr_count_add(sum, mr_task_abandoned(task));
    }
    return sum;
}

void mr_iteration_note_abandoned(mr_core *core, struct mr_iteration *it, uint64_t elements,
                                 uint64_t instead_of)
{
    uint64_t *sum = it->rec->end != NULL ? &it->rec->end->abandoned : &it->rec->abandoned;

    if (elements != instead_of) {
        *sum = mr_count_add(*sum > instead_of ? *sum - instead_of : 0, elements);
        mr_iteration_put(core, it);
    }
}

void mr_iteration_end_fill(mr_core *core, const struct mr_iteration *it,
                           Millrace__IterationEnd *end)
{
    const Millrace__IterationEnd *known = it->rec->end;

    end->lost_splits = it->rec->lost_splits;
    end->lost_elements = it->rec->lost_elements;
    end->lost_workers = it->rec->lost_workers;
    end->quarantined_splits = it->rec->quarantined_splits;
    end->repeated_splits = mr_iteration_repeated(it);
    end->error_code = known != NULL ? known->error_code : 0;
    end->rounds = known != NULL ? known->rounds : mr_rounds_end(it);
    end->skipped = mr_iteration_skipped(it);
    end->abandoned = known != NULL ? known->abandoned : abandoned_elements(it);
    mr_core_set(core, &end->error, known != NULL ? known->error : "");
}

static void finish(mr_core *core, struct mr_iteration *it, int code, const char *why)
{
    Millrace__IterationEnd *end = mr_core_new_record(core, &millrace__iteration_end__descriptor);

    if (end == NULL) {
        return;
    }
    mr_iteration_end_fill(core, it, end);
    end->error_code = code;
    mr_core_set(core, &end->error, why);
    it->rec->end = end;
    it->rec->finished = true;
    it->rec->joining = false;
    it->rec->finished_ms = (uint64_t)core->wall_ms;
    it->rec->unread_ms = 0;
    it->since = core->now;
    core->open_iterations--;
    mr_share_give(it->open_share, 1);
    it->open_share = NULL;
    mr_iteration_leave_unsettled(core, it);
    it->unwritten = false;
    mr_iteration_put(core, it);
    it->job->nfinished++;
    mr_iterations_ring_unread(core, it->job);
    mr_alarm_by(core, &it->alarm, core->now);
    mr_job_note_ended(core, it->job, it->rec->repetition);
    mr_job_put(core, it->job);
    if (it->uses != NULL) {
        mr_production_note_finished(core, it);
    }
    if (it->uses != NULL && code < 0) { /* Who comes later may have more luck. */
        mr_production_close(core, it->uses, why);
    }

    mr_iteration_note_finished(core, it);
    mr_iteration_drop_tasks(core, it);
    if (code < 0) {
        mr_core_note(core, "iteration %s of job %s: failed, %s", it->rec->id, mr_job_label(it->job),
                     why);
    } else if (end->lost_workers > 0) {
        mr_core_note(core,
                     "iteration %s of job %s: finished, workers lost: %u, splits lost: %" PRIu64,
                     it->rec->id, mr_job_label(it->job), end->lost_workers, end->lost_splits);
        if (end->repeated_splits > 0) {
            mr_core_note(core, "iteration %s: %" PRIu64 " splits were repeated", it->rec->id,
                         end->repeated_splits);
        }
    } else {
        mr_core_trace(core, "iteration %s: finished", it->rec->id);
    }
}

void mr_iteration_absorb(mr_core *core, struct mr_iteration *it)
{
    char why[MR_ERROR_MESSAGE_SIZE] = "";

    count_losses(core, it, why, sizeof why);
    if (why[0] != '\0') {
        finish(core, it, MR_EDATALOSS, why);
    }
}

/* Nobody reads, nothing has come back, and somebody saw that this is all. */
static bool is_over(const mr_core *core, const struct mr_iteration *it)
{
    struct mr_pool_count pool;

    mr_pool_count(it, &pool);
    return it->makes == NULL && it->open_tasks == 0 &&
           (it->ended_tasks > 0 || it->rec->pipeline_ended) && pool.ordinary == 0 &&
           pool.suspects == 0 && mr_rounds_are_settled(core, it);
}

size_t mr_iteration_settle_changes(const struct mr_iteration *it)
{
    if (mr_iteration_recovers(it)) {
        return MR_SETTLE_CHANGES;
    }
    if (it->rounds != NULL) {
        return 2 + MR_ROUNDS_CHANGES;
    }
    return it->rec->joining ? MR_JOIN_CHANGES : it->uses != NULL ? 3 : 2;
}

void mr_iteration_settle(mr_core *core, struct mr_iteration *it)
{
    mr_iteration_leave_unsettled(core, it);
    if (it->rec->finished) {
        return;
    }
    if (it->rec->joining) {
        mr_join_settle(core, it);
        mr_iteration_write(core, it);
        return;
    }
    mr_iteration_absorb(core, it);
    if (it->rec->finished) {
        return;
    }
    mr_rounds_settle(core, it);
    if (is_over(core, it)) {
        finish(core, it, MR_OK, "");
        return;
    }
    mr_recovery_open(core, it);
    mr_iteration_write(core, it);
}

void mr_iteration_fail(mr_core *core, struct mr_iteration *it, int code, const char *why)
{
    char other[MR_ERROR_MESSAGE_SIZE]; /* a second reason to fail adds nothing */

    MR_ASSERT(code < 0);
    count_losses(core, it, other, sizeof other);
    finish(core, it, code, why);
}

void mr_iteration_break(mr_core *core, struct mr_iteration *it)
{
    char line[MR_ERROR_MESSAGE_SIZE];
    mr_error why;

    mr_error_set(
        &why, MR_EDATALOSS,
        "epoch %" PRIu64
        " of %s%.60s' has ended early, its state in etcd cannot be used: %.110s; the next one"
        " can be read",
        it->rec->repetition, mr_job_is_anonymous(it->job) ? "a client's own job '" : "job '",
        mr_job_label(it->job), it->broken);
    mr_line_copy(why.message, line,
                 sizeof line); /* it may have been cut in the middle of a letter */
    mr_rounds_drop(core, it);  /* there may be no schedule to tell of */
    finish(core, it, why.code, line);
}

/* So that its readers can be told when its own record is gone. */
static void remember_collected(mr_core *core, struct mr_job *job, uint64_t repetition)
{
    Millrace__CollectedRepetition *one =
        mr_core_new_record(core, &millrace__collected_repetition__descriptor);
    Millrace__JobRecord *rec = job->rec;

    if (one == NULL) {
        return;
    }
    one->repetition = repetition;
    one->collected_ms = (uint64_t)core->wall_ms;
    if (rec->n_collected == MR_COLLECTED_MAX) {
        mr_record_free(rec->collected[0]);
        memmove(rec->collected, rec->collected + 1, --rec->n_collected * sizeof(rec->collected[0]));
    }
    if (mr_core_append(core, &rec->collected, rec->n_collected, one)) {
        rec->n_collected++;
    }
}

void mr_iteration_collect(mr_core *core, struct mr_iteration *it)
{
    char other[MR_ERROR_MESSAGE_SIZE]; /* it ends anyway */
    char why[MR_COLLECTED_SIZE];

    MR_ASSERT(it->live_clients == 0);
    mr_collected_print((uint64_t)core->wall_ms, why);
    count_losses(core, it, other, sizeof other);
    remember_collected(core, it->job, it->rec->repetition);
    finish(core, it, MR_OK, why);
}
