#include "world.h"

#include "base/base.h"
#include "json/pbjson.h"

#include <stdlib.h>

/* More of them in one wait than any small state can need: something is due again and again. */
#define TIMERS_MAX 20000

#define NEVER(...)                                                                                 \
    do {                                                                                           \
        fprintf(stderr, "fuzz: " __VA_ARGS__);                                                     \
        fputc('\n', stderr);                                                                       \
        abort();                                                                                   \
    } while (0)

static void trace(void *ctx, const char *line)
{
    fprintf(stderr, "  %s\n", line);
}

void world_open(struct world *w, uint64_t epoch)
{
    memset(w, 0, sizeof *w);
    w->config = (struct mr_core_config){.epoch = epoch,
                                        .worker_timeout_ms = 20000,
                                        .client_timeout_ms = 20000,
                                        .job_gc_timeout_ms = 30000,
                                        .task_timeout_ms = 90000,
                                        .may_resign = true,
                                        .trace = getenv("MR_FUZZ_TRACE") != NULL ? trace : NULL};
    w->now = 1000;
    w->wall = INT64_C(1700000000000);
}

void world_close(struct world *w)
{
    mr_outcome_clear(&w->out);
    mr_core_free(w->core);
    for (size_t i = 0; i < w->count; i++) {
        mr_free(w->keys[i].key);
        mr_free(w->keys[i].value);
    }
}

/* ---------------------------------------------------------------- the store */

static size_t find(const struct world *w, const char *key)
{
    size_t i = 0;

    while (i < w->count && strcmp(w->keys[i].key, key) != 0) {
        i++;
    }
    return i;
}

const char *world_get(const struct world *w, const char *key)
{
    size_t i = find(w, key);

    return i < w->count ? w->keys[i].value : NULL;
}

static void forget(struct world *w, const char *key)
{
    size_t i = find(w, key);

    if (i < w->count) {
        mr_free(w->keys[i].key);
        mr_free(w->keys[i].value);
        w->keys[i] = w->keys[--w->count];
    }
}

void world_put(struct world *w, const char *key, const char *value)
{
    char *copy = mr_strdup(value); /* it may be that of the key itself */

    forget(w, key);
    if (w->count == WORLD_KEYS_MAX || copy == NULL) {
        NEVER("more keys than an input can need");
    }
    w->keys[w->count++] = (struct world_key){mr_strdup(key), copy};
}

static void apply(struct world *w)
{
    for (size_t i = 0; i < w->out.nchanges; i++) {
        const struct mr_change *change = &w->out.changes[i];

        if (change->value == NULL) {
            forget(w, change->key);
        } else if (strlen(change->value) != change->size) {
            NEVER("%s: a value of %zu bytes with a NUL within", change->key, change->size);
        } else {
            world_put(w, change->key, change->value);
        }
    }
}

/* ---------------------------------------------------------------- loading */

/* Whoever has to mend it must know where: the error names a key of the store, or the objects that
 * do not fit. A newer state is another matter, and so is one that a successor writes. */
static void check_refusal(const struct world *w, int rc, const mr_error *err)
{
    if (rc != MR_EPRECOND && rc != MR_EUNAVAIL &&
        (rc != MR_EDATALOSS || err->code != rc ||
         (strchr(err->message, '\'') == NULL &&
          strstr(err->message, "do not fit together: ") == NULL))) {
        NEVER("refused with %d: %s", rc, err->message);
    }
    if (w->config.trace != NULL) {
        fprintf(stderr, "  refused: %s\n", err->message);
    }
}

int world_load(struct world *w, mr_error *err)
{
    int rc = MR_OK;

    w->core = mr_core_new(&w->config);
    if (w->core == NULL) {
        abort();
    }
    for (size_t i = 0; i < w->count && rc >= 0; i++) {
        const struct world_key *k = &w->keys[i];

        rc = strncmp(k->key, "blobs/", 6) == 0
                 ? mr_core_load_blob(w->core, k->key, err)
                 : mr_core_load(w->core, k->key, k->value, strlen(k->value), err);
    }
    rc = rc >= 0 ? mr_core_ready(w->core, w->now, err) : rc;
    if (rc < 0) {
        check_refusal(w, rc, err);
        mr_core_free(w->core);
        w->core = NULL;
    }
    return rc;
}

void world_take_over(struct world *w)
{
    mr_error err = {0};

    mr_outcome_clear(&w->out);
    mr_core_free(w->core);
    w->config.epoch++;
    if (world_load(w, &err) < 0) {
        NEVER("a core does not load what one has written: %s", err.message);
    }
}

/* ---------------------------------------------------------------- steps */

static const struct mr_effect *look_at_effects(const struct world *w)
{
    const struct mr_effect *reply = NULL;

    for (size_t i = 0; i < w->out.neffects; i++) {
        const struct mr_effect *effect = &w->out.effects[i];

        if (effect->message != NULL &&
            protobuf_c_message_get_packed_size(effect->message) == SIZE_MAX) {
            NEVER("a message that cannot be packed");
        }
        if (effect->kind == MR_EFFECT_REPLY) {
            if (reply != NULL || effect->message == NULL ||
                (effect->error.code < 0 && !effect->fenced)) {
                NEVER("a reply too many, without a message, or that denies from memory");
            }
            reply = effect;
        }
    }
    return reply;
}

const struct mr_effect *world_step(struct world *w, struct mr_command *command)
{
    mr_error err = {0};

    mr_outcome_clear(&w->out);
    command->now_ms = w->now;
    command->wall_ms = w->wall;
    command->late_ms = w->late;
    command->token = 77;
    command->seed = 4711;
    w->late = 0;
    /* A core that cannot go on is loaded again, and whoever called it calls again: that would never
     * end. */
    if (mr_core_step(w->core, command, &w->out, &err) < 0) {
        NEVER("command %d is too much for the core: %s", command->kind, err.message);
    }
    apply(w);
    if (mr_core_check(w->core, &err) < 0) {
        NEVER("after command %d: %s", command->kind, err.message);
    }
    return look_at_effects(w);
}

void world_wait(struct world *w, int64_t ms)
{
    int64_t until = w->now + ms;

    for (unsigned timers = 0;; timers++) {
        int64_t due = mr_core_next_timer(w->core);
        struct mr_command timer = {.kind = MR_COMMAND_TIMER};

        if (due > until) {
            break;
        }
        if (timers == TIMERS_MAX) {
            NEVER("timers are due again and again");
        }
        if (due > w->now) {
            w->wall += due - w->now;
            w->now = due;
        }
        (void)world_step(w, &timer);
    }
    w->wall += until - w->now;
    w->now = until;
}

void world_status(struct world *w)
{
    struct mr_status_about about = {"c", "i", "l", "v", NULL, 0, 0, 0};
    struct mr_command command = {.kind = MR_COMMAND_STATUS, .status = &about};
    const struct mr_effect *reply = world_step(w, &command);

    if (reply == NULL || reply->error.code < 0) {
        NEVER("the status cannot be written: %s",
              reply == NULL ? "no reply" : reply->error.message);
    }
}
