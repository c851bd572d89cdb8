/* What is asked of tasks. */
#include "dispatcher/model/model.h"

uint32_t mr_task_attempt(const struct mr_task *task)
{
    return mr_task_is_recovery(task) ? 1 + task->rec->recovery : task->worker->rec->life;
}

struct mr_task *mr_task_producing(const mr_core *core, const struct mr_task *reading)
{
    const struct mr_iteration *it = reading->iteration;
    char id[MR_TASK_ID_SIZE];

    if (it->uses == NULL) {
        return NULL;
    }
    snprintf(id, sizeof id, "%s/%s", it->uses->rec->id, reading->worker->ref);
    return mr_task_find(core, id);
}

struct mr_task *mr_task_find(const mr_core *core, const char *id)
{
    return mr_map_get(&core->tasks_by_id, id);
}

static const struct {
    const char *name;
    unsigned successors; /* bits */
} states[] = {
    [MR_TASK_OPEN] = {"open", 1u << MR_TASK_ENDED | 1u << MR_TASK_LOST},
    [MR_TASK_ENDED] = {"ended", 0},
    [MR_TASK_LOST] = {"lost", 0},
};

bool mr_task_may_become(const struct mr_task *task, enum mr_task_state to)
{
    return (states[task->state].successors & 1u << to) != 0;
}

const char *mr_task_state_name(enum mr_task_state state)
{
    return states[state].name;
}

/* The task that has read there for its iteration before @task, or NULL. What @task says of elements
 * that nobody gets is said for both of them then (docs/adr/0010): only the worker knows what the
 * first one did not come to say. */
struct mr_task *mr_task_before(const struct mr_task *task)
{
    struct mr_task *other = NULL;

    if (task->iteration->uses != NULL && mr_task_is_recovery(task)) {
        TAILQ_FOREACH(other, &task->iteration->tasks, in_iteration) {
            if (other->worker == task->worker && !mr_task_is_recovery(other)) {
                break;
            }
        }
    }
    return other;
}

uint64_t mr_task_said_abandoned(const struct mr_task *task)
{
    uint64_t stored = task->rec != NULL ? task->rec->abandoned : 0;

    /* Its end is the last word: what clients held then is with them (mr_client_hold()). */
    return task->state == MR_TASK_ENDED && task->rec != NULL ? stored
                                                             : MR_MAX(stored, task->abandoned);
}

uint64_t mr_task_said_skipped(const struct mr_task *task)
{
    uint64_t stored = task->rec != NULL ? task->rec->skipped : 0;

    return MR_MAX(stored, task->sharing != NULL ? task->sharing->skipped : 0);
}

uint64_t mr_task_abandoned(const struct mr_task *task)
{
    const struct mr_task *before = mr_task_before(task);
    uint64_t told = before != NULL ? mr_task_said_abandoned(before) : 0;

    return MR_MAX(mr_task_said_abandoned(task), told) - told;
}

uint64_t mr_task_skipped(const struct mr_task *task)
{
    const struct mr_task *before = mr_task_before(task);
    uint64_t told = before != NULL ? mr_task_said_skipped(before) : 0;

    return MR_MAX(mr_task_said_skipped(task), told) - told;
}

int64_t mr_task_stalled_ms(const mr_core *core, const struct mr_task *task)
{
    return task->state == MR_TASK_OPEN && task->waited_for != MR_NEVER
               ? core->now - task->waited_for
               : 0;
}

uint64_t mr_task_granted(const struct mr_task *task)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < task->iteration->rec->n_providers; i++) {
        sum += task->grants[i].rec != NULL ? task->grants[i].rec->granted : 0;
    }
    return sum;
}

uint64_t mr_task_granted_elements(const struct mr_task *task, uint64_t most)
{
    const struct mr_iteration *it = task->iteration;
    uint64_t sum = 0;

    for (size_t i = 0; i < it->rec->n_providers; i++) {
        uint64_t splits = task->grants[i].rec != NULL ? task->grants[i].rec->granted : 0;
        uint64_t elements;

        splits = MR_MIN(splits, most);
        if (splits > 0 && it->rec->providers[i]->split_elements == 0) {
            return 0;
        }
        if (__builtin_mul_overflow(splits, it->rec->providers[i]->split_elements, &elements)) {
            elements = MR_COUNT_MAX;
        }
        sum = mr_count_add(sum, elements);
    }
    return sum;
}

/* The task that @worker has in @it like every other worker. */
struct mr_task *mr_task_derived(const mr_core *core, const struct mr_iteration *it,
                                const struct mr_core_worker *worker)
{
    char id[MR_TASK_ID_SIZE];

    snprintf(id, sizeof id, "%s/%s", it->rec->id, worker->ref);
    return mr_task_find(core, id);
}
