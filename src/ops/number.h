/*
 * Numbers in text, as TensorFlow reads them: ints with a '-' at most; floats in decimal,
 * hexadecimal ints, inf and nan in any case. Blanks around them do not count, and the locale of the
 * process has no say. A fast way for what is short, exact in both; what it cannot do is done by the
 * C library. Pure.
 */
#pragma once

#include "ops/tensor.h"

/* A copy of the text, for the C library. */
#define MR_NUMBER_BYTES_MAX 512

/* Without the blanks around it. */
struct mr_string mr_strip(struct mr_string s);
/* false: it is no such number, or does not fit. */
bool mr_number_i32(struct mr_string s, int32_t *ret);
bool mr_number_i64(struct mr_string s, int64_t *ret);
bool mr_number_f32(struct mr_string s, float *ret);
bool mr_number_f64(struct mr_string s, double *ret);
/* An int of that dtype at @to, from what is written as one or as a whole number a double holds:
 * 3.0, 3e0. No blanks. */
bool mr_number_whole(struct mr_string s, uint8_t dtype, unsigned char *to);
