"""Sound from bytes and back, under TensorFlow's names. `name` means nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import dtypes
from .._graph.attrs import AttrTable
from .._graph.symbol import TensorLike
from .._graph.tensor import apply, apply1, convert_to_tensor


class DecodeWav(NamedTuple):
    """What `decode_wav` gives."""

    audio: Any
    sample_rate: Any


def decode_wav(
    contents: TensorLike,
    desired_channels: int = -1,
    desired_samples: int = -1,
    name: str | None = None,
) -> DecodeWav:
    r"""Decode a WAV file of 16-bit PCM.

    As ``tf.audio.decode_wav``.

    Parameters
    ----------
    contents : tensor_like of string
        The bytes of the file, scalar.
    desired_channels : int, default -1
        How many channels the result has: the first ones, or the last one again. -1: as many as the
        file has.
    desired_samples : int, default -1
        How many samples the result has: the first ones, or silence behind them. -1: as many as the
        file has.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    DecodeWav
        `audio`, float32 [samples, channels] from -1 to 1, and `sample_rate`, a scalar int32: samples
        a second.

    Raises
    ------
    InvalidArgumentError
        The bytes are no such file, or it ends early.

    Examples
    --------
    >>> wav = mr.audio.encode_wav([[0.0], [0.5], [-1.0]], 8000)
    >>> audio, rate = mr.audio.decode_wav(wav)
    >>> audio[:, 0]
    array([ 0. ,  0.5, -1. ], dtype=float32)
    >>> int(rate)
    8000
    """
    attrs = AttrTable().int("desired_channels", desired_channels)
    results = apply("decode_wav", [contents], attrs.int("desired_samples", desired_samples))
    return DecodeWav(*results)


def encode_wav(audio: TensorLike, sample_rate: TensorLike, name: str | None = None) -> Any:
    """Encode sound as a WAV file of 16-bit PCM.

    As ``tf.audio.encode_wav``.

    Parameters
    ----------
    audio : tensor_like of float32
        [samples, channels], from -1 to 1; what is beyond becomes the largest there is.
    sample_rate : tensor_like of int
        Samples a second, scalar.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or bytes
        The bytes of the file.

    Raises
    ------
    InvalidArgumentError
        The audio has another shape or dtype, or there is no such rate.

    Examples
    --------
    >>> mr.audio.encode_wav(mr.zeros([10, 2]), 44100)[:4]
    b'RIFF'
    """
    samples = convert_to_tensor(audio, dtypes.float32)
    rate = convert_to_tensor(sample_rate, dtypes.int32)
    return apply1("encode_wav", [samples, rate], AttrTable(), same_dtype=False)
