/* A call: attempts, one after another, until the service has answered. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "control/internal.h"

#include <millrace/dataset.h> /* mr_free */
#include <string.h>

/* Every request and reply of the service begins with its header (field 1). */
struct any_request {
    ProtobufCMessage base;
    Millrace__RequestHeader *header;
};
struct any_reply {
    ProtobufCMessage base;
    Millrace__ReplyHeader *header;
};

/* Where the answer of one attempt goes. Lives on the caller's stack; guarded by control.lock. */
struct waiter {
    mr_control *control;
    bool done;
    int rc;
    void *reply;
    size_t size;
    mr_error err;
};

static void attempt_done(void *ctx, int rc, const void *reply, size_t size, const mr_error *err)
{
    struct waiter *w = ctx;
    mr_control *c = w->control;
    void *copy = NULL;
    mr_error local = {0};

    if (rc == MR_OK) {
        copy = mr_memdup(reply, size);
        if (copy == NULL) {
            rc = mr_error_nomem(&local);
            err = &local;
        }
    }
    MR_LOCK(&c->lock);
    w->rc = rc;
    w->reply = copy;
    w->size = size;
    if (rc < 0 && err != NULL) {
        w->err = *err;
    }
    w->done = true;
    (void)pthread_cond_broadcast(&c->changed);
}

/* One unary call that mr_control_cancel() reaches. */
static int run_attempt(mr_control *c, const struct control_attempt *a, const char *path, const void *bytes, size_t size,
                       int64_t timeout_ms, void **reply, size_t *reply_size, mr_error *err)
{
    struct waiter w = {.control = c};
    struct control_pending pending = {0};
    struct control_pending **at;
    mr_rpc_call *call = NULL;
    int rc = mr_rpc_unary(a->link->channel, path, bytes, size, NULL, timeout_ms, false /* wait for ready */, attempt_done, &w,
                          &call, err);

    if (rc < 0) {
        return rc;
    }
    {
        MR_LOCK(&c->lock);
        pending.call = call;
        pending.next = c->pending;
        c->pending = &pending;
        if (c->cancelled) {
            mr_rpc_call_cancel(call);
        }
        while (!w.done) {
            mr_cond_wait(&c->changed, &c->lock);
        }
        for (at = &c->pending; *at != &pending; at = &(*at)->next) {
        }
        *at = pending.next;
    }
    mr_rpc_call_unref(call);
    if (w.rc < 0) {
        if (err != NULL) {
            *err = w.err;
        }
        return w.rc;
    }
    *reply = w.reply;
    *reply_size = w.size;
    return MR_OK;
}

static void *pack_request(mr_control *c, ProtobufCMessage *request, size_t *size)
{
    struct any_request *r = (struct any_request *)request;
    struct control_header_store store;
    Millrace__RequestHeader header;

    MR_ASSERT(strcmp(request->descriptor->fields[0].name, "header") == 0);
    control_fill_header(c, &header, &store);
    r->header = &header;
    *size = protobuf_c_message_get_packed_size(request);
    void *bytes = mr_malloc(*size);
    if (bytes != NULL) {
        (void)protobuf_c_message_pack(request, bytes);
    }
    r->header = NULL;
    return bytes;
}

/*
 * Ask one peer once. MR_OK with the answer; MR_TIMEOUT: ask again (after backing off if *@wait); < 0: a definite answer.
 */
static int ask_once(mr_control *c, struct control_attempt *a, const char *path, ProtobufCMessage *request,
                    const ProtobufCMessageDescriptor *desc, int64_t left_ms, ProtobufCMessage **ret, bool *wait,
                    mr_error *err)
{
    ProtobufCMessage *message = NULL;
    void *bytes = NULL;
    void *reply = NULL;
    size_t size = 0;
    size_t reply_size = 0;
    int rc = control_pick(c, a, err);

    if (rc < 0) {
        return rc;
    }
    *wait = true;
    bytes = pack_request(c, request, &size);
    rc = bytes == NULL ? mr_error_nomem(err)
                       : run_attempt(c, a, path, bytes, size, left_ms < CONTROL_ATTEMPT_MS ? left_ms : CONTROL_ATTEMPT_MS,
                                     &reply, &reply_size, err);
    mr_free(bytes);
    control_release(c, a, rc < 0);
    if (rc < 0) {
        bool again = rc == MR_EUNAVAIL || rc == MR_EDEADLINE || rc == MR_ECANCELED || rc == MR_EUNKNOWN || rc == MR_EINTERNAL;
        return again ? MR_TIMEOUT : rc;
    }
    message = protobuf_c_message_unpack(desc, NULL, reply_size, reply);
    mr_free(reply);
    if (message == NULL) {
        return mr_error_set(err, MR_EDATALOSS, "dispatcher %s: answer to %s does not parse", a->address, path);
    }
    rc = control_judge(c, a, ((struct any_reply *)message)->header, wait, err);
    if (rc == MR_OK) {
        *ret = message;
    } else {
        protobuf_c_message_free_unpacked(message, NULL);
    }
    return rc;
}

static int give_up(mr_control *c, int64_t timeout_ms, const mr_error *last, mr_error *err)
{
    return mr_error_set(err, MR_EUNAVAIL, "no dispatcher answered at %s within %lld ms%s%s", c->service,
                        (long long)timeout_ms, last->message[0] == '\0' ? "" : ": ", last->message);
}

int mr_control_call(mr_control *c, const char *path, ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply,
                    int64_t timeout_ms, ProtobufCMessage **ret, mr_error *err)
{
    struct control_attempt a = {.started_ms = mr_now_ms()};
    mr_error last = {0};
    int rc;

    for (;;) {
        int64_t left = timeout_ms < 0 ? INT64_MAX : a.started_ms + timeout_ms - mr_now_ms();
        bool wait = true;

        if (left <= 0) {
            return give_up(c, timeout_ms, &last, err);
        }
        rc = ask_once(c, &a, path, request, reply, left, ret, &wait, &last);
        if (rc != MR_TIMEOUT) {
            break;
        }
        if (wait) {
            rc = control_back_off(c, &a, timeout_ms, NULL, &last);
            if (rc < 0) {
                break;
            }
        }
    }
    if (rc < 0 && err != NULL) {
        *err = last;
    }
    return rc;
}
