/* The JSON codec: the canonical form, what else is accepted, what is refused and how the place is
 * named. */
#include "base/base.h"
#include "base/limits.h"
#include "json/pbjson.h"

#include <locale.h>
#include <math.h>
#include <pbjson_test.pb-c.h>
#include <setjmp.h>
#include <stdarg.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

typedef PbjsonTest__Kinds kinds;

static kinds *parse(const char *json)
{
    ProtobufCMessage *msg = NULL;
    mr_error err = {0};

    if (mr_pbjson_parse(&pbjson_test__kinds__descriptor, json, strlen(json), &msg, &err) < 0) {
        fail_msg("%s: %s", json, err.message);
    }
    return (kinds *)msg;
}

static void check_written(const kinds *msg, const char *expected)
{
    char *text = NULL;
    size_t len = 0;
    mr_error err = {0};

    if (mr_pbjson_write(&msg->base, &text, &len, &err) < 0) {
        fail_msg("%s", err.message);
    }
    assert_string_equal(text, expected);
    assert_int_equal(len, strlen(expected));
    mr_free(text);
}

static void free_kinds(kinds *msg)
{
    protobuf_c_message_free_unpacked(&msg->base, NULL);
}

/* @json is read and written back as @expected. */
static void check_becomes(const char *json, const char *expected)
{
    kinds *msg = parse(json);

    check_written(msg, expected);
    free_kinds(msg);
}

static void check_refused(const char *json, const char *message)
{
    ProtobufCMessage *msg = (ProtobufCMessage *)&msg;
    mr_error err = {0};

    assert_int_equal(
        mr_pbjson_parse(&pbjson_test__kinds__descriptor, json, strlen(json), &msg, &err),
        MR_EINVAL);
    assert_ptr_equal(msg, &msg); /* untouched */
    assert_string_equal(err.message, message);
}

static void canonical_form_of_every_kind(void **state)
{
    static const char canonical[] = "{\"i32\":-1,\"s32\":-2147483648,\"sf32\":2147483647,\"u32\":"
                                    "4294967295,\"f32\":1,\"i64\":\"-9223372036854775808\","
                                    "\"s64\":\"9223372036854775807\",\"sf64\":\"-1\",\"u64\":"
                                    "\"18446744073709551615\",\"f64\":\"1\",\"real\":0.1,"
                                    "\"doubleReal\":0.1,\"yes\":true,\"colour\":\"COLOUR_DARK_"
                                    "BLUE\",\"text\":\"\\\"\\\\\\n\\u0001\xc3\xa4\","
                                    "\"data\":\"AP8=\",\"inner\":{},\"manyI32\":[0,-1],\"manyU64\":"
                                    "[\"0\",\"1\"],\"manyDouble\":[0,1e+300],"
                                    "\"manyBool\":[false,true],\"manyColour\":[\"COLOUR_NONE\","
                                    "\"COLOUR_RED\"],\"manyText\":[\"\",\"a\"],"
                                    "\"manyData\":[\"\",\"YQ==\"],\"manyInner\":[{\"i32\":1},{}],"
                                    "\"chosenI64\":\"0\",\"lateNumber2X\":7}";
    kinds *msg = parse(canonical);

    assert_int_equal(msg->i64, INT64_MIN);
    assert_true(msg->u64 == UINT64_MAX);
    assert_int_equal(msg->data.len, 2);
    assert_int_equal(msg->n_many_inner, 2);
    assert_int_equal(msg->choice_case, PBJSON_TEST__KINDS__CHOICE_CHOSEN_I64);
    check_written(msg, canonical);
    free_kinds(msg);
}

static void defaults_are_left_out(void **state)
{
    check_becomes("{}", "{}");
    check_becomes(" { \"i32\": 0, \"text\": \"\", \"data\": \"\", \"manyI32\": [], \"yes\": false, "
                  "\"real\": 0 } \n",
                  "{}");
    check_becomes("{\"i32\":null,\"inner\":null,\"manyI32\":null,\"chosenText\":null}", "{}");
    check_becomes("{\"doubleReal\":-0.0}", "{\"doubleReal\":-0.0}");
}

static void fields_are_in_order_of_their_numbers(void **state)
{
    check_becomes("{\"lateNumber2X\":1,\"text\":\"a\",\"i32\":5}",
                  "{\"i32\":5,\"text\":\"a\",\"lateNumber2X\":1}");
}

static void other_spellings_are_accepted(void **state)
{
    check_becomes("{\"late_number2_x\":1,\"many_i32\":[1]}",
                  "{\"manyI32\":[1],\"lateNumber2X\":1}");
    check_becomes("{\"i64\":5,\"i32\":\"-6\",\"u32\":1e3,\"u64\":2.0}",
                  "{\"i32\":-6,\"u32\":1000,\"i64\":\"5\",\"u64\":\"2\"}");
    check_becomes("{\"real\":\"1.5\",\"doubleReal\":\"-2e1\"}",
                  "{\"real\":1.5,\"doubleReal\":-20}");
    check_becomes("{\"data\":\"-_8\"}", "{\"data\":\"+/8=\"}");
    check_becomes("{\"colour\":1}", "{\"colour\":\"COLOUR_RED\"}");
    check_becomes("{\"colour\":77}", "{\"colour\":77}");
}

static void reals_that_are_no_numbers(void **state)
{
    check_becomes("{\"real\":\"NaN\",\"manyDouble\":[\"Infinity\",\"-Infinity\"]}",
                  "{\"real\":\"NaN\",\"manyDouble\":[\"Infinity\",\"-Infinity\"]}");
}

static void reals_read_back_as_the_same_number(void **state)
{
    static const double values[] = {1.0 / 3.0, 5e-324, 1.7976931348623157e308, 123456789012345680.0,
                                    0.30000000000000004};

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        kinds in = PBJSON_TEST__KINDS__INIT;
        char *text = NULL;

        in.double_real = values[i];
        in.real = (float)values[i];
        if (!isfinite((double)in.real)) {
            in.real = 0;
        }
        assert_int_equal(mr_pbjson_write(&in.base, &text, NULL, NULL), MR_OK);
        kinds *out = parse(text);
        assert_memory_equal(&out->double_real, &in.double_real, sizeof in.double_real);
        assert_memory_equal(&out->real, &in.real, sizeof in.real);
        free_kinds(out);
        mr_free(text);
    }
}

/* Python programs set a locale; stored values must not change with it. */
static void decimal_point_is_a_point_in_every_locale(void **state)
{
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL &&
        setlocale(LC_NUMERIC, "fr_FR.UTF-8") == NULL) {
        print_message("no locale with a decimal comma is installed\n");
        skip();
    }
    check_becomes("{\"doubleReal\":1.5,\"real\":\"2.5e-10\"}",
                  "{\"real\":2.5e-10,\"doubleReal\":1.5}");
    setlocale(LC_NUMERIC, "C");
}

static void one_member_of_a_oneof(void **state)
{
    check_becomes("{\"chosenText\":\"\"}", "{\"chosenText\":\"\"}");
    check_becomes("{\"chosenData\":\"\"}", "{\"chosenData\":\"\"}");
    check_becomes("{\"chosenBool\":false}", "{\"chosenBool\":false}");
    check_becomes("{\"chosenInner\":{\"chosenInner\":{}}}",
                  "{\"chosenInner\":{\"chosenInner\":{}}}");
    check_refused("{\"chosenText\":\"a\",\"chosenI64\":1}",
                  "chosen_text: 'chosen_i64' is given too, and only one of the two may be");
}

static void unknown_members_are_kept(void **state)
{
    static const char newer[] =
        "{\"i32\":1,\"inner\":{\"u32\":2,\"deep\":[null,{\"x\":1.5}]},\"later\":\"v\",\"more\":{}}";

    check_becomes(newer, newer);
    check_becomes("{\"later\":1,\"i32\":1}", "{\"i32\":1,\"later\":1}");

    /* Through the binary form and back. */
    kinds *msg = parse(newer);
    uint8_t packed[512];
    size_t n = protobuf_c_message_get_packed_size(&msg->base);
    assert_true(n <= sizeof packed);
    protobuf_c_message_pack(&msg->base, packed);
    free_kinds(msg);
    msg = pbjson_test__kinds__unpack(NULL, n, packed);
    assert_non_null(msg);
    check_written(msg, newer);
    free_kinds(msg);
}

static void hostile_unknown_fields_are_left_out(void **state)
{
    static uint8_t not_json[] = "\x05{\"a\":";
    static uint8_t not_object[] = "\x03[1]";
    static uint8_t known[] = "\x09{\"i32\":5}";
    static uint8_t endless[] = "\xff\xff\xff\xff\xff\xff";
    uint8_t *const data[] = {not_json, not_object, known, endless};

    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++) {
        kinds msg = PBJSON_TEST__KINDS__INIT;
        ProtobufCMessageUnknownField u = {MR_PBJSON_UNKNOWN_TAG,
                                          PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
                                          strlen((char *)data[i]), data[i]};

        msg.i32 = 1;
        msg.base.n_unknown_fields = 1;
        msg.base.unknown_fields = &u;
        check_written(&msg, "{\"i32\":1}");
    }
}

static void refusals_name_the_place(void **state)
{
    check_refused("", "not JSON: line 1, column 0: '[' or '{' expected near end of file");
    check_refused("[]", "an array instead of an object");
    check_refused("{\"i32\":1,\"i32\":2}",
                  "not JSON: line 1, column 14: duplicate object key near '\"i32\"'");
    check_refused("{\"manyI32\":[1],\"many_i32\":[1]}",
                  "many_i32: given twice, as 'manyI32' and 'many_i32'");
    check_refused("{\"i32\":2147483648}", "i32: 2147483648 is not within -2147483648..2147483647");
    check_refused(
        "{\"i64\":\"-9223372036854775809\"}",
        "i64: -9223372036854775809 is not within -9223372036854775808..9223372036854775807");
    check_refused("{\"u32\":-1}", "u32: -1 is not within 0..4294967295");
    check_refused("{\"u64\":\"18446744073709551616\"}",
                  "u64: \"18446744073709551616\" is not an integer");
    check_refused("{\"u64\":\"\"}", "u64: \"\" is not an integer");
    check_refused("{\"i32\":1.5}", "i32: 1.5 is not an integer");
    check_refused("{\"i32\":true}", "i32: a boolean instead of an integer");
    check_refused("{\"real\":1e39}", "real: 9.9999999999999994e+38 is out of range");
    check_refused("{\"real\":\"0x10\"}", "real: \"0x10\" is not a number");
    check_refused("{\"yes\":1}", "yes: a number instead of true or false");
    check_refused("{\"colour\":\"PINK\"}", "colour: \"PINK\" is not a value of Colour");
    check_refused("{\"text\":[]}", "text: an array instead of a string");
    check_refused("{\"data\":\"a\"}", "data: not base64");
    check_refused("{\"data\":\"YR==\"}", "data: not base64"); /* bits that would be dropped */
    check_refused("{\"manyText\":[\"a\",null]}", "many_text[1]: null instead of a string");
    check_refused("{\"manyInner\":[{},{\"inner\":{\"i32\":\"x\"}}]}",
                  "many_inner[1].inner.i32: \"x\" is not an integer");
    check_refused("{\"manyInner\":{}}", "many_inner: an object instead of an array");
}

static void nesting_is_bounded(void **state)
{
    char json[16 * MR_PBJSON_DEPTH_MAX] = "";
    mr_error err = {0};
    ProtobufCMessage *msg;

    for (int i = 0; i < MR_PBJSON_DEPTH_MAX; i++) {
        strcat(json, "{\"inner\":");
    }
    strcat(json, "{}");
    for (int i = 0; i < MR_PBJSON_DEPTH_MAX; i++) {
        strcat(json, "}");
    }
    kinds *deepest = parse(json);
    check_written(deepest, json);

    kinds top = PBJSON_TEST__KINDS__INIT;
    char *text;
    top.inner = deepest;
    assert_int_equal(mr_pbjson_write(&top.base, &text, NULL, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "nested deeper than 32"));
    free_kinds(deepest);

    char deeper[sizeof json + 16];
    (void)snprintf(deeper, sizeof deeper, "{\"inner\":%s}", json);
    assert_int_equal(
        mr_pbjson_parse(&pbjson_test__kinds__descriptor, deeper, strlen(deeper), &msg, &err),
        MR_EINVAL);
    assert_non_null(strstr(err.message, "nested deeper than 32"));
}

static void text_that_is_not_utf8_is_not_written(void **state)
{
    static const char *const bad[] = {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                      "\xe2\x82"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kinds msg = PBJSON_TEST__KINDS__INIT;
        char *text;
        mr_error err = {0};

        msg.text = (char *)bad[i];
        assert_int_equal(mr_pbjson_write(&msg.base, &text, NULL, &err), MR_EINVAL);
        assert_string_equal(err.message, "text: not UTF-8");
    }
}

/* Text in canonical form is read by a way of its own; a space in front of it, and it goes the other
 * way. */
static void both_ways_of_reading_agree(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"i32\":0,\"s32\":-2147483648,\"u32\":4294967295,\"i64\":\"-9223372036854775808\","
        "\"u64\":\"18446744073709551615\"}",
        "{\"i32\":-0,\"i64\":\"-0\",\"u64\":\"0\",\"yes\":false,\"colour\":\"COLOUR_NONE\","
        "\"text\":\"\",\"inner\":{}}",
        "{\"manyI32\":[1,2,3,4,5],\"manyU64\":[\"7\"],\"manyBool\":[true,false,true],\"manyText\":["
        "\"a\",\"\",\"c\"],"
        "\"manyData\":[\"YQ==\",\"YWI=\"],\"manyInner\":[{},{\"i32\":1},{\"manyInner\":[{}]}],"
        "\"lateNumber2X\":7}",
        "{\"chosenData\":\"YQ==\"}",
        "{\"chosenInner\":{\"chosenBool\":false}}",
        "{\"text\":\"\x7f\xc3\xa4\"}",
        "{\"colour\":\"COLOUR_RED\",\"manyColour\":[\"COLOUR_DARK_BLUE\"]}",
    };
    static const char *const refused[] = {
        "{\"i32\":01}",
        "{\"i32\":-}",
        "{\"i32\":}",
        "{\"i32\":2147483648}",
        "{\"u32\":-1}",
        "{\"i64\":\"1}",
        "{\"i64\":\"\"}",
        "{\"u64\":\"-1\"}",
        "{\"yes\":tru}",
        "{\"yes\":true",
        "{\"text\":\"a",
        "{\"text\":\"a\nb\"}",
        "{\"manyI32\":[1,]}",
        "{\"manyI32\":[1}",
        "{\"i32\":1,}",
        "{\"i32\":1}}",
        "{\"i32\":1}x",
        "{\"i32\" :1 2}",
        "{\"inner\":{\"i32\":1}",
        "{\"colour\":\"\"}",
        "{\"colour\":\"RED\"}",
        "{\"manyText\":[\"a\",]}",
        "{\"text\":\"\xff\"}",
        "{\"data\":\"A\"}",
        "{\"chosenText\":\"a\",\"chosenData\":\"YQ==\"}",
        "{\"manyInner\":[{\"text\":\"a\"},{\"text\":1}]}",
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char slow[512];
        char *written = NULL;

        (void)snprintf(slow, sizeof slow, " %s", texts[i]);
        kinds *msg = parse(slow);

        assert_int_equal(mr_pbjson_write(&msg->base, &written, NULL, NULL), MR_OK);
        check_becomes(texts[i], written);
        free_kinds(msg);
        mr_free(written);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char slow[512];
        mr_error err = {0};
        ProtobufCMessage *msg;

        (void)snprintf(slow, sizeof slow, " %s", refused[i]);
        assert_int_equal(
            mr_pbjson_parse(&pbjson_test__kinds__descriptor, slow, strlen(slow), &msg, &err),
            MR_EINVAL);
        assert_int_equal(mr_pbjson_parse(&pbjson_test__kinds__descriptor, refused[i],
                                         strlen(refused[i]), &msg, &err),
                         MR_EINVAL);
    }
}

/* The text need not end with a NUL: what is behind it is not looked at. */
static void every_cut_of_a_text_is_refused(void **state)
{
    static const char text[] = "{\"i32\":12,\"i64\":\"34\",\"yes\":true,\"colour\":\"COLOUR_RED\","
                               "\"text\":\"a\",\"data\":\"YQ==\","
                               "\"inner\":{\"i32\":5},\"manyInner\":[{},{\"manyText\":[\"b\"]}]}";

    for (size_t n = 0; n < strlen(text); n++) {
        ProtobufCMessage *msg;
        char *cut = mr_malloc(n); /* of that very size, for the sanitizer */

        memcpy(cut, text, n);
        assert_int_equal(mr_pbjson_parse(&pbjson_test__kinds__descriptor, cut, n, &msg, NULL),
                         MR_EINVAL);
        mr_free(cut);
    }
}

static void check_failing_allocations(const char *json)
{
    ProtobufCMessage *msg;
    int rc = MR_EEXHAUSTED;
    uint64_t nth = 0;

    while (rc == MR_EEXHAUSTED) {
        mr_alloc_fail_at(++nth);
        rc = mr_pbjson_parse(&pbjson_test__kinds__descriptor, json, strlen(json), &msg, NULL);
    }
    mr_alloc_fail_at(0);
    assert_int_equal(rc, MR_OK);
    assert_true(nth > 6);
    protobuf_c_message_free_unpacked(msg, NULL);
}

static void failing_allocations_are_reported(void **state)
{
    check_failing_allocations(
        "{\"text\":\"a\",\"data\":\"YQ==\",\"manyInner\":[{\"text\":\"b\"}],\"later\":1}");
    check_failing_allocations(
        "{\"text\":\"a\",\"data\":\"YQ==\",\"manyInner\":[{\"text\":\"b\"},{}]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_form_of_every_kind),
        cmocka_unit_test(defaults_are_left_out),
        cmocka_unit_test(fields_are_in_order_of_their_numbers),
        cmocka_unit_test(other_spellings_are_accepted),
        cmocka_unit_test(reals_that_are_no_numbers),
        cmocka_unit_test(reals_read_back_as_the_same_number),
        cmocka_unit_test(decimal_point_is_a_point_in_every_locale),
        cmocka_unit_test(one_member_of_a_oneof),
        cmocka_unit_test(unknown_members_are_kept),
        cmocka_unit_test(hostile_unknown_fields_are_left_out),
        cmocka_unit_test(refusals_name_the_place),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(text_that_is_not_utf8_is_not_written),
        cmocka_unit_test(both_ways_of_reading_agree),
        cmocka_unit_test(every_cut_of_a_text_is_refused),
        cmocka_unit_test(failing_allocations_are_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
