/* Which ops run together. Groups of elementwise ops grow while their results have one shape; a
 * group becomes a step when somebody outside needs one of its results, when it is full, or at the
 * end. So a group's inputs are always computed by steps before it. */
#include "engine/program/plan.h"
#include "ops/tensor.h"

#define OPEN_GROUPS_MAX 8u

struct group {
    bool open;
    struct mr_leaf_spec shape;
    uint32_t nops;
    uint32_t ops[MR_FUSED_OPS_MAX];
    mr_kernel_loop loops[MR_FUSED_OPS_MAX];
};

struct slot_use {
    uint32_t group; /* 1 + the open group that computes it, else 0 */
    uint32_t maker; /* 1 + the step that computes it, else 0 */
    uint32_t last;  /* 1 + the last step that reads it, else 0 */
    uint32_t uses;  /* how often it is read or returned */
    bool kept;      /* until the end of a run */
};

struct scheduling {
    struct mr_program *p;
    struct slot_use *slots;
    struct group groups[OPEN_GROUPS_MAX];
};

static bool same_shape(const struct mr_leaf_spec *a, const struct mr_leaf_spec *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

/* A value for all rows that is one number, and does not change the shape of what it is combined
 * with. */
static bool is_single(const struct mr_slot *s, const struct mr_leaf_spec *shape)
{
    if (!s->uniform || s->spec.rank < 0 || (shape->rank >= 0 && s->spec.rank > shape->rank) ||
        (shape->rank < 0 && s->spec.rank > 0)) {
        return false;
    }
    for (int i = 0; i < s->spec.rank; i++) {
        if (s->spec.dims[i] != 1) {
            return false;
        }
    }
    return true;
}

/* The loop of @op, if it can be part of a fused step at all. */
static mr_kernel_loop fusible(const struct mr_program *p, const struct mr_plan_op *op)
{
    const struct mr_kernel *kernel = op->kernel;
    uint8_t dtypes[MR_FUSED_INPUTS_MAX];
    bool follows = false; /* at least one input has the shape of the result */

    if ((kernel->flags & MR_KERNEL_ELEMENTWISE) == 0 || op->nin > MR_FUSED_INPUTS_MAX ||
        op->nout != 1 || p->slots[op->out[0]].uniform ||
        op->node->out_specs[0].dtype == MR_STRING) {
        return NULL;
    }
    for (size_t i = 0; i < op->nin; i++) {
        const struct mr_slot *s = &p->slots[op->in[i]];
        bool same = !s->uniform && same_shape(&s->spec, &op->node->out_specs[0]);

        if (s->spec.dtype == MR_STRING || !(same || is_single(s, &op->node->out_specs[0]))) {
            return NULL;
        }
        follows = follows || same;
        dtypes[i] = s->spec.dtype;
    }
    struct mr_attrs attrs = {op->attrs, op->nattrs};
    return follows ? mr_kernel_loop_of(kernel, attrs, dtypes) : NULL;
}

/* ---- making a fused step out of a closed group ---- */

struct registers {
    uint32_t owner[MR_FUSED_OPS_MAX]; /* 1 + the op in the group whose result is in it, else 0 */
    uint8_t width[MR_FUSED_OPS_MAX];
    uint32_t n;
};

/* How often the ops of @g read @slot, from op @from on. */
static uint32_t uses_inside(const struct mr_program *p, const struct group *g, uint32_t slot,
                            uint32_t from)
{
    uint32_t uses = 0;

    for (uint32_t i = from; i < g->nops; i++) {
        const struct mr_plan_op *op = &p->ops[g->ops[i]];

        for (size_t k = 0; k < op->nin; k++) {
            uses += op->in[k] == slot;
        }
    }
    return uses;
}

/* A register that is free once op @at runs: its value is not needed from @at on. */
static uint32_t take_register(struct registers *r, const struct mr_program *p,
                              const struct group *g, uint32_t at, uint8_t width)
{
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t slot = p->ops[g->ops[r->owner[i] - 1]].out[0];

        if (r->width[i] == width && uses_inside(p, g, slot, at) == 0) {
            r->owner[i] = at + 1;
            return i;
        }
    }
    r->width[r->n] = width;
    r->owner[r->n] = at + 1;
    return r->n++;
}

static struct mr_operand external(struct mr_fused *f, const struct mr_slot *s, uint32_t slot)
{
    struct mr_operand o = {MR_OPERAND_EXTERNAL, (uint8_t)mr_value_width(s->spec.dtype), !s->uniform,
                           0};

    while (o.index < f->nexternals && f->externals[o.index] != slot) {
        o.index++;
    }
    f->externals[o.index] = slot;
    f->nexternals += o.index == f->nexternals;
    return o;
}

static uint32_t round_down_to_power(uint32_t n)
{
    uint32_t power = 1;

    while (power * 2 <= n) {
        power *= 2;
    }
    return power;
}

/* Registers are named by number up to here; a register's place depends on the tile, which depends
 * on all registers. */
static void place_registers(struct mr_fused *f, const struct registers *r)
{
    uint32_t offsets[MR_FUSED_OPS_MAX];
    uint32_t scratch = 0; /* bytes a value */
    uint32_t traffic = 0; /* ... that are read from elsewhere */

    for (uint32_t i = 0; i < r->n; i++) {
        offsets[i] = scratch;
        scratch += r->width[i];
    }
    for (uint32_t i = 0; i < f->noutputs; i++) {
        f->stages[i].index = scratch;
        scratch += f->stages[i].width;
    }
    for (uint32_t i = 0; i < f->nops; i++) {
        for (uint32_t k = 0; k < f->ops[i].nin; k++) {
            const struct mr_operand *in = &f->ops[i].in[k];

            traffic += in->kind == MR_OPERAND_EXTERNAL && in->step != 0 ? in->width : 0;
        }
    }
    f->tile = round_down_to_power(MR_FUSED_SCRATCH_BYTES / 2 / (scratch + traffic));
    f->tile = MR_MAX(MR_FUSED_TILE_MIN, f->tile);
    f->tile = MR_MIN(MR_FUSED_TILE_MAX, f->tile);
    while (f->tile * scratch > MR_FUSED_SCRATCH_BYTES) {
        f->tile /= 2; /* 32 registers of 8 bytes: 128 */
    }
    for (uint32_t i = 0; i < f->noutputs; i++) {
        f->stages[i].index *= f->tile;
    }
    for (uint32_t i = 0; i < f->nops; i++) {
        for (uint32_t k = 0; k < f->ops[i].nin; k++) {
            if (f->ops[i].in[k].kind == MR_OPERAND_REGISTER) {
                f->ops[i].in[k].index = offsets[f->ops[i].in[k].index] * f->tile;
            }
        }
        if (f->ops[i].out.kind == MR_OPERAND_REGISTER) {
            f->ops[i].out.index = offsets[f->ops[i].out.index] * f->tile;
        }
    }
}

static void fill_fused(struct mr_fused *f, const struct mr_program *p, const struct group *g,
                       const struct slot_use *slots)
{
    struct registers registers = {.n = 0};

    for (uint32_t i = 0; i < g->nops; i++) {
        const struct mr_plan_op *op = &p->ops[g->ops[i]];
        struct mr_fused_op *fop = &f->ops[f->nops++];
        uint8_t width = (uint8_t)mr_value_width(op->node->out_specs[0].dtype);

        fop->loop = g->loops[i];
        fop->op = g->ops[i];
        fop->nin = (uint32_t)op->nin;
        for (uint32_t k = 0; k < fop->nin; k++) {
            uint32_t made = i;

            while (made > 0 && p->ops[g->ops[made - 1]].out[0] != op->in[k]) {
                made--;
            }
            fop->in[k] =
                made > 0 ? f->ops[made - 1].out : external(f, &p->slots[op->in[k]], op->in[k]);
        }
        fop->out = (struct mr_operand){MR_OPERAND_REGISTER, width, 1, 0};
        if (slots[op->out[0]].uses > uses_inside(p, g, op->out[0], 0)) { /* others need it */
            fop->out.kind = MR_OPERAND_OUTPUT;
            fop->out.index = f->noutputs;
            f->stages[f->noutputs] = (struct mr_operand){MR_OPERAND_REGISTER, width, 1, 0};
            f->outputs[f->noutputs++] = op->out[0];
        } else {
            fop->out.index = take_register(&registers, p, g, i, width);
        }
    }
    place_registers(f, &registers);
}

/* ---- steps ---- */

static void note_reads(struct scheduling *s, const struct mr_plan_op *op)
{
    for (size_t k = 0; k < op->nin; k++) {
        s->slots[op->in[k]].last = s->p->nsteps;
    }
    for (size_t k = 0; k < op->nout; k++) {
        s->slots[op->out[k]].maker = s->p->nsteps;
    }
}

static void add_eval(struct scheduling *s, uint32_t i)
{
    struct mr_program *p = s->p;

    p->steps[p->nsteps++] =
        (struct mr_step){.op = i, .uniform = p->slots[p->ops[i].out[0]].uniform};
    note_reads(s, &p->ops[i]);
}

static int close_group(struct scheduling *s, struct group *g, mr_error *err)
{
    struct mr_program *p = s->p;

    if (!g->open) {
        return MR_OK;
    }
    g->open = false;
    for (uint32_t i = 0; i < g->nops; i++) {
        s->slots[p->ops[g->ops[i]].out[0]].group = 0;
    }
    struct mr_fused *f = mr_calloc(1, sizeof *f);
    MR_CHECK_ALLOC(f, err);
    fill_fused(f, p, g, s->slots);
    p->steps[p->nsteps++].fused = f;
    for (uint32_t i = 0; i < g->nops; i++) {
        note_reads(s, &p->ops[g->ops[i]]);
    }
    return MR_OK;
}

/* Close the groups that compute inputs of @op, except for @keep (1 + its number). */
static int close_inputs(struct scheduling *s, const struct mr_plan_op *op, uint32_t keep,
                        mr_error *err)
{
    for (size_t k = 0; k < op->nin; k++) {
        uint32_t g = s->slots[op->in[k]].group;

        if (g != 0 && g != keep) {
            MR_TRY(close_group(s, &s->groups[g - 1], err));
        }
    }
    return MR_OK;
}

static uint32_t externals_bound(const struct mr_program *p, const struct group *g)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->nops; i++) {
        n += (uint32_t)p->ops[g->ops[i]].nin;
    }
    return n;
}

static int join(struct scheduling *s, uint32_t i, mr_kernel_loop loop, mr_error *err)
{
    const struct mr_plan_op *op = &s->p->ops[i];
    const struct mr_leaf_spec *shape = &op->node->out_specs[0];
    uint32_t chosen = OPEN_GROUPS_MAX;

    for (uint32_t g = 0; g < OPEN_GROUPS_MAX; g++) {
        struct group *group = &s->groups[g];

        if (group->open && same_shape(&group->shape, shape) && group->nops < MR_FUSED_OPS_MAX &&
            externals_bound(s->p, group) + op->nin <= MR_FUSED_EXTERNALS_MAX) {
            chosen = g;
            break;
        }
        chosen = !group->open && chosen == OPEN_GROUPS_MAX ? g : chosen;
    }
    if (chosen == OPEN_GROUPS_MAX) {
        chosen = 0;
        MR_TRY(close_group(s, &s->groups[0], err));
    }
    struct group *group = &s->groups[chosen];
    if (!group->open) {
        *group = (struct group){.open = true, .shape = *shape};
    }
    MR_TRY(close_inputs(s, op, chosen + 1, err));
    group->loops[group->nops] = loop;
    group->ops[group->nops++] = i;
    s->slots[op->out[0]].group = chosen + 1;
    return MR_OK;
}

static void count_uses(struct scheduling *s)
{
    for (uint32_t i = 0; i < s->p->nops; i++) {
        const struct mr_plan_op *op = &s->p->ops[i];

        for (size_t k = 0; op->nout > 0 && k < op->nin; k++) {
            s->slots[op->in[k]].uses++;
        }
    }
    for (uint32_t i = 0; i < s->p->noutputs; i++) {
        s->slots[s->p->outputs[i]].uses++;
    }
}

static int fill_steps(struct scheduling *s, mr_error *err)
{
    for (uint32_t i = 0; i < s->p->nops; i++) {
        const struct mr_plan_op *op = &s->p->ops[i];

        if (op->nout == 0) {
            continue; /* folded */
        }
        mr_kernel_loop loop = fusible(s->p, op);
        if (loop != NULL) {
            MR_TRY(join(s, i, loop, err));
            continue;
        }
        MR_TRY(close_inputs(s, op, 0, err));
        add_eval(s, i);
    }
    for (uint32_t g = 0; g < OPEN_GROUPS_MAX; g++) {
        MR_TRY(close_group(s, &s->groups[g], err));
    }
    return MR_OK;
}

/* What the outputs and the paths of files are, unless it is the same for all rows. */
static int fill_kept(struct scheduling *s, mr_error *err)
{
    struct mr_program *p = s->p;

    p->kept = mr_calloc(p->nslots, sizeof *p->kept);
    MR_CHECK_ALLOC(p->kept, err);
    for (uint32_t slot = 0; slot < p->nslots; slot++) {
        const struct mr_slot *at = &p->slots[slot];

        if (at->kind == MR_SLOT_RESULT && !at->uniform && s->slots[slot].kept) {
            p->kept[p->nkept++] = slot;
        }
    }
    return MR_OK;
}

/* Results are let go after the last step that reads them; outputs and paths of files stay. */
static int fill_dead(struct scheduling *s, mr_error *err)
{
    struct mr_program *p = s->p;

    for (uint32_t i = 0; i < p->noutputs; i++) {
        s->slots[p->outputs[i]].kept = true;
    }
    for (uint32_t i = 0; i < p->nops; i++) {
        uint32_t path = mr_plan_path_slot(&p->ops[i]);

        if (path != MR_PLAN_NONE) { /* errors name it, here and behind */
            p->nreaders += !p->slots[path].uniform;
            s->slots[path].kept = true;
        }
    }
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t slot = 0; slot < p->nslots; slot++) {
            const struct slot_use *use = &s->slots[slot];
            uint32_t at = MR_MAX(use->last, use->maker);

            if (at == 0 || use->kept || p->slots[slot].kind != MR_SLOT_RESULT) {
                continue;
            }
            struct mr_step *step = &p->steps[at - 1];
            if (pass == 1) {
                step->dead[step->ndead] = slot;
            }
            step->ndead++;
        }
        for (uint32_t i = 0; pass == 0 && i < p->nsteps; i++) {
            p->steps[i].dead = mr_calloc(p->steps[i].ndead, sizeof *p->steps[i].dead);
            MR_CHECK_ALLOC(p->steps[i].dead, err);
            p->steps[i].ndead = 0;
        }
    }
    return MR_OK;
}

int mr_plan_schedule(struct mr_program *p, mr_error *err)
{
    MR_AUTO(mr_free) struct scheduling *s = mr_calloc(1, sizeof *s);
    MR_AUTO(mr_free) struct slot_use *slots = mr_calloc(p->nslots, sizeof *slots);

    MR_CHECK_ALLOC(s, err);
    MR_CHECK_ALLOC(slots, err);
    s->p = p;
    s->slots = slots;
    p->steps = mr_calloc(p->nops, sizeof *p->steps);
    MR_CHECK_ALLOC(p->steps, err);
    count_uses(s);
    MR_TRY(fill_steps(s, err));
    MR_TRY(fill_dead(s, err));
    return fill_kept(s, err);
}
