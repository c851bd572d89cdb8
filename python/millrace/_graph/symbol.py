"""Symbolic values, and which function is being traced on this thread."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Protocol, Sequence, TypeAlias, Union

import numpy.typing as npt

from .._data.spec import TensorShape, TensorSpec
from ..dtypes import DType


class Scope(Protocol):
    """
    A function that is being traced, as far as the values in it need to know it (tensor.Graph).
    """

    @property
    def ptr(self) -> ctypes.c_void_p:
        """The library's builder; ValueError once the function is finished."""
        ...

    def convert(self, value: Any, like: DType | None = None) -> Any:
        """Make @value a tensor of this function."""
        ...

    def add(self, op: str, inputs: Sequence[Any], attrs: Any = None) -> list[Any]:
        """Apply a tensor operator to tensors of this function."""
        ...


class Symbol:
    """
    A value inside a function that is being traced, without the operators (tensor.Tensor has them).
    """

    __slots__ = ("graph", "index", "_spec")

    def __init__(self, graph: Scope, index: int, spec: TensorSpec) -> None:
        self.graph = graph
        self.index = index
        self._spec = spec

    @property
    def shape(self) -> TensorShape:
        """What is known of the shape."""
        return self._spec.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._spec.dtype

    @property
    def ndim(self) -> int | None:
        """The number of dimensions; None if that is unknown."""
        return self._spec.shape.rank

    @property
    def spec(self) -> TensorSpec:
        """Shape and dtype together."""
        return TensorSpec(self.shape, self.dtype)


# What the tensor functions take: a tensor, an array, a literal, or nested lists of them.
TensorLike: TypeAlias = Union[Symbol, npt.ArrayLike, Sequence[Any]]


class _Local(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Any] = []


_local = _Local()


def stack() -> list[Any]:
    """The functions that are being traced on this thread, the innermost last."""
    return _local.graphs


def current_graph() -> Any:
    """The function that is being traced on this thread, or None."""
    graphs = _local.graphs
    return graphs[-1] if graphs else None


def holds_symbols(value: Any) -> bool:
    """Whether @value is symbolic, or a list with something symbolic in it."""
    if isinstance(value, (list, tuple)):
        return any(holds_symbols(v) for v in value)
    return isinstance(value, Symbol)
