/* Task lists, complete, for a client and a worker that ask; and two updates as one. */
#include "dispatcher/views/views.h"

void mr_client_update_fill(mr_core *core, const struct mr_iteration *it,
                           Millrace__ClientUpdate *update)
{
    const struct mr_task *task;

    update->version = it->version;
    update->finished = it->rec->finished;
    if (it->rec->finished && it->rec->end != NULL) {
        update->end = mr_core_copy(core, &it->rec->end->base);
    }
    if (it->rounds != NULL) {
        update->rounds = mr_rounds_update_of(core, it, true /* with_schedule */);
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        MR_APPEND(core, update, tasks, mr_task_info(core, task));
    }
}

/* The pointers of array *@more go behind those of *@list. False, without memory: both are as they
 * were. */
static bool move_all(void *list, size_t *n, void *more, size_t *n_more)
{
    void **slot = list;
    void **from = more;

    if (*n_more == 0) {
        return true;
    }
    void **both = mr_reallocarray(*slot, *n + *n_more, sizeof(void *));
    if (both == NULL) {
        return false;
    }
    memcpy(both + *n, *from, *n_more * sizeof(void *));
    *slot = both;
    *n += *n_more;
    *n_more = 0;
    return true;
}

bool mr_client_update_join(Millrace__ClientUpdate *update, Millrace__ClientUpdate *next)
{
    if (next->follows != update->version || update->rounds != NULL || next->rounds != NULL ||
        !move_all(&update->tasks, &update->n_tasks, &next->tasks, &next->n_tasks)) {
        return false;
    }
    if (next->finished && !update->finished) {
        update->finished = true;
        update->end = next->end;
        next->end = NULL;
    }
    update->version = next->version;
    protobuf_c_message_free_unpacked(&next->base, NULL);
    return true;
}

/* Clients that have left the iterations of this worker's tasks. */
static void list_released(mr_core *core, const struct mr_core_worker *worker,
                          Millrace__WorkerUpdate *update)
{
    const struct mr_client *client;
    const struct mr_task *task;

    TAILQ_FOREACH(task, &worker->tasks, in_worker) {
        TAILQ_FOREACH(client, &task->iteration->clients, in_iteration) {
            if (client->rec->released && update->n_released_clients < MR_RELEASED_LISTED_MAX) {
                mr_core_append_string(core, &update->released_clients, &update->n_released_clients,
                                      client->rec->client);
            }
        }
    }
}

void mr_core_worker_update_fill(mr_core *core, const struct mr_core_worker *worker,
                                Millrace__WorkerUpdate *update)
{
    const struct mr_task *task;

    update->version = worker->version;
    TAILQ_FOREACH(task, &worker->tasks, in_worker) {
        if (task->state == MR_TASK_OPEN) {
            MR_APPEND(core, update, tasks, mr_task_assignment(core, task));
        }
    }
    list_released(core, worker, update);
    mr_core_list_held(core, &update->held, &update->n_held);
}

/* A worker takes what an update drops before what it adds, and who is gone last: of two updates
 * that is another order than one after the other, unless the second one has only the last. */
bool mr_core_worker_update_join(Millrace__WorkerUpdate *update, Millrace__WorkerUpdate *next)
{
    if (next->follows != update->version || next->n_tasks + next->n_dropped + next->n_rounds > 0 ||
        !move_all(&update->released_clients, &update->n_released_clients, &next->released_clients,
                  &next->n_released_clients)) {
        return false;
    }
    update->version = next->version;
    protobuf_c_message_free_unpacked(&next->base, NULL);
    return true;
}
