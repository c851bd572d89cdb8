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
#pragma once

#include "metrics/metrics.h"
#include "options/programs.h" /* struct mr_worker_options */

#include <millrace/base.h>

typedef struct mr_worker mr_worker;

/* Start serving. MR_EUNAVAIL if the address is taken, MR_EINVAL names a bad option. Registration
 * goes on in the background and is tried for ever; each failure is logged. *@ret belongs to the
 * caller (mr_worker_free()). */
int mr_worker_start(const struct mr_worker_options *opts, mr_worker **ret, mr_error *err);

/* host:port that clients are told; lent until mr_worker_free(). */
const char *mr_worker_address(const mr_worker *w);
/* The port that was bound. */
int mr_worker_port(const mr_worker *w);

/* MR_OK once a dispatcher has accepted the worker, MR_TIMEOUT after @timeout_ms (-1: wait).
 * MR_ECANCELED after stop. */
int mr_worker_wait_registered(mr_worker *w, int64_t timeout_ms, mr_error *err);
/* Why its last call to a dispatcher was not answered, in @why; false: it was, or none was made. */
bool mr_worker_trouble(mr_worker *w, char *why, size_t size);

/* For monitoring: MR_EUNAVAIL before it is registered, and once it drains. Does not block. */
int mr_worker_ready(mr_worker *w, mr_error *err);
/* Its metrics, without those of the process. *@ret is the caller's. */
int mr_worker_page(mr_worker *w, mr_metrics **ret, mr_error *err);

/* Drain: take on nothing new, give back what was not opened, go on with what was begun. Does not
 * block. For good: what follows is mr_worker_stop(). */
void mr_worker_drain(mr_worker *w);
/* Somebody has told the dispatcher that it is to drain: it has begun to. Does not block. */
bool mr_worker_was_told_to_drain(mr_worker *w);
enum mr_drain_stage {
    MR_DRAIN_GIVEN_BACK, /* what was not opened is others' */
    /* and clients have read all there was of DYNAMIC tasks: nothing is lost with this worker */
    MR_DRAIN_ENDED,
};
/* Wait until it has come to @stage; false: not within @timeout_ms. Between drain and stop. */
bool mr_worker_wait_drained(mr_worker *w, enum mr_drain_stage stage, int64_t timeout_ms);

/* Stop: no new session is accepted, tasks are cancelled, open streams get up to @grace_ms to send
 * what is ready. Blocks until all threads have ended. Later calls do nothing. */
void mr_worker_stop(mr_worker *w, int64_t grace_ms);
/* Stops with no grace if that was not done; NULL is fine. */
void mr_worker_free(mr_worker *w);
