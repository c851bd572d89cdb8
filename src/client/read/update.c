/* What the watch brings: the task list, and the end of the iteration. */
#include "client/read/internal.h"

static void close_task(struct mr_read_task *t)
{
    struct mr_read *r = t->read;

    t->gone = true;
    if (!t->closed && !r->mode->on_schedule) {
        t->closed = true;
        r->lingers = r->lingers || mr_read_holds_of(t) > 0;
        if (!t->goodbye) {
            mr_read_cut(t);
        }
    }
    mr_read_recount(t);
    mr_read_changed(t);
}

void mr_read_take_end(struct mr_read *r, const Millrace__IterationEnd *end)
{
    struct mr_read_task *t;

    r->finished = true;
    TAILQ_FOREACH(t, &r->tasks, link) {
        close_task(t);
    }
    if (end != NULL && end->error_code < 0) {
        (void)mr_error_set(&r->end_err, end->error_code, "%s", end->error);
    }
    if (end != NULL) {
        r->end = (struct mr_losses){.lost_splits = end->lost_splits,
                                    .lost_elements = end->lost_elements,
                                    .quarantined_splits = end->quarantined_splits,
                                    .repeated_splits = end->repeated_splits,
                                    .lost_workers = end->lost_workers,
                                    .abandoned_elements = end->abandoned};
    }
    r->lingers = r->lingers || !mr_read_is_used_up(r);
    if (r->mode->finished != NULL) {
        r->mode->finished(r);
    }
}

/* Takes @key. NULL: no room. */
static struct mr_read_task *new_task(struct mr_read *r, const Millrace__TaskInfo *info, char *key)
{
    struct mr_read_task *t =
        r->ntasks < MR_READ_TASKS_MAX ? mr_calloc(1, r->mode->task_size) : NULL;

    if (t == NULL) {
        mr_free(key);
        return NULL;
    }
    r->mode->task_begin(t);
    t->read = r;
    t->key = key;
    t->id = mr_strdup(info->task_id);
    t->address = mr_strdup(info->worker_address);
    t->incarnation = mr_strdup(info->worker_incarnation);
    t->attempt = info->attempt;
    if (t->id == NULL || t->address == NULL || t->incarnation == NULL ||
        mr_map_put(&r->by_key, key, t, NULL) < 0) {
        mr_read_task_free(t);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&r->tasks, t, link);
    r->ntasks++;
    r->had_tasks = true;
    mr_read_recount(t);
    return t;
}

/* The task of @info, added if it is not known and not over; *@is_new says so. NULL: it is over, or
 * there is no room and the read has failed for it. */
static struct mr_read_task *get_task(struct mr_read *r, const Millrace__TaskInfo *info,
                                     bool *is_new)
{
    /* of all that tells one task from another */
    MR_AUTO(mr_free)
    char *key = mr_asprintf("%u:%zu:%s:%s", info->attempt, strlen(info->task_id), info->task_id,
                            info->worker_incarnation);
    struct mr_read_task *t = key != NULL ? mr_map_get(&r->by_key, key) : NULL;
    mr_error err;

    *is_new = t == NULL && !info->ended && !info->lost;
    if (*is_new) {
        t = key != NULL ? new_task(r, info, MR_TAKE(key)) : NULL;
        if (t == NULL) {
            (void)mr_error_set(&err, MR_EEXHAUSTED, "no room for task %s", info->task_id);
            mr_read_fail(r, &err);
        }
    }
    return t;
}

static void take_task(struct mr_read *r, const Millrace__TaskInfo *info)
{
    bool is_new;
    struct mr_read_task *t = get_task(r, info, &is_new);

    if (t == NULL) {
        return;
    }
    t->list = r->lists;
    if (info->ended || info->lost) {
        close_task(t);
    } else if (is_new && r->mode->on_schedule) {
        mr_read_retry(r, 0);
    } else if (is_new && mr_read_may_connect(r)) {
        mr_read_connect(t);
        mr_read_changed(t);
    }
}

/* Of a complete list the rest is over. */
static void take_tasks(struct mr_read *r, const Millrace__ClientUpdate *u)
{
    struct mr_read_task *t;

    r->lists += u->follows == 0;
    for (size_t i = 0; i < u->n_tasks; i++) {
        take_task(r, u->tasks[i]);
    }
    if (u->follows != 0) {
        return;
    }
    TAILQ_FOREACH(t, &r->tasks, link) {
        if (t->list < r->lists) {
            close_task(t);
        }
    }
}

void mr_read_updated(struct mr_read *r, const Millrace__ClientUpdate *u)
{
    if (r->stopping) {
        return;
    }
    mr_read_wake(r);
    if (u->follows != 0 && u->follows != r->version) {
        r->reopen = true; /* One was missed: the next watch begins with all. */
        return;
    }
    take_tasks(r, u);
    r->version = u->version;
    if (r->mode->updated != NULL) {
        r->mode->updated(r, u);
    }
    if (u->finished) {
        mr_read_take_end(r, u->end);
    }
    r->wakes |= MR_READ_WAKE_TAKE;
}

void mr_read_watch_refused(struct mr_read *r, const mr_error *err)
{
    if (err->code == MR_ENOTFOUND || r->finished) {
        r->reopen = true;
    } else {
        mr_read_fail(r, err);
    }
    mr_read_wake(r);
}
