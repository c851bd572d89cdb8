/*
 * Connections: one Read stream each.
 *
 * Happy path: the client's first message names a task and a session; the connection is attached to
 * that session in the task's book; credits come in, messages go out until the end was told; the
 * client closes.
 *
 * Failures: a client may know of a task before this worker does (both are told by push): such a
 * connection waits a moment. A name that is not ours (another cluster, an earlier life of this
 * address, another attempt) is refused with "moved": the client asks the dispatcher where its task
 * is. One that shows no ticket of a dispatcher gets nothing (src/base/identity.h). A broken stream detaches; the session stays in the book until the client comes back or the
 * dispatcher says that it is gone.
 *
 * A session has at most one connection: a new one for the same session replaces the old one.
 */
#include "worker/conn.h"

#include "base/clock.h"
#include "base/log.h"
#include "element/frame.h"
#include "element/unpack.h"
#include "worker/task.h"

/* How long a connection waits for its task to be assigned. */
#define TASK_WAIT_MS 3000
/* A client's id is 32 hex digits; others may name theirs otherwise, but not at any length. */
#define CLIENT_BYTES_MAX 64u

struct mr_conn *mr_conn_ref(struct mr_conn *c)
{
    (void)atomic_fetch_add(&c->refs, 1);
    return c;
}

void mr_conn_unref(struct mr_conn *c)
{
    if (atomic_fetch_sub(&c->refs, 1) != 1) {
        return;
    }
    MR_ASSERT(c->session == NULL);
    if (c->first != NULL) {
        millrace__read_request__free_unpacked(c->first, NULL);
    }
    mr_worker_task_unref(c->task);
    mr_rpc_stream_unref(c->stream);
    c->magic = 0;
    mr_free(c);
}

/* ---- frames ---- */

static int send_frame(mr_rpc_stream *s, const Millrace__ReadHeader *header,
                      const struct mr_part *parts, size_t n, uint64_t spec_hash, mr_error *err)
{
    struct mr_rpc_slice few[32];
    mr_frame *frame;
    size_t count;

    MR_TRY(mr_frame_build(header, parts, n, spec_hash, false /* checksum: TCP has one */, &frame,
                          err));
    const struct iovec *iov = mr_frame_iov(frame, &count);
    bool fits = count <= sizeof few / sizeof few[0];
    MR_AUTO(mr_free)
    struct mr_rpc_slice *many = fits ? NULL : mr_reallocarray(NULL, count, sizeof many[0]);
    struct mr_rpc_slice *slices = fits ? few : many;
    for (size_t i = 0; slices != NULL && i < count; i++) {
        slices[i] = (struct mr_rpc_slice){.data = iov[i].iov_base,
                                          .size = iov[i].iov_len,
                                          .release = mr_frame_unref,
                                          .ctx = mr_frame_ref(frame)};
    }
    int rc = slices != NULL ? mr_rpc_stream_send(s, slices, count, false /* more_follows */, err)
                            : mr_error_nomem(err);
    mr_frame_unref(frame);
    return rc;
}

void mr_conn_header_init(struct mr_conn_header *h, const struct mr_conn *c)
{
    mr_link_cluster(c->worker->link, &h->cluster);
    millrace__read_header__init(&h->base);
    h->base.worker_incarnation = c->worker->incarnation;
    h->base.cluster_incarnation = h->cluster.incarnation;
    h->base.epoch = h->cluster.epoch;
    if (c->task != NULL) {
        h->base.task_id = c->task->id;
        h->base.attempt = c->task->a->attempt;
        h->base.ignored_errors =
            atomic_load_explicit(&c->task->ignored_errors, memory_order_relaxed);
    }
}

static size_t bytes_of(const struct mr_part *parts, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += mr_part_bytes(parts[i]);
    }
    return sum;
}

/* They left, or will. */
static void note_sent(const struct mr_conn *c, uint32_t elements, size_t bytes)
{
    enum mr_sent_source source = c->task->kind->source;
    struct mr_worker_numbers *n = &c->worker->numbers;

    (void)atomic_fetch_add_explicit(&n->sent[source].elements, elements, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&n->sent[source].bytes, bytes, memory_order_relaxed);
}

void mr_conn_send(struct mr_conn *c, const struct mr_conn_header *h, const struct mr_part *parts,
                  size_t n)
{
    mr_error err;
    /* Whoever has parts has seen the engine open. A message without any may come before that. */
    uint64_t spec_hash = n > 0 ? c->task->spec_hash : 0;
    int rc = send_frame(c->stream, &h->base, parts, n, spec_hash, &err);

    if (rc < 0 && rc != MR_ECANCELED) {
        /* The task keeps the elements; the client comes back for them. */
        mr_log(MR_LOG_WARN, "sending elements, breaking the stream off", "task", "%s", c->task->id,
               "peer", "%s", mr_rpc_stream_peer(c->stream), "error", "%s", err.message, NULL);
        mr_rpc_stream_cancel(c->stream);
    } else if (rc == MR_OK) {
        note_sent(c, h->base.elements, bytes_of(parts, n));
    }
}

/* ---- ending ---- */

/* Say why, then end the stream. */
static void refuse(struct mr_conn *c, int code, const char *message)
{
    struct mr_conn_header header;

    mr_conn_header_init(&header, c);
    header.base.code = code;
    header.base.message = (char *)(uintptr_t)message;
    /* A stream that is gone needs no reason. */
    (void)send_frame(c->stream, &header.base, NULL, 0, 0, NULL);
    mr_rpc_stream_finish(c->stream, MR_OK, NULL);
}

void mr_conn_end(mr_rpc_stream *stream, int code, const char *why)
{
    if (stream != NULL) {
        mr_rpc_stream_finish(stream, code, why);
        mr_rpc_stream_unref(stream);
    }
}

void mr_conn_break_off(struct mr_conn *c, const mr_error *why)
{
    mr_log(MR_LOG_WARN, "making a message, breaking the stream off", "task", "%s", c->task->id,
           "error", "%s", why->message, NULL);
    mr_rpc_stream_cancel(c->stream);
}

void mr_conn_blame(struct mr_conn *c, const mr_error *why)
{
    mr_log(MR_LOG_WARN, "a client broke the protocol", "task", "%s", c->task->id, "peer", "%s",
           mr_rpc_stream_peer(c->stream), "error", "%s", why->message, NULL);
    mr_rpc_stream_finish(c->stream, why->code, why->message);
}

/* ---- opening ---- */

/* A client names @theirs; each of both may not know it. */
static bool is_another(const char *theirs, const char *ours)
{
    return theirs[0] != '\0' && ours[0] != '\0' && strcmp(theirs, ours) != 0;
}

/* What stands in `open` against what we are; worker->lock is held. MR_EUNAVAIL "moved": the client
 * looks again. */
static int check_names_locked(struct mr_worker *w, const Millrace__ReadOpen *open, mr_error *err)
{
    size_t client = strlen(open->client);
    struct mr_registration_cluster ours;

    if (client == 0 || client > CLIENT_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a client's id has 1 to %u bytes, not %zu",
                            CLIENT_BYTES_MAX, client);
    }
    if (strcmp(open->worker_incarnation, w->incarnation) != 0) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                   "moved: %s is another worker process by now", w->address);
    }
    mr_link_cluster(w->link, &ours);
    if (is_another(open->cluster, ours.name)) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                   "moved: %s works for cluster '%s', not for '%s'", w->address,
                                   ours.name, open->cluster);
    }
    if (is_another(open->cluster_incarnation, ours.incarnation)) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                   "moved: %s works for another incarnation of the cluster",
                                   w->address);
    }
    return MR_OK;
}

/* Attach @c, whose stream has not ended, to its session in @t, which is in the list and so not
 * dropped; worker->lock is held. *@replaced: the stream that had it before, to be ended. */
static int attach_locked(struct mr_conn *c, struct mr_worker_task *t, mr_rpc_stream **replaced,
                         mr_error *err)
{
    uint32_t attempt = c->first->open->attempt;

    *replaced = NULL;
    MR_TRY(mr_link_check_ticket(c->worker->link, t->a->iteration_id, c->first->open->client,
                                &c->first->open->ticket, err));
    if (attempt != t->a->attempt) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                   "moved: task %s is at attempt %u, not %u", t->id, t->a->attempt,
                                   attempt);
    }
    if (t->kind->streams == NULL) {
        return mr_error_set(err, MR_EINVAL,
                            "task %s makes a production: its readers have tasks of their own",
                            t->id);
    }
    MR_LOCK(&t->lock);
    return t->kind->streams->attach_locked(c, t, replaced, err);
}

/* After attach_locked(), without the lock. */
static void opened(struct mr_conn *c, int rc, const mr_error *err, mr_rpc_stream *replaced)
{
    if (replaced != NULL) {
        mr_rpc_stream_cancel(replaced);
        mr_rpc_stream_unref(replaced);
    }
    if (rc < 0) {
        mr_log(MR_LOG_DEBUG, "read refused", "peer", "%s", mr_rpc_stream_peer(c->stream), "error",
               "%s", err->message, NULL);
        refuse(c, rc, err->message);
        return;
    }
    if (c->released_before) {
        /* It may be attached again, or not know yet that it is not; then nobody would tell once
         * more that it is gone. */
        mr_link_list_again(c->worker->link);
    }
    mr_rpc_stream_receive(c->stream);
    c->task->kind->streams->pump(c->task);
}

/* All that wait have their share, and those that came first expire first. */
__attribute__((unused)) static bool check_waiting_locked(const struct mr_worker *w)
{
    const struct mr_conn *c;
    int64_t expires_ms = 0;

    TAILQ_FOREACH(c, &w->waiting, link) {
        if (c->share == NULL || c->task != NULL || c->expires_ms < expires_ms) {
            return false;
        }
        expires_ms = c->expires_ms;
    }
    return true;
}

static int wait_for_task_locked(struct mr_worker *w, struct mr_conn *c, mr_error *err)
{
    MR_TRY(mr_shares_take(&w->waiting_shares, mr_rpc_stream_host(c->stream), 1, &c->share, err));
    c->expires_ms = mr_now_ms() + TASK_WAIT_MS;
    TAILQ_INSERT_TAIL(&w->waiting, c, link);
    MR_ASSERT_SLOW(check_waiting_locked(w));
    return MR_OK;
}

/* Its stream has not ended as long as it waits and worker->lock is held, as it is here. */
static void wait_no_more_locked(struct mr_worker *w, struct mr_conn *c)
{
    TAILQ_REMOVE(&w->waiting, c, link);
    mr_share_give(c->share, 1);
    c->share = NULL;
}

/* The first message. */
static void handle_open(struct mr_conn *c)
{
    struct mr_worker *w = c->worker;
    const Millrace__ReadOpen *open = c->first->open;
    mr_rpc_stream *replaced = NULL;
    bool waits = false;
    mr_error err;

    mr_mutex_lock(&w->lock);
    int rc = w->stopping ? mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                               "worker %s is stopping", w->address)
                         : check_names_locked(w, open, &err);
    if (rc == MR_OK) {
        struct mr_worker_task *t = mr_worker_task_find_locked(w, open->task_id);

        if (t != NULL) {
            rc = attach_locked(c, t, &replaced, &err);
        } else {
            rc = wait_for_task_locked(w, c, &err);
            waits = rc == MR_OK;
        }
    }
    mr_mutex_unlock(&w->lock);
    if (waits) {
        mr_link_wake(w->link); /* It keeps the time. */
    } else {
        opened(c, rc, &err, replaced);
    }
}

void mr_conn_admit_waiting(struct mr_worker *w, struct mr_worker_task *t)
{
    for (;;) {
        struct mr_conn *c;
        mr_rpc_stream *replaced = NULL;
        mr_error err;
        int rc = MR_OK;

        mr_mutex_lock(&w->lock);
        TAILQ_FOREACH(c, &w->waiting, link) {
            if (strcmp(c->first->open->task_id, t->id) == 0) {
                break;
            }
        }
        if (c != NULL) {
            wait_no_more_locked(w, c);
            (void)mr_conn_ref(c);
            rc = attach_locked(c, t, &replaced, &err);
        }
        mr_mutex_unlock(&w->lock);
        if (c == NULL) {
            return;
        }
        opened(c, rc, &err, replaced);
        mr_conn_unref(c);
    }
}

int64_t mr_conn_expire_waiting(struct mr_worker *w, int64_t now_ms)
{
    for (;;) {
        struct mr_conn *c;
        mr_error err;

        mr_mutex_lock(&w->lock);
        c = TAILQ_FIRST(&w->waiting); /* They all wait equally long: the first is the oldest. */
        if (c == NULL || c->expires_ms > now_ms) {
            int64_t next = c == NULL ? -1 : c->expires_ms;

            mr_mutex_unlock(&w->lock);
            return next;
        }
        wait_no_more_locked(w, c);
        (void)mr_conn_ref(c);
        mr_mutex_unlock(&w->lock);
        int rc = mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "moved: task %s is not at %s",
                                     c->first->open->task_id, w->address);
        opened(c, rc, &err, NULL);
        mr_conn_unref(c);
    }
}

/* ---- callbacks ---- */

static Millrace__ReadRequest *unpack_request(mr_rpc_message *m)
{
    size_t size = mr_rpc_message_size(m);
    unsigned char few[512];
    MR_AUTO(mr_free)
    unsigned char *many =
        size > sizeof few && size <= MR_RPC_REQUEST_BYTES_MAX ? mr_malloc(size) : NULL;
    unsigned char *bytes = size <= sizeof few ? few : many;
    size_t budget = mr_unpack_budget(size);

    if (bytes != NULL) {
        mr_rpc_message_copy(m, 0, size, bytes);
    }
    mr_rpc_message_free(m);
    return bytes == NULL ? NULL
                         : (Millrace__ReadRequest *)mr_unpack(&millrace__read_request__descriptor,
                                                              bytes, size, &budget);
}

static void on_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct mr_conn *c = mr_conn_of(ctx);
    Millrace__ReadRequest *req = unpack_request(m);

    if (req == NULL || (c->first == NULL && req->open == NULL)) {
        mr_rpc_stream_finish(s, MR_EINVAL,
                             req == NULL ? "a read request does not parse"
                                         : "the first message of a stream has to open a session");
    } else if (c->first == NULL) {
        c->first = req;
        handle_open(c);
        return;
    } else {
        c->task->kind->streams->message(c, req);
    }
    if (req != NULL) {
        millrace__read_request__free_unpacked(req, NULL);
    }
}

static void on_sent(void *ctx, mr_rpc_stream *s)
{
    struct mr_conn *c = mr_conn_of(ctx);
    struct mr_worker_task *t = c->task;

    if (t == NULL) {
        return; /* A refusal left. */
    }
    mr_mutex_lock(&t->lock);
    t->kind->streams->sent_locked(c);
    mr_mutex_unlock(&t->lock);
    t->kind->streams->pump(t);
}

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct mr_conn *c = mr_conn_of(ctx);
    struct mr_worker *w = c->worker;

    mr_mutex_lock(&w->lock);
    if (c->share != NULL) {
        wait_no_more_locked(w, c);
    }
    struct mr_worker_task *t = c->task;
    mr_mutex_unlock(&w->lock);
    if (t != NULL) {
        mr_mutex_lock(&t->lock);
        t->kind->streams->detach_locked(c);
        mr_mutex_unlock(&t->lock);
    }
    mr_conn_unref(c);
}

static const struct mr_rpc_stream_ops conn_ops = {
    .message = on_message, .sent = on_sent, .ended = on_ended};

void mr_conn_accept(void *ctx, mr_rpc_stream *s)
{
    struct mr_conn *c = mr_calloc(1, sizeof *c);

    if (c == NULL) {
        mr_conn_end(s, MR_EEXHAUSTED, "out of memory");
        return;
    }
    c->magic = MR_CONN_MAGIC;
    c->worker = ctx;
    c->stream = s;
    atomic_init(&c->refs, 1);
    mr_rpc_stream_accept(s, &conn_ops, c);
    mr_rpc_stream_receive(s);
}
