/*
 * Giving up what a thread computes: a flag of whoever it works for, which loops that may take long
 * look at. As with the memory budget (memory.h), each thread has its own.
 *
 * Not for: waiting. Who waits is woken.
 *
 * Threads: safe from any thread.
 */
#pragma once

#include <millrace/base.h>
#include <stdatomic.h>

/* What this thread does from now on is given up when @flag (lent; NULL: nobody can) is set. Returns
 * what it was before, to be entered again. */
const atomic_bool *mr_cancel_enter(const atomic_bool *flag);
/* MR_ECANCELED if it is set. Cheap enough for every row. */
int mr_cancel_check(mr_error *err);
