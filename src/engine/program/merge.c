/*
 * Two nodes that become one op. An image that is decoded only to be cut is not decoded whole: the
 * slice takes the decoder in, and who asks for the image's shape gets it from the header.
 *
 * Values stay what they were, and so do errors, with what src/image/README.md says of the bytes
 * behind a window.
 */
#include "engine/program/plan.h"

struct mr_merge_rule {
    const char *producer;
    const char *user;   /* reads the producer's result as its first input */
    const char *merged; /* takes the producer's inputs, then the user's others */
    bool consumes;      /* the user that makes merging worth while: there is one, no more */
};

static const struct mr_merge_rule rules[] = {
    {"decode_image", "slice", "decode_image", true},
    {"decode_image", "shape", "image_shape", false},
};

static const struct mr_merge_rule *find_rule(const struct mr_fn_node *producer,
                                             const struct mr_fn_node *user)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].producer, producer->kernel->name) == 0 &&
            strcmp(rules[i].user, user->kernel->name) == 0) {
            return &rules[i];
        }
    }
    return NULL;
}

/* A decoder with a window of its own has more inputs. */
static bool may_merge(const struct mr_fn_node *node)
{
    if (node->kernel == NULL || node->ninputs != 1 || node->nout != 1) {
        return false;
    }
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].producer, node->kernel->name) == 0) {
            return true;
        }
    }
    return false;
}

/* What input @i of @user is the result of, if that may merge. */
static size_t producer_of(const mr_function *fn, const struct mr_fn_node *user, size_t i)
{
    const struct mr_fn_value *v = &fn->values[user->inputs[i]];

    return v->kind == MR_FN_NODE && may_merge(fn->nodes[v->index]) ? v->index : fn->nnodes;
}

/* A node is absorbed if all who read its result can do without it. */
static void mark_absorbed(const mr_function *fn, const bool *live, struct mr_merge *merges)
{
    for (size_t n = 0; n < fn->nnodes; n++) {
        for (size_t i = 0; live[n] && i < fn->nodes[n]->ninputs; i++) {
            size_t at = producer_of(fn, fn->nodes[n], i);

            if (at < fn->nnodes) {
                const struct mr_merge_rule *rule =
                    i == 0 ? find_rule(fn->nodes[at], fn->nodes[n]) : NULL;

                merges[at].needed = merges[at].needed || rule == NULL;
                merges[at].consumers += rule != NULL && rule->consumes;
            }
        }
    }
    for (size_t i = 0; i < fn->noutputs; i++) {
        const struct mr_fn_value *v = &fn->values[fn->outputs[i]];

        if (v->kind == MR_FN_NODE) {
            merges[v->index].needed = true;
        }
    }
    for (size_t n = 0; n < fn->nnodes; n++) {
        merges[n].absorbed = !merges[n].needed && merges[n].consumers == 1;
    }
}

int mr_plan_merges(const mr_function *fn, const bool *live, struct mr_merge **ret, mr_error *err)
{
    struct mr_merge *merges = mr_calloc(fn->nnodes, sizeof *merges);

    MR_CHECK_ALLOC(merges, err);
    mark_absorbed(fn, live, merges);
    for (size_t n = 0; n < fn->nnodes; n++) {
        size_t at =
            live[n] && fn->nodes[n]->ninputs > 0 ? producer_of(fn, fn->nodes[n], 0) : fn->nnodes;

        if (at < fn->nnodes && merges[at].absorbed) {
            merges[n].producer = fn->nodes[at];
            merges[n].number = (uint32_t)at;
            merges[n].rule = find_rule(fn->nodes[at], fn->nodes[n]);
        }
    }
    *ret = merges;
    return MR_OK;
}

static bool takes(const struct mr_kernel *kernel, const char *attr)
{
    for (const struct mr_kernel_attr *a = kernel->attr_table; a->name != NULL; a++) {
        if (strcmp(a->name, attr) == 0) {
            return true;
        }
    }
    return false;
}

int mr_plan_merge(const struct mr_merge *merge, struct mr_plan_op *op, mr_error *err)
{
    const struct mr_fn_node *producer = merge->producer;
    const struct mr_fn_node *user = op->node;
    size_t u = 0;

    op->kernel = mr_kernel_find(merge->rule->merged);
    op->merged = mr_calloc(producer->nattrs + user->nattrs, sizeof *op->merged);
    MR_CHECK_ALLOC(op->merged, err);
    op->attrs = op->merged;
    op->nattrs = 0;
    for (size_t i = 0; i < producer->nattrs; i++) {
        const struct mr_attr *a = &producer->attrs[i];

        while (u < user->nattrs && strcmp(user->attrs[u].name, a->name) < 0) {
            op->merged[op->nattrs++] = user->attrs[u++];
        }
        /* One of that name is the user's, even where it is left out. */
        if (takes(op->kernel, a->name) && !takes(user->kernel, a->name)) {
            op->merged[op->nattrs++] = *a;
        }
    }
    while (u < user->nattrs) {
        op->merged[op->nattrs++] = user->attrs[u++];
    }
    return MR_OK;
}
