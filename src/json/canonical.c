/* From JSON to a message, if the text has the very form that mr_pbjson_write() gives it: no spaces,
 * no escapes, ASCII, members in order of their numbers and all of them known. That is what a
 * takeover reads, tens of thousands of values at a stretch, and it needs neither a tree nor a
 * lookup. Whatever looks any different, wrong values included, is left to parse.c: nothing is
 * accepted here that it would refuse, or read in another way. */
#include "json/internal.h"

#include "base/limits.h"
#include "json/pbjson.h"

#define DIGITS_MAX 20 /* of 2^64 - 1 */

struct cursor {
    const char *at;
    const char *end;
};

static bool skip(struct cursor *c, char expected)
{
    if (c->at == c->end || *c->at != expected) {
        return false;
    }
    c->at++;
    return true;
}

/* A string without escapes: what is between the quotes. */
static bool take_text(struct cursor *c, const char **text, size_t *n)
{
    if (!skip(c, '"')) {
        return false;
    }
    *text = c->at;
    while (c->at != c->end && *c->at >= ' ' && *c->at <= '~' && *c->at != '"' && *c->at != '\\') {
        c->at++;
    }
    *n = (size_t)(c->at - *text);
    return skip(c, '"');
}

/* Sign and digits, as both a number and a string may have them. */
static bool take_digits(struct cursor *c, bool *negative, uint64_t *magnitude)
{
    const char *first;
    uint64_t v = 0;

    *negative = skip(c, '-');
    first = c->at;
    for (; c->at != c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (__builtin_mul_overflow(v, UINT64_C(10), &v) ||
            __builtin_add_overflow(v, (uint64_t)(*c->at - '0'), &v)) {
            return false;
        }
    }
    *magnitude = v;
    return c->at > first && c->at - first <= DIGITS_MAX && (*first != '0' || c->at == first + 1);
}

static bool take_signed(struct cursor *c, int64_t min, int64_t max, int64_t *ret)
{
    uint64_t magnitude;
    bool negative;

    if (!take_digits(c, &negative, &magnitude) ||
        magnitude > (negative ? 0 - (uint64_t)min : (uint64_t)max)) {
        return false;
    }
    *ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

static bool take_unsigned(struct cursor *c, uint64_t max, uint64_t *ret)
{
    bool negative;

    return take_digits(c, &negative, ret) && !negative && *ret <= max;
}

static bool take_word(struct cursor *c, const char *word, size_t n)
{
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) {
        return false;
    }
    c->at += n;
    return true;
}

static bool take_bool(struct cursor *c, protobuf_c_boolean *ret)
{
    if (take_word(c, "true", 4)) {
        *ret = true;
        return true;
    }
    *ret = false;
    return take_word(c, "false", 5);
}

static bool take_enum(struct cursor *c, const ProtobufCEnumDescriptor *desc, int *ret)
{
    const char *text;
    size_t n;

    if (!take_text(c, &text, &n)) {
        return false;
    }
    for (unsigned i = 0; i < desc->n_values; i++) {
        if (strncmp(desc->values[i].name, text, n) == 0 && desc->values[i].name[n] == '\0') {
            *ret = desc->values[i].value;
            return true;
        }
    }
    return false;
}

/* From here on: MR_OK, MR_EINVAL (not this form), or MR_EEXHAUSTED. */

static int take_string(struct cursor *c, char **ret)
{
    const char *text;
    size_t n;

    if (!take_text(c, &text, &n)) {
        return MR_EINVAL;
    }
    char *copy = mr_strndup(text, n);

    if (copy == NULL) {
        return MR_EEXHAUSTED;
    }
    *ret = copy;
    return MR_OK;
}

static int take_bytes(struct cursor *c, ProtobufCBinaryData *ret)
{
    const char *text;
    unsigned char *bytes;
    size_t n, len;

    if (!take_text(c, &text, &n) || n == 0) {
        return MR_EINVAL;
    }
    bytes = mr_malloc(n / 4 * 3 + 3);
    if (bytes == NULL) {
        return MR_EEXHAUSTED;
    }
    if (!json_base64_decode(text, n, bytes, &len) || len == 0) {
        mr_free(bytes);
        return MR_EINVAL;
    }
    *ret = (ProtobufCBinaryData){.data = bytes, .len = len};
    return MR_OK;
}

static int take_message(const ProtobufCMessageDescriptor *desc, struct cursor *c, unsigned depth,
                        ProtobufCMessage **ret);

/* One value of field @f, stored at @p; @p is untouched on failure, as far as freeing the message
 * goes. */
static int take_value(const ProtobufCFieldDescriptor *f, struct cursor *c, unsigned depth, void *p)
{
    int64_t i = 0;
    uint64_t u = 0;
    bool ok = false;

    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        ok = take_signed(c, INT32_MIN, INT32_MAX, &i);
        *(int32_t *)p = (int32_t)i;
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        ok = take_unsigned(c, UINT32_MAX, &u);
        *(uint32_t *)p = (uint32_t)u;
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        ok = skip(c, '"') && take_signed(c, INT64_MIN, INT64_MAX, p) && skip(c, '"');
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        ok = skip(c, '"') && take_unsigned(c, UINT64_MAX, p) && skip(c, '"');
        break;
    case PROTOBUF_C_TYPE_BOOL: ok = take_bool(c, p); break;
    case PROTOBUF_C_TYPE_ENUM: ok = take_enum(c, f->descriptor, p); break;
    case PROTOBUF_C_TYPE_STRING: return take_string(c, p);
    case PROTOBUF_C_TYPE_BYTES: return take_bytes(c, p);
    case PROTOBUF_C_TYPE_MESSAGE: return take_message(f->descriptor, c, depth + 1, p);
    case PROTOBUF_C_TYPE_FLOAT: /* rare, and full of cases: parse.c has them */
    case PROTOBUF_C_TYPE_DOUBLE: break;
    }
    return ok ? MR_OK : MR_EINVAL;
}

/* Room for @n + 1 values, when there are @n: twice as many whenever they reach a power of two. */
static int make_room(char **values, size_t n, size_t size)
{
    if ((n & (n - 1)) != 0) {
        return MR_OK;
    }
    char *more = mr_reallocarray(*values, n == 0 ? 1 : 2 * n, size);

    if (more == NULL) {
        return MR_EEXHAUSTED;
    }
    *values = more;
    return MR_OK;
}

static int take_repeated(const ProtobufCFieldDescriptor *f, struct cursor *c, unsigned depth,
                         ProtobufCMessage *msg)
{
    char **values = json_at(msg, f->offset);
    size_t *count = json_at(msg, f->quantifier_offset);
    size_t size = json_sizeof(f->type);

    if (!skip(c, '[')) {
        return MR_EINVAL;
    }
    do {
        MR_TRY(make_room(values, *count, size));
        MR_TRY(take_value(f, c, depth, *values + *count * size));
        ++*count;
    } while (skip(c, ','));
    return skip(c, ']') ? MR_OK : MR_EINVAL;
}

static int take_single(const ProtobufCFieldDescriptor *f, struct cursor *c, unsigned depth,
                       ProtobufCMessage *msg)
{
    uint32_t *which = json_at(msg, f->quantifier_offset); /* of a oneof */

    if (json_in_oneof(f) && *which != 0) {
        return MR_EINVAL;
    }
    MR_TRY(take_value(f, c, depth, json_at(msg, f->offset)));
    if (json_in_oneof(f)) {
        *which = f->id;
    }
    return MR_OK;
}

/* Is @text the JSON name of a field that is called @name? */
static bool is_camel_of(const char *name, const char *text, size_t n)
{
    const char *end = text + n;
    bool upper = false;

    for (; *name != '\0'; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        char expected = upper && *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;

        if (text == end || *text != expected) {
            return false;
        }
        text++;
        upper = false;
    }
    return text == end;
}

static int take_members(const ProtobufCMessageDescriptor *desc, struct cursor *c, unsigned depth,
                        ProtobufCMessage *msg)
{
    unsigned i = 0;

    do {
        const char *name;
        size_t n;

        if (!take_text(c, &name, &n) || !skip(c, ':')) {
            return MR_EINVAL;
        }
        while (i < desc->n_fields && !is_camel_of(desc->fields[i].name, name, n)) {
            i++;
        }
        if (i == desc->n_fields) {
            return MR_EINVAL; /* unknown, out of order or given twice */
        }
        const ProtobufCFieldDescriptor *f = &desc->fields[i++];

        MR_TRY(f->label == PROTOBUF_C_LABEL_REPEATED ? take_repeated(f, c, depth, msg)
                                                     : take_single(f, c, depth, msg));
    } while (skip(c, ','));
    return skip(c, '}') ? MR_OK : MR_EINVAL;
}

static int take_message(const ProtobufCMessageDescriptor *desc, struct cursor *c, unsigned depth,
                        ProtobufCMessage **ret)
{
    ProtobufCMessage *msg;

    if (depth > MR_PBJSON_DEPTH_MAX || !skip(c, '{')) {
        return MR_EINVAL;
    }
    msg = mr_calloc(1, desc->sizeof_message);
    if (msg == NULL) {
        return MR_EEXHAUSTED;
    }
    protobuf_c_message_init(desc, msg);
    int rc = skip(c, '}') ? MR_OK : take_members(desc, c, depth, msg);

    if (rc < 0) {
        protobuf_c_message_free_unpacked(msg, NULL);
        return rc;
    }
    *ret = msg;
    return MR_OK;
}

int json_parse_canonical(const ProtobufCMessageDescriptor *desc, const char *json, size_t len,
                         ProtobufCMessage **ret)
{
    struct cursor c = {.at = json, .end = json + len};
    ProtobufCMessage *msg;
    int rc = take_message(desc, &c, 0 /* depth */, &msg);

    if (rc == MR_OK && c.at != c.end) {
        protobuf_c_message_free_unpacked(msg, NULL);
        rc = MR_EINVAL;
    }
    MR_TRY(rc);
    *ret = msg;
    return MR_OK;
}
