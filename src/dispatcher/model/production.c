/* What is asked of productions. */
#include "dispatcher/model/model.h"

struct mr_production *mr_production_find(const mr_core *core, const char *id)
{
    return mr_map_get(&core->productions, id);
}

const char *mr_production_scope(const struct mr_job *job)
{
    return job->rec->trainer[0] != '\0' ? job->rec->name : "";
}

bool mr_production_fits(const struct mr_production *p, const struct mr_job *job,
                        uint64_t repetition)
{
    return p->dataset->blob == job->dataset->blob && p->rec->mode == job->rec->mode &&
           p->rec->guarantee == job->rec->guarantee && p->rec->repetition == repetition &&
           strcmp(p->rec->scope, mr_production_scope(job)) == 0;
}

struct mr_production *mr_production_newest(const mr_core *core, const struct mr_job *job,
                                           uint64_t repetition)
{
    struct mr_production *p, *newest = NULL;

    TAILQ_FOREACH(p, &job->dataset->blob->productions, in_blob) {
        if (mr_production_fits(p, job, repetition) &&
            (newest == NULL || mr_stamp_compare(p->id.at, newest->id.at) > 0)) {
            newest = p;
        }
    }
    return newest;
}

bool mr_production_is_over(const struct mr_production *p)
{
    return !p->kept && (p->nusers == 0 || (p->rec->closed[0] != '\0' && p->open_users == 0));
}

bool mr_production_lists(const struct mr_production *p, const struct mr_iteration *it)
{
    for (size_t i = 0; i < p->rec->n_users; i++) {
        if (strcmp(p->rec->users[i]->iteration_id, it->rec->id) == 0) {
            return true;
        }
    }
    return false;
}
