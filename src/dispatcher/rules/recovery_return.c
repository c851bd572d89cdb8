/*
 * What becomes of splits that came back: at least once, those that a lost worker had not finished;
 * and whatever the guarantee, those that a worker that drains gave back unopened (drain.c), which
 * wait beside the pool.
 *
 *   lost task ──(its loss is counted, one transaction an iteration)──► pool of the cursor
 *                                                                         ├──► the next task to ask
 *                                 nobody will ask: all tasks were told the end, or have ended
 *                                                                         ▼
 *                                           recovery tasks: fresh pipelines on live workers
 *
 * Each split carries how many crashes it was in. After the first it is granted with at most
 * MR_GRANT_RETRY_MAX others. After the second it is a suspect: it waits until a repetition was
 * handed out and then goes to an isolated recovery task, which has at most as many of its kind and
 * nothing else, so that a crash there says something about them. After the third it is the only
 * split of such a task, and after the fourth it is given up. A worker has one isolated task of an
 * iteration at a time: the split that kills it would take the others' with it, as often as it takes
 * to give them up. A worker that leaves on purpose, or that no client reaches, has not crashed.
 *
 * Recovery tasks go on with what nobody was given yet, too, when all tasks were closed or lost
 * before one of them saw the end: a worker whose task was closed, since no client reached it, gets
 * no other one, and it may be the only one that is left. Without sharding it reads its copy anew,
 * as a worker would that comes. Who reads a production goes on in the same window, where the worker
 * knows that nothing comes twice (docs/adr/0010): so there is one reader of an iteration on a
 * worker, and only where the production is still made.
 */
#include "dispatcher/rules/rules.h"

#include <inttypes.h>
#include <stdio.h>

struct returning {
    mr_core *core;
    struct mr_task *task;
    size_t provider;
    bool crashed;
    char *why; /* the iteration has failed: for people */
    size_t why_size;
};

static void quarantine(struct returning *r, uint64_t position)
{
    struct mr_iteration *it = r->task->iteration;
    const Millrace__ProviderInfo *info = it->rec->providers[r->provider];
    uint64_t index = info->splits > 0 ? position % (uint64_t)info->splits : position;

    MR_APPLY(r->core, split_given_up, it, r->provider);
    r->core->out->tally.lost++;
    mr_core_note(r->core, "iteration %s: split %" PRIu64 " of provider %zu is quarantined",
                 it->rec->id, index, r->provider);
    if (!it->dataset->rec->ignores_errors) {
        snprintf(
            r->why, r->why_size,
            "split %" PRIu64
            " of %s (provider %zu) is given up: %d workers were lost while they read it, the last "
            "of them with nothing else of this iteration",
            index, info->source[0] != '\0' ? info->source : "the source", r->provider,
            MR_QUARANTINE_LOSSES);
    }
}

static void return_range(void *ctx, const Millrace__OwedRange *range)
{
    struct returning *r = ctx;
    uint32_t losses = range->losses + (r->crashed ? 1 : 0);

    if (losses >= MR_QUARANTINE_LOSSES && range->count == 1) {
        quarantine(r, range->first);
        return;
    }
    /* Several may have become one range with the worst's losses: they are still to be tried one by
     * one. */
    losses = losses < MR_QUARANTINE_LOSSES ? losses : MR_ALONE_LOSSES;
    r->core->out->tally.returned += range->count;
    MR_APPLY(r->core, splits_returned, r->task, r->provider, range->first, range->count, losses);
}

void mr_recovery_return(mr_core *core, struct mr_task *task, char *why, size_t size)
{
    struct mr_iteration *it = task->iteration;
    bool crashed = !mr_core_worker_is_live(task->worker) && !task->worker->rec->left;

    for (size_t i = 0; i < it->rec->n_providers; i++) {
        struct returning r = {core, task, i, crashed, why, size};

        if (task->grants[i].rec == NULL || task->grants[i].rec->n_open == 0) {
            continue;
        }
        mr_grants_each(task, i, return_range, &r);
    }
}
