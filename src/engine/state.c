#include "engine/state.h"

#include "base/error.h"
#include "base/scope.h"

#include <string.h>

static void store_u64(unsigned char *to, uint64_t v)
{
    for (int i = 0; i < 8; i++) {
        to[i] = (unsigned char)(v >> (8 * i));
    }
}

void mr_state_put_u64(struct mr_state_out *out, uint64_t v)
{
    unsigned char bytes[8];

    store_u64(bytes, v);
    mr_buf_append(&out->buf, bytes, sizeof bytes);
}

void mr_state_put_bytes(struct mr_state_out *out, const void *p, size_t n)
{
    mr_state_put_u64(out, n);
    mr_buf_append(&out->buf, p, n);
}

int mr_state_put_block(struct mr_state_out *out, const mr_block *block, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *encoded = NULL;

    if (block == NULL) {
        mr_state_put_u64(out, 0);
        return MR_OK;
    }
    int rc = mr_block_encode_buffer(block, 0 /* spec_hash */,
                                    false /* checksum: the state has one */, &encoded, err);
    if (rc == MR_OK) {
        mr_state_put_bytes(out, mr_buffer_data(encoded), mr_buffer_size(encoded));
    }
    return rc;
}

void mr_state_put_error(struct mr_state_out *out, int code, const mr_error *err)
{
    mr_state_put_u64(out, (uint64_t)(uint32_t)code);
    if (code != MR_OK) {
        mr_state_put_u64(out, err->traits);
        mr_state_put_bytes(out, err->message, strlen(err->message));
    }
}

size_t mr_state_begin(struct mr_state_out *out)
{
    mr_state_put_u64(out, 0);
    return out->buf.len;
}

void mr_state_end(struct mr_state_out *out, size_t begin)
{
    if (!out->buf.failed) {
        store_u64(out->buf.data + begin - 8, out->buf.len - begin);
    }
}

int mr_state_damaged(mr_error *err)
{
    return mr_error_set(err, MR_EINVAL, "the iterator state is damaged, or of another version");
}

int mr_state_get_u64(struct mr_state_in *in, uint64_t *ret, mr_error *err)
{
    uint64_t v = 0;

    if (in->left < 8) {
        return mr_state_damaged(err);
    }
    for (int i = 0; i < 8; i++) {
        v |= (uint64_t)in->p[i] << (8 * i);
    }
    in->p += 8;
    in->left -= 8;
    *ret = v;
    return MR_OK;
}

int mr_state_get_bounded(struct mr_state_in *in, uint64_t max, uint64_t *ret, mr_error *err)
{
    uint64_t v = 0;

    MR_TRY(mr_state_get_u64(in, &v, err));
    if (v > max) {
        return mr_state_damaged(err);
    }
    *ret = v;
    return MR_OK;
}

int mr_state_get_bool(struct mr_state_in *in, bool *ret, mr_error *err)
{
    uint64_t v = 0;

    MR_TRY(mr_state_get_bounded(in, 1, &v, err));
    *ret = v != 0;
    return MR_OK;
}

int mr_state_get_bytes(struct mr_state_in *in, const void **ret, size_t *n, mr_error *err)
{
    uint64_t size = 0;

    MR_TRY(mr_state_get_u64(in, &size, err));
    if (size > in->left) {
        return mr_state_damaged(err);
    }
    *ret = in->p;
    *n = (size_t)size;
    in->p += size;
    in->left -= (size_t)size;
    return MR_OK;
}

int mr_state_get_block(struct mr_state_in *in, const mr_spec *spec, mr_block **ret, mr_error *err)
{
    const void *bytes = NULL;
    size_t size = 0;
    size_t used = 0;
    MR_AUTO(mr_buffer_unref) mr_buffer *buffer = NULL;
    MR_AUTO(mr_block_unref) mr_block *block = NULL;

    MR_TRY(mr_state_get_bytes(in, &bytes, &size, err));
    if (size == 0) {
        *ret = NULL;
        return MR_OK;
    }

    MR_TRY(mr_buffer_new(size, &buffer, err));
    memcpy(mr_buffer_data(buffer), bytes, size);
    int rc = mr_block_decode(buffer, 0, 0 /* spec_hash */, &block, &used, err);
    if (rc == MR_OK && spec != NULL) {
        rc = mr_block_check_spec(block, spec, err);
    }
    if (rc != MR_OK) {
        mr_error_wrap(err, "iterator state");
        return rc == MR_EEXHAUSTED
                   ? rc
                   : mr_error_set(err, MR_EINVAL, "%s", err != NULL ? err->message : "");
    }
    *ret = MR_TAKE(block);
    return MR_OK;
}

int mr_state_get_error(struct mr_state_in *in, int *code, mr_error *ret, mr_error *err)
{
    uint64_t v = 0;
    uint64_t traits = 0;
    const void *text = NULL;
    size_t n = 0;

    MR_TRY(mr_state_get_u64(in, &v, err));

    int found = (int)(int32_t)(uint32_t)v;
    if (found > 0 || found < MR_EUNAUTH) {
        return mr_state_damaged(err);
    }
    if (found != MR_OK) {
        MR_TRY(mr_state_get_u64(in, &traits, err));
        MR_TRY(mr_state_get_bytes(in, &text, &n, err));
        if (n >= MR_ERROR_MESSAGE_SIZE) {
            return mr_state_damaged(err);
        }
        (void)mr_error_set_traits(ret, found, (uint32_t)traits, "%.*s", (int)n, (const char *)text);
    }
    *code = found;
    return MR_OK;
}

int mr_state_get_record(struct mr_state_in *in, struct mr_state_in *ret, mr_error *err)
{
    const void *p = NULL;
    size_t n = 0;

    MR_TRY(mr_state_get_bytes(in, &p, &n, err));
    *ret = (struct mr_state_in){.p = p, .left = n};
    return MR_OK;
}

enum { ENDED = 1, FAILED = 2 };

void mr_state_put_end(struct mr_state_out *out, bool ended, uint64_t count, int failed,
                      const mr_error *failure)
{
    mr_state_put_u64(out, (ended ? ENDED : 0) | (failed != MR_OK ? FAILED : 0));
    if (failed != MR_OK) {
        mr_state_put_u64(out, count);
        mr_state_put_error(out, failed, failure);
    }
}

int mr_state_get_end(struct mr_state_in *in, uint64_t most, bool *ended, uint64_t *count,
                     int *failed, mr_error *failure, mr_error *err)
{
    uint64_t flags = 0;
    int rc = mr_state_get_bounded(in, ENDED | FAILED, &flags, err);

    if (rc == MR_OK && (flags & FAILED) != 0) {
        rc = mr_state_get_bounded(in, most, count, err);
        if (rc == MR_OK) {
            rc = mr_state_get_error(in, failed, failure, err);
        }
        if (rc == MR_OK && *failed == MR_OK) {
            rc = mr_state_damaged(err);
        }
    }
    *ended = (flags & ENDED) != 0;
    return rc;
}
