/* What a step leaves behind: changes for the store and effects for the loop. */
/*
 * What time does: workers and clients that fell silent, iterations nobody reads, records nobody
 * needs, and the work that earlier steps left for later. Whatever waits for a moment has an alarm;
 * a step rings those that are due as far as one transaction goes, and what does not fit comes in
 * the next, which is due at once. While the store is full only what deletes is done. Nothing in
 * here walks over all objects of a kind, except over the workers when one of them is to be given
 * up.
 */
#include "dispatcher/model/model.h"

#include "json/pbjson.h"

#include <string.h>

/* Beyond this a step that can stop stops; the largest single record leaves room for itself below
 * MR_TXN_BYTES_MAX. */
#define STEP_BYTES (MR_TXN_BYTES_MAX / 4)

bool mr_core_has_room(const mr_core *core, size_t n)
{
    return core->out->nchanges + n <= MR_CORE_CHANGES_MAX && core->change_bytes < STEP_BYTES;
}

/* The change of @key in this step, an older one emptied; NULL without memory. */
static struct mr_change *change_of(mr_core *core, const char *key)
{
    struct mr_outcome *out = core->out;

    for (size_t i = 0; i < out->nchanges; i++) {
        if (strcmp(out->changes[i].key, key) == 0) {
            core->change_bytes -= out->changes[i].size;
            mr_free(out->changes[i].value);
            out->changes[i].value = NULL;
            out->changes[i].size = 0;
            return &out->changes[i];
        }
    }
    MR_ASSERT(out->nchanges < MR_CORE_CHANGES_MAX);
    if (out->nchanges == out->cap_changes) {
        size_t cap = out->cap_changes == 0 ? 8 : 2 * out->cap_changes;
        struct mr_change *bigger = mr_reallocarray(out->changes, cap, sizeof *bigger);

        if (bigger == NULL) {
            mr_core_nomem(core);
            return NULL;
        }
        out->changes = bigger;
        out->cap_changes = cap;
    }
    char *copy = mr_strdup(key);

    if (copy == NULL) {
        mr_core_nomem(core);
        return NULL;
    }
    core->change_bytes += strlen(key);
    out->changes[out->nchanges] = (struct mr_change){copy, NULL, 0};
    return &out->changes[out->nchanges++];
}

void mr_core_put(mr_core *core, const char *key, const ProtobufCMessage *record)
{
    struct mr_change *change;
    mr_error err;
    char *value;
    size_t size;

    if (core->failed != 0) {
        return;
    }
    int rc = mr_pbjson_write(record, &value, &size, &err);

    if (rc < 0) {
        mr_error_wrap(&err, "writing '%s'", key);
        mr_core_fail(core, rc, &err);
        return;
    }
    change = change_of(core, key);
    if (change == NULL) {
        mr_free(value);
        return;
    }
    change->value = value;
    change->size = size;
    core->change_bytes += size;
}

void mr_core_delete(mr_core *core, const char *key)
{
    if (core->failed == 0) {
        change_of(core, key);
    }
}

void mr_core_leave_over(mr_core *core, const char *key)
{
    size_t size = strlen(key) + 1;
    struct mr_left_over *left = mr_malloc(sizeof *left + size);

    if (left == NULL) {
        mr_core_nomem(core);
        return;
    }
    memcpy(left->key, key, size);
    STAILQ_INSERT_TAIL(&core->left_over, left, link);
}

void mr_core_each_left_over(const mr_core *core, void (*fn)(void *ctx, const char *key), void *ctx)
{
    const struct mr_left_over *left;

    STAILQ_FOREACH(left, &core->left_over, link)
    {
        fn(ctx, left->key);
    }
}

void mr_outcome_clear(struct mr_outcome *out)
{
    for (size_t i = 0; i < out->nchanges; i++) {
        mr_free(out->changes[i].key);
        mr_free(out->changes[i].value);
    }
    for (size_t i = 0; i < out->neffects; i++) {
        mr_record_free(out->effects[i].message);
    }
    mr_free(out->changes);
    mr_free(out->effects);
    *out = (struct mr_outcome){0};
}

bool mr_left_over_is_in_use(const mr_core *core, const char *key)
{
    static const char clients[] = "clients/";
    size_t n = sizeof clients - 1;
    const struct mr_client *client;

    if (strncmp(key, clients, n) != 0) {
        return false;
    }
    client = mr_map_get(&core->clients, key + n);
    return client != NULL && client->iteration != NULL;
}
