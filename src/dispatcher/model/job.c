/* What is asked of jobs. */
#include "dispatcher/model/model.h"

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

struct mr_job *mr_job_by_id(const mr_core *core, const char *id)
{
    return mr_map_get(&core->jobs_by_id, id);
}

bool mr_job_shares(const struct mr_job *job)
{
    const Millrace__JobRecord *rec = job->rec;

    return rec->unshared[0] == '\0' &&
           (rec->trainer[0] != '\0' || rec->sharing != MILLRACE__SHARING__SHARING_OFF);
}

struct mr_job *mr_job_by_label(const mr_core *core, const char *label)
{
    char name[MR_NAME_BYTES_MAX + 1], slot[MR_KEY_SIZE];
    struct mr_job *job = NULL;

    /* Both parts may have a '+' of their own. */
    for (const char *plus = strchr(label, '+'); plus != NULL && job == NULL;
         plus = strchr(plus + 1, '+')) {
        size_t n = (size_t)(plus - label);

        if (n > 0 && n < sizeof name && plus[1] != '\0' &&
            strlen(plus + 1) <= MR_TRAINER_BYTES_MAX) {
            memcpy(name, label, n);
            name[n] = '\0';
            mr_job_slot(name, plus + 1, "", slot, sizeof slot);
            job = mr_map_get(&core->jobs, slot);
        }
    }
    return job;
}

struct mr_trainers *mr_trainers_find(const mr_core *core, const char *name)
{
    char encoded[MR_KEY_SIZE];

    mr_name_encode(name, encoded, sizeof encoded);
    return mr_map_get(&core->trainers, encoded);
}

bool mr_job_has_ended(const struct mr_job *job, uint64_t repetition)
{
    const Millrace__JobRecord *rec = job->rec;

    if (repetition < rec->ended_below) {
        return true;
    }
    for (size_t i = 0; i < rec->n_ended; i++) {
        if (repetition >= rec->ended[i]->first &&
            repetition - rec->ended[i]->first < rec->ended[i]->count) {
            return true;
        }
    }
    return false;
}

uint64_t mr_job_ends_at(const struct mr_job *job)
{
    const Millrace__JobRecord *rec = job->rec;
    const Millrace__SplitRange *last = rec->n_ended > 0 ? rec->ended[rec->n_ended - 1] : NULL;

    return last != NULL ? last->first + last->count : job->rec->ended_below;
}

struct mr_iteration *mr_job_repetition(const struct mr_job *job, uint64_t repetition)
{
    struct mr_iteration *it;

    TAILQ_FOREACH(it, &job->iterations, in_job) {
        if (it->rec->repetition == repetition) {
            return it;
        }
    }
    return NULL;
}
