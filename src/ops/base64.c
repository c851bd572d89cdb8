/* Base64 with the letters that are safe in URLs: encode_base64, decode_base64. */
#include "ops/attr.h"
#include "ops/rows.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* ---- encode_base64 ---- */

/* 1 to 3 bytes as 2 to 4 letters. */
static void encode_group(const unsigned char *from, size_t n, unsigned char *to)
{
    uint32_t bits = (uint32_t)from[0] << 16 | (n > 1 ? (uint32_t)from[1] << 8 : 0) |
                    (n > 2 ? (uint32_t)from[2] : 0);

    for (size_t i = 0; i <= n; i++) {
        to[i] = (unsigned char)letters[bits >> (18 - 6 * i) & 63];
    }
}

static int encode(struct mr_string s, bool pad, struct mr_result *out, struct mr_string *ret,
                  mr_error *err)
{
    size_t rest = s.size % 3;
    size_t tail = rest == 0 ? 0 : pad ? 4 : rest + 1;
    size_t size;

    if (__builtin_mul_overflow(s.size / 3, (size_t)4, &size) ||
        __builtin_add_overflow(size, tail, &size)) {
        return mr_error_nomem(err);
    }
    unsigned char *to = mr_output_bytes(out->column, size, err);
    if (to == NULL) {
        return MR_EEXHAUSTED;
    }
    *ret = (struct mr_string){to, size};
    for (size_t i = 0; i < s.size; i += 3, to += 4) {
        size_t n = MR_MIN(s.size - i, (size_t)3);

        encode_group(s.data + i, n, to);
        for (size_t k = n + 1; pad && k < 4; k++) {
            to[k] = '=';
        }
    }
    return MR_OK;
}

static int fill_encode(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    bool pad = mr_attr_bool(row->attrs, "pad", false);

    for (uint64_t i = 0; i < out->count; i++) {
        MR_TRY(
            encode(mr_tensor_strings(&row->in[0])[i], pad, out, &mr_result_strings(out)[i], err));
    }
    return MR_OK;
}

/* ---- decode_base64 ---- */

/* What the letter stands for; -1: nothing. */
static int letter_bits(unsigned char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '-'             ? 62
           : c == '_'             ? 63
                                  : -1;
}

/* Without the padding that fills up the last four letters. */
static size_t unpadded(struct mr_string s)
{
    size_t size = s.size;

    for (int i = 0; s.size % 4 == 0 && i < 2 && size > 0 && s.data[size - 1] == '='; i++) {
        size--;
    }
    return size;
}

static int decode(struct mr_string s, struct mr_result *out, struct mr_string *ret, mr_error *err)
{
    size_t size = unpadded(s);
    size_t made = size / 4 * 3 + (size % 4 * 3) / 4;
    uint32_t bits = 0;

    if (size % 4 == 1) {
        return mr_error_set(err, MR_EINVAL, "%zu letters are no base64: one is left over", size);
    }
    unsigned char *to = mr_output_bytes(out->column, made, err);
    if (to == NULL) {
        return MR_EEXHAUSTED;
    }
    *ret = (struct mr_string){to, made};
    for (size_t i = 0; i < size; i++) {
        int six = letter_bits(s.data[i]);

        if (six < 0) {
            return mr_error_set(err, MR_EINVAL,
                                "byte %zu is 0x%02x, which is no letter of base64 for URLs", i,
                                s.data[i]);
        }
        bits = bits << 6 | (uint32_t)six;
        if (i % 4 > 0) {
            *to++ = (unsigned char)(bits >> (6 - 2 * (i % 4)));
        }
    }
    return MR_OK;
}

static int fill_decode(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    for (uint64_t i = 0; i < out->count; i++) {
        MR_TRY(decode(mr_tensor_strings(&row->in[0])[i], out, &mr_result_strings(out)[i], err));
    }
    return MR_OK;
}

MR_ROWS_KERNEL(encode_base64, 1, 1, MR_SET(MR_STRING), .fill = fill_encode,
               .attr_table = {{"pad", MR_ATTR_BOOL, true}});
MR_ROWS_KERNEL(decode_base64, 1, 1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL,
               .fill = fill_decode);
