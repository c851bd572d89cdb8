/* The hashes over long input, included once for each instruction set they are compiled for. All give the same result.
 */
#ifndef MR_BASE_HASH_KERNEL_H
#define MR_BASE_HASH_KERNEL_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <sys/uio.h>

static inline uint64_t mr_hash64_parts(const struct iovec *iov, size_t n)
{
    XXH3_state_t state;

    (void)XXH3_64bits_reset(&state);
    for (size_t i = 0; i < n; i++) {
        (void)XXH3_64bits_update(&state, iov[i].iov_base, iov[i].iov_len);
    }
    return XXH3_64bits_digest(&state);
}

#endif
