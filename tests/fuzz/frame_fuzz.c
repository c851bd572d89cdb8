/* Whatever parses as a data message holds what its header says, and builds a message that parses to
 * the same. */
#include "element/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct mr_frame_content *content)
{
    struct mr_frame_content again;
    mr_frame *frame;
    mr_buffer *buffer;
    unsigned char *to;
    size_t n;

    struct mr_part *rows = calloc(content->n + 1, sizeof rows[0]);
    for (size_t i = 0; rows != NULL && i < content->n; i++) {
        rows[i].block = content->blocks[i];
    }
    int rc = rows == NULL
                 ? MR_EEXHAUSTED
                 : mr_frame_build(content->header, rows, content->n, 0, false, &frame, NULL);
    free(rows);
    if (rc < 0) {
        return; /* no memory */
    }
    if (mr_buffer_new(mr_frame_bytes(frame), &buffer, NULL) == MR_OK) {
        const struct iovec *iov = mr_frame_iov(frame, &n);

        to = mr_buffer_data(buffer);
        for (size_t i = 0; i < n; i++) {
            memcpy(to, iov[i].iov_base, iov[i].iov_len);
            to += iov[i].iov_len;
        }
        if (mr_frame_parse(buffer, 0, &again, NULL) < 0 || again.n != content->n ||
            again.header->elements != content->header->elements) {
            abort();
        }
        mr_frame_content_free(&again);
        mr_buffer_unref(buffer);
    }
    mr_frame_unref(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mr_frame_content content;
    mr_buffer *buffer;
    void *memory = NULL;

    if (posix_memalign(&memory, 64, size == 0 ? 1 : size) != 0) {
        return 0;
    }
    memcpy(memory, data, size);
    if (mr_buffer_wrap(memory, size, free, memory, &buffer, NULL) < 0) {
        free(memory);
        return 0;
    }
    if (mr_frame_parse(buffer, 0, &content, NULL) == MR_OK) {
        use(&content);
        mr_frame_content_free(&content);
    }
    mr_buffer_unref(buffer);
    return 0;
}
