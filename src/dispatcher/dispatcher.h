/*
 * A dispatcher: one replica of the control plane of a cluster. It listens, keeps its state in etcd
 * and takes part in the election; while another replica leads it refuses calls with that replica's
 * address.
 *
 * This is the whole interface for programs; what is inside is split into core/ (the judgement,
 * pure), loop/ (the one thread that owns core, election and commits) and service/ (the RPCs).
 *
 * Threads: the functions are safe from any thread, but stop() and free() belong to the one that
 * started it.
 */
#ifndef MR_DISPATCHER_DISPATCHER_H
#define MR_DISPATCHER_DISPATCHER_H

#include "coord/store.h"
#include "metrics/metrics.h"

#include <millrace/base.h>

typedef struct mr_dispatcher mr_dispatcher;

/* Zero (NULL) means the default in every field but those marked "required". Strings are copied. */
struct mr_dispatcher_options {
    const char *listen; /* "host:port", port 0 = any; default "0.0.0.0:5050" */
    /* what others are told; default: the listening address, or this host's */
    const char *advertise;
    /* required; this and the next as struct mr_etcd_options (coord/etcd/etcd.h) has them */
    const char *etcd_endpoints;
    const char *etcd_ca; /* files in PEM */
    const char *etcd_cert;
    const char *etcd_key;
    const char *etcd_server_name;
    const char *etcd_user;
    const char *etcd_password_file;
    /* where etcd does not tell it (before 3.6); default 2 GiB, as etcd's */
    int64_t etcd_quota_bytes;
    /* bytes per second that may be written to etcd before grants of splits are made longer;
     * default 1,000,000 */
    int64_t etcd_write_budget;
    const char *cluster;  /* default "default"; [a-z0-9._-], at most 64 */
    int64_t lease_ttl_ms; /* default 10000; whole seconds, 1000 to 60000 */
    int64_t heartbeat_ms; /* of workers and clients; default 1000 */
    /* without a heartbeat a worker is lost; default 10000, >= 3 heartbeats */
    int64_t worker_timeout_ms;
    int64_t client_timeout_ms; /* default 120000, >= 3 heartbeats; both at most an hour */
    /* an iteration without clients is collected; default 300000; < 0: never */
    int64_t job_gc_timeout_ms;
    bool gc_dynamic; /* a DYNAMIC one too, though its job has not gone on to a later one */

    /* How long records stay after the end of what they are about. */
    int64_t finished_retention_ms; /* iterations; default 600000 */
    int64_t client_retention_ms;   /* released clients; default 600000 */
    int64_t worker_retention_ms;   /* lost workers; default 600000 */
    int64_t job_retention_ms;      /* named jobs that nobody uses; default 7 days */
    int64_t dataset_retention_ms;  /* content-addressed datasets that nothing uses; default 1 day */
    /* a task that makes nothing for so long, while clients wait, is shown; default 60000 */
    int64_t stall_timeout_ms;
    int64_t task_timeout_ms; /* and is closed after that; default: never */
};

/*
 * Start listening and return; connecting to etcd goes on in the background (one line of log per
 * some seconds while it does not answer). MR_EINVAL names the option; MR_EUNAVAIL: the address is
 * taken. *@ret is freed with mr_dispatcher_free().
 */
int mr_dispatcher_start(const struct mr_dispatcher_options *opts, mr_dispatcher **ret,
                        mr_error *err);

/* The same over @store, which is closed with the dispatcher: for tests. NULL: etcd. */
int mr_dispatcher_start_with(const struct mr_dispatcher_options *opts, mr_store *store,
                             mr_dispatcher **ret, mr_error *err);

/* "host:port" as advertised. Lent, valid until the dispatcher is freed. */
const char *mr_dispatcher_address(const mr_dispatcher *d);

/*
 * Why the dispatcher cannot go on: MR_OK while it can; MR_EPRECOND: the state in etcd was written
 * by a newer version. A program polls this and exits.
 */
int mr_dispatcher_health(mr_dispatcher *d, mr_error *err);

/*
 * For monitoring. alive: MR_EUNAVAIL when its loop hangs. ready: MR_EUNAVAIL while etcd does not
 * answer and once it stops; standbys are ready like the leader. Neither blocks.
 */
int mr_dispatcher_alive(mr_dispatcher *d, mr_error *err);
int mr_dispatcher_ready(mr_dispatcher *d, mr_error *err);
/* Its metrics, without those of the process. Waits for the loop, two seconds at most: MR_EUNAVAIL.
 * *@ret is the caller's. */
int mr_dispatcher_page(mr_dispatcher *d, mr_metrics **ret, mr_error *err);

/*
 * Stop: what was accepted is answered, leadership is handed over and the own keys leave etcd; then
 * the port is closed. Blocks, at most about five seconds (etcd may be away). May be called again.
 */
void mr_dispatcher_stop(mr_dispatcher *d);

void mr_dispatcher_free(mr_dispatcher *d); /* stops first; NULL is fine */

#endif
