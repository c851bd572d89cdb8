#include "element/packed.h"

#include "base/limits.h"
#include "element/wire.h"

struct mr_packed {
    _Atomic uint32_t refs;
    uint32_t rows;
    size_t row_bytes;
    size_t total;
    void *hold;
    void (*unhold)(void *hold);
    size_t niov;
    struct iovec iov[];
};

/* Bytes [at, at + size) of all pieces; they are there. */
static void copy_out(const mr_packed *p, size_t at, size_t size, unsigned char *to)
{
    for (size_t i = 0; size > 0; i++) {
        const struct iovec *piece = &p->iov[i];

        if (at >= piece->iov_len) {
            at -= piece->iov_len;
            continue;
        }
        size_t n = MR_MIN(piece->iov_len - at, size);
        memcpy(to, (const unsigned char *)piece->iov_base + at, n);
        to += n;
        size -= n;
        at = 0;
    }
}

/* What the directory says of a column's payload, as mr_block_row_bytes() counts it. false: it
 * cannot be. */
static bool column_bytes(const struct mr_wire_column *c, uint32_t rows, uint64_t *sum)
{
    bool var = c->kind == MR_COLUMN_VAR;
    uint64_t shapes =
        var ? (uint64_t)rows * c->rank * sizeof(int64_t) + ((uint64_t)rows + 1) * sizeof(uint64_t)
            : c->rank * sizeof(int64_t);
    uint64_t bytes;

    if (c->dtype == MR_DTYPE_NONE || c->dtype >= MR_DTYPE_COUNT || c->rank > MR_RANK_MAX) {
        return false;
    }
    if (c->dtype == MR_STRING) {
        uint64_t offsets;

        /* Behind shapes and offsets there are only the strings. */
        if (__builtin_mul_overflow(c->values, (uint64_t)sizeof(uint64_t), &offsets) ||
            offsets > UINT64_MAX - 2 * MR_BLOCK_ALIGN || mr_align64(shapes) > c->bytes) {
            return false;
        }
        uint64_t before = mr_align64(shapes) + mr_align64(offsets + sizeof(uint64_t));
        uint64_t heap = c->values > 0 && c->bytes > before ? c->bytes - before : 0;
        bytes = heap + offsets;
    } else if (__builtin_mul_overflow(c->values, (uint64_t)mr_dtype_size((mr_dtype)c->dtype),
                                      &bytes)) {
        return false;
    }
    if (bytes > c->bytes) {
        return false;
    }
    *sum += bytes + (var ? (uint64_t)rows * (c->rank * sizeof(int64_t) + sizeof(uint64_t)) : 0);
    return true;
}

static int read_front(mr_packed *p, mr_error *err)
{
    struct mr_wire_header h;
    uint64_t bytes = 0;

    if (p->total < sizeof h) {
        return mr_error_set(err, MR_EDATALOSS, "%zu bytes are too few for a block", p->total);
    }
    copy_out(p, 0, sizeof h, (unsigned char *)&h);
    if (h.magic != MR_WIRE_MAGIC || h.version != MR_WIRE_VERSION || h.total_bytes != p->total ||
        h.rows > MR_BLOCK_ROWS_MAX || h.columns > MR_BLOCK_COLUMNS_MAX ||
        h.columns * sizeof(struct mr_wire_column) > p->total - sizeof h) {
        return mr_error_set(err, MR_EDATALOSS,
                            "%zu bytes are not a block: magic %08x, %u columns, %llu bytes",
                            p->total, h.magic, h.columns, (unsigned long long)h.total_bytes);
    }
    for (uint32_t i = 0; i < h.columns; i++) {
        struct mr_wire_column c;

        copy_out(p, sizeof h + i * sizeof c, sizeof c, (unsigned char *)&c);
        if (!column_bytes(&c, h.rows, &bytes)) {
            return mr_error_set(err, MR_EDATALOSS,
                                "column %u of a block says %llu values in %llu bytes", i,
                                (unsigned long long)c.values, (unsigned long long)c.bytes);
        }
    }
    p->rows = h.rows;
    p->row_bytes = (size_t)bytes;
    return MR_OK;
}

int mr_packed_new(const struct iovec *iov, size_t n, void *hold, void (*unhold)(void *hold),
                  mr_packed **ret, mr_error *err)
{
    mr_packed *p = mr_malloc(sizeof *p + n * sizeof iov[0]);

    MR_CHECK_ALLOC(p, err);
    *p = (mr_packed){.hold = hold, .unhold = unhold, .niov = n};
    atomic_init(&p->refs, 1);
    memcpy(p->iov, iov, n * sizeof iov[0]);
    for (size_t i = 0; i < n; i++) {
        p->total += iov[i].iov_len;
    }
    int rc = read_front(p, err);
    if (rc < 0) {
        mr_free(p);
        return rc;
    }
    *ret = p;
    return MR_OK;
}

mr_packed *mr_packed_ref(mr_packed *p)
{
    uint32_t before = atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);

    MR_ASSERT(before > 0);
    return p;
}

void mr_packed_unref(mr_packed *p)
{
    if (p != NULL && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1) {
        p->unhold(p->hold);
        mr_free(p);
    }
}

uint32_t mr_packed_rows(const mr_packed *p)
{
    return p->rows;
}

const struct iovec *mr_packed_iov(const mr_packed *p, size_t *count)
{
    *count = p->niov;
    return p->iov;
}

int mr_packed_unpack(const mr_packed *p, mr_block **ret, mr_error *err)
{
    mr_buffer *buffer;
    size_t used;

    MR_TRY(mr_buffer_new(p->total, &buffer, err));
    copy_out(p, 0, p->total, mr_buffer_data(buffer));
    int rc = mr_block_decode(buffer, 0, 0 /* any spec */, ret, &used, err);
    mr_buffer_unref(buffer); /* the block holds it */
    return rc;
}

struct mr_part mr_part_ref(struct mr_part part)
{
    if (part.packed != NULL) {
        (void)mr_packed_ref(part.packed);
    } else {
        (void)mr_block_ref(part.block);
    }
    return part;
}

void mr_part_unref(struct mr_part part)
{
    mr_packed_unref(part.packed);
    mr_block_unref(part.block);
}

uint32_t mr_part_count(struct mr_part part)
{
    return part.packed != NULL ? part.packed->rows : mr_block_rows(part.block);
}

size_t mr_part_bytes(struct mr_part part)
{
    return part.packed != NULL ? part.packed->row_bytes
                               : mr_block_row_bytes(part.block, 0, mr_block_rows(part.block));
}

int mr_part_unpack(struct mr_part *part, mr_error *err)
{
    mr_block *block;

    if (part->packed == NULL) {
        return MR_OK;
    }
    MR_TRY(mr_packed_unpack(part->packed, &block, err));
    mr_packed_unref(part->packed);
    *part = (struct mr_part){.block = block};
    return MR_OK;
}
