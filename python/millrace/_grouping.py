"""Datasets of groups: group_by_window, and bucket_by_sequence_length on top of it."""

import numpy as np

from . import _ffi, _spec, _structure
from ._ffi import lib
from ._ops import assert_, cast, gather, less_equal, reduce_sum
from ._tensor import Tensor, convert_to_tensor, is_literal, trace

_KEY = _spec.TensorSpec([], "int64")


def _trace_key(func, spec, structure, what):
    def as_int64(*arguments):
        result = func(*arguments)
        return convert_to_tensor(result, "int64") if is_literal(result) else result

    fn, returned = trace(as_int64, spec, structure, what)
    if returned is not None:
        raise TypeError(f"the function given to {what} returned a dataset, not an int64 scalar")
    return fn


def functions_of(ds, key_func, reduce_func, window_size_func):
    """The traced functions of group_by_window, in the library's order."""
    for name, func in (("key_func", key_func), ("reduce_func", reduce_func), ("window_size_func", window_size_func)):
        if not callable(func) and (func is not None or name != "window_size_func"):
            raise TypeError(f"group_by_window: {name} is a function, not {type(func).__name__}")
    element = lib.mr_dataset_spec(ds._handle.ptr)
    functions = [_trace_key(key_func, element, ds._structure, "group_by_window as key_func")]
    group = {"!dataset": _spec.to_json(element)}
    structure = [_structure.LEAF, group]
    spec = _spec.new_spec([_KEY, _spec.TensorSpec([], "string")], structure)  # held until it was traced
    fn, returned = trace(reduce_func, spec.ptr, structure, "group_by_window as reduce_func")
    if returned is None:
        raise TypeError("the reduce_func given to group_by_window returns a Dataset")
    functions.append(fn)
    if window_size_func is not None:
        spec = _spec.new_spec([_KEY], _structure.LEAF)
        functions.append(_trace_key(window_size_func, spec.ptr, _structure.LEAF, "group_by_window as window_size_func"))
    return functions


def _integers(name, values):
    array = np.asarray(values).reshape(-1)
    if array.size > 0 and array.dtype.kind not in "iu":
        raise TypeError(f"{name} are integers, not {values!r}")
    return array.astype(np.int64)


def bucket(ds, element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes, padding_values,
           pad_to_bucket_boundary, no_padding, drop_remainder):
    """bucket_by_sequence_length."""
    boundaries = _integers("bucket_boundaries", bucket_boundaries)
    sizes = _integers("bucket_batch_sizes", bucket_batch_sizes)
    if len(sizes) != len(boundaries) + 1:
        raise ValueError("len(bucket_batch_sizes) must be len(bucket_boundaries) + 1, got "
                         f"{len(sizes)} and {len(boundaries)}")
    if (np.diff(boundaries) <= 0).any():
        raise ValueError(f"bucket_boundaries must increase: {boundaries.tolist()}")

    def bucket_of(*element):
        length = element_length_func(*element)
        length = cast(length if isinstance(length, Tensor) else convert_to_tensor(length), "int64")
        return reduce_sum(cast(less_equal(boundaries, length), "int64"))

    def size_of(bucket):
        return gather(sizes, bucket)

    def batch(bucket, group):
        size = size_of(bucket)
        if no_padding:
            return group.batch(size, drop_remainder=drop_remainder)
        unknown = None
        if pad_to_bucket_boundary:
            inside = assert_(bucket, bucket < len(boundaries), "pad_to_bucket_boundary: an element is not shorter than the "
                             f"last of bucket_boundaries, {boundaries[-1] if len(boundaries) else 'of which there is none'}")
            unknown = gather(np.append(boundaries, 0), inside) - 1
        return group._padded_batch(size, padded_shapes, padding_values, drop_remainder, unknown)

    return ds.group_by_window(bucket_of, batch, window_size_func=size_of)
