"""Functions of a state and an element: scan, and reduce on top of it."""

from __future__ import annotations

from typing import Any, Callable

from .. import errors
from .._capi import ffi as _ffi
from .._data import spec as _spec
from .._data import structure as _structure
from .._data.block import as_tensor_array, new_block
from .._graph.attrs import AttrTable
from .._graph.literals import is_literal
from .._graph.symbol import current_graph
from ..dtypes import as_dtype
from .base import DatasetBase
from .trace import call, trace


def relaxed(spec: _spec.TensorSpec, other: _spec.TensorSpec) -> _spec.TensorSpec:
    """What covers both; TypeError where dtypes differ."""
    if spec.dtype is not other.dtype:
        raise TypeError(
            f"the state is {spec.dtype.name} at first and {other.dtype.name} "
            "afterwards: cast one of them"
        )
    if spec.shape.rank is None or spec.shape.rank != other.shape.rank:
        return _spec.TensorSpec(None, spec.dtype)
    return _spec.TensorSpec(
        [a if a == b else None for a, b in zip(spec.shape, other.shape)], spec.dtype
    )


def _check_outside() -> None:
    if current_graph() is not None:
        raise TypeError(
            "scan and reduce cannot be used inside of a traced function: let flat_map return "
            "batches of the inner dataset, and compute with them in map (mr.reduce_sum, ...)"
        )


def scan_arguments(
    ds: DatasetBase, initial_state: Any, scan_func: Callable[..., Any]
) -> tuple[AttrTable, _ffi.FunctionHandle]:
    """(attributes, the traced function) of scan."""
    _check_outside()
    leaves, structure = _structure.flatten(initial_state)
    arrays = [as_tensor_array(leaf) for leaf in leaves]
    state = [_spec.TensorSpec(array.shape, as_dtype(array.dtype)) for array in arrays]
    elements = _spec.leaves_of(ds._spec_ptr)
    out: dict[str, Any] = {}

    def checked(old: Any, element: Any) -> Any:
        try:
            result = call(scan_func, (old, element), "scan")
        except errors.InvalidArgumentError as e:
            if "dtypes" in e.message and any(map(is_literal, leaves)):
                kinds = ", ".join(spec.dtype.name for spec in state)
                e.add_note(
                    f"The state begins as {kinds}: np.int64(0) or np.float32(0) says another."
                )
            raise
        if isinstance(result, list):
            result = tuple(result)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"the function given to scan returns (state, result), not {result!r}")
        given, given_structure = _structure.flatten(result[0])
        if given_structure != structure:
            raise TypeError(
                f"the state has the structure {_structure.to_json(structure)} at first "
                f"and {_structure.to_json(given_structure)} afterwards"
            )
        given = [current_graph().convert(leaf, spec.dtype) for leaf, spec in zip(given, state)]
        out["state"] = [tensor.spec for tensor in given]
        out["structure"] = _structure.flatten(result[1])[1]
        return _structure.unflatten(structure, given), result[1]

    while True:  # until the shapes of the state stand for all that it can be
        spec = _spec.new_spec(state + elements, [structure, ds._structure])
        fn, _ = trace(ds, checked, "scan", spec.ptr, [structure, ds._structure])
        wider = [relaxed(a, b) for a, b in zip(state, out["state"])]
        if wider == state:
            break
        state = wider
    attrs = AttrTable().block("initial_state", new_block(1, arrays))
    return attrs.bytes("structure", _structure.to_json(out["structure"])), fn


def reduction(
    initial_state: Any, reduce_func: Callable[..., Any]
) -> tuple[Any, Callable[..., Any]]:
    """What reduce() is over an empty dataset, and the function with which it is a scan()."""

    def both(old: Any, element: Any) -> tuple[Any, Any]:
        state = call(reduce_func, (old, element), "reduce")
        state = tuple(state) if isinstance(state, list) else state
        leaves, given = _structure.flatten(state)
        if given == structure:  # also if dicts have their keys in another order
            state = _structure.unflatten(structure, leaves)
        return state, state

    _check_outside()
    leaves, structure = _structure.flatten(initial_state)
    arrays = [array[()] for array in map(as_tensor_array, leaves)]
    return _structure.unflatten(structure, arrays), both
