/* etcd's messages: packing requests, and what its errors mean. */
#include "coord/etcd/internal.h"
#include "etcd/rpc.pb-c.h"

ProtobufCBinaryData mr_etcd_binary(struct mr_bytes b)
{
    return (ProtobufCBinaryData){.len = b.size, .data = (uint8_t *)(uintptr_t)b.data};
}

struct mr_buf mr_etcd_pack(const ProtobufCMessage *msg)
{
    struct mr_buf b = MR_BUF_INIT;
    size_t size = protobuf_c_message_get_packed_size(msg);
    void *p = mr_buf_reserve(&b, size + 1);

    if (p != NULL) {
        b.len = protobuf_c_message_pack(msg, p);
    }
    return b;
}

/* One operation and the message inside it; both live in arrays, so that packing needs two
 * allocations and no more. */
struct op_storage {
    Etcdserverpb__RequestOp op;
    union {
        Etcdserverpb__RangeRequest range;
        Etcdserverpb__PutRequest put;
        Etcdserverpb__DeleteRangeRequest del;
    } in;
};

static void fill_op(struct op_storage *st, const struct mr_op *op)
{
    etcdserverpb__request_op__init(&st->op);
    switch (op->kind) {
    case MR_OP_PUT:
        etcdserverpb__put_request__init(&st->in.put);
        st->in.put.key = mr_etcd_binary(op->key);
        st->in.put.value = mr_etcd_binary(op->value);
        st->in.put.lease = op->lease;
        st->op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
        st->op.request_put = &st->in.put;
        break;
    case MR_OP_DELETE:
        etcdserverpb__delete_range_request__init(&st->in.del);
        st->in.del.key = mr_etcd_binary(op->key);
        st->op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
        st->op.request_delete_range = &st->in.del;
        break;
    case MR_OP_GET:
        etcdserverpb__range_request__init(&st->in.range);
        st->in.range.key = mr_etcd_binary(op->key);
        st->op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
        st->op.request_range = &st->in.range;
        break;
    }
}

static void fill_compare(Etcdserverpb__Compare *out, const struct mr_compare *c)
{
    etcdserverpb__compare__init(out);
    out->key = mr_etcd_binary(c->key);
    if (c->target == MR_COMPARE_CREATE) {
        out->target = 1;
        out->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
        out->create_revision = c->revision;
    } else {
        out->target = 2;
        out->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
        out->mod_revision = c->revision;
    }
}

struct mr_buf mr_etcd_pack_txn(const struct mr_txn *txn)
{
    size_t nops = txn->nsuccess + txn->nfailure;
    size_t n = txn->ncompares + nops;
    Etcdserverpb__TxnRequest msg = ETCDSERVERPB__TXN_REQUEST__INIT;
    MR_AUTO(mr_free) struct op_storage *ops = mr_calloc(nops + 1, sizeof *ops);
    MR_AUTO(mr_free)
    Etcdserverpb__Compare *compares = mr_calloc(txn->ncompares + 1, sizeof *compares);
    MR_AUTO(mr_free) void **pointers = mr_calloc(n + 1, sizeof *pointers);

    if (ops == NULL || compares == NULL || pointers == NULL) {
        return (struct mr_buf){.failed = true};
    }
    for (size_t i = 0; i < nops; i++) {
        fill_op(&ops[i], i < txn->nsuccess ? &txn->success[i] : &txn->failure[i - txn->nsuccess]);
        pointers[i] = &ops[i].op;
    }
    for (size_t i = 0; i < txn->ncompares; i++) {
        fill_compare(&compares[i], &txn->compares[i]);
        pointers[nops + i] = &compares[i];
    }
    msg.n_success = txn->nsuccess;
    msg.success = (Etcdserverpb__RequestOp **)pointers;
    msg.n_failure = txn->nfailure;
    msg.failure = (Etcdserverpb__RequestOp **)(pointers + txn->nsuccess);
    msg.n_compare = txn->ncompares;
    msg.compare = (Etcdserverpb__Compare **)(pointers + nops);
    return mr_etcd_pack(&msg.base);
}

static struct mr_bytes bytes_of(ProtobufCBinaryData b)
{
    return (struct mr_bytes){b.data, b.len};
}

struct mr_kv mr_etcd_kv(const Etcdserverpb__KeyValue *kv)
{
    return (struct mr_kv){.key = bytes_of(kv->key),
                          .value = bytes_of(kv->value),
                          .create_revision = kv->create_revision,
                          .mod_revision = kv->mod_revision,
                          .lease = kv->lease};
}

/* etcd has several codes for "I do not know who you are"; here there is one. */
static void translate_login(mr_error *err)
{
    if (err->code == MR_EINVAL && strstr(err->message, "user name is empty") != NULL) {
        (void)mr_error_set(err, MR_EUNAUTH, "etcd wants a user and a password: %s",
                           "etcdserver: user name is empty");
    } else if (err->code == MR_EINVAL &&
               strstr(err->message, "revision of auth store is old") != NULL) {
        err->code = MR_EUNAUTH;
    }
}

static bool definite(const mr_error *err)
{
    switch (err->code) {
    case MR_EINVAL:
    case MR_ENOTFOUND:
    case MR_EPERM:
    case MR_EPRECOND:
    case MR_ERANGE:
    case MR_EUNAUTH:
    case MR_EUNIMPL: return true;
    case MR_EEXHAUSTED:
        /* "database space exceeded" may come after the proposal was made; the others come before
         * it. */
        return strstr(err->message, "space exceeded") == NULL;
    default: return false;
    }
}

void mr_etcd_translate(bool mutates, mr_error *err)
{
    translate_login(err);

    bool final = definite(err);

    err->traits = 0;
    if (err->code == MR_EEXHAUSTED && strstr(err->message, "larger than max") != NULL) {
        err->code = MR_EINVAL; /* The request's fault, not the store's. */
    }
    if (!final && mutates) {
        err->traits |= MR_MAYBE_APPLIED;
    }
    /* A learner ("not supported for learner"), "too many requests" and a token that ran out refuse
     * now; another member, or later, may not. */
    if (!final || err->code == MR_EEXHAUSTED || err->code == MR_EPRECOND ||
        err->code == MR_EUNAUTH) {
        err->traits |= MR_RETRYABLE;
    }
}
