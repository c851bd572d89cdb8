/*
 * A task: one run of a dataset graph for one iteration, or one reading of a window that several
 * iterations share. Here is what every task has, and the table of functions that a kind of task is.
 * `kinds.h` lists the kinds; each has a file in kinds/, with the fields that are its own.
 *
 * Life: listed (it is in the worker's list) ─► begun (it has a thread) ─► dropped (off the list,
 * cancelled) ─► freed, with the last reference. Its thread ends when the work is done, or soon
 * after it is dropped; nobody waits for that but mr_worker_stop().
 */
#pragma once

#include "worker/internal.h"
#include "worker/split_feed.h"
#include "worker/times.h"

struct mr_worker_task_progress;
struct mr_worker_task_usage;

/* How a kind serves the streams of clients. */
struct mr_worker_task_streams {
    /* Attach @c, whose first message opens: sets c->task (a reference) and c->session. *@replaced:
     * a stream that has to be cut, a reference. worker->lock and task->lock are held. */
    int (*attach_locked)(struct mr_conn *c, struct mr_worker_task *t, mr_rpc_stream **replaced,
                         mr_error *err);
    /* Another message of @c, which is attached, or was. No lock. */
    void (*message)(struct mr_conn *c, const Millrace__ReadRequest *req);
    /* What was sent on @c last has left. task->lock is held. */
    void (*sent_locked)(struct mr_conn *c);
    /* The stream of @c has ended. task->lock is held. */
    void (*detach_locked)(struct mr_conn *c);
    /* Detach any one stream, and return a reference to it; NULL: none is left. task->lock is held.
     * */
    mr_rpc_stream *(*cut_locked)(struct mr_worker_task *t);
    /* Send what can be sent. No lock. */
    void (*pump)(struct mr_worker_task *t);
    /* The dispatcher says that this client is gone. No lock. NULL: it is nothing to it. */
    void (*release_client)(struct mr_worker_task *t, const char *client);
};

/* Which of the worker's locks a slot is called under stands beside it; "no lock" means that it may
 * block. */
struct mr_worker_task_kind {
    const char *name;   /* as metrics show it */
    const char *thread; /* the name of its thread, at most 15 bytes */
    size_t size;        /* of its struct, which begins with struct mr_worker_task */
    enum mr_sent_source source;
    bool has_pipeline; /* under DYNAMIC it asks for splits */
    bool gives_back;   /* ... and gives back what it has not read when the worker drains */
    bool ends;         /* readers bring it to an end, which a worker that drains waits for */
    const struct mr_worker_task_streams *streams; /* NULL: it refuses them all */
    bool on_demand; /* it gets its thread with its first reader; else when it is assigned */

    /* Is a task that is assigned so one of these? */
    bool (*is_its)(const Millrace__TaskAssignment *a);
    /* Make what is its own, by what is assigned; all else is there. After a failure free() is
     * called. No lock. NULL: nothing. */
    int (*init)(struct mr_worker_task *t, mr_error *err);
    /* Free it, also when it is half built. Nobody else has it. NULL: nothing. */
    void (*free)(struct mr_worker_task *t);
    /* Its thread: do the work, report the end, if there is one, and return when it is done or
     * cancelled. No lock. */
    void (*run)(struct mr_worker_task *t);
    /* It is cancelled (`cancelled` was just set, nothing is sent any more): wake what run() may
     * wait in that task->changed does not wake. task->lock is held. NULL: nothing. */
    void (*cancel_locked)(struct mr_worker_task *t);

    /* ---- what the dispatcher says; the watch's thread, no lock; NULL: it is nothing to it ---- */

    void (*assign)(struct mr_worker_task *t,
                   const Millrace__TaskAssignment *a); /* the same task again */
    void (*change_rounds)(struct mr_worker_task *t, const Millrace__RoundAssignment *rounds);
    void (*set_aside)(struct mr_worker_task *t); /* its job was: nobody is to wait for it */

    /* ---- other tasks; NULL: not so ---- */

    /* It has begun, or another task has opened its window: if that is the one that it reads, go
     * there. No lock. */
    void (*find_window)(struct mr_worker_task *t);
    /* It holds others up and has delivered nothing: when its job is set aside it is dropped. No
     * lock. */
    bool (*is_joining)(struct mr_worker_task *t);
    /* It ended because the worker drains. NULL: if its own splits were cut off. No lock. */
    bool (*was_cut)(struct mr_worker_task *t);

    /* ---- for people ---- */

    /* How far it is: all of @ret that is its own. No lock. */
    void (*progress)(struct mr_worker_task *t, struct mr_worker_task_progress *ret);
    /* What it keeps of the memory budget beside its pipeline. task->lock is held. NULL: nothing. */
    void (*usage_locked)(struct mr_worker_task *t, struct mr_worker_task_usage *ret);
};

struct mr_worker_task {
    uint32_t magic;                   /* it comes back as a void * from threads and callbacks */
    TAILQ_ENTRY(mr_worker_task) link; /* worker->lock */
    bool listed;                      /* worker->lock */
    bool begun;                       /* worker->lock: it has, or had, a thread */
    struct mr_share *at_work;         /* worker->lock: while it has */
    _Atomic unsigned refs;
    /* Set when made, then only read. */
    struct mr_worker *worker;
    const struct mr_worker_task_kind *kind;
    Millrace__TaskAssignment *a; /* as it was assigned first */
    char *id;                    /* a->task_id */
    const char *host;            /* of whoever made its iteration, or "unknown" */
    bool dynamic;                /* it has splits from the dispatcher: `feed` */
    bool ends;                   /* and is waited for when the worker drains */
    bool at_least_once;
    uint32_t providers;
    mr_split_feed *feed;
    mr_cpu_share *share; /* of its job, or production */

    atomic_bool ended; /* the dispatcher was told so */
    /* Its job is set aside: nothing is asked for, nothing told, until it is there again. */
    atomic_bool held;
    atomic_bool disowned; /* the dispatcher said that this task is not ours (any more) */
    atomic_bool stop;     /* as `cancelled`, for calls that look at it without the lock */
    /* of elements that its pipeline has left out, as of the last pull */
    _Atomic uint64_t ignored_errors;
    struct mr_worker_task_times times;

    pthread_mutex_t lock;   /* guards what follows, and what a kind's struct says it does */
    pthread_cond_t changed; /* demand, acknowledgements, cancel */
    bool cancelled;
    mr_engine_iter *engine; /* NULL before it was opened and after it was closed */
    /* what it is made of, while it is in use; NULL: not yet, or not any more */
    struct mr_kept_definition *definition;
    uint64_t spec_hash; /* of the elements; set before the first is sent, then only read */
};

#define MR_WORKER_TASK_MAGIC 0x7a5c0a11u

/* Of a callback's or thread's argument. */
static inline struct mr_worker_task *mr_worker_task_of(void *ctx)
{
    struct mr_worker_task *t = ctx;

    MR_ASSERT(t->magic == MR_WORKER_TASK_MAGIC);
    return t;
}

/* ---- life ---- */

/* Make the task of @a, which it has on success, and put it into the list. *@ret is a reference. No
 * lock is held. */
int mr_worker_task_list(struct mr_worker *w, Millrace__TaskAssignment *a,
                        const struct mr_worker_task_kind *kind, struct mr_worker_task **ret,
                        mr_error *err);
/* When all that came with it are in the list: start it; one that is on demand begins with its first
 * session. On failure it is dropped. No lock is held. */
int mr_worker_task_start(struct mr_worker_task *t, mr_error *err);
/* Give it its thread, if it has had none, for @host. MR_EEXHAUSTED: too many have one. worker->lock
 * is held, t->lock may be. */
int mr_worker_task_begin_locked(struct mr_worker_task *t, const char *host, mr_error *err);
/* Take it off the list, break off its work, end its streams. Its thread frees the rest. No lock is
 * held. */
void mr_worker_task_drop(struct mr_worker_task *t);
struct mr_worker_task *mr_worker_task_ref(struct mr_worker_task *t);
void mr_worker_task_unref(struct mr_worker_task *t); /* NULL is fine */
MR_AUTO_DEFINE(struct mr_worker_task, mr_worker_task_unref)
/* In the list, or NULL; lent as long as worker->lock is held, as it is here. */
struct mr_worker_task *mr_worker_task_find_locked(struct mr_worker *w, const char *id);

/* A reference to the task in the list after @last, a reference that it takes (NULL: the first), or
 * NULL. When @last was dropped meanwhile, the first one again. No lock is held. */
struct mr_worker_task *mr_worker_task_next(struct mr_worker *w, struct mr_worker_task *last);

/* Tell the dispatcher, until it answers, that the task has ended with what @req says; who it is is
 * filled in. No lock is held. */
void mr_worker_task_report_end(struct mr_worker_task *t, Millrace__TaskEndedRequest *req);
/* Its job is set aside, or is there again. No lock is held. */
void mr_worker_task_hold(struct mr_worker_task *t, bool held);

/* ---- going on purpose: what is cut off when the worker drains ---- */

/* Its splits are given back when the worker drains, and @are says yes. Any lock may be held. */
bool mr_worker_task_splits(const struct mr_worker_task *t, bool (*are)(const mr_splits *splits));
/* It drains, and its pipeline was never asked for anything: it needs not be asked now. Any lock may
 * be held. */
bool mr_worker_task_has_nothing(const struct mr_worker_task *t);
/* A task has come on, or gone: whoever waits for that looks again. No lock is held. */
void mr_worker_note_progress(struct mr_worker *w);

/* ---- its pipeline (pipeline.c): what the sink is decides the kind of the task ---- */

/* Where the rows of a pipeline go. The task's thread; no lock is held. */
struct mr_sink {
    /* Wait until some are wanted: MR_OK with how many, MR_END if there is no need to ask, or an
     * error. */
    int (*wait)(struct mr_worker_task *t, uint32_t *rows, mr_error *err);
    /* Takes @block in any case. */
    int (*put)(struct mr_worker_task *t, mr_block *block, mr_error *err);
};

/* Open the engine, hand over what it makes, close it: MR_END, or the error that it ended with. */
int mr_pipeline_run(struct mr_worker_task *t, const struct mr_sink *sink, mr_error *err);
/* That error, for whoever looks after the pipeline. */
void mr_pipeline_log_failure(const struct mr_worker_task *t, const mr_error *err);

/* ---- what the kinds say of themselves ---- */

/* A message and what it points to: not to be copied or moved. */
struct mr_worker_task_progress {
    Millrace__TaskProgress base;
    Millrace__JoinAnswer join;
    Millrace__WindowProgress window;
    Millrace__RoundProgress rounds;
    struct mr_times_report *times;    /* NULL: it has not begun */
    char text[MR_ERROR_MESSAGE_SIZE]; /* what `join` or `window` says */
    uint64_t disk_bytes;              /* of its window */
};

struct mr_worker_task_usage {
    uint64_t bytes;
    bool unread;      /* nobody reads it */
    const char *what; /* "job" or "production" */
    const char *name; /* lent as long as the task */
};
