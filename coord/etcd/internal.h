/* What the files of this directory share. */
#ifndef MR_COORD_ETCD_INTERNAL_H
#define MR_COORD_ETCD_INTERNAL_H

#include "base/buf.h"
#include "coord/store.h"
#include "rpc/rpc.h"

#include <pthread.h>

/* Connections to one endpoint. Replaced as a whole when it fails; lives on until its last call is over. */
struct mr_etcd_conn {
    unsigned refs; /* lock of the store */
    size_t endpoint;
    mr_rpc_channel *bulk;
    mr_rpc_channel *live; /* lease and watch */
};

struct mr_etcd_op;
struct mr_etcd_watch;

struct mr_etcd {
    mr_store store;
    mr_rpc_runtime *runtime;
    char **endpoints;
    size_t nendpoints;

    pthread_mutex_t lock; /* guards all below; held around calls into rpc/, never around callbacks of the user */
    pthread_cond_t idle;
    bool closing;
    struct mr_etcd_conn *conn; /* the active one; NULL: to be made */
    size_t active;
    struct mr_etcd_op *ops;        /* outstanding */
    struct mr_etcd_watch *watches; /* not over */
    unsigned running;              /* ops and streams whose last callback has not returned */
    uint64_t watch_ids;
};

/* The active connection with a reference; NULL: out of memory. */
struct mr_etcd_conn *mr_etcd_conn_get_locked(struct mr_etcd *e);
void mr_etcd_conn_put_locked(struct mr_etcd *e, struct mr_etcd_conn *c);
/* @c failed: the next request goes to the next endpoint. */
void mr_etcd_conn_failed_locked(struct mr_etcd *e, struct mr_etcd_conn *c);
/* One op or stream is over. */
void mr_etcd_ran(struct mr_etcd *e);

/* watch.c */
uint64_t mr_etcd_watch(mr_store *s, struct mr_bytes key, int64_t revision, mr_watch_fn *fn, void *ctx);
void mr_etcd_watch_cancel(mr_store *s, uint64_t id);
void mr_etcd_watch_break_locked(struct mr_etcd *e, const struct mr_etcd_conn *c); /* NULL: all */

/* wire.c: requests as bytes (an empty buffer with `failed`: out of memory), answers as results. */
struct mr_buf mr_etcd_pack_txn(const struct mr_txn *txn);
struct mr_buf mr_etcd_pack_range(struct mr_bytes key, struct mr_bytes end, int64_t revision, int64_t limit,
                                 bool keys_only);
struct mr_buf mr_etcd_pack_grant(int64_t ttl_s);
struct mr_buf mr_etcd_pack_lease(int64_t lease); /* revoke, keep-alive and time-to-live: field 1 in all three */
struct mr_buf mr_etcd_pack_watch(struct mr_bytes key, int64_t revision);
/* The error of a call as this port has it: @mutates = a transaction, a grant or a revoke. */
void mr_etcd_translate(bool mutates, mr_error *err);

#endif
