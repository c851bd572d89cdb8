/*
 * The hashes over long input, compiled once for each instruction set: the including file names it, and gets functions
 * of that name. All of them give the same result.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <sys/uio.h>

static uint64_t hash64_parts(const struct iovec *iov, size_t n)
{
    XXH3_state_t state;

    (void)XXH3_64bits_reset(&state);
    for (size_t i = 0; i < n; i++) {
        (void)XXH3_64bits_update(&state, iov[i].iov_base, iov[i].iov_len);
    }
    return XXH3_64bits_digest(&state);
}
