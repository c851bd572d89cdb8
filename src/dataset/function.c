/* Finished functions: snapshots of builders, and functions made of functions. */
#include "dataset/function.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/scope.h"
#include "dataset/canonical.h"
#include "ops/kernel.h"

#include <stdlib.h>
#include <string.h>

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
    mr_function *fn = mr_calloc(1, sizeof *fn);

    MR_CHECK_ALLOC(fn, err);
    atomic_init(&fn->refs, 1);
    fn->inputs = mr_spec_ref(inputs);
    fn->values = copy_array(values, nvalues, sizeof *values);
    fn->nvalues = nvalues;
    fn->captures = copy_array(captures, ncaptures, sizeof *captures);
    fn->ncaptures = ncaptures;
    fn->nodes = mr_calloc(nnodes, sizeof(struct mr_fn_node *));
    if (fn->values == NULL || fn->captures == NULL || fn->nodes == NULL) {
        mr_function_unref(fn);
        return mr_error_nomem(err);
    }
    fn->depth = 1;
    for (size_t i = 0; i < nnodes; i++) {
        fn->nodes[fn->nnodes++] = mr_fn_node_ref(nodes[i]);
        for (size_t k = 0; k < nodes[i]->nfunctions; k++) {
            const mr_function *inner = nodes[i]->functions[k];

            fn->depth = inner->depth >= fn->depth ? inner->depth + 1 : fn->depth;
            fn->height = inner->height > fn->height ? inner->height : fn->height;
        }
    }
    *ret = fn;
    return MR_OK;
}

static int set_outputs(mr_function *fn, const uint32_t *outputs, size_t n, const char *structure,
                       mr_error *err)
{
    struct mr_leaf_spec *leaves;

    if (n == 0 || n > MR_LEAVES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a function returns 1 to %d tensors, not %zu",
                            MR_LEAVES_MAX, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (outputs[i] >= fn->nvalues) {
            return mr_error_set(err, MR_EINVAL, "result %zu: there is no value %u", i, outputs[i]);
        }
    }
    leaves = mr_calloc(n, sizeof *leaves);
    fn->outputs = copy_array(outputs, n, sizeof *outputs);
    if (leaves == NULL || fn->outputs == NULL) {
        mr_free(leaves);
        return mr_error_nomem(err);
    }
    fn->noutputs = n;
    for (size_t i = 0; i < n; i++) {
        leaves[i] = fn->values[outputs[i]].spec;
    }
    int rc = mr_spec_new(leaves, n, structure, &fn->spec, err);
    mr_free(leaves);
    return rc;
}

/* Give up a half-made function, or put the fingerprint to it and hand it over. */
static int publish(int rc, mr_function *fn, mr_function **ret, mr_error *err)
{
    if (rc == MR_OK) {
        rc = mr_canonical_function(fn, fn->fingerprint, err);
    }
    if (rc != MR_OK) {
        mr_function_unref(fn);
        return rc;
    }
    *ret = fn;
    return MR_OK;
}

int mr_builder_finish(mr_builder *b, const uint32_t *outputs, size_t n, const char *structure,
                      mr_function **ret, mr_error *err)
{
    mr_function *fn = NULL;
    int rc = snapshot(b->inputs, b->values, b->nvalues, b->nodes, b->nnodes, b->captures,
                      b->ncaptures, &fn, err);

    if (rc == MR_OK) {
        fn->self = b->id;
        fn->scope = b->ncaptures > 0 ? b->outer->id : 0;
        rc = set_outputs(fn, outputs, n, structure, err);
    }
    return publish(rc, fn, ret, err);
}

int mr_builder_finish_dataset(mr_builder *b, mr_dataset *ds, mr_function **ret, mr_error *err)
{
    mr_function *fn = NULL;
    int rc;

    if (ds->scope != 0 && ds->scope != b->id) {
        return mr_error_set(
            err, MR_EINVAL,
            "the dataset uses values of another function than the one that returns it");
    }
    rc = snapshot(b->inputs, b->values, b->nvalues, b->nodes, b->nnodes, b->captures, b->ncaptures,
                  &fn, err);
    if (rc == MR_OK) {
        fn->self = b->id;
        fn->scope = b->ncaptures > 0 ? b->outer->id : 0;
        fn->dataset = mr_dataset_ref(ds);
        fn->spec = mr_spec_ref(ds->spec);
        fn->depth = ds->depth >= fn->depth ? ds->depth + 1 : fn->depth;
        fn->height = ds->height > fn->height ? ds->height : fn->height;
    }
    return publish(rc, fn, ret, err);
}

int mr_function_project(const mr_function *fn, const uint32_t *outputs, size_t n, mr_function **ret,
                        mr_error *err)
{
    mr_function *made = NULL;
    int rc = snapshot(fn->inputs, fn->values, fn->nvalues, fn->nodes, fn->nnodes, fn->captures,
                      fn->ncaptures, &made, err);

    if (rc == MR_OK) {
        made->self = fn->self;
        made->scope = fn->scope;
        rc = set_outputs(made, outputs, n, NULL, err);
    }
    return publish(rc, made, ret, err);
}

/* ---- composition ---- */

/* @node with its inputs renumbered by @map and its values starting at @first_value. */
static struct mr_fn_node *renumber(const struct mr_fn_node *node, const uint32_t *map,
                                   uint32_t first_value)
{
    struct mr_fn_node *made = mr_calloc(1, sizeof *made);
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
    made->first_value = first_value;
    if (made->inputs == NULL || made->out_specs == NULL ||
        mr_attrs_copy(node->attrs, node->nattrs, &made->attrs, &ignored) != MR_OK) {
        mr_fn_node_unref(made);
        return NULL;
    }
    made->nattrs = node->nattrs;
    for (size_t i = 0; i < made->ninputs; i++) {
        made->inputs[i] = map[made->inputs[i]];
    }
    return made;
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

/*
 * Both have no functions inside: composing is for what runs, and a tensor operator with functions
 * is left as it is by the caller.
 */
int mr_function_compose(const mr_function *f, const mr_function *g, mr_function **ret,
                        mr_error *err)
{
    struct composed c = {0};
    mr_function *fn = NULL;
    int rc = begin_with(&c, f, g, err);

    if (rc == MR_OK) {
        rc = append(&c, f, g, err);
    }
    if (rc == MR_OK) {
        rc = snapshot(f->inputs, c.values, c.nvalues, c.nodes, c.nnodes, c.captures,
                      f->ncaptures + g->ncaptures, &fn, err);
    }
    if (rc == MR_OK) {
        fn->scope = f->scope != 0 ? f->scope : g->scope;
        rc = set_outputs(fn, c.outputs, g->noutputs, mr_spec_structure(g->spec), err);
    }
    composed_free(&c);
    return publish(rc, fn, ret, err);
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
    if (set->n == set->cap) {
        uint32_t *bigger = mr_reallocarray(set->values, set->cap * 2 + 8, sizeof *bigger);

        MR_CHECK_ALLOC(bigger, err);
        set->values = bigger;
        set->cap = set->cap * 2 + 8;
    }
    set->values[set->n++] = value;
    return MR_OK;
}

static int add_captures(const mr_function *fn, struct scope_set *set, mr_error *err)
{
    for (size_t i = 0; i < fn->ncaptures; i++) {
        MR_TRY(scope_add(set, fn->captures[i], err));
    }
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
        MR_TRY(add_captures(ds->functions[i], set, err));
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
    bool *live = mr_calloc(fn->nvalues, sizeof *live);
    struct scope_set inner = {0};
    uint32_t *needed = NULL;
    size_t n = 0;
    int rc = MR_OK;

    MR_CHECK_ALLOC(live, err);
    for (size_t i = 0; i < fn->noutputs; i++) {
        live[fn->outputs[i]] = true;
    }
    if (fn->dataset != NULL) {
        rc = mr_dataset_scope_values(fn->dataset, &needed, &n, err);
        for (size_t i = 0; rc == MR_OK && i < n; i++) {
            live[needed[i]] = true;
        }
    }
    /* Users come after what they use: one sweep from the end. */
    for (size_t i = fn->nnodes; rc == MR_OK && i-- > 0;) {
        const struct mr_fn_node *node = fn->nodes[i];
        bool used = false;

        for (size_t k = 0; k < node->nout; k++) {
            used = used || live[node->first_value + k];
        }
        if (!used) {
            continue;
        }
        for (size_t k = 0; k < node->ninputs; k++) {
            live[node->inputs[k]] = true;
        }
        inner.n = 0;
        for (size_t k = 0; rc == MR_OK && k < node->nfunctions; k++) {
            rc = add_captures(node->functions[k], &inner, err);
        }
        for (size_t k = 0; rc == MR_OK && k < inner.n; k++) {
            live[inner.values[k]] = true;
        }
    }
    mr_free(inner.values);
    mr_free(needed);
    if (rc != MR_OK) {
        mr_free(live);
        return rc;
    }
    *ret = live;
    return MR_OK;
}
