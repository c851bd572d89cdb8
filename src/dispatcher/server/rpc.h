/*
 * The RPCs of a dispatcher: requests become calls in the mailbox, streams report what happens to
 * them there.
 *
 * Threads: handlers run on the RPC thread, which only decodes and posts.
 */
#pragma once

#include "dispatcher/server/mailbox.h"
#include "dispatcher/turn/streams.h"

/* One method of a server. */
struct mr_rpc_service {
    struct mr_mailbox *mailbox;
    const struct mr_method *method;
    struct mr_method_numbers *numbers; /* of unary calls */
};

/* Serve mr_methods; @services has one for each, lent until the server is freed. Before its
 * start. */
int mr_rpc_serve(mr_rpc_server *server, struct mr_rpc_service *services, mr_error *err);
