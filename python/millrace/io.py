"""Mirrors tf.io: TFRecord files, tf.Example, raw bytes, images, whole files."""

from __future__ import annotations

import ctypes
import os
import threading
from types import TracebackType
from typing import Any, Callable, NamedTuple

import numpy as np

from . import errors
from ._base.hints import missing_name as _missing_name
from ._capi import ffi as _ffi
from ._capi.ffi import byref, check, lib
from ._data import structure as _structure
from ._data.block import new_block
from ._data.spec import ShapeLike, TensorShape
from ._graph.attrs import AttrTable
from ._graph.literals import to_array
from ._graph.symbol import TensorLike
from ._graph.tensor import apply
from ._ops.absent import decode_gif as decode_gif
from ._ops.codecs import (
    decode_and_crop_jpeg as decode_and_crop_jpeg,
    decode_bmp as decode_bmp,
    decode_image as decode_image,
    decode_jpeg as decode_jpeg,
    decode_png as decode_png,
    decode_webp as decode_webp,
    encode_jpeg as encode_jpeg,
    encode_png as encode_png,
    extract_jpeg_shape as extract_jpeg_shape,
    is_jpeg as is_jpeg,
    read_file as read_file,
)
from ._ops.tables import decode_csv as decode_csv
from ._ops.text import decode_raw as decode_raw
from .dtypes import DTypeLike, as_dtype

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "TFRecordOptions",
    "TFRecordWriter",
    "VarLenFeature",
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_csv",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_raw",
    "decode_webp",
    "encode_jpeg",
    "encode_png",
    "extract_jpeg_shape",
    "is_jpeg",
    "parse_example",
    "parse_single_example",
    "read_file",
]


class FixedLenFeature(NamedTuple):
    """A feature that has one shape in all examples, as ``tf.io.FixedLenFeature``.

    Attributes
    ----------
    shape : sequence of int
        The shape; its first dimension may be unknown.
    dtype : dtype_like
        int64, float32 or string.
    default_value : tensor_like, optional
        For examples without the feature. None: they are an error.

    Examples
    --------
    >>> mr.io.FixedLenFeature([], mr.int64)
    FixedLenFeature(shape=[], dtype=mr.int64, default_value=None)
    """

    shape: ShapeLike
    dtype: DTypeLike
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A feature with any number of values of one shape, as ``tf.io.FixedLenSequenceFeature``.

    Attributes
    ----------
    shape : sequence of int
        Of one value.
    dtype : dtype_like
        int64, float32 or string.
    allow_missing : bool
        Has to be True: an example without the feature has no values.
    default_value : tensor_like, optional
        What shorter ones of a vector of examples are padded with.

    Examples
    --------
    >>> mr.io.FixedLenSequenceFeature([], mr.int64, allow_missing=True).dtype
    mr.int64
    """

    shape: ShapeLike
    dtype: DTypeLike
    allow_missing: bool = False
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature with any number of values, as ``tf.io.VarLenFeature``.

    Attributes
    ----------
    dtype : dtype_like
        int64, float32 or string.

    Examples
    --------
    >>> mr.io.VarLenFeature(mr.int64)
    VarLenFeature(dtype=mr.int64)
    """

    dtype: DTypeLike


class RaggedFeature(NamedTuple):
    """A feature with any number of values, as ``tf.io.RaggedFeature``.

    Attributes
    ----------
    dtype : dtype_like
        int64, float32 or string.
    value_key, partitions, row_splits_dtype, validate
        Accepted and ignored.

    Examples
    --------
    >>> mr.io.RaggedFeature(mr.string).dtype
    mr.string
    """

    dtype: DTypeLike
    value_key: Any = None
    partitions: Any = ()
    row_splits_dtype: DTypeLike = "int32"
    validate: bool = False


_FIXED, _VAR, _RAGGED = 0, 1, 2


def _dims(name: str, shape: ShapeLike) -> list[int | None]:
    known = TensorShape(shape)
    if known.rank is None:
        raise ValueError(f"feature {name!r} needs a shape")
    return known.as_list()


def _feature_kind(name: str, feature: Any) -> tuple[int, list[int | None] | None, Any]:
    """(kind, dims, default value) of one feature description."""
    if isinstance(feature, FixedLenFeature):
        dims = _dims(name, feature.shape)
        if None in dims[1:]:
            raise ValueError(
                f"feature {name!r}: only the first dimension may be unknown, not " f"{tuple(dims)}"
            )
        return _FIXED, dims, feature.default_value
    if isinstance(feature, FixedLenSequenceFeature):
        if not feature.allow_missing:
            raise ValueError(
                f"feature {name!r}: a FixedLenSequenceFeature outside of a sequence "
                "needs allow_missing=True"
            )
        return _FIXED, [None, *_dims(name, feature.shape)], feature.default_value
    if isinstance(feature, VarLenFeature):
        return _VAR, None, None
    if isinstance(feature, RaggedFeature):
        return _RAGGED, None, None
    raise TypeError(
        f"feature {name!r} is described by {type(feature).__name__}; use "
        "FixedLenFeature, FixedLenSequenceFeature, VarLenFeature or RaggedFeature"
    )


def _parse(serialized: TensorLike, features: Any, rank: int, what: str) -> dict[str, Any]:
    if not isinstance(features, dict) or not features:
        raise ValueError(f"{what}: features is a dict with at least one entry")
    if isinstance(serialized, np.ndarray) and serialized.ndim != rank:
        raise ValueError(f"{what}: serialized has rank {serialized.ndim}, not {rank}")
    names = sorted(features)
    attrs, kinds, codes = AttrTable(), list[int](), list[int]()
    for i, name in enumerate(names):
        kind, dims, default = _feature_kind(name, features[name])
        dtype = as_dtype(features[name].dtype)
        if dtype.name not in ("int64", "float32", "string"):
            raise ValueError(
                f"feature {name!r}: a tf.Example holds int64, float32 and string, not "
                f"{dtype.name}: parse one of them and cast"
            )
        kinds.append(kind)
        codes.append(dtype.code)
        if dims is not None:
            attrs.shape(f"shape{i}", dims)
        if default is not None:
            attrs.block(f"default{i}", new_block(1, [to_array(default, dtype)]))
    attrs.strings("names", names).ints("kinds", kinds).ints("dtypes", codes)
    results = apply("parse_example", [serialized], attrs)
    parsed: dict[str, Any] = _structure.unflatten(
        {name: _structure.LEAF for name in names}, results
    )
    return parsed


def parse_single_example(
    serialized: TensorLike,
    features: dict[str, Any],
    example_names: Any = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Read one serialized tf.Example.

    Parameters
    ----------
    serialized : tensor_like of string
        A scalar.
    features : dict
        Name -> FixedLenFeature, FixedLenSequenceFeature, VarLenFeature or RaggedFeature.
    example_names : optional
        Accepted and ignored.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    dict of Tensor or numpy.ndarray
        Of each name what the example has. (Those of VarLenFeature and RaggedFeature are vectors;
        TensorFlow gives sparse and ragged tensors.)

    Raises
    ------
    ValueError
        A feature is not described as it can be.
    InvalidArgumentError
        It is no tf.Example, or lacks a feature, or has it with another shape or type.

    Examples
    --------
    >>> numbers = mr.train.Feature(int64_list=mr.train.Int64List(value=[3, 4]))
    >>> example = mr.train.Example(features=mr.train.Features(feature={"n": numbers}))
    >>> mr.io.parse_single_example(example.SerializeToString(),
    ...                            {"n": mr.io.FixedLenFeature([2], mr.int64)})
    {'n': array([3, 4])}
    """
    return _parse(serialized, features, 0, "parse_single_example")


def parse_example(
    serialized: TensorLike,
    features: dict[str, Any],
    example_names: Any = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Read a vector of serialized tf.Examples.

    Parameters
    ----------
    serialized : tensor_like of string
        A vector.
    features : dict
        Name -> FixedLenFeature, FixedLenSequenceFeature, VarLenFeature or RaggedFeature.
    example_names : optional
        Accepted and ignored.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    dict of Tensor or numpy.ndarray
        With one axis more than `parse_single_example` gives; what differs in length is padded.

    Raises
    ------
    ValueError
        A feature is not described as it can be.
    InvalidArgumentError
        One is no tf.Example, or lacks a feature, or has it with another shape or type.

    Examples
    --------
    >>> number = mr.train.Feature(int64_list=mr.train.Int64List(value=[3]))
    >>> example = mr.train.Example(features=mr.train.Features(feature={"n": number}))
    >>> mr.io.parse_example([example.SerializeToString()] * 2,
    ...                     {"n": mr.io.FixedLenFeature([], mr.int64)})
    {'n': array([3, 3])}
    """
    return _parse(serialized, features, 1, "parse_example")


class TFRecordOptions:
    """How a TFRecord file is compressed, as ``tf.io.TFRecordOptions``.

    Parameters
    ----------
    compression_type : {None, "", "GZIP", "ZLIB"}, TFRecordOptions, optional
        None and "": not compressed.
    compression_level : int, optional
        0 to 9, as zlib's.
    flush_mode, input_buffer_size, output_buffer_size, window_bits : optional
        Accepted and ignored.
    compression_method, mem_level, compression_strategy : optional
        Accepted and ignored.

    Raises
    ------
    ValueError
        There is no such compression.

    Examples
    --------
    >>> mr.io.TFRecordOptions("GZIP").compression_type
    'GZIP'
    """

    def __init__(
        self,
        compression_type: Any = None,
        flush_mode: Any = None,
        input_buffer_size: Any = None,
        output_buffer_size: Any = None,
        window_bits: Any = None,
        compression_level: int | None = None,
        compression_method: Any = None,
        mem_level: Any = None,
        compression_strategy: Any = None,
    ) -> None:
        self.compression_type = self.get_compression_type_string(compression_type)
        self.compression_level = compression_level

    @staticmethod
    def get_compression_type_string(options: Any) -> str:
        """Return the compression as a string.

        Parameters
        ----------
        options : str, TFRecordOptions or None
            What names one.

        Returns
        -------
        str
            "", "GZIP" or "ZLIB".

        Raises
        ------
        ValueError
            There is no such compression.

        Examples
        --------
        >>> mr.io.TFRecordOptions.get_compression_type_string(None)
        ''
        """
        kind: str = getattr(options, "compression_type", options) or ""
        if kind not in ("", "GZIP", "ZLIB"):
            raise ValueError(
                f'compression type {kind!r}: TFRecord files are "", "GZIP" or ' '"ZLIB"'
            )
        return kind


class TFRecordWriter:
    """Writes records to a TFRecord file, as ``tf.io.TFRecordWriter``. A context manager.

    The file has its name only when it is closed without an error: a reader never meets half a file.

    Parameters
    ----------
    path : str or path
        The name.
    options : str or TFRecordOptions, optional
        How it is compressed.

    Raises
    ------
    ValueError
        There is no such compression.
    NotFoundError, PermissionDeniedError
        The file cannot be made.

    Examples
    --------
    >>> with mr.io.TFRecordWriter("one.tfrecord.gz", "GZIP") as writer:
    ...     writer.write(b"a record")
    >>> list(mr.TFRecordDataset("one.tfrecord.gz", "GZIP"))
    [b'a record']
    """

    def __init__(self, path: str | bytes | os.PathLike[Any], options: Any = None) -> None:
        self._path = os.fsdecode(path)
        self._pid = os.getpid()
        self._opened = False
        self._lock = threading.Lock()
        self._closing, error = _ffi.Error(), _ffi.Error()  # what closing said
        kind = TFRecordOptions.get_compression_type_string(options)
        level = getattr(options, "compression_level", None)
        self._temporary = f"{self._path}.{self._pid}.tmp"
        self._writer: ctypes.c_void_p | None = ctypes.c_void_p()
        check(
            lib.mr_tfrecord_writer_open(
                os.fsencode(self._temporary),
                kind.encode(),
                -1 if level is None else level,
                byref(self._writer),
                byref(error),
            ),
            error,
        )
        self._opened = True

    def write(self, record: Any) -> None:
        """Append one record.

        Parameters
        ----------
        record : bytes-like or str
            Of a str the UTF-8 bytes are written.

        Raises
        ------
        FailedPreconditionError
            The writer is closed.

        Examples
        --------
        >>> with mr.io.TFRecordWriter("text.tfrecord") as writer:
        ...     writer.write("text")
        """
        record = record.encode() if isinstance(record, str) else bytes(memoryview(record))
        self._call(lib.mr_tfrecord_writer_write, record, len(record))

    def flush(self) -> None:
        """Hand what was written to the operating system.

        Raises
        ------
        FailedPreconditionError
            The writer is closed.

        Examples
        --------
        >>> with mr.io.TFRecordWriter("text.tfrecord") as writer:
        ...     writer.write("text")
        ...     writer.flush()
        """
        self._call(lib.mr_tfrecord_writer_flush)

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        error = _ffi.Error()
        with self._lock:
            if not self._writer:
                raise errors.FailedPreconditionError(
                    f"writing to '{self._path}': the writer is " "closed"
                )
            check(function(self._writer, *arguments, byref(error)), error)

    def close(self) -> None:
        """Finish the file and give it its name. Closed twice is closed.

        Raises
        ------
        MillraceError
            What was written did not all arrive; there is no file then.

        Examples
        --------
        >>> writer = mr.io.TFRecordWriter("empty.tfrecord")
        >>> writer.close()
        >>> list(mr.TFRecordDataset("empty.tfrecord"))
        []
        """
        self._finish(keep=True)

    def _finish(self, keep: bool) -> None:
        # A signal handler's exception may come between any two of these steps; then this is done
        # again.
        with self._lock:
            error = byref(self._closing)
            writer, self._writer = self._writer, None
            if writer:
                lib.mr_tfrecord_writer_close(writer, error)
            if not os.path.lexists(self._temporary):
                return
            if keep and self._closing.code == _ffi.MR_OK:
                os.replace(self._temporary, self._path)
            else:
                os.unlink(self._temporary)
            if keep:
                check(self._closing.code, self._closing)

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._finish(keep=kind is None)

    def __repr__(self) -> str:
        state = "open" if self._writer else "closed"
        return f"<millrace.io.TFRecordWriter {self._path!r}, {state}>"

    def __del__(self) -> None:
        # A forked child leaves the file to its parent.
        if getattr(self, "_writer", None) and os.getpid() == self._pid:
            self._finish(keep=self._opened)


__getattr__ = _missing_name(__name__)
