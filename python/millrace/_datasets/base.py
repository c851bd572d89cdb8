"""What all parts of a Dataset need: its handle, and how an operator makes another one of it."""

from __future__ import annotations

import inspect
from typing import Any, Self, Sequence

from .. import errors
from .._capi import ffi as _ffi
from .._capi.ffi import lib
from .._data import spec as _spec
from .._data import structure as _structure
from .._data.composite import Sizes
from .._data.structure import Structure
from .._graph.attrs import AttrTable
from .._graph.operators import new_dataset
from .._graph.symbol import Symbol, current_graph
from ..options import Options
from .pipeline import Pipeline

# What DYNAMIC sharding hands out as one: pairs stay together.
_ONE_SOURCE = {"range", "from_tensors", "from_tensor_slices", "map", "zip", "concatenate"}
# What leaves elements as they are, of one input.
_KEEP_ELEMENTS = {"shuffle", "take", "skip", "shard", "repeat", "prefetch"}
_KEEP_SIZES = _KEEP_ELEMENTS | {"filter", "take_while", "cache", "ignore_errors", "zip"}

_PACKAGE = __name__.partition(".")[0] + "."


class DatasetBase:
    """
    A handle of the library, with the options that hold for it. Nothing else makes one than Dataset.
    """

    def __init_subclass__(cls) -> None:
        """
        The methods are Dataset's, whatever file they are in: errors of their calls say so. What
        others derive, or only assign in a class, keeps its name, by which pickle finds it.
        """
        for name, method in vars(cls).items():
            if not inspect.isfunction(method) or name.startswith("_"):
                continue
            ours = method.__module__.startswith(_PACKAGE)
            if ours and method.__qualname__ == f"{cls.__qualname__}.{name}":
                method.__qualname__ = f"Dataset.{name}"

    def __init__(self, handle: _ffi.DatasetHandle, options: Options | None = None) -> None:
        if not isinstance(handle, _ffi.DatasetHandle):
            raise TypeError(
                "a Dataset is made by its static methods: Dataset.range(), "
                "from_tensors(), TFRecordDataset(), ..."
            )
        self._handle = handle
        self._options = options if options is not None else Options()
        self._one_source = False
        # Operators below that mean something else when each worker has a share of the sources.
        self._by_share: frozenset[str] = frozenset()
        self._structure: Structure = _spec.structure_of(self._spec_ptr)
        # Of a component of an element: for the states of iterators.
        self._encoded: bytes | None = None
        # Of datasets that stand for others: what has them (saving.py), and makes one of an element.
        self._elements_are: Any = None
        self._sizes: Sizes | None = None
        self._pipeline: Pipeline = ("?", ())

    @property
    def _spec_ptr(self) -> Any:
        """The mr_spec of the elements, as long as this dataset is held."""
        return lib.mr_dataset_spec(self._handle.ptr)

    @classmethod
    def _of(
        cls,
        op: str,
        inputs: Sequence[DatasetBase] = (),
        attrs: AttrTable | None = None,
        functions: Sequence[_ffi.FunctionHandle] = (),
        service: str | None = None,
    ) -> Self:
        """
        Dataset operator @op of the library, as a Dataset. @service: the target of the one that it
        reads from.
        """
        handle = new_dataset(op, [d._handle for d in inputs], attrs, functions, current_graph())
        options = Options()
        for d in inputs:
            options = options.merge(d._options)
        ds = cls(handle, options)
        handle.services = frozenset() if service is None else frozenset({service})
        for part in (*(d._handle for d in inputs), *functions):
            handle.services |= part.services
        ds._note_sharding(op, inputs)
        ds._note_datasets(op, inputs)
        ds._note_sizes(op, inputs)
        ds._pipeline = (op, tuple(d._pipeline for d in inputs))
        return ds

    def _note_sharding(self, op: str, inputs: Sequence[DatasetBase]) -> None:
        self._one_source = op in _ONE_SOURCE and all(ds._one_source for ds in inputs)
        self._by_share = frozenset[str]().union(*(ds._by_share for ds in inputs))
        pairs = op == "zip" and len(inputs) > 1 and not self._one_source
        if pairs or op in ("take", "skip", "shard", "assert_cardinality"):
            self._by_share |= {op}

    def _note_datasets(self, op: str, inputs: Sequence[DatasetBase]) -> None:
        """Nobody must see what stands for a dataset."""
        of = next((ds._elements_are for ds in inputs if ds._elements_are is not None), None)
        if of is None or op in ("flat_map", "interleave"):
            return
        if op not in _KEEP_ELEMENTS:
            raise errors.UnimplementedError(
                f"{op} of a dataset of shards is not supported: order and choose shards with "
                "shuffle, take, skip, shard and repeat, and read them with interleave or flat_map"
            )
        self._elements_are = of

    def _note_sizes(self, op: str, inputs: Sequence[DatasetBase]) -> None:
        """Sparse tensors have the sizes that they had, where elements stay what they are."""
        if op not in _KEEP_SIZES or all(ds._sizes is None for ds in inputs):
            return
        self._sizes = []
        for ds in inputs:
            self._sizes += ds._sizes or [None] * len(_structure.outline(ds._structure)[1])

    def _counting(self, ds: Self, counts: Any) -> Self:
        """@ds, made of this dataset; without @counts it has all of its elements, or none."""
        if not counts:
            ds._by_share = self._by_share
        return ds

    def _named(self, op: str, inputs: Sequence[DatasetBase] = ()) -> Self:
        """
        This dataset, shown as one operator: what it is made of is not what the user has written.
        """
        self._pipeline = (op, tuple(d._pipeline for d in inputs))
        return self

    def _elements_of(self, value: Any, of: Any) -> Self:
        attrs = AttrTable().bytes("spec", _structure.to_json(of))
        if isinstance(value, Symbol):
            return self._of("elements_of", attrs=attrs.value("dataset", value))
        ds = self._of("elements_of", attrs=attrs.bytes("dataset", value))
        ds._encoded = value
        return ds
