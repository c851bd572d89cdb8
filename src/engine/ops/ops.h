/* The table entries of all dataset operators, and what several of them share. */
#pragma once

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

/* The arguments of a table entry: MR_ARGS(MR_INT("count", 0, INT64_MAX), MR_ARG(...)). */
/* clang-format off */
#define MR_ARGS(...) (const struct mr_arg[]){__VA_ARGS__, {0}}
#define MR_ARG(name_, kind_, flags_) {.name = (name_), .kind = (kind_), .flags = (flags_)}
#define MR_INT_FLAGS(name_, min_, max_, flags_) \
    {.name = (name_), .kind = MR_ATTR_INT, .flags = (flags_), .min = (min_), .max = (max_)}
/* clang-format on */
#define MR_INT(name, min, max) MR_INT_FLAGS(name, min, max, 0)
#define MR_OPTIONAL_INT(name, min, max) MR_INT_FLAGS(name, min, max, MR_ARG_OPTIONAL)
#define MR_OPTIONAL_BOOL(name) MR_ARG(name, MR_ATTR_BOOL, MR_ARG_OPTIONAL)

/* The narrowest spec that covers both. MR_EINVAL says how they differ in structure or dtype. */
int mr_spec_join(const mr_spec *a, const mr_spec *b, mr_spec **ret, mr_error *err);
