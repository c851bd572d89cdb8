/*
 * What bounds a job: the verdict, as a pure function of where the time went lately. All of a
 * reader's time is given away:
 *
 *     worked                               ─► trainer
 *     waited, though elements were here    ─► client: operators behind `distribute`
 *     waited, with nothing here            ─► network, by the part of the time in which workers
 *                                             waited, too: they had sent all that they may
 *                                          ─► the pipeline, by the rest of it: its operators
 *                                             (cpu, storage), or what it waited for
 *
 * What has most of it bounds the job. docs/run/why.md says so to people.
 */
#pragma once

#include "dispatcher/model/times.h"

enum mr_bound {
    MR_BOUND_UNKNOWN,
    MR_BOUND_TRAINER,
    MR_BOUND_CLIENT,
    MR_BOUND_NETWORK,
    MR_BOUND_CPU,
    MR_BOUND_STORAGE,
    MR_BOUND_SPLITS,
    MR_BOUND_CONSUMER,
    MR_BOUND_MEMORY,
    MR_BOUND_POOL,
    MR_BOUND_COUNT
};

/* What is looked at; lent. Of a job that reads a production `pipeline` is of that, and `reading` of
 * the tasks that read it; else `reading` is NULL. */
struct mr_why_in {
    struct mr_reader_times readers; /* together */
    uint32_t nreaders;
    /* coordinated: who waits least, and the others together */
    bool coordinated;
    uint32_t consumer;
    struct mr_reader_times least;
    struct mr_reader_times others;
    const struct mr_iteration_times *pipeline; /* NULL: nothing was said of it */
    const struct mr_iteration_times *reading;
    uint32_t idle; /* workers that have no split, since all are handed out */
};

#define MR_WHY_PARTS (MR_BOUND_COUNT + 2 * MR_TIMES_OPERATORS)
#define MR_WHY_ADVICE 200

struct mr_why_part {
    enum mr_bound bound;
    const char *name;  /* of CPU and STORAGE, lent by `in`; "": none, or several */
    uint32_t permille; /* of the readers' time */
};

struct mr_why {
    enum mr_bound bound; /* UNKNOWN: too little is known yet */
    uint32_t permille;
    const char *name;
    char place[MR_TIMES_PLACE]; /* the file system, or the consumer; "": none */
    const char *advice;         /* a constant */
    size_t n;
    struct mr_why_part parts[MR_WHY_PARTS]; /* most first */
};

/* @part @of it, in millionths; at most all of it. */
uint32_t mr_why_share(uint64_t part, uint64_t of);
/* "cpu" */
const char *mr_bound_name(enum mr_bound bound);
void mr_why_judge(const struct mr_why_in *in, struct mr_why *ret);
