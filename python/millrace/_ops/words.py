"""Strings cut into pieces and put together again, under TensorFlow's names and arguments. `name`
means nothing.

The public names are those of mr.strings.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .. import errors
from .._data.spec import TensorShape
from .._data.structure import is_composite
from .._graph.attrs import AttrTable
from .._graph.symbol import TensorLike
from .._graph.tensor import apply, apply1, convert_to_tensor
from .arrays import expand_dims, reshape
from .constants import sized, static_shape
from .ragged.reduced import aggregated_rows
from .ragged.tensor import RaggedTensor
from .text import as_text, joined_axes


def bytes_split(input: TensorLike, name: str | None = None) -> Any:
    """Cut strings into their bytes.

    Parameters
    ----------
    input : tensor_like of string, or RaggedTensor
        Bytes or str, of any shape.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor, numpy.ndarray or RaggedTensor
        Of a scalar the vector of its bytes, a string each; else a ragged tensor with an axis more.

    Examples
    --------
    >>> mr.strings.bytes_split(["ab", ""])
    <RaggedTensor [[b'a', b'b'], []]>
    """
    if is_composite(input):
        return input.with_flat_values(bytes_split(input.flat_values))
    text = convert_to_tensor(as_text(input))
    if text.ndim is not None and text.ndim > 1:
        rows: Any = RaggedTensor.from_tensor(text, ragged_rank=text.ndim - 1)
        return bytes_split(rows)
    parts, *lengths = apply("bytes_split", [text])
    return RaggedTensor.from_row_lengths(parts, lengths[0], validate=False) if lengths else parts


def _pads(pad_values: Any) -> tuple[Any, Any]:
    if isinstance(pad_values, (str, bytes)):
        return pad_values, pad_values
    if isinstance(pad_values, (tuple, list)) and len(pad_values) == 2:
        return pad_values[0], pad_values[1]
    raise TypeError(f"pad_values is a string, two strings or None, not {pad_values!r}")


def _ngram_attrs(
    ngram_width: Any, separator: Any, pad_values: Any, padding_width: int | None, short: bool
) -> AttrTable:
    widths = [int(w) for w in np.atleast_1d(np.asarray(ngram_width)).tolist()]
    if any(width < 1 for width in widths):
        raise ValueError(f"widths of ngrams are at least 1, not {widths}")
    attrs = AttrTable().ints("widths", widths).bytes("separator", separator)
    attrs.bool("preserve_short_sequences", short)
    if pad_values is None:
        if padding_width is not None:
            raise ValueError("padding_width is given without pad_values")
        return attrs.int("pad_width", 0)
    if padding_width is not None and padding_width < 1:
        raise ValueError(f"padding_width is at least 1, not {padding_width}")
    left, right = _pads(pad_values)
    attrs.bytes("left_pad", left).bytes("right_pad", right)
    return attrs.int("pad_width", -1 if padding_width is None else padding_width)


def _row_ngrams(rows: Any, attrs: AttrTable) -> Any:
    """Of the innermost rows of a ragged tensor."""
    if is_composite(rows.values):
        return rows.with_values(_row_ngrams(rows.values, attrs))
    found, splits = apply("string_ngrams", [rows.values, rows.row_splits], attrs, same_dtype=False)
    return RaggedTensor.from_row_splits(found, splits, validate=False)


def ngrams(
    data: TensorLike,
    ngram_width: int | Sequence[int],
    separator: str | bytes = " ",
    pad_values: str | bytes | Sequence[str | bytes] | None = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Any:
    """Join the strings that follow one another along the last axis, so many at a time.

    Parameters
    ----------
    data : tensor_like of string, or RaggedTensor
        With one axis at least.
    ngram_width : int or sequence of int
        How many strings; of several widths the ngrams of the first come first.
    separator : str or bytes, default " "
        What stands between the strings.
    pad_values : str, bytes or two of them, optional
        What stands before and behind a row; None: nothing.
    padding_width : int, optional
        How often, but less than the width; by default one less than the width.
    preserve_short_sequences : bool, default False
        A row that is too short for each width is one ngram.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor, numpy.ndarray or RaggedTensor
        Strings; ragged if `data` is.

    Raises
    ------
    ValueError
        A width is less than 1, or `data` is a scalar.

    Examples
    --------
    >>> mr.strings.ngrams(["a", "stitch", "in", "time"], 3)
    array([b'a stitch in', b'stitch in time'], dtype=object)
    >>> mr.strings.ngrams(mr.ragged.constant([["a", "b"], ["c"]]), 2, pad_values=("<", ">"))
    <RaggedTensor [[b'< a', b'a b', b'b >'], [b'< c', b'c >']]>
    """
    attrs = _ngram_attrs(
        ngram_width, separator, pad_values, padding_width, preserve_short_sequences
    )
    if is_composite(data):
        return _row_ngrams(data, attrs)
    text = convert_to_tensor(as_text(data))
    if text.ndim is None or text.ndim < 1:
        raise ValueError("ngrams are made along the last axis of `data`, which has none")
    if text.ndim == 1:
        return _row_ngrams(RaggedTensor.from_tensor(expand_dims(text, 0)), attrs).values
    rows = RaggedTensor.from_tensor(text, ragged_rank=text.ndim - 1)
    return _row_ngrams(rows, attrs).to_tensor()


def unsorted_segment_join(
    inputs: TensorLike,
    segment_ids: TensorLike,
    num_segments: TensorLike,
    separator: str | bytes = "",
    name: str | None = None,
) -> Any:
    """Join the strings that have one number.

    Parameters
    ----------
    inputs : tensor_like of string
        With one axis at least.
    segment_ids : tensor_like of int
        Their numbers from 0 on, for the first axes of `inputs`.
    num_segments : tensor_like of int
        A scalar, above all of them.
    separator : str or bytes, default ""
        What stands between the strings.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Strings, [num_segments] and the axes of `inputs` that have no numbers. Of a number that
        nothing has, an empty string.

    Raises
    ------
    InvalidArgumentError
        A number is negative, or too large.

    Examples
    --------
    >>> mr.strings.unsorted_segment_join(["a", "b", "c"], [1, 0, 1], 3, separator="-")
    array([b'b', b'a-c', b''], dtype=object)
    """
    attrs = AttrTable().bytes("separator", separator)
    joined = apply1(
        "string_segment_join", [as_text(inputs), segment_ids, num_segments], attrs, same_dtype=False
    )
    count, dims = static_shape(num_segments), TensorShape(joined.shape).dims
    return joined if count is None or dims is None else sized(joined, [*count, *dims[1:]])


def _join_rows(inputs: Any, axis: int, separator: str | bytes) -> Any:
    """reduce_join() along one axis."""
    if not is_composite(inputs):
        return joined_axes(inputs, axis, False, separator)
    if axis > 1:
        return inputs.with_values(_join_rows(inputs.values, axis - 1, separator))

    def combine(data: Any, ids: Any, count: Any) -> Any:
        return unsorted_segment_join(data, ids, count, separator)

    return aggregated_rows(inputs, axis, combine)


def reduce_join(
    inputs: TensorLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    separator: str | bytes = "",
    name: str | None = None,
) -> Any:
    """Join the strings of a tensor, all or along axes.

    Parameters
    ----------
    inputs : tensor_like of string, or RaggedTensor
        Bytes or str, of any shape.
    axis : int or sequence of int, optional
        Along which; of several the first moves first, but of a ragged tensor those of the last
        axis are joined first. By default all are joined, in order.
    keepdims : bool, default False
        Whether these axes stay, with the size 1.
    separator : str or bytes, default ""
        What stands between the strings.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor, numpy.ndarray or RaggedTensor
        Strings.

    Raises
    ------
    InvalidArgumentError
        There is no such axis, or it is named twice.

    Examples
    --------
    >>> mr.strings.reduce_join([["a", "b"], ["c", "d"]], axis=0, separator="-")
    array([b'a-c', b'b-d'], dtype=object)
    >>> mr.strings.reduce_join(mr.ragged.constant([["a", "b"], ["c"]]), axis=1)
    array([b'ab', b'c'], dtype=object)
    """
    if not is_composite(inputs):
        return joined_axes(inputs, axis, keepdims, separator)
    rank = inputs.shape.rank
    if axis is None:
        joined = joined_axes(inputs.flat_values, None, False, separator)
        return reshape(joined, [1] * rank if keepdims else [])
    axes = [int(a) for a in np.atleast_1d(np.asarray(axis, np.int64))]
    if any(not -rank <= a < rank for a in axes):
        raise errors.InvalidArgumentError(f"axis {axis!r} of a tensor of rank {rank}")
    axes = sorted((a % rank for a in axes), reverse=True)
    if len(set(axes)) < len(axes):
        raise errors.InvalidArgumentError(
            f"axis {axis!r} of a tensor of rank {rank} names one of them twice"
        )
    joined = inputs
    for one in axes:
        joined = _join_rows(joined, one, separator)
        joined = expand_dims(joined, one) if keepdims else joined
    return joined
