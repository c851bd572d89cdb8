/* What others say becomes text that can be stored, shown and sent. */
#include "dispatcher/core/core.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void bytes_that_are_no_text_are_replaced(void **state)
{
    static const struct {
        const char *said;
        const char *line;
    } cases[] = {
        {"", ""},
        {"all of it", "all of it"},
        {"'\xff\xfe' is not an integer", "'\?\?' is not an integer"},
        {"two\nlines\x7f\x01", "two lines  "},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\xbe", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8c\xbe"},
        {"overlong \xc0\xaf", "overlong \?\?"},
        {"surrogate \xed\xa0\x80", "surrogate \?\?\?"},
        {"ends early \xe2\x82", "ends early \?\?"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[64];

        mr_line_copy(cases[i].said, out, sizeof out);
        assert_string_equal(out, cases[i].line);
    }
}

static void a_letter_that_is_cut_is_replaced(void **state)
{
    char out[5];

    mr_line_copy("abc\xc3\xa4", out, sizeof out);
    assert_string_equal(out, "abc?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_no_text_are_replaced),
        cmocka_unit_test(a_letter_that_is_cut_is_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
