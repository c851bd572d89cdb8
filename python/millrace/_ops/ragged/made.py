"""Making ragged tensors."""

from __future__ import annotations

from typing import Any, Self, Sequence

import numpy as np

from ... import errors
from ..._graph.attrs import AttrTable
from ..._graph.symbol import TensorLike
from ..._graph.tensor import apply1, convert_to_tensor
from ...dtypes import DTypeLike, as_dtype
from ..arrays import concat, expand_dims, gather, reshape, shape as _shape, where
from ..constants import cast, range as _range, zeros
from ..elementwise import assert_, maximum, minimum, not_equal
from ..reductions import reduce_all, reduce_max
from ..selection import boolean_mask, sequence_mask
from ..sparse import SparseTensor
from .rows import as_ints, check_splits, column_of_zeros, known_int, row_count, splits_of
from .rows import uniform, values_of


class RaggedParts:
    """Values and row splits, and the methods that make a ragged tensor of something else."""

    __slots__ = ("_values", "_row_splits")

    def __init__(self, values: Any, row_splits: Any) -> None:
        self._values = values
        self._row_splits = row_splits

    @property
    def values(self) -> Any:
        """The rows, one behind the other."""
        return self._values

    @property
    def row_splits(self) -> Any:
        """Where each row begins, and where the last one ends: one more than there are rows."""
        return self._row_splits

    @classmethod
    def from_row_splits(
        cls, values: Any, row_splits: TensorLike, name: str | None = None, validate: bool = True
    ) -> Self:
        """Make a ragged tensor of values and where each row begins.

        Parameters
        ----------
        values : tensor_like or RaggedTensor
            The rows, one behind the other.
        row_splits : tensor_like of int
            Begins with 0, does not decrease, ends with the number of values.
        name : str, optional
            Accepted and ignored.
        validate : bool, default True
            Whether the splits are checked: now outside of functions, else with the element.

        Returns
        -------
        RaggedTensor
            One row less than there are splits.

        Raises
        ------
        InvalidArgumentError
            The splits do not fit.

        Examples
        --------
        >>> mr.RaggedTensor.from_row_splits([1, 2, 3], [0, 2, 3])
        <RaggedTensor [[1, 2], [3]]>
        """
        values, splits = values_of(values), convert_to_tensor(as_ints(row_splits))
        if splits.ndim != 1:
            raise ValueError(f"row_splits is a vector, not of shape {splits.shape}")
        if validate:
            check_splits(values, splits)
        return cls(values, splits)

    @classmethod
    def from_row_lengths(
        cls, values: Any, row_lengths: TensorLike, name: str | None = None, validate: bool = True
    ) -> Self:
        """Make a ragged tensor of values and the length of each row.

        Parameters
        ----------
        values : tensor_like or RaggedTensor
            The rows, one behind the other.
        row_lengths : tensor_like of int
            Their sum is the number of values.
        name : str, optional
            Accepted and ignored.
        validate : bool, default True
            As in `from_row_splits`.

        Returns
        -------
        RaggedTensor
            As many rows as lengths.

        Examples
        --------
        >>> mr.RaggedTensor.from_row_lengths([1, 2, 3], [2, 0, 1])
        <RaggedTensor [[1, 2], [], [3]]>
        """
        lengths = convert_to_tensor(as_ints(row_lengths))
        return cls.from_row_splits(values, splits_of(lengths), validate=validate)

    @classmethod
    def from_row_starts(
        cls, values: Any, row_starts: TensorLike, name: str | None = None, validate: bool = True
    ) -> Self:
        """Make a ragged tensor of values and where each row begins, without the end.

        Parameters
        ----------
        values : tensor_like or RaggedTensor
            The rows, one behind the other.
        row_starts : tensor_like of int
            Begins with 0, does not decrease.
        name : str, optional
            Accepted and ignored.
        validate : bool, default True
            As in `from_row_splits`.

        Returns
        -------
        RaggedTensor
            As many rows as starts.

        Examples
        --------
        >>> mr.RaggedTensor.from_row_starts([1, 2, 3], [0, 2])
        <RaggedTensor [[1, 2], [3]]>
        """
        values, starts = values_of(values), convert_to_tensor(as_ints(row_starts))
        end = reshape(cast(row_count(values), starts.dtype), [1])
        return cls.from_row_splits(values, concat([starts, end], 0), validate=validate)

    @classmethod
    def from_row_limits(
        cls, values: Any, row_limits: TensorLike, name: str | None = None, validate: bool = True
    ) -> Self:
        """Make a ragged tensor of values and where each row ends.

        Parameters
        ----------
        values : tensor_like or RaggedTensor
            The rows, one behind the other.
        row_limits : tensor_like of int
            Does not decrease, ends with the number of values.
        name : str, optional
            Accepted and ignored.
        validate : bool, default True
            As in `from_row_splits`.

        Returns
        -------
        RaggedTensor
            As many rows as limits.

        Examples
        --------
        >>> mr.RaggedTensor.from_row_limits([1, 2, 3], [2, 3])
        <RaggedTensor [[1, 2], [3]]>
        """
        limits = convert_to_tensor(as_ints(row_limits))
        splits = concat([zeros([1], limits.dtype), limits], 0)
        return cls.from_row_splits(values, splits, validate=validate)

    @classmethod
    def from_value_rowids(
        cls,
        values: Any,
        value_rowids: TensorLike,
        nrows: TensorLike | None = None,
        name: str | None = None,
        validate: bool = True,
    ) -> Self:
        """Make a ragged tensor of values and the number of each one's row.

        Parameters
        ----------
        values : tensor_like or RaggedTensor
            The rows, one behind the other.
        value_rowids : tensor_like of int
            Does not decrease.
        nrows : tensor_like of int, optional
            How many rows there are; by default one more than the last number.
        name : str, optional
            Accepted and ignored.
        validate : bool, default True
            As in `from_row_splits`.

        Returns
        -------
        RaggedTensor
            With `nrows` rows.

        Examples
        --------
        >>> mr.RaggedTensor.from_value_rowids([1, 2, 3], [0, 0, 2])
        <RaggedTensor [[1, 2], [], [3]]>
        """
        ids = convert_to_tensor(as_ints(value_rowids))
        if validate:
            message = "from_value_rowids: the numbers of rows do not decrease"
            ids = assert_(ids, reduce_all(ids[1:] >= ids[:-1]), message)
        if nrows is None:
            rows = reduce_max(concat([ids, -np.ones(1, as_dtype(ids.dtype).numpy_dtype())], 0)) + 1
        else:
            rows = known_int(nrows)
        bounds = np.arange(rows + 1) if isinstance(rows, int) else _range(cast(rows, "int64") + 1)
        numbers = cast(bounds, ids.dtype)
        attrs = AttrTable().dtype("dtype", ids.dtype)
        splits = apply1("searchsorted", [ids, numbers], attrs)
        return cls.from_row_splits(values, splits, validate=validate)

    @classmethod
    def from_uniform_row_length(
        cls,
        values: Any,
        uniform_row_length: TensorLike,
        nrows: TensorLike | None = None,
        validate: bool = True,
        name: str | None = None,
    ) -> Self:
        """Make a ragged tensor whose rows have one length.

        Parameters
        ----------
        values : tensor_like or RaggedTensor
            The rows, one behind the other.
        uniform_row_length : tensor_like of int
            At least 1; 0 only with `nrows`.
        nrows : tensor_like of int, optional
            How many rows there are.
        validate : bool, default True
            As in `from_row_splits`.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        RaggedTensor
            Of rows of that length.

        Examples
        --------
        >>> mr.RaggedTensor.from_uniform_row_length([1, 2, 3, 4], 2)
        <RaggedTensor [[1, 2], [3, 4]]>
        """
        values, length = values_of(values), cast(convert_to_tensor(uniform_row_length), "int64")
        rows = (
            row_count(values) // length
            if nrows is None
            else cast(convert_to_tensor(nrows), "int64")
        )
        return cls.from_row_splits(values, _range(rows + 1) * length, validate=validate)

    @classmethod
    def from_nested_row_splits(
        cls,
        flat_values: TensorLike,
        nested_row_splits: Sequence[TensorLike],
        name: str | None = None,
        validate: bool = True,
    ) -> Any:
        """Make a ragged tensor of values and the splits of each axis.

        Parameters
        ----------
        flat_values : tensor_like
            The innermost values.
        nested_row_splits : sequence of tensor_like of int
            The outermost first.
        name : str, optional
            Accepted and ignored.
        validate : bool, default True
            As in `from_row_splits`.

        Returns
        -------
        RaggedTensor
            As many ragged axes as splits.

        Examples
        --------
        >>> mr.RaggedTensor.from_nested_row_splits([1, 2, 3], [[0, 1, 2], [0, 2, 3]])
        <RaggedTensor [[[1, 2]], [[3]]]>
        """
        result: Any = flat_values
        for splits in reversed(nested_row_splits):
            result = cls.from_row_splits(result, splits, validate=validate)
        return result

    @classmethod
    def from_nested_row_lengths(
        cls,
        flat_values: TensorLike,
        nested_row_lengths: Sequence[TensorLike],
        name: str | None = None,
        validate: bool = True,
    ) -> Any:
        """Make a ragged tensor of values and the row lengths of each axis.

        Parameters
        ----------
        flat_values : tensor_like
            The innermost values.
        nested_row_lengths : sequence of tensor_like of int
            The outermost first.
        name : str, optional
            Accepted and ignored.
        validate : bool, default True
            As in `from_row_splits`.

        Returns
        -------
        RaggedTensor
            As many ragged axes as lengths.

        Examples
        --------
        >>> mr.RaggedTensor.from_nested_row_lengths([1, 2, 3], [[1, 1], [2, 1]])
        <RaggedTensor [[[1, 2]], [[3]]]>
        """
        result: Any = flat_values
        for lengths in reversed(nested_row_lengths):
            result = cls.from_row_lengths(result, lengths, validate=validate)
        return result

    @classmethod
    def from_nested_value_rowids(
        cls,
        flat_values: Any,
        nested_value_rowids: Sequence[TensorLike],
        nested_nrows: Sequence[TensorLike] | None = None,
        name: str | None = None,
        validate: bool = True,
    ) -> Self:
        """Make a ragged tensor of values and the numbers of the rows of each ragged axis.

        Parameters
        ----------
        flat_values : tensor_like
            The innermost values.
        nested_value_rowids : sequence of tensor_like of int
            The outermost first.
        nested_nrows : sequence of tensor_like of int, optional
            How many rows there are, for each of them.
        name : str, optional
            Accepted and ignored.
        validate : bool, default True
            As in `from_row_splits`.

        Returns
        -------
        RaggedTensor
            With as many ragged axes.

        Examples
        --------
        >>> mr.RaggedTensor.from_nested_value_rowids([1, 2, 3], [[0, 1], [0, 0, 1]])
        <RaggedTensor [[[1, 2]], [[3]]]>
        """
        counts: list[Any] = [None] * len(nested_value_rowids)
        counts = counts if nested_nrows is None else list(nested_nrows)
        if len(counts) != len(nested_value_rowids) or not counts:
            raise ValueError(
                "there are as many nested_nrows as nested_value_rowids, and one or more"
            )
        result = flat_values
        for ids, rows in zip(reversed(nested_value_rowids), reversed(counts)):
            result = cls.from_value_rowids(result, ids, rows, validate=validate)
        return result  # type: ignore[no-any-return]

    @classmethod
    def from_tensor(
        cls,
        tensor: TensorLike,
        lengths: TensorLike | None = None,
        padding: TensorLike | None = None,
        ragged_rank: int = 1,
        name: str | None = None,
        row_splits_dtype: DTypeLike = "int64",
    ) -> Self:
        """Make a ragged tensor of an ordinary one.

        Parameters
        ----------
        tensor : tensor_like
            Of rank 2 or more.
        lengths : tensor_like of int, optional
            How much of each row stays.
        padding : scalar, optional
            Instead: what is behind the last other value of a row goes.
        ragged_rank : int, default 1
            How many axes become ragged; 1 with `lengths` or `padding`.
        name : str, optional
            Accepted and ignored.
        row_splits_dtype : dtype_like, default "int64"
            Or int32.

        Returns
        -------
        RaggedTensor
            Of the same values, less what went.

        Raises
        ------
        ValueError
            Both `lengths` and `padding` are given, or the rank is too small.

        Examples
        --------
        >>> mr.RaggedTensor.from_tensor([[1, 2, 0], [3, 0, 0]], padding=0)
        <RaggedTensor [[1, 2], [3]]>
        """
        dense, dtype = convert_to_tensor(tensor), as_dtype(row_splits_dtype)
        if lengths is not None and padding is not None:
            raise ValueError("from_tensor takes lengths or padding, not both")
        if dense.ndim is None or not 1 <= ragged_rank < dense.ndim:
            raise ValueError(
                f"from_tensor: a tensor of shape {dense.shape} cannot have ragged_rank {ragged_rank}"
            )
        if lengths is None and padding is None:
            even: Self = uniform(cls, dense, ragged_rank, dtype)
            return even
        if ragged_rank != 1:
            raise errors.UnimplementedError(
                "from_tensor with lengths or padding is supported for ragged_rank=1"
            )
        width = _shape(dense, "int64")[1]
        if lengths is None:
            assert padding is not None
            other = not_equal(dense, convert_to_tensor(padding, dense.dtype))
            places = where(other, expand_dims(_range(width) + 1, 0), np.int64(0))
            counts = reduce_max(concat([places, column_of_zeros(dense)], 1), axis=1)
        else:
            given = cast(convert_to_tensor(lengths), "int64")
            counts = minimum(maximum(given, np.int64(0)), width)
        mask = sequence_mask(counts, width)
        return cls(boolean_mask(dense, mask), splits_of(cast(counts, dtype)))

    @classmethod
    def from_sparse(
        cls, st_input: SparseTensor, name: str | None = None, row_splits_dtype: DTypeLike = "int64"
    ) -> Self:
        """Make a ragged tensor of a sparse one of rank 2, whose values begin each row.

        Parameters
        ----------
        st_input : SparseTensor
            Its indices are in order.
        name : str, optional
            Accepted and ignored.
        row_splits_dtype : dtype_like, default "int64"
            Or int32.

        Returns
        -------
        RaggedTensor
            Its values, row by row.

        Examples
        --------
        >>> mr.RaggedTensor.from_sparse(mr.sparse.from_dense([[1, 2], [0, 0], [3, 0]]))
        <RaggedTensor [[1, 2], [], [3]]>
        """
        if st_input.indices.shape[1] != 2:
            raise ValueError("from_sparse takes a sparse tensor of rank 2")
        ids, columns = st_input.indices[:, 0], st_input.indices[:, 1]
        rows = cls.from_value_rowids(st_input.values, ids, st_input.dense_shape[0])
        places = _range(_shape(ids, "int64")[0]) - gather(rows.row_splits, ids)
        message = "from_sparse: a row has a gap, or its values are not in order"
        splits = assert_(rows.row_splits, reduce_all(columns == places), message)
        return cls(rows.values, cast(splits, row_splits_dtype))
