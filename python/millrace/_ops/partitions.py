"""How the values of a RaggedFeature are cut into rows."""

from __future__ import annotations

from typing import Any, Callable

from .._data.structure import is_ragged
from ..dtypes import DTypeLike
from .arrays import gather, reshape
from .constants import cast
from .elementwise import maximum
from .features import RaggedFeature
from .ragged.reduced import reduced_rows
from .ragged.rows import splits_of
from .ragged.tensor import RaggedTensor
from .reductions import reduce_sum
from .selection import cumsum

_OF_ONE: dict[Any, Callable[..., Any]] = {
    RaggedFeature.RowSplits: RaggedTensor.from_row_splits,
    RaggedFeature.RowLengths: RaggedTensor.from_row_lengths,
    RaggedFeature.RowStarts: RaggedTensor.from_row_starts,
    RaggedFeature.RowLimits: RaggedTensor.from_row_limits,
    RaggedFeature.ValueRowIds: RaggedTensor.from_value_rowids,
}


def partition_key(name: str, partition: Any) -> str | None:
    """The feature that @partition of the feature @name reads; TypeError if it is none."""
    if type(partition) in _OF_ONE:
        return str(partition.key)
    if isinstance(partition, RaggedFeature.UniformRowLength):
        if partition.length < 1:
            raise ValueError(f"feature {name!r}: rows have a length of at least 1: {partition!r}")
        return None
    raise TypeError(
        f"feature {name!r}: {partition!r} is no partition; use RaggedFeature.RowSplits, RowLengths, "
        "RowStarts, RowLimits, ValueRowIds or UniformRowLength"
    )


def _even(values: Any, length: int) -> Any:
    """@values in rows of @length."""
    if is_ragged(values):
        return RaggedTensor.from_uniform_row_length(values, length)
    return reshape(values, [-1, length, *values.shape[1:]])


def cut(values: Any, partition: Any, numbers: Any, dtype: DTypeLike) -> Any:
    """
    The @values of one example in rows. @numbers is what the feature has that the partition names.
    """
    if isinstance(partition, RaggedFeature.UniformRowLength):
        return _even(values, partition.length)
    return _OF_ONE[type(partition)](values, cast(numbers, dtype))


def cut_each(examples: RaggedTensor, partition: Any, numbers: Any, dtype: DTypeLike) -> Any:
    """
    The values of each of @examples [examples, values, ...] in rows. @numbers are ragged:
    [examples, numbers].
    """
    values = examples.values
    if isinstance(partition, RaggedFeature.UniformRowLength):
        return RaggedTensor.from_row_splits(
            _even(values, partition.length), examples.row_splits // partition.length
        )
    numbers = numbers.with_values(cast(numbers.values, dtype))
    outer = numbers.row_splits
    if isinstance(partition, RaggedFeature.RowLengths):
        rows = RaggedTensor.from_row_lengths(values, numbers.values)
    elif isinstance(partition, RaggedFeature.ValueRowIds):
        counts = maximum(reduced_rows(numbers.values + 1, outer, "reduce_max"), 0)
        before = gather(cumsum(counts, exclusive=True), numbers.value_rowids())
        rows = RaggedTensor.from_value_rowids(values, numbers.values + before, reduce_sum(counts))
        outer = splits_of(counts)
    else:
        if isinstance(partition, RaggedFeature.RowSplits):
            # The first one of each example is 0; what follows is where rows end.
            numbers = numbers[:, 1:]
            outer = numbers.row_splits
        bounds = numbers.values + gather(examples.row_starts(), numbers.value_rowids())
        starts = isinstance(partition, RaggedFeature.RowStarts)
        make = RaggedTensor.from_row_starts if starts else RaggedTensor.from_row_limits
        rows = make(values, bounds)
    return RaggedTensor.from_row_splits(rows, outer)
