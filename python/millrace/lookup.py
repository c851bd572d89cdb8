"""
Mirrors tf.lookup: tables from keys to values that do not change. Their contents are read where the
table is made, and become constants of the functions that look something up, so workers need no
file.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ._base.hints import missing_name as _missing_name
from ._data.block import Array
from ._data.spec import integer
from ._graph.attrs import AttrTable
from ._graph.literals import dtype_of, is_literal
from ._graph.symbol import TensorLike
from ._graph.tensor import apply1, convert_to_tensor
from ._data.structure import is_composite
from ._ops import mutable_tables as experimental
from ._ops.arrays import gather, where
from ._ops.constants import cast, convert_to_array
from ._ops.sparse import SparseTensor
from .dtypes import DType, DTypeLike, as_dtype

__all__ = [
    "KeyValueTensorInitializer",
    "StaticHashTable",
    "StaticVocabularyTable",
    "TextFileIndex",
    "TextFileInitializer",
    "experimental",
]


class TextFileIndex:
    """What of a line TextFileInitializer takes, besides columns 0, 1, ...

    Attributes
    ----------
    WHOLE_LINE, LINE_NUMBER : int
        The line, or its number from 0 on.
    """

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class KeyValueTensorInitializer:
    """Keys and values from vectors of one length, as ``tf.lookup.KeyValueTensorInitializer``.

    Parameters
    ----------
    keys : array_like
        A vector of strings, int64 or int32.
    values : array_like
        A vector as long.
    key_dtype, value_dtype : dtype_like, optional
        By default those of the vectors.
    name : str, optional
        Accepted and ignored.

    Raises
    ------
    ValueError
        They are no vectors of one length.

    Examples
    --------
    >>> mr.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]).value_dtype
    mr.int32
    """

    def __init__(
        self,
        keys: TensorLike,
        values: TensorLike,
        key_dtype: DTypeLike | None = None,
        value_dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        self._keys = _vector("keys", keys, key_dtype)
        self._values = _vector("values", values, value_dtype)
        if len(self._keys) != len(self._values):
            raise ValueError(f"{len(self._keys)} keys and {len(self._values)} values")
        self.key_dtype, self.value_dtype = as_dtype(self._keys.dtype), as_dtype(self._values.dtype)


def _vector(what: str, values: TensorLike, dtype: DTypeLike | None) -> Array:
    array = convert_to_array(values, dtype)
    if array.ndim != 1:
        raise ValueError(f"{what} is a vector, not of shape {array.shape}")
    return array


class TextFileInitializer:
    """Keys and values from a text file, one line an entry, as ``tf.lookup.TextFileInitializer``.

    Parameters
    ----------
    filename : str or path
        Read now, here.
    key_dtype, value_dtype : dtype_like
        What they are.
    key_index, value_index : int
        TextFileIndex.WHOLE_LINE, TextFileIndex.LINE_NUMBER, or the number of a column.
    vocab_size : int, optional
        How many lines are taken; by default all.
    delimiter : str, default "\\t"
        What stands between columns.
    name : str, optional
        Accepted and ignored.
    value_index_offset : int, default 0
        Added to values that are line numbers.

    Raises
    ------
    ValueError
        A line has too few columns or is no such number, or there are too few lines.

    Examples
    --------
    >>> with open("words.txt", "w") as file:
    ...     _ = file.write("a\\nb\\n")
    >>> index = mr.lookup.TextFileIndex
    >>> table = mr.lookup.StaticHashTable(mr.lookup.TextFileInitializer(
    ...     "words.txt", mr.string, index.WHOLE_LINE, mr.int64, index.LINE_NUMBER), -1)
    >>> table["b"]
    1
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        key_dtype: DTypeLike,
        key_index: int,
        value_dtype: DTypeLike,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str | bytes = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        for what, dtype, index in (
            ("key", self.key_dtype, key_index),
            ("value", self.value_dtype, value_index),
        ):
            if index < TextFileIndex.WHOLE_LINE:
                raise ValueError(
                    f"{what}_index is a column, WHOLE_LINE or LINE_NUMBER, not {index}"
                )
            if index == TextFileIndex.LINE_NUMBER and dtype.name != "int64":
                raise ValueError(f"{what}_index LINE_NUMBER is int64, not {dtype.name}")
            if index == TextFileIndex.WHOLE_LINE and dtype.kind != "s" and not dtype.is_integer:
                raise ValueError(
                    f"{what}_index WHOLE_LINE is a string or an integer, not " f"{dtype.name}"
                )
        if vocab_size is not None and vocab_size < 1:
            raise ValueError(f"vocab_size is at least 1, not {vocab_size}")
        with open(filename, "rb") as f:
            lines = f.read().split(b"\n")
        if not lines[-1]:
            lines.pop()
        if vocab_size is not None and len(lines) < vocab_size:
            raise ValueError(f"file {filename!r} has {len(lines)} lines, not {vocab_size}")
        lines = [line.removesuffix(b"\r") for line in lines[:vocab_size]]
        delimiter = delimiter.encode() if isinstance(delimiter, str) else delimiter
        self._keys = _column(filename, lines, key_index, self.key_dtype, delimiter, 0)
        self._values = _column(
            filename, lines, value_index, self.value_dtype, delimiter, value_index_offset
        )


def _column(
    filename: Any, lines: list[bytes], index: int, dtype: DType, delimiter: bytes, offset: int
) -> Array:
    if index == TextFileIndex.LINE_NUMBER:
        return np.arange(offset, offset + len(lines), dtype=np.int64)
    out: Array = np.empty(len(lines), object)
    for i, line in enumerate(lines):
        columns = [line] if index == TextFileIndex.WHOLE_LINE else line.split(delimiter)
        if index >= len(columns):
            raise ValueError(
                f"file {filename!r}, line {i + 1}: {len(columns)} columns, column "
                f"{index} is wanted"
            )
        text = columns[max(index, 0)]
        try:
            number: Any = dtype.as_numpy_dtype
            out[i] = text if dtype.kind == "s" else number(text)
        except (ValueError, OverflowError):
            raise ValueError(
                f"file {filename!r}, line {i + 1}: {text!r} is no {dtype.name}"
            ) from None
    return out if dtype.kind == "s" else out.astype(dtype.numpy_dtype())


def _check_initializer(initializer: Any) -> None:
    """TypeError for a dict and its like."""
    if not hasattr(initializer, "_keys"):
        raise TypeError(
            "a table is made of a mr.lookup.KeyValueTensorInitializer(keys, values) or a "
            f"TextFileInitializer, not of {type(initializer).__name__}"
        )


class _Table:
    value_dtype: DType

    def __init__(self, keys: Array, values: Array, key_dtype: DType) -> None:
        if key_dtype.name not in ("string", "int64", "int32"):
            raise TypeError(f"keys are strings, int64 or int32, not {key_dtype.name}")
        seen: dict[Any, Any] = {}
        for key, value in zip(keys.tolist(), values.tolist()):
            if seen.setdefault(key, value) != value:
                raise ValueError(f"key {key!r} has two values, {seen[key]!r} and {value!r}")
        first = dict.fromkeys(seen)
        if len(first) < len(keys):  # the same entry twice
            values = np.array([seen[key] for key in first], values.dtype)
            kept: Array = np.empty(len(first), keys.dtype)
            kept[:] = list(first)
            keys = kept
        self._keys, self._values = keys, values
        self.key_dtype = key_dtype

    def _places(self, keys: Any, buckets: int) -> Any:
        """Where in the list of keys they are; of others -1, or from the number of keys on."""
        keys = convert_to_tensor(keys, self.key_dtype if is_literal(keys) else None)
        dtype = dtype_of(keys)
        if dtype is not self.key_dtype:
            raise TypeError(
                f"the table's keys are {self.key_dtype.name}, these are "
                f"{getattr(dtype, 'name', None)}"
            )
        attrs = AttrTable().int("oov_buckets", buckets)
        if self.key_dtype.kind == "s":
            attrs.strings("keys", self._keys.tolist())
        else:
            attrs.ints("int_keys", self._keys.tolist())
        return apply1(
            "lookup_place", [keys if self.key_dtype.kind == "s" else cast(keys, "int64")], attrs
        )

    def size(self, name: str | None = None) -> np.int64:
        raise NotImplementedError

    def lookup(self, keys: TensorLike, name: str | None = None) -> Any:
        raise NotImplementedError

    def _found(self, keys: Any) -> Any:
        """lookup() of a tensor."""
        raise NotImplementedError

    def _lookup(self, keys: Any) -> Any:
        if isinstance(keys, SparseTensor):
            return SparseTensor(keys.indices, self._found(keys.values), keys.dense_shape)
        if is_composite(keys):
            return keys.with_flat_values(self._found(keys.flat_values))
        return self._found(keys)

    def __getitem__(self, keys: TensorLike) -> Any:
        return self.lookup(keys)

    def __repr__(self) -> str:
        return (
            f"<millrace.lookup.{type(self).__name__} of {self.size()}, {self.key_dtype.name} "
            f"-> {self.value_dtype.name}>"
        )


class StaticHashTable(_Table):
    """A table from keys to values, as ``tf.lookup.StaticHashTable``.

    Parameters
    ----------
    initializer : KeyValueTensorInitializer or TextFileInitializer
        The keys and values.
    default_value : tensor_like
        A scalar: the value of what is no key.
    name : str, optional
        Accepted and ignored.
    experimental_is_anonymous : optional
        Accepted and ignored.

    Raises
    ------
    ValueError
        A key has two values.
    TypeError
        Keys are no strings, int64 or int32.

    Examples
    --------
    >>> entries = mr.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
    >>> table = mr.lookup.StaticHashTable(entries, -1)
    >>> table[["b", "x"]]
    array([ 2, -1], dtype=int32)
    >>> table
    <millrace.lookup.StaticHashTable of 2, string -> int32>
    """

    def __init__(
        self,
        initializer: Any,
        default_value: TensorLike,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        _check_initializer(initializer)
        super().__init__(initializer._keys, initializer._values, initializer.key_dtype)
        self.value_dtype = initializer.value_dtype
        default = convert_to_array(default_value, self.value_dtype)
        if default.ndim != 0:
            raise ValueError(f"default_value is a scalar, not of shape {default.shape}")
        self.default_value = default[()]
        self._results = np.concatenate([self._values, default.reshape(1)])

    def size(self, name: str | None = None) -> np.int64:
        """Return the number of keys.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        numpy.int64
            How many.

        Examples
        --------
        >>> keys = mr.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
        >>> mr.lookup.StaticHashTable(keys, -1).size()
        2
        """
        return np.int64(len(self._keys))

    def lookup(self, keys: TensorLike, name: str | None = None) -> Any:
        """Look up values. ``table[keys]`` is the same.

        Parameters
        ----------
        keys : tensor_like, RaggedTensor or SparseTensor
            Of the dtype of the table's keys, of any shape.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Tensor, numpy.ndarray, RaggedTensor or SparseTensor
            In the shape of `keys`.

        Raises
        ------
        TypeError
            The keys have another dtype.

        Examples
        --------
        >>> keys = mr.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
        >>> mr.lookup.StaticHashTable(keys, -1).lookup(["b", "x"])
        array([ 2, -1], dtype=int32)
        """
        return self._lookup(keys)

    def _found(self, keys: Any) -> Any:
        places = self._places(keys, 0)
        return gather(self._results, where(places < 0, np.int64(len(self._keys)), places))

    def export(self, name: str | None = None) -> tuple[Array, Array]:
        """Return what is in the table.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        tuple of numpy.ndarray
            The keys, each once, in the order in which they were given, and their values.

        Examples
        --------
        >>> keys = mr.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
        >>> mr.lookup.StaticHashTable(keys, -1).export()
        (array([b'a', b'b'], dtype=object), array([1, 2], dtype=int32))
        """
        return self._keys.copy(), self._values.copy()


class StaticVocabularyTable(_Table):
    """A table from keys to int64 ids, as ``tf.lookup.StaticVocabularyTable``.

    What is no key goes by its hash into a bucket; the ids of buckets follow those of the keys.

    Parameters
    ----------
    initializer : KeyValueTensorInitializer, TextFileInitializer or None
        The keys and their ids. None: there are only buckets.
    num_oov_buckets : int
        How many buckets, at least 1.
    lookup_key_dtype : dtype_like, optional
        What the keys are; needed without an initializer.
    name : str, optional
        Accepted and ignored.
    experimental_is_anonymous : optional
        Accepted and ignored.

    Raises
    ------
    ValueError
        There is no bucket, or nothing says what the keys are.
    TypeError
        Keys or ids have other dtypes than they may have.

    Examples
    --------
    >>> keys = mr.lookup.KeyValueTensorInitializer(["a", "b"], np.array([0, 1]))
    >>> table = mr.lookup.StaticVocabularyTable(keys, num_oov_buckets=1)
    >>> table[["b", "x"]]
    array([1, 2])
    """

    def __init__(
        self,
        initializer: Any,
        num_oov_buckets: int,
        lookup_key_dtype: DTypeLike | None = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        if integer("num_oov_buckets", num_oov_buckets) < 1:
            raise ValueError(
                f"num_oov_buckets is at least 1, not {num_oov_buckets}: use " "StaticHashTable"
            )
        if initializer is None and lookup_key_dtype is None:
            raise ValueError("without an initializer lookup_key_dtype is needed")
        if initializer is None:
            keys, values = np.empty(0, object), np.empty(0, np.int64)
            key_dtype = as_dtype(lookup_key_dtype)
        else:
            _check_initializer(initializer)
            keys, values, key_dtype = initializer._keys, initializer._values, initializer.key_dtype
            if initializer.value_dtype.name != "int64":
                raise TypeError(
                    "the values of a vocabulary are int64, not " f"{initializer.value_dtype.name}"
                )
        super().__init__(keys, values, key_dtype)
        if lookup_key_dtype is not None and as_dtype(lookup_key_dtype) is not key_dtype:
            raise TypeError(
                f"lookup_key_dtype is {as_dtype(lookup_key_dtype).name}, the keys are "
                f"{key_dtype.name}"
            )
        self.value_dtype = as_dtype("int64")
        self._buckets = num_oov_buckets

    def size(self, name: str | None = None) -> np.int64:
        """Return the number of ids: keys and buckets.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        numpy.int64
            How many.

        Examples
        --------
        >>> mr.lookup.StaticVocabularyTable(None, 5, lookup_key_dtype=mr.string).size()
        5
        """
        return np.int64(len(self._keys) + self._buckets)

    def lookup(self, keys: TensorLike, name: str | None = None) -> Any:
        """Look up ids. ``table[keys]`` is the same.

        Parameters
        ----------
        keys : tensor_like, RaggedTensor or SparseTensor
            Of the dtype of the table's keys, of any shape.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Tensor, numpy.ndarray, RaggedTensor or SparseTensor
            int64, in the shape of `keys`.

        Raises
        ------
        TypeError
            The keys have another dtype.

        Examples
        --------
        >>> keys = mr.lookup.KeyValueTensorInitializer(["a", "b"], np.array([0, 1]))
        >>> mr.lookup.StaticVocabularyTable(keys, 1).lookup(["b", "x"])
        array([1, 2])
        """
        return self._lookup(keys)

    def _found(self, keys: Any) -> Any:
        places = self._places(keys, self._buckets)
        n = len(self._keys)
        if (self._values == np.arange(n)).all():
            return places
        # Never empty; what is a bucket does not look at it.
        ids = np.append(self._values, np.int64(0))
        return where(places < n, gather(ids, where(places < n, places, np.int64(n))), places)


__getattr__ = _missing_name(__name__)
