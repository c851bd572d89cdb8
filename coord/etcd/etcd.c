/*
 * Requests that have one answer. Each is a struct mr_etcd_op from its start to the return of its callback; close()
 * cancels all and waits for them.
 */
#include "coord/etcd/etcd.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sync.h"
#include "coord/bytes.h"
#include "coord/etcd/internal.h"
#include "etcd/rpc.pb-c.h"

#include <string.h>

enum op_kind { OP_TXN, OP_RANGE, OP_GRANT, OP_RENEW, OP_REVOKE, OP_TTL };

struct mr_etcd_op {
    struct mr_etcd_op *next; /* lock */
    struct mr_etcd_op *prev;
    struct mr_etcd *etcd;
    struct mr_etcd_conn *conn;
    mr_rpc_call *call;
    enum op_kind kind;
    int64_t lease;
    size_t gets_success; /* GETs that each branch has: what the answer must contain */
    size_t gets_failure;
    void *done;
    void *ctx;
};

static const char *const paths[] = {
    [OP_TXN] = "/etcdserverpb.KV/Txn",
    [OP_RANGE] = "/etcdserverpb.KV/Range",
    [OP_GRANT] = "/etcdserverpb.Lease/LeaseGrant",
    /* A stream of its own; one request and one answer on it look like a unary call, and need no state. */
    [OP_RENEW] = "/etcdserverpb.Lease/LeaseKeepAlive",
    [OP_REVOKE] = "/etcdserverpb.Lease/LeaseRevoke",
    [OP_TTL] = "/etcdserverpb.Lease/LeaseTimeToLive",
};

static const char *const metadata[] = {"hasleader", "true", NULL};

/* ---- connections ---- */

static void conn_free(struct mr_etcd_conn *c)
{
    if (c != NULL) {
        mr_rpc_channel_free(c->bulk);
        mr_rpc_channel_free(c->live);
        mr_free(c);
    }
}

struct mr_etcd_conn *mr_etcd_conn_get_locked(struct mr_etcd *e)
{
    if (e->conn == NULL) {
        struct mr_etcd_conn *c = mr_calloc(1, sizeof *c);
        const char *address = e->endpoints[e->active];

        if (c == NULL || mr_rpc_channel_new(e->runtime, address, NULL, &c->bulk, NULL) < 0 ||
            mr_rpc_channel_new(e->runtime, address, NULL, &c->live, NULL) < 0) {
            conn_free(c);
            return NULL;
        }
        c->endpoint = e->active;
        c->refs = 1;
        e->conn = c;
    }
    e->conn->refs++;
    return e->conn;
}

void mr_etcd_conn_put_locked(struct mr_etcd *e, struct mr_etcd_conn *c)
{
    if (c != NULL && --c->refs == 0) {
        conn_free(c);
    }
}

void mr_etcd_conn_failed_locked(struct mr_etcd *e, struct mr_etcd_conn *c)
{
    /* With one endpoint its channels reconnect by themselves, and others' calls on them may be doing well. */
    if (e->conn != c || e->nendpoints == 1 || e->closing) {
        return;
    }
    e->conn = NULL;
    e->active = (e->active + 1) % e->nendpoints;
    mr_log(MR_LOG_INFO, "etcd endpoint does not answer, trying the next", "endpoint", "%s", e->endpoints[c->endpoint],
           "next", "%s", e->endpoints[e->active], NULL);
    mr_etcd_watch_break_locked(e, c);
    mr_etcd_conn_put_locked(e, c);
}

void mr_etcd_ran(struct mr_etcd *e)
{
    MR_LOCK(&e->lock);
    MR_ASSERT(e->running > 0);
    if (--e->running == 0) {
        (void)pthread_cond_broadcast(&e->idle);
    }
}

/* ---- answers ---- */

static struct mr_bytes bytes_of(ProtobufCBinaryData b)
{
    return (struct mr_bytes){b.data, b.len};
}

static struct mr_kv kv_of(const Etcdserverpb__KeyValue *kv)
{
    return (struct mr_kv){.key = bytes_of(kv->key),
                          .value = bytes_of(kv->value),
                          .create_revision = kv->create_revision,
                          .mod_revision = kv->mod_revision,
                          .lease = kv->lease};
}

static int bad_answer(const struct mr_etcd_op *op, mr_error *err)
{
    uint32_t traits = MR_RETRYABLE | (op->kind == OP_TXN ? (uint32_t)MR_MAYBE_APPLIED : 0u);

    return mr_error_set_traits(err, MR_EINTERNAL, traits, "etcd's answer to %s cannot be read", paths[op->kind]);
}

static void answer_txn(const struct mr_etcd_op *op, const void *bytes, size_t size)
{
    mr_txn_done *done = (mr_txn_done *)op->done;
    Etcdserverpb__TxnResponse *r = etcdserverpb__txn_response__unpack(NULL, size, bytes);
    size_t expected = r != NULL && r->succeeded ? op->gets_success : op->gets_failure;
    struct mr_kv *gets = mr_calloc(expected + 1, sizeof *gets);
    struct mr_txn_result result = {.gets = gets};
    mr_error err;

    for (size_t i = 0; r != NULL && gets != NULL && i < r->n_responses; i++) {
        const Etcdserverpb__ResponseOp *o = r->responses[i];

        if (o->response_case != ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE) {
            continue;
        }
        if (result.ngets < expected && o->response_range->n_kvs > 0) {
            gets[result.ngets] = kv_of(o->response_range->kvs[0]);
        }
        result.ngets++;
    }
    if (r == NULL || gets == NULL || r->header == NULL || result.ngets != expected) {
        done(op->ctx, bad_answer(op, &err), NULL, &err);
    } else {
        result.succeeded = r->succeeded;
        result.revision = r->header->revision;
        done(op->ctx, MR_OK, &result, NULL);
    }
    mr_free(gets);
    if (r != NULL) {
        etcdserverpb__txn_response__free_unpacked(r, NULL);
    }
}

static void answer_range(const struct mr_etcd_op *op, const void *bytes, size_t size)
{
    mr_range_done *done = (mr_range_done *)op->done;
    Etcdserverpb__RangeResponse *r = etcdserverpb__range_response__unpack(NULL, size, bytes);
    struct mr_kv *kvs = r != NULL ? mr_calloc(r->n_kvs + 1, sizeof *kvs) : NULL;
    mr_error err;

    if (r == NULL || kvs == NULL || r->header == NULL) {
        done(op->ctx, bad_answer(op, &err), NULL, &err);
    } else {
        struct mr_range_result result = {
            .revision = r->header->revision, .kvs = kvs, .count = r->n_kvs, .more = r->more};

        for (size_t i = 0; i < r->n_kvs; i++) {
            kvs[i] = kv_of(r->kvs[i]);
        }
        done(op->ctx, MR_OK, &result, NULL);
    }
    mr_free(kvs);
    if (r != NULL) {
        etcdserverpb__range_response__free_unpacked(r, NULL);
    }
}

/* Grant, keep-alive and time-to-live have their id and ttl in the same fields. A revoke's answer says nothing. */
static void answer_lease(const struct mr_etcd_op *op, const void *bytes, size_t size)
{
    mr_lease_done *done = (mr_lease_done *)op->done;
    Etcdserverpb__LeaseKeepAliveResponse *r;
    mr_error err;

    if (op->kind == OP_REVOKE) {
        done(op->ctx, MR_OK, op->lease, 0, NULL);
        return;
    }
    r = etcdserverpb__lease_keep_alive_response__unpack(NULL, size, bytes);
    if (r == NULL) {
        done(op->ctx, bad_answer(op, &err), op->lease, 0, &err);
        return;
    }
    done(op->ctx, MR_OK, op->kind == OP_GRANT ? r->id : op->lease, r->ttl, NULL);
    etcdserverpb__lease_keep_alive_response__free_unpacked(r, NULL);
}

static void answer_error(const struct mr_etcd_op *op, const mr_error *err)
{
    switch (op->kind) {
    case OP_TXN:
        ((mr_txn_done *)op->done)(op->ctx, err->code, NULL, err);
        break;
    case OP_RANGE:
        ((mr_range_done *)op->done)(op->ctx, err->code, NULL, err);
        break;
    case OP_GRANT:
    case OP_RENEW:
    case OP_REVOKE:
    case OP_TTL:
        ((mr_lease_done *)op->done)(op->ctx, err->code, op->lease, 0, err);
        break;
    }
}

static void answer(const struct mr_etcd_op *op, const void *bytes, size_t size)
{
    switch (op->kind) {
    case OP_TXN:
        answer_txn(op, bytes, size);
        break;
    case OP_RANGE:
        answer_range(op, bytes, size);
        break;
    case OP_GRANT:
    case OP_RENEW:
    case OP_REVOKE:
    case OP_TTL:
        answer_lease(op, bytes, size);
        break;
    }
}

/* ---- one request ---- */

static void unlink_locked(struct mr_etcd *e, struct mr_etcd_op *op)
{
    if (op->prev != NULL) {
        op->prev->next = op->next;
    } else {
        e->ops = op->next;
    }
    if (op->next != NULL) {
        op->next->prev = op->prev;
    }
}

static void op_over(void *ctx, int rc, const void *reply, size_t size, const mr_error *why)
{
    struct mr_etcd_op *op = ctx;
    struct mr_etcd *e = op->etcd;
    mr_error err;
    bool silent;

    /* Taking the lock also waits for the submitter to have stored `call`. */
    mr_mutex_lock(&e->lock);
    unlink_locked(e, op);
    silent = e->closing;
    if (rc < 0) {
        err = *why;
        mr_etcd_translate(op->kind == OP_TXN || op->kind == OP_GRANT || op->kind == OP_REVOKE, &err);
        if ((err.traits & MR_RETRYABLE) != 0 && err.code != MR_EEXHAUSTED) {
            mr_etcd_conn_failed_locked(e, op->conn);
        }
    }
    mr_etcd_conn_put_locked(e, op->conn);
    mr_mutex_unlock(&e->lock);

    if (silent) {
        goto out;
    }
    if (rc < 0) {
        answer_error(op, &err);
    } else {
        answer(op, reply, size);
    }
out:
    mr_rpc_call_unref(op->call);
    mr_free(op);
    mr_etcd_ran(e);
}

static void submit(struct mr_etcd *e, struct mr_etcd_op *op, struct mr_buf *request, int64_t timeout_ms)
{
    bool live = op->kind >= OP_GRANT;
    mr_error err;
    int rc = MR_OK;

    op->etcd = e;
    mr_mutex_lock(&e->lock);
    op->conn = request->failed || e->closing ? NULL : mr_etcd_conn_get_locked(e);
    if (op->conn == NULL) {
        rc = mr_error_nomem(&err);
    } else {
        rc =
            mr_rpc_unary(live ? op->conn->live : op->conn->bulk, paths[op->kind], request->data, request->len, metadata,
                         timeout_ms, false /* fail at once while not connected */, op_over, op, &op->call, &err);
    }
    if (rc >= 0) {
        e->running++;
        op->next = e->ops;
        if (op->next != NULL) {
            op->next->prev = op;
        }
        e->ops = op;
    } else {
        mr_etcd_conn_put_locked(e, op->conn);
    }
    mr_mutex_unlock(&e->lock);
    mr_buf_free(request);
    if (rc < 0) {
        err.traits = MR_RETRYABLE; /* It never left. */
        answer_error(op, &err);
        mr_free(op);
    }
}

static struct mr_etcd_op *op_new(enum op_kind kind, int64_t lease, void *done, void *ctx)
{
    struct mr_etcd_op *op = mr_calloc(1, sizeof *op);

    MR_ASSERT(op != NULL); /* Without it there is not even a place to keep the callback. */
    op->kind = kind;
    op->lease = lease;
    op->done = done;
    op->ctx = ctx;
    return op;
}

static size_t count_gets(const struct mr_op *ops, size_t n)
{
    size_t gets = 0;

    for (size_t i = 0; i < n; i++) {
        gets += ops[i].kind == MR_OP_GET;
    }
    return gets;
}

static void etcd_txn(mr_store *s, const struct mr_txn *txn, int64_t timeout_ms, mr_txn_done *done, void *ctx)
{
    struct mr_etcd_op *op = op_new(OP_TXN, 0, (void *)done, ctx);
    struct mr_buf request = mr_etcd_pack_txn(txn);

    op->gets_success = count_gets(txn->success, txn->nsuccess);
    op->gets_failure = count_gets(txn->failure, txn->nfailure);
    submit((struct mr_etcd *)s, op, &request, timeout_ms);
}

static void etcd_range(mr_store *s, struct mr_bytes key, struct mr_bytes end, int64_t revision, int64_t limit,
                       bool keys_only, int64_t timeout_ms, mr_range_done *done, void *ctx)
{
    struct mr_buf request = mr_etcd_pack_range(key, end, revision, limit, keys_only);

    submit((struct mr_etcd *)s, op_new(OP_RANGE, 0, (void *)done, ctx), &request, timeout_ms);
}

static void etcd_grant(mr_store *s, int64_t ttl_s, int64_t timeout_ms, mr_lease_done *done, void *ctx)
{
    struct mr_buf request = mr_etcd_pack_grant(ttl_s);

    submit((struct mr_etcd *)s, op_new(OP_GRANT, 0, (void *)done, ctx), &request, timeout_ms);
}

static void lease_request(mr_store *s, enum op_kind kind, int64_t lease, int64_t timeout_ms, mr_lease_done *done,
                          void *ctx)
{
    struct mr_buf request = mr_etcd_pack_lease(lease);

    submit((struct mr_etcd *)s, op_new(kind, lease, (void *)done, ctx), &request, timeout_ms);
}

static void etcd_renew(mr_store *s, int64_t lease, int64_t timeout_ms, mr_lease_done *done, void *ctx)
{
    lease_request(s, OP_RENEW, lease, timeout_ms, done, ctx);
}

static void etcd_revoke(mr_store *s, int64_t lease, int64_t timeout_ms, mr_lease_done *done, void *ctx)
{
    lease_request(s, OP_REVOKE, lease, timeout_ms, done, ctx);
}

static void etcd_ttl(mr_store *s, int64_t lease, int64_t timeout_ms, mr_lease_done *done, void *ctx)
{
    lease_request(s, OP_TTL, lease, timeout_ms, done, ctx);
}

/* ---- opening and closing ---- */

static void etcd_free(struct mr_etcd *e)
{
    if (e == NULL) {
        return;
    }
    conn_free(e->conn);
    if (e->runtime != NULL) {
        mr_rpc_release(e->runtime);
    }
    for (size_t i = 0; i < e->nendpoints; i++) {
        mr_free(e->endpoints[i]);
    }
    mr_free(e->endpoints);
    (void)pthread_cond_destroy(&e->idle);
    (void)pthread_mutex_destroy(&e->lock);
    mr_free(e);
}

static void etcd_close(mr_store *s)
{
    struct mr_etcd *e = (struct mr_etcd *)s;

    mr_mutex_lock(&e->lock);
    e->closing = true;
    for (struct mr_etcd_op *op = e->ops; op != NULL; op = op->next) {
        mr_rpc_call_cancel(op->call);
    }
    mr_etcd_watch_break_locked(e, NULL);
    while (e->running > 0) {
        mr_cond_wait(&e->idle, &e->lock);
    }
    mr_mutex_unlock(&e->lock);
    etcd_free(e);
}

static const struct mr_store_ops etcd_ops = {
    .txn = etcd_txn,
    .range = etcd_range,
    .lease_grant = etcd_grant,
    .lease_renew = etcd_renew,
    .lease_revoke = etcd_revoke,
    .lease_ttl = etcd_ttl,
    .watch = mr_etcd_watch,
    .watch_cancel = mr_etcd_watch_cancel,
    .close = etcd_close,
};

/* One endpoint of the list: [p, p + n). */
static int add_endpoint(struct mr_etcd *e, const char *p, size_t n, mr_error *err)
{
    static const char http[] = "http://";

    if (n >= sizeof http - 1 && strncmp(p, http, sizeof http - 1) == 0) {
        p += sizeof http - 1;
        n -= sizeof http - 1;
    }
    while (n > 0 && p[n - 1] == '/') {
        n--;
    }
    if (n == 0 || memchr(p, ':', n) == NULL || memchr(p, '/', n) != NULL) {
        return mr_error_set(err, MR_EINVAL, "etcd endpoint '%.*s': host:port is expected", (int)n, p);
    }
    if (e->nendpoints == MR_ETCD_ENDPOINTS_MAX) {
        return mr_error_set(err, MR_EINVAL, "more than %d etcd endpoints", MR_ETCD_ENDPOINTS_MAX);
    }
    e->endpoints[e->nendpoints] = mr_strndup(p, n);
    if (e->endpoints[e->nendpoints] == NULL) {
        return mr_error_nomem(err);
    }
    e->nendpoints++;
    return MR_OK;
}

int mr_etcd_open(const char *endpoints, mr_store **ret, mr_error *err)
{
    struct mr_etcd *e = mr_calloc(1, sizeof *e);
    int rc = MR_OK;

    if (e == NULL) {
        return mr_error_nomem(err);
    }
    e->store.ops = &etcd_ops;
    mr_mutex_init(&e->lock);
    mr_cond_init(&e->idle);
    e->endpoints = mr_calloc(MR_ETCD_ENDPOINTS_MAX, sizeof *e->endpoints);
    if (e->endpoints == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    for (const char *p = endpoints; rc >= 0;) {
        size_t n = strcspn(p, ",");

        rc = add_endpoint(e, p, n, err);
        if (p[n] == '\0') {
            break;
        }
        p += n + 1;
    }
    if (rc >= 0) {
        rc = mr_rpc_acquire(&e->runtime, err);
    }
    if (rc >= 0) {
        *ret = &e->store;
        e = NULL;
    }
out:
    etcd_free(e);
    return rc;
}
