/* What a step leaves for the loop: answers, pushes, streams that end. */
#include "dispatcher/model/model.h"

static struct mr_effect *add_effect(mr_core *core, enum mr_effect_kind kind)
{
    struct mr_outcome *out = core->out;

    if (out == NULL || core->failed != 0 || /* nobody is there to hear at a takeover */
        !mr_core_grow(core, &out->effects, out->neffects, &out->cap_effects,
                      sizeof *out->effects)) {
        return NULL;
    }
    struct mr_effect *effect = &out->effects[out->neffects++];

    *effect = (struct mr_effect){.kind = kind, .fenced = true};
    return effect;
}

void *mr_core_reply(mr_core *core, bool fenced)
{
    void *message = mr_core_new_record(core, core->reply);
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

void mr_core_refuse(mr_core *core, const mr_error *error)
{
    MR_ASSERT(error->code < 0);
    if (mr_core_reply(core, true) != NULL) {
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
