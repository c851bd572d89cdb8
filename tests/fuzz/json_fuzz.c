/* Any bytes as a record of JSON: what is read lies within it, what is passed over is what is read
 * value by value, and texts do not grow when escapes go. */
#include "ops/json.h"
#include "ops/number.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int walk(struct mr_json *j, unsigned depth, mr_error *err);

static void check(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void check_within(const struct mr_json *j, struct mr_string s)
{
    check(s.data >= j->begin && s.data + s.size <= j->at && j->at <= j->end);
}

static void check_text(const struct mr_json *j, const struct mr_json_text *text)
{
    unsigned char *to = malloc(text->raw.size + 1);

    check_within(j, text->raw);
    if (to != NULL) {
        size_t n = mr_json_unescape(text, to);

        check(n <= text->raw.size && (text->escaped || n == text->raw.size));
        check(!text->escaped || n < text->raw.size);
        free(to);
    }
}

static int walk_container(struct mr_json *j, bool object, unsigned depth, mr_error *err)
{
    bool more = true;

    mr_json_enter(j);
    for (bool first = true;; first = false) {
        struct mr_json_text name = {0};

        MR_TRY(object ? mr_json_member(j, first, &name, &more, err)
                      : mr_json_item(j, first, &more, err));
        if (!more) {
            return MR_OK;
        }
        if (object) {
            check_text(j, &name);
        }
        MR_TRY(walk(j, depth + 1, err));
    }
}

static int walk(struct mr_json *j, unsigned depth, mr_error *err)
{
    enum mr_json_kind kind = mr_json_peek(j);
    struct mr_json_text text = {0};
    struct mr_string number = {0};
    double wide = 0;
    bool value = false;

    switch (kind) {
    case MR_JSON_OBJECT:
    case MR_JSON_ARRAY:
        if (depth == MR_JSON_DEPTH_MAX) {
            return MR_EINVAL;
        }
        return walk_container(j, kind == MR_JSON_OBJECT, depth, err);
    case MR_JSON_STRING:
        MR_TRY(mr_json_string(j, &text, err));
        check_text(j, &text);
        return MR_OK;
    case MR_JSON_NUMBER:
        MR_TRY(mr_json_number(j, &number, err));
        check_within(j, number);
        check(number.size >= MR_NUMBER_BYTES_MAX || mr_number_f64(number, &wide));
        return MR_OK;
    case MR_JSON_BOOL: return mr_json_bool(j, &value, err);
    case MR_JSON_NULL: return mr_json_null(j, err);
    case MR_JSON_NONE: break;
    }
    return MR_EINVAL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mr_string record = {size > 0 ? data : (const unsigned char *)"", size};
    struct mr_json skipped = mr_json_begin(record);
    struct mr_json walked = mr_json_begin(record);
    mr_error err;

    int rc = mr_json_skip(&skipped, &err);
    check((walk(&walked, 0, &err) == MR_OK) == (rc == MR_OK));
    check(rc != MR_OK || skipped.at == walked.at);
    check(skipped.at >= skipped.begin && skipped.at <= skipped.end);
    (void)mr_json_finish(&skipped, &err);
    return 0;
}
