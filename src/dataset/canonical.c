#include "dataset/canonical.h"

#include "base/buf.h"
#include "base/hash.h"
#include "ops/kernel.h"

/* What follows; two forms never start alike. */
enum tag {
    TAG_BLOCK = 1,
    TAG_SPEC = 2,
    TAG_DATASET = 3,
    TAG_FN_NODE = 4,
    TAG_CONSTANT = 5,
    TAG_RESULT = 6,
    TAG_INPUT = 7,
    TAG_CAPTURE = 8,
    TAG_FUNCTION = 9,
};

static void put_u64(struct mr_buf *b, uint64_t v)
{
    unsigned char out[8];

    for (int i = 0; i < 8; i++) {
        out[i] = (unsigned char)(v >> (8 * i));
    }
    mr_buf_append(b, out, sizeof out);
}

static void put_bytes(struct mr_buf *b, const void *p, size_t n)
{
    put_u64(b, n);
    mr_buf_append(b, p, n);
}

static void put_string(struct mr_buf *b, const char *s)
{
    put_bytes(b, s, strlen(s));
}

static void put_tag(struct mr_buf *b, enum tag tag)
{
    put_u64(b, MR_CANONICAL_FORMAT);
    put_u64(b, (uint64_t)tag);
}

/* The hash of what was written. */
static int finish(const struct mr_buf *b, uint8_t ret[16], mr_error *err)
{
    if (b->failed) {
        return mr_error_nomem(err);
    }
    mr_hash128(b->data, b->len, ret);
    return MR_OK;
}

static uint64_t values_per_row(const struct mr_column *c)
{
    uint64_t v = 1;

    for (uint32_t i = 0; i < c->rank; i++) {
        v *= (uint64_t)c->dims[i];
    }
    return v;
}

static void put_hash_of(struct mr_buf *b, const void *p, size_t n)
{
    uint8_t hash[16];

    mr_hash128(n > 0 ? p : "", n, hash);
    put_u64(b, n);
    mr_buf_append(b, hash, sizeof hash);
}

/* The lengths of strings and their bytes, wherever the heap starts. */
static int put_strings(struct mr_buf *b, const struct mr_column *c, uint64_t first, uint64_t count,
                       mr_error *err)
{
    MR_AUTO(mr_free) uint64_t *ends = mr_reallocarray(NULL, (size_t)count + 1, sizeof *ends);

    MR_CHECK_ALLOC(ends, err);
    uint64_t base = count > 0 ? c->offsets[first] : 0;
    for (uint64_t i = 0; i < count; i++) {
        ends[i] = c->offsets[first + i + 1] - base;
    }
    put_hash_of(b, ends, (size_t)count * sizeof *ends);
    put_hash_of(b, count > 0 ? (const unsigned char *)c->data + base : NULL,
                count > 0 ? (size_t)ends[count - 1] : 0);
    return MR_OK;
}

static int put_column(struct mr_buf *b, const struct mr_column *c, uint32_t rows, mr_error *err)
{
    uint64_t first = 0;
    uint64_t count = 0;

    put_u64(b, c->kind);
    put_u64(b, c->dtype);
    put_u64(b, c->rank);
    if (c->kind == MR_COLUMN_FIXED) {
        for (uint32_t i = 0; i < c->rank; i++) {
            put_u64(b, (uint64_t)c->dims[i]);
        }
        count = values_per_row(c) * rows;
    } else {
        put_hash_of(b, c->row_dims, (size_t)rows * c->rank * sizeof *c->row_dims);
        first = c->starts[0];
        count = c->starts[rows] - first;
    }
    if (c->dtype == MR_STRING) {
        return put_strings(b, c, first, count, err);
    }
    size_t size = mr_dtype_size((mr_dtype)c->dtype);
    put_hash_of(b, count > 0 ? (const unsigned char *)c->data + first * size : NULL,
                (size_t)count * size);
    return MR_OK;
}

int mr_canonical_block(const mr_block *block, uint8_t ret[16], mr_error *err)
{
    struct mr_buf form = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *b = &form;
    uint32_t n = mr_block_column_count(block);

    put_tag(b, TAG_BLOCK);
    put_u64(b, mr_block_rows(block));
    put_u64(b, n);
    for (uint32_t i = 0; i < n; i++) {
        MR_TRY(put_column(b, mr_block_column(block, i), mr_block_rows(block), err));
    }
    return finish(b, ret, err);
}

static int canonical_spec(const mr_spec *spec, uint8_t ret[16], mr_error *err)
{
    struct mr_buf form = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *b = &form;
    size_t n = mr_spec_leaves(spec);

    put_tag(b, TAG_SPEC);
    put_u64(b, n);
    for (size_t i = 0; i < n; i++) {
        const struct mr_leaf_spec *leaf = mr_spec_leaf(spec, i);

        put_u64(b, leaf->dtype);
        put_u64(b, (uint64_t)(int64_t)leaf->rank);
        for (int d = 0; d < leaf->rank; d++) {
            put_u64(b, (uint64_t)leaf->dims[d]);
        }
    }
    put_string(b, mr_spec_sorted(spec));
    return finish(b, ret, err);
}

static int put_attrs(struct mr_buf *b, const struct mr_attr *attrs, size_t n,
                     const struct mr_fn_value *values, mr_error *err)
{
    put_u64(b, n);
    for (size_t i = 0; i < n; i++) {
        const struct mr_attr *a = &attrs[i];
        uint64_t bits;
        uint8_t hash[16];

        put_string(b, a->name);
        put_u64(b, (uint64_t)a->kind);
        switch ((enum mr_attr_kind)a->kind) {
        case MR_ATTR_INT:
        case MR_ATTR_BOOL:
        case MR_ATTR_DTYPE: put_u64(b, (uint64_t)a->i); break;
        case MR_ATTR_FLOAT:
            memcpy(&bits, &a->f, sizeof bits);
            put_u64(b, bits);
            break;
        case MR_ATTR_BYTES: put_bytes(b, a->bytes, a->size); break;
        case MR_ATTR_SHAPE:
        case MR_ATTR_INTS:
            put_u64(b, (uint64_t)(int64_t)a->count);
            for (int32_t k = 0; k < a->count; k++) {
                put_u64(b, (uint64_t)a->ints[k]);
            }
            break;
        case MR_ATTR_BLOCK:
        case MR_ATTR_STRINGS:
            MR_TRY(mr_canonical_block(a->block, hash, err));
            mr_buf_append(b, hash, sizeof hash);
            break;
        case MR_ATTR_VALUE: mr_buf_append(b, values[a->i].hash, 16); break;
        }
    }
    return MR_OK;
}

int mr_canonical_dataset(const mr_dataset *ds, const struct mr_fn_value *values, uint8_t ret[16],
                         mr_error *err)
{
    struct mr_buf form = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *b = &form;

    put_tag(b, TAG_DATASET);
    put_string(b, ds->op->name);
    put_u64(b, 1 + (uint64_t)ds->op->revision);
    put_u64(b, ds->ninputs);
    for (size_t i = 0; i < ds->ninputs; i++) {
        mr_buf_append(b, ds->inputs[i]->fingerprint, 16);
    }
    MR_TRY(put_attrs(b, ds->attrs, ds->nattrs, values, err));
    put_u64(b, ds->nfunctions);
    for (size_t i = 0; i < ds->nfunctions; i++) {
        mr_buf_append(b, ds->functions[i]->fingerprint, 16);
    }
    return finish(b, ret, err);
}

int mr_canonical_fn_node(const struct mr_fn_node *node, const struct mr_fn_value *values,
                         uint8_t ret[16], mr_error *err)
{
    struct mr_buf form = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *b = &form;
    uint8_t hash[16];

    if (node->kernel == NULL) {
        MR_TRY(mr_canonical_block(node->constant, hash, err));
        put_tag(b, TAG_CONSTANT);
        mr_buf_append(b, hash, sizeof hash);
        return finish(b, ret, err);
    }
    put_tag(b, TAG_FN_NODE);
    put_string(b, node->kernel->name);
    put_u64(b, node->kernel->version);
    put_u64(b, node->salt);
    put_u64(b, node->ninputs);
    for (size_t i = 0; i < node->ninputs; i++) {
        mr_buf_append(b, values[node->inputs[i]].hash, 16);
    }
    MR_TRY(put_attrs(b, node->attrs, node->nattrs, values, err));
    put_u64(b, node->nfunctions);
    for (size_t i = 0; i < node->nfunctions; i++) {
        mr_buf_append(b, node->functions[i]->fingerprint, 16);
    }
    return finish(b, ret, err);
}

/* The forms below are of one size: no allocation, nothing to fail. */
static void hash_small(enum tag tag, const uint8_t *hash, uint32_t number, uint8_t ret[16])
{
    unsigned char form[8 + 4 + 16] = {MR_CANONICAL_FORMAT, (unsigned char)tag};

    for (int i = 0; i < 4; i++) {
        form[8 + i] = (unsigned char)(number >> (8 * i));
    }
    if (hash != NULL) {
        memcpy(form + 12, hash, 16);
    }
    mr_hash128(form, sizeof form, ret);
}

void mr_canonical_result(const uint8_t node[16], uint32_t output, uint8_t ret[16])
{
    hash_small(TAG_RESULT, node, output, ret);
}

void mr_canonical_input(uint32_t leaf, uint8_t ret[16])
{
    hash_small(TAG_INPUT, NULL, leaf, ret);
}

void mr_canonical_capture(const uint8_t outer[16], uint8_t ret[16])
{
    hash_small(TAG_CAPTURE, outer, 0, ret);
}

int mr_canonical_function(const mr_function *fn, uint8_t ret[16], mr_error *err)
{
    struct mr_buf form = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *b = &form;
    uint8_t hash[16];

    put_tag(b, TAG_FUNCTION);
    MR_TRY(canonical_spec(fn->inputs, hash, err));
    mr_buf_append(b, hash, sizeof hash);
    MR_TRY(canonical_spec(fn->spec, hash, err));
    mr_buf_append(b, hash, sizeof hash);
    put_u64(b, fn->dataset != NULL);
    if (fn->dataset != NULL) {
        mr_buf_append(b, fn->dataset->fingerprint, 16);
    }
    put_u64(b, fn->noutputs);
    for (size_t i = 0; i < fn->noutputs; i++) {
        mr_buf_append(b, fn->values[fn->outputs[i]].hash, 16);
    }
    return finish(b, ret, err);
}
