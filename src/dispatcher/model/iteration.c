/* Iterations by id, and those that are to be looked at when a step has room. */
#include "dispatcher/model/model.h"

void mr_iteration_mark(mr_core *core, struct mr_iteration *it)
{
    if (!it->is_marked && !it->rec->finished) {
        it->is_marked = true;
        TAILQ_INSERT_TAIL(&core->marked, it, marked);
    }
}

void mr_iteration_unmark(mr_core *core, struct mr_iteration *it)
{
    if (it->is_marked) {
        it->is_marked = false;
        TAILQ_REMOVE(&core->marked, it, marked);
    }
}

struct mr_iteration *mr_iteration_find(const mr_core *core, const char *id)
{
    return mr_map_get(&core->iterations, id);
}
