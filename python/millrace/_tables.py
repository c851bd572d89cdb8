"""Datasets of files of tables. The public names are those of mr.experimental."""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Mapping, Sequence

import numpy as np

from ._capi import ffi as _ffi
from ._capi.ffi import byref, check, lib
from ._data import structure as _structure
from ._data.block import new_block
from ._data.spec import TensorSpec
from ._datasets.arguments import add_bytes, add_number
from ._files import file_names
from ._graph.attrs import AttrTable
from ._graph.literals import to_array
from ._graph.symbol import Symbol
from .dataset import Dataset
from .dtypes import as_dtype


class _File:
    """What a file says of itself."""

    def __init__(self, op: str, path: bytes) -> None:
        text, error = ctypes.c_void_p(), _ffi.Error()
        check(lib.mr_table_describe(op.encode(), path, byref(text), byref(error)), error)
        try:
            said = json.loads(ctypes.string_at(text))
        finally:
            lib.mr_free(text)
        self.path = os.fsdecode(path)
        self.columns: dict[str, dict[str, Any]] = {c["name"]: c for c in said["columns"]}
        self.groups = len(said["groups"])

    def specs(self, columns: Sequence[str] | None) -> dict[str, TensorSpec]:
        """Of the @columns (None: all)."""
        found = {}
        for name in self.columns if columns is None else columns:
            if name not in self.columns:
                raise ValueError(
                    f"file '{self.path}' has no column {name!r}: there are {list(self.columns)}"
                )
            column = self.columns[name]
            if "unread" in column:
                raise ValueError(
                    f"file '{self.path}', column {name!r} is {column['unread']}, which is not "
                    "read: choose others with `columns`"
                )
            dtype, *dims = column["leaf"]
            found[name] = TensorSpec([None if d < 0 else d for d in dims], dtype, name)
        return found


def _given(element_spec: Mapping[str, Any], columns: Sequence[str] | None) -> dict[str, TensorSpec]:
    """The specs of the @columns (None: all) as the caller gives them."""
    specs = {
        name: spec if isinstance(spec, TensorSpec) else TensorSpec([], as_dtype(spec))
        for name, spec in element_spec.items()
    }
    missing = [name for name in columns or () if name not in specs]
    if missing:
        raise ValueError(f"element_spec has no {missing}: it has {list(specs)}")
    return specs if columns is None else {name: specs[name] for name in columns}


def _add_defaults(attrs: AttrTable, specs: Mapping[str, TensorSpec], defaults: Any) -> None:
    unknown = [name for name in defaults if name not in specs]
    if unknown:
        raise ValueError(f"defaults has {unknown}: the columns are {list(specs)}")
    names = sorted(specs, key=str.encode)
    chosen = [name for name in names if name in defaults]
    scalars = []
    for name in chosen:
        try:
            scalar: Any = to_array(defaults[name], specs[name].dtype)
        except (TypeError, ValueError) as e:
            raise type(e)(f"the default of column {name!r}: {e}") from None
        if scalar.ndim != 0:
            raise ValueError(f"the default of column {name!r} is a scalar, not {scalar!r}")
        scalars.append(scalar)
    if chosen:
        attrs.ints("defaulted", [names.index(name) for name in chosen])
        attrs.block("defaults", new_block(1, scalars))


def _leaf(spec: TensorSpec) -> list[Any]:
    dims = spec.shape.as_list()
    return [spec.dtype.name, *(-1 if d is None else d for d in dims)]


class _Rows:
    """Of one file, or of some of its row groups."""

    def __init__(self, op: str, specs: Mapping[str, TensorSpec], defaults: Any) -> None:
        if not specs:
            raise ValueError("no column is chosen")
        self.op, self.specs, self.defaults = op, specs, defaults or {}

    def _of(self, filename: Any, group: Any = None) -> Dataset:
        names = sorted(self.specs, key=str.encode)
        structure = {name: _structure.LEAF for name in self.specs}
        attrs = add_bytes(AttrTable(), "filename", filename)
        spec = [[_leaf(self.specs[name]) for name in names], structure]
        attrs.bytes("spec", json.dumps(spec, separators=(",", ":"), ensure_ascii=False))
        attrs.strings("columns", names)
        _add_defaults(attrs, self.specs, self.defaults)
        if group is not None:
            add_number(attrs, "first_group", group)
            attrs.int("groups", 1)
        return Dataset._of(self.op, attrs=attrs)


def _table_dataset(
    op: str,
    shown: str,
    filenames: Any,
    columns: Sequence[str] | None,
    defaults: Mapping[str, Any] | None,
    element_spec: Mapping[str, Any] | None,
    split_files: bool,
) -> Dataset:
    if isinstance(columns, (str, bytes)):
        raise TypeError(f"columns is a sequence of names, not {columns!r}")
    names = [] if columns is None else list(columns)
    if len(set(names)) != len(names):
        raise ValueError(f"columns has a name twice: {names}")
    if isinstance(filenames, (Dataset, Symbol)):
        if element_spec is None:
            raise ValueError(
                "element_spec is needed: the names of the files are not known here, so what their "
                "columns are cannot be read"
            )
        rows = _Rows(op, _given(element_spec, columns), defaults)
        if isinstance(filenames, Dataset):
            return filenames.flat_map(rows._of)._named(shown, [filenames])
        if filenames.shape.rank == 0:
            return rows._of(filenames)
        return Dataset.from_tensor_slices(filenames).flat_map(rows._of)._named(shown)

    paths = file_names(filenames)
    if len(paths) == 0 and element_spec is None:
        raise ValueError("filenames is empty: what the columns are cannot be read")
    visible = split_files or element_spec is None
    files = [_File(op, path) for path in (paths if split_files else paths[: int(visible)])]
    specs = files[0].specs(columns) if element_spec is None else _given(element_spec, columns)
    rows = _Rows(op, specs, defaults)
    if not split_files:
        return Dataset.from_tensor_slices(paths).flat_map(rows._of)._named(shown)
    every = [(path, i) for path, file in zip(paths, files) for i in range(file.groups)]
    split = np.empty(len(every), object)
    split[:] = [path for path, _ in every]
    groups = np.array([i for _, i in every], np.int64)
    return Dataset.from_tensor_slices((split, groups)).flat_map(rows._of)._named(shown)


def ParquetDataset(
    filenames: Any,
    columns: Sequence[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    element_spec: Mapping[str, Any] | None = None,
    split_files: bool = True,
) -> Dataset:
    """Read the rows of Parquet files.

    The row groups are the splits that a service hands out under DYNAMIC sharding.

    Parameters
    ----------
    filenames : str, path, sequence of them, tensor or Dataset of names
        They are read one after the other.
    columns : sequence of str, optional
        The columns that are read; others cost nothing. By default all.
    defaults : dict, optional
        What stands for null, by column: a scalar. In a column without one null is an error.
    element_spec : dict, optional
        What the columns are, by name: a `TensorSpec`, or a dtype of scalars. By default the first
        file is looked at, here and now; so it is needed where the names are tensors.
    split_files : bool, default True
        Whether row groups are splits, for which all files are looked at, here and now. False: files
        are.

    Returns
    -------
    Dataset
        Of dicts of scalars, by column. Columns of lists are vectors.

    Raises
    ------
    ValueError
        There is no such column, or it is of a kind that is not read.
    NotFoundError, DataLossError
        A file is missing, or damaged.
    InvalidArgumentError
        When it is read: a value is null. The error names file, row group, row and column.

    Examples
    --------
    >>> ds = mr.experimental.ParquetDataset("example.parquet", ["id", "name"], {"name": "?"})
    >>> for row in ds.take(2):
    ...     print(row)
    {'id': 0, 'name': b'row 0'}
    {'id': 1, 'name': b'?'}
    """
    return _table_dataset(
        "parquet", "ParquetDataset", filenames, columns, defaults, element_spec, split_files
    )


def ArrowDataset(
    filenames: Any,
    columns: Sequence[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    element_spec: Mapping[str, Any] | None = None,
    split_files: bool = True,
) -> Dataset:
    """Read the rows of Arrow IPC files (Feather V2) or streams.

    The record batches are the splits that a service hands out under DYNAMIC sharding.

    Parameters
    ----------
    filenames : str, path, sequence of them, tensor or Dataset of names
        They are read one after the other.
    columns : sequence of str, optional
        The columns that are read; others cost nothing. By default all.
    defaults : dict, optional
        What stands for null, by column: a scalar. In a column without one null is an error.
    element_spec : dict, optional
        What the columns are, by name: a `TensorSpec`, or a dtype of scalars. By default the first
        file is looked at, here and now; so it is needed where the names are tensors.
    split_files : bool, default True
        Whether record batches are splits, for which all files are looked at, here and now. False:
        files are.

    Returns
    -------
    Dataset
        Of dicts of scalars, by column. Columns of lists are vectors.

    Raises
    ------
    ValueError
        There is no such column, or it is of a kind that is not read.
    NotFoundError, DataLossError
        A file is missing, or damaged.
    InvalidArgumentError
        When it is read: a value is null. The error names file, record batch, row and column.

    Examples
    --------
    >>> ds = mr.experimental.ArrowDataset("example.arrow", ["id", "name"], {"name": "?"})
    >>> for row in ds.take(2):
    ...     print(row)
    {'id': 0, 'name': b'row 0'}
    {'id': 1, 'name': b'?'}
    """
    return _table_dataset(
        "arrow", "ArrowDataset", filenames, columns, defaults, element_spec, split_files
    )
