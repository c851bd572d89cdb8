"""Tables of text, under TensorFlow's names. `name` means nothing."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .. import dtypes
from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol, TensorLike
from .._graph.tensor import apply, convert_to_tensor


def column_default(value: Any) -> Any:
    """What stands for an empty field of a column, as a tensor; of no value for a dtype."""
    if isinstance(value, Symbol):
        return value
    try:
        dtype = dtypes.as_dtype(value) if not isinstance(value, (str, bytes)) else None
    except (TypeError, ValueError):
        dtype = None
    if dtype is not None:
        return np.empty([0], dtype.numpy_dtype())
    if isinstance(value, (list, tuple)) and not value:
        return np.empty([0], np.float32)
    return convert_to_tensor(value)


def decode_csv(
    records: TensorLike,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    name: str | None = None,
) -> Any:
    """Turn records of CSV into columns.

    As ``tf.io.decode_csv``: RFC 4180.

    Parameters
    ----------
    records : tensor_like of string
        One record each, of any shape.
    record_defaults : sequence of tensor_like or dtype_like
        For each column a scalar, or a list of one value: its dtype and what stands for an empty
        field. An empty list, or a dtype: there must be a field. The dtypes are float32, float64,
        int32, int64 and string.
    field_delim : str, default ","
        What separates the fields, one byte.
    use_quote_delim : bool, default True
        Whether a field may stand in quotes, in which delimiters and ends of lines are characters,
        and a quote is written twice.
    na_value : str, default ""
        A text that counts as an empty field, besides none.
    select_cols : sequence of int, optional
        The numbers of the fields that are columns, rising from 0. By default all are, and there
        must be as many.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    list of Tensor or numpy.ndarray
        The columns, each of the shape of `records`.

    Raises
    ------
    InvalidArgumentError
        A record has another number of fields, a quote at a wrong place, or a field that is empty or
        no number: the error names the field.

    Examples
    --------
    >>> mr.io.decode_csv(["1,a", ',"b,c"'], [[0], mr.string])
    [array([1, 0], dtype=int32), array([b'a', b'b,c'], dtype=object)]
    """
    attrs = _attrs(field_delim, use_quote_delim, na_value, select_cols)
    if not record_defaults:
        raise ValueError("record_defaults says what the columns are: it is empty")
    if isinstance(record_defaults, (str, bytes)):
        raise TypeError(f"record_defaults is a list, one a column, not {record_defaults!r}")
    defaults = [column_default(value) for value in record_defaults]
    return apply("decode_csv", [records, *defaults], attrs, same_dtype=False)


def _attrs(delim: str, quotes: bool, na_value: str, select: Sequence[int] | None) -> AttrTable:
    attrs = AttrTable().bytes("field_delim", delim).bytes("na_value", na_value)
    attrs.bool("use_quote_delim", quotes)
    return attrs if select is None else attrs.ints("select_cols", select)


def decode_lines(
    records: TensorLike,
    defaults: Sequence[Any],
    delim: str,
    quotes: bool,
    na_value: str,
    select: Sequence[int] | None,
    fields: int | None,
) -> Any:
    """
    decode_csv() of records of files: an empty one has an empty field. @fields: how many each has at
    most, if not all are columns.
    """
    attrs = _attrs(delim, quotes, na_value, select).bool("lines", True)
    if fields is not None:
        attrs.int("fields", fields)
    return apply("decode_csv", [records, *defaults], attrs, same_dtype=False)
