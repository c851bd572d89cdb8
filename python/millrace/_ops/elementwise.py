"""
Element-wise functions, under TensorFlow's names and arguments. `name` means nothing, as everywhere.
"""

from __future__ import annotations

from typing import Any

from .._graph.attrs import AttrTable
from .._graph.literals import dtype_of
from .._graph.symbol import TensorLike
from .._graph.tensor import apply1
from .docs import BINARY, UNARY, documented


@documented(BINARY)
def add(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x + y, element-wise. Strings are put behind one another.

    >>> mr.add([1, 2], 3)
    array([4, 5], dtype=int32)
    >>> mr.add("part-", ["0", "1"]).tolist()
    [b'part-0', b'part-1']
    """
    return apply1("add", [x, y])


@documented(BINARY)
def subtract(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x - y, element-wise.

    >>> mr.subtract([1, 2], 3)
    array([-2, -1], dtype=int32)
    """
    return apply1("sub", [x, y])


@documented(BINARY)
def multiply(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x * y, element-wise.

    >>> mr.multiply([1, 2], 3)
    array([3, 6], dtype=int32)
    """
    return apply1("mul", [x, y])


@documented(BINARY)
def divide(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x / y, element-wise.

    Floats keep their dtype, 8 and 16 bit integers give float32, others float64.

    >>> mr.divide([1, 2], 4)
    array([0.25, 0.5 ])
    """
    return apply1("div", [x, y])


truediv = divide
realdiv = divide


@documented(BINARY)
def floordiv(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x // y, element-wise, rounded towards minus infinity.

    >>> mr.math.floordiv([7, -7], 2)
    array([ 3, -4], dtype=int32)
    """
    return apply1("floor_div", [x, y])


@documented(BINARY)
def floormod(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x % y, element-wise, with the sign of y.

    >>> mr.math.floormod([7, -7], 4)
    array([3, 1], dtype=int32)
    """
    return apply1("floor_mod", [x, y])


mod = floormod


@documented(BINARY)
def pow(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x ** y, element-wise.

    >>> mr.pow([1, 2, 3], 2)
    array([1, 4, 9], dtype=int32)
    """
    return apply1("pow", [x, y])


@documented(BINARY)
def minimum(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute the smaller of x and y, element-wise; NaN if one is.

    >>> mr.minimum([1, 5], 3)
    array([1, 3], dtype=int32)
    """
    return apply1("minimum", [x, y])


@documented(BINARY)
def maximum(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute the larger of x and y, element-wise; NaN if one is.

    >>> mr.maximum([1, 5], 3)
    array([3, 5], dtype=int32)
    """
    return apply1("maximum", [x, y])


@documented(BINARY)
def squared_difference(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute (x - y) ** 2, element-wise.

    >>> mr.math.squared_difference([1, 5], 3)
    array([4, 4], dtype=int32)
    """
    return apply1("squared_difference", [x, y])


@documented(BINARY)
def equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x == y, element-wise.

    >>> mr.equal([1, 5], 5)
    array([False,  True])
    """
    return apply1("equal", [x, y])


@documented(BINARY)
def not_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x != y, element-wise.

    >>> mr.not_equal([1, 5], 5)
    array([ True, False])
    """
    return apply1("not_equal", [x, y])


@documented(BINARY)
def less(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x < y, element-wise.

    >>> mr.less([1, 5], 5)
    array([ True, False])
    """
    return apply1("less", [x, y])


@documented(BINARY)
def less_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x <= y, element-wise.

    >>> mr.less_equal([1, 5], 5)
    array([ True,  True])
    """
    return apply1("less_equal", [x, y])


@documented(BINARY)
def greater(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x > y, element-wise.

    >>> mr.greater([1, 5], 1)
    array([False,  True])
    """
    return apply1("greater", [x, y])


@documented(BINARY)
def greater_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x >= y, element-wise.

    >>> mr.greater_equal([1, 5], 5)
    array([False,  True])
    """
    return apply1("greater_equal", [x, y])


@documented(BINARY)
def logical_and(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x and y, element-wise, for bools.

    >>> mr.logical_and([True, False], True)
    array([ True, False])
    """
    return apply1("logical_and", [x, y])


@documented(BINARY)
def logical_or(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x or y, element-wise, for bools.

    >>> mr.logical_or([True, False], True)
    array([ True,  True])
    """
    return apply1("logical_or", [x, y])


@documented(BINARY)
def logical_xor(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute either x or y, element-wise, for bools.

    >>> mr.math.logical_xor([True, False], True)
    array([False,  True])
    """
    return apply1("logical_xor", [x, y])


@documented(BINARY)
def bitwise_and(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x & y, element-wise, for integers.

    >>> mr.bitwise.bitwise_and([6, 7], 3)
    array([2, 3], dtype=int32)
    """
    return apply1("bitwise_and", [x, y])


@documented(BINARY)
def bitwise_or(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x | y, element-wise, for integers.

    >>> mr.bitwise.bitwise_or([4, 7], 3)
    array([7, 7], dtype=int32)
    """
    return apply1("bitwise_or", [x, y])


@documented(BINARY)
def bitwise_xor(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x ^ y, element-wise, for integers.

    >>> mr.bitwise.bitwise_xor([6, 7], 3)
    array([5, 4], dtype=int32)
    """
    return apply1("bitwise_xor", [x, y])


@documented(BINARY)
def left_shift(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x << y, element-wise, for integers; the distance is clamped to the width.

    >>> mr.bitwise.left_shift([1, 2], 3)
    array([ 8, 16], dtype=int32)
    """
    return apply1("left_shift", [x, y])


@documented(BINARY)
def right_shift(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x >> y, element-wise, for integers; keeps the sign.

    >>> mr.bitwise.right_shift([16, -16], 3)
    array([ 2, -2], dtype=int32)
    """
    return apply1("right_shift", [x, y])


@documented(UNARY)
def logical_not(x: TensorLike, name: str | None = None) -> Any:
    """Compute not x, element-wise, for bools.

    >>> mr.logical_not([True, False])
    array([False,  True])
    """
    return apply1("logical_not", [x])


@documented(UNARY)
def invert(x: TensorLike, name: str | None = None) -> Any:
    """Compute ~x, element-wise, for integers.

    >>> mr.bitwise.invert([0, 5])
    array([-1, -6], dtype=int32)
    """
    return apply1("invert", [x])


@documented(UNARY)
def negative(x: TensorLike, name: str | None = None) -> Any:
    """Compute -x, element-wise.

    >>> mr.negative([1, -2])
    array([-1,  2], dtype=int32)
    """
    return apply1("neg", [x])


@documented(UNARY)
def sign(x: TensorLike, name: str | None = None) -> Any:
    """Compute -1, 0 or 1, element-wise.

    >>> mr.sign([-5, 0, 7])
    array([-1,  0,  1], dtype=int32)
    """
    return apply1("sign", [x])


@documented(UNARY)
def square(x: TensorLike, name: str | None = None) -> Any:
    """Compute x ** 2, element-wise.

    >>> mr.square([1, -2])
    array([1, 4], dtype=int32)
    """
    return apply1("square", [x])


@documented(UNARY)
def reciprocal(x: TensorLike, name: str | None = None) -> Any:
    """Compute 1 / x, element-wise.

    >>> mr.math.reciprocal([2.0, 4.0])
    array([0.5 , 0.25], dtype=float32)
    """
    return apply1("reciprocal", [x])


@documented(UNARY)
def sqrt(x: TensorLike, name: str | None = None) -> Any:
    """Compute the square root, element-wise.

    >>> mr.sqrt([4.0, 9.0])
    array([2., 3.], dtype=float32)
    """
    return apply1("sqrt", [x])


@documented(UNARY)
def rsqrt(x: TensorLike, name: str | None = None) -> Any:
    """Compute 1 / the square root, element-wise.

    >>> mr.math.rsqrt([4.0, 16.0])
    array([0.5 , 0.25], dtype=float32)
    """
    return apply1("rsqrt", [x])


@documented(UNARY)
def exp(x: TensorLike, name: str | None = None) -> Any:
    """Compute e to the power of x, element-wise.

    >>> mr.exp([0.0])
    array([1.], dtype=float32)
    """
    return apply1("exp", [x])


@documented(UNARY)
def expm1(x: TensorLike, name: str | None = None) -> Any:
    """Compute exp(x) - 1, element-wise, exact also near 0.

    >>> mr.math.expm1([0.0])
    array([0.], dtype=float32)
    """
    return apply1("expm1", [x])


@documented(UNARY)
def log(x: TensorLike, name: str | None = None) -> Any:
    """Compute the natural logarithm, element-wise.

    >>> mr.math.log([1.0])
    array([0.], dtype=float32)
    """
    return apply1("log", [x])


@documented(UNARY)
def log1p(x: TensorLike, name: str | None = None) -> Any:
    """Compute log(1 + x), element-wise, exact also near 0.

    >>> mr.math.log1p([0.0])
    array([0.], dtype=float32)
    """
    return apply1("log1p", [x])


@documented(UNARY)
def sin(x: TensorLike, name: str | None = None) -> Any:
    """Compute the sine of x in radians, element-wise.

    >>> mr.sin([0.0])
    array([0.], dtype=float32)
    """
    return apply1("sin", [x])


@documented(UNARY)
def cos(x: TensorLike, name: str | None = None) -> Any:
    """Compute the cosine of x in radians, element-wise.

    >>> mr.cos([0.0])
    array([1.], dtype=float32)
    """
    return apply1("cos", [x])


@documented(UNARY)
def tan(x: TensorLike, name: str | None = None) -> Any:
    """Compute the tangent of x in radians, element-wise.

    >>> mr.tan([0.0])
    array([0.], dtype=float32)
    """
    return apply1("tan", [x])


@documented(UNARY)
def tanh(x: TensorLike, name: str | None = None) -> Any:
    """Compute the hyperbolic tangent, element-wise.

    >>> mr.tanh([0.0])
    array([0.], dtype=float32)
    """
    return apply1("tanh", [x])


@documented(UNARY)
def sigmoid(x: TensorLike, name: str | None = None) -> Any:
    """Compute 1 / (1 + exp(-x)), element-wise.

    >>> mr.sigmoid([0.0])
    array([0.5], dtype=float32)
    """
    return apply1("sigmoid", [x])


@documented(UNARY)
def floor(x: TensorLike, name: str | None = None) -> Any:
    """Compute the next whole number below, element-wise.

    >>> mr.floor([1.5, -1.5])
    array([ 1., -2.], dtype=float32)
    """
    return apply1("floor", [x])


@documented(UNARY)
def ceil(x: TensorLike, name: str | None = None) -> Any:
    """Compute the next whole number above, element-wise.

    >>> mr.math.ceil([1.5, -1.5])
    array([ 2., -1.], dtype=float32)
    """
    return apply1("ceil", [x])


@documented(UNARY)
def round(x: TensorLike, name: str | None = None) -> Any:
    """Compute the nearest whole number, element-wise; halves go to the even one.

    >>> mr.round([0.5, 1.5, 2.6])
    array([0., 2., 3.], dtype=float32)
    """
    return apply1("round", [x])


@documented(UNARY)
def is_nan(x: TensorLike, name: str | None = None) -> Any:
    """Return whether x is NaN, element-wise.

    >>> mr.math.is_nan([1.0, float('nan')])
    array([False,  True])
    """
    return apply1("is_nan", [x])


@documented(UNARY)
def is_inf(x: TensorLike, name: str | None = None) -> Any:
    """Return whether x is infinite, element-wise.

    >>> mr.math.is_inf([1.0, float('inf')])
    array([False,  True])
    """
    return apply1("is_inf", [x])


@documented(UNARY)
def is_finite(x: TensorLike, name: str | None = None) -> Any:
    """Return whether x is finite, element-wise.

    >>> mr.math.is_finite([1.0, float('inf')])
    array([ True, False])
    """
    return apply1("is_finite", [x])


@documented(UNARY)
def abs(x: TensorLike, name: str | None = None) -> Any:
    """Compute the absolute value, element-wise.

    >>> mr.abs([-1, 2])
    array([1, 2], dtype=int32)
    """
    dtype = dtype_of(x)
    return x if dtype is not None and dtype.is_unsigned else apply1("abs", [x])


@documented(UNARY)
def relu(features: TensorLike, name: str | None = None) -> Any:
    """Compute max(x, 0), element-wise.

    >>> mr.nn.relu([-1.0, 2.0])
    array([0., 2.], dtype=float32)
    """
    return apply1("relu", [features])


@documented(UNARY)
def identity(input: TensorLike, name: str | None = None) -> Any:
    """Return `input` itself.

    >>> mr.identity([1, 2])
    array([1, 2], dtype=int32)
    """
    return apply1("identity", [input])


def clip_by_value(
    t: TensorLike, clip_value_min: TensorLike, clip_value_max: TensorLike, name: str | None = None
) -> Any:
    """Cut to a range, element-wise.

    Parameters
    ----------
    t : tensor_like
        Numbers.
    clip_value_min, clip_value_max : tensor_like
        The ends of the range, which belong to it; they broadcast against `t`.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of the shape and dtype of `t`.

    Examples
    --------
    >>> mr.clip_by_value([-5, 1, 9], 0, 5)
    array([0, 1, 5], dtype=int32)
    """
    return apply1("clip_by_value", [t, clip_value_min, clip_value_max])


def assert_(x: TensorLike, condition: TensorLike, message: str) -> Any:
    """
    @x, where the scalar @condition holds; InvalidArgumentError with @message where it does not.
    """
    return apply1("assert", [x, condition], AttrTable().bytes("message", message), same_dtype=False)
