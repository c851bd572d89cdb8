#include "engine/state.h"

#include "element/places.h"

int mr_state_damaged(mr_error *err)
{
    return mr_error_set(err, MR_EINVAL, "the iterator state is damaged, or of another version");
}

/* ---- numbers and bytes ---- */

static void store_u64(unsigned char *to, uint64_t v)
{
    for (int i = 0; i < 8; i++) {
        to[i] = (unsigned char)(v >> (8 * i));
    }
}

int mr_state_u64(struct mr_state *s, uint64_t *v, mr_error *err)
{
    unsigned char bytes[8];

    if (!s->restores) {
        store_u64(bytes, *v);
        mr_buf_append(&s->buf, bytes, sizeof bytes);
        return MR_OK;
    }
    if (s->left < sizeof bytes) {
        return mr_state_damaged(err);
    }
    *v = 0;
    for (int i = 0; i < 8; i++) {
        *v |= (uint64_t)s->p[i] << (8 * i);
    }
    s->p += 8;
    s->left -= 8;
    return MR_OK;
}

int mr_state_bounded(struct mr_state *s, uint64_t *v, uint64_t max, mr_error *err)
{
    uint64_t found = *v;

    MR_TRY(mr_state_u64(s, &found, err));
    if (s->restores && found > max) {
        return mr_state_damaged(err);
    }
    *v = found;
    return MR_OK;
}

int mr_state_u32(struct mr_state *s, uint32_t *v, uint32_t max, mr_error *err)
{
    uint64_t wide = *v;
    int rc = mr_state_bounded(s, &wide, max, err);

    *v = (uint32_t)wide;
    return rc;
}

int mr_state_bool(struct mr_state *s, bool *v, mr_error *err)
{
    uint64_t wide = *v;
    int rc = mr_state_bounded(s, &wide, 1, err);

    *v = wide != 0;
    return rc;
}

int mr_state_count(struct mr_state *s, uint64_t *n, mr_error *err)
{
    return mr_state_bounded(s, n, s->left, err);
}

int mr_state_bytes(struct mr_state *s, const void **p, size_t *n, mr_error *err)
{
    uint64_t size = *n;

    MR_TRY(mr_state_u64(s, &size, err));
    if (!s->restores) {
        mr_buf_append(&s->buf, *p, *n);
        return MR_OK;
    }
    if (size > s->left) {
        return mr_state_damaged(err);
    }
    *p = s->p;
    *n = (size_t)size;
    s->p += size;
    s->left -= (size_t)size;
    return MR_OK;
}

/* ---- blocks ---- */

enum { NO_PLACES = 0, RUN_OF_PLACES = 1, LIST_OF_PLACES = 2 };

static int save_places(struct mr_state *s, const mr_block *block, mr_error *err)
{
    uint64_t first = 0;
    const uint64_t *list = mr_block_places(block, &first);
    uint64_t kind = !mr_block_placed(block) ? NO_PLACES
                    : list == NULL          ? RUN_OF_PLACES
                                            : LIST_OF_PLACES;

    MR_TRY(mr_state_u64(s, &kind, err));
    if (kind == RUN_OF_PLACES) {
        return mr_state_u64(s, &first, err);
    }
    for (uint32_t r = 0; kind == LIST_OF_PLACES && r < mr_block_rows(block); r++) {
        uint64_t place = mr_block_place(block, r);

        MR_TRY(mr_state_u64(s, &place, err));
    }
    return MR_OK;
}

static int restore_list(struct mr_state *s, mr_block *block, mr_error *err)
{
    uint32_t n = mr_block_rows(block);

    if (s->left / sizeof(uint64_t) < n) {
        return mr_state_damaged(err);
    }
    MR_AUTO(mr_free) uint64_t *places = mr_calloc(n, sizeof *places);
    MR_CHECK_ALLOC(places, err);
    for (uint32_t r = 0; r < n; r++) {
        MR_TRY(mr_state_u64(s, &places[r], err));
    }
    return mr_block_set_places(block, places, err);
}

static int restore_places(struct mr_state *s, mr_block **block, mr_error *err)
{
    uint64_t kind = 0;
    uint64_t first = 0;

    MR_TRY(mr_state_bounded(s, &kind, LIST_OF_PLACES, err));
    if (kind == RUN_OF_PLACES) {
        MR_TRY(mr_state_u64(s, &first, err));
        return mr_block_set_place(block, first, err);
    }
    return kind == LIST_OF_PLACES ? restore_list(s, *block, err) : MR_OK;
}

static int save_block(struct mr_state *s, const mr_block *block, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *encoded = NULL;
    const void *bytes = NULL;
    size_t size = 0;

    if (block != NULL) {
        MR_TRY(mr_block_encode_buffer(block, 0 /* spec_hash */,
                                      false /* checksum: the state has one */, &encoded, err));
        bytes = mr_buffer_data(encoded);
        size = mr_buffer_size(encoded);
    }
    MR_TRY(mr_state_bytes(s, &bytes, &size, err));
    return block != NULL ? save_places(s, block, err) : MR_OK;
}

static int decode_block(const void *bytes, size_t size, const mr_spec *spec, mr_block **ret,
                        mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *buffer = NULL;
    MR_AUTO(mr_block_unref) mr_block *block = NULL;
    size_t used = 0;

    MR_TRY(mr_buffer_new(size, &buffer, err));
    memcpy(mr_buffer_data(buffer), bytes, size);
    int rc = mr_block_decode(buffer, 0, 0 /* spec_hash */, &block, &used, err);
    if (rc == MR_OK && mr_block_rows(block) == 0) { /* those that go on from it count on one */
        rc = mr_error_set(err, MR_EINVAL, "a block without rows");
    }
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

int mr_state_block(struct mr_state *s, mr_block **block, const mr_spec *spec, mr_error *err)
{
    const void *bytes = NULL;
    size_t size = 0;
    MR_AUTO(mr_block_unref) mr_block *found = NULL;

    if (!s->restores) {
        return save_block(s, *block, err);
    }
    MR_TRY(mr_state_bytes(s, &bytes, &size, err));
    if (size > 0) {
        MR_TRY(decode_block(bytes, size, spec, &found, err));
        MR_TRY(restore_places(s, &found, err));
    }
    mr_block_unref(*block);
    *block = MR_TAKE(found);
    return MR_OK;
}

int mr_state_rest(struct mr_state *s, mr_block **block, uint32_t *used, const mr_spec *spec,
                  mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *rest = NULL;

    if (s->restores) {
        *used = 0;
        return mr_state_block(s, block, spec, err);
    }
    if (*block != NULL) {
        MR_TRY(mr_block_slice(*block, *used, mr_block_rows(*block) - *used, &rest, err));
    }
    return save_block(s, rest, err);
}

/* ---- errors ---- */

int mr_state_error(struct mr_state *s, int *code, mr_error *failure, mr_error *err)
{
    uint64_t found = (uint64_t)(uint32_t)*code;
    uint64_t traits = *code != MR_OK ? failure->traits : 0;
    const void *text = *code != MR_OK ? failure->message : "";
    size_t n = strlen(text);

    MR_TRY(mr_state_u64(s, &found, err));
    *code = (int)(int32_t)(uint32_t)found;
    if (*code > 0 || *code < MR_EUNAUTH) {
        *code = MR_OK;
        return mr_state_damaged(err);
    }
    if (*code == MR_OK) {
        return MR_OK;
    }
    MR_TRY(mr_state_u64(s, &traits, err));
    MR_TRY(mr_state_bytes(s, &text, &n, err));
    if (n >= MR_ERROR_MESSAGE_SIZE) {
        return mr_state_damaged(err);
    }
    if (s->restores) {
        (void)mr_error_set_traits(failure, *code, (uint32_t)traits, "%.*s", (int)n,
                                  (const char *)text);
    }
    return MR_OK;
}

int mr_state_block_or_error(struct mr_state *s, mr_block **block, const mr_spec *spec, int *code,
                            mr_error *failure, mr_error *err)
{
    MR_TRY(mr_state_block(s, block, spec, err));
    MR_TRY(mr_state_error(s, code, failure, err));
    return (*block == NULL) == (*code == MR_OK) ? mr_state_damaged(err) : MR_OK;
}

enum { ENDED = 1, FAILED = 2 };

int mr_state_ending(struct mr_state *s, bool *ended, uint64_t *count, uint64_t most, int *failed,
                    mr_error *failure, mr_error *err)
{
    uint64_t flags = (*ended ? ENDED : 0) | (*failed != MR_OK ? FAILED : 0);

    MR_TRY(mr_state_bounded(s, &flags, ENDED | FAILED, err));
    *ended = (flags & ENDED) != 0;
    if ((flags & FAILED) == 0) {
        return MR_OK;
    }
    MR_TRY(count != NULL ? mr_state_bounded(s, count, most, err) : MR_OK);
    MR_TRY(mr_state_error(s, failed, failure, err));
    return *failed == MR_OK ? mr_state_damaged(err) : MR_OK;
}

/* ---- records ---- */

int mr_state_begin(struct mr_state *s, size_t *mark, mr_error *err)
{
    uint64_t size = 0;

    MR_TRY(mr_state_count(s, &size, err));
    if (s->restores && size > s->left) {
        return mr_state_damaged(err);
    }
    *mark = s->restores ? s->left - (size_t)size : s->buf.len;
    s->left = (size_t)size;
    return MR_OK;
}

int mr_state_end(struct mr_state *s, size_t mark, mr_error *err)
{
    if (s->restores) {
        MR_TRY(s->left == 0 ? MR_OK : mr_state_damaged(err));
        s->left = mark;
    } else if (s->buf.failed) {
        return mr_error_nomem(err);
    } else {
        store_u64(s->buf.data + mark - 8, s->buf.len - mark);
    }
    return MR_OK;
}
