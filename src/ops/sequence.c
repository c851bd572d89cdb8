/* sequence_steps: the feature lists of tf.SequenceExample records as tf.Example records, one a
 * step, so that parse_example reads them. (The context of a SequenceExample is a tf.Example as it
 * is.) */
#include "base/cancel.h"
#include "base/limits.h"
#include "ops/attr.h"
#include "ops/example_wire.h"
#include "ops/rows.h"

static struct mr_string name_of(struct mr_attrs attrs, size_t i)
{
    const struct mr_column *c = mr_block_column(mr_attr_get(attrs, "names")->block, 0);
    uint64_t at = c->offsets[i];

    return (struct mr_string){c->data == NULL ? NULL : (const unsigned char *)c->data + at,
                              c->offsets[i + 1] - at};
}

/* Result 2 * i is the steps of feature list i in all records, result 2 * i + 1 how many each record
 * has: -1 where it has no such list. */
static int infer(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *names = mr_attr_get(it->attrs, "names");

    if (it->in[0].rank < 0 || it->in[0].rank > 1) {
        return mr_error_set(err, MR_EINVAL, "wants one record or a vector of records");
    }
    if (names->block == NULL || mr_block_column_count(names->block) != 1 ||
        mr_block_column(names->block, 0)->kind != MR_COLUMN_FIXED ||
        mr_block_column(names->block, 0)->rank != 0 ||
        mr_block_column(names->block, 0)->dtype != MR_STRING) {
        return mr_error_set(err, MR_EINVAL, "attribute 'names': wants a list of strings");
    }
    size_t n = mr_block_rows(names->block);
    if (n == 0 || 2 * n > it->cap) {
        return mr_error_set(err, MR_EINVAL, "%zu feature lists; wants 1 to %zu", n, it->cap / 2);
    }
    it->nout = 2 * n;
    for (size_t i = 0; i < n; i++) {
        it->out[2 * i] =
            (struct mr_leaf_spec){.dtype = MR_STRING, .rank = 1, .dims = {MR_DIM_UNKNOWN}};
        it->out[2 * i + 1] = it->in[0];
        it->out[2 * i + 1].dtype = MR_INT64;
    }
    return MR_OK;
}

struct search {
    struct mr_string name;
    struct mr_string list;
    bool found;
};

/* Of several entries with one key the last counts, as in protobuf. */
static void note_list(void *ctx, struct mr_string key, struct mr_string list)
{
    struct search *s = ctx;

    if (mr_string_equal(key, s->name)) {
        s->list = list;
        s->found = true;
    }
}

static void count_step(void *ctx, struct mr_string feature)
{
    (void)feature;
    ++*(int64_t *)ctx;
}

/* The feature list in @record; *@count steps, -1: there is none. */
static int find_list(const struct mr_row *row, uint64_t record, size_t i, struct mr_string *list,
                     int64_t *count, mr_error *err)
{
    struct search s = {.name = name_of(row->attrs, i)};

    *count = -1;
    MR_TRY(mr_cancel_check(err)); /* a record is read again for each name */
    MR_TRY(mr_sequence_scan(mr_tensor_strings(&row->in[0])[record], note_list, &s, err));
    *list = s.list;
    if (!s.found) {
        return MR_OK;
    }
    *count = 0;
    return mr_sequence_steps(s.list, count_step, count, err);
}

static int dims(const struct mr_row *row, struct mr_leaf_spec *specs, mr_error *err)
{
    size_t n = mr_block_rows(mr_attr_get(row->attrs, "names")->block);

    for (size_t i = 0; i < n; i++) {
        specs[2 * i].dims[0] = 0;
        for (uint64_t r = 0; r < row->in[0].count; r++) {
            struct mr_string list;
            int64_t count;

            MR_TRY(find_list(row, r, i, &list, &count, err));
            specs[2 * i].dims[0] += MR_MAX(count, 0);
        }
    }
    return MR_OK;
}

/* ---- steps as records ---- */

struct writing {
    struct mr_result *out;
    struct mr_string name;
    uint64_t next;
    int rc;
    mr_error *err;
};

static size_t varint_size(uint64_t v)
{
    size_t n = 1;

    for (; v >= 0x80; v >>= 7) {
        n++;
    }
    return n;
}

static unsigned char *put_head(unsigned char *at, unsigned char tag, uint64_t size)
{
    *at++ = tag;
    for (; size >= 0x80; size >>= 7) {
        *at++ = (unsigned char)(size | 0x80);
    }
    *at++ = (unsigned char)size;
    return at;
}

static unsigned char *put_bytes(unsigned char *at, struct mr_string bytes)
{
    if (bytes.size > 0) {
        memcpy(at, bytes.data, bytes.size);
    }
    return at + bytes.size;
}

/* Tags of length-delimited fields. */
enum { FIELD_1 = 1 << 3 | 2, FIELD_2 = 2 << 3 | 2 };

static size_t field_size(size_t n)
{
    return 1 + varint_size(n) + n;
}

/* Example { features: Features { feature: { key: the name, value: @feature } } } */
static void write_step(void *ctx, struct mr_string feature)
{
    struct writing *w = ctx;
    size_t entry = field_size(w->name.size) + field_size(feature.size);
    size_t features = field_size(entry);
    size_t size = field_size(features);

    if (w->rc < 0 || w->next >= w->out->count) {
        return;
    }
    unsigned char *bytes = mr_output_bytes(w->out->column, size, w->err);
    if (bytes == NULL) {
        w->rc = MR_EEXHAUSTED;
        return;
    }
    unsigned char *at = put_head(bytes, FIELD_1, features);
    at = put_head(at, FIELD_1, entry);
    at = put_bytes(put_head(at, FIELD_1, w->name.size), w->name);
    at = put_bytes(put_head(at, FIELD_2, feature.size), feature);
    MR_ASSERT(at == bytes + size);
    mr_result_strings(w->out)[w->next++] = (struct mr_string){bytes, size};
}

static int fill(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    size_t i = out->index / 2;
    struct writing w = {.out = out, .name = name_of(row->attrs, i), .err = err};

    for (uint64_t r = 0; r < row->in[0].count; r++) {
        struct mr_string list;
        int64_t count;

        MR_TRY(find_list(row, r, i, &list, &count, err));
        if (out->index % 2 != 0) {
            memcpy(out->values + r * sizeof count, &count, sizeof count);
        } else if (count > 0) {
            MR_TRY(mr_sequence_steps(list, write_step, &w, err));
            MR_TRY(w.rc);
        }
    }
    return MR_OK;
}

MR_ROWS_KERNEL(sequence_steps, 1, 1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL, .infer = infer,
               .dims = dims, .fill = fill, .attr_table = {{"names", MR_ATTR_STRINGS, false}});
