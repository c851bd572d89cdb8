"""The digits of digits.csv.gz, and TFRecord files of them."""

from __future__ import annotations

import gzip
import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt

import millrace as mr

HERE = pathlib.Path(__file__).resolve().parent


def load_digits() -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """1,797 images of 8 x 8 pixels in 0..16, and their labels."""
    with gzip.open(HERE / "digits.csv.gz", "rt") as f:
        table: npt.NDArray[Any] = np.loadtxt(f, delimiter=",", dtype=np.int64)
    return table[:, :-1], table[:, -1]


def feature(values: Any) -> mr.train.Feature:
    return mr.train.Feature(int64_list=mr.train.Int64List(value=values))


def write_shards(
    directory: pathlib.Path,
    images: npt.NDArray[Any],
    labels: npt.NDArray[Any],
    ids: npt.NDArray[Any],
    shards: int,
) -> None:
    """TFRecord files of tf.Example, the images dealt out in turn."""
    for shard in range(shards):
        with mr.io.TFRecordWriter(
            directory / f"digits-{shard:03d}-of-{shards:03d}.tfrecord"
        ) as writer:
            for i in range(shard, len(ids), shards):
                features = mr.train.Features(
                    feature={
                        "id": feature([ids[i]]),
                        "image": feature(images[i]),
                        "label": feature([labels[i]]),
                    }
                )
                writer.write(mr.train.Example(features=features).SerializeToString())
