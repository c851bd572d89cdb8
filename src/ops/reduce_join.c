/* string_reduce_join: the strings along some axes, joined. The first axis that is named moves
 * first; by default all are, so that the last axis does. */
#include "ops/attr.h"
#include "ops/rows.h"

static int infer(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *axes = mr_attr_get(it->attrs, "axes");
    bool keep = mr_attr_bool(it->attrs, "keepdims", false);
    uint32_t mask = 0;

    if (it->out->rank < 0) {
        if (axes == NULL && !keep) {
            mr_shape_set(it->out, 0, NULL);
        }
        return MR_OK;
    }
    MR_TRY(mr_axes_resolve(axes, it->out->rank, &mask, err));
    for (int axis = it->out->rank - 1; axis >= 0; axis--) {
        if ((mask >> axis & 1u) != 0 && keep) {
            it->out->dims[axis] = 1;
        } else if ((mask >> axis & 1u) != 0) {
            mr_shape_remove(it->out, axis);
        }
    }
    return MR_OK;
}

/* Axes of the input: those that are joined, in the order in which they move, and the others. */
struct joining {
    const struct mr_tensor *in;
    uint64_t strides[MR_RANK_MAX];
    int joined[MR_RANK_MAX];
    int joined_n;
    int kept[MR_RANK_MAX]; /* the last moves first */
    int kept_n;
    uint64_t each; /* strings in a result */
};

static void plan(struct joining *j, const struct mr_row *row)
{
    const struct mr_attr *axes = mr_attr_get(row->attrs, "axes");
    int rank = row->in[0].rank;
    int n = axes != NULL ? axes->count : rank;
    uint32_t mask = 0;

    *j = (struct joining){.in = &row->in[0], .each = 1};
    mr_strides(rank, j->in->dims, j->strides);
    for (int i = 0; i < n; i++) {
        int64_t named = axes != NULL ? axes->ints[i] : rank - 1 - i;
        int axis = (int)(named < 0 ? named + rank : named); /* infer has checked it */

        j->joined[j->joined_n++] = axis;
        j->each *= (uint64_t)j->in->dims[axis];
        mask |= 1u << axis;
    }
    for (int axis = rank - 1; axis >= 0; axis--) {
        if ((mask >> axis & 1u) == 0) {
            j->kept[j->kept_n++] = axis;
        }
    }
}

/* Place in the input of what is number @i along @axes, the first of which moves first. */
static uint64_t place(const struct joining *j, const int *axes, int n, uint64_t i)
{
    uint64_t at = 0;

    for (int k = 0; k < n; k++) {
        uint64_t dim = (uint64_t)j->in->dims[axes[k]];

        at += i % dim * j->strides[axes[k]];
        i /= dim;
    }
    return at;
}

static int join(const struct joining *j, uint64_t start, const struct mr_attr *separator,
                struct mr_output *column, struct mr_string *ret, mr_error *err)
{
    const struct mr_string *strings = mr_tensor_strings(j->in) + start;
    size_t gap = separator == NULL ? 0 : separator->size;
    size_t size = 0;

    for (uint64_t i = 0; i < j->each; i++) {
        if (__builtin_add_overflow(size, i > 0 ? gap : 0, &size) ||
            __builtin_add_overflow(size, strings[place(j, j->joined, j->joined_n, i)].size,
                                   &size)) {
            return mr_error_nomem(err);
        }
    }
    unsigned char *at = mr_output_bytes(column, size, err);
    if (at == NULL) {
        return MR_EEXHAUSTED;
    }
    *ret = (struct mr_string){at, size};
    for (uint64_t i = 0; i < j->each; i++) {
        struct mr_string s = strings[place(j, j->joined, j->joined_n, i)];

        if (i > 0 && gap > 0) {
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

static int fill(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_attr *separator = mr_attr_get(row->attrs, "separator");
    struct mr_string *results = mr_result_strings(out);
    struct joining j;

    plan(&j, row);
    for (uint64_t i = 0; i < out->count; i++) {
        MR_TRY(join(&j, place(&j, j.kept, j.kept_n, i), separator, out->column, &results[i], err));
    }
    return MR_OK;
}

MR_ROWS_KERNEL(string_reduce_join, 1, 1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer, .fill = fill,
               .attr_table = {{"axes", MR_ATTR_INTS, true},
                              {"keepdims", MR_ATTR_BOOL, true},
                              {"separator", MR_ATTR_BYTES, true}});
