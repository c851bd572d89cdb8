/* Record batches of Arrow's IPC: the rows that are wanted of the columns that are wanted. */
#include "tables/arrow_file.h"
#include "tables/bits.h"
#include "tables/sink.h"

#include "base/limits.h"

#include <stdatomic.h>

enum { CODEC_LZ4 = 0, CODEC_ZSTD = 1 };

/* ---- the head ---- */

static int batch_tables(struct mr_arrow_batch *b, const struct mr_arrow_message *m, mr_error *err)
{
    struct mr_flat *f = &b->flat;
    mr_flat_table message = mr_flat_root(f);
    mr_flat_table batch = mr_flat_child(f, message, 2);

    if (m->dictionary >= 0) {
        batch = mr_flat_child(f, batch, 1);
    }
    b->nodes = mr_flat_list(f, batch, 1, 16);
    b->buffers = mr_flat_list(f, batch, 2, 16);
    b->variadic = mr_flat_list(f, batch, 4, 8);
    mr_flat_table compression = mr_flat_child(f, batch, 3);
    if (compression != 0) {
        int64_t codec = mr_flat_int(f, compression, 0, 1, CODEC_LZ4);

        if (codec != CODEC_LZ4 && codec != CODEC_ZSTD) {
            return mr_error_set(err, MR_EUNIMPL, "compression %d is not read", (int)codec);
        }
        b->codec = codec == CODEC_LZ4 ? MR_CODEC_LZ4_FRAME : MR_CODEC_ZSTD;
    }
    return f->bad || batch == 0 ? mr_table_damaged(err, "its head is damaged") : MR_OK;
}

int mr_arrow_batch_begin(struct mr_arrow *a, const struct mr_arrow_message *m,
                         struct mr_arrow_batch *b, mr_error *err)
{
    struct mr_arrow_message again;

    mr_arrow_batch_end(b);
    int rc = mr_arrow_read_head(a, m->offset, &b->head, &b->flat, &again, err);
    if (rc != MR_OK) {
        return rc == MR_END ? mr_table_damaged(err, "it is not there") : rc;
    }
    MR_TRY(batch_tables(b, m, err));
    b->body_at = again.offset + again.head;
    b->body_size = (uint64_t)again.body;
    b->plain = mr_calloc((size_t)b->buffers.n + 1, sizeof(mr_buffer *));
    MR_CHECK_ALLOC(b->plain, err);
    return MR_OK;
}

void mr_arrow_batch_end(struct mr_arrow_batch *b)
{
    for (uint32_t i = 0; b->plain != NULL && i < b->buffers.n; i++) {
        mr_buffer_unref(b->plain[i]);
    }
    mr_free(b->plain);
    mr_buffer_unref(b->head);
    *b = (struct mr_arrow_batch){0};
}

int mr_arrow_number_buffers(struct mr_arrow *a, struct mr_arrow_batch *b, mr_error *err)
{
    uint64_t next = 0;
    uint32_t variadic = 0;

    for (uint32_t i = 0; i < a->nnodes; i++) {
        a->buffer_at[i] = next < UINT32_MAX ? (uint32_t)next : UINT32_MAX;
        next += (uint64_t)a->nodes[i].type.buffers;
        if (!a->nodes[i].type.variadic) {
            continue;
        }
        int64_t more = variadic < b->variadic.n
                           ? mr_flat_i64(&b->flat, b->variadic.at + 8 * (size_t)variadic++)
                           : -1;
        if (more < 0 || more > b->buffers.n) {
            return mr_table_damaged(err, "its buffers are not counted");
        }
        next += (uint64_t)more;
    }
    if (b->nodes.n < a->nnodes || b->buffers.n < next) {
        return mr_table_damaged(err, "it has %u columns and %u buffers, there should be %u and %u",
                                b->nodes.n, b->buffers.n, a->nnodes, (unsigned)next);
    }
    return MR_OK;
}

/* ---- buffers ---- */

/* Some node of a batch, and where its buffers begin. */
struct part {
    struct mr_arrow *a;
    struct mr_arrow_batch *b;
    uint32_t node;
    uint32_t buffer;
};

static int64_t node_length(const struct part *p)
{
    return mr_flat_i64(&p->b->flat, p->b->nodes.at + 16 * (size_t)p->node);
}

static int64_t node_nulls(const struct part *p)
{
    return mr_flat_i64(&p->b->flat, p->b->nodes.at + 16 * (size_t)p->node + 8);
}

struct extent {
    uint64_t at; /* in the file */
    uint64_t size;
};

static int buffer_extent(const struct part *p, int which, struct extent *ret, mr_error *err)
{
    const struct mr_arrow_batch *b = p->b;
    size_t at = b->buffers.at + 16 * ((size_t)p->buffer + (size_t)which);
    int64_t offset = mr_flat_i64(&b->flat, at);
    int64_t size = mr_flat_i64(&b->flat, at + 8);

    if (offset < 0 || size < 0 || (uint64_t)offset > b->body_size ||
        (uint64_t)size > b->body_size - (uint64_t)offset) {
        return mr_table_damaged(err, "a buffer lies outside of it");
    }
    *ret = (struct extent){b->body_at + (uint64_t)offset, (uint64_t)size};
    return MR_OK;
}

/* The whole buffer, decompressed: its length, -1 for one that is not compressed, is in front. */
static int decompress(const struct part *p, int which, const struct extent *e, mr_error *err)
{
    const struct mr_table_input *in = &p->a->t.in;
    mr_buffer *from = NULL;
    mr_buffer *to = NULL;

    if (e->size < 8) {
        return mr_table_damaged(err, "a compressed buffer of %" PRIu64 " bytes", e->size);
    }
    MR_TRY(mr_buffer_new((size_t)e->size, &from, err));
    unsigned char *bytes = mr_buffer_data(from);
    int rc = in->read(in->ctx, e->at, bytes, (size_t)e->size, err);
    int64_t size = rc == MR_OK ? (int64_t)mr_load64(bytes) : 0;
    size = size == -1 ? (int64_t)e->size - 8 : size;
    if (rc == MR_OK && (size < 0 || size > (int64_t)MR_ELEMENT_BYTES_MAX)) {
        rc = mr_table_damaged(err, "a buffer of %" PRId64 " bytes, decompressed", size);
    }
    if (rc == MR_OK) {
        rc = mr_buffer_new((size_t)size, &to, err);
    }
    if (rc == MR_OK) {
        bool stored = (int64_t)mr_load64(bytes) == -1;

        rc = mr_decompress(stored ? MR_CODEC_NONE : p->b->codec, bytes + 8, (size_t)e->size - 8,
                           mr_buffer_data(to), (size_t)size, err);
    }
    mr_buffer_unref(from);
    if (rc != MR_OK) {
        mr_buffer_unref(to);
        return rc;
    }
    p->b->plain[p->buffer + (uint32_t)which] = to;
    return MR_OK;
}

/* Bytes [@first, @first + @n) of buffer @which of the node; *@ret is freed with mr_free(). */
static int fetch(const struct part *p, int which, uint64_t first, uint64_t n, void *ret,
                 mr_error *err)
{
    struct extent e;
    mr_buffer **plain = &p->b->plain[p->buffer + (uint32_t)which];

    MR_TRY(buffer_extent(p, which, &e, err));
    if (p->b->codec != MR_CODEC_NONE && e.size > 0) {
        MR_TRY(*plain == NULL ? decompress(p, which, &e, err) : MR_OK);
        e.size = mr_buffer_size(*plain);
    }
    if (first > e.size || n > e.size - first) {
        return mr_table_damaged(err, "a buffer of %" PRIu64 " bytes is too short", e.size);
    }
    MR_TRY(mr_table_room(n, err));
    mr_memory_add(mr_memory_current(), (size_t)n); /* until make_array() */
    p->b->fetched += n;
    MR_AUTO(mr_free) unsigned char *to = mr_malloc_aligned((size_t)n + 8);
    MR_CHECK_ALLOC(to, err);
    if (*plain != NULL) {
        memcpy(to, (const char *)mr_buffer_data(*plain) + first, (size_t)n);
    } else if (n > 0) {
        MR_TRY(p->a->t.in.read(p->a->t.in.ctx, e.at + first, to, (size_t)n, err));
    }
    memcpy(ret, &to, sizeof to);
    to = NULL;
    return MR_OK;
}

/* Bits from number @first on, moved to the front. */
static int fetch_bits(const struct part *p, int which, uint64_t first, uint64_t n,
                      unsigned char **ret, mr_error *err)
{
    unsigned shift = first % 8;
    uint64_t bytes = (first + n + 7) / 8 - first / 8;

    MR_TRY(fetch(p, which, first / 8, bytes, ret, err));
    unsigned char *to = *ret;
    for (uint64_t i = 0; shift > 0 && i < bytes; i++) {
        unsigned next = i + 1 < bytes ? (unsigned)to[i + 1] : 0u;

        to[i] = (unsigned char)((unsigned)to[i] >> shift | next << (8 - shift));
    }
    return MR_OK;
}

/* ---- arrays ---- */

struct range {
    int64_t first;
    int64_t n;
};

/* What an array is made of. */
struct parts {
    void *buffers[3];
    int n;
    struct ArrowArray child;
    bool has_child;
};

static int validity(const struct part *p, struct range r, struct parts *to, mr_error *err)
{
    struct extent e;
    unsigned char *bits = NULL;

    MR_TRY(buffer_extent(p, 0, &e, err));
    if (node_nulls(p) != 0 && e.size > 0) {
        MR_TRY(fetch_bits(p, 0, (uint64_t)r.first, (uint64_t)r.n, &bits, err));
    }
    to->buffers[0] = bits;
    return MR_OK;
}

/* Offsets, made to begin at 0; *@ret: what they are offsets of. */
static int offsets(const struct part *p, struct range r, bool wide, struct parts *to,
                   struct range *ret, mr_error *err)
{
    size_t width = wide ? 8 : 4;
    unsigned char *bytes = NULL;
    size_t n = (size_t)r.n + 1;
    int64_t last = 0;
    int64_t first = 0;

    MR_TRY(fetch(p, 1, (uint64_t)r.first * width, n * width, &bytes, err));
    to->buffers[1] = bytes;
    for (size_t i = 0; i < n; i++) {
        int64_t v = wide ? (int64_t)mr_load64(bytes + 8 * i) : (int32_t)mr_load32(bytes + 4 * i);

        first = i == 0 ? v : first;
        last = i == 0 ? v : last;
        if (v < 0 || v < last) {
            return mr_table_damaged(err, "offset %" PRId64 " behind %" PRId64, v, last);
        }
        last = v;
        v -= first;
        memcpy(bytes + width * i, &v, width);
    }
    *ret = (struct range){first, last - first};
    return MR_OK;
}

static int array_parts(const struct part *p, const struct mr_arrow_type *type, struct range r,
                       struct parts *to, mr_error *err);

static int make_array(const struct part *p, const struct mr_arrow_type *type, struct range r,
                      struct ArrowArray *ret, mr_error *err)
{
    struct parts to = {.n = 2};
    int64_t length = node_length(p);
    uint64_t before = p->b->fetched;
    int rc = MR_OK;

    if (r.first < 0 || r.n < 0 || r.first > length || r.n > length - r.first) {
        return mr_table_damaged(err, "it has %" PRId64 " values, not %" PRId64 " behind %" PRId64,
                                length, r.n, r.first);
    }
    rc = validity(p, r, &to, err);
    if (rc == MR_OK) {
        rc = array_parts(p, type, r, &to, err);
    }
    uint64_t bytes = p->b->fetched - before;
    mr_memory_release(mr_memory_current(), (size_t)bytes); /* it is charged to the array */
    p->b->fetched = before;
    if (rc == MR_OK) {
        rc = mr_arrow_array(r.n, to.buffers[0] != NULL ? -1 : 0, to.buffers, to.n, to.has_child,
                            bytes, ret, err);
    }
    if (rc == MR_OK && to.has_child) {
        *ret->children[0] = to.child;
    }
    if (rc != MR_OK) {
        for (int i = 0; i < 3; i++) {
            mr_free(to.buffers[i]);
        }
        if (to.has_child) {
            to.child.release(&to.child);
        }
    }
    return rc;
}

static int list_child(const struct part *p, struct range r, struct parts *to, mr_error *err)
{
    const struct part child = {p->a, p->b, p->node + 1, p->a->buffer_at[p->node + 1]};

    MR_TRY(make_array(&child, &p->a->nodes[p->node + 1].type, r, &to->child, err));
    to->has_child = true;
    return MR_OK;
}

static int array_parts(const struct part *p, const struct mr_arrow_type *type, struct range r,
                       struct parts *to, mr_error *err)
{
    unsigned char *bytes = NULL;
    struct range below;

    switch (type->layout) {
    case MR_LAYOUT_FIXED:
        if (type->size > 0 && r.first + r.n > INT64_MAX / type->size) {
            return mr_table_damaged(err, "a buffer is too short");
        }
        return fetch(p, 1, (uint64_t)(r.first * type->size), (uint64_t)(r.n * type->size),
                     &to->buffers[1], err);
    case MR_LAYOUT_BITS:
        MR_TRY(fetch_bits(p, 1, (uint64_t)r.first, (uint64_t)r.n, &bytes, err));
        to->buffers[1] = bytes;
        return MR_OK;
    case MR_LAYOUT_BYTES32:
    case MR_LAYOUT_BYTES64:
        to->n = 3;
        MR_TRY(offsets(p, r, type->layout == MR_LAYOUT_BYTES64, to, &below, err));
        return fetch(p, 2, (uint64_t)below.first, (uint64_t)below.n, &to->buffers[2], err);
    case MR_LAYOUT_LIST32:
    case MR_LAYOUT_LIST64:
        MR_TRY(offsets(p, r, type->layout == MR_LAYOUT_LIST64, to, &below, err));
        return list_child(p, below, to, err);
    case MR_LAYOUT_LIST_FIXED:
        to->n = 1;
        if (type->size > 0 && r.first + r.n > INT64_MAX / type->size) {
            return mr_table_damaged(err, "a buffer is too short");
        }
        return list_child(p, (struct range){r.first * type->size, r.n * type->size}, to, err);
    case MR_LAYOUT_OTHER: break;
    }
    return mr_table_damaged(err, "it is not read");
}

/* ---- dictionaries ---- */

/* The values of a dictionary, which arrays share. */
struct shared {
    atomic_uint refs;
    struct ArrowArray array;
};

static void release_shared(struct ArrowArray *lent)
{
    struct shared *s = lent->private_data;

    lent->release = NULL;
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) {
        s->array.release(&s->array);
        mr_free(s);
    }
}

/* One more reference to @from, which is lent out. */
static struct ArrowArray lend(const struct ArrowArray *from)
{
    struct shared *s = from->private_data;

    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return *from;
}

static int read_dictionary(struct mr_arrow *a, const struct mr_arrow_message *m,
                           const struct mr_arrow_node *node, struct ArrowArray *ret, mr_error *err)
{
    struct mr_arrow_batch b = {0};
    int rc = mr_arrow_batch_begin(a, m, &b, err);

    if (rc == MR_OK && (b.nodes.n < 1 || b.buffers.n < (uint32_t)node->values.buffers)) {
        rc = mr_table_damaged(err, "its head is damaged");
    }
    if (rc == MR_OK) {
        const struct part p = {a, &b, 0, 0};

        rc = make_array(&p, &node->values, (struct range){0, node_length(&p)}, ret, err);
    }
    mr_arrow_batch_end(&b);
    return rc;
}

static int find_dictionary(const struct mr_arrow *a, int64_t id,
                           const struct mr_arrow_message **ret, mr_error *err)
{
    const struct mr_arrow_message *found = NULL;

    for (uint32_t i = 0; i < a->ndictionaries; i++) {
        if (a->dictionaries[i].dictionary != id) {
            continue;
        }
        if (found != NULL) {
            return mr_error_set(err, MR_EUNIMPL, "its dictionary is in several pieces");
        }
        found = &a->dictionaries[i];
    }
    *ret = found;
    return found != NULL ? MR_OK : mr_table_damaged(err, "its dictionary is not there");
}

/* Read once for each column that has it: what a dictionary's bytes are is the column's to say. */
static int new_dictionary(struct mr_arrow *a, uint32_t node, mr_error *err)
{
    const struct mr_arrow_message *m = NULL;

    MR_TRY(find_dictionary(a, a->nodes[node].dictionary, &m, err));
    if (!mr_grow(&a->read, &a->read_cap, a->nread, 1, sizeof *a->read)) {
        return mr_error_nomem(err);
    }
    struct shared *s = mr_calloc(1, sizeof *s);
    MR_CHECK_ALLOC(s, err);
    atomic_init(&s->refs, 1);
    int rc = read_dictionary(a, m, &a->nodes[node], &s->array, err);
    if (rc != MR_OK) {
        mr_free(s);
        mr_error_wrap(err, "its dictionary");
        return rc;
    }
    struct mr_arrow_dictionary *d = &a->read[a->nread++];
    d->node = node;
    d->values = s->array;
    d->values.release = release_shared;
    d->values.private_data = s;
    return MR_OK;
}

static int add_dictionary(struct mr_arrow *a, uint32_t node, struct ArrowArray *array,
                          mr_error *err)
{
    uint32_t i = 0;

    while (i < a->nread && a->read[i].node != node) {
        i++;
    }
    if (i == a->nread) {
        MR_TRY(new_dictionary(a, node, err));
    }
    array->dictionary = mr_malloc(sizeof *array->dictionary);
    MR_CHECK_ALLOC(array->dictionary, err);
    *array->dictionary = lend(&a->read[i].values);
    return MR_OK;
}

int mr_arrow_read_column(struct mr_arrow *a, uint32_t column, int64_t first, int64_t n,
                         struct ArrowArray *ret, mr_error *err)
{
    const struct part p = {a, &a->batch, a->tops[column], a->buffer_at[a->tops[column]]};
    const struct mr_arrow_node *node = &a->nodes[p.node];

    MR_TRY(make_array(&p, &node->type, (struct range){first, n}, ret, err));
    if (node->has_dictionary) {
        int rc = add_dictionary(a, p.node, ret, err);

        if (rc != MR_OK) {
            ret->release(ret);
        }
        return rc;
    }
    return MR_OK;
}
