/* WatchWorker: the tasks of a worker. With the first one its life begins. */
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

void mr_core_worker_refuse_unknown(mr_core *core, const ProtobufCMessageDescriptor *desc,
                                   const char *incarnation)
{
    const struct mr_core_worker *last = mr_map_get(&core->workers, incarnation);
    mr_error err;

    if (last != NULL && last->rec->superseded) {
        mr_error_set(&err, MR_EPRECOND, "superseded: another process registered at %s",
                     last->rec->address);
    } else {
        mr_error_set(&err, MR_ENOTFOUND, "worker %.8s is not registered%s", incarnation,
                     last != NULL ? ": it was lost" : "");
    }
    mr_core_refuse(core, desc, &err);
}

void mr_core_do_watch_worker(mr_core *core, const Millrace__WatchWorkerRequest *in, bool watches)
{
    struct mr_core_worker *worker = mr_core_worker_live(core, in->incarnation);
    mr_error err;

    if (worker == NULL) {
        worker = mr_core_worker_arrive(core, in->incarnation, watches, &err);
    }
    if (worker == NULL && err.code == MR_ENOTFOUND) {
        mr_core_worker_refuse_unknown(core, &millrace__worker_update__descriptor, in->incarnation);
        return;
    }
    if (worker == NULL) {
        mr_core_refuse(core, &millrace__worker_update__descriptor, &err);
        return;
    }
    MR_APPLY(core, worker_seen, worker, true /* is_watch */);
    Millrace__WorkerUpdate *update =
        mr_core_reply(core, &millrace__worker_update__descriptor, true /* fenced */);

    if (update != NULL) {
        mr_core_worker_update_fill(core, worker, update);
    }
}
