#include "worker/stream.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "base/scope.h"
#include "element/frame.h"
#include "worker/task.h"

struct mr_conn *mr_conn_new(struct mr_worker *w, mr_rpc_stream *s)
{
    struct mr_conn *c = mr_calloc(1, sizeof *c);

    if (c != NULL) {
        c->magic = MR_CONN_MAGIC;
        c->worker = w;
        c->stream = s;
        atomic_init(&c->refs, 1);
    }
    return c;
}

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
    if (c->task != NULL) {
        mr_worker_task_unref(c->task);
    }
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

void mr_conn_refuse(struct mr_conn *c, int code, const char *message)
{
    struct mr_conn_header header;

    mr_conn_header_init(&header, c);
    header.base.code = code;
    header.base.message = (char *)(uintptr_t)message;
    /* A stream that is gone needs no reason. */
    (void)send_frame(c->stream, &header.base, NULL, 0, 0, NULL);
    mr_rpc_stream_finish(c->stream, MR_OK, NULL);
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
