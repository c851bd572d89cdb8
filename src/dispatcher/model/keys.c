/* The kinds of records: which key each has in the store, and where it is in memory. */
#include "dispatcher/model/apply.h"

const struct mr_stored_info mr_stored_kinds[] = {
#define KIND(noun, prefix, spoils, stamps)                                                         \
    {prefix, &millrace__##noun##_record__descriptor, MR_SPOILS_##spoils},
    MR_KINDS(KIND)
#undef KIND
};
_Static_assert(sizeof mr_stored_kinds / sizeof mr_stored_kinds[0] == MR_STORED_KINDS, "as many");

const char *const *mr_core_prefixes(void)
{
#define PREFIX(noun, prefix, spoils, stamps) prefix,
    static const char *const prefixes[] = {MR_KINDS(PREFIX) NULL};
#undef PREFIX

    return prefixes;
}

void mr_dataset_key(const char *id, char *out, size_t size)
{
    char encoded[MR_KEY_SIZE - 64];

    mr_name_encode(id, encoded, sizeof encoded);
    snprintf(out, size, "datasets/%s", encoded);
}

void mr_part_key(const char *blob, uint32_t index, char *out, size_t size)
{
    snprintf(out, size, "blobs/%s/%04u", blob, index);
}

void mr_stored_key(enum mr_stored_kind kind, const void *object, size_t index, char *out,
                   size_t size)
{
    const struct mr_iteration *it = object;
    const struct mr_task *task = object;

    switch (kind) {
    case MR_STORED_SCHEMA: snprintf(out, size, "schema"); break;
    case MR_STORED_DATASET:
        mr_dataset_key(((const struct mr_dataset_entry *)object)->rec->id, out, size);
        break;
    case MR_STORED_JOB:
        snprintf(out, size, "jobs/%s", ((const struct mr_job *)object)->slot);
        break;
    case MR_STORED_WORKER:
        snprintf(out, size, "workers/%s", ((const struct mr_core_worker *)object)->ref);
        break;
    case MR_STORED_PRODUCTION:
        snprintf(out, size, "productions/%s", ((const struct mr_production *)object)->rec->id);
        break;
    case MR_STORED_ITERATION: snprintf(out, size, "iterations/%s", it->rec->id); break;
    case MR_STORED_TASK: snprintf(out, size, "tasks/%s", task->id); break;
    case MR_STORED_CURSOR: snprintf(out, size, "cursors/%s/%zu", it->rec->id, index); break;
    case MR_STORED_GRANT:
        snprintf(out, size, "grants/%s/%zu/%s", task->iteration->rec->id, index,
                 task->id + strlen(task->iteration->rec->id) + 1);
        break;
    case MR_STORED_ROUNDS: snprintf(out, size, "rounds/%s", it->rec->id); break;
    case MR_STORED_CONSUMER: snprintf(out, size, "consumers/%s/%zu", it->rec->id, index); break;
    case MR_STORED_CLIENT:
        snprintf(out, size, "clients/%s", ((const struct mr_client *)object)->rec->client);
        break;
    case MR_STORED_KINDS: break;
    }
}

void **mr_stored_slot(enum mr_stored_kind kind, void *object, size_t index)
{
    static const size_t offsets[] = {
        [MR_STORED_SCHEMA] = offsetof(struct mr_core, schema),
        [MR_STORED_DATASET] = offsetof(struct mr_dataset_entry, rec),
        [MR_STORED_JOB] = offsetof(struct mr_job, rec),
        [MR_STORED_WORKER] = offsetof(struct mr_core_worker, rec),
        [MR_STORED_PRODUCTION] = offsetof(struct mr_production, rec),
        [MR_STORED_ITERATION] = offsetof(struct mr_iteration, rec),
        [MR_STORED_TASK] = offsetof(struct mr_task, rec),
        [MR_STORED_CLIENT] = offsetof(struct mr_client, rec),
    };
    struct mr_iteration *it = object;

    if (kind == MR_STORED_CURSOR) {
        return (void **)&it->cursors[index].rec;
    }
    if (kind == MR_STORED_GRANT) {
        return (void **)&((struct mr_task *)object)->grants[index].rec;
    }
    if (kind == MR_STORED_ROUNDS) {
        return (void **)&it->rounds->rec;
    }
    if (kind == MR_STORED_CONSUMER) {
        return (void **)&it->rounds->seats[index].rec;
    }
    return (void **)(void *)((char *)object + offsets[kind]);
}

const ProtobufCMessage *mr_stored_record(enum mr_stored_kind kind, const void *object, size_t index)
{
    return *mr_stored_slot(kind, (void *)(uintptr_t)object, index);
}
