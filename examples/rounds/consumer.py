"""One replica of a synchronous training on text: takes batches of the bucket that all have.

    python3 consumer.py --service grpc://localhost:5050 --directory /tmp/corpus --index 0 --of 4
    --steps 500 --coordinated

Without --coordinated it takes whatever batch comes. Prints one JSON object a line; `demo.py` reads
them.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
from typing import Any

import numpy as np

import millrace as mr

BOUNDARIES = [8, 16, 24, 32, 48, 64, 96, 128]  # of the buckets, in words
BATCH = 8


def pipeline(directory: pathlib.Path, replicas: int) -> mr.Dataset:
    """Batches of token ids, 0 behind the end of a line; @replicas in a row are of one bucket."""
    words = (directory / "words.txt").read_text().split()
    table = mr.lookup.StaticVocabularyTable(
        mr.lookup.KeyValueTensorInitializer(words, np.arange(1, len(words) + 1)), num_oov_buckets=1
    )

    def bucket(ids: Any) -> Any:
        return mr.reduce_sum(mr.cast(mr.constant(BOUNDARIES) <= mr.shape(ids)[0], mr.int64))

    ds = mr.TextLineDataset(str(directory / "text.txt")).repeat()
    ds = ds.shuffle(1000).map(
        lambda line: table.lookup(mr.strings.split(line)), num_parallel_calls=mr.AUTOTUNE
    )
    return ds.group_by_window(
        bucket,
        lambda key, lines: lines.padded_batch(BATCH, drop_remainder=True),
        window_size=BATCH * replicas,
    )


def say(event: str, **what: Any) -> None:
    print(json.dumps({"event": event, **what}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--service", required=True)
    parser.add_argument(
        "--directory", required=True, type=pathlib.Path, help="of text.txt and words.txt"
    )
    parser.add_argument("--index", type=int, required=True, help="of this replica")
    parser.add_argument("--of", type=int, required=True, help="how many replicas there are")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument(
        "--step-ms", type=float, default=0, help="how long a step takes besides the reading"
    )
    parser.add_argument("--coordinated", action="store_true")
    args = parser.parse_args()

    ds = pipeline(args.directory, args.of).apply(
        mr.service.distribute(
            "parallel_epochs",
            args.service,
            job_name="coordinated" if args.coordinated else "uncoordinated",
            num_consumers=args.of if args.coordinated else None,
            consumer_index=args.index if args.coordinated else None,
        )
    )
    with iter(ds) as batches:
        for step in range(args.steps):
            ids = next(batches)
            say(
                "step",
                step=step,
                at=time.monotonic(),
                length=ids.shape[1],
                words=int((ids != 0).sum()),
            )
            time.sleep(args.step_ms / 1000)
        say("done")
        sys.stdin.readline()  # the others may still want what is kept until all have it


if __name__ == "__main__":
    main()
