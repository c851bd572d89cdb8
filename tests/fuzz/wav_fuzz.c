/* Any bytes as WAV: all samples that the header promises lie within them. */
#include "ops/wav.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned char sink; /* reading is what a sanitizer looks at */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mr_wav wav;
    mr_error err;

    if (mr_wav_read((struct mr_string){data, size}, &wav, &err) != MR_OK) {
        return 0;
    }
    if (wav.channels == 0 || wav.samples > size / (2 * wav.channels)) {
        abort();
    }
    for (size_t i = 0; i < (size_t)wav.samples * 2 * wav.channels; i++) {
        sink = wav.data[i];
    }
    return 0;
}
