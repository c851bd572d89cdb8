/*
 * A standby's eye on the leader: a live stream to it, on which it is heard several times a second.
 * The stream's end may mean that its process died, silence that it is frozen. Whether connects are
 * refused is the proof of the one; of the other its lease is (coord/election.h).
 *
 * Threads: one at a time.
 */
#pragma once

#include "base/limits.h"
#include "coord/member.h"

/* One stream, from its opening to its end. */
struct mr_follow {
    int64_t epoch;
    bool alive;  /* the leader has answered */
    bool silent; /* but not for some time */
    int64_t heard_ms;
    void *link; /* the driver's */
};

struct mr_follow_ops {
    /* Open one, and set f->link; false: not now. Then it ends: MR_ITEM_FOLLOW_ENDED, once. */
    bool (*open)(void *ctx, struct mr_follow *f, const char *address);
    void (*close)(void *ctx, struct mr_follow *f); /* end it soon */
    void (*release)(void *ctx, void *link);        /* it has ended */
};

struct mr_leader_follower {
    const struct mr_follow_ops *ops;
    void *ctx;
    bool stopping;
    char address[MR_ADDRESS_BYTES_MAX]; /* "": nobody */
    int64_t epoch;
    struct mr_follow *current;
    unsigned open; /* streams that have not ended, old ones included */
    int64_t reopen_ms;
};

/* Follow the leader of @epoch at @address from now on; NULL: nobody. */
void mr_follow_leader(struct mr_leader_follower *p, const char *address, int64_t epoch,
                      int64_t now_ms);
/* The leader was heard. true: that is news. */
bool mr_follow_heard(struct mr_leader_follower *p, struct mr_follow *f, int64_t now_ms);
/* The stream has ended, and is freed. true: it was the one to the leader of *@epoch. */
bool mr_follow_ended(struct mr_leader_follower *p, struct mr_follow *f, int64_t now_ms,
                     int64_t *epoch, enum mr_peer_state *state);
/* Opens the stream again when that is due. true: the leader of *@epoch, which was alive, has been
 * silent for too long. */
bool mr_follow_tick(struct mr_leader_follower *p, int64_t now_ms, int64_t *epoch);
/* It still is: the stream to the leader of @epoch is there, and nothing is heard. */
bool mr_follow_is_silent(const struct mr_leader_follower *p, int64_t epoch);
int64_t mr_follow_due(const struct mr_leader_follower *p);
/* No stream is opened any more; what is open ends. */
void mr_follow_stop(struct mr_leader_follower *p);
