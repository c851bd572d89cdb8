/*
 * The one thread that turns: it takes what is in the mailbox to the turn machine
 * (dispatcher/turn/turn.h), and does for it what needs threads and sockets.
 *
 * Threads: post through the mailbox; the functions say.
 */
#pragma once

#include "dispatcher/turn/turn.h"
#include "rpc/rpc.h"

typedef struct mr_loop mr_loop;

/* Who this process is (`instance`, `secret`, `seed`, `started_ms`) is drawn here. @rpc and @credentials (what
 * the leader is shown) are lent, and so is the store: it is closed before mr_loop_free(). */
int mr_loop_start(const struct mr_turn_options *opts, mr_rpc_runtime *rpc,
                  mr_rpc_credentials *credentials, mr_loop **ret, mr_error *err);
/* Serve the dispatcher's methods. Before the server's start; it is freed after the loop. */
int mr_loop_serve(mr_loop *l, mr_rpc_server *server, mr_error *err);
/* MR_OK, or why it must not go on. Any thread. */
int mr_loop_health(mr_loop *l, mr_error *err);
/* Hand over and leave the election; calls are refused from now on. Waits at most @timeout_ms. Any
 * thread. */
void mr_loop_leave(mr_loop *l, int64_t timeout_ms);
/* End the threads. A loop that could not leave in time uses the store until here. Call it after the
 * RPC server was stopped and before the store is closed. */
void mr_loop_stop(mr_loop *l);
/* What is still in the mailbox is dropped. After the store was closed. NULL is fine. */
void mr_loop_free(mr_loop *l);
MR_AUTO_DEFINE(mr_loop, mr_loop_free)
