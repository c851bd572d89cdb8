"""What the texts of calls and pipelines may name besides the packages: files and images that are made here."""

from __future__ import annotations

import functools
import os
import pathlib
import tempfile
from typing import Any, Callable

import numpy as np
import tensorflow as tf

_directory = tempfile.TemporaryDirectory(prefix="check_tf-")


def _path(name: str) -> str:
    return os.path.join(_directory.name, name)


@functools.cache
def lines(*texts: str) -> str:
    """The name of a file of these lines."""
    path = _path(f"lines-{abs(hash(texts))}")
    pathlib.Path(path).write_text("".join(text + "\n" for text in texts))
    return path


@functools.cache
def content(data: bytes) -> str:
    """The name of a file that holds @data."""
    path = _path(f"content-{abs(hash(data))}")
    pathlib.Path(path).write_bytes(data)
    return path


@functools.cache
def records(*contents: bytes, compression: str = "") -> str:
    """The name of a TFRecord file of these records."""
    path = _path(f"records-{abs(hash(contents))}{compression}")
    with tf.io.TFRecordWriter(path, compression or None) as writer:
        for record in contents:
            writer.write(record)
    return path


@functools.cache
def pixels(*shape: int, seed: int = 0) -> np.ndarray:
    """A smooth image of bytes, with some noise."""
    r = np.random.default_rng(seed)
    small = r.integers(0, 256, (3, 3, shape[-1])).astype(np.float32)
    image = tf.image.resize(small, shape[-3:-1]).numpy() + r.normal(0, 8, shape)
    return np.clip(image, 0, 255).astype(np.uint8)


@functools.cache
def jpeg(height: int, width: int, channels: int = 3, seed: int = 0, **options: Any) -> bytes:
    return tf.io.encode_jpeg(pixels(height, width, channels, seed=seed), **options).numpy()


@functools.cache
def png(height: int, width: int, channels: int = 3, seed: int = 0, dtype: Any = np.uint8) -> bytes:
    image = pixels(height, width, channels, seed=seed).astype(dtype)
    return tf.io.encode_png(image * (257 if dtype == np.uint16 else 1)).numpy()


@functools.cache
def bmp(height: int, width: int, seed: int = 0, upside_down: bool = False) -> bytes:
    """A file of 24 bits a pixel."""
    image = pixels(height, width, 3, seed=seed)[:: 1 if upside_down else -1, :, ::-1]
    rows = np.zeros((height, -(-width * 3 // 4) * 4), np.uint8)
    rows[:, : width * 3] = image.reshape(height, -1)
    number = lambda value, size=4: int(value).to_bytes(
        size, "little", signed=value < 0
    )  # noqa: E731
    head = b"BM" + number(54 + rows.size) + number(0) + number(54)
    info = number(40) + number(width) + number(-height if upside_down else height)
    info += number(1, 2) + number(24, 2) + number(0) + number(rows.size) + number(0) * 4
    return head + info + rows.tobytes()


def _feature(values: list[Any]) -> tf.train.Feature:
    if values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**features: list[Any]) -> bytes:
    """A serialized tf.Example."""
    table = {name: _feature(values) for name, values in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=table)).SerializeToString()


def sequence(context: dict[str, list[Any]], lists: dict[str, list[list[Any]]]) -> bytes:
    """A serialized tf.SequenceExample."""
    table = {
        name: tf.train.FeatureList(feature=[_feature(values) for values in steps])
        for name, steps in lists.items()
    }
    return tf.train.SequenceExample(
        context=tf.train.Features(feature={n: _feature(v) for n, v in context.items()}),
        feature_lists=tf.train.FeatureLists(feature_list=table),
    ).SerializeToString()


def strings(*values: bytes, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """An array of bytes of any length, also with zeros at the end."""
    array = np.empty(len(values), object)
    array[:] = values
    return array.reshape(shape or (len(values),)) if shape != () else array.reshape(())


NAMES: dict[str, Callable[..., Any] | float] = {
    "nan": np.nan,
    "inf": np.inf,
    **{
        f.__name__: f
        for f in (lines, content, records, pixels, jpeg, png, bmp, example, sequence, strings)
    },
}
