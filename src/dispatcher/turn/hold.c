/* Answers. Each rests on a batch: the one that carries its own changes, or the newest there is; one
 * that denies or ends something rests on a batch that was not sent yet when it was decided, so that
 * a deposed leader cannot give it. Batches commit in order, and so effects are held in one queue.
 */
#include "base/log.h"
#include "dispatcher/turn/internal.h"

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

static int batch_for(mr_turn *t, const struct mr_effect *e, uint64_t own, uint64_t *batch,
                     mr_error *err)
{
    uint64_t newest = mr_member_newest(t->member);

    if (own != 0) {
        *batch = own;
        return MR_OK;
    }
    if (!e->fenced &&
        (newest > mr_member_committed(t->member) || mr_member_may_answer(t->member, t->now_ms))) {
        *batch = newest;
        return MR_OK;
    }
    return mr_member_fence(t->member, batch, err);
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
static bool was_joined(mr_turn *t, struct mr_effect *e, uint64_t batch)
{
    struct mr_held_effect *last = is_push(e->kind) ? mr_map_get(&t->pushes, e->topic) : NULL;

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
static void note_held(mr_turn *t, struct mr_held_effect *h)
{
    const char *begins = h->call != NULL ? watched_topic(h->call) : NULL;

    if (is_push(h->kind) && mr_map_put(&t->pushes, h->topic, h, NULL) < 0) {
        (void)mr_map_remove(&t->pushes, h->topic); /* without memory it stays by itself */
    } else if (begins != NULL) {
        (void)mr_map_remove(&t->pushes, begins);
    }
}

int mr_turn_hold(mr_turn *t, struct mr_call *call, uint64_t own, bool alone, mr_error *err)
{
    const struct mr_effect *now = NULL;
    int rc = MR_OK;

    for (size_t i = 0; i < t->outcome.neffects && rc >= 0; i++) {
        struct mr_effect *e = &t->outcome.effects[i];
        uint64_t batch = 0;
        struct mr_held_effect *h = NULL;

        if (e->from_memory) {
            now = e;
            continue;
        }
        rc = batch_for(t, e, own, &batch, err);
        if (rc >= 0 && was_joined(t, e, batch)) {
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
        *t->held_tail = h;
        t->held_tail = &h->next;
        note_held(t, h);
    }
    if (rc >= 0 && now != NULL) {
        mr_turn_answer(t, call, now->message, &now->error);
        call = NULL;
    }
    MR_ASSERT(rc < 0 || call == NULL);
    return rc;
}

static void push(mr_turn *t, struct mr_held_effect *h)
{
    struct mr_header_info info = mr_turn_header(t);
    struct mr_buf packed = MR_BUF_INIT; /* once: all streams of a topic are of one method */

    for (struct mr_dstream *d = mr_streams_of(&t->streams, h->topic); d != NULL;
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

static void end_stream(mr_turn *t, struct mr_dstream *d, const mr_error *error)
{
    struct mr_header_info info = mr_turn_header(t);
    struct mr_buf b = mr_reply_pack(d->method->reply, NULL, &info, d->method->contact, error);

    mr_dstream_send(d, &b);
    mr_dstream_finish(d, MR_OK, "");
    mr_streams_unsubscribe(&t->streams, d);
}

static void end_streams_of(mr_turn *t, struct mr_held_effect *h)
{
    struct mr_dstream *next;

    for (struct mr_dstream *d = LIST_FIRST(&t->streams.all); d != NULL; d = next) {
        next = LIST_NEXT(d, link);
        if (strcmp(h->kind == MR_EFFECT_END_CLIENT ? d->client : d->topic, h->topic) == 0) {
            end_stream(t, d, &h->error);
        }
    }
}

/* The definition is not in the answer yet: port.define reads it and answers. */
static void delegate(mr_turn *t, struct mr_held_effect *h)
{
    struct mr_call *call = h->call;
    struct mr_header_info info = mr_turn_header(t);
    mr_error err;

    call->reply = h->message;
    h->message = NULL;
    memcpy(call->blob, h->blob, sizeof call->blob);
    call->parts = h->parts;
    if (t->port.define(t->port.ctx, call, &info, &err) < 0) {
        mr_turn_answer(t, call, NULL, &err);
    }
}

static void release_reply(mr_turn *t, struct mr_held_effect *h)
{
    bool failed = h->error.code < 0;

    if (h->call->method->command == MR_COMMAND_GET_DATASET && !failed && h->blob[0] != '\0' &&
        ((const Millrace__GetDatasetRequest *)h->call->request)->want_definition) {
        delegate(t, h);
    } else {
        mr_turn_answer(t, h->call, h->message, failed ? &h->error : NULL);
    }
    h->call = NULL;
}

static void release(mr_turn *t, struct mr_held_effect *h)
{
    switch (h->kind) {
    case MR_EFFECT_REPLY: release_reply(t, h); break;
    case MR_EFFECT_PUSH_ITERATION:
    case MR_EFFECT_PUSH_WORKER: push(t, h); break;
    case MR_EFFECT_END_CLIENT:
    case MR_EFFECT_END_WORKER: end_streams_of(t, h); break;
    case MR_EFFECT_RESIGN: t->resigning = true; break;
    }
}

static struct mr_held_effect *take_held(mr_turn *t)
{
    struct mr_held_effect *h = t->held;

    t->held = h->next;
    if (t->held == NULL) {
        t->held_tail = &t->held;
    }
    if (is_push(h->kind) && mr_map_get(&t->pushes, h->topic) == h) {
        (void)mr_map_remove(&t->pushes, h->topic);
    }
    return h;
}

void mr_turn_release(mr_turn *t)
{
    uint64_t committed = mr_member_committed(t->member);

    while (t->held != NULL && t->held->batch <= committed) {
        struct mr_held_effect *h = take_held(t);

        release(t, h);
        held_free(h);
    }
}

void mr_turn_fail_held(mr_turn *t, const mr_error *why, uint64_t culprit)
{
    while (t->held != NULL) {
        struct mr_held_effect *h = take_held(t);
        mr_error err = *why;

        if (!h->changed) {
            err.traits &= ~(uint32_t)MR_MAYBE_APPLIED;
        }
        if (culprit != 0 && h->batch == culprit && h->alone && h->changed) {
            (void)mr_error_set(&err, MR_EINTERNAL,
                               "etcd refuses what this call would write: %.180s", why->message);
        }
        if (h->call != NULL) {
            mr_turn_answer(t, h->call, NULL, &err);
        }
        held_free(h);
    }
}
