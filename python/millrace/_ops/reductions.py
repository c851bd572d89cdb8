"""Reductions and products, under TensorFlow's names and arguments. `name` means nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.structure import is_composite
from .._graph.attrs import AttrTable
from .._graph.literals import is_literal
from .._graph.symbol import TensorLike
from .._graph.tensor import apply1, convert_to_tensor
from ..dtypes import DTypeLike
from .docs import INDEX, REDUCTION, documented


def _reduce(op: str, values: Any, axis: Any, keepdims: bool) -> Any:
    if is_composite(values):
        return values._reduce(op, axis, keepdims)
    attrs = AttrTable().bool("keepdims", keepdims)
    if axis is not None:
        attrs.ints("axes", np.atleast_1d(axis))
    return apply1(op, [values], attrs)


def _bools(values: TensorLike) -> Any:
    """An empty list has no dtype of its own."""
    return convert_to_tensor(values, "bool") if is_literal(values) else values


@documented(REDUCTION)
def reduce_sum(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Compute the sum over axes.

    >>> mr.reduce_sum([[1, 2], [3, 4]], axis=0)
    array([4, 6], dtype=int32)
    """
    return _reduce("reduce_sum", input_tensor, axis, keepdims)


@documented(REDUCTION)
def reduce_prod(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Compute the product over axes.

    >>> mr.reduce_prod([2, 3, 4])
    24
    """
    return _reduce("reduce_prod", input_tensor, axis, keepdims)


@documented(REDUCTION)
def reduce_max(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Find the largest value over axes.

    >>> mr.reduce_max([[1, 2], [3, 4]], axis=1)
    array([2, 4], dtype=int32)
    """
    return _reduce("reduce_max", input_tensor, axis, keepdims)


@documented(REDUCTION)
def reduce_min(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Find the smallest value over axes.

    >>> mr.reduce_min([[1, 2], [3, 4]], axis=1)
    array([1, 3], dtype=int32)
    """
    return _reduce("reduce_min", input_tensor, axis, keepdims)


@documented(REDUCTION)
def reduce_mean(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Compute the mean over axes (of integers an integer).

    >>> mr.reduce_mean([1.0, 2.0, 6.0])
    3.0
    """
    return _reduce("reduce_mean", input_tensor, axis, keepdims)


@documented(REDUCTION)
def reduce_all(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return whether all hold, over axes.

    >>> mr.reduce_all([[True, False], [True, True]], axis=1)
    array([False,  True])
    """
    return _reduce("reduce_all", _bools(input_tensor), axis, keepdims)


@documented(REDUCTION)
def reduce_any(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Return whether any holds, over axes.

    >>> mr.reduce_any([[True, False], [False, False]], axis=1)
    array([ True, False])
    """
    return _reduce("reduce_any", _bools(input_tensor), axis, keepdims)


def _arg(op: str, values: TensorLike, axis: int | None, output_type: DTypeLike) -> Any:
    attrs = AttrTable().int("axis", 0 if axis is None else axis).dtype("dtype", output_type)
    return apply1(op, [values], attrs)


@documented(INDEX)
def argmax(
    input: TensorLike,
    axis: int | None = None,
    output_type: DTypeLike = "int64",
    name: str | None = None,
) -> Any:
    """Find the first index of the largest value along an axis.

    >>> mr.argmax([[1, 9], [5, 2]], axis=1)
    array([1, 0])
    """
    return _arg("argmax", input, axis, output_type)


@documented(INDEX)
def argmin(
    input: TensorLike,
    axis: int | None = None,
    output_type: DTypeLike = "int64",
    name: str | None = None,
) -> Any:
    """Find the first index of the smallest value along an axis.

    >>> mr.argmin([[1, 9], [5, 2]], axis=1)
    array([0, 1])
    """
    return _arg("argmin", input, axis, output_type)


def matmul(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> Any:
    """Compute the matrix product.

    Parameters
    ----------
    a, b : tensor_like
        Of one dtype and at least two axes; those before the last two broadcast.
    transpose_a, transpose_b : bool, default False
        Whether the last two axes change places first.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        The product.

    Raises
    ------
    InvalidArgumentError
        The shapes do not go together.

    Examples
    --------
    >>> mr.matmul([[1, 2], [3, 4]], [[1], [10]])
    array([[21],
           [43]], dtype=int32)
    """
    attrs = AttrTable().bool("transpose_a", transpose_a).bool("transpose_b", transpose_b)
    return apply1("matmul", [a, b], attrs)
