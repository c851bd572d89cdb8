/*
 * Server streams: who watches what, and sending to them. One message of a stream is on its way at a
 * time. They build on each other, so the others wait in line, and a reader that is too slow for
 * them has its stream ended.
 *
 * The driver makes a stream as a part of what it knows of it (mr_dstream_init()), and reports what
 * happens to it: MR_ITEM_STREAM_SENT, and MR_ITEM_STREAM_ENDED once.
 */
#pragma once

#include "base/map.h"
#include "dispatcher/turn/method.h"

#include <sys/queue.h>

#define MR_TOPIC_SIZE 80

/* Bytes that wait for a slow reader. */
#define MR_STREAM_BYTES_MAX (8 * MR_MIB)

struct mr_dmessage {
    STAILQ_ENTRY(mr_dmessage) link;
    struct mr_buf bytes;
};

struct mr_dstream;

/* The driver's side of a stream. */
struct mr_dstream_ops {
    /* One message; false: the stream is over, and its end is reported separately. */
    bool (*send)(struct mr_dstream *d, const void *bytes, size_t size);
    void (*finish)(struct mr_dstream *d, int code,
                   const char *message);   /* once, when all is sent */
    void (*release)(struct mr_dstream *d); /* nobody refers to it any more: free it */
};

struct mr_dstream {
    const struct mr_dstream_ops *ops;
    const struct mr_method *method;
    unsigned refs; /* one until it has ended, one a call that refers to it */
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
    char topic[MR_TOPIC_SIZE];   /* iteration or worker incarnation */
    char client[MR_TOPIC_SIZE];  /* WatchClient: its uuid; Follow: the instance of the standby */
    LIST_ENTRY(mr_dstream) link; /* all that are subscribed */
    struct mr_dstream *topic_next;
};

struct mr_streams {
    struct mr_map topics; /* topic -> first of its streams, by topic_next */
    LIST_HEAD(, mr_dstream) all;
};

/* With one reference, until it has ended. */
void mr_dstream_init(struct mr_dstream *d, const struct mr_dstream_ops *ops,
                     const struct mr_method *method);
void mr_dstream_unref(struct mr_dstream *d);
/* Send, soon; takes @message. Dropped if the stream is over. */
void mr_dstream_send(struct mr_dstream *d, struct mr_buf *message);
/* End it after what was sent. */
void mr_dstream_finish(struct mr_dstream *d, int code, const char *message);

/* What the driver reports. */
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
