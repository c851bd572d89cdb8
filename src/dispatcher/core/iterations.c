/*
 * Iterations: one pass of a job's readers over its dataset.
 *
 *     open ──(no task open, one ended by itself)──► finished ──(nobody needs it, the job remembers)──► forgotten
 *      │  ├─(a task failed)──────────────────────────►┤
 *      │  ╰─(collected)──────────────────────────────►╯
 *      ╰─(OFF, the job's last: nobody reads it for long)──► forgotten, and made afresh when somebody comes back
 *
 * Nothing that came back, from lost workers (at least once) or unopened from such as drained, may be waiting either. A
 * task that ended because its worker drained is no sign that this is all.
 *
 * Finished is durable and never undone: opening a finished repetition is an immediate end, by the record or, when that
 * is gone, by the job's own memory (ended.c). A DYNAMIC iteration is therefore never forgotten before it has finished:
 * made afresh, it would hand out everything twice. It is collected, which counts as its end, when nobody has read it
 * for long and the job has gone on to a later one (or whenever it is unread, if that was configured).
 *
 * An iteration whose tasks were all lost stays open: the next worker goes on with it.
 */
#include "dispatcher/core/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct mr_iteration *mr_iteration_find(const mr_core *core, const char *id)
{
    return mr_map_get(&core->iterations, id);
}

static void iteration_key(const struct mr_iteration *it, char *out, size_t size)
{
    snprintf(out, size, "iterations/%s", it->rec->id);
}

void mr_iteration_put(mr_core *core, struct mr_iteration *it)
{
    char key[MR_KEY_SIZE];

    iteration_key(it, key, sizeof key);
    mr_core_put(core, key, &it->rec->base);
}

void mr_iteration_free(struct mr_iteration *it)
{
    if (it == NULL) {
        return;
    }
    while (!TAILQ_EMPTY(&it->tasks)) {
        struct mr_task *task = TAILQ_FIRST(&it->tasks);

        TAILQ_REMOVE(&it->tasks, task, in_iteration);
        mr_task_free(task);
    }
    for (size_t i = 0; it->cursors != NULL && i < it->rec->n_providers; i++) {
        mr_record_free(it->cursors[i].rec);
    }
    mr_free(it->cursors);
    mr_coordination_free(it->rounds);
    mr_record_free(it->delta);
    mr_record_free(it->rec);
    mr_free(it);
}

/* To its job, or to the production whose hidden one it is. */
static void link_to_owner(struct mr_iteration *it, struct mr_job *job, struct mr_production *production)
{
    it->job = job;
    if (job == NULL) {
        it->makes = production;
        it->dataset = production->dataset;
        it->mode = production->rec->mode;
        it->guarantee = production->rec->guarantee;
        production->hidden = it;
        return;
    }
    it->dataset = job->dataset;
    it->mode = job->rec->mode;
    it->guarantee = job->rec->guarantee;
    TAILQ_INSERT_TAIL(&job->iterations, it, in_job);
    job->niterations++;
    job->nfinished += it->rec->finished ? 1 : 0;
    if (production != NULL) {
        mr_production_join(production, it);
    }
}

struct mr_iteration *mr_iteration_add(mr_core *core, struct mr_job *job, struct mr_production *production,
                                      Millrace__IterationRecord *rec, mr_error *err)
{
    struct mr_iteration *it = mr_calloc(1, sizeof *it);

    if (it == NULL) {
        mr_record_free(rec);
        mr_core_nomem(core);
        mr_error_nomem(err);
        return NULL;
    }
    TAILQ_INIT(&it->tasks);
    TAILQ_INIT(&it->clients);
    it->rec = rec;
    it->join_until = mr_time_add(core->now, MR_JOIN_HEARTBEATS * core->config.heartbeat_ms);
    it->alarm.kind = MR_ALARM_ITERATION;
    it->version = ++core->versions; /* 0 would be "complete" to those who hear what follows on it */
    it->since = core->now;
    if (!mr_stamp_parse_given(core, rec->id, &it->id.at) ||
        (rec->losses_counted_to[0] != '\0' &&
         !mr_stamp_parse_given(core, rec->losses_counted_to, &it->losses_counted_to))) {
        mr_error_set(err, MR_EDATALOSS, "iteration '%.40s' counts losses to '%.40s'", rec->id, rec->losses_counted_to);
        mr_iteration_free(it);
        return NULL;
    }
    it->cursors = mr_calloc(rec->n_providers, sizeof *it->cursors);
    if (it->cursors == NULL) {
        mr_core_nomem(core);
        mr_error_nomem(err);
        mr_iteration_free(it);
        return NULL;
    }
    if (mr_job_is_coordinated(job) && !rec->finished) {
        it->rounds = mr_coordination_new(core, job);
        if (it->rounds == NULL) {
            mr_error_nomem(err);
            mr_iteration_free(it);
            return NULL;
        }
    }
    TAILQ_INSERT_TAIL(&core->iteration_list, it, link);
    link_to_owner(it, job, production);
    core->open_iterations += rec->finished ? 0 : 1;
    mr_core_index(core, &core->iterations, rec->id, it);
    return it;
}

/* The table of splits is fixed here, whatever becomes of the dataset. */
static void copy_providers(mr_core *core, Millrace__IterationRecord *rec, const Millrace__DatasetRecord *dataset)
{
    if (dataset->n_providers == 0) {
        return;
    }
    rec->providers = mr_calloc(dataset->n_providers, sizeof *rec->providers);
    if (rec->providers == NULL) {
        mr_core_nomem(core);
        return;
    }
    for (size_t i = 0; i < dataset->n_providers; i++) {
        Millrace__ProviderInfo *info = mr_core_new_record(core, &millrace__provider_info__descriptor);

        if (info == NULL) {
            return;
        }
        info->splits = dataset->providers[i]->splits;
        mr_core_set(core, &info->source, dataset->providers[i]->source);
        rec->providers[rec->n_providers++] = info;
    }
}

/* The job has gone on: those that nobody reads may go. */
static void ring_unread(mr_core *core, const struct mr_job *job)
{
    struct mr_iteration *it;

    TAILQ_FOREACH(it, &job->iterations, in_job)
    {
        if (it->live_clients == 0) {
            mr_alarm_by(core, &it->alarm, core->now);
        }
    }
}

static Millrace__IterationRecord *new_record(mr_core *core, const char *id, uint64_t repetition, uint64_t seed)
{
    Millrace__IterationRecord *rec = mr_core_new_record(core, &millrace__iteration_record__descriptor);

    if (rec != NULL) {
        mr_core_set(core, &rec->id, id);
        rec->repetition = repetition;
        rec->seed = seed;
        rec->created_ms = (uint64_t)core->wall_ms;
    }
    return rec;
}

/* Put it, with a task on every live worker. @rec is taken. */
static struct mr_iteration *begin(mr_core *core, struct mr_job *job, struct mr_production *production,
                                  Millrace__IterationRecord *rec)
{
    struct mr_worker *worker;
    struct mr_iteration *it;
    mr_error err;

    if (core->failed != 0) {
        mr_record_free(rec);
        return NULL;
    }
    it = mr_iteration_add(core, job, production, rec, &err);
    if (it == NULL) {
        mr_core_fail(core, err.code, &err);
        return NULL;
    }
    mr_iteration_put(core, it);
    TAILQ_FOREACH(worker, &core->worker_list, link)
    {
        if (mr_worker_is_live(worker) && mr_worker_gets_tasks(worker, it)) {
            mr_task_add(core, it, worker);
        }
    }
    if (it->rounds != NULL) {
        mr_rounds_begin(core, it);
    }
    if (core->failed == 0 &&
        it->uses == NULL) { /* Whoever reads one: workers hear of it when the client is attached. */
        mr_iteration_note_assignments(core, it);
    }
    return it;
}

struct mr_iteration *mr_iteration_create_hidden(mr_core *core, struct mr_production *production, uint64_t seed)
{
    Millrace__IterationRecord *rec = new_record(core, production->rec->id, production->rec->repetition, seed);

    if (rec != NULL && production->rec->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        copy_providers(core, rec, production->dataset->rec);
    }
    return begin(core, NULL, production, rec);
}

struct mr_iteration *mr_iteration_create(mr_core *core, struct mr_job *job, uint64_t repetition, uint64_t seed)
{
    struct mr_production *production = NULL;
    Millrace__IterationRecord *rec;
    struct mr_iteration *it;
    char id[MR_STAMP_SIZE];

    mr_stamp_print(mr_core_stamp(core), id);
    rec = new_record(core, id, repetition, seed);
    if (rec == NULL) {
        return NULL;
    }
    mr_core_set(core, &rec->job_id, job->rec->id);
    if (mr_job_shares(job)) {
        production = mr_join_choose(core, job, rec);
    } else if (job->rec->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        copy_providers(core, rec, job->dataset->rec);
    }
    it = begin(core, job, production, rec);
    if (it == NULL) {
        return NULL;
    }
    mr_core_trace(core, "iteration %s: repetition %" PRIu64 " of job %s", id, repetition, mr_job_label(job));
    ring_unread(core, job);
    if (production != NULL) {
        mr_production_list(core, production, it);
        mr_alarm_by(core, &it->alarm, mr_join_due(it));
        mr_core_trace(core, "iteration %s: %s production %s", id, rec->joining ? "joins" : "uses", rec->production);
    }
    return it;
}

void mr_iteration_unsettle(mr_core *core, struct mr_iteration *it)
{
    if (!it->is_unsettled && !it->rec->finished) {
        it->is_unsettled = true;
        TAILQ_INSERT_TAIL(&core->unsettled, it, unsettled);
    }
}

static void leave_unsettled(mr_core *core, struct mr_iteration *it)
{
    if (it->is_unsettled) {
        it->is_unsettled = false;
        TAILQ_REMOVE(&core->unsettled, it, unsettled);
    }
}

/* Is it the first sign in this iteration of the loss of its worker, which may have had several tasks? */
static bool is_first_loss(const struct mr_task *task)
{
    const struct mr_task *other;

    if (!mr_task_is_recovery(task)) {
        return true; /* it stands before those that came on top of it */
    }
    TAILQ_FOREACH(other, &task->iteration->tasks, in_iteration)
    {
        if (other == task || (other->worker == task->worker && other->state == MR_TASK_LOST)) {
            break;
        }
    }
    return other == task;
}

/* At most once: what was given to the pipeline that the task's elements come from. */
static uint64_t splits_behind(const mr_core *core, const struct mr_task *task)
{
    const struct mr_task *source = task->iteration->uses != NULL ? mr_task_producing(core, task) : task;

    return source != NULL ? mr_task_granted(source) : 0;
}

uint64_t mr_iteration_lost_splits(const struct mr_iteration *it)
{
    uint64_t sum = it->rec->lost_splits;
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        sum += task->state == MR_TASK_LOST && !task->counted ? mr_task_granted(task) : 0;
    }
    return sum;
}

static void note_counted(struct mr_task *task)
{
    struct mr_iteration *it = task->iteration;

    if (mr_stamp_compare(task->worker->lost, it->losses_counted_to) > 0) {
        it->losses_counted_to = task->worker->lost;
    }
    task->counted = true;
    it->unwritten = true;
}

static void set_counted_to(mr_core *core, struct mr_iteration *it)
{
    char stamp[MR_STAMP_SIZE];

    mr_stamp_print(it->losses_counted_to, stamp);
    mr_core_set(core, &it->rec->losses_counted_to, mr_stamp_is_set(it->losses_counted_to) ? stamp : "");
}

void mr_iteration_forgive_losses(mr_core *core, struct mr_iteration *it)
{
    struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        if (task->state == MR_TASK_LOST && !task->counted && !mr_worker_is_live(task->worker)) {
            note_counted(task);
        }
    }
    set_counted_to(core, it);
}

static void count_loss(mr_core *core, struct mr_task *task, char *why, size_t size)
{
    struct mr_iteration *it = task->iteration;

    it->rec->lost_workers += is_first_loss(task) ? 1 : 0;
    if (mr_iteration_repeats(it)) {
        mr_recovery_return(core, task, why, size);
    } else {
        uint64_t lost = splits_behind(core, task);

        it->rec->lost_splits += lost;
        core->out->tally.lost += it->uses == NULL ? lost : 0; /* once: the production's own iteration counts them */
    }
    note_counted(task);
}

/* Losses that the record does not have yet. @why: see mr_recovery_return(). */
static void count_losses(mr_core *core, struct mr_iteration *it, char *why, size_t size)
{
    struct mr_task *task, *next;

    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        if (task->state == MR_TASK_LOST && !task->counted) {
            count_loss(core, task, why, size);
        }
    }
    if (!it->unwritten) {
        return;
    }
    for (task = TAILQ_FIRST(&it->tasks); task != NULL; task = next) {
        next = TAILQ_NEXT(task, in_iteration);
        if (task->state == MR_TASK_LOST && mr_task_is_recovery(task)) {
            mr_task_retire(core, task);
        }
    }
    set_counted_to(core, it);
}

/* What the tasks were is over; their keys, and those of hand-out, go when there is time. */
static void drop_tasks(mr_core *core, struct mr_iteration *it)
{
    char key[MR_KEY_SIZE];

    while (!TAILQ_EMPTY(&it->tasks)) {
        mr_task_remove(core, TAILQ_FIRST(&it->tasks));
    }
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        if (it->cursors[i].rec != NULL) {
            mr_cursor_key(it, i, key, sizeof key);
            mr_core_leave_over(core, key);
            mr_record_free(it->cursors[i].rec);
            it->cursors[i].rec = NULL;
            it->cursors[i].unwritten = false;
        }
    }
    mr_rounds_drop(core, it);
}

uint64_t mr_iteration_repeated(const struct mr_iteration *it)
{
    uint64_t sum = 0;

    if (it->rec->end != NULL) {
        return it->rec->end->repeated_splits;
    }
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        sum += it->cursors[i].rec != NULL ? it->cursors[i].rec->repeated_splits : 0;
    }
    return sum;
}

void mr_iteration_end_fill(mr_core *core, const struct mr_iteration *it, Millrace__IterationEnd *end)
{
    const Millrace__IterationEnd *known = it->rec->end;

    end->lost_splits = it->rec->lost_splits;
    end->lost_workers = it->rec->lost_workers;
    end->quarantined_splits = it->rec->quarantined_splits;
    end->repeated_splits = mr_iteration_repeated(it);
    end->error_code = known != NULL ? known->error_code : 0;
    end->rounds = known != NULL ? known->rounds : mr_rounds_end(it);
    end->skipped = mr_iteration_skipped(it);
    mr_core_set(core, &end->error, known != NULL ? known->error : "");
}

static void finish(mr_core *core, struct mr_iteration *it, int code, const char *why)
{
    Millrace__IterationEnd *end = mr_core_new_record(core, &millrace__iteration_end__descriptor);

    if (end == NULL) {
        return;
    }
    mr_iteration_end_fill(core, it, end);
    end->error_code = code;
    mr_core_set(core, &end->error, why);
    it->rec->end = end;
    it->rec->finished = true;
    it->rec->joining = false;
    it->rec->finished_ms = (uint64_t)core->wall_ms;
    it->rec->unread_ms = 0;
    it->since = core->now;
    core->open_iterations--;
    leave_unsettled(core, it);
    it->unwritten = false;
    mr_iteration_put(core, it);
    it->job->nfinished++;
    ring_unread(core, it->job);
    mr_alarm_by(core, &it->alarm, core->now);
    mr_job_note_ended(core, it->job, it->rec->repetition);
    mr_job_put(core, it->job);
    if (it->uses != NULL) {
        mr_production_note_finished(core, it);
    }
    if (it->uses != NULL && code < 0) { /* Who comes later may have more luck. */
        mr_production_close(core, it->uses, why);
    }

    mr_iteration_note_finished(core, it);
    drop_tasks(core, it);
    if (code < 0) {
        mr_core_trace(core, "iteration %s: failed, %s", it->rec->id, why);
    } else if (end->lost_workers > 0) {
        mr_core_trace(core, "iteration %s: finished, %u workers and %" PRIu64 " splits lost", it->rec->id,
                      end->lost_workers, end->lost_splits);
        if (end->repeated_splits > 0) {
            mr_core_trace(core, "iteration %s: %" PRIu64 " splits were repeated", it->rec->id, end->repeated_splits);
        }
    } else {
        mr_core_trace(core, "iteration %s: finished", it->rec->id);
    }
}

void mr_iteration_write(mr_core *core, struct mr_iteration *it)
{
    char key[MR_KEY_SIZE];

    mr_rounds_write(core, it);
    if (it->unwritten) {
        it->unwritten = false;
        mr_iteration_put(core, it);
    }
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        if (it->cursors[i].unwritten) {
            it->cursors[i].unwritten = false;
            mr_cursor_key(it, i, key, sizeof key);
            mr_core_put(core, key, &it->cursors[i].rec->base);
        }
    }
}

void mr_iteration_absorb(mr_core *core, struct mr_iteration *it)
{
    char why[MR_ERROR_MESSAGE_SIZE] = "";

    count_losses(core, it, why, sizeof why);
    if (why[0] != '\0') {
        finish(core, it, MR_EDATALOSS, why);
    }
}

/* Nobody reads, nothing has come back, and somebody saw that this is all. */
static bool is_over(const mr_core *core, const struct mr_iteration *it)
{
    struct mr_pool_count pool;

    mr_pool_count(it, &pool);
    return it->makes == NULL && it->open_tasks == 0 && (it->ended_tasks > 0 || it->rec->pipeline_ended) &&
           pool.ordinary == 0 && pool.suspects == 0 && mr_rounds_are_settled(core, it);
}

size_t mr_iteration_settle_changes(const struct mr_iteration *it)
{
    if (mr_iteration_recovers(it)) {
        return MR_SETTLE_CHANGES;
    }
    if (it->rounds != NULL) {
        return 2 + MR_ROUNDS_CHANGES;
    }
    return it->rec->joining ? MR_JOIN_CHANGES : it->uses != NULL ? 3 : 2;
}

void mr_iteration_settle(mr_core *core, struct mr_iteration *it)
{
    leave_unsettled(core, it);
    if (it->rec->finished) {
        return;
    }
    if (it->rec->joining) {
        mr_join_settle(core, it);
        mr_iteration_write(core, it);
        return;
    }
    mr_iteration_absorb(core, it);
    if (it->rec->finished) {
        return;
    }
    mr_rounds_settle(core, it);
    if (is_over(core, it)) {
        finish(core, it, MR_OK, "");
        return;
    }
    mr_recovery_open(core, it);
    mr_iteration_write(core, it);
}

void mr_iteration_fail(mr_core *core, struct mr_iteration *it, int code, const char *why)
{
    char other[MR_ERROR_MESSAGE_SIZE]; /* a second reason to fail adds nothing */

    MR_ASSERT(code < 0);
    count_losses(core, it, other, sizeof other);
    finish(core, it, code, why);
}

/* So that its readers can be told when its own record is gone. */
static void remember_collected(mr_core *core, struct mr_job *job, uint64_t repetition)
{
    Millrace__CollectedRepetition *one = mr_core_new_record(core, &millrace__collected_repetition__descriptor);
    Millrace__JobRecord *rec = job->rec;

    if (one == NULL) {
        return;
    }
    one->repetition = repetition;
    one->collected_ms = (uint64_t)core->wall_ms;
    if (rec->n_collected == MR_COLLECTED_MAX) {
        mr_record_free(rec->collected[0]);
        memmove(rec->collected, rec->collected + 1, --rec->n_collected * sizeof(rec->collected[0]));
    } else {
        Millrace__CollectedRepetition **bigger =
            mr_reallocarray(rec->collected, rec->n_collected + 1, sizeof(rec->collected[0]));

        if (bigger == NULL) {
            mr_core_nomem(core);
            mr_record_free(one);
            return;
        }
        rec->collected = bigger;
    }
    rec->collected[rec->n_collected++] = one;
}

void mr_iteration_collect(mr_core *core, struct mr_iteration *it)
{
    char other[MR_ERROR_MESSAGE_SIZE]; /* it ends anyway */
    char why[MR_COLLECTED_SIZE];

    MR_ASSERT(it->live_clients == 0);
    mr_collected_print((uint64_t)core->wall_ms, why);
    count_losses(core, it, other, sizeof other);
    remember_collected(core, it->job, it->rec->repetition);
    finish(core, it, MR_OK, why);
}

void mr_iteration_forget(mr_core *core, struct mr_iteration *it, bool with_job)
{
    char key[MR_KEY_SIZE];

    MR_ASSERT(it->live_clients == 0);
    iteration_key(it, key, sizeof key);
    if (with_job) {
        mr_core_leave_over(core, key);
    } else {
        mr_core_delete(core, key);
    }
    drop_tasks(core, it);
    while (!TAILQ_EMPTY(&it->clients)) {
        mr_client_orphan(core, TAILQ_FIRST(&it->clients));
    }
    leave_unsettled(core, it);
    mr_iteration_untouch(core, it);
    mr_alarm_off(core, &it->alarm);
    core->open_iterations -= it->rec->finished ? 0 : 1;
    mr_map_remove(&core->iterations, it->rec->id);
    TAILQ_REMOVE(&core->iteration_list, it, link);
    mr_production_leave(core, it);
    if (it->job != NULL) {
        TAILQ_REMOVE(&it->job->iterations, it, in_job);
        it->job->niterations--;
        it->job->nfinished -= it->rec->finished ? 1 : 0;
    }
    mr_iteration_free(it);
}
