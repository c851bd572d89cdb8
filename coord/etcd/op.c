/* Requests that have one answer. Each is a struct mr_etcd_op from its start to the return of its
 * callback. It is sent once more when etcd did not know the token it went with. */
#include "base/clock.h"
#include "coord/etcd/internal.h"
#include "etcd/rpc.pb-c.h"

enum op_kind { OP_TXN, OP_RANGE, OP_STATUS, OP_GRANT, OP_RENEW, OP_REVOKE, OP_TTL };

struct mr_etcd_op {
    struct mr_etcd_request base;
    mr_rpc_call *call; /* NULL until it is sent */
    enum op_kind kind;
    int64_t deadline_ms;
    int64_t begun_ns;
    bool again; /* it is on its way for the second time */
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

/* The answer was lost here: it is @bad, or there is no memory for it. That is not MR_EEXHAUSTED,
 * which is what a full store says. */
static int lost_answer(const struct mr_etcd_op *op, bool bad, mr_error *err)
{
    uint32_t traits = MR_RETRYABLE | (op->kind == OP_TXN ? (uint32_t)MR_MAYBE_APPLIED : 0u);

    return mr_error_set_traits(err, bad ? MR_EINTERNAL : MR_EUNAVAIL, traits,
                               bad ? "etcd's answer to %s cannot be read"
                                   : "no memory for etcd's answer to %s",
                               paths[op->kind]);
}

/* A transaction is over. @r NULL: with @err. */
static void note_txn(const struct mr_etcd_op *op, const struct mr_txn_result *r,
                     const mr_error *err)
{
    struct mr_etcd_seconds *s = op->base.etcd->seconds;
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
        return lost_answer(op, false /* bad */, err);
    }
    for (size_t i = 0; r != NULL && i < r->n_responses; i++) {
        const Etcdserverpb__ResponseOp *o = r->responses[i];

        if (o->response_case != ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE) {
            continue;
        }
        if (result.ngets < expected && o->response_range->n_kvs > 0) {
            gets[result.ngets] = mr_etcd_kv(o->response_range->kvs[0]);
        }
        result.ngets++;
    }
    if (r == NULL || r->header == NULL || result.ngets != expected) {
        return lost_answer(op, true /* bad */, err);
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
        return lost_answer(op, true /* bad */, err);
    }
    MR_AUTO(mr_free) struct mr_kv *kvs = mr_calloc(r->n_kvs + 1, sizeof *kvs);
    struct mr_range_result result = {
        .revision = r->header->revision, .kvs = kvs, .count = r->n_kvs, .more = r->more};

    if (kvs == NULL) {
        return lost_answer(op, false /* bad */, err);
    }
    for (size_t i = 0; i < r->n_kvs; i++) {
        kvs[i] = mr_etcd_kv(r->kvs[i]);
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
        return lost_answer(op, true /* bad */, err);
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
        return lost_answer(op, true /* bad */, err);
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
    case OP_RANGE: ((mr_range_done *)op->done)(op->ctx, err->code, NULL, err); break;
    case OP_STATUS: ((mr_status_done *)op->done)(op->ctx, err->code, NULL, err); break;
    case OP_GRANT:
    case OP_RENEW:
    case OP_REVOKE:
    case OP_TTL: ((mr_lease_done *)op->done)(op->ctx, err->code, op->lease, 0, err); break;
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

/* The token it went with was not good. Once more with another one? */
static bool sent_again_locked(struct mr_etcd_op *op, mr_error *err)
{
    struct mr_etcd *e = op->base.etcd;

    if (err->code != MR_EUNAUTH || e->login == MR_ETCD_LOGIN_NONE || e->closing) {
        return false;
    }
    mr_etcd_login_lost_locked(e, op->base.login);
    if (op->again) {
        return false;
    }
    op->again = true;
    mr_etcd_conn_put_locked(e, op->base.conn);
    mr_rpc_call_unref(op->call);
    op->base.conn = NULL;
    op->call = NULL;
    return mr_etcd_request_send_locked(&op->base, err) >= 0;
}

static void op_over(void *ctx, int rc, const void *reply, size_t size, const mr_error *why)
{
    struct mr_etcd_op *op = ctx;
    struct mr_etcd *e = op->base.etcd;
    mr_error err;

    /* Taking the lock also waits for the submitter to have stored `call`. */
    mr_mutex_lock(&e->lock);
    if (rc < 0) {
        err = *why;
        mr_etcd_translate(op->kind == OP_TXN || op->kind == OP_GRANT || op->kind == OP_REVOKE,
                          &err);
        if (sent_again_locked(op, &err)) {
            mr_mutex_unlock(&e->lock);
            return;
        }
        if ((err.traits & MR_RETRYABLE) != 0 && err.code != MR_EEXHAUSTED &&
            err.code != MR_EUNAUTH && op->base.conn != NULL) {
            mr_etcd_conn_failed_locked(e, op->base.conn, &err);
        }
    } else {
        mr_etcd_conn_answered_locked(e, op->base.conn);
    }
    bool silent = e->closing;
    mr_etcd_request_end_locked(&op->base);
    mr_mutex_unlock(&e->lock);

    if (!silent && (rc < 0 || answers[op->kind](op, reply, size, &err) < 0)) {
        answer_error(op, &err);
    }
    mr_etcd_request_free(&op->base);
}

static int op_send_locked(struct mr_etcd_request *r, const char *const *metadata, mr_error *err)
{
    struct mr_etcd_op *op = (struct mr_etcd_op *)r;
    int64_t left = op->deadline_ms - mr_now_ms();

    return mr_rpc_unary(op->kind >= OP_STATUS ? r->conn->live : r->conn->bulk, paths[op->kind],
                        r->bytes.data, r->bytes.len, metadata, MR_MAX(left, 1),
                        false /* fail at once while not connected */, op_over, op, &op->call, err);
}

static void op_cancel_locked(struct mr_etcd_request *r)
{
    struct mr_etcd_op *op = (struct mr_etcd_op *)r;

    if (op->call != NULL) {
        mr_rpc_call_cancel(op->call);
    }
}

static void op_fail(struct mr_etcd_request *r, const mr_error *err)
{
    answer_error((struct mr_etcd_op *)r, err);
}

static void op_release(struct mr_etcd_request *r)
{
    mr_rpc_call_unref(((struct mr_etcd_op *)r)->call);
}

/* @as: what kind of request it is, whose lease it is about, who is told. */
static void submit(mr_store *s, struct mr_etcd_op as, struct mr_buf bytes, int64_t timeout_ms)
{
    static const struct mr_etcd_request_kind kind = {.send_locked = op_send_locked,
                                                     .cancel_locked = op_cancel_locked,
                                                     .fail = op_fail,
                                                     .release = op_release};

    as.begun_ns = mr_now_ns();
    as.deadline_ms = as.begun_ns / MR_NS_PER_MS + timeout_ms;
    as.base = (struct mr_etcd_request){.kind = &kind, .etcd = (struct mr_etcd *)s, .bytes = bytes};
    struct mr_etcd_op *op = mr_memdup(&as, sizeof as);
    if (op == NULL) {
        mr_error err;

        (void)mr_error_nomem(&err);
        mr_buf_free(&bytes);
        answer_error(&as, &err);
        return;
    }
    mr_etcd_request_begin(&op->base);
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

    submit(s, op, mr_etcd_pack_txn(txn), timeout_ms);
}

void mr_etcd_range(mr_store *s, struct mr_bytes key, struct mr_bytes end, int64_t revision,
                   int64_t limit, bool keys_only, int64_t timeout_ms, mr_range_done *done,
                   void *ctx)
{
    Etcdserverpb__RangeRequest msg = ETCDSERVERPB__RANGE_REQUEST__INIT;

    msg.key = mr_etcd_binary(key);
    msg.range_end = mr_etcd_binary(end);
    msg.revision = revision;
    msg.limit = limit;
    msg.keys_only = keys_only;
    submit(s, (struct mr_etcd_op){.kind = OP_RANGE, .done = (void *)done, .ctx = ctx},
           mr_etcd_pack(&msg.base), timeout_ms);
}

void mr_etcd_lease(mr_store *s, enum mr_lease_call call, int64_t number, int64_t timeout_ms,
                   mr_lease_done *done, void *ctx)
{
    static const enum op_kind kinds[] = {[MR_LEASE_GRANT] = OP_GRANT,
                                         [MR_LEASE_RENEW] = OP_RENEW,
                                         [MR_LEASE_REVOKE] = OP_REVOKE,
                                         [MR_LEASE_TTL] = OP_TTL};
    Etcdserverpb__LeaseGrantRequest grant = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    /* and keep-alive and time-to-live: the id is field 1 of all three */
    Etcdserverpb__LeaseRevokeRequest revoke = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    bool grants = call == MR_LEASE_GRANT;

    grant.ttl = number;
    revoke.id = number;
    submit(s,
           (struct mr_etcd_op){
               .kind = kinds[call], .lease = grants ? 0 : number, .done = (void *)done, .ctx = ctx},
           mr_etcd_pack(grants ? &grant.base : &revoke.base), timeout_ms);
}

void mr_etcd_status(mr_store *s, int64_t timeout_ms, mr_status_done *done, void *ctx)
{
    Etcdserverpb__StatusRequest msg = ETCDSERVERPB__STATUS_REQUEST__INIT;

    submit(s, (struct mr_etcd_op){.kind = OP_STATUS, .done = (void *)done, .ctx = ctx},
           mr_etcd_pack(&msg.base), timeout_ms);
}
