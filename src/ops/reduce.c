/*
 * Reductions over some axes. Axes that lie side by side and share their fate are joined first; then
 * values come in runs that either go into one result or each into its own.
 *
 * Ints are summed in 64 bits and wrap at the end; float32 and smaller are summed in float64, in
 * eight lanes, so that the order of the sum does not depend on how many rows a block has.
 */
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/move.h"
#include "ops/scratch.h"

#include <math.h>

/* ---- shapes ---- */

static int infer_reduced(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *axes = mr_attr_get(it->attrs, "axes");
    bool keep = mr_attr_bool(it->attrs, "keepdims", false);
    const struct mr_leaf_spec *in = it->in;
    int64_t dims[MR_RANK_MAX];
    uint32_t mask = 0;
    int rank = 0;

    if (in->rank < 0) {
        if (axes == NULL && !keep) {
            mr_shape_set(it->out, 0, dims);
        }
        return MR_OK;
    }
    MR_TRY(mr_axes_resolve(axes, in->rank, &mask, err));
    for (int d = 0; d < in->rank; d++) {
        bool reduced = (mask & (1u << d)) != 0;

        if (!reduced || keep) {
            dims[rank++] = reduced ? 1 : in->dims[d];
        }
    }
    mr_shape_set(it->out, rank, dims);
    return MR_OK;
}

/* ---- walking ---- */

/* The input as a sequence of axes of alternating fate. */
struct walk {
    int n;
    int64_t sizes[MR_RANK_MAX];
    bool reduced[MR_RANK_MAX];
    int64_t strides[MR_RANK_MAX]; /* in the result; 0 where reduced */
    uint64_t reduced_count;       /* values that go into one result */
};

static void plan_walk(struct walk *w, const struct mr_tensor *t, uint32_t mask)
{
    int64_t stride = 1;

    memset(w, 0, sizeof *w);
    w->reduced_count = 1;
    for (int d = 0; d < t->rank; d++) {
        bool reduced = (mask & (1u << d)) != 0;

        w->reduced_count *= reduced ? (uint64_t)t->dims[d] : 1;
        if (t->dims[d] == 1) {
            continue;
        }
        if (w->n > 0 && w->reduced[w->n - 1] == reduced) {
            w->sizes[w->n - 1] *= t->dims[d];
        } else {
            w->sizes[w->n] = t->dims[d];
            w->reduced[w->n++] = reduced;
        }
    }
    if (w->n == 0) {
        w->n = 1; /* one value */
        w->sizes[0] = 1;
        w->reduced[0] = true;
    }
    for (int i = w->n - 1; i >= 0; i--) {
        w->strides[i] = w->reduced[i] ? 0 : stride;
        stride *= w->reduced[i] ? 1 : w->sizes[i];
    }
}

/* One run: @n values at @values go into acc[0], or value i into acc[i]. */
typedef void (*run_fn)(void *acc, const void *values, uint64_t n, bool reduced);

static void walk_runs(const struct walk *w, const struct mr_tensor *t, void *acc, size_t acc_width,
                      run_fn run)
{
    int64_t counter[MR_RANK_MAX] = {0};
    int inner = w->n - 1;
    uint64_t n = (uint64_t)w->sizes[inner];
    const unsigned char *values = t->values;
    int64_t at = 0;

    if (t->count == 0) {
        return;
    }
    do {
        run((unsigned char *)acc + (size_t)at * acc_width, values, n, w->reduced[inner]);
        values += n * t->width;
    } while (mr_next_run(w->n, w->sizes, w->strides, counter, &at));
}

/* ---- one reduction, all dtypes ---- */

struct reducer {
    size_t acc_width;
    void (*start)(void *acc, uint64_t n);
    run_fn run;
    void (*store)(const void *acc, uint64_t n, void *out, uint64_t reduced_count);
};

/* A = accumulator; STEP combines acc `s` with value `v`; LANES partial results of a long run are
 * joined in order. */
#define LANES 8
#define REDUCE(tag, S, A, LD, ST, name, START, STEP, FINAL)                                        \
    static void name##_start_##tag(void *acc, uint64_t n)                                          \
    {                                                                                              \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            ((A *)acc)[i] = (START);                                                               \
        }                                                                                          \
    }                                                                                              \
    MR_HOT_##tag static void name##_run_##tag(void *acc, const void *values, uint64_t n,           \
                                              bool reduced)                                        \
    {                                                                                              \
        const S *x = values;                                                                       \
        A *restrict z = acc;                                                                       \
                                                                                                   \
        if (!reduced) {                                                                            \
            for (uint64_t i = 0; i < n; i++) {                                                     \
                const A s = z[i];                                                                  \
                const A v = (A)LD(A, x[i]);                                                        \
                z[i] = (STEP);                                                                     \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        uint64_t i = 0;                                                                            \
        if (n >= 2 * LANES) {                                                                      \
            A lanes[LANES];                                                                        \
                                                                                                   \
            for (int k = 0; k < LANES; k++) {                                                      \
                lanes[k] = (START);                                                                \
            }                                                                                      \
            for (; i + LANES <= n; i += LANES) {                                                   \
                for (int k = 0; k < LANES; k++) {                                                  \
                    const A s = lanes[k];                                                          \
                    const A v = (A)LD(A, x[i + (unsigned)k]);                                      \
                    lanes[k] = (STEP);                                                             \
                }                                                                                  \
            }                                                                                      \
            for (int k = 0; k < LANES; k++) {                                                      \
                const A s = z[0];                                                                  \
                const A v = lanes[k];                                                              \
                z[0] = (STEP);                                                                     \
            }                                                                                      \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            const A s = z[0];                                                                      \
            const A v = (A)LD(A, x[i]);                                                            \
            z[0] = (STEP);                                                                         \
        }                                                                                          \
    }                                                                                              \
    static void name##_store_##tag(const void *acc, uint64_t n, void *out, uint64_t count)         \
    {                                                                                              \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            const A s = ((const A *)acc)[i];                                                       \
            ((S *)out)[i] = ST(S, FINAL);                                                          \
            (void)count;                                                                           \
        }                                                                                          \
    }

#define REDUCER_ENTRY(tag, dtype, A, name)                                                         \
    [dtype] = {sizeof(A), name##_start_##tag, name##_run_##tag, name##_store_##tag},

#define HALF_STORE(S, v) mr_half_store((float)(v))
#define BFLOAT_STORE(S, v) mr_bfloat_store((float)(v))

/* X(tag, dtype, storage, wrapping and plain accumulator, LOAD, STORE, lowest, highest, ...) */
#define EACH_ACC_INT(X, ...)                                                                       \
    X(i8, MR_INT8, int8_t, uint64_t, int64_t, MR_INT_LOAD, MR_INT_STORE, INT8_MIN, INT8_MAX,       \
      __VA_ARGS__)                                                                                 \
    X(i16, MR_INT16, int16_t, uint64_t, int64_t, MR_INT_LOAD, MR_INT_STORE, INT16_MIN, INT16_MAX,  \
      __VA_ARGS__)                                                                                 \
    X(i32, MR_INT32, int32_t, uint64_t, int64_t, MR_INT_LOAD, MR_INT_STORE, INT32_MIN, INT32_MAX,  \
      __VA_ARGS__)                                                                                 \
    X(i64, MR_INT64, int64_t, uint64_t, int64_t, MR_INT_LOAD, MR_INT_STORE, INT64_MIN, INT64_MAX,  \
      __VA_ARGS__)                                                                                 \
    X(u8, MR_UINT8, uint8_t, uint64_t, uint64_t, MR_INT_LOAD, MR_INT_STORE, 0, UINT8_MAX,          \
      __VA_ARGS__)                                                                                 \
    X(u16, MR_UINT16, uint16_t, uint64_t, uint64_t, MR_INT_LOAD, MR_INT_STORE, 0, UINT16_MAX,      \
      __VA_ARGS__)                                                                                 \
    X(u32, MR_UINT32, uint32_t, uint64_t, uint64_t, MR_INT_LOAD, MR_INT_STORE, 0, UINT32_MAX,      \
      __VA_ARGS__)                                                                                 \
    X(u64, MR_UINT64, uint64_t, uint64_t, uint64_t, MR_INT_LOAD, MR_INT_STORE, 0, UINT64_MAX,      \
      __VA_ARGS__)
#define EACH_ACC_FLOAT(X, ...)                                                                     \
    X(f16, MR_FLOAT16, mr_half, double, double, MR_HALF_LOAD, HALF_STORE, -HUGE_VAL, HUGE_VAL,     \
      __VA_ARGS__)                                                                                 \
    X(bf16, MR_BFLOAT16, mr_bfloat, double, double, MR_BFLOAT_LOAD, BFLOAT_STORE, -HUGE_VAL,       \
      HUGE_VAL, __VA_ARGS__)                                                                       \
    X(f32, MR_FLOAT32, float, double, double, MR_INT_LOAD, MR_INT_STORE, -HUGE_VAL, HUGE_VAL,      \
      __VA_ARGS__)                                                                                 \
    X(f64, MR_FLOAT64, double, double, double, MR_INT_LOAD, MR_INT_STORE, -HUGE_VAL, HUGE_VAL,     \
      __VA_ARGS__)
#define EACH_ACC(X, ...) EACH_ACC_INT(X, __VA_ARGS__) EACH_ACC_FLOAT(X, __VA_ARGS__)

#define SUM(tag, dtype, S, W, A, LD, ST, low, high, ...) REDUCE(tag, S, W, LD, ST, sum, 0, s + v, s)
#define PROD(tag, dtype, S, W, A, LD, ST, low, high, ...)                                          \
    REDUCE(tag, S, W, LD, ST, prod, 1, s *v, s)
#define MAX(tag, dtype, S, W, A, LD, ST, low, high, ...)                                           \
    REDUCE(tag, S, A, LD, ST, max, low, v > s || v != v ? v : s, s)
#define MIN(tag, dtype, S, W, A, LD, ST, low, high, ...)                                           \
    REDUCE(tag, S, A, LD, ST, min, high, v < s || v != v ? v : s, s)
#define INT_MEAN(tag, dtype, S, W, A, LD, ST, low, high, ...)                                      \
    REDUCE(tag, S, W, LD, ST, mean, 0, s + v, (count == 0 ? 0 : (A)s / (A)count))
#define FLOAT_MEAN(tag, dtype, S, W, A, LD, ST, low, high, ...)                                    \
    REDUCE(tag, S, W, LD, ST, mean, 0, s + v, (s / (A)count))
#define WIDE_ENTRY(tag, dtype, S, W, A, LD, ST, low, high, name) REDUCER_ENTRY(tag, dtype, W, name)
#define PLAIN_ENTRY(tag, dtype, S, W, A, LD, ST, low, high, name) REDUCER_ENTRY(tag, dtype, A, name)

EACH_ACC(SUM, )
EACH_ACC(PROD, )
EACH_ACC(MAX, )
EACH_ACC(MIN, )
EACH_ACC_INT(INT_MEAN, )
EACH_ACC_FLOAT(FLOAT_MEAN, )
REDUCE(b, uint8_t, uint8_t, MR_INT_LOAD, MR_INT_STORE, all, 1, s &v, s)
REDUCE(b, uint8_t, uint8_t, MR_INT_LOAD, MR_INT_STORE, any, 0, s | v, s)

static const struct reducer sum_reducers[MR_DTYPE_COUNT] = {EACH_ACC(WIDE_ENTRY, sum)};
static const struct reducer prod_reducers[MR_DTYPE_COUNT] = {EACH_ACC(WIDE_ENTRY, prod)};
static const struct reducer mean_reducers[MR_DTYPE_COUNT] = {EACH_ACC(WIDE_ENTRY, mean)};
static const struct reducer max_reducers[MR_DTYPE_COUNT] = {EACH_ACC(PLAIN_ENTRY, max)};
static const struct reducer min_reducers[MR_DTYPE_COUNT] = {EACH_ACC(PLAIN_ENTRY, min)};
static const struct reducer all_reducers[MR_DTYPE_COUNT] = {
    REDUCER_ENTRY(b, MR_BOOL, uint8_t, all)};
static const struct reducer any_reducers[MR_DTYPE_COUNT] = {
    REDUCER_ENTRY(b, MR_BOOL, uint8_t, any)};

static int reduce_row(const struct mr_row *row, const struct reducer *table, struct mr_result *out,
                      mr_error *err)
{
    const struct mr_tensor *t = row->in;
    const struct reducer *r = &table[t->dtype];
    struct mr_scratch held;
    void *acc = NULL;
    uint32_t mask = 0;
    struct walk w;
    size_t bytes;

    MR_TRY(mr_axes_resolve(mr_attr_get(row->attrs, "axes"), t->rank, &mask, err));
    plan_walk(&w, t, mask);
    if (__builtin_mul_overflow(out->count, r->acc_width, &bytes)) {
        return mr_error_nomem(err);
    }
    MR_TRY(mr_scratch_take(&held, bytes, &acc, err));
    r->start(acc, out->count);
    walk_runs(&w, t, acc, r->acc_width, r->run);
    r->store(acc, out->count, out->values, w.reduced_count);
    mr_scratch_free(&held);
    return MR_OK;
}

#define REDUCTION(name, set)                                                                       \
    static int fill_##name(const struct mr_row *row, struct mr_result *out, mr_error *err)         \
    {                                                                                              \
        return reduce_row(row, name##_reducers, out, err);                                         \
    }                                                                                              \
    MR_ROWS_KERNEL(reduce_##name, 1, 1, set, .infer = infer_reduced, .fill = fill_##name,          \
                   .attr_table = {{"axes", MR_ATTR_INTS, true}, {"keepdims", MR_ATTR_BOOL, true}})

REDUCTION(sum, MR_SET_NUMBERS);
REDUCTION(prod, MR_SET_NUMBERS);
REDUCTION(mean, MR_SET_NUMBERS);
REDUCTION(max, MR_SET_NUMBERS);
REDUCTION(min, MR_SET_NUMBERS);
REDUCTION(all, MR_SET(MR_BOOL));
REDUCTION(any, MR_SET(MR_BOOL));
