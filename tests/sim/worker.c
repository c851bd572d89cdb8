/* A worker: registers, watches its tasks, asks for splits and says when a task has ended. */
#include "sim.h"

#define CLUSTER "c"
#define CLUSTER_INCARNATION "1"
#define DRAIN_MS 30000 /* that it takes when it was told to drain */

static void go_on(struct sim *sim, struct sim_worker *worker);

/* ---------------------------------------------------------------- what it says */

static void do_register(struct sim *sim, struct sim_worker *worker)
{
    Millrace__RegisterWorkerRequest request = MILLRACE__REGISTER_WORKER_REQUEST__INIT;

    worker->stream = 0;
    request.incarnation = worker->incarnation;
    request.address = worker->address;
    sim_call(sim, &worker->control, true, worker->number, MR_COMMAND_REGISTER_WORKER,
             &request.base);
}

static void do_watch(struct sim *sim, struct sim_worker *worker)
{
    Millrace__WatchWorkerRequest request = MILLRACE__WATCH_WORKER_REQUEST__INIT;

    request.incarnation = worker->incarnation;
    sim_call(sim, &worker->control, true, worker->number, MR_COMMAND_WATCH_WORKER, &request.base);
}

/* What a heartbeat says of a task. */
struct said {
    Millrace__TaskProgress base;
    Millrace__JoinAnswer join;
    Millrace__GrantReport *list[SIM_PROVIDERS_MAX];
    struct mr_grant_report *reports;
};

static bool say(struct sim *sim, struct sim_worker *worker, const struct sim_task *task,
                struct said *said)
{
    *said =
        (struct said){.base = MILLRACE__TASK_PROGRESS__INIT, .join = MILLRACE__JOIN_ANSWER__INIT};
    said->base.task_id = (char *)(uintptr_t)task->id;
    if (task->work == SIM_WORK_NONE) {
        return false;
    }
    /* Reports are cumulative: it is enough that one comes now and then. */
    if (task->repeats && (sim->plain || sim_chance(sim, sim->report_percent))) {
        said->reports = sim_task_reports(task, &said->base.n_reports);
        for (size_t i = 0; i < said->base.n_reports; i++) {
            said->list[i] = &said->reports[i].base;
        }
        said->base.reports = said->list;
    }
    if (task->reads && sim_share_answer(sim, worker, task, &said->join)) {
        said->base.join = &said->join;
    }
    return said->base.n_reports > 0 || said->base.join != NULL;
}

static void do_beat(struct sim *sim, struct sim_worker *worker)
{
    Millrace__WorkerHeartbeatRequest request = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    struct said *said = sim_got(mr_calloc((size_t)worker->used + 1, sizeof *said));
    Millrace__TaskProgress *list[SIM_TASKS_MAX];

    mr_registration_beats(&worker->registration);
    request.draining = worker->draining;
    request.leaving = worker->leaving;
    worker->said_draining = worker->draining;
    request.incarnation = worker->incarnation;
    request.tasks = list;
    for (int i = 0; i < worker->used; i++) {
        if (say(sim, worker, &worker->tasks[i], &said[i])) {
            list[request.n_tasks++] = &said[i].base;
        }
    }
    sim_call(sim, &worker->control, true, worker->number, MR_COMMAND_WORKER_HEARTBEAT,
             &request.base);
    for (int i = 0; i < worker->used; i++) {
        mr_free(said[i].reports);
    }
    mr_free(said);
}

/* ---------------------------------------------------------------- tasks */

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

static void drop(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    char production[sizeof task->production];
    bool reading = task->reads;

    snprintf(production, sizeof production, "%s", task->production);
    sim_share_drop(worker, task);
    sim_task_drop(task);
    if (reading) {
        sim_share_left(sim, worker, production);
    }
}

static void apply_update(struct sim *sim, struct sim_worker *worker,
                         const Millrace__WorkerUpdate *update)
{
    if (mr_registration_update(&worker->registration, CLUSTER_INCARNATION, worker->epoch,
                               update->follows) != MR_REGISTRATION_APPLY) {
        sim_rare(sim, SIM_RARE_UPDATE_MISSED);
        return;
    }
    sim_check_worker_update(sim, worker, update);
    for (struct sim_task *task = NULL; (task = sim_next_task(worker, task)) != NULL;) {
        if (is_over(update, task)) {
            drop(sim, worker, task);
        }
    }
    for (struct sim_task *task = NULL; (task = sim_next_task(worker, task)) != NULL;) {
        for (size_t c = 0; c < update->n_released_clients; c++) {
            sim_task_release(sim, worker, task, update->released_clients[c]);
        }
    }
    for (size_t t = 0; t < update->n_tasks; t++) {
        struct sim_task *known = sim_find_task(worker, update->tasks[t]->task_id);

        if (known != NULL && known->rounds != NULL) {
            sim_rounds_assign(sim, worker, known, update->tasks[t]->rounds);
        } else if (known != NULL) {
            sim_share_change(sim, worker, known, update->tasks[t]);
        } else {
            sim_task_begin(sim, worker, update->tasks[t]);
        }
    }
    for (size_t i = 0; i < update->n_rounds; i++) {
        struct sim_task *task = sim_find_task(worker, update->rounds[i]->task_id);

        if (task != NULL && task->rounds != NULL) {
            sim_rounds_assign(sim, worker, task, update->rounds[i]->rounds);
        }
    }
    sim_share_open_readers(sim, worker);
    mr_registration_applied(&worker->registration, update->version);
}

static void on_push(struct sim *sim, const struct sim_message *message)
{
    struct sim_worker *worker = &sim->workers[message->actor];
    Millrace__WorkerUpdate *update =
        millrace__worker_update__unpack(NULL, message->size, message->body);

    if (worker->stream != 0 && worker->stream == message->stream) {
        apply_update(sim, worker, update);
    }
    millrace__worker_update__free_unpacked(update, NULL);
    go_on(sim, worker);
}

static void task_reply(struct sim *sim, struct sim_worker *worker, struct sim_call *call,
                       const struct sim_message *message)
{
    for (int i = 0; i < worker->used; i++) {
        if (&worker->tasks[i].call == call) {
            sim_task_reply(sim, worker, &worker->tasks[i], call, message);
        }
    }
}

/* ---------------------------------------------------------------- the process */

void sim_worker_again(struct sim *sim, void *arg)
{
    sim_worker_start(sim, arg);
}

static void restart(struct sim *sim, void *arg)
{
    struct sim_worker *worker = arg;

    sim_worker_stop(sim, worker);
    sim_worker_start(sim, worker);
}

/* ---------------------------------------------------------------- draining */

void sim_worker_drain(struct sim *sim, struct sim_worker *worker, int64_t ms)
{
    if (!worker->process.alive || worker->draining) {
        return;
    }
    sim_say(sim, "worker %d: drains", worker->number);
    worker->draining = true;
    mr_registration_want_beat(&worker->registration);
    worker->drain_until = sim->now + ms;
    sim_moment(sim, SIM_MOMENT_DRAINING, worker, NULL);
    for (int i = 0; i < worker->used; i++) {
        sim_task_drain(sim, worker, &worker->tasks[i]);
    }
}

static bool has_open_tasks(struct sim_worker *worker)
{
    for (struct sim_task *task = NULL; (task = sim_next_task(worker, task)) != NULL;) {
        if (task->work != SIM_WORK_DONE && !task->producing) { /* which has no end of its own */
            return true;
        }
    }
    return false;
}

/* The dispatcher knows that it drains, and it knows all tasks that it was given. */
static void leave_if_through(struct sim *sim, struct sim_worker *worker)
{
    bool through = !has_open_tasks(worker);

    if (!through && sim->now < worker->drain_until) {
        return;
    }
    worker->leaving = true;
    sim_rare(sim, through ? SIM_RARE_DRAINED : SIM_RARE_DRAIN_TIMEOUT);
    if (through) {
        sim_check_leaves_clean(sim, worker);
    }
}

static void left(struct sim *sim, struct sim_worker *worker)
{
    sim_worker_stop(sim, worker);
    sim_after(sim, 1000 + (int64_t)(sim->plain ? 0 : sim_draw(sim, 2000)), NULL, sim_worker_again,
              worker, false);
}

/* What it reads kills it; something starts it again. */
static void on_crash(struct sim *sim, int number)
{
    struct sim_worker *worker = &sim->workers[number];

    sim_say(sim, "worker %d: crashes", worker->number);
    left(sim, worker);
}

/* ---------------------------------------------------------------- what it is told */

static void control_failed(struct sim *sim, struct sim_worker *worker,
                           const struct sim_message *message)
{
    int code = message->error.code;

    if (worker->leaving) { /* that it left was known, the answer was lost */
        left(sim, worker);
        return;
    }
    if (code != MR_EPRECOND && code != MR_ENOTFOUND) {
        sim_violation(sim, "worker %d: %s", worker->number, message->error.message);
        return;
    }
    if (code == MR_EPRECOND) { /* superseded: whoever looks after it starts it again */
        sim_after(sim, 1000, &worker->process, restart, worker, false);
        return;
    }
    sim_check_worker_gone(sim, worker);
    sim_rare(sim, SIM_RARE_WORKER_BACK);
    if (message->kind == MR_COMMAND_REGISTER_WORKER) {
        (void)mr_registration_failed(&worker->registration, sim->now, sim_draw(sim, UINT32_MAX));
    } else if (message->kind == MR_COMMAND_WATCH_WORKER) {
        mr_registration_refused(&worker->registration, code);
    } else {
        (void)mr_registration_beaten(&worker->registration, sim->now, code, CLUSTER_INCARNATION);
    }
}

static void beaten(struct sim *sim, struct sim_worker *worker, const struct sim_message *message)
{
    Millrace__WorkerHeartbeatReply *reply =
        millrace__worker_heartbeat_reply__unpack(NULL, message->size, message->body);

    (void)mr_registration_beaten(&worker->registration, sim->now, MR_OK, CLUSTER_INCARNATION);
    if (worker->said_draining && !reply->drain_unwritten) {
        (void)mr_registration_note_final(&worker->registration, reply->version);
    }
    if (reply->drain) {
        sim_worker_drain(sim, worker, DRAIN_MS);
    }
    if (message->epoch != worker->stream_epoch ||
        reply->version != worker->registration.list_version) {
        worker->stream = 0; /* it broke, or a push was lost, which is the same with a connection */
    }
    millrace__worker_heartbeat_reply__free_unpacked(reply, NULL);
}

static void watching(struct sim *sim, struct sim_worker *worker, const struct sim_message *message)
{
    Millrace__WorkerUpdate *update =
        millrace__worker_update__unpack(NULL, message->size, message->body);

    sim_check_registered(sim, worker);
    mr_registration_done(&worker->registration, MR_REGISTRATION_WATCH);
    worker->stream = message->call;
    worker->stream_epoch = message->epoch;
    apply_update(sim, worker, update);
    millrace__worker_update__free_unpacked(update, NULL);
}

static void on_reply(struct sim *sim, struct sim_call *call, const struct sim_message *message)
{
    struct sim_worker *worker = &sim->workers[message->actor];

    if (call != &worker->control) {
        task_reply(sim, worker, call, message);
        return;
    }
    if (message->error.code < 0) {
        control_failed(sim, worker, message);
    } else if (message->kind == MR_COMMAND_WORKER_HEARTBEAT && worker->leaving) {
        left(sim, worker);
    } else {
        worker->last_ok = call->began;
        if (message->kind == MR_COMMAND_REGISTER_WORKER) {
            (void)mr_registration_registered(&worker->registration, sim->now, CLUSTER,
                                             CLUSTER_INCARNATION, message->epoch, 0);
        } else if (message->kind == MR_COMMAND_WATCH_WORKER) {
            watching(sim, worker, message);
        } else {
            beaten(sim, worker, message);
        }
    }
    if (worker->process.alive && message->error.code != MR_EPRECOND) {
        go_on(sim, worker);
    }
}

/* ---------------------------------------------------------------- its session */

static void woken(struct sim *sim, void *arg)
{
    struct sim_worker *worker = arg;

    worker->wakes_at = 0;
    go_on(sim, worker);
}

static void rest(struct sim *sim, struct sim_worker *worker, int64_t until)
{
    if (worker->wakes_at != until) {
        worker->wakes_at = until;
        sim_at(sim, until, &worker->process, woken, worker, false);
    }
}

/* What its session says next, unless a call is under way. */
static void go_on(struct sim *sim, struct sim_worker *worker)
{
    while (worker->control.id == 0) {
        int64_t until = 0;
        enum mr_registration_step step =
            mr_registration_next(&worker->registration, sim->now, &until);

        if (worker->said_draining && worker->registration.list_is_final && !worker->leaving) {
            leave_if_through(sim, worker);
        }
        if ((step == MR_REGISTRATION_BEAT || step == MR_REGISTRATION_REST) && worker->stream == 0) {
            step = MR_REGISTRATION_WATCH; /* the connection opens a watch anew that broke */
        }
        switch (step) {
        case MR_REGISTRATION_DROP_TASKS:
            worker->stream = 0;
            for (struct sim_task *task = NULL; (task = sim_next_task(worker, task)) != NULL;) {
                drop(sim, worker, task);
            }
            break;
        case MR_REGISTRATION_BEGIN_LIFE: break;
        case MR_REGISTRATION_REGISTER: do_register(sim, worker); break;
        case MR_REGISTRATION_WATCH: do_watch(sim, worker); break;
        case MR_REGISTRATION_BEAT: do_beat(sim, worker); break;
        case MR_REGISTRATION_REST: rest(sim, worker, until); return;
        }
        if (worker->control.id == 0) {
            mr_registration_done(&worker->registration, step);
        }
    }
}

void sim_worker_start(struct sim *sim, struct sim_worker *worker)
{
    char address[sizeof worker->address];

    if (worker->process.alive) {
        return;
    }
    /* Half the restarts are at the same address. */
    worker->addresses += worker->addresses == 0 || sim_chance(sim, 50) ? 1 : 0;
    snprintf(address, sizeof address, "host%d:%u", worker->number, worker->addresses);
    sim_worker_start_at(sim, worker, address);
}

void sim_worker_start_at(struct sim *sim, struct sim_worker *worker, const char *address)
{
    static const struct sim_party party = {
        .push = on_push, .reply = on_reply, .data = sim_task_data, .crash = on_crash};

    worker->process.party = &party;
    worker->process.alive = true;
    worker->process.life++;
    worker->process.frozen_until = 0;
    worker->epoch = 0;
    worker->stream = 0;
    worker->wakes_at = 0;
    worker->draining = worker->said_draining = worker->leaving = false;
    mr_registration_init(&worker->registration, SIM_HEARTBEAT_MS);
    sim_hex_id(sim, worker->incarnation);
    snprintf(worker->address, sizeof worker->address, "%s", address);
    worker->leader = sim->plain ? 0 : (int)sim_draw(sim, SIM_REPLICAS);
    sim_name(sim, worker->incarnation, 'w', worker->number);
    sim_say(sim, "worker %d: starts at %s", worker->number, worker->address);
    go_on(sim, worker);
}

void sim_worker_drop_tasks(struct sim_worker *worker)
{
    for (int i = 0; i < worker->used; i++) {
        sim_share_drop(worker, &worker->tasks[i]);
        sim_task_drop(&worker->tasks[i]);
    }
    worker->used = 0;
}

void sim_worker_stop(struct sim *sim, struct sim_worker *worker)
{
    sim_say(sim, "worker %d: stops", worker->number);
    worker->process.alive = false;
    worker->process.life++;
    sim_call_cancel(&worker->control);
    sim_worker_drop_tasks(worker);
}
