/*
 * ignore_errors: elements that cannot be made are left out.
 *
 * What says something about an element or a file is dropped. What says something about this process
 * or the service (memory, a lost connection, a read that has failed, a fault of ours) is passed on:
 * dropping it would lose elements that are fine, and the next pull may well meet it again.
 */
#include "base/log.h"
#include "engine/ops/ops.h"

struct ignore_errors_iter {
    struct mr_op_iter head;
    uint64_t left_out; /* by this iterator: for the log only */
};

static int ignore_errors_infer(struct mr_infer *in, mr_error *err)
{
    in->spec = mr_spec_ref(in->inputs[0]->spec);
    in->cardinality = mr_cardinality_some(in->inputs[0]->cardinality);
    return MR_OK;
}

static int ignore_errors_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                              mr_error *err)
{
    struct ignore_errors_iter *it = (struct ignore_errors_iter *)head;
    bool log_warning = mr_op_bool(head, "log_warning", false);

    for (;;) {
        int rc = mr_op_pull(head->input, pull, ret, err);

        if (rc >= MR_OK || !mr_op_element_is_bad(rc, err)) {
            return rc;
        }
        it->left_out++;
        if (log_warning) {
            mr_log(MR_LOG_WARN, "an element is left out", "so_far", "%llu",
                   (unsigned long long)it->left_out, "error", "%s", err->message, NULL);
        }
        MR_TRY(mr_op_interrupted(head, pull, err));
    }
}

const struct mr_operator mr_operator_ignore_errors = {
    .name = "ignore_errors",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .args = MR_ARGS(MR_OPTIONAL_BOOL("log_warning")),
    .infer = ignore_errors_infer,
    .run = MR_RUN(struct ignore_errors_iter, .open = mr_op_open_input, .pull = ignore_errors_pull),
};
