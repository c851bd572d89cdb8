/* Whose jobs and datasets are, and how many their owners may have. The records say it, so the next
 * leader counts on. Without access control nobody owns anything, and nobody is limited. */
#include "dispatcher/model/model.h"

const char *mr_command_owner(const mr_core *core)
{
    return core->in != NULL && core->in->owner != NULL ? core->in->owner : "";
}

static bool is_his(const mr_core *core, const char *owner)
{
    return owner[0] != '\0' && strcmp(owner, mr_command_owner(core)) == 0;
}

/* What has come to an end costs nothing any more, though its record is kept for a while. */
static bool is_at_work(const struct mr_job *job)
{
    return job->niterations > job->nfinished || job->live_clients > 0;
}

static int refuse(const mr_core *core, const char *what, uint32_t n, uint32_t max,
                  const char *remedy, mr_error *err)
{
    return mr_error_set(err, MR_EEXHAUSTED,
                        "'%.64s' has %u %s, and the quota allows %u: %s, or have the quota of "
                        "'%.64s' raised in the access file",
                        mr_command_owner(core), n, what, max, remedy, mr_command_owner(core));
}

int mr_owner_check_job(const mr_core *core, const struct mr_job *job, mr_error *err)
{
    const struct mr_quota *quota = core->in->quota;
    const struct mr_job *other;
    uint32_t n = 0;

    if (quota == NULL || quota->jobs == 0 ||
        (job != NULL && (is_at_work(job) || !is_his(core, job->rec->owner)))) {
        return MR_OK;
    }
    TAILQ_FOREACH(other, &core->job_list, link) {
        n += is_at_work(other) && is_his(core, other->rec->owner);
    }
    return n < quota->jobs ? MR_OK
                           : refuse(core, "jobs at work", n, quota->jobs,
                                    "read one to its end, or delete it (millrace job delete)", err);
}

int mr_owner_check_dataset(const mr_core *core, mr_error *err)
{
    const struct mr_quota *quota = core->in->quota;
    const struct mr_dataset_entry *other;
    uint32_t n = 0;

    if (quota == NULL || quota->datasets == 0) {
        return MR_OK;
    }
    TAILQ_FOREACH(other, &core->dataset_list, link) {
        n += is_his(core, other->rec->owner);
    }
    return n < quota->datasets ? MR_OK
                               : refuse(core, "datasets", n, quota->datasets,
                                        "delete one (millrace dataset delete)", err);
}
