/* The kernels: one line each, sorted by name. */
#ifndef MR_OPS_TABLE_H
#define MR_OPS_TABLE_H

#include "ops/kernel.h"

/* clang-format off */
#define MR_KERNELS(X) \
    X(abs) \
    X(add) \
    X(argmax) \
    X(argmin) \
    X(as_string) \
    X(assert) \
    X(bitwise_and) \
    X(bitwise_or) \
    X(bitwise_xor) \
    X(broadcast_to) \
    X(cast) \
    X(ceil) \
    X(clip_by_value) \
    X(concat) \
    X(cos) \
    X(decode_raw) \
    X(div) \
    X(equal) \
    X(exp) \
    X(expand_dims) \
    X(expm1) \
    X(fill) \
    X(floor) \
    X(floor_div) \
    X(floor_mod) \
    X(gather) \
    X(greater) \
    X(greater_equal) \
    X(identity) \
    X(invert) \
    X(is_finite) \
    X(is_inf) \
    X(is_nan) \
    X(left_shift) \
    X(less) \
    X(less_equal) \
    X(log) \
    X(log1p) \
    X(logical_and) \
    X(logical_not) \
    X(logical_or) \
    X(logical_xor) \
    X(lookup_place) \
    X(matmul) \
    X(maximum) \
    X(minimum) \
    X(mul) \
    X(neg) \
    X(not_equal) \
    X(one_hot) \
    X(ones_like) \
    X(pad) \
    X(parse_example) \
    X(pow) \
    X(range_tensor) \
    X(rank) \
    X(reciprocal) \
    X(reduce_all) \
    X(reduce_any) \
    X(reduce_max) \
    X(reduce_mean) \
    X(reduce_min) \
    X(reduce_prod) \
    X(reduce_sum) \
    X(regex_full_match) \
    X(regex_replace) \
    X(relu) \
    X(reshape) \
    X(reverse) \
    X(right_shift) \
    X(round) \
    X(rsqrt) \
    X(select) \
    X(shape) \
    X(sigmoid) \
    X(sign) \
    X(sin) \
    X(size) \
    X(sqrt) \
    X(square) \
    X(squared_difference) \
    X(squeeze) \
    X(stack) \
    X(strided_slice) \
    X(string_join) \
    X(string_length) \
    X(string_lower) \
    X(string_split) \
    X(string_strip) \
    X(string_to_hash_bucket) \
    X(string_to_number) \
    X(string_upper) \
    X(sub) \
    X(substr) \
    X(tan) \
    X(tanh) \
    X(tile) \
    X(transpose) \
    X(unstack) \
    X(zeros_like)
/* clang-format on */

#define MR_KERNEL_DECLARE(name) extern const struct mr_kernel mr_kernel_##name;
MR_KERNELS(MR_KERNEL_DECLARE)

#endif
