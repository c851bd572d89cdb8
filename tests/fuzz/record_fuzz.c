/* Whatever parses as a record of the cache has the chunks that it says, in its bytes; written again
 * it is decoded to the same, and with any one bit of what stands before its chunks turned it is
 * refused. */
#include "cache/record.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode_again(const uint8_t *data, size_t size, const struct mr_record_head *head)
{
    struct mr_cache_view_chunk *chunks = malloc(head->chunks * sizeof *chunks);
    size_t front = mr_record_front_bytes(head->chunks),
           at = (size_t)(head->payload ^ head->rows) % front;
    uint8_t *copy = malloc(size);
    struct mr_record_head again;
    uint64_t bytes = 0;

    if (chunks == NULL || copy == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < head->chunks; i++) {
        chunks[i] = mr_record_chunk(data, i);
        bytes += chunks[i].bytes;
    }
    if (bytes != head->payload || front + bytes != size) {
        abort();
    }
    memcpy(copy, data, size);
    mr_record_encode(head, chunks, copy);
    if (mr_record_decode(copy, size, head->log, head->first, &again, NULL) != MR_OK ||
        again.rows != head->rows || again.chunks != head->chunks) {
        abort();
    }
    if (mr_record_decode(copy, size, head->log + 1, head->first, &again, NULL) != MR_EDATALOSS ||
        mr_record_decode(copy, size, head->log, head->first + 1, &again, NULL) != MR_EDATALOSS) {
        abort();
    }
    copy[at] ^= (uint8_t)(1u << (head->first % 8));
    if (mr_record_decode(copy, size, head->log, head->first, &again, NULL) != MR_EDATALOSS) {
        abort();
    }
    free(copy);
    free(chunks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mr_record_head head;

    if (mr_record_parse(data, size, &head, NULL) == MR_OK) {
        encode_again(data, size, &head);
    }
    return 0;
}
