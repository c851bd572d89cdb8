"""Elements of a key become one, from state to state: group_by_reducer."""

from __future__ import annotations

from typing import Any, Callable

from .. import errors
from .._capi import ffi as _ffi
from .._data import spec as _spec
from .._data import structure as _structure
from .._data.structure import Structure
from .._datasets.base import DatasetBase
from .._datasets.grouping import KEY, trace_key
from .._datasets.scanning import relaxed
from .._datasets.trace import call, trace
from .._graph.literals import is_literal
from .._graph.symbol import current_graph
from .sources import Transformation


class Reducer:
    """What becomes of the elements of a key, as ``tf.data.experimental.Reducer``.

    Parameters
    ----------
    init_func : callable
        Traced; makes the first state of an int64 key.
    reduce_func : callable
        Traced; (state, element) -> next state. Structure and dtypes of a state stay.
    finalize_func : callable
        Traced; makes what is given of the last state.

    Examples
    --------
    >>> mean = mr.experimental.Reducer(
    ...     lambda key: (np.int64(0), np.int64(0)),
    ...     lambda state, x: (state[0] + x, state[1] + 1),
    ...     lambda sum, count: sum / count)
    >>> list(mr.Dataset.range(6).apply(mr.experimental.group_by_reducer(lambda x: x % 2, mean)))
    [2.0, 3.0]
    """

    def __init__(
        self,
        init_func: Callable[..., Any],
        reduce_func: Callable[..., Any],
        finalize_func: Callable[..., Any],
    ) -> None:
        self._init_func = init_func
        self._reduce_func = reduce_func
        self._finalize_func = finalize_func

    @property
    def init_func(self) -> Callable[..., Any]:
        """What makes the first state of a key."""
        return self._init_func

    @property
    def reduce_func(self) -> Callable[..., Any]:
        """What makes the next state of a state and an element."""
        return self._reduce_func

    @property
    def finalize_func(self) -> Callable[..., Any]:
        """What is given of the last state."""
        return self._finalize_func


class _State:
    """What the states of a group_by_reducer are, as far as its functions have been traced."""

    def __init__(self, ds: DatasetBase, init_func: Callable[..., Any]) -> None:
        self.leaves: list[_spec.TensorSpec] = []
        self.structure: Structure = None
        self._guessed = False  # a dtype is that of a Python number

        def first(key: Any) -> Any:
            what = "group_by_reducer as init_func"
            state = _as_tuple(call(init_func, (key,), what))
            if state is None or isinstance(state, DatasetBase):
                return state  # refused there
            leaves, self.structure = _structure.flatten(state)
            self._guessed = any(map(is_literal, leaves))
            tensors = [current_graph().convert(leaf) for leaf in leaves]
            self.leaves = [tensor.spec for tensor in tensors]
            return _structure.unflatten(self.structure, tensors)

        spec = _spec.new_spec([KEY], _structure.LEAF)
        self.init = _traced(ds, first, "init_func", spec, _structure.LEAF)
        self.reduce: _ffi.FunctionHandle

    def trace_reduce(self, ds: DatasetBase, reduce_func: Callable[..., Any]) -> None:
        """`reduce`, and `leaves` whose shapes stand for all that a state can be."""
        given: list[_spec.TensorSpec] = []

        def following(old: Any, element: Any) -> Any:
            nonlocal given
            state = self._called(reduce_func, old, element)
            if state is None or isinstance(state, DatasetBase):
                return state  # refused there
            leaves, structure = _structure.flatten(state)
            if structure != self.structure:
                raise TypeError(
                    f"the state has the structure {_structure.to_json(self.structure)} at first "
                    f"and {_structure.to_json(structure)} afterwards"
                )
            tensors = [
                current_graph().convert(leaf, spec.dtype) for leaf, spec in zip(leaves, self.leaves)
            ]
            given = [tensor.spec for tensor in tensors]
            return _structure.unflatten(self.structure, tensors)

        elements = _spec.leaves_of(ds._spec_ptr)
        both = [self.structure, ds._structure]
        while True:
            spec = _spec.new_spec(self.leaves + elements, both)
            self.reduce = _traced(ds, following, "reduce_func", spec, both)
            wider = [relaxed(a, b) for a, b in zip(self.leaves, given)]
            if wider == self.leaves:
                break
            self.leaves = wider

    def _called(self, reduce_func: Callable[..., Any], old: Any, element: Any) -> Any:
        try:
            return _as_tuple(call(reduce_func, (old, element), "group_by_reducer as reduce_func"))
        except errors.InvalidArgumentError as e:
            if "dtypes" in e.message and self._guessed:
                kinds = ", ".join(spec.dtype.name for spec in self.leaves)
                e.add_note(
                    f"The state begins as {kinds}: np.int64(0) or np.float32(0) says another."
                )
            raise


def _as_tuple(state: Any) -> Any:
    return tuple(state) if isinstance(state, list) else state


def _traced(
    ds: DatasetBase,
    func: Callable[..., Any],
    name: str,
    spec: _ffi.SpecHandle,
    structure: Structure,
) -> _ffi.FunctionHandle:
    fn, returned = trace(ds, func, f"group_by_reducer as {name}", spec.ptr, structure)
    if returned is not None:
        raise TypeError(f"the {name} given to group_by_reducer returned a dataset, not tensors")
    return fn


def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> Transformation:
    """Make one element of all that have the same key, for ``Dataset.apply``.

    They are given at the end, in the order of the keys. In memory there is one state for each key,
    however many elements there are.

    Parameters
    ----------
    key_func : callable
        Traced; gives an int64 for an element.
    reducer : Reducer
        What becomes of the elements of a key.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Raises
    ------
    TypeError
        Of the call of what is returned: `reducer` is no Reducer, or one of the functions is none;
        or its reduce_func changes structure or dtypes of the state.

    Examples
    --------
    >>> words = mr.Dataset.from_tensor_slices(["ox", "fly", "ant", "elk", "bear"])
    >>> count = mr.experimental.Reducer(
    ...     lambda key: np.int64(0), lambda n, word: n + 1, lambda n: n)
    >>> length = lambda word: mr.cast(mr.strings.length(word), mr.int64)
    >>> list(words.apply(mr.experimental.group_by_reducer(length, count)))
    [1, 3, 1]
    """

    def transformed(dataset: Any) -> Any:
        if not isinstance(reducer, Reducer):
            raise TypeError(
                "group_by_reducer: reducer is a mr.experimental.Reducer, not "
                f"{type(reducer).__name__}"
            )
        for name, func in (
            ("key_func", key_func),
            ("init_func", reducer.init_func),
            ("reduce_func", reducer.reduce_func),
            ("finalize_func", reducer.finalize_func),
        ):
            if not callable(func):
                raise TypeError(
                    f"group_by_reducer: {name} is a function, not {type(func).__name__}"
                )
        key = trace_key(dataset, key_func, "group_by_reducer as key_func")
        state = _State(dataset, reducer.init_func)
        state.trace_reduce(dataset, reducer.reduce_func)
        spec = _spec.new_spec(state.leaves, state.structure)
        last = _traced(dataset, reducer.finalize_func, "finalize_func", spec, state.structure)
        functions = [key, state.init, state.reduce, last]
        return dataset._of("group_by_reducer", [dataset], None, functions)

    return transformed
