#include "dispatcher/loop/definition.h"

#include "base/alloc.h"
#include "base/error.h"
#include "dataset/operator.h"
#include "engine/engine.h"
#include "millrace/dataset.pb-c.h"

#include <millrace/dataset.h>
#include <stdio.h>
#include <string.h>

#define SUMMARY_NODES_MAX 64

void mr_definition_free(struct mr_definition *d)
{
    if (d != NULL) {
        mr_free(d->spec);
        mr_free(d->unsplittable);
        mr_free(d);
    }
}

static void fill_leaf(Millrace__LeafSpec *out, const struct mr_leaf_spec *leaf, int64_t *dims)
{
    millrace__leaf_spec__init(out);
    out->dtype = leaf->dtype;
    out->unknown_rank = leaf->rank == MR_RANK_UNKNOWN;
    if (leaf->rank > 0) {
        memcpy(dims, leaf->dims, sizeof leaf->dims);
        out->n_dims = (size_t)leaf->rank;
        out->dims = dims;
    }
}

/* The spec as an ElementSpec. */
static int write_spec(const mr_spec *spec, struct mr_definition *d, mr_error *err)
{
    size_t n = mr_spec_leaves(spec);
    Millrace__ElementSpec msg = MILLRACE__ELEMENT_SPEC__INIT;
    Millrace__LeafSpec *leaves = mr_calloc(n + 1, sizeof *leaves);
    Millrace__LeafSpec **pointers = mr_calloc(n + 1, sizeof *pointers);
    int64_t(*dims)[MR_RANK_MAX] = mr_calloc(n + 1, sizeof *dims);
    int rc = MR_OK;

    if (leaves == NULL || pointers == NULL || dims == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        fill_leaf(&leaves[i], mr_spec_leaf(spec, i), dims[i]);
        pointers[i] = &leaves[i];
    }
    msg.n_leaves = n;
    msg.leaves = pointers;
    msg.structure = (char *)(uintptr_t)mr_spec_structure(spec);
    d->spec_size = millrace__element_spec__get_packed_size(&msg);
    d->spec = mr_malloc(d->spec_size + 1);
    if (d->spec == NULL) {
        rc = mr_error_nomem(err);
        goto out;
    }
    (void)millrace__element_spec__pack(&msg, d->spec);
out:
    mr_free(leaves);
    mr_free(pointers);
    mr_free(dims);
    return rc;
}

static bool ignores_errors(const Millrace__DatasetDef *def)
{
    bool found = false;

    for (size_t i = 0; def->graph != NULL && i < def->graph->n_nodes; i++) {
        found = found || strcmp(def->graph->nodes[i]->op, "ignore_errors") == 0;
    }
    return found;
}

/* "range > map > batch": the way along first inputs, from its source to the root. For people. */
static void summarise(const Millrace__DatasetDef *def, char *out, size_t cap)
{
    const char *ops[SUMMARY_NODES_MAX];
    size_t n = 0;
    size_t len = 0;

    out[0] = '\0';
    if (def->graph == NULL) {
        return;
    }
    for (size_t node = def->graph->root; node < def->graph->n_nodes && n < SUMMARY_NODES_MAX;) {
        const Millrace__DatasetNode *d = def->graph->nodes[node];

        ops[n++] = d->op;
        if (d->n_inputs == 0) {
            break;
        }
        node = d->inputs[0];
    }
    for (size_t i = n; i > 0 && len + 1 < cap; i--) {
        int wrote = snprintf(out + len, cap - len, "%s%s", i == n ? "" : " > ", ops[i - 1]);

        len += wrote > 0 ? (size_t)wrote : 0;
    }
}

static int describe(mr_dataset *ds, struct mr_definition *d, mr_error *err)
{
    uint8_t fingerprint[16];
    mr_error why;
    int rc = mr_dataset_fingerprint(ds, fingerprint, err);

    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < sizeof fingerprint; i++) {
        (void)snprintf(d->fingerprint + 2 * i, 3, "%02x", fingerprint[i]);
    }
    d->cardinality = mr_dataset_cardinality(ds);
    rc = mr_dataset_providers(ds, d->providers, MR_CORE_PROVIDERS_MAX, &d->nproviders, &why);
    if (rc < 0) {
        /* Not an error yet: only DYNAMIC needs splits, and says this then. */
        d->nproviders = 0;
        d->unsplittable = mr_strdup(why.message);
        if (d->unsplittable == NULL) {
            return mr_error_nomem(err);
        }
    }
    for (size_t i = 0; i < d->nproviders; i++) {
        rc = mr_dataset_provider_name(ds, i, d->names[i], sizeof d->names[i], err);
        if (rc < 0) {
            return rc;
        }
        d->sources[i] = d->names[i];
    }
    return write_spec(mr_dataset_spec(ds), d, err);
}

static int describe_graph(const void *bytes, size_t size, struct mr_definition *d, mr_error *err)
{
    Millrace__DatasetDef *def = millrace__dataset_def__unpack(NULL, size, bytes);

    if (def == NULL) {
        return mr_error_nomem(err); /* it was parsed before */
    }
    summarise(def, d->summary, sizeof d->summary);
    d->ignores_errors = ignores_errors(def);
    millrace__dataset_def__free_unpacked(def, NULL);
    return MR_OK;
}

int mr_definition_parse(const void *bytes, size_t size, struct mr_definition **ret, mr_error *err)
{
    mr_dataset *ds = NULL;
    struct mr_definition *d;
    int rc;

    if (size > MR_DEFINITION_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a definition of %zu bytes, at most %llu are allowed", size,
                            MR_DEFINITION_BYTES_MAX);
    }
    d = mr_calloc(1, sizeof *d);
    if (d == NULL) {
        return mr_error_nomem(err);
    }
    rc = mr_dataset_parse(bytes, size, &ds, err);
    if (rc >= 0) {
        rc = mr_infer_no_datasets(mr_dataset_spec(ds), err); /* which could not be sent */
    }
    if (rc >= 0) {
        rc = describe(ds, d, err);
    }
    if (rc >= 0) {
        rc = describe_graph(bytes, size, d, err);
    }
    if (rc >= 0) {
        *ret = d;
        d = NULL;
    }
    mr_dataset_unref(ds);
    mr_definition_free(d);
    return rc;
}
