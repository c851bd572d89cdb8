/*
 * A call as the server has it: the request that is to be answered, and what it is counted as while
 * it lives.
 *
 * Threads: a call belongs to one thread at a time and moves with the queue it is in.
 */
#pragma once

#include "base/histogram.h"
#include "dispatcher/turn/method.h"
#include "rpc/rpc.h"

#include <stdatomic.h>

struct mr_mailbox;
struct mr_share;

/* What became of the calls of a method. Threads: any. */
struct mr_method_numbers {
    struct mr_histogram seconds;
    _Atomic uint64_t errors[MR_CODES]; /* by -code */
};

struct mr_server_call {
    struct mr_call call;    /* its first member */
    mr_rpc_message *packed; /* of a bulk method, until the definitions' thread has unpacked it */
    mr_rpc_request *rpc;    /* unary: to be answered once; NULL afterwards */
    int64_t arrived_ns;
    struct mr_method_numbers *numbers; /* where the answer is noted; NULL: nowhere */
    size_t size;                       /* of the request, in memory */
    struct mr_mailbox *mailbox;        /* where it is counted while it lives; NULL: nowhere yet */
    struct mr_share *share;            /* with that: of its host's calls, */
    struct mr_share *share_bytes;      /* and of their bytes: `size` */
};

/* Decode a request. NULL, with @err, if it is not one. */
struct mr_server_call *mr_server_call_new(const struct mr_method *method, const void *bytes,
                                          size_t size, mr_error *err);
/* One of a bulk method, not decoded yet. Takes @m on success. */
struct mr_server_call *mr_server_call_new_packed(const struct mr_method *method, mr_rpc_message *m,
                                                 mr_error *err);
/* That of mr_server_call_new_packed(). */
int mr_server_call_unpack(struct mr_server_call *c, mr_error *err);
static inline struct mr_server_call *mr_server_call_of(struct mr_call *call)
{
    return (struct mr_server_call *)call;
}
/* Answer a unary call: with @message as it is, or one that is packed here. @error NULL or code 0:
 * success. */
void mr_server_call_reply(struct mr_call *call, const struct mr_buf *message,
                          const mr_error *error);
void mr_server_call_answer(struct mr_call *call, ProtobufCMessage *message,
                           const struct mr_header_info *info, const mr_error *error);
