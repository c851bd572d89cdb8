/*
 * What a heartbeat says: how far each task is, and what the cache holds.
 *
 * Threads: any; a snapshot has one owner.
 */
#pragma once

#include "metrics/metrics.h"
#include "millrace/service.pb-c.h"
#include "worker/kinds.h"

struct mr_progress;

/* As it is now. *@ret holds the tasks until mr_progress_free(). No lock is held. */
int mr_progress_new(struct mr_worker *w, struct mr_progress **ret, mr_error *err);
void mr_progress_free(struct mr_progress *p); /* NULL is fine */
MR_AUTO_DEFINE(struct mr_progress, mr_progress_free)
/* All tasks together, as metrics. */
void mr_progress_measure(const struct mr_progress *p, mr_metrics *m);
/* Lends @req what it says of the tasks from number @from on, as many as a request may hold. Returns
 * the first that has to go with another one, or 0: that is all. */
size_t mr_progress_fill(struct mr_progress *p, size_t from, Millrace__WorkerHeartbeatRequest *req);
