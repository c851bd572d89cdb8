"""Specs of values that are made of several tensors: ragged and sparse ones."""

from __future__ import annotations

from typing import Any, TypeAlias

from ..dtypes import DType, DTypeLike, as_dtype
from . import structure as _structure
from .spec import ShapeLike, TensorShape, TensorSpec

# What is known of the sizes of the sparse tensors in an element: one entry a component, None of
# others. The library knows the rank alone, since the dense shape is a value.
Sizes: TypeAlias = list[list[int | None] | None]


class RaggedTensorSpec:
    """What is known of a ragged tensor, as ``tf.RaggedTensorSpec``.

    Parameters
    ----------
    shape : TensorShape or what makes one, optional
        None as a size is one that is unknown or differs from row to row.
    dtype : dtype_like, default "float32"
        The element type.
    ragged_rank : int, optional
        How many axes, from the second one on, may differ from row to row; by default all but one.
        Of 0, each element is one tensor, and a batch of them is ragged.
    row_splits_dtype : dtype_like, default "int64"
        Or int32.
    flat_values_spec : TensorSpec, optional
        Accepted if it says the same.

    Raises
    ------
    ValueError
        The rank is unknown, or does not fit `ragged_rank`.

    Examples
    --------
    >>> ds = mr.Dataset.range(4).map(lambda n: mr.range(n)).ragged_batch(2)
    >>> ds.element_spec
    RaggedTensorSpec(TensorShape([None, None]), mr.int64, 1, mr.int64)
    """

    __slots__ = ("_shape", "_dtype", "_ragged_rank", "_row_splits_dtype")
    _composite_name = "RaggedTensor"

    def __init__(
        self,
        shape: ShapeLike = None,
        dtype: DTypeLike = "float32",
        ragged_rank: int | None = None,
        row_splits_dtype: DTypeLike = "int64",
        flat_values_spec: TensorSpec | None = None,
    ) -> None:
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype if flat_values_spec is None else flat_values_spec.dtype)
        self._row_splits_dtype = as_dtype(row_splits_dtype)
        rank = self._shape.rank
        if rank is None and ragged_rank is None:
            raise ValueError("the spec of a ragged tensor needs a shape of known rank")
        if rank is None:
            assert ragged_rank is not None
            rank = ragged_rank + 1
            self._shape = TensorShape([None] * rank)
        self._ragged_rank = rank - 1 if ragged_rank is None else ragged_rank
        if not 0 <= self._ragged_rank < max(rank, 1):
            raise ValueError(f"ragged_rank {self._ragged_rank} does not fit the rank {rank}")
        if self._row_splits_dtype.name not in ("int32", "int64"):
            raise ValueError(f"row_splits_dtype is int32 or int64, not {self._row_splits_dtype}")

    @property
    def shape(self) -> TensorShape:
        """What is known of the shape."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def ragged_rank(self) -> int:
        """How many axes may differ from row to row."""
        return self._ragged_rank

    @property
    def row_splits_dtype(self) -> DType:
        """The dtype of the row splits."""
        return self._row_splits_dtype

    def _components(self) -> tuple[list[str], list[Any]]:
        dims = self._shape.as_list()
        if self._ragged_rank == 0:
            return ["values"], [TensorSpec(dims, self._dtype)]
        rows = dims[0]
        splits = TensorSpec([None if rows is None else rows + 1], self._row_splits_dtype)
        inner: Any = TensorSpec([None, *dims[2:]], self._dtype)
        if self._ragged_rank > 1:
            inner = RaggedTensorSpec(
                [None, *dims[2:]], self._dtype, self._ragged_rank - 1, self._row_splits_dtype
            )
        return ["values", "row_splits"], [inner, splits]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedTensorSpec) and self.__reduce__()[1] == other.__reduce__()[1]

    def __hash__(self) -> int:
        return hash(("millrace.RaggedTensorSpec", self._shape, self._dtype, self._ragged_rank))

    def __repr__(self) -> str:
        return (
            f"RaggedTensorSpec({self._shape!r}, {self._dtype!r}, {self._ragged_rank}, "
            f"{self._row_splits_dtype!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return RaggedTensorSpec, (
            self._shape,
            self._dtype,
            self._ragged_rank,
            self._row_splits_dtype,
        )


def ragged_spec(values: Any, row_splits: TensorSpec | None = None) -> RaggedTensorSpec:
    """The spec of a ragged tensor with these components."""
    if row_splits is None:
        return RaggedTensorSpec(values.shape, values.dtype, 0)
    splits = row_splits.shape.dims
    rows = None if splits is None or splits[0] is None else splits[0] - 1
    inner = [] if values.shape.dims is None else values.shape.dims[1:]
    ragged_rank = 1 + (values.ragged_rank if isinstance(values, RaggedTensorSpec) else 0)
    return RaggedTensorSpec([rows, None, *inner], values.dtype, ragged_rank, row_splits.dtype)


class SparseTensorSpec:
    """What is known of a sparse tensor, as ``tf.SparseTensorSpec``.

    Parameters
    ----------
    shape : TensorShape or what makes one, optional
        None as a size is one that is unknown. The rank is known.
    dtype : dtype_like, default "float32"
        The element type.

    Raises
    ------
    ValueError
        The rank is unknown.

    Examples
    --------
    >>> mr.SparseTensorSpec([None, 3], mr.int64)
    SparseTensorSpec(TensorShape([None, 3]), mr.int64)
    """

    __slots__ = ("_shape", "_dtype")
    _composite_name = "SparseTensor"

    def __init__(self, shape: ShapeLike = None, dtype: DTypeLike = "float32") -> None:
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype)
        if self._shape.rank is None:
            raise ValueError("the spec of a sparse tensor needs a shape of known rank")

    @property
    def shape(self) -> TensorShape:
        """What is known of the dense shape."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    def _components(self) -> tuple[list[str], list[Any]]:
        rank = self._shape.rank
        return ["indices", "values", "dense_shape"], [
            TensorSpec([None, rank], "int64"),
            TensorSpec([None], self._dtype),
            TensorSpec([rank], "int64"),
        ]

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether `other` may be such a component.

        Parameters
        ----------
        other : SparseTensorSpec or SparseTensor
            What may be one; nothing else is.

        Returns
        -------
        bool
            Whether the dtypes are the same and the shapes can agree.

        Examples
        --------
        >>> spec = mr.SparseTensorSpec([None, 3], mr.int64)
        >>> spec.is_compatible_with(mr.sparse.eye(3, dtype=mr.int64))
        True
        """
        if type(other).__name__ not in ("SparseTensorSpec", self._composite_name):
            return False
        return as_dtype(other.dtype) is self._dtype and self._shape.is_compatible_with(other.shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SparseTensorSpec)
            and self._shape == other._shape
            and self._dtype == other._dtype
        )

    def __hash__(self) -> int:
        return hash(("millrace.SparseTensorSpec", self._shape, self._dtype))

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self._shape!r}, {self._dtype!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseTensorSpec, (self._shape, self._dtype)


def sparse_spec(indices: TensorSpec, values: TensorSpec, dense_shape: TensorSpec) -> Any:
    """The spec of a sparse tensor with these components."""
    shape, places = dense_shape.shape.dims, indices.shape.dims
    rank = shape[0] if shape and shape[0] is not None else places[1] if places else None
    return SparseTensorSpec([None] * (rank or 0), values.dtype)


def sizes_of(element: Any) -> Sizes | None:
    """The sizes of the sparse tensors in @element, whose values are known; None: it has none."""
    found: Sizes = [
        part.shape.as_list() if getattr(part, "_composite_name", None) == "SparseTensor" else None
        for part in _structure.flatten(element, _structure.is_composite)[0]
    ]
    return found if any(found) else None


def with_sizes(spec: Any, sizes: Sizes) -> Any:
    """@spec of elements whose sparse tensors have @sizes."""
    parts, structure = _structure.flatten(spec, _structure.is_composite)
    known = [
        SparseTensorSpec(size, part.dtype) if size is not None else part
        for part, size in zip(parts, sizes, strict=True)
    ]
    return _structure.unflatten(structure, known)
