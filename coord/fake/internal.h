/* What the files of the fake share. */
#pragma once

#include "base/rng.h"
#include "coord/bytes.h"
#include "coord/fake/fake.h"
#include "coord/fake/mvcc.h"

#include <stdlib.h>

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
    bool deaf;
    struct {
        enum mr_fake_fault fault;
        int64_t delay_ms;
    } script[MR_FAKE_LEASE + 1];
    struct watch *watches;
};

enum request_op { REQ_TXN, REQ_RANGE, REQ_LEASE, REQ_STATUS };

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
    enum mr_lease_call lease_call;
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
    uint64_t store_id;
};

enum event_kind { EVENT_APPLY, EVENT_ANSWER, EVENT_PUMP };

struct event {
    enum event_kind kind;
    int64_t at_ms;
    uint64_t order;
    struct request *request;
    uint64_t watch;
};

/* Every request takes between these, half of it until it is applied. */
#define MR_FAKE_LATENCY_MIN_MS 1
#define MR_FAKE_LATENCY_MAX_MS 3

struct mr_fake {
    mr_mvcc *data;
    struct mr_rng rng;
    int64_t now_ms;
    uint64_t order;
    bool full;
    bool overflowed; /* since it is full, one transaction was applied and refused */
    uint64_t store_id;
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
    void (*observer)(void *ctx, const struct mr_txn *txn, bool succeeded, int64_t revision);
    void *observer_ctx;
};

/* fake.c */
int64_t mr_fake_between(mr_fake *f, int64_t lo, int64_t hi);
void mr_fake_schedule(mr_fake *f, enum event_kind kind, int64_t at_ms, struct request *r,
                      uint64_t watch);
struct fake_lease *mr_fake_lease_find(mr_fake *f, int64_t id);
void mr_fake_lease_drop(mr_fake *f, struct fake_lease *lease);
void mr_fake_pump_all(mr_fake *f); /* the watches have something to look at */
struct watch *mr_fake_watch_take(struct client *c, uint64_t id);
void mr_fake_watch_free(struct watch *w);

/* request.c */
extern const struct mr_store_ops mr_fake_ops;
void mr_fake_apply(mr_fake *f, struct request *r);
void mr_fake_answer(mr_fake *f, struct request *r);
void mr_fake_request_unref(struct request *r);
