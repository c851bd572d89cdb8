/* From the dispatcher's list of what this worker is to do, to tasks. */
#ifndef MR_WORKER_ASSIGNMENTS_H
#define MR_WORKER_ASSIGNMENTS_H

#include "worker/internal.h"

/* Tasks come and go as @update says. The watch's thread; no lock is held. */
void mr_assignments_apply(struct mr_worker *w, const Millrace__WorkerUpdate *update);
/* Drop all tasks. Whoever calls it sees to it that there is no watch. No lock is held. */
void mr_assignments_drop(struct mr_worker *w);

#endif
