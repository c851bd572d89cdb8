/*
 * A page of metrics in the making: samples are added in any order, and come out as Prometheus' text
 * format 0.0.4. What metrics there are stands in table.h and nowhere else.
 *
 * Pure: numbers come in as arguments. Not for: counting (whoever has the number counts it), serving
 * (http.h).
 *
 * Threads: a page has one owner.
 */
#pragma once

#include "base/buf.h"
#include "base/histogram.h"
#include "metrics/table.h"

#include <millrace/base.h>

enum mr_metric {
#define MR_METRIC_ID(id, name, type, servers, labels, help) MR_METRIC_##id,
    MR_METRICS_TABLE(MR_METRIC_ID)
#undef MR_METRIC_ID
        MR_METRICS_COUNT
};

enum mr_metric_type { MR_METRIC_TYPE_GAUGE, MR_METRIC_TYPE_COUNTER, MR_METRIC_TYPE_HISTOGRAM };
enum mr_metric_servers { MR_METRIC_ON_DISPATCHER, MR_METRIC_ON_WORKER, MR_METRIC_ON_BOTH };

struct mr_metric_info {
    const char *name;
    enum mr_metric_type type;
    enum mr_metric_servers servers;
    const char *labels;
    const char *help;
};
extern const struct mr_metric_info mr_metric_infos[MR_METRICS_COUNT];

/* Values of the label data_job on one page; what is beyond is summed under MR_METRICS_OTHER. */
#define MR_METRICS_JOBS_MAX 100
#define MR_METRICS_OTHER "(other)"

typedef struct mr_metrics mr_metrics;

mr_metrics *mr_metrics_new(void); /* NULL: out of memory */
void mr_metrics_free(mr_metrics *m);

/* A sample of a metric without labels, with one, with two. Equal labels add up. Running out of
 * memory is told by mr_metrics_render(). */
void mr_metrics_add(mr_metrics *m, enum mr_metric metric, double value);
void mr_metrics_add1(mr_metrics *m, enum mr_metric metric, const char *label, double value);
void mr_metrics_add2(mr_metrics *m, enum mr_metric metric, const char *label1, const char *label2,
                     double value);
/* As it is now. @label NULL: the metric has none. */
void mr_metrics_add_histogram(mr_metrics *m, enum mr_metric metric, const char *label,
                              const struct mr_histogram *h);

/* The page: HELP, TYPE and samples of each metric that has some, in the table's order. `failed`:
 * out of memory. */
struct mr_buf mr_metrics_render(const mr_metrics *m);
