/*
 * A server, a channel to it, and what callbacks saw, for tests of rpc.h over any transport.
 *
 * Methods: /t/Echo; /t/Small (the same, of at most 64 bytes); /t/Refuse (MR_ENOTFOUND); /t/Hold
 * (answered by the test: `held`); /t/Stream (sends back what comes, "bye" finishes it, "no" refuses
 * it with MR_EPRECOND); /t/RefuseStream (MR_EPERM); /t/Flood (1 MiB messages, one after the other);
 * /t/Count (RPC_COUNT small ones after the first that comes, and the end).
 */
#pragma once

#include "rpc/rpc.h"

#include <pthread.h>
#include <stdatomic.h>

#define LONG_MS 20000
#define RPC_COUNT 20u

/* What callbacks saw; waited for with seen_until(). */
struct seen {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    unsigned messages;
    size_t bytes;
    unsigned sent;
    unsigned done;
    unsigned ended;
    unsigned released; /* slices; the server's */
    int rc;
    char text[MR_ERROR_MESSAGE_SIZE];
    uint8_t last[64];
};

struct rpc_fixture {
    mr_rpc_runtime *rt;
    mr_rpc_server *srv;
    mr_rpc_channel *ch;
    char address[64];
    struct seen client;
    struct seen server;
    mr_rpc_request *_Atomic held;
    mr_rpc_stream *_Atomic accepted;
};

void seen_init(struct seen *s);
/* Wait for the nth; false: it does not come. */
bool seen_until(struct seen *s, unsigned *counter, unsigned n);
unsigned seen_count(struct seen *s, const unsigned *counter);
void seen_bump(struct seen *s, unsigned *counter);

/* For cmocka: *@state is a struct rpc_fixture. */
int rpc_setup(void **state);
int rpc_teardown(void **state);
void rpc_start_server(struct rpc_fixture *f, const char *address);
void rpc_start_server_with(struct rpc_fixture *f, const char *address,
                           const struct mr_rpc_limits *limits);

/* Messages and the end of a stream go to f->client; it asks for one message after the other. */
extern const struct mr_rpc_stream_ops rpc_client_ops;
mr_rpc_stream *rpc_open_stream(struct rpc_fixture *f, const char *path);
void rpc_send_text(mr_rpc_stream *s, const char *text);
void rpc_call_done(void *ctx, int rc, const void *reply, size_t size, const mr_error *err);
void rpc_count_release(void *ctx); /* f->server.released */
