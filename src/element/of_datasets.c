/* The spec of what window gives: a dataset in the place of each component. */
#include "base/buf.h"
#include "element/block.h"
#include "element/spec_internal.h"

#define NAMEDTUPLE "!namedtuple"
#define DATASET "!dataset"
#define ONE_VALUE "millrace." /* what names of named tuples that are one value begin with */

#define TEXT (JSON_COMPACT | JSON_ENCODE_ANY)

MR_AUTO_DEFINE(json_t, json_decref)
MR_AUTO_DEFINE(char, free) /* of what jansson has allocated */

/* The datasets as they are made. */
struct wrap {
    const mr_spec *spec;
    size_t at;        /* the first leaf of the next one */
    uint32_t *leaves; /* of each of them */
    uint32_t made;
};

static json_t *wrap(struct wrap *w, const json_t *node);

/* The leaves of @node, a checked structure. */
static uint32_t count_leaves(const json_t *node)
{
    const json_t *named = json_object_get(node, NAMEDTUPLE);
    uint32_t n = 0;
    size_t i;
    const char *key;
    json_t *child;

    if (json_is_string(node) || json_object_get(node, DATASET) != NULL) {
        return 1;
    }
    if (named != NULL) {
        return count_leaves(json_array_get(named, 2));
    }
    json_array_foreach(node, i, child)
    {
        n += count_leaves(child);
    }
    json_object_foreach((json_t *)(uintptr_t)node, key, child)
    {
        n += count_leaves(child);
    }
    return n;
}

static bool is_one_value(const json_t *node)
{
    const char *name = json_string_value(json_array_get(json_object_get(node, NAMEDTUPLE), 0));

    return name != NULL && strncmp(name, ONE_VALUE, strlen(ONE_VALUE)) == 0 &&
           count_leaves(node) > 0;
}

/* What @node stands for, as a dataset of such. */
static json_t *wrap_component(struct wrap *w, const json_t *node)
{
    MR_AUTO(free) char *structure = json_dumps(node, TEXT);
    uint32_t leaves = count_leaves(node);
    struct mr_buf b = MR_BUF_INIT;

    if (structure == NULL) {
        return NULL;
    }
    mr_buf_puts(&b, "{\"" DATASET "\":");
    mr_spec_put_json(&b, mr_spec_leaf(w->spec, w->at), leaves, structure);
    mr_buf_puts(&b, "}");
    json_t *out = b.failed ? NULL : json_loadb((const char *)b.data, b.len, 0, NULL);
    mr_buf_free(&b);
    w->at += leaves;
    w->leaves[w->made++] = leaves;
    return out;
}

static json_t *wrap_list(struct wrap *w, const json_t *list)
{
    MR_AUTO(json_decref) json_t *out = json_array();
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        if (json_array_append_new(out, wrap(w, item)) != 0) {
            return NULL;
        }
    }
    return MR_TAKE(out);
}

static json_t *wrap_dict(struct wrap *w, const json_t *dict)
{
    const json_t *named = json_object_get(dict, NAMEDTUPLE);
    MR_AUTO(json_decref) json_t *out = json_copy((json_t *)(uintptr_t)dict); /* in its order */
    size_t n = 0;

    if (named != NULL) {
        MR_AUTO(json_decref) json_t *parts = json_copy((json_t *)(uintptr_t)named);
        bool made = json_array_set_new(parts, 2, wrap_list(w, json_array_get(named, 2))) == 0 &&
                    json_object_set(out, NAMEDTUPLE, parts) == 0;

        return made ? MR_TAKE(out) : NULL;
    }
    MR_AUTO(mr_free) const char **keys = mr_structure_keys(dict, &n);
    if (keys == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (json_object_set_new(out, keys[i], wrap(w, json_object_get(dict, keys[i]))) != 0) {
            return NULL;
        }
    }
    return MR_TAKE(out);
}

/* NULL: no memory. The structure is a checked one. */
static json_t *wrap(struct wrap *w, const json_t *node)
{
    if (json_is_array(node)) {
        return wrap_list(w, node);
    }
    if (json_is_object(node) && json_object_get(node, DATASET) == NULL && !is_one_value(node)) {
        return wrap_dict(w, node);
    }
    return wrap_component(w, node);
}

int mr_spec_of_datasets(const mr_spec *spec, mr_spec **ret, uint32_t *counts, mr_error *err)
{
    size_t n = mr_spec_leaves(spec);
    MR_AUTO(mr_free) uint32_t *in_each = mr_calloc(n, sizeof *in_each);
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = mr_calloc(n, sizeof *leaves);
    struct wrap w = {.spec = spec, .leaves = counts != NULL ? counts : in_each};
    MR_AUTO(json_decref)
    json_t *root = json_loads(mr_spec_structure(spec), JSON_DECODE_ANY, NULL);

    MR_CHECK_ALLOC(in_each, err);
    MR_CHECK_ALLOC(leaves, err);
    MR_AUTO(json_decref) json_t *out = root != NULL ? wrap(&w, root) : NULL;
    MR_AUTO(free) char *text = out != NULL ? json_dumps(out, TEXT) : NULL;
    MR_CHECK_ALLOC(text, err);
    for (size_t i = 0; i < w.made; i++) {
        leaves[i] = (struct mr_leaf_spec){.dtype = MR_STRING};
    }
    return mr_spec_new(leaves, w.made, text, ret, err);
}
