/*
 * The data model of etcd in memory: one revision a transaction, versions of keys, compaction. No
 * time, no faults. A lack of memory is an assertion: simulation has no answer to it.
 *
 * Threads: one at a time.
 */
#pragma once

#include "base/base.h"
#include "coord/store.h"

#include <stdlib.h>

typedef struct mr_mvcc mr_mvcc;

mr_mvcc *mr_mvcc_new(void);
void mr_mvcc_free(mr_mvcc *m);

int64_t mr_mvcc_revision(const mr_mvcc *m);
int64_t mr_mvcc_compacted(const mr_mvcc *m); /* reads below it are refused */

/* What a read or a transaction gives: pairs lent by the store, valid until the next change. */
struct mr_mvcc_reads {
    struct mr_kv *kvs;
    size_t count;
    size_t cap;
};
void mr_mvcc_reads_free(struct mr_mvcc_reads *r);
MR_AUTO_DEFINE(struct mr_mvcc_reads, mr_mvcc_reads_free)

/* Do all its compares hold? */
bool mr_mvcc_holds(const mr_mvcc *m, const struct mr_txn *txn);
/* Apply @txn. MR_EINVAL: against etcd's limits (nothing was changed). Leases must have been checked
 * by the caller. *@succeeded and the GETs of the branch taken are outputs. */
int mr_mvcc_txn(mr_mvcc *m, const struct mr_txn *txn, bool *succeeded, struct mr_mvcc_reads *reads,
                mr_error *err);
/* As mr_store_ops.range. */
int mr_mvcc_range(const mr_mvcc *m, struct mr_bytes key, struct mr_bytes end, int64_t revision,
                  int64_t limit, struct mr_mvcc_reads *reads, bool *more, mr_error *err);
/* Delete every key of @lease, at one revision (none if there is no key). */
void mr_mvcc_delete_lease(mr_mvcc *m, int64_t lease);
int mr_mvcc_compact(mr_mvcc *m, int64_t revision, mr_error *err);
/* The first change of @key at or after @revision. false: there is none yet. */
bool mr_mvcc_next_event(const mr_mvcc *m, struct mr_bytes key, int64_t revision,
                        struct mr_watch_event *ret);

/* Memory of the C library: that for which a test has allocations fail is of what is tested. */
void *mr_fake_zeroed(size_t n, size_t size);
void *mr_fake_grow(void *array, size_t n, size_t *cap, size_t size); /* room for one more */
struct mr_bytes mr_fake_dup(struct mr_bytes b);                      /* mr_bytes_free() */
