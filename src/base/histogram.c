#include "base/histogram.h"

#define FIRST_NS INT64_C(500000)

int64_t mr_histogram_bound_ns(size_t i)
{
    return FIRST_NS << i;
}

void mr_histogram_note(struct mr_histogram *h, int64_t ns)
{
    int64_t took = ns > 0 ? ns : 0;
    size_t i = 0;

    while (i < MR_HISTOGRAM_BOUNDS && took > mr_histogram_bound_ns(i)) {
        i++;
    }
    (void)atomic_fetch_add_explicit(&h->counts[i], 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&h->sum_ns, (uint64_t)took, memory_order_relaxed);
}
