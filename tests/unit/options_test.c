/* Options tables: spellings, units, bounds, precedence, and what people are told. */
#include "options/programs.h"

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
    const char *needed;
    int64_t least;
};

#define ROW(field, type_, name_, ...)                                                              \
    {                                                                                              \
        .name = (name_), .type = OPT_##type_, .offset = offsetof(struct values, field),            \
        __VA_ARGS__                                                                                \
    }

static const struct opt table[] = {
    ROW(listen, STRING, "listen", .value = "HOST:PORT", TEXT("127.0.0.1:1"), .help = "where"),
    ROW(format, CHOICE, "log-format", TEXT("auto"), .choices = "auto|text|json",
        .flags = OPT_SHARED, .help = "how"),
    ROW(number, INT, "number", DEFAULT(3, ), RANGE(1, , 64, ), .help = "many"),
    ROW(ttl, DURATION, "lease-ttl", DEFAULT(10, s), RANGE(1, s, 60, s), .help = "long"),
    ROW(budget, SIZE, "budget", .help = "much"),
    ROW(json, FLAG, "json", .help = "or not"),
    ROW(owner, INT, "owner-pid", .flags = OPT_NO_ENV, .help = "whose"),
    ROW(serve, LISTEN, "serve", .help = "where"),
    ROW(advertise, ADVERTISE, "advertise", .help = "where for others"),
    ROW(peer, HOST, "peer", .help = "whom"),
    ROW(needed, STRING, "needed", TEXT("x"), .flags = OPT_REQUIRED,
        .help = "host:port of somebody"),
    ROW(least, SIZE, "least", AT_LEAST(16, MiB), .help = "much"),
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

static void what_is_needed_is_named_when_it_is_empty(void **state)
{
    check_refused("--needed=", NULL, "--needed is needed: host:port of somebody");
    check_refused("--least", "1MiB", "--least 1MiB: must be at least 16MiB");
}

/* One default each, whoever asks: program, library, judgement. */
static void libraries_have_the_defaults_of_the_programs(void **state)
{
    struct mr_dispatcher_options lib = {.cluster = "", .heartbeat_ms = 20};
    struct dispatcher_values v = {0};
    char *argv[] = {(char[]){"dispatcher"}, NULL};
    mr_error err;

    assert_int_equal(opt_parse(&mr_program_dispatcher, 1, argv, &v, &err), OPT_RUN);
    mr_dispatcher_options_fill(&lib);
    assert_int_equal(lib.heartbeat_ms, 20);
    assert_string_equal(lib.listen, "127.0.0.1:5050");
    assert_string_equal(lib.cluster, v.lib.cluster);
    assert_int_equal(lib.worker_timeout_ms, 10000);
    lib.heartbeat_ms = 0;
    lib.listen = v.lib.listen;
    lib.cluster = v.lib.cluster;
    mr_dispatcher_options_fill(&lib);
    assert_memory_equal(&lib, &v.lib, sizeof lib);
    assert_int_equal(mr_dispatcher_options_check(&lib, &err), MR_OK);
    lib.worker_timeout_ms = 2 * 3600 * 1000;
    assert_int_equal(mr_dispatcher_options_check(&lib, &err), MR_EINVAL);
    assert_string_equal(err.message, "--worker-timeout 7200000ms: must be from 100ms to 1h");
}

/* Each program's table: names once, defaults within their bounds, help without line breaks. */
static void the_tables_hold_together(void **state)
{
    for (const struct opt_program *const *p = mr_programs; *p != NULL; p++) {
        for (size_t i = 0; i < (*p)->n_opts; i++) {
            const struct opt *o = &(*p)->opts[i];
            char text[512];

            for (size_t k = 0; k < i; k++) {
                assert_string_not_equal(o->name, (*p)->opts[k].name);
            }
            if (o->min_text != NULL && o->deflt != NULL) {
                assert_in_range(o->deflt_number, o->min, o->max);
            }
            assert_true((o->type == OPT_CHOICE) == (o->choices != NULL));
            assert_null(strchr(o->help, '\n'));
            assert_true(o->help[strlen(o->help) - 1] != '.');
            opt_describe(o, text, sizeof text);
            assert_true(strlen(text) < sizeof text - 1);
        }
    }
}

static void nearest_name(void **state)
{
    static const char *const names[] = {"dispatcher", "worker", "dev", "status", "job"};

    assert_string_equal(opt_nearest("dispacher", names, 5), "dispatcher");
    assert_string_equal(opt_nearest("stats", names, 5), "status");
    assert_string_equal(opt_nearest("jbo", names, 5), "job"); /* two swapped are one mistake */
    assert_null(opt_nearest("zebra", names, 5));
    assert_null(opt_nearest("foo", names, 5)); /* two letters of three are another word */
}

static const struct opt_program job_list = {.name = "job list"};
static const struct opt_program job_delete = {.name = "job delete"};
static const struct opt_program server = {.name = "worker", .verb = "run"};
static const struct opt_program server_drain = {.name = "worker drain"};
static const struct opt_program alone = {.name = "status"};
static const struct opt_program *const all[] = {&job_list,     &job_delete, &server,
                                                &server_drain, &alone,      NULL};

static void check_found(const char *a, const char *b, const struct opt_program *wanted, int n)
{
    char *argv[] = {(char *)(uintptr_t)a, (char *)(uintptr_t)b, NULL};
    mr_error err = {0};
    int words = 0;

    assert_ptr_equal(opt_find(all, b != NULL ? 2 : 1, argv, &words, &err), wanted);
    assert_int_equal(words, n);
}

static void a_noun_and_a_verb_are_a_program(void **state)
{
    check_found("job", "list", &job_list, 2);
    check_found("worker", NULL, &server, 1);
    check_found("worker", "--dispatcher", &server, 1);
    check_found("worker", "run", &server, 2);
    check_found("worker", "drain", &server_drain, 2);
    check_found("status", NULL, &alone, 1);
    check_found("status", "more", &alone, 1); /* it refuses the word itself */
}

static void check_lost(const char *a, const char *b, const char *message)
{
    char *argv[] = {(char *)(uintptr_t)a, (char *)(uintptr_t)b, NULL};
    mr_error err = {0};
    int words;

    assert_null(opt_find(all, b != NULL ? 2 : 1, argv, &words, &err));
    assert_int_equal(err.code, MR_EINVAL);
    assert_string_equal(err.message, message);
}

static void a_program_that_there_is_not(void **state)
{
    check_lost("jbo", NULL, "no command 'jbo'; did you mean 'job'?");
    check_lost("hlep", NULL, "no command 'hlep'; did you mean 'help'?");
    check_lost("zebra", "list", "no command 'zebra'");
    check_lost("job", NULL, "job what? there is: list, delete");
    check_lost("job", "--json", "job what? there is: list, delete");
    check_lost("job", "lits", "no command 'job lits'; did you mean 'job list'?");
    check_lost("job", "zebra", "no command 'job zebra'; there is: list, delete");
    check_lost("worker", "rnu", "no command 'worker rnu'; did you mean 'worker run'?");
}

static void verbs_share_the_variables_of_their_noun(void **state)
{
    struct opt_program verb = program;
    const char *argv[] = {"tester list", "--number=2", NULL};
    struct values v = {0};
    mr_error err = {0};

    verb.name = "tester list";
    assert_int_equal(setenv("MILLRACE_TESTER_LEASE_TTL", "20s", 1), 0);
    assert_int_equal(opt_parse(&verb, 2, (char *const *)argv, &v, &err), OPT_RUN);
    assert_int_equal(unsetenv("MILLRACE_TESTER_LEASE_TTL"), 0);
    assert_int_equal(v.ttl, 20000);
}

static void words_that_are_needed_are_asked_for(void **state)
{
    struct word_values {
        const char *words[2];
    };
    struct opt_program needs = {.name = "job show",
                                .usage = "NAME",
                                .args_offset = offsetof(struct word_values, words),
                                .n_args = 2,
                                .n_needed = 1};
    const char *argv[] = {"show", "x", NULL};
    struct word_values v = {0};
    mr_error err = {0};

    assert_int_equal(opt_parse(&needs, 1, (char *const *)argv, &v, &err), MR_EINVAL);
    assert_string_equal(err.message, "NAME is missing: millrace job show NAME");
    assert_int_equal(opt_parse(&needs, 2, (char *const *)argv, &v, &err), OPT_RUN);
    assert_string_equal(v.words[0], "x");
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
        cmocka_unit_test(what_is_needed_is_named_when_it_is_empty),
        cmocka_unit_test(libraries_have_the_defaults_of_the_programs),
        cmocka_unit_test(the_tables_hold_together),
        cmocka_unit_test(nearest_name),
        cmocka_unit_test(a_noun_and_a_verb_are_a_program),
        cmocka_unit_test(a_program_that_there_is_not),
        cmocka_unit_test(verbs_share_the_variables_of_their_noun),
        cmocka_unit_test(words_that_are_needed_are_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
