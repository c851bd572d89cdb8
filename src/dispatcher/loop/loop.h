/*
 * The one thread that owns the dispatcher's state: commands in, decisions, group commits, answers
 * out once what they rest on is committed.
 *
 * A turn takes all that is in the mailbox, messages before timers; decides each command with the
 * core, whose state moves at once; gives the changes to the member (coord/member.h), which commits
 * them in batches; and holds every answer until the batch it rests on is committed. When a batch is
 * not, the whole state is thrown away and loaded again.
 *
 * While it does not lead: calls are refused with the leader's address, or kept up to a second while
 * nobody leads.
 *
 * Threads: post through the mailbox; the other functions say.
 */
#ifndef MR_DISPATCHER_LOOP_LOOP_H
#define MR_DISPATCHER_LOOP_LOOP_H

#include "coord/store.h"
#include "dispatcher/loop/mailbox.h"

typedef struct mr_loop mr_loop;

struct mr_loop_options {
    mr_store *store;     /* lent; closed before mr_loop_free() */
    mr_rpc_runtime *rpc; /* lent */
    const char *cluster;
    const char *address;       /* as advertised */
    const char *socket;        /* identity of the listening socket (coord/election.h) */
    int64_t etcd_quota_bytes;  /* where etcd does not tell its own */
    int64_t etcd_write_budget; /* bytes per second */
    int64_t lease_ttl_ms;
    int64_t heartbeat_ms;
    int64_t worker_timeout_ms;
    int64_t client_timeout_ms;
    int64_t job_gc_timeout_ms; /* < 0: never */
    bool gc_dynamic;
    int64_t finished_retention_ms;
    int64_t client_retention_ms;
    int64_t worker_retention_ms;
    int64_t job_retention_ms;
    int64_t dataset_retention_ms;
    int64_t stall_timeout_ms;
    int64_t task_timeout_ms; /* 0: never */
};

int mr_loop_start(const struct mr_loop_options *opts, mr_loop **ret, mr_error *err);
struct mr_mailbox *mr_loop_mailbox(mr_loop *l);
/* Of calls of that method (of mr_methods). Lent until the loop is freed. Any thread. */
struct mr_method_numbers *mr_loop_method_numbers(mr_loop *l, size_t method);
/* MR_OK, or why it must not go on. Any thread. */
int mr_loop_health(mr_loop *l, mr_error *err);
/* Hand over and leave the election; calls are refused from now on. Waits at most @timeout_ms. Any
 * thread. */
void mr_loop_leave(mr_loop *l, int64_t timeout_ms);
/* End the side threads. After the RPC server was stopped, before the store is closed. */
void mr_loop_stop_helpers(mr_loop *l);
/* Ends the thread; what is still in the mailbox is dropped. After the store was closed. NULL is
 * fine. */
void mr_loop_free(mr_loop *l);

#endif
