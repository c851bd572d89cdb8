"""Lookup tables of the elements of a dataset, which is read when the table is made."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.block import Array
from .._data.spec import TensorSpec
from .._data.structure import is_nest
from ..dataset import Dataset
from ..dtypes import DTypeLike
from ..lookup import KeyValueTensorInitializer, StaticHashTable, StaticVocabularyTable


class DatasetInitializer(KeyValueTensorInitializer):
    """Keys and values from a dataset, as ``tf.data.experimental.DatasetInitializer``.

    Parameters
    ----------
    dataset : Dataset
        Of pairs of scalars (key, value). It is read now, here.

    Raises
    ------
    ValueError
        Its elements are something else.

    Examples
    --------
    >>> pairs = mr.Dataset.from_tensor_slices((["a", "b"], [5, 6]))
    >>> table = mr.lookup.StaticHashTable(mr.experimental.DatasetInitializer(pairs), -1)
    >>> table[["b", "x"]]
    array([ 6, -1], dtype=int32)
    """

    def __init__(self, dataset: Dataset) -> None:
        if not isinstance(dataset, Dataset):
            raise TypeError(f"a table is made of a Dataset, not of {type(dataset).__name__}")
        spec = dataset.element_spec
        if not (
            type(spec) is tuple
            and len(spec) == 2
            and not any(map(is_nest, spec))
            and all(isinstance(part, TensorSpec) and part.shape.rank == 0 for part in spec)
        ):
            raise ValueError(f"a table is made of pairs of scalars (key, value), not of {spec}")
        pairs = list(dataset)
        keys, values = (_vector([pair[i] for pair in pairs], part) for i, part in enumerate(spec))
        super().__init__(keys, values)


def _vector(values: list[Any], spec: TensorSpec) -> Array:
    array: Array = np.empty(
        len(values), object if spec.dtype.kind == "s" else spec.dtype.numpy_dtype()
    )
    array[:] = values
    return array


def table_from_dataset(
    dataset: Dataset,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: Any = None,
    hasher_spec: Any = None,
    key_dtype: DTypeLike = "string",
    name: str | None = None,
) -> StaticHashTable | StaticVocabularyTable:
    """Make a lookup table of the pairs of a dataset.

    Parameters
    ----------
    dataset : Dataset
        Of pairs of scalars (key, value). It is read now, here.
    num_oov_buckets : int, default 0
        How many buckets there are for what is no key; values are int64 then.
    vocab_size : int, optional
        How many elements are taken; by default all.
    default_value : scalar, optional
        Without buckets: the value of what is no key; by default -1.
    hasher_spec, key_dtype, name : optional
        Accepted and ignored: the dtype of the keys is the dataset's.

    Returns
    -------
    StaticHashTable or StaticVocabularyTable
        The latter with buckets.

    Raises
    ------
    ValueError
        The elements are something else, a number is out of range, or there are fewer elements than
        `vocab_size`.
    TypeError
        There are buckets, and the values are not int64.

    Examples
    --------
    >>> pairs = mr.Dataset.from_tensor_slices((["a", "b"], np.array([0, 1])))
    >>> mr.experimental.table_from_dataset(pairs, num_oov_buckets=1)[["b", "x"]]
    array([1, 2])
    """
    if vocab_size is not None and vocab_size < 1:
        raise ValueError(f"vocab_size is at least 1, not {vocab_size}")
    if num_oov_buckets < 0:
        raise ValueError(f"num_oov_buckets is at least 0, not {num_oov_buckets}")
    if vocab_size is not None and isinstance(dataset, Dataset):
        dataset = dataset.take(vocab_size)
    entries = DatasetInitializer(dataset)
    if vocab_size is not None and len(entries._keys) < vocab_size:
        raise ValueError(f"vocab_size is {vocab_size}, the dataset has {len(entries._keys)}")
    if num_oov_buckets > 0:
        return StaticVocabularyTable(entries, num_oov_buckets)
    return StaticHashTable(entries, -1 if default_value is None else default_value)


def index_table_from_dataset(
    dataset: Dataset,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: Any = -1,
    hasher_spec: Any = None,
    key_dtype: DTypeLike = "string",
    name: str | None = None,
) -> StaticHashTable | StaticVocabularyTable:
    """Make a lookup table from the elements of a dataset to their places in it.

    Parameters
    ----------
    dataset : Dataset
        Of scalars, the keys. It is read now, here.
    num_oov_buckets, vocab_size, default_value, hasher_spec, key_dtype, name
        As in `table_from_dataset`.

    Returns
    -------
    StaticHashTable or StaticVocabularyTable
        The latter with buckets.

    Raises
    ------
    ValueError
        As in `table_from_dataset`; or an element comes twice.

    Examples
    --------
    >>> words = mr.Dataset.from_tensor_slices(["a", "b"])
    >>> mr.experimental.index_table_from_dataset(words)[["b", "x"]]
    array([ 1, -1])
    """
    if not isinstance(dataset, Dataset):
        raise TypeError(f"a table is made of a Dataset, not of {type(dataset).__name__}")
    return table_from_dataset(
        dataset.enumerate().map(lambda place, key: (key, place)),
        num_oov_buckets,
        vocab_size,
        default_value,
    )
