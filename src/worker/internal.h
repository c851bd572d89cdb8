/*
 * What the files of this directory share. Nothing outside includes it.
 *
 * Objects: the worker has tasks (one for each that the dispatcher assigned) and connections (one for each open Read
 * stream). A connection belongs to a task once its `open` was accepted.
 *
 * Threads: the link thread registers, watches and heartbeats; each task has a thread that produces and, under DYNAMIC,
 * one that asks for splits; streams call back on the runtime's thread.
 *
 * Locks: worker->lock, then task->lock, then the split feed's. No lock is held across a call to a dispatcher, a pull
 * from the engine, or a callback.
 */
#ifndef MR_WORKER_INTERNAL_H
#define MR_WORKER_INTERNAL_H

#include "base/sync.h"
#include "engine/engine.h"
#include "millrace/service.pb-c.h"
#include "rpc/rpc.h"
#include "worker/book.h"
#include "worker/link.h"
#include "worker/report.h"
#include "worker/split_feed.h"
#include "worker/worker.h"

#include <stdatomic.h>
#include <sys/queue.h>

struct mr_task;
struct mr_conn;

/* One life of a worker: it begins with the process, and anew when the cluster that it works for is another one. */
struct mr_life {
    struct mr_life *before; /* kept: whoever reads the id takes no lock */
    char incarnation[33];
};

struct mr_worker {
    char *_Atomic incarnation; /* of the last life */
    struct mr_life *lives;     /* the link thread's, once it runs */
    /* Set at the start, then only read. */
    char *dispatchers;
    char *address;
    char *cluster_wanted; /* NULL: any */
    char **tags;
    size_t ntags;
    uint32_t heartbeat_ms; /* 0: what the dispatcher says */
    uint64_t dispatcher_timeout_ms;
    uint64_t memory_budget_bytes; /* of each task's engine; 0: the engine's default */
    uint32_t threads;
    int port;
    mr_rpc_runtime *rt;
    mr_rpc_server *server;
    struct mr_link *link;

    pthread_mutex_t lock;   /* guards everything below */
    pthread_cond_t changed; /* ntasks */
    TAILQ_HEAD(, mr_task) tasks;
    unsigned ntasks;               /* alive, dropped ones included */
    TAILQ_HEAD(, mr_conn) waiting; /* opened for a task that the dispatcher has not told us of yet */
    char *cluster;
    char *cluster_incarnation;
    uint64_t epoch; /* highest heard of: a hint for clients */
    bool stopping;
};

/* Begin another life, with an incarnation of its own. false: no memory. */
bool mr_worker_begin_life(struct mr_worker *w);

/* ---- tasks (task.c) ---- */

#define MR_RELEASED_MAX 256 /* clients of a task that are remembered as gone */
#define MR_RELEASED_ID_SIZE 33

struct mr_task {
    TAILQ_ENTRY(mr_task) link; /* worker->lock */
    _Atomic unsigned refs;
    struct mr_worker *worker;
    /* Set when made, then only read. */
    char *id;
    char *iteration;
    char *job;
    char *dataset;
    char *fingerprint; /* its content */
    bool dynamic;
    bool at_least_once;
    uint64_t seed;
    uint64_t repetition;
    uint32_t attempt;
    uint32_t providers;
    int64_t *splits;      /* of each provider, as the dispatcher hands them out */
    mr_split_feed *feed;  /* DYNAMIC */
    atomic_bool disowned; /* the dispatcher said that this task is not ours (any more) */

    pthread_mutex_t lock;   /* guards everything below */
    pthread_cond_t changed; /* demand, acknowledgements, cancel */
    mr_book *book;
    char (*released)[MR_RELEASED_ID_SIZE]; /* the last clients that the dispatcher said are gone, MR_RELEASED_MAX of
                                              them */
    size_t nreleased;
    mr_engine_iter *engine; /* NULL before it was opened and after it was closed */
    uint64_t spec_hash;
    bool cancelled;
    atomic_bool stop; /* as `cancelled`, for calls that look at it without the lock */
};

/* Make and start the task of @a; it is in the list when this returns. worker->lock is not held. */
int mr_task_start(struct mr_worker *w, const Millrace__TaskAssignment *a, mr_error *err);
/* Take it off the list, break off its work, end its streams. Its thread frees the rest. */
void mr_task_drop(struct mr_task *t);
struct mr_task *mr_task_ref(struct mr_task *t);
void mr_task_unref(struct mr_task *t);
/* The book has changed: wake the task's thread if there is something for it to do. t->lock is held. */
void mr_task_changed_locked(struct mr_task *t);
/* Send what can be sent. No lock is held. */
void mr_task_pump(struct mr_task *t);
/* The dispatcher says that @client is gone. */
void mr_task_release_client(struct mr_task *t, const char *client);
/* Has the dispatcher said so? t->lock is held. */
bool mr_task_has_released_locked(const struct mr_task *t, const char *client);

/* ---- connections (conn.c) ---- */

/* The service's accept callback; ctx is the worker. */
void mr_conn_accept(void *ctx, mr_rpc_stream *s);
/* A task has come: give it the connections that wait for it. */
void mr_conn_admit_waiting(struct mr_worker *w, struct mr_task *t);
/* Refuse those that have waited too long (all of them with @now_ms INT64_MAX). Returns when to look again, or -1. */
int64_t mr_conn_expire_waiting(struct mr_worker *w, int64_t now_ms);

/* A Read stream. A reference is held by the stream (until `ended`) and by whoever sends on it. */
struct mr_conn {
    TAILQ_ENTRY(mr_conn) link; /* worker->lock, while waiting */
    struct mr_worker *worker;
    mr_rpc_stream *stream;
    _Atomic unsigned refs;
    bool waiting;                 /* worker->lock */
    int64_t expires_ms;           /* worker->lock */
    Millrace__ReadRequest *first; /* the message with `open` */
    struct mr_task *task;         /* worker->lock until it is set, once; then only read. A reference */
    mr_book_session *session;     /* task->lock; NULL: not attached (any more) */
    bool released_before;         /* its client was said to be gone before this session; set when opened */
};

void mr_conn_unref(struct mr_conn *c);
/* Send @frame-worthy contents. The caller holds a reference, no lock. A failure ends the stream. */
void mr_conn_send(struct mr_conn *c, const struct mr_book_message *m);
/* Say why, then end the stream. No lock is held. */
void mr_conn_refuse(mr_rpc_stream *s, struct mr_worker *w, int code, const char *message);

#endif
