"""Records of JSON. `name` means nothing."""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, NamedTuple

import numpy as np

from .. import dtypes
from .._data.block import new_block
from .._data.composite import RaggedTensorSpec, SparseTensorSpec
from .._data.spec import TensorShape
from .._graph.attrs import AttrTable
from .._graph.literals import to_array
from .._graph.symbol import TensorLike
from .._graph.tensor import apply, convert_to_tensor
from .arrays import expand_dims, reshape, shape as _shape
from .constants import cast, range as _range
from .features import FixedLenSequenceFeature, RaggedFeature, SparseFeature, VarLenFeature
from .ragged.tensor import RaggedTensor
from .reductions import reduce_prod
from .sparse import SparseTensor

_Fields = Iterator[tuple[str, Any]]


class _Field(NamedTuple):
    """What one description asks for."""

    dtype: dtypes.DType
    dims: list[int | None]  # its own, without those of lists of objects
    default: Any = None
    ragged: int = 0  # own axes 1 to so many have lists of several lengths
    row_splits_dtype: dtypes.DTypeLike = "int64"
    described: Any = None


# ---- schemas ----


def _walk(schema: Any, path: str) -> _Fields:
    """(path, description) of each field, in order."""
    if isinstance(schema, list):
        if len(schema) != 1:
            raise ValueError(
                f"field {path!r}: a list in a schema has one entry, which describes all of its "
                f"items, not {len(schema)}"
            )
        yield from _walk(schema[0], f"{path}[]")
    elif isinstance(schema, Mapping):
        yield from _walk_members(schema, path)
    else:
        yield path, schema


def _walk_members(schema: Mapping[str, Any], above: str) -> _Fields:
    if not isinstance(schema, Mapping) or not schema:
        raise ValueError(f"schema{above and f' of {above!r}'} is a dict with at least one entry")
    for name, field in schema.items():
        if not isinstance(name, str):
            raise TypeError(f"schema{above and f' of {above!r}'}: {name!r} is no name")
        yield from _walk(field, f"{above}.{name}" if above else name)


def _fill(schema: Any, values: Iterator[Any]) -> Any:
    """@values in the place of the descriptions."""
    if isinstance(schema, list):
        return _fill(schema[0], values)
    if isinstance(schema, Mapping):
        return {name: _fill(field, values) for name, field in schema.items()}
    return next(values)


def _lists(path: str) -> int:
    """How many lists of objects @path leads through."""
    return re.findall(r"\\.|\[\]", path, re.DOTALL).count("[]")


def _dims(path: str, given: Any) -> list[int | None]:
    shape = TensorShape(given)
    if shape.rank is None:
        raise ValueError(f"field {path!r} has a shape of unknown rank")
    return shape.as_list()


def _empty(dims: list[int | None], dtype: dtypes.DType) -> Any:
    return np.zeros([size or 0 for size in dims], dtype.as_numpy_dtype)


def _describe_feature(path: str, field: Any) -> _Field | None:
    """A field of any length that is empty if it is missing; None: @field is something else."""
    dims: list[int | None]
    splits: dtypes.DTypeLike = "int64"
    if isinstance(field, RaggedFeature):
        if field.partitions or field.value_key is not None:
            raise ValueError(
                f"field {path!r}: a RaggedFeature has no value_key and no partitions here; use "
                "RaggedTensorSpec for lists of lists"
            )
        dims, splits = [None], field.row_splits_dtype
    elif isinstance(field, VarLenFeature):
        dims = [None]
    elif isinstance(field, FixedLenSequenceFeature):
        if not field.allow_missing:
            raise ValueError(f"field {path!r}: a FixedLenSequenceFeature needs allow_missing=True")
        dims = [None, *_dims(path, field.shape)]
        if None in dims[1:]:
            raise ValueError(f"field {path!r}: the shape {field.shape} of its items is known")
    else:
        return None
    dtype = dtypes.as_dtype(field.dtype)
    return _Field(dtype, dims, _empty(dims, dtype), 0, splits, field)


def _describe(path: str, field: Any) -> _Field:
    feature = _describe_feature(path, field)
    if feature is not None:
        return feature
    if isinstance(field, RaggedTensorSpec):
        dims = _dims(path, field.shape)
        return _Field(field.dtype, dims, None, field.ragged_rank, field.row_splits_dtype, field)
    if hasattr(field, "shape") and hasattr(field, "dtype"):
        if not isinstance(field, SparseTensorSpec):
            default = getattr(field, "default_value", None)
            return _Field(dtypes.as_dtype(field.dtype), _dims(path, field.shape), default)
    elif not isinstance(field, SparseFeature):
        try:
            return _Field(dtypes.as_dtype(field), [])
        except (TypeError, ValueError):
            pass
    raise TypeError(
        f"field {path!r} is described by {field!r}; use a dtype, TensorSpec, RaggedTensorSpec, "
        "io.FixedLenFeature, VarLenFeature, RaggedFeature or FixedLenSequenceFeature, a dict for "
        "an object, or a list with one of these for a list"
    ) from None


# ---- values ----


class _Wanted:
    """A field as the operator sees it: with an axis for each list of objects in front."""

    def __init__(self, path: str, field: _Field) -> None:
        lists = _lists(path)
        self.field = field
        self.path = path
        self.dims = [*[None] * lists, *field.dims]
        unknown = [axis for axis, size in enumerate(self.dims) if size is None]
        # Within a list of objects each object may have a list of a length of its own.
        within = field.ragged if lists == 0 else lists - 1
        if lists > 0 and (None in field.dims or field.ragged > 0):
            within = max(unknown[-1], lists + field.ragged)
        self.ragged = within
        self.last = max([*unknown, within])
        self.open = bool(unknown) or within > 0

    def lengths(self, rank: int) -> int:
        """How many results have lengths of lists."""
        return 0 if not self.open else self.ragged if rank == 0 else self.last + 1

    def finished(self, values: Any, lengths: list[Any], sizes: list[Any]) -> Any:
        """What the description stands for; @sizes are those of the records."""
        if not self.open:
            return values
        dtype, feature = self.field.row_splits_dtype, self.field.described
        for row_lengths in reversed(lengths):
            values = RaggedTensor.from_row_lengths(values, cast(row_lengths, dtype), validate=False)
        for axis in range(len(sizes) - 1, 0, -1):
            rows = sizes[0] if axis == 1 else reduce_prod(sizes[:axis])
            values = RaggedTensor.from_uniform_row_length(values, sizes[axis], rows)
            values = values.with_row_splits_dtype(dtype)
        if isinstance(feature, VarLenFeature):
            return values.to_sparse() if isinstance(values, RaggedTensor) else _sparse(values)
        if isinstance(feature, FixedLenSequenceFeature) and isinstance(values, RaggedTensor):
            return values.to_tensor(feature.default_value)
        return values


def _sparse(values: Any) -> SparseTensor:
    """A vector, all of it."""
    size = _shape(values, "int64")
    return SparseTensor(expand_dims(_range(size[0]), 1), values, reshape(size, [1]))


def _attrs(wanted: list[_Wanted]) -> AttrTable:
    attrs = AttrTable()
    for i, one in enumerate(wanted):
        attrs.shape(f"shape{i}", one.dims)
        if one.field.default is not None:
            default = to_array(one.field.default, one.field.dtype)
            attrs.block(f"default{i}", new_block(1, [default]))
    if any(one.open for one in wanted):
        attrs.ints("ragged", [one.ragged for one in wanted])
    attrs.strings("names", [one.path for one in wanted])
    return attrs.ints("dtypes", [one.field.dtype.code for one in wanted])


def decode_json(records: TensorLike, schema: Mapping[str, Any], name: str | None = None) -> Any:
    r"""Turn records of JSON, as those of a file of JSON lines, into columns.

    Parameters
    ----------
    records : tensor_like of string
        One JSON object each, of any shape.
    schema : dict
        Name -> what the field holds:

        a dtype
            a scalar, which must be there;
        TensorSpec, FixedLenFeature
            a list, or lists of lists, of that shape; None is any length. The feature may have a
            default for a field that is missing or null;
        RaggedTensorSpec
            lists of lists that differ in length;
        RaggedFeature, VarLenFeature, FixedLenSequenceFeature
            a list of any length, empty if it is missing; of several records ragged, sparse or
            padded;
        a dict
            an object;
        a list with one of these
            a list of what it describes. A list of objects becomes a list for each field of them.

        A name "a.b" is the field b of the object a, "a[].b" that of each object in the list a. A
        dot or bracket that belongs to a name is written ``\.``, ``\[``, a backslash ``\\``. The
        dtypes are ints, float32, float64, bool and string.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    dict of Tensor, numpy.ndarray, RaggedTensor or SparseTensor
        As `schema` is nested: of each field a tensor of the shape of `records` followed by that of
        the field. Lists of any length of more than one record are a RaggedTensor.

    Raises
    ------
    ValueError, TypeError
        A field is not described as it can be.
    InvalidArgumentError
        A record is not JSON, or no object; a field is missing or null and has no default, or has
        another type or shape. The error names the field and the byte column of the record.

    Examples
    --------
    >>> lines = ['{"id": 1, "user": {"name": "Ann"}}', '{"id": 2, "user": {"name": null}}']
    >>> schema = {"id": mr.int64, "user.name": mr.io.FixedLenFeature([], mr.string, "?")}
    >>> mr.io.decode_json(lines, schema)
    {'id': array([1, 2]), 'user.name': array([b'Ann', b'?'], dtype=object)}
    >>> lines = ['{"buys": [{"id": 3, "n": 1}, {"id": 5, "n": 2}]}', '{"buys": []}']
    >>> mr.io.decode_json(lines, {"buys": [{"id": mr.int64, "n": mr.int32}]})
    {'buys': {'id': <RaggedTensor [[3, 5], []]>, 'n': <RaggedTensor [[1, 2], []]>}}
    """
    wanted = [_Wanted(path, _describe(path, field)) for path, field in _walk_members(schema, "")]
    text = convert_to_tensor(records, "string")
    results = apply("decode_json", [text], _attrs(wanted))
    if not any(one.open for one in wanted):
        return _fill(schema, iter(results))
    rank = len(text.shape)
    sizes = [] if rank < 2 else [_shape(text, "int64")[axis] for axis in range(rank)]
    values, lengths = results[: len(wanted)], iter(results[len(wanted) :])
    columns = [
        one.finished(value, [next(lengths) for _ in range(one.lengths(rank))], sizes)
        for one, value in zip(wanted, values)
    ]
    return _fill(schema, iter(columns))
