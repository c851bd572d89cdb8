"""Sound: frames, windows, spectra and what is made of them. `name` means nothing."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from .. import errors
from .._data.block import Array
from .._graph.attrs import AttrTable
from .._graph.symbol import TensorLike, holds_symbols
from .._graph.tensor import Tensor, apply1, compute, convert_to_tensor
from ..dtypes import DType, DTypeLike, as_dtype
from .arrays import pad, shape
from .constants import cast
from .docs import described
from .elementwise import maximum


def _length(value: Any, what: str) -> int:
    if holds_symbols(value):
        raise errors.UnimplementedError(f"{what} is a constant: its size makes the shape")
    array = np.asarray(value).reshape(-1)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"{what} is an integer, not {value!r}")
    return int(array[0])


# ---- windows ----


def _cosine(length: Any, periodic: Any, dtype: DTypeLike, a: float, what: str) -> Any:
    size, kind = _length(length, "window_length"), as_dtype(dtype)
    if not kind.is_floating:
        raise ValueError(f"{what} is of floats, not of {kind.name}")
    if size == 1:
        return convert_to_tensor(np.ones(1, kind.numpy_dtype()))
    # Of an even length a period has one value more.
    steps = size - (0 if periodic and size % 2 == 0 else 1)
    values = a - (1 - a) * np.cos(2 * np.pi * np.arange(size) / steps)
    return convert_to_tensor(values.astype(kind.numpy_dtype()))


_WINDOW = {
    "window_length": "int: How many values.",
    "periodic": "bool, default True: Whether one value more would begin the next period.",
    "dtype": 'dtype_like, default "float32": Of the result.',
}


@described("A vector.", **_WINDOW)
def hann_window(
    window_length: Any, periodic: Any = True, dtype: DTypeLike = "float32", name: str | None = None
) -> Any:
    """Make a Hann window.

    >>> mr.signal.hann_window(4)
    array([0. , 0.5, 1. , 0.5], dtype=float32)
    """
    return _cosine(window_length, periodic, dtype, 0.5, "hann_window")


@described("A vector.", **_WINDOW)
def hamming_window(
    window_length: Any, periodic: Any = True, dtype: DTypeLike = "float32", name: str | None = None
) -> Any:
    """Make a Hamming window.

    >>> mr.signal.hamming_window(4)
    array([0.08, 0.54, 1.  , 0.54], dtype=float32)
    """
    return _cosine(window_length, periodic, dtype, 0.54, "hamming_window")


# ---- frames and spectra ----


@described(
    "With the axis of frames in place of the axis, and behind it that of their values.",
    signal="tensor_like: Of one axis or more.",
    frame_length="int: How many values a frame has.",
    frame_step="int: How far apart they begin.",
    pad_end="bool, default False: Whether the last frames are filled up.",
    pad_value="scalar, default 0: By what.",
)
def frame(
    signal: TensorLike,
    frame_length: Any,
    frame_step: Any,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Any:
    """Cut an axis into frames, which may overlap.

    >>> mr.signal.frame([1, 2, 3, 4, 5], 3, 2)
    array([[1, 2, 3],
           [3, 4, 5]], dtype=int32)
    """
    length, step = _length(frame_length, "frame_length"), _length(frame_step, "frame_step")

    def body(x: Tensor) -> Any:
        rank = x.shape.rank
        if rank is None or rank < 1:
            raise ValueError(f"frame takes a tensor of one axis or more, not {x.shape}")
        along = axis % rank
        value: Any = _filled(x, along, length, step, pad_value) if pad_end else x
        attrs = AttrTable().int("axis", along).int("length", length).int("step", step)
        return apply1("frame", [value], attrs)

    return compute(body, [signal])


def _filled(x: Tensor, axis: int, length: int, step: int, value: Any) -> Any:
    """So long that a frame begins at every step, and none is cut off."""
    size = x.shape.as_list()[axis]
    paddings: list[list[Any]] = [[0, 0] for _ in x.shape.as_list()]
    if size is not None:
        paddings[axis][1] = max(0, length + step * (-(-size // step) - 1) - size)
        return pad(x, paddings, constant_values=value)
    whole = shape(x, "int64")[axis]
    more = maximum((whole + (step - 1)) // step * step - step + length - whole, 0)
    table = cast(np.zeros((len(paddings), 2)), "int64")
    place = [[axis, 1]]
    table = apply1(
        "scatter",
        [table, place, apply1("expand_dims", [more], AttrTable().int("axis", 0))],
        same_dtype=False,
    )
    return pad(x, table, constant_values=value)


def _last(x: Tensor, what: str) -> int | None:
    """The size of the last axis; None, too, if that has no values, which is no length."""
    if x.shape.rank is None or x.shape.rank < 1:
        raise ValueError(f"{what} takes a tensor of one axis or more, not {x.shape}")
    return x.shape.as_list()[-1] or None


def _with_length(length: int | None) -> AttrTable:
    return AttrTable() if length is None else AttrTable().int("length", length)


_FFT_LENGTH = "int or list of one int, optional: How long the transform is"


@described("Of the shape and dtype of `input`.", input="tensor_like: Complex numbers.")
def fft(input: TensorLike, name: str | None = None) -> Any:
    """Compute the Fourier transform of the last axis.

    >>> mr.signal.fft(mr.complex([1.0, 1.0], [0.0, 0.0]))
    array([2.+0.j, 0.+0.j], dtype=complex64)
    """
    return compute(lambda x: apply1("fft", [x], _with_length(_last(x, "fft"))), [input])


@described("Of the shape and dtype of `input`.", input="tensor_like: Complex numbers.")
def ifft(input: TensorLike, name: str | None = None) -> Any:
    """Compute the inverse of the Fourier transform of the last axis.

    >>> mr.signal.ifft(mr.complex([2.0, 0.0], [0.0, 0.0]))
    array([1.+0.j, 1.+0.j], dtype=complex64)
    """
    return compute(
        lambda x: apply1("fft", [x], _with_length(_last(x, "ifft")).bool("inverse", True)), [input]
    )


@described(
    "complex64 or complex128, fft_length / 2 + 1 numbers in the last axis.",
    input_tensor="tensor_like: float32 or float64.",
    fft_length=_FFT_LENGTH + "; the last axis is cut off or filled with zeros.",
)
def rfft(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Any:
    """Compute the Fourier transform of the last axis of real numbers: its first half.

    >>> mr.signal.rfft([1.0, 0.0, 0.0, 0.0])
    array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """

    def body(x: Tensor) -> Any:
        size = _last(x, "rfft") if fft_length is None else _length(fft_length, "fft_length")
        return apply1("rfft", [x], _with_length(size))

    return compute(body, [input_tensor])


@described(
    "float32 or float64, fft_length numbers in the last axis.",
    input_tensor="tensor_like: Complex numbers, as `rfft` gives them.",
    fft_length=_FFT_LENGTH + "; by default 2 * (n - 1) of n numbers.",
)
def irfft(input_tensor: TensorLike, fft_length: Any = None, name: str | None = None) -> Any:
    """Compute the inverse of `rfft`.

    >>> mr.signal.irfft(mr.signal.rfft([1.0, 2.0, 3.0, 4.0]))
    array([1., 2., 3., 4.], dtype=float32)
    """

    def body(x: Tensor) -> Any:
        half = _last(x, "irfft")
        size = 2 * (half - 1) if half else None
        if half == 1 and fft_length is None:
            raise ValueError("an axis of size 1 is the transform of no values: give fft_length")
        if fft_length is not None:
            size = _length(fft_length, "fft_length")
        return apply1("irfft", [x], _with_length(size))

    return compute(body, [input_tensor])


@described(
    "complex64 or complex128: [..., frames, fft_length / 2 + 1].",
    signals="tensor_like of float: float32 or float64, [..., samples].",
    frame_length="int: How many samples a frame has.",
    frame_step="int: How far apart they begin.",
    fft_length="int, optional: By default the next power of two from frame_length on.",
    window_fn="callable, optional: Called with frame_length and dtype; None for no window.",
    pad_end="bool, default False: Whether the last frames are filled with zeros.",
)
def stft(
    signals: TensorLike,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Callable[..., Any] | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Any:
    """Compute the short-time Fourier transform: the spectra of frames.

    >>> mr.signal.stft(mr.ones([400]), frame_length=128, frame_step=64).shape
    (5, 65)
    """
    length = _length(frame_length, "frame_length")
    size = 2 ** math.ceil(math.log2(length)) if fft_length is None else fft_length

    def body(x: Tensor) -> Any:
        frames = frame(x, length, frame_step, pad_end)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=x.dtype)
        return rfft(frames, [size])

    return compute(body, [signals])


# ---- mel and cepstrum ----


def _mel(hertz: Any) -> Any:
    return 1127.0 * np.log(1.0 + np.asarray(hertz) / 700.0)


@described(
    "[num_spectrogram_bins, num_mel_bins].",
    num_mel_bins="int, default 20: How many bands.",
    num_spectrogram_bins="int, default 129: How many numbers a spectrum has.",
    sample_rate="int or float, default 8000: Samples a second.",
    lower_edge_hertz="float, default 125.0: Where the first band begins.",
    upper_edge_hertz="float, default 3800.0: Where the last band ends.",
    dtype='dtype_like, default "float32": Of the result.',
)
def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: int = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> Any:
    """Make the matrix that sums up spectra in bands of one width on the mel scale.

    >>> mr.signal.linear_to_mel_weight_matrix().shape
    (129, 20)
    """
    if num_mel_bins <= 0 or sample_rate <= 0:
        raise ValueError(f"{num_mel_bins} bands of {sample_rate} samples a second")
    if not 0 <= lower_edge_hertz < upper_edge_hertz <= sample_rate / 2:
        raise ValueError(
            f"bands from {lower_edge_hertz} to {upper_edge_hertz} Hz of {sample_rate} samples a "
            "second"
        )
    kind = as_dtype(dtype)
    # The first number of a spectrum is its mean, and belongs to no band.
    bins = _mel(np.linspace(0.0, sample_rate / 2, num_spectrogram_bins)[1:])[:, None]
    edges = np.linspace(_mel(lower_edge_hertz), _mel(upper_edge_hertz), num_mel_bins + 2)
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    slopes = np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle))
    weights = np.pad(np.maximum(0.0, slopes), [[1, 0], [0, 0]])
    return convert_to_tensor(weights.astype(kind.numpy_dtype()))


def _dct_matrix(kind: int, size: int, n: int, norm: str | None, dtype: DType) -> Array:
    """[size, n]: what each value adds to each number."""
    k, j = np.arange(n), np.arange(size)[:, None]
    if kind == 2:
        matrix = 2 * np.cos(np.pi * k * (2 * j + 1) / (2 * n))
        if norm == "ortho":
            matrix *= np.sqrt(0.5 / n) * np.where(k == 0, np.sqrt(0.5), 1)
    else:
        matrix = 2 * np.cos(np.pi * j * (2 * k + 1) / (2 * n))
        matrix = np.where(j == 0, 1.0, matrix)
        if norm == "ortho":
            matrix = matrix * np.where(j == 0, np.sqrt(1 / n), np.sqrt(0.5 / n))
    found: Array = matrix.astype(dtype.numpy_dtype())
    return found


_DCT = {
    "input": "tensor_like of float: float32 or float64, of a last axis of known size.",
    "type": "int, default 2: 2 or 3; the others are not built.",
    "n": "int, optional: How long the transform is; the last axis is cut off or filled with zeros.",
    "axis": "int, default -1: Only the last one.",
    "norm": 'str, optional: "ortho", for a matrix whose inverse is its transpose.',
}


@described("Of the shape of `input`, of n numbers in the last axis.", **_DCT)
def dct(
    input: TensorLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Compute the discrete cosine transform of the last axis.

    >>> mr.signal.dct([1.0, 1.0])
    array([4., 0.], dtype=float32)
    """
    if type not in (2, 3):
        raise errors.UnimplementedError(f"dct of type {type} is not built: 2 and 3 are")
    if norm not in (None, "ortho"):
        raise ValueError(f"norm is None or 'ortho', not {norm!r}")
    if axis != -1:
        raise errors.UnimplementedError("dct of another axis than the last one: use mr.transpose")

    def body(x: Tensor) -> Any:
        size = _last(x, "dct")
        if size is None:
            raise ValueError(f"dct takes a last axis of known size, not {x.shape}")
        used = size if n is None else min(n, size)
        value: Any = x[..., :used] if used < size else x
        matrix = _dct_matrix(type, used, size if n is None else n, norm, x.dtype)
        equation = AttrTable().bytes("equation", "...i,ij->...j")
        return apply1("einsum", [value, matrix], equation)

    return compute(body, [input])


@described("Of the shape of `input`, of n numbers in the last axis.", **_DCT)
def idct(
    input: TensorLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Any:
    """Compute the inverse of `dct`, but for a factor of 2 n without a norm.

    >>> mr.signal.idct([4.0, 0.0])
    array([4., 4.], dtype=float32)
    """
    return dct(input, {2: 3, 3: 2}.get(type, type), n, axis, norm)


@described(
    "Of the shape of the input: MFCCs, of which one mostly takes the first 13.",
    log_mel_spectrograms="tensor_like of float: Logarithms of the energy in mel bands, in the last "
    "axis.",
)
def mfccs_from_log_mel_spectrograms(
    log_mel_spectrograms: TensorLike, name: str | None = None
) -> Any:
    """Compute mel-frequency cepstral coefficients.

    >>> mr.signal.mfccs_from_log_mel_spectrograms(mr.zeros([5, 20])).shape
    (5, 20)
    """

    def body(x: Tensor) -> Any:
        bands = _last(x, "mfccs_from_log_mel_spectrograms")
        if not bands:
            raise ValueError(f"mel bands in a last axis of known size, not {x.shape}")
        return dct(x) * (1.0 / math.sqrt(2.0 * bands))

    return compute(body, [log_mel_spectrograms])
