/* The streams to the workers (/millrace.Worker/Read), on rpc's thread; what they say is
 * client/read/link.c's. */
#include "base/sync.h"
#include "client/reader_internal.h"
#include "millrace/service.rpc.h"

static struct mr_reader_line *line_of(void *ctx)
{
    struct mr_reader_line *line = ctx;

    MR_ASSERT(line->magic == MR_READER_LINE_MAGIC);
    return line;
}

static int decode(mr_memory *memory, mr_rpc_message *m, struct mr_frame_content *ret, mr_error *err)
{
    mr_buffer *buffer = NULL;
    size_t size = mr_rpc_message_size(m);

    MR_TRY(mr_buffer_new(size, &buffer, err));
    mr_buffer_charge(buffer, memory);
    mr_rpc_message_copy(m, 0, size, mr_buffer_data(buffer)); /* the one copy */
    int rc = mr_frame_parse(buffer, 0, ret, err);
    mr_buffer_unref(buffer); /* The blocks hold it. */
    return rc;
}

static int check_spec(const mr_spec *spec, const struct mr_frame_content *c, mr_error *err)
{
    for (size_t i = 0; i < c->n; i++) {
        int rc = mr_block_check_spec(c->blocks[i], spec, err);

        if (rc < 0) {
            mr_error_wrap(err, "an element that is not what the dataset's spec says");
            return rc;
        }
    }
    return MR_OK;
}

static void on_message(void *ctx, mr_rpc_stream *stream, mr_rpc_message *m)
{
    struct mr_read_task *t = line_of(ctx)->task;
    mr_reader *r = mr_reader_of(t->read);
    struct mr_frame_content content = {0};
    mr_error err;
    bool more = false;
    int rc = decode(r->memory, m, &content, &err);

    mr_rpc_message_free(m);
    int spec_rc = rc == MR_OK ? check_spec(t->read->opts.spec, &content, &err) : MR_OK;

    mr_reader_enter(r);
    if (rc < 0) {
        mr_read_garbled(t, &err);
    } else if (spec_rc < 0) {
        mr_read_alien(t, &err);
    } else {
        more = mr_read_message(t, &content);
    }
    mr_reader_leave(r);
    if (more) {
        mr_rpc_stream_receive(stream);
    }
    mr_frame_content_free(&content);
}

static void on_sent(void *ctx, mr_rpc_stream *stream)
{
    struct mr_read_task *t = line_of(ctx)->task;
    mr_reader *r = mr_reader_of(t->read);

    mr_reader_enter(r);
    mr_read_sent(t);
    mr_reader_wake_locked(r);
    mr_mutex_unlock(&r->lock);
}

static void on_ended(void *ctx, mr_rpc_stream *stream, int rc, const mr_error *err)
{
    struct mr_reader_line *line = line_of(ctx);
    struct mr_read_task *t = line->task;
    mr_reader *r = mr_reader_of(t->read);

    mr_reader_enter(r);
    line->stream = NULL;
    mr_read_ended(t, rc, err);
    mr_rpc_stream_unref(stream);
    mr_reader_wake_locked(r); /* Who closes may free it all as soon as it gets the lock. */
    mr_mutex_unlock(&r->lock);
}

static const struct mr_rpc_stream_ops stream_ops = {
    .message = on_message, .sent = on_sent, .ended = on_ended};

static struct mr_reader_line *line_new(struct mr_read_task *t)
{
    struct mr_reader_line *line = mr_calloc(1, sizeof *line);

    if (line != NULL) {
        line->magic = MR_READER_LINE_MAGIC;
        line->task = t;
    }
    return line;
}

int mr_reader_connect(struct mr_read_task *t, mr_error *err)
{
    mr_reader *r = mr_reader_of(t->read);
    struct mr_reader_line *line = t->line != NULL ? line_of(t->line) : line_new(t);
    int rc = MR_OK;

    MR_CHECK_ALLOC(line, err);
    t->line = line;
    if (line->channel == NULL) {
        rc = mr_rpc_channel_new(r->rt, t->address, mr_control_credentials(r->control),
                                &line->channel, err);
    }
    MR_TRY(rc);
    MR_TRY(mr_rpc_stream_open(line->channel, MR_PATH_READ, NULL, -1, false, &stream_ops, line,
                              &line->stream, err));
    mr_rpc_stream_receive(line->stream);
    return MR_OK;
}

bool mr_reader_send(struct mr_read_task *t, const uint8_t *bytes, size_t size)
{
    struct mr_rpc_slice slice = {.data = bytes, .size = size};

    return mr_rpc_stream_send(line_of(t->line)->stream, &slice, 1, false, NULL) == MR_OK;
}

void mr_reader_cut(struct mr_read_task *t)
{
    mr_rpc_stream_cancel(line_of(t->line)->stream);
}

void mr_reader_line_free(void *ctx)
{
    if (ctx != NULL) {
        struct mr_reader_line *line = line_of(ctx);

        MR_ASSERT(line->stream == NULL);
        mr_rpc_channel_free(line->channel);
        line->magic = 0;
        mr_free(line);
    }
}
