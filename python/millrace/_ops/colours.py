"""Values of pixels: dtypes, colours, contrast, under TensorFlow's names. `name` means nothing."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .. import dtypes
from .._data.structure import is_composite
from .._graph.symbol import Symbol, TensorLike
from .._graph.tensor import apply1, convert_to_tensor
from ..dtypes import DType, DTypeLike, as_dtype
from . import arrays, elementwise, reductions
from .constants import cast
from .elementwise import clip_by_value
from .docs import of_images
from .images import as_images


def _largest(dtype: DType) -> int:
    return int(np.iinfo(dtype.numpy_dtype()).max)


def _saturated(image: Any, dtype: DType) -> Any:
    """Cast; what is out of range becomes the nearest value."""
    if as_dtype(image.dtype).is_integer:
        info, own = np.iinfo(dtype.numpy_dtype()), np.iinfo(as_dtype(image.dtype).numpy_dtype())
        image = clip_by_value(image, max(info.min, own.min), min(info.max, own.max))
    return cast(image, dtype)  # floats saturate


@of_images
def convert_image_dtype(
    image: TensorLike, dtype: DTypeLike, saturate: bool = False, name: str | None = None
) -> Any:
    """Convert to another dtype, and scale: floats are in [0, 1], integers as large as they can be.

    >>> mr.image.convert_image_dtype(mr.constant([[[255]]], mr.uint8), mr.float32)
    array([[[1.]]], dtype=float32)
    """
    tensor = image if isinstance(image, Symbol) or is_composite(image) else convert_to_tensor(image)
    wanted, own = as_dtype(dtype), as_dtype(tensor.dtype)
    if wanted is own:
        return tensor

    def to_wanted(values: Any) -> Any:
        return _saturated(values, wanted) if saturate else cast(values, wanted)

    if own.is_floating:
        if wanted.is_floating:
            return cast(tensor, wanted)
        return to_wanted(tensor * (_largest(wanted) + 0.5))  # avoids rounding problems in the cast
    if wanted.is_floating:
        return cast(tensor, wanted) * (1.0 / _largest(own))
    if _largest(own) > _largest(wanted):
        return to_wanted(tensor // ((_largest(own) + 1) // (_largest(wanted) + 1)))
    return to_wanted(tensor) * ((_largest(wanted) + 1) // (_largest(own) + 1))


def _as_floats(image: TensorLike, change: Callable[[Any], Any]) -> Any:
    """@change of the image as floats, in the image's own dtype again."""
    tensor = image if is_composite(image) else as_images(image)
    own = as_dtype(tensor.dtype)
    floats = tensor if own in (dtypes.float16, dtypes.float32) else None
    if floats is None:
        floats = convert_image_dtype(tensor, dtypes.float32)
    return convert_image_dtype(change(floats), own, saturate=True)


@of_images
def adjust_brightness(image: TensorLike, delta: Any) -> Any:
    """Add to all values; integers count as numbers in [0, 1].

    >>> mr.image.adjust_brightness([[[0.5]]], 0.25)
    array([[[0.75]]], dtype=float32)
    """
    return _as_floats(image, lambda x: x + cast(delta, x.dtype))


@of_images
def adjust_contrast(images: TensorLike, contrast_factor: Any) -> Any:
    """Move the values of each channel away from their mean, or to it.

    >>> mr.image.adjust_contrast([[[0.0], [1.0]]], 0.5)[0, :, 0]
    array([0.25, 0.75], dtype=float32)
    """

    def change(x: Any) -> Any:
        mean = reductions.reduce_mean(x, axis=[-3, -2], keepdims=True)
        return (x - mean) * cast(contrast_factor, x.dtype) + mean

    return _as_floats(images, change)


@of_images
def adjust_gamma(image: TensorLike, gamma: float = 1, gain: float = 1) -> Any:
    """Raise values, as numbers in [0, 1], to a power, and multiply them.

    >>> mr.image.adjust_gamma([[[0.5]]], 2.0)
    array([[[0.25]]], dtype=float32)
    """
    if not isinstance(gamma, Symbol) and gamma < 0:
        raise ValueError(f"gamma is at least 0: got {gamma}")
    return _as_floats(image, lambda x: cast(gain, x.dtype) * x ** cast(gamma, x.dtype))


@of_images
def rgb_to_hsv(images: TensorLike, name: str | None = None) -> Any:
    """Hue, saturation and value, each in [0, 1], of red, green and blue.

    >>> mr.image.rgb_to_hsv([0.0, 1.0, 0.0])
    array([0.33333334, 1.        , 1.        ], dtype=float32)
    """
    return apply1("rgb_to_hsv", [images])


@of_images
def hsv_to_rgb(images: TensorLike, name: str | None = None) -> Any:
    """Red, green and blue of hue, saturation and value.

    >>> mr.image.hsv_to_rgb([0.0, 1.0, 0.5])
    array([0.5, 0. , 0. ], dtype=float32)
    """
    return apply1("hsv_to_rgb", [images])


def _in_hsv(image: TensorLike, change: Callable[[Any, Any, Any], list[Any]]) -> Any:
    def through(x: Any) -> Any:
        hsv = rgb_to_hsv(x)
        return hsv_to_rgb(arrays.stack(change(hsv[..., 0], hsv[..., 1], hsv[..., 2]), axis=-1))

    return _as_floats(image, through)


@of_images
def adjust_saturation(image: TensorLike, saturation_factor: Any, name: str | None = None) -> Any:
    """Multiply the saturation of colours, up to full.

    >>> mr.image.adjust_saturation([[[1.0, 0.5, 0.5]]], 0.0)
    array([[[1., 1., 1.]]], dtype=float32)
    """
    return _in_hsv(
        image, lambda h, s, v: [h, clip_by_value(s * cast(saturation_factor, s.dtype), 0.0, 1.0), v]
    )


@of_images
def adjust_hue(image: TensorLike, delta: Any, name: str | None = None) -> Any:
    """Turn the hue of colours; 1 is a whole turn.

    >>> mr.image.adjust_hue([[[1.0, 0.0, 0.0]]], 0.5)
    array([[[0., 1., 1.]]], dtype=float32)
    """
    return _in_hsv(image, lambda h, s, v: [(h + cast(delta, h.dtype)) % 1.0, s, v])


@of_images
def rgb_to_grayscale(images: TensorLike, name: str | None = None) -> Any:
    """The brightness of colours; one channel.

    >>> mr.image.rgb_to_grayscale([[[1.0, 1.0, 0.0]]])
    array([[[0.8859]]], dtype=float32)
    """
    tensor = images if isinstance(images, Symbol) else convert_to_tensor(images)
    own = as_dtype(tensor.dtype)
    floats = convert_image_dtype(tensor, dtypes.float32)
    weights = np.array([0.2989, 0.5870, 0.1140], np.float32)
    grey = reductions.reduce_sum(floats * weights, axis=-1, keepdims=True)
    return convert_image_dtype(grey, own)


@of_images
def grayscale_to_rgb(images: TensorLike, name: str | None = None) -> Any:
    """Three equal channels of one.

    >>> mr.image.grayscale_to_rgb([[[7]]])
    array([[[7, 7, 7]]], dtype=int32)
    """
    tensor = images if isinstance(images, Symbol) else convert_to_tensor(images)
    return arrays.tile(tensor, [1] * (tensor.ndim - 1) + [3])


_YUV = [
    [0.299, -0.14714119, 0.61497538],
    [0.587, -0.28886916, -0.51496512],
    [0.114, 0.43601035, -0.10001026],
]
_FROM_YUV = [[1, 1, 1], [0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]]
_YIQ = [
    [0.299, 0.59590059, 0.2115],
    [0.587, -0.27455667, -0.52273617],
    [0.114, -0.32134392, 0.31119955],
]
_FROM_YIQ = [
    [1, 1, 1],
    [0.95598634, -0.27201283, -1.10674021],
    [0.6208248, -0.64720424, 1.70423049],
]


def _times(images: TensorLike, matrix: list[Any]) -> Any:
    tensor = images if isinstance(images, Symbol) else convert_to_tensor(images)
    kernel = np.array(matrix, as_dtype(tensor.dtype).numpy_dtype())
    return reductions.matmul(tensor, kernel)


@of_images
def rgb_to_yuv(images: TensorLike) -> Any:
    """Brightness and two differences of colours, of red, green and blue.

    >>> mr.image.rgb_to_yuv([[[1.0, 1.0, 1.0]]])[0, 0, 0]
    1.0
    """
    return _times(images, _YUV)


@of_images
def yuv_to_rgb(images: TensorLike) -> Any:
    """Red, green and blue of brightness and two differences of colours.

    >>> mr.image.yuv_to_rgb([[[1.0, 0.0, 0.0]]])
    array([[[1., 1., 1.]]], dtype=float32)
    """
    return _times(images, _FROM_YUV)


@of_images
def rgb_to_yiq(images: TensorLike) -> Any:
    """The colours of NTSC television, of red, green and blue.

    >>> mr.image.rgb_to_yiq([[[1.0, 1.0, 1.0]]])[0, 0, 0]
    1.0
    """
    return _times(images, _YIQ)


@of_images
def yiq_to_rgb(images: TensorLike) -> Any:
    """Red, green and blue, of the colours of NTSC television.

    >>> mr.image.yiq_to_rgb([[[1.0, 0.0, 0.0]]])
    array([[[1., 1., 1.]]], dtype=float32)
    """
    return _times(images, _FROM_YIQ)


@of_images
def per_image_standardization(image: TensorLike) -> Any:
    """Shift and scale each image to mean 0 and variance 1; of even ones, not beyond its size.

    >>> mr.image.per_image_standardization([[[1.0], [3.0]]])[0, :, 0]
    array([-1.,  1.], dtype=float32)
    """
    tensor = as_images(image)
    x = cast(tensor, dtypes.float32)
    axes = [-3, -2, -1]
    mean = reductions.reduce_mean(x, axis=axes, keepdims=True)
    variance = reductions.reduce_mean(elementwise.square(x - mean), axis=axes, keepdims=True)
    dims = arrays.shape(x)
    count = cast(reductions.reduce_prod(dims[-3:]), x.dtype)
    least = elementwise.rsqrt(count)
    return (x - mean) / elementwise.maximum(elementwise.sqrt(variance), least)
