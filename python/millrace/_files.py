"""Datasets of the records of files. The public names are those of mr."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._capi.ffi import COMPRESSIONS
from ._data.block import Array, as_tensor_array
from ._datasets.arguments import add_bytes, add_number, paths
from ._graph.attrs import AttrTable
from ._graph.symbol import Symbol
from .dataset import AUTOTUNE, Dataset, IntLike


def file_names(filenames: Any) -> Array:
    """@filenames as a vector of strings, which may be empty."""
    names = as_tensor_array(paths(filenames))
    if names.size == 0:
        return np.empty(0, object)
    if names.dtype.kind != "O":
        raise TypeError(f"filenames is a string or strings, not {filenames!r}")
    return np.atleast_1d(names).reshape(-1)


def record_files(
    op: str,
    filenames: Any,
    compression_type: Any,
    buffer_size: Any,
    num_parallel_reads: Any,
    skip: int = 0,
    **sizes: Any,
) -> Dataset:
    """The records of @filenames, without the first @skip of each, by the operator @op."""
    if isinstance(compression_type, str) and compression_type not in COMPRESSIONS:
        raise ValueError(
            f"compression type {compression_type!r}: files are {', '.join(map(repr, COMPRESSIONS))}"
        )

    def one_file(name: Any) -> Dataset:
        attrs = add_bytes(AttrTable(), "filename", name)
        for key, size in sizes.items():
            add_number(attrs, key, size)
        if compression_type is not None:
            add_bytes(attrs, "compression_type", compression_type)
        if buffer_size is not None:
            add_number(attrs, "buffer_size", buffer_size)
        records = Dataset._of(op, attrs=attrs)
        return records.skip(skip) if skip > 0 else records

    if isinstance(filenames, Dataset):
        files = filenames
    elif isinstance(filenames, Symbol) and filenames.shape.rank == 0:
        return one_file(filenames)  # inside a function
    elif isinstance(filenames, Symbol):
        files = Dataset.from_tensor_slices(filenames)
    else:
        files = Dataset.from_tensor_slices(file_names(filenames))
    inputs = [files] if isinstance(filenames, Dataset) else []
    if num_parallel_reads is None:
        return files.flat_map(one_file)._named(f"{op}_files", inputs)
    cycle = None if num_parallel_reads == AUTOTUNE else num_parallel_reads
    return files.interleave(
        one_file, cycle_length=cycle, block_length=1, num_parallel_calls=num_parallel_reads
    )._named(f"{op}_files", inputs)


def TFRecordDataset(
    filenames: Any,
    compression_type: Any = None,
    buffer_size: IntLike | None = None,
    num_parallel_reads: IntLike | None = None,
    name: str | None = None,
) -> Dataset:
    """Read the records of TFRecord files, as ``tf.data.TFRecordDataset``.

    The files are the splits that a service hands out under DYNAMIC sharding.

    Parameters
    ----------
    filenames : str, path, sequence of them, tensor or Dataset of names
        They are read one after the other.
    compression_type : {None, "", "GZIP", "ZLIB", "ZSTD"}, optional
        None and "": not compressed.
    buffer_size : int, optional
        Bytes that are read at a time.
    num_parallel_reads : int, optional
        How many files are read at a time, in turns of a record; mr.AUTOTUNE: as many as pay. By
        default one.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Dataset
        Of strings.

    Raises
    ------
    ValueError
        There is no such compression.
    NotFoundError, DataLossError
        When it is read: a file is missing, or damaged.

    Examples
    --------
    >>> with mr.io.TFRecordWriter("two.tfrecord") as writer:
    ...     writer.write("a")
    ...     writer.write("b")
    >>> list(mr.TFRecordDataset("two.tfrecord"))
    [b'a', b'b']
    """
    return record_files("tfrecord", filenames, compression_type, buffer_size, num_parallel_reads)


def TextLineDataset(
    filenames: Any,
    compression_type: Any = None,
    buffer_size: IntLike | None = None,
    num_parallel_reads: IntLike | None = None,
    name: str | None = None,
) -> Dataset:
    """Read the lines of text files, without their ends, as ``tf.data.TextLineDataset``.

    The files are the splits that a service hands out under DYNAMIC sharding.

    Parameters
    ----------
    filenames : str, path, sequence of them, tensor or Dataset of names
        They are read one after the other.
    compression_type : {None, "", "GZIP", "ZLIB", "ZSTD"}, optional
        None and "": not compressed.
    buffer_size : int, optional
        Bytes that are read at a time.
    num_parallel_reads : int, optional
        How many files are read at a time, in turns of a line; mr.AUTOTUNE: as many as pay. By
        default one.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Dataset
        Of strings. A line ends with a newline, before which a carriage return goes, too.

    Raises
    ------
    ValueError
        There is no such compression.
    NotFoundError
        When it is read: a file is missing.

    Examples
    --------
    >>> with open("lines.txt", "w") as file:
    ...     _ = file.write("a stitch\\nin time\\n")
    >>> list(mr.TextLineDataset("lines.txt"))
    [b'a stitch', b'in time']
    """
    return record_files("text_line", filenames, compression_type, buffer_size, num_parallel_reads)


def FixedLengthRecordDataset(
    filenames: Any,
    record_bytes: IntLike,
    header_bytes: IntLike | None = None,
    footer_bytes: IntLike | None = None,
    buffer_size: IntLike | None = None,
    compression_type: Any = None,
    num_parallel_reads: IntLike | None = None,
    name: str | None = None,
) -> Dataset:
    """Read records of one size, as ``tf.data.FixedLengthRecordDataset``.

    The files are the splits that a service hands out under DYNAMIC sharding.

    Parameters
    ----------
    filenames : str, path, sequence of them, tensor or Dataset of names
        They are read one after the other.
    record_bytes : int
        The size of a record.
    header_bytes, footer_bytes : int, optional
        What is left out at the start and the end of a file; 0 by default.
    buffer_size : int, optional
        Bytes that are read at a time.
    compression_type : {None, "", "GZIP", "ZLIB", "ZSTD"}, optional
        None and "": not compressed.
    num_parallel_reads : int, optional
        How many files are read at a time, in turns of a record; mr.AUTOTUNE: as many as pay. By
        default one.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Dataset
        Of strings.

    Raises
    ------
    ValueError
        There is no such compression.
    NotFoundError, DataLossError
        When it is read: a file is missing, or has another size.

    Examples
    --------
    >>> with open("records.bin", "wb") as file:
    ...     _ = file.write(b"aabbcc")
    >>> list(mr.FixedLengthRecordDataset("records.bin", 2))
    [b'aa', b'bb', b'cc']
    """
    sizes: dict[str, Any] = {
        "record_bytes": record_bytes,
        "header_bytes": 0 if header_bytes is None else header_bytes,
        "footer_bytes": 0 if footer_bytes is None else footer_bytes,
    }
    return record_files(
        "fixed_length_record", filenames, compression_type, buffer_size, num_parallel_reads, **sizes
    )
