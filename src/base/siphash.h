/* SipHash-2-4: a keyed hash that nobody can guess who does not have the key. For short texts. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define MR_SIPHASH_KEY_BYTES 16

uint64_t mr_siphash(const uint8_t key[MR_SIPHASH_KEY_BYTES], const void *p, size_t n);
