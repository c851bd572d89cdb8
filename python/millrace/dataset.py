"""Dataset: tf.data's names, arguments and defaults over the library's operators."""

from __future__ import annotations

import ctypes
import glob
from typing import Any, Callable, Iterable, Sequence

import numpy as np

from . import errors
from ._capi import ffi as _ffi
from ._capi.ffi import byref, check, lib
from ._data import structure as _structure
from ._data.block import Array, as_tensor_array, new_block, tensor_arrays
from ._data.composite import sizes_of
from ._datasets.arguments import AUTOTUNE as AUTOTUNE, IntLike as IntLike, add_flag, add_number
from ._datasets.arguments import paths
from ._datasets.batches import Batches
from ._datasets.composites import has_composites
from ._datasets.order import Order
from ._datasets.pipeline import render
from ._datasets.reading import INFINITE_CARDINALITY as INFINITE_CARDINALITY
from ._datasets.reading import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY
from ._datasets.resampling import resample
from ._datasets.saving import Saving, load
from ._graph.attrs import AttrTable
from ._graph.symbol import Symbol, current_graph, holds_symbols
from ._ops.absent import absent
from ._ops.arrays import where
from ._ops.draws import numbers, seed_of
from .dtypes import DTypeLike
from .options import Options


def _datasets(datasets: Iterable[Any], what: str) -> list[Dataset]:
    datasets = list(datasets)
    if not datasets:
        raise ValueError(f"{what} takes at least one dataset")
    for ds in datasets:
        if not isinstance(ds, Dataset):
            raise TypeError(f"{what} takes datasets, not {type(ds).__name__}")
    return datasets


def _tensors(what: str, leaves: Sequence[Any], structure: _structure.Structure) -> list[Array]:
    """The arrays that a dataset is made of."""
    for leaf in leaves:
        inner = leaf[0] if isinstance(leaf, list) and leaf else leaf
        if isinstance(inner, Dataset):
            raise errors.UnimplementedError(
                f"{what}: datasets as values are not supported: use Dataset.concatenate, "
                "choose_from_datasets, sample_from_datasets or zip, or make each in a flat_map"
            )
    return tensor_arrays(what, leaves, _structure.places(structure))


def _one_structure(what: str, name: Any) -> None:
    """TypeError if @name is a second tensor."""
    if name is not None and not isinstance(name, str):
        raise TypeError(
            f"{what} takes one structure: {what}((x, y)), or {what}({{'x': x, 'y': y}})"
        )


def _add_values(attrs: AttrTable, leaves: Sequence[Any]) -> AttrTable:
    """Components of which some are symbolic."""
    graph = current_graph()
    for i, leaf in enumerate(leaves):
        attrs.value(f"value{i}", graph.convert(leaf) if graph else leaf)
    return attrs


class Dataset(Saving, Batches, Order):
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
            raise ValueError(
                "Dataset.range takes stop; start, stop; or start, stop, step: got "
                f"{len(args)} arguments"
            )
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        attrs = AttrTable()
        for key, value in (("start", start), ("stop", stop), ("step", step)):
            add_number(attrs, key, value)
        return Dataset._of("range", attrs=attrs.dtype("dtype", output_type))

    @staticmethod
    def counter(
        start: IntLike = 0, step: Any = 1, dtype: DTypeLike = "int64", name: str | None = None
    ) -> Dataset:
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
        _one_structure("from_tensors", name)
        leaves, structure = _structure.flatten(tensors)
        attrs = AttrTable().bytes("structure", _structure.to_json(structure))
        if holds_symbols(leaves):
            _add_values(attrs, leaves)
        else:
            attrs.block("tensors", new_block(1, _tensors("from_tensors", leaves, structure)))
        ds = Dataset._of("from_tensors", attrs=attrs)
        if has_composites(structure):
            ds._sizes = sizes_of(tensors)
        return ds

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
        _one_structure("from_tensor_slices", name)
        leaves, structure = _structure.flatten(tensors)
        if has_composites(structure):
            return Dataset.from_tensors(tensors).unbatch()
        attrs = AttrTable().bytes("structure", _structure.to_json(structure))
        if holds_symbols(leaves):
            return Dataset._of("from_tensor_slices", attrs=_add_values(attrs, leaves))
        arrays = _tensors("from_tensor_slices", leaves, structure)
        if not arrays:
            raise ValueError("from_tensor_slices needs at least one tensor")
        for array in arrays:
            if array.ndim == 0:
                raise ValueError(
                    "from_tensor_slices cuts tensors along their first axis: a scalar has none"
                )
        if len({len(array) for array in arrays}) > 1:
            raise ValueError(
                "from_tensor_slices: the first axes differ: "
                + ", ".join(str(a.shape) for a in arrays)
            )
        attrs.block("tensors", new_block(len(arrays[0]), arrays, per_row=True))
        return Dataset._of("from_tensor_slices", attrs=attrs)

    @staticmethod
    def list_files(
        file_pattern: Any,
        shuffle: bool | None = None,
        seed: IntLike | None = None,
        name: str | None = None,
    ) -> Dataset:
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
            raise errors.UnimplementedError(
                "Dataset.list_files inside a function is not "
                "supported: expand the pattern outside"
            )
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
            raise TypeError(
                "Dataset.zip takes datasets as arguments, or one structure of them as " "`datasets`"
            )
        if datasets is None:
            datasets = args[0] if len(args) == 1 else args
        if isinstance(datasets, list):
            raise TypeError("Dataset.zip takes a tuple or dict of datasets, not a list")
        leaves, structure = _structure.flatten(datasets, lambda node: isinstance(node, Dataset))
        for leaf in leaves:
            if not isinstance(leaf, Dataset):
                raise TypeError(
                    f"Dataset.zip takes datasets, not {type(leaf).__name__}: "
                    "Dataset.from_tensor_slices makes one of an array"
                )
        attrs = AttrTable().bytes("structure", _structure.to_json(structure))
        return Dataset._of("zip", leaves, attrs)

    @staticmethod
    def choose_from_datasets(
        datasets: Iterable[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
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
        return Dataset._of("choose", [choice_dataset, *parts], attrs)._named(
            "choose_from_datasets", parts
        )

    @staticmethod
    def sample_from_datasets(
        datasets: Iterable[Dataset],
        weights: Any = None,
        seed: IntLike | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
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
            raise errors.UnimplementedError(
                "sample_from_datasets with a dataset of weights is not "
                "built: weights are constants"
            )
        if weights is not None:
            try:
                weights = np.asarray(weights, np.float64).reshape(-1)
            except (TypeError, ValueError):
                raise TypeError(
                    "sample_from_datasets: weights are numbers, one for each dataset, "
                    f"not {weights!r}"
                ) from None
            if len(weights) != len(parts):
                raise ValueError(f"{len(weights)} weights for {len(parts)} datasets")
            parts = [ds for ds, weight in zip(parts, weights) if weight != 0]
            weights = weights[weights != 0]
            if not parts:
                return given[0].take(0)
            attrs.block("weights", new_block(len(weights), [weights], per_row=True))
        seed = seed_of(seed)
        if seed is not None:
            add_number(attrs, "seed", seed)
        if rerandomize_each_iteration is not None:
            add_flag(attrs, "rerandomize_each_iteration", rerandomize_each_iteration)
        return Dataset._of("sample", parts, attrs)._named("sample_from_datasets", parts)

    @staticmethod
    def random(
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Draw numbers for ever.

        Parameters
        ----------
        seed : int, optional
            For what is drawn; combined with that of mr.random.set_seed. Without either it is 0, or
            another one each time if the numbers are to differ.
        rerandomize_each_iteration : bool, optional
            Whether each pass has numbers of its own; by default all have the same.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of int64 scalars in [0, 2**32), without end.

        Examples
        --------
        >>> a = list(mr.Dataset.random(seed=4).take(2))
        >>> a == list(mr.Dataset.random(seed=4).take(2))
        True
        """
        again = bool(rerandomize_each_iteration)
        seed = seed_of(seed)
        if seed is None and not again:
            seed = 0
        drawn = Dataset.counter().map(lambda _: numbers(2**32, seed, again))
        return drawn._named("random", [])

    @staticmethod
    def load(
        path: Any,
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[..., Any] | None = None,
        wait: bool = False,
    ) -> Dataset:
        """Read what `save` has written.

        What it is, is looked up now, here; the files are read when elements are. They are the
        splits that a service hands out under DYNAMIC sharding; workers need to see them.

        Parameters
        ----------
        path : str or path
            The directory.
        element_spec : nested TensorSpec, optional
            What the elements are; by default as they were saved.
        compression : str, optional
            Any that `save` knows. The files say which it is.
        reader_func : callable, optional
            From a dataset of datasets, one a shard, to the dataset that is to be read, such as
            ``lambda shards: shards.shuffle(16).interleave(lambda shard: shard)``. By default shards
            take turns of an element, 16 at a time.
        wait : bool, default False
            Whether to wait for what is not there yet.

        Returns
        -------
        Dataset
            Of the elements; their number is known without a `reader_func`.

        Raises
        ------
        NotFoundError
            Nothing is saved there.
        DataLossError
            The manifest is damaged. When elements are read: a file is; the error names it, and what
            stands behind it is read after that (`ignore_errors`).
        UnimplementedError
            It was written by a later version.
        InvalidArgumentError
            The elements are not what `element_spec` says.

        Examples
        --------
        >>> mr.Dataset.range(6).save("shards", shard_func=lambda x: x % 2)
        >>> list(mr.Dataset.load("shards", reader_func=lambda shards: shards.flat_map(lambda x: x)))
        [0, 2, 4, 1, 3, 5]
        """
        return load(Dataset, path, element_spec, compression, reader_func, wait)

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Leave elements out at random, so that classes become as frequent as they should be.

        As ``tf.data.Dataset.rejection_resample``, in one pass over the elements.

        Parameters
        ----------
        class_func : callable
            Traced: from an element to its class, an int scalar in [0, number of classes).
        target_dist : tensor_like of float
            [classes]: how frequent each is to become.
        initial_dist : tensor_like of float, optional
            [classes]: how frequent each is. By default that is estimated as elements come by.
        seed : int, optional
            For what is drawn; combined with that of mr.random.set_seed.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of pairs (class, element).

        Examples
        --------
        >>> ds = mr.Dataset.range(100).rejection_resample(
        ...     lambda x: mr.cast(x % 10 == 0, mr.int32), [0.5, 0.5], [0.9, 0.1], seed=3)
        >>> 10 < len(list(ds)) < 40
        True
        """
        ds: Dataset = resample(self, class_func, target_dist, initial_dist, seed_of(seed))
        return ds

    # ---- whole datasets ----

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
        numbers = Dataset._of("range", attrs=attrs.int("step", 1).bool("whole", True))
        ds = Dataset.zip((numbers, self))
        ds._by_share = self._by_share  # any number goes with any element
        return ds._named("enumerate", [self])

    def apply(
        self, transformation_func: Callable[[Dataset], Dataset], name: str | None = None
    ) -> Dataset:
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
            raise TypeError(
                f"the transformation given to apply returned {type(ds).__name__}, not " "a Dataset"
            )
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

    # ---- as bytes ----

    def _serialize(self) -> bytes:
        ptr, size, err = ctypes.c_void_p(), ctypes.c_size_t(), _ffi.Error()
        check(lib.mr_dataset_serialize(self._handle.ptr, byref(ptr), byref(size), byref(err)), err)
        return _ffi.take_bytes(ptr, size.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _parse, (self._serialize(), self._options, render(self._pipeline))

    # ---- not supported ----

    from_generator = staticmethod(
        absent(
            "from_generator",
            "Python functions do not run in pipelines yet. Use from_tensor_slices or "
            "mr.experimental.from_list for what fits in memory, and files for what does not",
            "Dataset.",
        )
    )


def _parse(definition: bytes, options: Options | None = None, pipeline: str = "?") -> Dataset:
    """The inverse of Dataset._serialize(); also what pickles call."""
    ret, err = ctypes.c_void_p(), _ffi.Error()
    check(lib.mr_dataset_parse(definition, len(definition), byref(ret), byref(err)), err)
    ds = Dataset(_ffi.DatasetHandle(ret), options)
    ds._pipeline = (pipeline, ())
    return ds
