/* What a read holds that nobody else gets when it goes, and whether the dispatcher counts that. */
#include "client/read/internal.h"

bool mr_read_counts(const struct mr_read *r)
{
    return mr_read_has_others(r) && r->opts.job.guarantee == MILLRACE__GUARANTEE__AT_MOST_ONCE;
}

bool mr_read_has_others(const struct mr_read *r)
{
    return r->mode->unused != NULL && !r->failed_for_all && r->end_err.code >= 0 &&
           r->opts.job.name[0] != '\0';
}

uint64_t mr_read_unused(const struct mr_read_task *t)
{
    bool kept = !t->done || (t->failed && !t->refused_open);

    return kept && mr_read_counts(t->read) ? t->read->mode->unused(t) : 0;
}

bool mr_read_task_is_over(const struct mr_read_task *t)
{
    return t->closed || t->refused_open;
}

uint64_t mr_read_holds_of(const struct mr_read_task *t)
{
    return mr_read_task_is_over(t) ? mr_read_unused(t) : 0;
}

bool mr_read_is_used_up(const struct mr_read *r)
{
    const struct mr_read_task *t;

    TAILQ_FOREACH(t, &r->tasks, link) {
        if (mr_read_holds_of(t) > 0) {
            return false;
        }
    }
    return !mr_read_counts(r) || r->mode->held_downstream == NULL ||
           r->mode->held_downstream(r, false) == 0;
}
