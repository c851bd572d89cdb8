/*
 * Task lists, for the clients of an iteration and for a worker: complete for who asks, and then
 * what changes, since a worker has a task in every open iteration and an iteration one on every
 * worker. What changed is composed in the step that changes it and never later, since the state may
 * by then rest on changes that are not committed.
 */
#include "dispatcher/core/internal.h"

#include <string.h>

static void touch(mr_core *core, struct mr_iteration *it)
{
    if (!it->is_touched) {
        it->is_touched = true;
        it->follows = it->version;
        it->version = ++core->versions;
        TAILQ_INSERT_TAIL(&core->touched_iterations, it, touched);
    }
}

void mr_iteration_untouch(mr_core *core, struct mr_iteration *it)
{
    if (it->is_touched) {
        it->is_touched = false;
        TAILQ_REMOVE(&core->touched_iterations, it, touched);
        mr_record_free(it->delta);
        it->delta = NULL;
    }
}

void mr_core_worker_untouch(mr_core *core, struct mr_core_worker *worker)
{
    if (worker->delta != NULL) {
        mr_record_free(worker->delta);
        worker->delta = NULL;
        TAILQ_REMOVE(&core->touched_workers, worker, touched);
    }
}

/* Room for one more pointer in the array *@list of @n: it grows when @n is a power of two. */
static bool make_room(mr_core *core, void *list, size_t n)
{
    void **slot = list;
    void *bigger;

    if ((n & (n - 1)) != 0) {
        return true;
    }
    bigger = mr_reallocarray(*slot, n == 0 ? 1 : 2 * n, sizeof(void *));
    if (bigger == NULL) {
        mr_core_nomem(core);
        return false;
    }
    *slot = bigger;
    return true;
}

/* ---------------------------------------------------------------- for clients */

static Millrace__TaskInfo *task_info(mr_core *core, const struct mr_task *task)
{
    Millrace__TaskInfo *info = mr_core_new_record(core, &millrace__task_info__descriptor);

    if (info != NULL) {
        mr_core_set(core, &info->task_id, task->id);
        mr_core_set(core, &info->worker_address, task->worker->rec->address);
        mr_core_set(core, &info->worker_incarnation, task->worker->rec->incarnation);
        info->attempt = mr_task_attempt(task);
        info->ended = task->state == MR_TASK_ENDED;
        info->lost = task->state == MR_TASK_LOST;
    }
    return info;
}

Millrace__IterationEnd *mr_end_copy(mr_core *core, const Millrace__IterationEnd *end)
{
    Millrace__IterationEnd *copy = mr_core_new_record(core, &millrace__iteration_end__descriptor);

    if (copy != NULL) {
        copy->lost_splits = end->lost_splits;
        copy->lost_elements = end->lost_elements;
        copy->lost_workers = end->lost_workers;
        copy->repeated_splits = end->repeated_splits;
        copy->quarantined_splits = end->quarantined_splits;
        copy->error_code = end->error_code;
        copy->rounds = end->rounds;
        copy->skipped = end->skipped;
        copy->abandoned = end->abandoned;
        mr_core_set(core, &copy->error, end->error);
    }
    return copy;
}

void mr_client_update_fill(mr_core *core, const struct mr_iteration *it,
                           Millrace__ClientUpdate *update)
{
    const struct mr_task *task;
    size_t n = 0;

    update->version = it->version;
    update->finished = it->rec->finished;
    if (it->rec->finished && it->rec->end != NULL) {
        update->end = mr_end_copy(core, it->rec->end);
    }
    if (it->rounds != NULL) {
        update->rounds = mr_rounds_update_of(core, it, true /* with_schedule */);
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        n++;
    }
    update->tasks = mr_calloc(n, sizeof *update->tasks);
    if (update->tasks == NULL) {
        mr_core_nomem(core);
        return;
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        Millrace__TaskInfo *info = task_info(core, task);

        if (info == NULL) {
            return;
        }
        update->tasks[update->n_tasks++] = info;
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
        it->delta = mr_core_new_record(core, &millrace__client_update__descriptor);
    }
    return it->delta;
}

void mr_iteration_note_task(mr_core *core, const struct mr_task *task)
{
    Millrace__ClientUpdate *news = news_of(core, task->iteration);
    Millrace__TaskInfo *info;

    if (news == NULL || !make_room(core, &news->tasks, news->n_tasks)) {
        return;
    }
    info = task_info(core, task);
    if (info != NULL) {
        news->tasks[news->n_tasks++] = info;
    }
}

void mr_iteration_note_finished(mr_core *core, struct mr_iteration *it)
{
    Millrace__ClientUpdate *news = news_of(core, it);

    if (news != NULL) {
        news->finished = true;
        news->end = mr_end_copy(core, it->rec->end);
    }
}

/* The pointers of array *@more go behind those of *@list. False, without memory: both are as they
 * were. */
static bool move_all(void *list, size_t *n, void *more, size_t *n_more)
{
    void **slot = list;
    void **from = more;

    if (*n_more == 0) {
        return true;
    }
    void **both = mr_reallocarray(*slot, *n + *n_more, sizeof(void *));
    if (both == NULL) {
        return false;
    }
    memcpy(both + *n, *from, *n_more * sizeof(void *));
    *slot = both;
    *n += *n_more;
    *n_more = 0;
    return true;
}

bool mr_client_update_join(Millrace__ClientUpdate *update, Millrace__ClientUpdate *next)
{
    if (next->follows != update->version || update->rounds != NULL || next->rounds != NULL ||
        !move_all(&update->tasks, &update->n_tasks, &next->tasks, &next->n_tasks)) {
        return false;
    }
    if (next->finished && !update->finished) {
        update->finished = true;
        update->end = next->end;
        next->end = NULL;
    }
    update->version = next->version;
    protobuf_c_message_free_unpacked(&next->base, NULL);
    return true;
}

/* ---------------------------------------------------------------- for workers */

static bool assign_providers(mr_core *core, const struct mr_iteration *it,
                             Millrace__TaskAssignment *assignment)
{
    assignment->providers = mr_calloc(it->rec->n_providers, sizeof *assignment->providers);
    if (assignment->providers == NULL) {
        mr_core_nomem(core);
        return false;
    }
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        Millrace__ProviderInfo *info =
            mr_core_new_record(core, &millrace__provider_info__descriptor);

        if (info == NULL) {
            return false;
        }
        info->splits = it->rec->providers[i]->splits;
        mr_core_set(core, &info->source, it->rec->providers[i]->source);
        assignment->providers[assignment->n_providers++] = info;
    }
    return true;
}

static void assign_production(mr_core *core, const struct mr_iteration *it,
                              Millrace__TaskAssignment *assignment)
{
    if (it->makes != NULL) {
        mr_core_set(core, &assignment->production, it->makes->rec->id);
        assignment->producing = true;
    } else if (it->uses != NULL) {
        mr_core_set(core, &assignment->production, it->uses->rec->id);
        assignment->joining = it->rec->joining;
        assignment->lag = it->job->rec->lag;
        assignment->unread = it->live_clients == 0;
    }
}

static Millrace__TaskAssignment *assignment_of(mr_core *core, const struct mr_task *task)
{
    Millrace__TaskAssignment *assignment =
        mr_core_new_record(core, &millrace__task_assignment__descriptor);
    const struct mr_iteration *it = task->iteration;

    if (assignment == NULL) {
        return NULL;
    }
    mr_core_set(core, &assignment->task_id, task->id);
    mr_core_set(core, &assignment->iteration_id, it->rec->id);
    mr_core_set(core, &assignment->job_id, it->rec->job_id);
    mr_core_set(core, &assignment->dataset_id, it->dataset->rec->id);
    mr_core_set(core, &assignment->fingerprint, it->dataset->rec->fingerprint);
    assignment->definition_size = it->dataset->rec->definition_size;
    assignment->mode = it->mode;
    assignment->seed = it->rec->seed;
    assignment->repetition = it->rec->repetition;
    assignment->attempt = mr_task_attempt(task);
    if (it->share != NULL) { /* NULL: no memory, which is known already */
        mr_core_set(core, &assignment->host, it->share->host);
    }
    assignment->guarantee = it->guarantee;
    assign_production(core, it, assignment);
    if (it->rounds != NULL) {
        assignment->rounds = mr_rounds_assignment_of(core, task);
    }
    if (it->rec->n_providers > 0) {
        assign_providers(core, it, assignment);
    }
    return assignment;
}

/* The update of this step for @worker, begun if it is the first that it hears; NULL if nobody is
 * there to hear it. */
static Millrace__WorkerUpdate *delta_of(mr_core *core, struct mr_core_worker *worker)
{
    if (!core->ready || !mr_core_worker_is_live(worker)) {
        return NULL;
    }
    if (worker->delta == NULL) {
        worker->delta = mr_core_new_record(core, &millrace__worker_update__descriptor);
        if (worker->delta == NULL) {
            return NULL;
        }
        worker->delta->follows = worker->version;
        worker->version = ++core->versions;
        worker->delta->version = worker->version;
        TAILQ_INSERT_TAIL(&core->touched_workers, worker, touched);
    }
    return worker->delta;
}

static void add_string(mr_core *core, char ***list, size_t *n, const char *s)
{
    if (make_room(core, list, *n)) {
        mr_core_set_element(core, &(*list)[(*n)++], s);
    }
}

/* What was said of it earlier in this step: only a task that reads a production comes twice. */
static void take_back(Millrace__WorkerUpdate *delta, const struct mr_task *task)
{
    for (size_t i = 0; task->iteration->uses != NULL && i < delta->n_tasks; i++) {
        if (strcmp(delta->tasks[i]->task_id, task->id) == 0) {
            mr_record_free(delta->tasks[i]);
            delta->n_tasks--;
            memmove(delta->tasks + i, delta->tasks + i + 1,
                    (delta->n_tasks - i) * sizeof(delta->tasks[0]));
            return;
        }
    }
}

void mr_core_worker_note_task(mr_core *core, const struct mr_task *task)
{
    Millrace__WorkerUpdate *delta = delta_of(core, task->worker);
    Millrace__TaskAssignment *assignment;

    if (delta == NULL) {
        return;
    }
    take_back(delta, task);
    assignment = assignment_of(core, task);
    if (assignment == NULL || !make_room(core, &delta->tasks, delta->n_tasks)) {
        mr_record_free(assignment);
        return;
    }
    delta->tasks[delta->n_tasks++] = assignment;
}

/* Its horizon, its turns or its consumers have changed. */
static void note_turns(mr_core *core, const struct mr_task *task)
{
    Millrace__WorkerUpdate *delta = delta_of(core, task->worker);
    Millrace__RoundChange *change;

    if (delta == NULL || !make_room(core, &delta->rounds, delta->n_rounds)) {
        return;
    }
    change = mr_core_new_record(core, &millrace__round_change__descriptor);
    if (change != NULL) {
        mr_core_set(core, &change->task_id, task->id);
        change->rounds = mr_rounds_assignment_of(core, task);
        delta->rounds[delta->n_rounds++] = change;
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
    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        if (task->state == MR_TASK_OPEN) {
            note_turns(core, task);
        }
    }
    it->rounds->moved = false;
    it->rounds->turned = false;
}

void mr_iteration_note_assignments(mr_core *core, const struct mr_iteration *it)
{
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        if (task->state == MR_TASK_OPEN) {
            mr_core_worker_note_task(core, task);
        }
    }
}

void mr_core_worker_note_dropped(mr_core *core, const struct mr_task *task)
{
    Millrace__WorkerUpdate *delta = delta_of(core, task->worker);

    if (delta == NULL) {
        return;
    }
    take_back(delta, task);
    add_string(core, &delta->dropped, &delta->n_dropped, task->id);
}

void mr_iteration_note_released(mr_core *core, const struct mr_iteration *it, const char *client)
{
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        Millrace__WorkerUpdate *delta = delta_of(core, task->worker);

        if (delta != NULL) {
            add_string(core, &delta->released_clients, &delta->n_released_clients, client);
        }
    }
}

/* Clients that have left the iterations of this worker's tasks. */
static void list_released(mr_core *core, const struct mr_core_worker *worker,
                          Millrace__WorkerUpdate *update)
{
    const struct mr_client *client;
    const struct mr_task *task;
    size_t n = 0;

    TAILQ_FOREACH(task, &worker->tasks, in_worker)
    {
        TAILQ_FOREACH(client, &task->iteration->clients, in_iteration)
        {
            n += client->rec->released ? 1 : 0;
        }
    }
    n = n < MR_RELEASED_LISTED_MAX ? n : MR_RELEASED_LISTED_MAX;
    update->released_clients = mr_calloc(n, sizeof *update->released_clients);
    if (update->released_clients == NULL) {
        mr_core_nomem(core);
        return;
    }
    TAILQ_FOREACH(task, &worker->tasks, in_worker)
    {
        TAILQ_FOREACH(client, &task->iteration->clients, in_iteration)
        {
            if (client->rec->released && update->n_released_clients < n) {
                char **slot = &update->released_clients[update->n_released_clients++];

                mr_core_set_element(core, slot, client->rec->client);
            }
        }
    }
}

static void add_held(void *ctx, mr_core *core, const char *iteration)
{
    Millrace__WorkerUpdate *update = ctx;

    add_string(core, &update->held, &update->n_held, iteration);
}

void mr_core_worker_update_fill(mr_core *core, const struct mr_core_worker *worker,
                                Millrace__WorkerUpdate *update)
{
    const struct mr_task *task;
    size_t n = 0;

    update->version = worker->version;
    TAILQ_FOREACH(task, &worker->tasks, in_worker)
    {
        n += task->state == MR_TASK_OPEN ? 1 : 0;
    }
    update->tasks = mr_calloc(n, sizeof *update->tasks);
    if (update->tasks == NULL) {
        mr_core_nomem(core);
        return;
    }
    TAILQ_FOREACH(task, &worker->tasks, in_worker)
    {
        if (task->state != MR_TASK_OPEN) {
            continue;
        }
        Millrace__TaskAssignment *assignment = assignment_of(core, task);

        if (assignment == NULL) {
            return;
        }
        update->tasks[update->n_tasks++] = assignment;
    }
    list_released(core, worker, update);
    mr_core_each_held(core, add_held, update);
}

/* A worker takes what an update drops before what it adds, and who is gone last: of two updates
 * that is another order than one after the other, unless the second one has only the last. */
bool mr_core_worker_update_join(Millrace__WorkerUpdate *update, Millrace__WorkerUpdate *next)
{
    if (next->follows != update->version || next->n_tasks + next->n_dropped + next->n_rounds > 0 ||
        !move_all(&update->released_clients, &update->n_released_clients, &next->released_clients,
                  &next->n_released_clients)) {
        return false;
    }
    update->version = next->version;
    protobuf_c_message_free_unpacked(&next->base, NULL);
    return true;
}

/* ---------------------------------------------------------------- at the end of a step */

void mr_core_push_touched(mr_core *core)
{
    struct mr_iteration *it;
    struct mr_core_worker *worker;

    while (core->failed == 0 && (it = TAILQ_FIRST(&core->touched_iterations)) != NULL) {
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
    while (core->failed == 0 && (worker = TAILQ_FIRST(&core->touched_workers)) != NULL) {
        Millrace__WorkerUpdate *delta = worker->delta;

        worker->delta = NULL;
        TAILQ_REMOVE(&core->touched_workers, worker, touched);
        if (mr_core_worker_is_live(worker)) {
            mr_core_push(core, MR_EFFECT_PUSH_WORKER, worker->rec->incarnation, &delta->base);
        } else {
            mr_record_free(delta);
        }
    }
}
