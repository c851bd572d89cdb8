"""What features of examples look like: the descriptions that parse_example and its like take."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._data.spec import ShapeLike
from ..dtypes import DTypeLike


class FixedLenFeature(NamedTuple):
    """A feature that has one shape in all examples, as ``tf.io.FixedLenFeature``.

    Attributes
    ----------
    shape : sequence of int
        The shape; its first dimension may be unknown.
    dtype : dtype_like
        int64, float32 or string.
    default_value : tensor_like, optional
        For examples without the feature. None: they are an error.

    Examples
    --------
    >>> mr.io.FixedLenFeature([], mr.int64)
    FixedLenFeature(shape=[], dtype=mr.int64, default_value=None)
    """

    shape: ShapeLike
    dtype: DTypeLike
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A feature with any number of values of one shape, as ``tf.io.FixedLenSequenceFeature``.

    Attributes
    ----------
    shape : sequence of int
        Of one value.
    dtype : dtype_like
        int64, float32 or string.
    allow_missing : bool
        Whether an example without the feature has no values. In an example it has to be True; in
        the feature lists of a sequence example False makes it an error.
    default_value : tensor_like, optional
        What shorter ones of a vector of examples are padded with.

    Examples
    --------
    >>> mr.io.FixedLenSequenceFeature([], mr.int64, allow_missing=True).dtype
    mr.int64
    """

    shape: ShapeLike
    dtype: DTypeLike
    allow_missing: bool = False
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature with any number of values, as ``tf.io.VarLenFeature``.

    Attributes
    ----------
    dtype : dtype_like
        int64, float32 or string.

    Examples
    --------
    >>> mr.io.VarLenFeature(mr.int64)
    VarLenFeature(dtype=mr.int64)
    """

    dtype: DTypeLike


class SparseFeature(NamedTuple):
    """Two or more features that are a sparse tensor, as ``tf.io.SparseFeature``.

    Attributes
    ----------
    index_key : str or sequence of str
        Features with the places along each axis, int64.
    value_key : str
        The feature with the values.
    dtype : dtype_like
        Of the values: int64, float32 or string.
    size : int or sequence of int
        Of each axis.
    already_sorted : bool
        Whether the places of each example are in order; if not, they are put in order.

    Examples
    --------
    >>> mr.io.SparseFeature("at", "value", mr.float32, 10).size
    10
    """

    index_key: Any
    value_key: str
    dtype: DTypeLike
    size: Any
    already_sorted: bool = False


class _RowSplits(NamedTuple):
    """A partition: the feature `key` says where each row begins, and where the last one ends."""

    key: str


class _RowLengths(NamedTuple):
    """A partition: the feature `key` says how long each row is."""

    key: str


class _RowStarts(NamedTuple):
    """A partition: the feature `key` says where each row begins."""

    key: str


class _RowLimits(NamedTuple):
    """A partition: the feature `key` says where each row ends."""

    key: str


class _ValueRowIds(NamedTuple):
    """A partition: the feature `key` says the number of each value's row."""

    key: str


class _UniformRowLength(NamedTuple):
    """A partition: rows of one length."""

    length: int


class RaggedFeature(NamedTuple):
    """A feature with any number of values, as ``tf.io.RaggedFeature``.

    Attributes
    ----------
    dtype : dtype_like
        int64, float32 or string.
    value_key : str, optional
        The feature with the values; by default that of the description's name.
    partitions : sequence
        ``RaggedFeature.RowSplits(key)``, ``RowLengths(key)``, ``RowStarts(key)``,
        ``RowLimits(key)``, ``ValueRowIds(key)`` or ``UniformRowLength(n)``: how the values of an
        example are cut into rows; of several the first one is the outermost. Empty: they are a
        vector.
    row_splits_dtype : dtype_like, default "int32"
        Or int64.
    validate : bool
        Accepted and ignored: row splits are checked.

    Examples
    --------
    >>> mr.io.RaggedFeature(mr.string).dtype
    mr.string
    """

    dtype: DTypeLike
    value_key: str | None = None
    partitions: Any = ()
    row_splits_dtype: DTypeLike = "int32"
    validate: bool = False

    RowSplits = _RowSplits  # type: ignore[misc]
    RowLengths = _RowLengths  # type: ignore[misc]
    RowStarts = _RowStarts  # type: ignore[misc]
    RowLimits = _RowLimits  # type: ignore[misc]
    ValueRowIds = _ValueRowIds  # type: ignore[misc]
    UniformRowLength = _UniformRowLength  # type: ignore[misc]
