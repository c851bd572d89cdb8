/*
 * A task that makes a production: a pipeline whose rows go into a window, driven by the fastest of
 * those that read it.
 *
 * Happy path: open the window, let the reading tasks in that came with us, run the pipeline; at its
 * end say so to the readers and wait to be dropped: the window is still to be read.
 *
 * Failures: of the disk, see chain.h; of the pipeline, what readers find at the end of the window.
 * A dispatcher that gives no more splits is nobody's end: the next list of tasks says what becomes
 * of us.
 */
#include "base/log.h"
#include "worker/kinds.h"

/* Rows that are pulled at once, at most. */
#define PULL_ROWS_MAX 65536u
#define OPEN_RETRY_MS 1000

struct producing {
    struct mr_worker_task task;
    /* The window; NULL before it was opened, and when the task is over. Written with worker->lock
     * and task.lock held: either is enough to read it. */
    mr_chain *made;
    bool closed;   /* worker->lock: the window was, to make room */
    bool given_up; /* task.lock: it is to be closed */
};

static struct producing *producing_of(struct mr_worker_task *t)
{
    MR_ASSERT(t->kind == &mr_kind_producing);
    return (struct producing *)t;
}

static bool producing_is_its(const Millrace__TaskAssignment *a)
{
    return a->production[0] != '\0' && a->producing;
}

/* ---- from the pipeline into the window ---- */

static int wait_readers(struct mr_worker_task *t, uint32_t *rows, mr_error *err)
{
    uint64_t wanted;

    MR_TRY(mr_chain_wait(producing_of(t)->made, &wanted, err));
    *rows = wanted < PULL_ROWS_MAX ? (uint32_t)wanted : PULL_ROWS_MAX;
    mr_chain_set_spec_hash(producing_of(t)->made, t->spec_hash);
    return MR_OK;
}

static int put_into_window(struct mr_worker_task *t, mr_block *block, mr_error *err)
{
    return mr_chain_append(producing_of(t)->made, block, err);
}

static const struct mr_sink window_sink = {.wait = wait_readers, .put = put_into_window};

/* Of those that were there before it. One that has a reader already is left as it is. */
static void let_readers_in(struct mr_worker *w)
{
    for (struct mr_worker_task *t = NULL; (t = mr_worker_task_next(w, t)) != NULL;) {
        if (t->kind->find_window != NULL) {
            t->kind->find_window(t);
        }
    }
}

/* The producing task after @last (NULL: the first) in the list; NULL: there is none. worker->lock
 * is held. */
static struct producing *next_locked(struct mr_worker *w, struct producing *last)
{
    struct mr_worker_task *t =
        last == NULL ? TAILQ_FIRST(&w->tasks) : TAILQ_NEXT(&last->task, link);

    while (t != NULL && t->kind != &mr_kind_producing) {
        t = TAILQ_NEXT(t, link);
    }
    return t == NULL ? NULL : producing_of(t);
}

static struct producing *find_locked(struct mr_worker *w, const char *production)
{
    struct producing *p = next_locked(w, NULL);

    while (p != NULL && strcmp(p->task.a->production, production) != 0) {
        p = next_locked(w, p);
    }
    return p;
}

mr_chain *mr_producing_window_locked(struct mr_worker *w, const char *production)
{
    struct producing *p = find_locked(w, production);

    return p == NULL ? NULL : p->made;
}

bool mr_producing_was_cut(struct mr_worker *w, const char *production)
{
    MR_LOCK(&w->lock);
    const struct producing *p = find_locked(w, production);

    return p != NULL && mr_worker_task_splits(&p->task, mr_splits_were_cut);
}

/* ---- the window ---- */

/* One that is complete and that nobody reads, with a reference. Its window is closed by its own
 * thread. */
static struct producing *give_up_one(struct mr_worker *w)
{
    struct producing *p = NULL;

    MR_LOCK(&w->lock);
    while ((p = next_locked(w, p)) != NULL) {
        if (p->made != NULL && mr_chain_give_up(p->made)) {
            (void)mr_worker_task_ref(&p->task);
            return p;
        }
    }
    return NULL;
}

/* The oldest window that nobody needs goes. false: all are needed. */
static bool make_room(void *ctx)
{
    struct mr_worker *w = mr_worker_task_of(ctx)->worker;
    struct producing *other = give_up_one(w);

    if (other == NULL) {
        return false;
    }
    mr_log(MR_LOG_INFO, "a window that nobody reads makes room for another production",
           "production", "%s", other->task.a->production, NULL);
    mr_mutex_lock(&other->task.lock);
    other->given_up = true;
    (void)pthread_cond_broadcast(&other->task.changed);
    mr_mutex_unlock(&other->task.lock);
    mr_mutex_lock(&w->lock);
    while (!other->closed) {
        mr_cond_wait(&w->changed, &w->lock);
    }
    mr_mutex_unlock(&w->lock);
    mr_worker_task_unref(&other->task);
    return true;
}

static void set_made(struct producing *p, mr_chain *made)
{
    MR_LOCK(&p->task.worker->lock);
    MR_LOCK(&p->task.lock);
    p->made = made;
    if (made != NULL && p->task.cancelled) {
        mr_chain_cancel(made);
    }
}

/* However long it takes; false: it was dropped. */
static bool open_window(struct producing *p)
{
    struct mr_worker_task *t = &p->task;
    mr_chain *made;
    mr_error err;

    while (mr_chain_open(t->worker->windows, p->task.a->production, make_room, t, &made, &err) <
           0) {
        mr_log(MR_LOG_WARN, "opening a production, trying again", "task", "%s", t->id, "production",
               "%s", p->task.a->production, "error", "%s", err.message, NULL);
        MR_LOCK(&t->lock);
        if (!t->cancelled) {
            (void)mr_cond_wait_ms(&t->changed, &t->lock, OPEN_RETRY_MS);
        }
        if (t->cancelled) {
            return false;
        }
    }
    set_made(p, made);
    return true;
}

/* Wait until it is dropped, or (@for_room) another production needs the room. */
static void wait_over(struct producing *p, bool for_room)
{
    MR_LOCK(&p->task.lock);
    while (!p->task.cancelled && !(for_room && p->given_up)) {
        mr_cond_wait(&p->task.changed, &p->task.lock);
    }
}

/* Whoever comes to read it is told that it was given up, as long as the task is there. */
static void close_window(struct producing *p)
{
    struct mr_worker *w = p->task.worker;
    mr_chain *made = p->made;

    mr_chain_close(made);
    mr_mutex_lock(&w->lock);
    p->closed = true;
    (void)pthread_cond_broadcast(&w->changed);
    mr_mutex_unlock(&w->lock);
    wait_over(p, false);
    set_made(p, NULL);
    mr_chain_unref(made);
}

static void producing_run(struct mr_worker_task *t)
{
    struct producing *p = producing_of(t);
    mr_error err;

    if (!open_window(p)) {
        return;
    }
    let_readers_in(t->worker);
    mr_error_clear(&err);
    int rc = mr_pipeline_run(t, &window_sink, &err);
    if (rc < 0 && atomic_load(&t->disowned)) {
        mr_log(MR_LOG_INFO,
               "the dispatcher gives no more splits, waiting for the next list of tasks", "task",
               "%s", t->id, "error", "%s", err.message, NULL);
    } else if (!atomic_load(&t->stop)) {
        if (rc < 0) {
            mr_log(MR_LOG_ERROR, "the pipeline failed", "task", "%s", t->id, "production", "%s",
                   p->task.a->production, "dataset", "%s", t->a->dataset_id, "error", "%s",
                   err.message, NULL);
        }
        mr_chain_finish(p->made, rc == MR_END ? MR_OK : rc, err.message);
    }
    wait_over(p, true);
    close_window(p);
}

static void producing_cancel_locked(struct mr_worker_task *t)
{
    if (producing_of(t)->made != NULL) {
        mr_chain_cancel(producing_of(t)->made);
    }
}

/* ---- the rest of its table ---- */

static void producing_progress(struct mr_worker_task *t, struct mr_worker_task_progress *ret)
{
    struct mr_chain_stats stats;
    struct producing *p = producing_of(t);

    MR_LOCK(&t->lock);
    if (p->made == NULL) {
        return;
    }
    mr_chain_stats(p->made, &stats);
    millrace__window_progress__init(&ret->window);
    (void)snprintf(ret->text, sizeof ret->text, "%s", stats.degraded);
    ret->window.first = stats.first;
    ret->window.end = stats.end;
    ret->window.bytes = stats.bytes;
    ret->window.held = stats.held;
    ret->window.complete = stats.complete;
    ret->window.degraded = ret->text;
    ret->base.produced = stats.end;
    ret->base.window = &ret->window;
    ret->disk_bytes = stats.disk_bytes;
}

static void producing_usage_locked(struct mr_worker_task *t, struct mr_worker_task_usage *ret)
{
    ret->what = "production";
    ret->name = t->a->production;
}

const struct mr_worker_task_kind mr_kind_producing = {
    .name = "producing",
    .thread = "mr-produce",
    .size = sizeof(struct producing),
    .source = MR_SENT_WINDOW,
    .has_pipeline = true,
    .gives_back = true,
    .is_its = producing_is_its,
    .run = producing_run,
    .cancel_locked = producing_cancel_locked,
    .progress = producing_progress,
    .usage_locked = producing_usage_locked,
};
