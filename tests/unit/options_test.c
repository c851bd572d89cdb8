/* Options tables: spellings, units, bounds, precedence, and what people are told. */
#include "main/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

struct values {
    const char *listen;
    const char *format;
    int64_t number;
    int64_t ttl;
    int64_t budget;
    bool json;
    int64_t owner;
    const char *serve;
    const char *advertise;
    const char *peer;
};

#define AT(field) offsetof(struct values, field)

static const struct opt table[] = {
    {"listen", OPT_STRING, AT(listen), "HOST:PORT", "127.0.0.1:1", 0, 0, NULL, "where", 0},
    {"log-format", OPT_CHOICE, AT(format), "FORMAT", "auto", 0, 0, "auto|text|json", "how",
     OPT_SHARED},
    {"number", OPT_INT, AT(number), "N", "3", 1, 64, NULL, "many", 0},
    {"lease-ttl", OPT_DURATION, AT(ttl), "DURATION", "10s", 1000, 60000, NULL, "long", 0},
    {"budget", OPT_SIZE, AT(budget), "SIZE", NULL, 0, 0, NULL, "much", 0},
    {"json", OPT_FLAG, AT(json), "", NULL, 0, 0, NULL, "or not", 0},
    {"owner-pid", OPT_INT, AT(owner), "PID", NULL, 0, 0, NULL, "whose", OPT_NO_ENV},
    {"serve", OPT_LISTEN, AT(serve), "HOST:PORT", NULL, 0, 0, NULL, "where", 0},
    {"advertise", OPT_ADVERTISE, AT(advertise), "HOST:PORT", NULL, 0, 0, NULL, "where for others",
     0},
    {"peer", OPT_HOST, AT(peer), "NAME", NULL, 0, 0, NULL, "whom", 0},
};

static const struct opt_program program = {
    .name = "tester",
    .summary = "a test",
    .examples = "",
    .opts = table,
    .n_opts = sizeof table / sizeof table[0],
};

/* Parse up to six arguments; NULL ends them. */
static int parse(struct values *v, mr_error *err, const char *a, const char *b, const char *c,
                 const char *d)
{
    const char *argv[] = {"tester", a, b, c, d, NULL};
    int argc = 0;

    while (argv[argc] != NULL) {
        argc++;
    }
    *v = (struct values){0};
    return opt_parse(&program, argc, (char *const *)argv, v, err);
}

static void check_refused(const char *a, const char *b, const char *message)
{
    struct values v;
    mr_error err = {0};

    assert_int_equal(parse(&v, &err, a, b, NULL, NULL), MR_EINVAL);
    assert_string_equal(err.message, message);
}

static int64_t ttl_of(const char *text)
{
    struct values v;
    mr_error err = {0};

    if (parse(&v, &err, "--lease-ttl", text, NULL, NULL) != MR_OK) {
        fail_msg("%s", err.message);
    }
    return v.ttl;
}

static int64_t budget_of(const char *text)
{
    struct values v;
    mr_error err = {0};

    if (parse(&v, &err, "--budget", text, NULL, NULL) != MR_OK) {
        fail_msg("%s", err.message);
    }
    return v.budget;
}

static void defaults_come_from_the_table(void **state)
{
    struct values v;

    assert_int_equal(parse(&v, NULL, NULL, NULL, NULL, NULL), OPT_RUN);
    assert_string_equal(v.listen, "127.0.0.1:1");
    assert_string_equal(v.format, "auto");
    assert_int_equal(v.number, 3);
    assert_int_equal(v.ttl, 10000);
    assert_int_equal(v.budget, 0);
    assert_false(v.json);
}

static void both_spellings(void **state)
{
    struct values v;

    assert_int_equal(parse(&v, NULL, "--listen=a:1", "--number", "7", "--json"), OPT_RUN);
    assert_string_equal(v.listen, "a:1");
    assert_int_equal(v.number, 7);
    assert_true(v.json);
    assert_int_equal(parse(&v, NULL, "--listen=", "--number=8", "--json=false", "--"), OPT_RUN);
    assert_string_equal(v.listen, "");
    assert_int_equal(v.number, 8);
    assert_false(v.json);
}

static void durations(void **state)
{
    struct values v;

    assert_int_equal(ttl_of("2s"), 2000);
    assert_int_equal(ttl_of("1500ms"), 1500);
    assert_int_equal(ttl_of("1.5s"), 1500);
    assert_int_equal(ttl_of("0.5m"), 30000);
    assert_int_equal(parse(&v, NULL, "--lease-ttl-ms", "2500", NULL, NULL), OPT_RUN);
    assert_int_equal(v.ttl, 2500);
    check_refused("--lease-ttl", "10", "--lease-ttl '10': the unit is missing, as in 10s or 250ms");
    check_refused("--lease-ttl", "10x",
                  "--lease-ttl '10x': no such unit or far too much, as in 10s or 250ms");
    check_refused("--lease-ttl", "soon",
                  "--lease-ttl 'soon': a number and a unit are expected, as in 10s or 250ms");
    check_refused("--lease-ttl-ms", "1s", "--lease-ttl '1s': a whole number is expected");
    check_refused("--lease-ttl=61s", NULL, "--lease-ttl 61s: must be from 1s to 60s");
    check_refused("--lease-ttl=nans", NULL,
                  "--lease-ttl 'nans': a number and a unit are expected, as in 10s or 250ms");
}

static void sizes(void **state)
{
    assert_int_equal(budget_of("1GiB"), INT64_C(1) << 30);
    assert_int_equal(budget_of("1.5kib"), 1536);
    assert_int_equal(budget_of("2GB"), 2000000000);
    assert_int_equal(budget_of("17B"), 17);
    assert_int_equal(budget_of("0"), 0);
    check_refused(
        "--budget", "999999999999999TiB",
        "--budget '999999999999999TiB': no such unit or far too much, as in 64MiB or 1GB");
}

#define A10 "aaaaaaaaaa"
#define A70 A10 A10 A10 A10 A10 A10 A10
#define A250 A70 A70 A70 A10 A10 A10 A10
#define HOST_WANTED                                                                                \
    "': a host name is wanted, of at most 253 letters, digits, '-', '.' and '_', or an IP address"

static void addresses_and_hosts(void **state)
{
    static const char *const hosts[] = {"etcd",    "etcd-0.a_b.svc", "127.0.0.1", "::1",
                                        "fe80::1", A250 "aaa",       ""};
    struct values v;

    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        assert_int_equal(parse(&v, NULL, "--peer", hosts[i], NULL, NULL), OPT_RUN);
        assert_string_equal(v.peer, hosts[i]);
    }
    check_refused("--peer", "a b", "--peer 'a b" HOST_WANTED);
    check_refused("--peer", "[::1", "--peer '[::1" HOST_WANTED);
    check_refused("--peer", "[::1]", "--peer '[::1]" HOST_WANTED);
    check_refused("--peer", "x:1", "--peer 'x:1" HOST_WANTED);
    check_refused("--peer", "\x1b[31mX\nY", "--peer '\\x1b[31mX\\nY" HOST_WANTED);
    check_refused("--peer", A250 "aaaa", "--peer '" A70 "aaaaaaa..." HOST_WANTED);
    assert_int_equal(parse(&v, NULL, "--serve=:0", "--advertise=h:%port%", NULL, NULL), OPT_RUN);
    assert_string_equal(v.serve, ":0");
    assert_string_equal(v.advertise, "h:%port%");
    assert_int_equal(parse(&v, NULL, "--serve=[::]:5", "--advertise=", NULL, NULL), OPT_RUN);
    check_refused("--serve", "x", "--serve 'x': host:port is wanted, with a port from 0 to 65535");
    check_refused("--serve", A250 "aaaa:1",
                  "--serve '" A70 "aaaaaaa...': host:port is wanted, with a port from 0 to 65535");
    check_refused("--advertise", "h:0",
                  "--advertise 'h:0': host:port is wanted, with a port from 1 to 65535");
    check_refused("--advertise", "h:%port%x",
                  "--advertise 'h:%port%x': host:port is wanted, with a port from 1 to 65535");
}

/* A value of any length, and of any bytes, is shown in one line that ends with what is wanted. */
static void values_are_shown_in_one_short_line(void **state)
{
    check_refused("--number", A250, "--number '" A70 "aaaaaaa...': a whole number is expected");
    check_refused("--number", "\n\t\x7f\xff\xc3\xbc\xc2\x9b",
                  "--number '\\n\\t\\x7f\\xff\xc3\xbc\\xc2\\x9b': a whole number is expected");
    check_refused("--log-format", "a\rb", "--log-format 'a\\x0db': must be one of auto|text|json");
    check_refused("--log-format", A250,
                  "--log-format '" A70 "aaaaaaa...': must be one of auto|text|json");
    check_refused("--lease-ttl", A250,
                  "--lease-ttl '" A70
                  "aaaaaaa...': a number and a unit are expected, as in 10s or 250ms");
    check_refused("--\x1b[m", NULL, "no option --\\x1b[m");
    check_refused("-\x1b[m", NULL, "no option -\\x1b[m: options begin with two dashes");
    check_refused("\x1b[m", NULL,
                  "'\\x1b[m' is not expected here: millrace tester takes options only");
}

static void bounds_and_choices(void **state)
{
    check_refused("--number", "0", "--number 0: must be from 1 to 64");
    check_refused("--number", "65", "--number 65: must be from 1 to 64");
    check_refused("--number", "3x", "--number '3x': a whole number is expected");
    check_refused("--log-format", "xml", "--log-format 'xml': must be one of auto|text|json");
    check_refused("--log-format", "tex", "--log-format 'tex': must be one of auto|text|json");
    check_refused("--json=maybe", NULL, "--json 'maybe': true or false is expected");
}

static void names_may_be_cut_short(void **state)
{
    struct values v;

    assert_int_equal(parse(&v, NULL, "--num=9", "--lease", "2s", NULL), OPT_RUN);
    assert_int_equal(v.number, 9);
    assert_int_equal(v.ttl, 2000);
    check_refused("--l=1s", NULL, "no option --l"); /* listen, log-format or lease-ttl */
}

static void mistakes_are_explained(void **state)
{
    check_refused("--lisen", "a:1", "no option --lisen; did you mean --listen?");
    check_refused("--lease_ttl=1s", NULL, "no option --lease_ttl; did you mean --lease-ttl?");
    check_refused("--completely-else", NULL, "no option --completely-else");
    check_refused("--listen", NULL, "--listen needs a value: --listen HOST:PORT");
    check_refused("start", NULL,
                  "'start' is not expected here: millrace tester takes options only");
}

static void words_stand_before_among_and_behind_options(void **state)
{
    static const struct {
        const char *argv[6];
        const char *first, *second;
        int rc;
    } cases[] = {
        {{"t", "get", "jobs/a", "--number=9"}, "get", "jobs/a", OPT_RUN},
        {{"t", "--number", "9", "get"}, "get", NULL, OPT_RUN},
        {{"t", "get", "--number=9", "--", "--odd"}, "get", "--odd", OPT_RUN},
        {{"t", "--number=9"}, NULL, NULL, OPT_RUN},
        {{"t", "--number=9", "get", "a", "b"}, NULL, NULL, MR_EINVAL},
        {{"t", "get", "-x"}, NULL, NULL, MR_EINVAL},
    };
    struct with_words {
        struct values values;
        const char *words[2];
    };
    struct opt_program wordy = program;

    wordy.usage = "get KEY";
    wordy.args_offset = offsetof(struct with_words, words);
    wordy.n_args = 2;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct with_words v = {0};
        int argc = 0;

        while (argc < 6 && cases[i].argv[argc] != NULL) {
            argc++;
        }
        assert_int_equal(opt_parse(&wordy, argc, (char *const *)(uintptr_t)cases[i].argv, &v, NULL),
                         cases[i].rc);
        if (cases[i].rc != OPT_RUN) {
            continue;
        }
        assert_true((v.words[0] == NULL) == (cases[i].first == NULL));
        assert_true((v.words[1] == NULL) == (cases[i].second == NULL));
        if (cases[i].first != NULL) {
            assert_string_equal(v.words[0], cases[i].first);
        }
        if (cases[i].second != NULL) {
            assert_string_equal(v.words[1], cases[i].second);
        }
    }
}

static void flag_wins_over_variable_wins_over_default(void **state)
{
    struct values v;
    mr_error err = {0};

    setenv("MILLRACE_TESTER_NUMBER", "5", 1);
    setenv("MILLRACE_LOG_FORMAT", "json", 1);
    setenv("MILLRACE_LISTEN", "not:shared", 1);
    setenv("MILLRACE_TESTER_OWNER_PID", "1", 1);
    assert_int_equal(parse(&v, NULL, NULL, NULL, NULL, NULL), OPT_RUN);
    assert_int_equal(v.number, 5);
    assert_string_equal(v.format, "json");
    assert_string_equal(v.listen, "127.0.0.1:1");
    assert_int_equal(v.owner, 0); /* not from the environment: children would inherit it */
    setenv("MILLRACE_TESTER_LOG_FORMAT", "text", 1);
    assert_int_equal(parse(&v, NULL, "--number", "6", NULL, NULL), OPT_RUN);
    assert_int_equal(v.number, 6);
    assert_string_equal(v.format, "text");
    setenv("MILLRACE_TESTER_NUMBER", "many", 1);
    assert_int_equal(parse(&v, &err, NULL, NULL, NULL, NULL), MR_EINVAL);
    assert_string_equal(
        err.message,
        "the variable MILLRACE_TESTER_NUMBER: --number 'many': a whole number is expected");
    unsetenv("MILLRACE_TESTER_NUMBER");
    unsetenv("MILLRACE_LOG_FORMAT");
    unsetenv("MILLRACE_TESTER_LOG_FORMAT");
}

static void nearest_name(void **state)
{
    static const char *const names[] = {"dispatcher", "worker", "dev", "status", "job"};

    assert_string_equal(opt_nearest("dispacher", names, 5), "dispatcher");
    assert_string_equal(opt_nearest("stats", names, 5), "status");
    assert_null(opt_nearest("zebra", names, 5));
    assert_null(opt_nearest("foo", names, 5)); /* two letters of three are another word */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_come_from_the_table),
        cmocka_unit_test(both_spellings),
        cmocka_unit_test(durations),
        cmocka_unit_test(sizes),
        cmocka_unit_test(bounds_and_choices),
        cmocka_unit_test(addresses_and_hosts),
        cmocka_unit_test(values_are_shown_in_one_short_line),
        cmocka_unit_test(names_may_be_cut_short),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(words_stand_before_among_and_behind_options),
        cmocka_unit_test(flag_wins_over_variable_wins_over_default),
        cmocka_unit_test(nearest_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
