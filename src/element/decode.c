/* Bytes from outside to a block. Nothing is copied, and nothing in the bytes is believed before it
 * was checked: sizes are multiplied with overflow checks, every array lies inside its column, every
 * column inside the block, in order. */
#include "element/wire.h"

#include "base/hash.h"
#include "base/limits.h"

/* What is left of a column, from `at` on. */
struct reader {
    const unsigned char *base; /* of the column */
    uint64_t at;
    uint64_t end;
};

/* The next @count items of @size bytes, aligned to @align; NULL if they are not there. */
static const void *take(struct reader *r, uint64_t count, size_t size, size_t align)
{
    uint64_t bytes;
    uint64_t start = r->at + (align - 1);

    start -= start % align; /* at <= end <= the buffer's size: this cannot overflow */
    if (__builtin_mul_overflow(count, (uint64_t)size, &bytes) || start > r->end ||
        bytes > r->end - start) {
        return NULL;
    }
    r->at = start + bytes;
    return r->base + start;
}

static int truncated(mr_error *err, const char *what)
{
    return mr_error_set(err, MR_EDATALOSS, "%s reach beyond the column", what);
}

static int decode_shapes(struct mr_column *c, uint32_t rows, struct reader *r, uint64_t *values,
                         mr_error *err)
{
    char shape[128];

    if (c->kind == MR_COLUMN_FIXED) {
        const int64_t *dims = take(r, c->rank, sizeof *dims, sizeof *dims);

        if (dims == NULL) {
            return truncated(err, "dims");
        }
        memcpy(c->dims, dims, c->rank * sizeof *dims);
        if (!mr_dims_product(c->dims, c->rank, values) ||
            __builtin_mul_overflow(*values, (uint64_t)rows, values)) {
            return mr_error_set(err, MR_EDATALOSS, "%u rows of %s are not a shape", rows,
                                mr_dims_format(c->dims, c->rank, shape, sizeof shape));
        }
        return MR_OK;
    }
    c->row_dims = take(r, (uint64_t)rows * c->rank, sizeof(int64_t), sizeof(int64_t));
    c->starts = c->row_dims == NULL
                    ? NULL
                    : take(r, (uint64_t)rows + 1, sizeof(uint64_t), sizeof(uint64_t));
    if (c->starts == NULL) {
        return truncated(err, "shapes");
    }
    if (c->starts[0] != 0) {
        return mr_error_set(err, MR_EDATALOSS, "the first row starts at value %llu",
                            (unsigned long long)c->starts[0]);
    }
    for (uint32_t i = 0; i < rows; i++) {
        const int64_t *dims = c->row_dims + (size_t)i * c->rank;
        uint64_t v;

        if (!mr_dims_product(dims, c->rank, &v) || c->starts[i + 1] < c->starts[i] ||
            c->starts[i + 1] - c->starts[i] != v) {
            return mr_error_set(
                err, MR_EDATALOSS, "row %u: values %llu to %llu are not of shape %s", i,
                (unsigned long long)c->starts[i], (unsigned long long)c->starts[i + 1],
                mr_dims_format(dims, c->rank, shape, sizeof shape));
        }
    }
    *values = c->starts[rows];
    return MR_OK;
}

static int decode_strings(struct mr_column *c, uint64_t values, struct reader *r, mr_error *err)
{
    uint64_t count;

    if (__builtin_add_overflow(values, (uint64_t)1, &count)) {
        return truncated(err, "offsets");
    }
    c->offsets = take(r, count, sizeof(uint64_t), MR_BLOCK_ALIGN);
    if (c->offsets == NULL) {
        return truncated(err, "offsets");
    }
    if (c->offsets[0] != 0) {
        return mr_error_set(err, MR_EDATALOSS, "the first string starts at byte %llu",
                            (unsigned long long)c->offsets[0]);
    }
    for (uint64_t i = 0; i < values; i++) {
        if (c->offsets[i + 1] < c->offsets[i]) {
            return mr_error_set(err, MR_EDATALOSS, "string %llu ends before its start",
                                (unsigned long long)i);
        }
    }
    c->data = take(r, c->offsets[values], 1, MR_BLOCK_ALIGN);
    return c->data == NULL ? truncated(err, "strings") : MR_OK;
}

static int decode_column(const struct mr_wire_column *entry, const unsigned char *base,
                         uint32_t rows, struct mr_column *c, mr_error *err)
{
    static const uint8_t zero[sizeof entry->reserved];
    struct reader r = {.base = base + entry->offset, .at = 0, .end = entry->bytes};
    uint64_t values = 0;

    if ((entry->kind != MR_COLUMN_FIXED && entry->kind != MR_COLUMN_VAR) ||
        entry->dtype == MR_DTYPE_NONE || entry->dtype >= MR_DTYPE_COUNT ||
        entry->rank > MR_RANK_MAX || memcmp(entry->reserved, zero, sizeof zero) != 0) {
        return mr_error_set(err, MR_EDATALOSS, "kind %u, dtype %u, rank %u are not known",
                            entry->kind, entry->dtype, entry->rank);
    }
    c->kind = entry->kind;
    c->dtype = entry->dtype;
    c->rank = entry->rank;
    MR_TRY(decode_shapes(c, rows, &r, &values, err));
    if (values != entry->values) {
        return mr_error_set(err, MR_EDATALOSS, "%llu values announced, %llu described",
                            (unsigned long long)entry->values, (unsigned long long)values);
    }
    if (c->dtype == MR_STRING) {
        MR_TRY(decode_strings(c, values, &r, err));
    } else {
        c->data = take(&r, values, mr_dtype_size((mr_dtype)c->dtype), MR_BLOCK_ALIGN);
        MR_TRY(c->data == NULL ? truncated(err, "values") : MR_OK);
    }
    if (r.at != r.end) {
        return mr_error_set(err, MR_EDATALOSS, "%llu bytes too many",
                            (unsigned long long)(r.end - r.at));
    }
    if (c->dtype == MR_BOOL && mr_bools_check(c->data, values, NULL) < 0) {
        return mr_error_set(err, MR_EDATALOSS, "a bool is neither 0 nor 1");
    }
    return MR_OK;
}

static int check_header(const struct mr_wire_header *h, size_t size, uint64_t spec_hash,
                        mr_error *err)
{
    if (h->magic != MR_WIRE_MAGIC) {
        return mr_error_set(err, MR_EDATALOSS, "no block: it begins with %08x", h->magic);
    }
    if (h->version != MR_WIRE_VERSION || (h->flags & ~MR_WIRE_CHECKSUM) != 0 ||
        (h->reserved[0] | h->reserved[1] | h->reserved[2]) != 0) {
        return mr_error_set(err, MR_EDATALOSS,
                            "a block of version %u with flags %x is not known here", h->version,
                            h->flags);
    }
    if (h->rows > MR_BLOCK_ROWS_MAX || h->columns > MR_BLOCK_COLUMNS_MAX) {
        return mr_error_set(err, MR_EDATALOSS,
                            "%u rows and %u columns are more than a block may have", h->rows,
                            h->columns);
    }
    if (h->total_bytes % MR_BLOCK_ALIGN != 0 || h->total_bytes > size ||
        h->total_bytes < sizeof *h + (uint64_t)h->columns * sizeof(struct mr_wire_column)) {
        return mr_error_set(err, MR_EDATALOSS, "a block of %llu bytes in %zu bytes",
                            (unsigned long long)h->total_bytes, size);
    }
    if (spec_hash != 0 && h->spec_hash != 0 && h->spec_hash != spec_hash) {
        return mr_error_set(err, MR_EDATALOSS,
                            "elements of another spec (%016llx, expected %016llx)",
                            (unsigned long long)h->spec_hash, (unsigned long long)spec_hash);
    }
    if ((h->flags & MR_WIRE_CHECKSUM) == 0 && h->checksum != 0) {
        return mr_error_set(err, MR_EDATALOSS, "a checksum that is said not to be there");
    }
    if ((h->flags & MR_WIRE_CHECKSUM) != 0 &&
        h->checksum !=
            mr_hash64((const unsigned char *)h + sizeof *h, (size_t)h->total_bytes - sizeof *h)) {
        return mr_error_set(err, MR_EDATALOSS, "checksum mismatch in a block of %llu bytes",
                            (unsigned long long)h->total_bytes);
    }
    return MR_OK;
}

/* Columns follow one another; @at is where the last one ended. */
static int check_place(const struct mr_wire_column *entry, uint64_t total, uint64_t *at,
                       mr_error *err)
{
    if (entry->offset % MR_BLOCK_ALIGN != 0 || entry->offset < *at || entry->offset > total ||
        entry->bytes > total - entry->offset) {
        return mr_error_set(err, MR_EDATALOSS, "%llu bytes at %llu, in a block of %llu",
                            (unsigned long long)entry->bytes, (unsigned long long)entry->offset,
                            (unsigned long long)total);
    }
    *at = entry->offset + entry->bytes;
    return MR_OK;
}

/* What stands behind the columns, which end at @at: nothing, or a trace. */
static int decode_trace(const unsigned char *base, uint64_t at, uint64_t total, mr_block *block,
                        mr_error *err)
{
    uint64_t n;

    at = mr_align64(at);
    if (at >= total) {
        return MR_OK;
    }
    memcpy(&n, base + at, sizeof n); /* @total is a multiple of 64. */
    at += sizeof n;
    if (n == 0 || n > total - at) {
        return mr_error_set(err, MR_EDATALOSS, "%llu bytes about records, %llu are there",
                            (unsigned long long)n, (unsigned long long)(total - at));
    }
    mr_block_trace_packed(block, base + at, (size_t)n);
    return MR_OK;
}

int mr_block_decode(mr_buffer *buffer, size_t offset, uint64_t spec_hash, mr_block **ret,
                    size_t *used, mr_error *err)
{
    const unsigned char *base = mr_buffer_data(buffer);
    size_t size = mr_buffer_size(buffer);
    MR_AUTO(mr_block_unref) mr_block *block = NULL;

    MR_ASSERT((uintptr_t)base % MR_BLOCK_ALIGN == 0);
    MR_ASSERT(offset % MR_BLOCK_ALIGN == 0);
    if (offset > size || size - offset < sizeof(struct mr_wire_header)) {
        return mr_error_set(err, MR_EDATALOSS, "%zu bytes are too few for a block",
                            offset > size ? 0 : size - offset);
    }
    base += offset;
    const struct mr_wire_header *h = (const struct mr_wire_header *)(const void *)base;
    MR_TRY(check_header(h, size - offset, spec_hash, err));
    MR_TRY(mr_block_shell(h->rows, h->columns, 1, &block, err));
    mr_block_hold(block, buffer);
    const struct mr_wire_column *entries = (const struct mr_wire_column *)(const void *)(h + 1);
    uint64_t at = sizeof *h + (uint64_t)h->columns * sizeof *entries;
    for (uint32_t i = 0; i < h->columns; i++) {
        MR_TRY_WRAP(check_place(&entries[i], h->total_bytes, &at, err), err, "column %u", i);
        MR_TRY_WRAP(decode_column(&entries[i], base, h->rows, &block->columns[i], err), err,
                    "column %u", i);
        block->owners[i][0] = buffer;
    }
    MR_TRY(decode_trace(base, at, h->total_bytes, block, err));
    *ret = mr_block_sealed(MR_TAKE(block));
    *used = (size_t)h->total_bytes;
    return MR_OK;
}
