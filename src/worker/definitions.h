/*
 * Definitions of datasets, taken apart, by their content: the tasks of a worker fetch each once,
 * and so do the passes of a job. All of them share its constants.
 *
 * Memory: what a definition keeps is charged before it is there. One that nobody uses stays for the
 * tasks to come until anybody needs its memory. What it takes for a moment beside that, its bytes
 * as they are sent, is charged to nobody: so large ones are fetched one at a time. Small ones pass.
 *
 * Waiting: a definition that finds no room waits for others to let go of theirs, as long as one of
 * them does so every now and then; else it is told. Whoever waits for room has nothing, neither
 * bytes nor that turn; whoever has the turn waits for the dispatcher alone. So nobody waits for
 * somebody who waits for him.
 *
 * Threads: safe from any thread. Its lock is taken last: a charge of anybody may ask it to give
 * way.
 */
#pragma once

#include "base/memory.h"
#include "dataset/definition.h"

#include <sys/queue.h>

typedef struct mr_definitions mr_definitions;

struct mr_kept_definition {
    TAILQ_ENTRY(mr_kept_definition) link; /* the one used last stands last */
    char *fingerprint;
    struct mr_definition_parts parts; /* set once; without a def: it is being fetched */
    size_t bytes;                     /* of memory */
    size_t charged;                   /* of them: those that do not count with a constant */
    unsigned users;
};

struct mr_definition_bytes {
    void *data; /* freed with mr_free() */
    size_t size;
};

struct mr_definition_wanted {
    const char *dataset;     /* for messages */
    const char *fingerprint; /* "": the content is not known, it is fetched for this one alone */
    uint64_t sent_bytes;     /* its size as it is sent; 0: not known */
    int (*fetch)(void *ctx, struct mr_definition_bytes *ret, mr_error *err);
    bool (*goes_on)(void *ctx); /* asked before each wait; false: no more */
    void *ctx;                  /* of both, which are called without a lock */
};

/* @memory (lent, NULL: none) is charged, and asks for what nobody uses. @wait_ms: for so long
 * nobody else lets go of a definition, and whoever waits for room is told. */
int mr_definitions_new(mr_memory *memory, int64_t wait_ms, mr_definitions **ret, mr_error *err);
/* Nobody has any of them. NULL is fine. */
void mr_definitions_free(mr_definitions *d);

/* The definition that is @wanted: one that is kept, or is fetched. While somebody fetches it others
 * wait for that; if it fails they try themselves. MR_EEXHAUSTED, with the numbers: there is no
 * room. MR_ECANCELED: it does not go on. *@ret is given back with mr_definitions_release() when
 * nothing is made of it any more. */
int mr_definitions_get(mr_definitions *d, const struct mr_definition_wanted *wanted,
                       struct mr_kept_definition **ret, mr_error *err);
void mr_definitions_release(mr_definitions *d, struct mr_kept_definition *k);
/* How many wait for room. */
unsigned mr_definitions_waiting(mr_definitions *d);
