/* Building functions: values are appended, checked and hashed as they come; finishing takes a
 * snapshot. */
#include "base/limits.h"
#include "dataset/canonical.h"
#include "dataset/function.h"
#include "dataset/location.h"
#include "ops/kernel.h"

static atomic_uint_least64_t builder_ids;

/* Room for @values more values. */
static int check_room(mr_builder *b, size_t values, mr_error *err)
{
    if (b->nvalues + values > MR_GRAPH_NODES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a function has more than %d values",
                            MR_GRAPH_NODES_MAX);
    }
    return mr_grow(&b->values, &b->values_cap, b->nvalues, values, sizeof *b->values)
               ? MR_OK
               : mr_error_nomem(err);
}

int mr_builder_new(const mr_spec *inputs, mr_builder *outer, mr_builder **ret, mr_error *err)
{
    MR_AUTO(mr_builder_free) mr_builder *b = mr_calloc(1, sizeof *b);
    size_t n = mr_spec_leaves(inputs);

    MR_CHECK_ALLOC(b, err);
    b->id = atomic_fetch_add(&builder_ids, 1) + 1;
    b->outer = outer;
    b->depth = outer != NULL ? outer->depth + 1 : 0;
    b->inputs = mr_spec_ref(inputs);
    MR_TRY(check_room(b, n, err));
    if (b->depth >= MR_FUNCTION_DEPTH_MAX) {
        return mr_error_set(err, MR_EINVAL, "functions are nested more than %d deep",
                            MR_FUNCTION_DEPTH_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        struct mr_fn_value *v = &b->values[i];

        *v = (struct mr_fn_value){
            .kind = MR_FN_INPUT, .index = (uint32_t)i, .spec = *mr_spec_leaf(inputs, i)};
        mr_canonical_input((uint32_t)i, v->hash);
    }
    b->nvalues = n;
    *ret = MR_TAKE(b);
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
    mr_free(b->location);
    mr_free(b->called);
    mr_free(b);
}

/* Words for messages take the place of others. */
static int set_words(char **words, const char *text, mr_error *err)
{
    char *copy = NULL;

    MR_TRY(mr_location_copy(text, &copy, err));
    mr_free(*words);
    *words = copy;
    return MR_OK;
}

int mr_builder_set_location(mr_builder *b, const char *location, mr_error *err)
{
    return set_words(&b->location, location, err);
}

int mr_builder_set_called(mr_builder *b, const char *called, mr_error *err)
{
    return set_words(&b->called, called, err);
}

/* Append @node (whose out_specs are set) and its values; takes the reference on success. */
static int append_node(mr_builder *b, struct mr_fn_node *node, mr_error *err)
{
    uint8_t hash[16];

    MR_TRY(check_room(b, node->nout, err));
    if (!mr_grow(&b->nodes, &b->nodes_cap, b->nnodes, 1, sizeof(struct mr_fn_node *))) {
        return mr_error_nomem(err);
    }
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

/* The functions of @node as infer sees them; the leaves are one array. */
static int describe_functions(const struct mr_fn_node *node, struct mr_kernel_function *ret,
                              struct mr_leaf_spec **leaves, mr_error *err)
{
    struct mr_leaf_spec *at;
    size_t total = 0;

    for (size_t f = 0; f < node->nfunctions; f++) {
        total += mr_spec_leaves(node->functions[f]->inputs) + node->functions[f]->noutputs;
    }
    *leaves = at = mr_calloc(total, sizeof *at);
    MR_CHECK_ALLOC(at, err);
    for (size_t f = 0; f < node->nfunctions; f++) {
        const mr_function *fn = node->functions[f];
        size_t nin = mr_spec_leaves(fn->inputs);

        ret[f] = (struct mr_kernel_function){
            .in = at, .nin = nin, .out = at + nin, .nout = fn->noutputs};
        for (size_t i = 0; i < nin; i++) {
            *at++ = *mr_spec_leaf(fn->inputs, i);
        }
        for (size_t i = 0; i < fn->noutputs; i++) {
            *at++ = *mr_spec_leaf(fn->spec, i);
        }
    }
    return MR_OK;
}

static int infer(const mr_builder *b, struct mr_fn_node *node, mr_error *err)
{
    MR_AUTO(mr_free)
    struct mr_kernel_function *functions = mr_calloc(node->nfunctions, sizeof *functions);
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;
    MR_AUTO(mr_free) struct mr_leaf_spec *in = mr_calloc(node->ninputs, sizeof *in);
    MR_AUTO(mr_free) struct mr_leaf_spec *out = mr_calloc(MR_LEAVES_MAX, sizeof *out);

    MR_CHECK_ALLOC(functions, err);
    MR_CHECK_ALLOC(in, err);
    MR_CHECK_ALLOC(out, err);
    MR_TRY(describe_functions(node, functions, &leaves, err));
    for (size_t i = 0; i < node->ninputs; i++) {
        in[i] = b->values[node->inputs[i]].spec;
        if (in[i].kind == MR_LEAF_DATASET) {
            return mr_error_set(err, MR_EINVAL, "input %zu is a dataset, not a tensor", i);
        }
    }
    MR_TRY(mr_kernel_infer(node->kernel, node->attrs, node->nattrs, in, node->ninputs, functions,
                           node->nfunctions, out, MR_LEAVES_MAX, &node->nout, err));
    node->out_specs = mr_memdup(out, node->nout * sizeof *out);
    MR_CHECK_ALLOC(node->out_specs, err);
    return MR_OK;
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
        mr_attr_clear(&a);
    }
    node->nattrs = kept;
    bool random = node->random;
    if (given && (!random || node->salt == 0)) {
        return mr_error_set(err, MR_EINVAL, "argument '%s' is for random operators, and at least 1",
                            MR_FN_SALT);
    }
    if (random && !given) {
        node->salt = ++b->randoms;
    }
    return MR_OK;
}

static struct mr_fn_node *new_node(const uint32_t *inputs, size_t ninputs)
{
    struct mr_fn_node *node = mr_calloc(1, sizeof *node);

    if (node == NULL) {
        return NULL;
    }
    atomic_init(&node->refs, 1);
    node->ninputs = ninputs;
    node->inputs =
        mr_memdup(ninputs > 0 ? inputs : (const uint32_t[]){0}, ninputs * sizeof *inputs);
    if (node->inputs == NULL) {
        mr_free(node);
        return NULL;
    }
    return node;
}

static int set_attrs(struct mr_fn_node *node, const struct mr_attr *attrs, size_t n, mr_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (attrs[i].kind == MR_ATTR_VALUE) {
            return mr_error_set(err, MR_EINVAL,
                                "argument '%s': attributes of tensor operators are constants",
                                attrs[i].name);
        }
    }
    MR_TRY(mr_attrs_copy(attrs, n, &node->attrs, err));
    node->nattrs = n;
    return MR_OK;
}

static int add_functions(struct mr_fn_node *node, mr_function *const *functions, size_t n,
                         mr_error *err)
{
    node->functions = mr_calloc(n, sizeof(mr_function *));
    MR_CHECK_ALLOC(node->functions, err);
    for (; node->nfunctions < n; node->nfunctions++) {
        mr_function *fn = functions[node->nfunctions];

        MR_ASSERT(fn->ncaptures == 0);
        if (fn->depth >= MR_FUNCTION_DEPTH_MAX) {
            return mr_error_set(err, MR_EINVAL, "functions are nested more than %d deep",
                                MR_FUNCTION_DEPTH_MAX);
        }
        node->functions[node->nfunctions] = mr_function_ref(fn);
        node->random = node->random || mr_function_draws(fn);
    }
    return MR_OK;
}

static int set_location(const mr_builder *b, struct mr_fn_node *node, mr_error *err)
{
    MR_TRY(mr_location_copy(b->location, &node->location, err));
    MR_TRY(mr_location_copy(b->called, &node->called, err));
    node->places = mr_places_add_location(0, node->location);
    node->places = mr_places_add_location(node->places, node->called);
    for (size_t i = 0; i < node->nfunctions; i++) {
        node->places = mr_places_add(node->places, node->functions[i]->places);
    }
    return MR_OK;
}

static int add(mr_builder *b, const struct mr_kernel *kernel, const uint32_t *inputs,
               size_t ninputs, const struct mr_attr *attrs, size_t nattrs,
               mr_function *const *functions, size_t nfunctions, uint32_t *outputs, size_t cap,
               size_t *noutputs, mr_error *err)
{
    MR_TRY(check_inputs(b, inputs, ninputs, err));
    MR_AUTO(mr_fn_node_unref) struct mr_fn_node *node = new_node(inputs, ninputs);
    MR_CHECK_ALLOC(node, err);
    node->kernel = kernel;
    node->random = (kernel->flags & MR_KERNEL_RANDOM) != 0;
    MR_TRY(add_functions(node, functions, nfunctions, err));
    MR_TRY(set_attrs(node, attrs, nattrs, err));
    MR_TRY(take_salt(b, node, err));
    MR_TRY(set_location(b, node, err));
    MR_TRY(infer(b, node, err));
    if (node->nout > cap) {
        return mr_error_set(err, MR_EINVAL, "%zu results, the caller has room for %zu", node->nout,
                            cap);
    }
    MR_TRY(append_node(b, node, err));
    for (size_t i = 0; i < node->nout; i++) {
        outputs[i] = node->first_value + (uint32_t)i;
    }
    *noutputs = node->nout;
    node = NULL; /* the builder's */
    return MR_OK;
}

int mr_builder_add_closed(mr_builder *b, const char *op, const uint32_t *inputs, size_t ninputs,
                          const struct mr_attr *attrs, size_t nattrs, mr_function *const *functions,
                          size_t nfunctions, uint32_t *outputs, size_t cap, size_t *noutputs,
                          mr_error *err)
{
    const struct mr_kernel *kernel = mr_kernel_find(op);

    if (kernel == NULL) {
        return mr_error_set(err, MR_EUNIMPL,
                            "there is no tensor operator '%s' in this version (%s)", op,
                            MR_VERSION);
    }
    MR_TRY_WRAP(add(b, kernel, inputs, ninputs, attrs, nattrs, functions, nfunctions, outputs, cap,
                    noutputs, err),
                err, "%s", op);
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

static int add_constant(mr_builder *b, const mr_block *tensor, uint32_t *ret, mr_error *err)
{
    struct mr_leaf_spec spec;

    MR_TRY(constant_spec(tensor, &spec, err));
    MR_AUTO(mr_fn_node_unref) struct mr_fn_node *node = new_node(NULL, 0);
    MR_CHECK_ALLOC(node, err);
    node->constant = mr_block_ref(tensor);
    node->out_specs = mr_memdup(&spec, sizeof spec);
    MR_CHECK_ALLOC(node->out_specs, err);
    node->nout = 1;
    MR_TRY(append_node(b, node, err));
    *ret = MR_TAKE(node)->first_value;
    return MR_OK;
}

int mr_builder_constant(mr_builder *b, const mr_block *tensor, uint32_t *ret, mr_error *err)
{
    MR_TRY_WRAP(add_constant(b, tensor, ret, err), err, "constant");
    return MR_OK;
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
    if (!mr_grow(&b->captures, &b->captures_cap, b->ncaptures, 1, sizeof *b->captures)) {
        return mr_error_nomem(err);
    }
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
