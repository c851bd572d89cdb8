"""
Operators of datasets, by handles: what stands below Dataset, and below tensor functions outside of
one.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Sequence

from .._capi import ffi as _ffi
from .._capi.ffi import byref, check, lib
from .._data.block import Block, block_columns
from .attrs import AttrTable
from .caller import caller

_SLICE_MS = 100  # a wait is cut into slices, so that Python's signal handlers run


def new_dataset(
    op: str,
    inputs: Sequence[_ffi.DatasetHandle] = (),
    attrs: AttrTable | None = None,
    functions: Sequence[_ffi.FunctionHandle] = (),
    graph: Any = None,
) -> _ffi.DatasetHandle:
    """
    Dataset operator @op of the library, at the user's line; @graph is the function being traced in which it stands.
    """
    table, count = (attrs or AttrTable()).as_array()
    ret, err = ctypes.c_void_p(), _ffi.Error()
    check(
        lib.mr_dataset_apply(
            op.encode(),
            _ffi.pointer_array(inputs),
            len(inputs),
            table,
            count,
            _ffi.pointer_array(functions),
            len(functions),
            graph.ptr if graph else None,
            byref(ret),
            byref(err),
        ),
        err,
    )
    handle = _ffi.DatasetHandle(ret)
    location, called = caller(of_dataset=True)
    check(lib.mr_dataset_set_location(ret, location, byref(err)), err)
    check(lib.mr_dataset_set_called(ret, called, byref(err)), err)
    return handle


class _Once(_ffi.Owner):
    """An iterator of the library, for one element."""

    def __init__(self) -> None:
        self.ptr = ctypes.c_void_p()
        self._release = _ffi.in_turn(functools.partial(lib.mr_iterator_free, self.ptr))


def first_element(dataset: _ffi.DatasetHandle) -> list[Any]:
    """
    The components of the first element of @dataset, which reads from no service and is not empty.
    """
    once, block, error = _Once(), Block(), _ffi.Error()
    options = _ffi.IteratorOptions(struct_size=ctypes.sizeof(_ffi.IteratorOptions))
    check(lib.mr_iterator_open(dataset.ptr, byref(options), byref(once.ptr), byref(error)), error)
    while not block.ptr:
        rc = check(
            lib.mr_iterator_next_block(once.ptr, 1, _SLICE_MS, byref(block.ptr), byref(error)),
            error,
        )
        assert rc != _ffi.MR_END
    return [next(iter(column)) for column in block_columns(block)[1]]
