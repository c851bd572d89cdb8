/* A worker's metrics: what heartbeats say, added up, and what is counted as it happens. */
#include "metrics/metrics.h"

#include "worker/internal.h"
#include "worker/progress.h"

MR_AUTO_DEFINE(mr_metrics, mr_metrics_free)

static double of(const _Atomic uint64_t *counter)
{
    return (double)atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_counters(const struct mr_worker *w, mr_metrics *m)
{
    static const char *const sources[] = {
        [MR_SENT_PIPELINE] = "pipeline", [MR_SENT_WINDOW] = "window"};

    mr_metrics_add(m, MR_METRIC_WORKER_MADE_ELEMENTS, of(&w->numbers.made_elements));
    mr_metrics_add(m, MR_METRIC_WORKER_MADE_BYTES, of(&w->numbers.made_bytes));
    mr_metrics_add(m, MR_METRIC_WORKER_BUSY_SECONDS, of(&w->numbers.busy_ns) / 1e9);
    mr_metrics_add(m, MR_METRIC_WORKER_SKIPPED, of(&w->numbers.skipped));
    mr_metrics_add(m, MR_METRIC_WORKER_IGNORED_ERRORS, of(&w->numbers.ignored_errors));
    for (size_t i = 0; i < MR_SENT_SOURCES; i++) {
        mr_metrics_add1(m, MR_METRIC_WORKER_ELEMENTS, sources[i], of(&w->numbers.sent[i].elements));
        mr_metrics_add1(m, MR_METRIC_WORKER_BYTES, sources[i], of(&w->numbers.sent[i].bytes));
    }
}

static void add_memory(const struct mr_worker *w, mr_metrics *m)
{
    mr_metrics_add(m, MR_METRIC_WORKER_MEMORY_BYTES, (double)mr_memory_used(w->memory));
    mr_metrics_add(m, MR_METRIC_WORKER_MEMORY_LIMIT_BYTES, (double)mr_memory_limit(w->memory));
    mr_metrics_add(m, MR_METRIC_WORKER_DEFINITIONS_WAITING, mr_definitions_waiting(w->definitions));
}

static void add_windows(struct mr_worker *w, mr_metrics *m)
{
    struct mr_windows_progress windows;

    mr_windows_progress(w->windows, &windows);
    mr_metrics_add(m, MR_METRIC_CACHE_LIMIT_BYTES, (double)windows.bytes_max);
    for (int i = 0; i < MR_CODES; i++) {
        if (windows.failures_by[i] > 0) {
            mr_metrics_add1(m, MR_METRIC_WINDOWS_DEGRADED, mr_code_name(-i),
                            (double)windows.failures_by[i]);
        }
    }
}

static bool is_registered(mr_worker *w)
{
    return mr_worker_wait_registered(w, 0, NULL) == MR_OK;
}

static bool is_draining(mr_worker *w)
{
    MR_LOCK(&w->lock);
    return w->draining || w->stopping;
}

int mr_worker_page(mr_worker *w, mr_metrics **ret, mr_error *err)
{
    MR_AUTO(mr_progress_free) struct mr_progress *progress = NULL;
    MR_AUTO(mr_metrics_free) mr_metrics *m = mr_metrics_new();

    MR_CHECK_ALLOC(m, err);
    MR_TRY(mr_progress_new(w, &progress, err));
    mr_progress_measure(progress, m);
    mr_metrics_add(m, MR_METRIC_REGISTERED, is_registered(w) ? 1 : 0);
    mr_metrics_add(m, MR_METRIC_DRAINING, is_draining(w) ? 1 : 0);
    add_counters(w, m);
    add_memory(w, m);
    add_windows(w, m);
    *ret = MR_TAKE(m);
    return MR_OK;
}

int mr_worker_ready(mr_worker *w, mr_error *err)
{
    if (is_draining(w)) {
        return mr_error_set(err, MR_EUNAVAIL, "going: no new task is taken");
    }
    return is_registered(w)
               ? MR_OK
               : mr_error_set(err, MR_EUNAVAIL, "no dispatcher has accepted this worker yet");
}
