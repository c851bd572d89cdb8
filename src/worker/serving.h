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
#ifndef MR_WORKER_SERVING_H
#define MR_WORKER_SERVING_H

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

/* The slots of kinds (task.h) that are the same for all of them. */
int mr_serving_init(struct mr_serving *s, uint64_t kept_bytes_max, bool reports_given,
                    mr_error *err);
void mr_serving_free(struct mr_serving *s);
int mr_serving_attach_locked(struct mr_conn *c, struct mr_worker_task *t, mr_rpc_stream **replaced,
                             mr_error *err);
void mr_serving_message(struct mr_conn *c, const Millrace__ReadRequest *req);
void mr_serving_sent_locked(struct mr_conn *c);
void mr_serving_detach_locked(struct mr_conn *c);
mr_rpc_stream *mr_serving_cut_locked(struct mr_worker_task *t);
void mr_serving_pump(struct mr_worker_task *t);
void mr_serving_release_client(struct mr_worker_task *t, const char *client);
void mr_serving_progress_locked(struct mr_serving *s, struct mr_worker_task_progress *ret);
void mr_serving_usage_locked(struct mr_worker_task *t, struct mr_worker_task_usage *ret);
#define MR_SERVING_SLOTS                                                                           \
    .attach_locked = mr_serving_attach_locked, .message = mr_serving_message,                      \
    .sent_locked = mr_serving_sent_locked, .detach_locked = mr_serving_detach_locked,              \
    .cut_locked = mr_serving_cut_locked, .pump = mr_serving_pump,                                  \
    .release_client = mr_serving_release_client

/*
 * Run: @fill puts rows into the book until there are no more (MR_END) or it fails; then what is
 * above. No lock is held.
 */
void mr_serving_run(struct mr_serving *s, int (*fill)(struct mr_serving *s, mr_error *err));
/* The book has changed: wake the task's thread if there is something for it to do. task.lock is
 * held. */
void mr_serving_changed_locked(struct mr_serving *s);

#endif
