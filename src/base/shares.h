/*
 * One host's share of what a server has for all. A host may hold no more than it leaves free: alone
 * it gets half, with others less, and whoever holds nothing yet gets in, whatever one host does and
 * however many connections it opens.
 *
 * There is one struct mr_shares for each limit, at whoever keeps that limit. What is counted is the
 * owner's business: calls, bytes, records.
 *
 * Pure. Threads: an object has one owner at a time.
 */
#pragma once

#include "base/map.h"

#include <sys/queue.h>

struct mr_shares;

/* What one host holds: it is there as long as the host holds anything. */
struct mr_share {
    LIST_ENTRY(mr_share) link;
    struct mr_shares *all;
    uint64_t held;
    size_t holders; /* mr_share_give() is owed so often */
    char host[];
};

struct mr_shares {
    const char *what; /* for errors: "calls"; lent */
    uint64_t max;
    uint64_t taken;
    struct mr_map map;
    LIST_HEAD(, mr_share) list;
};

void mr_shares_init(struct mr_shares *all, const char *what, uint64_t max);
void mr_shares_free(struct mr_shares *all); /* nothing may be held */

/* @host takes @n more. MR_EEXHAUSTED, retryable: it holds its share already, or there is no room at
 * all; @err says what to do. *@ret is to be given back. What takes one thing larger than half of
 * all gets it when it holds nothing. */
int mr_shares_take(struct mr_shares *all, const char *host, uint64_t n, struct mr_share **ret,
                   mr_error *err);
/* May it? The same errors, and nothing is taken. */
int mr_shares_check(const struct mr_shares *all, const char *host, uint64_t n, mr_error *err);
/* Take without looking at the limit. NULL: no memory. */
struct mr_share *mr_shares_add(struct mr_shares *all, const char *host, uint64_t n);
/* Give back what one call took. NULL is fine. */
void mr_share_give(struct mr_share *share, uint64_t n);
/* Of those who hold most, one; NULL: nobody holds anything. */
const struct mr_share *mr_shares_largest(const struct mr_shares *all);
