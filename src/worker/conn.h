/* Read streams as clients open them (stream.h has what tasks know of them). */
#ifndef MR_WORKER_CONN_H
#define MR_WORKER_CONN_H

#include "worker/task.h"

/* The service's accept callback; ctx is the worker. */
void mr_conn_accept(void *ctx, mr_rpc_stream *s);
/* A task has come: give it the connections that wait for it. */
void mr_conn_admit_waiting(struct mr_worker *w, struct mr_worker_task *t);
/* Refuse those that have waited too long (all of them with @now_ms INT64_MAX). Returns when to look
 * again, or -1. */
int64_t mr_conn_expire_waiting(struct mr_worker *w, int64_t now_ms);

#endif
