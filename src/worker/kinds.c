#include "worker/kinds.h"

const struct mr_worker_task_kind *const mr_worker_task_kinds[MR_WORKER_TASK_KIND_COUNT] = {
#define X(name) &mr_kind_##name,
    MR_WORKER_TASK_KINDS(X)
#undef X
};

const struct mr_worker_task_kind *mr_worker_task_kind_of(const Millrace__TaskAssignment *a)
{
    size_t i = 0;

    while (!mr_worker_task_kinds[i]->is_its(a)) {
        i++;
        MR_ASSERT(i < MR_WORKER_TASK_KIND_COUNT); /* The last one takes all. */
    }
    return mr_worker_task_kinds[i];
}
