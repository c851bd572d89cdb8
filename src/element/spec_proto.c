#include "element/spec_proto.h"

#include "base/base.h"
#include "base/limits.h"

void mr_leaf_lend_proto(const struct mr_leaf_spec *leaf, Millrace__LeafSpec *ret)
{
    millrace__leaf_spec__init(ret);
    ret->dtype = leaf->dtype;
    ret->unknown_rank = leaf->rank == MR_RANK_UNKNOWN;
    if (leaf->rank > 0) {
        ret->n_dims = (size_t)leaf->rank;
        ret->dims = (int64_t *)(uintptr_t)leaf->dims;
    }
}

static int leaf_to_proto(const struct mr_leaf_spec *leaf, Millrace__LeafSpec **ret, mr_error *err)
{
    Millrace__LeafSpec *msg = mr_malloc(sizeof *msg);

    MR_CHECK_ALLOC(msg, err);
    mr_leaf_lend_proto(leaf, msg);
    *ret = msg; /* Part of the whole from here on, which the caller frees. */
    if (msg->n_dims > 0) {
        msg->dims = mr_memdup(leaf->dims, msg->n_dims * sizeof leaf->dims[0]);
        if (msg->dims == NULL) {
            msg->n_dims = 0;
            return mr_error_nomem(err);
        }
    }
    return MR_OK;
}

static void free_proto(Millrace__ElementSpec *msg)
{
    if (msg != NULL) {
        millrace__element_spec__free_unpacked(msg, NULL);
    }
}
MR_AUTO_DEFINE(Millrace__ElementSpec, free_proto)

int mr_spec_to_proto(const mr_spec *spec, Millrace__ElementSpec **ret, mr_error *err)
{
    MR_AUTO(free_proto) Millrace__ElementSpec *msg = mr_malloc(sizeof *msg);
    size_t n = mr_spec_leaves(spec);

    MR_CHECK_ALLOC(msg, err);
    millrace__element_spec__init(msg);
    char *structure = mr_strdup(mr_spec_structure(spec));
    MR_CHECK_ALLOC(structure, err);
    msg->structure = structure;
    if (n > 0) {
        msg->leaves = mr_calloc(n, sizeof msg->leaves[0]);
        MR_CHECK_ALLOC(msg->leaves, err);
    }
    for (size_t i = 0; i < n; i++) {
        int rc = leaf_to_proto(mr_spec_leaf(spec, i), &msg->leaves[i], err);

        msg->n_leaves += msg->leaves[i] != NULL; /* freed with the whole */
        MR_TRY(rc);
    }
    *ret = MR_TAKE(msg);
    return MR_OK;
}

static int leaf_from_proto(const Millrace__LeafSpec *msg, size_t i, struct mr_leaf_spec *leaf,
                           mr_error *err)
{
    memset(leaf, 0, sizeof *leaf);
    if (msg->dtype == MR_DTYPE_NONE || msg->dtype >= MR_DTYPE_COUNT) {
        return mr_error_set(err, MR_EINVAL, "leaf %zu: %u is not a dtype", i, msg->dtype);
    }
    if (msg->n_dims > MR_RANK_MAX || (msg->unknown_rank && msg->n_dims > 0)) {
        return mr_error_set(err, MR_EINVAL, "leaf %zu: %zu dimensions%s", i, msg->n_dims,
                            msg->unknown_rank ? " of an unknown number" : " are too many");
    }
    leaf->dtype = (uint8_t)msg->dtype;
    leaf->rank = msg->unknown_rank ? MR_RANK_UNKNOWN : (int8_t)msg->n_dims;
    if (msg->n_dims > 0) {
        memcpy(leaf->dims, msg->dims, msg->n_dims * sizeof leaf->dims[0]);
    }
    return MR_OK;
}

int mr_spec_from_proto(const Millrace__ElementSpec *msg, mr_spec **ret, mr_error *err)
{
    if (msg->n_leaves > MR_LEAVES_MAX) {
        return mr_error_set(err, MR_EINVAL, "%zu components in an element are more than %d",
                            msg->n_leaves, (int)MR_LEAVES_MAX);
    }
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = mr_calloc(msg->n_leaves, sizeof leaves[0]);
    MR_CHECK_ALLOC(leaves, err);
    for (size_t i = 0; i < msg->n_leaves; i++) {
        MR_TRY(leaf_from_proto(msg->leaves[i], i, &leaves[i], err));
    }
    /* An empty string is a spec that came without structure: the default one. */
    return mr_spec_new(leaves, msg->n_leaves, msg->structure[0] == '\0' ? NULL : msg->structure,
                       ret, err);
}

int mr_spec_pack(const mr_spec *spec, void **ret, size_t *size, mr_error *err)
{
    MR_AUTO(free_proto) Millrace__ElementSpec *msg = NULL;

    MR_TRY(mr_spec_to_proto(spec, &msg, err));
    void *bytes = mr_malloc(millrace__element_spec__get_packed_size(msg));
    MR_CHECK_ALLOC(bytes, err);
    *size = millrace__element_spec__pack(msg, bytes);
    *ret = bytes;
    return MR_OK;
}

int mr_spec_unpack(const void *bytes, size_t size, mr_spec **ret, mr_error *err)
{
    MR_AUTO(free_proto)
    Millrace__ElementSpec *msg = millrace__element_spec__unpack(NULL, size, bytes);

    return msg != NULL ? mr_spec_from_proto(msg, ret, err)
                       : mr_error_set(err, MR_EINVAL, "%zu bytes are not an element spec", size);
}
