"""mr.io.decode_* and encode_*: pixels, sizes, and what is said of bytes that are no image."""

import pathlib

import numpy as np
import pytest

import millrace as mr

IMAGES = pathlib.Path(__file__).parents[1] / "fuzz/corpus/image"
HEIGHT, WIDTH = 23, 37
Y, X = np.mgrid[0:HEIGHT, 0:WIDTH]
# What the files show.
RED, GREEN, BLUE = X * 6, Y * 10, (X + Y) * 4
ALPHA = 255 - X * 5
RGB = np.stack([RED, GREEN, BLUE], -1)
PIXELS = RGB.astype(np.uint8)
PALETTE = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [9, 8, 7]], np.uint8)


def grey(rgb):
    return (9797 * rgb[..., 0] + 19234 * rgb[..., 1] + 3737 * rgb[..., 2]) >> 15


def load(name):
    return (IMAGES / name).read_bytes()


@pytest.mark.parametrize(
    "name, expected",
    [
        ("rgb8.png", RGB),
        ("interlaced.png", RGB),
        ("grey8.png", RED[..., None]),
        ("grey1.png", (RED >> 7)[..., None] * 255),
        ("grey16.png", (RED * 257 + X)[..., None] >> 8),
        ("rgb16.png", (RGB * 257 + X[..., None]) >> 8),
        ("grey-alpha8.png", np.stack([RED, ALPHA], -1)),
        ("rgba8.png", np.dstack([RGB, ALPHA])),
        ("palette.png", PALETTE[(X + Y) % 4]),
        ("palette2.png", PALETTE[(X + Y) % 4]),
        (
            "palette-transparent.png",
            np.dstack([PALETTE[(X + Y) % 4], np.array([0, 128, 255, 255])[(X + Y) % 4]]),
        ),
        ("lossless.webp", RGB),
        ("alpha.webp", np.dstack([RGB, ALPHA | 1])),
        ("8.bmp", RED[..., None]),
        ("24.bmp", RGB),
        ("32.bmp", np.dstack([RGB, ALPHA])),
    ],
)
def test_formats_without_loss(name, expected):
    image = mr.io.decode_image(load(name))
    assert image.dtype == np.uint8 and image.shape == expected.shape
    assert (image == expected).all()


@pytest.mark.parametrize(
    "name", ["baseline.jpg", "progressive.jpg", "full-colour.jpg", "lossy.webp"]
)
def test_formats_with_loss(name):
    image = mr.io.decode_image(load(name))
    assert image.shape == RGB.shape
    assert np.abs(image.astype(int) - RGB).mean() < 12


def test_grey_and_inks():
    image = mr.io.decode_jpeg(load("grey.jpg"))
    assert image.shape == (HEIGHT, WIDTH, 1) and np.abs(image[..., 0] - RED).mean() < 3
    # Ink is what the file shows as Adobe writes it: light times light.
    light = np.stack([RED, GREEN, BLUE], -1) * (255 - 5 * X)[..., None] // 255
    for name in ("cmyk.jpg", "ycck.jpg"):
        image = mr.io.decode_jpeg(load(name))
        assert image.shape == RGB.shape and np.abs(image.astype(int) - light).mean() < 8


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_channels_of_png(channels):
    image = mr.io.decode_png(load("rgba8.png"), channels=channels)
    parts = {1: [grey(RGB)], 2: [grey(RGB), ALPHA], 3: [RGB], 4: [RGB, ALPHA]}[channels]
    assert (image == np.dstack(parts)).all()
    opaque = mr.io.decode_png(load("rgb8.png"), channels=channels)
    assert channels in (1, 3) or (opaque[..., -1] == 255).all()


def test_channels_of_jpeg():
    contents = load("baseline.jpg")
    grey_image = mr.io.decode_jpeg(contents, channels=1)
    assert grey_image.shape == (HEIGHT, WIDTH, 1)
    wide = mr.io.decode_jpeg(load("grey.jpg"), channels=3)
    assert (wide == mr.io.decode_jpeg(load("grey.jpg"))).all() and wide.shape == RGB.shape
    for channels in (2, 4):
        with pytest.raises(mr.errors.InvalidArgumentError, match="JPEG: channels is"):
            mr.io.decode_jpeg(contents, channels=channels)


def test_wide_values():
    eight, sixteen = load("rgb8.png"), load("rgb16.png")
    assert (mr.io.decode_png(eight, dtype=mr.uint16) == RGB * 257).all()
    exact = RGB * 257 + X[..., None]
    assert (mr.io.decode_png(sixteen, dtype=mr.uint16) == exact).all()
    floats = mr.io.decode_image(sixteen, dtype=mr.float32)
    assert np.abs(floats - exact / 65535).max() < 1e-6
    jpeg = mr.io.decode_jpeg(load("baseline.jpg"))
    assert (
        mr.io.decode_image(load("baseline.jpg"), dtype=mr.uint16) == jpeg * np.uint16(256)
    ).all()
    floats = mr.io.decode_image(load("baseline.jpg"), dtype=mr.float32)
    assert np.abs(floats - jpeg / 255).max() < 1e-6


def test_colours_of_png_become_the_grey_that_libpng_computes():
    """Whose factors are cut off, not rounded: these are at the border."""
    colours = np.array([[[31, 102, 218], [169, 181, 2], [117, 175, 178], [59, 21, 88]]], np.uint8)
    image = mr.io.decode_png(mr.io.encode_png(colours), channels=1)
    assert np.asarray(image)[0, :, 0].tolist() == [94, 156, 158, 40]


@pytest.mark.parametrize("name", ["baseline.jpg", "progressive.jpg", "full-colour.jpg", "ycck.jpg"])
def test_a_part_has_the_pixels_of_the_whole(name):
    contents = load(name)
    random = np.random.RandomState(5)
    for ratio in (1, 2, 4):
        for fancy in (True, False):
            options = {"ratio": ratio, "fancy_upscaling": fancy}
            whole = mr.io.decode_jpeg(contents, **options)
            height, width = whole.shape[:2]
            for _ in range(20):
                y, x = random.randint(height), random.randint(width)
                h, w = random.randint(1, height - y + 1), random.randint(1, width - x + 1)
                part = mr.io.decode_and_crop_jpeg(contents, [y, x, h, w], **options)
                assert (part == whole[y : y + h, x : x + w]).all(), (ratio, fancy, y, x, h, w)


def test_scales():
    for ratio in (2, 4, 8):
        image = mr.io.decode_jpeg(load("baseline.jpg"), ratio=ratio)
        assert image.shape == (-(-HEIGHT // ratio), -(-WIDTH // ratio), 3)
    with pytest.raises(mr.errors.InvalidArgumentError, match="ratio is 3"):
        mr.io.decode_jpeg(load("baseline.jpg"), ratio=3)


def test_sizes_without_decoding():
    assert mr.io.extract_jpeg_shape(load("baseline.jpg")).tolist() == [HEIGHT, WIDTH, 3]
    assert mr.io.extract_jpeg_shape(load("grey.jpg"), mr.int64).dtype == np.int64
    assert bool(mr.io.is_jpeg(load("baseline.jpg"))) and not bool(mr.io.is_jpeg(load("rgb8.png")))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_round_trip(dtype, channels):
    image = np.random.RandomState(1).randint(0, np.iinfo(dtype).max, (5, 7, channels)).astype(dtype)
    for compression in (-1, 0, 9):
        contents = mr.io.encode_png(image, compression)
        assert (mr.io.decode_png(contents, dtype=dtype) == image).all()


def test_jpeg_round_trip():
    smooth = mr.io.encode_jpeg(PIXELS, quality=100, chroma_downsampling=False)
    assert np.abs(mr.io.decode_jpeg(smooth, dct_method="INTEGER_ACCURATE") - RGB).max() < 8
    assert len(mr.io.encode_jpeg(PIXELS, quality=10)) < len(smooth)
    assert mr.io.encode_jpeg(PIXELS, progressive=True) != mr.io.encode_jpeg(PIXELS)


def test_specs():
    spec = mr.TensorSpec([], mr.string)
    ds = mr.Dataset.from_tensor_slices([load("rgb8.png")])
    assert ds.element_spec == spec
    assert ds.map(mr.io.decode_png).element_spec == mr.TensorSpec([None, None, None], mr.uint8)
    three = ds.map(lambda x: mr.io.decode_png(x, 3, mr.uint16))
    assert three.element_spec == mr.TensorSpec([None, None, 3], mr.uint16)


def test_batches_of_unequal_images_and_parallel_decoding():
    names = sorted(p.name for p in IMAGES.glob("*.png"))
    ds = mr.Dataset.from_tensor_slices([str(IMAGES / n) for n in names]).repeat(5)
    decoded = ds.map(lambda p: mr.io.decode_png(mr.io.read_file(p), 3), num_parallel_calls=4)
    batch = next(iter(decoded.batch(5 * len(names))))
    assert batch.shape == (5 * len(names), HEIGHT, WIDTH, 3)
    assert (batch[names.index("rgb8.png")] == RGB).all()


def test_damaged_images():
    contents = load("baseline.jpg")
    cases = [
        (b"", "the image is empty: 0 bytes"),
        (b"<html>404", "9 bytes that begin with '<html>404' are no image"),
        (contents[:-60], r"the data ends early, at line \d+ of 23"),
        (contents[:30], "JPEG: "),
        (load("rgb8.png")[:60], "PNG: "),
        (load("24.bmp")[:99], "BMP: 99 bytes, which is less than 37 x 23 pixels take"),
        (load("lossless.webp")[:40], "WebP: "),
    ]
    for data, text in cases:
        with pytest.raises(mr.errors.InvalidArgumentError, match=text):
            mr.io.decode_image(data)
    cut = mr.io.decode_jpeg(contents[:-60], try_recover_truncated=True)
    assert cut.shape == RGB.shape and (cut[:8] == mr.io.decode_jpeg(contents)[:8]).all()
    with pytest.raises(mr.errors.InvalidArgumentError, match="the image is PNG, not BMP"):
        mr.io.decode_bmp(load("rgb8.png"))
    for window in ([0, 0, 24, 1], [-1, 0, 2, 2], [0, 30, 1, 8], [0, 0, 0, 1]):
        with pytest.raises(
            mr.errors.InvalidArgumentError, match="is not within the image of 23 x 37"
        ):
            mr.io.decode_and_crop_jpeg(contents, window)


def test_a_header_that_asks_for_too_much_takes_no_memory():
    png = bytearray(load("rgb8.png"))
    png[16:24] = (60_000).to_bytes(4, "big") * 2
    import zlib

    png[29:33] = zlib.crc32(bytes(png[12:29])).to_bytes(4, "big")
    with pytest.raises(mr.errors.InvalidArgumentError, match="60000 x 60000 pixels is more than"):
        mr.io.decode_png(bytes(png))
    jpeg = bytearray(load("baseline.jpg"))
    at = jpeg.index(b"\xff\xc0") + 5
    jpeg[at : at + 4] = (65_000).to_bytes(2, "big") * 2
    with pytest.raises(mr.errors.InvalidArgumentError, match="65000 x 65000 pixels is more than"):
        mr.io.decode_jpeg(bytes(jpeg))


def test_files(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"\0abc")
    assert mr.io.read_file(str(path)) == b"\0abc"
    (tmp_path / "empty").write_bytes(b"")
    assert mr.io.read_file(str(tmp_path / "empty")) == b""
    with pytest.raises(mr.errors.NotFoundError, match="file 'no/such': No such file"):
        mr.io.read_file("no/such")
    with pytest.raises(mr.errors.InvalidArgumentError, match="Is a directory"):
        mr.io.read_file(str(tmp_path))
    with pytest.raises(mr.errors.InvalidArgumentError, match="zero byte"):
        mr.io.read_file(b"a\0b")
    ds = mr.Dataset.from_tensor_slices([str(path), "no/such", str(path)]).map(mr.io.read_file)
    assert list(ds.ignore_errors()) == [b"\0abc"] * 2


def test_errors_name_the_file_that_the_function_read(tmp_path):
    (tmp_path / "a.jpg").write_bytes(mr.io.encode_jpeg(np.zeros([20, 30, 3], np.uint8)))
    (tmp_path / "b.jpg").write_bytes(b"<html>")
    (tmp_path / "c.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:-200])
    names = mr.Dataset.from_tensor_slices(["a.jpg", "b.jpg", "c.jpg"])
    paths = names.map(lambda name: mr.strings.join([str(tmp_path), "/", name]))

    def crop(path):
        return mr.image.random_crop(mr.io.decode_jpeg(mr.io.read_file(path)), [10, 10, 3])

    def shape(path):
        return mr.io.extract_jpeg_shape(mr.io.read_file(path))

    for ds, failed in [
        (paths.map(crop), "bc"),
        (paths.map(crop, num_parallel_calls=2), "bc"),
        (paths.map(mr.io.read_file).map(mr.io.decode_jpeg), "bc"),
        (paths.map(lambda path: (path, mr.io.decode_jpeg(mr.io.read_file(path)))), "bc"),
        (paths.map(shape), "b"),
    ]:
        it = iter(ds)
        next(it)
        for name in failed:
            with pytest.raises(mr.errors.InvalidArgumentError, match=rf"file '.*/{name}\.jpg': "):
                next(it)
    # Of two files, the one that the value was made of.
    two = mr.Dataset.from_tensors((str(tmp_path / "a.jpg"), str(tmp_path / "b.jpg"))).map(
        lambda x, y: (mr.io.decode_jpeg(mr.io.read_file(y)), mr.io.read_file(x))
    )
    with pytest.raises(mr.errors.InvalidArgumentError, match=r"file '.*/b\.jpg': "):
        next(iter(two))
    long = tmp_path / ("x" * 200)
    long.write_bytes(b"")
    with pytest.raises(mr.errors.InvalidArgumentError, match=r"file '\.\.\.x+': .* is empty"):
        next(iter(mr.Dataset.from_tensors(str(long)).map(shape)))
    with pytest.raises(mr.errors.NotFoundError, match="read_file.*: file '/no': No such file"):
        next(iter(mr.Dataset.from_tensors("/no").map(shape)))


@pytest.mark.parametrize("image", [RGB.astype(np.uint8), np.zeros((1, 2, 2), np.uint8)])
def test_a_png_that_was_cut_off(image):
    """Also where all pixels are there."""
    contents = mr.io.encode_png(image)
    assert mr.io.decode_png(contents + b"behind the end").shape == image.shape
    for cut in range(1, 30):
        with pytest.raises(mr.errors.InvalidArgumentError, match="PNG: "):
            mr.io.decode_png(contents[:-cut])
