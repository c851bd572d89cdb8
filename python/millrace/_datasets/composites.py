"""
Batches of ragged and sparse tensors, and their rows: functions that take elements apart into
tensors, which the library puts behind one another or cuts, and functions that put them together
again.
"""

from __future__ import annotations

from typing import Any, Callable, Protocol

import numpy as np

from .._data import structure as _structure
from .._data.spec import TensorShape
from .._data.structure import Structure
from .._graph.attrs import AttrTable
from .._ops.arrays import concat, expand_dims, gather, reshape, shape, where
from .._ops.constants import cast, ones_like, range as _range
from .._ops.debugging import Assert
from .._ops.ragged.tensor import RaggedRows, RaggedTensor
from .._ops.reductions import reduce_max
from .._ops.selection import repeat, searchsorted
from .._ops.sparse import SparseTensor


def has_composites(structure: Structure) -> bool:
    """Whether elements of @structure have components that are ragged or sparse."""
    return any(map(_structure.composite_name, _structure.outline(structure)[1]))


class _Parts:
    """The tensors of an element that is taken apart: flat, and how each is treated."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.joined: list[int] = []  # these are put behind one another
        self.counts: list[int] = []  # pairs: this one is cut, as that one says

    def even(self, tensor: Any) -> int:
        """One that has a row of its own in each element. Its number."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def join(self, tensor: Any) -> None:
        self.joined.append(self.even(tensor))

    def cut(self, tensor: Any, counts: int) -> None:
        self.counts += [self.even(tensor), counts]


class _Kind(Protocol):
    """A kind of component: how it is taken apart, and put together of the same tensors."""

    def apart(self, value: Any, parts: _Parts) -> None:
        ...

    def together(self, tensors: list[Any]) -> Any:
        ...


class _Dense:
    def apart(self, value: Any, parts: _Parts) -> None:
        parts.even(value)

    def together(self, tensors: list[Any]) -> Any:
        return tensors.pop(0)


def _nested(flat: Any, lengths: list[Any], dtype: Any) -> Any:
    for row_lengths in reversed(lengths):
        flat = RaggedTensor.from_row_lengths(flat, cast(row_lengths, dtype), validate=False)
    return flat


class _RaggedBatch:
    """Ragged tensors become one with an axis more, tensors (rank 0) a ragged tensor."""

    def __init__(self, rank: int, dtype: Any) -> None:
        self.rank = rank
        self.dtype = dtype

    def apart(self, value: Any, parts: _Parts) -> None:
        if self.rank == 0:
            parts.even(shape(value, "int64")[0])
            parts.join(value)
            return
        self.dtype = value.row_splits.dtype
        parts.even(value.nrows("int64"))
        for lengths in value.nested_row_lengths():
            parts.join(cast(lengths, "int64"))
        parts.join(value.flat_values)

    def together(self, tensors: list[Any]) -> Any:
        lengths = [tensors.pop(0) for _ in range(self.rank + 1)]
        return _nested(tensors.pop(0), lengths, self.dtype)


class _RaggedRows:
    """The rows of a ragged tensor."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.dtype: Any = "int64"

    def apart(self, value: Any, parts: _Parts) -> None:
        self.dtype = value.row_splits.dtype
        splits = [cast(s, "int64") for s in value.nested_row_splits]
        offsets = splits[0]
        counts = [parts.even(offsets[1:] - offsets[:-1])]
        for inner in splits[1:]:
            offsets = gather(inner, offsets)
            counts.append(parts.even(offsets[1:] - offsets[:-1]))
        for inner, count in zip(splits[1:], counts):
            parts.cut(inner[1:] - inner[:-1], count)
        parts.cut(value.flat_values, counts[-1])

    def together(self, tensors: list[Any]) -> Any:
        del tensors[: self.rank]
        lengths = [tensors.pop(0) for _ in range(self.rank - 1)]
        flat = tensors.pop(0)
        return _nested(flat, lengths, self.dtype) if lengths else RaggedRows(flat)


class _SparseBatch:
    """Sparse tensors become one with an axis more, as large as the largest."""

    def apart(self, value: Any, parts: _Parts) -> None:
        parts.even(value.dense_shape)
        parts.even(shape(value.values, "int64")[0])
        parts.join(value.indices)
        parts.join(value.values)

    def together(self, tensors: list[Any]) -> Any:
        shapes, counts, indices, values = (tensors.pop(0) for _ in range(4))
        rows = shape(counts, "int64")
        first = expand_dims(repeat(_range(rows[0]), counts, axis=0), 1)
        return SparseTensor(
            concat([first, indices], 1), values, concat([rows, reduce_max(shapes, axis=0)], 0)
        )


class _SparseRows:
    """The rows of a sparse tensor."""

    def apart(self, value: Any, parts: _Parts) -> None:
        rows = value.dense_shape[0]
        splits = searchsorted(value.indices[:, 0], _range(rows + 1), out_type="int64")
        parts.even(repeat(expand_dims(value.dense_shape[1:], 0), rows, axis=0))
        counts = parts.even(splits[1:] - splits[:-1])
        parts.cut(value.indices[:, 1:], counts)
        parts.cut(value.values, counts)

    def together(self, tensors: list[Any]) -> Any:
        dense_shape, _, indices, values = (tensors.pop(0) for _ in range(4))
        return SparseTensor(indices, values, dense_shape)


def _ragged_rank(node: Structure) -> int:
    parts = _structure.components(node)
    if len(parts) == 1:
        return 0
    return 1 + (_ragged_rank(parts[0]) if _structure.composite_name(parts[0]) else 0)


def _batch_kind(node: Structure, dtype: Any) -> _Kind:
    name = _structure.composite_name(node)
    if name is None:
        return _Dense()
    if name == "SparseTensor":
        return _SparseBatch()
    return _RaggedBatch(_ragged_rank(node), dtype)


def _row_kind(node: Structure) -> _Kind:
    name = _structure.composite_name(node)
    if name == "SparseTensor":
        return _SparseRows()
    if name is None or _ragged_rank(node) == 0:
        return _Dense()
    return _RaggedRows(_ragged_rank(node))


def _leaves(ds: Any, arguments: tuple[Any, ...]) -> list[Any]:
    """The components of an element that a function was given as @arguments."""
    element = arguments if isinstance(ds._structure, list) else arguments[0]
    return _structure.flatten(element, _structure.is_composite)[0]


def _through(
    ds: Any, kind_of: Callable[[Structure], _Kind], op: Callable[[Any, _Parts], Any]
) -> Any:
    """@ds taken apart, through @op, put together again."""
    skeleton, nodes = _structure.outline(ds._structure)
    kinds = [kind_of(node) for node in nodes]
    parts = _Parts()

    def apart(*arguments: Any) -> Any:
        for leaf, kind in zip(_leaves(ds, arguments), kinds, strict=True):
            kind.apart(leaf, parts)
        return tuple(parts.tensors)

    def together(*tensors: Any) -> Any:
        rest = list(tensors)
        return _structure.unflatten(skeleton, [kind.together(rest) for kind in kinds])

    return op(ds.map(apart), parts).map(together)


def batch(ds: Any, add_size: Callable[[AttrTable], AttrTable], dtype: Any = "int64") -> Any:
    """
    Batches of elements with ragged or sparse components. @add_size adds size and remainder; row
    splits have the dtype that they have, or @dtype.
    """

    def op(flat: Any, parts: _Parts) -> Any:
        return flat._of("batch", [flat], add_size(AttrTable()).ints("joined", parts.joined))

    return _through(ds, lambda node: _batch_kind(node, dtype), op)


def unbatch(ds: Any) -> Any:
    """The rows of elements with ragged or sparse components."""

    def op(flat: Any, parts: _Parts) -> Any:
        return flat._of("unbatch", [flat], AttrTable().ints("counts", parts.counts))

    return _through(ds, _row_kind, op)


def ragged(ds: Any, dtype: Any) -> Any:
    """@ds, whose tensors of unknown shape become ragged tensors, of rank 0 if only one axis is."""
    skeleton, _ = _structure.outline(ds._structure)

    def made(value: Any) -> Any:
        if _structure.is_composite(value) or value.shape.rank is None:
            return value
        unknown = [axis for axis, size in enumerate(value.shape) if size is None]
        if not unknown:
            return value
        if unknown[-1] == 0:
            return RaggedRows(value)
        return RaggedTensor.from_tensor(value, ragged_rank=unknown[-1], row_splits_dtype=dtype)

    def function(*arguments: Any) -> Any:
        return _structure.unflatten(skeleton, [made(leaf) for leaf in _leaves(ds, arguments)])

    return ds.map(function)


def sparse(ds: Any, row_shape: Any) -> Any:
    """@ds of one tensor, all of whose values become those of a sparse tensor of @row_shape."""
    sizes = TensorShape(row_shape).as_list()
    if any(size is None for size in sizes):
        raise ValueError(f"sparse_batch: the row shape is known, not {row_shape}")

    def made(value: Any) -> Any:
        if value.ndim is not None and value.ndim != len(sizes):
            raise ValueError(
                f"sparse_batch: elements of shape {value.shape} do not fit a row shape of "
                f"{len(sizes)} dimensions"
            )
        Assert(
            shape(value, "int64") <= np.array(sizes, np.int64),
            [f"an element is larger than the row shape {sizes}"],
        )
        places = where(ones_like(value, "bool"))
        return SparseTensor(places, reshape(value, [-1]), np.array(sizes, np.int64))

    return ds.map(made)
