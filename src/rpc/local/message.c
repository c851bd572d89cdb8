/* Received bytes: one piece. */
#include "rpc/local/internal.h"

size_t mr_rpc_message_size(const mr_rpc_message *m)
{
    return m->size;
}

void mr_rpc_message_copy(const mr_rpc_message *m, size_t offset, size_t n, void *dst)
{
    MR_ASSERT(offset <= m->size);
    MR_ASSERT(n <= m->size - offset);
    if (n > 0) {
        memcpy(dst, m->bytes + offset, n);
    }
}

const void *mr_rpc_message_flat(const mr_rpc_message *m, void **copy)
{
    return m->bytes;
}

void mr_rpc_message_free(mr_rpc_message *m)
{
    mr_free(m);
}
