"""The C library: where it is, what it declares, how its errors arrive.

The tables below repeat <millrace/*.h>; tests/e2e/test_ffi.py compares the two. Handles are plain
c_void_p; the small owner classes at the end say who releases what.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import operator
import os
import pathlib
import shutil
import weakref
from typing import Any, Callable, Generic, Iterator, Sequence, TypeVar
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int8,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)

from .. import errors
from .._version import __version__

MR_OK, MR_END, MR_TIMEOUT = 0, 1, 2
RANK_MAX = 8
CARDINALITY_INFINITE, CARDINALITY_UNKNOWN = -1, -2

(
    ATTR_INT,
    ATTR_FLOAT,
    ATTR_BOOL,
    ATTR_BYTES,
    ATTR_DTYPE,
    ATTR_SHAPE,
    ATTR_INTS,
    ATTR_BLOCK,
    ATTR_STRINGS,
    ATTR_VALUE,
) = range(1, 11)
COLUMN_FIXED, COLUMN_VAR = 1, 2
# Of whole files; ZSTD: Zstandard frames, which TensorFlow does not know.
COMPRESSIONS = ("", "GZIP", "ZLIB", "ZSTD")


class Error(Structure):
    """mr_error"""

    _fields_ = [("code", c_int32), ("traits", c_uint32), ("message", c_char * 248)]
    code: int
    traits: int
    message: bytes


class LeafSpec(Structure):
    """struct mr_leaf_spec"""

    _fields_ = [
        ("dtype", c_uint8),
        ("rank", c_int8),
        ("kind", c_uint8),
        ("reserved", c_uint8 * 5),
        ("dims", c_int64 * RANK_MAX),
    ]
    dtype: int
    rank: int
    dims: Any


class Column(Structure):
    """struct mr_column"""

    _fields_ = [
        ("kind", c_uint8),
        ("dtype", c_uint8),
        ("rank", c_uint8),
        ("reserved", c_uint8 * 5),
        ("dims", c_int64 * RANK_MAX),
        ("row_dims", c_void_p),
        ("starts", c_void_p),
        ("offsets", c_void_p),
        ("data", c_void_p),
    ]
    kind: int
    dtype: int
    rank: int
    dims: Any
    row_dims: Any
    starts: Any
    offsets: Any
    data: Any


class Attr(Structure):
    """struct mr_attr"""

    _fields_ = [
        ("name", c_char_p),
        ("kind", c_int32),
        ("count", c_int32),
        ("i", c_int64),
        ("f", c_double),
        ("bytes", c_char_p),
        ("size", c_size_t),
        ("ints", POINTER(c_int64)),
        ("block", c_void_p),
        ("reserved", c_uint64 * 3),
    ]


class Credentials(Structure):
    """struct mr_service_credentials"""

    _fields_ = [
        ("size", c_size_t),
        ("ca_file", c_char_p),
        ("cert_file", c_char_p),
        ("key_file", c_char_p),
        ("server_name", c_char_p),
        ("token_file", c_char_p),
    ]


class IteratorOptions(Structure):
    """struct mr_iterator_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("seed", c_uint64),
        ("memory_budget_bytes", c_uint64),
        ("threads", c_uint32),
    ]
    threads: int
    memory_budget_bytes: int


class Losses(Structure):
    """struct mr_losses"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("lost_splits", c_uint64),
        ("lost_elements", c_uint64),
        ("quarantined_splits", c_uint64),
        ("repeated_splits", c_uint64),
        ("lost_workers", c_uint64),
        ("incomplete_reads", c_uint64),
        ("skipped_elements", c_uint64),
        ("abandoned_elements", c_uint64),
    ]
    lost_splits: Any
    lost_elements: int
    quarantined_splits: int
    repeated_splits: int
    lost_workers: int
    incomplete_reads: int
    skipped_elements: int
    abandoned_elements: int


class SavedOptions(Structure):
    """struct mr_saved_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("compression", c_char_p),
        ("chunk_bytes", c_uint64),
        ("sharded", c_bool),
        ("exclusive", c_bool),
        ("record_bytes", c_uint64),
    ]
    compression: bytes
    chunk_bytes: int
    sharded: bool
    exclusive: bool


class SavedChunk(Structure):
    """struct mr_saved_chunk"""

    _fields_ = [
        ("file", c_char_p),
        ("shard", c_int64),
        ("rows", c_uint64),
        ("bytes", c_uint64),
        ("chain", c_int64),
    ]
    file: bytes
    shard: int
    chain: int


# What the headers call these structures: the test compares size and offsets.
STRUCTURES: dict[str, type[Structure]] = {
    "mr_error": Error,
    "struct mr_leaf_spec": LeafSpec,
    "struct mr_column": Column,
    "struct mr_attr": Attr,
    "struct mr_service_credentials": Credentials,
    "struct mr_iterator_options": IteratorOptions,
    "struct mr_losses": Losses,
    "struct mr_saved_options": SavedOptions,
    "struct mr_saved_chunk": SavedChunk,
}

_P, _PP, _ERR = c_void_p, POINTER(c_void_p), POINTER(Error)

FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    # base.h
    "mr_version": (c_char_p, []),
    "mr_code_name": (c_char_p, [c_int]),
    # spec.h
    "mr_dtype_size": (c_size_t, [c_int]),
    "mr_dtype_name": (c_char_p, [c_int]),
    "mr_spec_new": (c_int, [POINTER(LeafSpec), c_size_t, c_char_p, _PP, _ERR]),
    "mr_spec_unref": (None, [_P]),
    "mr_spec_leaves": (c_size_t, [_P]),
    "mr_spec_leaf": (POINTER(LeafSpec), [_P, c_size_t]),
    "mr_spec_structure": (c_char_p, [_P]),
    # block.h
    "mr_block_unref": (None, [_P]),
    "mr_block_rows": (c_uint32, [_P]),
    "mr_block_column_count": (c_uint32, [_P]),
    "mr_block_exclusive": (c_bool, [_P]),
    "mr_block_column": (POINTER(Column), [_P, c_uint32]),
    "mr_block_marshal": (c_size_t, [_P, c_uint32, c_uint64, c_uint64, _P]),
    "mr_block_new": (c_int, [c_uint32, POINTER(Column), c_uint32, _PP, _ERR]),
    # tfrecord.h
    "mr_tfrecord_writer_open": (c_int, [c_char_p, c_char_p, c_int, _PP, _ERR]),
    "mr_tfrecord_writer_write": (c_int, [_P, c_char_p, c_size_t, _ERR]),
    "mr_tfrecord_writer_flush": (c_int, [_P, _ERR]),
    "mr_tfrecord_writer_close": (c_int, [_P, _ERR]),
    # table.h
    "mr_table_describe": (c_int, [c_char_p, c_char_p, _PP, _ERR]),
    # saved.h
    "mr_saved_writer_open": (
        c_int,
        [c_char_p, _P, POINTER(c_uint8), POINTER(SavedOptions), _PP, _ERR],
    ),
    "mr_saved_writer_write": (c_int, [_P, _P, _ERR]),
    "mr_saved_writer_commit": (c_int, [_P, _ERR]),
    "mr_saved_writer_free": (None, [_P]),
    "mr_saved_open": (c_int, [c_char_p, _PP, _ERR]),
    "mr_saved_free": (None, [_P]),
    "mr_saved_spec": (_P, [_P]),
    "mr_saved_fingerprint": (POINTER(c_uint8), [_P]),
    "mr_saved_rows": (c_uint64, [_P]),
    "mr_saved_chunks": (c_size_t, [_P]),
    "mr_saved_chunk_get": (None, [_P, c_size_t, POINTER(SavedChunk)]),
    # dataset.h
    "mr_dataset_apply": (
        c_int,
        [c_char_p, _PP, c_size_t, POINTER(Attr), c_size_t, _PP, c_size_t, _P, _PP, _ERR],
    ),
    "mr_dataset_set_called": (c_int, [_P, c_char_p, _ERR]),
    "mr_dataset_set_location": (c_int, [_P, c_char_p, _ERR]),
    "mr_dataset_unref": (None, [_P]),
    "mr_dataset_spec": (_P, [_P]),
    "mr_dataset_cardinality": (c_int64, [_P]),
    "mr_dataset_fingerprint": (c_int, [_P, POINTER(c_uint8), _ERR]),
    "mr_dataset_serialize": (c_int, [_P, _PP, POINTER(c_size_t), _ERR]),
    "mr_dataset_parse": (c_int, [c_char_p, c_size_t, _PP, _ERR]),
    "mr_free": (None, [_P]),
    "mr_builder_new": (c_int, [_P, _P, _PP, _ERR]),
    "mr_builder_add": (
        c_int,
        [
            _P,
            c_char_p,
            POINTER(c_uint32),
            c_size_t,
            POINTER(Attr),
            c_size_t,
            _PP,
            c_size_t,
            POINTER(c_uint32),
            c_size_t,
            POINTER(c_size_t),
            _ERR,
        ],
    ),
    "mr_builder_set_called": (c_int, [_P, c_char_p, _ERR]),
    "mr_builder_set_location": (c_int, [_P, c_char_p, _ERR]),
    "mr_builder_constant": (c_int, [_P, _P, POINTER(c_uint32), _ERR]),
    "mr_builder_capture": (c_int, [_P, c_uint32, POINTER(c_uint32), _ERR]),
    "mr_builder_value_spec": (c_int, [_P, c_uint32, POINTER(LeafSpec), _ERR]),
    "mr_builder_finish": (c_int, [_P, POINTER(c_uint32), c_size_t, c_char_p, _PP, _ERR]),
    "mr_builder_finish_dataset": (c_int, [_P, _P, _PP, _ERR]),
    "mr_builder_free": (None, [_P]),
    "mr_function_unref": (None, [_P]),
    # iterator.h
    "mr_iterator_open": (c_int, [_P, POINTER(IteratorOptions), _PP, _ERR]),
    "mr_iterator_next_block": (c_int, [_P, c_uint32, c_int, _PP, _ERR]),
    "mr_iterator_losses": (c_int, [_P, POINTER(Losses), _ERR]),
    "mr_iterator_skipped": (c_int, [_P, POINTER(c_uint64), _ERR]),
    "mr_iterator_ignored_errors": (c_int, [_P, POINTER(c_uint64), _ERR]),
    "mr_iterator_round": (c_int, [_P, POINTER(c_uint64), _ERR]),
    "mr_iterator_give_back": (None, [_P, c_uint64]),
    "mr_iterator_cancel": (None, [_P]),
    "mr_iterator_save": (c_int, [_P, _PP, POINTER(c_size_t), _ERR]),
    "mr_iterator_restore": (c_int, [_P, c_char_p, c_size_t, _ERR]),
    "mr_iterator_free": (None, [_P]),
    "mr_iterator_close": (None, [_P, POINTER(Losses)]),
    # service.h
    "mr_service_register": (c_int, [c_char_p, _P, c_char_p, c_char_p, c_int, _PP, _ERR]),
    "mr_service_dataset_spec": (c_int, [c_char_p, c_char_p, c_int, _PP, POINTER(c_int64), _ERR]),
    "mr_service_set_credentials": (c_int, [POINTER(Credentials), _ERR]),
    "mr_service_check_read": (c_int, [POINTER(Attr), c_size_t, _ERR]),
    "mr_service_status": (c_int, [c_char_p, c_int, _PP, _ERR]),
    "mr_service_delete_dataset": (c_int, [c_char_p, c_char_p, c_int, _ERR]),
    "mr_service_delete_job": (c_int, [c_char_p, c_char_p, c_bool, c_int, _ERR]),
}


_BESIDE = pathlib.Path(__file__).parent.parent / "_lib"  # what is installed with the package


def _load() -> tuple[ctypes.CDLL, str]:
    """
    The library, from MILLRACE_LIBRARY, from beside the package, or wherever the loader finds it.
    """
    named = os.environ.get("MILLRACE_LIBRARY")
    beside = _BESIDE / "libmillrace.so.0"
    if named:
        path = named
    elif beside.exists():
        path = str(beside)
    else:
        path = "libmillrace.so.0"
    try:
        library = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(
            f"millrace: loading '{path}': {e}. Looked at: the variable MILLRACE_LIBRARY, {beside}, "
            "the loader's directories. Install the library (make install) or the package with it "
            "(pip install ./python)."
        ) from None
    for name, (restype, argtypes) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(
                f"millrace: '{path}' has no {name}(): it is not the libmillrace of "
                f"version {__version__}"
            ) from None
        function.restype = restype
        function.argtypes = argtypes
    found: str = library.mr_version().decode()
    if found != __version__:
        raise ImportError(
            f"millrace: the package is version {__version__}, the library '{path}' "
            f"is {found}: install both from one source"
        )
    return library, path


lib, library_path = _load()


def own_program() -> str | None:
    """
    The `millrace` program of this package: MILLRACE_PROGRAM, beside the package; None: it has none.
    """
    beside = _BESIDE / "millrace"
    return os.environ.get("MILLRACE_PROGRAM") or (str(beside) if beside.exists() else None)


def program_path() -> str:
    """The `millrace` program: this package's own, or that of PATH."""
    found = own_program() or shutil.which("millrace")
    if found is None:
        raise errors.NotFoundError(
            "no 'millrace' program: looked at the variable MILLRACE_PROGRAM, "
            f"{_BESIDE / 'millrace'}, and PATH"
        )
    return found


def check(rc: int, err: Error) -> int:
    """Raise what a failed call says; pass notes (MR_END, MR_TIMEOUT) through."""
    if rc < 0:
        raise errors.from_code(rc, err.message.decode("utf-8", "replace"), err.traits)
    return rc


def take_bytes(pointer: Any, size: int) -> bytes:
    """Copy @size bytes that are to be released with mr_free()."""
    try:
        return ctypes.string_at(pointer, size)
    finally:
        lib.mr_free(pointer)


# What frees a handle is made of parts that are written in C. Where Python calls a function of its
# own it may run a signal handler first, and what that raises in a destructor is printed and
# dropped: a Ctrl-C that came then would be lost.


class Owner:
    """Calls its `_release` when it goes, without a function of Python in between."""

    _release: Callable[[], Any] = int  # until it is set, an exception may come; then nothing
    __del__ = property(operator.attrgetter("_release"))


def in_turn(*steps: Callable[[], Any]) -> Callable[[], Any]:
    """Calls @steps, once."""
    return functools.partial(collections.deque, map(operator.call, steps), 0)


def clear(room: Any) -> Callable[[], Any]:
    """Makes @room NULL: of a cycle, what refers to it may be asked after it."""
    return functools.partial(ctypes.memset, ctypes.addressof(room), 0, ctypes.sizeof(room))


_T = TypeVar("_T")


class Living(Generic[_T]):
    """
    Those that were added and are still there. A WeakSet would call a function of Python when one
    goes.
    """

    def __init__(self) -> None:
        self._refs: set[weakref.ref[_T]] = set()

    def add(self, one: _T) -> None:
        self._refs.add(weakref.ref(one, self._refs.discard))

    def __iter__(self) -> Iterator[_T]:
        return iter([one for one in [ref() for ref in self._refs.copy()] if one is not None])


class _Handle(Owner):
    """Owns one reference."""

    _free: Callable[[Any], None]

    def __init__(self, ptr: Any) -> None:
        self.ptr = c_void_p(ptr.value if isinstance(ptr, c_void_p) else ptr)
        self._release = in_turn(functools.partial(self._free, self.ptr), clear(self.ptr))


class _GraphHandle(_Handle):
    def __init__(self, ptr: Any) -> None:
        super().__init__(ptr)
        self.services: frozenset[str] = frozenset()  # targets of those that are read in it


class DatasetHandle(_GraphHandle):
    _free = staticmethod(lib.mr_dataset_unref)


class SpecHandle(_Handle):
    _free = staticmethod(lib.mr_spec_unref)


class FunctionHandle(_GraphHandle):
    _free = staticmethod(lib.mr_function_unref)


class BuilderHandle(_Handle):
    _free = staticmethod(lib.mr_builder_free)


class ConstantHandle(_Handle):
    """A block that was made here."""

    _free = staticmethod(lib.mr_block_unref)


def pointer_array(handles: Sequence[_Handle]) -> Any:
    """(void *[n]) of handles, as the library takes them; NULL for none."""
    if not handles:
        return None
    return (c_void_p * len(handles))(*[h.ptr for h in handles])


__all__ = ["lib", "byref", "check"]
