/* first_equal: where a vector has each value for the first time. unique() is put together from
 * that. -0.0 is 0.0; a NaN is equal to nothing. */
#include "base/hash.h"
#include "ops/attr.h"
#include "ops/loops.h"
#include "ops/rows.h"
#include "ops/scratch.h"

static int infer_unique(struct mr_kernel_infer *it, mr_error *err)
{
    MR_TRY(mr_infer_rank(it->in, 0, 1, err));
    return mr_attr_index_dtype(it->attrs, MR_INT32, &it->out->dtype, err);
}

/* Values as keys that are equal where the values are. */
typedef void (*keys_fn)(const void *values, uint64_t n, uint64_t *keys);

/* A NaN has a key that no value has, and is looked up nowhere. */
#define KEYS(tag, dtype, S, W, N, LD, ST, ...)                                                     \
    static void keys_##tag(const void *values, uint64_t n, uint64_t *keys)                         \
    {                                                                                              \
        const S *x = values;                                                                       \
                                                                                                   \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            N v = LD(N, x[i]);                                                                     \
                                                                                                   \
            v = v == 0 ? 0 : v;                                                                    \
            keys[i] = 0;                                                                           \
            memcpy(&keys[i], &v, sizeof v);                                                        \
        }                                                                                          \
    }
MR_EACH_NUMBER(KEYS, )
MR_EACH_BOOL(KEYS, )
static const keys_fn keys_fns[MR_DTYPE_COUNT] = {MR_EACH_NUMBER(MR_LOOP_ENTRY, keys, )
                                                     MR_EACH_BOOL(MR_LOOP_ENTRY, keys, )};

static void string_keys(const struct mr_tensor *x, uint64_t *keys)
{
    for (uint64_t i = 0; i < x->count; i++) {
        struct mr_string s = mr_tensor_strings(x)[i];

        keys[i] = mr_hash64(s.data, s.size);
    }
}

/* A key that is a NaN of its dtype, as keys_<tag>() stored it. */
static bool is_nan_key(unsigned dtype, uint64_t key)
{
    double wide;

    if (dtype == MR_FLOAT64) {
        memcpy(&wide, &key, sizeof wide);
        return wide != wide;
    }
    if (dtype != MR_FLOAT32 && dtype != MR_FLOAT16 && dtype != MR_BFLOAT16) {
        return false;
    }
    float narrow = mr_float_from_bits((uint32_t)key);
    return narrow != narrow;
}

static bool same(const struct mr_tensor *x, const uint64_t *keys, uint64_t a, uint64_t b)
{
    return keys[a] == keys[b] &&
           (x->dtype != MR_STRING ||
            mr_string_equal(mr_tensor_strings(x)[a], mr_tensor_strings(x)[b]));
}

/* A table of 2^bits places at least half of which are free: 1 + the index of a value, or 0. */
static int fill_unique(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    uint64_t slots = 16;

    if (x->count == 0) {
        return MR_OK;
    }
    if (x->count > INT32_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "%llu values", (unsigned long long)x->count);
    }
    while (slots < 2 * x->count) {
        slots *= 2;
    }
    struct mr_scratch scratch;
    void *room;
    MR_TRY(mr_scratch_take(&scratch, x->count * sizeof(uint64_t) + slots * sizeof(uint32_t), &room,
                           err));
    uint64_t *keys = room;
    uint32_t *table = (uint32_t *)(keys + x->count);
    memset(table, 0, slots * sizeof *table);
    if (x->dtype == MR_STRING) {
        string_keys(x, keys);
    } else {
        keys_fns[x->dtype](x->values, x->count, keys);
    }
    for (uint64_t i = 0; i < x->count; i++) {
        uint64_t at = (x->dtype == MR_STRING ? keys[i] : mr_hash64(&keys[i], sizeof keys[i]));
        uint64_t first = i;

        if (!is_nan_key(x->dtype, keys[i])) {
            for (at &= slots - 1; table[at] != 0; at = (at + 1) & (slots - 1)) {
                if (same(x, keys, table[at] - 1, i)) {
                    first = table[at] - 1;
                    break;
                }
            }
            table[at] = (uint32_t)first + 1;
        }
        mr_result_put_index(out, i, first);
    }
    mr_scratch_free(&scratch);
    return MR_OK;
}

MR_ROWS_KERNEL(first_equal, 1, 1, MR_SET_ANY, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_unique,
               .fill = fill_unique, .attr_table = {{"dtype", MR_ATTR_DTYPE, true}});
