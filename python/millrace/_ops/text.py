"""Strings and their bytes, under TensorFlow's names and arguments. `name` means nothing.

The public names are those of mr.strings and mr.io.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .._graph.attrs import AttrTable
from .._graph.literals import is_literal
from .._graph.symbol import TensorLike
from .._data.structure import is_composite
from .._graph.tensor import apply, apply1, convert_to_tensor
from ..dtypes import DTypeLike, as_dtype
from .docs import STRING, documented
from .ragged.tensor import RaggedTensor


def as_text(value: Any) -> Any:
    """A literal as strings: an empty list has no dtype of its own."""
    return convert_to_tensor(value, "string") if is_literal(value) else value


def as_string(
    input: TensorLike,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Any:
    """Write numbers as text; strings stay as they are.

    Parameters
    ----------
    input : tensor_like
        Numbers, bools or strings.
    precision : int, default -1
        Digits behind the point, of floats; -1: six.
    scientific, shortest : bool, default False
        Floats with an exponent; or with six digits at most. Not both.
    width : int, default -1
        What is shorter gets blanks in front, up to 1000; bools stay as they are.
    fill : str, default ""
        "0": zeros instead of blanks; "-": blanks behind; "+" or " ": what stands before a number
        that is not negative.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Strings, in the shape of `input`.

    Examples
    --------
    >>> mr.as_string([1.5, 2.0], precision=2)
    array([b'1.50', b'2.00'], dtype=object)
    >>> mr.as_string(7, width=3, fill="0")
    b'007'
    """
    attrs = AttrTable().int("precision", precision).bool("scientific", scientific)
    attrs.bool("shortest", shortest).int("width", width).bytes("fill", fill)
    return apply1("as_string", [input], attrs)


def to_number(
    input: TensorLike,
    out_type: DTypeLike = "float32",
    name: str | None = None,
    *,
    default: TensorLike | None = None,
) -> Any:
    """Read numbers from text.

    Parameters
    ----------
    input : tensor_like of string
        Bytes or str.
    out_type : dtype_like, default "float32"
        What the result has.
    name : str, optional
        Accepted and ignored.
    default : tensor_like, optional
        What stands for a text that is no such number. By default that is an error.

    Returns
    -------
    Tensor or numpy.ndarray
        Numbers, in the shape of `input`.

    Raises
    ------
    InvalidArgumentError
        A string is not a number, or does not fit, and there is no `default`.

    Examples
    --------
    >>> mr.strings.to_number(["1.5", "2"])
    array([1.5, 2. ], dtype=float32)
    >>> mr.strings.to_number(["1", "n/a"], mr.int64, default=-1)
    array([ 1, -1])
    """
    if default is not None:
        fallback = convert_to_tensor(default, out_type) if is_literal(default) else default
        if as_dtype(fallback.dtype) is not as_dtype(out_type):
            raise TypeError(
                f"default is {as_dtype(fallback.dtype).name}, out_type {as_dtype(out_type).name}"
            )
        return apply1("string_to_number_or", [as_text(input), fallback], same_dtype=False)
    return apply1("string_to_number", [as_text(input)], AttrTable().dtype("dtype", out_type))


def string_split(
    input: TensorLike, sep: str | bytes | None = None, maxsplit: int = -1, name: str | None = None
) -> Any:
    """Cut strings into parts, much as Python's str.split does.

    Parameters
    ----------
    input : tensor_like of string, or RaggedTensor
        Bytes or str, of any shape.
    sep : str or bytes, optional
        Where they are cut; by default between runs of blanks.
    maxsplit : int, default -1
        How often at most, what is left being the last part; -1: wherever it goes.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor, numpy.ndarray or RaggedTensor
        Of a scalar the vector of its parts; else a ragged tensor with an axis more.

    Examples
    --------
    >>> mr.strings.split("a stitch in time")
    array([b'a', b'stitch', b'in', b'time'], dtype=object)
    >>> mr.strings.split(["a b", "c"])
    <RaggedTensor [[b'a', b'b'], [b'c']]>
    """
    if is_composite(input):
        return input.with_flat_values(string_split(input.flat_values, sep, maxsplit))
    text = convert_to_tensor(as_text(input))
    if text.ndim is not None and text.ndim > 1:
        rows = RaggedTensor.from_tensor(text, ragged_rank=text.ndim - 1)
        return rows.with_flat_values(string_split(rows.flat_values, sep, maxsplit))
    attrs = AttrTable().int("maxsplit", maxsplit)
    if sep is not None and sep not in ("", b""):
        attrs.bytes("sep", sep)
    parts, *lengths = apply("string_split", [text], attrs)
    return RaggedTensor.from_row_lengths(parts, lengths[0], validate=False) if lengths else parts


def regex_replace(
    input: TensorLike,
    pattern: str | bytes,
    rewrite: str | bytes,
    replace_global: bool = True,
    name: str | None = None,
) -> Any:
    """Replace what matches a pattern, element-wise.

    Parameters
    ----------
    input : tensor_like of string
        Bytes or str, of any shape.
    pattern : str or bytes
        A regular expression, in the syntax of RE2 (https://github.com/google/re2/wiki/Syntax).
    rewrite : str or bytes
        What takes the place of a match; ``\\0`` to ``\\9`` stand for its groups.
    replace_global : bool, default True
        All matches, or the first alone.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Strings, in the shape of `input`.

    Raises
    ------
    InvalidArgumentError
        The pattern is no regular expression, or the rewrite refers to a group that it has not.

    Examples
    --------
    >>> mr.strings.regex_replace(["a1b22"], "[0-9]+", "-")
    array([b'a-b-'], dtype=object)
    """
    attrs = AttrTable().bytes("pattern", pattern).bytes("rewrite", rewrite)
    return apply1("regex_replace", [as_text(input)], attrs.bool("replace_global", replace_global))


def regex_full_match(input: TensorLike, pattern: str | bytes, name: str | None = None) -> Any:
    """Return whether the whole string matches a pattern, element-wise.

    Parameters
    ----------
    input : tensor_like of string
        Bytes or str, of any shape.
    pattern : str or bytes
        A regular expression, in the syntax of RE2 (https://github.com/google/re2/wiki/Syntax).
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Bools, in the shape of `input`.

    Raises
    ------
    InvalidArgumentError
        The pattern is no regular expression.

    Examples
    --------
    >>> mr.strings.regex_full_match(["a1", "b"], "[a-z][0-9]")
    array([ True, False])
    """
    return apply1("regex_full_match", [as_text(input)], AttrTable().bytes("pattern", pattern))


def to_hash_bucket_fast(input: TensorLike, num_buckets: int, name: str | None = None) -> Any:
    """Give each string a number, the same for equal ones.

    Parameters
    ----------
    input : tensor_like of string
        Bytes or str, of any shape.
    num_buckets : int
        The numbers are below it: a string's XXH3-64, modulo. (TensorFlow's numbers are others.)
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        int64, in the shape of `input`.

    Examples
    --------
    >>> mr.strings.to_hash_bucket_fast(["a", "b", "a"], 100)
    array([19, 15, 19])
    """
    return apply1(
        "string_to_hash_bucket", [as_text(input)], AttrTable().int("num_buckets", num_buckets)
    )


def to_hash_bucket(input: TensorLike, num_buckets: int, name: str | None = None) -> Any:
    """Give each string a number, the same for equal ones: TensorFlow's.

    Parameters
    ----------
    input : tensor_like of string
        Bytes or str, of any shape.
    num_buckets : int
        The numbers are below it: a string's MurmurHash64A, modulo.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        int64, in the shape of `input`.

    Examples
    --------
    >>> mr.strings.to_hash_bucket(["a", "b", "a"], 1000)
    array([868, 370, 868])
    """
    attrs = AttrTable().int("num_buckets", num_buckets).bytes("hash", "murmur")
    return apply1("string_to_hash_bucket", [as_text(input)], attrs)


def to_hash_bucket_strong(
    input: TensorLike, num_buckets: int, key: Sequence[int], name: str | None = None
) -> Any:
    """Give each string a number that nobody can tell who has not the key: TensorFlow's.

    Parameters
    ----------
    input : tensor_like of string
        Bytes or str, of any shape.
    num_buckets : int
        The numbers are below it: a string's SipHash-2-4, modulo.
    key : sequence of int
        Two.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        int64, in the shape of `input`.

    Examples
    --------
    >>> mr.strings.to_hash_bucket_strong(["a", ""], 1000, key=[1, 2])
    array([646, 435])
    """
    attrs = AttrTable().int("num_buckets", num_buckets).bytes("hash", "siphash")
    return apply1("string_to_hash_bucket", [as_text(input)], attrs.ints("key", list(key)))


def string_length(input: TensorLike, unit: str = "BYTE", name: str | None = None) -> Any:
    """Count the bytes or the characters of strings.

    Parameters
    ----------
    input : tensor_like of string
        Bytes or str, of any shape.
    unit : {"BYTE", "UTF8_CHAR"}, default "BYTE"
        What is counted.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        int32, in the shape of `input`.

    Examples
    --------
    >>> mr.strings.length(["abc", ""])
    array([3, 0], dtype=int32)
    """
    return apply1("string_length", [as_text(input)], AttrTable().bytes("unit", unit))


def string_join(
    inputs: Sequence[TensorLike], separator: str | bytes = "", name: str | None = None
) -> Any:
    """Join strings, element-wise.

    Parameters
    ----------
    inputs : sequence of tensor_like of string
        They broadcast.
    separator : str or bytes, default ""
        What stands between them.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Strings.

    Examples
    --------
    >>> mr.strings.join([["a", "b"], "x"], separator="-")
    array([b'a-x', b'b-x'], dtype=object)
    """
    inputs = [as_text(value) for value in inputs]
    if not inputs:
        return convert_to_tensor(b"")
    return apply1("string_join", inputs, AttrTable().bytes("separator", separator))


def joined_axes(inputs: Any, axis: Any, keepdims: bool, separator: str | bytes) -> Any:
    """reduce_join() of a tensor that is not ragged."""
    attrs = AttrTable().bool("keepdims", keepdims).bytes("separator", separator)
    if axis is not None:
        attrs.ints("axes", np.atleast_1d(np.asarray(axis, np.int64)).tolist())
    return apply1("string_reduce_join", [as_text(inputs)], attrs)


def substr(
    input: TensorLike, pos: TensorLike, len: TensorLike, unit: str = "BYTE", name: str | None = None
) -> Any:
    """Cut pieces out of strings, element-wise.

    Parameters
    ----------
    input : tensor_like of string
        Bytes or str, of any shape.
    pos : tensor_like of int
        Where a piece begins; a negative position counts from the end.
    len : tensor_like of int
        How many; fewer where the string ends. A negative number is the rest of the bytes, but no
        characters.
    unit : {"BYTE", "UTF8_CHAR"}, default "BYTE"
        What is counted.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Strings, in the shape of `input`.

    Raises
    ------
    InvalidArgumentError
        `pos` is outside of a string.

    Examples
    --------
    >>> mr.strings.substr(["hello", "world"], 1, 3)
    array([b'ell', b'orl'], dtype=object)
    >>> mr.strings.substr("na\u00efve", -3, 2, unit="UTF8_CHAR").decode()
    'ïv'
    """
    attrs = AttrTable().bytes("unit", unit)
    return apply1("substr", [as_text(input), pos, len], attrs, same_dtype=False)


@documented(STRING)
def string_lower(input: TensorLike, encoding: str = "", name: str | None = None) -> Any:
    """Write letters in lower case.

    >>> mr.strings.lower(["Hello"])
    array([b'hello'], dtype=object)
    >>> mr.strings.lower("\u00c9T\u00c9", encoding="utf-8").decode()
    'été'
    """
    return apply1("string_lower", [as_text(input)], AttrTable().bytes("encoding", encoding))


@documented(STRING)
def string_upper(input: TensorLike, encoding: str = "", name: str | None = None) -> Any:
    """Write letters in upper case.

    >>> mr.strings.upper(["Hello"])
    array([b'HELLO'], dtype=object)
    >>> mr.strings.upper("stra\u00dfe", encoding="utf-8")
    b'STRASSE'
    """
    return apply1("string_upper", [as_text(input)], AttrTable().bytes("encoding", encoding))


def string_strip(input: TensorLike, name: str | None = None) -> Any:
    """Take ASCII blanks off both ends.

    Parameters
    ----------
    input : tensor_like of string
        Bytes or str, of any shape.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        Strings, in the shape of `input`.

    Examples
    --------
    >>> mr.strings.strip([" a b "])
    array([b'a b'], dtype=object)
    """
    return apply1("string_strip", [as_text(input)])


def decode_raw(
    input_bytes: TensorLike,
    out_type: DTypeLike,
    little_endian: bool = True,
    fixed_length: TensorLike | None = None,
    name: str | None = None,
) -> Any:
    """Read the bytes of strings as numbers.

    Parameters
    ----------
    input_bytes : tensor_like of string
        All of one length, which is a multiple of the size of a number, unless there is a
        `fixed_length`.
    out_type : dtype_like
        What the numbers are.
    little_endian : bool, default True
        Their order of bytes.
    fixed_length : tensor_like of int, optional
        How many bytes of each string are read, a multiple of the size of a number. Zeros stand
        for those that a string lacks.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        With one axis more than `input_bytes`.

    Raises
    ------
    InvalidArgumentError
        A length is not a multiple of the size.

    Examples
    --------
    >>> mr.io.decode_raw(b"abcd", mr.uint8)
    array([ 97,  98,  99, 100], dtype=uint8)
    >>> mr.io.decode_raw([b"a", b"abc"], mr.uint8, fixed_length=2)
    array([[97,  0],
           [97, 98]], dtype=uint8)
    """
    attrs = AttrTable().dtype("dtype", out_type).bool("little_endian", little_endian)
    inputs = [as_text(input_bytes)]
    if isinstance(fixed_length, (int, np.integer)):
        attrs.int("fixed_length", int(fixed_length))
    elif fixed_length is not None:
        inputs.append(fixed_length)
    return apply1("decode_raw", inputs, attrs, same_dtype=False)
