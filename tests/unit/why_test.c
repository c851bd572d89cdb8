/* millrace job why: what it prints. */
#include "base/base.h"
#include "main/why.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void expect(const char *json, const char *text)
{
    struct mr_buf text_of = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *out = &text_of;
    json_t *picked = json_loads(json, 0, NULL);

    assert_non_null(picked);
    why_render(picked, out);
    json_decref(picked);
    mr_buf_append(out, "", 1);
    assert_string_equal((const char *)out->data, text);
}

static void a_line_and_a_table(void **state)
{
    expect("{\"jobs\":[{\"name\":\"train\",\"why\":{\"bound\":\"storage\",\"permille\":714,"
           "\"operator\":\"TFRecordDataset (step 0, train.py:12)\",\"place\":\"nfs4 at /data\","
           "\"advice\":\"read more files at once\",\"parts\":["
           "{\"bound\":\"storage\",\"operator\":\"TFRecordDataset (step 0, "
           "train.py:12)\",\"permille\":714},"
           "{\"bound\":\"trainer\",\"permille\":280},{\"bound\":\"consumer\"}]}}]}",
           "job train: bound by storage: TFRecordDataset (step 0, train.py:12), nfs4 at /data, 71 "
           "% of "
           "its readers' time: read more files at once\n"
           "    TIME  BOUND     OPERATOR\n"
           "    71 %  storage   TFRecordDataset (step 0, train.py:12)\n"
           "    28 %  trainer\n"
           "     0 %  consumer\n");
}

static void what_is_not_known(void **state)
{
    expect("{\"jobs\":[{\"id\":\"5.3\",\"trainer\":\"t\\u001b1\"},"
           "{\"name\":\"b\",\"why\":{\"advice\":\"read on\"}}]}",
           "job 5.3+t?1: nobody reads it\njob b: read on\n");
    expect("{}", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_and_a_table),
        cmocka_unit_test(what_is_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
