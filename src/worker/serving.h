/*
 * What the kinds have in common whose readers take elements first come, first served (own,
 * reading): a book (session/book.h), the streams of its sessions, and the way to the end.
 *
 * Happy path: the kind puts rows into the book, as far ahead as credits ask for; at their end wait
 * until all elements arrived at clients, then tell the dispatcher, once, until it answers.
 *
 * Failures: an error of the pipeline is the task's end too, with a code: readers get it after the
 * rows before it, the dispatcher when those have arrived. A dispatcher that is away is waited for
 * (splits at hand are used up meanwhile).
 */
#pragma once

#include "worker/session/book.h"
#include "worker/task.h"

struct mr_serving {
    struct mr_worker_task task;
    /* task.lock guards all of it. */
    mr_book *book;
    /* The end is being reported: what comes back to the book now is nobody's any more. */
    bool ending;
    /* Elements that it could not have, nor those who read before it for its iteration. */
    uint64_t skipped;
    uint64_t missing; /* ... that those have sent, and that may never have got to an application */
    /* Clients have returned, or may have: NULL: nobody wants to know. task.lock is held. */
    void (*returned_locked)(struct mr_serving *s);
};

extern const struct mr_worker_task_streams mr_serving_streams;

/* Slots of kinds (task.h), or what they are made of. */
int mr_serving_init(struct mr_serving *s, uint64_t kept_bytes_max, bool reports_given,
                    mr_error *err);
void mr_serving_free(struct mr_worker_task *t);
void mr_serving_pump(struct mr_worker_task *t);
void mr_serving_progress_locked(struct mr_serving *s, struct mr_worker_task_progress *ret);
void mr_serving_usage_locked(struct mr_worker_task *t, struct mr_worker_task_usage *ret);

/* Run: @fill puts rows into the book until there are no more (MR_END) or it fails; then what is
 * above. No lock is held. */
void mr_serving_run(struct mr_serving *s, int (*fill)(struct mr_serving *s, mr_error *err));
