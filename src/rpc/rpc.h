/*
 * gRPC core without its sharp edges: a runtime (completion queue + thread), channels, unary calls,
 * and streams that are the same object on both sides. Paths are full method names
 * ("/millrace.Dispatcher/Open"). Payloads are bytes.
 *
 * Callbacks run on the runtime's thread: they must not block; they decode and post to whoever owns
 * the state. A status other than OK arrives as a mr_error (mr_code_from_status()).
 *
 * Lifetime: mr_rpc_acquire()/mr_rpc_release() count users; gRPC is initialised by the first and
 * shut down completely by the last (see mr_rpc_keep_forkable()); neither is called from a callback.
 * Everything made between must be freed before release.
 */
#pragma once

#include "base/buf.h"
#include "base/quota.h"

#include <millrace/base.h>
#include <sys/uio.h>

typedef struct mr_rpc_runtime mr_rpc_runtime;
typedef struct mr_rpc_channel mr_rpc_channel;
typedef struct mr_rpc_server mr_rpc_server;
typedef struct mr_rpc_call mr_rpc_call;       /* client side of a unary call */
typedef struct mr_rpc_request mr_rpc_request; /* server side of a unary call */
typedef struct mr_rpc_stream mr_rpc_stream;
typedef struct mr_rpc_message mr_rpc_message; /* received bytes, in slices */

/* One runtime a process: its completion queue and thread. MR_EPRECOND in a child that was forked
 * while it was open. */
int mr_rpc_acquire(mr_rpc_runtime **ret, mr_error *err);
void mr_rpc_release(mr_rpc_runtime *rt);

/* Before the first use of gRPC in the process, mr_rpc_acquire() or whosever: it may fork while
 * nothing is open, and parent and child may both use gRPC afterwards. Takes a poller that suits
 * tens of connections, not thousands: for clients, not for servers. */
void mr_rpc_keep_forkable(void);

/* What to tell others of a server that listens at @listen, with the bound @port: its host, or if
 * that is all of them, the address of this one from which @peers ("host:port", commas; NULL: nobody
 * in particular) or the rest of the world are reached. MR_EINVAL: it has none but the loopback's.
 */
int mr_rpc_advertise(const char *listen, int port, const char *peers, char *out, size_t size,
                     mr_error *err);
/* Is @address one that others can be told? The loopback's is, if it was asked for: all may be on
 * one machine. */
int mr_rpc_check_advertised(const char *address, mr_error *err);

/* ---- received messages ---- */

size_t mr_rpc_message_size(const mr_rpc_message *m);
/* Copy bytes [offset, offset + n) to @dst, once, from the slices. */
void mr_rpc_message_copy(const mr_rpc_message *m, size_t offset, size_t n, void *dst);
void mr_rpc_message_free(mr_rpc_message *m);

/* ---- client: channels and unary calls ---- */

/*
 * What one side proves itself with, and whom it trusts. Files (PEM) are read again when they change,
 * about once a second; connections that are open stay. One object may serve any number of channels
 * and servers, all of which are freed before it.
 */
enum mr_rpc_client_auth {
    MR_RPC_CLIENT_AUTH_OPTIONAL, /* a client may show a certificate, which must be good then */
    MR_RPC_CLIENT_AUTH_NONE,     /* clients are not asked for one */
    MR_RPC_CLIENT_AUTH_REQUIRE,
};
struct mr_rpc_files {
    bool tls; /* false: plain text, and the files of TLS are not looked at */
    /* who may have signed the peer's certificate. NULL: channels trust whom the system trusts,
     * servers ask for no certificate */
    const char *ca;
    /* own certificate, with those between it and its authority. NULL: none is shown, which only
     * channels can do */
    const char *cert;
    const char *key; /* the key to it, not encrypted */
    /* channels: whom the server's certificate must name; NULL: the host of the address */
    const char *server_name;
    enum mr_rpc_client_auth client_auth; /* servers */
    const char *token; /* channels: a bearer token, for mr_rpc_channel_show_token(); NULL: none */
};
typedef struct mr_rpc_credentials mr_rpc_credentials;

/* @files is copied. MR_EINVAL names the file: it cannot be read, is not what it should be, or the
 * key is another certificate's. *@ret NULL-safe: mr_rpc_credentials_free(). */
int mr_rpc_credentials_new(mr_rpc_runtime *rt, const struct mr_rpc_files *files,
                           mr_rpc_credentials **ret, mr_error *err);
void mr_rpc_credentials_free(mr_rpc_credentials *c);

/* @address "host:port", else MR_EINVAL. Does not connect yet; reconnects by itself (0.1 to 0.5 s).
 * @c NULL: plain text. */
int mr_rpc_channel_new(mr_rpc_runtime *rt, const char *address, mr_rpc_credentials *c,
                       mr_rpc_channel **ret, mr_error *err);
/* From now on calls show the token of the credentials, if there is one: whoever takes them can use
 * it. */
void mr_rpc_channel_show_token(mr_rpc_channel *ch);
/* Calls and streams on it must have ended. May wait for a connection attempt that is under way
 * (half a second). */
void mr_rpc_channel_free(mr_rpc_channel *ch);

/* Start a unary call; @done is called exactly once, on the runtime's thread: rc MR_OK with the
 * reply (lent), or < 0. @metadata: NULL-terminated pairs of key and value, or NULL.
 * @wait_for_ready: queue while the peer is not connected, until the deadline. Returns the call for
 * mr_rpc_call_cancel(); it must be released with mr_rpc_call_unref(). */
typedef void mr_rpc_done(void *ctx, int rc, const void *reply, size_t size, const mr_error *err);
int mr_rpc_unary(mr_rpc_channel *ch, const char *path, const void *request, size_t size,
                 const char *const *metadata, int64_t timeout_ms, bool wait_for_ready,
                 mr_rpc_done *done, void *ctx, mr_rpc_call **ret, mr_error *err);
void mr_rpc_call_cancel(mr_rpc_call *call); /* done is still called, with MR_ECANCELED */
void mr_rpc_call_unref(mr_rpc_call *call);

/* ---- streams, both sides ---- */

struct mr_rpc_stream_ops {
    /* A message came; it is the callee's (mr_rpc_message_free()). The next one is received after
     * mr_rpc_stream_receive(). */
    void (*message)(void *ctx, mr_rpc_stream *s, mr_rpc_message *m);
    /* The send that was in flight is done: the next may go. NULL: nobody asks. */
    void (*sent)(void *ctx, mr_rpc_stream *s);
    /* Over: exactly once, after the last other callback. Client: the status the server gave, or the
     * transport's error (MR_OK: clean end). Server: the client is gone (MR_ECANCELED) or the stream
     * was finished (MR_OK). No callback follows. */
    void (*ended)(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err);
};

/* Client: open a bidirectional (or server-streaming) call. timeout_ms -1: none. Reads begin with
 * mr_rpc_stream_receive(). */
int mr_rpc_stream_open(mr_rpc_channel *ch, const char *path, const char *const *metadata,
                       int64_t timeout_ms, bool wait_for_ready, const struct mr_rpc_stream_ops *ops,
                       void *ctx, mr_rpc_stream **ret, mr_error *err);

/* Ask for one more message. At most one may be asked for at a time. Any thread. */
void mr_rpc_stream_receive(mr_rpc_stream *s);

/* Bytes to send in place; @release(@ctx) is called once when gRPC no longer needs them: from any
 * thread, also within mr_rpc_stream_send() and _cancel(), so it takes no lock that is held around
 * those. */
struct mr_rpc_slice {
    const void *data;
    size_t size;
    void (*release)(void *ctx); /* NULL: the bytes are copied now */
    void *ctx;
};
/* Send one message made of these slices. At most one send at a time (until `sent`). Any thread.
 * After the stream ended: MR_ECANCELED, slices released. @more_follows: the next message comes at
 * once (write may be held back for it). */
int mr_rpc_stream_send(mr_rpc_stream *s, const struct mr_rpc_slice *slices, size_t n,
                       bool more_follows, mr_error *err);
/* Client: no more messages from this side, after those sent. */
void mr_rpc_stream_half_close(mr_rpc_stream *s);
/* Server: end the stream with a status (MR_OK or negative), after the message in flight. */
void mr_rpc_stream_finish(mr_rpc_stream *s, int code, const char *message);
/* Either side: break it off now. `ended` follows. Any thread. Dropping the last reference does it
 * too. */
void mr_rpc_stream_cancel(mr_rpc_stream *s);
mr_rpc_stream *mr_rpc_stream_ref(mr_rpc_stream *s);
/* the opener (or the accept callback) owns one reference */
void mr_rpc_stream_unref(mr_rpc_stream *s);
const char *mr_rpc_stream_peer(mr_rpc_stream *s);
/* Server: whose it is, the peer without its port; what is on this machine alone is "local". Lent,
 * within callbacks. */
const char *mr_rpc_stream_host(const mr_rpc_stream *s);
/* Server: lent, as long as the stream. */
const struct mr_rpc_who *mr_rpc_stream_who(const mr_rpc_stream *s);

/* ---- server ---- */

/* What a server takes from its peers and keeps for them, all together if nothing else is said. Zero
 * is the default. */
struct mr_rpc_limits {
    size_t message_bytes; /* the largest message there is; 64 KiB */
    /* of gRPC's for calls and what was received of them: beyond, it ends some of them */
    size_t memory_bytes;
    /* of replies that their callers have not taken, of which each host may have its share */
    size_t reply_bytes;
    unsigned calls; /* open at a time, of which each host may have its share (base/shares.h) */
    /* the same; as many as calls, but at most half of the descriptors that this process may have */
    unsigned connections;
    /* The same, of one connection. One with four times as many, most of them taken back, is
     * ended. */
    unsigned calls_per_connection;
    /* That wait for their first message: with more of them those of the host that has most end. */
    unsigned silent_calls;
    int64_t silent_ms; /* and that wait for longer */
};
/* @limits NULL: the defaults. */
int mr_rpc_server_new(mr_rpc_runtime *rt, const struct mr_rpc_limits *limits, mr_rpc_server **ret,
                      mr_error *err);
/* Before start. @handle runs on the runtime's thread; it or somebody later must call mr_rpc_reply()
 * once. Bytes are lent. A request of more than @bytes_max is refused. */
typedef void mr_rpc_handler(void *ctx, mr_rpc_request *req, const void *bytes, size_t size);
int mr_rpc_server_unary(mr_rpc_server *srv, const char *path, size_t bytes_max,
                        mr_rpc_handler *handle, void *ctx, mr_error *err);
/* As mr_rpc_stream_host(). Within the handler. */
const char *mr_rpc_request_host(const mr_rpc_request *req);
/* As mr_rpc_stream_who(); until mr_rpc_reply(). */
const struct mr_rpc_who *mr_rpc_request_who(const mr_rpc_request *req);
/* The same for large ones, whose bytes become the handler's: it need not look at them on this
 * thread. */
typedef void mr_rpc_bulk_handler(void *ctx, mr_rpc_request *req, mr_rpc_message *m);
int mr_rpc_server_bulk(mr_rpc_server *srv, const char *path, size_t bytes_max,
                       mr_rpc_bulk_handler *handle, void *ctx, mr_error *err);
/* @accept is called for each new stream: it sets the ops and the context (mr_rpc_stream_accept) or
 * refuses (finish). */
typedef void mr_rpc_accept(void *ctx, mr_rpc_stream *s);
int mr_rpc_server_stream(mr_rpc_server *srv, const char *path, mr_rpc_accept *accept, void *ctx,
                         mr_error *err);
void mr_rpc_stream_accept(mr_rpc_stream *s, const struct mr_rpc_stream_ops *ops, void *ctx);
/* @address "host:port" (else MR_EINVAL), port 0: any. *@port is the bound one. @c NULL: plain text.
 * MR_EUNAVAIL: taken (ports are never shared). */
int mr_rpc_server_listen(mr_rpc_server *srv, const char *address, mr_rpc_credentials *c, int *port,
                         mr_error *err);

/* What a caller shows of himself; NULL: nothing. Lent for the callback. */
struct mr_rpc_caller {
    const char *token;  /* of "authorization: Bearer ..." */
    const char *spiffe; /* the SPIFFE ID in his certificate, which was verified */
    const char *host;   /* as mr_rpc_stream_host() */
};
#define MR_RPC_WHO_SIZE 65
/* Who he is, as the guard says; empty without a guard. */
struct mr_rpc_who {
    char name[MR_RPC_WHO_SIZE];
    unsigned rights; /* the guard's business, as is the quota */
    struct mr_quota quota;
};
/* Asked of each call to a method before anybody else sees it; what it refuses ends with its error.
 * Runs on the runtime's thread. Set before start. */
typedef int mr_rpc_guard(void *ctx, const char *path, const struct mr_rpc_caller *caller,
                         struct mr_rpc_who *ret, mr_error *err);
void mr_rpc_server_guard(mr_rpc_server *srv, mr_rpc_guard *guard, void *ctx);
int mr_rpc_server_start(mr_rpc_server *srv, mr_error *err);
/* Nothing new is accepted; open calls are cancelled after @grace_ms. Blocks until all have ended.
 * Not from a callback. */
void mr_rpc_server_stop(mr_rpc_server *srv, int64_t grace_ms);
void mr_rpc_server_free(mr_rpc_server *srv);

/* Answer; any thread, exactly once. code MR_OK: @bytes is the reply (copied); otherwise @message.
 * Frees @req. A host that leaves too much of its replies with the server gets MR_EUNAVAIL instead.
 */
void mr_rpc_reply(mr_rpc_request *req, int code, const char *message, const void *bytes,
                  size_t size);
/* true once the caller has gone. */
bool mr_rpc_request_cancelled(const mr_rpc_request *req);
