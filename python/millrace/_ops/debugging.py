"""
Assertions: in a function that is traced they are checked for each element, elsewhere at once.

Where TensorFlow has them return an operation for `control_dependencies`, these return None: an
assertion holds for the function in which it stands, whether its result is used or not.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Sequence

import numpy as np

from .. import errors
from .._data.structure import is_composite, is_ragged
from .._graph.literals import to_array
from .._graph.symbol import Symbol, TensorLike, current_graph, holds_symbols
from .._graph.tensor import apply1, convert_to_tensor
from ..dtypes import DTypeLike, as_dtype
from .docs import checked
from .elementwise import abs as _abs, greater, greater_equal, less, less_equal
from .elementwise import equal, is_finite, not_equal
from .reductions import reduce_all


def _text(message: Any, otherwise: str) -> str:
    return otherwise if message is None else f"{message} ({otherwise})"


def _require(condition: Any, message: str) -> None:
    """Every value of @condition holds, or the element fails."""
    scalar = not is_composite(condition) and condition.ndim == 0
    holds = condition if scalar else reduce_all(condition)
    if isinstance(holds, Symbol):
        current_graph().check(holds, message)
    elif not holds:
        raise errors.InvalidArgumentError(message)


def Assert(
    condition: TensorLike,
    data: Sequence[Any],
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Let the element fail for which a condition does not hold.

    Parameters
    ----------
    condition : tensor_like of bool
        Every value of it must hold.
    data : sequence
        The constants among them are the message.
    summarize : int, optional
        Accepted and ignored.
    name : str, optional
        Accepted and ignored.

    Raises
    ------
    InvalidArgumentError
        The condition does not hold: at once outside of functions, else with the element.

    Examples
    --------
    >>> mr.debugging.Assert(np.array([1, 2]) > 0, ["not positive"])
    """
    parts = [str(part) for part in data if not holds_symbols(part)]
    message = " ".join(parts) or "an assertion does not hold"
    _require(convert_to_tensor(condition), message)


def _compared(
    compare: Callable[[Any, Any], Any], sign: str, x: TensorLike, y: TensorLike, message: Any
) -> None:
    _require(compare(x, y), _text(message, f"x {sign} y does not hold for all values"))


@checked
def assert_equal(
    x: TensorLike,
    y: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Assert x == y, element-wise.

    >>> mr.debugging.assert_equal([1, 2], [1, 2])
    """
    _compared(equal, "==", x, y, message)


@checked
def assert_none_equal(
    x: TensorLike,
    y: TensorLike,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> None:
    """Assert x != y, element-wise.

    >>> mr.debugging.assert_none_equal([1, 2], 3)
    """
    _compared(not_equal, "!=", x, y, message)


@checked
def assert_less(
    x: TensorLike,
    y: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Assert x < y, element-wise.

    >>> mr.debugging.assert_less([1, 2], 3)
    """
    _compared(less, "<", x, y, message)


@checked
def assert_less_equal(
    x: TensorLike,
    y: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Assert x <= y, element-wise.

    >>> mr.debugging.assert_less_equal([1, 2], 2)
    """
    _compared(less_equal, "<=", x, y, message)


@checked
def assert_greater(
    x: TensorLike,
    y: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Assert x > y, element-wise.

    >>> mr.debugging.assert_greater([1, 2], 0)
    """
    _compared(greater, ">", x, y, message)


@checked
def assert_greater_equal(
    x: TensorLike,
    y: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Assert x >= y, element-wise.

    >>> mr.debugging.assert_greater_equal([1, 2], 1)
    """
    _compared(greater_equal, ">=", x, y, message)


def _against_zero(
    compare: Callable[[Any, Any], Any], sign: str, x: TensorLike, message: Any
) -> None:
    tensor = convert_to_tensor(x)
    _require(compare(tensor, 0), _text(message, f"x {sign} 0 does not hold for all values"))


@checked
def assert_positive(
    x: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Assert x > 0, element-wise.

    >>> mr.debugging.assert_positive([1, 2])
    """
    _against_zero(greater, ">", x, message)


@checked
def assert_negative(
    x: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Assert x < 0, element-wise.

    >>> mr.debugging.assert_negative([-1, -2])
    """
    _against_zero(less, "<", x, message)


@checked
def assert_non_negative(
    x: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Assert x >= 0, element-wise.

    >>> mr.debugging.assert_non_negative([0, 1])
    """
    _against_zero(greater_equal, ">=", x, message)


@checked
def assert_non_positive(
    x: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Assert x <= 0, element-wise.

    >>> mr.debugging.assert_non_positive([0, -1])
    """
    _against_zero(less_equal, "<=", x, message)


@checked
def assert_near(
    x: TensorLike,
    y: TensorLike,
    rtol: Any = None,
    atol: Any = None,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Assert abs(x - y) <= atol + rtol * abs(y), element-wise.

    >>> mr.debugging.assert_near([1.0, 2.0], [1.0, 2.0000001])
    """
    a = x if is_composite(x) else convert_to_tensor(x)
    b = y if is_composite(y) else convert_to_tensor(y, a.dtype)
    small = 10 * _epsilon(a.dtype)
    rtol, atol = (small if tolerance is None else tolerance for tolerance in (rtol, atol))
    _require(
        less_equal(_abs(apply1("sub", [a, b])), _abs(b) * rtol + atol),
        _text(message, "x and y are not near for all values"),
    )


def _epsilon(dtype: Any) -> float:
    name = as_dtype(dtype).name
    return 2.0**-7 if name == "bfloat16" else float(np.finfo(name).eps)


def _require_rank(x: TensorLike, fits: Callable[[int], bool], wanted: str, message: Any) -> None:
    """The rank of a tensor is known when a function is traced."""
    rank = x.shape.rank if is_ragged(x) else convert_to_tensor(x).ndim
    if rank is None:
        raise ValueError(
            f"the rank of x is unknown, {wanted} is wanted: use mr.ensure_shape before"
        )
    if not fits(rank):
        raise ValueError(_text(message, f"x has rank {rank}, {wanted} is wanted"))


@checked
def assert_rank(
    x: TensorLike, rank: int, message: str | None = None, name: str | None = None
) -> None:
    """Assert that a tensor has a given rank; checked when the function is traced.

    >>> mr.debugging.assert_rank([1, 2], 1)
    """
    _require_rank(x, lambda found: found == rank, f"rank {rank}", message)


@checked
def assert_rank_at_least(
    x: TensorLike, rank: int, message: str | None = None, name: str | None = None
) -> None:
    """Assert that a tensor has at least a given rank; checked when the function is traced.

    >>> mr.debugging.assert_rank_at_least([1, 2], 1)
    """
    _require_rank(x, lambda found: found >= rank, f"at least rank {rank}", message)


@checked
def assert_rank_in(
    x: TensorLike, ranks: Iterable[int], message: str | None = None, name: str | None = None
) -> None:
    """Assert that a tensor has one of these ranks; checked when the function is traced.

    >>> mr.debugging.assert_rank_in([1, 2], [1, 2])
    """
    among = sorted(ranks)
    _require_rank(x, lambda found: found in among, f"one of the ranks {among}", message)


@checked
def assert_scalar(tensor: TensorLike, message: str | None = None, name: str | None = None) -> Any:
    """Assert that a tensor is a scalar, and return it; checked when the function is traced.

    >>> mr.debugging.assert_scalar(3)
    array(3, dtype=int32)
    """
    _require_rank(tensor, lambda found: found == 0, "a scalar", message)
    return convert_to_tensor(tensor)


@checked
def assert_type(
    tensor: TensorLike, tf_type: DTypeLike, message: str | None = None, name: str | None = None
) -> None:
    """Assert that a tensor has a given dtype; checked when the function is traced.

    >>> mr.debugging.assert_type(np.int64(1), mr.int64)
    """
    found, wanted = as_dtype(convert_to_tensor(tensor).dtype), as_dtype(tf_type)
    if found is not wanted:
        raise TypeError(_text(message, f"the dtype is {found.name}, {wanted.name} is wanted"))


@checked
def assert_integer(x: TensorLike, message: str | None = None, name: str | None = None) -> None:
    """Assert that a tensor has an integer dtype; checked when the function is traced.

    >>> mr.debugging.assert_integer([1, 2])
    """
    found = as_dtype(convert_to_tensor(x).dtype)
    if not found.is_integer:
        raise TypeError(_text(message, f"the dtype is {found.name}, an integer dtype is wanted"))


@checked
def assert_all_finite(x: TensorLike, message: str, name: str | None = None) -> Any:
    """Assert that a tensor has neither NaN nor infinity in it, and return it.

    >>> mr.debugging.assert_all_finite([1.0], "bad features")
    array([1.], dtype=float32)
    """
    tensor = x if is_composite(x) else convert_to_tensor(x)
    _require(is_finite(tensor), _text(message, "a value is NaN or infinite"))
    return tensor


check_numerics = assert_all_finite


def is_numeric_tensor(tensor: Any) -> bool:
    """Return whether something is a tensor of numbers.

    Parameters
    ----------
    tensor : Tensor or anything
        What is asked about.

    Returns
    -------
    bool
        Whether it is a tensor, and neither of strings nor of bools.

    Examples
    --------
    >>> mr.debugging.is_numeric_tensor(np.arange(3)), mr.debugging.is_numeric_tensor("a")
    (True, False)
    """
    if not isinstance(tensor, (Symbol, np.ndarray, np.generic)):
        return False
    dtype = as_dtype(tensor.dtype)
    return dtype.is_integer or dtype.is_floating
