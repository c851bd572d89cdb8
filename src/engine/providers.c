#include "engine/providers.h"

#include "base/limits.h"
#include "dataset/location.h"
#include "engine/op.h"

/* A graph that uses its parts twice at every level is a large tree: this is where walking it
 * ends. */
#define VISITS_MAX MR_GRAPH_NODES_MAX

struct walk {
    struct mr_provider *providers;
    size_t n;
    size_t cap;
    uint32_t visits;
};

/* Whether the elements of @ds have indices that mr_op_seek() can go to. */
static bool can_seek(const mr_dataset *ds, bool combined, uint32_t *visits)
{
    if (++*visits > VISITS_MAX || ds->op->run->seek == NULL) {
        return false;
    }
    if (ds->ninputs == 0) {
        return ds->cardinality != MR_CARDINALITY_UNKNOWN;
    }
    /* A map on its own stays above its source: splitting there would gain nothing. Inside a zip it
     * keeps the pairs. */
    if (strcmp(ds->op->name, "map") == 0 && !combined) {
        return false;
    }
    for (size_t i = 0; i < ds->ninputs; i++) {
        if (!can_seek(ds->inputs[i], true, visits)) {
            return false;
        }
    }
    return true;
}

/* So many elements of an input go into each that @ds makes; 0: nobody can tell. */
static uint64_t takes(const mr_dataset *ds)
{
    const struct mr_attr *size = mr_attr_find(ds->attrs, ds->nattrs, "batch_size");

    if (ds->op->rate != MR_RATE_BATCH) {
        return ds->op->rate == MR_RATE_ONE;
    }
    return size->kind == MR_ATTR_INT && size->i > 0 ? (uint64_t)size->i : 0;
}

/* A source of @elements. A split is one element while there are few; of more, a split is a run of
 * them: handing out has a price for each few thousand splits (a write to the store), and must not
 * set the pace of a source of cheap elements. @per of them go into an element of the whole graph;
 * 0: not known. */
static int add(struct walk *w, const mr_dataset *ds, uint64_t path, int64_t elements, uint64_t per,
               mr_error *err)
{
    uint64_t n = elements > 0 ? (uint64_t)elements : 0;
    uint64_t rows = n / MR_SPLITS_WHOLE_MAX + (n % MR_SPLITS_WHOLE_MAX != 0 ? 1 : 0);
    int64_t splits = elements;

    if (rows > 1) {
        splits = (int64_t)(n / rows + (n % rows != 0 ? 1 : 0));
    } else {
        rows = 1;
    }

    if (w->n == w->cap) {
        struct mr_provider *bigger = mr_reallocarray(w->providers, w->cap * 2 + 4, sizeof *bigger);

        MR_CHECK_ALLOC(bigger, err);
        w->providers = bigger;
        w->cap = w->cap * 2 + 4;
    }
    w->providers[w->n++] = (struct mr_provider){.path = path,
                                                .at = ds,
                                                .splits = splits,
                                                .rows = rows,
                                                .elements = per > 0 ? (rows - 1) / per + 1 : 0};
    return MR_OK;
}

static int visit(struct walk *w, const mr_dataset *ds, uint64_t path, uint64_t per, mr_error *err)
{
    const struct mr_attr *whole = mr_attr_find(ds->attrs, ds->nattrs, "whole");
    if (whole != NULL && whole->i != 0) {
        return MR_OK; /* numbers what a worker gets: each has all of it */
    }
    if (can_seek(ds, false, &w->visits)) {
        return add(w, ds, path, ds->cardinality, per, err);
    }
    if (ds->op->run->whole_split) {
        return add(w, ds, path, 1, 0 /* nobody knows how many it has */, err);
    }
    if (w->visits > VISITS_MAX) {
        return mr_error_set(err, MR_EINVAL, "the dataset runs more than %d operators", VISITS_MAX);
    }
    if (strcmp(ds->op->name, "snapshot") == 0) {
        return mr_error_set(err, MR_EUNIMPL,
                            "%s (step %u) would keep a part of the elements (DYNAMIC sharding): "
                            "read with sharding OFF, or save the elements and load them",
                            ds->op->name, ds->step);
    }
    if (ds->ninputs == 0 || ds->op->external) {
        char text[MR_OPERATOR_TEXT];

        return mr_error_set(
            err, MR_EUNIMPL,
            "%s cannot be split among workers (DYNAMIC sharding): start from range, "
            "tensors or file names, or read with sharding OFF",
            mr_operator_text(ds, MR_LOCATION_BYTES_MAX, text));
    }
    if (__builtin_mul_overflow(per, takes(ds), &per)) {
        per = 0;
    }
    for (uint32_t i = 0; i < ds->ninputs; i++) {
        MR_TRY(visit(w, ds->inputs[i], mr_op_child_path(path, i), per, err));
    }
    return MR_OK;
}

int mr_providers_list(const mr_dataset *root, struct mr_provider **ret, size_t *n, mr_error *err)
{
    struct walk w = {0};
    int rc = visit(&w, root, MR_ROOT_PATH, 1, err);

    if (rc != MR_OK) {
        mr_free(w.providers);
        return rc;
    }
    *ret = w.providers;
    *n = w.n;
    return MR_OK;
}

int mr_dataset_providers(const mr_dataset *ds, int64_t *splits, size_t cap, size_t *n,
                         mr_error *err)
{
    MR_AUTO(mr_free) struct mr_provider *providers = NULL;
    size_t count = 0;

    MR_TRY(mr_providers_list(ds, &providers, &count, err));
    if (count > cap) {
        return mr_error_set(err, MR_EINVAL, "%zu split providers, the caller has room for %zu",
                            count, cap);
    }
    for (size_t i = 0; i < count; i++) {
        splits[i] = providers[i].splits;
    }
    *n = count;
    return MR_OK;
}

/* A copy of provider @index. */
static int provider_at(const mr_dataset *ds, size_t index, struct mr_provider *ret, mr_error *err)
{
    MR_AUTO(mr_free) struct mr_provider *providers = NULL;
    size_t count = 0;

    MR_TRY(mr_providers_list(ds, &providers, &count, err));
    if (index >= count) {
        return mr_error_set(err, MR_EINVAL, "provider %zu of %zu", index, count);
    }
    *ret = providers[index];
    return MR_OK;
}

int mr_dataset_provider_elements(const mr_dataset *ds, size_t index, uint64_t *ret, mr_error *err)
{
    struct mr_provider provider;

    MR_TRY(provider_at(ds, index, &provider, err));
    *ret = provider.elements;
    return MR_OK;
}

int mr_dataset_provider_name(const mr_dataset *ds, size_t index, char *out, size_t size,
                             mr_error *err)
{
    struct mr_provider provider;

    MR_TRY(provider_at(ds, index, &provider, err));
    (void)snprintf(out, size, "%s (step %u)", provider.at->op->name, provider.at->step);
    return MR_OK;
}
