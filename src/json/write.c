/* From a message to JSON. */
#include "json/pbjson.h"

#include "base/limits.h"
#include "json/internal.h"

#include <jansson.h>
#include <math.h>

static int write_message(const ProtobufCMessage *msg, const struct json_place *place,
                         unsigned depth, struct mr_buf *out, mr_error *err);

static int write_string(const char *s, const struct json_place *place, struct mr_buf *out,
                        mr_error *err)
{
    size_t n = strlen(s);
    size_t plain = 0; /* start of the run that needs no escape */

    if (!json_utf8_valid((const unsigned char *)s, n)) {
        return json_invalid(place, err, "not UTF-8");
    }
    mr_buf_puts(out, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            continue;
        }
        mr_buf_append(out, s + plain, i - plain);
        plain = i + 1;
        if (c == '"' || c == '\\') {
            mr_buf_printf(out, "\\%c", c);
        } else if (c == '\n') {
            mr_buf_puts(out, "\\n");
        } else {
            mr_buf_printf(out, "\\u%04x", c);
        }
    }
    mr_buf_append(out, s + plain, n - plain);
    mr_buf_puts(out, "\"");
    return MR_OK;
}

/* The shortest decimal that reads back as the same number, whatever the locale's decimal point
 * is. */
static void write_real(double v, bool single, struct mr_buf *out)
{
    char text[40];

    if (isnan(v)) {
        mr_buf_puts(out, "\"NaN\"");
        return;
    }
    if (isinf(v)) {
        mr_buf_puts(out, v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
        return;
    }
    if (v == 0 && signbit(v)) {
        mr_buf_puts(out,
                    "-0.0"); /* "-0" is an integer to many parsers, and those have one zero only. */
        return;
    }
    for (int digits = single ? 6 : 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, v);
        bool same = single ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v;
        if (same) {
            break;
        }
    }
    size_t whole = strspn(text, "-0123456789");
    const char *rest =
        text + whole + strcspn(text + whole, "e0123456789"); /* past the locale's decimal point */
    mr_buf_append(out, text, whole);
    mr_buf_puts(out, rest > text + whole ? "." : "");
    mr_buf_puts(out, rest);
}

static int write_enum(const ProtobufCEnumDescriptor *desc, int value,
                      const struct json_place *place, struct mr_buf *out, mr_error *err)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(desc, value);

    if (v == NULL) {
        mr_buf_printf(out, "%d", value); /* From a newer program; canonical JSON says so too. */
        return MR_OK;
    }
    return write_string(v->name, place, out, err);
}

static int write_value(const ProtobufCFieldDescriptor *f, const void *p,
                       const struct json_place *place, unsigned depth, struct mr_buf *out,
                       mr_error *err)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        mr_buf_printf(out, "%" PRId32, *(const int32_t *)p);
        return MR_OK;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        mr_buf_printf(out, "%" PRIu32, *(const uint32_t *)p);
        return MR_OK;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        mr_buf_printf(out, "\"%" PRId64 "\"", *(const int64_t *)p);
        return MR_OK;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        mr_buf_printf(out, "\"%" PRIu64 "\"", *(const uint64_t *)p);
        return MR_OK;
    case PROTOBUF_C_TYPE_FLOAT:
        write_real((double)*(const float *)p, true /* single */, out);
        return MR_OK;
    case PROTOBUF_C_TYPE_DOUBLE:
        write_real(*(const double *)p, false /* single */, out);
        return MR_OK;
    case PROTOBUF_C_TYPE_BOOL:
        mr_buf_puts(out, *(const protobuf_c_boolean *)p ? "true" : "false");
        return MR_OK;
    case PROTOBUF_C_TYPE_ENUM: return write_enum(f->descriptor, *(const int *)p, place, out, err);
    case PROTOBUF_C_TYPE_STRING: {
        const char *s = *(char *const *)p;
        return write_string(s == NULL ? "" : s, place, out, err);
    }
    case PROTOBUF_C_TYPE_BYTES: {
        const ProtobufCBinaryData *b = p;
        mr_buf_puts(out, "\"");
        json_base64_append(b->data, b->len, out);
        mr_buf_puts(out, "\"");
        return MR_OK;
    }
    case PROTOBUF_C_TYPE_MESSAGE:
        return write_message(*(ProtobufCMessage *const *)p, place, depth + 1, out, err);
    }
    return json_invalid(place, err, "field type %d is not known", (int)f->type);
}

static bool is_zero(const void *p, size_t n)
{
    static const char zero[8];

    return memcmp(p, zero, n) == 0; /* bit by bit: -0.0 is not the default */
}

/* Whether a field that is not repeated is to be written. */
static bool is_present(const ProtobufCMessage *msg, const ProtobufCFieldDescriptor *f)
{
    const void *p = json_at_const(msg, f->offset);

    if (json_in_oneof(f) && *(const uint32_t *)json_at_const(msg, f->quantifier_offset) != f->id) {
        return false;
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        return *(ProtobufCMessage *const *)p != NULL;
    }
    if (json_in_oneof(f)) {
        return true;
    }
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        const char *s = *(char *const *)p;
        return s != NULL && *s != '\0';
    }
    if (f->type == PROTOBUF_C_TYPE_BYTES) {
        return ((const ProtobufCBinaryData *)p)->len > 0;
    }
    return !is_zero(p, json_sizeof(f->type));
}

static int write_repeated(const ProtobufCMessage *msg, const ProtobufCFieldDescriptor *f,
                          struct json_place *place, unsigned depth, struct mr_buf *out,
                          mr_error *err)
{
    size_t n = *(const size_t *)json_at_const(msg, f->quantifier_offset);
    const char *values = *(char *const *)json_at_const(msg, f->offset);

    mr_buf_puts(out, "[");
    place->indexed = true;
    for (size_t i = 0; i < n; i++) {
        place->index = i;
        if (i > 0) {
            mr_buf_puts(out, ",");
        }
        MR_TRY(write_value(f, values + i * json_sizeof(f->type), place, depth, out, err));
    }
    mr_buf_puts(out, "]");
    return MR_OK;
}

static int write_field(const ProtobufCMessage *msg, const ProtobufCFieldDescriptor *f,
                       const struct json_place *up, unsigned depth, bool *first, struct mr_buf *out,
                       mr_error *err)
{
    struct json_place place = {.up = up, .name = f->name};
    bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;

    if (repeated ? *(const size_t *)json_at_const(msg, f->quantifier_offset) == 0
                 : !is_present(msg, f)) {
        return MR_OK;
    }
    mr_buf_puts(out, *first ? "\"" : ",\"");
    *first = false;
    json_camel_append(f->name, out);
    mr_buf_puts(out, "\":");
    if (repeated) {
        return write_repeated(msg, f, &place, depth, out, err);
    }
    return write_value(f, json_at_const(msg, f->offset), &place, depth, out, err);
}

static bool is_known(const ProtobufCMessageDescriptor *desc, const char *key)
{
    struct mr_buf camel = MR_BUF_INIT;
    bool known = false;

    for (unsigned i = 0; i < desc->n_fields && !known; i++) {
        mr_buf_clear(&camel);
        json_camel_append(desc->fields[i].name, &camel);
        known = strcmp(desc->fields[i].name, key) == 0 ||
                (camel.data != NULL && strcmp((char *)camel.data, key) == 0);
    }
    mr_buf_free(&camel);
    return known;
}

/* Past the length in front of a length-delimited field; 0 if there is no valid one. */
static size_t skip_length(const ProtobufCMessageUnknownField *u)
{
    size_t i = 0;

    while (i < u->len && i < 5) {
        if ((u->data[i++] & 0x80) == 0) {
            return i;
        }
    }
    return 0;
}

/* Members that no field was found for when the message was parsed. A message that came in binary
 * form may hold anything under our private number: what is not an object, or would repeat a member,
 * is left out. */
static void write_unknown(const ProtobufCMessage *msg, const ProtobufCMessageUnknownField *u,
                          bool *first, struct mr_buf *out)
{
    size_t skip = skip_length(u);
    json_t *members = NULL;
    const char *key;
    json_t *value;

    if (u->tag == MR_PBJSON_UNKNOWN_TAG && u->wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED &&
        skip > 0) {
        members =
            json_loadb((const char *)u->data + skip, u->len - skip, JSON_REJECT_DUPLICATES, NULL);
    }
    json_object_foreach(members, key, value)
    {
        json_t *one = NULL;
        char *text = NULL;

        if (!is_known(msg->descriptor, key)) {
            one = json_pack("{sO}", key, value);
            text = one == NULL ? NULL : json_dumps(one, JSON_COMPACT);
            if (text == NULL) {
                out->failed = true; /* Memory: the text was JSON a moment ago. */
            } else {
                mr_buf_puts(out, *first ? "" : ",");
                mr_buf_append(out, text + 1, strlen(text) - 2 /* braces */);
                *first = false;
            }
        }
        free(text);
        json_decref(one);
    }
    json_decref(members);
}

static int write_message(const ProtobufCMessage *msg, const struct json_place *place,
                         unsigned depth, struct mr_buf *out, mr_error *err)
{
    bool first = true;
    bool had_unknown = false;

    if (msg == NULL) {
        return json_invalid(place, err, "no message");
    }
    if (depth > MR_PBJSON_DEPTH_MAX) {
        return json_invalid(place, err, "messages nested deeper than %d", MR_PBJSON_DEPTH_MAX);
    }
    mr_buf_puts(out, "{");
    for (unsigned i = 0; i < msg->descriptor->n_fields; i++) {
        MR_TRY(write_field(msg, &msg->descriptor->fields[i], place, depth, &first, out, err));
    }
    for (unsigned i = 0; i < msg->n_unknown_fields && !had_unknown; i++) {
        had_unknown = msg->unknown_fields[i].tag == MR_PBJSON_UNKNOWN_TAG;
        write_unknown(msg, &msg->unknown_fields[i], &first, out);
    }
    mr_buf_puts(out, "}");
    return MR_OK;
}

int mr_pbjson_write(const ProtobufCMessage *msg, char **ret, size_t *len, mr_error *err)
{
    struct mr_buf out = MR_BUF_INIT;
    struct json_place top = {.up = NULL};
    int rc = write_message(msg, &top, 0 /* depth */, &out, err);

    if (rc == MR_OK) {
        char *text = mr_buf_take(&out, len);

        if (text == NULL) {
            rc = mr_error_nomem(err);
        } else {
            *ret = text;
        }
    }
    mr_buf_free(&out);
    return rc;
}
