"""Reading tf.Example and tf.SequenceExample records."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from .._data.block import new_block
from .._data.spec import ShapeLike, TensorShape
from .._graph.attrs import AttrTable
from .._graph.literals import to_array
from .._graph.symbol import Symbol, TensorLike
from .._graph.tensor import apply, convert_to_tensor
from ..dtypes import DType, as_dtype
from .arrays import concat, expand_dims, reshape, shape as _shape, stack
from .constants import cast, range as _range
from .debugging import Assert
from .elementwise import assert_, maximum
from .features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)
from .partitions import cut, cut_each, partition_key
from .ragged.tensor import RaggedTensor
from .reductions import reduce_all
from .sparse import SparseTensor, reorder

_FIXED, _VAR = 0, 1


class _Wanted(NamedTuple):
    """What parse_example is asked for under one name of the record."""

    key: str
    dtype: DType
    kind: int
    dims: list[int | None] | None = None
    default: Any = None


class _Joined(NamedTuple):
    """A feature with any number of values: of all records, and how many each has."""

    values: Any
    lengths: Any


def _dims(name: str, shape: ShapeLike) -> list[int | None]:
    known = TensorShape(shape)
    if known.rank is None:
        raise ValueError(f"feature {name!r} needs a shape")
    return known.as_list()


def _dtype(name: str, dtype: Any) -> DType:
    found = as_dtype(dtype)
    if found.name not in ("int64", "float32", "string"):
        raise ValueError(
            f"feature {name!r}: a tf.Example holds int64, float32 and string, not "
            f"{found.name}: parse one of them and cast"
        )
    return found


def _fixed(name: str, feature: Any) -> _Wanted:
    if isinstance(feature, FixedLenSequenceFeature):
        if not feature.allow_missing:
            raise ValueError(
                f"feature {name!r}: a FixedLenSequenceFeature outside of a sequence "
                "needs allow_missing=True"
            )
        dims = [None, *_dims(name, feature.shape)]
    else:
        dims = _dims(name, feature.shape)
        if None in dims:
            raise ValueError(
                f"feature {name!r}: a FixedLenFeature has a known shape, not {tuple(dims)}: use "
                "RaggedFeature, VarLenFeature or FixedLenSequenceFeature(..., allow_missing=True)"
            )
    return _Wanted(name, _dtype(name, feature.dtype), _FIXED, dims, feature.default_value)


def _wanted(name: str, feature: Any) -> list[_Wanted]:
    """What one description needs of the record."""
    if isinstance(feature, (FixedLenFeature, FixedLenSequenceFeature)):
        return [_fixed(name, feature)]
    if isinstance(feature, VarLenFeature):
        return [_Wanted(name, _dtype(name, feature.dtype), _VAR)]
    if isinstance(feature, SparseFeature):
        keys = [feature.index_key] if isinstance(feature.index_key, str) else feature.index_key
        places = [_Wanted(key, as_dtype("int64"), _VAR) for key in keys]
        return [*places, _Wanted(feature.value_key, _dtype(name, feature.dtype), _VAR)]
    if isinstance(feature, RaggedFeature):
        values = _Wanted(feature.value_key or name, _dtype(name, feature.dtype), _VAR)
        keys = [partition_key(name, p) for p in feature.partitions]
        return [values, *(_Wanted(k, as_dtype("int64"), _VAR) for k in keys if k is not None)]
    raise TypeError(
        f"feature {name!r} is described by {type(feature).__name__}; use FixedLenFeature, "
        "FixedLenSequenceFeature, VarLenFeature, RaggedFeature or SparseFeature"
    )


def _merge(wanted: Sequence[_Wanted]) -> list[_Wanted]:
    """One for each key; descriptions that share a key agree."""
    by_key: dict[str, _Wanted] = {}
    for one in wanted:
        other = by_key.setdefault(one.key, one)
        if (other.dtype, other.kind) != (one.dtype, one.kind):
            raise ValueError(f"feature {one.key!r} is described in two ways")
    return [by_key[key] for key in sorted(by_key)]


def _read(serialized: Any, wanted: Sequence[_Wanted], rank: int) -> dict[str, Any]:
    """key -> a tensor, or what is _Joined."""
    attrs = AttrTable()
    for i, one in enumerate(wanted):
        if one.dims is not None:
            attrs.shape(f"shape{i}", one.dims)
        if one.default is not None:
            attrs.block(f"default{i}", new_block(1, [to_array(one.default, one.dtype)]))
    attrs.strings("names", [one.key for one in wanted])
    attrs.ints("kinds", [one.kind for one in wanted])
    attrs.ints("dtypes", [one.dtype.code for one in wanted])
    results = apply("parse_example", [serialized], attrs)
    found, lengths = results[: len(wanted)], iter(results[len(wanted) :])
    return {
        one.key: (
            value
            if one.kind == _FIXED
            else _Joined(value, next(lengths) if rank == 1 else _shape(value, "int64")[0])
        )
        for one, value in zip(wanted, found)
    }


def _rows(joined: _Joined, dtype: Any) -> RaggedTensor:
    return RaggedTensor.from_row_lengths(joined.values, cast(joined.lengths, dtype), validate=False)


def _sparse(joined: _Joined, rank: int) -> SparseTensor:
    if rank == 1:
        return _rows(joined, "int64").to_sparse()
    places = expand_dims(_range(joined.lengths), 1)
    return SparseTensor(places, joined.values, reshape(joined.lengths, [1]))


def _sparse_feature(feature: SparseFeature, found: dict[str, Any], rank: int) -> SparseTensor:
    keys = [feature.index_key] if isinstance(feature.index_key, str) else feature.index_key
    sizes = np.atleast_1d(np.asarray(feature.size, np.int64))
    if len(sizes) != len(keys):
        raise ValueError(
            f"a SparseFeature has {len(keys)} index keys and sizes for {len(sizes)} axes"
        )
    values = found[feature.value_key]
    columns = [expand_dims(found[key].values, 1) for key in keys]
    same = [reduce_all(found[key].lengths == values.lengths) for key in keys]
    message = f"a SparseFeature has as many places as values of {feature.value_key!r}"
    values = values._replace(values=assert_(values.values, reduce_all(stack(same)), message))
    if rank == 0:
        found_there = SparseTensor(concat(columns, 1), values.values, sizes)
        return found_there if feature.already_sorted else reorder(found_there)
    records = expand_dims(_rows(values, "int64").value_rowids(), 1)
    dense_shape = concat([_shape(values.lengths, "int64"), sizes], 0)
    of_all = SparseTensor(concat([records, *columns], 1), values.values, dense_shape)
    return of_all if feature.already_sorted else reorder(of_all)


def _ragged(name: str, feature: RaggedFeature, found: dict[str, Any], rank: int) -> Any:
    """A RaggedFeature: the values in rows, the innermost first."""
    dtype = feature.row_splits_dtype
    joined = found[feature.value_key or name]
    values = _rows(joined, dtype) if rank == 1 else joined.values
    for partition in reversed(feature.partitions):
        key = partition_key(name, partition)
        numbers = None if key is None else found[key]
        if rank == 0:
            values = cut(values, partition, numbers and numbers.values, dtype)
        else:
            values = cut_each(values, partition, numbers and _rows(numbers, dtype), dtype)
    return values


def _finished(name: str, feature: Any, found: dict[str, Any], rank: int) -> Any:
    """What the description @feature stands for."""
    if isinstance(feature, SparseFeature):
        return _sparse_feature(feature, found, rank)
    if isinstance(feature, VarLenFeature):
        return _sparse(found[name], rank)
    if isinstance(feature, RaggedFeature):
        return _ragged(name, feature, found, rank)
    return found[name]


def _in_order(features: dict[str, Any]) -> list[str]:
    """The names in TensorFlow's order: by kind, then sorted."""

    def kind(name: str) -> int:
        feature = features[name]
        if isinstance(feature, VarLenFeature):
            return 0
        if isinstance(feature, (FixedLenFeature, FixedLenSequenceFeature)):
            return 1
        own = isinstance(feature, RaggedFeature) and feature.value_key in (None, name)
        return 2 if own else 3

    return sorted(features, key=lambda name: (kind(name), name))


def _rank(tensor: Any, unknown: int) -> int:
    rank = tensor.shape.rank if isinstance(tensor, Symbol) else tensor.ndim
    return unknown if rank is None else int(rank)


def _check_rank(records: Any, rank: int, what: str) -> None:
    if _rank(records, rank) == rank:
        return
    wanted, way = (
        ("a vector, as batch makes it", "parse_single_example and parse_single_sequence_example")
        if rank
        else ("a scalar", "parse_example and parse_sequence_example")
    )
    raise ValueError(
        f"{what}: serialized is {wanted}, not of shape {tuple(records.shape)}: "
        f"{way} take {'one record' if rank else 'a batch'}"
    )


def _parse(serialized: TensorLike, features: Any, rank: int, what: str) -> dict[str, Any]:
    if not isinstance(features, dict) or not features:
        raise ValueError(f"{what}: features is a dict with at least one entry")
    serialized = convert_to_tensor(serialized)
    _check_rank(serialized, rank, what)
    wanted = _merge([one for name in features for one in _wanted(name, features[name])])
    found = _read(serialized, wanted, rank)
    return {name: _finished(name, features[name], found, rank) for name in _in_order(features)}


def parse_single_example(
    serialized: TensorLike,
    features: dict[str, Any],
    example_names: Any = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Read one serialized tf.Example.

    Parameters
    ----------
    serialized : tensor_like of string
        A scalar.
    features : dict
        Name -> FixedLenFeature, FixedLenSequenceFeature, VarLenFeature, RaggedFeature or
        SparseFeature.
    example_names : optional
        Accepted and ignored.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    dict of Tensor, numpy.ndarray, SparseTensor or RaggedTensor
        Of each name what the example has. Those of VarLenFeature and SparseFeature are sparse; that
        of a RaggedFeature is a vector, or ragged if it has a partition.

    Raises
    ------
    ValueError
        A feature is not described as it can be.
    InvalidArgumentError
        It is no tf.Example, or lacks a feature, or has it with another shape or type.

    Examples
    --------
    >>> numbers = mr.train.Feature(int64_list=mr.train.Int64List(value=[3, 4]))
    >>> example = mr.train.Example(features=mr.train.Features(feature={"n": numbers}))
    >>> mr.io.parse_single_example(example.SerializeToString(),
    ...                            {"n": mr.io.FixedLenFeature([2], mr.int64)})
    {'n': array([3, 4])}
    """
    return _parse(serialized, features, 0, "parse_single_example")


def parse_example(
    serialized: TensorLike,
    features: dict[str, Any],
    example_names: Any = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Read a vector of serialized tf.Examples.

    Parameters
    ----------
    serialized : tensor_like of string
        A vector.
    features : dict
        Name -> FixedLenFeature, FixedLenSequenceFeature, VarLenFeature, RaggedFeature or
        SparseFeature.
    example_names : optional
        Accepted and ignored.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    dict of Tensor, numpy.ndarray, SparseTensor or RaggedTensor
        With one axis more than `parse_single_example` gives. What differs in length is sparse
        (VarLenFeature), ragged (RaggedFeature) or padded (FixedLenSequenceFeature).

    Raises
    ------
    ValueError
        A feature is not described as it can be.
    InvalidArgumentError
        One is no tf.Example, or lacks a feature, or has it with another shape or type.

    Examples
    --------
    >>> number = mr.train.Feature(int64_list=mr.train.Int64List(value=[3]))
    >>> example = mr.train.Example(features=mr.train.Features(feature={"n": number}))
    >>> mr.io.parse_example([example.SerializeToString()] * 2,
    ...                     {"n": mr.io.FixedLenFeature([], mr.int64)})
    {'n': array([3, 3])}
    """
    records = convert_to_tensor(serialized)
    return _parse(records, features, min(_rank(records, 1), 1), "parse_example")


# ---- tf.SequenceExample ----


def _steps(serialized: Any, names: list[str]) -> dict[str, tuple[Any, Any]]:
    """name -> (the steps of its feature list as records, how many each record has; -1: no list)."""
    results = apply("sequence_steps", [serialized], AttrTable().strings("names", names))
    return {name: (results[2 * i], results[2 * i + 1]) for i, name in enumerate(names)}


def _fixed_steps(name: str, feature: Any, steps: Any, counts: Any, rank: int) -> Any:
    if not feature.allow_missing:
        message = f"feature list {name!r} is missing, and allow_missing is not set"
        Assert(counts >= np.int64(0), [message])
    described = FixedLenFeature(feature.shape, feature.dtype)
    values = _parse(steps, {name: described}, 1, "parse_sequence_example")[name]
    if rank == 0:
        return values
    return RaggedTensor.from_row_lengths(values, _present(counts)).to_tensor()


def _present(counts: Any) -> Any:
    """How many steps each record has; none where the list is missing."""
    return maximum(counts, counts * 0)


def _list_names(name: str, feature: Any) -> list[str]:
    """The feature lists that one description reads; that of the values is the first."""
    if not isinstance(feature, RaggedFeature):
        return [name]
    keys = [partition_key(name, p) for p in feature.partitions]
    return [feature.value_key or name, *(key for key in keys if key is not None)]


def _sequence(name: str, feature: Any, lists: dict[str, tuple[Any, Any]], rank: int) -> Any:
    """The feature list of one description."""
    names = _list_names(name, feature)
    steps, counts = lists[names[0]]
    if isinstance(feature, FixedLenSequenceFeature):
        return _fixed_steps(name, feature, steps, counts, rank)
    if not isinstance(feature, (VarLenFeature, RaggedFeature)):
        raise TypeError(
            f"feature list {name!r} is described by {type(feature).__name__}; use "
            "FixedLenSequenceFeature, VarLenFeature or RaggedFeature"
        )
    if isinstance(feature, VarLenFeature):
        rows = _rows(_read(steps, _wanted(name, feature), 1)[name], "int64")
        if rank == 0:
            return rows.to_sparse()
        return RaggedTensor.from_row_lengths(rows, _present(counts)).to_sparse()
    found = {w.key: _read(lists[w.key][0], [w], 1)[w.key] for w in _merge(_wanted(name, feature))}
    for other in names[1:]:
        same = reduce_all(_present(counts) == _present(lists[other][1]))
        Assert(same, [f"the feature lists {names[0]!r} and {other!r} have other numbers of steps"])
    rows = _ragged(name, feature, found, 1)
    if rank == 0:
        return rows
    return RaggedTensor.from_row_lengths(rows, cast(_present(counts), feature.row_splits_dtype))


def _parse_sequence(
    serialized: TensorLike, context: Any, sequence: Any, rank: int, what: str
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    if not context and not sequence:
        raise ValueError(f"{what}: context_features or sequence_features describe something")
    records = convert_to_tensor(serialized)
    _check_rank(records, rank, what)
    parsed = _parse(records, context, rank, what) if context else {}
    lists, lengths = dict[str, Any](), dict[str, Any]()
    if sequence:
        names = {n for name in sequence for n in _list_names(name, sequence[name])}
        found = _steps(records, sorted(names))
        for name in _in_order(sequence):
            lists[name] = _sequence(name, sequence[name], found, rank)
            if isinstance(sequence[name], FixedLenSequenceFeature):
                lengths[name] = _present(found[name][1])
    return parsed, lists, lengths


def parse_single_sequence_example(
    serialized: TensorLike,
    context_features: dict[str, Any] | None = None,
    sequence_features: dict[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read one serialized tf.SequenceExample.

    Parameters
    ----------
    serialized : tensor_like of string
        A scalar.
    context_features : dict, optional
        As the features of `parse_single_example`.
    sequence_features : dict, optional
        Name -> FixedLenSequenceFeature, VarLenFeature or RaggedFeature.
    example_name : optional
        Accepted and ignored.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    tuple of dict
        The context, and the feature lists: with an axis of steps in front. Those of a VarLenFeature
        are sparse, those of a RaggedFeature ragged.

    Raises
    ------
    ValueError
        Nothing is described.
    InvalidArgumentError
        It is no tf.SequenceExample, or lacks something, or has it with another shape or type.

    Examples
    --------
    >>> number = lambda n: mr.train.Feature(int64_list=mr.train.Int64List(value=[n]))
    >>> lists = mr.train.FeatureLists(
    ...     feature_list={"n": mr.train.FeatureList(feature=[number(3), number(4)])})
    >>> record = mr.train.SequenceExample(feature_lists=lists).SerializeToString()
    >>> context, sequence = mr.io.parse_single_sequence_example(
    ...     record, sequence_features={"n": mr.io.FixedLenSequenceFeature([], mr.int64)})
    >>> sequence
    {'n': array([3, 4])}
    """
    what = "parse_single_sequence_example"
    context, lists, _ = _parse_sequence(serialized, context_features, sequence_features, 0, what)
    return context, lists


def parse_sequence_example(
    serialized: TensorLike,
    context_features: dict[str, Any] | None = None,
    sequence_features: dict[str, Any] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Read a vector of serialized tf.SequenceExamples.

    Parameters
    ----------
    serialized : tensor_like of string
        A vector.
    context_features : dict, optional
        As the features of `parse_example`.
    sequence_features : dict, optional
        Name -> FixedLenSequenceFeature, VarLenFeature or RaggedFeature.
    example_names : optional
        Accepted and ignored.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    tuple of dict
        The context; the feature lists, with axes of records and steps in front, padded, sparse or
        ragged; the number of steps of each record in the padded ones.

    Raises
    ------
    ValueError
        Nothing is described.
    InvalidArgumentError
        One is no tf.SequenceExample, or lacks something, or has it with another shape or type.

    Examples
    --------
    >>> number = lambda n: mr.train.Feature(int64_list=mr.train.Int64List(value=[n]))
    >>> lists = mr.train.FeatureLists(
    ...     feature_list={"n": mr.train.FeatureList(feature=[number(3), number(4)])})
    >>> record = mr.train.SequenceExample(feature_lists=lists).SerializeToString()
    >>> context, sequence, lengths = mr.io.parse_sequence_example(
    ...     [record], sequence_features={"n": mr.io.FixedLenSequenceFeature([], mr.int64)})
    >>> sequence, lengths
    ({'n': array([[3, 4]])}, {'n': array([2])})
    """
    return _parse_sequence(
        serialized, context_features, sequence_features, 1, "parse_sequence_example"
    )
