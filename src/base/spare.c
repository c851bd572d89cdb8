#include "base/spare.h"

#include "base/alloc.h"
#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>

/* Sizes are rounded up to an eighth of a power of two: at most 12.5 % is not used. */
#define STEPS 8u
#define CLASSES (64u * STEPS)
/* Among so many that came last a thread looks for its own: others do the same work beside it. */
#define NEWEST 8

/* In front of each piece; what follows `class` lies in the memory that is given out, and is there
 * while the piece is unused. */
struct piece {
    size_t bytes; /* of the class, header included; 0: malloc's */
    size_t class;
    struct piece *next_of_class;
    struct piece *older; /* of all that are unused */
    struct piece *newer;
    struct piece *previous_of_class;
    const void *freed_by;
    uint64_t freed_at; /* given_back, then */
};

#define HEADER_BYTES offsetof(struct piece, next_of_class)

_Static_assert(HEADER_BYTES % 16 == 0, "the memory is aligned as malloc's");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct piece *newest;
    struct piece *oldest;
} unused[CLASSES];
static struct piece *newest;
static struct piece *oldest;
static size_t unused_bytes;
static uint64_t given_back;            /* bytes, since the process began */
static _Thread_local char this_thread; /* its address is the thread's name */

static bool reuses(void)
{
#ifdef MR_SANITIZE
    return false; /* a use of what was freed would not be seen */
#else
    static _Atomic int known; /* 0: not yet, 1: no, 2: yes */

    if (known == 0) {
        const char *words = getenv("MILLRACE_MALLOC");

        known = words != NULL && strcmp(words, "keep") == 0 ? 1 : 2;
    }
    return known == 2;
#endif
}

/* The class of @size and its bytes. */
static size_t class_of(size_t size, size_t *bytes)
{
    unsigned log = 63u - (unsigned)__builtin_clzll((unsigned long long)size);
    size_t step = ((size_t)1 << log) / STEPS;
    size_t steps = (size - ((size_t)1 << log) + step - 1) / step;

    *bytes = ((size_t)1 << log) + steps * step;
    return log * STEPS + steps;
}

/* Under the lock. */
static void take_out(struct piece *p)
{
    *(p->newer != NULL ? &p->newer->older : &newest) = p->older;
    *(p->older != NULL ? &p->older->newer : &oldest) = p->newer;
    *(p->previous_of_class != NULL ? &p->previous_of_class->next_of_class
                                   : &unused[p->class].newest) = p->next_of_class;
    *(p->next_of_class != NULL ? &p->next_of_class->previous_of_class : &unused[p->class].oldest) =
        p->previous_of_class;
    unused_bytes -= p->bytes;
}

static void put_in(struct piece *p)
{
    p->older = newest;
    p->newer = NULL;
    *(newest != NULL ? &newest->newer : &oldest) = p;
    newest = p;
    p->previous_of_class = NULL;
    p->next_of_class = unused[p->class].newest;
    *(p->next_of_class != NULL ? &p->next_of_class->previous_of_class : &unused[p->class].oldest) =
        p;
    unused[p->class].newest = p;
    unused_bytes += p->bytes;
    given_back += p->bytes;
    p->freed_by = &this_thread;
    p->freed_at = given_back;
}

/* Under the lock: which of the class is best written by this thread; NULL: none. */
static struct piece *best_of(size_t class)
{
    struct piece *p = unused[class].newest;

    for (int i = 0; p != NULL && i < NEWEST; i++, p = p->next_of_class) {
        if (p->freed_by == &this_thread) {
            return p;
        }
    }
    p = unused[class].oldest;
    return p != NULL && given_back - p->freed_at + p->bytes >= MR_SPARE_REST_BYTES ? p : NULL;
}

/* A lock that is held, perhaps for good by a thread that was not forked, is no reason to wait. */
static struct piece *reuse(size_t class)
{
    struct piece *p = NULL;

    if (pthread_mutex_trylock(&lock) == 0) {
        p = best_of(class);
        if (p != NULL) {
            take_out(p);
        }
        (void)pthread_mutex_unlock(&lock);
    }
    return p;
}

void *mr_spare_malloc(size_t size)
{
    struct piece *p = NULL;
    size_t total;
    size_t bytes = 0;
    size_t class = 0;

    if (__builtin_add_overflow(size, HEADER_BYTES, &total)) {
        return NULL;
    }
    if (total >= MR_SPARE_PIECE_MIN && total <= MR_SPARE_BYTES_MAX && reuses()) {
        class = class_of(total, &bytes);
        p = reuse(class);
    }
    if (p == NULL) {
        p = mr_malloc(bytes > 0 ? bytes : total);
        if (p == NULL) {
            return NULL;
        }
        mr_advise_large(p, bytes);
        p->bytes = bytes;
        p->class = class;
    }
    return (unsigned char *)p + HEADER_BYTES;
}

void mr_spare_free(void *memory)
{
    struct piece *p = memory != NULL ? (void *)((unsigned char *)memory - HEADER_BYTES) : NULL;
    struct piece *gone = NULL; /* through next_of_class */

    if (p == NULL || p->bytes == 0 || pthread_mutex_trylock(&lock) != 0) {
        mr_free(p);
        return;
    }
    put_in(p);
    while (unused_bytes > MR_SPARE_BYTES_MAX) {
        struct piece *last = oldest;

        take_out(last);
        last->next_of_class = gone;
        gone = last;
    }
    (void)pthread_mutex_unlock(&lock);
    while (gone != NULL) {
        struct piece *next = gone->next_of_class;

        mr_free(gone);
        gone = next;
    }
}

void mr_spare_trim(void)
{
    struct piece *p = NULL;

    if (pthread_mutex_trylock(&lock) != 0) {
        return;
    }
    p = newest;
    newest = oldest = NULL;
    memset(unused, 0, sizeof unused);
    unused_bytes = 0;
    (void)pthread_mutex_unlock(&lock);
    while (p != NULL) {
        struct piece *older = p->older;

        mr_free(p);
        p = older;
    }
}

size_t mr_spare_bytes(void)
{
    size_t bytes = 0;

    if (pthread_mutex_trylock(&lock) == 0) {
        bytes = unused_bytes;
        (void)pthread_mutex_unlock(&lock);
    }
    return bytes;
}
