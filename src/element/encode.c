/* A block as bytes for the wire. Headers, shapes and other small parts are written to one scratch
 * area; payload stays where it is and is pointed at. */
#include "element/wire.h"

#include "base/buf.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Parts below this are copied: a slice of its own costs more than the copy. */
#define INLINE_BYTES_MAX 512u

/* Writes the encoded form, front to back. */
struct writer {
    struct iovec *iov;
    size_t count;
    unsigned char *scratch; /* next free byte */
    unsigned char *tail;    /* end of the last iov if it lies in the scratch, else NULL */
    size_t total;
};

/* @n bytes of the scratch, at the end of what was written. */
static unsigned char *put(struct writer *w, size_t n)
{
    unsigned char *at = w->scratch;

    if (n == 0) {
        return at;
    }
    if (w->tail == at && w->count > 0) {
        w->iov[w->count - 1].iov_len += n;
    } else {
        w->iov[w->count++] = (struct iovec){.iov_base = at, .iov_len = n};
    }
    w->scratch += n;
    w->tail = w->scratch;
    w->total += n;
    return at;
}

static void pad(struct writer *w)
{
    size_t n = mr_align64(w->total) - w->total;

    memset(put(w, n), 0, n);
}

/* Bytes that stay where they are, unless they are few. */
static void point_at(struct writer *w, const void *data, size_t n)
{
    if (n == 0) {
        return;
    }
    if (n < INLINE_BYTES_MAX) {
        memcpy(put(w, n), data, n);
        return;
    }
    w->iov[w->count++] = (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = n};
    w->tail = NULL;
    w->total += n;
}

/* @n positions, counted from the first of them. */
static void put_rebased(struct writer *w, const uint64_t *positions, size_t n)
{
    if (positions[0] == 0) {
        point_at(w, positions, n * sizeof positions[0]);
        return;
    }
    unsigned char *to = put(w, n * sizeof positions[0]);
    for (size_t i = 0; i < n; i++) {
        uint64_t rebased = positions[i] - positions[0];

        memcpy(to + i * sizeof rebased, &rebased,
               sizeof rebased); /* The scratch has no alignment. */
    }
}

static void write_column(struct writer *w, const struct mr_column *c, uint32_t rows,
                         struct mr_wire_column *entry)
{
    static const uint64_t none = 0;
    size_t start = w->total;
    uint64_t first;
    uint64_t count;

    mr_column_values(c, 0, rows, &first, &count);
    *entry = (struct mr_wire_column){
        .kind = c->kind, .dtype = c->dtype, .rank = c->rank, .offset = start, .values = count};
    if (c->kind == MR_COLUMN_FIXED) {
        point_at(w, c->dims, c->rank * sizeof c->dims[0]);
    } else {
        point_at(w, c->row_dims, (size_t)rows * c->rank * sizeof c->row_dims[0]);
        put_rebased(w, c->starts, (size_t)rows + 1);
    }
    pad(w);
    if (c->dtype == MR_STRING) {
        const uint64_t *offsets = count == 0 ? &none : c->offsets + first;

        put_rebased(w, offsets, (size_t)count + 1);
        pad(w);
        if (count > 0) {
            point_at(w, (const unsigned char *)c->data + offsets[0],
                     (size_t)(offsets[count] - offsets[0]));
        }
    } else if (count > 0) {
        size_t size = mr_dtype_size((mr_dtype)c->dtype);

        point_at(w, (const unsigned char *)c->data + first * size, (size_t)count * size);
    }
    entry->bytes = w->total - start;
    pad(w);
}

/* What is known of where the rows come from, behind the columns. */
static void write_trace(struct writer *w, const struct mr_buf *trace)
{
    uint64_t n = trace->len;

    if (n > 0) {
        memcpy(put(w, sizeof n), &n, sizeof n);
        memcpy(put(w, trace->len), trace->data, trace->len);
        pad(w);
    }
}

/* How much scratch a column may take at most. */
static size_t column_scratch(const struct mr_column *c, uint32_t rows)
{
    uint64_t first;
    uint64_t count;
    size_t n = 3 * MR_BLOCK_ALIGN + INLINE_BYTES_MAX;

    mr_column_values(c, 0, rows, &first, &count);
    n += c->rank * sizeof c->dims[0];
    if (c->kind == MR_COLUMN_VAR) {
        n += INLINE_BYTES_MAX + ((size_t)rows + 1) * sizeof c->starts[0];
    }
    if (c->dtype == MR_STRING) {
        n += ((size_t)count + 1) * sizeof c->offsets[0];
    }
    return n;
}

static uint64_t checksum_of(const struct writer *w)
{
    XXH3_state_t state;
    size_t skip = sizeof(struct mr_wire_header);

    (void)XXH3_64bits_reset(&state);
    for (size_t i = 0; i < w->count; i++) {
        /* The header is the beginning of the first slice. */
        (void)XXH3_64bits_update(&state, (unsigned char *)w->iov[i].iov_base + skip,
                                 w->iov[i].iov_len - skip);
        skip = 0;
    }
    return XXH3_64bits_digest(&state);
}

int mr_block_encode(const mr_block *block, uint64_t spec_hash, bool checksum,
                    struct mr_encoded *ret, mr_error *err)
{
    /* Per column at most: shapes, starts, offsets, data, and the scratch between them. */
    size_t iov_max = 3 + (size_t)block->ncolumns * 8;
    size_t directory = (size_t)block->ncolumns * sizeof(struct mr_wire_column);
    size_t scratch = mr_align64(sizeof(struct mr_wire_header) + directory);
    struct mr_buf trace = MR_BUF_INIT;
    unsigned char *memory;

    for (uint32_t i = 0; i < block->ncolumns; i++) {
        scratch += column_scratch(&block->columns[i], block->rows);
    }
    mr_trace_encode(block, &trace);
    if (trace.failed) { /* half of it is of no use, and it is for words only */
        mr_buf_free(&trace);
    }
    scratch += trace.len > 0 ? sizeof(uint64_t) + trace.len + MR_BLOCK_ALIGN : 0;
    memory = mr_malloc(iov_max * sizeof(struct iovec) + scratch);
    if (memory == NULL) {
        mr_buf_free(&trace);
        return mr_error_nomem(err);
    }
    struct writer w = {.iov = (struct iovec *)(void *)memory,
                       .scratch = memory + iov_max * sizeof(struct iovec)};
    struct mr_wire_header *header = (struct mr_wire_header *)(void *)put(&w, sizeof *header);
    struct mr_wire_column *entries = (struct mr_wire_column *)(void *)put(&w, directory);
    pad(&w);
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        write_column(&w, &block->columns[i], block->rows, &entries[i]);
    }
    write_trace(&w, &trace);
    mr_buf_free(&trace);
    MR_ASSERT(w.count <= iov_max);
    MR_ASSERT(w.scratch <= memory + iov_max * sizeof(struct iovec) + scratch);
    *header = (struct mr_wire_header){.magic = MR_WIRE_MAGIC,
                                      .version = MR_WIRE_VERSION,
                                      .flags = checksum ? MR_WIRE_CHECKSUM : 0,
                                      .rows = block->rows,
                                      .columns = block->ncolumns,
                                      .total_bytes = w.total,
                                      .spec_hash = spec_hash};
    header->checksum = checksum ? checksum_of(&w) : 0;
    *ret = (struct mr_encoded){.iov = w.iov,
                               .count = w.count,
                               .total = w.total,
                               .block = mr_block_ref(block),
                               .scratch = memory};
    return MR_OK;
}

void mr_encoded_free(struct mr_encoded *e)
{
    mr_block_unref(e->block);
    mr_free(e->scratch);
    *e = (struct mr_encoded){0};
}

int mr_block_encode_buffer(const mr_block *block, uint64_t spec_hash, bool checksum,
                           mr_buffer **ret, mr_error *err)
{
    struct mr_encoded e;

    MR_TRY(mr_block_encode(block, spec_hash, checksum, &e, err));
    int rc = mr_buffer_new(e.total, ret, err);
    if (rc == MR_OK) {
        unsigned char *to = mr_buffer_data(*ret);

        for (size_t i = 0; i < e.count; i++) {
            memcpy(to, e.iov[i].iov_base, e.iov[i].iov_len);
            to += e.iov[i].iov_len;
        }
    }
    mr_encoded_free(&e);
    return rc;
}
