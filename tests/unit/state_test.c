/* The stored state without any dispatcher: reading it page by page, showing it, and finding what is
 * wrong with it. */
#include "coord/bytes.h"
#include "dispatcher/core/core.h"
#include "main/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

#define ROOT "/millrace/t/"
#define WORKER "0123456789abcdef0123456789abcdef"
#define CLIENT "fedcba9876543210fedcba9876543210"
#define BLOB "976de06a92943ee7394345c3857631c7"
#define EPOCH 5
#define KEYS_MAX 2000

/* ---- a small state that is right ---- */

struct entry {
    const char *key;
    const char *value;
};

static const struct entry sound[] = {
    {"blobs/" BLOB "/0000", "{\"data\":\"c3BlY3NwZWM=\"}"}, /* eight bytes */
    {"clients/" CLIENT,
     "{\"client\":\"" CLIENT "\",\"iterationId\":\"5.4\",\"attachedMs\":\"1700000000000\"}"},
    {"cursors/5.4/0", "{\"next\":\"8\"}"},
    {"datasets/digits",
     "{\"id\":\"digits\",\"fingerprint\":\"8c0f9d6f4a2b13e75c1d0e9f8a7b6c5d\",\"compression\":"
     "\"AUTO\","
     "\"cardinality\":\"100\",\"providers\":[{\"splits\":\"64\"}],\"summary\":\"range > batch\","
     "\"definitionSize\":\"8\",\"blob\":\"" BLOB "\",\"parts\":1}"},
    {"dispatchers/i1", "{\"instance\":\"i1\",\"address\":\"a:1\",\"version\":\"0.1.0\"}"},
    {"grants/5.4/0/" WORKER ".1",
     "{\"seq\":\"1\",\"ranges\":[{\"count\":\"8\"}],\"granted\":\"8\"}"},
    {"iterations/5.4",
     "{\"id\":\"5.4\",\"jobId\":\"5.3\",\"seed\":\"4711\",\"providers\":[{\"splits\":\"64\"}]}"},
    {"jobs/train",
     "{\"id\":\"5.3\",\"name\":\"train\",\"datasetId\":\"digits\",\"mode\":\"PROCESSING_DYNAMIC\","
     "\"targetWorkers\":\"AUTO\"}"},
    {"leader", "{\"instance\":\"i1\",\"address\":\"a:1\",\"version\":\"0.1.0\"}"},
    {"meta/batch", "{\"epoch\":\"5\",\"number\":\"7\",\"nonce\":\"n\"}"},
    {"meta/incarnation", "{\"id\":\"" WORKER "\"}"},
    {"schema", "{\"version\":1,\"minReader\":1,\"createdBy\":\"millrace 0.1.0\"}"},
    {"workers/" WORKER ".1", "{\"incarnation\":\"" WORKER
                             "\",\"life\":1,\"address\":\"10.0.0.7:5051\",\"registered\":\"5.1\"}"},
};
#define SOUND (sizeof sound / sizeof sound[0])

static bool is_leased(const char *key)
{
    return strcmp(key, "leader") == 0 || strncmp(key, "dispatchers/", 12) == 0;
}

static void add(struct state *s, const char *key, const char *value)
{
    char full[512];

    (void)snprintf(full, sizeof full, ROOT "%s", key);
    struct mr_kv kv = {.key = mr_bytes_str(full),
                       .value = mr_bytes_str(value),
                       .create_revision = EPOCH,
                       .mod_revision = 9,
                       .lease = is_leased(key) ? 1 : 0};

    assert_int_equal(state_add(s, &kv, strlen(ROOT), false, NULL), MR_OK);
}

/* The sound state with @n changes: another value for a key, a key more, or (value NULL) a key
 * less. */
static struct state changed(const struct entry *changes, size_t n)
{
    struct state s = {.root = ROOT, .revision = 20};

    for (size_t i = 0; i < SOUND; i++) {
        const char *value = sound[i].value;

        for (size_t j = 0; j < n; j++) {
            value = strcmp(changes[j].key, sound[i].key) == 0 ? changes[j].value : value;
        }
        if (value != NULL) {
            add(&s, sound[i].key, value);
        }
    }
    for (size_t j = 0; j < n; j++) {
        bool there = false;

        for (size_t i = 0; i < SOUND; i++) {
            there = there || strcmp(changes[j].key, sound[i].key) == 0;
        }
        if (!there) {
            add(&s, changes[j].key, changes[j].value);
        }
    }
    return s;
}

static bool found(const struct state_findings *in, const char *key, const char *text)
{
    for (size_t i = 0; i < in->n; i++) {
        if (strcmp(in->list[i].key, key) == 0 && strstr(in->list[i].text, text) != NULL) {
            return true;
        }
    }
    for (size_t i = 0; i < in->n; i++) {
        print_message("  found: '%s': %s\n", in->list[i].key, in->list[i].text);
    }
    return false;
}

/* After these changes exactly that is wrong. @key NULL: nothing. */
static void check_finds(const struct entry *changes, size_t n, const char *key, const char *text)
{
    struct state s = changed(changes, n);
    struct state_report report = {0};

    assert_int_equal(state_check(&s, &report, NULL), MR_OK);
    if (key == NULL && report.problems.n > 0) {
        fail_msg("'%s': %s", report.problems.list[0].key, report.problems.list[0].text);
    }
    if (key != NULL) {
        assert_true(found(&report.problems, key, text));
        if (report.problems.n != 1) {
            fail_msg("'%s': %s, and more", report.problems.list[1].key,
                     report.problems.list[1].text);
        }
    }
    state_report_free(&report);
    state_free(&s);
}

#define CHECK_FINDS(key, text, ...)                                                                \
    do {                                                                                           \
        static const struct entry list[] = {__VA_ARGS__};                                          \
        check_finds(list, sizeof list / sizeof list[0], key, text);                                \
    } while (0)

/* ---- judging ---- */

static void a_sound_state_is_found_sound(void **state)
{
    struct state s = changed(NULL, 0);
    struct state_report report = {0};
    struct mr_buf out = MR_BUF_INIT;

    assert_int_equal(state_check(&s, &report, NULL), MR_OK);
    assert_int_equal(report.problems.n, 0);
    assert_int_equal(report.left_over.n, 0);
    state_report_print(&s, &report, &out);
    assert_string_equal((const char *)out.data,
                        ROOT " at revision 20: 13 keys, 0 left over, nothing wrong\n");
    mr_buf_free(&out);
    state_report_free(&report);
    state_free(&s);
}

static void one_wrong_record_is_named(void **state)
{
    CHECK_FINDS("jobs/train", "does not parse", {"jobs/train", "{\"id\":\"5.3\",\"na"});
    CHECK_FINDS("cursors/5.4/0", "does not parse: next", {"cursors/5.4/0", "{\"next\":\"many\"}"},
                {"grants/5.4/0/" WORKER ".1", NULL});
    CHECK_FINDS("meta/batch", "does not parse", {"meta/batch", ""});
    CHECK_FINDS("odd", "not a key of this state", {"odd", "{}"});
    CHECK_FINDS("jobs/", "not a key of this state", {"jobs/", "{}"});
    CHECK_FINDS("jobs/other", "does not fit",
                {"jobs/other", "{\"id\":\"5.9\",\"name\":\"third\",\"datasetId\":\"digits\"}"});
    CHECK_FINDS("datasets/digits", "is missing", {"blobs/" BLOB "/0000", NULL});
    CHECK_FINDS("datasets/digits", "has 4 bytes, and should have 8",
                {"blobs/" BLOB "/0000", "{\"data\":\"c3BlYw==\"}"});
    CHECK_FINDS("blobs/" BLOB "/0000", "does not parse",
                {"blobs/" BLOB "/0000", "{\"data\":\"&\"}"});
    CHECK_FINDS("datasets/digits", "is missing, and 'jobs/train' is of it",
                {"datasets/digits", NULL});
    CHECK_FINDS("schema", "is missing", {"schema", NULL});
    CHECK_FINDS("dispatchers/i1", "does not fit",
                {"dispatchers/i1", "{\"instance\":\"i2\",\"address\":\"a:1\"}"});
}

static void what_must_hold_between_records_is_checked(void **state)
{
    CHECK_FINDS("grants/5.4/0/" WORKER ".1", "beyond its cursor",
                {"cursors/5.4/0", "{\"next\":\"7\"}"});
    CHECK_FINDS("grants/5.4/0/" WORKER ".1", "'cursors/5.4/0', is missing",
                {"cursors/5.4/0", NULL});
    CHECK_FINDS("iterations/5.4", "4611686018427387904 splits, and 'datasets/digits' says 64",
                {"iterations/5.4", "{\"id\":\"5.4\",\"jobId\":\"5.3\",\"providers\":[{\"splits\":"
                                   "\"4611686018427387904\"}]}"});
    CHECK_FINDS("cursors/5.4/0", "does not fit", {"cursors/5.4/0", "{\"next\":\"65\"}"},
                {"grants/5.4/0/" WORKER ".1", NULL});
    CHECK_FINDS("iterations/6.1", "no leader later than epoch 5",
                {"iterations/6.1", "{\"id\":\"6.1\",\"jobId\":\"5.3\",\"repetition\":\"1\","
                                   "\"providers\":[{\"splits\":\"64\"}]}"});
    CHECK_FINDS("meta/batch", "and the leader's is 5",
                {"meta/batch", "{\"epoch\":\"6\",\"number\":\"1\",\"nonce\":\"n\"}"});
    CHECK_FINDS("iterations/5.6", "and so is 'iterations/5.4'",
                {"iterations/5.6",
                 "{\"id\":\"5.6\",\"jobId\":\"5.3\",\"providers\":[{\"splits\":\"64\"}]}"});
    CHECK_FINDS(NULL, "", {"cursors/5.4/0", "{\"next\":\"9\"}"});
}

#define SCHEMA_2                                                                                   \
    {                                                                                              \
        "schema", "{\"version\":1,\"minReader\":1,\"features\":[\"at_least_once\"]}"               \
    }
#define JOB_2                                                                                      \
    {                                                                                              \
        "jobs/train", "{\"id\":\"5.3\",\"name\":\"train\",\"datasetId\":\"digits\",\"mode\":"      \
                      "\"PROCESSING_DYNAMIC\","                                                    \
                      "\"guarantee\":\"AT_LEAST_ONCE\",\"targetWorkers\":\"AUTO\"}"                \
    }
#define ITERATION_2                                                                                \
    {                                                                                              \
        "iterations/5.4", "{\"id\":\"5.4\",\"jobId\":\"5.3\",\"providers\":[{\"splits\":\"64\"}]," \
                          "\"recoveries\":1}"                                                      \
    }
#define CURSOR_2                                                                                   \
    {                                                                                              \
        "cursors/5.4/0",                                                                           \
            "{\"next\":\"24\",\"pool\":[{\"first\":\"8\",\"count\":\"8\",\"losses\":1}],"          \
            "\"repeatedSplits\":\"4\"}"                                                            \
    }
#define GRANT_2(first)                                                                             \
    {                                                                                              \
        "grants/5.4/0/" WORKER ".1", "{\"seq\":\"2\",\"ranges\":[{\"first\":\"16\",\"count\":"     \
                                     "\"8\"}],\"open\":[{\"seq\":\"2\","                           \
                                     "\"ranges\":[{\"first\":\"" first "\",\"count\":\"8\"}]}]}"   \
    }
#define RECOVERY_2                                                                                 \
    {                                                                                              \
        "tasks/5.4/" WORKER ".1/1", "{\"recovery\":1}"                                             \
    }

static void at_least_once_has_more_to_be_checked(void **state)
{
    CHECK_FINDS(NULL, "", SCHEMA_2, JOB_2, ITERATION_2, CURSOR_2, GRANT_2("16"), RECOVERY_2);
    CHECK_FINDS("jobs/train", "features in 'schema'", JOB_2);
    CHECK_FINDS("schema", "'parity', which this version does not know",
                {"schema", "{\"version\":1,\"features\":[\"parity\"]}"});
    CHECK_FINDS("cursors/5.4/0", "cannot have been handed out", CURSOR_2, /* at most once */
                {"grants/5.4/0/" WORKER ".1", NULL});
    CHECK_FINDS("cursors/5.4/0", "cannot have been handed out", SCHEMA_2, JOB_2,
                {"cursors/5.4/0", "{\"next\":\"8\",\"pool\":[{\"first\":\"7\",\"count\":\"2\"}]}"},
                {"grants/5.4/0/" WORKER ".1", NULL});
    CHECK_FINDS("grants/5.4/0/" WORKER ".1", "does not fit", SCHEMA_2, JOB_2, CURSOR_2,
                GRANT_2("17"));
    CHECK_FINDS("tasks/5.4/" WORKER ".1/1", "cannot have", SCHEMA_2, JOB_2,
                RECOVERY_2); /* the iteration has none */
}

/* Trainer a of job "shared" reads production 5.7. */
#define SHARING                                                                                    \
    {                                                                                              \
        "schema", "{\"version\":1,\"minReader\":1,\"features\":[\"sharing\"]}"                     \
    }
#define TRAINER                                                                                    \
    {                                                                                              \
        "jobs/shared+a",                                                                           \
            "{\"id\":\"5.5\",\"name\":\"shared\",\"trainer\":\"a\",\"lag\":\"LAG_WAIT\","          \
            "\"datasetId\":\"digits\",\"mode\":\"PROCESSING_DYNAMIC\",\"targetWorkers\":\"AUTO\"}" \
    }
#define READS                                                                                      \
    {                                                                                              \
        "iterations/5.6",                                                                          \
            "{\"id\":\"5.6\",\"jobId\":\"5.5\",\"production\":\"5.7\",\"joining\":true}"           \
    }
#define PRODUCTION_OF(users)                                                                       \
    {                                                                                              \
        "productions/5.7", "{\"id\":\"5.7\",\"scope\":\"shared\",\"fingerprint\":"                 \
                           "\"8c0f9d6f4a2b13e75c1d0e9f8a7b6c5d\","                                 \
                           "\"datasetId\":\"digits\",\"mode\":\"PROCESSING_DYNAMIC\"" users "}"    \
    }
#define USER ",\"users\":[{\"jobId\":\"5.5\",\"iterationId\":\"5.6\"}]"
#define HIDDEN                                                                                     \
    {                                                                                              \
        "iterations/5.7", "{\"id\":\"5.7\",\"seed\":\"4711\",\"providers\":[{\"splits\":\"64\"}]}" \
    }

static void sharing_has_more_to_be_checked(void **state)
{
    CHECK_FINDS(NULL, "", SHARING, TRAINER, READS, PRODUCTION_OF(USER), HIDDEN);
    CHECK_FINDS("jobs/shared+a", "features in 'schema'", TRAINER, READS);
    CHECK_FINDS("productions/5.7", "is missing, and 'iterations/5.6' reads it", SHARING, TRAINER,
                READS, HIDDEN);
    CHECK_FINDS("productions/5.7", "hidden iteration, 'iterations/5.7', is missing", SHARING,
                TRAINER, PRODUCTION_OF(""));
    CHECK_FINDS("datasets/letters", "is missing, and 'productions/5.7' is of it", SHARING, HIDDEN,
                {"productions/5.7", "{\"id\":\"5.7\",\"datasetId\":\"letters\"}"});
    CHECK_FINDS("iterations/5.4", "does not fit its job", SHARING, HIDDEN, PRODUCTION_OF(""),
                {"iterations/5.4", "{\"id\":\"5.4\",\"jobId\":\"5.3\",\"production\":\"5.7\"}"});
}

static void productions_are_shown(void **state)
{
    static const struct entry changes[] = {SHARING, TRAINER, READS, PRODUCTION_OF(USER), HIDDEN};
    struct state s = changed(changes, sizeof changes / sizeof changes[0]);
    struct mr_buf out = MR_BUF_INIT;

    state_print_tree(&s, &out);
    const char *text = (const char *)out.data;

    assert_non_null(strstr(text, "DYNAMIC, trainer a, shares and waits"));
    assert_non_null(strstr(text, "repetition 0 of job 5.5, joining, production 5.7"));
    assert_non_null(strstr(text, "hidden, of production 5.7, splits: 64"));
    assert_non_null(strstr(text, "for trainers of job shared; used by 1 iteration: 5.6"));
    mr_buf_free(&out);
    state_free(&s);
}

static void a_lease_is_where_it_belongs(void **state)
{
    struct state s = changed(NULL, 0);
    struct state_report report = {0};

    for (size_t i = 0; i < s.count; i++) {
        s.keys[i].lease = strcmp(s.keys[i].key, "jobs/train") == 0 ||
                          strncmp(s.keys[i].key, "dispatchers/", 12) == 0;
    }
    assert_int_equal(state_check(&s, &report, NULL), MR_OK);
    assert_int_equal(report.problems.n, 2);
    assert_true(found(&report.problems, "jobs/train", "would vanish"));
    assert_true(found(&report.problems, "leader", "no lease"));
    state_report_free(&report);
    state_free(&s);
}

static void left_overs_are_not_wrong(void **state)
{
    static const struct entry changes[] = {
        {"tasks/4.7/" WORKER ".1", "{\"ended\":true}"}, /* of an iteration that is gone */
        {"blobs/00000000000000000000000000000000/0000", "{\"data\":\"c3BlYw==\"}"},
    };
    struct state s = changed(changes, 2);
    struct state_report report = {0};

    assert_int_equal(state_check(&s, &report, NULL), MR_OK);
    assert_int_equal(report.problems.n, 0);
    assert_int_equal(report.left_over.n, 2);
    assert_true(found(&report.left_over, changes[0].key, "gone"));
    assert_true(found(&report.left_over, changes[1].key, "gone"));
    state_report_free(&report);
    state_free(&s);
    CHECK_FINDS("tasks/6.7/" WORKER ".1", "no leader later",
                {"tasks/6.7/" WORKER ".1", "{\"ended\":true}"});
}

static void all_that_is_wrong_is_told(void **state)
{
    static const struct entry changes[] = {
        {"jobs/train", "not JSON"},
        {"workers/x",
         "{\"incarnation\":\"" WORKER "\",\"life\":2,\"address\":\"b:1\",\"registered\":\"5.2\"}"},
        {"jobs/y", "{\"id\":\"5.8\",\"name\":\"z\",\"datasetId\":\"digits\"}"},
        {"jobs/nods", "{\"id\":\"5.9\",\"name\":\"nods\",\"datasetId\":\"none\"}"},
        {"iterations/odd", "{\"id\":\"5.7\",\"jobId\":\"5.3\"}"},
    };
    struct state s = changed(changes, 5);
    struct state_report report = {0};
    struct mr_buf out = MR_BUF_INIT;

    assert_int_equal(state_check(&s, &report, NULL), MR_OK);
    assert_int_equal(report.problems.n, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_true(found(&report.problems, i == 3 ? "datasets/none" : changes[i].key, ""));
    }
    assert_int_equal(report.left_over.n, 1); /* the worker; what belongs to the job stays with it */
    assert_int_equal(state_report_json(&s, &report, &out, NULL), MR_OK);
    assert_non_null(strstr((const char *)out.data, "\"ok\":false"));
    mr_buf_free(&out);
    state_report_free(&report);
    state_free(&s);
}

static void every_kind_of_key_is_known(void **state)
{
    for (const char *const *p = mr_core_prefixes(); *p != NULL; p++) {
        char key[64];

        (void)snprintf(key, sizeof key, "%s%s", *p, (*p)[strlen(*p) - 1] == '/' ? "x" : "");
        assert_non_null(state_kind_of(key));
    }
}

/* ---- showing ---- */

static void a_tree_has_a_line_for_each_key(void **state)
{
    static const struct entry changes[] = {{"jobs/~" CLIENT, "no\x1b[2Jt JSON"}};
    struct state s = changed(changes, 1);
    struct mr_buf out = MR_BUF_INIT;

    state_print_tree(&s, &out);
    assert_false(out.failed);
    const char *text = (const char *)out.data;

    assert_non_null(strstr(text, "  jobs/\n    train "));
    assert_non_null(strstr(text, "job 5.3 of dataset digits, DYNAMIC\n"));
    assert_non_null(strstr(text, "      0 ")); /* cursors/5.4/0 */
    assert_non_null(strstr(text, "answer 1: splits 0..7 of repetition 0, 8 so far\n"));
    assert_non_null(strstr(text, "8 bytes of a definition\n"));
    assert_non_null(strstr(text, "DOES NOT PARSE"));
    assert_null(strchr(text, '\x1b'));
    mr_buf_free(&out);
    assert_int_equal(state_print_json(&s, &out, NULL), MR_OK);
    assert_non_null(strstr((const char *)out.data, "\"value\":{\"next\":\"8\"}"));
    mr_buf_free(&out);
    state_free(&s);
}

static void what_came_back_is_shown(void **state)
{
    static const struct entry changes[] = {SCHEMA_2, JOB_2,         ITERATION_2,
                                           CURSOR_2, GRANT_2("16"), RECOVERY_2};
    struct state s = changed(changes, sizeof changes / sizeof changes[0]);
    struct mr_buf out = MR_BUF_INIT;

    state_print_tree(&s, &out);
    const char *text = (const char *)out.data;

    assert_non_null(strstr(text, "uses at_least_once"));
    assert_non_null(strstr(text, "DYNAMIC, AT_LEAST_ONCE"));
    assert_non_null(strstr(text, "1 recovery task so far"));
    assert_non_null(strstr(
        text,
        "next split 24 of repetition 0, came back: 8..15 (in 1 crash), 4 handed out again\n"));
    assert_non_null(strstr(text, "open: 16..23\n"));
    assert_non_null(strstr(text, "recovery task 1, open\n"));
    mr_buf_free(&out);
    state_free(&s);
}

/* ---- reading ---- */

/* A store that answers ranges of KEYS_MAX keys, and sometimes does not. */
struct pages {
    mr_store store;
    int64_t revision;
    unsigned asked;
    unsigned fail_at;    /* this question is not answered ... */
    int code;            /* ... but with this */
    int64_t revision_of; /* the last question */
    bool mixed;          /* questions were about several revisions */
    size_t n;
};

static void pages_range(mr_store *s, struct mr_bytes key, struct mr_bytes end, int64_t revision,
                        int64_t limit, bool keys_only, int64_t timeout_ms, mr_range_done *done,
                        void *ctx)
{
    struct pages *p = (struct pages *)s;
    static char names[KEYS_MAX][40];
    static struct mr_kv kvs[KEYS_MAX];
    struct mr_range_result r = {.revision = ++p->revision, .kvs = kvs};
    mr_error err;

    if (++p->asked == p->fail_at) {
        p->revision_of = 0;
        done(ctx,
             mr_error_set_traits(&err, p->code, p->code == MR_EUNAVAIL ? MR_RETRYABLE : 0,
                                 "as told"),
             NULL, &err);
        return;
    }
    p->mixed = p->mixed || (p->revision_of != 0 && revision != p->revision_of);
    p->revision_of = revision == 0 ? r.revision : revision;
    for (size_t i = 0; i < p->n; i++) {
        (void)snprintf(names[i], sizeof names[i], ROOT "%s%04zu",
                       i % 2 == 0 ? "clients/" : "workers/", i / 2);
    }
    for (size_t odd = 0; odd < 2; odd++) {
        for (size_t i = odd; i < p->n; i += 2) {
            struct mr_bytes name = mr_bytes_str(names[i]);
            bool in = end.size == 0
                          ? mr_bytes_equal(name, key)
                          : mr_bytes_compare(name, key) >= 0 && mr_bytes_compare(name, end) < 0;

            if (in && limit > 0 && r.count == (size_t)limit) {
                r.more = true;
            } else if (in) {
                kvs[r.count++] =
                    (struct mr_kv){.key = name, .value = mr_bytes_str("{}"), .create_revision = 1};
            }
        }
    }
    done(ctx, MR_OK, &r, NULL);
}

static const struct mr_store_ops pages_ops = {.range = pages_range};

static int read_pages(struct pages *p, const char *key, bool prefix, struct state *ret,
                      mr_error *err)
{
    struct state_source from = {
        .store = &p->store, .where = "here", .cluster = "t", .timeout_ms = 1000};

    p->store.ops = &pages_ops;
    return state_read(&from, key, prefix, ret, err);
}

static void all_pages_are_of_one_revision(void **state)
{
    struct pages p = {.revision = 40, .n = KEYS_MAX};
    struct state s = {0};

    assert_int_equal(read_pages(&p, "", true, &s, NULL), MR_OK);
    assert_int_equal(s.count, KEYS_MAX);
    assert_int_equal(s.revision, 41);
    assert_true(p.asked > 3);
    assert_false(p.mixed);
    for (size_t i = 1; i < s.count; i++) {
        assert_true(strcmp(s.keys[i - 1].key, s.keys[i].key) < 0);
    }
    state_free(&s);
    p.revision_of = 0;
    assert_int_equal(read_pages(&p, "workers/", true, &s, NULL), MR_OK);
    assert_int_equal(s.count, KEYS_MAX / 2);
    state_free(&s);
    p.revision_of = 0;
    assert_int_equal(read_pages(&p, "workers/0007", false, &s, NULL), MR_OK);
    assert_int_equal(s.count, 1);
    state_free(&s);
}

static void a_compacted_revision_is_begun_again(void **state)
{
    struct pages p = {.revision = 40, .n = KEYS_MAX, .fail_at = 3, .code = MR_ERANGE};
    struct state s = {0};

    assert_int_equal(read_pages(&p, "", true, &s, NULL), MR_OK);
    assert_int_equal(s.count, KEYS_MAX);
    assert_int_equal(s.revision, 44);
    assert_false(p.mixed);
    state_free(&s);
}

static void a_store_that_is_away_is_asked_again(void **state)
{
    struct pages p = {.revision = 40, .n = 3, .fail_at = 1, .code = MR_EUNAVAIL};
    struct state s = {0};
    mr_error err = {0};

    assert_int_equal(read_pages(&p, "", true, &s, NULL), MR_OK);
    assert_int_equal(s.count, 3);
    state_free(&s);
    p = (struct pages){.fail_at = 1, .code = MR_EPERM};
    assert_int_equal(read_pages(&p, "", true, &s, &err), MR_EPERM);
    assert_int_equal(p.asked, 1);
    state_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_state_is_found_sound),
        cmocka_unit_test(one_wrong_record_is_named),
        cmocka_unit_test(what_must_hold_between_records_is_checked),
        cmocka_unit_test(at_least_once_has_more_to_be_checked),
        cmocka_unit_test(sharing_has_more_to_be_checked),
        cmocka_unit_test(productions_are_shown),
        cmocka_unit_test(a_lease_is_where_it_belongs),
        cmocka_unit_test(left_overs_are_not_wrong),
        cmocka_unit_test(all_that_is_wrong_is_told),
        cmocka_unit_test(every_kind_of_key_is_known),
        cmocka_unit_test(a_tree_has_a_line_for_each_key),
        cmocka_unit_test(what_came_back_is_shown),
        cmocka_unit_test(all_pages_are_of_one_revision),
        cmocka_unit_test(a_compacted_revision_is_begun_again),
        cmocka_unit_test(a_store_that_is_away_is_asked_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
