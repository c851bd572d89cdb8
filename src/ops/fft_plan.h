/* The discrete Fourier transform of one length, in float64: powers of two by halves, other lengths
 * as a convolution (Bluestein) whose length is one. A plan is constant; threads share it. What both
 * take is charged to the thread's budget. */
#pragma once

#include "ops/scratch.h"

#include <stdint.h>

struct mr_fft_plan;

/* NULL: there is no memory, @err says so. @n is not 0. */
struct mr_fft_plan *mr_fft_plan_new(uint64_t n, mr_error *err);
void mr_fft_plan_free(struct mr_fft_plan *plan);
uint64_t mr_fft_plan_length(const struct mr_fft_plan *plan);

/* Real and imaginary parts of a line, and room to work in. */
struct mr_fft_line {
    double *re; /* length of the plan */
    double *im;
    double *work; /* the caller does not look at it */
    struct mr_scratch scratch;
};

int mr_fft_line_init(struct mr_fft_line *line, const struct mr_fft_plan *plan, mr_error *err);
void mr_fft_line_free(struct mr_fft_line *line);
/* Transforms @line in place. The inverse is that of the parts exchanged, divided by the length. */
void mr_fft_run(const struct mr_fft_plan *plan, const struct mr_fft_line *line);
