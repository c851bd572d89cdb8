/*
 * What the changes of its tasks mean for an iteration: losses are counted, and it ends or goes on.
 * It also ends when it fails, is collected, or a record of it is bad.
 *
 * It is over when no task is open and one at least saw the end of the data. Nothing that came back,
 * from lost workers (at least once) or unopened from such as drained, may be waiting either. A task
 * that ended because its worker drained is no sign that this is all. An iteration whose tasks were
 * all lost stays open: whoever is there goes on with it, or the next worker.
 *
 * A change of a task only marks its iteration; it is reviewed when a step has room for all that
 * follows.
 */
#include "dispatcher/rules/rules.h"

/* The losses of workers become losses of their iterations, as the guarantee says. */
static void count_loss(mr_core *core, struct mr_task *task, char *why, size_t size)
{
    struct mr_loss_counted loss = {.task = task};

    mr_guarantee_of(task->iteration)->task_lost(core, task, &loss, why, size);
    mr_apply(core, &(struct mr_update){MR_UPDATE_loss_counted, .loss_counted = loss});
}

/* Losses that the record does not have yet. @why: see struct mr_guarantee_rules. */
static void count_losses(mr_core *core, struct mr_iteration *it, char *why, size_t size)
{
    struct mr_task *task, *next;

    if (it->uncounted_tasks == 0) {
        return; /* nearly always: no walk over all tasks for each one that ends */
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        if (task->state == MR_TASK_LOST && !task->counted) {
            count_loss(core, task, why, size);
        }
    }
    for (task = TAILQ_FIRST(&it->tasks); task != NULL; task = next) {
        next = TAILQ_NEXT(task, in_iteration);
        if (task->state == MR_TASK_LOST && mr_task_is_recovery(task)) {
            MR_APPLY(core, task_retired, task);
        }
    }
}

static void finish(mr_core *core, struct mr_iteration *it, int code, const char *why,
                   bool is_collected)
{
    Millrace__IterationEnd *end = MR_NEW_RECORD(core, iteration_end);

    if (end == NULL) {
        return;
    }
    mr_iteration_end_fill(core, it, end);
    end->error_code = code;
    mr_core_set(core, &end->error, why);
    MR_APPLY(core, iteration_finished, it, end, is_collected);
    if (it->rules->failed != NULL && code < 0) {
        it->rules->failed(core, it, why);
    }
    if (code < 0) {
        mr_core_note_loss(core, "iteration %s of job %s: failed, %s", it->rec->id,
                          mr_job_label(it->job), why);
    } else if (end->lost_workers > 0) {
        mr_core_note_loss(
            core, "iteration %s of job %s: finished, workers lost: %u, splits lost: %" PRIu64,
            it->rec->id, mr_job_label(it->job), end->lost_workers, end->lost_splits);
        if (end->repeated_splits > 0) {
            mr_core_note(core, "iteration %s: %" PRIu64 " splits were repeated", it->rec->id,
                         end->repeated_splits);
        }
    } else {
        mr_core_trace(core, "iteration %s: finished", it->rec->id);
    }
}

static void finish_with(mr_core *core, struct mr_iteration *it, int code, const char *why)
{
    finish(core, it, code, why, false /* is_collected */);
}

void mr_iteration_account_losses(mr_core *core, struct mr_iteration *it)
{
    char why[MR_ERROR_MESSAGE_SIZE] = "";

    count_losses(core, it, why, sizeof why);
    if (why[0] != '\0') {
        finish_with(core, it, MR_EDATALOSS, why);
    }
}

void mr_iteration_fail(mr_core *core, struct mr_iteration *it, int code, const char *why)
{
    char other[MR_ERROR_MESSAGE_SIZE]; /* a second reason to fail adds nothing */

    MR_ASSERT(code < 0);
    count_losses(core, it, other, sizeof other);
    finish_with(core, it, code, why);
}

void mr_iteration_break(mr_core *core, struct mr_iteration *it)
{
    char line[MR_ERROR_MESSAGE_SIZE];
    mr_error why;

    mr_error_set(
        &why, MR_EDATALOSS,
        "epoch %" PRIu64
        " of %s%.60s' has ended early, its state in etcd cannot be used: %.110s; the next one can "
        "be read",
        it->rec->repetition, mr_job_is_anonymous(it->job) ? "a client's own job '" : "job '",
        mr_job_label(it->job), it->broken);
    mr_line_copy(why.message, line,
                 sizeof line); /* it may have been cut in the middle of a letter */
    finish_with(core, it, why.code, line);
}

void mr_iteration_collect(mr_core *core, struct mr_iteration *it)
{
    char other[MR_ERROR_MESSAGE_SIZE]; /* it ends anyway */
    char why[MR_COLLECTED_SIZE];

    MR_ASSERT(it->live_clients == 0);
    mr_collected_print((uint64_t)core->wall_ms, why);
    count_losses(core, it, other, sizeof other);
    finish(core, it, MR_OK, why, true /* is_collected */);
}

/* Nobody reads, nothing has come back, and somebody saw that this is all. */
static bool is_over(const mr_core *core, const struct mr_iteration *it)
{
    struct mr_pool_count pool;

    mr_pool_count(it, &pool);
    return it->open_tasks == 0 && (it->ended_tasks > 0 || it->rec->pipeline_ended) &&
           pool.ordinary == 0 && pool.suspects == 0 &&
           (it->rules->may_end == NULL || it->rules->may_end(core, it));
}

size_t mr_iteration_review_changes(const struct mr_iteration *it)
{
    if (mr_iteration_recovers(it)) {
        return MR_REVIEW_CHANGES;
    }
    return it->rules->changes != NULL ? it->rules->changes(it) : 2;
}

void mr_iteration_review(mr_core *core, struct mr_iteration *it)
{
    mr_iteration_unmark(core, it);
    if (it->rec->finished) {
        return;
    }
    if (it->rules->decide != NULL && it->rules->decide(core, it)) {
        return;
    }
    mr_iteration_account_losses(core, it);
    if (it->rec->finished) {
        return;
    }
    if (it->rules->look != NULL) {
        it->rules->look(core, it);
    }
    if (is_over(core, it)) {
        finish_with(core, it, MR_OK, "");
        return;
    }
    mr_recovery_open(core, it);
}
