/* From JSON to a message: whatever is not as canonical.c likes it. */
#include "json/pbjson.h"

#include "base/limits.h"
#include "json/internal.h"

#include <float.h>
#include <jansson.h>
#include <math.h>

MR_AUTO_DEFINE(json_t, json_decref)

static int parse_message(const ProtobufCMessageDescriptor *desc, json_t *v,
                         const struct json_place *place, unsigned depth, ProtobufCMessage **ret,
                         mr_error *err);

static const char *kind_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
    }
    return "something else";
}

/* Sign and magnitude hold every value of every integer type. */
struct integer {
    bool negative;
    uint64_t magnitude;
};

static bool integer_from_text(const char *s, size_t n, struct integer *ret)
{
    uint64_t magnitude = 0;
    bool negative = n > 0 && s[0] == '-';
    size_t i = negative ? 1 : 0;

    if (i == n || n - i > 20) {
        return false;
    }
    for (; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' ||
            __builtin_mul_overflow(magnitude, UINT64_C(10), &magnitude) ||
            __builtin_add_overflow(magnitude, (uint64_t)(s[i] - '0'), &magnitude)) {
            return false;
        }
    }
    *ret = (struct integer){negative && magnitude > 0, magnitude};
    return true;
}

/* 1e3 and 5.0 are integers in canonical JSON; only as far as a double counts exactly. */
static bool integer_from_real(double d, struct integer *ret)
{
    if (!(fabs(d) <= 9007199254740992.0 /* 2^53 */) || d != trunc(d)) {
        return false;
    }
    *ret = (struct integer){d < 0, (uint64_t)fabs(d)};
    return true;
}

static int parse_integer(const json_t *v, const struct json_place *place, struct integer *ret,
                         mr_error *err)
{
    if (json_is_integer(v)) {
        json_int_t i = json_integer_value(v);

        *ret = (struct integer){i < 0, i < 0 ? 0 - (uint64_t)i : (uint64_t)i};
        return MR_OK;
    }
    if (json_is_real(v)) {
        if (integer_from_real(json_real_value(v), ret)) {
            return MR_OK;
        }
        return json_invalid(place, err, "%.17g is not an integer", json_real_value(v));
    }
    if (json_is_string(v)) {
        if (integer_from_text(json_string_value(v), json_string_length(v), ret)) {
            return MR_OK;
        }
        return json_invalid(place, err, "\"%.40s\" is not an integer", json_string_value(v));
    }
    return json_invalid(place, err, "%s instead of an integer", kind_of(v));
}

static int parse_signed(const json_t *v, const struct json_place *place, int64_t min, int64_t max,
                        int64_t *ret, mr_error *err)
{
    struct integer i = {0};

    MR_TRY(parse_integer(v, place, &i, err));
    if (i.magnitude > (i.negative ? 0 - (uint64_t)min : (uint64_t)max)) {
        return json_invalid(place, err, "%s%" PRIu64 " is not within %" PRId64 "..%" PRId64,
                            i.negative ? "-" : "", i.magnitude, min, max);
    }
    *ret = i.negative ? (int64_t)(0 - i.magnitude) : (int64_t)i.magnitude;
    return MR_OK;
}

static int parse_unsigned(const json_t *v, const struct json_place *place, uint64_t max,
                          uint64_t *ret, mr_error *err)
{
    struct integer i = {0};

    MR_TRY(parse_integer(v, place, &i, err));
    if (i.negative || i.magnitude > max) {
        return json_invalid(place, err, "%s%" PRIu64 " is not within 0..%" PRIu64,
                            i.negative ? "-" : "", i.magnitude, max);
    }
    *ret = i.magnitude;
    return MR_OK;
}

/* Numbers in strings go through jansson, which keeps to JSON's grammar in every locale. */
static bool real_from_text(const char *s, size_t n, double *ret)
{
    if (strcmp(s, "NaN") == 0) {
        *ret = (double)NAN;
    } else if (strcmp(s, "Infinity") == 0) {
        *ret = (double)INFINITY;
    } else if (strcmp(s, "-Infinity") == 0) {
        *ret = -(double)INFINITY;
    } else {
        json_t *v = json_loadb(s, n, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
        bool ok = json_is_real(v);

        if (ok) {
            *ret = json_real_value(v);
        }
        json_decref(v);
        return ok;
    }
    return true;
}

static int parse_real(const json_t *v, const struct json_place *place, double max, double *ret,
                      mr_error *err)
{
    double d = 0;

    if (json_is_number(v)) {
        d = json_number_value(v);
    } else if (json_is_string(v)) {
        if (!real_from_text(json_string_value(v), json_string_length(v), &d)) {
            return json_invalid(place, err, "\"%.40s\" is not a number", json_string_value(v));
        }
    } else {
        return json_invalid(place, err, "%s instead of a number", kind_of(v));
    }
    if (isfinite(d) && fabs(d) > max) {
        return json_invalid(place, err, "%.17g is out of range", d);
    }
    *ret = d;
    return MR_OK;
}

static int parse_enum(const ProtobufCEnumDescriptor *desc, const json_t *v,
                      const struct json_place *place, int *ret, mr_error *err)
{
    int64_t number;

    if (json_is_string(v)) {
        const ProtobufCEnumValue *e =
            protobuf_c_enum_descriptor_get_value_by_name(desc, json_string_value(v));

        if (e == NULL) {
            return json_invalid(place, err, "\"%.60s\" is not a value of %s", json_string_value(v),
                                desc->short_name);
        }
        *ret = e->value;
        return MR_OK;
    }
    MR_TRY(parse_signed(v, place, INT32_MIN, INT32_MAX, &number, err));
    *ret = (int)number;
    return MR_OK;
}

static int parse_string(const json_t *v, const struct json_place *place, char **ret, mr_error *err)
{
    if (!json_is_string(v)) {
        return json_invalid(place, err, "%s instead of a string", kind_of(v));
    }
    char *copy = mr_strndup(json_string_value(v), json_string_length(v));
    MR_CHECK_ALLOC(copy, err);
    *ret = copy;
    return MR_OK;
}

static int parse_bytes(const json_t *v, const struct json_place *place, ProtobufCBinaryData *ret,
                       mr_error *err)
{
    if (!json_is_string(v)) {
        return json_invalid(place, err, "%s instead of base64", kind_of(v));
    }
    size_t n = json_string_length(v);
    unsigned char *bytes = mr_malloc(n / 4 * 3 + 3);
    size_t len;

    MR_CHECK_ALLOC(bytes, err);
    if (!json_base64_decode(json_string_value(v), n, bytes, &len)) {
        mr_free(bytes);
        return json_invalid(place, err, "not base64");
    }
    if (len == 0) {
        mr_free(bytes); /* protobuf-c keeps nothing behind an empty value. */
        bytes = NULL;
    }
    ret->data = bytes;
    ret->len = len;
    return MR_OK;
}

/* Store @v as one value of field @f at @p; @p is untouched on failure. */
static int parse_value(const ProtobufCFieldDescriptor *f, json_t *v, const struct json_place *place,
                       unsigned depth, void *p, mr_error *err)
{
    int64_t i = 0;
    uint64_t u = 0;
    double d = 0;

    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        MR_TRY(parse_signed(v, place, INT32_MIN, INT32_MAX, &i, err));
        *(int32_t *)p = (int32_t)i;
        return MR_OK;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        MR_TRY(parse_unsigned(v, place, UINT32_MAX, &u, err));
        *(uint32_t *)p = (uint32_t)u;
        return MR_OK;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64: return parse_signed(v, place, INT64_MIN, INT64_MAX, p, err);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: return parse_unsigned(v, place, UINT64_MAX, p, err);
    case PROTOBUF_C_TYPE_FLOAT:
        MR_TRY(parse_real(v, place, (double)FLT_MAX, &d, err));
        *(float *)p = (float)d;
        return MR_OK;
    case PROTOBUF_C_TYPE_DOUBLE: return parse_real(v, place, DBL_MAX, p, err);
    case PROTOBUF_C_TYPE_BOOL:
        if (!json_is_boolean(v)) {
            return json_invalid(place, err, "%s instead of true or false", kind_of(v));
        }
        *(protobuf_c_boolean *)p = json_is_true(v);
        return MR_OK;
    case PROTOBUF_C_TYPE_ENUM: return parse_enum(f->descriptor, v, place, p, err);
    case PROTOBUF_C_TYPE_STRING: return parse_string(v, place, p, err);
    case PROTOBUF_C_TYPE_BYTES: return parse_bytes(v, place, p, err);
    case PROTOBUF_C_TYPE_MESSAGE: return parse_message(f->descriptor, v, place, depth + 1, p, err);
    }
    return json_invalid(place, err, "field type %d is not known", (int)f->type);
}

/* The array and its count are always consistent, so that the message can be freed after any
 * failure. */
static int parse_repeated(const ProtobufCFieldDescriptor *f, json_t *v, struct json_place *place,
                          unsigned depth, ProtobufCMessage *msg, mr_error *err)
{
    size_t *count = json_at(msg, f->quantifier_offset);
    size_t size = json_sizeof(f->type);
    size_t n = json_array_size(v);
    char *values;

    if (!json_is_array(v)) {
        return json_invalid(place, err, "%s instead of an array", kind_of(v));
    }
    if (n == 0) {
        return MR_OK;
    }
    values = mr_calloc(n, size);
    MR_CHECK_ALLOC(values, err);
    *(char **)json_at(msg, f->offset) = values;
    place->indexed = true;
    for (size_t i = 0; i < n; i++) {
        place->index = i;
        MR_TRY(parse_value(f, json_array_get(v, i), place, depth, values + i * size, err));
        *count = i + 1;
    }
    return MR_OK;
}

static int parse_single(const ProtobufCFieldDescriptor *f, json_t *v,
                        const struct json_place *place, unsigned depth, ProtobufCMessage *msg,
                        mr_error *err)
{
    uint32_t *which = json_at(msg, f->quantifier_offset); /* of a oneof */

    if (json_in_oneof(f) && *which != 0) {
        const ProtobufCFieldDescriptor *other =
            protobuf_c_message_descriptor_get_field(msg->descriptor, *which);
        return json_invalid(place, err, "'%s' is given too, and only one of the two may be",
                            other == NULL ? "?" : other->name);
    }
    MR_TRY(parse_value(f, v, place, depth, json_at(msg, f->offset), err));
    if (json_in_oneof(f)) {
        *which = f->id;
    }
    return MR_OK;
}

/* The member for field @f of @object under either of its names; found ones are removed from
 * @rest. */
static int take_member(const ProtobufCFieldDescriptor *f, json_t *object, json_t *rest,
                       const struct json_place *place, json_t **ret, mr_error *err)
{
    struct mr_buf camel = MR_BUF_INIT;
    json_t *by_camel;
    json_t *by_name;
    int rc = MR_OK;

    json_camel_append(f->name, &camel);
    if (camel.failed) {
        return mr_error_nomem(err);
    }
    by_camel = json_object_get(object, (const char *)camel.data);
    by_name = json_object_get(object, f->name);
    if (by_camel != NULL && by_name != NULL && strcmp((const char *)camel.data, f->name) != 0) {
        rc = json_invalid(place, err, "given twice, as '%s' and '%s'", (const char *)camel.data,
                          f->name);
        goto out;
    }
    (void)json_object_del(rest, (const char *)camel.data);
    (void)json_object_del(rest, f->name);
    *ret = by_camel != NULL ? by_camel : by_name;

out:
    mr_buf_free(&camel);
    return rc;
}

static int parse_field(const ProtobufCFieldDescriptor *f, json_t *object, json_t *rest,
                       const struct json_place *up, unsigned depth, ProtobufCMessage *msg,
                       mr_error *err)
{
    struct json_place place = {.up = up, .name = f->name};
    json_t *v = NULL;
    int rc = take_member(f, object, rest, &place, &v, err);

    if (rc < 0 || v == NULL || json_is_null(v)) {
        return rc;
    }
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        return parse_repeated(f, v, &place, depth, msg, err);
    }
    return parse_single(f, v, &place, depth, msg, err);
}

/* Hang @rest (members that no field took) onto @msg, in the form of a length-delimited field. */
static int keep_unknown(json_t *rest, ProtobufCMessage *msg, mr_error *err)
{
    char *text = NULL;
    struct mr_buf data = MR_BUF_INIT;
    ProtobufCMessageUnknownField *unknown = NULL;
    int rc = MR_OK;

    if (json_object_size(rest) == 0) {
        return MR_OK;
    }
    text = json_dumps(rest, JSON_COMPACT);
    unknown = mr_calloc(1, sizeof *unknown);
    if (text == NULL || unknown == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    for (size_t v = strlen(text);; v >>= 7) {
        uint8_t byte = (uint8_t)(v > 127 ? (v & 127) | 128 : v);

        mr_buf_append(&data, &byte, 1);
        if (v <= 127) {
            break;
        }
    }
    mr_buf_puts(&data, text);
    if (data.failed) {
        rc = mr_error_nomem(err);
        goto out;
    }
    unknown->tag = MR_PBJSON_UNKNOWN_TAG;
    unknown->wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    unknown->data = mr_buf_take(&data, &unknown->len);
    msg->unknown_fields = unknown;
    msg->n_unknown_fields = 1;
    unknown = NULL;

out:
    free(text); /* jansson's */
    mr_buf_free(&data);
    mr_free(unknown);
    return rc;
}

static int parse_members(const ProtobufCMessageDescriptor *desc, json_t *object,
                         const struct json_place *place, unsigned depth, ProtobufCMessage *msg,
                         mr_error *err)
{
    MR_AUTO(json_decref) json_t *rest = json_copy(object);

    MR_CHECK_ALLOC(rest, err);
    for (unsigned i = 0; i < desc->n_fields; i++) {
        MR_TRY(parse_field(&desc->fields[i], object, rest, place, depth, msg, err));
    }
    return keep_unknown(rest, msg, err);
}

static int parse_message(const ProtobufCMessageDescriptor *desc, json_t *v,
                         const struct json_place *place, unsigned depth, ProtobufCMessage **ret,
                         mr_error *err)
{
    ProtobufCMessage *msg;
    int rc;

    if (!json_is_object(v)) {
        return json_invalid(place, err, "%s instead of an object", kind_of(v));
    }
    if (depth > MR_PBJSON_DEPTH_MAX) {
        return json_invalid(place, err, "messages nested deeper than %d", MR_PBJSON_DEPTH_MAX);
    }
    msg = mr_calloc(1, desc->sizeof_message);
    MR_CHECK_ALLOC(msg, err);
    protobuf_c_message_init(desc, msg);
    rc = parse_members(desc, v, place, depth, msg, err);
    if (rc < 0) {
        protobuf_c_message_free_unpacked(msg, NULL);
        return rc;
    }
    *ret = msg;
    return MR_OK;
}

int mr_pbjson_parse(const ProtobufCMessageDescriptor *desc, const char *json, size_t len,
                    ProtobufCMessage **ret, mr_error *err)
{
    struct json_place top = {.up = NULL};
    json_error_t why;
    int rc = json_parse_canonical(desc, json, len, ret);

    if (rc != MR_EINVAL) {
        return rc < 0 ? mr_error_nomem(err) : rc;
    }
    MR_AUTO(json_decref) json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL) {
        if (json_error_code(&why) == json_error_out_of_memory) {
            return mr_error_nomem(err);
        }
        return mr_error_set(err, MR_EINVAL, "not JSON: line %d, column %d: %s", why.line,
                            why.column, why.text);
    }
    return parse_message(desc, root, &top, 0 /* depth */, ret, err);
}
