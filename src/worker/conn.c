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
 * is. A broken stream detaches; the session stays in the book until the client comes back or the
 * dispatcher says that it is gone.
 *
 * A session has at most one connection: a new one for the same session replaces the old one.
 */
#include "worker/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "element/frame.h"
#include "element/unpack.h"

#include <millrace/base.h>
#include <string.h>

/* How long a connection waits for its task to be assigned. */
#define TASK_WAIT_MS 3000
/* A client's id is 32 hex digits; others may name theirs otherwise, but not at any length. */
#define CLIENT_BYTES_MAX 64u

static void on_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m);
static void on_sent(void *ctx, mr_rpc_stream *s);
static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err);

static const struct mr_rpc_stream_ops conn_ops = {
    .message = on_message, .sent = on_sent, .ended = on_ended};

static struct mr_conn *conn_ref(struct mr_conn *c)
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
    if (c->task != NULL) {
        mr_worker_task_unref(c->task);
    }
    mr_rpc_stream_unref(c->stream);
    mr_free(c);
}

void mr_conn_accept(void *ctx, mr_rpc_stream *s)
{
    struct mr_conn *c = mr_calloc(1, sizeof *c);

    if (c == NULL) {
        mr_rpc_stream_finish(s, MR_EEXHAUSTED, "out of memory");
        mr_rpc_stream_unref(s);
        return;
    }
    c->worker = ctx;
    c->stream = s;
    atomic_init(&c->refs, 1);
    mr_rpc_stream_accept(s, &conn_ops, c);
    mr_rpc_stream_receive(s);
}

/* ---- sending ---- */

static int send_frame(mr_rpc_stream *s, const Millrace__ReadHeader *header,
                      const struct mr_part *parts, size_t n, uint64_t spec_hash, mr_error *err)
{
    struct mr_rpc_slice few[32];
    struct mr_rpc_slice *slices = few;
    mr_frame *frame;
    size_t count;
    int rc =
        mr_frame_build(header, parts, n, spec_hash, false /* checksum: TCP has one */, &frame, err);

    if (rc < 0) {
        return rc;
    }
    const struct iovec *iov = mr_frame_iov(frame, &count);
    if (count > sizeof few / sizeof few[0]) {
        slices = mr_reallocarray(NULL, count, sizeof slices[0]);
    }
    if (slices == NULL) {
        mr_frame_unref(frame);
        return mr_error_nomem(err);
    }
    for (size_t i = 0; i < count; i++) {
        slices[i] = (struct mr_rpc_slice){.data = iov[i].iov_base,
                                          .size = iov[i].iov_len,
                                          .release = mr_frame_unref,
                                          .ctx = mr_frame_ref(frame)};
    }
    rc = mr_rpc_stream_send(s, slices, count, false /* more_follows */, err);
    if (slices != few) {
        mr_free(slices);
    }
    mr_frame_unref(frame);
    return rc;
}

/* The identities that every message carries. The strings are lent: the caller holds worker->lock,
 * or they are constant. */
static void fill_header(Millrace__ReadHeader *header, struct mr_worker *w,
                        char *cluster_incarnation)
{
    millrace__read_header__init(header);
    header->worker_incarnation = w->incarnation;
    if (cluster_incarnation != NULL) {
        header->cluster_incarnation = cluster_incarnation;
    }
}

/* A copy of what may change under the lock. */
static char *copy_cluster(struct mr_worker *w, uint64_t *epoch)
{
    MR_LOCK(&w->lock);
    *epoch = w->epoch;
    return w->cluster_incarnation == NULL ? NULL : mr_strdup(w->cluster_incarnation);
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
    enum mr_sent_source source =
        c->task->kind == MR_TASK_READING ? MR_SENT_WINDOW : MR_SENT_PIPELINE;
    struct mr_worker_numbers *n = &c->worker->numbers;

    (void)atomic_fetch_add_explicit(&n->sent[source].elements, elements, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&n->sent[source].bytes, bytes, memory_order_relaxed);
}

static void send_elements(struct mr_conn *c, const Millrace__ReadHeader *header,
                          const struct mr_part *parts, size_t n)
{
    mr_error err;
    int rc = send_frame(c->stream, header, parts, n, c->task->spec_hash, &err);

    if (rc < 0 && rc != MR_ECANCELED) {
        /* The task keeps the elements; the client comes back for them. */
        mr_log(MR_LOG_WARN, "sending elements, breaking the stream off", "task", "%s", c->task->id,
               "peer", "%s", mr_rpc_stream_peer(c->stream), "error", "%s", err.message, NULL);
        mr_rpc_stream_cancel(c->stream);
    } else if (rc == MR_OK) {
        note_sent(c, header->elements, bytes_of(parts, n));
    }
}

void mr_conn_send(struct mr_conn *c, const struct mr_book_message *m)
{
    struct mr_worker_task *t = c->task;
    Millrace__ReadHeader header;
    uint64_t epoch;
    char *cluster = copy_cluster(c->worker, &epoch);

    fill_header(&header, c->worker, cluster);
    header.epoch = epoch;
    header.task_id = t->id;
    header.attempt = t->attempt;
    header.session = m->number;
    header.first_element = m->first;
    header.elements = m->elements;
    header.skipped = m->skipped;
    header.end = m->end;
    header.code = m->code;
    header.task_failed = m->end && m->code < 0;
    if (m->message != NULL) {
        header.message = (char *)(uintptr_t)m->message;
    }
    send_elements(c, &header, m->parts, m->n);
    mr_free(cluster);
}

void mr_conn_send_rounds(struct mr_conn *c, const struct mr_conn_rounds *rounds,
                         const struct mr_part *parts, size_t n)
{
    Millrace__ReadHeader header;
    uint64_t epoch;
    char *cluster = copy_cluster(c->worker, &epoch);

    fill_header(&header, c->worker, cluster);
    header.epoch = epoch;
    header.task_id = c->task->id;
    header.attempt = c->task->attempt;
    header.session = rounds->session;
    header.first_element = rounds->first;
    header.elements = (uint32_t)n;
    header.rounds = rounds->header;
    send_elements(c, &header, parts, n);
    mr_free(cluster);
}

/* Say why, then end the stream. No lock is held. */
static void refuse(mr_rpc_stream *s, struct mr_worker *w, int code, const char *message)
{
    Millrace__ReadHeader header;
    uint64_t epoch;
    char *cluster = copy_cluster(w, &epoch);

    fill_header(&header, w, cluster);
    header.epoch = epoch;
    header.code = code;
    header.message = (char *)(uintptr_t)message;
    /* A stream that is gone needs no reason. */
    (void)send_frame(s, &header, NULL, 0, 0, NULL);
    mr_rpc_stream_finish(s, MR_OK, NULL);
    mr_free(cluster);
}

/* ---- opening ---- */

/* What stands in `open` against what we are; worker->lock is held. MR_EUNAVAIL "moved": the client
 * looks again. */
static int check_names_locked(struct mr_worker *w, const Millrace__ReadOpen *open, mr_error *err)
{
    size_t client = strlen(open->client);

    if (client == 0 || client > CLIENT_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a client's id has 1 to %u bytes, not %zu",
                            CLIENT_BYTES_MAX, client);
    }
    if (strcmp(open->worker_incarnation, w->incarnation) != 0) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                   "moved: %s is another worker process by now", w->address);
    }
    if (open->cluster[0] != '\0' && w->cluster != NULL && strcmp(open->cluster, w->cluster) != 0) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                   "moved: %s works for cluster '%s', not for '%s'", w->address,
                                   w->cluster, open->cluster);
    }
    if (open->cluster_incarnation[0] != '\0' && w->cluster_incarnation != NULL &&
        strcmp(open->cluster_incarnation, w->cluster_incarnation) != 0) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                   "moved: %s works for another incarnation of the cluster",
                                   w->address);
    }
    return MR_OK;
}

static struct mr_worker_task *find_task_locked(struct mr_worker *w, const char *id)
{
    struct mr_worker_task *t;

    TAILQ_FOREACH(t, &w->tasks, link)
    {
        if (strcmp(t->id, id) == 0) {
            return t;
        }
    }
    return NULL;
}

/* Its session must not send on a stream that is about to say why it is refused. Nobody waits for a
 * session that is new. */
static void detach_refused_locked(struct mr_conn *c, bool is_new)
{
    mr_book_session *s = c->session;

    c->session = NULL;
    if (is_new) {
        mr_book_close(c->task->book, s, true);
    } else {
        mr_book_disconnect(s);
    }
}

/*
 * Attach @c, whose stream has not ended, to its session in @t, which is in the list and so not
 * dropped; worker->lock is held. *@replaced: the stream that had it before, to be ended.
 */
static int attach_locked(struct mr_conn *c, struct mr_worker_task *t, mr_rpc_stream **replaced,
                         mr_error *err)
{
    const Millrace__ReadRequest *req = c->first;
    const Millrace__ReadOpen *open = req->open;
    const char *host = mr_rpc_stream_host(c->stream);
    int rc;

    *replaced = NULL;
    if (open->attempt != t->attempt) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                   "moved: task %s is at attempt %u, not %u", t->id, t->attempt,
                                   open->attempt);
    }
    MR_LOCK(&t->lock);
    if (t->turns != NULL) {
        return mr_turns_attach_locked(c, t, replaced, err);
    }
    mr_book_session *before = mr_book_find(t->book, open->client);
    struct mr_conn *old = before == NULL ? NULL : mr_book_owner(before);
    mr_book_session *s;
    rc = mr_book_open(t->book, host, open->client, open->session, open->resume_from, c, &s, err);
    if (rc < 0) {
        return rc;
    }
    if (old != NULL) {
        old->session = NULL;
        *replaced = mr_rpc_stream_ref(old->stream);
    }
    c->task = mr_worker_task_ref(t);
    c->session = s;
    c->released_before = before == NULL && mr_worker_task_has_released_locked(t, open->client);
    /* The first message may bring credit along. What it says was received was said by
     * resume_from. */
    rc = mr_book_credit(t->book, s, req->limit_elements, req->limit_bytes, open->resume_from,
                        req->returned_elements, err);
    rc = rc == MR_OK ? mr_book_given(s, req->given_elements, err) : rc;
    rc = rc == MR_OK ? mr_worker_task_begin_locked(t, host, err) : rc;
    if (rc < 0) {
        detach_refused_locked(c, before == NULL);
    }
    mr_worker_task_changed_locked(t);
    return rc;
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
        refuse(c->stream, c->worker, rc, err->message);
        return;
    }
    if (c->released_before) {
        /* It may be attached again, or not know yet that it is not; then nobody would tell once
         * more that it is gone. */
        mr_link_list_again(c->worker->link);
    }
    mr_rpc_stream_receive(c->stream);
    mr_worker_task_pump(c->task);
}

static int wait_for_task_locked(struct mr_worker *w, struct mr_conn *c, mr_error *err)
{
    int rc = mr_shares_take(&w->waiting_shares, mr_rpc_stream_host(c->stream), 1, &c->share, err);

    if (rc == MR_OK) {
        c->waiting = true;
        c->expires_ms = mr_now_ms() + TASK_WAIT_MS;
        TAILQ_INSERT_TAIL(&w->waiting, c, link);
    }
    return rc;
}

/* Its stream has not ended as long as it waits and worker->lock is held, as it is here. */
static void wait_no_more_locked(struct mr_worker *w, struct mr_conn *c)
{
    TAILQ_REMOVE(&w->waiting, c, link);
    c->waiting = false;
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
    int rc;

    mr_mutex_lock(&w->lock);
    rc = w->stopping ? mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "worker %s is stopping",
                                           w->address)
                     : check_names_locked(w, open, &err);
    if (rc == MR_OK) {
        struct mr_worker_task *t = find_task_locked(w, open->task_id);

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
        TAILQ_FOREACH(c, &w->waiting, link)
        {
            if (strcmp(c->first->open->task_id, t->id) == 0) {
                break;
            }
        }
        if (c != NULL) {
            wait_no_more_locked(w, c);
            (void)conn_ref(c);
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
        (void)conn_ref(c);
        mr_mutex_unlock(&w->lock);
        int rc = mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "moved: task %s is not at %s",
                                     c->first->open->task_id, w->address);
        opened(c, rc, &err, NULL);
        mr_conn_unref(c);
    }
}

/* ---- callbacks ---- */

static void break_off(struct mr_conn *c, const mr_error *why)
{
    mr_log(MR_LOG_WARN, "a client broke the protocol", "task", "%s", c->task->id, "peer", "%s",
           mr_rpc_stream_peer(c->stream), "error", "%s", why->message, NULL);
    mr_rpc_stream_finish(c->stream, why->code, why->message);
}

/* Of a consumer. That it goes is told to the dispatcher; here its place is kept. */
static void handle_turns(struct mr_conn *c, const Millrace__ReadRequest *req)
{
    mr_error err;

    mr_mutex_lock(&c->task->lock);
    int rc = mr_turns_tell_locked(c, req, &err);
    if (req->done) {
        mr_turns_detach_locked(c);
    }
    mr_mutex_unlock(&c->task->lock);
    if (rc < 0) {
        break_off(c, &err);
    } else if (req->done) {
        mr_rpc_stream_finish(c->stream, MR_OK, NULL);
    } else {
        mr_rpc_stream_receive(c->stream);
    }
    mr_worker_task_pump(c->task);
}

static void handle_credit(struct mr_conn *c, const Millrace__ReadRequest *req)
{
    struct mr_worker_task *t = c->task;
    bool gone;
    bool too_late = false;
    mr_error err;
    int rc = MR_OK;

    mr_mutex_lock(&t->lock);
    gone = c->session == NULL;
    if (!gone) {
        rc = mr_book_credit(t->book, c->session, req->limit_elements, req->limit_bytes,
                            req->received_elements, req->returned_elements, &err);
        rc = rc == MR_OK ? mr_book_given(c->session, req->given_elements, &err) : rc;
    }
    if (!gone && (req->done || rc < 0)) {
        mr_book_session *s = c->session;

        c->session = NULL;
        too_late = req->done && t->settled && mr_book_keeps_for(s);
        if (req->done) {
            mr_book_close(t->book, s, req->gives_back);
        } else {
            mr_book_disconnect(s);
        }
    }
    mr_worker_task_changed_locked(t);
    mr_mutex_unlock(&t->lock);

    if (rc < 0) {
        break_off(c, &err);
    } else if (too_late) {
        mr_rpc_stream_finish(c->stream, MR_EABORTED,
                             "the task has ended: what is given back goes to nobody");
    } else if (req->done) {
        mr_rpc_stream_finish(c->stream, MR_OK, NULL);
    } else {
        mr_rpc_stream_receive(c->stream);
    }
    mr_worker_task_pump(t);
}

static Millrace__ReadRequest *unpack_request(mr_rpc_message *m)
{
    size_t size = mr_rpc_message_size(m);
    Millrace__ReadRequest *req = NULL;
    unsigned char few[512];
    unsigned char *bytes = few;

    if (size <= MR_RPC_REQUEST_BYTES_MAX) {
        if (size > sizeof few) {
            bytes = mr_malloc(size);
        }
        if (bytes != NULL) {
            mr_rpc_message_copy(m, 0, size, bytes);
            size_t budget = mr_unpack_budget(size);

            req = (Millrace__ReadRequest *)mr_unpack(&millrace__read_request__descriptor, bytes,
                                                     size, &budget);
        }
        if (bytes != few) {
            mr_free(bytes);
        }
    }
    mr_rpc_message_free(m);
    return req;
}

static void on_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct mr_conn *c = ctx;
    Millrace__ReadRequest *req = unpack_request(m);

    if (req == NULL || (c->first == NULL && req->open == NULL)) {
        mr_rpc_stream_finish(s, MR_EINVAL,
                             req == NULL ? "a read request does not parse"
                                         : "the first message of a stream has to open a session");
    } else if (c->first == NULL) {
        c->first = req;
        handle_open(c);
        return;
    } else if (c->task->turns != NULL) {
        handle_turns(c, req);
    } else {
        handle_credit(c, req);
    }
    if (req != NULL) {
        millrace__read_request__free_unpacked(req, NULL);
    }
}

static void on_sent(void *ctx, mr_rpc_stream *s)
{
    struct mr_conn *c = ctx;

    if (c->task == NULL) {
        return; /* A refusal left. */
    }
    mr_mutex_lock(&c->task->lock);
    if (c->task->turns != NULL) {
        mr_turns_sent_locked(c);
    } else if (c->session != NULL) {
        mr_book_sent(c->session);
    }
    mr_mutex_unlock(&c->task->lock);
    mr_worker_task_pump(c->task);
}

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct mr_conn *c = ctx;
    struct mr_worker *w = c->worker;
    struct mr_worker_task *t;

    mr_mutex_lock(&w->lock);
    if (c->waiting) {
        wait_no_more_locked(w, c);
    }
    t = c->task;
    mr_mutex_unlock(&w->lock);
    if (t != NULL) {
        mr_mutex_lock(&t->lock);
        if (t->turns != NULL) {
            mr_turns_detach_locked(c);
        } else if (c->session != NULL) {
            mr_book_disconnect(c->session);
            c->session = NULL;
        }
        mr_worker_task_changed_locked(t);
        mr_mutex_unlock(&t->lock);
    }
    mr_conn_unref(c);
}
