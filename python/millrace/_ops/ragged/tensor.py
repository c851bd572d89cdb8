"""RaggedTensor: a tensor whose rows may have several lengths."""

from __future__ import annotations

from typing import Any, Callable, Iterator, NoReturn, Sequence

import numpy as np

from ... import errors
from ..._data import structure as _structure
from ..._data.composite import ragged_spec
from ..._data.spec import TensorShape, TensorSpec
from ..._data.structure import is_ragged
from ..._graph.attrs import AttrTable
from ..._graph.symbol import Symbol, TensorLike
from ..._graph.tensor import apply1, convert_to_tensor
from ...dtypes import DType, DTypeLike, as_dtype
from ..arrays import concat, expand_dims, gather, reshape, shape as _shape
from ..constants import cast, range as _range, zeros
from ..reductions import reduce_max
from ..selection import boolean_mask, repeat
from ..sparse import SparseTensor
from .each import apply_elementwise, beside, computed
from .like_arrays import as_array, no_attribute, ufunc as of_ufunc
from .made import RaggedParts
from .moved import coordinates, cut, expanded, gathered, gathered_each, gathered_nd, joined_axes
from .moved import partitioned, reshaped, squeezed, stacked, tiled, turned
from .reduced import aggregated, cumulated, reduced
from .rows import concat_rows, first_rows
from .rows import one_row, row_count, rows_between, sizes_of, to_dense, values_of, within_rows


class RaggedTensor(RaggedParts):
    """A tensor whose rows may have several lengths, as ``tf.RaggedTensor``.

    Row i is ``values[row_splits[i]:row_splits[i + 1]]``. The values may be ragged themselves. Outside
    of functions its components are NumPy arrays. It is made by `ragged.constant` and by the
    ``from_`` methods.

    Examples
    --------
    >>> x = mr.ragged.constant([[1, 2], [], [3]])
    >>> x.values, x.row_splits
    (array([1, 2, 3], dtype=int32), array([0, 2, 2, 3]))
    >>> x + 1
    <RaggedTensor [[2, 3], [], [4]]>
    """

    __slots__ = ()
    _composite_name = "RaggedTensor"

    def _components(self) -> tuple[list[str], list[Any]]:
        return ["values", "row_splits"], [self._values, self._row_splits]

    # ---- what it is ----

    @property
    def flat_values(self) -> Any:
        """The innermost values."""
        return self._values.flat_values if is_ragged(self._values) else self._values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """The row splits of each ragged axis, the outermost first."""
        inner = self._values.nested_row_splits if is_ragged(self._values) else ()
        return (self._row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        """The number of ragged axes."""
        return len(self.nested_row_splits)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return as_dtype(self.flat_values.dtype)

    @property
    def shape(self) -> TensorShape:
        """What is known of the shape: None for a ragged axis."""
        splits = TensorShape(self._row_splits.shape)[0]
        inner = TensorShape(self._values.shape).as_list()[1:]
        return TensorShape([None if splits is None else splits - 1, None, *inner])

    def get_shape(self) -> TensorShape:
        """Return what is known of the shape.

        Returns
        -------
        TensorShape
            As `shape`.

        Examples
        --------
        >>> mr.ragged.constant([[1], [2, 3]]).get_shape()
        TensorShape([2, None])
        """
        return self.shape

    def nrows(self, out_type: DTypeLike | None = None, name: str | None = None) -> Any:
        """Return the number of rows.

        Parameters
        ----------
        out_type : dtype_like, optional
            By default that of the row splits.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Tensor or numpy scalar
            The number.

        Examples
        --------
        >>> mr.ragged.constant([[1], [2, 3]]).nrows()
        2
        """
        dtype = as_dtype(out_type or self._row_splits.dtype)
        return cast(row_count(self._row_splits) - 1, dtype)

    def row_starts(self, name: str | None = None) -> Any:
        """Return where each row begins in `values`.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Tensor or numpy.ndarray
            One number a row.

        Examples
        --------
        >>> mr.ragged.constant([[1], [2, 3]]).row_starts()
        array([0, 1])
        """
        return self._row_splits[:-1]

    def row_limits(self, name: str | None = None) -> Any:
        """Return where each row ends in `values`.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Tensor or numpy.ndarray
            One number a row.

        Examples
        --------
        >>> mr.ragged.constant([[1], [2, 3]]).row_limits()
        array([1, 3])
        """
        return self._row_splits[1:]

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """Return how long each row is.

        Parameters
        ----------
        axis : int, default 1
            The ragged axis; beyond 1 the lengths are ragged themselves.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Tensor, numpy.ndarray or RaggedTensor
            One number a row.

        Examples
        --------
        >>> mr.ragged.constant([[1], [2, 3]]).row_lengths()
        array([1, 2])
        """
        if axis == 1:
            return self._row_splits[1:] - self._row_splits[:-1]
        if not is_ragged(self._values) or axis < 1:
            raise ValueError(f"axis {axis} is no ragged axis of a tensor of shape {self.shape}")
        return self.with_values(self._values.row_lengths(axis - 1))

    def nested_row_lengths(self, name: str | None = None) -> tuple[Any, ...]:
        """Return the row lengths of each ragged axis, the outermost first.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        tuple of Tensor or numpy.ndarray
            One a ragged axis.

        Examples
        --------
        >>> mr.ragged.constant([[1], [2, 3]]).nested_row_lengths()
        (array([1, 2]),)
        """
        return tuple(splits[1:] - splits[:-1] for splits in self.nested_row_splits)

    def nested_value_rowids(self, name: str | None = None) -> tuple[Any, ...]:
        """Return the numbers of the rows of each ragged axis, the outermost first.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        tuple of Tensor or numpy.ndarray
            One a ragged axis.

        Examples
        --------
        >>> mr.ragged.constant([[1], [2, 3]]).nested_value_rowids()
        (array([0, 1, 1]),)
        """
        inner = self._values.nested_value_rowids() if is_ragged(self._values) else ()
        return (self.value_rowids(), *inner)

    def value_rowids(self, name: str | None = None) -> Any:
        """Return the number of the row of each value.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Tensor or numpy.ndarray
            One number a value.

        Examples
        --------
        >>> mr.ragged.constant([[1], [2, 3]]).value_rowids()
        array([0, 1, 1])
        """
        numbers = cast(_range(self.nrows("int64")), self._row_splits.dtype)
        return repeat(numbers, self.row_lengths(), axis=0)

    def bounding_shape(
        self, axis: Any = None, name: str | None = None, out_type: DTypeLike | None = None
    ) -> Any:
        """Return the shape of the smallest tensor that holds all rows.

        Parameters
        ----------
        axis : int or sequence of int, optional
            Only the size of this axis, or of these.
        name : str, optional
            Accepted and ignored.
        out_type : dtype_like, optional
            By default that of the row splits.

        Returns
        -------
        Tensor or numpy.ndarray
            The sizes.

        Examples
        --------
        >>> mr.ragged.constant([[1], [2, 3]]).bounding_shape()
        array([2, 2])
        """
        sizes = [reshape(self.nrows("int64"), [1])]
        for lengths in self.nested_row_lengths():
            none = np.zeros(1, np.int64)
            sizes.append(reshape(reduce_max(concat([none, cast(lengths, "int64")], 0)), [1]))
        sizes.append(_shape(self.flat_values, "int64")[1:])
        whole = concat(sizes, 0)
        whole = whole if axis is None else gather(whole, axis)
        return cast(whole, as_dtype(out_type or self._row_splits.dtype))

    # ---- as something else ----

    def to_tensor(
        self, default_value: TensorLike | None = None, name: str | None = None, shape: Any = None
    ) -> Any:
        """Make an ordinary tensor, with rows padded behind to one length.

        Parameters
        ----------
        default_value : scalar, optional
            What fills the rows; by default 0, or an empty string.
        name : str, optional
            Accepted and ignored.
        shape : sequence of int or None, or tensor_like of int, optional
            Sizes of the axes; rows that are longer are cut. None, or -1 in a tensor: as long as the
            longest.

        Returns
        -------
        Tensor or numpy.ndarray
            Of the rank of this tensor.

        Examples
        --------
        >>> mr.ragged.constant([[1, 2], [], [3]]).to_tensor()
        array([[1, 2],
               [0, 0],
               [3, 0]], dtype=int32)
        """
        default = zeros([], self.dtype) if default_value is None else default_value
        default = convert_to_tensor(default, self.dtype)
        sizes: list[Any] = [None] * (self.ragged_rank + 1)
        if shape is not None:
            sizes = sizes_of(shape)
            if len(sizes) != self.shape.rank:
                raise ValueError(
                    f"to_tensor: a shape of {len(sizes)} sizes, for {self.shape.rank} axes"
                )
        dense = to_dense(self, default, sizes[1:])
        if sizes[0] is None:
            return dense
        return first_rows(dense, sizes[0], default)

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """Make a sparse tensor of all values.

        Parameters
        ----------
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        SparseTensor
            Of the rank of this tensor.

        Examples
        --------
        >>> mr.ragged.constant([[1, 2], [3]]).to_sparse().indices
        array([[0, 0],
               [0, 1],
               [1, 0]])
        """
        whole, flat = self, self.flat_values
        if flat.ndim != 1:
            inner = RaggedTensor.from_tensor(flat, ragged_rank=flat.ndim - 1)
            whole = self._with_innermost(inner)
        indices = concat([expand_dims(column, 1) for column in coordinates(whole)], 1)
        return SparseTensor(indices, whole.flat_values, self.bounding_shape(out_type="int64"))

    def _with_innermost(self, new_values: Any) -> RaggedTensor:
        if is_ragged(self._values):
            return self.with_values(self._values._with_innermost(new_values))
        return self.with_values(new_values)

    def to_list(self) -> list[Any]:
        """Return nested lists of Python values. Outside of functions only.

        Returns
        -------
        list
            One list a row.

        Examples
        --------
        >>> mr.ragged.constant([[1, 2], [], [3]]).to_list()
        [[1, 2], [], [3]]
        """
        if isinstance(self._row_splits, Symbol):
            raise TypeError("a ragged tensor of a function that is traced has no values yet")
        values = self._values.to_list() if is_ragged(self._values) else self._values.tolist()
        splits = self._row_splits.tolist()
        return [values[a:b] for a, b in zip(splits, splits[1:])]

    def numpy(self) -> Any:
        """Return an array of arrays, one a row. Outside of functions only.

        Returns
        -------
        numpy.ndarray
            Of objects; an ordinary array where all rows have one length.

        Examples
        --------
        >>> mr.ragged.constant([[1, 2], [3]]).numpy()
        array([array([1, 2], dtype=int32), array([3], dtype=int32)], dtype=object)
        """
        if isinstance(self._row_splits, Symbol):
            raise TypeError("a ragged tensor of a function that is traced has no values yet")
        values = self._values.numpy() if is_ragged(self._values) else self._values
        splits = self._row_splits.tolist()
        rows = [values[a:b] for a, b in zip(splits, splits[1:])]
        if len({len(row) for row in rows}) == 1 and all(row.dtype != object for row in rows):
            return np.stack(rows)
        array = np.empty(len(rows), object)
        array[:] = rows
        return array

    def with_values(self, new_values: Any) -> RaggedTensor:
        """Return other values in the same rows.

        Parameters
        ----------
        new_values : tensor_like or RaggedTensor
            As many.

        Returns
        -------
        RaggedTensor
            With the same row splits.

        Examples
        --------
        >>> mr.ragged.constant([[1, 2], [3]]).with_values(["a", "b", "c"])
        <RaggedTensor [[b'a', b'b'], [b'c']]>
        """
        return RaggedTensor(values_of(new_values), self._row_splits)

    def with_flat_values(self, new_values: TensorLike) -> RaggedTensor:
        """Return other innermost values in the same rows.

        Parameters
        ----------
        new_values : tensor_like
            As many.

        Returns
        -------
        RaggedTensor
            With the same row splits of all axes.

        Examples
        --------
        >>> mr.ragged.constant([[[1], [2]], [[3]]]).with_flat_values([4, 5, 6])
        <RaggedTensor [[[4], [5]], [[6]]]>
        """
        if is_ragged(self._values):
            return RaggedTensor(self._values.with_flat_values(new_values), self._row_splits)
        return self.with_values(new_values)

    def with_row_splits_dtype(self, dtype: DTypeLike) -> RaggedTensor:
        """Return the same values with row splits of another dtype.

        Parameters
        ----------
        dtype : dtype_like
            int32 or int64.

        Returns
        -------
        RaggedTensor
            With such row splits of all axes.

        Examples
        --------
        >>> mr.ragged.constant([[1], [2, 3]]).with_row_splits_dtype(mr.int32).row_splits
        array([0, 1, 3], dtype=int32)
        """
        if as_dtype(dtype).name not in ("int32", "int64"):
            raise ValueError(f"row splits are int32 or int64, not {as_dtype(dtype).name}")
        inner = self._values
        inner = inner.with_row_splits_dtype(dtype) if is_ragged(inner) else inner
        return RaggedTensor(inner, cast(self._row_splits, dtype))

    def merge_dims(self, outer_axis: int, inner_axis: int) -> Any:
        """Join neighbouring axes into one.

        Parameters
        ----------
        outer_axis, inner_axis : int
            The first and the last of them; negative ones count from the end.

        Returns
        -------
        Tensor, numpy.ndarray or RaggedTensor
            With fewer axes.

        Examples
        --------
        >>> mr.ragged.constant([[[1], [2]], [[3]]]).merge_dims(1, 2)
        <RaggedTensor [[1, 2], [3]]>
        """
        return joined_axes(self, outer_axis, inner_axis)

    # ---- operators ----

    def __getitem__(self, key: Any) -> Any:
        """Rows by number or slice; further keys select within each row."""
        keys = key if isinstance(key, tuple) else (key,)
        if any(k is Ellipsis for k in keys):
            keys = self._without_ellipsis(keys)
        first, rest = keys[0], keys[1:]
        if first is None:
            return expanded(self[rest] if rest else self, 0)
        if isinstance(first, slice):
            rows = self if first == slice(None) else rows_between(self, first)
            return within_rows(rows, rest) if rest else rows
        if not _is_number(first):
            raise TypeError(
                "a row of a ragged tensor is an integer or a slice, not "
                f"{type(first).__name__}: see mr.gather and mr.ragged.boolean_mask"
            )
        found = one_row(self, first)
        return found[rest] if rest else found

    def _without_ellipsis(self, keys: tuple[Any, ...]) -> tuple[Any, ...]:
        """@keys with as many slices for ... as there are axes without a key."""
        place = [k is Ellipsis for k in keys].index(True)
        rest = keys[:place] + keys[place + 1 :]
        if any(k is Ellipsis for k in rest):
            raise IndexError("a key of a ragged tensor has one ... at most")
        axes = (self.shape.rank or 0) - sum(k is not None for k in rest)
        return keys[:place] + (slice(None),) * max(axes, 0) + keys[place + 1 :]

    def __len__(self) -> int:
        if isinstance(self._row_splits, Symbol):
            raise TypeError("len() sees no values while a function is traced: use x.nrows()")
        return len(self._row_splits) - 1

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self._row_splits, Symbol):
            raise TypeError(
                "a loop over the rows of a ragged tensor does not end while a function is traced: "
                "use mr.map_fn(f, x)"
            )
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        if isinstance(self._row_splits, Symbol):
            return f"RaggedTensor(values={self._values!r}, row_splits={self._row_splits!r})"
        return f"<RaggedTensor {self.to_list()}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return as_array(self, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return of_ufunc(ufunc, method, inputs, options)

    def __getattr__(self, name: str) -> NoReturn:
        no_attribute(name)

    def __bool__(self) -> bool:
        raise TypeError("a ragged tensor is neither true nor false")

    def __reduce__(self) -> tuple[Any, ...]:
        return RaggedTensor, (self._values, self._row_splits)

    def _apply(
        self, op: str, inputs: Sequence[Any], attrs: AttrTable | None, same_dtype: bool
    ) -> list[Any]:
        """apply() of an operator that was given this tensor, or one like it."""
        return apply_elementwise(op, inputs, attrs, same_dtype)

    def _concat(self, values: Sequence[Any], axis: int) -> RaggedTensor:
        """concat() of values, of which this is the first ragged one."""
        joined: RaggedTensor = concat_rows(values, axis)
        return joined

    def _gather(self, indices: Any, axis: int | None) -> Any:
        """gather() from this tensor."""
        if axis not in (None, 0):
            raise errors.UnimplementedError("gather from a ragged tensor is supported for axis=0")
        return gathered(self, indices)

    def _gather_nd(self, indices: Any) -> Any:
        """gather_nd() from this tensor."""
        return gathered_nd(self, indices)

    def _gather_each(self, params: Any, indices: Any) -> Any:
        """gather() with one batch axis; this is one of both."""
        return gathered_each(RaggedTensor, params, indices)

    def _each(self, body: Callable[..., Any], inputs: Sequence[Any], same_dtype: bool) -> Any:
        """compute_each() of @inputs, of which this is the first ragged one."""
        return computed(body, inputs, same_dtype)

    def _moved(self, op: str, *arguments: Any) -> Any:
        """What the function @op makes of this tensor."""
        return _MOVED[op](self, *arguments)

    def _stack(self, values: Sequence[Any], axis: int) -> Any:
        """stack() of values, of which this is the first ragged one."""
        whole = [v if is_ragged(v) else convert_to_tensor(v) for v in values]
        return stacked(RaggedTensor, whole, axis)

    def _aggregate(self, op: str, data: Any, ids: Any, count: Any) -> Any:
        """A reduction of the segments of @data with the numbers @ids; this is one of both."""
        return aggregated(*beside(data, ids), count, op)

    def _partition(self, data: Any, numbers: Any, count: int) -> list[Any]:
        """dynamic_partition() of @data by @numbers; this is one of both."""
        return partitioned(*beside(data, numbers), count)

    def _where(self) -> Any:
        """where() of this tensor."""
        places = self.to_sparse()
        return boolean_mask(places.indices, places.values)

    def _reduce(self, op: str, axis: Any, keepdims: bool) -> Any:
        """A reduction over axes of this tensor."""
        return reduced(self, op, axis, keepdims)


_MOVED: dict[str, Callable[..., Any]] = {
    "cumsum": cumulated,
    "expand_dims": expanded,
    "reshape": reshaped,
    "reverse": turned,
    "split": cut,
    "squeeze": squeezed,
    "tile": tiled,
}


def _is_number(key: Any) -> bool:
    """Whether @key, in brackets, is one integer."""
    if isinstance(key, (Symbol, np.ndarray, np.generic)):
        return key.ndim == 0 and as_dtype(key.dtype).is_integer
    return isinstance(key, int) and not isinstance(key, bool)


def _operator(op: str, swapped: bool = False) -> Callable[[RaggedTensor, Any], Any]:
    def method(self: RaggedTensor, other: Any) -> Any:
        return apply1(op, [other, self] if swapped else [self, other])

    return method


for _name, _op in {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "floordiv": "floor_div",
    "mod": "floor_mod",
    "pow": "pow",
    "matmul": "matmul",
    "and": "logical_and",
    "or": "logical_or",
    "xor": "logical_xor",
}.items():
    setattr(RaggedTensor, f"__{_name}__", _operator(_op))
    setattr(RaggedTensor, f"__r{_name}__", _operator(_op, swapped=True))
for _name, _op in {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}.items():
    setattr(RaggedTensor, f"__{_name}__", _operator(_op))
for _name, _op in {"neg": "neg", "abs": "abs", "invert": "logical_not"}.items():
    setattr(RaggedTensor, f"__{_name}__", lambda self, _op=_op: apply1(_op, [self]))
RaggedTensor.__hash__ = None  # type: ignore[assignment]


class RaggedRows:
    """Elements that are rows of a ragged tensor: tensors, of which a batch is ragged."""

    __slots__ = ("values",)
    _composite_name = "RaggedTensor"

    def __init__(self, values: Any) -> None:
        self.values = values

    def _components(self) -> tuple[list[str], list[Any]]:
        return ["values"], [self.values]


def _build(values: Any, row_splits: Any = None) -> Any:
    if isinstance(values, TensorSpec) or isinstance(row_splits, TensorSpec):
        return ragged_spec(values, row_splits)
    return values if row_splits is None else RaggedTensor(values, row_splits)


_structure.register("RaggedTensor", _build)
