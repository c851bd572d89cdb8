/*
 * What a takeover decided about records that are bad or gone is written by the first steps of the
 * timer, before anything is counted that rests on it.
 */
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

void mr_core_write_revived(mr_core *core)
{
    struct mr_core_worker *worker;

    TAILQ_FOREACH(worker, &core->worker_list, link)
    {
        if (core->revived == 0 || core->full || !mr_core_has_room(core, 1)) {
            return;
        }
        if (worker->is_revived) {
            MR_APPLY(core, worker_revival_written, worker);
        }
    }
}

/* With the job, which notes what has ended. */
#define WRITE_CHANGES 2

bool mr_core_write_spoiled(mr_core *core)
{
    struct mr_iteration *it;

    TAILQ_FOREACH(it, &core->iteration_list, link)
    {
        if (core->spoiled == 0 || core->full || !mr_core_has_room(core, WRITE_CHANGES)) {
            break;
        }
        if (it->broken != NULL) {
            MR_APPLY(core, iteration_break_written, it);
        }
    }
    return core->spoiled == 0;
}
