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
#include "worker/internal.h"

#include "base/error.h"
#include "base/log.h"

#include <string.h>

/* Rows that are pulled at once, at most. */
#define PULL_ROWS_MAX 65536u
#define OPEN_RETRY_MS 1000

static int wait_readers(struct mr_worker_task *t, uint32_t *rows, mr_error *err)
{
    uint64_t wanted;
    int rc = mr_chain_wait(t->made, &wanted, err);

    if (rc == MR_OK) {
        *rows = wanted < PULL_ROWS_MAX ? (uint32_t)wanted : PULL_ROWS_MAX;
        mr_chain_set_spec_hash(t->made, t->spec_hash);
    }
    return rc;
}

static int put_into_window(struct mr_worker_task *t, mr_block *block, mr_error *err)
{
    return mr_chain_append(t->made, block, err);
}

static const struct mr_sink window_sink = {.wait = wait_readers, .put = put_into_window};

/* Tasks that read it and were there before it. */
static void let_readers_in(struct mr_worker_task *t)
{
    struct mr_worker *w = t->worker;
    struct mr_worker_task *last = NULL;

    for (;;) {
        struct mr_worker_task *next;

        mr_mutex_lock(&w->lock);
        /* Where the last one was dropped meanwhile: from the beginning. Those that have a reader
         * already are left. */
        next = last == NULL || !last->listed ? TAILQ_FIRST(&w->tasks) : TAILQ_NEXT(last, link);
        while (next != NULL && next->kind != MR_TASK_READING) {
            next = TAILQ_NEXT(next, link);
        }
        if (next != NULL) {
            (void)mr_worker_task_ref(next);
        }
        mr_mutex_unlock(&w->lock);
        if (last != NULL) {
            mr_worker_task_unref(last);
        }
        if (next == NULL) {
            return;
        }
        mr_reading_attach(next);
        last = next;
    }
}

/* A production that is complete and that nobody reads, with a reference. It is closed by its own
 * thread. */
static struct mr_worker_task *give_up_one(struct mr_worker *w)
{
    struct mr_worker_task *t;

    MR_LOCK(&w->lock);
    TAILQ_FOREACH(t, &w->tasks, link)
    {
        if (t->kind == MR_TASK_PRODUCING && t->made != NULL && mr_chain_give_up(t->made)) {
            return mr_worker_task_ref(t);
        }
    }
    return NULL;
}

/* The oldest window that nobody needs goes. false: all are needed. */
static bool make_room(void *ctx)
{
    struct mr_worker *w = ((struct mr_worker_task *)ctx)->worker;
    struct mr_worker_task *other = give_up_one(w);

    if (other == NULL) {
        return false;
    }
    mr_log(MR_LOG_INFO, "a window that nobody reads makes room for another production",
           "production", "%s", other->production, NULL);
    mr_mutex_lock(&other->lock);
    other->given_up = true;
    (void)pthread_cond_broadcast(&other->changed);
    mr_mutex_unlock(&other->lock);
    mr_mutex_lock(&w->lock);
    while (!other->window_closed) {
        mr_cond_wait(&w->changed, &w->lock);
    }
    mr_mutex_unlock(&w->lock);
    mr_worker_task_unref(other);
    return true;
}

/* However long it takes; false: it was dropped. */
static bool open_production(struct mr_worker_task *t)
{
    mr_chain *p;
    mr_error err;

    while (mr_chain_open(t->worker->windows, t->production, make_room, t, &p, &err) < 0) {
        mr_log(MR_LOG_WARN, "opening a production, trying again", "task", "%s", t->id, "production",
               "%s", t->production, "error", "%s", err.message, NULL);
        MR_LOCK(&t->lock);
        if (!t->cancelled) {
            (void)mr_cond_wait_ms(&t->changed, &t->lock, OPEN_RETRY_MS);
        }
        if (t->cancelled) {
            return false;
        }
    }
    mr_mutex_lock(&t->worker->lock);
    t->made = p;
    mr_mutex_unlock(&t->worker->lock);
    /* Whoever drops us says so first, and then looks for the production. */
    MR_LOCK(&t->lock);
    if (t->cancelled) {
        mr_chain_cancel(p);
    }
    return true;
}

/* Wait until it is dropped, or (@for_room) another production needs the room. */
static void wait_over(struct mr_worker_task *t, bool for_room)
{
    MR_LOCK(&t->lock);
    while (!t->cancelled && !(for_room && t->given_up)) {
        mr_cond_wait(&t->changed, &t->lock);
    }
}

/* Whoever comes to read it is told that it was given up, as long as the task is there. */
static void close_production(struct mr_worker_task *t)
{
    struct mr_worker *w = t->worker;

    mr_chain_close(t->made);
    mr_mutex_lock(&w->lock);
    t->window_closed = true;
    (void)pthread_cond_broadcast(&w->changed);
    mr_mutex_unlock(&w->lock);
    wait_over(t, false);
    mr_mutex_lock(&w->lock);
    mr_chain *p = t->made;
    t->made = NULL;
    mr_mutex_unlock(&w->lock);
    mr_chain_unref(p);
}

void mr_producing_run(struct mr_worker_task *t)
{
    mr_error err;

    if (!open_production(t)) {
        return;
    }
    let_readers_in(t);
    mr_error_clear(&err);
    int rc = mr_pipeline_run(t, &window_sink, &err);
    if (rc < 0 && atomic_load(&t->disowned)) {
        mr_log(MR_LOG_INFO,
               "the dispatcher gives no more splits, waiting for the next list of tasks", "task",
               "%s", t->id, "error", "%s", err.message, NULL);
    } else if (!atomic_load(&t->stop)) {
        if (rc < 0) {
            mr_log(MR_LOG_ERROR, "the pipeline failed", "task", "%s", t->id, "production", "%s",
                   t->production, "dataset", "%s", t->dataset, "error", "%s", err.message, NULL);
        }
        mr_chain_finish(t->made, rc == MR_END ? MR_OK : rc, err.message);
    }
    wait_over(t, true);
    close_production(t);
}
