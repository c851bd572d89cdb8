/*
 * The RPCs of /millrace.Dispatcher/ as a table, one call of them, and how answers are made: the
 * reply message with its header.
 *
 * Threads: the table is constant; a call belongs to one thread at a time and moves with the queue
 * it is in.
 */
#ifndef MR_DISPATCHER_LOOP_METHOD_H
#define MR_DISPATCHER_LOOP_METHOD_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/histogram.h"
#include "dispatcher/core/core.h"
#include "rpc/rpc.h"

#include <stdatomic.h>

struct mr_dstream;
struct mr_definition;
struct mr_mailbox;
struct mr_share;

struct mr_method {
    const char *path;
    enum mr_command_kind command;
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *reply; /* of a stream: its messages */
    bool stream;
    bool writes;  /* it puts something, as a rule: not while the store is full */
    bool contact; /* the answer lists the live dispatchers */
    bool bulk;    /* its requests are large: unpacked by the side thread */
    bool follow;  /* not a command: a standby that wants to know when this process dies */
    /* the field of the request with the id of the caller; NULL: anybody may say it */
    const char *speaker;
};

extern const struct mr_method mr_methods[];
extern const size_t mr_methods_count;

/* What became of the calls of a method. Threads: any. */
struct mr_method_numbers {
    struct mr_histogram seconds;
    _Atomic uint64_t errors[MR_CODES]; /* by -code */
};

struct mr_call {
    struct mr_call *next;
    const struct mr_method *method;
    ProtobufCMessage *request;        /* NULL: it is in `packed` */
    mr_rpc_message *packed;           /* of a bulk method, until the side thread has unpacked it */
    mr_rpc_request *rpc;              /* unary: to be answered once; NULL afterwards */
    struct mr_dstream *stream;        /* of a stream: holds a reference */
    struct mr_definition *definition; /* RegisterDataset: once it was parsed */
    int64_t arrived_ns;
    struct mr_method_numbers *numbers; /* where the answer is noted; NULL: nowhere */
    size_t size;                       /* of the request, in memory */
    struct mr_mailbox *mailbox;        /* where it is counted while it lives; NULL: nowhere yet */
    struct mr_share *share;            /* with that: of its host's calls, */
    struct mr_share *share_bytes;      /* and of their bytes: `size` */
    mr_error error;                    /* on its way to the side thread and back */
    ProtobufCMessage *reply;           /* GetDataset: waiting for its definition */
    char blob[80];
    uint32_t parts;
};

#define MR_DISPATCHERS_MAX 64

/* What goes into the headers of replies. */
struct mr_header_info {
    const char *cluster;
    const char *incarnation;
    uint64_t epoch; /* 0: this is not the leader */
    uint64_t signature;
    bool not_leader;
    const char *leader;
    const char *const *dispatchers;
    size_t ndispatchers;
};

static inline int64_t mr_call_arrived_ms(const struct mr_call *call)
{
    return call->arrived_ns / MR_NS_PER_MS;
}

/* Decode a request. NULL, with @err, if it is not one. */
struct mr_call *mr_call_new(const struct mr_method *method, const void *bytes, size_t size,
                            mr_error *err);
/* One of a bulk method, not decoded yet. Takes @m on success. */
struct mr_call *mr_call_new_packed(const struct mr_method *method, mr_rpc_message *m,
                                   mr_error *err);
int mr_call_unpack(struct mr_call *call, mr_error *err);
/* It names the content of a definition in place of it. */
static inline bool mr_call_is_by_content(const Millrace__RegisterDatasetRequest *r)
{
    return r->definition.len == 0 && r->fingerprint[0] != '\0';
}
/* Without an answer: it must have been given, or be a stream's. The stream's reference is the
 * caller's business. */
void mr_call_free(struct mr_call *call);
/* NULL: the request has none */
const Millrace__RequestHeader *mr_call_header(const struct mr_call *call);
/* MR_EPERM: it names an id whose key it does not have. */
int mr_call_vet_speaker(const struct mr_call *call, mr_error *err);

/* @message (NULL: an empty one of type @desc) with a header, as bytes. `failed` is set without
 * memory. */
struct mr_buf mr_reply_pack(const ProtobufCMessageDescriptor *desc, ProtobufCMessage *message,
                            const struct mr_header_info *info, bool contact, const mr_error *error);
/* Answer a unary call; @error NULL or code 0: success. */
void mr_call_answer(struct mr_call *call, ProtobufCMessage *message,
                    const struct mr_header_info *info, const mr_error *error);

#endif
