/* What one host has made of what is bounded for all: its share (base/shares.h). It counts what came
 * with a command that says whose it is. What was loaded is nobody's, since the store does not know;
 * so is what the core makes by itself. Nobody has all that there may be. */
#include "dispatcher/model/model.h"

void mr_hosts_init(mr_core *core)
{
    mr_shares_init(&core->hosts.datasets, "datasets", MR_CORE_DATASETS_MAX);
    mr_shares_init(&core->hosts.iterations, "iterations", MR_CORE_ITERATIONS_MAX);
    mr_shares_init(&core->hosts.open_iterations, "open iterations", MR_CORE_ITERATIONS_MAX);
    mr_shares_init(&core->hosts.clients, "clients", MR_CORE_CLIENTS_MAX);
    mr_shares_init(&core->hosts.workers, "workers", MR_CORE_WORKERS_MAX);
}

void mr_hosts_free(mr_core *core)
{
    mr_shares_free(&core->hosts.datasets);
    mr_shares_free(&core->hosts.iterations);
    mr_shares_free(&core->hosts.open_iterations);
    mr_shares_free(&core->hosts.clients);
    mr_shares_free(&core->hosts.workers);
}

static const char *host_of(const mr_core *core)
{
    return core->in != NULL ? core->in->host : NULL;
}

struct mr_share *mr_hosts_note(mr_core *core, struct mr_shares *all)
{
    const char *host = host_of(core);
    struct mr_share *share = mr_shares_add(all, host != NULL ? host : "", 1);

    if (share == NULL) {
        mr_core_nomem(core);
    }
    return share;
}

int mr_hosts_check(const mr_core *core, const struct mr_shares *all, mr_error *err)
{
    return host_of(core) != NULL ? mr_shares_check(all, host_of(core), 1, err) : MR_OK;
}

int mr_hosts_check_tasks(const mr_core *core, mr_error *err)
{
    const struct mr_share *share =
        host_of(core) != NULL ? mr_map_get(&core->hosts.open_iterations.map, host_of(core)) : NULL;
    size_t held = share != NULL ? share->held * core->live_workers : 0;
    size_t left = MR_CORE_TASKS_MAX - core->tasks;

    if (held > left) {
        return mr_error_set_traits(
            err, MR_EEXHAUSTED, MR_RETRYABLE,
            "host %.64s has %zu of %d tasks (%zu are taken in all) and may have no more than it "
            "leaves free: end some of its jobs, or ask again later",
            host_of(core), held, MR_CORE_TASKS_MAX, core->tasks);
    }
    return MR_OK;
}
