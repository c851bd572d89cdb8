/*
 * One task of a worker: splits come in grants, are read into elements, go through a shuffle buffer,
 * to clients and to their applications. A grant is finished when nothing that came of it is still
 * on this way; only then is it reported.
 */
#include "grow.h"
#include "sim.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <millrace/base.h>
#include <string.h>

void sim_task_drop(struct sim_task *task)
{
    uint64_t busy = task->busy;

    sim_call_cancel(&task->call);
    for (size_t i = 0; i < task->nsessions; i++) {
        mr_free(task->sessions[i].list);
    }
    mr_free(task->sessions);
    mr_free(task->released);
    mr_free(task->grants);
    mr_free(task->elements);
    mr_free(task->buffer);
    mr_free(task->ready);
    mr_free(task->places);
    memset(task, 0, sizeof *task);
    task->busy = busy + 1;
}

/* ---------------------------------------------------------------- calls */

static void finish_drained(struct sim *sim, struct sim_worker *worker, struct sim_task *task);

static void call_splits(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                        Millrace__GivenBackRange **back, size_t n_back)
{
    Millrace__GetSplitsRequest request = MILLRACE__GET_SPLITS_REQUEST__INIT;
    Millrace__GrantReport **reports;
    size_t n = sim_task_reports(sim, task, &reports);

    task->work = n_back > 0 ? SIM_WORK_GIVING : SIM_WORK_SPLITS;
    request.given_back = back;
    request.n_given_back = n_back;
    request.incarnation = worker->incarnation;
    request.task_id = task->id;
    request.iteration_id = task->iteration;
    request.provider = (uint32_t)task->provider;
    request.repetition = task->repetition;
    request.seq = ++task->seq[task->provider];
    request.want = sim->plain ? 20 : sim_draw(sim, 3) * sim->want;
    request.report = n > 0 ? reports[task->provider] : NULL;
    sim_call(sim, &task->call, true, worker->number, MR_COMMAND_GET_SPLITS, &request.base);
    sim_reports_free(reports, n);
}

static void ask_for_splits(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    if (worker->draining) {
        finish_drained(sim, worker, task);
    } else {
        call_splits(sim, worker, task, NULL, 0);
    }
}

void sim_task_refresh(struct sim *sim, struct sim_task *task)
{
    Millrace__GetSplitsRequest *request;
    Millrace__GrantReport **reports, *before;
    size_t n;

    if ((task->work != SIM_WORK_SPLITS && task->work != SIM_WORK_GIVING) || !task->repeats) {
        return;
    }
    request = millrace__get_splits_request__unpack(NULL, task->call.size, task->call.body);
    n = sim_task_reports(sim, task, &reports);
    before = request->report;
    request->report = reports[task->provider];
    if (protobuf_c_message_get_packed_size(&request->base) != task->call.size) {
        sim_rare(sim, SIM_RARE_REPORT_REPEATED);
    }
    mr_free(task->call.body);
    task->call.size = protobuf_c_message_get_packed_size(&request->base);
    task->call.body = mr_malloc(task->call.size);
    MR_ASSERT(task->call.body != NULL);
    protobuf_c_message_pack(&request->base, task->call.body);
    request->report = before;
    millrace__get_splits_request__free_unpacked(request, NULL);
    sim_reports_free(reports, n);
}

/* Its sources were, or those of what it reads. */
static bool is_cut(struct sim_worker *worker, const struct sim_task *task)
{
    const struct sim_task *log = task->reads ? sim_share_producing(worker, task) : NULL;

    return task->drained || (log != NULL && log->drained);
}

static void say_ended(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;

    task->work = SIM_WORK_ENDING;
    request.incarnation = worker->incarnation;
    request.task_id = task->id;
    request.drained = is_cut(worker, task) && sim->bug != SIM_BUG_DRAINED_IS_ENDED;
    sim_call(sim, &task->call, true, worker->number, MR_COMMAND_TASK_ENDED, &request.base);
}

/* ---------------------------------------------------------------- elements */

static void make_ready(struct sim_task *task, size_t at)
{
    MORE(task->ready, task->cap_ready, task->nready);
    task->ready[task->nready++] = task->buffer[at];
    task->buffer[at] = task->buffer[--task->nbuffer];
}

static void make_element(struct sim *sim, struct sim_task *task, uint64_t split)
{
    struct sim_grant *grant = &task->grants[task->ngrants - 1];

    MORE(task->elements, task->cap_elements, task->nelements);
    task->elements[task->nelements] = (struct sim_element){
        task->provider, task->repetition + (uint64_t)task->ahead, split, task->ngrants - 1};
    grant->live++;
    grant->unsent++;
    MORE(task->buffer, task->cap_buffer, task->nbuffer);
    task->buffer[task->nbuffer++] = (uint32_t)task->nelements++;
    if (task->nbuffer > task->buffer_size) {
        make_ready(task, sim->plain ? 0 : (size_t)sim_draw(sim, task->nbuffer));
    }
}

static void flush(struct sim *sim, struct sim_task *task)
{
    while (task->nbuffer > 0) {
        make_ready(task, sim->plain ? 0 : (size_t)sim_draw(sim, task->nbuffer));
    }
}

void sim_task_put(struct sim_task *task, const struct sim_element *element)
{
    MORE(task->elements, task->cap_elements, task->nelements);
    task->elements[task->nelements] = *element;
    task->elements[task->nelements].grant = 0;
    task->grants[0].live++;
    task->grants[0].unsent++;
    MORE(task->ready, task->cap_ready, task->nready);
    task->ready[task->nready++] = (uint32_t)task->nelements++;
}

void sim_task_let_go(struct sim_task *task, uint32_t element)
{
    task->grants[task->elements[element].grant].live--;
    task->gone++;
}

void sim_task_go_on(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    size_t kept = task->nelements - task->gone;

    if (task->producing) {
        if (task->work == SIM_WORK_FULL && sim_share_wants_more(sim, worker, task)) {
            ask_for_splits(sim, worker, task);
        }
    } else if (task->reads) {
        if (task->work == SIM_WORK_OUT && kept == 0 && sim_share_is_read(worker, task)) {
            say_ended(sim, worker, task);
        }
    } else if (task->work == SIM_WORK_FULL && kept < sim->ahead + task->buffer_size) {
        ask_for_splits(sim, worker, task);
    } else if (task->work == SIM_WORK_OUT && kept == 0) {
        say_ended(sim, worker, task);
    }
}

/* ---------------------------------------------------------------- draining */

/* Its sources are cut off: what is in it goes to readers, and that is its end. */
static void finish_drained(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    task->drained = true;
    flush(sim, task);
    task->work = SIM_WORK_OUT;
    if (task->producing) {
        sim_share_complete(sim, worker, task);
    }
    sim_task_go_on(sim, worker, task);
}

/* Of what it reads, all but the first @opened splits. */
static void give_back(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                      uint64_t opened)
{
    Millrace__GivenBackRange ranges[sizeof task->reading / sizeof task->reading[0]],
        *list[sizeof ranges / sizeof ranges[0]];
    uint64_t repetition = task->repetition + (uint64_t)task->ahead;
    size_t n = 0;

    task->opened = opened;
    for (size_t i = 0; i < task->nreading; i++) {
        uint64_t kept = opened < task->reading[i].count ? opened : task->reading[i].count;

        opened -= kept;
        kept = sim->bug == SIM_BUG_OPENED_IS_GIVEN_BACK ? 0 : kept;
        if (kept == task->reading[i].count) {
            continue;
        }
        ranges[n] = (Millrace__GivenBackRange)MILLRACE__GIVEN_BACK_RANGE__INIT;
        ranges[n].repetition = repetition;
        ranges[n].first = task->reading[i].first + kept;
        ranges[n].count = task->reading[i].count - kept;
        for (uint64_t k = 0; k < ranges[n].count; k++) {
            sim_view_gave_back(sim, task, repetition, ranges[n].first + k);
        }
        list[n] = &ranges[n];
        n++;
    }
    MR_ASSERT(n > 0);
    sim_rare(sim, SIM_RARE_GAVE_BACK);
    call_splits(sim, worker, task, list, n);
}

/* It may not: nobody is left who would take it. */
static void keep(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    uint64_t opened = task->opened;

    sim_rare(sim, SIM_RARE_KEPT);
    for (size_t i = 0; i < task->nreading; i++) {
        struct sim_range *range = &task->reading[i];
        uint64_t skip = opened < range->count ? opened : range->count;

        opened -= skip;
        for (uint64_t k = skip; k < range->count; k++) {
            sim_view_kept(sim, task, task->repetition + (uint64_t)task->ahead, range->first + k);
            make_element(sim, task, range->first + k);
        }
    }
    task->grants[task->ngrants - 1].read = true;
    finish_drained(sim, worker, task);
}

void sim_task_drain(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    if (task->dynamic && task->work == SIM_WORK_FULL) {
        finish_drained(sim, worker, task);
    }
}

/* ---------------------------------------------------------------- reading */

struct work_done {
    struct sim_worker *worker;
    struct sim_task *task;
    uint64_t busy;
};

static bool is_poisoned(const struct sim *sim, const struct sim_task *task)
{
    int64_t poison = sim->datasets[task->dataset].poison;

    for (size_t i = 0; i < task->nreading; i++) {
        if (poison > 0 && (uint64_t)poison >= task->reading[i].first &&
            (uint64_t)poison - task->reading[i].first < task->reading[i].count) {
            return true;
        }
    }
    return false;
}

static uint64_t splits_at_hand(const struct sim_task *task)
{
    uint64_t n = 0;

    for (size_t i = 0; i < task->nreading; i++) {
        n += task->reading[i].count;
    }
    return n;
}

static void read_splits(struct sim *sim, struct sim_task *task, uint64_t n)
{
    for (size_t i = 0; i < task->nreading; i++) {
        for (uint64_t k = 0; k < task->reading[i].count && n > 0; k++, n--) {
            make_element(sim, task, task->reading[i].first + k);
        }
    }
}

/* How many of so many are opened before the word that it is to drain gets there. */
static uint64_t draw_opened(struct sim *sim, uint64_t n)
{
    return sim->plain ? n / 2 : sim_draw(sim, n + 1);
}

static void work_done(struct sim *sim, void *arg)
{
    struct work_done *done = arg;
    struct sim_task *task = done->task;
    uint64_t total = splits_at_hand(task);
    uint64_t opened = done->worker->draining && total > 0 ? draw_opened(sim, total) : total;

    if (task->busy != done->busy || task->work != SIM_WORK_BUSY) {
        return;
    }
    if (!task->dynamic && task->producing) {
        task->work = SIM_WORK_OUT;
        sim_share_complete(sim, done->worker, task);
        return;
    }
    if (!task->dynamic) {
        say_ended(sim, done->worker, task);
        return;
    }
    if (is_poisoned(sim, task)) {
        sim_view_crashed(sim, task->iteration);
        sim_worker_crash(sim, done->worker);
        return;
    }
    read_splits(sim, task, opened);
    if (opened < total) {
        give_back(sim, done->worker, task, opened);
        return;
    }
    task->grants[task->ngrants - 1].read = true;
    task->work = SIM_WORK_FULL;
    if (done->worker->draining) {
        finish_drained(sim, done->worker, task);
    } else {
        sim_task_go_on(sim, done->worker, task);
    }
}

static void be_busy(struct sim *sim, struct sim_worker *worker, struct sim_task *task, int64_t ms)
{
    struct work_done *done = mr_malloc(sizeof *done);

    task->work = SIM_WORK_BUSY;
    *done = (struct work_done){worker, task, ++task->busy};
    sim_after(sim, ms, &worker->process, work_done, done, true);
}

void sim_task_begin(struct sim *sim, struct sim_worker *worker,
                    const Millrace__TaskAssignment *assignment)
{
    struct sim_task *task = NULL;

    for (int i = 0; i < SIM_TASKS_MAX && task == NULL; i++) {
        task = worker->tasks[i].work == SIM_WORK_NONE ? &worker->tasks[i] : NULL;
    }
    MR_ASSERT(task != NULL);
    if (task >= worker->tasks + worker->used) {
        worker->used = (int)(task - worker->tasks) + 1;
    }
    snprintf(task->id, sizeof task->id, "%s", assignment->task_id);
    snprintf(task->iteration, sizeof task->iteration, "%s", assignment->iteration_id);
    task->dynamic = assignment->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    task->repeats = assignment->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE;
    task->nproviders = assignment->n_providers;
    for (size_t i = 0; i < task->nproviders; i++) {
        task->splits[i] = assignment->providers[i]->splits;
    }
    for (int i = 0; i < SIM_DATASETS; i++) {
        if (strcmp(sim->datasets[i].id, assignment->dataset_id) == 0) {
            task->dataset = i;
        }
    }
    if (task->dynamic && !task->repeats && sim_is_recovery(task->id)) {
        sim_rare(sim, SIM_RARE_RECOVERY_MOST);
    }
    task->passes = sim->datasets[task->dataset].passes;
    if (assignment->production[0] != '\0') {
        sim_share_begin(sim, task, assignment);
    }
    task->until_returned = task->repeats || (task->reads && sim->bug != SIM_BUG_CURSOR_IS_RECEIVED);
    if (task->reads) {
        MORE(task->grants, task->cap_grants, task->ngrants); /* for elements to count in */
        task->grants[task->ngrants++] = (struct sim_grant){0};
        task->work = SIM_WORK_OUT;
        return;
    }
    task->buffer_size = sim->plain ? sim->buffer_size : (size_t)sim_draw(sim, 3) * 5;
    if (task->dynamic && task->producing) {
        task->work = SIM_WORK_FULL; /* until somebody reads */
    } else if (task->dynamic) {
        ask_for_splits(sim, worker, task);
    } else {
        be_busy(sim, worker, task, sim->plain ? 1000 : (int64_t)(50 + sim_draw(sim, 3000)));
    }
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

static void take_grant(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                       const Millrace__GetSplitsReply *reply)
{
    uint64_t count = 0;

    MORE(task->grants, task->cap_grants, task->ngrants);
    task->grants[task->ngrants++] = (struct sim_grant){
        .provider = task->provider, .seq = task->seq[task->provider], .read = reply->end};
    task->nreading = 0;
    for (size_t i = 0; i < reply->n_ranges && i < sizeof task->reading / sizeof task->reading[0];
         i++) {
        task->reading[task->nreading++] =
            (struct sim_range){reply->ranges[i]->first, reply->ranges[i]->count};
        count += reply->ranges[i]->count;
    }
    MR_ASSERT(task->nreading == reply->n_ranges);
    task->ahead = reply->ahead;
    sim_moment(sim, reply->end ? SIM_MOMENT_READ : SIM_MOMENT_GRANTED, worker, NULL);
    if (!reply->end && worker->draining && !sim->plain && sim_chance(sim, 50)) {
        give_back(sim, worker, task, 0);
    } else if (!reply->end) {
        be_busy(sim, worker, task, (int64_t)(count * (1 + (sim->plain ? 99 : sim_draw(sim, 60)))));
    } else if (advance(task)) {
        ask_for_splits(sim, worker, task);
    } else {
        flush(sim, task);
        task->work = SIM_WORK_OUT;
        if (task->producing) {
            sim_share_complete(sim, worker, task);
        }
        sim_task_go_on(sim, worker, task);
    }
}

static void splits_came(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                        const struct sim_call *call, const struct sim_message *message)
{
    Millrace__GetSplitsRequest *request;
    Millrace__GetSplitsReply *reply;

    if (message->error.code == MR_ERANGE) { /* nobody else believes to be this task */
        sim_violation(sim, "worker %d: %s", worker->number, message->error.message);
        return;
    }
    if (message->error.code < 0) {
        task->work = SIM_WORK_DONE; /* it is gone: the next update says so */
        return;
    }
    reply = millrace__get_splits_reply__unpack(NULL, message->size, message->body);
    request =
        millrace__get_splits_request__unpack(NULL, message->asked, message->body + message->size);
    if (request->report != NULL) {
        sim_view_finished(sim, task, request->report, message->memory);
    }
    sim_check_grant(sim, task, task->seq[task->provider], reply);
    worker->last_ok = call->began;
    if (call->tries > 1) {
        sim_moment(sim, SIM_MOMENT_REPEATED, worker, NULL);
    }
    if (task->work == SIM_WORK_GIVING && reply->keep) {
        keep(sim, worker, task);
    } else if (task->work == SIM_WORK_GIVING) {
        sim_view_taken_back(sim, task);
        task->grants[task->ngrants - 1].read = true; /* what is left of it */
        finish_drained(sim, worker, task);
    } else {
        take_grant(sim, worker, task, reply);
    }
    millrace__get_splits_request__free_unpacked(request, NULL);
    millrace__get_splits_reply__free_unpacked(reply, NULL);
}

void sim_task_reply(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                    const struct sim_call *call, const struct sim_message *message)
{
    if (message->kind == MR_COMMAND_GET_SPLITS) {
        splits_came(sim, worker, task, call, message);
        return;
    }
    if (message->error.code == MR_OK) {
        sim_check_ended(sim, task);
    }
    task->work = SIM_WORK_DONE;
}
