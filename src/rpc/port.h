/*
 * The port below rpc.h: what a transport does. Two adapters, grpc/ and local/, held together by
 * one conformance suite (tests/conformance/rpc_test.c). rpc.c passes each call of rpc.h on to the
 * transport of its object.
 *
 * What rpc.h promises its callers is what a slot keeps; the comments here say only what an adapter
 * must know besides. Every object begins with its transport: an adapter embeds the head as the
 * first member of its own struct, and checks a magic when it casts back. Errors of the outside
 * (statuses, errno) become mr_error within the adapter.
 *
 * Callbacks of users (done, message, sent, ended, accept, handle) run on one thread of the
 * adapter's, one at a time, and never while the adapter holds a lock: all slots but `release`,
 * `server_stop` and `server_free` may be called from them.
 */
#ifndef MR_RPC_PORT_H
#define MR_RPC_PORT_H

#include "base/assert.h"
#include "base/limits.h"
#include "rpc/rpc.h"

/* The largest message that a client takes: one element and its header. */
#define MR_RPC_REPLY_BYTES_MAX ((size_t)(MR_ELEMENT_BYTES_MAX + 16 * MR_MIB))
#define MR_RPC_METADATA_MAX 8

/* A method of a server: exactly one of the three functions is set. */
struct mr_rpc_method {
    const char *path;
    size_t bytes_max; /* of a request: a larger one is answered with MR_EINVAL; not of streams */
    mr_rpc_handler *handle;
    mr_rpc_bulk_handler *handle_bulk;
    mr_rpc_accept *accept;
    void *ctx;
};

struct mr_rpc_transport {
    const char *name;

    /* ---- the process ---- */

    /* Counts users: the first starts the thread, the last ends it when nothing is open. */
    int (*acquire)(const struct mr_rpc_transport *self, mr_rpc_runtime **ret, mr_error *err);
    void (*release)(mr_rpc_runtime *rt); /* blocks; after a fork it does nothing in the child */
    void (*keep_forkable)(void);         /* may come before the first acquire */
    bool (*is_own_thread)(void);         /* is this the thread of the callbacks? */

    /* ---- messages: any thread; they may outlive all but the runtime ---- */

    size_t (*message_size)(const mr_rpc_message *m);
    /* Outside of the message: asserted. */
    void (*message_copy)(const mr_rpc_message *m, size_t offset, size_t n, void *dst);
    void (*message_free)(mr_rpc_message *m);

    /* ---- the client's side: any thread ---- */

    /* Does not block. */
    int (*channel_new)(mr_rpc_runtime *rt, const char *address /* valid */,
                       const struct mr_rpc_tls *tls, mr_rpc_channel **ret, mr_error *err);
    void (*channel_free)(mr_rpc_channel *ch); /* may block for a connection attempt */
    /* @metadata: at most MR_RPC_METADATA_MAX pairs with legal keys, copied. */
    int (*unary)(mr_rpc_channel *ch, const char *path, const void *request /* copied */,
                 size_t size, const char *const *metadata, int64_t timeout_ms, bool wait_for_ready,
                 mr_rpc_done *done, void *ctx, mr_rpc_call **ret, mr_error *err);
    void (*call_cancel)(mr_rpc_call *call); /* does nothing once it is over */
    void (*call_unref)(mr_rpc_call *call);
    /* *@ret is set before any callback may run. */
    int (*stream_open)(mr_rpc_channel *ch, const char *path, const char *const *metadata,
                       int64_t timeout_ms, bool wait_for_ready, const struct mr_rpc_stream_ops *ops,
                       void *ctx, mr_rpc_stream **ret, mr_error *err);

    /*
     * ---- streams, both sides: any thread; none blocks ----
     *
     * At most a window of bytes and one message are kept for a reader that does not ask: then
     * `sent` waits. A status MR_OK waits for all messages before it to be asked for; any other may
     * overtake them. A stream is the adapter's, too, until `ended` has returned.
     */
    void (*stream_receive)(mr_rpc_stream *s);
    /* Slices are released exactly once whatever is returned, also by this call itself. */
    int (*stream_send)(mr_rpc_stream *s, const struct mr_rpc_slice *slices, size_t n,
                       bool more_follows, mr_error *err);
    void (*stream_half_close)(mr_rpc_stream *s);
    void (*stream_finish)(mr_rpc_stream *s, int code, const char *message); /* @message is copied */
    void (*stream_cancel)(mr_rpc_stream *s);
    mr_rpc_stream *(*stream_ref)(mr_rpc_stream *s);
    void (*stream_unref)(mr_rpc_stream *s); /* the last one cancels, except what was finished */
    const char *(*stream_peer)(const mr_rpc_stream *s);
    const char *(*stream_host)(const mr_rpc_stream *s);
    void (*stream_accept)(mr_rpc_stream *s, const struct mr_rpc_stream_ops *ops, void *ctx);

    /* ---- the server's side: new, method, listen and start are one thread's ---- */

    /* @limits: all are set, but that `connections` may be 0. */
    int (*server_new)(mr_rpc_runtime *rt, const struct mr_rpc_limits *limits, mr_rpc_server **ret,
                      mr_error *err);
    int (*server_method)(mr_rpc_server *srv, const struct mr_rpc_method *method /* copied */,
                         mr_error *err);
    int (*server_listen)(mr_rpc_server *srv, const char *address /* valid */, int *port,
                         mr_error *err);
    int (*server_start)(mr_rpc_server *srv, mr_error *err);
    /* Blocks until `ended` of every stream has returned. */
    void (*server_stop)(mr_rpc_server *srv, int64_t grace_ms);
    void (*server_free)(mr_rpc_server *srv); /* stops without grace */

    /* A request is the answerer's until `reply`, also when its caller or the server is gone. */
    void (*reply)(mr_rpc_request *req, int code, const char *message,
                  const void *bytes /* copied */, size_t size);
    bool (*request_cancelled)(const mr_rpc_request *req);
    const char *(*request_host)(const mr_rpc_request *req);
};

struct mr_rpc_runtime {
    const struct mr_rpc_transport *transport;
};

struct mr_rpc_channel {
    const struct mr_rpc_transport *transport;
};

struct mr_rpc_server {
    const struct mr_rpc_transport *transport;
};

struct mr_rpc_call {
    const struct mr_rpc_transport *transport;
};

struct mr_rpc_request {
    const struct mr_rpc_transport *transport;
};

struct mr_rpc_stream {
    const struct mr_rpc_transport *transport;
};

struct mr_rpc_message {
    const struct mr_rpc_transport *transport;
};

extern const struct mr_rpc_transport mr_rpc_grpc;  /* library mr_rpc_grpc */
extern const struct mr_rpc_transport mr_rpc_local; /* library mr_rpc_local: see local/local.h */
/* The transport of this program: each of the two libraries has one, and a program links one. */
extern const struct mr_rpc_transport *const mr_rpc_linked;

/* ---- for adapters ---- */

/*
 * Every slot, for MR_RPC_DECLARE and MR_RPC_FILL: functions of one prefix, and the table of
 * them.
 */
#define MR_RPC_SLOTS(X, prefix)                                                                    \
    X(prefix, acquire)                                                                             \
    X(prefix, release)                                                                             \
    X(prefix, keep_forkable)                                                                       \
    X(prefix, is_own_thread)                                                                       \
    X(prefix, message_size)                                                                        \
    X(prefix, message_copy)                                                                        \
    X(prefix, message_free)                                                                        \
    X(prefix, channel_new)                                                                         \
    X(prefix, channel_free)                                                                        \
    X(prefix, unary)                                                                               \
    X(prefix, call_cancel)                                                                         \
    X(prefix, call_unref)                                                                          \
    X(prefix, stream_open)                                                                         \
    X(prefix, stream_receive)                                                                      \
    X(prefix, stream_send)                                                                         \
    X(prefix, stream_half_close)                                                                   \
    X(prefix, stream_finish)                                                                       \
    X(prefix, stream_cancel)                                                                       \
    X(prefix, stream_ref)                                                                          \
    X(prefix, stream_unref)                                                                        \
    X(prefix, stream_peer)                                                                         \
    X(prefix, stream_host)                                                                         \
    X(prefix, stream_accept)                                                                       \
    X(prefix, server_new)                                                                          \
    X(prefix, server_method)                                                                       \
    X(prefix, server_listen)                                                                       \
    X(prefix, server_start)                                                                        \
    X(prefix, server_stop)                                                                         \
    X(prefix, server_free)                                                                         \
    X(prefix, reply)                                                                               \
    X(prefix, request_cancelled)                                                                   \
    X(prefix, request_host)
#define MR_RPC_DECLARE(prefix, slot)                                                               \
    __typeof__(*((const struct mr_rpc_transport *)NULL)->slot) prefix##slot;
#define MR_RPC_FILL(prefix, slot) .slot = prefix##slot,

#define MR_RPC_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* The adapter's object that begins with @head: a struct with a member `magic`, which is @kind. */
#define MR_RPC_OF(head, type, kind) ((type *)mr_rpc_checked((head), offsetof(type, magic), (kind)))

static inline void *mr_rpc_checked(const void *object, size_t at, uint32_t kind)
{
    MR_ASSERT(*(const uint32_t *)(const void *)((const char *)object + at) == kind);
    return (void *)(uintptr_t)object;
}

/* The methods of a server (methods.c). Filled before it starts, afterwards only read. */
#define MR_RPC_METHODS_MAX 32
struct mr_rpc_methods {
    struct mr_rpc_method all[MR_RPC_METHODS_MAX]; /* paths are owned */
    size_t n;
};
int mr_rpc_methods_add(struct mr_rpc_methods *methods, const struct mr_rpc_method *method,
                       mr_error *err);
const struct mr_rpc_method *mr_rpc_methods_find(const struct mr_rpc_methods *methods,
                                                const char *path);
void mr_rpc_methods_free(struct mr_rpc_methods *methods);

/* What a server answers to a method that it does not have, and to a request that is too large. */
int mr_rpc_no_method(const char *path, mr_error *err);
int mr_rpc_too_large(const struct mr_rpc_method *method, size_t size, mr_error *err);

#endif
