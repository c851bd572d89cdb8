#include "base/identity.h"

#include "base/base.h"
#include "base/rng.h"

/* A keyed hash of texts that everybody knows tells nothing of the key: that is what it is made
 * for. */
static void make_id(const uint8_t key[MR_SIPHASH_KEY_BYTES], char id[33])
{
    uint64_t hi = mr_siphash(key, "id 0", 4);
    uint64_t lo = mr_siphash(key, "id 1", 4);

    (void)snprintf(id, 33, "%016llx%016llx", (unsigned long long)hi, (unsigned long long)lo);
}

void mr_identity_draw(struct mr_identity *ret)
{
    mr_random_bytes(ret->key, sizeof ret->key);
    mr_identity_make(ret);
}

void mr_identity_make(struct mr_identity *ret)
{
    make_id(ret->key, ret->id);
}

bool mr_identity_has(const char *id, const void *key, size_t size)
{
    uint8_t copy[MR_SIPHASH_KEY_BYTES];
    char made[33];

    if (size != sizeof copy) {
        return false;
    }
    memcpy(copy, key, sizeof copy);
    make_id(copy, made);
    return strcmp(made, id) == 0;
}
