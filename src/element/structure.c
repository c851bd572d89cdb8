#include "element/spec_internal.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

#include <jansson.h>
#include <millrace/dataset.h> /* mr_free */
#include <string.h>

#define NAMEDTUPLE "!namedtuple"

static int walk(const json_t *node, int depth, size_t *leaves, mr_error *err);

static int walk_list(const json_t *list, int depth, size_t *leaves, mr_error *err)
{
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        int rc = walk(item, depth, leaves, err);

        if (rc < 0) {
            mr_error_wrap(err, "[%zu]", i);
            return rc;
        }
    }
    return MR_OK;
}

static int walk_namedtuple(const json_t *args, int depth, size_t *leaves, mr_error *err)
{
    const json_t *name = json_array_get(args, 0);
    const json_t *fields = json_array_get(args, 1);
    const json_t *values = json_array_get(args, 2);
    size_t i;
    json_t *field;

    if (json_array_size(args) != 3 || !json_is_string(name) || !json_is_array(fields) || !json_is_array(values) ||
        json_array_size(fields) != json_array_size(values)) {
        return mr_error_set(err, MR_EINVAL, "a named tuple is [name, [field, ...], [value, ...]]");
    }
    json_array_foreach(fields, i, field)
    {
        if (!json_is_string(field)) {
            return mr_error_set(err, MR_EINVAL, "field %zu of a named tuple has no name", i);
        }
    }
    return walk_list(values, depth, leaves, err);
}

static int walk_dict(const json_t *dict, int depth, size_t *leaves, mr_error *err)
{
    const char *last = NULL;
    const char *key;
    json_t *value;

    if (json_object_size(dict) == 1 && json_object_get(dict, NAMEDTUPLE) != NULL) {
        return walk_namedtuple(json_object_get(dict, NAMEDTUPLE), depth, leaves, err);
    }
    json_object_foreach((json_t *)(uintptr_t)dict, key, value)
    {
        if (key[0] == '!') {
            return mr_error_set(err, MR_EINVAL, "key '%s': keys that begin with ! are reserved", key);
        }
        /* Sorting them here would give the leaves to other keys than the caller meant. */
        if (last != NULL && strcmp(last, key) > 0) {
            return mr_error_set(err, MR_EINVAL, "keys are not sorted: '%s' comes after '%s'", key, last);
        }
        last = key;
        int rc = walk(value, depth, leaves, err);
        if (rc < 0) {
            mr_error_wrap(err, ".%s", key);
            return rc;
        }
    }
    return MR_OK;
}

/* Counts the leaves. */
static int walk(const json_t *node, int depth, size_t *leaves, mr_error *err)
{
    if (depth > MR_STRUCTURE_DEPTH_MAX) {
        return mr_error_set(err, MR_EINVAL, "nested deeper than %d", MR_STRUCTURE_DEPTH_MAX);
    }
    if (json_is_string(node) && strcmp(json_string_value(node), "*") == 0) {
        (*leaves)++;
        return MR_OK;
    }
    if (json_is_array(node)) {
        return walk_list(node, depth + 1, leaves, err);
    }
    if (json_is_object(node)) {
        return walk_dict(node, depth + 1, leaves, err);
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

int mr_structure_canonical(const char *structure, size_t leaves, char **ret, mr_error *err)
{
    json_error_t why;
    json_t *root = NULL;
    char *text = NULL;
    size_t found = 0;
    int rc = MR_OK;

    if (structure == NULL) {
        return default_structure(leaves, ret, err);
    }
    if (strnlen(structure, MR_STRUCTURE_BYTES_MAX + 1) > MR_STRUCTURE_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "structure is longer than %u bytes", MR_STRUCTURE_BYTES_MAX);
    }
    root = json_loads(structure, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &why);
    if (root == NULL) {
        rc = mr_error_set(err, MR_EINVAL, "structure: column %d: %s", why.column, why.text);
        goto out;
    }
    rc = walk(root, 0, &found, err);
    if (rc < 0) {
        mr_error_wrap(err, "structure");
        goto out;
    }
    if (found != leaves) {
        rc = mr_error_set(err, MR_EINVAL, "structure has %zu leaves, not %zu", found, leaves);
        goto out;
    }
    text = json_dumps(root, JSON_COMPACT | JSON_ENCODE_ANY);
    *ret = text == NULL ? NULL : mr_strdup(text);
    if (text == NULL || *ret == NULL) {
        rc = mr_error_nomem(err);
    }

out:
    free(text); /* jansson's allocator */
    json_decref(root);
    return rc;
}
