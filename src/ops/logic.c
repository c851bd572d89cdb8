/* Logic on bools, bits and shifts on ints, constants of a shape. */
#include "ops/attr.h"
#include "ops/loops.h"

#define LOGIC(name, inputs, EACH_LOOP, expr)                                                       \
    MR_EACH_BOOL(EACH_LOOP, name, expr)                                                            \
    MR_LOOPS_KERNEL(name, inputs, 0, MR_SET(MR_BOOL), MR_EACH_BOOL(MR_LOOP_ENTRY, name, ))

LOGIC(logical_and, 2, MR_BINARY, (a & b));
LOGIC(logical_or, 2, MR_BINARY, (a | b));
LOGIC(logical_xor, 2, MR_BINARY, (a ^ b));
LOGIC(logical_not, 1, MR_UNARY, (a ^ 1));

#define BITS(name, inputs, EACH_LOOP, expr)                                                        \
    MR_EACH_INT(EACH_LOOP, name, expr)                                                             \
    MR_LOOPS_KERNEL(name, inputs, 0, MR_SET_INTS, MR_EACH_INT(MR_LOOP_ENTRY, name, ))

/* A distance outside of 0..bits - 1 is undefined in C: it is clamped. */
#define DISTANCE (b > 0 ? (uint64_t)b > sizeof b * 8 - 1 ? (int)(sizeof b * 8 - 1) : (int)b : 0)
#define SHIFT_LEFT(tag, dtype, S, W, N, LD, ST, name, expr)                                        \
    MR_LOOP_HEAD(name, tag) MR_BINARY_BODY(S, S, N, LD, ST, ((W)a << DISTANCE))

BITS(bitwise_and, 2, MR_BINARY_WIDE, (a & b));
BITS(bitwise_or, 2, MR_BINARY_WIDE, (a | b));
BITS(bitwise_xor, 2, MR_BINARY_WIDE, (a ^ b));
BITS(invert, 1, MR_UNARY_WIDE, (~a));
BITS(left_shift, 2, SHIFT_LEFT, );
BITS(right_shift, 2, MR_BINARY_SLOW, (a >> DISTANCE));

#define LIKE(name, expr)                                                                           \
    MR_EACH_NUMBER(MR_UNARY, name, expr)                                                           \
    MR_EACH_BOOL(MR_UNARY, name, expr)                                                             \
    MR_LOOPS_KERNEL(name, 1, 0, MR_SET_NUMBERS | MR_SET(MR_BOOL),                                  \
                    MR_EACH_NUMBER(MR_LOOP_ENTRY, name, ) MR_EACH_BOOL(MR_LOOP_ENTRY, name, ))

LIKE(zeros_like, ((void)a, 0));
LIKE(ones_like, ((void)a, 1));
