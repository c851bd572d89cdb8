/*
 * What holds for every pipeline, tried on a list that covers every operator: the same elements whatever the size of the
 * blocks and the number of threads; saved anywhere and restored, the same continuation; a definition that comes back
 * from its bytes; no memory, or no time, breaks nothing; elements say which splits they descend from.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "engine_grants.h"
#include "engine_support.h"

#include "dataset/operator.h"

#include <millrace/tfrecord.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char record_path[3][128];
static char text_path[2][128];

struct pipeline {
    const char *name;
    mr_dataset *(*make)(void);
    size_t most; /* elements to look at, for endless ones; 0: all */
    bool any_order;
    bool kept;     /* elements of a later pass descend from nothing: an earlier one has accounted for them */
    bool by_value; /* which elements are put together depends on their values */
};

/* ---- the list ---- */

static mr_dataset *p_range(void)
{
    return make_range(3, 40, 2);
}

static mr_dataset *p_range_down(void)
{
    return make_range(10, -11, -3);
}

static mr_dataset *p_tensors(void)
{
    int64_t v[6] = {1, 2, 3, 4, 5, 6};
    struct mr_column c = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .rank = 2, .dims = {2, 3}, .data = v};
    mr_block *block = NULL;

    CHECK_OK(mr_block_new(1, &c, 1, &block, e));
    struct mr_attr a = {.name = "tensors", .kind = MR_ATTR_BLOCK, .block = block};
    mr_dataset *ds = make("from_tensors", NULL, NULL, &a, 1, NULL);
    mr_block_unref(block);
    return ds;
}

static mr_dataset *p_strings(void)
{
    return make_strings((const char *const[]){"alpha", "", "gamma", "a longer string than the others", "e"}, 5);
}

static mr_dataset *map_of(mr_dataset *ds, mr_function *(*fn)(const mr_dataset *), int64_t calls, bool ordered)
{
    mr_function *f = fn(ds);

    return make_with_function("map", ds, f,
                              ATTRS(INT_ATTR("num_parallel_calls", calls), BOOL_ATTR("deterministic", ordered)));
}

static mr_dataset *p_map(void)
{
    return map_of(make_range(0, 50, 1), fn_affine, 0, true);
}

static mr_dataset *p_map_map(void)
{
    return map_of(map_of(map_of(make_range(0, 50, 1), fn_affine, 0, true), fn_affine, 0, true), fn_text, 0, true);
}

static mr_dataset *p_map_parallel(void)
{
    return map_of(map_of(make_range(0, 90, 1), fn_affine, 3, true), fn_text, -1, true);
}

static mr_dataset *p_map_unordered(void)
{
    return map_of(make_range(0, 60, 1), fn_text, 4, false);
}

static mr_function *fn_divide_5(const mr_dataset *ds)
{
    return fn_divide(ds, 5);
}

static mr_dataset *p_map_fails(void)
{
    return map_of(make_range(0, 20, 1), fn_divide_5, 0, true);
}

static mr_dataset *p_map_fails_parallel(void)
{
    return map_of(make_range(0, 20, 1), fn_divide_5, 2, true);
}

static mr_dataset *p_ignore_errors(void)
{
    return make("ignore_errors", p_map_fails(), NULL, NULL, 0, NULL);
}

static mr_dataset *p_ignore_errors_parallel(void)
{
    return make("ignore_errors", p_map_fails_parallel(), NULL, NULL, 0, NULL);
}

static mr_dataset *filter_of(mr_dataset *ds, mr_function *(*fn)(const mr_dataset *))
{
    mr_function *f = fn(ds);

    return make_with_function("filter", ds, f, NULL, 0);
}

static mr_dataset *p_filter(void)
{
    return filter_of(map_of(make_range(0, 60, 1), fn_affine, 0, true), fn_even);
}

static mr_dataset *p_filter_none(void)
{
    return filter_of(make_range(1, 61, 2), fn_even);
}

static mr_dataset *p_batch(void)
{
    return make_one("batch", make_range(0, 50, 1), "batch_size", 7);
}

static mr_dataset *p_batch_drop(void)
{
    return make("batch", map_of(make_range(0, 50, 1), fn_text, 0, true), NULL,
                ATTRS(INT_ATTR("batch_size", 8), BOOL_ATTR("drop_remainder", 1)), NULL);
}

static mr_dataset *p_batch_batch(void)
{
    return make_one("batch", make_one("batch", make_range(0, 30, 1), "batch_size", 3), "batch_size", 4);
}

static mr_dataset *p_batch_shapes(void)
{
    return make_one("batch", map_of(make_range(0, 9, 1), fn_vector, 0, true), "batch_size", 2);
}

static mr_dataset *p_padded_batch(void)
{
    return make_one("padded_batch", map_of(make_range(0, 23, 1), fn_vector, 0, true), "batch_size", 4);
}

/* (x, text of x): a scalar, and a scalar string; the vectors of before beside it. */
static mr_dataset *p_padded_batch_values(void)
{
    int64_t five = 5;
    int64_t x = -1;
    uint64_t offsets[2] = {0, 3};
    struct mr_column columns[3] = {
        {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &five},
        {.kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = "pad"},
        {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &x},
    };
    const int64_t shapes[] = {0, 0, 1, 5};
    mr_block *padding = NULL;
    mr_dataset *ds =
        make_zip(map_of(make_range(0, 23, 1), fn_text, 0, true), map_of(make_range(0, 40, 1), fn_vector, 0, true));

    CHECK_OK(mr_block_new(1, columns, 3, &padding, e));
    ds = make("padded_batch", ds, NULL,
              ATTRS(INT_ATTR("batch_size", 3), BOOL_ATTR("drop_remainder", 1),
                    {.name = "padding_values", .kind = MR_ATTR_BLOCK, .block = padding},
                    {.name = "padded_shapes", .kind = MR_ATTR_INTS, .ints = shapes, .count = 4}),
              NULL);
    mr_block_unref(padding);
    return ds;
}

/* Vectors of up to 2 values into one: the batches that hold a longer one are errors. */
static mr_dataset *p_padded_batch_too_small(void)
{
    const int64_t shapes[] = {1, 1};

    return make(
        "padded_batch", map_of(make_range(0, 23, 1), fn_vector, 0, true), NULL,
        ATTRS(INT_ATTR("batch_size", 2), {.name = "padded_shapes", .kind = MR_ATTR_INTS, .ints = shapes, .count = 2}),
        NULL);
}

static mr_dataset *p_vectors(void)
{
    return map_of(make_range(0, 30, 1), fn_vector, 0, true);
}

static mr_dataset *p_take(void)
{
    return make_one("take", make_one("skip", make_range(0, 50, 1), "count", 9), "count", 17);
}

static mr_dataset *p_take_all(void)
{
    return make_one("take", make_range(0, 9, 1), "count", -1);
}

static mr_dataset *p_skip_all(void)
{
    return make_one("skip", make_range(0, 9, 1), "count", -1);
}

static mr_dataset *p_repeat(void)
{
    return make_one("repeat", make_range(0, 7, 1), "count", 4);
}

static mr_dataset *p_repeat_ever(void)
{
    return make_one("batch", make_one("repeat", make_range(0, 7, 1), "count", -1), "batch_size", 4);
}

static mr_dataset *p_repeat_nothing(void)
{
    return make_one("repeat", filter_of(make_range(1, 9, 2), fn_even), "count", -1);
}

static mr_dataset *p_zip(void)
{
    return make_zip(make_one("batch", make_range(0, 50, 1), "batch_size", 3),
                    map_of(make_range(0, 11, 1), fn_text, 0, true));
}

static mr_dataset *p_concatenate(void)
{
    return make_concatenate(make_range(0, 13, 1), make_concatenate(make_range(100, 105, 1), make_range(0, 0, 1)));
}

static mr_dataset *p_shuffle(void)
{
    return make("shuffle", make_range(0, 60, 1), NULL, ATTRS(INT_ATTR("buffer_size", 10), INT_ATTR("seed", 5)), NULL);
}

static mr_dataset *p_shuffle_unseeded(void)
{
    return make_one("repeat", make_one("shuffle", map_of(make_range(0, 25, 1), fn_text, 0, true), "buffer_size", 100),
                    "count", 2);
}

static mr_dataset *p_shuffle_same(void)
{
    return make_one("repeat",
                    make("shuffle", make_range(0, 12, 1), NULL,
                         ATTRS(INT_ATTR("buffer_size", 5), BOOL_ATTR("reshuffle_each_iteration", 0)), NULL),
                    "count", 3);
}

static mr_dataset *p_shuffle_vectors(void)
{
    return make_one("shuffle", p_vectors(), "buffer_size", 6);
}

static mr_dataset *p_prefetch(void)
{
    return make_one("prefetch", map_of(make_range(0, 70, 1), fn_affine, 0, true), "buffer_size", 5);
}

static mr_dataset *p_prefetch_auto(void)
{
    return make_one("prefetch", p_map_fails(), "buffer_size", -1);
}

static mr_dataset *p_flat_map(void)
{
    mr_dataset *ds = make_ints((const int64_t[]){1, 5, 0, 0, 3, 2}, 6);
    mr_function *fn = fn_count_to(ds);

    return make_with_function("flat_map", ds, fn, NULL, 0);
}

static mr_dataset *interleave_of(int64_t cycle, int64_t block, int64_t calls, bool ordered)
{
    mr_dataset *ds = make_ints((const int64_t[]){4, 9, 0, 3, 7, 1, 0, 12, 2}, 9);
    mr_function *fn = fn_count_to(ds);

    return make_with_function("interleave", ds, fn,
                              ATTRS(INT_ATTR("cycle_length", cycle), INT_ATTR("block_length", block),
                                    INT_ATTR("num_parallel_calls", calls), BOOL_ATTR("deterministic", ordered)));
}

static mr_dataset *p_interleave(void)
{
    return interleave_of(3, 2, 0, true);
}

static mr_dataset *p_interleave_wide(void)
{
    return interleave_of(16, 1, 0, true);
}

static mr_dataset *p_interleave_parallel(void)
{
    return interleave_of(4, 2, 2, true);
}

static mr_dataset *p_interleave_unordered(void)
{
    return interleave_of(4, 1, 4, false);
}

/* Each element, a dataset for each component, as batches of @per of all of them together. */
static mr_dataset *expand_windows(mr_dataset *ds, int64_t per)
{
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner[8];
    mr_dataset *all = NULL;
    size_t n = mr_spec_leaves(mr_dataset_spec(ds));

    for (size_t i = 0; i < n; i++) {
        /* The structure of one component: {"!dataset":[[...],...]} stands alone where there is one only. */
        mr_spec *part = NULL;
        struct mr_buf text = MR_BUF_INIT;
        const char *all_parts = mr_spec_structure(mr_dataset_spec(ds));
        const char *at = all_parts;

        for (size_t k = 0; k <= i; k++) {
            at = strstr(k > 0 ? at + 1 : at, "{\"!dataset\":") + (k == i ? strlen("{\"!dataset\":") : 0);
        }
        const char *end = at;
        for (int depth = 0; *end != '\0' && (depth > 0 || end == at); end++) {
            depth += (*end == '[') - (*end == ']');
        }
        mr_buf_append(&text, at, (size_t)(end - at));
        CHECK_OK(mr_spec_from_json(text.data, text.len, &part, e));
        mr_spec_unref(part);
        struct mr_attr spec = {.name = "spec", .kind = MR_ATTR_BYTES, .bytes = text.data, .size = text.len};
        inner[i] = make("elements_of", NULL, NULL, ATTRS(VALUE_ATTR("dataset", (int64_t)i), spec), b);
        mr_buf_free(&text);
    }
    CHECK_OK(mr_dataset_apply("zip", inner, n, NULL, 0, NULL, 0, b, &all, e));
    for (size_t i = 0; i < n; i++) {
        mr_dataset_unref(inner[i]);
    }
    all = make("batch", all, NULL, ATTRS(INT_ATTR("batch_size", per)), b);
    return make_with_function("flat_map", ds, finish_dataset(b, all), NULL, 0);
}

static mr_dataset *window_of(mr_dataset *ds, int64_t size, int64_t shift, int64_t stride, bool drop)
{
    return make("window", ds, NULL,
                ATTRS(INT_ATTR("size", size), INT_ATTR("shift", shift), INT_ATTR("stride", stride),
                      BOOL_ATTR("drop_remainder", drop)),
                NULL);
}

static mr_dataset *p_window(void)
{
    return expand_windows(window_of(make_range(0, 23, 1), 4, 4, 1, false), 4);
}

static mr_dataset *p_window_overlap(void)
{
    return expand_windows(window_of(map_of(make_range(0, 17, 1), fn_text, 0, true), 3, 2, 2, true), 2);
}

static mr_dataset *p_window_gaps(void)
{
    return expand_windows(make_one("shuffle", window_of(p_map_fails(), 2, 5, 1, false), "buffer_size", 3), 3);
}

static mr_dataset *p_windows_of_windows(void)
{
    mr_dataset *ds = window_of(window_of(make_range(0, 20, 1), 3, 3, 1, false), 2, 1, 1, true);
    mr_builder *b = begin_for(ds, NULL);
    const char spec[] = "[[null],{\"!dataset\":[[[\"int64\"]],\"*\"]}]";
    mr_dataset *inner = make("elements_of", NULL, NULL, ATTRS(VALUE_ATTR("dataset", 0), TEXT_ATTR("spec", spec)), b);

    return expand_windows(make_with_function("flat_map", ds, finish_dataset(b, inner), NULL, 0), 3);
}

/* The dataset in component @i of what @b takes, whose elements are those of @ds. */
static mr_dataset *elements_like(mr_builder *b, uint32_t i, const mr_dataset *ds)
{
    const mr_spec *spec = mr_dataset_spec(ds);
    struct mr_leaf_spec leaves[8];
    struct mr_buf text = MR_BUF_INIT;

    for (size_t k = 0; k < mr_spec_leaves(spec); k++) {
        leaves[k] = *mr_spec_leaf(spec, k);
    }
    mr_spec_put_json(&text, leaves, mr_spec_leaves(spec), mr_spec_structure(spec));
    struct mr_attr of = {.name = "spec", .kind = MR_ATTR_BYTES, .bytes = text.data, .size = text.len};
    mr_dataset *inner = make("elements_of", NULL, NULL, ATTRS(VALUE_ATTR("dataset", i), of), b);
    mr_buf_free(&text);
    return inner;
}

/* Groups by x % 3 (or by what fails for 5), each as batches of @per; full with @size, or with key + 2. */
static mr_dataset *groups_of(mr_dataset *ds, mr_function *key, int64_t size, int64_t per)
{
    struct mr_leaf_spec leaves[2] = {{.dtype = MR_INT64}, {.dtype = MR_STRING}};
    struct mr_leaf_spec parts[8];
    struct mr_buf text = MR_BUF_INIT;
    mr_function *functions[3] = {key, NULL, NULL};
    mr_builder *b = NULL;
    mr_spec *spec = NULL;
    mr_dataset *out = NULL;

    for (size_t k = 0; k < mr_spec_leaves(mr_dataset_spec(ds)); k++) {
        parts[k] = *mr_spec_leaf(mr_dataset_spec(ds), k);
    }
    mr_buf_puts(&text, "[\"*\",{\"!dataset\":");
    mr_spec_put_json(&text, parts, mr_spec_leaves(mr_dataset_spec(ds)), mr_spec_structure(mr_dataset_spec(ds)));
    mr_buf_append(&text, "}]", 3);
    CHECK_OK(mr_spec_new(leaves, 2, (const char *)text.data, &spec, e));
    mr_buf_free(&text);
    CHECK_OK(mr_builder_new(spec, NULL, &b, e));
    mr_spec_unref(spec);
    functions[1] =
        finish_dataset(b, make("padded_batch", elements_like(b, 1, ds), NULL, ATTRS(INT_ATTR("batch_size", per)), b));
    if (size == 0) {
        CHECK_OK(mr_spec_new(leaves, 1, NULL, &spec, e));
        CHECK_OK(mr_builder_new(spec, NULL, &b, e));
        mr_spec_unref(spec);
        uint32_t in[2] = {0, add_int(b, 2)};
        uint32_t sum = add_op(b, "add", in, 2, NULL, 0);
        functions[2] = finish(b, &sum, 1);
    }
    struct mr_attr window = INT_ATTR("window_size", size);
    CHECK_OK(
        mr_dataset_apply("group_by_window", &ds, 1, &window, size != 0, functions, size == 0 ? 3 : 2, NULL, &out, e));
    mr_dataset_unref(ds);
    for (int i = 0; i < 3; i++) {
        mr_function_unref(functions[i]);
    }
    return out;
}

static mr_function *fn_mod(const mr_dataset *ds, int64_t by)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t in[2] = {0, add_int(b, by)};
    uint32_t out = add_op(b, "floor_mod", in, 2, NULL, 0);

    return finish(b, &out, 1);
}

static mr_dataset *p_group_by_window(void)
{
    mr_dataset *ds = make_range(0, 41, 1);

    return groups_of(ds, fn_mod(ds, 3), 4, 4);
}

static mr_dataset *p_group_sizes(void)
{
    mr_dataset *ds = map_of(make_range(0, 41, 1), fn_text, 0, true);

    return groups_of(ds, fn_mod(ds, 4), 0, 2);
}

static mr_dataset *p_group_fails(void)
{
    mr_dataset *ds = make_range(0, 20, 1);

    return groups_of(ds, fn_divide(ds, 5), 2, 3);
}

/* x -> range(x).map(y -> y + x): an inner function that captures a value of the one around it, in a shuffled dataset.
 */
static mr_dataset *p_nested(void)
{
    mr_dataset *ds = make_range(0, 9, 1);
    mr_builder *outer = begin_for(ds, NULL);
    uint32_t twice_in[2] = {0, 0};
    uint32_t twice = add_op(outer, "add", twice_in, 2, NULL, 0);
    mr_dataset *inner =
        make("range", NULL, NULL, ATTRS(INT_ATTR("start", 0), VALUE_ATTR("stop", 0), INT_ATTR("step", 1)), outer);
    mr_builder *b = begin_for(inner, outer);
    uint32_t captured = 0;

    CHECK_OK(mr_builder_capture(b, twice, &captured, e));
    uint32_t in[2] = {0, captured};
    uint32_t out = add_op(b, "add", in, 2, NULL, 0);
    inner = make("map", inner, finish(b, &out, 1), NULL, 0, outer);
    inner = make("shuffle", inner, NULL, ATTRS(VALUE_ATTR("buffer_size", twice)), outer);
    return make_with_function("flat_map", make_one("skip", ds, "count", 1), finish_dataset(outer, inner), NULL, 0);
}

/* The leaves of a vector as elements: from_tensor_slices of a value. */
static mr_dataset *p_slices_of_value(void)
{
    mr_dataset *ds = p_vectors();
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner = make("from_tensor_slices", NULL, NULL, ATTRS(VALUE_ATTR("value0", 0)), b);

    return make_with_function("flat_map", ds, finish_dataset(b, inner), NULL, 0);
}

static mr_dataset *records_of(const char *compression)
{
    const char *const names[3] = {record_path[0], record_path[1], record_path[2]};
    mr_dataset *ds = make_strings(names, 3);
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner =
        make("tfrecord", NULL, NULL, ATTRS(VALUE_ATTR("filename", 0), TEXT_ATTR("compression_type", compression)), b);

    return make_with_function("interleave", ds, finish_dataset(b, inner), ATTRS(INT_ATTR("cycle_length", 2)));
}

static mr_dataset *p_tfrecord(void)
{
    return records_of("GZIP");
}

static mr_dataset *p_shard(void)
{
    return make("shard", map_of(make_range(0, 41, 1), fn_text, 0, true), NULL,
                ATTRS(INT_ATTR("num_shards", 3), INT_ATTR("index", 2)), NULL);
}

static mr_function *fn_below_17(const mr_dataset *ds)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t in[2] = {0, add_int(b, 17)};
    uint32_t out = add_op(b, "less", in, 2, NULL, 0);

    return finish(b, &out, 1);
}

static mr_dataset *p_take_while(void)
{
    mr_dataset *ds = make_range(0, 41, 1);
    mr_function *fn = fn_below_17(ds);

    return make_with_function("take_while", ds, fn, NULL, 0);
}

static mr_dataset *p_take_while_fails(void)
{
    mr_dataset *ds = p_map_fails(); /* 100 // (x - 5): an error at 5, 100 at 6 */
    mr_function *fn = fn_below_17(ds);

    return make_with_function("take_while", ds, fn, NULL, 0);
}

static mr_dataset *p_unbatch(void)
{
    return make("unbatch", map_of(make_range(0, 25, 1), fn_vector, 0, true), NULL, NULL, 0, NULL);
}

static mr_dataset *p_unbatch_batches(void)
{
    return make("unbatch", make_one("batch", map_of(make_range(0, 25, 1), fn_text, 0, true), "batch_size", 4), NULL,
                NULL, 0, NULL);
}

static mr_dataset *p_unique(void)
{
    mr_dataset *ds = make_range(0, 60, 1);
    mr_function *fn = fn_mod(ds, 23);

    return make("unique", make_with_function("map", ds, fn, NULL, 0), NULL, NULL, 0, NULL);
}

static mr_dataset *p_unique_strings(void)
{
    return make("unique",
                make_one("repeat", make_strings((const char *const[]){"a", "", "b", "a", "ccc"}, 5), "count", 2), NULL,
                NULL, 0, NULL);
}

static mr_dataset *p_cache(void)
{
    return make("cache", p_shuffle_vectors(), NULL, NULL, 0, NULL);
}

static mr_dataset *p_cache_twice(void)
{
    mr_dataset *ds = make_one("shuffle", map_of(make_range(0, 25, 1), fn_text, 0, true), "buffer_size", 7);

    return make_one("take", make_one("repeat", make("cache", ds, NULL, NULL, 0, NULL), "count", 3), "count", 60);
}

/* Sums: (s, x) -> (s + x, 1000 // (s - 10)), which fails where the sum is 10. */
static mr_dataset *p_scan(void)
{
    struct mr_leaf_spec leaves[2] = {{.dtype = MR_INT64}, {.dtype = MR_INT64}};
    mr_dataset *ds = make_range(0, 30, 1);
    int64_t zero = 0;
    struct mr_column column = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &zero};
    mr_block *state = NULL;
    mr_spec *spec = NULL;
    mr_builder *b = NULL;

    CHECK_OK(mr_spec_new(leaves, 2, NULL, &spec, e));
    CHECK_OK(mr_builder_new(spec, NULL, &b, e));
    mr_spec_unref(spec);
    uint32_t sum_in[2] = {0, 1};
    uint32_t sum = add_op(b, "add", sum_in, 2, NULL, 0);
    uint32_t less_in[2] = {sum, add_int(b, 10)};
    uint32_t div_in[2] = {add_int(b, 1000), add_op(b, "sub", less_in, 2, NULL, 0)};
    uint32_t out[2] = {sum, add_op(b, "floor_div", div_in, 2, NULL, 0)};
    CHECK_OK(mr_block_new(1, &column, 1, &state, e));
    ds = make("scan", ds, finish(b, out, 2), ATTRS({.name = "initial_state", .kind = MR_ATTR_BLOCK, .block = state}),
              NULL);
    mr_block_unref(state);
    return ds;
}

static mr_dataset *of_three(const char *op, mr_dataset *choices, const struct mr_attr *attrs, size_t nattrs)
{
    mr_dataset *inputs[4] = {choices, make_range(0, 9, 1), make_range(100, 120, 1), make_range(200, 203, 1)};
    size_t first = choices == NULL;
    mr_dataset *ds = NULL;

    CHECK_OK(mr_dataset_apply(op, inputs + first, 4 - first, attrs, nattrs, NULL, 0, NULL, &ds, e));
    for (int i = 0; i < 4; i++) {
        mr_dataset_unref(inputs[i]);
    }
    return ds;
}

static mr_dataset *p_choose(void)
{
    mr_dataset *ds = make_range(0, 60, 1);
    mr_function *fn = fn_mod(ds, 3);

    return of_three("choose", make_with_function("map", ds, fn, NULL, 0), ATTRS(BOOL_ATTR("stop_on_empty", 0)));
}

static mr_dataset *p_choose_stops(void)
{
    mr_dataset *ds = make_range(2, 60, 1);
    mr_function *fn = fn_mod(ds, 5); /* 3 and 4 are errors */

    return of_three("choose", make_with_function("map", ds, fn, NULL, 0), NULL, 0);
}

static mr_dataset *p_sample(void)
{
    double w[3] = {1, 2, 0.5};
    struct mr_column column = {.kind = MR_COLUMN_FIXED, .dtype = MR_FLOAT64, .data = w};
    mr_block *weights = NULL;

    CHECK_OK(mr_block_new(3, &column, 1, &weights, e));
    mr_dataset *ds = of_three("sample", NULL, ATTRS({.name = "weights", .kind = MR_ATTR_BLOCK, .block = weights}));
    mr_block_unref(weights);
    return make_one("repeat", ds, "count", 2);
}

static mr_dataset *p_text_line(void)
{
    const char *const names[2] = {text_path[0], text_path[1]};
    mr_dataset *ds = make_strings(names, 2);
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner = make("text_line", NULL, NULL, ATTRS(VALUE_ATTR("filename", 0)), b);

    return make_with_function("flat_map", ds, finish_dataset(b, inner), NULL, 0);
}

static mr_dataset *p_everything(void)
{
    mr_dataset *ds = make_one("repeat", p_interleave_parallel(), "count", 2);

    ds = map_of(ds, fn_affine, -1, true);
    ds = make_one("prefetch", filter_of(ds, fn_even), "buffer_size", 4);
    ds = make("shuffle", ds, NULL, ATTRS(INT_ATTR("buffer_size", 7), INT_ATTR("seed", 1)), NULL);
    return make_one("take", make_one("batch", make_concatenate(ds, make_range(0, 5, 1)), "batch_size", 3), "count", 20);
}

static const struct pipeline pipelines[] = {
    {.name = "range", .make = p_range},
    {.name = "range down", .make = p_range_down},
    {.name = "from_tensors", .make = p_tensors},
    {.name = "from_tensor_slices", .make = p_strings},
    {.name = "map", .make = p_map},
    {.name = "maps", .make = p_map_map},
    {.name = "parallel map", .make = p_map_parallel},
    {.name = "unordered map", .make = p_map_unordered, .any_order = true},
    {.name = "map that fails", .make = p_map_fails},
    {.name = "parallel map that fails", .make = p_map_fails_parallel},
    {.name = "ignore_errors", .make = p_ignore_errors},
    {.name = "ignore_errors of a parallel map", .make = p_ignore_errors_parallel},
    {.name = "filter", .make = p_filter},
    {.name = "filter that keeps nothing", .make = p_filter_none},
    {.name = "batch", .make = p_batch},
    {.name = "batch, drop_remainder", .make = p_batch_drop},
    {.name = "batches of batches", .make = p_batch_batch},
    {.name = "batch of unequal shapes", .make = p_batch_shapes},
    {.name = "padded_batch", .make = p_padded_batch},
    {.name = "padded_batch with values", .make = p_padded_batch_values},
    {.name = "padded_batch, too small", .make = p_padded_batch_too_small},
    {.name = "vectors", .make = p_vectors},
    {.name = "take, skip", .make = p_take},
    {.name = "take all", .make = p_take_all},
    {.name = "skip all", .make = p_skip_all},
    {.name = "repeat", .make = p_repeat},
    {.name = "repeat for ever", .make = p_repeat_ever, .most = 40},
    {.name = "repeat of nothing", .make = p_repeat_nothing},
    {.name = "zip", .make = p_zip},
    {.name = "concatenate", .make = p_concatenate},
    {.name = "shuffle", .make = p_shuffle},
    {.name = "shuffle without seed", .make = p_shuffle_unseeded},
    {.name = "shuffle, the same each time", .make = p_shuffle_same},
    {.name = "shuffle of vectors", .make = p_shuffle_vectors},
    {.name = "prefetch", .make = p_prefetch},
    {.name = "prefetch, automatic", .make = p_prefetch_auto},
    {.name = "flat_map", .make = p_flat_map},
    {.name = "interleave", .make = p_interleave},
    {.name = "interleave, wide", .make = p_interleave_wide},
    {.name = "parallel interleave", .make = p_interleave_parallel},
    {.name = "unordered interleave", .make = p_interleave_unordered, .any_order = true},
    {.name = "nested functions", .make = p_nested},
    {.name = "window, elements_of", .make = p_window},
    {.name = "windows that overlap", .make = p_window_overlap},
    {.name = "windows with gaps", .make = p_window_gaps},
    {.name = "windows of windows", .make = p_windows_of_windows},
    {.name = "group_by_window", .make = p_group_by_window, .by_value = true},
    {.name = "groups with sizes of their own", .make = p_group_sizes, .by_value = true},
    {.name = "groups whose keys fail", .make = p_group_fails, .by_value = true},
    {.name = "slices of a value", .make = p_slices_of_value},
    {.name = "tfrecord", .make = p_tfrecord},
    {.name = "shard", .make = p_shard},
    {.name = "take_while", .make = p_take_while, .by_value = true},
    {.name = "take_while, with errors", .make = p_take_while_fails, .by_value = true},
    {.name = "unbatch", .make = p_unbatch},
    {.name = "unbatch of batches", .make = p_unbatch_batches},
    {.name = "unique", .make = p_unique, .by_value = true},
    {.name = "unique strings", .make = p_unique_strings, .by_value = true},
    {.name = "cache", .make = p_cache},
    {.name = "cache, read again", .make = p_cache_twice, .kept = true},
    {.name = "scan", .make = p_scan, .by_value = true},
    {.name = "choose", .make = p_choose, .by_value = true},
    {.name = "choose, to the end of one", .make = p_choose_stops, .by_value = true},
    {.name = "sample", .make = p_sample, .by_value = true},
    {.name = "text_line", .make = p_text_line},
    {.name = "everything", .make = p_everything, .by_value = true},
};
#define PIPELINES (sizeof pipelines / sizeof pipelines[0])

/* Enough errors to get through; the lines they make are compared like any other. */
#define BASE_OPTIONS(p)                                                                                                \
    {                                                                                                                  \
        .errors_max = 100, .most = (p)->most                                                                           \
    }

static void settle(const struct pipeline *p, struct lines *l)
{
    if (p->any_order) {
        lines_sort(l);
    }
}

/* One element at a time, one thread: what all other runs are compared with. */
static struct lines reference(const struct pipeline *p, mr_dataset *ds)
{
    struct read_options o = BASE_OPTIONS(p);

    o.rows = 1;
    struct lines l = read_all(ds, &o);
    settle(p, &l);
    return l;
}

static void any_block_size_and_threads(void **state)
{
    static const uint32_t sizes[] = {1, 2, 7, 1000};
    static const uint32_t threads[] = {1, 4};
    char what[128];

    (void)state;
    for (size_t i = 0; i < PIPELINES; i++) {
        const struct pipeline *p = &pipelines[i];
        mr_dataset *ds = p->make();
        struct lines want = reference(p, ds);

        for (size_t s = 0; s < 4; s++) {
            for (size_t t = 0; t < 2; t++) {
                struct read_options o = BASE_OPTIONS(p);

                o.rows = sizes[s];
                o.threads = threads[t];
                o.timeout_ms = s == 1 ? 1 : 0; /* the second size reads with time-outs */
                struct lines got = read_all(ds, &o);
                settle(p, &got);
                (void)snprintf(what, sizeof what, "%s, blocks of %u, %u threads", p->name, o.rows, o.threads);
                lines_expect(&got, &want, what);
                lines_free(&got);
            }
        }
        lines_free(&want);
        mr_dataset_unref(ds);
    }
}

static void cardinality_is_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < PIPELINES; i++) {
        const struct pipeline *p = &pipelines[i];
        mr_dataset *ds = p->make();
        struct lines l = reference(p, ds);
        int64_t n = mr_dataset_cardinality(ds);
        bool fails = false;

        for (size_t k = 0; k < l.n; k++) {
            fails = fails || l.text[k][0] == '!';
        }
        if (n >= 0 && !fails && (size_t)n != l.n) {
            fail_msg("%s: cardinality %lld, %zu elements", p->name, (long long)n, l.n);
        }
        /* Whether an endless repeat gives anything at all cannot be known before running it. */
        if (n == MR_CARDINALITY_INFINITE && p->most == 0 && l.n > 0) {
            fail_msg("%s: said to be endless", p->name);
        }
        lines_free(&l);
        mr_dataset_unref(ds);
    }
}

static void definitions_come_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < PIPELINES; i++) {
        const struct pipeline *p = &pipelines[i];
        mr_dataset *ds = p->make();
        mr_dataset *back = NULL;
        uint8_t before[16];
        uint8_t after[16];
        void *bytes = NULL;
        void *again = NULL;
        size_t size = 0;
        size_t again_size = 0;

        CHECK_OK(mr_dataset_serialize(ds, &bytes, &size, e));
        CHECK_OK(mr_dataset_parse(bytes, size, &back, e));
        CHECK_OK(mr_dataset_fingerprint(ds, before, e));
        CHECK_OK(mr_dataset_fingerprint(back, after, e));
        assert_memory_equal(before, after, 16);
        CHECK_OK(mr_dataset_serialize(back, &again, &again_size, e));
        assert_int_equal(size, again_size);
        assert_memory_equal(bytes, again, size);
        assert_true(mr_spec_equal(mr_dataset_spec(ds), mr_dataset_spec(back)));
        assert_int_equal(mr_dataset_cardinality(ds), mr_dataset_cardinality(back));

        struct lines want = reference(p, ds);
        struct lines got = reference(p, back);
        lines_expect(&got, &want, p->name);
        lines_free(&want);
        lines_free(&got);
        mr_free(bytes);
        mr_free(again);
        mr_dataset_unref(back);
        mr_dataset_unref(ds);
    }
}

/* Read @cut elements, save, and go on in two iterators: the old one and one restored with other threads. */
static void cut_at(const struct pipeline *p, mr_dataset *ds, const struct lines *want, size_t cut, uint32_t rows,
                   uint32_t threads, uint32_t threads_after)
{
    struct read_options o = BASE_OPTIONS(p);
    struct lines first = {0};
    struct lines second = {0};
    char what[160];
    void *saved = NULL;
    size_t size = 0;

    o.rows = rows;
    o.threads = threads;
    o.most = cut;
    mr_engine_iter *it = open_with(ds, &o);
    if (cut > 0) {
        (void)read_on(it, &o, &first);
    }
    CHECK_OK(mr_engine_save(it, &saved, &size, e));
    o.threads = threads_after;
    o.seed = 4711; /* the state's counts */
    mr_engine_iter *other = open_with(ds, &o);
    CHECK_OK(mr_engine_restore(other, saved, size, e));
    o.most = p->most;
    o.rows = 1000;
    /* The restored one continues behind the same beginning. */
    for (size_t i = 0; i < first.n; i++) {
        if (second.n == second.cap) {
            second.cap = second.cap * 2 + 64;
            second.text = realloc(second.text, second.cap * sizeof *second.text);
        }
        second.text[second.n++] = strdup(first.text[i]);
    }
    (void)read_on(other, &o, &second);
    settle(p, &second);
    (void)snprintf(what, sizeof what, "%s, restored at %zu, blocks of %u, %u then %u threads", p->name, cut, rows,
                   threads, threads_after);
    lines_expect(&second, want, what);
    (void)read_on(it, &o, &first);
    settle(p, &first);
    (void)snprintf(what, sizeof what, "%s, read on after a save at %zu, blocks of %u, %u threads", p->name, cut, rows,
                   threads);
    lines_expect(&first, want, what);
    mr_engine_close(it);
    mr_engine_close(other);
    lines_free(&first);
    lines_free(&second);
    mr_free(saved);
}

static void saved_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < PIPELINES; i++) {
        const struct pipeline *p = &pipelines[i];
        mr_dataset *ds = p->make();
        struct lines want = reference(p, ds);
        size_t step = want.n > 24 ? want.n / 12 : 1;

        for (size_t cut = 0; cut <= want.n; cut += step) {
            cut_at(p, ds, &want, cut, 1, 1, 4);
            cut_at(p, ds, &want, cut, 3, 4, 1);
        }
        lines_free(&want);
        mr_dataset_unref(ds);
    }
}

static void damaged_states_are_refused(void **state)
{
    mr_dataset *ds = p_everything();
    mr_dataset *other = p_shuffle();
    struct read_options o = {.most = 4};
    struct lines l = {0};
    mr_engine_iter *it = open_with(ds, &o);
    void *saved = NULL;
    size_t size = 0;
    mr_error err;

    (void)state;
    (void)read_on(it, &o, &l);
    CHECK_OK(mr_engine_save(it, &saved, &size, e));
    mr_engine_close(it);
    unsigned char *copy = malloc(size);
    for (size_t i = 0; i < size; i += 37) {
        memcpy(copy, saved, size);
        copy[i] ^= 0x40;
        it = open_with(ds, &o);
        assert_int_equal(mr_engine_restore(it, copy, size, &err), MR_EINVAL);
        assert_int_equal(mr_engine_restore(it, saved, i, &err), MR_EINVAL);
        mr_engine_close(it);
    }
    it = open_with(other, &o);
    assert_int_equal(mr_engine_restore(it, saved, size, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "another dataset"));
    mr_engine_close(it);
    free(copy);
    mr_free(saved);
    lines_free(&l);
    mr_dataset_unref(ds);
    mr_dataset_unref(other);
}

static void cancelled_is_cancelled(void **state)
{
    (void)state;
    for (size_t i = 0; i < PIPELINES; i++) {
        mr_dataset *ds = pipelines[i].make();
        struct read_options o = {.threads = 4, .most = 2};
        struct lines l = {0};
        mr_engine_iter *it = open_with(ds, &o);
        mr_block *block = NULL;
        mr_error err;

        (void)read_on(it, &o, &l);
        mr_engine_cancel(it);
        mr_engine_cancel(it);
        assert_int_equal(mr_engine_pull(it, (struct mr_want){.rows_max = 10}, -1, &block, &err), MR_ECANCELED);
        assert_int_equal(mr_engine_pull(it, (struct mr_want){.rows_max = 10}, 1, &block, &err), MR_ECANCELED);
        mr_engine_close(it);
        lines_free(&l);
        mr_dataset_unref(ds);
    }
}

/* Read until the first error: what came before it must be right. */
static int read_without_memory(mr_dataset *ds, uint64_t nth, struct lines *got, bool *reached, mr_error *err)
{
    struct mr_engine_options opts = {.seed = 42, .threads = 2, .memory_budget_bytes = 64u << 20};
    uint64_t before = mr_alloc_count();
    mr_engine_iter *it = NULL;
    mr_block *block = NULL;

    mr_alloc_fail_at(nth);
    int rc = mr_engine_open(ds, &opts, &it, err);
    for (int turn = 0; rc >= 0 && rc != MR_END && turn < 60 && got->n < 40; turn++) {
        rc = mr_engine_pull(it, (struct mr_want){.rows_max = 16}, -1, &block, err);
        if (rc == MR_OK) {
            lines_append_block(got, block);
            mr_block_unref(block);
        }
    }
    *reached = mr_alloc_count() - before >= nth;
    mr_alloc_fail_at(0);
    mr_engine_close(it);
    return rc;
}

/* Whatever allocation fails: an error, or nothing at all; never a crash, a leak or wrong elements. */
static void no_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < PIPELINES; i++) {
        const struct pipeline *p = &pipelines[i];
        mr_dataset *ds = p->make();
        struct lines want = reference(p, ds);
        bool reached = true;
        bool fails = false; /* on its own, too */
        char what[128];

        for (size_t k = 0; k < want.n; k++) {
            fails = fails || want.text[k][0] == '!';
        }
        for (uint64_t nth = 1; nth < 150 && reached; nth++) {
            struct lines got = {0};
            mr_error err = {0};
            int rc = read_without_memory(ds, nth, &got, &reached, &err);

            (void)snprintf(what, sizeof what, "%s, allocation %d", p->name, (int)nth);
            if (rc < 0 && rc != MR_EEXHAUSTED && ((rc != MR_EINVAL && rc != MR_EDATALOSS) || !fails)) {
                fail_msg("%s: %d %s", what, rc, err.message);
            }
            if (!p->any_order) {
                struct lines expected = {.text = want.text, .n = got.n < want.n ? got.n : want.n};

                lines_expect(&got, &expected, what);
            }
            lines_free(&got);
        }
        lines_free(&want);
        mr_dataset_unref(ds);
    }
}

static void splits_are_followed_to_their_end(void **state)
{
    bool followed[PIPELINES];
    size_t n = 0;
    const struct mr_operator *const *all = mr_operator_list(&n);

    (void)state;
    for (size_t i = 0; i < PIPELINES; i++) {
        mr_dataset *ds = pipelines[i].make();

        followed[i] = !pipelines[i].kept && check_grants(pipelines[i].name, ds, pipelines[i].most,
                                                         pipelines[i].any_order || pipelines[i].by_value);
        mr_dataset_unref(ds);
    }
    for (size_t i = 0; i < n; i++) {
        bool covered = strcmp(all[i]->name, "distribute") == 0 || strcmp(all[i]->name, "from_dataset_id") == 0;

        for (size_t k = 0; k < PIPELINES && !covered; k++) {
            covered = followed[k] && strstr(pipelines[k].name, all[i]->name) != NULL;
        }
        if (!covered) {
            fail_msg("operator '%s' has no pipeline in this test that can be read by splits", all[i]->name);
        }
    }
}

static void every_operator_is_covered(void **state)
{
    size_t n = 0;
    const struct mr_operator *const *all = mr_operator_list(&n);

    (void)state;
    for (size_t i = 1; i < n; i++) {
        assert_true(strcmp(all[i - 1]->name, all[i]->name) < 0);
    }
    for (size_t i = 0; i < n; i++) {
        bool external = strcmp(all[i]->name, "distribute") == 0 || strcmp(all[i]->name, "from_dataset_id") == 0;
        bool covered = external; /* engine_test.c has those */

        for (size_t k = 0; k < PIPELINES && !covered; k++) {
            covered = strstr(pipelines[k].name, all[i]->name) != NULL;
        }
        if (!covered) {
            fail_msg("operator '%s' has no pipeline in this test", all[i]->name);
        }
        assert_true(mr_operator_find(all[i]->name) == all[i]);
    }
}

static int write_records(void **state)
{
    static char dir[] = "/tmp/mr-engine-XXXXXX";

    (void)state;
    if (mkdtemp(dir) == NULL) {
        return -1;
    }
    for (int f = 0; f < 3; f++) {
        mr_tfrecord_writer *w = NULL;
        char text[64];

        (void)snprintf(record_path[f], sizeof record_path[f], "%s/%d.tfrecord.gz", dir, f);
        CHECK_OK(mr_tfrecord_writer_open(record_path[f], "GZIP", &w, e));
        for (int r = 0; r < 5 + f; r++) {
            int n = snprintf(text, sizeof text, "file %d record %d", f, r);

            CHECK_OK(mr_tfrecord_writer_write(w, text, (size_t)n, e));
        }
        CHECK_OK(mr_tfrecord_writer_close(w, e));
    }
    for (int f = 0; f < 2; f++) {
        static const char *const texts[2] = {"one\r\n\ntwo words\nthree", "a\nb\n\r\n\rlast\n"};

        (void)snprintf(text_path[f], sizeof text_path[f], "%s/%d.txt", dir, f);
        FILE *out = fopen(text_path[f], "w");
        if (out == NULL || fputs(texts[f], out) < 0 || fclose(out) != 0) {
            return -1;
        }
    }
    return 0;
}

static int remove_records(void **state)
{
    (void)state;
    for (int f = 0; f < 3; f++) {
        (void)unlink(record_path[f]);
    }
    (void)unlink(text_path[0]);
    (void)unlink(text_path[1]);
    *strrchr(record_path[0], '/') = '\0';
    return rmdir(record_path[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_are_followed_to_their_end),
        cmocka_unit_test(every_operator_is_covered),
        cmocka_unit_test(any_block_size_and_threads),
        cmocka_unit_test(cardinality_is_right),
        cmocka_unit_test(definitions_come_back),
        cmocka_unit_test(saved_anywhere),
        cmocka_unit_test(damaged_states_are_refused),
        cmocka_unit_test(cancelled_is_cancelled),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, write_records, remove_records);
}
