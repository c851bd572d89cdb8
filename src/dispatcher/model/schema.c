/* The format of the stored state: a version, and the features that it uses. A leader that does not
 * know one of them must not lead, since it would serve as something else what they stand for; so a
 * feature is recorded in the transaction that first uses it. */
#include "dispatcher/model/apply.h"

#include "json/pbjson.h"

static const char *const known[] = {MR_FEATURE_AT_LEAST_ONCE, MR_FEATURE_SHARING,
                                    MR_FEATURE_DRAINING, MR_FEATURE_ROUNDS};

int mr_core_schema_missing(mr_error *err)
{
    return mr_error_set(err, MR_EDATALOSS, "'schema' is missing, and there are records");
}

static bool is_known(const char *feature)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i], feature) == 0) {
            return true;
        }
    }
    return false;
}

int mr_schema_check(const Millrace__SchemaRecord *schema, mr_error *err)
{
    if (schema->version == 0) {
        return mr_error_set(err, MR_EDATALOSS, "'schema' has no version");
    }
    if (schema->min_reader > MR_SCHEMA_VERSION) {
        return mr_error_set(err, MR_EPRECOND,
                            "the state has format %u ('schema', written by %.40s) and needs a "
                            "reader of %u; this is %d",
                            schema->version, schema->created_by, schema->min_reader,
                            MR_SCHEMA_VERSION);
    }
    for (size_t i = 0; i < schema->n_features; i++) {
        if (!is_known(schema->features[i])) {
            return mr_error_set(
                err, MR_EPRECOND,
                "'schema': the state uses '%.60s', which this version does not know",
                schema->features[i]);
        }
    }
    return MR_OK;
}

void mr_schema_begin(mr_core *core)
{
    core->schema = MR_NEW_RECORD(core, schema_record);
    if (core->schema != NULL) {
        core->schema->version = MR_SCHEMA_VERSION;
        core->schema->min_reader = MR_SCHEMA_VERSION;
        mr_core_set(core, &core->schema->created_by, "millrace " MR_VERSION);
    }
}

int mr_core_schema(const mr_core *core, char **ret, size_t *size, mr_error *err)
{
    MR_ASSERT(core->ready);
    return mr_pbjson_write(&core->schema->base, ret, size, err);
}

bool mr_schema_has(const mr_core *core, const char *feature)
{
    const Millrace__SchemaRecord *schema = core->schema;

    for (size_t i = 0; schema != NULL && i < schema->n_features; i++) {
        if (strcmp(schema->features[i], feature) == 0) {
            return true;
        }
    }
    return false;
}

void mr_apply_feature_used(mr_core *core, const struct mr_feature_used *u)
{
    const char *feature = u->feature;

    MR_ASSERT(is_known(feature));
    if (mr_schema_has(core, feature)) {
        return;
    }
    mr_core_append_string(core, &core->schema->features, &core->schema->n_features, feature);
    mr_core_note(core, "the state uses %s: older versions refuse it from now on", feature);
    mr_touch(core, MR_STORED_SCHEMA, core, 0);
}
