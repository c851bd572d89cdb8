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

/* With the last of its open tasks nobody would be left to go on. */
static bool hangs_by_one(const struct mr_iteration *it)
{
    return it->open_tasks <= 1 && it->rules->recovers && !it->rec->joining;
}

/* It has no open task, and none of them saw the end: those that are alive were closed. If splits
 * are handed out some are left, behind the cursor if nowhere else. */
static bool is_abandoned(const struct mr_iteration *it)
{
    return hangs_by_one(it) && it->open_tasks == 0 && it->ended_tasks == 0 &&
           !it->rec->pipeline_ended;
}

bool mr_iteration_recovers(const struct mr_iteration *it)
{
    bool recovers = mr_iteration_repeats(it) || it->rec->recoveries > 0 || hangs_by_one(it);

    for (size_t i = 0; i < it->rec->n_providers && !recovers; i++) {
        recovers = it->cursors[i].rec != NULL && it->cursors[i].rec->n_given_back > 0;
    }
    return recovers;
}

void mr_iteration_look_again(mr_core *core, struct mr_iteration *it)
{
    struct mr_pool_count pool;

    mr_pool_count(it, &pool);
    if (pool.ordinary + pool.suspects > 0 || is_abandoned(it)) {
        mr_iteration_mark(core, it);
    }
}

/* An isolated one that has not asked yet will ask for suspects. */
static bool is_waiting(const struct mr_task *task)
{
    return mr_task_is_recovery(task) && task->rec->isolated && task->grants[0].rec == NULL;
}

/* Will @task come for more? Not if it was told the end, unless others were seen to go on to the
 * next repetition: all run the same pipeline. Not if its worker drains. What comes to its end all
 * the same is seen then. */
static bool may_ask(const struct mr_task *task, size_t provider)
{
    const Millrace__GrantRecord *grant = task->grants[provider].rec;
    const Millrace__CursorRecord *cursor = task->iteration->cursors[provider].rec;

    if (task->state != MR_TASK_OPEN || is_waiting(task) ||
        mr_core_worker_is_draining(task->worker)) {
        return false;
    }
    if (grant == NULL || !grant->end) {
        return true;
    }
    return grant->repetition + 1 < cursor->repetition ||
           (grant->repetition + 1 == cursor->repetition && cursor->next > 0);
}

bool mr_iteration_will_ask(const struct mr_iteration *it, size_t provider)
{
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        if (may_ask(task, provider)) {
            return true;
        }
    }
    return false;
}

/* Nobody will ask for something that waits for whoever asks. */
static bool is_forsaken(const struct mr_iteration *it)
{
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        const Millrace__CursorRecord *cursor = it->cursors[i].rec;
        bool waits = mr_given_back_splits(it, i) > 0;

        for (size_t j = 0; cursor != NULL && j < cursor->n_pool && !waits; j++) {
            waits = !mr_range_is_suspect(cursor->pool[j]);
        }
        if (waits && !mr_iteration_will_ask(it, i)) {
            return true;
        }
    }
    return false;
}

struct survey {
    uint32_t open;    /* recovery tasks */
    uint32_t waiting; /* of those: isolated ones that have not asked yet */
};

static struct survey look_at_tasks(const struct mr_iteration *it)
{
    const struct mr_task *task;
    struct survey s = {0, 0};

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        bool recovers = mr_task_is_recovery(task) && task->state == MR_TASK_OPEN;

        s.open += recovers ? 1 : 0;
        s.waiting += recovers && is_waiting(task) ? 1 : 0;
    }
    return s;
}

/* Each live worker has one derived task. One whose task was closed was out of reach; whether it
 * still is nobody knows, since clients have stopped trying: it is better than none. */
static bool is_of_host(const mr_core *core, const struct mr_task *task, bool was_closed)
{
    const struct mr_iteration_rules *rules = task->iteration->rules;

    return !mr_task_is_recovery(task) && (task->state == MR_TASK_LOST) == was_closed &&
           mr_core_worker_is_live(task->worker) && !mr_core_worker_is_draining(task->worker) &&
           !mr_iteration_cannot_reach(core, task->iteration, task->worker) &&
           (rules->may_host == NULL || rules->may_host(core, task));
}

static uint32_t count_of(const mr_core *core, const struct mr_iteration *it, bool was_closed)
{
    const struct mr_task *task;
    uint32_t n = 0;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        n += is_of_host(core, task, was_closed) ? 1 : 0;
    }
    return n;
}

static uint32_t count_hosts(const mr_core *core, const struct mr_iteration *it)
{
    uint32_t n = count_of(core, it, false);

    return n > 0 ? n : count_of(core, it, true);
}

static bool has_isolated(const struct mr_core_worker *worker, const struct mr_iteration *it)
{
    const struct mr_task *task;

    if (worker->recoveries == 0) {
        return false;
    }
    TAILQ_FOREACH(task, &worker->tasks, in_worker) {
        if (task->iteration == it && task->state == MR_TASK_OPEN && mr_task_is_recovery(task) &&
            task->rec->isolated) {
            return true;
        }
    }
    return false;
}

/* The one with the fewest recovery tasks, whatever they recover. NULL: nobody can have one more. */
static struct mr_core_worker *choose_host(const mr_core *core, const struct mr_iteration *it,
                                          bool isolated)
{
    bool was_closed = count_of(core, it, false) == 0;
    struct mr_core_worker *best = NULL;
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        bool better = best == NULL || task->worker->recoveries < best->recoveries;

        if (better && is_of_host(core, task, was_closed) &&
            !(isolated && has_isolated(task->worker, it))) {
            best = task->worker;
        }
    }
    return best;
}

static void open_tasks(mr_core *core, struct mr_iteration *it, uint64_t n, bool isolated)
{
    for (uint64_t i = 0; i < n; i++) {
        struct mr_core_worker *worker = choose_host(core, it, isolated);
        struct mr_task *task;

        if (worker == NULL) {
            /* The next worker to come looks here again, and so does the next task to end. */
            return;
        }
        MR_APPLY(core, task_recovers, it, worker, isolated, NULL, &task);
        if (task == NULL) {
            return;
        }
        mr_core_trace(core, "task %s: opened, a recovery task%s", task->id,
                      isolated ? " for suspects" : "");
    }
}

void mr_recovery_open(mr_core *core, struct mr_iteration *it)
{
    struct mr_pool_count pool;
    struct survey s;

    mr_pool_count(it, &pool);
    if (is_abandoned(it)) {
        open_tasks(core, it, MR_MIN(MR_RECOVERIES_MAX, count_hosts(core, it)),
                   false /* isolated */);
        return;
    }
    if (pool.ordinary + pool.suspects == 0 || !it->rules->recovers) {
        return; /* Nobody would read from a recovery task of a production. */
    }
    s = look_at_tasks(it);
    if (is_forsaken(it)) {
        uint64_t needed = (pool.ordinary - 1) / MR_GRANT_RETRY_MAX + 1;
        uint64_t n = MR_MIN(MR_MIN(MR_RECOVERIES_MAX - s.open, count_hosts(core, it)), needed);

        open_tasks(core, it, n, false /* isolated */);
        s.open += (uint32_t)n;
    }
    /* In a first repetition that others still read, a task could not be told its end alone. */
    if (pool.suspect_grants > s.waiting &&
        (!mr_iteration_will_ask(it, 0) || it->cursors[0].rec->repetition > 0)) {
        open_tasks(core, it, MR_MIN(MR_RECOVERIES_MAX - s.open, pool.suspect_grants - s.waiting),
                   true /* isolated */);
    }
}
