"""Tensor functions, under TensorFlow's names and arguments. The modules math, strings, io, ... say which belongs where.

`name` is accepted everywhere, as in TensorFlow, and means nothing.
"""

import builtins

import numpy as np

from . import dtypes, errors
from ._spec import integer
from ._tensor import (AttrTable, Tensor, _holds_tensors, apply, apply1, convert_to_tensor, current_graph, dtype_of, is_literal,
                      to_array)
from .dtypes import as_dtype


def _unary(op, doc):
    def function(x, name=None):
        return apply1(op, [x])
    function.__name__ = function.__qualname__ = op
    function.__doc__ = doc
    return function


def _binary(op, doc):
    def function(x, y, name=None):
        return apply1(op, [x, y])
    function.__name__ = function.__qualname__ = op
    function.__doc__ = doc
    return function


add = _binary("add", "x + y, element-wise.")
subtract = _binary("sub", "x - y, element-wise.")
multiply = _binary("mul", "x * y, element-wise.")
divide = truediv = _binary("div", "x / y: floats keep their dtype, 8 and 16 bit integers give float32, others float64.")
floordiv = _binary("floor_div", "x // y, rounded towards minus infinity.")
floormod = mod = _binary("floor_mod", "x % y, with the sign of y.")
pow_ = _binary("pow", "x ** y.")
minimum = _binary("minimum", "The smaller of x and y, element-wise; NaN if one is.")
maximum = _binary("maximum", "The larger of x and y, element-wise; NaN if one is.")
squared_difference = _binary("squared_difference", "(x - y)², element-wise.")
equal = _binary("equal", "x == y, element-wise.")
not_equal = _binary("not_equal", "x != y, element-wise.")
less = _binary("less", "x < y, element-wise.")
less_equal = _binary("less_equal", "x <= y, element-wise.")
greater = _binary("greater", "x > y, element-wise.")
greater_equal = _binary("greater_equal", "x >= y, element-wise.")
logical_and = _binary("logical_and", "x and y, element-wise, for bools.")
logical_or = _binary("logical_or", "x or y, element-wise, for bools.")
logical_xor = _binary("logical_xor", "Either x or y, element-wise, for bools.")
bitwise_and = _binary("bitwise_and", "x & y for integers.")
bitwise_or = _binary("bitwise_or", "x | y for integers.")
bitwise_xor = _binary("bitwise_xor", "x ^ y for integers.")
left_shift = _binary("left_shift", "x << y for integers; the distance is clamped to the width.")
right_shift = _binary("right_shift", "x >> y for integers; keeps the sign.")

logical_not = _unary("logical_not", "not x, element-wise, for bools.")
invert = _unary("invert", "~x for integers.")
negative = _unary("neg", "-x, element-wise.")
sign = _unary("sign", "-1, 0 or 1, element-wise.")
square = _unary("square", "x², element-wise.")
reciprocal = _unary("reciprocal", "1 / x, element-wise.")
sqrt = _unary("sqrt", "The square root, element-wise.")
rsqrt = _unary("rsqrt", "1 / the square root, element-wise.")
exp = _unary("exp", "e to the power of x, element-wise.")
expm1 = _unary("expm1", "exp(x) - 1, element-wise.")
log = _unary("log", "The natural logarithm, element-wise.")
log1p = _unary("log1p", "log(1 + x), element-wise.")
sin = _unary("sin", "The sine, element-wise.")
cos = _unary("cos", "The cosine, element-wise.")
tan = _unary("tan", "The tangent, element-wise.")
tanh = _unary("tanh", "The hyperbolic tangent, element-wise.")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x)), element-wise.")
floor = _unary("floor", "The next whole number below, element-wise.")
ceil = _unary("ceil", "The next whole number above, element-wise.")
round_ = _unary("round", "The nearest whole number, element-wise; halves go to the even one.")
is_nan = _unary("is_nan", "Whether x is NaN, element-wise.")
is_inf = _unary("is_inf", "Whether x is infinite, element-wise.")
is_finite = _unary("is_finite", "Whether x is finite, element-wise.")


def assert_(x, condition, message):
    """@x, where the scalar @condition holds; InvalidArgumentError with @message where it does not."""
    return apply1("assert", [x, condition], AttrTable().bytes("message", message), same_dtype=False)


def relu(features, name=None):
    """max(x, 0), element-wise."""
    return apply1("relu", [features])


def abs_(x, name=None):
    """The absolute value, element-wise."""
    dtype = dtype_of(x)
    return x if dtype is not None and dtype.is_unsigned else apply1("abs", [x])


def cast(x, dtype, name=None):
    """@x with another dtype. Floats lose their fraction, saturate out of range, and NaN gives 0; bools are "not 0"."""
    dtype = as_dtype(dtype)
    if isinstance(x, Tensor) and x.dtype is dtype:
        return x
    return apply1("cast", [x], AttrTable().dtype("dtype", dtype))


def constant(value, dtype=None, shape=None, name="Const"):
    """A tensor of @value; @shape repeats a scalar or reshapes. Outside of functions an array that is no other one's memory."""
    array = convert_to_array(value, dtype)
    if shape is not None:
        array = np.broadcast_to(array, shape) if array.size == 1 else array.reshape(shape)
    return np.array(array) if current_graph() is None else convert_to_tensor(array)


def convert_to_array(value, dtype=None):
    """@value as a NumPy array; it may not hold symbolic tensors."""
    if _holds_tensors(value):
        raise TypeError("a constant is made of Python or NumPy values, not of symbolic tensors")
    like = None if dtype is None else as_dtype(dtype)
    array = to_array(value, like)
    return array if like is None else array.astype(like.numpy_dtype(), copy=False)


def identity(input, name=None):
    """@input itself."""
    return apply1("identity", [input])


def where(condition, x=None, y=None, name=None):
    """@x where @condition holds, else @y. Without x and y (the indices of what holds) it is not built."""
    if x is None or y is None:
        raise errors.UnimplementedError("mr.where with the condition alone is not built: give x and y")
    hint = dtype_of(x) or dtype_of(y)
    graph = current_graph()
    if graph is None:
        return apply1("select", [convert_to_array(condition, "bool"), to_array(x, hint), to_array(y, hint)],
                      same_dtype=False)
    return apply1("select", [graph.convert(condition, dtypes.bool_), graph.convert(x, hint), graph.convert(y, hint)],
                  same_dtype=False)


def clip_by_value(t, clip_value_min, clip_value_max, name=None):
    """@t cut to the range between the two."""
    return apply1("clip_by_value", [t, clip_value_min, clip_value_max])


def zeros_like(input, dtype=None, name=None):
    """Zeros in the shape of @input."""
    result = apply1("zeros_like", [input])
    return result if dtype is None else cast(result, dtype)


def ones_like(input, dtype=None, name=None):
    """Ones in the shape of @input."""
    result = apply1("ones_like", [input])
    return result if dtype is None else cast(result, dtype)


# ---- shapes ----


def _static_shape(shape):
    """The dims of a shape given as Python values, or None if a tensor is among them."""
    if isinstance(shape, Tensor) or _holds_tensors(shape):
        return None
    if hasattr(shape, "as_list"):
        shape = shape.as_list()
    array = np.asarray(shape)
    if array.ndim > 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        raise TypeError(f"shapes and sizes are vectors of integers, not {shape!r}")
    return array.astype(np.int64).reshape(-1).tolist()


def reshape(tensor, shape, name=None):
    """The values of @tensor in another shape; one dimension may be -1."""
    dims = _static_shape(shape)
    if dims is None:
        return apply1("reshape", [tensor, shape], same_dtype=False)
    return apply1("reshape", [tensor], AttrTable().shape("shape", dims))


def expand_dims(input, axis, name=None):
    """@input with an axis of size 1 more."""
    return apply1("expand_dims", [input], AttrTable().int("axis", axis))


def squeeze(input, axis=None, name=None):
    """@input without axes of size 1: all of them, or those of @axis."""
    attrs = AttrTable()
    if axis is not None:
        attrs.ints("axes", np.atleast_1d(axis))
    return apply1("squeeze", [input], attrs)


def transpose(a, perm=None, conjugate=False, name="transpose"):
    """@a with its axes in the order @perm (reversed by default)."""
    return apply1("transpose", [a], AttrTable() if perm is None else AttrTable().ints("perm", perm))


def broadcast_to(input, shape, name=None):
    """@input repeated to @shape."""
    dims = _static_shape(shape)
    if dims is None:
        raise errors.UnimplementedError("mr.broadcast_to with a shape that is a tensor is not built: use mr.tile, mr.fill")
    return apply1("broadcast_to", [input], AttrTable().shape("shape", dims))


def concat(values, axis, name="concat"):
    """@values joined along @axis."""
    values = values if isinstance(values, (list, tuple)) else [values]
    return apply1("concat", list(values), AttrTable().int("axis", axis))


def stack(values, axis=0, name="stack"):
    """@values along a new axis."""
    values = values if isinstance(values, (list, tuple)) else unstack(values)
    return apply1("stack", list(values), AttrTable().int("axis", axis))


def unstack(value, num=None, axis=0, name="unstack"):
    """A list with one tensor for each place along @axis, whose size has to be known."""
    results = apply("unstack", [value], AttrTable().int("axis", axis))
    if num is not None and num != len(results):
        raise ValueError(f"unstack: num is {num}, the axis has {len(results)}")
    return results


def split(value, num_or_size_splits, axis=0, num=None, name="split"):
    """A list of parts of @value along @axis: so many equal ones, or of these sizes."""
    if not isinstance(value, Tensor):
        value = convert_to_tensor(value)
    size, rank = value.shape[axis], len(value.shape)
    axis = axis + rank if axis < 0 else axis
    if isinstance(num_or_size_splits, int):
        if size is None or size % num_or_size_splits:
            raise ValueError(f"split: an axis of size {size} cannot be cut into {num_or_size_splits} equal parts")
        sizes = [size // num_or_size_splits] * num_or_size_splits
    else:
        sizes = [integer("num_or_size_splits", s) for s in num_or_size_splits]
        if -1 in sizes and size is not None:
            sizes[sizes.index(-1)] = size - sum(sizes) - 1
        if size is None or sum(sizes) != size:
            raise ValueError(f"split: sizes {sizes} do not add up to {size}")
    ends = np.cumsum(sizes).tolist()
    lead = (builtins.slice(None),) * axis
    return [value[lead + (builtins.slice(e - s, e),)] for s, e in zip(sizes, ends)]


def slice_(input_, begin, size, name=None):
    """@size values from @begin along each axis (-1: to the end)."""
    dims, sizes = _static_shape(begin), _static_shape(size)
    if dims is None or sizes is None:
        raise errors.UnimplementedError("mr.slice with begin or size that are tensors is not built: use mr.gather")
    key = tuple(builtins.slice(b, None if s == -1 else b + s) for b, s in zip(dims, sizes))
    return (input_ if isinstance(input_, Tensor) else convert_to_tensor(input_))[key]


def gather(params, indices, validate_indices=None, axis=None, batch_dims=0, name=None):
    """The slices of @params that @indices name, along @axis (0)."""
    if batch_dims != 0:
        raise errors.UnimplementedError("mr.gather with batch_dims is not built")
    return apply1("gather", [params, indices], AttrTable().int("axis", 0 if axis is None else axis), same_dtype=False)


def tile(input, multiples, name=None):
    """@input repeated along each axis."""
    counts = _static_shape(multiples)
    if counts is None:
        raise errors.UnimplementedError("mr.tile with multiples that are tensors is not built")
    return apply1("tile", [input], AttrTable().ints("multiples", counts))


def pad(tensor, paddings, mode="CONSTANT", constant_values=0, name=None):
    """@tensor with @paddings[axis] = (before, after) values added."""
    if mode.upper() != "CONSTANT":
        raise errors.UnimplementedError(f"mr.pad with mode {mode!r} is not built: only CONSTANT is")
    flat = np.asarray(paddings).reshape(-1)
    dtype = dtype_of(tensor)
    inputs = [tensor]
    if not (is_literal(constant_values) and constant_values == 0):
        inputs.append(constant_values)
    elif dtype is None:
        inputs = [convert_to_tensor(tensor)]
    return apply1("pad", inputs, AttrTable().ints("paddings", flat))


def reverse(tensor, axis, name=None):
    """@tensor with the order along these axes turned round."""
    return apply1("reverse", [tensor], AttrTable().ints("axes", np.atleast_1d(axis)))


def shape(input, out_type="int32", name=None):
    """The shape of @input as a vector, known when the element is."""
    return apply1("shape", [input], AttrTable().dtype("dtype", out_type))


def size(input, out_type="int32", name=None):
    """The number of values in @input."""
    return apply1("size", [input], AttrTable().dtype("dtype", out_type))


def rank(input, name=None):
    """The number of axes of @input."""
    return apply1("rank", [input])


def fill(dims, value, name=None):
    """A tensor of @dims that holds @value everywhere."""
    return apply1("fill", [dims, value], same_dtype=False)


def zeros(shape, dtype="float32", name=None):
    """Zeros."""
    return _filled(shape, dtype, 0)


def ones(shape, dtype="float32", name=None):
    """Ones."""
    return _filled(shape, dtype, 1)


def _filled(shape_, dtype, value):
    dtype, dims = as_dtype(dtype), _static_shape(shape_)
    scalar = np.array(b"" if dtype.kind == "s" else value, dtype.numpy_dtype())
    if dims is None:
        return fill(shape_, scalar)
    return convert_to_tensor(np.full(dims, scalar, dtype.numpy_dtype()))


def range_(start, limit=None, delta=1, dtype=None, name="range"):
    """start, start + delta, ... below limit, as a vector."""
    if limit is None:
        start, limit = 0, start
    values = [start, limit, delta]
    if dtype is not None:
        values = [cast(v, dtype) if not is_literal(v) else convert_to_tensor(v, dtype) for v in values]
    elif all(is_literal(v) for v in values) and any(isinstance(v, float) for v in values):
        values = [float(v) for v in values]
    return apply1("range_tensor", values)


def one_hot(indices, depth, on_value=None, off_value=None, axis=None, dtype=None, name=None):
    """A new axis of size @depth, with on_value (1) at the index and off_value (0) elsewhere."""
    values = [v for v in (on_value, off_value) if v is not None]
    if dtype is None:
        dtype = next((d for d in map(dtype_of, values) if d is not None), None) or (
            as_dtype(to_array(values[0]).dtype) if values else "float32")
    dtype = as_dtype(dtype)
    if dtype.kind == "s" and len(values) < 2:
        raise TypeError("one_hot of strings has no defaults: give on_value and off_value")
    on, off = ((not i if dtype.is_bool else 1 - i) if v is None else v for i, v in enumerate((on_value, off_value)))
    attrs = AttrTable().int("depth", depth).int("axis", -1 if axis is None else axis)
    on, off = (v if isinstance(v, Tensor) else to_array(v, dtype) for v in (on, off))
    return apply1("one_hot", [indices, on, off], attrs, same_dtype=False)


# ---- reductions and products ----


def _reduction(op, doc, dtype=None):
    def function(input_tensor, axis=None, keepdims=False, name=None):
        if dtype is not None and is_literal(input_tensor):
            input_tensor = convert_to_tensor(input_tensor, dtype)  # an empty list has no dtype of its own
        attrs = AttrTable().bool("keepdims", keepdims)
        if axis is not None:
            attrs.ints("axes", np.atleast_1d(axis))
        return apply1(op, [input_tensor], attrs)
    function.__name__ = function.__qualname__ = op
    function.__doc__ = doc + " over @axis (all axes by default)."
    return function


reduce_sum = _reduction("reduce_sum", "The sum")
reduce_prod = _reduction("reduce_prod", "The product")
reduce_max = _reduction("reduce_max", "The largest value")
reduce_min = _reduction("reduce_min", "The smallest value")
reduce_mean = _reduction("reduce_mean", "The mean (of integers an integer)")
reduce_all = _reduction("reduce_all", "Whether all hold,", "bool")
reduce_any = _reduction("reduce_any", "Whether any holds,", "bool")


def argmax(input, axis=None, output_type="int64", name=None):
    """The first index of the largest value along @axis (0)."""
    return apply1("argmax", [input], AttrTable().int("axis", 0 if axis is None else axis).dtype("dtype", output_type))


def argmin(input, axis=None, output_type="int64", name=None):
    """The first index of the smallest value along @axis (0)."""
    return apply1("argmin", [input], AttrTable().int("axis", 0 if axis is None else axis).dtype("dtype", output_type))


def matmul(a, b, transpose_a=False, transpose_b=False, name=None):
    """The matrix product; leading axes broadcast."""
    return apply1("matmul", [a, b], AttrTable().bool("transpose_a", transpose_a).bool("transpose_b", transpose_b))


# ---- strings ----


def as_string(input, precision=-1, scientific=False, shortest=False, width=-1, fill="", name=None):
    """Numbers as text; strings as they are."""
    if width != -1 or fill:
        raise errors.UnimplementedError("mr.strings.as_string with width or fill is not built")
    attrs = AttrTable().int("precision", precision).bool("scientific", scientific).bool("shortest", shortest)
    return apply1("as_string", [input], attrs)


def _text(value):
    """A literal as strings: an empty list has no dtype of its own."""
    return convert_to_tensor(value, "string") if is_literal(value) else value


def to_number(input, out_type="float32", name=None):
    """Text as numbers."""
    return apply1("string_to_number", [_text(input)], AttrTable().dtype("dtype", out_type))


def string_split(input, sep=None, maxsplit=-1, name=None):
    """
    A scalar string as the vector of its parts: between runs of blanks, or at each @sep; at most @maxsplit cuts, as with
    Python's str.split.
    """
    attrs = AttrTable().int("maxsplit", maxsplit)
    if sep is not None and sep not in ("", b""):
        attrs.bytes("sep", sep)
    return apply1("string_split", [_text(input)], attrs)


def regex_replace(input, pattern, rewrite, replace_global=True, name=None):
    """Each match of @pattern (or the first) replaced by @rewrite, in which \\0 to \\9 stand for groups."""
    attrs = AttrTable().bytes("pattern", pattern).bytes("rewrite", rewrite).bool("replace_global", replace_global)
    return apply1("regex_replace", [_text(input)], attrs)


def regex_full_match(input, pattern, name=None):
    """Whether the whole string matches @pattern, element-wise."""
    return apply1("regex_full_match", [_text(input)], AttrTable().bytes("pattern", pattern))


def to_hash_bucket_fast(input, num_buckets, name=None):
    """A number below @num_buckets for each string, the same for equal ones: its XXH3-64, modulo."""
    return apply1("string_to_hash_bucket", [_text(input)], AttrTable().int("num_buckets", num_buckets))


def string_length(input, unit="BYTE", name=None):
    """The number of bytes, or of characters (unit="UTF8_CHAR")."""
    return apply1("string_length", [_text(input)], AttrTable().bytes("unit", unit))


def string_join(inputs, separator="", name=None):
    """Strings joined, element-wise."""
    inputs = [_text(value) for value in inputs]
    if not inputs:
        return convert_to_tensor(b"")
    return apply1("string_join", inputs, AttrTable().bytes("separator", separator))


def substr(input, pos, len, unit="BYTE", name=None):
    """@len bytes from @pos; a negative position counts from the end."""
    if unit != "BYTE":
        raise errors.UnimplementedError(f"mr.strings.substr with unit {unit!r} is not built: only BYTE is")
    return apply1("substr", [_text(input), pos, len], same_dtype=False)


def _ascii(op, doc):
    def function(input, encoding="", name=None):
        if encoding:
            raise errors.UnimplementedError(f"mr.strings.{op[7:]} with encoding {encoding!r} is not built: ASCII only")
        return apply1(op, [_text(input)])
    function.__name__ = function.__qualname__ = op
    function.__doc__ = doc
    return function


string_lower = _ascii("string_lower", "ASCII letters in lower case.")
string_upper = _ascii("string_upper", "ASCII letters in upper case.")


def string_strip(input, name=None):
    """Without ASCII blanks at both ends."""
    return apply1("string_strip", [_text(input)])


def decode_raw(input_bytes, out_type, little_endian=True, fixed_length=None, name=None):
    """Bytes as numbers: one axis more."""
    if fixed_length is not None:
        raise errors.UnimplementedError("mr.io.decode_raw with fixed_length is not built")
    return apply1("decode_raw", [input_bytes],
                  AttrTable().dtype("dtype", out_type).bool("little_endian", little_endian))
