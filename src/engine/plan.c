/* The plan: what is rearranged after validation and before running. Only one thing is: adjacent
 * maps that run the same way become one. It changes neither values nor order, and errors still name
 * the tensor operator. */
#include "dataset/operator.h"
#include "engine/env.h"
#include "ops/kernel.h"

/* Functions that can be put behind one another: random operators count their rows. */
static bool is_plain(const mr_function *fn)
{
    for (size_t i = 0; i < fn->nnodes; i++) {
        if (fn->nodes[i]->random) {
            return false;
        }
    }
    return true;
}

static int64_t attr_or(const mr_dataset *ds, const char *name, int64_t fallback)
{
    const struct mr_attr *a = mr_attr_find(ds->attrs, ds->nattrs, name);

    return a != NULL ? a->i : fallback;
}

/* Parallelism that is a value of the enclosing function is known too late. */
static bool has_value(const mr_dataset *ds)
{
    for (size_t i = 0; i < ds->nattrs; i++) {
        if (ds->attrs[i].kind == MR_ATTR_VALUE) {
            return true;
        }
    }
    return false;
}

static bool joins(const mr_dataset *upper, const mr_dataset *lower)
{
    return strcmp(lower->op->name, "map") == 0 && !has_value(upper) && !has_value(lower) &&
           attr_or(upper, "num_parallel_calls", 0) == attr_or(lower, "num_parallel_calls", 0) &&
           attr_or(upper, "deterministic", 1) == attr_or(lower, "deterministic", 1) &&
           is_plain(lower->functions[0]);
}

int mr_plan_map(const mr_dataset *ds, struct mr_map_plan *ret, mr_error *err)
{
    MR_AUTO(mr_function_unref) mr_function *fn = mr_function_ref(ds->functions[0]);
    const mr_dataset *lowest = ds;
    uint32_t joined = 1;

    while (is_plain(fn) && joins(ds, lowest->inputs[0])) {
        mr_function *both = NULL;

        MR_TRY(mr_function_compose(lowest->inputs[0]->functions[0], fn, &both, err));
        mr_function_unref(fn);
        fn = both;
        lowest = lowest->inputs[0];
        joined++;
    }
    MR_TRY(mr_program_new(fn, &ret->program, err));
    ret->fn = MR_TAKE(fn);
    ret->input = lowest->inputs[0];
    ret->joined = joined;
    return MR_OK;
}
