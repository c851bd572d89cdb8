/* Strings as Python reads them at once. */
#include "element/internal.h"

#include "base/copy.h"

#define HEAD 5 /* a letter, and a number of 32 bits */

static unsigned char *put_head(unsigned char *to, char letter, uint64_t n)
{
    to[0] = (unsigned char)letter;
    for (unsigned k = 0; k < 4; k++) {
        to[1 + k] = (unsigned char)(n >> (8 * k));
    }
    return to + HEAD;
}

size_t mr_block_marshal(const mr_block *block, uint32_t column, uint64_t first, uint64_t count,
                        void *to)
{
    MR_ASSERT(column < block->ncolumns);
    const struct mr_column *c = &block->columns[column];
    const unsigned char *data = c->data;
    unsigned char *at = to;

    MR_ASSERT(c->dtype == MR_STRING);
    MR_ASSERT(count <= INT32_MAX);
    if (to == NULL) {
        return HEAD + (size_t)count * HEAD +
               (size_t)(c->offsets[first + count] - c->offsets[first]);
    }
    at = put_head(at, '[', count);
    for (uint64_t i = first; i < first + count; i++) {
        size_t size =
            (size_t)(c->offsets[i + 1] - c->offsets[i]); /* of an element: 1 GiB at most */

        at = put_head(at, 's', size);
        mr_copy_bytes(at, size > 0 ? data + c->offsets[i] : NULL, size);
        at += size;
    }
    return (size_t)(at - (unsigned char *)to);
}
