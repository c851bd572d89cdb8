/* Owners that go, with their iterations. */
#include "dispatcher/model/apply.h"

void mr_apply_production_removed(mr_core *core, const struct mr_production_removed *u)
{
    struct mr_production *p = u->production;
    struct mr_dataset_entry *dataset = p->dataset;

    mr_core_trace(core, "production %s: over", p->rec->id);
    /* first: a hidden iteration without it is a left-over to whoever loads it */
    mr_delete(core, MR_STORED_PRODUCTION, p, 0);
    while (!TAILQ_EMPTY(&p->users)) {
        struct mr_iteration *it = TAILQ_FIRST(&p->users);

        TAILQ_REMOVE(&p->users, it, in_production);
        it->uses = NULL;
    }
    if (p->hidden != NULL) { /* at takeover, when it is set aside, it may lack one */
        mr_iteration_remove(core, p->hidden, true /* with_owner */);
    }
    mr_map_remove(&core->productions, p->rec->id);
    mr_alarm_off(core, &p->alarm);
    TAILQ_REMOVE(&core->production_list, p, link);
    TAILQ_REMOVE(&dataset->blob->productions, p, in_blob);
    dataset->productions--;
    mr_apply_dataset_used(core, &(struct mr_dataset_used){dataset});
    mr_production_free(p);
}

void mr_apply_job_removed(mr_core *core, const struct mr_job_removed *u)
{
    struct mr_job *job = u->job;
    struct mr_dataset_entry *dataset = job->dataset;

    mr_core_trace(core, "job %s: forgotten", mr_job_label(job));
    /* first: iterations without a job are left-overs to whoever loads them */
    mr_delete(core, MR_STORED_JOB, job, 0);
    while (!TAILQ_EMPTY(&job->iterations)) {
        mr_iteration_remove(core, TAILQ_FIRST(&job->iterations), true /* with_owner */);
    }
    mr_trainers_remove(core, job);
    mr_map_remove(&core->jobs, job->slot);
    mr_map_remove(&core->jobs_by_id, job->rec->id);
    mr_alarm_off(core, &job->alarm);
    TAILQ_REMOVE(&core->job_list, job, link);
    dataset->jobs--;
    mr_apply_dataset_used(core, &(struct mr_dataset_used){dataset});
    mr_job_free(job);
}
