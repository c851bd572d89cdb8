"""Arguments of padded_batch: shapes and values, one for all components or in their structure."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .._data import structure as _structure
from .._data.block import new_block
from .._data.spec import TensorShape, TensorSpec
from .._data.structure import Structure
from .._graph.attrs import AttrTable
from .._graph.literals import to_array
from .._graph.symbol import Symbol
from .._graph.tensor import convert_to_tensor
from .._ops.arrays import stack, unstack
from .._ops.constants import cast
from ..dtypes import as_dtype

_NAMED = "!namedtuple"


def _in_words(structure: Structure) -> str:
    if isinstance(structure, list):
        return f"a tuple of {len(structure)}, one for each part"
    if isinstance(structure, dict) and _NAMED not in structure:
        return f"a dict with the keys {', '.join(map(repr, structure))}"
    return _structure.to_json(structure)


def _match(structure: Structure, value: Any, what: str, defaults: bool = False) -> list[Any]:
    """
    @value's parts in the order of the leaves of @structure; @defaults: None stands for all parts of
    what it is in place of. ValueError if it is built otherwise.
    """
    if defaults and value is None:
        return [None] * len(_structure.leaf_nodes(structure))
    if structure == _structure.LEAF:
        return [value]
    if isinstance(structure, list) and isinstance(value, tuple) and len(value) == len(structure):
        pairs = list(zip(structure, value))
    elif (
        isinstance(structure, dict)
        and _NAMED in structure
        and isinstance(value, tuple)
        and len(value) == len(structure[_NAMED][2])
    ):
        pairs = list(zip(structure[_NAMED][2], value))
    elif (
        isinstance(structure, dict)
        and isinstance(value, dict)
        and sorted(value) == sorted(structure)
    ):
        pairs = [(structure[key], value[key]) for key in sorted(structure)]
    else:
        raise ValueError(
            f"{what} must have the structure of the elements, {_in_words(structure)}: got {value!r}"
        )
    return [leaf for child, part in pairs for leaf in _match(child, part, what, defaults)]


def _dims(shape: Any, i: int) -> list[Any]:
    """A padded shape as a list: numbers, None and scalar integer tensors."""
    if isinstance(shape, Symbol):
        if shape.shape.rank != 1 or shape.shape[0] is None:
            raise ValueError(
                f"padded shape of component {i} must be a vector of known length, not "
                f"of shape {shape.shape}"
            )
        return unstack(shape)
    if isinstance(shape, np.ndarray) and (shape.ndim != 1 or shape.dtype.kind not in "iu"):
        raise ValueError(f"padded shape {shape!r} of component {i} must be a vector of integers")
    if isinstance(shape, (list, tuple)) and any(
        isinstance(d, (list, tuple, str, bytes, np.ndarray)) for d in shape
    ):
        raise ValueError(f"padded shape {shape!r} of component {i} must be a vector of integers")
    if isinstance(shape, (list, tuple)) and any(isinstance(d, Symbol) for d in shape):
        return [d if isinstance(d, Symbol) else TensorShape([d])[0] for d in shape]
    dims = TensorShape(shape)
    if dims.rank is None:
        raise ValueError(f"padded shape of component {i}: its rank must be known")
    return dims.as_list()


def add_shapes(
    attrs: AttrTable, structure: Structure, padded_shapes: Any, unknown: Any = None
) -> None:
    """
    padded_shapes into @attrs as the library takes them: rank and dims of each component, and apart
    from them what are tensors of the function around. @unknown: a tensor instead of None.
    """
    numbers: list[int] = []
    sizes: list[Any] = []
    for i, part in enumerate(_match(structure, padded_shapes, "padded_shapes")):
        dims = [unknown if d is None else d for d in _dims(part, i)]
        if any(isinstance(d, Symbol) and not d.dtype.is_integer for d in dims):
            raise TypeError(f"padded shape of component {i}: its dimensions must be integers")
        numbers += [
            len(dims),
            *(-1 if d is None else -2 if isinstance(d, Symbol) else d for d in dims),
        ]
        sizes += [cast(d, "int64") for d in dims if isinstance(d, Symbol)]
    attrs.ints("padded_shapes", numbers)
    if sizes:
        attrs.value("sizes", stack(sizes))


def add_values(
    attrs: AttrTable, structure: Structure, specs: Sequence[TensorSpec], padding_values: Any
) -> None:
    """
    padding_values into @attrs: a scalar a component, constants or tensors of the function around. A
    scalar stands for all, None for 0 or an empty string.
    """
    if _structure.is_nest(padding_values):
        parts = _match(structure, padding_values, "padding_values", defaults=True)
    else:
        parts = [padding_values] * len(specs)
    scalars: list[Any] = []
    for i, (spec, part) in enumerate(zip(specs, parts, strict=True)):
        if part is None:
            part = b"" if spec.dtype.kind == "s" else np.zeros((), spec.dtype.numpy_dtype())
        try:
            scalar: Any = part if isinstance(part, Symbol) else to_array(part, spec.dtype)
        except TypeError as e:
            place = _structure.places(structure)[i]
            raise TypeError(f"padding_values, component {place or i}: {e}") from None
        if scalar.ndim != 0:
            raise ValueError(
                f"the padding value of component {i} must be a scalar, not of shape "
                f"{scalar.shape}"
            )
        if as_dtype(scalar.dtype) is not spec.dtype:
            raise TypeError(
                f"the padding value of component {i} is {scalar.dtype}, the component "
                f"is {spec.dtype.name}"
            )
        scalars.append(scalar)
    if any(isinstance(scalar, Symbol) for scalar in scalars):
        for i, scalar in enumerate(scalars):
            attrs.value(f"value{i}", convert_to_tensor(scalar))
    else:
        attrs.block("padding_values", new_block(1, scalars))
