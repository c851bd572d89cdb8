/* What workers report finished of what they were granted (at least once). */
#include "dispatcher/rules/rules.h"

int mr_grants_report(mr_core *core, struct mr_task *task, const Millrace__GrantReport *report,
                     mr_error *err)
{
    int rc = mr_grants_check_report(task, report, err);

    if (rc == MR_OK && task->grants[report->provider].rec != NULL &&
        mr_iteration_repeats(task->iteration)) {
        MR_APPLY(core, grants_reported, task, report);
    }
    return rc;
}

void mr_grants_write(mr_core *core, struct mr_task *task)
{
    for (size_t i = 0; i < task->iteration->rec->n_providers; i++) {
        if (task->grants[i].is_behind && !core->full &&
            mr_splits_are_handed_out(task->iteration, i) && mr_core_has_room(core, 1)) {
            MR_APPLY(core, grants_stored, task, i);
        }
    }
}
