"""Mirrors tf.data.experimental, as far as it is built."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Sequence

from . import service as service
from ._base.hints import missing_name as _missing_name
from ._csv import CsvDataset as CsvDataset, make_csv_dataset as make_csv_dataset
from ._experimental.lookups import (
    DatasetInitializer as DatasetInitializer,
    index_table_from_dataset as index_table_from_dataset,
    table_from_dataset as table_from_dataset,
)
from ._experimental.optional import (
    Optional as Optional,
    get_next_as_optional as get_next_as_optional,
)
from ._experimental.records import (
    TFRecordWriter as TFRecordWriter,
    make_batched_features_dataset as make_batched_features_dataset,
    parse_example_dataset as parse_example_dataset,
)
from ._experimental.reducing import Reducer as Reducer, group_by_reducer as group_by_reducer
from ._experimental.sources import (
    Transformation as _Transformation,
    assert_cardinality as assert_cardinality,
    at as at,
    from_list as from_list,
    pad_to_cardinality as pad_to_cardinality,
)
from ._experimental.sql import SqlDataset as SqlDataset
from ._ops.absent import absent as _absent
from .dataset import AUTOTUNE as AUTOTUNE, INFINITE_CARDINALITY as INFINITE_CARDINALITY
from .dataset import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY, Dataset, IntLike
from ._tables import ArrowDataset as ArrowDataset, ParquetDataset as ParquetDataset
from .dtypes import DTypeLike
from .options import (
    AutoShardPolicy as AutoShardPolicy,
    AutotuneAlgorithm as AutotuneAlgorithm,
    AutotuneOptions as AutotuneOptions,
    DistributeOptions as DistributeOptions,
    ExternalStatePolicy as ExternalStatePolicy,
    OptimizationOptions as OptimizationOptions,
    ThreadingOptions as ThreadingOptions,
)

__all__ = [
    "AUTOTUNE",
    "ArrowDataset",
    "AutoShardPolicy",
    "AutotuneAlgorithm",
    "AutotuneOptions",
    "Counter",
    "CsvDataset",
    "DatasetInitializer",
    "DistributeOptions",
    "ExternalStatePolicy",
    "INFINITE_CARDINALITY",
    "OptimizationOptions",
    "Optional",
    "ParquetDataset",
    "RandomDataset",
    "Reducer",
    "SHARD_HINT",
    "SqlDataset",
    "TFRecordWriter",
    "ThreadingOptions",
    "UNKNOWN_CARDINALITY",
    "assert_cardinality",
    "at",
    "bucket_by_sequence_length",
    "cardinality",
    "choose_from_datasets",
    "copy_to_device",
    "dense_to_ragged_batch",
    "dense_to_sparse_batch",
    "enable_debug_mode",
    "enumerate_dataset",
    "from_list",
    "from_variant",
    "get_next_as_optional",
    "get_single_element",
    "get_structure",
    "group_by_reducer",
    "group_by_window",
    "ignore_errors",
    "index_table_from_dataset",
    "load",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "make_saveable_from_iterator",
    "map_and_batch",
    "pad_to_cardinality",
    "parallel_interleave",
    "parse_example_dataset",
    "prefetch_to_device",
    "rejection_resample",
    "sample_from_datasets",
    "save",
    "scan",
    "service",
    "shuffle_and_repeat",
    "snapshot",
    "table_from_dataset",
    "take_while",
    "to_variant",
    "unbatch",
    "unique",
]


def cardinality(dataset: Dataset) -> Any:
    """Return ``dataset.cardinality()``.

    Parameters
    ----------
    dataset : Dataset
        Whose number of elements.

    Returns
    -------
    numpy.int64
        Or INFINITE_CARDINALITY, or UNKNOWN_CARDINALITY.

    Examples
    --------
    >>> mr.experimental.cardinality(mr.Dataset.range(3))
    3
    """
    return dataset.cardinality()


def get_single_element(dataset: Dataset) -> Any:
    """Return ``dataset.get_single_element()``.

    Parameters
    ----------
    dataset : Dataset
        With one element.

    Returns
    -------
    nested numpy.ndarray
        The element.

    Raises
    ------
    InvalidArgumentError
        There is none, or more than one.

    Examples
    --------
    >>> mr.experimental.get_single_element(mr.Dataset.range(1))
    0
    """
    return dataset.get_single_element()


def get_structure(dataset_or_iterator: Any) -> Any:
    """Return what the elements are.

    Parameters
    ----------
    dataset_or_iterator : Dataset or NumpyIterator
        Whose elements.

    Returns
    -------
    nested TensorSpec
        Its `element_spec`.

    Examples
    --------
    >>> mr.experimental.get_structure(mr.Dataset.range(3))
    TensorSpec(shape=(), dtype=mr.int64)
    """
    return dataset_or_iterator.element_spec


# ---- what tf.data deprecates in favour of methods of Dataset, for apply() ----


def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: IntLike,
    block_length: IntLike = 1,
    sloppy: bool = False,
    buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> _Transformation:
    """Give ``Dataset.interleave`` in parallel. as a function for ``Dataset.apply``.

    Parameters
    ----------
    map_func, cycle_length, block_length
        As those of the method.
    sloppy : bool, default False
        Whether elements may come in any order.
    buffer_output_elements, prefetch_input_elements : optional
        Accepted and ignored: how much is buffered is not to be chosen.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> list(ds.apply(mr.experimental.parallel_interleave(mr.Dataset.range, 2)))
    [0, 0, 1, 0, 1, 2]
    """
    return lambda dataset: dataset.interleave(
        map_func, cycle_length, block_length, num_parallel_calls=AUTOTUNE, deterministic=not sloppy
    )


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: IntLike,
    num_parallel_batches: IntLike | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: IntLike | None = None,
) -> _Transformation:
    """Give ``Dataset.map`` in parallel, and batch. as a function for ``Dataset.apply``.

    Parameters
    ----------
    map_func, batch_size, drop_remainder, num_parallel_calls
        As those of Dataset.map and Dataset.batch; calls are mr.AUTOTUNE by default.
    num_parallel_batches : optional
        Accepted in place of `num_parallel_calls`.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Raises
    ------
    ValueError
        Both numbers were given.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> list(ds.apply(mr.experimental.map_and_batch(lambda x: x + 1, 2)))
    [array([1, 2]), array([3, 4])]
    """
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError("map_and_batch takes num_parallel_batches or num_parallel_calls, not both")
    calls: IntLike = AUTOTUNE if num_parallel_calls is None else num_parallel_calls
    return lambda dataset: dataset.map(map_func, calls).batch(batch_size, drop_remainder)


def dense_to_ragged_batch(
    batch_size: IntLike, drop_remainder: bool = False, row_splits_dtype: DTypeLike = "int64"
) -> _Transformation:
    """Give ``Dataset.ragged_batch`` as a function for ``Dataset.apply``.

    Parameters
    ----------
    batch_size, drop_remainder, row_splits_dtype
        As those of Dataset.ragged_batch.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> ds = mr.Dataset.range(3).map(lambda n: mr.range(n))
    >>> list(ds.apply(mr.experimental.dense_to_ragged_batch(3)))
    [<RaggedTensor [[], [0], [0, 1]]>]
    """
    return lambda dataset: dataset.ragged_batch(batch_size, drop_remainder, row_splits_dtype)


def dense_to_sparse_batch(batch_size: IntLike, row_shape: Any) -> _Transformation:
    """Give ``Dataset.sparse_batch`` as a function for ``Dataset.apply``.

    Parameters
    ----------
    batch_size, row_shape
        As those of Dataset.sparse_batch.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> ds = mr.Dataset.range(3).map(lambda n: mr.range(n))
    >>> next(iter(ds.apply(mr.experimental.dense_to_sparse_batch(3, [2])))).dense_shape
    array([3, 2])
    """
    return lambda dataset: dataset.sparse_batch(batch_size, row_shape)


def shuffle_and_repeat(
    buffer_size: IntLike, count: IntLike | None = None, seed: IntLike | None = None
) -> _Transformation:
    """Give ``Dataset.shuffle`` and repeat. as a function for ``Dataset.apply``.

    Parameters
    ----------
    buffer_size, count, seed
        As those of Dataset.shuffle and Dataset.repeat.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> sorted(ds.apply(mr.experimental.shuffle_and_repeat(10, 2)))
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def enumerate_dataset(start: IntLike = 0) -> _Transformation:
    """Give ``Dataset.enumerate`` as a function for ``Dataset.apply``.

    Parameters
    ----------
    start : int, default 0
        The first number.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> list(ds.apply(mr.experimental.enumerate_dataset(5)))
    [(5, 0), (6, 1), (7, 2), (8, 3)]
    """
    return lambda dataset: dataset.enumerate(start)


def unbatch() -> _Transformation:
    """Give ``Dataset.unbatch`` as a function for ``Dataset.apply``.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> list(ds.batch(2).apply(mr.experimental.unbatch()))
    [0, 1, 2, 3]
    """
    return lambda dataset: dataset.unbatch()


def ignore_errors(log_warning: bool = False, max_errors: int | None = None) -> _Transformation:
    """Give ``Dataset.ignore_errors`` as a function for ``Dataset.apply``.

    Parameters
    ----------
    log_warning, max_errors
        As those of the method.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> list(ds.apply(mr.experimental.ignore_errors()))
    [0, 1, 2, 3]
    """
    return lambda dataset: dataset.ignore_errors(log_warning, max_errors=max_errors)


def take_while(predicate: Callable[..., Any]) -> _Transformation:
    """Give ``Dataset.take_while`` as a function for ``Dataset.apply``.

    Parameters
    ----------
    predicate : callable
        As that of the method.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> list(ds.apply(mr.experimental.take_while(lambda x: x < 2)))
    [0, 1]
    """
    return lambda dataset: dataset.take_while(predicate)


def unique() -> _Transformation:
    """Give ``Dataset.unique`` as a function for ``Dataset.apply``.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> list(ds.repeat(2).apply(mr.experimental.unique()))
    [0, 1, 2, 3]
    """
    return lambda dataset: dataset.unique()


def scan(initial_state: Any, scan_func: Callable[..., Any]) -> _Transformation:
    """Give ``Dataset.scan`` as a function for ``Dataset.apply``.

    Parameters
    ----------
    initial_state, scan_func
        As those of the method.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> list(ds.apply(mr.experimental.scan(np.int64(0), lambda s, x: (s + x, s))))
    [0, 0, 1, 3]
    """
    return lambda dataset: dataset.scan(initial_state, scan_func)


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[..., Any],
    window_size: IntLike | None = None,
    window_size_func: Callable[..., Any] | None = None,
) -> _Transformation:
    """Give ``Dataset.group_by_window`` as a function for ``Dataset.apply``.

    Parameters
    ----------
    key_func, reduce_func, window_size, window_size_func
        As those of the method.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> list(ds.apply(mr.experimental.group_by_window(lambda x: x % 2, lambda k, g: g.batch(2), 2)))
    [array([0, 2]), array([1, 3])]
    """
    return lambda dataset: dataset.group_by_window(
        key_func, reduce_func, window_size, window_size_func
    )


def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> _Transformation:
    """Give ``Dataset.bucket_by_sequence_length`` as a function for ``Dataset.apply``.

    Parameters
    ----------
    element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes, padding_values
        As those of the method.
    pad_to_bucket_boundary, no_padding, drop_remainder : bool, default False
        As those of the method.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> list(ds.apply(mr.experimental.bucket_by_sequence_length(lambda x: x, [2], [2, 2])))
    [array([0, 1]), array([2, 3])]
    """
    return lambda dataset: dataset.bucket_by_sequence_length(
        element_length_func,
        bucket_boundaries,
        bucket_batch_sizes,
        padded_shapes,
        padding_values,
        pad_to_bucket_boundary,
        no_padding,
        drop_remainder,
    )


def choose_from_datasets(
    datasets: Iterable[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Call ``Dataset.choose_from_datasets``, going on at the end of a dataset unless told to stop.

    Parameters
    ----------
    datasets, choice_dataset
        As those of the method.
    stop_on_empty_dataset : bool, default False
        Whether the end of one is the end of all.

    Returns
    -------
    Dataset
        Of their elements.

    Examples
    --------
    >>> choice = mr.Dataset.from_tensor_slices(np.array([1, 0]))
    >>> parts = [mr.Dataset.range(3), mr.Dataset.range(10, 13)]
    >>> list(mr.experimental.choose_from_datasets(parts, choice))
    [10, 0]
    """
    return Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(
    datasets: Iterable[Dataset],
    weights: Any = None,
    seed: IntLike | None = None,
    stop_on_empty_dataset: bool = False,
) -> Dataset:
    """Call ``Dataset.sample_from_datasets``.

    Parameters
    ----------
    datasets, weights, seed, stop_on_empty_dataset
        As those of the method.

    Returns
    -------
    Dataset
        Of their elements.

    Examples
    --------
    >>> parts = [mr.Dataset.range(2), mr.Dataset.range(10, 12)]
    >>> sorted(mr.experimental.sample_from_datasets(parts, seed=1))
    [0, 1, 10, 11]
    """
    return Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


def save(
    dataset: Dataset,
    path: Any,
    compression: str | None = None,
    shard_func: Callable[..., Any] | None = None,
    checkpoint_args: Any = None,
) -> None:
    """Call ``dataset.save``.

    Parameters
    ----------
    dataset : Dataset
        Whose elements.
    path, compression, shard_func, checkpoint_args
        As those of the method.

    Examples
    --------
    >>> mr.experimental.save(mr.Dataset.range(3), "three")
    >>> list(mr.Dataset.load("three"))
    [0, 1, 2]
    """
    dataset.save(path, compression, shard_func, checkpoint_args)


def load(
    path: Any,
    element_spec: Any = None,
    compression: str | None = None,
    reader_func: Callable[..., Any] | None = None,
) -> Dataset:
    """Call ``Dataset.load``.

    Parameters
    ----------
    path, element_spec, compression, reader_func
        As those of the method.

    Returns
    -------
    Dataset
        Of what was saved.

    Examples
    --------
    >>> mr.Dataset.range(3).save("three")
    >>> list(mr.experimental.load("three"))
    [0, 1, 2]
    """
    return Dataset.load(path, element_spec, compression, reader_func)


def snapshot(
    path: Any,
    compression: str | None = "AUTO",
    reader_func: Callable[..., Any] | None = None,
    shard_func: Callable[..., Any] | None = None,
) -> _Transformation:
    """Call ``Dataset.snapshot``.

    Parameters
    ----------
    path, compression, reader_func, shard_func
        As those of the method.

    Returns
    -------
    callable
        For ``Dataset.apply``.

    Examples
    --------
    >>> list(mr.Dataset.range(3).apply(mr.experimental.snapshot("snapshots")))
    [0, 1, 2]
    """
    return lambda ds: ds.snapshot(path, compression, reader_func, shard_func)


def Counter(start: IntLike = 0, step: Any = 1, dtype: DTypeLike = "int64") -> Dataset:
    """Call ``Dataset.counter``.

    Parameters
    ----------
    start, step, dtype
        As those of the method.

    Returns
    -------
    Dataset
        Of scalars, without an end.

    Examples
    --------
    >>> list(mr.experimental.Counter(3).take(2))
    [3, 4]
    """
    return Dataset.counter(start, step, dtype)


def RandomDataset(
    seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None
) -> Dataset:
    """Call ``Dataset.random``.

    Parameters
    ----------
    seed, rerandomize_each_iteration, name
        As those of the method.

    Returns
    -------
    Dataset
        Of int64 scalars, without an end.

    Examples
    --------
    >>> len(list(mr.experimental.RandomDataset(4).take(2)))
    2
    """
    return Dataset.random(seed, rerandomize_each_iteration, name)


def rejection_resample(
    class_func: Callable[..., Any],
    target_dist: Any,
    initial_dist: Any = None,
    seed: int | None = None,
) -> _Transformation:
    """Give ``Dataset.rejection_resample`` as a function for ``Dataset.apply``.

    Parameters
    ----------
    class_func, target_dist, initial_dist, seed
        As those of the method.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Examples
    --------
    >>> resample = mr.experimental.rejection_resample(lambda x: x % 2, [0.5, 0.5], seed=1)
    >>> next(iter(mr.Dataset.range(10).apply(resample)))
    (0, 0)
    """
    return lambda dataset: dataset.rejection_resample(class_func, target_dist, initial_dist, seed)


# ---- not supported ----

_devices = "elements are arrays of this process: copy them behind the iterator"
copy_to_device = _absent("copy_to_device", _devices)
prefetch_to_device = _absent("prefetch_to_device", f"use Dataset.prefetch; {_devices}")
enable_debug_mode = _absent("enable_debug_mode", "try the function on arrays: it computes at once")
_pickles = "datasets pickle"
from_variant = _absent("from_variant", _pickles)
to_variant = _absent("to_variant", _pickles)
make_saveable_from_iterator = _absent(
    "make_saveable_from_iterator", "iterators have get_state() and set_state()"
)
SHARD_HINT = -1  # as an argument of Dataset.shard it is refused: there is no such policy

__getattr__ = _missing_name(__name__)
