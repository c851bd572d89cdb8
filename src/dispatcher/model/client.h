/* Client sessions: one for each reader. */
#pragma once

#include "dispatcher/model/times.h"

#define MR_UNREACHABLE_MAX 64 /* workers that one client may report */

/* A worker that a client says it cannot reach. */
struct mr_unreachable {
    char incarnation[MR_ID_HEX + 1];
    int64_t since;
};

struct mr_client {
    TAILQ_ENTRY(mr_client) link;
    TAILQ_ENTRY(mr_client) in_iteration;
    MR_RO Millrace__ClientRecord *MR_RO rec;
    struct mr_share *MR_RO share;
    struct mr_iteration *MR_RO iteration;
    MR_RO uint64_t repetition; /* of the iteration, which may be gone */
    MR_RO int64_t deadline;    /* live: to be heard of */
    MR_RO int64_t since; /* released; on the core's clock, from the takeover at the earliest */
    struct mr_alarm alarm;
    struct mr_unreachable *MR_RO unreachable;
    MR_RO size_t nunreachable;
    struct mr_client_times *MR_RO times; /* soft; NULL: it has said nothing */
};

/* A session: somebody reads, as far as is known. */
static inline bool mr_client_is_live(const struct mr_client *client)
{
    return client->iteration != NULL && !client->rec->released;
}

void mr_client_free(struct mr_client *client);
