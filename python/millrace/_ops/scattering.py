"""Places that are given by several indices each. `name` means nothing."""

from __future__ import annotations

from typing import Any

from .._data.structure import is_composite
from .._graph.attrs import AttrTable
from .._graph.symbol import TensorLike
from .._graph.tensor import Tensor, apply1, compute, convert_to_tensor
from .arrays import reshape
from .constants import zeros
from .docs import described
from .elementwise import assert_
from .reductions import reduce_all, reduce_prod
from .selection import cumprod

_PUT, _ADD, _SUB, _MIN, _MAX = range(5)


@described(
    "`indices.shape[:-1]`, then the axes of `params` that the indices leave.",
    params="tensor_like: What is picked from.",
    batch_dims="int, default 0: So many first axes are the same ones in both.",
)
def gather_nd(
    params: TensorLike, indices: TensorLike, batch_dims: int = 0, name: str | None = None
) -> Any:
    """Pick values or slices, each by several numbers.

    >>> mr.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]])
    array([2, 3], dtype=int32)
    """
    if batch_dims == 0 and is_composite(indices):
        return indices.with_flat_values(gather_nd(params, indices.flat_values))
    if batch_dims == 0 and is_composite(params):
        return params._gather_nd(convert_to_tensor(indices))
    attrs = AttrTable().int("batch_dims", batch_dims)
    return apply1("gather_nd", [params, indices], attrs, same_dtype=False)


def _scatter(mode: int, tensor: Any, indices: Any, updates: Any) -> Any:
    def body(x: Tensor, places: Tensor, values: Tensor) -> Any:
        attrs = AttrTable().int("mode", mode)
        return apply1("scatter", [x, places, values], attrs, same_dtype=False)

    return compute(body, [tensor, indices, updates], same_dtype=False)


@described(
    "A tensor of that shape.", shape="sequence of int, or tensor_like of int: Of the result."
)
def scatter_nd(
    indices: TensorLike, updates: TensorLike, shape: Any, name: str | None = None
) -> Any:
    """Put values into a tensor of zeros; those of one place are added up.

    Bools and strings are not added up: of several for one place the last one stays.

    >>> mr.scatter_nd([[1], [3], [1]], [5, 6, 7], [4])
    array([ 0, 12,  0,  6], dtype=int32)
    """

    def body(places: Tensor, values: Tensor) -> Any:
        adds = values.dtype.is_integer or values.dtype.is_floating
        return _scatter(_ADD if adds else _PUT, zeros(shape, values.dtype), places, values)

    return compute(body, [indices, updates], same_dtype=False)


@described("Of the shape of `tensor`.")
def tensor_scatter_nd_update(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None
) -> Any:
    """Put values into a tensor; of several for one place the last one stays.

    >>> mr.tensor_scatter_nd_update([1, 1, 1], [[0], [2]], [5, 6])
    array([5, 1, 6], dtype=int32)
    """
    return _scatter(_PUT, tensor, indices, updates)


@described("Of the shape of `tensor`.")
def tensor_scatter_nd_add(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None
) -> Any:
    """Add values to those of a tensor.

    >>> mr.tensor_scatter_nd_add([1, 1, 1], [[0], [2]], [5, 6])
    array([6, 1, 7], dtype=int32)
    """
    return _scatter(_ADD, tensor, indices, updates)


@described("Of the shape of `tensor`.")
def tensor_scatter_nd_sub(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None
) -> Any:
    """Subtract values from those of a tensor.

    >>> mr.tensor_scatter_nd_sub([1, 1, 1], [[0], [2]], [5, 6])
    array([-4,  1, -5], dtype=int32)
    """
    return _scatter(_SUB, tensor, indices, updates)


@described("Of the shape of `tensor`.")
def tensor_scatter_nd_min(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None
) -> Any:
    """Put values into a tensor where they are smaller.

    >>> mr.tensor_scatter_nd_min([4, 4, 4], [[0], [2]], [5, 3])
    array([4, 4, 3], dtype=int32)
    """
    return _scatter(_MIN, tensor, indices, updates)


@described("Of the shape of `tensor`.")
def tensor_scatter_nd_max(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None
) -> Any:
    """Put values into a tensor where they are larger.

    >>> mr.tensor_scatter_nd_max([4, 4, 4], [[0], [2]], [5, 3])
    array([5, 4, 4], dtype=int32)
    """
    return _scatter(_MAX, tensor, indices, updates)


@described(
    "[axes, places]: the number along each axis.",
    indices="tensor_like of int: Places in a flattened tensor.",
    dims="tensor_like of int: The shape of the tensor.",
)
def unravel_index(indices: TensorLike, dims: TensorLike, name: str | None = None) -> Any:
    """Find which numbers along the axes of a shape stand for places in the flattened tensor.

    >>> mr.unravel_index([5, 2], [2, 3])
    array([[1, 0],
           [2, 2]], dtype=int32)
    """

    def body(places: Tensor, sizes: Tensor) -> Any:
        inside = reduce_all((places >= 0) & (places < reduce_prod(sizes)))
        places = assert_(places, inside, "unravel_index: a place is outside of the tensor")
        behind = cumprod(sizes, exclusive=True, reverse=True)
        if places.shape.rank == 0:
            return places // behind % sizes
        return places // reshape(behind, [-1, 1]) % reshape(sizes, [-1, 1])

    return compute(body, [indices, dims])
