#include "dispatcher/server/rpc.h"

#include "access/role.h"

/* ---- unary calls ---- */

/* @c NULL: @err says why. */
static void post_call(const struct mr_rpc_service *service, mr_rpc_request *req,
                      struct mr_server_call *c, mr_error *err)
{
    if (c == NULL) {
        mr_rpc_reply(req, err->code, err->message, NULL, 0);
        return;
    }
    c->rpc = req;
    const struct mr_rpc_who *who = mr_rpc_request_who(req);

    c->call.attach_only = (who->rights & MR_ROLE_WRITE) == 0;
    c->call.quota = who->quota;
    (void)snprintf(c->call.owner, sizeof c->call.owner, "%s", who->name);
    c->numbers = service->numbers;
    if (mr_mailbox_put_call(service->mailbox, c, mr_rpc_request_host(req), err) < 0) {
        struct mr_header_info info = {.cluster = NULL};

        mr_server_call_answer(&c->call, NULL, &info, err);
        mr_call_free(&c->call);
    }
}

static void on_unary(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    const struct mr_rpc_service *service = ctx;
    mr_error err;

    post_call(service, req, mr_server_call_new(service->method, bytes, size, &err), &err);
}

static void on_bulk(void *ctx, mr_rpc_request *req, mr_rpc_message *m)
{
    const struct mr_rpc_service *service = ctx;
    mr_error err;
    struct mr_server_call *c = mr_server_call_new_packed(service->method, m, &err);

    if (c == NULL) {
        mr_rpc_message_free(m);
    }
    post_call(service, req, c, &err);
}

/* ---- streams ---- */

struct server_stream {
    struct mr_dstream d; /* its first member */
    mr_rpc_stream *rpc;
    struct mr_mailbox *mailbox;
    bool got_request; /* RPC thread */
};

static struct server_stream *stream_of(struct mr_dstream *d)
{
    return (struct server_stream *)d;
}

static bool send_message(struct mr_dstream *d, const void *bytes, size_t size)
{
    struct mr_rpc_slice slice = {.data = bytes, .size = size};

    return mr_rpc_stream_send(stream_of(d)->rpc, &slice, 1, false, NULL) >= 0;
}

static void finish_stream(struct mr_dstream *d, int code, const char *message)
{
    mr_rpc_stream_finish(stream_of(d)->rpc, code, message);
}

static void release_stream(struct mr_dstream *d)
{
    mr_rpc_stream_unref(stream_of(d)->rpc);
    mr_free(stream_of(d));
}

static const struct mr_dstream_ops dstream_ops = {
    .send = send_message, .finish = finish_stream, .release = release_stream};

static void post_item(struct server_stream *s, enum mr_item_kind kind)
{
    struct mr_item item = {.kind = kind, .stream = &s->d};

    mr_mailbox_put(s->mailbox, &item);
}

static struct mr_server_call *decode(const struct mr_method *method, mr_rpc_message *m,
                                     mr_error *err)
{
    size_t size = mr_rpc_message_size(m);
    void *bytes;
    struct mr_server_call *call;

    if (size > MR_RPC_REQUEST_BYTES_MAX) {
        (void)mr_error_set(err, MR_EINVAL, "%s: a request of %zu bytes, at most %llu are allowed",
                           method->path, size, MR_RPC_REQUEST_BYTES_MAX);
        return NULL;
    }
    bytes = mr_malloc(size + 1);
    if (bytes == NULL) {
        (void)mr_error_nomem(err);
        return NULL;
    }
    mr_rpc_message_copy(m, 0, size, bytes);
    call = mr_server_call_new(method, bytes, size, err);
    mr_free(bytes);
    return call;
}

static void on_message(void *ctx, mr_rpc_stream *rpc, mr_rpc_message *m)
{
    struct server_stream *s = ctx;
    struct mr_server_call *call = NULL;
    mr_error err;

    if (s->got_request) {
        mr_rpc_message_free(m); /* One request a stream; what follows is nobody's. */
        return;
    }
    s->got_request = true;
    call = decode(s->d.method, m, &err);
    mr_rpc_message_free(m);
    if (call == NULL) {
        mr_rpc_stream_finish(rpc, err.code, err.message);
        return;
    }
    call->call.stream = &s->d;
    s->d.refs++; /* Before anybody else can see it. */
    if (mr_mailbox_put_call(s->mailbox, call, mr_rpc_stream_host(rpc), &err) < 0) {
        s->d.refs--;
        mr_call_free(&call->call);
        mr_rpc_stream_finish(rpc, err.code, err.message);
    }
}

static void on_sent(void *ctx, mr_rpc_stream *s)
{
    post_item(ctx, MR_ITEM_STREAM_SENT);
}

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    post_item(ctx, MR_ITEM_STREAM_ENDED);
}

static const struct mr_rpc_stream_ops stream_ops = {
    .message = on_message, .sent = on_sent, .ended = on_ended};

static void on_stream(void *ctx, mr_rpc_stream *rpc)
{
    const struct mr_rpc_service *service = ctx;
    struct server_stream *s = mr_calloc(1, sizeof *s);

    if (s == NULL) {
        mr_rpc_stream_finish(rpc, MR_EEXHAUSTED, "out of memory");
        mr_rpc_stream_unref(rpc);
        return;
    }
    mr_dstream_init(&s->d, &dstream_ops, service->method);
    s->rpc = rpc;
    s->mailbox = service->mailbox;
    mr_rpc_stream_accept(rpc, &stream_ops, s);
    mr_rpc_stream_receive(rpc);
}

/* ---- the methods ---- */

static int serve(mr_rpc_server *server, struct mr_rpc_service *s, mr_error *err)
{
    const char *path = s->method->path;

    if (s->method->stream) {
        return mr_rpc_server_stream(server, path, on_stream, s, err);
    }
    return s->method->bulk
               ? mr_rpc_server_bulk(server, path, MR_RPC_DEFINITION_BYTES_MAX, on_bulk, s, err)
               : mr_rpc_server_unary(server, path, MR_RPC_REQUEST_BYTES_MAX, on_unary, s, err);
}

int mr_rpc_serve(mr_rpc_server *server, struct mr_rpc_service *services, mr_error *err)
{
    for (size_t i = 0; i < mr_methods_count; i++) {
        MR_TRY(serve(server, &services[i], err));
    }
    return MR_OK;
}
