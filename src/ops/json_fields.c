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
    mr_free(fields->leaves);
    mr_free(fields);
}

const char *mr_json_path_text(struct mr_string path, char buf[MR_JSON_PATH_TEXT])
{
    (void)snprintf(buf, MR_JSON_PATH_TEXT, "field '%.*s'", (int)MR_MIN(path.size, 60),
                   (const char *)path.data);
    return buf;
}

/* "[]" is at @p. */
static bool is_list(const unsigned char *p, const unsigned char *end)
{
    return end - p >= 2 && p[0] == '[' && p[1] == ']';
}

/* ---- one field ---- */

/* What the axes say together; @ragged is as the attribute has it. */
static int read_axes(struct mr_json_field *f, int64_t ragged, mr_error *err)
{
    uint64_t count = 1;

    for (int d = 0; d < f->rank; d++) {
        if (f->dims[d] < 0) {
            f->last = d;
            f->open = true;
            f->own_open = f->own_open || d >= f->lists;
        } else if (f->dims[d] > 0 && (__builtin_mul_overflow(count, (uint64_t)f->dims[d], &count) ||
                                      count > MR_ELEMENT_BYTES_MAX / mr_value_width(f->dtype))) {
            return mr_error_set(err, MR_EINVAL, "its shape is above the limit");
        }
    }
    if (ragged < MR_MAX(f->lists - 1, 0) || ragged > MR_MAX(f->rank - 1, 0)) {
        return mr_error_set(err, MR_EINVAL, "%lld of its %d axes are ragged", (long long)ragged,
                            f->rank);
    }
    f->ragged = (int)ragged;
    f->open = f->open || ragged > 0;
    f->last = MR_MAX(f->last, f->ragged);
    if (!f->own_open) {
        (void)mr_shape_count(f->rank - f->lists, f->dims + f->lists, &f->own_count);
    }
    return MR_OK;
}

/* How many lists the path leads through: "[]" behind names. */
static int count_lists(struct mr_string path)
{
    int lists = 0;

    for (size_t i = 0; i < path.size; i++) {
        if (path.data[i] == '\\') {
            i++;
        } else if (is_list(path.data + i, path.data + path.size)) {
            lists++;
        }
    }
    return lists;
}

static int read_shape(struct mr_json_field *f, const struct mr_attr *shape, int64_t ragged,
                      mr_error *err)
{
    if (shape != NULL && shape->count < 0) {
        return mr_error_set(err, MR_EINVAL, "its shape has an unknown rank");
    }
    f->rank = shape == NULL ? 0 : shape->count;
    for (int d = 0; d < f->rank; d++) {
        f->dims[d] = shape->ints[d] < 0 ? MR_DIM_UNKNOWN : shape->ints[d];
    }
    f->lists = count_lists(f->path);
    for (int d = 0; d < f->lists; d++) {
        if (d >= f->rank || f->dims[d] >= 0) {
            return mr_error_set(err, MR_EINVAL, "its shape lacks an axis for each []");
        }
    }
    return read_axes(f, ragged, err);
}

/* A default that has one length of many is a tensor of the field's own shape. */
static int check_open_default(const struct mr_json_field *f, mr_error *err)
{
    int rank = f->rank - f->lists;
    bool fits = f->fallback.rank == rank;
    char given[MR_SHAPE_TEXT];
    char own[MR_SHAPE_TEXT];

    for (int d = 0; fits && d < rank; d++) {
        int64_t dim = f->dims[f->lists + d];

        fits = dim < 0 || dim == f->fallback.dims[d];
    }
    return fits ? MR_OK
                : mr_error_set(err, MR_EINVAL, "its default has the shape %s, not %s",
                               mr_shape_text(f->fallback.rank, f->fallback.dims, given),
                               mr_shape_text(rank, f->dims + f->lists, own));
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
    if (f->own_open) {
        return check_open_default(f, err);
    }
    if (f->fallback.count != 1 && f->fallback.count != f->own_count) {
        return mr_error_set(err, MR_EINVAL, "its default has %llu values, not %llu",
                            (unsigned long long)f->fallback.count,
                            (unsigned long long)f->own_count);
    }
    return MR_OK;
}

static int read_field(struct mr_json_field *f, size_t i, struct mr_attrs attrs, mr_error *err)
{
    int64_t dtype = mr_attr_get(attrs, "dtypes")->ints[i];
    const struct mr_attr *ragged = mr_attr_get(attrs, "ragged");
    char name[32];

    if (dtype < 0 || dtype >= MR_DTYPE_COUNT || (SET_VALUES & MR_SET(dtype)) == 0) {
        return mr_error_set(err, MR_EINVAL,
                            "wants ints, float32, float64, bool or string, which may be cast");
    }
    f->dtype = (uint8_t)dtype;
    (void)snprintf(name, sizeof name, "shape%zu", i);
    MR_TRY(read_shape(f, mr_attr_get(attrs, name), ragged == NULL ? 0 : ragged->ints[i], err));
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
static int enter_node(struct mr_json_fields *fields, uint32_t parent,
                      const struct mr_json_node *made, uint32_t *ret, mr_error *err)
{
    for (uint32_t i = 1; i < fields->nodes_count; i++) {
        if (compare(&fields->nodes[i], parent, made->name) == 0) {
            *ret = i;
            return MR_OK;
        }
    }
    if (fields->nodes_count == NODES_MAX) {
        return mr_error_set(err, MR_EINVAL, "there are more than %d names", NODES_MAX);
    }
    *ret = fields->nodes_count++;
    fields->nodes[*ret] = *made;
    return MR_OK;
}

/* The name at @p, up to a dot or the end, without its backslashes to @to, and the brackets behind
 * it. */
static int take_name(const unsigned char **p, const unsigned char *end, unsigned char *to,
                     struct mr_json_node *ret, mr_error *err)
{
    ret->name = (struct mr_string){to, 0};
    for (; *p < end && **p != '.' && !is_list(*p, end); (*p)++) {
        if (**p == '\\') {
            (*p)++;
            if (*p == end || (**p != '\\' && **p != '.' && **p != '[')) {
                return mr_error_set(err, MR_EINVAL,
                                    "a backslash stands before a dot, a bracket or a backslash");
            }
        }
        to[ret->name.size++] = **p;
    }
    for (; is_list(*p, end); *p += 2) {
        ret->lists++;
    }
    if (*p < end && **p != '.') {
        return mr_error_set(err, MR_EINVAL, "[] stands behind a name");
    }
    return MR_OK;
}

static int finish_path(struct mr_json_node *leaf, size_t field, mr_error *err)
{
    if (leaf->field >= 0) {
        return mr_error_set(err, MR_EINVAL, "named twice");
    }
    leaf->field = (int32_t)field;
    return MR_OK;
}

static int enter_path(struct mr_json_fields *fields, size_t field, unsigned char **to,
                      mr_error *err)
{
    struct mr_string path = fields->fields[field].path;
    const unsigned char *p = path.data;
    const unsigned char *end = p + path.size;
    uint32_t number = 0;

    for (unsigned depth = 0;; depth++) {
        const struct mr_json_node *up = &fields->nodes[number];
        struct mr_json_node made = {.parent = number, .field = -1, .axis = up->axis + up->lists};

        if (depth == MR_JSON_DEPTH_MAX) {
            return mr_error_set(err, MR_EINVAL, "more than %d names deep", MR_JSON_DEPTH_MAX);
        }
        MR_TRY(take_name(&p, end, *to, &made, err));
        *to += made.name.size;
        made.path = (struct mr_string){path.data, (size_t)(p - path.data)};
        MR_TRY(enter_node(fields, number, &made, &number, err));
        if (p == end) {
            return finish_path(&fields->nodes[number], field, err);
        }
        if (fields->nodes[number].field >= 0) {
            return mr_error_set(err, MR_EINVAL, "is in a value");
        }
        if (fields->nodes[number].lists != made.lists) {
            return mr_error_set(err, MR_EINVAL, "is in a list by one name, and not by another");
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

/* Which fields each node has: a node comes behind the one that it lies in. */
static void gather_leaves(struct mr_json_fields *fields, uint32_t *cursors)
{
    struct mr_json_node *nodes = fields->nodes;

    for (uint32_t i = fields->nodes_count - 1; i > 0; i--) {
        nodes[i].leaves += nodes[i].field >= 0;
        nodes[nodes[i].parent].leaves += nodes[i].leaves;
    }
    cursors[0] = 0;
    for (uint32_t i = 1; i < fields->nodes_count; i++) {
        uint32_t *from = &cursors[nodes[i].parent];

        nodes[i].first = *from;
        cursors[i] = *from;
        *from += nodes[i].leaves;
        if (nodes[i].field >= 0) {
            fields->leaves[nodes[i].first] = (uint32_t)nodes[i].field;
        }
    }
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
    fields->leaves = mr_reallocarray(NULL, fields->n, sizeof *fields->leaves);
    MR_CHECK_ALLOC(fields->order, err);
    MR_CHECK_ALLOC(fields->leaves, err);
    fields->nodes[0] = (struct mr_json_node){.field = -1};
    fields->nodes_count = 1;
    unsigned char *to = fields->bytes;
    for (size_t i = 0; i < fields->n; i++) {
        char text[MR_JSON_PATH_TEXT];

        MR_TRY_WRAP(enter_path(fields, i, &to, err), err, "%s",
                    mr_json_path_text(fields->fields[i].path, text));
    }
    MR_TRY(check_leaves(fields, err));
    gather_leaves(fields, fields->order /* as room, before it is filled */);
    for (uint32_t i = 1; i < fields->nodes_count; i++) {
        fields->order[i - 1] = i;
    }
    qsort_r(fields->order, fields->nodes_count - 1, sizeof *fields->order, compare_nodes,
            fields->nodes);
    return MR_OK;
}

/* ---- all ---- */

static int check_lists(struct mr_attrs attrs, const struct mr_attr *names, size_t *n, mr_error *err)
{
    const struct mr_attr *dtypes = mr_attr_get(attrs, "dtypes");
    const struct mr_attr *ragged = mr_attr_get(attrs, "ragged");
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
    if (ragged != NULL && (size_t)ragged->count != *n) {
        return mr_error_set(err, MR_EINVAL, "%zu names and %d ragged ranks", *n, ragged->count);
    }
    return MR_OK;
}

int mr_json_fields_new(struct mr_attrs attrs, struct mr_json_fields **ret, mr_error *err)
{
    const struct mr_attr *names = mr_attr_get(attrs, "names");
    size_t n = 0;

    MR_TRY(check_lists(attrs, names, &n, err));
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
        fields->open = fields->open || f->open;
    }
    MR_TRY(enter_paths(fields, err));
    *ret = MR_TAKE(fields);
    return MR_OK;
}
