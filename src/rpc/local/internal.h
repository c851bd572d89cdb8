/*
 * What the files of this directory share. Nothing outside includes it.
 *
 * One lock guards everything (mr_local.lock), and one thread runs all callbacks, without it.
 * Streams with something to do are in a queue of that thread's, at most once each: nothing is
 * allocated to make something happen.
 */
#pragma once

#include "base/limits.h"
#include "base/shares.h"
#include "base/sync.h"
#include "rpc/first.h"
#include "rpc/port.h"

#include <pthread.h>
#include <stdatomic.h>

/* What waits for a reader that does not ask, besides one message. */
#define MR_LOCAL_WINDOW_BYTES (64 * MR_KIB)
#define MR_LOCAL_HOST "127.0.0.1"

TAILQ_HEAD(mr_local_streams, mr_rpc_stream);
LIST_HEAD(mr_local_servers, mr_rpc_server);

extern struct mr_local {
    pthread_mutex_t lock; /* guards everything below, and all that is made of this transport */
    pthread_cond_t wake;  /* the thread, or whoever waits for the end of something */
    pthread_t thread;
    pid_t pid;                       /* of the process that has it open */
    unsigned users;                  /* of mr_rpc_acquire() */
    bool stopping;                   /* the last one goes */
    unsigned streams;                /* that have not ended */
    int port;                        /* that was given last to a server that takes any */
    unsigned channels;               /* so far, for names */
    bool room;                       /* somebody who waits may be let in */
    int64_t due_ms;                  /* the thread looks at deadlines then, at the latest */
    struct mr_local_streams work;    /* have something to do */
    struct mr_local_streams waiting; /* the client's ends in that state, */
    struct mr_local_streams open;    /* and in that one */
    struct mr_local_servers servers; /* that listen */
} mr_local;

/* One user of the transport: what is killed together. */
struct mr_rpc_runtime {
    unsigned objects; /* channels and servers of it */
    bool killed;
};

struct mr_rpc_channel {
    struct mr_rpc_runtime *rt;
    mr_rpc_credentials *credentials; /* lent */
    struct mr_rpc_token *token;      /* that calls show; NULL: none */
    char host[MR_ADDRESS_BYTES_MAX + 1];
    int port;
    unsigned number;
    unsigned calls; /* not over */
    unsigned open;  /* of these, at the server */
};

struct mr_rpc_server {
    struct mr_rpc_runtime *rt;
    LIST_ENTRY(mr_rpc_server) link;
    struct mr_rpc_limits limits;
    struct mr_rpc_methods methods;
    struct mr_rpc_door door;
    struct mr_rpc_firsts firsts;
    struct mr_shares calls;
    struct mr_local_streams streams; /* the server's ends that have not ended */
    char host[MR_ADDRESS_BYTES_MAX + 1];
    int port; /* 0: does not listen (any more) */
    bool started;
    bool stopping;
};

struct mr_rpc_message {
    TAILQ_ENTRY(mr_rpc_message) link;
    size_t size;
    unsigned char bytes[];
};

struct mr_rpc_credentials {
    struct mr_rpc_token token;
};

/* A message that has not left its sender. */
struct mr_local_parcel {
    size_t n;
    size_t size;
    struct mr_rpc_slice slices[];
};

enum mr_local_state {
    MR_LOCAL_WAITING, /* client: for a server, or for room at it */
    MR_LOCAL_OPEN,
    MR_LOCAL_OVER,  /* how it ends is decided, `ended` is to come */
    MR_LOCAL_ENDED, /* or is running */
};

/* One end of a stream. */
struct mr_rpc_stream {
    enum mr_local_state state;
    unsigned users;
    unsigned refs;              /* the users', and the transport's until `ended` has returned */
    struct mr_rpc_stream *peer; /* NULL: there is none yet, or it is over */
    const struct mr_rpc_stream_ops *ops;
    void *ctx;
    char name[32]; /* of the other side */

    TAILQ_ENTRY(mr_rpc_stream) work;
    bool queued;

    TAILQ_HEAD(, mr_rpc_message) inbox;
    size_t inbox_bytes;
    bool asked;
    bool closing;    /* half close or finish was asked for: after the parcel */
    bool has_status; /* client: the server's, in `end`; it holds when the inbox is empty */
    bool sending;
    struct mr_local_parcel *parcel;
    mr_error end; /* code MR_OK: clean */

    /* the client's end */
    TAILQ_ENTRY(mr_rpc_stream) client;
    struct mr_rpc_channel *channel; /* NULL on the server's side */
    char *path;
    bool wait_for_ready;
    int64_t due_ms;

    /* the server's end */
    TAILQ_ENTRY(mr_rpc_stream) served;
    struct mr_rpc_server *server; /* until it has ended */
    const struct mr_rpc_method *method;
    struct mr_rpc_who who;
    struct mr_share *share;
    struct mr_rpc_first first;
    bool accept_due;
    int finish_code;
    char finish_message[MR_ERROR_MESSAGE_SIZE];
};

/* state.c */
void mr_local_this_is_own_thread(void);
void mr_local_due_locked(int64_t due_ms);               /* the thread looks at deadlines then */
void mr_local_schedule_locked(struct mr_rpc_stream *s); /* the thread looks at @s soon */

/* stream.c */
struct mr_rpc_stream *mr_local_stream_new_locked(mr_error *err);
/* It is over for this end because of @why, and for the other because of @other. */
void mr_local_break_locked(struct mr_rpc_stream *s, const mr_error *why, const mr_error *other);
/* Those that are late end; *@due_ms: no later than the next deadline of the others. */
void mr_local_expire_locked(struct mr_local_streams *clients, int64_t now_ms, int64_t *due_ms);
/* what it has to do; gives the lock up meanwhile */
void mr_local_stream_run_locked(struct mr_rpc_stream *s);

/* server.c */
struct mr_rpc_server *mr_local_server_find_locked(const char *host, int port);
/* Find the server of a client's end that waits, and make the other end. */
void mr_local_connect_locked(struct mr_rpc_stream *client);
void mr_local_server_shut_locked(struct mr_rpc_server *srv); /* it listens no more */
/* All its streams end; for their clients, because of @why. */
void mr_local_server_break_locked(struct mr_rpc_server *srv, const mr_error *why);
