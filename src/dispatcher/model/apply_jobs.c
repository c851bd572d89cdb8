/* Updates of jobs. */
#include "dispatcher/model/apply.h"
#include "dispatcher/model/job.h"
#include "dispatcher/model/model.h"

#include <stdio.h>

void mr_job_free(struct mr_job *job)
{
    if (job != NULL) {
        mr_record_free(job->rec);
        mr_free(job->slot);
        mr_free(job->label);
        mr_free(job);
    }
}

static struct mr_job *add_job(mr_core *core, Millrace__JobRecord *rec, mr_error *err)
{
    struct mr_job *job = mr_core_alloc(core, 1, sizeof *job);
    char slot[MR_KEY_SIZE];

    if (job == NULL) {
        mr_record_free(rec);
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
    mr_trainers_add(core, job);
    return job;
}

void mr_apply_job_added(mr_core *core, const struct mr_job_added *u)
{
    *u->ret = add_job(core, u->rec, u->err);
    if (*u->ret != NULL) {
        mr_touch(core, MR_STORED_JOB, *u->ret, 0);
    }
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
