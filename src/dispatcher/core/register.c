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
#include "dispatcher/core/internal.h"

#include "base/address.h"

#include <stdio.h>
#include <string.h>

struct mr_newcomer {
    TAILQ_ENTRY(mr_newcomer) link;
    Millrace__WorkerRecord *rec; /* of the life that it will have, as far as it is known */
};

/* ---------------------------------------------------------------- may it come? */

static int check_registration(const mr_core *core, const Millrace__RegisterWorkerRequest *in,
                              mr_error *err)
{
    int rc;

    if (!mr_id_is_valid(in->incarnation)) {
        return mr_error_set(err, MR_EINVAL, "a worker incarnation is 32 hex digits");
    }
    rc = mr_name_check("worker address", in->address, MR_ADDRESS_BYTES_MAX, err);
    if (rc < 0) {
        return rc;
    }
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
        rc = mr_name_check("worker tag", in->tags[i], MR_NAME_BYTES_MAX, err);
        if (rc < 0) {
            return rc;
        }
    }
    return in->header != NULL
               ? mr_name_check("version", in->header->version, MR_NAME_BYTES_MAX, err)
               : MR_OK;
}

const char *mr_core_worker_at(const mr_core *core, const char *address, bool *awaited)
{
    const struct mr_core_worker *there = mr_map_get(&core->workers_by_address, address);

    *awaited = there != NULL && there->awaited && !mr_core_worker_is_unheard(core, there);
    return there != NULL ? there->rec->incarnation : NULL;
}

/*
 * What stands against a new life of this process. A process that has its stream to us still lives,
 * whoever says that its address is theirs; one that was started again at its address has not, and
 * one that is silent is given up.
 */
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
            "there "
            "when that has gone (does each worker have an --advertise-address of its own?)",
            address, there->rec->incarnation);
    }
    if (last != NULL && last->rec->left) { /* a copy of an earlier call: nobody would be there */
        return mr_error_set(err, MR_EPRECOND, "worker %.8s has left", incarnation);
    }
    if (core->lives >= MR_CORE_WORKERS_MAX ||
        core->tasks + core->open_iterations > MR_CORE_TASKS_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED,
                            "%zu workers and %zu tasks are the most that is served", core->lives,
                            core->tasks);
    }
    return mr_hosts_check(core, &core->hosts.workers, err);
}

/* ---------------------------------------------------------------- newcomers */

static struct mr_newcomer *find_newcomer(const mr_core *core, const char *incarnation)
{
    struct mr_newcomer *one;

    TAILQ_FOREACH(one, &core->newcomers, link)
    {
        if (strcmp(one->rec->incarnation, incarnation) == 0) {
            break;
        }
    }
    return one;
}

const char *mr_core_newcomer_address(const mr_core *core, const char *incarnation)
{
    const struct mr_newcomer *one = find_newcomer(core, incarnation);

    return one != NULL ? one->rec->address : NULL;
}

/* Its record is the caller's from now on. */
static Millrace__WorkerRecord *take_newcomer(mr_core *core, struct mr_newcomer *one)
{
    Millrace__WorkerRecord *rec = one->rec;

    TAILQ_REMOVE(&core->newcomers, one, link);
    core->nnewcomers--;
    mr_free(one);
    return rec;
}

void mr_newcomers_free(mr_core *core)
{
    while (!TAILQ_EMPTY(&core->newcomers)) {
        mr_record_free(take_newcomer(core, TAILQ_FIRST(&core->newcomers)));
    }
}

static void set_tags(mr_core *core, Millrace__WorkerRecord *rec,
                     const Millrace__RegisterWorkerRequest *in)
{
    rec->tags = mr_calloc(in->n_tags, sizeof *rec->tags);
    if (rec->tags == NULL) {
        mr_core_nomem(core);
        return;
    }
    for (size_t i = 0; i < in->n_tags; i++) {
        rec->n_tags++;
        mr_core_set_element(core, &rec->tags[i], in->tags[i]);
    }
}

/* What it says now counts, whatever it said before. Whoever registers and does not watch is pushed
 * out by others. */
static void note_newcomer(mr_core *core, const Millrace__RegisterWorkerRequest *in)
{
    struct mr_newcomer *before = find_newcomer(core, in->incarnation);
    struct mr_newcomer *one = mr_calloc(1, sizeof *one);

    if (before == NULL && core->nnewcomers >= MR_NEWCOMERS_MAX) {
        before = TAILQ_FIRST(&core->newcomers);
    }
    if (before != NULL) {
        mr_record_free(take_newcomer(core, before));
    }
    if (one == NULL) {
        mr_core_nomem(core);
        return;
    }
    one->rec = mr_core_new_record(core, &millrace__worker_record__descriptor);
    if (one->rec == NULL) {
        mr_free(one);
        return;
    }
    mr_core_set(core, &one->rec->incarnation, in->incarnation);
    mr_core_set(core, &one->rec->address, in->address);
    mr_core_set(core, &one->rec->version, in->header != NULL ? in->header->version : "");
    set_tags(core, one->rec, in);
    TAILQ_INSERT_TAIL(&core->newcomers, one, link);
    core->nnewcomers++;
}

void mr_core_do_register_worker(mr_core *core, const Millrace__RegisterWorkerRequest *in,
                                bool watches)
{
    struct mr_core_worker *worker = NULL;
    mr_error err;
    int rc = check_registration(core, in, &err);

    if (rc == MR_OK) {
        worker = mr_core_worker_live(core, in->incarnation);
        rc = worker == NULL ? check_new_life(core, in->incarnation, in->address, watches, &err)
                            : MR_OK;
    }
    if (worker != NULL && strcmp(worker->rec->address, in->address) != 0) {
        rc = mr_error_set(&err, MR_EINVAL,
                          "worker %.8s is registered at %.80s and cannot move to %.80s",
                          in->incarnation, worker->rec->address, in->address);
    }
    if (rc < 0) {
        mr_core_refuse(core, &millrace__register_worker_reply__descriptor, &err);
        return;
    }
    if (worker != NULL) {
        mr_core_worker_seen(core, worker); /* A repeated call, or a new leader. */
    } else {
        note_newcomer(core, in);
    }
    /* Nothing was written, but a worker that hears of another incarnation of the cluster drops all
     * of its tasks. */
    Millrace__RegisterWorkerReply *reply = mr_core_reply(
        core, &millrace__register_worker_reply__descriptor, true /* fenced: first contact */);

    if (reply != NULL) {
        reply->heartbeat_ms = (uint32_t)core->config.heartbeat_ms;
    }
}

/* ---------------------------------------------------------------- a life begins */

/* Takes @rec, that a newcomer had. */
static struct mr_core_worker *begin_life(mr_core *core, Millrace__WorkerRecord *rec)
{
    const struct mr_core_worker *last = mr_map_get(&core->workers, rec->incarnation);
    char stamp[MR_STAMP_SIZE], ref[MR_WORKER_REF_SIZE];
    struct mr_core_worker *worker;
    struct mr_iteration *it;
    mr_error err;

    mr_stamp_print(mr_core_stamp(core), stamp);
    mr_core_set(core, &rec->registered, stamp);
    rec->life = last != NULL ? last->rec->life + 1 : 1;
    rec->registered_ms = (uint64_t)core->wall_ms;
    if (core->failed != 0) {
        mr_record_free(rec);
        return NULL;
    }
    snprintf(ref, sizeof ref, "%s.%s", rec->incarnation, rec->registered);
    worker = mr_core_worker_add(core, rec, ref, &err);
    if (worker == NULL) {
        return NULL;
    }
    mr_core_note(core, "worker %.8s.%u at %s: registered", rec->incarnation, rec->life,
                 rec->address);
    mr_core_worker_seen(core, worker);
    mr_core_worker_put(core, worker);
    TAILQ_FOREACH(it, &core->iteration_list, link)
    {
        if (!it->rec->finished) {
            mr_task_add(core, it, worker);
            mr_iteration_look_again(core, it);
        }
    }
    return worker;
}

struct mr_core_worker *mr_core_worker_arrive(mr_core *core, const char *incarnation, bool watches,
                                             mr_error *err)
{
    struct mr_newcomer *one = find_newcomer(core, incarnation);

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
    struct mr_core_worker *worker = begin_life(core, take_newcomer(core, one));

    if (worker == NULL) {
        mr_error_nomem(err);
    }
    return worker;
}
