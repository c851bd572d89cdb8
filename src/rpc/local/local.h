/*
 * The transport within one process: messages between threads, without sockets and without gRPC.
 * For tests of everything above rpc.h, under the thread sanitizer too, which does not see through
 * gRPC. Not for production.
 *
 * Ports are this process's own; "0.0.0.0", "localhost" and the loopback addresses are one host.
 * What gRPC bounds is bounded: calls of a server and of a channel, calls without a first message,
 * sizes of messages, and what waits for a slow reader. There is no TLS, and of struct
 * mr_rpc_limits `memory_bytes`, `reply_bytes` and `connections` bound nothing, since nothing is
 * received in part and nothing is kept for whoever does not take it.
 *
 * Threads: any.
 */
#pragma once

#include <stdbool.h>

/* As if the process that listens at @address had been killed: whoever called mr_rpc_acquire() for
 * the server there reaches nobody any more, by that server or by channels of the same runtime, and
 * is reached by nobody. Others see broken connections, and that nothing listens there. What was
 * killed sees the same of others; it is freed as ever. false: nothing listens there. */
bool mr_rpc_local_kill(const char *address);
