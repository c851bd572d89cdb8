/* lookup_place: the place of each value in a list of keys, by a hash table that is made once a
 * program. */
#include "base/hash.h"
#include "ops/attr.h"
#include "ops/rows.h"

#include <millrace/dataset.h>

#define NOTHING UINT32_MAX

#define MAGIC UINT32_C(0x6d726c6b)

/* Other bits of the hash stand beside the place, so that a key is looked at where it is the
 * same. */
struct slot {
    uint32_t place; /* NOTHING: free */
    uint32_t tag;
};

struct places {
    uint32_t magic;
    mr_buffer *table;
    struct slot *slots; /* in it: a power of 2 of them, at least twice as many as keys */
    size_t mask;
    const struct mr_column *strings; /* or */
    const int64_t *ints;
    uint32_t n;
};

static uint64_t key_count(const struct mr_attr *strings, const struct mr_attr *ints)
{
    return strings != NULL ? mr_block_rows(strings->block) : (uint64_t)ints->count;
}

static struct mr_string key_at(const struct places *p, uint32_t i)
{
    const struct mr_column *c = p->strings;

    if (c == NULL) {
        return (struct mr_string){(const unsigned char *)&p->ints[i], sizeof p->ints[i]};
    }
    uint64_t at = c->kind == MR_COLUMN_VAR ? c->starts[i] : i;
    return (struct mr_string){(const unsigned char *)c->data + c->offsets[at],
                              (size_t)(c->offsets[at + 1] - c->offsets[at])};
}

static uint64_t hash_of(struct mr_string s)
{
    return mr_hash64(s.size > 0 ? s.data : (const unsigned char *)"", s.size);
}

/* The slot of @key: where it is, or would be. */
static struct slot *slot_of(const struct places *p, struct mr_string key, uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32);
    size_t at = (size_t)hash & p->mask;

    while (p->slots[at].place != NOTHING &&
           (p->slots[at].tag != tag || !mr_string_equal(key_at(p, p->slots[at].place), key))) {
        at = (at + 1) & p->mask;
    }
    return &p->slots[at];
}

static void places_free(void *state)
{
    struct places *p = state;

    if (p != NULL) {
        MR_CHECK_MAGIC(p, MAGIC);
        mr_buffer_unref(p->table);
        mr_free(p);
    }
}
MR_AUTO_DEFINE(struct places, places_free)

static int places_prepare(const struct mr_attr *attrs, size_t nattrs, void **state, mr_error *err)
{
    const struct mr_attr *strings = mr_attr_find(attrs, nattrs, "keys");
    const struct mr_attr *ints = mr_attr_find(attrs, nattrs, "int_keys");
    MR_AUTO(places_free) struct places *p = mr_calloc(1, sizeof *p);
    size_t slots = 16;

    MR_CHECK_ALLOC(p, err);
    p->magic = MAGIC;
    p->n = (uint32_t)key_count(strings, ints);
    p->strings = strings != NULL ? mr_block_column(strings->block, 0) : NULL;
    p->ints = ints != NULL ? ints->ints : NULL;
    while (slots < (size_t)p->n * 2) {
        slots *= 2;
    }
    p->mask = slots - 1;
    MR_TRY(mr_buffer_new(slots * sizeof *p->slots, &p->table, err));
    p->slots = mr_buffer_data(p->table);
    for (size_t i = 0; i < slots; i++) {
        p->slots[i].place = NOTHING;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        struct mr_string key = key_at(p, i);
        uint64_t hash = hash_of(key);
        struct slot *slot = slot_of(p, key, hash);

        if (slot->place == NOTHING) { /* the first of equal ones */
            *slot = (struct slot){i, (uint32_t)(hash >> 32)};
        }
    }
    *state = MR_TAKE(p);
    return MR_OK;
}

static int infer_places(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *strings = mr_attr_get(it->attrs, "keys");
    const struct mr_attr *ints = mr_attr_get(it->attrs, "int_keys");
    int64_t buckets = mr_attr_int(it->attrs, "oov_buckets", 0);

    if ((strings == NULL) == (ints == NULL)) {
        return mr_error_set(err, MR_EINVAL, "takes either keys or int_keys");
    }
    if (key_count(strings, ints) >= NOTHING) {
        return mr_error_set(err, MR_EINVAL, "%" PRIu64 " keys are too many",
                            key_count(strings, ints));
    }
    if (buckets < 0 || buckets > INT64_MAX - UINT32_MAX) {
        return mr_error_set(err, MR_EINVAL, "oov_buckets %" PRId64, buckets);
    }
    return mr_infer_dtype(it->in, 0, strings != NULL ? MR_SET(MR_STRING) : MR_SET(MR_INT64), err);
}

/* The bucket of a value that is no key: integers by their decimal text, as strings of it. */
static int64_t bucket_of(const struct places *p, struct mr_string value, int64_t buckets)
{
    char text[32];

    if (p->strings == NULL) {
        int64_t v;

        memcpy(&v, value.data, sizeof v);
        value = (struct mr_string){(const unsigned char *)text,
                                   (size_t)snprintf(text, sizeof text, "%" PRId64, v)};
    }
    return (int64_t)(hash_of(value) % (uint64_t)buckets);
}

static int fill_places(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct places *p = row->state;
    int64_t buckets = mr_attr_int(row->attrs, "oov_buckets", 0);
    int64_t *results = (int64_t *)(void *)out->values;

    MR_CHECK_MAGIC(p, MAGIC);
    for (uint64_t i = 0; i < out->count; i++) {
        const unsigned char *at = row->in[0].values + i * row->in[0].width;
        struct mr_string value = {at, row->in[0].width};

        if (p->strings != NULL) {
            memcpy(&value, at, sizeof value);
        }
        uint32_t place = slot_of(p, value, hash_of(value))->place;
        results[i] = place != NOTHING ? (int64_t)place
                     : buckets > 0    ? p->n + bucket_of(p, value, buckets)
                                      : -1;
    }
    return MR_OK;
}

MR_ROWS_KERNEL(lookup_place, 1, 1, 0, .result = MR_INT64, .infer = infer_places,
               .fill = fill_places, .prepare = places_prepare, .release = places_free,
               .attr_table = {{"int_keys", MR_ATTR_INTS, true},
                              {"keys", MR_ATTR_STRINGS, true},
                              {"oov_buckets", MR_ATTR_INT, true}});
