/* What a step changes in the store. Whoever changes a record says so (mr_touch()); it is written
 * once, when the step ends or somebody asks for room. A key that is deleted, and a record whose
 * object goes out of memory, is final at once. */
#include "dispatcher/model/model.h"

#include "json/pbjson.h"

/* Beyond this a step that can stop stops; the largest single record leaves room for itself below
 * MR_TXN_BYTES_MAX. */
#define STEP_BYTES (MR_TXN_BYTES_MAX / 4)

/* The value goes; its key stays. */
static void empty(mr_core *core, struct mr_change *change)
{
    core->change_bytes -= change->size;
    mr_free(change->value);
    change->value = NULL;
    change->size = 0;
}

/* The change of @key in this step, an older one emptied; NULL without memory. */
static struct mr_change *change_of(mr_core *core, const char *key, struct mr_touched touched)
{
    struct mr_outcome *out = core->out;
    size_t i = 0;

    while (i < out->nchanges && strcmp(out->changes[i].key, key) != 0) {
        i++;
    }
    if (i == out->nchanges) {
        bool fits = mr_core_grow(core, &out->changes, i, &out->cap_changes, sizeof *out->changes);
        char *copy = fits ? mr_strdup(key) : NULL;

        if (copy == NULL) {
            mr_core_nomem(core);
            return NULL;
        }
        MR_ASSERT(i < MR_CORE_CHANGES_MAX);
        out->changes[out->nchanges++] = (struct mr_change){copy, NULL, 0};
        core->change_bytes += strlen(key);
    }
    empty(core, &out->changes[i]);
    core->touched[i] = touched;
    return &out->changes[i];
}

static void write(mr_core *core, struct mr_change *change, const ProtobufCMessage *record)
{
    mr_error err;
    int rc;

    if (change == NULL || core->failed != 0) {
        return;
    }
    empty(core, change);
    rc = mr_pbjson_write(record, &change->value, &change->size, &err);
    if (rc < 0) {
        mr_error_wrap(&err, "writing '%s'", change->key);
        mr_core_fail(core, rc, &err);
        return;
    }
    core->change_bytes += change->size;
}

static void write_touched(mr_core *core, size_t i)
{
    struct mr_touched *touched = &core->touched[i];

    if (touched->is_open) {
        touched->is_open = false;
        write(core, &core->out->changes[i],
              mr_stored_record(touched->kind, touched->object, touched->index));
    }
}

void mr_changes_write(mr_core *core)
{
    for (size_t i = 0; i < core->out->nchanges; i++) {
        write_touched(core, i);
    }
}

bool mr_core_has_room(mr_core *core, size_t n)
{
    mr_changes_write(core);
    return core->out->nchanges + n <= MR_CORE_CHANGES_MAX && core->change_bytes < STEP_BYTES;
}

/* Its place among the changes; their number: it has none. */
static size_t place_of(const mr_core *core, const void *object, enum mr_stored_kind kind,
                       size_t index)
{
    size_t i = 0;

    while (i < core->out->nchanges &&
           (core->touched[i].object != object || core->touched[i].kind != kind ||
            core->touched[i].index != index)) {
        i++;
    }
    return i;
}

void mr_touch(mr_core *core, enum mr_stored_kind kind, const void *object, size_t index)
{
    char key[MR_KEY_SIZE];
    size_t i;

    if (core->out == NULL || core->failed != 0) { /* a takeover writes nothing */
        return;
    }
    i = place_of(core, object, kind, index);
    if (i < core->out->nchanges) {
        core->touched[i].is_open = true;
        return;
    }
    mr_stored_key(kind, object, index, key, sizeof key);
    change_of(core, key, (struct mr_touched){kind, true, object, index});
}

void mr_put(mr_core *core, const char *key, const ProtobufCMessage *message)
{
    if (core->failed == 0) {
        write(core, change_of(core, key, (struct mr_touched){0}), message);
    }
}

void mr_delete_key(mr_core *core, const char *key)
{
    if (core->out != NULL && core->failed == 0) {
        change_of(core, key, (struct mr_touched){0});
    }
}

void mr_delete(mr_core *core, enum mr_stored_kind kind, const void *object, size_t index)
{
    char key[MR_KEY_SIZE];

    mr_stored_key(kind, object, index, key, sizeof key);
    mr_delete_key(core, key);
}

void mr_leave_over_key(mr_core *core, const char *key)
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

void mr_leave_over(mr_core *core, enum mr_stored_kind kind, const void *object, size_t index)
{
    char key[MR_KEY_SIZE];
    size_t i = core->out != NULL ? place_of(core, object, kind, index) : 0;

    if (core->out != NULL && i < core->out->nchanges) {
        write_touched(core, i); /* the object may go at once */
        core->touched[i] = (struct mr_touched){0};
    }
    mr_stored_key(kind, object, index, key, sizeof key);
    mr_leave_over_key(core, key);
}

void mr_core_each_left_over(const mr_core *core, void (*fn)(void *ctx, const char *key), void *ctx)
{
    const struct mr_left_over *left;

    STAILQ_FOREACH(left, &core->left_over, link) {
        fn(ctx, left->key);
    }
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
