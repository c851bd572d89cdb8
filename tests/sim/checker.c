/*
 * The judge. It stands outside: it sees what is applied to the store and what workers and clients
 * are told, keeps its own model of that, and knows nothing of the core. What it holds the cluster
 * to:
 *
 *  - what elements.c says of splits and elements; one question has one answer, for ever;
 *  - what anybody is told was committed before: objects that were acknowledged exist, and go on
 *    existing;
 *  - an iteration that has ended stays ended: nothing of it is written or opened again;
 *  - a worker has one task of an iteration in each of its lives, beside recovery tasks;
 *  - nobody is given up who was heard of in time (given_up.c);
 *  - who is told that a call was not applied can rely on it.
 */
#include "rounds.h"

#include "json/pbjson.h"

#include <stdlib.h>

/* ---------------------------------------------------------------- notes */

static char *keep(struct sim *sim, const char *text)
{
    char *copy = sim_got(mr_strdup(text));

    MORE(sim->strings, sim->cap_strings, sim->nstrings);
    sim->strings[sim->nstrings++] = copy;
    return copy;
}

static void note(struct sim *sim, struct mr_map *map, const char *key, const char *text)
{
    sim_must(mr_map_put(map, keep(sim, key), keep(sim, text), NULL));
}

static void note_as(struct sim *sim, const char *what, const char *of, const char *text)
{
    char name[192];

    snprintf(name, sizeof name, "%s %s", what, of);
    note(sim, &sim->committed, name, text);
}

static void note_fact(struct sim *sim, const char *what, const char *of)
{
    note_as(sim, what, of, "yes");
}

/* What is noted as @what of it; NULL: nothing. */
static const char *noted(const struct sim *sim, const char *what, const char *of)
{
    char name[192];

    snprintf(name, sizeof name, "%s %s", what, of);
    return mr_map_get(&sim->committed, name);
}

static bool is_fact(const struct sim *sim, const char *what, const char *of)
{
    return noted(sim, what, of) != NULL;
}

/* The first text under @key stays; another one is a contradiction. */
static void note_once(struct sim *sim, struct mr_map *map, const char *key, const char *text,
                      const char *what)
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
    sim_views_free(sim);
    mr_map_free(&sim->told);
}

/* ---------------------------------------------------------------- what is committed */

static bool starts(const char *key, const char *prefix)
{
    return strncmp(key, prefix, strlen(prefix)) == 0;
}

void *sim_parse(struct sim *sim, const ProtobufCMessageDescriptor *desc, const char *key,
                const char *value)
{
    ProtobufCMessage *message = NULL;
    mr_error err;

    if (mr_pbjson_parse(desc, value, strlen(value), &message, &err) < 0) {
        sim_violation(sim, "%s: %s", key, err.message);
        return NULL;
    }
    return message;
}

/* An answer to a request for splits. */
static void answer_text(uint64_t repetition, int64_t ahead, bool end,
                        Millrace__SplitRange *const *ranges, size_t n, char *out, size_t size)
{
    int at =
        snprintf(out, size, "repetition %" PRIu64 "%+" PRIi64 " end %d", repetition, ahead, end);

    for (size_t i = 0; i < n && (size_t)at < size; i++) {
        at += snprintf(out + at, size - (size_t)at, " from %" PRIu64 " count %" PRIu64,
                       ranges[i]->first, ranges[i]->count);
    }
}

/* "grants/<iteration>/<provider>/<rest of the task's id>" */
static void commit_grant(struct sim *sim, const char *key, const void *record, int64_t memory)
{
    const Millrace__GrantRecord *grant = record;
    char name[256], text[600], iteration[64], task[128];
    const char *id = strchr(key, '/') + 1, *provider = strchr(id, '/') + 1;

    snprintf(iteration, sizeof iteration, "%.*s", (int)(provider - 1 - id), id);
    snprintf(task, sizeof task, "%s%s", iteration, strchr(provider, '/'));
    snprintf(name, sizeof name, "%s seq %" PRIu64, key, grant->seq);
    answer_text(grant->repetition, grant->ahead, grant->end, grant->ranges, grant->n_ranges, text,
                sizeof text);
    note_once(sim, &sim->committed, name, text, "one question, two answers");
    sim_view_granted(sim, iteration, task, strtoul(provider, NULL, 10), grant, memory);
}

static void commit_iteration(struct sim *sim, const char *key, const void *record, int64_t memory)
{
    const Millrace__IterationRecord *it = record;
    char name[256], at[32];

    /* Only an OFF iteration that nobody reads may be forgotten before its end, and made again. */
    if (it->job_id[0] != '\0' && (sim->job_gc_ms == 0 || it->n_providers > 0)) {
        snprintf(name, sizeof name, "repetition %s/%" PRIu64, it->job_id, it->repetition);
        note_once(sim, &sim->committed, name, it->id, "one repetition, two iterations");
    }
    snprintf(name, sizeof name, "ran %s/%" PRIu64, it->job_id, it->repetition);
    note(sim, &sim->committed, name, "yes");
    sim_view_iteration(sim, it);
    if (!is_fact(sim, "finished", it->id)) {
        snprintf(at, sizeof at, "%" PRIi64, sim->store.revision);
        if (it->finished) {
            note_as(sim, "finished", it->id, at);
        }
    } else if (!it->finished) {
        sim_violation(sim, "iteration %s had finished and is open again", it->id);
    }
}

/* Parts of an iteration: "<kind>/<iteration>/...". */
static void commit_part(struct sim *sim, const char *key)
{
    const char *id = strchr(key, '/') + 1;
    const char *slash = strchr(id, '/'), *finished;
    char name[128];

    snprintf(name, sizeof name, "finished %.*s", (int)(slash - id), id);
    finished = mr_map_get(&sim->committed, name);
    if (finished != NULL && strtoll(finished, NULL, 10) < sim->store.revision) {
        sim_violation(sim, "%s was written after its iteration had finished", key);
    }
}

/* A task was closed: its record says so. */
static void commit_task(struct sim *sim, const char *key, const void *record, int64_t memory)
{
    if (((const Millrace__TaskRecord *)record)->lost) {
        note_fact(sim, "closed", key + strlen("tasks/"));
    }
}

static void commit_worker(struct sim *sim, const char *key, const void *record, int64_t memory)
{
    const Millrace__WorkerRecord *worker = record;
    const char *life = key + strlen("workers/");

    note_fact(sim, "worker", worker->incarnation);
    if (worker->lost[0] != '\0') {
        const char *clean = noted(sim, "clean", worker->incarnation);

        /* One whose goodbye is not heard in time, or not taken in by a full store, is lost. */
        sim->workers_lost = sim->workers_lost || clean == NULL ||
                            sim->now - strtoll(clean, NULL, 10) >= SIM_WORKER_TIMEOUT_MS;
        note_fact(sim, "lost", life);
    } else if (is_fact(sim, "lost", life)) {
        sim_violation(sim, "a worker was given life %s, which had ended", life);
    }
}

static void commit_production(struct sim *sim, const char *key, const void *record, int64_t memory)
{
    sim_view_production(sim, record);
}

void sim_check_leaves_clean(struct sim *sim, const struct sim_worker *worker)
{
    char at[32];

    snprintf(at, sizeof at, "%lld", (long long)sim->now);
    note_as(sim, "clean", worker->incarnation, at);
}

static void commit_job(struct sim *sim, const char *key, const void *record, int64_t memory)
{
    const Millrace__JobRecord *job = record;

    sim_view_job(sim, job);
    note_fact(sim, "job", job->id);
    note(sim, &sim->committed, key, job->id);
}

/* What is written, by the prefix of its key, and in which pass it is looked at. */
static const struct kind {
    const char *prefix;
    int pass;
    const ProtobufCMessageDescriptor *type;
    void (*commit)(struct sim *sim, const char *key, const void *record, int64_t memory);
} kinds[] = {
    {"tasks/", 0, &millrace__task_record__descriptor, commit_task},
    {"workers/", 0, &millrace__worker_record__descriptor, commit_worker},
    {"jobs/", 0, &millrace__job_record__descriptor, commit_job},
    {"productions/", 0, &millrace__production_record__descriptor, commit_production},
    {"iterations/", 1, &millrace__iteration_record__descriptor, commit_iteration},
    {"grants/", 2, &millrace__grant_record__descriptor, commit_grant},
};

static void commit_delete(struct sim *sim, int pass, const char *key)
{
    if (pass == 0 && starts(key, "tasks/")) { /* a recovery task that was closed goes */
        note_fact(sim, "closed", key + strlen("tasks/"));
    } else if (pass == 1 && starts(key, "jobs/")) {
        if (mr_map_get(&sim->committed, key) == NULL) {
            note(sim, &sim->told, key, "made and forgotten in one transaction");
        }
        sim_view_job_gone(sim, mr_map_get(&sim->committed, key));
    } else if (pass == 2 && starts(key, "productions/")) {
        sim_view_production_gone(sim, key + strlen("productions/"));
    }
}

/* A transaction has no order within: first what the rest refers to, then the rest. */
static void commit(struct sim *sim, int pass, const char *key, const char *value, int64_t memory)
{
    if (value == NULL) {
        commit_delete(sim, pass, key);
        return;
    }
    if (pass == 0 && !starts(key, "jobs/")) {
        note(sim, &sim->committed, key, value);
    }
    if (pass == 2 && (starts(key, "grants/") || starts(key, "cursors/"))) {
        commit_part(sim, key);
    } else if (pass == 2 && starts(key, "consumers/")) {
        sim_rounds_placed(sim, key, value);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        ProtobufCMessage *record = kinds[i].pass == pass && starts(key, kinds[i].prefix)
                                       ? sim_parse(sim, kinds[i].type, key, value)
                                       : NULL;

        if (record != NULL) {
            kinds[i].commit(sim, key, record, memory);
            protobuf_c_message_free_unpacked(record, NULL);
        }
    }
}

void sim_check_applied(struct sim *sim, const struct sim_batch *batch)
{
    if (batch->applied && batch->denied) {
        sim_violation(sim, "a call was answered as not applied, and it was");
    }
}

void sim_check_batch(struct sim *sim, const struct sim_change *changes, size_t n,
                     const struct sim_batch *batch)
{
    int64_t memory = batch != NULL ? batch->memory : 0;

    for (int pass = 0; pass < 3; pass++) {
        for (size_t i = 0; i < n; i++) {
            commit(sim, pass, changes[i].key, changes[i].value, memory);
        }
    }
    if (batch != NULL) {
        sim_check_applied(sim, batch);
    }
}

/* The key is @prefix and @id. */
static void must_be_committed(struct sim *sim, const char *prefix, const char *id, const char *who)
{
    char key[256];

    snprintf(key, sizeof key, "%s%s", prefix, id);
    if (mr_map_get(&sim->committed, key) == NULL) {
        sim_violation(sim, "%s was told of '%s', which was never committed", who, key);
    }
}

/* ---------------------------------------------------------------- what is told */

void sim_check_dataset(struct sim *sim, const char *id, const mr_error *error)
{
    if (error->code < 0) {
        sim_violation(sim, "registering %s: %s", id, error->message);
        return;
    }
    must_be_committed(sim, "datasets/", id, "a client");
}

/* When somebody was told of it first. */
static void note_end_told(struct sim *sim, const char *job, uint64_t repetition)
{
    char key[128], at[32];

    snprintf(key, sizeof key, "ended %s/%" PRIu64, job, repetition);
    snprintf(at, sizeof at, "%lld", (long long)sim->now);
    if (mr_map_get(&sim->told, key) == NULL) {
        note(sim, &sim->told, key, at);
    }
}

void sim_check_opened(struct sim *sim, const struct sim_client *client,
                      const Millrace__OpenReply *reply)
{
    char key[256];
    const char *ended;

    /* While the store took nothing in for longer than a silent reader is waited for. */
    snprintf(key, sizeof key, "jobs/~%s", client->id);
    if (mr_map_get(&sim->told, key) != NULL && mr_map_get(&sim->committed, key) == NULL) {
        return;
    }
    must_be_committed(sim, "job ", reply->job_id, "a client");
    if (client->plan.job[0] != '\0') {
        snprintf(key, sizeof key, "name %s+%s", client->plan.job, client->plan.trainer);
        note_once(sim, &sim->told, key, reply->job_id, "a job was forgotten and made again");
    }
    snprintf(key, sizeof key, "ended %s/%" PRIu64, reply->job_id, client->repetition);
    ended = mr_map_get(&sim->told, key);
    if (!reply->finished) {
        /* Whoever asked before the end was told may be answered late. */
        if (ended != NULL && strtoll(ended, NULL, 10) < client->control.began) {
            sim_violation(sim, "repetition %" PRIu64 " of job %s had ended and is open again",
                          client->repetition, reply->job_id);
        }
        must_be_committed(sim, "iterations/", reply->iteration_id, "a client");
        must_be_committed(sim, "clients/", client->id, "a client");
        return;
    }
    snprintf(key, sizeof key, "ran %s/%" PRIu64, reply->job_id, client->repetition);
    must_be_committed(sim, "", key, "a client that asked for a repetition that has ended");
    note_end_told(sim, reply->job_id, client->repetition);
}

void sim_check_client_update(struct sim *sim, const struct sim_client *client,
                             const Millrace__ClientUpdate *update)
{
    if (!update->finished) {
        return;
    }
    must_be_committed(sim, "finished ", client->iteration, "a client");
    if (update->end == NULL) {
        sim_violation(sim, "iteration %s ended without saying how", client->iteration);
        return;
    }
    note_end_told(sim, client->job_id, client->repetition);
    sim_view_told(sim, client->iteration, update->end);
}

/* ---------------------------------------------------------------- what workers are told and say */

void sim_check_registered(struct sim *sim, const struct sim_worker *worker)
{
    must_be_committed(sim, "worker ", worker->incarnation, "a worker");
}

/* "<iteration>/<life>", and "/<n>" of a recovery task, of which a life may have many. */
bool sim_is_recovery(const char *task)
{
    return strchr(strchr(task, '/') + 1, '/') != NULL;
}

void sim_check_worker_update(struct sim *sim, const struct sim_worker *worker,
                             const Millrace__WorkerUpdate *update)
{
    for (size_t i = 0; i < update->n_tasks; i++) {
        const Millrace__TaskAssignment *task = update->tasks[i];

        must_be_committed(sim, "iterations/", task->iteration_id, "a worker");
        if (sim_is_recovery(task->task_id)) {
            if (!is_fact(sim, "closed", task->task_id)) { /* in the transaction that opened it */
                must_be_committed(sim, "tasks/", task->task_id, "a worker");
            }
            continue;
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(update->tasks[j]->iteration_id, task->iteration_id) == 0 &&
                !sim_is_recovery(update->tasks[j]->task_id)) {
                sim_violation(sim, "worker %d has two tasks of iteration %s", worker->number,
                              task->iteration_id);
            }
        }
    }
}

/* What goes in the same transaction that would have shown it leaves nothing to hold anybody to. */
static bool is_stored(const struct sim *sim, const char *prefix, const char *id)
{
    char key[128];

    snprintf(key, sizeof key, "%s%s", prefix, id);
    return sim_store_has(sim, key);
}

void sim_check_ended(struct sim *sim, const struct sim_task *task)
{
    if (!is_fact(sim, "finished", task->iteration) &&
        is_stored(sim, "iterations/", task->iteration)) {
        must_be_committed(sim, "tasks/", task->id, "a worker");
    }
}

static void decision_key(const Millrace__GetSplitsRequest *in, char *out, size_t size)
{
    snprintf(out, size, "decided %s/%" PRIu32 " seq %" PRIu64, in->task_id, in->provider, in->seq);
}

bool sim_was_decided(const struct sim *sim, const Millrace__GetSplitsRequest *in)
{
    char key[256];

    decision_key(in, key, sizeof key);
    return mr_map_get(&sim->told, key) != NULL;
}

void sim_check_decided(struct sim *sim, const struct sim_replica *replica,
                       const Millrace__GetSplitsRequest *in)
{
    char key[256], epoch[32];
    const char *before;

    decision_key(in, key, sizeof key);
    snprintf(epoch, sizeof epoch, "%" PRIi64, sim_replica_epoch(replica));
    before = mr_map_get(&sim->told, key);
    if (before == NULL) {
        note(sim, &sim->told, key, epoch);
    } else {
        sim_rare(sim,
                 strcmp(before, epoch) == 0 ? SIM_RARE_ANSWER_AGAIN : SIM_RARE_ANSWER_BY_SUCCESSOR);
    }
}

void sim_check_grant(struct sim *sim, const struct sim_task *task, uint64_t seq,
                     const Millrace__GetSplitsReply *reply)
{
    const char *ref = strchr(task->id, '/') + 1;
    const char *committed;
    char key[256], text[600];

    sim->grants++;
    snprintf(key, sizeof key, "grants/%s/%zu/%s seq %" PRIu64, task->iteration, task->provider, ref,
             seq);
    answer_text(task->repetition, reply->ahead, reply->end, reply->ranges, reply->n_ranges, text,
                sizeof text);
    committed = mr_map_get(&sim->committed, key);
    if (!is_stored(sim, "iterations/", task->iteration) ||
        (committed == NULL && sim_view_given_and_taken(sim, task, reply))) {
        return;
    }
    if (committed == NULL || strcmp(committed, text) != 0) {
        sim_violation(sim, "a worker was told of '%s' = '%s'; committed is '%s'", key, text,
                      committed != NULL ? committed : "nothing");
    }
}
