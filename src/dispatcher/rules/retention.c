/* How long what has ended is kept. */
#include "dispatcher/rules/rules.h"

/* Wall time later than now (another leader's clock was ahead) counts as now. */
static int64_t wall_age(const mr_core *core, uint64_t stored_ms)
{
    uint64_t now = core->wall_ms > 0 ? (uint64_t)core->wall_ms : 0;
    uint64_t age = stored_ms < now ? now - stored_ms : 0;

    return age < INT64_MAX ? (int64_t)age : INT64_MAX;
}

/* Milliseconds until what ended at @since (core's clock) and @stored_ms (wall, from the record) has
 * been kept for @keep_ms and may go; <= 0: it may. What had ended when this leader came has a
 * grace: who uses it may not have found this leader yet. Whose last user left while this leader led
 * has none left to come. */
int64_t mr_retention_left(const mr_core *core, int64_t since, uint64_t stored_ms, int64_t keep_ms)
{
    int64_t grace = since > core->armed_at ? 0 : core->collect_from - core->now;
    int64_t left;

    if (keep_ms < MR_LONG_MS) {
        left = mr_time_add(since, keep_ms) - core->now;
    } else {
        left = keep_ms - wall_age(core, stored_ms);
        left = left < 0 ? 0 : left;
    }
    return MR_MAX(left, grace);
}

/* When to look again at what may go in @left. */
int64_t mr_retention_again(const mr_core *core, int64_t left)
{
    return mr_time_add(core->now, MR_MIN(left, MR_WALL_AGAIN_MS));
}

static bool has_open_iteration(const struct mr_job *job)
{
    const struct mr_iteration *it;

    TAILQ_FOREACH(it, &job->iterations, in_job) {
        if (!it->rec->finished) {
            return true;
        }
    }
    return false;
}

/* A walk over all jobs, once for a new name in a full table. */
struct mr_job *mr_job_superfluous(const mr_core *core)
{
    struct mr_job *job, *oldest = NULL;

    TAILQ_FOREACH(job, &core->job_list, link) {
        bool older = oldest == NULL || job->rec->released_ms < oldest->rec->released_ms;

        if (older && mr_job_is_idle(job) && job->rec->released_ms != 0 &&
            !has_open_iteration(job) &&
            mr_retention_left(core, job->idle_since, job->rec->released_ms,
                              core->config.job_gc_timeout_ms) <= 0) {
            oldest = job;
        }
    }
    return oldest;
}
