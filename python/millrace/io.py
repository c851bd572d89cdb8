"""Mirrors tf.io: TFRecord files, tf.Example, raw bytes, images, whole files."""

from __future__ import annotations

import ctypes
import os
import threading
from types import TracebackType
from typing import Any, Callable

from . import errors
from ._base.hints import missing_name as _missing_name
from ._capi import ffi as _ffi
from ._capi.ffi import byref, check, lib
from ._ops.absent import (
    decode_compressed as decode_compressed,
    decode_json_example as decode_json_example,
    decode_proto as decode_proto,
    deserialize_many_sparse as deserialize_many_sparse,
    encode_proto as encode_proto,
    match_filenames_once as match_filenames_once,
    matching_files as matching_files,
    serialize_many_sparse as serialize_many_sparse,
    serialize_sparse as serialize_sparse,
    write_file as write_file,
    write_graph as write_graph,
)
from ._ops.codecs import (
    decode_and_crop_jpeg as decode_and_crop_jpeg,
    decode_bmp as decode_bmp,
    decode_gif as decode_gif,
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
from ._ops.examples import (
    parse_example as parse_example,
    parse_sequence_example as parse_sequence_example,
    parse_single_example as parse_single_example,
    parse_single_sequence_example as parse_single_sequence_example,
)
from ._ops.features import (
    FixedLenFeature as FixedLenFeature,
    FixedLenSequenceFeature as FixedLenSequenceFeature,
    RaggedFeature as RaggedFeature,
    SparseFeature as SparseFeature,
    VarLenFeature as VarLenFeature,
)
from ._ops.json import decode_json as decode_json
from ._ops.serialized import (
    decode_base64 as decode_base64,
    encode_base64 as encode_base64,
    parse_tensor as parse_tensor,
    serialize_tensor as serialize_tensor,
)
from ._ops.tables import decode_csv as decode_csv
from ._ops.text import decode_raw as decode_raw

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "SparseFeature",
    "TFRecordOptions",
    "TFRecordWriter",
    "VarLenFeature",
    "decode_and_crop_jpeg",
    "decode_base64",
    "decode_bmp",
    "decode_compressed",
    "decode_csv",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_json",
    "decode_json_example",
    "decode_png",
    "decode_proto",
    "decode_raw",
    "decode_webp",
    "deserialize_many_sparse",
    "encode_base64",
    "encode_jpeg",
    "encode_png",
    "encode_proto",
    "extract_jpeg_shape",
    "is_jpeg",
    "match_filenames_once",
    "matching_files",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
    "parse_tensor",
    "read_file",
    "serialize_many_sparse",
    "serialize_sparse",
    "serialize_tensor",
    "write_file",
    "write_graph",
]


class TFRecordOptions:
    """How a TFRecord file is compressed, as ``tf.io.TFRecordOptions``.

    Parameters
    ----------
    compression_type : {None, "", "GZIP", "ZLIB", "ZSTD"}, TFRecordOptions, optional
        None and "": not compressed.
    compression_level : int, optional
        0 to 9, as zlib's; of ZSTD 0 to 19.
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
            "", "GZIP", "ZLIB" or "ZSTD".

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
        if kind not in _ffi.COMPRESSIONS:
            raise ValueError(
                f"compression type {kind!r}: TFRecord files are "
                f"{', '.join(map(repr, _ffi.COMPRESSIONS))}"
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
        if level is not None and abs(level) >= 1 << 31:
            raise errors.InvalidArgumentError(f"there is no compression level {level}")
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
        if hasattr(record, "SerializeToString"):
            raise TypeError(f"a record is bytes: write {type(record).__name__}.SerializeToString()")
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
