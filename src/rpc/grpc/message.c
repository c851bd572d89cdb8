/* Received bytes: a list of slices that belongs to gRPC until it is copied out. */
#include "rpc/grpc/internal.h"

/* Reads the list in place; grpc_byte_buffer_reader would take a reference to each slice on the
 * way. */
static void copy_out(const grpc_slice_buffer *list, size_t offset, size_t n, char *dst)
{
    for (size_t i = 0; i < list->count && n > 0; i++) {
        size_t len = GRPC_SLICE_LENGTH(list->slices[i]);

        if (offset >= len) {
            offset -= len;
            continue;
        }
        size_t take = MR_MIN(len - offset, n);
        memcpy(dst, GRPC_SLICE_START_PTR(list->slices[i]) + offset, take);
        dst += take;
        n -= take;
        offset = 0;
    }
    MR_ASSERT(n == 0);
}

/* Of the messages of rpc.h, which are nothing else. */
static grpc_byte_buffer *bytes_of(const mr_rpc_message *m)
{
    return (grpc_byte_buffer *)(uintptr_t)m;
}

size_t mr_rpc_message_size(const mr_rpc_message *m)
{
    return grpc_byte_buffer_length(bytes_of(m));
}

void mr_rpc_message_copy(const mr_rpc_message *m, size_t offset, size_t n, void *dst)
{
    copy_out(&bytes_of(m)->data.raw.slice_buffer, offset, n, dst);
}

void mr_rpc_message_free(mr_rpc_message *m)
{
    grpc_byte_buffer_destroy(bytes_of(m)); /* NULL is fine. */
}

const void *mr_rpc_message_flat(const mr_rpc_message *m, void **copy)
{
    const grpc_slice_buffer *list = &bytes_of(m)->data.raw.slice_buffer;
    size_t size = mr_rpc_message_size(m);

    if (list->count == 1) {
        return GRPC_SLICE_START_PTR(list->slices[0]);
    }
    *copy = mr_malloc(size + 1);
    if (*copy != NULL) {
        copy_out(list, 0, size, *copy);
    }
    return *copy;
}
