/* The access file: what is in it, who a caller is, and where a server may listen. */
#include "access/access.h"
#include "access/server.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* printf %s secret | sha256sum */
#define SECRET "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
#define OTHER "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa" /* of "other" */

#define FILE_OF(text) "{\"identities\":[" text "]}"
#define ALICE "{\"name\":\"alice\",\"roles\":[\"write\"],\"token_sha256\":\"" SECRET "\"}"
#define BOB(quota)                                                                                 \
    "{\"name\":\"bob\",\"roles\":[\"write\"],\"token_sha256\":\"" OTHER "\",\"quota\":" quota "}"
#define WORKERS                                                                                    \
    "{\"name\":\"workers\",\"roles\":[\"worker\"],\"spiffe\":\"spiffe://example.org/worker\"}"

static void roles_include_others(void **state)
{
    static const struct {
        const char *role;
        unsigned bits;
    } rows[] = {{"read", MR_ROLE_READ},
                {"write", MR_ROLE_READ | MR_ROLE_WRITE},
                {"worker", MR_ROLE_WORKER},
                {"admin", MR_ROLE_READ | MR_ROLE_WRITE | MR_ROLE_ADMIN}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mr_access_list *l = NULL;
        char text[512];

        (void)snprintf(
            text, sizeof text,
            FILE_OF("{\"name\":\"a\",\"roles\":[\"%s\"],\"token_sha256\":\"" SECRET "\"}"),
            rows[i].role);
        assert_int_equal(mr_access_parse(text, "f", &l, NULL), MR_OK);
        assert_int_equal(l->n, 1);
        assert_int_equal(l->all[0].roles, rows[i].bits);
        mr_access_list_free(l);
    }
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } rows[] = {
        {"", "f, line 1: "},
        {"{\"identities\":[\n{\"name\"", "f, line 2: "},
        {"[]", "f: 'identities' has to be a list"},
        {"{}", "f: 'identities' has to be a list"},
        {FILE_OF(""), "f: 'identities' has to be a list"},
        {FILE_OF("7"), "f: identity 1: it needs a 'name'"},
        {FILE_OF("{\"name\":\"\"}"), "f: identity 1: it needs a 'name'"},
        {FILE_OF(ALICE ",{\"name\":\"b\",\"role\":[\"read\"]}"),
         "f: identity 2 ('b'): it has no 'role'; did you mean 'roles'?"},
        {FILE_OF("{\"name\":\"b\"}"), "'roles' has to be a list of read, write, worker, admin"},
        {FILE_OF("{\"name\":\"b\",\"roles\":[]}"), "'roles' has to be a list"},
        {FILE_OF("{\"name\":\"b\",\"roles\":[\"root\"]}"), "'root' is not a role"},
        {FILE_OF("{\"name\":\"b\",\"roles\":[1]}"), "'what is no string' is not a role"},
        {FILE_OF("{\"name\":\"b\",\"roles\":[\"read\"]}"), "it needs a 'token_sha256' or a"},
        {FILE_OF("{\"name\":\"b\",\"roles\":[\"read\"],\"token_sha256\":\"abc\"}"),
         "64 lower-case hex digits"},
        {FILE_OF("{\"name\":\"b\",\"roles\":[\"read\"],\"token_sha256\":7}"),
         "64 lower-case hex digits"},
        {FILE_OF("{\"name\":\"b\",\"roles\":[\"read\"],\"spiffe\":\"https://x\"}"),
         "'spiffe' has to be a SPIFFE ID"},
        {FILE_OF("{\"name\":\"b\",\"roles\":[\"read\"],\"spiffe\":\"spiffe://\"}"),
         "'spiffe' has to be a SPIFFE ID"},
        {FILE_OF(ALICE "," ALICE), "identity 2 ('alice'): its token is that of 'alice' already"},
        {FILE_OF(WORKERS "," WORKERS), "its SPIFFE ID is that of 'workers' already"},
        {FILE_OF(BOB("7")), "f: identity 1 ('bob'): 'quota' has to be an object, as {"},
        {FILE_OF(BOB("{\"job\":1}")), "'quota' has no 'job'; did you mean 'jobs'?"},
        {FILE_OF(BOB("{\"jobs\":0}")), "'jobs' of 'quota' has to be a number from 1 to 1000000"},
        {FILE_OF(BOB("{\"jobs\":\"2\"}")), "'jobs' of 'quota' has to be a number"},
        {FILE_OF(BOB("{\"datasets\":-1}")), "'datasets' of 'quota' has to be a number"},
        {FILE_OF(BOB("{\"weight\":10001}")),
         "'weight' of 'quota' has to be a number from 1 to 10000"},
        {"{\"identities\":1,\"identities\":2}", "duplicate"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mr_access_list *l = NULL;
        mr_error err;

        assert_int_equal(mr_access_parse(rows[i].text, "f", &l, &err), MR_EINVAL);
        assert_null(l);
        if (strstr(err.message, rows[i].why) == NULL) {
            fail_msg("'%s' is said, '%s' was expected", err.message, rows[i].why);
        }
    }
}

static void quotas_are_limits_or_none(void **state)
{
    struct mr_access_list *l = NULL;

    assert_int_equal(
        mr_access_parse(FILE_OF(ALICE "," BOB("{\"jobs\":2,\"weight\":300}")), "f", &l, NULL),
        MR_OK);
    assert_int_equal(l->all[0].quota.jobs + l->all[0].quota.datasets + l->all[0].quota.weight, 0);
    assert_int_equal(l->all[1].quota.jobs, 2);
    assert_int_equal(l->all[1].quota.datasets, 0);
    assert_int_equal(l->all[1].quota.weight, 300);
    mr_access_list_free(l);
}

static char path[] = "/tmp/mr-access-XXXXXX";

static void write_file(const char *text)
{
    char next[64];

    (void)snprintf(next, sizeof next, "%s.next", path);
    FILE *f = fopen(next, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(next, path), 0);
}

static int identify(mr_access *a, const char *token, const char *spiffe, int64_t now_ms,
                    const char *name, unsigned roles)
{
    char got[MR_ACCESS_NAME_MAX + 1];
    unsigned bits;
    mr_error err;
    int rc = mr_access_identify(a, token, spiffe, now_ms, got, &bits, NULL, &err);

    if (rc == MR_OK) {
        assert_string_equal(got, name);
        assert_int_equal(bits, roles);
    }
    return rc;
}

static void callers_are_who_they_show(void **state)
{
    const char *id = "spiffe://example.org/worker";
    mr_access *a;
    mr_error err;

    write_file(FILE_OF(ALICE "," WORKERS));
    assert_int_equal(mr_access_open(path, &a, &err), MR_OK);
    assert_int_equal(identify(a, "secret", NULL, 1, "alice", MR_ROLE_READ | MR_ROLE_WRITE), MR_OK);
    assert_int_equal(identify(a, NULL, id, 1, "workers", MR_ROLE_WORKER), MR_OK);
    /* The token is what counts, and a wrong one is not made good by a certificate. */
    assert_int_equal(identify(a, "secret", id, 1, "alice", MR_ROLE_READ | MR_ROLE_WRITE), MR_OK);
    assert_int_equal(identify(a, "wrong", id, 1, "", 0), MR_EUNAUTH);
    assert_int_equal(identify(a, NULL, NULL, 1, "", 0), MR_EUNAUTH);
    assert_int_equal(identify(a, NULL, "spiffe://example.org/worker2", 1, "", 0), MR_EUNAUTH);
    assert_int_equal(identify(a, "", NULL, 1, "", 0), MR_EUNAUTH);
    mr_access_close(a);
}

/* Times are the test's, and a day ahead of the clock by which it was opened. */
static void the_file_is_read_again(void **state)
{
    int64_t now = 86400000 * (int64_t)40000;
    mr_access *a;

    write_file(FILE_OF(ALICE));
    assert_int_equal(mr_access_open(path, &a, NULL), MR_OK);
    assert_int_equal(identify(a, "other", NULL, now, "", 0), MR_EUNAUTH);
    write_file(
        FILE_OF(ALICE ",{\"name\":\"bob\",\"roles\":[\"admin\"],\"token_sha256\":\"" OTHER "\"}"));
    assert_int_equal(identify(a, "other", NULL, now + 10, "", 0), MR_EUNAUTH); /* not looked at */
    now += 1000;
    assert_int_equal(identify(a, "other", NULL, now, "bob", MR_ROLES_ALL - MR_ROLE_WORKER), MR_OK);
    write_file("{"); /* Who was let in before still is. */
    now += 1000;
    assert_int_equal(identify(a, "other", NULL, now, "bob", MR_ROLES_ALL - MR_ROLE_WORKER), MR_OK);
    write_file(FILE_OF(ALICE));
    now += 1000;
    assert_int_equal(identify(a, "other", NULL, now, "", 0), MR_EUNAUTH);
    assert_int_equal(unlink(path), 0);
    now += 1000;
    assert_int_equal(identify(a, "secret", NULL, now, "alice", MR_ROLE_READ | MR_ROLE_WRITE),
                     MR_OK);
    mr_access_close(a);
}

static void a_file_that_is_wrong_is_an_option_that_is_wrong(void **state)
{
    mr_access *a;
    mr_error err;

    assert_int_equal(mr_access_open("/nonexistent/access.json", &a, &err), MR_EINVAL);
    assert_string_equal(err.message,
                        "access file: /nonexistent/access.json: No such file or directory");
}

static void others_are_let_in_on_purpose(void **state)
{
    const struct mr_rpc_files plain = {.tls = false};
    const struct mr_rpc_files tls = {.tls = true, .cert = "c", .key = "k"};
    mr_error err;

    for (const char *const *at = (const char *const[]){"127.0.0.1:1", "127.3.2.1:0", "localhost:0",
                                                       "[::1]:5", "[::ffff:127.0.0.1]:5", NULL};
         *at != NULL; at++) {
        assert_int_equal(mr_access_check_listen(*at, &plain, true, false, NULL), MR_OK);
    }
    for (const char *const *at =
             (const char *const[]){"0.0.0.0:1", ":1", "[::]:1", "10.0.0.1:1", "host:1",
                                   "localhost.example.org:1", "128.0.0.1:1", NULL};
         *at != NULL; at++) {
        assert_int_equal(mr_access_check_listen(*at, &plain, false, false, &err), MR_EINVAL);
        assert_non_null(strstr(err.message, "--tls-cert and --tls-key are not given"));
        assert_int_equal(mr_access_check_listen(*at, &tls, true, false, &err), MR_EINVAL);
        assert_non_null(strstr(err.message, "--access-file is not given"));
        assert_int_equal(mr_access_check_listen(*at, &tls, false, false, NULL), MR_OK);
        assert_int_equal(mr_access_check_listen(*at, &plain, true, true, NULL), MR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roles_include_others),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(quotas_are_limits_or_none),
        cmocka_unit_test(callers_are_who_they_show),
        cmocka_unit_test(the_file_is_read_again),
        cmocka_unit_test(a_file_that_is_wrong_is_an_option_that_is_wrong),
        cmocka_unit_test(others_are_let_in_on_purpose),
    };
    int fd = mkstemp(path);

    if (fd < 0) {
        return 1;
    }
    (void)close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return failed;
}
