"""Sparse tensors of other shapes: joined, cut, turned. `name` means nothing."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .._graph.symbol import TensorLike
from .._graph.tensor import Tensor, convert_to_tensor
from ..dtypes import DTypeLike, as_dtype
from .arrays import concat, expand_dims as _expand_dims, gather, reshape as _reshape
from .arrays import shape as _shape, where
from .constants import cast, fill, ones, range as _range, zeros, zeros_like
from .docs import described
from .elementwise import assert_, maximum, minimum
from .ordering import argsort
from .reductions import reduce_all, reduce_max, reduce_prod, reduce_sum
from .segments import unsorted_segment_sum
from .selection import boolean_mask
from .sparse import SparseTensor, compute_sparse, in_order, rank_of

_SPARSE = {"sp_input": "SparseTensor: Which."}
_IN_ORDER = {"sp_input": "SparseTensor: Its values are in order."}


def _axis(axis: Any, rank: int, what: str) -> int:
    """@axis from 0 on."""
    if not isinstance(axis, (int, np.integer)) or not -rank <= axis < rank:
        raise ValueError(f"{what}: axis {axis!r} of a sparse tensor with {rank} axes")
    return int(axis) % rank


def _wide(x: Any) -> Any:
    """@x as a vector of int64."""
    return cast(_reshape(x, [-1]), "int64")


def _in_range(x: Any) -> Any:
    """The number of values of the dense shape @x; it fits an int64."""
    fits = reduce_prod(cast(x, "float64")) < 2.0**63
    return reduce_prod(assert_(x, fits, "the dense shape has more than 2**63 - 1 values"))


@described(
    "A SparseTensor.",
    axis="int: Along which axis; a negative one counts from the end.",
    sp_inputs="sequence of SparseTensor: Of one dtype and rank; their values are in order.",
    expand_nonconcat_dims="bool, default False: Whether the other axes may differ in size: the "
    "largest size counts.",
)
def sparse_concat(
    axis: int,
    sp_inputs: Sequence[SparseTensor],
    expand_nonconcat_dims: bool = False,
    name: str | None = None,
) -> Any:
    """Join sparse tensors along an axis.

    >>> x = mr.sparse.from_dense([[1, 0]])
    >>> mr.sparse.to_dense(mr.sparse.concat(0, [x, x]))
    array([[1, 0],
           [1, 0]], dtype=int32)
    """
    if not isinstance(sp_inputs, (list, tuple)):
        raise TypeError("sparse.concat takes a list of sparse tensors")
    parts = list(sp_inputs)
    if len({rank_of(x) for x in parts}) != 1:
        raise ValueError("sparse.concat takes sparse tensors of one rank, and at least one")
    rank = rank_of(parts[0])
    along = _axis(axis, rank, "sparse.concat")
    here = np.arange(rank) == along

    def body(*inputs: SparseTensor) -> Any:
        shape, places = inputs[0].dense_shape, [inputs[0].indices]
        for x in inputs[1:]:
            if not expand_nonconcat_dims:
                same = reduce_all(here | (x.dense_shape == shape))
                message = "sparse.concat: the sizes of the other axes differ"
                shape = assert_(shape, same, message)
            places.append(x.indices + where(here, shape, 0))
            shape = where(here, shape + x.dense_shape, maximum(shape, x.dense_shape))
        indices, values = concat(places, 0), concat([x.values for x in inputs], 0)
        if along != 0:
            order = in_order(indices, rank)
            indices, values = gather(indices, order), gather(values, order)
        return SparseTensor(indices, values, shape)

    return compute_sparse(body, parts)


@described(
    "A SparseTensor with an axis more.",
    axis="int, optional: Where the axis of size 1 is put in; by default (-1) at the end.",
    **_SPARSE,
)
def sparse_expand_dims(
    sp_input: SparseTensor, axis: int | None = None, name: str | None = None
) -> Any:
    """Put an axis of size 1 into a sparse tensor.

    >>> mr.sparse.expand_dims(mr.sparse.from_dense([0, 5]), 0).indices
    array([[0, 1]])
    """
    rank = rank_of(sp_input)
    at = _axis(-1 if axis is None else axis, rank + 1, "sparse.expand_dims")

    def body(x: SparseTensor) -> Any:
        column = zeros_like(x.indices[:, :1])
        indices = concat([x.indices[:, :at], column, x.indices[:, at:]], 1)
        shape = concat([x.dense_shape[:at], ones([1], "int64"), x.dense_shape[at:]], 0)
        return SparseTensor(indices, x.values, shape)

    return compute_sparse(body, [sp_input])


def _between(x: SparseTensor, start: Any, size: Any) -> SparseTensor:
    """What is at [start, start + size) of each axis."""
    start, size = _wide(start), _wide(size)
    sane = reduce_all((start >= 0) & (size >= 0))
    start = assert_(start, sane, "sparse.slice: start and size are at least 0")
    size = maximum(minimum(x.dense_shape - start, size), 0)
    inside = reduce_all((x.indices >= start) & (x.indices < start + size), axis=1)
    return SparseTensor(
        boolean_mask(x.indices, inside) - start, boolean_mask(x.values, inside), size
    )


@described(
    "A SparseTensor.",
    start="tensor_like of int: Where it begins, for each axis.",
    size="tensor_like of int: How much of each axis; beyond the end there is nothing.",
    **_SPARSE,
)
def sparse_slice(
    sp_input: SparseTensor, start: TensorLike, size: TensorLike, name: str | None = None
) -> Any:
    """Take a part out of a sparse tensor.

    >>> x = mr.sparse.from_dense([[1, 0, 2], [0, 3, 4]])
    >>> mr.sparse.to_dense(mr.sparse.slice(x, [0, 1], [2, 2]))
    array([[0, 2],
           [3, 4]], dtype=int32)
    """
    return compute_sparse(_between, [sp_input, start, size])


@described(
    "A list of SparseTensor; the first ones have one more where the size does not divide.",
    sp_input="SparseTensor: Which.",
    num_split="int: How many parts, at most the size of the axis.",
    axis="int: Along which axis; a negative one counts from the end.",
)
def sparse_split(
    sp_input: Any = None, num_split: Any = None, axis: Any = None, name: str | None = None
) -> Any:
    """Cut a sparse tensor into parts along an axis.

    >>> x = mr.sparse.from_dense([1, 0, 3])
    >>> [part.values.tolist() for part in mr.sparse.split(x, 2, 0)]
    [[1], [3]]
    """
    if sp_input is None or num_split is None or axis is None:
        raise ValueError("sparse.split takes sp_input, num_split and axis")
    rank = rank_of(sp_input)
    along = _axis(axis, rank, "sparse.split")
    here = np.arange(rank) == along

    def body(x: SparseTensor) -> Any:
        whole = x.dense_shape[along]
        message = f"sparse.split: {num_split} parts of an axis that is shorter, or less than 1"
        whole = assert_(whole, (whole >= num_split) & (num_split >= 1), message)
        each, more = whole // max(num_split, 1), whole % max(num_split, 1)
        parts = []
        for i in range(num_split):
            start = where(here, each * i + minimum(more, i), np.int64(0))
            size = where(here, each + cast(more > i, "int64"), x.dense_shape)
            parts.append(_between(x, start, size))
        return parts

    return compute_sparse(body, [sp_input])


@described(
    "A SparseTensor with the same values.",
    new_shape="tensor_like of int, optional: Of the same rank, and nowhere smaller. By default just "
    "large enough for the values.",
    **_SPARSE,
)
def sparse_reset_shape(sp_input: SparseTensor, new_shape: TensorLike | None = None) -> Any:
    """Give a sparse tensor other sizes; the values stay where they are.

    >>> mr.sparse.reset_shape(mr.sparse.from_dense([[0, 5], [0, 0]])).dense_shape
    array([1, 2])
    """
    rank = rank_of(sp_input)

    def body(x: SparseTensor, *given: Tensor) -> Any:
        if not given:
            none = np.zeros((1, rank), np.int64)
            return SparseTensor(
                x.indices, x.values, reduce_max(concat([none, x.indices + 1], 0), axis=0)
            )
        shape = _wide(given[0])
        if shape.shape[0] not in (None, rank):
            raise ValueError(f"sparse.reset_shape: {shape.shape[0]} sizes for {rank} axes")
        message = "sparse.reset_shape: a size is smaller than that of the tensor"
        fits = reduce_all(shape >= x.dense_shape)
        return SparseTensor(x.indices, x.values, assert_(shape, fits, message))

    return compute_sparse(body, [sp_input] if new_shape is None else [sp_input, new_shape])


@described(
    "A SparseTensor with the same values, in their order.",
    shape="tensor_like of int: For as many values; one size may be -1, the rest.",
    **_IN_ORDER,
)
def sparse_reshape(sp_input: SparseTensor, shape: TensorLike, name: str | None = None) -> Any:
    """Give a sparse tensor another shape, as `mr.reshape`.

    >>> mr.sparse.reshape(mr.sparse.from_dense([[1, 0], [0, 4]]), [-1]).indices
    array([[0],
           [3]])
    """

    def body(x: SparseTensor, sizes: Tensor) -> Any:
        old, sizes = x.dense_shape, _wide(sizes)
        total, rank = _in_range(old), sizes.shape[0]
        if not rank:
            raise ValueError("sparse.reshape: how many axes there are must be known, and not 0")
        rest = reduce_prod(where(sizes < 0, np.int64(1), sizes))
        new = where(sizes < 0, total // maximum(rest, 1), sizes)
        unknown = reduce_sum(cast(sizes < 0, "int64"))
        fits = reduce_all(sizes >= -1) & (unknown <= 1) & ((rest > 0) | (unknown == 0))
        fits = (
            fits & (reduce_prod(cast(sizes, "float64")) < 2.0**63) & (reduce_prod(new) == total)
        )
        new = assert_(new, fits, "sparse.reshape: the shape does not fit the number of values")
        place = zeros_like(x.indices[:, 0])
        for axis in range(rank_of(x)):
            place = place * old[axis] + x.indices[:, axis]
        columns: list[Any] = []
        for axis in reversed(range(rank)):
            size = maximum(new[axis], 1)
            columns.insert(0, _expand_dims(place % size, 1))
            place = place // size
        return SparseTensor(concat(columns, 1), x.values, new)

    return compute_sparse(body, [sp_input, shape])


@described(
    "A SparseTensor.",
    perm="sequence of int, optional: The axes of the result, as those of the input. By default all, "
    "turned round.",
    **_SPARSE,
)
def sparse_transpose(
    sp_input: SparseTensor, perm: Sequence[int] | None = None, name: str | None = None
) -> Any:
    """Exchange the axes of a sparse tensor.

    >>> mr.sparse.transpose(mr.sparse.from_dense([[0, 5, 6]])).indices
    array([[1, 0],
           [2, 0]])
    """
    rank = rank_of(sp_input)
    axes = [int(a) for a in (range(rank)[::-1] if perm is None else perm)]
    if sorted(axes) != list(range(rank)):
        raise ValueError(f"sparse.transpose: {perm!r} is no order of {rank} axes")

    def body(x: SparseTensor) -> Any:
        indices = concat([x.indices[:, a : a + 1] for a in axes], 1)
        order = in_order(indices, rank)
        shape = gather(x.dense_shape, axes)
        return SparseTensor(gather(indices, order), gather(x.values, order), shape)

    return compute_sparse(body, [sp_input])


@described(
    "A SparseTensor [num_rows, num_columns].",
    num_rows="int, or scalar tensor: How many rows.",
    num_columns="int, or scalar tensor, optional: How many columns; by default as many.",
    dtype='dtype_like, default "float32": Of the values.',
)
def sparse_eye(
    num_rows: Any, num_columns: Any = None, dtype: DTypeLike = "float32", name: str | None = None
) -> Any:
    """Make a sparse matrix with ones where the row has the number of the column.

    >>> mr.sparse.eye(2).indices
    array([[0, 0],
           [1, 1]])
    """

    def body(rows: Tensor, columns: Tensor) -> Any:
        rows, columns = cast(rows, "int64"), cast(columns, "int64")
        count = minimum(rows, columns)
        places = _expand_dims(_range(count), 1)
        values = fill(_reshape(count, [1]), np.ones((), as_dtype(dtype).numpy_dtype()))
        shape = concat([_reshape(rows, [1]), _reshape(columns, [1])], 0)
        return SparseTensor(concat([places, places], 1), values, shape)

    return compute_sparse(body, [num_rows, num_rows if num_columns is None else num_columns])


@described(
    "A SparseTensor with a value in each row, and a bool for each row: whether it had none.",
    default_value="scalar: What is put at the beginning of rows without a value.",
    **_SPARSE,
)
def sparse_fill_empty_rows(
    sp_input: SparseTensor, default_value: TensorLike, name: str | None = None
) -> Any:
    """Give each row of a sparse tensor at least one value.

    >>> filled, was_empty = mr.sparse.fill_empty_rows(mr.sparse.from_dense([[0, 5], [0, 0]]), 9)
    >>> filled.values, was_empty
    (array([5, 9], dtype=int32), array([False,  True]))
    """
    rank = rank_of(sp_input)

    def body(x: SparseTensor, default: Tensor) -> Any:
        rows = x.indices[:, 0]
        inside = reduce_all((rows >= 0) & (rows < x.dense_shape[0]))
        rows = assert_(rows, inside, "sparse.fill_empty_rows: an index is out of range")
        empty = unsorted_segment_sum(rows * 0 + 1, rows, x.dense_shape[0]) == 0
        missing = where(empty)
        count = _shape(missing, "int64")[:1]
        rest = zeros_like(missing) + np.zeros(rank - 1, np.int64)
        indices = concat([x.indices, concat([missing, rest], 1)], 0)
        values = concat([x.values, fill(count, default)], 0)
        order = argsort(indices[:, 0])
        whole = SparseTensor(gather(indices, order), gather(values, order), x.dense_shape)
        return [whole, empty]

    default = convert_to_tensor(default_value, sp_input.dtype)
    filled = compute_sparse(body, [sp_input, default])
    return tuple(filled)
