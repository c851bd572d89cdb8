/*
 * A connection to the service: calls and watches that find the leading dispatcher by themselves and survive its loss.
 *
 * Not for: elements (src/client and src/worker talk to each other directly), nor for what the calls mean.
 *
 * Threads: all functions are safe from any thread, except that mr_control_free() comes last. Blocking functions must not
 * be called from the RPC runtime's thread (i.e. from its callbacks).
 */
#ifndef MR_CONTROL_CONTROL_H
#define MR_CONTROL_CONTROL_H

#include "millrace/service.pb-c.h"
#include "rpc/rpc.h"

#include <millrace/base.h>

typedef struct mr_control mr_control;
typedef struct mr_control_watch mr_control_watch;

struct mr_control_options {
    const char *service;  /* "[grpc://]host:port[,host:port...]"; required */
    const char *cluster;  /* refuse any other; NULL or "": the first that answers */
    bool announce;        /* say on stderr, once, when no dispatcher has answered for 3 s */
};

/* MR_EINVAL names what is wrong with the addresses. Connects to nothing yet. The caller owns *@ret. */
int mr_control_new(mr_rpc_runtime *rt, const struct mr_control_options *opts, mr_control **ret, mr_error *err);

/* Blocked calls, and all later ones, return MR_ECANCELED; watches end. Any number of times. */
void mr_control_cancel(mr_control *c);
/* No call may be running and all watches must have been closed. NULL is fine. */
void mr_control_free(mr_control *c);

/*
 * Call @path ("/millrace.Dispatcher/Open") with @request, whose first field is a RequestHeader (filled in here); @reply is
 * the descriptor of the answer, whose first field is a ReplyHeader. Blocks until a leader answers, at most @timeout_ms
 * (-1: for ever). MR_OK: *@ret is freed with protobuf_c_message_free_unpacked(ret, NULL). Errors of the service are
 * returned as they are; MR_EUNAVAIL names the addresses if nobody answered in time.
 */
int mr_control_call(mr_control *c, const char *path, ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply,
                    int64_t timeout_ms, ProtobufCMessage **ret, mr_error *err);

/*
 * Updates of a server stream. MR_OK: @update (lent) is the newest; others may have been skipped. < 0: the service refused
 * or ended the watch for good; nothing follows. Called on the watch's own thread: it may block, but not close the watch.
 */
typedef void mr_control_update(void *ctx, int rc, const ProtobufCMessage *update, const mr_error *err);

/* Open a watch. @request is packed at once. It reopens by itself until it is refused or closed. */
int mr_control_watch_open(mr_control *c, const char *path, ProtobufCMessage *request,
                          const ProtobufCMessageDescriptor *update, mr_control_update *fn, void *ctx,
                          mr_control_watch **ret, mr_error *err);
/* After it returns, no callback runs any more. NULL is fine. */
void mr_control_watch_close(mr_control_watch *w);

/* The newest epoch heard from a leader; 0: none yet. A hint for the data path. */
uint64_t mr_control_epoch(mr_control *c);
/* Incarnation of the cluster, as learned from a leader; "" before. */
void mr_control_incarnation(mr_control *c, char out[40]);

#endif
