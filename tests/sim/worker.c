/* A worker: registers, watches its tasks, asks for splits and says when a task has ended. */
#include "sim.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <millrace/dataset.h>
#include <string.h>

static void heartbeat_later(struct sim *sim, struct sim_worker *worker);

static void do_register(struct sim *sim, struct sim_worker *worker)
{
    Millrace__RegisterWorkerRequest request = MILLRACE__REGISTER_WORKER_REQUEST__INIT;

    worker->registered = false;
    worker->stream = 0;
    request.incarnation = worker->incarnation;
    request.address = worker->address;
    sim_call(sim, &worker->control, true, worker->number, MR_COMMAND_REGISTER_WORKER, &request.base);
}

static void do_watch(struct sim *sim, struct sim_worker *worker)
{
    Millrace__WatchWorkerRequest request = MILLRACE__WATCH_WORKER_REQUEST__INIT;

    request.incarnation = worker->incarnation;
    sim_call(sim, &worker->control, true, worker->number, MR_COMMAND_WATCH_WORKER, &request.base);
}

static void heartbeat(struct sim *sim, void *arg)
{
    struct sim_worker *worker = arg;
    Millrace__WorkerHeartbeatRequest request = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;

    if (worker->control.id == 0 && worker->registered) {
        request.incarnation = worker->incarnation;
        sim_call(sim, &worker->control, true, worker->number, MR_COMMAND_WORKER_HEARTBEAT, &request.base);
    }
}

static void heartbeat_later(struct sim *sim, struct sim_worker *worker)
{
    sim_after(sim, SIM_HEARTBEAT_MS, &worker->process, heartbeat, worker, false);
}

/* ---------------------------------------------------------------- tasks */

static void drop_task(struct sim_task *task)
{
    sim_call_cancel(&task->call);
    uint64_t busy = task->busy;

    memset(task, 0, sizeof *task);
    task->busy = busy + 1;
}

static void ask_for_splits(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    Millrace__GetSplitsRequest request = MILLRACE__GET_SPLITS_REQUEST__INIT;

    task->work = SIM_WORK_SPLITS;
    request.incarnation = worker->incarnation;
    request.task_id = task->id;
    request.iteration_id = task->iteration;
    request.provider = (uint32_t)task->provider;
    request.repetition = task->repetition;
    request.seq = ++task->seq[task->provider];
    request.want = sim->plain ? 20 : sim_draw(sim, 3) * 4;
    sim_call(sim, &task->call, true, worker->number, MR_COMMAND_GET_SPLITS, &request.base);
}

static void say_ended(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;

    task->work = SIM_WORK_ENDING;
    request.incarnation = worker->incarnation;
    request.task_id = task->id;
    sim_call(sim, &task->call, true, worker->number, MR_COMMAND_TASK_ENDED, &request.base);
}

struct work_done {
    struct sim_worker *worker;
    struct sim_task *task;
    uint64_t busy;
};

static void work_done(struct sim *sim, void *arg)
{
    struct work_done *done = arg;

    if (done->task->busy != done->busy || done->task->work != SIM_WORK_BUSY) {
        return;
    }
    if (done->task->dynamic) {
        ask_for_splits(sim, done->worker, done->task);
    } else {
        say_ended(sim, done->worker, done->task);
    }
}

static void be_busy(struct sim *sim, struct sim_worker *worker, struct sim_task *task, int64_t ms)
{
    struct work_done *done = mr_malloc(sizeof *done);

    task->work = SIM_WORK_BUSY;
    *done = (struct work_done){worker, task, ++task->busy};
    sim_after(sim, ms, &worker->process, work_done, done, true);
}

static void begin_task(struct sim *sim, struct sim_worker *worker, const Millrace__TaskAssignment *assignment)
{
    struct sim_task *task = NULL;

    for (int i = 0; i < SIM_TASKS_MAX && task == NULL; i++) {
        task = worker->tasks[i].work == SIM_WORK_NONE ? &worker->tasks[i] : NULL;
    }
    MR_ASSERT(task != NULL);
    snprintf(task->id, sizeof task->id, "%s", assignment->task_id);
    snprintf(task->iteration, sizeof task->iteration, "%s", assignment->iteration_id);
    task->dynamic = assignment->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    task->nproviders = assignment->n_providers;
    for (size_t i = 0; i < task->nproviders; i++) {
        task->splits[i] = assignment->providers[i]->splits;
    }
    task->passes = 1;
    for (int i = 0; i < SIM_DATASETS; i++) {
        if (strcmp(sim->datasets[i].id, assignment->dataset_id) == 0) {
            task->passes = sim->datasets[i].passes;
        }
    }
    if (task->dynamic) {
        ask_for_splits(sim, worker, task);
    } else {
        be_busy(sim, worker, task, sim->plain ? 1000 : (int64_t)(50 + sim_draw(sim, 3000)));
    }
}

/* A list that is complete: what it does not name is dropped; else what it says. */
static bool is_over(const Millrace__WorkerUpdate *update, const struct sim_task *task)
{
    bool listed = false, dropped = false;

    for (size_t t = 0; t < update->n_tasks; t++) {
        listed = listed || strcmp(update->tasks[t]->task_id, task->id) == 0;
    }
    for (size_t t = 0; t < update->n_dropped; t++) {
        dropped = dropped || strcmp(update->dropped[t], task->id) == 0;
    }
    return update->follows == 0 ? !listed : dropped;
}

static void apply_update(struct sim *sim, struct sim_worker *worker, const Millrace__WorkerUpdate *update)
{
    worker->version = update->version;
    sim_check_worker_update(sim, worker, update);
    for (int i = 0; i < SIM_TASKS_MAX; i++) {
        if (worker->tasks[i].work != SIM_WORK_NONE && is_over(update, &worker->tasks[i])) {
            drop_task(&worker->tasks[i]);
        }
    }
    for (size_t t = 0; t < update->n_tasks; t++) {
        bool known = false;

        for (int i = 0; i < SIM_TASKS_MAX; i++) {
            known = known || (worker->tasks[i].work != SIM_WORK_NONE &&
                              strcmp(update->tasks[t]->task_id, worker->tasks[i].id) == 0);
        }
        if (!known) {
            begin_task(sim, worker, update->tasks[t]);
        }
    }
}

void sim_worker_push(struct sim *sim, struct sim_worker *worker, const struct sim_message *message)
{
    Millrace__WorkerUpdate *update = millrace__worker_update__unpack(NULL, message->size, message->body);

    if (worker->registered && worker->stream == message->stream && update->follows == worker->version) {
        apply_update(sim, worker, update);
    }
    millrace__worker_update__free_unpacked(update, NULL);
}

/* The next of the (provider, repetition) pairs; false after the last. */
static bool advance(struct sim_task *task)
{
    if (++task->repetition < task->passes) {
        return true;
    }
    task->repetition = 0;
    return ++task->provider < task->nproviders;
}

static void splits_came(struct sim *sim, struct sim_worker *worker, struct sim_task *task, const struct sim_call *call,
                        const struct sim_message *message)
{
    Millrace__GetSplitsReply *reply;

    (void)call;
    if (message->error.code == MR_ERANGE) { /* nobody else believes to be this task */
        sim_violation(sim, "worker %d: %s", worker->number, message->error.message);
        return;
    }
    if (message->error.code < 0) {
        task->work = SIM_WORK_DONE; /* it is gone: the next update says so */
        return;
    }
    reply = millrace__get_splits_reply__unpack(NULL, message->size, message->body);
    sim_check_grant(sim, task, task->seq[task->provider], reply);
    worker->last_ok = call->began;
    if (!reply->end) {
        be_busy(sim, worker, task, (int64_t)(reply->ranges[0]->count * (1 + (sim->plain ? 99 : sim_draw(sim, 60)))));
    } else if (advance(task)) {
        ask_for_splits(sim, worker, task);
    } else {
        say_ended(sim, worker, task);
    }
    millrace__get_splits_reply__free_unpacked(reply, NULL);
}

static void task_reply(struct sim *sim, struct sim_worker *worker, struct sim_call *call,
                       const struct sim_message *message)
{
    for (int i = 0; i < SIM_TASKS_MAX; i++) {
        struct sim_task *task = &worker->tasks[i];

        if (&task->call != call) {
            continue;
        }
        if (message->kind == MR_COMMAND_GET_SPLITS) {
            splits_came(sim, worker, task, call, message);
        } else {
            if (message->error.code == MR_OK) {
                sim_check_ended(sim, task);
            }
            task->work = SIM_WORK_DONE;
        }
    }
}

/* ---------------------------------------------------------------- the process */

static void restart(struct sim *sim, void *arg)
{
    struct sim_worker *worker = arg;

    sim_worker_stop(sim, worker);
    sim_worker_start(sim, worker);
}

static void control_failed(struct sim *sim, struct sim_worker *worker, const struct sim_message *message)
{
    if (message->error.code == MR_EPRECOND) { /* superseded */
        sim_after(sim, 1000, &worker->process, restart, worker, false);
        return;
    }
    if (message->error.code != MR_ENOTFOUND) {
        sim_violation(sim, "worker %d: %s", worker->number, message->error.message);
        return;
    }
    sim_check_worker_gone(sim, worker);
    sim_rare(sim, SIM_RARE_WORKER_BACK);
    do_register(sim, worker);
}

void sim_worker_reply(struct sim *sim, struct sim_worker *worker, struct sim_call *call,
                      const struct sim_message *message)
{
    if (call != &worker->control) {
        task_reply(sim, worker, call, message);
        return;
    }
    if (message->error.code < 0) {
        control_failed(sim, worker, message);
        return;
    }
    worker->last_ok = call->began;
    if (message->kind == MR_COMMAND_REGISTER_WORKER) {
        worker->registered = true;
        sim_check_registered(sim, worker);
        do_watch(sim, worker);
    } else if (message->kind == MR_COMMAND_WATCH_WORKER) {
        Millrace__WorkerUpdate *update = millrace__worker_update__unpack(NULL, message->size, message->body);

        worker->stream = message->call;
        worker->stream_epoch = message->epoch;
        apply_update(sim, worker, update);
        millrace__worker_update__free_unpacked(update, NULL);
        heartbeat_later(sim, worker);
    } else {
        Millrace__WorkerHeartbeatReply *reply =
            millrace__worker_heartbeat_reply__unpack(NULL, message->size, message->body);

        if (worker->stream == 0 || message->epoch != worker->stream_epoch || reply->version != worker->version) {
            do_watch(sim, worker); /* the stream broke, or a push was lost */
        } else {
            heartbeat_later(sim, worker);
        }
        millrace__worker_heartbeat_reply__free_unpacked(reply, NULL);
    }
}

void sim_worker_start(struct sim *sim, struct sim_worker *worker)
{
    if (worker->process.alive) {
        return;
    }
    worker->process.alive = true;
    worker->process.life++;
    worker->process.frozen_until = 0;
    worker->epoch = 0;
    worker->stream = 0;
    sim_hex_id(sim, worker->incarnation);
    /* Half the restarts are at the same address. */
    worker->addresses += worker->addresses == 0 || sim_chance(sim, 50) ? 1 : 0;
    snprintf(worker->address, sizeof worker->address, "host%d:%u", worker->number, worker->addresses);
    worker->leader = sim->plain ? 0 : (int)sim_draw(sim, SIM_REPLICAS);
    sim_name(sim, worker->incarnation, 'w', worker->number);
    sim_say(sim, "worker %d: starts at %s", worker->number, worker->address);
    do_register(sim, worker);
}

void sim_worker_stop(struct sim *sim, struct sim_worker *worker)
{
    sim_say(sim, "worker %d: stops", worker->number);
    worker->process.alive = false;
    worker->process.life++;
    sim_call_cancel(&worker->control);
    for (int i = 0; i < SIM_TASKS_MAX; i++) {
        drop_task(&worker->tasks[i]);
    }
}
