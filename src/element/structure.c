#include "element/spec_internal.h"

#include "base/buf.h"
#include "base/limits.h"
#include "element/block.h"

#define NAMEDTUPLE MR_STRUCTURE_NAMEDTUPLE
#define DATASET MR_STRUCTURE_DATASET

#define TEXT (JSON_COMPACT | JSON_ENCODE_ANY)

/* The leaves as they are met. */
struct walk {
    struct mr_leaf_spec *leaves;
    size_t n;
    size_t met;
    int nesting;
};

MR_AUTO_DEFINE(json_t, json_decref)
MR_AUTO_DEFINE(char, free) /* of what jansson has allocated */

static int walk(struct walk *w, const json_t *node, int depth, mr_error *err);

static int walk_list(struct walk *w, const json_t *list, int depth, mr_error *err)
{
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        MR_TRY_WRAP(walk(w, item, depth, err), err, "[%zu]", i);
    }
    return MR_OK;
}

static int walk_namedtuple(struct walk *w, const json_t *args, int depth, mr_error *err)
{
    const json_t *name = json_array_get(args, 0);
    const json_t *fields = json_array_get(args, 1);
    const json_t *values = json_array_get(args, 2);
    size_t i;
    json_t *field;

    if (json_array_size(args) != 3 || !json_is_string(name) || !json_is_array(fields) ||
        !json_is_array(values) || json_array_size(fields) != json_array_size(values)) {
        return mr_error_set(err, MR_EINVAL, "a named tuple is [name, [field, ...], [value, ...]]");
    }
    json_array_foreach(fields, i, field)
    {
        if (!json_is_string(field)) {
            return mr_error_set(err, MR_EINVAL, "field %zu of a named tuple has no name", i);
        }
    }
    return walk_list(w, values, depth, err);
}

static int leaf_from_json(const json_t *entry, struct mr_leaf_spec *leaf, mr_error *err)
{
    const char *name = json_string_value(json_array_get(entry, 0));
    size_t dims = json_array_size(entry) > 0 ? json_array_size(entry) - 1 : 0;

    *leaf = (struct mr_leaf_spec){.dtype = MR_STRING};
    if (json_is_null(entry)) {
        return MR_OK; /* a dataset: the structure says of what */
    }
    leaf->dtype = MR_DTYPE_NONE;
    for (int d = 1; name != NULL && d < MR_DTYPE_COUNT; d++) {
        leaf->dtype = strcmp(mr_dtype_name((mr_dtype)d), name) == 0 ? (uint8_t)d : leaf->dtype;
    }
    if (leaf->dtype == MR_DTYPE_NONE || dims > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "a component is [dtype, dimension, ...]");
    }
    leaf->rank = (int8_t)dims;
    if (dims == 1 && json_is_null(json_array_get(entry, 1))) {
        leaf->rank = MR_RANK_UNKNOWN;
        return MR_OK;
    }
    for (size_t d = 0; d < dims; d++) {
        const json_t *dim = json_array_get(entry, d + 1);

        if (!json_is_integer(dim)) {
            return mr_error_set(err, MR_EINVAL, "dimension %zu is not an integer", d);
        }
        leaf->dims[d] = json_integer_value(dim);
    }
    return MR_OK;
}

static int spec_from_json(const json_t *args, int nesting, mr_spec **ret, mr_error *err)
{
    const json_t *table = json_array_get(args, 0);
    size_t n = json_array_size(table);

    if (json_array_size(args) != 2 || !json_is_array(table) || n > MR_LEAVES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a dataset is [[component, ...], structure]");
    }
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = mr_calloc(n, sizeof *leaves);
    MR_AUTO(free) char *structure = json_dumps(json_array_get(args, 1), TEXT);
    MR_AUTO(mr_spec_unref) mr_spec *spec = NULL;
    MR_CHECK_ALLOC(leaves, err);
    MR_CHECK_ALLOC(structure, err);
    for (size_t i = 0; i < n; i++) {
        MR_TRY(leaf_from_json(json_array_get(table, i), &leaves[i], err));
    }
    MR_TRY(mr_spec_new_nested(leaves, n, structure, nesting, &spec, err));
    for (size_t i = 0; i < n; i++) {
        bool says_dataset = json_is_null(json_array_get(table, i));

        if (says_dataset != (mr_spec_leaf(spec, i)->kind == MR_LEAF_DATASET)) {
            return mr_error_set(err, MR_EINVAL,
                                "component %zu is a dataset in the table or in the structure only",
                                i);
        }
    }
    *ret = MR_TAKE(spec);
    return MR_OK;
}

/* A leaf that is a dataset. */
static int walk_dataset(struct walk *w, const json_t *args, mr_error *err)
{
    mr_spec *elements = NULL;

    if (w->nesting >= MR_DATASET_NESTING_MAX) {
        return mr_error_set(err, MR_EINVAL, "datasets of datasets are nested deeper than %d",
                            MR_DATASET_NESTING_MAX);
    }
    MR_TRY_WRAP(spec_from_json(args, w->nesting + 1, &elements, err), err, "dataset");
    int64_t hash = (int64_t)mr_spec_hash(elements);
    mr_spec_unref(elements);
    if (w->met < w->n) {
        struct mr_leaf_spec *leaf = &w->leaves[w->met];

        if (leaf->dtype != MR_STRING || leaf->rank != 0 ||
            (leaf->kind == MR_LEAF_DATASET && leaf->dims[0] != hash)) {
            return mr_error_set(err, MR_EINVAL,
                                "leaf %zu is not the dataset that the structure says", w->met);
        }
        leaf->kind = MR_LEAF_DATASET;
        leaf->dims[0] = hash;
    }
    w->met++;
    return MR_OK;
}

static int walk_dict(struct walk *w, const json_t *dict, int depth, mr_error *err)
{
    size_t n = 0;

    if (json_object_size(dict) == 1 && json_object_get(dict, NAMEDTUPLE) != NULL) {
        return walk_namedtuple(w, json_object_get(dict, NAMEDTUPLE), depth, err);
    }
    if (json_object_size(dict) == 1 && json_object_get(dict, DATASET) != NULL) {
        return walk_dataset(w, json_object_get(dict, DATASET), err);
    }
    MR_AUTO(mr_free) const char **keys = mr_structure_keys(dict, &n);
    MR_CHECK_ALLOC(keys, err);
    for (size_t i = 0; i < n; i++) {
        if (keys[i][0] == '!') {
            return mr_error_set(err, MR_EINVAL, "key '%s': keys that begin with ! are reserved",
                                keys[i]);
        }
        MR_TRY_WRAP(walk(w, json_object_get(dict, keys[i]), depth, err), err, ".%s", keys[i]);
    }
    return MR_OK;
}

static int walk(struct walk *w, const json_t *node, int depth, mr_error *err)
{
    if (depth > MR_STRUCTURE_DEPTH_MAX) {
        return mr_error_set(err, MR_EINVAL, "nested deeper than %d", MR_STRUCTURE_DEPTH_MAX);
    }
    if (json_is_string(node) && strcmp(json_string_value(node), "*") == 0) {
        if (w->met < w->n && w->leaves[w->met].kind != MR_LEAF_TENSOR) {
            return mr_error_set(err, MR_EINVAL, "leaf %zu is a dataset, not a tensor", w->met);
        }
        w->met++;
        return MR_OK;
    }
    if (json_is_array(node)) {
        return walk_list(w, node, depth + 1, err);
    }
    if (json_is_object(node)) {
        return walk_dict(w, node, depth + 1, err);
    }
    return mr_error_set(err, MR_EINVAL, "neither \"*\" nor a list nor a dict");
}

static int default_structure(size_t leaves, char **ret, mr_error *err)
{
    struct mr_buf b = MR_BUF_INIT;

    if (leaves == 1) {
        mr_buf_puts(&b, "\"*\"");
    } else {
        mr_buf_puts(&b, "[");
        for (size_t i = 0; i < leaves; i++) {
            mr_buf_puts(&b, i == 0 ? "\"*\"" : ",\"*\"");
        }
        mr_buf_puts(&b, "]");
    }
    *ret = mr_buf_take(&b, NULL);
    return *ret == NULL ? mr_error_nomem(err) : MR_OK;
}

/* @structure, which has @w's leaves. The caller owns *@ret. */
static int checked(struct walk *w, const char *structure, json_t **ret, mr_error *err)
{
    json_error_t why;

    if (strnlen(structure, MR_STRUCTURE_BYTES_MAX + 1) > MR_STRUCTURE_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "structure is longer than %u bytes",
                            MR_STRUCTURE_BYTES_MAX);
    }
    MR_AUTO(json_decref)
    json_t *root = json_loads(structure, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &why);
    if (root == NULL) {
        return mr_error_set(err, MR_EINVAL, "structure: column %d: %s", why.column, why.text);
    }
    MR_TRY_WRAP(walk(w, root, 0, err), err, "structure");
    *ret = MR_TAKE(root);
    return MR_OK;
}

static int put_text(const json_t *root, size_t flags, char **ret, mr_error *err)
{
    MR_AUTO(free) char *text = json_dumps(root, TEXT | flags);

    *ret = text != NULL ? mr_strdup(text) : NULL;
    return *ret != NULL ? MR_OK : mr_error_nomem(err);
}

int mr_structure_count(const char *structure, size_t *ret, mr_error *err)
{
    struct walk w = {.n = 0};
    MR_AUTO(json_decref) json_t *root = NULL;

    MR_TRY(checked(&w, structure, &root, err));
    *ret = w.met;
    return MR_OK;
}

int mr_structure_check(const char *structure, struct mr_leaf_spec *leaves, size_t n, int nesting,
                       char **shown, char **sorted, mr_error *err)
{
    struct walk w = {.leaves = leaves, .n = n, .nesting = nesting};
    MR_AUTO(json_decref) json_t *root = NULL;

    if (structure == NULL) {
        MR_TRY(default_structure(n, shown, err));
        *sorted = mr_strdup(*shown);
        return *sorted != NULL ? MR_OK : mr_error_nomem(err);
    }
    MR_TRY(checked(&w, structure, &root, err));
    if (w.met != n) {
        return mr_error_set(err, MR_EINVAL, "structure has %zu leaves, not %zu", w.met, n);
    }
    MR_TRY(put_text(root, 0, shown, err));
    return put_text(root, JSON_SORT_KEYS, sorted, err);
}

/* ---- specs as JSON ---- */

static void put_leaf(struct mr_buf *b, const struct mr_leaf_spec *leaf)
{
    if (leaf->kind == MR_LEAF_DATASET) {
        mr_buf_puts(b, "null");
        return;
    }
    mr_buf_printf(b, "[\"%s\"", mr_dtype_name((mr_dtype)leaf->dtype));
    if (leaf->rank == MR_RANK_UNKNOWN) {
        mr_buf_puts(b, ",null");
    }
    for (int d = 0; d < leaf->rank; d++) {
        mr_buf_printf(b, ",%lld", (long long)leaf->dims[d]);
    }
    mr_buf_puts(b, "]");
}

void mr_spec_put_json(struct mr_buf *b, const struct mr_leaf_spec *leaves, size_t n,
                      const char *structure)
{
    mr_buf_puts(b, "[[");
    for (size_t i = 0; i < n; i++) {
        mr_buf_puts(b, i > 0 ? "," : "");
        put_leaf(b, &leaves[i]);
    }
    mr_buf_puts(b, "],");
    mr_buf_puts(b, structure);
    mr_buf_puts(b, "]");
}

int mr_spec_from_json(const void *text, size_t size, mr_spec **ret, mr_error *err)
{
    json_error_t why;

    if (size > MR_STRUCTURE_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "%zu bytes are more than a spec has", size);
    }
    MR_AUTO(json_decref) json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    return root != NULL ? spec_from_json(root, 1, ret, err)
                        : mr_error_set(err, MR_EINVAL, "column %d: %s", why.column, why.text);
}
