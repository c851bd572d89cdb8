#include "dispatcher/loop/metrics.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sync.h"
#include "dispatcher/loop/internal.h"

#include <millrace/base.h>
#include <stdio.h>
#include <string.h>

#define ALIVE_MS 10000    /* a loop that has not turned for so long hangs */
#define STORE_MS 10000    /* renewals of the lease come more often */
#define WAITED_FOR_MAX 10 /* consumers of one job that are named */

/* ---- asking ---- */

struct mr_page_request {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    mr_metrics *page; /* the loop's until `done`; NULL then: there will be none */
    bool done;        /* lock */
    bool left;        /* lock: nobody waits for it any more; whoever answers frees it */
};

static void request_free(struct mr_page_request *r)
{
    mr_metrics_free(r->page);
    (void)pthread_cond_destroy(&r->answered);
    (void)pthread_mutex_destroy(&r->lock);
    mr_free(r);
}

int mr_loop_page(mr_loop *l, int64_t timeout_ms, mr_metrics **ret, mr_error *err)
{
    struct mr_page_request *r = mr_calloc(1, sizeof *r);
    struct mr_item item = {.kind = MR_ITEM_PAGE, .page = r};
    int64_t until = mr_now_ms() + timeout_ms;
    bool done;

    if (r == NULL) {
        return mr_error_nomem(err);
    }
    mr_mutex_init(&r->lock);
    mr_cond_init(&r->answered);
    r->page = mr_metrics_new();
    if (r->page == NULL) {
        request_free(r);
        return mr_error_nomem(err);
    }
    mr_mailbox_put(&l->mailbox, &item);
    mr_mutex_lock(&r->lock);
    while (!r->done && mr_now_ms() < until) {
        (void)mr_cond_wait_ms(&r->answered, &r->lock, until - mr_now_ms());
    }
    done = r->done;
    r->left = !done;
    mr_mutex_unlock(&r->lock);
    if (!done) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                   "the dispatcher's loop does not answer");
    }
    mr_metrics *page = r->page;

    r->page = NULL;
    request_free(r);
    if (page == NULL) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE, "the dispatcher is stopping");
    }
    *ret = page;
    return MR_OK;
}

int mr_loop_alive(mr_loop *l, mr_error *err)
{
    int64_t ms = mr_now_ms() - atomic_load(&l->numbers.turned_ms);

    return ms <= ALIVE_MS ? MR_OK
                          : mr_error_set(err, MR_EUNAVAIL, "the loop has not turned for %lld ms",
                                         (long long)ms);
}

int mr_loop_ready(mr_loop *l, mr_error *err)
{
    int64_t answered = atomic_load(&l->numbers.store_ms);
    int64_t ms = mr_now_ms() - answered;

    if (atomic_load(&l->numbers.stopping)) {
        return mr_error_set(err, MR_EUNAVAIL, "stopping");
    }
    if (answered == 0) {
        return mr_error_set(err, MR_EUNAVAIL, "etcd has not answered yet");
    }
    return ms <= STORE_MS
               ? MR_OK
               : mr_error_set(err, MR_EUNAVAIL, "etcd has not answered for %lld ms", (long long)ms);
}

/* ---- filling ---- */

static void add_self(struct mr_loop *l, mr_metrics *m)
{
    size_t held = 0;

    for (const struct mr_held_effect *h = l->held; h != NULL; h = h->next) {
        held++;
    }
    mr_metrics_add(m, MR_METRIC_LEADER, l->serving ? 1 : 0);
    mr_metrics_add(m, MR_METRIC_EPOCH, (double)l->numbers.leader_epoch);
    mr_metrics_add(m, MR_METRIC_LEADER_CHANGES, (double)l->numbers.leader_changes);
    mr_metrics_add_histogram(m, MR_METRIC_TAKEOVER_SECONDS, NULL, &l->numbers.takeover);
    mr_metrics_add(m, MR_METRIC_QUEUED_CALLS,
                   (double)(mr_mailbox_calls(&l->mailbox) + l->nwaiting));
    mr_metrics_add(m, MR_METRIC_CALL_BYTES, (double)mr_mailbox_call_bytes(&l->mailbox));
    mr_metrics_add(m, MR_METRIC_HELD_ANSWERS, (double)held);
}

static void add_methods(const struct mr_loop *l, mr_metrics *m)
{
    for (size_t i = 0; i < mr_methods_count; i++) {
        const struct mr_method_numbers *n = &l->numbers.methods[i];
        const char *name = strrchr(mr_methods[i].path, '/') + 1;

        if (mr_methods[i].stream) {
            continue; /* Its answers have no end. */
        }
        mr_metrics_add_histogram(m, MR_METRIC_RPC_SECONDS, name, &n->seconds);
        for (int kind = 1; kind < MR_CODES; kind++) {
            uint64_t errors = atomic_load(&n->errors[kind]);

            if (errors > 0) {
                mr_metrics_add2(m, MR_METRIC_RPC_ERRORS, name, mr_code_name(-kind), (double)errors);
            }
        }
    }
}

static void add_splits(const struct mr_loop *l, mr_metrics *m)
{
    const struct mr_tally *tally = &l->numbers.tally;

    mr_metrics_add(m, MR_METRIC_SPLITS_ASSIGNED, (double)tally->assigned);
    mr_metrics_add1(m, MR_METRIC_SPLITS_RETURNED, "lost", (double)tally->returned);
    mr_metrics_add1(m, MR_METRIC_SPLITS_RETURNED, "given_back", (double)tally->given_back);
    mr_metrics_add(m, MR_METRIC_SPLITS_LOST, (double)tally->lost);
}

static void add_store(const struct mr_loop *l, mr_metrics *m)
{
    mr_metrics_add(m, MR_METRIC_STORE_WRITTEN_BYTES, (double)mr_member_written(l->member));
    mr_metrics_add(m, MR_METRIC_STORE_WRITE_BUDGET, (double)l->opts.etcd_write_budget);
    mr_metrics_add(m, MR_METRIC_STORE_FULL, mr_member_full(l->member) ? 1 : 0);
    if (l->numbers.store_bytes > 0) {
        mr_metrics_add(m, MR_METRIC_STORE_DATABASE_BYTES, (double)l->numbers.store_bytes);
        mr_metrics_add(m, MR_METRIC_STORE_QUOTA_BYTES, (double)l->numbers.store_quota_bytes);
    }
    if (l->serving) {
        mr_metrics_add(m, MR_METRIC_STORE_UNCOMMITTED,
                       (double)(mr_member_newest(l->member) - mr_member_committed(l->member)));
        mr_metrics_add(m, MR_METRIC_STORE_WRITE_RATE, (double)mr_budget_rate(&l->budget));
        mr_metrics_add(m, MR_METRIC_GRANT_SECONDS, (double)mr_budget_stretch_ms(&l->budget) / 1000);
    }
}

static void add_counts(const struct mr_loop *l, mr_metrics *m)
{
    struct mr_core_counts c;

    mr_core_count(l->core, &c);
    mr_metrics_add(m, MR_METRIC_DISPATCHERS, (double)l->ndispatchers);
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

static void fill(struct mr_loop *l, mr_metrics *m)
{
    add_self(l, m);
    add_methods(l, m);
    add_splits(l, m);
    add_store(l, m);
    if (l->serving) {
        struct job_page p = {.metrics = m};
        struct mr_core_visitor visitor = {.job = on_job, .waited_for = on_waited_for, .ctx = &p};

        add_counts(l, m);
        mr_core_visit_jobs(l->core, &visitor);
    }
}

void mr_page_request_answer(struct mr_page_request *r, struct mr_loop *l)
{
    bool left;

    if (l != NULL) {
        fill(l, r->page);
    } else {
        mr_metrics_free(r->page);
        r->page = NULL;
    }
    mr_mutex_lock(&r->lock);
    r->done = true;
    left = r->left;
    (void)pthread_cond_signal(&r->answered);
    mr_mutex_unlock(&r->lock);
    if (left) {
        request_free(r);
    }
}
