/* What a step leaves behind: changes for the store and effects for the loop. */
#include "dispatcher/core/internal.h"

#include "json/pbjson.h"

#include <stdio.h>
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

static struct mr_effect *add_effect(mr_core *core, enum mr_effect_kind kind)
{
    struct mr_outcome *out = core->out;

    if (core->failed != 0) {
        return NULL;
    }
    if (out->neffects == out->cap_effects) {
        size_t cap = out->cap_effects == 0 ? 8 : 2 * out->cap_effects;
        struct mr_effect *bigger = mr_reallocarray(out->effects, cap, sizeof *bigger);

        if (bigger == NULL) {
            mr_core_nomem(core);
            return NULL;
        }
        out->effects = bigger;
        out->cap_effects = cap;
    }
    struct mr_effect *effect = &out->effects[out->neffects++];

    *effect = (struct mr_effect){.kind = kind, .fenced = true};
    return effect;
}

void *mr_core_reply(mr_core *core, const ProtobufCMessageDescriptor *desc, bool fenced)
{
    void *message = mr_core_new_record(core, desc);
    struct mr_effect *effect = add_effect(core, MR_EFFECT_REPLY);

    if (effect == NULL || message == NULL) {
        mr_free(message);
        return NULL;
    }
    effect->fenced = fenced;
    effect->token = core->in->token;
    effect->message = message;
    return message;
}

void mr_core_refuse(mr_core *core, const ProtobufCMessageDescriptor *desc, const mr_error *error)
{
    MR_ASSERT(error->code < 0);
    if (mr_core_reply(core, desc, true) != NULL) {
        core->out->effects[core->out->neffects - 1].error = *error;
    }
}

void mr_core_push(mr_core *core, enum mr_effect_kind kind, const char *topic,
                  ProtobufCMessage *message)
{
    struct mr_effect *effect = add_effect(core, kind);

    if (effect == NULL) {
        mr_record_free(message);
        return;
    }
    snprintf(effect->topic, sizeof effect->topic, "%s", topic);
    effect->message = message;
}

void mr_core_resign(mr_core *core)
{
    add_effect(core, MR_EFFECT_RESIGN);
}

void mr_core_end_stream(mr_core *core, enum mr_effect_kind kind, const char *topic, int code,
                        const char *why)
{
    struct mr_effect *effect = add_effect(core, kind);

    if (effect != NULL) {
        snprintf(effect->topic, sizeof effect->topic, "%s", topic);
        mr_error_set(&effect->error, code, "%s", why);
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
