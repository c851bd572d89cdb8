/* A Read stream of a client, as the kinds of tasks see it: what it is attached to, and sending on
 * it. */
#pragma once

#include "worker/internal.h"
#include "worker/session/book.h"

/* A reference is held by the stream (until it has ended) and by whoever sends on it. */
struct mr_conn {
    uint32_t magic;            /* it comes back as a void * from callbacks */
    TAILQ_ENTRY(mr_conn) link; /* worker->lock, while waiting */
    struct mr_worker *worker;
    mr_rpc_stream *stream;
    _Atomic unsigned refs;
    struct mr_share *share;       /* worker->lock: of its host, while waiting; else NULL */
    int64_t expires_ms;           /* worker->lock */
    Millrace__ReadRequest *first; /* the message with `open` */
    /* worker->lock until it is set, once; then only read. A reference */
    struct mr_worker_task *task;
    void *session;        /* task->lock; of the task's kind; NULL: not attached (any more) */
    bool released_before; /* its client was said to be gone before this session; set when opened */
};

#define MR_CONN_MAGIC 0xc0225eadu

static inline struct mr_conn *mr_conn_of(void *ctx)
{
    struct mr_conn *c = ctx;

    MR_ASSERT(c->magic == MR_CONN_MAGIC);
    return c;
}

struct mr_conn *mr_conn_ref(struct mr_conn *c);
void mr_conn_unref(struct mr_conn *c);

/* In all of these the caller holds a reference and no lock. A failure to send breaks the stream
 * off: the task keeps the elements, and the client comes back for them. */

/* A header to be completed, with the identities that every message of @c's task carries. */
struct mr_conn_header {
    Millrace__ReadHeader base;
    struct mr_registration_cluster cluster; /* what it points to */
};
void mr_conn_header_init(struct mr_conn_header *h, const struct mr_conn *c);
/* @parts is lent. */
void mr_conn_send(struct mr_conn *c, const struct mr_conn_header *h, const struct mr_part *parts,
                  size_t n);
/* End @stream, a reference that it takes, or NULL. */
void mr_conn_end(mr_rpc_stream *stream, int code, const char *why);
/* No message could be made for it: its client comes again. */
void mr_conn_break_off(struct mr_conn *c, const mr_error *why);
/* Its client broke the protocol. */
void mr_conn_blame(struct mr_conn *c, const mr_error *why);

/* ---- as clients open them ---- */

/* The service's accept callback; ctx is the worker. */
void mr_conn_accept(void *ctx, mr_rpc_stream *s);
/* A task has come: give it the connections that wait for it. */
void mr_conn_admit_waiting(struct mr_worker *w, struct mr_worker_task *t);
/* Refuse those that have waited too long (all of them with @now_ms INT64_MAX). Returns when to look
 * again, or -1. */
int64_t mr_conn_expire_waiting(struct mr_worker *w, int64_t now_ms);
