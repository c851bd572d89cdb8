/*
 * Answers. Each rests on a batch: the one that carries its own changes, or the newest there is; one
 * that denies or ends something rests on a batch that was not sent yet when it was decided, so that
 * a deposed leader cannot give it. Batches commit in order, and so effects are held in one queue.
 */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "dispatcher/loop/internal.h"

#include <millrace/base.h>
#include <stdio.h>
#include <string.h>

struct mr_header_info mr_loop_header(const struct mr_loop *l)
{
    const struct mr_leader_view *leader = mr_member_leader(l->member);
    struct mr_header_info info = {.cluster = l->cluster, .incarnation = l->incarnation};

    if (l->serving) {
        info.epoch = (uint64_t)mr_member_epoch(l->member);
        info.signature = mr_member_sign(l->member, info.epoch);
        info.dispatchers = (const char *const *)l->dispatchers;
        info.ndispatchers = l->ndispatchers;
    } else {
        info.incarnation = "";
        info.not_leader = true;
        info.leader = mr_loop_led_by_another(l) ? leader->record.address : "";
    }
    return info;
}

void mr_loop_drop_call(struct mr_call *call)
{
    if (call->stream != NULL) {
        mr_dstream_unref(call->stream);
        call->stream = NULL;
    }
    mr_definition_free(call->definition);
    call->definition = NULL;
    mr_call_free(call);
}

/* A stream gets its answer as a message; with an error it is also its last. */
static void answer_stream(struct mr_loop *l, struct mr_call *call, ProtobufCMessage *message,
                          const mr_error *error)
{
    struct mr_header_info info = mr_loop_header(l);
    struct mr_buf b =
        mr_reply_pack(call->method->reply, message, &info, call->method->contact, error);

    call->stream->answered = true;
    mr_dstream_send(call->stream, &b);
    if (error != NULL && error->code < 0) {
        mr_streams_unsubscribe(call->method->follow ? &l->followers : &l->streams, call->stream);
        mr_dstream_finish(call->stream, MR_OK, "");
    }
}

void mr_loop_answer(struct mr_loop *l, struct mr_call *call, ProtobufCMessage *message,
                    const mr_error *error)
{
    struct mr_header_info info = mr_loop_header(l);

    if (call->stream != NULL) {
        answer_stream(l, call, message, error);
    } else {
        mr_call_answer(call, message, &info, error);
    }
    mr_loop_drop_call(call);
}

void mr_loop_refuse(struct mr_loop *l, struct mr_call *call)
{
    const struct mr_leader_view *leader = mr_member_leader(l->member);
    mr_error err;

    if (l->serving) {
        /* It leads, but does not take calls any more. */
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "dispatcher %s is stopping",
                                  l->address);
    } else if (mr_loop_led_by_another(l)) {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                  "dispatcher %s does not lead, %s does", l->address,
                                  leader->record.address);
    } else {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                  "dispatcher %s: no leader at the moment", l->address);
    }
    mr_loop_answer(l, call, NULL, &err);
}

/* ---- holding ---- */

static struct mr_held_effect *held_new(const struct mr_effect *e, uint64_t batch)
{
    struct mr_held_effect *h = mr_calloc(1, sizeof *h);

    if (h != NULL) {
        h->batch = batch;
        h->kind = e->kind;
        memcpy(h->topic, e->topic, sizeof h->topic);
        h->error = e->error;
        if (e->blob != NULL) {
            (void)snprintf(h->blob, sizeof h->blob, "%s", e->blob);
            h->parts = e->parts;
        }
    }
    return h;
}

static void held_free(struct mr_held_effect *h)
{
    if (h->message != NULL) {
        protobuf_c_message_free_unpacked(h->message, NULL);
    }
    mr_free(h);
}

static int batch_for(struct mr_loop *l, const struct mr_effect *e, uint64_t own, uint64_t *batch,
                     mr_error *err)
{
    uint64_t newest = mr_member_newest(l->member);

    if (own != 0) {
        *batch = own;
        return MR_OK;
    }
    if (!e->fenced &&
        (newest > mr_member_committed(l->member) || mr_member_may_answer(l->member, l->now_ms))) {
        *batch = newest;
        return MR_OK;
    }
    return mr_member_fence(l->member, batch, err);
}

static bool is_push(enum mr_effect_kind kind)
{
    return kind == MR_EFFECT_PUSH_ITERATION || kind == MR_EFFECT_PUSH_WORKER;
}

static bool join(enum mr_effect_kind kind, ProtobufCMessage *update, ProtobufCMessage *next)
{
    return kind == MR_EFFECT_PUSH_WORKER
               ? mr_core_worker_update_join((Millrace__WorkerUpdate *)update,
                                            (Millrace__WorkerUpdate *)next)
               : mr_client_update_join((Millrace__ClientUpdate *)update,
                                       (Millrace__ClientUpdate *)next);
}

/* What one batch tells those who watch an iteration, or a worker, is told at once: at the end of an
 * epoch each task of the iteration ends, and each client would hear of each; then its clients go,
 * and each worker would hear of each. */
static bool was_joined(struct mr_loop *l, struct mr_effect *e, uint64_t batch)
{
    struct mr_held_effect *last = is_push(e->kind) ? mr_map_get(&l->pushes, e->topic) : NULL;

    /* An iteration and a worker may have the same name: that of a worker is its own choice. */
    if (last == NULL || last->kind != e->kind || last->batch != batch ||
        !join(e->kind, last->message, e->message)) {
        return false;
    }
    e->message = NULL;
    return true;
}

/* The stream that @call opens is of this topic; NULL: it is another call. */
static const char *watched_topic(const struct mr_call *call)
{
    enum mr_command_kind kind = call->method->command;

    if (kind == MR_COMMAND_WATCH_CLIENT) {
        return ((const Millrace__WatchClientRequest *)call->request)->iteration_id;
    }
    return kind == MR_COMMAND_WATCH_WORKER
               ? ((const Millrace__WatchWorkerRequest *)call->request)->incarnation
               : NULL;
}

/* Who begins to watch gets a list that has what was pushed before: nothing later joins that. */
static void note_held(struct mr_loop *l, struct mr_held_effect *h)
{
    const char *begins = h->call != NULL ? watched_topic(h->call) : NULL;

    if (is_push(h->kind) && mr_map_put(&l->pushes, h->topic, h, NULL) < 0) {
        (void)mr_map_remove(&l->pushes, h->topic); /* without memory it stays by itself */
    } else if (begins != NULL) {
        (void)mr_map_remove(&l->pushes, begins);
    }
}

int mr_loop_hold(struct mr_loop *l, struct mr_call *call, uint64_t own, bool alone, mr_error *err)
{
    const struct mr_effect *now = NULL;
    int rc = MR_OK;

    for (size_t i = 0; i < l->outcome.neffects && rc >= 0; i++) {
        struct mr_effect *e = &l->outcome.effects[i];
        uint64_t batch = 0;
        struct mr_held_effect *h = NULL;

        if (e->from_memory) {
            now = e;
            continue;
        }
        rc = batch_for(l, e, own, &batch, err);
        if (rc >= 0 && was_joined(l, e, batch)) {
            continue;
        }
        if (rc >= 0) {
            h = held_new(e, batch);
            rc = h == NULL ? mr_error_nomem(err) : MR_OK;
        }
        if (rc < 0) {
            break;
        }
        h->changed = own != 0;
        h->alone = alone;
        h->message = e->message;
        e->message = NULL;
        if (e->kind == MR_EFFECT_REPLY) {
            MR_ASSERT(call != NULL);
            h->call = call;
            call = NULL; /* One answer a call. */
        }
        *l->held_tail = h;
        l->held_tail = &h->next;
        note_held(l, h);
    }
    if (rc >= 0 && now != NULL) {
        mr_loop_answer(l, call, now->message, NULL);
        call = NULL;
    }
    MR_ASSERT(rc < 0 || call == NULL);
    return rc;
}

/* ---- releasing ---- */

static void push(struct mr_loop *l, struct mr_held_effect *h)
{
    struct mr_header_info info = mr_loop_header(l);
    struct mr_buf packed = MR_BUF_INIT; /* once: all streams of a topic are of one method */

    for (struct mr_dstream *d = mr_streams_of(&l->streams, h->topic); d != NULL;
         d = d->topic_next) {
        struct mr_buf copy = MR_BUF_INIT;

        if (!d->answered) {
            continue; /* It was decided before the stream was; its first message will have it. */
        }
        if (packed.len == 0) {
            packed = mr_reply_pack(d->method->reply, h->message, &info, d->method->contact, NULL);
        }
        mr_buf_append(&copy, packed.data, packed.len);
        copy.failed = copy.failed || packed.failed;
        mr_dstream_send(d, &copy);
    }
    mr_buf_free(&packed);
}

static void end_stream(struct mr_loop *l, struct mr_dstream *d, const mr_error *error)
{
    struct mr_header_info info = mr_loop_header(l);
    struct mr_buf b = mr_reply_pack(d->method->reply, NULL, &info, d->method->contact, error);

    mr_dstream_send(d, &b);
    mr_dstream_finish(d, MR_OK, "");
    mr_streams_unsubscribe(&l->streams, d);
}

static void end_streams_of(struct mr_loop *l, struct mr_held_effect *h)
{
    struct mr_dstream *next;

    for (struct mr_dstream *d = l->streams.all; d != NULL; d = next) {
        next = d->next;
        if (strcmp(h->kind == MR_EFFECT_END_CLIENT ? d->client : d->topic, h->topic) == 0) {
            end_stream(l, d, &h->error);
        }
    }
}

/* The definition is not in the answer yet: the side thread reads it and answers. */
static void delegate(struct mr_loop *l, struct mr_held_effect *h)
{
    struct mr_call *call = h->call;
    struct mr_header_info info = mr_loop_header(l);
    mr_error err;

    call->reply = h->message;
    h->message = NULL;
    memcpy(call->blob, h->blob, sizeof call->blob);
    call->parts = h->parts;
    if (mr_side_submit(l->side, call, &info, &err) < 0) {
        mr_loop_answer(l, call, NULL, &err);
    }
}

static void release_reply(struct mr_loop *l, struct mr_held_effect *h)
{
    bool failed = h->error.code < 0;

    if (h->call->method->command == MR_COMMAND_GET_DATASET && !failed && h->blob[0] != '\0' &&
        ((const Millrace__GetDatasetRequest *)h->call->request)->want_definition) {
        delegate(l, h);
    } else {
        mr_loop_answer(l, h->call, h->message, failed ? &h->error : NULL);
    }
    h->call = NULL;
}

static void release(struct mr_loop *l, struct mr_held_effect *h)
{
    switch (h->kind) {
    case MR_EFFECT_REPLY:
        release_reply(l, h);
        break;
    case MR_EFFECT_PUSH_ITERATION:
    case MR_EFFECT_PUSH_WORKER:
        push(l, h);
        break;
    case MR_EFFECT_END_CLIENT:
    case MR_EFFECT_END_WORKER:
        end_streams_of(l, h);
        break;
    case MR_EFFECT_RESIGN:
        l->resigning = true;
        break;
    }
}

static struct mr_held_effect *take_held(struct mr_loop *l)
{
    struct mr_held_effect *h = l->held;

    l->held = h->next;
    if (l->held == NULL) {
        l->held_tail = &l->held;
    }
    if (is_push(h->kind) && mr_map_get(&l->pushes, h->topic) == h) {
        (void)mr_map_remove(&l->pushes, h->topic);
    }
    return h;
}

void mr_loop_release(struct mr_loop *l)
{
    uint64_t committed = mr_member_committed(l->member);

    while (l->held != NULL && l->held->batch <= committed) {
        struct mr_held_effect *h = take_held(l);

        release(l, h);
        held_free(h);
    }
}

void mr_loop_fail_held(struct mr_loop *l, const mr_error *why, uint64_t culprit)
{
    while (l->held != NULL) {
        struct mr_held_effect *h = take_held(l);
        mr_error err = *why;

        if (!h->changed) {
            err.traits &= ~(uint32_t)MR_MAYBE_APPLIED;
        }
        if (culprit != 0 && h->batch == culprit && h->alone && h->changed) {
            (void)mr_error_set(&err, MR_EINTERNAL,
                               "etcd refuses what this call would write: %.180s", why->message);
        }
        if (h->call != NULL) {
            mr_loop_answer(l, h->call, NULL, &err);
        }
        held_free(h);
    }
    mr_loop_fail_uploads(l, why);
}

void mr_loop_end_streams(struct mr_loop *l, const char *why)
{
    struct mr_streams *kinds[] = {&l->streams, &l->followers};

    for (size_t i = 0; i < 2; i++) {
        while (kinds[i]->all != NULL) {
            struct mr_dstream *d = kinds[i]->all;

            mr_streams_unsubscribe(kinds[i], d);
            mr_dstream_finish(d, MR_EUNAVAIL, why);
        }
    }
}
