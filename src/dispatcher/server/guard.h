/*
 * Who may call what: each call to a dispatcher is asked for its token or certificate before anything
 * else of it is looked at. Which roles a method takes is in its row (turn/method.h).
 *
 * Threads: mr_guard_check() on the RPC thread; the rest belongs to whoever starts and ends it.
 */
#pragma once

#include "access/access.h"
#include "rpc/rpc.h"

#include <stdatomic.h>

struct mr_guard {
    mr_access *access; /* NULL: everybody may everything */
    /* What was refused since it was told last, and when to tell again. */
    unsigned refused;
    int64_t tell_ms;
    _Atomic uint64_t unknown;   /* calls of nobody who is known, so far */
    _Atomic uint64_t forbidden; /* calls of somebody who may not */
};

/* @path NULL: everybody. MR_EINVAL: what is wrong with the file. */
int mr_guard_open(struct mr_guard *g, const char *path, mr_error *err);
void mr_guard_close(struct mr_guard *g);
mr_rpc_guard mr_guard_check; /* its ctx is a struct mr_guard */
