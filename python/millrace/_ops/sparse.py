"""Sparse tensors: the places of values in a tensor that is mostly something else."""

from __future__ import annotations

from typing import Any, Callable, NoReturn, Sequence

import numpy as np

from .._base.hints import no_part
from .._data import structure as _structure
from .._data.composite import sparse_spec
from .._data.spec import TensorShape, TensorSpec
from .._graph.symbol import Symbol, TensorLike
from .._graph.tensor import Tensor, apply1, compute, convert_to_tensor
from ..dtypes import DType, as_dtype
from .arrays import gather, shape as _shape, where
from .constants import fill, zeros
from .elementwise import assert_, not_equal
from .ordering import argsort
from .reductions import reduce_all, reduce_prod
from .scattering import gather_nd, tensor_scatter_nd_update
from .selection import boolean_mask


# Operators of one tensor that leave places without a value what they are.
_OF_VALUES = frozenset(["abs", "cast", "identity", "neg", "sign", "sqrt", "square", "tanh"])

# What arrays, and tensors of other packages, have.
_INSTEAD = {
    "T": "mr.sparse.transpose(x)",
    "astype": "mr.cast(x, dtype)",
    "coalesce": "mr.sparse.reorder(x)",
    "max": "mr.sparse.reduce_max(x, axis)",
    "mean": "mr.sparse.reduce_sum(x, axis) / n",
    "ndim": "x.shape.rank",
    "nnz": "mr.size(x.values)",
    "rank": "x.shape.rank",
    "reshape": "mr.sparse.reshape(x, shape)",
    "size": "mr.size(x)",
    "sum": "mr.sparse.reduce_sum(x, axis)",
    "transpose": "mr.sparse.transpose(x, perm)",
    **dict.fromkeys(["numpy", "tolist", "to_dense", "toarray", "todense"], "mr.sparse.to_dense(x)"),
}


class SparseTensor:
    """A tensor as the places and values of what is not the default, as ``tf.SparseTensor``.

    Outside of functions its components are NumPy arrays.

    Parameters
    ----------
    indices : tensor_like of int64
        [values, rank]: where each value is, in order, none twice.
    values : tensor_like
        [values].
    dense_shape : tensor_like of int64
        [rank].

    Examples
    --------
    >>> x = mr.SparseTensor(indices=[[0, 1], [1, 0]], values=[5, 6], dense_shape=[2, 3])
    >>> mr.sparse.to_dense(x)
    array([[0, 5, 0],
           [6, 0, 0]], dtype=int32)
    """

    __slots__ = ("indices", "values", "dense_shape")
    _composite_name = "SparseTensor"

    def __init__(self, indices: TensorLike, values: TensorLike, dense_shape: TensorLike) -> None:
        self.indices = convert_to_tensor(indices, _int64(indices))
        self.values = convert_to_tensor(values)
        self.dense_shape = convert_to_tensor(dense_shape, _int64(dense_shape))
        if self.indices.ndim != 2 or self.values.ndim != 1 or self.dense_shape.ndim != 1:
            raise ValueError(
                "a sparse tensor has indices [values, rank], values [values] and a dense shape "
                f"[rank]; these have the shapes {self.indices.shape}, {self.values.shape} and "
                f"{self.dense_shape.shape}"
            )

    def _components(self) -> tuple[list[str], list[Any]]:
        names = ["indices", "values", "dense_shape"]
        return names, [self.indices, self.values, self.dense_shape]

    @property
    def dtype(self) -> DType:
        """The element type."""
        return as_dtype(self.values.dtype)

    @property
    def shape(self) -> TensorShape:
        """What is known of the dense shape."""
        if isinstance(self.dense_shape, Symbol):
            rank = self.dense_shape.shape[0] or self.indices.shape[1]
            return TensorShape(None if rank is None else [None] * rank)
        return TensorShape(self.dense_shape.tolist())

    def with_values(self, new_values: TensorLike) -> SparseTensor:
        """Return other values at the same places.

        Parameters
        ----------
        new_values : tensor_like
            As many.

        Returns
        -------
        SparseTensor
            With the same places and shape.

        Examples
        --------
        >>> x = mr.sparse.from_dense([0, 5])
        >>> x.with_values(x.values * 2).values
        array([10], dtype=int32)
        """
        return SparseTensor(self.indices, new_values, self.dense_shape)

    def get_shape(self) -> TensorShape:
        """Return what is known of the dense shape.

        Returns
        -------
        TensorShape
            As `shape`.

        Examples
        --------
        >>> mr.sparse.from_dense([[0, 5]]).get_shape()
        TensorShape([1, 2])
        """
        return self.shape

    def __mul__(self, other: TensorLike) -> SparseTensor:
        return _scaled("mul", self, other)

    def __truediv__(self, other: TensorLike) -> SparseTensor:
        return _scaled("div", self, other)

    def _apply(self, op: str, inputs: Any, attrs: Any, same_dtype: bool) -> Any:
        if op in _OF_VALUES:
            return [self.with_values(apply1(op, [self.values], attrs))]
        if op == "shape":
            return [apply1("cast", [self.dense_shape], attrs)]
        if op == "size":
            return [apply1("cast", [reduce_prod(self.dense_shape)], attrs)]
        raise TypeError(f"{op} does not take a sparse tensor: use mr.sparse.to_dense, or x.values")

    def _reduce(self, op: str, axis: Any, keepdims: bool) -> Any:
        self._apply(op, [], None, False)

    def _concat(self, values: Any, axis: int) -> Any:
        self._apply("concat", [], None, False)

    def _gather(self, indices: Any, axis: Any) -> Any:
        self._apply("gather", [], None, False)

    def __getattr__(self, name: str) -> NoReturn:
        otherwise = "a function of mr.sparse, mr.sparse.to_dense(x) or x.values"
        raise AttributeError(no_part("a sparse tensor", name, _INSTEAD, otherwise), name=name)

    def __repr__(self) -> str:
        return (
            f"SparseTensor(indices={self.indices!r}, values={self.values!r}, "
            f"dense_shape={self.dense_shape!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseTensor, (self.indices, self.values, self.dense_shape)


def _int64(value: Any) -> Any:
    return None if isinstance(value, (Symbol, np.ndarray)) else "int64"


def _build(indices: Any, values: Any, dense_shape: Any) -> Any:
    if isinstance(dense_shape, TensorSpec):
        return sparse_spec(indices, values, dense_shape)
    made = SparseTensor.__new__(SparseTensor)
    made.indices, made.values, made.dense_shape = indices, values, dense_shape
    return made


_structure.register("SparseTensor", _build)


def _scaled(op: str, x: SparseTensor, other: TensorLike) -> SparseTensor:
    """@x with @op of each value and that of @other, which broadcasts to the dense shape."""
    if isinstance(other, SparseTensor):
        raise TypeError(f"{op} of two sparse tensors: use mr.sparse.map_values, or mr.sparse.add")
    dense = convert_to_tensor(other, x.dtype)
    rank, own = dense.ndim, rank_of(x)
    if rank is None or rank > own:
        raise ValueError(f"{op}: a tensor of shape {dense.shape} does not broadcast to rank {own}")
    if rank == 0:
        return x.with_values(apply1(op, [x.values, dense]))

    def body(y: SparseTensor, z: Tensor) -> SparseTensor:
        sizes, whole = _shape(z, "int64"), y.dense_shape[own - rank :]
        fits = reduce_all((sizes == whole) | (sizes == 1))
        places = assert_(y.indices, fits, f"{op}: the tensor does not broadcast to the sparse one")
        there = gather_nd(z, where(sizes == 1, np.int64(0), places[:, own - rank :]))
        return y.with_values(apply1(op, [y.values, there]))

    scaled: SparseTensor = compute_sparse(body, [x, dense])
    return scaled


def _given(sp_input: Any, what: str) -> SparseTensor:
    if not isinstance(sp_input, SparseTensor):
        raise TypeError(f"{what} takes a SparseTensor, not {type(sp_input).__name__}")
    return sp_input


def to_dense(
    sp_input: SparseTensor,
    default_value: TensorLike | None = None,
    validate_indices: bool = True,
    name: str | None = None,
) -> Any:
    """Make an ordinary tensor of a sparse one.

    Parameters
    ----------
    sp_input : SparseTensor
        Its indices are in order, none twice; see `validate_indices`.
    default_value : scalar, optional
        What stands elsewhere; by default 0, or an empty string.
    validate_indices : bool, default True
        Whether indices out of order or repeated are an error; if not, the last one of equals stays.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Of the dense shape.

    Raises
    ------
    InvalidArgumentError
        An index is out of range, or out of order.

    Examples
    --------
    >>> mr.sparse.to_dense(mr.SparseTensor([[1]], [7], [3]), default_value=-1)
    array([-1,  7, -1], dtype=int32)
    """
    x = _given(sp_input, "sparse.to_dense")
    default = zeros([], x.dtype) if default_value is None else default_value
    default = convert_to_tensor(default, x.dtype)
    if not validate_indices:
        return tensor_scatter_nd_update(fill(x.dense_shape, default), x.indices, x.values)
    return apply1(
        "sparse_to_dense", [x.indices, x.dense_shape, x.values, default], same_dtype=False
    )


def rank_of(x: SparseTensor) -> int:
    """How many axes @x has."""
    _given(x, "a function of mr.sparse")
    for size in (x.indices.shape[1], x.dense_shape.shape[0]):
        if size is not None:
            return int(size)
    raise ValueError("the rank of this sparse tensor is not known: use mr.ensure_shape for indices")


def compute_sparse(body: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """compute() where sparse tensors are among the inputs, and are what @body returns."""
    flat = [p for v in inputs for p in (v._components()[1] if _is_sparse(v) else [v])]
    made: list[Any] = []

    def parts(*tensors: Tensor) -> list[Any]:
        rest = iter(tensors)
        given = [
            _build(next(rest), next(rest), next(rest)) if _is_sparse(v) else next(rest)
            for v in inputs
        ]
        made[:] = [body(*given)]
        results = made[0] if isinstance(made[0], list) else made
        return [p for r in results for p in (r._components()[1] if _is_sparse(r) else [r])]

    found = iter(compute(parts, flat, same_dtype=False))
    single = not isinstance(made[0], list)
    whole = [
        SparseTensor(next(found), next(found), next(found)) if _is_sparse(r) else next(found)
        for r in (made if single else made[0])
    ]
    return whole[0] if single else whole


def _is_sparse(value: Any) -> bool:
    return isinstance(value, SparseTensor)


def in_order(indices: Any, rank: int) -> Any:
    """Which of the @indices come one behind the other, row-major; equal ones keep their order."""
    order = argsort(indices[:, rank - 1])
    for axis in range(rank - 2, -1, -1):
        order = gather(order, argsort(gather(indices[:, axis], order)))
    return order


def reorder(sp_input: SparseTensor, name: str | None = None) -> SparseTensor:
    """Put the values in order: row by row.

    Parameters
    ----------
    sp_input : SparseTensor
        Its indices stand in any order; equal ones keep theirs.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    SparseTensor
        The same values.

    Examples
    --------
    >>> mr.sparse.reorder(mr.SparseTensor([[2], [0]], [7, 8], [3])).values
    array([8, 7], dtype=int32)
    """
    x = _given(sp_input, "sparse.reorder")
    rank = rank_of(x)

    def body(y: SparseTensor) -> SparseTensor:
        order = in_order(y.indices, rank)
        return SparseTensor(gather(y.indices, order), gather(y.values, order), y.dense_shape)

    ordered: SparseTensor = x if rank == 0 else compute_sparse(body, [x])
    return ordered


def from_dense(tensor: TensorLike, name: str | None = None) -> SparseTensor:
    """Make a sparse tensor of what is neither 0 nor an empty string.

    Parameters
    ----------
    tensor : tensor_like
        Of rank 1 or more.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    SparseTensor
        The places of what is not zero, in order.

    Examples
    --------
    >>> mr.sparse.from_dense([0, 5, 0, 6]).indices
    array([[1],
           [3]])
    """
    dense = convert_to_tensor(tensor)
    mask = not_equal(dense, zeros([], dense.dtype))
    return SparseTensor(where(mask), boolean_mask(dense, mask), _shape(dense, "int64"))


def retain(sp_input: SparseTensor, to_retain: TensorLike) -> SparseTensor:
    """Keep some of the values.

    Parameters
    ----------
    sp_input : SparseTensor
        Whose.
    to_retain : tensor_like of bool
        One for each value.

    Returns
    -------
    SparseTensor
        Of the same dense shape.

    Examples
    --------
    >>> x = mr.sparse.from_dense([1, 2, 3])
    >>> mr.sparse.retain(x, x.values > 1).values
    array([2, 3], dtype=int32)
    """
    x = _given(sp_input, "sparse.retain")
    return SparseTensor(
        boolean_mask(x.indices, to_retain), boolean_mask(x.values, to_retain), x.dense_shape
    )
