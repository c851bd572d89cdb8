/* elements_of: the elements of a dataset that is an element itself (what window and group_by_window
 * give). */
#include "engine/nested.h"
#include "engine/ops/ops.h"

struct elements_iter {
    struct mr_op_iter head;
    struct mr_gather rows;
    size_t charged;
};

/* A constant: it comes from outside, and can be counted. */
static int count_constant(struct mr_infer *in, const struct mr_attr *dataset,
                          const mr_spec *elements, mr_error *err)
{
    struct mr_gather rows = {0};
    int rc = mr_nested_read(dataset->bytes, dataset->size, elements, &rows, err);

    if (rc != MR_OK) {
        mr_error_wrap(err, "argument 'dataset'");
    }
    in->cardinality = (int64_t)rows.rows;
    mr_gather_free(&rows);
    return rc;
}

static int elements_infer(struct mr_infer *in, mr_error *err)
{
    const struct mr_attr *dataset = mr_infer_attr(in, "dataset");
    const struct mr_attr *spec = mr_infer_attr(in, "spec");
    MR_AUTO(mr_spec_unref) mr_spec *elements = NULL;

    MR_TRY_WRAP(mr_spec_from_json(spec->bytes, spec->size, &elements, err), err, "argument 'spec'");
    if (dataset->kind != MR_ATTR_VALUE) {
        MR_TRY(count_constant(in, dataset, elements, err));
    } else if (in->scope->values[dataset->i].spec.dims[0] != (int64_t)mr_spec_hash(elements)) {
        return mr_error_set(err, MR_EINVAL,
                            "argument 'spec' is not that of the elements of argument 'dataset'");
    }
    in->spec = MR_TAKE(elements);
    return MR_OK;
}

static int elements_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct elements_iter *it = (struct elements_iter *)head;
    const void *bytes = NULL;
    size_t size = 0;

    MR_TRY(mr_op_bytes(head, "dataset", &bytes, &size, err));
    if (!mr_env_charge(head->env, size)) {
        return mr_op_fail_at_open(head,
                                  mr_error_set(err, MR_EEXHAUSTED,
                                               "a dataset of %zu bytes as an element, %s", size,
                                               mr_env_budget_text(head->env).text),
                                  err);
    }
    it->charged = size;
    int rc = mr_nested_read(bytes, size, head->ds->spec, &it->rows, err);
    if (rc != MR_OK) {
        return mr_op_fail_at_open(head, rc, err);
    }
    const mr_block *row = head->bound != NULL ? mr_bound_row(head->bound) : NULL;
    if (row != NULL) {
        mr_nested_trace(&it->rows, row, 0);
    }
    return MR_OK;
}

static int elements_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                         mr_error *err)
{
    struct elements_iter *it = (struct elements_iter *)head;

    return mr_op_give(head, pull, &it->rows, MR_END, NULL, ret, err);
}

/* The dataset itself is there again when this is opened again: what was delivered says where it
 * stands. */
static int elements_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct elements_iter *it = (struct elements_iter *)head;

    if (!s->restores) {
        return MR_OK;
    }
    if (head->delivered > it->rows.rows) {
        return mr_state_damaged(err);
    }
    mr_gather_drop(&it->rows, head->delivered);
    return MR_OK;
}

static void elements_close(struct mr_op_iter *head)
{
    struct elements_iter *it = (struct elements_iter *)head;

    mr_env_release(head->env, it->charged);
    mr_gather_free(&it->rows);
}

const struct mr_operator mr_operator_elements_of = {
    .name = "elements_of",
    .args = MR_ARGS(MR_ARG("dataset", MR_ATTR_BYTES, MR_ARG_DATASET),
                    MR_ARG("spec", MR_ATTR_BYTES, MR_ARG_CONSTANT)),
    .infer = elements_infer,
    .run = MR_RUN(struct elements_iter, .open = elements_open, .pull = elements_pull,
                  .state = elements_state, .close = elements_close),
};
