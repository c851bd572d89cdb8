/* The kernels, as kernels.def lists them. */
#pragma once

#include "ops/kernel.h"

#define MR_KERNEL(name, file, section, inputs, attributes, result)                                 \
    extern const struct mr_kernel mr_kernel_##name;
#include "ops/kernels.def"
#undef MR_KERNEL
