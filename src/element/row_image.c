#include "element/row_image.h"

#include "element/internal.h"

bool mr_row_images_suit(const mr_spec *spec)
{
    for (size_t i = 0; i < mr_spec_leaves(spec); i++) {
        if (mr_spec_leaf(spec, i)->rank < 0 || mr_spec_leaf(spec, i)->dtype >= MR_DTYPE_COUNT) {
            return false;
        }
    }
    return true;
}

/* What a row of a column takes in an image. */
static size_t column_bytes(const struct mr_column *c, uint32_t row)
{
    uint64_t first;
    uint64_t count;

    mr_column_values(c, row, 1, &first, &count);
    return c->rank * sizeof(int64_t) + (c->dtype == MR_STRING ? count * sizeof(uint32_t) : 0) +
           mr_column_payload(c, first, count);
}

static unsigned char *put(unsigned char *to, const void *bytes, size_t size)
{
    if (size > 0) {
        memcpy(to, bytes, size);
    }
    return to + size;
}

static unsigned char *put_column(unsigned char *to, const struct mr_column *c, uint32_t row)
{
    uint64_t first;
    uint64_t count;
    const unsigned char *data = c->data;

    mr_column_values(c, row, 1, &first, &count);
    to = put(to, mr_column_dims(c, row), c->rank * sizeof(int64_t));
    if (c->dtype != MR_STRING) {
        size_t size = mr_dtype_size((mr_dtype)c->dtype);

        return count > 0 ? put(to, data + first * size, count * size) : to;
    }
    for (uint64_t i = first; i < first + count; i++) {
        uint32_t length = (uint32_t)(c->offsets[i + 1] - c->offsets[i]);

        to = put(to, &length, sizeof length);
    }
    uint64_t bytes = mr_column_payload(c, first, count);
    return bytes > 0 ? put(to, data + c->offsets[first], bytes) : to;
}

int mr_row_image_new(const mr_block *block, uint32_t row, void **ret, mr_error *err)
{
    size_t size = sizeof(uint32_t);

    for (uint32_t i = 0; i < block->ncolumns; i++) {
        size += column_bytes(&block->columns[i], row);
    }
    MR_ASSERT(size <= UINT32_MAX);
    unsigned char *image = mr_malloc(size);
    MR_CHECK_ALLOC(image, err);
    unsigned char *to = put(image, &(uint32_t){(uint32_t)size}, sizeof(uint32_t));
    for (uint32_t i = 0; i < block->ncolumns; i++) {
        to = put_column(to, &block->columns[i], row);
    }
    MR_ASSERT(to == image + size);
    *ret = image;
    return MR_OK;
}

size_t mr_row_image_bytes(const void *image)
{
    uint32_t size;

    memcpy(&size, image, sizeof size);
    return size;
}

/* Where the columns of each image begin. */
static void first_columns(const void *const *images, uint32_t n, const unsigned char **at)
{
    for (uint32_t r = 0; r < n; r++) {
        at[r] = (const unsigned char *)images[r] + sizeof(uint32_t);
    }
}

/* A column of one image. */
struct part {
    const unsigned char *dims;
    const unsigned char *lengths; /* MR_STRING */
    const unsigned char *data;
    uint64_t count;
    uint64_t bytes;
};

static void read_part(const unsigned char *at, const struct mr_leaf_spec *leaf, struct part *ret)
{
    uint64_t count = 1;

    ret->dims = at;
    for (int d = 0; d < leaf->rank; d++) {
        int64_t dim;

        memcpy(&dim, at, sizeof dim);
        at += sizeof dim;
        count *= (uint64_t)dim;
    }
    ret->count = count;
    ret->lengths = at;
    ret->bytes = count * mr_dtype_size((mr_dtype)leaf->dtype);
    if (leaf->dtype == MR_STRING) {
        ret->bytes = 0;
        for (uint64_t i = 0; i < count; i++) {
            uint32_t length;

            memcpy(&length, at, sizeof length);
            at += sizeof length;
            ret->bytes += length;
        }
    }
    ret->data = at;
}

/* Column @leaf of all images; @at, where it is in each, moves behind it. */
static void measure(const struct mr_leaf_spec *leaf, const unsigned char **at, uint32_t n,
                    struct mr_column_layout *l)
{
    *l = (struct mr_column_layout){
        .kind = MR_COLUMN_FIXED, .dtype = leaf->dtype, .rank = (uint8_t)leaf->rank};
    memcpy(l->dims, at[0], l->rank * sizeof l->dims[0]);
    for (uint32_t r = 0; r < n; r++) {
        struct part p;

        read_part(at[r], leaf, &p);
        l->values += p.count;
        l->heap += leaf->dtype == MR_STRING ? p.bytes : 0;
        if (memcmp(l->dims, p.dims, l->rank * sizeof l->dims[0]) != 0) {
            l->kind = MR_COLUMN_VAR;
        }
        at[r] = p.data + p.bytes;
    }
}

static void fill(struct mr_column *c, const struct mr_leaf_spec *leaf, const unsigned char **at,
                 uint32_t n)
{
    unsigned char *to = mr_column_bytes(c);
    uint64_t *starts = mr_column_starts(c);
    uint64_t *offset = mr_column_offsets(c);

    for (uint32_t r = 0; r < n; r++) {
        struct part p;

        read_part(at[r], leaf, &p);
        if (c->kind == MR_COLUMN_VAR) {
            memcpy(mr_column_row_dims(c) + (size_t)r * c->rank, p.dims, c->rank * sizeof(int64_t));
            starts[r + 1] = starts[r] + p.count;
        }
        for (uint64_t i = 0; leaf->dtype == MR_STRING && i < p.count; i++, offset++) {
            uint32_t length;

            memcpy(&length, p.lengths + i * sizeof length, sizeof length);
            offset[1] = offset[0] + length;
        }
        to = put(to, p.data, p.bytes);
        at[r] = p.data + p.bytes;
    }
}

int mr_row_images_block(const mr_spec *spec, const void *const *images, uint32_t n, mr_block **ret,
                        mr_error *err)
{
    uint32_t ncolumns = (uint32_t)mr_spec_leaves(spec);
    MR_AUTO(mr_free)
    struct mr_column_layout *layout = mr_calloc(ncolumns + 1, sizeof layout[0]);
    MR_AUTO(mr_free) const unsigned char **at = mr_reallocarray(NULL, n, sizeof at[0]);
    mr_block *block = NULL;

    MR_CHECK_ALLOC(layout, err);
    MR_CHECK_ALLOC(at, err);
    first_columns(images, n, at);
    for (uint32_t i = 0; i < ncolumns; i++) {
        measure(mr_spec_leaf(spec, i), at, n, &layout[i]);
    }
    MR_TRY(mr_block_layout(n, layout, ncolumns, 0, &block, err));
    first_columns(images, n, at);
    for (uint32_t i = 0; i < ncolumns; i++) {
        fill(&block->columns[i], mr_spec_leaf(spec, i), at, n);
    }
    *ret = mr_block_sealed(block);
    return MR_OK;
}
