"""Datasets of groups: group_by_window, and bucket_by_sequence_length on top of it."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import numpy as np

from .._capi import ffi as _ffi
from .._data import spec as _spec
from .._data import structure as _structure
from .._data.block import Array
from .._data.structure import Structure
from .._graph.literals import is_literal
from .._graph.symbol import Symbol
from .._graph.tensor import convert_to_tensor
from .._ops.arrays import gather
from .._ops.constants import cast
from .._ops.elementwise import assert_, less_equal
from .._ops.reductions import reduce_sum
from .base import DatasetBase
from .trace import trace

KEY = _spec.TensorSpec([], "int64")


def trace_key(
    ds: DatasetBase,
    func: Callable[..., Any],
    what: str,
    spec: Any = None,
    structure: Structure = None,
) -> _ffi.FunctionHandle:
    def as_int64(*arguments: Any) -> Any:
        result = func(*arguments)
        return convert_to_tensor(result, "int64") if is_literal(result) else result

    fn, returned = trace(ds, as_int64, what, spec, structure)
    if returned is not None:
        raise TypeError(f"the function given to {what} returned a dataset, not an int64 scalar")
    return fn


def functions_of(
    ds: DatasetBase, key_func: Any, reduce_func: Any, window_size_func: Any
) -> list[_ffi.FunctionHandle]:
    """The traced functions of group_by_window, in the library's order."""
    for name, func in (
        ("key_func", key_func),
        ("reduce_func", reduce_func),
        ("window_size_func", window_size_func),
    ):
        if not callable(func) and (func is not None or name != "window_size_func"):
            raise TypeError(f"group_by_window: {name} is a function, not {type(func).__name__}")
    functions = [trace_key(ds, key_func, "group_by_window as key_func")]
    group = {"!dataset": _spec.to_json(ds._spec_ptr)}
    structure = [_structure.LEAF, group]
    # Held until it was traced.
    spec = _spec.new_spec([KEY, _spec.TensorSpec([], "string")], structure)
    fn, returned = trace(ds, reduce_func, "group_by_window as reduce_func", spec.ptr, structure)
    if returned is None:
        raise TypeError("the reduce_func given to group_by_window returns a Dataset")
    functions.append(fn)
    if window_size_func is not None:
        spec = _spec.new_spec([KEY], _structure.LEAF)
        functions.append(
            trace_key(
                ds,
                window_size_func,
                "group_by_window as window_size_func",
                spec.ptr,
                _structure.LEAF,
            )
        )
    return functions


def _integers(name: str, values: Any) -> Array:
    array = np.asarray(values).reshape(-1)
    if array.size > 0 and array.dtype.kind not in "iu":
        raise TypeError(f"{name} are integers, not {values!r}")
    return array.astype(np.int64)


def buckets(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Iterable[Any],
    bucket_batch_sizes: Iterable[Any],
    pad_to_bucket_boundary: bool,
) -> tuple[Callable[..., Any], Callable[[Any], Any], Callable[[Any], Any]]:
    """
    Of bucket_by_sequence_length: which bucket an element is of, the size of its batches, and what
    unknown dimensions are padded to (None: to the longest of the batch).
    """
    boundaries = _integers("bucket_boundaries", bucket_boundaries)
    sizes = _integers("bucket_batch_sizes", bucket_batch_sizes)
    if len(sizes) != len(boundaries) + 1:
        raise ValueError(
            "len(bucket_batch_sizes) must be len(bucket_boundaries) + 1, got "
            f"{len(sizes)} and {len(boundaries)}"
        )
    if (np.diff(boundaries) <= 0).any():
        raise ValueError(f"bucket_boundaries must increase: {boundaries.tolist()}")

    def bucket_of(*element: Any) -> Any:
        length = element_length_func(*element)
        length = cast(length if isinstance(length, Symbol) else convert_to_tensor(length), "int64")
        return reduce_sum(cast(less_equal(boundaries, length), "int64"))

    def size_of(bucket: Any) -> Any:
        return gather(sizes, bucket)

    def padded_to(bucket: Any) -> Any:
        if not pad_to_bucket_boundary:
            return None
        last = boundaries[-1] if len(boundaries) else "of which there is none"
        inside = assert_(
            bucket,
            bucket < len(boundaries),
            "pad_to_bucket_boundary: an element is "
            f"not shorter than the last of bucket_boundaries, {last}",
        )
        return gather(np.append(boundaries, 0), inside) - 1

    return bucket_of, size_of, padded_to
