/* string_lower and string_upper: of ASCII, or of UTF-8 as Unicode has it. */
#include "ops/attr.h"
#include "ops/rows.h"
#include "ops/unicode.h"

static int infer_case(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *encoding = mr_attr_get(it->attrs, "encoding");

    if (encoding != NULL && encoding->size > 0 && !mr_attr_says(encoding, "utf-8")) {
        return mr_error_set(err, MR_EINVAL, "encoding '%.*s': wants utf-8 or none",
                            (int)MR_MIN(encoding->size, 20), (const char *)encoding->bytes);
    }
    return MR_OK;
}

static int case_prepare(const struct mr_attr *attrs, size_t nattrs, void **state, mr_error *err)
{
    const struct mr_attr *encoding = mr_attr_find(attrs, nattrs, "encoding");
    struct mr_case_map *map = NULL;

    if (encoding != NULL && encoding->size > 0) {
        MR_TRY(mr_case_map_new(&map, err));
    }
    *state = map; /* NULL: ASCII */
    return MR_OK;
}

static void case_release(void *state)
{
    mr_case_map_free(state);
}

/* Letters from @first to the 26th have bit 5 flipped: ASCII, and so all other bytes of UTF-8
 * stay. */
static int flip_case(struct mr_string s, unsigned char first, struct mr_result *out,
                     struct mr_string *ret, mr_error *err)
{
    unsigned char *bytes = mr_output_bytes(out->column, s.size, err);

    if (bytes == NULL) {
        return MR_EEXHAUSTED;
    }
    for (size_t k = 0; k < s.size; k++) {
        unsigned char c = s.data[k];

        bytes[k] = (unsigned char)(c ^ ((unsigned char)(c - first) < 26 ? 0x20u : 0));
    }
    *ret = (struct mr_string){bytes, s.size};
    return MR_OK;
}

static int fill_case(const struct mr_row *row, struct mr_result *out, bool upper, mr_error *err)
{
    const struct mr_string *values = mr_tensor_strings(&row->in[0]);
    struct mr_string *results = mr_result_strings(out);
    const struct mr_case_map *map = row->state;

    for (uint64_t i = 0; i < out->count; i++) {
        MR_TRY(map == NULL
                   ? flip_case(values[i], upper ? 'a' : 'A', out, &results[i], err)
                   : mr_case_map_apply(map, values[i], upper, out->column, &results[i], err));
    }
    return MR_OK;
}

static int fill_lower(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return fill_case(row, out, false, err);
}

static int fill_upper(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    return fill_case(row, out, true, err);
}

#define CASE_KERNEL(id, how)                                                                       \
    MR_ROWS_KERNEL(id, 1, 1, MR_SET(MR_STRING), .infer = infer_case, .fill = (how),                \
                   .prepare = case_prepare, .release = case_release,                               \
                   .attr_table = {{"encoding", MR_ATTR_BYTES, true}})

CASE_KERNEL(string_lower, fill_lower);
CASE_KERNEL(string_upper, fill_upper);
