"""
x[...] on symbolic tensors: integers, slices, ..., None, scalar tensors as indices and bounds, and
masks.
"""

from __future__ import annotations

import operator
from typing import Any, Callable, TypeAlias

import numpy as np

from .attrs import AttrTable
from .symbol import Symbol

# Applies an operator to inputs and attributes.
Apply: TypeAlias = Callable[[str, list[Any], AttrTable], Any]


def _is_bound(value: Any) -> bool:
    """Whether a bound is a tensor. TypeError says that it is no integer scalar."""
    if not isinstance(value, Symbol):
        return False
    if value.shape.rank != 0 or not value.dtype.is_integer:
        raise TypeError("a tensor as a bound of a slice is an integer scalar")
    return True


class _Slices:
    """The attributes of strided_slice, entry by entry."""

    def __init__(self) -> None:
        self.begin: list[int] = []
        self.end: list[int] = []
        self.strides: list[int] = []
        self.masks: dict[str, int] = {
            "begin_mask": 0,
            "end_mask": 0,
            "ellipsis_mask": 0,
            "new_axis_mask": 0,
            "shrink_axis_mask": 0,
        }
        self.needed = False

    def add(self, begin: int = 0, end: int = 0, stride: int = 1, *masks: str) -> None:
        bit = 1 << len(self.begin)
        for mask in masks:
            self.masks[mask] |= bit
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(stride)
        self.needed = self.needed or masks != ("begin_mask", "end_mask") or stride != 1

    def add_whole(self) -> None:
        self.add(0, 0, 1, "begin_mask", "end_mask")

    def add_slice(self, key: slice) -> None:
        masks = [m for m, v in (("begin_mask", key.start), ("end_mask", key.stop)) if v is None]
        self.add(
            0 if key.start is None else operator.index(key.start),
            0 if key.stop is None else operator.index(key.stop),
            1 if key.step is None else operator.index(key.step),
            *masks,
        )

    def attrs(self) -> AttrTable:
        table = AttrTable().ints("begin", self.begin).ints("end", self.end)
        table.ints("strides", self.strides)
        for name, bits in self.masks.items():
            if bits:
                table.int(name, bits)
        return table


class _Plan:
    """What tensor[key] consists of: strided_slice, then what depends on values, axis by axis."""

    def __init__(self, tensor: Symbol, keys: tuple[Any, ...]) -> None:
        self.slices = _Slices()
        self.gathers: list[tuple[int, Symbol]] = []
        self.cuts: list[tuple[int, slice]] = []
        self._axis = 0
        for key in keys:
            self._add(tensor, keys, key)
        rank = tensor.shape.rank
        if rank is not None and sum(1 for o in keys if o is not None and o is not Ellipsis) > rank:
            self.slices.needed = True  # which says so

    def _add(self, tensor: Symbol, keys: tuple[Any, ...], key: Any) -> None:
        if key is Ellipsis:
            if tensor.shape.rank is None:
                raise ValueError("x[...] needs a tensor of known rank")
            self.slices.add(0, 0, 1, "ellipsis_mask")
            taken = sum(1 for o in keys if o is not None and o is not Ellipsis)
            self._axis += tensor.shape.rank - taken
        elif key is None:
            self.slices.add(0, 0, 1, "new_axis_mask")
            self._axis += 1
        elif isinstance(key, slice):
            if any(map(_is_bound, (key.start, key.stop, key.step))):
                self.slices.add_whole()
                self.cuts.append((self._axis, key))
            else:
                self.slices.add_slice(key)
            self._axis += 1
        elif isinstance(key, Symbol):
            if key.shape.rank != 0 or not key.dtype.is_integer:
                raise TypeError(
                    "a tensor used as an index is an integer scalar, or alone a mask of bools; for "
                    "more use mr.gather(x, indices)"
                )
            self.slices.add_whole()
            self.gathers.append((self._axis, key))
            self._axis += 1
        else:
            if isinstance(key, (bool, np.bool_)):
                raise TypeError("a bool is not an index")
            i = operator.index(key)
            self.slices.add(i, i + 1, 1, "shrink_axis_mask")


def _is_mask(key: Any) -> bool:
    if isinstance(key, Symbol):
        return key.dtype.is_bool
    return isinstance(key, np.ndarray) and key.dtype == bool


def take(tensor: Symbol, key: Any, apply: Apply) -> Any:
    """tensor[key]"""
    if _is_mask(key):
        return apply("boolean_mask", [tensor, key], AttrTable())
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(k, list) for k in keys):
        raise TypeError("a list is not an index here: use mr.gather(x, indices)")
    plan = _Plan(tensor, keys)
    result: Any = tensor
    if plan.slices.needed:
        result = apply("strided_slice", [tensor], plan.slices.attrs())
    for axis, cut in plan.cuts:
        attrs = AttrTable().int("axis", axis)
        attrs.bool("from_start", cut.start is None).bool("to_end", cut.stop is None)
        bounds = [0 if cut.start is None else cut.start, 0 if cut.stop is None else cut.stop]
        inputs = [*bounds, 1 if cut.step is None else cut.step]
        result = apply("slice_axis", [result, *map(_number, inputs)], attrs)
    for axis, index in reversed(plan.gathers):  # from the last axis on: each takes its own away
        result = apply("gather", [result, index], AttrTable().int("axis", axis))
    return result


def _number(value: Any) -> Any:
    return value if isinstance(value, Symbol) else np.int64(operator.index(value))
