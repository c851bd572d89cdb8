"""What a dataset is, and reading it."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, NoReturn

import numpy as np

from .. import errors
from .._base.habits import OF_DATASETS
from .._base.hints import no_attribute
from .._base.html import html_table
from .._capi import ffi as _ffi
from .._capi.ffi import byref, check, lib
from .._data import spec as _spec
from .._data import structure as _structure
from .._data.composite import with_sizes
from .._graph.symbol import current_graph
from ..options import Options
from .base import DatasetBase
from .iterator import NumpyIterator
from .pipeline import render

INFINITE_CARDINALITY = _ffi.CARDINALITY_INFINITE
UNKNOWN_CARDINALITY = _ffi.CARDINALITY_UNKNOWN


class Reading(DatasetBase):
    """The methods of a Dataset that say what it is, and those that read it."""

    @property
    def element_spec(self) -> Any:
        """What the elements are: mr.TensorSpec in their structure."""
        if self._elements_are is not None:
            return self._elements_are.element_spec
        spec = _spec.element_spec_of(self._spec_ptr)
        return spec if self._sizes is None else with_sizes(spec, self._sizes)

    def cardinality(self, name: str | None = None) -> np.int64:
        """Return the number of elements, as far as it is known without reading.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        numpy.int64
            Or mr.INFINITE_CARDINALITY (-1), or mr.UNKNOWN_CARDINALITY (-2).

        Examples
        --------
        >>> mr.Dataset.range(5).batch(2).cardinality()
        3
        """
        return np.int64(lib.mr_dataset_cardinality(self._handle.ptr))

    def __len__(self) -> int:
        n = int(self.cardinality())
        if n == INFINITE_CARDINALITY:
            raise TypeError("the dataset is infinite: ds.take(n) has a length")
        if n == UNKNOWN_CARDINALITY:
            raise TypeError(
                "the length of the dataset is unknown: sum(1 for _ in ds) counts, "
                "ds.apply(mr.experimental.assert_cardinality(n)) says it"
            )
        return n

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: Any) -> NoReturn:
        raise TypeError(
            "ds[...]: a dataset is a stream, which has no element for an index: loop over it, or use "
            "ds.skip(i).take(n). A DataLoader of PyTorch takes it inside of an IterableDataset with "
            "__iter__ = lambda self: iter(ds), and batch_size=None"
        )

    def __add__(self, other: Any) -> NoReturn:
        raise TypeError(
            "ds + ...: one dataset behind another is ds.concatenate(other); to change its elements, "
            "use ds.map(function)"
        )

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(no_attribute("Dataset", name, OF_DATASETS, dir(type(self))))

    def fingerprint(self) -> bytes:
        """Return 16 bytes that are equal for equal pipelines, however they were built.

        Returns
        -------
        bytes
            By which a service knows a dataset.

        Examples
        --------
        >>> a, b = mr.Dataset.range(3).batch(2), mr.Dataset.range(0, 3, 1).batch(2)
        >>> a.fingerprint() == b.fingerprint()
        True
        """
        out, err = (ctypes.c_uint8 * 16)(), _ffi.Error()
        check(lib.mr_dataset_fingerprint(self._handle.ptr, out, byref(err)), err)
        return bytes(out)

    def _size(self) -> str:
        n = int(self.cardinality())
        return {INFINITE_CARDINALITY: "infinite", UNKNOWN_CARDINALITY: "unknown"}.get(n, str(n))

    def __repr__(self) -> str:
        return (
            f"<millrace.Dataset {render(self._pipeline)}, element spec {self.element_spec}, "
            f"cardinality {self._size()}>"
        )

    def _repr_html_(self) -> str:
        """A table for notebooks: how it is made, what it gives, where it reads from."""
        rows = {
            "pipeline": render(self._pipeline),
            "element spec": repr(self.element_spec),
            "cardinality": self._size(),
        }
        if self._options != Options():
            rows["options"] = repr(self._options)
        if self._handle.services:
            rows["reads from"] = ", ".join(sorted(self._handle.services))
        return html_table("Dataset", rows)

    def __iter__(self) -> NumpyIterator:
        if current_graph() is not None:
            raise TypeError(
                "a dataset cannot be iterated inside a traced function: use flat_map "
                "or interleave"
            )
        if self._elements_are is not None:
            raise errors.UnimplementedError(
                "a dataset of shards is not iterated: read them with interleave or flat_map"
            )
        return NumpyIterator(self)

    def as_numpy_iterator(self) -> NumpyIterator:
        """Iterate over the elements, as ``for x in ds`` does.

        Returns
        -------
        NumpyIterator
            Elements hold NumPy arrays, NumPy scalars and bytes.

        Raises
        ------
        TypeError
            A component is a dataset (``for`` gives those as datasets).

        Examples
        --------
        >>> list(mr.Dataset.range(3).as_numpy_iterator())
        [0, 1, 2]
        """
        if any(map(_structure.dataset_of, _structure.leaf_nodes(self._structure))):
            raise TypeError(
                f"as_numpy_iterator: the elements hold datasets, {self.element_spec}: "
                "make tensors of them in flat_map, or use `for`"
            )
        return iter(self)

    def get_single_element(self, name: str | None = None) -> Any:
        """Read the only element.

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
            There is none, or more than one.

        Examples
        --------
        >>> mr.Dataset.range(3).batch(3).get_single_element()
        array([0, 1, 2])
        """
        with iter(self) as it:
            found = list(itertools.islice(it, 2))
        if len(found) != 1:
            raise errors.InvalidArgumentError(
                "the dataset is empty" if not found else "the dataset has more than one element"
            )
        return found[0]
