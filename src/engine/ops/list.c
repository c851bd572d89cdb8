#include "engine/ops/ops.h"

#include <stdlib.h>

static const struct mr_operator *const list[] = {
#define MR_OPERATOR(name, file, inputs, attributes, functions) &mr_operator_##name,
#include "engine/ops/operators.def"
#undef MR_OPERATOR
};
#define COUNT (sizeof list / sizeof list[0])

static int compare_name(const void *key, const void *entry)
{
    return strcmp(key, (*(const struct mr_operator *const *)entry)->name);
}

const struct mr_operator *mr_operator_find(const char *name)
{
    const struct mr_operator *const *op = bsearch(name, list, COUNT, sizeof list[0], compare_name);

    return op == NULL ? NULL : *op;
}

const struct mr_operator *const *mr_operator_list(size_t *n)
{
    *n = COUNT;
    return list;
}
