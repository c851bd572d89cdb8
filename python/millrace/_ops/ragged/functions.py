"""The functions of mr.ragged."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from ... import errors
from ..._graph.symbol import Symbol, TensorLike
from ..._graph.tensor import convert_to_tensor
from ...dtypes import DTypeLike, as_dtype
from ..arrays import concat, reshape
from ..constants import cast
from ..elementwise import maximum
from ..selection import boolean_mask
from .rows import check_same_rows, is_ragged, positions, reduced_rows, row_count, splits_of
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
    """Make rows of numbers that count up.

    Parameters
    ----------
    starts : tensor_like of int
        Where each row begins; the ends, if `limits` is not given.
    limits : tensor_like of int, optional
        Above the last number of each row.
    deltas : tensor_like of int, default 1
        The distance; 1 is supported.
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
    UnimplementedError
        `deltas` is not 1.

    Examples
    --------
    >>> mr.ragged.range([2, 0, 3])
    <RaggedTensor [[0, 1], [], [0, 1, 2]]>
    """
    if isinstance(deltas, Symbol) or np.any(np.asarray(deltas) != 1):
        raise errors.UnimplementedError("ragged.range is supported with deltas=1")
    first = convert_to_tensor(starts, dtype)
    if limits is None:
        first, last = first * 0, first
    else:
        last = convert_to_tensor(limits, first.dtype)
        first, last = first + last * 0, last + first * 0
    lengths = maximum(last - first, last * 0)
    return RaggedTensor(positions(first, lengths), splits_of(cast(lengths, row_splits_dtype)))


def ragged_boolean_mask(data: Any, mask: Any, name: str | None = None) -> RaggedTensor:
    """Keep values of rows for which a mask holds; the rows stay.

    Parameters
    ----------
    data : RaggedTensor or tensor_like
        [rows, values, ...].
    mask : RaggedTensor or tensor_like of bool
        [rows, values].
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    RaggedTensor
        What is left of each row.

    Examples
    --------
    >>> x = mr.ragged.constant([[1, 2], [3]])
    >>> mr.ragged.boolean_mask(x, x != 2)
    <RaggedTensor [[1], [3]]>
    """
    rows = data if is_ragged(data) else RaggedTensor.from_tensor(data)
    kept = mask if is_ragged(mask) else RaggedTensor.from_tensor(mask)
    if rows.ragged_rank != 1 or kept.ragged_rank != 1:
        raise errors.UnimplementedError("ragged.boolean_mask is supported for one ragged axis")
    check_same_rows(rows, kept)
    counts = reduced_rows(cast(kept.values, "int64"), kept.row_splits, "reduce_sum")
    return RaggedTensor(
        boolean_mask(rows.values, kept.values), splits_of(cast(counts, rows.row_splits.dtype))
    )


def ragged_stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> RaggedTensor:
    """Make a ragged tensor whose rows are given.

    Parameters
    ----------
    values : sequence of tensor_like
        Vectors of several lengths.
    axis : int, default 0
        0 is supported.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    RaggedTensor
        As many rows as values.

    Raises
    ------
    UnimplementedError
        Another axis.

    Examples
    --------
    >>> mr.ragged.stack([[1, 2], [3]])
    <RaggedTensor [[1, 2], [3]]>
    """
    if axis != 0:
        raise errors.UnimplementedError("ragged.stack is supported for axis=0")
    rows = [convert_to_tensor(value) for value in values]
    lengths = concat([reshape(row_count(each), [1]) for each in rows], 0)
    return RaggedTensor(concat(rows, 0), splits_of(lengths))
