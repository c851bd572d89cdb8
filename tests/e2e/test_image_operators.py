"""mr.image: pixels that are moved, resized and coloured, beside plain NumPy."""

import colorsys
import math

import numpy as np
import pytest

import millrace as mr

random = np.random.RandomState(3)
BYTES = random.randint(0, 256, (13, 17, 3)).astype(np.uint8)
FLOATS = random.rand(13, 17, 3).astype(np.float32)
BATCH = random.randint(0, 256, (2, 9, 7, 3)).astype(np.uint8)


def unknown(image):
    """The same image, of which tracing knows neither height nor width."""
    return mr.io.decode_png(mr.io.encode_png(image))


def traced(function, *elements):
    return next(iter(mr.Dataset.from_tensors(elements).map(function)))


# ---- resize ----


def keys(x):
    x = abs(x)
    return (
        0
        if x >= 2
        else ((-0.5 * x + 2.5) * x - 4) * x + 2
        if x >= 1
        else (1.5 * x - 2.5) * x * x + 1
    )


def sinc(x):
    return 1.0 if x == 0 else math.sin(math.pi * x) / (math.pi * x)


KERNELS = {
    "bilinear": (1, lambda x: max(0, 1 - abs(x))),
    "bicubic": (2, keys),
    "lanczos3": (3, lambda x: sinc(x) * sinc(x / 3) if abs(x) <= 3 else 0),
    "lanczos5": (5, lambda x: sinc(x) * sinc(x / 5) if abs(x) <= 5 else 0),
    "gaussian": (1.5, lambda x: math.exp(-x * x * 2) if abs(x) < 1.5 else 0),
    "mitchellcubic": (
        2,
        lambda x: (
            0
            if abs(x) >= 2
            else (
                ((-7 / 18 * abs(x) + 2) * abs(x) - 10 / 3) * abs(x) + 16 / 9
                if abs(x) >= 1
                else (7 / 6 * abs(x) - 2) * x * x + 8 / 9
            )
        ),
    ),
}


def weights(method, antialias, before, after):
    """[after, before]: how much each pixel counts."""
    scale = before / after
    table = np.zeros((after, before))
    for i in range(after):
        centre = (i + 0.5) * scale
        if method == "nearest":
            table[i, min(int(centre), before - 1)] = 1
        elif method == "area":
            for k in range(before):
                table[i, k] = max(0, min(k + 1, (i + 1) * scale) - max(k, i * scale))
        elif method == "bilinear" and not antialias:
            # Beyond the border stands the pixel at the border.
            for k, part in ((math.floor(centre - 0.5), None), (math.floor(centre - 0.5) + 1, None)):
                table[i, min(max(k, 0), before - 1)] += max(0, 1 - abs(k + 0.5 - centre))
        else:
            _, kernel = KERNELS[method]
            wide = max(scale, 1) if antialias else 1
            for k in range(before):
                table[i, k] = kernel((k + 0.5 - centre) / wide)
    return table / table.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("method", ["area", "nearest", *KERNELS])
def test_resize(method, antialias):
    for image in (BYTES, FLOATS, BATCH):
        height, width = image.shape[-3:-1]
        for size in ((5, 6), (26, 34), (13, 40), (1, 1), (7, 50), (height, width)):
            got = mr.image.resize(image, size, method, antialias=antialias)
            rows = weights(method, antialias, height, size[0])
            columns = weights(method, antialias, width, size[1])
            want = np.einsum("ih,jw,...hwc->...ijc", rows, columns, image.astype(np.float64))
            assert got.shape == want.shape
            assert got.dtype == (image.dtype if method == "nearest" else np.float32)
            # The weights of bicubic come from a table of 1024 distances, as TensorFlow's do.
            close = 2e-3 if method == "bicubic" and not antialias else 1e-5
            assert np.abs(got - want).max() <= close * np.abs(image).max(), (method, size)


def test_kernels_that_end_with_a_step_are_rounded_as_in_tensorflow():
    column = np.array([9, 0, 0, 7, 0, 1], np.float32)[:, None, None]
    want = [8.6033773, 6.9655790, 3.0895164, 0.5905568, 0.0990883, 0.8673511, 3.4682369]
    want += [5.4950223, 3.9771483, 1.2217431, 0.4939694, 0.7739530, 0.9559307]
    got = mr.image.resize(column, [13, 1], "gaussian")[:, 0, 0]
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_resize_to_sizes_that_are_values():
    want = mr.image.resize(BYTES, (5, 8), "area")
    got = traced(lambda x, size: mr.image.resize(unknown(x), size, "area"), BYTES, np.array([5, 8]))
    assert (got == want).all()
    spec = mr.Dataset.from_tensors(BYTES).map(lambda x: mr.image.resize(unknown(x), [5, 8]))
    assert spec.element_spec == mr.TensorSpec([5, 8, None], mr.float32)


def test_resize_keeps_proportions():
    for size, want in (((5, 20), (5, 7)), ((30, 9), (7, 9)), ((26, 34), (26, 34))):
        image = mr.image.resize(BYTES, size, preserve_aspect_ratio=True)
        assert image.shape == (*want, 3)
        assert (image == mr.image.resize(BYTES, want)).all()
        again = traced(lambda x: mr.image.resize(unknown(x), size, "bilinear", True), BYTES)
        assert (again == image).all()


def test_resize_with_pad():
    image = mr.image.resize_with_pad(BYTES, 20, 20)
    inner = mr.image.resize(BYTES, (15, 20))
    assert image.shape == (20, 20, 3) and (image[2:17] == inner).all()
    assert not image[:2].any() and not image[17:].any()
    again = traced(lambda x: mr.image.resize_with_pad(unknown(x), 20, 20), BYTES)
    assert (again == image).all()
    # 2 / (2 / 13) is less than 13 in float32.
    tall = mr.image.resize_with_pad(np.ones((1, 2, 1), np.float32), 11, 13)
    assert tall.any(axis=(1, 2)).sum() == 6 and tall.any(axis=(0, 2)).sum() == 12


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: mr.image.resize(BYTES, [0, 4]), "a size of 0 pixels"),
        (lambda: mr.image.resize(BYTES, [4]), "size is height and width"),
        (lambda: mr.image.resize(BYTES[0], [4, 4]), "images are"),
        (lambda: mr.image.resize(BYTES, [4, 4], "cubic"), "method is one of"),
        (lambda: mr.image.crop_to_bounding_box(BYTES, 2, 3, 40, 5), "are not within"),
        (lambda: mr.image.pad_to_bounding_box(BYTES, 2, 3, 10, 30), "are not within"),
        (lambda: mr.image.central_crop(BYTES, 0.0), "central_fraction"),
        (lambda: mr.image.rgb_to_hsv(FLOATS[..., :2]), "3 values"),
        (
            lambda: mr.image.random_crop(BYTES, [14, 2, 3]),
            r"size \[14, 2, 3\] is more than the value has, which is of shape \(13, 17, 3\)",
        ),
        (lambda: mr.image.random_crop(BYTES, [14, 2]), r"size \[14, 2\] for a tensor"),
        (lambda: mr.image.resize_with_pad(BYTES, 0, 2), "target_height must be above 0: got 0"),
        (lambda: mr.image.resize_with_crop_or_pad(BYTES, 2, -1), "target_width must be above 0"),
        (lambda: mr.image.crop_to_bounding_box(BYTES, 0, 0, 2, 0), "are not within"),
        (lambda: mr.image.random_hue(BYTES, 0.6), "max_delta"),
        (lambda: mr.image.random_contrast(BYTES, 2, 1), "lower"),
        (lambda: mr.image.ssim(BYTES, BYTES, 255), "is not supported"),
    ],
)
def test_refusals(call, text):
    with pytest.raises((ValueError, mr.errors.OpError), match=text):
        call()


# ---- places ----


@pytest.mark.parametrize("image", [BYTES, FLOATS, BATCH])
def test_moves(image):
    at = image.ndim - 3
    assert (mr.image.flip_left_right(image) == np.flip(image, at + 1)).all()
    assert (mr.image.flip_up_down(image) == np.flip(image, at)).all()
    assert (mr.image.transpose(image) == np.swapaxes(image, at, at + 1)).all()
    for k in range(-1, 5):
        assert (mr.image.rot90(image, k) == np.rot90(image, k, (at, at + 1))).all()


def test_boxes():
    part = BYTES[2:6, 3:8]
    assert (mr.image.crop_to_bounding_box(BYTES, 2, 3, 4, 5) == part).all()
    cropped = traced(lambda x: mr.image.crop_to_bounding_box(unknown(x), 2, 3, 4, 5), BYTES)
    assert (cropped == part).all()
    placed = np.zeros((20, 21, 3), np.uint8)
    placed[2:15, 3:20] = BYTES
    assert (mr.image.pad_to_bounding_box(BYTES, 2, 3, 20, 21) == placed).all()
    assert (
        traced(lambda x: mr.image.pad_to_bounding_box(unknown(x), 2, 3, 20, 21), BYTES) == placed
    ).all()
    top = traced(lambda x, n: mr.image.crop_to_bounding_box(x, n, n, 4, n + 1), BYTES, 2)
    assert (top == BYTES[2:6, 2:5]).all()
    with pytest.raises(
        mr.errors.InvalidArgumentError, match="is not within axis 0, which has size 13"
    ):
        traced(lambda x: mr.image.crop_to_bounding_box(unknown(x), 2, 3, 12, 5), BYTES)


PAD, CROP = mr.image.pad_to_bounding_box, mr.image.crop_to_bounding_box
CROP_OR_PAD, WITH_PAD = mr.image.resize_with_crop_or_pad, mr.image.resize_with_pad


@pytest.mark.parametrize(
    "call, numbers, text",
    [
        (PAD, (1, 0, 13, 17), "at offset_height are not within target_height"),
        (PAD, (0, 1, 13, 17), "at offset_width are not within target_width"),
        (PAD, (0, 0, 12, 17), "at offset_height are not within target_height"),
        (PAD, (-1, 0, 20, 20), "offset_height must be at least 0"),
        (PAD, (0, -1, 20, 20), "offset_width must be at least 0"),
        (PAD, (2**31 - 1, 0, 2**31 - 1, 17), "at offset_height are not within target_height"),
        (CROP, (-1, 0, 2, 2), "begin -1, size 2 is not within axis 0"),
        (CROP, (0, 16, 2, 2), "begin 16, size 2 is not within axis 1"),
        (CROP, (0, 0, 0, 2), "target_height must be above 0"),
        (CROP, (0, 0, 2, -1), "target_width must be above 0"),
        (CROP_OR_PAD, (0, 2), "target_height must be above 0"),
        (CROP_OR_PAD, (2, -1), "target_width must be above 0"),
        (WITH_PAD, (0, 2), "target_height must be above 0"),
        (WITH_PAD, (2, -1), "target_width must be above 0"),
    ],
)
def test_numbers_that_are_tensors(call, numbers, text):
    for image in (lambda x: x, unknown):
        with pytest.raises(mr.errors.InvalidArgumentError, match=text):
            traced(lambda x, *given: call(image(x), *given), BYTES, *np.int32(numbers))
    with pytest.raises(ValueError, match=f"{text}|are not within images"):
        traced(lambda x: call(unknown(x), *numbers), BYTES)


def test_sizes_that_are_tensors():
    padded = mr.image.resize_with_pad(BYTES, 20, 21)
    assert (traced(WITH_PAD, BYTES, 20, 21) == padded).all()
    crop = traced(lambda x, n: mr.image.random_crop(x, n, seed=1), BYTES, np.int32([4, 5, 3]))
    assert crop.shape == (4, 5, 3)
    for image in (lambda x: x, unknown):
        with pytest.raises(mr.errors.InvalidArgumentError, match="size is more than axis 1"):
            traced(lambda x, n: mr.image.random_crop(image(x), n), BYTES, np.int32([13, 18, 3]))
    with pytest.raises(
        mr.errors.InvalidArgumentError, match=r"size \[14, 2, 3\] is more than axis 0 of the value"
    ):
        traced(lambda x: mr.image.random_crop(unknown(x), [14, 2, 3]), BYTES)


@pytest.mark.parametrize("size", [(5, 20), (30, 9), (13, 17), (6, 8), (14, 18)])
def test_crop_or_pad(size):
    def one(image, target, axis):
        have = image.shape[axis]
        if have > target:
            return np.take(
                image, range(-(target - have) // 2, -(target - have) // 2 + target), axis
            )
        before = (target - have) // 2
        pads = [(0, 0)] * image.ndim
        pads[axis] = (before, target - have - before)
        return np.pad(image, pads)

    for image in (BYTES, BATCH):
        want = one(one(image, size[0], -3), size[1], -2)
        assert (mr.image.resize_with_crop_or_pad(image, *size) == want).all()
    want = one(one(BYTES, size[0], -3), size[1], -2)
    assert (
        traced(lambda x: mr.image.resize_with_crop_or_pad(unknown(x), *size), BYTES) == want
    ).all()


def test_central_crop():
    for fraction in (0.1, 0.33, 0.5, 0.77, 1.0):
        top, left = int((13 - 13 * fraction) / 2), int((17 - 17 * fraction) / 2)
        want = BYTES[top : 13 - top, left : 17 - left]
        assert (mr.image.central_crop(BYTES, fraction) == want).all()
        assert (traced(lambda x: mr.image.central_crop(unknown(x), fraction), BYTES) == want).all()


# ---- values ----


def test_convert_image_dtype():
    convert = mr.image.convert_image_dtype
    assert np.allclose(convert(BYTES, mr.float32), BYTES / 255)
    assert (convert(convert(BYTES, mr.float32), mr.uint8) == BYTES).all()
    assert (convert(BYTES, mr.uint16) == BYTES.astype(np.uint16) * 256).all()
    assert (convert(convert(BYTES, mr.uint16), mr.uint8) == BYTES).all()
    out = np.array([[[-0.5, 0.5, 1.5]]], np.float32)
    assert convert(out, mr.uint8, saturate=True).tolist() == [[[0, 127, 255]]]
    assert (convert(BYTES, mr.int8, saturate=True) == np.minimum(BYTES // 2, 127)).all()


def test_colours():
    want = np.array([colorsys.rgb_to_hsv(*p) for p in FLOATS.reshape(-1, 3).tolist()])
    hsv = mr.image.rgb_to_hsv(FLOATS)
    assert np.allclose(hsv.reshape(-1, 3), want, atol=1e-5)
    assert np.allclose(mr.image.hsv_to_rgb(hsv), FLOATS, atol=1e-5)
    assert np.allclose(mr.image.yuv_to_rgb(mr.image.rgb_to_yuv(FLOATS)), FLOATS, atol=1e-5)
    assert np.allclose(mr.image.yiq_to_rgb(mr.image.rgb_to_yiq(FLOATS)), FLOATS, atol=1e-4)
    grey = FLOATS @ np.array([0.2989, 0.5870, 0.1140])
    assert np.allclose(mr.image.rgb_to_grayscale(FLOATS)[..., 0], grey, atol=1e-6)
    assert mr.image.rgb_to_grayscale(BYTES).dtype == np.uint8
    assert mr.image.grayscale_to_rgb(BYTES[..., :1]).shape == BYTES.shape


def test_adjustments():
    assert np.allclose(mr.image.adjust_brightness(FLOATS, 0.2), FLOATS + 0.2)
    brighter = np.clip((BYTES / 255 + 0.2) * 255.5, 0, 255).astype(np.uint8)
    assert np.abs(mr.image.adjust_brightness(BYTES, 0.2).astype(int) - brighter).max() <= 1
    mean = FLOATS.mean(axis=(0, 1))
    assert np.allclose(mr.image.adjust_contrast(FLOATS, 2.0), (FLOATS - mean) * 2 + mean, atol=1e-5)
    assert np.allclose(mr.image.adjust_gamma(FLOATS, 2.0, 3.0), 3 * FLOATS**2, atol=1e-5)
    assert np.allclose(mr.image.adjust_saturation(FLOATS, 1.0), FLOATS, atol=1e-5)
    grey = mr.image.adjust_saturation(FLOATS, 0.0)
    assert np.allclose(grey, FLOATS.max(axis=-1, keepdims=True), atol=1e-5)
    assert np.allclose(mr.image.adjust_hue(FLOATS, 1.0), FLOATS, atol=1e-4)
    third = mr.image.adjust_hue(np.array([[[1, 0, 0]]], np.float32), 1 / 3)
    assert np.allclose(third, [[[0, 1, 0]]], atol=1e-5)
    even = mr.image.per_image_standardization(BATCH)
    assert np.allclose(even.mean(axis=(1, 2, 3)), 0, atol=1e-5)
    assert np.allclose(even.std(axis=(1, 2, 3)), 1, atol=1e-5)
    assert (mr.image.per_image_standardization(np.full((4, 4, 1), 9.0)) == 0).all()


# ---- at random ----


def many(function, n=400):
    return np.stack(list(mr.Dataset.range(n).map(lambda _: function())))


def test_flips_of_any_width():
    rng = np.random.default_rng(2)
    for width in list(range(1, 40)) + [320]:
        for channels, dtype in ((1, np.uint8), (3, np.uint8), (4, np.uint8), (3, np.float32)):
            image = rng.integers(0, 255, (3, width, channels)).astype(dtype)
            assert (mr.image.flip_left_right(image) == image[:, ::-1]).all(), (width, channels)


def test_random_flips():
    for flip, axis in ((mr.image.random_flip_left_right, 2), (mr.image.random_flip_up_down, 1)):
        images = many(lambda: flip(BYTES, seed=1))
        flipped = (images == np.flip(BYTES, axis - 1)).all(axis=(1, 2, 3))
        assert (flipped | (images == BYTES).all(axis=(1, 2, 3))).all()
        assert 150 < flipped.sum() < 250
    batches = many(lambda: mr.image.random_flip_left_right(BATCH, seed=1), 200)
    first, second = ((batches[:, i] == BATCH[i]).all(axis=(1, 2, 3)) for i in range(2))
    assert 30 < (first & ~second).sum() < 70  # each image of a batch for itself


def test_a_small_number_flips():
    for seed in [(1, n) for n in range(20)]:
        turned = bool(mr.random.stateless_uniform([], seed) < 0.5)
        for name, axis in (("left_right", 1), ("up_down", 0)):
            flip = getattr(mr.image, f"stateless_random_flip_{name}")
            want = np.flip(BYTES, axis) if turned else BYTES
            assert (flip(BYTES, seed) == want).all(), (name, seed)


def test_random_crop():
    places = {}
    for crop in many(lambda: mr.image.random_crop(BYTES, [11, 16, 3], seed=2), 600):
        found = [
            (y, x)
            for y in range(3)
            for x in range(2)
            if (BYTES[y : y + 11, x : x + 16] == crop).all()
        ]
        assert len(found) == 1
        places[found[0]] = places.get(found[0], 0) + 1
    assert len(places) == 6 and min(places.values()) > 60
    spec = mr.Dataset.from_tensors(BYTES).map(lambda x: mr.image.random_crop(unknown(x), [4, 4, 3]))
    assert spec.element_spec == mr.TensorSpec([4, 4, 3], mr.uint8)


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("random_brightness", (0.3,)),
        ("random_contrast", (0.5, 1.5)),
        ("random_saturation", (0.5, 1.5)),
        ("random_hue", (0.3,)),
        ("random_flip_left_right", ()),
        ("random_flip_up_down", ()),
        ("random_crop", ((3, 4, 3),)),
    ],
)
def test_changes_at_random(name, arguments):
    counted = getattr(mr.image, name)
    images = many(lambda: counted(FLOATS, *arguments, seed=3), 20)
    assert len({i.tobytes() for i in images}) > 1
    assert (many(lambda: counted(FLOATS, *arguments, seed=3), 20) == images).all()
    stateless = getattr(mr.image, "stateless_" + name)
    same = many(lambda: stateless(FLOATS, *arguments, seed=(1, 2)), 3)
    assert (same == same[0]).all()
    ds = mr.Dataset.range(20).map(
        lambda i: stateless(FLOATS, *arguments, seed=mr.random.fold_in((1, 2), i))
    )
    assert len({i.tobytes() for i in ds}) > 1


def test_jpeg_quality():
    worse = mr.image.adjust_jpeg_quality(BYTES, 5)
    better = mr.image.adjust_jpeg_quality(BYTES, 100)
    assert worse.shape == BYTES.shape and worse.dtype == np.uint8
    assert np.abs(worse.astype(int) - BYTES).mean() > np.abs(better.astype(int) - BYTES).mean()


def test_a_training_pipeline():
    def augment(contents):
        image = mr.io.decode_jpeg(contents, channels=3)
        image = mr.image.resize(image, [40, 50], antialias=True)
        image = mr.image.random_crop(image, [32, 32, 3])
        image = mr.image.random_flip_left_right(image)
        return mr.image.per_image_standardization(image)

    files = [mr.io.encode_jpeg(np.repeat(BYTES, k, axis=0)) for k in (1, 3, 5)]
    ds = mr.Dataset.from_tensor_slices(files).repeat(4).map(augment, num_parallel_calls=3).batch(6)
    assert ds.element_spec == mr.TensorSpec([None, 32, 32, 3], mr.float32)
    assert [x.shape for x in ds] == [(6, 32, 32, 3)] * 2


# ---- boxes ----


def test_crop_and_resize():
    image = mr.reshape(mr.cast(mr.range(40), mr.uint8), [2, 4, 5, 1])
    crop = lambda box, size, of=0, **how: mr.image.crop_and_resize(image, [box], [of], size, **how)
    corners = crop([0, 0, 1, 1], [2, 2])
    assert corners.dtype == np.float32 and corners.ravel().tolist() == [0, 4, 15, 19]
    assert crop([0, 0, 0.5, 0.5], [1, 1], 1).ravel().tolist() == [24.75]
    assert crop([1, 1, 0, 0], [2, 3], 1).ravel().tolist() == [39, 37, 35, 24, 22, 20]
    outside = crop([-1, -1, 2, 2], [3, 3], 1, extrapolation_value=7).ravel()
    assert outside.tolist() == [7, 7, 7, 7, 29.5, 7, 7, 7, 7]
    nearest = crop([0, 0, 0.5, 0.5], [2, 2], method="nearest").ravel()
    assert nearest.tolist() == [0, 2, 10, 12]  # line 1.5 is line 2
    none = mr.image.crop_and_resize(image, np.zeros([0, 4], np.float32), [], [2, 2])
    assert none.shape == (0, 2, 2, 1)
    traced_crop = lambda x: mr.image.crop_and_resize(x, [[0, 0, 1, 1]], [0], [2, 2])
    assert (traced(traced_crop, image) == corners).all()
    spec = mr.Dataset.from_tensors(image).map(traced_crop).element_spec
    assert spec == mr.TensorSpec([1, 2, 2, 1], mr.float32)


@pytest.mark.parametrize(
    "box, of, size, message",
    [
        ([0, np.nan, 1, 1], 0, [2, 2], "not finite"),
        ([0, 0, 1], 0, [2, 2], r"boxes of shape \[1,3\]"),
        ([0, 0, 1, 1], 0, [0, 2], "a size of 0 pixels"),
    ],
)
def test_boxes_that_are_refused(box, of, size, message):
    with pytest.raises(mr.errors.InvalidArgumentError, match=message):
        mr.image.crop_and_resize(np.zeros([2, 4, 5, 1], np.uint8), [box], [of], size)


@pytest.mark.parametrize("of", [2, -1])
def test_boxes_of_no_image(of):
    images = np.zeros([2, 4, 5, 1], np.uint8)
    crop = lambda x, n: mr.image.crop_and_resize(x, [[0, 0, 1, 1]], [n], [2, 2])
    with pytest.raises(mr.errors.OutOfRangeError, match=f"box 0 is of image {of} of 2"):
        crop(images, of)
    ds = mr.Dataset.from_tensors(images).map(lambda x: crop(x, of))
    with pytest.raises(mr.errors.InvalidArgumentError, match=f"box 0 is of image {of} of 2"):
        list(ds)


def test_distorted_boxes():
    objects = [[[0.1, 0.2, 0.5, 0.6]]]

    def draw(i):
        box = mr.image.sample_distorted_bounding_box(
            [60, 90, 3], objects, min_object_covered=0.5, aspect_ratio_range=[0.5, 2.0]
        )
        return box.begin, box.size, box.bboxes

    seen = set()
    for begin, size, box in mr.Dataset.range(300).map(draw):
        (top, left), (height, width) = begin[:2], size[:2]
        assert begin[2] == 0 and size[2] == -1 and box.shape == (1, 1, 4)
        edges = [top / 60, left / 90, (top + height) / 60, (left + width) / 90]
        np.testing.assert_allclose(box.ravel(), edges, rtol=1e-6)
        assert top >= 0 and left >= 0 and top + height <= 60 and left + width <= 90
        shown = max(0, min(top + height, 30) - max(top, 6))
        shown *= max(0, min(left + width, 54) - max(left, 18))
        assert shown >= 0.5 * 24 * 36
        assert 0.05 * 5400 <= height * width
        if (height, width) != (60, 90):
            assert 0.49 <= width / height <= 2.05
        seen.add((top, left, height, width))
    assert len(seen) > 200


def test_distorted_boxes_of_a_seed():
    draw = mr.image.stateless_sample_distorted_bounding_box
    one, same = (draw([60, 90, 3], [[[0.1, 0.1, 0.9, 0.9]]], (3, 4)) for _ in range(2))
    assert all((a == b).all() for a, b in zip(one, same))
    other = draw(np.array([60, 90, 3]), [[[0.1, 0.1, 0.9, 0.9]]], (3, 5))
    assert other.begin.dtype == np.int64 and other.size.dtype == np.int64
    assert (one.bboxes != other.bboxes).any()


def test_distorted_boxes_without_an_answer():
    draw = mr.image.sample_distorted_bounding_box
    whole = draw([60, 90, 3], [[[0, 0, 1, 1]]], min_object_covered=2.0)
    assert whole.begin.tolist() == [0, 0, 0] and whole.size.tolist() == [60, 90, -1]
    none = np.zeros([1, 0, 4], np.float32)
    assert draw([60, 90, 3], none, use_image_if_no_bounding_boxes=True).size[0] > 0
    extreme = draw([60, 90, 3], [[[0, 0, 1, 1]]], aspect_ratio_range=[1e-30, 1e30])
    assert extreme.size[0] <= 60
    for boxes, how, message in (
        (none, {}, "no boxes"),
        ([[[0, 0, 1.5, 1]]], {}, "box 0 has 1.5"),
        ([[[0, 0, 1, 1]]], {"min_object_covered": -1.0}, "min_object_covered is -1"),
        ([[[0, 0, 1, 1]]], {"aspect_ratio_range": [0.0, 1.0]}, "aspect_ratio_range"),
        ([[[0, 0, 1, 1]]], {"area_range": [0.2, 2.0]}, "area_range"),
        ([[[0, 0, 1, 1]]], {"max_attempts": 0}, "max_attempts is 0"),
    ):
        with pytest.raises(mr.errors.InvalidArgumentError, match=message):
            draw([60, 90, 3], boxes, **how)
    with pytest.raises(mr.errors.InvalidArgumentError, match="a side of|an image side of 0"):
        draw([0, 90, 3], [[[0, 0, 1, 1]]])


# ---- quality, turns that are values ----


def test_jpeg_quality_that_is_a_value():
    image = mr.cast(mr.image.resize(BYTES, [16, 16]), mr.uint8)
    for quality in (5, 50, 100):
        want = mr.image.adjust_jpeg_quality(image, quality)
        got = traced(lambda x, q: mr.image.adjust_jpeg_quality(x, q), image, np.int32(quality))
        assert (got == want).all()
    with pytest.raises(mr.errors.InvalidArgumentError, match="quality is 101"):
        traced(lambda x, q: mr.image.adjust_jpeg_quality(x, q), image, np.int32(101))


def test_random_jpeg_quality():
    image = mr.cast(mr.image.resize(BYTES, [16, 16]), mr.uint8)
    possible = {mr.image.adjust_jpeg_quality(image, q).tobytes() for q in (30, 31, 32)}
    draw = lambda i: mr.image.random_jpeg_quality(image, 30, 33)
    assert {x.tobytes() for x in mr.Dataset.range(60).map(draw)} == possible
    stateless = lambda i: mr.image.stateless_random_jpeg_quality(image, 30, 33, mr.stack([i, 1]))
    first, again = ([x.tobytes() for x in mr.Dataset.range(60).map(stateless)] for _ in range(2))
    assert first == again and set(first) == possible
    for least, most in ((-1, 5), (5, 5), (0, 101)):
        with pytest.raises(ValueError, match="qualities"):
            mr.image.random_jpeg_quality(image, least, most)


@pytest.mark.parametrize("k", [-1, 0, 1, 2, 3, 6])
def test_turns_that_are_values(k):
    want = np.rot90(FLOATS, k)
    assert (mr.image.rot90(FLOATS, k) == want).all()
    assert (traced(lambda x, n: mr.image.rot90(x, n), FLOATS, np.int64(k)) == want).all()


# ---- what images are made of ----


def test_gradients_edges_and_variation():
    batch = np.arange(24, dtype=np.float32).reshape(1, 3, 4, 2) ** 1.5
    down, right = mr.image.image_gradients(batch)
    assert (down[:, :-1] == np.diff(batch, axis=1)).all() and (down[:, -1] == 0).all()
    assert (right[:, :, :-1] == np.diff(batch, axis=2)).all() and (right[:, :, -1] == 0).all()
    variation = np.abs(np.diff(batch, axis=1)).sum() + np.abs(np.diff(batch, axis=2)).sum()
    np.testing.assert_allclose(mr.image.total_variation(batch), [variation], rtol=1e-6)
    edges = mr.image.sobel_edges(batch)
    padded = np.pad(batch, [(0, 0), (1, 1), (1, 1), (0, 0)], "reflect")
    kernel = np.outer([-1, 0, 1], [1, 2, 1])
    for axis, weights in ((0, kernel), (1, kernel.T)):
        want = sum(
            weights[y, x] * padded[:, y : y + 3, x : x + 4] for y in range(3) for x in range(3)
        )
        np.testing.assert_allclose(edges[..., axis], want, rtol=1e-4, atol=1e-4)
    for function in (mr.image.image_gradients, mr.image.sobel_edges):
        with pytest.raises(ValueError, match="a batch of"):
            function(batch[0])


def test_psnr():
    a, b = BYTES, BYTES // 2
    error = ((a / 255.0 - b / 255.0) ** 2).mean()
    np.testing.assert_allclose(mr.image.psnr(a, b, 255), -10 * np.log10(error), rtol=1e-4)
    assert np.isposinf(mr.image.psnr(a, a, 255))


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_extract_patches(padding):
    batch = np.arange(2 * 7 * 6 * 2).reshape(2, 7, 6, 2)
    got = mr.image.extract_patches(batch, [1, 3, 2, 1], [1, 2, 3, 1], [1, 2, 1, 1], padding)
    if padding == "SAME":
        rows, columns = 4, 2  # (7 + 1) // 2, (6 + 2) // 3
        more = ((rows - 1) * 2 + 5 - 7, max((columns - 1) * 3 + 2 - 6, 0))
        sides = [(n // 2, n - n // 2) for n in more]
        batch = np.pad(batch, [(0, 0), *sides, (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(batch, (5, 2), (1, 2))[:, ::2, ::3]
    want = windows[..., ::2, :].transpose(0, 1, 2, 4, 5, 3)
    assert (got == want.reshape(*want.shape[:3], -1)).all()
    sizes = [1, 3, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1]
    image = batch[0, ..., :1].astype(np.uint8)
    unknown_size = lambda x: mr.image.extract_patches(unknown(x)[None], *sizes, padding)
    known = mr.image.extract_patches(image[None], *sizes, padding)
    assert (traced(unknown_size, image) == known).all()
