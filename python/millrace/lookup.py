"""
Mirrors tf.lookup: tables from keys to values that do not change. Their contents are read where the table is made, and become
constants of the functions that look something up, so workers need no file.
"""

import numpy as np

from ._hints import missing_name as _missing_name
from ._ops import cast, convert_to_array, gather, where
from ._spec import integer
from ._tensor import AttrTable, apply1, convert_to_tensor, dtype_of, is_literal
from .dtypes import as_dtype

__all__ = ["KeyValueTensorInitializer", "StaticHashTable", "StaticVocabularyTable", "TextFileIndex", "TextFileInitializer"]


class TextFileIndex:
    """What of a line TextFileInitializer takes, besides columns 0, 1, ..."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class KeyValueTensorInitializer:
    """Keys and values from vectors of one length."""

    def __init__(self, keys, values, key_dtype=None, value_dtype=None, name=None):
        self._keys = _vector("keys", keys, key_dtype)
        self._values = _vector("values", values, value_dtype)
        if len(self._keys) != len(self._values):
            raise ValueError(f"{len(self._keys)} keys and {len(self._values)} values")
        self.key_dtype, self.value_dtype = as_dtype(self._keys.dtype), as_dtype(self._values.dtype)


def _vector(what, values, dtype):
    array = convert_to_array(values, dtype)
    if array.ndim != 1:
        raise ValueError(f"{what} is a vector, not of shape {array.shape}")
    return array


class TextFileInitializer:
    """
    Keys and values from a text file, one line an entry. An index is TextFileIndex.WHOLE_LINE, TextFileIndex.LINE_NUMBER
    (from 0; for values plus @value_index_offset), or the number of a column between delimiters.
    """

    def __init__(self, filename, key_dtype, key_index, value_dtype, value_index, vocab_size=None, delimiter="\t", name=None,
                 value_index_offset=0):
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        for what, dtype, index in (("key", self.key_dtype, key_index), ("value", self.value_dtype, value_index)):
            if index < TextFileIndex.WHOLE_LINE:
                raise ValueError(f"{what}_index is a column, WHOLE_LINE or LINE_NUMBER, not {index}")
            if index == TextFileIndex.LINE_NUMBER and dtype.name != "int64":
                raise ValueError(f"{what}_index LINE_NUMBER is int64, not {dtype.name}")
            if index == TextFileIndex.WHOLE_LINE and dtype.kind != "s" and not dtype.is_integer:
                raise ValueError(f"{what}_index WHOLE_LINE is a string or an integer, not {dtype.name}")
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
        self._values = _column(filename, lines, value_index, self.value_dtype, delimiter, value_index_offset)


def _column(filename, lines, index, dtype, delimiter, offset):
    if index == TextFileIndex.LINE_NUMBER:
        return np.arange(offset, offset + len(lines), dtype=np.int64)
    out = np.empty(len(lines), object)
    for i, line in enumerate(lines):
        columns = [line] if index == TextFileIndex.WHOLE_LINE else line.split(delimiter)
        if index >= len(columns):
            raise ValueError(f"file {filename!r}, line {i + 1}: {len(columns)} columns, column {index} is wanted")
        text = columns[max(index, 0)]
        try:
            out[i] = text if dtype.kind == "s" else dtype.as_numpy_dtype(text)
        except (ValueError, OverflowError):
            raise ValueError(f"file {filename!r}, line {i + 1}: {text!r} is no {dtype.name}") from None
    return out if dtype.kind == "s" else out.astype(dtype.numpy_dtype())


class _Table:
    def __init__(self, keys, values, key_dtype):
        if key_dtype.name not in ("string", "int64", "int32"):
            raise TypeError(f"keys are strings, int64 or int32, not {key_dtype.name}")
        seen = {}
        for key, value in zip(keys.tolist(), values.tolist()):
            if seen.setdefault(key, value) != value:
                raise ValueError(f"key {key!r} has two values, {seen[key]!r} and {value!r}")
        first = dict.fromkeys(seen)
        if len(first) < len(keys):  # the same entry twice
            values = np.array([seen[key] for key in first], values.dtype)
            kept = np.empty(len(first), keys.dtype)
            kept[:] = list(first)
            keys = kept
        self._keys, self._values = keys, values
        self.key_dtype = key_dtype

    def _places(self, keys, buckets):
        """Where in the list of keys they are; of others -1, or from the number of keys on."""
        keys = convert_to_tensor(keys, self.key_dtype if is_literal(keys) else None)
        dtype = dtype_of(keys)
        if dtype is not self.key_dtype:
            raise TypeError(f"the table's keys are {self.key_dtype.name}, these are {dtype.name}")
        attrs = AttrTable().int("oov_buckets", buckets)
        if self.key_dtype.kind == "s":
            attrs.strings("keys", self._keys.tolist())
        else:
            attrs.ints("int_keys", self._keys.tolist())
        return apply1("lookup_place", [cast(keys, "int64") if self.key_dtype.kind != "s" else keys], attrs)

    def __getitem__(self, keys):
        return self.lookup(keys)


class StaticHashTable(_Table):
    """A table from keys to values; what is no key has the value @default_value."""

    def __init__(self, initializer, default_value, name=None, experimental_is_anonymous=False):
        super().__init__(initializer._keys, initializer._values, initializer.key_dtype)
        self.value_dtype = initializer.value_dtype
        default = convert_to_array(default_value, self.value_dtype)
        if default.ndim != 0:
            raise ValueError(f"default_value is a scalar, not of shape {default.shape}")
        self.default_value = default[()]
        self._results = np.concatenate([self._values, default.reshape(1)])

    def size(self, name=None):
        """The number of keys."""
        return np.int64(len(self._keys))

    def lookup(self, keys, name=None):
        """The values of @keys."""
        places = self._places(keys, 0)
        return gather(self._results, where(places < 0, np.int64(len(self._keys)), places))


class StaticVocabularyTable(_Table):
    """
    A table from keys to int64 ids. What is no key goes by its hash into one of @num_oov_buckets buckets, whose ids follow
    those of the keys.
    """

    def __init__(self, initializer, num_oov_buckets, lookup_key_dtype=None, name=None, experimental_is_anonymous=False):
        if integer("num_oov_buckets", num_oov_buckets) < 1:
            raise ValueError(f"num_oov_buckets is at least 1, not {num_oov_buckets}: use StaticHashTable")
        if initializer is None and lookup_key_dtype is None:
            raise ValueError("without an initializer lookup_key_dtype is needed")
        if initializer is None:
            keys, values, key_dtype = np.empty(0, object), np.empty(0, np.int64), as_dtype(lookup_key_dtype)
        else:
            keys, values, key_dtype = initializer._keys, initializer._values, initializer.key_dtype
            if initializer.value_dtype.name != "int64":
                raise TypeError(f"the values of a vocabulary are int64, not {initializer.value_dtype.name}")
        super().__init__(keys, values, key_dtype)
        if lookup_key_dtype is not None and as_dtype(lookup_key_dtype) is not key_dtype:
            raise TypeError(f"lookup_key_dtype is {as_dtype(lookup_key_dtype).name}, the keys are {key_dtype.name}")
        self.value_dtype = as_dtype("int64")
        self._buckets = num_oov_buckets

    def size(self, name=None):
        """The number of ids: keys and buckets."""
        return np.int64(len(self._keys) + self._buckets)

    def lookup(self, keys, name=None):
        """The ids of @keys."""
        places = self._places(keys, self._buckets)
        n = len(self._keys)
        if (self._values == np.arange(n)).all():
            return places
        ids = np.append(self._values, np.int64(0))  # never empty; what is a bucket does not look at it
        return where(places < n, gather(ids, where(places < n, places, np.int64(n))), places)


__getattr__ = _missing_name(__name__)
