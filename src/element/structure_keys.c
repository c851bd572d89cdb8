/* Structures whose dicts have their keys in any order: the leaves follow the bytes of the keys. */
#include "element/spec_internal.h"

#include "base/limits.h"
#include "element/block.h"

#define TEXT (JSON_COMPACT | JSON_ENCODE_ANY)

MR_AUTO_DEFINE(json_t, json_decref)
MR_AUTO_DEFINE(char, free) /* of what jansson has allocated */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **mr_structure_keys(const json_t *dict, size_t *n)
{
    const char **keys = mr_calloc(MR_MAX(json_object_size(dict), 1), sizeof *keys);
    const char *key;
    json_t *value;

    *n = 0;
    if (keys == NULL) {
        return NULL;
    }
    json_object_foreach((json_t *)(uintptr_t)dict, key, value)
    {
        keys[(*n)++] = key;
    }
    qsort(keys, *n, sizeof *keys, by_bytes);
    return keys;
}

/* Structures for the leaves of another one. */
struct fill {
    const char *const *inner;
    size_t n;
    size_t met;
};

/* NULL: no memory. The structure is a checked one, of as many leaves as there are structures. */
static json_t *fill(struct fill *f, const json_t *node);

static json_t *fill_list(struct fill *f, const json_t *list)
{
    MR_AUTO(json_decref) json_t *out = json_array();
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        if (json_array_append_new(out, fill(f, item)) != 0) {
            return NULL;
        }
    }
    return MR_TAKE(out);
}

static json_t *fill_dict(struct fill *f, const json_t *dict)
{
    const json_t *named = json_object_get(dict, MR_STRUCTURE_NAMEDTUPLE);
    MR_AUTO(json_decref) json_t *out = json_copy((json_t *)(uintptr_t)dict); /* in its order */
    size_t n = 0;

    if (out == NULL) {
        return NULL;
    }
    if (named != NULL) {
        MR_AUTO(json_decref) json_t *parts = json_copy((json_t *)(uintptr_t)named);
        bool made = json_array_set_new(parts, 2, fill_list(f, json_array_get(named, 2))) == 0 &&
                    json_object_set(out, MR_STRUCTURE_NAMEDTUPLE, parts) == 0;

        return made ? MR_TAKE(out) : NULL;
    }
    MR_AUTO(mr_free) const char **keys = mr_structure_keys(dict, &n);
    if (keys == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (json_object_set_new(out, keys[i], fill(f, json_object_get(dict, keys[i]))) != 0) {
            return NULL;
        }
    }
    return MR_TAKE(out);
}

static json_t *fill(struct fill *f, const json_t *node)
{
    if (json_is_array(node)) {
        return fill_list(f, node);
    }
    if (json_is_object(node)) {
        return fill_dict(f, node);
    }
    MR_ASSERT(f->met < f->n);
    return json_loads(f->inner[f->met++], JSON_DECODE_ANY, NULL);
}

int mr_structure_fill(const char *outer, const char *const *inner, size_t n, char **ret,
                      mr_error *err)
{
    struct fill f = {.inner = inner, .n = n};
    size_t leaves = 0;

    /* @outer comes from outside: what it is made of is checked as that of a spec. */
    MR_TRY(mr_structure_count(outer, &leaves, err));
    if (leaves != n) {
        return mr_error_set(err, MR_EINVAL, "argument 'structure' has %zu places for %zu inputs",
                            leaves, n);
    }
    MR_AUTO(json_decref) json_t *root = json_loads(outer, JSON_DECODE_ANY, NULL);
    MR_AUTO(json_decref) json_t *made = root != NULL ? fill(&f, root) : NULL;
    MR_AUTO(free) char *text = made != NULL ? json_dumps(made, TEXT) : NULL;
    *ret = text != NULL ? mr_strdup(text) : NULL;
    return *ret != NULL ? MR_OK : mr_error_nomem(err);
}
