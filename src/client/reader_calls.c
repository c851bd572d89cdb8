/* The calls and the watch of a reader's session with the dispatchers; what they say is
 * client/read/attach.c's. */
#include "base/clock.h"
#include "base/sync.h"
#include "client/reader_internal.h"
#include "client/registration.h"
#include "millrace/service.rpc.h"

static void on_update(void *ctx, const ProtobufCMessage *msg)
{
    mr_reader *r = mr_reader_from(ctx);

    mr_reader_enter(r);
    mr_read_updated(&r->read, (const Millrace__ClientUpdate *)msg);
    mr_reader_leave(r);
}

static void on_refused(void *ctx, const mr_error *err, bool *again)
{
    mr_reader *r = mr_reader_from(ctx);

    mr_reader_enter(r);
    mr_read_watch_refused(&r->read, err);
    mr_reader_leave(r);
    *again = false;
}

static const struct mr_control_watch_ops watch_ops = {.update = on_update, .refused = on_refused};

struct registration {
    mr_reader *reader;
    int64_t timeout_ms;
};

static int send_registration(void *ctx, Millrace__RegisterDatasetRequest *req,
                             Millrace__RegisterDatasetReply **reply, mr_error *err)
{
    const struct registration *c = ctx;

    return mr_control_call(c->reader->control, MR_METHOD_REGISTER_DATASET, &req->base,
                           &millrace__register_dataset_reply__descriptor, c->timeout_ms,
                           &c->reader->cancelled, (ProtobufCMessage **)reply, err);
}

static int call(mr_reader *r, const struct mr_read_step *step, ProtobufCMessage **reply,
                mr_error *err)
{
    Millrace__RegisterDatasetRequest req = MILLRACE__REGISTER_DATASET_REQUEST__INIT;
    struct registration c = {.reader = r, .timeout_ms = step->timeout_ms};

    if (step->kind == MR_READ_STEP_CALL) {
        return mr_control_call(r->control, step->method, step->request, step->reply,
                               step->timeout_ms, &r->cancelled, reply, err);
    }
    req.compression = (char *)(uintptr_t)r->read.opts.compression;
    return mr_registration_send(r->read.opts.service, r->read.opts.input, &req, send_registration,
                                &c, (Millrace__RegisterDatasetReply **)reply, err);
}

static void answered(mr_reader *r, int rc, const ProtobufCMessage *reply, const mr_error *err)
{
    mr_reader_enter(r);
    mr_read_answered(&r->read, rc < 0 && atomic_load(&r->cancelled) ? MR_ECANCELED : rc, reply,
                     err);
    mr_reader_leave(r);
}

/* The next step that is not to wait. */
static void next_step(mr_reader *r, struct mr_read_step *ret)
{
    mr_reader_enter(r);
    for (;;) {
        mr_read_next_step(&r->read, ret);
        mr_reader_wake_locked(r);
        if (ret->kind != MR_READ_STEP_WAIT) {
            break;
        }
        (void)mr_cond_wait_ms(&r->due, &r->lock,
                              ret->until_ms < INT64_MAX ? ret->until_ms - r->read.now_ms : -1);
        r->read.now_ms = mr_now_ms();
    }
    mr_reader_leave(r);
}

void *mr_reader_run_calls(void *arg)
{
    mr_reader *r = mr_reader_from(arg);
    mr_control_watch *watch = NULL;
    ProtobufCMessage *watched = NULL;
    struct mr_read_step step;
    mr_error err;

    for (next_step(r, &step); step.kind != MR_READ_STEP_OUT; next_step(r, &step)) {
        ProtobufCMessage *reply = NULL;
        int rc;

        if (step.kind == MR_READ_STEP_UNWATCH) {
            mr_control_watch_free(watch);
            protobuf_c_message_free_unpacked(watched, NULL);
            watch = NULL;
            watched = NULL;
        } else if (step.kind == MR_READ_STEP_WATCH) {
            watched = step.request;
            rc = mr_control_watch_new(r->control, step.method, watched, step.reply, &watch_ops, r,
                                      &watch, &err);
            if (rc < 0) {
                answered(r, rc, NULL, &err);
            }
        } else {
            rc = call(r, &step, &reply, &err);
            answered(r, rc, reply, &err);
            protobuf_c_message_free_unpacked(reply, NULL);
            protobuf_c_message_free_unpacked(step.request, NULL);
        }
    }
    return NULL;
}
