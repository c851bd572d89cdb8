#include "ops/einsum_product.h"

#include "base/cancel.h"
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/scratch.h"

/* Walks along axes. */
struct walk {
    const struct mr_axes *axes;
    int64_t counter[MR_RANK_MAX];
};

/* The next place, the last axis moving first; false after the last one. */
static bool step(struct walk *w, int axes, const int64_t *strides, int64_t *at)
{
    for (int d = axes - 1; d >= 0; d--) {
        *at += strides[d];
        if (++w->counter[d] < w->axes->sizes[d]) {
            return true;
        }
        *at -= strides[d] * w->axes->sizes[d];
        w->counter[d] = 0;
    }
    return false;
}

/* What one walks over outside of a run along the last axis. */
struct runs {
    uint64_t n;
    int64_t stride;
    int outer;
};

static struct runs runs_of(const struct mr_axes *axes, int tensor)
{
    if (axes->n == 0) {
        return (struct runs){1, 0, 0};
    }
    return (struct runs){(uint64_t)axes->sizes[axes->n - 1], axes->strides[tensor][axes->n - 1],
                         axes->n - 1};
}

/* How the matrices of a product lie: row i of the left one is @left + i * inner. */
struct matrices {
    uint64_t rows;
    uint64_t columns;
    uint64_t inner;
};

struct routines {
    size_t width; /* of a value of a matrix */
    void (*add_run)(void *to, const void *from, int64_t stride, uint64_t n);
    void (*put_run)(void *to, int64_t stride, const void *from, uint64_t n);
    int (*multiply)(const struct matrices *m, const void *left, const void *right, void *product,
                    mr_error *err);
};

/* So many inner values and columns of the right matrix stay in the cache while all rows pass. */
#define BLOCK_INNER 64
#define BLOCK_COLUMNS 512

#define PRODUCT(tag, dtype, S, W, N, LD, ST, ...)                                                  \
    static void add_run_##tag(void *to, const void *from, int64_t stride, uint64_t n)              \
    {                                                                                              \
        W *z = to;                                                                                 \
        const S *x = from;                                                                         \
                                                                                                   \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            z[i] += LD(W, x[(int64_t)i * stride]);                                                 \
        }                                                                                          \
    }                                                                                              \
    static void put_run_##tag(void *to, int64_t stride, const void *from, uint64_t n)              \
    {                                                                                              \
        S *z = to;                                                                                 \
        const W *x = from;                                                                         \
                                                                                                   \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            z[(int64_t)i * stride] = ST(S, x[i]);                                                  \
        }                                                                                          \
    }                                                                                              \
    MR_HOT_##tag static void multiply_block_##tag(                                                 \
        const struct matrices *m, uint64_t k0, uint64_t k1, uint64_t j0, uint64_t j1,              \
        const W *restrict a, const W *restrict b, W *restrict c)                                   \
    {                                                                                              \
        for (uint64_t i = 0; i < m->rows; i++) {                                                   \
            W *restrict z = c + i * m->columns;                                                    \
                                                                                                   \
            for (uint64_t k = k0; k < k1; k++) {                                                   \
                const W v = a[i * m->inner + k];                                                   \
                const W *restrict y = b + k * m->columns;                                          \
                                                                                                   \
                for (uint64_t j = j0; j < j1; j++) {                                               \
                    z[j] += v * y[j];                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static int multiply_##tag(const struct matrices *m, const void *left, const void *right,       \
                              void *product, mr_error *err)                                        \
    {                                                                                              \
        for (uint64_t j = 0; j < m->columns; j += BLOCK_COLUMNS) {                                 \
            for (uint64_t k = 0; k < m->inner; k += BLOCK_INNER) {                                 \
                MR_TRY(mr_cancel_check(err));                                                      \
                multiply_block_##tag(m, k, MR_MIN(k + BLOCK_INNER, m->inner), j,                   \
                                     MR_MIN(j + BLOCK_COLUMNS, m->columns), left, right, product); \
            }                                                                                      \
        }                                                                                          \
        return MR_OK;                                                                              \
    }
MR_EACH_FLOAT(PRODUCT, )
PRODUCT(i32, MR_INT32, int32_t, uint32_t, int32_t, MR_INT_LOAD, MR_INT_STORE, )
PRODUCT(i64, MR_INT64, int64_t, uint64_t, int64_t, MR_INT_LOAD, MR_INT_STORE, )

#define ROUTINES(tag, dtype, S, W, N, LD, ST, ...)                                                 \
    [dtype] = {sizeof(W), add_run_##tag, put_run_##tag, multiply_##tag},
static const struct routines routines_of[MR_DTYPE_COUNT] = {
    MR_EACH_FLOAT(ROUTINES, )
        ROUTINES(i32, MR_INT32, int32_t, uint32_t, int32_t, MR_INT_LOAD, MR_INT_STORE, )
            ROUTINES(i64, MR_INT64, int64_t, uint64_t, int64_t, MR_INT_LOAD, MR_INT_STORE, )};

/* Adds the values of a tensor along @axes, from @from on, to those at @to. */
static void add_axes(const struct routines *r, const struct mr_axes *axes, int tensor, size_t width,
                     const unsigned char *from, unsigned char *to)
{
    struct runs runs = runs_of(axes, tensor);
    struct walk w = {.axes = axes};
    int64_t at = 0;

    do {
        r->add_run(to, from + at * (int64_t)width, runs.stride, runs.n);
        to += runs.n * r->width;
    } while (step(&w, runs.outer, axes->strides[tensor], &at));
}

/* A matrix of zeros becomes input @tensor; what that has alone is summed up. */
struct packing {
    const struct mr_axes *lines;
    const struct mr_axes *columns;
    const struct mr_axes *summed;
};

static void pack(const struct routines *r, const struct packing *p, int tensor, size_t width,
                 const unsigned char *from, unsigned char *to)
{
    struct walk sums = {.axes = p->summed};
    int64_t sum_at = 0;

    if (p->summed->count == 0) {
        return;
    }
    do {
        struct walk w = {.axes = p->lines};
        unsigned char *line = to;
        int64_t at = sum_at;

        do {
            add_axes(r, p->columns, tensor, width, from + at * (int64_t)width, line);
            line += p->columns->count * r->width;
        } while (step(&w, p->lines->n, p->lines->strides[tensor], &at));
    } while (step(&sums, p->summed->n, p->summed->strides[tensor], &sum_at));
}

/* The product goes where the result has it. */
static void unpack(const struct routines *r, const struct mr_axes *rows,
                   const struct mr_axes *columns, size_t width, const unsigned char *from,
                   unsigned char *to)
{
    struct runs runs = runs_of(columns, 2);
    struct walk outer = {.axes = rows};
    int64_t row_at = 0;

    do {
        struct walk w = {.axes = columns};
        int64_t at = row_at;

        do {
            r->put_run(to + at * (int64_t)width, runs.stride, from, runs.n);
            from += runs.n * r->width;
        } while (step(&w, runs.outer, columns->strides[2], &at));
    } while (step(&outer, rows->n, rows->strides[2], &row_at));
}

struct buffers {
    struct mr_scratch scratch;
    unsigned char *matrices[3];
    size_t bytes[3];
};

static int alloc_buffers(struct buffers *b, size_t width, const uint64_t counts[3], mr_error *err)
{
    size_t total = 0;
    void *room;

    for (int i = 0; i < 3; i++) {
        if (__builtin_mul_overflow(counts[i], width, &b->bytes[i]) ||
            __builtin_add_overflow(total, b->bytes[i], &total)) {
            return mr_error_nomem(err);
        }
    }
    MR_TRY(mr_scratch_take(&b->scratch, total, &room, err));
    for (int i = 0; i < 3; i++) {
        b->matrices[i] = room;
        room = b->matrices[i] + b->bytes[i];
    }
    return MR_OK;
}

/* One place of the batch, which is @at in the inputs and the result. The longer side of the product
 * becomes its columns, along which the inner loop runs. */
static int run_place(const struct mr_product *p, const struct routines *r, size_t width,
                     const unsigned char *const values[2], unsigned char *out, const int64_t at[3],
                     struct buffers *b, mr_error *err)
{
    int left = p->kept[0].count > p->kept[1].count ? 1 : 0;
    const struct mr_axes *rows = &p->kept[left];
    const struct mr_axes *columns = &p->kept[1 - left];
    struct matrices m = {rows->count, columns->count, p->inner.count};

    for (int i = 0; i < 3; i++) {
        memset(b->matrices[i], 0, b->bytes[i]);
    }
    if (m.inner > 0) {
        struct packing a = {rows, &p->inner, &p->summed[left]};
        struct packing c = {&p->inner, columns, &p->summed[1 - left]};

        pack(r, &a, left, width, values[left] + at[left] * (int64_t)width, b->matrices[0]);
        pack(r, &c, 1 - left, width, values[1 - left] + at[1 - left] * (int64_t)width,
             b->matrices[1]);
    }
    MR_TRY(r->multiply(&m, b->matrices[0], b->matrices[1], b->matrices[2], err));
    unpack(r, rows, columns, width, b->matrices[2], out + at[2] * (int64_t)width);
    return MR_OK;
}

/* One input: its sums are the result. */
static void run_alone(const struct mr_product *p, const struct routines *r, size_t width,
                      const unsigned char *values, unsigned char *out, struct buffers *b)
{
    static const struct mr_axes none = {.count = 1};
    struct packing packing = {&none, &p->kept[0], &p->summed[0]};

    memset(b->matrices[2], 0, b->bytes[2]);
    pack(r, &packing, 0, width, values, b->matrices[2]);
    unpack(r, &none, &p->kept[0], width, b->matrices[2], out);
}

static int run_batch(const struct mr_product *p, const struct routines *r, size_t width,
                     const unsigned char *const values[2], unsigned char *out, struct buffers *b,
                     mr_error *err)
{
    for (uint64_t i = 0; i < p->batch.count; i++) {
        int64_t at[3] = {0};
        uint64_t rest = i;

        for (int d = p->batch.n - 1; d >= 0; d--) {
            int64_t index = (int64_t)(rest % (uint64_t)p->batch.sizes[d]);

            for (int t = 0; t < 3; t++) {
                at[t] += index * p->batch.strides[t][d];
            }
            rest /= (uint64_t)p->batch.sizes[d];
        }
        MR_TRY(run_place(p, r, width, values, out, at, b, err));
    }
    return MR_OK;
}

int mr_product_run(const struct mr_product *p, unsigned dtype, const unsigned char *const values[2],
                   unsigned char *out, mr_error *err)
{
    const struct routines *r = &routines_of[dtype];
    size_t width = mr_dtype_size((mr_dtype)dtype);
    bool alone = values[1] == NULL;
    const struct mr_axes *kept = p->kept;
    int left = kept[0].count > kept[1].count ? 1 : 0;
    uint64_t counts[3] = {alone ? 0 : kept[left].count * p->inner.count,
                          alone ? 0 : kept[1 - left].count * p->inner.count,
                          kept[0].count * kept[1].count};
    struct buffers b;
    int rc = MR_OK;

    MR_ASSERT(r->width > 0);
    MR_TRY(alloc_buffers(&b, r->width, counts, err));
    if (alone) {
        run_alone(p, r, width, values[0], out, &b);
    } else {
        rc = run_batch(p, r, width, values, out, &b, err);
    }
    mr_scratch_free(&b.scratch);
    return rc;
}
