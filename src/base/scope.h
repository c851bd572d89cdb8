/*
 * How a function leaves early and still tidies up. The failure is returned at the line where it is
 * seen; what the function holds is declared with the way to free it, which runs at the end of the
 * scope however that is left.
 *
 *     MR_AUTO(mr_free) char *key = mr_asprintf("jobs/%s", id);
 *     MR_AUTO(mr_spec_free) mr_spec *spec = NULL;
 *
 *     MR_CHECK_ALLOC(key, err);
 *     MR_TRY(mr_spec_new(leaves, n, structure, &spec, err));
 *     *ret = MR_TAKE(spec);
 *     return MR_OK;
 *
 * MR_AUTO(fn) wants MR_AUTO_DEFINE(type, fn) beside the declaration of fn, a function that takes
 * NULL; mr_free has it here. Declare such a variable with its value: what has none is not freed
 * safely. MR_TRY() passes on anything but MR_OK, MR_END among it.
 */
#pragma once

#include <millrace/base.h>

#include "base/error.h"

#include <string.h>

#define MR_TRY(call)                                                                               \
    do {                                                                                           \
        int mr_try_rc = (call);                                                                    \
        if (mr_try_rc != MR_OK) {                                                                  \
            return mr_try_rc;                                                                      \
        }                                                                                          \
    } while (0)

/* The same with a context put in front of the message, as mr_error_wrap() does. */
#define MR_TRY_WRAP(call, err, ...)                                                                \
    do {                                                                                           \
        int mr_try_rc = (call);                                                                    \
        if (mr_try_rc != MR_OK) {                                                                  \
            mr_error_wrap((err), __VA_ARGS__);                                                     \
            return mr_try_rc;                                                                      \
        }                                                                                          \
    } while (0)

/* "out of memory", if @p is NULL. */
#define MR_CHECK_ALLOC(p, err)                                                                     \
    do {                                                                                           \
        if ((p) == NULL) {                                                                         \
            return mr_error_nomem(err);                                                            \
        }                                                                                          \
    } while (0)

#define MR_AUTO(fn) __attribute__((cleanup(fn##_scope)))
#define MR_AUTO_DEFINE(type, fn)                                                                   \
    static inline void fn##_scope(type **p)                                                        \
    {                                                                                              \
        fn(*p);                                                                                    \
    }

/* Any pointer; what mr_malloc() and its like gave. */
static inline void mr_free_scope(void *p)
{
    void *it;

    memcpy(&it, p, sizeof it);
    mr_free(it);
}

/* The value of the pointer @p, which is NULL then: the scope does not free it. */
#define MR_TAKE(p)                                                                                 \
    ({                                                                                             \
        __typeof__(p) mr_taken = (p);                                                              \
        (p) = NULL;                                                                                \
        mr_taken;                                                                                  \
    })
