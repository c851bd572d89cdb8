/* Specs, and what blocks promise beyond their contents: sharing, counting, refusing. */
#include "base/memory.h"
#include "element/block.h"
#include "element/spec_proto.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct mr_leaf_spec int64_scalar = {.dtype = MR_INT64};

static mr_block *counting(uint32_t rows)
{
    mr_block *block;

    assert_int_equal(mr_block_alloc(rows, &int64_scalar, 1, &block, NULL), MR_OK);
    for (uint32_t i = 0; i < rows; i++) {
        ((int64_t *)mr_block_data(block, 0))[i] = i;
    }
    return block;
}

static void a_small_block_is_one_allocation(void **state)
{
    uint64_t before = mr_alloc_count();
    mr_block *block = counting(16);

    assert_int_equal(mr_alloc_count() - before, 1);
    mr_block_unref(block);
}

static void a_batch_copies_nothing(void **state)
{
    mr_block *block = counting(64);
    mr_block *batch;
    mr_block *slice;

    assert_int_equal(mr_block_slice(block, 32, 32, &slice, NULL), MR_OK);
    uint64_t before = mr_alloc_count();
    assert_int_equal(mr_block_batch(slice, 32, NULL, NULL, &batch, NULL), MR_OK);
    assert_int_equal(mr_alloc_count() - before, 1);
    assert_ptr_equal(mr_block_column(batch, 0)->data,
                     (const int64_t *)mr_block_column(block, 0)->data + 32);
    assert_int_equal(mr_block_rows(batch), 1);
    assert_int_equal(mr_block_column(batch, 0)->dims[0], 32);
    mr_block_unref(block);
    mr_block_unref(slice);
    assert_int_equal(((const int64_t *)mr_block_column(batch, 0)->data)[31], 63);
    mr_block_unref(batch);
}

/* Rows that have the shape already are not copied to be padded. */
static void nothing_to_pad_copies_nothing(void **state)
{
    const struct mr_leaf_spec vector = {.dtype = MR_INT64, .rank = 1, .dims = {8}};
    const struct mr_leaf_spec any = {.dtype = MR_INT64, .rank = 1, .dims = {MR_DIM_UNKNOWN}};
    const struct mr_leaf_spec nine = {.dtype = MR_INT64, .rank = 1, .dims = {9}};
    mr_block *rows;
    mr_block *same;
    mr_block *padded;

    assert_int_equal(mr_block_alloc(3, &vector, 1, &rows, NULL), MR_OK);
    memset(mr_block_data(rows, 0), 1, 3 * 8 * sizeof(int64_t));
    assert_int_equal(mr_block_pad(rows, &any, NULL, SIZE_MAX, NULL, &same, NULL), MR_OK);
    assert_int_equal(mr_block_pad(rows, &nine, NULL, SIZE_MAX, NULL, &padded, NULL), MR_OK);
    assert_ptr_equal(mr_block_column(same, 0)->data, mr_block_column(rows, 0)->data);
    assert_int_equal(mr_block_column(same, 0)->dims[0], 3);
    assert_int_equal(mr_block_column(same, 0)->dims[1], 8);
    assert_int_equal(mr_block_column(padded, 0)->dims[1], 9);
    assert_int_equal(((const int64_t *)mr_block_column(padded, 0)->data)[8], 0);
    mr_block_unref(rows);
    mr_block_unref(same);
    mr_block_unref(padded);
}

/* Who writes to a value of an exclusive block changes no other one. */
static void columns_in_one_place_are_not_exclusive(void **state)
{
    const uint32_t twice[] = {1, 0, 1};
    const struct mr_leaf_spec leaves[] = {int64_scalar, int64_scalar};
    mr_block *block;
    mr_block *picked;
    mr_block *tail;

    assert_int_equal(mr_block_alloc(20, leaves, 2, &block, NULL), MR_OK);
    memset(mr_block_data(block, 0), 0, 20 * sizeof(int64_t));
    memset(mr_block_data(block, 1), 0, 20 * sizeof(int64_t));
    assert_true(mr_block_exclusive(block));
    assert_int_equal(mr_block_select(block, twice, 2, &picked, NULL), MR_OK);
    mr_block_unref(block);
    assert_true(mr_block_exclusive(picked));
    assert_int_equal(mr_block_slice(picked, 5, 5, &tail, NULL), MR_OK);
    mr_block_unref(picked);
    assert_true(mr_block_exclusive(tail));
    assert_int_equal(mr_block_select(tail, twice, 3, &picked, NULL), MR_OK);
    mr_block_unref(tail);
    assert_false(mr_block_exclusive(picked));
    mr_block_unref(picked);
}

/* A VAR column of strings as operators make them: bytes, offsets, and dims with starts, each in a
 * buffer of its own. Rows: "a" | "b" "c" | nothing | "d". */
static mr_block *words(void)
{
    struct mr_owned_column c = {.c = {.kind = MR_COLUMN_VAR, .dtype = MR_STRING, .rank = 1},
                                .owner = {NULL}};
    mr_block *block = NULL;

    assert_int_equal(mr_buffer_new(4, &c.owner[0], NULL), MR_OK);
    assert_int_equal(mr_buffer_new(5 * sizeof(uint64_t), &c.owner[1], NULL), MR_OK);
    assert_int_equal(mr_buffer_new(9 * sizeof(uint64_t), &c.owner[2], NULL), MR_OK);
    c.c.data = memcpy(mr_buffer_data(c.owner[0]), "abcd", 4);
    c.c.offsets = memcpy(mr_buffer_data(c.owner[1]), (const uint64_t[]){0, 1, 2, 3, 4}, 40);
    int64_t *dims = memcpy(mr_buffer_data(c.owner[2]), (const int64_t[]){1, 2, 0, 1}, 32);
    c.c.row_dims = dims;
    c.c.starts = memcpy(dims + 4, (const uint64_t[]){0, 1, 3, 3, 4}, 40);
    assert_int_equal(mr_block_from_columns(4, &c, 1, &block, NULL), MR_OK);
    for (int k = 0; k < 3; k++) {
        mr_buffer_unref(c.owner[k]);
    }
    return block;
}

/* The column alone, so that it lives in the buffers that it says it lies in. */
static mr_block *alone(mr_block *block)
{
    struct mr_owned_column c = mr_block_owned_column(block, 0);
    mr_block *out = NULL;

    assert_int_equal(mr_block_from_columns(mr_block_rows(block), &c, 1, &out, NULL), MR_OK);
    mr_block_unref(block);
    return out;
}

static void strings_keep_their_offsets_when_batched(void **state)
{
    mr_block *rows = words();
    mr_block *out = NULL;

    assert_int_equal(mr_block_batch(rows, 1, NULL, NULL, &out, NULL), MR_OK);
    mr_block_unref(rows);
    out = alone(out);
    assert_int_equal(mr_block_column(out, 0)->rank, 2);
    assert_int_equal(mr_block_column(out, 0)->offsets[4], 4);
    assert_memory_equal(mr_block_column(out, 0)->data, "abcd", 4);
    mr_block_unref(out);
}

static void rows_are_joined_and_cut_again(void **state)
{
    mr_block *rows = words();
    mr_block *joined = NULL;
    mr_block *one = NULL;
    mr_block *both = NULL;
    mr_block *cut = NULL;
    mr_error err;

    assert_int_equal(mr_block_batch(rows, 2, (const bool[]){true}, NULL, &joined, NULL), MR_OK);
    joined = alone(joined);
    assert_int_equal(mr_block_rows(joined), 2);
    assert_int_equal(mr_block_column(joined, 0)->row_dims[0], 3);
    assert_int_equal(mr_block_column(joined, 0)->row_dims[1], 1);

    const int64_t counts[] = {1, 0, 2};
    struct mr_column c = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .rank = 1, .dims = {3}, .data = counts};
    mr_block *lengths = NULL;
    assert_int_equal(mr_block_new(1, &c, 1, &lengths, NULL), MR_OK);
    assert_int_equal(mr_block_slice(joined, 0, 1, &one, NULL), MR_OK);
    assert_int_equal(mr_block_zip((const mr_block *[]){one, lengths}, 2, &both, NULL), MR_OK);
    const uint32_t by[] = {1, MR_COLUMN_NONE};
    assert_int_equal(mr_block_unbatch_by(both, by, &cut, &err), MR_OK);
    assert_int_equal(mr_block_rows(cut), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mr_block_column(cut, 0)->row_dims[i], counts[i]);
    }
    assert_int_equal(mr_block_column(cut, 0)->starts[3], 3);
    mr_block_unref(cut);

    /* lengths that do not fit */
    c.data = (const int64_t[]){1, 0, 1};
    mr_block_unref(both);
    mr_block_unref(lengths);
    assert_int_equal(mr_block_new(1, &c, 1, &lengths, NULL), MR_OK);
    assert_int_equal(mr_block_zip((const mr_block *[]){one, lengths}, 2, &both, NULL), MR_OK);
    assert_int_equal(mr_block_unbatch_by(both, by, &cut, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "1 values are in no row"));
    assert_int_equal(mr_block_unbatch_by(both, (const uint32_t[]){1, 0}, &cut, &err), MR_EINVAL);
    mr_block_unref(both);
    mr_block_unref(lengths);
    mr_block_unref(one);
    mr_block_unref(joined);
    mr_block_unref(rows);
}

static void a_slice_pins_the_whole(void **state)
{
    mr_block *block = counting(1000);
    mr_block *slice;
    mr_block *copy;

    assert_true(mr_block_exclusive(block));
    assert_int_equal(mr_block_slice(block, 1, 1, &slice, NULL), MR_OK);
    assert_false(mr_block_exclusive(block));
    assert_false(mr_block_exclusive(slice));
    mr_block_unref(block);
    assert_true(mr_block_exclusive(slice));
    assert_true(mr_block_pinned_bytes(slice) >= 8000);
    assert_int_equal(mr_block_row_bytes(slice, 0, 1), 8);
    assert_int_equal(mr_block_copy_rows(slice, 0, 1, &copy, NULL), MR_OK);
    mr_block_unref(slice);
    assert_true(mr_block_pinned_bytes(copy) < 200);
    assert_int_equal(*(const int64_t *)mr_block_column(copy, 0)->data, 1);
    mr_block_unref(copy);
}

static void payload_is_not_copied_to_be_sent(void **state)
{
    struct mr_leaf_spec image = {.dtype = MR_UINT8, .rank = 1, .dims = {1 << 20}};
    mr_block *block;
    struct mr_encoded e;
    bool found = false;

    assert_int_equal(mr_block_alloc(1, &image, 1, &block, NULL), MR_OK);
    memset(mr_block_data(block, 0), 7, 1 << 20);
    assert_int_equal(mr_block_encode(block, 0, false, &e, NULL), MR_OK);
    for (size_t i = 0; i < e.count; i++) {
        found = found || e.iov[i].iov_base == mr_block_column(block, 0)->data;
    }
    assert_true(found);
    assert_true(e.total < (1 << 20) + 256);
    mr_block_unref(block); /* The encoded form holds it. */
    assert_int_equal(((unsigned char *)e.iov[e.count - 1].iov_base)[5], 7);
    mr_encoded_free(&e);
}

static void bad_columns_are_named(void **state)
{
    int64_t values[4] = {1, 2, 3, 4};
    uint64_t starts[3] = {0, 2, 1};
    int64_t dims[2] = {2, -1};
    uint64_t offsets[3] = {0, 5, 3};
    struct mr_column var = {.kind = MR_COLUMN_VAR,
                            .dtype = MR_INT64,
                            .rank = 1,
                            .row_dims = dims,
                            .starts = starts,
                            .data = values};
    struct mr_column text = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = "hello"};
    struct mr_column huge = {.kind = MR_COLUMN_FIXED,
                             .dtype = MR_INT64,
                             .rank = 2,
                             .dims = {INT64_MAX, INT64_MAX},
                             .data = values};
    struct mr_column bools = {.kind = MR_COLUMN_FIXED, .dtype = MR_BOOL, .data = "\002"};
    mr_block *block = NULL;
    mr_error err;

    assert_int_equal(mr_block_new(2, &var, 1, &block, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "column 0"));
    dims[1] = 1;
    assert_int_equal(mr_block_new(2, &var, 1, &block, &err), MR_EINVAL);
    starts[2] = 3;
    assert_int_equal(mr_block_new(2, &var, 1, &block, &err), MR_OK);
    mr_block_unref(block);
    assert_int_equal(mr_block_new(2, &text, 1, &block, &err), MR_EINVAL);
    offsets[2] = 5;
    text.reserved[4] = 1;
    assert_int_equal(mr_block_new(2, &text, 1, &block, &err), MR_EINVAL);
    text.reserved[4] = 0;
    assert_int_equal(mr_block_new(2, &text, 1, &block, &err), MR_OK);
    mr_block_unref(block);
    assert_int_equal(mr_block_new(2, &huge, 1, &block, &err), MR_EINVAL);
    huge.dims[0] = 0; /* Nothing, however large the rest. */
    assert_int_equal(mr_block_new(2, &huge, 1, &block, &err), MR_OK);
    mr_block_unref(block);
    assert_int_equal(mr_block_new(1, &bools, 1, &block, &err), MR_EINVAL);
    text.kind = 9;
    assert_int_equal(mr_block_new(1, &text, 1, &block, &err), MR_EINVAL);
}

static void a_block_is_checked_against_a_spec(void **state)
{
    struct mr_leaf_spec want[2] = {{.dtype = MR_INT64},
                                   {.dtype = MR_INT64, .rank = 1, .dims = {-1}}};
    mr_spec *spec;
    mr_error err;
    mr_block *block = counting(4);
    mr_block *batch;

    assert_int_equal(mr_spec_new(want, 1, NULL, &spec, NULL), MR_OK);
    assert_int_equal(mr_block_check_spec(block, spec, &err), MR_OK);
    mr_spec_unref(spec);
    assert_int_equal(mr_spec_new(want + 1, 1, NULL, &spec, NULL), MR_OK);
    assert_int_equal(mr_block_check_spec(block, spec, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "[?]"));
    assert_int_equal(mr_block_batch(block, 2, NULL, NULL, &batch, NULL), MR_OK);
    assert_int_equal(mr_block_check_spec(batch, spec, &err), MR_OK);
    mr_spec_unref(spec);
    assert_int_equal(mr_spec_new(want, 2, NULL, &spec, NULL), MR_OK);
    assert_int_equal(mr_block_check_spec(batch, spec, &err), MR_EINVAL);
    mr_spec_unref(spec);
    mr_block_unref(block);
    mr_block_unref(batch);
}

static void structures_are_canonical(void **state)
{
    struct mr_leaf_spec leaves[3] = {
        {.dtype = MR_INT64}, {.dtype = MR_STRING, .rank = -1}, {.dtype = MR_BOOL}};
    mr_spec *a;
    mr_spec *b;
    mr_error err;

    assert_int_equal(mr_spec_new(leaves, 3, " { \"a\" : [\"*\", \"*\"],\"b\":\"*\"} ", &a, &err),
                     MR_OK);
    assert_string_equal(mr_spec_structure(a), "{\"a\":[\"*\",\"*\"],\"b\":\"*\"}");
    assert_int_equal(mr_spec_new(leaves, 3, "{\"\\u0061\":[\"*\",\"*\"],\"b\":\"*\"}", &b, &err),
                     MR_OK);
    assert_true(mr_spec_equal(a, b));
    assert_int_equal(mr_spec_hash(a), mr_spec_hash(b));
    mr_spec_unref(b);
    assert_int_equal(mr_spec_new(leaves, 3, NULL, &b, &err), MR_OK);
    assert_string_equal(mr_spec_structure(b), "[\"*\",\"*\",\"*\"]");
    assert_false(mr_spec_equal(a, b));
    mr_spec_unref(b);
    mr_spec_unref(a);
    assert_int_equal(mr_spec_new(leaves, 1, NULL, &a, &err), MR_OK);
    assert_string_equal(mr_spec_structure(a), "\"*\"");
    mr_spec_unref(a);
    assert_int_equal(mr_spec_new(leaves, 2,
                                 "{\"!namedtuple\":[\"Point\",[\"x\",\"y\"],[\"*\",\"*\"]]}", &a,
                                 &err),
                     MR_OK);
    mr_spec_unref(a);
}

static void components_have_names(void **state)
{
    const struct mr_leaf_spec leaves[5] = {
        int64_scalar, int64_scalar, int64_scalar, int64_scalar, {.dtype = MR_STRING}};
    static const char *const names[] = {"component ['a'][0]", "component ['a'][1]['b']",
                                        "component ['t'].x", "component ['t'].y[1]",
                                        "component ['z']"};
    const char *structure = "{\"a\":[\"*\",{\"b\":\"*\"}],"
                            "\"t\":{\"!namedtuple\":[\"T\",[\"x\",\"y\"],[\"*\",[[],\"*\"]]]},"
                            "\"z\":{\"!dataset\":[[[\"int64\"]],\"*\"]}}";
    mr_spec *spec;

    assert_int_equal(mr_spec_new(leaves, 5, structure, &spec, NULL), MR_OK);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(MR_COMPONENT(spec, i), names[i]);
    }
    mr_spec_unref(spec);
    assert_int_equal(mr_spec_new(&int64_scalar, 1, NULL, &spec, NULL), MR_OK);
    assert_string_equal(MR_COMPONENT(spec, 0), "the element");
    mr_spec_unref(spec);
    assert_string_equal(MR_COMPONENT(NULL, 3), "component 3");
}

static void a_long_name_of_a_component_is_cut(void **state)
{
    char structure[400];
    mr_spec *spec;

    (void)snprintf(structure, sizeof structure, "{\"%0300d\":\"*\"}", 0);
    assert_int_equal(mr_spec_new(&int64_scalar, 1, structure, &spec, NULL), MR_OK);
    const char *name = MR_COMPONENT(spec, 0);
    assert_true(strlen(name) < MR_COMPONENT_BYTES);
    assert_string_equal(name + strlen(name) - 6, "000...");
    mr_spec_unref(spec);
}

/* Windows have one dataset for each leaf, and for what is one value of several tensors. */
static void datasets_stand_for_components(void **state)
{
    struct mr_leaf_spec leaves[5] = {[0 ... 4] = {.dtype = MR_INT64}};
    uint32_t counts[5] = {0};
    mr_spec *elements;
    mr_spec *windows;
    mr_error err;

    assert_int_equal(
        mr_spec_new(leaves, 5,
                    "{\"a\":\"*\",\"b\":[{\"!namedtuple\":[\"millrace.X\",[\"v\",\"s\"],[{"
                    "\"!namedtuple\":[\"millrace.X\",[\"v\",\"s\"],[\"*\",\"*\"]]},\"*\"]]}],"
                    "\"c\":{\"!namedtuple\":[\"P\",[\"x\"],[\"*\"]]},"
                    "\"d\":{\"!namedtuple\":[\"millrace.X\",[],[]]}}",
                    &elements, &err),
        MR_OK);
    assert_int_equal(mr_spec_of_datasets(elements, &windows, counts, &err), MR_OK);
    assert_int_equal(mr_spec_leaves(windows), 3);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 3);
    assert_int_equal(counts[2], 1);
    assert_string_equal(
        mr_spec_structure(windows),
        "{\"a\":{\"!dataset\":[[[\"int64\"]],\"*\"]},"
        "\"b\":[{\"!dataset\":[[[\"int64\"],[\"int64\"],[\"int64\"]],"
        "{\"!namedtuple\":[\"millrace.X\",[\"v\",\"s\"],[{\"!namedtuple\":["
        "\"millrace.X\",[\"v\",\"s\"],[\"*\",\"*\"]]},\"*\"]]}]}],"
        "\"c\":{\"!namedtuple\":[\"P\",[\"x\"],[{\"!dataset\":[[[\"int64\"]],\"*\"]}]]},"
        "\"d\":{\"!namedtuple\":[\"millrace.X\",[],[]]}}");
    mr_spec_unref(windows);
    mr_spec_unref(elements);
}

static void dicts_keep_the_order_of_their_keys(void **state)
{
    static const char *const inner[] = {"[\"*\",\"*\"]", "{\"y\":\"*\",\"x\":\"*\"}"};
    struct mr_leaf_spec leaves[2] = {{.dtype = MR_INT64}, {.dtype = MR_STRING}};
    mr_spec *a = NULL;
    mr_spec *b = NULL;
    char *filled = NULL;
    mr_error err = {0};

    (void)state;
    assert_int_equal(mr_spec_new(leaves, 2, "{\"b\":\"*\",\"a\":[\"*\"]}", &a, &err), MR_OK);
    assert_int_equal(mr_spec_new(leaves, 2, "{\"a\":[\"*\"],\"b\":\"*\"}", &b, &err), MR_OK);
    assert_string_equal(mr_spec_structure(a), "{\"b\":\"*\",\"a\":[\"*\"]}");
    assert_string_equal(mr_spec_sorted(a), mr_spec_structure(b));
    assert_true(mr_spec_equal(a, b));
    assert_true(mr_spec_hash(a) == mr_spec_hash(b));
    assert_string_equal(MR_COMPONENT(a, 0), "component ['a'][0]");
    assert_string_equal(MR_COMPONENT(a, 1), "component ['b']");
    mr_spec_unref(b);

    assert_int_equal(mr_spec_of_datasets(a, &b, NULL, &err), MR_OK);
    assert_string_equal(mr_spec_structure(b), "{\"b\":{\"!dataset\":[[[\"string\"]],\"*\"]},"
                                              "\"a\":[{\"!dataset\":[[[\"int64\"]],\"*\"]}]}");
    mr_spec_unref(b);
    mr_spec_unref(a);

    assert_int_equal(mr_structure_fill("{\"b\":\"*\",\"a\":[\"*\"]}", inner, 2, &filled, &err),
                     MR_OK);
    assert_string_equal(filled, "{\"b\":{\"y\":\"*\",\"x\":\"*\"},\"a\":[[\"*\",\"*\"]]}");
    mr_free(filled);
    assert_int_equal(mr_structure_fill("[\"*\"]", inner, 2, &filled, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "1 places for 2 inputs"));
}

static void bad_specs_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "*",
        "[\"*\"",
        "[\"*\",\"*\",\"*\"]",
        "[1,2]",
        "[\"x\",\"*\"]",
        "{\"!x\":[\"*\",\"*\"]}",
        "{\"a\":\"*\",\"a\":\"*\"}",
        "{\"!namedtuple\":[\"P\",[\"x\"],[\"*\",\"*\"]]}",
        "{\"!namedtuple\":[\"P\",[1,2],[\"*\",\"*\"]]}",
    };
    struct mr_leaf_spec leaves[2] = {{.dtype = MR_INT64}, {.dtype = MR_INT64}};
    mr_spec *spec;
    mr_error err;
    char deep[512];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (mr_spec_new(leaves, 2, bad[i], &spec, &err) != MR_EINVAL) {
            fail_msg("accepted: %s", bad[i]);
        }
    }
    memset(deep, '[', 100);
    memcpy(deep + 100, "\"*\",\"*\"", 7);
    memset(deep + 107, ']', 100);
    deep[207] = '\0';
    assert_int_equal(mr_spec_new(leaves, 2, deep, &spec, &err), MR_EINVAL);
    leaves[1].rank = 9;
    assert_int_equal(mr_spec_new(leaves, 2, NULL, &spec, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "leaf 1"));
    leaves[1].rank = 1;
    leaves[1].dims[0] = -2;
    assert_int_equal(mr_spec_new(leaves, 2, NULL, &spec, &err), MR_EINVAL);
    leaves[1].dtype = MR_DTYPE_COUNT;
    assert_int_equal(mr_spec_new(leaves, 2, NULL, &spec, &err), MR_EINVAL);
}

static void specs_survive_protobuf(void **state)
{
    struct mr_leaf_spec leaves[3] = {{.dtype = MR_FLOAT32, .rank = 2, .dims = {-1, 3}},
                                     {.dtype = MR_STRING, .rank = -1},
                                     {.dtype = MR_BOOL}};
    mr_spec *spec;
    mr_spec *back;
    void *bytes;
    size_t size;
    mr_error err;

    assert_int_equal(mr_spec_new(leaves, 3, "[\"*\",{\"k\":\"*\"},\"*\"]", &spec, &err), MR_OK);
    assert_int_equal(mr_spec_pack(spec, &bytes, &size, &err), MR_OK);
    assert_int_equal(mr_spec_unpack(bytes, size, &back, &err), MR_OK);
    assert_true(mr_spec_equal(spec, back));
    mr_spec_unref(back);
    for (size_t n = 0; n < size; n++) {
        if (mr_spec_unpack(bytes, n, &back, &err) == MR_OK) {
            mr_spec_unref(back); /* A cut at a field's end may be a spec: another one. */
        }
    }
    mr_free(bytes);
    mr_spec_unref(spec);
}

static void no_memory_is_an_error(void **state)
{
    mr_block *block = counting(8);
    const mr_block *both[2] = {block, block};
    mr_block *out;
    mr_error err;

    for (uint64_t nth = 1;; nth++) {
        mr_alloc_fail_at(nth);
        int rc = mr_block_concat(both, 2, &out, &err);
        mr_alloc_fail_at(0);
        if (rc == MR_OK) {
            mr_block_unref(out);
            assert_true(nth > 1);
            break;
        }
        assert_int_equal(rc, MR_EEXHAUSTED);
    }
    struct mr_leaf_spec leaves[2] = {{.dtype = MR_INT64, .rank = 1}, {.dtype = MR_INT64}};
    for (uint64_t nth = 1;; nth++) {
        mr_spec *spec;
        void *bytes;
        size_t size;

        assert_int_equal(mr_spec_new(leaves, 2, NULL, &spec, NULL), MR_OK);
        mr_alloc_fail_at(nth);
        int rc = mr_spec_pack(spec, &bytes, &size, &err);
        mr_alloc_fail_at(0);
        mr_spec_unref(spec);
        if (rc == MR_OK) {
            mr_free(bytes);
            assert_true(nth > 3);
            break;
        }
        assert_int_equal(rc, MR_EEXHAUSTED);
    }
    mr_block_unref(block);
}

/* marshal.loads() of Python, for what mr_block_marshal() may write. */
static void strings_are_marshalled(void **state)
{
    static const uint64_t offsets[] = {0, 3, 3, 20, 25};
    static const unsigned char whole[] = "[\4\0\0\0s\3\0\0\0abcs\0\0\0\0"
                                         "s\21\0\0\0defghijklmnopqrsts\5\0\0\0uvwxy";
    struct mr_column column = {.kind = MR_COLUMN_FIXED,
                               .dtype = MR_STRING,
                               .offsets = offsets,
                               .data = "abcdefghijklmnopqrstuvwxy"};
    unsigned char got[sizeof whole];
    mr_block *block;

    assert_int_equal(mr_block_new(4, &column, 1, &block, NULL), MR_OK);
    assert_int_equal(mr_block_marshal(block, 0, 0, 4, NULL), sizeof whole - 1);
    assert_int_equal(mr_block_marshal(block, 0, 0, 4, got), sizeof whole - 1);
    assert_memory_equal(got, whole, sizeof whole - 1);
    assert_int_equal(mr_block_marshal(block, 0, 1, 1, NULL), 10);
    assert_int_equal(mr_block_marshal(block, 0, 1, 1, got), 10);
    assert_memory_equal(got, "[\1\0\0\0s\0\0\0\0", 10);
    assert_int_equal(mr_block_marshal(block, 0, 4, 0, got), 5);
    assert_memory_equal(got, "[\0\0\0\0", 5);
    mr_block_unref(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_block_is_one_allocation),
        cmocka_unit_test(a_batch_copies_nothing),
        cmocka_unit_test(nothing_to_pad_copies_nothing),
        cmocka_unit_test(strings_keep_their_offsets_when_batched),
        cmocka_unit_test(rows_are_joined_and_cut_again),
        cmocka_unit_test(columns_in_one_place_are_not_exclusive),
        cmocka_unit_test(a_slice_pins_the_whole),
        cmocka_unit_test(strings_are_marshalled),
        cmocka_unit_test(payload_is_not_copied_to_be_sent),
        cmocka_unit_test(bad_columns_are_named),
        cmocka_unit_test(a_block_is_checked_against_a_spec),
        cmocka_unit_test(structures_are_canonical),
        cmocka_unit_test(components_have_names),
        cmocka_unit_test(a_long_name_of_a_component_is_cut),
        cmocka_unit_test(datasets_stand_for_components),
        cmocka_unit_test(dicts_keep_the_order_of_their_keys),
        cmocka_unit_test(bad_specs_are_refused),
        cmocka_unit_test(specs_survive_protobuf),
        cmocka_unit_test(no_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
