/* Pipelines of what is built on those: windows, groups, padding, choices. */
#include "engine_pipelines.h"

#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static mr_dataset *p_ignore_errors(void)
{
    return make("ignore_errors", p_map_fails(), NULL, NULL, 0, NULL);
}

static mr_dataset *p_ignore_errors_parallel(void)
{
    return make("ignore_errors", p_map_fails_parallel(), NULL, NULL, 0, NULL);
}

/* The third error is one too many. */
static mr_dataset *p_ignore_errors_limited(void)
{
    return make_one("ignore_errors", p_map_fails(), "max_errors", 2);
}

static mr_dataset *p_assert_cardinality(void)
{
    return make_one("assert_cardinality", make_range(0, 23, 1), "cardinality", 23);
}

static mr_dataset *p_assert_cardinality_too_few(void)
{
    return make_one("assert_cardinality", p_map_fails(), "cardinality", 1000);
}

static mr_dataset *p_assert_cardinality_too_many(void)
{
    return make_one("assert_cardinality", p_map_fails(), "cardinality", 5);
}

/* Batches of 0 descend from nothing: tests/e2e/test_rebatch.py has them. */
static mr_dataset *rebatch_of(mr_dataset *ds, bool drop_remainder)
{
    const int64_t sizes[] = {3, 1, 4};

    return make("rebatch", ds, NULL,
                ATTRS(BOOL_ATTR("drop_remainder", drop_remainder),
                      {.name = "sizes", .kind = MR_ATTR_INTS, .ints = sizes, .count = 3}),
                NULL);
}

static mr_dataset *p_rebatch(void)
{
    return rebatch_of(map_of(make_range(0, 27, 1), fn_text, 0, true), false);
}

static mr_dataset *p_rebatch_fails(void)
{
    return rebatch_of(p_map_fails(), true);
}

/* Errors move nothing: neither what stands beside the element that failed, nor what comes after
 * it. */
static mr_dataset *p_zip_fails(void)
{
    return make_zip(make_range(0, 23, 1), make_zip(p_map_fails(), p_map_fails_parallel()));
}

static mr_dataset *p_batch_fails(void)
{
    return make_zip(make_one("batch", p_map_fails(), "batch_size", 3),
                    make_one("batch", make_range(0, 20, 1), "batch_size", 3));
}

static mr_dataset *p_cache_fails(void)
{
    mr_dataset *cached = make("cache", p_map_fails(), NULL, NULL, 0, NULL);

    return make_zip(make_one("repeat", cached, "count", 2), make_range(0, 60, 1));
}

static mr_dataset *p_padded_batch(void)
{
    return make_one("padded_batch", map_of(make_range(0, 23, 1), fn_vector, 0, true), "batch_size",
                    4);
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
    mr_dataset *ds = make_zip(map_of(make_range(0, 23, 1), fn_text, 0, true),
                              map_of(make_range(0, 40, 1), fn_vector, 0, true));

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

    return make("padded_batch", map_of(make_range(0, 23, 1), fn_vector, 0, true), NULL,
                ATTRS(INT_ATTR("batch_size", 2),
                      {.name = "padded_shapes", .kind = MR_ATTR_INTS, .ints = shapes, .count = 2}),
                NULL);
}

/* Each x: vectors of up to 2 padded to x + 2 with x. */
static mr_dataset *p_padded_batch_of_function(void)
{
    const int64_t shapes[] = {1, -2};
    mr_dataset *ds = make_range(0, 5, 1);
    mr_builder *b = begin_for(ds, NULL);
    uint32_t two = add_int(b, 2);
    const uint32_t sum[2] = {0, two};
    uint32_t size = add_op(b, "add", sum, 2, NULL, 0);
    uint32_t sizes = add_op(b, "stack", &size, 1, ATTRS(INT_ATTR("axis", 0)));
    mr_dataset *inner =
        make("padded_batch", map_of(make_range(0, 9, 1), fn_vector, 0, true), NULL,
             ATTRS(INT_ATTR("batch_size", 4), VALUE_ATTR("sizes", sizes), VALUE_ATTR("value0", 0),
                   {.name = "padded_shapes", .kind = MR_ATTR_INTS, .ints = shapes, .count = 2}),
             b);

    return make_with_function("interleave", ds, finish_dataset(b, inner),
                              ATTRS(INT_ATTR("cycle_length", 2)));
}

/* Each element, a dataset for each component, as batches of @per of all of them together. */
static mr_dataset *expand_windows(mr_dataset *ds, int64_t per)
{
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner[8];
    mr_dataset *all = NULL;
    size_t n = mr_spec_leaves(mr_dataset_spec(ds));

    for (size_t i = 0; i < n; i++) {
        /* The structure of one component: {"!dataset":[[...],...]} stands alone where there is one
         * only. */
        mr_spec *part = NULL;
        struct mr_buf text = MR_BUF_INIT;
        const char *all_parts = mr_spec_structure(mr_dataset_spec(ds));
        const char *at = all_parts;

        for (size_t k = 0; k <= i; k++) {
            at = strstr(k > 0 ? at + 1 : at, "{\"!dataset\":") +
                 (k == i ? strlen("{\"!dataset\":") : 0);
        }
        const char *end = at;
        for (int depth = 0; *end != '\0' && (depth > 0 || end == at); end++) {
            depth += (*end == '[') - (*end == ']');
        }
        mr_buf_append(&text, at, (size_t)(end - at));
        CHECK_OK(mr_spec_from_json(text.data, text.len, &part, e));
        mr_spec_unref(part);
        struct mr_attr spec = {
            .name = "spec", .kind = MR_ATTR_BYTES, .bytes = text.data, .size = text.len};
        inner[i] =
            make("elements_of", NULL, NULL, ATTRS(VALUE_ATTR("dataset", (int64_t)i), spec), b);
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
    return expand_windows(window_of(map_of(make_range(0, 17, 1), fn_text, 0, true), 3, 2, 2, true),
                          2);
}

static mr_dataset *p_window_gaps(void)
{
    return expand_windows(
        make_one("shuffle", window_of(p_map_fails(), 2, 5, 1, false), "buffer_size", 3), 3);
}

static mr_dataset *p_window_fails(void)
{
    return expand_windows(make_zip(window_of(make_range(0, 20, 1), 3, 1, 1, true),
                                   window_of(p_map_fails(), 3, 1, 1, true)),
                          1);
}

static mr_dataset *p_zip_ends(void)
{
    return make_zip(make_range(0, 60, 1),
                    expand_windows(window_of(p_map_fails(), 3, 1, 1, false), 1));
}

static mr_dataset *p_windows_of_windows(void)
{
    mr_dataset *ds = window_of(window_of(make_range(0, 20, 1), 3, 3, 1, false), 2, 1, 1, true);
    mr_builder *b = begin_for(ds, NULL);
    const char spec[] = "[[null],{\"!dataset\":[[[\"int64\"]],\"*\"]}]";
    mr_dataset *inner = make("elements_of", NULL, NULL,
                             ATTRS(VALUE_ATTR("dataset", 0), TEXT_ATTR("spec", spec)), b);

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
    struct mr_attr of = {
        .name = "spec", .kind = MR_ATTR_BYTES, .bytes = text.data, .size = text.len};
    mr_dataset *inner = make("elements_of", NULL, NULL, ATTRS(VALUE_ATTR("dataset", i), of), b);
    mr_buf_free(&text);
    return inner;
}

/* Groups by x % 3 (or by what fails for 5), each as batches of @per; full with @size, or with key +
 * 2. */
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
    mr_spec_put_json(&text, parts, mr_spec_leaves(mr_dataset_spec(ds)),
                     mr_spec_structure(mr_dataset_spec(ds)));
    mr_buf_append(&text, "}]", 3);
    CHECK_OK(mr_spec_new(leaves, 2, (const char *)text.data, &spec, e));
    mr_buf_free(&text);
    CHECK_OK(mr_builder_new(spec, NULL, &b, e));
    mr_spec_unref(spec);
    functions[1] = finish_dataset(b, make("padded_batch", elements_like(b, 1, ds), NULL,
                                          ATTRS(INT_ATTR("batch_size", per)), b));
    if (size == 0) {
        CHECK_OK(mr_spec_new(leaves, 1, NULL, &spec, e));
        CHECK_OK(mr_builder_new(spec, NULL, &b, e));
        mr_spec_unref(spec);
        uint32_t in[2] = {0, add_int(b, 2)};
        uint32_t sum = add_op(b, "add", in, 2, NULL, 0);
        functions[2] = finish(b, &sum, 1);
    }
    struct mr_attr window = INT_ATTR("window_size", size);
    CHECK_OK(mr_dataset_apply("group_by_window", &ds, 1, &window, size != 0, functions,
                              size == 0 ? 3 : 2, NULL, &out, e));
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

/* ---- group_by_reducer ---- */

/* Where its functions fail: the first state of that key, that element, that sum. */
struct failing {
    int64_t init;
    int64_t element;
    int64_t sum;
};
static const struct failing nowhere = {-1, -1, -1};

/* A state: a sum, a text and a vector. */
static const struct mr_leaf_spec reduced[4] = {
    {.dtype = MR_INT64},
    {.dtype = MR_STRING},
    {.dtype = MR_INT64, .rank = 1, .dims = {MR_DIM_UNKNOWN}},
    {.dtype = MR_INT64}, /* an element behind it */
};

static mr_builder *begin_of(const struct mr_leaf_spec *leaves, size_t n)
{
    mr_builder *b = NULL;
    mr_spec *spec = NULL;

    CHECK_OK(mr_spec_new(leaves, n, NULL, &spec, e));
    CHECK_OK(mr_builder_new(spec, NULL, &b, e));
    mr_spec_unref(spec);
    return b;
}

/* 0; an error if @x is @bad. */
static uint32_t add_check(mr_builder *b, uint32_t x, int64_t bad)
{
    uint32_t less[2] = {x, add_int(b, bad)};
    uint32_t divide[2] = {add_int(b, 100), add_op(b, "sub", less, 2, NULL, 0)};
    uint32_t times[2] = {add_op(b, "floor_div", divide, 2, NULL, 0), add_int(b, 0)};

    return add_op(b, "mul", times, 2, NULL, 0);
}

static uint32_t add_range(mr_builder *b, uint32_t stop)
{
    uint32_t in[3] = {add_int(b, 0), stop, add_int(b, 1)};

    return add_op(b, "range_tensor", in, 3, NULL, 0);
}

/* key -> (0, "0", []) */
static mr_function *fn_init(int64_t bad)
{
    mr_builder *b = begin_of(reduced, 1);
    uint32_t zero = add_check(b, 0, bad);
    uint32_t out[3] = {zero, add_op(b, "as_string", &zero, 1, NULL, 0), add_range(b, zero)};

    return finish(b, out, 3);
}

/* ((sum, text, vector), x) -> (sum + x, sum as text, range(x % 3)) */
static mr_function *fn_reduce(int64_t bad)
{
    mr_builder *b = begin_of(reduced, 4);
    uint32_t checked[2] = {3, add_check(b, 3, bad)};
    uint32_t sum[2] = {0, add_op(b, "add", checked, 2, NULL, 0)};
    uint32_t mod[2] = {3, add_int(b, 3)};
    uint32_t out[3] = {add_op(b, "add", sum, 2, NULL, 0), add_op(b, "as_string", sum, 1, NULL, 0),
                       add_range(b, add_op(b, "floor_mod", mod, 2, NULL, 0))};

    return finish(b, out, 3);
}

/* (sum, text, vector) -> the same */
static mr_function *fn_finalize(int64_t bad)
{
    mr_builder *b = begin_of(reduced, 3);
    uint32_t checked[2] = {0, add_check(b, 0, bad)};
    uint32_t out[3] = {add_op(b, "add", checked, 2, NULL, 0), 1, 2};

    return finish(b, out, 3);
}

static mr_dataset *reduced_with(mr_dataset *ds, mr_function **functions)
{
    mr_dataset *out = NULL;

    CHECK_OK(mr_dataset_apply("group_by_reducer", &ds, 1, NULL, 0, functions, 4, NULL, &out, e));
    mr_dataset_unref(ds);
    for (int i = 0; i < 4; i++) {
        mr_function_unref(functions[i]);
    }
    return out;
}

static mr_dataset *reduced_by(mr_dataset *ds, mr_function *key, const struct failing *bad)
{
    mr_function *functions[4] = {key, fn_init(bad->init), fn_reduce(bad->element),
                                 fn_finalize(bad->sum)};

    return reduced_with(ds, functions);
}

static mr_dataset *p_group_by_reducer(void)
{
    mr_dataset *ds = make_range(0, 50, 1);

    return reduced_by(ds, fn_mod(ds, 23), &nowhere);
}

/* The keys of 0 to 19 are 100 // (x - 5), so that of 5 fails. */
static mr_dataset *p_reducer_key_fails(void)
{
    mr_dataset *ds = make_range(0, 20, 1);

    return reduced_by(ds, fn_divide(ds, 5), &nowhere);
}

static mr_dataset *p_reducer_fails(void)
{
    mr_dataset *ds = make_range(0, 30, 1);

    /* The sum is that of 0, 10, 20. */
    return reduced_by(ds, fn_mod(ds, 10), &(struct failing){.init = 3, .element = 17, .sum = 30});
}

/* The state is the key, and the key in as many dimensions as there are elements. */
static const struct mr_leaf_spec deepening[3] = {
    {.dtype = MR_INT64},
    {.dtype = MR_INT64, .rank = MR_RANK_UNKNOWN},
    {.dtype = MR_INT64}, /* an element behind it */
};

/* x -> 2 * x // 3: each second key has two elements. */
static mr_function *fn_two_thirds(const mr_dataset *ds)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t times[2] = {0, add_int(b, 2)};
    uint32_t divide[2] = {add_op(b, "mul", times, 2, NULL, 0), add_int(b, 3)};
    uint32_t out = add_op(b, "floor_div", divide, 2, NULL, 0);

    return finish(b, &out, 1);
}

/* Results have one or two dimensions; those of the keys 3, 7, 11, ... fail. */
static mr_dataset *p_reducer_ranks(void)
{
    mr_dataset *ds = make_range(0, 50, 1);
    mr_builder *init = begin_of(deepening, 1);
    mr_builder *reduce = begin_of(deepening, 3);
    mr_builder *last = begin_of(deepening, 2);
    struct mr_attr axis = INT_ATTR("axis", 0);
    uint32_t key = 0;
    uint32_t deeper[2] = {0, add_op(reduce, "expand_dims", &(uint32_t){1}, 1, &axis, 1)};
    uint32_t mod[2] = {0, add_int(last, 4)};
    uint32_t sum[2] = {1, add_check(last, add_op(last, "floor_mod", mod, 2, NULL, 0), 3)};
    uint32_t out = add_op(last, "add", sum, 2, NULL, 0);
    mr_function *functions[4] = {fn_two_thirds(ds), finish(init, (uint32_t[]){key, key}, 2),
                                 finish(reduce, deeper, 2), finish(last, &out, 1)};

    return reduced_with(ds, functions);
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

/* Vectors of 0 to 2 values behind one another. */
static mr_dataset *p_batch_joined(void)
{
    const struct mr_attr joined = {
        .name = "joined", .kind = MR_ATTR_INTS, .count = 1, .ints = (const int64_t[]){0}};

    return make("batch", map_of(make_range(0, 23, 1), fn_vector, 0, true), NULL,
                ATTRS(INT_ATTR("batch_size", 4), joined), NULL);
}

/* Six values, and how they are cut: into one, two and three. */
static mr_function *fn_rows(const mr_dataset *ds)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t values[3] = {add_int(b, 0), add_int(b, 6), add_int(b, 1)};
    uint32_t counts[3] = {add_int(b, 1), add_int(b, 4), add_int(b, 1)};
    uint32_t out[2] = {add_op(b, "range_tensor", values, 3, NULL, 0),
                       add_op(b, "range_tensor", counts, 3, NULL, 0)};

    return finish(b, out, 2);
}

static mr_dataset *p_unbatch_counts(void)
{
    const struct mr_attr counts = {
        .name = "counts", .kind = MR_ATTR_INTS, .count = 2, .ints = (const int64_t[]){0, 1}};

    return make("unbatch", map_of(make_range(0, 9, 1), fn_rows, 0, true), NULL, ATTRS(counts),
                NULL);
}

static mr_dataset *p_unbatch_batches(void)
{
    return make("unbatch",
                make_one("batch", map_of(make_range(0, 25, 1), fn_text, 0, true), "batch_size", 4),
                NULL, NULL, 0, NULL);
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
                make_one("repeat", make_strings((const char *const[]){"a", "", "b", "a", "ccc"}, 5),
                         "count", 2),
                NULL, NULL, 0, NULL);
}

static mr_dataset *p_cache(void)
{
    return make("cache", p_shuffle_vectors(), NULL, NULL, 0, NULL);
}

static mr_dataset *p_cache_twice(void)
{
    mr_dataset *ds =
        make_one("shuffle", map_of(make_range(0, 25, 1), fn_text, 0, true), "buffer_size", 7);

    return make_one("take", make_one("repeat", make("cache", ds, NULL, NULL, 0, NULL), "count", 3),
                    "count", 60);
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
    ds = make("scan", ds, finish(b, out, 2),
              ATTRS({.name = "initial_state", .kind = MR_ATTR_BLOCK, .block = state}), NULL);
    mr_block_unref(state);
    return ds;
}

static mr_dataset *of_three(const char *op, mr_dataset *choices, const struct mr_attr *attrs,
                            size_t nattrs)
{
    mr_dataset *inputs[4] = {choices, make_range(0, 9, 1), make_range(100, 120, 1),
                             make_range(200, 203, 1)};
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

    return of_three("choose", make_with_function("map", ds, fn, NULL, 0),
                    ATTRS(BOOL_ATTR("stop_on_empty", 0)));
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
    mr_dataset *ds = of_three("sample", NULL,
                              ATTRS({.name = "weights", .kind = MR_ATTR_BLOCK, .block = weights}));
    mr_block_unref(weights);
    return make_one("repeat", ds, "count", 2);
}

const struct pipeline more_pipelines[] = {
    {.name = "ignore_errors", .make = p_ignore_errors},
    {.name = "ignore_errors of a parallel map", .make = p_ignore_errors_parallel},
    {.name = "ignore_errors, up to a number", .make = p_ignore_errors_limited},
    {.name = "assert_cardinality", .make = p_assert_cardinality},
    {.name = "assert_cardinality, too few", .make = p_assert_cardinality_too_few},
    {.name = "assert_cardinality, too many",
     .make = p_assert_cardinality_too_many,
     .company = true},
    {.name = "rebatch", .make = p_rebatch, .company = true},
    {.name = "rebatch of what fails", .make = p_rebatch_fails, .company = true},
    {.name = "zip of what fails", .make = p_zip_fails, .company = true},
    {.name = "batches that fail", .make = p_batch_fails, .company = true},
    {.name = "cache of what fails", .make = p_cache_fails, .by_value = true},
    {.name = "padded_batch", .make = p_padded_batch, .company = true},
    {.name = "padded_batch with values", .make = p_padded_batch_values, .company = true},
    {.name = "padded_batch, too small", .make = p_padded_batch_too_small, .company = true},
    {.name = "padded_batch to values of a function", .make = p_padded_batch_of_function},
    {.name = "window, elements_of", .make = p_window, .company = true},
    {.name = "windows that overlap", .make = p_window_overlap, .company = true},
    {.name = "windows with gaps", .make = p_window_gaps, .company = true},
    {.name = "windows that fail", .make = p_window_fails, .company = true},
    {.name = "a zip that cannot go on", .make = p_zip_ends, .company = true},
    {.name = "windows of windows", .make = p_windows_of_windows, .company = true},
    {.name = "group_by_window", .make = p_group_by_window, .by_value = true},
    {.name = "groups with sizes of their own", .make = p_group_sizes, .by_value = true},
    {.name = "groups whose keys fail", .make = p_group_fails, .by_value = true},
    {.name = "group_by_reducer", .make = p_group_by_reducer, .by_value = true},
    {.name = "group_by_reducer whose keys fail", .make = p_reducer_key_fails, .by_value = true},
    {.name = "group_by_reducer that fails", .make = p_reducer_fails, .by_value = true},
    {.name = "group_by_reducer with results of several ranks",
     .make = p_reducer_ranks,
     .by_value = true},
    {.name = "shard", .make = p_shard, .company = true},
    {.name = "take_while", .make = p_take_while, .by_value = true},
    {.name = "take_while, with errors", .make = p_take_while_fails, .by_value = true},
    {.name = "unbatch", .make = p_unbatch},
    {.name = "unbatch_counts", .make = p_unbatch_counts},
    {.name = "batch_joined", .make = p_batch_joined, .company = true},
    {.name = "unbatch of batches", .make = p_unbatch_batches, .company = true},
    {.name = "unique", .make = p_unique, .by_value = true},
    {.name = "unique strings", .make = p_unique_strings, .by_value = true},
    {.name = "cache", .make = p_cache},
    {.name = "cache, read again", .make = p_cache_twice, .kept = true},
    {.name = "scan", .make = p_scan, .by_value = true},
    {.name = "choose", .make = p_choose, .by_value = true},
    {.name = "choose, to the end of one", .make = p_choose_stops, .by_value = true},
    {.name = "sample", .make = p_sample, .by_value = true},
};
const size_t more_pipelines_count = sizeof more_pipelines / sizeof more_pipelines[0];
