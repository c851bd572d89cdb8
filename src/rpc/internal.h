/*
 * What the files of this directory share. Nothing outside includes it.
 *
 * Threads: grpc_call_start_batch() on one call must not run twice at a time, so every call has a
 * lock that is held around it and around grpc_call_cancel(). It is never held while a callback of
 * the user runs.
 */
#ifndef MR_RPC_INTERNAL_H
#define MR_RPC_INTERNAL_H

#include "base/assert.h"
#include "base/shares.h"
#include "rpc/rpc.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <millrace/base.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

#define MR_RPC_TAG_MAGIC 0x4d525447u

/* What goes through the completion queue as void *: the magic is checked when it comes back. */
struct mr_rpc_tag {
    uint32_t magic;
    void (*fn)(struct mr_rpc_tag *tag, bool ok);
};

#define MR_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void mr_rpc_tag_init(struct mr_rpc_tag *tag,
                                   void (*fn)(struct mr_rpc_tag *tag, bool ok))
{
    tag->magic = MR_RPC_TAG_MAGIC;
    tag->fn = fn;
}

struct mr_rpc_server;

struct mr_rpc_runtime {
    pid_t pid;
    grpc_completion_queue *cq;
    pthread_t thread;
    atomic_uint events; /* that it has come back from gRPC with */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    unsigned calls;                     /* lock: calls of any kind that still use the queue */
    pthread_mutex_t servers_lock;       /* before a call's lock */
    LIST_HEAD(, mr_rpc_server) servers; /* servers_lock: those that run */
};

struct mr_rpc_channel {
    mr_rpc_runtime *rt;
    grpc_channel *channel;
    /* Only with the poll engine: see channel.c. */
    bool watched;
    struct mr_rpc_tag watch_tag;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the state */
    bool closing;           /* lock */
};

struct mr_rpc_message {
    grpc_byte_buffer *bytes;
};

/* MR_EPRECOND in a forked child. */
int mr_rpc_check(const mr_rpc_runtime *rt, mr_error *err);
bool mr_rpc_inherited(const mr_rpc_runtime *rt);
bool mr_rpc_is_forkable(void);
void mr_rpc_call_began(mr_rpc_runtime *rt);
void mr_rpc_call_ended(mr_rpc_runtime *rt);
gpr_timespec mr_rpc_deadline(int64_t timeout_ms);

/* Pairs of strings to gRPC's form; at most MR_RPC_METADATA_MAX pairs. */
#define MR_RPC_METADATA_MAX 8
int mr_rpc_metadata_make(const char *const *pairs, grpc_metadata out[MR_RPC_METADATA_MAX],
                         size_t *n, mr_error *err);
void mr_rpc_metadata_drop(grpc_metadata *md, size_t n);

/* A status and its text as code and error; takes nothing. */
int mr_rpc_status_error(grpc_status_code status, grpc_slice details, mr_error *err);

/* The bytes of @bb in one piece: lent if it is one slice, else copied to *@copy (mr_free()). NULL
 * without memory. */
const void *mr_rpc_bytes_flat(grpc_byte_buffer *bb, size_t *size, void **copy);

/* The host of a peer as gRPC names it, without its port; all that is on this machine alone is one
 * ("local"), and so is a /64 of IPv6. */
#define MR_RPC_HOST_SIZE 64
void mr_rpc_host_of(const char *peer, char out[MR_RPC_HOST_SIZE]);

/* ---- calls that wait for their first message (first.c). The runtime's thread alone. ---- */

struct mr_rpc_first {
    TAILQ_ENTRY(mr_rpc_first) link;
    int64_t until_ms;
    bool waits;
    struct mr_share *waiting; /* of its host, while it waits */
    const char *host;         /* lent while it waits */
    void (*cut)(struct mr_rpc_first *f,
                const char *why); /* end the call; it is off the list by then */
};

struct mr_rpc_firsts {
    TAILQ_HEAD(, mr_rpc_first) list; /* the oldest first */
    struct mr_shares hosts;          /* of those who wait */
    int64_t wait_ms;
};

void mr_rpc_firsts_init(struct mr_rpc_firsts *all, unsigned calls_max, int64_t wait_ms);
void mr_rpc_firsts_free(struct mr_rpc_firsts *all); /* nobody may wait */
void mr_rpc_first_wait(struct mr_rpc_firsts *all, struct mr_rpc_first *f, int64_t now_ms);
void mr_rpc_first_came(struct mr_rpc_firsts *all,
                       struct mr_rpc_first *f); /* or the call is over; may be told twice */
void mr_rpc_firsts_tick(struct mr_rpc_firsts *all, int64_t now_ms);

/* ---- sockets of connections to a port of ours (sockets.c). Any thread. ---- */

#define MR_RPC_PEER_SIZE 96

/* As gRPC writes an address; an IPv4 address in IPv6's clothes is an IPv4 address. False: it is
 * neither. */
bool mr_rpc_socket_name(const struct sockaddr_storage *at, char out[MR_RPC_PEER_SIZE]);
/* Of our end; -1: it has none. */
int mr_rpc_socket_port(int fd);
/* Is @fd such a connection? Then its peer, as gRPC names it. */
bool mr_rpc_socket_peer(int fd, int64_t port, char out[MR_RPC_PEER_SIZE]);
/*
 * @fd as a duplicate, if it is the connection of @peer: gRPC may close its own at any moment, and
 * the number be another connection's, so the duplicate is looked at again. Nothing else is
 * duplicated: closing a duplicate of a locked file (a database has one) gives up the lock. -1:
 * errno says why, 0 if it is none.
 */
int mr_rpc_socket_hold(int fd, const char *peer, int64_t port);
/* End the connection by connecting it to nothing, since shutdown() would leave megabytes in its
 * buffer to be read. Closes @held. False: errno says why not. */
bool mr_rpc_socket_end(int held);

/* ---- how many connections a host may have (connections.c). One thread at a time. ---- */

struct mr_rpc_connection {
    struct mr_share *share; /* NULL: there is none */
    uint64_t inode;
};

struct mr_rpc_connections {
    unsigned max;           /* of all hosts */
    uint64_t descriptors;   /* that the process may have */
    struct mr_shares hosts; /* of all connections */
    struct mr_shares going; /* of those that came since gRPC had been told that there are none */
    struct mr_rpc_connection *all; /* by descriptor */
    size_t cap;
    unsigned came; /* since all were looked at, */
    int64_t looked_ms;
};

void mr_rpc_connections_init(struct mr_rpc_connections *c, unsigned max, uint64_t descriptors);
void mr_rpc_connections_free(struct mr_rpc_connections *c);
/* @fd has been accepted. MR_EEXHAUSTED: it is to be refused; @err says why. */
int mr_rpc_connections_admit(struct mr_rpc_connections *c, int fd, const char *host, int64_t now_ms,
                             mr_error *err);
/* So many were admitted since the last go that they shall be set up before there are more. */
bool mr_rpc_connections_go_is_full(const struct mr_rpc_connections *c);
void mr_rpc_connections_go_over(struct mr_rpc_connections *c);

/* ---- accepting connections, in gRPC's place (accept.c) ---- */

struct mr_rpc_accepts {
    LIST_ENTRY(mr_rpc_accepts) link;
    int port; /* set before it starts */
    bool started;
    struct mr_rpc_connections connections;
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
int mr_rpc_accepts_start(struct mr_rpc_accepts *a, unsigned max, uint64_t descriptors,
                         mr_error *err);
void mr_rpc_accepts_free(
    struct mr_rpc_accepts *a); /* gRPC listens no more; fine if it never started */
void mr_rpc_accepts_look(struct mr_rpc_accepts *a, int64_t now_ms); /* every so often; any thread */

/* ---- connections that keep gRPC's thread to themselves (floods.c). One thread. ---- */

struct mr_rpc_received {
    int fd;
    char peer[MR_RPC_PEER_SIZE];
    uint64_t bytes;
};

struct mr_rpc_floods {
    int port;
    size_t memory_bytes; /* of messages that have not come in whole, all together */
    unsigned events;     /* that the runtime's thread had seen when it was looked at last */
    int64_t since_ms;    /* ... for the first time, */
    int64_t used_ms;     /* and the thread's CPU time then */
    struct mr_rpc_received *received; /* when it was noticed that it is long ago */
    size_t n;
    size_t cap;
};

void mr_rpc_floods_look(struct mr_rpc_floods *f, const mr_rpc_runtime *rt, int64_t now_ms);
void mr_rpc_floods_free(struct mr_rpc_floods *f);

/* ---- connections that take back their calls (resets.c) ---- */

struct mr_rpc_resets {
    intptr_t server; /* gRPC's number of it */
    int64_t calls_max;
    /* which are looked at by the same thread; set before it starts */
    struct mr_rpc_accepts accepts;
    struct mr_rpc_floods floods; /* the same */
    const mr_rpc_runtime *rt;
    int64_t seen; /* calls of the server when all connections were looked at, or fewer since */
    pthread_t thread;
    bool watching;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    bool stopping; /* lock */
};

/* A server whose connections are watched from mr_rpc_resets_start() to mr_rpc_resets_free(), which
 * is before it is destroyed. */
grpc_server *mr_rpc_resets_server_create(struct mr_rpc_resets *r, const grpc_channel_args *args,
                                         unsigned calls_per_connection);
int mr_rpc_resets_start(struct mr_rpc_resets *r, mr_error *err);
void mr_rpc_resets_free(struct mr_rpc_resets *r);

/* Every so often, on the runtime's thread; rt->servers_lock is held. */
#define MR_RPC_TICK_MS 1000
void mr_rpc_servers_tick(mr_rpc_runtime *rt, int64_t now_ms);

/* A new call of a stream method; owns @call. Runs accept. */
void mr_rpc_stream_serve(struct mr_rpc_server *srv, grpc_call *call, struct mr_share *share,
                         mr_rpc_accept *accept, void *ctx);
/* Called once by each call the server made, when gRPC is through with it. @share is given back. */
void mr_rpc_server_call_over(struct mr_rpc_server *srv, struct mr_share *share);
mr_rpc_runtime *mr_rpc_server_runtime(struct mr_rpc_server *srv);
struct mr_rpc_firsts *mr_rpc_server_firsts(struct mr_rpc_server *srv);

#endif
