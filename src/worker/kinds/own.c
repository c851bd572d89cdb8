/* A task with a pipeline of its own, for its own readers. It has no thread before the first of them
 * comes. */
#include "worker/kinds.h"
#include "worker/serving.h"

#define KEPT_BYTES_MAX (256 * MR_MIB)

static struct mr_serving *own_of(struct mr_worker_task *t)
{
    MR_ASSERT(t->kind == &mr_kind_own);
    return (struct mr_serving *)t;
}

static bool own_is_its(const Millrace__TaskAssignment *a)
{
    return true;
}

static int own_init(struct mr_worker_task *t, mr_error *err)
{
    return mr_serving_init(own_of(t), KEPT_BYTES_MAX, false, err);
}

/* Memory is short: one block at a time, when the one before was sent. That wakes us, whoever else
 * makes room. */
static bool holds_back_locked(const struct mr_serving *s)
{
    return mr_book_has_ready(s->book) &&
           mr_memory_is_short(s->task.worker->memory, MR_MEMORY_AHEAD, 0);
}

static int wait_demand(struct mr_worker_task *t, uint32_t *rows, mr_error *err)
{
    const struct mr_serving *s = own_of(t);

    MR_LOCK(&t->lock);
    if (mr_book_demand(s->book) == 0 || holds_back_locked(s)) {
        while (!t->cancelled && (!mr_book_low(s->book) || holds_back_locked(s)) &&
               !mr_worker_task_has_nothing(t)) {
            mr_worker_task_is_at(t, mr_book_low(s->book) ? MR_AT_MEMORY : MR_AT_CLIENTS);
            mr_cond_wait(&t->changed, &t->lock);
        }
    }
    if (t->cancelled) {
        return mr_error_set(err, MR_ECANCELED, "the task was cancelled");
    }
    if (mr_worker_task_has_nothing(t)) {
        return MR_END;
    }
    *rows = mr_book_demand(s->book);
    return MR_OK;
}

static int put_into_book(struct mr_worker_task *t, mr_block *block, mr_error *err)
{
    mr_mutex_lock(&t->lock);
    int rc = mr_book_add(own_of(t)->book, block, err);
    mr_mutex_unlock(&t->lock);
    mr_serving_pump(t);
    return rc;
}

static int fill(struct mr_serving *s, mr_error *err)
{
    static const struct mr_sink book_sink = {.wait = wait_demand, .put = put_into_book};
    struct mr_worker_task *t = &s->task;

    if (mr_worker_task_has_nothing(t)) { /* It began in order to end. */
        mr_split_feed_tell(t->feed, mr_splits_close);
        return MR_END;
    }
    return mr_pipeline_run(t, &book_sink, err);
}

static void own_run(struct mr_worker_task *t)
{
    mr_serving_run(own_of(t), fill);
}

static void own_progress(struct mr_worker_task *t, struct mr_worker_task_progress *ret)
{
    MR_LOCK(&t->lock);
    mr_serving_progress_locked(own_of(t), ret);
}

const struct mr_worker_task_kind mr_kind_own = {
    .name = "own",
    .thread = "mr-task",
    .size = sizeof(struct mr_serving),
    .source = MR_SENT_PIPELINE,
    .has_pipeline = true,
    .gives_back = true,
    .ends = true,
    .on_demand = true,
    .is_its = own_is_its,
    .init = own_init,
    .free = mr_serving_free,
    .run = own_run,
    .progress = own_progress,
    .usage_locked = mr_serving_usage_locked,
    .streams = &mr_serving_streams,
};
