/* Any bytes as a TensorProto: what is accepted is bounded, its values are all there, and strings
 * lie within the bytes. */
#include "base/limits.h"
#include "ops/attr.h"
#include "ops/tensor_wire.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VALUES_MAX (1u << 16)

static volatile unsigned char sink; /* reading is what a sanitizer looks at */

static void check_values(const struct mr_tensor_wire *t, const unsigned char *values, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        sink = values[i];
        if (t->dtype == MR_BOOL && values[i] > 1) {
            abort();
        }
    }
    for (uint64_t i = 0; t->dtype == MR_STRING && i < t->count; i++) {
        struct mr_string s = ((const struct mr_string *)(const void *)values)[i];

        for (size_t k = 0; k < s.size; k++) {
            sink = s.data[k];
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mr_tensor_wire t;
    uint64_t count;
    mr_error err;

    if (mr_tensor_wire_read((struct mr_string){data, size}, &t, &err) != MR_OK) {
        return 0;
    }
    if (t.rank < 0 || t.rank > MR_RANK_MAX || !mr_shape_count(t.rank, t.dims, &count) ||
        count != t.count || count > MR_ELEMENT_BYTES_MAX / mr_value_width(t.dtype)) {
        abort();
    }
    if (count > VALUES_MAX) {
        return 0; /* values that stand for many take their time */
    }
    size_t bytes = count * mr_value_width(t.dtype);
    unsigned char *values = malloc(bytes + 1);
    if (values == NULL) {
        return 0;
    }
    mr_tensor_wire_values(&t, values);
    check_values(&t, values, bytes);
    free(values);
    return 0;
}
