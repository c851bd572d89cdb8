/* Any bytes as a record of JSON: what is read lies within it, what is passed over is what is read
 * value by value, and texts do not grow when escapes go. decode_json with fields of all kinds makes
 * the same of one record and of a vector that has it twice. */
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

/* ---- decode_json ---- */

static const char names[] = "nvwrp[].tp[].n";
static const uint64_t name_offsets[] = {0, 1, 2, 3, 4, 9, 14};
enum { N, V, W, R, ITEMS_T, ITEMS_N, FIELDS };

static int64_t dtypes[FIELDS] = {MR_INT32, MR_FLOAT64, MR_INT8, MR_STRING, MR_STRING, MR_INT32};
static int64_t ragged[FIELDS] = {[R] = 1, [ITEMS_T] = 1};
static int64_t open_dims[] = {-1, -1};
static int64_t pair_dims[] = {-1, 2};

static struct mr_attr attrs[] = {
    {.name = "default0", .kind = MR_ATTR_BLOCK},
    {.name = "default5", .kind = MR_ATTR_BLOCK},
    {.name = "dtypes", .kind = MR_ATTR_INTS, .count = FIELDS, .ints = dtypes},
    {.name = "names", .kind = MR_ATTR_STRINGS},
    {.name = "ragged", .kind = MR_ATTR_INTS, .count = FIELDS, .ints = ragged},
    {.name = "shape1", .kind = MR_ATTR_SHAPE, .count = 1, .ints = open_dims},
    {.name = "shape2", .kind = MR_ATTR_SHAPE, .count = 2, .ints = pair_dims},
    {.name = "shape3", .kind = MR_ATTR_SHAPE, .count = 2, .ints = open_dims},
    {.name = "shape4", .kind = MR_ATTR_SHAPE, .count = 2, .ints = open_dims},
    {.name = "shape5", .kind = MR_ATTR_SHAPE, .count = 1, .ints = open_dims},
};
enum { ATTRS = sizeof attrs / sizeof attrs[0] };

static bool make_attrs(void)
{
    static const int32_t minus_one = -1;
    struct mr_column fallback = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT32, .data = &minus_one};
    struct mr_column list = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = name_offsets, .data = names};
    mr_block *block = NULL;
    mr_error err;

    if (mr_block_new(1, &fallback, 1, &block, &err) != MR_OK ||
        mr_block_new(FIELDS, &list, 1, (mr_block **)&attrs[3].block, &err) != MR_OK) {
        return false;
    }
    attrs[0].block = block;
    attrs[1].block = mr_block_ref(block);
    return true;
}

/* The record, or a vector that has it twice. */
static int decode(struct mr_string record, int rank, struct mr_owned_column *out, size_t nout,
                  mr_error *err)
{
    const struct mr_kernel *kernel = mr_kernel_find("decode_json");
    struct mr_kernel_call call = {.kernel = kernel, .attrs = attrs, .nattrs = ATTRS};
    uint64_t offsets[] = {0, record.size, 2 * record.size};
    unsigned char *twice = malloc(2 * record.size + 1);
    struct mr_owned_column column = {.c = {.kind = MR_COLUMN_FIXED,
                                           .dtype = MR_STRING,
                                           .rank = (uint8_t)rank,
                                           .dims = {2},
                                           .offsets = offsets,
                                           .data = twice}};
    struct mr_kernel_in in = {&column, false};
    uint32_t bad_row;

    check(twice != NULL);
    memcpy(twice, record.data, record.size);
    memcpy(twice + record.size, record.data, record.size);
    int rc = kernel->prepare(attrs, ATTRS, &call.state, err);
    check(rc == MR_OK);
    rc = kernel->eval(&call, 1, &in, 1, out, nout, &bad_row, err);
    kernel->release(call.state);
    free(twice);
    return rc;
}

/* The sum of the two halves of lengths, which are alike, is how many there are one axis below. */
static void check_lengths(const struct mr_column *lengths, int64_t below)
{
    const int64_t *n = lengths->data;
    int64_t half = lengths->dims[0] / 2;
    int64_t sum = 0;

    check(lengths->dims[0] % 2 == 0);
    for (int64_t i = 0; i < half; i++) {
        check(n[i] >= 0 && n[i] == n[half + i]);
        sum += 2 * n[i];
    }
    check(sum == below);
}

static void check_both(const struct mr_owned_column *one, const struct mr_owned_column *two)
{
    static const struct {
        int field;
        int first; /* result of two records that has lengths */
        int n;
    } lists[] = {{V, 6, 1}, {W, 7, 1}, {R, 8, 2}, {ITEMS_T, 10, 2}, {ITEMS_N, 12, 1}};

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        int64_t values = two[lists[i].field].c.dims[0];

        check(values == 2 * one[lists[i].field].c.dims[0]);
        for (int k = lists[i].n - 1; k >= 0; k--) {
            const struct mr_column *lengths = &two[lists[i].first + k].c;

            check_lengths(lengths, values);
            values = lengths->dims[0];
        }
        check(values == 2);
    }
}

static void decode_once_and_twice(struct mr_string record)
{
    struct mr_owned_column one[8] = {0};
    struct mr_owned_column two[13] = {0};
    mr_error err;

    int rc = decode(record, 0, one, 8, &err);
    check((decode(record, 1, two, 13, &err) == MR_OK) == (rc == MR_OK));
    if (rc == MR_OK) {
        check_both(one, two);
        for (int i = 0; i < 8; i++) {
            mr_column_release(&one[i]);
        }
        for (int i = 0; i < 13; i++) {
            mr_column_release(&two[i]);
        }
    }
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
    check(attrs[0].block != NULL || make_attrs());
    decode_once_and_twice(record);
    return 0;
}
