"""What is computed of many values: variances, norms of floats, softmax. `name` means nothing."""

from __future__ import annotations

from typing import Any, Callable

from .._data.structure import is_composite, is_ragged
from .._graph.symbol import TensorLike
from .._graph.tensor import Tensor, apply1, compute
from ..dtypes import DTypeLike
from .arrays import reshape, size, squeeze, where
from .constants import cast
from .docs import REDUCTION, described, documented
from .elementwise import exp, is_finite, log, maximum, sqrt, square
from .reductions import reduce_max, reduce_mean, reduce_sum
from .special import require_floats


def _of_tensor(body: Callable[[Any], Any], x: TensorLike, what: str) -> Any:
    """@body of @x, which may be ragged."""
    if is_ragged(x):
        return body(x)
    if is_composite(x):
        raise TypeError(f"{what} takes tensors, no sparse ones: use mr.sparse.to_dense")
    return compute(body, [x])


def _variance(x: Any, axis: Any, keepdims: bool, what: str) -> Any:
    if is_composite(x):  # their rows have no common mean to be subtracted: E(x²) - E(x)²
        of_squares = reduce_mean(square(x), axis, keepdims)
        return maximum(of_squares - square(reduce_mean(x, axis, keepdims)), 0)
    if not x.dtype.is_floating:
        raise TypeError(f"{what} takes floats, not {x.dtype.name}: use mr.cast")
    return reduce_mean(square(x - reduce_mean(x, axis, keepdims=True)), axis, keepdims)


@documented(REDUCTION)
def reduce_variance(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Compute the variance of floats over axes: the mean of the squares of the deviations.

    >>> mr.math.reduce_variance([1.0, 3.0])
    1.0
    """
    return _of_tensor(
        lambda x: _variance(x, axis, keepdims, "reduce_variance"), input_tensor, "reduce_variance"
    )


@documented(REDUCTION)
def reduce_std(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Compute the standard deviation of floats over axes.

    >>> mr.math.reduce_std([1.0, 3.0])
    1.0
    """
    return _of_tensor(
        lambda x: sqrt(_variance(x, axis, keepdims, "reduce_std")), input_tensor, "reduce_std"
    )


@documented(REDUCTION)
def reduce_logsumexp(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Compute log(sum(exp(x))) of floats over axes, which does not overflow.

    >>> mr.reduce_logsumexp([1000.0])
    1000.0
    """

    def body(x: Tensor) -> Any:
        require_floats("reduce_logsumexp", x.dtype)
        highest = reduce_max(x, axis, keepdims=True)
        nothing = apply1("zeros_like", [highest])
        shift = where(is_finite(highest), highest, nothing)
        result = log(reduce_sum(exp(x - shift), axis, keepdims=True)) + shift
        if keepdims:
            return result
        return reshape(result, []) if axis is None else squeeze(result, axis)

    return _of_tensor(body, input_tensor, "reduce_logsumexp")


@documented(REDUCTION)
def reduce_euclidean_norm(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Compute the root of the sum of the squares over axes (of integers an integer).

    >>> mr.math.reduce_euclidean_norm([3.0, 4.0])
    5.0
    """

    def body(x: Tensor) -> Any:
        wide = x if x.dtype.is_floating else cast(x, "float64")
        return cast(sqrt(reduce_sum(square(wide), axis, keepdims)), x.dtype)

    return _of_tensor(body, input_tensor, "reduce_euclidean_norm")


@described(
    "What is left.",
    input="tensor_like: Numbers, bools or strings.",
    axis="int or sequence of int, optional: Axes that go; by default all do.",
    dtype='dtype_like, default "int64": Of the result.',
)
def count_nonzero(
    input: TensorLike,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Any:
    """Count over axes the values that are not 0, not false or not empty.

    >>> mr.math.count_nonzero([0, 5, 7])
    2
    """

    def body(x: Tensor) -> Any:
        nothing: Any = b"" if x.dtype.kind == "s" else False if x.dtype.is_bool else 0
        return cast(reduce_sum(cast(x != nothing, "int64"), axis, bool(keepdims)), dtype)

    return _of_tensor(body, input, "count_nonzero")


@described("A scalar, float32.", value="tensor_like: Numbers.")
def zero_fraction(value: TensorLike, name: str | None = None) -> Any:
    """Compute which part of the values is 0.

    >>> mr.math.zero_fraction([0.0, 1.0, 0.0, 1.0])
    0.5
    """

    def body(x: Tensor) -> Any:
        zeros = size(x, "int64") - count_nonzero(x)
        return cast(zeros, "float32") / cast(size(x, "int64"), "float32")

    return _of_tensor(body, value, "zero_fraction")


@described(
    "The mean and the variance: a pair.",
    x="tensor_like of float: Numbers.",
    axes="sequence of int: Axes that go.",
    shift="optional: Accepted and ignored.",
    keepdims="bool, default False: Whether the axes stay, with size 1.",
)
def moments(
    x: TensorLike, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Compute mean and variance over axes.

    >>> mr.nn.moments([1.0, 3.0], [0])
    (2.0, 1.0)
    """

    def body(values: Tensor) -> Any:
        require_floats("moments", values.dtype)
        wide = cast(values, "float32") if values.dtype.size == 2 else values
        pair = [reduce_mean(wide, axes, keepdims), _variance(wide, axes, keepdims, "moments")]
        return [cast(v, values.dtype) for v in pair]

    return tuple(compute(body, [x]))


@described("A scalar.", t="tensor_like of float: Numbers.")
def l2_loss(t: TensorLike, name: str | None = None) -> Any:
    """Compute half of the sum of the squares.

    >>> mr.nn.l2_loss([3.0, 4.0])
    12.5
    """
    return compute(lambda x: reduce_sum(square(x)) / 2.0, [t])


_SOFT_AXIS = "int, optional: Which axis; by default the last one."


def _shifted(logits: Any, axis: int | None, what: str) -> tuple[Any, int]:
    require_floats(what, logits.dtype)
    if logits.shape.rank == 0:
        raise ValueError(f"{what} takes a tensor of one axis or more")
    along = -1 if axis is None else axis
    return logits - reduce_max(logits, along, keepdims=True), along


@described("Of the shape of `logits`.", axis=_SOFT_AXIS)
def softmax(logits: TensorLike, axis: int | None = None, name: str | None = None) -> Any:
    """Compute exp(x) / sum(exp(x)) along an axis: probabilities of logits.

    >>> mr.nn.softmax([1.0, 1.0])
    array([0.5, 0.5], dtype=float32)
    """

    def body(x: Any) -> Any:
        shifted, along = _shifted(x, axis, "softmax")
        powers = exp(shifted)
        return powers / reduce_sum(powers, along, keepdims=True)

    return _of_tensor(body, logits, "softmax")


@described("Of the shape of `logits`.", axis=_SOFT_AXIS)
def log_softmax(logits: TensorLike, axis: int | None = None, name: str | None = None) -> Any:
    """Compute the logarithm of the softmax along an axis.

    >>> mr.nn.log_softmax([1000.0, 0.0])
    array([    0., -1000.], dtype=float32)
    """

    def body(x: Any) -> Any:
        shifted, along = _shifted(x, axis, "log_softmax")
        return shifted - log(reduce_sum(exp(shifted), along, keepdims=True))

    return _of_tensor(body, logits, "log_softmax")
