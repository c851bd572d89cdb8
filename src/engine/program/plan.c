/* From a function to a plan: dead nodes dropped, nodes merged, copies seen through, constants
 * folded. */
#include "engine/program/plan.h"

#include "ops/attr.h"
#include "ops/tensor.h"

/* While the plan is made: the slot of each value of the function. */
struct making {
    struct mr_program *p;
    uint32_t *slot_of; /* by value number; MR_PLAN_NONE: not yet */
    bool *live;        /* by node */
    struct mr_merge *merges;
};

static void op_release(struct mr_plan_op *op)
{
    if (op->state != NULL && op->kernel->release != NULL) {
        op->kernel->release(op->state);
    }
    for (size_t i = 0; i < op->nfunctions; i++) {
        mr_program_free(op->functions[i].program);
    }
    mr_free(op->functions);
    mr_free(op->merged);
    mr_free(op->in);
    mr_free(op->out);
}

static int run_function(const void *program, const mr_block *in,
                        const struct mr_kernel_random *random, mr_block **ret, uint32_t *bad_row,
                        mr_error *err)
{
    return mr_program_run(program, in, NULL, random, ret, bad_row, err);
}

static int add_functions(struct mr_plan_op *op, const struct mr_fn_node *node, mr_error *err)
{
    op->functions = mr_calloc(node->nfunctions, sizeof *op->functions);
    MR_CHECK_ALLOC(op->functions, err);
    for (; op->nfunctions < node->nfunctions; op->nfunctions++) {
        mr_function *fn = node->functions[op->nfunctions];
        mr_program *program = NULL;

        MR_TRY(mr_program_new(fn, &program, err));
        op->functions[op->nfunctions] =
            (struct mr_kernel_function){.nin = mr_spec_leaves(fn->inputs),
                                        .nout = fn->noutputs,
                                        .run = run_function,
                                        .program = program};
    }
    return MR_OK;
}

void mr_program_free(mr_program *p)
{
    if (p == NULL) {
        return;
    }
    for (uint32_t i = 0; i < p->nsteps; i++) {
        mr_free(p->steps[i].fused);
        mr_free(p->steps[i].dead);
    }
    for (uint32_t i = 0; i < p->nops; i++) {
        op_release(&p->ops[i]);
    }
    for (uint32_t i = 0; i < p->nslots; i++) {
        if (p->slots[i].folded) {
            mr_column_release(&p->slots[i].column);
        }
    }
    mr_free(p->steps);
    mr_free(p->ops);
    mr_free(p->slots);
    mr_free(p->outputs);
    mr_free(p->kept);
    mr_free(p->sizes);
    mr_function_unref(p->fn);
    mr_free(p);
}

/* Nodes that an output needs; nodes come after their inputs, so one pass backwards finds them. */
static void mark_live(const mr_function *fn, bool *live)
{
    for (size_t i = 0; i < fn->noutputs; i++) {
        const struct mr_fn_value *v = &fn->values[fn->outputs[i]];

        if (v->kind == MR_FN_NODE) {
            live[v->index] = true;
        }
    }
    for (size_t n = fn->nnodes; n-- > 0;) {
        const struct mr_fn_node *node = fn->nodes[n];

        for (size_t i = 0; live[n] && i < node->ninputs; i++) {
            const struct mr_fn_value *v = &fn->values[node->inputs[i]];

            if (v->kind == MR_FN_NODE) {
                live[v->index] = true;
            }
        }
    }
}

static uint32_t add_slot(struct mr_program *p, uint8_t kind, bool uniform, uint32_t index,
                         const struct mr_leaf_spec *spec)
{
    struct mr_slot *s = &p->slots[p->nslots];

    s->kind = kind;
    s->uniform = uniform;
    s->index = index;
    s->spec = *spec;
    return p->nslots++;
}

static void add_arguments(struct making *m)
{
    struct mr_program *p = m->p;
    const mr_function *fn = p->fn;

    for (size_t v = 0; v < fn->nvalues; v++) {
        const struct mr_fn_value *value = &fn->values[v];

        m->slot_of[v] = MR_PLAN_NONE;
        if (value->kind == MR_FN_INPUT) {
            m->slot_of[v] = add_slot(p, MR_SLOT_INPUT, false, value->index, &value->spec);
        } else if (value->kind == MR_FN_CAPTURE) {
            m->slot_of[v] = add_slot(p, MR_SLOT_CAPTURE, true, value->index, &value->spec);
        }
    }
    p->ninputs = (uint32_t)mr_spec_leaves(fn->inputs);
    p->ncaptures = (uint32_t)fn->ncaptures;
}

/* identity, and cast to the dtype that it has already, are their input. */
static bool is_copy(const struct mr_fn_node *node, const struct mr_slot *input)
{
    if (strcmp(node->kernel->name, "identity") == 0) {
        return true;
    }
    return strcmp(node->kernel->name, "cast") == 0 && node->out_specs[0].dtype == input->spec.dtype;
}

/* The slots of what @node reads; instead of what it takes in, what that reads. */
static int fill_inputs(struct making *m, struct mr_plan_op *op, const struct mr_fn_node *producer,
                       mr_error *err)
{
    size_t own = producer != NULL ? 1 : 0;
    size_t before = producer != NULL ? producer->ninputs : 0;

    op->nin = before + op->node->ninputs - own;
    op->in = mr_calloc(op->nin, sizeof *op->in);
    MR_CHECK_ALLOC(op->in, err);
    for (size_t i = 0; i < op->nin; i++) {
        uint32_t value = i < before ? producer->inputs[i] : op->node->inputs[i - before + own];

        op->in[i] = m->slot_of[value];
    }
    return MR_OK;
}

static int fill_op(struct making *m, struct mr_plan_op *op, const struct mr_merge *merge,
                   const struct mr_fn_node *node, bool *uniform, mr_error *err)
{
    *op = (struct mr_plan_op){.node = node,
                              .kernel = node->kernel,
                              .attrs = node->attrs,
                              .nattrs = node->nattrs,
                              .nout = node->nout,
                              .salt = node->salt};
    MR_TRY(merge->rule != NULL ? mr_plan_merge(merge, op, err) : MR_OK);
    MR_TRY(fill_inputs(m, op, merge->producer, err));
    op->out = mr_calloc(op->nout, sizeof *op->out);
    MR_CHECK_ALLOC(op->out, err);
    MR_TRY(add_functions(op, node, err));
    *uniform = !node->random && op->nin > 0;
    for (size_t i = 0; i < op->nin; i++) {
        *uniform = *uniform && m->p->slots[op->in[i]].uniform;
    }
    if (op->kernel->prepare != NULL) {
        int rc = op->kernel->prepare(op->attrs, op->nattrs, &op->state, err);

        if (rc < 0) {
            op->state = NULL;
            return rc;
        }
    }
    return MR_OK;
}

/* Compute once what depends on constants only. A failure is left to the run: it belongs to the
 * first element, and an empty dataset has none. */
static int fold(struct mr_program *p, struct mr_plan_op *op, mr_error *err)
{
    struct mr_owned_column *columns;
    uint32_t bad_row;
    mr_error ignored;

    for (size_t i = 0; i < op->nin; i++) {
        if (p->slots[op->in[i]].kind != MR_SLOT_CONSTANT) {
            return MR_OK;
        }
    }
    columns = mr_calloc(p->nslots, sizeof *columns);
    MR_CHECK_ALLOC(columns, err);
    for (size_t i = 0; i < op->nin; i++) {
        columns[op->in[i]] = p->slots[op->in[i]].column;
    }
    if (mr_op_run(p, op, 1, columns, NULL, &bad_row, &ignored) == MR_OK) {
        for (size_t i = 0; i < op->nout; i++) {
            struct mr_slot *s = &p->slots[op->out[i]];

            s->kind = MR_SLOT_CONSTANT;
            s->folded = true;
            s->column = columns[op->out[i]];
        }
        op->nout = 0; /* nothing left to run */
    }
    mr_free(columns);
    return MR_OK;
}

static int add_node(struct making *m, uint32_t number, mr_error *err)
{
    const struct mr_fn_node *node = m->p->fn->nodes[number];
    const struct mr_merge *merge = &m->merges[number];
    struct mr_program *p = m->p;
    bool uniform = false;

    if (node->kernel == NULL) {
        uint32_t slot = add_slot(p, MR_SLOT_CONSTANT, true, 0, &node->out_specs[0]);

        p->slots[slot].column = mr_block_owned_column(node->constant, 0);
        m->slot_of[node->first_value] = slot;
        return MR_OK;
    }
    if (node->ninputs == 1 && node->nout == 1 &&
        is_copy(node, &p->slots[m->slot_of[node->inputs[0]]])) {
        m->slot_of[node->first_value] = m->slot_of[node->inputs[0]];
        return MR_OK;
    }
    struct mr_plan_op *op = &p->ops[p->nops++];
    int rc = fill_op(m, op, merge, node, &uniform, err);
    op->number = merge->rule != NULL ? merge->number : number;
    if (rc < 0) {
        mr_plan_name_op(p, op, err);
        return rc;
    }
    for (size_t i = 0; i < op->nout; i++) {
        op->out[i] = add_slot(p, MR_SLOT_RESULT, uniform, 0, &node->out_specs[i]);
        m->slot_of[node->first_value + i] = op->out[i];
    }
    return uniform ? fold(p, op, err) : MR_OK;
}

static int make(struct making *m, mr_error *err)
{
    struct mr_program *p = m->p;
    const mr_function *fn = p->fn;

    mark_live(fn, m->live);
    MR_TRY(mr_plan_merges(fn, m->live, &m->merges, err));
    add_arguments(m);
    for (uint32_t n = 0; n < fn->nnodes; n++) {
        MR_TRY(m->live[n] && !m->merges[n].absorbed ? add_node(m, n, err) : MR_OK);
    }
    for (size_t i = 0; i < fn->noutputs; i++) {
        p->outputs[i] = m->slot_of[fn->outputs[i]];
    }
    p->noutputs = (uint32_t)fn->noutputs;
    return mr_plan_schedule(p, err);
}

int mr_program_new(mr_function *fn, mr_program **ret, mr_error *err)
{
    if (fn->dataset != NULL) {
        return mr_error_set(err, MR_EINVAL, "the function returns a dataset");
    }
    MR_AUTO(mr_program_free) mr_program *p = mr_calloc(1, sizeof *p);
    MR_AUTO(mr_free) uint32_t *slot_of = mr_calloc(fn->nvalues, sizeof *slot_of);
    MR_AUTO(mr_free) bool *live = mr_calloc(fn->nnodes, sizeof *live);
    MR_CHECK_ALLOC(p, err);
    p->fn = mr_function_ref(fn);
    /* A value has one slot at most, and so does a constant that is folded. */
    p->slots = mr_calloc(fn->nvalues, sizeof *p->slots);
    p->ops = mr_calloc(fn->nnodes, sizeof *p->ops);
    p->outputs = mr_calloc(fn->noutputs, sizeof *p->outputs);
    p->sizes = mr_calloc(1, sizeof *p->sizes);
    if (p->slots == NULL || p->ops == NULL || p->outputs == NULL || p->sizes == NULL ||
        slot_of == NULL || live == NULL) {
        return mr_error_nomem(err);
    }
    struct making m = {.p = p, .slot_of = slot_of, .live = live};
    int rc = make(&m, err);
    mr_free(m.merges);
    if (rc == MR_OK) {
        *ret = MR_TAKE(p);
    }
    return rc;
}
