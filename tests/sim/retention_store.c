#include "retention_store.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <millrace/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORIGIN_MS 5000
#define WALL_MS INT64_C(1700000000000)

static _Noreturn void die(const struct store *s, const char *what, const mr_error *err)
{
    (void)fprintf(stderr, "day %.3f, step %llu: %s: %s\n", (double)s->now / 86400e3,
                  (unsigned long long)s->steps, what, err->message);
    abort();
}

static void remove_entry(struct store *s, struct entry *e)
{
    mr_map_remove(&s->map, e->key);
    TAILQ_REMOVE(&s->list, e, link);
    mr_free(e->key);
    mr_free(e->value);
    mr_free(e);
}

static void apply(struct store *s, const struct mr_change *change)
{
    struct entry *e = mr_map_get(&s->map, change->key);

    if (e != NULL) {
        remove_entry(s, e);
    }
    if (change->value == NULL) {
        return;
    }
    e = mr_calloc(1, sizeof *e);
    MR_ASSERT(e != NULL);
    e->key = mr_strdup(change->key);
    e->value = mr_strdup(change->value);
    e->size = change->size;
    MR_ASSERT(e->key != NULL && e->value != NULL);
    TAILQ_INSERT_TAIL(&s->list, e, link);
    MR_ASSERT(mr_map_put(&s->map, e->key, e, NULL) == MR_OK);
    s->keys_max = s->map.count > s->keys_max ? s->map.count : s->keys_max;
}

const char *store_get(const struct store *s, const char *key)
{
    const struct entry *e = mr_map_get(&s->map, key);

    return e != NULL ? e->value : NULL;
}

size_t store_count(const struct store *s, const char *prefix)
{
    size_t len = strlen(prefix);
    const struct entry *e;
    size_t n = 0;

    TAILQ_FOREACH(e, &s->list, link)
    {
        n += strncmp(e->key, prefix, len) == 0 ? 1 : 0;
    }
    return n;
}

static void load(struct store *s)
{
    const struct entry *e;
    mr_error err;

    s->config.epoch++;
    s->core = mr_core_new(&s->config);
    MR_ASSERT(s->core != NULL);
    TAILQ_FOREACH(e, &s->list, link)
    {
        int rc = strncmp(e->key, "blobs/", 6) == 0
                     ? mr_core_load_blob(s->core, e->key, &err)
                     : mr_core_load(s->core, e->key, e->value, e->size, &err);

        if (rc < 0) {
            die(s, e->key, &err);
        }
    }
    if (mr_core_ready(s->core, ORIGIN_MS + s->now, &err) < 0) {
        die(s, "takeover", &err);
    }
}

void store_open(struct store *s, const struct mr_core_config *config)
{
    *s = (struct store){.config = *config};
    TAILQ_INIT(&s->list);
    load(s);
}

void store_close(struct store *s)
{
    mr_outcome_clear(&s->out);
    mr_core_free(s->core);
    while (!TAILQ_EMPTY(&s->list)) {
        remove_entry(s, TAILQ_FIRST(&s->list));
    }
    mr_map_free(&s->map);
}

void store_take_over(struct store *s)
{
    mr_outcome_clear(&s->out);
    mr_core_free(s->core);
    s->takeovers++;
    s->crash_soon = false;
    load(s);
}

void store_step(struct store *s, struct mr_command *command)
{
    mr_error err;

    mr_outcome_clear(&s->out);
    command->now_ms = ORIGIN_MS + s->now;
    command->wall_ms = WALL_MS + s->now;
    command->seed = ++s->steps;
    if (mr_core_step(s->core, command, &s->out, &err) < 0) {
        die(s, "step", &err);
    }
    if (s->crash_soon && command->kind == MR_COMMAND_TIMER && s->out.nchanges > 0) {
        store_take_over(s);
        return;
    }
    for (size_t i = 0; i < s->out.nchanges; i++) {
        apply(s, &s->out.changes[i]);
    }
}

void store_run(struct store *s, int64_t until)
{
    struct mr_command timer = {.kind = MR_COMMAND_TIMER};

    for (;;) {
        int64_t due = mr_core_next_timer(s->core);

        if (due > ORIGIN_MS + until) {
            break;
        }
        s->now = due - ORIGIN_MS > s->now ? due - ORIGIN_MS : s->now;
        store_step(s, &timer);
    }
    s->now = until;
}

const ProtobufCMessage *store_reply(const struct store *s, int *code)
{
    for (size_t i = 0; i < s->out.neffects; i++) {
        if (s->out.effects[i].kind == MR_EFFECT_REPLY) {
            *code = s->out.effects[i].error.code;
            return s->out.effects[i].message;
        }
    }
    abort();
}
