/* Which file a value was made of, where a function reads it: what errors behind it name. */
#include "base/alloc.h"
#include "base/error.h"
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

void mr_plan_name_file(const struct mr_program *p, const struct mr_plan_op *op, uint32_t row,
                       const struct mr_owned_column *columns, mr_error *err)
{
    const struct mr_plan_op *reader = err == NULL || reads_file(op) ? NULL : find_reader(p, op);

    if (reader == NULL) {
        return;
    }
    uint32_t slot = mr_plan_path_slot(reader);
    const struct mr_column *c = &columns[slot].c;
    uint32_t r = p->slots[slot].uniform ? 0 : row;
    const uint64_t *ends = c->offsets + (c->kind == MR_COLUMN_VAR ? c->starts[r] : r);
    MR_AUTO(mr_free) char *path = mr_strndup((const char *)c->data + ends[0], ends[1] - ends[0]);

    if (path != NULL) {
        mr_error_wrap(err, "file '%s'", MR_SHOWN(MR_SHOWN_PATH_PART(path)));
    }
}
