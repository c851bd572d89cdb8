/*
 * Going on purpose. What a worker that drains has begun it finishes, as far as time allows; what it
 * has not opened it gives back, so that it is neither lost nor read twice.
 *
 * Happy path: the dispatcher is told and gives us no more; the feed of each DYNAMIC task gives back
 * what the engine has not taken (split_feed.h) and then tells it that the sources are over; the
 * pipeline flushes, clients read the rest, and the task says that it has ended, because it drained.
 * When all have, nothing is left that could be lost.
 *
 * Not waited for: OFF tasks, whose readers hear that a copy went; coordinated ones, whose rounds go
 * by the schedule; and producing tasks, which end with those that read them.
 *
 * Threads: a task's feed and lock are taken under the worker's lock.
 */
#include "worker/task.h"

#include "base/clock.h"

void mr_worker_drain(mr_worker *w)
{
    struct mr_worker_task *t;

    mr_mutex_lock(&w->lock);
    w->draining = true;
    TAILQ_FOREACH(t, &w->tasks, link) {
        mr_worker_task_drain(t);
    }
    mr_worker_task_begin_drained_locked(w);
    mr_mutex_unlock(&w->lock);
    mr_link_beat(w->link);
}

static bool is_through_locked(struct mr_worker *w, enum mr_drain_stage stage)
{
    struct mr_worker_task *t;

    TAILQ_FOREACH(t, &w->tasks, link) {
        if (!mr_worker_task_has_given_back(t)) {
            return false;
        }
        if (stage == MR_DRAIN_ENDED && t->ends && !atomic_load(&t->ended)) {
            return false;
        }
    }
    return stage == MR_DRAIN_GIVEN_BACK || mr_link_list_is_final(w->link);
}

bool mr_worker_wait_drained(mr_worker *w, enum mr_drain_stage stage, int64_t timeout_ms)
{
    int64_t until = mr_now_ms() + timeout_ms;

    if (mr_link_wait_registered(w->link, 0, NULL) == MR_TIMEOUT) {
        return true; /* nobody has given us anything */
    }
    MR_LOCK(&w->lock);
    while (!is_through_locked(w, stage)) {
        int64_t left = until - mr_now_ms();

        if (left <= 0) {
            return false;
        }
        (void)mr_cond_wait_ms(&w->changed, &w->lock, left);
    }
    return true;
}
