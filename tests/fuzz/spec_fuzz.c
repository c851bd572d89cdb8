/* Whatever is a spec packs to bytes that are the same spec; its structure is canonical: reading it
 * again changes nothing. */
#include "element/block.h"
#include "element/spec_proto.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Leaves in the places of leaves change nothing. */
static void fill(const mr_spec *spec, size_t n)
{
    static const char *const leaf[64] = {[0 ... 63] = "\"*\""};
    char *filled = NULL;

    if (strstr(mr_spec_structure(spec), "!dataset") != NULL) {
        return;
    }
    if (mr_structure_fill(mr_spec_structure(spec), leaf, n, &filled, NULL) < 0 ||
        strcmp(filled, mr_spec_structure(spec)) != 0) {
        abort();
    }
    mr_free(filled);
}

static void use(const mr_spec *spec)
{
    struct mr_leaf_spec leaves[64];
    size_t n = mr_spec_leaves(spec);
    mr_spec *again;
    void *bytes;
    size_t size;

    if (mr_spec_pack(spec, &bytes, &size, NULL) < 0) {
        return; /* no memory */
    }
    if (mr_spec_unpack(bytes, size, &again, NULL) < 0 || !mr_spec_equal(spec, again)) {
        abort();
    }
    mr_spec_unref(again);
    mr_free(bytes);
    for (size_t i = 0; i < n && i < 64; i++) {
        leaves[i] = *mr_spec_leaf(spec, i);
    }
    if (n <= 64) {
        if (mr_spec_new(leaves, n, mr_spec_structure(spec), &again, NULL) < 0 ||
            !mr_spec_equal(spec, again) || mr_spec_hash(spec) != mr_spec_hash(again) ||
            strcmp(mr_spec_structure(spec), mr_spec_structure(again)) != 0) {
            abort();
        }
        mr_spec_unref(again);
        if (mr_spec_new(leaves, n, mr_spec_sorted(spec), &again, NULL) < 0 ||
            !mr_spec_equal(spec, again)) {
            abort();
        }
        mr_spec_unref(again);
        fill(spec, n);
    }
}

/* The structure alone, with as many leaves as it says: numbers, or strings, which may be
 * datasets. */
static void as_structure(const uint8_t *data, size_t size)
{
    static const struct mr_leaf_spec tables[2][64] = {
        {[0 ... 63] = {.dtype = MR_INT32}},
        {[0 ... 63] = {.dtype = MR_STRING}},
    };
    char *text = strndup((const char *)data, size);

    for (size_t n = 0; text != NULL && n < 64; n = n == 4 ? 64 : n + 1) {
        for (size_t t = 0; t < 2; t++) {
            mr_spec *spec;
            mr_spec *datasets;
            uint32_t counts[64];

            if (mr_spec_new(tables[t], n, text, &spec, NULL) != MR_OK) {
                continue;
            }
            use(spec);
            if (mr_spec_of_datasets(spec, &datasets, counts, NULL) == MR_OK) {
                size_t leaves = 0;

                for (size_t i = 0; i < mr_spec_leaves(datasets); i++) {
                    leaves += counts[i];
                }
                if (leaves != n) {
                    abort();
                }
                use(datasets);
                mr_spec_unref(datasets);
            }
            mr_spec_unref(spec);
        }
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mr_spec *spec;

    if (mr_spec_unpack(data, size, &spec, NULL) == MR_OK) {
        use(spec);
        mr_spec_unref(spec);
    }
    as_structure(data, size);
    return 0;
}
