"""Dataset: tf.data's names, arguments and defaults over the library's operators."""

import ctypes
import glob
import itertools
import os

import numpy as np

from . import _ffi, _grouping, _padding, _scanning, _spec, _structure, errors
from ._block import as_tensor_array, new_block
from ._ffi import byref, check, lib
from ._iterator import NumpyIterator
from ._ops import where
from ._tensor import AttrTable, Tensor, _holds_tensors, current_graph, trace
from .options import Options

AUTOTUNE = -1
INFINITE_CARDINALITY = _ffi.CARDINALITY_INFINITE
UNKNOWN_CARDINALITY = _ffi.CARDINALITY_UNKNOWN


def _number(attrs, name, value):
    """An integer argument: a constant, or a value of the function around."""
    if isinstance(value, Tensor):
        return attrs.value(name, value)
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is an integer or an integer tensor, not {type(value).__name__} ({value!r})")
    number = value.__index__()
    if not -2**63 <= number < 2**63:
        raise ValueError(f"{name} = {number} does not fit int64")
    return attrs.int(name, number)


def _bytes(attrs, name, value):
    """A string argument: a constant, or a value of the function around."""
    if isinstance(value, Tensor):
        return attrs.value(name, value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"{name} is a string or a string tensor, not {type(value).__name__} ({value!r})")
    return attrs.bytes(name, value)


def _flag(attrs, name, value):
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is True or False, not {value!r}")
    return attrs.bool(name, value)


def _apply(op, inputs=(), attrs=None, functions=(), options=None, service=None):
    """Dataset operator @op of the library, as a Dataset. @service: the target of the one that it reads from."""
    table, count = (attrs or AttrTable()).as_array()
    graph = current_graph()
    ret, err = ctypes.c_void_p(), _ffi.Error()
    check(lib.mr_dataset_apply(op.encode(), _ffi.pointer_array([d._handle for d in inputs]), len(inputs), table, count,
                               _ffi.pointer_array(functions), len(functions), graph.ptr if graph else None, byref(ret),
                               byref(err)), err)
    if options is None:
        options = Options()
        for ds in inputs:
            options = options.merge(ds._options)
    ds = Dataset(_ffi.DatasetHandle(ret), options)
    ds._handle.services = frozenset() if service is None else frozenset({service})
    for part in (*(d._handle for d in inputs), *functions):
        ds._handle.services |= part.services
    ds._note_sharding(op, inputs)
    return ds


# What DYNAMIC sharding hands out as one: pairs stay together.
_ONE_SOURCE = {"range", "from_tensors", "from_tensor_slices", "map", "zip", "concatenate"}


def _datasets(datasets, what):
    datasets = list(datasets)
    if not datasets:
        raise ValueError(f"{what} takes at least one dataset")
    for ds in datasets:
        if not isinstance(ds, Dataset):
            raise TypeError(f"{what} takes datasets, not {type(ds).__name__}")
    return datasets


def _divides(batch_size, shapes):
    """Whether the first axis of elements of @shapes is known, and a multiple of @batch_size."""
    rows = next((shape[0] for shape in shapes if shape.rank and shape[0] is not None), None)
    return rows is not None and batch_size > 0 and rows % batch_size == 0


def _absent(name, instead):
    """A method of tf.data.Dataset that is not built: using it says so, and what to use."""
    def method(*args, **kwargs):
        raise errors.UnimplementedError(f"Dataset.{name} is not built: {instead}")
    method.__name__ = name
    method.__qualname__ = f"Dataset.{name}"
    method.__doc__ = f"Not built: {instead}"
    method._absent = True
    return method


def _paths(value):
    """@value, with what os.fspath() makes of the paths in it."""
    if isinstance(value, (list, tuple)):
        return [_paths(v) for v in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


class Dataset:
    """
    A sequence of elements and how it is made; immutable. Without a service it runs here, in the C engine; with
    `ds.apply(mr.service.distribute(...))` what stands before runs on the service's workers.
    """

    def __init__(self, handle, options=None):
        if not isinstance(handle, _ffi.DatasetHandle):
            raise TypeError("a Dataset is made by its static methods: Dataset.range(), from_tensors(), TFRecordDataset(), ...")
        self._handle = handle
        self._options = options if options is not None else Options()
        self._one_source = False
        self._by_share = frozenset()  # operators below that mean something else when each worker has a share of the sources
        self._structure = _spec.structure_of(lib.mr_dataset_spec(handle.ptr))

    def _note_sharding(self, op, inputs):
        self._one_source = op in _ONE_SOURCE and all(ds._one_source for ds in inputs)
        self._by_share = frozenset().union(*(ds._by_share for ds in inputs))
        if op in ("take", "skip", "shard") or op == "zip" and len(inputs) > 1 and not self._one_source:
            self._by_share |= {op}

    def _counting(self, ds, counts):
        """@ds, made of this dataset; without @counts it has all of its elements, or none."""
        if not counts:
            ds._by_share = self._by_share
        return ds

    # ---- sources ----

    @staticmethod
    def range(*args, output_type="int64", name=None):
        """range(stop), range(start, stop) or range(start, stop, step), as scalars of @output_type."""
        if not 1 <= len(args) <= 3:
            raise ValueError(f"Dataset.range takes stop; start, stop; or start, stop, step: got {len(args)} arguments")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (args + (1,))[:3]
        attrs = AttrTable()
        for key, value in (("start", start), ("stop", stop), ("step", step)):
            _number(attrs, key, value)
        return _apply("range", attrs=attrs.dtype("dtype", output_type))

    @staticmethod
    def counter(start=0, step=1, dtype="int64", name=None):
        """start, start + step, ... up to the limits of int64."""
        limits = np.iinfo(np.int64)
        if isinstance(step, Tensor):
            stop = where(step > 0, limits.max, limits.min)
        elif step == 0:
            raise ValueError("Dataset.counter: step is not 0")
        else:
            stop = limits.max if step > 0 else limits.min
        return Dataset.range(start, stop, step, output_type=dtype)

    @staticmethod
    def from_tensors(tensors, name=None):
        """A dataset of one element."""
        leaves, structure = _structure.flatten(tensors)
        attrs = AttrTable().bytes("structure", _structure.to_json(structure))
        if _holds_tensors(leaves):
            for i, leaf in enumerate(leaves):
                attrs.value(f"value{i}", current_graph().convert(leaf) if current_graph() else leaf)
        else:
            attrs.block("tensors", new_block(1, [as_tensor_array(leaf) for leaf in leaves]))
        return _apply("from_tensors", attrs=attrs)

    @staticmethod
    def from_tensor_slices(tensors, name=None):
        """One element for each place along the first axis of @tensors."""
        leaves, structure = _structure.flatten(tensors)
        attrs = AttrTable().bytes("structure", _structure.to_json(structure))
        if _holds_tensors(leaves):
            for i, leaf in enumerate(leaves):
                attrs.value(f"value{i}", current_graph().convert(leaf) if current_graph() else leaf)
            return _apply("from_tensor_slices", attrs=attrs)
        arrays = [as_tensor_array(leaf) for leaf in leaves]
        if not arrays:
            raise ValueError("from_tensor_slices needs at least one tensor")
        for array in arrays:
            if array.ndim == 0:
                raise ValueError("from_tensor_slices cuts tensors along their first axis: a scalar has none")
        if len({len(array) for array in arrays}) > 1:
            raise ValueError("from_tensor_slices: the first axes differ: " + ", ".join(str(a.shape) for a in arrays))
        attrs.block("tensors", new_block(len(arrays[0]), arrays, per_row=True))
        return _apply("from_tensor_slices", attrs=attrs)

    @staticmethod
    def list_files(file_pattern, shuffle=None, seed=None, name=None):
        """
        The files that match a pattern (or any of several), as strings; a path is a pattern, too. The pattern is expanded
        now, here: the names are part of the dataset. Shuffled anew in each pass unless shuffle=False.
        """
        if isinstance(file_pattern, Tensor):
            raise errors.UnimplementedError("Dataset.list_files inside a function is not built: expand the pattern outside")
        patterns = np.atleast_1d(as_tensor_array(_paths(file_pattern))).reshape(-1).tolist()
        if not all(isinstance(p, bytes) for p in patterns):
            raise TypeError(f"file_pattern is a string or several, not {file_pattern!r}")
        files = sorted({f for p in patterns for f in glob.glob(p)})
        if not files:
            shown = ", ".join(repr(p.decode("utf-8", "replace")) for p in patterns)
            raise errors.InvalidArgumentError(f"no files match {shown}")
        ds = Dataset.from_tensor_slices(files)
        return ds if shuffle is not None and not shuffle else ds.shuffle(len(files), seed=seed)

    @staticmethod
    def zip(*args, datasets=None, name=None):
        """Elements of several datasets together, in the structure in which the datasets are given."""
        if bool(args) == (datasets is not None):
            raise TypeError("Dataset.zip takes datasets as arguments, or one structure of them as `datasets`")
        if datasets is None:
            datasets = args[0] if len(args) == 1 else args
        if isinstance(datasets, list):
            raise TypeError("Dataset.zip takes a tuple or dict of datasets, not a list")
        leaves, structure = _structure.flatten(datasets, lambda node: isinstance(node, Dataset))
        for leaf in leaves:
            if not isinstance(leaf, Dataset):
                raise TypeError(f"Dataset.zip takes datasets, not {type(leaf).__name__}")
        return _apply("zip", leaves, AttrTable().bytes("structure", _structure.to_json(structure)))

    @staticmethod
    def choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset=True):
        """Elements of several datasets, from the one whose number @choice_dataset gives (int64 scalars) in turn."""
        datasets = _datasets(datasets, "choose_from_datasets")
        if not isinstance(choice_dataset, Dataset):
            raise TypeError(f"choice_dataset is a Dataset, not {type(choice_dataset).__name__}")
        return _apply("choose", [choice_dataset, *datasets], _flag(AttrTable(), "stop_on_empty", stop_on_empty_dataset))

    @staticmethod
    def sample_from_datasets(datasets, weights=None, seed=None, stop_on_empty_dataset=False,
                             rerandomize_each_iteration=None):
        """Elements of several datasets, each from one drawn at random, with probabilities as @weights."""
        datasets = _datasets(datasets, "sample_from_datasets")
        attrs = _flag(AttrTable(), "stop_on_empty", stop_on_empty_dataset)
        if isinstance(weights, Dataset):
            raise errors.UnimplementedError("sample_from_datasets with a dataset of weights is not built: weights are constants")
        if weights is not None:
            try:
                weights = np.asarray(weights, np.float64).reshape(-1)
            except (TypeError, ValueError):
                raise TypeError(f"sample_from_datasets: weights are numbers, one for each dataset, not {weights!r}") from None
            if len(weights) != len(datasets):
                raise ValueError(f"{len(weights)} weights for {len(datasets)} datasets")
            first = datasets[0]
            datasets = [ds for ds, weight in zip(datasets, weights) if weight != 0]
            weights = weights[weights != 0]
            if not datasets:
                return first.take(0)
            attrs.block("weights", new_block(len(weights), [weights], per_row=True))
        if seed is not None:
            _number(attrs, "seed", seed)
        if rerandomize_each_iteration is not None:
            _flag(attrs, "rerandomize_each_iteration", rerandomize_each_iteration)
        return _apply("sample", datasets, attrs)

    # ---- transformations ----

    def _trace(self, func, what):
        if not callable(func):
            raise TypeError(f"{what} takes a function, not {type(func).__name__}")
        return trace(func, lib.mr_dataset_spec(self._handle.ptr), self._structure, what)

    def _parallel(self, attrs, num_parallel_calls, deterministic):
        if num_parallel_calls is not None:
            _number(attrs, "num_parallel_calls", num_parallel_calls)
            if not isinstance(num_parallel_calls, Tensor) and num_parallel_calls < 1 and num_parallel_calls != AUTOTUNE:
                raise ValueError(f"num_parallel_calls is at least 1, or mr.AUTOTUNE: got {num_parallel_calls}")
        if deterministic is None:
            deterministic = self._options.deterministic
        if deterministic is not None:
            _flag(attrs, "deterministic", deterministic)
        return attrs

    def map(self, map_func, num_parallel_calls=None, deterministic=None, synchronous=None,
            use_unbounded_threadpool=False, name=None):
        """@map_func of each element. It is traced: called once with symbolic tensors."""
        fn, returned = self._trace(map_func, "map")
        if returned is not None:
            raise errors.UnimplementedError("a map function that returns a dataset is not built: use flat_map or interleave")
        return _apply("map", [self], self._parallel(AttrTable(), num_parallel_calls, deterministic), [fn])

    def filter(self, predicate, name=None):
        """The elements for which @predicate holds."""
        fn, returned = self._trace(predicate, "filter")
        if returned is not None:
            raise TypeError("the function given to filter returned a dataset, not a bool")
        return _apply("filter", [self], functions=[fn])

    def _trace_dataset(self, map_func, what):
        fn, returned = self._trace(map_func, what)
        if returned is None:
            raise TypeError(f"the function given to {what} returns a Dataset")
        return fn

    def flat_map(self, map_func, name=None):
        """The datasets that @map_func makes of each element, one after the other."""
        return _apply("flat_map", [self], functions=[self._trace_dataset(map_func, "flat_map")])

    def interleave(self, map_func, cycle_length=None, block_length=None, num_parallel_calls=None, deterministic=None,
                   name=None):
        """The datasets that @map_func makes of each element, @cycle_length of them in turns of @block_length elements."""
        attrs = self._parallel(AttrTable(), num_parallel_calls, deterministic)
        if cycle_length is not None and not (isinstance(cycle_length, int) and cycle_length == AUTOTUNE):
            _number(attrs, "cycle_length", cycle_length)
        if block_length is not None:
            _number(attrs, "block_length", block_length)
        return _apply("interleave", [self], attrs, [self._trace_dataset(map_func, "interleave")])

    def concatenate(self, dataset, name=None):
        """The elements of this dataset, then those of @dataset."""
        if not isinstance(dataset, Dataset):
            raise TypeError(f"concatenate takes a Dataset, not {type(dataset).__name__}")
        return _apply("concatenate", [self, dataset])

    def shuffle(self, buffer_size, seed=None, reshuffle_each_iteration=True, name=None):
        """
        The elements in random order, drawn from a buffer of @buffer_size (mr.UNKNOWN_CARDINALITY: of all elements, so that
        ds.shuffle(ds.cardinality()) does what it says). Without @reshuffle_each_iteration all iterations have one order, which is
        the dataset's where no @seed is given: the elements of ds.take(n) are those that ds.skip(n) leaves out.
        """
        attrs = _number(AttrTable(), "buffer_size", buffer_size)
        if seed is not None:
            _number(attrs, "seed", seed)
        reshuffle = True if reshuffle_each_iteration is None else reshuffle_each_iteration
        return _apply("shuffle", [self], _flag(attrs, "reshuffle_each_iteration", reshuffle))

    def repeat(self, count=None, name=None):
        """The dataset @count times; for ever by default, and if @count is below 0."""
        attrs = AttrTable()
        if count is not None:
            _number(attrs, "count", count)
        return _apply("repeat", [self], attrs)

    def batch(self, batch_size, drop_remainder=False, num_parallel_calls=None, deterministic=None, name=None):
        """Groups of @batch_size elements, each component stacked. (Batching is free: the parallel arguments do nothing.)"""
        attrs = _number(AttrTable(), "batch_size", batch_size)
        return _apply("batch", [self], _flag(attrs, "drop_remainder", drop_remainder))

    def padded_batch(self, batch_size, padded_shapes=None, padding_values=None, drop_remainder=False, name=None):
        """
        Groups of @batch_size elements, each component padded behind to one shape and stacked. @padded_shapes and
        @padding_values are for all components, or in the structure of the elements; None or -1 in a shape is the longest
        of the batch. By default shapes are those of element_spec, and values 0 or an empty string.
        """
        return self._padded_batch(batch_size, padded_shapes, padding_values, drop_remainder)

    def _padded_batch(self, batch_size, padded_shapes, padding_values, drop_remainder, unknown=None):
        """padded_batch(), where unknown dimensions become the tensor @unknown."""
        attrs = _number(AttrTable(), "batch_size", batch_size)
        specs = _spec.leaves_of(lib.mr_dataset_spec(self._handle.ptr))
        if padded_shapes is None and unknown is not None:
            padded_shapes = _structure.unflatten(self._structure, [spec.shape for spec in specs])
        if padded_shapes is not None:
            _padding.add_shapes(attrs, self._structure, padded_shapes, unknown)
        if padding_values is not None:
            _padding.add_values(attrs, self._structure, specs, padding_values)
        return _apply("padded_batch", [self], _flag(attrs, "drop_remainder", drop_remainder))

    def window(self, size, shift=None, stride=1, drop_remainder=False, name=None):
        """
        Windows of @size elements, @stride apart, as datasets: one for each component, in the structure of the elements. A
        new one begins every @shift elements (default: @size). Make tensors of them in flat_map:
        ds.window(3).flat_map(lambda w: w.batch(3)).
        """
        attrs = _number(AttrTable(), "size", size)
        if shift is not None:
            _number(attrs, "shift", shift)
        return _apply("window", [self], _flag(_number(attrs, "stride", stride), "drop_remainder", drop_remainder))

    def group_by_window(self, key_func, reduce_func, window_size=None, window_size_func=None, name=None):
        """
        Elements put together by the int64 that @key_func gives for them. A group of @window_size elements (or of what
        @window_size_func says for its key), and at the end what is left of each group in the order of the keys, becomes the
        dataset reduce_func(key, dataset of its elements).
        """
        if (window_size is None) == (window_size_func is None):
            raise ValueError("group_by_window takes either window_size or window_size_func")
        functions = _grouping.functions_of(self, key_func, reduce_func, window_size_func)
        attrs = AttrTable() if window_size is None else _number(AttrTable(), "window_size", window_size)
        return _apply("group_by_window", [self], attrs, functions)

    def bucket_by_sequence_length(self, element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes=None,
                                  padding_values=None, pad_to_bucket_boundary=False, no_padding=False,
                                  drop_remainder=False, name=None):
        """
        Batches of elements of about one length, padded to the longest of each batch. Bucket k takes lengths below
        bucket_boundaries[k], the last one all others; its batches have bucket_batch_sizes[k] elements.
        @pad_to_bucket_boundary pads unknown dimensions to the boundary - 1; a longer element is then an error.
        """
        return _grouping.bucket(self, element_length_func, bucket_boundaries, bucket_batch_sizes, padded_shapes,
                                padding_values, pad_to_bucket_boundary, no_padding, drop_remainder)

    def take(self, count, name=None):
        """The first @count elements (below 0: all)."""
        return self._counting(_apply("take", [self], _number(AttrTable(), "count", count)), isinstance(count, Tensor) or count > 0)

    def cache(self, filename="", name=None):
        """
        The elements of the first complete pass, kept in memory for the passes after it: for all iterators over this object,
        on a worker for each task. A pass that ends early keeps nothing.
        """
        if isinstance(filename, Tensor) or filename not in ("", b""):
            raise errors.UnimplementedError("Dataset.cache in a file is not built: write TFRecord files with "
                                            "mr.io.TFRecordWriter, or keep the elements in memory")
        return _apply("cache", [self])

    def scan(self, initial_state, scan_func, name=None):
        """
        What @scan_func gives for each element: (state, element) -> (next state, result). Elements go one after the other.
        """
        attrs, fn = _scanning.scan_arguments(self, initial_state, scan_func)
        return _apply("scan", [self], attrs, [fn])

    def reduce(self, initial_state, reduce_func, name=None):
        """The state after all elements, each of which changes it: reduce_func(state, element) -> state. Reads at once."""
        return _scanning.reduce(self, initial_state, reduce_func)

    def take_while(self, predicate, name=None):
        """The elements before the first for which @predicate does not hold."""
        fn, returned = self._trace(predicate, "take_while")
        if returned is not None:
            raise TypeError("the function given to take_while returned a dataset, not a bool")
        return _apply("take_while", [self], functions=[fn])

    def unbatch(self, name=None):
        """Each element cut along its first axis into elements."""
        return _apply("unbatch", [self])

    def rebatch(self, batch_size, drop_remainder=False, name=None):
        """Batches of another size: unbatch().batch(batch_size)."""
        if not isinstance(batch_size, Tensor) and np.ndim(batch_size) != 0:
            raise errors.UnimplementedError("Dataset.rebatch with several sizes is not built: give one")
        if not isinstance(batch_size, Tensor) and not drop_remainder:  # whole batches of whole batches leave no remainder
            drop_remainder = _divides(batch_size, [spec.shape for spec in _spec.leaves_of(lib.mr_dataset_spec(self._handle.ptr))])
        return self.unbatch().batch(batch_size, drop_remainder=drop_remainder)

    def unique(self, name=None):
        """The first of equal elements, which are scalars of int32, int64 or string. What was seen is kept in memory."""
        return _apply("unique", [self])

    def shard(self, num_shards, index, name=None):
        """Every @num_shards-th element, from number @index on."""
        attrs = _number(_number(AttrTable(), "num_shards", num_shards), "index", index)
        return self._counting(_apply("shard", [self], attrs), isinstance(num_shards, Tensor) or num_shards > 1)

    def enumerate(self, start=0, name=None):
        """
        Pairs of a number, from @start on, and the element. Under DYNAMIC sharding each worker numbers what it makes. Where
        nothing but map, zip and concatenate stands between the sources and this, numbers are those of the whole dataset.
        """
        attrs = _number(AttrTable(), "start", start).int("stop", np.iinfo(np.int64).max).int("step", 1)
        ds = Dataset.zip((_apply("range", attrs=attrs.bool("whole", True)), self))
        ds._by_share = self._by_share  # any number goes with any element
        return ds

    def skip(self, count, name=None):
        """What follows the first @count elements (below 0: nothing)."""
        return self._counting(_apply("skip", [self], _number(AttrTable(), "count", count)), isinstance(count, Tensor) or count > 0)

    def prefetch(self, buffer_size, name=None):
        """Elements are made ahead of need, up to @buffer_size of them (mr.AUTOTUNE: as many as pay)."""
        attrs = AttrTable() if buffer_size is None else _number(AttrTable(), "buffer_size", buffer_size)
        return _apply("prefetch", [self], attrs)

    def ignore_errors(self, log_warning=False, name=None):
        """
        The elements that can be made: those that fail are left out. Memory that runs out, and a service that cannot be
        reached, are no faults of an element and are raised as ever. With @log_warning each one left out is a line on stderr.
        """
        return _apply("ignore_errors", [self], _flag(AttrTable(), "log_warning", log_warning))

    def apply(self, transformation_func, name=None):
        """transformation_func(self), which has to be a Dataset."""
        ds = transformation_func(self)
        if not isinstance(ds, Dataset):
            raise TypeError(f"the transformation given to apply returned {type(ds).__name__}, not a Dataset")
        return ds

    # ---- options ----

    def options(self):
        """The options of this dataset and its inputs."""
        return Options().merge(self._options)

    def with_options(self, options, name=None):
        """This dataset with more options; what was set before gives way."""
        if not isinstance(options, Options):
            raise TypeError(f"with_options takes mr.Options, not {type(options).__name__}")
        ds = Dataset(self._handle, self._options.merge(options))
        ds._one_source, ds._by_share = self._one_source, self._by_share
        return ds

    # ---- what it is ----

    @property
    def element_spec(self):
        """Nested mr.TensorSpec in the structure of the elements."""
        return _spec.element_spec_of(lib.mr_dataset_spec(self._handle.ptr))

    def cardinality(self, name=None):
        """The number of elements, mr.INFINITE_CARDINALITY or mr.UNKNOWN_CARDINALITY, as np.int64."""
        return np.int64(lib.mr_dataset_cardinality(self._handle.ptr))

    def __len__(self):
        n = int(self.cardinality())
        if n == INFINITE_CARDINALITY:
            raise TypeError("the dataset is infinite")
        if n == UNKNOWN_CARDINALITY:
            raise TypeError("the length of the dataset is unknown")
        return n

    def __bool__(self):
        return True

    def fingerprint(self):
        """16 bytes that are equal for equal pipelines, however they were built."""
        out, err = (ctypes.c_uint8 * 16)(), _ffi.Error()
        check(lib.mr_dataset_fingerprint(self._handle.ptr, out, byref(err)), err)
        return bytes(out)

    def __repr__(self):
        return f"<{type(self).__name__} element_spec={self.element_spec}>"

    # ---- reading ----

    def __iter__(self):
        if current_graph() is not None:
            raise TypeError("a dataset cannot be iterated inside a traced function: use flat_map or interleave")
        return NumpyIterator(self)

    def as_numpy_iterator(self):
        """
        An iterator over the elements as NumPy arrays, NumPy scalars and bytes; `for x in ds` gives the same. TypeError if
        a component is a dataset (`for` gives those as datasets).
        """
        if any(map(_structure.dataset_of, _structure.leaf_nodes(self._structure))):
            raise TypeError(f"as_numpy_iterator: the elements hold datasets, {self.element_spec}: make tensors of them in "
                            "flat_map, or use `for`")
        return iter(self)

    def get_single_element(self, name=None):
        """The only element; InvalidArgumentError if there is none or more than one."""
        with iter(self) as it:
            found = list(itertools.islice(it, 2))
        if len(found) != 1:
            raise errors.InvalidArgumentError("the dataset is empty" if not found else "the dataset has more than one element")
        return found[0]

    # ---- as bytes ----

    def _serialize(self):
        ptr, size, err = ctypes.c_void_p(), ctypes.c_size_t(), _ffi.Error()
        check(lib.mr_dataset_serialize(self._handle.ptr, byref(ptr), byref(size), byref(err)), err)
        return _ffi.take_bytes(ptr, size.value)

    def __reduce__(self):
        return _parse, (self._serialize(), self._options)

    # ---- not built ----

    ragged_batch = _absent("ragged_batch", "use padded_batch")
    rejection_resample = _absent("rejection_resample", "filter by class and concatenate, or choose outside")
    save = _absent("save", "write TFRecord files with mr.io.TFRecordWriter")
    snapshot = _absent("snapshot", "write TFRecord files with mr.io.TFRecordWriter")
    sparse_batch = _absent("sparse_batch", "there are no sparse tensors yet")
    from_generator = staticmethod(_absent("from_generator", "use from_tensor_slices, or files"))
    load = staticmethod(_absent("load", "read TFRecord files with mr.TFRecordDataset"))
    random = staticmethod(_absent("random", "shuffle a range"))


def elements_of(value, of):
    """
    A component of an element that is a dataset, as one. @value is symbolic or bytes; @of says what the elements are.
    """
    attrs = AttrTable().bytes("spec", _structure.to_json(of))
    if isinstance(value, Tensor):
        return _apply("elements_of", attrs=attrs.value("dataset", value))
    ds = _apply("elements_of", attrs=attrs.bytes("dataset", value))
    ds._encoded = value  # for the states of iterators
    return ds


def _parse(definition, options=None):
    """The inverse of Dataset._serialize(); also what pickles call."""
    ret, err = ctypes.c_void_p(), _ffi.Error()
    check(lib.mr_dataset_parse(definition, len(definition), byref(ret), byref(err)), err)
    return Dataset(_ffi.DatasetHandle(ret), options)
