/* Where a component stands in an element, for messages. */
#include "element/spec_internal.h"

#include "base/buf.h"
#include "element/block.h"

MR_AUTO_DEFINE(json_t, json_decref)

static bool find(const json_t *node, size_t *before, struct mr_buf *path);

/* A part of @path that is taken back where the leaf is not in @node. */
static bool find_in(const json_t *node, size_t *before, struct mr_buf *path, size_t mark)
{
    if (find(node, before, path)) {
        return true;
    }
    path->len = mark;
    return false;
}

static bool find_in_list(const json_t *list, size_t *before, struct mr_buf *path)
{
    size_t mark = path->len;
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        mr_buf_printf(path, "[%zu]", i);
        if (find_in(item, before, path, mark)) {
            return true;
        }
    }
    return false;
}

static bool find_in_namedtuple(const json_t *args, size_t *before, struct mr_buf *path)
{
    const json_t *fields = json_array_get(args, 1);
    size_t mark = path->len;
    size_t i;
    json_t *value;

    json_array_foreach(json_array_get(args, 2), i, value)
    {
        mr_buf_printf(path, ".%s", json_string_value(json_array_get(fields, i)));
        if (find_in(value, before, path, mark)) {
            return true;
        }
    }
    return false;
}

static bool find_in_dict(const json_t *dict, size_t *before, struct mr_buf *path)
{
    size_t mark = path->len;
    const char *key;
    json_t *value;

    if (json_object_get(dict, MR_STRUCTURE_NAMEDTUPLE) != NULL) {
        return find_in_namedtuple(json_object_get(dict, MR_STRUCTURE_NAMEDTUPLE), before, path);
    }
    json_object_foreach((json_t *)(uintptr_t)dict, key, value)
    {
        mr_buf_printf(path, "['%s']", key);
        if (find_in(value, before, path, mark)) {
            return true;
        }
    }
    return false;
}

/* Is the leaf in @node that has *@before others before it? @path says where then. Structures are
 * canonical, which bounds the depth. */
static bool find(const json_t *node, size_t *before, struct mr_buf *path)
{
    if (json_is_string(node) || json_object_get(node, MR_STRUCTURE_DATASET) != NULL) {
        return (*before)-- == 0;
    }
    return json_is_array(node) ? find_in_list(node, before, path)
                               : find_in_dict(node, before, path);
}

const char *mr_spec_component(const mr_spec *spec, size_t i, char *out)
{
    MR_AUTO(json_decref) json_t *root = NULL;
    MR_AUTO(mr_free) char *path = NULL;
    struct mr_buf b = MR_BUF_INIT;
    char shown[MR_COMPONENT_BYTES - sizeof "component "];

    if (spec != NULL) {
        root = json_loads(mr_spec_sorted(spec), JSON_DECODE_ANY, NULL);
    }
    if (root != NULL) {
        size_t before = i;

        (void)find(root, &before, &b);
        path = mr_buf_take(&b, NULL);
    }
    if (path == NULL) { /* nobody knows, or no memory */
        (void)snprintf(out, MR_COMPONENT_BYTES, "component %zu", i);
    } else if (path[0] == '\0') {
        (void)snprintf(out, MR_COMPONENT_BYTES, "the element");
    } else {
        (void)snprintf(out, MR_COMPONENT_BYTES, "component %s",
                       mr_escape(path, shown, sizeof shown));
    }
    return out;
}
