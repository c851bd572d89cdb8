/* What nearly every file is made of: memory, errors, assertions, how a function leaves early, and
 * the smaller of two numbers; and what all of these need of C's library. */
#pragma once

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/scope.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of two numbers of one type; each is evaluated once. */
#define MR_MIN(a, b) MR_EITHER(<, a, b, __COUNTER__)
#define MR_MAX(a, b) MR_EITHER(>, a, b, __COUNTER__)
#define MR_EITHER(op, a, b, n) MR_EITHER_OF(op, a, b, n) /* so that @n is a number */
#define MR_EITHER_OF(op, a, b, n)                                                                  \
    ({                                                                                             \
        __typeof__(1 ? (a) : (b)) mr_a##n = (a);                                                   \
        __typeof__(1 ? (a) : (b)) mr_b##n = (b);                                                   \
        mr_a##n op mr_b##n ? mr_a##n : mr_b##n;                                                    \
    })
