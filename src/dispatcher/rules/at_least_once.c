/* At least once: what a lost worker had not finished goes back into the pool of the cursor. Each
 * split carries how many crashes it was in; after too many it is given up (recovery.c). */
#include "dispatcher/rules/rules.h"

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
    mr_core_note_loss(r->core, "iteration %s: split %" PRIu64 " of provider %zu is quarantined",
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

static void task_lost(mr_core *core, struct mr_task *task, struct mr_loss_counted *loss, char *why,
                      size_t size)
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

const struct mr_guarantee_rules mr_at_least_once = {
    .task_lost = task_lost,
    .holds = mr_grants_hold,
};
