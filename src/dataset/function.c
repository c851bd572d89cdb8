/* Finished functions: snapshots of builders, and functions made of functions. */
#include "dataset/function.h"

#include "base/limits.h"
#include "base/map.h"
#include "dataset/canonical.h"
#include "dataset/location.h"
#include "ops/kernel.h"

#include <stdlib.h>

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
    mr_free(node->inputs);
    mr_attrs_free(node->attrs, node->nattrs);
    for (size_t i = 0; i < node->nfunctions; i++) {
        mr_function_unref(node->functions[i]);
    }
    mr_free(node->functions);
    mr_free(node->out_specs);
    mr_block_unref(node->constant);
    mr_free(node->location);
    mr_free(node->called);
    mr_free(node);
}

mr_function *mr_function_ref(mr_function *fn)
{
    atomic_fetch_add_explicit(&fn->refs, 1, memory_order_relaxed);
    return fn;
}

void mr_function_unref(mr_function *fn)
{
    if (fn == NULL || atomic_fetch_sub_explicit(&fn->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; fn->nodes != NULL && i < fn->nnodes; i++) {
        mr_fn_node_unref(fn->nodes[i]);
    }
    mr_free(fn->nodes);
    mr_free(fn->values);
    mr_free(fn->captures);
    mr_free(fn->outputs);
    mr_free(fn->ends);
    mr_dataset_unref(fn->dataset);
    mr_spec_unref(fn->inputs);
    mr_spec_unref(fn->spec);
    mr_free(fn);
}

const mr_spec *mr_function_spec(const mr_function *fn)
{
    return fn->spec;
}

bool mr_function_returns_dataset(const mr_function *fn)
{
    return fn->dataset != NULL;
}

/* memdup that takes n = 0 with NULL. */
static void *copy_array(const void *p, size_t n, size_t size)
{
    return n > 0 ? mr_memdup(p, n * size) : mr_calloc(1, 1);
}

/* A function over copies of these tables, with nothing to return yet. */
static int snapshot(mr_spec *inputs, const struct mr_fn_value *values, size_t nvalues,
                    struct mr_fn_node *const *nodes, size_t nnodes, const uint32_t *captures,
                    size_t ncaptures, mr_function **ret, mr_error *err)
{
    MR_AUTO(mr_function_unref) mr_function *fn = mr_calloc(1, sizeof *fn);

    MR_CHECK_ALLOC(fn, err);
    atomic_init(&fn->refs, 1);
    fn->inputs = mr_spec_ref(inputs);
    fn->values = copy_array(values, nvalues, sizeof *values);
    fn->nvalues = nvalues;
    fn->captures = copy_array(captures, ncaptures, sizeof *captures);
    fn->ncaptures = ncaptures;
    fn->nodes = mr_calloc(nnodes, sizeof(struct mr_fn_node *));
    if (fn->values == NULL || fn->captures == NULL || fn->nodes == NULL) {
        return mr_error_nomem(err);
    }
    fn->depth = 1;
    fn->weight = nnodes;
    for (size_t i = 0; i < nnodes; i++) {
        fn->nodes[fn->nnodes++] = mr_fn_node_ref(nodes[i]);
        for (size_t k = 0; k < nodes[i]->nfunctions; k++) {
            fn->depth = MR_MAX(fn->depth, nodes[i]->functions[k]->depth + 1);
            fn->weight += nodes[i]->functions[k]->weight;
        }
    }
    if (fn->weight > MR_GRAPH_NODES_MAX) {
        return mr_error_set(err, MR_EINVAL,
                            "the functions of a function have more than %d operators in all",
                            MR_GRAPH_NODES_MAX);
    }
    *ret = MR_TAKE(fn);
    return MR_OK;
}

/* What was built so far. */
static int snapshot_builder(const mr_builder *b, mr_function **ret, mr_error *err)
{
    MR_TRY(snapshot(b->inputs, b->values, b->nvalues, b->nodes, b->nnodes, b->captures,
                    b->ncaptures, ret, err));
    (*ret)->self = b->id;
    (*ret)->scope = b->ncaptures > 0 ? b->outer->id : 0;
    return MR_OK;
}

static int set_outputs(mr_function *fn, const uint32_t *outputs, size_t n, const char *structure,
                       mr_error *err)
{
    if (n == 0 || n > MR_LEAVES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a function returns 1 to %d tensors, not %zu",
                            MR_LEAVES_MAX, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (outputs[i] >= fn->nvalues) {
            return mr_error_set(err, MR_EINVAL, "result %zu: there is no value %u", i, outputs[i]);
        }
    }
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = mr_calloc(n, sizeof *leaves);
    fn->outputs = copy_array(outputs, n, sizeof *outputs);
    MR_CHECK_ALLOC(leaves, err);
    MR_CHECK_ALLOC(fn->outputs, err);
    fn->noutputs = n;
    for (size_t i = 0; i < n; i++) {
        leaves[i] = fn->values[outputs[i]].spec;
    }
    return mr_spec_new(leaves, n, structure, &fn->spec, err);
}

/* Put the fingerprint to @fn, which is complete, and hand it over. */
static int publish(mr_function **fn, mr_function **ret, mr_error *err)
{
    MR_TRY(mr_canonical_function(*fn, (*fn)->fingerprint, err));
    for (size_t i = 0; i < (*fn)->nnodes; i++) {
        (*fn)->places = mr_places_add((*fn)->places, (*fn)->nodes[i]->places);
    }
    if ((*fn)->dataset != NULL) {
        (*fn)->places = mr_places_add((*fn)->places, (*fn)->dataset->places);
    }
    *ret = MR_TAKE(*fn);
    return MR_OK;
}

int mr_builder_finish(mr_builder *b, const uint32_t *outputs, size_t n, const char *structure,
                      mr_function **ret, mr_error *err)
{
    MR_AUTO(mr_function_unref) mr_function *fn = NULL;

    MR_TRY(snapshot_builder(b, &fn, err));
    MR_TRY(set_outputs(fn, outputs, n, structure, err));
    return publish(&fn, ret, err);
}

int mr_builder_finish_dataset(mr_builder *b, mr_dataset *ds, mr_function **ret, mr_error *err)
{
    MR_AUTO(mr_function_unref) mr_function *fn = NULL;

    if (ds->scope != 0 && ds->scope != b->id) {
        return mr_error_set(
            err, MR_EINVAL,
            "the dataset uses values of another function than the one that returns it");
    }
    MR_TRY(snapshot_builder(b, &fn, err));
    fn->dataset = mr_dataset_ref(ds);
    fn->spec = mr_spec_ref(ds->spec);
    fn->depth = ds->depth >= fn->depth ? ds->depth + 1 : fn->depth;
    fn->height = MR_MAX(ds->height, fn->height);
    return publish(&fn, ret, err);
}

bool mr_function_draws(const mr_function *fn)
{
    for (size_t i = 0; i < fn->nnodes; i++) {
        if (fn->nodes[i]->random) {
            return true;
        }
    }
    return fn->dataset != NULL && fn->dataset->draws;
}

int mr_function_project(const mr_function *fn, const uint32_t *outputs, size_t n, mr_function **ret,
                        mr_error *err)
{
    MR_AUTO(mr_function_unref) mr_function *made = NULL;

    MR_TRY(snapshot(fn->inputs, fn->values, fn->nvalues, fn->nodes, fn->nnodes, fn->captures,
                    fn->ncaptures, &made, err));
    made->self = fn->self;
    made->scope = fn->scope;
    MR_TRY(set_outputs(made, outputs, n, NULL, err));
    return publish(&made, ret, err);
}

/* ---- composition ---- */

/* @node with its inputs renumbered by @map and its values starting at @first_value. */
static struct mr_fn_node *renumber(const struct mr_fn_node *node, const uint32_t *map,
                                   uint32_t first_value)
{
    MR_AUTO(mr_fn_node_unref) struct mr_fn_node *made = mr_calloc(1, sizeof *made);
    mr_error ignored; /* what was copied once can be copied again, but for memory */

    if (made == NULL) {
        return NULL;
    }
    atomic_init(&made->refs, 1);
    made->kernel = node->kernel;
    made->constant = node->constant != NULL ? mr_block_ref(node->constant) : NULL;
    made->ninputs = node->ninputs;
    made->inputs = copy_array(node->inputs, node->ninputs, sizeof *node->inputs);
    made->out_specs = copy_array(node->out_specs, node->nout, sizeof *node->out_specs);
    made->nout = node->nout;
    made->salt = node->salt;
    made->random = node->random;
    made->first_value = first_value;
    made->places = node->places;
    if (made->inputs == NULL || made->out_specs == NULL ||
        mr_location_copy(node->location, &made->location, &ignored) != MR_OK ||
        mr_location_copy(node->called, &made->called, &ignored) != MR_OK ||
        mr_attrs_copy(node->attrs, node->nattrs, &made->attrs, &ignored) != MR_OK) {
        return NULL;
    }
    made->nattrs = node->nattrs;
    made->functions = mr_calloc(node->nfunctions, sizeof(mr_function *));
    if (made->functions == NULL) {
        return NULL;
    }
    for (; made->nfunctions < node->nfunctions; made->nfunctions++) {
        made->functions[made->nfunctions] = mr_function_ref(node->functions[made->nfunctions]);
    }
    for (size_t i = 0; i < made->ninputs; i++) {
        made->inputs[i] = map[made->inputs[i]];
    }
    return MR_TAKE(made);
}

/* The tables of f, then g's captures and nodes. g's inputs are f's outputs. */
struct composed {
    struct mr_fn_value *values;
    size_t nvalues;
    struct mr_fn_node **nodes;
    size_t nnodes;
    uint32_t *captures;
    uint32_t *map; /* of g's values to these */
    uint32_t *outputs;
};

static int begin_with(struct composed *c, const mr_function *f, const mr_function *g, mr_error *err)
{
    c->values = mr_calloc(f->nvalues + g->nvalues /* at most: g's inputs need none of their own */,
                          sizeof *c->values);
    c->nodes = mr_calloc(f->nnodes + g->nnodes, sizeof(struct mr_fn_node *));
    c->captures = mr_calloc(f->ncaptures + g->ncaptures, sizeof *c->captures);
    c->map = mr_calloc(g->nvalues, sizeof *c->map);
    c->outputs = mr_calloc(g->noutputs, sizeof *c->outputs);
    if (c->values == NULL || c->nodes == NULL || c->captures == NULL || c->map == NULL ||
        c->outputs == NULL) {
        return mr_error_nomem(err);
    }
    memcpy(c->values, f->values, f->nvalues * sizeof *c->values);
    c->nvalues = f->nvalues;
    for (; c->nnodes < f->nnodes; c->nnodes++) {
        c->nodes[c->nnodes] = mr_fn_node_ref(f->nodes[c->nnodes]);
    }
    memcpy(c->captures, f->captures, f->ncaptures * sizeof *c->captures);
    memcpy(c->captures + f->ncaptures, g->captures, g->ncaptures * sizeof *c->captures);
    return MR_OK;
}

static int append(struct composed *c, const mr_function *f, const mr_function *g, mr_error *err)
{
    for (size_t v = 0; v < g->nvalues; v++) {
        const struct mr_fn_value *from = &g->values[v];
        uint32_t place = (uint32_t)c->nvalues;

        if (from->kind == MR_FN_INPUT) {
            c->map[v] = f->outputs[from->index];
            continue;
        }
        c->map[v] = place;
        c->values[place] = *from;
        c->values[place].index +=
            (uint32_t)(from->kind == MR_FN_CAPTURE ? f->ncaptures : f->nnodes);
        if (from->kind == MR_FN_NODE && from->output == 0) {
            c->nodes[c->nnodes] = renumber(g->nodes[from->index], c->map, place);
            MR_CHECK_ALLOC(c->nodes[c->nnodes], err);
            c->nnodes++;
        }
        c->nvalues++;
    }
    for (size_t i = 0; i < g->noutputs; i++) {
        c->outputs[i] = c->map[g->outputs[i]];
    }
    return MR_OK;
}

static void composed_free(struct composed *c)
{
    for (size_t i = 0; i < c->nnodes; i++) {
        mr_fn_node_unref(c->nodes[i]);
    }
    mr_free(c->nodes);
    mr_free(c->values);
    mr_free(c->captures);
    mr_free(c->map);
    mr_free(c->outputs);
}
MR_AUTO_DEFINE(struct composed, composed_free)

/* How many functions @fn was made of. */
static uint32_t parts_of(const mr_function *fn)
{
    return fn->nends > 0 ? fn->nends : 1;
}

static void add_ends(const mr_function *fn, size_t behind, mr_function *to)
{
    for (uint32_t i = 0; i < fn->nends; i++) {
        to->ends[to->nends++] = (uint32_t)behind + fn->ends[i];
    }
    if (fn->nends == 0) {
        to->ends[to->nends++] = (uint32_t)(behind + fn->nnodes);
    }
}

int mr_function_compose(const mr_function *f, const mr_function *g, mr_function **ret,
                        mr_error *err)
{
    struct composed tables = {0};
    MR_AUTO(composed_free) struct composed *c = &tables;
    MR_AUTO(mr_function_unref) mr_function *fn = NULL;

    MR_TRY(begin_with(c, f, g, err));
    MR_TRY(append(c, f, g, err));
    MR_TRY(snapshot(f->inputs, c->values, c->nvalues, c->nodes, c->nnodes, c->captures,
                    f->ncaptures + g->ncaptures, &fn, err));
    fn->scope = f->scope != 0 ? f->scope : g->scope;
    fn->ends = mr_calloc(parts_of(f) + parts_of(g), sizeof *fn->ends);
    MR_CHECK_ALLOC(fn->ends, err);
    add_ends(f, 0, fn);
    add_ends(g, f->nnodes, fn);
    MR_TRY(set_outputs(fn, c->outputs, g->noutputs, mr_spec_structure(g->spec), err));
    return publish(&fn, ret, err);
}

/* ---- what is needed ---- */

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

struct scope_set {
    struct mr_map seen;
    uint32_t *values;
    size_t n;
    size_t cap;
};

static int scope_add(struct scope_set *set, uint32_t value, mr_error *err)
{
    if (!mr_grow(&set->values, &set->cap, set->n, 1, sizeof *set->values)) {
        return mr_error_nomem(err);
    }
    set->values[set->n++] = value;
    return MR_OK;
}

static int scope_walk(struct scope_set *set, const mr_dataset *ds, mr_error *err)
{
    if (ds->scope == 0 || mr_map_get(&set->seen, ds) != NULL) {
        return MR_OK; /* needs nothing of any function, or was here before */
    }
    MR_TRY(mr_map_put(&set->seen, ds, set, err));
    for (size_t i = 0; i < ds->nattrs; i++) {
        if (ds->attrs[i].kind == MR_ATTR_VALUE) {
            MR_TRY(scope_add(set, (uint32_t)ds->attrs[i].i, err));
        }
    }
    for (size_t i = 0; i < ds->nfunctions; i++) {
        for (size_t k = 0; k < ds->functions[i]->ncaptures; k++) {
            MR_TRY(scope_add(set, ds->functions[i]->captures[k], err));
        }
    }
    for (size_t i = 0; i < ds->ninputs; i++) {
        MR_TRY(scope_walk(set, ds->inputs[i], err));
    }
    return MR_OK;
}

int mr_dataset_scope_values(const mr_dataset *ds, uint32_t **ret, size_t *n, mr_error *err)
{
    struct scope_set set = {.seen.by_address = true};
    int rc = scope_walk(&set, ds, err);
    size_t kept = 0;

    mr_map_free(&set.seen);
    if (rc != MR_OK) {
        mr_free(set.values);
        return rc;
    }
    if (set.n > 0) {
        qsort(set.values, set.n, sizeof *set.values, compare_u32);
    }
    for (size_t i = 0; i < set.n; i++) {
        if (kept == 0 || set.values[kept - 1] != set.values[i]) {
            set.values[kept++] = set.values[i];
        }
    }
    *ret = set.values;
    *n = kept;
    return MR_OK;
}

int mr_function_live(const mr_function *fn, bool **ret, mr_error *err)
{
    MR_AUTO(mr_free) bool *live = mr_calloc(fn->nvalues, sizeof *live);
    MR_AUTO(mr_free) uint32_t *needed = NULL;
    size_t n = 0;

    MR_CHECK_ALLOC(live, err);
    for (size_t i = 0; i < fn->noutputs; i++) {
        live[fn->outputs[i]] = true;
    }
    if (fn->dataset != NULL) {
        MR_TRY(mr_dataset_scope_values(fn->dataset, &needed, &n, err));
    }
    for (size_t i = 0; i < n; i++) {
        live[needed[i]] = true;
    }
    /* Users come after what they use: one sweep from the end. */
    for (size_t i = fn->nnodes; i-- > 0;) {
        const struct mr_fn_node *node = fn->nodes[i];
        bool used = false;

        for (size_t k = 0; k < node->nout; k++) {
            used = used || live[node->first_value + k];
        }
        for (size_t k = 0; used && k < node->ninputs; k++) {
            live[node->inputs[k]] = true;
        }
    }
    *ret = MR_TAKE(live);
    return MR_OK;
}
