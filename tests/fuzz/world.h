/*
 * A dispatcher's core with a store behind it that commits at once, for inputs that may be anything:
 * nothing here fails but by abort(), with a line about what must not be.
 *
 * Threads: one at a time.
 */
#pragma once

#include "dispatcher/core/core.h"

#define WORLD_KEYS_MAX 4096

struct world_key {
    char *key;
    char *value;
};

struct world {
    mr_core *core; /* NULL: none was loaded */
    struct mr_core_config config;
    int64_t now, wall;
    int64_t late; /* of the next step */
    struct world_key keys[WORLD_KEYS_MAX];
    size_t count;
    struct mr_outcome out; /* of the last step */
};

void world_open(struct world *w, uint64_t epoch);
void world_close(struct world *w);

/* By hand, before it is loaded; the last value of a key counts. */
void world_put(struct world *w, const char *key, const char *value);
const char *world_get(const struct world *w, const char *key); /* NULL: no such key */

/* Load a core from the store. < 0: the state was refused, and @err says why; that was looked at. */
int world_load(struct world *w, mr_error *err);
/* The leader is gone. What a core has written, the next one must be able to load. */
void world_take_over(struct world *w);

/* A step, its changes, and what must hold after it. Returns the reply, lent until the next step;
 * NULL if there is none. */
const struct mr_effect *world_step(struct world *w, struct mr_command *command);
/* Time passes; timers run as they are due. */
void world_wait(struct world *w, int64_t ms);
/* What people see can be written, whatever is in there. */
void world_status(struct world *w);
