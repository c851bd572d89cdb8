/*
 * Random numbers. Each of four distributions is two operators: one draws from a stream of its own
 * at every row, a function of (seed, epoch, split, index of the row); a stateless_ one has its seed
 * as an input and gives the same for the same seed.
 *
 * Inputs: the shape, unless it is an attribute; the operands; the seed of a stateless one.
 */
#include "base/cancel.h"
#include "ops/attr.h"
#include "ops/draws.h"
#include "ops/loops.h"
#include "ops/move.h"

#include <math.h>

#define TWO_PI 6.28318530717958647692

/* ---- which stream ---- */

static struct mr_draws stateless_draws(const struct mr_tensor *seed)
{
    uint64_t high = (uint64_t)mr_tensor_index(seed, 1);

    return mr_draws_of(mr_mix64((uint64_t)mr_tensor_index(seed, 0) ^ mr_mix64(high + 1)), 0);
}

struct mr_draws mr_draws_of_row(const struct mr_row *row, bool stateless)
{
    const struct mr_attr *given = mr_attr_get(row->attrs, "seed");
    const struct mr_kernel_random *random = row->random;

    if (stateless) {
        return stateless_draws(&row->in[row->nin - 1]);
    }
    uint64_t seed = given != NULL ? mr_mix64((uint64_t)given->i + 1) : random->seed;
    uint64_t epoch = mr_attr_bool(row->attrs, "rerandomize", true) ? random->epoch : 0;

    return mr_draws_of(mr_mix64(seed ^ mr_mix64(epoch ^ mr_mix64(random->split))), random->index);
}

int mr_infer_seed(const struct mr_kernel_infer *it, bool stateless, mr_error *err)
{
    size_t last = it->nin - 1;

    if (!stateless) {
        return MR_OK;
    }
    MR_TRY(mr_infer_dtype(it->in, last, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(it->in, last, 1, err));
    int64_t size = it->in[last].rank < 0 ? MR_DIM_UNKNOWN : it->in[last].dims[0];
    if (size != 2 && size != MR_DIM_UNKNOWN) {
        return mr_error_set(err, MR_EINVAL, "a seed of %lld values, it must have 2",
                            (long long)size);
    }
    return MR_OK;
}

/* ---- shapes ---- */

/* Where the operands begin. */
static size_t first_operand(struct mr_attrs attrs)
{
    return mr_attr_get(attrs, "shape") != NULL ? 0 : 1;
}

static int infer_shape(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *shape = mr_attr_get(it->attrs, "shape");

    if (shape != NULL) {
        if (shape->count < 0) {
            return mr_error_set(err, MR_EINVAL, "the rank of the shape is unknown");
        }
        for (int32_t d = 0; d < shape->count; d++) {
            if (shape->ints[d] < 0) {
                return mr_error_set(err, MR_EINVAL, "dim %d of the shape is %lld", d,
                                    (long long)shape->ints[d]);
            }
        }
        mr_shape_set(it->out, shape->count, shape->ints);
        return MR_OK;
    }
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(it->in, 0, 1, err));
    return mr_shape_open(it->out, &it->in[0], "shape", err);
}

static int dims_of_shape(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    for (int d = 0; first_operand(row->attrs) == 1 && d < spec->rank; d++) {
        spec->dims[d] = mr_tensor_index(&row->in[0], (uint64_t)d);
        if (spec->dims[d] < 0) {
            return mr_error_set(err, MR_EINVAL, "dim %d of the shape is %lld", d,
                                (long long)spec->dims[d]);
        }
    }
    return MR_OK;
}

/* Two scalars of one dtype in @set, which is the result's. */
static int infer_operands(struct mr_kernel_infer *it, bool stateless, uint32_t set, mr_error *err)
{
    size_t first = first_operand(it->attrs);

    if (it->nin != first + 2 + (stateless ? 1 : 0)) {
        return mr_error_set(err, MR_EINVAL, "%zu inputs; wants %s, two operands%s", it->nin,
                            first == 1 ? "a shape" : "no shape", stateless ? " and a seed" : "");
    }
    MR_TRY(mr_infer_seed(it, stateless, err));
    for (size_t i = first; i < first + 2; i++) {
        MR_TRY(mr_infer_dtype(it->in, i, set, err));
        MR_TRY(mr_infer_rank(it->in, i, 0, err));
    }
    MR_TRY(mr_infer_same_dtype(it->in, first, first + 2, err));
    MR_TRY(infer_shape(it, err));
    it->out->dtype = it->in[first].dtype;
    return MR_OK;
}

/* ---- uniform ---- */

#define SET_UNIFORM (MR_SET_FLOATS | MR_SET_INDEX | MR_SET(MR_UINT32) | MR_SET(MR_UINT64))

/* Bits of a number in [0, 1): as many as the dtype holds, so that none is rounded to 1. */
#define UNIT_f16(d) ((float)(mr_draw32(d) >> 21) * 0x1p-11f)
#define UNIT_bf16(d) ((float)(mr_draw32(d) >> 24) * 0x1p-8f)
#define UNIT_f32(d) ((float)(mr_draw32(d) >> 8) * 0x1p-24f)
#define UNIT_f64(d) mr_draw_unit(d)

/* A sum that is rounded up to the upper bound becomes the lower one, which is in the interval. */
#define UNIFORM_FLOAT(tag, dtype, S, W, N, LD, ST, ...)                                            \
    case dtype: {                                                                                  \
        S bounds[2];                                                                               \
        S *z = (S *)(void *)out->values;                                                           \
        memcpy(&bounds[0], operands[0].values, sizeof bounds[0]);                                  \
        memcpy(&bounds[1], operands[1].values, sizeof bounds[1]);                                  \
        const N low = LD(N, bounds[0]);                                                            \
        const N high = LD(N, bounds[1]);                                                           \
        for (uint64_t i = 0; i < out->count; i++) {                                                \
            z[i] = ST(S, low + UNIT_##tag(d) * (high - low));                                      \
            if (LD(N, z[i]) >= high) {                                                             \
                z[i] = bounds[0];                                                                  \
            }                                                                                      \
        }                                                                                          \
        return MR_OK;                                                                              \
    }

/* Unsigned, so that nothing overflows. */
#define UNIFORM_INT(T, U, dtype)                                                                   \
    case dtype: {                                                                                  \
        T low;                                                                                     \
        T high;                                                                                    \
        T *z = (T *)(void *)out->values;                                                           \
        memcpy(&low, operands[0].values, sizeof low);                                              \
        memcpy(&high, operands[1].values, sizeof high);                                            \
        if (low >= high && !all) {                                                                 \
            return mr_error_set(err, MR_EINVAL, "minval is not below maxval");                     \
        }                                                                                          \
        for (uint64_t i = 0; i < out->count; i++) {                                                \
            z[i] =                                                                                 \
                all ? (T)mr_draw64(d) : (T)((U)low + (U)mr_draw_below(d, (U)((U)high - (U)low)));  \
        }                                                                                          \
        return MR_OK;                                                                              \
    }

/* @all: of an int dtype, whatever the operands are. */
static int uniform(struct mr_draws *d, bool all, const struct mr_tensor *operands,
                   struct mr_result *out, mr_error *err)
{
    switch (out->dtype) {
        MR_EACH_FLOAT(UNIFORM_FLOAT, )
        UNIFORM_INT(int32_t, uint32_t, MR_INT32)
        UNIFORM_INT(int64_t, uint64_t, MR_INT64)
        UNIFORM_INT(uint32_t, uint32_t, MR_UINT32)
        UNIFORM_INT(uint64_t, uint64_t, MR_UINT64)
    default: return mr_error_set(err, MR_EINTERNAL, "dtype %u", out->dtype);
    }
}

/* ---- normal ---- */

/* Standard normals come in pairs (Box and Muller, 1958). */
struct normals {
    struct mr_draws *draws;
    double spare;
    bool has_spare;
    bool truncated; /* those beyond two standard deviations are drawn again */
};

static double any_normal(struct normals *n)
{
    if (n->has_spare) {
        n->has_spare = false;
        return n->spare;
    }
    double radius = sqrt(-2 * log(1 - mr_draw_unit(n->draws))); /* 1 - u is never 0 */
    double angle = TWO_PI * mr_draw_unit(n->draws);

    n->spare = radius * sin(angle);
    n->has_spare = true;
    return radius * cos(angle);
}

static double next_normal(struct normals *n)
{
    double x = any_normal(n);

    while (n->truncated && fabs(x) >= 2) {
        x = any_normal(n);
    }
    return x;
}

#define NORMAL(tag, dtype, S, W, N, LD, ST, ...)                                                   \
    case dtype: {                                                                                  \
        S moments[2];                                                                              \
        S *z = (S *)(void *)out->values;                                                           \
        memcpy(&moments[0], operands[0].values, sizeof moments[0]);                                \
        memcpy(&moments[1], operands[1].values, sizeof moments[1]);                                \
        const N mean = LD(N, moments[0]);                                                          \
        const N deviation = LD(N, moments[1]);                                                     \
        for (uint64_t i = 0; i < out->count; i++) {                                                \
            z[i] = ST(S, mean + (N)next_normal(&n) * deviation);                                   \
        }                                                                                          \
        return MR_OK;                                                                              \
    }

static int normal(struct mr_draws *d, bool truncated, const struct mr_tensor *operands,
                  struct mr_result *out, mr_error *err)
{
    struct normals n = {.draws = d, .truncated = truncated};

    switch (out->dtype) {
        MR_EACH_FLOAT(NORMAL, )
    default: return mr_error_set(err, MR_EINTERNAL, "dtype %u", out->dtype);
    }
}

/* ---- shuffle ---- */

static void swap(unsigned char *values, uint64_t i, uint64_t j, size_t bytes)
{
    unsigned char part[256];
    unsigned char *a = values + i * bytes;
    unsigned char *b = values + j * bytes;

    for (size_t n; bytes > 0; bytes -= n, a += n, b += n) {
        n = MR_MIN(bytes, sizeof part);
        memcpy(part, a, n);
        memcpy(a, b, n);
        memcpy(b, part, n);
    }
}

/* Fisher and Yates; a scalar stays. */
static int shuffle(struct mr_draws *d, const struct mr_row *row, struct mr_result *out)
{
    uint64_t n = out->rank > 0 ? (uint64_t)out->dims[0] : 1;
    size_t bytes = n > 0 ? out->count / n * out->width : 0;

    if (out->count > 0) {
        memcpy(out->values, row->in[0].values, out->count * out->width);
    }
    for (uint64_t i = n; bytes > 0 && i > 1; i--) {
        uint64_t j = mr_draw_below(d, i);

        if (j != i - 1) {
            swap(out->values, i - 1, j, bytes);
        }
    }
    return MR_OK;
}

/* ---- categorical ---- */

static int infer_logits(struct mr_kernel_infer *it, bool stateless, mr_error *err)
{
    int64_t samples = mr_attr_int(it->attrs, "num_samples", 0);
    int64_t rows = it->in[0].rank == 2 ? it->in[0].dims[0] : MR_DIM_UNKNOWN;

    MR_TRY(mr_infer_seed(it, stateless, err));
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET_FLOATS, err));
    MR_TRY(mr_infer_rank(it->in, 0, 2, err));
    if (samples < 0) {
        return mr_error_set(err, MR_EINVAL, "num_samples is %lld", (long long)samples);
    }
    if (it->in[0].rank == 2 && it->in[0].dims[1] == 0) {
        return mr_error_set(err, MR_EINVAL, "logits of no classes");
    }
    mr_shape_set(it->out, 2, (int64_t[]){rows, samples});
    return mr_attr_index_dtype(it->attrs, MR_INT64, &it->out->dtype, err);
}

#define LOGIT(tag, dtype, S, W, N, LD, ST, ...)                                                    \
    case dtype: {                                                                                  \
        S v;                                                                                       \
        memcpy(&v, t->values + i * sizeof v, sizeof v);                                            \
        return (double)LD(N, v);                                                                   \
    }

static double logit(const struct mr_tensor *t, uint64_t i)
{
    switch (t->dtype) {
        MR_EACH_FLOAT(LOGIT, )
    default: return 0;
    }
}

/* The largest logit of @classes from @first on: -inf if there is none that a class can have. */
static double largest(const struct mr_tensor *logits, uint64_t first, uint64_t classes)
{
    double most = -INFINITY;

    for (uint64_t c = 0; c < classes; c++) {
        most = fmax(most, logit(logits, first + c));
    }
    return most;
}

/* One of @classes, by its place in the sum of their weights. */
static uint64_t one_class(struct mr_draws *d, const struct mr_tensor *logits, uint64_t first,
                          uint64_t classes, double most, double total)
{
    double at = mr_draw_unit(d) * total;
    uint64_t last = 0;

    for (uint64_t c = 0; c < classes; c++) {
        double weight = exp(logit(logits, first + c) - most);

        if (weight > 0) {
            last = c;
            if (at < weight) {
                return c;
            }
            at -= weight;
        }
    }
    return last; /* rounding has put it behind the end */
}

static int categorical(struct mr_draws *d, const struct mr_row *row, struct mr_result *out,
                       mr_error *err)
{
    const struct mr_tensor *logits = &row->in[0];
    uint64_t classes = (uint64_t)logits->dims[1];
    uint64_t samples = (uint64_t)out->dims[1];

    for (uint64_t r = 0; r < (uint64_t)out->dims[0]; r++) {
        uint64_t first = r * classes;
        double most = largest(logits, first, classes);
        double total = 0;

        if (!isfinite(most)) {
            return mr_error_set(err, MR_EINVAL, "row %llu of the logits has no finite maximum",
                                (unsigned long long)r);
        }
        for (uint64_t c = 0; c < classes; c++) {
            double weight = exp(logit(logits, first + c) - most);

            total += weight > 0 ? weight : 0; /* no NaN */
        }
        for (uint64_t s = 0; s < samples; s++) {
            MR_TRY(mr_cancel_check(err));
            mr_result_put_index(out, r * samples + s,
                                one_class(d, logits, first, classes, most, total));
        }
    }
    return MR_OK;
}

/* ---- seeds from seeds ---- */

static int infer_stateless_seeds(struct mr_kernel_infer *it, mr_error *err)
{
    struct mr_kernel_infer seed = {.in = it->in, .nin = 1};
    int64_t n = mr_attr_int(it->attrs, "num", 0);

    MR_TRY(mr_infer_seed(&seed, true, err));
    if (n < 0) {
        return mr_error_set(err, MR_EINVAL, "num is %lld", (long long)n);
    }
    if (it->nin == 2) {
        MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
        MR_TRY(mr_infer_rank(it->in, 1, 0, err));
        mr_shape_set(it->out, 1, (int64_t[]){2});
    } else {
        mr_shape_set(it->out, 2, (int64_t[]){n, 2});
    }
    it->out->dtype = it->in[0].dtype;
    return MR_OK;
}

static int fill_stateless_seeds(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    struct mr_draws d = stateless_draws(&row->in[0]);

    if (row->nin == 2) {
        /* Another index than that of draws from the seed itself. */
        d.index = mr_mix64((uint64_t)mr_tensor_index(&row->in[1], 0)) | 1;
    } else {
        d.index = 2;
    }
    for (uint64_t i = 0; i < out->count; i++) {
        mr_result_put_index(out, i, mr_draw64(&d));
    }
    return MR_OK;
}

/* ---- entries ---- */

/* The functions of a distribution with a stream and of its stateless form. @infer: an expression
 * of `it` and `stateless`; @draw: of `d`, `row`, `operands`. */
#define DISTRIBUTION(id, infer, draw)                                                              \
    static int infer_as_##id(struct mr_kernel_infer *it, bool stateless, mr_error *err)            \
    {                                                                                              \
        return infer;                                                                              \
    }                                                                                              \
    static int fill_as_##id(const struct mr_row *row, bool stateless, struct mr_result *out,       \
                            mr_error *err)                                                         \
    {                                                                                              \
        struct mr_draws d = mr_draws_of_row(row, stateless);                                       \
                                                                                                   \
        return draw;                                                                               \
    }                                                                                              \
    FORM(random_##id, id, false)                                                                   \
    FORM(stateless_random_##id, id, true)
#define FORM(name, id, stateless)                                                                  \
    static int infer_##name(struct mr_kernel_infer *it, mr_error *err)                             \
    {                                                                                              \
        return infer_as_##id(it, stateless, err);                                                  \
    }                                                                                              \
    static int fill_##name(const struct mr_row *row, struct mr_result *out, mr_error *err)         \
    {                                                                                              \
        return fill_as_##id(row, stateless, out, err);                                             \
    }

static const struct mr_tensor *operands_of(const struct mr_row *row)
{
    return row->in + first_operand(row->attrs);
}

DISTRIBUTION(uniform, infer_operands(it, stateless, SET_UNIFORM, err),
             uniform(&d, mr_attr_bool(row->attrs, "full_range", false), operands_of(row), out, err))
DISTRIBUTION(normal, infer_operands(it, stateless, MR_SET_FLOATS, err),
             normal(&d, mr_attr_bool(row->attrs, "truncated", false), operands_of(row), out, err))
DISTRIBUTION(shuffle, mr_infer_seed(it, stateless, err), shuffle(&d, row, out))
DISTRIBUTION(categorical, infer_logits(it, stateless, err), categorical(&d, row, out, err))

#define RANDOM_KERNEL(id, inputs_min, inputs_max, random, ...)                                     \
    MR_ROWS_KERNEL(id, inputs_min, inputs_max, 0, .flags = MR_KERNEL_MAY_FAIL | (random),          \
                   .infer = infer_##id, .fill = fill_##id, __VA_ARGS__)

RANDOM_KERNEL(random_uniform, 2, 3, MR_KERNEL_RANDOM, .dims = dims_of_shape,
              .attr_table = {{"seed", MR_ATTR_INT, true},
                             {"rerandomize", MR_ATTR_BOOL, true},
                             {"shape", MR_ATTR_SHAPE, true},
                             {"full_range", MR_ATTR_BOOL, true}});
RANDOM_KERNEL(stateless_random_uniform, 3, 4, 0, .dims = dims_of_shape,
              .attr_table = {{"shape", MR_ATTR_SHAPE, true}, {"full_range", MR_ATTR_BOOL, true}});
RANDOM_KERNEL(random_normal, 2, 3, MR_KERNEL_RANDOM, .dims = dims_of_shape,
              .attr_table = {{"seed", MR_ATTR_INT, true},
                             {"rerandomize", MR_ATTR_BOOL, true},
                             {"shape", MR_ATTR_SHAPE, true},
                             {"truncated", MR_ATTR_BOOL, true}});
RANDOM_KERNEL(stateless_random_normal, 3, 4, 0, .dims = dims_of_shape,
              .attr_table = {{"shape", MR_ATTR_SHAPE, true}, {"truncated", MR_ATTR_BOOL, true}});
RANDOM_KERNEL(random_shuffle, 1, 1, MR_KERNEL_RANDOM,
              .attr_table = {{"seed", MR_ATTR_INT, true}, {"rerandomize", MR_ATTR_BOOL, true}});
RANDOM_KERNEL(stateless_random_shuffle, 2, 2, 0, .attr_table = {{NULL}});
RANDOM_KERNEL(random_categorical, 1, 1, MR_KERNEL_RANDOM,
              .attr_table = {{"seed", MR_ATTR_INT, true},
                             {"rerandomize", MR_ATTR_BOOL, true},
                             {"num_samples", MR_ATTR_INT, false},
                             {"dtype", MR_ATTR_DTYPE, true}});
RANDOM_KERNEL(stateless_random_categorical, 2, 2, 0,
              .attr_table = {{"num_samples", MR_ATTR_INT, false}, {"dtype", MR_ATTR_DTYPE, true}});
RANDOM_KERNEL(stateless_seeds, 1, 2, 0, .attr_table = {{"num", MR_ATTR_INT, true}});
