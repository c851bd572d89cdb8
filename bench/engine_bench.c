/*
 * The engine alone, on one core: range(n).map(x -> {"a": x * x + 1, "b": cast(x,
 * float32)}).batch(32) through the public iterator, with one save on the way; beside it the same
 * computation as a plain loop over arrays. Rounds are interleaved; one line of JSON with the
 * medians.
 *
 *     engine_bench [ELEMENTS] [ROUNDS]
 */
#include <millrace/block.h>
#include <millrace/dataset.h>
#include <millrace/iterator.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 32
#define ROUNDS_MAX 99
#define LOOP_BLOCK 8192

static _Noreturn void die(const char *what, const mr_error *err)
{
    (void)fprintf(stderr, "engine_bench: %s: %s\n", what,
                  err == NULL ? "wrong result" : err->message);
    exit(1);
}

static double now_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void stay_on_one_core(void)
{
    cpu_set_t allowed;
    cpu_set_t one;

    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0) {
        return; /* not pinned: still a measurement */
    }
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_SET(cpu, &one);
            (void)sched_setaffinity(0, sizeof one, &one);
            return;
        }
    }
}

/* ---- the pipeline ---- */

static uint32_t add_op(mr_builder *b, const char *op, uint32_t x, uint32_t y, size_t nin,
                       const struct mr_attr *attr)
{
    const uint32_t in[2] = {x, y};
    uint32_t out;
    size_t n;
    mr_error err;

    if (mr_builder_add(b, op, in, nin, attr, attr != NULL, NULL, 0, &out, 1, &n, &err) < 0) {
        die(op, &err);
    }
    return out;
}

/* x -> {"a": x * x + 1, "b": cast(x, float32)} */
static mr_function *make_function(const mr_spec *in)
{
    const int64_t one = 1;
    const struct mr_column column = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &one};
    const struct mr_attr dtype = {.name = "dtype", .kind = MR_ATTR_DTYPE, .i = MR_FLOAT32};
    mr_builder *b = NULL;
    mr_block *constant = NULL;
    mr_function *fn = NULL;
    uint32_t one_value;
    mr_error err;

    if (mr_builder_new(in, NULL, &b, &err) < 0 ||
        mr_block_new(1, &column, 1, &constant, &err) < 0 ||
        mr_builder_constant(b, constant, &one_value, &err) < 0) {
        die("function", &err);
    }
    const uint32_t outputs[2] = {
        add_op(b, "add", add_op(b, "mul", 0, 0, 2, NULL), one_value, 2, NULL),
        add_op(b, "cast", 0, 0, 1, &dtype),
    };
    if (mr_builder_finish(b, outputs, 2, "{\"a\":\"*\",\"b\":\"*\"}", &fn, &err) < 0) {
        die("function", &err);
    }
    mr_block_unref(constant);
    mr_builder_free(b);
    return fn;
}

static mr_dataset *apply(const char *op, mr_dataset *input, const struct mr_attr *attrs,
                         size_t nattrs, mr_function *fn)
{
    mr_dataset *ret = NULL;
    mr_error err;

    if (mr_dataset_apply(op, &input, input != NULL, attrs, nattrs, &fn, fn != NULL, NULL, &ret,
                         &err) < 0) {
        die(op, &err);
    }
    mr_dataset_unref(input);
    mr_function_unref(fn);
    return ret;
}

static mr_dataset *make_dataset(int64_t n)
{
    const struct mr_attr range[] = {{.name = "start", .kind = MR_ATTR_INT, .i = 0},
                                    {.name = "step", .kind = MR_ATTR_INT, .i = 1},
                                    {.name = "stop", .kind = MR_ATTR_INT, .i = n}};
    const struct mr_attr batch[] = {{.name = "batch_size", .kind = MR_ATTR_INT, .i = BATCH}};
    mr_dataset *ds = apply("range", NULL, range, 3, NULL);

    ds = apply("map", ds, NULL, 0, make_function(mr_dataset_spec(ds)));
    return apply("batch", ds, batch, 1, NULL);
}

/* Every batch is looked at: its first values, and how many there are. */
static int64_t check_block(const mr_block *block, int64_t first)
{
    const int64_t *a = mr_block_column(block, 0)->data;
    const float *b = mr_block_column(block, 1)->data;
    uint32_t rows = mr_block_rows(block);

    for (uint32_t r = 0; r < rows; r++) {
        int64_t x = first + (int64_t)r * BATCH;

        if (a[(size_t)r * BATCH] != x * x + 1 || b[(size_t)r * BATCH] != (float)x) {
            die("values", NULL);
        }
    }
    return (int64_t)rows * BATCH;
}

static double run_engine(mr_dataset *ds, int64_t n)
{
    const struct mr_iterator_options options = {
        .struct_size = sizeof options, .seed = 1, .threads = 1};
    mr_iterator *it = NULL;
    mr_block *block = NULL;
    mr_error err;
    bool saved = false;
    int64_t seen = 0;
    int rc;
    double start = now_s();

    if (mr_iterator_open(ds, &options, &it, &err) < 0) {
        die("open", &err);
    }
    while ((rc = mr_iterator_next_block(it, 0, -1, &block, &err)) == MR_OK) {
        seen += check_block(block, seen);
        mr_block_unref(block);
        if (!saved && seen >= n / 2) {
            void *state = NULL;
            size_t size = 0;

            if (mr_iterator_save(it, &state, &size, &err) < 0) {
                die("save", &err);
            }
            mr_free(state);
            saved = true;
        }
    }
    if (rc < 0) {
        die("next", &err);
    }
    double seconds = now_s() - start;
    if (seen != n || !saved) {
        die("count", NULL);
    }
    mr_iterator_free(it);
    return (double)n / seconds / 1e6;
}

/* ---- the baseline ---- */

static double run_loop(int64_t n)
{
    static int64_t a[LOOP_BLOCK];
    static float b[LOOP_BLOCK];
    double start = now_s();

    for (int64_t first = 0; first < n; first += LOOP_BLOCK) {
        int64_t rows = n - first < LOOP_BLOCK ? n - first : LOOP_BLOCK;

        for (int64_t i = 0; i < rows; i++) {
            uint64_t x = (uint64_t)(first + i);

            a[i] = (int64_t)(x * x + 1);
            b[i] = (float)(first + i);
        }
        __asm__ volatile("" ::"r"(a), "r"(b) : "memory"); /* the arrays are wanted */
    }
    return (double)n / (now_s() - start) / 1e6;
}

static int compare(const void *x, const void *y)
{
    double a = *(const double *)x;
    double b = *(const double *)y;

    return (a > b) - (a < b);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

int main(int argc, char **argv)
{
    int64_t n = argc > 1 ? strtoll(argv[1], NULL, 10) : 200000000;
    int rounds = argc > 2 ? atoi(argv[2]) : 5;
    double engine[ROUNDS_MAX];
    double loop[ROUNDS_MAX];
    double ratio[ROUNDS_MAX];

    if (n < 2 * BATCH || rounds < 1 || rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: engine_bench [ELEMENTS] [ROUNDS]\n");
        return 2;
    }
    n -= n % BATCH;
    stay_on_one_core();
    mr_dataset *ds = make_dataset(n);
    for (int r = 0; r < rounds; r++) {
        engine[r] = run_engine(ds, n);
        loop[r] = run_loop(n);
        ratio[r] = engine[r] / loop[r];
    }
    mr_dataset_unref(ds);
    printf("{\"m_elements_per_s\": %.1f, \"loop_m_elements_per_s\": %.1f, \"ratio\": %.3f, "
           "\"elements\": %lld, \"rounds\": %d}\n",
           median(engine, rounds), median(loop, rounds), median(ratio, rounds), (long long)n,
           rounds);
    return 0;
}
