/*
 * A connection to the service: knows the dispatchers' addresses, finds the one that leads, follows
 * it when it changes, and repeats calls until the leader answers them. Used by workers and clients;
 * only dispatchers themselves do not.
 *
 * What it does for each call: fills in the request's RequestHeader from what was learned, checks
 * the reply's ReplyHeader, follows redirects (at most 3 in a row, and never back to an older
 * epoch), bounds each attempt so that a leader that hangs costs seconds, waits with jitter between
 * rounds. It gives up only at the caller's deadline, at a cancellation, or on a definite answer; so
 * calls must be safe to repeat, which those of proto/millrace/service.proto are.
 *
 * Threads: everything is safe from any thread, but new and free. Calls block; none may be made on
 * rpc's thread.
 */
#pragma once

#include "base/identity.h"
#include "base/limits.h"
#include "rpc/rpc.h"

#include <protobuf-c/protobuf-c.h>
#include <stdatomic.h>

typedef struct mr_control mr_control;
typedef struct mr_control_watch mr_control_watch;

struct mr_control_options {
    const char *service;        /* "grpc://host:port[,host:port...]", or without the scheme */
    const char *cluster;        /* NULL or "": whichever answers first */
    int64_t attempt_timeout_ms; /* 0: 3000 */
    bool announce;              /* a line on stderr when no dispatcher has answered for 3 s */
    /* what it shows and whom it trusts; NULL: nothing and nobody. grpcs:// turns `tls` on */
    const struct mr_rpc_files *files;
};

/* MR_EINVAL names the address of @service that is none. */
int mr_control_check_service(const char *service, mr_error *err);

/* Does not connect yet. MR_EINVAL names the address, or the file, that is none. @rt must outlive it. */
int mr_control_new(mr_rpc_runtime *rt, const struct mr_control_options *opts, mr_control **ret,
                   mr_error *err);
/* Its calls must have returned, its watches must have been freed. NULL is fine. */
void mr_control_free(mr_control *c);

/* For channels to whom its dispatchers name. Lent until mr_control_free(). */
mr_rpc_credentials *mr_control_credentials(mr_control *c);

/* Calls that name the id of @who are its own from now on: dispatchers take them from nobody
 * else. */
void mr_control_speak_as(mr_control *c, const struct mr_identity *who);

/*
 * Call @method (MR_METHOD_OPEN: millrace/service.rpc.h) at the leader. @request's first field is a
 * RequestHeader, which is set during the call; the reply's is a ReplyHeader. MR_OK: *@reply is the
 * caller's (protobuf_c_message_free_unpacked(reply, NULL)).
 *
 * Errors: what the leader said, if it was definite; MR_EUNAVAIL naming the addresses after
 * @timeout_ms (-1: never), with MR_MAYBE_APPLIED if an attempt may have reached a leader;
 * MR_ECANCELED once *@cancel is true (NULL: not cancellable).
 */
int mr_control_call(mr_control *c, const char *method, ProtobufCMessage *request,
                    const ProtobufCMessageDescriptor *reply_type, int64_t timeout_ms,
                    const atomic_bool *cancel, ProtobufCMessage **reply, mr_error *err);

/* Look at the cancel flags of all calls that wait, now: to be called after one was set. */
void mr_control_wake(mr_control *c);

/* One attempt, at whom we believe to lead; what comes back is dropped. For goodbyes. Waits at most
 * @timeout_ms. */
void mr_control_tell(mr_control *c, const char *method, ProtobufCMessage *request,
                     int64_t timeout_ms);

/* What went wrong with the last attempt of a call, in @why; false: it succeeded. *@ever: whether
 * any call was. */
bool mr_control_trouble(mr_control *c, char *why, size_t size, bool *ever);

/* What the leader's answers said; empty and 0 before the first. @cluster and @incarnation may be
 * NULL. */
uint64_t mr_control_learned(mr_control *c, char cluster[MR_NAME_BYTES_MAX + 1],
                            char incarnation[MR_INCARNATION_BYTES_MAX + 1]);

/* ---- server streams that follow the leader ---- */

struct mr_control_watch_ops {
    /* A message of the leader, its header checked; lent. Runs on the watch's own thread and may
     * block. */
    void (*update)(void *ctx, const ProtobufCMessage *update);
    /* The leader refused for good (for instance MR_ENOTFOUND: it does not know the client). After
     * *@again = true the watch goes on; otherwise it rests until freed. */
    void (*refused)(void *ctx, const mr_error *err, bool *again);
};

/* Open the server stream @method and keep it open: when it breaks, ends, or
 * a leader with a newer epoch is heard of, it is opened again at the next leader. @request is
 * packed anew each time and must stay as it is. */
int mr_control_watch_new(mr_control *c, const char *method, ProtobufCMessage *request,
                         const ProtobufCMessageDescriptor *update_type,
                         const struct mr_control_watch_ops *ops, void *ctx, mr_control_watch **ret,
                         mr_error *err);
/* Ends it and waits for its thread: no callback afterwards. Not from its callbacks. NULL is
 * fine. */
void mr_control_watch_free(mr_control_watch *w);
