"""x[...] on symbolic tensors: integers, slices, ..., None, and scalar tensors as indices."""

from __future__ import annotations

import operator
from typing import Any

from .. import errors
from .attrs import AttrTable
from .symbol import Symbol


def _bound(value: Any) -> int:
    if isinstance(value, Symbol):
        raise errors.UnimplementedError(
            "a slice whose bounds are tensors is not supported: use " "mr.gather(x, mr.range(a, b))"
        )
    return operator.index(value)


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

    def add(self, begin: int = 0, end: int = 0, stride: int = 1, *masks: str) -> None:
        bit = 1 << len(self.begin)
        for mask in masks:
            self.masks[mask] |= bit
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(stride)

    def add_slice(self, key: slice) -> None:
        masks = [m for m, v in (("begin_mask", key.start), ("end_mask", key.stop)) if v is None]
        self.add(
            0 if key.start is None else _bound(key.start),
            0 if key.stop is None else _bound(key.stop),
            1 if key.step is None else _bound(key.step),
            *masks,
        )

    def attrs(self) -> AttrTable:
        table = AttrTable().ints("begin", self.begin).ints("end", self.end)
        table.ints("strides", self.strides)
        for name, bits in self.masks.items():
            if bits:
                table.int(name, bits)
        return table


def plan(tensor: Symbol, key: Any) -> tuple[AttrTable | None, list[tuple[int, Symbol]]]:
    """
    What tensor[key] consists of: the arguments of strided_slice (None: it is not needed), then
    (axis of the result, index tensor) of each gather.
    """
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(k, list) for k in keys):
        raise TypeError("a list is not an index here: use mr.gather(x, indices)")
    slices = _Slices()
    gathers: list[tuple[int, Symbol]] = []
    axis = 0
    for k in keys:
        if k is Ellipsis:
            if tensor.shape.rank is None:
                raise ValueError("x[...] needs a tensor of known rank")
            slices.add(0, 0, 1, "ellipsis_mask")
            axis += tensor.shape.rank - sum(1 for o in keys if o is not None and o is not Ellipsis)
        elif k is None:
            slices.add(0, 0, 1, "new_axis_mask")
            axis += 1
        elif isinstance(k, slice):
            slices.add_slice(k)
            axis += 1
        elif isinstance(k, Symbol):
            if k.shape.rank != 0 or not k.dtype.is_integer:
                raise TypeError(
                    "a tensor used as an index is an integer scalar; for more use "
                    "mr.gather(x, indices)"
                )
            slices.add(0, 0, 1, "begin_mask", "end_mask")
            gathers.append((axis, k))  # the gather takes the axis away again
        else:
            if isinstance(k, bool):
                raise TypeError("a bool is not an index")
            i = operator.index(k)
            slices.add(i, i + 1, 1, "shrink_axis_mask")
    return (slices.attrs() if len(gathers) < len(keys) else None), gathers
