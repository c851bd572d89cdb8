/*
 * The store over etcd's v3 gRPC API (3.4.23 and later).
 *
 * Several endpoints: one is active; an error or a deadline moves on to the next. Lease and watch have a connection of
 * their own, so that bulk reads do not hold them up. Nothing is repeated by the adapter: who asked decides
 * (coord/member.h).
 *
 * Threads: requests from any thread; callbacks run on the RPC runtime's.
 */
#ifndef MR_COORD_ETCD_ETCD_H
#define MR_COORD_ETCD_ETCD_H

#include "coord/store.h"

#define MR_ETCD_ENDPOINTS_MAX 16

/*
 * @endpoints "host:port[,host:port...]", "http://" in front of each is fine. Does not connect yet. MR_EINVAL names a
 * bad endpoint. *@ret is closed with its `close`.
 */
int mr_etcd_open(const char *endpoints, mr_store **ret, mr_error *err);

#endif
