/* RegisterDataset, and the parts of the definition before it. */
#include "dispatcher/rules/rules.h"

#define PLAIN_BYTES_MAX 4096

int mr_core_do_store_part(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const struct mr_part_store *in = command->part;
    Millrace__BlobPart part = MILLRACE__BLOB_PART__INIT;
    char key[MR_KEY_SIZE];

    /* The caller cuts and names the parts itself: these are its mistakes, not a client's. */
    MR_ASSERT(in->size <= MR_CORE_PART_BYTES);
    MR_ASSERT(mr_id_is_valid(in->blob));
    part.data.data = (uint8_t *)(uintptr_t)in->data;
    part.data.len = in->size;
    mr_part_key(in->blob, in->index, key, sizeof key);
    mr_put(core, key, &part.base);
    return MR_OK;
}

static int check_registration(const mr_core *core, const struct mr_dataset_register *in,
                              mr_error *err)
{
    char content[MR_ID_HEX + 16];

    mr_dataset_id_of_content(in->fingerprint, in->compression, content, sizeof content);
    if (mr_dataset_id_is_of_content(in->dataset_id) && strcmp(in->dataset_id, content) != 0) {
        return mr_error_set(err, MR_EINVAL,
                            "dataset id '%s' has the form of ids that are made from content",
                            in->dataset_id);
    }
    if (strcmp(in->compression, "AUTO") != 0 && strcmp(in->compression, "SNAPPY") != 0 &&
        strcmp(in->compression, "NONE") != 0) {
        return mr_error_set(err, MR_EINVAL, "compression is neither AUTO nor SNAPPY nor NONE");
    }
    if (!mr_id_is_valid(in->fingerprint)) {
        return mr_error_set(err, MR_EINVAL, "the fingerprint is not 32 hex digits");
    }
    if (in->spec_size > MR_CORE_SPEC_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL,
                            "an element spec of %zu bytes; at most %llu are allowed", in->spec_size,
                            (unsigned long long)MR_CORE_SPEC_BYTES_MAX);
    }
    if (in->nproviders > MR_CORE_PROVIDERS_MAX) {
        return mr_error_set(err, MR_EINVAL, "%zu sources to split; at most %d are allowed",
                            in->nproviders, MR_CORE_PROVIDERS_MAX);
    }
    if (in->parts == 0 && !mr_core_has_definition(core, in->fingerprint)) {
        return mr_error_set_traits(err, MR_EABORTED, MR_RETRYABLE,
                                   "the definition is not stored: register it again");
    }
    if (core->datasets.count >= MR_CORE_DATASETS_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "there are %zu datasets already",
                            core->datasets.count);
    }
    MR_TRY(mr_owner_check_dataset(core, err));
    return mr_hosts_check(core, &core->hosts.datasets, err);
}

/* The same id again: fine if it is the same dataset. */
static int compare_registration(const Millrace__DatasetRecord *rec,
                                const struct mr_dataset_register *in, mr_error *err)
{
    if (strcmp(rec->fingerprint, in->fingerprint) != 0) {
        return mr_error_set(err, MR_EINVAL,
                            "dataset '%s' is registered with another definition: existing %s "
                            "(fingerprint %s), requested fingerprint %s",
                            rec->id, rec->summary, rec->fingerprint, in->fingerprint);
    }
    if (strcmp(rec->compression, in->compression) != 0) {
        return mr_error_set(err, MR_EINVAL,
                            "dataset '%s' is registered with compression %s; requested %s", rec->id,
                            rec->compression, in->compression);
    }
    return MR_OK;
}

/* For people: what does not fit is cut off, and what is not plain text shows as '?', since a record
 * must be UTF-8. */
static void set_plain(mr_core *core, char **slot, const char *from)
{
    char text[PLAIN_BYTES_MAX];
    size_t n = 0;

    for (; from[n] != '\0' && n < sizeof text - 1; n++) {
        text[n] = from[n] >= 0x20 && from[n] < 0x7f ? from[n] : '?';
    }
    text[n] = '\0';
    mr_core_set(core, slot, text);
}

static void add_provider(mr_core *core, Millrace__DatasetRecord *rec,
                         const struct mr_dataset_register *in, size_t i)
{
    Millrace__ProviderInfo *info = MR_ADD_RECORD(core, rec, providers, provider_info);

    if (info != NULL) {
        info->splits = in->providers[i];
        info->split_elements =
            in->split_elements != NULL ? mr_count_add(in->split_elements[i], 0) : 0;
        set_plain(core, &info->source, in->sources != NULL ? in->sources[i] : "");
    }
}

static Millrace__DatasetRecord *make_record(mr_core *core, const char *id,
                                            const struct mr_dataset_register *in)
{
    Millrace__DatasetRecord *rec = MR_NEW_RECORD(core, dataset_record);
    const struct mr_blob *stored = mr_map_get(&core->blobs, in->fingerprint);

    if (rec == NULL) {
        return NULL;
    }
    mr_core_set(core, &rec->id, id);
    mr_core_set(core, &rec->fingerprint, in->fingerprint);
    mr_core_set(core, &rec->compression, in->compression);
    set_plain(core, &rec->unsplittable, in->unsplittable != NULL ? in->unsplittable : "");
    set_plain(core, &rec->summary, in->summary != NULL ? in->summary : "");
    mr_core_set(core, &rec->blob, stored != NULL ? stored->id : in->blob);
    rec->parts = stored != NULL ? stored->parts : in->parts;
    rec->cardinality = in->cardinality;
    rec->definition_size = stored != NULL ? stored->size : in->definition_size;
    rec->ignores_errors = in->ignores_errors;
    rec->used_ms = (uint64_t)core->wall_ms;
    mr_core_set(core, &rec->owner, mr_command_owner(core));
    if (in->spec_size > 0) {
        rec->spec.data = mr_memdup(in->spec, in->spec_size);
        rec->spec.len = rec->spec.data != NULL ? in->spec_size : 0;
    }
    for (size_t i = 0; i < in->nproviders; i++) {
        add_provider(core, rec, in, i);
    }
    if (in->spec_size > 0 && rec->spec.data == NULL) {
        mr_core_nomem(core);
    }
    return rec;
}

static struct mr_flaw *flaw_of(const mr_core *core, const char *id)
{
    char key[MR_KEY_SIZE];

    mr_dataset_key(id, key, sizeof key);
    return mr_flaw_find(core, key);
}

static int decide_registration(mr_core *core, const struct mr_dataset_register *in, const char *id,
                               mr_error *err)
{
    struct mr_dataset_entry *dataset = mr_dataset_find(core, id);
    struct mr_flaw *flaw;
    int rc;

    if (dataset != NULL) {
        rc = compare_registration(dataset->rec, in, err);
        if (rc == MR_OK) {
            MR_APPLY(core, dataset_used, dataset);
        }
        return rc;
    }
    if (in->known) {
        return mr_error_set(err, MR_ENOTFOUND,
                            "no dataset '%.80s' is registered: its definition is needed", id);
    }
    rc = check_registration(core, in, err);
    flaw = flaw_of(core, id);
    if (rc == MR_OK && flaw != NULL &&
        !mr_dataset_id_is_of_content(id)) { /* it may be another definition that jobs are of */
        rc = mr_dataset_refuse_flawed(core, id, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (flaw != NULL) {
        mr_core_note(
            core, "dataset %s: mended; the next leader takes up the jobs that are set aside for it",
            id);
        mr_flaw_drop(core, flaw, true);
    }

    Millrace__DatasetRecord *rec = make_record(core, id, in);

    if (rec != NULL) {
        MR_APPLY(core, dataset_added, rec, &dataset);
    }
    if (dataset != NULL) {
        mr_core_trace(core, "dataset %s: registered, %s", id, rec->summary);
    }
    return MR_OK;
}

int mr_core_do_register_dataset(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const struct mr_dataset_register *in = command->dataset;
    char id[MR_NAME_BYTES_MAX + 1];
    int rc = mr_name_check("dataset id", in->dataset_id, MR_NAME_BYTES_MAX, err);

    if (rc == MR_OK && in->known) {
        rc = mr_name_check("fingerprint", in->fingerprint, MR_ID_HEX, err);
    }
    if (rc == MR_OK) {
        if (in->dataset_id[0] != '\0') {
            snprintf(id, sizeof id, "%s", in->dataset_id);
        } else {
            mr_dataset_id_of_content(in->fingerprint, in->compression, id, sizeof id);
        }
        rc = decide_registration(core, in, id, err);
    }

    /* Parts that came along and are not the ones in use: somebody else was first, or it was
     * refused. */
    const struct mr_blob *stored = mr_map_get(&core->blobs, in->fingerprint);

    if (in->parts > 0 && (stored == NULL || strcmp(stored->id, in->blob) != 0)) {
        mr_parts_leave_over(core, in->blob, in->parts);
    }
    MR_TRY(rc);
    Millrace__RegisterDatasetReply *reply = mr_core_reply(core, true /* fenced */);

    if (reply != NULL) {
        mr_core_set(core, &reply->dataset_id, id);
    }
    return MR_OK;
}
