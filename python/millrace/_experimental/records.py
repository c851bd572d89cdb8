"""TFRecord files: written from a dataset, read and parsed in batches."""

from __future__ import annotations

import os
from typing import Any, Callable, Sequence

from .._data.spec import TensorSpec
from .._datasets.arguments import AUTOTUNE, IntLike
from .._files import TFRecordDataset
from .._ops.examples import parse_example
from ..dataset import Dataset
from ..io import TFRecordOptions
from ..io import TFRecordWriter as _Writer
from .sources import Transformation


class TFRecordWriter:
    """Writes the elements of a dataset, as ``tf.data.experimental.TFRecordWriter``.

    Parameters
    ----------
    filename : str or path
        The name, which the file has as soon as it is whole.
    compression_type : {None, "", "GZIP", "ZLIB", "ZSTD"}, optional
        None and "": not compressed.

    Raises
    ------
    ValueError
        There is no such compression.

    Examples
    --------
    >>> ds = mr.Dataset.from_tensor_slices(["a", "b"])
    >>> mr.experimental.TFRecordWriter("words.tfrecord").write(ds)
    >>> list(mr.TFRecordDataset("words.tfrecord"))
    [b'a', b'b']
    """

    def __init__(self, filename: str | os.PathLike[str], compression_type: Any = None) -> None:
        self._filename = filename
        self._compression = TFRecordOptions.get_compression_type_string(compression_type)

    def write(self, dataset: Dataset) -> None:
        """Read the dataset, and write a record for each element.

        Parameters
        ----------
        dataset : Dataset
            Of scalar strings.

        Raises
        ------
        TypeError
            Its elements are something else.

        Examples
        --------
        >>> writer = mr.experimental.TFRecordWriter("numbers.tfrecord", "GZIP")
        >>> writer.write(mr.Dataset.range(3).map(mr.strings.as_string))
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(f"write takes a Dataset, not {type(dataset).__name__}")
        if dataset.element_spec != TensorSpec([], "string"):
            raise TypeError(f"records are scalar strings, the elements are {dataset.element_spec}")
        with _Writer(self._filename, self._compression) as writer:
            for record in dataset:
                writer.write(record)


def parse_example_dataset(
    features: Any, num_parallel_calls: IntLike | None = 1, deterministic: bool | None = None
) -> Transformation:
    """Parse batches of serialized ``tf.train.Example``.

    Parameters
    ----------
    features : dict
        What to parse, as in `mr.io.parse_example`.
    num_parallel_calls, deterministic : optional
        As those of Dataset.map.

    Returns
    -------
    callable
        Dataset of vectors of strings -> Dataset of dicts.

    Raises
    ------
    ValueError
        No features are given.

    Examples
    --------
    >>> example = mr.train.Example(features=mr.train.Features(feature={
    ...     "n": mr.train.Feature(int64_list=mr.train.Int64List(value=[7]))}))
    >>> ds = mr.Dataset.from_tensors([example.SerializeToString()])
    >>> parse = mr.experimental.parse_example_dataset({"n": mr.io.FixedLenFeature([], mr.int64)})
    >>> list(ds.apply(parse))
    [{'n': array([7])}]
    """
    if features is None:
        raise ValueError("parse_example_dataset takes features: what is to be parsed")
    return lambda dataset: dataset.map(
        lambda records: parse_example(records, features), num_parallel_calls, deterministic
    )


def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: IntLike,
    features: Any,
    reader: Callable[..., Dataset] | None = None,
    label_key: str | None = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: IntLike = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: IntLike | None = None,
    reader_num_threads: IntLike | None = None,
    parser_num_threads: IntLike | None = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Read files of serialized ``tf.train.Example`` in batches, parsed.

    As ``tf.data.experimental.make_batched_features_dataset``.

    Parameters
    ----------
    file_pattern : str, path or sequence of them
        As in Dataset.list_files.
    batch_size : int
        How many records a batch has.
    features : dict
        What to parse, as in `mr.io.parse_example`.
    reader : callable, optional
        A file's name -> Dataset of records, or of pairs of a key and a record; by default
        mr.TFRecordDataset.
    label_key : str, optional
        The feature that is the label: elements are pairs (features, label) then.
    reader_args : sequence, optional
        More arguments of `reader`.
    num_epochs : int, optional
        How often the files are read; for ever by default.
    shuffle : bool, default True
        Whether files and records come in a random order.
    shuffle_buffer_size : int, default 10000
        As of Dataset.shuffle.
    shuffle_seed : int, optional
        For the order.
    prefetch_buffer_size : int, optional
        Batches that are made ahead; by default as many as pay.
    reader_num_threads : int, optional
        Files that are read at a time; by default one. mr.AUTOTUNE: as many as pay.
    parser_num_threads : int, optional
        Batches that are parsed at a time; by default as many as pay.
    sloppy_ordering : bool, default False
        Whether the order may depend on which file is faster.
    drop_final_batch : bool, default False
        Whether a last batch that is smaller is left out. Without an end there is none.

    Returns
    -------
    Dataset
        Of dicts of tensors, or pairs of these and a label.

    Raises
    ------
    InvalidArgumentError
        No file matches.
    ValueError
        `label_key` is no feature.

    Examples
    --------
    >>> example = mr.train.Example(features=mr.train.Features(feature={
    ...     "n": mr.train.Feature(int64_list=mr.train.Int64List(value=[7]))}))
    >>> with mr.io.TFRecordWriter("seven.tfrecord") as writer:
    ...     writer.write(example.SerializeToString())
    >>> ds = mr.experimental.make_batched_features_dataset(
    ...     "seven.tfrecord", 2, {"n": mr.io.FixedLenFeature([], mr.int64)}, num_epochs=1)
    >>> list(ds)
    [{'n': array([7])}]
    """
    if label_key is not None and label_key not in features:
        raise ValueError(f"label_key is {label_key!r}, the features are {sorted(features)}")
    read: Callable[..., Dataset] = reader or TFRecordDataset
    threads = 1 if reader_num_threads is None else reader_num_threads
    ds = Dataset.list_files(file_pattern, shuffle, shuffle_seed).interleave(
        lambda name: read(name, *(reader_args or ())),
        cycle_length=threads,
        num_parallel_calls=threads,
        deterministic=not sloppy_ordering,
    )
    if isinstance(ds.element_spec, tuple):
        ds = ds.map(lambda _, record: record)
    if shuffle:
        ds = ds.shuffle(shuffle_buffer_size, shuffle_seed)
    if num_epochs != 1:
        ds = ds.repeat(num_epochs)
    ds = ds.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    calls = AUTOTUNE if parser_num_threads is None else parser_num_threads
    ds = ds.apply(parse_example_dataset(features, calls))
    if label_key is not None:
        ds = ds.map(
            lambda element: (
                {key: value for key, value in element.items() if key != label_key},
                element[label_key],
            )
        )
    ahead = AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size
    return ds.prefetch(ahead)._named("make_batched_features_dataset", [])
