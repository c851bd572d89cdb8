#include "base/events.h"

#include "base/base.h"
#include "base/clock.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE_BYTES (MR_EVENT_BYTES_MAX + 40) /* with what stands in front */
#define WORDS (LINE_BYTES / sizeof(uint64_t))

/* Words, not bytes: readers and a writer may meet in a slot, so that each access has to be atomic.
 * A writer that finds another one in its slot (64 events later, and not done) drops its event. */
struct slot {
    _Atomic uint64_t number; /* of the event, from 1; 0: none so far */
    _Atomic uint64_t words[WORDS];
};
#define BUSY UINT64_MAX

static struct slot ring[MR_EVENTS_KEPT];
static _Atomic uint64_t last;

_Static_assert(LINE_BYTES % sizeof(uint64_t) == 0, "a line is made of words");

void mr_event(const char *fmt, ...)
{
    uint64_t words[WORDS] = {0};
    char *line = (char *)words;
    int64_t ms = mr_now_ms();
    uint64_t number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    struct slot *s = &ring[number % MR_EVENTS_KEPT];
    va_list ap;

    int n = snprintf(line, LINE_BYTES, "%lld.%03d [%ld] ", (long long)(ms / 1000), (int)(ms % 1000),
                     syscall(SYS_gettid));
    va_start(ap, fmt);
    (void)vsnprintf(line + n, MR_EVENT_BYTES_MAX, fmt, ap);
    va_end(ap);
    if (atomic_exchange_explicit(&s->number, BUSY, memory_order_acquire) == BUSY) {
        return;
    }
    for (size_t i = 0; i < WORDS; i++) { /* whoever sees a new word sees BUSY */
        atomic_store_explicit(&s->words[i], words[i], memory_order_release);
    }
    atomic_store_explicit(&s->number, number, memory_order_release);
}

/* The event of that number, or false: it was overwritten, or is not complete. */
static bool read_event(uint64_t number, uint64_t words[WORDS])
{
    const struct slot *s = &ring[number % MR_EVENTS_KEPT];

    if (atomic_load_explicit(&s->number, memory_order_acquire) != number) {
        return false;
    }
    for (size_t i = 0; i < WORDS; i++) {
        words[i] = atomic_load_explicit(&s->words[i], memory_order_acquire);
    }
    return atomic_load_explicit(&s->number, memory_order_relaxed) == number;
}

void mr_events_print(int fd)
{
    uint64_t end = atomic_load(&last);
    uint64_t number = end > MR_EVENTS_KEPT ? end - MR_EVENTS_KEPT : 0;

    while (number++ < end) {
        uint64_t words[WORDS + 1];
        char *line = (char *)words;

        if (read_event(number, words)) {
            size_t n = strnlen(line, LINE_BYTES - 1);

            line[n] = '\n';
            ssize_t written = write(fd, line, n + 1);
            (void)written; /* nobody is left to tell */
        }
    }
}
