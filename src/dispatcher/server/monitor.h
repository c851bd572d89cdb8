/*
 * What the loop has to say of itself and of the cluster: metrics, and whether it is well.
 *
 * Threads: functions that take a mr_loop are for any thread, between the loop's start and its free.
 */
#pragma once

#include "dispatcher/server/call.h"
#include "dispatcher/server/loop.h"
#include "metrics/metrics.h"

/* Counted as things happen. */
struct mr_loop_numbers {
    struct mr_histogram takeover; /* the loop thread's, as is the next one */
    int64_t won_ns; /* the term that is being loaded for the first time; 0: there is none */
    struct mr_method_numbers *methods; /* as many as there are; any thread's */
    _Atomic int64_t turned_ms;         /* the last turn began then */
    _Atomic int64_t store_ms; /* the last answer of the store that was known then; 0: none */
    _Atomic bool stopping;
};

/* A page that is not asked for any more when it is ready is thrown away. */
struct mr_page_request;

/* A page with all that the loop knows, filled on its thread. Waits at most @timeout_ms:
 * MR_EUNAVAIL. *@ret is freed with mr_metrics_free(). */
int mr_loop_page(mr_loop *l, int64_t timeout_ms, mr_metrics **ret, mr_error *err);
/* Does it turn? */
int mr_loop_alive(mr_loop *l, mr_error *err);
/* Does the store answer, and is it not about to stop? Whether it leads is not asked: standbys are
 * ready, too. */
int mr_loop_ready(mr_loop *l, mr_error *err);

/* On the loop thread: fill and answer. @l NULL: there is nothing to tell any more. */
void mr_page_request_answer(struct mr_page_request *r, struct mr_loop *l);
