/* The kinds of tasks: one file each in kinds/, reached through its table of functions (task.h). To
 * add one: its file, and its line in the list below. */
#pragma once

#include "worker/chain.h"
#include "worker/task.h"

/* A task is of the first kind whose assignment it is (is_its()). */
#define MR_WORKER_TASK_KINDS(X)                                                                    \
    X(turns)     /* a pipeline, for the consumers of a coordinated job */                          \
    X(producing) /* a pipeline, for a window that others read */                                   \
    X(reading)   /* clients, of such a window */                                                   \
    X(own)       /* all others: a pipeline, for its own clients */

#define X(name) extern const struct mr_worker_task_kind mr_kind_##name;
MR_WORKER_TASK_KINDS(X)
#undef X

enum {
#define X(name) MR_WORKER_TASK_KIND_##name,
    MR_WORKER_TASK_KINDS(X)
#undef X
        MR_WORKER_TASK_KIND_COUNT
};

extern const struct mr_worker_task_kind *const mr_worker_task_kinds[MR_WORKER_TASK_KIND_COUNT];

/* ---- what the reading kind has to know of the producing one ---- */

/* The window of @production on this worker, or NULL. worker->lock is held, and lends it. */
mr_chain *mr_producing_window_locked(struct mr_worker *w, const char *production);
/* Were the splits of @production's pipeline cut off here? No lock is held. */
bool mr_producing_was_cut(struct mr_worker *w, const char *production);
