/* The page of metrics: its text, its bounds, and that docs/run/metrics.md shows the table. */
#include "metrics/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Consumes @m. */
static char *text_of(mr_metrics *m)
{
    struct mr_buf b = mr_metrics_render(m);

    assert_false(b.failed);
    mr_metrics_free(m);
    return mr_buf_take(&b, NULL);
}

static void check_text(mr_metrics *m, const char *expected)
{
    char *text = text_of(m);

    assert_string_equal(text == NULL ? "" : text, expected);
    mr_free(text);
}

static mr_metrics *page(void)
{
    mr_metrics *m = mr_metrics_new();

    assert_non_null(m);
    return m;
}

static void samples_come_with_help_and_type_in_the_tables_order(void **state)
{
    mr_metrics *m = page();

    mr_metrics_add(m, MR_METRIC_DATASETS, 3);
    mr_metrics_add1(m, MR_METRIC_WORKERS, "lost", 0);
    mr_metrics_add(m, MR_METRIC_LEADER, 1);
    mr_metrics_add1(m, MR_METRIC_WORKERS, "live", 2);
    mr_metrics_add(m, MR_METRIC_STORE_WRITTEN_BYTES, 12345678901.0);
    check_text(
        m, "# HELP millrace_dispatcher_leader 1 on the dispatcher that leads, 0 on the others.\n"
           "# TYPE millrace_dispatcher_leader gauge\n"
           "millrace_dispatcher_leader 1\n"
           "# HELP millrace_store_written_bytes_total Keys and values that were committed to etcd "
           "by this dispatcher.\n"
           "# TYPE millrace_store_written_bytes_total counter\n"
           "millrace_store_written_bytes_total 12345678901\n"
           "# HELP millrace_workers Workers; state: live, draining, lost (without those that left "
           "or were replaced).\n"
           "# TYPE millrace_workers gauge\n"
           "millrace_workers{state=\"lost\"} 0\n"
           "millrace_workers{state=\"live\"} 2\n"
           "# HELP millrace_datasets Registered datasets.\n"
           "# TYPE millrace_datasets gauge\n"
           "millrace_datasets 3\n");
}

static void nothing_is_an_empty_page(void **state)
{
    check_text(page(), "");
}

/* The value of a gauge as it is written. */
static void check_value(double value, const char *expected)
{
    mr_metrics *m = page();

    mr_metrics_add(m, MR_METRIC_GRANT_SECONDS, value);
    char *text = text_of(m);
    const char *last = strrchr(text, ' ');

    assert_non_null(last);
    assert_int_equal(strlen(last + 1), strlen(expected) + 1);
    assert_memory_equal(last + 1, expected, strlen(expected));
    mr_free(text);
}

static void values_are_written_as_short_as_they_come_back(void **state)
{
    check_value(0, "0");
    check_value(-0.0, "0");
    check_value(0.1, "0.1");
    check_value(2.5, "2.5");
    check_value(1e14, "100000000000000");
    check_value(1e300, "1e+300");
    check_value(1.0 / 3, "0.33333333333333331");
    check_value(INFINITY, "+Inf");
    check_value(-INFINITY, "-Inf");
    check_value(NAN, "NaN");
}

static void label_values_are_escaped(void **state)
{
    mr_metrics *m = page();

    mr_metrics_add2(m, MR_METRIC_ROUNDS_WAITING, "a\"b\\c\nd{e}=f,", "7", 1.5);
    char *text = text_of(m);

    assert_non_null(strstr(text, "\nmillrace_rounds_waiting_seconds{data_job=\"a\\\"b\\\\c\\nd{e}="
                                 "f,\",consumer=\"7\"} 1.5\n"));
    mr_free(text);
}

static void equal_labels_add_up(void **state)
{
    mr_metrics *m = page();

    mr_metrics_add1(m, MR_METRIC_JOB_SKIPPED, "a", 1);
    mr_metrics_add1(m, MR_METRIC_JOB_SKIPPED, "b", 10);
    mr_metrics_add1(m, MR_METRIC_JOB_SKIPPED, "a", 2);
    char *text = text_of(m);

    assert_non_null(strstr(text, "{data_job=\"a\"} 3\n"));
    assert_non_null(strstr(text, "{data_job=\"b\"} 10\n"));
    mr_free(text);
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;

    for (const char *p = strstr(text, part); p != NULL; p = strstr(p + 1, part)) {
        n++;
    }
    return n;
}

/* Over all metrics of a page the same jobs are named, those that come first. */
static void jobs_beyond_the_first_hundred_are_one(void **state)
{
    mr_metrics *m = page();
    char name[16];

    for (unsigned i = 0; i < 250; i++) {
        (void)snprintf(name, sizeof name, "job%u", i);
        mr_metrics_add1(m, MR_METRIC_JOB_SKIPPED, name, 1);
        mr_metrics_add2(m, MR_METRIC_ROUNDS_WAITING, name, "0", 2);
    }
    mr_metrics_add1(m, MR_METRIC_JOB_CLIENTS, "job249", 5);
    mr_metrics_add1(m, MR_METRIC_JOB_CLIENTS, "job99", 6);
    char *text = text_of(m);

    assert_int_equal(count(text, "\nmillrace_job_skipped_elements{"), MR_METRICS_JOBS_MAX + 1);
    assert_int_equal(count(text, "\nmillrace_rounds_waiting_seconds{"), MR_METRICS_JOBS_MAX + 1);
    assert_non_null(strstr(text, "\nmillrace_job_skipped_elements{data_job=\"(other)\"} 150\n"));
    assert_non_null(strstr(
        text, "\nmillrace_rounds_waiting_seconds{data_job=\"(other)\",consumer=\"0\"} 300\n"));
    assert_non_null(strstr(text, "\nmillrace_job_clients{data_job=\"(other)\"} 5\n"));
    assert_non_null(strstr(text, "\nmillrace_job_clients{data_job=\"job99\"} 6\n"));
    mr_free(text);
}

/* ---- histograms ---- */

static void a_duration_is_in_the_bucket_that_it_just_fits(void **state)
{
    struct mr_histogram h = {0};

    mr_histogram_note(&h, 500000); /* as long as the first bound */
    mr_histogram_note(&h, 500001); /* longer */
    mr_histogram_note(&h, -7);     /* a clock that went back */
    mr_histogram_note(&h, 8192000000);
    mr_histogram_note(&h, 8192000001);
    assert_int_equal(atomic_load(&h.counts[0]), 2);
    assert_int_equal(atomic_load(&h.counts[1]), 1);
    assert_int_equal(atomic_load(&h.counts[MR_HISTOGRAM_BOUNDS - 1]), 1);
    assert_int_equal(atomic_load(&h.counts[MR_HISTOGRAM_BOUNDS]), 1);
    assert_int_equal(atomic_load(&h.sum_ns), 16385000002);
}

static void buckets_are_cumulative(void **state)
{
    mr_metrics *m = page();
    struct mr_histogram h = {0};

    mr_histogram_note(&h, 100000);      /* 0.1 ms */
    mr_histogram_note(&h, 3000000);     /* 3 ms */
    mr_histogram_note(&h, 20000000000); /* 20 s */
    mr_metrics_add_histogram(m, MR_METRIC_STORE_TXN_SECONDS, "ok", &h);
    mr_metrics_add_histogram(m, MR_METRIC_STORE_TXN_SECONDS, "ok", &h); /* adds up */
    mr_metrics_add_histogram(m, MR_METRIC_TAKEOVER_SECONDS, NULL, &h);
    char *text = text_of(m);

    assert_non_null(strstr(text,
                           "# TYPE millrace_store_txn_seconds histogram\n"
                           "millrace_store_txn_seconds_bucket{result=\"ok\",le=\"0.0005\"} 2\n"
                           "millrace_store_txn_seconds_bucket{result=\"ok\",le=\"0.001\"} 2\n"
                           "millrace_store_txn_seconds_bucket{result=\"ok\",le=\"0.002\"} 2\n"
                           "millrace_store_txn_seconds_bucket{result=\"ok\",le=\"0.004\"} 4\n"));
    assert_non_null(strstr(text, "_bucket{result=\"ok\",le=\"8.192\"} 4\n"
                                 "millrace_store_txn_seconds_bucket{result=\"ok\",le=\"+Inf\"} 6\n"
                                 "millrace_store_txn_seconds_sum{result=\"ok\"} 40.0062\n"
                                 "millrace_store_txn_seconds_count{result=\"ok\"} 6\n"));
    assert_non_null(
        strstr(text, "\nmillrace_dispatcher_takeover_seconds_bucket{le=\"0.0005\"} 1\n"));
    assert_non_null(strstr(text, "\nmillrace_dispatcher_takeover_seconds_sum 20.0031\n"
                                 "millrace_dispatcher_takeover_seconds_count 3\n"));
    mr_free(text);
}

/* ---- the table ---- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && strcmp(s + n - k, end) == 0;
}

static void names_say_what_they_are(void **state)
{
    for (size_t i = 0; i < MR_METRICS_COUNT; i++) {
        const struct mr_metric_info *info = &mr_metric_infos[i];

        assert_true(strncmp(info->name, "millrace_", 9) == 0 ||
                    strncmp(info->name, "process_", 8) == 0);
        assert_int_equal(strspn(info->name, "abcdefghijklmnopqrstuvwxyz_"), strlen(info->name));
        assert_int_equal(ends_with(info->name, "_total"), info->type == MR_METRIC_TYPE_COUNTER);
        assert_true(info->type != MR_METRIC_TYPE_HISTOGRAM || ends_with(info->name, "_seconds"));
        assert_null(strpbrk(info->help, "\\\n|"));
        assert_true(ends_with(info->help, "."));
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(mr_metric_infos[k].name, info->name);
        }
    }
}

/* A row of docs/run/metrics.md. */
static char *row_of(const struct mr_metric_info *info)
{
    static const char *const types[] = {"gauge", "counter", "histogram"};
    static const char *const servers[] = {"dispatcher", "worker", "both"};
    char labels[128] = "";
    const char *names = info->labels;

    while (*names != '\0') {
        size_t n = strcspn(names, ",");

        (void)snprintf(labels + strlen(labels), sizeof labels - strlen(labels), "%s`%.*s`",
                       labels[0] != '\0' ? ", " : "", (int)n, names);
        names += n + (names[n] == ',' ? 1 : 0);
    }
    return mr_asprintf("| `%s` | %s | %s | %s | %s |\n", info->name, types[info->type],
                       servers[info->servers], labels, info->help);
}

static void the_page_for_people_shows_the_table(void **state)
{
    FILE *f = fopen(MR_METRICS_PAGE, "re");
    char line[2048];
    size_t i = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "| `millrace_", 12) == 0 || strncmp(line, "| `process_", 11) == 0) {
            char *row = i < MR_METRICS_COUNT ? row_of(&mr_metric_infos[i]) : NULL;

            if (row == NULL || strcmp(row, line) != 0) {
                fail_msg("docs/run/metrics.md has\n%swhere the table has\n%s", line,
                         row != NULL ? row : "nothing more");
            }
            mr_free(row);
            i++;
        }
    }
    (void)fclose(f);
    if (i < MR_METRICS_COUNT) {
        fail_msg("docs/run/metrics.md lacks\n%s", row_of(&mr_metric_infos[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_come_with_help_and_type_in_the_tables_order),
        cmocka_unit_test(nothing_is_an_empty_page),
        cmocka_unit_test(values_are_written_as_short_as_they_come_back),
        cmocka_unit_test(label_values_are_escaped),
        cmocka_unit_test(equal_labels_add_up),
        cmocka_unit_test(jobs_beyond_the_first_hundred_are_one),
        cmocka_unit_test(a_duration_is_in_the_bucket_that_it_just_fits),
        cmocka_unit_test(buckets_are_cumulative),
        cmocka_unit_test(names_say_what_they_are),
        cmocka_unit_test(the_page_for_people_shows_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
