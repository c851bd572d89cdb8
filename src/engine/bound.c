#include "engine/bound.h"

struct mr_bound {
    atomic_uint refs;
    const struct mr_expansion *expansion;
    mr_block *row; /* NULL if the expansion needs no values */
};

int mr_bound_new(const struct mr_expansion *expansion, const mr_block *values, uint32_t row,
                 struct mr_bound **ret, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_bound *b = mr_calloc(1, sizeof *b);

    MR_CHECK_ALLOC(b, err);
    atomic_init(&b->refs, 1);
    b->expansion = expansion;
    if (values != NULL) {
        MR_TRY(mr_block_slice(values, row, 1, &b->row, err));
    }
    *ret = MR_TAKE(b);
    return MR_OK;
}

struct mr_bound *mr_bound_ref(struct mr_bound *b)
{
    if (b != NULL) {
        atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    }
    return b;
}

void mr_bound_unref(struct mr_bound *b)
{
    if (b == NULL || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    mr_block_unref(b->row);
    mr_free(b);
}

const mr_block *mr_bound_row(const struct mr_bound *b)
{
    return b->row;
}

static int find(const struct mr_bound *b, uint32_t value, uint32_t *ret, mr_error *err)
{
    const struct mr_expansion *e = b != NULL ? b->expansion : NULL;
    size_t low = 0;
    size_t high = e != NULL ? e->n : 0;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (e->numbers[mid] == value) {
            *ret = (uint32_t)mid;
            return MR_OK;
        }
        if (e->numbers[mid] < value) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return mr_error_set(err, MR_EINTERNAL, "value %u of the enclosing function is not at hand",
                        value);
}

static int64_t read_int(const struct mr_column *c, uint64_t i, bool *fits)
{
    *fits = true;
    switch ((mr_dtype)c->dtype) {
    case MR_INT8: return ((const int8_t *)c->data)[i];
    case MR_INT16: return ((const int16_t *)c->data)[i];
    case MR_INT32: return ((const int32_t *)c->data)[i];
    case MR_INT64: return ((const int64_t *)c->data)[i];
    case MR_UINT8: return ((const uint8_t *)c->data)[i];
    case MR_UINT16: return ((const uint16_t *)c->data)[i];
    case MR_UINT32: return ((const uint32_t *)c->data)[i];
    case MR_UINT64:
        *fits = ((const uint64_t *)c->data)[i] <= INT64_MAX;
        return *fits ? (int64_t)((const uint64_t *)c->data)[i] : 0;
    case MR_DTYPE_NONE:
    case MR_BOOL:
    case MR_FLOAT16:
    case MR_BFLOAT16:
    case MR_FLOAT32:
    case MR_FLOAT64:
    case MR_STRING:
    case MR_COMPLEX64:
    case MR_COMPLEX128:
    case MR_DTYPE_COUNT:
    default: *fits = false; return 0;
    }
}

/* The column of a tensor of rank @rank: its values begin at that index in the only row. */
static int find_column(const struct mr_bound *b, uint32_t value, uint32_t rank,
                       const struct mr_column **ret, uint64_t *index, mr_error *err)
{
    uint32_t column = 0;

    MR_TRY(find(b, value, &column, err));
    const struct mr_column *c = mr_block_column(b->row, column);
    if (c->rank != rank) {
        return mr_error_set(err, MR_EINVAL, "a tensor of %u dimensions where a %s is needed",
                            c->rank, rank == 0 ? "scalar" : "vector");
    }
    *index = c->kind == MR_COLUMN_VAR ? c->starts[0] : 0;
    *ret = c;
    return MR_OK;
}

int mr_bound_int(const struct mr_bound *b, uint32_t value, int64_t *ret, mr_error *err)
{
    const struct mr_column *c = NULL;
    uint64_t index = 0;
    bool fits;

    MR_TRY(find_column(b, value, 0, &c, &index, err));
    int64_t v = read_int(c, index, &fits);
    if (!fits) {
        return mr_error_set(err, MR_EINVAL, "not an integer of 64 bits");
    }
    *ret = v;
    return MR_OK;
}

int mr_bound_ints(const struct mr_bound *b, uint32_t value, int64_t **ret, size_t *n, mr_error *err)
{
    const struct mr_column *c = NULL;
    uint64_t index = 0;
    bool fits = true;

    MR_TRY(find_column(b, value, 1, &c, &index, err));
    size_t count = (size_t)(c->kind == MR_COLUMN_VAR ? c->row_dims[0] : c->dims[0]);
    MR_AUTO(mr_free) int64_t *ints = mr_calloc(count, sizeof *ints);
    MR_CHECK_ALLOC(ints, err);
    for (size_t i = 0; i < count && fits; i++) {
        ints[i] = read_int(c, index + i, &fits);
    }
    if (!fits) {
        return mr_error_set(err, MR_EINVAL, "not integers of 64 bits");
    }
    *ret = MR_TAKE(ints);
    *n = count;
    return MR_OK;
}

int mr_bound_bytes(const struct mr_bound *b, uint32_t value, const void **ret, size_t *size,
                   mr_error *err)
{
    const struct mr_column *c = NULL;
    uint64_t index = 0;

    MR_TRY(find_column(b, value, 0, &c, &index, err));
    if (c->dtype != MR_STRING) {
        return mr_error_set(err, MR_EINVAL, "not a string");
    }
    *size = (size_t)(c->offsets[index + 1] - c->offsets[index]);
    *ret =
        *size > 0 ? (const unsigned char *)c->data + c->offsets[index] : (const unsigned char *)"";
    return MR_OK;
}

int mr_bound_select(const struct mr_bound *b, const uint32_t *values, size_t n, mr_block **ret,
                    mr_error *err)
{
    MR_AUTO(mr_free) uint32_t *columns = mr_calloc(n, sizeof *columns);

    MR_CHECK_ALLOC(columns, err);
    for (size_t i = 0; i < n; i++) {
        MR_TRY(find(b, values[i], &columns[i], err));
    }
    return mr_block_select(b->row, columns, (uint32_t)n, ret, err);
}
