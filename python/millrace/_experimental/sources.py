"""Datasets of lists of elements; a number of elements that is asserted, or padded to; a place."""

from __future__ import annotations

from typing import Any, Callable, TypeAlias

import numpy as np

from .. import errors
from .._data import spec as _spec
from .._data import structure as _structure
from .._data.block import Array, new_block, new_var_block, tensor_arrays
from .._data.spec import integer
from .._datasets.arguments import IntLike, add_number
from .._graph.attrs import AttrTable
from .._ops.constants import constant
from ..dataset import Dataset
from ..dtypes import as_dtype

Transformation: TypeAlias = Callable[[Dataset], Dataset]


# ---- elements ----


def _columns(elements: list[Any]) -> tuple[list[list[Array]], Any]:
    """The values of each component, and the structure that all elements have."""
    rows, first, places = [], None, list[str]()
    for i, element in enumerate(elements):
        try:
            leaves, structure = _structure.flatten(element)
        except TypeError as e:
            raise TypeError(f"from_list: element {i}: {e}") from None
        if i == 0:
            first, places = structure, _structure.places(structure)
        elif structure != first:
            raise ValueError(
                f"from_list: element {i} has the structure {_structure.to_json(structure)}, those "
                f"before it {_structure.to_json(first)}"
            )
        rows.append(tensor_arrays(f"from_list: element {i}", leaves, places))
    return [list(column) for column in zip(*rows)], first


def _check_column(k: int, column: list[Array]) -> None:
    """TypeError unless all values of component @k have one dtype and one number of dimensions."""
    for i, value in enumerate(column):
        if value.dtype != column[0].dtype:
            raise TypeError(
                f"from_list: component {k} of element {i} is {as_dtype(value.dtype).name}, of those "
                f"before it {as_dtype(column[0].dtype).name}"
            )
        if value.ndim != column[0].ndim:
            raise ValueError(
                f"from_list: component {k} of element {i} has {value.ndim} dimensions, of those "
                f"before it {column[0].ndim}: one dataset has one number of them"
            )


def from_list(elements: list[Any], name: str | None = None) -> Dataset:
    """Make a dataset of a list of elements, as ``tf.data.experimental.from_list``.

    Parameters
    ----------
    elements : list of nested tensor_like
        All of one structure and the same dtypes; shapes may differ in their sizes.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Dataset
        Of the elements.

    Raises
    ------
    ValueError
        It is no list, or empty; or structures or numbers of dimensions differ.
    TypeError
        Dtypes differ.

    Examples
    --------
    >>> list(mr.experimental.from_list([(1, "a"), (2, "b")]))
    [(1, b'a'), (2, b'b')]
    """
    if not isinstance(elements, list):
        raise ValueError(f"from_list takes a list of elements, not {type(elements).__name__}")
    if not elements:
        raise ValueError("from_list takes at least one element: the first says what they are")
    columns, structure = _columns(elements)
    for k, column in enumerate(columns):
        _check_column(k, column)
    attrs = AttrTable().bytes("structure", _structure.to_json(structure))
    if all(len({value.shape for value in column}) == 1 for column in columns):
        block = new_block(len(elements), [np.stack(column) for column in columns], per_row=True)
    else:
        block = new_var_block(columns)
    return Dataset._of("from_tensor_slices", attrs=attrs.block("tensors", block))._named(
        "from_list", []
    )


def at(dataset: Dataset, index: IntLike) -> Any:
    """Read the element at a place, as ``tf.data.experimental.at``.

    The elements before it are passed over: that costs what ``Dataset.skip`` costs. To read many
    elements, iterate.

    Parameters
    ----------
    dataset : Dataset
        Any.
    index : int
        The place, from 0.

    Returns
    -------
    nested numpy.ndarray
        The element.

    Raises
    ------
    OutOfRangeError
        There is no such place.

    Examples
    --------
    >>> mr.experimental.at(mr.Dataset.range(5).map(lambda x: x * x), 3)
    9
    """
    place = integer("index", index)
    if place >= 0:
        with iter(dataset.skip(place).take(1)) as it:
            for element in it:
                return element
    n = int(dataset.cardinality())
    known = f": the dataset has {n} elements" if n >= 0 else ""
    raise errors.OutOfRangeError(f"there is no element {place}{known}")


def assert_cardinality(expected_cardinality: IntLike) -> Transformation:
    """Say how many elements a dataset has, as ``tf.data.experimental.assert_cardinality``.

    For datasets whose number of elements is not known, such as those of files. What was said is the
    dataset's cardinality; it is checked while the dataset is read.

    Parameters
    ----------
    expected_cardinality : int
        How many, or mr.INFINITE_CARDINALITY.

    Returns
    -------
    callable
        Dataset -> Dataset. Reading it raises FailedPreconditionError, where there are more or fewer
        elements, at the place where that is found out.

    Examples
    --------
    >>> ds = mr.Dataset.range(10).filter(lambda x: x % 2 == 0)
    >>> len(ds.apply(mr.experimental.assert_cardinality(5)))
    5
    """

    def transform(dataset: Dataset) -> Dataset:
        attrs = add_number(AttrTable(), "cardinality", expected_cardinality)
        return dataset._of("assert_cardinality", [dataset], attrs)

    return transform


def _zeros(leaf: _spec.TensorSpec) -> Array:
    if not leaf.shape.is_fully_defined():
        raise ValueError(
            f"pad_to_cardinality: a component has the shape {leaf.shape}: that of elements to add "
            "must be known (batch with drop_remainder=True, or padded_batch with padded_shapes)"
        )
    shape = [d or 0 for d in leaf.shape]
    return (
        np.full(shape, b"", object)
        if leaf.dtype.kind == "s"
        else np.zeros(shape, leaf.dtype.numpy_dtype())
    )


def pad_to_cardinality(cardinality: int, mask_key: str = "valid") -> Transformation:
    """Add elements of zeros up to a number, as ``tf.data.experimental.pad_to_cardinality``.

    Parameters
    ----------
    cardinality : int
        How many elements there are to be.
    mask_key : str, default "valid"
        The component that is False for those that were added.

    Returns
    -------
    callable
        Dataset of dicts -> Dataset of dicts with one component more.

    Raises
    ------
    ValueError
        When it is applied: the elements are no dicts, or have no fixed shape, or their number is
        not known, or larger.

    Examples
    --------
    >>> ds = mr.Dataset.from_tensor_slices({"a": [1, 2]})
    >>> list(ds.apply(mr.experimental.pad_to_cardinality(3)))[1:]
    [{'a': 2, 'valid': True}, {'a': 0, 'valid': False}]
    """

    def transform(dataset: Dataset) -> Dataset:
        specs, n = dataset.element_spec, int(dataset.cardinality())
        if not isinstance(specs, dict):
            raise ValueError(f"pad_to_cardinality takes elements that are dicts, not {specs}")
        if n < 0:
            raise ValueError(
                "pad_to_cardinality takes a dataset whose number of elements is known: "
                "assert_cardinality says it"
            )
        if n > cardinality:
            raise ValueError(f"pad_to_cardinality({cardinality}): there are {n} elements already")
        empty = _structure.unflatten(
            dataset._structure, [_zeros(leaf) for leaf in _spec.leaves_of(dataset._spec_ptr)]
        )
        rest = Dataset.from_tensors({**empty, mask_key: np.False_}).repeat(cardinality - n)
        marked = dataset.map(lambda element: {**element, mask_key: constant(True)})
        return marked.concatenate(rest)._named("pad_to_cardinality", [dataset])

    return transform
