#include "ops/example_wire.h"

#include "ops/wire.h"

static int not_an_example(struct mr_string record, const struct mr_wire *r, mr_error *err)
{
    size_t at = record.data == NULL || r->at == NULL ? 0 : (size_t)(r->at - record.data);

    return mr_error_set(err, MR_EINVAL, "not a tf.Example: bad field near byte %zu of %zu", at,
                        record.size);
}

static int scan_entry(struct mr_string record, struct mr_string entry_bytes,
                      void (*entry)(void *ctx, struct mr_string key, struct mr_string feature),
                      void *ctx, mr_error *err)
{
    struct mr_wire r = mr_wire_open(entry_bytes);
    struct mr_string key = {NULL, 0};
    struct mr_string feature = {NULL, 0};
    struct mr_wire_field f;

    while (r.at < r.end) {
        if (!mr_wire_field_next(&r, &f)) {
            return not_an_example(record, &r, err);
        }
        if (f.number == 1 && f.type == MR_WIRE_BYTES) {
            key = f.bytes;
        } else if (f.number == 2 && f.type == MR_WIRE_BYTES) {
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
    struct mr_wire r = mr_wire_open(bytes);
    struct mr_wire_field f;

    while (r.at < r.end) {
        if (!mr_wire_field_next(&r, &f)) {
            return not_an_example(record, &r, err);
        }
        if (f.number == 1 && f.type == MR_WIRE_BYTES) {
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
    struct mr_wire r = mr_wire_open(record);
    struct mr_wire_field f;

    while (r.at < r.end) {
        if (!mr_wire_field_next(&r, &f)) {
            return not_an_example(record, &r, err);
        }
        if (f.number == 2 && f.type == MR_WIRE_BYTES) {
            MR_TRY(scan_messages(record, f.bytes, 0 /* FeatureLists */, list, ctx, err));
        }
    }
    return MR_OK;
}

int mr_sequence_steps(struct mr_string list, void (*step)(void *ctx, struct mr_string feature),
                      void *ctx, mr_error *err)
{
    struct mr_wire r = mr_wire_open(list);
    struct mr_wire_field f;

    while (r.at < r.end) {
        if (!mr_wire_field_next(&r, &f)) {
            return not_an_example(list, &r, err);
        }
        if (f.number == 1 && f.type == MR_WIRE_BYTES) {
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
    struct mr_wire r = mr_wire_open(b);
    uint64_t v;

    while (r.at < r.end) {
        if (!mr_wire_varint(&r, &v)) {
            return false;
        }
        put_int(s, v);
    }
    return true;
}

/* One value field of a list, or several packed; false: a field that such a list cannot have. */
static bool read_values(enum mr_feature_kind kind, const struct mr_wire_field *f, struct sink *s)
{
    switch (kind) {
    case MR_FEATURE_BYTES:
        if (f->type == MR_WIRE_BYTES) {
            put_bytes(s, f->bytes);
        }
        return f->type == MR_WIRE_BYTES;
    case MR_FEATURE_FLOATS:
        if (f->type == MR_WIRE_32 ||
            (f->type == MR_WIRE_BYTES && f->bytes.size % sizeof(float) == 0)) {
            put_floats(s, f->bytes);
            return true;
        }
        return false;
    case MR_FEATURE_INT64S:
        if (f->type == MR_WIRE_VARINT) {
            put_int(s, f->varint);
            return true;
        }
        return f->type == MR_WIRE_BYTES && read_packed_ints(f->bytes, s);
    case MR_FEATURE_NONE:
    default: return false;
    }
}

static bool read_list(enum mr_feature_kind kind, struct mr_string list, struct sink *s)
{
    struct mr_wire r = mr_wire_open(list);
    struct mr_wire_field f;

    while (r.at < r.end) {
        if (!mr_wire_field_next(&r, &f)) {
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
    struct mr_wire r = mr_wire_open(feature);
    struct mr_wire_field f;

    *kind = MR_FEATURE_NONE;
    while (r.at < r.end) {
        if (!mr_wire_field_next(&r, &f)) {
            return false;
        }
        if (f.number > 3 || f.type != MR_WIRE_BYTES) {
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
