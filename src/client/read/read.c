#include "client/read/read.h"

#include "client/read/internal.h"

int mr_read_init(struct mr_read *r, mr_error *err)
{
    TAILQ_INIT(&r->tasks);
    r->opened_ms = r->now_ms;
    r->retry_ms = INT64_MAX;
    r->batch = 1;
    r->mode = r->opts.job.num_consumers > 0 ? &mr_read_mode_coordinated : &mr_read_mode_plain;
    if (r->opts.input == NULL) { /* It is registered. */
        r->phase = MR_READ_OPENS;
        r->dataset_id = mr_strdup(r->opts.dataset_id);
        MR_CHECK_ALLOC(r->dataset_id, err);
    }
    r->of_mode = mr_calloc(1, r->mode->size);
    MR_CHECK_ALLOC(r->of_mode, err);
    r->mode->begin(r);
    return MR_OK;
}

void mr_read_clear(struct mr_read *r)
{
    struct mr_read_task *t;

    if (r->of_mode != NULL) {
        r->mode->end(r);
        mr_free(r->of_mode);
    }
    while ((t = TAILQ_FIRST(&r->tasks)) != NULL) {
        TAILQ_REMOVE(&r->tasks, t, link);
        mr_read_task_free(t);
    }
    mr_map_free(&r->by_key);
    mr_free(r->dataset_id);
    mr_free(r->job_id);
    mr_free(r->iteration_id);
}

static int64_t reconnect(struct mr_read *r)
{
    struct mr_read_task *t = TAILQ_FIRST(&r->tasks);
    struct mr_read_task *behind;

    if (r->failed) {
        return INT64_MAX; /* Nothing that comes is given to anybody any more. */
    }
    if (r->now_ms < r->retry_ms) {
        return r->retry_ms;
    }
    r->retry_ms = INT64_MAX;
    for (; t != NULL; t = behind) {
        behind = TAILQ_NEXT(t, link);
        if (t->streams || t->done || t->closed) {
            continue;
        }
        if (t->retry_ms > r->now_ms) {
            mr_read_retry(r, t->retry_ms);
        } else if (mr_read_may_connect(r)) {
            TAILQ_REMOVE(
                &r->tasks, t,
                link); /* Who fails again does not come before those that were not tried yet. */
            TAILQ_INSERT_TAIL(&r->tasks, t, link);
            mr_read_connect(t);
        }
    }
    return r->retry_ms;
}

int64_t mr_read_tick(struct mr_read *r)
{
    int64_t next = reconnect(r);

    MR_ASSERT_SLOW(mr_read_is_consistent(r));
    if (r->mode->tick != NULL) {
        next = MR_MIN(next, r->mode->tick(r));
    }
    next = MR_MIN(next, mr_read_look_at_wait(r));
    return MR_MIN(next, mr_read_tell_away(r, r->now_ms));
}

bool mr_read_is_consistent(const struct mr_read *r)
{
    const struct mr_read_task *t;
    unsigned tasks = 0, streams = 0, connecting = 0;

    TAILQ_FOREACH(t, &r->tasks, link) {
        bool one_stream = t->streams || (!t->connected && !t->sending && t->batch == 0);

        if (t->read != r || mr_map_get(&r->by_key, t->key) != t || !one_stream) {
            return false;
        }
        tasks++;
        streams += t->streams;
        connecting += t->batch == r->batch;
    }
    return tasks == r->ntasks && r->by_key.count == r->ntasks && streams == r->streams &&
           connecting <= r->connecting && r->mode->is_consistent(r);
}
