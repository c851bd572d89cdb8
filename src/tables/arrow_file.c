/*
 * Arrow's IPC as a format of tables. A message is its head (FlatBuffers) and a body of buffers. A
 * stream is a schema, then dictionaries and record batches; a file is "ARROW1", a stream, and a
 * footer that says where its messages are.
 */
#include "tables/arrow_file.h"
#include "tables/bits.h"
#include "tables/sink.h"

#include "base/limits.h"

#define MAGIC "ARROW1"
#define MAGIC_BYTES 6u
#define TAIL (MAGIC_BYTES + 4u)
#define HEAD_BYTES_MAX (64 * MR_MIB)
#define MESSAGES_MAX (1u << 24)
#define VERSION_5 4 /* MetadataVersion V5; V4 has other buffers for unions */

enum { HEADER_SCHEMA = 1, HEADER_DICTIONARY = 2, HEADER_BATCH = 3 };

/* ---- messages ---- */

/* In front of a head stands its length, in front of that, since 2019, 0xffffffff. */
static int head_length(struct mr_arrow *a, uint64_t offset, uint32_t *prefix, uint32_t *size,
                       mr_error *err)
{
    const struct mr_table_input *in = &a->t.in;
    unsigned char bytes[8] = {0};
    uint64_t left = offset < in->size ? in->size - offset : 0;

    if (left < 4) {
        return left == 0 ? MR_END : mr_table_damaged(err, "a message is cut short");
    }
    MR_TRY(in->read(in->ctx, offset, bytes, left < 8 ? 4 : 8, err));
    bool marked = mr_load32(bytes) == UINT32_MAX;
    *prefix = marked ? 8 : 4;
    *size = mr_load32(bytes + (marked ? 4 : 0));
    if (*size == 0) {
        return MR_END;
    }
    if (*size > HEAD_BYTES_MAX || *size > left - MR_MIN(left, *prefix)) {
        return mr_table_damaged(err, "the head of a message has %u bytes", *size);
    }
    return MR_OK;
}

int mr_arrow_read_head(struct mr_arrow *a, uint64_t offset, mr_buffer **ret, struct mr_flat *flat,
                       struct mr_arrow_message *m, mr_error *err)
{
    const struct mr_table_input *in = &a->t.in;
    MR_AUTO(mr_buffer_unref) mr_buffer *head = NULL;
    uint32_t prefix = 0;
    uint32_t size = 0;

    MR_TRY(head_length(a, offset, &prefix, &size, err));
    MR_TRY(mr_buffer_new(size, &head, err));
    MR_TRY(in->read(in->ctx, offset + prefix, mr_buffer_data(head), size, err));
    *flat = (struct mr_flat){.data = mr_buffer_data(head), .size = size};
    mr_flat_table message = mr_flat_root(flat);
    int64_t body = mr_flat_int(flat, message, 3, 8, 0);
    uint64_t left = in->size - offset - prefix - size;
    if (flat->bad || message == 0 || body < 0 || (uint64_t)body > left) {
        return mr_table_damaged(err, "the head of a message is damaged");
    }
    if (mr_flat_int(flat, message, 0, 2, 0) != VERSION_5) {
        return mr_error_set(err, MR_EUNIMPL, "it is of a version before 1.0 of Arrow");
    }
    *m = (struct mr_arrow_message){
        .offset = offset, .head = prefix + size, .body = body, .dictionary = -1};
    *ret = MR_TAKE(head);
    return MR_OK;
}

static int add_batch(struct mr_arrow *a, struct mr_flat *f, mr_flat_table batch,
                     const struct mr_arrow_message *m, mr_error *err)
{
    struct mr_table_group group = {.rows = mr_flat_int(f, batch, 0, 8, 0), .bytes = m->body};

    if (group.rows < 0 || f->bad || a->nbatches == MESSAGES_MAX) {
        return mr_table_damaged(err, "record batch %u is damaged", a->nbatches);
    }
    if (!mr_grow(&a->batches, &a->batches_cap, a->nbatches, 1, sizeof *m)) {
        return mr_error_nomem(err);
    }
    struct mr_table_group *groups =
        mr_reallocarray(a->t.groups, (size_t)a->nbatches + 1, sizeof *groups);
    MR_CHECK_ALLOC(groups, err);
    a->t.groups = groups;
    groups[a->nbatches] = group;
    a->batches[a->nbatches++] = *m;
    a->t.ngroups = a->nbatches;
    return MR_OK;
}

static int add_dictionary(struct mr_arrow *a, struct mr_flat *f, mr_flat_table dictionary,
                          struct mr_arrow_message *m, mr_error *err)
{
    m->dictionary = mr_flat_int(f, dictionary, 0, 8, 0);
    if (f->bad || m->dictionary < 0 || a->ndictionaries == MESSAGES_MAX) {
        return mr_table_damaged(err, "a dictionary is damaged");
    }
    if (!mr_grow(&a->dictionaries, &a->dictionaries_cap, a->ndictionaries, 1, sizeof *m)) {
        return mr_error_nomem(err);
    }
    a->dictionaries[a->ndictionaries++] = *m;
    return MR_OK;
}

/* The message at *@offset, which becomes that of the one behind it. */
static int add_message(struct mr_arrow *a, uint64_t *offset, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *head = NULL;
    struct mr_flat f;
    struct mr_arrow_message m;

    MR_TRY(mr_arrow_read_head(a, *offset, &head, &f, &m, err));
    mr_flat_table message = mr_flat_root(&f);
    mr_flat_table header = mr_flat_child(&f, message, 2);
    *offset += m.head + (uint64_t)m.body;
    switch (mr_flat_int(&f, message, 1, 1, 0)) {
    case HEADER_SCHEMA: return mr_arrow_read_schema(a, &f, header, err);
    case HEADER_DICTIONARY: return add_dictionary(a, &f, header, &m, err);
    case HEADER_BATCH: return add_batch(a, &f, header, &m, err);
    default: return MR_OK; /* tensors, which are no part of a table */
    }
}

/* ---- files and streams ---- */

static int open_stream(struct mr_arrow *a, mr_error *err)
{
    uint64_t offset = 0;
    int rc = MR_OK;

    while (rc == MR_OK) {
        rc = add_message(a, &offset, err);
    }
    return rc == MR_END ? MR_OK : rc;
}

/* Blocks: where a message begins (i64), the bytes of its head (i32, padded) and body (i64). */
static int add_blocks(struct mr_arrow *a, struct mr_flat *f, mr_flat_table footer, int field,
                      mr_error *err)
{
    struct mr_flat_vector blocks = mr_flat_list(f, footer, field, 24);

    for (uint32_t i = 0; i < blocks.n; i++) {
        int64_t at = mr_flat_i64(f, blocks.at + 24 * (size_t)i);
        uint64_t offset = (uint64_t)at;
        int rc = at < 0 ? MR_END : add_message(a, &offset, err);

        if (rc != MR_OK) {
            return rc == MR_END ? mr_table_damaged(err, "message %u is not there", i) : rc;
        }
    }
    return MR_OK;
}

static int open_file(struct mr_arrow *a, mr_error *err)
{
    const struct mr_table_input *in = &a->t.in;
    MR_AUTO(mr_buffer_unref) mr_buffer *bytes = NULL;
    unsigned char tail[TAIL];

    MR_TRY(in->read(in->ctx, in->size - TAIL, tail, TAIL, err));
    size_t size = mr_load32(tail);
    if (memcmp(tail + 4, MAGIC, MAGIC_BYTES) != 0 || size > in->size - TAIL - 8 ||
        size > HEAD_BYTES_MAX) {
        return mr_table_damaged(err, "it does not end as an Arrow file does");
    }
    MR_TRY(mr_buffer_new(size, &bytes, err));
    MR_TRY(in->read(in->ctx, in->size - TAIL - size, mr_buffer_data(bytes), size, err));
    struct mr_flat f = {.data = mr_buffer_data(bytes), .size = size};
    mr_flat_table footer = mr_flat_root(&f);
    if (mr_flat_int(&f, footer, 0, 2, 0) != VERSION_5) {
        return f.bad ? mr_table_damaged(err, "the footer is damaged")
                     : mr_error_set(err, MR_EUNIMPL, "it is of a version before 1.0 of Arrow");
    }
    MR_TRY(mr_arrow_read_schema(a, &f, mr_flat_child(&f, footer, 1), err));
    MR_TRY(add_blocks(a, &f, footer, 2, err));
    MR_TRY(add_blocks(a, &f, footer, 3, err));
    return f.bad ? mr_table_damaged(err, "the footer is damaged") : MR_OK;
}

static int arrow_open(struct mr_table *t, mr_error *err)
{
    struct mr_arrow *a = (struct mr_arrow *)t;
    char magic[MAGIC_BYTES] = {0};

    if (t->in.size >= 8 + TAIL) {
        MR_TRY(t->in.read(t->in.ctx, 0, magic, sizeof magic, err));
    }
    MR_TRY(memcmp(magic, MAGIC, MAGIC_BYTES) == 0 ? open_file(a, err) : open_stream(a, err));
    return t->columns != NULL ? MR_OK : mr_table_damaged(err, "it has no schema");
}

/* ---- batches ---- */

static int arrow_begin(struct mr_table *t, mr_error *err)
{
    struct mr_arrow *a = (struct mr_arrow *)t;

    MR_TRY(mr_arrow_batch_begin(a, &a->batches[t->group], &a->batch, err));
    return mr_arrow_number_buffers(a, &a->batch, err);
}

static int arrow_column(struct mr_table *t, uint32_t i, uint32_t rows, struct ArrowArray *ret,
                        mr_error *err)
{
    return mr_arrow_read_column((struct mr_arrow *)t, t->chosen[i], t->row, rows, ret, err);
}

static void arrow_close(struct mr_table *t)
{
    struct mr_arrow *a = (struct mr_arrow *)t;

    mr_arrow_batch_end(&a->batch);
    for (uint32_t i = 0; i < a->nread; i++) {
        a->read[i].values.release(&a->read[i].values);
    }
    mr_free(a->read);
    mr_free(a->nodes);
    mr_free(a->tops);
    mr_free(a->batches);
    mr_free(a->dictionaries);
    mr_free(a->buffer_at);
}

const struct mr_table_format mr_table_arrow = {
    .name = "Arrow",
    .group = "record batch",
    .size = sizeof(struct mr_arrow),
    .open = arrow_open,
    .begin = arrow_begin,
    .column = arrow_column,
    .close = arrow_close,
    .seeks = true,
};
