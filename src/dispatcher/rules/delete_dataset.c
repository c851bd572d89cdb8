/* DeleteDataset: nothing may use it. */
#include "dispatcher/model/flaws.h"
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

static const struct mr_job *some_user(const mr_core *core, const struct mr_dataset_entry *dataset)
{
    const struct mr_job *job;

    TAILQ_FOREACH(job, &core->job_list, link)
    {
        if (job->dataset == dataset) {
            return job;
        }
    }
    return NULL;
}

void mr_core_do_delete_dataset(mr_core *core, const Millrace__DeleteDatasetRequest *in)
{
    struct mr_dataset_entry *dataset = mr_dataset_find(core, in->dataset_id);
    mr_error err;
    int rc = MR_OK;

    if (dataset == NULL) {
        rc = mr_dataset_refuse_flawed(core, in->dataset_id, &err);
        rc = rc < 0
                 ? rc
                 : mr_error_set(&err, MR_ENOTFOUND, "there is no dataset '%.120s'", in->dataset_id);
    } else if (core->keeps) {
        rc = mr_error_set(&err, MR_EPRECOND,
                          "dataset '%.100s' may be of a job that is set aside: mend or delete that "
                          "first (millrace status)",
                          in->dataset_id);
    } else if (dataset->jobs > 0) {
        const struct mr_job *job = some_user(core, dataset);

        MR_ASSERT(job != NULL);
        rc = mr_error_set(
            &err, MR_EPRECOND, "dataset '%.100s' is used by %s%.100s'%s: %u job%s", in->dataset_id,
            mr_job_is_anonymous(job) ? "a client's own job '" : "job '", mr_job_label(job),
            dataset->jobs > 1 ? " and others" : "", dataset->jobs, dataset->jobs > 1 ? "s" : "");
    }
    if (rc == MR_OK && dataset->productions > 0) {
        rc = mr_error_set(&err, MR_EPRECOND, "dataset '%.100s' is what %u production%s run%s",
                          in->dataset_id, dataset->productions, dataset->productions > 1 ? "s" : "",
                          dataset->productions > 1 ? "" : "s");
    }
    if (rc < 0) {
        mr_core_refuse(core, &millrace__delete_dataset_reply__descriptor, &err);
        return;
    }
    MR_APPLY(core, dataset_removed, dataset);
    mr_core_reply(core, &millrace__delete_dataset_reply__descriptor, true /* fenced */);
}
