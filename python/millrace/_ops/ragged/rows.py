"""
What is done with the rows of ragged tensors. Functions take anything that has `values` and
`row_splits`, and make what they return of the same class.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ... import errors
from ..._data.spec import TensorShape
from ..._data.structure import is_ragged
from ..._graph.attrs import AttrTable
from ..._graph.literals import to_array
from ..._graph.symbol import Symbol, current_graph, holds_symbols
from ..._graph.tensor import apply1, convert_to_tensor
from ...dtypes import DType
from ..arrays import concat, expand_dims, gather, reshape, shape as _shape, slice as _slice, where
from ..constants import cast, range as _range, sized, zeros
from ..elementwise import maximum, minimum
from ..reductions import reduce_all
from ..selection import cumsum, repeat


def splits_of(lengths: Any) -> Any:
    """Row splits of rows of these lengths."""
    return concat([zeros([1], lengths.dtype), cumsum(lengths)], axis=0)


def as_ints(value: Any) -> Any:
    """Row splits and their like: int64 where nothing else is said."""
    if isinstance(value, (Symbol, np.ndarray)):
        return value
    if holds_symbols(value):
        return convert_to_tensor(value)
    return to_array(value).astype(np.int64)


def known_int(number: Any) -> Any:
    """A count: an int from 0 on if it is known while tracing, else int64."""
    if holds_symbols(number):
        return cast(convert_to_tensor(number), "int64")
    count = np.asarray(number)
    if count.ndim != 0 or count.dtype.kind not in "iu" or count < 0:
        raise ValueError(f"a number of rows is an integer from 0 on, not {number!r}")
    return int(count)


def positions(starts: Any, lengths: Any) -> Any:
    """start, start + 1, ... of each row, so many as its length says, one row behind the other."""
    before = cumsum(lengths, exclusive=True)
    return repeat(starts - before, lengths, axis=0) + cast(
        _range(cast(_total(lengths), "int64")), lengths.dtype
    )


def _total(lengths: Any) -> Any:
    return apply1("reduce_sum", [lengths], AttrTable().bool("keepdims", False))


def values_of(value: Any) -> Any:
    if is_ragged(value):
        return value
    tensor = convert_to_tensor(value)
    if tensor.ndim == 0:
        raise ValueError("the values of a ragged tensor are a scalar: they have no rows")
    return tensor


def row_count(value: Any) -> Any:
    """How many rows @value has, int64."""
    return value.nrows("int64") if is_ragged(value) else _shape(value, "int64")[0]


def check_splits(values: Any, splits: Any) -> None:
    holds = reduce_all(
        concat(
            [
                splits[:1] == 0,
                splits[1:] >= splits[:-1],
                cast(splits[-1:], "int64") == reshape(row_count(values), [1]),
            ],
            0,
        )
    )
    message = "row splits begin with 0, do not decrease and end with the number of values"
    if isinstance(holds, Symbol):
        current_graph().check(holds, message)
    elif not holds or len(splits) == 0:
        raise errors.InvalidArgumentError(f"{message}: {splits} for {row_count(values)} values")


def column_of_zeros(dense: Any) -> Any:
    """[rows, 1] of int64."""
    return cast(cast(dense[:, :1] != dense[:, :1], "int64") * 0, "int64")


def uniform(cls: Any, dense: Any, ragged_rank: int, dtype: DType) -> Any:
    sizes = _shape(dense, "int64")
    known = TensorShape(dense.shape).as_list()
    inner = known[ragged_rank + 1 :]
    if None in inner or 0 in inner:  # -1 would not say how many rows have no values
        count = sizes[0]
        for outer in range(1, ragged_rank + 1):
            count = count * sizes[outer]
        whole = concat([reshape(count, [1]), sizes[ragged_rank + 1 :]], 0)
        result: Any = sized(reshape(dense, whole), [None, *inner])
    else:
        result = reshape(dense, [-1, *inner])
    for axis in range(ragged_rank, 0, -1):
        rows = sizes[0]
        for outer in range(1, axis):
            rows = rows * sizes[outer]
        splits = cast(_range(rows + 1) * sizes[axis], dtype)
        result = cls(result, splits)
    return result


def sizes_of(shape: Any) -> list[Any]:
    """Sizes of axes: an int or None where it is known while tracing, else int64."""
    if isinstance(shape, Symbol):
        whole: Any = shape
        n = whole.shape.as_list()[0] if whole.ndim == 1 else None
        if n is None:
            raise ValueError(f"to_tensor: a shape is a vector of known length, not {whole.shape}")
        shape = [whole[i] for i in range(n)]
    if not holds_symbols(shape):
        return TensorShape(shape).as_list()
    known = TensorShape([None if isinstance(n, Symbol) else n for n in shape]).as_list()
    return [cast(n, "int64") if isinstance(n, Symbol) else k for n, k in zip(shape, known)]


def to_dense(value: Any, default: Any, sizes: Sequence[Any]) -> Any:
    values = value.values
    if is_ragged(values):
        values = to_dense(values, default, sizes[1:])
    columns = -1 if not sizes or sizes[0] is None else sizes[0]
    size = columns if isinstance(columns, Symbol) else np.int64(columns)
    inputs = [values, value.row_splits, default, size]
    dense = apply1("ragged_to_dense", inputs, same_dtype=False)
    if isinstance(columns, Symbol) or columns < 0:
        return dense
    known = TensorShape(dense.shape).as_list()
    return apply1(
        "ensure_shape", [dense], AttrTable().shape("shape", [known[0], columns, *known[2:]])
    )


def first_rows(dense: Any, rows: Any, default: Any) -> Any:
    """@dense with @rows rows: cut, or padded behind; as many as it has where that is below 0."""
    have = _shape(dense, "int64")[0]
    known = not isinstance(rows, Symbol)
    size = np.int64(rows) if known else where(rows < 0, have, rows)
    splits = minimum(concat([zeros([1], "int64"), reshape(have, [1])], 0), size)
    kept = _slice_rows(dense, np.int64(0), splits[1])
    return apply1("ragged_to_dense", [kept, splits, default, size], same_dtype=False)[0]


def _slice_rows(values: Any, begin: Any, size: Any) -> Any:
    """Rows [begin, begin + size) of a tensor or a ragged one."""
    if is_ragged(values):
        begin = cast(begin, values.row_splits.dtype)
        size = cast(size, values.row_splits.dtype)
        splits = _slice_rows(values.row_splits, begin, size + 1)
        start, end = splits[0], splits[-1]
        return type(values)(_slice_rows(values.values, start, end - start), splits - start)
    rank = values.ndim
    if rank == 1:
        return _slice(values, reshape(cast(begin, "int64"), [1]), reshape(cast(size, "int64"), [1]))
    zeros_ = np.zeros(rank - 1, np.int64)
    return _slice(
        values,
        concat([reshape(cast(begin, "int64"), [1]), zeros_], 0),
        concat([reshape(cast(size, "int64"), [1]), zeros_ - 1], 0),
    )


def one_row(value: Any, number: Any) -> Any:
    splits = value.row_splits
    if not isinstance(number, Symbol):
        number = int(number)
        first = splits[number] if number >= 0 else splits[number - 1]
        last = splits[number + 1] if number != -1 else splits[-1]
    else:
        number = cast(number, "int64")
        first, last = gather(splits, number), gather(splits, number + 1)
    return _slice_rows(value.values, first, last - first)


def rows_between(value: Any, key: slice) -> Any:
    step = _step(key)
    if step != 1 or is_ragged(value.values):
        return gather_rows(value, cast(_range(value.nrows("int64")), "int64")[key])
    starts, limits = value.row_starts()[key], value.row_limits()[key]
    lengths = limits - starts
    return type(value)(gather(value.values, positions(starts, lengths)), splits_of(lengths))


def _step(key: slice) -> int:
    if not isinstance(key.step, (int, np.integer, type(None))) or key.step == 0:
        raise ValueError(f"the step of a slice of a ragged tensor is a number, not {key.step!r}")
    return 1 if key.step is None else int(key.step)


def gather_rows(value: Any, numbers: Any) -> Any:
    """The rows with these numbers, a vector."""
    starts, limits = gather(value.row_starts(), numbers), gather(value.row_limits(), numbers)
    lengths = limits - starts
    return type(value)(_gather_values(value.values, positions(starts, lengths)), splits_of(lengths))


def _gather_values(values: Any, numbers: Any) -> Any:
    return gather_rows(values, numbers) if is_ragged(values) else gather(values, numbers)


def _bound(value: Any, lengths: Any, otherwise: Any, least: int, beyond: int) -> Any:
    """A bound of a slice in each row, as Python has it: from @least to @beyond past the length."""
    if value is None:
        return otherwise
    bound = cast(convert_to_tensor(value), lengths.dtype)
    bound = where(bound < 0, lengths + bound, lengths * 0 + bound)
    return minimum(maximum(bound, least), lengths + beyond)


def _places(key: slice, lengths: Any, starts: Any) -> tuple[Any, Any]:
    """Where the values of each row are that a slice selects; how many there are of each row."""
    step = _step(key)
    if step > 0:
        begin = _bound(key.start, lengths, lengths * 0, 0, 0)
        end = _bound(key.stop, lengths, lengths, 0, 0)
    else:
        begin = _bound(key.start, lengths, lengths - 1, -1, -1)
        end = _bound(key.stop, lengths, lengths * 0 - 1, -1, -1)
    if step == 1:
        counts = maximum(end - begin, 0)
        return positions(starts + begin, counts), counts
    towards = 1 if step > 0 else -1
    counts = maximum((end - begin + (step - towards)) // step, 0)
    within = positions(counts * 0, counts) * step
    return repeat(starts + begin, counts, axis=0) + within, counts


def within_rows(value: Any, keys: tuple[Any, ...]) -> Any:
    """@keys within each row."""
    first, rest = keys[0], keys[1:]
    if first is None:
        return expand_dims(value[(slice(None), *rest)], 1)
    lengths, starts = value.row_lengths(), value.row_starts()
    if isinstance(first, slice):
        places, counts = _places(first, lengths, starts)
        values = _gather_values(value.values, places)
        chosen = type(value)(values, splits_of(counts))
        if not rest:
            return chosen
        if is_ragged(values):
            return chosen.with_values(within_rows(values, rest))
        return chosen.with_values(values[(slice(None), *rest)])
    number = cast(convert_to_tensor(first), lengths.dtype)
    place = where(lengths * 0 + number < 0, value.row_limits() + number, starts + number)
    holds = reduce_all((place >= starts) & (place < value.row_limits()))
    message = f"there is a row without a value number {first}"
    if isinstance(holds, Symbol):
        current_graph().check(holds, message)
    elif not holds:
        raise errors.InvalidArgumentError(message)
    result = _gather_values(value.values, place)
    return result[(slice(None), *rest)] if rest else result


def merged(value: Any, levels: int) -> Any:
    """Axis 1 and the @levels ragged ones behind it as one."""
    splits, values = value.row_splits, value.values
    for _ in range(levels):
        splits, values = gather(values.row_splits, splits), values.values
    return type(value)(values, splits)


def concat_rows(values: Sequence[Any], axis: int) -> Any:
    """Join ragged tensors along an axis."""
    if not any(map(is_ragged, values)):
        return concat(values, axis)
    cls = next(type(v) for v in values if is_ragged(v))
    rows = [v if is_ragged(v) else cls.from_tensor(v) for v in values]
    axis = axis + (TensorShape(rows[0].shape).rank or 0) if axis < 0 else axis
    if axis == 0:
        inner = [r.values for r in rows]
        joined = concat_rows(inner, 0) if any(map(is_ragged, inner)) else concat(inner, 0)
        return cls(joined, splits_of(concat([r.row_lengths() for r in rows], 0)))
    if axis == 1:
        # Rows of all, then in the order row by row.
        whole = concat_rows(rows, 0)
        count = rows[0].nrows("int64")
        numbers = reshape(_range(count), [-1, 1]) + reshape(
            _range(np.int64(len(rows))) * count, [1, -1]
        )
        ordered = gather_rows(whole, reshape(numbers, [-1]))
        splits = gather(ordered.row_splits, _range(count + 1) * len(rows))
        return cls(ordered.values, splits)
    return rows[0].with_values(concat_rows([r.values for r in rows], axis - 1))
