/* string_segment_join: strings that have one number, joined in the order in which they stand. As
 * TensorFlow has it, no separator comes before there is anything to separate. */
#include "ops/attr.h"
#include "ops/rows.h"
#include "ops/scratch.h"

static int infer_join(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_leaf_spec *x = &it->in[0];
    const struct mr_leaf_spec *ids = &it->in[1];

    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_STRING), err));
    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
    MR_TRY(mr_infer_dtype(it->in, 2, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(it->in, 2, 0, err));
    if (x->rank < 0 || ids->rank < 0) {
        return mr_error_set(err, MR_EINVAL, "wants ranks that are known");
    }
    if (ids->rank == 0 || ids->rank > x->rank) {
        return mr_error_set(err, MR_EINVAL, "segment_ids of rank %d, strings of rank %d", ids->rank,
                            x->rank);
    }
    for (int d = 0; d < ids->rank; d++) {
        if (x->dims[d] >= 0 && ids->dims[d] >= 0 && x->dims[d] != ids->dims[d]) {
            return mr_error_set(err, MR_EINVAL, "axis %d: %lld strings and %lld segment_ids", d,
                                (long long)x->dims[d], (long long)ids->dims[d]);
        }
    }
    int64_t dims[MR_RANK_MAX] = {MR_DIM_UNKNOWN};
    int rank = 1;
    for (int d = 0; d < x->rank; d++) {
        if (d >= ids->rank) {
            dims[rank++] = x->dims[d];
        }
    }
    mr_shape_set(it->out, rank, dims);
    return MR_OK;
}

static int dims_join(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    int64_t n = mr_tensor_index(&row->in[2], 0);

    if (n < 0) {
        return mr_error_set(err, MR_EINVAL, "num_segments %lld", (long long)n);
    }
    spec->dims[0] = n;
    return MR_OK;
}

/* Which result string @i of the input is a part of. */
struct places {
    const struct mr_tensor *ids;
    uint64_t inner; /* strings for each id */
};

static uint64_t place_of(const struct places *p, uint64_t i)
{
    return (uint64_t)mr_tensor_index(p->ids, i / p->inner) * p->inner + i % p->inner;
}

static int check_ids(const struct mr_row *row, mr_error *err)
{
    int64_t n = mr_tensor_index(&row->in[2], 0);

    for (uint64_t i = 0; i < row->in[1].count; i++) {
        int64_t id = mr_tensor_index(&row->in[1], i);

        if (id < 0 || id >= n) {
            return mr_error_set(err, MR_EINVAL, "segment_id %lld of %lld segments", (long long)id,
                                (long long)n);
        }
    }
    return MR_OK;
}

/* The strings by the results that they are parts of: those of result k end at ends[k]. */
static void sort_parts(const struct places *p, uint64_t n, uint64_t results, uint64_t *order,
                       uint64_t *ends)
{
    memset(ends, 0, (size_t)results * sizeof *ends);
    for (uint64_t i = 0; i < n; i++) {
        ends[place_of(p, i)]++;
    }
    for (uint64_t k = 0, before = 0; k < results; k++) {
        uint64_t count = ends[k];

        ends[k] = before;
        before += count;
    }
    for (uint64_t i = 0; i < n; i++) {
        order[ends[place_of(p, i)]++] = i;
    }
}

static int join(const struct mr_string *strings, const uint64_t *order, uint64_t n,
                const struct mr_attr *separator, struct mr_output *column, struct mr_string *ret,
                mr_error *err)
{
    size_t gap = separator != NULL ? separator->size : 0;
    size_t size = 0;

    for (uint64_t i = 0; i < n; i++) {
        if (__builtin_add_overflow(size, size > 0 ? gap : 0, &size) ||
            __builtin_add_overflow(size, strings[order[i]].size, &size)) {
            return mr_error_nomem(err);
        }
    }
    unsigned char *at = mr_output_bytes(column, size, err);
    if (at == NULL) {
        return MR_EEXHAUSTED;
    }
    *ret = (struct mr_string){at, size};
    for (uint64_t i = 0; i < n; i++) {
        struct mr_string s = strings[order[i]];

        if (at > ret->data && gap > 0) {
            memcpy(at, separator->bytes, gap);
            at += gap;
        }
        if (s.size > 0) {
            memcpy(at, s.data, s.size);
            at += s.size;
        }
    }
    return MR_OK;
}

static int join_all(const struct mr_row *row, uint64_t *order, uint64_t *ends,
                    struct mr_result *out, mr_error *err)
{
    uint64_t n = row->in[0].count;
    struct places p = {&row->in[1], row->in[1].count > 0 ? n / row->in[1].count : 1};

    sort_parts(&p, n, out->count, order, ends);
    for (uint64_t k = 0; k < out->count; k++) {
        uint64_t begin = k > 0 ? ends[k - 1] : 0;

        MR_TRY(join(mr_tensor_strings(&row->in[0]), order + begin, ends[k] - begin,
                    mr_attr_get(row->attrs, "separator"), out->column, &mr_result_strings(out)[k],
                    err));
    }
    return MR_OK;
}

static int fill_join(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    size_t n = (size_t)row->in[0].count;
    struct mr_scratch scratch;
    void *order;

    MR_TRY(check_ids(row, err));
    MR_TRY(mr_scratch_take(&scratch, (n + (size_t)out->count) * sizeof(uint64_t), &order, err));
    int rc = join_all(row, order, (uint64_t *)order + n, out, err);
    mr_scratch_free(&scratch);
    return rc;
}

MR_ROWS_KERNEL(string_segment_join, 3, 3, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_join,
               .dims = dims_join, .fill = fill_join,
               .attr_table = {{"separator", MR_ATTR_BYTES, true}});
