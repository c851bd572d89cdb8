/* What requests with one answer (op.c) and watches (watch.c) share: they go over the connection
 * that is active, may have to wait for a token first, and are on the store's list until they are
 * over; close() cancels all and waits for them. */
#include "coord/etcd/internal.h"

static int send_locked(struct mr_etcd_request *r, mr_error *err)
{
    struct mr_etcd *e = r->etcd;
    const char *metadata[5];

    r->conn = mr_etcd_conn_get_locked(e, err);
    if (r->conn == NULL) {
        return err->code;
    }
    mr_etcd_metadata_locked(e, metadata);
    r->login = e->logins;
    int rc = r->kind->send_locked(r, metadata, err);
    if (rc < 0) {
        mr_etcd_conn_put_locked(e, r->conn);
        r->conn = NULL;
    }
    return rc;
}

int mr_etcd_request_send_locked(struct mr_etcd_request *r, mr_error *err)
{
    int rc;

    if (mr_etcd_login_first_locked(r->etcd, &rc, err)) {
        r->waiting = rc >= 0;
        return rc;
    }
    return send_locked(r, err);
}

/* It could not be sent. */
static void fail(struct mr_etcd_request *r)
{
    if (r->error.code != MR_ECANCELED) {
        r->error.traits |= MR_RETRYABLE; /* It never left. */
        r->error.traits &= ~(uint32_t)MR_MAYBE_APPLIED;
        r->kind->fail(r, &r->error);
    }
    mr_etcd_request_free(r);
}

void mr_etcd_request_begin(struct mr_etcd_request *r)
{
    struct mr_etcd *e = r->etcd;

    mr_mutex_lock(&e->lock);
    LIST_INSERT_HEAD(&e->requests, r, link);
    e->running++;
    int rc =
        r->bytes.failed ? mr_error_nomem(&r->error) : mr_etcd_request_send_locked(r, &r->error);
    if (rc < 0) {
        LIST_REMOVE(r, link);
    }
    mr_mutex_unlock(&e->lock);
    if (rc < 0) {
        fail(r);
    }
}

void mr_etcd_request_end_locked(struct mr_etcd_request *r)
{
    LIST_REMOVE(r, link);
    mr_etcd_conn_put_locked(r->etcd, r->conn);
}

void mr_etcd_request_free(struct mr_etcd_request *r)
{
    struct mr_etcd *e = r->etcd;

    r->kind->release(r);
    mr_buf_free(&r->bytes);
    mr_free(r);
    mr_etcd_ran(e);
}

void mr_etcd_requests_resume(struct mr_etcd *e, const mr_error *why)
{
    struct mr_etcd_requests failed = LIST_HEAD_INITIALIZER(failed);
    struct mr_etcd_request *r, *next;

    for (r = LIST_FIRST(&e->requests); r != NULL; r = next) {
        next = LIST_NEXT(r, link);
        if (!r->waiting) {
            continue;
        }
        r->waiting = false;
        if (why != NULL) {
            r->error = *why;
        }
        if (r->over || e->closing) {
            (void)mr_error_set(&r->error, MR_ECANCELED, "nobody waits for it any more");
        }
        if (r->error.code < 0 || send_locked(r, &r->error) < 0) {
            LIST_REMOVE(r, link);
            LIST_INSERT_HEAD(&failed, r, link);
        }
    }
    mr_mutex_unlock(&e->lock);
    while ((r = LIST_FIRST(&failed)) != NULL) {
        LIST_REMOVE(r, link);
        fail(r);
    }
}

void mr_etcd_requests_cancel_locked(struct mr_etcd *e)
{
    struct mr_etcd_request *r;

    LIST_FOREACH(r, &e->requests, link) {
        r->kind->cancel_locked(r);
    }
}
