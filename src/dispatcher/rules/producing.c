/*
 * The hidden iteration of a production: its tasks make what others read, and it never ends by
 * itself. It has no recovery tasks, from which nobody would read.
 */
#include "dispatcher/model/model.h"
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

const struct mr_iteration_rules mr_producing_rules = {
    .name = "producing",
    .begin = mr_iteration_note_assignments,
    .may_end = never,
    .check_end = check_end,
};
