"""The functions of mr.ragged."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from ..._data.structure import is_ragged
from ..._graph.literals import common_dtype
from ..._graph.symbol import Symbol, TensorLike
from ..._graph.tensor import Tensor, compute, convert_to_tensor
from ...dtypes import DTypeLike, as_dtype
from ..arrays import concat, gather, reshape, shape as _shape, where
from ..constants import cast, ones_like, range as _range
from ..elementwise import assert_, ceil, maximum
from ..ordering import argsort
from ..reductions import reduce_all
from ..segments import bincount, unsorted_segment_sum
from ..selection import boolean_mask, repeat
from .each import check_same_rows, check_same_splits
from .moved import stacked
from .reduced import reduced_rows
from .rows import as_ints, gather_rows, known_int
from .rows import positions, row_count, splits_of
from .tensor import RaggedTensor


def constant(
    pylist: Any,
    dtype: DTypeLike | None = None,
    ragged_rank: int | None = None,
    inner_shape: Sequence[int] | None = None,
    name: str | None = None,
    row_splits_dtype: DTypeLike = "int64",
) -> Any:
    """Make a ragged tensor of nested lists.

    Parameters
    ----------
    pylist : nested list
        Of one depth.
    dtype : dtype_like, optional
        By default what a tensor of all values would have.
    ragged_rank : int, optional
        How many axes are ragged; by default all but the first one.
    inner_shape : sequence of int, optional
        The shape of the innermost values; by default those below `ragged_rank`.
    name : str, optional
        Accepted and ignored.
    row_splits_dtype : dtype_like, default "int64"
        Or int32.

    Returns
    -------
    RaggedTensor or numpy.ndarray
        An array if nothing is ragged: a list of scalars.

    Raises
    ------
    ValueError
        The lists have several depths.

    Examples
    --------
    >>> mr.ragged.constant([[1, 2], [], [3]])
    <RaggedTensor [[1, 2], [], [3]]>
    """
    depth = _depth(pylist)
    if ragged_rank is None:
        ragged_rank = depth - 1 if inner_shape is None else depth - 1 - len(inner_shape)
    elif _is_hollow(pylist):
        depth = max(depth, ragged_rank + 1)
    if not 0 <= ragged_rank < max(depth, 1):
        raise ValueError(f"ragged_rank {ragged_rank} does not fit lists of depth {depth}")
    if ragged_rank == 0:
        return _innermost(pylist, dtype, inner_shape, 0)
    splits, level = [], pylist
    for _ in range(ragged_rank):
        lengths = [len(row) for row in level]
        splits.append(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))
        level = [value for row in level for value in row]
    kind = as_dtype(row_splits_dtype).numpy_dtype()
    values = _innermost(level, dtype, inner_shape, depth - ragged_rank - 1)
    return RaggedTensor.from_nested_row_splits(
        values, [s.astype(kind) for s in splits], validate=False
    )


def _innermost(level: Any, dtype: Any, inner_shape: Any, inner_rank: int) -> Any:
    array = convert_to_tensor(level, dtype) if len(level) > 0 or inner_rank == 0 else None
    if array is None or len(level) == 0:
        shape = tuple(inner_shape) if inner_shape is not None else (0,) * inner_rank
        kind = as_dtype(dtype or "float32").numpy_dtype()
        return np.empty((0, *shape), kind)
    return array


def _depth(value: Any) -> int:
    """How deep lists are nested."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return 0
    if isinstance(value, np.ndarray):
        return value.ndim if value.dtype != object else 1 + max(map(_depth, value), default=0)
    depths = {_depth(child) for child in value}
    # An empty list may be of any depth.
    if len(depths) > 1 and 0 in depths:
        raise ValueError("the lists of a ragged tensor have several depths")
    return 1 + max(depths, default=0)


def _is_hollow(value: Any) -> bool:
    """Whether lists hold nothing but empty ones: they may be of any depth."""
    return isinstance(value, (list, tuple)) and all(map(_is_hollow, value))


def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply a function to the innermost values of ragged tensors.

    Parameters
    ----------
    op : callable
        Takes tensors in place of the ragged ones; what it returns has as many parts.
    *args, **kwargs
        For `op`; ragged tensors among them have the same rows.

    Returns
    -------
    RaggedTensor
        The result, in the same rows.

    Examples
    --------
    >>> mr.ragged.map_flat_values(lambda x: x * 2, mr.ragged.constant([[1, 2], [3]]))
    <RaggedTensor [[2, 4], [6]]>
    """
    ragged = [v for v in (*args, *kwargs.values()) if is_ragged(v)]
    for other in ragged[1:]:
        check_same_rows(ragged[0], other)
    flat = [v.flat_values if is_ragged(v) else v for v in args]
    named = {k: v.flat_values if is_ragged(v) else v for k, v in kwargs.items()}
    result = op(*flat, **named)
    return ragged[0].with_flat_values(result) if ragged else result


def ragged_range(
    starts: TensorLike,
    limits: TensorLike | None = None,
    deltas: TensorLike = 1,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    row_splits_dtype: DTypeLike = "int64",
) -> RaggedTensor:
    """Make rows of numbers at one distance.

    Parameters
    ----------
    starts : tensor_like
        Where each row begins; the ends, if `limits` is not given. A scalar or a vector.
    limits : tensor_like, optional
        Beyond the last number of each row.
    deltas : tensor_like, default 1
        The distance of numbers; below 0, they count down.
    dtype : dtype_like, optional
        Of the values.
    name : str, optional
        Accepted and ignored.
    row_splits_dtype : dtype_like, default "int64"
        Or int32.

    Returns
    -------
    RaggedTensor
        One row for each start.

    Raises
    ------
    InvalidArgumentError
        A distance is 0.

    Examples
    --------
    >>> mr.ragged.range([2, 0, 3])
    <RaggedTensor [[0, 1], [], [0, 1, 2]]>
    >>> mr.ragged.range([1, 5], [6, 2], [2, -1])
    <RaggedTensor [[1, 3, 5], [5, 4, 3]]>
    """
    given = [starts, deltas] if limits is None else [starts, limits, deltas]
    kind = common_dtype(given) if dtype is None else as_dtype(dtype)

    def body(*numbers: Tensor) -> list[Any]:
        parts = [reshape(x, [-1]) for x in numbers]
        if limits is None:
            parts.insert(0, parts[0] * 0)
        first, last, step = parts
        step = assert_(step, reduce_all(step != 0), "ragged.range: a distance is 0")
        first, last, step = (
            first + (last + step) * 0,
            last + (first + step) * 0,
            step + (first + last) * 0,
        )
        if first.dtype.is_integer:
            toward = cast(where(step > 0, 1, -1), step.dtype)
            counts = (last - first + step - toward) // step
        else:
            counts = ceil((last - first) / step)
        counts = maximum(cast(counts, "int64"), 0)
        within = cast(positions(counts * 0, counts), first.dtype)
        values = repeat(first, counts, axis=0) + within * repeat(step, counts, axis=0)
        return [values, splits_of(cast(counts, row_splits_dtype))]

    inputs = [convert_to_tensor(x, kind) for x in given]
    return RaggedTensor(*compute(body, inputs))


def ragged_boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """Keep values of rows for which a mask holds; the rows stay.

    Parameters
    ----------
    data : RaggedTensor or tensor_like
        [rows, values, ...].
    mask : RaggedTensor or tensor_like of bool
        Of the shape of the first axes of `data`.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    RaggedTensor, Tensor or numpy.ndarray
        What is left of each row; of a mask with one axis, the rows that are left.

    Examples
    --------
    >>> x = mr.ragged.constant([[1, 2], [3]])
    >>> mr.ragged.boolean_mask(x, x != 2)
    <RaggedTensor [[1], [3]]>
    >>> mr.ragged.boolean_mask(x, [False, True])
    <RaggedTensor [[3]]>
    """
    rows = data if is_ragged(data) else convert_to_tensor(data)
    kept = mask if is_ragged(mask) else convert_to_tensor(mask, "bool")
    if not is_ragged(kept) and kept.ndim == 1:
        return _masked(rows, kept)
    kept, rows = _all_ragged(kept), _all_ragged(rows)
    return _masked_within(rows, kept)


def _all_ragged(value: Any) -> Any:
    return (
        value if is_ragged(value) else RaggedTensor.from_tensor(value, ragged_rank=value.ndim - 1)
    )


def _masked(rows: Any, kept: Any) -> Any:
    """Of @rows those for which the vector @kept holds."""
    if not is_ragged(rows):
        return boolean_mask(rows, kept)
    same = rows.nrows("int64") == row_count(kept)
    kept = assert_(kept, same, "ragged.boolean_mask: there are not as many rows")
    return gather_rows(rows, reshape(where(kept), [-1]))


def _masked_within(rows: Any, kept: Any) -> Any:
    check_same_splits(rows.row_splits, kept.row_splits)
    if is_ragged(kept.values) or kept.values.ndim > 1:
        inner = _masked_within(_all_ragged(rows.values), _all_ragged(kept.values))
        return rows.with_values(inner)
    counts = reduced_rows(cast(kept.values, "int64"), kept.row_splits, "reduce_sum")
    splits = splits_of(cast(counts, rows.row_splits.dtype))
    return RaggedTensor(_masked(rows.values, kept.values), splits)


def ragged_stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Any:
    """Join tensors along a new axis; their sizes may differ.

    Parameters
    ----------
    values : sequence of tensor_like or RaggedTensor
        Of one rank.
    axis : int, default 0
        Where the new axis is; a negative one counts from the end.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    RaggedTensor, Tensor or numpy.ndarray
        With one axis more. Of scalars, and of vectors along axis 1, it is an ordinary tensor.

    Examples
    --------
    >>> mr.ragged.stack([[1, 2], [3]])
    <RaggedTensor [[1, 2], [3]]>
    >>> mr.ragged.stack([mr.ragged.constant([[1], [2, 3]])] * 2, axis=1)
    <RaggedTensor [[[1], [1]], [[2, 3], [2, 3]]]>
    """
    whole = [value if is_ragged(value) else convert_to_tensor(value) for value in values]
    return stacked(RaggedTensor, whole, axis)


def segment_ids_to_row_splits(
    segment_ids: TensorLike,
    num_segments: TensorLike | None = None,
    out_type: DTypeLike | None = None,
    name: str | None = None,
) -> Any:
    """Make row splits of the number of each value's row.

    Parameters
    ----------
    segment_ids : tensor_like of int
        In any order: each number counts.
    num_segments : tensor_like of int, optional
        How many rows there are: larger numbers do not count. By default one more than the largest.
    out_type : dtype_like, optional
        int32 or int64; by default that of `segment_ids`.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        One more than there are rows.

    Examples
    --------
    >>> mr.ragged.segment_ids_to_row_splits([0, 0, 2])
    array([0, 2, 2, 3])
    """
    ids = convert_to_tensor(as_ints(segment_ids))
    if ids.ndim != 1:
        raise ValueError(f"segment_ids_to_row_splits: segment_ids has rank {ids.ndim}, not 1")
    dtype = ids.dtype if out_type is None else out_type
    rows = num_segments if num_segments is None else known_int(num_segments)
    if rows is None or isinstance(rows, Symbol):
        return splits_of(bincount(ids, minlength=rows, maxlength=rows, dtype=dtype))
    inside = assert_(ids, reduce_all(ids >= 0), "segment_ids_to_row_splits: a number is negative")
    inside = where(inside < rows, inside, -1)
    return splits_of(unsorted_segment_sum(cast(ones_like(ids), dtype), inside, rows))


def row_splits_to_segment_ids(
    splits: TensorLike, name: str | None = None, out_type: DTypeLike | None = None
) -> Any:
    """Say of each value in which row it is.

    Parameters
    ----------
    splits : tensor_like of int
        Row splits.
    name : str, optional
        Accepted and ignored.
    out_type : dtype_like, optional
        int32 or int64; by default that of `splits`.

    Returns
    -------
    Tensor or numpy.ndarray
        One number a value.

    Examples
    --------
    >>> mr.ragged.row_splits_to_segment_ids([0, 2, 2, 3])
    array([0, 0, 2])
    """
    bounds = convert_to_tensor(as_ints(splits))
    lengths = bounds[1:] - bounds[:-1]
    ids = repeat(_range(row_count(lengths)), lengths, axis=0)
    return cast(ids, bounds.dtype if out_type is None else out_type)


def stack_dynamic_partitions(
    data: Any, partitions: Any, num_partitions: TensorLike, name: str | None = None
) -> RaggedTensor:
    """Make a row of all values, or parts, that have one number.

    Parameters
    ----------
    data : tensor_like or RaggedTensor
        The values.
    partitions : tensor_like or RaggedTensor of int
        The number of each value's row: of the shape of the first axes of `data`.
    num_partitions : int, or scalar tensor
        How many rows there are.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    RaggedTensor
        Each row has its values in the order of `data`.

    Examples
    --------
    >>> mr.ragged.stack_dynamic_partitions([1, 2, 3, 4], [0, 2, 0, 1], 3)
    <RaggedTensor [[1, 3], [4], [2]]>
    """
    rows = data if is_ragged(data) else convert_to_tensor(data)
    if is_ragged(partitions):
        rows, numbers = _all_ragged(rows), partitions
        while is_ragged(numbers):
            check_same_splits(rows.row_splits, numbers.row_splits)
            rows, numbers = rows.values, numbers.values
    else:
        numbers = convert_to_tensor(partitions)
        if not is_ragged(rows) and numbers.ndim != 1:
            behind = _shape(rows, "int64")[numbers.ndim :]
            rows = reshape(rows, concat([np.array([-1]), behind], 0))
            numbers = reshape(numbers, [-1])
    count = known_int(num_partitions)
    inside = reduce_all((numbers >= 0) & (cast(numbers, "int64") < count))
    fits = inside & (row_count(numbers) == row_count(rows))
    message = "stack_dynamic_partitions: the numbers do not fit the data, or are out of range"
    numbers = assert_(numbers, fits, message)
    order = argsort(numbers)
    values = gather_rows(rows, order) if is_ragged(rows) else gather(rows, order)
    lengths = unsorted_segment_sum(ones_like(numbers), numbers, count)
    return RaggedTensor(values, splits_of(lengths))
