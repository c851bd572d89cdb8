/*
 * From the dispatcher's list of what this worker is to do, to tasks. The first update of a watch is
 * the whole list: what it lacks is dropped. Those after it say what changed. Clients that an update
 * names as gone lose their sessions.
 *
 * Tasks of jobs that are set aside are not in the list, and kept: they may be in a later one, and
 * go on then.
 */

#include "base/log.h"
#include "worker/conn.h"
#include "worker/kinds.h"

const struct mr_worker_task_kind *const mr_worker_task_kinds[MR_WORKER_TASK_KIND_COUNT] = {
#define X(name) &mr_kind_##name,
    MR_WORKER_TASK_KINDS(X)
#undef X
};

static const struct mr_worker_task_kind *kind_of(const Millrace__TaskAssignment *a)
{
    size_t i = 0;

    while (!mr_worker_task_kinds[i]->is_its(a)) {
        i++;
        MR_ASSERT(i < MR_WORKER_TASK_KIND_COUNT); /* The last one takes all. */
    }
    return mr_worker_task_kinds[i];
}

static bool is_listed(const Millrace__WorkerUpdate *update, const struct mr_worker_task *t)
{
    for (size_t i = 0; i < update->n_tasks; i++) {
        if (strcmp(update->tasks[i]->task_id, t->id) == 0 &&
            update->tasks[i]->attempt == t->a->attempt) {
            return true;
        }
    }
    return false;
}

/* Its iteration is set aside. */
static bool is_held(const Millrace__WorkerUpdate *update, const struct mr_worker_task *t)
{
    for (size_t i = 0; i < update->n_held; i++) {
        if (strcmp(update->held[i], t->a->iteration_id) == 0) {
            return true;
        }
    }
    return false;
}

/* What joins a production holds all of it up, and has delivered nothing yet: it may as well begin
 * again. */
static bool is_joining(struct mr_worker_task *t)
{
    return t->kind->is_joining != NULL && t->kind->is_joining(t);
}

/* One task that is not in @update (NULL: any), with a reference, or NULL. Only the watch's thread
 * drops tasks meanwhile. */
static struct mr_worker_task *find_unlisted(struct mr_worker *w,
                                            const Millrace__WorkerUpdate *update)
{
    struct mr_worker_task *t;

    MR_LOCK(&w->lock);
    TAILQ_FOREACH(t, &w->tasks, link) {
        if (update == NULL || (!is_listed(update, t) && (!is_held(update, t) || is_joining(t)))) {
            return mr_worker_task_ref(t);
        }
    }
    return NULL;
}

/* A reference, or NULL. */
static struct mr_worker_task *find_task(struct mr_worker *w, const char *id)
{
    MR_LOCK(&w->lock);
    struct mr_worker_task *t = mr_worker_task_find_locked(w, id);

    return t == NULL ? NULL : mr_worker_task_ref(t);
}

/* Takes the reference @t, which may be NULL. false: it is. */
static bool drop(struct mr_worker_task *t)
{
    if (t == NULL) {
        return false;
    }
    mr_log(MR_LOG_DEBUG, "task dropped", "task", "%s", t->id, NULL);
    mr_worker_task_drop(t);
    mr_worker_task_unref(t);
    return true;
}

static void drop_unlisted(struct mr_worker *w, const Millrace__WorkerUpdate *update)
{
    while (drop(find_unlisted(w, update))) {
    }
}

static void release_client(struct mr_worker *w, const char *client)
{
    for (struct mr_worker_task *t = NULL; (t = mr_worker_task_next(w, t)) != NULL;) {
        if (t->kind->streams != NULL && t->kind->streams->release_client != NULL) {
            t->kind->streams->release_client(t, client);
        }
    }
}

static void complain(struct mr_worker *w, const char *task, const mr_error *why)
{
    mr_log(MR_LOG_ERROR, "starting a task, tried again after the next heartbeat", "task", "%s",
           task, "error", "%s", why->message, NULL);
    mr_link_list_again(w->link);
}

static void change_rounds(struct mr_worker *w, const Millrace__RoundChange *change)
{
    MR_AUTO(mr_worker_task_unref) struct mr_worker_task *t = find_task(w, change->task_id);

    if (t != NULL && t->kind->change_rounds != NULL && change->rounds != NULL) {
        t->kind->change_rounds(t, change->rounds);
    }
}

/* Tasks that are new; those that we have may be assigned otherwise. */
static void take_assignments(struct mr_worker *w, const Millrace__WorkerUpdate *update)
{
    MR_AUTO(mr_free)
    struct mr_worker_task **added = mr_calloc(update->n_tasks, sizeof(struct mr_worker_task *));
    size_t failed = 0;
    mr_error why;

    if (added == NULL) {
        (void)mr_error_nomem(&why);
        complain(w, "(all)", &why);
        return;
    }
    for (size_t i = 0; i < update->n_tasks; i++) {
        Millrace__TaskAssignment *a = update->tasks[i];
        MR_AUTO(mr_worker_task_unref) struct mr_worker_task *known = find_task(w, a->task_id);

        if (known != NULL) {
            if (known->kind->assign != NULL) {
                known->kind->assign(known, a);
            }
            continue;
        }
        mr_log(MR_LOG_DEBUG, "task assigned", "task", "%s", a->task_id, "dataset", "%s",
               a->dataset_id, NULL);
        if (mr_worker_task_list(w, a, kind_of(a), &added[i], &why) < 0) {
            complain(w, a->task_id, &why);
        } else {
            update->tasks[i] = NULL; /* the task's */
        }
    }
    /* When all are in the list: a production lets those in that are there before its pipeline
     * starts. */
    for (size_t i = 0; i < update->n_tasks; i++) {
        if (added[i] != NULL && mr_worker_task_start(added[i], &why) == MR_OK) {
            mr_conn_admit_waiting(w, added[i]);
        } else if (added[i] != NULL && failed++ == 0) {
            complain(w, added[i]->id, &why); /* The others fail for the same reason. */
        }
        mr_worker_task_unref(added[i]);
    }
}

void mr_assignments_apply(struct mr_worker *w, const Millrace__WorkerUpdate *update)
{
    if (update->follows == 0) {
        drop_unlisted(w, update);
        for (struct mr_worker_task *t = NULL; (t = mr_worker_task_next(w, t)) != NULL;) {
            mr_worker_task_hold(t, is_held(update, t));
        }
    }
    for (size_t i = 0; i < update->n_dropped; i++) {
        (void)drop(find_task(w, update->dropped[i]));
    }
    take_assignments(w, update);
    for (size_t i = 0; i < update->n_rounds; i++) {
        change_rounds(w, update->rounds[i]);
    }
    for (size_t i = 0; i < update->n_released_clients; i++) {
        release_client(w, update->released_clients[i]);
    }
}

void mr_assignments_drop(struct mr_worker *w)
{
    drop_unlisted(w, NULL);
}
