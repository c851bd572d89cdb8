/*
 * Workers that come. Registering says who and where; a life begins with the stream of its tasks,
 * since anybody may say an address, and who has a stream is there. Until then nothing is stored and
 * nobody counts with it: no task, no split, no place at its address, no silence that would be
 * looked at.
 *
 *     RegisterWorker ──► newcomer, in memory ──(WatchWorker)──► a life, with its record and tasks
 *                             ╰──(another leader, too many others)──► forgotten: its WatchWorker is NOT_FOUND,
 *                                                                     and it registers again
 */
#include "base/scope.h"
#include "dispatcher/rules/rules.h"

#include "base/address.h"

#include <string.h>

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
        MR_TRY(mr_core_worker_check_new_life(core, in->incarnation, in->address,
                                             command->worker_watches, err));
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
