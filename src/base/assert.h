/* Assertions for programmer mistakes; they stay on in release builds. Bytes from outside are
 * checked, never asserted. MR_ASSERT for cheap facts, MR_ASSERT_SLOW for walks over a structure
 * (presets dev and asan). One that fails prints the last events (base/events.h), then itself, and
 * aborts. */
#pragma once

_Noreturn void mr_assert_failed(const char *expr, const char *file, int line, const char *func);

#define MR_ASSERT(expr)                                                                            \
    do {                                                                                           \
        if (__builtin_expect(!(expr), 0)) {                                                        \
            mr_assert_failed(#expr, __FILE__, __LINE__, __func__);                                 \
        }                                                                                          \
    } while (0)

#ifdef MR_SLOW_ASSERTIONS
#define MR_ASSERT_SLOW(expr) MR_ASSERT(expr)
#else
/* Compiled, so that it stays right, and never run. */
#define MR_ASSERT_SLOW(expr)                                                                       \
    do {                                                                                           \
        if (0) {                                                                                   \
            (void)(expr);                                                                          \
        }                                                                                          \
    } while (0)
#endif

/* An object that comes back as a void * has a magic, which is checked where it is cast. */
#define MR_CHECK_MAGIC(object, expected) MR_ASSERT((object)->magic == (expected))
