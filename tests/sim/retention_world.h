/* Months of jobs in virtual time: who takes part, what they do, and what they must be answered. */
#pragma once

#include "dispatcher.h"

#include "base/rng.h"
#include "coord/fake/fake.h"
#include "dispatcher/core/core.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

#define JOBS_A_DAY 1000
#define WORKERS 5
#define NAMED_DATASETS 20
#define JOBS_A_CONTENT 10
#define EPOCHS_MAX 3

/* Times a few of which are below the hour, where leaders start anew, and a few above, where wall
 * time is compared. */
extern const struct mr_core_config retention_config;

struct job {
    bool named, dynamic;
    int guarantee;
    bool shares;
    uint32_t dataset; /* below NAMED_DATASETS: a named one */
    uint64_t epochs;
    char owner[33]; /* anonymous: the client */
    char id[48];
    int64_t used; /* by a reader, last */
    uint32_t readers;
    bool ended[EPOCHS_MAX];
    int64_t read[EPOCHS_MAX]; /* last; 0: never */
};

struct reader {
    uint32_t job;
    char client[33];
    char iteration[48];
    uint64_t repetition;
    bool alive, reading;
    int64_t seen;
    int64_t until; /* of this repetition */
};

struct event {
    int64_t at;
    enum { ARRIVAL, READER, WORKER } kind;
    uint32_t index;
};

/* retention_leader.c */
struct leader {
    mr_fake *fake;
    struct dispatcher *dispatcher;
    int64_t now; /* ms of virtual time */
    uint64_t calls, takeovers;
    bool crash_soon; /* it dies in its next timer that changes something, before it knows that that
                      * is committed */
    ProtobufCMessage *answer;
    bool answered;
};

void leader_open(struct leader *l);
void leader_close(struct leader *l);
/* It dies, and another one loads what is there. */
void leader_take_over(struct leader *l);
/* Let time go on to @until, with what comes due. */
void leader_run(struct leader *l, int64_t until);
/* The code of the answer, which is `answer` until the next one. Of a watch it is the first message:
 * number `calls` is its stream's. */
int leader_call(struct leader *l, enum mr_command_kind kind, const ProtobufCMessage *request);
bool leader_has(const struct leader *l, const char *key);
char *leader_text(const struct leader *l, const char *key); /* NULL: it is not there */
size_t leader_count(const struct leader *l, const char *prefix);

struct world {
    struct leader leader;
    struct mr_rng rng;
    struct job *jobs;
    uint32_t njobs, jobs_max;
    struct reader *readers;
    uint32_t nreaders;
    char workers[WORKERS][33];
    uint64_t streams[WORKERS];
    size_t keys_max; /* most keys at the end of a day */
    uint32_t lives;
    int64_t *deaths;
    uint32_t ndeaths;
    struct reader *endless; /* one of `readers` */
    struct event *heap;
    size_t nheap, cap_heap;
};

uint64_t world_draw(struct world *w, uint64_t n);
/* @jobs_max jobs in all; the first event of each kind is due. */
void world_open(struct world *w, uint32_t jobs_max);
void world_close(struct world *w);
void world_run(struct world *w, int64_t until);
