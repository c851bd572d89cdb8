/*
 * The store in memory (coord/fake) on real time, for programs with threads: its clock goes with
 * that of the machine, and its callbacks run on a thread of its own.
 *
 * Threads: any; what is lent by one is freed after all its clients were closed.
 */
#pragma once

#include "coord/store.h"

struct mr_live_store;

struct mr_live_store *mr_live_store_new(uint64_t seed);
void mr_live_store_free(struct mr_live_store *l);
mr_store *mr_live_store_connect(struct mr_live_store *l); /* closed with its `close` */
/* From now on this client gets no answer: mr_fake_cut(). */
void mr_live_store_cut(mr_store *s);
/* Its nth request, counted from the first, is refused with MR_EUNAVAIL before it is tried; 0: none.
 * Watches are no requests. */
void mr_live_store_fail_at(mr_store *s, uint64_t nth);
uint64_t mr_live_store_requests(mr_store *s); /* so far */
