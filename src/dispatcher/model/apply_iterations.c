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
/*
 * What the changes of its tasks mean for an iteration: losses are counted, and it ends or goes on.
 *
 * It is over when no task is open and one at least saw the end of the data. Nothing that came back,
 * from lost workers (at least once) or unopened from such as drained, may be waiting either. A task
 * that ended because its worker drained is no sign that this is all. An iteration whose tasks were
 * all lost stays open: whoever is there goes on with it, or the next worker.
 *
 * A change of a task only marks its iteration; it is settled when a step has room for all that
 * follows.
 */
#include "dispatcher/model/model.h"

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

void mr_iteration_drop_tasks(mr_core *core, struct mr_iteration *it)
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

void mr_iteration_forget(mr_core *core, struct mr_iteration *it, bool with_job)
{

    MR_ASSERT(it->live_clients == 0);
    if (with_job) {
        mr_leave_over(core, MR_STORED_ITERATION, it, 0);
    } else {
        mr_delete(core, MR_STORED_ITERATION, it, 0);
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

void mr_iteration_note_lost(struct mr_iteration *it, uint64_t splits, uint64_t elements)
{
    bool known = (it->rec->lost_splits == 0 || it->rec->lost_elements > 0) && elements > 0;

    if (splits > 0) {
        it->rec->lost_splits += splits;
        it->rec->lost_elements = known ? mr_count_add(it->rec->lost_elements, elements) : 0;
    }
}

void mr_iteration_note_abandoned(mr_core *core, struct mr_iteration *it, uint64_t elements,
                                 uint64_t instead_of)
{
    uint64_t *sum = it->rec->end != NULL ? &it->rec->end->abandoned : &it->rec->abandoned;

    if (elements != instead_of) {
        *sum = mr_count_add(*sum > instead_of ? *sum - instead_of : 0, elements);
        mr_touch(core, MR_STORED_ITERATION, it, 0);
    }
}
