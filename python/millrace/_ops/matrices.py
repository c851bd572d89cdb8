"""Products over named axes, diagonals, norms. `name` means nothing."""

from __future__ import annotations

import string
from typing import Any, Sequence

import numpy as np

from .. import errors
from .._graph.attrs import AttrTable
from .._graph.symbol import TensorLike, holds_symbols
from .._graph.tensor import Tensor, apply1, compute, convert_to_tensor
from ..dtypes import DTypeLike, as_dtype
from .arrays import broadcast_to, concat, expand_dims, gather, reshape, shape, transpose, where
from .complexes import conj
from .constants import cast, range as _range, static_shape
from .docs import described
from .reductions import reduce_max, reduce_sum
from .special import add_n, require_floats

# ---- einsum ----


def _terms(equation: str, count: int) -> tuple[list[str], str]:
    """The terms of the inputs, and that of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != count:
        raise ValueError(f"einsum: {equation!r} is an equation of {len(terms)} inputs, not {count}")
    if arrow:
        return terms, right
    letters = left.replace(",", "").replace(".", "")
    once = sorted(c for c in set(letters) if letters.count(c) == 1)
    return terms, ("..." if "..." in left else "") + "".join(once)


def _joined(first: str, second: str, rest: Sequence[str]) -> str:
    """Of the product of two inputs, the letters that are still wanted."""
    wanted = set("".join(rest))
    letters = [c for c in dict.fromkeys(first + second) if c in wanted and c != "."]
    return ("..." if "..." in first + second else "") + "".join(letters)


@described(
    "The axes of the term behind the arrow.",
    equation='str: Letters for the axes of each input, and of the result: "ij,jk->ik".',
    inputs="tensor_like: Floats, int32 or int64, of one dtype.",
    kwargs="object: `name` and `optimize`, accepted and ignored.",
)
def einsum(equation: str, *inputs: TensorLike, **kwargs: Any) -> Any:
    """Compute sums of products over axes that have names.

    Axes with one letter are one; letters that the result has not are summed over. "..." stands for
    axes without a letter, which broadcast. Several inputs are multiplied from left to right.

    >>> mr.einsum("ij,j->i", [[1, 2], [3, 4]], [10, 100])
    array([210, 430], dtype=int32)
    """
    unknown = set(kwargs) - {"name", "optimize"}
    if unknown:
        raise TypeError(f"einsum has no argument {sorted(unknown)[0]!r}")

    def body(*tensors: Tensor) -> Any:
        terms, result = _terms(equation, len(tensors))
        values = list(tensors)
        while len(values) > 2:
            joined = _joined(terms[0], terms[1], [*terms[2:], result])
            values[:2] = [_einsum(f"{terms[0]},{terms[1]}->{joined}", values[:2])]
            terms[:2] = [joined]
        return _einsum(",".join(terms) + "->" + result, values)

    if not inputs:
        raise ValueError("einsum takes one tensor or more")
    return compute(body, inputs)


def _einsum(equation: str, tensors: Sequence[Any]) -> Any:
    return apply1("einsum", tensors, AttrTable().bytes("equation", equation))


@described(
    "The axes of `a` that are left, then those of `b`.",
    a="tensor_like: Floats, int32 or int64.",
    b="tensor_like: Of the same dtype.",
    axes="int, or two sequences of int: How many last axes of `a` are first ones of `b`; or which.",
)
def tensordot(a: TensorLike, b: TensorLike, axes: Any, name: str | None = None) -> Any:
    """Compute sums of products over pairs of axes.

    >>> mr.tensordot([[1, 2], [3, 4]], [10, 100], 1)
    array([210, 430], dtype=int32)
    """

    def body(left: Tensor, right: Tensor) -> Any:
        first, second = left.shape.rank, right.shape.rank
        if first is None or second is None:
            raise ValueError("tensordot takes tensors of known rank")
        of_a, of_b = _pairs(axes, first, second)
        letters = list(string.ascii_letters[: first + second])
        names_a, names_b = letters[:first], letters[first:]
        for i, j in zip(of_a, of_b):
            names_b[j] = names_a[i]
        result = [n for i, n in enumerate(names_a) if i not in of_a]
        result += [n for j, n in enumerate(names_b) if j not in of_b]
        return _einsum(f"{''.join(names_a)},{''.join(names_b)}->{''.join(result)}", [left, right])

    return compute(body, [a, b])


def _pairs(axes: Any, first: int, second: int) -> tuple[list[int], list[int]]:
    if holds_symbols(axes):
        raise TypeError("tensordot: the axes are constants")
    given = axes if isinstance(axes, (list, tuple)) else np.asarray(axes).tolist()
    if isinstance(given, int):
        if not 0 <= given <= min(first, second):
            raise ValueError(f"tensordot: {given} axes of tensors of ranks {first} and {second}")
        return list(range(first - given, first)), list(range(given))
    of_a, of_b = (np.atleast_1d(part).tolist() for part in given)
    if len(of_a) != len(of_b):
        raise ValueError(f"tensordot: {len(of_a)} axes of a, and {len(of_b)} of b")
    pairs = [i % first for i in of_a if -first <= i < first], [
        j % second for j in of_b if -second <= j < second
    ]
    if len(pairs[0]) != len(of_a) or len(pairs[1]) != len(of_b):
        raise ValueError(f"tensordot: axes {axes} of tensors of ranks {first} and {second}")
    return pairs


@described(
    "Without the last axis of `a`.",
    a="tensor_like: Matrices.",
    b="tensor_like: Vectors, of the same dtype.",
    transpose_a="bool, default False: Whether the last two axes of `a` change places first.",
    adjoint_a="bool, default False: The same: complex numbers are not multiplied.",
    a_is_sparse="bool, default False: Accepted and ignored.",
    b_is_sparse="bool, default False: Accepted and ignored.",
)
def matvec(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Multiply matrices by vectors.

    >>> mr.linalg.matvec([[1, 2], [3, 4]], [10, 100])
    array([210, 430], dtype=int32)
    """
    if transpose_a and adjoint_a:
        raise ValueError("matvec: only one of transpose_a and adjoint_a")
    term = "ji" if transpose_a or adjoint_a else "ij"
    return einsum(f"...{term},...j->...i", a, b)


@described(
    "With the last two axes in the other order.",
    a="tensor_like: Matrices.",
    conjugate="bool, default False: Whether imaginary parts change their sign, too.",
)
def matrix_transpose(a: TensorLike, name: str = "matrix_transpose", conjugate: bool = False) -> Any:
    """Let the last two axes change places.

    >>> mr.linalg.matrix_transpose([[1, 2, 3]])
    array([[1],
           [2],
           [3]], dtype=int32)
    """
    return compute(lambda x: conj(_turned(x)) if conjugate else _turned(x), [a])


def _turned(x: Tensor) -> Any:
    rank = _rank_of(x, 2, "a matrix")
    return transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def _rank_of(x: Tensor, least: int, what: str) -> int:
    rank = x.shape.rank
    if rank is None or rank < least:
        raise ValueError(f"{what} has {least} axes or more, not shape {x.shape}")
    return rank


@described("With the last two axes in the other order.", matrix="tensor_like: Matrices.")
def adjoint(matrix: TensorLike, name: str | None = None) -> Any:
    """Let the last two axes change places, and imaginary parts change their sign.

    >>> mr.linalg.adjoint([[1, 2]])
    array([[1],
           [2]], dtype=int32)
    """
    return matrix_transpose(matrix, conjugate=True)


@described(
    "Of the shape of both.",
    a="tensor_like: Vectors of three numbers in the last axis.",
    b="tensor_like: Of the same dtype and shape.",
)
def cross(a: TensorLike, b: TensorLike, name: str | None = None) -> Any:
    """Compute the cross product of vectors in space.

    >>> mr.linalg.cross([1, 0, 0], [0, 1, 0])
    array([0, 0, 1], dtype=int32)
    """

    def body(x: Tensor, y: Tensor) -> Any:
        if x.shape.rank is None or x.shape.as_list()[-1:] != [3]:
            raise ValueError(f"cross takes vectors of three numbers, not shape {x.shape}")
        one, two = [1, 2, 0], [2, 0, 1]
        return gather(x, one, axis=-1) * gather(y, two, axis=-1) - gather(x, two, axis=-1) * gather(
            y, one, axis=-1
        )

    return compute(body, [a, b])


# ---- diagonals ----


@described(
    "[..., rows, columns].",
    num_rows="int, or scalar tensor: How many rows.",
    num_columns="int, or scalar tensor, optional: How many columns; as many as rows by default.",
    batch_shape="sequence of int, optional: Axes before the last two.",
    dtype='dtype_like, default "float32": Of the result.',
)
def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> Any:
    """Make matrices of ones on the diagonal and zeros elsewhere.

    >>> mr.eye(2)
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    columns = num_rows if num_columns is None else num_columns
    kind = as_dtype(dtype)
    if not holds_symbols([num_rows, columns]):
        one: Any = convert_to_tensor(np.eye(int(num_rows), int(columns), dtype=kind.numpy_dtype()))
    else:
        line = reshape(_range(cast(num_rows, "int64")), [-1, 1])
        one = cast(line == _range(cast(columns, "int64")), kind)
    if batch_shape is None:
        return one
    batch = static_shape(batch_shape)
    if batch is not None and not holds_symbols([num_rows, columns]):
        return broadcast_to(one, [*batch, int(num_rows), int(columns)])
    front = cast(convert_to_tensor(batch_shape), "int64")
    return broadcast_to(one, concat([front, shape(one, "int64")], 0))


def _places(x: Tensor) -> Any:
    """Column minus row of each place of a matrix."""
    sizes = shape(x, "int64")
    return expand_dims(_range(sizes[-1]), 0) - expand_dims(_range(sizes[-2]), 1)


@described(
    "Of the shape of `input`.",
    input="tensor_like: Matrices.",
    num_lower="int, or scalar tensor: How many diagonals below the middle stay; negative: all.",
    num_upper="int, or scalar tensor: How many above it stay; negative: all.",
)
def band_part(input: TensorLike, num_lower: Any, num_upper: Any, name: str | None = None) -> Any:
    """Keep a band round the diagonal of matrices; elsewhere zeros.

    >>> mr.linalg.band_part([[1, 2], [3, 4]], -1, 0)
    array([[1, 0],
           [3, 4]], dtype=int32)
    """

    def body(x: Tensor) -> Any:
        _rank_of(x, 2, "a matrix")
        lower, upper = cast(num_lower, "int64"), cast(num_upper, "int64")
        place = _places(x)
        inside = ((lower < 0) | (-place <= lower)) & ((upper < 0) | (place <= upper))
        return where(inside, x, apply1("zeros_like", [x]))

    return compute(body, [input])


def _one_diagonal(k: Any, align: str) -> int:
    if not isinstance(k, int) or isinstance(k, bool):
        raise errors.UnimplementedError(
            "several diagonals, or one that a tensor says, are not built: use mr.linalg.band_part"
        )
    if align not in ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"):
        raise ValueError(f"align {align!r} is no way to align")
    return k


_DIAGONAL = {
    "k": "int, default 0: Which diagonal: above the middle one if it is positive, else below. Only "
    "one is built.",
    "align": 'str, default "RIGHT_LEFT": Means nothing of one diagonal.',
    "padding_value": "scalar, default 0: What stands elsewhere.",
}


@described(
    "With one axis more.",
    diagonal="tensor_like: Values along the last axis.",
    num_rows="int, default -1: How many rows; by default as many as are needed, and as columns if both "
    "are left out.",
    num_cols="int, default -1: How many columns; by default as many as are needed.",
    **_DIAGONAL,
)
def diag(
    diagonal: TensorLike,
    name: str = "diag",
    k: Any = 0,
    num_rows: int = -1,
    num_cols: int = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    """Make matrices that have a diagonal.

    >>> mr.linalg.diag([1, 2])
    array([[1, 0],
           [0, 2]], dtype=int32)
    """
    offset = _one_diagonal(k, align)

    def body(values: Tensor) -> Any:
        length = values.shape.as_list()[-1] if _rank_of(values, 1, "a diagonal") else None
        if length is None:
            raise ValueError("diag takes a diagonal of known length")
        down, across = max(-offset, 0), max(offset, 0)
        square = num_rows < 0 and num_cols < 0
        rows = num_rows if num_rows >= 0 else length + (abs(offset) if square else down)
        columns = num_cols if num_cols >= 0 else length + (abs(offset) if square else across)
        if min(rows - down, columns - across) != length:
            raise ValueError(
                f"diag: {length} values do not fill diagonal {offset} of {rows} rows and {columns} "
                "columns"
            )
        line = np.clip(np.arange(rows) - down, 0, max(length - 1, 0))
        on = np.equal.outer(np.arange(rows), np.arange(columns) - offset)
        if length == 0:
            fill = cast(convert_to_tensor(padding_value), values.dtype)
            return broadcast_to(fill, [*values.shape.as_list()[:-1], rows, columns])
        spread = expand_dims(gather(values, line.astype(np.int32), axis=-1), -1)
        empty = cast(padding_value, values.dtype) if values.dtype.kind != "s" else b""
        return where(on, spread, empty)

    return compute(body, [diagonal])


@described("Without the last axis.", input="tensor_like: Matrices of known size.", **_DIAGONAL)
def diag_part(
    input: TensorLike,
    name: str = "diag_part",
    k: Any = 0,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    """Take a diagonal out of matrices.

    >>> mr.linalg.diag_part([[1, 2], [3, 4]])
    array([1, 4], dtype=int32)
    """
    offset = _one_diagonal(k, align)
    return compute(lambda x: _diagonal(x, offset), [input])


def _diagonal(x: Tensor, offset: int) -> Any:
    rank = _rank_of(x, 2, "a matrix")
    rows, columns = x.shape.as_list()[-2:]
    if rows is None or columns is None:
        raise ValueError(f"the diagonal of matrices of known size, not of shape {x.shape}")
    first = max(-offset, 0), max(offset, 0)
    length = min(rows - first[0], columns - first[1])
    if length <= 0 and rows * columns > 0:
        raise ValueError(f"no diagonal {offset} in {rows} rows and {columns} columns")
    front = [shape(x, "int64")[: rank - 2], cast([rows * columns], "int64")]
    flat = reshape(x, concat(front, 0))
    begin = first[0] * columns + first[1]
    places = (begin + np.arange(max(length, 0)) * (columns + 1)).astype(np.int32)
    return gather(flat, places, axis=-1)


@described(
    "Of the shape of `input`.",
    input="tensor_like: Matrices.",
    diagonal="tensor_like: Values along the last axis, for the middle diagonal.",
    k="int, default 0: Others are not built.",
    align=_DIAGONAL["align"],
)
def set_diag(
    input: TensorLike,
    diagonal: TensorLike,
    name: str = "set_diag",
    k: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Any:
    """Put other values on the diagonal of matrices.

    >>> mr.linalg.set_diag([[1, 2], [3, 4]], [8, 9])
    array([[8, 2],
           [3, 9]], dtype=int32)
    """
    if _one_diagonal(k, align) != 0:
        raise errors.UnimplementedError("set_diag of another diagonal than the middle one")

    def body(x: Tensor, values: Tensor) -> Any:
        _rank_of(x, 2, "a matrix")
        place = _places(x)
        column = cast(apply1("zeros_like", [place]), "int64") + _range(shape(x, "int64")[-1])
        last = shape(values, "int64")[-1] - 1
        spread = gather(values, apply1("minimum", [column[0], last]), axis=-1)
        return where(place == 0, expand_dims(spread, -2), x)

    return compute(body, [input, diagonal])


@described("Without the last two axes.", x="tensor_like: Matrices of known size.")
def trace(x: TensorLike, name: str | None = None) -> Any:
    """Add up the diagonal of matrices.

    >>> mr.linalg.trace([[1, 2], [3, 4]])
    5
    """
    return compute(lambda matrix: reduce_sum(_diagonal(matrix, 0), -1), [x])


def _known(x: Tensor, what: str) -> list[int]:
    dims: list[int | None] = [None] if x.shape.rank is None else x.shape.as_list()
    known = [dim for dim in dims if dim is not None]
    if len(known) < len(dims):
        raise ValueError(f"{what} takes a tensor of known shape, not {x.shape}")
    return known


@described("With each axis twice.", diagonal="tensor_like: Values, of a known shape.")
def tensor_diag(diagonal: TensorLike, name: str | None = None) -> Any:
    """Make a tensor whose diagonal has the values of another one.

    >>> mr.linalg.tensor_diag([1, 2])
    array([[1, 0],
           [0, 2]], dtype=int32)
    """

    def body(x: Tensor) -> Any:
        dims = _known(x, "tensor_diag")
        return reshape(diag(reshape(x, [-1])), dims + dims)

    return compute(body, [diagonal])


@described("The first half of the axes.", input="tensor_like: Values, of a known shape.")
def tensor_diag_part(input: TensorLike, name: str | None = None) -> Any:
    """Take the diagonal out of a tensor that has each axis twice.

    >>> mr.linalg.tensor_diag_part([[1, 2], [3, 4]])
    array([1, 4], dtype=int32)
    """

    def body(x: Tensor) -> Any:
        dims = _known(x, "tensor_diag_part")
        half = dims[: len(dims) // 2]
        if not half or half + half != dims:
            raise ValueError(f"tensor_diag_part: shape {x.shape} has not each axis twice")
        count = int(np.prod(half))
        return reshape(_diagonal(reshape(x, [count, count]), 0), half)

    return compute(body, [input])


# ---- norms ----


def _matrix_norm(x: Any, ord: Any, axes: list[int]) -> Any:
    if ord in ("euclidean", "fro"):
        return apply1("sqrt", [reduce_sum(x * x, axes, keepdims=True)])
    if ord == 2:
        raise errors.UnimplementedError("the norm 2 of a matrix is not built: use 'fro', 1 or inf")
    if ord not in (1, np.inf):
        raise ValueError(f"'ord' {ord!r} is no norm of a matrix")
    summed, kept = (axes[0], axes[1]) if ord == 1 else (axes[1], axes[0])
    return reduce_max(reduce_sum(abs(x), summed, keepdims=True), kept, keepdims=True)


def _vector_norm(x: Any, ord: Any, axis: Any) -> Any:
    if ord in ("euclidean", 2):
        return apply1("sqrt", [reduce_sum(x * x, axis, keepdims=True)])
    if isinstance(ord, str) or ord <= 0:
        raise ValueError(f"'ord' {ord!r} is no norm of a vector")
    if ord == 1:
        return reduce_sum(abs(x), axis, keepdims=True)
    if ord == np.inf:
        return reduce_max(abs(x), axis, keepdims=True)
    return reduce_sum(abs(x) ** float(ord), axis, keepdims=True) ** (1.0 / ord)


def _norm(x: Tensor, ord: Any, axis: Any, keepdims: bool) -> Any:
    require_floats("norm", x.dtype)
    axes = list(axis) if isinstance(axis, (list, tuple)) else None if axis is None else [axis]
    if isinstance(axis, (list, tuple)) and len(axis) != 2:
        raise ValueError(f"norm: an axis is a number, or two of a matrix, not {axis}")
    if axes is not None and len(axes) == 2:
        result = _matrix_norm(x, ord, axes)
    elif axes is None and ord == "fro":
        raise ValueError("'ord' 'fro' is no norm of a vector: give the two axes of the matrix")
    else:
        result = _vector_norm(x, ord, axes)
    if keepdims:
        return result
    if axes is None:
        return reshape(result, [])
    return apply1("squeeze", [result], AttrTable().ints("axes", axes))


_NORM = {
    "tensor": "tensor_like of float: Numbers.",
    "ord": "{'euclidean', 'fro', 1, 2, numpy.inf} or a positive number, default \"euclidean\": "
    "Which norm.",
    "axis": "int or pair of int, optional: Of a vector one axis, of a matrix two; by default all "
    "values are one vector.",
}


@described("What is left.", **_NORM)
def norm(
    tensor: TensorLike,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Any:
    """Compute the norm of vectors or matrices.

    >>> mr.norm([3.0, 4.0])
    5.0
    """
    return compute(lambda x: _norm(x, ord, axis, bool(keepdims)), [tensor])


@described("The values, and their norm: a pair.", **_NORM)
def normalize(
    tensor: TensorLike, ord: Any = "euclidean", axis: Any = None, name: str | None = None
) -> Any:
    """Divide vectors or matrices by their norm.

    >>> mr.linalg.normalize([3.0, 4.0])
    (array([0.6, 0.8], dtype=float32), array([5.], dtype=float32))
    """

    def body(x: Tensor) -> Any:
        length = _norm(x, ord, axis, True)
        return [x / length, length]

    return tuple(compute(body, [tensor]))


@described(
    "Of the shape of `x`.",
    x="tensor_like of float: Numbers.",
    axis="int or sequence of int, optional: Along which axes; by default all values are one vector.",
    epsilon="float, default 1e-12: The square of a norm counts as this at least.",
    dim="optional: An old name of `axis`.",
)
def l2_normalize(
    x: TensorLike,
    axis: Any = None,
    epsilon: float = 1e-12,
    name: str | None = None,
    dim: Any = None,
) -> Any:
    """Divide vectors by their Euclidean norm.

    >>> mr.nn.l2_normalize([3.0, 4.0])
    array([0.6, 0.8], dtype=float32)
    """
    along = dim if axis is None else axis

    def body(values: Tensor) -> Any:
        squares = reduce_sum(values * values, along, keepdims=True)
        return values * apply1("rsqrt", [apply1("maximum", [squares, float(epsilon)])])

    return compute(body, [x])


@described(
    "Of the shape of `t`.",
    t="tensor_like of float: Numbers.",
    clip_norm="float, or scalar tensor: The largest norm.",
    axes="sequence of int, optional: Along which axes; by default all values are one vector.",
)
def clip_by_norm(t: TensorLike, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Scale down what has a Euclidean norm above a limit.

    >>> mr.clip_by_norm([3.0, 4.0], 1.0)
    array([0.6, 0.8], dtype=float32)
    """

    def body(x: Tensor) -> Any:
        squares = reduce_sum(x * x, axes, keepdims=True)
        return x * clip_norm / apply1("maximum", [apply1("sqrt", [squares]), clip_norm])

    return compute(body, [t])


@described("A scalar.", t_list="sequence of tensor_like: Floats; None is left out.")
def global_norm(t_list: Sequence[Any], name: str | None = None) -> Any:
    """Compute the Euclidean norm of all values of several tensors.

    >>> mr.linalg.global_norm([[3.0], [4.0]])
    5.0
    """
    given = [t for t in t_list if t is not None]
    return compute(lambda *tensors: _global_norm(tensors), given)


def _global_norm(tensors: Sequence[Tensor]) -> Any:
    for tensor in tensors:
        require_floats("global_norm", tensor.dtype)
    return apply1("sqrt", [add_n([reduce_sum(t * t) for t in tensors])])


@described(
    "The list of tensors, scaled, and the norm: a pair.",
    t_list="sequence of tensor_like: Floats; None stays.",
    clip_norm="float, or scalar tensor: The largest norm.",
    use_norm="tensor_like, optional: The norm, where it is known.",
)
def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Any]:
    """Scale down several tensors if all their values together have a norm above a limit.

    >>> mr.clip_by_global_norm([[3.0], [4.0]], 1.0)
    ([array([0.6], dtype=float32), array([0.8], dtype=float32)], 5.0)
    """
    given = [t for t in t_list if t is not None]

    def body(*tensors: Tensor) -> Any:
        length = _global_norm(tensors) if use_norm is None else convert_to_tensor(use_norm)
        inverse = apply1("minimum", [1.0 / length, 1.0 / cast(clip_norm, length.dtype)])
        # Of a norm that is not finite nothing is left but NaN.
        scale = inverse * clip_norm + (length - length)
        return [*[t * cast(scale, t.dtype) for t in tensors], length]

    *scaled, length = compute(body, given)
    left = iter(scaled)
    return [None if t is None else next(left) for t in t_list], length
