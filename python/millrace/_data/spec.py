"""
What elements look like: TensorShape, TensorSpec, and their way to and from the library's mr_spec.
"""

from __future__ import annotations

import ctypes
from typing import Any, Iterable, Iterator, Sequence, TypeAlias, Union

import numpy as np

from . import structure as _structure
from .structure import Structure
from .._base.wire import field, varint
from .._capi import ffi as _ffi
from .._capi.ffi import byref, check, lib
from ..dtypes import DTypeLike, as_dtype, from_code


def integer(what: str, value: Any) -> int:
    """@value as a Python integer; a TypeError names @what."""
    try:
        number: int = value.__index__()
        return number
    except (AttributeError, TypeError):
        if hasattr(value, "dtype") and not isinstance(value, (np.ndarray, np.generic)):
            raise  # a tensor says more
        raise TypeError(f"{what} is an integer, not {type(value).__name__} ({value!r})") from None


def _dimension(value: Any) -> int | None:
    number = None if value is None else integer("a dimension", value)
    return None if number == -1 else number


class TensorShape:
    """The shape of a tensor, as far as it is known.

    A sequence of dimensions, as ``tf.TensorShape``: a size of None is unknown. Of a shape that is
    unknown altogether not even the number of dimensions is known; it is false.

    Parameters
    ----------
    dims : iterable of int or None, int, TensorShape or None
        The sizes; None or -1 is an unknown one. None in place of all: unknown altogether.

    Raises
    ------
    ValueError
        A dimension is negative.
    TypeError
        A dimension is not an integer.

    Examples
    --------
    >>> mr.TensorShape([None, 28, 28])
    TensorShape([None, 28, 28])
    >>> mr.TensorShape(None).rank is None
    True
    """

    __slots__ = ("_dims",)

    def __init__(self, dims: ShapeLike) -> None:
        self._dims: tuple[int | None, ...] | None
        if dims is None:
            self._dims = None
        elif isinstance(dims, TensorShape):
            self._dims = dims._dims
        else:
            given = (dims,) if isinstance(dims, (int, np.integer)) else dims
            self._dims = tuple(_dimension(d) for d in given)
            if any(d is not None and d < 0 for d in self._dims):
                raise ValueError(f"a dimension cannot be negative: {self._dims}")

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None if that is unknown."""
        return None if self._dims is None else len(self._dims)

    ndims = rank

    @property
    def dims(self) -> list[int | None] | None:
        """The dimensions as a list; None if their number is unknown."""
        return None if self._dims is None else list(self._dims)

    def as_list(self) -> list[int | None]:
        """Return the dimensions as a list.

        Returns
        -------
        list of int or None
            None stands for an unknown size.

        Raises
        ------
        ValueError
            The number of dimensions is unknown.

        Examples
        --------
        >>> mr.TensorShape([None, 3]).as_list()
        [None, 3]
        """
        if self._dims is None:
            raise ValueError("the shape is unknown: it has no list of dimensions")
        return list(self._dims)

    def is_fully_defined(self) -> bool:
        """Return whether every dimension is known.

        Returns
        -------
        bool
            False also where their number is unknown.

        Examples
        --------
        >>> mr.TensorShape([2, 3]).is_fully_defined(), mr.TensorShape([None]).is_fully_defined()
        (True, False)
        """
        return self._dims is not None and all(d is not None for d in self._dims)

    def num_elements(self) -> int | None:
        """Return the number of values.

        Returns
        -------
        int or None
            None if not every dimension is known.

        Examples
        --------
        >>> mr.TensorShape([2, 3]).num_elements()
        6
        """
        known = [d for d in self._dims or [] if d is not None]
        return int(np.prod(known, dtype=np.int64)) if self.is_fully_defined() else None

    def is_compatible_with(self, other: ShapeLike) -> bool:
        """Return whether a tensor may have both shapes.

        Parameters
        ----------
        other : TensorShape or what makes one
            The other shape.

        Returns
        -------
        bool
            Whether the sizes that are known of both are equal.

        Examples
        --------
        >>> mr.TensorShape([None, 3]).is_compatible_with([2, 3])
        True
        """
        other = TensorShape(other)
        if self._dims is None or other._dims is None:
            return True
        return len(self._dims) == len(other._dims) and all(
            a is None or b is None or a == b for a, b in zip(self._dims, other._dims)
        )

    def __len__(self) -> int:
        return len(self.as_list())

    def __iter__(self) -> Iterator[int | None]:
        return iter(self.as_list())

    def __getitem__(self, i: Any) -> Any:
        try:
            found: Any = tuple(self.as_list())[i]
        except IndexError:
            raise IndexError(f"the shape {self} has no axis {i}") from None
        return TensorShape(found) if isinstance(i, slice) else found

    def __bool__(self) -> bool:
        return self._dims is not None

    def __eq__(self, other: Any) -> bool:
        try:
            return self._dims == TensorShape(other)._dims
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self._dims)

    def __repr__(self) -> str:
        return f"TensorShape({list(self._dims) if self._dims is not None else None})"

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        sizes = ", ".join(str(d) for d in self._dims)
        return f"({sizes}{',' if len(self._dims) == 1 else ''})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorShape, (self._dims,)


# What makes a TensorShape.
ShapeLike: TypeAlias = Union[TensorShape, Iterable[Any], int, None]


class TensorSpec:
    """Shape and dtype of one component of the elements, as ``tf.TensorSpec``.

    Parameters
    ----------
    shape : TensorShape or what makes one
        None as a size is one that is unknown.
    dtype : dtype_like, default "float32"
        The element type.
    name : str, optional
        Kept and compared; it means nothing.

    Examples
    --------
    >>> mr.Dataset.range(4).batch(3).element_spec
    TensorSpec(shape=(None,), dtype=mr.int64)
    """

    __slots__ = ("shape", "dtype", "name")

    def __init__(
        self, shape: ShapeLike, dtype: DTypeLike = "float32", name: str | None = None
    ) -> None:
        self.shape = TensorShape(shape)
        self.dtype = as_dtype(dtype)
        self.name = name

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether `other` may be such a component.

        Parameters
        ----------
        other : TensorSpec, Tensor or numpy.ndarray
            What has a shape and a dtype.

        Returns
        -------
        bool
            Whether the dtypes are the same and the shapes can agree.

        Examples
        --------
        >>> mr.TensorSpec([None], mr.int64).is_compatible_with(np.arange(3))
        True
        """
        shape, dtype = getattr(other, "shape", None), getattr(other, "dtype", None)
        return (
            dtype is not None
            and not _structure.is_composite(other)
            and as_dtype(dtype) is self.dtype
            and self.shape.is_compatible_with(shape)
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorSpec)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.name == other.name
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        name = "" if self.name is None else f", name={self.name!r}"
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}{name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorSpec, (self.shape, self.dtype, self.name)


class DatasetSpec:
    """A component of the elements that is a dataset itself, as ``Dataset.window`` gives them.

    As ``tf.data.DatasetSpec``.

    Parameters
    ----------
    element_spec : nested TensorSpec
        What the elements of that dataset are.
    dataset_shape : tuple, default ()
        Accepted if it is empty.

    Raises
    ------
    ValueError
        `dataset_shape` is not empty: a component holds one dataset.

    Examples
    --------
    >>> mr.Dataset.range(4).window(2).element_spec
    DatasetSpec(TensorSpec(shape=(), dtype=mr.int64))
    """

    __slots__ = ("element_spec",)

    def __init__(self, element_spec: Any, dataset_shape: Sequence[int] = ()) -> None:
        if tuple(dataset_shape) != ():
            raise ValueError(f"a component holds one dataset, not {dataset_shape} of them")
        self.element_spec = element_spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetSpec) and bool(self.element_spec == other.element_spec)

    def __hash__(self) -> int:
        return hash(("millrace.DatasetSpec", repr(self.element_spec)))

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return DatasetSpec, (self.element_spec,)


def to_leaf(spec: TensorSpec) -> _ffi.LeafSpec:
    """struct mr_leaf_spec of a TensorSpec."""
    leaf = _ffi.LeafSpec(dtype=spec.dtype.code, rank=-1)
    if spec.shape.rank is not None:
        if spec.shape.rank > _ffi.RANK_MAX:
            raise ValueError(f"rank {spec.shape.rank} is above the limit of {_ffi.RANK_MAX}")
        leaf.rank = spec.shape.rank
        for i, dim in enumerate(spec.shape.as_list()):
            leaf.dims[i] = -1 if dim is None else dim
    return leaf


def from_leaf(leaf: _ffi.LeafSpec) -> TensorSpec:
    """The inverse of to_leaf()."""
    shape = None if leaf.rank < 0 else [None if d < 0 else d for d in leaf.dims[: leaf.rank]]
    return TensorSpec(shape, from_code(leaf.dtype))


def leaves_of(ptr: Any) -> list[TensorSpec]:
    """The TensorSpecs of a mr_spec."""
    return [from_leaf(lib.mr_spec_leaf(ptr, i).contents) for i in range(lib.mr_spec_leaves(ptr))]


def structure_of(ptr: Any) -> Structure:
    return _structure.from_json(lib.mr_spec_structure(ptr).decode())


def element_spec_of(ptr: Any) -> Any:
    """A mr_spec as nested TensorSpecs and DatasetSpecs."""
    return _nested_spec(structure_of(ptr), leaves_of(ptr))


def _nested_spec(structure: Structure, leaves: Sequence[Any]) -> Any:
    datasets = map(_structure.dataset_of, _structure.leaf_nodes(structure))
    return _structure.unflatten(
        structure,
        [
            leaf if of is None else DatasetSpec(spec_from_json(of))
            for leaf, of in zip(leaves, datasets, strict=True)
        ],
    )


def spec_from_json(args: Any) -> Any:
    """What stands behind "!dataset" in a structure."""
    table, structure = args
    return _nested_spec(
        structure,
        [
            None if leaf is None else TensorSpec(None if leaf[1:] == [None] else leaf[1:], leaf[0])
            for leaf in table
        ],
    )


def to_json(ptr: Any) -> Any:
    """
    What stands behind "!dataset" in a structure, for elements of this mr_spec (<millrace/spec.h>).
    """
    structure = structure_of(ptr)
    table: list[Any] = []
    for leaf, node in zip(leaves_of(ptr), _structure.leaf_nodes(structure), strict=True):
        dims = leaf.shape.dims
        sizes: list[Any] = [None] if dims is None else [-1 if d is None else d for d in dims]
        entry = [leaf.dtype.name, *sizes]
        table.append(None if _structure.dataset_of(node) else entry)
    return [table, structure]


def flatten_spec(element_spec: Any) -> tuple[list[TensorSpec], Structure]:
    """(TensorSpecs, structure) of nested TensorSpecs. TypeError names what is none."""
    leaves, structure = _structure.flatten(element_spec)
    for leaf in leaves:
        if not isinstance(leaf, TensorSpec):
            raise TypeError(
                f"an element spec is made of TensorSpec, not of {type(leaf).__name__} "
                f"({leaf!r})"
            )
    return leaves, structure


def new_spec(leaves: Sequence[TensorSpec], structure: Structure) -> _ffi.SpecHandle:
    """A mr_spec of TensorSpecs in @structure."""
    table = (_ffi.LeafSpec * max(1, len(leaves)))(*[to_leaf(leaf) for leaf in leaves])
    ret, err = ctypes.c_void_p(), _ffi.Error()
    check(
        lib.mr_spec_new(
            table, len(leaves), _structure.to_json(structure).encode(), byref(ret), byref(err)
        ),
        err,
    )
    return _ffi.SpecHandle(ret)


def serialize_spec(element_spec: Any) -> bytes:
    """Nested TensorSpecs as a millrace.ElementSpec (proto/millrace/dataset.proto)."""
    leaves, structure = flatten_spec(element_spec)
    out = bytearray()
    for leaf in leaves:
        body = varint(1 << 3) + varint(leaf.dtype.code)
        if leaf.shape.rank is None:
            body += varint(2 << 3) + varint(1)
        else:
            dims = [-1 if d is None else d for d in leaf.shape.as_list()]
            if dims:
                body += field(3, b"".join(varint(d << 1 ^ d >> 63) for d in dims))  # sint64: zigzag
        out += field(1, body)
    return bytes(out + field(2, _structure.to_json(structure).encode()))
