#include "ops/fft_plan.h"

#include "ops/loops.h"

#include <math.h>

struct mr_fft_plan {
    uint64_t n;
    uint64_t size;  /* a power of two: n, or of the convolution */
    double *cosine; /* size: of the turns k / size, k < size / 2, then the sines */
    double *sine;
    double *chirp_re; /* n: of half turns k * k / n. NULL where n is a power of two */
    double *chirp_im;
    double *kernel_re; /* size: the transform of the chirp that runs the other way */
    double *kernel_im;
    mr_buffer *memory;
};

uint64_t mr_fft_plan_length(const struct mr_fft_plan *plan)
{
    return plan->n;
}

/* One pass after the other from x to y and back: values that meet are half of what is left apart,
 * and come out in order. Returns whether the result is in x. */
MR_HOT static bool transform(const struct mr_fft_plan *plan, double *restrict xr,
                             double *restrict xi, double *restrict yr, double *restrict yi)
{
    bool in_x = true;

    for (uint64_t half = plan->size / 2, step = 1; half > 0; half /= 2, step *= 2) {
        for (uint64_t p = 0; p < half; p++) {
            double c = plan->cosine[p * step];
            double s = -plan->sine[p * step];
            const double *ar = (in_x ? xr : yr) + step * p;
            const double *ai = (in_x ? xi : yi) + step * p;
            const double *br = ar + step * half;
            const double *bi = ai + step * half;
            double *zr = (in_x ? yr : xr) + step * 2 * p;
            double *zi = (in_x ? yi : xi) + step * 2 * p;

            for (uint64_t q = 0; q < step; q++) {
                double dr = ar[q] - br[q];
                double di = ai[q] - bi[q];

                zr[q] = ar[q] + br[q];
                zi[q] = ai[q] + bi[q];
                zr[q + step] = dr * c - di * s;
                zi[q + step] = dr * s + di * c;
            }
        }
        in_x = !in_x;
    }
    return in_x;
}

/* Four arrays of plan->size: the transform of the first two comes out in them. */
static void transform_in_place(const struct mr_fft_plan *plan, double *work)
{
    uint64_t size = plan->size;

    if (!transform(plan, work, work + size, work + 2 * size, work + 3 * size)) {
        memcpy(work, work + 2 * size, 2 * size * sizeof *work);
    }
}

/* The chirp with the sign of its other direction, wrapped round, as what to convolve with. */
static void make_kernel(struct mr_fft_plan *plan, double *work)
{
    uint64_t size = plan->size;

    memset(work, 0, 4 * size * sizeof *work);
    for (uint64_t k = 0; k < plan->n; k++) {
        uint64_t other = k == 0 ? 0 : size - k;

        work[k] = work[other] = plan->chirp_re[k];
        work[size + k] = work[size + other] = -plan->chirp_im[k];
    }
    transform_in_place(plan, work);
    memcpy(plan->kernel_re, work, size * sizeof *work);
    memcpy(plan->kernel_im, work + size, size * sizeof *work);
}

static int make_chirp(struct mr_fft_plan *plan, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *memory = NULL;

    MR_TRY(mr_buffer_new(plan->size * 4 * sizeof(double), &memory, err));
    double *work = mr_buffer_data(memory);
    for (uint64_t k = 0, square = 0; k < plan->n; k++) {
        double angle = M_PI * (double)square / (double)plan->n;

        plan->chirp_re[k] = cos(angle);
        plan->chirp_im[k] = -sin(angle);
        square = (square + 2 * k + 1) % (2 * plan->n); /* (k + 1) squared: exact as an angle */
    }
    make_kernel(plan, work);
    return MR_OK;
}

/* The plan and its arrays; NULL: there is no memory. */
static struct mr_fft_plan *alloc_plan(uint64_t n, bool direct, mr_error *err)
{
    uint64_t size = 1;

    if (n >= (uint64_t)1 << 40) { /* there is no memory for lengths above that anyway */
        (void)mr_error_nomem(err);
        return NULL;
    }
    while (size < (direct ? n : 2 * n - 1)) {
        size *= 2;
    }
    struct mr_fft_plan *plan = mr_malloc(sizeof *plan);
    if (plan == NULL) {
        (void)mr_error_nomem(err);
        return NULL;
    }
    size_t values = (size_t)(size + (direct ? 0 : 2 * n + 2 * size));
    *plan = (struct mr_fft_plan){.n = n, .size = size};
    if (mr_buffer_new(values * sizeof(double), &plan->memory, err) != MR_OK) {
        mr_free(plan);
        return NULL;
    }
    return plan;
}

struct mr_fft_plan *mr_fft_plan_new(uint64_t n, mr_error *err)
{
    bool direct = (n & (n - 1)) == 0;
    struct mr_fft_plan *plan = alloc_plan(n, direct, err);

    if (plan == NULL) {
        return NULL;
    }
    uint64_t size = plan->size;
    plan->cosine = mr_buffer_data(plan->memory);
    plan->sine = plan->cosine + size / 2;
    for (uint64_t k = 0; k < size / 2; k++) {
        plan->cosine[k] = cos(2 * M_PI * (double)k / (double)size);
        plan->sine[k] = sin(2 * M_PI * (double)k / (double)size);
    }
    if (direct) {
        return plan;
    }
    plan->chirp_re = plan->cosine + size;
    plan->chirp_im = plan->chirp_re + n;
    plan->kernel_re = plan->chirp_im + n;
    plan->kernel_im = plan->kernel_re + size;
    if (make_chirp(plan, err) < 0) {
        mr_fft_plan_free(plan);
        return NULL;
    }
    return plan;
}

void mr_fft_plan_free(struct mr_fft_plan *plan)
{
    if (plan != NULL) {
        mr_buffer_unref(plan->memory);
        mr_free(plan);
    }
}

int mr_fft_line_init(struct mr_fft_line *line, const struct mr_fft_plan *plan, mr_error *err)
{
    size_t values = (size_t)(2 * plan->n + 4 * plan->size);

    void *room;

    MR_TRY(mr_scratch_take(&line->scratch, values * sizeof(double), &room, err));
    line->re = room;
    line->im = line->re + plan->n;
    line->work = line->im + plan->n;
    return MR_OK;
}

void mr_fft_line_free(struct mr_fft_line *line)
{
    mr_scratch_free(&line->scratch);
}

/* A product with the chirp, a convolution with it, and a product again. */
static void run_convolution(const struct mr_fft_plan *plan, const struct mr_fft_line *line)
{
    uint64_t size = plan->size;
    double *wr = line->work;
    double *wi = line->work + size;

    memset(line->work, 0, 2 * size * sizeof *wr);
    for (uint64_t k = 0; k < plan->n; k++) {
        wr[k] = line->re[k] * plan->chirp_re[k] - line->im[k] * plan->chirp_im[k];
        wi[k] = line->re[k] * plan->chirp_im[k] + line->im[k] * plan->chirp_re[k];
    }
    transform_in_place(plan, line->work);
    /* The inverse is the transform with the parts exchanged: the product goes in that way. */
    for (uint64_t k = 0; k < size; k++) {
        double re = wr[k] * plan->kernel_re[k] - wi[k] * plan->kernel_im[k];
        double im = wr[k] * plan->kernel_im[k] + wi[k] * plan->kernel_re[k];

        wr[k] = im / (double)size;
        wi[k] = re / (double)size;
    }
    transform_in_place(plan, line->work);
    for (uint64_t k = 0; k < plan->n; k++) {
        line->re[k] = wi[k] * plan->chirp_re[k] - wr[k] * plan->chirp_im[k];
        line->im[k] = wi[k] * plan->chirp_im[k] + wr[k] * plan->chirp_re[k];
    }
}

void mr_fft_run(const struct mr_fft_plan *plan, const struct mr_fft_line *line)
{
    size_t bytes = (size_t)plan->n * sizeof(double);

    if (plan->chirp_re != NULL) {
        run_convolution(plan, line);
        return;
    }
    double *work = line->work;
    if (!transform(plan, line->re, line->im, work, work + plan->n)) {
        memcpy(line->re, work, bytes);
        memcpy(line->im, work + plan->n, bytes);
    }
}
