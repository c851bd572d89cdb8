/* fft, rfft, irfft: Fourier transforms along the last axis. Computed in float64; real lines go two
 * at a time, as the parts of one. */
#include "ops/attr.h"
#include "ops/fft_plan.h"
#include "ops/rows.h"

MR_AUTO_DEFINE(struct mr_fft_plan, mr_fft_plan_free)

static bool is_wide(unsigned dtype)
{
    return dtype == MR_FLOAT64 || dtype == MR_COMPLEX128;
}

/* Value @i of a row of reals, or of parts of complex numbers. */
static double part(const unsigned char *values, bool wide, uint64_t i)
{
    double d;
    float f;

    if (wide) {
        memcpy(&d, values + i * sizeof d, sizeof d);
        return d;
    }
    memcpy(&f, values + i * sizeof f, sizeof f);
    return (double)f;
}

static void put_part(unsigned char *values, bool wide, uint64_t i, double v)
{
    float f = (float)v;

    if (wide) {
        memcpy(values + i * sizeof v, &v, sizeof v);
    } else {
        memcpy(values + i * sizeof f, &f, sizeof f);
    }
}

static void put_complex(unsigned char *values, bool wide, uint64_t i, double re, double im)
{
    put_part(values, wide, 2 * i, re);
    put_part(values, wide, 2 * i + 1, im);
}

/* ---- shapes ---- */

static int infer_length(struct mr_kernel_infer *it, int64_t *length, mr_error *err)
{
    const struct mr_attr *attr = mr_attr_get(it->attrs, "length");

    MR_TRY(mr_infer_known_rank(&it->in[0], err));
    if (it->in[0].rank < 1) {
        return mr_error_set(err, MR_EINVAL, "a scalar has no axis to transform");
    }
    *length = it->in[0].dims[it->in[0].rank - 1];
    if (attr != NULL && attr->i < 1) {
        return mr_error_set(err, MR_EINVAL, "a transform of length %lld", (long long)attr->i);
    }
    return MR_OK;
}

static int infer_fft(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *attr = mr_attr_get(it->attrs, "length");
    int64_t length = MR_DIM_UNKNOWN;

    MR_TRY(infer_length(it, &length, err));
    if (attr != NULL && length != MR_DIM_UNKNOWN && length != attr->i) {
        return mr_error_set(err, MR_EINVAL, "a transform of length %lld of an axis of size %lld",
                            (long long)attr->i, (long long)length);
    }
    return MR_OK;
}

static int infer_rfft(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *attr = mr_attr_get(it->attrs, "length");
    int64_t length = MR_DIM_UNKNOWN;

    MR_TRY(infer_length(it, &length, err));
    length = attr != NULL ? attr->i : length;
    it->out->dtype = is_wide(it->in[0].dtype) ? MR_COMPLEX128 : MR_COMPLEX64;
    it->out->dims[it->out->rank - 1] = length > 0 ? length / 2 + 1 : length;
    return MR_OK;
}

static int infer_irfft(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *attr = mr_attr_get(it->attrs, "length");
    int64_t length = MR_DIM_UNKNOWN;

    MR_TRY(infer_length(it, &length, err));
    if (attr == NULL && length == 1) {
        return mr_error_set(err, MR_EINVAL,
                            "an axis of size 1 is the transform of no values: give a length");
    }
    if (attr == NULL && length > INT64_MAX / 2) {
        return mr_error_set(err, MR_EINVAL, "an axis of size %lld", (long long)length);
    }
    it->out->dtype = is_wide(it->in[0].dtype) ? MR_FLOAT64 : MR_FLOAT32;
    it->out->dims[it->out->rank - 1] = attr != NULL ? attr->i
                                       : length > 0 ? 2 * (length - 1)
                                                    : length;
    return MR_OK;
}

/* ---- plans ---- */

static int prepare(const struct mr_attr *attrs, size_t nattrs, void **state, mr_error *err)
{
    const struct mr_attr *length = mr_attr_find(attrs, nattrs, "length");

    if (length != NULL) {
        *state = mr_fft_plan_new((uint64_t)length->i, err);
        return *state != NULL ? MR_OK : MR_EEXHAUSTED;
    }
    return MR_OK;
}

static void release(void *state)
{
    mr_fft_plan_free(state);
}

struct job {
    const struct mr_tensor *x;
    struct mr_result *out;
    const struct mr_fft_plan *plan;
    struct mr_fft_line *line;
    uint64_t n;     /* length of the transform */
    uint64_t from;  /* values a line of the input */
    uint64_t to;    /* and of the result */
    uint64_t lines; /* how many */
    bool inverse;
};

typedef void (*run_fn)(struct job *job);

static int run_lines(const struct mr_row *row, struct mr_result *out, uint64_t n, run_fn run,
                     mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    MR_AUTO(mr_fft_plan_free) struct mr_fft_plan *own = NULL;

    if (out->count == 0) {
        return MR_OK;
    }
    const struct mr_fft_plan *plan = row->state;
    if (plan == NULL) {
        own = mr_fft_plan_new(n, err);
        plan = own;
    }
    if (plan == NULL) {
        return MR_EEXHAUSTED;
    }
    struct mr_fft_line line;
    struct job job = {.x = x,
                      .out = out,
                      .plan = plan,
                      .line = &line,
                      .n = n,
                      .from = (uint64_t)x->dims[x->rank - 1],
                      .to = (uint64_t)out->dims[out->rank - 1],
                      .inverse = mr_attr_bool(row->attrs, "inverse", false)};
    job.lines = out->count / job.to;
    MR_TRY(mr_fft_line_init(&line, plan, err));
    run(&job);
    mr_fft_line_free(&line);
    return MR_OK;
}

/* ---- complex to complex ---- */

static void run_fft(struct job *job)
{
    bool wide = is_wide(job->out->dtype);
    double scale = job->inverse ? 1 / (double)job->n : 1;
    double *re = job->inverse ? job->line->im : job->line->re;
    double *im = job->inverse ? job->line->re : job->line->im;

    for (uint64_t l = 0; l < job->lines; l++) {
        const unsigned char *from = job->x->values + l * job->from * job->x->width;
        unsigned char *to = job->out->values + l * job->to * job->out->width;

        for (uint64_t k = 0; k < job->n; k++) {
            re[k] = part(from, wide, 2 * k);
            im[k] = part(from, wide, 2 * k + 1);
        }
        mr_fft_run(job->plan, job->line);
        for (uint64_t k = 0; k < job->n; k++) {
            put_complex(to, wide, k, re[k] * scale, im[k] * scale);
        }
    }
}

static int fill_fft(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return run_lines(row, out, (uint64_t)out->dims[out->rank - 1], run_fft, err);
}

/* ---- real to complex ---- */

/* A line as the real or imaginary part: cut off, or zeros behind it. */
static void load_real(const struct job *job, uint64_t l, double *to)
{
    const unsigned char *from = job->x->values + l * job->from * job->x->width;
    uint64_t n = MR_MIN(job->from, job->n);
    bool wide = is_wide(job->x->dtype);

    for (uint64_t k = 0; k < n; k++) {
        to[k] = part(from, wide, k);
    }
    memset(to + n, 0, (job->n - n) * sizeof *to);
}

/* The transforms of the two parts of a line differ in symmetry: each has its mirror as its
 * conjugate. */
static void run_rfft(struct job *job)
{
    const double *re = job->line->re;
    const double *im = job->line->im;
    bool wide = is_wide(job->out->dtype);

    for (uint64_t l = 0; l < job->lines; l += 2) {
        bool both = l + 1 < job->lines;
        unsigned char *first = job->out->values + l * job->to * job->out->width;
        unsigned char *second = first + job->to * job->out->width;

        load_real(job, l, job->line->re);
        if (both) {
            load_real(job, l + 1, job->line->im);
        } else {
            memset(job->line->im, 0, job->n * sizeof *im);
        }
        mr_fft_run(job->plan, job->line);
        for (uint64_t k = 0; k < job->to; k++) {
            uint64_t m = k == 0 ? 0 : job->n - k;

            put_complex(first, wide, k, (re[k] + re[m]) / 2, (im[k] - im[m]) / 2);
            if (both) {
                put_complex(second, wide, k, (im[k] + im[m]) / 2, (re[m] - re[k]) / 2);
            }
        }
    }
}

static int fill_rfft(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    int64_t n = mr_attr_int(row->attrs, "length", x->dims[x->rank - 1]);

    return run_lines(row, out, (uint64_t)n, run_rfft, err);
}

/* ---- complex to real ---- */

/* The first half of a line, and its mirror: of the numbers in the middle and at the start only the
 * real part counts. */
static void load_half(const struct job *job, uint64_t l)
{
    const unsigned char *from = job->x->values + l * job->from * job->x->width;
    bool wide = is_wide(job->x->dtype);
    double *re = job->line->re;
    double *im = job->line->im;
    uint64_t half = job->n / 2 + 1;

    for (uint64_t k = 0; k < half; k++) {
        bool there = k < job->from;
        bool real = k == 0 || 2 * k == job->n;

        re[k] = there ? part(from, wide, 2 * k) : 0;
        im[k] = there && !real ? part(from, wide, 2 * k + 1) : 0;
        if (!real) {
            re[job->n - k] = re[k];
            im[job->n - k] = -im[k];
        }
    }
}

static void run_irfft(struct job *job)
{
    bool wide = is_wide(job->out->dtype);

    for (uint64_t l = 0; l < job->lines; l++) {
        unsigned char *to = job->out->values + l * job->to * job->out->width;

        load_half(job, l);
        /* The result is real: a transform of the conjugate gives the same. */
        for (uint64_t k = 0; k < job->n; k++) {
            job->line->im[k] = -job->line->im[k];
        }
        mr_fft_run(job->plan, job->line);
        for (uint64_t k = 0; k < job->n; k++) {
            put_part(to, wide, k, job->line->re[k] / (double)job->n);
        }
    }
}

static int fill_irfft(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return run_lines(row, out, (uint64_t)out->dims[out->rank - 1], run_irfft, err);
}

MR_ROWS_KERNEL(fft, 1, 1, MR_SET_COMPLEX, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_fft,
               .fill = fill_fft, .prepare = prepare, .release = release,
               .attr_table = {{"inverse", MR_ATTR_BOOL, true}, {"length", MR_ATTR_INT, true}});
MR_ROWS_KERNEL(irfft, 1, 1, MR_SET_COMPLEX, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_irfft,
               .fill = fill_irfft, .prepare = prepare, .release = release,
               .attr_table = {{"length", MR_ATTR_INT, true}});
MR_ROWS_KERNEL(rfft, 1, 1, MR_SET(MR_FLOAT32) | MR_SET(MR_FLOAT64), .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_rfft, .fill = fill_rfft, .prepare = prepare, .release = release,
               .attr_table = {{"length", MR_ATTR_INT, true}});
