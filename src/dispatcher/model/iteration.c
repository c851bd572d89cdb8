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
#include "dispatcher/model/model.h"

#include <stdio.h>

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

struct mr_iteration *mr_iteration_find(const mr_core *core, const char *id)
{
    return mr_map_get(&core->iterations, id);
}
