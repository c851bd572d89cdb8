#include "base/limits.h"
#include "dataset/canonical.h"
#include "dataset/location.h"
#include "dataset/operator.h"
#include "ops/kernel.h"

mr_dataset *mr_dataset_ref(mr_dataset *ds)
{
    atomic_fetch_add_explicit(&ds->refs, 1, memory_order_relaxed);
    return ds;
}

void mr_dataset_unref(mr_dataset *ds)
{
    if (ds == NULL || atomic_fetch_sub_explicit(&ds->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; ds->inputs != NULL && i < ds->ninputs; i++) {
        mr_dataset_unref(ds->inputs[i]);
    }
    for (size_t i = 0; ds->functions != NULL && i < ds->nfunctions; i++) {
        mr_function_unref(ds->functions[i]);
    }
    mr_free(ds->inputs);
    mr_free(ds->functions);
    mr_attrs_free(ds->attrs, ds->nattrs);
    mr_free(ds->location);
    mr_free(ds->called);
    mr_spec_unref(ds->spec);
    if (ds->op != NULL && ds->op->release != NULL) {
        ds->op->release(atomic_load(&ds->kept));
    }
    mr_free(ds);
}

const mr_spec *mr_dataset_spec(const mr_dataset *ds)
{
    return ds->spec;
}

int64_t mr_dataset_cardinality(const mr_dataset *ds)
{
    return ds->cardinality;
}

int mr_dataset_fingerprint(const mr_dataset *ds, uint8_t fingerprint[16], mr_error *err)
{
    memcpy(fingerprint, ds->fingerprint, 16);
    return MR_OK;
}

static void set_places(mr_dataset *ds)
{
    ds->places = mr_places_add_location(0, ds->location);
    ds->places = mr_places_add_location(ds->places, ds->called);
    for (size_t i = 0; i < ds->ninputs; i++) {
        ds->places = mr_places_add(ds->places, ds->inputs[i]->places);
    }
    for (size_t i = 0; i < ds->nfunctions; i++) {
        ds->places = mr_places_add(ds->places, ds->functions[i]->places);
    }
}

static int set_words(mr_dataset *ds, char **words, const char *text, mr_error *err)
{
    char *copy = NULL;

    if (atomic_load(&ds->refs) != 1) {
        return mr_error_set(err, MR_EPRECOND, "%s: %s is set before anything else has the dataset",
                            ds->op->name, words == &ds->location ? "the location" : "its name");
    }
    MR_TRY_WRAP(mr_location_copy(text, &copy, err), err, "%s", ds->op->name);
    mr_free(*words);
    *words = copy;
    set_places(ds);
    return MR_OK;
}

int mr_dataset_set_location(mr_dataset *ds, const char *location, mr_error *err)
{
    return set_words(ds, &ds->location, location, err);
}

int mr_dataset_set_called(mr_dataset *ds, const char *called, mr_error *err)
{
    return set_words(ds, &ds->called, called, err);
}

/* "value0", "value1", ... */
static bool is_numbered_value(const char *name)
{
    return strlen(name) <= 5 + 4 && mr_attr_name_matches("value#", name);
}

static const struct mr_arg *find_arg(const struct mr_operator *op, const char *name)
{
    for (const struct mr_arg *a = op->args; a != NULL && a->name != NULL; a++) {
        if (strcmp(a->name, name) == 0 ||
            ((a->flags & MR_ARG_TENSORS) != 0 && is_numbered_value(name))) {
            return a;
        }
    }
    return NULL;
}

/* The spec of the value that @attr names; its number is checked. */
static int scope_leaf(const mr_builder *scope, const struct mr_attr *attr,
                      const struct mr_leaf_spec **ret, mr_error *err)
{
    if (scope == NULL) {
        return mr_error_set(err, MR_EINVAL,
                            "argument '%s' is a value of an enclosing function, but there is none",
                            attr->name);
    }
    if ((uint64_t)attr->i >= scope->nvalues) {
        return mr_error_set(err, MR_EINVAL,
                            "argument '%s': the enclosing function has no value %lld", attr->name,
                            (long long)attr->i);
    }
    *ret = &scope->values[attr->i].spec;
    return MR_OK;
}

static int check_value(const struct mr_arg *arg, const struct mr_attr *attr,
                       const mr_builder *scope, mr_error *err)
{
    const struct mr_leaf_spec *leaf = NULL;
    char text[MR_LEAF_TEXT];
    MR_TRY(scope_leaf(scope, attr, &leaf, err));
    if ((leaf->kind == MR_LEAF_DATASET) != ((arg->flags & MR_ARG_DATASET) != 0)) {
        return mr_error_set(err, MR_EINVAL, "argument '%s' must be a %s, the value given is %s",
                            attr->name, (arg->flags & MR_ARG_DATASET) != 0 ? "dataset" : "tensor",
                            mr_leaf_text(leaf, text));
    }
    if (strcmp(arg->name, attr->name) != 0) {
        return MR_OK; /* value0, value1, ... may be any tensor */
    }
    bool constant =
        (arg->flags & MR_ARG_CONSTANT) != 0 ||
        (arg->kind != MR_ATTR_INT && arg->kind != MR_ATTR_BYTES && arg->kind != MR_ATTR_INTS);
    if (constant) {
        return mr_error_set(err, MR_EINVAL, "argument '%s' must be a constant", attr->name);
    }
    bool shaped =
        leaf->rank == (arg->kind == MR_ATTR_INTS ? 1 : 0) || leaf->rank == MR_RANK_UNKNOWN;
    bool fits = arg->kind == MR_ATTR_BYTES ? leaf->dtype == MR_STRING
                                           : leaf->dtype >= MR_INT8 && leaf->dtype <= MR_UINT64;
    if (!shaped || !fits) {
        const char *wanted = arg->kind == MR_ATTR_BYTES  ? "scalar string"
                             : arg->kind == MR_ATTR_INTS ? "vector of integers"
                                                         : "scalar integer";

        return mr_error_set(err, MR_EINVAL, "argument '%s' must be a %s, the value given is %s",
                            attr->name, wanted, mr_leaf_text(leaf, text));
    }
    return MR_OK;
}

static int check_attr(const struct mr_operator *op, const struct mr_attr *attr,
                      const mr_builder *scope, mr_error *err)
{
    const struct mr_arg *arg = find_arg(op, attr->name);

    if (arg == NULL) {
        return mr_error_set(err, MR_EINVAL, "there is no argument '%s'", attr->name);
    }
    if (attr->kind == MR_ATTR_VALUE) {
        return check_value(arg, attr, scope, err);
    }
    if (attr->kind != arg->kind || strcmp(arg->name, attr->name) != 0) {
        return mr_error_set(err, MR_EINVAL, "argument '%s' is %s, it must be %s", attr->name,
                            mr_attr_kind_name(attr->kind),
                            strcmp(arg->name, attr->name) == 0
                                ? mr_attr_kind_name(arg->kind)
                                : "a value of the enclosing function");
    }
    return attr->kind == MR_ATTR_INT ? mr_arg_check_int(arg, attr->i, err) : MR_OK;
}

static int check_attrs(const struct mr_dataset *ds, const mr_builder *scope, mr_error *err)
{
    for (size_t i = 0; i < ds->nattrs; i++) {
        MR_TRY(check_attr(ds->op, &ds->attrs[i], scope, err));
    }
    for (const struct mr_arg *a = ds->op->args; a != NULL && a->name != NULL; a++) {
        if ((a->flags & MR_ARG_OPTIONAL) == 0 &&
            mr_attr_find(ds->attrs, ds->nattrs, a->name) == NULL &&
            ((a->flags & MR_ARG_TENSORS) == 0 ||
             mr_attr_find(ds->attrs, ds->nattrs, "value0") == NULL)) {
            return mr_error_set(err, MR_EINVAL, "argument '%s' is missing", a->name);
        }
    }
    return MR_OK;
}

static int check_function(const mr_function *fn, enum mr_function_role role,
                          const mr_spec *elements, mr_error *err)
{
    char is[MR_LEAF_TEXT];
    char wants[MR_LEAF_TEXT];
    size_t n = mr_spec_leaves(elements);

    if (mr_spec_leaves(fn->inputs) != n) {
        return mr_error_set(err, MR_EINVAL, "the function takes %zu tensors, the elements have %zu",
                            mr_spec_leaves(fn->inputs), n);
    }
    for (size_t i = 0; i < n; i++) {
        if (!mr_leaf_covers(mr_spec_leaf(fn->inputs, i), mr_spec_leaf(elements, i))) {
            return mr_error_set(err, MR_EINVAL,
                                "tensor %zu of the elements is %s, the function takes %s", i,
                                mr_leaf_text(mr_spec_leaf(elements, i), is),
                                mr_leaf_text(mr_spec_leaf(fn->inputs, i), wants));
        }
    }
    if ((fn->dataset != NULL) != (role == MR_FUNCTION_DATASET)) {
        return mr_error_set(err, MR_EINVAL, "the function must return %s",
                            role == MR_FUNCTION_DATASET ? "a dataset"
                                                        : "tensors, it returns a dataset");
    }
    if (role == MR_FUNCTION_PREDICATE || role == MR_FUNCTION_KEY) {
        const struct mr_leaf_spec *leaf =
            mr_spec_leaves(fn->spec) == 1 ? mr_spec_leaf(fn->spec, 0) : NULL;
        uint8_t dtype = role == MR_FUNCTION_KEY ? MR_INT64 : MR_BOOL;

        if (leaf == NULL || leaf->dtype != dtype ||
            (leaf->rank != 0 && leaf->rank != MR_RANK_UNKNOWN)) {
            return mr_error_set(err, MR_EINVAL,
                                "the function must return one scalar %s, it returns %s",
                                mr_dtype_name((mr_dtype)dtype),
                                leaf != NULL ? mr_leaf_text(leaf, is) : "several tensors");
        }
    }
    return MR_OK;
}

int mr_infer_function(const struct mr_infer *in, size_t i, enum mr_function_role role,
                      const mr_spec *elements, mr_error *err)
{
    return check_function(in->functions[i], role, elements, err);
}

static int check_shape_of_node(const struct mr_operator *op, size_t ninputs, size_t nfunctions,
                               mr_error *err)
{
    if (ninputs < op->inputs || (!op->or_more_inputs && ninputs > op->inputs) ||
        ninputs > MR_LEAVES_MAX) {
        return mr_error_set(err, MR_EINVAL, "takes %u%s input datasets, %zu were given", op->inputs,
                            op->or_more_inputs ? " or more" : "", ninputs);
    }
    size_t wants = op->function != MR_FUNCTION_NONE ? 1 : 0;
    if (nfunctions < wants + op->min_more_functions ||
        nfunctions > wants + op->max_more_functions) {
        return mr_error_set(err, MR_EINVAL, "takes %zu functions, %zu were given",
                            wants + op->min_more_functions, nfunctions);
    }
    return MR_OK;
}

/* Note that the node uses values of the function being built by builder @id. */
static int join_scope(uint64_t *scope, uint64_t id, const char *what, mr_error *err)
{
    if (id == 0) {
        return MR_OK;
    }
    if (*scope != 0 && *scope != id) {
        return mr_error_set(err, MR_EINVAL,
                            "%s uses values of another function than the one around this dataset",
                            what);
    }
    *scope = id;
    return MR_OK;
}

static int place_node(mr_dataset *ds, const mr_builder *scope, mr_error *err)
{
    uint64_t around = scope != NULL ? scope->id : 0;
    int rc = MR_OK;

    ds->external = ds->op->external;
    ds->draws = ds->op->draws;
    ds->step = 1;
    ds->height = 1;
    for (size_t i = 0; i < ds->ninputs && rc == MR_OK; i++) {
        const mr_dataset *in = ds->inputs[i];

        rc = join_scope(&ds->scope, in->scope, "an input", err);
        ds->external = ds->external || in->external;
        ds->draws = ds->draws || in->draws;
        ds->step = in->step >= ds->step ? in->step + 1 : ds->step;
        ds->height = in->height >= ds->height ? in->height + 1 : ds->height;
        ds->depth = MR_MAX(in->depth, ds->depth);
    }
    for (size_t i = 0; i < ds->nfunctions && rc == MR_OK; i++) {
        const mr_function *fn = ds->functions[i];

        rc = join_scope(&ds->scope, fn->scope, "a function", err);
        ds->external = ds->external || (fn->dataset != NULL && fn->dataset->external);
        ds->draws = ds->draws || mr_function_draws(fn);
        ds->height = fn->height >= ds->height ? fn->height + 1 : ds->height;
        ds->depth = MR_MAX(fn->depth, ds->depth);
    }
    for (size_t i = 0; i < ds->nattrs && rc == MR_OK; i++) {
        if (ds->attrs[i].kind == MR_ATTR_VALUE) {
            rc = join_scope(&ds->scope, around, ds->attrs[i].name, err);
        }
    }
    if (rc == MR_OK && around != 0) {
        uint64_t used = ds->scope;

        rc = join_scope(&used, around, "the dataset", err);
    }
    if (rc != MR_OK) {
        return rc;
    }
    if (ds->height > MR_GRAPH_HEIGHT_MAX) {
        return mr_error_set(err, MR_EINVAL, "more than %d operators in a row", MR_GRAPH_HEIGHT_MAX);
    }
    if (ds->depth > MR_FUNCTION_DEPTH_MAX) {
        return mr_error_set(err, MR_EINVAL, "functions are nested more than %d deep",
                            MR_FUNCTION_DEPTH_MAX);
    }
    return MR_OK;
}

static int infer_node(mr_dataset *ds, const mr_builder *scope, mr_error *err)
{
    struct mr_infer in = {
        .op = ds->op,
        .inputs = ds->inputs,
        .ninputs = ds->ninputs,
        .attrs = ds->attrs,
        .nattrs = ds->nattrs,
        .functions = ds->functions,
        .nfunctions = ds->nfunctions,
        .scope = scope,
        .cardinality = MR_CARDINALITY_UNKNOWN,
    };
    MR_TRY(ds->op->infer(&in, err));

    ds->spec = in.spec;
    ds->cardinality = in.cardinality;
    return MR_OK;
}

static int fill_node(mr_dataset *ds, mr_dataset *const *inputs, const struct mr_attr *attrs,
                     size_t nattrs, mr_function *const *functions, mr_error *err)
{
    ds->inputs = mr_calloc(ds->ninputs, sizeof(mr_dataset *));
    ds->functions = mr_calloc(ds->nfunctions, sizeof(mr_function *));
    if (ds->inputs == NULL || ds->functions == NULL) {
        return mr_error_nomem(err);
    }
    for (size_t i = 0; i < ds->ninputs; i++) {
        ds->inputs[i] = mr_dataset_ref(inputs[i]);
    }
    for (size_t i = 0; i < ds->nfunctions; i++) {
        ds->functions[i] = mr_function_ref(functions[i]);
    }
    int rc = mr_attrs_copy(attrs, nattrs, &ds->attrs, err);
    ds->nattrs = rc == MR_OK ? nattrs : 0;
    return rc;
}

/* A node that is to be published: complete, its arguments in order, above its inputs. */
static bool node_is_sound(const mr_dataset *ds)
{
    bool sound = ds->spec != NULL && ds->cardinality >= MR_CARDINALITY_UNKNOWN;

    for (size_t i = 1; i < ds->nattrs; i++) {
        sound = sound && strcmp(ds->attrs[i - 1].name, ds->attrs[i].name) < 0;
    }
    for (size_t i = 0; i < ds->ninputs; i++) {
        sound = sound && ds->inputs[i]->height < ds->height;
    }
    return sound;
}

static int apply(const struct mr_operator *op, mr_dataset *const *inputs, size_t ninputs,
                 const struct mr_attr *attrs, size_t nattrs, mr_function *const *functions,
                 size_t nfunctions, mr_builder *scope, mr_dataset **ret, mr_error *err)
{
    MR_TRY(check_shape_of_node(op, ninputs, nfunctions, err));
    MR_AUTO(mr_dataset_unref) mr_dataset *ds = mr_calloc(1, sizeof *ds);
    MR_CHECK_ALLOC(ds, err);
    atomic_init(&ds->refs, 1);
    atomic_init(&ds->opened, 0);
    atomic_init(&ds->reads, 0);
    atomic_init(&ds->kept, NULL);
    ds->op = op;
    ds->ninputs = ninputs;
    ds->nfunctions = nfunctions;
    MR_TRY(fill_node(ds, inputs, attrs, nattrs, functions, err));
    MR_TRY(check_attrs(ds, scope, err));
    MR_TRY(place_node(ds, scope, err));
    if (op->function != MR_FUNCTION_NONE) {
        MR_TRY(check_function(ds->functions[0], op->function, ds->inputs[0]->spec, err));
    }
    MR_TRY(infer_node(ds, scope, err));
    MR_TRY(mr_canonical_dataset(ds, scope != NULL ? scope->values : NULL, ds->fingerprint, err));
    set_places(ds);
    MR_ASSERT_SLOW(node_is_sound(ds));
    *ret = MR_TAKE(ds);
    return MR_OK;
}

int mr_dataset_apply(const char *op, mr_dataset *const *inputs, size_t ninputs,
                     const struct mr_attr *attrs, size_t nattrs, mr_function *const *functions,
                     size_t nfunctions, mr_builder *scope, mr_dataset **ret, mr_error *err)
{
    const struct mr_operator *found = mr_operator_find(op);

    if (found == NULL) {
        return mr_error_set(err, MR_EUNIMPL,
                            "there is no dataset operator '%s' in this version (%s)", op,
                            MR_VERSION);
    }
    MR_TRY_WRAP(
        apply(found, inputs, ninputs, attrs, nattrs, functions, nfunctions, scope, ret, err), err,
        "%s", op);
    return MR_OK;
}
