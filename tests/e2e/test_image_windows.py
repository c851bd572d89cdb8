"""Images that are decoded only to be cut: the same pixels and errors as when they are kept whole."""

import pathlib

import numpy as np
import pytest

import millrace as mr

IMAGES = pathlib.Path(__file__).parents[1] / "fuzz/corpus/image"
NAMES = ["baseline.jpg", "progressive.jpg", "cmyk.jpg", "grey.jpg", "full-colour.jpg", "rgb8.png"]
SEEDS = 12


def load(name):
    return (IMAGES / name).read_bytes()


CROPS = {
    "random_crop": lambda image, seed: mr.image.random_crop(image, [11, 13, 3], seed=5),
    "stateless_random_crop": lambda image, seed: mr.image.stateless_random_crop(
        image, [11, 13, 3], seed
    ),
    "one channel": lambda image, seed: mr.image.stateless_random_crop(image, [11, 13, 1], seed),
    "central_crop": lambda image, seed: mr.image.central_crop(image, 0.3),
    "crop_to_bounding_box": lambda image, seed: mr.image.crop_to_bounding_box(image, 3, 17, 9, 20),
    "resize_with_crop_or_pad": lambda image, seed: mr.image.resize_with_crop_or_pad(image, 12, 50),
    "pad_to_bounding_box": lambda image, seed: mr.image.pad_to_bounding_box(image, 2, 3, 40, 50),
    "slice": lambda image, seed: mr.slice(image, [4, 5, 0], [6, -1, -1]),
    "nothing": lambda image, seed: mr.slice(image, [4, 5, 0], [6, 0, -1]),
}


def both(name, crop, **how):
    """The part, of a pipeline that needs only it, and of one that keeps the image, too."""

    def cut(i):
        image = mr.io.decode_image(load(name), channels=3, **how)
        return crop(image, mr.stack([i, 7]))

    def keep(i):
        image = mr.io.decode_image(load(name), channels=3, **how)
        return crop(image, mr.stack([i, 7])), image

    rows = mr.Dataset.range(SEEDS)
    cuts = list(rows.map(cut).as_numpy_iterator())
    kept = [part for part, _ in rows.map(keep).as_numpy_iterator()]
    return cuts, kept


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("crop", CROPS)
def test_parts_are_those_of_the_whole(name, crop):
    cuts, kept = both(name, CROPS[crop])
    assert len(cuts) == len(kept) == SEEDS
    for cut, part in zip(cuts, kept):
        assert cut.shape == part.shape and cut.dtype == part.dtype
        assert (cut == part).all()


@pytest.mark.parametrize("first", [True, False])
def test_an_image_that_is_read_otherwise_stays_whole(first):
    """Before it is cut, or behind that."""

    def cut(i):
        image = mr.io.decode_image(load("baseline.jpg"), channels=3)
        sums = [mr.reduce_sum(mr.cast(image, mr.int64))] if first else []
        part = mr.image.crop_to_bounding_box(image, 3, 17, 9, 20)
        return part, sums[0] if first else mr.reduce_sum(mr.cast(image, mr.int64))

    whole = mr.io.decode_image(load("baseline.jpg"), channels=3)
    ((part, total),) = mr.Dataset.range(1).map(cut).as_numpy_iterator()
    assert (part == whole[3:12, 17:37]).all()
    assert total == whole.sum(dtype=np.int64)


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
@pytest.mark.parametrize("name", ["baseline.jpg", "rgb16.png"])
def test_parts_of_other_dtypes(name, dtype):
    cuts, kept = both(name, CROPS["random_crop"], dtype=dtype)
    assert cuts[0].dtype == np.dtype(dtype)
    assert all((cut == part).all() for cut, part in zip(cuts, kept))


def test_the_decoder_keeps_its_settings():
    def cut(i):
        image = mr.io.decode_jpeg(
            load("baseline.jpg"),
            channels=1,
            ratio=2,
            fancy_upscaling=False,
            dct_method="INTEGER_ACCURATE",
        )
        return mr.image.random_crop(image, [5, 6, 1], seed=3), mr.shape(image)

    whole = mr.io.decode_jpeg(
        load("baseline.jpg"),
        channels=1,
        ratio=2,
        fancy_upscaling=False,
        dct_method="INTEGER_ACCURATE",
    )
    windows = np.lib.stride_tricks.sliding_window_view(whole, (5, 6, 1))
    for part, shape in mr.Dataset.range(SEEDS).map(cut).as_numpy_iterator():
        assert shape.tolist() == list(whole.shape)
        assert (windows == part).all(axis=(-3, -2, -1)).any()


def outcome(function):
    try:
        return list(mr.Dataset.range(1).map(function).as_numpy_iterator())
    except mr.errors.OpError as e:
        return type(e)


@pytest.mark.parametrize("part", [0, 2, 100, 300, 500, -40, -2, -1])
@pytest.mark.parametrize("name", ["baseline.jpg", "progressive.jpg"])
def test_what_is_cut_off_is_an_error_wherever_the_part_is(name, part):
    data = load(name)[:part]

    def cut(i):
        image = mr.io.decode_image(data, channels=3)
        return mr.image.crop_to_bounding_box(image, 0, 0, 4, 4)

    def keep(i):
        image = mr.io.decode_image(data, channels=3)
        return mr.image.crop_to_bounding_box(image, 0, 0, 4, 4), image

    assert outcome(cut) == outcome(keep) == mr.errors.InvalidArgumentError


def test_a_part_outside_is_an_error():
    def cut(i):
        image = mr.io.decode_jpeg(load("baseline.jpg"), channels=3)
        return mr.image.random_crop(image, [24, 8, 3])

    with pytest.raises(
        mr.errors.InvalidArgumentError, match=r"size \[24, 8, 3\] is more than axis 0"
    ):
        list(mr.Dataset.range(1).map(cut).as_numpy_iterator())


def test_data_behind_the_end_marker_is_ignored():
    def cut(i):
        image = mr.io.decode_jpeg(load("baseline.jpg") + b"\xff\xff more", channels=3)
        return mr.image.crop_to_bounding_box(image, 1, 1, 4, 4)

    (part,) = mr.Dataset.range(1).map(cut).as_numpy_iterator()
    assert (part == mr.io.decode_jpeg(load("baseline.jpg"), channels=3)[1:5, 1:5]).all()


def test_numbers_beyond_32_bits_are_outside():
    far = mr.Dataset.from_tensors(np.int64(2**32))
    image = np.zeros([5, 5, 3], np.uint8)
    with pytest.raises(mr.errors.InvalidArgumentError, match="4294967296.* not within axis 0"):
        list(far.map(lambda n: mr.image.crop_to_bounding_box(image, n, 0, 2, 2)))
