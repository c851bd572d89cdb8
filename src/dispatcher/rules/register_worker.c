/*
 * Workers that come. Registering says who and where; a life begins with the stream of its tasks,
 * since anybody may say an address, and who has a stream is there. Until then nothing is stored and
 * nobody counts with it: no task, no split, no place at its address, no silence that would be
 * looked at.
 *
 *     RegisterWorker ──► newcomer, in memory ──(WatchWorker)──► a life, with its record and tasks
 *                             ╰──(another leader, too many others)──► forgotten: its WatchWorker
 *                                                                     is NOT_FOUND; it comes again
 */
#include "base/address.h"
#include "dispatcher/rules/rules.h"

/* What stands against a new life of this process. A process that has its stream to us still lives,
 * whoever says that its address is theirs; one that was started again at its address has not, and
 * one that is silent is given up. */
static int check_new_life(const mr_core *core, const char *incarnation, const char *address,
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
        return mr_error_set(err, MR_EEXHAUSTED, "%zu workers and %zu tasks are the maximum",
                            core->nworkers, core->tasks);
    }
    return mr_hosts_check(core, &core->hosts.workers, err);
}

static struct mr_core_worker *arrive(mr_core *core, const char *incarnation, bool watches,
                                     mr_error *err)
{
    const struct mr_core_worker *last = mr_map_get(&core->workers, incarnation);
    struct mr_newcomer *one = mr_newcomer_find(core, incarnation);
    bool drained = last != NULL && mr_core_worker_is_draining(last);
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
    if (check_new_life(core, incarnation, one->rec->address, watches, err) < 0) {
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
    if (drained) { /* the same process: perhaps it has not heard yet that somebody wants that */
        mr_core_worker_note_draining(core, worker);
    }
    TAILQ_FOREACH(it, &core->iteration_list, link) {
        if (!it->rec->finished) {
            mr_iteration_look_again(core, it);
        }
    }
    return worker;
}

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
        worker = arrive(core, in->incarnation, command->worker_watches, err);
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

static int check_registration(const mr_core *core, const Millrace__RegisterWorkerRequest *in,
                              mr_error *err)
{
    if (!mr_id_is_valid(in->incarnation)) {
        return mr_error_set(err, MR_EINVAL, "a worker incarnation is 32 hex digits");
    }
    MR_TRY(mr_name_check("worker address", in->address, MR_ADDRESS_BYTES_MAX, err));
    if (!mr_address_is_valid(in->address)) { /* clients would be told to connect there */
        return mr_error_set(
            err, MR_EINVAL,
            "worker address '%.200s': host:port is wanted, with a port from 1 to 65535",
            in->address);
    }
    if (in->n_tags > MR_CORE_TAGS_MAX) {
        return mr_error_set(err, MR_EINVAL, "%zu tags; at most %d are allowed", in->n_tags,
                            MR_CORE_TAGS_MAX);
    }
    for (size_t i = 0; i < in->n_tags; i++) {
        if (in->tags[i][0] == '\0') {
            return mr_error_set(err, MR_EPRECOND, "tag %zu of worker %s is empty", i, in->address);
        }
        MR_TRY(mr_name_check("worker tag", in->tags[i], MR_NAME_BYTES_MAX, err));
    }
    return in->header != NULL
               ? mr_name_check("version", in->header->version, MR_NAME_BYTES_MAX, err)
               : MR_OK;
}

int mr_core_do_register_worker(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__RegisterWorkerRequest *in = command->register_worker;
    struct mr_core_worker *worker = mr_core_worker_live(core, in->incarnation);

    MR_TRY(check_registration(core, in, err));
    if (worker != NULL && strcmp(worker->rec->address, in->address) != 0) {
        return mr_error_set(err, MR_EINVAL,
                            "worker %.8s is registered at %.80s and cannot move to %.80s",
                            in->incarnation, worker->rec->address, in->address);
    }
    if (worker != NULL) {
        MR_APPLY(core, worker_seen, worker); /* A repeated call, or a new leader. */
    } else {
        MR_TRY(check_new_life(core, in->incarnation, in->address, command->worker_watches, err));
        MR_APPLY(core, newcomer_noted, in);
    }
    /* Nothing was written, but a worker that hears of another incarnation of the cluster drops all
     * of its tasks. */
    Millrace__RegisterWorkerReply *reply = mr_core_reply(core, true /* fenced: first contact */);

    if (reply != NULL) {
        reply->heartbeat_ms = (uint32_t)core->config.heartbeat_ms;
    }
    return MR_OK;
}
