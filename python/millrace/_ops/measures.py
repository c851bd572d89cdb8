"""What images are made of and how they differ, under TensorFlow's names. `name` means nothing."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from .._graph.symbol import Symbol, TensorLike
from .._graph.tensor import convert_to_tensor
from ..dtypes import as_dtype
from . import arrays, elementwise, reductions
from .colours import convert_image_dtype
from .constants import zeros_like
from .docs import of_images
from .images import as_images


def _batch(image: TensorLike) -> Any:
    tensor = as_images(image)
    if tensor.ndim != 4:
        raise ValueError(
            f"images are a batch of [height, width, channels]: got shape {tensor.shape}"
        )
    return tensor


@of_images
def image_gradients(image: TensorLike) -> Any:
    """How much the next pixel is more, downwards and to the right: two tensors, 0 at the far side.

    >>> down, right = mr.image.image_gradients([[[[1.0], [4.0]], [[2.0], [9.0]]]])
    >>> right[0, ..., 0]
    array([[3., 0.],
           [7., 0.]], dtype=float32)
    """
    tensor = _batch(image)
    down = tensor[:, 1:] - tensor[:, :-1]
    right = tensor[:, :, 1:] - tensor[:, :, :-1]
    return (
        arrays.concat([down, zeros_like(tensor[:, :1])], 1),
        arrays.concat([right, zeros_like(tensor[:, :, :1])], 2),
    )


@of_images
def sobel_edges(image: TensorLike) -> Any:
    """Edges downwards and to the right, on a last axis of 2, by the kernels of Sobel.

    >>> mr.image.sobel_edges(mr.reshape(mr.range(9.0), [1, 3, 3, 1]))[0, 1, 1, 0]
    array([24.,  8.], dtype=float32)
    """
    tensor = _batch(image)
    if any(n is not None and n < 2 for n in tensor.shape[1:3]):
        raise ValueError(f"edges need two lines and columns at least: got shape {tensor.shape}")
    higher = arrays.concat([tensor[:, 1:2], tensor, tensor[:, -2:-1]], 1)  # reflected
    padded = arrays.concat([higher[:, :, 1:2], higher, higher[:, :, -2:-1]], 2)
    smooth_right = padded[:, :, :-2] + 2 * padded[:, :, 1:-1] + padded[:, :, 2:]
    smooth_down = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    down = smooth_right[:, 2:] - smooth_right[:, :-2]
    right = smooth_down[:, :, 2:] - smooth_down[:, :, :-2]
    return arrays.stack([down, right], axis=-1)


@of_images
def total_variation(images: TensorLike, name: str | None = None) -> Any:
    """The sum of the differences between pixels side by side: a number an image.

    >>> float(mr.image.total_variation([[[1.0], [4.0]], [[2.0], [9.0]]]))
    16.0
    """
    tensor = as_images(images)
    down = elementwise.abs(tensor[..., 1:, :, :] - tensor[..., :-1, :, :])
    right = elementwise.abs(tensor[..., 1:, :] - tensor[..., :-1, :])
    axes = [-3, -2, -1]
    return reductions.reduce_sum(down, axis=axes) + reductions.reduce_sum(right, axis=axes)


def _unit(image: TensorLike) -> Any:
    tensor = image if isinstance(image, Symbol) else convert_to_tensor(image)
    return convert_image_dtype(tensor, dtypes.float32)


@of_images
def psnr(a: TensorLike, b: TensorLike, max_val: Any, name: str | None = None) -> Any:
    """The peak signal-to-noise ratio of images in decibels; `max_val` is the largest value possible.

    >>> float(mr.image.psnr([[[0.5]]], [[[0.4]]], 1.0).round(3))
    20.0
    """
    first = a if isinstance(a, Symbol) else convert_to_tensor(a)
    own = as_dtype(first.dtype)
    most = _unit(convert_to_tensor(max_val, own))
    error = reductions.reduce_mean(
        elementwise.squared_difference(_unit(first), _unit(b)), axis=[-3, -2, -1]
    )
    decibels = 10 / math.log(10)
    return 2 * decibels * elementwise.log(most) - decibels * elementwise.log(error)


def _sides(padding: str, images: Any, extent: int, stride: int, axis: int) -> list[int]:
    """How much to add before and behind an axis, so that patches cover all of it."""
    if padding == "VALID":
        return [0, 0]
    if stride == 1:
        more = extent - 1
    elif images.shape[axis] is None:
        raise ValueError('padding "SAME" with strides needs a height and width that are known')
    else:
        more = max((images.shape[axis] - 1) // stride * stride + extent - images.shape[axis], 0)
    return [more // 2, more - more // 2]


@of_images
def extract_patches(
    images: TensorLike, sizes: Any, strides: Any, rates: Any, padding: str, name: str | None = None
) -> Any:
    """Put patches of images into the channels: [batch, rows, columns, height * width * channels].

    `sizes`, `strides` and `rates` are [1, rows, columns, 1]; `padding` is "VALID" or "SAME".

    >>> image = mr.reshape(mr.range(16), [1, 4, 4, 1])
    >>> mr.image.extract_patches(image, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID")[0, 1]
    array([[ 8,  9, 12, 13],
           [10, 11, 14, 15]], dtype=int32)
    """
    tensor = _batch(images)
    for what, numbers in (("sizes", sizes), ("strides", strides), ("rates", rates)):
        if len(numbers) != 4 or numbers[0] != 1 or numbers[3] != 1 or min(numbers) < 1:
            raise ValueError(f"{what} are [1, rows, columns, 1]: got {numbers!r}")
    if padding not in ("VALID", "SAME"):
        raise ValueError(f'padding is "VALID" or "SAME": got {padding!r}')
    extents = [(sizes[i] - 1) * rates[i] + 1 for i in (1, 2)]
    sides = [_sides(padding, tensor, extents[i], strides[i + 1], i + 1) for i in (0, 1)]
    if sides != [[0, 0], [0, 0]]:
        tensor = arrays.pad(tensor, [[0, 0], *sides, [0, 0]])

    def steps(begin: int, axis: int) -> slice:
        left = begin - extents[axis] + 1
        return slice(begin, left if left < 0 else None, strides[axis + 1])

    parts = [
        tensor[:, steps(y * rates[1], 0), steps(x * rates[2], 1)]
        for y in range(sizes[1])
        for x in range(sizes[2])
    ]
    return arrays.concat(parts, 3)
