/*
 * Watches: a server stream that is opened again at the next leader whenever it ends.
 *
 * A watch has a thread. Streams call back on rpc's thread, which only hands over: the message or
 * the end. One message is asked for at a time, so a slow callback holds back the leader, not our
 * memory.
 */
#include "base/clock.h"
#include "control/internal.h"

#include "millrace/service.rpc.h"

struct mr_control_watch {
    LIST_ENTRY(mr_control_watch) link;
    mr_control *control;
    char path[MR_NAME_BYTES_MAX];
    ProtobufCMessage *request;
    const ProtobufCMessageDescriptor *update_type;
    const struct mr_control_watch_ops *ops;
    void *ctx;
    pthread_t thread;
    /* control->lock */
    mr_rpc_message *message;
    bool ended;
    mr_error end; /* why, if end.code < 0 */
    bool stop;
    bool moved;     /* a newer epoch was heard of */
    uint64_t epoch; /* of the leader at the other end */
};

void mr_control_watches_wake_locked(mr_control *c)
{
    struct mr_control_watch *w;

    LIST_FOREACH(w, &c->watches, link) {
        w->moved = w->epoch != c->epoch;
    }
    (void)pthread_cond_broadcast(&c->changed);
}

/* ---- on rpc's thread ---- */

static void on_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct mr_control_watch *w = ctx;

    MR_LOCK(&w->control->lock);
    w->message = m;
    (void)pthread_cond_broadcast(&w->control->changed);
}

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct mr_control_watch *w = ctx;

    MR_LOCK(&w->control->lock);
    if (rc < 0) {
        w->end = *err;
    } else {
        (void)mr_error_set(&w->end, MR_EUNAVAIL, "the leader ended the stream");
    }
    w->ended = true;
    (void)pthread_cond_broadcast(&w->control->changed);
}

static const struct mr_rpc_stream_ops stream_ops = {.message = on_message, .ended = on_ended};

/* ---- on the watch's thread, with the lock, which callbacks and calls into rpc run without ---- */

static int open_stream(struct mr_control_watch *w, struct mr_control_member *m, mr_rpc_stream **ret,
                       mr_error *err)
{
    mr_control *c = w->control;
    struct mr_rpc_slice slice = {.release = mr_free};
    void *bytes = NULL;

    MR_TRY(mr_control_pack_locked(c, w->request, &bytes, &slice.size, err));
    w->ended = false;
    w->moved = false;
    slice.data = bytes;
    slice.ctx = bytes;
    mr_mutex_unlock(&c->lock);
    int rc = mr_rpc_stream_open(m->channel, w->path, NULL, -1, false, &stream_ops, w, ret, err);
    if (rc < 0) {
        mr_free(bytes);
    } else {
        (void)mr_rpc_stream_send(*ret, &slice, 1, false,
                                 NULL); /* A failure shows as the stream's end. */
        mr_rpc_stream_half_close(*ret);
        mr_rpc_stream_receive(*ret);
    }
    mr_mutex_lock(&c->lock);
    return rc;
}

static enum mr_verdict take_message(struct mr_control_watch *w, struct mr_search *s,
                                    struct mr_control_member *m, mr_error *err)
{
    mr_control *c = w->control;
    mr_rpc_message *message = w->message;
    const Millrace__ReplyHeader *header = NULL;
    ProtobufCMessage *update = NULL;
    enum mr_verdict verdict = MR_VERDICT_AGAIN;
    size_t size = mr_rpc_message_size(message);
    void *bytes = mr_malloc(size + 1);

    w->message = NULL;
    int rc = bytes != NULL ? MR_OK : mr_error_nomem(err);
    if (rc == MR_OK) {
        mr_rpc_message_copy(message, 0, size, bytes);
        rc = mr_control_unpack(w->update_type, bytes, size, &update, &header, err);
    }
    mr_free(bytes);
    if (rc == MR_OK) {
        verdict = mr_control_judge_locked(c, s, m, header, err);
    }
    if (verdict == MR_VERDICT_OK) {
        w->epoch = c->epoch;
        w->moved = false;
        s->rounds = 0;
    }
    mr_mutex_unlock(&c->lock);
    mr_rpc_message_free(message);
    if (verdict == MR_VERDICT_OK) {
        w->ops->update(w->ctx, update);
    }
    if (update != NULL) {
        protobuf_c_message_free_unpacked(update, NULL);
    }
    mr_mutex_lock(&c->lock);
    return verdict;
}

/* Follow one stream to its end. MR_VERDICT_DEFINITE: the leader refused, @err says why. */
static enum mr_verdict follow(struct mr_control_watch *w, struct mr_search *s,
                              struct mr_control_member *m, mr_rpc_stream *stream, mr_error *err)
{
    mr_control *c = w->control;
    int64_t first_until = mr_now_ms() + c->attempt_timeout_ms;
    bool first = true;

    for (;;) {
        while (w->message == NULL && !w->ended && !w->stop && !w->moved) {
            int64_t left = first ? first_until - mr_now_ms() : -1;

            if (first && left <= 0) {
                (void)mr_error_set(err, MR_EUNAVAIL, "%s does not answer", m->address);
                s->heard = true;
                return MR_VERDICT_AGAIN;
            }
            (void)mr_cond_wait_ms(&c->changed, &c->lock, left);
        }
        if (w->stop || w->moved) {
            return MR_VERDICT_AGAIN;
        }
        if (w->message == NULL) {
            *err = w->end;
            return MR_VERDICT_AGAIN;
        }
        enum mr_verdict verdict = take_message(w, s, m, err);
        if (verdict != MR_VERDICT_OK) {
            return verdict;
        }
        first = false;
        mr_mutex_unlock(&c->lock);
        mr_rpc_stream_receive(stream);
        mr_mutex_lock(&c->lock);
    }
}

static void close_stream(struct mr_control_watch *w, mr_rpc_stream *stream)
{
    mr_control *c = w->control;

    mr_mutex_unlock(&c->lock);
    mr_rpc_stream_cancel(stream);
    mr_mutex_lock(&c->lock);
    while (!w->ended) {
        mr_cond_wait(&c->changed, &c->lock);
    }
    mr_rpc_message *unread = w->message;
    w->message = NULL;
    mr_mutex_unlock(&c->lock);
    mr_rpc_message_free(unread);
    mr_rpc_stream_unref(stream);
    mr_mutex_lock(&c->lock);
}

static enum mr_verdict one_round(struct mr_control_watch *w, struct mr_search *s, mr_error *err)
{
    mr_control *c = w->control;
    struct mr_control_member *m = mr_search_next_locked(c, s);
    mr_rpc_stream *stream = NULL;
    enum mr_verdict verdict = MR_VERDICT_AGAIN;

    if (open_stream(w, m, &stream, err) == MR_OK) {
        verdict = follow(w, s, m, stream, err);
        close_stream(w, stream);
    }
    /* When another leader was heard of, that one is believed already; when we stop, nobody
     * failed. */
    if (verdict == MR_VERDICT_AGAIN && !w->moved && !w->stop) {
        mr_member_failed_locked(c, m);
    }
    m->users--;
    return verdict;
}

static bool go_on_after_refusal(struct mr_control_watch *w, const mr_error *err)
{
    mr_control *c = w->control;
    bool again = false;

    mr_mutex_unlock(&c->lock);
    w->ops->refused(w->ctx, err, &again);
    mr_mutex_lock(&c->lock);
    while (!again && !w->stop) {
        mr_cond_wait(&c->changed, &c->lock);
    }
    return again;
}

static void *run(void *arg)
{
    struct mr_control_watch *w = arg;
    mr_control *c = w->control;
    struct mr_search s;
    mr_error err;

    MR_LOCK(&c->lock);
    mr_search_init_locked(c, &s);
    while (!w->stop) {
        enum mr_verdict verdict = one_round(w, &s, &err);

        if (verdict == MR_VERDICT_DEFINITE && !go_on_after_refusal(w, &err)) {
            break;
        }
        if (w->moved) {
            mr_search_init_locked(c, &s);
        }
        int64_t until = mr_now_ms() + mr_search_pause_locked(c, &s);
        while (!w->stop && mr_now_ms() < until) {
            (void)mr_cond_wait_ms(&c->changed, &c->lock, until - mr_now_ms());
        }
    }
    return NULL;
}

int mr_control_watch_new(mr_control *c, const char *method, ProtobufCMessage *request,
                         const ProtobufCMessageDescriptor *update_type,
                         const struct mr_control_watch_ops *ops, void *ctx, mr_control_watch **ret,
                         mr_error *err)
{
    struct mr_control_watch *w = mr_calloc(1, sizeof *w);

    MR_CHECK_ALLOC(w, err);
    (void)snprintf(w->path, sizeof w->path, MR_SERVICE_DISPATCHER "%s", method);
    w->control = c;
    w->request = request;
    w->update_type = update_type;
    w->ops = ops;
    w->ctx = ctx;
    mr_mutex_lock(&c->lock);
    LIST_INSERT_HEAD(&c->watches, w, link);
    mr_mutex_unlock(&c->lock);
    int rc = mr_thread_start(&w->thread, "mr-watch", run, w, err);
    if (rc < 0) {
        mr_mutex_lock(&c->lock);
        LIST_REMOVE(w, link);
        mr_mutex_unlock(&c->lock);
        mr_free(w);
        return rc;
    }
    *ret = w;
    return MR_OK;
}

void mr_control_watch_free(mr_control_watch *w)
{
    if (w == NULL) {
        return;
    }
    mr_control *c = w->control;
    mr_mutex_lock(&c->lock);
    w->stop = true;
    (void)pthread_cond_broadcast(&c->changed);
    mr_mutex_unlock(&c->lock);
    (void)pthread_join(w->thread, NULL);
    mr_mutex_lock(&c->lock);
    LIST_REMOVE(w, link);
    mr_mutex_unlock(&c->lock);
    mr_free(w);
}
