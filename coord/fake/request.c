/* A request is two events on the virtual clock: it is applied, and it is answered. Faults move them
 * apart, or drop one. Its result is copied when it is applied, because the store may have moved on
 * by the time of the answer. */
#include "coord/fake/internal.h"

#define STALE_REVISIONS 30 /* how old a stale read may be */

/* ---- requests ---- */

static struct mr_op *ops_dup(const struct mr_op *ops, size_t n)
{
    struct mr_op *copy = mr_fake_zeroed(n, sizeof *copy);

    for (size_t i = 0; i < n; i++) {
        copy[i] = ops[i];
        copy[i].key = mr_fake_dup(ops[i].key);
        copy[i].value = mr_fake_dup(ops[i].value);
    }
    return copy;
}

static void ops_free(const struct mr_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mr_bytes_free(ops[i].key);
        mr_bytes_free(ops[i].value);
    }
    mr_free((void *)(uintptr_t)ops);
}

static struct mr_txn txn_dup(const struct mr_txn *txn)
{
    struct mr_compare *compares = mr_fake_zeroed(txn->ncompares, sizeof *compares);
    struct mr_txn copy = *txn;

    for (size_t i = 0; i < txn->ncompares; i++) {
        compares[i] = txn->compares[i];
        compares[i].key = mr_fake_dup(txn->compares[i].key);
    }
    copy.compares = compares;
    copy.success = ops_dup(txn->success, txn->nsuccess);
    copy.failure = ops_dup(txn->failure, txn->nfailure);
    return copy;
}

void mr_fake_request_unref(struct request *r)
{
    if (--r->pending > 0) {
        return;
    }
    for (size_t i = 0; i < r->txn.ncompares; i++) {
        mr_bytes_free(r->txn.compares[i].key);
    }
    mr_free((void *)(uintptr_t)r->txn.compares);
    ops_free(r->txn.success, r->txn.nsuccess);
    ops_free(r->txn.failure, r->txn.nfailure);
    mr_bytes_free(r->key);
    mr_bytes_free(r->end);
    for (size_t i = 0; i < r->count; i++) {
        mr_bytes_free(r->kvs[i].key);
        mr_bytes_free(r->kvs[i].value);
    }
    mr_free(r->kvs);
    mr_free(r);
}

static void keep_reads(struct request *r, const struct mr_mvcc_reads *reads)
{
    r->kvs = mr_fake_zeroed(reads->count, sizeof *r->kvs);
    for (size_t i = 0; i < reads->count; i++) {
        r->kvs[i] = reads->kvs[i];
        r->kvs[i].key = mr_fake_dup(reads->kvs[i].key);
        r->kvs[i].value =
            mr_fake_dup(r->keys_only ? (struct mr_bytes){NULL, 0} : reads->kvs[i].value);
    }
    r->count = reads->count;
}

static int check_leases(mr_fake *f, const struct mr_txn *txn, mr_error *err)
{
    for (size_t i = 0; i < txn->nsuccess; i++) {
        const struct mr_op *op = &txn->success[i];

        if (op->kind == MR_OP_PUT && op->lease != 0 && mr_fake_lease_find(f, op->lease) == NULL) {
            return mr_error_set(err, MR_ENOTFOUND, "requested lease not found");
        }
    }
    return MR_OK;
}

static int apply_txn(mr_fake *f, struct request *r)
{
    struct mr_mvcc_reads read = {0};
    MR_AUTO(mr_mvcc_reads_free) struct mr_mvcc_reads *reads = &read;
    int64_t before = mr_mvcc_revision(f->data);

    /* A put with a dead lease matters only if its branch runs. */
    MR_TRY(mr_mvcc_holds(f->data, &r->txn) ? check_leases(f, &r->txn, &r->err) : MR_OK);
    MR_TRY(mr_mvcc_txn(f->data, &r->txn, &r->flag, reads, &r->err));
    if (f->observer != NULL) {
        f->observer(f->observer_ctx, &r->txn, r->flag, mr_mvcc_revision(f->data));
    }
    keep_reads(r, reads);
    if (mr_mvcc_revision(f->data) != before) {
        mr_fake_pump_all(f);
    }
    return MR_OK;
}

static int apply_range(mr_fake *f, struct request *r)
{
    struct mr_mvcc_reads read = {0};
    MR_AUTO(mr_mvcc_reads_free) struct mr_mvcc_reads *reads = &read;
    int64_t at = r->revision;

    r->at_revision = mr_mvcc_revision(f->data);
    if (r->fault == MR_FAKE_STALE && at == 0) {
        int64_t oldest = MR_MAX(mr_mvcc_compacted(f->data), 1);

        at = mr_fake_between(f, MR_MAX(r->at_revision - STALE_REVISIONS, oldest), r->at_revision);
        r->at_revision = at;
    }
    MR_TRY(mr_mvcc_range(f->data, r->key, r->end, at, r->limit, reads, &r->flag, &r->err));
    keep_reads(r, reads);
    return MR_OK;
}

static int apply_lease(mr_fake *f, struct request *r)
{
    struct fake_lease *lease = mr_fake_lease_find(f, r->lease);

    switch (r->lease_call) {
    case MR_LEASE_GRANT:
        f->leases = mr_fake_grow(f->leases, f->nleases, &f->leases_cap, sizeof *f->leases);
        r->lease = ++f->lease_ids;
        r->ttl_s = r->ttl_s < 1 ? 1 : r->ttl_s;
        f->leases[f->nleases++] = (struct fake_lease){
            .id = r->lease, .ttl_ms = r->ttl_s * 1000, .expires_ms = f->now_ms + r->ttl_s * 1000};
        return MR_OK;
    case MR_LEASE_RENEW:
        r->ttl_s = lease != NULL ? lease->ttl_ms / 1000 : 0;
        if (lease != NULL) {
            int64_t expires_ms = f->now_ms + lease->ttl_ms;

            lease->expires_ms = MR_MAX(expires_ms, lease->expires_ms);
        }
        return MR_OK;
    case MR_LEASE_REVOKE:
        if (lease == NULL) {
            return mr_error_set(&r->err, MR_ENOTFOUND, "requested lease not found");
        }
        mr_fake_lease_drop(f, lease);
        return MR_OK;
    case MR_LEASE_TTL:
        r->ttl_s = lease != NULL ? (lease->expires_ms - f->now_ms) / 1000 : -1;
        return MR_OK;
    }
    return MR_EINTERNAL;
}

static bool grants(const struct request *r)
{
    return r->op == REQ_LEASE && r->lease_call == MR_LEASE_GRANT;
}

/* As etcd counts: what either branch would put. */
static bool needs_space(const struct request *r)
{
    bool any = grants(r);

    for (size_t i = 0; i < r->txn.nsuccess; i++) {
        any = any || r->txn.success[i].kind == MR_OP_PUT;
    }
    return any;
}

/* Is it refused for want of space? The first one that puts is applied first. */
static bool refused_full(mr_fake *f, struct request *r)
{
    if (!f->full || !needs_space(r)) {
        return false;
    }
    if (r->op == REQ_TXN && !f->overflowed) {
        f->overflowed = true;
        (void)apply_txn(f, r);
    }
    r->rc = mr_error_set_traits(&r->err, MR_EEXHAUSTED, MR_RETRYABLE | MR_MAYBE_APPLIED,
                                "database space exceeded");
    r->applied = true;
    return true;
}

void mr_fake_apply(mr_fake *f, struct request *r)
{
    if (r->client != NULL && r->client->cut) {
        r->fault = MR_FAKE_LOST_REQUEST;
        return;
    }
    if (refused_full(f, r)) {
        return;
    }
    switch (r->op) {
    case REQ_TXN:
        r->rc = apply_txn(f, r);
        r->at_revision = mr_mvcc_revision(f->data);
        r->store_id = f->store_id;
        break;
    case REQ_RANGE: r->rc = apply_range(f, r); break;
    case REQ_LEASE: r->rc = apply_lease(f, r); break;
    case REQ_STATUS: r->flag = f->full; break;
    }
    r->applied = true;
}

static bool mutates(const struct request *r)
{
    return r->op == REQ_TXN || grants(r) ||
           (r->op == REQ_LEASE && r->lease_call == MR_LEASE_REVOKE);
}

/* What the client is told instead of an answer. */
static int no_answer(mr_fake *f, struct request *r, mr_error *err)
{
    uint32_t traits = MR_RETRYABLE | (mutates(r) ? (uint32_t)MR_MAYBE_APPLIED : 0u);

    if (f->now_ms >= r->deadline_ms) {
        return mr_error_set_traits(err, MR_EDEADLINE, traits, "no answer by the deadline");
    }
    return mr_error_set_traits(err, MR_EUNAVAIL, traits, "connection lost");
}

static void call_done(struct request *r, int rc, const mr_error *err)
{
    switch (r->op) {
    case REQ_TXN: {
        struct mr_txn_result result = {.succeeded = r->flag,
                                       .revision = r->at_revision,
                                       .store_id = r->store_id,
                                       .gets = r->kvs,
                                       .ngets = r->count};

        ((mr_txn_done *)r->done)(r->ctx, rc, rc < 0 ? NULL : &result, err);
        break;
    }
    case REQ_RANGE: {
        struct mr_range_result result = {
            .revision = r->at_revision, .kvs = r->kvs, .count = r->count, .more = r->flag};

        ((mr_range_done *)r->done)(r->ctx, rc, rc < 0 ? NULL : &result, err);
        break;
    }
    case REQ_LEASE: ((mr_lease_done *)r->done)(r->ctx, rc, r->lease, r->ttl_s, err); break;
    case REQ_STATUS: {
        struct mr_store_status st = {.full = r->flag, .version = "fake"};

        ((mr_status_done *)r->done)(r->ctx, rc, rc < 0 ? NULL : &st, err);
        break;
    }
    }
}

void mr_fake_answer(mr_fake *f, struct request *r)
{
    mr_error err = r->err;
    int rc = r->rc;
    bool heard = r->applied && r->fault != MR_FAKE_LOST_ANSWER && f->now_ms <= r->deadline_ms;

    if (r->answered || r->client == NULL) {
        return;
    }
    if (r->fault == MR_FAKE_REFUSED) {
        rc = mr_error_set(&err, MR_EINVAL, "refused, as the script says");
    } else if (r->fault == MR_FAKE_UNAVAILABLE) {
        rc = mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "not connected");
    } else if (r->client->cut || r->fault == MR_FAKE_LOST_REQUEST) {
        if (f->now_ms < r->deadline_ms && r->client->cut) {
            mr_fake_schedule(f, EVENT_ANSWER, r->deadline_ms, r, 0);
            return;
        }
        rc = no_answer(f, r, &err);
    } else if (!heard) {
        rc = no_answer(f, r, &err);
    }
    r->answered = true;
    call_done(r, rc, rc < 0 ? &err : NULL);
}

static enum mr_fake_fault draw(mr_fake *f, struct client *c, enum mr_fake_kind kind,
                               int64_t *delay_ms)
{
    enum mr_fake_fault fault = c->script[kind].fault;

    *delay_ms = c->script[kind].delay_ms;
    c->script[kind].fault = MR_FAKE_NONE;
    if (fault != MR_FAKE_NONE || f->odds.delay_ms_max == 0) {
        return fault;
    }
    int64_t dice = mr_fake_between(f, 0, 999);

    for (int i = MR_FAKE_DELAYED; i < MR_FAKE_FAULTS; i++) {
        dice -= f->odds.permille[i];
        if (dice < 0) {
            *delay_ms = mr_fake_between(f, 1, f->odds.delay_ms_max);
            return (enum mr_fake_fault)i;
        }
    }
    return MR_FAKE_NONE;
}

static struct request *request_new(mr_store *s, enum request_op op, void *done, void *ctx)
{
    struct request *r = mr_fake_zeroed(1, sizeof *r);

    r->op = op;
    r->client = (struct client *)s;
    r->done = done;
    r->ctx = ctx;
    return r;
}

static void submit(struct request *r, enum mr_fake_kind kind, int64_t timeout_ms)
{
    mr_fake *f = r->client->fake;
    int64_t delay_ms = 0;
    int64_t there = mr_fake_between(f, MR_FAKE_LATENCY_MIN_MS, MR_FAKE_LATENCY_MAX_MS);
    int64_t back = there / 2;

    r->fault = draw(f, r->client, kind, &delay_ms);
    if (r->fault == MR_FAKE_STALE) {
        r->fault = kind == MR_FAKE_RANGE ? MR_FAKE_STALE : MR_FAKE_NONE;
    } else if (kind != MR_FAKE_TXN && r->fault >= MR_FAKE_REFUSED) {
        r->fault = MR_FAKE_LOST_REQUEST;
    }
    r->deadline_ms = f->now_ms + timeout_ms;
    there = f->now_ms + there - back;
    switch (r->fault) {
    case MR_FAKE_NONE:
    case MR_FAKE_LOST_ANSWER:
    case MR_FAKE_STALE:
    case MR_FAKE_FAULTS:
        mr_fake_schedule(f, EVENT_APPLY, there, r, 0);
        mr_fake_schedule(f, EVENT_ANSWER, there + back, r, 0);
        break;
    case MR_FAKE_DELAYED:
        mr_fake_schedule(f, EVENT_APPLY, there + delay_ms, r, 0);
        mr_fake_schedule(f, EVENT_ANSWER,
                         there + delay_ms + back < r->deadline_ms ? there + delay_ms + back
                                                                  : r->deadline_ms,
                         r, 0);
        break;
    case MR_FAKE_APPLIED_LATER:
        mr_fake_schedule(f, EVENT_ANSWER, there + back, r, 0);
        mr_fake_schedule(f, EVENT_APPLY, there + back + delay_ms, r, 0);
        break;
    case MR_FAKE_LOST_REQUEST:
    case MR_FAKE_REFUSED:
    case MR_FAKE_UNAVAILABLE: mr_fake_schedule(f, EVENT_ANSWER, there + back, r, 0); break;
    }
}

/* ---- the port ---- */

static void fake_txn(mr_store *s, const struct mr_txn *txn, int64_t timeout_ms, mr_txn_done *done,
                     void *ctx)
{
    struct request *r = request_new(s, REQ_TXN, (void *)done, ctx);

    r->txn = txn_dup(txn);
    submit(r, MR_FAKE_TXN, timeout_ms);
}

static void fake_range(mr_store *s, struct mr_bytes key, struct mr_bytes end, int64_t revision,
                       int64_t limit, bool keys_only, int64_t timeout_ms, mr_range_done *done,
                       void *ctx)
{
    struct request *r = request_new(s, REQ_RANGE, (void *)done, ctx);

    r->key = mr_fake_dup(key);
    r->end = mr_fake_dup(end);
    r->revision = revision;
    r->limit = limit;
    r->keys_only = keys_only;
    submit(r, MR_FAKE_RANGE, timeout_ms);
}

static void fake_lease(mr_store *s, enum mr_lease_call call, int64_t number, int64_t timeout_ms,
                       mr_lease_done *done, void *ctx)
{
    struct request *r = request_new(s, REQ_LEASE, (void *)done, ctx);

    r->lease_call = call;
    r->lease = call != MR_LEASE_GRANT ? number : 0;
    r->ttl_s = call == MR_LEASE_GRANT ? number : 0;
    submit(r, MR_FAKE_LEASE, timeout_ms);
}

static void fake_status(mr_store *s, int64_t timeout_ms, mr_status_done *done, void *ctx)
{
    submit(request_new(s, REQ_STATUS, (void *)done, ctx), MR_FAKE_LEASE, timeout_ms);
}

static uint64_t fake_watch(mr_store *s, struct mr_bytes key, int64_t revision, mr_watch_fn *fn,
                           void *ctx)
{
    struct client *c = (struct client *)s;
    mr_fake *f = c->fake;
    struct watch *w = mr_fake_zeroed(1, sizeof *w);

    *w = (struct watch){.next = c->watches,
                        .id = ++f->watch_ids,
                        .key = mr_fake_dup(key),
                        .from = revision > 0 ? revision : mr_mvcc_revision(f->data) + 1,
                        .fn = fn,
                        .ctx = ctx};
    c->watches = w;
    mr_fake_schedule(f, EVENT_PUMP,
                     f->now_ms + mr_fake_between(f, MR_FAKE_LATENCY_MIN_MS, MR_FAKE_LATENCY_MAX_MS),
                     NULL, w->id);
    return w->id;
}

static void fake_watch_cancel(mr_store *s, uint64_t id)
{
    mr_fake_watch_free(mr_fake_watch_take((struct client *)s, id));
}

static void fake_close(mr_store *s)
{
    struct client *c = (struct client *)s;
    mr_fake *f = c->fake;

    for (size_t i = 0; i < f->nevents; i++) {
        struct request *r = f->events[i].request;

        if (r != NULL && r->client == c) {
            r->client = NULL;
        }
    }
    while (c->watches != NULL) {
        mr_fake_watch_free(mr_fake_watch_take(c, c->watches->id));
    }
    for (struct client **p = &f->clients; *p != NULL; p = &(*p)->next) {
        if (*p == c) {
            *p = c->next;
            break;
        }
    }
    mr_free(c);
}

const struct mr_store_ops mr_fake_ops = {
    .txn = fake_txn,
    .range = fake_range,
    .lease = fake_lease,
    .status = fake_status,
    .watch = fake_watch,
    .watch_cancel = fake_watch_cancel,
    .close = fake_close,
};
