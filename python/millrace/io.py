"""Mirrors tf.io: TFRecord files, tf.Example, raw bytes."""

import collections
import ctypes
import os
import threading

import numpy as np

from . import _ffi, _structure, errors
from ._hints import missing_name as _missing_name
from ._absent import decode_image, decode_jpeg, decode_png, read_file  # noqa: F401
from ._block import new_block
from ._ffi import byref, check, lib
from ._ops import decode_raw  # noqa: F401
from ._spec import TensorShape
from ._tensor import AttrTable, apply, to_array
from .dtypes import as_dtype

__all__ = ["FixedLenFeature", "FixedLenSequenceFeature", "RaggedFeature", "TFRecordOptions", "TFRecordWriter",
           "VarLenFeature", "decode_image", "decode_jpeg", "decode_png", "decode_raw", "parse_example",
           "parse_single_example", "read_file"]

FixedLenFeature = collections.namedtuple("FixedLenFeature", ["shape", "dtype", "default_value"], defaults=[None])
FixedLenSequenceFeature = collections.namedtuple(
    "FixedLenSequenceFeature", ["shape", "dtype", "allow_missing", "default_value"], defaults=[False, None])
VarLenFeature = collections.namedtuple("VarLenFeature", ["dtype"])
RaggedFeature = collections.namedtuple(
    "RaggedFeature", ["dtype", "value_key", "partitions", "row_splits_dtype", "validate"],
    defaults=[None, (), "int32", False])

_FIXED, _VAR, _RAGGED = 0, 1, 2


def _dims(name, shape):
    shape = TensorShape(shape)
    if shape.rank is None:
        raise ValueError(f"feature {name!r} needs a shape")
    return shape.as_list()


def _feature_kind(name, feature):
    """(kind, dims, default value) of one feature description."""
    if isinstance(feature, FixedLenFeature):
        dims = _dims(name, feature.shape)
        if None in dims[1:]:
            raise ValueError(f"feature {name!r}: only the first dimension may be unknown, not {tuple(dims)}")
        return _FIXED, dims, feature.default_value
    if isinstance(feature, FixedLenSequenceFeature):
        if not feature.allow_missing:
            raise ValueError(f"feature {name!r}: a FixedLenSequenceFeature outside of a sequence needs allow_missing=True")
        return _FIXED, [None] + _dims(name, feature.shape), feature.default_value
    if isinstance(feature, VarLenFeature):
        return _VAR, None, None
    if isinstance(feature, RaggedFeature):
        return _RAGGED, None, None
    raise TypeError(f"feature {name!r} is described by {type(feature).__name__}; use FixedLenFeature, "
                    "FixedLenSequenceFeature, VarLenFeature or RaggedFeature")


def _parse(serialized, features, rank, what):
    if not isinstance(features, dict) or not features:
        raise ValueError(f"{what}: features is a dict with at least one entry")
    if isinstance(serialized, np.ndarray) and serialized.ndim != rank:
        raise ValueError(f"{what}: serialized has rank {serialized.ndim}, not {rank}")
    names = sorted(features)
    attrs, kinds, codes = AttrTable(), [], []
    for i, name in enumerate(names):
        kind, dims, default = _feature_kind(name, features[name])
        dtype = as_dtype(features[name].dtype)
        if dtype.name not in ("int64", "float32", "string"):
            raise ValueError(f"feature {name!r}: a tf.Example holds int64, float32 and string, not {dtype.name}: "
                             "parse one of them and cast")
        kinds.append(kind)
        codes.append(dtype.code)
        if dims is not None:
            attrs.shape(f"shape{i}", dims)
        if default is not None:
            attrs.block(f"default{i}", new_block(1, [to_array(default, dtype)]))
    attrs.strings("names", names).ints("kinds", kinds).ints("dtypes", codes)
    results = apply("parse_example", [serialized], attrs)
    return _structure.unflatten({name: _structure.LEAF for name in names}, results)


def parse_single_example(serialized, features, example_names=None, name=None):
    """One serialized tf.Example (a scalar) as a dict of tensors."""
    return _parse(serialized, features, 0, "parse_single_example")


def parse_example(serialized, features, example_names=None, name=None):
    """A vector of serialized tf.Examples as a dict of tensors with one axis more."""
    return _parse(serialized, features, 1, "parse_example")


class TFRecordOptions:
    """How a TFRecord file is compressed: "", "GZIP" or "ZLIB"."""

    def __init__(self, compression_type=None, flush_mode=None, input_buffer_size=None, output_buffer_size=None,
                 window_bits=None, compression_level=None, compression_method=None, mem_level=None,
                 compression_strategy=None):
        self.compression_type = self.get_compression_type_string(compression_type)
        self.compression_level = compression_level

    @staticmethod
    def get_compression_type_string(options):
        """The compression as a string: "", "GZIP" or "ZLIB". @options is such a string, TFRecordOptions or None."""
        kind = getattr(options, "compression_type", options) or ""
        if kind not in ("", "GZIP", "ZLIB"):
            raise ValueError(f"compression type {kind!r}: TFRecord files are \"\", \"GZIP\" or \"ZLIB\"")
        return kind


class TFRecordWriter:
    """
    Writes records to a TFRecord file. A context manager. The file has its name only when it is closed without an error:
    a reader never meets half a file.
    """

    def __init__(self, path, options=None):
        self._path = os.fsdecode(path)
        self._pid = os.getpid()
        self._opened = False
        self._lock = threading.Lock()
        self._closing, error = _ffi.Error(), _ffi.Error()  # what closing said
        kind = TFRecordOptions.get_compression_type_string(options)
        level = getattr(options, "compression_level", None)
        self._temporary = f"{self._path}.{self._pid}.tmp"
        self._writer = ctypes.c_void_p()
        check(lib.mr_tfrecord_writer_open(os.fsencode(self._temporary), kind.encode(), -1 if level is None else level,
                                          byref(self._writer), byref(error)), error)
        self._opened = True

    def write(self, record):
        """Append one record: bytes, or a str, of which the UTF-8 bytes are written."""
        record = record.encode() if isinstance(record, str) else bytes(memoryview(record))
        self._call(lib.mr_tfrecord_writer_write, record, len(record))

    def flush(self):
        """Hand what was written to the operating system."""
        self._call(lib.mr_tfrecord_writer_flush)

    def _call(self, function, *arguments):
        error = _ffi.Error()
        with self._lock:
            if not self._writer:
                raise errors.FailedPreconditionError(f"writing to '{self._path}': the writer is closed")
            check(function(self._writer, *arguments, byref(error)), error)

    def close(self):
        """Finish the file and give it its name. Closed twice is closed."""
        self._finish(keep=True)

    def _finish(self, keep):
        with self._lock:  # a signal handler's exception may come between any two of these steps; then this is done again
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

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self._finish(keep=kind is None)

    def __del__(self):
        if getattr(self, "_writer", None) and os.getpid() == self._pid:  # a forked child leaves the file to its parent
            self._finish(keep=self._opened)


__getattr__ = _missing_name(__name__)
