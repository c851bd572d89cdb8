"""Pixels moved, cropped and resized, under TensorFlow's names. `name` means nothing."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from .. import dtypes
from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol, TensorLike
from .._graph.tensor import apply1, convert_to_tensor
from ..dtypes import as_dtype
from . import arrays, elementwise
from .constants import cast, known_sizes, sized, static_shape
from .control import switch_case
from .docs import of_images


class ResizeMethod:
    """How `resize` makes pixels, as ``tf.image.ResizeMethod``.

    Examples
    --------
    >>> mr.image.ResizeMethod.AREA
    'area'
    """

    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    AREA = "area"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    GAUSSIAN = "gaussian"
    MITCHELLCUBIC = "mitchellcubic"


def as_images(images: TensorLike) -> Any:
    """@images as a tensor of 3 or 4 dimensions."""
    tensor = images if isinstance(images, Symbol) else convert_to_tensor(images)
    if as_dtype(tensor.dtype).kind == "s":
        raise TypeError(
            "images are numbers, these are strings: decode them first, with mr.io.decode_image, "
            "and of names of files read the contents, with mr.io.read_file"
        )
    if tensor.ndim not in (3, 4):
        raise ValueError(
            "images are [height, width, channels] or a batch of these: got "
            + ("an unknown rank, mr.reshape says it" if tensor.ndim is None else f"{tensor.shape}")
        )
    return tensor


def height_and_width(images: Any) -> tuple[Any, Any]:
    """Each an int where it is known, else an int32 scalar."""
    known = [images.shape[-3], images.shape[-2]]
    if None not in known:
        return known[0], known[1]
    sizes = arrays.shape(images)
    first = images.ndim - 3
    return tuple(sizes[first + i] if k is None else k for i, k in enumerate(known))  # type: ignore


def _wide(number: Any) -> Any:
    """@number as int64, if it is a tensor."""
    return cast(number, dtypes.int64) if isinstance(number, Symbol) else number


def _where_all_hold(x: Any, demands: Sequence[tuple[Any, str]]) -> Any:
    for condition, message in demands:
        if isinstance(condition, Symbol):
            x = elementwise.assert_(x, condition, message)
        elif not condition:
            raise ValueError(message)
    return x


def box(
    images: Any,
    top: Any,
    left: Any,
    height: Any,
    width: Any,
    outside: bool = False,
    demands: Sequence[tuple[Any, str]] = (),
) -> Any:
    """
    A part of @images; all numbers may be scalar tensors. What is outside of them is 0. @demands:
    conditions, and what is said where they do not hold.
    """
    first = images.ndim - 3
    numbers = [top, left, height, width]
    if not any(isinstance(n, Symbol) for n in numbers) and not outside:
        known_height, known_width = images.shape[-3], images.shape[-2]
        if None not in (known_height, known_width):
            return images[..., top : top + height, left : left + width, :]
    sizes = arrays.shape(images)
    begin = arrays.stack([cast(n, dtypes.int64) for n in [0] * first + [top, left, 0]])
    counts = [sizes[i] for i in range(first)] + [height, width, sizes[first + 2]]
    size = arrays.stack([cast(n, dtypes.int64) for n in counts])
    begin = _where_all_hold(begin, demands)
    part = apply1("slice", [images, begin, size], AttrTable().bool("outside", outside), False)
    return _with_shape(part, [*images.shape[:first], height, width, images.shape[-1]])


def _with_shape(tensor: Any, dims: list[Any]) -> Any:
    """What is known of its shape, said to those who come after."""
    if not isinstance(tensor, Symbol):
        return tensor
    known = [None if isinstance(d, Symbol) else d for d in dims]
    if known.count(None) > 1:
        return tensor
    return arrays.reshape(tensor, [-1 if d is None else d for d in known])


def _method(method: Any) -> str:
    known = [m for name, m in vars(ResizeMethod).items() if not name.startswith("_")]
    if method not in known:
        raise ValueError(f"method is one of {', '.join(known)}: got {method!r}")
    return str(method)


def _fitting(images: Any, size: Any) -> list[Any]:
    """The largest size within @size of the images' proportions."""
    height, width = (cast(n, dtypes.float32) for n in height_and_width(images))
    wanted = [cast(size[i], dtypes.float32) for i in range(2)]
    scale = elementwise.minimum(wanted[0] / height, wanted[1] / width)
    return [cast(elementwise.round(scale * n), dtypes.int32) for n in (height, width)]


def resize(
    images: TensorLike,
    size: Any,
    method: str = "bilinear",
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> Any:
    """Make images larger or smaller.

    As ``tf.image.resize``. Pixels have their centres at halves, but with the method "area".

    Parameters
    ----------
    images : tensor_like
        Numbers, [height, width, channels] or a batch of these.
    size : sequence of int, or tensor_like of int
        The new height and width.
    method : str, default "bilinear"
        "bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian" or
        "mitchellcubic".
    preserve_aspect_ratio : bool, default False
        Whether the images become as large as fits into `size` without being distorted.
    antialias : bool, default False
        Whether smaller images are made of all pixels. Without it, those in between are left out.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        float32; the dtype of the images with the method "nearest".

    Raises
    ------
    InvalidArgumentError
        The images have another rank, or the size is below 1.

    Examples
    --------
    >>> mr.image.resize([[[1.0], [2.0]]], [1, 4])[0, :, 0]
    array([1.  , 1.25, 1.75, 2.  ], dtype=float32)
    """
    tensor, dims = as_images(images), static_shape(size)
    if dims is not None and len(dims) != 2:
        raise ValueError(f"size is height and width: got {size!r}")
    if preserve_aspect_ratio:
        wanted = _fitting(tensor, size if dims is None else dims)
        dims, size = static_shape(wanted), wanted
    attrs = AttrTable().bytes("method", _method(method)).bool("antialias", antialias)
    if dims is not None:
        return apply1("resize", [tensor], attrs.shape("size", dims))
    resized = apply1("resize", [tensor, convert_to_tensor(size)], attrs, same_dtype=False)
    known = known_sizes(size)
    if known is None or tensor.ndim is None:
        return resized
    return sized(resized, [*[None] * (tensor.ndim - 3), *known, None])


@of_images
def crop_to_bounding_box(
    image: TensorLike,
    offset_height: Any,
    offset_width: Any,
    target_height: Any,
    target_width: Any,
    name: str | None = None,
) -> Any:
    """Take a part of images.

    >>> mr.image.crop_to_bounding_box(mr.zeros([4, 6, 3]), 1, 2, 2, 3).shape
    (2, 3, 3)
    """
    tensor = as_images(image)
    _check_box(tensor, offset_height, offset_width, target_height, target_width)
    demands = _above_zero(target_height, target_width)
    return box(tensor, offset_height, offset_width, target_height, target_width, demands=demands)


def _above_zero(height: Any, width: Any) -> list[tuple[Any, str]]:
    """What a size must be: checked here if it is known, else demands for `box`."""
    demands = []
    for target, what in ((height, "target_height"), (width, "target_width")):
        if not isinstance(target, Symbol) and target <= 0:
            raise ValueError(f"{what} must be above 0: got {target}")
        demands.append((target > 0, f"{what} must be above 0"))
    return demands


def _check_box(tensor: Any, top: Any, left: Any, height: Any, width: Any) -> None:
    for offset, size, dim, what in (
        (top, height, tensor.shape[-3], "height"),
        (left, width, tensor.shape[-2], "width"),
    ):
        if isinstance(offset, Symbol) or isinstance(size, Symbol):
            continue
        if offset < 0 or size <= 0 or (dim is not None and offset + size > dim):
            raise ValueError(
                f"offset_{what} {offset} and target_{what} {size} are not within images of "
                f"{what} {dim}"
            )


@of_images
def pad_to_bounding_box(
    image: TensorLike,
    offset_height: Any,
    offset_width: Any,
    target_height: Any,
    target_width: Any,
    name: str | None = None,
) -> Any:
    """Put images into larger ones of zeros.

    >>> mr.image.pad_to_bounding_box([[[7]]], 1, 0, 2, 2)[..., 0]
    array([[0, 0],
           [7, 0]], dtype=int32)
    """
    tensor = as_images(image)
    height, width = height_and_width(tensor)
    demands = []
    for offset, size, target, what in (
        (offset_height, height, target_height, "height"),
        (offset_width, width, target_width, "width"),
    ):
        numbers = [_wide(n) for n in (offset, size, target)]
        if not any(isinstance(n, Symbol) for n in numbers) and (
            offset < 0 or offset + size > target
        ):
            raise ValueError(
                f"images of {what} {size} at offset_{what} {offset} are not within "
                f"target_{what} {target}"
            )
        demands.append((numbers[0] >= 0, f"offset_{what} must be at least 0"))
        demands.append(
            (
                numbers[0] + numbers[1] <= numbers[2],
                f"the images at offset_{what} are not within target_{what}",
            )
        )
    return box(tensor, -offset_height, -offset_width, target_height, target_width, True, demands)


def _middle(target: Any, size: Any) -> Any:
    """Where a part of @target begins in the middle of @size; below 0: zeros come first."""
    if isinstance(target, Symbol) or isinstance(size, Symbol):
        more = cast(target, dtypes.int32) - cast(size, dtypes.int32)
        zero = convert_to_tensor(0, dtypes.int32)
        return elementwise.maximum(-more // 2, zero) - elementwise.maximum(more // 2, zero)
    return max(-(target - size) // 2, 0) - max((target - size) // 2, 0)


@of_images
def resize_with_crop_or_pad(image: TensorLike, target_height: Any, target_width: Any) -> Any:
    """Crop images in the middle, or put them into the middle of zeros.

    >>> mr.image.resize_with_crop_or_pad([[[1], [2], [3]]], 2, 1)[..., 0]
    array([[2],
           [0]], dtype=int32)
    """
    tensor = as_images(image)
    height, width = height_and_width(tensor)
    demands = _above_zero(target_height, target_width)
    top, left = _middle(target_height, height), _middle(target_width, width)
    return box(tensor, top, left, target_height, target_width, True, demands)


@of_images
def resize_with_pad(
    image: TensorLike,
    target_height: Any,
    target_width: Any,
    method: str = "bilinear",
    antialias: bool = False,
) -> Any:
    """Resize images without distorting them, and put them into the middle of zeros.

    >>> mr.image.resize_with_pad(mr.ones([2, 4, 1]), 4, 4)[:, 0, 0]
    array([0., 1., 1., 0.], dtype=float32)
    """
    tensor = as_images(image)
    demands = _above_zero(target_height, target_width)
    height, width = (cast(n, dtypes.float32) for n in height_and_width(tensor))
    targets = [cast(n, dtypes.float32) for n in (target_height, target_width)]
    ratio = elementwise.maximum(width / targets[1], height / targets[0])
    exact = [height / ratio, width / ratio]
    size = arrays.stack([cast(elementwise.floor(n), dtypes.int32) for n in exact])
    offsets = [
        elementwise.maximum(cast(elementwise.floor((t - n) / 2.0), dtypes.int32), 0)
        for t, n in zip(targets, exact)
    ]
    attrs = AttrTable().bytes("method", _method(method)).bool("antialias", antialias)
    size = _where_all_hold(size, demands)
    resized = apply1("resize", [tensor, size], attrs, same_dtype=False)
    return box(resized, -offsets[0], -offsets[1], target_height, target_width, outside=True)


@of_images
def central_crop(image: TensorLike, central_fraction: float) -> Any:
    """Take the middle of images.

    >>> mr.image.central_crop([[[1], [2], [3], [4]]] * 4, 0.5)[..., 0]
    array([[2, 3],
           [2, 3]], dtype=int32)
    """
    if not 0.0 < central_fraction <= 1.0:
        raise ValueError(f"central_fraction is above 0 and at most 1: got {central_fraction}")
    tensor = as_images(image)
    if central_fraction == 1.0:
        return tensor

    def margin(size: Any) -> Any:
        if not isinstance(size, Symbol):
            return int((size - size * central_fraction) / 2)
        exact = cast(size, dtypes.float64)
        return cast((exact - exact * central_fraction) / 2.0, dtypes.int32)

    height, width = height_and_width(tensor)
    top, left = margin(height), margin(width)
    return box(tensor, top, left, height - top * 2, width - left * 2)


@of_images
def flip_left_right(image: TensorLike) -> Any:
    """Turn images round: left becomes right.

    >>> mr.image.flip_left_right([[[1], [2]]])[0, :, 0]
    array([2, 1], dtype=int32)
    """
    return arrays.reverse(as_images(image), [-2])


@of_images
def flip_up_down(image: TensorLike) -> Any:
    """Turn images upside down.

    >>> mr.image.flip_up_down([[[1]], [[2]]])[:, 0, 0]
    array([2, 1], dtype=int32)
    """
    return arrays.reverse(as_images(image), [-3])


@of_images
def transpose(image: TensorLike, name: str | None = None) -> Any:
    """Exchange height and width.

    >>> mr.image.transpose(mr.zeros([2, 5, 3])).shape
    (5, 2, 3)
    """
    tensor = as_images(image)
    return arrays.transpose(tensor, [1, 0, 2] if tensor.ndim == 3 else [0, 2, 1, 3])


@of_images
def rot90(image: TensorLike, k: Any = 1, name: str | None = None) -> Any:
    """Turn images by 90 degrees to the left, `k` times.

    >>> mr.image.rot90([[[1], [2]]])[..., 0]
    array([[2],
           [1]], dtype=int32)
    """
    tensor = as_images(image)
    turned: list[Callable[[], Any]] = [
        lambda: tensor,
        lambda: flip_up_down(transpose(tensor)),
        lambda: arrays.reverse(tensor, [-3, -2]),
        lambda: transpose(flip_up_down(tensor)),
    ]
    if isinstance(k, Symbol):
        return switch_case(cast(k, dtypes.int32) % 4, turned)
    return turned[int(k) % 4]()
