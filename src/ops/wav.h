/* WAV files of 16-bit PCM: the header is read, samples stay where they are. */
#pragma once

#include "ops/tensor.h"

struct mr_wav {
    uint32_t rate;
    uint32_t channels;
    uint64_t samples;          /* of each channel */
    const unsigned char *data; /* little-endian, the channels of a sample side by side */
};

/* MR_EINVAL says what is wrong with the bytes; they have all the samples that @ret says. */
int mr_wav_read(struct mr_string in, struct mr_wav *ret, mr_error *err);
