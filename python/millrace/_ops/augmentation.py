"""Images changed at random, under TensorFlow's names. `name` means nothing."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol, TensorLike
from .._graph.tensor import apply1, convert_to_tensor
from ..errors import InvalidArgumentError
from . import arrays, colours, images
from .codecs import decode_jpeg, encode_jpeg
from .constants import cast, known_sizes, sized
from .docs import of_images
from .draws import stateless_uniform, uniform
from .elementwise import assert_


def _between(lower: float, upper: float, seed: Any) -> Any:
    """A number in [lower, upper): counted, or of a stateless @seed."""
    if isinstance(seed, (int, type(None))):
        return uniform([], lower, upper, seed=seed)
    return stateless_uniform([], seed, lower, upper)


def _range(lower: float, upper: float) -> None:
    if not 0 <= lower < upper:
        raise ValueError(f"lower is at least 0 and below upper: got {lower} and {upper}")


def _delta(max_delta: float, most: float = float("inf")) -> None:
    if not 0 <= max_delta <= most:
        raise ValueError(f"max_delta is from 0 to {most}: got {max_delta}")


def _flip(image: TensorLike, axis: int, seed: Any) -> Any:
    tensor = images.as_images(image)
    if tensor.ndim == 3:
        attrs = AttrTable().ints("axes", [axis])
        whether = _between(0.0, 1.0, seed) < 0.5
        return apply1("reverse", [tensor, whether], attrs, same_dtype=False)
    each = arrays.shape(tensor)[:1]
    drawn = uniform(each, seed=seed) if isinstance(seed, (int, type(None))) else None
    if drawn is None:
        drawn = stateless_uniform(each, seed)
    flipped = arrays.reshape(drawn < 0.5, [-1, 1, 1, 1])
    return arrays.where(flipped, arrays.reverse(tensor, [axis]), tensor)


@of_images
def random_flip_left_right(image: TensorLike, seed: int | None = None) -> Any:
    """Turn half of the images round.

    >>> mr.image.random_flip_left_right(mr.zeros([2, 3, 1])).shape
    (2, 3, 1)
    """
    return _flip(image, -2, seed)


@of_images
def stateless_random_flip_left_right(image: TensorLike, seed: TensorLike) -> Any:
    """Turn half of the images round: the same for the same seed.

    >>> mr.image.stateless_random_flip_left_right(mr.zeros([2, 3, 1]), (1, 2)).shape
    (2, 3, 1)
    """
    return _flip(image, -2, convert_to_tensor(seed))


@of_images
def random_flip_up_down(image: TensorLike, seed: int | None = None) -> Any:
    """Turn half of the images upside down.

    >>> mr.image.random_flip_up_down(mr.zeros([2, 3, 1])).shape
    (2, 3, 1)
    """
    return _flip(image, -3, seed)


@of_images
def stateless_random_flip_up_down(image: TensorLike, seed: TensorLike) -> Any:
    """Turn half of the images upside down: the same for the same seed.

    >>> mr.image.stateless_random_flip_up_down(mr.zeros([2, 3, 1]), (1, 2)).shape
    (2, 3, 1)
    """
    return _flip(image, -3, convert_to_tensor(seed))


def _wanted(tensor: Any, size: Any) -> list[Any]:
    """The numbers of @size, as many as @tensor has axes."""
    length = size.shape.as_list() if isinstance(size, Symbol) else [len(size)]
    if tensor.ndim is None or length != [tensor.ndim]:
        raise ValueError(f"size {size!r} for a tensor of shape {tensor.shape}")
    return [size[i] for i in range(tensor.ndim)]


def _crop(value: TensorLike, size: Any, seed: Any) -> Any:
    tensor = value if isinstance(value, Symbol) else convert_to_tensor(value)
    wanted = _wanted(tensor, size)
    dims = arrays.shape(tensor)
    sizes = arrays.stack([cast(n, dtypes.int32) for n in wanted])
    said = "size" if isinstance(size, Symbol) else f"size {size!r}"
    for i, (n, known) in enumerate(zip(wanted, tensor.shape)):
        if isinstance(n, Symbol) or known is None:
            fits = cast(n, dtypes.int64) <= cast(dims[i], dtypes.int64)
            sizes = assert_(sizes, fits, f"{said} is more than axis {i} of the value has")
        elif n > known:
            raise InvalidArgumentError(
                f"{said} is more than the value has, which is of shape {tensor.shape}"
            )
    room = [cast(dims[i] - cast(n, dtypes.int32) + 1, dtypes.float64) for i, n in enumerate(wanted)]
    axes = [len(wanted)]
    if isinstance(seed, (int, type(None))):
        drawn = uniform(axes, dtype=dtypes.float64, seed=seed)
    else:
        drawn = stateless_uniform(axes, seed, dtype=dtypes.float64)
    begin = cast(drawn * arrays.stack(room), dtypes.int32)
    part = apply1("slice", [tensor, begin, sizes], AttrTable(), same_dtype=False)
    if isinstance(part, Symbol) and not any(isinstance(n, Symbol) for n in wanted):
        return arrays.reshape(part, wanted)
    return sized(part, known_sizes(wanted))


@of_images
def random_crop(
    value: TensorLike, size: Any, seed: int | None = None, name: str | None = None
) -> Any:
    """Take a part at a random place.

    >>> mr.image.random_crop(mr.zeros([8, 8, 3]), [4, 5, 3]).shape
    (4, 5, 3)
    """
    return _crop(value, size, seed)


@of_images
def stateless_random_crop(
    value: TensorLike, size: Any, seed: TensorLike, name: str | None = None
) -> Any:
    """Take a part at a place that is the same for the same seed.

    >>> mr.image.stateless_random_crop(mr.zeros([8, 8, 3]), [4, 5, 3], (1, 2)).shape
    (4, 5, 3)
    """
    return _crop(value, size, convert_to_tensor(seed))


@of_images
def random_brightness(image: TensorLike, max_delta: float, seed: int | None = None) -> Any:
    """Change the brightness at random.

    >>> mr.image.random_brightness(mr.ones([1, 1, 3]), 0.2).shape
    (1, 1, 3)
    """
    _delta(max_delta)
    return colours.adjust_brightness(image, _between(-max_delta, max_delta, seed))


@of_images
def stateless_random_brightness(image: TensorLike, max_delta: float, seed: TensorLike) -> Any:
    """Change the brightness at random: the same for the same seed.

    >>> mr.image.stateless_random_brightness(mr.ones([1, 1, 3]), 0.2, (1, 2)).shape
    (1, 1, 3)
    """
    _delta(max_delta)
    drawn = _between(-max_delta, max_delta, convert_to_tensor(seed))
    return colours.adjust_brightness(image, drawn)


@of_images
def random_contrast(image: TensorLike, lower: float, upper: float, seed: int | None = None) -> Any:
    """Change the contrast at random.

    >>> mr.image.random_contrast(mr.ones([1, 1, 3]), 0.2, 0.5).shape
    (1, 1, 3)
    """
    _range(lower, upper)
    return colours.adjust_contrast(image, _between(lower, upper, seed))


@of_images
def stateless_random_contrast(
    image: TensorLike, lower: float, upper: float, seed: TensorLike
) -> Any:
    """Change the contrast at random: the same for the same seed.

    >>> mr.image.stateless_random_contrast(mr.ones([1, 1, 3]), 0.2, 0.5, (1, 2)).shape
    (1, 1, 3)
    """
    _range(lower, upper)
    return colours.adjust_contrast(image, _between(lower, upper, convert_to_tensor(seed)))


@of_images
def random_saturation(
    image: TensorLike, lower: float, upper: float, seed: int | None = None
) -> Any:
    """Change the saturation of colours at random.

    >>> mr.image.random_saturation(mr.ones([1, 1, 3]), 0.2, 0.5).shape
    (1, 1, 3)
    """
    _range(lower, upper)
    return colours.adjust_saturation(image, _between(lower, upper, seed))


@of_images
def stateless_random_saturation(
    image: TensorLike, lower: float, upper: float, seed: TensorLike | None = None
) -> Any:
    """Change the saturation of colours at random: the same for the same seed.

    >>> mr.image.stateless_random_saturation(mr.ones([1, 1, 3]), 0.2, 0.5, (1, 2)).shape
    (1, 1, 3)
    """
    _range(lower, upper)
    if seed is None:
        raise ValueError("stateless_random_saturation needs a seed: two integers")
    return colours.adjust_saturation(image, _between(lower, upper, convert_to_tensor(seed)))


@of_images
def random_hue(image: TensorLike, max_delta: float, seed: int | None = None) -> Any:
    """Turn the hue of colours at random; `max_delta` is at most 0.5.

    >>> mr.image.random_hue(mr.ones([1, 1, 3]), 0.2).shape
    (1, 1, 3)
    """
    _delta(max_delta, 0.5)
    return colours.adjust_hue(image, _between(-max_delta, max_delta, seed))


@of_images
def stateless_random_hue(image: TensorLike, max_delta: float, seed: TensorLike) -> Any:
    """Turn the hue of colours at random: the same for the same seed.

    >>> mr.image.stateless_random_hue(mr.ones([1, 1, 3]), 0.2, (1, 2)).shape
    (1, 1, 3)
    """
    _delta(max_delta, 0.5)
    return colours.adjust_hue(image, _between(-max_delta, max_delta, convert_to_tensor(seed)))


@of_images
def adjust_jpeg_quality(
    image: TensorLike, jpeg_quality: Any, dct_method: str = "", name: str | None = None
) -> Any:
    """What JPEG of a lower quality makes of an image.

    >>> mr.image.adjust_jpeg_quality(mr.zeros([4, 4, 3]), 50).shape
    (4, 4, 3)
    """
    tensor = images.as_images(image)
    own = dtypes.as_dtype(tensor.dtype)
    bytes_ = colours.convert_image_dtype(tensor, dtypes.uint8, saturate=True)
    channels = tensor.shape[-1] if isinstance(tensor.shape[-1], int) else 0
    if isinstance(jpeg_quality, Symbol):
        encoded = apply1("encode_jpeg", [bytes_, jpeg_quality], AttrTable(), same_dtype=False)
    else:
        encoded = encode_jpeg(bytes_, quality=jpeg_quality)
    seen = decode_jpeg(encoded, channels, dct_method=dct_method)
    return colours.convert_image_dtype(seen, own, saturate=True)


def _qualities(lowest: int, highest: int) -> None:
    if not 0 <= lowest < highest <= 100:
        raise ValueError(f"qualities are from 0 to 100, in order: got {lowest} and {highest}")


@of_images
def random_jpeg_quality(
    image: TensorLike, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Any:
    """What JPEG makes of an image, of a quality at random, which is below the largest.

    >>> mr.image.random_jpeg_quality(mr.zeros([4, 4, 3]), 20, 80).shape
    (4, 4, 3)
    """
    _qualities(min_jpeg_quality, max_jpeg_quality)
    drawn = uniform([], min_jpeg_quality, max_jpeg_quality, dtypes.int32, seed)
    return adjust_jpeg_quality(image, drawn)


@of_images
def stateless_random_jpeg_quality(
    image: TensorLike, min_jpeg_quality: int, max_jpeg_quality: int, seed: TensorLike
) -> Any:
    """What JPEG makes of an image, of a quality at random: the same for the same seed.

    >>> mr.image.stateless_random_jpeg_quality(mr.zeros([4, 4, 3]), 20, 80, (1, 2)).shape
    (4, 4, 3)
    """
    _qualities(min_jpeg_quality, max_jpeg_quality)
    where = convert_to_tensor(seed)
    drawn = stateless_uniform([], where, min_jpeg_quality, max_jpeg_quality, dtypes.int32)
    return adjust_jpeg_quality(image, drawn)
