/*
 * Datasets: content-addressed (the id is made from the fingerprint) or named.
 *
 * A definition lies in parts under blobs/<blob>/, written before the record that names them, and is
 * shared by all datasets of one fingerprint. Parts are keyed by an id of their own and not by
 * fingerprint: otherwise deleting one dataset could take the parts that a registration of the same
 * content has just put.
 */
#include "dispatcher/core/internal.h"

#include <stdio.h>
#include <string.h>

#define PLAIN_BYTES_MAX 4096

struct mr_dataset_entry *mr_dataset_find(const mr_core *core, const char *id)
{
    return mr_map_get(&core->datasets, id);
}

bool mr_core_has_definition(const mr_core *core, const char *fingerprint)
{
    return mr_map_get(&core->blobs, fingerprint) != NULL;
}

void mr_dataset_key(const char *id, char *out, size_t size)
{
    char encoded[MR_KEY_SIZE - 64];

    mr_name_encode(id, encoded, sizeof encoded);
    snprintf(out, size, "datasets/%s", encoded);
}

static void part_key(const char *blob, uint32_t index, char *out, size_t size)
{
    snprintf(out, size, "blobs/%s/%04u", blob, index);
}

/* The id of a dataset that was given none: one content, one id; compression belongs to the
 * registration. */
static void id_from_content(const char *fingerprint, const char *compression, char *out,
                            size_t size)
{
    const char *suffix = "";

    if (strcmp(compression, "SNAPPY") == 0) {
        suffix = "-snappy";
    } else if (strcmp(compression, "NONE") == 0) {
        suffix = "-none";
    }
    snprintf(out, size, "%s%s", fingerprint, suffix);
}

bool mr_dataset_is_named(const struct mr_dataset_entry *dataset)
{
    char id[MR_ID_HEX + 16];

    id_from_content(dataset->rec->fingerprint, dataset->rec->compression, id, sizeof id);
    return strcmp(id, dataset->rec->id) != 0;
}

void mr_blob_free(struct mr_blob *blob)
{
    if (blob != NULL) {
        mr_free(blob->fingerprint);
        mr_free(blob->id);
        mr_free(blob);
    }
}

void mr_dataset_free(struct mr_dataset_entry *dataset)
{
    if (dataset != NULL) {
        mr_share_give(dataset->share, 1);
        mr_record_free(dataset->rec);
        mr_free(dataset);
    }
}

static struct mr_blob *blob_of(mr_core *core, const Millrace__DatasetRecord *rec)
{
    struct mr_blob *blob = mr_map_get(&core->blobs, rec->fingerprint);

    if (blob != NULL) {
        return blob;
    }
    blob = mr_calloc(1, sizeof *blob);
    if (blob == NULL) {
        mr_core_nomem(core);
        return NULL;
    }
    blob->fingerprint = mr_strdup(rec->fingerprint);
    blob->id = mr_strdup(rec->blob);
    blob->parts = rec->parts;
    blob->size = rec->definition_size;
    TAILQ_INIT(&blob->productions);
    if (blob->fingerprint == NULL || blob->id == NULL) {
        mr_core_nomem(core);
        mr_blob_free(blob);
        return NULL;
    }
    mr_core_index(core, &core->blobs, blob->fingerprint, blob);
    if (core->failed != 0) {
        mr_blob_free(blob);
        return NULL;
    }
    core->parts += blob->parts;
    return blob;
}

struct mr_dataset_entry *mr_dataset_add(mr_core *core, Millrace__DatasetRecord *rec)
{
    struct mr_dataset_entry *dataset = mr_calloc(1, sizeof *dataset);

    if (dataset == NULL) {
        mr_core_nomem(core);
        mr_record_free(rec);
        return NULL;
    }
    dataset->rec = rec;
    dataset->alarm.kind = MR_ALARM_DATASET;
    dataset->since = core->now;
    dataset->blob = blob_of(core, rec);
    if (dataset->blob == NULL) {
        mr_dataset_free(dataset);
        return NULL;
    }
    dataset->blob->datasets++;
    TAILQ_INSERT_TAIL(&core->dataset_list, dataset, link);
    mr_core_index(core, &core->datasets, rec->id, dataset);
    dataset->share = mr_hosts_note(core, &core->hosts.datasets);
    mr_alarm_by(core, &dataset->alarm, core->now);
    return dataset;
}

static void put_dataset(mr_core *core, const struct mr_dataset_entry *dataset)
{
    char key[MR_KEY_SIZE];

    mr_dataset_key(dataset->rec->id, key, sizeof key);
    mr_core_put(core, key, &dataset->rec->base);
}

void mr_dataset_use(mr_core *core, struct mr_dataset_entry *dataset)
{
    uint64_t now = (uint64_t)core->wall_ms;
    uint64_t half = (uint64_t)core->config.dataset_retention_ms / 2;

    dataset->since = core->now;
    mr_alarm_by(core, &dataset->alarm, core->now);
    /* Often enough to keep it, seldom enough to cost nothing. */
    if (!core->full && !mr_dataset_is_named(dataset) && dataset->rec->used_ms + half < now) {
        dataset->rec->used_ms = now;
        put_dataset(core, dataset);
    }
}

static void leave_over_parts(mr_core *core, const char *blob, uint32_t parts)
{
    char key[MR_KEY_SIZE];

    for (uint32_t i = 0; i < parts; i++) {
        part_key(blob, i, key, sizeof key);
        mr_core_leave_over(core, key);
    }
}

void mr_dataset_forget(mr_core *core, struct mr_dataset_entry *dataset)
{
    struct mr_blob *blob = dataset->blob;
    char key[MR_KEY_SIZE];

    MR_ASSERT(dataset->jobs == 0);
    MR_ASSERT(dataset->productions == 0);
    mr_core_trace(core, "dataset %s: forgotten", dataset->rec->id);
    mr_dataset_key(dataset->rec->id, key, sizeof key);
    mr_core_delete(core, key);
    mr_map_remove(&core->datasets, dataset->rec->id);
    mr_alarm_off(core, &dataset->alarm);
    TAILQ_REMOVE(&core->dataset_list, dataset, link);
    if (--blob->datasets == 0) {
        leave_over_parts(core, blob->id, blob->parts);
        core->parts -= blob->parts;
        mr_map_remove(&core->blobs, blob->fingerprint);
        mr_blob_free(blob);
    }
    mr_dataset_free(dataset);
}

void mr_core_do_store_part(mr_core *core, const struct mr_part_store *in)
{
    Millrace__BlobPart part = MILLRACE__BLOB_PART__INIT;
    char key[MR_KEY_SIZE];

    /* The caller cuts and names the parts itself: these are its mistakes, not a client's. */
    MR_ASSERT(in->size <= MR_CORE_PART_BYTES);
    MR_ASSERT(mr_id_is_valid(in->blob));
    part.data.data = (uint8_t *)(uintptr_t)in->data;
    part.data.len = in->size;
    part_key(in->blob, in->index, key, sizeof key);
    mr_core_put(core, key, &part.base);
}

/* 32 hex digits, or those and a '-': somebody else's content must not be registered under it. */
bool mr_dataset_id_is_of_content(const char *id)
{
    return strspn(id, "0123456789abcdef") == MR_ID_HEX &&
           (id[MR_ID_HEX] == '\0' || id[MR_ID_HEX] == '-');
}

static int check_registration(const mr_core *core, const struct mr_dataset_register *in,
                              mr_error *err)
{
    char content[MR_ID_HEX + 16];

    id_from_content(in->fingerprint, in->compression, content, sizeof content);
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
    return mr_hosts_check(core, &core->hosts.datasets, err);
}

/* The same id again: fine if it is the same dataset. */
static int compare_registration(const Millrace__DatasetRecord *rec,
                                const struct mr_dataset_register *in, mr_error *err)
{
    if (strcmp(rec->fingerprint, in->fingerprint) != 0) {
        return mr_error_set(err, MR_EINVAL,
                            "dataset '%s' is registered with another definition: existing %s "
                            "(fingerprint %s), requested "
                            "fingerprint %s",
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

static Millrace__ProviderInfo **copy_providers(mr_core *core, const struct mr_dataset_register *in)
{
    Millrace__ProviderInfo **providers = mr_calloc(in->nproviders, sizeof *providers);

    if (providers == NULL) {
        mr_core_nomem(core);
        return NULL;
    }
    for (size_t i = 0; i < in->nproviders; i++) {
        providers[i] = mr_core_new_record(core, &millrace__provider_info__descriptor);
        if (providers[i] == NULL) {
            while (i-- > 0) {
                mr_record_free(providers[i]);
            }
            mr_free(providers);
            return NULL;
        }
        providers[i]->splits = in->providers[i];
        providers[i]->split_elements =
            in->split_elements != NULL ? mr_count_add(in->split_elements[i], 0) : 0;
        set_plain(core, &providers[i]->source, in->sources != NULL ? in->sources[i] : "");
    }
    return providers;
}

static Millrace__DatasetRecord *make_record(mr_core *core, const char *id,
                                            const struct mr_dataset_register *in)
{
    Millrace__DatasetRecord *rec = mr_core_new_record(core, &millrace__dataset_record__descriptor);
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
    if (in->spec_size > 0) {
        rec->spec.data = mr_memdup(in->spec, in->spec_size);
        rec->spec.len = rec->spec.data != NULL ? in->spec_size : 0;
    }
    if (in->nproviders > 0) {
        rec->providers = copy_providers(core, in);
        rec->n_providers = rec->providers != NULL ? in->nproviders : 0;
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
            mr_dataset_use(core, dataset);
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

    dataset = rec != NULL ? mr_dataset_add(core, rec) : NULL;
    if (dataset != NULL) {
        put_dataset(core, dataset);
        mr_core_trace(core, "dataset %s: registered, %s", id, rec->summary);
    }
    return MR_OK;
}

void mr_core_do_register_dataset(mr_core *core, const struct mr_dataset_register *in)
{
    char id[MR_NAME_BYTES_MAX + 1];
    mr_error err;
    int rc = mr_name_check("dataset id", in->dataset_id, MR_NAME_BYTES_MAX, &err);

    if (rc == MR_OK && in->known) {
        rc = mr_name_check("fingerprint", in->fingerprint, MR_ID_HEX, &err);
    }
    if (rc == MR_OK) {
        if (in->dataset_id[0] != '\0') {
            snprintf(id, sizeof id, "%s", in->dataset_id);
        } else {
            id_from_content(in->fingerprint, in->compression, id, sizeof id);
        }
        rc = decide_registration(core, in, id, &err);
    }

    /* Parts that came along and are not the ones in use: somebody else was first, or it was
     * refused. */
    const struct mr_blob *stored = mr_map_get(&core->blobs, in->fingerprint);

    if (in->parts > 0 && (stored == NULL || strcmp(stored->id, in->blob) != 0)) {
        leave_over_parts(core, in->blob, in->parts);
    }
    if (rc < 0) {
        mr_core_refuse(core, &millrace__register_dataset_reply__descriptor, &err);
        return;
    }
    Millrace__RegisterDatasetReply *reply =
        mr_core_reply(core, &millrace__register_dataset_reply__descriptor, true /* fenced */);

    if (reply != NULL) {
        mr_core_set(core, &reply->dataset_id, id);
    }
}

void mr_core_do_get_dataset(mr_core *core, const Millrace__GetDatasetRequest *in)
{
    struct mr_dataset_entry *dataset = mr_dataset_find(core, in->dataset_id);
    mr_error err;

    if (dataset == NULL) {
        if (mr_dataset_refuse_flawed(core, in->dataset_id, &err) == MR_OK) {
            mr_error_set(&err, MR_ENOTFOUND, "there is no dataset '%s'", in->dataset_id);
        }
        mr_core_refuse(core, &millrace__get_dataset_reply__descriptor, &err);
        return;
    }
    Millrace__GetDatasetReply *reply =
        mr_core_reply(core, &millrace__get_dataset_reply__descriptor, false);

    if (reply == NULL) {
        return;
    }
    mr_core_set(core, &reply->dataset_id, dataset->rec->id);
    mr_core_set(core, &reply->fingerprint, dataset->rec->fingerprint);
    mr_core_set(core, &reply->compression, dataset->rec->compression);
    reply->cardinality = dataset->rec->cardinality;
    if (dataset->rec->spec.len > 0) {
        reply->spec.data = mr_memdup(dataset->rec->spec.data, dataset->rec->spec.len);
        reply->spec.len = reply->spec.data != NULL ? dataset->rec->spec.len : 0;
    }
    if (in->want_definition) {
        struct mr_effect *effect = &core->out->effects[core->out->neffects - 1];

        effect->blob = dataset->blob->id;
        effect->parts = dataset->blob->parts;
    }
}

/* ---------------------------------------------------------------- DeleteDataset */

static const struct mr_job *some_user(const mr_core *core, const struct mr_dataset_entry *dataset)
{
    const struct mr_job *job;

    TAILQ_FOREACH(job, &core->job_list, link)
    {
        if (job->dataset == dataset) {
            return job;
        }
    }
    return NULL;
}

void mr_core_do_delete_dataset(mr_core *core, const Millrace__DeleteDatasetRequest *in)
{
    struct mr_dataset_entry *dataset = mr_dataset_find(core, in->dataset_id);
    mr_error err;
    int rc = MR_OK;

    if (dataset == NULL) {
        rc = mr_dataset_refuse_flawed(core, in->dataset_id, &err);
        rc = rc < 0
                 ? rc
                 : mr_error_set(&err, MR_ENOTFOUND, "there is no dataset '%.120s'", in->dataset_id);
    } else if (core->keeps) {
        rc = mr_error_set(&err, MR_EPRECOND,
                          "dataset '%.100s' may be of a job that is set aside: mend or delete that "
                          "first (millrace "
                          "status)",
                          in->dataset_id);
    } else if (dataset->jobs > 0) {
        const struct mr_job *job = some_user(core, dataset);

        MR_ASSERT(job != NULL);
        rc = mr_error_set(
            &err, MR_EPRECOND, "dataset '%.100s' is used by %s%.100s'%s: %u job%s", in->dataset_id,
            mr_job_is_anonymous(job) ? "a client's own job '" : "job '", mr_job_label(job),
            dataset->jobs > 1 ? " and others" : "", dataset->jobs, dataset->jobs > 1 ? "s" : "");
    }
    if (rc == MR_OK && dataset->productions > 0) {
        rc = mr_error_set(&err, MR_EPRECOND, "dataset '%.100s' is what %u production%s run%s",
                          in->dataset_id, dataset->productions, dataset->productions > 1 ? "s" : "",
                          dataset->productions > 1 ? "" : "s");
    }
    if (rc < 0) {
        mr_core_refuse(core, &millrace__delete_dataset_reply__descriptor, &err);
        return;
    }
    mr_dataset_forget(core, dataset);
    mr_core_reply(core, &millrace__delete_dataset_reply__descriptor, true /* fenced */);
}
