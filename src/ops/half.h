/* float16 and bfloat16 as bits: kernels compute in float32 and round to nearest even. */
#pragma once

#include <stdint.h>
#include <string.h>

typedef struct {
    uint16_t bits;
} mr_half;

typedef struct {
    uint16_t bits;
} mr_bfloat;

static inline float mr_float_from_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t mr_float_bits(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float mr_bfloat_load(mr_bfloat b)
{
    return mr_float_from_bits((uint32_t)b.bits << 16);
}

static inline mr_bfloat mr_bfloat_store(float f)
{
    uint32_t x = mr_float_bits(f);

    if ((x & 0x7fffffffu) > 0x7f800000u) {
        return (mr_bfloat){(uint16_t)((x >> 16) | 0x40u)}; /* a NaN stays one */
    }
    return (mr_bfloat){(uint16_t)((x + 0x7fffu + ((x >> 16) & 1u)) >> 16)};
}

static inline float mr_half_load(mr_half h)
{
    uint32_t sign = (uint32_t)(h.bits & 0x8000u) << 16;
    uint32_t exponent = (h.bits >> 10) & 0x1fu;
    uint32_t fraction = h.bits & 0x3ffu;

    if (exponent == 0x1f) {
        return mr_float_from_bits(sign | 0x7f800000u | (fraction << 13));
    }
    if (exponent == 0) {
        float f = (float)fraction * 0x1p-24f; /* subnormal or zero: exact */

        return sign != 0 ? -f : f;
    }
    return mr_float_from_bits(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

static inline mr_half mr_half_store(float f)
{
    uint32_t x = mr_float_bits(f);
    uint32_t sign = (x >> 16) & 0x8000u;
    uint32_t magnitude = x & 0x7fffffffu;

    if (magnitude > 0x7f800000u) {
        return (mr_half){(uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu))};
    }
    if (magnitude >= 0x477ff000u) { /* rounds to 65536 or more, and infinity */
        return (mr_half){(uint16_t)(sign | 0x7c00u)};
    }
    if (magnitude < 0x38800000u) { /* subnormal: let the float unit round at 2^-24 */
        float scaled = mr_float_from_bits(magnitude) + 0.5f;

        return (mr_half){(uint16_t)(sign | (mr_float_bits(scaled) - 0x3f000000u))};
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (mr_half){(uint16_t)(sign | ((rounded - 0x38000000u) >> 13))};
}
