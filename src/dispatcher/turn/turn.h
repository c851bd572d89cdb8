/*
 * The dispatcher without its surroundings: calls, answers of the store and time go in;
 * transactions, replies and pushes come out. What a turn does with them:
 *
 *  - calls come before timers: a dispatcher that slept hears its workers before it judges them;
 *  - each command is decided at once, by the core, whose state moves with it; its changes go to the
 *    member (coord/member.h), which commits them in batches;
 *  - each effect is held until the batch that it rests on is committed. When a batch is not, the
 *    whole state is thrown away and loaded again;
 *  - while it does not lead, calls are refused with the leader's address, or kept for up to a
 *    second while nobody leads.
 *
 * A driver does the rest: src/dispatcher/server with a thread and a server, tests/sim with neither.
 *
 *     mr_turn_begin(t, &times);
 *     mr_turn_take(t, &item); ...       for all that has happened
 *     mr_turn_end(t);                   and again when something happens, or at mr_turn_due(t)
 *
 * Nothing in here has a thread, a lock, a socket or a clock. Threads: one at a time.
 */
#pragma once

#include "coord/store.h"
#include "dispatcher/turn/follow.h"
#include "dispatcher/turn/streams.h"
#include "metrics/metrics.h"

typedef struct mr_turn mr_turn;
struct mr_member_event;

/* Strings are copied, unless it says otherwise. */
struct mr_turn_options {
    mr_store *store; /* lent; closed before mr_turn_free() */
    const char *cluster;
    const char *address;       /* as advertised */
    const char *socket;        /* identity of the listening socket (coord/election.h); lent */
    const char *instance;      /* 32 hex digits: this process */
    const char *secret;        /* 32 hex digits that nobody can guess (coord/member.h) */
    uint64_t seed;             /* of all that is drawn */
    uint64_t started_ms;       /* wall time */
    int64_t etcd_quota_bytes;  /* where etcd does not tell its own */
    int64_t etcd_write_budget; /* bytes per second */
    int64_t lease_ttl_ms;
    bool gc_dynamic;
#define X(name) int64_t name;
    MR_CORE_TIMES(X) /* job_gc_timeout_ms < 0: never */
#undef X
};

enum mr_term_news {
    MR_TERM_WON,     /* the election; the state is loaded next */
    MR_TERM_LEADS,   /* it is loaded */
    MR_TERM_REFUSED, /* a batch was refused for good: it is loaded again, in the same term */
    MR_TERM_LOST,
};

/* What the driver does for it. None of them may call back. */
struct mr_turn_port {
    /* Answer a unary call, once. @message->failed: without memory. @error NULL, or code 0:
     * success. */
    void (*reply)(void *ctx, struct mr_call *call, const struct mr_buf *message,
                  const mr_error *error);
    /*
     * Work on a definition, off this thread. RegisterDataset without one: it is unpacked, parsed,
     * and comes back as a call with `definition` or `error` set. GetDataset with `reply` set: its
     * definition is read from the store and the call answered and freed, with a header of @info
     * (copied). Without one, by a dispatcher that does not lead, its record is read first: if that
     * is of the expected fingerprint it cannot be out of date; else the caller is sent to the
     * leader, as @info says. < 0: too much waits; the call is not taken.
     */
    int (*define)(void *ctx, struct mr_call *call, const struct mr_header_info *info,
                  mr_error *err);
    /* The standby's stream to the leader (follow.h). */
    struct mr_follow_ops follow;
    /* Are connects to @address refused? MR_ITEM_PROBED answers. */
    void (*probe)(void *ctx, const char *address, int64_t epoch);
    /* An answer of the store: to be taken as MR_ITEM_MEMBER. From any thread. */
    void (*post)(void *ctx, struct mr_member_event *event);
    void (*term)(void *ctx, enum mr_term_news news);
    void (*left)(void *ctx); /* after MR_ITEM_STOP: the election was left */
    /* Why the process must not go on. */
    void (*unwell)(void *ctx, const mr_error *why);
    void (*trace)(void *ctx, const char *line); /* each move of the state; NULL: not wanted */
    void (*note)(void *ctx, bool is_loss, const char *line); /* struct mr_core_config */
    void *ctx;
};

enum mr_item_kind {
    MR_ITEM_CALL,
    MR_ITEM_MEMBER,
    MR_ITEM_STREAM_SENT,
    MR_ITEM_STREAM_ENDED,
    MR_ITEM_FOLLOW_ALIVE,
    MR_ITEM_FOLLOW_ENDED,
    MR_ITEM_PROBED,
    MR_ITEM_STOP,   /* refuse calls, commit what was accepted, then hand over and leave */
    MR_ITEM_DRIVER, /* the driver's own business; it is not taken */
};

/* Something that happened. */
struct mr_item {
    struct mr_item *next; /* the driver's */
    enum mr_item_kind kind;
    struct mr_call *call;
    struct mr_member_event *event;
    struct mr_dstream *stream;
    struct mr_follow *follow;
    int64_t epoch;
    bool refused;
    void *own;
};

/* When a turn begins, on a clock that does not jump. */
struct mr_turn_times {
    int64_t idle_ms; /* the last one was over, and waiting for this one began */
    int64_t due_ms;  /* what mr_turn_due() said then */
    int64_t now_ms;
    uint64_t wall_ms; /* since 1970 */
};

/* @port is copied. On failure nothing is left. */
int mr_turn_new(const struct mr_turn_options *opts, const struct mr_turn_port *port, int64_t now_ms,
                mr_turn **ret, mr_error *err);
/* A turn that begins late moves all deadlines: nobody was heard meanwhile. */
void mr_turn_begin(mr_turn *t, const struct mr_turn_times *times);
/* What @item refers to is taken; the item itself is the caller's. */
void mr_turn_take(mr_turn *t, const struct mr_item *item);
void mr_turn_end(mr_turn *t);
int64_t mr_turn_due(const mr_turn *t);

bool mr_turn_serves(const mr_turn *t);
int64_t mr_turn_epoch(const mr_turn *t); /* of its own term; 0: it has none */
/* When the store last answered; 0: never. */
int64_t mr_turn_store_ms(const mr_turn *t);
size_t mr_turn_waiting(const mr_turn *t); /* calls that wait for a leader */
/* Add what it knows of itself and of the cluster. */
void mr_turn_page(const mr_turn *t, mr_metrics *page);

/* The end, once no turn will begin any more: */
void mr_turn_drop(mr_turn *t, const struct mr_item *item); /* in place of take */
void mr_turn_unfollow(mr_turn *t);
bool mr_turn_follows(const mr_turn *t); /* a stream has not ended: MR_ITEM_FOLLOW_ENDED comes */
/* Whatever still waits is answered. NULL is fine. */
void mr_turn_free(mr_turn *t);
