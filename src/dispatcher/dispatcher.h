/*
 * A dispatcher: one replica of the control plane of a cluster. It listens, keeps its state in etcd
 * and takes part in the election; while another replica leads it refuses calls with that replica's
 * address.
 *
 * This is the whole interface for programs; what is inside is split into core/ (the judgement,
 * pure), turn/ (core, election and commits, a turn at a time; pure) and server/ (the thread that
 * turns, the RPCs).
 *
 * Threads: the functions are safe from any thread, but stop() and free() belong to the one that
 * started it.
 */
#pragma once

#include "coord/store.h"
#include "metrics/metrics.h"
#include "options/programs.h" /* struct mr_dispatcher_options */

#include <millrace/base.h>

typedef struct mr_dispatcher mr_dispatcher;

/* Start listening and return; connecting to etcd goes on in the background (one line of log per
 * some seconds while it does not answer). MR_EINVAL names the option; MR_EUNAVAIL: the address is
 * taken. *@ret is freed with mr_dispatcher_free(). */
int mr_dispatcher_start(const struct mr_dispatcher_options *opts, mr_dispatcher **ret,
                        mr_error *err);

/* The same over @store, which is closed with the dispatcher, also if it does not start: for tests.
 * NULL: etcd. */
int mr_dispatcher_start_with(const struct mr_dispatcher_options *opts, mr_store *store,
                             mr_dispatcher **ret, mr_error *err);

/* "host:port" as advertised. Lent, valid until the dispatcher is freed. */
const char *mr_dispatcher_address(const mr_dispatcher *d);

/* Why the dispatcher cannot go on: MR_OK while it can; MR_EPRECOND: the state in etcd was written
 * by a newer version. A program polls this and exits. */
int mr_dispatcher_health(mr_dispatcher *d, mr_error *err);

/* For monitoring. alive: MR_EUNAVAIL when its loop hangs. ready: MR_EUNAVAIL while etcd does not
 * answer and once it stops; standbys are ready like the leader. Neither blocks. */
int mr_dispatcher_alive(mr_dispatcher *d, mr_error *err);
int mr_dispatcher_ready(mr_dispatcher *d, mr_error *err);
/* Its metrics, without those of the process. Waits for the loop, two seconds at most: MR_EUNAVAIL.
 * *@ret is the caller's. */
int mr_dispatcher_page(mr_dispatcher *d, mr_metrics **ret, mr_error *err);

/* Stop: what was accepted is answered, leadership is handed over and the own keys leave etcd; then
 * the port is closed. Blocks, at most about five seconds (etcd may be away). May be called again.
 */
void mr_dispatcher_stop(mr_dispatcher *d);

void mr_dispatcher_free(mr_dispatcher *d); /* stops first; NULL is fine */
