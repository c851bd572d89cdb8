/* Schemas of Arrow's IPC: tables of Schema.fbs, by the numbers of their fields. */
#include "tables/arrow_file.h"
#include "tables/sink.h"

#define DEPTH_MAX 16
#define NODES_MAX (4 * MR_TABLE_COLUMNS_MAX)

/* The union Type. */
enum {
    TYPE_NULL = 1,
    TYPE_INT = 2,
    TYPE_FLOAT = 3,
    TYPE_BINARY = 4,
    TYPE_UTF8 = 5,
    TYPE_BOOL = 6,
    TYPE_DECIMAL = 7,
    TYPE_DATE = 8,
    TYPE_TIME = 9,
    TYPE_TIMESTAMP = 10,
    TYPE_INTERVAL = 11,
    TYPE_LIST = 12,
    TYPE_STRUCT = 13,
    TYPE_UNION = 14,
    TYPE_FIXED_BINARY = 15,
    TYPE_FIXED_LIST = 16,
    TYPE_MAP = 17,
    TYPE_DURATION = 18,
    TYPE_LARGE_BINARY = 19,
    TYPE_LARGE_UTF8 = 20,
    TYPE_LARGE_LIST = 21,
    TYPE_RUN_END = 22,
    TYPE_BINARY_VIEW = 23,
    TYPE_UTF8_VIEW = 24,
    TYPE_LIST_VIEW = 25,
    TYPE_LARGE_LIST_VIEW = 26,
};

static struct mr_arrow_type plain(enum mr_arrow_layout layout, int64_t size, int buffers,
                                  const char *format)
{
    struct mr_arrow_type t = {.layout = layout, .size = size, .buffers = buffers};

    (void)snprintf(t.format, sizeof t.format, "%s", format);
    return t;
}

static struct mr_arrow_type other(int buffers, const char *what)
{
    return (struct mr_arrow_type){.layout = MR_LAYOUT_OTHER, .buffers = buffers, .other = what};
}

static struct mr_arrow_type int_type(struct mr_flat *f, mr_flat_table t)
{
    int64_t bits = mr_flat_int(f, t, 0, 4, 0);
    bool is_signed = mr_flat_int(f, t, 1, 1, 0) != 0;

    switch (bits) {
    case 8: return plain(MR_LAYOUT_FIXED, 1, 2, is_signed ? "c" : "C");
    case 16: return plain(MR_LAYOUT_FIXED, 2, 2, is_signed ? "s" : "S");
    case 32: return plain(MR_LAYOUT_FIXED, 4, 2, is_signed ? "i" : "I");
    case 64: return plain(MR_LAYOUT_FIXED, 8, 2, is_signed ? "l" : "L");
    default: return other(2, "a column of ints of a width of their own");
    }
}

static struct mr_arrow_type float_type(struct mr_flat *f, mr_flat_table t)
{
    int64_t precision = mr_flat_int(f, t, 0, 2, 0);

    return precision == 0   ? plain(MR_LAYOUT_FIXED, 2, 2, "e")
           : precision == 1 ? plain(MR_LAYOUT_FIXED, 4, 2, "f")
                            : plain(MR_LAYOUT_FIXED, 8, 2, "g");
}

/* Of times of day, timestamps and durations: their unit is field 0. */
static struct mr_arrow_type time_type(struct mr_flat *f, mr_flat_table t, int type)
{
    static const char units[] = "smun";
    int64_t unit = mr_flat_int(f, t, 0, 2, type == TYPE_TIMESTAMP ? 0 : 1);
    char format[8] = "t?s:";

    if (unit < 0 || unit > 3) {
        return other(2, "a column of times of no known unit");
    }
    bool narrow = type == TYPE_TIME && mr_flat_int(f, t, 1, 4, 32) == 32;
    (void)snprintf(format, sizeof format, "t%c%c%s",
                   type == TYPE_TIME        ? 't'
                   : type == TYPE_TIMESTAMP ? 's'
                                            : 'D',
                   units[unit], type == TYPE_TIMESTAMP ? ":" : "");
    if (type == TYPE_TIME && narrow != (unit < 2)) {
        return other(2, "a column of times of a width of their own");
    }
    return plain(MR_LAYOUT_FIXED, narrow ? 4 : 8, 2, format);
}

static struct mr_arrow_type sized_type(struct mr_flat *f, mr_flat_table t, int type)
{
    int64_t size = mr_flat_int(f, t, 0, 4, 0);
    char format[MR_ARROW_FORMAT_BYTES];

    (void)snprintf(format, sizeof format, "%s%d",
                   type == TYPE_FIXED_LIST ? "+w:" : "w:", (int)size);
    if (size < 0) {
        return other(type == TYPE_FIXED_LIST ? 1 : 2, "a column of values of less than no size");
    }
    return type == TYPE_FIXED_LIST ? plain(MR_LAYOUT_LIST_FIXED, size, 1, format)
                                   : plain(MR_LAYOUT_FIXED, size, 2, format);
}

/* What is not read. */
static struct mr_arrow_type other_type(struct mr_flat *f, mr_flat_table t, int type)
{
    struct mr_arrow_type ret;

    switch (type) {
    case TYPE_NULL: return other(0, "a column of nulls alone");
    case TYPE_DECIMAL: return other(2, "a column of decimals");
    case TYPE_INTERVAL: return other(2, "a column of intervals");
    case TYPE_STRUCT: return other(1, "a column of structs");
    case TYPE_UNION: return other(mr_flat_int(f, t, 0, 2, 0) == 0 ? 1 : 2, "a column of unions");
    case TYPE_MAP: return other(2, "a column of maps");
    case TYPE_RUN_END: return other(0, "a run-end encoded column");
    case TYPE_LIST_VIEW:
    case TYPE_LARGE_LIST_VIEW: return other(3, "a column of list views");
    case TYPE_BINARY_VIEW:
    case TYPE_UTF8_VIEW:
        ret = other(2, "a column of string views");
        ret.variadic = true;
        return ret;
    default:
        f->bad = true; /* how many buffers it has is not known, so none behind it can be found */
        return other(0, "a column of no known type");
    }
}

static struct mr_arrow_type read_type(struct mr_flat *f, mr_flat_table field)
{
    int type = (int)mr_flat_int(f, field, 2, 1, 0);
    mr_flat_table t = mr_flat_child(f, field, 3);

    switch (type) {
    case TYPE_INT: return int_type(f, t);
    case TYPE_FLOAT: return float_type(f, t);
    case TYPE_BINARY: return plain(MR_LAYOUT_BYTES32, 0, 3, "z");
    case TYPE_UTF8: return plain(MR_LAYOUT_BYTES32, 0, 3, "u");
    case TYPE_LARGE_BINARY: return plain(MR_LAYOUT_BYTES64, 0, 3, "Z");
    case TYPE_LARGE_UTF8: return plain(MR_LAYOUT_BYTES64, 0, 3, "U");
    case TYPE_BOOL: return plain(MR_LAYOUT_BITS, 0, 2, "b");
    case TYPE_DATE:
        return mr_flat_int(f, t, 0, 2, 1) == 0 ? plain(MR_LAYOUT_FIXED, 4, 2, "tdD")
                                               : plain(MR_LAYOUT_FIXED, 8, 2, "tdm");
    case TYPE_TIME:
    case TYPE_TIMESTAMP:
    case TYPE_DURATION: return time_type(f, t, type);
    case TYPE_FIXED_BINARY:
    case TYPE_FIXED_LIST: return sized_type(f, t, type);
    case TYPE_LIST: return plain(MR_LAYOUT_LIST32, 0, 2, "+l");
    case TYPE_LARGE_LIST: return plain(MR_LAYOUT_LIST64, 0, 2, "+L");
    default: return other_type(f, t, type);
    }
}

static bool is_list(const struct mr_arrow_type *t)
{
    return t->layout == MR_LAYOUT_LIST32 || t->layout == MR_LAYOUT_LIST64 ||
           t->layout == MR_LAYOUT_LIST_FIXED;
}

/* ---- fields ---- */

/* The field and all below it, as nodes. */
static int read_field(struct mr_arrow *a, struct mr_flat *f, mr_flat_table field, int depth,
                      mr_error *err)
{
    mr_flat_table encoding = mr_flat_child(f, field, 4);
    struct mr_flat_vector children = mr_flat_list(f, field, 5, 4);
    struct mr_arrow_node node = {.type = read_type(f, field)};

    if (depth > DEPTH_MAX || a->nnodes >= NODES_MAX || field == 0) {
        return mr_table_damaged(err, "the schema has too many fields in fields");
    }
    if (encoding != 0) {
        mr_flat_table index = mr_flat_child(f, encoding, 1);

        node.has_dictionary = true;
        node.dictionary = mr_flat_int(f, encoding, 0, 8, 0);
        node.values = node.type;
        node.type = index != 0 ? int_type(f, index) : plain(MR_LAYOUT_FIXED, 4, 2, "i");
        children.n = 0; /* they are the dictionary's */
    }
    node.children = children.n;
    if (!mr_grow(&a->nodes, &a->nodes_cap, a->nnodes, 1, sizeof *a->nodes)) {
        return mr_error_nomem(err);
    }
    a->nodes[a->nnodes++] = node;
    for (uint32_t i = 0; i < children.n; i++) {
        MR_TRY(read_field(a, f, mr_flat_item(f, children, i), depth + 1, err));
    }
    return MR_OK;
}

/* What of the column is not read; NULL: all is. */
static const char *what_is_other(const struct mr_arrow_node *n)
{
    if (n->has_dictionary) {
        return n->values.layout == MR_LAYOUT_OTHER ? n->values.other
               : is_list(&n->values) || n->type.layout == MR_LAYOUT_OTHER
                   ? "a column of dictionary-encoded lists"
                   : NULL;
    }
    if (!is_list(&n->type)) {
        return n->type.other;
    }
    if (n->children != 1 || n[1].has_dictionary || is_list(&n[1].type)) {
        return "a column of lists of lists, or of dictionaries";
    }
    return n[1].type.layout == MR_LAYOUT_OTHER ? "a column of lists of what is not read" : NULL;
}

static int column_schema(const struct mr_arrow_node *n, const char *name, bool nullable,
                         struct ArrowSchema *ret, mr_error *err)
{
    MR_TRY(mr_arrow_schema(n->type.format, name, nullable, is_list(&n->type), ret, err));
    if (n->has_dictionary) {
        ret->dictionary = mr_calloc(1, sizeof *ret->dictionary);
        MR_CHECK_ALLOC(ret->dictionary, err);
        return mr_arrow_schema(n->values.format, "values", true, 0, ret->dictionary, err);
    }
    return is_list(&n->type)
               ? mr_arrow_schema(n[1].type.format, "item", true, 0, ret->children[0], err)
               : MR_OK;
}

static int read_column(struct mr_arrow *a, struct mr_flat *f, mr_flat_table field, mr_error *err)
{
    struct mr_table_column *column = &a->t.columns[a->t.ncolumns];
    uint32_t top = a->nnodes;
    size_t size = 0;
    const char *name = mr_flat_string(f, field, 0, &size);

    MR_TRY(read_field(a, f, field, 0, err));
    if (size > 0 && memchr(name, 0, size) != NULL) {
        return mr_table_damaged(err, "a column's name has a zero byte in it");
    }
    column->name = mr_strndup(size > 0 ? name : "", size);
    MR_CHECK_ALLOC(column->name, err);
    a->tops[a->t.ncolumns++] = top;
    column->unread = what_is_other(&a->nodes[top]);
    return column->unread != NULL
               ? MR_OK
               : column_schema(&a->nodes[top], column->name, mr_flat_int(f, field, 1, 1, 0) != 0,
                               &column->schema, err);
}

int mr_arrow_read_schema(struct mr_arrow *a, struct mr_flat *f, mr_flat_table schema, mr_error *err)
{
    struct mr_flat_vector fields = mr_flat_list(f, schema, 1, 4);

    if (schema == 0 || f->bad || a->t.columns != NULL || fields.n > MR_TABLE_COLUMNS_MAX) {
        return mr_table_damaged(err, "the schema is damaged");
    }
    if (mr_flat_int(f, schema, 0, 2, 0) != 0) {
        return mr_error_set(err, MR_EUNIMPL, "the file is big-endian");
    }
    a->t.columns = mr_calloc((size_t)fields.n + 1, sizeof *a->t.columns);
    a->tops = mr_calloc((size_t)fields.n + 1, sizeof *a->tops);
    if (a->t.columns == NULL || a->tops == NULL) {
        return mr_error_nomem(err);
    }
    for (uint32_t i = 0; i < fields.n; i++) {
        MR_TRY(read_column(a, f, mr_flat_item(f, fields, i), err));
    }
    a->buffer_at = mr_calloc((size_t)a->nnodes + 1, sizeof *a->buffer_at);
    MR_CHECK_ALLOC(a->buffer_at, err);
    return f->bad ? mr_table_damaged(err, "the schema is damaged") : MR_OK;
}
