/*
 * Where the time of a task goes: to its pipeline (by operator, engine/profile.h), or to waiting. A
 * task says what it is at when that changes; a thread of the worker looks at all tasks a hundred
 * times a second, while there are any at work, and adds up.
 *
 * Threads: looking and filling take task->lock, the thread worker->lock before it.
 */
#pragma once

#include "engine/engine.h"
#include "millrace/service.pb-c.h"

#include <pthread.h>
#include <stdatomic.h>

struct mr_worker;
struct mr_worker_task;

enum mr_worker_task_at {
    MR_AT_NOTHING, /* it has not begun */
    MR_AT_PIPELINE,
    MR_AT_CLIENTS, /* waits: clients, or readers of its window, have all that they asked for */
    MR_AT_MEMORY,  /* ... for room in the memory budget */
    MR_AT_WINDOW,  /* ... for the production that it reads */
    MR_AT_COUNT,
};

#define MR_FILE_SYSTEM_BYTES 96

/* What the looks at a task have added up. */
struct mr_worker_times_sum {
    int64_t looked_ns;
    uint64_t ns[MR_AT_COUNT];      /* PIPELINE: of it, outside of the engine */
    struct mr_engine_times engine; /* as of the last report, or the end */
    /* where a file was that it waited for, and the file system: "nfs4 at /data" */
    char directory[MR_ENGINE_TIMES_PATH];
    char file_system[MR_FILE_SYSTEM_BYTES];
};

/* Of a task, and in it. */
struct mr_worker_task_times {
    _Atomic int at;                 /* enum mr_worker_task_at */
    struct mr_worker_times_sum sum; /* task->lock */
};

/* @t is at @at from now on. No lock is needed. */
void mr_worker_task_is_at(struct mr_worker_task *t, enum mr_worker_task_at at);

/* What a heartbeat says of it. */
struct mr_times_report {
    Millrace__TaskTimes base;
    Millrace__OperatorTimes operators[MR_ENGINE_TIMES];
    Millrace__OperatorTimes *pointers[MR_ENGINE_TIMES];
    struct mr_worker_times_sum of;
};

/* *@ret: the caller's, with mr_free(); NULL: it has not begun. No lock is held. */
int mr_worker_task_times_report(struct mr_worker_task *t, struct mr_times_report **ret,
                                mr_error *err);

/* The thread. It is woken by the first task that begins. */
int mr_times_start(struct mr_worker *w, mr_error *err);
/* w->stopping is set, or it has not started. No lock is held. */
void mr_times_stop(struct mr_worker *w);

/* The file system that a file in @directory is on: its type and where it is mounted; "": that is
 * not known. @mounts: a file like /proc/self/mounts. */
void mr_file_system_find(const char *mounts, const char *directory, char out[MR_FILE_SYSTEM_BYTES]);
