/* sort, argsort: the values along an axis in order, or where they were. Equal values stay in their
 * order. A NaN stands for the largest value. */
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/rows.h"

static int infer_sort(struct mr_kernel_infer *it, mr_error *err)
{
    int axis = 0;

    return it->in[0].rank < 0 ? MR_OK : mr_attr_axis(it->attrs, -1, it->in[0].rank, &axis, err);
}

static int infer_argsort(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *k = mr_attr_get(it->attrs, "k");
    struct mr_leaf_spec *out = it->out;
    int axis = 0;

    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET_NUMBERS, err));
    if (it->nin == 2) {
        MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
        MR_TRY(mr_infer_rank(it->in, 1, 0, err));
    }
    out->dtype = MR_INT32;
    MR_TRY(mr_infer_known_rank(&it->in[0], err));
    MR_TRY(mr_attr_axis(it->attrs, -1, out->rank, &axis, err));
    if (it->nin == 2) {
        out->dims[axis] = MR_DIM_UNKNOWN;
    } else if (k != NULL) {
        if (k->i < 0 || (out->dims[axis] != MR_DIM_UNKNOWN && k->i > out->dims[axis])) {
            return mr_error_set(err, MR_EINVAL, "the best %lld of axis %d, which has size %lld",
                                (long long)k->i, axis, (long long)out->dims[axis]);
        }
        out->dims[axis] = k->i;
    }
    return MR_OK;
}

static int dims_argsort(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    int axis = 0;

    MR_TRY(mr_attr_axis(row->attrs, -1, spec->rank, &axis, err));
    if (row->nin == 2) {
        int64_t k = mr_tensor_index(&row->in[1], 0);

        if (k < 0 || k > row->in[0].dims[axis]) {
            return mr_error_set(err, MR_EINVAL, "the best %lld of axis %d, which has size %lld",
                                (long long)k, axis, (long long)row->in[0].dims[axis]);
        }
        spec->dims[axis] = k;
    }
    return MR_OK;
}

/* One line: n values, one every @stride. */
struct line {
    const void *values;
    void *out;
    uint64_t n;
    uint64_t stride;
    uint64_t k; /* so many are wanted */
    bool descending;
    void *scratch; /* 2 * n of struct key_<tag> */
};

/* Behind this many a list kept in order costs more than to sort everything. */
#define SELECT_MAX 64
#define RUN 16 /* sorted by insertion, then merged */

/* Keys with their places. Lists are sorted by insertion in runs, then merged from one half of the
 * scratch into the other. */
#define SORTER(tag, dtype, S, W, N, LD, ST, ...)                                                   \
    struct key_##tag {                                                                             \
        N key;                                                                                     \
        uint32_t place;                                                                            \
    };                                                                                             \
    static inline bool before_##tag(N a, N b, bool descending)                                     \
    {                                                                                              \
        return descending ? a > b || (a != a && b == b) : a < b || (b != b && a == a);             \
    }                                                                                              \
    static void insert_##tag(struct key_##tag *keys, uint64_t n, struct key_##tag v,               \
                             bool descending)                                                      \
    {                                                                                              \
        for (; n > 0 && before_##tag(v.key, keys[n - 1].key, descending); n--) {                   \
            keys[n] = keys[n - 1];                                                                 \
        }                                                                                          \
        keys[n] = v;                                                                               \
    }                                                                                              \
    static struct key_##tag *merge_all_##tag(struct key_##tag *from, struct key_##tag *to,         \
                                             uint64_t n, bool descending)                          \
    {                                                                                              \
        for (uint64_t run = RUN; run < n; run *= 2) {                                              \
            for (uint64_t first = 0; first < n; first += 2 * run) {                                \
                uint64_t middle = MR_MIN(first + run, n);                                          \
                uint64_t end = MR_MIN(first + 2 * run, n);                                         \
                uint64_t a = first;                                                                \
                uint64_t b = middle;                                                               \
                                                                                                   \
                for (uint64_t at = first; at < end; at++) {                                        \
                    bool second = a == middle ||                                                   \
                                  (b < end && before_##tag(from[b].key, from[a].key, descending)); \
                                                                                                   \
                    to[at] = from[second ? b++ : a++];                                             \
                }                                                                                  \
            }                                                                                      \
            struct key_##tag *swapped = from;                                                      \
            from = to;                                                                             \
            to = swapped;                                                                          \
        }                                                                                          \
        return from;                                                                               \
    }                                                                                              \
    static const struct key_##tag *sorted_##tag(const struct line *l)                              \
    {                                                                                              \
        struct key_##tag *keys = l->scratch;                                                       \
        const S *x = l->values;                                                                    \
        bool select = l->k < l->n && l->k <= SELECT_MAX;                                           \
                                                                                                   \
        for (uint64_t i = 0, have = 0; i < l->n && l->k > 0; i++) {                                \
            struct key_##tag v = {LD(N, x[i * l->stride]), (uint32_t)i};                           \
                                                                                                   \
            if (!select) {                                                                         \
                insert_##tag(keys + i / RUN * RUN, i % RUN, v, l->descending);                     \
            } else if (have < l->k) {                                                              \
                insert_##tag(keys, have++, v, l->descending);                                      \
            } else if (before_##tag(v.key, keys[have - 1].key, l->descending)) {                   \
                insert_##tag(keys, have - 1, v, l->descending);                                    \
            }                                                                                      \
        }                                                                                          \
        return select ? keys : merge_all_##tag(keys, keys + l->n, l->n, l->descending);            \
    }                                                                                              \
    static void sort_##tag(const struct line *l)                                                   \
    {                                                                                              \
        const struct key_##tag *keys = sorted_##tag(l);                                            \
                                                                                                   \
        for (uint64_t i = 0; i < l->k; i++) {                                                      \
            ((S *)l->out)[i * l->stride] = ((const S *)l->values)[keys[i].place * l->stride];      \
        }                                                                                          \
    }                                                                                              \
    static void argsort_##tag(const struct line *l)                                                \
    {                                                                                              \
        const struct key_##tag *keys = sorted_##tag(l);                                            \
                                                                                                   \
        for (uint64_t i = 0; i < l->k; i++) {                                                      \
            ((int32_t *)l->out)[i * l->stride] = (int32_t)keys[i].place;                           \
        }                                                                                          \
    }
MR_EACH_NUMBER(SORTER, )

#define KEY_SIZE(tag, dtype, S, W, N, LD, ST, ...) [dtype] = sizeof(struct key_##tag),
static const size_t key_sizes[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(KEY_SIZE, )};
typedef void (*line_fn)(const struct line *);
static const line_fn sort_fns[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, sort, )};
static const line_fn argsort_fns[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, argsort, )};

static int fill_lines(const struct mr_row *row, const line_fn *fns, struct mr_result *out,
                      mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    uint64_t outer;
    uint64_t inner;
    int axis = 0;

    MR_TRY(mr_attr_axis(row->attrs, -1, x->rank, &axis, err));
    mr_shape_split(x->rank, x->dims, axis, &outer, &inner);
    struct line l = {.n = (uint64_t)x->dims[axis],
                     .k = (uint64_t)out->dims[axis],
                     .stride = inner,
                     .descending = mr_attr_bool(row->attrs, "descending", false)};
    if (out->count == 0) {
        return MR_OK;
    }
    if (l.n > INT32_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "an axis of size %llu", (unsigned long long)l.n);
    }
    MR_AUTO(mr_buffer_unref) mr_buffer *scratch = NULL;
    MR_TRY(mr_buffer_new(l.n * 2 * key_sizes[x->dtype], &scratch, err));
    l.scratch = mr_buffer_data(scratch);
    for (uint64_t o = 0; o < outer; o++) {
        for (uint64_t i = 0; i < inner; i++) {
            l.values = x->values + (o * l.n * inner + i) * x->width;
            l.out = out->values + (o * l.k * inner + i) * out->width;
            fns[x->dtype](&l);
        }
    }
    return MR_OK;
}

static int fill_sort(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return fill_lines(row, sort_fns, out, err);
}

static int fill_argsort(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return fill_lines(row, argsort_fns, out, err);
}

MR_ROWS_KERNEL(sort, 1, 1, MR_SET_NUMBERS, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_sort,
               .fill = fill_sort,
               .attr_table = {{"axis", MR_ATTR_INT, true}, {"descending", MR_ATTR_BOOL, true}});
MR_ROWS_KERNEL(argsort, 1, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_argsort,
               .dims = dims_argsort, .fill = fill_argsort,
               .attr_table = {{"axis", MR_ATTR_INT, true},
                              {"descending", MR_ATTR_BOOL, true},
                              {"k", MR_ATTR_INT, true}});
