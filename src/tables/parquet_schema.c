/* The schema: a tree in pre-order. A child of the root that is a value, or a list of values, is a
 * column that is read. */
#include "tables/parquet.h"
#include "tables/thrift.h"

#define ELEMENTS_MAX (4 * MR_TABLE_COLUMNS_MAX)
#define FORMAT_BYTES 24

enum { REQUIRED, OPTIONAL, REPEATED };

/* ConvertedType and LogicalType say the same, as far as the former goes. */
enum meaning {
    MEANS_NOTHING,
    MEANS_STRING,
    MEANS_MAP,
    MEANS_LIST,
    MEANS_DECIMAL,
    MEANS_DATE,
    MEANS_TIME,
    MEANS_TIMESTAMP,
    MEANS_INT,
    MEANS_INTERVAL,
    MEANS_FLOAT16,
};

struct node {
    bool is_value;
    int32_t physical;
    int32_t width;
    int32_t repetition;
    int32_t children;
    const char *name;
    size_t name_size;
    enum meaning meaning;
    int bits; /* INT */
    bool is_unsigned;
    bool utc;
    char unit; /* TIME, TIMESTAMP: m, u, n */
    bool has_logical;
};

static void converted_type(struct node *n, int32_t type)
{
    static const struct {
        enum meaning meaning;
        int bits;
        bool is_unsigned;
        char unit;
    } types[] = {
        {.meaning = MEANS_STRING},
        {.meaning = MEANS_MAP},
        {.meaning = MEANS_MAP},
        {.meaning = MEANS_LIST},
        {.meaning = MEANS_STRING},
        {.meaning = MEANS_DECIMAL},
        {.meaning = MEANS_DATE},
        {.meaning = MEANS_TIME, .unit = 'm'},
        {.meaning = MEANS_TIME, .unit = 'u'},
        {.meaning = MEANS_TIMESTAMP, .unit = 'm'},
        {.meaning = MEANS_TIMESTAMP, .unit = 'u'},
        {.meaning = MEANS_INT, .bits = 8, .is_unsigned = true},
        {.meaning = MEANS_INT, .bits = 16, .is_unsigned = true},
        {.meaning = MEANS_INT, .bits = 32, .is_unsigned = true},
        {.meaning = MEANS_INT, .bits = 64, .is_unsigned = true},
        {.meaning = MEANS_INT, .bits = 8},
        {.meaning = MEANS_INT, .bits = 16},
        {.meaning = MEANS_INT, .bits = 32},
        {.meaning = MEANS_INT, .bits = 64},
        {.meaning = MEANS_STRING},
        {.meaning = MEANS_NOTHING},
        {.meaning = MEANS_INTERVAL},
    };

    if (n->has_logical || type < 0 || (size_t)type >= sizeof types / sizeof types[0]) {
        return;
    }
    n->meaning = types[type].meaning;
    n->bits = types[type].bits;
    n->is_unsigned = types[type].is_unsigned;
    n->unit = types[type].unit;
    n->utc = n->meaning == MEANS_TIMESTAMP;
}

/* TimeType and TimestampType: 1 whether it is in UTC, 2 a union, of which the set member says the
 * unit. */
static void time_type(struct mr_thrift *t, struct node *n)
{
    struct mr_thrift_field f = {0};

    while (mr_thrift_next(t, &f)) {
        if (f.id == 1) {
            n->utc = mr_thrift_bool(t, &f);
        } else if (f.id == 2 && mr_thrift_struct(t, &f)) {
            struct mr_thrift_field unit = {0};

            while (mr_thrift_next(t, &unit)) {
                n->unit = unit.id == 1 ? 'm' : unit.id == 2 ? 'u' : 'n';
                mr_thrift_skip(t, &unit);
            }
        } else {
            mr_thrift_skip(t, &f);
        }
    }
}

static void int_type(struct mr_thrift *t, struct node *n)
{
    struct mr_thrift_field f = {0};

    n->is_unsigned = true;
    while (mr_thrift_next(t, &f)) {
        if (f.id == 1) {
            n->bits = mr_thrift_int32(t, &f);
        } else if (f.id == 2) {
            n->is_unsigned = !mr_thrift_bool(t, &f);
        } else {
            mr_thrift_skip(t, &f);
        }
    }
}

static void logical_type(struct mr_thrift *t, struct node *n)
{
    static const enum meaning meanings[] = {
        [1] = MEANS_STRING,  [2] = MEANS_MAP,     [3] = MEANS_LIST,     [4] = MEANS_STRING,
        [5] = MEANS_DECIMAL, [6] = MEANS_DATE,    [7] = MEANS_TIME,     [8] = MEANS_TIMESTAMP,
        [10] = MEANS_INT,    [12] = MEANS_STRING, [15] = MEANS_FLOAT16,
    };
    struct mr_thrift_field f = {0};

    while (mr_thrift_next(t, &f)) {
        bool known = f.id > 0 && (size_t)f.id < sizeof meanings / sizeof meanings[0];

        n->has_logical = true;
        n->meaning = known ? meanings[f.id] : MEANS_NOTHING;
        if ((n->meaning == MEANS_TIME || n->meaning == MEANS_TIMESTAMP) &&
            mr_thrift_struct(t, &f)) {
            time_type(t, n);
        } else if (n->meaning == MEANS_INT && mr_thrift_struct(t, &f)) {
            int_type(t, n);
        } else {
            mr_thrift_skip(t, &f);
        }
    }
}

static void read_node(struct mr_thrift *t, struct node *n)
{
    struct mr_thrift_field f = {0};

    while (mr_thrift_next(t, &f)) {
        switch (f.id) {
        case 1:
            n->is_value = true;
            n->physical = mr_thrift_int32(t, &f);
            break;
        case 2: n->width = mr_thrift_int32(t, &f); break;
        case 3: n->repetition = mr_thrift_int32(t, &f); break;
        case 4: n->name = mr_thrift_bytes(t, &f, &n->name_size); break;
        case 5: n->children = mr_thrift_int32(t, &f); break;
        case 6: converted_type(n, mr_thrift_int32(t, &f)); break;
        case 10:
            if (mr_thrift_struct(t, &f)) {
                logical_type(t, n);
            }
            break;
        default: mr_thrift_skip(t, &f); break;
        }
    }
}

/* Behind node @i and all below it; @leaves grows by the values among them. 0: the tree is
 * damaged. */
static uint32_t pass_tree(const struct node *nodes, uint32_t n, uint32_t i, uint32_t *leaves)
{
    int64_t left = 1;

    for (; left > 0; i++) {
        if (i == n || nodes[i].children < 0 || nodes[i].is_value != (nodes[i].children == 0)) {
            return 0;
        }
        left += nodes[i].children - 1;
        *leaves += nodes[i].is_value;
    }
    return i;
}

/* ---- what a value is ---- */

static const char *int_format(const struct node *n, struct mr_parquet_leaf *leaf)
{
    bool narrow = leaf->type.kind == MR_PHYSICAL_INT32;

    if (n->meaning == MEANS_INT && narrow && (n->bits == 8 || n->bits == 16)) {
        leaf->convert = n->bits == 8 ? MR_CONVERT_TO_8_BITS : MR_CONVERT_TO_16_BITS;
        leaf->width = (size_t)n->bits / 8;
        return n->bits == 8 ? (n->is_unsigned ? "C" : "c") : n->is_unsigned ? "S" : "s";
    }
    bool is_unsigned = n->meaning == MEANS_INT && n->is_unsigned;
    return narrow ? (is_unsigned ? "I" : "i") : is_unsigned ? "L" : "l";
}

static void time_format(const struct node *n, struct mr_parquet_leaf *leaf, char *format)
{
    bool narrow = leaf->type.kind == MR_PHYSICAL_INT32;

    if (n->meaning == MEANS_DATE && narrow) {
        (void)snprintf(format, FORMAT_BYTES, "tdD");
    } else if (n->meaning == MEANS_TIME && narrow == (n->unit == 'm')) {
        (void)snprintf(format, FORMAT_BYTES, "tt%c", n->unit);
    } else if (n->meaning == MEANS_TIMESTAMP && !narrow) {
        (void)snprintf(format, FORMAT_BYTES, "ts%c:%s", n->unit, n->utc ? "UTC" : "");
    } else {
        (void)snprintf(format, FORMAT_BYTES, "%s", int_format(n, leaf));
    }
}

static const char *fixed_format(const struct node *n, struct mr_parquet_leaf *leaf, char *format)
{
    if (n->width < 1) {
        return "a column of values without bytes";
    }
    leaf->type.width = (size_t)n->width;
    leaf->width = (size_t)n->width;
    if (n->meaning == MEANS_FLOAT16 && n->width == 2) {
        (void)snprintf(format, FORMAT_BYTES, "e");
    } else {
        (void)snprintf(format, FORMAT_BYTES, "w:%d", n->width);
    }
    return NULL;
}

/* Arrow's format; or what it is that nobody reads. */
static const char *value_format(const struct node *n, struct mr_parquet_leaf *leaf, char *format)
{
    static const struct {
        size_t width;
        const char *format;
    } plain[] = {{1, "b"}, {4, ""}, {8, ""}, {12, "tsn:"}, {4, "f"}, {8, "g"}, {0, "Z"}, {0, ""}};

    if (n->physical < 0 || n->physical > MR_PHYSICAL_FIXED) {
        return "a column of a type that is not known";
    }
    if (n->meaning == MEANS_DECIMAL || n->meaning == MEANS_INTERVAL) {
        return n->meaning == MEANS_DECIMAL ? "a column of decimals" : "a column of intervals";
    }
    leaf->type.kind = (enum mr_physical)n->physical;
    leaf->type.width = plain[n->physical].width;
    leaf->width = leaf->type.width;
    (void)snprintf(format, FORMAT_BYTES, "%s", plain[n->physical].format);
    if (leaf->type.kind == MR_PHYSICAL_INT32 || leaf->type.kind == MR_PHYSICAL_INT64) {
        time_format(n, leaf, format);
    } else if (leaf->type.kind == MR_PHYSICAL_INT96) {
        leaf->convert = MR_CONVERT_TO_NANOSECONDS;
        leaf->width = 8;
    } else if (leaf->type.kind == MR_PHYSICAL_BYTES && n->meaning == MEANS_STRING) {
        (void)snprintf(format, FORMAT_BYTES, "U");
    } else if (leaf->type.kind == MR_PHYSICAL_FIXED) {
        return fixed_format(n, leaf, format);
    }
    return NULL;
}

/* ---- what a column is ---- */

/* The node of a list's elements; NULL: it is no list of values. A list is a group with a repeated
 * group with the elements; formerly also a repeated value on its own, or in a group. */
static const struct node *list_values(const struct node *nodes, struct mr_parquet_leaf *leaf)
{
    const struct node *repeated = nodes;
    uint32_t def = 0;

    if (nodes->repetition != REPEATED) {
        if (nodes->meaning != MEANS_LIST || nodes->children != 1 ||
            nodes[1].repetition != REPEATED) {
            return NULL;
        }
        def = nodes->repetition == OPTIONAL;
        repeated = nodes + 1;
    }
    const struct node *value = repeated;
    leaf->list = true;
    leaf->list_def = def;
    leaf->value_def = def + 1;
    leaf->max_def = def + 1;
    if (!repeated->is_value) {
        value = repeated + 1;
        if (repeated == nodes || repeated->children != 1 || value->repetition == REPEATED) {
            return NULL;
        }
        leaf->max_def += value->repetition == OPTIONAL;
    }
    return value->is_value ? value : NULL;
}

static const char *what_group(const struct node *n)
{
    return n->meaning == MEANS_MAP    ? "a column of maps"
           : n->meaning == MEANS_LIST ? "a column of lists of lists, or of structs"
                                      : "a column of structs";
}

/* @nodes: of the column, and all below it. */
static int read_column(const struct node *nodes, struct mr_table_column *column,
                       struct mr_parquet_leaf *leaf, mr_error *err)
{
    const struct node *value = nodes;
    char format[FORMAT_BYTES] = "";

    if (nodes->is_value && nodes->repetition != REPEATED) {
        leaf->max_def = nodes->repetition == OPTIONAL;
    } else {
        value = list_values(nodes, leaf);
        column->unread = value == NULL ? what_group(nodes) : NULL;
    }
    if (column->unread == NULL) {
        column->unread = value_format(value, leaf, format);
    }
    if (column->unread != NULL) {
        return MR_OK;
    }
    bool nullable = leaf->list ? leaf->list_def > 0 : leaf->max_def > 0;
    if (!leaf->list) {
        return mr_arrow_schema(format, column->name, nullable, 0, &column->schema, err);
    }
    MR_TRY(mr_arrow_schema("+L", column->name, nullable, 1, &column->schema, err));
    return mr_arrow_schema(format, "element", leaf->max_def > leaf->value_def, 0,
                           column->schema.children[0], err);
}

static int read_columns(struct mr_parquet *f, const struct node *nodes, uint32_t n, mr_error *err)
{
    uint32_t next = 1;

    for (int32_t i = 0; i < nodes->children; i++) {
        const struct node *node = &nodes[next];
        uint32_t leaf = f->nchunks;

        next = pass_tree(nodes, n, next, &f->nchunks);
        if (next == 0 || node->name == NULL || memchr(node->name, 0, node->name_size) != NULL) {
            return mr_table_damaged(err, "the schema is damaged");
        }
        struct mr_table_column *column = &f->t.columns[f->t.ncolumns];
        column->name = mr_strndup(node->name, node->name_size);
        MR_CHECK_ALLOC(column->name, err);
        f->leaves[f->t.ncolumns].index = leaf;
        f->t.ncolumns++;
        MR_TRY(read_column(node, column, &f->leaves[f->t.ncolumns - 1], err));
    }
    return MR_OK;
}

int mr_parquet_schema(struct mr_parquet *f, struct mr_thrift *t,
                      const struct mr_thrift_field *field, mr_error *err)
{
    uint32_t n = mr_thrift_structs(t, field);

    if (n < 1 || n > ELEMENTS_MAX || f->leaves != NULL) {
        return mr_table_damaged(err, "a schema of %u elements", n);
    }
    MR_AUTO(mr_free) struct node *nodes = mr_calloc(n, sizeof *nodes);
    MR_CHECK_ALLOC(nodes, err);
    for (uint32_t i = 0; i < n; i++) {
        read_node(t, &nodes[i]);
    }
    if (t->fault != NULL) {
        return mr_table_damaged(err, "the schema is damaged: %s", t->fault);
    }
    if (nodes->children < 0 || (uint32_t)nodes->children > MR_MIN(n - 1, MR_TABLE_COLUMNS_MAX)) {
        return mr_table_damaged(err, "a schema of %d columns", nodes->children);
    }
    f->t.columns = mr_calloc((size_t)nodes->children + 1, sizeof *f->t.columns);
    f->leaves = mr_calloc((size_t)nodes->children + 1, sizeof *f->leaves);
    if (f->t.columns == NULL || f->leaves == NULL) {
        return mr_error_nomem(err);
    }
    return read_columns(f, nodes, n, err);
}
