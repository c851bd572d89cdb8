/* A core: its life and clock, and one step of it: time, the rule, what it changed and who is told. */
#include "dispatcher/model/model.h"
#include "dispatcher/takeover/takeover.h"
#include "options/programs.h"

#define TAKEOVER_GRACE_MS 20000

static void default_to(int64_t *value, int64_t otherwise)
{
    if (*value <= 0) {
        *value = otherwise;
    }
}

/* As a dispatcher without options has it. */
static void set_defaults(struct mr_core_config *config)
{
    struct mr_dispatcher_options o = {0};

    mr_dispatcher_options_fill(&o);
    default_to(&config->worker_timeout_ms, o.worker_timeout_ms);
    default_to(&config->client_timeout_ms, o.client_timeout_ms);
    default_to(&config->job_gc_timeout_ms, o.job_gc_timeout_ms);
    default_to(&config->finished_retention_ms, o.finished_retention_ms);
    default_to(&config->client_retention_ms, o.client_retention_ms);
    default_to(&config->worker_retention_ms, o.worker_retention_ms);
    default_to(&config->job_retention_ms, o.job_retention_ms);
    default_to(&config->dataset_retention_ms, o.dataset_retention_ms);
    default_to(&config->heartbeat_ms, o.heartbeat_ms);
    default_to(&config->stall_timeout_ms, o.stall_timeout_ms);
    default_to(&config->takeover_grace_ms, TAKEOVER_GRACE_MS);
}

mr_core *mr_core_new(const struct mr_core_config *config)
{
    mr_core *core = mr_calloc(1, sizeof *core);

    if (core == NULL) {
        return NULL;
    }
    core->config = *config;
    core->counter = core->versions = (uint64_t)config->loads << 32;
    set_defaults(&core->config);
    mr_model_init(core);
    return core;
}

void mr_core_free(mr_core *core)
{
    if (core != NULL) {
        mr_staged_free(core->staged);
        mr_model_free(core);
        mr_free(core);
    }
}

/* The core's clock stands still while the loop did. */
static void set_clock(mr_core *core, const struct mr_command *in)
{
    if (in->late_ms > 0) {
        core->late = mr_time_add(core->late, in->late_ms);
    }
    int64_t now = in->now_ms - core->late;

    if (now > core->now) {
        core->now = now;
    }
    core->wall_ms = in->wall_ms;
    core->full = in->full;
    core->grant_ms = in->grant_ms > MR_GRANT_MS ? in->grant_ms : MR_GRANT_MS;
}

static void dispatch(mr_core *core, const struct mr_command *in)
{
    switch (in->kind) {
    case MR_COMMAND_STORE_PART:
        mr_core_do_store_part(core, in->part);
        break;
    case MR_COMMAND_REGISTER_DATASET:
        mr_core_do_register_dataset(core, in->dataset);
        break;
    case MR_COMMAND_GET_DATASET:
        mr_core_do_get_dataset(core, in->get_dataset);
        break;
    case MR_COMMAND_OPEN:
        mr_core_do_open(core, in->open);
        break;
    case MR_COMMAND_WATCH_CLIENT:
        mr_core_do_watch_client(core, in->watch_client);
        break;
    case MR_COMMAND_CLIENT_HEARTBEAT:
        mr_core_do_client_heartbeat(core, in->client_heartbeat);
        break;
    case MR_COMMAND_RELEASE_CLIENT:
        mr_core_do_release_client(core, in->release_client);
        break;
    case MR_COMMAND_REGISTER_WORKER:
        mr_core_do_register_worker(core, in->register_worker, in->worker_watches);
        break;
    case MR_COMMAND_WATCH_WORKER:
        mr_core_do_watch_worker(core, in->watch_worker, in->worker_watches);
        break;
    case MR_COMMAND_WORKER_HEARTBEAT:
        mr_core_do_worker_heartbeat(core, in->worker_heartbeat);
        break;
    case MR_COMMAND_GET_SPLITS:
        mr_core_do_get_splits(core, in->get_splits);
        break;
    case MR_COMMAND_TASK_ENDED:
        mr_core_do_task_ended(core, in->task_ended);
        break;
    case MR_COMMAND_DELETE_DATASET:
        mr_core_do_delete_dataset(core, in->delete_dataset);
        break;
    case MR_COMMAND_DELETE_JOB:
        mr_core_do_delete_job(core, in->delete_job);
        break;
    case MR_COMMAND_STATUS:
        mr_core_do_status(core, in->status);
        break;
    case MR_COMMAND_TIMER:
        mr_core_do_timer(core);
        break;
    }
}

/* A walk over everything costs as much as there is: with much it comes seldom, so that its share
 * stays the same. */
static inline bool is_check_due(mr_core *core)
{
    size_t objects = core->tasks + core->nworkers + core->iterations.count + core->jobs.count +
                     core->clients.count;

    if (objects > 64 && ++core->unchecked * 16 < objects) {
        return false;
    }
    core->unchecked = 0;
    return true;
}

int mr_core_step(mr_core *core, const struct mr_command *in, struct mr_outcome *out, mr_error *err)
{
    MR_ASSERT(core->ready);
    MR_ASSERT(out->nchanges == 0);
    MR_ASSERT(out->neffects == 0);
    if (core->failed != 0) {
        return mr_error_set(err, core->failed, "the core has failed already: %s",
                            core->failure.message);
    }

    core->in = in;
    core->out = out;
    core->change_bytes = 0;
    set_clock(core, in);
    dispatch(core, in);
    if (core->failed == 0) {
        mr_core_push_touched(core);
        mr_changes_write(core);
    }
    core->in = NULL;
    core->out = NULL;

    MR_ASSERT(out->nchanges <= MR_CORE_CHANGES_MAX);
    MR_ASSERT_SLOW(core->failed != 0 || !is_check_due(core) || mr_core_check(core, NULL) == MR_OK);
    if (core->failed != 0) {
        mr_outcome_clear(out);
        if (err != NULL) {
            *err = core->failure;
        }
        return core->failed;
    }
    return MR_OK;
}

int64_t mr_core_next_timer(const mr_core *core)
{
    bool marked = !core->full && !TAILQ_EMPTY(&core->marked);
    bool unwritten = !core->full && core->spoiled + core->revived > 0;
    bool work_left = marked || unwritten || (core->spoiled == 0 && !STAILQ_EMPTY(&core->left_over));
    const struct mr_alarm *alarm = mr_alarm_first(core);

    return mr_time_add(work_left ? core->now : alarm != NULL ? alarm->due : MR_NEVER, core->late);
}
