#include "worker/progress.h"

#include "worker/kinds.h"

struct entry {
    struct mr_worker_task *task; /* a reference */
    struct mr_worker_task_progress said;
};

struct mr_progress {
    size_t n;
    struct entry *entries;
    Millrace__TaskProgress **pointers;
    Millrace__CacheProgress cache;
    struct mr_windows_progress windows;
};

/* AT_LEAST_ONCE: a report for each provider. */
static int add_reports(struct mr_worker_task *t, Millrace__TaskProgress *p, mr_error *err)
{
    MR_AUTO(mr_free)
    struct mr_grant_report *reports = mr_calloc(t->providers, sizeof reports[0]);
    MR_AUTO(mr_free)
    Millrace__GrantReport **pointers = mr_calloc(t->providers, sizeof pointers[0]);

    MR_CHECK_ALLOC(reports, err);
    MR_CHECK_ALLOC(pointers, err);
    for (uint32_t i = 0; i < t->providers; i++) {
        mr_split_feed_finished(t->feed, i, &reports[i]);
        pointers[i] = &reports[i].base;
    }
    (void)MR_TAKE(reports); /* pointers[0] is its address */
    p->reports = MR_TAKE(pointers);
    p->n_reports = t->providers;
    return MR_OK;
}

static void free_reports(Millrace__TaskProgress *p)
{
    if (p->reports != NULL) {
        mr_free(p->reports[0]); /* they are one array */
        mr_free(p->reports);
    }
}

static int fill_entry(struct entry *e, mr_error *err)
{
    struct mr_worker_task *t = e->task;
    Millrace__TaskProgress *p = &e->said.base;

    millrace__task_progress__init(p);
    p->task_id = t->id;
    t->kind->progress(t, &e->said);
    MR_TRY(mr_worker_task_times_report(t, &e->said.times, err));
    p->times = e->said.times != NULL ? &e->said.times->base : NULL;
    return t->at_least_once && t->dynamic && t->providers > 0 ? add_reports(t, p, err) : MR_OK;
}

static void fill_cache(struct mr_progress *p, struct mr_worker *w)
{
    mr_windows_progress(w->windows, &p->windows);
    millrace__cache_progress__init(&p->cache);
    p->cache.bytes_max = p->windows.bytes_max;
    p->cache.failures = p->windows.failures;
    p->cache.degraded = p->windows.degraded;
    for (size_t i = 0; i < p->n; i++) {
        p->cache.bytes += p->entries[i].said.disk_bytes;
    }
}

/* References to all tasks, an entry each. */
static int list_tasks(struct mr_worker *w, struct mr_progress *p, mr_error *err)
{
    struct mr_worker_task *t;

    MR_LOCK(&w->lock);
    p->entries = mr_calloc(w->ntasks, sizeof p->entries[0]);
    p->pointers = mr_calloc(w->ntasks, sizeof p->pointers[0]);
    if (p->entries == NULL || p->pointers == NULL) {
        return mr_error_nomem(err);
    }
    TAILQ_FOREACH(t, &w->tasks, link) {
        p->pointers[p->n] = &p->entries[p->n].said.base;
        p->entries[p->n++].task = mr_worker_task_ref(t);
    }
    return MR_OK;
}

int mr_progress_new(struct mr_worker *w, struct mr_progress **ret, mr_error *err)
{
    MR_AUTO(mr_progress_free) struct mr_progress *p = mr_calloc(1, sizeof *p);

    MR_CHECK_ALLOC(p, err);
    MR_TRY(list_tasks(w, p, err));
    for (size_t i = 0; i < p->n; i++) {
        MR_TRY(fill_entry(&p->entries[i], err));
    }
    fill_cache(p, w);
    *ret = MR_TAKE(p);
    return MR_OK;
}

void mr_progress_free(struct mr_progress *p)
{
    if (p == NULL) {
        return;
    }
    for (size_t i = 0; i < p->n; i++) {
        free_reports(&p->entries[i].said.base);
        mr_free(p->entries[i].said.rounds.missing);
        mr_free(p->entries[i].said.times);
        mr_worker_task_unref(p->entries[i].task);
    }
    mr_free(p->entries);
    mr_free(p->pointers);
    mr_free(p);
}

void mr_progress_measure(const struct mr_progress *p, mr_metrics *m)
{
    /* Equal labels add up: what there is none of is said, too. */
    for (size_t i = 0; i < MR_WORKER_TASK_KIND_COUNT; i++) {
        mr_metrics_add1(m, MR_METRIC_WORKER_TASKS, mr_worker_task_kinds[i]->name, 0);
    }
    mr_metrics_add(m, MR_METRIC_WORKER_SESSIONS, 0);
    mr_metrics_add(m, MR_METRIC_WORKER_BUFFER_BYTES, 0);
    mr_metrics_add(m, MR_METRIC_WINDOW_BYTES, 0);
    mr_metrics_add1(m, MR_METRIC_WORKER_WINDOWS, "disk", 0);
    mr_metrics_add1(m, MR_METRIC_WORKER_WINDOWS, "memory", 0);
    for (size_t i = 0; i < p->n; i++) {
        const struct mr_worker_task_progress *said = &p->entries[i].said;

        mr_metrics_add1(m, MR_METRIC_WORKER_TASKS, p->entries[i].task->kind->name, 1);
        mr_metrics_add(m, MR_METRIC_WORKER_SESSIONS, said->base.sessions);
        mr_metrics_add(m, MR_METRIC_WORKER_BUFFER_BYTES, (double)said->base.buffered_bytes);
        if (said->base.window != NULL) {
            bool on_disk = said->window.degraded[0] == '\0';

            mr_metrics_add(m, MR_METRIC_WINDOW_BYTES, (double)said->window.bytes);
            mr_metrics_add1(m, MR_METRIC_WORKER_WINDOWS, on_disk ? "disk" : "memory", 1);
        }
    }
    mr_metrics_add(m, MR_METRIC_CACHE_BYTES, (double)p->cache.bytes);
}

/* What a request has besides tasks is small. */
#define TASKS_BYTES_MAX (MR_RPC_REQUEST_BYTES_MAX / 2)
#define FIELD_BYTES 8 /* tag and length of one */

size_t mr_progress_fill(struct mr_progress *p, size_t from, Millrace__WorkerHeartbeatRequest *req)
{
    size_t bytes = 0;
    size_t end = from;

    while (end < p->n) {
        bytes += protobuf_c_message_get_packed_size(&p->pointers[end]->base) + FIELD_BYTES;
        if (end > from && bytes > TASKS_BYTES_MAX) {
            break;
        }
        end++;
    }
    req->tasks = p->pointers + from;
    req->n_tasks = end - from;
    req->cache = p->windows.used ? &p->cache : NULL;
    return end < p->n ? end : 0;
}
