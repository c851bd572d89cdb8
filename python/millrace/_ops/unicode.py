"""Characters of strings, under TensorFlow's names and arguments. `name` means nothing.

The public names are those of mr.strings.
"""

from __future__ import annotations

from typing import Any

from .._data.structure import is_composite
from .._graph.attrs import AttrTable
from .._graph.symbol import TensorLike
from .._graph.tensor import apply, apply1, convert_to_tensor
from .arrays import reshape, shape
from .constants import fill, ones_like
from .docs import unicode_documented
from .ragged.tensor import RaggedTensor
from .text import as_text


def _attrs(errors: str, replacement_char: int) -> AttrTable:
    return AttrTable().bytes("errors", errors).int("replacement_char", replacement_char)


def _decoded(input: Any, attrs: AttrTable) -> tuple[Any, Any]:
    """Code points, and where each begins: with an axis more than the strings."""
    if is_composite(input):
        codes, offsets = _decoded(input.flat_values, attrs)
        return input.with_flat_values(codes), input.with_flat_values(offsets)
    text = convert_to_tensor(as_text(input))
    if text.ndim is not None and text.ndim > 1:
        return _decoded(RaggedTensor.from_tensor(text, ragged_rank=text.ndim - 1), attrs)
    codes, offsets, *lengths = apply("unicode_decode", [text], attrs)
    if not lengths:
        return codes, offsets
    rows = RaggedTensor.from_row_lengths(codes, lengths[0], validate=False)
    return rows, rows.with_values(offsets)


@unicode_documented("Tensor, numpy.ndarray or RaggedTensor", "int32, with an axis more.")
def unicode_decode(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Return the code points of strings.

    >>> mr.strings.unicode_decode("h\\u00e9", "UTF-8")
    array([104, 233], dtype=int32)
    >>> mr.strings.unicode_decode(["a", "bc"], "UTF-8")
    <RaggedTensor [[97], [98, 99]]>
    """
    attrs = _attrs(errors, replacement_char).bytes("input_encoding", input_encoding)
    return _decoded(input, attrs.bool("replace_control_characters", replace_control_characters))[0]


@unicode_documented(
    "tuple of Tensor, numpy.ndarray or RaggedTensor",
    "The code points, int32, and at which byte each begins, int64; with an axis more.",
)
def unicode_decode_with_offsets(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Return the code points of strings, and where each begins.

    >>> mr.strings.unicode_decode_with_offsets("\\u00e9a", "UTF-8")
    (array([233,  97], dtype=int32), array([0, 2]))
    """
    attrs = _attrs(errors, replacement_char).bytes("input_encoding", input_encoding)
    return _decoded(input, attrs.bool("replace_control_characters", replace_control_characters))


def _each(codes: Any, attrs: AttrTable) -> Any:
    """A string for each code point."""
    if is_composite(codes):
        return codes.with_flat_values(_each(codes.flat_values, attrs))
    return apply1("unicode_encode", [codes, ones_like(codes)], attrs, same_dtype=False)


@unicode_documented("Tensor, numpy.ndarray or RaggedTensor", "Strings, with an axis more.")
def unicode_split(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> Any:
    """Cut strings into their characters, which have the encoding of the strings.

    >>> [c.decode() for c in mr.strings.unicode_split("h\\u00e9", "UTF-8")]
    ['h', 'é']
    """
    return unicode_split_with_offsets(input, input_encoding, errors, replacement_char)[0]


@unicode_documented(
    "tuple of Tensor, numpy.ndarray or RaggedTensor",
    "The characters, and at which byte each begins, int64; with an axis more.",
)
def unicode_split_with_offsets(
    input: TensorLike,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> Any:
    """Cut strings into their characters, and say where each begins.

    >>> mr.strings.unicode_split_with_offsets(["ab", "c"], "UTF-8")[1]
    <RaggedTensor [[0, 1], [0]]>
    """
    attrs = _attrs(errors, replacement_char)
    codes, offsets = _decoded(
        input, _attrs(errors, replacement_char).bytes("input_encoding", input_encoding)
    )
    return _each(codes, attrs.bytes("output_encoding", input_encoding)), offsets


def _encoded(input: Any, attrs: AttrTable) -> Any:
    if is_composite(input):
        values = input.values
        if is_composite(values) or values.ndim > 1:
            return input.with_values(_encoded(values, attrs))
        return apply1("unicode_encode", [values, input.row_lengths()], attrs, same_dtype=False)
    codes = convert_to_tensor(input)
    if codes.ndim is None or codes.ndim < 1:
        raise ValueError("code points have at least one axis: those of a string lie along the last")
    sizes = shape(codes, "int64")
    lengths = sizes[-1] if codes.ndim == 1 else fill(sizes[:-1], sizes[-1])
    return apply1("unicode_encode", [reshape(codes, [-1]), lengths], attrs, same_dtype=False)


@unicode_documented("Tensor, numpy.ndarray or RaggedTensor", "Strings, with an axis less.")
def unicode_encode(
    input: TensorLike,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> Any:
    """Make strings of code points.

    >>> mr.strings.unicode_encode([[72, 105], [111, 107]], "UTF-8")
    array([b'Hi', b'ok'], dtype=object)
    """
    attrs = _attrs(errors, replacement_char).bytes("output_encoding", output_encoding)
    return _encoded(input, attrs)


@unicode_documented("Tensor, numpy.ndarray or RaggedTensor", "Strings, in the shape of `input`.")
def unicode_transcode(
    input: TensorLike,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Write strings in another encoding.

    >>> mr.strings.unicode_transcode("h\\u00e9", "UTF-8", "UTF-16-BE")
    b'\\x00h\\x00\\xe9'
    """
    attrs = _attrs(errors, replacement_char).bytes("input_encoding", input_encoding)
    attrs.bytes("output_encoding", output_encoding)
    attrs.bool("replace_control_characters", replace_control_characters)
    return apply1("unicode_transcode", [as_text(input)], attrs)


def unicode_script(input: TensorLike, name: str | None = None) -> Any:
    """Return which script code points are of.

    Parameters
    ----------
    input : tensor_like of int32
        Code points, of any shape.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor, numpy.ndarray or RaggedTensor
        int32, in the shape of `input`: ICU's numbers
        (https://unicode-org.github.io/icu-docs/apidoc/released/icu4c/uscript_8h.html); -1 for what is
        no code point.

    Examples
    --------
    >>> mr.strings.unicode_script([ord("a"), ord("\\u03b1"), ord("1"), -1])
    array([25, 14,  0, -1], dtype=int32)
    """
    return apply1("unicode_script", [input])
