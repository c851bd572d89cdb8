#include "base/heap.h"

#include "base/base.h"
#include "base/limits.h"
#include "base/spare.h"

#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static bool left_alone(void)
{
    const char *words = getenv("MILLRACE_MALLOC");

    return words != NULL && strcmp(words, "keep") == 0;
}

/* glibc gives the top of the heap back after each message and faults it in again: 600,000 page
 * faults for 10 GB. Raising the trim threshold more than doubles the throughput of large messages.
 */
void mr_heap_keep_large(void)
{
    if (left_alone()) {
        return;
    }
    (void)mallopt(M_TRIM_THRESHOLD, (int)(1024 * MR_MIB));
    (void)mallopt(M_TOP_PAD, (int)(64 * MR_MIB));
    (void)mallopt(M_MMAP_THRESHOLD, (int)(32 * MR_MIB));
}

void mr_heap_few_arenas(void)
{
    cpu_set_t cores;

    if (!left_alone() && sched_getaffinity(0, sizeof cores, &cores) == 0) {
        (void)mallopt(M_ARENA_MAX, CPU_COUNT(&cores) + 1);
    }
}

/* Memory of this process that no file is behind; 0: the system does not say. */
static size_t anonymous_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long resident = 0, shared = 0;

    if (f == NULL) {
        return 0;
    }
    int n = fscanf(f, "%*u %lu %lu", &resident,
                   &shared); /* NOLINT(cert-err34-c): the kernel wrote it */
    (void)fclose(f);
    return n == 2 && resident > shared ? (resident - shared) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

void mr_heap_trim(void)
{
    size_t resident = anonymous_bytes();

    if (left_alone() || resident <= MR_HEAP_FREE_BYTES) {
        return;
    }
    /* Of what is free to malloc a part was given back before, and of what is resident a part is not
     * malloc's. */
    struct mallinfo2 info = mallinfo2();
    size_t spare = mr_spare_bytes();
    size_t used = info.uordblks + info.hblkhd - spare;
    if (info.fordblks + spare > MR_HEAP_FREE_BYTES && resident > used &&
        resident - used > MR_HEAP_FREE_BYTES) {
        mr_spare_trim();
        (void)malloc_trim(0);
    }
}
