/* Takeover, one record at a time: does it fit its key, and what was loaded before it? What refers
 * to something that is gone is left over. load.c calls these kind by kind, in an order in which
 * nothing refers to what comes later. */
#include "dispatcher/takeover/takeover.h"

#include <stdlib.h>

static int contradiction(mr_error *err)
{
    return mr_error_set(err, MR_EDATALOSS, "the key does not fit its own value");
}

/* Is @key what the record of @object is stored under? "007" would be a second name of 7. */
static bool is_key_of(enum mr_stored_kind kind, const void *object, size_t index, const char *key)
{
    char made[MR_KEY_SIZE];

    mr_stored_key(kind, object, index, made, sizeof made);
    return strcmp(key, made) == 0;
}

static void *take(void **rec)
{
    void *taken = *rec;

    *rec = NULL;
    return taken;
}

static int leave_over(mr_core *core, const char *key)
{
    mr_leave_over_key(core, key);
    return MR_OK;
}

int mr_load_schema(mr_core *core, const char *key, void **rec, mr_error *err)
{
    if (strcmp(key, "schema") != 0 || core->schema != NULL) {
        return contradiction(err);
    }
    MR_APPLY(core, part_loaded, MR_STORED_SCHEMA, core, 0, take(rec));
    return MR_OK;
}

int mr_load_dataset(mr_core *core, const char *key, void **rec, mr_error *err)
{
    Millrace__DatasetRecord *dataset = *rec;
    struct mr_dataset_entry *added;
    char expected[MR_KEY_SIZE];

    mr_dataset_key(dataset->id, expected, sizeof expected);
    if (strcmp(key, expected) != 0) {
        return contradiction(err);
    }
    if (mr_validate_dataset(core, dataset, err) < 0) {
        return MR_EDATALOSS;
    }
    MR_APPLY(core, dataset_added, take(rec), &added);
    return MR_OK;
}

/* An older version would have taken over what it cannot serve. */
static bool may_have(const mr_core *core, Millrace__Guarantee guarantee)
{
    return guarantee == MILLRACE__GUARANTEE__AT_MOST_ONCE ||
           (guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE &&
            mr_schema_has(core, MR_FEATURE_AT_LEAST_ONCE));
}

/* Of dataset @id: it is bad, or missing, which is noted, so that nobody registers something else
 * under its name. NULL: it is there. */
static const struct mr_flaw *flaw_of_dataset(mr_core *core, const char *id, const char *whose)
{
    char key[MR_KEY_SIZE];
    mr_error err;

    if (mr_dataset_find(core, id) != NULL) {
        return NULL;
    }
    mr_dataset_key(id, key, sizeof key);
    (void)mr_error_set(&err, MR_EDATALOSS, "is missing, and '%.100s' is of it", whose);
    return mr_flaw_note_error(core, key, &err);
}

int mr_load_job(mr_core *core, const char *key, void **rec, mr_error *err)
{
    const Millrace__JobRecord *job = *rec;
    const struct mr_flaw *flaw;
    struct mr_job *added;
    char slot[MR_KEY_SIZE];

    mr_job_slot(job->name, job->trainer, job->client, slot, sizeof slot);
    if (strcmp(key + strlen("jobs/"), slot) != 0) {
        return contradiction(err);
    }
    if (!may_have(core, job->guarantee)) {
        return mr_error_set(err, MR_EDATALOSS,
                            "has guarantee %d, which the features in 'schema' do not list",
                            (int)job->guarantee);
    }
    if ((job->trainer[0] != '\0' || job->sharing != MILLRACE__SHARING__SHARING_OFF) &&
        !mr_schema_has(core, MR_FEATURE_SHARING)) {
        return mr_error_set(err, MR_EDATALOSS,
                            "shares, which the features in 'schema' do not list");
    }
    if (mr_validate_job(core, job, err) < 0) {
        return MR_EDATALOSS;
    }
    flaw = flaw_of_dataset(core, job->dataset_id, key);
    if (flaw != NULL) {
        mr_slot_spoil(core, slot, job->id, flaw->why, false);
        return MR_OK;
    }
    MR_APPLY(core, job_added, take(rec), &added, err);
    return added != NULL ? MR_OK : MR_EDATALOSS;
}

int mr_load_production(mr_core *core, const char *key, void **rec, mr_error *err)
{
    const Millrace__ProductionRecord *production = *rec;
    const struct mr_flaw *flaw;
    struct mr_production *added;

    if (strcmp(key + strlen("productions/"), production->id) != 0) {
        return contradiction(err);
    }
    if (!mr_schema_has(core, MR_FEATURE_SHARING)) {
        return mr_error_set(err, MR_EDATALOSS,
                            "is shared, which the features in 'schema' do not list");
    }
    flaw = flaw_of_dataset(core, production->dataset_id, key);
    if (flaw != NULL) {
        mr_flaw_note(core, key, flaw->why, false);
        return MR_OK;
    }
    MR_APPLY(core, production_added, take(rec), &added, err);
    return added != NULL ? MR_OK : MR_EDATALOSS;
}

int mr_load_worker(mr_core *core, const char *key, void **rec, mr_error *err)
{
    const char *ref = key + strlen("workers/");
    const Millrace__WorkerRecord *worker = *rec;
    struct mr_core_worker *added;
    char by_stamp[MR_KEY_SIZE], by_number[MR_KEY_SIZE];

    snprintf(by_stamp, sizeof by_stamp, "%s.%s", worker->incarnation, worker->registered);
    snprintf(by_number, sizeof by_number, "%s.%u", worker->incarnation,
             worker->life); /* an older name */
    if (strlen(ref) >= MR_WORKER_REF_SIZE ||
        (strcmp(ref, by_stamp) != 0 && strcmp(ref, by_number) != 0)) {
        return contradiction(err);
    }
    MR_APPLY(core, worker_added, take(rec), ref, &added, err);
    return added != NULL ? MR_OK : MR_EDATALOSS;
}

/* Of the production that an iteration reads and that is not there. */
static const struct mr_flaw *flaw_of_production(mr_core *core, const char *id, const char *whose)
{
    char key[MR_KEY_SIZE];
    mr_error err;

    snprintf(key, sizeof key, "productions/%.80s", id);
    (void)mr_error_set(&err, MR_EDATALOSS, "is missing, and '%.100s' reads it", whose);
    return mr_flaw_note_error(core, key, &err);
}

/* The production that goes with an iteration's record, if one does and is there. */
static int find_production(const mr_core *core, const struct mr_job *job,
                           const Millrace__IterationRecord *rec, struct mr_production **ret,
                           mr_error *err)
{
    struct mr_production *p = mr_production_find(core, job != NULL ? rec->production : rec->id);

    *ret = p;
    if (job == NULL) {
        return rec->finished || p->hidden != NULL
                   ? mr_error_set(err, MR_EDATALOSS, "is not a hidden iteration of its production")
                   : MR_OK;
    }
    if (rec->production[0] == '\0' ? mr_job_shares(job) || rec->joining : !mr_job_shares(job)) {
        return mr_error_set(err, MR_EDATALOSS, "production '%.40s' does not fit its job",
                            rec->production);
    }
    if (p != NULL && (!mr_production_fits(p, job, rec->repetition) || rec->n_providers > 0)) {
        *ret = NULL;
        return rec->finished ? MR_OK
                             : mr_error_set(err, MR_EDATALOSS,
                                            "'productions/%.40s' does not match it", p->rec->id);
    }
    return MR_OK;
}

/* Neither its job nor its production is there: it was on its way out, or is set aside with the
 * job. */
static int leave_orphan(mr_core *core, const char *key, const Millrace__IterationRecord *rec)
{
    if (rec->job_id[0] != '\0' && mr_job_is_set_aside(core, rec->job_id)) {
        mr_flaw_note(core, key, "its job is set aside", false);
    }
    return leave_over(core, key);
}

int mr_load_iteration(mr_core *core, const char *key, void **rec, mr_error *err)
{
    Millrace__IterationRecord *iteration = *rec;
    struct mr_job *job = mr_job_by_id(core, iteration->job_id);
    const Millrace__ClientRecord *reader = mr_map_get(&core->readers, iteration->id);
    bool hidden = iteration->job_id[0] == '\0';
    struct mr_production *production = NULL;
    struct mr_iteration *added;

    if (strcmp(key + strlen("iterations/"), iteration->id) != 0) {
        return contradiction(err);
    }
    /* One of both is wrong. It is this one if its place in the job is taken. */
    if (reader != NULL && strcmp(reader->job_id, iteration->job_id) != 0 &&
        mr_staged_is_contested(core, iteration)) {
        mr_error_set(err, MR_EDATALOSS, "is of job '%.40s', and client %.8s of job %.40s reads it",
                     iteration->job_id, reader->client, reader->job_id);
        return MR_EDATALOSS;
    }
    if (hidden ? mr_production_find(core, iteration->id) == NULL : job == NULL) {
        return leave_orphan(core, key, iteration);
    }
    if (find_production(core, job, iteration, &production, err) < 0 ||
        mr_validate_iteration(job, production, iteration, err) < 0) {
        return MR_EDATALOSS;
    }
    if (iteration->production[0] != '\0' && production == NULL && !iteration->finished) {
        const struct mr_flaw *flaw = flaw_of_production(core, iteration->production, key);

        mr_flaw_note(core, key, flaw != NULL ? flaw->why : "", false);
        mr_job_spoil(core, job, flaw != NULL ? flaw->why : "");
        return MR_OK;
    }
    MR_APPLY(core, iteration_added, job, production, mr_kind_choose(job, production), take(rec),
             &added, err);
    return added != NULL ? MR_OK : MR_EDATALOSS;
}

/* What is before the next '/' of @path; returns what is behind it, or NULL if there is none or it
 * is too long. */
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
static int load_recovery(mr_core *core, const char *key, void **any, mr_error *err)
{
    const Millrace__TaskRecord *rec = *any;
    const char *path = key + strlen("tasks/");
    char iteration[MR_STAMP_SIZE], ref[MR_WORKER_REF_SIZE], again[MR_TASK_ID_SIZE];
    const char *rest = take_segment(path, iteration, sizeof iteration);
    struct mr_iteration *it;
    struct mr_core_worker *worker;
    struct mr_task *added;

    if (rest == NULL || take_segment(rest, ref, sizeof ref) == NULL) {
        return contradiction(err);
    }
    snprintf(again, sizeof again, "%s/%s/%u", iteration, ref, rec->recovery);
    it = mr_iteration_find(core, iteration);
    worker = mr_map_get(&core->workers_by_ref, ref);
    if (strcmp(path, again) != 0 || rec->lost || (rec->ended && rec->code >= 0)) {
        return contradiction(err);
    }
    if (it == NULL || it->rec->finished || worker == NULL) {
        return leave_over(core, key);
    }
    if (it->makes != NULL || (rec->isolated && it->rec->n_providers == 0) || rec->ended ||
        rec->recovery > it->rec->recoveries ||
        (!mr_core_worker_is_live(worker) &&
         mr_stamp_compare(worker->lost, it->losses_counted_to) <= 0)) {
        return mr_error_set(err, MR_EDATALOSS, "is a recovery task that iteration %s cannot have",
                            iteration);
    }
    MR_APPLY(core, task_recovers, it, worker, rec->isolated, take(any), &added);
    return MR_OK;
}

int mr_load_task(mr_core *core, const char *key, void **rec, mr_error *err)
{
    struct mr_task *task = mr_task_find(core, key + strlen("tasks/"));
    Millrace__TaskRecord *record = *rec;

    if (record->recovery != 0) {
        return load_recovery(core, key, rec, err);
    }
    if (task == NULL) {
        return leave_over(core, key);
    }
    if (record->ended == record->lost || record->isolated || task->rec != NULL ||
        (record->drained && (record->lost || record->code < 0))) {
        return contradiction(err);
    }
    MR_APPLY(core, part_loaded, MR_STORED_TASK, task, 0, take(rec));
    return MR_OK;
}

/* "<iteration>/<number>" or "<iteration>/<number>/<rest>" behind the prefix. */
static struct mr_iteration *split_key(const mr_core *core, const char *path, unsigned long *number,
                                      const char **rest)
{
    char id[MR_STAMP_SIZE];
    const char *digits = take_segment(path, id, sizeof id);
    char *end;

    if (digits == NULL) {
        return NULL;
    }
    *number = strtoul(digits, &end, 10);
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
    return cursor->n_pool <= MR_SPLIT_RANGES_MAX &&
           mr_split_list_is_sound(mr_pool(it, provider), mr_position_end(it, provider));
}

int mr_load_cursor(mr_core *core, const char *key, void **rec, mr_error *err)
{
    Millrace__CursorRecord *cursor = *rec;
    unsigned long provider;
    const char *rest;
    struct mr_iteration *it = split_key(core, key + strlen("cursors/"), &provider, &rest);

    if (it == NULL || it->rec->finished) {
        return leave_over(core, key);
    }
    if (provider >= it->rec->n_providers || !is_key_of(MR_STORED_CURSOR, it, provider, key) ||
        it->cursors[provider].rec != NULL ||
        (it->rec->providers[provider]->splits >= 0 &&
         cursor->next > (uint64_t)it->rec->providers[provider]->splits)) {
        return contradiction(err);
    }
    MR_APPLY(core, part_loaded, MR_STORED_CURSOR, it, provider, take(rec));
    if (!is_pool_sound(it, provider) || !mr_given_back_is_sound(it, provider)) {
        return mr_error_set(err, MR_EDATALOSS,
                            "the splits that came back cannot have been handed out");
    }
    return MR_OK;
}

int mr_load_grant(mr_core *core, const char *key, void **rec, mr_error *err)
{
    unsigned long provider;
    const char *rest;
    struct mr_iteration *it = split_key(core, key + strlen("grants/"), &provider, &rest);
    Millrace__GrantRecord *grant = *rec;
    struct mr_task *task = NULL;
    char id[MR_TASK_ID_SIZE];

    if (it != NULL && (size_t)snprintf(id, sizeof id, "%s/%s", it->rec->id, rest) < sizeof id) {
        task = mr_task_find(core, id);
    }
    if (task == NULL) {
        return leave_over(core, key);
    }
    if (provider >= it->rec->n_providers || !is_key_of(MR_STORED_GRANT, task, provider, key)) {
        return contradiction(err);
    }
    if (it->cursors[provider].rec == NULL) {
        return mr_error_set(err, MR_EDATALOSS, "its cursor, 'cursors/%s/%lu', is missing",
                            it->rec->id, provider);
    }
    if (task->grants[provider].rec != NULL || grant->seq == 0 || grant->n_ranges > 1 ||
        grant->end != (grant->n_ranges == 0) || (!mr_iteration_repeats(it) && grant->n_open > 0) ||
        !mr_grants_are_sound(it, provider, grant)) {
        return contradiction(err);
    }
    if (mr_validate_grant(it, provider, grant, err) < 0) {
        return MR_EDATALOSS;
    }
    MR_APPLY(core, part_loaded, MR_STORED_GRANT, task, provider, take(rec));
    return MR_OK;
}

int mr_load_rounds(mr_core *core, const char *key, void **rec, mr_error *err)
{
    struct mr_iteration *it = mr_iteration_find(core, key + strlen("rounds/"));
    Millrace__RoundsRecord *rounds = *rec;

    if (it == NULL || it->rec->finished) {
        return leave_over(core, key);
    }
    if (it->rounds == NULL || it->rounds->rec != NULL || rounds->schedule == NULL) {
        return contradiction(err);
    }
    MR_TRY(mr_validate_rounds(rounds, err));
    MR_APPLY(core, part_loaded, MR_STORED_ROUNDS, it, 0, take(rec));
    return MR_OK;
}

int mr_load_consumer(mr_core *core, const char *key, void **rec, mr_error *err)
{
    unsigned long index;
    const char *rest;
    struct mr_iteration *it = split_key(core, key + strlen("consumers/"), &index, &rest);
    const Millrace__ConsumerRecord *consumer = *rec;

    if (it == NULL || it->rec->finished) {
        return leave_over(core, key);
    }
    if (it->rounds == NULL || index >= it->rounds->n ||
        !is_key_of(MR_STORED_CONSUMER, it, index, key) || it->rounds->seats[index].rec != NULL ||
        consumer->session == 0 ||
        (consumer->client[0] != '\0' && !mr_id_is_valid(consumer->client))) {
        return contradiction(err);
    }
    MR_APPLY(core, part_loaded, MR_STORED_CONSUMER, it, index, take(rec));
    return MR_OK;
}

/* The iteration that @client reads, or read, is not there: it is set aside, or went before it.
 * While somebody reads it, it is there as long as its job is: if not, a hand was in the store; in
 * the client's record, if there is another one that it may read. */
static bool is_of_flawed(mr_core *core, const Millrace__ClientRecord *client)
{
    const struct mr_job *job = mr_job_by_id(core, client->job_id);
    const struct mr_flaw *flaw;
    char key[MR_KEY_SIZE];
    mr_error err;

    snprintf(key, sizeof key, "iterations/%.80s", client->iteration_id);
    flaw = mr_flaw_find(core, key);
    if (flaw == NULL && job != NULL && !client->released && job->niterations == job->nfinished) {
        (void)mr_error_set(&err, MR_EDATALOSS, "is missing, and client %.8s reads it",
                           client->client);
        flaw = mr_flaw_note_error(core, key, &err);
        if (flaw != NULL) {
            mr_job_spoil(core, job, flaw->why);
        }
    }
    return flaw != NULL;
}

int mr_load_client(mr_core *core, const char *key, void **rec, mr_error *err)
{
    Millrace__ClientRecord *client = *rec;
    struct mr_iteration *it = mr_iteration_find(core, client->iteration_id);

    if (strcmp(key + strlen("clients/"), client->client) != 0 || !mr_id_is_valid(client->client)) {
        return contradiction(err);
    }
    if (it == NULL && is_of_flawed(core, client)) {
        mr_client_keep(core, client->client);
        return MR_OK;
    }
    if (it == NULL) {
        return leave_over(core, key);
    }
    if (it->job == NULL) {
        return mr_error_set(err, MR_EDATALOSS,
                            "is attached to production %.40s, which no client reads", it->rec->id);
    }
    MR_APPLY(core, client_added, take(rec), it);
    return MR_OK;
}
