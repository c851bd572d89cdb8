/*
 * The port to the store of the control plane: what coordination needs of etcd, and no more. Two
 * adapters: coord/etcd (over its gRPC API) and coord/fake (in memory, for simulation), held
 * together by one conformance suite.
 *
 * All calls are asynchronous: the callback runs exactly once, on a thread of the adapter's (fake:
 * inside mr_fake_step()), possibly before the call has returned. It must not block. After close()
 * no callback runs any more. What is passed in is copied before the call returns; what a callback
 * is given is lent to it.
 *
 * Outcomes: MR_OK; a definite refusal (< 0 without MR_MAYBE_APPLIED): nothing was changed; or
 * "unknown" (< 0 with MR_MAYBE_APPLIED): it may have been applied, or be applied later. Unknown is
 * settled only by sending the same bytes again (coord/README.md), never by reading. MR_RETRYABLE:
 * the store may answer later. An adapter never repeats a transaction by itself. A store that is
 * full says MR_EEXHAUSTED with MR_MAYBE_APPLIED: that attempt was applied before it was answered,
 * or never will be; deletes still go through.
 *
 * Limits of a transaction: 128 compares, 128 operations a branch, 1.5 MiB, no key written twice
 * (MR_EINVAL).
 */
#pragma once

#include <millrace/base.h>

typedef struct mr_store mr_store;

struct mr_bytes {
    const void *data;
    size_t size;
};

struct mr_kv {
    struct mr_bytes key;
    struct mr_bytes value;
    int64_t create_revision;
    int64_t mod_revision;
    int64_t lease;
};

enum mr_compare_target { MR_COMPARE_CREATE, MR_COMPARE_MOD };

struct mr_compare {
    struct mr_bytes key;
    enum mr_compare_target target;
    int64_t revision; /* equal to; 0 = the key does not exist */
};

enum mr_op_kind { MR_OP_PUT, MR_OP_DELETE, MR_OP_GET };

struct mr_op {
    enum mr_op_kind kind;
    struct mr_bytes key;
    struct mr_bytes value; /* PUT */
    int64_t lease; /* PUT; 0 = none. MR_ENOTFOUND refuses the transaction when the lease is gone. */
};

/* If all compares hold, `success` is applied at one revision, else `failure` (GETs only). */
struct mr_txn {
    const struct mr_compare *compares;
    size_t ncompares;
    const struct mr_op *success;
    size_t nsuccess;
    const struct mr_op *failure;
    size_t nfailure;
};

struct mr_txn_result {
    bool succeeded;
    /* of the store after the transaction; a transaction that changed something has a revision of
     * its own */
    int64_t revision;
    /* of the cluster of etcd; one that is built anew from a snapshot has another */
    uint64_t store_id;
    /* One per GET of the branch that ran, in order; key.size = 0: no such key. */
    const struct mr_kv *gets;
    size_t ngets;
};

struct mr_range_result {
    int64_t revision;        /* the store's when it was read (not the one asked for) */
    const struct mr_kv *kvs; /* by key */
    size_t count;
    bool more;
};

struct mr_watch_event {
    bool deleted;
    struct mr_kv kv; /* deleted: key and mod_revision only */
};

struct mr_store_status {
    int64_t size_bytes;  /* of the database */
    int64_t quota_bytes; /* 0: it does not tell */
    bool full; /* alarm NOSPACE: only reads and deletes go through, until somebody has made room */
    char version[24];
};

typedef void mr_txn_done(void *ctx, int rc, const struct mr_txn_result *r, const mr_error *err);
typedef void mr_range_done(void *ctx, int rc, const struct mr_range_result *r, const mr_error *err);
typedef void mr_lease_done(void *ctx, int rc, int64_t lease, int64_t ttl_s, const mr_error *err);
typedef void mr_status_done(void *ctx, int rc, const struct mr_store_status *r,
                            const mr_error *err);
/* Events of one revision at a time, in order, with that revision. rc < 0: the watch is over and
 * needs no cancel. MR_ERANGE: the history was compacted, or the store is behind (a member that
 * lags, or one that was restored): read again, then watch from the revision read + 1. Anything
 * else: watch again from the last revision seen + 1, nothing is missed. */
typedef void mr_watch_fn(void *ctx, int rc, const struct mr_watch_event *events, size_t n,
                         int64_t revision, const mr_error *err);

/* The number that goes with it is the lease, but for a new one its time to live in seconds. */
enum mr_lease_call {
    MR_LEASE_GRANT,  /* the ttl in the answer counts: the store may have raised it */
    MR_LEASE_RENEW,  /* ttl 0 in the answer: the lease is gone */
    MR_LEASE_REVOKE, /* deletes its keys; MR_ENOTFOUND: it was gone */
    MR_LEASE_TTL,    /* what is left of somebody's lease; -1: gone */
};

struct mr_store_ops {
    void (*txn)(mr_store *s, const struct mr_txn *txn, int64_t timeout_ms, mr_txn_done *done,
                void *ctx);
    /* Keys in [key, end); end.size = 0: one key. @revision 0: newest; MR_ERANGE if it was compacted
     * or lies in the future. @limit 0: no limit. @keys_only: values are left out. A linearizable
     * read, as far as the store keeps its word: check the revision (coord/README.md). */
    void (*range)(mr_store *s, struct mr_bytes key, struct mr_bytes end, int64_t revision,
                  int64_t limit, bool keys_only, int64_t timeout_ms, mr_range_done *done,
                  void *ctx);
    void (*lease)(mr_store *s, enum mr_lease_call call, int64_t number, int64_t timeout_ms,
                  mr_lease_done *done, void *ctx);
    /* How the store does. MR_EPERM: it does not tell us. */
    void (*status)(mr_store *s, int64_t timeout_ms, mr_status_done *done, void *ctx);
    /* Watch one key from @revision on (0: from now). The returned id is for watch_cancel and never
     * 0. */
    uint64_t (*watch)(mr_store *s, struct mr_bytes key, int64_t revision, mr_watch_fn *fn,
                      void *ctx);
    /* No callback of it starts after this; one may be running. */
    void (*watch_cancel)(mr_store *s, uint64_t id);
    /* Frees it; outstanding callbacks are dropped. Not from a callback. */
    void (*close)(mr_store *s);
};

struct mr_store {
    const struct mr_store_ops *ops;
};
