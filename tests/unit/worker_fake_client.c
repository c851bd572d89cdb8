/* A client that reads one task as the test says. */
#include "base/identity.h"
#include "worker_fake_internal.h"

#include <stdlib.h>

struct fake_client {
    mr_rpc_channel *channel;
    mr_rpc_stream *stream;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mr_rpc_message *in; /* received, not taken */
    bool sending;
    bool ended;
    int code; /* with which it ended */
};

static void client_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct fake_client *c = ctx;

    MR_LOCK(&c->lock);
    c->in = m;
    (void)pthread_cond_broadcast(&c->changed);
}

static void client_sent(void *ctx, mr_rpc_stream *s)
{
    struct fake_client *c = ctx;

    MR_LOCK(&c->lock);
    c->sending = false;
    (void)pthread_cond_broadcast(&c->changed);
}

static void client_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct fake_client *c = ctx;

    MR_LOCK(&c->lock);
    c->ended = true;
    c->code = rc;
    (void)pthread_cond_broadcast(&c->changed);
}

static const struct mr_rpc_stream_ops client_ops = {
    .message = client_message, .sent = client_sent, .ended = client_ended};

static void client_send(struct fake_client *c, const Millrace__ReadRequest *req)
{
    size_t size = millrace__read_request__get_packed_size(req);
    void *bytes = malloc(size == 0 ? 1 : size);

    (void)millrace__read_request__pack(req, bytes);
    mr_mutex_lock(&c->lock);
    WAIT_UNTIL(c, !c->sending || c->ended);
    c->sending = true;
    mr_mutex_unlock(&c->lock);
    struct mr_rpc_slice slice = {.data = bytes, .size = size};
    (void)mr_rpc_stream_send(c->stream, &slice, 1, false, NULL);
    free(bytes);
}

struct fake_client *fake_client_open(mr_rpc_runtime *rt, const struct fake_open *open)
{
    struct fake_client *c = mr_calloc(1, sizeof *c);
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;
    Millrace__ReadOpen o = MILLRACE__READ_OPEN__INIT;
    uint8_t ticket[MR_TICKET_BYTES];
    mr_error err;

    mr_mutex_init(&c->lock);
    mr_cond_init(&c->changed);
    assert_int_equal(mr_rpc_channel_new(rt, open->address, NULL, &c->channel, NULL), MR_OK);
    if (mr_rpc_stream_open(c->channel, "/millrace.Worker/Read", NULL, -1, true, &client_ops, c,
                           &c->stream, &err) != MR_OK) {
        fail_msg("%s", err.message);
    }
    o.cluster = fake_text(open->cluster != NULL ? open->cluster : FAKE_CLUSTER);
    o.cluster_incarnation = fake_text(open->cluster_incarnation != NULL ? open->cluster_incarnation
                                                                        : FAKE_CLUSTER_INCARNATION);
    o.worker_incarnation = fake_text(open->incarnation);
    o.task_id = fake_text(open->task);
    o.attempt = open->attempt == 0 ? 1 : open->attempt;
    o.client = fake_text(open->client);
    o.session = open->session;
    o.resume_from = open->resume_from;
    if (!open->no_ticket) {
        mr_ticket_make(fake_ticket_key, open->iteration != NULL ? open->iteration : "i1",
                       open->client, ticket);
        o.ticket = (ProtobufCBinaryData){.data = ticket, .len = sizeof ticket};
    }
    req.open = &o;
    req.limit_elements = open->credit;
    req.returned_elements = open->returned;
    req.limit_bytes = UINT64_C(1) << 50; /* elements are what tests count */
    if (open->rounds != NULL) {
        o.rounds = open->rounds;
        req.limit_round = open->limit_round;
        req.limit_bytes = open->limit_bytes;
        req.received_below = open->rounds->received_below;
        req.returned_below = open->rounds->returned_below;
    }
    client_send(c, &req);
    mr_rpc_stream_receive(c->stream);
    return c;
}

void fake_client_free(struct fake_client *c)
{
    if (c == NULL) {
        return;
    }
    mr_rpc_stream_cancel(c->stream);
    mr_mutex_lock(&c->lock);
    WAIT_UNTIL(c, c->ended);
    mr_rpc_message_free(c->in);
    mr_mutex_unlock(&c->lock);
    mr_rpc_stream_unref(c->stream);
    mr_rpc_channel_free(c->channel);
    mr_free(c);
}

void fake_client_credit(struct fake_client *c, uint64_t limit, uint64_t received)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;

    req.limit_elements = limit;
    req.limit_bytes = UINT64_C(1) << 50; /* elements are what tests count */
    req.received_elements = received;
    req.returned_elements = received;
    client_send(c, &req);
}

void fake_client_returned(struct fake_client *c, uint64_t limit, uint64_t received,
                          uint64_t returned)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;

    req.limit_elements = limit;
    req.limit_bytes = UINT64_C(1) << 50;
    req.received_elements = received;
    req.returned_elements = returned;
    client_send(c, &req);
}

void fake_client_tell(struct fake_client *c, uint64_t limit_round, uint64_t limit_bytes,
                      uint64_t received_below, uint64_t returned_below)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;

    req.limit_round = limit_round;
    req.limit_bytes = limit_bytes;
    req.received_below = received_below;
    req.returned_below = returned_below;
    client_send(c, &req);
}

int fake_client_wait_end(struct fake_client *c)
{
    struct mr_frame_content m;

    while (fake_client_next(c, &m)) {
        mr_frame_content_free(&m);
    }
    return c->code;
}

void fake_client_done(struct fake_client *c, uint64_t received)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;

    req.limit_elements = received;
    req.received_elements = received;
    req.returned_elements = received;
    req.done = true;
    client_send(c, &req);
}

void fake_client_give_back(struct fake_client *c, uint64_t received, uint64_t returned)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;

    req.limit_elements = received;
    req.received_elements = received;
    req.returned_elements = returned;
    req.done = true;
    req.gives_back = true;
    client_send(c, &req);
}

bool fake_client_next(struct fake_client *c, struct mr_frame_content *ret)
{
    mr_rpc_message *m;
    mr_buffer *buffer;
    mr_error err;

    mr_mutex_lock(&c->lock);
    WAIT_UNTIL(c, c->in != NULL || c->ended);
    m = c->in;
    c->in = NULL;
    mr_mutex_unlock(&c->lock);
    if (m == NULL) {
        return false;
    }
    assert_int_equal(mr_buffer_new(mr_rpc_message_size(m), &buffer, NULL), MR_OK);
    mr_rpc_message_copy(m, 0, mr_rpc_message_size(m), mr_buffer_data(buffer));
    mr_rpc_message_free(m);
    if (mr_frame_parse(buffer, 0, ret, &err) != MR_OK) {
        fail_msg("%s", err.message);
    }
    mr_buffer_unref(buffer);
    mr_rpc_stream_receive(c->stream);
    return true;
}

int fake_client_drain(struct fake_client *c, unsigned *seen, size_t n, char **message)
{
    for (;;) {
        struct mr_frame_content m;

        if (!fake_client_next(c, &m)) {
            fail_msg("the stream ended before the end");
        }
        uint64_t received = m.header->first_element + m.header->elements;
        for (size_t i = 0; i < m.n; i++) {
            const int64_t *data = mr_block_column(m.blocks[i], 0)->data;

            for (uint32_t r = 0; r < mr_block_rows(m.blocks[i]); r++) {
                assert_in_range(data[r], 0, n - 1);
                seen[data[r]]++;
            }
        }
        bool end = m.header->end;
        int code = m.header->code;
        if (end && message != NULL) {
            *message = mr_strdup(m.header->message);
        }
        fake_client_credit(c, 2 * received + 16, received);
        mr_frame_content_free(&m);
        if (end) {
            return code;
        }
    }
}
