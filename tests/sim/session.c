/*
 * Sessions: what each client gets of a task, in which order, how far it has come, and what becomes
 * of the rest when it is gone.
 */
#include "grow.h"
#include "sim.h"

#include <millrace/base.h>
#include <string.h>

static struct sim_session *find_session(struct sim_task *task, const char *client, uint64_t number)
{
    for (size_t i = 0; i < task->nsessions; i++) {
        if (task->sessions[i].number == number && strcmp(task->sessions[i].client, client) == 0) {
            return &task->sessions[i];
        }
    }
    return NULL;
}

static bool was_released(const struct sim_task *task, const char *client)
{
    for (size_t i = 0; i < task->nreleased; i++) {
        if (strcmp(task->released[i], client) == 0) {
            return true;
        }
    }
    return false;
}

void sim_task_release(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                      const char *client)
{
    if (!was_released(task, client)) {
        MORE(task->released, task->cap_released, task->nreleased);
        snprintf(task->released[task->nreleased++], sizeof task->released[0], "%s", client);
    }
    for (size_t i = 0; i < task->nsessions; i++) {
        struct sim_session *session = &task->sessions[i];

        if (session->over || strcmp(session->client, client) != 0) {
            continue;
        }
        session->over = true;
        for (size_t k = task->until_returned ? session->returned : session->received;
             k < session->n; k++) {
            if (task->until_returned) {
                sim_rare(sim, SIM_RARE_REDELIVERED);
                sim_view_redelivered(sim, task->iteration, &task->elements[session->list[k]]);
                MORE(task->ready, task->cap_ready, task->nready);
                task->ready[task->nready++] = session->list[k];
            } else {
                sim_task_let_go(task, session->list[k]); /* it may have had them */
            }
        }
    }
    sim_task_go_on(sim, worker, task);
}

/* How far it has come: cumulative, so that it does not matter which of several messages gets
 * here. */
static void acknowledge(struct sim_task *task, struct sim_session *session,
                        const struct sim_data *ask)
{
    for (; session->received < ask->received && session->received < session->n;
         session->received++) {
        task->grants[task->elements[session->list[session->received]].grant].unsent--;
        if (!task->until_returned) {
            sim_task_let_go(task, session->list[session->received]);
        }
    }
    for (; session->returned < ask->returned && session->returned < session->received;
         session->returned++) {
        if (task->until_returned) {
            sim_task_let_go(task, session->list[session->returned]);
        }
    }
}

static void answer(struct sim *sim, const struct sim_data *ask, const struct sim_task *task,
                   const struct sim_session *session, enum sim_data_status status)
{
    size_t n = session != NULL && ask->received < session->n ? session->n - ask->received : 0;
    struct sim_data *data = mr_calloc(1, sizeof *data + n * sizeof data->elements[0]);

    MR_ASSERT(data != NULL);
    *data = *ask;
    data->reply = true;
    data->status = status;
    data->first = ask->received;
    data->n = n;
    for (size_t i = 0; i < n; i++) {
        data->elements[i] = task->elements[session->list[ask->received + i]];
    }
    sim_data_send(sim, data);
    mr_free(data);
}

/* Whom the dispatcher said to be gone may be attached again, or not know of it: the next list
 * tells. */
static struct sim_session *new_session(struct sim *sim, struct sim_worker *worker,
                                       struct sim_task *task, const struct sim_data *ask)
{
    struct sim_session *session;

    if (was_released(task, ask->client_id)) {
        sim_rare(sim, SIM_RARE_RELEASED_BEFORE);
        worker->stream = 0;
    }
    MORE(task->sessions, task->cap_sessions, task->nsessions);
    session = &task->sessions[task->nsessions++];
    *session = (struct sim_session){.number = ask->session};
    snprintf(session->client, sizeof session->client, "%s", ask->client_id);
    return session;
}

static void serve(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                  const struct sim_data *ask)
{
    struct sim_session *session = find_session(task, ask->client_id, ask->session);

    if (session == NULL && ask->received == 0) {
        session = new_session(sim, worker, task, ask);
    }
    if (session == NULL || session->over) {
        answer(sim, ask, task, NULL, SIM_DATA_OVER);
        return;
    }
    acknowledge(task, session, ask);
    if (task->reads && session->n + task->nready < ask->limit) {
        sim_share_pull(sim, worker, task, ask->limit - session->n - task->nready);
    }
    while (session->n < ask->limit && task->nready > 0) {
        MORE(session->list, session->cap, session->n);
        session->list[session->n++] = task->ready[0];
        memmove(task->ready, task->ready + 1, --task->nready * sizeof task->ready[0]);
    }
    answer(sim, ask, task, session, SIM_DATA_OK);
    sim_task_go_on(sim, worker, task);
}

void sim_task_data(struct sim *sim, struct sim_worker *worker, const struct sim_data *ask)
{
    for (int i = 0; i < worker->used; i++) {
        struct sim_task *task = &worker->tasks[i];

        if (task->work != SIM_WORK_NONE && strcmp(task->id, ask->task) == 0) {
            serve(sim, worker, task, ask);
            return;
        }
    }
    answer(sim, ask, NULL, NULL, SIM_DATA_MOVED);
}
