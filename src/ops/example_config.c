#include "ops/example_config.h"

#include "base/limits.h"
#include "ops/attr.h"

#include <stdlib.h>

enum {
    KIND_FIXED_LEN = 0,
    KIND_VAR_LEN = 1,
};

int mr_string_compare(struct mr_string a, struct mr_string b)
{
    size_t n = a.size < b.size ? a.size : b.size;
    int order = n == 0 ? 0 : memcmp(a.data, b.data, n);

    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_names(const void *a, const void *b, void *ctx)
{
    const struct mr_example_config *config = ctx;

    return mr_string_compare(config->features[*(const uint32_t *)a].name,
                             config->features[*(const uint32_t *)b].name);
}

void mr_example_config_free(void *state)
{
    struct mr_example_config *config = state;

    if (config != NULL) {
        MR_CHECK_MAGIC(config, MR_EXAMPLE_MAGIC);
        mr_free(config->by_name);
        mr_free(config);
    }
}

enum mr_feature_kind mr_feature_kind_of(unsigned dtype)
{
    return dtype == MR_STRING    ? MR_FEATURE_BYTES
           : dtype == MR_FLOAT32 ? MR_FEATURE_FLOATS
           : dtype == MR_INT64   ? MR_FEATURE_INT64S
                                 : MR_FEATURE_NONE;
}

const char *mr_feature_text(struct mr_string name, char buf[MR_FEATURE_TEXT])
{
    (void)snprintf(buf, MR_FEATURE_TEXT, "feature '%.*s'", name.size > 60 ? 60 : (int)name.size,
                   (const char *)name.data);
    return buf;
}

static int parse_shape(struct mr_example_feature *f, const struct mr_attr *shape, mr_error *err)
{
    uint64_t count = 1;

    if (shape == NULL) {
        f->per_record = 1;
        return MR_OK;
    }
    if (shape->count < 0) {
        return mr_error_set(err, MR_EINVAL, "its shape has an unknown rank");
    }
    f->rank = shape->count;
    if (f->rank > 0) {
        memcpy(f->dims, shape->ints, (size_t)f->rank * sizeof f->dims[0]);
    }
    f->sequence = f->rank > 0 && f->dims[0] == MR_DIM_UNKNOWN;
    for (int d = f->sequence ? 1 : 0; d < f->rank; d++) {
        if (f->dims[d] < 0) {
            return mr_error_set(err, MR_EINVAL, "dim %d of its shape is unknown", d);
        }
    }
    if (!mr_shape_count(f->sequence ? f->rank - 1 : f->rank, f->dims + (f->sequence ? 1 : 0),
                        &count) ||
        count > MR_ELEMENT_BYTES_MAX / mr_value_width(f->dtype)) {
        return mr_error_set(err, MR_EINVAL, "its shape is above the limit");
    }
    if (f->sequence && count == 0) {
        return mr_error_set(err, MR_EINVAL, "no number of values says how long it is");
    }
    f->per_record = count;
    return MR_OK;
}

static int parse_default(struct mr_example_feature *f, const struct mr_attr *fallback,
                         mr_error *err)
{

    if (fallback == NULL) {
        return MR_OK;
    }
    if (fallback->block == NULL || mr_block_rows(fallback->block) != 1 ||
        mr_block_column_count(fallback->block) != 1 ||
        mr_block_column(fallback->block, 0)->dtype != f->dtype) {
        return mr_error_set(err, MR_EINVAL, "its default is not one tensor of %s",
                            mr_dtype_name((mr_dtype)f->dtype));
    }
    struct mr_owned_column column = mr_block_owned_column(fallback->block, 0);
    struct mr_kernel_in in = {&column, true};
    struct mr_input opened;
    MR_TRY(mr_input_open(&in, 1, &opened, err));
    f->fallback = fallback->block;
    f->fallback_count = opened.count;
    mr_input_close(&opened);
    if (f->fallback_count != 1 && f->sequence) {
        return mr_error_set(err, MR_EINVAL, "of any length, so its default is one value, not %llu",
                            (unsigned long long)f->fallback_count);
    }
    if (f->fallback_count != 1 && f->fallback_count != f->per_record) {
        return mr_error_set(err, MR_EINVAL, "its default has %llu values, not %llu",
                            (unsigned long long)f->fallback_count,
                            (unsigned long long)f->per_record);
    }
    return MR_OK;
}

static int parse_feature(struct mr_example_feature *f, size_t i, struct mr_attrs attrs,
                         mr_error *err)
{
    char name[32];
    int64_t kind = mr_attr_get(attrs, "kinds")->ints[i];
    int64_t dtype = mr_attr_get(attrs, "dtypes")->ints[i];

    if (kind != KIND_FIXED_LEN && kind != KIND_VAR_LEN) {
        return mr_error_set(err, MR_EINVAL, "%lld is not a kind", (long long)kind);
    }
    if (dtype < 0 || dtype >= MR_DTYPE_COUNT ||
        mr_feature_kind_of((unsigned)dtype) == MR_FEATURE_NONE) {
        return mr_error_set(err, MR_EINVAL, "wants float32, int64 or string");
    }
    f->dtype = (uint8_t)dtype;
    if (kind == KIND_VAR_LEN) {
        f->joined = true;
        f->sequence = true;
        f->rank = 1;
        f->dims[0] = MR_DIM_UNKNOWN;
        f->per_record = 1;
        return MR_OK;
    }
    (void)snprintf(name, sizeof name, "shape%zu", i);
    MR_TRY(parse_shape(f, mr_attr_get(attrs, name), err));
    (void)snprintf(name, sizeof name, "default%zu", i);
    return parse_default(f, mr_attr_get(attrs, name), err);
}

/* How many features there are; the three lists agree. */
static int count_features(struct mr_attrs attrs, const struct mr_column **names, size_t *n,
                          mr_error *err)
{
    const struct mr_attr *list = mr_attr_get(attrs, "names");
    const struct mr_attr *kinds = mr_attr_get(attrs, "kinds");
    const struct mr_attr *dtypes = mr_attr_get(attrs, "dtypes");

    if (list->block == NULL || mr_block_column_count(list->block) != 1) {
        return mr_error_set(err, MR_EINVAL, "attribute 'names': wants a list of strings");
    }
    *names = mr_block_column(list->block, 0);
    *n = mr_block_rows(list->block);
    if ((*names)->dtype != MR_STRING || (*names)->kind != MR_COLUMN_FIXED || (*names)->rank != 0) {
        return mr_error_set(err, MR_EINVAL, "attribute 'names': wants a list of strings");
    }
    if (*n == 0 || *n > MR_LEAVES_MAX) {
        return mr_error_set(err, MR_EINVAL, "%zu features; wants 1 to %d", *n, MR_LEAVES_MAX);
    }
    if ((size_t)kinds->count != *n || (size_t)dtypes->count != *n) {
        return mr_error_set(err, MR_EINVAL, "%zu names, %d kinds and %d dtypes", *n, kinds->count,
                            dtypes->count);
    }
    return MR_OK;
}

int mr_example_config_new(struct mr_attrs attrs, struct mr_example_config **ret, mr_error *err)
{
    const struct mr_column *names = NULL;
    char text[MR_FEATURE_TEXT];
    size_t n = 0;

    MR_TRY(count_features(attrs, &names, &n, err));
    MR_AUTO(mr_example_config_free)
    struct mr_example_config *config =
        mr_calloc(1, sizeof *config + n * sizeof config->features[0]);
    MR_CHECK_ALLOC(config, err);
    config->magic = MR_EXAMPLE_MAGIC;
    config->n = n;
    config->by_name = mr_reallocarray(NULL, n, sizeof *config->by_name);
    MR_CHECK_ALLOC(config->by_name, err);
    for (size_t i = 0; i < n; i++) {
        uint64_t at = names->offsets[i];

        config->by_name[i] = (uint32_t)i;
        config->features[i].name =
            (struct mr_string){names->data == NULL ? NULL : (const unsigned char *)names->data + at,
                               names->offsets[i + 1] - at};
        MR_TRY_WRAP(parse_feature(&config->features[i], i, attrs, err), err, "%s",
                    mr_feature_text(config->features[i].name, text));
        if (config->features[i].joined) {
            config->features[i].number = config->njoined++;
        }
    }
    qsort_r(config->by_name, n, sizeof *config->by_name, compare_names, config);
    for (size_t i = 1; i < n; i++) {
        if (compare_names(&config->by_name[i - 1], &config->by_name[i], config) == 0) {
            return mr_error_set(err, MR_EINVAL, "%s is named twice",
                                mr_feature_text(config->features[config->by_name[i]].name, text));
        }
    }
    *ret = MR_TAKE(config);
    return MR_OK;
}
