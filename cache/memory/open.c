/* A cache without a disk. */
#include "base/error.h"
#include "base/limits.h"
#include "base/scope.h"
#include "cache/internal.h"
#include "cache/memory/memory.h"

#include <inttypes.h>

#define BYTES_MIN (8 * MR_MIB)

int mr_cache_open_memory(uint64_t bytes_max, mr_cache **ret, mr_error *err)
{
    struct mr_cache_limits limits = {.log_bytes_max = bytes_max,
                                     .log_memory_bytes =
                                         bytes_max / 4 /* the most a window takes */,
                                     .logs_max = 1};
    mr_storage *storage;

    if (bytes_max < BYTES_MIN) {
        return mr_error_set(err, MR_EINVAL,
                            "%" PRIu64 " bytes are too few for a window, %llu is the least",
                            bytes_max, BYTES_MIN);
    }
    MR_TRY(mr_storage_memory_new(&storage, err));
    return mr_cache_new(storage, &limits, ret, err);
}
