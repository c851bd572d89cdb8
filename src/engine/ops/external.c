/* distribute and from_dataset_id: elements that others make. The client library opens them (struct
 * mr_external_opener); here is only their place in the graph. */
#include "base/clock.h"
#include "element/spec_proto.h"
#include "engine/ops/ops.h"

/* How soon a wait that is not to be cancelled notices that its thread is wanted elsewhere. */
#define SLICE_MS 50

struct external_iter {
    struct mr_op_iter head;
    struct mr_external_iter ext;
    struct mr_canceller canceller;
    bool open;
};

static int not_empty(const struct mr_infer *in, const char *name, mr_error *err)
{
    MR_AUTO(mr_free) char *text = NULL;

    MR_TRY(mr_infer_string(in, name, &text, err));
    return text != NULL && text[0] != '\0'
               ? MR_OK
               : mr_error_set(err, MR_EINVAL, "argument '%s' is empty", name);
}

static int distribute_infer(struct mr_infer *in, mr_error *err)
{
    MR_TRY(not_empty(in, "service", err));
    MR_TRY(not_empty(in, "processing_mode", err));
    if (in->inputs[0]->scope != 0) {
        return mr_error_set(err, MR_EINVAL,
                            "the input uses values of the enclosing function: it cannot be sent to "
                            "workers; distribute what the function is given to");
    }
    if (in->inputs[0]->external) {
        return mr_error_set(
            err, MR_EUNIMPL,
            "the input is read from a service already, and a worker reads from none: "
            "distribute once");
    }
    MR_TRY(mr_infer_no_datasets(in->inputs[0]->spec, err));
    in->spec = mr_spec_ref(in->inputs[0]->spec);
    in->cardinality = mr_cardinality_some(in->inputs[0]->cardinality);
    return MR_OK;
}

static int from_dataset_id_infer(struct mr_infer *in, mr_error *err)
{
    const struct mr_attr *spec = mr_infer_attr(in, "spec");
    MR_AUTO(mr_spec_unref) mr_spec *read = NULL;
    bool known;
    int64_t cardinality = mr_infer_int(in, "cardinality", MR_CARDINALITY_UNKNOWN, &known);

    MR_TRY(not_empty(in, "service", err));
    MR_TRY(not_empty(in, "processing_mode", err));
    MR_TRY(not_empty(in, "dataset_id", err));
    MR_TRY_WRAP(mr_spec_unpack(spec->bytes, spec->size, &read, err), err, "argument 'spec'");
    MR_TRY(mr_infer_no_datasets(read, err));
    in->spec = MR_TAKE(read);
    in->cardinality = mr_cardinality_some(cardinality);
    return MR_OK;
}

static void wake(void *ctx)
{
    struct external_iter *it = ctx;

    MR_CHECK_MAGIC(&it->head, MR_OP_MAGIC);
    it->ext.cancel(it->ext.ctx);
}

static int external_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct external_iter *it = (struct external_iter *)head;
    struct mr_external_opener *opener = &head->env->external;
    const mr_dataset *ds = head->ds;
    mr_dataset *input = ds->ninputs > 0 ? ds->inputs[0] : NULL;

    if (opener->open == NULL) {
        int rc = mr_error_set(
            err, MR_EUNIMPL,
            "reading from a service is not possible here (inside of a worker): distribute once");

        return mr_op_fail_at_open(head, rc, err);
    }
    /* The count belongs to the dataset object: each iterator over it is a repetition of the job. */
    uint64_t ordinal = atomic_fetch_add((atomic_uint_least64_t *)(uintptr_t)&ds->reads, 1);

    MR_TRY(opener->open(opener->ctx, ds->op->name, ds->attrs, ds->nattrs, input, ordinal, &it->ext,
                        err));
    it->open = true;
    if (it->ext.cancel != NULL) {
        mr_env_add_canceller(head->env, &it->canceller, wake, it);
    }
    return MR_OK;
}

static int external_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                         mr_error *err)
{
    struct external_iter *it = (struct external_iter *)head;
    struct mr_want want = {.rows_max = pull->rows, .bytes_hint = pull->bytes};
    bool sliced = pull->deadline_ms == MR_NO_DEADLINE && pull->interrupt != NULL;
    int timeout_ms = -1;
    int rc;

    if (pull->deadline_ms == 0) {
        timeout_ms = 0;
    } else if (pull->deadline_ms != MR_NO_DEADLINE) {
        int64_t left = pull->deadline_ms - mr_now_ms();

        timeout_ms = left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
    } else if (sliced) {
        timeout_ms = SLICE_MS;
    }
    do {
        rc = it->ext.pull(it->ext.ctx, want, timeout_ms, ret, err);
    } while (rc == MR_TIMEOUT && sliced && !atomic_load(pull->interrupt));
    if (rc < 0) {
        err->traits |= MR_PERMANENT; /* what failed is the read, not an element */
    }
    return rc;
}

static int external_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    if (s->restores) {
        return mr_state_damaged(err); /* nothing that can be saved has one of these */
    }
    int rc =
        mr_error_set(err, MR_EPRECOND, "the position of a read from a service cannot be saved");

    return mr_op_fail_at_open(head, rc, err);
}

static void external_close(struct mr_op_iter *head)
{
    struct external_iter *it = (struct external_iter *)head;

    mr_env_remove_canceller(head->env, &it->canceller);
    if (it->open) {
        it->ext.close(it->ext.ctx);
    }
}

static const struct mr_op_run external_run = {
    .size = sizeof(struct external_iter),
    .open = external_open,
    .pull = external_pull,
    .state = external_state,
    .close = external_close,
};

#define OPTIONAL_TEXT(n) MR_ARG(n, MR_ATTR_BYTES, MR_ARG_OPTIONAL | MR_ARG_CONSTANT)
#define OPTIONAL_COUNT(n) MR_INT_FLAGS(n, -1, INT64_MAX, MR_ARG_OPTIONAL | MR_ARG_CONSTANT)
#define SERVICE_ARGS                                                                               \
    MR_ARG("service", MR_ATTR_BYTES, MR_ARG_CONSTANT),                                             \
        MR_ARG("processing_mode", MR_ATTR_BYTES, MR_ARG_CONSTANT), OPTIONAL_TEXT("job_name"),      \
        OPTIONAL_TEXT("compression"), OPTIONAL_TEXT("target_workers"), OPTIONAL_TEXT("guarantee"), \
        OPTIONAL_TEXT("on_loss"), OPTIONAL_TEXT("trainer_id"), OPTIONAL_TEXT("sharing"),           \
        OPTIONAL_TEXT("lag"), OPTIONAL_TEXT("last_round"), OPTIONAL_COUNT("num_consumers"),        \
        OPTIONAL_COUNT("consumer_index"), OPTIONAL_COUNT("resume_round"),                          \
        OPTIONAL_COUNT("first_epoch"), OPTIONAL_COUNT("max_outstanding_requests"),                 \
        OPTIONAL_COUNT("connect_timeout_ms"), OPTIONAL_COUNT("heartbeat_interval_ms")

const struct mr_operator mr_operator_distribute = {
    .name = "distribute",
    .inputs = 1,
    .external = true,
    .args = MR_ARGS(SERVICE_ARGS),
    .infer = distribute_infer,
    .run = &external_run,
};

const struct mr_operator mr_operator_from_dataset_id = {
    .name = "from_dataset_id",
    .external = true,
    .args = MR_ARGS(SERVICE_ARGS, MR_ARG("dataset_id", MR_ATTR_BYTES, MR_ARG_CONSTANT),
                    MR_ARG("spec", MR_ATTR_BYTES, MR_ARG_CONSTANT),
                    MR_INT_FLAGS("cardinality", -2, INT64_MAX, MR_ARG_OPTIONAL | MR_ARG_CONSTANT)),
    .infer = from_dataset_id_infer,
    .run = &external_run,
};
