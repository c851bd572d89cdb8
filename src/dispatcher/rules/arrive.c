/* A worker that has registered watches: its life begins, unless something stands against it. */
#include "dispatcher/rules/rules.h"

#include <string.h>

/*
 * What stands against a new life of this process. A process that has its stream to us still lives,
 * whoever says that its address is theirs; one that was started again at its address has not, and
 * one that is silent is given up.
 */
int mr_core_worker_check_new_life(const mr_core *core, const char *incarnation, const char *address,
                                  bool watches, mr_error *err)
{
    const struct mr_core_worker *last = mr_map_get(&core->workers, incarnation);
    const struct mr_core_worker *there = mr_map_get(&core->workers_by_address, address);
    bool taken = there != NULL && strcmp(there->rec->incarnation, incarnation) != 0;

    if (last != NULL && (last->rec->superseded || (taken && !watches))) {
        return mr_error_set(err, MR_EPRECOND, "superseded: another process registered at %s",
                            address);
    }
    if (taken && watches) {
        return mr_error_set_traits(
            err, MR_EUNAVAIL, MR_RETRYABLE,
            "%.120s is the address of worker %.8s, which is connected: another one is taken on "
            "there when that has gone (does each worker have an --advertise-address of its own?)",
            address, there->rec->incarnation);
    }
    if (last != NULL && last->rec->left) { /* a copy of an earlier call: nobody would be there */
        return mr_error_set(err, MR_EPRECOND, "worker %.8s has left", incarnation);
    }
    if (core->nworkers >= MR_CORE_WORKERS_MAX ||
        core->tasks + core->open_iterations > MR_CORE_TASKS_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED,
                            "%zu workers and %zu tasks are the most that is served", core->nworkers,
                            core->tasks);
    }
    return mr_hosts_check(core, &core->hosts.workers, err);
}

struct mr_core_worker *mr_core_worker_arrive(mr_core *core, const char *incarnation, bool watches,
                                             mr_error *err)
{
    struct mr_newcomer *one = mr_newcomer_find(core, incarnation);
    struct mr_core_worker *worker;
    struct mr_iteration *it;

    if (one == NULL) {
        mr_error_set(err, MR_ENOTFOUND, "worker %.8s is not registered", incarnation);
        return NULL;
    }
    if (core->full) {
        mr_error_set_traits(err, MR_EEXHAUSTED, MR_RETRYABLE,
                            "etcd is full: worker %.8s cannot be registered", incarnation);
        return NULL;
    }
    if (mr_core_worker_check_new_life(core, incarnation, one->rec->address, watches, err) < 0) {
        return NULL;
    }
    struct mr_core_worker *there = mr_map_get(&core->workers_by_address, one->rec->address);

    if (there != NULL) {
        mr_core_worker_lose(core, there, MR_LOSS_SUPERSEDED);
    }
    MR_APPLY(core, worker_arrived, one, &worker);
    if (worker == NULL) {
        mr_error_nomem(err);
        return NULL;
    }
    mr_core_note(core, "worker %.8s.%u at %s: registered", incarnation, worker->rec->life,
                 worker->rec->address);
    TAILQ_FOREACH(it, &core->iteration_list, link)
    {
        if (!it->rec->finished) {
            mr_iteration_look_again(core, it);
        }
    }
    return worker;
}
