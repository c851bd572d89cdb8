"""Functions of a state and an element: scan, and reduce on top of it."""

from . import _spec, _structure
from ._block import as_tensor_array, new_block
from ._ffi import lib
from ._tensor import AttrTable, current_graph, trace
from .dtypes import as_dtype


def _relaxed(spec, other):
    """What covers both; TypeError where dtypes differ."""
    if spec.dtype is not other.dtype:
        raise TypeError(f"the state is {spec.dtype.name} at first and {other.dtype.name} afterwards: cast one of them")
    if spec.shape.rank is None or spec.shape.rank != other.shape.rank:
        return _spec.TensorSpec(None, spec.dtype)
    return _spec.TensorSpec([a if a == b else None for a, b in zip(spec.shape.dims, other.shape.dims)], spec.dtype)


def scan_arguments(ds, initial_state, scan_func):
    """(attributes, the traced function) of scan."""
    if current_graph() is not None:
        raise TypeError("scan and reduce cannot be used inside of a traced function")
    leaves, structure = _structure.flatten(initial_state)
    arrays = [as_tensor_array(leaf) for leaf in leaves]
    state = [_spec.TensorSpec(array.shape, as_dtype(array.dtype)) for array in arrays]
    elements = _spec.leaves_of(lib.mr_dataset_spec(ds._handle.ptr))
    out = {}

    def checked(old, element):
        result = scan_func(old, element)
        if isinstance(result, list):
            result = tuple(result)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"the function given to scan returns (state, result), not {result!r}")
        given, given_structure = _structure.flatten(result[0])
        if given_structure != structure:
            raise TypeError(f"the state has the structure {_structure.to_json(structure)} at first and "
                            f"{_structure.to_json(given_structure)} afterwards")
        given = [current_graph().convert(leaf, spec.dtype) for leaf, spec in zip(given, state)]
        out["state"] = [tensor.spec for tensor in given]
        out["structure"] = _structure.flatten(result[1])[1]
        return _structure.unflatten(structure, given), result[1]

    while True:  # until the shapes of the state stand for all that it can be
        spec = _spec.new_spec(state + elements, [structure, ds._structure])
        fn, returned = trace(checked, spec.ptr, [structure, ds._structure], "scan")
        relaxed = [_relaxed(a, b) for a, b in zip(state, out["state"])]
        if relaxed == state:
            break
        state = relaxed
    attrs = AttrTable().block("initial_state", new_block(1, arrays))
    return attrs.bytes("structure", _structure.to_json(out["structure"])), fn


def reduce(ds, initial_state, reduce_func):
    """The last state."""
    def both(old, element):
        state = reduce_func(old, element)
        state = tuple(state) if isinstance(state, list) else state
        return state, state

    leaves, structure = _structure.flatten(initial_state)
    last = _structure.unflatten(structure, [array[()] for array in map(as_tensor_array, leaves)])
    for last in ds.scan(initial_state, both):
        pass
    return last
