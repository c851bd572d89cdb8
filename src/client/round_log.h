/*
 * Of which round is the element that an application was given last? The read from the service knows
 * the rounds of what it gives, operators behind it may hold some of that back (prefetch, a parallel
 * map). So rounds are noted when elements are given, and taken off again, in the same order, when
 * elements are handed out.
 *
 * That works where one element comes out for each that went in, in that order. Behind other
 * operators the round is not known, and asking for it says behind which one.
 *
 * Threads: safe from any; init and destroy belong to the owner.
 */
#pragma once

#include <millrace/dataset.h>
#include <pthread.h>

struct mr_round_log {
    /* a coordinated read, and nothing behind it that is in the way. Constant, as is the next one */
    bool follows;
    const char *obstacle; /* the operator behind a coordinated read that is; NULL: none */
    pthread_mutex_t lock; /* guards all below */
    uint64_t *ring;       /* rounds of what was given and not handed out */
    size_t cap;
    size_t head;
    size_t count;
    bool any; /* something was handed out: */
    uint64_t round;
    bool failed; /* an element may have gone without being handed out: what comes is not known */
    bool lost;   /* ... and it came */
};

void mr_round_log_init(struct mr_round_log *log, const mr_dataset *ds);
void mr_round_log_destroy(struct mr_round_log *log);

/* The read gives the element of @round. Nothing happens where nobody follows. */
int mr_round_log_give(struct mr_round_log *log, uint64_t round, mr_error *err);
/* @rows elements were handed out. */
void mr_round_log_hand_out(struct mr_round_log *log, uint32_t rows);
/* Instead of an element came an error. */
void mr_round_log_fail(struct mr_round_log *log);
/* As mr_iterator_round(). */
int mr_round_log_get(struct mr_round_log *log, uint64_t *ret, mr_error *err);
