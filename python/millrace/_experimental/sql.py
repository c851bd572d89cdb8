"""Rows of a database, as a dataset."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from .. import errors
from ..dataset import Dataset
from ..dtypes import DTypeLike, as_dtype

# What SQLite makes of a value of another type: int, float and bytes hold them all.
_CASTS = {
    "string": "BLOB",
    "float64": "REAL",
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "bool"), "INTEGER"),
}
_OF_NULL: dict[str, Any] = {"BLOB": b"", "REAL": 0.0, "INTEGER": 0}


def _dtype_names(output_types: Any) -> list[str]:
    if not isinstance(output_types, (list, tuple)) or not output_types:
        raise TypeError(
            f"SqlDataset: output_types is a tuple with a dtype for each column, not {output_types!r}"
        )
    names = [as_dtype(dtype).name for dtype in output_types]
    for i, name in enumerate(names):
        if name not in _CASTS:
            raise errors.InvalidArgumentError(
                f"SqlDataset: output_types[{i}] is {name}; it may be {', '.join(sorted(_CASTS))}"
            )
    return names


def _read(path: str, query: str, kinds: list[str]) -> list[list[Any]]:
    """The columns of the query's result, each value converted as SQLite does it."""
    address = f"{Path(path).absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(address, uri=True)) as database,
        closing(sqlite3.connect(":memory:")) as converter,  # UTF-8, whatever the database has
    ):
        database.text_factory = bytes
        found = database.execute(query)
        count = 0 if found.description is None else len(found.description)
        if count != len(kinds):
            raise errors.InvalidArgumentError(
                f"SqlDataset: '{query}' gives {count} columns, output_types has {len(kinds)}"
            )
        casts = "SELECT " + ", ".join(f"CAST(? AS {kind})" for kind in kinds)
        columns: list[list[Any]] = [[] for _ in kinds]
        for row in found:
            converted = converter.execute(casts, row).fetchone()
            for column, kind, value in zip(columns, kinds, converted):
                column.append(_OF_NULL[kind] if value is None else value)
        return columns


def _array(values: list[Any], dtype: str) -> Any:
    if dtype == "string":
        return np.array(values, dtype=object)
    if dtype == "float64":
        return np.array(values, dtype=np.float64)
    return np.array(values, dtype=np.int64).astype(dtype)  # its lowest bits; bool: not 0


def SqlDataset(
    driver_name: str,
    data_source_name: str | os.PathLike[str],
    query: str,
    output_types: Sequence[DTypeLike],
) -> Dataset:
    """Read the result of a query, as ``tf.data.experimental.SqlDataset``.

    The query runs here and now. Its rows become a part of the dataset, as those of
    `Dataset.from_tensor_slices` are: each epoch reads the same ones, and workers do not need the
    database. For more rows than memory holds, write them to files first.

    Parameters
    ----------
    driver_name : {"sqlite"}
        The kind of the database.
    data_source_name : str or path
        The file of the database. It is not written to.
    query : str
        One SQL statement that gives rows.
    output_types : sequence of dtype_like
        Of each column of the result: string, int8, int16, int32, int64, uint8, uint16, bool or
        float64. SQLite converts what has another type; of an integer that is too large the lowest
        bits are kept; NULL is 0, False or "".

    Returns
    -------
    Dataset
        Of tuples with a scalar for each column.

    Raises
    ------
    InvalidArgumentError
        The kind of database or a dtype is another one, SQLite refuses the query, or the query gives
        another number of columns. The message has SQLite's words.
    NotFoundError
        There is no such file.

    Examples
    --------
    >>> import sqlite3
    >>> with sqlite3.connect("fruits.db") as db:
    ...     _ = db.execute("CREATE TABLE fruits (name, grams)")
    ...     _ = db.execute("INSERT INTO fruits VALUES ('apple', 180), ('plum', 40)")
    >>> query = "SELECT name, grams FROM fruits ORDER BY grams"
    >>> for row in mr.experimental.SqlDataset("sqlite", "fruits.db", query, (mr.string, mr.int32)):
    ...     print(row)
    (b'plum', 40)
    (b'apple', 180)
    """
    if driver_name != "sqlite":
        raise errors.InvalidArgumentError(
            f"SqlDataset: driver_name is {driver_name!r}; only 'sqlite' is known"
        )
    dtypes = _dtype_names(output_types)
    path = os.fsdecode(data_source_name)
    if not os.path.exists(path):
        raise errors.NotFoundError(f"SqlDataset: there is no file '{path}'")
    try:
        columns = _read(path, query, [_CASTS[name] for name in dtypes])
    except (sqlite3.Error, sqlite3.Warning, UnicodeError) as e:  # of names that are no UTF-8, too
        raise errors.InvalidArgumentError(
            f"SqlDataset: database '{path}', '{query}': {e}"
        ) from None
    arrays = tuple(_array(column, dtype) for column, dtype in zip(columns, dtypes))
    return Dataset.from_tensor_slices(arrays)._named("SqlDataset", [])
