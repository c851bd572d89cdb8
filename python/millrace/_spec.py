"""What elements look like: TensorShape, TensorSpec, and their way to and from the library's mr_spec."""

import ctypes

import numpy as np

from . import _ffi, _structure
from ._ffi import byref, check, lib
from ._wire import field, varint
from .dtypes import as_dtype, from_code


def integer(what, value):
    """@value as a Python integer; a TypeError names @what."""
    try:
        return value.__index__()
    except (AttributeError, TypeError):
        if hasattr(value, "dtype") and not isinstance(value, (np.ndarray, np.generic)):
            raise  # a tensor says more
        raise TypeError(f"{what} is an integer, not {type(value).__name__} ({value!r})") from None


def _dimension(value):
    number = None if value is None else integer("a dimension", value)
    return None if number == -1 else number


class TensorShape:
    """The shape of a tensor as far as it is known: a sequence of dimensions (None: unknown), or unknown altogether."""

    __slots__ = ("_dims",)

    def __init__(self, dims):
        if isinstance(dims, TensorShape):
            dims = dims._dims
        elif dims is not None:
            if isinstance(dims, (int, np.integer)):
                dims = (dims,)
            dims = tuple(_dimension(d) for d in dims)
            if any(d is not None and d < 0 for d in dims):
                raise ValueError(f"a dimension cannot be negative: {dims}")
        self._dims = dims

    @property
    def rank(self):
        """The number of dimensions; None if that is unknown."""
        return None if self._dims is None else len(self._dims)

    ndims = rank

    @property
    def dims(self):
        """The dimensions as a list; None if their number is unknown."""
        return None if self._dims is None else list(self._dims)

    def as_list(self):
        """The dimensions as a list; ValueError if their number is unknown."""
        if self._dims is None:
            raise ValueError("the shape is unknown: it has no list of dimensions")
        return list(self._dims)

    def is_fully_defined(self):
        """Whether every dimension is known."""
        return self._dims is not None and all(d is not None for d in self._dims)

    def num_elements(self):
        """The number of values; None if not every dimension is known."""
        return int(np.prod(self._dims, dtype=np.int64)) if self.is_fully_defined() else None

    def is_compatible_with(self, other):
        """Whether a tensor may have both shapes."""
        other = TensorShape(other)
        if self._dims is None or other._dims is None:
            return True
        return len(self._dims) == len(other._dims) and all(
            a is None or b is None or a == b for a, b in zip(self._dims, other._dims))

    def __len__(self):
        return len(self.as_list())

    def __iter__(self):
        return iter(self.as_list())

    def __getitem__(self, i):
        found = tuple(self.as_list())[i]
        return TensorShape(found) if isinstance(i, slice) else found

    def __bool__(self):
        return self._dims is not None

    def __eq__(self, other):
        try:
            return self._dims == TensorShape(other)._dims
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self):
        return hash(self._dims)

    def __repr__(self):
        return f"TensorShape({list(self._dims) if self._dims is not None else None})"

    def __str__(self):
        if self._dims is None:
            return "<unknown>"
        return "(" + ", ".join(str(d) for d in self._dims) + ("," if len(self._dims) == 1 else "") + ")"

    def __reduce__(self):
        return TensorShape, (self._dims,)


class TensorSpec:
    """Shape and dtype of one component of the elements."""

    __slots__ = ("shape", "dtype", "name")

    def __init__(self, shape, dtype="float32", name=None):
        self.shape = TensorShape(shape)
        self.dtype = as_dtype(dtype)
        self.name = name

    def is_compatible_with(self, other):
        """@other is a TensorSpec or an array: same dtype, shapes that can agree."""
        shape, dtype = getattr(other, "shape", None), getattr(other, "dtype", None)
        return dtype is not None and as_dtype(dtype) is self.dtype and self.shape.is_compatible_with(shape)

    def __eq__(self, other):
        return (isinstance(other, TensorSpec) and self.shape == other.shape and self.dtype == other.dtype
                and self.name == other.name)

    def __hash__(self):
        return hash((self.shape, self.dtype))

    def __repr__(self):
        name = "" if self.name is None else f", name={self.name!r}"
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}{name})"

    def __reduce__(self):
        return TensorSpec, (self.shape, self.dtype, self.name)


class DatasetSpec:
    """A component of the elements that is a dataset itself, as window() gives them."""

    __slots__ = ("element_spec",)

    def __init__(self, element_spec, dataset_shape=()):
        if tuple(dataset_shape) != ():
            raise ValueError(f"a component holds one dataset, not {dataset_shape} of them")
        self.element_spec = element_spec

    def __eq__(self, other):
        return isinstance(other, DatasetSpec) and self.element_spec == other.element_spec

    def __hash__(self):
        return hash(("millrace.DatasetSpec", repr(self.element_spec)))

    def __repr__(self):
        return f"DatasetSpec({self.element_spec!r})"

    def __reduce__(self):
        return DatasetSpec, (self.element_spec,)


def to_leaf(spec):
    """struct mr_leaf_spec of a TensorSpec."""
    leaf = _ffi.LeafSpec(dtype=spec.dtype.code, rank=-1)
    if spec.shape.rank is not None:
        if spec.shape.rank > _ffi.RANK_MAX:
            raise ValueError(f"rank {spec.shape.rank} is above the limit of {_ffi.RANK_MAX}")
        leaf.rank = spec.shape.rank
        for i, dim in enumerate(spec.shape.as_list()):
            leaf.dims[i] = -1 if dim is None else dim
    return leaf


def from_leaf(leaf):
    """The inverse of to_leaf()."""
    shape = None if leaf.rank < 0 else [None if d < 0 else d for d in leaf.dims[:leaf.rank]]
    return TensorSpec(shape, from_code(leaf.dtype))


def leaves_of(ptr):
    """The TensorSpecs of a mr_spec."""
    return [from_leaf(lib.mr_spec_leaf(ptr, i).contents) for i in range(lib.mr_spec_leaves(ptr))]


def structure_of(ptr):
    return _structure.from_json(lib.mr_spec_structure(ptr).decode())


def element_spec_of(ptr):
    """A mr_spec as nested TensorSpecs and DatasetSpecs."""
    return _nested_spec(structure_of(ptr), leaves_of(ptr))


def _nested_spec(structure, leaves):
    datasets = map(_structure.dataset_of, _structure.leaf_nodes(structure))
    return _structure.unflatten(structure, [leaf if of is None else DatasetSpec(_spec_from_json(of))
                                            for leaf, of in zip(leaves, datasets, strict=True)])


def _spec_from_json(args):
    """What stands behind "!dataset" in a structure."""
    table, structure = args
    return _nested_spec(structure, [None if leaf is None else
                                    TensorSpec(None if leaf[1:] == [None] else leaf[1:], leaf[0]) for leaf in table])


def to_json(ptr):
    """What stands behind "!dataset" in a structure, for elements of this mr_spec (<millrace/spec.h>)."""
    structure = structure_of(ptr)
    table = []
    for leaf, node in zip(leaves_of(ptr), _structure.leaf_nodes(structure), strict=True):
        dims = leaf.shape.dims
        entry = [leaf.dtype.name, *([None] if dims is None else [-1 if d is None else d for d in dims])]
        table.append(None if _structure.dataset_of(node) else entry)
    return [table, structure]


def flatten_spec(element_spec):
    """(TensorSpecs, structure) of nested TensorSpecs. TypeError names what is none."""
    leaves, structure = _structure.flatten(element_spec)
    for leaf in leaves:
        if not isinstance(leaf, TensorSpec):
            raise TypeError(f"an element spec is made of TensorSpec, not of {type(leaf).__name__} ({leaf!r})")
    return leaves, structure


def new_spec(leaves, structure):
    """A mr_spec of TensorSpecs in @structure."""
    table = (_ffi.LeafSpec * max(1, len(leaves)))(*[to_leaf(leaf) for leaf in leaves])
    ret, err = ctypes.c_void_p(), _ffi.Error()
    check(lib.mr_spec_new(table, len(leaves), _structure.to_json(structure).encode(), byref(ret), byref(err)), err)
    return _ffi.SpecHandle(ret)


def serialize_spec(element_spec):
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
