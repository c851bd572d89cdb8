"""Functions of TensorFlow that people look for and that are not supported: they say what to use."""

from __future__ import annotations

from typing import Any, Callable, NoReturn

from .. import errors


def absent(name: str, instead: str, owner: str = "") -> Callable[..., NoReturn]:
    """
    A function, or a method of the class @owner: using it says that it is not supported, and what to
    use.
    """

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise errors.UnimplementedError(f"{owner}{name} is not supported: {instead}")

    function.__name__, function.__qualname__ = name, owner + name
    function.__doc__ = f"Not supported: {instead}."
    function._absent = True  # type: ignore[attr-defined]
    return function


while_loop = absent(
    "while_loop",
    "a function runs for a bounded time: use mr.map_fn for each part of a tensor, mr.cond for a "
    "choice, operators on whole tensors, or Dataset.scan and repeat",
)

assert_shapes = absent("assert_shapes", "use mr.ensure_shape for each tensor")
assert_proper_iterable = absent("assert_proper_iterable", "nothing here needs it")
assert_same_float_dtype = absent("assert_same_float_dtype", "use mr.debugging.assert_type")

_rows = "use the values, row_splits and value_rowids() of the ragged tensors"
cross = absent("cross", _rows)
cross_hashed = absent("cross_hashed", _rows)
stack_dynamic_partitions = absent("stack_dynamic_partitions", _rows)
segment_ids_to_row_splits = absent(
    "segment_ids_to_row_splits", "use mr.RaggedTensor.from_value_rowids(...).row_splits"
)
row_splits_to_segment_ids = absent(
    "row_splits_to_segment_ids", "use mr.RaggedTensor.from_row_splits(...).value_rowids()"
)

_traced = (
    "functions of a pipeline are traced: use mr.* operators, or process the elements after "
    "reading"
)
py_function = absent("py_function", _traced)
numpy_function = absent("numpy_function", _traced)

decode_gif = absent(
    "decode_gif", "convert the files to PNG, a frame each, or to TFRecords of pixels"
)

_later = "is done behind the iterator, or put together from the functions of mr"
_crops = (
    "use mr.image.random_crop or decode_and_crop_jpeg with a box of your own, and mr.image.resize"
)
crop_and_resize = absent("crop_and_resize", _crops)
sample_distorted_bounding_box = absent("sample_distorted_bounding_box", _crops)
stateless_sample_distorted_bounding_box = absent("stateless_sample_distorted_bounding_box", _crops)
_quality = "use mr.image.adjust_jpeg_quality with a constant"
random_jpeg_quality = absent("random_jpeg_quality", _quality)
stateless_random_jpeg_quality = absent("stateless_random_jpeg_quality", _quality)
extract_patches = absent("extract_patches", "that " + _later)
draw_bounding_boxes = absent("draw_bounding_boxes", "that " + _later)
sobel_edges = absent("sobel_edges", "that " + _later)
image_gradients = absent("image_gradients", "that " + _later)
total_variation = absent("total_variation", "that " + _later)
non_max_suppression = absent("non_max_suppression", "that " + _later)
psnr = absent("psnr", "that " + _later)
ssim = absent("ssim", "that " + _later)

_counted = (
    "mr.random.uniform, normal, truncated_normal, categorical and shuffle, and their stateless_ "
    "forms, are"
)
gamma = absent("gamma", _counted)
poisson = absent("poisson", _counted)
stateless_binomial = absent("stateless_binomial", _counted)
stateless_gamma = absent("stateless_gamma", _counted)
stateless_poisson = absent("stateless_poisson", _counted)
_no_state = (
    "nothing has a state that draws change; use mr.random.uniform(...) in the function, or "
    "mr.random.stateless_uniform with a seed from the element (Dataset.enumerate, mr.random.fold_in)"
)
create_rng_state = absent("create_rng_state", _no_state)
get_global_generator = absent("get_global_generator", _no_state)
random_generator = absent("Generator", _no_state)
