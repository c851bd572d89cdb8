"""The digits of digits.csv.gz, and TFRecord files of them."""

import gzip
import pathlib

import numpy as np

import millrace as mr

HERE = pathlib.Path(__file__).resolve().parent


def load_digits():
    """1,797 images of 8 x 8 pixels in 0..16, and their labels."""
    with gzip.open(HERE / "digits.csv.gz", "rt") as f:
        table = np.loadtxt(f, delimiter=",", dtype=np.int64)
    return table[:, :-1], table[:, -1]


def write_shards(directory, images, labels, ids, shards):
    """TFRecord files of tf.Example, the images dealt out in turn."""
    for shard in range(shards):
        with mr.io.TFRecordWriter(directory / f"digits-{shard:03d}-of-{shards:03d}.tfrecord") as writer:
            for i in range(shard, len(ids), shards):
                writer.write(mr.train.Example(features=mr.train.Features(feature={
                    "id": mr.train.Feature(int64_list=mr.train.Int64List(value=[int(ids[i])])),
                    "image": mr.train.Feature(int64_list=mr.train.Int64List(value=images[i].tolist())),
                    "label": mr.train.Feature(int64_list=mr.train.Int64List(value=[int(labels[i])])),
                })).SerializeToString())
