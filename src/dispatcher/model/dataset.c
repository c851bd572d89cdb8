/* What is asked of datasets. */
#include "dispatcher/model/model.h"

struct mr_dataset_entry *mr_dataset_find(const mr_core *core, const char *id)
{
    return mr_map_get(&core->datasets, id);
}

bool mr_core_has_definition(const mr_core *core, const char *fingerprint)
{
    return mr_map_get(&core->blobs, fingerprint) != NULL;
}

/* The id of a dataset that was given none: one content, one id; compression belongs to the
 * registration. */
void mr_dataset_id_of_content(const char *fingerprint, const char *compression, char *out,
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

    mr_dataset_id_of_content(dataset->rec->fingerprint, dataset->rec->compression, id, sizeof id);
    return strcmp(id, dataset->rec->id) != 0;
}

/* 32 hex digits, or those and a '-': somebody else's content must not be registered under it. */
bool mr_dataset_id_is_of_content(const char *id)
{
    return strspn(id, "0123456789abcdef") == MR_ID_HEX &&
           (id[MR_ID_HEX] == '\0' || id[MR_ID_HEX] == '-');
}
