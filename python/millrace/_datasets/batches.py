"""Elements together, and apart again."""

from __future__ import annotations

from typing import Any, Callable, Self, Sequence

import numpy as np

from .. import errors
from .._data import spec as _spec
from .._data import structure as _structure
from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol
from ..dtypes import DTypeLike
from . import composites as _composites
from . import grouping as _grouping
from . import padding as _padding
from .arguments import IntLike, add_flag, add_number
from .base import DatasetBase


def _divides(batch_size: Any, shapes: Sequence[_spec.TensorShape]) -> bool:
    """Whether the first axis of elements of @shapes is known, and a multiple of @batch_size."""
    rows = next((shape[0] for shape in shapes if shape.rank and shape[0] is not None), None)
    return rows is not None and batch_size > 0 and rows % batch_size == 0


def _sizes(batch_sizes: Any) -> list[int]:
    """@batch_sizes as a list, which is not empty."""
    sizes = np.asarray(batch_sizes)
    if sizes.ndim != 1 or sizes.size == 0:
        raise ValueError(
            f"batch_size is a number or a vector of numbers, not of shape {sizes.shape}"
        )
    if sizes.dtype.kind not in "iu":
        raise TypeError(f"batch_size is an integer or several, not {batch_sizes!r}")
    return [int(size) for size in sizes]


class Batches(DatasetBase):
    """The methods of a Dataset that put elements together."""

    def _leaf_specs(self) -> list[_spec.TensorSpec]:
        return _spec.leaves_of(self._spec_ptr)

    def batch(
        self,
        batch_size: IntLike,
        drop_remainder: bool = False,
        num_parallel_calls: IntLike | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
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

        return self._batch(batch_size, drop_remainder)

    def _batch(
        self, batch_size: Any, drop_remainder: bool, row_splits_dtype: Any = "int64"
    ) -> Self:
        """batch(), where new row splits are of @row_splits_dtype."""

        def add_size(attrs: AttrTable) -> AttrTable:
            add_number(attrs, "batch_size", batch_size)
            return add_flag(attrs, "drop_remainder", drop_remainder)

        if _composites.has_composites(self._structure):
            made: Self = _composites.batch(self, add_size, row_splits_dtype)
            rows = None if isinstance(batch_size, Symbol) or not drop_remainder else int(batch_size)
            if self._sizes is not None:
                made._sizes = [None if size is None else [rows, *size] for size in self._sizes]
            return made
        return self._of("batch", [self], add_size(AttrTable()))

    def ragged_batch(
        self,
        batch_size: IntLike,
        drop_remainder: bool = False,
        row_splits_dtype: DTypeLike = "int64",
        name: str | None = None,
    ) -> Self:
        """Group elements; tensors of several shapes become ragged tensors.

        Parameters
        ----------
        batch_size : int
            How many elements a group has.
        drop_remainder : bool, default False
            Whether a last group that is smaller is left out.
        row_splits_dtype : dtype_like, default "int64"
            Or int32.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of groups. Components whose shape is known are stacked.

        Examples
        --------
        >>> ds = mr.Dataset.range(4).map(lambda n: mr.range(n))
        >>> list(ds.ragged_batch(2))
        [<RaggedTensor [[], [0]]>, <RaggedTensor [[0, 1], [0, 1, 2]]>]
        """
        rows: Self = _composites.ragged(self, row_splits_dtype)
        return rows._batch(batch_size, drop_remainder, row_splits_dtype)

    def sparse_batch(self, batch_size: IntLike, row_shape: Any, name: str | None = None) -> Self:
        """Group elements of several shapes into sparse tensors.

        Parameters
        ----------
        batch_size : int
            How many elements a group has.
        row_shape : sequence of int
            At least as large as each element.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of sparse tensors with the dense shape [group, *row_shape].

        Raises
        ------
        ValueError
            The elements are not one tensor, or of another rank.

        Examples
        --------
        >>> ds = mr.Dataset.range(1, 3).map(lambda n: mr.fill([n], n))
        >>> next(iter(ds.sparse_batch(2, [3]))).indices
        array([[0, 0],
               [1, 0],
               [1, 1]])
        """
        if self._structure != _structure.LEAF:
            raise ValueError("sparse_batch takes elements of one tensor")
        rows: Self = _composites.sparse(self, row_shape)
        return rows.batch(batch_size)

    def padded_batch(
        self,
        batch_size: IntLike,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
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
            Shapes or values do not have the structure of the elements.

        Examples
        --------
        >>> ds = mr.Dataset.range(1, 4).map(lambda n: mr.fill([n], n))
        >>> next(iter(ds.padded_batch(3)))
        array([[1, 0, 0],
               [2, 2, 0],
               [3, 3, 3]])
        """
        return self._padded_batch(batch_size, padded_shapes, padding_values, drop_remainder)

    def _padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any,
        padding_values: Any,
        drop_remainder: bool,
        unknown: Any = None,
    ) -> Self:
        """padded_batch(), where unknown dimensions become the tensor @unknown."""
        if _composites.has_composites(self._structure):
            raise TypeError(
                "padded_batch takes tensors: make them of ragged and sparse ones first, by "
                "x.to_tensor() or mr.sparse.to_dense(x) in map, or use batch"
            )
        attrs = add_number(AttrTable(), "batch_size", batch_size)
        specs = self._leaf_specs()
        if padded_shapes is None and unknown is not None:
            padded_shapes = _structure.unflatten(self._structure, [spec.shape for spec in specs])
        if padded_shapes is not None:
            _padding.add_shapes(attrs, self._structure, padded_shapes, unknown)
        if padding_values is not None:
            _padding.add_values(attrs, self._structure, specs, padding_values)
        return self._of("padded_batch", [self], add_flag(attrs, "drop_remainder", drop_remainder))

    def window(
        self,
        size: IntLike,
        shift: IntLike | None = None,
        stride: IntLike = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
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
        return self._of("window", [self], add_flag(attrs, "drop_remainder", drop_remainder))

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[..., Any],
        window_size: IntLike | None = None,
        window_size_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Self:
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
        return self._of("group_by_window", [self], attrs, functions)

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
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
            element_length_func, bucket_boundaries, bucket_batch_sizes, pad_to_bucket_boundary
        )

        def batch(bucket: Any, group: Self) -> Self:
            size = size_of(bucket)
            if no_padding:
                return group.batch(size, drop_remainder=drop_remainder)
            return group._padded_batch(
                size, padded_shapes, padding_values, drop_remainder, padded_to(bucket)
            )

        return self.group_by_window(bucket_of, batch, window_size_func=size_of)

    def unbatch(self, name: str | None = None) -> Self:
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
        if _composites.has_composites(self._structure):
            rows: Self = _composites.unbatch(self)
            if self._sizes is not None:
                rows._sizes = [None if size is None else size[1:] for size in self._sizes]
            return rows
        return self._of("unbatch", [self])

    def rebatch(
        self, batch_size: Any, drop_remainder: bool = False, name: str | None = None
    ) -> Self:
        """Make batches of another size: ``unbatch().batch(batch_size)``.

        Parameters
        ----------
        batch_size : int or sequence of int
            How many elements a batch has. Several sizes take turns; a size of 0 makes a batch
            without elements.
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
        InvalidArgumentError
            A size is below 0, or all are 0.

        Examples
        --------
        >>> list(mr.Dataset.range(6).batch(2).rebatch(3))
        [array([0, 1, 2]), array([3, 4, 5])]
        >>> list(mr.Dataset.range(6).batch(3).rebatch([1, 2]))
        [array([0]), array([1, 2]), array([3]), array([4, 5])]
        """
        if not isinstance(batch_size, Symbol) and np.ndim(batch_size) != 0:
            sizes = _sizes(batch_size)
            if len(set(sizes)) > 1:
                return self._rebatch_in_turn(sizes, drop_remainder)
            batch_size = sizes[0]
        if not isinstance(batch_size, Symbol):
            if not drop_remainder:  # whole batches of whole batches leave no remainder
                whole = _spec.element_spec_of(self._spec_ptr)
                specs, _ = _structure.flatten(whole, is_leaf=_structure.is_composite)
                drop_remainder = _divides(batch_size, [spec.shape for spec in specs])
        return self.unbatch().batch(batch_size, drop_remainder=drop_remainder)

    def _rebatch_in_turn(self, sizes: Sequence[int], drop_remainder: bool) -> Self:
        if _composites.has_composites(self._structure):
            raise errors.UnimplementedError(
                "rebatch of ragged or sparse tensors with several sizes is not supported: give one"
            )
        attrs = add_flag(AttrTable().ints("sizes", sizes), "drop_remainder", drop_remainder)
        return self._of("rebatch", [self.unbatch()], attrs)._named("rebatch", [self])
