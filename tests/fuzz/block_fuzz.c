/* Whatever decodes as a block can be read to its last byte, and encoding it gives a block that
 * decodes again. Slices are taken too: they are what the rest of the program does with a block
 * first. So are the records that rows come from. */
#include "element/block.h"
#include "element/trace.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const mr_block *block)
{
    mr_buffer *bytes;
    mr_block *again;
    mr_block *half;
    size_t used;
    uint32_t rows = mr_block_rows(block);

    if (mr_block_encode_buffer(block, 0, true, &bytes, NULL) < 0) {
        return; /* no memory */
    }
    if (mr_block_decode(bytes, 0, 0, &again, &used, NULL) < 0 || used != mr_buffer_size(bytes) ||
        mr_block_rows(again) != rows ||
        mr_block_slice(again, rows / 2, rows - rows / 2, &half, NULL) < 0) {
        abort();
    }
    for (uint32_t r = 0; r < rows; r++) {
        char texts[2][MR_TRACE_TEXT];
        struct mr_record records[2] = {mr_block_record(block, r), mr_block_record(again, r)};

        if (strcmp(mr_record_text(&records[0], r % MR_TRACE_TEXT, texts[0]),
                   mr_record_text(&records[1], r % MR_TRACE_TEXT, texts[1])) != 0) {
            abort();
        }
    }
    mr_block_unref(again);
    if (mr_block_copy_rows(half, 0, mr_block_rows(half), &again, NULL) == MR_OK) {
        mr_block_unref(again);
    }
    mr_block_unref(half);
    mr_buffer_unref(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t whole = size - size % 64;
    void *memory =
        aligned_alloc(64, whole); /* its exact size, so that a sanitizer sees a read beyond it */
    mr_buffer *buffer;
    mr_block *block;
    size_t used;

    if (memory == NULL) {
        return 0;
    }
    memcpy(memory, data, whole);
    if (mr_buffer_wrap(memory, whole, free, memory, &buffer, NULL) < 0) {
        free(memory);
        return 0;
    }
    if (mr_block_decode(buffer, 0, 0, &block, &used, NULL) == MR_OK) {
        if (used > whole) {
            abort();
        }
        use(block);
        mr_block_unref(block);
    }
    mr_buffer_unref(buffer);
    return 0;
}
