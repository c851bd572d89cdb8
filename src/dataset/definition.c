#include "dataset/definition.h"

#include "base/buf.h"
#include "base/limits.h"
#include "element/unpack.h"

#include <zstd.h>

#define LEVEL 1 /* names of files: a tenth of their size, at 500 MB/s */
#define SAVED_BYTES_MIN (64 * MR_KIB)
/* What is smaller still is sent as it is: a few bytes of a stranger must not fill the memory. */
#define RATIO_MAX 1000
#define STRUCTURE_BYTES_MAX (32 * MR_MIB)
#define CONSTANTS_MAX                                                                              \
    (4u * MR_GRAPH_NODES_MAX)           /* as many as operators that a definition may be worth */
#define FIELDS_MAX (2u * CONSTANTS_MAX) /* more are read for a long time, and are nothing */
#define WINDOW_LOG_MAX 23 /* 8 MiB, which all levels but those that are asked for by name keep */
#define CONSTANTS_FIELD 4u

/* How a field of protobuf is written. */
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static const uint8_t magic[4] = {0x28, 0xb5, 0x2f, 0xfd};

static bool is_too_dense(unsigned long long plain, size_t packed)
{
    return plain / RATIO_MAX > packed;
}

static int check_sent(size_t plain, size_t sent, mr_error *err)
{
    if (sent <= MR_DEFINITION_SENT_BYTES_MAX) {
        return MR_OK;
    }
    return mr_error_set(err, MR_EINVAL,
                        "the definition has %zu bytes, %zu as it would be sent; the limits are "
                        "%llu and %llu: read large arrays from files in the pipeline instead, and "
                        "lists of names with list_files or from a file",
                        plain, sent, MR_DEFINITION_BYTES_MAX, MR_DEFINITION_SENT_BYTES_MAX);
}

int mr_definition_compress(void **bytes, size_t *size, mr_error *err)
{
    size_t plain = *size;

    if (plain > SAVED_BYTES_MIN) {
        size_t room = plain - SAVED_BYTES_MIN;
        void *packed = mr_malloc(room);

        MR_CHECK_ALLOC(packed, err);
        size_t n = ZSTD_compress(packed, room, *bytes, plain, LEVEL);
        if (ZSTD_isError(n) || is_too_dense(plain, n)) { /* An error: there was not room enough. */
            mr_free(packed);
        } else {
            mr_free(*bytes);
            *bytes = packed;
            *size = n;
        }
    }
    return check_sent(plain, *size, err);
}

static bool is_compressed(const void *bytes, size_t size)
{
    return size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

int mr_definition_expanded(const void *bytes, size_t size, size_t *ret, mr_error *err)
{
    if (!is_compressed(bytes, size)) {
        *ret = size;
        return size <= MR_DEFINITION_BYTES_MAX
                   ? MR_OK
                   : mr_error_set(err, MR_EINVAL,
                                  "dataset definition: %zu bytes, the limit is %llu", size,
                                  MR_DEFINITION_BYTES_MAX);
    }
    unsigned long long stated = ZSTD_getFrameContentSize(bytes, size);

    if (stated == ZSTD_CONTENTSIZE_ERROR || stated == ZSTD_CONTENTSIZE_UNKNOWN || stated == 0) {
        return mr_error_set(err, MR_EINVAL,
                            "dataset definition: compressed, and does not say how large it is");
    }
    if (stated > MR_DEFINITION_BYTES_MAX || is_too_dense(stated, size)) {
        return mr_error_set(err, MR_EINVAL,
                            "dataset definition: %llu bytes compressed to %zu; the limits are %llu "
                            "bytes and a factor of %d",
                            stated, size, MR_DEFINITION_BYTES_MAX, RATIO_MAX);
    }
    *ret = (size_t)stated;
    return MR_OK;
}

/* ---- the bytes, in order ---- */

struct source {
    ZSTD_DStream *frame; /* NULL: they are there as they are */
    ZSTD_inBuffer in;
    size_t open; /* 0: the frame is at its end */
    size_t left; /* to be taken */
    size_t total;
};

static int source_init(struct source *s, const void *bytes, size_t size, mr_error *err)
{
    *s = (struct source){.in = {.src = bytes, .size = size}};
    int rc = mr_definition_expanded(bytes, size, &s->total, err);

    s->left = s->total;
    if (rc < 0 || !is_compressed(bytes, size)) {
        return rc;
    }
    s->frame = ZSTD_createDStream();
    if (s->frame == NULL ||
        ZSTD_isError(ZSTD_DCtx_setParameter(s->frame, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))) {
        return mr_error_nomem(err);
    }
    return MR_OK;
}

static int is_broken(const struct source *s, const char *why, mr_error *err)
{
    return mr_error_set(
        err, MR_EINVAL,
        "dataset definition: %zu bytes do not expand to the %zu that they state (%s)", s->in.size,
        s->total, why);
}

static int no_definition(const struct source *s, mr_error *err)
{
    return mr_error_set(err, MR_EINVAL,
                        "dataset definition: %zu bytes that are not a millrace.DatasetDef",
                        s->total);
}

/* The next @n bytes. */
static int take(struct source *s, void *to, size_t n, mr_error *err)
{
    ZSTD_outBuffer out = {.dst = to, .size = n};

    if (n > s->left) {
        return no_definition(s, err);
    }
    s->left -= n;
    if (s->frame == NULL) {
        memcpy(to, (const uint8_t *)s->in.src + s->in.pos, n);
        s->in.pos += n;
        return MR_OK;
    }
    while (out.pos < n) {
        size_t before = s->in.pos + out.pos;

        s->open = ZSTD_decompressStream(s->frame, &out, &s->in);
        if (ZSTD_isError(s->open)) {
            return is_broken(s, ZSTD_getErrorName(s->open), err);
        }
        if (s->in.pos + out.pos == before) {
            return is_broken(s, "fewer", err);
        }
    }
    return MR_OK;
}

/* All was taken: nothing may follow, and what a frame says of the whole must hold. */
static int check_end(struct source *s, mr_error *err)
{
    ZSTD_outBuffer out = {.dst = &out, .size = 0};

    while (s->frame != NULL &&
           s->open > 0) { /* what is left is its end: an empty block, a checksum */
        size_t before = s->in.pos;

        s->open = ZSTD_decompressStream(s->frame, &out, &s->in);
        if (ZSTD_isError(s->open)) {
            return is_broken(s, ZSTD_getErrorName(s->open), err);
        }
        if (s->open > 0 && s->in.pos == before) {
            return is_broken(s, "more", err);
        }
    }
    return s->frame == NULL || s->in.pos == s->in.size ? MR_OK : is_broken(s, "more", err);
}

/* ---- taken apart ---- */

struct unpacking {
    struct source from;
    struct mr_buf rest; /* a DatasetDef without its constants */
    mr_buffer **constants;
    size_t n;
    size_t cap;
    size_t fields;
};

static int keep(struct unpacking *u, const void *bytes, size_t n, mr_error *err)
{
    mr_buf_append(&u->rest, bytes, n);
    return u->rest.failed ? mr_buf_error(&u->rest, err) : MR_OK;
}

/* A number as protobuf has it, and its bytes. */
static int take_number(struct source *s, uint64_t *ret, uint8_t raw[10], size_t *n, mr_error *err)
{
    *ret = 0;
    for (*n = 0; *n < 10;) {
        uint8_t *byte = &raw[*n];
        MR_TRY(take(s, byte, 1, err));
        *ret |= (uint64_t)(*byte & 0x7f) << (7 * (*n)++);
        if (*byte < 0x80) {
            return MR_OK;
        }
    }
    return no_definition(s, err);
}

static int add_constant(struct unpacking *u, uint64_t n, mr_error *err)
{
    mr_buffer *buffer = NULL;

    if (n > u->from.left) {
        return no_definition(&u->from, err);
    }
    if (u->n == CONSTANTS_MAX) {
        return mr_error_set(err, MR_EINVAL, "dataset definition: more than %u constants",
                            CONSTANTS_MAX);
    }
    if (!mr_grow(&u->constants, &u->cap, u->n, 1, sizeof(mr_buffer *))) {
        return mr_error_nomem(err);
    }
    MR_TRY(mr_buffer_new((size_t)n, &buffer, err));
    u->constants[u->n++] = buffer;
    return take(&u->from, mr_buffer_data(buffer), (size_t)n, err);
}

/* The next @n bytes go into the rest. */
static int keep_next(struct unpacking *u, uint64_t n, mr_error *err)
{
    if (n > u->from.left) {
        return no_definition(&u->from, err);
    }
    void *room = mr_buf_reserve(&u->rest, (size_t)n);
    if (room == NULL) {
        return mr_buf_error(&u->rest, err);
    }
    u->rest.len += (size_t)n;
    return take(&u->from, room, (size_t)n, err);
}

static int unpack_field(struct unpacking *u, mr_error *err)
{
    uint8_t key_bytes[10];
    uint8_t bytes[10];
    uint64_t key;
    uint64_t value = 0;
    size_t key_n;
    size_t n = 0;

    if (u->fields++ == FIELDS_MAX) {
        return mr_error_set(err, MR_EINVAL, "dataset definition: more than %u fields", FIELDS_MAX);
    }
    MR_TRY(take_number(&u->from, &key, key_bytes, &key_n, err));
    if ((key & 7) == WIRE_VARINT || (key & 7) == WIRE_BYTES) {
        MR_TRY(take_number(&u->from, &value, bytes, &n, err));
    }
    if (key == (CONSTANTS_FIELD << 3 | WIRE_BYTES)) {
        return add_constant(u, value, err);
    }
    MR_TRY(keep(u, key_bytes, key_n, err));
    MR_TRY(keep(u, bytes, n, err));
    switch (key & 7) {
    case WIRE_VARINT: return MR_OK;
    case WIRE_BYTES: return keep_next(u, value, err);
    case WIRE_64: return keep_next(u, 8, err);
    case WIRE_32: return keep_next(u, 4, err);
    default: return no_definition(&u->from, err);
    }
}

static int unpack_rest(struct unpacking *u, struct mr_definition_parts *ret, mr_error *err)
{
    /* A graph is structure; what makes a definition large are strings of bytes. */
    size_t structure = MR_MIN(u->rest.len, STRUCTURE_BYTES_MAX);
    size_t budget = u->rest.len + 7 * structure + (64u << 10);
    size_t left = budget;

    Millrace__DatasetDef *def = (Millrace__DatasetDef *)mr_unpack(
        &millrace__dataset_def__descriptor, u->rest.data, u->rest.len, &left);
    if (def == NULL) {
        return no_definition(&u->from, err);
    }
    *ret = (struct mr_definition_parts){
        .def = def, .def_bytes = budget - left, .constants = u->constants, .nconstants = u->n};
    u->constants = NULL;
    u->n = 0;
    return MR_OK;
}

static void free_constants(mr_buffer **constants, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mr_buffer_unref(constants[i]);
    }
    mr_free(constants);
}

static int unpack(struct unpacking *u, struct mr_definition_parts *ret, mr_error *err)
{
    while (u->from.left > 0) {
        MR_TRY(unpack_field(u, err));
    }
    MR_TRY(check_end(&u->from, err));
    return unpack_rest(u, ret, err);
}

int mr_definition_unpack(const void *bytes, size_t size, struct mr_definition_parts *ret,
                         mr_error *err)
{
    struct unpacking u = {.rest = MR_BUF_INIT};
    int rc = source_init(&u.from, bytes, size, err);

    if (rc == MR_OK) {
        rc = unpack(&u, ret, err);
    }
    free_constants(u.constants, u.n);
    mr_buf_free(&u.rest);
    (void)ZSTD_freeDStream(u.from.frame);
    return rc;
}

void mr_definition_parts_free(struct mr_definition_parts *parts)
{
    if (parts->def != NULL) {
        millrace__dataset_def__free_unpacked(parts->def, NULL);
    }
    free_constants(parts->constants, parts->nconstants);
    *parts = (struct mr_definition_parts){0};
}

size_t mr_definition_parts_bytes(const struct mr_definition_parts *parts)
{
    size_t bytes = parts->def_bytes;

    for (size_t i = 0; i < parts->nconstants; i++) {
        bytes += mr_buffer_size(parts->constants[i]);
    }
    return bytes;
}
