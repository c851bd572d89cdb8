"""Values in order, the best of them, and which are equal. `name` means nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol, TensorLike
from .._graph.tensor import Tensor, apply1, compute
from ..dtypes import DTypeLike, as_dtype
from .arrays import gather, reshape, shape, where
from .constants import cast, range as _range
from .docs import described
from .elementwise import assert_, is_finite
from .reductions import reduce_all, reduce_sum
from .segments import unsorted_segment_sum
from .selection import boolean_mask, cumsum


class TopKV2(NamedTuple):
    """What `top_k` returns: the values, and where they were."""

    values: Any
    indices: Any


class Unique(NamedTuple):
    """What `unique` returns: each value once, and which of them stands where."""

    y: Any
    idx: Any


class UniqueWithCounts(NamedTuple):
    """What `unique_with_counts` returns: as Unique, and how often each value is there."""

    y: Any
    idx: Any
    count: Any


def _order(axis: int, direction: str) -> AttrTable:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"direction is 'ASCENDING' or 'DESCENDING', not {direction!r}")
    return AttrTable().int("axis", axis).bool("descending", direction == "DESCENDING")


_DIRECTION = 'str, default "ASCENDING": Or "DESCENDING".'


@described(
    "Of the shape and dtype of `values`.",
    values="tensor_like: Numbers. A NaN counts as the largest value.",
    direction=_DIRECTION,
)
def sort(
    values: TensorLike, axis: int = -1, direction: str = "ASCENDING", name: str | None = None
) -> Any:
    """Put the values along an axis in order.

    >>> mr.sort([3, 1, 2])
    array([1, 2, 3], dtype=int32)
    """
    return apply1("sort", [values], _order(axis, direction))


@described(
    "int32, of the shape of `values`.",
    values="tensor_like: Numbers. A NaN counts as the largest value.",
    direction=_DIRECTION,
    stable="bool, default False: Accepted and ignored: equal values always keep their order.",
)
def argsort(
    values: TensorLike,
    axis: int = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: str | None = None,
) -> Any:
    """Find where the values are that `sort` puts one behind the other.

    >>> mr.argsort([30, 10, 20])
    array([1, 2, 0], dtype=int32)
    """
    return apply1("argsort", [values], _order(axis, direction))


@described(
    "A named tuple of `values` and `indices`.",
    input="tensor_like: Numbers, of one axis or more. A NaN counts as the largest value.",
    k="int, or scalar tensor, default 1: How many, along the last axis.",
    sorted="bool, default True: Accepted and ignored: they are always in order.",
    index_type='dtype_like, default "int32": Or int64, or int16.',
)
def top_k(
    input: TensorLike,
    k: Any = 1,
    sorted: bool = True,
    index_type: DTypeLike = "int32",
    name: str | None = None,
) -> TopKV2:
    """Find the largest values along the last axis, and where they are.

    Of equal values the first ones.

    >>> mr.math.top_k([1, 9, 5], k=2).indices
    array([1, 2], dtype=int32)
    """
    attrs = AttrTable().bool("descending", True)
    inputs = [input, k] if isinstance(k, Symbol) else [input]
    if not isinstance(k, Symbol):
        attrs.int("k", k)

    def body(x: Tensor, *count: Tensor) -> Any:
        if x.shape.rank is None or x.shape.rank < 1:
            raise ValueError(f"top_k takes a tensor of one axis or more, not {x.shape}")
        indices = apply1("argsort", [x, *count], attrs, same_dtype=False)
        values = gather(x, indices, axis=-1, batch_dims=x.shape.rank - 1)
        return [values, cast(indices, index_type)]

    return TopKV2(*compute(body, inputs, same_dtype=False))


@described(
    "bool, of the shape of `targets`.",
    targets="tensor_like of int: [batch]: the right class of each row.",
    predictions="tensor_like of float: [batch, classes]: how likely each class is.",
)
def in_top_k(targets: TensorLike, predictions: TensorLike, k: Any, name: str | None = None) -> Any:
    """Return whether the target is among the k best predictions.

    A class that is as good as the k-th one is among them; where a prediction is not finite, none
    is.

    >>> mr.math.in_top_k([0, 1], [[0.9, 0.1], [0.8, 0.2]], 1)
    array([ True, False])
    """

    def body(classes: Tensor, rows: Tensor) -> Any:
        count = cast(shape(rows)[1], classes.dtype)
        there = (classes >= 0) & (classes < count)
        known = where(there, classes, apply1("zeros_like", [classes]))
        own = gather(rows, reshape(known, [-1, 1]), batch_dims=1)
        better = reduce_sum(cast(rows > own, "int64"), 1)
        return there & (better < cast(k, "int64")) & reduce_all(is_finite(rows), 1)

    return compute(body, [targets, predictions], same_dtype=False)


def _first_equal(x: Tensor, out_idx: DTypeLike) -> list[Any]:
    """Each value once, which of them stands where, and which ones are new."""
    first = apply1("first_equal", [x], AttrTable().dtype("dtype", out_idx))
    new = first == _range(shape(x, out_idx)[0])
    place = cumsum(cast(new, out_idx)) - 1
    return [boolean_mask(x, new), gather(place, first), new]


_OUT_IDX = 'dtype_like, default "int32": Or int64.'


@described(
    "A named tuple of `y`, each value once, and `idx`, which of them stands where.",
    x="tensor_like: A vector. A NaN is equal to nothing.",
    out_idx=_OUT_IDX,
)
def unique(x: TensorLike, out_idx: DTypeLike = "int32", name: str | None = None) -> Unique:
    """Take each value of a vector once, in the order in which they come.

    >>> mr.unique([5, 7, 5])
    Unique(y=array([5, 7], dtype=int32), idx=array([0, 1, 0], dtype=int32))
    """
    return Unique(*compute(lambda values: _first_equal(values, out_idx)[:2], [x]))


@described(
    "A named tuple of `y`, each value once, `idx`, which of them stands where, and `count`.",
    x="tensor_like: A vector. A NaN is equal to nothing.",
    out_idx=_OUT_IDX,
)
def unique_with_counts(
    x: TensorLike, out_idx: DTypeLike = "int32", name: str | None = None
) -> UniqueWithCounts:
    """Take each value of a vector once, and count how often it is there.

    >>> mr.unique_with_counts([5, 7, 5]).count
    array([2, 1], dtype=int32)
    """

    def body(values: Tensor) -> Any:
        y, idx, new = _first_equal(values, out_idx)
        return [
            y,
            idx,
            unsorted_segment_sum(apply1("ones_like", [idx]), idx, reduce_sum(cast(new, "int64"))),
        ]

    return UniqueWithCounts(*compute(body, [x]))


def _neighbours(x: Tensor, op: str) -> Any:
    flat = reshape(x, [-1])
    return reduce_all(apply1(op, [flat[:-1], flat[1:]]))


@described("A scalar bool.")
def is_non_decreasing(x: TensorLike, name: str | None = None) -> Any:
    """Return whether no value is below the one before it.

    >>> mr.math.is_non_decreasing([1, 1, 2])
    True
    """
    return compute(lambda values: _neighbours(values, "less_equal"), [x])


@described("A scalar bool.")
def is_strictly_increasing(x: TensorLike, name: str | None = None) -> Any:
    """Return whether each value is above the one before it.

    >>> mr.math.is_strictly_increasing([1, 1, 2])
    False
    """
    return compute(lambda values: _neighbours(values, "less"), [x])


@described("Of the shape and dtype of `x`.", x="tensor_like of int: Each of 0 to n - 1 once.")
def invert_permutation(x: TensorLike, name: str | None = None) -> Any:
    """Find where each number of a permutation stands.

    >>> mr.math.invert_permutation([2, 0, 1])
    array([1, 2, 0], dtype=int32)
    """

    def body(order: Tensor) -> Any:
        if not as_dtype(order.dtype).is_integer:
            raise TypeError(f"a permutation is of integers, not of {order.dtype.name}")
        inverse = apply1("argsort", [order], AttrTable())
        numbers = _range(cast(shape(order)[0], order.dtype))
        holds = reduce_all(gather(order, inverse) == numbers)
        return assert_(cast(inverse, order.dtype), holds, "the values are not a permutation")

    return compute(body, [x])
