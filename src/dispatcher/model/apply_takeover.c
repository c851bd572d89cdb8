/* Updates of a takeover: parts that were loaded, and what is derived when all are there. */
#include "dispatcher/model/apply.h"

void mr_apply_part_loaded(mr_core *core, const struct mr_part_loaded *u)
{
    *mr_stored_slot(u->kind, u->object, u->index) = u->rec;
    if (u->kind == MR_STORED_TASK) {
        struct mr_task *task = u->object;

        task->counted = task->rec->lost; /* in the transaction that closed it */
        task->drained = task->rec->drained;
        mr_task_move(core, task, task->rec->ended ? MR_TASK_ENDED : MR_TASK_LOST);
    }
}

/* Tasks that were open when their worker's life ended. */
static void derive_losses(mr_core *core, struct mr_core_worker *worker)
{
    struct mr_task *task;

    if (mr_core_worker_is_live(worker)) {
        return;
    }
    TAILQ_FOREACH(task, &worker->tasks, in_worker) {
        if (task->state == MR_TASK_OPEN) {
            task->counted = mr_stamp_compare(worker->lost, task->iteration->losses_counted_to) <= 0;
            mr_task_move(core, task, MR_TASK_LOST);
        }
    }
}

/* Grants of tasks that have ended, or whose loss is counted, are only the last answer. */
static void void_grants(struct mr_iteration *it)
{
    struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        if (task->state == MR_TASK_ENDED || (task->state == MR_TASK_LOST && task->counted)) {
            mr_grants_void(task);
        }
    }
}

/* Everybody gets a full grace: who was silent because nobody led is not lost. What waits for wall
 * time is looked at by the first timer, since only a command brings it. */
void mr_apply_all_loaded(mr_core *core, const struct mr_all_loaded *u)
{
    const struct mr_core_config *config = &core->config;
    struct mr_dataset_entry *dataset;
    struct mr_iteration *it;
    struct mr_core_worker *worker;
    struct mr_client *client;
    struct mr_job *job;

    core->armed_at = core->now;
    core->collect_from = u->collect_from;
    TAILQ_FOREACH(worker, &core->worker_list, link) {
        derive_losses(core, worker);
        worker->seen = core->now;
        worker->awaited = true;
        worker->lost_at = core->now;
        worker->deadline =
            mr_time_add(core->now, MR_MAX(config->worker_timeout_ms, config->takeover_grace_ms));
        mr_alarm_at(core, &worker->alarm,
                    mr_core_worker_is_live(worker) ? worker->deadline : core->now);
    }
    TAILQ_FOREACH(client, &core->client_list, link) {
        client->since = core->now;
        client->deadline =
            mr_time_add(core->now, MR_MAX(config->client_timeout_ms, config->takeover_grace_ms));
        mr_alarm_at(core, &client->alarm, client->rec->released ? core->now : client->deadline);
    }
    TAILQ_FOREACH(it, &core->iteration_list, link) {
        it->since = core->now;
        mr_alarm_at(core, &it->alarm, core->now);
        mr_iteration_mark(core, it);
        void_grants(it);
    }
    TAILQ_FOREACH(job, &core->job_list, link) {
        job->idle_since = core->now;
        mr_alarm_at(core, &job->alarm, core->now);
    }
    TAILQ_FOREACH(dataset, &core->dataset_list, link) {
        dataset->since = core->now;
        mr_alarm_at(core, &dataset->alarm, core->now);
    }
}
