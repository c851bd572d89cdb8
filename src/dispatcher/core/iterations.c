/*
 * Iterations: one pass of a job's readers over its dataset.
 *
 *     open ──(no task open, one ended by itself)──► finished
 *      │  ├─(a task failed)──────────────────────────►┤
 *      │  ╰─(collected)──────────────────────────────►╯
 *      │                                              ╰──(nobody needs it)──► forgotten
 *      ╰─(OFF, the job's last: long without a reader)──► forgotten, made anew for the next reader
 *
 * When it is over is settle.c's to say. Finished is durable and never undone: opening a finished
 * repetition is an immediate end, by the record or, when that is gone, by the job's own memory
 * (ended.c). A DYNAMIC iteration is therefore never forgotten before it has finished: made afresh,
 * it would hand out everything twice. It is collected, which counts as its end, when nobody has
 * read it for long and the job has gone on to a later one (or whenever it is unread, if that was
 * configured).
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
    mr_free(it->broken);
    mr_coordination_free(it->rounds);
    mr_record_free(it->delta);
    mr_record_free(it->rec);
    mr_share_give(it->open_share, 1);
    mr_share_give(it->share, 1);
    mr_free(it);
}

/* To its job, or to the production whose hidden one it is. */
static void link_to_owner(struct mr_iteration *it, struct mr_job *job,
                          struct mr_production *production)
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

struct mr_iteration *mr_iteration_add(mr_core *core, struct mr_job *job,
                                      struct mr_production *production,
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
        mr_error_set(err, MR_EDATALOSS, "iteration '%.40s' counts losses to '%.40s'", rec->id,
                     rec->losses_counted_to);
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
    it->share = mr_hosts_note(core, &core->hosts.iterations);
    it->open_share = rec->finished ? NULL : mr_hosts_note(core, &core->hosts.open_iterations);
    return it;
}

/* The table of splits is fixed here, whatever becomes of the dataset. */
static void copy_providers(mr_core *core, Millrace__IterationRecord *rec,
                           const Millrace__DatasetRecord *dataset)
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
        Millrace__ProviderInfo *info =
            mr_core_new_record(core, &millrace__provider_info__descriptor);

        if (info == NULL) {
            return;
        }
        info->splits = dataset->providers[i]->splits;
        info->split_elements = dataset->providers[i]->split_elements;
        mr_core_set(core, &info->source, dataset->providers[i]->source);
        rec->providers[rec->n_providers++] = info;
    }
}

void mr_iterations_ring_unread(mr_core *core, const struct mr_job *job)
{
    struct mr_iteration *it;

    TAILQ_FOREACH(it, &job->iterations, in_job)
    {
        if (it->live_clients == 0) {
            mr_alarm_by(core, &it->alarm, core->now);
        }
    }
}

static Millrace__IterationRecord *new_record(mr_core *core, const char *id, uint64_t repetition,
                                             uint64_t seed)
{
    Millrace__IterationRecord *rec =
        mr_core_new_record(core, &millrace__iteration_record__descriptor);

    if (rec != NULL) {
        mr_core_set(core, &rec->id, id);
        rec->repetition = repetition;
        rec->seed = seed;
        rec->created_ms = (uint64_t)core->wall_ms;
    }
    return rec;
}

/* Put it, with a task on every live worker. @rec is taken. */
static struct mr_iteration *begin(mr_core *core, struct mr_job *job,
                                  struct mr_production *production, Millrace__IterationRecord *rec)
{
    struct mr_core_worker *worker;
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
        if (mr_core_worker_is_live(worker) && mr_core_worker_gets_tasks(worker, it)) {
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

struct mr_iteration *mr_iteration_create_hidden(mr_core *core, struct mr_production *production,
                                                uint64_t seed)
{
    Millrace__IterationRecord *rec =
        new_record(core, production->rec->id, production->rec->repetition, seed);

    if (rec != NULL && production->rec->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        copy_providers(core, rec, production->dataset->rec);
    }
    return begin(core, NULL, production, rec);
}

struct mr_iteration *mr_iteration_create(mr_core *core, struct mr_job *job, uint64_t repetition,
                                         uint64_t seed)
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
    mr_core_trace(core, "iteration %s: repetition %" PRIu64 " of job %s", id, repetition,
                  mr_job_label(job));
    mr_iterations_ring_unread(core, job);
    if (production != NULL) {
        mr_production_list(core, production, it);
        mr_alarm_by(core, &it->alarm, mr_join_due(it));
        mr_core_trace(core, "iteration %s: %s production %s", id, rec->joining ? "joins" : "uses",
                      rec->production);
    }
    return it;
}

void mr_iteration_drop_tasks(mr_core *core, struct mr_iteration *it)
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
    mr_iteration_drop_tasks(core, it);
    while (!TAILQ_EMPTY(&it->clients)) {
        mr_client_orphan(core, TAILQ_FIRST(&it->clients));
    }
    mr_iteration_leave_unsettled(core, it);
    mr_iteration_untouch(core, it);
    mr_alarm_off(core, &it->alarm);
    core->open_iterations -= it->rec->finished ? 0 : 1;
    core->spoiled -= it->broken != NULL ? 1 : 0;
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
