"""Arguments of padded_batch: shapes and values, one for all components or in their structure."""

import numpy as np

from . import _structure
from ._block import new_block
from ._spec import TensorShape
from ._tensor import Tensor, to_array
from .dtypes import as_dtype

_NAMED = "!namedtuple"


def _match(structure, value, what):
    """@value's parts in the order of the leaves of @structure. ValueError if it is built otherwise."""
    if structure == _structure.LEAF:
        return [value]
    if isinstance(structure, list) and isinstance(value, tuple) and len(value) == len(structure):
        pairs = list(zip(structure, value))
    elif isinstance(structure, dict) and _NAMED in structure and isinstance(value, tuple) \
            and len(value) == len(structure[_NAMED][2]):
        pairs = list(zip(structure[_NAMED][2], value))
    elif isinstance(structure, dict) and isinstance(value, dict) and sorted(value) == sorted(structure):
        pairs = [(child, value[key]) for key, child in structure.items()]
    else:
        raise ValueError(f"{what} must have the structure of the elements, {_structure.to_json(structure)}: got {value!r}")
    return [leaf for child, part in pairs for leaf in _match(child, part, what)]


def _dims(shape, i):
    if isinstance(shape, Tensor):
        raise TypeError("padded_shapes are constants here, not tensors")
    if isinstance(shape, np.ndarray) and (shape.ndim != 1 or shape.dtype.kind not in "iu"):
        raise ValueError(f"padded shape {shape!r} of component {i} must be a vector of integers")
    dims = TensorShape(shape)
    if dims.rank is None:
        raise ValueError(f"padded shape of component {i}: its rank must be known")
    return [-1 if d is None else d for d in dims.as_list()]


def shapes_argument(structure, padded_shapes):
    """padded_shapes as the library takes them: rank and dims of each component."""
    out = []
    for i, part in enumerate(_match(structure, padded_shapes, "padded_shapes")):
        dims = _dims(part, i)
        out += [len(dims), *dims]
    return out


def values_argument(structure, specs, padding_values):
    """padding_values as a block of one scalar a component. A scalar stands for all, None for 0 or an empty string."""
    if _structure.is_nest(padding_values):
        parts = _match(structure, padding_values, "padding_values")
    else:
        parts = [padding_values] * len(specs)
    arrays = []
    for i, (spec, part) in enumerate(zip(specs, parts, strict=True)):
        if part is None:
            part = b"" if spec.dtype.kind == "s" else np.zeros((), spec.dtype.numpy_dtype())
        if isinstance(part, Tensor):
            raise TypeError("padding_values are constants here, not tensors")
        array = to_array(part, spec.dtype)
        if array.ndim != 0:
            raise ValueError(f"the padding value of component {i} must be a scalar, not of shape {array.shape}")
        if as_dtype(array.dtype) is not spec.dtype:
            raise TypeError(f"the padding value of component {i} is {array.dtype}, the component is {spec.dtype.name}")
        arrays.append(array)
    return new_block(1, arrays)
