"""Ragged tensors with other axes: more, fewer, turned, repeated, stacked."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..._data.spec import TensorShape
from ..._data.structure import is_ragged
from ..._graph.symbol import Symbol
from ..arrays import concat, expand_dims, gather, reshape, reverse, shape as _shape, split
from ..arrays import squeeze, stack, tile, where
from ..constants import cast, range as _range, static_shape, zeros
from ..elementwise import assert_
from ..reductions import reduce_all, reduce_prod
from ..scattering import gather_nd
from .rows import concat_rows, gather_rows, merged, one_row, within_rows


def _rank(value: Any) -> int:
    rank = TensorShape(value.shape).rank
    if rank is None:
        raise ValueError("the rank of a ragged tensor is not known")
    return rank


def _axis(axis: Any, rank: int, what: str) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"{what}: axis {axis} of a ragged tensor: from {-rank} to {rank - 1}")
    return int(axis) % rank


def expanded(value: Any, axis: int) -> Any:
    """@value with an axis of size 1."""
    axis = _axis(axis, _rank(value) + 1, "expand_dims")
    rows, dtype = value.nrows(), value.row_splits.dtype
    if axis == 0:
        return type(value)(value, concat([zeros([1], dtype), reshape(rows, [1])], 0))
    if axis == 1:
        known = TensorShape(value.shape).as_list()[0]
        splits = _range(cast(rows, "int64") + 1) if known is None else np.arange(known + 1)
        return type(value)(value, cast(splits, dtype))
    return value.with_values(expand_dims(value.values, axis - 1))


def turned(value: Any, axes: Any) -> Any:
    """@value, back to front along @axes."""
    rank = _rank(value)
    for axis in sorted({_axis(a, rank, "reverse") for a in np.atleast_1d(axes)}):
        value = _turned(value, axis)
    return value


def _turned(value: Any, axis: int) -> Any:
    if axis == 0:
        return gather_rows(value, value.nrows("int64") - 1 - _range(value.nrows("int64")))
    if axis == 1:
        return within_rows(value, (slice(None, None, -1),))
    if is_ragged(value.values):
        return value.with_values(_turned(value.values, axis - 1))
    return value.with_values(reverse(value.values, [axis - 1]))


def tiled(value: Any, multiples: Any) -> Any:
    """@value so many times along each axis."""
    sizes = static_shape(multiples)
    if sizes is None and isinstance(multiples, Symbol):
        sizes = [cast(multiples, "int64")[i] for i in range(_rank(value))]
    if sizes is None:
        sizes = list(multiples)
    if len(sizes) != _rank(value):
        raise ValueError(f"tile: {len(sizes)} numbers for {_rank(value)} axes")
    return _tiled(value, sizes)


def _tiled(value: Any, sizes: Sequence[Any]) -> Any:
    inner: list[Any] = [1, *sizes[2:]]
    if is_ragged(value.values):
        value = value.with_values(_tiled(value.values, inner))
    elif any(isinstance(n, Symbol) or n != 1 for n in inner):
        value = value.with_values(tile(value.values, inner))
    rows = value.nrows("int64")
    if isinstance(sizes[1], Symbol) or sizes[1] != 1:
        numbers = reshape(_range(rows), [-1, 1])
        longer = gather_rows(value, reshape(tile(numbers, [1, sizes[1]]), [-1]))
        splits = gather(longer.row_splits, _range(rows + 1) * sizes[1])
        value = type(value)(longer.values, splits)
    if isinstance(sizes[0], Symbol) or sizes[0] != 1:
        value = gather_rows(value, tile(_range(rows), [sizes[0]]))
    return value


def squeezed(value: Any, axes: Any) -> Any:
    """@value without @axes, which have size 1."""
    if axes is None:
        raise ValueError("squeeze of a ragged tensor takes axes: which have size 1 is not known")
    rank = _rank(value)
    for axis in sorted({_axis(a, rank, "squeeze") for a in np.atleast_1d(axes)}, reverse=True):
        value = _without(value, axis)
    return value


def _without(value: Any, axis: int) -> Any:
    if not is_ragged(value):
        return squeeze(value, axis)
    if axis > 1:
        return value.with_values(_without(value.values, axis - 1))
    sizes = value.row_lengths() if axis == 1 else value.nrows()
    values, message = value.values, f"squeeze: axis {axis} is not of size 1"
    if axis == 1:
        return _asserted(values, reduce_all(sizes == 1), message)
    return _asserted(values, sizes == 1, message)


def _asserted(value: Any, holds: Any, message: str) -> Any:
    if is_ragged(value):
        return value.with_flat_values(assert_(value.flat_values, holds, message))
    return assert_(value, holds, message)


def reshaped(value: Any, shape: Any) -> Any:
    """The values of @value in the rows of a tensor."""
    return reshape(value.flat_values, shape)


def cut(value: Any, sizes: Any, axis: int) -> list[Any]:
    """split(): @sizes is a number of equal parts, or their sizes."""
    axis, rank = _axis(axis, _rank(value), "split"), _rank(value)
    if 0 < axis <= value.ragged_rank:
        raise ValueError(f"split: the rows of a ragged tensor differ along axis {axis}")
    if axis > value.ragged_rank:
        parts = split(value.flat_values, sizes, axis - value.ragged_rank)
        return [value.with_flat_values(part) for part in parts]
    numbers = split(_range(value.nrows("int64")), sizes)
    return [gather_rows(value, part) for part in numbers]


def partitioned(data: Any, numbers: Any, count: int) -> list[Any]:
    """dynamic_partition() of the rows of @data by @numbers."""
    rows = data.nrows("int64") if is_ragged(data) else _shape(data, "int64")[0]
    inside = reduce_all((numbers >= 0) & (numbers < count))
    inside = inside & (_shape(numbers, "int64")[0] == rows)
    numbers = assert_(numbers, inside, f"a partition is not in [0, {count}), or of no row")
    chosen = [reshape(where(numbers == i), [-1]) for i in range(count)]
    return [gather_rows(data, n) if is_ragged(data) else gather(data, n) for n in chosen]


def stacked(cls: Any, values: Sequence[Any], axis: int) -> Any:
    """@values, of which some may be ragged, along a new axis."""
    ranks = {_rank(v) if is_ragged(v) else v.ndim for v in values}
    if len(ranks) != 1 or None in ranks:
        raise ValueError("stack takes tensors of one known rank, and at least one")
    rank = ranks.pop()
    axis = _axis(axis, rank + 1, "stack")
    if rank == 0 or (rank == 1 and axis == 1):
        return stack(values, axis)
    if rank == 1:
        ends = [reshape(_shape(v, "int64")[0], [1]) for v in values]
        rows = [cls(v, concat([zeros([1], "int64"), end], 0)) for v, end in zip(values, ends)]
        return concat_rows(rows, 0)
    ragged = [v if is_ragged(v) else cls.from_tensor(v, ragged_rank=rank - 1) for v in values]
    return concat_rows([expanded(v, axis) for v in ragged], axis)


def joined_axes(value: Any, outer: int, inner: int) -> Any:
    """@value with its axes @outer to @inner as one."""
    rank, ragged_rank = _rank(value), value.ragged_rank
    outer, inner = _axis(outer, rank, "merge_dims"), _axis(inner, rank, "merge_dims")
    if outer > inner:
        raise ValueError(f"merge_dims: the axis {outer} is behind {inner}")
    if outer == inner:
        return value
    if inner > ragged_rank:
        first = max(outer - ragged_rank, 0)
        value = _flat_joined(value, first, inner - ragged_rank, grows=outer < ragged_rank + 1)
        inner = ragged_rank
    if outer >= inner:
        return value
    if outer > 1:
        return value.with_values(joined_axes(value.values, outer - 1, inner - 1))
    if outer == 1:
        return merged(value, inner - 1)
    for _ in range(inner):
        value = value.values
    return value


def _flat_joined(value: Any, first: int, last: int, grows: bool) -> Any:
    """The axes @first to @last of the innermost values as one; of @first 0 rows grow by that."""
    if is_ragged(value.values):
        return value.with_values(_flat_joined(value.values, first, last, grows))
    sizes = _shape(value.values, "int64")
    ones = reshape(reduce_prod(sizes[first : last + 1]), [1])
    values = reshape(value.values, concat([sizes[:first], ones, sizes[last + 1 :]], 0))
    if first > 0:
        return value.with_values(values)
    each = cast(reduce_prod(sizes[1 : last + 1]), value.row_splits.dtype)
    return type(value)(values, value.row_splits * each)


def coordinates(value: Any) -> list[Any]:
    """Of each of the innermost values, all axes of which are ragged: its number along each axis."""
    rows = cast(value.value_rowids(), "int64")
    starts = gather(cast(value.row_starts(), "int64"), rows)
    columns = _range(_shape(rows, "int64")[0]) - starts
    if not is_ragged(value.values):
        return [rows, columns]
    outer, *inner = coordinates(value.values)
    return [gather(rows, outer), gather(columns, outer), *inner]


def gathered(value: Any, indices: Any) -> Any:
    """The rows with these numbers, a dense tensor."""
    rank = indices.ndim
    if rank is None:
        raise ValueError("gather from a ragged tensor takes indices of known rank")
    if rank == 0:
        return one_row(value, indices)
    rows = gather_rows(value, reshape(indices, [-1]))
    sizes = _shape(indices, "int64")
    for axis in range(rank - 1, 0, -1):
        splits = _range(reduce_prod(sizes[:axis]) + 1) * sizes[axis]
        rows = type(value)(rows, cast(splits, value.row_splits.dtype))
    return rows


def gathered_nd(value: Any, indices: Any) -> Any:
    """gather_nd() from a ragged tensor."""
    numbers = indices.shape[-1] if indices.ndim else None
    if not numbers:
        raise ValueError("gather_nd takes indices whose last axis has a known size above 0")
    first = cast(indices[..., 0], value.row_splits.dtype)
    if numbers == 1:
        return gathered(value, first)
    second = cast(indices[..., 1], first.dtype)
    inside = reduce_all((second >= 0) & (second < gather(value.row_lengths(), first)))
    second = assert_(second, inside, "gather_nd: an index is beyond its row")
    place = expand_dims(gather(value.row_starts(), first) + second, -1)
    rest = concat([cast(place, indices.dtype), indices[..., 2:]], -1)
    if is_ragged(value.values):
        return gathered_nd(value.values, rest)
    return gather_nd(value.values, rest)


def gathered_each(cls: Any, params: Any, indices: Any) -> Any:
    """Of each row of @params the values with the numbers that the same row of @indices has."""
    rows = params if is_ragged(params) else cls.from_tensor(params)
    numbers = indices if is_ragged(indices) else cls.from_tensor(indices)
    ids = numbers.value_rowids()
    places = cast(numbers.values, rows.row_splits.dtype)
    inside = reduce_all((places >= 0) & (places < gather(rows.row_lengths(), ids)))
    same = rows.nrows("int64") == numbers.nrows("int64")
    places = assert_(places, inside & same, "gather: an index is beyond its row")
    places = places + gather(rows.row_starts(), ids)
    if is_ragged(rows.values):
        found = gather_rows(rows.values, places)
        return numbers.with_values(found)
    flat = gather(rows.values, places)
    if is_ragged(indices):
        return numbers.with_values(flat)
    return reshape(flat, concat([_shape(indices, "int64"), _shape(rows.values, "int64")[1:]], 0))
