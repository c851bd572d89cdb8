"""Boxes of images, in parts of their sides, under TensorFlow's names. `name` means nothing."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from .. import dtypes, errors
from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol, TensorLike, holds_symbols
from .._graph.tensor import apply, apply1, convert_to_tensor
from .constants import cast, static_shape
from .draws import signed_seed


def _floats(values: TensorLike) -> Any:
    if isinstance(values, Symbol):
        return cast(values, dtypes.float32)
    return convert_to_tensor(values, dtypes.float32)


def _ints(values: Any) -> Any:
    return values if isinstance(values, Symbol) else cast(convert_to_tensor(values), dtypes.int32)


def crop_and_resize(
    image: TensorLike,
    boxes: TensorLike,
    box_indices: TensorLike,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
) -> Any:
    """Take boxes of images, all at one size.

    As ``tf.image.crop_and_resize``. The corners of a box lie on centres of pixels; one whose second
    corner comes before the first is turned round.

    Parameters
    ----------
    image : tensor_like of numbers
        [batch, height, width, channels].
    boxes : tensor_like of float
        [n, 4]: y1, x1, y2 and x2, where 0 and 1 are the centres of the first and the last pixel.
    box_indices : tensor_like of int
        [n]: which image a box is of.
    crop_size : sequence of int, or tensor_like of int
        Height and width of the result.
    method : str, default "bilinear"
        Or "nearest".
    extrapolation_value : float, default 0.0
        What pixels have that are not in the image.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        float32 [n, height, width, channels].

    Raises
    ------
    OutOfRangeError
        There is no such image. In a function that a dataset maps it is an InvalidArgumentError.
    InvalidArgumentError
        A box is not finite, or a shape is another one.

    Examples
    --------
    >>> image = mr.reshape(mr.range(9), [1, 3, 3, 1])
    >>> mr.image.crop_and_resize(image, [[0.5, 0.0, 1.0, 1.0]], [0], [2, 2])[0, ..., 0]
    array([[3., 5.],
           [6., 8.]], dtype=float32)
    """
    attrs = AttrTable().bytes("method", method).float("extrapolation_value", extrapolation_value)
    inputs = [convert_to_tensor(image), _floats(boxes), _ints(box_indices), _ints(crop_size)]
    if not holds_symbols(inputs):
        _check_images(inputs[0], inputs[2])
    crops = apply1("crop_and_resize", inputs, attrs, same_dtype=False)
    size = static_shape(crop_size)
    if size is None or not isinstance(crops, Symbol) or crops.shape[3] is None:
        return crops
    shape = AttrTable().shape("shape", [crops.shape[0], *size, crops.shape[3]])
    return apply1("ensure_shape", [crops], shape)


def _check_images(images: Any, numbers: Any) -> None:
    """Whether there is an image for each box: @numbers say which. Of other ranks the operator speaks."""
    if images.ndim != 4 or numbers.ndim != 1:
        return
    for box, number in enumerate(numbers.tolist()):
        if not 0 <= number < len(images):
            raise errors.OutOfRangeError(
                f"crop_and_resize: box {box} is of image {number} of {len(images)}"
            )


class DistortedBoundingBox(NamedTuple):
    """What `sample_distorted_bounding_box` gives."""

    begin: Any
    size: Any
    bboxes: Any


def _bounds(
    covered: float,
    aspect_ratio_range: Sequence[float] | None,
    area_range: Sequence[float] | None,
    max_attempts: int | None,
    use_image: bool | None,
) -> AttrTable:
    aspect = (0.75, 1.33) if aspect_ratio_range is None else aspect_ratio_range
    area = (0.05, 1.0) if area_range is None else area_range
    attrs = AttrTable().float("min_object_covered", covered)
    attrs.float("aspect_min", aspect[0]).float("aspect_max", aspect[1])
    attrs.float("area_min", area[0]).float("area_max", area[1])
    attrs.int("max_attempts", 100 if max_attempts is None else max_attempts)
    return attrs.bool("use_image", bool(use_image))


def sample_distorted_bounding_box(
    image_size: TensorLike,
    bounding_boxes: TensorLike,
    seed: int = 0,
    min_object_covered: float = 0.1,
    aspect_ratio_range: Sequence[float] | None = None,
    area_range: Sequence[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> DistortedBoundingBox:
    """Choose a box of an image at random, of which so much is seen of an object.

    As ``tf.image.sample_distorted_bounding_box``. A JPEG that is decoded for the box only
    (``mr.slice(image, begin, size)``) is decoded as far as the box needs.

    Parameters
    ----------
    image_size : tensor_like of int
        [height, width, channels]: ``mr.shape(image)``.
    bounding_boxes : tensor_like of float
        [batch, n, 4]: objects, each y1, x1, y2 and x2 from 0 to 1.
    seed : int, default 0
        Operators of one seed draw the same. 0: each draws its own.
    min_object_covered : float, default 0.1
        Which part of an object is in the box at least.
    aspect_ratio_range : sequence of float, optional
        Width by height, from and to: (0.75, 1.33).
    area_range : sequence of float, optional
        Which part of the image the box is, from and to: (0.05, 1.0).
    max_attempts : int, optional
        After so many (100), it is the whole image.
    use_image_if_no_bounding_boxes : bool, optional
        Whether the image is the object where there are none. It is an error otherwise.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    DistortedBoundingBox
        `begin` and `size`, for `mr.slice`, and `bboxes`: the box, float32 [1, 1, 4].

    Raises
    ------
    InvalidArgumentError
        There are no boxes, or they are not in the image, or the ranges hold nothing.

    Examples
    --------
    >>> begin, size, box = mr.image.sample_distorted_bounding_box(
    ...     [40, 60, 3], [[[0.2, 0.2, 0.9, 0.9]]], min_object_covered=1.0
    ... )
    >>> bool(begin[0] <= 8 and size[2] == -1)
    True
    """
    attrs = _bounds(
        min_object_covered,
        aspect_ratio_range,
        area_range,
        max_attempts,
        use_image_if_no_bounding_boxes,
    )
    if seed:
        attrs.int("seed", signed_seed(seed))
    inputs = [_size(image_size), _floats(bounding_boxes)]
    return DistortedBoundingBox(*apply("sample_distorted_bounding_box", inputs, attrs, False))


def _size(image_size: TensorLike) -> Any:
    return image_size if isinstance(image_size, Symbol) else convert_to_tensor(image_size)


def stateless_sample_distorted_bounding_box(
    image_size: TensorLike,
    bounding_boxes: TensorLike,
    seed: TensorLike,
    min_object_covered: float = 0.1,
    aspect_ratio_range: Sequence[float] | None = None,
    area_range: Sequence[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> DistortedBoundingBox:
    """Choose a box of an image at random: the same for the same seed.

    Parameters
    ----------
    image_size, bounding_boxes, min_object_covered, aspect_ratio_range, area_range, max_attempts
        As in `sample_distorted_bounding_box`.
    use_image_if_no_bounding_boxes, name
        As in `sample_distorted_bounding_box`.
    seed : tensor_like of int
        Two numbers, int32 or int64.

    Returns
    -------
    DistortedBoundingBox
        `begin` and `size`, for `mr.slice`, and `bboxes`: the box, float32 [1, 1, 4].

    Raises
    ------
    InvalidArgumentError
        As in `sample_distorted_bounding_box`.

    Examples
    --------
    >>> objects = [[[0.2, 0.2, 0.9, 0.9]]]
    >>> first, again = (
    ...     mr.image.stateless_sample_distorted_bounding_box([40, 60, 3], objects, (1, 2))
    ...     for _ in range(2)
    ... )
    >>> bool((first.begin == again.begin).all())
    True
    """
    attrs = _bounds(
        min_object_covered,
        aspect_ratio_range,
        area_range,
        max_attempts,
        use_image_if_no_bounding_boxes,
    )
    inputs = [_size(image_size), _floats(bounding_boxes), convert_to_tensor(seed)]
    name_ = "stateless_sample_distorted_bounding_box"
    return DistortedBoundingBox(*apply(name_, inputs, attrs, same_dtype=False))
