#include "engine/saved/manifest.h"

#include "base/hash.h"
#include "base/limits.h"
#include "engine/saved/codec.h"

#include <jansson.h>

#define FORMAT "millrace saved dataset"
#define HEX64 16
#define SUM_LINE_BYTES (HEX64 + 3) /* with quotes and the end of the line */

MR_AUTO_DEFINE(json_t, json_decref)

void mr_manifest_free(struct mr_manifest *m)
{
    mr_spec_unref(m->spec);
    mr_free(m->chunks);
    *m = (struct mr_manifest){0};
}

/* ---- writing ---- */

static void put_hex(struct mr_buf *to, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mr_buf_printf(to, "%02x", bytes[i]);
    }
}

static void put_spec(struct mr_buf *to, const mr_spec *spec, mr_error *err)
{
    const char *structure = mr_spec_structure(spec);
    size_t n = mr_spec_leaves(spec);
    struct mr_leaf_spec *leaves = NULL;

    if (mr_spec_copy_leaves(spec, &leaves, err) != MR_OK) {
        to->failed = true;
        return;
    }
    mr_spec_put_json(to, leaves, n, structure);
    mr_free(leaves);
}

int mr_manifest_write(const struct mr_manifest *m, struct mr_buf *to, mr_error *err)
{
    size_t begin = to->len;

    mr_buf_printf(to, "{\"format\":\"" FORMAT "\",\"version\":%d,\"run\":\"%s\",\"fingerprint\":\"",
                  MR_MANIFEST_VERSION, m->run);
    put_hex(to, m->fingerprint, sizeof m->fingerprint);
    mr_buf_printf(to, "\",\"compression\":\"%s\",\"spec\":", m->compression);
    put_spec(to, m->spec, err);
    mr_buf_printf(to, ",\"rows\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"chunks\":[", m->rows,
                  m->bytes);
    for (size_t i = 0; i < m->n; i++) {
        const struct mr_manifest_chunk *c = &m->chunks[i];

        mr_buf_printf(to,
                      "%s{\"file\":\"%s\",\"shard\":%" PRId64 ",\"rows\":%" PRIu64
                      ",\"bytes\":%" PRIu64 ",\"chain\":\"%016" PRIx64 "\"}",
                      i > 0 ? "," : "", c->file, c->shard, c->rows, c->bytes, c->chain);
    }
    mr_buf_puts(to, "]}\n");
    if (!to->failed) {
        mr_buf_printf(to, "\"%016" PRIx64 "\"\n", mr_hash64(to->data + begin, to->len - begin - 1));
    }
    return to->failed ? mr_buf_error(to, err) : MR_OK;
}

/* ---- reading ---- */

static int wrong(const char *what, mr_error *err)
{
    return mr_error_set(err, MR_EDATALOSS, "the manifest's '%s' is missing or not what it must be",
                        what);
}

static int get_number(const json_t *from, const char *name, uint64_t *ret, mr_error *err)
{
    const json_t *v = json_object_get(from, name);

    if (!json_is_integer(v) || json_integer_value(v) < 0) {
        return wrong(name, err);
    }
    *ret = (uint64_t)json_integer_value(v);
    return MR_OK;
}

/* A name of one file or directory, which leads nowhere else. */
static bool is_name(const char *s, size_t n)
{
    if (n == 0 || n >= MR_SAVED_NAME_BYTES_MAX || s[0] == '.') {
        return false;
    }
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int get_name(const json_t *from, const char *name, char ret[MR_SAVED_NAME_BYTES_MAX],
                    mr_error *err)
{
    const json_t *v = json_object_get(from, name);

    if (!json_is_string(v) || !is_name(json_string_value(v), json_string_length(v))) {
        return wrong(name, err);
    }
    memcpy(ret, json_string_value(v), json_string_length(v) + 1);
    return MR_OK;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Exactly @n bytes in lower-case hex. */
static bool from_hex(const char *s, size_t len, uint8_t *to, size_t n)
{
    if (len != 2 * n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        int high = digit_of(s[2 * i]);
        int low = digit_of(s[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        to[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static int get_hex(const json_t *from, const char *name, uint8_t *to, size_t n, mr_error *err)
{
    const json_t *v = json_object_get(from, name);

    return json_is_string(v) && from_hex(json_string_value(v), json_string_length(v), to, n)
               ? MR_OK
               : wrong(name, err);
}

static uint64_t from_big_endian(const uint8_t bytes[8])
{
    uint64_t v = 0;

    for (int i = 0; i < 8; i++) {
        v = v << 8 | bytes[i];
    }
    return v;
}

static int get_chunk(const json_t *from, struct mr_manifest_chunk *ret, mr_error *err)
{
    uint64_t shard;
    uint8_t chain[8];

    MR_TRY(get_name(from, "file", ret->file, err));
    MR_TRY(get_number(from, "shard", &shard, err));
    MR_TRY(get_number(from, "rows", &ret->rows, err));
    MR_TRY(get_number(from, "bytes", &ret->bytes, err));
    MR_TRY(get_hex(from, "chain", chain, sizeof chain, err));
    ret->shard = (int64_t)shard;
    ret->chain = from_big_endian(chain);
    return MR_OK;
}

static int get_chunks(const json_t *root, struct mr_manifest *m, mr_error *err)
{
    const json_t *list = json_object_get(root, "chunks");
    uint64_t rows = 0;
    uint64_t bytes = 0;

    if (!json_is_array(list)) {
        return wrong("chunks", err);
    }
    m->n = json_array_size(list);
    m->cap = m->n;
    m->chunks = mr_calloc(m->n + 1, sizeof *m->chunks);
    MR_CHECK_ALLOC(m->chunks, err);
    for (size_t i = 0; i < m->n; i++) {
        MR_TRY_WRAP(get_chunk(json_array_get(list, i), &m->chunks[i], err), err, "chunk %zu", i);
        if (__builtin_add_overflow(rows, m->chunks[i].rows, &rows) ||
            __builtin_add_overflow(bytes, m->chunks[i].bytes, &bytes)) {
            return wrong("chunks", err);
        }
    }
    return rows == m->rows && bytes == m->bytes ? MR_OK : wrong("rows", err);
}

static int get_spec(const json_t *root, mr_spec **ret, mr_error *err)
{
    const json_t *v = json_object_get(root, "spec");
    MR_AUTO(mr_free) char *text = NULL;

    if (!json_is_array(v)) {
        return wrong("spec", err);
    }
    size_t n = json_dumpb(v, NULL, 0, JSON_COMPACT);
    text = mr_malloc(n + 1);
    MR_CHECK_ALLOC(text, err);
    if (json_dumpb(v, text, n, JSON_COMPACT) != n) {
        return mr_error_nomem(err);
    }
    int rc = mr_spec_from_json(text, n, ret, err);
    return rc == MR_EINVAL ? wrong("spec", err) : rc;
}

static int get_compression(const json_t *root, char ret[8], mr_error *err)
{
    const json_t *v = json_object_get(root, "compression");
    enum mr_saved_codec codec;

    if (!json_is_string(v) || mr_saved_codec_parse(json_string_value(v), &codec, NULL) != MR_OK) {
        return wrong("compression", err);
    }
    (void)snprintf(ret, 8, "%s", mr_saved_codec_name(codec));
    return MR_OK;
}

static int get_version(const json_t *root, mr_error *err)
{
    const json_t *format = json_object_get(root, "format");
    uint64_t version = 0;

    if (!json_is_string(format) || strcmp(json_string_value(format), FORMAT) != 0) {
        return mr_error_set(err, MR_EDATALOSS, "this is no manifest of a saved dataset");
    }
    MR_TRY(get_number(root, "version", &version, err));
    if (version == 0 || version > MR_MANIFEST_VERSION) {
        return mr_error_set(err, MR_EUNIMPL,
                            "a saved dataset of version %" PRIu64
                            ": this library reads those up to version %d",
                            version, MR_MANIFEST_VERSION);
    }
    return MR_OK;
}

static int from_json(const json_t *root, struct mr_manifest *m, mr_error *err)
{
    MR_TRY(get_version(root, err));
    MR_TRY(get_name(root, "run", m->run, err));
    MR_TRY(get_hex(root, "fingerprint", m->fingerprint, sizeof m->fingerprint, err));
    MR_TRY(get_compression(root, m->compression, err));
    MR_TRY(get_spec(root, &m->spec, err));
    MR_TRY(get_number(root, "rows", &m->rows, err));
    MR_TRY(get_number(root, "bytes", &m->bytes, err));
    return get_chunks(root, m, err);
}

int mr_manifest_parse(const void *line, size_t size, struct mr_manifest *ret, mr_error *err)
{
    json_error_t why;
    MR_AUTO(json_decref) json_t *root = json_loadb(line, size, JSON_REJECT_DUPLICATES, &why);

    if (root == NULL && json_error_code(&why) == json_error_out_of_memory) {
        return mr_error_nomem(err);
    }
    if (root == NULL) {
        return mr_error_set(err, MR_EDATALOSS, "the manifest is no JSON: column %d: %s", why.column,
                            why.text);
    }
    int rc = from_json(root, ret, err);
    if (rc != MR_OK) {
        mr_manifest_free(ret);
    }
    return rc;
}

int mr_manifest_read(const void *bytes, size_t size, struct mr_manifest *ret, mr_error *err)
{
    const char *end = memchr(bytes, '\n', size);
    size_t line = end != NULL ? (size_t)(end - (const char *)bytes) : size;
    uint8_t sum[8];

    if (size - line != SUM_LINE_BYTES + 1 || end[1] != '"' || end[SUM_LINE_BYTES - 1] != '"' ||
        end[SUM_LINE_BYTES] != '\n' || !from_hex(end + 2, HEX64, sum, sizeof sum)) {
        return mr_error_set(err, MR_EDATALOSS, "the manifest is cut short, or something else");
    }
    if (from_big_endian(sum) != mr_hash64(bytes, line)) {
        return mr_error_set(err, MR_EDATALOSS, "the manifest is damaged: its checksum is another");
    }
    return mr_manifest_parse(bytes, line, ret, err);
}
