"""Images from bytes and back, and files as bytes, under TensorFlow's names. `name` means nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes, errors
from .._graph.attrs import AttrTable
from .._graph.literals import to_array
from .._graph.symbol import Symbol, TensorLike
from .._graph.tensor import apply1
from ..dtypes import DTypeLike, as_dtype
from .constants import sized, static_shape
from .elementwise import equal
from .text import substr


def read_file(filename: TensorLike, name: str | None = None) -> Any:
    """Read a whole file.

    As ``tf.io.read_file``. The file is read where the function runs: on a worker, the worker must
    see it.

    Parameters
    ----------
    filename : tensor_like of string
        A path, scalar.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or bytes
        What the file holds.

    Raises
    ------
    NotFoundError
        There is no such file.
    InvalidArgumentError
        It is no regular file, or larger than 1 GiB.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as f:
    ...     _ = f.write(b"pixels")
    ...     f.flush()
    ...     mr.io.read_file(f.name)
    b'pixels'
    """
    return apply1("read_file", [filename])


def _is_gif(contents: Any) -> bool:
    """Whether bytes, which are known, begin as a GIF does."""
    if isinstance(contents, Symbol):
        return False
    array = to_array(contents, dtypes.string)
    return array.ndim == 0 and bytes(array.item()).startswith(b"GIF8")


def _decode(contents: Any, channels: Any, attrs: AttrTable, crop: Any = None) -> Any:
    attrs.int("channels", 0 if channels is None else channels)
    inputs = [contents] if crop is None else [contents, crop]
    return apply1("decode_image", inputs, attrs, same_dtype=False)


def _jpeg(ratio: int, fancy_upscaling: bool, recover: bool, dct_method: str) -> AttrTable:
    attrs = AttrTable().bytes("format", "JPEG").int("ratio", ratio)
    attrs.bool("fancy_upscaling", fancy_upscaling).bytes("dct_method", dct_method)
    return attrs.bool("try_recover_truncated", recover)


def decode_jpeg(
    contents: TensorLike,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Any:
    """Decode a JPEG image.

    As ``tf.io.decode_jpeg``, which decodes PNG, and GIF of one frame, too.

    Parameters
    ----------
    contents : tensor_like of string
        The bytes of the image, scalar.
    channels : int, default 0
        1: grey, 3: red, green and blue, 0: as many as the image has.
    ratio : int, default 1
        1, 2, 4 or 8: each side is that much smaller. It takes less time than decoding it all.
    fancy_upscaling : bool, default True
        Whether colours are interpolated smoothly. Without it, decoding is faster.
    try_recover_truncated : bool, default False
        Whether an image that ends early is what can be made of it. It is an error otherwise.
    acceptable_fraction : float, default 1
        Accepted and ignored.
    dct_method : str, default ""
        "INTEGER_FAST" (which "" means) or "INTEGER_ACCURATE".
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        uint8 [height, width, channels].

    Raises
    ------
    InvalidArgumentError
        The bytes are no image, or damaged: the error says what they are.

    Examples
    --------
    >>> image = mr.io.encode_jpeg(mr.zeros([4, 6, 3], mr.uint8))
    >>> mr.io.decode_jpeg(image).shape
    (4, 6, 3)
    """
    return _decode(
        contents, channels, _jpeg(ratio, fancy_upscaling, try_recover_truncated, dct_method)
    )


def decode_and_crop_jpeg(
    contents: TensorLike,
    crop_window: TensorLike,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Any:
    """Decode a part of a JPEG image, and nothing else of it.

    As ``tf.io.decode_and_crop_jpeg``; the pixels are those of the whole image, also at the border of
    the part.

    Parameters
    ----------
    contents : tensor_like of string
        The bytes of the image, scalar.
    crop_window : tensor_like of int
        [y, x, height, width] in pixels of the decoded image; it must lie within.
    channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method
        As in `decode_jpeg`.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        uint8 [height, width, channels].

    Raises
    ------
    InvalidArgumentError
        As in `decode_jpeg`, or the window is not within the image.

    Examples
    --------
    >>> image = mr.io.encode_jpeg(mr.zeros([40, 60, 3], mr.uint8))
    >>> mr.io.decode_and_crop_jpeg(image, [10, 20, 5, 7]).shape
    (5, 7, 3)
    """
    attrs = _jpeg(ratio, fancy_upscaling, try_recover_truncated, dct_method)
    window = crop_window if isinstance(crop_window, Symbol) else to_array(crop_window, dtypes.int32)
    image = _decode(contents, channels, attrs, window)
    place = static_shape(crop_window)
    if place is None or len(place) != 4 or not isinstance(image, Symbol):
        return image
    return sized(image, [place[2], place[3], image.shape.as_list()[2]])


def extract_jpeg_shape(
    contents: TensorLike, output_type: DTypeLike = "int32", name: str | None = None
) -> Any:
    """Look up the size of a JPEG image, without decoding it.

    Parameters
    ----------
    contents : tensor_like of string
        The bytes of the image, scalar.
    output_type : dtype_like, default "int32"
        Or int64.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        [height, width, channels].

    Raises
    ------
    InvalidArgumentError
        The bytes are no image.

    Examples
    --------
    >>> mr.io.extract_jpeg_shape(mr.io.encode_jpeg(mr.zeros([4, 6, 3], mr.uint8)))
    array([4, 6, 3], dtype=int32)
    """
    attrs = AttrTable().bytes("format", "JPEG").dtype("dtype", as_dtype(output_type))
    return apply1("image_shape", [contents], attrs)


def decode_png(
    contents: TensorLike, channels: int = 0, dtype: DTypeLike = "uint8", name: str | None = None
) -> Any:
    """Decode a PNG image.

    As ``tf.io.decode_png``, which decodes JPEG, and GIF of one frame, too.

    Parameters
    ----------
    contents : tensor_like of string
        The bytes of the image, scalar.
    channels : int, default 0
        1: grey, 2: grey and alpha, 3: red, green and blue, 4: these and alpha, 0: as many as the
        image has.
    dtype : dtype_like, default "uint8"
        Or uint16.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        [height, width, channels].

    Raises
    ------
    InvalidArgumentError
        The bytes are no image, or damaged.

    Examples
    --------
    >>> image = mr.io.encode_png(mr.fill([2, 2, 1], mr.constant(700, mr.uint16)))
    >>> mr.io.decode_png(image, dtype=mr.uint16)[0, 0]
    array([700], dtype=uint16)
    """
    attrs = AttrTable().bytes("format", "PNG").dtype("dtype", as_dtype(dtype))
    return _decode(contents, channels, attrs)


def decode_gif(contents: TensorLike, name: str | None = None) -> Any:
    r"""Decode the frames of a GIF image.

    As ``tf.io.decode_gif``: every frame has the size of the largest, and what a frame leaves out is
    that of the frame before, or black. JPEG and PNG are decoded as one frame.

    Parameters
    ----------
    contents : tensor_like of string
        The bytes of the image, scalar.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        uint8 [frames, height, width, 3].

    Raises
    ------
    InvalidArgumentError
        The bytes are no image, or a frame is damaged.

    Examples
    --------
    >>> colours = b"\x00\x00\x00\xff\xc0\x00"
    >>> frame = b",\0\0\0\0\1\0\1\0\0\2\2L\1\0"
    >>> mr.io.decode_gif(b"GIF89a\1\0\1\0\x80\0\0" + colours + frame + b";")
    array([[[[255, 192,   0]]]], dtype=uint8)
    """
    return apply1("decode_gif", [contents], AttrTable(), same_dtype=False)


def decode_bmp(contents: TensorLike, channels: int = 0, name: str | None = None) -> Any:
    """Decode a BMP image without compression, of 8 (grey), 24 or 32 bits a pixel.

    Parameters
    ----------
    contents : tensor_like of string
        The bytes of the image, scalar.
    channels : int, default 0
        0, or as many as the image has.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        uint8 [height, width, channels].

    Raises
    ------
    InvalidArgumentError
        The bytes are no such image.

    Examples
    --------
    >>> header = b"BM" + bytes(8) + bytes([54, 0, 0, 0, 40, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 24])
    >>> mr.io.decode_bmp(header + bytes(25) + b"bgr.")
    array([[[114, 103,  98]]], dtype=uint8)
    """
    return _decode(contents, channels, AttrTable().bytes("format", "BMP"))


def decode_webp(contents: TensorLike, channels: int = 0, name: str | None = None) -> Any:
    r"""Decode a still WebP image.

    Parameters
    ----------
    contents : tensor_like of string
        The bytes of the image, scalar.
    channels : int, default 0
        3, 4 (with alpha), or 0: as many as the image has.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        uint8 [height, width, channels].

    Raises
    ------
    InvalidArgumentError
        The bytes are no such image.

    Examples
    --------
    >>> dot = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0/\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0"
    >>> mr.io.decode_webp(dot, channels=3).shape
    (1, 1, 3)
    """
    return _decode(contents, channels, AttrTable().bytes("format", "WebP"))


def decode_image(
    contents: TensorLike,
    channels: int | None = None,
    dtype: DTypeLike = "uint8",
    name: str | None = None,
    expand_animations: bool = True,
) -> Any:
    """Decode an image of any format: JPEG, PNG, WebP, BMP, GIF.

    A GIF has frames, which are an axis more, but in a function that is traced the number of axes
    must be known: there it is an error unless `expand_animations` is false.

    Parameters
    ----------
    contents : tensor_like of string
        The bytes of the image, scalar.
    channels : int, optional
        As the decoder of its format has it; 0 and None: as many as the image has.
    dtype : dtype_like, default "uint8"
        uint8, uint16, or float32 from 0 to 1.
    name : str, optional
        Accepted and ignored.
    expand_animations : bool, default True
        Whether a GIF has all of its frames. If not, it is its first one.

    Returns
    -------
    Tensor or numpy.ndarray
        [height, width, channels]; of a GIF with its frames [frames, height, width, 3].

    Raises
    ------
    InvalidArgumentError
        The bytes are no image, or damaged: the error says what they are.

    Examples
    --------
    >>> image = mr.io.encode_png(mr.fill([1, 1, 3], mr.constant(255, mr.uint8)))
    >>> mr.io.decode_image(image, dtype=mr.float32)
    array([[[1., 1., 1.]]], dtype=float32)
    """
    attrs = AttrTable().dtype("dtype", as_dtype(dtype))
    if expand_animations and _is_gif(contents):
        if channels not in (None, 0, 3):
            raise errors.InvalidArgumentError(f"channels of a GIF are 0 or 3: got {channels}")
        return apply1("decode_gif", [contents], attrs, same_dtype=False)
    return _decode(contents, channels, attrs.bool("expand_animations", expand_animations))


def is_jpeg(contents: TensorLike, name: str | None = None) -> Any:
    """Whether bytes begin as a JPEG image does.

    Parameters
    ----------
    contents : tensor_like of string
        Bytes, scalar.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.bool_
        A scalar bool.

    Examples
    --------
    >>> bool(mr.io.is_jpeg(mr.io.encode_jpeg(mr.zeros([1, 1, 3], mr.uint8))))
    True
    """
    return equal(substr(contents, 0, 3), np.bytes_(b"\xff\xd8\xff"))


def encode_jpeg(
    image: TensorLike,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Any:
    r"""Encode an image as JPEG.

    Parameters
    ----------
    image : tensor_like of uint8
        [height, width, 1 or 3].
    format : str, default ""
        "grayscale" and "rgb" say how many channels there are; they must be right.
    quality : int, default 95
        0 to 100.
    progressive, optimize_size : bool, default False
        Smaller for more time.
    chroma_downsampling : bool, default True
        Whether colours have half of the resolution.
    density_unit, x_density, y_density, xmp_metadata
        Accepted and ignored.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or bytes
        The bytes of the image.

    Raises
    ------
    InvalidArgumentError
        The image has another shape or dtype.

    Examples
    --------
    >>> mr.io.encode_jpeg(mr.zeros([4, 6, 3], mr.uint8))[:2]
    b'\xff\xd8'
    """
    if format not in ("", "grayscale", "rgb"):
        raise ValueError(f"format is '', 'grayscale' or 'rgb', not {format!r}")
    attrs = AttrTable().int("quality", quality).bool("progressive", progressive)
    attrs.bool("optimize_size", optimize_size).bool("chroma_downsampling", chroma_downsampling)
    return apply1("encode_jpeg", [image], attrs)


def encode_png(image: TensorLike, compression: int = -1, name: str | None = None) -> Any:
    """Encode an image as PNG.

    Parameters
    ----------
    image : tensor_like of uint8 or uint16
        [..., height, width, 1 to 4]: grey, grey and alpha, RGB, RGB and alpha.
    compression : int, default -1
        0 (none) to 9 (most); -1 is zlib's default.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor, bytes or numpy.ndarray
        The bytes of the image; of the shape of the axes before, if there are any.

    Raises
    ------
    InvalidArgumentError
        The image has another shape or dtype.

    Examples
    --------
    >>> mr.io.encode_png(mr.zeros([4, 6, 3], mr.uint8))[1:4]
    b'PNG'
    """
    return apply1("encode_png", [image], AttrTable().int("compression", compression))
