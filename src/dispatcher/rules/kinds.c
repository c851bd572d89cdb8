/* Which rules an iteration follows. */
#include "dispatcher/rules/rules.h"

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
        [MILLRACE__GUARANTEE__AT_MOST_ONCE] = &mr_at_most_once,
        [MILLRACE__GUARANTEE__AT_LEAST_ONCE] = &mr_at_least_once,
    };

    return guarantees[it->guarantee];
}
