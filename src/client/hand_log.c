#include "client/hand_log.h"

#include "dataset/graph.h"
#include "dataset/operator.h"

#include <string.h>

static bool is_named(const mr_dataset *ds, const char *name)
{
    return strcmp(ds->op->name, name) == 0;
}

static bool runs_in_parallel(const mr_dataset *ds)
{
    for (size_t i = 0; i < ds->nattrs; i++) {
        if (strcmp(ds->attrs[i].name, "num_parallel_calls") == 0) {
            return ds->attrs[i].i != 0;
        }
    }
    return false;
}

void mr_hand_log_init(struct mr_hand_log *log, const mr_dataset *ds)
{
    atomic_init(&log->handed, 0);
    atomic_init(&log->unused, 0);
    atomic_init(&log->failed, false);
    while (is_named(ds, "take") || (is_named(ds, "map") && !runs_in_parallel(ds))) {
        ds = ds->inputs[0];
    }
    log->follows = is_named(ds, "distribute") || is_named(ds, "from_dataset_id");
}

bool mr_hand_log_knows(const struct mr_hand_log *log)
{
    return log->follows && !atomic_load(&log->failed);
}

uint64_t mr_hand_log_unused(const struct mr_hand_log *log, uint64_t taken, uint64_t max)
{
    uint64_t handed = atomic_load(&log->handed);
    uint64_t back = atomic_load(&log->unused);
    uint64_t used = handed > back ? handed - back : 0;
    uint64_t unused = taken > used ? taken - used : 0;

    return unused < max ? unused : max;
}
