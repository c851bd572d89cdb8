/*
 * What it costs that rows know which records they were read from (src/element/trace.h), while nothing
 * fails: operators over a file of lines, with that knowledge and without. The program is linked so
 * that files have no traces while `traced` is false: as where there is no memory for them. Rounds are
 * interleaved; one line of JSON with CPU time with and without, and their ratio: of the medians.
 *
 *     trace_bench DIR [ROUNDS [CASE [0|1]]]
 *
 * CASE: that one only; 0 or 1: without or with traces only, for a profiler.
 */
#include "element/trace.h"
#include "engine/engine.h"

#include "base/base.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LINES 200000
#define FILES 4
#define ROUNDS_MAX 99

static bool traced;

/* The linker puts these in each other's place (--wrap). */
mr_trace_file *__real_mr_trace_file_new(const char *path, enum mr_trace_places places);
mr_trace_file *__wrap_mr_trace_file_new(const char *path, enum mr_trace_places places);

mr_trace_file *__wrap_mr_trace_file_new(const char *path, enum mr_trace_places places)
{
    return traced ? __real_mr_trace_file_new(path, places) : NULL;
}

static _Noreturn void die(const char *what, const mr_error *err)
{
    (void)fprintf(stderr, "trace_bench: %s: %s\n", what, err == NULL ? "?" : err->message);
    exit(1);
}

static double cpu_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* ---- files ---- */

static char paths[FILES][4096];

static void write_files(const char *dir)
{
    for (int i = 0; i < FILES; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/trace_bench.%d.%d", dir, (int)getpid(), i);
        FILE *f = fopen(paths[i], "w");

        if (f == NULL) {
            die(paths[i], NULL);
        }
        for (int r = 0; r < LINES / FILES; r++) {
            (void)fprintf(f, "%d\n", 7919 * r % 1000003);
        }
        if (fclose(f) != 0) {
            die(paths[i], NULL);
        }
    }
}

static void remove_files(void)
{
    for (int i = 0; i < FILES; i++) {
        (void)unlink(paths[i]);
    }
}

/* ---- datasets; those that take one consume its reference ---- */

static mr_dataset *make(const char *op, mr_dataset *input, mr_function *fn,
                        const struct mr_attr *attrs, size_t n, mr_builder *scope)
{
    mr_dataset *ds = NULL;
    mr_error err;

    if (mr_dataset_apply(op, &input, input != NULL, attrs, n, &fn, fn != NULL, scope, &ds, &err) <
        0) {
        die(op, &err);
    }
    mr_dataset_unref(input);
    mr_function_unref(fn);
    return ds;
}

static struct mr_attr int_attr(const char *name, int64_t i)
{
    return (struct mr_attr){.name = name, .kind = MR_ATTR_INT, .i = i};
}

static mr_dataset *with_int(const char *op, mr_dataset *input, const char *name, int64_t i)
{
    const struct mr_attr attr = int_attr(name, i);

    return make(op, input, NULL, &attr, 1, NULL);
}

static mr_builder *begin(const mr_dataset *ds)
{
    mr_builder *b = NULL;
    mr_error err;

    if (mr_builder_new(mr_dataset_spec(ds), NULL, &b, &err) < 0) {
        die("function", &err);
    }
    return b;
}

/* A dataset of one line each of all files in turn. */
static mr_dataset *lines_in_turn(void)
{
    uint64_t offsets[FILES + 1] = {0};
    char heap[sizeof paths];
    struct mr_column names = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = heap};
    const struct mr_attr path = {.name = "filename", .kind = MR_ATTR_VALUE, .i = 0};
    const struct mr_attr turn[] = {int_attr("cycle_length", FILES), int_attr("block_length", 1)};
    mr_function *fn = NULL;
    mr_block *block = NULL;
    mr_error err;

    for (int i = 0; i < FILES; i++) {
        size_t n = strlen(paths[i]);

        memcpy(heap + offsets[i], paths[i], n);
        offsets[i + 1] = offsets[i] + n;
    }
    if (mr_block_new(FILES, &names, 1, &block, &err) < 0) {
        die("block", &err);
    }
    const struct mr_attr tensors = {.name = "tensors", .kind = MR_ATTR_BLOCK, .block = block};
    mr_dataset *files = make("from_tensor_slices", NULL, NULL, &tensors, 1, NULL);
    mr_block_unref(block);
    mr_builder *b = begin(files);
    mr_dataset *inner = make("text_line", NULL, NULL, &path, 1, b);
    if (mr_builder_finish_dataset(b, inner, &fn, &err) < 0) {
        die("function", &err);
    }
    mr_dataset_unref(inner);
    mr_builder_free(b);
    return make("interleave", files, fn, turn, 2, NULL);
}

/* Those of the files one behind the other. */
static mr_dataset *lines(void)
{
    mr_dataset *all = NULL;

    for (int i = 0; i < FILES; i++) {
        const struct mr_attr path = {
            .name = "filename", .kind = MR_ATTR_BYTES, .bytes = paths[i], .size = strlen(paths[i])};
        mr_dataset *both[2] = {all, make("text_line", NULL, NULL, &path, 1, NULL)};
        mr_error err;

        all = both[1];
        if (both[0] != NULL) {
            if (mr_dataset_apply("concatenate", both, 2, NULL, 0, NULL, 0, NULL, &all, &err) < 0) {
                die("concatenate", &err);
            }
            mr_dataset_unref(both[0]);
            mr_dataset_unref(both[1]);
        }
    }
    return all;
}

static mr_dataset *numbers(void)
{
    const struct mr_attr dtype = {.name = "dtype", .kind = MR_ATTR_DTYPE, .i = MR_INT64};
    mr_dataset *ds = lines();
    mr_builder *b = begin(ds);
    const uint32_t in = 0;
    mr_function *fn = NULL;
    uint32_t out;
    size_t n;
    mr_error err;

    if (mr_builder_add(b, "string_to_number", &in, 1, &dtype, 1, NULL, 0, &out, 1, &n, &err) < 0 ||
        mr_builder_finish(b, &out, 1, NULL, &fn, &err) < 0) {
        die("function", &err);
    }
    mr_builder_free(b);
    return make("map", ds, fn, NULL, 0, NULL);
}

static mr_dataset *linear(void)
{
    return with_int("batch", numbers(), "batch_size", 64);
}

static mr_dataset *shuffle_lines(void)
{
    return with_int("shuffle", lines(), "buffer_size", 10000);
}

static mr_dataset *shuffle_numbers(void)
{
    return with_int("shuffle", numbers(), "buffer_size", 10000);
}

static mr_dataset *shuffle_batch(void)
{
    return with_int("batch", shuffle_numbers(), "batch_size", 64);
}

static mr_dataset *window(void)
{
    return with_int("window", numbers(), "size", 8);
}

/* The elements of its windows. */
static mr_dataset *window_flat(void)
{
    static const char spec[] = "[[[\"int64\"]],\"*\"]";
    const struct mr_attr of[] = {
        {.name = "dataset", .kind = MR_ATTR_VALUE, .i = 0},
        {.name = "spec", .kind = MR_ATTR_BYTES, .bytes = spec, .size = sizeof spec - 1},
    };
    mr_dataset *windows = window();
    mr_builder *b = begin(windows);
    mr_dataset *inner = make("elements_of", NULL, NULL, of, 2, b);
    mr_function *fn = NULL;
    mr_error err;

    if (mr_builder_finish_dataset(b, inner, &fn, &err) < 0) {
        die("function", &err);
    }
    mr_dataset_unref(inner);
    mr_builder_free(b);
    return make("flat_map", windows, fn, NULL, 0, NULL);
}

static mr_dataset *cache(void)
{
    return make("cache", numbers(), NULL, NULL, 0, NULL);
}

static mr_dataset *batch_unbatch(void)
{
    return make("unbatch", with_int("batch", numbers(), "batch_size", 32), NULL, NULL, 0, NULL);
}

static const struct {
    const char *name;
    mr_dataset *(*make)(void);
} cases[] = {
    {"map_batch", linear},
    {"shuffle_lines", shuffle_lines},
    {"shuffle_numbers", shuffle_numbers},
    {"shuffle_batch", shuffle_batch},
    {"window", window},
    {"window_flat_map", window_flat},
    {"interleave", lines_in_turn},
    {"cache", cache},
    {"batch_unbatch", batch_unbatch},
};
#define CASES (sizeof cases / sizeof cases[0])

/* CPU seconds of one pass. */
static double pass(mr_dataset *(*make_it)(void))
{
    const struct mr_engine_options opts = {.seed = 1, .threads = 1};
    mr_dataset *ds = make_it(); /* a new one: it keeps what is cached */
    mr_engine_iter *it = NULL;
    mr_block *block = NULL;
    mr_error err;

    if (mr_engine_open(ds, &opts, &it, &err) < 0) {
        die("open", &err);
    }
    double begin_s = cpu_s();
    int rc;
    while ((rc = mr_engine_pull(it, (struct mr_want){.rows_max = 1024}, -1, &block, &err)) ==
           MR_OK) {
        mr_block_unref(block);
    }
    if (rc != MR_END) {
        die("pull", &err);
    }
    mr_engine_close(it);
    double took = cpu_s() - begin_s;
    mr_dataset_unref(ds);
    return took;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[2]) : 9;
    int only = argc > 4 ? atoi(argv[4]) : -1;
    const char *comma = "{";

    if (argc < 2 || rounds < 1 || rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: trace_bench DIR [ROUNDS [CASE [0|1]]]\n");
        return 2;
    }
    write_files(argv[1]);
    for (size_t i = 0; i < CASES; i++) {
        double took[2][ROUNDS_MAX];

        if (argc > 3 && strcmp(argv[3], cases[i].name) != 0) {
            continue;
        }
        for (int r = 0; r < rounds; r++) {
            for (int with = 0; with < 2; with++) {
                if (only < 0 || only == with) {
                    traced = with;
                    took[with][r] = pass(cases[i].make);
                }
            }
        }
        if (only < 0) {
            qsort(took[0], (size_t)rounds, sizeof took[0][0], by_size);
            qsort(took[1], (size_t)rounds, sizeof took[0][0], by_size);
            double with = took[1][rounds / 2];
            double without = took[0][rounds / 2];

            printf("%s\"%s\": {\"with_s\": %.4f, \"without_s\": %.4f, \"ratio\": %.3f}", comma,
                   cases[i].name, with, without, with / without);
            comma = ",\n ";
        }
    }
    printf("}\n");
    remove_files();
    return 0;
}
