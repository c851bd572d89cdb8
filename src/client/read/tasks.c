/*
 * The tasks of a read: those that the dispatcher names, until it says that they are over and all of
 * their elements were taken. Then they go, so that a read whose workers come and go for weeks holds
 * as much as one whose workers stay.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/scope.h"
#include "client/read/internal.h"

#include <stdio.h>
#include <string.h>

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

/* ---- from the task list ---- */

/* Of all that tells one task from another. NULL: no memory. */
static char *make_key(const Millrace__TaskInfo *info)
{
    size_t size = strlen(info->task_id) + strlen(info->worker_incarnation) + 64;
    char *key = mr_malloc(size);

    if (key != NULL) {
        (void)snprintf(key, size, "%u:%zu:%s:%s", info->attempt, strlen(info->task_id),
                       info->task_id, info->worker_incarnation);
    }
    return key;
}

/* NULL: no room. */
static struct mr_read_task *new_task(struct mr_read *r, const Millrace__TaskInfo *info,
                                     const char *key)
{
    struct mr_read_task *t = r->ntasks < MR_READ_TASKS_MAX ? r->mode->task_new() : NULL;

    if (t == NULL) {
        return NULL;
    }
    t->magic = MR_READ_TASK_MAGIC;
    t->read = r;
    t->key = mr_strdup(key);
    t->id = mr_strdup(info->task_id);
    t->address = mr_strdup(info->worker_address);
    t->incarnation = mr_strdup(info->worker_incarnation);
    t->attempt = info->attempt;
    if (t->key == NULL || t->id == NULL || t->address == NULL || t->incarnation == NULL ||
        mr_map_put(&r->by_key, t->key, t, NULL) < 0) {
        mr_read_task_free(t);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&r->tasks, t, link);
    r->ntasks++;
    r->had_tasks = true;
    mr_read_recount(t);
    return t;
}

struct mr_read_task *mr_read_task_get(struct mr_read *r, const Millrace__TaskInfo *info,
                                      bool *is_new)
{
    MR_AUTO(mr_free) char *key = make_key(info);
    struct mr_read_task *t = key != NULL ? mr_map_get(&r->by_key, key) : NULL;
    mr_error err;

    *is_new = t == NULL && !info->ended && !info->lost;
    if (*is_new) {
        t = key != NULL ? new_task(r, info, key) : NULL;
        if (t == NULL) {
            (void)mr_error_set(&err, MR_EEXHAUSTED, "no room for task %s", info->task_id);
            mr_read_fail(r, &err);
        }
    }
    return t;
}

void mr_read_task_free(struct mr_read_task *t)
{
    mr_free(t->key);
    mr_free(t->id);
    mr_free(t->address);
    mr_free(t->incarnation);
    t->magic = 0;
    t->read->mode->task_free(t);
}

/* ---- what happens to them ---- */

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

bool mr_read_collect(struct mr_read *r, struct mr_read_litter *ret)
{
    struct mr_read_task *t = r->litter ? TAILQ_FIRST(&r->tasks) : NULL;
    struct mr_read_task *behind;

    for (; t != NULL; t = behind) {
        behind = TAILQ_NEXT(t, link);
        if (is_over(t)) {
            TAILQ_REMOVE(&r->tasks, t, link);
            (void)mr_map_remove(&r->by_key, t->key);
            r->ntasks--;
            if (r->mode->unlink != NULL) {
                r->mode->unlink(t);
            }
            TAILQ_INSERT_TAIL(&ret->tasks, t, link);
        } else if (is_idle(t)) {
            if (ret->nlines == MR_READ_LITTER_MAX) {
                return false;
            }
            ret->lines[ret->nlines++] = t->line;
            t->line = NULL;
        }
    }
    r->litter = false;
    return true;
}
