/*
 * Requests that have one answer. Each is a struct mr_etcd_op from its start to the return of its
 * callback. It may have to wait for a token first, and is sent once more when etcd did not know the
 * token it went with; close() cancels all and waits for them.
 */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/sync.h"
#include "coord/bytes.h"
#include "coord/etcd/internal.h"
#include "etcd/rpc.pb-c.h"

#include <stdio.h>
#include <string.h>

enum op_kind { OP_TXN, OP_RANGE, OP_GRANT, OP_RENEW, OP_REVOKE, OP_TTL, OP_STATUS };

struct mr_etcd_op {
    struct mr_etcd_op *next; /* lock */
    struct mr_etcd_op *prev;
    struct mr_etcd *etcd;
    struct mr_etcd_conn *conn; /* NULL until it is sent */
    mr_rpc_call *call;         /* the same */
    enum op_kind kind;
    struct mr_buf request;
    int64_t deadline_ms;
    int64_t begun_ns;
    uint64_t login; /* number of the token it went with */
    bool waiting;   /* for a token */
    bool again;     /* it is on its way for the second time */
    mr_error error; /* it could not be sent */
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
    /* A stream of its own; one request and one answer on it look like a unary call, and need no
     * state. */
    [OP_RENEW] = "/etcdserverpb.Lease/LeaseKeepAlive",
    [OP_REVOKE] = "/etcdserverpb.Lease/LeaseRevoke",
    [OP_TTL] = "/etcdserverpb.Lease/LeaseTimeToLive",
    [OP_STATUS] = "/etcdserverpb.Maintenance/Status",
};

/* ---- answers ---- */

#define RESPONSE_FREE(type, name)                                                                  \
    static void name##_free(Etcdserverpb__##type *r)                                               \
    {                                                                                              \
        etcdserverpb__##name##__free_unpacked(r, NULL);                                            \
    }                                                                                              \
    MR_AUTO_DEFINE(Etcdserverpb__##type, name##_free)

RESPONSE_FREE(TxnResponse, txn_response)
RESPONSE_FREE(RangeResponse, range_response)
RESPONSE_FREE(LeaseKeepAliveResponse, lease_keep_alive_response)
RESPONSE_FREE(StatusResponse, status_response)

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

    return mr_error_set_traits(err, MR_EINTERNAL, traits, "etcd's answer to %s cannot be read",
                               paths[op->kind]);
}

/* The answer was lost here. Not MR_EEXHAUSTED, which is what a full store says. */
static int no_memory(const struct mr_etcd_op *op, mr_error *err)
{
    uint32_t traits = MR_RETRYABLE | (op->kind == OP_TXN ? (uint32_t)MR_MAYBE_APPLIED : 0u);

    return mr_error_set_traits(err, MR_EUNAVAIL, traits, "no memory for etcd's answer to %s",
                               paths[op->kind]);
}

/* A transaction is over. @r NULL: with @err. */
static void note_txn(const struct mr_etcd_op *op, const struct mr_txn_result *r,
                     const mr_error *err)
{
    struct mr_etcd_seconds *s = op->etcd->seconds;
    struct mr_histogram *h;

    if (s == NULL) {
        return;
    }
    if (r != NULL) {
        h = r->succeeded ? &s->ok : &s->guard;
    } else {
        h = (err->traits & MR_MAYBE_APPLIED) != 0 ? &s->unknown : &s->error;
    }
    mr_histogram_note(h, mr_now_ns() - op->begun_ns);
}

static int answer_txn(const struct mr_etcd_op *op, const void *bytes, size_t size, mr_error *err)
{
    MR_AUTO(txn_response_free)
    Etcdserverpb__TxnResponse *r = etcdserverpb__txn_response__unpack(NULL, size, bytes);
    size_t expected = r != NULL && r->succeeded ? op->gets_success : op->gets_failure;
    MR_AUTO(mr_free) struct mr_kv *gets = mr_calloc(expected + 1, sizeof *gets);
    struct mr_txn_result result = {.gets = gets};

    if (gets == NULL) {
        return no_memory(op, err);
    }
    for (size_t i = 0; r != NULL && i < r->n_responses; i++) {
        const Etcdserverpb__ResponseOp *o = r->responses[i];

        if (o->response_case != ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE) {
            continue;
        }
        if (result.ngets < expected && o->response_range->n_kvs > 0) {
            gets[result.ngets] = kv_of(o->response_range->kvs[0]);
        }
        result.ngets++;
    }
    if (r == NULL || r->header == NULL || result.ngets != expected) {
        return bad_answer(op, err);
    }
    result.succeeded = r->succeeded;
    result.revision = r->header->revision;
    result.store_id = r->header->cluster_id;
    note_txn(op, &result, NULL);
    ((mr_txn_done *)op->done)(op->ctx, MR_OK, &result, NULL);
    return MR_OK;
}

static int answer_range(const struct mr_etcd_op *op, const void *bytes, size_t size, mr_error *err)
{
    MR_AUTO(range_response_free)
    Etcdserverpb__RangeResponse *r = etcdserverpb__range_response__unpack(NULL, size, bytes);

    if (r == NULL || r->header == NULL) {
        return bad_answer(op, err);
    }
    MR_AUTO(mr_free) struct mr_kv *kvs = mr_calloc(r->n_kvs + 1, sizeof *kvs);
    struct mr_range_result result = {
        .revision = r->header->revision, .kvs = kvs, .count = r->n_kvs, .more = r->more};

    if (kvs == NULL) {
        return no_memory(op, err);
    }
    for (size_t i = 0; i < r->n_kvs; i++) {
        kvs[i] = kv_of(r->kvs[i]);
    }
    ((mr_range_done *)op->done)(op->ctx, MR_OK, &result, NULL);
    return MR_OK;
}

/* Grant, keep-alive and time-to-live have their id and ttl in the same fields. */
static int answer_lease(const struct mr_etcd_op *op, const void *bytes, size_t size, mr_error *err)
{
    MR_AUTO(lease_keep_alive_response_free)
    Etcdserverpb__LeaseKeepAliveResponse *r =
        etcdserverpb__lease_keep_alive_response__unpack(NULL, size, bytes);

    if (r == NULL) {
        return bad_answer(op, err);
    }
    ((mr_lease_done *)op->done)(op->ctx, MR_OK, op->kind == OP_GRANT ? r->id : op->lease, r->ttl,
                                NULL);
    return MR_OK;
}

/* A revoke's answer says nothing. */
static int answer_revoke(const struct mr_etcd_op *op, const void *bytes, size_t size, mr_error *err)
{
    ((mr_lease_done *)op->done)(op->ctx, MR_OK, op->lease, 0, NULL);
    return MR_OK;
}

static int answer_status(const struct mr_etcd_op *op, const void *bytes, size_t size, mr_error *err)
{
    MR_AUTO(status_response_free)
    Etcdserverpb__StatusResponse *r = etcdserverpb__status_response__unpack(NULL, size, bytes);

    if (r == NULL || r->header == NULL) {
        return bad_answer(op, err);
    }
    struct mr_store_status st = {.size_bytes = r->dbsize, .quota_bytes = r->dbsizequota};

    (void)snprintf(st.version, sizeof st.version, "%s", r->version);
    for (size_t i = 0; i < r->n_errors; i++) {
        st.full = st.full || strstr(r->errors[i], "NOSPACE") != NULL;
    }
    ((mr_status_done *)op->done)(op->ctx, MR_OK, &st, NULL);
    return MR_OK;
}

static void answer_error(const struct mr_etcd_op *op, const mr_error *err)
{
    switch (op->kind) {
    case OP_TXN:
        note_txn(op, NULL, err);
        ((mr_txn_done *)op->done)(op->ctx, err->code, NULL, err);
        break;
    case OP_RANGE:
        ((mr_range_done *)op->done)(op->ctx, err->code, NULL, err);
        break;
    case OP_STATUS:
        ((mr_status_done *)op->done)(op->ctx, err->code, NULL, err);
        break;
    case OP_GRANT:
    case OP_RENEW:
    case OP_REVOKE:
    case OP_TTL:
        ((mr_lease_done *)op->done)(op->ctx, err->code, op->lease, 0, err);
        break;
    }
}

/* Hands the answer on. < 0 with @err: it could not be read, and nobody was told. */
static int (*const answers[])(const struct mr_etcd_op *op, const void *bytes, size_t size,
                              mr_error *err) = {
    [OP_TXN] = answer_txn,       [OP_RANGE] = answer_range,   [OP_GRANT] = answer_lease,
    [OP_RENEW] = answer_lease,   [OP_REVOKE] = answer_revoke, [OP_TTL] = answer_lease,
    [OP_STATUS] = answer_status,
};

/* ---- one request ---- */

static void link_locked(struct mr_etcd *e, struct mr_etcd_op *op)
{
    op->next = e->ops;
    if (op->next != NULL) {
        op->next->prev = op;
    }
    e->ops = op;
    e->running++;
}

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
    op->next = NULL;
    op->prev = NULL;
}

static void op_free(struct mr_etcd_op *op)
{
    mr_rpc_call_unref(op->call);
    mr_buf_free(&op->request);
    mr_free(op);
}

static void op_over(void *ctx, int rc, const void *reply, size_t size, const mr_error *why);

static int send_locked(struct mr_etcd *e, struct mr_etcd_op *op, mr_error *err)
{
    int64_t left = op->deadline_ms - mr_now_ms();
    const char *metadata[5];
    int rc;

    op->conn = mr_etcd_conn_get_locked(e, err);
    if (op->conn == NULL) {
        return err->code;
    }
    mr_etcd_metadata_locked(e, metadata);
    op->login = e->logins;
    rc = mr_rpc_unary(op->kind >= OP_GRANT ? op->conn->live : op->conn->bulk, paths[op->kind],
                      op->request.data, op->request.len, metadata, left > 1 ? left : 1,
                      false /* fail at once while not connected */, op_over, op, &op->call, err);
    if (rc < 0) {
        mr_etcd_conn_put_locked(e, op->conn);
        op->conn = NULL;
    }
    return rc;
}

/* Send it, or let it wait for a token. < 0: neither; nothing has left. */
static int begin_locked(struct mr_etcd *e, struct mr_etcd_op *op, mr_error *err)
{
    int rc;

    if (mr_etcd_login_first_locked(e, &rc, err)) {
        op->waiting = rc >= 0;
        return rc;
    }
    return send_locked(e, op, err);
}

/* The token it went with was not good. Once more with another one? */
static bool sent_again_locked(struct mr_etcd *e, struct mr_etcd_op *op, mr_error *err)
{
    if (!mr_etcd_wants_login(err) || e->login == MR_ETCD_LOGIN_NONE || e->closing) {
        return false;
    }
    mr_etcd_login_lost_locked(e, op->login);
    if (op->again) {
        return false;
    }
    op->again = true;
    mr_etcd_conn_put_locked(e, op->conn);
    mr_rpc_call_unref(op->call);
    op->conn = NULL;
    op->call = NULL;
    return begin_locked(e, op, err) >= 0;
}

static void op_over(void *ctx, int rc, const void *reply, size_t size, const mr_error *why)
{
    struct mr_etcd_op *op = ctx;
    struct mr_etcd *e = op->etcd;
    mr_error err;
    bool silent;

    /* Taking the lock also waits for the submitter to have stored `call`. */
    mr_mutex_lock(&e->lock);
    if (rc < 0) {
        err = *why;
        mr_etcd_translate(op->kind == OP_TXN || op->kind == OP_GRANT || op->kind == OP_REVOKE,
                          &err);
        if (sent_again_locked(e, op, &err)) {
            mr_mutex_unlock(&e->lock);
            return;
        }
        if ((err.traits & MR_RETRYABLE) != 0 && err.code != MR_EEXHAUSTED &&
            err.code != MR_EUNAUTH && op->conn != NULL) {
            mr_etcd_conn_failed_locked(e, op->conn, &err);
        }
    } else {
        mr_etcd_conn_answered_locked(e, op->conn);
    }
    unlink_locked(e, op);
    silent = e->closing;
    mr_etcd_conn_put_locked(e, op->conn);
    mr_mutex_unlock(&e->lock);

    if (silent) {
        goto out;
    }
    if (rc < 0 || answers[op->kind](op, reply, size, &err) < 0) {
        answer_error(op, &err);
    }
out:
    op_free(op);
    mr_etcd_ran(e);
}

void mr_etcd_ops_fail(struct mr_etcd_op *list)
{
    while (list != NULL) {
        struct mr_etcd_op *op = list;
        struct mr_etcd *e = op->etcd;

        list = op->next;
        if (op->error.code != MR_ECANCELED) {
            op->error.traits |= MR_RETRYABLE; /* It never left. */
            op->error.traits &= ~(uint32_t)MR_MAYBE_APPLIED;
            answer_error(op, &op->error);
        }
        op_free(op);
        mr_etcd_ran(e);
    }
}

struct mr_etcd_op *mr_etcd_ops_resume_locked(struct mr_etcd *e, const mr_error *why)
{
    struct mr_etcd_op *failed = NULL;
    struct mr_etcd_op *next;

    for (struct mr_etcd_op *op = e->ops; op != NULL; op = next) {
        next = op->next;
        if (!op->waiting) {
            continue;
        }
        op->waiting = false;
        if (why != NULL) {
            op->error = *why;
        }
        if (e->closing) {
            (void)mr_error_set(&op->error, MR_ECANCELED, "the store is being closed");
        }
        if (op->error.code < 0 || send_locked(e, op, &op->error) < 0) {
            unlink_locked(e, op);
            op->next = failed;
            failed = op;
        }
    }
    return failed;
}

void mr_etcd_ops_cancel_locked(struct mr_etcd *e)
{
    for (struct mr_etcd_op *op = e->ops; op != NULL; op = op->next) {
        if (op->call != NULL) {
            mr_rpc_call_cancel(op->call);
        }
    }
}

/* @as: what kind of request it is, whose lease it is about, who is told. */
static void submit(struct mr_etcd *e, struct mr_etcd_op as, struct mr_buf request,
                   int64_t timeout_ms)
{
    struct mr_etcd_op *op = mr_memdup(&as, sizeof as);
    int rc;

    if (op == NULL) {
        mr_error err;

        as.etcd = e;
        (void)mr_error_nomem(&err);
        mr_buf_free(&request);
        answer_error(&as, &err);
        return;
    }
    op->etcd = e;
    op->request = request;
    op->begun_ns = mr_now_ns();
    op->deadline_ms = op->begun_ns / MR_NS_PER_MS + timeout_ms;
    mr_mutex_lock(&e->lock);
    link_locked(e, op);
    rc = request.failed ? mr_error_nomem(&op->error) : begin_locked(e, op, &op->error);
    if (rc < 0) {
        unlink_locked(e, op);
    }
    mr_mutex_unlock(&e->lock);
    if (rc < 0) {
        mr_etcd_ops_fail(op);
    }
}

static size_t count_gets(const struct mr_op *ops, size_t n)
{
    size_t gets = 0;

    for (size_t i = 0; i < n; i++) {
        gets += ops[i].kind == MR_OP_GET;
    }
    return gets;
}

void mr_etcd_txn(mr_store *s, const struct mr_txn *txn, int64_t timeout_ms, mr_txn_done *done,
                 void *ctx)
{
    struct mr_etcd_op op = {.kind = OP_TXN,
                            .done = (void *)done,
                            .ctx = ctx,
                            .gets_success = count_gets(txn->success, txn->nsuccess),
                            .gets_failure = count_gets(txn->failure, txn->nfailure)};

    submit((struct mr_etcd *)s, op, mr_etcd_pack_txn(txn), timeout_ms);
}

void mr_etcd_range(mr_store *s, struct mr_bytes key, struct mr_bytes end, int64_t revision,
                   int64_t limit, bool keys_only, int64_t timeout_ms, mr_range_done *done,
                   void *ctx)
{
    submit((struct mr_etcd *)s,
           (struct mr_etcd_op){.kind = OP_RANGE, .done = (void *)done, .ctx = ctx},
           mr_etcd_pack_range(key, end, revision, limit, keys_only), timeout_ms);
}

void mr_etcd_grant(mr_store *s, int64_t ttl_s, int64_t timeout_ms, mr_lease_done *done, void *ctx)
{
    submit((struct mr_etcd *)s,
           (struct mr_etcd_op){.kind = OP_GRANT, .done = (void *)done, .ctx = ctx},
           mr_etcd_pack_grant(ttl_s), timeout_ms);
}

static void lease_request(mr_store *s, enum op_kind kind, int64_t lease, int64_t timeout_ms,
                          mr_lease_done *done, void *ctx)
{
    submit((struct mr_etcd *)s,
           (struct mr_etcd_op){.kind = kind, .lease = lease, .done = (void *)done, .ctx = ctx},
           mr_etcd_pack_lease(lease), timeout_ms);
}

void mr_etcd_renew(mr_store *s, int64_t lease, int64_t timeout_ms, mr_lease_done *done, void *ctx)
{
    lease_request(s, OP_RENEW, lease, timeout_ms, done, ctx);
}

void mr_etcd_revoke(mr_store *s, int64_t lease, int64_t timeout_ms, mr_lease_done *done, void *ctx)
{
    lease_request(s, OP_REVOKE, lease, timeout_ms, done, ctx);
}

void mr_etcd_ttl(mr_store *s, int64_t lease, int64_t timeout_ms, mr_lease_done *done, void *ctx)
{
    lease_request(s, OP_TTL, lease, timeout_ms, done, ctx);
}

void mr_etcd_status(mr_store *s, int64_t timeout_ms, mr_status_done *done, void *ctx)
{
    submit((struct mr_etcd *)s,
           (struct mr_etcd_op){.kind = OP_STATUS, .done = (void *)done, .ctx = ctx},
           mr_etcd_pack_status(), timeout_ms);
}
