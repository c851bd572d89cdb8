/*
 * The store in memory, on virtual time, with faults: for simulation, and for tests of everything
 * above the port. It keeps etcd's data model (revisions, leases, watches, compaction) and knows the
 * ways in which a distributed store can answer, or not: see enum mr_fake_fault.
 *
 * Nothing happens by itself: time moves in mr_fake_step() and mr_fake_advance(), and callbacks run
 * inside them. The same seed and the same calls give the same run.
 *
 * Threads: one at a time.
 */
#pragma once

#include "coord/store.h"

typedef struct mr_fake mr_fake;

enum mr_fake_fault {
    MR_FAKE_NONE,
    /* applied and answered `delay` later; past the deadline the answer is unknown */
    MR_FAKE_DELAYED,
    MR_FAKE_LOST_ANSWER,   /* applied at once, answered unknown */
    MR_FAKE_APPLIED_LATER, /* answered unknown at once, applied `delay` later (it was in a queue) */
    MR_FAKE_LOST_REQUEST,  /* answered unknown, never applied */
    MR_FAKE_REFUSED,       /* MR_EINVAL: a definite refusal */
    MR_FAKE_UNAVAILABLE,   /* MR_EUNAVAIL, and certainly not applied */
    /* a read of the newest state shows an older one, with its revision (bugs of etcd do that) */
    MR_FAKE_STALE,
    MR_FAKE_FAULTS, /* how many there are */
};

/* What a fault applies to. Reads and lease requests know NONE, DELAYED and the lost ones; STALE is
 * for reads alone. */
enum mr_fake_kind { MR_FAKE_TXN, MR_FAKE_RANGE, MR_FAKE_LEASE };

struct mr_fake_odds {
    uint32_t permille[MR_FAKE_FAULTS]; /* of each fault, per request; NONE is ignored */
    int64_t delay_ms_max;              /* DELAYED, APPLIED_LATER: uniform in 1..max */
};

int mr_fake_new(uint64_t seed, mr_fake **ret, mr_error *err);
void mr_fake_free(mr_fake *f); /* all its clients must have been closed */

/* One client's handle on the store. It is closed with its `close`. */
int mr_fake_connect(mr_fake *f, mr_store **ret, mr_error *err);

int64_t mr_fake_now_ms(const mr_fake *f);
int64_t mr_fake_next_ms(const mr_fake *f); /* when something is due next; INT64_MAX: never */
/* Run what is due next, if it is due by @until_ms; moves the clock to it. false: the clock is at
 * @until_ms now. */
bool mr_fake_step(mr_fake *f, int64_t until_ms);
void mr_fake_advance(mr_fake *f, int64_t ms);

/* Random faults from now on, for all clients; NULL: none. */
void mr_fake_odds(mr_fake *f, const struct mr_fake_odds *odds);
/* The next request of @kind by client @s gets @fault. One script a client and kind at a time; a new
 * one replaces it. */
void mr_fake_script(mr_store *s, enum mr_fake_kind kind, enum mr_fake_fault fault,
                    int64_t delay_ms);
/* While cut off, requests are lost (unknown at their deadline) and watches are silent; they catch
 * up afterwards. */
void mr_fake_cut(mr_store *s, bool cut);
/* While deaf, its watches alone are silent: its member of the store lags. They catch up. */
void mr_fake_deafen(mr_store *s, bool deaf);
/* Break all watches of @s with MR_EUNAVAIL. */
void mr_fake_break_watches(mr_store *s);

/* Full: puts and grants are refused, with MR_EEXHAUSTED; the first transaction that puts is applied
 * all the same, as the one that takes etcd over its quota is. */
void mr_fake_full(mr_fake *f, bool full);
/* From now on it says that it is another store (as one does that was built from a snapshot). */
void mr_fake_rename(mr_fake *f, uint64_t store_id);

int mr_fake_compact(mr_fake *f, int64_t revision, mr_error *err);
/* Let a lease run out now. false: there is none of that id. */
bool mr_fake_expire(mr_fake *f, int64_t lease);
/* Let it live for @ms from now at least, whatever its ttl: a store that was started again gives all
 * leases their whole time. false: there is none of that id. */
bool mr_fake_prolong(mr_fake *f, int64_t lease, int64_t ms);
int64_t mr_fake_revision(const mr_fake *f);
/* The value of a key now; data == NULL: no such key. Lent until the next change. */
struct mr_kv mr_fake_get(const mr_fake *f, const char *key);
/* All keys that begin with @prefix, which is not empty, in their order. */
void mr_fake_each(const mr_fake *f, const char *prefix,
                  void (*fn)(void *ctx, const struct mr_kv *kv), void *ctx);
/* Who looks from outside: is told of each transaction as it is tried, before it is answered.
 * @revision is the store's then. */
void mr_fake_observe(mr_fake *f,
                     void (*fn)(void *ctx, const struct mr_txn *txn, bool succeeded,
                                int64_t revision),
                     void *ctx);
