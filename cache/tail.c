#include "cache/internal.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/scope.h"

#include <string.h>

int mr_cache_tail_push(struct mr_cache_tail *tail, struct mr_cache_run *run, mr_error *err)
{
    if (tail->first + tail->n == tail->cap && tail->first > tail->cap / 2) {
        memmove(tail->runs, tail->runs + tail->first, tail->n * sizeof(struct mr_cache_run *));
        tail->first = 0;
    }
    if (!mr_grow(&tail->runs, &tail->cap, tail->first + tail->n, 1,
                 sizeof(struct mr_cache_run *))) {
        return mr_error_nomem(err);
    }
    tail->runs[tail->first + tail->n++] = run;
    return MR_OK;
}

struct mr_cache_run *mr_cache_tail_last(const struct mr_cache_tail *tail)
{
    return tail->n == 0 ? NULL : tail->runs[tail->first + tail->n - 1];
}

struct mr_cache_run *mr_cache_tail_find(const struct mr_cache_tail *tail, uint64_t index)
{
    size_t low = tail->first, high = tail->first + tail->n;
    struct mr_cache_run *run;

    /* Most readers are near the end, which the search reaches in a few steps all the same. */
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        run = tail->runs[middle];
        if (index < run->first) {
            high = middle;
        } else if (index >= run->first + run->rows) {
            low = middle + 1;
        } else {
            return run;
        }
    }
    return NULL;
}
