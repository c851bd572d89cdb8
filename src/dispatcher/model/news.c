/* What the clients of an iteration and a worker hear at the end of a step: what has changed, since
 * a worker has a task in every open iteration and an iteration one on every worker. It is composed
 * in the step that changes it and never later, since the state may by then rest on changes that are
 * not committed. */
#include "dispatcher/model/model.h"

static void touch(mr_core *core, struct mr_iteration *it)
{
    if (!it->is_touched) {
        it->is_touched = true;
        it->follows = it->version;
        it->version = ++core->versions;
        TAILQ_INSERT_TAIL(&core->changed_iterations, it, touched);
    }
}

void mr_iteration_untouch(mr_core *core, struct mr_iteration *it)
{
    if (it->is_touched) {
        it->is_touched = false;
        TAILQ_REMOVE(&core->changed_iterations, it, touched);
        mr_record_free(it->delta);
        it->delta = NULL;
    }
}

void mr_core_worker_untouch(mr_core *core, struct mr_core_worker *worker)
{
    if (worker->delta != NULL) {
        mr_record_free(worker->delta);
        worker->delta = NULL;
        TAILQ_REMOVE(&core->changed_workers, worker, touched);
    }
}

/* The update of this step for those who watch @it; NULL if nobody does. */
static Millrace__ClientUpdate *news_of(mr_core *core, struct mr_iteration *it)
{
    if (!core->ready) {
        return NULL;
    }
    touch(core, it);
    if (it->delta == NULL && it->live_clients > 0) {
        it->delta = MR_NEW_RECORD(core, client_update);
    }
    return it->delta;
}

void mr_iteration_note_task(mr_core *core, const struct mr_task *task)
{
    Millrace__ClientUpdate *news = news_of(core, task->iteration);

    if (news != NULL) {
        MR_APPEND(core, news, tasks, mr_task_info(core, task));
    }
}

void mr_iteration_note_finished(mr_core *core, struct mr_iteration *it)
{
    Millrace__ClientUpdate *news = news_of(core, it);

    if (news != NULL) {
        news->finished = true;
        news->end = mr_core_copy(core, &it->rec->end->base);
    }
}

/* The update of this step for @worker, begun if it is the first that it hears; NULL if nobody is
 * there to hear it. */
static Millrace__WorkerUpdate *delta_of(mr_core *core, struct mr_core_worker *worker)
{
    if (!core->ready || !mr_core_worker_is_live(worker)) {
        return NULL;
    }
    if (worker->delta == NULL) {
        worker->delta = MR_NEW_RECORD(core, worker_update);
        if (worker->delta == NULL) {
            return NULL;
        }
        worker->delta->follows = worker->version;
        worker->version = ++core->versions;
        worker->delta->version = worker->version;
        TAILQ_INSERT_TAIL(&core->changed_workers, worker, touched);
    }
    return worker->delta;
}

/* What was said of it earlier in this step: only a task that reads a production comes twice. */
static void take_back(Millrace__WorkerUpdate *delta, const struct mr_task *task)
{
    for (size_t i = 0; task->iteration->uses != NULL && i < delta->n_tasks; i++) {
        if (strcmp(delta->tasks[i]->task_id, task->id) == 0) {
            MR_REMOVE_RECORD(delta, tasks, i);
            return;
        }
    }
}

void mr_core_worker_note_task(mr_core *core, const struct mr_task *task)
{
    Millrace__WorkerUpdate *delta = delta_of(core, task->worker);

    if (delta != NULL) {
        take_back(delta, task);
        MR_APPEND(core, delta, tasks, mr_task_assignment(core, task));
    }
}

/* Its horizon, its turns or its consumers have changed. */
static void note_turns(mr_core *core, const struct mr_task *task)
{
    Millrace__WorkerUpdate *delta = delta_of(core, task->worker);
    Millrace__RoundChange *change =
        delta != NULL ? MR_ADD_RECORD(core, delta, rounds, round_change) : NULL;

    if (change != NULL) {
        mr_core_set(core, &change->task_id, task->id);
        change->rounds = mr_rounds_assignment_of(core, task);
    }
}

void mr_iteration_note_rounds(mr_core *core, struct mr_iteration *it)
{
    news_of(core, it);
}

/* What consumers and their workers hear of the rounds. */
static void fill_rounds(mr_core *core, struct mr_iteration *it, Millrace__ClientUpdate *news)
{
    const struct mr_task *task;

    if (news != NULL) {
        news->rounds = mr_rounds_update_of(core, it, it->rounds->turned);
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        if (task->state == MR_TASK_OPEN) {
            note_turns(core, task);
        }
    }
    it->rounds->moved = false;
    it->rounds->turned = false;
}

void mr_iteration_note_assignments(mr_core *core, struct mr_iteration *it)
{
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        if (task->state == MR_TASK_OPEN) {
            mr_core_worker_note_task(core, task);
        }
    }
}

void mr_core_worker_note_dropped(mr_core *core, const struct mr_task *task)
{
    Millrace__WorkerUpdate *delta = delta_of(core, task->worker);

    if (delta != NULL) {
        take_back(delta, task);
        mr_core_append_string(core, &delta->dropped, &delta->n_dropped, task->id);
    }
}

void mr_iteration_note_released(mr_core *core, const struct mr_iteration *it, const char *client)
{
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        Millrace__WorkerUpdate *delta = delta_of(core, task->worker);

        if (delta != NULL) {
            mr_core_append_string(core, &delta->released_clients, &delta->n_released_clients,
                                  client);
        }
    }
}

void mr_core_push_touched(mr_core *core)
{
    struct mr_iteration *it;
    struct mr_core_worker *worker;

    while (core->failed == 0 && (it = TAILQ_FIRST(&core->changed_iterations)) != NULL) {
        Millrace__ClientUpdate *news = it->delta;

        it->delta = NULL;
        mr_iteration_untouch(core, it);
        if (it->rounds != NULL && it->rounds->moved) {
            fill_rounds(core, it, news);
        }
        if (news == NULL) {
            continue; /* Who attaches later watches, and gets the list then. */
        }
        news->follows = it->follows;
        news->version = it->version;
        mr_core_push(core, MR_EFFECT_PUSH_ITERATION, it->rec->id, &news->base);
    }
    while (core->failed == 0 && (worker = TAILQ_FIRST(&core->changed_workers)) != NULL) {
        Millrace__WorkerUpdate *delta = worker->delta;

        worker->delta = NULL;
        TAILQ_REMOVE(&core->changed_workers, worker, touched);
        if (mr_core_worker_is_live(worker)) {
            mr_core_push(core, MR_EFFECT_PUSH_WORKER, worker->rec->incarnation, &delta->base);
        } else {
            mr_record_free(delta);
        }
    }
}
