/* Iterations by id, and those that are to be looked at when a step has room. */
#include "dispatcher/model/model.h"

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
