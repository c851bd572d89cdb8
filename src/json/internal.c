#include "json/internal.h"

#include <stdarg.h>

static void place_append(const struct json_place *place, struct mr_buf *out)
{
    if (place == NULL || place->name == NULL) {
        return;
    }
    place_append(place->up, out);
    if (out->len > 0) {
        mr_buf_puts(out, ".");
    }
    mr_buf_puts(out, place->name);
    if (place->indexed) {
        mr_buf_printf(out, "[%zu]", place->index);
    }
}

int json_invalid(const struct json_place *place, mr_error *err, const char *fmt, ...)
{
    char message[MR_ERROR_MESSAGE_SIZE];
    struct mr_buf where = MR_BUF_INIT;
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    int rc = mr_error_set(err, MR_EINVAL, "%s", message);
    place_append(place, &where);
    if (where.len > 0 && !where.failed) {
        mr_error_wrap(err, "%s", (const char *)where.data);
    }
    mr_buf_free(&where);
    return rc;
}

void json_camel_append(const char *name, struct mr_buf *out)
{
    bool upper = false;

    for (const char *p = name; *p != '\0'; p++) {
        char c = *p;

        if (c == '_') {
            upper = true;
            continue;
        }
        if (upper && c >= 'a' && c <= 'z') {
            c = (char)(c - 'a' + 'A');
        }
        upper = false;
        mr_buf_append(out, &c, 1);
    }
}

/* Length of the well-formed sequence at @s (Unicode, table 3-7: no overlong forms, no surrogates),
 * or 0. */
static size_t utf8_sequence(const unsigned char *s, size_t n)
{
    unsigned char lo = 0x80;
    unsigned char hi = 0xbf;
    size_t len;

    if (s[0] < 0x80) {
        return 1;
    }
    if (s[0] < 0xc2 || s[0] > 0xf4) {
        return 0;
    }
    len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (len > n) {
        return 0;
    }
    switch (s[0]) {
    case 0xe0: lo = 0xa0; break;
    case 0xed: hi = 0x9f; break;
    case 0xf0: lo = 0x90; break;
    case 0xf4: hi = 0x8f; break;
    default: break;
    }
    if (s[1] < lo || s[1] > hi) {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return len;
}

bool json_utf8_valid(const unsigned char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = utf8_sequence(s + i, n - i);

        if (len == 0) {
            return false;
        }
        i += len;
    }
    return true;
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void json_base64_append(const unsigned char *p, size_t n, struct mr_buf *out)
{
    for (size_t i = 0; i < n; i += 3) {
        size_t left = MR_MIN(n - i, 3);
        uint32_t v = (uint32_t)p[i] << 16;
        char group[4];

        v |= left > 1 ? (uint32_t)p[i + 1] << 8 : 0;
        v |= left > 2 ? p[i + 2] : 0;
        group[0] = base64_digits[v >> 18];
        group[1] = base64_digits[v >> 12 & 63];
        group[2] = left > 1 ? base64_digits[v >> 6 & 63] : '=';
        group[3] = left > 2 ? base64_digits[v & 63] : '=';
        mr_buf_append(out, group, sizeof group);
    }
}

static int base64_value(char c)
{
    if (c == '-') {
        c = '+';
    }
    if (c == '_') {
        c = '/';
    }
    const char *at = c == '\0' ? NULL : strchr(base64_digits, c);
    return at == NULL ? -1 : (int)(at - base64_digits);
}

bool json_base64_decode(const char *s, size_t n, unsigned char *out, size_t *len)
{
    size_t written = 0;
    uint32_t bits = 0;
    unsigned n_bits = 0;

    if (n % 4 == 0) {
        for (int i = 0; i < 2 && n > 0 && s[n - 1] == '='; i++) {
            n--;
        }
    }
    if (n % 4 == 1) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        int v = base64_value(s[i]);

        if (v < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)v;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            out[written++] = (unsigned char)(bits >> n_bits);
            bits &= (1u << n_bits) - 1;
        }
    }
    if (bits != 0) {
        return false; /* Two texts for the same bytes would break comparisons of stored values. */
    }
    *len = written;
    return true;
}

size_t json_sizeof(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM: return 4;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    }
    MR_ASSERT(!"a field type that protobuf-c does not have");
    return 0;
}
