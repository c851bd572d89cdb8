"""Datasets of the records of files."""

import numpy as np

from ._block import as_tensor_array
from ._tensor import AttrTable, Tensor
from .dataset import AUTOTUNE, Dataset, _apply, _bytes, _number, _paths


def _record_file(op, filename, compression_type, buffer_size, sizes):
    attrs = _bytes(AttrTable(), "filename", filename)
    for name, size in sizes.items():
        _number(attrs, name, size)
    if compression_type is not None:
        _bytes(attrs, "compression_type", compression_type)
    if buffer_size is not None:
        _number(attrs, "buffer_size", buffer_size)
    return _apply(op, attrs=attrs)


def _names(filenames):
    """@filenames as a vector of strings, which may be empty."""
    names = as_tensor_array(_paths(filenames))
    if names.size == 0:
        return np.empty(0, object)
    if names.dtype.kind != "O":
        raise TypeError(f"filenames is a string or strings, not {filenames!r}")
    return np.atleast_1d(names).reshape(-1)


def _record_files(op, filenames, compression_type, buffer_size, num_parallel_reads, **sizes):
    if isinstance(compression_type, str) and compression_type not in ("", "GZIP", "ZLIB"):
        raise ValueError(f"compression type {compression_type!r}: files are \"\", \"GZIP\" or \"ZLIB\"")
    if isinstance(filenames, Dataset):
        files = filenames
    elif isinstance(filenames, Tensor) and filenames.shape.rank == 0:
        return _record_file(op, filenames, compression_type, buffer_size, sizes)  # inside a function: one file
    elif isinstance(filenames, Tensor):
        files = Dataset.from_tensor_slices(filenames)
    else:
        files = Dataset.from_tensor_slices(_names(filenames))
    if num_parallel_reads is None:
        return files.flat_map(lambda f: _record_file(op, f, compression_type, buffer_size, sizes))
    cycle = None if num_parallel_reads == AUTOTUNE else num_parallel_reads
    return files.interleave(lambda f: _record_file(op, f, compression_type, buffer_size, sizes), cycle_length=cycle,
                            block_length=1, num_parallel_calls=num_parallel_reads)


def TFRecordDataset(filenames, compression_type=None, buffer_size=None, num_parallel_reads=None, name=None):
    """
    The records of TFRecord files, as strings. @filenames is a name, a list, a tensor or a dataset of names. The files are
    the splits that a service hands out under DYNAMIC sharding.
    """
    return _record_files("tfrecord", filenames, compression_type, buffer_size, num_parallel_reads)


def TextLineDataset(filenames, compression_type=None, buffer_size=None, num_parallel_reads=None, name=None):
    """
    The lines of text files, as strings without their ends ("\\n", "\\r\\n"). Arguments and splits are those of
    TFRecordDataset.
    """
    return _record_files("text_line", filenames, compression_type, buffer_size, num_parallel_reads)


def FixedLengthRecordDataset(filenames, record_bytes, header_bytes=None, footer_bytes=None, buffer_size=None,
                             compression_type=None, num_parallel_reads=None, name=None):
    """The records of files that consist of records of @record_bytes bytes, between a header and a footer, as strings."""
    sizes = {"record_bytes": record_bytes, "header_bytes": 0 if header_bytes is None else header_bytes,
             "footer_bytes": 0 if footer_bytes is None else footer_bytes}
    return _record_files("fixed_length_record", filenames, compression_type, buffer_size, num_parallel_reads, **sizes)
