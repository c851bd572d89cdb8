"""Arguments of an operator, as the library takes them."""

from __future__ import annotations

import ctypes
from typing import Any, Iterable, Sequence

import numpy as np

from .. import errors
from .._capi import ffi as _ffi
from .._data.block import new_block
from .._data.spec import integer
from ..dtypes import as_dtype
from .symbol import current_graph


def _int64(name: str, value: Any) -> int:
    """ctypes would cut off what is too large."""
    number = integer(name, value)
    if not -(1 << 63) <= number < 1 << 63:
        raise errors.InvalidArgumentError(
            f"{name} is {number}, which is no signed integer of 64 bits"
        )
    return number


class AttrTable:
    """
    An array of struct mr_attr under construction, with what it points at. Each method adds one and
    returns the table.
    """

    def __init__(self) -> None:
        self._rows: list[_ffi.Attr] = []
        self._keep: list[Any] = []

    def _add(self, name: str, kind: Any, **fields: Any) -> AttrTable:
        attr = _ffi.Attr(name=name.encode(), kind=kind)
        for field, value in fields.items():
            setattr(attr, field, value)
        self._rows.append(attr)
        return self

    def int(self, name: str, value: Any) -> AttrTable:
        return self._add(name, _ffi.ATTR_INT, i=_int64(name, value))

    def bool(self, name: str, value: Any) -> AttrTable:
        return self._add(name, _ffi.ATTR_BOOL, i=1 if value else 0)

    def float(self, name: str, value: Any) -> AttrTable:
        return self._add(name, _ffi.ATTR_FLOAT, f=value)

    def bytes(self, name: str, value: Any) -> AttrTable:
        value = value.encode() if isinstance(value, str) else value
        self._keep.append(value)
        return self._add(name, _ffi.ATTR_BYTES, bytes=value, size=len(value))

    def dtype(self, name: str, value: Any) -> AttrTable:
        return self._add(name, _ffi.ATTR_DTYPE, i=as_dtype(value).code)

    def _ints(self, name: str, kind: Any, values: Sequence[Any]) -> AttrTable:
        array = (ctypes.c_int64 * max(1, len(values)))(*values)
        self._keep.append(array)
        return self._add(name, kind, ints=array, count=len(values))

    def ints(self, name: str, values: Iterable[Any]) -> AttrTable:
        return self._ints(name, _ffi.ATTR_INTS, [_int64(name, v) for v in values])

    def shape(self, name: str, dims: Iterable[Any]) -> AttrTable:
        return self._ints(
            name, _ffi.ATTR_SHAPE, [-1 if d is None else _int64(name, d) for d in dims]
        )

    def block(self, name: str, block: _ffi.ConstantHandle) -> AttrTable:
        self._keep.append(block)
        return self._add(name, _ffi.ATTR_BLOCK, block=block.ptr)

    def strings(self, name: str, values: Sequence[Any]) -> AttrTable:
        array = np.empty(len(values), object)
        array[:] = [v.encode() if isinstance(v, str) else v for v in values]
        block = new_block(len(values), [array], per_row=True)
        self._keep.append(block)
        return self._add(name, _ffi.ATTR_STRINGS, block=block.ptr)

    def value(self, name: str, tensor: Any) -> AttrTable:
        """A value of the function around: @tensor, made visible in the current one."""
        graph = current_graph()
        if graph is None:
            raise ValueError(
                f"argument '{name}' is a symbolic tensor, which exists only while its "
                "function is traced"
            )
        return self._add(name, _ffi.ATTR_VALUE, i=graph.convert(tensor).index)

    def as_array(self) -> tuple[Any, Any]:
        """(struct mr_attr *, how many); NULL for none."""
        return ((_ffi.Attr * len(self._rows))(*self._rows) if self._rows else None), len(self._rows)
