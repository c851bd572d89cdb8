/* DeleteDataset: nothing may use it. */
#include "dispatcher/rules/rules.h"

static const struct mr_job *some_user(const mr_core *core, const struct mr_dataset_entry *dataset)
{
    const struct mr_job *job;

    TAILQ_FOREACH(job, &core->job_list, link) {
        if (job->dataset == dataset) {
            return job;
        }
    }
    return NULL;
}

int mr_core_do_delete_dataset(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__DeleteDatasetRequest *in = command->delete_dataset;
    struct mr_dataset_entry *dataset = mr_dataset_find(core, in->dataset_id);

    if (dataset == NULL) {
        MR_TRY(mr_dataset_refuse_flawed(core, in->dataset_id, err));
        return mr_error_set(err, MR_ENOTFOUND, "there is no dataset '%.120s'", in->dataset_id);
    }
    if (core->keeps) {
        return mr_error_set(
            err, MR_EPRECOND,
            "dataset '%.100s' may be of a job that is set aside: repair or delete that "
            "job first (millrace status)",
            in->dataset_id);
    }
    if (dataset->jobs > 0) {
        const struct mr_job *job = some_user(core, dataset);

        MR_ASSERT(job != NULL);
        return mr_error_set(
            err, MR_EPRECOND, "dataset '%.100s' is used by %s%.100s'%s: %u job%s", in->dataset_id,
            mr_job_is_anonymous(job) ? "a client's own job '" : "job '", mr_job_label(job),
            dataset->jobs > 1 ? " and others" : "", dataset->jobs, dataset->jobs > 1 ? "s" : "");
    }
    if (dataset->productions > 0) {
        return mr_error_set(err, MR_EPRECOND, "dataset '%.100s' is used by %u production%s",
                            in->dataset_id, dataset->productions,
                            dataset->productions > 1 ? "s" : "");
    }
    MR_APPLY(core, dataset_removed, dataset);
    mr_core_reply(core, true /* fenced */);
    return MR_OK;
}
