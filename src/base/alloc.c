#include "base/base.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((uintptr_t)2 << 20) /* of x86-64, and of arm64 with small pages of 4 KiB */

static atomic_uint_least64_t allocations;
static atomic_uint_least64_t fail_at; /* absolute count; 0 = never */

static bool must_fail(void)
{
    uint64_t n = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;

    return n == atomic_load_explicit(&fail_at, memory_order_relaxed);
}

void mr_alloc_fail_at(uint64_t nth)
{
    atomic_store(&fail_at, nth == 0 ? 0 : atomic_load(&allocations) + nth);
}

uint64_t mr_alloc_count(void)
{
    return atomic_load(&allocations);
}

void *mr_malloc(size_t size)
{
    return must_fail() ? NULL : malloc(size == 0 ? 1 : size);
}

void *mr_calloc(size_t n, size_t size)
{
    return must_fail() ? NULL : calloc(n == 0 ? 1 : n, size == 0 ? 1 : size);
}

void *mr_realloc(void *p, size_t size)
{
    return must_fail() ? NULL : realloc(p, size == 0 ? 1 : size);
}

void *mr_reallocarray(void *p, size_t n, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(n, size, &total)) {
        return NULL;
    }
    return mr_realloc(p, total);
}

void mr_advise_large(void *p, size_t size)
{
    uintptr_t begin = ((uintptr_t)p + HUGE_PAGE_BYTES - 1) & ~(HUGE_PAGE_BYTES - 1);
    uintptr_t end = ((uintptr_t)p + size) & ~(HUGE_PAGE_BYTES - 1);

    if (size >= 2 * HUGE_PAGE_BYTES) { /* one whole page at least is in it */
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    }
}

bool mr_grow(void *array, size_t *cap, size_t n, size_t more, size_t size)
{
    size_t want = *cap * 2 > n + more ? *cap * 2 : n + more + 8;
    void *grown;

    if (n + more <= *cap) {
        return true;
    }
    memcpy(&grown, array, sizeof grown);
    grown = mr_reallocarray(grown, want, size);
    if (grown == NULL) {
        return false;
    }
    memcpy(array, &grown, sizeof grown);
    *cap = want;
    return true;
}

void *mr_malloc_aligned(size_t size)
{
    size_t padded;

    if (must_fail() || __builtin_add_overflow(size, (size_t)MR_ALIGNMENT - 1, &padded)) {
        return NULL;
    }
    padded -= padded % MR_ALIGNMENT;
    return aligned_alloc(MR_ALIGNMENT, padded == 0 ? MR_ALIGNMENT : padded);
}

char *mr_strdup(const char *s)
{
    return mr_strndup(s, strlen(s));
}

char *mr_strndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = mr_malloc(len + 1);

    if (copy != NULL) {
        memcpy(copy, s, len);
        copy[len] = '\0';
    }
    return copy;
}

void *mr_memdup(const void *p, size_t n)
{
    void *copy = mr_malloc(n);

    if (copy != NULL && n > 0) {
        memcpy(copy, p, n);
    }
    return copy;
}

char *mr_asprintf(const char *fmt, ...)
{
    va_list ap;
    char *s = NULL;
    int n;

    if (must_fail()) {
        return NULL;
    }
    va_start(ap, fmt);
    n = vasprintf(&s, fmt, ap);
    va_end(ap);
    return n < 0 ? NULL : s;
}

void mr_free(void *p)
{
    free(p);
}
