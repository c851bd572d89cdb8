/* millrace.DatasetDef to datasets. Nothing in it is trusted: everything is built again through
 * mr_dataset_apply() and mr_builder_add(), which check and infer; what is left to this file are
 * indices, order, sizes and the amount of work. */
#include "base/limits.h"
#include "dataset/canonical.h"
#include "dataset/definition.h"
#include "dataset/function.h"
#include "element/spec_proto.h"

/* A function that is used twice inside functions that are used twice ... grows fast: this is where
 * it ends. */
#define WORK_MAX (4u * MR_GRAPH_NODES_MAX)

struct parsed_function {
    mr_function *fn;
    uint64_t scope; /* builder it was parsed in; 0: needs none */
};

struct parser {
    const struct mr_definition_parts *parts;
    const Millrace__DatasetDef *def; /* of @parts */
    mr_block **constants;            /* decoded when first used */
    struct parsed_function *functions;
    uint32_t *outputs; /* scratch, MR_LEAVES_MAX */
    size_t work;
};

static int constant(struct parser *p, uint32_t i, const mr_block **ret, mr_error *err)
{
    size_t used = 0;

    if (i >= p->parts->nconstants) {
        return mr_error_set(err, MR_EINVAL, "there is no constant %u", i);
    }
    if (p->constants[i] == NULL) {
        mr_buffer *buffer = p->parts->constants[i];

        MR_TRY_WRAP(mr_block_decode(buffer, 0, 0 /* spec_hash */, &p->constants[i], &used, err),
                    err, "constant %u", i);
        if (used != mr_buffer_size(buffer)) {
            return mr_error_set(err, MR_EINVAL, "constant %u: %zu bytes follow it", i,
                                mr_buffer_size(buffer) - used);
        }
    }
    *ret = p->constants[i];
    return MR_OK;
}

/* Point @to at @from; nothing is copied. */
static int parse_attr(struct parser *p, const Millrace__Attr *from, struct mr_attr *to,
                      mr_error *err)
{
    *to = (struct mr_attr){.name = from->name};
    switch (from->value_case) {
    case MILLRACE__ATTR__VALUE_I:
        to->kind = MR_ATTR_INT;
        to->i = from->i;
        return MR_OK;
    case MILLRACE__ATTR__VALUE_F:
        to->kind = MR_ATTR_FLOAT;
        to->f = from->f;
        return MR_OK;
    case MILLRACE__ATTR__VALUE_B:
        to->kind = MR_ATTR_BOOL;
        to->i = from->b;
        return MR_OK;
    case MILLRACE__ATTR__VALUE_S:
        to->kind = MR_ATTR_BYTES;
        to->bytes = from->s.len > 0 ? from->s.data : (const uint8_t *)"";
        to->size = from->s.len;
        return MR_OK;
    case MILLRACE__ATTR__VALUE_DTYPE:
        to->kind = MR_ATTR_DTYPE;
        to->i = from->dtype;
        return MR_OK;
    case MILLRACE__ATTR__VALUE_SHAPE:
        if (from->shape->n_dims > MR_RANK_MAX ||
            (from->shape->unknown_rank && from->shape->n_dims > 0)) {
            return mr_error_set(err, MR_EINVAL, "argument '%s': %zu dimensions", from->name,
                                from->shape->n_dims);
        }
        to->kind = MR_ATTR_SHAPE;
        to->count = from->shape->unknown_rank ? -1 : (int32_t)from->shape->n_dims;
        to->ints = from->shape->dims;
        return MR_OK;
    case MILLRACE__ATTR__VALUE_INTS:
        if (from->ints->n_values > INT32_MAX) {
            return mr_error_set(err, MR_EINVAL, "argument '%s': %zu integers", from->name,
                                from->ints->n_values);
        }
        to->kind = MR_ATTR_INTS;
        to->count = (int32_t)from->ints->n_values;
        to->ints = from->ints->values;
        return MR_OK;
    case MILLRACE__ATTR__VALUE_CONSTANT:
        to->kind = MR_ATTR_BLOCK;
        return constant(p, from->constant, &to->block, err);
    case MILLRACE__ATTR__VALUE_STRINGS:
        to->kind = MR_ATTR_STRINGS;
        return constant(p, from->strings, &to->block, err);
    case MILLRACE__ATTR__VALUE_VALUE_OF_SCOPE:
        to->kind = MR_ATTR_VALUE;
        to->i = from->value_of_scope;
        return MR_OK;
    case MILLRACE__ATTR__VALUE__NOT_SET:
    case _MILLRACE__ATTR__VALUE__CASE_IS_INT_SIZE:
    default:
        return mr_error_set(err, MR_EINVAL, "argument '%s' has no value, or one of a later version",
                            from->name);
    }
}

static int parse_attrs(struct parser *p, Millrace__Attr *const *from, size_t n, struct mr_attr *to,
                       mr_error *err)
{
    for (size_t i = 0; i < n; i++) {
        MR_TRY(parse_attr(p, from[i], &to[i], err));
    }
    return MR_OK;
}

static int count_work(struct parser *p, size_t n, mr_error *err)
{
    p->work += n;
    if (p->work > WORK_MAX) {
        return mr_error_set(err, MR_EINVAL, "the definition is worth more than %u operators",
                            WORK_MAX);
    }
    return MR_OK;
}

static int parse_function(struct parser *p, uint32_t index, uint32_t limit, mr_builder *outer,
                          mr_function **ret, mr_error *err);

/* What a node is applied to: attributes that point into the definition, references to functions. */
struct operands {
    struct mr_attr *attrs;
    mr_function **functions;
    size_t nfunctions;
};

static void operands_free(struct operands *o)
{
    for (size_t i = 0; o->functions != NULL && i < o->nfunctions; i++) {
        mr_function_unref(o->functions[i]);
    }
    mr_free(o->functions);
    mr_free(o->attrs);
}
MR_AUTO_DEFINE(struct operands, operands_free)

static int parse_operands(struct parser *p, Millrace__Attr *const *attrs, size_t nattrs,
                          const uint32_t *functions, size_t nfunctions, uint32_t limit,
                          mr_builder *scope, struct operands *ret, mr_error *err)
{
    ret->nfunctions = nfunctions;
    ret->functions = mr_calloc(nfunctions, sizeof(mr_function *));
    MR_CHECK_ALLOC(ret->functions, err);
    ret->attrs = mr_calloc(nattrs, sizeof *ret->attrs);
    MR_CHECK_ALLOC(ret->attrs, err);
    for (size_t i = 0; i < nfunctions; i++) {
        MR_TRY(parse_function(p, functions[i], limit, scope, &ret->functions[i], err));
    }
    return parse_attrs(p, attrs, nattrs, ret->attrs, err);
}

/* ---- graphs of datasets ---- */

static int parse_node(struct parser *p, const Millrace__DatasetNode *node, uint32_t number,
                      mr_dataset *const *before, uint32_t limit, mr_builder *scope,
                      mr_dataset **ret, mr_error *err)
{
    MR_AUTO(mr_free) mr_dataset **inputs = mr_calloc(node->n_inputs, sizeof(mr_dataset *));
    struct operands o = {0};
    MR_AUTO(operands_free) struct operands *held = &o;

    MR_CHECK_ALLOC(inputs, err);
    for (size_t i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] >= number) {
            return mr_error_set(err, MR_EINVAL, "input %u does not come before it",
                                node->inputs[i]);
        }
        inputs[i] = before[node->inputs[i]];
    }
    MR_TRY(parse_operands(p, node->attrs, node->n_attrs, node->functions, node->n_functions, limit,
                          scope, held, err));
    MR_TRY(mr_dataset_apply(node->op, inputs, node->n_inputs, o.attrs, node->n_attrs, o.functions,
                            node->n_functions, scope, ret, err));
    MR_TRY(mr_dataset_set_location(*ret, node->location, err));
    return mr_dataset_set_called(*ret, node->called, err);
}

static int parse_nodes(struct parser *p, const Millrace__Graph *graph, uint32_t limit,
                       mr_builder *scope, mr_dataset **nodes, mr_error *err)
{
    for (uint32_t i = 0; i < graph->n_nodes; i++) {
        MR_TRY_WRAP(parse_node(p, graph->nodes[i], i, nodes, limit, scope, &nodes[i], err), err,
                    "node %u", i);
    }
    return MR_OK;
}

static int parse_graph(struct parser *p, const Millrace__Graph *graph, uint32_t limit,
                       mr_builder *scope, mr_dataset **ret, mr_error *err)
{
    if (graph->n_nodes == 0 || graph->n_nodes > MR_GRAPH_NODES_MAX ||
        graph->root >= graph->n_nodes) {
        return mr_error_set(err, MR_EINVAL, "a graph of %zu nodes with root %u", graph->n_nodes,
                            graph->root);
    }
    MR_TRY(count_work(p, graph->n_nodes, err));
    mr_dataset **nodes = mr_calloc(graph->n_nodes, sizeof(mr_dataset *));
    MR_CHECK_ALLOC(nodes, err);
    int rc = parse_nodes(p, graph, limit, scope, nodes, err);
    if (rc == MR_OK) {
        *ret = mr_dataset_ref(nodes[graph->root]);
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        mr_dataset_unref(nodes[i]);
    }
    mr_free(nodes);
    return rc;
}

/* ---- functions ---- */

static int parse_constant_node(struct parser *p, mr_builder *b, const Millrace__FunctionNode *node,
                               mr_error *err)
{
    const mr_block *block = NULL;
    uint32_t value;

    if (node->n_inputs != 0 || node->n_functions != 0 || node->n_attrs != 1 ||
        strcmp(node->attrs[0]->name, "value") != 0 ||
        node->attrs[0]->value_case != MILLRACE__ATTR__VALUE_CONSTANT) {
        return mr_error_set(err, MR_EINVAL, "const: has one argument, 'value', and no inputs");
    }
    MR_TRY(constant(p, node->attrs[0]->constant, &block, err));
    return mr_builder_constant(b, block, &value, err);
}

static int parse_fn_node(struct parser *p, mr_builder *b, const Millrace__FunctionNode *node,
                         uint32_t limit, mr_error *err)
{
    struct operands o = {0};
    MR_AUTO(operands_free) struct operands *held = &o;
    size_t noutputs;

    if (strcmp(node->op, "const") == 0) {
        return parse_constant_node(p, b, node, err);
    }
    MR_TRY(parse_operands(p, node->attrs, node->n_attrs, node->functions, node->n_functions, limit,
                          b, held, err));
    MR_TRY_WRAP(mr_builder_set_location(b, node->location, err), err, "%s", node->op);
    MR_TRY_WRAP(mr_builder_set_called(b, node->called, err), err, "%s", node->op);
    return mr_builder_add(b, node->op, node->inputs, node->n_inputs, o.attrs, node->n_attrs,
                          o.functions, node->n_functions, p->outputs, MR_LEAVES_MAX, &noutputs,
                          err);
}

static int fill_builder(struct parser *p, const Millrace__FunctionDef *def, uint32_t limit,
                        mr_builder *b, mr_error *err)
{
    for (size_t i = 0; i < def->n_captures; i++) {
        uint32_t value = 0;

        MR_TRY(mr_builder_capture(b, def->captures[i], &value, err));
        if (value != b->nvalues - 1) {
            return mr_error_set(err, MR_EINVAL, "value %u is captured twice", def->captures[i]);
        }
    }
    for (size_t i = 0; i < def->n_nodes; i++) {
        MR_TRY_WRAP(parse_fn_node(p, b, def->nodes[i], limit, err), err, "node %zu", i);
    }
    return MR_OK;
}

static int finish_function(struct parser *p, const Millrace__FunctionDef *def, uint32_t limit,
                           mr_builder *b, mr_function **ret, mr_error *err)
{
    MR_AUTO(mr_dataset_unref) mr_dataset *ds = NULL;

    if (def->dataset == NULL) {
        const char *structure = def->structure[0] != '\0' ? def->structure : NULL;

        return mr_builder_finish(b, def->outputs, def->n_outputs, structure, ret, err);
    }
    if (def->n_outputs > 0) {
        return mr_error_set(err, MR_EINVAL, "returns a dataset and %zu values", def->n_outputs);
    }
    MR_TRY(parse_graph(p, def->dataset, limit, b, &ds, err));
    return mr_builder_finish_dataset(b, ds, ret, err);
}

static int build_function(struct parser *p, uint32_t index, mr_builder *outer, mr_function **ret,
                          mr_error *err)
{
    const Millrace__FunctionDef *def = p->def->functions[index];
    MR_AUTO(mr_spec_unref) mr_spec *inputs = NULL;
    MR_AUTO(mr_builder_free) mr_builder *b = NULL;

    if (def->inputs == NULL) {
        return mr_error_set(err, MR_EINVAL, "has no input spec");
    }
    MR_TRY(count_work(p, 1 + def->n_nodes + def->n_captures, err));
    MR_TRY(mr_spec_from_proto(def->inputs, &inputs, err));
    MR_TRY(mr_builder_new(inputs, outer, &b, err));
    MR_TRY(fill_builder(p, def, index, b, err));
    return finish_function(p, def, index, b, ret, err);
}

/* @limit: functions come before what uses them, which rules cycles out. */
static int parse_function(struct parser *p, uint32_t index, uint32_t limit, mr_builder *outer,
                          mr_function **ret, mr_error *err)
{
    if (index >= limit) {
        return mr_error_set(err, MR_EINVAL, "function %u does not come before its user", index);
    }
    struct parsed_function *known = &p->functions[index];
    uint64_t scope = p->def->functions[index]->n_captures > 0 && outer != NULL ? outer->id : 0;
    if (known->fn == NULL || known->scope != scope) {
        mr_function *fn = NULL;

        MR_TRY_WRAP(build_function(p, index, outer, &fn, err), err, "function %u", index);
        mr_function_unref(known->fn);
        known->fn = fn;
        known->scope = scope;
    }
    *ret = mr_function_ref(known->fn);
    return MR_OK;
}

/* ---- the whole ---- */

static int parse_parts(const struct mr_definition_parts *parts, mr_dataset **ret, mr_error *err)
{
    const Millrace__DatasetDef *def = parts->def;
    struct parser p = {.parts = parts, .def = def};
    int rc;

    if (def->format != MR_CANONICAL_FORMAT) {
        return mr_error_set(err, MR_EUNIMPL,
                            "a definition of format %u, this version (%s) knows format %d",
                            def->format, MR_VERSION, MR_CANONICAL_FORMAT);
    }
    if (def->graph == NULL || def->n_functions > MR_GRAPH_NODES_MAX) {
        return mr_error_set(err, MR_EINVAL,
                            "a definition without a graph, or with too many functions: %zu",
                            def->n_functions);
    }
    p.constants = mr_calloc(parts->nconstants, sizeof(mr_block *));
    p.functions = mr_calloc(def->n_functions, sizeof *p.functions);
    p.outputs = mr_calloc(MR_LEAVES_MAX, sizeof *p.outputs);
    if (p.constants == NULL || p.functions == NULL || p.outputs == NULL) {
        rc = mr_error_nomem(err);
    } else {
        rc = parse_graph(&p, def->graph, (uint32_t)def->n_functions, NULL, ret, err);
    }
    for (size_t i = 0; p.constants != NULL && i < parts->nconstants; i++) {
        mr_block_unref(p.constants[i]);
    }
    for (size_t i = 0; p.functions != NULL && i < def->n_functions; i++) {
        mr_function_unref(p.functions[i].fn);
    }
    mr_free(p.constants);
    mr_free(p.functions);
    mr_free(p.outputs);
    return rc;
}

int mr_dataset_of_definition(const struct mr_definition_parts *parts, mr_dataset **ret,
                             mr_error *err)
{
    MR_TRY_WRAP(parse_parts(parts, ret, err), err, "dataset definition");
    return MR_OK;
}

int mr_dataset_parse(const void *bytes, size_t size, mr_dataset **ret, mr_error *err)
{
    struct mr_definition_parts parts;

    MR_TRY(mr_definition_unpack(bytes, size, &parts, err));
    int rc = mr_dataset_of_definition(&parts, ret, err);
    mr_definition_parts_free(&parts);
    return rc;
}
