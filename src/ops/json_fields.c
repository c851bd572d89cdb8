#include "ops/json_fields.h"

#include "base/limits.h"
#include "ops/attr.h"
#include "ops/example_config.h" /* mr_string_compare */
#include "ops/json.h"

#include <stdlib.h>

#define SET_VALUES                                                                                 \
    (MR_SET_INTS | MR_SET(MR_FLOAT32) | MR_SET(MR_FLOAT64) | MR_SET(MR_BOOL) | MR_SET(MR_STRING))
#define NODES_MAX (2 * MR_LEAVES_MAX)

void mr_json_fields_free(void *state)
{
    struct mr_json_fields *fields = state;

    if (fields == NULL) {
        return;
    }
    MR_CHECK_MAGIC(fields, MR_JSON_FIELDS_MAGIC);
    for (size_t i = 0; i < fields->n; i++) {
        mr_input_close(&fields->fields[i].fallback);
    }
    mr_free(fields->bytes);
    mr_free(fields->nodes);
    mr_free(fields->order);
    mr_free(fields);
}

const char *mr_json_path_text(struct mr_string path, char buf[MR_JSON_PATH_TEXT])
{
    (void)snprintf(buf, MR_JSON_PATH_TEXT, "field '%.*s'", (int)MR_MIN(path.size, 60),
                   (const char *)path.data);
    return buf;
}

/* ---- one field ---- */

static int read_shape(struct mr_json_field *f, const struct mr_attr *shape, mr_error *err)
{
    f->count = 1;
    if (shape == NULL) {
        return MR_OK;
    }
    if (shape->count < 0) {
        return mr_error_set(err, MR_EINVAL, "its shape has an unknown rank");
    }
    f->rank = shape->count;
    for (int d = 0; d < f->rank; d++) {
        f->dims[d] = shape->ints[d];
        if (f->dims[d] < 0) {
            return mr_error_set(err, MR_EINVAL, "dim %d of its shape is unknown", d);
        }
    }
    if (!mr_shape_count(f->rank, f->dims, &f->count) ||
        f->count > MR_ELEMENT_BYTES_MAX / mr_value_width(f->dtype)) {
        return mr_error_set(err, MR_EINVAL, "its shape is above the limit");
    }
    return MR_OK;
}

static int read_default(struct mr_json_field *f, const struct mr_attr *given, mr_error *err)
{
    if (given == NULL) {
        return MR_OK;
    }
    if (given->block == NULL || mr_block_rows(given->block) != 1 ||
        mr_block_column_count(given->block) != 1 ||
        mr_block_column(given->block, 0)->dtype != f->dtype) {
        return mr_error_set(err, MR_EINVAL, "its default is not one tensor of %s",
                            mr_dtype_name((mr_dtype)f->dtype));
    }
    f->given = mr_block_owned_column(given->block, 0);
    MR_TRY(mr_input_open(&(struct mr_kernel_in){&f->given, true}, 1, &f->fallback, err));
    f->optional = true;
    if (f->fallback.count != 1 && f->fallback.count != f->count) {
        return mr_error_set(err, MR_EINVAL, "its default has %llu values, not %llu",
                            (unsigned long long)f->fallback.count, (unsigned long long)f->count);
    }
    return MR_OK;
}

static int read_field(struct mr_json_field *f, size_t i, struct mr_attrs attrs, mr_error *err)
{
    int64_t dtype = mr_attr_get(attrs, "dtypes")->ints[i];
    char name[32];

    if (dtype < 0 || dtype >= MR_DTYPE_COUNT || (SET_VALUES & MR_SET(dtype)) == 0) {
        return mr_error_set(err, MR_EINVAL,
                            "wants ints, float32, float64, bool or string, which may be cast");
    }
    f->dtype = (uint8_t)dtype;
    (void)snprintf(name, sizeof name, "shape%zu", i);
    MR_TRY(read_shape(f, mr_attr_get(attrs, name), err));
    (void)snprintf(name, sizeof name, "default%zu", i);
    return read_default(f, mr_attr_get(attrs, name), err);
}

/* ---- names ---- */

static int compare(const struct mr_json_node *a, uint32_t parent, struct mr_string name)
{
    return a->parent != parent ? (a->parent > parent ? 1 : -1) : mr_string_compare(a->name, name);
}

static int compare_nodes(const void *a, const void *b, void *ctx)
{
    const struct mr_json_node *nodes = ctx;
    const struct mr_json_node *second = &nodes[*(const uint32_t *)b];

    return compare(&nodes[*(const uint32_t *)a], second->parent, second->name);
}

uint32_t mr_json_fields_find(const struct mr_json_fields *fields, uint32_t parent,
                             struct mr_string name)
{
    size_t low = 0;
    size_t high = fields->nodes_count - 1;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(&fields->nodes[fields->order[middle]], parent, name);

        if (order == 0) {
            return fields->order[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 0;
}

/* The node @name within @parent, made if there is none. */
static int enter_node(struct mr_json_fields *fields, uint32_t parent, struct mr_string name,
                      struct mr_string path, uint32_t *ret, mr_error *err)
{
    for (uint32_t i = 1; i < fields->nodes_count; i++) {
        if (compare(&fields->nodes[i], parent, name) == 0) {
            *ret = i;
            return MR_OK;
        }
    }
    if (fields->nodes_count == NODES_MAX) {
        return mr_error_set(err, MR_EINVAL, "there are more than %d names", NODES_MAX);
    }
    *ret = fields->nodes_count++;
    fields->nodes[*ret] = (struct mr_json_node){parent, -1, name, path};
    return MR_OK;
}

/* The name at @p, up to a dot or the end, without its backslashes to @to. */
static int take_name(const unsigned char **p, const unsigned char *end, unsigned char *to,
                     struct mr_string *ret, mr_error *err)
{
    *ret = (struct mr_string){to, 0};
    for (; *p < end && **p != '.'; (*p)++) {
        if (**p == '\\') {
            (*p)++;
            if (*p == end || (**p != '\\' && **p != '.')) {
                return mr_error_set(err, MR_EINVAL,
                                    "a backslash stands before a dot or a backslash");
            }
        }
        to[ret->size++] = **p;
    }
    return MR_OK;
}

static int enter_path(struct mr_json_fields *fields, size_t field, unsigned char **to,
                      mr_error *err)
{
    struct mr_string path = fields->fields[field].path;
    const unsigned char *p = path.data;
    const unsigned char *end = p + path.size;
    uint32_t node = 0;

    for (unsigned depth = 0;; depth++) {
        struct mr_string name;

        if (depth == MR_JSON_DEPTH_MAX) {
            return mr_error_set(err, MR_EINVAL, "more than %d names deep", MR_JSON_DEPTH_MAX);
        }
        MR_TRY(take_name(&p, end, *to, &name, err));
        *to += name.size;
        MR_TRY(enter_node(fields, node, name,
                          (struct mr_string){path.data, (size_t)(p - path.data)}, &node, err));
        if (fields->nodes[node].field >= 0) {
            return mr_error_set(err, MR_EINVAL, p == end ? "named twice" : "is in a value");
        }
        if (p == end) {
            fields->nodes[node].field = (int32_t)field;
            return MR_OK;
        }
        p++;
    }
}

/* An object that has become a field keeps its members: they are its children. */
static int check_leaves(const struct mr_json_fields *fields, mr_error *err)
{
    for (uint32_t i = 1; i < fields->nodes_count; i++) {
        const struct mr_json_node *up = &fields->nodes[fields->nodes[i].parent];
        char text[MR_JSON_PATH_TEXT];

        if (up->field >= 0) {
            return mr_error_set(err, MR_EINVAL, "%s has fields in it, and is one itself",
                                mr_json_path_text(up->path, text));
        }
    }
    return MR_OK;
}

static int enter_paths(struct mr_json_fields *fields, mr_error *err)
{
    size_t size = 0;

    for (size_t i = 0; i < fields->n; i++) {
        size += fields->fields[i].path.size;
    }
    fields->bytes = mr_malloc(size + 1);
    /* the record, and for each path one more than it has dots */
    size_t nodes = MR_MIN(1 + fields->n + size, NODES_MAX);
    fields->nodes = mr_reallocarray(NULL, nodes, sizeof *fields->nodes);
    fields->order = mr_reallocarray(NULL, nodes, sizeof *fields->order);
    MR_CHECK_ALLOC(fields->bytes, err);
    MR_CHECK_ALLOC(fields->nodes, err);
    MR_CHECK_ALLOC(fields->order, err);
    fields->nodes[0] = (struct mr_json_node){.field = -1};
    fields->nodes_count = 1;
    unsigned char *to = fields->bytes;
    for (size_t i = 0; i < fields->n; i++) {
        char text[MR_JSON_PATH_TEXT];

        MR_TRY_WRAP(enter_path(fields, i, &to, err), err, "%s",
                    mr_json_path_text(fields->fields[i].path, text));
    }
    MR_TRY(check_leaves(fields, err));
    for (uint32_t i = 1; i < fields->nodes_count; i++) {
        fields->order[i - 1] = i;
    }
    qsort_r(fields->order, fields->nodes_count - 1, sizeof *fields->order, compare_nodes,
            fields->nodes);
    return MR_OK;
}

/* ---- all ---- */

static int check_lists(const struct mr_attr *names, const struct mr_attr *dtypes, size_t *n,
                       mr_error *err)
{
    const struct mr_column *c = NULL;

    if (names->block != NULL && mr_block_column_count(names->block) == 1) {
        c = mr_block_column(names->block, 0);
    }
    if (c == NULL || c->dtype != MR_STRING || c->kind != MR_COLUMN_FIXED || c->rank != 0) {
        return mr_error_set(err, MR_EINVAL, "attribute 'names': wants a list of strings");
    }
    *n = mr_block_rows(names->block);
    if (*n == 0 || *n > MR_LEAVES_MAX) {
        return mr_error_set(err, MR_EINVAL, "%zu fields; wants 1 to %d", *n, MR_LEAVES_MAX);
    }
    if ((size_t)dtypes->count != *n) {
        return mr_error_set(err, MR_EINVAL, "%zu names and %d dtypes", *n, dtypes->count);
    }
    return MR_OK;
}

int mr_json_fields_new(struct mr_attrs attrs, struct mr_json_fields **ret, mr_error *err)
{
    const struct mr_attr *names = mr_attr_get(attrs, "names");
    size_t n = 0;

    MR_TRY(check_lists(names, mr_attr_get(attrs, "dtypes"), &n, err));
    MR_AUTO(mr_json_fields_free)
    struct mr_json_fields *fields = mr_calloc(1, sizeof *fields + n * sizeof fields->fields[0]);
    MR_CHECK_ALLOC(fields, err);
    fields->magic = MR_JSON_FIELDS_MAGIC;
    fields->n = n;
    for (size_t i = 0; i < n; i++) {
        const struct mr_column *c = mr_block_column(names->block, 0);
        const unsigned char *data = c->data != NULL ? c->data : (const unsigned char *)"";
        struct mr_json_field *f = &fields->fields[i];
        char text[MR_JSON_PATH_TEXT];

        f->path = (struct mr_string){data + c->offsets[i], c->offsets[i + 1] - c->offsets[i]};
        MR_TRY_WRAP(read_field(f, i, attrs, err), err, "%s", mr_json_path_text(f->path, text));
    }
    MR_TRY(enter_paths(fields, err));
    *ret = MR_TAKE(fields);
    return MR_OK;
}
