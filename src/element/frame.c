#include "element/frame.h"

#include "base/limits.h"
#include "element/internal.h"

#define FRAME_MAGIC 0x3146524du /* "MRF1" */

struct prefix {
    uint32_t magic;
    uint32_t header_bytes;
};

/* A block that was encoded for this frame, or one that was before. */
struct piece {
    struct mr_encoded encoded;
    mr_packed *packed; /* or NULL */
};

struct mr_frame {
    _Atomic uint32_t refs;
    size_t bytes;
    size_t niov;
    struct iovec *iov;
    size_t npieces;
    unsigned char *head;
    struct piece pieces[];
};

static void free_frame(mr_frame *frame)
{
    if (frame == NULL) {
        return;
    }
    for (size_t i = 0; i < frame->npieces; i++) {
        mr_packed_unref(frame->pieces[i].packed);
        mr_encoded_free(&frame->pieces[i].encoded);
    }
    mr_free(frame->head);
    mr_free(frame->iov);
    mr_free(frame);
}
MR_AUTO_DEFINE(mr_frame, free_frame)

static int build_head(mr_frame *frame, const Millrace__ReadHeader *header, size_t *bytes,
                      mr_error *err)
{
    size_t packed = millrace__read_header__get_packed_size(header);
    struct prefix prefix = {.magic = FRAME_MAGIC, .header_bytes = (uint32_t)packed};

    if (packed > MR_DATA_HEADER_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a header of %zu bytes is above %u", packed,
                            MR_DATA_HEADER_BYTES_MAX);
    }
    *bytes = mr_align64(sizeof prefix + packed);
    frame->head = mr_calloc(1, *bytes);
    MR_CHECK_ALLOC(frame->head, err);
    memcpy(frame->head, &prefix, sizeof prefix);
    (void)millrace__read_header__pack(header, frame->head + sizeof prefix);
    return MR_OK;
}

static int add_piece(mr_frame *frame, struct mr_part part, uint64_t spec_hash, bool checksum,
                     mr_error *err)
{
    struct piece *piece = &frame->pieces[frame->npieces];

    if (part.packed != NULL) {
        piece->packed = mr_packed_ref(part.packed);
    } else {
        MR_TRY(mr_block_encode(part.block, spec_hash, checksum, &piece->encoded, err));
    }
    frame->npieces++;
    return MR_OK;
}

static const struct iovec *piece_iov(const struct piece *piece, size_t *count)
{
    if (piece->packed != NULL) {
        return mr_packed_iov(piece->packed, count);
    }
    *count = piece->encoded.count;
    return piece->encoded.iov;
}

int mr_frame_build(const Millrace__ReadHeader *header, const struct mr_part *parts, size_t n,
                   uint64_t spec_hash, bool checksum, mr_frame **ret, mr_error *err)
{
    MR_AUTO(free_frame)
    mr_frame *frame = mr_calloc(1, sizeof *frame + n * sizeof frame->pieces[0]);
    size_t slices = 1;
    size_t head = 0;
    size_t count;

    MR_CHECK_ALLOC(frame, err);
    atomic_init(&frame->refs, 1);
    MR_TRY(build_head(frame, header, &head, err));
    for (size_t i = 0; i < n; i++) {
        MR_TRY(add_piece(frame, parts[i], spec_hash, checksum, err));
        (void)piece_iov(&frame->pieces[i], &count);
        slices += count;
    }
    frame->iov = mr_reallocarray(NULL, slices, sizeof frame->iov[0]);
    MR_CHECK_ALLOC(frame->iov, err);
    frame->iov[frame->niov++] = (struct iovec){.iov_base = frame->head, .iov_len = head};
    frame->bytes = head;
    for (size_t i = 0; i < n; i++) {
        const struct iovec *iov = piece_iov(&frame->pieces[i], &count);

        for (size_t k = 0; k < count; k++) {
            frame->iov[frame->niov++] = iov[k];
            frame->bytes += iov[k].iov_len;
        }
    }
    *ret = MR_TAKE(frame);
    return MR_OK;
}

mr_frame *mr_frame_ref(mr_frame *frame)
{
    uint32_t before = atomic_fetch_add_explicit(&frame->refs, 1, memory_order_relaxed);

    MR_ASSERT(before > 0);
    return frame;
}

void mr_frame_unref(void *p)
{
    mr_frame *frame = p;

    if (frame != NULL && atomic_fetch_sub_explicit(&frame->refs, 1, memory_order_acq_rel) == 1) {
        free_frame(frame);
    }
}

const struct iovec *mr_frame_iov(const mr_frame *frame, size_t *count)
{
    *count = frame->niov;
    return frame->iov;
}

size_t mr_frame_bytes(const mr_frame *frame)
{
    return frame->bytes;
}

static int parse_head(const mr_buffer *buffer, Millrace__ReadHeader **ret, size_t *at,
                      mr_error *err)
{
    const unsigned char *data = mr_buffer_data(buffer);
    size_t size = mr_buffer_size(buffer);
    struct prefix prefix;

    if (size < sizeof prefix) {
        return mr_error_set(err, MR_EDATALOSS, "%zu bytes are too few for a message", size);
    }
    memcpy(&prefix, data, sizeof prefix);
    if (prefix.magic != FRAME_MAGIC) {
        return mr_error_set(err, MR_EDATALOSS, "no data message: it begins with %08x",
                            prefix.magic);
    }
    if (prefix.header_bytes > MR_DATA_HEADER_BYTES_MAX ||
        mr_align64(sizeof prefix + prefix.header_bytes) > size) {
        return mr_error_set(err, MR_EDATALOSS, "a header of %u bytes in a message of %zu",
                            prefix.header_bytes, size);
    }
    *at = mr_align64(sizeof prefix + prefix.header_bytes);
    *ret = millrace__read_header__unpack(NULL, prefix.header_bytes, data + sizeof prefix);
    if (*ret == NULL) {
        return mr_error_set(err, MR_EDATALOSS, "the header of a message does not parse");
    }
    return MR_OK;
}

static void release_message(void *message)
{
    mr_buffer_unref(message);
}

/* The block at @at, which holds @message through a buffer that no other block has. */
static int decode_block(mr_buffer *message, size_t at, uint64_t spec_hash, mr_block **ret,
                        size_t *used, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *own = NULL;

    MR_TRY(mr_buffer_wrap(mr_buffer_data(message), mr_buffer_size(message), release_message,
                          message, &own, err));
    (void)mr_buffer_ref(message);
    MR_TRY_WRAP(mr_block_decode(own, at, spec_hash, ret, used, err), err,
                "block at byte %zu of a message", at);
    return MR_OK;
}

static int parse(mr_buffer *buffer, uint64_t spec_hash, struct mr_frame_content *content,
                 mr_error *err)
{
    uint64_t rows = 0;
    size_t used = 0;
    size_t cap = 0;
    size_t at = 0;

    MR_TRY(parse_head(buffer, &content->header, &at, err));
    for (; at < mr_buffer_size(buffer); at += used) {
        if (!mr_grow(&content->blocks, &cap, content->n, 1, sizeof(mr_block *))) {
            return mr_error_nomem(err);
        }
        MR_TRY(decode_block(buffer, at, spec_hash, &content->blocks[content->n], &used, err));
        rows += mr_block_rows(content->blocks[content->n++]);
    }
    if (rows != content->header->elements) {
        return mr_error_set(err, MR_EDATALOSS, "a message of %u elements holds %llu",
                            content->header->elements, (unsigned long long)rows);
    }
    return MR_OK;
}

int mr_frame_parse(mr_buffer *buffer, uint64_t spec_hash, struct mr_frame_content *ret,
                   mr_error *err)
{
    struct mr_frame_content content = {0};
    int rc = parse(buffer, spec_hash, &content, err);

    if (rc < 0) {
        mr_frame_content_free(&content);
        return rc;
    }
    *ret = content;
    return MR_OK;
}

void mr_frame_content_free(struct mr_frame_content *content)
{
    for (size_t i = 0; i < content->n; i++) {
        mr_block_unref(content->blocks[i]);
    }
    mr_free(content->blocks);
    if (content->header != NULL) {
        millrace__read_header__free_unpacked(content->header, NULL);
    }
    *content = (struct mr_frame_content){0};
}
