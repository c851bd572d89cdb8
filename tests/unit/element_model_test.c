/* Slices, joins, gathers, batches and their inverses against the naive model, on random elements.
 * The seed of a failing round is printed; MR_SEED replays it alone. */
#include "element/row_image.h"
#include "element_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROUNDS 400

typedef void round_fn(struct mr_rng *rng);

static void rounds(round_fn *fn)
{
    const char *replay = getenv("MR_SEED");
    uint64_t first = replay != NULL ? strtoull(replay, NULL, 0) : 1;
    uint64_t n = replay != NULL ? 1 : ROUNDS;

    for (uint64_t seed = first; seed < first + n; seed++) {
        struct mr_rng rng;

        mr_rng_seed(&rng, seed);
        (void)printf("\r  seed %llu ", (unsigned long long)seed);
        fn(&rng);
    }
    (void)printf("\n");
}

static uint32_t some_rows(struct mr_rng *rng)
{
    return 1 + (uint32_t)mr_rng_below(rng, 12);
}

static void slice_round(struct mr_rng *rng)
{
    struct table_shape shape;
    struct table t;
    struct table part;
    mr_block *slice;
    mr_block *deeper;

    shape_random(rng, &shape);
    table_random(rng, &shape, some_rows(rng), &t);
    mr_block *block = table_to_block(rng, &t);
    assert_block_is(block, &t);

    uint32_t first = (uint32_t)mr_rng_below(rng, t.rows + 1);
    uint32_t count = (uint32_t)mr_rng_below(rng, t.rows - first + 1);
    assert_int_equal(mr_block_slice(block, first, count, &slice, NULL), MR_OK);
    mr_block_unref(block); /* The slice must keep alive what it needs. */
    table_new(&part, 0, t.columns);
    table_append(&part, &t, first, count);
    assert_block_is(slice, &part);

    uint32_t half = count / 2;
    assert_int_equal(mr_block_slice(slice, half, count - half, &deeper, NULL), MR_OK);
    mr_block_unref(slice);
    table_free(&part);
    table_new(&part, 0, t.columns);
    table_append(&part, &t, first + half, count - half);
    assert_block_is(deeper, &part);

    assert_int_equal(mr_block_copy_rows(deeper, 0, count - half, &slice, NULL), MR_OK);
    mr_block_unref(deeper);
    assert_block_is(slice, &part);
    assert_true(mr_block_exclusive(slice));
    mr_block_unref(slice);
    table_free(&part);
    table_free(&t);
}

static void slices_agree(void **state)
{
    rounds(slice_round);
}

static void concat_round(struct mr_rng *rng)
{
    struct table_shape shape;
    struct table whole;
    const mr_block *blocks[5];
    size_t n = 1 + mr_rng_below(rng, 5);
    mr_block *out;
    mr_error err;

    shape_random(rng, &shape);
    table_new(&whole, 0, shape.columns);
    for (size_t i = 0; i < n; i++) {
        struct table t;
        mr_block *slice;

        table_random(rng, &shape, some_rows(rng), &t);
        mr_block *block = table_to_block(rng, &t);
        uint32_t first = (uint32_t)mr_rng_below(rng, t.rows);
        uint32_t count = (uint32_t)mr_rng_below(rng, t.rows - first + 1);
        assert_int_equal(mr_block_slice(block, first, count, &slice, NULL), MR_OK);
        mr_block_unref(block);
        table_append(&whole, &t, first, count);
        blocks[i] = slice;
        table_free(&t);
    }
    if (mr_block_concat(blocks, n, &out, &err) != MR_OK) {
        fail_msg("concat: %s", err.message);
    }
    for (size_t i = 0; i < n; i++) {
        mr_block_unref(blocks[i]);
    }
    assert_block_is(out, &whole);
    mr_block_unref(out);
    table_free(&whole);
}

static void concat_agrees(void **state)
{
    rounds(concat_round);
}

static void gather_round(struct mr_rng *rng)
{
    struct table_shape shape;
    struct table t;
    struct table picked;
    uint32_t rows[20];
    uint32_t n = (uint32_t)mr_rng_below(rng, 20);
    mr_block *slice;
    mr_block *out;

    shape_random(rng, &shape);
    table_random(rng, &shape, some_rows(rng), &t);
    mr_block *block = table_to_block(rng, &t);
    uint32_t first = (uint32_t)mr_rng_below(rng, t.rows);
    assert_int_equal(mr_block_slice(block, first, t.rows - first, &slice, NULL), MR_OK);
    table_new(&picked, 0, t.columns);
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = (uint32_t)mr_rng_below(rng, t.rows - first);
        table_append(&picked, &t, first + rows[i], 1);
    }
    assert_int_equal(mr_block_gather(slice, rows, n, &out, NULL), MR_OK);
    mr_block_unref(block);
    mr_block_unref(slice);
    assert_block_is(out, &picked);
    mr_block_unref(out);
    table_free(&picked);
    table_free(&t);
}

static void images_round(struct mr_rng *rng)
{
    struct table_shape shape;
    struct table t;
    struct table picked;
    void *images[20];
    uint32_t n = 1 + (uint32_t)mr_rng_below(rng, 20);
    struct mr_leaf_spec leaves[8] = {{0}};
    mr_block *out;
    mr_spec *spec;

    shape_random(rng, &shape);
    table_random(rng, &shape, some_rows(rng), &t);
    for (uint32_t i = 0; i < shape.columns; i++) {
        leaves[i].dtype = shape.dtype[i];
        leaves[i].rank = (int8_t)shape.rank[i];
        memcpy(leaves[i].dims, shape.dims[i], sizeof leaves[i].dims);
    }
    assert_int_equal(mr_spec_new(leaves, shape.columns, NULL, &spec, NULL), MR_OK);
    assert_true(mr_row_images_suit(spec));
    mr_block *block = table_to_block(rng, &t);
    table_new(&picked, 0, t.columns);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = (uint32_t)mr_rng_below(rng, t.rows);

        table_append(&picked, &t, row, 1);
        assert_int_equal(mr_row_image_new(block, row, &images[i], NULL), MR_OK);
    }
    mr_block_unref(block);
    assert_int_equal(mr_row_images_block(spec, (const void *const *)images, n, &out, NULL), MR_OK);
    assert_block_is(out, &picked);
    mr_block_unref(out);
    for (uint32_t i = 0; i < n; i++) {
        mr_free(images[i]);
    }
    mr_spec_unref(spec);
    table_free(&picked);
    table_free(&t);
}

static void images_agree(void **state)
{
    rounds(images_round);
}

static void gather_agrees(void **state)
{
    rounds(gather_round);
}

static unsigned batches_made;
static unsigned batches_refused;

static void batch_round(struct mr_rng *rng)
{
    struct table_shape shape;
    struct table t;
    struct table want;
    struct table back;
    uint32_t per = 1 + (uint32_t)mr_rng_below(rng, 4);
    uint32_t rows = per * (uint32_t)mr_rng_below(rng, 4);
    uint32_t skip = (uint32_t)mr_rng_below(rng, 3);
    mr_block *slice;
    mr_block *out;
    mr_block *again;
    mr_error err;

    shape_random(rng, &shape);
    table_random(rng, &shape, rows + skip + 1, &t);
    mr_block *block = table_to_block(rng, &t);
    struct table part;
    table_new(&part, 0, t.columns);
    table_append(&part, &t, skip, rows);
    assert_int_equal(mr_block_slice(block, skip, rows, &slice, NULL), MR_OK);
    mr_block_unref(block);

    bool can = table_batch(&part, per, &want);
    int rc = mr_block_batch(slice, per, NULL, NULL, &out, &err);
    mr_block_unref(slice);
    assert_int_equal(rc, can ? MR_OK : MR_EINVAL);
    if (can) {
        batches_made++;
        assert_block_is(out, &want);
        assert_int_equal(mr_block_unbatch(out, &again, &err), MR_OK);
        mr_block_unref(out);
        if (rows > 0) {
            assert_true(table_unbatch(&want, &back));
            assert_block_is(again, &back);
            table_free(&back);
        }
        assert_block_is(again, &part);
        mr_block_unref(again);
    } else {
        batches_refused++;
    }
    table_free(&want);
    table_free(&part);
    table_free(&t);
}

static void batch_agrees(void **state)
{
    rounds(batch_round);
    if (getenv("MR_SEED") == NULL) {
        assert_true(batches_made > ROUNDS / 10);
        assert_true(batches_refused > ROUNDS / 50);
    }
}

static unsigned cuts_made;

static void unbatch_round(struct mr_rng *rng)
{
    struct table_shape shape;
    struct table t;
    struct table want;
    mr_block *out;
    mr_error err;

    shape_random(rng, &shape);
    if (mr_rng_below(rng, 3) > 0) {
        /* Make it likely that the components fit together. */
        for (uint32_t c = 0; c < shape.columns; c++) {
            shape.rank[c] = shape.rank[c] == 0 ? 1 : shape.rank[c];
            shape.dims[c][0] = 3;
        }
    } else if (mr_rng_below(rng, 2) == 0) {
        shape.columns = 1;
        shape.rank[0] = 2;
        shape.dims[0][0] = -1;
    }
    table_random(rng, &shape, some_rows(rng), &t);
    mr_block *block = table_to_block(rng, &t);
    bool can = table_unbatch(&t, &want);
    int rc = mr_block_unbatch(block, &out, &err);
    mr_block_unref(block);
    assert_int_equal(rc, can ? MR_OK : MR_EINVAL);
    if (can) {
        cuts_made++;
        assert_block_is(out, &want);
        mr_block_unref(out);
        table_free(&want);
    }
    table_free(&t);
}

static void unbatch_agrees(void **state)
{
    rounds(unbatch_round);
    if (getenv("MR_SEED") == NULL) {
        assert_true(cuts_made > ROUNDS / 10);
    }
}

static void zip_round(struct mr_rng *rng)
{
    struct table_shape shape;
    struct table t;
    struct table u;
    mr_block *zipped;
    mr_block *picked;

    shape_random(rng, &shape);
    table_random(rng, &shape, some_rows(rng), &t);
    shape_random(rng, &shape);
    table_random(rng, &shape, t.rows, &u);
    mr_block *a = table_to_block(rng, &t);
    mr_block *b = table_to_block(rng, &u);
    const mr_block *both[2] = {a, b};
    assert_int_equal(mr_block_zip(both, 2, &zipped, NULL), MR_OK);
    mr_block_unref(a);
    mr_block_unref(b);
    uint32_t left[8];
    uint32_t right[8];
    for (uint32_t c = 0; c < 8; c++) {
        left[c] = c;
        right[c] = t.columns + c;
    }
    assert_int_equal(mr_block_select(zipped, left, t.columns, &picked, NULL), MR_OK);
    assert_block_is(picked, &t);
    mr_block_unref(picked);
    assert_int_equal(mr_block_select(zipped, right, u.columns, &picked, NULL), MR_OK);
    mr_block_unref(zipped);
    assert_block_is(picked, &u);
    mr_block_unref(picked);
    table_free(&t);
    table_free(&u);
}

static void zip_and_select_agree(void **state)
{
    rounds(zip_round);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_agree),         cmocka_unit_test(concat_agrees),
        cmocka_unit_test(images_agree),         cmocka_unit_test(gather_agrees),
        cmocka_unit_test(batch_agrees),         cmocka_unit_test(unbatch_agrees),
        cmocka_unit_test(zip_and_select_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
