"""x[...] on symbolic tensors: integers, slices, ..., None, and scalar tensors as indices."""

import operator

from . import errors
from ._tensor import AttrTable, Tensor, apply1


def _bound(value):
    if isinstance(value, Tensor):
        raise errors.UnimplementedError("a slice whose bounds are tensors is not built: use mr.gather(x, mr.range(a, b))")
    return operator.index(value)


class _Slices:
    """The attributes of strided_slice, entry by entry."""

    def __init__(self):
        self.begin, self.end, self.strides = [], [], []
        self.masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)

    def add(self, begin=0, end=0, stride=1, *masks):
        bit = 1 << len(self.begin)
        for mask in masks:
            self.masks[mask] |= bit
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(stride)

    def add_slice(self, key):
        masks = [m for m, v in (("begin_mask", key.start), ("end_mask", key.stop)) if v is None]
        self.add(0 if key.start is None else _bound(key.start), 0 if key.stop is None else _bound(key.stop),
                 1 if key.step is None else _bound(key.step), *masks)

    def attrs(self):
        table = AttrTable().ints("begin", self.begin).ints("end", self.end).ints("strides", self.strides)
        for name, bits in self.masks.items():
            if bits:
                table.int(name, bits)
        return table


def getitem(tensor, key):
    """tensor[key]"""
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(k, list) for k in keys):
        raise TypeError("a list is no index here: use mr.gather(x, indices)")
    slices = _Slices()
    gathers = []  # (axis of the result, index tensor)
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
        elif isinstance(k, Tensor):
            if k.shape.rank != 0 or not k.dtype.is_integer:
                raise TypeError("a tensor used as an index is an integer scalar; for more use mr.gather(x, indices)")
            slices.add(0, 0, 1, "begin_mask", "end_mask")
            gathers.append((axis, k))  # the gather takes the axis away again
        else:
            if isinstance(k, bool):
                raise TypeError("a bool is no index")
            i = operator.index(k)
            slices.add(i, i + 1, 1, "shrink_axis_mask")
    result = tensor
    if len(gathers) < len(keys):
        result = apply1("strided_slice", [tensor], slices.attrs())
    for at, index in gathers:
        result = apply1("gather", [result, index], AttrTable().int("axis", at), same_dtype=False)
    return result
