#include "worker/stream.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
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

/* The identities that every message carries; they are lent by @cluster, which is filled in. */
static void fill_header(const struct mr_conn *c, struct mr_link_cluster *cluster,
                        Millrace__ReadHeader *header)
{
    mr_link_cluster(c->worker->link, cluster);
    millrace__read_header__init(header);
    header->worker_incarnation = c->worker->incarnation;
    header->cluster_incarnation = cluster->incarnation;
    header->epoch = cluster->epoch;
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

static void send_elements(struct mr_conn *c, const Millrace__ReadHeader *header,
                          const struct mr_part *parts, size_t n)
{
    mr_error err;
    /* Whoever has parts has seen the engine open. A message without any may come before that. */
    uint64_t spec_hash = n > 0 ? c->task->spec_hash : 0;
    int rc = send_frame(c->stream, header, parts, n, spec_hash, &err);

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
    struct mr_link_cluster cluster;
    Millrace__ReadHeader header;

    fill_header(c, &cluster, &header);
    header.task_id = c->task->id;
    header.attempt = c->task->attempt;
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
}

void mr_conn_send_rounds(struct mr_conn *c, const struct mr_conn_rounds *rounds,
                         const struct mr_part *parts, size_t n)
{
    struct mr_link_cluster cluster;
    Millrace__ReadHeader header;

    fill_header(c, &cluster, &header);
    header.task_id = c->task->id;
    header.attempt = c->task->attempt;
    header.session = rounds->session;
    header.first_element = rounds->first;
    header.elements = (uint32_t)n;
    header.rounds = rounds->header;
    send_elements(c, &header, parts, n);
}

/* ---- ending ---- */

void mr_conn_refuse(struct mr_conn *c, int code, const char *message)
{
    struct mr_link_cluster cluster;
    Millrace__ReadHeader header;

    fill_header(c, &cluster, &header);
    header.code = code;
    header.message = (char *)(uintptr_t)message;
    /* A stream that is gone needs no reason. */
    (void)send_frame(c->stream, &header, NULL, 0, 0, NULL);
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
