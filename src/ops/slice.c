/* strided_slice: x[...] in one operator. Entry i of begin, end and strides is an index, a range,
 * "...", or a new axis, as bit i of the masks says; the spec is resolved against a shape first,
 * then it is a copy by strides. */
#include "ops/attr.h"
#include "ops/move.h"

/* Against an input shape: what is read, and the shape of the result. */
struct slice {
    int64_t first;                /* value */
    int64_t strides[MR_RANK_MAX]; /* one an axis of the result */
    struct mr_leaf_spec result;
};

struct entries {
    const struct mr_attr *begin;
    const struct mr_attr *end;
    const struct mr_attr *strides;
    int64_t begin_mask;
    int64_t end_mask;
    int64_t ellipsis_mask;
    int64_t new_axis_mask;
    int64_t shrink_axis_mask;
};

static bool bit(int64_t mask, int i)
{
    return ((mask >> i) & 1) != 0;
}

static int load_entries(struct mr_attrs attrs, struct entries *e, mr_error *err)
{
    *e = (struct entries){
        .begin = mr_attr_get(attrs, "begin"),
        .end = mr_attr_get(attrs, "end"),
        .strides = mr_attr_get(attrs, "strides"),
        .begin_mask = mr_attr_int(attrs, "begin_mask", 0),
        .end_mask = mr_attr_int(attrs, "end_mask", 0),
        .ellipsis_mask = mr_attr_int(attrs, "ellipsis_mask", 0),
        .new_axis_mask = mr_attr_int(attrs, "new_axis_mask", 0),
        .shrink_axis_mask = mr_attr_int(attrs, "shrink_axis_mask", 0),
    };
    if (e->begin->count != e->end->count || e->begin->count != e->strides->count ||
        e->begin->count > 32) {
        return mr_error_set(err, MR_EINVAL, "%d begins, %d ends and %d strides", e->begin->count,
                            e->end->count, e->strides->count);
    }
    uint64_t ellipses = (uint64_t)e->ellipsis_mask;
    if ((ellipses & (ellipses - 1)) != 0) {
        return mr_error_set(err, MR_EINVAL, "more than one ellipsis");
    }
    return MR_OK;
}

/* Axes of the input that entries behind @i take. */
static int axes_behind(const struct entries *e, int i)
{
    int n = 0;

    for (int k = i + 1; k < e->begin->count; k++) {
        n += !bit(e->new_axis_mask, k);
    }
    return n;
}

static int push_axis(struct slice *s, int64_t dim, int64_t stride, mr_error *err)
{
    if (s->result.rank == MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "a result of rank above %d", MR_RANK_MAX);
    }
    s->strides[s->result.rank] = stride;
    s->result.dims[s->result.rank++] = dim;
    return MR_OK;
}

/* Of what infer is told, where a shape may be of any size, products may wrap: nobody reads them. */
static int64_t times(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static void move_first(struct slice *s, int64_t steps, int64_t stride)
{
    s->first = (int64_t)((uint64_t)s->first + (uint64_t)times(steps, stride));
}

static int take_index(struct slice *s, int axis, int64_t index, int64_t dim, int64_t axis_stride,
                      mr_error *err)
{
    if (dim == MR_DIM_UNKNOWN) {
        return MR_OK; /* looked at when it is known */
    }
    if (index < -dim || index >= dim) {
        return mr_error_set(err, MR_EINVAL, "index %lld is out of range for axis %d of size %lld",
                            (long long)index, axis, (long long)dim);
    }
    move_first(s, index < 0 ? index + dim : index, axis_stride);
    return MR_OK;
}

static int64_t clamp(int64_t v, int64_t dim, int64_t low, int64_t high)
{
    v = v < 0 ? v + dim : v;
    return v < low ? low : v > high ? high : v;
}

/* NULL for a bound that is left out. */
static int take_range(struct slice *s, const int64_t *from, const int64_t *to, int64_t stride,
                      int64_t dim, int64_t axis_stride, mr_error *err)
{
    bool up = stride > 0;

    if (stride == 0 || stride == INT64_MIN) {
        return mr_error_set(err, MR_EINVAL, "stride %lld", (long long)stride);
    }
    if (dim == MR_DIM_UNKNOWN) {
        bool all = from == NULL && to == NULL && (stride == 1 || stride == -1);

        return push_axis(s, all ? dim : MR_DIM_UNKNOWN, 0, err);
    }
    /* As in Python: positions are clamped to what a walk in this direction can visit. */
    int64_t low = up ? 0 : -1;
    int64_t high = up ? dim : dim - 1;
    int64_t begin = from == NULL ? (up ? low : high) : clamp(*from, dim, low, high);
    int64_t end = to == NULL ? (up ? high : low) : clamp(*to, dim, low, high);
    int64_t span = up ? end - begin : begin - end;
    int64_t magnitude = up ? stride : -stride;
    int64_t n = span <= 0 ? 0 : (span - 1) / magnitude + 1;

    if (n > 0) {
        move_first(s, begin, axis_stride);
    }
    return push_axis(s, n, n > 1 ? times(stride, axis_stride) : axis_stride, err);
}

/* Axes [axis, axis + n) as they are. */
static int take_all(struct slice *s, const struct mr_leaf_spec *in, const int64_t *in_strides,
                    int axis, int n, mr_error *err)
{
    for (int d = axis; d < axis + n; d++) {
        MR_TRY(push_axis(s, in->dims[d], in_strides[d], err));
    }
    return MR_OK;
}

static void begin_slice(const struct mr_leaf_spec *in, struct slice *s,
                        int64_t in_strides[MR_RANK_MAX])
{
    int64_t stride = 1;

    memset(s, 0, sizeof *s);
    s->result.dtype = in->dtype;
    for (int d = in->rank - 1; d >= 0; d--) {
        in_strides[d] = stride;
        /* A dim is of no account where the shape is not known yet, or empty. */
        stride = times(stride, in->dims[d] < 1 ? 1 : in->dims[d]);
    }
}

static int resolve(struct mr_attrs attrs, const struct mr_leaf_spec *in, struct slice *s,
                   mr_error *err)
{
    int64_t in_strides[MR_RANK_MAX];
    struct entries e;
    int axis = 0;

    MR_TRY(load_entries(attrs, &e, err));
    begin_slice(in, s, in_strides);
    for (int i = 0; i < e.begin->count; i++) {
        if (bit(e.ellipsis_mask, i)) {
            int n = in->rank - axis - axes_behind(&e, i);

            n = n < 0 ? 0 : n;
            MR_TRY(take_all(s, in, in_strides, axis, n, err));
            axis += n;
        } else if (bit(e.new_axis_mask, i)) {
            MR_TRY(push_axis(s, 1, 0, err));
        } else if (axis >= in->rank) {
            return mr_error_set(err, MR_EINVAL, "more indices than the %d axes there are",
                                in->rank);
        } else if (bit(e.shrink_axis_mask, i)) {
            MR_TRY(take_index(s, axis, e.begin->ints[i], in->dims[axis], in_strides[axis], err));
            axis++;
        } else {
            MR_TRY(take_range(s, bit(e.begin_mask, i) ? NULL : &e.begin->ints[i],
                              bit(e.end_mask, i) ? NULL : &e.end->ints[i], e.strides->ints[i],
                              in->dims[axis], in_strides[axis], err));
            axis++;
        }
    }
    return take_all(s, in, in_strides, axis, in->rank - axis, err);
}

static int infer_slice(struct mr_kernel_infer *it, mr_error *err)
{
    struct slice s;

    MR_TRY(mr_infer_known_rank(it->in, err));
    MR_TRY(resolve(it->attrs, &it->in[0], &s, err));
    it->out[0] = s.result;
    return MR_OK;
}

static int fill_slice(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    struct mr_leaf_spec spec;
    struct slice s;

    mr_tensor_spec(&row->in[0], &spec);
    MR_TRY(resolve(row->attrs, &spec, &s, err));
    mr_result_copy(row, s.first, s.strides, out);
    return MR_OK;
}

/* ---- slice_axis: one axis, whose bounds are values ---- */

static int infer_axis(struct mr_kernel_infer *it, mr_error *err)
{
    int axis = 0;

    for (size_t i = 1; i < it->nin; i++) {
        MR_TRY(mr_infer_dtype(it->in, i, MR_SET_INDEX, err));
        MR_TRY(mr_infer_rank(it->in, i, 0, err));
    }
    MR_TRY(mr_infer_known_rank(it->in, err));
    MR_TRY(mr_attr_axis(it->attrs, 0, it->in[0].rank, &axis, err));
    it->out->dims[axis] = MR_DIM_UNKNOWN;
    return MR_OK;
}

static int resolve_axis(const struct mr_row *row, struct slice *s, mr_error *err)
{
    int64_t in_strides[MR_RANK_MAX];
    struct mr_leaf_spec in;
    int64_t bounds[3];
    int axis = 0;

    mr_tensor_spec(&row->in[0], &in);
    MR_TRY(mr_attr_axis(row->attrs, 0, in.rank, &axis, err));
    begin_slice(&in, s, in_strides);
    for (int i = 0; i < 3; i++) {
        bounds[i] = mr_tensor_index(&row->in[i + 1], 0);
    }
    MR_TRY(take_all(s, &in, in_strides, 0, axis, err));
    MR_TRY(take_range(s, mr_attr_bool(row->attrs, "from_start", false) ? NULL : &bounds[0],
                      mr_attr_bool(row->attrs, "to_end", false) ? NULL : &bounds[1], bounds[2],
                      in.dims[axis], in_strides[axis], err));
    return take_all(s, &in, in_strides, axis + 1, in.rank - axis - 1, err);
}

static int dims_axis(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    struct slice s;

    MR_TRY(resolve_axis(row, &s, err));
    *spec = s.result;
    return MR_OK;
}

static int fill_axis(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    struct slice s;

    MR_TRY(resolve_axis(row, &s, err));
    mr_result_copy(row, s.first, s.strides, out);
    return MR_OK;
}

MR_ROWS_KERNEL(slice_axis, 4, 4, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_axis,
               .dims = dims_axis, .fill = fill_axis,
               .attr_table = {{"axis", MR_ATTR_INT, true},
                              {"from_start", MR_ATTR_BOOL, true},
                              {"to_end", MR_ATTR_BOOL, true}});
MR_ROWS_KERNEL(strided_slice, 1, 1, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_slice,
               .fill = fill_slice,
               .attr_table = {{"begin", MR_ATTR_INTS, false},
                              {"end", MR_ATTR_INTS, false},
                              {"strides", MR_ATTR_INTS, false},
                              {"begin_mask", MR_ATTR_INT, true},
                              {"end_mask", MR_ATTR_INT, true},
                              {"ellipsis_mask", MR_ATTR_INT, true},
                              {"new_axis_mask", MR_ATTR_INT, true},
                              {"shrink_axis_mask", MR_ATTR_INT, true}});
