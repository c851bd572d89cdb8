/* Functions built by hand, for tests of programs. */
#pragma once

#include "engine/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        mr_error err_ = {0};                                                                       \
        mr_error *e = &err_;                                                                       \
        if ((call) < 0) {                                                                          \
            fail_msg("%s: %s", #call, err_.message);                                               \
        }                                                                                          \
    } while (0)

struct mr_leaf_spec leaf(mr_dtype dtype, int rank, const int64_t *dims);
/* A builder of a function of @n components. */
mr_builder *begin(const struct mr_leaf_spec *leaves, size_t n);
/* The value of an operator of one result; @attr: NULL, or its only attribute. */
uint32_t add(mr_builder *b, const char *op, const struct mr_attr *attr, size_t nin,
             const uint32_t *in);
#define OP(b, op, ...)                                                                             \
    add(b, op, NULL, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                         \
        (uint32_t[]){__VA_ARGS__})
uint32_t cast(mr_builder *b, uint32_t x, mr_dtype to);
/* FIXED int64 scalars; @rows values from @values, or 0, 1, 2, ... */
mr_block *ints(uint32_t rows, const int64_t *values);
uint32_t constant(mr_builder *b, int64_t v);
/* Takes the builder. */
mr_program *compile(mr_builder *b, const uint32_t *outputs, size_t n);
mr_block *run_ok(const mr_program *p, const mr_block *in);
int64_t int_at(const mr_block *block, uint32_t column, uint32_t row);
