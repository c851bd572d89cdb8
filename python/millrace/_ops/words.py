"""Strings cut into pieces and put together again, under TensorFlow's names and arguments. `name`
means nothing.

The public names are those of mr.strings.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .. import errors
from .._data.structure import is_composite
from .._graph.attrs import AttrTable
from .._graph.symbol import TensorLike
from .._graph.tensor import apply, apply1, convert_to_tensor
from .arrays import expand_dims, reshape
from .constants import zeros_like
from .ragged.rows import positions
from .ragged.tensor import RaggedTensor
from .reductions import reduce_max
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
    return apply1(
        "string_segment_join", [as_text(inputs), segment_ids, num_segments], attrs, same_dtype=False
    )


def _join_rows(inputs: Any, axis: int, keepdims: bool, separator: str | bytes) -> Any:
    """reduce_join() of a ragged tensor along one of its axes."""
    values = inputs.values
    if axis > 1 or (axis == 1 and is_composite(values)):
        if axis == 1:
            raise errors.UnimplementedError(
                "reduce_join along a ragged axis with another within is not supported: join along "
                "the last axis first"
            )
        inner = reduce_join(values, axis - 1, keepdims, separator)
        return inputs.with_values(inner)
    if axis == 1:
        ids, count = inputs.value_rowids(), inputs.nrows("int64")
    elif is_composite(values):
        raise errors.UnimplementedError(
            "reduce_join along axis 0 is supported for ragged tensors with one ragged axis"
        )
    else:
        lengths = inputs.row_lengths()
        ids = positions(zeros_like(lengths), lengths)
        count = reduce_max(lengths)
    joined = unsorted_segment_join(values, ids, count, separator)
    return expand_dims(joined, axis) if keepdims else joined


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
        Along which; of several the first moves first. By default all are joined, in order. Of a
        ragged tensor one.
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
    if axis is None:
        joined = joined_axes(inputs.flat_values, None, False, separator)
        return reshape(joined, [1] * inputs.shape.rank if keepdims else [])
    if not isinstance(axis, (int, np.integer)):
        raise errors.UnimplementedError("reduce_join of a ragged tensor takes one axis, or all")
    rank = inputs.shape.rank
    if not -rank <= axis < rank:
        raise errors.InvalidArgumentError(f"axis {axis} of a tensor of rank {rank}")
    return _join_rows(inputs, int(axis) % rank, keepdims, separator)


def format(
    template: str | bytes,
    inputs: Any,
    placeholder: str | bytes = "{}",
    summarize: int = 3,
    name: str | None = None,
) -> Any:
    """Write tensors into a text, for people to read.

    Parameters
    ----------
    template : str or bytes
        The text.
    inputs : tensor_like, or list or tuple of tensor_like
        One for each placeholder.
    placeholder : str or bytes, default "{}"
        What stands for a tensor.
    summarize : int, default 3
        How many parts are written of each end of an axis; a negative number: all are.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or bytes
        A scalar string.

    Raises
    ------
    ValueError
        There are more or fewer placeholders than tensors.

    Examples
    --------
    >>> mr.strings.format("{} of {}", (np.arange(9), "nine"))
    b'[0 1 2 ... 6 7 8] of "nine"'
    """
    tensors = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    text, mark = (s.encode() if isinstance(s, str) else s for s in (template, placeholder))
    if text.count(mark) != len(tensors):
        raise ValueError(f"{text.count(mark)} placeholders for {len(tensors)} tensors")
    if not tensors:
        return convert_to_tensor(text)
    attrs = AttrTable().bytes("template", text).bytes("placeholder", mark)
    return apply1("string_format", tensors, attrs.int("summarize", summarize), same_dtype=False)
