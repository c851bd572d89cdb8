/* Giving up an element that would take hours. */
#include "engine_support.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static uint32_t add_column(mr_builder *b, const struct mr_column *c)
{
    mr_block *block = NULL;
    uint32_t out = 0;

    CHECK_OK(mr_block_new(1, c, 1, &block, e));
    CHECK_OK(mr_builder_constant(b, block, &out, e));
    mr_block_unref(block);
    return out;
}

static uint32_t add_ints(mr_builder *b, const int64_t *values, int64_t n)
{
    return add_column(
        b, &(struct mr_column){
               .kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .rank = 1, .dims = {n}, .data = values});
}

/* A million draws, each compared with as many boxes, none of which they cover. */
static mr_function *fn_boxes(const mr_dataset *ds)
{
    int64_t n = 1000000;
    float *boxes = calloc((size_t)n * 4, sizeof *boxes);
    mr_builder *b = begin_for(ds, NULL);

    assert_non_null(boxes);
    for (int64_t i = 0; i < n; i++) {
        boxes[4 * i + 2] = 1;
        boxes[4 * i + 3] = 1;
    }
    uint32_t in[2] = {add_ints(b, (const int64_t[]){1000, 1000, 3}, 3),
                      add_column(b, &(struct mr_column){.kind = MR_COLUMN_FIXED,
                                                        .dtype = MR_FLOAT32,
                                                        .rank = 3,
                                                        .dims = {1, n, 4},
                                                        .data = boxes})};
    struct mr_attr attrs[] = {
        INT_ATTR("max_attempts", 1000000),
        {.name = "min_object_covered", .kind = MR_ATTR_FLOAT, .f = 1},
        {.name = "area_max", .kind = MR_ATTR_FLOAT, .f = 0.5},
    };
    uint32_t out[3];
    size_t nout = 0;

    CHECK_OK(mr_builder_add(b, "sample_distorted_bounding_box", in, 2, attrs, 3, NULL, 0, out, 3,
                            &nout, e));
    free(boxes);
    return finish(b, out, nout);
}

#define STRINGS 1000000

/* Half a million ngrams of half a million empty strings each. The element is the row splits: what
 * does not depend on it is computed when the dataset is opened. */
static mr_function *fn_ngrams(const mr_dataset *ds)
{
    int64_t n = STRINGS;
    int64_t width = n / 2;
    uint64_t *offsets = calloc((size_t)n + 1, sizeof *offsets);
    mr_builder *b = begin_for(ds, NULL);

    assert_non_null(offsets);
    uint32_t in[2] = {add_column(b, &(struct mr_column){.kind = MR_COLUMN_FIXED,
                                                        .dtype = MR_STRING,
                                                        .rank = 1,
                                                        .dims = {n},
                                                        .offsets = offsets,
                                                        .data = ""}),
                      0};
    struct mr_attr attrs[] = {
        INT_ATTR("pad_width", 0),
        {.name = "widths", .kind = MR_ATTR_INTS, .ints = &width, .count = 1},
    };
    uint32_t out[2];
    size_t nout = 0;

    CHECK_OK(mr_builder_add(b, "string_ngrams", in, 2, attrs, 2, NULL, 0, out, 2, &nout, e));
    free(offsets);
    return finish(b, out, nout);
}

/* A million times one of a million classes. */
static mr_function *fn_classes(const mr_dataset *ds)
{
    int64_t n = 1000000;
    float *logits = calloc((size_t)n, sizeof *logits);
    mr_builder *b = begin_for(ds, NULL);
    struct mr_attr samples = INT_ATTR("num_samples", n);

    assert_non_null(logits);
    uint32_t in = add_column(b, &(struct mr_column){.kind = MR_COLUMN_FIXED,
                                                    .dtype = MR_FLOAT32,
                                                    .rank = 2,
                                                    .dims = {1, n},
                                                    .data = logits});
    uint32_t out = add_op(b, "random_categorical", &in, 1, &samples, 1);

    free(logits);
    return finish(b, &out, 1);
}

static int64_t cpu_ns(clockid_t clock)
{
    struct timespec t;

    assert_int_equal(clock_gettime(clock, &t), 0);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* By the other threads of this process, in time of processors. */
static int64_t computed_by_others(void)
{
    return cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Who has computed for so long is within the operator: all that comes before it takes less. */
#define BUSY_NS 100000000

static void *pull_one(void *arg)
{
    mr_block *block = NULL;
    int rc = mr_engine_pull(arg, (struct mr_want){.rows_max = 1}, -1, &block, NULL);

    mr_block_unref(block);
    return (void *)(intptr_t)rc;
}

/* @fn runs, and the iterator is cancelled: it comes back. */
static void give_up(mr_function *(*fn)(const mr_dataset *), int64_t calls)
{
    mr_dataset *splits =
        make_one("batch", make_ints((const int64_t[]){0, STRINGS}, 2), "batch_size", 2);
    mr_dataset *ds =
        make_with_function("map", splits, fn(splits), ATTRS(INT_ATTR("num_parallel_calls", calls)));
    mr_engine_iter *it = NULL;
    pthread_t thread;
    void *rc;

    struct mr_engine_options options = {.threads = 2};
    CHECK_OK(mr_engine_open(ds, &options, &it, e));
    int64_t begin = computed_by_others();
    assert_int_equal(pthread_create(&thread, NULL, pull_one, it), 0);
    while (computed_by_others() < begin + BUSY_NS) {
        (void)sched_yield();
    }
    mr_engine_cancel(it);
    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_int_equal((intptr_t)rc, MR_ECANCELED);
    mr_engine_close(it);
    mr_dataset_unref(ds);
}

static void boxes_that_cannot_be_found(void **state)
{
    give_up(fn_boxes, 0);
    give_up(fn_boxes, 4);
}

static void endless_ngrams(void **state)
{
    give_up(fn_ngrams, 0);
    give_up(fn_ngrams, 4);
}

static void classes_without_number(void **state)
{
    give_up(fn_classes, 0);
    give_up(fn_classes, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_that_cannot_be_found),
        cmocka_unit_test(endless_ngrams),
        cmocka_unit_test(classes_without_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
