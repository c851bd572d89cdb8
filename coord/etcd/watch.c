/*
 * Watches: one stream each, there are few. A stream that ends is reported and forgotten; the
 * watcher starts a new one from the last revision it saw.
 *
 * A watch is over when it was cancelled, or has reported a failure; its memory goes when its stream
 * has ended.
 */
#include "coord/etcd/internal.h"
#include "etcd/rpc.pb-c.h"

#define WATCH_MESSAGE_BYTES_MAX (16u << 20)

struct mr_etcd_watch {
    struct mr_etcd_request base; /* `over`: no callback any more */
    mr_rpc_stream *stream;       /* NULL while it waits for a token */
    int64_t from;                /* revision asked for; 0: from now */
    uint64_t id;
    mr_watch_fn *fn;
    void *ctx;
};

static bool is_over(struct mr_etcd_watch *w)
{
    MR_LOCK(&w->base.etcd->lock);
    return w->base.over;
}

/* Report a failure, once, and break the stream off. */
static void fail(struct mr_etcd_watch *w, const mr_error *err, int64_t revision)
{
    mr_mutex_lock(&w->base.etcd->lock);
    bool silent = w->base.over;

    w->base.over = true;
    mr_mutex_unlock(&w->base.etcd->lock);
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
        mr_mutex_lock(&w->base.etcd->lock);
        mr_etcd_login_lost_locked(w->base.etcd, w->base.login);
        mr_mutex_unlock(&w->base.etcd->lock);
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
    event.kv = mr_etcd_kv(e->kv);
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
        mr_mutex_lock(&w->base.etcd->lock);
        mr_etcd_conn_answered_locked(w->base.etcd, w->base.conn);
        mr_mutex_unlock(&w->base.etcd->lock);
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

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *why)
{
    struct mr_etcd_watch *w = ctx;
    struct mr_etcd *e = w->base.etcd;
    mr_error err;

    if (rc < 0) {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "watch stream: %s",
                                  why->message);
    } else {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "watch stream: ended by etcd");
    }
    mr_mutex_lock(&e->lock);
    bool silent = w->base.over || e->closing;

    w->base.over = true;
    if (!silent) {
        mr_etcd_conn_failed_locked(e, w->base.conn, &err);
    }
    mr_etcd_request_end_locked(&w->base);
    mr_mutex_unlock(&e->lock);
    if (!silent) {
        w->fn(w->ctx, err.code, NULL, 0, 0, &err);
    }
    mr_etcd_request_free(&w->base);
}

/* Open the stream and send the create request. */
static int watch_send_locked(struct mr_etcd_request *r, const char *const *metadata, mr_error *err)
{
    static const struct mr_rpc_stream_ops ops = {.message = on_message, .ended = on_ended};
    struct mr_etcd_watch *w = (struct mr_etcd_watch *)r;
    struct mr_rpc_slice slice = {.data = r->bytes.data, .size = r->bytes.len};

    MR_TRY(mr_rpc_stream_open(r->conn->live, "/etcdserverpb.Watch/Watch", metadata, -1, false, &ops,
                              w, &w->stream, err));
    /* If it has ended already, `ended` tells; so does a refused send. */
    if (mr_rpc_stream_send(w->stream, &slice, 1, false, NULL) < 0) {
        mr_rpc_stream_cancel(w->stream);
    }
    mr_rpc_stream_receive(w->stream);
    return MR_OK;
}

static void watch_cancel_locked(struct mr_etcd_request *r)
{
    struct mr_etcd_watch *w = (struct mr_etcd_watch *)r;

    if (w->stream != NULL) {
        mr_rpc_stream_cancel(w->stream);
    }
}

static void watch_fail(struct mr_etcd_request *r, const mr_error *err)
{
    struct mr_etcd_watch *w = (struct mr_etcd_watch *)r;

    w->fn(w->ctx, err->code, NULL, 0, 0, err);
}

static void watch_release(struct mr_etcd_request *r)
{
    mr_rpc_stream_unref(((struct mr_etcd_watch *)r)->stream);
}

static const struct mr_etcd_request_kind kind = {.send_locked = watch_send_locked,
                                                 .cancel_locked = watch_cancel_locked,
                                                 .fail = watch_fail,
                                                 .release = watch_release,
                                                 .lasts = true};

static uint64_t new_id(struct mr_etcd *e)
{
    MR_LOCK(&e->lock);
    return ++e->watch_ids;
}

uint64_t mr_etcd_watch(mr_store *s, struct mr_bytes key, int64_t revision, mr_watch_fn *fn,
                       void *ctx)
{
    struct mr_etcd *e = (struct mr_etcd *)s;
    struct mr_etcd_watch *w = mr_calloc(1, sizeof *w);
    uint64_t id = new_id(e);
    Etcdserverpb__WatchRequest msg = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;

    if (w == NULL) {
        mr_error err;

        fn(ctx, mr_error_nomem(&err), NULL, 0, 0, &err);
        return id;
    }
    create.key = mr_etcd_binary(key);
    create.start_revision = revision;
    msg.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    msg.create_request = &create;
    *w =
        (struct mr_etcd_watch){.base = {.kind = &kind, .etcd = e, .bytes = mr_etcd_pack(&msg.base)},
                               .from = revision,
                               .id = id,
                               .fn = fn,
                               .ctx = ctx};
    mr_etcd_request_begin(&w->base);
    return id;
}

void mr_etcd_watch_cancel(mr_store *s, uint64_t id)
{
    struct mr_etcd *e = (struct mr_etcd *)s;
    struct mr_etcd_request *r;

    MR_LOCK(&e->lock);
    LIST_FOREACH(r, &e->requests, link) {
        if (r->kind == &kind && ((struct mr_etcd_watch *)r)->id == id) {
            r->over = true;
            watch_cancel_locked(r);
            return;
        }
    }
}
