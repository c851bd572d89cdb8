#include "ops/tensor_wire.h"

#include "base/limits.h"
#include "ops/attr.h"
#include "ops/wire.h"

/* What messages call a dtype, and the field of its values. */
struct wire_dtype {
    uint8_t type;
    uint8_t field;
    uint8_t parts; /* values of that field in one of the dtype */
};

static const struct wire_dtype wire_dtypes[MR_DTYPE_COUNT] = {
    [MR_FLOAT32] = {1, 5, 1},      [MR_FLOAT64] = {2, 6, 1},    [MR_INT32] = {3, 7, 1},
    [MR_UINT8] = {4, 7, 1},        [MR_INT16] = {5, 7, 1},      [MR_INT8] = {6, 7, 1},
    [MR_STRING] = {7, 8, 1},       [MR_COMPLEX64] = {8, 9, 2},  [MR_INT64] = {9, 10, 1},
    [MR_BOOL] = {10, 11, 1},       [MR_BFLOAT16] = {14, 13, 1}, [MR_UINT16] = {17, 7, 1},
    [MR_COMPLEX128] = {18, 12, 2}, [MR_FLOAT16] = {19, 13, 1},  [MR_UINT32] = {22, 16, 1},
    [MR_UINT64] = {23, 17, 1},
};

/* How the values of a field are written, one by one. */
#define FIELDS 18
#define NOT_VALUES 0xff
static const uint8_t value_types[FIELDS] = {
    NOT_VALUES, NOT_VALUES,     NOT_VALUES,    NOT_VALUES, NOT_VALUES,     MR_WIRE_32,
    MR_WIRE_64, MR_WIRE_VARINT, MR_WIRE_BYTES, MR_WIRE_32, MR_WIRE_VARINT, MR_WIRE_VARINT,
    MR_WIRE_64, MR_WIRE_VARINT, NOT_VALUES,    NOT_VALUES, MR_WIRE_VARINT, MR_WIRE_VARINT,
};

uint32_t mr_tensor_wire_type(unsigned dtype)
{
    return dtype < MR_DTYPE_COUNT ? wire_dtypes[dtype].type : 0;
}

static bool find_dtype(uint64_t type, uint8_t *ret)
{
    for (unsigned d = 0; d < MR_DTYPE_COUNT; d++) {
        if (wire_dtypes[d].type != 0 && wire_dtypes[d].type == type) {
            *ret = (uint8_t)d;
            return true;
        }
    }
    return false;
}

/* ---- values of a field ---- */

/* Receives values: @room of them go to @out, each of @width bytes. */
struct sink {
    unsigned char *out;
    size_t width;
    uint64_t room;
    uint64_t count;
    struct mr_string last; /* of strings */
    bool is_bool;
};

static void put(struct sink *s, const void *value)
{
    if (s->count < s->room && s->out != NULL) {
        memcpy(s->out + s->count * s->width, value, s->width);
    }
    s->count++;
}

/* Little-endian hosts only: the low bytes come first. */
static void put_varint(struct sink *s, uint64_t v)
{
    v = s->is_bool ? v != 0 : v;
    put(s, &v);
}

static bool put_packed(struct sink *s, unsigned type, struct mr_string packed)
{
    struct mr_wire r = mr_wire_open(packed);
    size_t size = type == MR_WIRE_64 ? 8 : 4;
    uint64_t v;

    if (type != MR_WIRE_VARINT) {
        for (size_t at = 0; at + size <= packed.size; at += size) {
            put(s, packed.data + at);
        }
        return packed.size % size == 0;
    }
    while (r.at < r.end) {
        if (!mr_wire_varint(&r, &v)) {
            return false;
        }
        put_varint(s, v);
    }
    return true;
}

/* What @f, whose values have @type, holds. A field of another type is one that nobody knows. */
static bool put_field(struct sink *s, unsigned type, const struct mr_wire_field *f)
{
    if (type == MR_WIRE_BYTES) {
        if (f->type == MR_WIRE_BYTES) {
            s->last = s->count < s->room ? f->bytes : s->last;
            put(s, &f->bytes);
        }
        return true;
    }
    if (f->type == MR_WIRE_BYTES) {
        return put_packed(s, type, f->bytes);
    }
    if (f->type == type && type == MR_WIRE_VARINT) {
        put_varint(s, f->varint);
    } else if (f->type == type) {
        put(s, f->bytes.data);
    }
    return true;
}

/* The values of @t that fields hold; mr_tensor_wire_read() has read all fields. */
static void put_all(const struct mr_tensor_wire *t, struct sink *s)
{
    struct mr_wire r = mr_wire_open(t->message);
    unsigned number = wire_dtypes[t->dtype].field;
    struct mr_wire_field f;

    while (r.at < r.end && mr_wire_field_next(&r, &f)) {
        if (f.number == number) {
            (void)put_field(s, value_types[number], &f);
        }
    }
}

/* ---- the message ---- */

static int bad_field(struct mr_string message, const struct mr_wire *r, mr_error *err)
{
    size_t at = message.data == NULL || r->at == NULL ? 0 : (size_t)(r->at - message.data);

    return mr_error_set(err, MR_EINVAL, "not a TensorProto: bad field near byte %zu of %zu", at,
                        message.size);
}

static bool read_dim(struct mr_string dim, int64_t *ret)
{
    struct mr_wire r = mr_wire_open(dim);
    struct mr_wire_field f;

    *ret = 0;
    while (r.at < r.end) {
        if (!mr_wire_field_next(&r, &f)) {
            return false;
        }
        if (f.number == 1 && f.type == MR_WIRE_VARINT) {
            *ret = (int64_t)f.varint;
        }
    }
    return true;
}

/* The dims of one message tensor_shape; several are one. */
static int read_shape(struct mr_string shape, struct mr_tensor_wire *t, bool *unknown,
                      mr_error *err)
{
    struct mr_wire r = mr_wire_open(shape);
    struct mr_wire_field f;
    int64_t dim;

    while (r.at < r.end) {
        if (!mr_wire_field_next(&r, &f)) {
            return bad_field(t->message, &r, err);
        }
        if (f.number == 3 && f.type == MR_WIRE_VARINT) {
            *unknown = f.varint != 0;
        }
        if (f.number != 2 || f.type != MR_WIRE_BYTES) {
            continue;
        }
        if (!read_dim(f.bytes, &dim)) {
            return bad_field(t->message, &r, err);
        }
        if (dim < 0) {
            return mr_error_set(err, MR_EINVAL, "the TensorProto has a size of %lld",
                                (long long)dim);
        }
        if (t->rank == MR_RANK_MAX) {
            return mr_error_set(err, MR_EINVAL, "the TensorProto has more than %d axes",
                                MR_RANK_MAX);
        }
        t->dims[t->rank++] = dim;
    }
    return MR_OK;
}

static int read_fields(struct mr_tensor_wire *t, uint32_t *type, bool *unknown, mr_error *err)
{
    struct mr_wire r = mr_wire_open(t->message);
    struct mr_wire_field f;

    while (r.at < r.end) {
        struct sink nowhere = {0};

        if (!mr_wire_field_next(&r, &f)) {
            return bad_field(t->message, &r, err);
        }
        if (f.number == 1 && f.type == MR_WIRE_VARINT) {
            *type = (uint32_t)f.varint;
        } else if (f.number == 2 && f.type == MR_WIRE_BYTES) {
            MR_TRY(read_shape(f.bytes, t, unknown, err));
        } else if (f.number == 4 && f.type == MR_WIRE_BYTES) {
            t->content = f.bytes;
        } else if (f.number < FIELDS && value_types[f.number] != NOT_VALUES &&
                   !put_field(&nowhere, value_types[f.number], &f)) {
            return bad_field(t->message, &r, err);
        }
    }
    return MR_OK;
}

/* Content of strings: how long each is, then their bytes. False: it is not of @count. To @out if
 * that is not NULL. */
static bool read_strings(struct mr_string content, uint64_t count, struct mr_string *out)
{
    struct mr_wire r = mr_wire_open(content);
    struct mr_wire lengths = r;
    uint64_t total = 0;
    uint64_t n;

    for (uint64_t i = 0; i < count; i++) {
        if (!mr_wire_varint(&r, &n) || __builtin_add_overflow(total, n, &total)) {
            return false;
        }
    }
    if (total != (uint64_t)(r.end - r.at)) {
        return false;
    }
    for (uint64_t i = 0; out != NULL && i < count; i++) {
        (void)(mr_wire_varint(&lengths, &n) && mr_wire_bytes(&r, n, &out[i]));
    }
    return true;
}

static int check_content(const struct mr_tensor_wire *t, mr_error *err)
{
    if (t->dtype == MR_STRING) {
        return read_strings(t->content, t->count, NULL)
                   ? MR_OK
                   : mr_error_set(err, MR_EINVAL, "tensor_content is not of %llu strings",
                                  (unsigned long long)t->count);
    }
    uint64_t want = t->count * mr_dtype_size((mr_dtype)t->dtype);
    if (t->content.size != want) {
        return mr_error_set(err, MR_EINVAL, "tensor_content has %zu bytes; its shape wants %llu",
                            t->content.size, (unsigned long long)want);
    }
    for (size_t i = 0; t->dtype == MR_BOOL && i < t->content.size; i++) {
        if (t->content.data[i] > 1) {
            return mr_error_set(err, MR_EINVAL, "tensor_content of bool has byte 0x%02x",
                                t->content.data[i]);
        }
    }
    return MR_OK;
}

/* The last of few strings stands for many: their bytes are bounded, too. */
static int check_strings(const struct mr_tensor_wire *t, mr_error *err)
{
    struct sink s = {.room = t->count, .width = sizeof(struct mr_string)};

    put_all(t, &s);
    if (s.count > 0 && s.count < t->count &&
        s.last.size > MR_ELEMENT_BYTES_MAX / (t->count - s.count)) {
        return mr_error_set(err, MR_EINVAL,
                            "the TensorProto repeats a string of %zu bytes %llu times: that is "
                            "above the limit",
                            s.last.size, (unsigned long long)(t->count - s.count));
    }
    return MR_OK;
}

/* What the shape has. A tensor without values has sizes that others can count with, too. */
static bool count_values(struct mr_tensor_wire *t)
{
    uint64_t width = mr_value_width(t->dtype);
    uint64_t largest = width;

    for (int d = 0; d < t->rank; d++) {
        if (__builtin_mul_overflow(largest, (uint64_t)MR_MAX(t->dims[d], 1), &largest)) {
            return false;
        }
    }
    return largest <= INT64_MAX && mr_shape_count(t->rank, t->dims, &t->count) &&
           t->count <= MR_ELEMENT_BYTES_MAX / width;
}

int mr_tensor_wire_read(struct mr_string message, struct mr_tensor_wire *ret, mr_error *err)
{
    char text[MR_SHAPE_TEXT];
    bool unknown = false;
    uint32_t type = 0;

    *ret = (struct mr_tensor_wire){.message = message};
    MR_TRY(read_fields(ret, &type, &unknown, err));
    if (!find_dtype(type, &ret->dtype)) {
        return mr_error_set(err, MR_EINVAL,
                            type == 0 ? "the TensorProto has no dtype"
                                      : "the TensorProto has dtype %u, which there is none of here",
                            type);
    }
    if (unknown) {
        return mr_error_set(err, MR_EINVAL, "the TensorProto has an unknown rank");
    }
    if (!count_values(ret)) {
        return mr_error_set(
            err, MR_EINVAL, "the TensorProto has shape %s: that is above the limit of %llu bytes",
            mr_shape_text(ret->rank, ret->dims, text), (unsigned long long)MR_ELEMENT_BYTES_MAX);
    }
    if (ret->count == 0) {
        return MR_OK;
    }
    if (ret->content.size > 0) {
        return check_content(ret, err);
    }
    return ret->dtype == MR_STRING ? check_strings(ret, err) : MR_OK;
}

/* ---- values ---- */

static void copy_content(const struct mr_tensor_wire *t, unsigned char *out)
{
    if (t->dtype == MR_STRING) {
        (void)read_strings(t->content, t->count, (struct mr_string *)(void *)out);
        return;
    }
    memcpy(out, t->content.data, t->content.size);
}

void mr_tensor_wire_values(const struct mr_tensor_wire *t, unsigned char *out)
{
    size_t width = mr_value_width(t->dtype);
    unsigned parts = wire_dtypes[t->dtype].parts;

    if (t->count == 0) {
        return;
    }
    if (t->content.size > 0) {
        copy_content(t, out);
        return;
    }
    struct sink s = {.out = out,
                     .width = width / parts,
                     .room = t->count * parts,
                     .is_bool = t->dtype == MR_BOOL};
    put_all(t, &s);
    uint64_t have = MR_MIN(s.count / parts, t->count);
    if (have == 0) {
        memset(out, 0, t->count * width);
    }
    for (uint64_t i = have; have > 0 && i < t->count; i++) {
        memcpy(out + i * width, out + (have - 1) * width, width);
    }
}
