"""Calling a user's function with symbolic tensors."""

from __future__ import annotations

import inspect
import re
from typing import Any, Callable, Sequence

from .._base.hints import Draws
from .._capi import ffi as _ffi
from .._data import structure as _structure
from .._data.structure import Structure
from .._graph.symbol import current_graph
from .._graph.tensor import Graph
from .base import DatasetBase


_TENSOR = re.compile(r"\bTensor\b")  # in an error of Python or of another package


def _described(arguments: Sequence[Any]) -> str:
    """What a function is called with, in words."""
    if len(arguments) != 1:
        return f"{len(arguments)} arguments, one for each part of the element"
    if isinstance(arguments[0], dict):
        keys = ", ".join(map(repr, arguments[0]))
        return f"one argument, a dict with the keys {keys}"
    return "one argument, the element"


def _refused(func: Callable[..., Any], arguments: Sequence[Any], error: TypeError) -> str | None:
    """
    How @func is called, in words, if @error says that it does not take @arguments. Signatures may
    lie (of what functools.wraps made, or with a __signature__): they only explain a call that
    Python refused, which has no frame of @func's in its traceback.
    """
    if error.__traceback__ is None or error.__traceback__.tb_next is not None:
        return None
    try:
        signature = inspect.signature(func, follow_wrapped=False)
    except (TypeError, ValueError):
        return None  # of C: it says so itself
    try:
        signature.bind(*arguments)
    except TypeError:
        return f"{getattr(func, '__name__', type(func).__name__)}{signature}"
    return None


def call(func: Callable[..., Any], arguments: Sequence[Any], what: str) -> Any:
    """
    What @func, a user's function, gives for symbolic @arguments. Errors that are Python's own get a
    line that says what is special here.
    """
    try:
        return func(*arguments)
    except KeyError as e:
        keys = [k for argument in arguments if isinstance(argument, dict) for k in argument]
        if keys and e.args and e.args[0] not in keys:
            e.add_note(f"The elements that {what} gets have the keys {', '.join(map(repr, keys))}.")
        raise
    except TypeError as e:
        takes = _refused(func, arguments, e)
        if takes is not None:
            raise TypeError(
                f"{what} calls its function with {_described(arguments)}, which {takes} does not "
                "take"
            ) from None
        if str(e).endswith(("argument 'dim'", "argument 'keepdim'")):
            e.add_note("`dim` and `keepdim` of PyTorch are `axis` and `keepdims` here.")
        elif _TENSOR.search(str(e)):
            e.add_note(
                f"The function given to {what} is called once, with symbolic tensors: functions of "
                "other packages do not take them, those of mr do."
            )
        raise


def trace(
    ds: DatasetBase,
    func: Callable[..., Any],
    what: str,
    spec_ptr: Any = None,
    structure: Structure = None,
) -> tuple[_ffi.FunctionHandle, DatasetBase | None]:
    """
    Call @func with symbolic tensors for elements of @ds, or for the element spec @spec_ptr in
    @structure: (the function, the Dataset it returned or None). @what names it in errors.
    """
    if spec_ptr is None:
        spec_ptr, structure = ds._spec_ptr, ds._structure
    outer = current_graph()
    graph = Graph(spec_ptr, outer)
    draws = Draws() if outer is None else None  # the outermost function sees what inner ones draw
    with graph.traced():
        inputs = [
            value if of is None else ds._elements_of(value, of)
            for value, of in zip(
                graph.inputs,
                map(_structure.dataset_of, _structure.leaf_nodes(structure)),
                strict=True,
            )
        ]
        arguments = _structure.unflatten(structure, inputs)
        # A named tuple is one argument.
        result = call(func, arguments if type(arguments) is tuple else (arguments,), what)
        if draws is not None:
            draws.warn(what)
        if isinstance(result, list):
            # Such as of mr.split and mr.unstack; elsewhere a list is one tensor.
            result = tuple(result)
        if isinstance(result, DatasetBase):
            function = graph.finish_dataset(result._handle)
            function.services = result._handle.services
            return function, result
        if result is None:
            raise TypeError(
                f"the function given to {what} returned None: is there a `return` " "missing?"
            )
        leaves, out = _structure.flatten(result)
        if any(isinstance(leaf, DatasetBase) for leaf in leaves):
            raise TypeError(f"the function given to {what} returned a dataset inside a structure")
        return graph.finish([graph.convert(leaf) for leaf in leaves], out), None
