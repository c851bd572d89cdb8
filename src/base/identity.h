/*
 * Who may speak as whom. A process draws a key and makes its id of it; the id is told to everyone,
 * the key goes only to dispatchers, with each call. Who knows an id cannot find the key that it is
 * made of, and without that the dispatchers do not listen. Nobody has to store anything for it.
 *
 * Threads: pure, but for drawing.
 */
#pragma once

#include "base/siphash.h"

#include <stdbool.h>

struct mr_identity {
    uint8_t key[MR_SIPHASH_KEY_BYTES];
    char id[33]; /* 32 hex digits */
};

/* A fresh one, that nobody can guess. */
void mr_identity_draw(struct mr_identity *ret);
/* Its id, of its key. */
void mr_identity_make(struct mr_identity *ret);
/*
 * A ticket: what @client shows of @iteration to whoever has the key it was made with. Nobody else can
 * make one. Ids have at most MR_TICKET_ID_MAX bytes; a longer one has no ticket.
 */
#define MR_TICKET_BYTES 16
#define MR_TICKET_ID_MAX 128
void mr_ticket_make(const uint8_t key[MR_SIPHASH_KEY_BYTES], const char *iteration,
                    const char *client, uint8_t ret[MR_TICKET_BYTES]);
bool mr_ticket_is(const uint8_t key[MR_SIPHASH_KEY_BYTES], const char *iteration,
                  const char *client, const void *ticket, size_t size);

/* Is @id made of this key? What is no key is that of nobody. */
bool mr_identity_has(const char *id, const void *key, size_t size);
