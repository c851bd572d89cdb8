"""Functions as arguments: branches, and a function of each part of a tensor."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from .._data import structure as _structure
from .._data.spec import TensorSpec
from .._graph.attrs import AttrTable
from .._graph.literals import to_array
from .._graph.symbol import Symbol, TensorLike, current_graph, holds_symbols
from .._graph.tensor import Graph, Tensor, run_once, trace_body
from .arrays import stack, where
from .constants import cast
from .debugging import Assert
from .parts import Results, mapped, part_of, spec_like
from .reductions import argmax, reduce_any, reduce_sum


def _branch(function: Callable[[], Any]) -> Callable[[list[Tensor]], Any]:
    """@function as a body. What it returns: there a list is a structure, as in TensorFlow."""

    def body(_: list[Tensor]) -> Any:
        result = function()
        return tuple(result) if isinstance(result, list) else result

    return body


def _branches(index: Any, functions: Sequence[Callable[[], Any]], what: str) -> Any:
    """What the function with number @index returns, the last one where there is none."""
    if not callable(functions[-1]) or not all(map(callable, functions)):
        raise TypeError(f"{what}: a branch is a function without arguments")
    if not isinstance(index, Symbol):
        number = int(to_array(index))
        return functions[number if 0 <= number < len(functions) else -1]()
    if not index.dtype.is_integer:
        raise TypeError(f"{what}: the index is an integer scalar, not of dtype {index.dtype.name}")
    index = cast(index, "int32")
    graph = current_graph()
    traced = [trace_body(_branch(f), [], what) for f in functions]
    structure = traced[0][1]
    for number, (_, other) in enumerate(traced):
        if other != structure:
            raise TypeError(
                f"{what}: branches return different structures: {_structure.to_json(structure)}, "
                f"and {_structure.to_json(other)} in branch {number}"
            )
    results = graph.add("switch_case", [graph.convert(index)], None, [fn for fn, _ in traced])
    return _structure.unflatten(structure, results)


def cond(
    pred: TensorLike,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Return what one of two functions returns: only that one is computed.

    As ``tf.cond``. In a function that is traced, the elements are sorted by the predicate, and each
    function runs on its own.

    Parameters
    ----------
    pred : tensor_like of bool
        A scalar.
    true_fn, false_fn : callable
        Without arguments. Both return the same structure and dtypes; shapes may differ, ranks not.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    nested Tensor or numpy.ndarray
        What the function returned; lists become tuples.

    Raises
    ------
    TypeError
        The functions return different structures, or None.
    InvalidArgumentError
        They return different dtypes or ranks, or `pred` is not a scalar bool.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> list(ds.map(lambda x: mr.cond(x % 2 == 0, lambda: x * 10, lambda: -x)))
    [0, -1, 20, -3]
    """
    if true_fn is None or false_fn is None:
        raise TypeError("cond: true_fn and false_fn are functions without arguments")
    if not isinstance(pred, Symbol):
        return _branches(0 if bool(to_array(pred)) else 1, [true_fn, false_fn], "cond")
    return _branches(where(pred, 0, 1), [true_fn, false_fn], "cond")


def case(
    pred_fn_pairs: Sequence[tuple[TensorLike, Callable[[], Any]]],
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Return what the first function returns whose predicate holds.

    Parameters
    ----------
    pred_fn_pairs : sequence of (tensor_like of bool, callable)
        Scalars, and functions without arguments as in `cond`.
    default : callable, optional
        For where no predicate holds; without it that is an error of the element.
    exclusive : bool, default False
        Whether it is an error of the element when several predicates hold.
    strict : bool, default False
        Accepted and ignored.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    nested Tensor or numpy.ndarray
        What the function returned; lists become tuples.

    Raises
    ------
    TypeError
        No pairs, or functions that return different structures.
    InvalidArgumentError
        No predicate holds and there is no default, or several hold and `exclusive` is set.

    Examples
    --------
    >>> ds = mr.Dataset.range(4)
    >>> list(ds.map(lambda x: mr.case([(x < 1, lambda: -x), (x < 3, lambda: x)], lambda: x * 100)))
    [0, 1, 2, 300]
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, Mapping) else pred_fn_pairs)
    if not pairs:
        raise TypeError("case: there are no pairs of a predicate and a function")
    holds = stack([pred for pred, _ in pairs])
    functions = [function for _, function in pairs]
    if exclusive:
        Assert(
            reduce_sum(cast(holds, "int32")) <= 1, ["case: several predicates hold, exclusive=True"]
        )
    if default is None:
        Assert(reduce_any(holds), ["case: no predicate holds, and there is no default"])
    else:
        functions.append(default)
    first = argmax(cast(holds, "int32"), 0, "int32")
    return _branches(where(reduce_any(holds), first, len(pairs)), functions, "case")


def switch_case(
    branch_index: TensorLike,
    branch_fns: Any,
    default: Callable[[], Any] | None = None,
    name: str = "switch_case",
) -> Any:
    """Return what the function with a given number returns: only that one is computed.

    Parameters
    ----------
    branch_index : tensor_like of int
        A scalar.
    branch_fns : sequence of callable, dict of int to callable, or sequence of (int, callable)
        Functions without arguments as in `cond`.
    default : callable, optional
        For numbers without a function; by default the function with the highest number.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    nested Tensor or numpy.ndarray
        What the function returned; lists become tuples.

    Raises
    ------
    TypeError
        No functions, or functions that return different structures.
    ValueError
        A number is negative or above 255.

    Examples
    --------
    >>> ds = mr.Dataset.range(3)
    >>> list(ds.map(lambda x: mr.switch_case(mr.cast(x, mr.int32), [lambda: x, lambda: x + 10])))
    [0, 11, 12]
    """
    pairs = list(branch_fns.items() if isinstance(branch_fns, Mapping) else branch_fns)
    if not pairs:
        raise TypeError("switch_case: there are no functions")
    numbered = dict(pairs if isinstance(pairs[0], tuple) else enumerate(pairs))
    if min(numbered) < 0 or max(numbered) > 255:
        raise ValueError("switch_case: the numbers of the functions are 0 to 255")
    last = default if default is not None else numbered[max(numbered)]
    functions = [numbered.get(i, last) for i in range(max(numbered) + 1)]
    return _branches(
        branch_index, functions + ([default] if default is not None else []), "switch_case"
    )


def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """Apply a function to each part of tensors along their first axis, and stack the results.

    As ``tf.map_fn``. All parts of all elements of a block go through the function together. An
    operator on the whole tensor, where there is one, is faster.

    Parameters
    ----------
    fn : callable
        Traced; takes a part of each tensor in the structure of `elems`, as one argument.
    elems : nested tensor_like or RaggedTensor
        Tensors with one first dimension. The parts of a ragged tensor are its rows.
    dtype, fn_output_signature : nested dtype_like, TensorSpec or RaggedTensorSpec, optional
        What `fn` returns is found out; given, it is compared. `RaggedTensorSpec([None], dtype)`
        lets a vector have another length for each part.
    parallel_iterations, back_prop, swap_memory, infer_shape : optional
        Accepted and ignored.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    nested Tensor, numpy.ndarray or RaggedTensor
        The results of `fn`, stacked. A ragged tensor that it returns gets an axis more.

    Raises
    ------
    TypeError
        `fn` returns None, or something else than `fn_output_signature`.
    InvalidArgumentError
        Results of one element differ in shape, or the tensors in their first dimension.

    Examples
    --------
    >>> mr.map_fn(lambda x: mr.reduce_sum(x), np.arange(6).reshape(3, 2))
    array([1, 5, 9])
    >>> mr.map_fn(mr.range, [1, 3], fn_output_signature=mr.RaggedTensorSpec([None], mr.int32))
    <RaggedTensor [[0], [0, 1, 2]]>
    """
    as_list = isinstance(elems, list) and (holds_symbols(elems) or _holds_tensors(elems))
    whole = tuple(elems) if as_list else elems
    leaves, structure = _structure.flatten(whole, _structure.is_composite)
    signature = fn_output_signature if dtype is None else dtype
    results, skeleton = Results(), None

    def body(parts: list[Tensor]) -> Any:
        nonlocal skeleton
        rest = list(parts)
        nest = _structure.unflatten(structure, [part_of(leaf, rest) for leaf in leaves])
        result = fn(list(nest) if as_list else nest)
        if result is None:
            return None
        found, skeleton = _structure.flatten(result, _structure.is_composite)
        wanted = _wanted(signature, skeleton, len(found))
        if signature is None and skeleton == structure:
            wanted = [spec_like(leaf, value) for leaf, value in zip(leaves, found)]
        for value, spec in zip(found, wanted, strict=True):
            results.add(value, spec)
        return tuple(results.tensors)

    def add(graph: Graph, inputs: list[Tensor]) -> list[Tensor]:
        function, _ = trace_body(body, [_part_spec(t) for t in inputs], "map_fn")
        attrs = AttrTable().int("mapped", len(inputs))
        if results.joined:
            attrs.ints("joined", results.joined)
        return graph.add("map_fn", inputs, attrs, [function])

    graph = current_graph()
    inputs = [tensor for leaf in leaves for tensor in mapped(leaf)]
    if graph is None:
        tensors = run_once(lambda g: add(g, g.inputs), [to_array(v) for v in inputs])
    else:
        tensors = add(graph, [graph.convert(v) for v in inputs])
    components = results.together(tensors)
    _compare_signature(components, skeleton, signature)
    return _structure.unflatten(skeleton, components)


def _wanted(signature: Any, skeleton: Any, count: int) -> list[Any]:
    """What @signature says of each of @count components, if it has their structure."""
    if signature is None:
        return [None] * count
    leaves, structure = _structure.flatten(signature, _structure.is_composite)
    return leaves if structure == skeleton else [None] * count


def _holds_tensors(values: list[Any]) -> bool:
    return all(isinstance(v, (np.ndarray, np.generic)) for v in values)


def _part_spec(tensor: Tensor) -> TensorSpec:
    dims = tensor.shape.dims
    if not dims:
        raise ValueError(
            f"map_fn: a tensor of shape {tensor.shape} has no first axis: a tensor of rank 1 or "
            "more is wanted"
        )
    return TensorSpec(dims[1:], tensor.dtype)


def _compare_signature(results: Sequence[Any], structure: Any, wanted: Any) -> None:
    if wanted is None:
        return
    leaves, expected = _structure.flatten(wanted, _structure.is_composite)
    dtypes = [getattr(leaf, "dtype", leaf) for leaf in leaves]
    found = [TensorSpec(None, r.dtype).dtype for r in results]
    if expected != structure or [TensorSpec(None, d).dtype for d in dtypes] != found:
        raise TypeError(
            f"map_fn: the function returns {[d.name for d in found]} in the structure "
            f"{_structure.to_json(structure)}, not what fn_output_signature says: {wanted!r}"
        )


def vectorized_map(
    fn: Callable[..., Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any:
    """Apply a function to each part of tensors along their first axis: `map_fn`.

    Parameters
    ----------
    fn : callable
        As in `map_fn`.
    elems : nested tensor_like
        As in `map_fn`.
    fallback_to_while_loop, warn : bool, optional
        Accepted and ignored.

    Returns
    -------
    nested Tensor or numpy.ndarray
        The results of `fn`, stacked.

    Examples
    --------
    >>> mr.vectorized_map(lambda x: x + 1, np.arange(3))
    array([1, 2, 3])
    """
    return map_fn(fn, elems)


def control_dependencies(control_inputs: Any) -> contextlib.AbstractContextManager[None]:
    """Do nothing: assertions hold for the function in which they stand.

    Parameters
    ----------
    control_inputs : list
        Ignored.

    Returns
    -------
    context manager
        One without an effect.

    Examples
    --------
    >>> with mr.control_dependencies([mr.debugging.assert_positive(1)]):
    ...     x = mr.identity(2)
    """
    return contextlib.nullcontext()


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: Any = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
) -> Any:
    """Give a function back as it is; a decorator, so that ``tf.function`` may stay in a script.

    There is nothing to compile: a function that a dataset gets is traced there, and elsewhere it
    works on arrays.

    Parameters
    ----------
    func : callable, optional
        The function; None: a decorator comes back.
    input_signature, autograph, jit_compile, reduce_retracing : optional
        Accepted and ignored. `if` and `for` on tensors are not turned into `cond` and `while_loop`:
        they raise TypeError, which says what to use.
    experimental_implements, experimental_autograph_options : optional
        Accepted and ignored.
    experimental_attributes, experimental_relax_shapes : optional
        Accepted and ignored.
    experimental_compile, experimental_follow_type_hints : optional
        Accepted and ignored.

    Returns
    -------
    callable
        `func`, or a decorator.

    Raises
    ------
    TypeError
        `func` is no function.

    Examples
    --------
    >>> @mr.function
    ... def double(x):
    ...     return x * 2
    >>> list(mr.Dataset.range(3).map(double))
    [0, 2, 4]
    """
    if func is None:
        return function
    if not callable(func):
        raise TypeError(f"function is a decorator of functions, not of {type(func).__name__}")
    return func
