/*
 * Definitions of datasets as bytes, by their content: the tasks of a worker fetch each once, and so do the passes of a
 * job. They are kept as long as there is memory to spare, the last ones used.
 *
 * Threads: safe from any thread.
 */
#ifndef MR_WORKER_DEFINITIONS_H
#define MR_WORKER_DEFINITIONS_H

#include "base/memory.h"

typedef struct mr_definitions mr_definitions;
struct mr_kept_definition;

struct mr_definition_bytes {
    void *data; /* freed with mr_free() */
    size_t size;
};

/* @memory (lent, NULL: none) is charged for what is kept. */
int mr_definitions_new(mr_memory *memory, mr_definitions **ret, mr_error *err);
/* Nobody has any of them. NULL is fine. */
void mr_definitions_free(mr_definitions *d);

/*
 * The definition of @fingerprint: what is kept, or what @fetch gives, without a lock. While somebody fetches it others
 * wait for that; if it fails they try themselves. With "", when the content is not known, it is fetched each time.
 * *@ret is given back with mr_definitions_release().
 */
int mr_definitions_get(mr_definitions *d, const char *fingerprint,
                       int (*fetch)(void *ctx, struct mr_definition_bytes *ret, mr_error *err), void *ctx,
                       struct mr_kept_definition **ret, mr_error *err);
void mr_definitions_release(mr_definitions *d, struct mr_kept_definition *k);
/* Lent until it is released. */
struct mr_definition_bytes mr_definition_bytes(const struct mr_kept_definition *k);

#endif
