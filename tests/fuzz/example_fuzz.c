/* Any bytes as a tf.Example: the reader stays inside of them, and what it counts it also reads. The
 * operator on top is run on the same bytes as one record. */
#include "ops/example_wire.h"
#include "ops/kernel.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned char sink; /* reading is what a sanitizer looks at */

static void touch(struct mr_string b)
{
    for (size_t i = 0; i < b.size; i++) {
        sink = b.data[i];
    }
}

static void use_feature(void *ctx, struct mr_string key, struct mr_string feature)
{
    enum mr_feature_kind kind;
    uint64_t count;
    mr_error err;

    touch(key);
    touch(feature);
    if (mr_feature_count(feature, &kind, &count, &err) < 0) {
        return;
    }
    if (count > feature.size) {
        abort(); /* a value takes a byte at least */
    }
    size_t width = kind == MR_FEATURE_BYTES    ? sizeof(struct mr_string)
                   : kind == MR_FEATURE_FLOATS ? 4
                                               : 8;
    void *values = calloc(count + 1, width);
    if (values == NULL) {
        return;
    }
    mr_feature_read(feature, kind, count, values);
    for (uint64_t i = 0; kind == MR_FEATURE_BYTES && i < count; i++) {
        touch(((struct mr_string *)values)[i]);
    }
    free(values);
}

static void use_step(void *ctx, struct mr_string feature)
{
    use_feature(ctx, (struct mr_string){NULL, 0}, feature);
}

static void use_list(void *ctx, struct mr_string key, struct mr_string list)
{
    mr_error err;

    touch(key);
    (void)mr_sequence_steps(list, use_step, ctx, &err);
}

/* Two features, one of a fixed length and one of any, out of a record. */
static void use_kernel(const uint8_t *data, size_t size)
{
    const uint64_t offsets[] = {0, 5, 11};
    const uint64_t record_offsets[] = {0, size};
    struct mr_column names = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = "labelpixels"};
    struct mr_owned_column record = {
        .c = {
            .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = record_offsets, .data = data}};
    const int64_t kinds[] = {0, 0};
    const int64_t dtypes[] = {MR_INT64, MR_FLOAT32};
    const int64_t shape[] = {-1, 2};
    struct mr_attr attrs[] = {{.name = "dtypes", .kind = MR_ATTR_INTS, .count = 2, .ints = dtypes},
                              {.name = "kinds", .kind = MR_ATTR_INTS, .count = 2, .ints = kinds},
                              {.name = "names", .kind = MR_ATTR_STRINGS},
                              {.name = "shape1", .kind = MR_ATTR_SHAPE, .count = 2, .ints = shape}};
    const struct mr_kernel *kernel = mr_kernel_find("parse_example");
    struct mr_kernel_call call = {.kernel = kernel, .attrs = attrs, .nattrs = 4};
    struct mr_kernel_in in = {&record, false};
    struct mr_owned_column out[2];
    mr_block *block = NULL;
    uint32_t bad_row;
    mr_error err;

    if (mr_block_new(2, &names, 1, &block, &err) < 0) {
        return;
    }
    attrs[2].block = block;
    if (kernel->prepare(attrs, 4, &call.state, &err) == MR_OK) {
        if (kernel->eval(&call, 1, &in, 1, out, 2, &bad_row, &err) == MR_OK) {
            for (int i = 0; i < 2; i++) {
                for (int k = 0; k < 3; k++) {
                    mr_buffer_unref(out[i].owner[k]);
                }
            }
        }
        kernel->release(call.state);
    }
    mr_block_unref(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *exact =
        malloc(size + (size == 0)); /* its exact size, so that a sanitizer sees a read beyond it */
    mr_error err;

    if (exact == NULL) {
        return 0;
    }
    if (size > 0) {
        memcpy(exact, data, size);
    }
    (void)mr_example_scan((struct mr_string){exact, size}, use_feature, NULL, &err);
    (void)mr_sequence_scan((struct mr_string){exact, size}, use_list, NULL, &err);
    use_kernel(exact, size);
    free(exact);
    return 0;
}
