#include "dispatcher/loop/streams.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"

#include <millrace/base.h>
#include <stdio.h>
#include <string.h>

/* ---- the RPC thread ---- */

static void post(struct mr_dstream *d, enum mr_item_kind kind)
{
    struct mr_item item = {.kind = kind, .stream = d};

    mr_mailbox_put(d->mailbox, &item);
}

static struct mr_call *decode(struct mr_dstream *d, mr_rpc_message *m, mr_error *err)
{
    size_t size = mr_rpc_message_size(m);
    void *bytes;
    struct mr_call *call;

    if (size > MR_RPC_REQUEST_BYTES_MAX) {
        (void)mr_error_set(err, MR_EINVAL, "%s: a request of %zu bytes, at most %llu are allowed",
                           d->method->path, size, MR_RPC_REQUEST_BYTES_MAX);
        return NULL;
    }
    bytes = mr_malloc(size + 1);
    if (bytes == NULL) {
        (void)mr_error_nomem(err);
        return NULL;
    }
    mr_rpc_message_copy(m, 0, size, bytes);
    call = mr_call_new(d->method, bytes, size, err);
    mr_free(bytes);
    return call;
}

static void on_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct mr_dstream *d = ctx;
    struct mr_call *call = NULL;
    mr_error err;
    int rc = MR_OK;

    if (d->got_request) {
        mr_rpc_message_free(m); /* One request a stream; what follows is nobody's. */
        return;
    }
    d->got_request = true;
    call = decode(d, m, &err);
    mr_rpc_message_free(m);
    if (call == NULL) {
        mr_rpc_stream_finish(s, err.code, err.message);
        return;
    }
    call->stream = d;
    call->arrived_ns = mr_now_ns();
    d->refs++; /* Before anybody else can see it. */
    rc = mr_mailbox_put_call(d->mailbox, call, mr_rpc_stream_host(s), &err);
    if (rc < 0) {
        d->refs--;
        mr_call_free(call);
        mr_rpc_stream_finish(s, err.code, err.message);
    }
}

static void on_sent(void *ctx, mr_rpc_stream *s)
{
    post(ctx, MR_ITEM_STREAM_SENT);
}

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    post(ctx, MR_ITEM_STREAM_ENDED);
}

static const struct mr_rpc_stream_ops stream_ops = {
    .message = on_message, .sent = on_sent, .ended = on_ended};

void mr_dstream_accept(void *ctx, mr_rpc_stream *s)
{
    const struct mr_stream_service *service = ctx;
    struct mr_dstream *d = mr_calloc(1, sizeof *d);

    if (d == NULL) {
        mr_rpc_stream_finish(s, MR_EEXHAUSTED, "out of memory");
        mr_rpc_stream_unref(s);
        return;
    }
    d->rpc = s;
    STAILQ_INIT(&d->line);
    d->mailbox = service->mailbox;
    d->method = service->method;
    d->refs = 1;
    mr_rpc_stream_accept(s, &stream_ops, d);
    mr_rpc_stream_receive(s);
}

/* ---- the loop ---- */

static void drop_first(struct mr_dstream *d)
{
    struct mr_dmessage *first = STAILQ_FIRST(&d->line);

    STAILQ_REMOVE_HEAD(&d->line, link);
    d->line_bytes -= first->bytes.len;
    mr_buf_free(&first->bytes);
    mr_free(first);
}

static void clear_line(struct mr_dstream *d)
{
    while (!STAILQ_EMPTY(&d->line)) {
        drop_first(d);
    }
}

void mr_dstream_unref(struct mr_dstream *d)
{
    if (--d->refs > 0) {
        return;
    }
    MR_ASSERT(!d->subscribed);
    mr_rpc_stream_unref(d->rpc);
    clear_line(d);
    mr_free(d);
}

static void send_now(struct mr_dstream *d)
{
    struct mr_dmessage *first = STAILQ_FIRST(&d->line);
    struct mr_rpc_slice slice = {.data = first->bytes.data, .size = first->bytes.len};

    /* A stream that is over refuses; its end is reported separately. */
    d->busy = mr_rpc_stream_send(d->rpc, &slice, 1, false, NULL) >= 0;
    drop_first(d);
}

static void finish_now(struct mr_dstream *d)
{
    if (!d->finished && !d->ended) {
        d->finished = true;
        mr_rpc_stream_finish(d->rpc, d->finish_code, d->finish_message);
    }
}

/* Takes the bytes of @message. */
static bool line_up(struct mr_dstream *d, struct mr_buf *message)
{
    struct mr_dmessage *last = mr_calloc(1, sizeof *last);

    if (last == NULL) {
        return false;
    }
    last->bytes = *message;
    *message = (struct mr_buf)MR_BUF_INIT;
    d->line_bytes += last->bytes.len;
    STAILQ_INSERT_TAIL(&d->line, last, link);
    return true;
}

void mr_dstream_send(struct mr_dstream *d, struct mr_buf *message)
{
    if (d->ended || d->finishing) {
        mr_buf_free(message);
        return;
    }
    if (message->failed || !line_up(d, message)) {
        mr_buf_free(message);
        mr_dstream_finish(d, MR_EEXHAUSTED, "out of memory");
        return;
    }
    if (!d->busy) {
        send_now(d);
    } else if (d->line_bytes > MR_STREAM_BYTES_MAX) {
        clear_line(d);
        mr_dstream_finish(d, MR_EUNAVAIL, "the watcher is too slow for what changes");
    }
}

void mr_dstream_finish(struct mr_dstream *d, int code, const char *message)
{
    if (d->finishing) {
        return;
    }
    d->finishing = true;
    d->finish_code = code;
    (void)snprintf(d->finish_message, sizeof d->finish_message, "%s", message);
    if (!d->busy) {
        finish_now(d);
    }
}

void mr_dstream_sent(struct mr_dstream *d)
{
    d->busy = false;
    if (!STAILQ_EMPTY(&d->line) && !d->ended) {
        send_now(d);
    } else if (d->finishing) {
        finish_now(d);
    }
}

struct mr_dstream *mr_streams_of(const struct mr_streams *all, const char *topic)
{
    return mr_map_get(&all->topics, topic);
}

int mr_streams_subscribe(struct mr_streams *all, struct mr_dstream *d, const char *topic,
                         const char *client, mr_error *err)
{
    int rc;

    MR_ASSERT(!d->subscribed);
    if (strlen(topic) >= sizeof d->topic ||
        (client != NULL && strlen(client) >= sizeof d->client)) {
        return mr_error_set(err, MR_EINVAL, "an id of more than %zu bytes", sizeof d->topic - 1);
    }
    (void)snprintf(d->topic, sizeof d->topic, "%s", topic);
    (void)snprintf(d->client, sizeof d->client, "%s", client != NULL ? client : "");
    d->topic_next = mr_streams_of(all, topic);
    rc = mr_map_put(&all->topics, d->topic, d, err); /* The key is the newest stream's own. */
    if (rc < 0) {
        return rc;
    }
    d->subscribed = true;
    d->prev = NULL;
    d->next = all->all;
    if (d->next != NULL) {
        d->next->prev = d;
    }
    all->all = d;
    return MR_OK;
}

void mr_streams_unsubscribe(struct mr_streams *all, struct mr_dstream *d)
{
    struct mr_dstream *first = mr_streams_of(all, d->topic);

    if (!d->subscribed) {
        return;
    }
    d->subscribed = false;
    if (first == d) {
        (void)mr_map_remove(&all->topics, d->topic);
        if (d->topic_next != NULL) {
            int rc = mr_map_put(&all->topics, d->topic_next->topic, d->topic_next, NULL);

            MR_ASSERT(rc >= 0); /* A slot has just become free. */
        }
    } else {
        while (first->topic_next != d) {
            first = first->topic_next;
        }
        first->topic_next = d->topic_next;
    }
    if (d->prev != NULL) {
        d->prev->next = d->next;
    } else {
        all->all = d->next;
    }
    if (d->next != NULL) {
        d->next->prev = d->prev;
    }
}

void mr_streams_ended(struct mr_streams *all, struct mr_dstream *d)
{
    d->ended = true;
    mr_streams_unsubscribe(all, d);
    mr_dstream_unref(d);
}

void mr_streams_free(struct mr_streams *all)
{
    MR_ASSERT(all->all == NULL);
    mr_map_free(&all->topics);
}
