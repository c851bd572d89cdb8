/* A core: its life and clock, and one step of it: time, the rule, what it changed and who is
 * told. */
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
#define X(name) default_to(&config->name, o.name);
    MR_CORE_TIMES(X)
#undef X
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

    core->now = MR_MAX(core->now, now);
    core->wall_ms = in->wall_ms;
    core->full = in->full;
    core->grant_ms = MR_MAX(in->grant_ms, MR_GRANT_MS);
}

static const struct {
    mr_rule_fn *rule;
    const ProtobufCMessageDescriptor *reply; /* NULL: none */
} commands[] = {
    [MR_COMMAND_STORE_PART] = {mr_core_do_store_part},
    [MR_COMMAND_TIMER] = {mr_core_do_timer},
#define COMMAND(kind, name, type)                                                                  \
    [MR_COMMAND_##kind] = {mr_core_do_##name, &millrace__##type##__descriptor}
    COMMAND(REGISTER_DATASET, register_dataset, register_dataset_reply),
    COMMAND(GET_DATASET, get_dataset, get_dataset_reply),
    COMMAND(OPEN, open, open_reply),
    COMMAND(WATCH_CLIENT, watch_client, client_update),
    COMMAND(CLIENT_HEARTBEAT, client_heartbeat, client_heartbeat_reply),
    COMMAND(RELEASE_CLIENT, release_client, release_client_reply),
    COMMAND(REGISTER_WORKER, register_worker, register_worker_reply),
    COMMAND(WATCH_WORKER, watch_worker, worker_update),
    COMMAND(WORKER_HEARTBEAT, worker_heartbeat, worker_heartbeat_reply),
    COMMAND(GET_SPLITS, get_splits, get_splits_reply),
    COMMAND(TASK_ENDED, task_ended, task_ended_reply),
    COMMAND(DELETE_DATASET, delete_dataset, delete_dataset_reply),
    COMMAND(DELETE_JOB, delete_job, delete_job_reply),
    COMMAND(DRAIN_WORKER, drain_worker, drain_worker_reply),
    COMMAND(STATUS, status, status_reply),
#undef COMMAND
};

static void dispatch(mr_core *core, const struct mr_command *in)
{
    mr_error err;

    core->reply = commands[in->kind].reply;
    if (commands[in->kind].rule(core, in, &err) < 0) {
        mr_core_refuse(core, &err);
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
        return mr_error_pass(err, core->failed, &core->failure);
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
