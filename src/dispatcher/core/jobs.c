/* Jobs: by name, or one client's own. What joins and makes them is Open (open.c). */
#include "dispatcher/core/internal.h"

#include <stdio.h>
#include <string.h>

bool mr_job_is_anonymous(const struct mr_job *job)
{
    return job->rec->name[0] == '\0';
}

bool mr_job_is_idle(const struct mr_job *job)
{
    return job->live_clients == 0;
}

const char *mr_job_label(const struct mr_job *job)
{
    return job->label != NULL ? job->label : mr_job_is_anonymous(job) ? job->slot : job->rec->name;
}

/* '~' and '+' never stand in an encoded name, so a client's own job and a trainer cannot be
 * mistaken for a named one. */
void mr_job_slot(const char *name, const char *trainer, const char *client, char *out, size_t size)
{
    if (name[0] != '\0') {
        mr_name_encode(name, out, size);
    } else {
        snprintf(out, size, "~%s", client);
    }
    size_t n = strlen(out);

    if (trainer[0] != '\0' && n + 1 < size) {
        out[n] = '+';
        mr_name_encode(trainer, out + n + 1, size - n - 1);
    }
}

static void job_key(const struct mr_job *job, char *out, size_t size)
{
    snprintf(out, size, "jobs/%s", job->slot);
}

void mr_job_free(struct mr_job *job)
{
    if (job != NULL) {
        mr_record_free(job->rec);
        mr_free(job->slot);
        mr_free(job->label);
        mr_free(job);
    }
}

struct mr_job *mr_job_by_id(const mr_core *core, const char *id)
{
    return mr_map_get(&core->jobs_by_id, id);
}

struct mr_job *mr_job_add(mr_core *core, Millrace__JobRecord *rec, mr_error *err)
{
    struct mr_job *job = mr_calloc(1, sizeof *job);
    char slot[MR_KEY_SIZE];

    if (job == NULL) {
        mr_record_free(rec);
        mr_core_nomem(core);
        mr_error_nomem(err);
        return NULL;
    }
    TAILQ_INIT(&job->iterations);
    job->alarm.kind = MR_ALARM_JOB;
    job->rec = rec;
    job->dataset = mr_dataset_find(core, rec->dataset_id);
    if (job->dataset == NULL || !mr_stamp_parse_given(core, rec->id, &job->id.at)) {
        mr_error_set(err, MR_EDATALOSS, "has id '%.40s', which nobody gave yet", rec->id);
        mr_job_free(job);
        return NULL;
    }
    mr_job_slot(rec->name, rec->trainer, rec->client, slot, sizeof slot);
    job->slot = mr_strdup(slot);
    if (rec->trainer[0] != '\0') {
        snprintf(slot, sizeof slot, "%s+%s", rec->name, rec->trainer);
        job->label = mr_strdup(slot);
    }
    if (job->slot == NULL || (rec->trainer[0] != '\0' && job->label == NULL)) {
        mr_core_nomem(core);
        mr_error_nomem(err);
        mr_job_free(job);
        return NULL;
    }
    job->dataset->jobs++;
    TAILQ_INSERT_TAIL(&core->job_list, job, link);
    mr_core_index(core, &core->jobs, job->slot, job);
    mr_core_index(core, &core->jobs_by_id, rec->id, job);
    mr_family_join(core, job);
    return job;
}

void mr_job_put(mr_core *core, struct mr_job *job)
{
    char key[MR_KEY_SIZE];

    job_key(job, key, sizeof key);
    mr_core_put(core, key, &job->rec->base);
}

void mr_job_note_idle(mr_core *core, struct mr_job *job)
{
    job->idle_since = core->now;
    job->rec->released_ms = (uint64_t)core->wall_ms;
    mr_job_put(core, job);
    mr_alarm_by(core, &job->alarm, core->now);
}

/* Somebody asked for a repetition of it that has ended: a use, though nobody attaches. */
void mr_job_note_asked(mr_core *core, struct mr_job *job)
{
    uint64_t half = (uint64_t)core->config.job_retention_ms / 2;

    if (!mr_job_is_idle(job)) {
        return;
    }
    job->idle_since = core->now;
    if (!core->full && job->rec->released_ms + half < (uint64_t)core->wall_ms) {
        mr_job_note_idle(core, job);
    }
}

void mr_job_forget(mr_core *core, struct mr_job *job)
{
    struct mr_dataset_entry *dataset = job->dataset;
    char key[MR_KEY_SIZE];

    mr_core_trace(core, "job %s: forgotten", mr_job_label(job));
    job_key(job, key, sizeof key);
    mr_core_delete(core,
                   key); /* first: iterations without a job are left-overs to whoever loads them */
    while (!TAILQ_EMPTY(&job->iterations)) {
        mr_iteration_forget(core, TAILQ_FIRST(&job->iterations), true /* with_job */);
    }
    mr_family_leave(core, job);
    mr_map_remove(&core->jobs, job->slot);
    mr_map_remove(&core->jobs_by_id, job->rec->id);
    mr_alarm_off(core, &job->alarm);
    TAILQ_REMOVE(&core->job_list, job, link);
    dataset->jobs--;
    mr_dataset_use(core, dataset);
    mr_job_free(job);
}

/* ---------------------------------------------------------------- DeleteJob */

static struct mr_job *find_by_name_or_id(const mr_core *core, const char *name)
{
    char slot[MR_KEY_SIZE];
    struct mr_job *job;

    mr_name_encode(name, slot, sizeof slot);
    job = mr_map_get(&core->jobs, slot);
    job = job != NULL ? job : mr_job_by_id(core, name);
    return job != NULL ? job : mr_job_by_label(core, name);
}

struct condemned {
    struct mr_job *jobs[MR_JOB_TRAINERS_MAX];
    size_t n;
    uint32_t clients;
};

static void evict_clients(mr_core *core, struct mr_job *job)
{
    struct mr_client *client;
    struct mr_iteration *it;

    TAILQ_FOREACH(it, &job->iterations, in_job)
    {
        TAILQ_FOREACH(client, &it->clients, in_iteration)
        {
            if (!client->rec->released) {
                mr_client_evict(core, client);
            }
        }
    }
}

/* The record that @flaw, a job's, is about goes with it, if it is its own. */
static void delete_root(mr_core *core, const struct mr_flaw *flaw)
{
    char key[MR_KEY_SIZE];
    struct mr_flaw *root;

    snprintf(key, sizeof key, "%.*s", (int)strcspn(flaw->why + 1, "'"), flaw->why + 1);
    root = strncmp(key, "iterations/", 11) == 0 ? mr_flaw_find(core, key) : NULL;
    if (root != NULL && root->is_root && !root->is_guess) {
        mr_core_delete(core, key);
        mr_flaw_drop(core, root, true);
    }
}

static bool is_called(const struct mr_flaw *flaw, const char *name)
{
    const char *of = strncmp(flaw->key, "jobs/", 5) == 0 ? flaw->key + 5 : "";
    char slot[MR_KEY_SIZE];
    size_t n;

    mr_name_encode(name, slot, sizeof slot);
    n = strlen(slot);
    return (flaw->by_id != NULL && strcmp(flaw->by_id + 1, name) == 0) ||
           (of[0] != '\0' && strcmp(of, name) == 0) ||
           (n > 0 && strncmp(of, slot, n) == 0 && (of[n] == '\0' || of[n] == '+'));
}

static struct mr_flaw *next_called(struct mr_flaw *flaw, const char *name)
{
    while (flaw != NULL && !is_called(flaw, name)) {
        flaw = TAILQ_NEXT(flaw, link);
    }
    return flaw;
}

static bool is_any_flawed(const mr_core *core, const char *name)
{
    return next_called(TAILQ_FIRST(&core->flaw_list), name) != NULL;
}

/* Of a job that is set aside nothing is known but its key: the rest is left over to the next
 * leader. What this step has no room for stays. */
static void delete_flawed(mr_core *core, const char *name)
{
    struct mr_flaw *flaw;

    while (mr_core_has_room(core, 2) &&
           (flaw = next_called(TAILQ_FIRST(&core->flaw_list), name)) != NULL) {
        mr_core_note(core, "%s: deleted; it was set aside", flaw->key);
        delete_root(core, flaw);
        mr_core_delete(core, flaw->key);
        mr_flaw_drop(core, flaw, true);
    }
}

/* The job itself, or all trainers of that name. */
static void find_condemned(const mr_core *core, const char *name, struct condemned *ret)
{
    const struct mr_family *family = mr_family_find(core, name);
    struct mr_job *job = find_by_name_or_id(core, name);

    *ret = (struct condemned){0};
    if (family != NULL) {
        TAILQ_FOREACH(job, &family->jobs, in_family)
        {
            MR_ASSERT(ret->n < MR_JOB_TRAINERS_MAX);
            ret->clients += job->live_clients;
            ret->jobs[ret->n++] = job;
        }
    } else if (job != NULL) {
        ret->clients = job->live_clients;
        ret->jobs[ret->n++] = job;
    }
}

void mr_core_do_delete_job(mr_core *core, const Millrace__DeleteJobRequest *in)
{
    struct condemned all = {0};
    mr_error err;
    int rc = mr_name_check("job name", in->job, MR_NAME_BYTES_MAX + 1 + MR_TRAINER_BYTES_MAX, &err);

    if (rc == MR_OK) {
        find_condemned(core, in->job, &all);
    }
    if (rc == MR_OK && all.n == 0 && !is_any_flawed(core, in->job)) {
        rc = mr_error_set(&err, MR_ENOTFOUND, "there is no job '%.120s'", in->job);
    } else if (rc == MR_OK && all.clients > 0 && !in->force) {
        rc = mr_error_set(&err, MR_EPRECOND,
                          "job '%.120s' has %u client%s; deleting it anyway has to be asked for",
                          in->job, all.clients, all.clients > 1 ? "s" : "");
    }
    if (rc < 0) {
        mr_core_refuse(core, &millrace__delete_job_reply__descriptor, &err);
        return;
    }
    for (size_t i = 0; i < all.n; i++) {
        evict_clients(core, all.jobs[i]);
        mr_job_forget(core, all.jobs[i]);
    }
    delete_flawed(core, in->job);
    if (is_any_flawed(core, in->job)) {
        mr_error_set_traits(
            &err, MR_EUNAVAIL, MR_RETRYABLE,
            "a part of job '%.120s' is deleted, and more of it is set aside: delete it again",
            in->job);
        mr_core_refuse(core, &millrace__delete_job_reply__descriptor, &err);
        return;
    }
    Millrace__DeleteJobReply *reply =
        mr_core_reply(core, &millrace__delete_job_reply__descriptor, true /* fenced */);

    if (reply != NULL) {
        reply->clients = all.clients;
    }
}
