"""Tensors joined, cut, turned and chosen from, under TensorFlow's names. `name` means nothing."""

from __future__ import annotations

import builtins
from typing import Any, Sequence, SupportsIndex

import numpy as np

from .. import dtypes, errors
from .._data.spec import ShapeLike, TensorShape, integer
from .._data.structure import is_composite, is_ragged
from .._graph.attrs import AttrTable
from .._graph.literals import dtype_of, is_literal, to_array
from .._graph.symbol import Symbol, TensorLike, current_graph, holds_symbols
from .._graph.tensor import apply, apply1, convert_to_tensor
from ..dtypes import DTypeLike, as_dtype
from .constants import convert_to_array, known_sizes, sized, static_shape, zeros


def where(
    condition: TensorLike,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: str | None = None,
) -> Any:
    """Choose between two tensors, element-wise; or find where a condition holds.

    Parameters
    ----------
    condition : tensor_like of bool
        Where it holds, the result is that of `x`.
    x, y : tensor_like
        Of one dtype; all three broadcast. Both are given, or none.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of the shape to which the three broadcast. Of the condition alone: int64 [places, rank],
        where it holds, in order.

    Raises
    ------
    ValueError
        One of `x` and `y` is missing.

    Examples
    --------
    >>> mr.where([True, False], [1, 2], [10, 20])
    array([ 1, 20], dtype=int32)
    """
    if x is None and y is None:
        if hasattr(condition, "_where"):
            return condition._where()
        holds = convert_to_tensor(condition)
        if not as_dtype(holds.dtype).is_bool:
            holds = apply1("not_equal", [holds, zeros([], holds.dtype)])
        return apply1("where_true", [holds])
    if x is None or y is None:
        raise ValueError("where takes both x and y, or none of them")
    if any(map(is_composite, (condition, x, y))):
        return apply1("select", [condition, x, y], same_dtype=False)
    hint = dtype_of(x) or dtype_of(y)
    graph = current_graph()
    if graph is None:
        arrays = [convert_to_array(condition, "bool"), to_array(x, hint), to_array(y, hint)]
        return apply1("select", arrays, same_dtype=False)
    tensors = [
        graph.convert(condition, dtypes.bool_),
        graph.convert(x, hint),
        graph.convert(y, hint),
    ]
    return apply1("select", tensors, same_dtype=False)


def reshape(tensor: TensorLike, shape: Any, name: str | None = None) -> Any:
    """Give values another shape; their order stays.

    Parameters
    ----------
    tensor : tensor_like
        The values.
    shape : sequence of int, or tensor_like of int
        One dimension may be -1: what is left for it.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of that shape.

    Raises
    ------
    InvalidArgumentError
        The number of values does not fit.

    Examples
    --------
    >>> mr.reshape([1, 2, 3, 4], [2, -1])
    array([[1, 2],
           [3, 4]], dtype=int32)
    """
    if hasattr(tensor, "_moved"):
        return tensor._moved("reshape", shape)
    dims = static_shape(shape)
    if dims is None:
        return sized(apply1("reshape", [tensor, shape], same_dtype=False), known_sizes(shape))
    return apply1("reshape", [tensor], AttrTable().shape("shape", dims))


def ensure_shape(x: TensorLike, shape: ShapeLike, name: str | None = None) -> Any:
    """Return a tensor whose shape is known better than before.

    Parameters
    ----------
    x : tensor_like
        Of any dtype.
    shape : TensorShape or what makes one
        What the shape must be; None is a size that may be anything.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        `x` as it is.

    Raises
    ------
    InvalidArgumentError
        The shape is another one: at once where that is known, else with the element.

    Examples
    --------
    >>> mr.ensure_shape([1, 2], [None])
    array([1, 2], dtype=int32)
    """
    wanted = TensorShape(shape)
    if wanted.rank is None:
        return convert_to_tensor(x)
    return apply1("ensure_shape", [x], AttrTable().shape("shape", wanted))


def expand_dims(input: TensorLike, axis: int, name: str | None = None) -> Any:
    """Add an axis of size 1.

    Parameters
    ----------
    input : tensor_like
        The values.
    axis : int
        Where the new axis is; a negative one counts from the end.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        With one axis more.

    Examples
    --------
    >>> mr.expand_dims([1, 2], 0)
    array([[1, 2]], dtype=int32)
    """
    if hasattr(input, "_moved"):
        return input._moved("expand_dims", axis)
    return apply1("expand_dims", [input], AttrTable().int("axis", axis))


def squeeze(input: TensorLike, axis: Any = None, name: str | None = None) -> Any:
    """Take away axes of size 1.

    Parameters
    ----------
    input : tensor_like
        The values.
    axis : int or sequence of int, optional
        Which; by default all that have size 1.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        With fewer axes.

    Raises
    ------
    InvalidArgumentError
        An axis of `axis` has another size.

    Examples
    --------
    >>> mr.squeeze([[1, 2]])
    array([1, 2], dtype=int32)
    """
    if hasattr(input, "_moved"):
        return input._moved("squeeze", axis)
    attrs = AttrTable()
    if axis is not None:
        attrs.ints("axes", np.atleast_1d(axis))
    return apply1("squeeze", [input], attrs)


def transpose(
    a: TensorLike, perm: Any = None, conjugate: bool = False, name: str = "transpose"
) -> Any:
    """Put the axes in another order.

    Parameters
    ----------
    a : tensor_like
        The values.
    perm : sequence of int, optional
        Which axis of `a` comes where; reversed by default.
    conjugate : bool, default False
        Whether imaginary parts change their sign, too.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        With the axes in that order.

    Examples
    --------
    >>> mr.transpose([[1, 2, 3], [4, 5, 6]])
    array([[1, 4],
           [2, 5],
           [3, 6]], dtype=int32)
    """
    if isinstance(perm, SupportsIndex):
        raise TypeError(
            f"perm is the list of all axes in their new order, as [2, 0, 1], not {perm}"
        )
    attrs = AttrTable() if perm is None else AttrTable().ints("perm", perm)
    turned = apply1("transpose", [a], attrs)
    return apply1("conj", [turned]) if conjugate and as_dtype(turned.dtype).is_complex else turned


def broadcast_to(input: TensorLike, shape: Any, name: str | None = None) -> Any:
    """Repeat values so that they fill a shape, as NumPy broadcasts.

    Parameters
    ----------
    input : tensor_like
        The values.
    shape : sequence of int, or tensor_like of int
        As many numbers as the result has axes.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of that shape.

    Raises
    ------
    InvalidArgumentError
        The shape of `input` does not broadcast to `shape`.

    Examples
    --------
    >>> mr.broadcast_to([1, 2], [2, 2])
    array([[1, 2],
           [1, 2]], dtype=int32)
    """
    dims = static_shape(shape)
    if dims is None:
        wide = apply1("broadcast_to", [input, _stacked(shape)], same_dtype=False)
        return sized(wide, known_sizes(shape))
    return apply1("broadcast_to", [input], AttrTable().shape("shape", dims))


def _stacked(values: Any) -> Any:
    """A list with scalar tensors in it as a vector of int64, a tensor as it is."""
    if isinstance(values, (list, tuple)):
        return apply1("stack", [_wide(v) for v in values], AttrTable().int("axis", 0))
    return values


def _wide(value: Any) -> Any:
    if isinstance(value, Symbol):
        return apply1("cast", [value], AttrTable().dtype("dtype", "int64"))
    return convert_to_tensor(value, "int64") if is_literal(value) else value


def concat(values: Sequence[TensorLike], axis: int, name: str = "concat") -> Any:
    """Join tensors along an axis.

    Parameters
    ----------
    values : sequence of tensor_like
        Of one dtype; their shapes differ along `axis` alone.
    axis : int
        Which axis; a negative one counts from the end.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        The values one behind the other.

    Examples
    --------
    >>> mr.concat([[1, 2], [3]], axis=0)
    array([1, 2, 3], dtype=int32)
    """
    values = values if isinstance(values, (list, tuple)) else [values]
    for value in values:
        if is_composite(value):
            return value._concat(values, axis)
    attrs = AttrTable().int("axis", axis)
    if len(values) == 1:
        return convert_to_tensor(values[0])  # whatever the axis
    return apply1("concat", list(values), attrs)


def stack(values: Any, axis: int = 0, name: str = "stack") -> Any:
    """Join tensors along a new axis.

    Parameters
    ----------
    values : sequence of tensor_like
        Of one dtype and shape.
    axis : int, default 0
        Where the new axis is; a negative one counts from the end.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        With one axis more.

    Examples
    --------
    >>> mr.stack([[1, 2], [3, 4]])
    array([[1, 2],
           [3, 4]], dtype=int32)
    """
    values = values if isinstance(values, (list, tuple)) else unstack(values)
    for value in values:
        if hasattr(value, "_stack"):
            return value._stack(values, axis)
    return apply1("stack", list(values), AttrTable().int("axis", axis))


def unstack(
    value: TensorLike, num: int | None = None, axis: int = 0, name: str = "unstack"
) -> list[Any]:
    """Take a tensor apart along an axis, whose size has to be known.

    Parameters
    ----------
    value : tensor_like
        What is taken apart.
    num : int, optional
        The size of the axis, as a check.
    axis : int, default 0
        Which axis; a negative one counts from the end.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    list of Tensor or numpy.ndarray
        One for each place along the axis.

    Raises
    ------
    ValueError
        The axis has another size than `num`.

    Examples
    --------
    >>> mr.unstack([[1, 2], [3, 4]])
    [array([1, 2], dtype=int32), array([3, 4], dtype=int32)]
    """
    tensor = convert_to_tensor(value)
    dims = tuple(tensor.shape)
    if -len(dims) <= axis < len(dims) and dims[axis] == 0 and not num:
        return []
    results = apply("unstack", [tensor], AttrTable().int("axis", axis))
    if num is not None and num != len(results):
        raise ValueError(f"unstack: num is {num}, the axis has {len(results)}")
    return results


def split(
    value: TensorLike,
    num_or_size_splits: Any,
    axis: int = 0,
    num: int | None = None,
    name: str = "split",
) -> list[Any]:
    """Cut a tensor into parts along an axis.

    Parameters
    ----------
    value : tensor_like
        What is cut.
    num_or_size_splits : int or sequence of int, or tensor_like of int
        So many equal parts, or parts of these sizes, of which one may be -1. The number of sizes has
        to be known.
    axis : int, default 0
        Which axis; a negative one counts from the end.
    num : int, optional
        Accepted and ignored.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    list of Tensor or numpy.ndarray
        The parts.

    Raises
    ------
    ValueError, InvalidArgumentError
        The sizes do not add up to that of the axis: at once where it is known, else with the
        element.

    Examples
    --------
    >>> mr.split([1, 2, 3, 4, 5], [2, -1])
    [array([1, 2], dtype=int32), array([3, 4, 5], dtype=int32)]
    """
    if hasattr(value, "_moved"):
        parts: list[Any] = value._moved("split", num_or_size_splits, axis)
        return parts
    tensor: Any = value if isinstance(value, Symbol) else convert_to_tensor(value)
    size, rank = tensor.shape[axis], len(tensor.shape)
    axis = axis + rank if axis < 0 else axis
    if holds_symbols(num_or_size_splits) or size is None:
        return _split_by_values(tensor, num_or_size_splits, axis)
    if isinstance(num_or_size_splits, int):
        if size % num_or_size_splits:
            raise ValueError(
                f"split: an axis of size {size} cannot be cut into "
                f"{num_or_size_splits} equal parts"
            )
        sizes = [size // num_or_size_splits] * num_or_size_splits
    else:
        sizes = [integer("num_or_size_splits", s) for s in num_or_size_splits]
        if -1 in sizes:
            sizes[sizes.index(-1)] = size - sum(sizes) - 1
        if sum(sizes) != size or min(sizes, default=0) < 0:
            raise ValueError(f"split: sizes {sizes} do not add up to {size}")
    ends = np.cumsum(sizes).tolist()
    lead = (builtins.slice(None),) * axis
    return [tensor[lead + (builtins.slice(e - s, e),)] for s, e in zip(sizes, ends)]


def _split_by_values(tensor: Any, num_or_sizes: Any, axis: int) -> list[Any]:
    """Inside of a function: parts whose sizes are known with the element."""
    whole = shape(tensor, "int64")[axis]
    if isinstance(num_or_sizes, int):
        part = apply1("floor_div", [whole, num_or_sizes])
        sizes = [part] * num_or_sizes
    else:
        listed = isinstance(num_or_sizes, (list, tuple))
        sizes = [_wide(s) for s in (num_or_sizes if listed else unstack(num_or_sizes))]
        given = apply1("stack", sizes, AttrTable().int("axis", 0))
        total = apply1("reduce_sum", [given])
        rest = whole - total - 1  # what is left for a size of -1
        sizes = [where(s == -1, rest, s) for s in sizes]
    ends: list[Any] = []
    for size in sizes:
        ends.append(size if not ends else ends[-1] + size)
    shortest = apply1("reduce_min", [apply1("stack", sizes, AttrTable().int("axis", 0))])
    message = f"split: the sizes of the parts do not add up to that of axis {axis}"
    fits = (ends[-1] == whole) & (shortest >= 0)
    tensor = apply1("assert", [tensor, fits], AttrTable().bytes("message", message), False)
    lead = (builtins.slice(None),) * axis
    return [tensor[lead + (builtins.slice(e - s, e),)] for s, e in zip(sizes, ends)]


def slice(input_: TensorLike, begin: Any, size: Any, name: str | None = None) -> Any:
    """Cut a piece out of a tensor.

    Parameters
    ----------
    input_ : tensor_like
        What it is cut out of.
    begin : sequence of int
        Where it begins along each axis.
    size : sequence of int
        How long it is along each axis; -1: to the end.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        The piece.

    Raises
    ------
    InvalidArgumentError
        The part is not within `input_`.

    Examples
    --------
    >>> mr.slice([1, 2, 3, 4], [1], [2])
    array([2, 3], dtype=int32)
    """
    begins, sizes = static_shape(begin), static_shape(size)
    tensor: Any = input_ if isinstance(input_, Symbol) else convert_to_tensor(input_)
    if begins is None or sizes is None or tensor.ndim is None:
        inputs = [tensor, convert_to_tensor(begin), convert_to_tensor(size)]
        return sized(apply1("slice", inputs, same_dtype=False), known_sizes(size))
    _check_within(tensor.shape, begins, sizes)
    if None in tuple(tensor.shape):
        place = [np.array(numbers, np.int64) for numbers in (begins, sizes)]
        part = apply1("slice", [tensor, *place], same_dtype=False)
    else:
        key = (builtins.slice(b, None if s == -1 else b + s) for b, s in zip(begins, sizes))
        part = tensor[tuple(key)]
    if not isinstance(part, Symbol):
        return part
    return sized(part, [d if s == -1 else s for s, d in zip(sizes, part.shape.as_list())])


def _check_within(shape: Any, begins: Sequence[Any], sizes: Sequence[Any]) -> None:
    dims = tuple(shape)
    if not len(begins) == len(sizes) == len(dims):
        raise errors.InvalidArgumentError(
            f"slice: a begin of {len(begins)} values and a size of {len(sizes)} for a tensor of "
            f"rank {len(dims)}"
        )
    for axis, (begin, size, dim) in enumerate(zip(begins, sizes, dims)):
        left = np.inf if dim is None else dim - begin
        if begin < 0 or left < 0 or size < -1 or size > left:
            raise errors.InvalidArgumentError(
                f"slice: begin {begin}, size {size} is not within axis {axis}, which has size {dim}"
            )


def gather(
    params: TensorLike,
    indices: TensorLike,
    validate_indices: Any = None,
    axis: int | None = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Any:
    """Pick slices by number along an axis.

    Parameters
    ----------
    params : tensor_like
        What is picked from.
    indices : tensor_like of int
        Numbers along the axis, of any shape, from 0 on.
    validate_indices : optional
        Accepted and ignored: they are always checked.
    axis : int, optional
        Which axis; by default the first one behind the `batch_dims`. A negative one counts from the
        end.
    batch_dims : int, default 0
        So many first axes are the same ones in `params` and `indices`; a negative number counts from
        the end of the axes of `indices`.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        With the axes of `indices` in place of the axis.

    Raises
    ------
    InvalidArgumentError
        An index is out of range.

    Examples
    --------
    >>> mr.gather([10, 20, 30], [2, 0])
    array([30, 10], dtype=int32)
    """
    if batch_dims != 0 and (is_composite(indices) or is_composite(params)):
        if batch_dims != 1 or axis not in (None, 1):
            raise errors.UnimplementedError("mr.gather of ragged tensors takes one batch axis")
        return (indices if is_composite(indices) else params)._gather_each(params, indices)
    if is_composite(indices):
        if axis not in (None, 0):
            raise errors.UnimplementedError("mr.gather by ragged numbers is along axis 0")
        return indices.with_flat_values(gather(params, indices.flat_values))
    if is_composite(params):
        return params._gather(convert_to_tensor(indices), axis)
    places = convert_to_tensor(indices)
    if batch_dims < 0:
        if places.ndim is None:
            raise ValueError("a negative batch_dims takes indices of known rank")
        batch_dims += places.ndim
    attrs = AttrTable().int("axis", batch_dims if axis is None else axis)
    if batch_dims:
        attrs.int("batch_dims", batch_dims)
    return apply1("gather", [params, places], attrs, same_dtype=False)


def tile(input: TensorLike, multiples: Any, name: str | None = None) -> Any:
    """Repeat a tensor along each axis.

    Parameters
    ----------
    input : tensor_like
        The values.
    multiples : sequence of int, or tensor_like of int
        How often along each axis.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        The repetitions side by side.

    Raises
    ------
    InvalidArgumentError
        There are not as many numbers as axes, or one is negative.

    Examples
    --------
    >>> mr.tile([1, 2], [2])
    array([1, 2, 1, 2], dtype=int32)
    """
    if hasattr(input, "_moved"):
        return input._moved("tile", multiples)
    counts = static_shape(multiples)
    if counts is None:
        return apply1("tile", [input, _stacked(multiples)], same_dtype=False)
    return apply1("tile", [input], AttrTable().ints("multiples", counts))


def pad(
    tensor: TensorLike,
    paddings: Any,
    mode: str = "CONSTANT",
    constant_values: Any = 0,
    name: str | None = None,
) -> Any:
    """Add values around a tensor.

    Parameters
    ----------
    tensor : tensor_like
        What is padded.
    paddings : array_like of int, or a tensor, of shape (rank, 2)
        How many values come before and behind, along each axis.
    mode : str, default "CONSTANT"
        Or "REFLECT", as in a mirror at the first and last value; or "SYMMETRIC", as in a mirror
        behind them.
    constant_values : scalar, default 0
        What is added, with "CONSTANT".
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        The larger tensor.

    Raises
    ------
    ValueError
        `mode` is another word.
    InvalidArgumentError
        A mirror would have to show more than there is.

    Examples
    --------
    >>> mr.pad([1, 2], [[1, 2]])
    array([0, 1, 2, 0, 0], dtype=int32)
    >>> mr.pad([1, 2, 3], [[0, 2]], "REFLECT")
    array([1, 2, 3, 2, 1], dtype=int32)
    """
    modes = {"CONSTANT": 0, "REFLECT": 1, "SYMMETRIC": 2}
    if mode.upper() not in modes:
        raise ValueError(f"mode is 'CONSTANT', 'REFLECT' or 'SYMMETRIC', not {mode!r}")
    attrs = AttrTable()
    inputs: list[Any] = [convert_to_tensor(tensor)]
    if modes[mode.upper()]:
        attrs.int("mode", modes[mode.upper()])
    elif not (is_literal(constant_values) and constant_values == 0):
        dtype = as_dtype(inputs[0].dtype)
        inputs.append(
            convert_to_tensor(constant_values, dtype)
            if is_literal(constant_values)
            else constant_values
        )
    if holds_symbols(paddings):
        inputs.append(convert_to_tensor(paddings))
    else:
        attrs.ints("paddings", np.asarray(paddings).reshape(-1))
    return apply1("pad", inputs, attrs, same_dtype=False)


def reverse(tensor: TensorLike, axis: Any, name: str | None = None) -> Any:
    """Turn the order round along axes.

    Parameters
    ----------
    tensor : tensor_like
        The values.
    axis : int or sequence of int
        Which axes.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of the same shape.

    Examples
    --------
    >>> mr.reverse([1, 2, 3], [0])
    array([3, 2, 1], dtype=int32)
    """
    if hasattr(tensor, "_moved"):
        return tensor._moved("reverse", axis)
    return apply1("reverse", [tensor], AttrTable().ints("axes", np.atleast_1d(axis)))


def shape(input: TensorLike, out_type: DTypeLike = "int32", name: str | None = None) -> Any:
    """Return the shape as a tensor: it is known when the element is.

    Parameters
    ----------
    input : tensor_like
        Whose shape.
    out_type : dtype_like, default "int32"
        Or int64.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        A vector.

    Examples
    --------
    >>> mr.shape([[1, 2, 3]])
    array([1, 3], dtype=int32)
    """
    if hasattr(input, "bounding_shape"):
        raise TypeError(
            "a ragged tensor has no shape that is a tensor: use x.bounding_shape(), x.nrows() or "
            "x.row_lengths()"
        )
    return apply1("shape", [input], AttrTable().dtype("dtype", out_type))


def size(input: TensorLike, out_type: DTypeLike = "int32", name: str | None = None) -> Any:
    """Count the values of a tensor.

    Parameters
    ----------
    input : tensor_like
        Whose values.
    out_type : dtype_like, default "int32"
        Or int64.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy scalar
        The number.

    Examples
    --------
    >>> mr.size([[1, 2, 3]])
    3
    """
    if is_ragged(input):
        return size(input.flat_values, out_type)
    return apply1("size", [input], AttrTable().dtype("dtype", out_type))


def rank(input: TensorLike, name: str | None = None) -> Any:
    """Count the axes of a tensor.

    Parameters
    ----------
    input : tensor_like
        Whose axes.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy scalar
        The number, as int32.

    Examples
    --------
    >>> mr.rank([[1, 2, 3]])
    2
    """
    if is_ragged(input):
        return convert_to_tensor(input.shape.rank, "int32")
    return apply1("rank", [input])
