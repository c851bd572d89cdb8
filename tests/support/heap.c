#include "tests/support/heap.h"

#include "base/base.h"
#include "base/heap.h"

#include <stdlib.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)64 << 10)
#define PIECES (2 * MR_HEAP_FREE_BYTES / PIECE_BYTES)

static void *volatile pins[PIECES]; /* read by nobody, and still to be made */

void mr_test_heap_spike(void)
{
    static void *pieces[PIECES];

    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = malloc(PIECE_BYTES);
        pins[i] = malloc(16);
        memset(pieces[i], 1, PIECE_BYTES);
    }
    for (size_t i = 0; i < PIECES; i++) {
        free(pieces[i]);
    }
}

size_t mr_test_resident_bytes(void)
{
    unsigned long resident = 0, shared = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f == NULL || fscanf(f, "%*u %lu %lu", &resident, &shared) != 2) {
        abort();
    }
    (void)fclose(f);
    return (resident - shared) * (size_t)sysconf(_SC_PAGESIZE);
}
