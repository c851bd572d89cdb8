/* Logic on bools, bits and shifts on ints, constants of a shape. */
#include "ops/attr.h"
#include "ops/elementwise.h"
#include "ops/loops.h"
#include "ops/table.h"

MR_INFER_ELEMENTWISE(infer_bools, MR_SET(MR_BOOL))
MR_INFER_ELEMENTWISE(infer_ints, MR_SET_INTS)
MR_INFER_ELEMENTWISE(infer_like, MR_SET_NUMBERS | MR_SET(MR_BOOL))

#define LOGIC(symbol, text, inputs, EACH_LOOP, expr)                                               \
    MR_EACH_BOOL(EACH_LOOP, symbol, expr)                                                          \
    static const mr_kernel_loop symbol##_loops[MR_DTYPE_COUNT] = {                                 \
        MR_EACH_BOOL(MR_LOOP_ENTRY, symbol, )};                                                    \
    MR_LOOP_BY_DTYPE(symbol)                                                                       \
    MR_ELEMENTWISE_KERNEL(mr_kernel_##symbol, text, inputs, 0, infer_bools, symbol##_loop)

LOGIC(logical_and, "logical_and", 2, MR_BINARY, (a & b));
LOGIC(logical_or, "logical_or", 2, MR_BINARY, (a | b));
LOGIC(logical_xor, "logical_xor", 2, MR_BINARY, (a ^ b));
LOGIC(logical_not, "logical_not", 1, MR_UNARY, (a ^ 1));

#define BITS(symbol, text, inputs, EACH_LOOP, expr)                                                \
    MR_EACH_INT(EACH_LOOP, symbol, expr)                                                           \
    static const mr_kernel_loop symbol##_loops[MR_DTYPE_COUNT] = {                                 \
        MR_EACH_INT(MR_LOOP_ENTRY, symbol, )};                                                     \
    MR_LOOP_BY_DTYPE(symbol)                                                                       \
    MR_ELEMENTWISE_KERNEL(mr_kernel_##symbol, text, inputs, 0, infer_ints, symbol##_loop)

/* A distance outside of 0..bits - 1 is undefined in C: it is clamped. */
#define DISTANCE (b > 0 ? (uint64_t)b > sizeof b * 8 - 1 ? (int)(sizeof b * 8 - 1) : (int)b : 0)
#define SHIFT_LEFT(tag, dtype, S, W, N, LD, ST, name, expr)                                        \
    MR_LOOP_HEAD(name, tag) MR_BINARY_BODY(S, S, N, LD, ST, ((W)a << DISTANCE))

BITS(bitwise_and, "bitwise_and", 2, MR_BINARY_WIDE, (a & b));
BITS(bitwise_or, "bitwise_or", 2, MR_BINARY_WIDE, (a | b));
BITS(bitwise_xor, "bitwise_xor", 2, MR_BINARY_WIDE, (a ^ b));
BITS(invert, "invert", 1, MR_UNARY_WIDE, (~a));
BITS(left_shift, "left_shift", 2, SHIFT_LEFT, );
BITS(right_shift, "right_shift", 2, MR_BINARY_SLOW, (a >> DISTANCE));

#define LIKE(symbol, text, expr)                                                                   \
    MR_EACH_NUMBER(MR_UNARY, symbol, expr)                                                         \
    MR_EACH_BOOL(MR_UNARY, symbol, expr)                                                           \
    static const mr_kernel_loop symbol##_loops[MR_DTYPE_COUNT] = {                                 \
        MR_EACH_NUMBER(MR_LOOP_ENTRY, symbol, ) MR_EACH_BOOL(MR_LOOP_ENTRY, symbol, )};            \
    MR_LOOP_BY_DTYPE(symbol)                                                                       \
    MR_ELEMENTWISE_KERNEL(mr_kernel_##symbol, text, 1, 0, infer_like, symbol##_loop)

LIKE(zeros_like, "zeros_like", ((void)a, 0));
LIKE(ones_like, "ones_like", ((void)a, 1));
