"""What ragged tensors do where NumPy's arrays are meant: the same, or an error that says what to use."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..._base.hints import no_part
from ..._graph.symbol import Symbol
from ..._graph.tensor import apply1

_OPERATORS = {
    "absolute": "abs",
    "add": "add",
    "divide": "div",
    "equal": "equal",
    "floor_divide": "floor_div",
    "greater": "greater",
    "greater_equal": "greater_equal",
    "less": "less",
    "less_equal": "less_equal",
    "logical_and": "logical_and",
    "logical_not": "logical_not",
    "logical_or": "logical_or",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "not_equal",
    "power": "pow",
    "remainder": "floor_mod",
    "subtract": "sub",
}

_INSTEAD = {
    "T": "x.to_tensor()",
    "all": "mr.reduce_all(x, axis)",
    "any": "mr.reduce_any(x, axis)",
    "argmax": "mr.argmax(x.to_tensor(lowest), axis)",
    "argmin": "mr.argmin(x.to_tensor(highest), axis)",
    "argsort": "mr.map_fn(mr.argsort, x), or x.to_tensor()",
    "astype": "mr.cast(x, dtype)",
    "clip": "mr.clip_by_value(x, low, high)",
    "copy": "mr.identity(x)",
    "cumsum": "mr.cumsum(x, axis)",
    "flatten": "x.flat_values",
    "item": "x.flat_values",
    "max": "mr.reduce_max(x, axis)",
    "mean": "mr.reduce_mean(x, axis)",
    "min": "mr.reduce_min(x, axis)",
    "ndim": "x.shape.rank",
    "prod": "mr.reduce_prod(x, axis)",
    "ravel": "x.flat_values",
    "reshape": "mr.reshape(x, [-1])",
    "size": "mr.size(x)",
    "std": "mr.math.reduce_std(x, axis)",
    "sum": "mr.reduce_sum(x, axis)",
    "tolist": "x.to_list()",
    "uniform_row_length": "x.row_lengths()",
    "var": "mr.math.reduce_variance(x, axis)",
}


def ufunc(function: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What NumPy's @function makes of @inputs, of which one is ragged."""
    name = function.__name__
    if method != "__call__" or options or name not in _OPERATORS:
        called = name if method == "__call__" else f"{name}.{method}"
        raise TypeError(
            f"numpy.{called} does not take a ragged tensor: use the function of the package, or "
            "x.flat_values, x.to_tensor()"
        )
    return apply1(_OPERATORS[name], inputs)


def as_array(value: Any, dtype: Any) -> Any:
    """@value for numpy.asarray: rows of several lengths are an array of arrays."""
    if isinstance(value.row_splits, Symbol):
        raise TypeError("a ragged tensor of a function that is traced has no values yet")
    array = value.numpy()
    if array.dtype == object and value.dtype.kind != "s" and dtype not in (None, object):
        raise ValueError(
            "the rows of a ragged tensor differ in length, they are no array of "
            f"{np.dtype(dtype).name}: use x.to_tensor(), x.flat_values or x.to_list()"
        )
    return array if dtype is None else array.astype(dtype)


def no_attribute(name: str) -> NoReturn:
    """The error for what arrays have and ragged tensors have not."""
    otherwise = "a function of mr, x.flat_values or x.to_tensor()"
    raise AttributeError(no_part("a ragged tensor", name, _INSTEAD, otherwise), name=name)
