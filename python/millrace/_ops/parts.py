"""Ragged tensors among what map_fn maps and gives: as tensors that have a row for each part."""

from __future__ import annotations

from typing import Any

from .._data.composite import RaggedTensorSpec
from .._data.structure import is_composite, is_ragged
from .._graph.tensor import convert_to_tensor
from .arrays import shape
from .constants import cast
from .ragged.tensor import RaggedTensor


def mapped(value: Any) -> list[Any]:
    """@value as tensors with one first axis: of a ragged one the rows, padded, and their lengths."""
    if not is_composite(value):
        return [value]
    if not is_ragged(value):
        raise TypeError("map_fn maps tensors and ragged tensors: use mr.sparse.to_dense before")
    lengths = [value.row_lengths()]
    for axis in range(2, value.ragged_rank + 1):
        lengths.append(value.row_lengths(axis).to_tensor())
    return [value.to_tensor(), *lengths]


def part_of(value: Any, tensors: list[Any]) -> Any:
    """The part that the first of @tensors are, which mapped() has made of @value; they go."""
    part = tensors.pop(0)
    if not is_composite(value):
        return part
    length = tensors.pop(0)
    inner = [tensors.pop(0)[:length] for _ in range(value.ragged_rank - 1)]
    return _unpadded(part[:length], inner)


def _unpadded(values: Any, lengths: list[Any]) -> Any:
    """Rows of padded @values that are as long as @lengths say, of each ragged axis."""
    if not lengths:
        return values
    rows = RaggedTensor.from_tensor(values, lengths=lengths[0])
    inner = [RaggedTensor.from_tensor(more, lengths=lengths[0]).values for more in lengths[1:]]
    return rows.with_values(_unpadded(rows.values, inner))


def spec_like(elem: Any, result: Any) -> RaggedTensorSpec | None:
    """What @result for a part of @elem is where nothing else is said: a row again of rows."""
    if is_ragged(elem) and elem.ragged_rank == 1 and not is_composite(result):
        tensor = convert_to_tensor(result)
        if tensor.ndim:
            return RaggedTensorSpec([None] * tensor.ndim, tensor.dtype, 0, elem.row_splits.dtype)
    return None


class Results:
    """What the function gives for a part, taken apart into tensors, and put together for all."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.joined: list[int] = []  # these are put behind one another, not stacked
        self._ranks: list[tuple[int, Any]] = []  # ragged axes of a part (-1: a tensor); of splits

    def add(self, value: Any, wanted: Any) -> None:
        """A component @value; @wanted is its spec or dtype, or None."""
        if not is_composite(value) and not isinstance(wanted, RaggedTensorSpec):
            self.tensors.append(convert_to_tensor(value))
            self._ranks.append((-1, None))
            return
        if is_composite(value) and not is_ragged(value):
            raise TypeError("the function given to map_fn returns a sparse tensor: use to_dense")
        rows = value if is_ragged(value) else convert_to_tensor(value)
        rank = rows.ragged_rank if is_ragged(value) else 0
        if isinstance(wanted, RaggedTensorSpec) and wanted.ragged_rank != rank:
            raise TypeError(
                f"the function given to map_fn returns a tensor with {rank} ragged axes, "
                f"fn_output_signature says {wanted.ragged_rank}"
            )
        if not is_ragged(value) and rows.ndim == 0:
            raise ValueError("the function given to map_fn returns a scalar: a ragged row has none")
        splits = wanted.row_splits_dtype if isinstance(wanted, RaggedTensorSpec) else "int64"
        self._ranks.append((rank, splits))
        self.tensors.append(rows.nrows("int64") if is_ragged(value) else shape(rows, "int64")[0])
        lengths = rows.nested_row_lengths() if is_ragged(value) else ()
        for tensor in (*lengths, rows.flat_values if is_ragged(value) else rows):
            self.joined.append(len(self.tensors))
            self.tensors.append(tensor)

    def together(self, tensors: list[Any]) -> list[Any]:
        """The components, of all parts' tensors."""
        rest = list(tensors)
        made = []
        for rank, splits in self._ranks:
            lengths = [rest.pop(0) for _ in range(rank + 1)]
            value = rest.pop(0)
            for row_lengths in reversed(lengths):
                value = RaggedTensor.from_row_lengths(
                    value, cast(row_lengths, splits), validate=False
                )
            made.append(value)
        return made
