/* What each method of a dispatcher takes. */
#include "access/role.h"
#include "dispatcher/server/guard.h"
#include "dispatcher/turn/method.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tokens "r", "w", "k" and "a", of the four roles: as sha256sum prints them. */
static const char file[] =
    "{\"identities\":["
    "{\"name\":\"reader\",\"roles\":[\"read\"],\"token_sha256\":"
    "\"454349e422f05297191ead13e21d3db520e5abef52055e4964b82fb213f593a1\"},"
    "{\"name\":\"writer\",\"roles\":[\"write\"],\"token_sha256\":"
    "\"50e721e49c013f00c62cf59f2163542a9d8df02464efeb615d31051b0fddc326\"},"
    "{\"name\":\"worker\",\"roles\":[\"worker\"],\"token_sha256\":"
    "\"8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a\"},"
    "{\"name\":\"admin\",\"roles\":[\"admin\"],\"token_sha256\":"
    "\"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\"}]}";

/* Each method, and which of those tokens it takes. A new one has to be written down here. */
static const struct {
    const char *method;
    const char *takes;
} rows[] = {
    {"RegisterDataset", "wa"}, {"GetDataset", "rwka"},     {"Open", "rwa"},
    {"WatchClient", "rwa"},    {"ClientHeartbeat", "rwa"}, {"ReleaseClient", "rwa"},
    {"RegisterWorker", "k"},   {"WatchWorker", "k"},       {"WorkerHeartbeat", "k"},
    {"GetSplits", "k"},        {"TaskEnded", "k"},         {"DeleteDataset", "a"},
    {"DeleteJob", "a"},        {"DrainWorker", "a"},       {"Status", "rwa"},
    {"Follow", "rwka"},
};

static struct mr_guard guard; /* with that file */

static const char *takes(const char *path)
{
    const char *name = strrchr(path, '/') + 1;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].method, name) == 0) {
            return rows[i].takes;
        }
    }
    fail_msg("which roles does %s take?", path);
    return "";
}

static void each_method_takes_its_roles(void **state)
{
    struct mr_guard *g = &guard;

    assert_int_equal(mr_methods_count, sizeof rows / sizeof rows[0]);
    for (size_t i = 0; i < mr_methods_count; i++) {
        const char *path = mr_methods[i].path;

        for (const char *t = "rwkax-"; *t != '\0'; t++) { /* x: unknown; -: none */
            const char token[] = {*t, '\0'};
            const struct mr_rpc_caller caller = {.token = *t != '-' ? token : NULL, .host = "h"};
            struct mr_rpc_who who = {.rights = 0};
            mr_error err;
            int rc = mr_guard_check(g, path, &caller, &who, &err);
            int want = strchr(takes(path), *t) != NULL ? MR_OK
                       : *t == 'x' || *t == '-'        ? MR_EUNAUTH
                                                       : MR_EPERM;

            if (rc != want) {
                fail_msg("%s with '%s': %d, not %d", path, token, rc, want);
            }
        }
    }
}

static void what_was_refused_is_counted(void **state)
{
    struct mr_guard *g = &guard;
    const struct mr_rpc_caller unknown = {.token = "x", .host = "h"};
    const struct mr_rpc_caller reader = {.token = "r", .host = "h"};
    uint64_t before[] = {atomic_load(&g->unknown), atomic_load(&g->forbidden)};
    struct mr_rpc_who who;
    mr_error err;

    assert_int_equal(mr_guard_check(g, "/millrace.Dispatcher/DeleteJob", &unknown, &who, &err),
                     MR_EUNAUTH);
    assert_int_equal(mr_guard_check(g, "/millrace.Dispatcher/DeleteJob", &reader, &who, &err),
                     MR_EPERM);
    assert_string_equal(err.message, "/millrace.Dispatcher/DeleteJob: 'reader' has the roles read, "
                                     "one of admin is needed");
    assert_int_equal(atomic_load(&g->unknown), before[0] + 1);
    assert_int_equal(atomic_load(&g->forbidden), before[1] + 1);
}

static void without_a_file_everybody_may_everything(void **state)
{
    struct mr_guard open = {.access = NULL};
    const struct mr_rpc_caller nobody = {.host = "h"};
    struct mr_rpc_who who = {.rights = 0};
    mr_error err;

    assert_int_equal(mr_guard_check(&open, "/millrace.Dispatcher/DeleteJob", &nobody, &who, &err),
                     MR_OK);
    assert_int_equal(who.rights, MR_ROLES_ALL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_method_takes_its_roles),
        cmocka_unit_test(what_was_refused_is_counted),
        cmocka_unit_test(without_a_file_everybody_may_everything),
    };
    char path[] = "/tmp/mr-guard-XXXXXX";
    int fd = mkstemp(path);

    if (fd < 0 || write(fd, file, sizeof file - 1) != (ssize_t)sizeof file - 1 ||
        mr_guard_open(&guard, path, NULL) < 0) {
        return 1;
    }
    (void)close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    mr_guard_close(&guard);
    (void)unlink(path);
    return failed;
}
