/*
 * Watches: one stream each, there are few. A stream that ends is reported and forgotten; the
 * watcher starts a new one from the last revision it saw.
 *
 * A watch is over when it was cancelled, or has reported a failure; its memory goes when its stream
 * has ended.
 */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/sync.h"
#include "coord/bytes.h"
#include "coord/etcd/internal.h"
#include "etcd/rpc.pb-c.h"

#include <string.h>

#define WATCH_MESSAGE_BYTES_MAX (16u << 20)

struct mr_etcd_watch {
    struct mr_etcd_watch *next; /* lock of the store */
    struct mr_etcd *etcd;
    struct mr_etcd_conn *conn;
    mr_rpc_stream *stream; /* NULL while it waits for a token */
    struct mr_buf request;
    int64_t from;   /* revision asked for; 0: from now */
    uint64_t login; /* number of the token it went with */
    uint64_t id;
    bool over;      /* lock: no callback any more */
    mr_error error; /* it could not be started */
    mr_watch_fn *fn;
    void *ctx;
};

static void unlink_locked(struct mr_etcd *e, struct mr_etcd_watch *w)
{
    for (struct mr_etcd_watch **p = &e->watches; *p != NULL; p = &(*p)->next) {
        if (*p == w) {
            *p = w->next;
            return;
        }
    }
}

static void watch_free(struct mr_etcd_watch *w)
{
    mr_rpc_stream_unref(w->stream);
    mr_buf_free(&w->request);
    mr_free(w);
}

static bool is_over(struct mr_etcd_watch *w)
{
    MR_LOCK(&w->etcd->lock);
    return w->over;
}

/* Report a failure, once, and break the stream off. */
static void fail(struct mr_etcd_watch *w, const mr_error *err, int64_t revision)
{
    mr_mutex_lock(&w->etcd->lock);
    bool silent = w->over;

    w->over = true;
    mr_mutex_unlock(&w->etcd->lock);
    if (!silent) {
        w->fn(w->ctx, err->code, NULL, 0, revision, err);
    }
    mr_rpc_stream_cancel(w->stream);
}

static void cancelled_by_etcd(struct mr_etcd_watch *w, const Etcdserverpb__WatchResponse *r)
{
    mr_error err;

    if (strstr(r->cancel_reason, "permission denied") != NULL) {
        /* etcd says the same of a token that it does not know. */
        mr_mutex_lock(&w->etcd->lock);
        mr_etcd_login_lost_locked(w->etcd, w->login);
        mr_mutex_unlock(&w->etcd->lock);
    }
    if (r->compact_revision > 0) {
        (void)mr_error_set(&err, MR_ERANGE, "the watch's history was compacted at %lld",
                           (long long)r->compact_revision);
    } else {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "etcd cancelled the watch: %s",
                                  r->cancel_reason);
    }
    fail(w, &err, r->compact_revision);
}

/* One key is watched, so each revision has one event. */
static void tell(struct mr_etcd_watch *w, const Etcdserverpb__Event *e)
{
    struct mr_watch_event event = {.deleted = e->type == 1};

    if (e->kv == NULL || is_over(w)) {
        return;
    }
    event.kv = (struct mr_kv){.key = {e->kv->key.data, e->kv->key.len},
                              .value = {e->kv->value.data, e->kv->value.len},
                              .create_revision = e->kv->create_revision,
                              .mod_revision = e->kv->mod_revision,
                              .lease = e->kv->lease};
    w->fn(w->ctx, MR_OK, &event, 1, e->kv->mod_revision, NULL);
}

static void on_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct mr_etcd_watch *w = ctx;
    size_t size = mr_rpc_message_size(m);
    uint8_t *bytes = size <= WATCH_MESSAGE_BYTES_MAX ? mr_malloc(size + 1) : NULL;
    Etcdserverpb__WatchResponse *r = NULL;
    mr_error err;

    if (bytes != NULL) {
        mr_rpc_message_copy(m, 0, size, bytes);
        r = etcdserverpb__watch_response__unpack(NULL, size, bytes);
    }
    mr_rpc_message_free(m);
    mr_free(bytes);
    if (r == NULL) {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                  "a watch response of %zu bytes cannot be read", size);
        fail(w, &err, 0);
        return;
    }
    for (size_t i = 0; i < r->n_events; i++) {
        tell(w, r->events[i]);
    }
    if (r->created && !r->canceled) {
        mr_mutex_lock(&w->etcd->lock);
        mr_etcd_conn_answered_locked(w->etcd, w->conn);
        mr_mutex_unlock(&w->etcd->lock);
    }
    if (r->canceled) {
        cancelled_by_etcd(w, r);
    } else if (r->created && r->header != NULL && r->header->revision + 1 < w->from) {
        (void)mr_error_set(&err, MR_ERANGE, "watching from %lld: the store is at %lld",
                           (long long)w->from, (long long)r->header->revision);
        fail(w, &err, r->header->revision);
    } else {
        mr_rpc_stream_receive(s);
    }
    etcdserverpb__watch_response__free_unpacked(r, NULL);
}

static void on_sent(void *ctx, mr_rpc_stream *s)
{
    /* The one request of this stream is out; there is no second. */
}

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *why)
{
    struct mr_etcd_watch *w = ctx;
    struct mr_etcd *e = w->etcd;
    mr_error err;

    if (rc < 0) {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "watch stream: %s",
                                  why->message);
    } else {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "watch stream: ended by etcd");
    }
    mr_mutex_lock(&e->lock);
    bool silent = w->over || e->closing;

    unlink_locked(e, w);
    w->over = true;
    if (!silent) {
        mr_etcd_conn_failed_locked(e, w->conn, &err);
    }
    mr_etcd_conn_put_locked(e, w->conn);
    mr_mutex_unlock(&e->lock);
    if (!silent) {
        w->fn(w->ctx, err.code, NULL, 0, 0, &err);
    }
    watch_free(w);
    mr_etcd_ran(e);
}

static const struct mr_rpc_stream_ops stream_ops = {
    .message = on_message, .sent = on_sent, .ended = on_ended};

/* Open the stream and send the create request. */
static int start_locked(struct mr_etcd *e, struct mr_etcd_watch *w, mr_error *err)
{
    struct mr_rpc_slice slice = {.data = w->request.data, .size = w->request.len};
    const char *metadata[5];
    int rc;

    w->conn = mr_etcd_conn_get_locked(e, err);
    if (w->conn == NULL) {
        return err->code;
    }
    mr_etcd_metadata_locked(e, metadata);
    w->login = e->logins;
    rc = mr_rpc_stream_open(w->conn->live, "/etcdserverpb.Watch/Watch", metadata, -1, false,
                            &stream_ops, w, &w->stream, err);
    if (rc < 0) {
        mr_etcd_conn_put_locked(e, w->conn);
        w->conn = NULL;
        return rc;
    }
    /* If it has ended already, `ended` tells; so does a refused send. */
    if (mr_rpc_stream_send(w->stream, &slice, 1, false, NULL) < 0) {
        mr_rpc_stream_cancel(w->stream);
    }
    mr_rpc_stream_receive(w->stream);
    return MR_OK;
}

void mr_etcd_watches_fail(struct mr_etcd_watch *list)
{
    while (list != NULL) {
        struct mr_etcd_watch *w = list;
        struct mr_etcd *e = w->etcd;

        list = w->next;
        if (!w->over && w->error.code != MR_ECANCELED) {
            w->error.traits = MR_RETRYABLE;
            w->fn(w->ctx, w->error.code, NULL, 0, 0, &w->error);
        }
        watch_free(w);
        mr_etcd_ran(e);
    }
}

struct mr_etcd_watch *mr_etcd_watches_resume_locked(struct mr_etcd *e, const mr_error *why)
{
    struct mr_etcd_watch *failed = NULL;
    struct mr_etcd_watch *next;

    for (struct mr_etcd_watch *w = e->watches; w != NULL; w = next) {
        next = w->next;
        if (w->stream != NULL) {
            continue;
        }
        if (why != NULL) {
            w->error = *why;
        }
        if (w->over || e->closing) {
            (void)mr_error_set(&w->error, MR_ECANCELED, "nobody waits for it any more");
        }
        if (w->error.code < 0 || start_locked(e, w, &w->error) < 0) {
            unlink_locked(e, w);
            w->next = failed;
            failed = w;
        }
    }
    return failed;
}

uint64_t mr_etcd_watch(mr_store *s, struct mr_bytes key, int64_t revision, mr_watch_fn *fn,
                       void *ctx)
{
    struct mr_etcd *e = (struct mr_etcd *)s;
    struct mr_etcd_watch *w = mr_calloc(1, sizeof *w);
    uint64_t id;
    int rc;

    if (w == NULL) {
        mr_error err;

        fn(ctx, mr_error_nomem(&err), NULL, 0, 0, &err);
        mr_mutex_lock(&e->lock);
        id = ++e->watch_ids;
        mr_mutex_unlock(&e->lock);
        return id;
    }
    w->etcd = e;
    w->fn = fn;
    w->ctx = ctx;
    w->request = mr_etcd_pack_watch(key, revision);
    w->from = revision;
    mr_mutex_lock(&e->lock);
    id = ++e->watch_ids;
    w->id = id;
    w->next = e->watches;
    e->watches = w;
    e->running++;
    if (w->request.failed) {
        rc = mr_error_nomem(&w->error);
    } else if (!mr_etcd_login_first_locked(e, &rc, &w->error)) {
        rc = start_locked(e, w, &w->error);
    }
    if (rc < 0) {
        unlink_locked(e, w);
        w->next = NULL;
    }
    mr_mutex_unlock(&e->lock);
    if (rc < 0) {
        mr_etcd_watches_fail(w);
    }
    return id;
}

void mr_etcd_watch_cancel(mr_store *s, uint64_t id)
{
    struct mr_etcd *e = (struct mr_etcd *)s;

    MR_LOCK(&e->lock);
    for (struct mr_etcd_watch *w = e->watches; w != NULL; w = w->next) {
        if (w->id == id) {
            w->over = true;
            if (w->stream != NULL) {
                mr_rpc_stream_cancel(w->stream);
            }
            return;
        }
    }
}

void mr_etcd_watch_break_locked(struct mr_etcd *e, const struct mr_etcd_conn *c)
{
    for (struct mr_etcd_watch *w = e->watches; w != NULL; w = w->next) {
        if (w->stream != NULL && (c == NULL || w->conn == c)) {
            mr_rpc_stream_cancel(w->stream);
        }
    }
}
