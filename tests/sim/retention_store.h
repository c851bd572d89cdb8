/* A store that commits at once, large, and the core on top of it: for months of virtual time. */
#ifndef MR_TESTS_SIM_RETENTION_STORE_H
#define MR_TESTS_SIM_RETENTION_STORE_H

#include "base/map.h"
#include "dispatcher/core/core.h"

#include <sys/queue.h>

struct entry {
    TAILQ_ENTRY(entry) link;
    char *key;
    char *value;
    size_t size;
};

struct store {
    struct mr_map map;
    TAILQ_HEAD(, entry) list;
    size_t keys_max; /* most keys there ever were */

    mr_core *core;
    struct mr_core_config config;
    struct mr_outcome out; /* of the last step */
    int64_t now;           /* ms of virtual time */
    uint64_t steps;
    uint64_t takeovers;
    /* the leader dies in its next timer that changes something, before that is committed */
    bool crash_soon;
};

void store_open(struct store *s, const struct mr_core_config *config);
void store_close(struct store *s);
const char *store_get(const struct store *s, const char *key);
size_t store_count(const struct store *s, const char *prefix);
/* Another leader loads what is there. */
void store_take_over(struct store *s);
void store_step(struct store *s, struct mr_command *command);
/* Let time go on to @until, with the timers that come due. */
void store_run(struct store *s, int64_t until);
/* The answer of the last step; its code is *@code. */
const ProtobufCMessage *store_reply(const struct store *s, int *code);

#endif
