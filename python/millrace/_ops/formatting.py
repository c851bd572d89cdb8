"""Tensors as text for people to read, under TensorFlow's names and arguments. `name` means nothing.

The public names are those of mr.strings.
"""

from __future__ import annotations

from typing import Any

from .._data.structure import is_composite, is_ragged
from .._graph.attrs import AttrTable
from .._graph.tensor import apply1, convert_to_tensor
from ..dtypes import as_dtype
from .arrays import reshape, shape, where
from .constants import range as _range, zeros_like
from .elementwise import greater, less, logical_and
from .ragged.rows import positions
from .ragged.tensor import RaggedTensor
from .selection import boolean_mask, repeat
from .text import as_string, regex_replace, string_join
from .words import unsorted_segment_join


def _rows(texts: Any, lengths: Any, summarize: int) -> Any:
    """The texts of each row as one: "[a, b, ..., y, z]". The rows follow one another."""
    count = shape(lengths, "int64")[0]
    ids = repeat(_range(count), lengths, axis=0)
    if summarize > 0:
        places = positions(zeros_like(lengths), lengths)
        sizes = repeat(lengths, lengths, axis=0)
        long = greater(sizes, 2 * summarize)
        texts = where(logical_and(long, places == summarize), "...", texts)
        left = less(places, sizes - summarize)
        keep = ~logical_and(logical_and(long, greater(places, summarize)), left)
        texts, ids = boolean_mask(texts, keep), boolean_mask(ids, keep)
    return string_join(["[", unsorted_segment_join(texts, ids, count, ", "), "]"])


def _entries(value: Any, summarize: int) -> Any:
    """A text for each entry along the first axis."""
    if is_ragged(value):
        return _rows(_entries(value.values, summarize), value.row_lengths(), summarize)
    if value.ndim > 1:
        return _entries(RaggedTensor.from_tensor(value, ragged_rank=value.ndim - 1), summarize)
    if as_dtype(value.dtype).name != "string":
        return as_string(value)
    return string_join(["'", regex_replace(value, r"[\\']", r"\\\0"), "'"])


def _text(value: Any, summarize: int) -> Any:
    """What stands in the place of @value."""
    if not is_ragged(value):
        attrs = AttrTable().bytes("template", b"{}").bytes("placeholder", b"{}")
        attrs.int("summarize", summarize)
        return apply1("string_format", [value], attrs, same_dtype=False)
    if summarize != -1 and summarize < 1:
        raise ValueError(f"summarize is -1 or at least 1 for a ragged tensor, not {summarize}")
    entries = _entries(value, summarize)
    return _rows(entries, reshape(value.nrows("int64"), [1]), summarize)[0]


def format(
    template: str | bytes,
    inputs: Any,
    placeholder: str | bytes = "{}",
    summarize: int | None = 3,
    name: str | None = None,
) -> Any:
    """Write tensors into a text, for people to read.

    Parameters
    ----------
    template : str or bytes
        The text.
    inputs : tensor_like or RaggedTensor, or list or tuple of these
        One for each placeholder.
    placeholder : str or bytes, default "{}"
        What stands for a tensor.
    summarize : int, default 3
        How many parts are written of each end of an axis; None or a negative number: all are.
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
    >>> mr.strings.format("{}", mr.ragged.constant([["a", "b"], []]))
    b"[['a', 'b'], []]"
    """
    tensors = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    text, mark = (s.encode() if isinstance(s, str) else s for s in (template, placeholder))
    if text.count(mark) != len(tensors):
        raise ValueError(f"{text.count(mark)} placeholders for {len(tensors)} tensors")
    if not tensors:
        return convert_to_tensor(text)
    ends = -1 if summarize is None else summarize
    if any(is_composite(one) for one in tensors):
        pieces = text.split(mark)
        texts = [part for one, piece in zip(tensors, pieces) for part in (piece, _text(one, ends))]
        return string_join([*texts, pieces[-1]])
    attrs = AttrTable().bytes("template", text).bytes("placeholder", mark)
    return apply1("string_format", tensors, attrs.int("summarize", ends), same_dtype=False)
