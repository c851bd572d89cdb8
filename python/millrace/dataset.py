"""Dataset: tf.data's names, arguments and defaults over the library's operators."""

from __future__ import annotations

import ctypes
import glob
import itertools
from typing import Any, Callable, Iterable, Sequence, SupportsIndex, TypeAlias, Union

import numpy as np

from . import errors
from ._base.html import html_table
from ._capi import ffi as _ffi
from ._capi.ffi import byref, check, lib
from ._data import spec as _spec
from ._data import structure as _structure
from ._data.block import as_tensor_array, new_block
from ._datasets import grouping as _grouping
from ._datasets import padding as _padding
from ._datasets import scanning as _scanning
from ._datasets.arguments import add_flag, add_number, paths
from ._datasets.base import DatasetBase
from ._datasets.iterator import NumpyIterator
from ._datasets.pipeline import Pipeline, render
from ._datasets.trace import trace
from ._graph.attrs import AttrTable
from ._graph.operators import new_dataset
from ._graph.symbol import Symbol, current_graph, holds_symbols
from ._ops.absent import absent
from ._ops.arrays import where
from .dtypes import DTypeLike
from .options import Options

AUTOTUNE = -1
INFINITE_CARDINALITY = _ffi.CARDINALITY_INFINITE
UNKNOWN_CARDINALITY = _ffi.CARDINALITY_UNKNOWN

# A number, which inside of a traced function may be symbolic.
IntLike: TypeAlias = Union[SupportsIndex, Symbol]

# What DYNAMIC sharding hands out as one: pairs stay together.
_ONE_SOURCE = {"range", "from_tensors", "from_tensor_slices", "map", "zip", "concatenate"}


def apply_operator(op: str, inputs: Sequence[Dataset] = (), attrs: AttrTable | None = None,
                   functions: Sequence[_ffi.FunctionHandle] = (),
                   service: str | None = None) -> Dataset:
    """
    Dataset operator @op of the library, as a Dataset. @service: the target of the one that it reads
    from.
    """
    handle = new_dataset(op, [d._handle for d in inputs], attrs, functions, current_graph())
    options = Options()
    for ds in inputs:
        options = options.merge(ds._options)
    ds = Dataset(handle, options)
    handle.services = frozenset() if service is None else frozenset({service})
    for part in (*(d._handle for d in inputs), *functions):
        handle.services |= part.services
    ds._note_sharding(op, inputs)
    ds._pipeline = (op, tuple(d._pipeline for d in inputs))
    return ds


def _datasets(datasets: Iterable[Any], what: str) -> list[Dataset]:
    datasets = list(datasets)
    if not datasets:
        raise ValueError(f"{what} takes at least one dataset")
    for ds in datasets:
        if not isinstance(ds, Dataset):
            raise TypeError(f"{what} takes datasets, not {type(ds).__name__}")
    return datasets


def _divides(batch_size: Any, shapes: Sequence[_spec.TensorShape]) -> bool:
    """Whether the first axis of elements of @shapes is known, and a multiple of @batch_size."""
    rows = next((shape[0] for shape in shapes if shape.rank and shape[0] is not None), None)
    return rows is not None and batch_size > 0 and rows % batch_size == 0


def _add_values(attrs: AttrTable, leaves: Sequence[Any]) -> AttrTable:
    """Components of which some are symbolic."""
    graph = current_graph()
    for i, leaf in enumerate(leaves):
        attrs.value(f"value{i}", graph.convert(leaf) if graph else leaf)
    return attrs


class Dataset(DatasetBase):
    """A sequence of elements and how it is made, immutable; the names are ``tf.data.Dataset``'s.

    Without a service it runs here, in the C engine; with ``ds.apply(mr.service.distribute(...))``
    what stands before runs on the service's workers. It is made by its static methods and by
    ``mr.TFRecordDataset`` and its like. It can be iterated any number of times, and pickled.

    An element is a tensor, or a nest of tuples, dicts, named tuples and dataclasses of them. Read,
    its parts are NumPy arrays, NumPy scalars and bytes.

    Functions that are given to its methods are traced: called once, with symbolic tensors
    (mr.Tensor) in the structure of the elements, to record what runs in C. They may use Python's
    operators and the functions of ``mr``.

    Examples
    --------
    >>> ds = mr.Dataset.range(10).map(lambda x: x * x).batch(4)
    >>> for x in ds:
    ...     print(x)
    [0 1 4 9]
    [16 25 36 49]
    [64 81]
    >>> ds
    <millrace.Dataset range > map > batch,
    element spec TensorSpec(shape=(None,), dtype=mr.int64), cardinality 3>
    """

    def __init__(self, handle: _ffi.DatasetHandle, options: Options | None = None) -> None:
        super().__init__(handle, options)
        self._pipeline: Pipeline = ("?", ())

    def _note_sharding(self, op: str, inputs: Sequence[Dataset]) -> None:
        self._one_source = op in _ONE_SOURCE and all(ds._one_source for ds in inputs)
        self._by_share = frozenset[str]().union(*(ds._by_share for ds in inputs))
        pairs = op == "zip" and len(inputs) > 1 and not self._one_source
        if pairs or op in ("take", "skip", "shard"):
            self._by_share |= {op}

    def _counting(self, ds: Dataset, counts: Any) -> Dataset:
        """@ds, made of this dataset; without @counts it has all of its elements, or none."""
        if not counts:
            ds._by_share = self._by_share
        return ds

    def _named(self, op: str, inputs: Sequence[Dataset] = ()) -> Dataset:
        """
        This dataset, shown as one operator: what it is made of is not what the user has written.
        """
        self._pipeline = (op, tuple(d._pipeline for d in inputs))
        return self

    def _elements_of(self, value: Any, of: Any) -> Dataset:
        attrs = AttrTable().bytes("spec", _structure.to_json(of))
        if isinstance(value, Symbol):
            return apply_operator("elements_of", attrs=attrs.value("dataset", value))
        ds = apply_operator("elements_of", attrs=attrs.bytes("dataset", value))
        ds._encoded = value
        return ds

    # ---- sources ----

    @staticmethod
    def range(*args: IntLike, output_type: DTypeLike = "int64", name: str | None = None) -> Dataset:
        """Count: range(stop), range(start, stop) or range(start, stop, step).

        Parameters
        ----------
        *args : int or int tensor
            As those of Python's range. `step` must not be 0.
        output_type : dtype_like, default "int64"
            What the elements are.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of scalars.

        Raises
        ------
        ValueError
            More or fewer arguments.

        Examples
        --------
        >>> list(mr.Dataset.range(2, 10, 3))
        [2, 5, 8]
        """
        if not 1 <= len(args) <= 3:
            raise ValueError("Dataset.range takes stop; start, stop; or start, stop, step: got "
                             f"{len(args)} arguments")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        attrs = AttrTable()
        for key, value in (("start", start), ("stop", stop), ("step", step)):
            add_number(attrs, key, value)
        return apply_operator("range", attrs=attrs.dtype("dtype", output_type))

    @staticmethod
    def counter(start: IntLike = 0, step: Any = 1, dtype: DTypeLike = "int64",
                name: str | None = None) -> Dataset:
        """Count without an end: start, start + step, ... up to the limits of int64.

        Parameters
        ----------
        start : int or int tensor, default 0
            The first element.
        step : int or int tensor, default 1
            The distance, which must not be 0.
        dtype : dtype_like, default "int64"
            What the elements are.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of scalars.

        Raises
        ------
        ValueError
            `step` is 0.

        Examples
        --------
        >>> list(mr.Dataset.counter(5, 2).take(3))
        [5, 7, 9]
        """
        limits = np.iinfo(np.int64)
        stop: Any
        if isinstance(step, Symbol):
            stop = where(step > 0, limits.max, limits.min)  # type: ignore[operator]
        elif step == 0:
            raise ValueError("Dataset.counter: step must not be 0")
        else:
            stop = limits.max if step > 0 else limits.min
        return Dataset.range(start, stop, step, output_type=dtype)._named("counter")

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Make a dataset of one element.

        Parameters
        ----------
        tensors : nested tensor_like
            The element.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            With one element.

        Examples
        --------
        >>> list(mr.Dataset.from_tensors([1, 2, 3]))
        [array([1, 2, 3], dtype=int32)]
        """
        leaves, structure = _structure.flatten(tensors)
        attrs = AttrTable().bytes("structure", _structure.to_json(structure))
        if holds_symbols(leaves):
            _add_values(attrs, leaves)
        else:
            attrs.block("tensors", new_block(1, [as_tensor_array(leaf) for leaf in leaves]))
        return apply_operator("from_tensors", attrs=attrs)

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Make one element of each place along the first axis.

        Parameters
        ----------
        tensors : nested tensor_like
            All with a first axis of one size.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            In the structure of `tensors`.

        Raises
        ------
        ValueError
            A tensor is a scalar, or first axes differ in size.

        Examples
        --------
        >>> list(mr.Dataset.from_tensor_slices({"n": [1, 2], "s": ["a", "b"]}))
        [{'n': 1, 's': b'a'}, {'n': 2, 's': b'b'}]
        """
        leaves, structure = _structure.flatten(tensors)
        attrs = AttrTable().bytes("structure", _structure.to_json(structure))
        if holds_symbols(leaves):
            return apply_operator("from_tensor_slices", attrs=_add_values(attrs, leaves))
        arrays = [as_tensor_array(leaf) for leaf in leaves]
        if not arrays:
            raise ValueError("from_tensor_slices needs at least one tensor")
        for array in arrays:
            if array.ndim == 0:
                raise ValueError("from_tensor_slices cuts tensors along their first axis: a scalar "
                                 "has none")
        if len({len(array) for array in arrays}) > 1:
            raise ValueError("from_tensor_slices: the first axes differ: "
                             + ", ".join(str(a.shape) for a in arrays))
        attrs.block("tensors", new_block(len(arrays[0]), arrays, per_row=True))
        return apply_operator("from_tensor_slices", attrs=attrs)

    @staticmethod
    def list_files(file_pattern: Any, shuffle: bool | None = None, seed: IntLike | None = None,
                   name: str | None = None) -> Dataset:
        """List the files that match a pattern, or any of several.

        The pattern is expanded now, here: the names are part of the dataset.

        Parameters
        ----------
        file_pattern : str, path or sequence of them
            As Python's glob; a path is a pattern, too.
        shuffle : bool, optional
            Whether the order is drawn anew in each pass; by default it is. Else they are sorted.
        seed : int, optional
            For the order.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of strings.

        Raises
        ------
        InvalidArgumentError
            No file matches.

        Examples
        --------
        >>> for name in "ab":
        ...     open(name + ".txt", "w").close()
        >>> list(mr.Dataset.list_files("*.txt", shuffle=False))
        [b'a.txt', b'b.txt']
        """
        if isinstance(file_pattern, Symbol):
            raise errors.UnimplementedError("Dataset.list_files inside a function is not built: "
                                            "expand the pattern outside")
        patterns = np.atleast_1d(as_tensor_array(paths(file_pattern))).reshape(-1).tolist()
        if not all(isinstance(p, bytes) for p in patterns):
            raise TypeError(f"file_pattern is a string or several, not {file_pattern!r}")
        files = sorted({f for p in patterns for f in glob.glob(p)})
        if not files:
            shown = ", ".join(repr(p.decode("utf-8", "replace")) for p in patterns)
            raise errors.InvalidArgumentError(f"no files match {shown}")
        ds = Dataset.from_tensor_slices(files)
        if shuffle is None or shuffle:
            ds = ds.shuffle(len(files), seed=seed)
        return ds._named("list_files")

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Put elements of several datasets together, until one of them ends.

        Parameters
        ----------
        *args : Dataset, or one nest of them
            The elements come in the structure in which the datasets are given.
        datasets : nested Dataset, optional
            The same, as the older name of the argument.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of tuples, or what the structure is.

        Raises
        ------
        TypeError
            Something else than datasets was given.

        Examples
        --------
        >>> a, b = mr.Dataset.range(3), mr.Dataset.range(10, 20)
        >>> list(mr.Dataset.zip(a, b))
        [(0, 10), (1, 11), (2, 12)]
        """
        if bool(args) == (datasets is not None):
            raise TypeError("Dataset.zip takes datasets as arguments, or one structure of them as "
                            "`datasets`")
        if datasets is None:
            datasets = args[0] if len(args) == 1 else args
        if isinstance(datasets, list):
            raise TypeError("Dataset.zip takes a tuple or dict of datasets, not a list")
        leaves, structure = _structure.flatten(datasets, lambda node: isinstance(node, Dataset))
        for leaf in leaves:
            if not isinstance(leaf, Dataset):
                raise TypeError(f"Dataset.zip takes datasets, not {type(leaf).__name__}")
        attrs = AttrTable().bytes("structure", _structure.to_json(structure))
        return apply_operator("zip", leaves, attrs)

    @staticmethod
    def choose_from_datasets(datasets: Iterable[Dataset], choice_dataset: Dataset,
                             stop_on_empty_dataset: bool = True) -> Dataset:
        """Take elements of several datasets, as another dataset says.

        Parameters
        ----------
        datasets : iterable of Dataset
            All with elements of one structure and dtypes.
        choice_dataset : Dataset
            Of int64 scalars: the number of the dataset that gives the next element.
        stop_on_empty_dataset : bool, default True
            Whether the end of one is the end of all; else it is left out from then on.

        Returns
        -------
        Dataset
            Of their elements.

        Examples
        --------
        >>> parts = [mr.Dataset.range(3), mr.Dataset.range(10, 13)]
        >>> choice = mr.Dataset.from_tensor_slices(np.array([0, 1, 1, 0]))
        >>> list(mr.Dataset.choose_from_datasets(parts, choice))
        [0, 10, 11, 1]
        """
        parts = _datasets(datasets, "choose_from_datasets")
        if not isinstance(choice_dataset, Dataset):
            raise TypeError(f"choice_dataset is a Dataset, not {type(choice_dataset).__name__}")
        attrs = add_flag(AttrTable(), "stop_on_empty", stop_on_empty_dataset)
        return apply_operator("choose", [choice_dataset, *parts], attrs)._named(
            "choose_from_datasets", parts)

    @staticmethod
    def sample_from_datasets(datasets: Iterable[Dataset], weights: Any = None,
                             seed: IntLike | None = None, stop_on_empty_dataset: bool = False,
                             rerandomize_each_iteration: bool | None = None) -> Dataset:
        """Take elements of several datasets, each from one that is drawn at random.

        Parameters
        ----------
        datasets : iterable of Dataset
            All with elements of one structure and dtypes.
        weights : array_like of float, optional
            How probable each is, up to a factor; by default all are alike.
        seed : int, optional
            For what is drawn.
        stop_on_empty_dataset : bool, default False
            Whether the end of one is the end of all; else it is left out from then on.
        rerandomize_each_iteration : bool, optional
            Whether each pass draws anew, also with a seed.

        Returns
        -------
        Dataset
            Of their elements.

        Raises
        ------
        ValueError
            There are more or fewer weights than datasets.
        UnimplementedError
            `weights` is a dataset.

        Examples
        --------
        >>> parts = [mr.Dataset.range(3), mr.Dataset.range(10, 13)]
        >>> sorted(mr.Dataset.sample_from_datasets(parts, [0.9, 0.1], seed=1))
        [0, 1, 2, 10, 11, 12]
        """
        parts = given = _datasets(datasets, "sample_from_datasets")
        attrs = add_flag(AttrTable(), "stop_on_empty", stop_on_empty_dataset)
        if isinstance(weights, Dataset):
            raise errors.UnimplementedError("sample_from_datasets with a dataset of weights is not "
                                            "built: weights are constants")
        if weights is not None:
            try:
                weights = np.asarray(weights, np.float64).reshape(-1)
            except (TypeError, ValueError):
                raise TypeError("sample_from_datasets: weights are numbers, one for each dataset, "
                                f"not {weights!r}") from None
            if len(weights) != len(parts):
                raise ValueError(f"{len(weights)} weights for {len(parts)} datasets")
            parts = [ds for ds, weight in zip(parts, weights) if weight != 0]
            weights = weights[weights != 0]
            if not parts:
                return given[0].take(0)
            attrs.block("weights", new_block(len(weights), [weights], per_row=True))
        if seed is not None:
            add_number(attrs, "seed", seed)
        if rerandomize_each_iteration is not None:
            add_flag(attrs, "rerandomize_each_iteration", rerandomize_each_iteration)
        return apply_operator("sample", parts, attrs)._named("sample_from_datasets", parts)

    # ---- transformations ----

    def _trace(self, func: Callable[..., Any], what: str) -> tuple[_ffi.FunctionHandle, Any]:
        if not callable(func):
            raise TypeError(f"{what} takes a function, not {type(func).__name__}")
        return trace(self, func, what)

    def _trace_tensors(self, func: Callable[..., Any], what: str) -> _ffi.FunctionHandle:
        """A function that returns a bool."""
        fn, returned = self._trace(func, what)
        if returned is not None:
            raise TypeError(f"the function given to {what} returned a dataset, not a bool")
        return fn

    def _trace_dataset(self, func: Callable[..., Any], what: str) -> _ffi.FunctionHandle:
        fn, returned = self._trace(func, what)
        if returned is None:
            raise TypeError(f"the function given to {what} returns a Dataset")
        return fn

    def _parallel(self, attrs: AttrTable, num_parallel_calls: Any, deterministic: Any) -> AttrTable:
        if num_parallel_calls is not None:
            add_number(attrs, "num_parallel_calls", num_parallel_calls)
            if (not isinstance(num_parallel_calls, Symbol) and num_parallel_calls < 1
                    and num_parallel_calls != AUTOTUNE):
                raise ValueError("num_parallel_calls is at least 1, or mr.AUTOTUNE: got "
                                 f"{num_parallel_calls}")
        if deterministic is None:
            deterministic = self._options.deterministic
        if deterministic is not None:
            add_flag(attrs, "deterministic", deterministic)
        return attrs

    def _leaf_specs(self) -> list[_spec.TensorSpec]:
        return _spec.leaves_of(self._spec_ptr)

    def map(self, map_func: Callable[..., Any], num_parallel_calls: IntLike | None = None,
            deterministic: bool | None = None, synchronous: bool | None = None,
            use_unbounded_threadpool: bool = False, name: str | None = None) -> Dataset:
        """Apply a function to each element.

        Parameters
        ----------
        map_func : callable
            Traced: called once with symbolic tensors, the parts of a tuple as arguments of their
            own. What it returns is the new element.
        num_parallel_calls : int, optional
            How many elements are made at a time; mr.AUTOTUNE: as many as pay. By default one.
        deterministic : bool, optional
            Whether the order of the elements stays; by default as the options say, where it does.
        synchronous, use_unbounded_threadpool : optional
            Accepted and ignored.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of what the function returns.

        Raises
        ------
        TypeError
            The function returned None, or asked a symbolic tensor for its value.
        UnimplementedError
            It returned a dataset: use `flat_map` or `interleave`.

        Examples
        --------
        >>> list(mr.Dataset.range(4).map(lambda x: x * x))
        [0, 1, 4, 9]
        """
        fn, returned = self._trace(map_func, "map")
        if returned is not None:
            raise errors.UnimplementedError("a map function that returns a dataset is not built: "
                                            "use flat_map or interleave")
        attrs = self._parallel(AttrTable(), num_parallel_calls, deterministic)
        return apply_operator("map", [self], attrs, [fn])

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Leave out the elements for which a predicate does not hold.

        Parameters
        ----------
        predicate : callable
            Traced; returns a scalar bool.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the others.

        Examples
        --------
        >>> list(mr.Dataset.range(6).filter(lambda x: x % 2 == 0))
        [0, 2, 4]
        """
        return apply_operator("filter", [self],
                              functions=[self._trace_tensors(predicate, "filter")])

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Dataset:
        """Make a dataset of each element, and put them one behind the other.

        Parameters
        ----------
        map_func : callable
            Traced; returns a Dataset.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the elements of those datasets.

        Examples
        --------
        >>> list(mr.Dataset.range(4).flat_map(lambda n: mr.Dataset.range(n)))
        [0, 0, 1, 0, 1, 2]
        """
        return apply_operator("flat_map", [self],
                              functions=[self._trace_dataset(map_func, "flat_map")])

    def interleave(self, map_func: Callable[..., Any], cycle_length: IntLike | None = None,
                   block_length: IntLike | None = None, num_parallel_calls: IntLike | None = None,
                   deterministic: bool | None = None, name: str | None = None) -> Dataset:
        """Make a dataset of each element, and take turns between several of them.

        Parameters
        ----------
        map_func : callable
            Traced; returns a Dataset.
        cycle_length : int, optional
            How many datasets are open at a time; by default (or mr.AUTOTUNE) the number of CPUs, or
            `num_parallel_calls` if that is given.
        block_length : int, optional
            How many elements each gives in its turn; by default one.
        num_parallel_calls : int, optional
            How many of them are read at a time; mr.AUTOTUNE: as many as pay. By default one.
        deterministic : bool, optional
            Whether the order of the elements is the same in each pass; by default as the options
            say, where it is.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the elements of those datasets.

        Examples
        --------
        >>> ds = mr.Dataset.range(2)
        >>> list(ds.interleave(lambda n: mr.Dataset.range(10 * n, 10 * n + 3), cycle_length=2))
        [0, 10, 1, 11, 2, 12]
        """
        attrs = self._parallel(AttrTable(), num_parallel_calls, deterministic)
        if cycle_length is not None and not (isinstance(cycle_length, int)
                                             and cycle_length == AUTOTUNE):
            add_number(attrs, "cycle_length", cycle_length)
        if block_length is not None:
            add_number(attrs, "block_length", block_length)
        return apply_operator("interleave", [self], attrs,
                              [self._trace_dataset(map_func, "interleave")])

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """Put another dataset behind this one.

        Parameters
        ----------
        dataset : Dataset
            With elements of the same structure and dtypes.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the elements of both.

        Examples
        --------
        >>> list(mr.Dataset.range(2).concatenate(mr.Dataset.range(5, 7)))
        [0, 1, 5, 6]
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(f"concatenate takes a Dataset, not {type(dataset).__name__}")
        return apply_operator("concatenate", [self, dataset])

    def shuffle(self, buffer_size: IntLike, seed: IntLike | None = None,
                reshuffle_each_iteration: bool | None = True, name: str | None = None) -> Dataset:
        """Bring the elements into a random order, drawn from a buffer.

        Parameters
        ----------
        buffer_size : int
            How many elements the buffer holds. mr.UNKNOWN_CARDINALITY: all of them, so that
            ``ds.shuffle(ds.cardinality())`` does what it says.
        seed : int, optional
            For what is drawn.
        reshuffle_each_iteration : bool, default True
            Whether each pass has an order of its own. If not, all passes have one order, which is
            the dataset's where no `seed` is given: the elements of ``ds.take(n)`` are those that
            ``ds.skip(n)`` leaves out.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the same elements.

        Examples
        --------
        >>> sorted(mr.Dataset.range(5).shuffle(5, seed=1))
        [0, 1, 2, 3, 4]
        """
        attrs = add_number(AttrTable(), "buffer_size", buffer_size)
        if seed is not None:
            add_number(attrs, "seed", seed)
        reshuffle = True if reshuffle_each_iteration is None else reshuffle_each_iteration
        return apply_operator("shuffle", [self],
                              add_flag(attrs, "reshuffle_each_iteration", reshuffle))

    def repeat(self, count: IntLike | None = None, name: str | None = None) -> Dataset:
        """Repeat the dataset.

        Parameters
        ----------
        count : int, optional
            How often; for ever by default, and if it is below 0.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the same elements, again and again.

        Examples
        --------
        >>> list(mr.Dataset.range(2).repeat(2))
        [0, 1, 0, 1]
        """
        attrs = AttrTable()
        if count is not None:
            add_number(attrs, "count", count)
        return apply_operator("repeat", [self], attrs)

    def batch(self, batch_size: IntLike, drop_remainder: bool = False,
              num_parallel_calls: IntLike | None = None, deterministic: bool | None = None,
              name: str | None = None) -> Dataset:
        """Group elements, each component stacked along a new first axis.

        Parameters
        ----------
        batch_size : int
            How many elements a group has.
        drop_remainder : bool, default False
            Whether a last group that is smaller is left out.
        num_parallel_calls, deterministic : optional
            Accepted and ignored: batching costs nothing.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of groups.

        Raises
        ------
        InvalidArgumentError
            When it is read: elements of one group differ in shape.

        Examples
        --------
        >>> list(mr.Dataset.range(5).batch(2))
        [array([0, 1]), array([2, 3]), array([4])]
        """
        attrs = add_number(AttrTable(), "batch_size", batch_size)
        return apply_operator("batch", [self], add_flag(attrs, "drop_remainder", drop_remainder))

    def padded_batch(self, batch_size: IntLike, padded_shapes: Any = None,
                     padding_values: Any = None,
                     drop_remainder: bool = False, name: str | None = None) -> Dataset:
        """Group elements, each component padded behind to one shape and stacked.

        Parameters
        ----------
        batch_size : int
            How many elements a group has.
        padded_shapes : shape, or shapes in the structure of the elements, optional
            None or -1 in a shape is the longest of the group. By default those of `element_spec`.
        padding_values : scalar, or scalars in the structure of the elements, optional
            By default 0, or an empty string.
        drop_remainder : bool, default False
            Whether a last group that is smaller is left out.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of groups.

        Raises
        ------
        ValueError
            Shapes or values are not built as the elements are.

        Examples
        --------
        >>> ds = mr.Dataset.range(1, 4).map(lambda n: mr.fill([n], n))
        >>> next(iter(ds.padded_batch(3)))
        array([[1, 0, 0],
               [2, 2, 0],
               [3, 3, 3]])
        """
        return self._padded_batch(batch_size, padded_shapes, padding_values, drop_remainder)

    def _padded_batch(self, batch_size: Any, padded_shapes: Any, padding_values: Any,
                      drop_remainder: bool, unknown: Any = None) -> Dataset:
        """padded_batch(), where unknown dimensions become the tensor @unknown."""
        attrs = add_number(AttrTable(), "batch_size", batch_size)
        specs = self._leaf_specs()
        if padded_shapes is None and unknown is not None:
            padded_shapes = _structure.unflatten(self._structure, [spec.shape for spec in specs])
        if padded_shapes is not None:
            _padding.add_shapes(attrs, self._structure, padded_shapes, unknown)
        if padding_values is not None:
            _padding.add_values(attrs, self._structure, specs, padding_values)
        return apply_operator("padded_batch", [self],
                              add_flag(attrs, "drop_remainder", drop_remainder))

    def window(self, size: IntLike, shift: IntLike | None = None, stride: IntLike = 1,
               drop_remainder: bool = False, name: str | None = None) -> Dataset:
        """Give windows of elements, as datasets.

        Parameters
        ----------
        size : int
            How many elements a window has.
        shift : int, optional
            How many elements further the next one begins; by default `size`.
        stride : int, default 1
            The distance of the elements of a window.
        drop_remainder : bool, default False
            Whether windows that are smaller are left out.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of datasets, one for each component, in the structure of the elements. `flat_map` makes
            tensors of them.

        Examples
        --------
        >>> list(mr.Dataset.range(5).window(3, shift=1, drop_remainder=True).flat_map(
        ...     lambda w: w.batch(3)))
        [array([0, 1, 2]), array([1, 2, 3]), array([2, 3, 4])]
        """
        attrs = add_number(AttrTable(), "size", size)
        if shift is not None:
            add_number(attrs, "shift", shift)
        add_number(attrs, "stride", stride)
        return apply_operator("window", [self], add_flag(attrs, "drop_remainder", drop_remainder))

    def group_by_window(self, key_func: Callable[..., Any], reduce_func: Callable[..., Any],
                        window_size: IntLike | None = None,
                        window_size_func: Callable[..., Any] | None = None,
                        name: str | None = None) -> Dataset:
        """Put elements together by a key, and make a dataset of each group that is full.

        At the end what is left of each group becomes one, too, in the order of the keys.

        Parameters
        ----------
        key_func : callable
            Traced; gives an int64 for an element.
        reduce_func : callable
            Traced; makes a Dataset of a key and the Dataset of the elements of a group.
        window_size : int, optional
            How many elements fill a group.
        window_size_func : callable, optional
            Traced; how many, by the key. One of the two is given.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the elements of those datasets.

        Raises
        ------
        ValueError
            Not exactly one of `window_size` and `window_size_func` was given.

        Examples
        --------
        >>> ds = mr.Dataset.range(6)
        >>> list(ds.group_by_window(lambda x: x % 2, lambda key, group: group.batch(2), 2))
        [array([0, 2]), array([1, 3]), array([4]), array([5])]
        """
        if (window_size is None) == (window_size_func is None):
            raise ValueError("group_by_window takes either window_size or window_size_func")
        functions = _grouping.functions_of(self, key_func, reduce_func, window_size_func)
        attrs = AttrTable()
        if window_size is not None:
            add_number(attrs, "window_size", window_size)
        return apply_operator("group_by_window", [self], attrs, functions)

    def bucket_by_sequence_length(self, element_length_func: Callable[..., Any],
                                  bucket_boundaries: Sequence[int],
                                  bucket_batch_sizes: Sequence[int],
                                  padded_shapes: Any = None, padding_values: Any = None,
                                  pad_to_bucket_boundary: bool = False, no_padding: bool = False,
                                  drop_remainder: bool = False, name: str | None = None) -> Dataset:
        """Group elements of about one length, padded to the longest of each group.

        Parameters
        ----------
        element_length_func : callable
            Traced; gives the length of an element.
        bucket_boundaries : sequence of int
            Increasing: bucket k takes lengths below the k-th of them, the last one all others.
        bucket_batch_sizes : sequence of int
            How many elements a group of each bucket has; one more than boundaries.
        padded_shapes, padding_values : optional
            As those of `padded_batch`.
        pad_to_bucket_boundary : bool, default False
            Pad unknown dimensions to the boundary - 1; a longer element is then an error.
        no_padding : bool, default False
            Stack without padding.
        drop_remainder : bool, default False
            Whether groups that are smaller are left out.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of groups.

        Raises
        ------
        ValueError
            The boundaries do not increase, or the sizes are not one more.

        Examples
        --------
        >>> ds = mr.Dataset.from_tensor_slices([1, 5, 2, 6]).map(lambda n: mr.fill([n], n))
        >>> for x in ds.bucket_by_sequence_length(lambda x: mr.shape(x)[0], [4], [2, 2]):
        ...     print(x)
        [[1 0]
         [2 2]]
        [[5 5 5 5 5 0]
         [6 6 6 6 6 6]]
        """
        bucket_of, size_of, padded_to = _grouping.buckets(
            element_length_func, bucket_boundaries, bucket_batch_sizes, pad_to_bucket_boundary)

        def batch(bucket: Any, group: Dataset) -> Dataset:
            size = size_of(bucket)
            if no_padding:
                return group.batch(size, drop_remainder=drop_remainder)
            return group._padded_batch(size, padded_shapes, padding_values, drop_remainder,
                                       padded_to(bucket))

        return self.group_by_window(bucket_of, batch, window_size_func=size_of)

    def take(self, count: Any, name: str | None = None) -> Dataset:
        """Give the first elements.

        Parameters
        ----------
        count : int
            How many; all if it is below 0.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of at most so many elements.

        Examples
        --------
        >>> list(mr.Dataset.range(10).take(3))
        [0, 1, 2]
        """
        ds = apply_operator("take", [self], add_number(AttrTable(), "count", count))
        return self._counting(ds, isinstance(count, Symbol) or count > 0)

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        """Leave out the first elements.

        Parameters
        ----------
        count : int
            How many; all if it is below 0.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the others.

        Examples
        --------
        >>> list(mr.Dataset.range(5).skip(3))
        [3, 4]
        """
        ds = apply_operator("skip", [self], add_number(AttrTable(), "count", count))
        return self._counting(ds, isinstance(count, Symbol) or count > 0)

    def cache(self, filename: Any = "", name: str | None = None) -> Dataset:
        """Keep the elements of the first complete pass in memory, for the passes after it.

        For all iterators over this object, on a worker for each task. A pass that ends early keeps
        nothing.

        Parameters
        ----------
        filename : str, default ""
            Others are not built.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the same elements.

        Raises
        ------
        UnimplementedError
            `filename` is given.

        Examples
        --------
        >>> ds = mr.Dataset.range(3).shuffle(3).cache()
        >>> list(ds) == list(ds)
        True
        """
        if isinstance(filename, Symbol) or filename not in ("", b""):
            raise errors.UnimplementedError("Dataset.cache in a file is not built: write TFRecord "
                                            "files with mr.io.TFRecordWriter, or keep the elements "
                                            "in memory")
        return apply_operator("cache", [self])

    def scan(self, initial_state: Any, scan_func: Callable[..., Any],
             name: str | None = None) -> Dataset:
        """Hand a state from element to element.

        Parameters
        ----------
        initial_state : nested tensor_like
            The state at first. Its structure and dtypes stay.
        scan_func : callable
            Traced; (state, element) -> (next state, what is given for the element).
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of what the function gives.

        Raises
        ------
        TypeError
            The function returns something else, or changes structure or dtypes of the state.

        Examples
        --------
        >>> list(mr.Dataset.range(5).scan(np.int64(0), lambda sum, x: (sum + x, sum + x)))
        [0, 1, 3, 6, 10]
        """
        attrs, fn = _scanning.scan_arguments(self, initial_state, scan_func)
        return apply_operator("scan", [self], attrs, [fn])

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any],
               name: str | None = None) -> Any:
        """Read all elements now, and give the state after them.

        Parameters
        ----------
        initial_state : nested tensor_like
            The state at first. Its structure and dtypes stay.
        reduce_func : callable
            Traced; (state, element) -> next state.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        nested numpy.ndarray
            The last state.

        Examples
        --------
        >>> mr.Dataset.range(5).reduce(np.int64(0), lambda sum, x: sum + x)
        10
        """
        last, both = _scanning.reduction(initial_state, reduce_func)
        for last in self.scan(initial_state, both):
            pass
        return last

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """End before the first element for which a predicate does not hold.

        Parameters
        ----------
        predicate : callable
            Traced; returns a scalar bool.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the elements before it.

        Examples
        --------
        >>> list(mr.Dataset.range(10).take_while(lambda x: x < 3))
        [0, 1, 2]
        """
        fn = self._trace_tensors(predicate, "take_while")
        return apply_operator("take_while", [self], functions=[fn])

    def unbatch(self, name: str | None = None) -> Dataset:
        """Cut each element along its first axis into elements.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the pieces.

        Raises
        ------
        InvalidArgumentError
            A component is a scalar, or first axes differ in size.

        Examples
        --------
        >>> list(mr.Dataset.range(5).batch(3).unbatch())
        [0, 1, 2, 3, 4]
        """
        return apply_operator("unbatch", [self])

    def rebatch(self, batch_size: Any, drop_remainder: bool = False,
                name: str | None = None) -> Dataset:
        """Make batches of another size: ``unbatch().batch(batch_size)``.

        Parameters
        ----------
        batch_size : int
            How many elements a batch has.
        drop_remainder : bool, default False
            Whether a last batch that is smaller is left out.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of batches.

        Raises
        ------
        UnimplementedError
            `batch_size` is several sizes.

        Examples
        --------
        >>> list(mr.Dataset.range(6).batch(2).rebatch(3))
        [array([0, 1, 2]), array([3, 4, 5])]
        """
        if not isinstance(batch_size, Symbol):
            if np.ndim(batch_size) != 0:
                raise errors.UnimplementedError("Dataset.rebatch with several sizes is not built: "
                                                "give one")
            if not drop_remainder:  # whole batches of whole batches leave no remainder
                drop_remainder = _divides(batch_size, [spec.shape for spec in self._leaf_specs()])
        return self.unbatch().batch(batch_size, drop_remainder=drop_remainder)

    def unique(self, name: str | None = None) -> Dataset:
        """Leave out elements that came before. What was seen is kept in memory.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the first of equal elements, which are scalars of int32, int64 or string.

        Raises
        ------
        InvalidArgumentError
            The elements are something else.

        Examples
        --------
        >>> list(mr.Dataset.from_tensor_slices([3, 1, 3, 2, 1]).unique())
        [3, 1, 2]
        """
        return apply_operator("unique", [self])

    def shard(self, num_shards: Any, index: IntLike, name: str | None = None) -> Dataset:
        """Give every n-th element.

        Parameters
        ----------
        num_shards : int
            The distance.
        index : int
            The number of the first one, below `num_shards`.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of those elements.

        Examples
        --------
        >>> list(mr.Dataset.range(7).shard(3, 1))
        [1, 4]
        """
        attrs = add_number(add_number(AttrTable(), "num_shards", num_shards), "index", index)
        ds = apply_operator("shard", [self], attrs)
        return self._counting(ds, isinstance(num_shards, Symbol) or num_shards > 1)

    def enumerate(self, start: IntLike = 0, name: str | None = None) -> Dataset:
        """Number the elements.

        Under DYNAMIC sharding each worker numbers what it makes. Where nothing but map, zip and
        concatenate stands between the sources and this, numbers are those of the whole dataset.

        Parameters
        ----------
        start : int, default 0
            The first number.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of pairs: an int64 and the element.

        Examples
        --------
        >>> list(mr.Dataset.from_tensor_slices(["a", "b"]).enumerate(start=1))
        [(1, b'a'), (2, b'b')]
        """
        attrs = add_number(AttrTable(), "start", start).int("stop", np.iinfo(np.int64).max)
        numbers = apply_operator("range", attrs=attrs.int("step", 1).bool("whole", True))
        ds = Dataset.zip((numbers, self))
        ds._by_share = self._by_share  # any number goes with any element
        return ds._named("enumerate", [self])

    def prefetch(self, buffer_size: IntLike | None, name: str | None = None) -> Dataset:
        """Make elements ahead of need.

        Parameters
        ----------
        buffer_size : int or None
            How many at most; mr.AUTOTUNE or None: as many as pay.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the same elements.

        Examples
        --------
        >>> list(mr.Dataset.range(3).prefetch(mr.AUTOTUNE))
        [0, 1, 2]
        """
        attrs = AttrTable()
        if buffer_size is not None:
            add_number(attrs, "buffer_size", buffer_size)
        return apply_operator("prefetch", [self], attrs)

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Dataset:
        """Leave out the elements that cannot be made.

        Memory that runs out, and a service that cannot be reached, are no faults of an element and
        are raised as ever.

        Parameters
        ----------
        log_warning : bool, default False
            Whether each one that is left out is a line on stderr.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the others.

        Examples
        --------
        >>> ds = mr.Dataset.from_tensor_slices(["1", "two", "3"]).map(mr.strings.to_number)
        >>> list(ds.ignore_errors())
        [1.0, 3.0]
        """
        attrs = add_flag(AttrTable(), "log_warning", log_warning)
        return apply_operator("ignore_errors", [self], attrs)

    def apply(self, transformation_func: Callable[[Dataset], Dataset],
              name: str | None = None) -> Dataset:
        """Apply a function to the dataset itself, such as what mr.service.distribute() gives.

        Parameters
        ----------
        transformation_func : callable
            Dataset -> Dataset.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            What the function returns.

        Raises
        ------
        TypeError
            That is no Dataset.

        Examples
        --------
        >>> list(mr.Dataset.range(5).apply(lambda ds: ds.skip(1).take(2)))
        [1, 2]
        """
        ds = transformation_func(self)
        if not isinstance(ds, Dataset):
            raise TypeError(f"the transformation given to apply returned {type(ds).__name__}, not "
                            "a Dataset")
        return ds

    # ---- options ----

    def options(self) -> Options:
        """Return the options of this dataset and its inputs.

        Returns
        -------
        Options
            New ones: to change them changes no dataset.

        Examples
        --------
        >>> mr.Dataset.range(3).options()
        Options()
        """
        return Options().merge(self._options)

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """Set options.

        Parameters
        ----------
        options : Options
            What is set in it goes before what was set before.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the same elements.

        Examples
        --------
        >>> options = mr.Options()
        >>> options.autotune.cpu_budget = 1
        >>> list(mr.Dataset.range(3).with_options(options))
        [0, 1, 2]
        """
        if not isinstance(options, Options):
            raise TypeError(f"with_options takes mr.Options, not {type(options).__name__}")
        ds = Dataset(self._handle, self._options.merge(options))
        ds._one_source, ds._by_share = self._one_source, self._by_share
        ds._pipeline = self._pipeline
        return ds

    # ---- what it is ----

    @property
    def element_spec(self) -> Any:
        """What the elements are: mr.TensorSpec in their structure."""
        return _spec.element_spec_of(self._spec_ptr)

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
            raise TypeError("the dataset is infinite")
        if n == UNKNOWN_CARDINALITY:
            raise TypeError("the length of the dataset is unknown")
        return n

    def __bool__(self) -> bool:
        return True

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
        return (f"<millrace.Dataset {render(self._pipeline)}, element spec {self.element_spec}, "
                f"cardinality {self._size()}>")

    def _repr_html_(self) -> str:
        """A table for notebooks: how it is made, what it gives, where it reads from."""
        rows = {"pipeline": render(self._pipeline), "element spec": repr(self.element_spec),
                "cardinality": self._size()}
        if self._options != Options():
            rows["options"] = repr(self._options)
        if self._handle.services:
            rows["reads from"] = ", ".join(sorted(self._handle.services))
        return html_table("Dataset", rows)

    # ---- reading ----

    def __iter__(self) -> NumpyIterator:
        if current_graph() is not None:
            raise TypeError("a dataset cannot be iterated inside a traced function: use flat_map "
                            "or interleave")
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
            raise TypeError(f"as_numpy_iterator: the elements hold datasets, {self.element_spec}: "
                            "make tensors of them in flat_map, or use `for`")
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
            raise errors.InvalidArgumentError("the dataset is empty" if not found
                                              else "the dataset has more than one element")
        return found[0]

    # ---- as bytes ----

    def _serialize(self) -> bytes:
        ptr, size, err = ctypes.c_void_p(), ctypes.c_size_t(), _ffi.Error()
        check(lib.mr_dataset_serialize(self._handle.ptr, byref(ptr), byref(size), byref(err)), err)
        return _ffi.take_bytes(ptr, size.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _parse, (self._serialize(), self._options, render(self._pipeline))

    # ---- not built ----

    ragged_batch = absent("ragged_batch", "use padded_batch", "Dataset.")
    rejection_resample = absent("rejection_resample",
                                "filter by class and concatenate, or choose outside",
                                "Dataset.")
    save = absent("save", "write TFRecord files with mr.io.TFRecordWriter", "Dataset.")
    snapshot = absent("snapshot", "write TFRecord files with mr.io.TFRecordWriter", "Dataset.")
    sparse_batch = absent("sparse_batch", "there are no sparse tensors yet", "Dataset.")
    from_generator = staticmethod(absent("from_generator", "use from_tensor_slices, or files",
                                         "Dataset."))
    load = staticmethod(absent("load", "read TFRecord files with mr.TFRecordDataset", "Dataset."))
    random = staticmethod(absent("random", "shuffle a range", "Dataset."))


def _parse(definition: bytes, options: Options | None = None, pipeline: str = "?") -> Dataset:
    """The inverse of Dataset._serialize(); also what pickles call."""
    ret, err = ctypes.c_void_p(), _ffi.Error()
    check(lib.mr_dataset_parse(definition, len(definition), byref(ret), byref(err)), err)
    ds = Dataset(_ffi.DatasetHandle(ret), options)
    ds._pipeline = (pipeline, ())
    return ds
