/* WatchWorker: the tasks of a worker. With the first one its life begins. */
#include "dispatcher/rules/rules.h"

int mr_core_worker_refuse_unknown(const mr_core *core, const char *incarnation, mr_error *err)
{
    const struct mr_core_worker *last = mr_map_get(&core->workers, incarnation);

    if (last != NULL && last->rec->superseded) {
        return mr_error_set(err, MR_EPRECOND, "superseded: another process registered at %s",
                            last->rec->address);
    }
    return mr_error_set(err, MR_ENOTFOUND, "worker %.8s is not registered%s", incarnation,
                        last != NULL ? ": it was lost" : "");
}

int mr_core_do_watch_worker(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__WatchWorkerRequest *in = command->watch_worker;
    struct mr_core_worker *worker = mr_core_worker_live(core, in->incarnation);

    if (worker == NULL) {
        worker = mr_core_worker_arrive(core, in->incarnation, command->worker_watches, err);
    }
    if (worker == NULL) {
        return err->code == MR_ENOTFOUND ? mr_core_worker_refuse_unknown(core, in->incarnation, err)
                                         : err->code;
    }
    MR_APPLY(core, worker_seen, worker, true /* is_watch */);
    Millrace__WorkerUpdate *update = mr_core_reply(core, true /* fenced */);

    if (update != NULL) {
        mr_core_worker_update_fill(core, worker, update);
    }
    return MR_OK;
}
