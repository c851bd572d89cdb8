"""Mirrors tf.data.experimental, as far as it is built."""

from . import dataset as _dataset, service  # noqa: F401
from ._hints import missing_name as _missing_name
from .dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY  # noqa: F401
from .options import (AutoShardPolicy, AutotuneAlgorithm, AutotuneOptions, DistributeOptions,  # noqa: F401
                      ExternalStatePolicy, OptimizationOptions, ThreadingOptions)


def cardinality(dataset):
    """dataset.cardinality()"""
    return dataset.cardinality()


def get_single_element(dataset):
    """dataset.get_single_element()"""
    return dataset.get_single_element()


def get_structure(dataset_or_iterator):
    """dataset_or_iterator.element_spec"""
    return dataset_or_iterator.element_spec


# ---- what tf.data deprecates in favour of methods of Dataset, for apply() ----


def parallel_interleave(map_func, cycle_length, block_length=1, sloppy=False, buffer_output_elements=None,
                        prefetch_input_elements=None):
    """Dataset.interleave() in parallel, in any order if @sloppy. How much is buffered is not to be chosen."""
    return lambda dataset: dataset.interleave(map_func, cycle_length, block_length, num_parallel_calls=AUTOTUNE,
                                              deterministic=not sloppy)


def map_and_batch(map_func, batch_size, num_parallel_batches=None, drop_remainder=False, num_parallel_calls=None):
    """Dataset.map() in parallel, and Dataset.batch()."""
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError("map_and_batch takes num_parallel_batches or num_parallel_calls, not both")
    calls = AUTOTUNE if num_parallel_calls is None else num_parallel_calls
    return lambda dataset: dataset.map(map_func, calls).batch(batch_size, drop_remainder)


def shuffle_and_repeat(buffer_size, count=None, seed=None):
    """Dataset.shuffle() and Dataset.repeat()."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def enumerate_dataset(start=0):
    """Dataset.enumerate()"""
    return lambda dataset: dataset.enumerate(start)


def unbatch():
    """Dataset.unbatch()"""
    return lambda dataset: dataset.unbatch()


def ignore_errors(log_warning=False):
    """Dataset.ignore_errors()"""
    return lambda dataset: dataset.ignore_errors(log_warning)


def take_while(predicate):
    """Dataset.take_while()"""
    return lambda dataset: dataset.take_while(predicate)


def unique():
    """Dataset.unique()"""
    return lambda dataset: dataset.unique()


def scan(initial_state, scan_func):
    """Dataset.scan()"""
    return lambda dataset: dataset.scan(initial_state, scan_func)


def group_by_window(key_func, reduce_func, window_size=None, window_size_func=None):
    """Dataset.group_by_window()"""
    return lambda dataset: dataset.group_by_window(key_func, reduce_func, window_size, window_size_func)


def bucket_by_sequence_length(element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes=None,
                              padding_values=None, pad_to_bucket_boundary=False, no_padding=False, drop_remainder=False):
    """Dataset.bucket_by_sequence_length()"""
    return lambda dataset: dataset.bucket_by_sequence_length(
        element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes, padding_values, pad_to_bucket_boundary,
        no_padding, drop_remainder)


def choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset=False):
    """Dataset.choose_from_datasets(), which goes on at the end of a dataset unless it is told to stop."""
    return _dataset.Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(datasets, weights=None, seed=None, stop_on_empty_dataset=False):
    """Dataset.sample_from_datasets()"""
    return _dataset.Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


def Counter(start=0, step=1, dtype="int64"):
    """Dataset.counter()"""
    return _dataset.Dataset.counter(start, step, dtype)


__getattr__ = _missing_name(__name__)
