"""Values in other places: rolled, turned, spread over grids. `name` means nothing."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .._data.spec import ShapeLike, TensorShape
from .._data.structure import is_composite
from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol, TensorLike, current_graph
from .._graph.tensor import Tensor, apply1, compute, convert_to_tensor
from ..dtypes import DTypeLike
from .arrays import (
    broadcast_to,
    concat,
    expand_dims,
    gather,
    reshape,
    shape,
    stack,
    transpose,
    where,
)
from .constants import cast, known_count, range as _range, sized
from .docs import described
from .elementwise import identity, maximum


@described(
    "Of the shape of `input`.",
    shift="tensor_like of int: How far: one number, or one for each axis. May be negative.",
    axis="int or sequence of int: Along which axes; one may be there several times.",
)
def roll(input: TensorLike, shift: TensorLike, axis: Any, name: str | None = None) -> Any:
    """Move values along axes; what leaves at the end comes in at the beginning.

    >>> mr.roll([1, 2, 3, 4], 1, 0)
    array([4, 1, 2, 3], dtype=int32)
    """

    def body(x: Tensor, by: Tensor) -> Any:
        axes = np.atleast_1d(axis).tolist()
        distances = reshape(cast(by, "int64"), [-1])
        if distances.shape.as_list()[0] not in (None, len(axes)):
            raise ValueError(f"roll: {distances.shape.as_list()[0]} shifts for {len(axes)} axes")
        for i, along in enumerate(axes):
            x = _rolled(x, distances[i], along)
        return x

    return compute(body, [input, shift], same_dtype=False)


def _rolled(x: Any, by: Any, axis: int) -> Any:
    rank = x.shape.rank
    if rank is None or not -rank <= axis < rank:
        raise ValueError(f"roll: axis {axis} of a tensor of shape {x.shape}")
    length = shape(x, "int64")[axis]
    # An empty axis has nothing to be divided by.
    return gather(x, (_range(length) - by) % maximum(length, 1), axis=axis)


@described(
    "A list of tensors, one for each argument.",
    args="tensor_like: Vectors.",
    kwargs='object: `indexing`, "xy" (the default) or "ij"; `name`, accepted and ignored.',
)
def meshgrid(*args: TensorLike, **kwargs: Any) -> list[Any]:
    """Spread vectors over the grid that they are the axes of.

    With "xy" the first two axes of the grid change places.

    >>> mr.meshgrid([1, 2], [3, 4])
    [array([[1, 2],
           [1, 2]], dtype=int32), array([[3, 3],
           [4, 4]], dtype=int32)]
    """
    indexing = kwargs.pop("indexing", "xy")
    kwargs.pop("name", None)
    if kwargs:
        raise TypeError(f"meshgrid has no argument {sorted(kwargs)[0]!r}")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is 'xy' or 'ij', not {indexing!r}")
    if not args:
        return []

    def body(*vectors: Tensor) -> Any:
        n = len(vectors)
        order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
        flat = [reshape(v, [-1]) for v in vectors]
        whole = concat([shape(flat[i], "int64") for i in order], 0)
        dims = [flat[i].shape.as_list()[0] for i in order]
        target = whole if None in dims else dims
        lines = [[-1 if i == k else 1 for i in order] for k in range(n)]
        return [broadcast_to(reshape(v, line), target) for v, line in zip(flat, lines)]

    result: list[Any] = compute(body, args, same_dtype=False)
    return result


@described(
    "`num` numbers along a new axis.",
    start="tensor_like: The first number, or a tensor of them.",
    stop="tensor_like: The last number.",
    num="int, or tensor_like of int: How many: a scalar.",
    axis="int, default 0: Where the new axis is.",
)
def linspace(
    start: TensorLike, stop: TensorLike, num: Any, name: str | None = None, axis: int = 0
) -> Any:
    """Make numbers that lie evenly between two others, which belong to them.

    >>> mr.linspace(0.0, 1.0, 3)
    array([0. , 0.5, 1. ], dtype=float32)
    """

    def body(first: Tensor, last: Tensor) -> Any:
        if not first.dtype.is_floating:
            first, last = cast(first, "float64"), cast(last, "float64")
        zeros = apply1("zeros_like", [first + last])
        first, last = expand_dims(first + zeros, axis), expand_dims(last + zeros, axis)
        rank = first.shape.rank
        if rank is None:
            raise ValueError("linspace takes tensors of known rank")
        line = [1] * rank
        line[axis] = -1
        if isinstance(count, int) and count < 2:
            return gather(first, np.arange(count, dtype=np.int32), axis=axis)
        if isinstance(count, int):
            steps = reshape(cast(np.arange(count - 1), first.dtype), line)
            return concat([first + (last - first) / float(count - 1) * steps, last], axis)
        parts = maximum(cast(count, "int64") - 1, 1)
        steps = reshape(cast(_range(parts), first.dtype), line)
        whole = concat([first + (last - first) / cast(parts, first.dtype) * steps, last], axis)
        return gather(whole, _range(cast(count, "int64")), axis=axis)

    count = known_count("linspace: num", num)
    return compute(body, [start, stop])


@described(
    "Of the shape of `input`.",
    seq_lengths="tensor_like of int: A vector: how many first values of each part are turned round.",
    seq_axis="int: Along which axis they are.",
    batch_axis="int, optional: Which axis the parts are along (0).",
)
def reverse_sequence(
    input: TensorLike,
    seq_lengths: TensorLike,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
) -> Any:
    """Turn the first values of each part of a batch round, the others stay.

    >>> mr.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1)
    array([[2, 1, 3],
           [6, 5, 4]], dtype=int32)
    """

    def body(x: Tensor, lengths: Tensor) -> Any:
        rank = x.shape.rank
        if rank is None or rank < 2:
            raise ValueError(f"reverse_sequence takes two axes or more, not shape {x.shape}")
        along, parts = (seq_axis or 0) % rank, (batch_axis or 0) % rank
        if along == parts:
            raise ValueError("reverse_sequence: seq_axis and batch_axis are one axis")
        order = [parts, along, *(i for i in range(rank) if i not in (along, parts))]
        counts = expand_dims(cast(lengths, "int64"), 1)
        place = expand_dims(_range(shape(x, "int64")[along]), 0)
        turned = where(place < counts, counts - 1 - place, place + 0 * counts)
        moved = gather(transpose(x, order), turned, batch_dims=1)
        return sized(transpose(moved, np.argsort(order).tolist()), x.shape.as_list())

    return compute(body, [input, seq_lengths], same_dtype=False)


@described(
    "A list of vectors.",
    input="sequence of tensor_like: Tensors.",
    out_type='dtype_like, default "int32": Or int64.',
)
def shape_n(
    input: Sequence[TensorLike], out_type: DTypeLike = "int32", name: str | None = None
) -> list[Any]:
    """Return the shapes of several tensors.

    >>> mr.shape_n([[1, 2], [[3]]])
    [array([2], dtype=int32), array([1, 1], dtype=int32)]
    """
    return [shape(x, out_type) for x in input]


@described("A list of the tensors.", input="sequence of tensor_like: Tensors.")
def identity_n(input: Sequence[TensorLike], name: str | None = None) -> list[Any]:
    """Return tensors as they are.

    >>> mr.identity_n([[1], [2]])
    [array([1], dtype=int32), array([2], dtype=int32)]
    """
    return [identity(x) for x in input]


@described("`input` itself.")
def stop_gradient(input: TensorLike, name: str | None = None) -> Any:
    """Return a tensor as it is: there are no gradients here.

    >>> mr.stop_gradient([1, 2])
    array([1, 2], dtype=int32)
    """
    return identity(input)


@described("With one axis more.", values="sequence of tensor_like: Of one dtype and shape.")
def parallel_stack(values: Sequence[TensorLike], name: str = "parallel_stack") -> Any:
    """Join tensors along a new first axis.

    >>> mr.parallel_stack([[1], [2]])
    array([[1],
           [2]], dtype=int32)
    """
    return stack(values)


@described(
    "A vector.", shape_x="tensor_like of int: A shape.", shape_y="tensor_like of int: Another one."
)
def broadcast_dynamic_shape(shape_x: TensorLike, shape_y: TensorLike) -> Any:
    """Find the shape to which two shapes, which may be tensors, broadcast.

    >>> mr.broadcast_dynamic_shape([2, 1], [3])
    array([2, 3], dtype=int32)
    """

    def body(x: Any, y: Any) -> Any:
        of_x, of_y = x.shape.as_list()[0], y.shape.as_list()[0]
        if of_x is None or of_y is None:
            raise ValueError("broadcast_dynamic_shape takes shapes of known length")
        rank = max(of_x, of_y)
        x, y = (_ones_before(x, rank - of_x), _ones_before(y, rank - of_y))
        fits = apply1("reduce_all", [(x == y) | (x == 1) | (y == 1)])
        message = AttrTable().bytes("message", "the shapes do not broadcast")
        x = apply1("assert", [x, fits], message, same_dtype=False)
        return where(x == 1, y, x)

    return compute(body, [shape_x, shape_y])


def _ones_before(x: Any, n: int) -> Any:
    attrs = AttrTable().ints("paddings", [n, 0])
    return apply1("pad", [x, cast(1, x.dtype)], attrs, same_dtype=False)


def broadcast_static_shape(shape_x: ShapeLike, shape_y: ShapeLike) -> TensorShape:
    """Find the shape to which two shapes broadcast, as far as it is known.

    Parameters
    ----------
    shape_x, shape_y : TensorShape or what makes one
        The shapes.

    Returns
    -------
    TensorShape
        None stands for a size that is not known.

    Raises
    ------
    ValueError
        They do not broadcast.

    Examples
    --------
    >>> mr.broadcast_static_shape([2, 1], [3])
    TensorShape([2, 3])
    """
    x, y = TensorShape(shape_x), TensorShape(shape_y)
    if x.rank is None or y.rank is None:
        return TensorShape(None)
    rank = max(x.rank, y.rank)
    pairs = zip([1] * (rank - x.rank) + x.as_list(), [1] * (rank - y.rank) + y.as_list())
    dims: list[int | None] = []
    for a, b in pairs:
        if a == 1 or b == 1:
            dims.append(b if a == 1 else a)
        elif a is None or b is None:
            dims.append(b if a is None else a)
        elif a == b:
            dims.append(a)
        else:
            raise ValueError(f"shapes {x} and {y} do not broadcast")
    return TensorShape(dims)


_DATA_FORMAT = 'str, default "NHWC": Others are not built.'


def _blocks(x: Tensor, block_size: int, data_format: str, what: str) -> tuple[Any, Any, Any, int]:
    if data_format != "NHWC":
        raise ValueError(f"{what} takes the data format NHWC, not {data_format}")
    if block_size < 2:
        raise ValueError(f"{what}: a block size of 2 or more, not {block_size}")
    if x.shape.rank != 4:
        raise ValueError(f"{what} takes [batch, height, width, channels], not shape {x.shape}")
    _, height, width, channels = x.shape.as_list()
    if height is None or width is None or channels is None:
        raise ValueError(f"{what} takes images of known size, not shape {x.shape}")
    return height, width, channels, block_size


@described(
    "[batch, height / block_size, width / block_size, channels * block_size ** 2].",
    input="tensor_like: [batch, height, width, channels].",
    block_size="int: The side of a block.",
    data_format=_DATA_FORMAT,
)
def space_to_depth(
    input: TensorLike, block_size: int, data_format: str = "NHWC", name: str | None = None
) -> Any:
    """Let the pixels of each block become channels of one pixel.

    >>> mr.nn.space_to_depth([[[[1], [2]], [[3], [4]]]], 2)
    array([[[[1, 2, 3, 4]]]], dtype=int32)
    """

    def body(x: Tensor) -> Any:
        height, width, channels, n = _blocks(x, block_size, data_format, "space_to_depth")
        if height % n or width % n:
            raise ValueError(f"space_to_depth: {height} x {width} pixels are not blocks of {n}")
        cut = reshape(x, [-1, height // n, n, width // n, n, channels])
        depth = channels * n * n
        return reshape(transpose(cut, [0, 1, 3, 2, 4, 5]), [-1, height // n, width // n, depth])

    return compute(body, [input])


@described(
    "[batch, height * block_size, width * block_size, channels / block_size ** 2].",
    input="tensor_like: [batch, height, width, channels].",
    block_size="int: The side of a block.",
    data_format=_DATA_FORMAT,
)
def depth_to_space(
    input: TensorLike, block_size: int, data_format: str = "NHWC", name: str | None = None
) -> Any:
    """Let the channels of each pixel become a block of pixels.

    >>> mr.nn.depth_to_space([[[[1, 2, 3, 4]]]], 2)
    array([[[[1],
             [2]],
    <BLANKLINE>
            [[3],
             [4]]]], dtype=int32)
    """

    def body(x: Tensor) -> Any:
        height, width, channels, n = _blocks(x, block_size, data_format, "depth_to_space")
        if channels % (n * n):
            raise ValueError(f"depth_to_space: {channels} channels are no blocks of {n}")
        cut = reshape(x, [-1, height, width, n, n, channels // (n * n)])
        whole = [-1, height * n, width * n, channels // (n * n)]
        return reshape(transpose(cut, [0, 1, 3, 2, 4, 5]), whole)

    return compute(body, [input])


# ---- what a value is ----


def is_tensor(x: Any) -> bool:
    """Return whether a value is a tensor: symbolic, or outside of functions an array.

    Parameters
    ----------
    x : object
        Anything.

    Returns
    -------
    bool
        False for literals and lists.

    Examples
    --------
    >>> mr.is_tensor(mr.constant(1)), mr.is_tensor(1)
    (True, False)
    """
    return isinstance(x, (Symbol, np.ndarray, np.generic)) or is_composite(x)


def is_symbolic_tensor(tensor: Any) -> bool:
    """Return whether a value is a tensor of a function that is being traced.

    Parameters
    ----------
    tensor : object
        Anything.

    Returns
    -------
    bool
        False for arrays.

    Examples
    --------
    >>> mr.is_symbolic_tensor(mr.constant(1))
    False
    """
    return isinstance(tensor, Symbol)


def executing_eagerly() -> bool:
    """Return whether no function is being traced.

    Returns
    -------
    bool
        False inside of a function given to map, filter, ...

    Examples
    --------
    >>> mr.executing_eagerly()
    True
    """
    return current_graph() is None


def inside_function() -> bool:
    """Return whether a function is being traced.

    Returns
    -------
    bool
        True inside of a function given to map, filter, ...

    Examples
    --------
    >>> mr.inside_function()
    False
    """
    return current_graph() is not None


@described(
    "As with x[begin:end:strides].",
    input_="tensor_like: What is cut.",
    begin="sequence of int, or tensor_like of int: Where each entry begins.",
    end="sequence of int, or tensor_like of int: Where it ends.",
    strides="sequence of int, optional: Steps, 1 by default.",
    begin_mask="int, default 0: Bit i: entry i begins at the edge.",
    end_mask="int, default 0: Bit i: entry i goes to the edge.",
    ellipsis_mask="int, default 0: Bit i: entry i stands for all axes that are left.",
    new_axis_mask="int, default 0: Bit i: entry i is a new axis.",
    shrink_axis_mask="int, default 0: Bit i: entry i is an index.",
    var="optional: Accepted and ignored.",
)
def strided_slice(
    input_: TensorLike,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Any:
    """Cut a piece out of a tensor, entry by entry.

    >>> mr.strided_slice([1, 2, 3, 4, 5], [1], [4], [2])
    array([2, 4], dtype=int32)
    """

    def body(x: Tensor) -> Any:
        first, last = _entries(begin), _entries(end)
        steps = [1] * len(first) if strides is None else _entries(strides)
        if not len(first) == len(last) == len(steps):
            raise ValueError(f"{len(first)} begins, {len(last)} ends and {len(steps)} strides")
        key: list[Any] = []
        for i, (a, b, step) in enumerate(zip(first, last, steps)):
            bit = 1 << i
            if ellipsis_mask & bit:
                key.append(Ellipsis)
            elif new_axis_mask & bit:
                key.append(None)
            elif shrink_axis_mask & bit:
                key.append(a)
            else:
                key.append(
                    slice(None if begin_mask & bit else a, None if end_mask & bit else b, step)
                )
        return x[tuple(key)]

    return compute(body, [input_])


def _entries(values: Any) -> list[Any]:
    """The numbers of a vector, symbolic where it is."""
    if not isinstance(values, Symbol):
        return [v if isinstance(v, Symbol) else int(v) for v in values]
    length = values.shape.as_list()[0] if values.shape.rank == 1 else None
    if length is None:
        raise ValueError("strided_slice takes vectors of known length")
    tensor: Any = convert_to_tensor(values)
    return [tensor[i] for i in range(length)]
