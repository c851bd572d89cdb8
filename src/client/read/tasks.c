/* The tasks of a read: those that the dispatcher names, until it says that they are over and all of
 * their elements were taken. Then they go, so that a read whose workers come and go for weeks holds
 * as much as one whose workers stay. */
#include "client/read/internal.h"

void mr_read_wake(struct mr_read *r)
{
    r->wakes |= MR_READ_WAKE_ATTACH | MR_READ_WAKE_TICK;
}

void mr_read_fail(struct mr_read *r, const mr_error *err)
{
    if (!r->failed) {
        r->failed = true;
        r->err = *err;
    }
    r->wakes |= MR_READ_WAKE_TAKE;
}

size_t mr_read_share_bytes(const struct mr_read *r, unsigned tasks)
{
    return r->port->is_memory_short(r) ? 1 : MR_READ_BUDGET_BYTES / (tasks > 0 ? tasks : 1);
}

void mr_read_task_free(struct mr_read_task *t)
{
    mr_free(t->key);
    mr_free(t->id);
    mr_free(t->address);
    mr_free(t->incarnation);
    t->read->mode->task_end(t);
    mr_free(t);
}

/* gRPC goes on connecting to a worker that is gone for as long as there is a channel, with a
 * descriptor and threads. */
static bool is_idle(const struct mr_read_task *t)
{
    return t->line != NULL && !t->streams && (t->done || t->closed);
}

/* Nothing will happen to it any more, and nothing is left that anybody asks for. */
static bool is_over(const struct mr_read_task *t)
{
    const struct mr_read *r = t->read;
    /* Of a read that has reached nobody the addresses that it has tried are the error. */
    bool tells = t->failed || (!r->reached && t->failing_ms != 0);

    return t->gone && t->closed && !t->streams && !tells && r->mode->is_empty(t);
}

void mr_read_recount(struct mr_read_task *t)
{
    if (t->read->mode->recount != NULL) {
        t->read->mode->recount(t);
    }
}

void mr_read_changed(struct mr_read_task *t)
{
    struct mr_read *r = t->read;

    if (r->mode->changed != NULL) {
        r->mode->changed(t);
    }
    if (!r->litter && (is_idle(t) || is_over(t))) {
        r->litter = true;
        r->wakes |= MR_READ_WAKE_TICK;
    }
}

static void forget(struct mr_read_task *t)
{
    struct mr_read *r = t->read;

    TAILQ_REMOVE(&r->tasks, t, link);
    (void)mr_map_remove(&r->by_key, t->key);
    r->ntasks--;
    if (r->mode->unlink != NULL) {
        r->mode->unlink(t);
    }
    mr_read_task_free(t);
}

size_t mr_read_collect(struct mr_read *r, void **lines, size_t max)
{
    struct mr_read_task *t = r->litter ? TAILQ_FIRST(&r->tasks) : NULL;
    struct mr_read_task *behind;
    size_t n = 0;

    for (; t != NULL && n < max; t = behind) {
        behind = TAILQ_NEXT(t, link);
        if (is_idle(t)) {
            lines[n++] = t->line;
            t->line = NULL;
        }
        if (is_over(t)) {
            forget(t);
        }
    }
    r->litter = t != NULL;
    return n;
}
