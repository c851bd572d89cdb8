"""Tensors made of values, under TensorFlow's names and arguments. `name` means nothing."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .. import errors
from .._data.block import Array
from .._data.spec import TensorShape
from .._data.structure import is_ragged
from .._graph.attrs import AttrTable
from .._graph.literals import dtype_of, holds_complex, is_literal, to_array
from .._graph.symbol import Symbol, TensorLike, current_graph, holds_symbols
from .._graph.tensor import apply1, compute, compute_each, convert_to_tensor
from ..dtypes import DType, DTypeLike, as_dtype


def cast(x: TensorLike, dtype: DTypeLike, name: str | None = None) -> Any:
    """Convert to another dtype.

    As ``tf.cast``: floats lose their fraction, saturate out of range, and NaN gives 0; bools are
    "not 0"; complex numbers lose their imaginary part.

    Parameters
    ----------
    x : tensor_like
        Numbers or bools.
    dtype : dtype_like
        What the result has.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of the shape of `x`.

    Raises
    ------
    InvalidArgumentError
        There is no way from the one dtype to the other, such as from strings.

    Examples
    --------
    >>> mr.cast([1.7, -1.7, 300.0], mr.uint8)
    array([  1,   0, 255], dtype=uint8)
    """
    to = as_dtype(dtype)
    if isinstance(x, Symbol) and x.dtype is to:
        return x
    own = dtype_of(x)
    if to.is_complex or (own is not None and own.is_complex) or holds_complex(x):
        return compute(lambda tensor: _cast_complex(tensor, to), [x])
    return apply1("cast", [x], AttrTable().dtype("dtype", to))


def _cast_complex(x: Any, to: DType) -> Any:
    """From complex numbers their real part, to them an imaginary part of 0."""
    if x.dtype is to:
        return x
    if not x.dtype.is_complex:
        real = cast(x, to.real_dtype)
        return apply1("complex", [real, apply1("zeros_like", [real])])
    real = apply1("real", [x])
    if not to.is_complex:
        return cast(real, to)
    parts = [cast(real, to.real_dtype), cast(apply1("imag", [x]), to.real_dtype)]
    return apply1("complex", parts)


def constant(
    value: TensorLike, dtype: DTypeLike | None = None, shape: Any = None, name: str = "Const"
) -> Any:
    """Make a tensor of values.

    Parameters
    ----------
    value : tensor_like
        Python or NumPy values.
    dtype : dtype_like, optional
        By default that of `value`: Python integers are int32 (int64 where they do not fit), floats
        float32.
    shape : sequence of int, optional
        Repeats a scalar, or reshapes.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Outside of functions an array that is no other one's memory.

    Raises
    ------
    TypeError
        `value` holds symbolic tensors, or does not fit `dtype`.

    Examples
    --------
    >>> mr.constant([1, 2], mr.float32)
    array([1., 2.], dtype=float32)
    >>> mr.constant(7, shape=[2, 2])
    array([[7, 7],
           [7, 7]], dtype=int32)
    """
    array = convert_to_array(value, dtype)
    if shape is not None:
        array = np.broadcast_to(array, shape) if array.size == 1 else array.reshape(shape)
    return np.array(array) if current_graph() is None else convert_to_tensor(array)


def convert_to_array(value: Any, dtype: DTypeLike | None = None) -> Array:
    """@value as a NumPy array; it may not hold symbolic tensors."""
    if holds_symbols(value):
        raise TypeError("a constant is made of Python or NumPy values, not of symbolic tensors")
    like = None if dtype is None else as_dtype(dtype)
    array = to_array(value, like)
    return array if like is None else array.astype(like.numpy_dtype(), copy=False)


def zeros_like(input: TensorLike, dtype: DTypeLike | None = None, name: str | None = None) -> Any:
    """Make zeros (empty strings) in the shape of another tensor.

    Parameters
    ----------
    input : tensor_like
        Whose shape, and dtype by default.
    dtype : dtype_like, optional
        What the result has.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Zeros.

    Examples
    --------
    >>> mr.zeros_like([1.5, 2.5])
    array([0., 0.], dtype=float32)
    """

    def body(x: Symbol) -> Any:
        if x.dtype.name != "string":
            result = apply1("zeros_like", [x])
        elif dtype is None or as_dtype(dtype) is x.dtype:
            return apply1("substr", [x, 0, 0], AttrTable().bytes("unit", "BYTE"), same_dtype=False)
        else:
            result = apply1("not_equal", [x, x])
        return result if dtype is None else cast(result, dtype)

    return compute_each(body, [input])


def ones_like(input: TensorLike, dtype: DTypeLike | None = None, name: str | None = None) -> Any:
    """Make ones in the shape of another tensor.

    Parameters
    ----------
    input : tensor_like
        Whose shape, and dtype by default.
    dtype : dtype_like, optional
        What the result has.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Ones.

    Examples
    --------
    >>> mr.ones_like([1.5, 2.5])
    array([1., 1.], dtype=float32)
    """
    result = apply1("ones_like", [input])
    return result if dtype is None else cast(result, dtype)


def static_shape(shape: Any) -> list[int] | None:
    """The dims of a shape given as Python values, or None if a tensor is among them."""
    if isinstance(shape, Symbol) or holds_symbols(shape):
        return None
    if hasattr(shape, "as_list"):
        shape = shape.as_list()
    array = np.asarray(shape)
    if array.ndim > 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        unknown = (
            ": -1, or mr.shape(x)[0], is a size that is not known" if None in array.flat else ""
        )
        raise TypeError(f"shapes and sizes are vectors of integers, not {shape!r}{unknown}")
    dims: list[int] = array.astype(np.int64).reshape(-1).tolist()
    return dims


def known_sizes(shape: Any) -> list[int | None] | None:
    """What is known of a list of sizes with tensors among them; None: nothing."""
    numbers = (Symbol, int, np.integer)
    if not isinstance(shape, (list, tuple)) or not all(isinstance(n, numbers) for n in shape):
        return None
    known = [None if isinstance(n, Symbol) or n < 0 else int(n) for n in shape]
    return known if any(n is not None for n in known) else None


def sized(tensor: Any, dims: Sequence[int | None] | None) -> Any:
    """@tensor, whose shape is @dims, so that it is known when a function is traced."""
    if not isinstance(tensor, Symbol) or dims is None:
        return tensor
    return apply1("ensure_shape", [tensor], AttrTable().shape("shape", TensorShape(dims)))


def fill(dims: TensorLike, value: TensorLike, name: str | None = None) -> Any:
    """Make a tensor that holds one value everywhere.

    Parameters
    ----------
    dims : tensor_like of int
        The shape, which may be symbolic.
    value : tensor_like
        A scalar.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of the dtype of `value`.

    Examples
    --------
    >>> mr.fill([2, 2], 7)
    array([[7, 7],
           [7, 7]], dtype=int32)
    """
    known = static_shape(dims)
    if known is None:
        return sized(apply1("fill", [dims, value], same_dtype=False), known_sizes(dims))
    shape = np.array(known, np.int64)  # also that of a scalar, []
    return sized(apply1("fill", [shape, value], same_dtype=False), known)


def zeros(shape: Any, dtype: DTypeLike = "float32", name: str | None = None) -> Any:
    """Make zeros (of strings empty ones).

    Parameters
    ----------
    shape : sequence of int, or tensor_like of int
        The shape.
    dtype : dtype_like, default "float32"
        The element type.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Zeros.

    Examples
    --------
    >>> mr.zeros([2])
    array([0., 0.], dtype=float32)
    """
    return _filled(shape, dtype, 0)


def ones(shape: Any, dtype: DTypeLike = "float32", name: str | None = None) -> Any:
    """Make ones.

    Parameters
    ----------
    shape : sequence of int, or tensor_like of int
        The shape.
    dtype : dtype_like, default "float32"
        The element type.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Ones.

    Examples
    --------
    >>> mr.ones([2], mr.int64)
    array([1, 1])
    """
    if as_dtype(dtype).kind == "s":
        raise TypeError("ones: 1 is no string")
    return _filled(shape, dtype, 1)


def _filled(shape_: Any, dtype: DTypeLike, value: int) -> Any:
    dtype, dims = as_dtype(dtype), static_shape(shape_)
    scalar: Any = np.array(b"" if dtype.kind == "s" else value, dtype.numpy_dtype())
    if dims is None:
        return fill(shape_, scalar)
    return convert_to_tensor(np.full(dims, scalar, dtype.numpy_dtype()))


def range(
    start: TensorLike,
    limit: TensorLike | None = None,
    delta: TensorLike = 1,
    dtype: DTypeLike | None = None,
    name: str = "range",
) -> Any:
    """Make the vector start, start + delta, ... up to the limit, which does not belong to it.

    Parameters
    ----------
    start : tensor_like
        A scalar. The only argument is the limit, and the start is 0.
    limit : tensor_like, optional
        A scalar.
    delta : tensor_like, default 1
        A scalar that is not 0.
    dtype : dtype_like, optional
        By default that of the arguments.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        A vector.

    Raises
    ------
    InvalidArgumentError
        `delta` is 0, or leads away from the limit.

    Examples
    --------
    >>> mr.range(2, 8, 2)
    array([2, 4, 6], dtype=int32)
    """
    if limit is None:
        start, limit = 0, start
    values: list[Any] = [start, limit, delta]
    if dtype is not None:
        values = [
            cast(v, dtype) if not is_literal(v) else convert_to_tensor(v, dtype) for v in values
        ]
    elif all(is_literal(v) for v in values) and any(isinstance(v, float) for v in values):
        values = [float(v) for v in values]
    numbers = apply1("range_tensor", values)
    if not isinstance(numbers, Symbol) or holds_symbols(values):
        return numbers
    start, limit, delta = (to_array(v, numbers.dtype).astype(np.float64) for v in values)
    with np.errstate(all="ignore"):
        count = float(np.ceil((limit - start) / delta))
    # What is wrong with the others, and how long very long ones are, the operator says.
    return sized(numbers, [int(count)]) if 0 <= count < 2**50 else numbers


def known_count(what: str, number: Any) -> Any:
    """@number, a scalar from 0 on, as an int if it is known while tracing."""
    if isinstance(number, Symbol):
        if number.ndim != 0 or not number.dtype.is_integer:
            raise TypeError(
                f"{what} is one integer, not {number.dtype.name} of shape {number.shape}"
            )
        return number
    count = np.asarray(number)
    if count.ndim != 0 or count.dtype.kind not in "iu" or count < 0:
        raise ValueError(f"{what} is one integer that is not negative, not {number!r}")
    return int(count)


def _hot(indices: Any, depth: Any, axis: int, on: Any, off: Any) -> Any:
    """one_hot() whose @depth is a value."""
    if is_ragged(indices):
        return indices.with_flat_values(_hot(indices.flat_values, depth, axis, on, off))
    x = convert_to_tensor(indices)
    if x.ndim is None:
        raise ValueError("one_hot with a depth that is a tensor takes indices of known rank")
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise errors.InvalidArgumentError(f"axis {axis} is out of range for rank {x.ndim + 1}")
    line = [1] * (x.ndim + 1)
    line[axis] = -1
    numbers = range(np.int64(0), cast(depth, "int64"), np.int64(1))
    places = apply1("reshape", [numbers], AttrTable().shape("shape", line))
    spread = apply1("expand_dims", [cast(x, "int64")], AttrTable().int("axis", axis))
    return apply1("select", [apply1("equal", [spread, places]), on, off], same_dtype=False)


def one_hot(
    indices: TensorLike,
    depth: int | TensorLike,
    on_value: TensorLike | None = None,
    off_value: TensorLike | None = None,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Any:
    """Make vectors with one value at an index and another one elsewhere.

    Parameters
    ----------
    indices : tensor_like of int
        Where; what is out of range has `off_value` everywhere.
    depth : int, or tensor_like of int
        The size of the new axis: a scalar.
    on_value, off_value : tensor_like, optional
        Scalars: 1 and 0 by default.
    axis : int, optional
        Where the new axis is; at the end by default.
    dtype : dtype_like, optional
        By default that of the values, else float32.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        With one axis more than `indices`.

    Raises
    ------
    TypeError
        Of strings, without both values.

    Examples
    --------
    >>> mr.one_hot([1, 0], 3)
    array([[0., 1., 0.],
           [1., 0., 0.]], dtype=float32)
    """
    values = [v for v in (on_value, off_value) if v is not None]
    if dtype is None:
        dtype = next((d for d in map(dtype_of, values) if d is not None), None) or (
            as_dtype(to_array(values[0]).dtype) if values else "float32"
        )
    kind = as_dtype(dtype)
    if kind.kind == "s" and len(values) < 2:
        raise TypeError("one_hot of strings has no defaults: give on_value and off_value")
    defaults = (True, False) if kind.is_bool else (1, 0)
    on, off = (default if v is None else v for v, default in zip((on_value, off_value), defaults))
    if axis is not None and axis >= 0 and is_ragged(indices):
        if axis <= indices.ragged_rank:
            raise ValueError(f"one_hot: axis {axis} is among the ragged ones of the indices")
        axis -= indices.ragged_rank
    axis = -1 if axis is None else axis
    ends: list[Any] = [v if isinstance(v, Symbol) else to_array(v, kind) for v in (on, off)]
    depth = known_count("one_hot: depth", depth)
    if isinstance(depth, Symbol):
        return _hot(indices, depth, axis, *ends)
    attrs = AttrTable().int("depth", depth).int("axis", axis)
    return apply1("one_hot", [indices, *ends], attrs, same_dtype=False)
