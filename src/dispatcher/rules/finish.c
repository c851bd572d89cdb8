/* The end of an iteration: it is over, failed, was collected, or a record of it is bad. */
#include "dispatcher/rules/rules.h"

#include <inttypes.h>

static void count_loss(mr_core *core, struct mr_task *task, char *why, size_t size)
{
    struct mr_loss_counted loss = {.task = task};

    mr_guarantee_of(task->iteration)->task_lost(core, task, &loss, why, size);
    mr_apply(core, &(struct mr_update){MR_UPDATE_loss_counted, .loss_counted = loss});
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

void mr_iteration_finish(mr_core *core, struct mr_iteration *it, int code, const char *why)
{
    finish(core, it, code, why, false /* is_collected */);
}

void mr_iteration_account_losses(mr_core *core, struct mr_iteration *it)
{
    char why[MR_ERROR_MESSAGE_SIZE] = "";

    count_losses(core, it, why, sizeof why);
    if (why[0] != '\0') {
        mr_iteration_finish(core, it, MR_EDATALOSS, why);
    }
}

void mr_iteration_fail(mr_core *core, struct mr_iteration *it, int code, const char *why)
{
    char other[MR_ERROR_MESSAGE_SIZE]; /* a second reason to fail adds nothing */

    MR_ASSERT(code < 0);
    count_losses(core, it, other, sizeof other);
    mr_iteration_finish(core, it, code, why);
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
    mr_iteration_finish(core, it, why.code, line);
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
