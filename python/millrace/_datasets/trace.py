"""Calling a user's function with symbolic tensors."""

from __future__ import annotations

from typing import Any, Callable

from .._base.hints import Draws
from .._capi import ffi as _ffi
from .._data import structure as _structure
from .._data.structure import Structure
from .._graph.symbol import current_graph
from .._graph.tensor import Graph
from .base import DatasetBase


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
        result = func(*arguments) if type(arguments) is tuple else func(arguments)
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
