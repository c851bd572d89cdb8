#include "dispatcher/server/definitions.h"

#include "dataset/definition.h"
#include "dataset/operator.h"
#include "element/spec_proto.h"
#include "engine/engine.h"

#include <millrace/dataset.h>

#define SUMMARY_NODES_MAX 64

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

    MR_TRY(mr_dataset_fingerprint(ds, fingerprint, err));
    for (size_t i = 0; i < sizeof fingerprint; i++) {
        (void)snprintf(d->fingerprint + 2 * i, 3, "%02x", fingerprint[i]);
    }
    d->cardinality = mr_dataset_cardinality(ds);
    if (mr_dataset_providers(ds, d->providers, MR_CORE_PROVIDERS_MAX, &d->nproviders, &why) < 0) {
        /* Not an error yet: only DYNAMIC needs splits, and says this then. */
        d->nproviders = 0;
        d->unsplittable = mr_strdup(why.message);
        MR_CHECK_ALLOC(d->unsplittable, err);
    }
    for (size_t i = 0; i < d->nproviders; i++) {
        MR_TRY(mr_dataset_provider_elements(ds, i, &d->split_elements[i], err));
        MR_TRY(mr_dataset_provider_name(ds, i, d->names[i], sizeof d->names[i], err));
        d->sources[i] = d->names[i];
    }
    return mr_spec_pack(mr_dataset_spec(ds), &d->spec, &d->spec_size, err);
}

static int describe_all(const struct mr_definition_parts *parts, struct mr_definition *d,
                        mr_error *err)
{
    MR_AUTO(mr_dataset_unref) mr_dataset *ds = NULL;

    MR_TRY(mr_dataset_of_definition(parts, &ds, err));
    MR_TRY(mr_infer_no_datasets(mr_dataset_spec(ds), err)); /* which could not be sent */
    MR_TRY(describe(ds, d, err));
    summarise(parts->def, d->summary, sizeof d->summary);
    d->ignores_errors = ignores_errors(parts->def);
    return MR_OK;
}

int mr_definition_parse(const void *bytes, size_t size, struct mr_definition **ret, mr_error *err)
{
    struct mr_definition_parts parts;

    if (size > MR_DEFINITION_SENT_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a definition of %zu bytes, at most %llu are allowed",
                            size, MR_DEFINITION_SENT_BYTES_MAX);
    }
    MR_AUTO(mr_definition_free) struct mr_definition *d = mr_calloc(1, sizeof *d);
    MR_CHECK_ALLOC(d, err);
    MR_TRY(mr_definition_unpack(bytes, size, &parts, err));
    int rc = describe_all(&parts, d, err);

    mr_definition_parts_free(&parts);
    MR_TRY(rc);
    *ret = MR_TAKE(d);
    return MR_OK;
}
