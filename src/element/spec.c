/* Dtypes and element specs. */
#include "element/spec_internal.h"

#include "base/hash.h"
#include "base/limits.h"
#include "element/block.h"

#include <stdatomic.h>

struct mr_spec {
    _Atomic uint32_t refs;
    uint64_t hash;
    size_t n;
    char *structure;
    char *sorted; /* the same with sorted keys: specs that differ in their order are equal */
    struct mr_leaf_spec leaves[];
};

static const struct {
    const char *name;
    size_t size;
} dtypes[MR_DTYPE_COUNT] = {
    [MR_BOOL] = {"bool", 1},           [MR_INT8] = {"int8", 1},
    [MR_INT16] = {"int16", 2},         [MR_INT32] = {"int32", 4},
    [MR_INT64] = {"int64", 8},         [MR_UINT8] = {"uint8", 1},
    [MR_UINT16] = {"uint16", 2},       [MR_UINT32] = {"uint32", 4},
    [MR_UINT64] = {"uint64", 8},       [MR_FLOAT16] = {"float16", 2},
    [MR_BFLOAT16] = {"bfloat16", 2},   [MR_FLOAT32] = {"float32", 4},
    [MR_FLOAT64] = {"float64", 8},     [MR_STRING] = {"string", 0},
    [MR_COMPLEX64] = {"complex64", 8}, [MR_COMPLEX128] = {"complex128", 16},
};

size_t mr_dtype_size(mr_dtype dtype)
{
    return (unsigned)dtype < MR_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *mr_dtype_name(mr_dtype dtype)
{
    return (unsigned)dtype < MR_DTYPE_COUNT ? dtypes[dtype].name : NULL;
}

/* Copy @from in its canonical form: what does not count is 0. */
static int copy_leaf(struct mr_leaf_spec *to, const struct mr_leaf_spec *from, size_t i,
                     mr_error *err)
{
    memset(to, 0, sizeof *to);
    if (from->dtype == MR_DTYPE_NONE || from->dtype >= MR_DTYPE_COUNT) {
        return mr_error_set(err, MR_EINVAL, "leaf %zu: %u is not a dtype", i, from->dtype);
    }
    if (from->rank < MR_RANK_UNKNOWN || from->rank > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "leaf %zu: rank %d is not within 0 to %d", i,
                            from->rank, MR_RANK_MAX);
    }
    if (from->kind == MR_LEAF_DATASET && from->dtype == MR_STRING && from->rank == 0) {
        to->kind = MR_LEAF_DATASET;
        to->dims[0] = from->dims[0];
    } else if (from->kind != MR_LEAF_TENSOR) {
        return mr_error_set(err, MR_EINVAL, "leaf %zu: %u is not a kind of leaf, or not of a %s", i,
                            from->kind, mr_dtype_name((mr_dtype)from->dtype));
    }
    to->dtype = from->dtype;
    to->rank = from->rank;
    for (int d = 0; d < from->rank; d++) {
        if (from->dims[d] < MR_DIM_UNKNOWN) {
            return mr_error_set(err, MR_EINVAL, "leaf %zu: dimension %d is %lld", i, d,
                                (long long)from->dims[d]);
        }
        to->dims[d] = from->dims[d];
    }
    return MR_OK;
}

static uint64_t hash_of(const mr_spec *spec)
{
    uint64_t parts[2] = {mr_hash64(spec->leaves, spec->n * sizeof spec->leaves[0]),
                         mr_hash64(spec->sorted, strlen(spec->sorted))};
    uint64_t hash = mr_hash64(parts, sizeof parts);

    return hash == 0 ? 1 : hash;
}

int mr_spec_new_nested(const struct mr_leaf_spec *leaves, size_t n, const char *structure,
                       int nesting, mr_spec **ret, mr_error *err)
{
    if (n > MR_LEAVES_MAX) {
        return mr_error_set(err, MR_EINVAL, "%zu components in an element are more than %llu", n,
                            MR_LEAVES_MAX + 0ull);
    }
    MR_AUTO(mr_spec_unref)
    mr_spec *spec = mr_calloc(1, sizeof *spec + n * sizeof spec->leaves[0]);
    MR_CHECK_ALLOC(spec, err);
    atomic_init(&spec->refs, 1);
    spec->n = n;
    for (size_t i = 0; i < n; i++) {
        MR_TRY(copy_leaf(&spec->leaves[i], &leaves[i], i, err));
    }
    MR_TRY(mr_structure_check(structure, spec->leaves, n, nesting, &spec->structure, &spec->sorted,
                              err));
    spec->hash = hash_of(spec);
    *ret = MR_TAKE(spec);
    return MR_OK;
}

int mr_spec_new(const struct mr_leaf_spec *leaves, size_t n, const char *structure, mr_spec **ret,
                mr_error *err)
{
    return mr_spec_new_nested(leaves, n, structure, 0, ret, err);
}

mr_spec *mr_spec_ref(const mr_spec *spec)
{
    mr_spec *s = (mr_spec *)(uintptr_t)spec; /* The count is not part of what is immutable. */
    uint32_t before = atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);

    MR_ASSERT(before > 0);
    return s;
}

void mr_spec_unref(mr_spec *spec)
{
    if (spec == NULL) {
        return;
    }
    uint32_t before = atomic_fetch_sub_explicit(&spec->refs, 1, memory_order_acq_rel);
    MR_ASSERT(before > 0);
    if (before == 1) {
        mr_free(spec->structure);
        mr_free(spec->sorted);
        mr_free(spec);
    }
}

size_t mr_spec_leaves(const mr_spec *spec)
{
    return spec->n;
}

const struct mr_leaf_spec *mr_spec_leaf(const mr_spec *spec, size_t i)
{
    MR_ASSERT(i < spec->n);
    return &spec->leaves[i];
}

const char *mr_spec_structure(const mr_spec *spec)
{
    return spec->structure;
}

const char *mr_spec_sorted(const mr_spec *spec)
{
    return spec->sorted;
}

bool mr_spec_equal(const mr_spec *a, const mr_spec *b)
{
    return a == b || (a->hash == b->hash && a->n == b->n &&
                      memcmp(a->leaves, b->leaves, a->n * sizeof a->leaves[0]) == 0 &&
                      strcmp(a->sorted, b->sorted) == 0);
}

uint64_t mr_spec_hash(const mr_spec *spec)
{
    return spec->hash;
}

int mr_spec_copy_leaves(const mr_spec *spec, struct mr_leaf_spec **ret, mr_error *err)
{
    *ret = mr_memdup(spec->leaves, spec->n * sizeof spec->leaves[0]);
    MR_CHECK_ALLOC(*ret, err);
    return MR_OK;
}

size_t mr_spec_row_bytes(const mr_spec *spec)
{
    size_t n = mr_spec_leaves(spec);
    size_t total = 0;

    for (size_t i = 0; i < n; i++) {
        const struct mr_leaf_spec *leaf = mr_spec_leaf(spec, i);
        size_t bytes = mr_dtype_size((mr_dtype)leaf->dtype);

        if (bytes == 0 || leaf->rank < 0) {
            return 0;
        }
        for (int d = 0; d < leaf->rank; d++) {
            if (leaf->dims[d] < 0 || __builtin_mul_overflow(bytes, (size_t)leaf->dims[d], &bytes)) {
                return 0;
            }
        }
        if (__builtin_add_overflow(total, bytes, &total)) {
            return 0;
        }
    }
    return total;
}
