/*
 * A request is two events on the virtual clock: it is applied, and it is answered. Faults move them apart, or drop one.
 * Its result is copied when it is applied, because the store may have moved on by the time of the answer.
 */
#include "coord/fake/fake.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/rng.h"
#include "coord/bytes.h"
#include "coord/fake/mvcc.h"

#define STALE_REVISIONS 30 /* how old a stale read may be */

struct fake_lease {
    int64_t id;
    int64_t ttl_ms;
    int64_t expires_ms;
};

struct watch {
    struct watch *next;
    uint64_t id;
    struct mr_bytes key;
    int64_t from; /* next revision to look at */
    mr_watch_fn *fn;
    void *ctx;
};

struct client {
    mr_store store;
    struct client *next;
    mr_fake *fake;
    bool cut;
    struct {
        enum mr_fake_fault fault;
        int64_t delay_ms;
    } script[MR_FAKE_LEASE + 1];
    struct watch *watches;
};

enum request_op { REQ_TXN, REQ_RANGE, REQ_GRANT, REQ_RENEW, REQ_REVOKE, REQ_TTL };

struct request {
    enum request_op op;
    struct client *client; /* NULL once it has closed */
    enum mr_fake_fault fault;
    bool applied;
    bool answered;
    int64_t deadline_ms;
    int pending; /* events that refer to it */
    /* arguments */
    struct mr_txn txn;
    struct mr_bytes key;
    struct mr_bytes end;
    int64_t revision;
    int64_t limit;
    bool keys_only;
    int64_t lease;
    int64_t ttl_s;
    void *done;
    void *ctx;
    /* outcome, once applied */
    int rc;
    mr_error err;
    struct mr_kv *kvs;
    size_t count;
    bool flag; /* succeeded, more */
    int64_t at_revision;
};

enum event_kind { EVENT_APPLY, EVENT_ANSWER, EVENT_PUMP };

struct event {
    enum event_kind kind;
    int64_t at_ms;
    uint64_t order;
    struct request *request;
    uint64_t watch;
};

struct mr_fake {
    mr_mvcc *data;
    struct mr_rng rng;
    int64_t now_ms;
    uint64_t order;
    int64_t latency_min_ms;
    int64_t latency_max_ms;
    struct mr_fake_odds odds;
    struct client *clients;
    struct event *events;
    size_t nevents;
    size_t events_cap;
    struct fake_lease *leases;
    size_t nleases;
    size_t leases_cap;
    int64_t lease_ids;
    uint64_t watch_ids;
};

/* ---- small things ---- */

/* Room for one more. Simulation has no answer to a lack of memory, so it is an assertion here. */
static void *grow(void *array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) {
        return array;
    }
    *cap = *cap == 0 ? 16 : 2 * *cap;
    void *p = mr_reallocarray(array, *cap, size);

    MR_ASSERT(p != NULL);
    return p;
}

static struct mr_bytes dup(struct mr_bytes b)
{
    struct mr_bytes copy = mr_bytes_dup(b);

    MR_ASSERT(copy.data != NULL);
    return copy;
}

static int64_t between(mr_fake *f, int64_t lo, int64_t hi)
{
    return lo + (hi > lo ? (int64_t)mr_rng_below(&f->rng, (uint64_t)(hi - lo) + 1) : 0);
}

static void schedule(mr_fake *f, enum event_kind kind, int64_t at_ms, struct request *r, uint64_t watch)
{
    f->events = grow(f->events, f->nevents, &f->events_cap, sizeof *f->events);
    f->events[f->nevents++] = (struct event){.kind = kind,
                                             .at_ms = at_ms > f->now_ms ? at_ms : f->now_ms,
                                             .order = f->order++,
                                             .request = r,
                                             .watch = watch};
    if (r != NULL) {
        r->pending++;
    }
}

static struct fake_lease *lease_find(mr_fake *f, int64_t id)
{
    for (size_t i = 0; i < f->nleases; i++) {
        if (f->leases[i].id == id) {
            return &f->leases[i];
        }
    }
    return NULL;
}

static void pump_all(mr_fake *f)
{
    for (struct client *c = f->clients; c != NULL; c = c->next) {
        for (struct watch *w = c->watches; w != NULL; w = w->next) {
            schedule(f, EVENT_PUMP, f->now_ms + between(f, 0, f->latency_max_ms), NULL, w->id);
        }
    }
}

static void lease_drop(mr_fake *f, struct fake_lease *lease)
{
    int rc = mr_mvcc_delete_lease(f->data, lease->id, NULL);

    MR_ASSERT(rc >= 0);
    *lease = f->leases[--f->nleases];
    pump_all(f);
}

/* ---- requests ---- */

static struct mr_op *ops_dup(const struct mr_op *ops, size_t n)
{
    struct mr_op *copy = mr_calloc(n + 1, sizeof *copy);

    MR_ASSERT(copy != NULL);
    for (size_t i = 0; i < n; i++) {
        copy[i] = ops[i];
        copy[i].key = dup(ops[i].key);
        copy[i].value = dup(ops[i].value);
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
    struct mr_compare *compares = mr_calloc(txn->ncompares + 1, sizeof *compares);
    struct mr_txn copy = *txn;

    MR_ASSERT(compares != NULL);
    for (size_t i = 0; i < txn->ncompares; i++) {
        compares[i] = txn->compares[i];
        compares[i].key = dup(txn->compares[i].key);
    }
    copy.compares = compares;
    copy.success = ops_dup(txn->success, txn->nsuccess);
    copy.failure = ops_dup(txn->failure, txn->nfailure);
    return copy;
}

static void request_unref(struct request *r)
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
    r->kvs = mr_calloc(reads->count + 1, sizeof *r->kvs);
    MR_ASSERT(r->kvs != NULL);
    for (size_t i = 0; i < reads->count; i++) {
        r->kvs[i] = reads->kvs[i];
        r->kvs[i].key = dup(reads->kvs[i].key);
        r->kvs[i].value = dup(r->keys_only ? (struct mr_bytes){NULL, 0} : reads->kvs[i].value);
    }
    r->count = reads->count;
}

static int check_leases(mr_fake *f, const struct mr_txn *txn, mr_error *err)
{
    for (size_t i = 0; i < txn->nsuccess; i++) {
        const struct mr_op *op = &txn->success[i];

        if (op->kind == MR_OP_PUT && op->lease != 0 && lease_find(f, op->lease) == NULL) {
            return mr_error_set(err, MR_ENOTFOUND, "requested lease not found");
        }
    }
    return MR_OK;
}

static int apply_txn(mr_fake *f, struct request *r)
{
    struct mr_mvcc_reads reads = {0};
    int64_t before = mr_mvcc_revision(f->data);
    struct mr_txn probe = r->txn;
    bool would = false;
    int rc;

    /* A put with a dead lease matters only if its branch runs: look first, without the writes. */
    probe.nsuccess = 0;
    probe.nfailure = 0;
    rc = mr_mvcc_txn(f->data, &probe, &would, &reads, &r->err);
    if (rc >= 0 && would) {
        rc = check_leases(f, &r->txn, &r->err);
    }
    if (rc >= 0) {
        rc = mr_mvcc_txn(f->data, &r->txn, &r->flag, &reads, &r->err);
    }
    if (rc >= 0) {
        keep_reads(r, &reads);
    }
    mr_mvcc_reads_free(&reads);
    if (mr_mvcc_revision(f->data) != before) {
        pump_all(f);
    }
    return rc;
}

static int apply_range(mr_fake *f, struct request *r)
{
    struct mr_mvcc_reads reads = {0};
    int64_t at = r->revision;

    r->at_revision = mr_mvcc_revision(f->data);
    if (r->fault == MR_FAKE_STALE && at == 0) {
        int64_t oldest = mr_mvcc_compacted(f->data) > 1 ? mr_mvcc_compacted(f->data) : 1;

        at = between(f, r->at_revision - STALE_REVISIONS > oldest ? r->at_revision - STALE_REVISIONS : oldest,
                     r->at_revision);
        r->at_revision = at;
    }
    int rc = mr_mvcc_range(f->data, r->key, r->end, at, r->limit, &reads, &r->flag, &r->err);

    if (rc >= 0) {
        keep_reads(r, &reads);
    }
    mr_mvcc_reads_free(&reads);
    return rc;
}

static int apply_lease(mr_fake *f, struct request *r)
{
    struct fake_lease *lease = lease_find(f, r->lease);

    switch (r->op) {
    case REQ_GRANT:
        f->leases = grow(f->leases, f->nleases, &f->leases_cap, sizeof *f->leases);
        r->lease = ++f->lease_ids;
        r->ttl_s = r->ttl_s < 1 ? 1 : r->ttl_s;
        f->leases[f->nleases++] =
            (struct fake_lease){.id = r->lease, .ttl_ms = r->ttl_s * 1000, .expires_ms = f->now_ms + r->ttl_s * 1000};
        return MR_OK;
    case REQ_RENEW:
        r->ttl_s = lease != NULL ? lease->ttl_ms / 1000 : 0;
        if (lease != NULL) {
            lease->expires_ms = f->now_ms + lease->ttl_ms;
        }
        return MR_OK;
    case REQ_REVOKE:
        if (lease == NULL) {
            return mr_error_set(&r->err, MR_ENOTFOUND, "requested lease not found");
        }
        lease_drop(f, lease);
        return MR_OK;
    case REQ_TTL:
        r->ttl_s = lease != NULL ? (lease->expires_ms - f->now_ms) / 1000 : -1;
        return MR_OK;
    case REQ_TXN:
    case REQ_RANGE:
        break;
    }
    MR_ASSERT(!"a lease request");
    return MR_EINTERNAL;
}

static void apply(mr_fake *f, struct request *r)
{
    if (r->client != NULL && r->client->cut) {
        r->fault = MR_FAKE_LOST_REQUEST;
        return;
    }
    switch (r->op) {
    case REQ_TXN:
        r->rc = apply_txn(f, r);
        r->at_revision = mr_mvcc_revision(f->data);
        break;
    case REQ_RANGE:
        r->rc = apply_range(f, r);
        break;
    case REQ_GRANT:
    case REQ_RENEW:
    case REQ_REVOKE:
    case REQ_TTL:
        r->rc = apply_lease(f, r);
        break;
    }
    r->applied = true;
}

static bool mutates(const struct request *r)
{
    return r->op == REQ_TXN || r->op == REQ_GRANT || r->op == REQ_REVOKE;
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
        struct mr_txn_result result = {
            .succeeded = r->flag, .revision = r->at_revision, .gets = r->kvs, .ngets = r->count};

        ((mr_txn_done *)r->done)(r->ctx, rc, rc < 0 ? NULL : &result, err);
        break;
    }
    case REQ_RANGE: {
        struct mr_range_result result = {.revision = r->at_revision, .kvs = r->kvs, .count = r->count, .more = r->flag};

        ((mr_range_done *)r->done)(r->ctx, rc, rc < 0 ? NULL : &result, err);
        break;
    }
    case REQ_GRANT:
    case REQ_RENEW:
    case REQ_REVOKE:
    case REQ_TTL:
        ((mr_lease_done *)r->done)(r->ctx, rc, r->lease, r->ttl_s, err);
        break;
    }
}

static void answer(mr_fake *f, struct request *r)
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
            schedule(f, EVENT_ANSWER, r->deadline_ms, r, 0);
            return;
        }
        rc = no_answer(f, r, &err);
    } else if (!heard) {
        rc = no_answer(f, r, &err);
    }
    r->answered = true;
    call_done(r, rc, rc < 0 ? &err : NULL);
}

static enum mr_fake_fault draw(mr_fake *f, struct client *c, enum mr_fake_kind kind, int64_t *delay_ms)
{
    enum mr_fake_fault fault = c->script[kind].fault;

    *delay_ms = c->script[kind].delay_ms;
    c->script[kind].fault = MR_FAKE_NONE;
    if (fault != MR_FAKE_NONE || f->odds.delay_ms_max == 0) {
        return fault;
    }
    int64_t dice = between(f, 0, 999);

    for (int i = MR_FAKE_DELAYED; i < MR_FAKE_FAULTS; i++) {
        dice -= f->odds.permille[i];
        if (dice < 0) {
            *delay_ms = between(f, 1, f->odds.delay_ms_max);
            return (enum mr_fake_fault)i;
        }
    }
    return MR_FAKE_NONE;
}

static struct request *request_new(mr_store *s, enum request_op op, void *done, void *ctx)
{
    struct request *r = mr_calloc(1, sizeof *r);

    MR_ASSERT(r != NULL);
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
    int64_t there = between(f, f->latency_min_ms, f->latency_max_ms);
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
        schedule(f, EVENT_APPLY, there, r, 0);
        schedule(f, EVENT_ANSWER, there + back, r, 0);
        break;
    case MR_FAKE_DELAYED:
        schedule(f, EVENT_APPLY, there + delay_ms, r, 0);
        schedule(f, EVENT_ANSWER, there + delay_ms + back < r->deadline_ms ? there + delay_ms + back : r->deadline_ms,
                 r, 0);
        break;
    case MR_FAKE_APPLIED_LATER:
        schedule(f, EVENT_ANSWER, there + back, r, 0);
        schedule(f, EVENT_APPLY, there + back + delay_ms, r, 0);
        break;
    case MR_FAKE_LOST_REQUEST:
    case MR_FAKE_REFUSED:
    case MR_FAKE_UNAVAILABLE:
        schedule(f, EVENT_ANSWER, there + back, r, 0);
        break;
    }
}

/* ---- the port ---- */

static void fake_txn(mr_store *s, const struct mr_txn *txn, int64_t timeout_ms, mr_txn_done *done, void *ctx)
{
    struct request *r = request_new(s, REQ_TXN, (void *)done, ctx);

    r->txn = txn_dup(txn);
    submit(r, MR_FAKE_TXN, timeout_ms);
}

static void fake_range(mr_store *s, struct mr_bytes key, struct mr_bytes end, int64_t revision, int64_t limit,
                       bool keys_only, int64_t timeout_ms, mr_range_done *done, void *ctx)
{
    struct request *r = request_new(s, REQ_RANGE, (void *)done, ctx);

    r->key = dup(key);
    r->end = dup(end);
    r->revision = revision;
    r->limit = limit;
    r->keys_only = keys_only;
    submit(r, MR_FAKE_RANGE, timeout_ms);
}

static void lease_request(mr_store *s, enum request_op op, int64_t lease, int64_t ttl_s, int64_t timeout_ms,
                          mr_lease_done *done, void *ctx)
{
    struct request *r = request_new(s, op, (void *)done, ctx);

    r->lease = lease;
    r->ttl_s = ttl_s;
    submit(r, MR_FAKE_LEASE, timeout_ms);
}

static void fake_grant(mr_store *s, int64_t ttl_s, int64_t timeout_ms, mr_lease_done *done, void *ctx)
{
    lease_request(s, REQ_GRANT, 0, ttl_s, timeout_ms, done, ctx);
}

static void fake_renew(mr_store *s, int64_t lease, int64_t timeout_ms, mr_lease_done *done, void *ctx)
{
    lease_request(s, REQ_RENEW, lease, 0, timeout_ms, done, ctx);
}

static void fake_revoke(mr_store *s, int64_t lease, int64_t timeout_ms, mr_lease_done *done, void *ctx)
{
    lease_request(s, REQ_REVOKE, lease, 0, timeout_ms, done, ctx);
}

static void fake_ttl(mr_store *s, int64_t lease, int64_t timeout_ms, mr_lease_done *done, void *ctx)
{
    lease_request(s, REQ_TTL, lease, 0, timeout_ms, done, ctx);
}

static uint64_t fake_watch(mr_store *s, struct mr_bytes key, int64_t revision, mr_watch_fn *fn, void *ctx)
{
    struct client *c = (struct client *)s;
    mr_fake *f = c->fake;
    struct watch *w = mr_calloc(1, sizeof *w);

    MR_ASSERT(w != NULL);
    *w = (struct watch){.next = c->watches,
                        .id = ++f->watch_ids,
                        .key = dup(key),
                        .from = revision > 0 ? revision : mr_mvcc_revision(f->data) + 1,
                        .fn = fn,
                        .ctx = ctx};
    c->watches = w;
    schedule(f, EVENT_PUMP, f->now_ms + between(f, f->latency_min_ms, f->latency_max_ms), NULL, w->id);
    return w->id;
}

/* Unlink the watch of that id from its client; the caller frees it. */
static struct watch *watch_take(struct client *c, uint64_t id)
{
    for (struct watch **p = &c->watches; *p != NULL; p = &(*p)->next) {
        if ((*p)->id == id) {
            struct watch *w = *p;

            *p = w->next;
            return w;
        }
    }
    return NULL;
}

static void watch_free(struct watch *w)
{
    if (w != NULL) {
        mr_bytes_free(w->key);
        mr_free(w);
    }
}

static void fake_watch_cancel(mr_store *s, uint64_t id)
{
    watch_free(watch_take((struct client *)s, id));
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
        watch_free(watch_take(c, c->watches->id));
    }
    for (struct client **p = &f->clients; *p != NULL; p = &(*p)->next) {
        if (*p == c) {
            *p = c->next;
            break;
        }
    }
    mr_free(c);
}

static const struct mr_store_ops fake_ops = {
    .txn = fake_txn,
    .range = fake_range,
    .lease_grant = fake_grant,
    .lease_renew = fake_renew,
    .lease_revoke = fake_revoke,
    .lease_ttl = fake_ttl,
    .watch = fake_watch,
    .watch_cancel = fake_watch_cancel,
    .close = fake_close,
};

/* ---- watches ---- */

static struct client *watch_owner(mr_fake *f, uint64_t id, struct watch **ret)
{
    for (struct client *c = f->clients; c != NULL; c = c->next) {
        for (struct watch *w = c->watches; w != NULL; w = w->next) {
            if (w->id == id) {
                *ret = w;
                return c;
            }
        }
    }
    return NULL;
}

/* Tell one watch everything that it has not been told. The callback may cancel it, so it is looked up anew each time.
 */
static void pump(mr_fake *f, uint64_t id)
{
    struct watch *w = NULL;
    struct client *c;

    while ((c = watch_owner(f, id, &w)) != NULL && !c->cut) {
        struct mr_watch_event event;

        if (w->from < mr_mvcc_compacted(f->data)) {
            mr_error err;
            int rc = mr_error_set(&err, MR_ERANGE, "watching from %lld: compacted at %lld", (long long)w->from,
                                  (long long)mr_mvcc_compacted(f->data));

            watch_take(c, id);
            w->fn(w->ctx, rc, NULL, 0, mr_mvcc_compacted(f->data), &err);
            watch_free(w);
            return;
        }
        if (!mr_mvcc_next_event(f->data, w->key, w->from, &event)) {
            w->from = mr_mvcc_revision(f->data) + 1;
            return;
        }
        w->from = event.kv.mod_revision + 1;
        w->fn(w->ctx, MR_OK, &event, 1, event.kv.mod_revision, NULL);
    }
}

void mr_fake_break_watches(mr_store *s)
{
    struct client *c = (struct client *)s;
    struct watch *w = c->watches;

    c->watches = NULL;
    while (w != NULL) {
        struct watch *next = w->next;
        mr_error err;
        int rc = mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "watch stream broken");

        w->fn(w->ctx, rc, NULL, 0, 0, &err);
        watch_free(w);
        w = next;
    }
}

/* ---- time ---- */

/* The earliest event, or `nevents`. */
static size_t earliest(const mr_fake *f)
{
    size_t best = 0;

    for (size_t i = 1; i < f->nevents; i++) {
        const struct event *a = &f->events[i];
        const struct event *b = &f->events[best];

        if (a->at_ms < b->at_ms || (a->at_ms == b->at_ms && a->order < b->order)) {
            best = i;
        }
    }
    return f->nevents > 0 ? best : f->nevents;
}

static struct fake_lease *first_expiry(const mr_fake *f)
{
    struct fake_lease *first = NULL;

    for (size_t i = 0; i < f->nleases; i++) {
        if (first == NULL || f->leases[i].expires_ms < first->expires_ms) {
            first = &f->leases[i];
        }
    }
    return first;
}

int64_t mr_fake_now_ms(const mr_fake *f)
{
    return f->now_ms;
}

int64_t mr_fake_next_ms(const mr_fake *f)
{
    size_t i = earliest(f);
    const struct fake_lease *lease = first_expiry(f);
    int64_t next = i < f->nevents ? f->events[i].at_ms : INT64_MAX;

    return lease != NULL && lease->expires_ms < next ? lease->expires_ms : next;
}

static void run(mr_fake *f, struct event e)
{
    switch (e.kind) {
    case EVENT_APPLY:
        apply(f, e.request);
        break;
    case EVENT_ANSWER:
        answer(f, e.request);
        break;
    case EVENT_PUMP:
        pump(f, e.watch);
        break;
    }
    if (e.request != NULL) {
        request_unref(e.request);
    }
}

bool mr_fake_step(mr_fake *f, int64_t until_ms)
{
    int64_t next = mr_fake_next_ms(f);
    struct fake_lease *lease = first_expiry(f);

    if (next > until_ms) {
        f->now_ms = until_ms > f->now_ms ? until_ms : f->now_ms;
        return false;
    }
    f->now_ms = next > f->now_ms ? next : f->now_ms;
    if (lease != NULL && lease->expires_ms <= next) {
        lease_drop(f, lease);
        return true;
    }
    size_t i = earliest(f);
    struct event e = f->events[i];

    f->events[i] = f->events[--f->nevents];
    run(f, e);
    return true;
}

void mr_fake_advance(mr_fake *f, int64_t ms)
{
    int64_t until = f->now_ms + ms;

    while (mr_fake_step(f, until)) {
    }
}

/* ---- set-up and faults ---- */

int mr_fake_new(uint64_t seed, mr_fake **ret, mr_error *err)
{
    mr_fake *f = mr_calloc(1, sizeof *f);

    if (f != NULL) {
        f->data = mr_mvcc_new();
    }
    if (f == NULL || f->data == NULL) {
        mr_free(f);
        return mr_error_nomem(err);
    }
    mr_rng_seed(&f->rng, seed);
    f->latency_min_ms = 1;
    f->latency_max_ms = 3;
    *ret = f;
    return MR_OK;
}

void mr_fake_free(mr_fake *f)
{
    if (f == NULL) {
        return;
    }
    MR_ASSERT(f->clients == NULL);
    for (size_t i = 0; i < f->nevents; i++) {
        if (f->events[i].request != NULL) {
            request_unref(f->events[i].request);
        }
    }
    mr_free(f->events);
    mr_free(f->leases);
    mr_mvcc_free(f->data);
    mr_free(f);
}

int mr_fake_connect(mr_fake *f, mr_store **ret, mr_error *err)
{
    struct client *c = mr_calloc(1, sizeof *c);

    if (c == NULL) {
        return mr_error_nomem(err);
    }
    c->store.ops = &fake_ops;
    c->fake = f;
    c->next = f->clients;
    f->clients = c;
    *ret = &c->store;
    return MR_OK;
}

void mr_fake_latency(mr_fake *f, int64_t min_ms, int64_t max_ms)
{
    f->latency_min_ms = min_ms;
    f->latency_max_ms = max_ms;
}

void mr_fake_odds(mr_fake *f, const struct mr_fake_odds *odds)
{
    f->odds = odds != NULL ? *odds : (struct mr_fake_odds){0};
}

void mr_fake_script(mr_store *s, enum mr_fake_kind kind, enum mr_fake_fault fault, int64_t delay_ms)
{
    struct client *c = (struct client *)s;

    c->script[kind].fault = fault;
    c->script[kind].delay_ms = delay_ms;
}

void mr_fake_cut(mr_store *s, bool cut)
{
    struct client *c = (struct client *)s;

    c->cut = cut;
    for (struct watch *w = c->watches; w != NULL && !cut; w = w->next) {
        schedule(c->fake, EVENT_PUMP, c->fake->now_ms, NULL, w->id);
    }
}

int mr_fake_compact(mr_fake *f, int64_t revision, mr_error *err)
{
    return mr_mvcc_compact(f->data, revision, err);
}

bool mr_fake_expire(mr_fake *f, int64_t lease)
{
    struct fake_lease *l = lease_find(f, lease);

    if (l != NULL) {
        lease_drop(f, l);
    }
    return l != NULL;
}

int64_t mr_fake_revision(const mr_fake *f)
{
    return mr_mvcc_revision(f->data);
}

struct mr_kv mr_fake_get(const mr_fake *f, const char *key)
{
    struct mr_mvcc_reads reads = {0};
    struct mr_kv kv = {0};
    bool more;
    int rc = mr_mvcc_range(f->data, mr_bytes_str(key), (struct mr_bytes){0}, 0, 0, &reads, &more, NULL);

    MR_ASSERT(rc >= 0);
    if (reads.count > 0) {
        kv = reads.kvs[0];
    }
    mr_mvcc_reads_free(&reads);
    return kv;
}
