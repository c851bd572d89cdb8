#include "support.h"

#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

_Noreturn void bench_die(const char *what, const mr_error *err)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, err == NULL ? strerror(errno) : err->message);
    exit(1);
}

double bench_now_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

mr_dataset *bench_apply(const char *op, mr_dataset *input, const struct mr_attr *attrs, size_t n)
{
    mr_dataset *ds = NULL;
    mr_error err = {0};

    if (mr_dataset_apply(op, &input, input == NULL ? 0 : 1, attrs, n, NULL, 0, NULL, &ds, &err) !=
        MR_OK) {
        bench_die(op, &err);
    }
    mr_dataset_unref(input);
    return ds;
}

struct mr_attr bench_int(const char *name, int64_t i)
{
    return (struct mr_attr){.name = name, .kind = MR_ATTR_INT, .i = i};
}

struct mr_attr bench_text(const char *name, const char *text)
{
    return (struct mr_attr){
        .name = name, .kind = MR_ATTR_BYTES, .bytes = text, .size = strlen(text)};
}

mr_dataset *bench_range(uint64_t n)
{
    struct mr_attr attrs[] = {bench_int("start", 0), bench_int("stop", (int64_t)n),
                              bench_int("step", 1)};

    return bench_apply("range", NULL, attrs, 3);
}

mr_dataset *bench_tensors(size_t element_bytes, uint64_t count)
{
    struct mr_column column = {.kind = MR_COLUMN_FIXED, .dtype = MR_UINT8, .rank = 1};
    mr_block *block = NULL;
    mr_error err = {0};
    void *data = malloc(element_bytes);

    if (data == NULL) {
        bench_die("malloc", NULL);
    }
    memset(data, 1, element_bytes);
    column.dims[0] = (int64_t)element_bytes;
    column.data = data;
    if (mr_block_new(1, &column, 1, &block, &err) != MR_OK) {
        bench_die("block", &err);
    }
    struct mr_attr tensor = {.name = "tensors", .kind = MR_ATTR_BLOCK, .block = block};
    struct mr_attr times = bench_int("count", (int64_t)count);
    mr_dataset *ds =
        bench_apply("repeat", bench_apply("from_tensors", NULL, &tensor, 1), &times, 1);
    mr_block_unref(block);
    free(data);
    return ds;
}

mr_iterator *bench_open(mr_dataset *ds)
{
    mr_iterator *it = NULL;
    mr_error err = {0};

    if (mr_iterator_open(ds, NULL, &it, &err) != MR_OK) {
        bench_die("open", &err);
    }
    return it;
}
