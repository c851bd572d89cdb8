/*
 * A member of a cluster, over any store: takes part in the election, loads the state when it wins,
 * commits while it leads. It joins coord/election.h and coord/commit.h, which decide, to a
 * mr_store, which acts.
 *
 * Everything runs on the owner's thread: the store's callbacks only fill in an event and hand it to
 * `post`, from any thread; the owner queues it and gives it back with mr_member_deliver().
 * mr_member_tick() at the end of each turn sends what is due: a loop that is stuck neither renews
 * its lease nor commits, so it loses its leadership.
 *
 * A term: load_begin, load_key..., load_end -> leading; then mr_member_add()/fence() and
 * `committed`, until `lost`. After `refused` (a batch that etcd refuses for good) everything since
 * the last commit must be forgotten: load_begin follows, in the same term.
 *
 * Threads: one at a time, except for what `post` is called from.
 */
#pragma once

#include "base/scope.h"
#include "base/siphash.h"
#include "coord/commit.h"
#include "coord/election.h"

typedef struct mr_member mr_member;
struct mr_member_event;

/* Called from mr_member_deliver() and mr_member_tick(); they may call back into the member, but not
 * free it. */
struct mr_member_ops {
    /* Who leads has changed; !leader->known: nobody. */
    void (*leader)(void *ctx, const struct mr_leader_view *leader);
    /* A term of our own: what follows is the whole state. @incarnation names this life of the
     * store. Again after a restart of the load. */
    void (*load_begin)(void *ctx, int64_t epoch, const char *incarnation);
    /* One key of the prefixes, without the root. < 0: the state cannot be used; the member steps
     * down for a while. */
    int (*load_key)(void *ctx, const char *key, const void *value, size_t size, mr_error *err);
    /* The state is complete: serve. < 0 as above. */
    int (*load_end)(void *ctx, mr_error *err);
    /* Everything up to this batch is committed. */
    void (*committed)(void *ctx, uint64_t batch);
    /* The term is over. What was not committed may have been applied (traits of @err). */
    void (*lost)(void *ctx, const mr_error *err);
    /* The batch was refused, definitely; later ones were not sent. A load follows. */
    void (*refused)(void *ctx, uint64_t batch, const mr_error *err);
    /* Find out whether connects to @address are refused, off this thread: mr_member_probed(). */
    void (*probe)(void *ctx, const char *address, int64_t epoch);
    /* Who is there, oneself included; only while leading. */
    void (*peers)(void *ctx, const struct mr_dispatcher_record *peers, size_t n);
    /* Is a live stream of that dispatcher there, which follows this term of ours? Leadership is
     * handed to one of those. */
    bool (*follows)(void *ctx, const char *instance);
    /* How the store does; now and then while leading. */
    void (*store)(void *ctx, const struct mr_store_status *status);
    /* After mr_member_stop(): handed over and left. */
    void (*stopped)(void *ctx);
};

struct mr_member_prefix {
    const char *key; /* below the root; ending in '/': all keys below it */
    bool keys_only;
    int64_t page; /* keys at a time; 0: 4000 */
};

struct mr_member_options {
    mr_store *store; /* lent; closed by the owner, before mr_member_free() */
    const char *cluster;
    const char *instance; /* 32 hex digits */
    const char *secret; /* 32 hex digits that nobody can guess: of an incarnation that it begins */
    const char *address;
    const char *version;
    /* identity of the listening socket (coord/election.h), at most 32 bytes; NULL: none */
    const char *socket;
    int64_t ttl_ms;
    uint64_t started_ms; /* wall time */
    uint64_t seed;
    /* What to load: the first one before all others, which come in any order. Lent for good. */
    const struct mr_member_prefix *prefixes;
    size_t nprefixes;
    const struct mr_member_ops *ops;
    void *ctx;
    void (*post)(void *ctx, struct mr_member_event *event); /* from any thread */
};

int mr_member_new(const struct mr_member_options *opts, mr_member **ret, mr_error *err);
/* After the store was closed and all posted events were delivered or discarded. NULL is fine. */
void mr_member_free(mr_member *m);
MR_AUTO_DEFINE(mr_member, mr_member_free)

void mr_member_deliver(mr_member *m, struct mr_member_event *event, int64_t now_ms,
                       uint64_t wall_ms);
void mr_member_discard(mr_member *m, struct mr_member_event *event); /* instead of delivering it */
/* At the end of every turn, and when mr_member_due(). */
void mr_member_tick(mr_member *m, int64_t now_ms, uint64_t wall_ms);
int64_t mr_member_due(const mr_member *m);

/* the state is loaded, and the term is not known to be over */
bool mr_member_leads(const mr_member *m);
int64_t mr_member_epoch(const mr_member *m); /* 0: no term of our own */
/* At which the state of this term was loaded. */
int64_t mr_member_load_revision(const mr_member *m);
const struct mr_leader_view *mr_member_leader(const mr_member *m);
bool mr_member_leader_gone(const mr_member *m); /* mr_election_leader_gone() */
/* May answers be given from memory? For ttl/2 from when the last committed batch was sent. */
bool mr_member_may_answer(const mr_member *m, int64_t now_ms);
/* How long etcd has not answered to the batch in flight. */
int64_t mr_member_stalled_ms(const mr_member *m, int64_t now_ms);
/* Does the store take deletes alone (coord/commit.h)? Writes that put would be refused, and end in
 * a load. */
bool mr_member_full(const mr_member *m);
/* Bytes of keys and values that were committed in all terms. */
uint64_t mr_member_written(const mr_member *m);
/* When the store last answered anything but an error; 0: never. Leases are renewed, so it is asked
 * all the time. */
int64_t mr_member_answered_ms(const mr_member *m);
/* What the store said last, if it was an error; "" otherwise. Lent until the next call. */
const char *mr_member_trouble(const mr_member *m);
/* What the leader of @epoch gives to callers with it. Only a dispatcher of this incarnation can
 * make it. */
uint64_t mr_member_sign(const mr_member *m, uint64_t epoch);
/* A key for @purpose, the same for all leaders of this incarnation. Only a dispatcher of it can make
 * it. */
void mr_member_derive(const mr_member *m, const char *purpose, uint8_t ret[MR_SIPHASH_KEY_BYTES]);
/* Somebody has heard of @epoch of this incarnation, with @signature. If it is later than the one
 * that this member leads and the signature is its leader's, and a batch commits all the same, the
 * store has gone back to an older state: then this term ends, and the next one begins a new
 * incarnation. Without the signature nothing happens: callers may be wrong, or lie. */
void mr_member_later_epoch(mr_member *m, uint64_t epoch, uint64_t signature);

/* While leading: mr_commit_add() and so on; sent by the next tick. */
int mr_member_add(mr_member *m, const struct mr_write *writes, size_t n, bool alone,
                  uint64_t *batch, mr_error *err);
int mr_member_fence(mr_member *m, uint64_t *batch, mr_error *err);
/* Of mr_commit_status; whoever would add to a full backlog waits. */
size_t mr_member_backlog(const mr_member *m);
uint64_t mr_member_newest(const mr_member *m);
uint64_t mr_member_committed(const mr_member *m);

enum mr_peer_state {
    MR_PEER_ALIVE, /* the live stream was established */
    MR_PEER_LOST,  /* it ended */
    MR_PEER_AWAY,  /* it could not be established */
};

/* What became of the live stream to the leader of @epoch. */
void mr_member_peer(mr_member *m, int64_t epoch, enum mr_peer_state state, int64_t now_ms,
                    uint64_t wall_ms);
void mr_member_probed(mr_member *m, int64_t epoch, bool refused, int64_t now_ms, uint64_t wall_ms);
/* Leader: give the term up, and stay away from the next ones for a while. */
void mr_member_step_down(mr_member *m, int64_t hold_off_ms, int64_t now_ms, uint64_t wall_ms);
/* Hand over and leave; `stopped` follows. What waits for a commit should have been committed
 * before. */
void mr_member_stop(mr_member *m, int64_t now_ms, uint64_t wall_ms);
