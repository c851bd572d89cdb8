/* Where in a user's program operators were added: what errors say of it, and who does not see it. */
#include "engine_support.h"

#include "dataset/graph.h"
#include "engine/op.h"
#include "engine/program.h"
#include "millrace/dataset.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static uint32_t floor_div_at(mr_builder *b, int64_t x, const char *location)
{
    uint32_t in[2] = {add_int(b, x), 0};

    CHECK_OK(mr_builder_set_location(b, location, e));
    return add_op(b, "floor_div", in, 2, NULL, 0);
}

/* @ds, and what fails for its zeros: @x // element, at @op; the map is at @map. */
static mr_dataset *divide(mr_dataset *ds, int64_t x, const char *map, const char *op)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t out = floor_div_at(b, x, op);

    ds = make_with_function("map", ds, finish(b, &out, 1), NULL, 0);
    CHECK_OK(mr_dataset_set_location(ds, map, e));
    return ds;
}

/* The error of the only element of @ds, which is let go. */
static void expect_error(mr_dataset *ds, const char *want)
{
    struct lines l = read_all(ds, &(struct read_options){0});

    assert_int_equal(l.n, 1);
    assert_string_equal(l.text[0], want);
    lines_free(&l);
    mr_dataset_unref(ds);
}

static void errors_name_the_location(void **state)
{
    expect_error(divide(make_range(0, 1, 1), 7, "train.py:41", "train.py:38"),
                 "!-3 map (step 2, train.py:41), element 0: floor_div (train.py:38): integer "
                 "division by zero");
    expect_error(divide(make_range(0, 1, 1), 7, NULL, "train.py:38"),
                 "!-3 map (step 2), element 0: floor_div (train.py:38): integer division by zero");
    expect_error(divide(make_range(0, 1, 1), 7, "", ""), /* the same as none */
                 "!-3 map (step 2), element 0: floor_div: integer division by zero");
}

/* Four maps run as one. Element i fails in the i-th of them. */
static void joined_maps_have_their_own_locations(void **state)
{
    mr_dataset *ds = make_ints((const int64_t[]){100, 0, 1, 50}, 4);
    static const char *const maps[] = {"a:1", "a:2", "a:3", "a:4"};
    static const char *const ops[] = {"f:1", "f:2", "f:3", "f:4"};
    static const int64_t numerators[] = {100, 2, 100, 0};
    struct read_options options = {.errors_max = 100};

    /* 100 -> 1 -> 2 -> 50 -> 0; 0: fails in 1; 1 -> 100 -> 0: fails in 3; 50 -> 2 -> 1 -> 100 -> 0 */
    for (int i = 0; i < 4; i++) {
        ds = divide(ds, numerators[i], maps[i], ops[i]);
    }
    struct lines l = read_all(ds, &options);
    lines_expect_text(&(struct lines){.text = &l.text[0], .n = 1}, "0");
    assert_string_equal(l.text[1], "!-3 map (step 2, a:1), element 1: floor_div (f:1): integer "
                                   "division by zero");
    assert_string_equal(l.text[2], "!-3 map (step 4, a:3), element 2: floor_div (f:3): integer "
                                   "division by zero");
    lines_expect_text(&(struct lines){.text = &l.text[3], .n = 1}, "0");
    lines_free(&l);
    mr_dataset_unref(ds);
}

/* The traits of an error may come out of a state. */
static void no_number_leads_beyond_the_source(void **state)
{
    mr_dataset *ds = make_one("take", make_range(0, 1, 1), "count", 1);
    struct mr_op_iter it = {.ds = ds};
    mr_error err = {.traits = MR_BEHIND | MR_RETRYABLE, .message = "x"};

    CHECK_OK(mr_dataset_set_location(ds, "a:1", e));
    assert_int_equal(mr_op_fail(&it, 7, MR_EUNKNOWN, &err), MR_EUNKNOWN);
    assert_string_equal(err.message, "range (step 1), element 7: x");
    assert_int_equal(err.traits, MR_RETRYABLE);
    (void)mr_op_fail(&it, 7, MR_EUNKNOWN, &err);
    assert_string_equal(err.message, "take (step 2, a:1), element 7: range (step 1), element 7: x");
    mr_dataset_unref(ds);
}

/* ---- what does not fit ---- */

static void long_locations_lose_their_directory(void **state)
{
    static const char path[] = "a/directory/that/is/long/a/directory/that/is/long/and/longer/"
                               "a_name_of_twenty_six.py:76";
    static const char name[] = "a_name_of_twenty_six.py:76";
    char y[MR_LOCATION_BYTES_MAX + 1];
    char want[MR_ERROR_MESSAGE_SIZE];

    (void)snprintf(want, sizeof want,
                   "!-3 map (step 2, %s), element 0: floor_div (%s): integer division by zero",
                   path, name);
    expect_error(divide(make_range(0, 1, 1), 7, path, path), want);
    memset(y, 'y', sizeof y - 1); /* without a directory: the end */
    y[sizeof y - 1] = '\0';
    (void)snprintf(want, sizeof want,
                   "!-3 map (step 2, %s), element 0: floor_div (%.56s): integer division by zero",
                   name, y);
    expect_error(divide(make_range(0, 1, 1), 7, path, y), want);
    (void)snprintf(
        want, sizeof want,
        "!-3 map (step 2, %.32s), element 0: floor_div (%.56s): integer division by zero", y, y);
    expect_error(divide(make_range(0, 1, 1), 7, y, y), want);
}

static void a_long_path_of_a_file_loses_its_front(void **state)
{
    char directory[] = "/tmp/millrace-location-XXXXXX";
    char path[300];
    const char *name = "part-00017-of-01024.txt";

    assert_non_null(mkdtemp(directory));
    (void)snprintf(
        path, sizeof path, "%s/%.*s%s", directory, 200, /* many ways to one file */
        "././././././././././././././././././././././././././././././././././././././././"
        "././././././././././././././././././././././././././././././././././././././././"
        "././././././././././././././././././././././././././././././././././././././././",
        name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("1\n0\n", f) >= 0 && fclose(f) == 0);

    mr_dataset *ds = make("text_line", NULL, NULL, ATTRS(TEXT_ATTR("filename", path)), NULL);
    mr_builder *b = begin_for(ds, NULL);
    uint32_t line = 0;
    uint32_t in[2] = {add_int(b, 7), 0};
    CHECK_OK(mr_builder_set_location(b, "project/train.py:38", e));
    in[1] = add_op(b, "string_to_number", &line, 1,
                   ATTRS({.name = "dtype", .kind = MR_ATTR_DTYPE, .i = MR_INT64}));
    CHECK_OK(mr_builder_set_called(b, "//", e));
    uint32_t out = add_op(b, "floor_div", in, 2, NULL, 0);
    ds = make_with_function("map", ds, finish(b, &out, 1), NULL, 0);
    CHECK_OK(mr_dataset_set_location(ds, "project/train.py:41", e));
    CHECK_OK(mr_dataset_set_called(ds, "apply_to_all", e));
    struct read_options options = {.errors_max = 100};
    struct lines l = read_all(ds, &options);

    assert_int_equal(l.n, 2);
    static const char front[] =
        "!-3 apply_to_all (step 2, project/train.py:41), element 1 (file '...";
    static const char end[] = "/part-00017-of-01024.txt', record 1, offset 2): // "
                              "(project/train.py:38): integer division by zero";
    assert_memory_equal(l.text[1], front, sizeof front - 1);
    assert_string_equal(l.text[1] + strlen(l.text[1]) - (sizeof end - 1), end);
    assert_true(strlen(l.text[1]) < MR_ERROR_MESSAGE_SIZE - 30); /* others have room in front */
    lines_free(&l);
    mr_dataset_unref(ds);
    assert_int_equal(remove(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

/* ---- who sees it ---- */

static void *bytes_of(mr_dataset *ds, size_t *size)
{
    void *bytes = NULL;

    CHECK_OK(mr_dataset_serialize(ds, &bytes, size, e));
    return bytes;
}

static mr_dataset *through_bytes(mr_dataset *ds)
{
    size_t size = 0;
    void *bytes = bytes_of(ds, &size);
    mr_dataset *again = NULL;

    CHECK_OK(mr_dataset_parse(bytes, size, &again, e));
    mr_free(bytes);
    mr_dataset_unref(ds);
    return again;
}

static void definitions_keep_locations(void **state)
{
    static const char want[] = "!-3 map (step 2, train.py:41), element 0: floor_div (train.py:38): "
                               "integer division by zero";

    expect_error(through_bytes(divide(make_range(0, 1, 1), 7, "train.py:41", "train.py:38")), want);
}

static void fingerprints_do_not_see_them(void **state)
{
    mr_dataset *one = divide(make_range(0, 1, 1), 7, "a:1", "a:2");
    mr_dataset *other = divide(make_range(0, 1, 1), 7, NULL, "b:2");
    uint8_t x[16];
    uint8_t y[16];

    CHECK_OK(mr_dataset_fingerprint(one, x, e));
    CHECK_OK(mr_dataset_fingerprint(other, y, e));
    assert_memory_equal(x, y, sizeof x);
    assert_true(one->places != other->places);
    mr_dataset_unref(one);
    mr_dataset_unref(other);
}

/* A definition has each function once, but a function of other lines is another one. */
static void the_same_function_of_other_lines_keeps_them(void **state)
{
    size_t same = 0;
    size_t two = 0;
    mr_dataset *zeros = make_ints((const int64_t[]){0, 1}, 2);
    mr_dataset *ds = divide(zeros, 0, "a:1", "f:1"); /* 0 // 0 fails; 0 // 1 = 0 */

    ds = make_one("batch", ds, "batch_size", 1);
    ds = make("unbatch", ds, NULL, NULL, 0, NULL);
    mr_dataset *like = divide(mr_dataset_ref(ds), 0, "a:2", "f:1");
    ds = divide(ds, 0, "a:2", "f:2");
    mr_free(bytes_of(like, &same));
    mr_free(bytes_of(ds, &two));
    assert_true(two > same + 20);
    mr_dataset_unref(like);

    struct read_options options = {.errors_max = 100};
    ds = through_bytes(ds);
    struct lines l = read_all(ds, &options);
    assert_int_equal(l.n, 2);
    assert_non_null(strstr(l.text[0], "map (step 2, a:1), element 0: floor_div (f:1): "));
    assert_non_null(strstr(l.text[1], "map (step 5, a:2), element 1: floor_div (f:2): "));
    lines_free(&l);
    mr_dataset_unref(ds);
}

/* ---- what is refused ---- */

static void only_text_of_some_length_is_one(void **state)
{
    static const char *const bad[] = {"a\nb:1", "\x1b[2J", "\xff:1", "\xc3", "\x7f", "\xc2\x85"};
    mr_dataset *ds = make_range(0, 1, 1);
    mr_builder *b = begin_for(ds, NULL);
    mr_error err = {0};
    char text[MR_LOCATION_BYTES_MAX + 2];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(mr_dataset_set_location(ds, bad[i], &err), MR_EINVAL);
        assert_non_null(strstr(err.message, "range: the location '"));
        assert_int_equal(mr_builder_set_location(b, bad[i], &err), MR_EINVAL);
        assert_non_null(strstr(err.message, "is no text"));
    }
    memset(text, 'x', sizeof text);
    text[MR_LOCATION_BYTES_MAX + 1] = '\0';
    assert_int_equal(mr_dataset_set_location(ds, text, &err), MR_EINVAL);
    assert_string_equal(err.message, "range: a location of more than 96 bytes");
    text[MR_LOCATION_BYTES_MAX] = '\0';
    CHECK_OK(mr_dataset_set_location(ds, text, e));
    CHECK_OK(mr_dataset_set_location(ds, "\xc3\xbc.py:1", e));
    assert_string_equal(ds->location, "\xc3\xbc.py:1");
    CHECK_OK(mr_dataset_set_location(ds, NULL, e));
    assert_null(ds->location);
    mr_dataset_ref(ds); /* somebody else has it */
    assert_int_equal(mr_dataset_set_location(ds, "a:1", &err), MR_EPRECOND);
    assert_string_equal(err.message,
                        "range: the location is set before anything else has the dataset");
    assert_null(ds->location);
    assert_int_equal(mr_dataset_set_called(ds, "numbers", &err), MR_EPRECOND);
    assert_string_equal(err.message, "range: its name is set before anything else has the dataset");
    assert_null(ds->called);
    mr_dataset_unref(ds);
    mr_builder_free(b);
    mr_dataset_unref(ds);
}

static void parse_refused(Millrace__DatasetDef *def, const char *message)
{
    size_t size = millrace__dataset_def__get_packed_size(def);
    uint8_t *bytes = malloc(size + 1);
    mr_dataset *ds = NULL;
    mr_error err = {0};

    (void)millrace__dataset_def__pack(def, bytes);
    assert_int_equal(mr_dataset_parse(bytes, size, &ds, &err), MR_EINVAL);
    assert_null(ds);
    if (strstr(err.message, message) == NULL) {
        fail_msg("'%s' does not say '%s'", err.message, message);
    }
    free(bytes);
}

static void those_of_definitions_are_checked(void **state)
{
    mr_dataset *ds = divide(make_range(0, 1, 1), 7, "train.py:41", "train.py:38");
    size_t size = 0;
    void *bytes = bytes_of(ds, &size);
    Millrace__DatasetDef *def = millrace__dataset_def__unpack(NULL, size, bytes);
    Millrace__DatasetNode *map = def->graph->nodes[1];
    Millrace__FunctionDef *fn = def->functions[0];
    Millrace__FunctionNode *op = fn->nodes[fn->n_nodes - 1];
    char *kept = map->location;

    assert_string_equal(kept, "train.py:41");
    map->location = "a\nb";
    parse_refused(def, "node 1: map: the location 'a\\nb' is no text");
    map->location = kept;
    kept = op->location;
    assert_string_equal(kept, "train.py:38");
    op->location = "\xff";
    parse_refused(def, "floor_div: the location '\\xff' is no text");
    op->location = kept;
    millrace__dataset_def__free_unpacked(def, NULL);
    mr_free(bytes);
    mr_dataset_unref(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_the_location),
        cmocka_unit_test(joined_maps_have_their_own_locations),
        cmocka_unit_test(no_number_leads_beyond_the_source),
        cmocka_unit_test(long_locations_lose_their_directory),
        cmocka_unit_test(a_long_path_of_a_file_loses_its_front),
        cmocka_unit_test(definitions_keep_locations),
        cmocka_unit_test(fingerprints_do_not_see_them),
        cmocka_unit_test(the_same_function_of_other_lines_keeps_them),
        cmocka_unit_test(only_text_of_some_length_is_one),
        cmocka_unit_test(those_of_definitions_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
