/* What TensorFlow's decoder accepts, no more and no less: "fmt " comes first, chunks are not
 * padded, and nothing but whole chunks may follow the samples. */
#include "ops/wav.h"

struct cursor {
    const unsigned char *at;
    size_t left;
};

static int take(struct cursor *c, size_t n, mr_error *err)
{
    if (n > c->left) {
        return mr_error_set(err, MR_EINVAL, "WAV: the data ends early: %zu bytes where %zu are due",
                            c->left, n);
    }
    c->at += n;
    c->left -= n;
    return MR_OK;
}

static uint32_t number(const unsigned char *at, int bytes)
{
    uint32_t v = 0;

    for (int i = bytes; i-- > 0;) {
        v = v << 8 | at[i];
    }
    return v;
}

static int expect(struct cursor *c, const char *name, mr_error *err)
{
    const unsigned char *found = c->at;
    char text[MR_SHOWN_BYTES + 1];
    char raw[5] = {0};

    MR_TRY(take(c, 4, err));
    if (memcmp(found, name, 4) == 0) {
        return MR_OK;
    }
    memcpy(raw, found, 4);
    (void)mr_escape(raw, text, sizeof text);
    return mr_error_set(err, MR_EINVAL, "WAV: '%s' where '%s' is due", text, name);
}

static int read_format(struct cursor *c, struct mr_wav *ret, mr_error *err)
{
    const unsigned char *at = c->at;

    MR_TRY(take(c, 4, err));
    uint32_t size = number(at, 4);
    if (size != 16 && size != 18) {
        return mr_error_set(err, MR_EINVAL, "WAV: a format of %u bytes; it has 16 or 18", size);
    }
    at = c->at;
    MR_TRY(take(c, size, err));
    uint32_t format = number(at, 2);
    uint32_t bits = number(at + 14, 2);
    ret->channels = number(at + 2, 2);
    ret->rate = number(at + 4, 4);
    if (format != 1 || bits != 16) {
        return mr_error_set(err, MR_EINVAL,
                            "WAV: format %u of %u bits; only PCM (1) of 16 bits is read", format,
                            bits);
    }
    if (ret->channels == 0) {
        return mr_error_set(err, MR_EINVAL, "WAV: no channels");
    }
    if (number(at + 12, 2) != 2 * ret->channels ||
        number(at + 8, 4) != 2 * (uint64_t)ret->channels * ret->rate) {
        return mr_error_set(err, MR_EINVAL,
                            "WAV: %u channels at a rate of %u do not have %u bytes a sample and %u "
                            "bytes a second",
                            ret->channels, ret->rate, number(at + 12, 2), number(at + 8, 4));
    }
    return MR_OK;
}

static int read_samples(struct cursor *c, uint32_t size, struct mr_wav *ret, mr_error *err)
{
    if (ret->data != NULL) {
        return mr_error_set(err, MR_EINVAL, "WAV: more than one chunk of data");
    }
    ret->samples = size / (2 * ret->channels);
    ret->data = c->at;
    return take(c, (size_t)ret->samples * 2 * ret->channels, err);
}

int mr_wav_read(struct mr_string in, struct mr_wav *ret, mr_error *err)
{
    struct cursor c = {in.data, in.size};
    struct mr_wav found = {0};

    MR_TRY(expect(&c, "RIFF", err));
    MR_TRY(take(&c, 4, err)); /* its size: of no account */
    MR_TRY(expect(&c, "WAVE", err));
    MR_TRY(expect(&c, "fmt ", err));
    MR_TRY(read_format(&c, &found, err));
    while (c.left > 0) {
        const unsigned char *at = c.at;

        MR_TRY(take(&c, 8, err));
        uint32_t size = number(at + 4, 4);

        if (size > INT32_MAX) {
            return mr_error_set(err, MR_EINVAL, "WAV: a chunk of %u bytes", size);
        }
        if (memcmp(at, "data", 4) == 0) {
            MR_TRY(read_samples(&c, size, &found, err));
        } else {
            MR_TRY(take(&c, MR_MIN(size, c.left), err));
        }
    }
    if (found.data == NULL) {
        return mr_error_set(err, MR_EINVAL, "WAV: no chunk of data");
    }
    *ret = found;
    return MR_OK;
}
