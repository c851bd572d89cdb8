/*
 * What the files of the plain mode share. Nothing else includes it.
 *
 * Each task has a session with its worker (client/session.h) and a queue of what came; the
 * application gets the tasks' elements in turn. What is done for each element looks at one task,
 * not at all: which of them have elements, have something to tell, or have changed stands in lists.
 */
#pragma once

#include "client/read/internal.h"
#include "client/session.h"

#define MR_PLAIN_MAGIC 0x504c4149u
/* Soon enough for the end of a task, which waits for what every reader of it has received. */
#define MR_PLAIN_ACK_MS 5

/* Elements of one task that the application was given and is not through with. */
struct mr_plain_given {
    TAILQ_ENTRY(mr_plain_given) link;
    struct mr_plain_task *task;
    uint64_t session; /* that they came in */
    uint64_t rows;
    size_t bytes;
};

struct mr_plain_task {
    struct mr_read_task base; /* first */
    uint32_t magic;
    struct mr_session session;
    unsigned given; /* of what the application is not through with, so many are this one's */
    TAILQ_ENTRY(mr_plain_task) full_link;
    TAILQ_ENTRY(mr_plain_task) touched_link;
    TAILQ_ENTRY(mr_plain_task) news_link;
    bool full; /* it is in that list */
    bool touched;
    bool news;
    bool shares;      /* it is counted as one of those that the credits are for */
    bool revoking;    /* a lowered limit was told; the next message is the answer */
    int64_t told_ms;  /* when credits were sent last */
    uint64_t granted; /* few credits for many tasks: of all grants the number of its last one */
};

typedef TAILQ_HEAD(mr_plain_tasks, mr_plain_task) mr_plain_tasks;

struct mr_plain {
    uint32_t magic;
    mr_plain_tasks full; /* have elements, or have failed; in turn: who was read last stands last */
    mr_plain_tasks touched; /* have changed since the application found that nobody has elements */
    mr_plain_tasks news;    /* have something to tell their worker */
    int64_t ack_ms;         /* when to look at `news`, or INT64_MAX */
    /* credits */
    unsigned shares; /* tasks that they are for */
    bool reshared;   /* of few credits each has more, for somebody has left */
    uint64_t grants;
    /* what the application is not through with, in its order */
    TAILQ_HEAD(, mr_plain_given) given;
    size_t given_bytes;
    uint64_t used;       /* of r->taken: it is through with so many */
    uint64_t pull;       /* one by one: that of the iterator for which elements were given last */
    uint64_t pull_first; /* ... and how many had been given before */
    uint64_t handed;     /* mixed: so many were handed on, and the application came back for more */
    uint64_t held_back; /* at the goodbye: used, and never handed on by operators behind the read */
};

static inline struct mr_plain *mr_plain_of(const struct mr_read *r)
{
    struct mr_plain *p = r->of_mode;

    MR_ASSERT(p->magic == MR_PLAIN_MAGIC);
    return p;
}

static inline struct mr_plain_task *mr_plain_task_of(const struct mr_read_task *t)
{
    struct mr_plain_task *p = (struct mr_plain_task *)(uintptr_t)t;

    MR_ASSERT(p->magic == MR_PLAIN_MAGIC);
    return p;
}

/* ---- plain_credits.c ---- */

bool mr_plain_few_credits(const struct mr_read *r);
/* What the worker of @t may be told. */
void mr_plain_limits(const struct mr_plain_task *t, uint64_t *limit, uint64_t *limit_bytes);
void mr_plain_recount(struct mr_read_task *t);
/* Few credits for many tasks: give out those that are free. */
void mr_plain_grant(struct mr_read *r);
/* ... take back those that lie at slow workers. When to look again, or INT64_MAX. */
int64_t mr_plain_rotate(struct mr_read *r);
/* The application took something from @t, or is through with it: its worker may send more. */
void mr_plain_took(struct mr_plain_task *t);
uint64_t mr_plain_unused(const struct mr_read_task *t); /* a slot */

/* ---- plain_given.c ---- */

/* Takes @g. */
void mr_plain_given_add(struct mr_read *r, struct mr_plain_given *g);
void mr_plain_given_clear(struct mr_read *r);
/* These are slots. */
void mr_plain_ask(struct mr_read *r);
void mr_plain_used(struct mr_read *r, uint64_t used);
void mr_plain_count_used(struct mr_read *r);
uint64_t mr_plain_held_downstream(const struct mr_read *r, bool closing);
/* The application waits. When to look again, or INT64_MAX. */
int64_t mr_plain_given_wait(struct mr_read *r);
