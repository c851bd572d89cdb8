/*
 * A watch: a server stream, reopened at whoever leads. The stream's callbacks (on the runtime's thread) only put the newest
 * message aside; a thread of the watch parses it, hands it on and decides what to do when the stream ends.
 */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "control/internal.h"

#include <millrace/dataset.h> /* mr_free */
#include <string.h>

struct any_request {
    ProtobufCMessage base;
    Millrace__RequestHeader *header;
};
struct any_reply {
    ProtobufCMessage base;
    Millrace__ReplyHeader *header;
};

struct mr_control_watch {
    mr_control *control;
    char *path;
    void *request;
    size_t request_size;
    const ProtobufCMessageDescriptor *desc;
    mr_control_update *fn;
    void *ctx;
    pthread_t thread;
    /* Guarded by control.lock, announced by control.changed. */
    bool stop;
    mr_rpc_message *newest;
    bool ended;
    int end_rc;
    mr_error end_err;
    mr_rpc_stream *stream;
};

static void on_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    mr_control_watch *w = ctx;
    mr_rpc_message *old;

    {
        MR_LOCK(&w->control->lock);
        old = w->newest;
        w->newest = m;
        (void)pthread_cond_broadcast(&w->control->changed);
    }
    mr_rpc_message_free(old);
    mr_rpc_stream_receive(s);
}

static void on_sent(void *ctx, mr_rpc_stream *s)
{
}

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    mr_control_watch *w = ctx;
    MR_LOCK(&w->control->lock);

    w->ended = true;
    w->end_rc = rc;
    if (err != NULL) {
        w->end_err = *err;
    }
    (void)pthread_cond_broadcast(&w->control->changed);
}

static const struct mr_rpc_stream_ops stream_ops = {.message = on_message, .sent = on_sent, .ended = on_ended};

/*
 * Hand one message on. MR_OK; MR_TIMEOUT: this peer does not lead; < 0: refused for good, and the receiver was told.
 */
static int deliver(mr_control_watch *w, struct control_attempt *a, mr_rpc_message *m, bool *wait)
{
    size_t size = mr_rpc_message_size(m);
    ProtobufCMessage *update = NULL;
    mr_error err = {0};
    int rc = MR_OK;
    void *bytes = mr_malloc(size);

    if (bytes == NULL) {
        rc = mr_error_nomem(&err);
    } else {
        mr_rpc_message_copy(m, 0, size, bytes);
        update = protobuf_c_message_unpack(w->desc, NULL, size, bytes);
        mr_free(bytes);
        if (update == NULL) {
            rc = mr_error_set(&err, MR_EDATALOSS, "dispatcher %s: update on %s does not parse", a->address, w->path);
        } else {
            rc = control_judge(w->control, a, ((struct any_reply *)update)->header, wait, &err);
        }
    }
    if (rc == MR_OK) {
        w->fn(w->ctx, MR_OK, update, NULL);
    } else if (rc < 0) {
        w->fn(w->ctx, rc, NULL, &err);
    }
    if (update != NULL) {
        protobuf_c_message_free_unpacked(update, NULL);
    }
    return rc;
}

/* Wait for a message or the end of the stream. NULL: ended. */
static mr_rpc_message *next_message(mr_control_watch *w)
{
    mr_control *c = w->control;
    MR_LOCK(&c->lock);
    bool broken = false;

    for (;;) {
        mr_rpc_message *m = w->newest;

        if ((w->stop || c->cancelled) && !broken) {
            broken = true;
            mr_rpc_stream_cancel(w->stream);
        }
        if (m != NULL) {
            w->newest = NULL;
            return m;
        }
        if (w->ended) {
            return NULL;
        }
        mr_cond_wait(&c->changed, &c->lock);
    }
}

static bool stopping(mr_control_watch *w)
{
    MR_LOCK(&w->control->lock);
    return w->stop || w->control->cancelled;
}

/* What a stream that is over leaves behind: nobody may use it, or its last message, any more. */
static void wait_for_end(mr_control_watch *w)
{
    mr_rpc_message *late;

    {
        MR_LOCK(&w->control->lock);
        while (!w->ended) {
            mr_cond_wait(&w->control->changed, &w->control->lock);
        }
        late = w->newest;
        w->newest = NULL;
    }
    mr_rpc_message_free(late);
}

/* The header as it is known now, in front of the packed rest of the request. */
static void *request_bytes(mr_control_watch *w, size_t *size)
{
    struct control_header_store store;
    Millrace__RequestHeader header;
    struct mr_buf out = MR_BUF_INIT;
    unsigned char tag[16] = {0x0a}; /* field 1, length-delimited */
    size_t n = 1;

    control_fill_header(w->control, &header, &store);
    size_t len = millrace__request_header__get_packed_size(&header);
    for (size_t rest = len; n == 1 || rest > 0; rest >>= 7) {
        tag[n++] = (unsigned char)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
    }
    mr_buf_append(&out, tag, n);
    unsigned char *to = mr_buf_reserve(&out, len);
    if (to != NULL) {
        (void)millrace__request_header__pack(&header, to);
        out.len += len;
    }
    mr_buf_append(&out, w->request, w->request_size);
    return mr_buf_take(&out, size);
}

static int open_stream(mr_control_watch *w, struct control_attempt *a, mr_error *err)
{
    struct mr_rpc_slice slice = {0};
    size_t size = 0;
    mr_rpc_stream *stream = NULL;
    void *bytes = request_bytes(w, &size);
    int rc;

    if (bytes == NULL) {
        return mr_error_nomem(err);
    }
    w->ended = false;
    w->end_rc = MR_OK;
    rc = mr_rpc_stream_open(a->link->channel, w->path, NULL, -1, false /* wait for ready */, &stream_ops, w, &stream, err);
    if (rc < 0) {
        mr_free(bytes);
        return rc;
    }
    {
        MR_LOCK(&w->control->lock);
        w->stream = stream;
    }
    slice.data = bytes;
    slice.size = size;
    /* A stream that has ended already refuses this; its end is seen all the same. */
    (void)mr_rpc_stream_send(stream, &slice, 1, false /* more follows */, NULL);
    mr_rpc_stream_half_close(stream);
    mr_rpc_stream_receive(stream);
    mr_free(bytes);
    return MR_OK;
}

static void close_stream(mr_control_watch *w)
{
    mr_rpc_stream *stream;

    mr_rpc_stream_cancel(w->stream);
    wait_for_end(w);
    {
        MR_LOCK(&w->control->lock);
        stream = w->stream;
        w->stream = NULL;
    }
    mr_rpc_stream_unref(stream);
}

/* One stream from opening to end. MR_OK/MR_TIMEOUT: open another; < 0: over for good. */
static int run_stream(mr_control_watch *w, struct control_attempt *a, bool *wait, mr_error *err)
{
    mr_rpc_message *m;
    bool fine = false;
    int rc = control_pick(w->control, a, err);

    *wait = true;
    if (rc < 0) {
        return rc;
    }
    rc = open_stream(w, a, err);
    if (rc < 0) {
        control_release(w->control, a, true);
        return rc;
    }
    while (rc == MR_OK && (m = next_message(w)) != NULL) {
        rc = deliver(w, a, m, wait);
        mr_rpc_message_free(m);
        fine = fine || rc == MR_OK;
    }
    close_stream(w);
    /* A term that ended, or a dispatcher that went: look for the next one at once the first time. */
    control_release(w->control, a, rc == MR_OK && w->end_rc < 0);
    if (rc == MR_OK && fine) {
        *wait = false;
    }
    return rc;
}

static void *run_watch(void *arg)
{
    mr_control_watch *w = arg;
    struct control_attempt a = {.started_ms = mr_now_ms()};
    mr_error err = {0};
    int rc = MR_OK;

    while (rc >= 0 && !stopping(w)) {
        bool wait;

        rc = run_stream(w, &a, &wait, &err);
        if (rc >= 0 && wait) {
            rc = control_back_off(w->control, &a, -1, &w->stop, &err);
        }
    }
    return NULL;
}

int mr_control_watch_open(mr_control *c, const char *path, ProtobufCMessage *request,
                          const ProtobufCMessageDescriptor *update, mr_control_update *fn, void *ctx,
                          mr_control_watch **ret, mr_error *err)
{
    mr_control_watch *w = mr_calloc(1, sizeof *w);
    int rc = MR_OK;

    if (w == NULL) {
        return mr_error_nomem(err);
    }
    MR_ASSERT(((struct any_request *)request)->header == NULL);
    w->control = c;
    w->desc = update;
    w->fn = fn;
    w->ctx = ctx;
    w->path = mr_strdup(path);
    w->request_size = protobuf_c_message_get_packed_size(request);
    w->request = mr_malloc(w->request_size);
    if (w->path == NULL || w->request == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    (void)protobuf_c_message_pack(request, w->request);
    rc = mr_thread_start(&w->thread, "mr-watch", run_watch, w, err);
out:
    if (rc < 0) {
        mr_free(w->path);
        mr_free(w->request);
        mr_free(w);
        return rc;
    }
    *ret = w;
    return MR_OK;
}

void mr_control_watch_close(mr_control_watch *w)
{
    if (w == NULL) {
        return;
    }
    {
        MR_LOCK(&w->control->lock);
        w->stop = true;
        (void)pthread_cond_broadcast(&w->control->changed);
    }
    (void)pthread_join(w->thread, NULL);
    mr_free(w->path);
    mr_free(w->request);
    mr_free(w);
}
