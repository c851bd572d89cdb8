/* Building datasets and functions: what is refused and how, what a fingerprint sees, what comes
 * back from bytes that nobody vouches for. */
#include "engine_support.h"

#include "base/hash.h"
#include "base/limits.h"
#include "dataset/definition.h"
#include "dataset/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <zstd.h>

#include <cmocka.h>

static void refused(const char *op, mr_dataset *input, mr_function *fn, const struct mr_attr *attrs,
                    size_t nattrs, int code, const char *message)
{
    mr_dataset *ds = NULL;
    mr_error err = {0};
    int rc = mr_dataset_apply(op, &input, input != NULL, attrs, nattrs, &fn, fn != NULL, NULL, &ds,
                              &err);

    assert_null(ds);
    assert_int_equal(rc, code);
    if (strstr(err.message, message) == NULL) {
        fail_msg("'%s' does not say '%s'", err.message, message);
    }
}

static void errors_name_operator_and_argument(void **state)
{
    mr_dataset *range = make_range(0, 3, 1);
    mr_dataset *strings = make_strings((const char *const[]){"a"}, 1);
    mr_function *even = fn_even(range);
    mr_function *affine = fn_affine(range);
    mr_function *many = fn_count_to(range);

    refused("rnage", NULL, NULL, NULL, 0, MR_EUNIMPL, "no dataset operator 'rnage'");
    refused("range", NULL, NULL, NULL, 0, MR_EINVAL, "range: argument 'start' is missing");
    refused("take", range, NULL, ATTRS(INT_ATTR("cuont", 1)), MR_EINVAL,
            "take: there is no argument 'cuont'");
    refused("take", range, NULL, ATTRS(TEXT_ATTR("count", "1")), MR_EINVAL,
            "argument 'count' is bytes, it must be an integer");
    refused("take", range, NULL, ATTRS(INT_ATTR("count", 1), INT_ATTR("count", 2)), MR_EINVAL,
            "'count' is given twice");
    refused("take", range, NULL,
            ATTRS({.name = "count", .kind = MR_ATTR_INT, .i = 1, .reserved = {0, 0, 1}}), MR_EINVAL,
            "argument 'count': what is reserved must be 0");
    refused("batch", range, NULL, ATTRS(INT_ATTR("batch_size", 1 << 25)), MR_EINVAL,
            "'batch_size' is 33554432, it must be at most 16777216");
    refused("prefetch", range, NULL, ATTRS(INT_ATTR("buffer_size", -2)), MR_EINVAL,
            "'buffer_size' is -2, it must be at least -1");
    refused("batch", range, NULL, ATTRS(INT_ATTR("batch_size", 0)), MR_EINVAL,
            "batch: argument 'batch_size' is 0");
    refused("take", range, NULL, ATTRS(VALUE_ATTR("count", 0)), MR_EINVAL,
            "value of an enclosing function, but there is none");
    refused("take", NULL, NULL, ATTRS(INT_ATTR("count", 1)), MR_EINVAL,
            "take: takes 1 input datasets, 0 were given");
    refused("range", range, NULL, NULL, 0, MR_EINVAL, "takes 0 input datasets, 1 were given");
    refused("map", range, NULL, NULL, 0, MR_EINVAL, "map: takes 1 functions, 0 were given");
    refused("filter", range, affine, NULL, 0, MR_EINVAL,
            "must return one scalar bool, it returns int64[]");
    refused("map", range, many, NULL, 0, MR_EINVAL, "must return tensors");
    refused("flat_map", range, even, NULL, 0, MR_EINVAL, "must return a dataset");
    refused("map", strings, even, NULL, 0, MR_EINVAL,
            "tensor 0 of the elements is string[], the function takes int64[]");
    refused("range", NULL, NULL,
            ATTRS(INT_ATTR("start", 0), INT_ATTR("stop", 1), INT_ATTR("step", 0)), MR_EINVAL,
            "'step' is 0");
    mr_function_unref(even);
    mr_function_unref(affine);
    mr_function_unref(many);
    mr_dataset_unref(range);
    mr_dataset_unref(strings);
}

static void specs_are_inferred(void **state)
{
    mr_dataset *ds = make("batch", make_range(0, 10, 1), NULL,
                          ATTRS(INT_ATTR("batch_size", 4), BOOL_ATTR("drop_remainder", 1)), NULL);
    const struct mr_leaf_spec *leaf = mr_spec_leaf(mr_dataset_spec(ds), 0);

    assert_int_equal(leaf->dtype, MR_INT64);
    assert_int_equal(leaf->rank, 1);
    assert_int_equal(leaf->dims[0], 4);
    assert_int_equal(mr_dataset_cardinality(ds), 2);
    ds = make_one("batch", ds, "batch_size", 4);
    leaf = mr_spec_leaf(mr_dataset_spec(ds), 0);
    assert_int_equal(leaf->rank, 2);
    assert_int_equal(leaf->dims[0], MR_DIM_UNKNOWN);
    assert_int_equal(leaf->dims[1], 4);
    ds = make_zip(ds, make_range(0, 3, 1));
    assert_string_equal(mr_spec_structure(mr_dataset_spec(ds)), "[\"*\",\"*\"]");
    assert_int_equal(mr_dataset_cardinality(ds), 1);
    ds = make_one("repeat", ds, "count", -1);
    assert_int_equal(mr_dataset_cardinality(ds), MR_CARDINALITY_INFINITE);
    mr_dataset_unref(ds);
}

static void zips_take_a_structure(void **state)
{
    mr_dataset *inputs[2] = {make_zip(make_range(0, 1, 1), make_range(0, 1, 1)),
                             make_range(0, 1, 1)};
    mr_dataset *ds = NULL;
    mr_error err;

    CHECK_OK(mr_dataset_apply("zip", inputs, 2,
                              ATTRS(TEXT_ATTR("structure", "{\"a\":\"*\",\"b\":\"*\"}")), NULL, 0,
                              NULL, &ds, e));
    assert_string_equal(mr_spec_structure(mr_dataset_spec(ds)),
                        "{\"a\":[\"*\",\"*\"],\"b\":\"*\"}");
    mr_dataset_unref(ds);
    assert_int_equal(mr_dataset_apply("zip", inputs, 2, ATTRS(TEXT_ATTR("structure", "[\"*\"]")),
                                      NULL, 0, NULL, &ds, &err),
                     MR_EINVAL);
    assert_non_null(strstr(err.message, "1 places for 2 inputs"));
    mr_dataset_unref(inputs[0]);
    mr_dataset_unref(inputs[1]);
}

/* ---- fingerprints ---- */

static void expect_fingerprints(const mr_dataset *a, const mr_dataset *b, bool equal)
{
    uint8_t x[16];
    uint8_t y[16];

    CHECK_OK(mr_dataset_fingerprint(a, x, e));
    CHECK_OK(mr_dataset_fingerprint(b, y, e));
    assert_true((memcmp(x, y, 16) == 0) == equal);
}

/* x -> 3 * x + 1 again, with its parts added in another order and some that nothing needs. */
static mr_function *affine_built_otherwise(const mr_dataset *ds)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t one = add_int(b, 1);
    uint32_t junk = add_int(b, 99);
    uint32_t three = add_int(b, 3);
    uint32_t junk_in[2] = {junk, 0};
    uint32_t mul_in[2] = {0, three};

    (void)add_op(b, "sub", junk_in, 2, NULL, 0);
    uint32_t add_in[2] = {add_op(b, "mul", mul_in, 2, NULL, 0), one};
    uint32_t out = add_op(b, "add", add_in, 2, NULL, 0);
    return finish(b, &out, 1);
}

static mr_dataset *mapped(mr_function *(*fn)(const mr_dataset *))
{
    mr_dataset *ds = make_range(0, 3, 1);
    mr_function *f = fn(ds);

    return make_with_function("map", ds, f, NULL, 0);
}

static void equal_pipelines_have_equal_fingerprints(void **state)
{
    mr_dataset *a = mapped(fn_affine);
    mr_dataset *b = mapped(affine_built_otherwise);
    mr_dataset *c = mapped(fn_even);
    mr_dataset *shared = make_zip(mr_dataset_ref(a), mr_dataset_ref(a));
    mr_dataset *apart = make_zip(mr_dataset_ref(a), mr_dataset_ref(b));

    expect_fingerprints(a, b, true);
    expect_fingerprints(a, c, false);
    expect_fingerprints(shared, apart, true);
    mr_dataset *take3 = make_one("take", mr_dataset_ref(a), "count", 3);
    mr_dataset *take4 = make_one("take", mr_dataset_ref(a), "count", 4);
    mr_dataset *skip3 = make_one("skip", mr_dataset_ref(a), "count", 3);
    expect_fingerprints(take3, take4, false);
    expect_fingerprints(take3, skip3, false);
    mr_dataset_unref(take3);
    mr_dataset_unref(take4);
    mr_dataset_unref(skip3);
    mr_dataset_unref(shared);
    mr_dataset_unref(apart);
    mr_dataset_unref(a);
    mr_dataset_unref(b);
    mr_dataset_unref(c);
}

static void constants_count_by_content(void **state)
{
    int64_t v[] = {1, 2, 3, 4};
    mr_dataset *a = make_ints(v + 1, 2);
    mr_dataset *b = make_ints((const int64_t[]){2, 3}, 2);
    mr_dataset *c = make_ints((const int64_t[]){2, 4}, 2);
    void *bytes = NULL;
    size_t size = 0;

    expect_fingerprints(a, b, true);
    expect_fingerprints(a, c, false);
    mr_dataset *ds = make_zip(a, b);
    CHECK_OK(mr_dataset_serialize(ds, &bytes, &size, e));
    Millrace__DatasetDef *def = millrace__dataset_def__unpack(NULL, size, bytes);
    assert_non_null(def);
    assert_int_equal(def->n_constants, 1); /* stored once */
    millrace__dataset_def__free_unpacked(def, NULL);
    mr_free(bytes);
    mr_dataset_unref(ds);
    mr_dataset_unref(c);
}

/* Stored fingerprints outlive this program: a change here is a new MR_CANONICAL_FORMAT. */
static void fingerprints_stay(void **state)
{
    static const char want[] = "5d599b20977c8f0fdb58ecb86da6d56f";
    mr_dataset *ds = make_one("batch", mapped(fn_affine), "batch_size", 2);
    uint8_t f[16];
    char hex[33];

    CHECK_OK(mr_dataset_fingerprint(ds, f, e));
    for (int i = 0; i < 16; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", f[i]);
    }
    assert_string_equal(hex, want);
    mr_dataset_unref(ds);
}

/* ---- scopes ---- */

static void values_belong_to_their_function(void **state)
{
    mr_dataset *ds = make_range(0, 3, 1);
    mr_builder *one = begin_for(ds, NULL);
    mr_builder *two = begin_for(ds, NULL);
    mr_dataset *of_one =
        make("range", NULL, NULL,
             ATTRS(INT_ATTR("start", 0), VALUE_ATTR("stop", 0), INT_ATTR("step", 1)), one);
    mr_dataset *made = NULL;
    mr_function *fn = NULL;
    void *bytes;
    size_t size;
    mr_engine_iter *it;
    uint32_t value;
    mr_error err;

    assert_int_equal(mr_builder_finish_dataset(two, of_one, &fn, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "values of another function"));
    assert_int_equal(mr_dataset_apply("take", &of_one, 1, ATTRS(INT_ATTR("count", 1)), NULL, 0, two,
                                      &made, &err),
                     MR_EINVAL);
    assert_int_equal(mr_dataset_apply("take", &of_one, 1, ATTRS(VALUE_ATTR("count", 7)), NULL, 0,
                                      one, &made, &err),
                     MR_EINVAL);
    assert_non_null(strstr(err.message, "has no value 7"));
    assert_int_equal(mr_builder_capture(one, 0, &value, &err), MR_EINVAL);
    assert_int_equal(mr_dataset_serialize(of_one, &bytes, &size, &err), MR_EINVAL);
    assert_int_equal(mr_engine_open(of_one, NULL, &it, &err), MR_EINVAL);
    mr_dataset_unref(of_one);
    mr_builder_free(one);
    mr_builder_free(two);
    mr_dataset_unref(ds);
}

static void builders_check(void **state)
{
    mr_dataset *ds = make_range(0, 3, 1);
    mr_builder *b = begin_for(ds, NULL);
    struct mr_attr value = VALUE_ATTR("axis", 0);
    uint32_t in[2] = {0, 5};
    uint32_t out;
    size_t n;
    mr_function *fn;
    mr_error err;

    assert_int_equal(mr_builder_add(b, "nothing", in, 1, NULL, 0, NULL, 0, &out, 1, &n, &err),
                     MR_EUNIMPL);
    assert_int_equal(mr_builder_add(b, "add", in, 2, NULL, 0, NULL, 0, &out, 1, &n, &err),
                     MR_EINVAL);
    assert_non_null(strstr(err.message, "add: input 1: there is no value 5"));
    in[1] = 0;
    assert_int_equal(mr_builder_add(b, "add", in, 2, NULL, 0, NULL, 0, &out, 0, &n, &err),
                     MR_EINVAL);
    assert_int_equal(mr_builder_add(b, "expand_dims", in, 1, &value, 1, NULL, 0, &out, 1, &n, &err),
                     MR_EINVAL);
    assert_int_equal(mr_builder_finish(b, in, 0, NULL, &fn, &err), MR_EINVAL);
    in[0] = 9;
    assert_int_equal(mr_builder_finish(b, in, 1, NULL, &fn, &err), MR_EINVAL);
    mr_builder_free(b);
    mr_dataset_unref(ds);
}

static void long_chains_end(void **state)
{
    mr_dataset *ds = make_range(0, 3, 1);
    mr_dataset *next = NULL;
    mr_error err;
    int rc;

    for (int i = 1; i < MR_GRAPH_HEIGHT_MAX; i++) {
        ds = make_one("take", ds, "count", 3);
    }
    rc = mr_dataset_apply("take", &ds, 1, ATTRS(INT_ATTR("count", 3)), NULL, 0, NULL, &next, &err);
    assert_int_equal(rc, MR_EINVAL);
    assert_non_null(strstr(err.message, "operators in a row"));
    struct read_options options = {.rows = 0};
    struct lines l = read_all(ds, &options);
    lines_expect_text(&l, "0 1 2");
    lines_free(&l);
    mr_dataset_unref(ds);
}

/* A graph of few nodes that is a tree of very many: building is cheap, running it is refused. */
static void doubling_graphs_are_refused_where_they_would_run(void **state)
{
    mr_dataset *ds = make_range(0, 3, 1);
    mr_engine_iter *it = NULL;
    int64_t splits[4];
    size_t n;
    mr_error err;

    for (int i = 0; i < 40; i++) {
        ds = make_concatenate(mr_dataset_ref(ds), ds);
    }
    ds = make_one("repeat", make_one("take", ds, "count", 2), "count", -1);
    struct read_options options = {.most = 4};
    struct lines l = read_all(ds, &options); /* concatenations open one side at a time */
    lines_expect_text(&l, "0 1 0 1");
    lines_free(&l);
    assert_true(mr_dataset_providers(ds, splits, 4, &n, &err) < 0);
    mr_dataset_unref(ds);

    ds = make_one("take", make_range(0, 3, 1), "count", 3);
    for (int i = 0; i < 11; i++) {
        ds = make_zip(mr_dataset_ref(ds), ds);
    }
    for (int i = 0; i < 5; i++) {
        mr_function *fn;
        mr_builder *b = begin_for(ds, NULL);

        uint32_t zero = 0;
        fn = finish(b, &zero, 1);
        ds = make_with_function("map", ds, fn, NULL, 0);
        ds = make_zip(mr_dataset_ref(ds), ds);
    }
    assert_int_equal(mr_engine_open(ds, NULL, &it, &err), MR_EEXHAUSTED);
    assert_non_null(strstr(err.message, "operators are running"));
    mr_dataset_unref(ds);
}

/* ---- definitions that nobody vouches for ---- */

static void parse_refused(Millrace__DatasetDef *def, int code, const char *message)
{
    size_t size = millrace__dataset_def__get_packed_size(def);
    uint8_t *bytes = malloc(size + 1);
    mr_dataset *ds = NULL;
    mr_error err = {0};

    (void)millrace__dataset_def__pack(def, bytes);
    assert_int_equal(mr_dataset_parse(bytes, size, &ds, &err), code);
    assert_null(ds);
    if (strstr(err.message, message) == NULL) {
        fail_msg("'%s' does not say '%s'", err.message, message);
    }
    free(bytes);
}

static Millrace__DatasetDef *unpack(mr_dataset *ds)
{
    void *bytes = NULL;
    size_t size = 0;

    CHECK_OK(mr_dataset_serialize(ds, &bytes, &size, e));
    Millrace__DatasetDef *def = millrace__dataset_def__unpack(NULL, size, bytes);
    assert_non_null(def);
    mr_free(bytes);
    mr_dataset_unref(ds);
    return def;
}

static void definitions_are_checked(void **state)
{
    mr_dataset *source = make_range(0, 9, 1);
    mr_function *fn = fn_count_to(source);
    Millrace__DatasetDef *def = unpack(make_zip(make_with_function("flat_map", source, fn, NULL, 0),
                                                make_ints((const int64_t[]){1, 2}, 2)));
    uint32_t before;
    char *op;

    def->format++;
    parse_refused(def, MR_EUNIMPL, "a definition of format 2");
    def->format--;
    def->graph->root = 77;
    parse_refused(def, MR_EINVAL, "root 77");
    def->graph->root = 3;
    before = def->graph->nodes[1]->inputs[0];
    def->graph->nodes[1]->inputs[0] = 1;
    parse_refused(def, MR_EINVAL, "node 1: input 1 does not come before it");
    def->graph->nodes[1]->inputs[0] = before;
    def->graph->nodes[1]->functions[0] = 1;
    parse_refused(def, MR_EINVAL, "function 1 does not come before its user");
    def->graph->nodes[1]->functions[0] = 0;
    op = def->graph->nodes[0]->op;
    def->graph->nodes[0]->op = (char *)(uintptr_t) "teleport";
    parse_refused(def, MR_EUNIMPL, "'teleport'");
    def->graph->nodes[0]->op = op;
    def->graph->nodes[2]->attrs[0]->constant = 5;
    parse_refused(def, MR_EINVAL, "there is no constant 5");
    def->graph->nodes[2]->attrs[0]->constant = 0;
    def->constants[0].data[0] ^= 1;
    parse_refused(def, MR_EDATALOSS, "constant 0");
    def->constants[0].data[0] ^= 1;
    def->functions[0]->dataset->nodes[0]->attrs[2]->value_of_scope = 9;
    parse_refused(def, MR_EINVAL, "has no value 9");
    def->functions[0]->dataset->nodes[0]->attrs[2]->value_of_scope = 0;
    millrace__dataset_def__free_unpacked(def, NULL);
    mr_dataset *ds = NULL;
    mr_error err;
    assert_int_equal(mr_dataset_parse("\xff\xff\xff", 3, &ds, &err), MR_EINVAL);
    assert_int_equal(mr_dataset_parse(NULL, 0, &ds, &err), MR_EUNIMPL);
}

static void large_constants_are_named(void **state)
{
    const uint32_t rows = 33; /* of 8 MiB */
    int64_t *v = calloc(rows, 8 * MR_MIB);
    struct mr_column c = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .rank = 1, .dims = {MR_MIB}, .data = v};
    mr_block *block = NULL;
    CHECK_OK(mr_block_new(rows, &c, 1, &block, e));
    struct mr_attr a = {.name = "tensors", .kind = MR_ATTR_BLOCK, .block = block};
    mr_dataset *ds = make("from_tensor_slices", NULL, NULL, &a, 1, NULL);
    mr_block_unref(block);
    void *bytes = NULL;
    size_t size;
    mr_error err;

    assert_int_equal(mr_dataset_serialize(ds, &bytes, &size, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "from_tensor_slices"));
    assert_non_null(strstr(err.message, "the limit is 268435456"));
    mr_dataset_unref(ds);
    free(v);
}

/* ---- as it is sent ---- */

static void parse_sent_refused(const void *bytes, size_t size, const char *what)
{
    mr_dataset *ds = NULL;
    mr_error err;

    assert_int_equal(mr_dataset_parse(bytes, size, &ds, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, what));
}

/* The definition of @n numbers; with @seed they do not compress. */
static void *definition_of(uint32_t n, uint64_t seed, uint8_t fingerprint[16], size_t *size)
{
    int64_t *v = calloc(n, sizeof *v);
    void *bytes = NULL;

    assert_non_null(v);
    for (uint32_t i = 0; i < n; i++) {
        seed = seed * UINT64_C(6364136223846793005) + (seed != 0);
        v[i] = (int64_t)(seed != 0 ? mr_hash64(&seed, sizeof seed) : i % 1000);
    }
    mr_dataset *ds = make_ints(v, n);
    CHECK_OK(mr_dataset_serialize(ds, &bytes, size, e));
    CHECK_OK(mr_dataset_fingerprint(ds, fingerprint, e));
    mr_dataset_unref(ds);
    free(v);
    return bytes;
}

static void what_compresses_is_sent_compressed(void **state)
{
    uint8_t before[16];
    uint8_t after[16];
    size_t plain = 0;
    void *bytes = definition_of(100000, 0, before, &plain);
    size_t size = plain;
    mr_dataset *ds = NULL;

    CHECK_OK(mr_definition_compress(&bytes, &size, e));
    assert_true(size < plain / 4);
    CHECK_OK(mr_dataset_parse(bytes, size, &ds, e));
    CHECK_OK(mr_dataset_fingerprint(ds, after, e));
    assert_memory_equal(before, after, sizeof after);
    mr_dataset_unref(ds);
    parse_sent_refused(bytes, size - 1, "do not expand");
    uint8_t *longer = calloc(1, size + 1);
    memcpy(longer, bytes, size);
    parse_sent_refused(longer, size + 1, "do not expand");
    free(longer);
    free(bytes);
}

static const mr_block *constant_of(const mr_dataset *ds)
{
    for (size_t i = 0; i < ds->nattrs; i++) {
        if (ds->attrs[i].kind == MR_ATTR_BLOCK) {
            return ds->attrs[i].block;
        }
    }
    return NULL;
}

/* Taken apart, constants are where they will be used, however many datasets are made of them. */
static void constants_are_not_copied(void **state)
{
    const uint64_t seeds[] = {0, 1}; /* one compresses */

    for (size_t i = 0; i < 2; i++) {
        struct mr_definition_parts parts;
        uint8_t fingerprint[16];
        size_t size = 0;
        size_t expanded = 0;
        mr_dataset *ds[2] = {NULL, NULL};
        void *bytes = definition_of(100000, seeds[i], fingerprint, &size);
        size_t plain = size;

        CHECK_OK(mr_definition_compress(&bytes, &size, e));
        CHECK_OK(mr_definition_expanded(bytes, size, &expanded, e));
        assert_int_equal(expanded, plain);
        CHECK_OK(mr_definition_unpack(bytes, size, &parts, e));
        mr_free(bytes);
        assert_int_equal(parts.nconstants, 1);
        assert_int_equal(parts.def->n_constants, 0);
        assert_true(mr_definition_parts_bytes(&parts) >= 800000);
        assert_true(mr_definition_parts_bytes(&parts) < plain + 10000);
        const char *from = mr_buffer_data(parts.constants[0]);
        const char *to = from + mr_buffer_size(parts.constants[0]);
        for (size_t k = 0; k < 2; k++) {
            CHECK_OK(mr_dataset_of_definition(&parts, &ds[k], e));
            const char *at = mr_block_column(constant_of(ds[k]), 0)->data;
            assert_true(at > from && at < to);
        }
        mr_definition_parts_free(&parts);
        mr_dataset_unref(ds[0]);
        mr_dataset_unref(ds[1]);
    }
}

/* Fields that this version does not know are passed over, whatever their type; cut ones are
 * refused. */
static void other_fields_are_passed_over(void **state)
{
    const uint8_t more[] = {0x30, 0x96, 0x01,                     /* 6: a number */
                            0x39, 1,    2,    3,   4, 5, 6, 7, 8, /* 7: 64 bits */
                            0x42, 0x02, 'h',  'i',                /* 8: bytes */
                            0x4d, 1,    2,    3,   4};            /* 9: 32 bits */
    const uint8_t broken[][4] = {
        {0x22, 0x7f, 0, 0}, {0x42, 0x7f, 0, 0}, {0x4d, 0, 0, 0}, {0x43, 0, 0, 0}, {0, 0, 0, 0xff}};
    uint8_t before[16];
    uint8_t after[16];
    size_t size = 0;
    void *bytes = definition_of(10, 1, before, &size);
    uint8_t *longer = calloc(1, size + sizeof more);
    mr_dataset *ds = NULL;

    memcpy(longer, bytes, size);
    memcpy(longer + size, more, sizeof more);
    CHECK_OK(mr_dataset_parse(longer, size + sizeof more, &ds, e));
    CHECK_OK(mr_dataset_fingerprint(ds, after, e));
    assert_memory_equal(before, after, sizeof after);
    mr_dataset_unref(ds);
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        memcpy(longer + size, broken[i], sizeof broken[i]);
        parse_sent_refused(longer, size + sizeof broken[i], "not a millrace.DatasetDef");
    }
    free(longer);
    free(bytes);
}

/* A few bytes of a stranger must not keep a program reading for long. */
static void countless_fields_are_refused(void **state)
{
    const uint8_t more[] = {0x39, 0, 0, 0, 0, 0, 0, 0, 0};
    const size_t n = 600000;
    uint8_t fingerprint[16];
    size_t size = 0;
    void *bytes = definition_of(10, 1, fingerprint, &size);
    void *longer = calloc(1, size + n * sizeof more);

    memcpy(longer, bytes, size);
    for (size_t i = 0; i < n; i++) {
        memcpy((uint8_t *)longer + size + i * sizeof more, more, sizeof more);
    }
    parse_sent_refused(longer, size + n * sizeof more, "more than 524288 fields");
    free(longer);
    free(bytes);
}

static void what_does_not_compress_is_sent_as_it_is(void **state)
{
    const struct {
        uint32_t n;
        uint64_t seed;
    } cases[] = {{100000, 1}, {100, 0}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t fingerprint[16];
        size_t plain = 0;
        void *bytes = definition_of(cases[i].n, cases[i].seed, fingerprint, &plain);
        size_t size = plain;
        void *same = bytes;

        CHECK_OK(mr_definition_compress(&bytes, &size, e));
        assert_ptr_equal(bytes, same);
        assert_int_equal(size, plain);
        free(bytes);
    }
}

/* Nothing but zeros is no reason to let a few bytes of a stranger become hundreds of megabytes. */
static void bombs_are_refused(void **state)
{
    size_t n = 64 * MR_MIB;
    void *zeros = calloc(1, n);
    void *packed = malloc(ZSTD_compressBound(n));
    size_t size = ZSTD_compress(packed, ZSTD_compressBound(n), zeros, n, 1);
    void *bytes = zeros;

    assert_false(ZSTD_isError(size));
    parse_sent_refused(packed, size, "a factor of 1000");
    size_t sent = n;
    CHECK_OK(mr_definition_compress(&bytes, &sent, e));
    assert_int_equal(sent, n); /* so that it can be taken */
    free(bytes);
    free(packed);
}

/* A frame whose header states @size, in four bytes, and some more. */
static void a_wrong_size_is_refused(void **state)
{
    uint8_t frame[600000] = {0x28, 0xb5, 0x2f, 0xfd,
                             0xa0 /* one segment, a size of four bytes, no checksum */};
    uint8_t without[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x01, 0x00, 0x00};
    uint32_t more = (uint32_t)MR_DEFINITION_BYTES_MAX + 1;

    memcpy(frame + 5, &more, sizeof more);
    parse_sent_refused(frame, sizeof frame, "the limits are 268435456");
    more = 100000; /* and there are none: an empty last block */
    memcpy(frame + 5, &more, sizeof more);
    frame[9] = 1;
    parse_sent_refused(frame, 12, "a factor of 1000");
    parse_sent_refused(frame, 200, "do not expand");
    parse_sent_refused(without, sizeof without, "does not say");
}

static void what_is_too_large_even_so_is_told_with_both_sizes(void **state)
{
    size_t size = MR_DEFINITION_SENT_BYTES_MAX + 1;
    void *bytes = calloc(1, size); /* Too dense to be compressed. */
    mr_error err;

    assert_int_equal(mr_definition_compress(&bytes, &size, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "100663297 as it would be sent"));
    assert_non_null(strstr(err.message, "268435456 and 100663296"));
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_operator_and_argument),
        cmocka_unit_test(specs_are_inferred),
        cmocka_unit_test(zips_take_a_structure),
        cmocka_unit_test(equal_pipelines_have_equal_fingerprints),
        cmocka_unit_test(constants_count_by_content),
        cmocka_unit_test(fingerprints_stay),
        cmocka_unit_test(values_belong_to_their_function),
        cmocka_unit_test(builders_check),
        cmocka_unit_test(long_chains_end),
        cmocka_unit_test(doubling_graphs_are_refused_where_they_would_run),
        cmocka_unit_test(definitions_are_checked),
        cmocka_unit_test(large_constants_are_named),
        cmocka_unit_test(what_compresses_is_sent_compressed),
        cmocka_unit_test(constants_are_not_copied),
        cmocka_unit_test(other_fields_are_passed_over),
        cmocka_unit_test(countless_fields_are_refused),
        cmocka_unit_test(what_does_not_compress_is_sent_as_it_is),
        cmocka_unit_test(bombs_are_refused),
        cmocka_unit_test(a_wrong_size_is_refused),
        cmocka_unit_test(what_is_too_large_even_so_is_told_with_both_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
