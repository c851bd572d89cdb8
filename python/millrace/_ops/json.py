"""Records of JSON. `name` means nothing."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from .. import dtypes
from .._data.block import new_block
from .._data.spec import TensorShape
from .._graph.attrs import AttrTable
from .._graph.literals import to_array
from .._graph.symbol import TensorLike
from .._graph.tensor import apply

_Fields = Iterator[tuple[str, Any]]


def _walk(schema: Mapping[str, Any], above: str = "") -> _Fields:
    """(path, description) of each field, in order."""
    if not isinstance(schema, Mapping) or not schema:
        raise ValueError(f"schema{above and f' of {above!r}'} is a dict with at least one entry")
    for name, field in schema.items():
        if not isinstance(name, str):
            raise TypeError(f"schema{above and f' of {above!r}'}: {name!r} is no name")
        path = f"{above}.{name}" if above else name
        if isinstance(field, Mapping):
            yield from _walk(field, path)
        else:
            yield path, field


def _fill(schema: Mapping[str, Any], values: Iterator[Any]) -> dict[str, Any]:
    return {
        name: _fill(field, values) if isinstance(field, Mapping) else next(values)
        for name, field in schema.items()
    }


def _describe(path: str, field: Any) -> tuple[dtypes.DType, list[int | None], Any]:
    """(dtype, dims, default) of a field; all dims are known."""
    if not hasattr(field, "shape") or not hasattr(field, "dtype"):
        try:
            return dtypes.as_dtype(field), [], None
        except (TypeError, ValueError):
            raise TypeError(
                f"field {path!r} is described by {field!r}; use a dtype, TensorSpec or "
                "io.FixedLenFeature"
            ) from None
    shape = TensorShape(field.shape)
    if not shape.is_fully_defined():
        raise ValueError(f"field {path!r} has the shape {shape}: all of it must be known")
    return (dtypes.as_dtype(field.dtype), shape.as_list(), getattr(field, "default_value", None))


def decode_json(records: TensorLike, schema: Mapping[str, Any], name: str | None = None) -> Any:
    r"""Turn records of JSON, as those of a file of JSON lines, into columns.

    Parameters
    ----------
    records : tensor_like of string
        One JSON object each, of any shape.
    schema : dict
        Name -> what the field holds: a dtype (a scalar that must be there), a TensorSpec, or a
        FixedLenFeature, which may have a default. A name "a.b" is the field b of the object a; so
        is a dict in the dict. A dot that belongs to a name is written ``\.``, a backslash ``\\``.
        The dtypes are ints, float32, float64, bool and string.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    dict of Tensor or numpy.ndarray
        As `schema` is nested: of each field a tensor of the shape of `records` followed by that of
        the field.

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
    """
    attrs, codes, paths = AttrTable(), list[int](), list[str]()
    for i, (path, field) in enumerate(_walk(schema)):
        dtype, dims, default = _describe(path, field)
        paths.append(path)
        codes.append(dtype.code)
        attrs.shape(f"shape{i}", dims)
        if default is not None:
            attrs.block(f"default{i}", new_block(1, [to_array(default, dtype)]))
    attrs.strings("names", paths).ints("dtypes", codes)
    return _fill(schema, iter(apply("decode_json", [records], attrs)))
