/*
 * Takeover: the records of the store become a core again. They come in any order, so they are parsed and kept, and put
 * together when all are there: first what others refer to, then what is derived, then what differs from it. What refers
 * to something that is gone was on its way out when the last leader stopped, and is left over.
 */
#include "dispatcher/core/internal.h"

#include "json/pbjson.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct staged_record {
    STAILQ_ENTRY(staged_record) link;
    void *rec; /* NULL: the key is all that matters */
    char key[];
};
STAILQ_HEAD(staged_list, staged_record);

/* Takes @rec. MR_EDATALOSS: the record contradicts its key or what is there. */
typedef int adopt_fn(mr_core *core, const char *key, void *rec, mr_error *err);

static adopt_fn adopt_schema, adopt_dataset, adopt_job, adopt_worker, adopt_iteration, adopt_task, adopt_cursor,
    adopt_grant, adopt_client;

/* In the order of adoption. */
static const struct {
    const char *prefix;
    const ProtobufCMessageDescriptor *desc;
    adopt_fn *adopt;
} kinds[] = {
    {"schema", &millrace__schema_record__descriptor, adopt_schema},
    {"datasets/", &millrace__dataset_record__descriptor, adopt_dataset},
    {"jobs/", &millrace__job_record__descriptor, adopt_job},
    {"workers/", &millrace__worker_record__descriptor, adopt_worker},
    {"iterations/", &millrace__iteration_record__descriptor, adopt_iteration},
    {"tasks/", &millrace__task_record__descriptor, adopt_task},
    {"cursors/", &millrace__cursor_record__descriptor, adopt_cursor},
    {"grants/", &millrace__grant_record__descriptor, adopt_grant},
    {"clients/", &millrace__client_record__descriptor, adopt_client},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

struct mr_staged {
    struct staged_list lists[KINDS];
    struct staged_list blobs;
};

const char *const *mr_core_prefixes(void)
{
    static const char *const prefixes[] = {"schema", "datasets/", "jobs/",   "workers/", "iterations/",
                                           "tasks/", "cursors/",  "grants/", "clients/", NULL};

    _Static_assert(sizeof prefixes / sizeof prefixes[0] == KINDS + 1, "one prefix for each kind");
    return prefixes;
}

static void free_list(struct staged_list *list)
{
    struct staged_record *staged;

    while ((staged = STAILQ_FIRST(list)) != NULL) {
        STAILQ_REMOVE_HEAD(list, link);
        mr_record_free(staged->rec);
        mr_free(staged);
    }
}

void mr_staged_free(struct mr_staged *staged)
{
    if (staged == NULL) {
        return;
    }
    for (size_t i = 0; i < KINDS; i++) {
        free_list(&staged->lists[i]);
    }
    free_list(&staged->blobs);
    mr_free(staged);
}

static struct mr_staged *staged_of(mr_core *core)
{
    MR_ASSERT(!core->ready);
    if (core->staged == NULL) {
        core->staged = mr_calloc(1, sizeof *core->staged);
        if (core->staged == NULL) {
            return NULL;
        }
        for (size_t i = 0; i < KINDS; i++) {
            STAILQ_INIT(&core->staged->lists[i]);
        }
        STAILQ_INIT(&core->staged->blobs);
    }
    return core->staged;
}

static int stage(struct staged_list *list, const char *key, void *rec, mr_error *err)
{
    size_t size = strlen(key) + 1;
    struct staged_record *staged = mr_malloc(sizeof *staged + size);

    if (staged == NULL) {
        mr_record_free(rec);
        return mr_error_nomem(err);
    }
    staged->rec = rec;
    memcpy(staged->key, key, size);
    STAILQ_INSERT_TAIL(list, staged, link);
    return MR_OK;
}

int mr_core_load(mr_core *core, const char *key, const void *value, size_t size, mr_error *err)
{
    struct mr_staged *staged = staged_of(core);
    ProtobufCMessage *rec = NULL;

    if (staged == NULL) {
        return mr_error_nomem(err);
    }
    for (size_t i = 0; i < KINDS; i++) {
        if (strncmp(key, kinds[i].prefix, strlen(kinds[i].prefix)) != 0) {
            continue;
        }
        int rc = mr_pbjson_parse(kinds[i].desc, value, size, &rec, err);

        if (rc < 0) {
            mr_error_wrap(err, "the value of '%.120s'", key);
            if (err != NULL && rc == MR_EINVAL) {
                err->code = MR_EDATALOSS;
            }
            return rc == MR_EINVAL ? MR_EDATALOSS : rc;
        }
        if (strcmp(key, "schema") == 0) { /* before anything else of a newer format fails to parse */
            rc = mr_schema_check((const Millrace__SchemaRecord *)rec, err);
            if (rc < 0) {
                mr_record_free(rec);
                return rc;
            }
        }
        return stage(&staged->lists[i], key, rec, err);
    }
    return mr_error_set(err, MR_EDATALOSS, "'%.120s' is no key of this state", key);
}

int mr_core_load_blob(mr_core *core, const char *key, mr_error *err)
{
    struct mr_staged *staged = staged_of(core);

    if (staged == NULL) {
        return mr_error_nomem(err);
    }
    return stage(&staged->blobs, key, NULL, err);
}

/* ---------------------------------------------------------------- one record each */

static int contradiction(mr_error *err)
{
    return mr_error_set(err, MR_EDATALOSS, "the key does not fit its own value");
}

/* Frees @rec too. */
static int leave_over(mr_core *core, const char *key, void *rec)
{
    mr_record_free(rec);
    mr_core_leave_over(core, key);
    return MR_OK;
}

static int adopt_schema(mr_core *core, const char *key, void *rec, mr_error *err)
{
    if (strcmp(key, "schema") != 0 || core->schema != NULL) {
        mr_record_free(rec);
        return contradiction(err);
    }
    core->schema = rec;
    return MR_OK;
}

static int adopt_dataset(mr_core *core, const char *key, void *rec, mr_error *err)
{
    Millrace__DatasetRecord *dataset = rec;
    char expected[MR_KEY_SIZE];

    mr_dataset_key(dataset->id, expected, sizeof expected);
    if (strcmp(key, expected) != 0 || dataset->n_providers > MR_CORE_PROVIDERS_MAX) {
        mr_record_free(rec);
        return contradiction(err);
    }
    mr_dataset_add(core, dataset);
    return MR_OK;
}

/* An older version would have taken over what it cannot serve. */
static bool may_have(const mr_core *core, Millrace__Guarantee guarantee)
{
    return guarantee == MILLRACE__GUARANTEE__AT_MOST_ONCE ||
           (guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE && mr_schema_has(core, MR_FEATURE_AT_LEAST_ONCE));
}

static int adopt_job(mr_core *core, const char *key, void *rec, mr_error *err)
{
    const Millrace__JobRecord *job = rec;
    char slot[MR_KEY_SIZE];

    mr_job_slot(rec, slot, sizeof slot);
    if (strcmp(key + strlen("jobs/"), slot) != 0) {
        mr_record_free(rec);
        return contradiction(err);
    }
    if (!may_have(core, job->guarantee)) {
        int guarantee = (int)job->guarantee;

        mr_record_free(rec);
        return mr_error_set(err, MR_EDATALOSS, "has guarantee %d, which the features of the schema do not tell of",
                            guarantee);
    }
    return mr_job_add(core, rec, err) != NULL ? MR_OK : MR_EDATALOSS;
}

static int adopt_worker(mr_core *core, const char *key, void *rec, mr_error *err)
{
    struct mr_worker *worker = mr_worker_add(core, rec, err);

    if (worker == NULL) {
        return MR_EDATALOSS;
    }
    return strcmp(key + strlen("workers/"), worker->ref) == 0 ? MR_OK : contradiction(err);
}

static int adopt_iteration(mr_core *core, const char *key, void *rec, mr_error *err)
{
    Millrace__IterationRecord *iteration = rec;
    struct mr_job *job = mr_job_by_id(core, iteration->job_id);
    struct mr_worker *worker;

    if (strcmp(key + strlen("iterations/"), iteration->id) != 0 || iteration->n_providers > MR_CORE_PROVIDERS_MAX) {
        mr_record_free(rec);
        return contradiction(err);
    }
    if (job == NULL) {
        return leave_over(core, key, rec);
    }
    struct mr_iteration *it = mr_iteration_add(core, job, iteration, err);

    if (it == NULL) {
        return MR_EDATALOSS;
    }
    if (it->rec->finished) {
        mr_job_note_ended(core, job, it->rec->repetition);
        return MR_OK;
    }
    if (mr_iteration_repeats(it) && it->rec->n_providers != 1) {
        return mr_error_set(err, MR_EDATALOSS, "an at_least_once iteration has %zu sources to split, not one",
                            it->rec->n_providers);
    }
    /* Its tasks: those of every worker that lived after it began. What became of them is seen later. */
    TAILQ_FOREACH(worker, &core->worker_list, link)
    {
        if (mr_worker_is_live(worker) || mr_stamp_compare(worker->lost, it->id.at) > 0) {
            mr_task_add(core, it, worker);
        }
    }
    return MR_OK;
}

/* What is before the next '/' of @path; returns what is behind it, or NULL if there is none or it is too long. */
static const char *take_segment(const char *path, char *out, size_t size)
{
    const char *slash = strchr(path, '/');

    if (slash == NULL || (size_t)(slash - path) >= size) {
        return NULL;
    }
    memcpy(out, path, (size_t)(slash - path));
    out[slash - path] = '\0';
    return slash + 1;
}

/* "<iteration>/<worker>/<number>" behind the prefix. */
static int adopt_recovery(mr_core *core, const char *key, Millrace__TaskRecord *rec, mr_error *err)
{
    const char *path = key + strlen("tasks/");
    char iteration[MR_STAMP_SIZE], ref[MR_WORKER_REF_SIZE], again[MR_TASK_ID_SIZE];
    const char *rest = take_segment(path, iteration, sizeof iteration);
    struct mr_iteration *it;
    struct mr_worker *worker;

    if (rest == NULL || take_segment(rest, ref, sizeof ref) == NULL) {
        mr_record_free(rec);
        return contradiction(err);
    }
    snprintf(again, sizeof again, "%s/%s/%u", iteration, ref, rec->recovery);
    it = mr_iteration_find(core, iteration);
    worker = mr_map_get(&core->workers_by_ref, ref);
    if (strcmp(path, again) != 0 || rec->lost || (rec->ended && rec->code >= 0)) {
        mr_record_free(rec);
        return contradiction(err);
    }
    if (it == NULL || it->rec->finished || worker == NULL) {
        return leave_over(core, key, rec);
    }
    if (!mr_iteration_repeats(it) || rec->ended || rec->recovery > it->rec->recoveries ||
        (!mr_worker_is_live(worker) && mr_stamp_compare(worker->lost, it->losses_counted_to) <= 0)) {
        mr_record_free(rec);
        return mr_error_set(err, MR_EDATALOSS, "is a recovery task that iteration %s cannot have", iteration);
    }
    mr_task_adopt_recovery(core, it, worker, rec);
    return MR_OK;
}

static int adopt_task(mr_core *core, const char *key, void *rec, mr_error *err)
{
    struct mr_task *task = mr_task_find(core, key + strlen("tasks/"));
    Millrace__TaskRecord *record = rec;

    if (record->recovery != 0) {
        return adopt_recovery(core, key, rec, err);
    }
    if (task == NULL) {
        return leave_over(core, key, rec);
    }
    if (record->ended == record->lost || record->isolated || task->rec != NULL) {
        mr_record_free(rec);
        return contradiction(err);
    }
    task->rec = record;
    task->counted = record->lost; /* in the transaction that closed it */
    mr_task_move(core, task, record->ended ? MR_TASK_ENDED : MR_TASK_LOST);
    return MR_OK;
}

/* "<iteration>/<provider>" or "<iteration>/<provider>/<rest>" behind the prefix. */
static struct mr_iteration *split_key(const mr_core *core, const char *path, unsigned long *provider, const char **rest)
{
    char id[MR_STAMP_SIZE];
    const char *number = take_segment(path, id, sizeof id);
    char *end;

    if (number == NULL) {
        return NULL;
    }
    *provider = strtoul(number, &end, 10);
    *rest = *end == '/' ? end + 1 : end;
    return mr_iteration_find(core, id);
}

static bool is_pool_sound(const struct mr_iteration *it, size_t provider)
{
    const Millrace__CursorRecord *cursor = it->cursors[provider].rec;

    if (!mr_iteration_repeats(it)) {
        return cursor->n_pool == 0;
    }
    if (cursor->repetition > 0 && !mr_position_fits(it, provider, cursor->repetition - 1)) {
        return false;
    }
    return cursor->n_pool <= MR_OWED_RANGES_MAX &&
           mr_owed_is_sound(mr_pool(it, provider), mr_position_end(it, provider));
}

static int adopt_cursor(mr_core *core, const char *key, void *rec, mr_error *err)
{
    Millrace__CursorRecord *cursor = rec;
    unsigned long provider;
    const char *rest;
    struct mr_iteration *it = split_key(core, key + strlen("cursors/"), &provider, &rest);

    if (it == NULL || it->rec->finished) {
        return leave_over(core, key, rec);
    }
    if (provider >= it->rec->n_providers || rest[0] != '\0' || it->cursors[provider].rec != NULL ||
        (it->rec->providers[provider]->splits >= 0 && cursor->next > (uint64_t)it->rec->providers[provider]->splits)) {
        mr_record_free(rec);
        return contradiction(err);
    }
    it->cursors[provider].rec = cursor;
    if (!is_pool_sound(it, provider)) {
        return mr_error_set(err, MR_EDATALOSS, "the splits in its pool cannot have been handed out");
    }
    return MR_OK;
}

static int adopt_grant(mr_core *core, const char *key, void *rec, mr_error *err)
{
    unsigned long provider;
    const char *rest;
    struct mr_iteration *it = split_key(core, key + strlen("grants/"), &provider, &rest);
    Millrace__GrantRecord *grant = rec;
    struct mr_task *task = NULL;
    char id[MR_TASK_ID_SIZE];

    if (it != NULL && (size_t)snprintf(id, sizeof id, "%s/%s", it->rec->id, rest) < sizeof id) {
        task = mr_task_find(core, id);
    }
    if (task == NULL) {
        return leave_over(core, key, rec);
    }
    if (provider >= it->rec->n_providers || it->cursors[provider].rec == NULL || task->grants[provider].rec != NULL ||
        grant->seq == 0 || grant->n_ranges > 1 || grant->end != (grant->n_ranges == 0) ||
        (!mr_iteration_repeats(it) && grant->n_open > 0) || !mr_grants_are_sound(it, provider, grant)) {
        mr_record_free(rec);
        return contradiction(err);
    }
    task->grants[provider].rec = grant;
    return MR_OK;
}

static int adopt_client(mr_core *core, const char *key, void *rec, mr_error *err)
{
    Millrace__ClientRecord *client = rec;
    struct mr_iteration *it = mr_iteration_find(core, client->iteration_id);

    if (strcmp(key + strlen("clients/"), client->client) != 0 || !mr_id_is_valid(client->client)) {
        mr_record_free(rec);
        return contradiction(err);
    }
    if (it == NULL) {
        return leave_over(core, key, rec);
    }
    mr_client_add(core, client, it);
    return MR_OK;
}

/* ---------------------------------------------------------------- all of them */

static int adopt_all(mr_core *core, mr_error *err)
{
    struct staged_record *staged;

    for (size_t i = 0; i < KINDS; i++) {
        while ((staged = STAILQ_FIRST(&core->staged->lists[i])) != NULL) {
            STAILQ_REMOVE_HEAD(&core->staged->lists[i], link);
            int rc = kinds[i].adopt(core, staged->key, staged->rec, err);

            if (rc < 0) {
                mr_error_wrap(err, "'%.160s'", staged->key); /* whoever has to mend it must know where */
            }
            mr_free(staged);
            if (core->failed != 0) {
                if (err != NULL) {
                    *err = core->failure;
                }
                return core->failed;
            }
            if (rc < 0) {
                return rc;
            }
        }
    }
    return MR_OK;
}

/* Parts that no dataset names: their registration did not get to its end, or their deletion did not. */
static int sweep_blobs(mr_core *core, mr_error *err)
{
    struct mr_dataset_entry *dataset;
    struct staged_record *staged;
    struct mr_map used = {0};
    int rc = MR_OK;

    TAILQ_FOREACH(dataset, &core->dataset_list, link)
    {
        rc = mr_map_put(&used, dataset->blob->id, dataset->blob, err);
        if (rc < 0) {
            goto out;
        }
    }
    STAILQ_FOREACH(staged, &core->staged->blobs, link)
    {
        const char *id = staged->key + strlen("blobs/");
        const char *slash = strchr(id, '/');
        char blob[MR_ID_HEX + 1] = "";

        if (slash != NULL && slash - id == MR_ID_HEX) {
            memcpy(blob, id, MR_ID_HEX);
        }
        if (mr_map_get(&used, blob) == NULL) {
            mr_core_leave_over(core, staged->key);
        }
    }
out:
    mr_map_free(&used);
    return rc;
}

/* Tasks that were open when their worker's life ended. */
static void derive_losses(mr_core *core, struct mr_worker *worker)
{
    struct mr_task *task;

    if (mr_worker_is_live(worker)) {
        return;
    }
    TAILQ_FOREACH(task, &worker->tasks, in_worker)
    {
        if (task->state == MR_TASK_OPEN) {
            task->counted = mr_stamp_compare(worker->lost, task->iteration->losses_counted_to) <= 0;
            mr_task_move(core, task, MR_TASK_LOST);
        }
    }
}

/* Grants of tasks that have ended, or whose loss is counted, are only the last answer. */
static void void_grants(struct mr_iteration *it)
{
    struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        if (task->state == MR_TASK_ENDED || (task->state == MR_TASK_LOST && task->counted)) {
            mr_grants_void(task);
        }
    }
}

static int64_t at_least(int64_t ms, int64_t floor)
{
    return ms > floor ? ms : floor;
}

/* Everybody gets a full grace: who was silent because nobody led is not lost. What waits for wall time is looked at
 * by the first timer, since only a command brings it. */
static void arm(mr_core *core)
{
    const struct mr_core_config *config = &core->config;
    int64_t gc = config->job_gc_timeout_ms < MR_LONG_MS ? config->job_gc_timeout_ms : 0;
    struct mr_dataset_entry *dataset;
    struct mr_iteration *it;
    struct mr_worker *worker;
    struct mr_client *client;
    struct mr_job *job;

    core->collect_from = mr_time_add(core->now, at_least(at_least(gc, config->client_timeout_ms), MR_RESTART_GRACE_MS));
    TAILQ_FOREACH(worker, &core->worker_list, link)
    {
        derive_losses(core, worker);
        worker->seen = core->now;
        worker->lost_at = core->now;
        worker->deadline = mr_time_add(core->now, at_least(config->worker_timeout_ms, config->takeover_grace_ms));
        mr_alarm_at(core, &worker->alarm, mr_worker_is_live(worker) ? worker->deadline : core->now);
    }
    TAILQ_FOREACH(client, &core->client_list, link)
    {
        client->since = core->now;
        client->deadline = mr_time_add(core->now, at_least(config->client_timeout_ms, config->takeover_grace_ms));
        mr_alarm_at(core, &client->alarm, client->rec->released ? core->now : client->deadline);
    }
    TAILQ_FOREACH(it, &core->iteration_list, link)
    {
        it->since = core->now;
        mr_alarm_at(core, &it->alarm, core->now);
        mr_iteration_unsettle(core, it);
        void_grants(it);
    }
    TAILQ_FOREACH(job, &core->job_list, link)
    {
        job->idle_since = core->now;
        mr_alarm_at(core, &job->alarm, core->now);
    }
    TAILQ_FOREACH(dataset, &core->dataset_list, link)
    {
        dataset->since = core->now;
        mr_alarm_at(core, &dataset->alarm, core->now);
    }
}

int mr_core_ready(mr_core *core, int64_t now_ms, mr_error *err)
{
    struct mr_iteration *it;
    struct mr_worker *worker;
    int rc;

    if (staged_of(core) == NULL) {
        return mr_error_nomem(err);
    }
    core->now = now_ms;
    rc = adopt_all(core, err);
    if (rc == MR_OK && core->schema == NULL) {
        mr_schema_begin(core);
    }
    if (rc == MR_OK) {
        rc = sweep_blobs(core, err);
    }
    mr_staged_free(core->staged);
    core->staged = NULL;
    if (rc < 0) {
        return rc;
    }
    arm(core);
    while ((it = TAILQ_FIRST(&core->touched_iterations)) != NULL) {
        mr_iteration_untouch(core, it);
    }
    while ((worker = TAILQ_FIRST(&core->touched_workers)) != NULL) {
        mr_worker_untouch(core, worker);
    }
    if (core->failed != 0) {
        if (err != NULL) {
            *err = core->failure;
        }
        return core->failed;
    }
    core->ready = true;
    return mr_core_check(core, err);
}
