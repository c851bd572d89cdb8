#include "dataset/ptrmap.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"

#include <millrace/base.h>

static size_t slot_of(const struct mr_ptrmap *m, const void *key)
{
    size_t i = (size_t)mr_mix64((uint64_t)(uintptr_t)key) & (m->cap - 1);

    while (m->keys[i] != NULL && m->keys[i] != key) {
        i = (i + 1) & (m->cap - 1);
    }
    return i;
}

bool mr_ptrmap_get(const struct mr_ptrmap *m, const void *key, uint32_t *value)
{
    if (m->cap == 0) {
        return false;
    }
    size_t i = slot_of(m, key);
    if (m->keys[i] == NULL) {
        return false;
    }
    *value = m->values[i];
    return true;
}

static int grow(struct mr_ptrmap *m, mr_error *err)
{
    struct mr_ptrmap bigger = {.cap = m->cap == 0 ? 32 : m->cap * 2};

    bigger.keys = mr_calloc(bigger.cap, sizeof *bigger.keys);
    bigger.values = mr_calloc(bigger.cap, sizeof *bigger.values);
    if (bigger.keys == NULL || bigger.values == NULL) {
        mr_ptrmap_free(&bigger);
        return mr_error_nomem(err);
    }
    for (size_t i = 0; i < m->cap; i++) {
        if (m->keys[i] != NULL) {
            size_t at = slot_of(&bigger, m->keys[i]);

            bigger.keys[at] = m->keys[i];
            bigger.values[at] = m->values[i];
        }
    }
    bigger.n = m->n;
    mr_ptrmap_free(m);
    *m = bigger;
    return MR_OK;
}

int mr_ptrmap_put(struct mr_ptrmap *m, const void *key, uint32_t value, mr_error *err)
{
    if ((m->n + 1) * 2 > m->cap) {
        int rc = grow(m, err);

        if (rc != MR_OK) {
            return rc;
        }
    }
    size_t at = slot_of(m, key);
    m->keys[at] = key;
    m->values[at] = value;
    m->n++;
    return MR_OK;
}

void mr_ptrmap_free(struct mr_ptrmap *m)
{
    mr_free(m->keys);
    mr_free(m->values);
    *m = (struct mr_ptrmap){0};
}
