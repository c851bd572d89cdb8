/*
 * Examples of tensor operators for the harness. An input is "dtype[dims]{low,high}": a dim that is
 * a letter differs from row to row, the same letter being the same number within a row; {low,high}
 * bounds the random values, ends included. Attributes: name=3, name=[1,2] (INTS), name=<2,-1>
 * (SHAPE), name=:int32 (DTYPE), name=true (BOOL), name="x" (BYTES), name=("a","b") (STRINGS). The
 * dtype "example" is a string that holds a tf.Example, "decimal" one that holds a number. `bad` is
 * a set of inputs that infer must refuse (NULL: there is none).
 */
#pragma once

#include <stddef.h>

struct kernel_example {
    const char *kernel;
    const char *inputs;
    const char *attrs;
    const char *bad;
};

#define BINARY(name)                                                                               \
    {name, "int32[2,3] int32[3]", "", "int32[2] int64[2]"},                                        \
        {name, "float32[] float32[4]", "", "string[] string[]"},                                   \
        {name, "float64[n,1] float64[m]", "", "float32[2] float32[3]"},                            \
        {name, "uint8[n] uint8[n]", "", "bool[] bool[]"},                                          \
        {name, "int64[] int64[]", "", "int64[]"}, {name, "float16[3] float16[]", "", NULL},        \
        {name, "bfloat16[n] bfloat16[]", "", NULL},                                                \
    {                                                                                              \
        name, "int8[2,1,3] int8[4,1]", "", NULL                                                    \
    }
#define COMPARISON(name)                                                                           \
    {name, "int32[2,3]{0,2} int32[3]{0,2}", "", "int32[2] int64[2]"},                              \
        {name, "float32[n]{-1,1} float32[n]{-1,1}", "", "float32[] int32[]"},                      \
    {                                                                                              \
        name, "uint64[] uint64[n]", "", NULL                                                       \
    }
#define FLOAT_UNARY(name)                                                                          \
    {name, "float32[3]{0,3}", "", "int32[3]"}, {name, "float64[n,m]{0,1}", "", "string[]"},        \
        {name, "float16[]{0,2}", "", "bool[]"},                                                    \
    {                                                                                              \
        name, "bfloat16[2]{0,2}", "", NULL                                                         \
    }
#define REDUCTION(name)                                                                            \
    {name, "int32[3,4]", "", "string[2]"}, {name, "float32[2,3,4]", "axes=[0,2]", "bool[2,3,4]"},  \
        {name, "float64[n,m]", "axes=[-1] keepdims=true", "float32[]"},                            \
        {name, "uint8[n]", "keepdims=true", NULL}, {name, "bfloat16[40]", "", NULL},               \
        {name, "int64[3,40,2]", "axes=[1]", NULL},                                                 \
    {                                                                                              \
        name, "float16[3,0]", "axes=[1]", NULL                                                     \
    }

static const struct kernel_example kernel_examples[] = {
    BINARY("add"),
    BINARY("sub"),
    BINARY("mul"),
    BINARY("div"),
    BINARY("minimum"),
    BINARY("maximum"),
    BINARY("squared_difference"),
    {"floor_div", "int32[2,3] int32[3]{1,5}", "", "int32[] int64[]"},
    {"floor_div", "float32[n] float32[]{1,5}", "", "string[] string[]"},
    {"floor_div", "uint16[n] uint16[n]{1,5}", "", NULL},
    {"floor_mod", "int64[n] int64[]{-5,-1}", "", "int32[] int64[]"},
    {"floor_mod", "float64[2] float64[2]{1,5}", "", "bool[] bool[]"},
    {"floor_mod", "uint32[] uint32[n]{1,5}", "", NULL},
    {"pow", "float32[n] float32[n]{0,3}", "", "int8[] int8[]"},
    {"pow", "int32[2]{-5,5} int32[]{0,5}", "", "uint8[] uint8[]"},
    {"neg", "int32[2,3]", "", "uint8[2]"},
    {"neg", "float32[n]", "", "bool[]"},
    {"abs", "int16[n]", "", "uint8[2]"},
    {"abs", "float16[3]", "", "string[]"},
    {"sign", "int8[4]", "", "uint64[]"},
    {"sign", "float64[n]", "", "string[]"},
    {"square", "uint16[2]", "", "bool[]"},
    {"square", "float32[n]", "", "string[]"},
    {"relu", "int32[4]", "", "bool[]"},
    {"relu", "float32[n]", "", "string[]"},
    {"round", "float32[n]", "", "string[]"},
    {"round", "int32[n]", "", "bool[]"},
    FLOAT_UNARY("reciprocal"),
    FLOAT_UNARY("sqrt"),
    FLOAT_UNARY("rsqrt"),
    FLOAT_UNARY("exp"),
    FLOAT_UNARY("expm1"),
    FLOAT_UNARY("log"),
    FLOAT_UNARY("log1p"),
    FLOAT_UNARY("sin"),
    FLOAT_UNARY("cos"),
    FLOAT_UNARY("tan"),
    FLOAT_UNARY("tanh"),
    FLOAT_UNARY("sigmoid"),
    FLOAT_UNARY("floor"),
    FLOAT_UNARY("ceil"),
    FLOAT_UNARY("is_nan"),
    FLOAT_UNARY("is_inf"),
    FLOAT_UNARY("is_finite"),
    COMPARISON("less"),
    COMPARISON("less_equal"),
    COMPARISON("greater"),
    COMPARISON("greater_equal"),
    COMPARISON("equal"),
    COMPARISON("not_equal"),
    {"equal", "string[2]{0,1} string[]{0,1}", "", "string[] int32[]"},
    {"not_equal", "string[n]{0,1} string[n]{0,1}", "", NULL},
    {"equal", "bool[n] bool[]", "", NULL},
    {"logical_and", "bool[2,3] bool[3]", "", "int32[] int32[]"},
    {"logical_or", "bool[n] bool[]", "", "bool[] int32[]"},
    {"logical_xor", "bool[] bool[n]", "", NULL},
    {"logical_not", "bool[n]", "", "uint8[]"},
    {"bitwise_and", "int32[3] int32[3]", "", "float32[] float32[]"},
    {"bitwise_or", "uint8[n] uint8[]", "", "int32[] int64[]"},
    {"bitwise_xor", "int64[] int64[n]", "", "bool[] bool[]"},
    {"invert", "uint16[n]", "", "bool[]"},
    {"left_shift", "int32[n] int32[]{-2,40}", "", "float32[] float32[]"},
    {"left_shift", "uint8[4] uint8[4]{0,9}", "", NULL},
    {"right_shift", "int64[n] int64[n]{-2,70}", "", "int64[] int32[]"},
    {"cast", "float32[n]", "dtype=:int32", "string[]"},
    {"cast", "int64[2,3]", "dtype=:float32", NULL},
    {"cast", "bool[n]", "dtype=:uint8", NULL},
    {"cast", "uint8[4]", "dtype=:float16", NULL},
    {"cast", "bfloat16[4]", "dtype=:bool", NULL},
    {"cast", "int32[4]", "dtype=:int32", NULL},
    {"select", "bool[n] int32[n] int32[]", "", "int32[] int32[] int32[]"},
    {"select", "bool[] string[2] string[n,1]", "", "bool[] string[] int32[]"},
    {"select", "bool[2,1] float64[3] float64[]", "", NULL},
    {"clip_by_value", "float32[n] float32[]{-3,0} float32[]{1,3}", "",
     "float32[] float32[] float64[]"},
    {"clip_by_value", "uint8[2,2] uint8[2]{0,9} uint8[]{10,20}", "", NULL},
    {"zeros_like", "float32[n]", "", "string[]"},
    {"ones_like", "bool[2]", "", "string[]"},
    {"ones_like", "float16[n]", "", NULL},
    {"assert", "string[n] bool[]{1,1}", "message=\"it is not so\"", "int32[] int32[]"},
    {"assert", "float32[2] bool[]{1,1}", "message=\"it is not so\"", "int32[] bool[2]"},
    {"lookup_place", "string[n]", "keys=(\"a\",\"b\",\"\")", "int64[]"},
    {"lookup_place", "string[]", "keys=(\"abc\") oov_buckets=3", "bool[]"},
    {"lookup_place", "int64[2,n]{0,5}", "int_keys=[1,3,4] oov_buckets=2", "string[]"},
    {"regex_replace", "string[n]", "pattern=\"[aeiou]+\" rewrite=\"<>\"", "int32[]"},
    {"regex_replace", "string[2]", "pattern=\"a*\" rewrite=\"-\" replace_global=false", "bool[]"},
    {"regex_full_match", "string[n]", "pattern=\"[a-m]*\"", "int64[]"},
    {"string_split", "string[]", "", "int64[]"},
    {"string_split", "string[]", "sep=\"a\" maxsplit=2", "int32[]"},
    {"string_to_hash_bucket", "string[n]", "num_buckets=7", "int32[]"},
    {"identity", "string[n]", "", NULL},
    {"identity", "float32[2]", "", NULL},
    {"reshape", "int32[6]", "shape=<2,-1>", "int32[5]"},
    {"reshape", "float32[n,6]", "shape=<-1,3>", "float32[2,2]"},
    {"reshape", "string[2,3]", "shape=<6>", NULL},
    {"reshape", "string[n,2]", "shape=<2,-1>", NULL},
    {"expand_dims", "float32[3]", "axis=0", NULL},
    {"expand_dims", "string[n,2]", "axis=-1", NULL},
    {"squeeze", "float32[3,1]", "axes=[1]", "float32[3,2]"},
    {"squeeze", "float32[1,3,1]", "", NULL},
    {"squeeze", "int32[n,1]", "axes=[-1]", "int32[]"},
    {"shape", "float32[n,2]", "dtype=:int64", NULL},
    {"shape", "string[2,2]", "", NULL},
    {"size", "float32[n,2]", "dtype=:int64", NULL},
    {"rank", "float32[n,2]", "", NULL},
    REDUCTION("reduce_sum"),
    REDUCTION("reduce_prod"),
    REDUCTION("reduce_max"),
    REDUCTION("reduce_min"),
    REDUCTION("reduce_mean"),
    {"reduce_all", "bool[n,3]", "axes=[0]", "int32[2]"},
    {"reduce_any", "bool[40]", "", "uint8[2]"},
    {"concat", "int32[2,3] int32[2,1]", "axis=1", "int32[2,3] int64[2,1]"},
    {"concat", "string[n,2] string[m,2] string[1,2]", "axis=0", "string[2] string[2,2]"},
    {"concat", "float32[2,n] float32[2,n]", "axis=-1", NULL},
    {"stack", "int32[2] int32[2] int32[2]", "", "int32[2] int32[3] int32[2]"},
    {"stack", "string[n] string[n]", "axis=-1", "string[] int32[]"},
    {"unstack", "float32[2,3]", "axis=1", "float32[]"},
    {"unstack", "string[2,n]", "", NULL},
    {"transpose", "int32[2,3,4]", "perm=[2,0,1]", "int32[2]"},
    {"transpose", "string[n,m]", "", NULL},
    {"transpose", "uint8[n,3]", "perm=[1,0]", NULL},
    {"reverse", "int16[2,3]", "axes=[1]", "int16[2]"},
    {"reverse", "string[n,m]", "axes=[0,-1]", NULL},
    {"broadcast_to", "float64[3,1]", "shape=<2,3,4>", "float64[5]"},
    {"broadcast_to", "string[]", "shape=<2>", NULL},
    {"tile", "int32[2,3]", "multiples=[2,3]", "int32[2]"},
    {"tile", "string[n]", "multiples=[2]", NULL},
    {"tile", "bool[]", "multiples=[]", NULL},
    {"pad", "float32[2,3]", "paddings=[1,0,0,2]", "float32[2]"},
    {"pad", "string[n] string[]", "paddings=[1,2]", "string[2] int32[]"},
    {"strided_slice", "int32[4,5]", "begin=[1,0] end=[3,-1] strides=[1,2]", "int32[4]"},
    {"strided_slice", "string[n,3]",
     "begin=[0,2] end=[0,0] strides=[-1,1] begin_mask=1 end_mask=1 shrink_axis_mask=2", NULL},
    {"strided_slice", "float32[n,2,3]",
     "begin=[0,0,1] end=[0,0,0] strides=[1,1,1] ellipsis_mask=1 new_axis_mask=2 shrink_axis_mask=4",
     NULL},
    {"strided_slice", "uint8[n]", "begin=[-2] end=[100] strides=[1]", NULL},
    {"gather", "float32[4,3] int32[2]{0,3}", "", "float32[4,3] float32[2]"},
    {"gather", "string[2,n,2] int64[k,2]{0,1}", "axis=2", "string[2] int64[]"},
    {"one_hot", "uint8[n]{0,5} float32[] float32[]", "depth=4", "float32[] float32[] float32[]"},
    {"one_hot", "int64[2,3]{-1,3} string[] string[]", "depth=3 axis=0",
     "int64[] string[2] string[]"},
    {"argmax", "int32[n,4]", "axis=1", "string[2,4]"},
    {"argmax", "float32[3,4]", "dtype=:int32", "float32[]"},
    {"argmin", "bfloat16[5]", "", "float32[0]"},
    {"fill", "int32[2]{0,4} string[]", "", "float32[2] int32[]"},
    {"fill", "int64[1]{3,3} float32[]", "", "int64[1] float32[2]"},
    {"range_tensor", "int32[]{0,3} int32[]{0,9} int32[]{1,2}", "", "int32[] int64[] int32[]"},
    {"range_tensor", "float32[]{0,1} float32[]{-5,0} float32[]{-1,-1}", "",
     "string[] string[] string[]"},
    {"matmul", "float32[2,3] float32[3,4]", "", "float32[2,3] float32[2,3]"},
    {"matmul", "int32[n,2,3] int32[4,3]", "transpose_b=true", "uint8[2,2] uint8[2,2]"},
    {"matmul", "float64[n,m] float64[n,2]", "transpose_a=true", "float64[3] float64[3]"},
    {"string_length", "string[n]", "unit=\"UTF8_CHAR\"", "int32[]"},
    {"string_length", "string[]", "", NULL},
    {"string_to_number", "decimal[2]", "dtype=:int32", "int32[]"},
    {"string_to_number", "decimal[n]", "dtype=:float64", NULL},
    {"string_to_number", "decimal[]", "", NULL},
    {"substr", "string[n]{3,9} int32[]{-2,2} int32[]{0,4}", "", "string[] int32[] int64[]"},
    {"substr", "string[]{3,3} int64[2]{0,3} int64[2]{0,4}", "", "int32[] int32[] int32[]"},
    {"string_strip", "string[n]", "", "int32[]"},
    {"string_lower", "string[n]", "", "int32[]"},
    {"string_upper", "string[2,2]", "", "bool[]"},
    {"string_join", "string[n,1] string[2] string[]", "separator=\", \"", "string[] int32[]"},
    {"string_join", "string[]", "", NULL},
    {"as_string", "float32[n]", "precision=2", NULL},
    {"as_string", "int8[2]", "", NULL},
    {"as_string", "uint64[2]", "", NULL},
    {"as_string", "bool[]", "", NULL},
    {"as_string", "string[n]", "", NULL},
    {"as_string", "float16[3]", "shortest=true", NULL},
    {"as_string", "float64[]", "scientific=true", NULL},
    {"decode_raw", "string[]{8,8}", "dtype=:int32", "int32[]"},
    {"decode_raw", "string[n]{4,4}", "dtype=:uint16 little_endian=false", NULL},
    {"decode_raw", "string[]{0,6}", "dtype=:bool", NULL},
    {"parse_example", "example[]",
     "names=(\"pixels\",\"label\") kinds=[0,0] dtypes=[12,5] shape0=<2,2>", "int32[]"},
    {"parse_example", "example[n]",
     "names=(\"label\",\"pixels\") kinds=[0,0] dtypes=[5,12] shape1=<4>", "string[2,2]"},
    {"parse_example", "example[]{1,5}",
     "names=(\"tag\",\"steps\") kinds=[0,0] dtypes=[14,5] shape1=<-1,2>", NULL},
    {"parse_example", "example[n]{1,5}", "names=(\"steps\") kinds=[0] dtypes=[5] shape0=<-1,2>",
     "int32[]"},
    {"parse_example", "example[2]", "names=(\"label\") kinds=[0] dtypes=[5] shape0=<1>", NULL},
    {"random_uniform", "float32[] float32[]", "shape=<2,3>", "float32[] float64[]"},
    {"random_uniform", "int32[2]{0,3} int64[]{-9,0} int64[]{1,9}", "seed=3",
     "int32[2] bool[] bool[]"},
    {"random_uniform", "uint64[]{0,0} uint64[]{0,0}", "shape=<4> rerandomize=false full_range=true",
     "int8[] int8[]"},
    {"random_uniform", "float16[]{0,1} float16[]{2,3}", "shape=<>", NULL},
    {"stateless_random_uniform", "float64[] float64[] int64[2]", "shape=<5>",
     "float64[] float64[]"},
    {"stateless_random_uniform", "int64[1]{0,5} bfloat16[] bfloat16[] int32[2]", "",
     "int64[1] float32[] float32[] int32[3]"},
    {"random_normal", "float32[] float32[]{0,2}", "shape=<2,3>", "int32[] int32[]"},
    {"random_normal", "int32[1]{0,9} float64[] float64[]{0,2}", "truncated=true seed=1",
     "float32[1] float64[] float64[]"},
    {"stateless_random_normal", "float16[] float16[]{0,2} int32[2]", "shape=<3>", NULL},
    {"random_shuffle", "string[n,2]", "", NULL},
    {"random_shuffle", "int32[]", "seed=5", NULL},
    {"stateless_random_shuffle", "float32[n] int64[2]", "", "float32[3] int64[3]"},
    {"random_categorical", "float32[n,3]{-2,2}", "num_samples=4", "float32[3]"},
    {"stateless_random_categorical", "float64[2,4]{-2,2} int32[2]", "num_samples=3 dtype=:int32",
     "int32[2,4] int32[2]"},
    {"stateless_seeds", "int64[2]", "num=3", "int64[3]"},
    {"stateless_seeds", "int32[2] int64[]", "", "int32[2] float32[]"},
};
