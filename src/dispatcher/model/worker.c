/* What is asked of workers. */
#include "dispatcher/model/model.h"

bool mr_core_worker_is_missing(const struct mr_core_worker *worker)
{
    return !mr_core_worker_is_live(worker) && !worker->rec->left && !worker->rec->superseded;
}

struct mr_core_worker *mr_core_worker_live(const mr_core *core, const char *incarnation)
{
    struct mr_core_worker *worker = mr_map_get(&core->workers, incarnation);

    return worker != NULL && mr_core_worker_is_live(worker) ? worker : NULL;
}

bool mr_core_worker_is_unheard(const mr_core *core, const struct mr_core_worker *worker)
{
    return mr_time_add(worker->seen, core->config.worker_timeout_ms / 2) <= core->now;
}

bool mr_core_worker_gets_tasks(const struct mr_core_worker *worker, const struct mr_iteration *it)
{
    bool was_there =
        mr_core_worker_is_live(worker) || mr_stamp_compare(worker->lost, it->id.at) > 0;
    bool went_before =
        mr_core_worker_is_draining(worker) && mr_stamp_compare(worker->draining, it->id.at) < 0;

    return was_there && !went_before;
}

const char *mr_core_worker_at(const mr_core *core, const char *address, bool *awaited)
{
    const struct mr_core_worker *there = mr_map_get(&core->workers_by_address, address);

    *awaited = there != NULL && there->awaited && !mr_core_worker_is_unheard(core, there);
    return there != NULL ? there->rec->incarnation : NULL;
}

bool mr_iteration_cannot_reach(const mr_core *core, const struct mr_iteration *it,
                               const struct mr_core_worker *worker)
{
    const struct mr_client *client;

    TAILQ_FOREACH(client, &it->clients, in_iteration) {
        bool reported = false;

        if (client->rec->released) {
            continue;
        }
        for (size_t i = 0; i < client->nunreachable; i++) {
            const struct mr_unreachable *report = &client->unreachable[i];

            reported = reported ||
                       (strcmp(report->incarnation, worker->rec->incarnation) == 0 &&
                        mr_time_add(report->since, core->config.worker_timeout_ms) <= core->now);
        }
        if (!reported) {
            return false;
        }
    }
    return it->live_clients > 0;
}

struct mr_newcomer *mr_newcomer_find(const mr_core *core, const char *incarnation)
{
    struct mr_newcomer *one;

    TAILQ_FOREACH(one, &core->newcomers, link) {
        if (strcmp(one->rec->incarnation, incarnation) == 0) {
            break;
        }
    }
    return one;
}

const char *mr_core_newcomer_address(const mr_core *core, const char *incarnation)
{
    const struct mr_newcomer *one = mr_newcomer_find(core, incarnation);

    return one != NULL ? one->rec->address : NULL;
}
