/* A fused step: all its loops on one tile, then on the next. Nothing is allocated but the results.
 * Large ones are written a tile at a time, past the caches. */
#include "base/stream.h"
#include "engine/program/plan.h"
#include "ops/attr.h"
#include "ops/tensor.h"

struct running {
    const struct mr_fused *fused;
    bool streams; /* tiles of outputs are made in `scratch` */
    unsigned char *outputs[MR_FUSED_OPS_MAX];
    const unsigned char *externals[MR_FUSED_EXTERNALS_MAX];
    _Alignas(64) unsigned char scratch[MR_FUSED_SCRATCH_BYTES];
};

static bool is_one_value(const struct mr_column *c)
{
    uint64_t n;

    return c->kind == MR_COLUMN_FIXED && mr_shape_count(c->rank, c->dims, &n) && n == 1;
}

/* All columns FIXED, of one shape. @shape: one of them. */
static bool fits(const struct mr_program *p, const struct mr_fused *f,
                 const struct mr_owned_column *columns, const struct mr_column **shape)
{
    *shape = NULL;
    for (uint32_t i = 0; i < f->nexternals; i++) {
        const struct mr_column *c = &columns[f->externals[i]].c;

        if (p->slots[f->externals[i]].uniform) {
            if (!is_one_value(c)) {
                return false;
            }
            continue;
        }
        if (c->kind != MR_COLUMN_FIXED) {
            return false;
        }
        if (*shape == NULL) {
            *shape = c;
        } else if (c->rank != (*shape)->rank ||
                   memcmp(c->dims, (*shape)->dims, c->rank * sizeof c->dims[0]) != 0) {
            return false;
        }
    }
    return *shape != NULL;
}

static const void *address(const struct running *r, const struct mr_operand *o, uint64_t at)
{
    switch ((enum mr_operand_kind)o->kind) {
    case MR_OPERAND_REGISTER: return r->scratch + o->index;
    case MR_OPERAND_OUTPUT:
        return r->streams ? r->scratch + r->fused->stages[o->index].index
                          : r->outputs[o->index] + at * o->width;
    case MR_OPERAND_EXTERNAL:
    default: return r->externals[o->index] + (o->step != 0 ? at * o->width : 0);
    }
}

/* The values [at, at + n) of all ops. Returns n, or which value failed. */
static size_t run_tile(struct running *r, uint64_t at, size_t n, const struct mr_fused_op **failed,
                       mr_error *err)
{
    for (uint32_t i = 0; i < r->fused->nops; i++) {
        const struct mr_fused_op *op = &r->fused->ops[i];
        const void *in[MR_FUSED_INPUTS_MAX];
        uint8_t step[MR_FUSED_INPUTS_MAX];

        for (uint32_t k = 0; k < op->nin; k++) {
            in[k] = address(r, &op->in[k], at);
            step[k] = op->in[k].step;
        }
        size_t done = op->loop(n, (void *)(uintptr_t)address(r, &op->out, at), in, step, err);
        if (done != n) {
            *failed = op;
            return done;
        }
    }
    return n;
}

static void stream_tile(struct running *r, uint64_t at, size_t n)
{
    for (uint32_t i = 0; i < r->fused->noutputs; i++) {
        const struct mr_operand *stage = &r->fused->stages[i];

        mr_stream_copy(r->outputs[i] + at * stage->width, r->scratch + stage->index,
                       n * stage->width);
    }
}

static int run_all(const struct mr_program *p, struct running *r, uint64_t total, uint64_t per_row,
                   uint32_t *bad_row, mr_error *err)
{
    const struct mr_fused_op *failed = NULL;

    for (uint64_t at = 0; at < total; at += r->fused->tile) {
        size_t n = total - at < r->fused->tile ? (size_t)(total - at) : r->fused->tile;
        size_t done = run_tile(r, at, n, &failed, err);

        if (done != n) {
            *bad_row = (uint32_t)((at + done) / per_row);
            mr_plan_name_op(p, &p->ops[failed->op], err);
            return MR_EINVAL; /* loops fail for nothing else */
        }
        if (r->streams) {
            stream_tile(r, at, n);
        }
    }
    return MR_OK;
}

bool mr_fused_run(const struct mr_program *p, const struct mr_fused *fused, uint32_t rows,
                  struct mr_owned_column *columns, int *rc, uint32_t *bad_row, mr_error *err)
{
    struct mr_output outputs[MR_FUSED_OPS_MAX];
    struct running r; /* scratch memory is left as it is: it is written before it is read */
    const struct mr_column *shape;
    uint64_t per_row = 0;
    uint64_t bytes = 0;
    uint32_t made = 0;

    if (!fits(p, fused, columns, &shape)) {
        return false;
    }
    r.fused = fused;
    (void)mr_shape_count(shape->rank, shape->dims, &per_row);
    for (uint32_t i = 0; i < fused->nexternals; i++) {
        r.externals[i] = columns[fused->externals[i]].c.data;
    }
    for (; made < fused->noutputs; made++) {
        unsigned dtype = p->slots[fused->outputs[made]].spec.dtype;

        *rc = mr_output_fixed(&outputs[made], dtype, rows, shape->rank, shape->dims, err);
        if (*rc < 0) {
            *bad_row = 0;
            goto out;
        }
        r.outputs[made] = outputs[made].values;
        bytes += rows * per_row * fused->stages[made].width;
    }
    r.streams = bytes >= MR_STREAM_COPY_BYTES;
    *rc = run_all(p, &r, rows * per_row, per_row, bad_row, err);
    if (r.streams) {
        mr_stream_end(); /* on failure, too: the memory goes to others */
    }

out:
    for (uint32_t i = 0; i < made; i++) {
        if (*rc == MR_OK) {
            (void)mr_output_finish(&outputs[i], &columns[fused->outputs[i]],
                                   err); /* numbers: cannot fail */
        } else {
            mr_output_drop(&outputs[i]);
        }
    }
    return true;
}
