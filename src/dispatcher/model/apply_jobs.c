/* Updates of jobs. */
#include "dispatcher/model/apply.h"

/* Trainers: jobs of one name that share productions (CrossTrainerCache). Each is a job of its own
 * in everything else. */
static struct mr_trainers *trainers_of(mr_core *core, const char *name)
{
    struct mr_trainers *trainers = mr_trainers_find(core, name);
    char encoded[MR_KEY_SIZE];

    if (trainers != NULL) {
        return trainers;
    }
    mr_name_encode(name, encoded, sizeof encoded);
    trainers = mr_core_alloc(core, 1, sizeof *trainers + strlen(encoded) + 1);
    if (trainers == NULL) {
        return NULL;
    }
    TAILQ_INIT(&trainers->jobs);
    memcpy(trainers->name, encoded, strlen(encoded) + 1);
    mr_core_index(core, &core->trainers, trainers->name, trainers);
    if (core->failed != 0) {
        mr_free(trainers);
        return NULL;
    }
    return trainers;
}

static void add_to_trainers(mr_core *core, struct mr_job *job)
{
    if (job->rec->trainer[0] == '\0') {
        return;
    }
    job->trainers = trainers_of(core, job->rec->name);
    if (job->trainers != NULL) {
        TAILQ_INSERT_TAIL(&job->trainers->jobs, job, among_trainers);
        job->trainers->njobs++;
    }
}

void mr_trainers_remove(mr_core *core, struct mr_job *job)
{
    struct mr_trainers *trainers = job->trainers;

    if (trainers == NULL) {
        return;
    }
    job->trainers = NULL;
    TAILQ_REMOVE(&trainers->jobs, job, among_trainers);
    if (--trainers->njobs == 0) {
        mr_map_remove(&core->trainers, trainers->name);
        mr_free(trainers);
    }
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

void mr_apply_job_added(mr_core *core, const struct mr_job_added *u)
{
    struct mr_job *job = mr_core_alloc(core, 1, sizeof *job);
    char slot[MR_KEY_SIZE];

    *u->ret = NULL;
    if (job == NULL) {
        mr_record_free(u->rec);
        mr_error_nomem(u->err);
        return;
    }
    TAILQ_INIT(&job->iterations);
    job->alarm.kind = MR_ALARM_JOB;
    job->rec = u->rec;
    job->dataset = mr_dataset_find(core, u->rec->dataset_id);
    if (job->dataset == NULL || !mr_stamp_parse_given(core, u->rec->id, &job->id.at)) {
        mr_error_set(u->err, MR_EDATALOSS, "has id '%.40s', which was never assigned", u->rec->id);
        mr_job_free(job);
        return;
    }
    mr_job_slot(u->rec->name, u->rec->trainer, u->rec->client, slot, sizeof slot);
    job->slot = mr_strdup(slot);
    if (u->rec->trainer[0] != '\0') {
        snprintf(slot, sizeof slot, "%s+%s", u->rec->name, u->rec->trainer);
        job->label = mr_strdup(slot);
    }
    if (job->slot == NULL || (u->rec->trainer[0] != '\0' && job->label == NULL)) {
        mr_core_nomem(core);
        mr_error_nomem(u->err);
        mr_job_free(job);
        return;
    }
    job->dataset->jobs++;
    TAILQ_INSERT_TAIL(&core->job_list, job, link);
    mr_core_index(core, &core->jobs, job->slot, job);
    mr_core_index(core, &core->jobs_by_id, u->rec->id, job);
    add_to_trainers(core, job);
    mr_touch(core, MR_STORED_JOB, job, 0);
    *u->ret = job;
}

void mr_apply_job_idle(mr_core *core, const struct mr_job_idle *u)
{
    u->job->idle_since = core->now;
    u->job->rec->released_ms = (uint64_t)core->wall_ms;
    mr_touch(core, MR_STORED_JOB, u->job, 0);
    mr_alarm_by(core, &u->job->alarm, core->now);
}

void mr_apply_job_asked(mr_core *core, const struct mr_job_asked *u)
{
    u->job->idle_since = core->now;
}
