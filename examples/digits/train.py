"""One trainer of the digits demo: softmax regression, fed by a job that it shares with the others.

    python3 train.py --service grpc://localhost:5050 --shards '/tmp/digits/*.tfrecord' --test
    /tmp/test.npz --name A

Prints one JSON object a line: what it does and how it goes. `demo.py` reads them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np
import numpy.typing as npt

import millrace as mr

CLASSES = 10
PIXELS = 64


def pipeline(shards: str) -> mr.Dataset:
    """What the workers run: files, records, parsing, scaling, shuffling, batches."""
    features = {
        "id": mr.io.FixedLenFeature([], mr.int64),
        "image": mr.io.FixedLenFeature([PIXELS], mr.int64),
        "label": mr.io.FixedLenFeature([], mr.int64),
    }

    def scale(example: dict[str, Any]) -> dict[str, Any]:
        # The same names and types as in the file, but for the image: 0..16 becomes 0..1.
        image = mr.cast(example["image"], mr.float32) / 16.0
        return {"id": example["id"], "image": image, "label": example["label"]}

    # The order of the files is fixed, so that every trainer builds the same dataset: a job is of
    # one dataset.
    ds = mr.Dataset.list_files(shards, shuffle=False)
    ds = ds.interleave(lambda file: mr.TFRecordDataset(file), cycle_length=2)
    ds = ds.map(lambda record: mr.io.parse_single_example(record, features))
    return ds.map(scale).shuffle(32).batch(8)


class Softmax:
    """Multinomial logistic regression, trained by plain gradient steps."""

    def __init__(self, rate: float = 0.2) -> None:
        self.weights = np.zeros((PIXELS, CLASSES), np.float32)
        self.bias = np.zeros(CLASSES, np.float32)
        self.rate = rate

    def _probabilities(self, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        logits = images @ self.weights + self.bias
        e: npt.NDArray[Any] = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def step(self, images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
        """One gradient step; the loss before it."""
        p = self._probabilities(images)
        rows = np.arange(len(labels))
        loss = -np.log(np.maximum(p[rows, labels], 1e-9)).mean()
        p[rows, labels] -= 1
        p /= len(labels)
        self.weights -= self.rate * (images.T @ p)
        self.bias -= self.rate * p.sum(axis=0)
        return float(loss)

    def accuracy(self, images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
        return float((self._probabilities(images).argmax(axis=1) == labels).mean())


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--service", required=True, help="grpc://host:port,... of the dispatchers")
    parser.add_argument("--shards", required=True, help="pattern of the TFRecord files")
    parser.add_argument("--test", required=True, help=".npz with images and labels to test with")
    parser.add_argument("--name", default="A", help="of this trainer, for its messages")
    parser.add_argument("--job", default="digits")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument(
        "--step-ms",
        type=float,
        default=20,
        help="a step of a model worth a GPU takes longer than ours: pretend that "
        "each takes so long",
    )
    parser.add_argument(
        "--wait", action="store_true", help="begin when a line comes on standard input"
    )
    args = parser.parse_args()

    ds = pipeline(args.shards).apply(
        mr.service.distribute(
            processing_mode="distributed_epoch",
            service=args.service,
            job_name=args.job,
            # Small, because the epochs are: a long queue here would be the other's share.
            max_outstanding_requests=4,
        )
    )
    with np.load(args.test) as test:
        test_images, test_labels = test["images"], test["labels"]

    say(trainer=args.name, event="ready")
    if args.wait:
        sys.stdin.readline()
    model = Softmax()
    for epoch in range(args.epochs):
        visited: list[int] = []
        losses: list[float] = []
        for batch in ds.as_numpy_iterator():
            losses.append(model.step(batch["image"], batch["label"]))
            visited += batch["id"].tolist()
            say(
                trainer=args.name,
                event="step",
                epoch=epoch,
                images=len(visited),
                batch=len(batch["id"]),
                loss=float(np.mean(losses[-20:])),
            )
            time.sleep(args.step_ms / 1000)
        say(
            trainer=args.name,
            event="epoch",
            epoch=epoch,
            ids=visited,
            loss=float(np.mean(losses)) if losses else None,
            accuracy=model.accuracy(test_images, test_labels),
        )
    say(trainer=args.name, event="done", accuracy=model.accuracy(test_images, test_labels))


if __name__ == "__main__":
    main()
