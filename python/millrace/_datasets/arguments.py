"""Arguments of a dataset's operators: constants, or values of the function around."""

from __future__ import annotations

import os
from typing import Any, SupportsIndex, TypeAlias, Union

import numpy as np

from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol

AUTOTUNE = -1

# A number, which inside of a traced function may be symbolic.
IntLike: TypeAlias = Union[SupportsIndex, Symbol]


def add_number(attrs: AttrTable, name: str, value: Any) -> AttrTable:
    """An integer argument."""
    if isinstance(value, Symbol):
        return attrs.value(name, value)
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(
            f"{name} is an integer or an integer tensor, not {type(value).__name__} " f"({value!r})"
        )
    number = value.__index__()
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{name} = {number} does not fit int64")
    return attrs.int(name, number)


def add_bytes(attrs: AttrTable, name: str, value: Any) -> AttrTable:
    """A string argument."""
    if isinstance(value, Symbol):
        return attrs.value(name, value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, (str, bytes)):
        raise TypeError(
            f"{name} is a string or a string tensor, not {type(value).__name__} " f"({value!r})"
        )
    return attrs.bytes(name, value)


def add_flag(attrs: AttrTable, name: str, value: Any) -> AttrTable:
    """A bool argument, which is a constant."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is True or False, not {value!r}")
    return attrs.bool(name, value)


def paths(value: Any) -> Any:
    """@value, with what os.fspath() makes of the paths in it."""
    if isinstance(value, (list, tuple)):
        return [paths(v) for v in value]
    if isinstance(value, Symbol):
        return value
    return os.fspath(value) if isinstance(value, os.PathLike) else value
