/*
 * What the files of this directory share. Nothing outside includes it.
 *
 * Objects: the worker has tasks (task.h; one for each that the dispatcher assigned) and connections
 * (conn.h; one for each open Read stream). A connection belongs to a task once its `open` was
 * accepted.
 *
 * Threads and the order of locks: docs/change/locks.md, "Worker".
 */
#pragma once

#include "base/identity.h"
#include "base/memory.h"
#include "base/shares.h"
#include "base/sync.h"
#include "engine/engine.h"
#include "millrace/service.pb-c.h"
#include "rpc/rpc.h"
#include "worker/definitions.h"
#include "worker/link.h"
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
    _Atomic uint64_t ignored_errors;
    struct {
        _Atomic uint64_t elements;
        _Atomic uint64_t bytes;
    } sent[MR_SENT_SOURCES];
};

#define MR_WORKER_TAGS_MAX 64

struct mr_worker {
    char *_Atomic incarnation; /* of the last life */
    struct mr_life *lives;     /* the link thread's, once it runs */
    /* Set at the start, then only read. */
    char *dispatchers;
    char *address;
    char *tag_list;
    char *tags[MR_WORKER_TAGS_MAX]; /* in it */
    size_t ntags;
    uint64_t dispatcher_timeout_ms;
    mr_memory *memory; /* the budget of all tasks */
    uint32_t threads;
    int port;
    mr_windows *windows;
    mr_definitions *definitions;
    mr_rpc_runtime *rt;
    mr_rpc_credentials *credentials;
    mr_rpc_server *server;
    struct mr_link *link;
    struct mr_worker_numbers numbers;
    pthread_t looker; /* times.c */
    bool looks;

    pthread_mutex_t lock;    /* guards everything below */
    pthread_cond_t changed;  /* ntasks; while it drains, how far it is */
    pthread_cond_t look_due; /* a task has begun, or the worker stops */
    TAILQ_HEAD(, mr_worker_task) tasks;
    unsigned ntasks;          /* alive, dropped ones included */
    struct mr_shares at_work; /* of them: with a thread, by the host that has it work */
    TAILQ_HEAD(, mr_conn)
    waiting; /* opened for a task that the dispatcher has not told us of yet */
    struct mr_shares waiting_shares;
    bool stopping;
    bool draining;
    bool told_to_drain; /* by the dispatcher */
};

/* ---- assignments.c: from the dispatcher's list of what this worker is to do, to tasks ---- */

/* Tasks come and go as @update says. The watch's thread; no lock is held. */
void mr_assignments_apply(struct mr_worker *w, const Millrace__WorkerUpdate *update);
/* Drop all tasks. Whoever calls it sees to it that there is no watch. No lock is held. */
void mr_assignments_drop(struct mr_worker *w);
