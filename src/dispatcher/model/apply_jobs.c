/* Jobs: by name, or one client's own. What joins and makes them is Open (open.c). */
/*
 * Productions: one run of a dataset on all workers, for several iterations that want the same
 * elements.
 *
 *     made by the first iteration that wants it ──► joined by others (join.c) ──► removed with
 *                                        │                                       the last of them
 *                                        ╰─(a user failed, a worker dropped its start)──► closed
 *
 * An iteration uses its production as long as its record exists, finished or not: somebody who
 * comes late may still find everything in the window. A closed one goes with the last iteration
 * that is not finished.
 *
 * Who uses what is said by the iterations' records. The list in the production's own record is for
 * people: it is put with each iteration that joins, and what has gone is taken out when there is
 * time, since a job may go with many iterations in one transaction.
 */
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

void mr_job_note_idle(mr_core *core, struct mr_job *job)
{
    job->idle_since = core->now;
    job->rec->released_ms = (uint64_t)core->wall_ms;
    mr_touch(core, MR_STORED_JOB, job, 0);
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

    mr_core_trace(core, "job %s: forgotten", mr_job_label(job));
    mr_delete(core, MR_STORED_JOB, job,
              0); /* first: iterations without a job are left-overs to whoever loads them */
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
