"""Values that go into groups: sums of segments, counts, partitions. `name` means nothing."""

from __future__ import annotations

from typing import Any, Sequence

from .._data.structure import is_composite, is_ragged
from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol, TensorLike
from .._graph.tensor import Tensor, apply1, compute
from ..dtypes import DTypeLike, as_dtype
from .arrays import concat, reshape, shape, where
from .constants import cast, fill, ones_like, range as _range, zeros
from .docs import described
from .elementwise import assert_, clip_by_value, maximum, minimum, sqrt
from .reductions import reduce_all, reduce_max
from .selection import boolean_mask

_SUM, _PROD, _MIN, _MAX = range(4)
_NAMES = ("reduce_sum", "reduce_prod", "reduce_min", "reduce_max")


def _segments(reduction: int, data: Any, ids: Any, count: Any) -> Any:
    """@count None: the ids do not decrease."""
    for value in (data, ids):
        if hasattr(value, "_aggregate") and count is not None:
            return value._aggregate(_NAMES[reduction], data, ids, count)
        if is_composite(value):
            raise TypeError("segments are of tensors; the unsorted ones of ragged tensors, too")
    attrs = AttrTable().int("reduction", reduction)
    inputs = [data, ids]
    if count is None:
        attrs.bool("sorted", True)
    elif isinstance(count, Symbol):
        inputs.append(count)
    else:
        attrs.int("count", count)
    return apply1("segment_reduce", inputs, attrs, same_dtype=False)


_SORTED = {"segment_ids": "tensor_like of int: To which segment each part belongs; in order."}
_SORTED_RESULT = "As many parts as the last number says, each of the shape of a part of `data`."


@described(_SORTED_RESULT, **_SORTED)
def segment_sum(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Any:
    """Add up the parts of a tensor that have one number.

    >>> mr.math.segment_sum([1, 2, 3], [0, 0, 1])
    array([3, 3], dtype=int32)
    """
    return _segments(_SUM, data, segment_ids, None)


@described(_SORTED_RESULT, **_SORTED)
def segment_prod(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Any:
    """Multiply the parts of a tensor that have one number; 1 for none.

    >>> mr.math.segment_prod([1, 2, 3], [0, 0, 1])
    array([2, 3], dtype=int32)
    """
    return _segments(_PROD, data, segment_ids, None)


@described(_SORTED_RESULT, **_SORTED)
def segment_min(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Any:
    """Find the smallest of the parts of a tensor that have one number; 0 for none.

    >>> mr.math.segment_min([1, 2, 3], [0, 0, 1])
    array([1, 3], dtype=int32)
    """
    return _segments(_MIN, data, segment_ids, None)


@described(_SORTED_RESULT, **_SORTED)
def segment_max(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Any:
    """Find the largest of the parts of a tensor that have one number; 0 for none.

    >>> mr.math.segment_max([1, 2, 3], [0, 0, 1])
    array([2, 3], dtype=int32)
    """
    return _segments(_MAX, data, segment_ids, None)


@described(_SORTED_RESULT, **_SORTED)
def segment_mean(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Any:
    """Compute the mean of the parts of a tensor that have one number (of integers an integer).

    >>> mr.math.segment_mean([1.0, 2.0, 3.0], [0, 0, 1])
    array([1.5, 3. ], dtype=float32)
    """

    def body(x: Tensor, ids: Tensor) -> Any:
        sums = _segments(_SUM, x, ids, None)
        counts = _per_part(x, cast(_segments(_SUM, ones_like(ids), ids, None), x.dtype))
        op = "div" if x.dtype.is_floating else "truncate_div"
        return apply1(op, [sums, maximum(counts, 1)])

    return compute(body, [data, segment_ids], same_dtype=False)


def _per_part(data: Tensor, counts: Any) -> Any:
    """A number for each segment, to stand beside the parts of @data."""
    if data.shape.rank is None or counts.shape.rank is None:
        raise ValueError("segments are of tensors of known rank")
    behind = data.shape.rank - 1
    return reshape(counts, [-1] + [1] * behind)


_UNSORTED = {
    "segment_ids": "tensor_like of int: To which segment each part belongs: of the shape of the "
    "first axes of `data`. Parts with a negative number are left out."
}
_UNSORTED_RESULT = "`num_segments` parts, each of the shape of a part of `data`."


@described(_UNSORTED_RESULT, **_UNSORTED)
def unsorted_segment_sum(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Any:
    """Add up the parts of a tensor that have one number, in any order.

    >>> mr.math.unsorted_segment_sum([1, 2, 3], [1, 0, 1], 2)
    array([2, 4], dtype=int32)
    """
    return _segments(_SUM, data, segment_ids, num_segments)


@described(_UNSORTED_RESULT, **_UNSORTED)
def unsorted_segment_prod(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Any:
    """Multiply the parts of a tensor that have one number, in any order; 1 for none.

    >>> mr.math.unsorted_segment_prod([1, 2, 3], [1, 0, 1], 2)
    array([2, 3], dtype=int32)
    """
    return _segments(_PROD, data, segment_ids, num_segments)


@described(_UNSORTED_RESULT, **_UNSORTED)
def unsorted_segment_min(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Any:
    """Find the smallest of the parts that have one number; the dtype's highest value for none.

    >>> mr.math.unsorted_segment_min([1, 2, 3], [1, 0, 1], 2)
    array([2, 1], dtype=int32)
    """
    return _segments(_MIN, data, segment_ids, num_segments)


@described(_UNSORTED_RESULT, **_UNSORTED)
def unsorted_segment_max(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Any:
    """Find the largest of the parts that have one number; the dtype's lowest value for none.

    >>> mr.math.unsorted_segment_max([1, 2, 3], [1, 0, 1], 2)
    array([2, 3], dtype=int32)
    """
    return _segments(_MAX, data, segment_ids, num_segments)


def _unsorted_counts(x: Any, ids: Any, count: Any, dtype: DTypeLike) -> Any:
    """How many parts each segment has, at least 1, to stand beside the sums."""
    if is_composite(x):
        return _segments(_SUM, ones_like(x), ids, count)
    if x.shape.rank is None or ids.shape.rank is None:
        raise ValueError("segments are of tensors of known rank")
    numbers = maximum(cast(_segments(_SUM, ones_like(ids), ids, count), dtype), 1)
    return reshape(numbers, [-1] + [1] * (x.shape.rank - ids.shape.rank))


def _with_count(body: Any, data: Any, ids: Any, count: Any) -> Any:
    """@body of tensors and the number of segments, which may be a tensor."""
    if is_composite(data):
        return body(data, ids, count)
    if isinstance(count, Symbol):
        return compute(body, [data, ids, count], same_dtype=False)
    return compute(lambda x, places: body(x, places, count), [data, ids], same_dtype=False)


@described(_UNSORTED_RESULT, **_UNSORTED)
def unsorted_segment_mean(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Any:
    """Compute the mean of the parts of a tensor that have one number; 0 for none.

    Integers give floats, as with /.

    >>> mr.math.unsorted_segment_mean([1.0, 2.0, 3.0], [1, 0, 1], 2)
    array([2., 2.], dtype=float32)
    """

    def body(x: Tensor, ids: Tensor, count: Any) -> Any:
        return _segments(_SUM, x, ids, count) / _unsorted_counts(x, ids, count, x.dtype)

    return _with_count(body, data, segment_ids, num_segments)


@described(_UNSORTED_RESULT, **_UNSORTED)
def unsorted_segment_sqrt_n(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Any:
    """Add up the floats that have one number, and divide by the root of how many they are.

    >>> mr.math.unsorted_segment_sqrt_n([1.0, 2.0, 3.0, 4.0, 5.0], [1, 0, 1, 1, 1], 2)
    array([2. , 6.5], dtype=float32)
    """

    def body(x: Tensor, ids: Tensor, count: Any) -> Any:
        return _segments(_SUM, x, ids, count) / sqrt(_unsorted_counts(x, ids, count, x.dtype))

    return _with_count(body, data, segment_ids, num_segments)


@described(
    "A vector, or with `axis=-1` a matrix with a row for each row of `arr`.",
    arr="tensor_like of int: Numbers from 0 on.",
    weights="tensor_like, optional: What each number counts, of the shape of `arr`.",
    minlength="int, optional: How long the result is at least.",
    maxlength="int, optional: How long it is at most: larger numbers do not count.",
    dtype='dtype_like, default "int32": Of the result, without weights.',
    axis="int, optional: None or 0 counts all numbers together, -1 each row of a matrix by itself.",
    binary_output="bool, default False: Whether to say only if a number is there.",
)
def bincount(
    arr: TensorLike,
    weights: TensorLike | None = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: DTypeLike = "int32",
    name: str | None = None,
    axis: int | None = None,
    binary_output: bool = False,
) -> Any:
    """Count how often each number is there.

    >>> mr.math.bincount([1, 1, 3])
    array([0, 2, 0, 1], dtype=int32)
    """
    if axis not in (None, 0, -1):
        raise ValueError(f"axis is None, 0 or -1, not {axis}")
    if binary_output and weights is not None:
        raise ValueError("binary_output takes no weights")

    ragged = is_ragged(arr) and axis == -1

    def body(numbers: Tensor, *rest: Tensor) -> Any:
        given = list(rest)
        if numbers.dtype.name not in ("int32", "int64"):
            raise TypeError(f"bincount takes int32 or int64, not {numbers.dtype.name}")
        rows = ragged or (numbers.shape.rank == 2 and axis == -1)
        flat = cast(reshape(numbers, [-1]), "int64")
        flat = assert_(flat, reduce_all(flat >= 0), "bincount: a number is negative")
        length = _length(flat, minlength, maxlength)
        ids = where(flat < length, flat, -1)
        if rows:
            row, parts = (given.pop(0), given.pop(0)) if ragged else _row_of_each(numbers)
            ids = where(ids >= 0, ids + row * length, -1)
        values = reshape(given[0], [-1]) if given else cast(ones_like(flat), dtype)
        count = length * parts if rows else length
        result = _segments(_MAX if binary_output else _SUM, values, ids, count)
        if binary_output:
            result = maximum(result, 0)
        return reshape(result, [parts, length]) if rows else result

    inputs = _ragged_numbers(arr, ragged) if is_ragged(arr) else [arr]
    if weights is not None:
        inputs.append(weights.flat_values if is_ragged(weights) else weights)
    return compute(body, inputs, same_dtype=False)


def _ragged_numbers(arr: Any, by_row: bool) -> list[Any]:
    """The numbers of the ragged tensor @arr; @by_row, also the row of each, and how many there are."""
    if not by_row:
        return [arr.flat_values]
    if arr.shape.rank != 2:
        raise ValueError(f"bincount of rows takes a ragged tensor of 2 axes, not {arr.shape}")
    return [arr.values, cast(arr.value_rowids(), "int64"), arr.nrows("int64")]


def _row_of_each(matrix: Tensor) -> tuple[Any, Any]:
    """The row of each number of @matrix, and how many there are."""
    count = shape(matrix, "int64")[0]
    nothing = cast(apply1("zeros_like", [matrix]), "int64")
    return reshape(reshape(_range(count), [-1, 1]) + nothing, [-1]), count


def _length(flat: Any, least: Any, most: Any) -> Any:
    """One more than the largest number, within bounds that may be tensors."""
    padded = concat([flat, cast([-1], "int64")], 0)
    length = reduce_max(padded) + 1
    if least is not None:
        length = maximum(length, cast(least, "int64"))
    return length if most is None else minimum(length, cast(most, "int64"))


_WIDTHS = {
    "values": "tensor_like: Numbers.",
    "value_range": "tensor_like: Two numbers: where the first bin begins, and where the last one "
    "ends.",
    "nbins": "int, or scalar tensor, default 100: How many bins of one width.",
    "dtype": 'dtype_like, default "int32": Of the result.',
}


@described("Which bin each value falls into, of the shape of `values`.", **_WIDTHS)
def histogram_fixed_width_bins(
    values: TensorLike,
    value_range: TensorLike,
    nbins: Any = 100,
    dtype: DTypeLike = "int32",
    name: str | None = None,
) -> Any:
    """Find into which bin each value falls; what is outside of the range falls into the next one.

    >>> mr.histogram_fixed_width_bins([-1.0, 0.5, 9.0], [0.0, 2.0], nbins=2)
    array([0, 0, 1], dtype=int32)
    """

    def body(x: Tensor, ends: Tensor) -> Any:
        low, high = cast(ends[0], "float64"), cast(ends[1], "float64")
        x = assert_(x, low < high, "value_range: the first number is below the second one")
        count = cast(nbins, "float64")
        place = apply1("floor", [(cast(x, "float64") - low) / (high - low) * count])
        return cast(clip_by_value(place, 0.0, count - 1.0), dtype)

    return compute(body, [values, value_range])


@described("A vector: how many values fall into each bin.", **_WIDTHS)
def histogram_fixed_width(
    values: TensorLike,
    value_range: TensorLike,
    nbins: Any = 100,
    dtype: DTypeLike = "int32",
    name: str | None = None,
) -> Any:
    """Count how many values fall into each of some bins of one width.

    >>> mr.histogram_fixed_width([-1.0, 0.5, 9.0], [0.0, 2.0], nbins=2)
    array([2, 1], dtype=int32)
    """

    def body(x: Any, ends: Any) -> Any:
        x = assert_(x, reduce_all(x == x), "histogram_fixed_width: a value is NaN")
        places = reshape(histogram_fixed_width_bins(x, ends, nbins, "int64"), [-1])
        return _segments(_SUM, cast(ones_like(places), dtype), places, nbins)

    return compute(body, [values, value_range])


@described(
    "[classes, classes]: how often label i was predicted as j.",
    labels="tensor_like of int: A vector of classes.",
    predictions="tensor_like of int: A vector of classes of the same length.",
    num_classes="int, or scalar tensor, optional: One more than the largest class, by default.",
    weights="tensor_like, optional: What each pair counts.",
    dtype='dtype_like, default "int32": Of the result.',
)
def confusion_matrix(
    labels: TensorLike,
    predictions: TensorLike,
    num_classes: Any = None,
    weights: TensorLike | None = None,
    dtype: DTypeLike = "int32",
    name: str | None = None,
) -> Any:
    """Count which classes were taken for which.

    >>> mr.math.confusion_matrix([0, 1, 1], [0, 1, 0])
    array([[1, 0],
           [1, 1]], dtype=int32)
    """

    def body(right: Tensor, found: Tensor, *given: Tensor) -> Any:
        right, found = cast(right, "int64"), cast(found, "int64")
        count = reduce_max(concat([right, found], 0)) + 1
        if num_classes is not None:
            count = cast(num_classes, "int64")
        inside = (minimum(right, found) >= 0) & (maximum(right, found) < count)
        right = assert_(right, reduce_all(inside), "confusion_matrix: a class is out of range")
        values = cast(given[0] if given else ones_like(right), dtype)
        return reshape(
            _segments(_SUM, values, right * count + found, count * count), [count, count]
        )

    inputs = [labels, predictions] + ([] if weights is None else [weights])
    return compute(body, inputs, same_dtype=False)


@described(
    "A list of tensors.",
    partitions="tensor_like of int: Into which part each goes, from 0 on: of the shape of the first "
    "axes of `data`.",
    num_partitions="int: How many parts.",
)
def dynamic_partition(
    data: TensorLike, partitions: TensorLike, num_partitions: int, name: str | None = None
) -> list[Any]:
    """Put the parts of a tensor into several tensors.

    >>> mr.dynamic_partition([10, 20, 30], [0, 1, 0], 2)
    [array([10, 30], dtype=int32), array([20], dtype=int32)]
    """
    if num_partitions < 1:
        raise ValueError(f"num_partitions is 1 or more, not {num_partitions}")
    for value in (data, partitions):
        if hasattr(value, "_partition"):
            ragged: list[Any] = value._partition(data, partitions, num_partitions)
            return ragged

    def body(x: Any, parts: Any) -> Any:
        inside = reduce_all((parts >= 0) & (parts < num_partitions))
        x = assert_(x, inside, f"a partition is not in [0, {num_partitions})")
        if parts.shape.rank == 0:
            x, parts = apply1("expand_dims", [x], AttrTable().int("axis", 0)), reshape(parts, [1])
        return [boolean_mask(x, parts == i) for i in range(num_partitions)]

    result: list[Any] = compute(body, [data, partitions], same_dtype=False)
    return result


@described(
    "As many parts as the largest number says; 0 where none went.",
    indices="list of tensor_like of int: Where each part of each tensor goes.",
    data="list of tensor_like: Each has the axes of its indices first.",
)
def dynamic_stitch(
    indices: Sequence[TensorLike], data: Sequence[TensorLike], name: str | None = None
) -> Any:
    """Put the parts of several tensors into one; of several for one place the last one stays.

    >>> mr.dynamic_stitch([[0, 2], [1]], [[10, 30], [20]])
    array([10, 20, 30], dtype=int32)
    """
    if len(indices) != len(data) or not data:
        raise ValueError(f"{len(indices)} lists of indices for {len(data)} tensors")

    def body(*both: Tensor) -> Any:
        places, values = both[: len(data)], both[len(data) :]
        rank = places[0].shape.rank
        if rank is None or values[0].shape.rank is None:
            raise ValueError("dynamic_stitch takes tensors of known rank")
        inner = shape(values[0], "int64")[rank:]
        flat = concat([cast(reshape(p, [-1]), "int64") for p in places], 0)
        parts = concat([reshape(v, concat([cast([-1], "int64"), inner], 0)) for v in values], 0)
        count = reduce_max(concat([flat, cast([-1], "int64")], 0)) + 1
        whole = concat([reshape(count, [1]), inner], 0)
        kind = as_dtype(values[0].dtype)
        empty = fill(whole, zeros([], kind))
        return apply1("scatter", [empty, reshape(flat, [-1, 1]), parts], same_dtype=False)

    return compute(body, [*indices, *data], same_dtype=False)
