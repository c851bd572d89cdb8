/*
 * Updates of iterations: one pass of a job's readers over its dataset.
 *
 *     open ──(no task open, one ended by itself)──► finished ──(nobody needs it)──► removed
 *      │  ├─(a task failed)──────────────────────────►┤      (the job remembers)
 *      │  ╰─(collected)──────────────────────────────►╯
 *      ╰─(OFF, the job's last: nobody reads it for long)──► removed, and made afresh when somebody
 *                                                           comes back
 *
 * Finished is durable and never undone: opening a finished repetition is an immediate end, by the
 * record or, when that is gone, by the job's own memory (ended.c). A DYNAMIC iteration is therefore
 * never removed before it has finished: made afresh, it would hand out everything twice.
 */
#include "dispatcher/model/apply.h"

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
    mr_free(it->times);
    mr_coordination_free(it->rounds);
    mr_record_free(it->delta);
    mr_record_free(it->rec);
    mr_share_give(it->open_share, 1);
    mr_share_give(it->share, 1);
    mr_free(it);
}

/* To its job, or to the production whose hidden one it is. */
static void link_to_owner(mr_core *core, struct mr_iteration *it, struct mr_job *job,
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
        mr_production_join(core, production, it);
    }
}

static struct mr_iteration *add_iteration(mr_core *core, struct mr_job *job,
                                          struct mr_production *production,
                                          Millrace__IterationRecord *rec, mr_error *err)
{
    struct mr_iteration *it = mr_core_alloc(core, 1, sizeof *it);

    if (it == NULL) {
        mr_record_free(rec);
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
    it->cursors = mr_core_alloc(core, rec->n_providers, sizeof *it->cursors);
    if (it->cursors == NULL) {
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
    link_to_owner(core, it, job, production);
    core->open_iterations += rec->finished ? 0 : 1;
    mr_core_index(core, &core->iterations, rec->id, it);
    it->share = mr_hosts_note(core, &core->hosts.iterations);
    it->open_share = rec->finished ? NULL : mr_hosts_note(core, &core->hosts.open_iterations);
    return it;
}

/* The job has gone on: those of its iterations that nobody reads may go. */
static void ring_unread(mr_core *core, const struct mr_job *job)
{
    struct mr_iteration *it;

    TAILQ_FOREACH(it, &job->iterations, in_job) {
        if (it->live_clients == 0) {
            mr_alarm_by(core, &it->alarm, core->now);
        }
    }
}

void mr_apply_iteration_added(mr_core *core, const struct mr_iteration_added *u)
{
    struct mr_iteration *it = add_iteration(core, u->job, u->production, u->rec, u->err);
    struct mr_core_worker *worker;

    *u->ret = it;
    if (it == NULL) {
        return;
    }
    it->rules = u->rules;
    mr_touch(core, MR_STORED_ITERATION, it, 0);
    if (it->rec->finished) {
        mr_job_note_ended(core, u->job, it->rec->repetition);
        return;
    }
    /* Its tasks: those of every worker that lived after it began. */
    TAILQ_FOREACH(worker, &core->worker_list, link) {
        if (mr_core_worker_gets_tasks(worker, it)) {
            mr_task_add(core, it, worker, NULL);
        }
    }
    if (u->job != NULL && core->ready) {
        ring_unread(core, u->job);
    }
}

/* What the tasks were is over; their keys, and those of hand-out, go when there is time. */
static void drop_tasks(mr_core *core, struct mr_iteration *it)
{
    while (!TAILQ_EMPTY(&it->tasks)) {
        mr_task_remove(core, TAILQ_FIRST(&it->tasks));
    }
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        if (it->cursors[i].rec != NULL) {
            mr_leave_over(core, MR_STORED_CURSOR, it, i);
            mr_record_free(it->cursors[i].rec);
            it->cursors[i].rec = NULL;
        }
    }
    mr_rounds_drop(core, it);
}

void mr_iteration_remove(mr_core *core, struct mr_iteration *it, bool with_owner)
{
    MR_ASSERT(it->live_clients == 0);
    if (with_owner) {
        mr_leave_over(core, MR_STORED_ITERATION, it, 0);
    } else {
        mr_delete(core, MR_STORED_ITERATION, it, 0);
    }
    drop_tasks(core, it);
    while (!TAILQ_EMPTY(&it->clients)) {
        mr_client_orphan(core, TAILQ_FIRST(&it->clients));
    }
    mr_iteration_unmark(core, it);
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

void mr_apply_iteration_removed(mr_core *core, const struct mr_iteration_removed *u)
{
    mr_iteration_remove(core, u->iteration, u->with_owner);
}

/* ---------------------------------------------------------------- the end */

/* So that its readers can be told when its own record is gone. */
static void remember_collected(mr_core *core, struct mr_job *job, uint64_t repetition)
{
    Millrace__CollectedRepetition *one =
        MR_ADD_RECORD(core, job->rec, collected, collected_repetition);

    if (one != NULL) {
        one->repetition = repetition;
        one->collected_ms = (uint64_t)core->wall_ms;
    }
    if (job->rec->n_collected > MR_COLLECTED_MAX) {
        MR_REMOVE_RECORD(job->rec, collected, 0);
    }
}

void mr_apply_iteration_finished(mr_core *core, const struct mr_iteration_finished *u)
{
    struct mr_iteration *it = u->iteration;

    if (u->is_collected) {
        remember_collected(core, it->job, it->rec->repetition);
    }
    it->rec->end = u->end;
    it->rec->finished = true;
    it->rec->joining = false;
    it->rec->finished_ms = (uint64_t)core->wall_ms;
    it->rec->unread_ms = 0;
    it->since = core->now;
    core->open_iterations--;
    mr_share_give(it->open_share, 1);
    it->open_share = NULL;
    mr_iteration_unmark(core, it);
    mr_touch(core, MR_STORED_ITERATION, it, 0);
    it->job->nfinished++;
    ring_unread(core, it->job);
    mr_alarm_by(core, &it->alarm, core->now);
    mr_job_note_ended(core, it->job, it->rec->repetition);
    mr_touch(core, MR_STORED_JOB, it->job, 0);
    if (it->uses != NULL) {
        mr_production_note_finished(core, it);
    }
    mr_iteration_note_finished(core, it);
    drop_tasks(core, it);
}

void mr_apply_pipeline_ended(mr_core *core, const struct mr_pipeline_ended *u)
{
    u->iteration->rec->pipeline_ended = true;
    mr_touch(core, MR_STORED_ITERATION, u->iteration, 0);
}

/* ---------------------------------------------------------------- losses */

/* Is it the first sign in this iteration of the loss of its worker, which may have had several
 * tasks? */
static bool is_first_loss(const struct mr_task *task)
{
    const struct mr_task *other;

    if (!mr_task_is_recovery(task)) {
        return true; /* it stands before those that came on top of it */
    }
    TAILQ_FOREACH(other, &task->iteration->tasks, in_iteration) {
        if (other == task || (other->worker == task->worker && other->state == MR_TASK_LOST)) {
            break;
        }
    }
    return other == task;
}

/* The iteration knows of the loss from now on, under the next leader, too. */
static void set_counted(mr_core *core, struct mr_task *task)
{
    struct mr_iteration *it = task->iteration;

    if (mr_stamp_compare(task->worker->lost, it->losses_counted_to) > 0) {
        it->losses_counted_to = task->worker->lost;
        mr_core_set_stamp(core, &it->rec->losses_counted_to, it->losses_counted_to);
    }
    mr_task_set_counted(task);
    mr_touch(core, MR_STORED_ITERATION, it, 0);
}

void mr_apply_loss_counted(mr_core *core, const struct mr_loss_counted *u)
{
    struct mr_iteration *it = u->task->iteration;

    it->rec->lost_workers += is_first_loss(u->task) ? 1 : 0;
    mr_iteration_note_lost(it, u->splits, u->elements);
    for (size_t i = 0; i < it->rec->n_providers && core->failed == 0; i++) {
        if (u->task->grants[i].rec != NULL && u->task->grants[i].rec->n_open > 0) {
            mr_split_list_squeeze(mr_pool(it, i), MR_SPLIT_RANGES_MAX);
        }
    }
    mr_grants_void(u->task);
    set_counted(core, u->task);
}

void mr_apply_iteration_joined(mr_core *core, const struct mr_iteration_joined *u)
{
    struct mr_iteration *it = u->iteration;
    struct mr_task *task;

    if (u->own != NULL) {
        mr_production_leave(core, it);
        mr_core_set(core, &it->rec->production, u->own->rec->id);
        mr_core_set_line(core, &it->rec->unshared, u->why);
        mr_production_join(core, u->own, it);
    }
    it->rec->joining = false;
    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        /* They had given it nothing, and nobody had to. */
        if (task->state == MR_TASK_LOST && !task->counted &&
            !mr_core_worker_is_live(task->worker)) {
            set_counted(core, task);
        }
    }
    mr_touch(core, MR_STORED_ITERATION, it, 0);
    mr_iteration_note_assignments(core, it);
}

/* ---------------------------------------------------------------- takeover */

void mr_apply_iteration_broken(mr_core *core, const struct mr_iteration_broken *u)
{
    mr_free(u->iteration->broken);
    u->iteration->broken = u->why != NULL ? mr_strdup(u->why) : NULL;
    if (u->why != NULL && u->iteration->broken == NULL) {
        mr_core_nomem(core);
    }
}

void mr_apply_iteration_break_written(mr_core *core, const struct mr_iteration_break_written *u)
{
    struct mr_iteration *it = u->iteration;

    it->rec->finished_ms = (uint64_t)core->wall_ms;
    mr_touch(core, MR_STORED_ITERATION, it, 0);
    mr_touch(core, MR_STORED_JOB, it->job, 0);
    mr_free(it->broken);
    it->broken = NULL;
    core->spoiled--;
}
