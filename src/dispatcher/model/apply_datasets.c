/*
 * Updates of datasets: content-addressed (the id is made from the fingerprint) or named.
 *
 * A definition lies in parts under blobs/<blob>/, written before the record that names them, and is
 * shared by all datasets of one fingerprint. Parts are keyed by an id of their own and not by
 * fingerprint: otherwise deleting one dataset could take the parts that a registration of the same
 * content has just put.
 */
#include "dispatcher/model/apply.h"

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
    blob = mr_core_alloc(core, 1, sizeof *blob);
    if (blob == NULL) {
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

void mr_apply_dataset_added(mr_core *core, const struct mr_dataset_added *u)
{
    struct mr_dataset_entry *dataset = mr_core_alloc(core, 1, sizeof *dataset);

    *u->ret = NULL;
    if (dataset == NULL) {
        mr_record_free(u->rec);
        return;
    }
    dataset->rec = u->rec;
    dataset->alarm.kind = MR_ALARM_DATASET;
    dataset->since = core->now;
    dataset->blob = blob_of(core, u->rec);
    if (dataset->blob == NULL) {
        mr_dataset_free(dataset);
        return;
    }
    dataset->blob->datasets++;
    TAILQ_INSERT_TAIL(&core->dataset_list, dataset, link);
    mr_core_index(core, &core->datasets, u->rec->id, dataset);
    dataset->share = mr_hosts_note(core, &core->hosts.datasets);
    mr_alarm_by(core, &dataset->alarm, core->now);
    mr_touch(core, MR_STORED_DATASET, dataset, 0);
    *u->ret = dataset;
}

void mr_apply_dataset_used(mr_core *core, const struct mr_dataset_used *u)
{
    struct mr_dataset_entry *dataset = u->dataset;
    uint64_t now = (uint64_t)core->wall_ms;
    uint64_t half = (uint64_t)core->config.dataset_retention_ms / 2;

    dataset->since = core->now;
    mr_alarm_by(core, &dataset->alarm, core->now);
    /* Often enough to keep it, seldom enough to cost nothing. */
    if (!core->full && !mr_dataset_is_named(dataset) && dataset->rec->used_ms + half < now) {
        dataset->rec->used_ms = now;
        mr_touch(core, MR_STORED_DATASET, dataset, 0);
    }
}

void mr_parts_leave_over(mr_core *core, const char *blob, uint32_t parts)
{
    char key[MR_KEY_SIZE];

    for (uint32_t i = 0; i < parts; i++) {
        mr_part_key(blob, i, key, sizeof key);
        mr_leave_over_key(core, key);
    }
}

void mr_apply_dataset_removed(mr_core *core, const struct mr_dataset_removed *u)
{
    struct mr_dataset_entry *dataset = u->dataset;
    struct mr_blob *blob = dataset->blob;

    MR_ASSERT(dataset->jobs == 0);
    MR_ASSERT(dataset->productions == 0);
    mr_core_trace(core, "dataset %s: forgotten", dataset->rec->id);
    mr_delete(core, MR_STORED_DATASET, dataset, 0);
    mr_map_remove(&core->datasets, dataset->rec->id);
    mr_alarm_off(core, &dataset->alarm);
    TAILQ_REMOVE(&core->dataset_list, dataset, link);
    if (--blob->datasets == 0) {
        mr_parts_leave_over(core, blob->id, blob->parts);
        core->parts -= blob->parts;
        mr_map_remove(&core->blobs, blob->fingerprint);
        mr_blob_free(blob);
    }
    mr_dataset_free(dataset);
}
