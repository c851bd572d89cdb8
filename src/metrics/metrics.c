#include "metrics/metrics.h"

#include "base/map.h"

#include <math.h>
#include <stdlib.h>

#define LABELS_MAX 2

struct sample {
    double value;
    struct mr_histogram *buckets; /* HISTOGRAM: its own copy */
    char labels[];                /* as rendered: `a="x",b="y"` */
};

struct family {
    struct mr_map by_labels;
    struct sample **list;
    size_t n;
    size_t cap;
};

struct job_name {
    struct job_name *next;
    char name[];
};

struct mr_metrics {
    struct family families[MR_METRICS_COUNT];
    struct mr_map jobs; /* values of data_job so far */
    struct job_name *job_list;
    bool failed;
};

const struct mr_metric_info mr_metric_infos[MR_METRICS_COUNT] = {
#define MR_METRIC_INFO(id, name, type, servers, labels, help)                                      \
    [MR_METRIC_##id] = {name, MR_METRIC_TYPE_##type, MR_METRIC_ON_##servers, labels, help},
    MR_METRICS_TABLE(MR_METRIC_INFO)
#undef MR_METRIC_INFO
};

mr_metrics *mr_metrics_new(void)
{
    return mr_calloc(1, sizeof(mr_metrics));
}

static void sample_free(struct sample *s)
{
    if (s != NULL) {
        mr_free(s->buckets);
        mr_free(s);
    }
}

void mr_metrics_free(mr_metrics *m)
{
    if (m == NULL) {
        return;
    }
    for (size_t i = 0; i < MR_METRICS_COUNT; i++) {
        struct family *f = &m->families[i];

        for (size_t k = 0; k < f->n; k++) {
            sample_free(f->list[k]);
        }
        mr_free(f->list);
        mr_map_free(&f->by_labels);
    }
    while (m->job_list != NULL) {
        struct job_name *job = m->job_list;

        m->job_list = job->next;
        mr_free(job);
    }
    mr_map_free(&m->jobs);
    mr_free(m);
}

/* ---- adding ---- */

/* @name, or what all names are called beyond the first ones. */
static const char *job_label(mr_metrics *m, const char *name)
{
    if (mr_map_get(&m->jobs, name) != NULL) {
        return name;
    }
    if (m->jobs.count >= MR_METRICS_JOBS_MAX) {
        return MR_METRICS_OTHER;
    }
    size_t size = strlen(name) + 1;
    struct job_name *job = mr_malloc(sizeof *job + size);

    if (job == NULL) {
        m->failed = true;
        return name;
    }
    memcpy(job->name, name, size);
    if (mr_map_put(&m->jobs, job->name, job, NULL) < 0) {
        mr_free(job);
        m->failed = true;
        return name;
    }
    job->next = m->job_list;
    m->job_list = job;
    return name;
}

/* Label values may hold anything: a backslash, a quote and the end of a line are written as \\, \"
 * and \n. */
static void put_escaped(struct mr_buf *b, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\n') {
            mr_buf_puts(b, "\\n");
        } else {
            mr_buf_printf(b, *c == '\\' || *c == '"' ? "\\%c" : "%c", *c);
        }
    }
}

/* The labels of a sample as text; there must be as many values as the table has names. */
static struct mr_buf render_labels(mr_metrics *m, enum mr_metric metric,
                                   const char *const values[LABELS_MAX])
{
    const char *names = mr_metric_infos[metric].labels;
    struct mr_buf b = MR_BUF_INIT;
    size_t n = 0;

    mr_buf_puts(&b, "");
    while (*names != '\0') {
        size_t len = strcspn(names, ",");

        MR_ASSERT(n < LABELS_MAX);
        MR_ASSERT(values[n] != NULL);
        bool job = len == strlen("data_job") && strncmp(names, "data_job", len) == 0;

        mr_buf_printf(&b, "%s%.*s=\"", n > 0 ? "," : "", (int)len, names);
        put_escaped(&b, job ? job_label(m, values[n]) : values[n]);
        mr_buf_puts(&b, "\"");
        names += len + (names[len] == ',' ? 1 : 0);
        n++;
    }
    MR_ASSERT(n == LABELS_MAX || values[n] == NULL);
    return b;
}

/* The sample of @metric with these labels, a new one if need be; NULL without memory. */
static struct sample *sample_of(mr_metrics *m, enum mr_metric metric,
                                const char *const values[LABELS_MAX])
{
    struct family *f = &m->families[metric];
    struct mr_buf labels = render_labels(m, metric, values);
    struct sample *s = labels.failed ? NULL : mr_map_get(&f->by_labels, (const char *)labels.data);

    if (s == NULL && !labels.failed &&
        mr_grow(&f->list, &f->cap, f->n, 1, sizeof(struct sample *)) &&
        (s = mr_calloc(1, sizeof *s + labels.len + 1)) != NULL) {
        memcpy(s->labels, labels.data, labels.len + 1);
        f->list[f->n] = s;
        if (mr_map_put(&f->by_labels, s->labels, s, NULL) == MR_OK) {
            f->n++;
        } else {
            mr_free(s);
            s = NULL;
        }
    }
    mr_buf_free(&labels);
    m->failed = m->failed || s == NULL;
    return s;
}

static void add(mr_metrics *m, enum mr_metric metric, const char *const values[LABELS_MAX],
                double value)
{
    struct sample *s = sample_of(m, metric, values);

    MR_ASSERT(mr_metric_infos[metric].type != MR_METRIC_TYPE_HISTOGRAM);
    if (s != NULL) {
        s->value += value;
    }
}

void mr_metrics_add(mr_metrics *m, enum mr_metric metric, double value)
{
    const char *const values[LABELS_MAX] = {NULL, NULL};

    add(m, metric, values, value);
}

void mr_metrics_add1(mr_metrics *m, enum mr_metric metric, const char *label, double value)
{
    const char *const values[LABELS_MAX] = {label, NULL};

    add(m, metric, values, value);
}

void mr_metrics_add2(mr_metrics *m, enum mr_metric metric, const char *label1, const char *label2,
                     double value)
{
    const char *const values[LABELS_MAX] = {label1, label2};

    add(m, metric, values, value);
}

void mr_metrics_add_histogram(mr_metrics *m, enum mr_metric metric, const char *label,
                              const struct mr_histogram *h)
{
    const char *const values[LABELS_MAX] = {label, NULL};
    struct sample *s = sample_of(m, metric, values);

    MR_ASSERT(mr_metric_infos[metric].type == MR_METRIC_TYPE_HISTOGRAM);
    if (s == NULL) {
        return;
    }
    if (s->buckets == NULL) {
        s->buckets = mr_calloc(1, sizeof *s->buckets);
    }
    if (s->buckets == NULL) {
        m->failed = true;
        return;
    }
    for (size_t i = 0; i <= MR_HISTOGRAM_BOUNDS; i++) {
        (void)atomic_fetch_add(&s->buckets->counts[i], atomic_load(&h->counts[i]));
    }
    (void)atomic_fetch_add(&s->buckets->sum_ns, atomic_load(&h->sum_ns));
}

/* ---- rendering ---- */

/* Whole numbers as such, others in as few digits as bring them back. */
static void put_value(struct mr_buf *b, double value)
{
    char text[40];

    if (isnan(value)) {
        mr_buf_puts(b, "NaN");
    } else if (isinf(value)) {
        mr_buf_puts(b, value > 0 ? "+Inf" : "-Inf");
    } else if (value == trunc(value) && fabs(value) < 1e15) {
        mr_buf_printf(b, "%.0f", value == 0 ? 0 : value); /* no -0 */
    } else {
        (void)snprintf(text, sizeof text, "%.15g", value);
        if (strtod(text, NULL) != value) {
            (void)snprintf(text, sizeof text, "%.17g", value);
        }
        mr_buf_puts(b, text);
    }
}

static void put_line(struct mr_buf *b, const char *name, const char *suffix, const char *labels,
                     double value)
{
    mr_buf_printf(b, "%s%s", name, suffix);
    if (labels[0] != '\0') {
        mr_buf_printf(b, "{%s}", labels);
    }
    mr_buf_puts(b, " ");
    put_value(b, value);
    mr_buf_puts(b, "\n");
}

static void put_histogram(struct mr_buf *b, const char *name, const struct sample *s)
{
    const char *comma = s->labels[0] != '\0' ? "," : "";
    uint64_t below = 0;

    for (size_t i = 0; i <= MR_HISTOGRAM_BOUNDS; i++) {
        below += atomic_load(&s->buckets->counts[i]);
        mr_buf_printf(b, "%s_bucket{%s%sle=\"", name, s->labels, comma);
        put_value(b, i < MR_HISTOGRAM_BOUNDS ? (double)mr_histogram_bound_ns(i) / 1e9 : INFINITY);
        mr_buf_printf(b, "\"} %" PRIu64 "\n", below);
    }
    put_line(b, name, "_sum", s->labels, (double)atomic_load(&s->buckets->sum_ns) / 1e9);
    put_line(b, name, "_count", s->labels, (double)below);
}

struct mr_buf mr_metrics_render(const mr_metrics *m)
{
    static const char *const types[] = {[MR_METRIC_TYPE_GAUGE] = "gauge",
                                        [MR_METRIC_TYPE_COUNTER] = "counter",
                                        [MR_METRIC_TYPE_HISTOGRAM] = "histogram"};
    struct mr_buf b = MR_BUF_INIT;

    for (size_t i = 0; i < MR_METRICS_COUNT; i++) {
        const struct mr_metric_info *info = &mr_metric_infos[i];
        const struct family *f = &m->families[i];

        if (f->n > 0) {
            mr_buf_printf(&b, "# HELP %s %s\n# TYPE %s %s\n", info->name, info->help, info->name,
                          types[info->type]);
        }
        for (size_t k = 0; k < f->n; k++) {
            if (info->type == MR_METRIC_TYPE_HISTOGRAM) {
                put_histogram(&b, info->name, f->list[k]);
            } else {
                put_line(&b, info->name, "", f->list[k]->labels, f->list[k]->value);
            }
        }
    }
    b.failed = b.failed || m->failed;
    return b;
}
