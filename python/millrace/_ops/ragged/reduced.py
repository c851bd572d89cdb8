"""Reductions over axes of ragged tensors."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ..._data.spec import TensorShape
from ..._data.structure import is_ragged
from ..._graph.attrs import AttrTable
from ..._graph.tensor import apply1
from ...dtypes import as_dtype
from ..arrays import concat, expand_dims, gather, reshape, size
from ..constants import cast, ones_like
from ..elementwise import maximum
from ..reductions import reduce_max
from ..segments import unsorted_segment_max, unsorted_segment_min
from ..segments import unsorted_segment_prod, unsorted_segment_sum
from ..scattering import gather_nd
from ..selection import cumsum, repeat
from .moved import coordinates
from .rows import positions, splits_of

_REDUCTIONS = {"reduce_sum": 0, "reduce_prod": 1, "reduce_min": 2, "reduce_max": 3}
_OF_SEGMENTS = {
    "reduce_sum": unsorted_segment_sum,
    "reduce_prod": unsorted_segment_prod,
    "reduce_min": unsorted_segment_min,
    "reduce_max": unsorted_segment_max,
}


def reduced(value: Any, op: str, axis: Any, keepdims: bool) -> Any:
    """The reduction @op of the ragged tensor @value over @axis: None, a number or several."""
    rank = TensorShape(value.shape).rank or 0
    if axis is None:
        result = _of_all(value.flat_values, op)
        return reshape(result, [1] * rank) if keepdims else result
    given = [int(a) for a in np.atleast_1d(axis)]
    if any(not -rank <= a < rank for a in given):
        raise ValueError(f"{op}: axis {axis!r} of a ragged tensor with {rank} axes")
    axes = sorted({a % rank for a in given})
    if len(axes) == rank and not keepdims:
        return reduced(value, op, None, False)
    if not axes:
        whole = op == "reduce_mean" and not as_dtype(value.dtype).is_floating
        return apply1("div", [value, ones_like(value)]) if whole else value
    return _over(value, op, axes, keepdims)


def _of_all(values: Any, op: str) -> Any:
    if op == "reduce_mean" and not as_dtype(values.dtype).is_floating:
        return apply1("div", [_of_all(values, "reduce_sum"), cast(size(values), values.dtype)])
    return apply1(op, [values], AttrTable().bool("keepdims", False))


def _over(value: Any, op: str, axes: list[int], keepdims: bool) -> Any:
    if op in ("reduce_any", "reduce_all"):
        how = "reduce_max" if op == "reduce_any" else "reduce_min"
        return _over(cast(value, "int32"), how, axes, keepdims) > 0
    if op == "reduce_mean" and (axes != [1] or is_ragged(value.values)):
        sums = _over(value, "reduce_sum", axes, keepdims)
        counts = _over(ones_like(value), "reduce_sum", axes, keepdims)
        if is_ragged(sums):
            return sums.with_flat_values(apply1("div", [sums.flat_values, counts.flat_values]))
        return apply1("div", [sums, counts])
    for axis in reversed(axes):
        value = _over_one(value, op, axis)
        value = expand_dims(value, axis) if keepdims else value
    return value


def _over_one(value: Any, op: str, axis: int) -> Any:
    if not is_ragged(value):
        return apply1(op, [value], AttrTable().bool("keepdims", False).ints("axes", [axis]))
    if axis > 1:
        return value.with_values(_over_one(value.values, op, axis - 1))
    if axis == 0 or is_ragged(value.values):
        return aggregated_rows(value, axis, _OF_SEGMENTS[op])
    return reduced_rows(value.values, value.row_splits, op)


def aggregated_rows(value: Any, axis: int, combine: Callable[[Any, Any, Any], Any]) -> Any:
    """What lies along @axis (0 or 1) as one; @combine(values, ids, count) does so with values."""
    if axis == 1:
        return _aggregated(value.values, value.value_rowids(), value.nrows("int64"), combine)
    lengths = value.row_lengths()
    longest = reduce_max(concat([np.zeros(1, np.int64), cast(lengths, "int64")], 0))
    return _aggregated(value.values, positions(lengths * 0, lengths), longest, combine)


def cumulated(value: Any, axis: int, exclusive: bool, backwards: bool) -> Any:
    """cumsum() of the ragged tensor @value along @axis."""
    rank, ragged_rank = TensorShape(value.shape).rank or 0, value.ragged_rank
    if not -rank <= axis < rank:
        raise ValueError(f"cumsum: axis {axis} of a ragged tensor with {rank} axes")
    along = axis % rank - ragged_rank
    if along > 0:
        return value.with_flat_values(cumsum(value.flat_values, along, exclusive, backwards))
    if along == 0:
        splits = value.nested_row_splits[-1]
        return value.with_flat_values(_in_rows(value.flat_values, splits, exclusive, backwards))
    sums = cumsum(value.to_tensor(), axis % rank, exclusive, backwards)
    places = [expand_dims(numbers, 1) for numbers in coordinates(value)]
    return value.with_flat_values(gather_nd(sums, concat(places, 1)))


def _in_rows(values: Any, splits: Any, exclusive: bool, backwards: bool) -> Any:
    """The partial sums of each row: those of all, without what stands before the row."""
    lengths = splits[1:] - splits[:-1]
    sums = cumsum(values, 0, True, backwards)
    bounds = (splits[1:] - 1) if backwards else splits[:-1]
    before = gather(sums, repeat(bounds, lengths, axis=0))
    return sums - before if exclusive else sums - before + values


def aggregated(data: Any, ids: Any, count: Any, op: str) -> Any:
    """The reduction @op of the rows of @data that have one number of @ids; there are @count."""
    return _aggregated(data, ids, count, _OF_SEGMENTS[op])


def _aggregated(data: Any, ids: Any, count: Any, combine: Callable[[Any, Any, Any], Any]) -> Any:
    """
    The rows of @data that have one number of @ids as one row, value by value; it is as long as the
    longest one of them. There are @count rows.
    """
    if not is_ragged(data):
        return combine(data, ids, count)
    lengths = data.row_lengths()
    splits = splits_of(maximum(unsorted_segment_max(lengths, ids, count), 0))
    starts = gather(splits, ids)
    places = positions(starts, lengths)
    values = _aggregated(data.values, places, cast(splits[-1], "int64"), combine)
    return type(data)(values, splits)


def reduced_rows(values: Any, splits: Any, op: str) -> Any:
    """The reduction @op of each row of dense @values."""
    if op == "reduce_mean":
        lengths = cast(splits[1:] - splits[:-1], values.dtype)
        lengths = reshape(lengths, [-1] + [1] * ((values.ndim or 1) - 1))
        return apply1("div", [reduced_rows(values, splits, "reduce_sum"), lengths])
    attrs = AttrTable().int("reduction", _REDUCTIONS[op])
    return apply1("ragged_reduce", [values, splits], attrs, same_dtype=False)
