/*
 * The store over etcd's v3 gRPC API (3.4.23 and later).
 *
 * Several endpoints: one is active; an error or a deadline moves on to the next. Lease and watch
 * have a connection of their own, so that bulk reads do not hold them up. Nothing is repeated by
 * the adapter (who asked decides, coord/member.h), but for one thing: a request that etcd did not
 * take because of its token is sent again with a new one.
 *
 * Threads: requests from any thread; callbacks run on the RPC runtime's.
 */
#pragma once

#include "base/histogram.h"
#include "coord/store.h"

#define MR_ETCD_ENDPOINTS_MAX 16

/* How long transactions took, by what became of them. */
struct mr_etcd_seconds {
    struct mr_histogram ok;
    struct mr_histogram guard;   /* a compare did not hold */
    struct mr_histogram unknown; /* it may have been applied */
    struct mr_histogram error;   /* it was not */
};

/* NULL or "" is "none" in each field but `endpoints`. Lent for mr_etcd_open(). */
struct mr_etcd_options {
    /* "host:port[,host:port...]"; "https://" in front, or any of the next four, means TLS;
     * "http://" is accepted where there is none. */
    const char *endpoints;
    /* Files in PEM, read anew for each connection, so that renewed ones are found. */
    const char *ca_file; /* who signed etcd's certificate; none with TLS: whom the system trusts */
    const char *cert_file; /* to be shown to etcd; goes with key_file */
    const char *key_file;  /* not encrypted */
    /* whom etcd's certificate must name, if that is not the host of the endpoint */
    const char *server_name;
    /* goes with password_file; an etcd without authentication lets it in all the same */
    const char *user;
    const char *password_file; /* read anew for each login; a newline at its end does not count */
    struct mr_etcd_seconds *seconds; /* outlives the store; NULL: nobody wants to know */
};

/* Does not connect yet, but looks at the files. MR_EINVAL names a bad endpoint, or what is wrong
 * with a file. *@ret is closed with its `close`. */
int mr_etcd_open(const struct mr_etcd_options *opts, mr_store **ret, mr_error *err);
