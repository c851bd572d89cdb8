#include "rpc/port.h"

int mr_rpc_methods_add(struct mr_rpc_methods *methods, const struct mr_rpc_method *method,
                       mr_error *err)
{
    if (methods->n == MR_RPC_METHODS_MAX || strlen(method->path) > MR_NAME_BYTES_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED,
                            "more than %d methods, or a name that is too long: '%s'",
                            MR_RPC_METHODS_MAX, MR_SHOWN(method->path));
    }
    char *path = mr_strdup(method->path);
    MR_CHECK_ALLOC(path, err);
    methods->all[methods->n] = *method;
    methods->all[methods->n++].path = path;
    return MR_OK;
}

const struct mr_rpc_method *mr_rpc_methods_find(const struct mr_rpc_methods *methods,
                                                const char *path)
{
    for (size_t i = 0; i < methods->n; i++) {
        if (strcmp(methods->all[i].path, path) == 0) {
            return &methods->all[i];
        }
    }
    return NULL;
}

void mr_rpc_methods_free(struct mr_rpc_methods *methods)
{
    for (size_t i = 0; i < methods->n; i++) {
        mr_free((char *)(uintptr_t)methods->all[i].path);
    }
}

int mr_rpc_no_method(const char *path, mr_error *err)
{
    return mr_error_set(err, MR_EUNIMPL, "no method '%s' here", MR_SHOWN(path));
}

int mr_rpc_too_large(const struct mr_rpc_method *method, size_t size, mr_error *err)
{
    return mr_error_set(err, MR_EINVAL, "%s: a request of %zu bytes, at most %zu are allowed",
                        method->path, size, method->bytes_max);
}
