/*
 * What the files of this directory share. Nothing outside includes it.
 *
 * Threads: grpc_call_start_batch() on one call must not run twice at a time, so every call has a
 * lock that is held around it and around grpc_call_cancel(). It is never held while a callback of
 * the user runs.
 */
#pragma once

#include "base/shares.h"
#include "base/sync.h"
#include "rpc/first.h"
#include "rpc/port.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

#define MR_GRPC_TAG_MAGIC 0x4d525447u

/* What goes through the completion queue as void *: the magic is checked when it comes back. */
struct mr_grpc_tag {
    uint32_t magic;
    void (*fn)(struct mr_grpc_tag *tag, bool ok);
};

static inline void mr_grpc_tag_init(struct mr_grpc_tag *tag,
                                    void (*fn)(struct mr_grpc_tag *tag, bool ok))
{
    tag->magic = MR_GRPC_TAG_MAGIC;
    tag->fn = fn;
}

/* What a server has for the runtime's thread to look at every so often. */
struct mr_grpc_ticker {
    LIST_ENTRY(mr_grpc_ticker) link;
    struct mr_rpc_firsts firsts;
};
#define MR_GRPC_TICK_MS 1000

struct mr_rpc_runtime {
    pid_t pid;
    grpc_completion_queue *cq;
    pthread_t thread;
    atomic_uint events;   /* that it has come back from gRPC with */
    pthread_mutex_t lock; /* guards `calls` */
    pthread_cond_t idle;
    unsigned calls;                      /* of any kind that still use the queue */
    pthread_mutex_t tickers_lock;        /* guards `tickers`; before a call's lock */
    LIST_HEAD(, mr_grpc_ticker) tickers; /* of servers that run */
};

struct mr_rpc_channel {
    struct mr_rpc_runtime *rt;
    grpc_channel *channel;
    mr_rpc_credentials *credentials; /* lent */
    struct mr_rpc_token *token;      /* that calls show; NULL: none */
    /* Only with the poll engine: see channel.c. */
    bool watched;
    struct mr_grpc_tag watch_tag;
    pthread_mutex_t lock;   /* guards `closing` */
    pthread_cond_t changed; /* the state */
    bool closing;
};

/* MR_EPRECOND in a forked child. */
int mr_grpc_check(const struct mr_rpc_runtime *rt, mr_error *err);
bool mr_grpc_inherited(const struct mr_rpc_runtime *rt);
bool mr_grpc_is_forkable(void);
void mr_grpc_call_began(struct mr_rpc_runtime *rt);
void mr_grpc_call_ended(struct mr_rpc_runtime *rt);
gpr_timespec mr_grpc_deadline(int64_t timeout_ms);

#define MR_INT_ARG(name, n)                                                                        \
    {                                                                                              \
        .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)(name), .value = {.integer = (n) }     \
    }

/* A call of @ch, and the first operation of its first batch; mr_grpc_begun() when that started. */
struct mr_grpc_beginning {
    grpc_call *call;
    grpc_op metadata;
    grpc_metadata pairs[MR_RPC_METADATA_MAX + 1]; /* and the token */
};
void mr_grpc_begin(struct mr_rpc_channel *ch, const char *path, const char *const *metadata,
                   int64_t timeout_ms, bool wait_for_ready, struct mr_grpc_beginning *ret);
void mr_grpc_begun(struct mr_grpc_beginning *b);

/* The text behind the first @what in @text; NULL: there is none, or no text. */
const char *mr_grpc_behind(const char *text, const char *what);
/* The number behind @what in what gRPC counts (channelz), which leaves out those that are zero. */
int64_t mr_grpc_number(const char *json, const char *what);

/* A status and its text as code and error; takes nothing. */
int mr_grpc_status_error(grpc_status_code status, grpc_slice details, mr_error *err);

/* @bb as a message of rpc.h, which owns it then. */
static inline mr_rpc_message *mr_grpc_message(grpc_byte_buffer *bb)
{
    return (mr_rpc_message *)(void *)bb;
}

/* The host of a peer as gRPC names it, without its port; all that is on this machine alone is one
 * ("local"), and so is a /64 of IPv6. */
#define MR_GRPC_HOST_SIZE 64
void mr_grpc_host_of(const char *peer, char out[MR_GRPC_HOST_SIZE]);

/* ---- sockets of connections to a port of ours (sockets.c). Any thread. ---- */

#define MR_GRPC_PEER_SIZE 96

/* As gRPC writes an address; an IPv4 address in IPv6's clothes is an IPv4 address. False: it is
 * neither. */
bool mr_grpc_socket_name(const struct sockaddr_storage *at, char out[MR_GRPC_PEER_SIZE]);
/* Of our end; -1: it has none. */
int mr_grpc_socket_port(int fd);
/* Is @fd such a connection? Then its peer, as gRPC names it. */
bool mr_grpc_socket_peer(int fd, int64_t port, char out[MR_GRPC_PEER_SIZE]);
/* @fd as a duplicate, if it is the connection of @peer: gRPC may close its own at any moment, and
 * the number be another connection's, so the duplicate is looked at again. Nothing else is
 * duplicated: closing a duplicate of a locked file (a database has one) gives up the lock. -1:
 * errno says why, 0 if it is none. */
int mr_grpc_socket_hold(int fd, const char *peer, int64_t port);
/* End the connection by connecting it to nothing, since shutdown() would leave megabytes in its
 * buffer to be read. Closes @held. False: errno says why not. */
bool mr_grpc_socket_end(int held);
/* Calls @visit for each connection to @port, in the order of the descriptors; for none without a
 * free descriptor: next time. */
void mr_grpc_socket_each(int64_t port, void (*visit)(void *ctx, int fd, const char *peer),
                         void *ctx);
/* Bytes that @fd has received, as many as the kernel has, read or not. */
uint64_t mr_grpc_socket_received(int fd);

/* ---- how many connections a host may have (connections.c). One thread at a time. ---- */

struct mr_grpc_connection {
    struct mr_share *share; /* NULL: there is none */
    uint64_t inode;
};

struct mr_grpc_connections {
    unsigned max;           /* of all hosts */
    uint64_t descriptors;   /* that the process may have */
    struct mr_shares hosts; /* of all connections */
    struct mr_shares going; /* of those that came since gRPC had been told that there are none */
    struct mr_grpc_connection *all; /* by descriptor */
    size_t cap;
    unsigned came; /* since all were looked at, */
    int64_t looked_ms;
};

void mr_grpc_connections_init(struct mr_grpc_connections *c, unsigned max, uint64_t descriptors);
void mr_grpc_connections_free(struct mr_grpc_connections *c);
/* @fd has been accepted. MR_EEXHAUSTED: it is to be refused; @err says why. */
int mr_grpc_connections_admit(struct mr_grpc_connections *c, int fd, const char *host,
                              int64_t now_ms, mr_error *err);
/* So many were admitted since the last go that they shall be set up before there are more. */
bool mr_grpc_connections_go_is_full(const struct mr_grpc_connections *c);
void mr_grpc_connections_go_over(struct mr_grpc_connections *c);

/* ---- accepting connections, in gRPC's place (accept.c) ---- */

struct mr_grpc_accepts {
    LIST_ENTRY(mr_grpc_accepts) link;
    int port; /* set before it starts */
    bool started;
    struct mr_grpc_connections connections;
    int reserve;         /* a descriptor; -1: there was none left */
    int owed;            /* the listener where some wait that gRPC does not know of; -1: nowhere */
    int64_t owed_ms;     /* since then, */
    bool called;         /* and whether gRPC was called */
    int64_t go_until_ms; /* 0: no go */
    unsigned refused;    /* since it was told, */
    mr_error why;        /* the last */
    int64_t tell_ms;
};

/* From now on gRPC is given no more than @max connections to the port, and no more than
 * @descriptors have room for. Before it listens for any. */
int mr_grpc_accepts_start(struct mr_grpc_accepts *a, unsigned max, uint64_t descriptors,
                          mr_error *err);
/* gRPC listens no more; fine if it never started */
void mr_grpc_accepts_free(struct mr_grpc_accepts *a);
/* every so often; any thread */
void mr_grpc_accepts_look(struct mr_grpc_accepts *a, int64_t now_ms);

/* ---- connections that keep gRPC's thread to themselves (floods.c). One thread. ---- */

struct mr_grpc_received {
    int fd;
    char peer[MR_GRPC_PEER_SIZE];
    uint64_t bytes;
};

struct mr_grpc_floods {
    int port;
    size_t memory_bytes; /* of messages that have not come in whole, all together */
    unsigned events;     /* that the runtime's thread had seen when it was looked at last */
    int64_t since_ms;    /* ... for the first time, */
    int64_t used_ms;     /* and the thread's CPU time then */
    struct mr_grpc_received *received; /* when it was noticed that it is long ago */
    size_t n;
    size_t cap;
};

void mr_grpc_floods_look(struct mr_grpc_floods *f, const struct mr_rpc_runtime *rt, int64_t now_ms);
void mr_grpc_floods_free(struct mr_grpc_floods *f);

/* ---- connections that send much and finish nothing (unfinished.c). One thread. ---- */

struct mr_grpc_sender {
    int fd;
    char peer[MR_GRPC_PEER_SIZE];
    uint64_t base;    /* bytes that had come when it had finished something, as far as is known */
    uint64_t bytes;   /* that have come since */
    int64_t finished; /* how much it had then, as gRPC counts it */
};

struct mr_grpc_unfinished {
    int port;
    size_t memory_bytes; /* of messages that have not come in whole, all together */
    int64_t next_ms;
    struct mr_grpc_sender *senders; /* in the order of their descriptors */
    size_t n;
};

/* @server as gRPC numbers it. */
void mr_grpc_unfinished_look(struct mr_grpc_unfinished *u, intptr_t server, int64_t now_ms);
void mr_grpc_unfinished_free(struct mr_grpc_unfinished *u);

/* ---- connections that take back their calls (resets.c) ---- */

struct mr_grpc_resets {
    intptr_t server; /* gRPC's number of it */
    int64_t calls_max;
    /* which are looked at by the same thread; set before it starts */
    struct mr_grpc_accepts accepts;
    struct mr_grpc_floods floods; /* the same */
    struct mr_grpc_unfinished unfinished;
    const struct mr_rpc_runtime *rt;
    int64_t seen; /* calls of the server when all connections were looked at, or fewer since */
    pthread_t thread;
    bool watching;
    pthread_mutex_t lock; /* guards `stopping` */
    pthread_cond_t stopped;
    bool stopping;
};

/* A server whose connections are watched from mr_grpc_resets_start() to mr_grpc_resets_free(),
 * which is before it is destroyed. */
grpc_server *mr_grpc_resets_server_create(struct mr_grpc_resets *r, const grpc_channel_args *args,
                                          unsigned calls_per_connection);
int mr_grpc_resets_start(struct mr_grpc_resets *r, mr_error *err);
void mr_grpc_resets_free(struct mr_grpc_resets *r);

/* ---- the calls of a server that gRPC still works on (calls.c). Any thread. ---- */

struct mr_grpc_calls {
    struct mr_rpc_runtime *rt;
    struct mr_grpc_ticker ticker; /* of those without a message: the runtime's thread alone */
    pthread_mutex_t lock;         /* guards everything below; after a call's lock */
    pthread_cond_t changed;
    unsigned busy;                /* posted slots and calls */
    bool shut_down;               /* gRPC's notification came */
    struct mr_shares open;        /* those calls, by host */
    struct mr_shares reply_bytes; /* that their callers have not taken yet */
};

void mr_grpc_calls_init(struct mr_grpc_calls *calls, struct mr_rpc_runtime *rt,
                        const struct mr_rpc_limits *limits);
void mr_grpc_calls_free(struct mr_grpc_calls *calls);
void mr_grpc_calls_tick(struct mr_grpc_calls *calls, bool on); /* be looked at every so often */
void mr_grpc_calls_busy(struct mr_grpc_calls *calls, int n);   /* so many more */
/* One more of @host. MR_EEXHAUSTED: it has its share. */
int mr_grpc_calls_take(struct mr_grpc_calls *calls, const char *host, struct mr_share **ret,
                       mr_error *err);
/* One that was busy and had a share has not begun; and: gRPC is through with it. */
void mr_grpc_calls_refused(struct mr_grpc_calls *calls, struct mr_share *share);
void mr_grpc_calls_over(struct mr_grpc_calls *calls, struct mr_share *share);
/* Until none is left after the shutdown; false: not within @timeout_ms (-1: wait). */
bool mr_grpc_calls_wait(struct mr_grpc_calls *calls, int64_t timeout_ms);

/* A new call, which is busy and has @share: owns @call. @method NULL: there is none at @path.
 * @token: as mr_rpc_token_parse() found it; NULL: the call has none. */
void mr_grpc_stream_serve(struct mr_grpc_calls *calls, const struct mr_rpc_door *door,
                          grpc_call *call, struct mr_share *share,
                          const struct mr_rpc_method *method, const char *path, const char *token);

/* ---- credentials.c. NULL credentials: plain text. ---- */

#define MR_GRPC_SPIFFE_SIZE 2049 /* the longest SPIFFE ID that there may be */

const char *mr_grpc_server_name(const struct mr_rpc_credentials *c);
struct mr_rpc_token *mr_grpc_token(struct mr_rpc_credentials *c); /* NULL: there is none */
grpc_channel *mr_grpc_channel_create(const char *address, const struct mr_rpc_credentials *c,
                                     const grpc_channel_args *args);
/* MR_EINVAL: they are not those of a server. */
int mr_grpc_server_credentials(const struct mr_rpc_credentials *c, grpc_server_credentials **ret,
                               mr_error *err);
/* "": there is none, or more than one. */
void mr_grpc_spiffe_of(grpc_call *call, char out[MR_GRPC_SPIFFE_SIZE]);
