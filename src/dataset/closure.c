/* Closing functions: what a function uses of the one around it becomes inputs of its own. Functions
 * of tensor operators are closed, so that whoever copies or renumbers the operator sees all values
 * that it needs. */
#include "base/limits.h"
#include "dataset/function.h"
#include "ops/kernel.h"

struct closing {
    const mr_function *fn;
    const mr_builder *outer;
    mr_builder *made;
    uint32_t *map; /* of fn's values to made's */
};

static const mr_block *constant_of(const mr_builder *b, uint32_t value)
{
    const struct mr_fn_value *v = &b->values[value];

    return v->kind == MR_FN_NODE ? b->nodes[v->index]->constant : NULL;
}

/* The inputs: the function's own, then what it captures and is no constant. */
static int new_inputs(const struct closing *c, uint32_t *values, size_t *n, mr_spec **ret,
                      mr_error *err)
{
    size_t own = mr_spec_leaves(c->fn->inputs);
    MR_AUTO(mr_free)
    struct mr_leaf_spec *leaves = mr_calloc(own + c->fn->ncaptures, sizeof *leaves);
    size_t total = own;

    MR_CHECK_ALLOC(leaves, err);
    for (size_t i = 0; i < own; i++) {
        leaves[i] = *mr_spec_leaf(c->fn->inputs, i);
    }
    for (size_t i = 0; i < c->fn->ncaptures; i++) {
        uint32_t value = c->fn->captures[i];

        if (constant_of(c->outer, value) == NULL) {
            leaves[total++] = c->outer->values[value].spec;
            values[(*n)++] = value;
        }
    }
    return mr_spec_new(leaves, total, NULL, ret, err);
}

/* Add @node again, with the number that tells random operators apart. */
static int copy_node(struct closing *c, const struct mr_fn_node *node, mr_error *err)
{
    MR_AUTO(mr_free) uint32_t *inputs = mr_calloc(node->ninputs, sizeof *inputs);
    MR_AUTO(mr_free) uint32_t *outputs = mr_calloc(node->nout, sizeof *outputs);
    MR_AUTO(mr_free) struct mr_attr *attrs = mr_calloc(node->nattrs + 1, sizeof *attrs);
    size_t nattrs = node->nattrs;
    size_t nout;

    MR_CHECK_ALLOC(inputs, err);
    MR_CHECK_ALLOC(outputs, err);
    MR_CHECK_ALLOC(attrs, err);
    if (node->kernel == NULL) {
        return mr_builder_constant(c->made, node->constant, &c->map[node->first_value], err);
    }
    memcpy(attrs, node->attrs, nattrs * sizeof *attrs);
    if (node->salt != 0) {
        attrs[nattrs++] =
            (struct mr_attr){.name = MR_FN_SALT, .kind = MR_ATTR_INT, .i = node->salt};
    }
    for (size_t i = 0; i < node->ninputs; i++) {
        inputs[i] = c->map[node->inputs[i]];
    }
    MR_TRY(mr_builder_set_location(c->made, node->location, err));
    MR_TRY(mr_builder_set_called(c->made, node->called, err));
    MR_TRY(mr_builder_add_closed(c->made, node->kernel->name, inputs, node->ninputs, attrs, nattrs,
                                 node->functions, node->nfunctions, outputs, node->nout, &nout,
                                 err));
    memcpy(&c->map[node->first_value], outputs, node->nout * sizeof *outputs);
    return MR_OK;
}

static int copy_values(struct closing *c, mr_error *err)
{
    const mr_function *fn = c->fn;
    uint32_t next = (uint32_t)mr_spec_leaves(fn->inputs);

    for (size_t v = 0; v < fn->nvalues; v++) {
        const struct mr_fn_value *value = &fn->values[v];

        if (value->kind == MR_FN_INPUT) {
            c->map[v] = value->index;
        } else if (value->kind == MR_FN_NODE && value->output == 0) {
            MR_TRY(copy_node(c, fn->nodes[value->index], err));
        } else if (value->kind == MR_FN_CAPTURE) {
            const mr_block *constant = constant_of(c->outer, fn->captures[value->index]);

            if (constant != NULL) {
                MR_TRY(mr_builder_constant(c->made, constant, &c->map[v], err));
            } else {
                c->map[v] = next++;
            }
        }
    }
    return MR_OK;
}

/* @fn, whose captures are values of @b, without captures. @values: what it takes of @b instead,
 * appended from *@n on (there is room for all). */
static int close_function(const mr_function *fn, mr_builder *b, uint32_t *values, size_t *n,
                          mr_function **ret, mr_error *err)
{
    MR_AUTO(mr_spec_unref) mr_spec *inputs = NULL;
    MR_AUTO(mr_builder_free) mr_builder *made = NULL;
    MR_AUTO(mr_free) uint32_t *map = mr_calloc(fn->nvalues, sizeof *map);
    MR_AUTO(mr_free) uint32_t *outputs = mr_calloc(fn->noutputs, sizeof *outputs);
    struct closing c = {.fn = fn, .outer = b, .map = map};

    MR_CHECK_ALLOC(map, err);
    MR_CHECK_ALLOC(outputs, err);
    MR_TRY(new_inputs(&c, values, n, &inputs, err));
    MR_TRY(mr_builder_new(inputs, NULL, &made, err));
    c.made = made;
    MR_TRY(copy_values(&c, err));
    for (size_t i = 0; i < fn->noutputs; i++) {
        outputs[i] = map[fn->outputs[i]];
    }
    return mr_builder_finish(made, outputs, fn->noutputs, mr_spec_structure(fn->spec), ret, err);
}

static int close_one(mr_builder *b, mr_function *fn, uint32_t *inputs, size_t *n, mr_function **ret,
                     mr_error *err)
{
    if (fn->dataset != NULL) {
        return mr_error_set(err, MR_EINVAL, "a function returns a dataset, not tensors");
    }
    if (fn->ncaptures == 0) {
        *ret = mr_function_ref(fn);
        return MR_OK;
    }
    if (fn->scope != b->id) {
        return mr_error_set(err, MR_EINVAL, "a function uses values of another function");
    }
    return close_function(fn, b, inputs, n, ret, err);
}

struct closed {
    mr_function **functions;
    size_t n;
};

static void closed_free(struct closed *c)
{
    for (size_t i = 0; i < c->n; i++) {
        mr_function_unref(c->functions[i]);
    }
    mr_free(c->functions);
}
MR_AUTO_DEFINE(struct closed, closed_free)

int mr_builder_add(mr_builder *b, const char *op, const uint32_t *inputs, size_t ninputs,
                   const struct mr_attr *attrs, size_t nattrs, mr_function *const *functions,
                   size_t nfunctions, uint32_t *outputs, size_t cap, size_t *noutputs,
                   mr_error *err)
{
    struct closed made = {0};
    MR_AUTO(closed_free) struct closed *closed = &made;
    size_t room = ninputs;

    if (nfunctions == 0) {
        return mr_builder_add_closed(b, op, inputs, ninputs, attrs, nattrs, NULL, 0, outputs, cap,
                                     noutputs, err);
    }
    for (size_t i = 0; i < nfunctions; i++) {
        room += functions[i]->ncaptures;
    }
    MR_AUTO(mr_free) uint32_t *all = mr_reallocarray(NULL, room + 1, sizeof *all);
    closed->functions = mr_calloc(nfunctions, sizeof(mr_function *));
    MR_CHECK_ALLOC(all, err);
    MR_CHECK_ALLOC(closed->functions, err);
    if (ninputs > 0) {
        memcpy(all, inputs, ninputs * sizeof *all);
    }
    for (; closed->n < nfunctions; closed->n++) {
        MR_TRY_WRAP(
            close_one(b, functions[closed->n], all, &ninputs, &closed->functions[closed->n], err),
            err, "%s", op);
    }
    return mr_builder_add_closed(b, op, all, ninputs, attrs, nattrs, closed->functions, nfunctions,
                                 outputs, cap, noutputs, err);
}
