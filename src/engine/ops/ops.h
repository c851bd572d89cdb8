/* The table entries of all dataset operators, and what several of them share. */
#pragma once

#include "base/base.h"
#include "base/limits.h"
#include "engine/bound.h"
#include "engine/env.h"
#include "engine/op.h"
#include "engine/state.h"
#include "ops/kernel.h"

#define MR_OPERATOR(name, file, inputs, attributes, functions)                                     \
    extern const struct mr_operator mr_operator_##name;
#include "engine/ops/operators.def"
#undef MR_OPERATOR

/* An entry in a table of arguments. */
#define MR_OPTIONAL_INT(name_, min_, max_)                                                         \
    {                                                                                              \
        .name = (name_), .kind = MR_ATTR_INT, .flags = MR_ARG_OPTIONAL, .min = (min_),             \
        .max = (max_),                                                                             \
    }

/* The narrowest spec that covers both. MR_EINVAL says how they differ in structure or dtype. */
int mr_spec_join(const mr_spec *a, const mr_spec *b, mr_spec **ret, mr_error *err);
