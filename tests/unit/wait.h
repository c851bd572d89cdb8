/* Waiting for a condition on the test's own thread. */
#pragma once

#include "base/sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Longer than anything takes; then the test fails instead of hanging. */
#define PATIENCE_MS 30000

/* With @o->lock held, which guards @condition; who changes it tells @o->changed. */
#define WAIT_UNTIL(o, condition)                                                                   \
    while (!(condition)) {                                                                         \
        if (!mr_cond_wait_ms(&(o)->changed, &(o)->lock, PATIENCE_MS)) {                            \
            fail_msg("waited in vain for: %s", #condition);                                        \
        }                                                                                          \
    }
