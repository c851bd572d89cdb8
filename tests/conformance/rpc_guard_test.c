/* Who calls: tokens that channels show, and the guard that a server asks, over both transports. */
#include "rpc/port.h"
#include "tests/support/port.h"
#include "tests/support/rpc.h"
#include "tests/support/unary.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

#define GOOD "c29tZXRoaW5n-._~+/="

struct guarded {
    mr_rpc_runtime *rt;
    mr_rpc_server *srv;
    mr_rpc_credentials *credentials;
    mr_rpc_channel *ch;
    char address[64];
    char token_file[64];
    char who[MR_RPC_WHO_SIZE]; /* as the handler saw it */
    unsigned handled;
};

/* GOOD is alice, who may do everything but /t/Secret; everybody else is nobody. */
static int guard(void *ctx, const char *path, const struct mr_rpc_caller *caller,
                 struct mr_rpc_who *ret, mr_error *err)
{
    assert_non_null(caller->host);
    assert_null(caller->spiffe);
    if (caller->token == NULL || strcmp(caller->token, GOOD) != 0) {
        return mr_error_set(err, MR_EUNAUTH, "who is '%s'?",
                            caller->token != NULL ? caller->token : "(nobody)");
    }
    (void)snprintf(ret->name, sizeof ret->name, "alice");
    ret->rights = 5;
    return strcmp(path, "/t/Secret") != 0 ? MR_OK
                                          : mr_error_set(err, MR_EPERM, "not for '%s'", ret->name);
}

static void who(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    struct guarded *g = ctx;
    const struct mr_rpc_who *w = mr_rpc_request_who(req);

    assert_int_equal(w->rights, 5);
    memcpy(g->who, w->name, sizeof g->who);
    g->handled++;
    mr_rpc_reply(req, MR_OK, NULL, bytes, size);
}

static void accept_who(void *ctx, mr_rpc_stream *s)
{
    struct guarded *g = ctx;

    memcpy(g->who, mr_rpc_stream_who(s)->name, sizeof g->who);
    g->handled++;
    mr_rpc_stream_finish(s, MR_EABORTED, "as it is meant to");
    mr_rpc_stream_unref(s);
}

static void write_token(const struct guarded *g, const char *text)
{
    char next[80];

    (void)snprintf(next, sizeof next, "%s.next", g->token_file);
    FILE *f = fopen(next, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(next, g->token_file), 0);
}

static int setup(void **state)
{
    struct guarded *g = calloc(1, sizeof *g);

    (void)snprintf(g->token_file, sizeof g->token_file, "/tmp/mr-token-XXXXXX");
    int fd = mkstemp(g->token_file);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(mr_rpc_acquire(&g->rt, NULL), MR_OK);
    (void)snprintf(g->address, sizeof g->address, "127.0.0.1:%d", mr_test_port());
    assert_int_equal(mr_rpc_server_new(g->rt, NULL, &g->srv, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_unary(g->srv, "/t/Who", 64, who, g, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_unary(g->srv, "/t/Secret", 64, who, g, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_stream(g->srv, "/t/Stream", accept_who, g, NULL), MR_OK);
    mr_rpc_server_guard(g->srv, guard, g);
    assert_int_equal(mr_rpc_server_listen(g->srv, g->address, NULL, NULL, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_start(g->srv, NULL), MR_OK);
    *state = g;
    return 0;
}

static int teardown(void **state)
{
    struct guarded *g = *state;

    mr_rpc_channel_free(g->ch);
    mr_rpc_server_free(g->srv);
    mr_rpc_credentials_free(g->credentials);
    mr_rpc_release(g->rt);
    (void)unlink(g->token_file);
    free(g);
    return 0;
}

/* A channel that shows the token in the file, if @shows. */
static void connect_with(struct guarded *g, const char *token, bool shows)
{
    const struct mr_rpc_files files = {.token = g->token_file};

    write_token(g, token);
    assert_int_equal(mr_rpc_credentials_new(g->rt, &files, &g->credentials, NULL), MR_OK);
    assert_int_equal(mr_rpc_channel_new(g->rt, g->address, g->credentials, &g->ch, NULL), MR_OK);
    if (shows) {
        mr_rpc_channel_show_token(g->ch);
    }
}

static int call(struct guarded *g, const char *path, mr_error *err)
{
    void *reply = NULL;
    size_t n = 0;
    int rc = mr_rpc_unary_wait(g->ch, path, "x", 1, NULL, LONG_MS, true, &reply, &n, err);

    mr_free(reply);
    return rc;
}

static void a_token_is_shown_and_named(void **state)
{
    struct guarded *g = *state;

    connect_with(g, GOOD "\n", true);
    assert_int_equal(call(g, "/t/Who", NULL), MR_OK);
    assert_string_equal(g->who, "alice");
}

static void nobody_gets_in_without(void **state)
{
    struct guarded *g = *state;
    mr_error err;

    connect_with(g, GOOD, false);
    assert_int_equal(call(g, "/t/Who", &err), MR_EUNAUTH);
    assert_string_equal(err.message, "who is '(nobody)'?");
    assert_int_equal(g->handled, 0);
}

static void another_token_is_refused(void **state)
{
    struct guarded *g = *state;
    mr_error err;

    connect_with(g, "another", true);
    assert_int_equal(call(g, "/t/Who", &err), MR_EUNAUTH);
    assert_string_equal(err.message, "who is 'another'?");
    assert_int_equal(g->handled, 0);
}

/* What is shown and is no token is not as if nothing was shown, and two are nobody's. Metadata is
 * gRPC's alone. */
static void what_is_shown_and_is_no_token_is_nobodys(void **state)
{
    struct guarded *g = *state;
    const char *two[] = {"authorization", "Bearer " GOOD, NULL};
    const char *none[] = {"authorization", "Basic " GOOD, NULL};
    void *reply = NULL;
    size_t n = 0;
    mr_error err;

    if (strcmp(mr_rpc_transport, "grpc") != 0) {
        skip();
    }
    connect_with(g, GOOD, true);
    assert_int_equal(
        mr_rpc_unary_wait(g->ch, "/t/Who", "x", 1, two, LONG_MS, true, &reply, &n, &err),
        MR_EUNAUTH);
    assert_string_equal(err.message, "who is ''?");
    mr_rpc_channel_free(g->ch);
    mr_rpc_credentials_free(g->credentials);
    connect_with(g, GOOD, false);
    assert_int_equal(
        mr_rpc_unary_wait(g->ch, "/t/Who", "x", 1, none, LONG_MS, true, &reply, &n, &err),
        MR_EUNAUTH);
    assert_string_equal(err.message, "who is ''?");
    assert_int_equal(
        mr_rpc_unary_wait(g->ch, "/t/Who", "x", 1, two, LONG_MS, true, &reply, &n, &err), MR_OK);
    mr_free(reply);
}

static void a_method_may_be_for_others(void **state)
{
    struct guarded *g = *state;
    mr_error err;

    connect_with(g, GOOD, true);
    assert_int_equal(call(g, "/t/Secret", &err), MR_EPERM);
    assert_string_equal(err.message, "not for 'alice'");
    assert_int_equal(g->handled, 0);
    assert_int_equal(call(g, "/t/Nothing", &err), MR_EUNIMPL);
}

static void a_token_that_changes_is_read_again(void **state)
{
    struct guarded *g = *state;
    mr_error err;

    connect_with(g, "another", true);
    assert_int_equal(call(g, "/t/Who", &err), MR_EUNAUTH);
    write_token(g, GOOD);
    while (call(g, "/t/Who", &err) != MR_OK) { /* it looks about once a second */
        assert_int_equal(err.code, MR_EUNAUTH);
    }
    write_token(g, "no token\x01");
    assert_int_equal(call(g, "/t/Who", &err), MR_OK); /* the one that was */
}

struct over {
    int rc;
    mr_error err;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool ended;
};

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct over *o = ctx;

    (void)pthread_mutex_lock(&o->lock);
    o->rc = rc;
    o->err = *err;
    o->ended = true;
    (void)pthread_cond_broadcast(&o->cond);
    (void)pthread_mutex_unlock(&o->lock);
}

static int stream(struct guarded *g, struct over *o)
{
    static const struct mr_rpc_stream_ops ops = {.ended = on_ended};
    mr_rpc_stream *s = NULL;

    *o = (struct over){.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    assert_int_equal(mr_rpc_stream_open(g->ch, "/t/Stream", NULL, LONG_MS, true, &ops, o, &s, NULL),
                     MR_OK);
    (void)pthread_mutex_lock(&o->lock);
    while (!o->ended) {
        (void)pthread_cond_wait(&o->cond, &o->lock);
    }
    (void)pthread_mutex_unlock(&o->lock);
    mr_rpc_stream_unref(s);
    return o->rc;
}

static void streams_are_asked_too(void **state)
{
    struct guarded *g = *state;
    struct over o;

    connect_with(g, GOOD, true);
    assert_int_equal(stream(g, &o), MR_EABORTED); /* the handler's */
    assert_string_equal(g->who, "alice");
    mr_rpc_channel_free(g->ch);
    mr_rpc_credentials_free(g->credentials);
    connect_with(g, "another", true);
    assert_int_equal(stream(g, &o), MR_EUNAUTH);
    assert_string_equal(o.err.message, "who is 'another'?");
    assert_int_equal(g->handled, 1);
}

static void what_is_no_token_is_an_error(void **state)
{
    struct guarded *g = *state;
    const struct mr_rpc_files files = {.token = g->token_file};
    const struct mr_rpc_files none = {.token = "/nonexistent/token"};
    const char *wrong[] = {"", "\n", " spaces first", "two\x01", "\xff"};
    mr_error err;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_token(g, wrong[i]);
        assert_int_equal(mr_rpc_credentials_new(g->rt, &files, &g->credentials, &err), MR_EINVAL);
        assert_non_null(strstr(err.message, g->token_file));
    }
    assert_int_equal(mr_rpc_credentials_new(g->rt, &none, &g->credentials, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "/nonexistent/token"));
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_token_is_shown_and_named),
        TEST(nobody_gets_in_without),
        TEST(another_token_is_refused),
        TEST(a_method_may_be_for_others),
        TEST(what_is_shown_and_is_no_token_is_nobodys),
        TEST(a_token_that_changes_is_read_again),
        TEST(streams_are_asked_too),
        TEST(what_is_no_token_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
