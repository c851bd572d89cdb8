/*
 * What the files of this directory share. Nothing outside includes it.
 *
 * Objects: the worker has tasks (one for each that the dispatcher assigned) and connections (one
 * for each open Read stream). A connection belongs to a task once its `open` was accepted.
 *
 * Threads: the link thread registers, watches and heartbeats; each task that has begun has a thread
 * that produces or reads and, under DYNAMIC, one that asks for splits; streams call back on the
 * runtime's thread, productions on the producer's.
 *
 * Locks: worker->lock, then task->lock, then the split feed's or a production's. No lock is held
 * across a call to a dispatcher, a pull from the engine, or a callback.
 */
#ifndef MR_WORKER_INTERNAL_H
#define MR_WORKER_INTERNAL_H

#include "base/identity.h"
#include "base/memory.h"
#include "base/shares.h"
#include "base/sync.h"
#include "engine/engine.h"
#include "millrace/service.pb-c.h"
#include "rpc/rpc.h"
#include "worker/book.h"
#include "worker/chain.h"
#include "worker/definitions.h"
#include "worker/link.h"
#include "worker/report.h"
#include "worker/split_feed.h"
#include "worker/turns.h"
#include "worker/windows.h"
#include "worker/worker.h"

#include <stdatomic.h>
#include <sys/queue.h>

struct mr_worker_task;
struct mr_conn;

/* One life of a worker: it begins with the process, and anew when the cluster that it works for is
 * another one. */
struct mr_life {
    struct mr_life *before; /* kept: whoever reads the id takes no lock */
    struct mr_identity who;
};

/* Where elements that are sent come from. */
enum mr_sent_source { MR_SENT_PIPELINE, MR_SENT_WINDOW, MR_SENT_SOURCES };

/* Counted as it happens, a block or a message at a time. */
struct mr_worker_numbers {
    _Atomic uint64_t made_elements;
    _Atomic uint64_t made_bytes;
    _Atomic uint64_t busy_ns; /* in pulls */
    _Atomic uint64_t skipped;
    struct {
        _Atomic uint64_t elements;
        _Atomic uint64_t bytes;
    } sent[MR_SENT_SOURCES];
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
    mr_memory *memory; /* the budget of all tasks */
    uint32_t threads;
    int port;
    mr_windows *windows;
    mr_definitions *definitions;
    mr_rpc_runtime *rt;
    mr_rpc_server *server;
    struct mr_link *link;
    struct mr_worker_numbers numbers;

    pthread_mutex_t lock;   /* guards everything below */
    pthread_cond_t changed; /* ntasks; while it drains, how far it is */
    TAILQ_HEAD(, mr_worker_task) tasks;
    unsigned ntasks;          /* alive, dropped ones included */
    struct mr_shares at_work; /* of them: with a thread, by the host that has it work */
    TAILQ_HEAD(, mr_conn)
    waiting; /* opened for a task that the dispatcher has not told us of yet */
    struct mr_shares waiting_shares;
    char *cluster;
    char *cluster_incarnation;
    uint64_t epoch; /* highest heard of: a hint for clients */
    bool stopping;
    bool draining;
    uint64_t list_version; /* of the task list that was applied last */
    /* the dispatcher knows that we drain, and we know all tasks it gave us before */
    bool list_is_final;
};

/* Begin another life, with an incarnation of its own. false: no memory. */
bool mr_worker_begin_life(struct mr_worker *w);

/* ---- tasks (task.c) ---- */

#define MR_RELEASED_MAX 256 /* clients of a task that are remembered as gone */
#define MR_RELEASED_ID_SIZE 33

enum mr_worker_task_kind {
    MR_TASK_OWN, /* a pipeline, for its own clients */
    /* a pipeline, for a production that others read; no client is attached to it */
    MR_TASK_PRODUCING,
    MR_TASK_READING, /* clients, of a production */
    MR_TASK_TURNS,   /* a pipeline, for the consumers of a coordinated job */
    MR_TASK_KINDS,
};

struct mr_worker_task {
    TAILQ_ENTRY(mr_worker_task) link; /* worker->lock */
    bool listed;                      /* worker->lock */
    bool begun;                       /* worker->lock: it has, or had, a thread */
    struct mr_share *at_work;         /* worker->lock: while it has */
    _Atomic unsigned refs;
    struct mr_worker *worker;
    /* Set when made, then only read. */
    enum mr_worker_task_kind kind;
    char *id;
    char *iteration;
    char *job;
    char *dataset;
    char *fingerprint; /* its content */
    /* of whoever made its iteration; "unknown": the dispatcher does not know (any more) */
    char *host;
    uint64_t definition_size; /* of the dataset, as it is sent; 0: not known */
    bool dynamic;
    bool at_least_once;
    uint64_t seed;
    uint64_t repetition;
    uint32_t attempt;
    uint32_t providers;
    int64_t *splits;     /* of each provider, as the dispatcher hands them out */
    mr_split_feed *feed; /* DYNAMIC */
    bool ends_by_itself; /* and is waited for when the worker drains */
    atomic_bool ended;   /* the dispatcher was told so */
    /* its job is set aside: nothing is asked for, nothing told, until it is there again */
    atomic_bool held;
    atomic_bool disowned; /* the dispatcher said that this task is not ours (any more) */
    /* producing, worker->lock: NULL before it was opened, and when the task is over */
    mr_chain *made;
    bool window_closed; /* producing, worker->lock: to make room */

    pthread_mutex_t lock;   /* guards everything below */
    pthread_cond_t changed; /* demand, acknowledgements, cancel */
    mr_book *book;
    bool settled; /* the end is being told: what comes back to the book now is nobody's any more */
    /* coordinated: in place of the book; set when made, then only what is in it changes */
    struct mr_turns *turns;
    /* the last clients that the dispatcher said are gone, MR_RELEASED_MAX of them */
    char (*released)[MR_RELEASED_ID_SIZE];
    size_t nreleased;
    mr_engine_iter *engine; /* NULL before it was opened and after it was closed */
    /* what it is made of, while it is in use; NULL: not yet, or not any more */
    struct mr_kept_definition *definition;
    uint64_t spec_hash;
    char *production;        /* its id, or "" */
    mr_chain_reader *reader; /* reading: NULL while there is no production, or when it is over */
    enum mr_cache_lag lag;
    bool over;     /* no reader will be opened any more */
    bool given_up; /* producing: its window is to be closed */
    bool joining;  /* deliver nothing before the dispatcher has decided */
    bool answered; /* ... and what it needs to know is known: `first` or `refused` */
    bool more;     /* the reader has not said that there is nothing yet */
    uint64_t first;
    uint64_t returned; /* as the reader was told */
    /* reading: of the tasks of its iteration that read here before; where it began */
    struct mr_chain_stand before;
    uint64_t skipped; /* by them and by it */
    bool window_gone; /* the window was given up before it could go on there */
    uint64_t read;    /* elements of the production, when it is over */
    char refused[MR_ERROR_MESSAGE_SIZE];
    bool cancelled;
    atomic_bool stop; /* as `cancelled`, for calls that look at it without the lock */
};

/* Make the task of @a and put it into the list. *@ret is a reference. worker->lock is not held. */
int mr_worker_task_list(struct mr_worker *w, const Millrace__TaskAssignment *a,
                        struct mr_worker_task **ret, mr_error *err);
/*
 * When all that came with it are in the list: start it; a task with a pipeline of its own begins
 * with its first session. On failure it is dropped.
 */
int mr_worker_task_start(struct mr_worker_task *t, mr_error *err);
/* Give it its thread, if it has had none, for @host. MR_EEXHAUSTED: too many have one. worker->lock
 * is held, t->lock may be. */
int mr_worker_task_begin_locked(struct mr_worker_task *t, const char *host, mr_error *err);
/* Take it off the list, break off its work, end its streams. Its thread frees the rest. */
void mr_worker_task_drop(struct mr_worker_task *t);
struct mr_worker_task *mr_worker_task_ref(struct mr_worker_task *t);
void mr_worker_task_unref(struct mr_worker_task *t);
/* The job of @t is set aside, or is there again. No lock is held. */
void mr_worker_task_hold(struct mr_worker_task *t, bool held);
/* The book has changed: wake the task's thread if there is something for it to do. t->lock is
 * held. */
void mr_worker_task_changed_locked(struct mr_worker_task *t);
/* Send what can be sent. No lock is held. */
void mr_worker_task_pump(struct mr_worker_task *t);
/* The dispatcher says that @client is gone. */
void mr_worker_task_release_client(struct mr_worker_task *t, const char *client);
/* Has the dispatcher said so? t->lock is held. */
bool mr_worker_task_has_released_locked(const struct mr_worker_task *t, const char *client);
/*
 * The pipeline of @t, or its definition, found no memory: put before @err who else has much of the
 * budget, and what can be done (holder.c). No lock is held.
 */
void mr_worker_task_name_holder(const struct mr_worker_task *t, mr_error *err);

/* ---- which tasks there are (assignments.c) ---- */

/*
 * Tasks come and go as @update says. False, and nothing happened: it follows on one that was
 * missed, so all of the list has to be asked for. The watch's thread; no lock is held.
 */
bool mr_assignments_apply(struct mr_worker *w, const Millrace__WorkerUpdate *update);
/* Drop all tasks. Whoever calls it sees to it that there is no watch. No lock is held. */
void mr_assignments_drop(struct mr_worker *w);

/* ---- going on purpose (drain.c) ---- */

/* Its worker drains from now on. worker->lock may be held, no other. */
void mr_worker_task_drain(struct mr_worker_task *t);
/* Its sources are cut off, or about to be. Any lock may be held. */
bool mr_worker_task_drains(struct mr_worker_task *t);
/* It drains, and its pipeline was never asked for anything: it needs not be asked now. Any lock may
 * be held. */
bool mr_worker_task_has_nothing(struct mr_worker_task *t);
/* Tasks that nobody has come to read have to end: as many of them begin as may. worker->lock is
 * held, no other. */
void mr_drain_begin_locked(struct mr_worker *w);
/* It ended because it drained, or what it read did. No lock is held. */
bool mr_worker_task_was_cut(struct mr_worker_task *t);
/* A task has come on, or gone: whoever waits for the drain looks again. No lock is held. */
void mr_worker_note_progress(struct mr_worker *w);

/* ---- engines (pipeline.c) ---- */

/* Where the rows of a pipeline go. */
struct mr_sink {
    /* Wait until some are wanted: MR_OK with how many, MR_END if there is no need to ask, or an
     * error. */
    int (*wait)(struct mr_worker_task *t, uint32_t *rows, mr_error *err);
    int (*put)(struct mr_worker_task *t, mr_block *block,
               mr_error *err); /* takes @block in any case */
};
/* Open the engine, hand over what it makes, close it: MR_END, or the error that it ended with. */
int mr_pipeline_run(struct mr_worker_task *t, const struct mr_sink *sink, mr_error *err);

/* ---- productions (producing.c, reading.c) ---- */

/* The life of a producing task's thread. */
void mr_producing_run(struct mr_worker_task *t);

/* If @t reads a production that is there, and has no reader yet: open one. No lock is held. */
void mr_reading_attach(struct mr_worker_task *t);
/* The assignment of @t came again, perhaps with another production, or decided. */
void mr_reading_update(struct mr_worker_task *t, const Millrace__TaskAssignment *a);
/* Its job is set aside: nobody is held up by @t, whose clients are not served, before the
 * assignment comes again. */
void mr_reading_set_unread(struct mr_worker_task *t);
/* Read into the book until the production is over: MR_END, or the error that the pipeline ended
 * with. */
int mr_reading_run(struct mr_worker_task *t, mr_error *err);
/* Its cursor follows the book. t->lock is held. */
void mr_reading_note_returned_locked(struct mr_worker_task *t);
/* What of the window it missed, by now; clients are told. No lock is held. */
void mr_reading_note_skipped(struct mr_worker_task *t);
/* It is dropped, or through, and has sent its last: whoever goes on for its iteration begins behind
 * that. t->lock is held. */
void mr_reading_put_down_locked(struct mr_worker_task *t);
/* How many elements of its production, which has those below @end, it was to have by now. t->lock
 * is held. */
uint64_t mr_reading_produced_locked(const struct mr_worker_task *t, uint64_t end);
void mr_reading_close(struct mr_worker_task *t);

/* ---- connections (conn.c) ---- */

/* The service's accept callback; ctx is the worker. */
void mr_conn_accept(void *ctx, mr_rpc_stream *s);
/* A task has come: give it the connections that wait for it. */
void mr_conn_admit_waiting(struct mr_worker *w, struct mr_worker_task *t);
/* Refuse those that have waited too long (all of them with @now_ms INT64_MAX). Returns when to look
 * again, or -1. */
int64_t mr_conn_expire_waiting(struct mr_worker *w, int64_t now_ms);

/* A Read stream. A reference is held by the stream (until `ended`) and by whoever sends on it. */
struct mr_conn {
    TAILQ_ENTRY(mr_conn) link; /* worker->lock, while waiting */
    struct mr_worker *worker;
    mr_rpc_stream *stream;
    _Atomic unsigned refs;
    bool waiting;                 /* worker->lock */
    struct mr_share *share;       /* worker->lock: of its host, while waiting */
    int64_t expires_ms;           /* worker->lock */
    Millrace__ReadRequest *first; /* the message with `open` */
    /* worker->lock until it is set, once; then only read. A reference */
    struct mr_worker_task *task;
    mr_book_session *session; /* task->lock; NULL: not attached (any more) */
    uint32_t consumer;        /* coordinated; set with `task` */
    bool released_before; /* its client was said to be gone before this session; set when opened */
};

void mr_conn_unref(struct mr_conn *c);
/* Send @frame-worthy contents. The caller holds a reference, no lock. A failure ends the stream. */
void mr_conn_send(struct mr_conn *c, const struct mr_book_message *m);
/* The same for elements of rounds. @parts is lent. */
struct mr_conn_rounds {
    Millrace__RoundHeader *header;
    uint64_t session; /* the stream's number */
    uint64_t first;   /* element of the stream */
};
void mr_conn_send_rounds(struct mr_conn *c, const struct mr_conn_rounds *rounds,
                         const struct mr_part *parts, size_t n);

#endif
