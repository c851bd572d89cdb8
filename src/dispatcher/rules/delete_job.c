/* DeleteJob: the job, or all trainers of a name, with whoever reads it if that is asked for. */
#include "dispatcher/rules/rules.h"

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

    TAILQ_FOREACH(it, &job->iterations, in_job) {
        TAILQ_FOREACH(client, &it->clients, in_iteration) {
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
        mr_delete_key(core, key);
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
        mr_delete_key(core, flaw->key);
        mr_flaw_drop(core, flaw, true);
    }
}

/* The job itself, or all trainers of that name. */
static void find_condemned(const mr_core *core, const char *name, struct condemned *ret)
{
    const struct mr_trainers *trainers = mr_trainers_find(core, name);
    struct mr_job *job = find_by_name_or_id(core, name);

    *ret = (struct condemned){0};
    if (trainers != NULL) {
        TAILQ_FOREACH(job, &trainers->jobs, among_trainers) {
            MR_ASSERT(ret->n < MR_JOB_TRAINERS_MAX);
            ret->clients += job->live_clients;
            ret->jobs[ret->n++] = job;
        }
    } else if (job != NULL) {
        ret->clients = job->live_clients;
        ret->jobs[ret->n++] = job;
    }
}

int mr_core_do_delete_job(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__DeleteJobRequest *in = command->delete_job;
    struct condemned all = {0};

    MR_TRY(mr_name_check("job name", in->job, MR_NAME_BYTES_MAX + 1 + MR_TRAINER_BYTES_MAX, err));
    find_condemned(core, in->job, &all);
    if (all.n == 0 && !is_any_flawed(core, in->job)) {
        return mr_error_set(err, MR_ENOTFOUND, "there is no job '%.120s'", in->job);
    }
    if (all.clients > 0 && !in->force) {
        return mr_error_set(
            err, MR_EPRECOND,
            "job '%.120s' has %u client%s; --force deletes it and ends their reading", in->job,
            all.clients, all.clients > 1 ? "s" : "");
    }
    for (size_t i = 0; i < all.n; i++) {
        evict_clients(core, all.jobs[i]);
        MR_APPLY(core, job_removed, all.jobs[i]);
    }
    delete_flawed(core, in->job);
    if (is_any_flawed(core, in->job)) {
        return mr_error_set_traits(
            err, MR_EUNAVAIL, MR_RETRYABLE,
            "a part of job '%.120s' is deleted, and more of it is set aside: delete it again",
            in->job);
    }
    Millrace__DeleteJobReply *reply = mr_core_reply(core, true /* fenced */);

    if (reply != NULL) {
        reply->clients = all.clients;
    }
    return MR_OK;
}
