/*
 * Reading TensorFlow's TensorProto from bytes that nobody has checked. Nothing is allocated; spans
 * point into the message.
 *
 *   TensorProto { DataType dtype = 1; TensorShape tensor_shape = 2; bytes tensor_content = 4;
 *   repeated <type> <type>_val = 5 to 17, by dtype, packed or not }
 *   TensorShape { Dim { int64 size = 1; } dim = 2; bool unknown_rank = 3; }
 *
 * As in TensorFlow: a tensor without values is what its shape says, whatever else there is. Content
 * counts before typed values; of these the last one stands for those that
 * lack, zeros stand for all if there is none, and more than the shape has are not looked at. Pure.
 */
#pragma once

#include "ops/tensor.h"

struct mr_tensor_wire {
    struct mr_string message;
    uint8_t dtype;
    int rank;
    int64_t dims[MR_RANK_MAX];
    uint64_t count;           /* what the shape has */
    struct mr_string content; /* of size 0: there is none */
};

/* The number of @dtype in messages; 0: it has none. */
uint32_t mr_tensor_wire_type(unsigned dtype);

/* MR_EINVAL says what is wrong. The values are within MR_ELEMENT_BYTES_MAX, strings with their
 * bytes. */
int mr_tensor_wire_read(struct mr_string message, struct mr_tensor_wire *ret, mr_error *err);
/* The values of what mr_tensor_wire_read() has accepted: numbers, or struct mr_string. */
void mr_tensor_wire_values(const struct mr_tensor_wire *t, unsigned char *out);
