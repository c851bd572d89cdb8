"""An element, or none."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import errors
from .._data import spec as _spec
from .._data import structure as _structure
from .._data.block import as_tensor_array
from .._datasets.iterator import NumpyIterator
from ..dtypes import as_dtype


class Optional:
    """An element, or none, as ``tf.experimental.Optional``.

    Made by `get_next_as_optional`, `from_value` and `empty`. It holds NumPy values, and is no
    component of elements.

    Examples
    --------
    >>> it = iter(mr.Dataset.range(1))
    >>> first, second = (mr.experimental.get_next_as_optional(it) for _ in range(2))
    >>> first.get_value(), second.has_value()
    (0, False)
    """

    def __init__(self, spec: Any, values: tuple[Any, ...]) -> None:
        self._spec, self._values = spec, values

    @property
    def element_spec(self) -> Any:
        """What the element is, or would be."""
        return self._spec

    @staticmethod
    def from_value(value: Any) -> Optional:
        """Make one that has a value.

        Parameters
        ----------
        value : nested tensor_like
            The element.

        Returns
        -------
        Optional
            With that value.

        Examples
        --------
        >>> mr.experimental.Optional.from_value({"a": 1}).element_spec
        {'a': TensorSpec(shape=(), dtype=mr.int32)}
        """
        leaves, structure = _structure.flatten(value)
        arrays = [as_tensor_array(leaf) for leaf in leaves]
        specs = [
            _spec.TensorSpec(a.shape, "string" if a.dtype.kind == "O" else a.dtype) for a in arrays
        ]
        element = _structure.unflatten(structure, [a if a.ndim else a[()] for a in arrays])
        return Optional(_structure.unflatten(structure, specs), (element,))

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """Make one that has no value.

        Parameters
        ----------
        element_spec : nested TensorSpec
            What the element would be.

        Returns
        -------
        Optional
            Without a value.

        Examples
        --------
        >>> mr.experimental.Optional.empty(mr.TensorSpec([], mr.int32)).has_value()
        False
        """
        return Optional(element_spec, ())

    def has_value(self, name: str | None = None) -> np.bool_:
        """Return whether there is a value.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        numpy.bool_
            Whether.

        Examples
        --------
        >>> mr.experimental.Optional.from_value(1).has_value()
        True
        """
        return np.bool_(bool(self._values))

    def get_value(self, name: str | None = None) -> Any:
        """Return the value.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        nested numpy.ndarray
            The element.

        Raises
        ------
        InvalidArgumentError
            There is none.

        Examples
        --------
        >>> mr.experimental.Optional.from_value([1, 2]).get_value()
        array([1, 2], dtype=int32)
        """
        if not self._values:
            raise errors.InvalidArgumentError("this optional has no value")
        return self._values[0]

    def __repr__(self) -> str:
        held = repr(self._values[0]) if self._values else "nothing"
        return f"<millrace.experimental.Optional of {held}>"


def get_next_as_optional(iterator: NumpyIterator) -> Optional:
    """Read the next element, or find that there is none.

    Parameters
    ----------
    iterator : NumpyIterator
        What ``iter(ds)`` gives.

    Returns
    -------
    Optional
        Without a value at the end.

    Examples
    --------
    >>> mr.experimental.get_next_as_optional(iter(mr.Dataset.range(0))).has_value()
    False
    """
    if not isinstance(iterator, NumpyIterator):
        raise TypeError(f"get_next_as_optional takes an iterator, not {type(iterator).__name__}")
    for element in iterator:
        return Optional(iterator.element_spec, (element,))
    return Optional.empty(iterator.element_spec)
