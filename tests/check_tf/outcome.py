"""
Values of either package in a common form that can be compared and printed: nested tuples that begin
with a word. Objects are known by the names of their classes, which both packages share.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any, Callable

import numpy as np

ELEMENTS_MAX = 60  # of a dataset; some are endless


class Refusal:
    """What was raised in place of a value."""

    def __init__(self, error: BaseException) -> None:
        self.kind = type(error).__name__
        self.message = " ".join(str(error).split())[:200]

    def __repr__(self) -> str:
        return f"refuses ({self.kind}: {self.message})"


def attempt(function: Callable[[], Any]) -> Any:
    """What @function returns, or its Refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except Exception as error:  # the packages raise a dozen classes
            return Refusal(error)


def common(value: Any) -> Any:
    """@value in the common form."""
    kind = type(value).__name__
    if isinstance(value, (str, bool, int, float, type(None))) and not isinstance(value, np.generic):
        return ("python", value)
    if isinstance(value, bytes):
        return _tensor(np.array(value, object))
    if isinstance(value, (np.ndarray, np.generic)):
        return _tensor(np.asarray(value))
    if kind == "EagerTensor":
        return _tensor(np.asarray(value.numpy(), object if value.dtype.name == "string" else None))
    if kind == "RaggedTensor":
        splits = tuple(common(s) for s in value.nested_row_splits)
        return ("ragged", splits, common(value.flat_values))
    if kind == "SparseTensor":
        return ("sparse", *(common(v) for v in (value.indices, value.values, value.dense_shape)))
    if kind == "TensorShape":
        return ("shape", None if value.rank is None else tuple(value.as_list()))
    if kind == "DType":
        return ("dtype", value.name)
    if kind.endswith("Spec"):
        return spec(value)
    if hasattr(value, "element_spec"):
        return dataset(value)
    if isinstance(value, dict):
        return ("dict", *((key, common(value[key])) for key in sorted(value)))
    if isinstance(value, (tuple, list)):
        return ("sequence", *(common(v) for v in value))
    if kind == "Dimension":
        return ("python", value.value)
    if isinstance(value, type):
        return ("class", value.__name__)
    raise TypeError(f"no common form for {kind}")


def _tensor(array: np.ndarray) -> Any:
    name = "string" if array.dtype.kind in "OSU" else array.dtype.name
    return ("tensor", name, array.shape, array)


def _dims(shape: Any) -> Any:
    return None if shape is None or shape.rank is None else tuple(shape.as_list())


def spec(value: Any) -> Any:
    """A structure of specs."""
    kind = type(value).__name__
    if kind == "RaggedTensorSpec" and value._ragged_rank <= 0:  # what is left of it in unbatch
        return ("TensorSpec", value._dtype.name, _dims(value._shape))
    if kind == "RaggedTensorSpec":
        return (kind, value._dtype.name, _dims(value._shape), value._ragged_rank)
    if kind == "SparseTensorSpec":
        return (kind, value.dtype.name, _dims(value.shape))
    if kind == "DatasetSpec":
        return (kind, spec(value.element_spec))
    if kind == "TensorSpec":
        return (kind, value.dtype.name, _dims(value.shape))
    if kind == "NoneTensorSpec" or value is None:
        return ("none",)
    if isinstance(value, dict):
        return ("dict", *((key, spec(value[key])) for key in sorted(value)))
    return ("sequence", *(spec(v) for v in value))


def dataset(ds: Any) -> Any:
    """
    What there is to see of a dataset: its spec, its cardinality, its first elements, and how they end
    (None where nobody looked).
    """
    elements: list[Any] = []
    return (
        "dataset",
        spec(ds.element_spec),
        int(ds.cardinality()),
        attempt(lambda: _read(ds, elements)),
        tuple(elements),
    )


def _read(ds: Any, elements: list[Any]) -> str:
    for element in itertools.islice(iter(ds), ELEMENTS_MAX):
        elements.append(common(element))
    return "more" if len(elements) == ELEMENTS_MAX else "end"


def refused(outcome: Any) -> bool:
    """Whether that ends with a refusal, at once or while its elements were read."""
    return isinstance(outcome, Refusal) or (
        isinstance(outcome, tuple) and outcome[0] == "dataset" and isinstance(outcome[3], Refusal)
    )


def has_elements(outcome: Any) -> bool:
    """Whether that is a dataset that gave at least one."""
    return isinstance(outcome, tuple) and outcome[0] == "dataset" and len(outcome[4]) > 0
