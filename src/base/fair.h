/*
 * Whose turn it is to have a core: weighted fair queueing. Pieces of work wait in line for their
 * job; a core that becomes free goes to the owner that has had least of the cores' time for its
 * weight, and there to the job of which the same is true. No clock, lock or thread: times come in.
 *
 * A share has a virtual time: the nanoseconds that it was charged for, divided by its weight. What
 * runs has not been charged yet and counts with the time that has passed. Who comes, or comes back
 * after it wanted nothing, begins where those are that were served last: idling saves up nothing.
 *
 * Pieces are not interrupted, and some take long, or wait for something that we do not know of.
 * So a job that has no piece running, and is behind all that have, gets a core beyond the number of
 * cores when it has waited for a while: the kernel divides them until the others come to the end of
 * their pieces.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define MR_FAIR_WEIGHT_DEFAULT 100u
#define MR_FAIR_WEIGHT_MAX 10000u
/* What a piece that has just begun is thought to take. */
#define MR_FAIR_SLICE_NS INT64_C(1000000)
/* So long a piece waits for the end of others. */
#define MR_FAIR_PATIENCE_NS INT64_C(8000000)
/* So far a share may fall behind those that are served, and get it back at once. */
#define MR_FAIR_LAG_NS_MAX INT64_C(1000000000)

struct mr_fair_piece {
    struct mr_fair_share *share;
    bool waits;
    bool beyond;      /* it runs though there is no core for it */
    int64_t since_ns; /* it waits, or runs */
    TAILQ_ENTRY(mr_fair_piece) link;
};

/* A job, or an owner of jobs. Zero-initialise it, then mr_fair_share_init(). */
struct mr_fair_share {
    struct mr_fair_share *parent; /* of a job: its owner; of an owner: the root */
    uint32_t weight;              /* 1 .. MR_FAIR_WEIGHT_MAX; may change at any time */
    int64_t served;               /* its virtual time */
    int64_t floor;                /* where those below it begin */
    /* with those below it */
    uint32_t wanting;      /* pieces that wait or run */
    uint32_t running;      /* pieces that run */
    uint64_t since_ns_sum; /* of those; it may wrap */
    /* of jobs */
    TAILQ_HEAD(, mr_fair_piece) line;
    TAILQ_ENTRY(mr_fair_share) link; /* in `jobs` of mr_fair, while it wants something */
};

struct mr_fair {
    uint32_t cores;
    struct mr_fair_share root;
    uint32_t njobs; /* that want something */
    TAILQ_HEAD(, mr_fair_share) jobs;
};

void mr_fair_init(struct mr_fair *f, uint32_t cores);
void mr_fair_share_init(struct mr_fair_share *share, struct mr_fair_share *parent, uint32_t weight);

/* @piece wants a core, for the job @share. What ran beyond the cores until now goes on as if it had
 * waited for long. */
void mr_fair_wait(struct mr_fair *f, struct mr_fair_piece *piece, struct mr_fair_share *share,
                  int64_t now_ns);
/* @piece, which waits, wants none any more. */
void mr_fair_withdraw(struct mr_fair *f, struct mr_fair_piece *piece);
/* A piece that runs from now on, or NULL: call it until then whenever something has changed. */
struct mr_fair_piece *mr_fair_next(struct mr_fair *f, int64_t now_ns);
/* The same for any piece that waits, for the time when nobody is in each other's way any more. */
struct mr_fair_piece *mr_fair_any(struct mr_fair *f, int64_t now_ns);
/* A piece of @share that ran from @since_ns on runs no more. */
void mr_fair_stop(struct mr_fair *f, struct mr_fair_share *share, int64_t since_ns);
/* Nothing waits: what runs is not counted any more, and will not be stopped. */
void mr_fair_forget(struct mr_fair *f);
/* @share has used a core for so long. */
void mr_fair_charge(struct mr_fair_share *share, int64_t ns);
