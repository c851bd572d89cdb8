"""Functions that look at one value at a time: of ragged tensors they take all values."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from ... import errors
from ..._data.spec import TensorShape
from ..._data.structure import is_ragged
from ..._graph.attrs import AttrTable
from ..._graph.literals import is_literal
from ..._graph.symbol import Symbol, current_graph
from ..._graph.tensor import apply, compute, convert_to_tensor
from ...dtypes import DType, as_dtype
from ..arrays import concat, gather, reshape, shape as _shape
from ..constants import cast
from ..elementwise import minimum
from ..reductions import reduce_all
from ..selection import repeat

# Operators that look at one value at a time, whatever the shape.
_ELEMENTWISE = frozenset(
    """
    abs acos acosh add as_string asin asinh atan atan2 atanh bitwise_and bitwise_or bitwise_xor cast
    ceil clip_by_value complex conj cos cosh div divide_no_nan elu equal erf erfc exp expm1 floor
    floor_div floor_mod greater greater_equal identity imag invert is_finite is_inf is_nan
    left_shift less less_equal lgamma log log1p logical_and logical_not logical_or logical_xor
    lookup_place maximum minimum mul multiply_no_nan neg nextafter not_equal one_hot ones_like pow
    real reciprocal regex_full_match regex_replace relu right_shift round rsqrt select sigmoid sign
    sin sinh softplus sqrt square squared_difference string_join string_length string_lower
    string_strip string_to_hash_bucket string_to_number string_to_number_or string_upper sub substr
    tan tanh truncate_div truncate_mod unicode_script unicode_transcode xdivy xlog1py xlogy
    zeros_like
    """.split()
)


def apply_elementwise(
    op: str, inputs: Sequence[Any], attrs: AttrTable | None, same_dtype: bool
) -> list[Any]:
    if op not in _ELEMENTWISE:
        raise TypeError(
            f"{op} does not take a ragged tensor: use x.to_tensor(), or "
            "mr.ragged.map_flat_values(f, x)"
        )
    like, flat = _flat(inputs, same_dtype)
    return [like.with_flat_values(result) for result in apply(op, flat, attrs, same_dtype)]


def computed(body: Callable[..., Any], inputs: Sequence[Any], same_dtype: bool) -> Any:
    """What @body, a function that looks at one value at a time, makes of @inputs."""
    like, flat = _flat(inputs, same_dtype)
    return like.with_flat_values(compute(body, flat, same_dtype))


def _flat(inputs: Sequence[Any], same_dtype: bool) -> tuple[Any, list[Any]]:
    """The one of @inputs whose rows the result has, and the values of all, one beside the other."""
    ragged = [value for value in inputs if is_ragged(value)]
    like = max(ragged, key=lambda value: int(value.ragged_rank))
    hint = as_dtype(like.dtype) if same_dtype else None
    return like, [_flat_input(value, like, hint) for value in inputs]


def check_same_rows(a: Any, b: Any) -> None:
    if a.ragged_rank != b.ragged_rank:
        raise ValueError(f"ragged tensors of shapes {a.shape} and {b.shape} do not go together")
    for x, y in zip(a.nested_row_splits, b.nested_row_splits):
        check_same_splits(x, y)


def check_same_splits(x: Any, y: Any) -> None:
    if x is y:
        return
    message = "the rows of two ragged tensors have different lengths"
    if isinstance(x, Symbol) or isinstance(y, Symbol):
        count = minimum(_shape(x, "int64"), _shape(y, "int64"))[0]
        same = reduce_all(cast(x, "int64")[:count] == cast(y, "int64")[:count])
        current_graph().check(same & (_shape(x, "int64") == _shape(y, "int64"))[0], message)
    elif not np.array_equal(x, y):
        raise errors.InvalidArgumentError(message)


def beside(data: Any, numbers: Any) -> tuple[Any, Any]:
    """@numbers as a tensor, and the parts of @data, one for each of them."""
    while is_ragged(numbers):
        if not is_ragged(data):
            raise ValueError(
                "by ragged numbers go the values of a ragged tensor with the same rows"
            )
        check_same_splits(data.row_splits, numbers.row_splits)
        data, numbers = data.values, numbers.values
    return data, convert_to_tensor(numbers)


def _flat_input(value: Any, like: Any, hint: DType | None) -> Any:
    """@value beside the flat values of @like: what of it broadcasts to them."""
    if not is_ragged(value):
        if not isinstance(value, Symbol) and np.ndim(value) == 0:
            return value
        dense = convert_to_tensor(value, hint if is_literal(value) else None)
        return _spread(dense, like, 0, TensorShape(like.shape).rank or 0)
    if TensorShape(value.shape).rank != TensorShape(like.shape).rank:
        raise ValueError(
            f"ragged tensors of shapes {value.shape} and {like.shape} do not go together"
        )
    for x, y in zip(value.nested_row_splits, like.nested_row_splits):
        check_same_splits(x, y)
    outer = value.ragged_rank
    if outer == like.ragged_rank:
        return value.flat_values
    return _spread(value.flat_values, like, outer, (TensorShape(like.shape).rank or 0) - outer)


def _spread(dense: Any, like: Any, outer: int, rank: int) -> Any:
    """
    @dense, whose first axis is that of the rows that @outer ragged axes of @like make, beside the
    flat values of @like: its axes that are ragged there have size 1. With all axes it has @rank.
    """
    splits = like.nested_row_splits[outer:]
    dims = TensorShape(dense.shape).dims
    missing = rank - len(dims or ())
    sizes = [*(1 for _ in range(missing)), *(dims or ())]
    if dims is None or missing < 0 or any(n != 1 for n in sizes[1 : len(splits) + 1]):
        raise TypeError(
            "beside a ragged tensor stands a ragged tensor with the same rows, a scalar, or a "
            "tensor whose ragged axes have size 1: [rows, 1]"
        )
    behind = _shape(dense, "int64")[max(len(splits) + 1 - missing, 0) :]
    if sizes[0] == 1 and outer == 0:
        return reshape(dense, behind)
    ends = splits[0]
    for inner in splits[1:]:
        ends = gather(inner, ends)
    rows = reshape(dense, concat([np.array([-1], np.int64), behind], 0))
    return repeat(rows, ends[1:] - ends[:-1], axis=0)
