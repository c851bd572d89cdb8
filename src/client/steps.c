#include "client/steps.h"

#include "dataset/graph.h"
#include "dataset/operator.h"
#include "ops/kernel.h"

#include <string.h>

bool mr_steps_is_one_of(const mr_dataset *ds, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(ds->op->name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_ordered(const mr_dataset *ds)
{
    const struct mr_attr *a = mr_attr_find(ds->attrs, ds->nattrs, "deterministic");

    return a == NULL || (a->kind == MR_ATTR_BOOL && a->i != 0);
}

/* Elements with numbers, which is what enumerate makes: the input that is not the numbers. */
static const mr_dataset *numbered(const mr_dataset *zip)
{
    static const char *const range[] = {"range"};
    const mr_dataset *found = NULL;

    for (size_t i = 0; i < zip->ninputs; i++) {
        if (mr_steps_is_one_of(zip->inputs[i], range, 1)) {
            continue;
        }
        if (found != NULL) {
            return NULL;
        }
        found = zip->inputs[i];
    }
    return found;
}

const mr_dataset *mr_steps_input(const mr_dataset *ds, bool *mixed)
{
    static const char *const one_for_one[] = {"map", "prefetch", "shuffle", "take"};
    static const char *const shuffle[] = {"shuffle"};
    static const char *const zip[] = {"zip"};

    if (mr_steps_is_one_of(ds, zip, 1)) {
        return numbered(ds);
    }
    if (!mr_steps_is_one_of(ds, one_for_one, sizeof one_for_one / sizeof one_for_one[0])) {
        return NULL;
    }
    *mixed = *mixed || mr_steps_is_one_of(ds, shuffle, 1) || !is_ordered(ds);
    return ds->inputs[0];
}
