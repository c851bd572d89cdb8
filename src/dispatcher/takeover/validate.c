/* Takeover: what no core can have written. The store is from outside: it may have been edited by
 * hand, or restored from somewhere else. A record is looked at by itself before it is taken in
 * (records.c compares it with the others), so that the rest of the core may rely on what it would
 * otherwise have to ask at each step: that numbers can be added up, that enumerators are known,
 * that stamps will not be given again. */
#include "dispatcher/takeover/takeover.h"

/* Everything that counts stays far below; only the seed uses all bits. */
static int validate_number(const ProtobufCFieldDescriptor *field, const void *at, mr_error *err)
{
    if (field->type == PROTOBUF_C_TYPE_UINT64 && *(const uint64_t *)at > MR_COUNT_MAX &&
        strcmp(field->name, "seed") != 0) {
        return mr_error_set(err, MR_EDATALOSS, "%s is %" PRIu64 ", which is out of range",
                            field->name, *(const uint64_t *)at);
    }
    if (field->type == PROTOBUF_C_TYPE_UINT32 && *(const uint32_t *)at > INT32_MAX) {
        return mr_error_set(err, MR_EDATALOSS, "%s is %" PRIu32 ", which is out of range",
                            field->name, *(const uint32_t *)at);
    }
    if (field->type == PROTOBUF_C_TYPE_ENUM &&
        protobuf_c_enum_descriptor_get_value(field->descriptor, *(const int *)at) == NULL) {
        return mr_error_set(err, MR_EDATALOSS, "%s is %d, which this version does not know",
                            field->name, *(const int *)at);
    }
    return MR_OK;
}

static size_t size_of(const ProtobufCFieldDescriptor *field)
{
    return field->type == PROTOBUF_C_TYPE_UINT64 ? sizeof(uint64_t) : sizeof(uint32_t);
}

int mr_validate_record(const ProtobufCMessage *rec, mr_error *err)
{
    int rc = MR_OK;

    for (unsigned i = 0; i < rec->descriptor->n_fields && rc >= 0; i++) {
        const ProtobufCFieldDescriptor *field = &rec->descriptor->fields[i];
        bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
        const char *at = (const char *)rec + field->offset;
        size_t n =
            repeated ? *(const size_t *)(const void *)((const char *)rec + field->quantifier_offset)
                     : 1;
        const char *members = repeated && n > 0 ? *(const char *const *)(const void *)at : at;

        for (size_t k = 0; k < n && rc >= 0; k++) {
            if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
                const ProtobufCMessage *part =
                    ((const ProtobufCMessage *const *)(const void *)members)[k];

                rc = part != NULL ? mr_validate_record(part, err) : MR_OK;
            } else if (field->type == PROTOBUF_C_TYPE_UINT64 ||
                       field->type == PROTOBUF_C_TYPE_UINT32 ||
                       field->type == PROTOBUF_C_TYPE_ENUM) {
                rc = validate_number(field, members + k * size_of(field), err);
            }
        }
    }
    return rc;
}

int mr_validate_job(const mr_core *core, const Millrace__JobRecord *job, mr_error *err)
{
    const struct mr_trainers *trainers = mr_trainers_find(core, job->name);
    const struct mr_job *other = mr_job_by_id(core, job->id);
    uint64_t below = job->ended_below;

    if (other != NULL) {
        return mr_error_set(err, MR_EDATALOSS, "has the id of 'jobs/%.80s'", other->slot);
    }
    if (job->num_consumers > MR_ROUND_CONSUMERS_MAX ||
        (job->num_consumers > 0 &&
         (job->trainer[0] != '\0' || job->sharing != MILLRACE__SHARING__SHARING_OFF))) {
        return mr_error_set(err, MR_EDATALOSS, "cannot be read by %u consumers together",
                            job->num_consumers);
    }
    if (job->trainer[0] != '\0' && trainers != NULL && trainers->njobs == MR_JOB_TRAINERS_MAX) {
        return mr_error_set(err, MR_EDATALOSS, "has more than %d trainers", MR_JOB_TRAINERS_MAX);
    }
    if (job->n_ended > MR_ENDED_RANGES_MAX) {
        return mr_error_set(err, MR_EDATALOSS, "has %zu ranges of ended repetitions", job->n_ended);
    }
    for (size_t i = 0; i < job->n_ended; i++) {
        const Millrace__SplitRange *range = job->ended[i];

        if (range->first <= below || range->count == 0) {
            return mr_error_set(err, MR_EDATALOSS,
                                "its ended repetitions are out of order at %" PRIu64, range->first);
        }
        below = range->first + range->count;
    }
    return MR_OK;
}

static int validate_providers(Millrace__ProviderInfo *const *providers, size_t n, mr_error *err)
{
    if (n > MR_CORE_PROVIDERS_MAX) {
        return mr_error_set(err, MR_EDATALOSS, "has %zu sources to split", n);
    }
    for (size_t i = 0; i < n; i++) {
        if (providers[i]->splits < -1) {
            return mr_error_set(err, MR_EDATALOSS, "source %zu has %" PRId64 " splits", i,
                                providers[i]->splits);
        }
    }
    return MR_OK;
}

/* Its definition, and what it is cut into: other datasets of that content have the same. */
int mr_validate_dataset(const mr_core *core, const Millrace__DatasetRecord *dataset, mr_error *err)
{
    const struct mr_blob *blob = mr_map_get(&core->blobs, dataset->fingerprint);

    if (!mr_id_is_valid(dataset->fingerprint) || !mr_id_is_valid(dataset->blob)) {
        return mr_error_set(err, MR_EDATALOSS,
                            "fingerprint '%.40s' or blob '%.40s' is not 32 hex digits",
                            dataset->fingerprint, dataset->blob);
    }
    if (dataset->definition_size == 0 || dataset->definition_size > MR_DEFINITION_SENT_BYTES_MAX ||
        dataset->parts != (dataset->definition_size - 1) / MR_CORE_PART_BYTES + 1) {
        return mr_error_set(err, MR_EDATALOSS,
                            "its definition is %" PRIu64 " bytes in %" PRIu32 " parts",
                            dataset->definition_size, dataset->parts);
    }
    if (blob != NULL && (strcmp(blob->id, dataset->blob) != 0 || blob->parts != dataset->parts)) {
        return mr_error_set(err, MR_EDATALOSS,
                            "has blob '%.40s', others of its fingerprint '%.40s'", dataset->blob,
                            blob->id);
    }
    return validate_providers(dataset->providers, dataset->n_providers, err);
}

/* The table of splits is copied from the dataset when it begins; who reads a production has
 * none. */
static int validate_splits(const struct mr_dataset_entry *dataset, bool divides,
                           const Millrace__IterationRecord *rec, mr_error *err)
{
    size_t n = divides ? dataset->rec->n_providers : 0;
    char key[MR_KEY_SIZE];

    mr_dataset_key(dataset->rec->id, key, sizeof key);
    if (rec->n_providers != n) {
        return mr_error_set(err, MR_EDATALOSS, "has %zu sources to split, and '%.60s' says %zu",
                            rec->n_providers, key, n);
    }
    for (size_t i = 0; i < n; i++) {
        if (rec->providers[i]->splits != dataset->rec->providers[i]->splits) {
            return mr_error_set(err, MR_EDATALOSS,
                                "source %zu has %" PRId64 " splits, and '%.60s' says %" PRId64, i,
                                rec->providers[i]->splits, key, dataset->rec->providers[i]->splits);
        }
    }
    return MR_OK;
}

int mr_validate_iteration(const struct mr_job *job, const struct mr_production *production,
                          const Millrace__IterationRecord *rec, mr_error *err)
{
    const struct mr_dataset_entry *dataset = job != NULL ? job->dataset : production->dataset;
    Millrace__ProcessingMode mode = job != NULL ? job->rec->mode : production->rec->mode;
    const struct mr_iteration *other = job != NULL ? mr_job_repetition(job, rec->repetition) : NULL;
    struct mr_stamp id;

    if (mr_stamp_parse(rec->id, &id) &&
        mr_stamp_compare(id, job != NULL ? job->id.at : production->id.at) < 0) {
        return mr_error_set(err, MR_EDATALOSS, "is older than its job");
    }
    if (other != NULL) {
        return mr_error_set(err, MR_EDATALOSS,
                            "is repetition %" PRIu64 ", and so is 'iterations/%s'", rec->repetition,
                            other->rec->id);
    }
    if (rec->finished) {
        return validate_providers(rec->providers, rec->n_providers, err);
    }
    if (job != NULL && mr_job_has_ended(job, rec->repetition)) {
        return mr_error_set(err, MR_EDATALOSS,
                            "is open, and repetition %" PRIu64 " has ended, says 'jobs/%.80s'",
                            rec->repetition, job->slot);
    }
    return validate_splits(dataset,
                           mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC &&
                               rec->production[0] == '\0',
                           rec, err);
}

/* The first part of the answer to the last request, if it was of the repetition that the cursor is
 * in. */
int mr_validate_grant(const struct mr_iteration *it, size_t provider,
                      const Millrace__GrantRecord *grant, mr_error *err)
{
    const Millrace__CursorRecord *cursor = it->cursors[provider].rec;
    const Millrace__SplitRange *range = grant->n_ranges > 0 ? grant->ranges[0] : NULL;

    if (range != NULL && (range->count == 0 || range->count > MR_GRANT_SPLITS_MAX)) {
        return mr_error_set(err, MR_EDATALOSS, "its answer is of %" PRIu64 " splits", range->count);
    }
    if (range != NULL && grant->repetition + (uint64_t)grant->ahead == cursor->repetition &&
        range->first + range->count > cursor->next) {
        return mr_error_set(err, MR_EDATALOSS, "its splits are beyond its cursor");
    }
    return MR_OK;
}

/* mr_schedule_check() looks at indices. */
int mr_validate_rounds(const Millrace__RoundsRecord *rounds, mr_error *err)
{
    const Millrace__RoundSchedule *schedule = rounds->schedule;
    struct mr_map seen = {0};
    int rc = mr_schedule_check(schedule, err);

    for (size_t i = 0; i < schedule->n_tasks && rc >= 0; i++) {
        if (mr_map_get(&seen, schedule->tasks[i]) != NULL) {
            rc = mr_error_set(err, MR_EDATALOSS, "its schedule has task '%.80s' twice",
                              schedule->tasks[i]);
        } else {
            rc = mr_map_put(&seen, schedule->tasks[i], schedule->tasks[i], err);
        }
    }
    mr_map_free(&seen);
    return rc;
}
