/* Building functions: values are appended, checked and hashed as they come; finishing takes a
 * snapshot. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/scope.h"
#include "dataset/canonical.h"
#include "dataset/function.h"
#include "ops/kernel.h"

#include <string.h>

static atomic_uint_least64_t builder_ids;

/* Room for @extra more entries of *@array. */
static int reserve(void **array, size_t size, size_t n, size_t extra, size_t *cap, mr_error *err)
{
    if (n + extra <= *cap) {
        return MR_OK;
    }
    size_t wanted = *cap * 2 > n + extra ? *cap * 2 : n + extra + 8;
    void *bigger = mr_reallocarray(*array, wanted, size);
    MR_CHECK_ALLOC(bigger, err);
    *array = bigger;
    *cap = wanted;
    return MR_OK;
}

static int check_room(const mr_builder *b, size_t values, mr_error *err)
{
    if (b->nvalues + values > MR_GRAPH_NODES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a function has more than %d values",
                            MR_GRAPH_NODES_MAX);
    }
    return MR_OK;
}

int mr_builder_new(const mr_spec *inputs, mr_builder *outer, mr_builder **ret, mr_error *err)
{
    mr_builder *b = mr_calloc(1, sizeof *b);
    size_t n = mr_spec_leaves(inputs);

    MR_CHECK_ALLOC(b, err);
    b->id = atomic_fetch_add(&builder_ids, 1) + 1;
    b->outer = outer;
    b->depth = outer != NULL ? outer->depth + 1 : 0;
    b->inputs = mr_spec_ref(inputs);
    int rc = reserve((void **)&b->values, sizeof *b->values, 0, n, &b->values_cap, err);
    if (rc == MR_OK && b->depth >= MR_FUNCTION_DEPTH_MAX) {
        rc = mr_error_set(err, MR_EINVAL, "functions are nested more than %d deep",
                          MR_FUNCTION_DEPTH_MAX);
    }
    if (rc != MR_OK) {
        mr_builder_free(b);
        return rc;
    }
    for (size_t i = 0; i < n; i++) {
        struct mr_fn_value *v = &b->values[i];

        *v = (struct mr_fn_value){
            .kind = MR_FN_INPUT, .index = (uint32_t)i, .spec = *mr_spec_leaf(inputs, i)};
        mr_canonical_input((uint32_t)i, v->hash);
    }
    b->nvalues = n;
    *ret = b;
    return MR_OK;
}

void mr_builder_free(mr_builder *b)
{
    if (b == NULL) {
        return;
    }
    for (size_t i = 0; i < b->nnodes; i++) {
        mr_fn_node_unref(b->nodes[i]);
    }
    mr_free(b->nodes);
    mr_free(b->values);
    mr_free(b->captures);
    mr_spec_unref(b->inputs);
    mr_free(b);
}

struct mr_fn_node *mr_fn_node_ref(struct mr_fn_node *node)
{
    atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed);
    return node;
}

void mr_fn_node_unref(struct mr_fn_node *node)
{
    if (node == NULL || atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; node->functions != NULL && i < node->nfunctions; i++) {
        mr_function_unref(node->functions[i]);
    }
    mr_free(node->functions);
    mr_free(node->inputs);
    mr_attrs_free(node->attrs, node->nattrs);
    mr_free(node->out_specs);
    mr_block_unref(node->constant);
    mr_free(node);
}

/* Append @node (whose out_specs are set) and its values; takes the reference on success. */
static int append_node(mr_builder *b, struct mr_fn_node *node, mr_error *err)
{
    uint8_t hash[16];

    MR_TRY(check_room(b, node->nout, err));
    MR_TRY(reserve((void **)&b->values, sizeof *b->values, b->nvalues, node->nout, &b->values_cap,
                   err));
    MR_TRY(
        reserve((void **)&b->nodes, sizeof(struct mr_fn_node *), b->nnodes, 1, &b->nodes_cap, err));
    MR_TRY(mr_canonical_fn_node(node, b->values, hash, err));
    node->first_value = (uint32_t)b->nvalues;
    for (size_t i = 0; i < node->nout; i++) {
        struct mr_fn_value *v = &b->values[b->nvalues++];

        *v = (struct mr_fn_value){.kind = MR_FN_NODE,
                                  .index = (uint32_t)b->nnodes,
                                  .output = (uint32_t)i,
                                  .spec = node->out_specs[i]};
        mr_canonical_result(hash, (uint32_t)i, v->hash);
    }
    b->nodes[b->nnodes++] = node;
    return MR_OK;
}

static int check_inputs(const mr_builder *b, const uint32_t *inputs, size_t n, mr_error *err)
{
    if (n > MR_LEAVES_MAX) {
        return mr_error_set(err, MR_EINVAL, "%zu inputs, at most %d are possible", n,
                            MR_LEAVES_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        if (inputs[i] >= b->nvalues) {
            return mr_error_set(err, MR_EINVAL, "input %zu: there is no value %u", i, inputs[i]);
        }
    }
    return MR_OK;
}

static int check_functions(const mr_builder *b, mr_function *const *functions, size_t n,
                           mr_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (functions[i]->scope != 0 && functions[i]->scope != b->id) {
            return mr_error_set(err, MR_EINVAL,
                                "function %zu uses values of another function than this one", i);
        }
    }
    return MR_OK;
}

static int infer(const mr_builder *b, struct mr_fn_node *node, mr_error *err)
{
    struct mr_leaf_spec *in = mr_calloc(node->ninputs, sizeof *in);
    struct mr_leaf_spec *out = mr_calloc(MR_LEAVES_MAX, sizeof *out);
    size_t nout = 0;
    int rc;

    if (in == NULL || out == NULL) {
        rc = mr_error_nomem(err);
        goto done;
    }
    for (size_t i = 0; i < node->ninputs; i++) {
        in[i] = b->values[node->inputs[i]].spec;
        if (in[i].kind == MR_LEAF_DATASET) {
            rc = mr_error_set(err, MR_EINVAL, "input %zu is a dataset, not a tensor", i);
            goto done;
        }
    }
    rc = mr_kernel_infer(node->kernel, node->attrs, node->nattrs, in, node->ninputs, out,
                         MR_LEAVES_MAX, &nout, err);
    if (rc == MR_OK) {
        node->out_specs = mr_memdup(out, nout * sizeof *out);
        node->nout = nout;
        rc = node->out_specs != NULL ? MR_OK : mr_error_nomem(err);
    }

done:
    mr_free(in);
    mr_free(out);
    return rc;
}

/* Random operators that look alike are told apart by a number, which definitions carry as attribute
 * "!salt". */
static int take_salt(mr_builder *b, struct mr_fn_node *node, mr_error *err)
{
    size_t kept = 0;
    bool given = false;

    for (size_t i = 0; i < node->nattrs; i++) {
        struct mr_attr a = node->attrs[i];

        if (strcmp(a.name, MR_FN_SALT) != 0) {
            node->attrs[kept++] = a;
            continue;
        }
        bool fits = a.kind == MR_ATTR_INT && a.i > 0 && a.i <= UINT32_MAX;
        node->salt = fits ? (uint32_t)a.i : 0;
        given = true;
        mr_free((void *)(uintptr_t)a.name);
        mr_free((void *)(uintptr_t)a.bytes);
        mr_free((void *)(uintptr_t)a.ints);
        mr_block_unref(a.block);
    }
    node->nattrs = kept;
    bool random = (node->kernel->flags & MR_KERNEL_RANDOM) != 0;
    if (given && (!random || node->salt == 0)) {
        return mr_error_set(err, MR_EINVAL, "argument '%s' is for random operators, and at least 1",
                            MR_FN_SALT);
    }
    if (random && !given) {
        node->salt = ++b->randoms;
    }
    return MR_OK;
}

static int new_node(mr_builder *b, const struct mr_kernel *kernel, const uint32_t *inputs,
                    size_t ninputs, const struct mr_attr *attrs, size_t nattrs,
                    mr_function *const *functions, size_t nfunctions, struct mr_fn_node **ret,
                    mr_error *err)
{
    struct mr_fn_node *node = mr_calloc(1, sizeof *node);
    int rc = MR_OK;

    MR_CHECK_ALLOC(node, err);
    atomic_init(&node->refs, 1);
    node->kernel = kernel;
    node->ninputs = ninputs;
    node->inputs =
        mr_memdup(ninputs > 0 ? inputs : (const uint32_t[]){0}, ninputs * sizeof *inputs);
    node->functions = mr_calloc(nfunctions, sizeof(mr_function *));
    if (node->inputs == NULL || node->functions == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    for (size_t i = 0; i < nfunctions; i++) {
        node->functions[node->nfunctions++] = mr_function_ref(functions[i]);
    }
    for (size_t i = 0; i < nattrs; i++) {
        if (attrs[i].kind == MR_ATTR_VALUE) {
            rc = mr_error_set(err, MR_EINVAL,
                              "argument '%s': attributes of tensor operators are constants",
                              attrs[i].name);
            goto out;
        }
    }
    rc = mr_attrs_copy(attrs, nattrs, &node->attrs, err);
    if (rc != MR_OK) {
        goto out;
    }
    node->nattrs = nattrs;
    rc = take_salt(b, node, err);
    if (rc == MR_OK) {
        rc = infer(b, node, err);
    }
    if (rc == MR_OK) {
        *ret = node;
        node = NULL;
    }

out:
    mr_fn_node_unref(node);
    return rc;
}

int mr_builder_add(mr_builder *b, const char *op, const uint32_t *inputs, size_t ninputs,
                   const struct mr_attr *attrs, size_t nattrs, mr_function *const *functions,
                   size_t nfunctions, uint32_t *outputs, size_t cap, size_t *noutputs,
                   mr_error *err)
{
    const struct mr_kernel *kernel = mr_kernel_find(op);
    struct mr_fn_node *node = NULL;
    int rc;

    if (kernel == NULL) {
        return mr_error_set(err, MR_EUNIMPL,
                            "there is no tensor operator '%s' in this version (%s)", op,
                            MR_VERSION);
    }
    rc = check_inputs(b, inputs, ninputs, err);
    if (rc == MR_OK) {
        rc = check_functions(b, functions, nfunctions, err);
    }
    if (rc == MR_OK && nfunctions > 0) {
        rc = mr_error_set(err, MR_EINVAL, "takes no functions");
    }
    if (rc == MR_OK) {
        rc = new_node(b, kernel, inputs, ninputs, attrs, nattrs, functions, nfunctions, &node, err);
    }
    if (rc == MR_OK && node->nout > cap) {
        rc = mr_error_set(err, MR_EINVAL, "%zu results, the caller has room for %zu", node->nout,
                          cap);
    }
    if (rc == MR_OK) {
        rc = append_node(b, node, err);
    }
    if (rc != MR_OK) {
        mr_fn_node_unref(node);
        mr_error_wrap(err, "%s", op);
        return rc;
    }
    for (size_t i = 0; i < node->nout; i++) {
        outputs[i] = node->first_value + (uint32_t)i;
    }
    *noutputs = node->nout;
    return MR_OK;
}

/* The spec of the one row of @tensor. */
static int constant_spec(const mr_block *tensor, struct mr_leaf_spec *ret, mr_error *err)
{
    if (mr_block_rows(tensor) != 1 || mr_block_column_count(tensor) != 1) {
        return mr_error_set(
            err, MR_EINVAL,
            "a constant is a block of one row and one column, not of %u rows and %u columns",
            mr_block_rows(tensor), mr_block_column_count(tensor));
    }
    const struct mr_column *c = mr_block_column(tensor, 0);
    const int64_t *dims = c->kind == MR_COLUMN_FIXED ? c->dims : c->row_dims;

    *ret = (struct mr_leaf_spec){.dtype = c->dtype, .rank = (int8_t)c->rank};
    memcpy(ret->dims, dims, c->rank * sizeof *dims);
    return MR_OK;
}

int mr_builder_constant(mr_builder *b, const mr_block *tensor, uint32_t *ret, mr_error *err)
{
    struct mr_leaf_spec spec;
    struct mr_fn_node *node = NULL;
    int rc = constant_spec(tensor, &spec, err);

    if (rc != MR_OK) {
        goto out;
    }
    node = mr_calloc(1, sizeof *node);
    if (node == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    atomic_init(&node->refs, 1);
    node->constant = mr_block_ref(tensor);
    node->out_specs = mr_memdup(&spec, sizeof spec);
    node->inputs = mr_calloc(0, sizeof *node->inputs);
    node->nout = 1;
    rc = node->out_specs != NULL && node->inputs != NULL ? append_node(b, node, err)
                                                         : mr_error_nomem(err);
    if (rc == MR_OK) {
        *ret = node->first_value;
        node = NULL;
    }

out:
    mr_fn_node_unref(node);
    if (rc != MR_OK) {
        mr_error_wrap(err, "constant");
    }
    return rc;
}

int mr_builder_capture(mr_builder *b, uint32_t outer_value, uint32_t *ret, mr_error *err)
{
    if (b->outer == NULL) {
        return mr_error_set(err, MR_EINVAL, "capture: there is no function around this one");
    }
    if (outer_value >= b->outer->nvalues) {
        return mr_error_set(err, MR_EINVAL, "capture: the function around this one has no value %u",
                            outer_value);
    }
    for (size_t i = 0; i < b->nvalues; i++) {
        if (b->values[i].kind == MR_FN_CAPTURE && b->captures[b->values[i].index] == outer_value) {
            *ret = (uint32_t)i; /* captured before */
            return MR_OK;
        }
    }
    MR_TRY(check_room(b, 1, err));
    MR_TRY(reserve((void **)&b->values, sizeof *b->values, b->nvalues, 1, &b->values_cap, err));
    MR_TRY(reserve((void **)&b->captures, sizeof *b->captures, b->ncaptures, 1, &b->captures_cap,
                   err));
    struct mr_fn_value *v = &b->values[b->nvalues];
    const struct mr_fn_value *outer = &b->outer->values[outer_value];
    *v = (struct mr_fn_value){
        .kind = MR_FN_CAPTURE, .index = (uint32_t)b->ncaptures, .spec = outer->spec};
    mr_canonical_capture(outer->hash, v->hash);
    b->captures[b->ncaptures++] = outer_value;
    *ret = (uint32_t)b->nvalues++;
    return MR_OK;
}

int mr_builder_value_spec(const mr_builder *b, uint32_t value, struct mr_leaf_spec *ret,
                          mr_error *err)
{
    if (value >= b->nvalues) {
        return mr_error_set(err, MR_EINVAL, "there is no value %u", value);
    }
    *ret = b->values[value].spec;
    return MR_OK;
}
