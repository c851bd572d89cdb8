#include "tables/thrift.h"

#define DEPTH_MAX 32

void mr_thrift_begin(struct mr_thrift *t, const void *p, size_t n)
{
    *t = (struct mr_thrift){.at = p, .end = (const unsigned char *)p + n};
}

static void fault(struct mr_thrift *t, const char *what)
{
    t->fault = t->fault != NULL ? t->fault : what;
    t->at = t->end;
}

static void cut_short(struct mr_thrift *t)
{
    t->cut_short = t->fault == NULL;
    fault(t, "it is cut short");
}

static uint8_t byte(struct mr_thrift *t)
{
    if (t->at == t->end) {
        cut_short(t);
        return 0;
    }
    return *t->at++;
}

static uint64_t varint(struct mr_thrift *t)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t b = byte(t);

        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            return v;
        }
    }
    fault(t, "a number of more than 64 bits");
    return 0;
}

static int64_t zigzag(struct mr_thrift *t)
{
    uint64_t v = varint(t);

    return (int64_t)((v >> 1) ^ -(v & 1));
}

static void pass(struct mr_thrift *t, uint64_t n)
{
    if (n > (uint64_t)(t->end - t->at)) {
        cut_short(t);
        return;
    }
    t->at += n;
}

bool mr_thrift_next(struct mr_thrift *t, struct mr_thrift_field *f)
{
    uint8_t head = byte(t);

    if (t->fault != NULL || head == 0) {
        return false;
    }
    int64_t id = head >> 4 != 0 ? f->id + (head >> 4) : zigzag(t);
    if (id < INT16_MIN || id > INT16_MAX) {
        fault(t, "a field's number is out of range");
        return false;
    }
    f->id = (int16_t)id;
    f->type = head & 15;
    return t->fault == NULL;
}

static bool expect(struct mr_thrift *t, bool right)
{
    if (!right) {
        fault(t, "a field is of another type than it should be");
    }
    return t->fault == NULL;
}

int64_t mr_thrift_int(struct mr_thrift *t, const struct mr_thrift_field *f)
{
    if (f->type == MR_THRIFT_I8) {
        return (int8_t)byte(t);
    }
    return expect(t, f->type >= MR_THRIFT_I16 && f->type <= MR_THRIFT_I64) ? zigzag(t) : 0;
}

int32_t mr_thrift_int32(struct mr_thrift *t, const struct mr_thrift_field *f)
{
    int64_t v = mr_thrift_int(t, f);

    return expect(t, v >= INT32_MIN && v <= INT32_MAX) ? (int32_t)v : 0;
}

bool mr_thrift_bool(struct mr_thrift *t, const struct mr_thrift_field *f)
{
    return expect(t, f->type == MR_THRIFT_TRUE || f->type == MR_THRIFT_FALSE) &&
           f->type == MR_THRIFT_TRUE;
}

const char *mr_thrift_bytes(struct mr_thrift *t, const struct mr_thrift_field *f, size_t *n)
{
    uint64_t size = expect(t, f->type == MR_THRIFT_BYTES) ? varint(t) : 0;
    const unsigned char *p = t->at;

    pass(t, size);
    *n = t->fault == NULL ? (size_t)size : 0;
    return (const char *)p;
}

/* How many values a list or set has, and of which type. A value has a byte at least. */
static uint32_t list(struct mr_thrift *t, uint8_t *type)
{
    uint8_t head = byte(t);
    uint64_t n = head >> 4 != 15 ? head >> 4 : varint(t);

    *type = head & 15;
    if (n > (uint64_t)(t->end - t->at) || n > UINT32_MAX) {
        cut_short(t);
        return 0;
    }
    return (uint32_t)n;
}

uint32_t mr_thrift_structs(struct mr_thrift *t, const struct mr_thrift_field *f)
{
    uint8_t type = 0;
    uint32_t n = expect(t, f->type == MR_THRIFT_LIST) ? list(t, &type) : 0;

    return n > 0 && expect(t, type == MR_THRIFT_STRUCT) ? n : 0;
}

bool mr_thrift_struct(struct mr_thrift *t, const struct mr_thrift_field *f)
{
    return expect(t, f->type == MR_THRIFT_STRUCT);
}

static void skip(struct mr_thrift *t, uint8_t type, bool in_list, int depth);

static void skip_struct(struct mr_thrift *t, int depth)
{
    struct mr_thrift_field f = {0};

    while (mr_thrift_next(t, &f)) {
        skip(t, f.type, false, depth);
    }
}

static void skip_list(struct mr_thrift *t, int depth)
{
    uint8_t type = 0;
    uint32_t n = list(t, &type);

    for (uint32_t i = 0; i < n && t->fault == NULL; i++) {
        skip(t, type, true, depth);
    }
}

static void skip_map(struct mr_thrift *t, int depth)
{
    uint64_t n = varint(t);
    uint8_t types = n > 0 ? byte(t) : 0;

    for (uint64_t i = 0; i < n && t->fault == NULL; i++) {
        skip(t, types >> 4, true, depth);
        skip(t, types & 15, true, depth);
    }
}

static void skip(struct mr_thrift *t, uint8_t type, bool in_list, int depth)
{
    if (depth >= DEPTH_MAX) {
        fault(t, "structs in structs, too deep");
        return;
    }
    switch (type) {
    case MR_THRIFT_TRUE:
    case MR_THRIFT_FALSE:
        pass(t, in_list ? 1 : 0); /* a field's type is its value */
        break;
    case MR_THRIFT_I8: pass(t, 1); break;
    case MR_THRIFT_I16:
    case MR_THRIFT_I32:
    case MR_THRIFT_I64: (void)varint(t); break;
    case MR_THRIFT_DOUBLE: pass(t, 8); break;
    case MR_THRIFT_BYTES: pass(t, varint(t)); break;
    case MR_THRIFT_LIST:
    case MR_THRIFT_SET: skip_list(t, depth + 1); break;
    case MR_THRIFT_MAP: skip_map(t, depth + 1); break;
    case MR_THRIFT_STRUCT: skip_struct(t, depth + 1); break;
    default: fault(t, "a field is of no known type"); break;
    }
}

void mr_thrift_skip(struct mr_thrift *t, const struct mr_thrift_field *f)
{
    skip(t, f->type, false, 0);
}
