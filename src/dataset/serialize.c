/* Datasets to millrace.DatasetDef. Nodes come out in the order in which a walk from the root meets
 * them, dead parts of functions are left out, constants are stored once by content: equal pipelines
 * of the same lines give equal bytes unless they share their parts differently. */
#include "base/limits.h"
#include "base/map.h"
#include "dataset/canonical.h"
#include "dataset/definition.h"
#include "dataset/function.h"
#include "element/spec_proto.h"
#include "millrace/dataset.pb-c.h"
#include "ops/kernel.h"

struct constant {
    uint8_t hash[16];
    mr_buffer *encoded;
    const char *user; /* operator that has it: for the message when there is too much */
};

/* How the values of the function around are numbered in the definition. */
struct scope {
    const uint32_t *map;
};

struct function_key {
    uint8_t fingerprint[16];
    uint64_t places;
    const struct scope *scope; /* NULL: uses none */
};

struct writer {
    void **items; /* all that the message points to, but for what lies in the graph itself */
    size_t nitems;
    size_t items_cap;
    struct constant *constants;
    size_t nconstants;
    size_t constants_cap;
    Millrace__FunctionDef **functions;
    struct function_key *keys;
    size_t nfunctions;
    size_t functions_cap;
    size_t keys_cap;
};

/* Zeroed memory that lives as long as @w; @ret is the address of the pointer to it. */
static int take(struct writer *w, size_t n, size_t size, void *ret, mr_error *err)
{
    if (!mr_grow(&w->items, &w->items_cap, w->nitems, 1, sizeof *w->items)) {
        return mr_error_nomem(err);
    }
    void *p = mr_calloc(n, size);
    MR_CHECK_ALLOC(p, err);
    w->items[w->nitems++] = p;
    memcpy(ret, &p, sizeof p);
    return MR_OK;
}

/* An array of @n pointers to messages of @descriptor, each initialised. */
static int take_messages(struct writer *w, const ProtobufCMessageDescriptor *descriptor, size_t n,
                         void *ret, mr_error *err)
{
    void **messages = NULL;
    unsigned char *all = NULL;

    MR_TRY(take(w, n, sizeof *messages, &messages, err));
    MR_TRY(take(w, n, descriptor->sizeof_message, &all, err));
    for (size_t i = 0; i < n; i++) {
        messages[i] = all + i * descriptor->sizeof_message;
        descriptor->message_init(messages[i]);
    }
    memcpy(ret, &messages, sizeof messages);
    return MR_OK;
}

static int take_message(struct writer *w, const ProtobufCMessageDescriptor *descriptor, void *ret,
                        mr_error *err)
{
    void *message = NULL;

    MR_TRY(take(w, 1, descriptor->sizeof_message, &message, err));
    descriptor->message_init(message);
    memcpy(ret, &message, sizeof message);
    return MR_OK;
}

static void writer_free(struct writer *w)
{
    for (size_t i = 0; i < w->nitems; i++) {
        mr_free(w->items[i]);
    }
    for (size_t i = 0; i < w->nconstants; i++) {
        mr_buffer_unref(w->constants[i].encoded);
    }
    mr_free(w->items);
    mr_free(w->constants);
    mr_free(w->functions);
    mr_free(w->keys);
}

static int add_constant(struct writer *w, const mr_block *block, const char *user, uint32_t *ret,
                        mr_error *err)
{
    uint8_t hash[16];

    MR_TRY(mr_canonical_block(block, hash, err));
    for (size_t i = 0; i < w->nconstants; i++) {
        if (memcmp(w->constants[i].hash, hash, sizeof hash) == 0) {
            *ret = (uint32_t)i;
            return MR_OK;
        }
    }
    if (!mr_grow(&w->constants, &w->constants_cap, w->nconstants, 1, sizeof *w->constants)) {
        return mr_error_nomem(err);
    }
    struct constant *c = &w->constants[w->nconstants];
    MR_TRY(
        mr_block_encode_buffer(block, 0 /* spec_hash */, false /* checksum */, &c->encoded, err));
    memcpy(c->hash, hash, sizeof hash);
    c->user = user;
    *ret = (uint32_t)w->nconstants++;
    return MR_OK;
}

static int write_attr(struct writer *w, const struct mr_attr *a, const char *user,
                      const struct scope *scope, Millrace__Attr *to, mr_error *err)
{
    Millrace__Shape *shape;
    Millrace__IntList *ints;

    to->name = (char *)(uintptr_t)a->name;
    switch ((enum mr_attr_kind)a->kind) {
    case MR_ATTR_INT:
        to->value_case = MILLRACE__ATTR__VALUE_I;
        to->i = a->i;
        return MR_OK;
    case MR_ATTR_FLOAT:
        to->value_case = MILLRACE__ATTR__VALUE_F;
        to->f = a->f;
        return MR_OK;
    case MR_ATTR_BOOL:
        to->value_case = MILLRACE__ATTR__VALUE_B;
        to->b = a->i != 0;
        return MR_OK;
    case MR_ATTR_BYTES:
        to->value_case = MILLRACE__ATTR__VALUE_S;
        to->s = (ProtobufCBinaryData){.len = a->size, .data = (uint8_t *)(uintptr_t)a->bytes};
        return MR_OK;
    case MR_ATTR_DTYPE:
        to->value_case = MILLRACE__ATTR__VALUE_DTYPE;
        to->dtype = (uint32_t)a->i;
        return MR_OK;
    case MR_ATTR_SHAPE:
        MR_TRY(take_message(w, &millrace__shape__descriptor, &shape, err));
        shape->unknown_rank = a->count < 0;
        shape->n_dims = a->count > 0 ? (size_t)a->count : 0;
        shape->dims = (int64_t *)(uintptr_t)a->ints;
        to->value_case = MILLRACE__ATTR__VALUE_SHAPE;
        to->shape = shape;
        return MR_OK;
    case MR_ATTR_INTS:
        MR_TRY(take_message(w, &millrace__int_list__descriptor, &ints, err));
        ints->n_values = (size_t)a->count;
        ints->values = (int64_t *)(uintptr_t)a->ints;
        to->value_case = MILLRACE__ATTR__VALUE_INTS;
        to->ints = ints;
        return MR_OK;
    case MR_ATTR_BLOCK:
        to->value_case = MILLRACE__ATTR__VALUE_CONSTANT;
        return add_constant(w, a->block, user, &to->constant, err);
    case MR_ATTR_STRINGS:
        to->value_case = MILLRACE__ATTR__VALUE_STRINGS;
        return add_constant(w, a->block, user, &to->strings, err);
    case MR_ATTR_VALUE:
        to->value_case = MILLRACE__ATTR__VALUE_VALUE_OF_SCOPE;
        to->value_of_scope = scope->map[a->i];
        return MR_OK;
    }
    return mr_error_set(err, MR_EINTERNAL, "attribute of kind %d", a->kind);
}

static int write_attrs(struct writer *w, const struct mr_attr *attrs, size_t n, const char *user,
                       const struct scope *scope, Millrace__Attr **to, mr_error *err)
{
    for (size_t i = 0; i < n; i++) {
        MR_TRY(write_attr(w, &attrs[i], user, scope, to[i], err));
    }
    return MR_OK;
}

static int write_function(struct writer *w, const mr_function *fn, const struct scope *outer,
                          uint32_t *ret, mr_error *err);

static int write_functions(struct writer *w, mr_function *const *functions, size_t n,
                           const struct scope *scope, uint32_t **ret, mr_error *err)
{
    MR_TRY(take(w, n, sizeof **ret, ret, err));
    for (size_t i = 0; i < n; i++) {
        MR_TRY(write_function(w, functions[i], scope, &(*ret)[i], err));
    }
    return MR_OK;
}

/* ---- graphs of datasets ---- */

struct graph_writer {
    struct writer *w;
    const struct scope *scope;
    struct mr_map numbers; /* 1 + the number of a node */
    Millrace__DatasetNode **nodes;
    size_t n;
    size_t cap;
};

static int append_node(struct graph_writer *g, const mr_dataset *ds, Millrace__DatasetNode *node,
                       uint32_t *ret, mr_error *err)
{
    if (g->n == MR_GRAPH_NODES_MAX) {
        return mr_error_set(err, MR_EINVAL, "the dataset has more than %d operators",
                            MR_GRAPH_NODES_MAX);
    }
    if (!mr_grow(&g->nodes, &g->cap, g->n, 1, sizeof(Millrace__DatasetNode *))) {
        return mr_error_nomem(err);
    }
    *ret = (uint32_t)g->n;
    g->nodes[g->n++] = node;
    return mr_map_put(&g->numbers, ds, (void *)(uintptr_t)g->n, err);
}

/* The default of protobuf stays where there is none. */
static void set_words(char **field, const char *words)
{
    if (words != NULL) {
        *field = (char *)(uintptr_t)words;
    }
}

static int write_node(struct graph_writer *g, const mr_dataset *ds, uint32_t *ret, mr_error *err)
{
    struct writer *w = g->w;
    uintptr_t written = (uintptr_t)mr_map_get(&g->numbers, ds);

    if (written != 0) {
        *ret = (uint32_t)written - 1;
        return MR_OK;
    }
    Millrace__DatasetNode *node = NULL;
    MR_TRY(take_message(w, &millrace__dataset_node__descriptor, &node, err));
    node->op = (char *)(uintptr_t)ds->op->name;
    set_words(&node->location, ds->location);
    set_words(&node->called, ds->called);
    node->n_inputs = ds->ninputs;
    MR_TRY(take(w, ds->ninputs, sizeof *node->inputs, &node->inputs, err));
    for (size_t i = 0; i < ds->ninputs; i++) {
        MR_TRY(write_node(g, ds->inputs[i], &node->inputs[i], err));
    }
    node->n_attrs = ds->nattrs;
    MR_TRY(take_messages(w, &millrace__attr__descriptor, ds->nattrs, &node->attrs, err));
    MR_TRY(write_attrs(w, ds->attrs, ds->nattrs, ds->op->name, g->scope, node->attrs, err));
    node->n_functions = ds->nfunctions;
    MR_TRY(write_functions(w, ds->functions, ds->nfunctions, g->scope, &node->functions, err));
    return append_node(g, ds, node, ret, err);
}

static int write_nodes(struct graph_writer *g, const mr_dataset *root, Millrace__Graph *graph,
                       mr_error *err)
{
    MR_TRY(write_node(g, root, &graph->root, err));
    MR_TRY(take(g->w, g->n, sizeof *graph->nodes, &graph->nodes, err));
    memcpy(graph->nodes, g->nodes, g->n * sizeof *g->nodes);
    graph->n_nodes = g->n;
    return MR_OK;
}

static int write_graph(struct writer *w, const mr_dataset *root, const struct scope *scope,
                       Millrace__Graph **ret, mr_error *err)
{
    struct graph_writer g = {.w = w, .scope = scope, .numbers.by_address = true};

    MR_TRY(take_message(w, &millrace__graph__descriptor, ret, err));
    int rc = write_nodes(&g, root, *ret, err);
    mr_map_free(&g.numbers);
    mr_free(g.nodes);
    return rc;
}

/* ---- functions ---- */

static int write_spec(struct writer *w, const mr_spec *spec, Millrace__ElementSpec **ret,
                      mr_error *err)
{
    size_t n = mr_spec_leaves(spec);

    MR_TRY(take_message(w, &millrace__element_spec__descriptor, ret, err));
    MR_TRY(take_messages(w, &millrace__leaf_spec__descriptor, n, &(*ret)->leaves, err));
    (*ret)->n_leaves = n;
    (*ret)->structure = (char *)(uintptr_t)mr_spec_structure(spec);
    for (size_t i = 0; i < n; i++) {
        mr_leaf_lend_proto(mr_spec_leaf(spec, i), (*ret)->leaves[i]);
    }
    return MR_OK;
}

/* Number what is live: inputs, captures, then the results of nodes in order. Others get
 * UINT32_MAX. */
static size_t number_values(const mr_function *fn, const bool *live, uint32_t *map,
                            uint32_t *captures)
{
    uint32_t next = (uint32_t)mr_spec_leaves(fn->inputs);
    size_t ncaptures = 0;

    for (size_t v = 0; v < fn->nvalues; v++) {
        map[v] = v < next ? (uint32_t)v : UINT32_MAX;
    }
    for (size_t v = 0; v < fn->nvalues; v++) {
        if (live[v] && fn->values[v].kind == MR_FN_CAPTURE) {
            captures[ncaptures++] = fn->captures[fn->values[v].index];
            map[v] = next++;
        }
    }
    for (size_t i = 0; i < fn->nnodes; i++) {
        const struct mr_fn_node *node = fn->nodes[i];
        bool used = false;

        for (size_t k = 0; k < node->nout; k++) {
            used = used || live[node->first_value + k];
        }
        for (size_t k = 0; used && k < node->nout; k++) {
            map[node->first_value + k] = next++;
        }
    }
    return ncaptures;
}

static int write_constant_node(struct writer *w, const struct mr_fn_node *node,
                               Millrace__FunctionNode *to, mr_error *err)
{
    struct mr_attr value = {.name = "value", .kind = MR_ATTR_BLOCK, .block = node->constant};

    to->op = (char *)(uintptr_t) "const";
    to->n_attrs = 1;
    MR_TRY(take_messages(w, &millrace__attr__descriptor, 1, &to->attrs, err));
    return write_attr(w, &value, "const", NULL, to->attrs[0], err);
}

static int write_fn_node(struct writer *w, const struct mr_fn_node *node, const struct scope *scope,
                         Millrace__FunctionNode *to, mr_error *err)
{
    size_t extra = node->salt != 0 ? 1 : 0;

    if (node->kernel == NULL) {
        return write_constant_node(w, node, to, err);
    }
    to->op = (char *)(uintptr_t)node->kernel->name;
    set_words(&to->location, node->location);
    set_words(&to->called, node->called);
    to->n_inputs = node->ninputs;
    MR_TRY(take(w, node->ninputs, sizeof *to->inputs, &to->inputs, err));
    for (size_t i = 0; i < node->ninputs; i++) {
        to->inputs[i] = scope->map[node->inputs[i]];
    }
    to->n_functions = node->nfunctions;
    MR_TRY(write_functions(w, node->functions, node->nfunctions, NULL, &to->functions, err));
    to->n_attrs = node->nattrs + extra;
    MR_TRY(take_messages(w, &millrace__attr__descriptor, to->n_attrs, &to->attrs, err));
    if (extra > 0) { /* sorts before every name */
        to->attrs[0]->name = (char *)(uintptr_t)MR_FN_SALT;
        to->attrs[0]->value_case = MILLRACE__ATTR__VALUE_I;
        to->attrs[0]->i = node->salt;
    }
    return write_attrs(w, node->attrs, node->nattrs, node->kernel->name, NULL, to->attrs + extra,
                       err);
}

static int write_body(struct writer *w, const mr_function *fn, const struct scope *scope,
                      Millrace__FunctionDef *def, mr_error *err)
{
    MR_TRY(take_messages(w, &millrace__function_node__descriptor, fn->nnodes, &def->nodes, err));
    for (size_t i = 0; i < fn->nnodes; i++) {
        if (scope->map[fn->nodes[i]->first_value] != UINT32_MAX) {
            MR_TRY(write_fn_node(w, fn->nodes[i], scope, def->nodes[def->n_nodes++], err));
        }
    }
    if (fn->dataset != NULL) {
        return write_graph(w, fn->dataset, scope, &def->dataset, err);
    }
    def->n_outputs = fn->noutputs;
    MR_TRY(take(w, fn->noutputs, sizeof *def->outputs, &def->outputs, err));
    for (size_t i = 0; i < fn->noutputs; i++) {
        def->outputs[i] = scope->map[fn->outputs[i]];
    }
    def->structure = (char *)(uintptr_t)mr_spec_structure(fn->spec);
    return MR_OK;
}

static int append_function(struct writer *w, const mr_function *fn, const struct scope *outer,
                           Millrace__FunctionDef *def, uint32_t *ret, mr_error *err)
{
    if (w->nfunctions == MR_GRAPH_NODES_MAX) {
        return mr_error_set(err, MR_EINVAL, "the dataset has more than %d functions",
                            MR_GRAPH_NODES_MAX);
    }
    if (!mr_grow(&w->functions, &w->functions_cap, w->nfunctions, 1, sizeof *w->functions) ||
        !mr_grow(&w->keys, &w->keys_cap, w->nfunctions, 1, sizeof *w->keys)) {
        return mr_error_nomem(err);
    }
    memcpy(w->keys[w->nfunctions].fingerprint, fn->fingerprint, 16);
    w->keys[w->nfunctions].places = fn->places;
    w->keys[w->nfunctions].scope = fn->scope != 0 ? outer : NULL;
    w->functions[w->nfunctions] = def;
    *ret = (uint32_t)w->nfunctions++;
    return MR_OK;
}

static int write_function(struct writer *w, const mr_function *fn, const struct scope *outer,
                          uint32_t *ret, mr_error *err)
{
    const struct scope *scope_key = fn->scope != 0 ? outer : NULL;
    bool *live = NULL;

    for (size_t i = 0; i < w->nfunctions; i++) {
        if (w->keys[i].scope == scope_key && w->keys[i].places == fn->places &&
            memcmp(w->keys[i].fingerprint, fn->fingerprint, 16) == 0) {
            *ret = (uint32_t)i;
            return MR_OK;
        }
    }
    Millrace__FunctionDef *def = NULL;
    MR_TRY(take_message(w, &millrace__function_def__descriptor, &def, err));
    /* In the arena, so that its address tells scopes apart as long as the writer lives. */
    struct scope *scope = NULL;
    uint32_t *map = NULL;
    MR_TRY(take(w, 1, sizeof *scope, &scope, err));
    MR_TRY(take(w, fn->nvalues, sizeof *map, &map, err));
    MR_TRY(take(w, fn->ncaptures, sizeof *def->captures, &def->captures, err));
    MR_TRY(mr_function_live(fn, &live, err));
    def->n_captures = number_values(fn, live, map, def->captures);
    mr_free(live);
    for (size_t i = 0; i < def->n_captures; i++) {
        def->captures[i] = outer->map[def->captures[i]];
    }
    scope->map = map;
    MR_TRY(write_spec(w, fn->inputs, &def->inputs, err));
    MR_TRY(write_body(w, fn, scope, def, err));
    return append_function(w, fn, outer, def, ret, err);
}

/* ---- the whole ---- */

/* NULL: there is none. */
static const struct constant *largest_constant(const struct writer *w)
{
    const struct constant *largest = NULL;

    for (size_t i = 0; i < w->nconstants; i++) {
        if (largest == NULL ||
            mr_buffer_size(w->constants[i].encoded) > mr_buffer_size(largest->encoded)) {
            largest = &w->constants[i];
        }
    }
    return largest;
}

static int too_large(const struct writer *w, size_t size, mr_error *err)
{
    const struct constant *largest = largest_constant(w);

    if (largest == NULL) {
        return mr_error_set(err, MR_EINVAL, "the definition has %zu bytes, the limit is %llu", size,
                            MR_DEFINITION_BYTES_MAX);
    }
    return mr_error_set(err, MR_EINVAL,
                        "the definition has %zu bytes, the limit is %llu; its largest array (in "
                        "%s) has %zu bytes: read it from a file in the pipeline instead",
                        size, MR_DEFINITION_BYTES_MAX, largest->user,
                        mr_buffer_size(largest->encoded));
}

static int pack(struct writer *w, Millrace__DatasetDef *def, void **ret, size_t *size,
                mr_error *err)
{
    def->format = MR_CANONICAL_FORMAT;
    def->n_functions = w->nfunctions;
    def->functions = w->functions;
    def->n_constants = w->nconstants;
    MR_TRY(take(w, w->nconstants, sizeof *def->constants, &def->constants, err));
    for (size_t i = 0; i < w->nconstants; i++) {
        mr_buffer *b = w->constants[i].encoded;

        def->constants[i] =
            (ProtobufCBinaryData){.len = mr_buffer_size(b), .data = mr_buffer_data(b)};
    }
    size_t n = millrace__dataset_def__get_packed_size(def);
    if (n > MR_DEFINITION_BYTES_MAX) {
        return too_large(w, n, err);
    }
    void *bytes = mr_malloc(n);
    MR_CHECK_ALLOC(bytes, err);
    *size = millrace__dataset_def__pack(def, bytes);
    *ret = bytes;
    return MR_OK;
}

int mr_dataset_serialize(const mr_dataset *ds, void **ret, size_t *size, mr_error *err)
{
    Millrace__DatasetDef def = MILLRACE__DATASET_DEF__INIT;
    struct writer w = {0};

    if (ds->scope != 0) {
        return mr_error_set(
            err, MR_EINVAL,
            "%s: a dataset that uses values of a function is not a dataset of its own",
            ds->op->name);
    }
    int rc = write_graph(&w, ds, NULL, &def.graph, err);
    if (rc == MR_OK) {
        rc = pack(&w, &def, ret, size, err);
    }
    writer_free(&w);
    return rc;
}

void mr_definition_name_largest(const mr_dataset *ds, mr_error *err)
{
    Millrace__DatasetDef def = MILLRACE__DATASET_DEF__INIT;
    struct writer w = {0};
    mr_error ignored;

    if (write_graph(&w, ds, NULL, &def.graph, &ignored) == MR_OK && largest_constant(&w) != NULL) {
        const struct constant *largest = largest_constant(&w);

        mr_error_wrap(err, "the largest array is in %s and has %zu bytes", largest->user,
                      mr_buffer_size(largest->encoded));
    }
    writer_free(&w);
}
