/*
 * Server streams: who watches what, and sending to them. One message of a stream is on its way at a
 * time. They build on each other, so the others wait in line, and a reader that is too slow for
 * them has its stream ended.
 *
 * A stream is made on the RPC thread (mr_dstream_accept), which afterwards only posts what happened
 * to it; everything else is the loop's.
 */
#ifndef MR_DISPATCHER_LOOP_STREAMS_H
#define MR_DISPATCHER_LOOP_STREAMS_H

#include "base/map.h"
#include "dispatcher/loop/mailbox.h"

#include <sys/queue.h>

#define MR_TOPIC_SIZE 80

/* Bytes that wait for a slow reader. */
#define MR_STREAM_BYTES_MAX (8 * MR_MIB)

struct mr_dmessage {
    STAILQ_ENTRY(mr_dmessage) link;
    struct mr_buf bytes;
};

struct mr_dstream {
    mr_rpc_stream *rpc;
    struct mr_mailbox *mailbox;
    const struct mr_method *method;
    unsigned refs;    /* one until it has ended, one a call that refers to it */
    bool got_request; /* RPC thread */
    /* the loop's */
    bool ended;
    bool answered;  /* with what is there; what changes may follow */
    bool busy;      /* a message is on its way */
    bool finishing; /* after what waits */
    bool finished;
    int finish_code;
    char finish_message[MR_ERROR_MESSAGE_SIZE];
    STAILQ_HEAD(, mr_dmessage) line;
    size_t line_bytes;
    bool subscribed;
    char topic[MR_TOPIC_SIZE];  /* iteration or worker incarnation */
    char client[MR_TOPIC_SIZE]; /* WatchClient: its uuid; Follow: the instance of the standby */
    struct mr_dstream *next;    /* all that are subscribed */
    struct mr_dstream *prev;
    struct mr_dstream *topic_next;
};

struct mr_streams {
    struct mr_map topics; /* topic -> first of its streams, by topic_next */
    struct mr_dstream *all;
};

/* For mr_rpc_server_stream(): @ctx is a struct mr_stream_service. */
struct mr_stream_service {
    struct mr_mailbox *mailbox;
    const struct mr_method *method;
    struct mr_method_numbers *numbers; /* of unary calls */
};
void mr_dstream_accept(void *ctx, mr_rpc_stream *s);

void mr_dstream_unref(struct mr_dstream *d);
/* Send, soon; takes @message. Dropped if the stream is over. */
void mr_dstream_send(struct mr_dstream *d, struct mr_buf *message);
/* End it after what was sent. */
void mr_dstream_finish(struct mr_dstream *d, int code, const char *message);

/* What the RPC thread reported. */
void mr_dstream_sent(struct mr_dstream *d);
void mr_streams_ended(struct mr_streams *all, struct mr_dstream *d);

/* From now on it gets what is pushed to @topic. @client may be NULL. */
int mr_streams_subscribe(struct mr_streams *all, struct mr_dstream *d, const char *topic,
                         const char *client, mr_error *err);
/* The first stream of a topic; go on with topic_next. */
struct mr_dstream *mr_streams_of(const struct mr_streams *all, const char *topic);
/* Take it off its topic; it can still be sent to. */
void mr_streams_unsubscribe(struct mr_streams *all, struct mr_dstream *d);
void mr_streams_free(struct mr_streams *all); /* none may be subscribed */

#endif
