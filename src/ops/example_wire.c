#include "ops/example_wire.h"

struct reader {
    const unsigned char *at;
    const unsigned char *end;
};

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_64 = 1,
    WIRE_BYTES = 2,
    WIRE_32 = 5,
};

struct field {
    uint32_t number;
    uint32_t type;
    uint64_t varint;        /* WIRE_VARINT */
    struct mr_string bytes; /* WIRE_BYTES, WIRE_32, WIRE_64 */
};

static bool read_varint(struct reader *r, uint64_t *ret)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70 && r->at < r->end; shift += 7) {
        unsigned char byte = *r->at++;

        if (shift == 63 && byte > 1) {
            return false; /* above 64 bits */
        }
        v |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *ret = v;
            return true;
        }
    }
    return false;
}

static bool read_bytes(struct reader *r, uint64_t n, struct mr_string *ret)
{
    if (n > (uint64_t)(r->end - r->at)) {
        return false;
    }
    ret->data = r->at;
    ret->size = (size_t)n;
    r->at += n;
    return true;
}

/* The next field; false if there is none that makes sense. */
static bool read_field(struct reader *r, struct field *f)
{
    uint64_t tag;
    uint64_t n;

    if (!read_varint(r, &tag) || tag >> 3 == 0 || tag >> 3 > 536870911u) {
        return false;
    }
    f->number = (uint32_t)(tag >> 3);
    f->type = (uint32_t)(tag & 7);
    switch (f->type) {
    case WIRE_VARINT: return read_varint(r, &f->varint);
    case WIRE_64: return read_bytes(r, 8, &f->bytes);
    case WIRE_BYTES: return read_varint(r, &n) && read_bytes(r, n, &f->bytes);
    case WIRE_32: return read_bytes(r, 4, &f->bytes);
    default: return false; /* groups went out of use before tf.Example was made */
    }
}

static struct reader open_reader(struct mr_string b)
{
    return b.size == 0 ? (struct reader){NULL, NULL} : (struct reader){b.data, b.data + b.size};
}

static int not_an_example(struct mr_string record, const struct reader *r, mr_error *err)
{
    size_t at = record.data == NULL || r->at == NULL ? 0 : (size_t)(r->at - record.data);

    return mr_error_set(err, MR_EINVAL, "not a tf.Example: bad field near byte %zu of %zu", at,
                        record.size);
}

static int scan_entry(struct mr_string record, struct mr_string entry_bytes,
                      void (*entry)(void *ctx, struct mr_string key, struct mr_string feature),
                      void *ctx, mr_error *err)
{
    struct reader r = open_reader(entry_bytes);
    struct mr_string key = {NULL, 0};
    struct mr_string feature = {NULL, 0};
    struct field f;

    while (r.at < r.end) {
        if (!read_field(&r, &f)) {
            return not_an_example(record, &r, err);
        }
        if (f.number == 1 && f.type == WIRE_BYTES) {
            key = f.bytes;
        } else if (f.number == 2 && f.type == WIRE_BYTES) {
            feature = f.bytes;
        }
    }
    entry(ctx, key, feature);
    return MR_OK;
}

/* The entries in @bytes: in the messages that are field 1 of it, which lie in @depth others that
 * are. */
static int scan_messages(struct mr_string record, struct mr_string bytes, int depth,
                         void (*entry)(void *ctx, struct mr_string key, struct mr_string feature),
                         void *ctx, mr_error *err)
{
    struct reader r = open_reader(bytes);
    struct field f;

    while (r.at < r.end) {
        if (!read_field(&r, &f)) {
            return not_an_example(record, &r, err);
        }
        if (f.number == 1 && f.type == WIRE_BYTES) {
            MR_TRY(depth > 0 ? scan_messages(record, f.bytes, depth - 1, entry, ctx, err)
                             : scan_entry(record, f.bytes, entry, ctx, err));
        }
    }
    return MR_OK;
}

int mr_example_scan(struct mr_string record,
                    void (*entry)(void *ctx, struct mr_string key, struct mr_string feature),
                    void *ctx, mr_error *err)
{
    return scan_messages(record, record, 1 /* Example, Features */, entry, ctx, err);
}

int mr_sequence_scan(struct mr_string record,
                     void (*list)(void *ctx, struct mr_string key, struct mr_string list),
                     void *ctx, mr_error *err)
{
    struct reader r = open_reader(record);
    struct field f;

    while (r.at < r.end) {
        if (!read_field(&r, &f)) {
            return not_an_example(record, &r, err);
        }
        if (f.number == 2 && f.type == WIRE_BYTES) {
            MR_TRY(scan_messages(record, f.bytes, 0 /* FeatureLists */, list, ctx, err));
        }
    }
    return MR_OK;
}

int mr_sequence_steps(struct mr_string list, void (*step)(void *ctx, struct mr_string feature),
                      void *ctx, mr_error *err)
{
    struct reader r = open_reader(list);
    struct field f;

    while (r.at < r.end) {
        if (!read_field(&r, &f)) {
            return not_an_example(list, &r, err);
        }
        if (f.number == 1 && f.type == WIRE_BYTES) {
            step(ctx, f.bytes);
        }
    }
    return MR_OK;
}

/* Receives values; NULL pointers: only count. */
struct sink {
    uint64_t count;
    uint64_t room;
    struct mr_string *bytes;
    float *floats;
    int64_t *ints;
};

static void put_bytes(struct sink *s, struct mr_string b)
{
    if (s->bytes != NULL && s->count < s->room) {
        s->bytes[s->count] = b;
    }
    s->count++;
}

static void put_int(struct sink *s, uint64_t v)
{
    if (s->ints != NULL && s->count < s->room) {
        s->ints[s->count] = (int64_t)v;
    }
    s->count++;
}

static void put_floats(struct sink *s, struct mr_string b)
{
    uint64_t n = b.size / sizeof(float);

    if (s->floats != NULL && s->count < s->room) {
        uint64_t fits = n < s->room - s->count ? n : s->room - s->count;

        if (fits > 0) {
            memcpy(s->floats + s->count, b.data,
                   fits * sizeof(float)); /* little-endian hosts only */
        }
    }
    s->count += n;
}

static bool read_packed_ints(struct mr_string b, struct sink *s)
{
    struct reader r = open_reader(b);
    uint64_t v;

    while (r.at < r.end) {
        if (!read_varint(&r, &v)) {
            return false;
        }
        put_int(s, v);
    }
    return true;
}

/* One value field of a list, or several packed; false: a field that such a list cannot have. */
static bool read_values(enum mr_feature_kind kind, const struct field *f, struct sink *s)
{
    switch (kind) {
    case MR_FEATURE_BYTES:
        if (f->type == WIRE_BYTES) {
            put_bytes(s, f->bytes);
        }
        return f->type == WIRE_BYTES;
    case MR_FEATURE_FLOATS:
        if (f->type == WIRE_32 || (f->type == WIRE_BYTES && f->bytes.size % sizeof(float) == 0)) {
            put_floats(s, f->bytes);
            return true;
        }
        return false;
    case MR_FEATURE_INT64S:
        if (f->type == WIRE_VARINT) {
            put_int(s, f->varint);
            return true;
        }
        return f->type == WIRE_BYTES && read_packed_ints(f->bytes, s);
    case MR_FEATURE_NONE:
    default: return false;
    }
}

static bool read_list(enum mr_feature_kind kind, struct mr_string list, struct sink *s)
{
    struct reader r = open_reader(list);
    struct field f;

    while (r.at < r.end) {
        if (!read_field(&r, &f)) {
            return false;
        }
        if (f.number == 1 && !read_values(kind, &f, s)) {
            return false;
        }
    }
    return true;
}

/* A list of another kind replaces what came before it; one of the same kind is appended. */
static bool read_feature(struct mr_string feature, enum mr_feature_kind *kind, struct sink *s)
{
    struct reader r = open_reader(feature);
    struct field f;

    *kind = MR_FEATURE_NONE;
    while (r.at < r.end) {
        if (!read_field(&r, &f)) {
            return false;
        }
        if (f.number > 3 || f.type != WIRE_BYTES) {
            continue;
        }
        if ((enum mr_feature_kind)f.number != *kind) {
            *kind = (enum mr_feature_kind)f.number;
            s->count = 0;
        }
        if (!read_list(*kind, f.bytes, s)) {
            return false;
        }
    }
    return true;
}

int mr_feature_count(struct mr_string feature, enum mr_feature_kind *kind, uint64_t *count,
                     mr_error *err)
{
    struct sink s = {0};
    enum mr_feature_kind found;

    if (!read_feature(feature, &found, &s)) {
        return mr_error_set(err, MR_EINVAL, "not a tf.train.Feature");
    }
    *kind = found;
    *count = s.count;
    return MR_OK;
}

void mr_feature_read(struct mr_string feature, enum mr_feature_kind kind, uint64_t count, void *out)
{
    struct sink s = {.room = count,
                     .bytes = kind == MR_FEATURE_BYTES ? out : NULL,
                     .floats = kind == MR_FEATURE_FLOATS ? out : NULL,
                     .ints = kind == MR_FEATURE_INT64S ? out : NULL};
    enum mr_feature_kind found;

    (void)read_feature(feature, &found, &s); /* accepted before */
}
