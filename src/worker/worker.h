/*
 * A worker: executes the dataset graphs of the tasks that the dispatcher gives it, and serves their
 * elements to clients (/millrace.Worker/Read).
 *
 * Not for: deciding what is to be done (the dispatcher's business), or transforming elements (the
 * engine's).
 *
 * Threads: start, stop and free belong to one thread; mr_worker_address(),
 * mr_worker_wait_registered(), mr_worker_ready() and mr_worker_page() are safe from any thread
 * between start and free.
 */
#ifndef MR_WORKER_WORKER_H
#define MR_WORKER_WORKER_H

#include "metrics/metrics.h"

#include <millrace/base.h>

typedef struct mr_worker mr_worker;

/* Zero or NULL means "the default" in every field but `dispatchers`. Everything is copied. */
struct mr_worker_options {
    const char *dispatchers; /* "host:port[,host:port...]", with or without "grpc://"; required */
    const char *listen;      /* host:port, port 0: any; default "127.0.0.1:0" */
    /* what clients are told; "%port%" is the bound port; default: the listen address, or this
     * host's (mr_rpc_advertise()) */
    const char *advertise;
    const char *const *tags; /* for status and target_workers */
    size_t ntags;
    uint32_t heartbeat_ms; /* default: what the dispatcher says, 1000 before it did */
    /* how long a task waits for splits while no dispatcher answers; default 1 h */
    uint64_t dispatcher_timeout_ms;
    /* of all tasks together, with their buffers and windows in memory; default: half of the
     * memory this process may use */
    uint64_t memory_budget_bytes;
    uint32_t threads;     /* of the engine; default: cores this process may use */
    uint32_t tasks_max;   /* at work at once, with a thread each; default 1024 */
    uint32_t waiting_max; /* streams whose tasks are not here yet; default 4096 */
    /* no room comes free for a definition, and its task fails; default 10 min */
    int64_t definition_wait_ms;
    /* for the windows of shared productions, common to the workers of a machine: each has a
     * directory of its own in it; default: one of this user's in TMPDIR */
    const char *cache_dir;
    uint64_t cache_bytes_max; /* on disk, of all windows and of each; default 10 GiB */
    /* what is not on disk yet; default 1/8 of the machine's, 128 MiB to 2 GiB, and at most a
     * quarter of the budget, of which it is a part */
    uint64_t cache_memory_bytes_max;
    const char *cluster; /* refuse others; default: the first one that answers */
};

/*
 * Start serving. MR_EUNAVAIL if the address is taken, MR_EINVAL names a bad option. Registration
 * goes on in the background and is tried for ever; each failure is logged. *@ret belongs to the
 * caller (mr_worker_free()).
 */
int mr_worker_start(const struct mr_worker_options *opts, mr_worker **ret, mr_error *err);

/* host:port that clients are told; lent until mr_worker_free(). */
const char *mr_worker_address(const mr_worker *w);
/* The port that was bound. */
int mr_worker_port(const mr_worker *w);

/* MR_OK once a dispatcher has accepted the worker, MR_TIMEOUT after @timeout_ms (-1: wait).
 * MR_ECANCELED after stop. */
int mr_worker_wait_registered(mr_worker *w, int64_t timeout_ms, mr_error *err);

/* For monitoring: MR_EUNAVAIL before it is registered, and once it drains. Does not block. */
int mr_worker_ready(mr_worker *w, mr_error *err);
/* Its metrics, without those of the process. *@ret is the caller's. */
int mr_worker_page(mr_worker *w, mr_metrics **ret, mr_error *err);

/*
 * Drain: take on nothing new, give back what was not opened, go on with what was begun. Does not
 * block. For good: what follows is mr_worker_stop().
 */
void mr_worker_drain(mr_worker *w);
enum mr_drain_stage {
    MR_DRAIN_GIVEN_BACK, /* what was not opened is others' */
    /* and clients have read all there was of DYNAMIC tasks: nothing is lost with this worker */
    MR_DRAIN_ENDED,
};
/* Wait until it has come to @stage; false: not within @timeout_ms. Between drain and stop. */
bool mr_worker_wait_drained(mr_worker *w, enum mr_drain_stage stage, int64_t timeout_ms);

/*
 * Stop: no new session is accepted, tasks are cancelled, open streams get up to @grace_ms to send
 * what is ready. Blocks until all threads have ended. Later calls do nothing.
 */
void mr_worker_stop(mr_worker *w, int64_t grace_ms);
/* Stops with no grace if that was not done; NULL is fine. */
void mr_worker_free(mr_worker *w);

#endif
