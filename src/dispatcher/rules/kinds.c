/* Which rules an iteration follows. */
#include "dispatcher/rules/rules.h"

/* What was given to the pipeline that the task's elements come from, and was not counted when the
 * task before it at the same production was lost. */
static void task_lost(mr_core *core, struct mr_task *task, struct mr_loss_counted *loss, char *why,
                      size_t size)
{
    const struct mr_iteration_rules *rules = task->iteration->rules;
    const struct mr_task *source = rules->source != NULL ? rules->source(core, task) : task;
    uint64_t granted = source != NULL ? mr_task_granted(source) : 0;
    uint64_t before = mr_task_is_recovery(task) ? task->rec->behind : 0;

    loss->splits = granted > before ? granted - before : 0;
    loss->elements = loss->splits > 0 ? mr_task_granted_elements(source, loss->splits) : 0;
    if (source == task) { /* once: the production's own iteration counts them */
        core->out->tally.lost += loss->splits;
    }
}

/* Nobody knows which splits a task has; what was given back before it cannot have. */
static bool holds(const struct mr_task *task, size_t provider, uint64_t first, uint64_t count)
{
    return !mr_split_list_touches(mr_given_back(task->iteration, provider), first, count);
}

/* At most once: what a lost worker held is not handed out again, it is counted. */
static const struct mr_guarantee_rules at_most_once = {
    .task_lost = task_lost,
    .holds = holds,
};

static bool never(const mr_core *core, const struct mr_iteration *it)
{
    return false;
}

static int check_end(const struct mr_task *task, mr_error *err)
{
    return mr_error_set(err, MR_EPRECOND, "task %s does not end by itself: it makes a production",
                        task->id);
}

/* The hidden iteration of a production: its tasks make what others read, and it never ends by
 * itself. It has no recovery tasks, from which nobody would read. */
const struct mr_iteration_rules mr_producing_rules = {
    .name = "producing",
    .begin = mr_iteration_note_assignments,
    .may_end = never,
    .check_end = check_end,
};

const struct mr_iteration_rules mr_plain_rules = {
    .name = "plain",
    .recovers = true,
    .begin = mr_iteration_note_assignments,
};

const struct mr_iteration_rules *mr_kind_choose(const struct mr_job *job,
                                                const struct mr_production *production)
{
    if (job == NULL) {
        return &mr_producing_rules;
    }
    if (mr_job_is_coordinated(job)) {
        return &mr_rounds_rules;
    }
    return production != NULL || mr_job_shares(job) ? &mr_reading_rules : &mr_plain_rules;
}

const struct mr_guarantee_rules *mr_guarantee_of(const struct mr_iteration *it)
{
    static const struct mr_guarantee_rules *const guarantees[] = {
        [MILLRACE__GUARANTEE__AT_MOST_ONCE] = &at_most_once,
        [MILLRACE__GUARANTEE__AT_LEAST_ONCE] = &mr_at_least_once,
    };

    return guarantees[it->guarantee];
}
