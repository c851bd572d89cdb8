"""What is computed with the values of sparse tensors. `name` means nothing."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .._graph.symbol import TensorLike
from .._graph.tensor import Tensor, convert_to_tensor
from .arrays import concat, expand_dims, gather, reshape, shape as _shape, transpose, where
from .constants import cast, fill, ones_like, range as _range
from .docs import described
from .elementwise import abs as _abs, assert_, exp, maximum as _maximum, minimum as _minimum
from .reductions import reduce_all, reduce_prod
from .scattering import tensor_scatter_nd_add, tensor_scatter_nd_update
from .segments import segment_max, segment_min, segment_sum
from .segments import unsorted_segment_max, unsorted_segment_sum
from .selection import boolean_mask, cumsum
from .sparse import SparseTensor, compute_sparse, rank_of
from .sparse_groups import grouped, is_new

_SPARSE = {"sp_input": "SparseTensor: Which."}
_PAIR = {
    "sp_a": "SparseTensor: Its values are in order.",
    "sp_b": "SparseTensor: Of the same dtype and dense shape.",
}


def _equal_shapes(x: Any, shape: Any, other: Any, what: str) -> Any:
    """@x, where two shapes of one rank are the same."""
    ranks = shape.shape[0], other.shape[0]
    if None not in ranks and ranks[0] != ranks[1]:
        raise ValueError(f"{what}: tensors of {ranks[0]} and of {ranks[1]} axes")
    return assert_(x, reduce_all(shape == other), f"{what}: the shapes differ")


def _merged(a: SparseTensor, b: SparseTensor, what: str) -> tuple[Any, Any, Any, Any]:
    """As grouped(), of the values of both; and whether a place is of both."""
    indices = _equal_shapes(a.indices, a.dense_shape, b.dense_shape, what)
    places, values, ids = grouped(
        concat([indices, b.indices], 0), concat([a.values, b.values], 0), rank_of(a)
    )
    return places, values, ids, segment_sum(ones_like(ids), ids) > 1


@described(
    "A SparseTensor with the values of both; a dense tensor if one of them is.",
    a="SparseTensor or tensor_like: Its values are in order.",
    b="SparseTensor or tensor_like: Of the same dtype and shape; one of both is sparse.",
    threshold="scalar, default 0: Sums of two values below it, whatever their sign, are left out.",
)
def sparse_add(a: Any, b: Any, threshold: TensorLike = 0) -> Any:
    """Add two tensors, of which at least one is sparse.

    >>> x = mr.sparse.add(mr.sparse.from_dense([1, 0, 2]), mr.sparse.from_dense([0, 3, 4]))
    >>> x.values
    array([1, 3, 6], dtype=int32)
    """
    if not isinstance(a, SparseTensor):
        a, b = b, a
    rank_of(a)

    def with_dense(x: SparseTensor, dense: Tensor) -> Any:
        places = _equal_shapes(x.indices, x.dense_shape, _shape(dense, "int64"), "sparse.add")
        return tensor_scatter_nd_add(dense, places, x.values)

    def with_sparse(x: SparseTensor, y: SparseTensor, least: Tensor) -> Any:
        places, values, ids, both = _merged(x, y, "sparse.add")
        sums = segment_sum(values, ids)
        kept = (_abs(sums) >= least) | ~both
        return SparseTensor(boolean_mask(places, kept), boolean_mask(sums, kept), x.dense_shape)

    if isinstance(b, SparseTensor):
        least = convert_to_tensor(threshold, a.dtype)
        return compute_sparse(with_sparse, [a, b, least])
    return compute_sparse(with_dense, [a, convert_to_tensor(b, a.dtype)])


def _pairwise(
    a: SparseTensor, b: SparseTensor, of_two: Callable[..., Any], of_zero: Any, what: str
) -> Any:
    rank_of(b)

    def body(x: SparseTensor, y: SparseTensor) -> Any:
        places, values, ids, both = _merged(x, y, what)
        found = of_two(values, ids)
        return SparseTensor(places, where(both, found, of_zero(found, 0)), x.dense_shape)

    return compute_sparse(body, [a, b])


@described("A SparseTensor with the places of both.", **_PAIR)
def sparse_maximum(sp_a: SparseTensor, sp_b: SparseTensor, name: str | None = None) -> Any:
    """Take the larger one of the values of two sparse tensors; 0 stands where there is none.

    >>> mr.sparse.maximum(mr.sparse.from_dense([1, 0, 2]), mr.sparse.from_dense([0, -3, 4])).values
    array([1, 0, 4], dtype=int32)
    """
    return _pairwise(sp_a, sp_b, segment_max, _maximum, "sparse.maximum")


@described("A SparseTensor with the places of both.", **_PAIR)
def sparse_minimum(sp_a: SparseTensor, sp_b: SparseTensor, name: str | None = None) -> Any:
    """Take the smaller one of the values of two sparse tensors; 0 stands where there is none.

    >>> mr.sparse.minimum(mr.sparse.from_dense([1, 0, 2]), mr.sparse.from_dense([0, -3, 4])).values
    array([ 0, -3,  2], dtype=int32)
    """
    return _pairwise(sp_a, sp_b, segment_min, _minimum, "sparse.minimum")


def map_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply a function to the values of sparse tensors.

    Parameters
    ----------
    op : callable
        Takes the values in place of the sparse tensors; what it returns has as many.
    *args, **kwargs
        For `op`; sparse tensors among them have the same indices.

    Returns
    -------
    SparseTensor
        The result, at the same places.

    Raises
    ------
    ValueError
        No sparse tensor is among the arguments.
    InvalidArgumentError
        Two of them have other indices.

    Examples
    --------
    >>> mr.sparse.map_values(lambda x: x * 2, mr.sparse.from_dense([1, 0, 2])).values
    array([2, 4], dtype=int32)
    """
    given = [v for v in (*args, *kwargs.values()) if isinstance(v, SparseTensor)]
    if not given:
        raise ValueError("sparse.map_values: no SparseTensor is among the arguments")
    indices, message = given[0].indices, "sparse.map_values: the indices differ"
    for other in given[1:]:
        same = reduce_all(_shape(indices) == _shape(other.indices))
        indices = assert_(indices, same, message)
        indices = assert_(indices, reduce_all(indices == other.indices), message)
    values = op(
        *(v.values if isinstance(v, SparseTensor) else v for v in args),
        **{k: v.values if isinstance(v, SparseTensor) else v for k, v in kwargs.items()},
    )
    same = _shape(values)[0] == _shape(indices)[0]
    values = assert_(values, same, "sparse.map_values: the function returns as many values")
    return SparseTensor(indices, values, given[0].dense_shape)


def _reduced(x: SparseTensor, axis: Any, keepdims: Any, sparse: bool, op: str) -> Any:
    rank = rank_of(x)
    axes = range(rank) if axis is None else [int(a) for a in np.atleast_1d(axis)]
    if any(not -rank <= a < rank for a in axes):
        raise ValueError(f"sparse.{op}: axis {axis!r} of a tensor with {rank} axes")
    gone = {a % rank for a in axes}
    kept = [a for a in range(rank) if a not in gone]

    def body(y: SparseTensor) -> Any:
        places = [y.indices[:, a] for a in kept]
        sizes = [y.dense_shape[a] for a in kept]
        if sparse:
            columns = concat([expand_dims(p, 1) for p in places], 1) if kept else y.indices[:, :0]
            found, values, ids = grouped(columns, y.values, len(kept))
            values = (segment_sum if op == "reduce_sum" else segment_max)(values, ids)
            return _sparse_result(y, found, values, kept, gone if keepdims else set())
        at, count = y.indices[:, 0] * 0, y.dense_shape[0] * 0 + 1
        for place, size in zip(places, sizes):
            at, count = at * size + place, count * size
        fits = reduce_prod(cast(y.dense_shape, "float64")) < 2.0**63
        inside = reduce_all((y.indices >= 0) & (y.indices < y.dense_shape)) & fits
        at = assert_(at, inside, f"sparse.{op}: an index is out of range")
        if op == "reduce_sum":
            flat = unsorted_segment_sum(y.values, at, count)
        else:
            some = unsorted_segment_sum(ones_like(at), at, count) > 0
            flat = unsorted_segment_max(y.values, at, count)
            flat = where(some, flat, cast(0, y.dtype))
        left = [
            np.ones(1, np.int64) if a in gone else y.dense_shape[a : a + 1]
            for a in range(rank)
            if keepdims or a not in gone
        ]
        return reshape(flat, concat(left, 0)) if left else flat[0]

    return compute_sparse(body, [x])


def _sparse_result(
    x: SparseTensor, found: Any, values: Any, kept: list[int], ones: set[int]
) -> Any:
    """The places @found of the axes @kept as a tensor; the axes @ones have size 1."""
    columns, sizes = [], []
    for axis in sorted([*kept, *ones]):
        if axis in ones:
            columns.append(expand_dims(_range(_shape(values, "int64")[0]) * 0, 1))
            sizes.append(np.ones(1, np.int64))
        else:
            at = kept.index(axis)
            columns.append(found[:, at : at + 1])
            sizes.append(x.dense_shape[axis : axis + 1])
    if not columns:
        return SparseTensor(found, values, x.dense_shape[:0])
    return SparseTensor(concat(columns, 1), values, concat(sizes, 0))


_REDUCED = {
    "sp_input": "SparseTensor: Which.",
    "axis": "int or sequence of int, optional: Axes that go. By default all do.",
    "output_is_sparse": "bool, default False: Whether the result is a SparseTensor.",
}


@described("A dense tensor, or a sparse one.", **_REDUCED)
def sparse_reduce_sum(
    sp_input: SparseTensor,
    axis: Any = None,
    keepdims: bool | None = None,
    output_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Add up the values of a sparse tensor, along axes.

    >>> mr.sparse.reduce_sum(mr.sparse.from_dense([[1, 0, 2], [0, 0, 0]]), axis=1)
    array([3, 0], dtype=int32)
    """
    return _reduced(sp_input, axis, keepdims, output_is_sparse, "reduce_sum")


@described("A dense tensor, or a sparse one.", **_REDUCED)
def sparse_reduce_max(
    sp_input: SparseTensor,
    axis: Any = None,
    keepdims: bool | None = None,
    output_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Find the largest value of a sparse tensor, along axes; of none it is 0.

    What is not among the values does not count: the largest of -1 and nothing is -1.

    >>> mr.sparse.reduce_max(mr.sparse.from_dense([[-1, 0, -2], [0, 0, 0]]), axis=1)
    array([-1,  0], dtype=int32)
    """
    return _reduced(sp_input, axis, keepdims, output_is_sparse, "reduce_max")


@described(
    "bool: the last axis of `sp_input` is replaced by one of size `vocab_size`.",
    vocab_size="int, or scalar tensor: Above all values.",
    sp_input="SparseTensor: Of numbers from 0 on.",
)
def sparse_to_indicator(sp_input: SparseTensor, vocab_size: Any, name: str | None = None) -> Any:
    """Say for each number up to a bound whether it is among the values of a row.

    >>> mr.sparse.to_indicator(mr.sparse.from_dense([[1, 0], [2, 1]]), 3)
    array([[False,  True, False],
           [False,  True,  True]])
    """
    rank = rank_of(sp_input)

    def body(x: SparseTensor, size: Tensor) -> Any:
        shape = concat([x.dense_shape[: rank - 1], reshape(cast(size, "int64"), [1])], 0)
        last = expand_dims(cast(x.values, "int64"), 1)
        places = concat([x.indices[:, : rank - 1], last], 1)
        return tensor_scatter_nd_update(fill(shape, False), places, x.values == x.values)

    return compute_sparse(body, [sp_input, vocab_size])


_MATRICES = {
    "sp_a": "SparseTensor or tensor_like: A matrix.",
    "b": "tensor_like or SparseTensor: A matrix; one of both is sparse.",
    "adjoint_a": "bool, default False: Whether to turn `sp_a` before.",
    "adjoint_b": "bool, default False: Whether to turn `b` before.",
}


@described("A dense matrix.", **_MATRICES)
def sparse_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Any:
    """Multiply a sparse matrix by a dense one.

    >>> mr.sparse.sparse_dense_matmul(mr.sparse.from_dense([[0, 2]]), [[1, 2], [3, 4]])
    array([[6, 8]], dtype=int32)
    """
    if isinstance(b, SparseTensor) and not isinstance(sp_a, SparseTensor):
        # a b is the transpose of b' a'.
        return transpose(sparse_dense_matmul(b, sp_a, not adjoint_b, not adjoint_a))
    if rank_of(sp_a) != 2:
        raise ValueError("sparse.sparse_dense_matmul takes matrices")

    def body(x: SparseTensor, dense: Tensor) -> Any:
        if dense.shape.rank != 2:
            raise ValueError("sparse.sparse_dense_matmul takes matrices")
        dense = transpose(dense) if adjoint_b else dense
        row, column = (1, 0) if adjoint_a else (0, 1)
        same = x.dense_shape[column] == _shape(dense, "int64")[0]
        at = assert_(x.indices, same, "sparse.sparse_dense_matmul: the inner sizes differ")
        parts = expand_dims(x.values, 1) * gather(dense, at[:, column])
        rows, count = at[:, row], x.dense_shape[row]
        inside = reduce_all((rows >= 0) & (rows < count))
        rows = assert_(rows, inside, "sparse.sparse_dense_matmul: an index is out of range")
        return unsorted_segment_sum(parts, rows, count)

    return compute_sparse(body, [sp_a, convert_to_tensor(b, sp_a.dtype)])


@described(
    "A SparseTensor of the same places.",
    sp_input="SparseTensor: Of float and of rank 2 or more; its values are in order.",
)
def sparse_softmax(sp_input: SparseTensor, name: str | None = None) -> Any:
    """Make the values along the last axis positive, with the sum 1; others count as not there.

    >>> mr.sparse.softmax(mr.sparse.from_dense([[2.0, 0.0, 2.0]])).values
    array([0.5, 0.5], dtype=float32)
    """
    rank = rank_of(sp_input)
    if rank < 2:
        raise ValueError("sparse.softmax takes a sparse tensor of rank 2 or more")

    def body(x: SparseTensor) -> Any:
        ids = cumsum(cast(is_new(x.indices[:, : rank - 1], rank - 1), "int64")) - 1
        powers = exp(x.values - gather(segment_max(x.values, ids), ids))
        values = powers / gather(segment_sum(powers, ids), ids)
        return SparseTensor(x.indices, values, x.dense_shape)

    return compute_sparse(body, [sp_input])
