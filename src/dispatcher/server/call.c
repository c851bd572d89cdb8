#include "dispatcher/server/call.h"

#include "base/clock.h"
#include "dispatcher/server/mailbox.h"

static void release(struct mr_call *call)
{
    struct mr_server_call *c = mr_server_call_of(call);

    MR_ASSERT(c->rpc == NULL);
    if (c->mailbox != NULL) {
        mr_mailbox_call_over(c->mailbox, c);
    }
    mr_rpc_message_free(c->packed);
    mr_free(c);
}

static struct mr_server_call *make(const struct mr_method *method, mr_error *err)
{
    struct mr_server_call *c = mr_calloc(1, sizeof *c);

    if (c == NULL) {
        (void)mr_error_nomem(err);
        return NULL;
    }
    c->call.method = method;
    c->call.release = release;
    c->arrived_ns = mr_now_ns();
    c->call.arrived_ms = c->arrived_ns / MR_NS_PER_MS;
    return c;
}

struct mr_server_call *mr_server_call_new(const struct mr_method *method, const void *bytes,
                                          size_t size, mr_error *err)
{
    struct mr_server_call *c = make(method, err);

    if (c != NULL && mr_call_unpack(&c->call, bytes, size, &c->size, err) < 0) {
        mr_free(c);
        return NULL;
    }
    return c;
}

struct mr_server_call *mr_server_call_new_packed(const struct mr_method *method, mr_rpc_message *m,
                                                 mr_error *err)
{
    struct mr_server_call *c = make(method, err);

    if (c != NULL) {
        c->size = mr_rpc_message_size(m);
        c->packed = m;
    }
    return c;
}

int mr_server_call_unpack(struct mr_server_call *c, mr_error *err)
{
    unsigned char *bytes = mr_malloc(c->size + 1);
    size_t taken; /* Hardly more than what is counted already: it is nearly all one string. */
    int rc;

    MR_CHECK_ALLOC(bytes, err);
    mr_rpc_message_copy(c->packed, 0, c->size, bytes);
    mr_rpc_message_free(c->packed);
    c->packed = NULL;
    rc = mr_call_unpack(&c->call, bytes, c->size, &taken, err);
    mr_free(bytes);
    return rc;
}

static void note_answer(const struct mr_server_call *c, const mr_error *error)
{
    int kind = error != NULL ? -error->code : 0;

    if (c->numbers == NULL) {
        return;
    }
    mr_histogram_note(&c->numbers->seconds, mr_now_ns() - c->arrived_ns);
    if (kind != 0) {
        (void)atomic_fetch_add(
            &c->numbers->errors[kind > 0 && kind < MR_CODES ? kind : -MR_EUNKNOWN], 1);
    }
}

void mr_server_call_reply(struct mr_call *call, const struct mr_buf *message, const mr_error *error)
{
    struct mr_server_call *c = mr_server_call_of(call);
    mr_rpc_request *rpc = c->rpc;

    MR_ASSERT(rpc != NULL);
    c->rpc = NULL;
    if (message->failed) {
        mr_rpc_reply(rpc, MR_EEXHAUSTED, "out of memory", NULL, 0);
    } else {
        mr_rpc_reply(rpc, MR_OK, NULL, message->data, message->len);
    }
    note_answer(c, error);
}

void mr_server_call_answer(struct mr_call *call, ProtobufCMessage *message,
                           const struct mr_header_info *info, const mr_error *error)
{
    struct mr_buf b =
        mr_reply_pack(call->method->reply, message, info, call->method->contact, error);

    call->answered = true;
    mr_server_call_reply(call, &b, error);
    mr_buf_free(&b);
}
