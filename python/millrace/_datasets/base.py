"""The part of a Dataset that tracing and reading need, so that they stand below it."""

from __future__ import annotations

from typing import Any

from .._capi import ffi as _ffi
from .._capi.ffi import lib
from .._data import spec as _spec
from .._data.structure import Structure
from ..options import Options


class DatasetBase:
    """
    A handle of the library, with the options that hold for it. Nothing else makes one than Dataset.
    """

    def __init__(self, handle: _ffi.DatasetHandle, options: Options | None = None) -> None:
        if not isinstance(handle, _ffi.DatasetHandle):
            raise TypeError("a Dataset is made by its static methods: Dataset.range(), "
                            "from_tensors(), TFRecordDataset(), ...")
        self._handle = handle
        self._options = options if options is not None else Options()
        self._one_source = False
        # Operators below that mean something else when each worker has a share of the sources.
        self._by_share: frozenset[str] = frozenset()
        self._structure: Structure = _spec.structure_of(self._spec_ptr)
        # Of a component of an element: for the states of iterators.
        self._encoded: bytes | None = None

    @property
    def _spec_ptr(self) -> Any:
        """The mr_spec of the elements, as long as this dataset is held."""
        return lib.mr_dataset_spec(self._handle.ptr)

    def _elements_of(self, value: Any, of: Any) -> DatasetBase:
        """
        A component that is a dataset, as one; @value is symbolic or bytes, @of says what its
        elements are.
        """
        raise NotImplementedError
