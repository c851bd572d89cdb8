/*
 * Takeover, when the record of a worker's life is bad, or gone and somebody deleted it: its grants
 * are there. A leader deletes them before it deletes the life, so whatever has open grants and no
 * life was not forgotten in order. Such a life is made again from its name, lost at this moment:
 * its loss is counted like any other, and what it held goes back or is counted as lost, by
 * guarantee. The process, if it lives, is told that it was lost, and registers anew.
 *
 * The record is written before any loss is counted, so that the next leader finds both or neither.
 */
/*
 * Takeover, when a record is bad: what it spoils is its iteration, which ends at once with an error
 * that names the key. All others go on. What a bad record of a worker or a client says is done
 * without; about those of other kinds see flaws.c. The schema alone is needed by all.
 *
 * The end is decided before anybody is served, and written by the first steps of the timer. Until
 * then nothing that was left over is deleted: the next leader is to find the same.
 */
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
