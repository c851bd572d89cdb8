/* string_to_hash_bucket: a number for each string, by one of several hashes. */
#include "base/hash.h"
#include "base/siphash.h"
#include "ops/attr.h"
#include "ops/rows.h"

/* MurmurHash64A. */
static uint64_t murmur(struct mr_string s, uint64_t seed)
{
    const uint64_t m = UINT64_C(0xc6a4a7935bd1e995);
    uint64_t h = seed ^ (s.size * m);
    size_t i = 0;

    for (; i + 8 <= s.size; i += 8) {
        uint64_t k = 0;

        for (unsigned b = 0; b < 8; b++) {
            k |= (uint64_t)s.data[i + b] << (8 * b);
        }
        k *= m;
        k ^= k >> 47;
        h = (h ^ k * m) * m;
    }
    if (i < s.size) {
        for (unsigned b = 0; i + b < s.size; b++) {
            h ^= (uint64_t)s.data[i + b] << (8 * b);
        }
        h *= m;
    }
    h = (h ^ h >> 47) * m;
    return h ^ h >> 47;
}

static uint64_t xxh3(struct mr_string s)
{
    return mr_hash64(s.size > 0 ? s.data : (const unsigned char *)"", s.size);
}

static int infer_bucket(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *hash = mr_attr_get(it->attrs, "hash");
    const struct mr_attr *key = mr_attr_get(it->attrs, "key");
    bool keyed = hash != NULL && mr_attr_says(hash, "siphash");

    if (hash != NULL && !keyed && !mr_attr_says(hash, "murmur") && !mr_attr_says(hash, "xxh3")) {
        return mr_error_set(err, MR_EINVAL, "hash '%.*s': wants xxh3, murmur or siphash",
                            (int)MR_MIN(hash->size, 20), (const char *)hash->bytes);
    }
    if (keyed ? key == NULL || key->count != 2 : key != NULL) {
        return mr_error_set(err, MR_EINVAL,
                            keyed ? "siphash wants a key of two ints" : "only siphash takes a key");
    }
    return mr_attr_int(it->attrs, "num_buckets", 0) >= 1
               ? MR_OK
               : mr_error_set(err, MR_EINVAL, "num_buckets must be at least 1");
}

static int fill_bucket(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    /* Of TensorFlow. */
    const uint64_t murmur_seed = UINT64_C(0xdecafcaffe);
    const struct mr_string *strings = mr_tensor_strings(&row->in[0]);
    const struct mr_attr *hash = mr_attr_get(row->attrs, "hash");
    const struct mr_attr *key = mr_attr_get(row->attrs, "key");
    uint64_t buckets = (uint64_t)mr_attr_int(row->attrs, "num_buckets", 1);
    bool is_murmur = hash != NULL && mr_attr_says(hash, "murmur");
    int64_t *results = (int64_t *)(void *)out->values;
    uint8_t bytes[MR_SIPHASH_KEY_BYTES];

    for (unsigned b = 0; key != NULL && b < sizeof bytes; b++) {
        bytes[b] = (uint8_t)((uint64_t)key->ints[b / 8] >> (8 * (b % 8)));
    }
    for (uint64_t i = 0; i < out->count; i++) {
        uint64_t h = key != NULL ? mr_siphash(bytes, strings[i].data, strings[i].size)
                     : is_murmur ? murmur(strings[i], murmur_seed)
                                 : xxh3(strings[i]);

        results[i] = (int64_t)(h % buckets);
    }
    return MR_OK;
}

MR_ROWS_KERNEL(string_to_hash_bucket, 1, 1, MR_SET(MR_STRING), .result = MR_INT64,
               .infer = infer_bucket, .fill = fill_bucket,
               .attr_table = {{"hash", MR_ATTR_BYTES, true},
                              {"key", MR_ATTR_INTS, true},
                              {"num_buckets", MR_ATTR_INT, false}});
