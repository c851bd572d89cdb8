"""Datasets kept in files: writing them, and reading them again."""

from __future__ import annotations

import ctypes
import functools
import os
import time
from typing import Any, Callable, Generic, Self, Sequence, TypeVar

import numpy as np

from .. import errors
from .._capi import ffi as _ffi
from .._capi.ffi import byref, check, lib
from .._data import spec as _spec
from .._data import structure as _structure
from .._data.block import new_block
from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol, current_graph
from .arguments import AUTOTUNE, add_number
from .base import DatasetBase
from .functions import Functions
from .trace import trace

_WAIT_S = 0.2  # between two looks for a manifest that somebody else writes
_CYCLE_MAX = 16  # as interleave's default
_D = TypeVar("_D", bound=Functions)
_COMPRESSIONS = (None, "", "NONE", "AUTO", "GZIP", "ZSTD", "LZ4", "SNAPPY")


def path_of(path: Any, what: str) -> str:
    """@path, in a form that means the same in other processes of this machine."""
    if isinstance(path, Symbol) or not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"{what}: the path is a string or a path, not {type(path).__name__}")
    name = os.fsdecode(path)
    if not name or "\0" in name:
        raise ValueError(f"{what}: {name!r} is no path")
    return os.path.abspath(name)


def check_compression(compression: Any, what: str) -> str:
    """@compression as the library names it."""
    if compression is not None and not isinstance(compression, str):
        raise TypeError(f"{what}: compression is a string, not {type(compression).__name__}")
    if compression not in _COMPRESSIONS:
        raise ValueError(
            f'{what}: there is no compression {compression!r}: None, "AUTO", "GZIP", "LZ4", '
            '"SNAPPY" and "ZSTD" are'
        )
    return "" if compression is None or compression == "NONE" else compression


class _Writer(_ffi.Owner):
    """What the library writes with. What is not committed is removed when this goes."""

    def __init__(self) -> None:
        self.ptr = ctypes.c_void_p()
        self._release = _ffi.in_turn(
            functools.partial(lib.mr_saved_writer_free, self.ptr), _ffi.clear(self.ptr)
        )


class _Manifest(_ffi.Owner):
    """What is saved at a path."""

    def __init__(self, path: str) -> None:
        self.ptr = ctypes.c_void_p()
        self._release = _ffi.in_turn(
            functools.partial(lib.mr_saved_free, self.ptr), _ffi.clear(self.ptr)
        )
        error = _ffi.Error()
        check(lib.mr_saved_open(os.fsencode(path), byref(self.ptr), byref(error)), error)

    @property
    def spec_ptr(self) -> Any:
        """The mr_spec of the elements, as long as this is held."""
        return lib.mr_saved_spec(self.ptr)

    def shards(self) -> list[list[tuple[bytes, int]]]:
        """For each shard its chunks, in order: the name of the file, and what it is known by."""
        found: dict[int, list[tuple[bytes, int]]] = {}
        chunk = _ffi.SavedChunk()
        for i in range(lib.mr_saved_chunks(self.ptr)):
            lib.mr_saved_chunk_get(self.ptr, i, byref(chunk))
            found.setdefault(chunk.shard, []).append((chunk.file, chunk.chain))
        return list(found.values())


def with_shard(ds: _D, shard_func: Callable[..., Any], what: str) -> _D:
    """Pairs: the number of the shard, and the element of @ds."""
    if not callable(shard_func):
        raise TypeError(f"{what}: shard_func is a function, not {type(shard_func).__name__}")

    def pair(*element: Any) -> Any:
        shard = shard_func(*element)
        if isinstance(shard, int) and not isinstance(shard, bool):
            shard = np.int64(shard)
        if getattr(shard, "dtype", None) != np.int64 or tuple(shard.shape) != ():
            raise errors.InvalidArgumentError(
                f"{what}: shard_func returns an int64 scalar (mr.cast(x, mr.int64)), not {shard!r}"
            )
        return shard, element if isinstance(ds._structure, list) else element[0]

    return ds.map(pair)


class Saving(Functions):
    """The methods of a Dataset that keep its elements in files."""

    def save(
        self,
        path: Any,
        compression: str | None = None,
        shard_func: Callable[..., Any] | None = None,
        checkpoint_args: Any = None,
        *,
        chunk_bytes: int = 64 << 20,
    ) -> None:
        """Read all elements now, and write them into files.

        They are there when this returns, and take the place of what was saved there before. If it
        fails, or this process ends, what was there before still is.

        Parameters
        ----------
        path : str or path
            A directory, which is made if it is missing.
        compression : {None, "AUTO", "GZIP", "LZ4", "SNAPPY", "ZSTD"}, optional
            How each block of elements is compressed; "AUTO" is "LZ4". By default it is not: then it
            is read with the least work.
        shard_func : callable, optional
            Traced: from an element to the number of its shard, an int64 scalar from 0 on. At most
            256 different ones. By default all elements are in one, and keep their order.
        checkpoint_args : dict, optional
            Not supported.
        chunk_bytes : int, default 64 MiB
            When a file is large enough. Files are what workers share among them under DYNAMIC
            sharding.

        Raises
        ------
        UnimplementedError
            `checkpoint_args` is given.
        FailedPreconditionError
            There is something else than a directory at `path`.
        AlreadyExistsError
            A `snapshot` or `cache` is being written there.
        InvalidArgumentError
            A component of the elements is a dataset, or `shard_func` returns something else.
        MillraceError
            What an element fails with: put `ignore_errors` in front of it to leave it out.

        Examples
        --------
        >>> mr.Dataset.range(5).save("numbers")
        >>> list(mr.Dataset.load("numbers"))
        [0, 1, 2, 3, 4]
        """
        if current_graph() is not None:
            raise TypeError("save reads the dataset at once: it has no place in a traced function")
        if checkpoint_args is not None:
            raise errors.UnimplementedError(
                "save with checkpoint_args is not supported: a save that was interrupted begins "
                "again"
            )
        options = _ffi.SavedOptions(struct_size=ctypes.sizeof(_ffi.SavedOptions))
        options.compression = check_compression(compression, "save").encode()
        chunk_bytes = _spec.integer("chunk_bytes", chunk_bytes)
        if not 1 <= chunk_bytes < 1 << 63:
            raise ValueError(f"chunk_bytes is at least 1 and less than 2**63, not {chunk_bytes}")
        options.chunk_bytes = chunk_bytes
        options.sharded = shard_func is not None
        where = os.fsencode(path_of(path, "save"))
        pairs = self if shard_func is None else with_shard(self, shard_func, "save")
        writer, error = _Writer(), _ffi.Error()
        fingerprint = (ctypes.c_uint8 * 16)(*self.fingerprint())
        try:
            check(
                lib.mr_saved_writer_open(
                    where,
                    self._spec_ptr,
                    fingerprint,
                    byref(options),
                    byref(writer.ptr),
                    byref(error),
                ),
                error,
            )
            with iter(pairs) as elements:
                for block in elements._blocks():
                    check(lib.mr_saved_writer_write(writer.ptr, block.ptr, byref(error)), error)
            check(lib.mr_saved_writer_commit(writer.ptr, byref(error)), error)
        finally:
            writer._release()

    def snapshot(
        self,
        path: Any,
        compression: str | None = "AUTO",
        reader_func: Callable[..., Any] | None = None,
        shard_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Self:
        """Keep the elements of the first complete pass in files, for later passes and processes.

        They are kept by the fingerprint of the pipeline before this: another pipeline has files of
        its own. A pass that ends early keeps nothing, nor does one in which an element failed.

        Parameters
        ----------
        path : str or path
            A directory, which may be that of other snapshots, too.
        compression : {"AUTO", None, "GZIP", "LZ4", "SNAPPY", "ZSTD"}, default "AUTO"
            How each block of elements is compressed; "AUTO" is "LZ4".
        reader_func : callable, optional
            As that of `load`. It must give elements of this dataset.
        shard_func : callable, optional
            As that of `save`.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the same elements.

        Raises
        ------
        AlreadyExistsError
            When it is read: another iterator is writing the same files.
        UnimplementedError
            Inside of a function, and under DYNAMIC sharding, where each worker has a part.

        Examples
        --------
        >>> ds = mr.Dataset.range(3).snapshot("snapshots")
        >>> list(ds), list(ds)
        ([0, 1, 2], [0, 1, 2])
        """
        where = os.path.join(path_of(path, "snapshot"), self.fingerprint().hex())
        kind = check_compression(compression, "snapshot")
        return kept_in(self, where, kind, "snapshot", reader_func, shard_func)

    def cache(self, filename: Any = "", name: str | None = None) -> Self:
        """Keep the elements of the first complete pass, in memory or in files, for later passes.

        In memory they are there for all iterators over this object, on a worker for each task; in
        files also for later processes. A pass that ends early keeps nothing, nor does one in which
        an element failed.

        Parameters
        ----------
        filename : str or path, default ""
            A directory, in which nothing else is kept. What is there is read, of whatever pipeline
            it is. By default elements are kept in memory.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the same elements.

        Raises
        ------
        AlreadyExistsError
            When it is read: another iterator is writing the same files.
        UnimplementedError
            In files, inside of a function, and under DYNAMIC sharding, where each worker has a
            part.

        Examples
        --------
        >>> ds = mr.Dataset.range(3).shuffle(3).cache()
        >>> list(ds) == list(ds)
        True
        >>> list(mr.Dataset.range(3).cache("cached"))
        [0, 1, 2]
        >>> list(mr.Dataset.load("cached"))
        [0, 1, 2]
        """
        if not isinstance(filename, Symbol) and filename in ("", b""):
            return self._of("cache", [self])
        return kept_in(self, path_of(filename, "cache"), "", "cache")


def _one_chunk(cls: type[_D], spec: str, file: Any, chain: Any) -> _D:
    attrs = AttrTable().bytes("spec", spec).value("filename", file).value("chain", chain)
    return cls._of("saved", attrs=attrs)


def _sources(cls: type[_D], vectors: Sequence[Any]) -> _D:
    """Pairs of two vectors: arrays, or values of the function around."""
    attrs = AttrTable().bytes("structure", '["*","*"]')
    if any(isinstance(vector, Symbol) for vector in vectors):
        for i, vector in enumerate(vectors):
            attrs.value(f"value{i}", vector)
    else:
        attrs.block("tensors", new_block(len(vectors[0]), vectors, per_row=True))
    return cls._of("from_tensor_slices", attrs=attrs)


def _chunks_of(chunks: Sequence[tuple[bytes, int]]) -> tuple[Any, Any]:
    files = np.empty(len(chunks), object)
    files[:] = [file for file, _ in chunks]
    return files, np.array([chain for _, chain in chunks], np.int64)


class _Shards(Generic[_D]):
    """
    The datasets of the shards. Where they are elements, two numbers stand for each: where it begins
    in the list of all chunks, and how many it has.
    """

    def __init__(self, cls: type[_D], spec: str, chunks: Sequence[Any], places: Sequence[Any]):
        self._cls, self._spec, self._chunks, self._places = cls, spec, chunks, places
        self.element_spec = _spec.DatasetSpec(_spec.spec_from_json(_structure.from_json(spec)))

    def rows(self) -> _D:
        """Two numbers for each."""
        return _sources(self._cls, self._places)

    def datasets(self) -> _D:
        """A dataset of datasets, as far as one can be used."""
        ds = self.rows()
        ds._elements_are = self
        return ds

    def dataset(self, first: Any, count: Any) -> _D:
        """The elements of one, inside of a function."""
        chunks = _sources(self._cls, self._chunks)
        for op, number in (("skip", first), ("take", count)):
            chunks = self._cls._of(op, [chunks], AttrTable().value("count", number))
        return chunks.flat_map(functools.partial(_one_chunk, self._cls, self._spec))

    def read(self, reader_func: Callable[..., Any], what: str) -> _D:
        """What @reader_func makes of them."""
        ds = reader_func(self.datasets())
        if not isinstance(ds, self._cls) or ds._elements_are is not None:
            raise TypeError(
                f"{what}: reader_func returns a dataset of elements, as "
                "`lambda shards: shards.interleave(lambda shard: shard)` does"
            )
        return ds


def _shards_of(cls: type[_D], spec: str, shards: list[list[tuple[bytes, int]]]) -> _Shards[_D]:
    counts = np.array([len(shard) for shard in shards], np.int64)
    chunks = _chunks_of([chunk for shard in shards for chunk in shard])
    return _Shards(cls, spec, chunks, (np.cumsum(counts) - counts, counts))


def _in_turns(cls: type[_D], spec: str, shards: list[list[tuple[bytes, int]]], rows: int) -> _D:
    """All elements: those of a shard in their order, shards in turns of an element."""
    cycle = max(1, min(len(shards), _CYCLE_MAX))
    attrs = add_number(AttrTable().int("cardinality", rows), "cycle_length", cycle)
    if cycle > 1:
        add_number(attrs, "num_parallel_calls", AUTOTUNE)
    else:
        attrs.int("block_length", np.iinfo(np.int64).max)  # blocks go by as they are
    if len(shards) > 1 and any(len(shard) > 1 for shard in shards):
        of = _shards_of(cls, spec, shards)
        source, one = of.rows(), of.dataset
    else:  # each chunk is a split
        source = _sources(cls, _chunks_of([chunk for shard in shards for chunk in shard]))
        one = functools.partial(_one_chunk, cls, spec)
    return cls._of("interleave", [source], attrs, [source._trace_dataset(one, "load")])


def _given_spec(element_spec: Any, manifest: _Manifest) -> _ffi.SpecHandle:
    """@element_spec, which must be one that the elements may have."""
    leaves, structure = _spec.flatten_spec(element_spec)
    given = _spec.new_spec(leaves, structure)
    saved = _spec.leaves_of(manifest.spec_ptr)
    if len(leaves) != len(saved):
        raise errors.InvalidArgumentError(
            f"load: the element_spec has {len(leaves)} components, what is saved has {len(saved)}"
        )
    for i, (mine, theirs) in enumerate(zip(leaves, saved)):
        if mine.dtype != theirs.dtype or not mine.shape.is_compatible_with(theirs.shape):
            raise errors.InvalidArgumentError(
                f"load: component {i} is {mine} in the element_spec, and {theirs} in what is saved"
            )
    return given


def _manifest_at(path: str, wait: bool) -> _Manifest:
    while True:
        try:
            return _Manifest(path)
        except errors.NotFoundError:
            if not wait:
                raise
        time.sleep(_WAIT_S)  # nothing tells of files on every file system


def load(
    cls: type[_D],
    path: Any,
    element_spec: Any,
    compression: Any,
    reader_func: Callable[..., Any] | None,
    wait: bool,
) -> _D:
    """``Dataset.load``, of class @cls."""
    check_compression(compression, "load")
    manifest = _manifest_at(path_of(path, "load"), wait)
    given = None if element_spec is None else _given_spec(element_spec, manifest)
    spec = _structure.to_json(_spec.to_json(given.ptr if given else manifest.spec_ptr))
    if reader_func is None:
        rows = lib.mr_saved_rows(manifest.ptr)
        return _in_turns(cls, spec, manifest.shards(), rows)._named("load")
    return _shards_of(cls, spec, manifest.shards()).read(reader_func, "load")._named("load")


def _take_turns(shards: Any) -> Any:
    return shards.interleave(lambda shard: shard, num_parallel_calls=AUTOTUNE)


def kept_in(
    ds: _D,
    path: str,
    compression: str,
    what: str,
    reader_func: Callable[..., Any] | None = None,
    shard_func: Callable[..., Any] | None = None,
) -> _D:
    """The elements of @ds, which the first pass writes to @path, and later ones read there."""
    spec = _structure.to_json(_spec.to_json(ds._spec_ptr))
    vector = _spec.TensorSpec([None], "int64")
    manifest = _spec.new_spec([_spec.TensorSpec([None], "string"), *[vector] * 3], ["*"] * 4)

    def read(files: Any, chains: Any, firsts: Any, counts: Any) -> _D:
        if reader_func is None and shard_func is None:
            chunks = _sources(type(ds), (files, chains))
            return chunks.flat_map(functools.partial(_one_chunk, type(ds), spec))
        shards = _Shards(type(ds), spec, (files, chains), (firsts, counts))
        return shards.read(reader_func or _take_turns, what)

    attrs = AttrTable().bytes("path", os.fsencode(path)).bytes("compression", compression)
    attrs.bool("sharded", shard_func is not None)
    fn, _ = trace(ds, read, what, manifest.ptr, ["*"] * 4)
    pairs = ds if shard_func is None else with_shard(ds, shard_func, what)
    return ds._of("snapshot", [pairs], attrs, [fn])._named(what, [ds])
