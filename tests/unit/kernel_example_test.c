/* parse_example: what records may look like, defaults, and the messages of what is refused. */
#include "base/buf.h"
#include "kernel_support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Features label: int64 scalar with default -1 (if asked for), pixels: float32[2], tag: string. */
struct parsed {
    struct mr_attr attrs[8];
    size_t nattrs;
    mr_block *names;
    mr_block *fallback;
    int64_t kinds[3];
    int64_t dtypes[3];
    int64_t shape[1];
    struct mr_leaf_spec out_specs[3];
    struct mr_owned_column out[3];
    struct mr_kernel_call call;
    uint32_t rows;
    uint32_t bad_row;
    int rc;
    mr_error err;
};

static void describe(struct parsed *p, bool with_default)
{
    static const char *const names[] = {"label", "pixels", "tag"};
    double minus_one = -1;

    memset(p, 0, sizeof *p);
    p->dtypes[0] = MR_INT64;
    p->dtypes[1] = MR_FLOAT32;
    p->dtypes[2] = MR_STRING;
    p->shape[0] = 2;
    p->names = test_strings(0, NULL, 3, names);
    p->fallback = test_block(MR_INT64, 0, NULL, 1, &minus_one);
    if (with_default) {
        p->attrs[p->nattrs++] =
            (struct mr_attr){.name = "default0", .kind = MR_ATTR_BLOCK, .block = p->fallback};
    }
    p->attrs[p->nattrs++] =
        (struct mr_attr){.name = "dtypes", .kind = MR_ATTR_INTS, .count = 3, .ints = p->dtypes};
    p->attrs[p->nattrs++] =
        (struct mr_attr){.name = "kinds", .kind = MR_ATTR_INTS, .count = 3, .ints = p->kinds};
    p->attrs[p->nattrs++] =
        (struct mr_attr){.name = "names", .kind = MR_ATTR_STRINGS, .block = p->names};
    p->attrs[p->nattrs++] =
        (struct mr_attr){.name = "shape1", .kind = MR_ATTR_SHAPE, .count = 1, .ints = p->shape};
    p->call = (struct mr_kernel_call){.kernel = mr_kernel_find("parse_example"), .attrs = p->attrs};
    p->call.nattrs = p->nattrs;
    p->call.out_specs = p->out_specs;
}

static int infer(struct parsed *p, int rank)
{
    struct mr_leaf_spec in = {
        .dtype = MR_STRING, .rank = (int8_t)rank, .dims = {rank == 1 ? -1 : 0}};
    size_t nout = 0;

    return mr_kernel_infer(p->call.kernel, p->attrs, p->nattrs, &in, 1, NULL, 0, p->out_specs, 3,
                           &nout, &p->err);
}

/* @rows records, one after the other in @records, the ends in @ends. */
static void parse(struct parsed *p, const struct mr_buf *records, const uint64_t *ends,
                  uint32_t rows, bool batch)
{
    uint64_t offsets[9] = {0};
    struct mr_column c = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = records->data};
    mr_block *block = NULL;

    memcpy(offsets + 1, ends, rows * sizeof *ends);
    if (batch) {
        c.rank = 1;
        c.dims[0] = rows;
    }
    assert_int_equal(infer(p, batch ? 1 : 0), MR_OK);
    p->rows = batch ? 1 : rows;
    assert_int_equal(mr_block_new(p->rows, &c, 1, &block, NULL), MR_OK);
    struct mr_owned_column column = mr_block_owned_column(block, 0);
    struct mr_kernel_in in = {&column, false};
    assert_int_equal(p->call.kernel->prepare(p->attrs, p->nattrs, &p->call.state, &p->err), MR_OK);
    p->rc = p->call.kernel->eval(&p->call, p->rows, &in, 1, p->out, 3, &p->bad_row, &p->err);
    p->call.kernel->release(p->call.state);
    mr_block_unref(block);
}

static void release(struct parsed *p)
{
    for (size_t i = 0; p->rc == MR_OK && i < 3; i++) {
        mr_column_release(&p->out[i]);
    }
    mr_block_unref(p->names);
    mr_block_unref(p->fallback);
}

/* A feature that is a list of floats first, and then one of ints: the last one counts. */
static void put_twice(struct mr_buf *entries, int64_t label)
{
    const float floats[2] = {1, 2};
    struct mr_buf numbers = MR_BUF_INIT;
    struct mr_buf list = MR_BUF_INIT;
    struct mr_buf feature = MR_BUF_INIT;
    struct mr_buf entry = MR_BUF_INIT;

    test_put_field(&list, 1, floats, sizeof floats);
    test_put_field(&feature, 2, list.data, list.len);
    mr_buf_clear(&list);
    test_put_varint(&numbers, (uint64_t)label);
    test_put_field(&list, 1, numbers.data, numbers.len);
    test_put_field(&feature, 3, list.data, list.len);
    test_put_field(&entry, 1, "label", 5);
    test_put_field(&entry, 2, feature.data, feature.len);
    test_put_field(entries, 1, entry.data, entry.len);
    mr_buf_free(&numbers);
    mr_buf_free(&list);
    mr_buf_free(&feature);
    mr_buf_free(&entry);
}

/* A record with the entries that the letters of @what ask for, in this order. */
static void put(struct mr_buf *records, const char *what, int64_t label, bool packed)
{
    struct mr_buf entries = MR_BUF_INIT;
    const float pixels[2] = {(float)label, 0.5f};
    const int64_t labels[2] = {label, label};

    for (; *what != '\0'; what++) {
        switch (*what) {
        case 'l': test_put_ints(&entries, "label", labels, 1, packed); break;
        case 'L': /* two values */ test_put_ints(&entries, "label", labels, 2, packed); break;
        case 'f': /* floats where ints belong */
            test_put_floats(&entries, "label", pixels, 1, packed);
            break;
        case 'e': /* an entry without a value */
            test_put_field(&entries, 1, "\x0a\x05label", 7);
            break;
        case 'k': put_twice(&entries, label); break;
        case 'p': test_put_floats(&entries, "pixels", pixels, 2, packed); break;
        case 't': test_put_string(&entries, "tag", "hello"); break;
        default: test_put_string(&entries, "something else", "ignored"); break;
        }
    }
    test_put_example(records, &entries);
}

static void records_of_all_forms(void **state)
{
    struct mr_buf records = MR_BUF_INIT;
    uint64_t ends[4];
    struct parsed p;

    put(&records, "kpt", 7, true);
    ends[0] = records.len;
    put(&records, "xtpl", -3, false);
    ends[1] = records.len;
    put(&records, "Lflpt", 4, true); /* of entries with one key the last counts */
    ends[2] = records.len;
    for (int batch = 0; batch < 2; batch++) {
        describe(&p, false);
        parse(&p, &records, ends, 3, batch == 1);
        if (p.rc < 0) {
            fail_msg("%s", p.err.message);
        }
        assert_int_equal(p.out_specs[1].rank, 1 + batch);
        const int64_t *labels = p.out[0].c.data;
        const float *pixels = p.out[1].c.data;
        assert_true(labels[0] == 7 && labels[1] == -3 && labels[2] == 4);
        assert_true(pixels[0] == 7 && pixels[1] == 0.5f && pixels[2] == -3);
        assert_int_equal(p.out[2].c.offsets[2], 10);
        assert_memory_equal((const char *)p.out[2].c.data + 5, "hello", 5);
        release(&p);
    }
    mr_buf_free(&records);
}

static void refused(const char *what, bool with_default, uint32_t bad_row, const char *message)
{
    struct mr_buf records = MR_BUF_INIT;
    uint64_t ends[2];
    struct parsed p;

    put(&records, "lpt", 1, true);
    ends[0] = records.len;
    put(&records, what, 2, true);
    ends[1] = records.len;
    describe(&p, with_default);
    parse(&p, &records, ends, 2, false);
    if (message == NULL) {
        assert_int_equal(p.rc, MR_OK);
    } else {
        assert_int_equal(p.rc, MR_EINVAL);
        assert_int_equal(p.bad_row, bad_row);
        if (strstr(p.err.message, message) == NULL) {
            fail_msg("'%s' does not say '%s'", p.err.message, message);
        }
    }
    release(&p);
    mr_buf_free(&records);
}

static void features_that_do_not_fit(void **state)
{
    refused("pt", false, 1,
            "feature 'label' is missing and has no default; the record has 'pixels', 'tag'");
    refused("ept", false, 1, "feature 'label' is missing");
    refused("Lpt", false, 1, "feature 'label' has 2 values; wants 1");
    refused("fpt", false, 1, "feature 'label' is a float list; wants an int64 list");
    refused("fpt", true, 1, "feature 'label' is a float list");
    refused("lp", false, 1, "feature 'tag' is missing");
    refused("pt", true, 0, NULL);
}

static void a_default_fills_in(void **state)
{
    struct mr_buf records = MR_BUF_INIT;
    uint64_t end;
    struct parsed p;

    put(&records, "pt", 5, true);
    end = records.len;
    describe(&p, true);
    parse(&p, &records, &end, 1, false);
    assert_int_equal(p.rc, MR_OK);
    assert_true(((const int64_t *)p.out[0].c.data)[0] == -1);
    release(&p);
    mr_buf_free(&records);
}

static void bytes_that_are_no_record(void **state)
{
    struct mr_buf records = MR_BUF_INIT;
    uint64_t ends[2];
    struct parsed p;

    put(&records, "lpt", 1, true);
    ends[0] = records.len;
    mr_buf_append(&records, "\x0a\xff\xff\xff\xff\x0fjunk", 10);
    ends[1] = records.len;
    describe(&p, true);
    parse(&p, &records, ends, 2, false);
    assert_int_equal(p.rc, MR_EINVAL);
    assert_int_equal(p.bad_row, 1);
    assert_non_null(strstr(p.err.message, "not a tf.Example"));
    release(&p);
    mr_buf_free(&records);
}

static void descriptions_that_are_refused(void **state)
{
    struct parsed p;

    describe(&p, true);
    assert_int_equal(infer(&p, 0), MR_OK);
    p.kinds[1] = 9;
    assert_int_equal(infer(&p, 0), MR_EINVAL);
    p.kinds[1] = 0;
    p.dtypes[1] = MR_INT32;
    assert_int_equal(infer(&p, 0), MR_EINVAL);
    assert_non_null(strstr(p.err.message, "float32, int64 or string"));
    p.dtypes[1] = MR_FLOAT32;
    p.dtypes[0] = MR_FLOAT32; /* the default is int64 */
    assert_int_equal(infer(&p, 0), MR_EINVAL);
    p.dtypes[0] = MR_INT64;
    p.shape[0] = -1;
    assert_int_equal(infer(&p, 0), MR_OK);
    assert_int_equal(infer(&p, 1), MR_OK); /* in a batch all are as long as the longest */
    assert_int_equal(infer(&p, 2), MR_EINVAL);
    p.shape[0] = 2;
    p.attrs[1].count = 2; /* dtypes */
    assert_int_equal(infer(&p, 0), MR_EINVAL);
    release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_all_forms),
        cmocka_unit_test(features_that_do_not_fit),
        cmocka_unit_test(a_default_fills_in),
        cmocka_unit_test(bytes_that_are_no_record),
        cmocka_unit_test(descriptions_that_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
