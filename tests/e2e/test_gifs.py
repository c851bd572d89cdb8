"""mr.io.decode_gif and GIFs in the other decoders: frames composed as TensorFlow does."""

import pathlib
import struct

import numpy as np
import pytest

import millrace as mr

CORPUS = pathlib.Path(__file__).parents[1] / "fuzz/corpus/image"
BITS = 3
COLOURS = np.arange(24, dtype=np.uint8).reshape(8, 3) * 10


def compress(pixels):
    """Codes of one width: the table is cleared before they would grow."""
    clear = 1 << BITS
    codes = []
    for i, pixel in enumerate(pixels):
        codes += [clear, pixel] if i % (clear - 2) == 0 else [pixel]
    number = sum(int(c) << (BITS + 1) * i for i, c in enumerate([*codes, clear + 1]))
    data = number.to_bytes(len(codes) * (BITS + 1) // 8 + 2, "little")
    blocks = [data[i : i + 255] for i in range(0, len(data), 255)]
    return bytes([BITS]) + b"".join(bytes([len(b)]) + b for b in blocks) + b"\0"


def frame(pixels, left=0, top=0, transparent=None, interlaced=False, disposal=0):
    pixels = np.asarray(pixels)
    height, width = pixels.shape
    control = b""
    if transparent is not None:
        control = b"\x21\xf9\x04" + bytes([disposal << 2 | 1, 0, 0, transparent, 0])
    rows = [pixels[0::8], pixels[4::8], pixels[2::4], pixels[1::2]] if interlaced else [pixels]
    place = struct.pack("<HHHHB", left, top, width, height, 0x40 * interlaced)
    return control + b"," + place + compress(np.concatenate(rows).ravel())


def gif(*frames, screen=(1, 1), colours=COLOURS):
    flags = 0x80 | (BITS - 1) if colours is not None else 0
    table = colours.tobytes() if colours is not None else b""
    header = b"GIF89a" + struct.pack("<HHBBB", *screen, flags, 0, 0)
    return header + table + b"".join(frames) + b";"


A = (np.arange(48).reshape(6, 8) * 5 // 7) % 8
B = (np.arange(12).reshape(3, 4) * 3) % 8
ANIMATION = gif(frame(A), frame(B, left=6, top=2, transparent=3, disposal=2), frame([[1]]))
STILL = gif(frame(A, interlaced=True))


def composed():
    first = COLOURS[A]
    second = first.copy()
    part = COLOURS[B][:, :2]
    kept = (B == 3)[:, :2, None]
    second[2:5, 6:8] = np.where(kept, second[2:5, 6:8], part)
    third = second.copy()
    third[0, 0] = COLOURS[1]
    return np.stack([first, second, third])


def test_frames_are_put_on_the_frame_before():
    frames = mr.io.decode_gif(ANIMATION)
    assert frames.dtype == np.uint8
    np.testing.assert_array_equal(frames, composed())
    np.testing.assert_array_equal(mr.image.decode_gif(STILL), COLOURS[A][None])


def test_a_small_first_frame_is_on_black():
    frames = mr.io.decode_gif(gif(frame([[5]], left=1, transparent=2), frame(A)))
    assert frames.shape == (2, 6, 8, 3)
    assert (frames[0, 0, 1] == COLOURS[5]).all() and frames[0].sum() == COLOURS[5].sum()


def test_decode_image():
    np.testing.assert_array_equal(mr.io.decode_image(ANIMATION), composed())
    first = mr.io.decode_image(ANIMATION, expand_animations=False)
    np.testing.assert_array_equal(first, composed()[0])
    floats = mr.io.decode_image(ANIMATION, channels=3, dtype=mr.float32)
    np.testing.assert_allclose(floats, composed() / np.float32(255), rtol=1e-6)
    wide = mr.io.decode_image(STILL, dtype=mr.uint16)
    np.testing.assert_array_equal(wide, composed()[:1].astype(np.uint16) * 256)
    for expand in (False, True):
        with pytest.raises(mr.errors.InvalidArgumentError, match="0 or 3|0, 3"):
            mr.io.decode_image(ANIMATION, channels=1, expand_animations=expand)


@pytest.mark.parametrize("decode", [mr.io.decode_png, mr.io.decode_jpeg])
def test_other_decoders_take_one_frame(decode):
    np.testing.assert_array_equal(decode(STILL), COLOURS[A])
    with pytest.raises(mr.errors.InvalidArgumentError, match=r"frames \(3\): use decode_gif"):
        decode(ANIMATION)


def test_decode_gif_takes_other_images():
    png = mr.io.encode_png(COLOURS[A])
    np.testing.assert_array_equal(mr.io.decode_gif(png), COLOURS[A][None])
    with pytest.raises(mr.errors.InvalidArgumentError, match="the image is BMP, not GIF"):
        mr.io.decode_gif((CORPUS / "24.bmp").read_bytes())
    for decode in (mr.io.decode_bmp, lambda x: mr.io.decode_and_crop_jpeg(x, [0, 0, 1, 1])):
        with pytest.raises(mr.errors.InvalidArgumentError, match="the image is GIF, not"):
            decode(STILL)


def test_in_a_pipeline():
    ds = mr.Dataset.from_tensors(ANIMATION).map(mr.io.decode_gif)
    assert ds.element_spec == mr.TensorSpec([None, None, None, 3], mr.uint8)
    np.testing.assert_array_equal(next(iter(ds)), composed())
    first = mr.Dataset.from_tensors(ANIMATION).map(
        lambda x: mr.image.random_crop(mr.io.decode_image(x, expand_animations=False), [6, 8, 3])
    )
    np.testing.assert_array_equal(next(iter(first)), composed()[0])
    both = mr.Dataset.from_tensors(ANIMATION).map(mr.io.decode_image)
    with pytest.raises(mr.errors.InvalidArgumentError, match="expand_animations=False"):
        next(iter(both))


def test_what_ends_early_is_its_whole_frames():
    whole = composed()
    third = len(frame([[1]])) + 1
    for missing, frames in ((1, 3), (2, 2), (third - 1, 2), (third, 2), (third + 1, 1)):
        np.testing.assert_array_equal(mr.io.decode_gif(ANIMATION[:-missing]), whole[:frames])
    np.testing.assert_array_equal(mr.io.decode_gif(ANIMATION[:-1] + b"more"), whole)


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "the image is empty"),
        (b"GIF89a", "GIF: the header"),
        (ANIMATION[:60], "there is no whole frame"),
        (gif(), "there is no whole frame"),
        (gif(frame(A), colours=None), "without a map of colours"),
        (gif(frame(A), colours=COLOURS[:4]), "GIF"),
    ],
)
def test_damage(data, message):
    with pytest.raises(mr.errors.InvalidArgumentError, match=message):
        mr.io.decode_gif(data)


def test_frames_that_need_too_much_memory_are_refused():
    place = struct.pack("<HHHHB", 0, 0, 60000, 60000, 0)
    bomb = gif(b"," + place + compress([1]))
    with pytest.raises(mr.errors.InvalidArgumentError, match="more than an element may hold"):
        mr.io.decode_gif(bomb)
    large = b"," + struct.pack("<HHHHB", 0, 0, 4000, 4000, 0) + compress([1])
    with pytest.raises(mr.errors.InvalidArgumentError, match="more than an element may hold"):
        mr.io.decode_gif(gif(*[large] * 23))
