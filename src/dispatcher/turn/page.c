#include "dispatcher/turn/internal.h"

#define WAITED_FOR_MAX 10 /* consumers of one job that are named */

static void add_self(const mr_turn *t, mr_metrics *m)
{
    size_t held = 0;

    for (const struct mr_held_effect *h = t->held; h != NULL; h = h->next) {
        held++;
    }
    mr_metrics_add(m, MR_METRIC_LEADER, t->serving ? 1 : 0);
    mr_metrics_add(m, MR_METRIC_EPOCH, (double)t->leader_epoch);
    mr_metrics_add(m, MR_METRIC_LEADER_CHANGES, (double)t->leader_changes);
    mr_metrics_add(m, MR_METRIC_HELD_ANSWERS, (double)held);
}

static void add_splits(const mr_turn *t, mr_metrics *m)
{
    const struct mr_tally *tally = &t->tally;

    mr_metrics_add(m, MR_METRIC_SPLITS_ASSIGNED, (double)tally->assigned);
    mr_metrics_add1(m, MR_METRIC_SPLITS_RETURNED, "lost", (double)tally->returned);
    mr_metrics_add1(m, MR_METRIC_SPLITS_RETURNED, "given_back", (double)tally->given_back);
    mr_metrics_add(m, MR_METRIC_SPLITS_LOST, (double)tally->lost);
}

static void add_readers(const mr_turn *t, mr_metrics *m)
{
    mr_metrics_add1(m, MR_METRIC_READERS_SECONDS, "working", (double)t->tally.worked_ns / 1e9);
    mr_metrics_add1(m, MR_METRIC_READERS_SECONDS, "waiting", (double)t->tally.waited_ns / 1e9);
}

static void add_store(const mr_turn *t, mr_metrics *m)
{
    int64_t answered_ms = mr_member_answered_ms(t->member);
    /* Never: then no leader was ever known either. */
    int64_t since_ms = answered_ms != 0 ? answered_ms : t->silent_since_ms;

    mr_metrics_add(m, MR_METRIC_STORE_SILENT_SECONDS, (double)(t->now_ms - since_ms) / 1000);
    mr_metrics_add(m, MR_METRIC_STORE_WRITTEN_BYTES, (double)mr_member_written(t->member));
    mr_metrics_add(m, MR_METRIC_STORE_WRITE_BUDGET, (double)t->opts.etcd_write_budget);
    mr_metrics_add(m, MR_METRIC_STORE_FULL, mr_member_full(t->member) ? 1 : 0);
    if (t->store_bytes > 0) {
        mr_metrics_add(m, MR_METRIC_STORE_DATABASE_BYTES, (double)t->store_bytes);
        mr_metrics_add(m, MR_METRIC_STORE_QUOTA_BYTES, (double)t->store_quota_bytes);
    }
    if (t->serving) {
        mr_metrics_add(m, MR_METRIC_STORE_UNCOMMITTED,
                       (double)(mr_member_newest(t->member) - mr_member_committed(t->member)));
        mr_metrics_add(m, MR_METRIC_STORE_WRITE_RATE, (double)mr_budget_rate(&t->budget));
        mr_metrics_add(m, MR_METRIC_GRANT_SECONDS, (double)mr_budget_stretch_ms(&t->budget) / 1000);
    }
}

static void add_counts(const mr_turn *t, mr_metrics *m)
{
    struct mr_core_counts c;

    mr_core_count(t->core, &c);
    mr_metrics_add(m, MR_METRIC_DISPATCHERS, (double)t->ndispatchers);
    mr_metrics_add(m, MR_METRIC_STORE_KEYS, (double)c.keys);
    mr_metrics_add1(m, MR_METRIC_WORKERS, "live", (double)c.workers_live);
    mr_metrics_add1(m, MR_METRIC_WORKERS, "draining", (double)c.workers_draining);
    mr_metrics_add1(m, MR_METRIC_WORKERS, "lost", (double)c.workers_lost);
    mr_metrics_add(m, MR_METRIC_CLIENTS, (double)c.clients);
    mr_metrics_add(m, MR_METRIC_DATASETS, (double)c.datasets);
    mr_metrics_add1(m, MR_METRIC_JOBS, "active", (double)c.jobs_active);
    mr_metrics_add1(m, MR_METRIC_JOBS, "idle", (double)c.jobs_idle);
    mr_metrics_add1(m, MR_METRIC_ITERATIONS, "open", (double)c.iterations_open);
    mr_metrics_add1(m, MR_METRIC_ITERATIONS, "finished", (double)c.iterations_finished);
    for (enum mr_task_shown s = 0; s < MR_SHOWN_COUNT; s++) {
        mr_metrics_add1(m, MR_METRIC_TASKS, mr_task_shown_name(s), (double)c.tasks[s]);
    }
    mr_metrics_add(m, MR_METRIC_TASKS_STALLED, (double)c.tasks_stalled);
    mr_metrics_add(m, MR_METRIC_PRODUCTIONS, (double)c.productions);
    mr_metrics_add1(m, MR_METRIC_WINDOWS, "disk", (double)c.windows_on_disk);
    mr_metrics_add1(m, MR_METRIC_WINDOWS, "memory", (double)c.windows_in_memory);
    mr_metrics_add1(m, MR_METRIC_UNSHARED, "guarantee", (double)c.unshared_guarantee);
    mr_metrics_add1(m, MR_METRIC_UNSHARED, "not_joined", (double)c.unshared_apart);
}

struct job_page {
    mr_metrics *metrics;
    unsigned named; /* consumers of the job that is being visited */
};

static void on_job(void *ctx, const struct mr_job_numbers *n)
{
    struct job_page *p = ctx;

    p->named = 0;
    mr_metrics_add1(p->metrics, MR_METRIC_JOB_CLIENTS, n->label, (double)n->clients);
    mr_metrics_add1(p->metrics, MR_METRIC_JOB_SKIPPED, n->label, (double)n->skipped);
    mr_metrics_add1(p->metrics, MR_METRIC_JOB_LOST_SPLITS, n->label, (double)n->lost_splits);
    mr_metrics_add1(p->metrics, MR_METRIC_JOB_REPEATED_SPLITS, n->label,
                    (double)n->repeated_splits);
    if (n->coordinated) {
        mr_metrics_add1(p->metrics, MR_METRIC_ROUNDS_POSITION, n->label, (double)n->position);
        mr_metrics_add1(p->metrics, MR_METRIC_ROUNDS_RATE, n->label, (double)n->rounds_per_s);
    }
}

/* Before the job itself. The first ones will do: whoever is waited for is one of few, or everything
 * stands still. */
static void on_waited_for(void *ctx, const char *label, uint32_t consumer, uint64_t ms)
{
    struct job_page *p = ctx;
    char index[16];

    if (p->named++ < WAITED_FOR_MAX) {
        (void)snprintf(index, sizeof index, "%u", consumer);
        mr_metrics_add2(p->metrics, MR_METRIC_ROUNDS_WAITING, label, index, (double)ms / 1000);
    }
}

static void on_why(void *ctx, const char *label, const char *bound, uint32_t permille)
{
    struct job_page *p = ctx;

    mr_metrics_add2(p->metrics, MR_METRIC_JOB_BOUND, label, bound, (double)permille / 1000);
}

void mr_turn_page(const mr_turn *t, mr_metrics *m)
{
    add_self(t, m);
    add_splits(t, m);
    add_readers(t, m);
    add_store(t, m);
    if (t->serving) {
        struct job_page p = {.metrics = m};
        struct mr_core_visitor visitor = {
            .job = on_job, .waited_for = on_waited_for, .why = on_why, .ctx = &p};

        add_counts(t, m);
        mr_core_visit_jobs(t->core, &visitor);
    }
}
