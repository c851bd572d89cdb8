/* range: start, start + step, ... up to but not including stop. */
#include "engine/ops/ops.h"

struct range_iter {
    struct mr_op_iter head;
    mr_dtype dtype;
    int64_t start;
    int64_t step;
    uint64_t count;
    uint64_t next; /* index of the next element */
};

/* How many elements; the arithmetic is unsigned, so that no pair of ends overflows. */
static uint64_t range_count(int64_t start, int64_t stop, int64_t step)
{
    if (step > 0) {
        uint64_t span = (uint64_t)stop - (uint64_t)start;

        return stop > start ? (span - 1) / (uint64_t)step + 1 : 0;
    }
    uint64_t span = (uint64_t)start - (uint64_t)stop;
    uint64_t down = 0 - (uint64_t)step;
    return start > stop ? (span - 1) / down + 1 : 0;
}

static int range_infer(struct mr_infer *in, mr_error *err)
{
    bool known_start;
    bool known_stop;
    bool known_step;
    int64_t start = mr_infer_int(in, "start", 0, &known_start);
    int64_t stop = mr_infer_int(in, "stop", 0, &known_stop);
    int64_t step = mr_infer_int(in, "step", 1, &known_step);
    const struct mr_attr *dtype = mr_infer_attr(in, "dtype");
    struct mr_leaf_spec leaf = {.dtype = dtype != NULL ? (uint8_t)dtype->i : MR_INT64};

    if (leaf.dtype == MR_BOOL || leaf.dtype == MR_STRING || leaf.dtype == MR_FLOAT16 ||
        leaf.dtype == MR_BFLOAT16 || leaf.dtype == MR_COMPLEX64 || leaf.dtype == MR_COMPLEX128) {
        return mr_error_set(err, MR_EINVAL,
                            "argument 'dtype' is %s, it must be an integer, float32 or float64",
                            mr_dtype_name((mr_dtype)leaf.dtype));
    }
    if (known_step && step == 0) {
        return mr_error_set(err, MR_EINVAL, "argument 'step' is 0");
    }
    if (known_start && known_stop && known_step) {
        uint64_t n = range_count(start, stop, step);

        in->cardinality = n <= INT64_MAX ? (int64_t)n : MR_CARDINALITY_UNKNOWN;
    }
    return mr_spec_new(&leaf, 1, NULL, &in->spec, err);
}

static int range_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct range_iter *it = (struct range_iter *)head;
    int64_t stop = 0;

    MR_TRY(mr_op_int(head, "start", 0, &it->start, err));
    MR_TRY(mr_op_int(head, "stop", 0, &stop, err));
    MR_TRY(mr_op_int(head, "step", 1, &it->step, err));
    if (it->step == 0) {
        return mr_op_fail_at_open(head, mr_error_set(err, MR_EINVAL, "argument 'step' is 0"), err);
    }
    it->dtype = (mr_dtype)mr_spec_leaf(head->ds->spec, 0)->dtype;
    it->count = range_count(it->start, stop, it->step);
    return MR_OK;
}

/* Wraps as the dtype does. */
#define FILL(type)                                                                                 \
    do {                                                                                           \
        type *to_ = to;                                                                            \
        for (uint32_t i_ = 0; i_ < n; i_++) {                                                      \
            to_[i_] = (type)(int64_t)(first + (uint64_t)i_ * step);                                \
        }                                                                                          \
    } while (0)

static void fill(mr_dtype dtype, void *to, uint32_t n, uint64_t first, uint64_t step)
{
    switch (dtype) {
    case MR_INT8:
    case MR_UINT8: FILL(uint8_t); break;
    case MR_INT16:
    case MR_UINT16: FILL(uint16_t); break;
    case MR_INT32:
    case MR_UINT32: FILL(uint32_t); break;
    case MR_INT64:
    case MR_UINT64: FILL(uint64_t); break;
    case MR_FLOAT32: FILL(float); break;
    case MR_FLOAT64: FILL(double); break;
    case MR_DTYPE_NONE:
    case MR_BOOL:
    case MR_FLOAT16:
    case MR_BFLOAT16:
    case MR_STRING:
    case MR_COMPLEX64:
    case MR_COMPLEX128:
    case MR_DTYPE_COUNT:
    default: break; /* infer lets none of these through */
    }
}

static int range_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                      mr_error *err)
{
    struct range_iter *it = (struct range_iter *)head;
    uint64_t left = it->count - it->next;
    uint64_t fit = pull->bytes / mr_dtype_size(it->dtype);
    uint64_t n = MR_MIN(left, pull->rows);

    if (left == 0) {
        return MR_END;
    }
    n = n > fit ? (fit > 0 ? fit : 1) : n;

    MR_TRY(mr_block_alloc((uint32_t)n, mr_spec_leaf(head->ds->spec, 0), 1, ret, err));
    fill(it->dtype, mr_block_data(*ret, 0), (uint32_t)n,
         (uint64_t)it->start + it->next * (uint64_t)it->step, (uint64_t)it->step);
    it->next += n;
    return MR_OK;
}

static int range_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct range_iter *it = (struct range_iter *)head;

    return mr_state_bounded(s, &it->next, it->count, err);
}

static int range_seek(struct mr_op_iter *head, uint64_t index, mr_error *err)
{
    struct range_iter *it = (struct range_iter *)head;

    it->next = MR_MIN(index, it->count);
    return MR_OK;
}

const struct mr_operator mr_operator_range = {
    .name = "range",
    .args = MR_ARGS(MR_INT("start", INT64_MIN, INT64_MAX), MR_INT("stop", INT64_MIN, INT64_MAX),
                    MR_INT("step", INT64_MIN, INT64_MAX),
                    MR_ARG("dtype", MR_ATTR_DTYPE, MR_ARG_OPTIONAL), MR_OPTIONAL_BOOL("whole")),
    .infer = range_infer,
    .run = MR_RUN(struct range_iter, .open = range_open, .pull = range_pull, .state = range_state,
                  .seek = range_seek),
};
