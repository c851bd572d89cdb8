"""
Methods of symbolic tensors that arrays of NumPy have, under NumPy's names and arguments. Dtypes are
those of TensorFlow's function of that name: the mean of integers is an integer.
"""

from __future__ import annotations

import inspect
import math
import string
from typing import Any, Callable, NoReturn, TypeVar

import numpy as np

from ..dtypes import DTypeLike, as_dtype
from .attrs import AttrTable
from .symbol import Symbol, current_graph

F = TypeVar("F", bound=Callable[..., Any])

_ARGUMENTS = {
    "axis": "int or sequence of int, optional\n    Which axes; by default all.",
    "keepdims": "bool, default False\n    Whether the axes stay, with size 1.",
    "dtype": "dtype_like, optional\n    What the values are converted to first.",
    "ddof": "int, default 0\n    What is taken from the number of values.",
    "order": 'str, default "C"\n    Others are not supported.',
    "shape": "int, or sequence of int\n    The new shape; one size may be -1.",
    "axes": "int, or sequence of int\n    Which axis comes where; reversed by default.",
    "axis1": "int\n    An axis.",
    "axis2": "int\n    Another one.",
    "min": "tensor_like, optional\n    The lowest value.",
    "max": "tensor_like, optional\n    The highest value.",
    "decimals": "int, default 0\n    Digits behind the point.",
    "repeats": "tensor_like of int\n    How often.",
    "indices": "tensor_like of int\n    Numbers along the axis.",
    "b": "tensor_like\n    The right one.",
}


def _as_numpy(example: str, result: str, returns: str = "The result.") -> Callable[[F], F]:
    """A docstring in NumPy's form for a method: what it makes of the vectors [0 1] and [2 3]."""

    def complete(method: F) -> F:
        method.__qualname__ = f"Tensor.{method.__name__}"  # errors of calls say so
        names = [n for n in inspect.signature(method).parameters if n != "self"]
        parts = [inspect.cleandoc(method.__doc__ or "")]
        if names:
            listed = "\n".join(f"{n} : {_ARGUMENTS[n]}" for n in names)
            parts.append("Parameters\n----------\n" + listed)
        parts.append(f"Returns\n-------\nTensor\n    {returns}")
        parts.append(
            "Examples\n--------\n"
            f">>> list(mr.Dataset.range(4).batch(2).map(lambda x: {example}))\n{result}"
        )
        method.__doc__ = "\n\n".join(parts) + "\n"
        return method

    return complete


def _apply(op: str, inputs: list[Any], attrs: AttrTable | None = None, literal: Any = None) -> Any:
    """One operator; literals among @inputs take the dtype @literal."""
    graph = current_graph()
    if graph is None:
        raise ValueError("a symbolic tensor exists only while its function is traced")
    return graph.add(op, [graph.convert(v, literal) for v in inputs], attrs)[0]


def _cast(x: Any, dtype: DTypeLike | None) -> Any:
    if dtype is None or x.dtype is as_dtype(dtype):
        return x
    return _apply("cast", [x], AttrTable().dtype("dtype", dtype))


def _axes(axis: Any, attrs: AttrTable | None = None) -> AttrTable:
    """The attribute `axes`, if there is one."""
    attrs = AttrTable() if attrs is None else attrs
    if axis is None:
        return attrs
    return attrs.ints("axes", list(axis) if isinstance(axis, (tuple, list)) else [axis])


def _listed(values: tuple[Any, ...]) -> Any:
    """f(1, 2) as f((1, 2))"""
    one = len(values) == 1 and not isinstance(values[0], (int, np.integer))
    return values[0] if one else values


class Count(int):
    """The number of values of a tensor, which PyTorch's users call."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "x.size() of PyTorch: x.size is the number of values here, as NumPy's; use x.shape, or "
            "mr.shape(x) where sizes are not known"
        )


class ArrayMethods(Symbol):
    """What a symbolic tensor has in common with an array."""

    __slots__ = ()

    def _reduced(self, op: str, axis: Any, keepdims: bool, dtype: DTypeLike | None = None) -> Any:
        return _apply(op, [_cast(self, dtype)], _axes(axis, AttrTable().bool("keepdims", keepdims)))

    @_as_numpy("x.sum()", "[1, 5]")
    def sum(self, axis: Any = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Any:
        """Compute the sum over axes, of the dtype of the values: as mr.reduce_sum."""
        return self._reduced("reduce_sum", axis, keepdims, dtype)

    @_as_numpy("x.prod()", "[0, 6]")
    def prod(self, axis: Any = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Any:
        """Compute the product over axes, of the dtype of the values: as mr.reduce_prod."""
        return self._reduced("reduce_prod", axis, keepdims, dtype)

    @_as_numpy("x.mean(dtype=mr.float32)", "[0.5, 2.5]")
    def mean(self, axis: Any = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Any:
        """Compute the mean over axes, of integers an integer: as mr.reduce_mean."""
        return self._reduced("reduce_mean", axis, keepdims, dtype)

    @_as_numpy("x.min()", "[0, 2]")
    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Find the smallest value over axes."""
        return self._reduced("reduce_min", axis, keepdims)

    @_as_numpy("x.max()", "[1, 3]")
    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Find the largest value over axes."""
        return self._reduced("reduce_max", axis, keepdims)

    @_as_numpy("x.any()", "[True, True]")
    def any(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Return whether any value over axes is true, or not 0."""
        return self._reduced("reduce_any", axis, keepdims, "bool")

    @_as_numpy("x.all()", "[False, True]")
    def all(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Return whether all values over axes are true, or not 0."""
        return self._reduced("reduce_all", axis, keepdims, "bool")

    @_as_numpy("x.var(dtype=mr.float32)", "[0.25, 0.25]")
    def var(
        self,
        axis: Any = None,
        dtype: DTypeLike | None = None,
        ddof: int = 0,
        keepdims: bool = False,
    ) -> Any:
        """Compute the variance of floats over axes: as mr.math.reduce_variance."""
        x: Any = _cast(self, dtype)
        if not x.dtype.is_floating:
            raise TypeError(
                f"var and std are of floats, not of {x.dtype.name}: say dtype=mr.float32"
            )
        deviation = x - x.mean(axis=axis, keepdims=True)
        squares = deviation * deviation
        if ddof == 0:
            return squares.mean(axis=axis, keepdims=keepdims)
        ones = _apply("ones_like", [x]).sum(axis=axis, keepdims=keepdims)
        return squares.sum(axis=axis, keepdims=keepdims) / (ones - float(ddof))

    @_as_numpy("x.std(dtype=mr.float32)", "[0.5, 0.5]")
    def std(
        self,
        axis: Any = None,
        dtype: DTypeLike | None = None,
        ddof: int = 0,
        keepdims: bool = False,
    ) -> Any:
        """Compute the standard deviation of floats over axes: as mr.math.reduce_std."""
        return _apply("sqrt", [self.var(axis, dtype, ddof, keepdims)])

    def _best(self, op: str, axis: int | None, keepdims: bool) -> Any:
        x: Any = self if axis is not None else self.reshape(-1)
        found = _apply(op, [x], AttrTable().int("axis", 0 if axis is None else axis))
        if not keepdims:
            return found
        if axis is not None:
            return _apply("expand_dims", [found], AttrTable().int("axis", axis))
        return found.reshape([1] * self._rank())

    @_as_numpy("x.argmax()", "[1, 1]")
    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """Find the first place of the largest value, int64; by default in all values."""
        return self._best("argmax", axis, keepdims)

    @_as_numpy("x.argmin()", "[0, 0]")
    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Any:
        """Find the first place of the smallest value, int64; by default in all values."""
        return self._best("argmin", axis, keepdims)

    @_as_numpy("x.cumsum()", "[array([0, 1]), array([2, 5])]")
    def cumsum(self, axis: int | None = None, dtype: DTypeLike | None = None) -> Any:
        """Add up along an axis, and give all partial sums; by default of all values."""
        return self._partial("cumsum", axis, dtype)

    @_as_numpy("x.cumprod()", "[array([0, 0]), array([2, 6])]")
    def cumprod(self, axis: int | None = None, dtype: DTypeLike | None = None) -> Any:
        """Multiply along an axis, and give all partial products; by default of all values."""
        return self._partial("cumprod", axis, dtype)

    def _partial(self, op: str, axis: int | None, dtype: DTypeLike | None) -> Any:
        x = _cast(self if axis is not None else self.reshape(-1), dtype)
        return _apply(op, [x], AttrTable().int("axis", 0 if axis is None else axis))

    @_as_numpy("x.astype(mr.uint8)", "[array([0, 1], dtype=uint8), array([2, 3], dtype=uint8)]")
    def astype(self, dtype: DTypeLike) -> Any:
        """Convert to another dtype: as mr.cast."""
        return _cast(self, dtype)

    @_as_numpy("x.reshape(2, 1).shape.rank", "[2, 2]")
    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """Give the values another shape; their order stays."""
        if order != "C":
            raise ValueError(f"values lie in the order 'C', not {order!r}")
        dims = _listed(shape)
        if isinstance(dims, (tuple, list)):
            if not any(isinstance(d, Symbol) for d in dims):
                return _apply("reshape", [self], AttrTable().shape("shape", list(dims)))
            graph = current_graph()
            wide = [_cast(graph.convert(d), "int64") for d in dims]
            dims = _apply("stack", wide, AttrTable().int("axis", 0))
        return _apply("reshape", [self, dims])

    @_as_numpy("x.flatten()", "[array([0, 1]), array([2, 3])]")
    def flatten(self, order: str = "C") -> Any:
        """Give all values as a vector."""
        return self.reshape(-1, order=order)

    @_as_numpy("x.ravel()", "[array([0, 1]), array([2, 3])]")
    def ravel(self, order: str = "C") -> Any:
        """Give all values as a vector."""
        return self.reshape(-1, order=order)

    @_as_numpy("x[None].squeeze(0)", "[array([0, 1]), array([2, 3])]")
    def squeeze(self, axis: Any = None) -> Any:
        """Take away axes of size 1; by default all of them."""
        return _apply("squeeze", [self], _axes(axis))

    @_as_numpy("x.transpose()", "[array([0, 1]), array([2, 3])]")
    def transpose(self, *axes: Any) -> Any:
        """Put the axes in another order."""
        order = _listed(axes) if axes else None
        attrs = AttrTable() if order is None or order == () else AttrTable().ints("perm", order)
        return _apply("transpose", [self], attrs)

    @property
    def T(self) -> Any:
        """The tensor with its axes in the reverse order."""
        return _apply("transpose", [self])

    @_as_numpy("x[None].swapaxes(0, 1).shape.rank", "[2, 2]")
    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """Let two axes change places."""
        order = list(range(self._rank()))
        order[axis1], order[axis2] = order[axis2], order[axis1]
        return self.transpose(order)

    @_as_numpy("x.clip(1, 2)", "[array([1, 1]), array([2, 2])]")
    def clip(self, min: Any = None, max: Any = None) -> Any:
        """Cut to a range; either end may be None."""
        x: Any = self
        if min is not None:
            x = _apply("maximum", [x, min], literal=self.dtype)
        if max is not None:
            x = _apply("minimum", [x, max], literal=self.dtype)
        return x

    @_as_numpy("x.round()", "[array([0, 1]), array([2, 3])]")
    def round(self, decimals: int = 0) -> Any:
        """Compute the nearest numbers of so many digits; halves go to the even one."""
        if decimals < 0 and not self.dtype.is_floating:
            raise TypeError(
                f"round(decimals={decimals}) is of floats, not of {self.dtype.name}: cast it first"
            )
        if decimals == 0 or not self.dtype.is_floating:
            return _apply("round", [self])
        scale = 10.0**decimals
        scaled = _apply("mul", [self, scale], literal=self.dtype)
        return _apply("div", [_apply("round", [scaled]), scale], literal=self.dtype)

    @property
    def size(self) -> Any:
        """The number of values: an int where it is known, else a scalar tensor of int64."""
        dims: list[int | None] = [None]
        if self.shape.rank is not None:
            dims = self.shape.as_list()
        known = [dim for dim in dims if dim is not None]
        if len(known) < len(dims):
            return _apply("size", [self], AttrTable().dtype("dtype", "int64"))
        return Count(math.prod(known))

    @_as_numpy("x.copy()", "[array([0, 1]), array([2, 3])]", "The tensor: nobody can change it.")
    def copy(self, order: str = "C") -> Any:
        """Return the tensor."""
        return self

    @_as_numpy("x.repeat(2)", "[array([0, 0, 1, 1]), array([2, 2, 3, 3])]")
    def repeat(self, repeats: Any, axis: int | None = None) -> Any:
        """Repeat the parts along an axis; by default all values."""
        x: Any = self if axis is not None else self.reshape(-1)
        return _apply("repeat", [x, repeats], AttrTable().int("axis", 0 if axis is None else axis))

    @_as_numpy("x.take([1, 0])", "[array([1, 0]), array([3, 2])]")
    def take(self, indices: Any, axis: int | None = None) -> Any:
        """Pick parts by number along an axis; by default of all values."""
        x: Any = self if axis is not None else self.reshape(-1)
        return _apply("gather", [x, indices], AttrTable().int("axis", 0 if axis is None else axis))

    @_as_numpy("x.dot(x)", "[1, 13]")
    def dot(self, b: Any) -> Any:
        """Compute the product of vectors or matrices, as numpy.dot does."""
        graph = current_graph()
        other = b if isinstance(b, Symbol) else graph.convert(b, self.dtype)
        if self.shape.rank == 0 or other.shape.rank == 0:
            return _apply("mul", [self, other])
        first, second = self._rank(), _known_rank(other)
        left = string.ascii_lowercase[:first]
        right = string.ascii_uppercase[:second]
        inner = second - 2 if second > 1 else 0
        right = right[:inner] + left[-1] + right[inner + 1 :]
        result = left[:-1] + right.replace(left[-1], "")
        return _einsum(f"{left},{right}->{result}", [self, other])

    def _rank(self) -> int:
        return _known_rank(self)


def _known_rank(x: Symbol) -> int:
    if x.shape.rank is None:
        raise ValueError("this needs a tensor of known rank")
    return x.shape.rank


def _einsum(equation: str, inputs: list[Any]) -> Any:
    return _apply("einsum", inputs, AttrTable().bytes("equation", equation))


def matrix_product(left: Symbol, right: Symbol) -> Any:
    """left @ right, also of vectors."""
    if left.shape.rank != 1 and right.shape.rank != 1:
        return _apply("matmul", [left, right])
    if left.shape.rank == 1:
        equation = "i,i->" if right.shape.rank == 1 else "i,...ij->...j"
    else:
        equation = "...ij,j->...i"
    return _einsum(equation, [left, right])
