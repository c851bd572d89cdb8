/* Ragged tensors: values, and row splits that say where each row begins. Row i is values[splits[i]]
 * to values[splits[i + 1] - 1]. */
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/move.h"

#include <float.h>

/* Values of rank 1 or more, and splits: a vector. */
static int infer_parts(const struct mr_leaf_spec *in, mr_error *err)
{
    MR_TRY(mr_infer_dtype(in, 1, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(in, 1, 1, err));
    MR_TRY(mr_infer_known_rank(&in[0], err));
    return in[0].rank > 0 ? MR_OK : mr_error_set(err, MR_EINVAL, "the values are a scalar");
}

static int64_t rows_of(const struct mr_leaf_spec *splits)
{
    return splits->rank == 1 && splits->dims[0] > 0 ? splits->dims[0] - 1 : MR_DIM_UNKNOWN;
}

/* Splits that begin with 0, do not decrease and end with the number of values. */
static int check_splits(const struct mr_row *row, mr_error *err)
{
    const struct mr_tensor *splits = &row->in[1];
    int64_t last = 0;

    for (uint64_t i = 0; i < splits->count; i++) {
        int64_t split = mr_tensor_index(splits, i);

        if (split < last || (i == 0 && split != 0)) {
            return mr_error_set(err, MR_EINVAL, "row split %llu is %lld, behind %lld",
                                (unsigned long long)i, (long long)split, (long long)last);
        }
        last = split;
    }
    if (splits->count == 0 || last != row->in[0].dims[0]) {
        return mr_error_set(err, MR_EINVAL, "row splits end at %lld, and there are %lld values",
                            (long long)last, (long long)row->in[0].dims[0]);
    }
    return MR_OK;
}

/* ---- ragged_to_dense ---- */

static int infer_dense(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_leaf_spec *values = &it->in[0];
    int64_t dims[MR_RANK_MAX];

    MR_TRY(infer_parts(it->in, err));
    MR_TRY(mr_infer_rank(it->in, 2, 0, err));
    if (it->in[2].dtype != values->dtype) {
        return mr_error_set(err, MR_EINVAL, "the default value is %s, the values are %s",
                            mr_dtype_name((mr_dtype)it->in[2].dtype),
                            mr_dtype_name((mr_dtype)values->dtype));
    }
    MR_TRY(mr_infer_dtype(it->in, 3, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(it->in, 3, 0, err));
    if (values->rank == MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "the result would have rank %d", MR_RANK_MAX + 1);
    }
    dims[0] = rows_of(&it->in[1]);
    dims[1] = MR_DIM_UNKNOWN;
    memcpy(dims + 2, values->dims + 1, (size_t)(values->rank - 1) * sizeof dims[0]);
    mr_shape_set(it->out, values->rank + 1, dims);
    return MR_OK;
}

static int dims_dense(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    int64_t wanted = mr_tensor_index(&row->in[3], 0);
    int64_t longest = 0;

    MR_TRY(check_splits(row, err));
    for (uint64_t i = 1; i < row->in[1].count; i++) {
        int64_t n = mr_tensor_index(&row->in[1], i) - mr_tensor_index(&row->in[1], i - 1);

        longest = MR_MAX(longest, n);
    }
    spec->dims[0] = (int64_t)row->in[1].count - 1;
    spec->dims[1] = wanted >= 0 ? wanted : longest;
    return MR_OK;
}

static int fill_dense(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    uint64_t columns = (uint64_t)out->dims[1];
    uint64_t inner = 1;

    (void)err;
    for (int d = 2; d < out->rank; d++) {
        inner *= (uint64_t)out->dims[d];
    }
    size_t bytes = (size_t)inner * out->width;
    for (uint64_t i = 0; i + 1 < row->in[1].count; i++) {
        uint64_t first = (uint64_t)mr_tensor_index(&row->in[1], i);
        uint64_t n = (uint64_t)mr_tensor_index(&row->in[1], i + 1) - first;
        unsigned char *line = out->values + i * columns * bytes;

        n = MR_MIN(n, columns);
        if (n * bytes > 0) {
            memcpy(line, row->in[0].values + first * bytes, n * bytes);
        }
        mr_fill_values(line + n * bytes, (columns - n) * inner, row->in[2].values, out->width);
    }
    return MR_OK;
}

/* ---- ragged_reduce ---- */

enum reduction { SUM, PROD, MIN, MAX };

static int infer_reduce(struct mr_kernel_infer *it, mr_error *err)
{
    int64_t how = mr_attr_int(it->attrs, "reduction", SUM);

    if (how < SUM || how > MAX) {
        return mr_error_set(err, MR_EINVAL, "reduction %lld", (long long)how);
    }
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET_NUMBERS, err));
    MR_TRY(infer_parts(it->in, err));
    it->out->dims[0] = rows_of(&it->in[1]);
    return MR_OK;
}

/* Only of no splits at all: otherwise infer says how many rows there are. */
static int dims_reduce(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    (void)spec;
    return check_splits(row, err);
}

/* What a row without values gives: TensorFlow's segment operators have the extremes of the
 * dtype. */
static double empty_float(enum reduction how, double largest)
{
    return how == SUM ? 0 : how == PROD ? 1 : how == MIN ? largest : -largest;
}

static uint64_t empty_int(enum reduction how, bool is_signed, size_t width)
{
    uint64_t most = UINT64_MAX >> (64 - 8 * width + is_signed);

    return how == SUM ? 0 : how == PROD ? 1 : how == MIN ? most : is_signed ? ~most : 0;
}

#define LARGEST_f16 65504.0
#define LARGEST_bf16 0x1.fep127
#define LARGEST_f32 FLT_MAX
#define LARGEST_f64 DBL_MAX

/* @n pieces of @inner values each, into @inner values. */
typedef void (*reduce_fn)(enum reduction how, const void *values, uint64_t n, uint64_t inner,
                          void *out);

#define REDUCE_ROWS(tag, S, W, N, LD, ST, EMPTY)                                                   \
    static void reduce_##tag(enum reduction how, const void *values, uint64_t n, uint64_t inner,   \
                             void *out)                                                            \
    {                                                                                              \
        const S *x = values;                                                                       \
        S *z = out;                                                                                \
                                                                                                   \
        for (uint64_t i = 0; i < inner; i++) {                                                     \
            W acc = (W)(EMPTY);                                                                    \
                                                                                                   \
            for (uint64_t k = 0; k < n; k++) {                                                     \
                const S next = x[k * inner + i];                                                   \
                W v = LD(W, next);                                                                 \
                                                                                                   \
                if (how == SUM) {                                                                  \
                    acc = acc + v;                                                                 \
                } else if (how == PROD) {                                                          \
                    acc = acc * v;                                                                 \
                } else if (how == MIN ? LD(N, next) < (N)acc : LD(N, next) > (N)acc) {             \
                    acc = v;                                                                       \
                }                                                                                  \
            }                                                                                      \
            z[i] = ST(S, acc);                                                                     \
        }                                                                                          \
    }
#define REDUCE_INT(tag, dtype, S, W, N, LD, ST, ...)                                               \
    REDUCE_ROWS(tag, S, W, N, LD, ST, empty_int(how, (S)-1 < 1, sizeof(S)))
#define REDUCE_ENTRY(tag, dtype, ...) [dtype] = reduce_##tag,
MR_EACH_INT(REDUCE_INT, )
REDUCE_ROWS(f16, mr_half, float, float, MR_HALF_LOAD, MR_HALF_STORE, empty_float(how, LARGEST_f16))
REDUCE_ROWS(bf16, mr_bfloat, float, float, MR_BFLOAT_LOAD, MR_BFLOAT_STORE,
            empty_float(how, LARGEST_bf16))
REDUCE_ROWS(f32, float, float, float, MR_INT_LOAD, MR_INT_STORE, empty_float(how, LARGEST_f32))
REDUCE_ROWS(f64, double, double, double, MR_INT_LOAD, MR_INT_STORE, empty_float(how, LARGEST_f64))
static const reduce_fn reduce_fns[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(REDUCE_ENTRY, )};

static int fill_reduce(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    enum reduction how = (enum reduction)mr_attr_int(row->attrs, "reduction", SUM);
    uint64_t inner = 1;

    MR_TRY(check_splits(row, err));
    for (int d = 1; d < out->rank; d++) {
        inner *= (uint64_t)out->dims[d];
    }
    for (uint64_t i = 0; i + 1 < row->in[1].count; i++) {
        uint64_t first = (uint64_t)mr_tensor_index(&row->in[1], i);
        uint64_t n = (uint64_t)mr_tensor_index(&row->in[1], i + 1) - first;

        reduce_fns[out->dtype](how, row->in[0].values + first * inner * out->width, n, inner,
                               out->values + i * inner * out->width);
    }
    return MR_OK;
}

MR_ROWS_KERNEL(ragged_to_dense, 4, 4, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_dense,
               .dims = dims_dense, .fill = fill_dense);
MR_ROWS_KERNEL(ragged_reduce, 2, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_reduce,
               .dims = dims_reduce, .fill = fill_reduce,
               .attr_table = {{"reduction", MR_ATTR_INT, true}});
