"""
The position of an iterator as bytes: elements that wait, the error behind them, the library's
state.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any, Iterable, Sequence

import numpy as np

from .. import errors
from .._capi import ffi as _ffi
from .._capi.ffi import lib
from .._data.block import object_array
from ..dtypes import DType, from_code

_STATE_MAGIC = b"MRPYST01"


def leaf_dtypes(spec: Any) -> list[DType]:
    """The element types of the components of a mr_spec."""
    return [
        from_code(lib.mr_spec_leaf(spec, i).contents.dtype) for i in range(lib.mr_spec_leaves(spec))
    ]


def encode_state(
    ended: bool,
    due: _ffi.Error,
    broke_off: str | None,
    dtypes: Iterable[DType],
    columns: Iterable[Sequence[Any]],
    inner: bytes,
) -> bytes:
    """
    magic, length of the header, header (JSON), payload, the library's state. Each pending value is
    its shape in the header and its bytes in the payload; a string value is the lengths of its items
    in the header. An error that is @due comes after them. Behind one that the pass @broke_off with
    the library gives that one ever again: it is not to be asked.
    """
    header: dict[str, Any] = {"ended": ended, "columns": [], "inner": len(inner)}
    if due.code:
        header["due"] = [due.code, due.traits, due.message.decode("latin-1")]
    if broke_off is not None:
        header["broke_off"] = broke_off
    payload: list[bytes] = []
    for dtype, column in zip(dtypes, columns):
        described: list[Any] = []
        for value in column:
            if dtype.kind == "s":
                value = getattr(value, "_encoded", value)  # of a dataset
                items = [value] if isinstance(value, bytes) else value.reshape(-1).tolist()
                described.append(
                    [
                        None if isinstance(value, bytes) else list(value.shape),
                        [len(i) for i in items],
                    ]
                )
                payload += items
            else:
                described.append(list(np.shape(value)))
                payload.append(np.asarray(value).tobytes())
        header["columns"].append({"dtype": dtype.name, "values": described})
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join([_STATE_MAGIC, struct.pack("<I", len(text)), text, *payload, inner])


def decode_state(
    state: Any, dtypes: Sequence[DType]
) -> tuple[bool, _ffi.Error, str | None, list[list[Any]], bytes]:
    """
    (ended, the error that is due, what it broke off with, columns of pending values, the library's
    state). InvalidArgumentError if it is damaged or of another spec.
    """
    if not isinstance(state, (bytes, bytearray, memoryview)):
        raise TypeError(
            "set_state() takes the bytes that get_state() gave, not " f"{type(state).__name__}"
        )
    state = bytes(state)
    try:
        if state[:8] != _STATE_MAGIC:
            raise ValueError("it does not begin as one")
        (size,) = struct.unpack_from("<I", state, 8)
        header = json.loads(state[12 : 12 + size])
        given = [c["dtype"] for c in header["columns"]]
        if given and given != [d.name for d in dtypes]:
            raise ValueError("it is of another dataset")
        at, columns = 12 + size, list[list[Any]]()
        for dtype, column in zip(dtypes, header["columns"]):
            values = []
            for described in column["values"]:
                value, at = _decode_value(state, at, dtype, described)
                values.append(value)
            columns.append(values)
        inner = state[at:]
        if len(inner) != header["inner"] or len({len(c) for c in columns}) > 1:
            raise ValueError("it is cut off")
        code, traits, message = header.get("due", (0, 0, ""))
        due = _ffi.Error(code, traits, message.encode("latin-1"))
        broke_off = header.get("broke_off")
        if not isinstance(broke_off, (str, type(None))):
            raise ValueError("it is damaged")
        return bool(header["ended"]), due, broke_off, columns, inner
    except (
        ValueError,
        LookupError,
        TypeError,
        ArithmeticError,
        AttributeError,
        RecursionError,
        struct.error,
    ) as e:
        raise errors.InvalidArgumentError(
            f"not the state of an iterator over this dataset: {e}"
        ) from None


def _decode_value(state: bytes, at: int, dtype: DType, described: Any) -> tuple[Any, int]:
    if dtype.kind == "s":
        shape, lengths = described
        items = []
        for length in lengths:
            items.append(state[at : at + length])
            at += length
        if shape is None:
            return items[0], at
        return object_array(items, shape), at
    count = math.prod(described)
    if count < 0:
        raise ValueError("it is damaged")
    # A copy: the state stays as it is.
    array = np.frombuffer(state, dtype.numpy_dtype(), count, at).reshape(described).copy()
    at += array.nbytes
    return (array[()] if not described else array), at
