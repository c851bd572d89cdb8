#include "element/unpack.h"

#include "base/base.h"
#include "base/limits.h"

#define BASE_BYTES (64 * MR_KIB)
#define RATIO 16 /* a range of two small numbers: 6 bytes on the wire, 48 in memory */
#define STRUCTURE_BYTES_MAX (1 * MR_MIB)

static void *alloc(void *ctx, size_t size)
{
    size_t *left = ctx;

    if (size > *left) {
        return NULL;
    }
    *left -= size;
    return mr_malloc(size);
}

static void release(void *ctx, void *p)
{
    mr_free(p);
}

ProtobufCMessage *mr_unpack(const ProtobufCMessageDescriptor *desc, const void *bytes, size_t size,
                            size_t *budget)
{
    ProtobufCAllocator allocator = {.alloc = alloc, .free = release, .allocator_data = budget};

    return protobuf_c_message_unpack(desc, &allocator, size,
                                     size > 0 ? bytes : (const uint8_t *)"");
}

size_t mr_unpack_budget(size_t size)
{
    size_t structure = size < STRUCTURE_BYTES_MAX / RATIO ? size * RATIO : STRUCTURE_BYTES_MAX;

    return BASE_BYTES + size + structure;
}

ProtobufCMessage *mr_message_copy(const ProtobufCMessage *msg)
{
    size_t size = protobuf_c_message_get_packed_size(msg);
    MR_AUTO(mr_free) uint8_t *bytes = mr_malloc(size + 1);

    if (bytes == NULL) {
        return NULL;
    }
    (void)protobuf_c_message_pack(msg, bytes);
    return protobuf_c_message_unpack(msg->descriptor, NULL, size, bytes);
}
