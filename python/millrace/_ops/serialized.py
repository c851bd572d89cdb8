"""Whole tensors as bytes, and bytes as letters, under TensorFlow's names. `name` means nothing."""

from __future__ import annotations

from typing import Any

from .._graph.attrs import AttrTable
from .._graph.symbol import TensorLike
from .._graph.tensor import apply1
from ..dtypes import DTypeLike, as_dtype
from .text import as_text


def parse_tensor(serialized: TensorLike, out_type: DTypeLike, name: str | None = None) -> Any:
    """Read a tensor from the bytes that `serialize_tensor` made of it.

    As ``tf.io.parse_tensor``. In a function, the result has an unknown rank: `mr.ensure_shape` or
    `mr.reshape` behind it say what it is, which `padded_batch` and many functions need.

    Parameters
    ----------
    serialized : tensor_like of string
        A TensorProto of TensorFlow, scalar.
    out_type : dtype_like
        The dtype of the tensor; it must be that of the bytes.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        The tensor, of the shape that the bytes say.

    Raises
    ------
    InvalidArgumentError
        The bytes are no TensorProto, or of another dtype; or the tensor has more than 8 axes, or more
        than 1 GiB.

    Examples
    --------
    >>> mr.io.parse_tensor(mr.io.serialize_tensor([[1, 2], [3, 4]]), mr.int32)
    array([[1, 2],
           [3, 4]], dtype=int32)
    >>> ds = mr.Dataset.from_tensors(mr.io.serialize_tensor([[1.0, 2.0]]))
    >>> ds = ds.map(lambda x: mr.ensure_shape(mr.io.parse_tensor(x, mr.float32), [None, 2]))
    >>> ds.element_spec
    TensorSpec(shape=(None, 2), dtype=mr.float32)
    """
    attrs = AttrTable().dtype("dtype", as_dtype(out_type))
    return apply1("parse_tensor", [as_text(serialized)], attrs, same_dtype=False)


def serialize_tensor(tensor: TensorLike, name: str | None = None) -> Any:
    r"""Write a tensor as bytes, with its dtype and shape.

    As ``tf.io.serialize_tensor``, whose bytes are the same.

    Parameters
    ----------
    tensor : tensor_like
        Of any dtype and shape.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or bytes
        A TensorProto of TensorFlow, scalar: `parse_tensor` reads it.

    Examples
    --------
    >>> mr.io.serialize_tensor(mr.constant([7, 8], mr.uint8))
    b'\x08\x04\x12\x04\x12\x02\x08\x02"\x02\x07\x08'
    """
    return apply1("serialize_tensor", [tensor])


def encode_base64(input: TensorLike, pad: bool = False, name: str | None = None) -> Any:
    """Write bytes as base64, with the letters that are safe in URLs.

    As ``tf.io.encode_base64``: "-" and "_" stand where others have "+" and "/".

    Parameters
    ----------
    input : tensor_like of string
        Bytes.
    pad : bool, default False
        Whether "=" fills up the last four letters.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor, bytes or numpy.ndarray
        Of the shape of `input`.

    Examples
    --------
    >>> mr.io.encode_base64([b"a", b"abc"], pad=True)
    array([b'YQ==', b'YWJj'], dtype=object)
    """
    if not isinstance(pad, bool):
        raise TypeError(f"pad is True or False, not {pad!r}")
    return apply1("encode_base64", [as_text(input)], AttrTable().bool("pad", pad))


def decode_base64(input: TensorLike, name: str | None = None) -> Any:
    """Read bytes from base64, with the letters that are safe in URLs.

    As ``tf.io.decode_base64``.

    Parameters
    ----------
    input : tensor_like of string
        Base64, with or without "=" that fill up the last four letters.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor, bytes or numpy.ndarray
        Of the shape of `input`.

    Raises
    ------
    InvalidArgumentError
        A byte is no such letter, or one letter is left over.

    Examples
    --------
    >>> mr.io.decode_base64("YWJj")
    b'abc'
    """
    return apply1("decode_base64", [as_text(input)])
