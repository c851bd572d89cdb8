/* Takeover: records come in any order. Each is parsed, and kept until all are there. */
#include "dispatcher/takeover/takeover.h"

#include "json/pbjson.h"

static void free_list(struct staged_list *list)
{
    struct staged_record *staged;

    while ((staged = STAILQ_FIRST(list)) != NULL) {
        STAILQ_REMOVE_HEAD(list, link);
        mr_record_free(staged->rec);
        mr_free(staged->why);
        mr_free(staged);
    }
}

void mr_staged_free(struct mr_staged *staged)
{
    if (staged == NULL) {
        return;
    }
    for (size_t i = 0; i < MR_STORED_KINDS; i++) {
        free_list(&staged->lists[i]);
    }
    free_list(&staged->blobs);
    mr_free(staged);
}

struct mr_staged *mr_staged_of(mr_core *core)
{
    MR_ASSERT(!core->ready);
    if (core->staged == NULL) {
        core->staged = mr_calloc(1, sizeof *core->staged);
        if (core->staged == NULL) {
            return NULL;
        }
        for (size_t i = 0; i < MR_STORED_KINDS; i++) {
            STAILQ_INIT(&core->staged->lists[i]);
        }
        STAILQ_INIT(&core->staged->blobs);
    }
    return core->staged;
}

/* Takes @rec and @why. */
static int stage(struct staged_list *list, const char *key, void *rec, char *why, mr_error *err)
{
    size_t size = strlen(key) + 1;
    struct staged_record *staged = mr_malloc(sizeof *staged + size);

    if (staged == NULL) {
        mr_record_free(rec);
        mr_free(why);
        return mr_error_nomem(err);
    }
    staged->rec = rec;
    staged->why = why;
    memcpy(staged->key, key, size);
    STAILQ_INSERT_TAIL(list, staged, link);
    return MR_OK;
}

/* A record that cannot be used by itself, as @why says: what that spoils is seen when the others
 * are there. */
static int stage_bad(struct staged_list *list, const char *key, const mr_error *why, mr_error *err)
{
    char *copy = mr_strdup(why->message);

    return copy != NULL ? stage(list, key, NULL, copy, err) : mr_error_nomem(err);
}

static int load_value(mr_core *core, size_t kind, const char *key, const void *value, size_t size,
                      mr_error *err)
{
    struct staged_list *list = &core->staged->lists[kind];
    ProtobufCMessage *rec = NULL;
    mr_error why;
    int rc = mr_pbjson_parse(mr_stored_kinds[kind].desc, value, size, &rec, &why);

    /* Before anything else of a newer format fails to parse. */
    if (rc == MR_OK && strcmp(key, MR_KEY_SCHEMA) == 0) {
        rc = mr_schema_check((const Millrace__SchemaRecord *)rec, err);
        if (rc < 0) {
            mr_record_free(rec);
            return rc;
        }
    }
    rc = rc == MR_OK ? mr_validate_record(rec, &why) : rc;
    if (rc == MR_OK) {
        return stage(list, key, rec, NULL, err);
    }
    mr_record_free(rec);
    rc = rc == MR_EINVAL ? MR_EDATALOSS : rc;
    if (rc == MR_EDATALOSS && mr_stored_kinds[kind].bad != MR_SPOILS_ALL) {
        return stage_bad(list, key, &why, err);
    }
    mr_error_wrap(&why, "the value of '%.120s'", key);
    return mr_error_set(err, rc, "%s", why.message);
}

int mr_core_load(mr_core *core, const char *key, const void *value, size_t size, mr_error *err)
{
    MR_CHECK_ALLOC(mr_staged_of(core), err);
    core->loaded_keys++;
    for (size_t i = 0; i < MR_STORED_KINDS; i++) {
        if (mr_key_is_below(key, mr_stored_kinds[i].prefix)) {
            return load_value(core, i, key, value, size, err);
        }
    }
    return mr_error_set(err, MR_EDATALOSS, "'%.120s' is not a key of this state", key);
}

int mr_core_load_blob(mr_core *core, const char *key, mr_error *err)
{
    struct mr_staged *staged = mr_staged_of(core);

    MR_CHECK_ALLOC(staged, err);
    core->loaded_keys++;
    return stage(&staged->blobs, key, NULL, NULL, err);
}
