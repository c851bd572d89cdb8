"""Partial results, and what stays of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol, TensorLike
from .._graph.tensor import apply1, convert_to_tensor
from ..dtypes import DTypeLike, as_dtype
from .arrays import expand_dims, reshape, transpose
from .constants import cast, range as _range, sized
from .elementwise import less, maximum
from .reductions import reduce_max


def _cumulated(op: str, x: TensorLike, axis: int, exclusive: bool, reverse: bool) -> Any:
    attrs = AttrTable().int("axis", axis).bool("exclusive", exclusive).bool("reverse", reverse)
    return apply1(op, [x], attrs)


def cumsum(
    x: TensorLike,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Add up along an axis, and give all partial sums.

    Parameters
    ----------
    x : tensor_like
        Numbers; integers wrap.
    axis : int, default 0
        Which axis; a negative one counts from the end.
    exclusive : bool, default False
        Whether a sum is that of the values before its place.
    reverse : bool, default False
        Whether to begin at the end.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of the shape and dtype of `x`.

    Examples
    --------
    >>> mr.cumsum([1, 2, 3])
    array([1, 3, 6], dtype=int32)
    """
    if hasattr(x, "_moved"):
        return x._moved("cumsum", axis, exclusive, reverse)
    return _cumulated("cumsum", x, axis, exclusive, reverse)


def cumprod(
    x: TensorLike,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Multiply along an axis, and give all partial products.

    Parameters
    ----------
    x : tensor_like
        Numbers; integers wrap.
    axis : int, default 0
        Which axis; a negative one counts from the end.
    exclusive : bool, default False
        Whether a product is that of the values before its place.
    reverse : bool, default False
        Whether to begin at the end.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of the shape and dtype of `x`.

    Examples
    --------
    >>> mr.math.cumprod([1, 2, 3])
    array([1, 2, 6], dtype=int32)
    """
    return _cumulated("cumprod", x, axis, exclusive, reverse)


def cumulative_logsumexp(
    x: TensorLike,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Add up exp(x) along an axis, and give the logarithms of all partial sums.

    Parameters
    ----------
    x : tensor_like of float
        Numbers.
    axis : int, default 0
        Which axis; a negative one counts from the end.
    exclusive : bool, default False
        Whether a sum is that of the values before its place: the first one is -inf.
    reverse : bool, default False
        Whether to begin at the end.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of the shape and dtype of `x`.

    Examples
    --------
    >>> mr.math.cumulative_logsumexp([1000.0, -1000.0])
    array([1000., 1000.], dtype=float32)
    """
    return _cumulated("cumulative_logsumexp", x, axis, exclusive, reverse)


def repeat(
    input: TensorLike, repeats: TensorLike, axis: int | None = None, name: str | None = None
) -> Any:
    """Repeat the parts of a tensor along an axis.

    Parameters
    ----------
    input : tensor_like
        Of any dtype.
    repeats : tensor_like of int
        How often: one number, or one for each part.
    axis : int, optional
        Which axis; by default the tensor is flattened first.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        The parts, each as often as it says.

    Raises
    ------
    InvalidArgumentError
        A number is negative, or there are not as many as parts.

    Examples
    --------
    >>> mr.repeat(["a", "b"], [1, 2])
    array([b'a', b'b', b'b'], dtype=object)
    """
    tensor = convert_to_tensor(input)
    if axis is None:
        tensor, axis = reshape(tensor, [-1]), 0
    result = apply1("repeat", [tensor, repeats], AttrTable().int("axis", axis), same_dtype=False)
    if not isinstance(repeats, (int, np.integer)) or not isinstance(tensor, Symbol):
        return result
    if tensor.shape.rank is None:
        return result
    dims = tensor.shape.as_list()
    size = dims[axis]
    dims[axis] = 0 if repeats == 0 else None if size is None else size * int(repeats)
    return sized(result, dims)


def boolean_mask(
    tensor: TensorLike, mask: TensorLike, axis: int | None = None, name: str = "boolean_mask"
) -> Any:
    """Keep the parts of a tensor for which a mask holds.

    Parameters
    ----------
    tensor : tensor_like
        Of any dtype.
    mask : tensor_like of bool
        Of the shape of the axes of `tensor` that begin with `axis`; at least one.
    axis : int, optional
        The first axis of the mask, a constant; by default 0.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        The axes of the mask become one.

    Raises
    ------
    InvalidArgumentError
        The mask has another shape, or is a scalar.

    Examples
    --------
    >>> mr.boolean_mask([1, 2, 3], [True, False, True])
    array([1, 3], dtype=int32)
    """
    whole = convert_to_tensor(tensor)
    chosen = convert_to_tensor(mask, "bool")
    if not axis:
        return apply1("boolean_mask", [whole, chosen], same_dtype=False)
    axis = axis + whole.ndim if axis < 0 else axis
    last = axis + chosen.ndim
    before, masked, behind = (
        list(range(axis)),
        list(range(axis, last)),
        list(range(last, whole.ndim)),
    )
    kept = apply1(
        "boolean_mask", [transpose(whole, masked + before + behind), chosen], same_dtype=False
    )
    order = [*range(1, axis + 1), 0, *range(axis + 1, 1 + len(before) + len(behind))]
    return transpose(kept, order)


def searchsorted(
    sorted_sequence: TensorLike,
    values: TensorLike,
    side: str = "left",
    out_type: DTypeLike = "int32",
    name: str | None = None,
) -> Any:
    """Find where values belong in rows that are sorted.

    Parameters
    ----------
    sorted_sequence : tensor_like
        Numbers, sorted along the last axis.
    values : tensor_like
        Of the same dtype and first axes.
    side : {"left", "right"}, default "left"
        Before or behind values that are equal.
    out_type : dtype_like, default "int32"
        Or int64.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of the shape of `values`: how many of the row stand before.

    Raises
    ------
    ValueError
        `side` is another word.

    Examples
    --------
    >>> mr.searchsorted([1, 3, 5], [0, 3, 9])
    array([0, 1, 3], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ValueError(f"side is 'left' or 'right', not {side!r}")
    attrs = AttrTable().bool("right", side == "right").dtype("dtype", out_type)
    return apply1("searchsorted", [sorted_sequence, values], attrs)


def sequence_mask(
    lengths: TensorLike,
    maxlen: TensorLike | None = None,
    dtype: DTypeLike = "bool",
    name: str | None = None,
) -> Any:
    """Give a mask of the first places of each row.

    Parameters
    ----------
    lengths : tensor_like of int
        How many of each row.
    maxlen : tensor_like of int, optional
        How long the rows are, a scalar; by default as long as the longest.
    dtype : dtype_like, default "bool"
        Of the result.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of the shape of `lengths` with an axis more.

    Examples
    --------
    >>> mr.sequence_mask([1, 3])
    array([[ True, False, False],
           [ True,  True,  True]])
    """
    counts = convert_to_tensor(lengths)
    longest = maximum(reduce_max(counts), 0) if maxlen is None else convert_to_tensor(maxlen)
    places = _range(longest)
    if isinstance(maxlen, (int, np.integer)):
        places = sized(places, [int(maxlen)])
    mask = less(places, expand_dims(cast(counts, places.dtype), -1))
    return mask if as_dtype(dtype).is_bool else cast(mask, dtype)
