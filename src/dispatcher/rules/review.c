/*
 * What the changes of its tasks mean for an iteration: losses are counted, and it ends or goes on.
 *
 * It is over when no task is open and one at least saw the end of the data. Nothing that came back,
 * from lost workers (at least once) or unopened from such as drained, may be waiting either. A task
 * that ended because its worker drained is no sign that this is all. An iteration whose tasks were
 * all lost stays open: whoever is there goes on with it, or the next worker.
 *
 * A change of a task only marks its iteration; it is reviewed when a step has room for all that
 * follows.
 */
#include "dispatcher/rules/rules.h"

/* Nobody reads, nothing has come back, and somebody saw that this is all. */
static bool is_over(const mr_core *core, const struct mr_iteration *it)
{
    struct mr_pool_count pool;

    mr_pool_count(it, &pool);
    return it->open_tasks == 0 && (it->ended_tasks > 0 || it->rec->pipeline_ended) &&
           pool.ordinary == 0 && pool.suspects == 0 &&
           (it->rules->may_end == NULL || it->rules->may_end(core, it));
}

size_t mr_iteration_review_changes(const struct mr_iteration *it)
{
    if (mr_iteration_recovers(it)) {
        return MR_REVIEW_CHANGES;
    }
    return it->rules->changes != NULL ? it->rules->changes(it) : 2;
}

void mr_iteration_review(mr_core *core, struct mr_iteration *it)
{
    mr_iteration_unmark(core, it);
    if (it->rec->finished) {
        return;
    }
    if (it->rules->decide != NULL && it->rules->decide(core, it)) {
        return;
    }
    mr_iteration_account_losses(core, it);
    if (it->rec->finished) {
        return;
    }
    if (it->rules->look != NULL) {
        it->rules->look(core, it);
    }
    if (is_over(core, it)) {
        mr_iteration_finish(core, it, MR_OK, "");
        return;
    }
    mr_recovery_open(core, it);
}
