"""Values of sparse tensors that go into groups: equal places, counts. `name` means nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.spec import TensorShape
from .._data.structure import is_composite
from .._graph.symbol import TensorLike
from .._graph.tensor import Tensor, compute, convert_to_tensor
from .arrays import concat, expand_dims, gather, reshape, shape as _shape
from .constants import cast, ones_like, range as _range
from .docs import described
from .elementwise import assert_, maximum, sqrt
from .ordering import is_non_decreasing
from .reductions import reduce_all, reduce_max
from .segments import segment_max, segment_sum, unsorted_segment_sum
from .selection import boolean_mask, cumsum, repeat
from .sparse import SparseTensor, compute_sparse, in_order


def is_new(places: Any, rank: int) -> Any:
    """Of @places that are in order: which differ from the one before."""
    numbers = _range(_shape(places, "int64")[0])
    if rank == 0:
        return numbers == 0
    same = reduce_all(places[1:] == places[:-1], axis=1)
    return concat([numbers[:1] == 0, ~same], 0)


def grouped(places: Any, values: Any, rank: int) -> tuple[Any, Any, Any]:
    """Each place once, the values in the order of the places, and to which one each belongs."""
    if rank > 0:
        order = in_order(places, rank)
        places, values = gather(places, order), gather(values, order)
    new = is_new(places, rank)
    return boolean_mask(places, new), values, cumsum(cast(new, "int64")) - 1


# ---- parts that are picked before they are added up ----

_PICKED = {
    "indices": "tensor_like of int: Which parts of `data`.",
    "segment_ids": "tensor_like of int: To which segment each one belongs; in order.",
    "num_segments": "int, or scalar tensor, optional: How many segments; by default as many as the "
    "last number says.",
    "sparse_gradient": "bool, default False: Accepted and ignored.",
}
_PICKED_RESULT = "A part for each segment; zeros for none."


def _picked(data: Any, indices: Any, segment_ids: Any, num_segments: Any, how: str) -> Any:
    what = f"sparse.segment_{how}"

    def body(x: Tensor, which: Tensor, ids: Tensor, *count: Tensor) -> Any:
        if how != "sum" and not x.dtype.is_floating:
            raise TypeError(f"{what} takes floats, not {x.dtype.name}")
        ids = assert_(ids, is_non_decreasing(ids), f"{what}: the segment ids are not in order")
        if count:
            inside = reduce_all(cast(ids, "int64") < cast(count[0], "int64"))
            ids = assert_(ids, inside, f"{what}: a segment id is not below num_segments")

        def added(values: Any) -> Any:
            if count:
                return unsorted_segment_sum(values, ids, count[0])
            return segment_sum(values, ids)

        sums = added(gather(x, which))
        if how == "sum":
            return sums
        number = cast(maximum(added(ones_like(ids)), 1), x.dtype)
        number = reshape(number, [-1] + [1] * ((x.shape.rank or 1) - 1))
        return sums / (number if how == "mean" else sqrt(number))

    given = [data, indices, segment_ids]
    return compute(
        body, given if num_segments is None else [*given, num_segments], same_dtype=False
    )


@described(_PICKED_RESULT, **_PICKED)
def sparse_segment_sum(
    data: TensorLike,
    indices: TensorLike,
    segment_ids: TensorLike,
    num_segments: Any = None,
    name: str | None = None,
    sparse_gradient: bool = False,
) -> Any:
    """Pick parts of a tensor, and add up those of one segment.

    >>> mr.sparse.segment_sum([1, 2, 3], [0, 2, 2], [0, 0, 1])
    array([4, 3], dtype=int32)
    """
    return _picked(data, indices, segment_ids, num_segments, "sum")


@described(_PICKED_RESULT, **_PICKED)
def sparse_segment_mean(
    data: TensorLike,
    indices: TensorLike,
    segment_ids: TensorLike,
    num_segments: Any = None,
    name: str | None = None,
    sparse_gradient: bool = False,
) -> Any:
    """Pick parts of a tensor of floats, and compute the mean of those of one segment.

    >>> mr.sparse.segment_mean([1.0, 2.0, 3.0], [0, 2, 2], [0, 0, 1])
    array([2., 3.], dtype=float32)
    """
    return _picked(data, indices, segment_ids, num_segments, "mean")


@described(_PICKED_RESULT, **_PICKED)
def sparse_segment_sqrt_n(
    data: TensorLike,
    indices: TensorLike,
    segment_ids: TensorLike,
    num_segments: Any = None,
    name: str | None = None,
    sparse_gradient: bool = False,
) -> Any:
    """Pick parts of a tensor of floats; add up those of a segment, over the root of their number.

    >>> mr.sparse.segment_sqrt_n([1.0, 2.0, 3.0], [0, 2, 2], [0, 0, 1])
    array([2.828427, 3.      ], dtype=float32)
    """
    return _picked(data, indices, segment_ids, num_segments, "sqrt_n")


# ---- counts ----


def _rows_and_values(x: Any) -> tuple[Any, Any, Any]:
    """Of a matrix, dense, sparse or ragged: the row of each value, the values, how many rows."""
    if isinstance(x, SparseTensor):
        return x.indices[:, 0], x.values, x.dense_shape[0]
    if is_composite(x):
        return cast(x.value_rowids(), "int64"), x.values, x.nrows("int64")
    sizes = _shape(x, "int64")
    return repeat(_range(sizes[0]), sizes[1], axis=0), reshape(x, [-1]), sizes[0]


def _values(x: Any) -> Any:
    if isinstance(x, SparseTensor):
        return x.values
    return x.flat_values if is_composite(x) else reshape(x, [-1])


@described(
    "A SparseTensor: a vector, or with `axis=-1` a matrix.",
    values="tensor_like, RaggedTensor or SparseTensor of int: Numbers from 0 on.",
    weights="like `values`, optional: What each number counts.",
    axis="int, default 0: 0 and None count all numbers together, -1 each row of a matrix by itself.",
    minlength="int, optional: How long the last axis is at least.",
    maxlength="int, optional: How long it is: larger numbers do not count.",
    binary_output="bool, default False: Whether to say only if a number is there.",
)
def sparse_bincount(
    values: Any,
    weights: Any = None,
    axis: int | None = 0,
    minlength: int | None = None,
    maxlength: int | None = None,
    binary_output: bool = False,
    name: str | None = None,
) -> Any:
    """Count how often each number is there.

    >>> counts = mr.sparse.bincount([[5, 5], [0, 1]], axis=-1)
    >>> counts.indices, counts.values
    (array([[0, 5],
           [1, 0],
           [1, 1]]), array([2, 1, 1], dtype=int32))
    """
    if axis not in (None, 0, -1):
        raise ValueError(f"sparse.bincount: axis is None, 0 or -1, not {axis}")
    if binary_output and weights is not None:
        raise ValueError("sparse.bincount: binary_output takes no weights")
    x = values if is_composite(values) else convert_to_tensor(values)
    by_row = axis == -1 and (is_composite(x) or x.ndim == 2) and TensorShape(x.shape).rank == 2
    parts = [*_rows_and_values(x)] if by_row else [_values(x)]
    if weights is not None:
        parts.append(_values(weights if is_composite(weights) else convert_to_tensor(weights)))

    def body(*given: Tensor) -> Any:
        numbers = given[1] if by_row else given[0]
        if numbers.dtype.name not in ("int32", "int64"):
            raise TypeError(f"sparse.bincount takes int32 or int64, not {numbers.dtype.name}")
        weight = given[-1] if weights is not None else ones_like(numbers)
        wide = cast(numbers, "int64")
        wide = assert_(wide, reduce_all(wide >= 0), "sparse.bincount: a number is negative")
        same = _shape(weight)[0] == _shape(wide)[0]
        wide = assert_(wide, same, "sparse.bincount: there are as many weights as values")
        length = reduce_max(concat([np.zeros(1, np.int64), wide], 0)) + 1
        length = length if minlength is None else maximum(length, minlength)
        if maxlength is not None:
            length = length * 0 + maxlength
        counted = wide < length
        places = expand_dims(wide, 1)
        places = concat([expand_dims(given[0], 1), places], 1) if by_row else places
        places, weight = boolean_mask(places, counted), boolean_mask(weight, counted)
        places, weight, ids = grouped(places, weight, 2 if by_row else 1)
        sums = (segment_max if binary_output else segment_sum)(weight, ids)
        sizes = [given[2], length] if by_row else [length]
        return SparseTensor(places, sums, concat([reshape(s, [1]) for s in sizes], 0))

    return compute_sparse(body, parts)
