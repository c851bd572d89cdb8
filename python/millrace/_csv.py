"""Datasets of CSV files. The public names are those of mr.experimental."""

from __future__ import annotations

import csv
import gzip
import itertools
import math
import zlib
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from . import dtypes
from ._files import TextLineDataset, record_files
from ._ops.tables import column_default, decode_lines
from .dataset import AUTOTUNE, Dataset, IntLike
from .dtypes import DType


def CsvDataset(
    filenames: Any,
    record_defaults: Sequence[Any],
    compression_type: Any = None,
    buffer_size: IntLike | None = None,
    header: bool = False,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    exclude_cols: Sequence[int] | None = None,
) -> Dataset:
    """Read the records of CSV files, as ``tf.data.experimental.CsvDataset``.

    The files are the splits that a service hands out under DYNAMIC sharding.

    Parameters
    ----------
    filenames : str, path, sequence of them, tensor or Dataset of names
        They are read one after the other.
    record_defaults : sequence of tensor_like or dtype_like
        The columns, as in `mr.io.decode_csv`: what stands for an empty field, or a dtype if there
        must be one.
    compression_type : {None, "", "GZIP", "ZLIB", "ZSTD"}, optional
        None and "": not compressed.
    buffer_size : int, optional
        Bytes that are read at a time.
    header : bool, default False
        Whether each file begins with a record that is left out.
    field_delim, use_quote_delim, na_value
        As in `mr.io.decode_csv`. With quotes a record may go on over several lines.
    select_cols, exclude_cols : sequence of int, optional
        The numbers of the fields that are columns, or of those that are none; rising from 0. Not
        both.

    Returns
    -------
    Dataset
        Of tuples with one scalar a column.

    Raises
    ------
    ValueError
        Both `select_cols` and `exclude_cols` are given.
    InvalidArgumentError
        When it is read: a record is damaged. The error names file, record, offset and field.

    Examples
    --------
    >>> with open("table.csv", "w") as file:
    ...     _ = file.write('name,size\\nsmall,1\\n"large, wide",\\n')
    >>> for row in mr.experimental.CsvDataset("table.csv", [mr.string, [9]], header=True):
    ...     print(row)
    (b'small', 1)
    (b'large, wide', 9)
    """
    if select_cols is not None and exclude_cols is not None:
        raise ValueError("either select_cols or exclude_cols is given, not both")
    count = None  # of the fields of a record
    if exclude_cols is not None:
        excluded = set(exclude_cols)
        fields = range(len(record_defaults) + len(excluded))
        select_cols = [i for i in fields if i not in excluded]
        if len(select_cols) != len(record_defaults):
            raise ValueError(f"exclude_cols {sorted(excluded)}: there are {len(fields)} fields")
        count = len(fields)
    op = "csv_record" if use_quote_delim else "text_line"
    records = record_files(
        op, filenames, compression_type, buffer_size, None, skip=1 if header else 0
    )
    defaults = [column_default(value) for value in record_defaults]

    def columns(record: Any) -> Any:
        return tuple(
            decode_lines(
                record, defaults, field_delim, use_quote_delim, na_value, select_cols, count
            )
        )

    return records.map(columns)._named("CsvDataset", [])


# ---- make_csv_dataset ----


def _open(path: str, compression: str | None, encoding: str) -> Any:
    if compression == "ZLIB":
        with open(path, "rb") as file:
            return iter(zlib.decompress(file.read()).decode(encoding).splitlines(keepends=True))
    if compression == "ZSTD":
        lines = TextLineDataset(path, compression).as_numpy_iterator()
        return (line.decode(encoding) + "\n" for line in lines)
    if compression == "GZIP":
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return open(path, "rt", encoding=encoding, newline="")


class _Reading:
    """How the files are written; reads some rows of them to find out what the columns are."""

    def __init__(
        self, paths: list[str], delim: str, quotes: bool, compression: Any, encoding: str
    ) -> None:
        self.paths, self.compression, self.encoding = paths, compression, encoding
        self.how: dict[str, Any] = {
            "delimiter": delim,
            "quoting": csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        }

    def rows(self, path: str) -> Iterator[list[str]]:
        lines = _open(path, self.compression, self.encoding)
        try:
            yield from csv.reader(lines, **self.how)
        finally:
            close: Callable[[], None] = getattr(lines, "close", lambda: None)
            close()

    def header(self) -> list[str]:
        """The names of the columns: the first record of all files."""
        found: list[str] | None = None
        for path in self.paths:
            row = next(self.rows(path), None)
            if row is None:
                raise ValueError(f"file '{path}' is empty: it has no header")
            if found is not None and row != found:
                raise ValueError(f"file '{path}' has another header than '{self.paths[0]}'")
            found = row
        return found or []

    def sample(self, header: bool, most: int | None) -> Iterator[tuple[str, int, list[str]]]:
        """The first rows of all files, with file and number."""
        every = (
            (p, number, r)
            for p in self.paths
            for number, r in itertools.islice(enumerate(self.rows(p)), int(header), None)
        )
        return itertools.islice(every, most)


_FLOAT32_MAX = float(np.finfo(np.float32).max)
_KINDS = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string]


def _kind(text: str) -> DType:
    """The first of TensorFlow's order that holds the number @text; else string, as of nan."""
    try:
        whole = int(text)
        if -(2**63) <= whole < 2**63:
            return dtypes.int32 if -(2**31) <= whole < 2**31 else dtypes.int64
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return dtypes.string
    if abs(number) < _FLOAT32_MAX or number == -math.inf:
        return dtypes.float32
    return dtypes.float64 if number < math.inf else dtypes.string


def _infer(
    rows: Iterator[tuple[str, int, list[str]]], columns: list[int], width: int, na_value: str
) -> list[Any]:
    """What stands for an empty field of each column: 0, or "" of one that has no numbers."""
    kinds: list[DType | None] = [None] * len(columns)
    for path, number, row in rows:
        if len(row) != width:
            raise ValueError(
                f"file '{path}', record {number}: {len(row)} fields, the first one has {width}: "
                f"{row}; column_defaults says what the columns are without a look at the records"
            )
        for i, field in enumerate(columns):
            if row[field] not in ("", na_value):
                found = _kind(row[field])
                kinds[i] = max(kinds[i] or found, found, key=_KINDS.index)
    return [
        np.zeros([], k.numpy_dtype()) if k is not None and k is not dtypes.string else b""
        for k in kinds
    ]


def _select(select: Sequence[Any] | None, names: list[str]) -> list[int]:
    """The numbers of the fields that @select means, by number or name; rising."""
    if select is None:
        return list(range(len(names)))
    fields = []
    for column in select:
        if isinstance(column, str) and column not in names:
            raise ValueError(f"select_columns has {column!r}, the columns are {names}")
        fields.append(names.index(column) if isinstance(column, str) else int(column))
    if len(set(fields)) != len(fields) or any(not 0 <= f < len(names) for f in fields):
        raise ValueError(
            f"select_columns {list(select)!r}: there are {len(names)} columns, each once"
        )
    return sorted(fields)


def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[Any] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: Any = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    """Read CSV files as batches of named columns, as ``tf.data.experimental.make_csv_dataset``.

    Names and dtypes of the columns, where they are not given, are found here by reading the files'
    first rows.

    Parameters
    ----------
    file_pattern : str or sequence of str
        Patterns of paths.
    batch_size : int
        Records of a batch.
    column_names : sequence of str, optional
        By default the first record of the files.
    column_defaults : sequence of tensor_like or dtype_like, optional
        As `record_defaults` of `CsvDataset`. By default they are found: int32, int64, float32,
        float64 or string, with 0 or "" for an empty field.
    label_name : str, optional
        A column that is not with the others: elements are pairs (columns, label).
    select_columns : sequence of int or str, optional
        The columns that are read, by number or name. By default all.
    field_delim, use_quote_delim, na_value
        As in `mr.io.decode_csv`.
    header : bool, default True
        Whether each file begins with a record of names.
    num_epochs : int, optional
        How often the files are read; by default for ever.
    shuffle : bool, default True
        Whether files and records come in random order.
    shuffle_buffer_size : int, default 10000
        Records in the buffer from which they are drawn.
    shuffle_seed : int, optional
        For what is drawn.
    prefetch_buffer_size : int, optional
        Batches that are made ahead; by default as many as pay.
    num_parallel_reads : int, optional
        Files that are read at a time; by default one.
    sloppy : bool, default False
        Whether the order may depend on which file is faster.
    num_rows_for_inference : int, optional
        Rows that are read to find out the dtypes; None: all.
    compression_type : {None, "", "GZIP", "ZLIB", "ZSTD"}, optional
        None and "": not compressed.
    ignore_errors : bool, default False
        Whether records that are damaged are left out.
    encoding : str, default "utf-8"
        Of the header and the rows that are read here.

    Returns
    -------
    Dataset
        Of dicts of vectors, by names, or pairs of these and a vector of labels.

    Raises
    ------
    InvalidArgumentError
        No file matches.
    ValueError
        The files' headers are not equal, or the arguments do not go together.

    Examples
    --------
    >>> with open("table.csv", "w") as file:
    ...     _ = file.write("size,kind\\n1,a\\n2,b\\n")
    >>> ds = mr.experimental.make_csv_dataset(
    ...     "table.csv", 2, label_name="kind", num_epochs=1, shuffle=False)
    >>> for columns, label in ds:
    ...     print(columns, label)
    {'size': array([1, 2], dtype=int32)} [b'a' b'b']
    """
    files = Dataset.list_files(file_pattern, shuffle, shuffle_seed)
    paths = sorted(p.decode() for p in Dataset.list_files(file_pattern, False))
    reading = _Reading(paths, field_delim, use_quote_delim, compression_type, encoding)
    if column_names is None:
        if not header:
            raise ValueError("column_names must be given if there is no header")
        column_names = reading.header()
    names = list(column_names)
    if len(set(names)) != len(names):
        raise ValueError(f"names of columns are not unique: {names}")
    fields = _select(select_columns, names)
    if column_defaults is None:
        rows = reading.sample(header, num_rows_for_inference)
        column_defaults = _infer(rows, fields, len(names), na_value)
    elif len(column_defaults) != len(fields):
        raise ValueError(f"{len(column_defaults)} column_defaults for {len(fields)} columns")
    chosen = [names[f] for f in fields]
    if label_name is not None and label_name not in chosen:
        raise ValueError(f"label_name is {label_name!r}, the columns are {chosen}")
    defaults = [column_default(value) for value in column_defaults]

    def one_file(name: Any) -> Dataset:
        return CsvDataset(
            name,
            defaults,
            compression_type,
            header=header,
            field_delim=field_delim,
            use_quote_delim=use_quote_delim,
            na_value=na_value,
            select_cols=fields if select_columns is not None else None,
        )

    def named(*columns: Any) -> Any:
        features = dict(zip(chosen, columns))
        return features if label_name is None else (features, features.pop(label_name))

    ds = files.interleave(
        one_file,
        cycle_length=num_parallel_reads or 1,
        num_parallel_calls=num_parallel_reads,
        deterministic=not sloppy,
    )
    if ignore_errors:
        ds = ds.ignore_errors()
    if shuffle:
        ds = ds.shuffle(shuffle_buffer_size, shuffle_seed)
    if num_epochs != 1:
        ds = ds.repeat(num_epochs)
    ds = ds.batch(batch_size, drop_remainder=num_epochs is None).map(named)
    ahead = AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size
    return ds.prefetch(ahead)._named("make_csv_dataset", [])
