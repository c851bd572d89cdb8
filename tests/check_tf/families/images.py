"""Pixels: sizes, colours, codecs."""

from __future__ import annotations

import random

from calls import Call, cover, of
from values import FLOATS, tensor

_CODED = ("map", "outside")


def image(r: random.Random, dtype: str | None = None, channels: int = 3, batch: bool = True) -> str:
    """The text of an image, or of a batch of them: bytes, or floats from 0 to 1."""
    dims = ((r.randrange(1, 3),) if batch and r.random() < 0.3 else ()) + (
        r.randrange(1, 9),
        r.randrange(1, 9),
        channels,
    )
    dtype = dtype or r.choice(("uint8", "float32", "float32", "float64", "float16"))
    seed = r.randrange(1000)
    text = f"pixels({', '.join(map(str, dims))}, seed={seed})"
    if dtype == "uint8":
        return text
    return f"({text} / 255).astype(np.{dtype})" if dtype in FLOATS else f"{text}.astype(np.{dtype})"


def plain(r: random.Random, name: str, channels: int | None = 3, slack: float = 0) -> Call:
    return of(name, image(r, channels=channels or r.choice((1, 3, 4))), slack=slack)


def colours(r: random.Random, name: str, channels: int = 3) -> Call:
    dtype = r.choice(("float32", "float64", "uint8"))
    return of(name, image(r, dtype, channels if r.random() < 0.9 else 2), slack=2e-6)


def brightness(r: random.Random, name: str, values: tuple[str, ...], rest: str = "") -> Call:
    dtype = r.choice(("uint8", "float32", "float64"))
    slack = 1 if dtype == "uint8" else 1e-5  # of a value that is rounded
    return of(name, image(r, dtype), rest=r.choice(values) + rest, slack=slack)


def jpeg_quality(r: random.Random, name: str) -> Call:
    return of(name, image(r, "uint8", batch=False), rest=str(r.randrange(20, 100)), slack=1)


def crop(r: random.Random, name: str) -> Call:
    sizes = [r.randrange(0, 3), r.randrange(0, 3), r.randrange(1, 6), r.randrange(1, 6)]
    if name.endswith("pad_to_bounding_box"):
        sizes = [r.randrange(0, 4), r.randrange(0, 4), r.randrange(6, 14), r.randrange(6, 14)]
    return of(name, image(r), rest=", ".join(map(str, sizes)))


def central_crop(r: random.Random, name: str) -> Call:
    return of(name, image(r), rest=r.choice(("0.5", "1.0", "0.3", "0.8751", "1.5")))


def converted(r: random.Random, name: str) -> Call:
    one = r.choice(("uint8", "float32", "int16", "uint16", "int32"))
    two = r.choice(("uint8", "float32", "float16", "int16", "uint16", "float64", "int32"))
    return of(name, image(r, one), rest=f"m.{two}" + r.choice(("", ", saturate=True")))


def resized(r: random.Random, name: str) -> Call:
    methods = ("bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian")
    sizes = (r.randrange(1, 14), r.randrange(1, 14))
    dtype = r.choice(("uint8", "float32", "float32", "int32"))
    if name == "image.resize":
        rest = [f"{list(sizes)}"]
        rest += [f"method={r.choice((*methods, 'mitchellcubic'))!r}"] * (r.random() < 0.8)
        rest += ["preserve_aspect_ratio=True"] * (r.random() < 0.2)
        rest += ["antialias=True"] * (r.random() < 0.4)
    else:
        rest = [str(n) for n in sizes]
        if name == "image.resize_with_pad":
            rest += [f"method={r.choice(methods)!r}"] * (r.random() < 0.5)
    return of(
        name, image(r, dtype), rest=", ".join(rest), slack=2e-3 if dtype != "float32" else 1e-5
    )


def coded(r: random.Random, name: str, kinds: tuple[str, ...]) -> Call:
    """Bytes of a file, now and then of another kind, or broken."""
    kind = r.choice(("jpeg", "png", "bmp")) if r.random() < 0.1 else r.choice(kinds)
    size = f"{r.randrange(1, 20)}, {r.randrange(1, 20)}"
    if kind == "bmp":
        data = f"bmp({size}, upside_down={r.random() < 0.3})"
    else:
        extra = ", dtype=np.uint16" if kind == "png" and r.random() < 0.2 else ""
        data = f"{kind}({size}, {r.choice((1, 3, 3) if kind == 'jpeg' else (1, 2, 3, 4))}{extra})"
    if r.random() < 0.1:
        data += f"[:{r.choice((0, 3, 60))}]"
    rest = []
    short = name.split(".")[1]
    if short.startswith("decode"):
        if r.random() < 0.5:
            rest.append(f"channels={r.choice((0, 1, 3, 3, 4))}")
        if short == "decode_png" and r.random() < 0.3:
            rest.append("dtype=m.uint16")
        if short == "decode_jpeg" or short == "decode_image" and kind == "jpeg":
            if short == "decode_jpeg":
                rest.append("dct_method='INTEGER_ACCURATE'")
                rest += [f"ratio={r.choice((1, 2, 4, 8))}"] * (r.random() < 0.3)
    elif short == "extract_jpeg_shape" and r.random() < 0.3:
        rest.append("output_type=m.int64")
    return of(name, data, rest=", ".join(rest), slack=1 if kind == "jpeg" else 0, ways=_CODED)


def cropped_jpeg(r: random.Random, name: str) -> Call:
    h, w = r.randrange(2, 20), r.randrange(2, 20)
    y, x = r.randrange(h), r.randrange(w)
    window = [y, x, r.randrange(1, h - y + 1), r.randrange(1, w - x + 1)]
    rest = f"{window}, channels=3, dct_method='INTEGER_ACCURATE'"
    return of(name, f"jpeg({h}, {w})", rest=rest, slack=3, ways=_CODED)


def encoded_png(r: random.Random, name: str) -> Call:
    """What was written is read again: the bytes are the compressor's."""
    channels = r.choice((1, 2, 3, 4))
    dtype = r.choice(("uint8", "uint16"))
    function = f"lambda a: m.io.decode_png(m.{name}(a), dtype=m.{dtype})"
    return Call(function, (image(r, dtype, channels, batch=False),), ways=_CODED)


def patches(r: random.Random, name: str) -> Call:
    n, s, k = r.randrange(1, 4), r.randrange(1, 4), r.randrange(1, 3)
    rest = f"[1, {n}, {n}, 1], [1, {s}, {s}, 1], [1, {k}, {k}, 1], {r.choice(('VALID', 'SAME'))!r}"
    return of(name, f"pixels(2, 8, 7, 3, seed={r.randrange(9)})", rest=rest)


def batches(r: random.Random, name: str) -> Call:
    size = f"2, {r.randrange(2, 9)}, {r.randrange(2, 9)}, 3"
    return of(name, f"(pixels({size}) / 255).astype(np.float32)", slack=1e-6)


def two(r: random.Random, name: str) -> Call:
    size = r.choice(("16, 17", "12, 11"))
    one, other = (f"pixels(2, {size}, 3, seed={r.randrange(9)})" for _ in "ab")
    return of(name, one, other, rest="255", slack=1e-5)


def boxes(r: random.Random, count: int) -> str:
    values = []
    for _ in range(count):
        y, x = r.random() * 0.7, r.random() * 0.7
        values += [y, x, y + r.random() * 0.5, x + r.random() * 0.5]
    return f"np.array({values}, np.float32).reshape({count}, 4)"


def crop_and_resize(r: random.Random, name: str) -> Call:
    count = r.randrange(1, 4)
    indices = [r.randrange(2) for _ in range(count)]
    pixels = "(pixels(2, 8, 9, 3) / 255).astype(np.float32)"
    rest = f"np.array({indices}, np.int32), [{r.randrange(1, 5)}, 3]"
    rest += r.choice(("", ", method='nearest'", ", extrapolation_value=0.5"))
    return of(name, pixels, boxes(r, count), rest=rest, slack=1e-5, ways=_CODED)


def suppression(r: random.Random, name: str) -> Call:
    count = r.randrange(1, 7)
    rest = f"{r.randrange(1, 6)}" + r.choice(("", ", iou_threshold=0.2", ", score_threshold=0.3"))
    scores = f"np.array({[r.random() for _ in range(count)]}, np.float32)"
    return of(name, boxes(r, count), scores, rest=rest, ways=_CODED)


def drawn(r: random.Random, name: str) -> Call:
    rest = f"{boxes(r, 2)}.reshape(1, 2, 4), [[1.0, 0.0, 0.5]]"
    return of(name, "(pixels(1, 9, 8, 3) / 255).astype(np.float32)", rest=rest, ways=_CODED)


def method(r: random.Random, name: str) -> Call:
    which = "BILINEAR NEAREST_NEIGHBOR BICUBIC AREA LANCZOS3 LANCZOS5 GAUSSIAN MITCHELLCUBIC"
    return Call(f"m.{name}.{r.choice(which.split())}")


cover("image.flip_left_right image.flip_up_down image.transpose image.rot90", plain)
cover("image.per_image_standardization", plain, slack=2e-5)
cover("image.rgb_to_grayscale image.rgb_to_hsv image.rgb_to_yiq image.rgb_to_yuv", colours)
cover("image.hsv_to_rgb image.yiq_to_rgb image.yuv_to_rgb", colours)
cover("image.grayscale_to_rgb", plain, channels=1)
cover("image.adjust_brightness", brightness, ("0.1", "-0.3", "0.9"))
cover("image.adjust_contrast", brightness, ("0.5", "2.0", "0.0"))
cover("image.adjust_gamma", brightness, ("0.5", "2.0", "1.0", "-1.0"))
cover("image.adjust_hue", brightness, ("0.1", "-0.3", "1.0"))
cover("image.adjust_saturation", brightness, ("0.5", "2.0", "0.0"))
cover("image.adjust_jpeg_quality", jpeg_quality)
cover("image.crop_to_bounding_box image.pad_to_bounding_box", crop)
cover("image.central_crop", central_crop)
cover("image.convert_image_dtype", converted)
cover("image.resize image.resize_with_crop_or_pad image.resize_with_pad", resized)
cover("image.ResizeMethod", method)
cover("io.decode_jpeg image.decode_jpeg", coded, ("jpeg",))
cover("io.decode_png image.decode_png", coded, ("png",))
cover("io.decode_bmp image.decode_bmp", coded, ("bmp",))
cover("io.decode_image image.decode_image", coded, ("jpeg", "png", "bmp"))
cover("io.is_jpeg image.is_jpeg", coded, ("jpeg", "png"))
cover("io.extract_jpeg_shape image.extract_jpeg_shape", coded, ("jpeg",))
cover("io.decode_and_crop_jpeg image.decode_and_crop_jpeg", cropped_jpeg)
cover("io.encode_png image.encode_png", encoded_png)
cover("image.extract_patches", patches)
cover("image.image_gradients image.sobel_edges image.total_variation", batches)
cover("image.psnr image.ssim", two)
cover("image.crop_and_resize", crop_and_resize)
cover("image.non_max_suppression", suppression)
cover("image.draw_bounding_boxes", drawn)
