/*
 * Who has the memory budget, for the error of a pipeline that found no room in it, or of one whose
 * definition did not: often another job, which nobody reads any more and which keeps its buffer and
 * its definition until somebody does, or it is deleted.
 *
 * All tasks are walked, once for each pipeline that fails so.
 */
#include "worker/pipeline.h"

#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"

#include <inttypes.h>

/* Who holds less of the budget than this part is not worth naming. */
#define WORTH_NAMING_PART 8u

struct holder {
    struct mr_worker_task *task; /* a reference; NULL: none */
    struct mr_worker_task_usage usage;
};

/* What @t holds. It may take more, and less, at any time. */
static struct holder look_at(struct mr_worker_task *t)
{
    struct holder ret = {.task = t, .usage = {.what = "job", .name = t->a->job_id}};

    MR_LOCK(&t->lock);
    if (t->kind->usage_locked != NULL) {
        t->kind->usage_locked(t, &ret.usage);
    }
    ret.usage.bytes += t->engine == NULL ? 0 : mr_engine_held_bytes(t->engine);
    ret.usage.bytes += t->definition == NULL ? 0 : mr_kept_definition_bytes(t->definition);
    return ret;
}

/* The task beside @t that holds most. */
static struct holder find_holder(const struct mr_worker_task *t)
{
    struct mr_worker *w = t->worker;
    struct holder most = {0};
    struct mr_worker_task *other;

    MR_LOCK(&w->lock);
    TAILQ_FOREACH(other, &w->tasks, link) {
        struct holder one = other == t ? most : look_at(other);

        most = one.usage.bytes > most.usage.bytes ? one : most;
    }
    if (most.task != NULL) {
        (void)mr_worker_task_ref(most.task);
    }
    return most;
}

/* In front, in few words: an error has room for so much, and its end is what is cut. */
static void tell(const struct mr_worker_task *t, const struct holder *most, mr_error *err)
{
    const char *what = most->usage.what;
    const char *name = most->usage.name;
    uint64_t mib = most->usage.bytes / MR_MIB;

    mr_log(MR_LOG_WARN, "a pipeline finds no memory, and another task holds much of the budget",
           "task", "%s", t->id, "holder", "%s", most->task->id, what, "%s", name, "mib", "%" PRIu64,
           mib, "read", "%s", most->usage.unread ? "no" : "yes", NULL);
    if (most->usage.unread) {
        /* The iteration of a DYNAMIC one waits for readers as long as its job does, if the
         * dispatcher is not told otherwise. */
        mr_error_wrap(err,
                      "job %s holds %" PRIu64
                      " MiB unread (read it, millrace job delete %s, %sor raise --memory-budget)",
                      name, mib, name, most->task->dynamic ? "dispatcher --gc-dynamic, " : "");
    } else {
        mr_error_wrap(err, "%s %s holds %" PRIu64 " MiB (raise --memory-budget)", what, name, mib);
    }
}

void mr_worker_task_name_holder(const struct mr_worker_task *t, mr_error *err)
{
    struct holder most = find_holder(t);

    if (most.task == NULL) {
        return;
    }
    if (most.usage.bytes >= mr_memory_limit(t->worker->memory) / WORTH_NAMING_PART) {
        tell(t, &most, err);
    }
    mr_worker_task_unref(most.task);
}
