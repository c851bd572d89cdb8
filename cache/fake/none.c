/* Where there is no disk to be had: windows are in memory (mr_cache_open_memory()). */
#include "base/base.h"
#include "cache/cache.h"

int mr_cache_open(const struct mr_cache_options *opts, mr_cache **ret, mr_error *err)
{
    return mr_error_set(err, MR_EUNIMPL, "cache directory '%s': built without a cache on disk",
                        MR_SHOWN(opts->dir));
}
