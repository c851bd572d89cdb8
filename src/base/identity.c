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

/* The parts of a text with lengths in front, so that two of them cannot be joined in two ways. */
static size_t ticket_text(char *out, size_t size, int half, const char *iteration,
                          const char *client)
{
    return (size_t)snprintf(out, size, "ticket %d %zu:%s %zu:%s", half, strlen(iteration),
                            iteration, strlen(client), client);
}

void mr_ticket_make(const uint8_t key[MR_SIPHASH_KEY_BYTES], const char *iteration,
                    const char *client, uint8_t ret[MR_TICKET_BYTES])
{
    char text[2 * MR_TICKET_ID_MAX + 64];

    memset(ret, 0, MR_TICKET_BYTES);
    if (strlen(iteration) > MR_TICKET_ID_MAX || strlen(client) > MR_TICKET_ID_MAX) {
        return;
    }
    for (int half = 0; half < 2; half++) {
        size_t n = ticket_text(text, sizeof text, half, iteration, client);
        uint64_t hash = mr_siphash(key, text, n);

        for (size_t i = 0; i < 8; i++) {
            ret[8 * (size_t)half + i] = (uint8_t)(hash >> (8 * i));
        }
    }
}

bool mr_ticket_is(const uint8_t key[MR_SIPHASH_KEY_BYTES], const char *iteration,
                  const char *client, const void *ticket, size_t size)
{
    const uint8_t *given = ticket;
    uint8_t made[MR_TICKET_BYTES];
    unsigned differ = 0;

    if (size != sizeof made || strlen(iteration) > MR_TICKET_ID_MAX ||
        strlen(client) > MR_TICKET_ID_MAX) {
        return false;
    }
    mr_ticket_make(key, iteration, client, made);
    for (size_t i = 0; i < sizeof made; i++) {
        differ |= (unsigned)(made[i] ^ given[i]); /* How long it takes tells nothing. */
    }
    return differ == 0;
}
