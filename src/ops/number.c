#include "ops/number.h"

#include "ops/attr.h"
#include "ops/locale.h"

#include <stdlib.h>
#include <strings.h>

struct mr_string mr_strip(struct mr_string s)
{
    while (s.size > 0 && mr_is_blank(s.data[0])) {
        s.data++;
        s.size--;
    }
    while (s.size > 0 && mr_is_blank(s.data[s.size - 1])) {
        s.size--;
    }
    return s;
}

bool mr_number_i64(struct mr_string s, int64_t *ret)
{
    uint64_t value = 0;
    size_t i = 0;

    s = mr_strip(s);
    bool negative = s.size > 0 && s.data[0] == '-';
    i += negative;
    if (i == s.size) {
        return false;
    }
    for (; i < s.size; i++) {
        unsigned digit = s.data[i] - (unsigned)'0';

        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value)) {
            return false;
        }
    }
    if (value > (uint64_t)INT64_MAX + negative) {
        return false;
    }
    *ret = (int64_t)(negative ? 0 - value : value);
    return true;
}

bool mr_number_i32(struct mr_string s, int32_t *ret)
{
    int64_t wide;

    if (!mr_number_i64(s, &wide) || wide < INT32_MIN || wide > INT32_MAX) {
        return false;
    }
    *ret = (int32_t)wide;
    return true;
}

/* ---- fractions ---- */

/* digits * 10^power, as it is written; false: not so simple. */
struct decimal {
    uint64_t digits;
    int power;
    bool negative;
};

static bool read_exponent(const unsigned char *p, const unsigned char *end, int *ret)
{
    bool negative = p < end && *p == '-';
    int value = 0;

    p += p < end && (*p == '-' || *p == '+');
    if (p == end || end - p > 3) {
        return false;
    }
    for (; p < end; p++) {
        unsigned digit = *p - (unsigned)'0';

        if (digit > 9) {
            return false;
        }
        value = value * 10 + (int)digit;
    }
    *ret = negative ? -value : value;
    return true;
}

/* At most 19 digits, which fit. */
static bool read_decimal(struct mr_string s, struct decimal *ret)
{
    const unsigned char *p = s.data;
    const unsigned char *end = s.data + s.size;
    int count = 0;
    int behind = 0;
    int exponent = 0;
    bool point = false;

    *ret = (struct decimal){.negative = p < end && *p == '-'};
    p += p < end && (*p == '-' || *p == '+');
    for (; p < end; p++) {
        unsigned digit = *p - (unsigned)'0';

        if (*p == '.' && !point) {
            point = true;
        } else if (digit <= 9 && count < 19) {
            ret->digits = ret->digits * 10 + digit;
            count++;
            behind += point;
        } else {
            break;
        }
    }
    if (count == 0) {
        return false;
    }
    if (p < end && ((*p != 'e' && *p != 'E') || !read_exponent(p + 1, end, &exponent))) {
        return false;
    }
    ret->power = exponent - behind;
    return true;
}

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Digits and power are doubles that are exact, so there is one rounding (Clinger, "How to read
 * floating point numbers accurately", 1990). */
static bool quick_f64(struct mr_string s, double *ret)
{
    struct decimal d;

    if (!read_decimal(s, &d) || d.digits > (1ull << 53) || d.power < -22 || d.power > 22) {
        return false;
    }
    double value = (double)d.digits;
    value = d.power < 0 ? value / powers[-d.power] : value * powers[d.power];
    *ret = d.negative ? -value : value;
    return true;
}

static bool only_has(struct mr_string s, const char *bytes)
{
    for (size_t i = 0; i < s.size; i++) {
        if (s.data[i] == '\0' || strchr(bytes, s.data[i]) == NULL) {
            return false;
        }
    }
    return s.size > 0;
}

/* It may be a number: the C library reads more than decimal ones, hexadecimal ints, inf and nan. */
static bool may_be_number(struct mr_string s)
{
    bool is_signed = s.size > 0 && (s.data[0] == '-' || s.data[0] == '+');
    struct mr_string bare = {s.data + is_signed, s.size - is_signed};

    if (bare.size > 2 && bare.data[0] == '0' && (bare.data[1] == 'x' || bare.data[1] == 'X')) {
        bare.data += 2;
        bare.size -= 2;
        return only_has(bare, "0123456789abcdefABCDEF");
    }
    return only_has(bare, "0123456789.eE+-") ||
           (bare.size == 3 && (strncasecmp((const char *)bare.data, "inf", 3) == 0 ||
                               strncasecmp((const char *)bare.data, "nan", 3) == 0));
}

/* A text that ends with a NUL; false: it is none. */
static bool copy(struct mr_string s, char text[MR_NUMBER_BYTES_MAX])
{
    if (s.size >= MR_NUMBER_BYTES_MAX || !may_be_number(s)) {
        return false;
    }
    memcpy(text, s.data, s.size);
    text[s.size] = '\0';
    return true;
}

#define SLOW(name, T, parse)                                                                       \
    static bool name(struct mr_string s, T *ret)                                                   \
    {                                                                                              \
        char text[MR_NUMBER_BYTES_MAX];                                                            \
        locale_t c = copy(s, text) ? mr_c_locale_new() : (locale_t)0;                              \
        char *end = text;                                                                          \
                                                                                                   \
        if (c == (locale_t)0) {                                                                    \
            return false;                                                                          \
        }                                                                                          \
        *ret = parse(text, &end, c);                                                               \
        freelocale(c);                                                                             \
        return end != text && *end == '\0';                                                        \
    }
SLOW(slow_f32, float, strtof_l)
SLOW(slow_f64, double, strtod_l)

bool mr_number_f64(struct mr_string s, double *ret)
{
    s = mr_strip(s);
    return quick_f64(s, ret) || slow_f64(s, ret);
}

/* By way of a double, unless that lies in the middle between two floats, where it would be rounded
 * twice; or is too small for one. */
bool mr_number_f32(struct mr_string s, float *ret)
{
    double wide;
    uint64_t bits;

    s = mr_strip(s);
    if (quick_f64(s, &wide)) {
        memcpy(&bits, &wide, sizeof bits);
        bool middle = (bits & 0x1fffffffu) == 0x10000000u;
        bool normal = wide == 0 || wide >= 1e-37 || wide <= -1e-37;
        if (normal && !middle) {
            *ret = (float)wide;
            return true;
        }
    }
    return slow_f32(s, ret);
}

/* ---- whole numbers, with a fraction or not ---- */

/* Sign and magnitude of what is written as an int, or as a whole number that a double holds. */
static bool read_whole(struct mr_string s, bool *negative, uint64_t *magnitude)
{
    double wide;
    size_t i = 0;

    *negative = s.size > 0 && s.data[0] == '-';
    *magnitude = 0;
    for (i = *negative; i < s.size; i++) {
        unsigned digit = s.data[i] - (unsigned)'0';

        if (digit > 9) {
            break;
        }
        if (__builtin_mul_overflow(*magnitude, 10, magnitude) ||
            __builtin_add_overflow(*magnitude, digit, magnitude)) {
            return false;
        }
    }
    if (i == s.size) {
        return s.size > (size_t)*negative; /* a sign is no number */
    }
    if (!mr_number_f64(s, &wide) || !(wide >= -0x1p53 && wide <= 0x1p53) ||
        wide != (double)(int64_t)wide) {
        return false;
    }
    *magnitude = (uint64_t)(wide < 0 ? -wide : wide);
    return true;
}

bool mr_number_whole(struct mr_string s, uint8_t dtype, unsigned char *to)
{
    size_t width = mr_value_width(dtype);
    bool is_signed = (MR_SET_SIGNED & MR_SET(dtype)) != 0;
    uint64_t max = UINT64_MAX >> (64 - 8 * width + is_signed);
    uint64_t magnitude;
    bool negative;

    if (!read_whole(s, &negative, &magnitude)) {
        return false;
    }
    if (negative ? magnitude > (is_signed ? max + 1 : 0) : magnitude > max) {
        return false;
    }
    magnitude = negative ? 0 - magnitude : magnitude;
    memcpy(to, &magnitude, width); /* little-endian, as everywhere */
    return true;
}
