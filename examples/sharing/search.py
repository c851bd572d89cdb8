"""One trainer of a search over learning rates: softmax regression over costly images.

    python3 search.py --service grpc://localhost:5050 --shards '/tmp/digits/*.tfrecord' \\
        --test /tmp/test.npz --rate 0.1 --share

With --share all trainers of the job get their images from one production, without it each from its
own. Prints one JSON object a line: what it does and how it goes. `demo.py` reads them.
"""

from __future__ import annotations

import argparse
import glob
import json
import sys
import time
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

import millrace as mr

Array = npt.NDArray[Any]

CLASSES = 10
SMALL, LARGE = 8, 48  # pixels a side: of the files, of what we train on
SMOOTHING = 4  # rounds; this is what makes an image cost milliseconds

FEATURES = {
    "id": mr.io.FixedLenFeature([], mr.int64),
    "image": mr.io.FixedLenFeature([SMALL * SMALL], mr.int64),
    "label": mr.io.FixedLenFeature([], mr.int64),
}


def stretching() -> Array:
    """The matrix that makes LARGE pixels of SMALL ones, linearly."""
    at = np.linspace(0, SMALL - 1, LARGE)
    weight = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(SMALL)[None, :]))
    return weight.astype(np.float32)


def blurring() -> Array:
    """The matrix that makes each pixel a mean of those around it."""
    distance = np.arange(LARGE)[:, None] - np.arange(LARGE)[None, :]
    weight = np.exp(-0.5 * distance**2)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True), np.float32)


STRETCH, BLUR = stretching(), blurring()


def enlarge(image: Any) -> Any:
    return mr.matmul(mr.matmul(STRETCH, image), STRETCH.T.copy())


def move(image: Any, dy: Any, dx: Any) -> Any:
    """By some pixels; the border is repeated."""
    line = mr.range(LARGE)
    image = mr.gather(image, mr.clip_by_value(line + dy, 0, LARGE - 1), axis=0)
    return mr.gather(image, mr.clip_by_value(line + dx, 0, LARGE - 1), axis=1)


def example(record: Any, epoch: Any) -> dict[str, Any]:
    """What the workers make of a record: another picture of the digit in each epoch."""
    parsed = mr.io.parse_single_example(record, FEATURES)
    image = enlarge(mr.reshape(mr.cast(parsed["image"], mr.float32) / 16.0, [SMALL, SMALL]))
    dy, dx = (
        mr.cast((parsed["id"] * a + epoch * b) % 7 - 3, mr.int32) for a, b in ((7, 3), (5, 2))
    )
    image = move(image, dy, dx)
    for _ in range(SMOOTHING):
        image = mr.matmul(BLUR, mr.matmul(image, BLUR))
    return {"id": parsed["id"] + epoch * 100_000, "image": image, "label": parsed["label"]}


def pipeline(shards: str, epochs: int) -> mr.Dataset:
    """
    Equal in all trainers: that is what makes them share. No seed is needed: the order is the
    production's.
    """
    files = sorted(glob.glob(shards))
    pairs = mr.Dataset.from_tensor_slices(
        (np.array(files * epochs, object), np.repeat(np.arange(epochs), len(files)))
    )
    return pairs.interleave(
        lambda file, epoch: mr.TFRecordDataset(file).map(lambda record: example(record, epoch)),
        cycle_length=4,
    ).shuffle(256)


class Softmax:
    """Multinomial logistic regression, trained by plain gradient steps."""

    def __init__(self, rate: float) -> None:
        self.weights = np.zeros((LARGE * LARGE, CLASSES), np.float32)
        self.rate = rate

    def probabilities(self, images: Array) -> Array:
        logits = images.reshape(len(images), -1) @ self.weights
        e = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def step(self, images: Array, labels: Array) -> None:
        p = self.probabilities(images)
        p[np.arange(len(labels)), labels] -= 1
        self.weights -= self.rate / len(labels) * (images.reshape(len(images), -1).T @ p)

    def accuracy(self, images: Array, labels: Array) -> float:
        return float((self.probabilities(images).argmax(axis=1) == labels).mean())


def test_images(path: str) -> tuple[Array, Array]:
    """The images of the test, enlarged and smoothed as those of the training are, but not moved."""
    with np.load(path) as test:
        images: Array = STRETCH @ test["images"].reshape(-1, SMALL, SMALL) @ STRETCH.T
        labels: Array = test["labels"]
    for _ in range(SMOOTHING):
        images = BLUR @ (images @ BLUR)
    return images, labels


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--service", required=True, help="grpc://host:port,... of the dispatchers")
    parser.add_argument("--shards", required=True, help="pattern of the TFRecord files")
    parser.add_argument("--test", required=True, help=".npz with images and labels to test with")
    parser.add_argument("--name", default="A", help="of this trainer")
    parser.add_argument("--rate", type=float, default=0.1, help="its learning rate")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--share", action="store_true", help="one production for all trainers")
    parser.add_argument(
        "--lines",
        choices=("start", "steps"),
        help="wait for a line on standard input before the start, or before the "
        "start and each step; the end of the input is as good as all of them",
    )
    args = parser.parse_args()

    name, cache = f"alone-{args.name}", None
    if args.share:
        name, cache = "search", mr.service.CrossTrainerCache(f"trainer-{args.name}")
    ds = (
        pipeline(args.shards, args.epochs)
        .apply(
            mr.service.distribute(
                "distributed_epoch", args.service, job_name=name, cross_trainer_cache=cache
            )
        )
        .batch(32)
    )
    warnings.simplefilter("ignore", mr.DataLossWarning)  # what was missed is said at the end
    images, labels = test_images(args.test)
    model = Softmax(args.rate)

    say(event="ready")
    if args.lines:
        sys.stdin.readline()
    ids: list[int] = []
    told = 0.0
    with iter(ds) as batches:
        for batch in batches:
            if args.lines == "steps":
                sys.stdin.readline()
            model.step(batch["image"], batch["label"])
            ids += batch["id"].tolist()
            if time.monotonic() - told > 0.05:
                told = time.monotonic()
                say(event="step", images=len(ids), skipped=batches.skipped)
        say(event="done", ids=ids, skipped=batches.skipped, accuracy=model.accuracy(images, labels))


if __name__ == "__main__":
    main()
