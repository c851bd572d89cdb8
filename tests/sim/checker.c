/*
 * The judge. It stands outside: it sees what is applied to the store and what workers and clients are told, keeps its
 * own model of that, and knows nothing of the core. What it holds the cluster to:
 *
 *  - no split is handed to two tasks, nor twice to one; one question has one answer, for ever;
 *  - when an iteration ends, every split was handed out, but for at most the number it says was lost (none, if no
 * worker was);
 *  - what anybody is told was committed before: objects that were acknowledged exist, and go on existing;
 *  - an iteration that has ended stays ended: nothing of it is written or opened again;
 *  - a worker has one task of an iteration in each of its lives;
 *  - nobody is given up who was heard of in time, on anybody's clock: neither on his own, nor on that of a leader
 *    that slept, nor while a message of his lies unread;
 *  - who is told that a call was not applied can rely on it.
 */
#include "sim.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "json/pbjson.h"

#include <inttypes.h>
#include <millrace/dataset.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void sim_violation(struct sim *sim, const char *fmt, ...)
{
    va_list args;

    if (sim->violation[0] != '\0') {
        return;
    }
    va_start(args, fmt);
    vsnprintf(sim->violation, sizeof sim->violation, fmt, args);
    va_end(args);
    sim_say(sim, "VIOLATION: %s", sim->violation);
}

/* ---------------------------------------------------------------- notes */

static char *keep(struct sim *sim, const char *text)
{
    if (sim->nstrings == sim->cap_strings) {
        sim->cap_strings = 2 * sim->cap_strings + 256;
        sim->strings = mr_reallocarray(sim->strings, sim->cap_strings, sizeof *sim->strings);
        MR_ASSERT(sim->strings != NULL);
    }
    char *copy = mr_strdup(text);

    MR_ASSERT(copy != NULL);
    sim->strings[sim->nstrings++] = copy;
    return copy;
}

static void note(struct sim *sim, struct mr_map *map, const char *key, const char *text)
{
    int rc = mr_map_put(map, keep(sim, key), keep(sim, text), NULL);

    MR_ASSERT(rc == MR_OK);
}

/* The first text under @key stays; another one is a contradiction. */
static void note_once(struct sim *sim, struct mr_map *map, const char *key, const char *text, const char *what)
{
    const char *before = mr_map_get(map, key);

    if (before == NULL) {
        note(sim, map, key, text);
    } else if (strcmp(before, text) != 0) {
        sim_violation(sim, "%s: %s was '%s' and is '%s'", what, key, before, text);
    }
}

void sim_check_free(struct sim *sim)
{
    for (size_t i = 0; i < sim->nstrings; i++) {
        mr_free(sim->strings[i]);
    }
    mr_free(sim->strings);
    mr_map_free(&sim->committed);
    mr_map_free(&sim->handed);
    mr_map_free(&sim->told);
}

/* ---------------------------------------------------------------- what is committed */

static bool starts(const char *key, const char *prefix)
{
    return strncmp(key, prefix, strlen(prefix)) == 0;
}

static void *parse(struct sim *sim, const ProtobufCMessageDescriptor *desc, const char *key, const char *value)
{
    ProtobufCMessage *message = NULL;
    mr_error err;

    if (mr_pbjson_parse(desc, value, strlen(value), &message, &err) < 0) {
        sim_violation(sim, "%s: %s", key, err.message);
        return NULL;
    }
    return message;
}

static void commit_grant(struct sim *sim, const char *key, const char *value)
{
    Millrace__GrantRecord *grant = parse(sim, &millrace__grant_record__descriptor, key, value);
    char name[256], text[128];

    if (grant == NULL) {
        return;
    }
    snprintf(name, sizeof name, "%s seq %" PRIu64, key, grant->seq);
    snprintf(text, sizeof text, "repetition %" PRIu64 " end %d from %" PRIu64 " count %" PRIu64, grant->repetition,
             grant->end, grant->n_ranges > 0 ? grant->ranges[0]->first : 0,
             grant->n_ranges > 0 ? grant->ranges[0]->count : 0);
    note_once(sim, &sim->committed, name, text, "one question, two answers");
    millrace__grant_record__free_unpacked(grant, NULL);
}

static void commit_iteration(struct sim *sim, const char *key, const char *value)
{
    Millrace__IterationRecord *it = parse(sim, &millrace__iteration_record__descriptor, key, value);
    char name[256];

    if (it == NULL) {
        return;
    }
    /* Only an OFF iteration that nobody reads may be forgotten before its end, and made again. */
    if (sim->job_gc_ms == 0 || it->n_providers > 0) {
        snprintf(name, sizeof name, "repetition %s/%" PRIu64, it->job_id, it->repetition);
        note_once(sim, &sim->committed, name, it->id, "one repetition, two iterations");
    }
    snprintf(name, sizeof name, "finished %s", it->id);
    if (it->finished) {
        note(sim, &sim->committed, name, "yes");
    } else if (mr_map_get(&sim->committed, name) != NULL) {
        sim_violation(sim, "iteration %s had finished and is open again", it->id);
    }
    millrace__iteration_record__free_unpacked(it, NULL);
}

/* Parts of an iteration: "<kind>/<iteration>/...". */
static void commit_part(struct sim *sim, const char *key)
{
    const char *id = strchr(key, '/') + 1;
    const char *slash = strchr(id, '/');
    char name[128];

    snprintf(name, sizeof name, "finished %.*s", (int)(slash - id), id);
    if (mr_map_get(&sim->committed, name) != NULL) {
        sim_violation(sim, "%s was written after its iteration had finished", key);
    }
}

void sim_check_commit(struct sim *sim, const char *key, const char *value)
{
    if (value == NULL) {
        return;
    }
    note(sim, &sim->committed, key, value);
    if (starts(key, "iterations/")) {
        commit_iteration(sim, key, value);
    } else if (starts(key, "grants/")) {
        commit_part(sim, key);
        commit_grant(sim, key, value);
    } else if (starts(key, "cursors/")) {
        commit_part(sim, key);
    } else if (starts(key, "workers/")) {
        Millrace__WorkerRecord *worker = parse(sim, &millrace__worker_record__descriptor, key, value);
        char name[64];

        if (worker != NULL) {
            snprintf(name, sizeof name, "worker %s", worker->incarnation);
            note(sim, &sim->committed, name, "yes");
            sim->workers_lost = sim->workers_lost || worker->lost[0] != '\0';
            millrace__worker_record__free_unpacked(worker, NULL);
        }
    } else if (starts(key, "jobs/")) {
        Millrace__JobRecord *job = parse(sim, &millrace__job_record__descriptor, key, value);
        char name[64];

        if (job != NULL) {
            snprintf(name, sizeof name, "job %s", job->id);
            note(sim, &sim->committed, name, "yes");
            millrace__job_record__free_unpacked(job, NULL);
        }
    }
}

static void must_be_committed(struct sim *sim, const char *key, const char *who)
{
    if (mr_map_get(&sim->committed, key) == NULL) {
        sim_violation(sim, "%s was told of '%s', which was never committed", who, key);
    }
}

/* ---------------------------------------------------------------- what is told */

void sim_check_dataset(struct sim *sim, const char *id, const mr_error *error)
{
    char key[64];

    if (error->code < 0) {
        sim_violation(sim, "registering %s: %s", id, error->message);
        return;
    }
    snprintf(key, sizeof key, "datasets/%s", id);
    must_be_committed(sim, key, "a client");
}

void sim_check_opened(struct sim *sim, const struct sim_client *client, const Millrace__OpenReply *reply)
{
    char key[256];
    const char *ended;

    snprintf(key, sizeof key, "job %s", reply->job_id);
    must_be_committed(sim, key, "a client");
    if (client->plan.job[0] != '\0') {
        snprintf(key, sizeof key, "name %s", client->plan.job);
        note_once(sim, &sim->told, key, reply->job_id, "a job was forgotten and made again");
    }
    snprintf(key, sizeof key, "ended %s/%" PRIu64, reply->job_id, client->repetition);
    ended = mr_map_get(&sim->told, key);
    if (!reply->finished) {
        /* Whoever asked before the end was told may be answered late. */
        if (ended != NULL && strtoll(ended, NULL, 10) < client->control.began) {
            sim_violation(sim, "repetition %" PRIu64 " of job %s had ended and is open again", client->repetition,
                          reply->job_id);
        }
        snprintf(key, sizeof key, "iterations/%s", reply->iteration_id);
        must_be_committed(sim, key, "a client");
        snprintf(key, sizeof key, "clients/%s", client->id);
        must_be_committed(sim, key, "a client");
    } else if (ended == NULL) {
        char at[32];

        snprintf(at, sizeof at, "%lld", (long long)sim->now);
        note(sim, &sim->told, key, at);
    }
}

/* Every split was handed out, but for those that the end says were lost. */
static void check_end(struct sim *sim, const struct sim_client *client, const Millrace__ClientUpdate *update)
{
    const struct sim_dataset *dataset = &sim->datasets[client->plan.dataset];
    uint64_t total = 0, handed = 0;
    char key[256];

    for (size_t p = 0; p < dataset->nproviders; p++) {
        for (uint64_t r = 0; r < dataset->passes; r++) {
            for (int64_t split = 0; split < dataset->splits[p]; split++) {
                snprintf(key, sizeof key, "%s/%zu/%" PRIu64 "/%" PRId64, client->iteration, p, r, split);
                total++;
                handed += mr_map_get(&sim->handed, key) != NULL ? 1 : 0;
            }
        }
    }
    if (total - handed > update->end->lost_splits) {
        sim_violation(sim, "iteration %s ended with %" PRIu64 " of %" PRIu64 " splits handed out and %" PRIu64 " lost",
                      client->iteration, handed, total, update->end->lost_splits);
    }
    if (!sim->workers_lost && (update->end->lost_splits != 0 || update->end->lost_workers != 0)) {
        sim_violation(sim, "iteration %s counts losses, and no worker was lost", client->iteration);
    }
}

void sim_check_client_update(struct sim *sim, const struct sim_client *client, const Millrace__ClientUpdate *update)
{
    char key[256], at[32];

    if (!update->finished) {
        return;
    }
    snprintf(key, sizeof key, "finished %s", client->iteration);
    must_be_committed(sim, key, "a client");
    if (update->end == NULL) {
        sim_violation(sim, "iteration %s ended without saying how", client->iteration);
        return;
    }
    snprintf(key, sizeof key, "ended %s/%" PRIu64, client->job_id, client->repetition);
    snprintf(at, sizeof at, "%lld", (long long)sim->now);
    if (mr_map_get(&sim->told, key) == NULL) {
        note(sim, &sim->told, key, at);
    }
    if (client->plan.dynamic) {
        check_end(sim, client, update);
    }
}

void sim_check_client_gone(struct sim *sim, const struct sim_client *client)
{
    if (sim->now - client->last_ok < SIM_CLIENT_TIMEOUT_MS) {
        sim_violation(sim, "client %d was given up %lld ms after it was heard of", client->number,
                      (long long)(sim->now - client->last_ok));
    }
}

void sim_check_worker_gone(struct sim *sim, const struct sim_worker *worker)
{
    if (worker->registered && sim->now - worker->last_ok < SIM_WORKER_TIMEOUT_MS) {
        sim_violation(sim, "worker %d was given up %lld ms after it was heard of", worker->number,
                      (long long)(sim->now - worker->last_ok));
    }
}

/* ---------------------------------------------------------------- who is given up, and when */

/* The time in which @replica ran: it stands still while the replica does. */
static int64_t ran(const struct sim *sim, const struct sim_replica *replica)
{
    return sim->now - replica->stood_still;
}

void sim_check_term(struct sim *sim, struct sim_replica *replica)
{
    memset(replica->heard, 0, sizeof replica->heard);
    replica->term_ran_at = ran(sim, replica);
}

/* What no leader may refuse, and has to take for a sign of life. */
static bool is_sign_of(const struct sim_message *message, const struct sim_worker *worker)
{
    return message->is_worker && message->actor == worker->number && message->actor_life == worker->process.life &&
           (message->kind == MR_COMMAND_WORKER_HEARTBEAT || message->kind == MR_COMMAND_WATCH_WORKER);
}

void sim_check_heard(struct sim *sim, struct sim_replica *replica, const struct sim_message *message)
{
    const struct sim_worker *worker = &sim->workers[message->is_worker ? message->actor : 0];

    if (is_sign_of(message, worker)) {
        struct sim_heard *heard = &replica->heard[message->actor];

        snprintf(heard->incarnation, sizeof heard->incarnation, "%s", worker->incarnation);
        heard->ran_at = ran(sim, replica);
    }
}

static void check_given_up(struct sim *sim, const struct sim_replica *replica, const char *incarnation)
{
    for (int i = 0; i < sim->nworkers; i++) {
        const struct sim_heard *heard = &replica->heard[i];
        bool known = strcmp(heard->incarnation, incarnation) == 0;
        int64_t silent = ran(sim, replica) - (known ? heard->ran_at : replica->term_ran_at);

        if (strcmp(sim->workers[i].incarnation, incarnation) != 0) {
            continue;
        }
        if (silent < SIM_WORKER_TIMEOUT_MS) {
            sim_violation(sim,
                          "worker %d was given up by a leader that had been awake for %lld ms since it heard of it", i,
                          (long long)silent);
        }
        for (size_t m = 0; m < replica->nmailbox; m++) {
            const struct sim_message *message = replica->mailbox[m];

            if (message != NULL && is_sign_of(message, &sim->workers[i])) {
                sim_violation(sim, "worker %d was given up while a message of it lay unread", i);
            }
        }
    }
}

void sim_check_timer(struct sim *sim, const struct sim_replica *replica, const struct mr_outcome *out)
{
    for (size_t i = 0; i < out->nchanges; i++) {
        if (out->changes[i].value == NULL || !starts(out->changes[i].key, "workers/")) {
            continue;
        }
        Millrace__WorkerRecord *worker =
            parse(sim, &millrace__worker_record__descriptor, out->changes[i].key, out->changes[i].value);

        if (worker != NULL && worker->lost[0] != '\0') {
            check_given_up(sim, replica, worker->incarnation);
        }
        if (worker != NULL) {
            millrace__worker_record__free_unpacked(worker, NULL);
        }
    }
}

void sim_check_applied(struct sim *sim, const struct sim_batch *batch)
{
    if (batch->applied && batch->denied) {
        sim_violation(sim, "a call was answered as not applied, and it was");
    }
}

void sim_check_aborted(struct sim *sim, const struct sim_message *message)
{
    for (struct sim_batch *batch = sim->store.batches; batch != NULL; batch = batch->next) {
        if (batch->nonce == message->nonce) {
            batch->denied = true;
            sim_check_applied(sim, batch);
        }
    }
}

/* ---------------------------------------------------------------- what workers are told and say */

void sim_check_registered(struct sim *sim, const struct sim_worker *worker)
{
    char key[64];

    snprintf(key, sizeof key, "worker %s", worker->incarnation);
    must_be_committed(sim, key, "a worker");
}

void sim_check_worker_update(struct sim *sim, const struct sim_worker *worker, const Millrace__WorkerUpdate *update)
{
    char key[256];

    for (size_t i = 0; i < update->n_tasks; i++) {
        const Millrace__TaskAssignment *task = update->tasks[i];

        snprintf(key, sizeof key, "iterations/%s", task->iteration_id);
        must_be_committed(sim, key, "a worker");
        snprintf(key, sizeof key, "task of %s life %u in %s", worker->incarnation, task->attempt, task->iteration_id);
        note_once(sim, &sim->told, key, task->task_id, "two tasks in one life");
        for (size_t j = 0; j < i; j++) {
            if (strcmp(update->tasks[j]->iteration_id, task->iteration_id) == 0) {
                sim_violation(sim, "worker %d has two tasks of iteration %s", worker->number, task->iteration_id);
            }
        }
    }
}

/* What goes in the same transaction that would have shown it leaves nothing to hold anybody to. */
static bool is_stored(const struct sim *sim, const char *prefix, const char *id)
{
    char key[128];

    snprintf(key, sizeof key, "%s%s", prefix, id);
    return sim_store_get(&sim->store, key) != NULL;
}

void sim_check_ended(struct sim *sim, const struct sim_task *task)
{
    char key[256], finished[128];

    snprintf(key, sizeof key, "tasks/%s", task->id);
    snprintf(finished, sizeof finished, "finished %s", task->iteration);
    if (mr_map_get(&sim->committed, finished) == NULL && mr_map_get(&sim->committed, key) == NULL &&
        is_stored(sim, "iterations/", task->iteration)) {
        must_be_committed(sim, key, "a worker");
    }
}

void sim_check_decided(struct sim *sim, const struct sim_replica *replica, const struct sim_message *request)
{
    Millrace__GetSplitsRequest *in = millrace__get_splits_request__unpack(NULL, request->size, request->body);
    char key[256], epoch[32];
    const char *before;

    snprintf(key, sizeof key, "decided %s/%" PRIu32 " seq %" PRIu64, in->task_id, in->provider, in->seq);
    snprintf(epoch, sizeof epoch, "%" PRIi64, replica->epoch);
    before = mr_map_get(&sim->told, key);
    if (before == NULL) {
        note(sim, &sim->told, key, epoch);
    } else {
        sim_rare(sim, strcmp(before, epoch) == 0 ? SIM_RARE_ANSWER_AGAIN : SIM_RARE_ANSWER_BY_SUCCESSOR);
    }
    millrace__get_splits_request__free_unpacked(in, NULL);
}

void sim_check_grant(struct sim *sim, const struct sim_task *task, uint64_t seq, const Millrace__GetSplitsReply *reply)
{
    const char *ref = strchr(task->id, '/') + 1;
    uint64_t first = reply->n_ranges > 0 ? reply->ranges[0]->first : 0;
    uint64_t count = reply->n_ranges > 0 ? reply->ranges[0]->count : 0;
    const char *committed;
    char key[256], text[256];

    sim->grants++;
    snprintf(key, sizeof key, "grants/%s/%zu/%s seq %" PRIu64, task->iteration, task->provider, ref, seq);
    snprintf(text, sizeof text, "repetition %" PRIu64 " end %d from %" PRIu64 " count %" PRIu64, task->repetition,
             reply->end, first, count);
    committed = mr_map_get(&sim->committed, key);
    if (!is_stored(sim, "iterations/", task->iteration)) {
        return;
    }
    if (committed == NULL || strcmp(committed, text) != 0) {
        sim_violation(sim, "a worker was told of '%s' = '%s'; committed is '%s'", key, text,
                      committed != NULL ? committed : "nothing");
    }
    for (uint64_t split = first; split < first + count; split++) {
        snprintf(key, sizeof key, "%s/%zu/%" PRIu64 "/%" PRIu64, task->iteration, task->provider, task->repetition,
                 split);
        snprintf(text, sizeof text, "%s in answer %" PRIu64, task->id, seq);
        note_once(sim, &sim->handed, key, text, "a split was handed out twice");
    }
}
