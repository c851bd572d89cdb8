"""Python literals among tensors: TensorFlow's rules of dtypes. Nothing is promoted silently."""

from __future__ import annotations

from typing import Any, Iterable

import numpy as np

from .._data.block import Array, as_tensor_array
from .._data.structure import is_composite
from ..dtypes import DType, as_dtype
from .symbol import Symbol


SHOWN = "<mr.Tensor %"  # how the text of a symbolic tensor begins


def is_literal(value: Any) -> bool:
    """A Python number, string, or list of them: something whose dtype is open."""
    if isinstance(value, (list, tuple)):
        return all(is_literal(v) for v in value)
    return isinstance(value, (bool, int, float, complex, str, bytes)) and not isinstance(
        value, np.generic
    )


def dtype_of(value: Any) -> DType | None:
    """The dtype that @value has by itself; None for literals and what cannot be a tensor."""
    if isinstance(value, Symbol):
        return value.dtype
    if isinstance(value, (np.ndarray, np.generic)):
        return as_dtype(value.dtype)
    if isinstance(value, (list, tuple)):
        return common_dtype(value)
    return None


def common_dtype(values: Iterable[Any]) -> DType | None:
    """The dtype of the first of @values that has one."""
    return next((d for d in map(dtype_of, values) if d is not None), None)


def holds_complex(value: Any) -> bool:
    """Whether @value is a complex literal, or a list with one in it."""
    if isinstance(value, (list, tuple)):
        return any(map(holds_complex, value))
    return type(value) is complex


def _literal_kind(value: Any) -> str:
    """The letter of what @value holds; "" of nothing, "?" of a mixture."""
    if isinstance(value, (list, tuple)):
        kinds = {_literal_kind(v) for v in value} - {""}
        if len(kinds) > 1 and not kinds <= {"i", "f", "c"}:
            return "?"
        return max(kinds, key="bifcs?".index, default="")
    classes = {bool: "b", int: "i", float: "f", complex: "c"}  # bool is an int, so the first fits
    return next((letter for cls, letter in classes.items() if isinstance(value, cls)), "s")


def holds_strings(value: Any) -> bool:
    """Whether @value is a literal of strings."""
    return is_literal(value) and _literal_kind(value) == "s"


def to_array(value: Any, like: DType | None = None) -> Array:
    """
    @value as an array of TensorFlow's dtype; a literal takes the dtype @like, or TypeError says why
    it does not fit.
    """
    if is_composite(value):
        raise TypeError(
            f"a {type(value).__name__} stands where a tensor is wanted: use .to_tensor() of a ragged "
            "one, mr.sparse.to_dense of a sparse one"
        )
    if isinstance(value, str) and SHOWN in value:
        raise TypeError(
            f"{value!r} is a string with the name of a symbolic tensor in it, as str(x) gives: use "
            "mr.strings.as_string(x) of numbers, + or mr.strings.join of strings"
        )
    if like is None or not is_literal(value):
        return as_tensor_array(value)
    kind = _literal_kind(value)
    if not kind:
        return np.empty(np.shape(value), like.numpy_dtype())
    fits = {
        "b": like.is_bool,
        "i": like.is_integer or like.is_floating or like.is_complex,
        "f": like.is_floating or like.is_complex,
        "c": like.is_complex,
        "s": like.kind == "s",
    }
    if not fits.get(kind, False):
        raise TypeError(
            f"the literal {value!r} does not fit {like.name}: nothing is converted "
            f"silently; use mr.cast, or a literal of that type"
        )
    if kind == "s":
        return as_tensor_array(value)
    if like.is_integer:
        array: Array = np.array(value, object)
        flat = array.reshape(-1)
        if any(v < like.min or v > like.max for v in flat):
            raise TypeError(
                f"the literal {value!r} does not fit {like.name} " f"({like.min}..{like.max})"
            )
        return array.astype(like.numpy_dtype())
    return np.array(value, like.numpy_dtype())
