/* A map from addresses to numbers, for walks over graphs. Not for threads. */
#ifndef MR_DATASET_PTRMAP_H
#define MR_DATASET_PTRMAP_H

#include <millrace/base.h>

struct mr_ptrmap {
    const void **keys;
    uint32_t *values;
    size_t n;
    size_t cap; /* power of two, or 0 */
};

/* *@value is the number of @key if it is there (true); else false. */
bool mr_ptrmap_get(const struct mr_ptrmap *m, const void *key, uint32_t *value);
/* @key must not be there. */
int mr_ptrmap_put(struct mr_ptrmap *m, const void *key, uint32_t value, mr_error *err);
void mr_ptrmap_free(struct mr_ptrmap *m);

#endif
