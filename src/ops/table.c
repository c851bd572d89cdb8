#include "ops/table.h"

#include "ops/attr.h"

#include <stdlib.h>

static const struct mr_kernel *const kernels[] = {
#define MR_KERNEL(name, file, section, inputs, attributes, result) &mr_kernel_##name,
#include "ops/kernels.def"
#undef MR_KERNEL
};

static int compare_name(const void *key, const void *entry)
{
    return strcmp(key, (*(const struct mr_kernel *const *)entry)->name);
}

const struct mr_kernel *mr_kernel_find(const char *name)
{
    const struct mr_kernel *const *k =
        bsearch(name, kernels, sizeof kernels / sizeof kernels[0], sizeof kernels[0], compare_name);

    return k == NULL ? NULL : *k;
}

const struct mr_kernel *const *mr_kernel_list(size_t *n)
{
    *n = sizeof kernels / sizeof kernels[0];
    return kernels;
}

static int check_attr(const struct mr_kernel_attr *table, const struct mr_attr *a, mr_error *err)
{
    for (; table->name != NULL; table++) {
        if (mr_attr_name_matches(table->name, a->name)) {
            return a->kind == table->kind ? MR_OK
                                          : mr_error_set(err, MR_EINVAL, "attribute '%s': wants %s",
                                                         a->name, mr_attr_kind_name(table->kind));
        }
    }
    return mr_error_set(err, MR_EINVAL, "there is no attribute '%s'", a->name);
}

static int check_attrs(const struct mr_kernel_attr *table, const struct mr_attr *attrs,
                       size_t nattrs, mr_error *err)
{
    for (size_t i = 0; i < nattrs; i++) {
        MR_TRY(check_attr(table, &attrs[i], err));
    }
    for (; table->name != NULL; table++) {
        if (!table->optional && mr_attr_find(attrs, nattrs, table->name) == NULL) {
            return mr_error_set(err, MR_EINVAL, "attribute '%s' is missing", table->name);
        }
    }
    return MR_OK;
}

static int check_inputs(const struct mr_kernel *k, const struct mr_leaf_spec *in, size_t nin,
                        mr_error *err)
{
    if (nin < (size_t)k->min_inputs || (k->max_inputs >= 0 && nin > (size_t)k->max_inputs)) {
        return mr_error_set(err, MR_EINVAL, "takes %d%s inputs, not %zu", k->min_inputs,
                            k->min_inputs == k->max_inputs ? "" : " or more", nin);
    }
    for (size_t i = 0; i < nin; i++) {
        if (mr_dtype_name((mr_dtype)in[i].dtype) == NULL) {
            return mr_error_set(err, MR_EINVAL, "input %zu has no dtype", i);
        }
    }
    return MR_OK;
}

static int check_dtypes(uint32_t set, const struct mr_leaf_spec *in, size_t nin, mr_error *err)
{
    for (size_t i = 0; i < nin; i++) {
        MR_TRY(mr_infer_dtype(in, i, set, err));
    }
    return mr_infer_same_dtype(in, 0, nin, err);
}

static int check_functions(const struct mr_kernel *k, size_t n, mr_error *err)
{
    if (n > 0 && k->max_functions == 0) {
        return mr_error_set(err, MR_EINVAL, "takes no functions");
    }
    if (k->max_functions > 0 && (n == 0 || n > k->max_functions)) {
        return mr_error_set(err, MR_EINVAL, "takes 1 to %u functions, not %zu", k->max_functions,
                            n);
    }
    return MR_OK;
}

int mr_kernel_infer(const struct mr_kernel *kernel, const struct mr_attr *attrs, size_t nattrs,
                    const struct mr_leaf_spec *in, size_t nin,
                    const struct mr_kernel_function *functions, size_t nfunctions,
                    struct mr_leaf_spec *out, size_t cap, size_t *nout, mr_error *err)
{
    struct mr_kernel_infer it = {{attrs, nattrs}, in, nin, out, cap, 0, functions, nfunctions};

    MR_TRY(check_functions(kernel, nfunctions, err));
    MR_TRY(check_inputs(kernel, in, nin, err));
    MR_TRY(check_attrs(kernel->attr_table, attrs, nattrs, err));
    if (cap == 0) {
        return mr_error_set(err, MR_EINVAL, "no room for a result");
    }
    if (kernel->dtypes != 0) {
        MR_TRY(check_dtypes(kernel->dtypes, in, nin, err));
    }
    MR_TRY(mr_infer_call(kernel, &it, err));
    *nout = it.nout;
    return MR_OK;
}
