/* Runs in strips: the bytes of a run of all rows at once, whatever the results are and whichever
 * row fails. */
#include "base/memory.h"
#include "engine/program/plan.h"
#include "program_support.h"

#include <string.h>

#define WIDE 20000 /* values of 8 bytes: a row between steps */
#define ROWS 50u
#define FEW 12u /* where each of their allocations fails in turn */
#define NEVER (-1)
/* All rows at once need more than twice as much, and a strip a tenth. */
#define ENOUGH (UINT64_C(4) << 20)

static mr_builder *begin_inner(mr_builder *outer, uint32_t *captured)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = NULL;
    mr_spec *spec = NULL;

    CHECK_OK(mr_spec_new(&in, 1, NULL, &spec, e));
    CHECK_OK(mr_builder_new(spec, outer, &b, e));
    mr_spec_unref(spec);
    CHECK_OK(mr_builder_capture(b, 0, captured, e));
    return b;
}

static struct mr_attr shape_of(int64_t *n)
{
    return (struct mr_attr){.name = "shape", .kind = MR_ATTR_SHAPE, .count = 1, .ints = n};
}

/*
 * Of x, with c captured, each kind of result: the sum of WIDE times x + c * c; its text; as many
 * numbers as x is modulo 5; x; c * c; random numbers. It fails where x is @bad.
 */
static mr_program *make(int64_t bad)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *outer = begin(&in, 1);
    uint32_t c = 0;
    mr_builder *b = begin_inner(outer, &c);
    struct mr_attr wide = shape_of((int64_t[]){WIDE});
    struct mr_attr three = shape_of((int64_t[]){3});
    uint32_t square = OP(b, "mul", c, c);
    uint32_t quotient = OP(b, "floor_div", 0, OP(b, "sub", 0, constant(b, bad)));
    uint32_t x = OP(b, "add", 0, OP(b, "sub", quotient, quotient));
    uint32_t y = OP(b, "add", x, square);
    uint32_t sum = OP(b, "reduce_sum", add(b, "broadcast_to", &wide, 1, &y));
    uint32_t rest = OP(b, "floor_mod", x, constant(b, 5));
    uint32_t bounds[] = {cast(b, constant(b, 0), MR_FLOAT32), cast(b, constant(b, 1), MR_FLOAT32)};
    uint32_t results[] = {sum,
                          OP(b, "as_string", sum),
                          OP(b, "range_tensor", constant(b, 0), rest, constant(b, 1)),
                          0,
                          square,
                          add(b, "random_uniform", &three, 2, bounds)};
    mr_program *p = compile(b, results, sizeof results / sizeof results[0]);

    mr_builder_free(outer);
    return p;
}

static const struct mr_kernel_random random_state = {.seed = 3, .epoch = 1, .index = 100};

struct outcome {
    int rc;
    uint32_t bad_row;
    mr_block *out;
};

/* @limit: of the memory, in bytes. */
static struct outcome run_on(const mr_program *p, const mr_block *in,
                             const struct mr_kernel_random *random, uint64_t limit)
{
    mr_block *capture = ints(1, (int64_t[]){7});
    mr_memory *memory = NULL;
    struct outcome o = {0};

    CHECK_OK(mr_memory_new(limit, NULL, &memory, e));
    mr_memory *before = mr_memory_enter(memory);
    o.rc = mr_program_run(p, in, capture, random, &o.out, &o.bad_row, NULL);
    (void)mr_memory_enter(before);
    mr_memory_unref(memory);
    mr_block_unref(capture);
    return o;
}

/* Of the rows 0, 1, 2, ... */
static struct outcome run(const mr_program *p, uint32_t rows, uint64_t limit)
{
    mr_block *in = ints(rows, NULL);
    struct outcome o = run_on(p, in, &random_state, limit);

    mr_block_unref(in);
    return o;
}

/* A program that knows how large its rows are. */
static mr_program *make_experienced(int64_t bad)
{
    mr_program *p = make(bad);
    struct outcome o = run(p, 2, UINT64_MAX);

    assert_int_equal(o.rc, MR_OK);
    mr_block_unref(o.out);
    return p;
}

static void expect_same(const mr_block *a, const mr_block *b)
{
    mr_buffer *x = NULL;
    mr_buffer *y = NULL;

    CHECK_OK(mr_block_encode_buffer(a, 1, false, &x, e));
    CHECK_OK(mr_block_encode_buffer(b, 1, false, &y, e));
    assert_int_equal(mr_buffer_size(x), mr_buffer_size(y));
    assert_memory_equal(mr_buffer_data(x), mr_buffer_data(y), mr_buffer_size(x));
    mr_buffer_unref(x);
    mr_buffer_unref(y);
}

static void strips_have_the_results_of_all_at_once(void **state)
{
    mr_program *fresh = make(NEVER);
    mr_program *experienced = make_experienced(NEVER);

    assert_int_equal(run(fresh, ROWS, ENOUGH).rc, MR_EEXHAUSTED);
    struct outcome whole = run(fresh, ROWS, UINT64_MAX);
    struct outcome strips = run(experienced, ROWS, ENOUGH);

    assert_int_equal(whole.rc, MR_OK);
    assert_int_equal(strips.rc, MR_OK);
    expect_same(whole.out, strips.out);
    assert_true(int_at(strips.out, 0, 40) == (40 + 49) * WIDE && int_at(strips.out, 4, 9) == 49);
    mr_block_unref(whole.out);
    mr_block_unref(strips.out);
    mr_program_free(fresh);
    mr_program_free(experienced);
}

/* A result of several MiB, which goes past the caches strip by strip: sums and products of @x. */
static void large_results_are_the_same(void **state)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    struct mr_attr wide = shape_of((int64_t[]){WIDE + 3});
    struct mr_attr axis = {.name = "axis", .kind = MR_ATTR_INT, .i = 0};
    uint32_t x = 0;
    uint32_t broad = add(b, "broadcast_to", &wide, 1, &x);
    uint32_t sums = add(b, "cumsum", &axis, 1, &broad);
    uint32_t results[] = {sums, OP(b, "reduce_sum", OP(b, "mul", sums, sums))};
    mr_program *p = compile(b, results, 2);
    struct outcome whole = run(p, ROWS, UINT64_MAX);
    struct outcome strips = run(p, ROWS, UINT64_MAX);

    assert_int_equal(whole.rc, MR_OK);
    assert_int_equal(strips.rc, MR_OK);
    expect_same(whole.out, strips.out);
    const int64_t *values = mr_block_column(strips.out, 0)->data;

    for (int64_t i = 0; i < (int64_t)ROWS * (WIDE + 3); i++) {
        assert_true(values[i] == i / (WIDE + 3) * (i % (WIDE + 3) + 1));
    }
    mr_block_unref(whole.out);
    mr_block_unref(strips.out);
    mr_program_free(p);
}

/* Rows with numbers of their own draw by these. */
static void rows_draw_by_their_numbers(void **state)
{
    mr_program *p = make_experienced(NEVER);
    struct mr_kernel_random random = random_state;
    uint64_t numbers[ROWS];
    mr_block *in = ints(ROWS, NULL);

    for (uint32_t r = 0; r < ROWS; r++) {
        numbers[r] = 3 * (ROWS - r);
    }
    random.indices = numbers;
    struct outcome strips = run_on(p, in, &random, ENOUGH);
    mr_program *fresh = make(NEVER);
    struct outcome whole = run_on(fresh, in, &random, UINT64_MAX);

    assert_int_equal(strips.rc, MR_OK);
    assert_int_equal(whole.rc, MR_OK);
    expect_same(whole.out, strips.out);
    mr_block_unref(whole.out);
    mr_block_unref(strips.out);
    mr_block_unref(in);
    mr_program_free(fresh);
    mr_program_free(p);
}

/* Of a vector that says not how long it is: the vector, which has to be of 2 numbers, and the sum of
 * WIDE of them. */
static mr_program *make_of_views(void)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 1, (int64_t[]){MR_DIM_UNKNOWN});
    mr_builder *b = begin(&in, 1);
    struct mr_attr two = shape_of((int64_t[]){2});
    struct mr_attr wide = (struct mr_attr){
        .name = "multiples", .kind = MR_ATTR_INTS, .count = 1, .ints = (int64_t[]){WIDE}};
    uint32_t x = 0;
    uint32_t view = add(b, "ensure_shape", &two, 1, &x);
    uint32_t tiled = add(b, "tile", &wide, 1, &view);
    uint32_t results[] = {view, OP(b, "reduce_sum", tiled)};

    return compile(b, results, 2);
}

/* Rows of 2 numbers each, 0, 1, 2, ..., as rows of different lengths would be. */
static mr_block *make_vectors(void)
{
    int64_t numbers[2 * ROWS];
    int64_t dims[ROWS];
    uint64_t starts[ROWS + 1] = {0};
    mr_block *block = NULL;

    for (uint32_t r = 0; r < ROWS; r++) {
        numbers[2 * r] = 2 * r;
        numbers[2 * r + 1] = 2 * r + 1;
        dims[r] = 2;
        starts[r + 1] = starts[r] + 2;
    }
    struct mr_column c = {.kind = MR_COLUMN_VAR,
                          .dtype = MR_INT64,
                          .rank = 1,
                          .row_dims = dims,
                          .starts = starts,
                          .data = numbers};
    CHECK_OK(mr_block_new(ROWS, &c, 1, &block, e));
    return block;
}

/* What lies in the middle of an input goes to its place. */
static void views_of_inputs(void **state)
{
    mr_program *p = make_of_views();
    mr_block *in = make_vectors();
    struct outcome whole = run_on(p, in, NULL, UINT64_MAX);
    struct outcome strips = run_on(p, in, NULL, ENOUGH);

    assert_int_equal(whole.rc, MR_OK);
    assert_int_equal(strips.rc, MR_OK);
    for (uint32_t r = 0; r < ROWS; r++) {
        assert_int_equal(int_at(strips.out, 0, 2 * r), 2 * r);
        assert_int_equal(int_at(strips.out, 0, 2 * r + 1), 2 * r + 1);
        assert_int_equal(int_at(strips.out, 1, r), (4 * r + 1) * WIDE);
        assert_int_equal(int_at(whole.out, 1, r), (4 * r + 1) * WIDE);
    }
    mr_block_unref(whole.out);
    mr_block_unref(strips.out);
    mr_block_unref(in);
    mr_program_free(p);
}

/* Of x, numbers that take as much as what is between steps, and of which only a run knows how many. */
static mr_program *make_of_large_results(void)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    struct mr_attr wide = shape_of((int64_t[]){WIDE});
    uint32_t x = 0;
    uint32_t sum = OP(b, "reduce_sum", add(b, "broadcast_to", &wide, 1, &x));
    uint32_t results[] = {sum, OP(b, "range_tensor", constant(b, 0), constant(b, WIDE),
                                  OP(b, "add", x, constant(b, 1)))};

    return compile(b, results, 2);
}

/* What would have to be moved once more is made at once: it takes the memory that this takes. */
static void large_results_without_a_place_are_made_at_once(void **state)
{
    mr_program *p = make_of_large_results();
    mr_block *none = ints(2, (int64_t[]){0, 0});
    struct outcome two = run_on(p, none, NULL, UINT64_MAX);

    assert_int_equal(two.rc, MR_OK);
    assert_int_equal(atomic_load(&p->sizes->inner), (WIDE + 1) * sizeof(int64_t));
    assert_int_equal(atomic_load(&p->sizes->loose), WIDE * sizeof(int64_t));
    assert_int_equal(run(p, ROWS, ENOUGH).rc, MR_EEXHAUSTED);
    mr_block_unref(two.out);
    mr_block_unref(none);
    mr_program_free(p);
}

static void a_row_that_fails_in_a_strip(void **state)
{
    mr_program *fresh = make(30);
    mr_program *experienced = make_experienced(30);
    struct outcome whole = run(fresh, ROWS, UINT64_MAX);
    struct outcome strips = run(experienced, ROWS, UINT64_MAX);

    assert_int_equal(whole.rc, MR_EINVAL);
    assert_int_equal(strips.rc, MR_EINVAL);
    assert_int_equal(whole.bad_row, 30);
    assert_int_equal(strips.bad_row, 30);
    expect_same(whole.out, strips.out);
    mr_block_unref(whole.out);
    mr_block_unref(strips.out);
    mr_program_free(fresh);
    mr_program_free(experienced);
}

/* Of x, with c captured, the sums of WIDE times x and of 0, x + 1, ... below c * c, less c * c. What
 * is the same for all rows is no result: rows read it before and after other such steps do. */
static mr_program *make_with_shared(void)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *outer = begin(&in, 1);
    uint32_t c = 0;
    mr_builder *b = begin_inner(outer, &c);
    struct mr_attr wide = shape_of((int64_t[]){WIDE});
    uint32_t x = 0;
    uint32_t sum = OP(b, "reduce_sum", add(b, "broadcast_to", &wide, 1, &x));
    uint32_t square = OP(b, "mul", c, c);
    uint32_t step = OP(b, "add", x, constant(b, 1));
    uint32_t range = OP(b, "range_tensor", constant(b, 0), square, step);
    uint32_t minus = OP(b, "neg", square);
    uint32_t results[] = {sum, OP(b, "add", OP(b, "reduce_sum", range), minus)};
    mr_program *p = compile(b, results, 2);

    mr_builder_free(outer);
    return p;
}

static void what_is_the_same_for_all_rows_is_there_in_each_strip(void **state)
{
    mr_program *p = make_with_shared();
    struct outcome whole = run(p, ROWS, UINT64_MAX);
    struct outcome strips = run(p, ROWS, ENOUGH);

    assert_int_equal(whole.rc, MR_OK);
    assert_int_equal(strips.rc, MR_OK);
    expect_same(whole.out, strips.out);
    assert_int_equal(int_at(strips.out, 1, 40), 0 + 41 - 49);
    mr_block_unref(whole.out);
    mr_block_unref(strips.out);
    mr_program_free(p);
}

/* Of x, the sum of 0, 1, ... below x: rows of very different sizes between steps. */
static mr_program *make_of_any_size(void)
{
    struct mr_leaf_spec in = leaf(MR_INT64, 0, NULL);
    mr_builder *b = begin(&in, 1);
    uint32_t range = OP(b, "range_tensor", constant(b, 0), 0, constant(b, 1));
    uint32_t sum = OP(b, "reduce_sum", range);

    return compile(b, &sum, 1);
}

/* Bytes of a row, as @p knows them after a run of @rows times @x. */
static uint64_t learn(const mr_program *p, uint32_t rows, int64_t x)
{
    int64_t values[ROWS];

    for (uint32_t r = 0; r < rows; r++) {
        values[r] = x;
    }
    mr_block *in = ints(rows, values);
    mr_block *out = run_ok(p, in);

    assert_int_equal(int_at(out, 0, rows - 1), x * (x - 1) / 2);
    mr_block_unref(out);
    mr_block_unref(in);
    return atomic_load(&p->sizes->inner);
}

static void each_run_says_how_large_rows_are(void **state)
{
    mr_program *p = make_of_any_size();

    assert_int_equal(learn(p, 1, WIDE), WIDE * sizeof(int64_t));
    assert_int_equal(learn(p, ROWS, 5), 5 * sizeof(int64_t)); /* strip by strip */
    assert_int_equal(learn(p, 1, WIDE), WIDE * sizeof(int64_t));
    assert_int_equal(learn(p, ROWS, 0), 0);
    mr_program_free(p);
}

static void no_rows(void **state)
{
    mr_program *p = make_experienced(NEVER);
    struct outcome none = run(p, 0, ENOUGH);

    assert_int_equal(none.rc, MR_OK);
    assert_int_equal(mr_block_rows(none.out), 0);
    assert_true(atomic_load(&p->sizes->inner) > 0); /* as it was */
    mr_block_unref(none.out);
    mr_program_free(p);
}

/* A strip without memory is no reason to fail: what is run at once has another try. */
static void failed_allocations(void **state)
{
    mr_program *p = make_experienced(NEVER);
    struct outcome expected = run(p, FEW, UINT64_MAX);
    mr_block *in = ints(FEW, NULL);
    mr_block *capture = ints(1, (int64_t[]){7});
    uint32_t failed = 0;

    for (uint64_t nth = 1; nth < 200; nth++) {
        mr_block *out = NULL;
        uint32_t bad_row = 0;

        mr_alloc_fail_at(nth);
        int rc = mr_program_run(p, in, capture, &random_state, &out, &bad_row, NULL);
        mr_alloc_fail_at(0);
        assert_true(rc == MR_OK || rc == MR_EEXHAUSTED);
        if (rc == MR_OK) {
            expect_same(expected.out, out);
        }
        failed += rc != MR_OK;
        mr_block_unref(out);
    }
    assert_in_range(failed, 1, 20); /* what is needed before and after the strips */
    mr_block_unref(expected.out);
    mr_block_unref(capture);
    mr_block_unref(in);
    mr_program_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strips_have_the_results_of_all_at_once),
        cmocka_unit_test(large_results_are_the_same),
        cmocka_unit_test(rows_draw_by_their_numbers),
        cmocka_unit_test(views_of_inputs),
        cmocka_unit_test(large_results_without_a_place_are_made_at_once),
        cmocka_unit_test(a_row_that_fails_in_a_strip),
        cmocka_unit_test(what_is_the_same_for_all_rows_is_there_in_each_strip),
        cmocka_unit_test(each_run_says_how_large_rows_are),
        cmocka_unit_test(no_rows),
        cmocka_unit_test(failed_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
