/* searchsorted: where values belong in sorted rows. */
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/rows.h"

static int infer_search(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_leaf_spec *sorted = &it->in[0];
    const struct mr_leaf_spec *values = &it->in[1];

    *it->out = *values;
    MR_TRY(mr_attr_index_dtype(it->attrs, MR_INT32, &it->out->dtype, err));
    MR_TRY(mr_infer_known_rank(sorted, err));
    MR_TRY(mr_infer_known_rank(values, err));
    if (sorted->rank < 1 || sorted->rank != values->rank) {
        return mr_error_set(err, MR_EINVAL, "sorted rows of rank %d and values of rank %d",
                            sorted->rank, values->rank);
    }
    for (int8_t d = 0; d < sorted->rank - 1; d++) {
        if (sorted->dims[d] >= 0 && values->dims[d] >= 0 && sorted->dims[d] != values->dims[d]) {
            return mr_error_set(err, MR_EINVAL, "axis %d has size %lld and %lld", d,
                                (long long)sorted->dims[d], (long long)values->dims[d]);
        }
    }
    return MR_OK;
}

/* How many of @n sorted values are below *@value, or not above it (@right). */
typedef uint64_t (*search_fn)(const void *sorted, uint64_t n, const void *value, bool right);

#define SEARCH(tag, dtype, S, W, N, LD, ST, name)                                                  \
    static uint64_t name##_##tag(const void *sorted, uint64_t n, const void *value, bool right)    \
    {                                                                                              \
        const S *x = sorted;                                                                       \
        const N v = LD(N, *(const S *)value);                                                      \
        uint64_t first = 0;                                                                        \
                                                                                                   \
        while (n > 0) {                                                                            \
            uint64_t half = n / 2;                                                                 \
            const N at = LD(N, x[first + half]);                                                   \
                                                                                                   \
            if (at < v || (right && at == v)) {                                                    \
                first += half + 1;                                                                 \
                n -= half + 1;                                                                     \
            } else {                                                                               \
                n = half;                                                                          \
            }                                                                                      \
        }                                                                                          \
        return first;                                                                              \
    }
MR_EACH_NUMBER(SEARCH, search)
static const search_fn search_fns[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, search)};

static int fill_search(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *sorted = &row->in[0];
    const struct mr_tensor *values = &row->in[1];
    uint64_t n = (uint64_t)sorted->dims[sorted->rank - 1];
    uint64_t each = (uint64_t)values->dims[values->rank - 1];
    bool right = mr_attr_bool(row->attrs, "right", false);

    (void)err;
    for (uint64_t i = 0; i < values->count; i++) {
        const unsigned char *line = sorted->values + i / each * n * sorted->width;

        mr_result_put_index(
            out, i, search_fns[sorted->dtype](line, n, values->values + i * values->width, right));
    }
    return MR_OK;
}

MR_ROWS_KERNEL(searchsorted, 2, 2, MR_SET_NUMBERS, .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_search, .fill = fill_search,
               .attr_table = {{"dtype", MR_ATTR_DTYPE, true}, {"right", MR_ATTR_BOOL, true}});
