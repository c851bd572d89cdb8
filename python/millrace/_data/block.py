"""Blocks as NumPy arrays, which the user may write to: nobody else reads their memory.

A block that nobody else holds is lent to NumPy: one Block owns the reference, each numeric column
becomes one base array whose memory object holds the Block, and elements are row views of that base.
Where the block is shared (a constant, what a cache keeps, part of a larger block) the base is a
copy. Read-only views would be no way out: torch.from_numpy() and whoever else goes by an address
write through them. Strings become Python bytes, which are copies.
"""

from __future__ import annotations

import ctypes
import datetime
import decimal
import fractions
import functools
import marshal
import os
import pathlib
import reprlib
from typing import Any, Collection, Iterable, Iterator, Mapping, Sequence, TypeAlias

import numpy as np
import numpy.typing as npt

from .._capi import ffi as _ffi
from .._capi.ffi import byref, check, lib
from ..dtypes import as_dtype, from_code, string

Array: TypeAlias = npt.NDArray[Any]


class Block(_ffi.Owner):
    """
    Room for one reference to a block. The library writes it in the call itself: no exception comes
    between the two.
    """

    def __init__(self) -> None:
        self.ptr = ctypes.c_void_p()
        unref = functools.partial(lib.mr_block_unref, self.ptr)  # NULL is fine
        self._release = _ffi.in_turn(unref, _ffi.clear(self.ptr))
        _blocks.add(self)


_blocks: _ffi.Living[Block] = _ffi.Living()


def _after_fork() -> None:
    for block in _blocks:
        block._release = int  # the parent's: never released here


os.register_at_fork(after_in_child=_after_fork)


class _Memory:
    """What np.asarray() makes a base array from: the memory, and the block that it lies in."""

    __slots__ = ("__array_interface__", "block")

    def __init__(
        self, block: Block, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.block = block
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            "typestr": dtype.str,
        }


def _view(block: Block, address: int | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array over @block's memory: not to be given away unless nobody else reads that."""
    if address is None or 0 in shape:
        return np.empty(shape, dtype)
    # __array_interface__ has no letter for it. The kind is asked first: a name is put together at
    # each use.
    if dtype.kind == "V" and dtype.name == "bfloat16":
        return _view(block, address, shape, np.dtype(np.uint16)).view(dtype)
    return np.asarray(_Memory(block, address, shape, dtype))


_U64: np.dtype[Any] = np.dtype(np.uint64)
_I64: np.dtype[Any] = np.dtype(np.int64)


_MARSHAL_MAX = 2**31 - 1


def _strings(block: Block, number: int, column: _ffi.Column, first: int, count: int) -> list[bytes]:
    """Values [first, first + count) of a string column, the block's @number-th."""
    if count == 0:
        return []
    if count > _MARSHAL_MAX:
        head = _strings(block, number, column, first, _MARSHAL_MAX)
        rest = _strings(block, number, column, first + _MARSHAL_MAX, count - _MARSHAL_MAX)
        return [*head, *rest]
    # One call makes all the objects: to cut them out of a buffer takes five times as long.
    size = lib.mr_block_marshal(block.ptr, number, first, count, None)
    room = np.empty(size, np.uint8)
    lib.mr_block_marshal(block.ptr, number, first, count, room.ctypes.data)
    values: list[bytes] = marshal.loads(room.data)
    return values


_OBJECT = np.dtype(object)


def object_array(values: list[Any], shape: Sequence[int]) -> Array:
    """@values as they are, in @shape."""
    array: Array = np.empty(0, object)
    # As for pickles: an assignment would first look at each value for what may be in it.
    array.__setstate__((1, tuple(shape), _OBJECT, False, values))
    return array


def _own(
    block: Block, address: int | None, shape: tuple[int, ...], dtype: np.dtype[Any], exclusive: bool
) -> Array:
    """
    An array with @block's numbers that nobody else reads: over its memory if it is @exclusive.
    """
    view = _view(block, address, shape, dtype)
    return view if exclusive else view.copy()


def _column_rows(
    block: Block, rows: int, number: int, column: _ffi.Column, exclusive: bool
) -> Iterable[Any]:
    """An iterable of the @rows values of one column, in the form in which elements carry them."""
    dtype = from_code(column.dtype)
    if column.kind == _ffi.COLUMN_FIXED:
        dims = tuple(column.dims[: column.rank])
        if dtype is not string:
            # The rows of a vector are NumPy scalars, which are copies.
            return _own(
                block, column.data, (rows,) + dims, dtype.numpy_dtype(), exclusive or not dims
            )
        count = rows * int(np.prod(dims, dtype=np.int64))
        values = _strings(block, number, column, 0, count)
        if column.rank == 0:
            return values
        return object_array(values, (rows,) + dims)
    starts = _view(block, column.starts, (rows + 1,), _U64).tolist()
    first = starts[0]
    row_dims = _view(block, column.row_dims, (rows, column.rank), _I64)
    shapes = [tuple(dims) for dims in row_dims.tolist()]
    if dtype is string:
        values = _strings(block, number, column, first, starts[-1] - first)
        base = object_array(values, (len(values),))
    else:
        numpy_dtype = dtype.numpy_dtype()
        address = None if column.data is None else column.data + first * numpy_dtype.itemsize
        base = _own(block, address, (starts[-1] - first,), numpy_dtype, exclusive)
    return [
        base[a - first : b - first].reshape(shape)
        for a, b, shape in zip(starts, starts[1:], shapes)
    ]


def block_columns(block: Block) -> tuple[int, list[Iterable[Any]]]:
    """Of a Block that holds one: (rows, one iterable a column)."""
    rows: int = lib.mr_block_rows(block.ptr)
    exclusive = lib.mr_block_exclusive(block.ptr)
    columns = [
        lib.mr_block_column(block.ptr, i).contents
        for i in range(lib.mr_block_column_count(block.ptr))
    ]
    return rows, [
        _column_rows(block, rows, number, column, exclusive)
        for number, column in enumerate(columns)
    ]


# ---- making blocks from arrays ----


short = reprlib.repr  # of what may have millions of values


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, os.PathLike):
        return os.fsencode(value)
    raise TypeError(f"{short(value)} is no string: {_what_to_give(value)}")


# Of pandas, which need not be here.
_MISSING = {"NAType", "NaTType"}


def _is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float) and np.isnan(value)
    return value is None or is_nan or type(value).__name__ in _MISSING


_ROWS_DIFFER = (
    "a list stands for one tensor, and this one has no shape, as its rows differ: "
    "mr.ragged.constant takes lists of several lengths"
)
_ONE_DTYPE = (
    "a list is one tensor, which has one dtype: give a tuple or a dict of columns; "
    "mr.experimental.from_list makes a dataset of a list of rows"
)


def _what_to_give(value: Any, beside_strings: bool = False) -> str:
    """In the place of @value, which is no string."""
    if _is_missing(value):
        return (
            "tensors have no place for what is missing. Fill it in (fillna of pandas), or leave "
            "the row out"
        )
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
        return (
            "tensors have no dates and times: give numbers, x.astype('int64'), or text, "
            "x.astype(str)"
        )
    if beside_strings and isinstance(value, (bool, int, float, np.generic)):
        return _ONE_DTYPE
    return "give numbers, x.astype('float64') or the like, or text, x.astype(str)"


def _strings_of(values: list[Any]) -> list[bytes]:
    """@values as bytes: millions of names of files take no step of the interpreter each."""
    kinds = set(map(type, values))
    if kinds <= {bytes}:
        return values
    if kinds == {str}:
        return list(map(str.encode, values))
    if kinds <= _PATHS:
        return list(map(os.fsencode, values))
    wrong = [i for i, v in enumerate(values) if not isinstance(v, (bytes, str, os.PathLike))]
    if any(isinstance(values[i], (list, tuple, np.ndarray)) for i in wrong):
        raise ValueError(_ROWS_DIFFER + f" ({short(values)})")
    for i in sorted(wrong, key=lambda i: not _is_missing(values[i]))[:1]:
        instead = _what_to_give(values[i], beside_strings=len(wrong) < len(values))
        raise TypeError(f"value {i} is {short(values[i])}, which is no string: {instead}")
    return list(map(_to_bytes, values))


def as_tensor_array(value: Any) -> Array:
    """
    @value as a NumPy array with TensorFlow's dtypes: Python integers are int32 (int64 where they do
    not fit), floats float32, str is UTF-8 bytes in an object array; arrays and NumPy scalars keep
    their dtype.
    """
    literal = not isinstance(value, (np.ndarray, np.generic)) and not hasattr(value, "__array__")
    array: Array
    if literal and isinstance(value, (bytes, str, os.PathLike)):
        array = np.empty((), object)
        array[()] = value  # np.array(b"a\0") would lose the zero
    else:
        array = np.asarray(value) if not literal else _from_literal(value)
    if isinstance(value, np.ma.MaskedArray) and np.any(value.mask):
        raise TypeError("values are masked: tensors have no place for what is missing. Fill it in")
    if array.dtype.kind in "mM":
        raise TypeError(
            f"tensors have no {array.dtype}: give numbers, x.astype('int64') (in the unit of the "
            "dtype), or text, x.astype(str)"
        )
    if array.dtype.kind in "SUO":
        return object_array(_strings_of(array.reshape(-1).tolist()), array.shape)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.names is not None:
        raise TypeError(
            "tensors have no fields: give a dict of them, {name: x[name] for name in x.dtype.names}"
        )
    as_dtype(array.dtype)  # refuse longdouble, ...
    return array


def tensor_arrays(what: str, leaves: Sequence[Any], places: Sequence[str]) -> list[Array]:
    """as_tensor_array() of the components of one element, or of a table: errors name them."""
    arrays = []
    for leaf, place in zip(leaves, places):
        try:
            arrays.append(as_tensor_array(leaf))
        except (TypeError, ValueError) as e:
            at = f"component {place}: " if place else ""
            raise type(e)(f"{what}: {at}{e}") from None
    return arrays


_NUMBERS = {bool, int, float}
_UNITS = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, fractions.Fraction)
_PATHS = {pathlib.PosixPath, pathlib.PurePosixPath}


def _holds_strings(value: Any) -> bool:
    while isinstance(value, (list, tuple)):
        if not value:
            return False
        value = value[0]
    if isinstance(value, np.ndarray) and value.dtype.kind in "OSU":
        return value.size > 0 and isinstance(value.flat[0], (bytes, str, os.PathLike))
    return isinstance(value, (bytes, str, os.PathLike))


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return not set(map(type, value)) <= _NUMBERS and any(map(_holds_arrays, value))
    return isinstance(value, (np.ndarray, np.generic))


def _way(value: Any) -> str:
    """What to do with what is no tensor, where one may know."""
    if isinstance(value, (Iterator, Collection)) and not isinstance(value, (list, tuple, Mapping)):
        return ": make a list of it first"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return ": mr.experimental.from_list makes a dataset of a list of dicts"
    return ""


def _from_literal(value: Any) -> Array:
    array: Array
    if _holds_strings(value):
        array = np.array(value, dtype=object)  # keeps trailing zero bytes
    else:
        try:
            array = np.array(value)
        except ValueError:  # ragged nesting
            raise ValueError(_ROWS_DIFFER + f" ({short(value)})") from None
        if array.dtype.kind in "SU" and array.size and not _holds_arrays(value):
            raise TypeError(f"a list of numbers holds strings ({short(value)}): {_ONE_DTYPE}")
    if array.dtype.kind == "O" and not _holds_strings(value):
        for one in array.reshape(-1):
            if _is_missing(one) and not isinstance(one, float):
                raise TypeError(f"a list of numbers holds {one!r}: {_what_to_give(one)}")
            if isinstance(one, _UNITS):
                raise TypeError(f"{short(one)} is no number: {_what_to_give(one)}")
        raise TypeError(
            f"cannot make a tensor of {type(value).__name__} ({short(value)}){_way(value)}"
        )
    if array.dtype.kind == "O":
        return array
    if _holds_arrays(value):
        return array  # a list of arrays keeps their dtype
    if array.dtype == np.int64:
        if array.size == 0 or (array.min() >= -(2**31) and array.max() < 2**31):
            array = array.astype(np.int32)
    elif array.dtype == np.float64:
        array = array.astype(np.float32)  # also the empty list
    return array


def _point_at(column: _ffi.Column, array: Array) -> list[Any]:
    """@column's values are @array's; what holds them until mr_block_new() has copied them."""
    if array.dtype.kind != "O":
        array = np.ascontiguousarray(array)
        column.data = array.ctypes.data
        return [array]
    values = array.reshape(-1).tolist()
    offsets = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(np.fromiter(map(len, values), np.uint64, len(values)), out=offsets[1:])
    heap = np.frombuffer(b"".join(values) or b"\0", np.uint8)  # no copy
    column.offsets, column.data = offsets.ctypes.data, heap.ctypes.data
    return [offsets, heap]


def _new_block(rows: int, table: ctypes.Array[_ffi.Column], columns: int) -> _ffi.ConstantHandle:
    ret, err = ctypes.c_void_p(), _ffi.Error()
    most = min(rows, 2**32 - 1)  # ctypes would cut off what is more: the library refuses it
    check(lib.mr_block_new(most, table, columns, byref(ret), byref(err)), err)
    return _ffi.ConstantHandle(ret)


def new_block(rows: int, arrays: Sequence[Array], per_row: bool = False) -> _ffi.ConstantHandle:
    """
    A block of constants: with @per_row row r of column k is @arrays[k][r]; otherwise one row that
    holds the arrays whole.
    """
    table = (_ffi.Column * max(1, len(arrays)))()
    keep: list[Any] = []
    for column, array in zip(table, arrays):
        dims = array.shape[1:] if per_row else array.shape
        if len(dims) > _ffi.RANK_MAX:
            raise ValueError(f"rank {len(dims)} is above the limit of {_ffi.RANK_MAX}")
        column.kind, column.dtype = _ffi.COLUMN_FIXED, as_dtype(array.dtype).code
        column.rank = len(dims)
        column.dims[: len(dims)] = dims
        keep += _point_at(column, array)
    return _new_block(rows, table, len(arrays))


def new_var_block(columns: Sequence[Sequence[Array]]) -> _ffi.ConstantHandle:
    """
    A block of constants whose rows have shapes of their own: row r of column k is @columns[k][r].
    The arrays of a column have one dtype and one rank; there is at least one row.
    """
    table = (_ffi.Column * max(1, len(columns)))()
    keep: list[Any] = []
    for column, arrays in zip(table, columns):
        rank = arrays[0].ndim
        if rank > _ffi.RANK_MAX:
            raise ValueError(f"rank {rank} is above the limit of {_ffi.RANK_MAX}")
        dims = np.array([array.shape for array in arrays], np.int64)
        starts = np.zeros(len(arrays) + 1, np.uint64)
        np.cumsum([array.size for array in arrays], out=starts[1:])
        column.kind, column.dtype = _ffi.COLUMN_VAR, as_dtype(arrays[0].dtype).code
        column.rank, column.row_dims, column.starts = rank, dims.ctypes.data, starts.ctypes.data
        keep += [dims, starts]
        keep += _point_at(column, np.concatenate([array.reshape(-1) for array in arrays]))
    return _new_block(len(columns[0]), table, len(columns))
