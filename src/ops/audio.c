/* WAV files as samples, and back. */
#include "ops/attr.h"
#include "ops/rows.h"
#include "ops/wav.h"

#define HEADER_BYTES 44
#define UNIT 32768.0f

/* ---- decode_wav: samples, then their rate ---- */

static int check_desired(struct mr_attrs attrs, const char *name, int64_t *ret, mr_error *err)
{
    int64_t n = mr_attr_int(attrs, name, -1);

    if (n < -1) {
        return mr_error_set(err, MR_EINVAL, "%s is %lld, it must be -1 or more", name,
                            (long long)n);
    }
    *ret = n == -1 ? MR_DIM_UNKNOWN : n;
    return MR_OK;
}

static int infer_decode_wav(struct mr_kernel_infer *it, mr_error *err)
{
    int64_t dims[2];

    MR_TRY(mr_infer_rank(it->in, 0, 0, err));
    MR_TRY(check_desired(it->attrs, "desired_samples", &dims[0], err));
    MR_TRY(check_desired(it->attrs, "desired_channels", &dims[1], err));
    if (it->cap < 2) {
        return mr_error_set(err, MR_EINVAL, "2 results are too many");
    }
    it->nout = 2;
    it->out[1] = it->out[0];
    mr_shape_set(&it->out[0], 2, dims);
    it->out[0].dtype = MR_FLOAT32;
    mr_shape_set(&it->out[1], 0, NULL);
    it->out[1].dtype = MR_INT32;
    return MR_OK;
}

static int dims_decode_wav(const struct mr_row *row, struct mr_leaf_spec *specs, mr_error *err)
{
    struct mr_wav wav;

    MR_TRY(mr_wav_read(mr_tensor_strings(&row->in[0])[0], &wav, err));
    specs[0].dims[0] = specs[0].dims[0] == MR_DIM_UNKNOWN ? (int64_t)wav.samples : specs[0].dims[0];
    specs[0].dims[1] = specs[0].dims[1] == MR_DIM_UNKNOWN ? wav.channels : specs[0].dims[1];
    return MR_OK;
}

/* Channels that are not there are the last one, samples that are not there are silence. */
static int fill_decode_wav(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    float *z = (float *)(void *)out->values;
    struct mr_wav wav;

    MR_TRY(mr_wav_read(mr_tensor_strings(&row->in[0])[0], &wav, err));
    if (out->index == 1) {
        mr_result_put_index(out, 0, wav.rate);
        return MR_OK;
    }
    const unsigned char *sample = wav.data;
    for (int64_t s = 0; s < MR_MIN(out->dims[0], (int64_t)wav.samples); s++) {
        for (int64_t c = 0; c < out->dims[1]; c++) {
            const unsigned char *at = sample + 2 * MR_MIN(c, (int64_t)wav.channels - 1);

            *z++ = (float)(int16_t)(uint16_t)(at[0] | at[1] << 8) / UNIT;
        }
        sample += 2 * wav.channels;
    }
    for (float *end = (float *)(void *)out->values + out->count; z < end; z++) {
        *z = 0;
    }
    return MR_OK;
}

MR_ROWS_KERNEL(decode_wav, 1, 1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_decode_wav, .dims = dims_decode_wav, .fill = fill_decode_wav,
               .attr_table = {{"desired_channels", MR_ATTR_INT, true},
                              {"desired_samples", MR_ATTR_INT, true}});

/* ---- encode_wav ---- */

static int infer_encode_wav(struct mr_kernel_infer *it, mr_error *err)
{
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_FLOAT32), err));
    MR_TRY(mr_infer_rank(it->in, 0, 2, err));
    MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
    MR_TRY(mr_infer_rank(it->in, 1, 0, err));
    mr_shape_set(it->out, 0, NULL);
    it->out->dtype = MR_STRING;
    return MR_OK;
}

static unsigned char *put(unsigned char *at, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        *at++ = (unsigned char)(v >> (8 * i));
    }
    return at;
}

static unsigned char *put_mark(unsigned char *at, const char *mark)
{
    while (*mark != '\0') {
        *at++ = (unsigned char)*mark++;
    }
    return at;
}

static unsigned char *put_header(unsigned char *at, uint32_t channels, uint32_t rate, uint32_t data)
{
    at = put_mark(at, "RIFF");
    at = put(at, data + HEADER_BYTES - 8, 4);
    at = put_mark(at, "WAVEfmt ");
    at = put(at, 16, 4);
    at = put(at, 1, 2); /* PCM */
    at = put(at, channels, 2);
    at = put(at, rate, 4);
    at = put(at, rate * channels * 2, 4);
    at = put(at, channels * 2, 2);
    at = put(at, 16, 2);
    at = put_mark(at, "data");
    return put(at, data, 4);
}

/* Half goes away from zero. NaN is silence. */
static uint32_t sample_of(float v)
{
    double scaled = (double)v * UNIT;
    double rounded = scaled < 0 ? scaled - 0.5 : scaled + 0.5;

    return scaled >= 32767    ? 32767u
           : scaled <= -32768 ? 0x8000u
           : scaled == scaled ? (uint16_t)(int16_t)rounded
                              : 0;
}

static int fill_encode_wav(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_tensor *x = &row->in[0];
    int64_t rate = mr_tensor_index(&row->in[1], 0);
    const float *values = (const float *)(const void *)x->values;

    /* The header has the bytes of a sample of all channels as 16 bits, those of a second as 32. */
    if (x->dims[1] < 1 || x->dims[1] > UINT16_MAX / 2) {
        return mr_error_set(err, MR_EINVAL, "%lld channels, there may be 1 to %d",
                            (long long)x->dims[1], UINT16_MAX / 2);
    }
    if (rate < 1 || rate > UINT32_MAX / (2 * x->dims[1])) {
        return mr_error_set(
            err, MR_EINVAL, "a sample rate of %lld, of %lld channels it may be 1 to %lld",
            (long long)rate, (long long)x->dims[1], (long long)UINT32_MAX / (2 * x->dims[1]));
    }
    size_t bytes = HEADER_BYTES + (size_t)x->count * 2;
    unsigned char *made = mr_output_bytes(out->column, bytes, err);
    if (made == NULL) {
        return MR_EEXHAUSTED;
    }
    unsigned char *at =
        put_header(made, (uint32_t)x->dims[1], (uint32_t)rate, (uint32_t)(x->count * 2));
    for (uint64_t i = 0; i < x->count; i++) {
        at = put(at, sample_of(values[i]), 2);
    }
    mr_result_strings(out)[0] = (struct mr_string){made, bytes};
    return MR_OK;
}

MR_ROWS_KERNEL(encode_wav, 2, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_encode_wav,
               .fill = fill_encode_wav);
