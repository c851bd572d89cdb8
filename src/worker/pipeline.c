/* The engine of a task: its definition, its splits, what it makes handed to a sink. What the sink
 * is decides the kind of the task: its book (kinds/own.c), or a production that others read
 * (producing.c). */
#include "worker/task.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/rng.h"

#include <millrace/dataset.h>

/* When a pulled block is large enough. */
#define PULL_BYTES (256 * MR_KIB)

/* Who holds less of the budget than this part is not worth naming. */
#define WORTH_NAMING_PART 8u

MR_AUTO_DEFINE(mr_dataset, mr_dataset_unref)

/* ---- splits ---- */

static int ask_splits(struct mr_worker_task *t, struct mr_split_request *ask, mr_error *err)
{
    Millrace__GetSplitsRequest *req = &ask->base;
    MR_AUTO(mr_link_free_message) ProtobufCMessage *reply = NULL;
    struct mr_grant_report report;

    req->incarnation = t->worker->incarnation;
    req->task_id = t->id;
    req->iteration_id = t->a->iteration_id;
    if (t->at_least_once) {
        mr_split_feed_finished(t->feed, req->provider, &report);
        req->report = &report.base;
    }
    MR_TRY(mr_link_call(t->worker->link, t, &mr_link_splits, &req->base, &reply, err));
    return mr_split_feed_answer(t->feed, ask, (const Millrace__GetSplitsReply *)reply, err);
}

static void *asker_main(void *arg)
{
    struct mr_worker_task *t = mr_worker_task_of(arg);
    struct mr_split_request ask;

    while (mr_split_feed_wait(t->feed, &ask)) {
        mr_error err;
        int rc = ask_splits(t, &ask, &err);

        if (rc < 0) {
            mr_error_wrap(&err, "asking for splits of iteration %s", t->a->iteration_id);
            /* The task is over for the dispatcher, or we are: not an error of the pipeline, and
             * nobody's to be told. */
            atomic_store(&t->disowned, rc == MR_ENOTFOUND || rc == MR_EPRECOND);
            mr_split_feed_fail(t->feed, &err);
        }
        if (ask.base.n_given_back > 0) {
            mr_worker_note_progress(t->worker);
        }
    }
    return NULL;
}

/*
 * ---- who has the memory budget ----
 *
 * For the error of a pipeline that found no room in it, or of one whose definition did not: often
 * another job, which nobody reads any more and which keeps its buffer and its definition until
 * somebody does, or it is deleted. All tasks are walked, once for each pipeline that fails so.
 */

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
    ret.usage.bytes += t->definition == NULL ? 0 : t->definition->bytes;
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

/* Passes on @rc, and says who has the memory that was not found, and what can be done. */
static int name_holder(const struct mr_worker_task *t, int rc, mr_error *err)
{
    struct holder most = rc == MR_EEXHAUSTED ? find_holder(t) : (struct holder){0};

    if (most.task != NULL &&
        most.usage.bytes >= mr_memory_limit(t->worker->memory) / WORTH_NAMING_PART) {
        tell(t, &most, err);
    }
    mr_worker_task_unref(most.task);
    return rc;
}

/* ---- the pipeline ---- */

static int fetch_definition(void *ctx, struct mr_definition_bytes *ret, mr_error *err)
{
    struct mr_worker_task *t = mr_worker_task_of(ctx);
    Millrace__GetDatasetRequest req = MILLRACE__GET_DATASET_REQUEST__INIT;
    MR_AUTO(mr_link_free_message) ProtobufCMessage *msg = NULL;

    req.dataset_id = t->a->dataset_id;
    req.want_definition = true;
    req.fingerprint = t->a->fingerprint;
    int rc = mr_link_call(t->worker->link, t, &mr_link_dataset, &req.base, &msg, err);
    if (rc < 0) {
        mr_error_wrap(err, "fetching dataset '%s'", t->a->dataset_id);
        return rc;
    }
    ProtobufCBinaryData *definition = &((Millrace__GetDatasetReply *)msg)->definition;
    *ret = (struct mr_definition_bytes){definition->data, definition->len};
    *definition = (ProtobufCBinaryData){0, NULL};
    return MR_OK;
}

/* Waiting for a definition. A worker that drains does not begin with it. */
static bool goes_on(void *ctx)
{
    struct mr_worker_task *t = mr_worker_task_of(ctx);

    return !atomic_load(&t->stop) && !mr_worker_task_has_nothing(t);
}

/* An object of its own for each task: what iterators leave in it for those after them is not
 * another task's. */
static int fetch_dataset(struct mr_worker_task *t, mr_dataset **ret, mr_error *err)
{
    struct mr_kept_definition *kept;
    struct mr_definition_wanted wanted = {.dataset = t->a->dataset_id,
                                          .fingerprint = t->a->fingerprint,
                                          .sent_bytes = t->a->definition_size,
                                          .fetch = fetch_definition,
                                          .goes_on = goes_on,
                                          .ctx = t};

    MR_TRY(name_holder(t, mr_definitions_get(t->worker->definitions, &wanted, &kept, err), err));
    mr_mutex_lock(&t->lock);
    t->definition = kept;
    mr_mutex_unlock(&t->lock);
    int rc = mr_dataset_of_definition(&kept->parts, ret, err);
    if (rc < 0) {
        mr_error_wrap(err, "dataset '%s'", t->a->dataset_id);
    }
    return rc;
}

/* The dispatcher made its table of splits from the same definition: both must count the same. */
static int check_providers(const struct mr_worker_task *t, const mr_dataset *ds, mr_error *err)
{
    int64_t splits[64];
    size_t n = 0;

    MR_TRY(mr_dataset_providers(ds, splits, sizeof splits / sizeof splits[0], &n, err));
    if (n != t->providers) {
        return mr_error_set(err, MR_EINTERNAL,
                            "dataset '%s' has %zu split providers here, %u at the dispatcher",
                            t->a->dataset_id, n, t->providers);
    }
    for (size_t i = 0; i < n; i++) {
        if (splits[i] != t->a->providers[i]->splits) {
            return mr_error_set(err, MR_EINTERNAL,
                                "source %zu of dataset '%s' has %" PRId64 " splits here, %" PRId64
                                " at the dispatcher: do they run the same version?",
                                i, t->a->dataset_id, splits[i], t->a->providers[i]->splits);
        }
    }
    return MR_OK;
}

/* Unseeded operators draw from the iteration's seed. Copies of one dataset (OFF) must not all come
 * in one order; parts of it (DYNAMIC) must not depend on the worker that has them. */
static uint64_t task_seed(const struct mr_worker_task *t)
{
    uint64_t seed =
        t->dynamic ? t->a->seed : mr_mix64(t->a->seed ^ mr_hash64(t->id, strlen(t->id)));

    return seed == 0 ? 1 : seed;
}

static int open_engine(struct mr_worker_task *t, mr_error *err)
{
    struct mr_worker *w = t->worker;
    struct mr_split_source source;
    struct mr_engine_options opts = {.seed = task_seed(t),
                                     .epoch = t->a->repetition,
                                     .memory = w->memory,
                                     .threads = w->threads,
                                     .profile = true,

                                     .share = t->share};
    mr_engine_iter *engine = NULL;
    MR_AUTO(mr_dataset_unref) mr_dataset *ds = NULL;

    MR_TRY(fetch_dataset(t, &ds, err));
    if (t->dynamic) {
        MR_TRY(check_providers(t, ds, err));
        source = mr_split_feed_source(t->feed);
        opts.splits = &source;
        opts.part = mr_hash64(t->id, strlen(t->id));
    }
    MR_TRY(name_holder(t, mr_engine_open(ds, &opts, &engine, err), err));
    MR_LOCK(&t->lock);
    t->engine = engine;
    t->spec_hash = mr_spec_hash(mr_dataset_spec(ds));
    if (t->cancelled) {
        mr_engine_cancel(engine);
    }
    return MR_OK;
}

static void close_engine(struct mr_worker_task *t)
{
    mr_mutex_lock(&t->lock);
    mr_engine_iter *engine = MR_TAKE(t->engine);
    mr_engine_times(engine, &t->times.sum.engine);
    mr_mutex_unlock(&t->lock);
    mr_engine_close(engine);
}

static int check_rows(const mr_block *block, size_t bytes_all, mr_error *err)
{
    uint32_t rows = mr_block_rows(block);

    /* Only a block of few rows can hold one that is too large to be sent. */
    if (bytes_all <= MR_ELEMENT_BYTES_MAX) {
        return MR_OK;
    }
    for (uint32_t r = 0; r < rows; r++) {
        size_t bytes = mr_block_row_bytes(block, r, 1);

        if (bytes > MR_ELEMENT_BYTES_MAX) {
            return mr_error_set(err, MR_EEXHAUSTED,
                                "an element of %zu bytes is above the limit of %llu", bytes,
                                MR_ELEMENT_BYTES_MAX);
        }
    }
    return MR_OK;
}

/* @t->engine was asked at @begun_ns, and has answered. */
static void note_pull(struct mr_worker_task *t, int64_t begun_ns, uint32_t rows, size_t bytes)
{
    struct mr_worker_numbers *n = &t->worker->numbers;
    uint64_t ignored = mr_engine_ignored_errors(t->engine);
    uint64_t before = atomic_exchange_explicit(&t->ignored_errors, ignored, memory_order_relaxed);

    (void)atomic_fetch_add_explicit(&n->ignored_errors, ignored - before, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&n->busy_ns, (uint64_t)(mr_cpu_now_ns() - begun_ns),
                                    memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&n->made_elements, rows, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&n->made_bytes, bytes, memory_order_relaxed);
}

/* Pull a block that can be sent. */
static int pull(struct mr_worker_task *t, struct mr_want want, mr_block **ret, mr_error *err)
{
    int64_t begun_ns = mr_cpu_now_ns();
    mr_block *block;
    int rc = name_holder(t, mr_engine_pull(t->engine, want, -1, &block, err), err);
    size_t bytes = rc == MR_OK ? mr_block_row_bytes(block, 0, mr_block_rows(block)) : 0;

    note_pull(t, begun_ns, rc == MR_OK ? mr_block_rows(block) : 0, bytes);
    MR_TRY(rc);
    rc = check_rows(block, bytes, err);
    if (rc < 0) {
        mr_block_unref(block);
        return rc;
    }
    *ret = block;
    return rc;
}

/* Pull and hand over until the pipeline is over: MR_END, or its error. */
static int pull_all(struct mr_worker_task *t, const struct mr_sink *sink, mr_error *err)
{
    for (;;) {
        struct mr_want want = {.bytes_hint = PULL_BYTES};
        mr_block *block;

        mr_worker_task_is_at(t, MR_AT_CLIENTS);
        MR_TRY(sink->wait(t, &want.rows_max, err));
        mr_worker_task_is_at(t, MR_AT_PIPELINE);
        MR_TRY(pull(t, want, &block, err));
        MR_TRY(sink->put(t, block, err));
    }
}

/* The engine is open: pull until it is through. */
static int run_engine(struct mr_worker_task *t, const struct mr_sink *sink, mr_error *err)
{
    pthread_t asker;

    if (!t->dynamic) {
        return pull_all(t, sink, err);
    }
    MR_TRY(mr_thread_start(&asker, "mr-splits", asker_main, t, err));
    int rc = pull_all(t, sink, err);
    if (rc == MR_END) {
        mr_split_feed_tell(t->feed, mr_splits_close);
    } else {
        mr_split_feed_cancel(t->feed);
    }
    mr_thread_join(asker);
    return rc;
}

int mr_pipeline_run(struct mr_worker_task *t, const struct mr_sink *sink, mr_error *err)
{
    int rc = open_engine(t, err);

    if (rc == MR_OK) {
        rc = run_engine(t, sink, err);
        mr_worker_task_is_at(t, MR_AT_CLIENTS); /* if it waits for anything more, it is for them */
        close_engine(t);
    } else if (rc == MR_ECANCELED && mr_worker_task_has_nothing(t)) {
        /* It waited for its definition when there was no need for it any more. */
        mr_split_feed_tell(t->feed, mr_splits_close);
        rc = MR_END;
    }
    /* All that while it was in use, and tasks that began meanwhile shared it. */
    mr_mutex_lock(&t->lock);
    struct mr_kept_definition *kept = MR_TAKE(t->definition);
    mr_mutex_unlock(&t->lock);
    if (kept != NULL) {
        mr_definitions_release(t->worker->definitions, kept);
    }
    return rc;
}

void mr_pipeline_log_failure(const struct mr_worker_task *t, const mr_error *err)
{
    mr_log(MR_LOG_ERROR, "the pipeline failed", "task", "%s", t->id, "job", "%s", t->a->job_id,
           "dataset", "%s", t->a->dataset_id, "error", "%s", err->message, NULL);
}
