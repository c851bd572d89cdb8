/*
 * What a heartbeat says: how far each task is, and what the cache holds.
 *
 * Threads: one at a time.
 */
#ifndef MR_WORKER_PROGRESS_H
#define MR_WORKER_PROGRESS_H

#include "millrace/service.pb-c.h"

#include <millrace/base.h>

struct mr_worker;
struct mr_progress;

/* As it is now. *@ret holds the tasks until mr_progress_free(). No lock is held. */
int mr_progress_new(struct mr_worker *w, struct mr_progress **ret, mr_error *err);
void mr_progress_free(struct mr_progress *p); /* NULL is fine */
/* Lends @req what it says. */
void mr_progress_fill(struct mr_progress *p, Millrace__WorkerHeartbeatRequest *req);

#endif
