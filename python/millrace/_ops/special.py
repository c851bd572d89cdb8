"""More element-wise functions, under TensorFlow's names and arguments. `name` means nothing."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .._data.structure import is_ragged
from .._graph.symbol import TensorLike
from .._graph.tensor import Tensor, apply1, compute, compute_each
from ..dtypes import DType, DTypeLike, as_dtype
from .arrays import where
from .constants import cast
from .docs import BINARY, UNARY, described, documented
from .elementwise import add, clip_by_value
from .reductions import reduce_sum


@documented(UNARY)
def acos(x: TensorLike, name: str | None = None) -> Any:
    """Compute the angle whose cosine is x, element-wise.

    >>> mr.acos([1.0])
    array([0.], dtype=float32)
    """
    return apply1("acos", [x])


@documented(UNARY)
def acosh(x: TensorLike, name: str | None = None) -> Any:
    """Compute the inverse of the hyperbolic cosine, element-wise.

    >>> mr.acosh([1.0])
    array([0.], dtype=float32)
    """
    return apply1("acosh", [x])


@documented(UNARY)
def asin(x: TensorLike, name: str | None = None) -> Any:
    """Compute the angle whose sine is x, element-wise.

    >>> mr.asin([0.0])
    array([0.], dtype=float32)
    """
    return apply1("asin", [x])


@documented(UNARY)
def asinh(x: TensorLike, name: str | None = None) -> Any:
    """Compute the inverse of the hyperbolic sine, element-wise.

    >>> mr.asinh([0.0])
    array([0.], dtype=float32)
    """
    return apply1("asinh", [x])


@documented(UNARY)
def atan(x: TensorLike, name: str | None = None) -> Any:
    """Compute the angle whose tangent is x, element-wise.

    >>> mr.atan([0.0])
    array([0.], dtype=float32)
    """
    return apply1("atan", [x])


@documented(UNARY)
def atanh(x: TensorLike, name: str | None = None) -> Any:
    """Compute the inverse of the hyperbolic tangent, element-wise.

    >>> mr.atanh([0.0])
    array([0.], dtype=float32)
    """
    return apply1("atanh", [x])


@documented(UNARY)
def cosh(x: TensorLike, name: str | None = None) -> Any:
    """Compute the hyperbolic cosine, element-wise.

    >>> mr.cosh([0.0])
    array([1.], dtype=float32)
    """
    return apply1("cosh", [x])


@documented(UNARY)
def sinh(x: TensorLike, name: str | None = None) -> Any:
    """Compute the hyperbolic sine, element-wise.

    >>> mr.sinh([0.0])
    array([0.], dtype=float32)
    """
    return apply1("sinh", [x])


@documented(UNARY)
def erf(x: TensorLike, name: str | None = None) -> Any:
    """Compute the error function, element-wise.

    >>> mr.math.erf([0.0])
    array([0.], dtype=float32)
    """
    return apply1("erf", [x])


@documented(UNARY)
def erfc(x: TensorLike, name: str | None = None) -> Any:
    """Compute 1 - erf(x), element-wise.

    >>> mr.math.erfc([0.0])
    array([1.], dtype=float32)
    """
    return apply1("erfc", [x])


@documented(UNARY)
def lgamma(x: TensorLike, name: str | None = None) -> Any:
    """Compute the logarithm of the absolute value of the gamma function, element-wise.

    >>> mr.math.lgamma([1.0, 2.0])
    array([0., 0.], dtype=float32)
    """
    return apply1("lgamma", [x])


@documented(UNARY)
def rint(x: TensorLike, name: str | None = None) -> Any:
    """Compute the nearest whole number of floats, element-wise; halves go to the even one.

    >>> mr.math.rint([0.5, 1.5])
    array([0., 2.], dtype=float32)
    """

    def body(value: Tensor) -> Any:
        require_floats("rint", value.dtype)
        return apply1("round", [value])

    return compute_each(body, [x])


def require_floats(name: str, dtype: DType) -> None:
    """TypeError unless a function of floats has some."""
    if not dtype.is_floating:
        raise TypeError(f"{name} takes floats, not {dtype.name}: use mr.cast")


@described("Of the shape to which both broadcast.", x="tensor_like: Floats.")
def atan2(y: TensorLike, x: TensorLike, name: str | None = None) -> Any:
    """Compute the angle of the point (x, y), element-wise.

    >>> mr.atan2([0.0], [1.0])
    array([0.], dtype=float32)
    """
    return apply1("atan2", [y, x])


@documented(BINARY)
def truncatediv(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x / y, element-wise, rounded towards 0.

    >>> mr.truncatediv([7, -7], 2)
    array([ 3, -3], dtype=int32)
    """
    return apply1("truncate_div", [x, y])


@documented(BINARY)
def truncatemod(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute what is left of x / y rounded towards 0, element-wise, with the sign of x.

    >>> mr.truncatemod([7, -7], 4)
    array([ 3, -3], dtype=int32)
    """
    return apply1("truncate_mod", [x, y])


def _float_of(dtype: DType) -> DType:
    """What true division makes of a dtype."""
    if dtype.is_floating:
        return dtype
    return as_dtype("float32" if dtype.size <= 2 else "float64")


@documented(BINARY)
def divide_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x / y, element-wise; 0 where y is 0.

    >>> mr.math.divide_no_nan([1.0, 2.0], [2.0, 0.0])
    array([0.5, 0. ], dtype=float32)
    """

    def body(a: Tensor, b: Tensor) -> Any:
        if a.dtype is not b.dtype:
            return apply1("divide_no_nan", [a, b])  # which says what is wrong
        dtype = _float_of(a.dtype)
        return apply1("divide_no_nan", [cast(a, dtype), cast(b, dtype)])

    return compute_each(body, [x, y])


@documented(BINARY)
def multiply_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x * y of floats, element-wise; 0 where y is 0, whatever x is.

    >>> mr.math.multiply_no_nan([float('inf'), 2.0], [0.0, 3.0])
    array([0., 6.], dtype=float32)
    """
    return apply1("multiply_no_nan", [x, y])


@documented(UNARY)
def reciprocal_no_nan(x: TensorLike, name: str | None = None) -> Any:
    """Compute 1 / x of floats, element-wise; 0 where x is 0.

    >>> mr.math.reciprocal_no_nan([2.0, 0.0])
    array([0.5, 0. ], dtype=float32)
    """
    return apply1("divide_no_nan", [1.0, x])


@documented(BINARY)
def xdivy(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x / y of floats, element-wise; 0 where x is 0.

    >>> mr.math.xdivy([0.0, 1.0], [0.0, 2.0])
    array([0. , 0.5], dtype=float32)
    """
    return apply1("xdivy", [x, y])


@documented(BINARY)
def xlogy(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x * log(y) of floats, element-wise; 0 where x is 0.

    >>> mr.math.xlogy([0.0, 1.0], [0.0, 1.0])
    array([0., 0.], dtype=float32)
    """
    return apply1("xlogy", [x, y])


@documented(BINARY)
def xlog1py(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Compute x * log(1 + y) of floats, element-wise; 0 where x is 0.

    >>> mr.math.xlog1py([0.0, 1.0], [-1.0, 0.0])
    array([0., 0.], dtype=float32)
    """
    return apply1("xlog1py", [x, y])


@described(
    "Of the shape to which both broadcast.",
    x1="tensor_like: float32 or float64.",
    x2="tensor_like: Of the same dtype.",
)
def nextafter(x1: TensorLike, x2: TensorLike, name: str | None = None) -> Any:
    """Compute the next number from x1 on towards x2, element-wise.

    >>> mr.math.nextafter([1.0], [2.0])
    array([1.0000001], dtype=float32)
    """
    return apply1("nextafter", [x1, x2])


@described("Of the shape of `x`.", scalar="tensor_like: A scalar of the dtype of `x`.")
def scalar_mul(scalar: TensorLike, x: TensorLike, name: str | None = None) -> Any:
    """Multiply all of a tensor by a number.

    >>> mr.scalar_mul(2, [1, 3])
    array([2, 6], dtype=int32)
    """

    def body(factor: Tensor, values: Tensor) -> Any:
        if factor.shape.rank != 0:
            raise ValueError(f"only scalar multiplies: a tensor of shape {factor.shape} is given")
        return factor * values

    return compute_each(body, [scalar, x])


@described("The sum.", inputs="sequence of tensor_like: One or more, of one dtype and shape.")
def add_n(inputs: Any, name: str | None = None) -> Any:
    """Add up tensors.

    >>> mr.add_n([[1, 2], [10, 20]])
    array([11, 22], dtype=int32)
    """
    values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if not values:
        raise ValueError("add_n takes one tensor or more")
    if any(is_ragged(value) for value in values):
        return functools.reduce(add, values)
    return compute(_sum_of_all, values)


def _sum_of_all(*tensors: Tensor) -> Any:
    total = tensors[0]
    for tensor in tensors[1:]:
        if not total.shape.is_compatible_with(tensor.shape):
            raise ValueError(
                f"tensors of shapes {total.shape} and {tensor.shape}: one shape is wanted"
            )
        total = total + tensor
    return total


@described(
    "The sum.",
    inputs="sequence of tensor_like: One or more, of one dtype and shape.",
    shape="TensorShape, optional: Accepted and ignored: that of the tensors counts.",
    tensor_dtype="dtype_like, optional: The dtype of the tensors, as a check.",
)
def accumulate_n(
    inputs: Any, shape: Any = None, tensor_dtype: DTypeLike | None = None, name: str | None = None
) -> Any:
    """Add up tensors.

    >>> mr.math.accumulate_n([[1, 2], [10, 20]])
    array([11, 22], dtype=int32)
    """

    def body(*tensors: Tensor) -> Any:
        if tensor_dtype is not None and tensors[0].dtype is not as_dtype(tensor_dtype):
            raise TypeError(f"tensors of {tensors[0].dtype.name}, not {tensor_dtype}")
        return _sum_of_all(*tensors)

    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError("accumulate_n takes a list of one tensor or more")
    return compute(body, list(inputs))


@described(
    "Of the shape to which all broadcast.",
    coeffs="list of tensor_like: That of the highest power first.",
    x="tensor_like: Where.",
)
def polyval(coeffs: Any, x: TensorLike, name: str | None = None) -> Any:
    """Compute a polynomial, element-wise.

    >>> mr.math.polyval([1, 2, 3], 2)
    11
    """
    if not isinstance(coeffs, list):
        raise ValueError(f"coeffs is a list of coefficients, not {type(coeffs).__name__}")

    def body(at: Tensor, *factors: Tensor) -> Any:
        total = factors[0]
        for factor in factors[1:]:
            total = factor + total * at
        return total

    if not coeffs:
        return compute_each(lambda at: apply1("zeros_like", [at]), [x])
    return compute(body, [x, *coeffs])


@described("Without the last axis.", x="tensor_like of float: Numbers above 0.")
def lbeta(x: TensorLike, name: str | None = None) -> Any:
    """Compute the logarithm of the absolute value of the beta function along the last axis.

    >>> mr.math.lbeta([1.0, 1.0])
    0.0
    """

    def body(values: Tensor) -> Any:
        return reduce_sum(lgamma(values), -1) - lgamma(reduce_sum(values, -1))

    return compute(body, [x])


@described(
    "Of the shape of `value`.",
    value="tensor_like: Numbers.",
    dtype="dtype_like: What the result has.",
)
def saturate_cast(value: TensorLike, dtype: DTypeLike, name: str | None = None) -> Any:
    """Convert to another dtype; what is out of its range becomes its lowest or highest value.

    >>> mr.saturate_cast([-5, 300], mr.uint8)
    array([  0, 255], dtype=uint8)
    """
    to = as_dtype(dtype)

    def body(x: Tensor) -> Any:
        own = x.dtype
        if to.is_integer and own.is_integer:
            low, high = max(to.min, own.min), min(to.max, own.max)
            x = clip_by_value(x, low, high)
        elif to.is_floating and own.is_floating and to.size < own.size:
            x = clip_by_value(x, float(to.min), float(to.max))
        elif to.is_floating and own.is_integer and own.max > to.max:
            x = clip_by_value(x, max(int(to.min), own.min), int(to.max))
        return cast(x, to)  # which saturates from floats to integers

    return compute_each(body, [value])


@documented(UNARY)
def softplus(features: TensorLike, name: str | None = None) -> Any:
    """Compute log(1 + exp(x)), element-wise.

    >>> mr.math.softplus([1000.0])
    array([1000.], dtype=float32)
    """
    return apply1("softplus", [features])


@documented(UNARY)
def softsign(features: TensorLike, name: str | None = None) -> Any:
    """Compute x / (1 + abs(x)), element-wise.

    >>> mr.math.softsign([1.0, -1.0])
    array([ 0.5, -0.5], dtype=float32)
    """
    return compute_each(lambda x: x / (abs(x) + 1.0), [features])


@documented(UNARY)
def log_sigmoid(x: TensorLike, name: str | None = None) -> Any:
    """Compute the logarithm of the sigmoid, element-wise.

    >>> mr.math.log_sigmoid([1000.0])
    array([-0.], dtype=float32)
    """
    return compute_each(lambda value: -softplus(-value), [x])


@documented(UNARY)
def relu6(features: TensorLike, name: str | None = None) -> Any:
    """Compute min(max(x, 0), 6), element-wise.

    >>> mr.nn.relu6([-1.0, 3.0, 9.0])
    array([0., 3., 6.], dtype=float32)
    """
    return compute_each(lambda x: apply1("minimum", [apply1("relu", [x]), 6]), [features])


@documented(UNARY)
def elu(features: TensorLike, name: str | None = None) -> Any:
    """Compute exp(x) - 1 where x is negative, and x elsewhere.

    >>> mr.nn.elu([0.0, 3.0])
    array([0., 3.], dtype=float32)
    """
    return apply1("elu", [features])


_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


@documented(UNARY)
def selu(features: TensorLike, name: str | None = None) -> Any:
    """Compute the scaled exponential linear unit, element-wise.

    >>> mr.nn.selu([0.0])
    array([0.], dtype=float32)
    """

    def body(x: Tensor) -> Any:
        negative = apply1("elu", [apply1("minimum", [x, 0.0])])
        return apply1("relu", [x]) * _SELU_SCALE + negative * (_SELU_SCALE * _SELU_ALPHA)

    return compute_each(body, [features])


def _single(number: float) -> float:
    """A constant that TensorFlow has in float32, whatever the dtype of what it goes with."""
    return float(np.float32(number))


@described(
    "Of the shape of `features`.", alpha="float, default 0.2: The slope where x is negative."
)
def leaky_relu(features: TensorLike, alpha: float = 0.2, name: str | None = None) -> Any:
    """Compute x where it is positive, and alpha * x elsewhere.

    >>> mr.nn.leaky_relu([-1.0, 2.0], alpha=0.5)
    array([-0.5,  2. ], dtype=float32)
    """

    def body(x: Tensor) -> Any:
        x = x if x.dtype.is_floating else cast(x, "float32")
        return where(x > 0, x, x * _single(alpha))

    return compute_each(body, [features])


@described(
    "Of the shape of `features`.", approximate="bool, default False: Whether to compute it by tanh."
)
def gelu(features: TensorLike, approximate: bool = False, name: str | None = None) -> Any:
    """Compute the Gaussian error linear unit, element-wise.

    >>> mr.nn.gelu([0.0])
    array([0.], dtype=float32)
    """

    def body(x: Tensor) -> Any:
        require_floats("gelu", x.dtype)
        if approximate:
            inner = (x + x * x * x * _single(0.044715)) * math.sqrt(2 / math.pi)
            return x * 0.5 * (apply1("tanh", [inner]) + 1.0)
        return x * 0.5 * (apply1("erf", [x / _single(math.sqrt(2))]) + 1.0)

    return compute_each(body, [features])


@described("Of the shape of `features`.", beta="float, default 1.0: A factor in the sigmoid.")
def silu(features: TensorLike, beta: float = 1.0) -> Any:
    """Compute x * sigmoid(beta * x), element-wise.

    >>> mr.nn.silu([0.0])
    array([0.], dtype=float32)
    """
    return compute_each(lambda x: x * apply1("sigmoid", [x * _single(beta)]), [features])


swish = silu
