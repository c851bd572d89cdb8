/*
 * The RPCs of /millrace.Dispatcher/ as a table, one call of them, and how answers are made: the
 * reply message with its header.
 *
 * Threads: the table is constant; a call belongs to one thread at a time and moves with the queue
 * it is in.
 */
#pragma once

#include "access/identities.h"
#include "base/buf.h"
#include "dispatcher/core/core.h"

#include <sys/queue.h>

struct mr_dstream;

struct mr_method {
    const char *path;
    enum mr_command_kind command;
    unsigned roles; /* enum mr_role: who has one of these may call it */
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

/* A definition that parsed, as the core wants it. Its own bytes stay in the request. */
struct mr_definition {
    char fingerprint[33];
    void *spec; /* ElementSpec */
    size_t spec_size;
    int64_t cardinality;
    int64_t providers[MR_CORE_PROVIDERS_MAX];
    uint64_t split_elements[MR_CORE_PROVIDERS_MAX];
    char names[MR_CORE_PROVIDERS_MAX][64];      /* of the providers */
    const char *sources[MR_CORE_PROVIDERS_MAX]; /* the same */
    size_t nproviders;
    bool ignores_errors; /* a step of it leaves out what cannot be read */
    char *unsplittable;  /* NULL: DYNAMIC can be had */
    char summary[256];
};

void mr_definition_free(struct mr_definition *d); /* NULL is fine */
MR_AUTO_DEFINE(struct mr_definition, mr_definition_free)

/* One call. The driver makes it, as a part of what it knows of it. */
struct mr_call {
    STAILQ_ENTRY(mr_call) link;
    const struct mr_method *method;
    ProtobufCMessage *request;        /* NULL: of a bulk method, and not unpacked yet */
    struct mr_dstream *stream;        /* of a stream: holds a reference */
    struct mr_definition *definition; /* RegisterDataset: once it was parsed */
    int64_t arrived_ms;
    const char *host;                   /* whose call it is; NULL: nobody's */
    bool attach_only;                   /* the caller may join jobs, not start them */
    char owner[MR_ACCESS_NAME_MAX + 1]; /* who calls; "": nobody in particular */
    struct mr_quota quota;
    bool answered;           /* unary */
    mr_error error;          /* of its definition */
    ProtobufCMessage *reply; /* GetDataset: waiting for its definition */
    char blob[80];
    uint32_t parts;
    void (*release)(struct mr_call *call); /* free the driver's part, and the call itself */
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

/* Decode a request into @call. *@taken: memory. MR_EINVAL: it is none. */
int mr_call_unpack(struct mr_call *call, const void *bytes, size_t size, size_t *taken,
                   mr_error *err);
/* It names the content of a definition in place of it. */
static inline bool mr_call_is_by_content(const Millrace__RegisterDatasetRequest *r)
{
    return r->definition.len == 0 && r->fingerprint[0] != '\0';
}
/* A unary one must have been answered. The stream's reference is the caller's business. NULL is
 * fine. */
void mr_call_free(struct mr_call *call);
/* NULL: the request has none */
const Millrace__RequestHeader *mr_call_header(const struct mr_call *call);
/* MR_EPERM: it names an id whose key it does not have. */
int mr_call_vet_speaker(const struct mr_call *call, mr_error *err);

/* @message (NULL: an empty one of type @desc) with a header, as bytes. `failed` is set without
 * memory. */
struct mr_buf mr_reply_pack(const ProtobufCMessageDescriptor *desc, ProtobufCMessage *message,
                            const struct mr_header_info *info, bool contact, const mr_error *error);
