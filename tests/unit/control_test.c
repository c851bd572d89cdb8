/* Finding the leader and following it, against dispatchers that do as the test says. */
#include "base/clock.h"
#include "base/limits.h"
#include "base/sync.h"
#include "control/control.h"
#include "fake_service.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>

#define LONG_MS 20000

struct fixture {
    mr_rpc_runtime *rt;
    struct fake_service a;
    struct fake_service b;
    mr_control *c;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned updates;
    uint64_t epoch; /* of the last update */
    int refused;
    atomic_bool cancel;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    mr_mutex_init(&f->lock);
    mr_cond_init(&f->changed);
    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    fake_service_start(&f->a, f->rt, 0);
    fake_service_start(&f->b, f->rt, 0);
    f->b.role = FAKE_FOLLOWS;
    (void)snprintf(f->b.leader, sizeof f->b.leader, "%s", f->a.address);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mr_control_free(f->c);
    fake_service_stop(&f->a);
    fake_service_stop(&f->b);
    mr_rpc_release(f->rt);
    free(f);
    return 0;
}

/* An attempt is not cut short unless the test has somebody hang: then it would not be the only
 * one. */
static void connect_for(struct fixture *f, const char *service, const char *cluster,
                        int64_t attempt_ms)
{
    struct mr_control_options opts = {
        .service = service, .cluster = cluster, .attempt_timeout_ms = attempt_ms};

    assert_int_equal(mr_control_new(f->rt, &opts, &f->c, NULL), MR_OK);
}

static void connect_to(struct fixture *f, const char *service, const char *cluster)
{
    connect_for(f, service, cluster, LONG_MS);
}

static void connect_both_for(struct fixture *f, int64_t attempt_ms)
{
    char service[160];

    (void)snprintf(service, sizeof service, "grpc://%s,%s", f->b.address, f->a.address);
    connect_for(f, service, NULL, attempt_ms);
}

static void connect_both(struct fixture *f)
{
    connect_both_for(f, LONG_MS);
}

static unsigned calls_of(struct fake_service *d)
{
    MR_LOCK(&d->lock);
    return d->calls;
}

static int open_job(struct fixture *f, int64_t timeout_ms, const atomic_bool *cancel, mr_error *err)
{
    Millrace__OpenRequest req = MILLRACE__OPEN_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;
    int rc = mr_control_call(f->c, "Open", &req.base, &millrace__open_reply__descriptor, timeout_ms,
                             cancel, &reply, err);

    if (rc == MR_OK) {
        assert_string_equal(((Millrace__OpenReply *)reply)->job_id, "job-1");
        protobuf_c_message_free_unpacked(reply, NULL);
    }
    assert_null(req.header); /* was only borrowed */
    return rc;
}

/* ---- addresses ---- */

static void bad_addresses_are_named(void **state)
{
    static const char *const bad[] = {"",       "host",       "host:",    ":1",
                                      "host:0", "host:70000", "a:1,,b:2", "http://a:1",
                                      "a b:1",  "::1:5050",   "a:1,b:x"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mr_control_options opts = {.service = bad[i]};
        mr_control *c = NULL;
        mr_error err;

        assert_int_equal(mr_control_new(f->rt, &opts, &c, &err), MR_EINVAL);
        assert_non_null(strstr(err.message, "host:port is wanted"));
    }
}

static void good_addresses_are_taken(void **state)
{
    static const char *const good[] = {"a:1", "grpc://a:1,b:2", "a:1, b:2", "[::1]:5050",
                                       "grpc://a:1,grpc://b:2/"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct mr_control_options opts = {.service = good[i]};
        mr_control *c = NULL;

        assert_int_equal(mr_control_new(f->rt, &opts, &c, NULL), MR_OK);
        mr_control_free(c);
    }
}

/* ---- calls ---- */

static void the_leader_answers(void **state)
{
    struct fixture *f = *state;
    char cluster[MR_NAME_BYTES_MAX + 1];
    char incarnation[MR_INCARNATION_BYTES_MAX + 1];

    connect_to(f, f->a.address, NULL);
    assert_int_equal(mr_control_learned(f->c, NULL, NULL), 0);
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
    assert_string_equal(f->a.last_cluster, "");
    assert_int_equal(mr_control_learned(f->c, cluster, incarnation), 7);
    assert_string_equal(cluster, "default");
    assert_string_equal(incarnation, "first-life");
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
    assert_string_equal(f->a.last_cluster, "default");
    assert_int_equal(f->a.last_epoch, 7);
}

static void redirects_are_followed(void **state)
{
    struct fixture *f = *state;

    connect_to(f, f->b.address, NULL); /* does not even know the leader's address */
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
    assert_int_equal(f->b.calls, 1);
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
    assert_int_equal(f->b.calls, 1); /* and remembered */
    assert_int_equal(f->a.calls, 2);
}

static void definite_errors_come_at_once(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    connect_both(f);
    f->a.refuse = MR_ENOTFOUND;
    assert_int_equal(open_job(f, -1, NULL, &err), MR_ENOTFOUND);
    assert_string_equal(err.message, "as the test says");
    assert_int_equal(f->a.calls, 1);
}

static void uncertain_errors_are_tried_again_until_the_deadline(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    connect_to(f, f->a.address, NULL);
    f->a.refuse = MR_EUNAVAIL;
    f->a.refuse_traits = MR_RETRYABLE | MR_MAYBE_APPLIED;
    for (int64_t ms = 500; calls_of(&f->a) < 2; ms *= 2) { /* one that has time for two attempts */
        mr_mutex_lock(&f->a.lock);
        f->a.calls = 0;
        mr_mutex_unlock(&f->a.lock);
        assert_true(ms < LONG_MS);
        assert_int_equal(open_job(f, ms, NULL, &err), MR_EUNAVAIL);
        assert_true((err.traits & MR_MAYBE_APPLIED) != 0);
        assert_non_null(strstr(err.message, f->a.address));
    }
    mr_mutex_lock(&f->a.lock);
    f->a.refuse = 0;
    mr_mutex_unlock(&f->a.lock);
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
}

static void an_attempt_that_was_cut_short_does_not_hide_why(void **state)
{
    struct fixture *f = *state;
    struct mr_control_options opts = {.service = f->a.address, .attempt_timeout_ms = LONG_MS};
    mr_error err;

    assert_int_equal(mr_control_new(f->rt, &opts, &f->c, NULL), MR_OK);
    for (int64_t ms = 1000; calls_of(&f->a) < 2; ms *= 2) { /* one that has time for two attempts */
        assert_true(ms < LONG_MS);
        mr_mutex_lock(&f->a.lock);
        f->a.refuse = 0;
        f->a.hang_after = 0;
        f->a.role = FAKE_LEADS;
        mr_mutex_unlock(&f->a.lock);
        assert_int_equal(open_job(f, LONG_MS, NULL, NULL),
                         MR_OK); /* whatever was on its way has come */
        mr_mutex_lock(&f->a.lock);
        f->a.refuse = MR_EEXHAUSTED;
        f->a.refuse_traits = MR_RETRYABLE;
        f->a.hang_after = 1;
        f->a.calls = 0;
        mr_mutex_unlock(&f->a.lock);
        assert_int_equal(open_job(f, ms, NULL, &err), MR_EUNAVAIL);
    }
    assert_int_equal(f->a.calls, 2);
    assert_non_null(strstr(err.message, "as the test says"));
}

static void nobody_answers(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    connect_to(f, "127.0.0.1:1,127.0.0.1:2", NULL);
    /* Who is cut short in the middle of an attempt cannot know: then one that is so between two of
     * them. */
    bool maybe = true;
    for (int64_t ms = 300; maybe; ms += 300) {
        assert_true(ms < LONG_MS);
        assert_int_equal(open_job(f, ms, NULL, &err), MR_EUNAVAIL);
        assert_non_null(strstr(err.message, "no dispatcher answers at 127.0.0.1:1,127.0.0.1:2"));
        maybe = (err.traits & MR_MAYBE_APPLIED) != 0;
    }
}

static void a_leader_that_hangs_is_passed_over(void **state)
{
    struct fixture *f = *state;

    connect_both_for(f, 200);
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
    mr_mutex_lock(&f->a.lock);
    f->a.role = FAKE_HANGS;
    mr_mutex_unlock(&f->a.lock);
    mr_mutex_lock(&f->b.lock);
    f->b.role = FAKE_LEADS;
    f->b.epoch = 9;
    mr_mutex_unlock(&f->b.lock);
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
    assert_int_equal(mr_control_learned(f->c, NULL, NULL), 9);
}

/* What is large may take longer than an attempt: each has twice the time of the one before. */
static void what_is_large_is_given_more_time(void **state)
{
    struct fixture *f = *state;
    Millrace__RegisterDatasetRequest req = MILLRACE__REGISTER_DATASET_REQUEST__INIT;
    ProtobufCMessage *reply = NULL;
    static uint8_t definition[40 * MR_KIB];

    req.definition = (ProtobufCBinaryData){sizeof definition, definition};
    connect_for(f, f->a.address, NULL, 100);
    f->a.role = FAKE_HANGS;
    assert_int_equal(mr_control_call(f->c, "RegisterDataset", &req.base,
                                     &millrace__register_dataset_reply__descriptor, 3000, NULL,
                                     &reply, NULL),
                     MR_EUNAVAIL);
    assert_in_range(calls_of(&f->a), 1, 5); /* 100 + 200 + 400 + 800 + 1600 > 3000 */
}

static void a_deposed_leader_is_not_believed(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    connect_to(f, f->a.address, NULL);
    f->a.epoch = 12;
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
    mr_mutex_lock(&f->a.lock);
    f->a.epoch = 11;
    mr_mutex_unlock(&f->a.lock);
    bool told = false;
    for (int64_t ms = 300; !told; ms *= 2) { /* one that has time for an answer */
        assert_true(ms < LONG_MS);
        assert_int_equal(open_job(f, ms, NULL, &err), MR_EUNAVAIL);
        told = strstr(err.message, "deposed") != NULL;
    }
    /* Another incarnation counts anew. */
    mr_mutex_lock(&f->a.lock);
    (void)snprintf(f->a.incarnation, sizeof f->a.incarnation, "second-life");
    f->a.epoch = 3;
    mr_mutex_unlock(&f->a.lock);
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
    assert_int_equal(mr_control_learned(f->c, NULL, NULL), 3);
}

/* The resolver of this test knows a name with two addresses, of which the first has nobody. */
int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **res);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **res);

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **res)
{
    int rc;

    if (strcmp(node, "dispatchers.test") != 0) {
        return __real_getaddrinfo(node, service, hints, res);
    }
    rc = __real_getaddrinfo("127.0.0.2", service, hints, res);
    return rc != 0 ? rc : __real_getaddrinfo("127.0.0.1", service, hints, &(*res)->ai_next);
}

static void all_addresses_of_a_name_are_asked(void **state)
{
    struct fixture *f = *state;
    char service[64];

    (void)snprintf(service, sizeof service, "dispatchers.test%s", strrchr(f->a.address, ':'));
    connect_to(f, service, NULL);
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
    assert_int_equal(mr_control_learned(f->c, NULL, NULL), 7);
}

static void redirects_in_a_circle_end(void **state)
{
    struct fixture *f = *state;

    connect_both(f);
    f->a.role = FAKE_FOLLOWS;
    (void)snprintf(f->a.leader, sizeof f->a.leader, "%s", f->b.address);
    assert_int_equal(open_job(f, 300, NULL, NULL), MR_EUNAVAIL);
    assert_true(f->a.calls + f->b.calls < 60); /* there were pauses */
}

static void another_cluster_is_an_error_that_names_both(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    connect_to(f, f->a.address, "blue");
    assert_int_equal(open_job(f, -1, NULL, &err), MR_EPRECOND);
    assert_non_null(strstr(err.message, "'default'"));
    assert_non_null(strstr(err.message, "'blue'"));
}

/* Each call has a connection of its own; all of a process mean one cluster. */
static void two_clusters_behind_one_list_are_an_error_that_names_both(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    connect_both(f);
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
    mr_control_free(f->c);
    mr_mutex_lock(&f->a.lock);
    f->a.role = FAKE_FOLLOWS;
    (void)snprintf(f->a.leader, sizeof f->a.leader, "%s", f->b.address);
    mr_mutex_unlock(&f->a.lock);
    mr_mutex_lock(&f->b.lock);
    f->b.role = FAKE_LEADS;
    (void)snprintf(f->b.cluster, sizeof f->b.cluster, "the-other");
    (void)snprintf(f->b.incarnation, sizeof f->b.incarnation, "of-the-other");
    mr_mutex_unlock(&f->b.lock);
    connect_both(f);
    assert_int_equal(open_job(f, LONG_MS, NULL, &err), MR_EPRECOND);
    assert_non_null(strstr(err.message, "'default'"));
    assert_non_null(strstr(err.message, "'the-other'"));
    assert_non_null(strstr(err.message, f->a.address));
    assert_non_null(strstr(err.message, f->b.address));
}

/* The one at the same address is its successor, unless the former one is still about. */
static void a_cluster_may_have_a_successor_but_not_come_back(void **state)
{
    static const char *const lives[] = {"first-life", "second-life", "first-life"};
    struct fixture *f = *state;
    mr_error err;

    for (size_t i = 0; i < 3; i++) {
        mr_mutex_lock(&f->a.lock);
        (void)snprintf(f->a.incarnation, sizeof f->a.incarnation, "%s", lives[i]);
        mr_mutex_unlock(&f->a.lock);
        connect_to(f, f->a.address, NULL);
        assert_int_equal(open_job(f, LONG_MS, NULL, &err), i < 2 ? MR_OK : MR_EPRECOND);
        mr_control_free(f->c);
        f->c = NULL;
    }
    assert_non_null(strstr(err.message, "two clusters"));
}

static void *cancel_soon(void *arg)
{
    struct fixture *f = arg;

    mr_mutex_lock(&f->a.lock);
    while (f->a.calls == 0) {
        mr_cond_wait(&f->a.changed, &f->a.lock);
    }
    mr_mutex_unlock(&f->a.lock);
    atomic_store(&f->cancel, true);
    mr_control_wake(f->c);
    return NULL;
}

static void a_waiting_call_can_be_cancelled(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;

    connect_to(f, f->a.address, NULL);
    f->a.role = FAKE_HANGS;
    assert_int_equal(mr_thread_start(&thread, "cancel", cancel_soon, f, NULL), MR_OK);
    assert_int_equal(open_job(f, -1, &f->cancel, NULL), MR_ECANCELED);
    (void)pthread_join(thread, NULL);
}

/* Whoever stops cancels what it waits for, and then says so. */
static void the_leader_is_told_after_a_call_was_cancelled(void **state)
{
    struct fixture *f = *state;
    struct mr_control_options opts = {.service = f->a.address, .attempt_timeout_ms = LONG_MS};
    Millrace__ReleaseClientRequest req = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;
    pthread_t thread;

    assert_int_equal(mr_control_new(f->rt, &opts, &f->c, NULL), MR_OK);
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
    mr_mutex_lock(&f->a.lock);
    f->a.calls = 0;
    f->a.role = FAKE_HANGS;
    mr_mutex_unlock(&f->a.lock);
    assert_int_equal(mr_thread_start(&thread, "cancel", cancel_soon, f, NULL), MR_OK);
    assert_int_equal(open_job(f, -1, &f->cancel, NULL), MR_ECANCELED);
    (void)pthread_join(thread, NULL);
    f->a.role = FAKE_LEADS;
    mr_control_tell(f->c, "ReleaseClient", &req.base, LONG_MS);
    assert_int_equal(f->a.releases, 1);
}

static void tell_does_not_insist(void **state)
{
    struct fixture *f = *state;
    Millrace__ReleaseClientRequest req = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;

    connect_to(f, f->a.address, NULL);
    mr_control_tell(f->c, "ReleaseClient", &req.base, LONG_MS); /* no leader is known */
    assert_int_equal(f->a.calls, 0);
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK);
    mr_control_tell(f->c, "ReleaseClient", &req.base, LONG_MS);
    assert_int_equal(f->a.releases, 1);
    f->a.role = FAKE_HANGS;
    mr_control_tell(f->c, "ReleaseClient", &req.base, 50);
}

/* ---- watches ---- */

static void on_update(void *ctx, const ProtobufCMessage *update)
{
    struct fixture *f = ctx;

    MR_LOCK(&f->lock);
    f->updates++;
    f->epoch = ((const Millrace__ClientUpdate *)update)->header->epoch;
    (void)pthread_cond_broadcast(&f->changed);
}

static void on_refused(void *ctx, const mr_error *err, bool *again)
{
    struct fixture *f = ctx;

    MR_LOCK(&f->lock);
    f->refused = err->code;
    (void)pthread_cond_broadcast(&f->changed);
}

static const struct mr_control_watch_ops watch_ops = {on_update, on_refused};

static bool wait_for(struct fixture *f, unsigned updates, uint64_t epoch)
{
    MR_LOCK(&f->lock);
    while (f->updates < updates || f->epoch < epoch) {
        if (!mr_cond_wait_ms(&f->changed, &f->lock, LONG_MS)) {
            return false;
        }
    }
    return true;
}

static void a_watch_follows_the_leader(void **state)
{
    struct fixture *f = *state;
    Millrace__WatchClientRequest req = MILLRACE__WATCH_CLIENT_REQUEST__INIT;
    mr_control_watch *w = NULL;

    connect_both(f);
    assert_int_equal(mr_control_watch_new(f->c, "WatchClient", &req.base,
                                          &millrace__client_update__descriptor, &watch_ops, f, &w,
                                          NULL),
                     MR_OK);
    assert_true(wait_for(f, 1, 7));
    fake_service_push(&f->a);
    assert_true(wait_for(f, 2, 7));
    /* The leader dies, the other one leads. */
    mr_mutex_lock(&f->b.lock);
    f->b.role = FAKE_LEADS;
    f->b.epoch = 8;
    mr_mutex_unlock(&f->b.lock);
    fake_service_stop(&f->a);
    assert_true(wait_for(f, 3, 8));
    mr_control_watch_free(w);
}

static void a_watch_leaves_a_leader_that_hangs(void **state)
{
    struct fixture *f = *state;
    Millrace__WatchClientRequest req = MILLRACE__WATCH_CLIENT_REQUEST__INIT;
    mr_control_watch *w = NULL;

    connect_both_for(f, 200);
    assert_int_equal(mr_control_watch_new(f->c, "WatchClient", &req.base,
                                          &millrace__client_update__descriptor, &watch_ops, f, &w,
                                          NULL),
                     MR_OK);
    assert_true(wait_for(f, 1, 7));
    mr_mutex_lock(&f->a.lock);
    f->a.role = FAKE_HANGS; /* its stream stays open and silent */
    mr_mutex_unlock(&f->a.lock);
    mr_mutex_lock(&f->b.lock);
    f->b.role = FAKE_LEADS;
    f->b.epoch = 8;
    mr_mutex_unlock(&f->b.lock);
    assert_int_equal(open_job(f, LONG_MS, NULL, NULL), MR_OK); /* hears of epoch 8 */
    assert_true(wait_for(f, 2, 8));
    mr_control_watch_free(w);
}

static void a_refused_watch_rests(void **state)
{
    struct fixture *f = *state;
    Millrace__WatchClientRequest req = MILLRACE__WATCH_CLIENT_REQUEST__INIT;
    mr_control_watch *w = NULL;

    connect_both(f);
    f->a.refuse = MR_ENOTFOUND;
    assert_int_equal(mr_control_watch_new(f->c, "WatchClient", &req.base,
                                          &millrace__client_update__descriptor, &watch_ops, f, &w,
                                          NULL),
                     MR_OK);
    mr_mutex_lock(&f->lock);
    while (f->refused == 0) {
        assert_true(mr_cond_wait_ms(&f->changed, &f->lock, LONG_MS));
    }
    mr_mutex_unlock(&f->lock);
    assert_int_equal(f->refused, MR_ENOTFOUND);
    mr_control_watch_free(w);
    assert_int_equal(f->a.watches, 1);
    assert_int_equal(f->updates, 0);
}

int main(int argc, char **argv)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(bad_addresses_are_named),
        TEST(good_addresses_are_taken),
        TEST(the_leader_answers),
        TEST(redirects_are_followed),
        TEST(definite_errors_come_at_once),
        TEST(uncertain_errors_are_tried_again_until_the_deadline),
        TEST(an_attempt_that_was_cut_short_does_not_hide_why),
        TEST(nobody_answers),
        TEST(a_leader_that_hangs_is_passed_over),
        TEST(what_is_large_is_given_more_time),
        TEST(a_deposed_leader_is_not_believed),
        TEST(all_addresses_of_a_name_are_asked),
        TEST(redirects_in_a_circle_end),
        TEST(another_cluster_is_an_error_that_names_both),
        TEST(two_clusters_behind_one_list_are_an_error_that_names_both),
        TEST(a_cluster_may_have_a_successor_but_not_come_back),
        TEST(a_waiting_call_can_be_cancelled),
        TEST(the_leader_is_told_after_a_call_was_cancelled),
        TEST(tell_does_not_insist),
        TEST(a_watch_follows_the_leader),
        TEST(a_watch_leaves_a_leader_that_hangs),
        TEST(a_refused_watch_rests),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
