/* unicode_encode: strings of code points. unicode_transcode: strings in another encoding.
 * unicode_script: which script a code point is of. */
#include "base/buf.h"
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/rows.h"
#include "ops/unicode.h"

/* ---- unicode_encode ---- */

static int infer_encode(struct mr_kernel_infer *it, mr_error *err)
{
    struct mr_unicode_errors errors;
    enum mr_encoding encoding;

    MR_TRY(mr_unicode_errors_of(it->attrs, &errors, err));
    MR_TRY(mr_encoding_of(mr_attr_get(it->attrs, "output_encoding"), &encoding, err));
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_INT32), err));
    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(it->in, 0, 1, err));
    *it->out = it->in[1];
    it->out->dtype = MR_STRING;
    return MR_OK;
}

/* No code point, half of one, or one that Unicode keeps free of characters. */
static bool is_none(uint32_t code)
{
    return code > 0x10ffff || (code & 0xfffff800u) == 0xd800u || (code & 0xfffeu) == 0xfffeu ||
           (code >= 0xfdd0 && code <= 0xfdef);
}

static int encode(const int32_t *codes, uint64_t n, const struct mr_unicode_errors *errors,
                  enum mr_encoding encoding, struct mr_result *out, struct mr_string *ret,
                  mr_error *err)
{
    unsigned char *to = mr_output_bytes(out->column, 4 * (size_t)n, err);

    if (to == NULL) {
        return MR_EEXHAUSTED;
    }
    *ret = (struct mr_string){to, 0};
    for (uint64_t i = 0; i < n; i++) {
        uint32_t code = (uint32_t)codes[i];

        if (is_none(code) && errors->strict) {
            return mr_error_set(err, MR_EINVAL, "%d is no character", codes[i]);
        }
        code = is_none(code) && !errors->ignore ? errors->replacement : code;
        if (code <= 0x10ffff) {
            ret->size += mr_encode(encoding, code, to + ret->size);
        }
    }
    return MR_OK;
}

static int fill_encode(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const int32_t *codes = (const int32_t *)(const void *)row->in[0].values;
    uint64_t left = row->in[0].count;
    struct mr_unicode_errors errors;
    enum mr_encoding encoding;

    MR_TRY(mr_unicode_errors_of(row->attrs, &errors, err));
    MR_TRY(mr_encoding_of(mr_attr_get(row->attrs, "output_encoding"), &encoding, err));
    for (uint64_t i = 0; i < out->count; i++) {
        int64_t n = mr_tensor_index(&row->in[1], i);

        if (n < 0 || (uint64_t)n > left) {
            return mr_error_set(err, MR_EINVAL, "string %llu has %lld of %llu code points",
                                (unsigned long long)i, (long long)n, (unsigned long long)left);
        }
        MR_TRY(encode(codes, (uint64_t)n, &errors, encoding, out, &mr_result_strings(out)[i], err));
        codes += n;
        left -= (uint64_t)n;
    }
    return left == 0 ? MR_OK
                     : mr_error_set(err, MR_EINVAL, "%llu code points are in no string",
                                    (unsigned long long)left);
}

/* ---- unicode_transcode ---- */

static int infer_transcode(struct mr_kernel_infer *it, mr_error *err)
{
    struct mr_unicode_errors errors;
    enum mr_encoding encoding;
    struct mr_decoder decoder;

    MR_TRY(mr_unicode_errors_of(it->attrs, &errors, err));
    MR_TRY(mr_encoding_of(mr_attr_get(it->attrs, "output_encoding"), &encoding, err));
    MR_TRY(mr_decoder_open(&decoder, mr_attr_get(it->attrs, "input_encoding"), err));
    mr_decoder_close(&decoder);
    return MR_OK;
}

static int transcode(struct mr_decoder *decoder, const struct mr_unicode_errors *errors,
                     enum mr_encoding encoding, struct mr_string s, struct mr_buf *to,
                     mr_error *err)
{
    size_t begin = 0;
    size_t at = 0;
    uint32_t code;

    mr_decoder_begin(decoder);
    for (; mr_decoder_next(decoder, s, &at, &code); begin = at) {
        if (code == MR_UTF8_BAD || (errors->control && code < 0x20)) {
            if (errors->strict) {
                return mr_error_set(err, MR_EINVAL, "byte %zu: there is no character", begin);
            }
            if (errors->ignore) {
                continue;
            }
            code = errors->replacement;
        }
        unsigned char bytes[4];
        mr_buf_append(to, bytes, mr_encode(encoding, code, bytes));
    }
    return to->failed ? mr_buf_error(to, err) : MR_OK;
}

static int transcode_all(const struct mr_row *row, struct mr_decoder *decoder,
                         struct mr_result *out, mr_error *err)
{
    const struct mr_string *strings = mr_tensor_strings(&row->in[0]);
    struct mr_buf to = {.memory = mr_memory_current()};
    struct mr_unicode_errors errors;
    enum mr_encoding encoding;
    int rc = mr_unicode_errors_of(row->attrs, &errors, err);

    if (rc == MR_OK) {
        rc = mr_encoding_of(mr_attr_get(row->attrs, "output_encoding"), &encoding, err);
    }
    for (uint64_t i = 0; i < out->count && rc == MR_OK; i++) {
        mr_buf_clear(&to);
        rc = transcode(decoder, &errors, encoding, strings[i], &to, err);
        if (rc == MR_OK) {
            rc = mr_result_put_bytes(out, to.data, to.len, &mr_result_strings(out)[i], err);
        }
    }
    mr_buf_free(&to);
    return rc;
}

static int fill_transcode(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    struct mr_decoder decoder;

    MR_TRY(mr_decoder_open(&decoder, mr_attr_get(row->attrs, "input_encoding"), err));
    int rc = transcode_all(row, &decoder, out, err);
    mr_decoder_close(&decoder);
    return rc;
}

/* ---- unicode_script ---- */

MR_LOOP_HEAD(unicode_script, i32)
MR_UNARY_BODY(int32_t, int32_t, int32_t, MR_INT_LOAD, MR_INT_STORE, mr_unicode_script(a))

MR_ROWS_KERNEL(unicode_encode, 2, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_encode,
               .fill = fill_encode,
               .attr_table = {{"errors", MR_ATTR_BYTES, true},
                              {"output_encoding", MR_ATTR_BYTES, false},
                              {"replacement_char", MR_ATTR_INT, true}});
MR_ROWS_KERNEL(unicode_transcode, 1, 1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_transcode, .fill = fill_transcode,
               .attr_table = {{"errors", MR_ATTR_BYTES, true},
                              {"input_encoding", MR_ATTR_BYTES, false},
                              {"output_encoding", MR_ATTR_BYTES, false},
                              {"replace_control_characters", MR_ATTR_BOOL, true},
                              {"replacement_char", MR_ATTR_INT, true}});
MR_LOOPS_KERNEL(unicode_script, 1, 0, MR_SET(MR_INT32), [MR_INT32] = unicode_script_i32);
