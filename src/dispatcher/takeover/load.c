/* Takeover: the records of the store become a core again. They come in any order, so they are
 * parsed and kept, and put together when all are there: first what others refer to, then what is
 * derived, then what differs from it. What refers to something that is gone was on its way out when
 * the last leader stopped, and is left over. */
#include "dispatcher/takeover/takeover.h"

/* How each kind of record is taken in. */
static mr_load_fn *const loads[] = {
#define KIND(noun, prefix, spoils, stamps) mr_load_##noun,
    MR_KINDS(KIND)
#undef KIND
};

/* The iteration that part @key belongs to; NULL: it is gone, or the key names none. */
static struct mr_iteration *iteration_of(const mr_core *core, const char *key)
{
    const char *path = strchr(key, '/') + 1;
    size_t n = strcspn(path, "/");
    char id[MR_STAMP_SIZE];

    if (n >= sizeof id) {
        return NULL;
    }
    memcpy(id, path, n);
    id[n] = '\0';
    return mr_iteration_find(core, id);
}

/* Whose is it, as far as is known? The readers of an iteration know better than its own record,
 * which is bad. */
static void owner_of(const mr_core *core, const char *key, const void *rec, char out[MR_STAMP_SIZE])
{
    static const char iterations[] = "iterations/";
    const Millrace__ClientRecord *reader;
    const char *owner = "";

    if (rec != NULL && strncmp(key, "jobs/", 5) == 0) {
        owner = ((const Millrace__JobRecord *)rec)->id;
    } else if (strncmp(key, iterations, sizeof iterations - 1) == 0) {
        reader = mr_map_get(&core->readers, key + sizeof iterations - 1);
        owner = reader != NULL ? reader->job_id
                : rec != NULL  ? ((const Millrace__IterationRecord *)rec)->job_id
                               : "";
    }
    snprintf(out, MR_STAMP_SIZE, "%s", owner);
}

/* Some client of each iteration, if one says of which job it is. */
static void find_readers(mr_core *core)
{
    const struct staged_record *staged;
    const Millrace__ClientRecord *client;

    STAILQ_FOREACH(staged, &core->staged->lists[MR_STORED_CLIENT], link) {
        client = staged->rec;
        if (client != NULL && client->iteration_id[0] != '\0' && client->job_id[0] != '\0') {
            mr_core_index(core, &core->readers, client->iteration_id, staged->rec);
        }
    }
}

/* @staged is bad, as @why says. False: nobody can do without it. */
static bool do_without(mr_core *core, size_t kind, const struct staged_record *staged,
                       const char *owner, mr_error *why)
{
    struct mr_iteration *it;

    switch (mr_stored_kinds[kind].bad) {
    case MR_SPOILS_JOBS: mr_core_spoil_jobs(core, staged->key, owner, why); return true;
    case MR_SPOILS_ITERATION:
        it = iteration_of(core, staged->key);
        if (it != NULL && !it->rec->finished) {
            mr_iteration_spoil(core, it, staged->key, why);
        }
        mr_leave_over_key(core, staged->key);
        return true;
    case MR_SPOILS_ITSELF: return mr_core_do_without(core, staged->key, why);
    case MR_SPOILS_ALL: break;
    }
    return false;
}

bool mr_staged_is_contested(const mr_core *core, const Millrace__IterationRecord *rec)
{
    const struct mr_job *job = mr_job_by_id(core, rec->job_id);
    const struct staged_record *staged;

    if (job != NULL && mr_job_repetition(job, rec->repetition) != NULL) {
        return true;
    }
    STAILQ_FOREACH(staged, &core->staged->lists[MR_STORED_ITERATION], link) {
        const Millrace__IterationRecord *other = staged->rec;

        if (other != NULL && other->repetition == rec->repetition &&
            strcmp(other->job_id, rec->job_id) == 0) {
            return true;
        }
    }
    return false;
}

static int load_one(mr_core *core, size_t kind, struct staged_record *staged, mr_error *err)
{
    char owner[MR_STAMP_SIZE];
    mr_error why;
    int rc;

    owner_of(core, staged->key, staged->rec, owner);
    rc = staged->rec == NULL ? mr_error_set(&why, MR_EDATALOSS, "%s", staged->why)
                             : loads[kind](core, staged->key, &staged->rec, &why);
    mr_record_free(staged->rec); /* what was not taken */
    staged->rec = NULL;
    if (rc == MR_EDATALOSS && core->failed == 0 && do_without(core, kind, staged, owner, &why)) {
        return MR_OK;
    }
    if (rc < 0) {
        mr_error_wrap(&why, "'%.160s'", staged->key); /* whoever has to mend it must know where */
        return mr_error_set_traits(err, rc, why.traits, "%s", why.message);
    }
    return MR_OK;
}

/* Behind the first @n '/' of @key. */
static const char *behind(const char *key, int n)
{
    while (n > 0 && *key != '\0') {
        n -= *key++ == '/' ? 1 : 0;
    }
    return key;
}

/* Before iterations get their tasks: whoever has grants, or a recovery task, was there. Grants of a
 * recovery task that is gone are left over by a live worker, too, so its own record speaks for
 * it. */
static void revive_holders(mr_core *core)
{
    const struct staged_record *staged;

    for (size_t i = 0; i < MR_STORED_KINDS; i++) {
        bool is_task = i == MR_STORED_TASK;

        if (!is_task && i != MR_STORED_GRANT) {
            continue;
        }
        STAILQ_FOREACH(staged, &core->staged->lists[i], link) {
            const char *path = behind(staged->key, is_task ? 2 : 3);

            if (is_task == (strchr(path, '/') != NULL)) {
                mr_core_worker_revive_holder(core, path);
            }
        }
    }
}

static int failure_of(const mr_core *core, mr_error *err)
{
    if (core->failed != 0 && err != NULL) {
        *err = core->failure;
    }
    return core->failed;
}

static int load_all(mr_core *core, mr_error *err)
{
    struct staged_record *staged;

    find_readers(core);
    for (size_t i = 0; i < MR_STORED_KINDS && core->failed == 0; i++) {
        if (i == MR_STORED_CLIENT) {
            mr_map_free(&core->readers); /* their records are taken now */
        }
        while ((staged = STAILQ_FIRST(&core->staged->lists[i])) != NULL) {
            STAILQ_REMOVE_HEAD(&core->staged->lists[i], link);
            int rc = load_one(core, i, staged, err);

            mr_free(staged->why);
            mr_free(staged);
            if (core->failed != 0 || rc < 0) {
                return core->failed != 0 ? failure_of(core, err) : rc;
            }
        }
        if (i == MR_STORED_WORKER) {
            revive_holders(core);
        }
    }
    return failure_of(core, err);
}

/* Parts that no dataset names: their registration did not get to its end, or their deletion did
 * not. */
static int sweep_blobs(mr_core *core, mr_error *err)
{
    struct mr_dataset_entry *dataset;
    struct staged_record *staged;
    struct mr_map used = {0};
    int rc = MR_OK;

    if (core->keeps) {
        return MR_OK; /* a dataset may be among what is set aside */
    }
    TAILQ_FOREACH(dataset, &core->dataset_list, link) {
        rc = mr_map_put(&used, dataset->blob->id, dataset->blob, err);
        if (rc < 0) {
            goto out;
        }
    }
    STAILQ_FOREACH(staged, &core->staged->blobs, link) {
        const char *id = staged->key + strlen("blobs/");
        const char *slash = strchr(id, '/');
        char blob[MR_ID_HEX + 1] = "";

        if (slash != NULL && slash - id == MR_ID_HEX) {
            memcpy(blob, id, MR_ID_HEX);
        }
        if (mr_map_get(&used, blob) == NULL) {
            mr_leave_over_key(core, staged->key);
        }
    }
out:
    mr_map_free(&used);
    return rc;
}

/* When the record came to be; NULL: it does not say. */
static const char *stamp_of(enum mr_stored_kind kind, const void *rec)
{
    return rec == NULL                    ? NULL
           : kind == MR_STORED_JOB        ? ((const Millrace__JobRecord *)rec)->id
           : kind == MR_STORED_WORKER     ? ((const Millrace__WorkerRecord *)rec)->registered
           : kind == MR_STORED_PRODUCTION ? ((const Millrace__ProductionRecord *)rec)->id
           : kind == MR_STORED_ITERATION  ? ((const Millrace__IterationRecord *)rec)->id
                                          : NULL;
}

/* A stamp of an epoch that the store has not reached is one bad record. Several of them, of
 * different kinds or without any other, are no accidents: the keys are from a store that had
 * counted further, and nothing of them is to be lost. */
static void find_copied(mr_core *core)
{
    size_t given = 0, beyond = 0, beyond_kinds = 0;
    const struct staged_record *staged;
    struct mr_stamp stamp;
    uint64_t latest = 0;
    const char *at;

    for (size_t i = 0; i < MR_STORED_KINDS && core->revision != 0; i++) {
        size_t before = beyond;

        STAILQ_FOREACH(staged, &core->staged->lists[i], link) {
            at = stamp_of(i, staged->rec);
            if (at == NULL || !mr_stamp_parse(at, &stamp)) {
                continue;
            }
            given += stamp.epoch <= core->revision ? 1 : 0;
            beyond += stamp.epoch > core->revision ? 1 : 0;
            latest = MR_MAX(stamp.epoch, latest);
        }
        beyond_kinds += beyond > before ? 1 : 0;
    }
    if (beyond_kinds > 1 || (beyond > 1 && given == 0)) {
        core->loaded_epoch = latest;
    }
}

/* What a successor wrote is not this leader's to go on from: its commits would fail, and what it
 * says until then would be of a state that it never had. */
static int refuse_later(const mr_core *core, mr_error *err)
{
    return mr_error_set_traits(
        err, MR_EUNAVAIL, MR_RETRYABLE,
        "the state is of epoch %llu already, this is %llu: another dispatcher leads, or the keys "
        "were copied into an etcd that counts from the start (restore a snapshot instead)",
        (unsigned long long)core->loaded_epoch, (unsigned long long)core->config.epoch);
}

void mr_core_loaded_at(mr_core *core, uint64_t revision)
{
    core->revision = revision;
}

/* What is wrong between records that are each right spoils their job, too, or who shares. */
static void check_iterations(mr_core *core)
{
    const struct mr_iteration *it;
    char key[MR_KEY_SIZE];
    mr_error why;

    TAILQ_FOREACH(it, &core->iteration_list, link) {
        if (core->failed != 0 || mr_iteration_check(core, it, &why) == MR_OK) {
            continue;
        }
        snprintf(key, sizeof key, it->job != NULL ? "iterations/%s" : "productions/%s",
                 it->rec->id);
        const struct mr_flaw *flaw = mr_flaw_note_error(core, key, &why);

        if (flaw != NULL && it->job != NULL) {
            mr_job_spoil(core, it->job, flaw->why);
        }
    }
}

/* Whoever watches begins with all of it. */
static void forget_touched(mr_core *core)
{
    struct mr_iteration *it;
    struct mr_core_worker *worker;

    while ((it = TAILQ_FIRST(&core->changed_iterations)) != NULL) {
        mr_iteration_untouch(core, it);
    }
    while ((worker = TAILQ_FIRST(&core->changed_workers)) != NULL) {
        mr_core_worker_untouch(core, worker);
    }
}

/* Who uses productions is said by the users, whatever is listed. */
static void compare_users(mr_core *core)
{
    struct mr_production *p;

    TAILQ_FOREACH(p, &core->production_list, link) {
        MR_APPLY(core, production_compared, p);
    }
}

static void arm(mr_core *core)
{
    const struct mr_core_config *config = &core->config;
    int64_t gc = config->job_gc_timeout_ms < MR_LONG_MS ? config->job_gc_timeout_ms : 0;
    int64_t grace = MR_MAX(MR_MAX(gc, config->client_timeout_ms), MR_RESTART_GRACE_MS);

    MR_APPLY(core, all_loaded, mr_time_add(core->now, grace));
}

/* All records are loaded: what rests on bad ones goes again, the rest is armed. */
static void finish_loading(mr_core *core)
{
    mr_rounds_ready(core);
    mr_core_set_aside_flawed(core);
    mr_core_end_spoiled(core);
    compare_users(core);
    arm(core);
    forget_touched(core);
}

/* What was loaded is from outside: that it does not hold together is the state's fault, not this
 * program's. */
static int check_loaded(mr_core *core, mr_error *err)
{
    mr_error why = {0};

    if (mr_core_check(core, &why) == MR_OK) {
        return MR_OK;
    }
    core->ready = false;
    check_iterations(core);
    mr_core_set_aside_flawed(core);
    compare_users(core);
    mr_core_keep_flawed(core);
    forget_touched(core);
    core->ready = core->failed == 0;
    if (core->failed != 0 || mr_core_check(core, &why) == MR_OK) {
        return failure_of(core, err);
    }
    core->ready = false;
    return mr_error_set(err, MR_EDATALOSS, "the records do not fit together: %s", why.message);
}

int mr_core_ready(mr_core *core, int64_t now_ms, mr_error *err)
{
    int rc;

    if (mr_staged_of(core) == NULL) {
        return mr_error_nomem(err);
    }
    core->now = now_ms;
    find_copied(core);
    rc = core->loaded_epoch > core->config.epoch ? MR_OK : load_all(core, err);
    if (core->loaded_epoch > core->config.epoch) {
        rc = refuse_later(core, err);
    }
    if (rc == MR_OK && core->schema == NULL) {
        mr_schema_begin(core);
        core->loaded_keys++; /* it will be there */
    }
    if (rc == MR_OK) {
        finish_loading(core);
        rc = sweep_blobs(core, err);
    }
    mr_staged_free(core->staged);
    core->staged = NULL;
    if (rc < 0) {
        return rc;
    }
    mr_core_keep_flawed(core);
    if (core->failed != 0) {
        return failure_of(core, err);
    }
    core->ready = true;
    return check_loaded(core, err);
}
