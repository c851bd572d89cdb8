/*
 * A process's cores, divided between the jobs that it works for (base/fair.h). A thread that
 * works for a job says so once; from then on it passes a gate whenever it begins with another piece
 * of work, mr_cpu_yield(), and waits there while it is others' turn. Whoever waits for a condition
 * (base/sync.h) gives up its core by that; who reads a file says so, mr_cpu_rest(). Work for other
 * threads waits at the gate, too, before they get it: mr_cpu_submit().
 *
 * The gate is open, and costs a load, until threads work for two jobs.
 *
 * Threads: safe from any thread, and under any lock; but no lock is held over mr_cpu_yield().
 */
#pragma once

#include "base/fair.h"

#include <millrace/base.h>
#include <stdatomic.h>

typedef struct mr_cpu_share mr_cpu_share;

/* How many there are; 1 before anybody says so. */
void mr_cpu_set_cores(uint32_t cores);

/* The share of job @job of @owner ("": nobody in particular), a reference. All that have the same
 * names are one share; the weights given last hold (0: the default; too large ones are cut). */
struct mr_cpu_names {
    const char *owner;
    const char *job;
    uint32_t owner_weight;
    uint32_t weight;
};
int mr_cpu_share_get(const struct mr_cpu_names *names, mr_cpu_share **ret, mr_error *err);
mr_cpu_share *mr_cpu_share_ref(mr_cpu_share *share); /* NULL is fine, here and below: no job */
void mr_cpu_share_unref(mr_cpu_share *share);

/* This thread works for @share (lent) until it leaves. */
void mr_cpu_enter(mr_cpu_share *share);
void mr_cpu_leave(void);

/* 0: the gate is open. */
extern atomic_uint mr_cpu_gate;

void mr_cpu_pass_gate(void);
/* Another piece of work begins: wait for this job's turn. */
static inline void mr_cpu_yield(void)
{
    if (atomic_load_explicit(&mr_cpu_gate, memory_order_relaxed) != 0) {
        mr_cpu_pass_gate();
    }
}

/* mr_now_ns() without what this thread has waited at the gate: for how long work takes. */
int64_t mr_cpu_now_ns(void);

void mr_cpu_give_up(void);
/* This thread may wait for something now, and goes on without the gate until its next piece. */
static inline void mr_cpu_rest(void)
{
    if (atomic_load_explicit(&mr_cpu_gate, memory_order_relaxed) != 0) {
        mr_cpu_give_up();
    }
}

/* Work for another thread. Zero-initialise it. */
struct mr_cpu_work {
    struct mr_fair_piece piece;
    uint32_t gate; /* that counts it among what runs; 0: none */
    /* It may run. The lock of the gate may be held. */
    void (*go)(struct mr_cpu_work *work);
};
/* Calls work->go, now or when it is the turn of @share. */
void mr_cpu_submit(struct mr_cpu_work *work, mr_cpu_share *share);
/* true: @work waited, and will not go. */
bool mr_cpu_withdraw(struct mr_cpu_work *work);
/* @work went, and is not done after all. */
void mr_cpu_drop(struct mr_cpu_work *work);
/* This thread, which works for nobody, does @work for @share, until it leaves. */
void mr_cpu_begin(struct mr_cpu_work *work, mr_cpu_share *share);
/* Some work waits for its turn. */
bool mr_cpu_is_short(void);
/* Let go whose turn it is. Whoever has nothing else to do calls it every MR_CPU_LOOK_MS while work
 * waits: pieces may wait for something that nobody knows of. */
#define MR_CPU_LOOK_MS 10
void mr_cpu_look(void);
