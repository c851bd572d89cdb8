/* Which file a value was made of, where a function reads it: what errors name, in the function and
 * in all that its results go through. */
#include "base/alloc.h"
#include "base/error.h"
#include "element/trace.h"
#include "engine/program/plan.h"

static bool reads_file(const struct mr_plan_op *op)
{
    return op->kernel != NULL && (op->kernel->flags & MR_KERNEL_READS_FILE) != 0;
}

uint32_t mr_plan_path_slot(const struct mr_plan_op *op)
{
    return reads_file(op) ? op->in[0] : MR_PLAN_NONE;
}

/* The nearest operator before @op, which its inputs are made of, that reads a file; NULL: none. */
static const struct mr_plan_op *find_reader(const struct mr_program *p, const struct mr_plan_op *op)
{
    MR_AUTO(mr_free) bool *wanted = mr_calloc(p->nslots, sizeof *wanted);

    if (wanted == NULL) {
        return NULL; /* it is for words only */
    }
    for (const struct mr_plan_op *o = op;; o--) {
        bool makes = o == op;

        for (size_t i = 0; i < o->nout && !makes; i++) {
            makes = o->out[i] != MR_PLAN_NONE && wanted[o->out[i]];
        }
        if (makes && o != op && reads_file(o)) {
            return o;
        }
        for (size_t i = 0; makes && i < o->nin; i++) {
            wanted[o->in[i]] = true;
        }
        if (o == p->ops) {
            return NULL;
        }
    }
}

struct path {
    const char *bytes;
    size_t size;
};

/* Of the file that @reader has read for row @row. */
static struct path path_of(const struct mr_program *p, const struct mr_plan_op *reader,
                           uint32_t row, const struct mr_owned_column *columns)
{
    uint32_t slot = mr_plan_path_slot(reader);
    const struct mr_column *c = &columns[slot].c;
    uint32_t r = p->slots[slot].uniform ? 0 : row;
    const uint64_t *ends = c->offsets + (c->kind == MR_COLUMN_VAR ? c->starts[r] : r);

    return (struct path){(const char *)c->data + ends[0], (size_t)(ends[1] - ends[0])};
}

void mr_plan_name_file(const struct mr_program *p, const struct mr_plan_op *op, uint32_t row,
                       const struct mr_owned_column *columns, mr_error *err)
{
    const struct mr_plan_op *reader = err == NULL || reads_file(op) ? NULL : find_reader(p, op);

    if (reader == NULL) {
        return;
    }
    struct path at = path_of(p, reader, row, columns);
    MR_AUTO(mr_free) char *path = mr_strndup(at.bytes, at.size);

    if (path != NULL) {
        mr_error_wrap(err, "file '%s'", MR_SHOWN(MR_SHOWN_PATH_PART(path)));
    }
}

static mr_trace_file *new_file(struct path at)
{
    MR_AUTO(mr_free) char *path = mr_strndup(at.bytes, at.size);

    return path != NULL ? mr_trace_file_new(path, MR_PLACES_NONE) : NULL;
}

/* The file that the first of @p's readers has read for row @row, and how many more there are: one
 * that is the same for all rows (a list of words, say) is not what a row was made of. */
static struct mr_record record_of(const struct mr_program *p, uint32_t row,
                                  const struct mr_owned_column *columns,
                                  const struct mr_record *before, struct path *last)
{
    struct mr_record record = {0};
    uint32_t readers = 0;

    for (uint32_t i = 0; i < p->nops; i++) {
        uint32_t slot = mr_plan_path_slot(&p->ops[i]);

        if (slot == MR_PLAN_NONE || p->slots[slot].uniform) {
            continue;
        }
        if (readers++ > 0) {
            continue;
        }
        struct path at = path_of(p, &p->ops[i], row, columns);
        bool same =
            before != NULL && last->size == at.size && memcmp(last->bytes, at.bytes, at.size) == 0;

        record.file = same ? before->file : new_file(at);
        *last = at;
    }
    record.more = readers - 1;
    record.scattered = readers > 1;
    return record;
}

bool mr_plan_trace_files(const struct mr_program *p, const struct mr_owned_column *columns,
                         mr_block *block)
{
    uint32_t rows = mr_block_rows(block);
    struct mr_record *records;
    struct path last = {0};

    if (p->nreaders == 0 || rows == 0) {
        return false;
    }
    records = mr_calloc(rows, sizeof *records); /* the trace's */
    for (uint32_t r = 0; records != NULL && r < rows; r++) {
        records[r] = record_of(p, r, columns, r > 0 ? &records[r - 1] : NULL, &last);
    }
    if (records != NULL) {
        mr_block_trace_give(block, records, rows);
    }
    return true;
}
