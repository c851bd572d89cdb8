/*
 * ignore_errors: elements that cannot be made are left out, and counted.
 *
 * What says something about an element or a file is dropped. What says something about this process
 * or the service (memory, a lost connection, a read that has failed, a fault of ours) is passed on:
 * dropping it would lose elements that are fine, and the next pull may well meet it again. So is
 * the first error beyond "max_errors", and then nothing more comes.
 */
#include "base/log.h"
#include "engine/ops/ops.h"

struct ignore_iter {
    struct mr_op_iter head;
    int64_t most; /* errors; -1: any number */
    uint64_t ignored;
};

static int ignore_errors_infer(struct mr_infer *in, mr_error *err)
{
    (void)err;
    in->spec = mr_spec_ref(in->inputs[0]->spec);
    in->cardinality = mr_cardinality_some(in->inputs[0]->cardinality);
    return MR_OK;
}

static int ignore_errors_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct ignore_iter *it = (struct ignore_iter *)head;

    MR_TRY(mr_op_int(head, "max_errors", -1, &it->most, err));
    return mr_op_open_input(head, ctx, err);
}

/* This error is one too many: it is given now and ever after. */
static int too_many(struct ignore_iter *it, int rc, mr_error *err)
{
    mr_error_wrap(err, "more than %lld errors (max_errors), of which this is one",
                  (long long)it->most);
    err->traits |= MR_PERMANENT;
    (void)mr_op_defer(&it->head, rc, err);
    return rc;
}

static int ignore_errors_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                              mr_error *err)
{
    struct ignore_iter *it = (struct ignore_iter *)head;
    bool log_warning = mr_op_bool(head, "log_warning", false);

    for (;;) {
        int rc = mr_op_pull(head->input, pull, ret, err);

        if (rc >= MR_OK || !mr_op_element_is_bad(rc, err)) {
            return rc;
        }
        if (it->most >= 0 && it->ignored == (uint64_t)it->most) {
            return too_many(it, rc, err);
        }
        it->ignored++;
        atomic_fetch_add(&head->env->ignored_errors, 1);
        if (log_warning) {
            mr_log(MR_LOG_WARN, "an element is left out", "so_far", "%llu",
                   (unsigned long long)it->ignored, "error", "%s", err->message, NULL);
        }
        MR_TRY(mr_op_interrupted(head, pull, err));
    }
}

static int ignore_errors_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct ignore_iter *it = (struct ignore_iter *)head;

    MR_TRY(mr_state_bounded(s, &it->ignored, it->most < 0 ? UINT64_MAX : (uint64_t)it->most, err));
    if (s->restores) {
        atomic_fetch_add(&head->env->ignored_errors, it->ignored);
    }
    return MR_OK;
}

const struct mr_operator mr_operator_ignore_errors = {
    .name = "ignore_errors",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .args = MR_ARGS(MR_OPTIONAL_BOOL("log_warning"), MR_OPTIONAL_INT("max_errors", -1, INT64_MAX)),
    .infer = ignore_errors_infer,
    .run = MR_RUN(struct ignore_iter, .open = ignore_errors_open, .pull = ignore_errors_pull,
                  .state = ignore_errors_state),
};
