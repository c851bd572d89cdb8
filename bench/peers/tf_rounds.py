"""
The rates of bench/rounds.py on tf.data service: its coordinated reads, beside readers of an
ordinary job.

    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install tensorflow-cpu
    /tmp/peers/bin/python bench/peers/tf_rounds.py [--rounds 5] [--consumers 1,4,16]

The same shape of work: one dispatcher and one worker in processes of their own, consumers in
threads of one process, each of which takes so many elements. Ratios are taken within a round, here
as there. tf.data service coordinates endless datasets only.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
SIZES = {
    "int64": (0, {"coordinated": 3000, "ordinary": 6000}),
    "1 MiB": (1 << 20, {"coordinated": 200, "ordinary": 200}),
}


def import_tensorflow():
    try:
        import tensorflow as tf
    except ImportError as e:
        sys.exit(
            f"tf_rounds: not measured: {e} (pip install tensorflow-cpu, in a virtual environment)"
        )
    return tf


class Server:
    """This file in another role, which says where it is and then serves until its input ends."""

    def __init__(self, *role):
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--role", *role],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.target = json.loads(
            self._process.stdout.readline() or sys.exit("tf_rounds: a server died")
        )

    def end(self):
        self._process.stdin.close()
        self._process.wait()


def serve(kind, dispatcher=None):
    service = import_tensorflow().data.experimental.service
    if kind == "dispatcher":
        server = service.DispatchServer(
            service.DispatcherConfig(job_gc_check_interval_ms=1000, job_gc_timeout_ms=1000)
        )
        print(json.dumps(server.target), flush=True)
    else:
        server = service.WorkerServer(
            service.WorkerConfig(dispatcher_address=dispatcher, heartbeat_interval_ms=200)
        )
        print(json.dumps("ready"), flush=True)
    sys.stdin.read()


def dataset(tf, element_bytes):
    if element_bytes == 0:
        return tf.data.Dataset.range(1 << 60).repeat()
    return tf.data.Dataset.from_tensors(tf.zeros([element_bytes], tf.uint8)).repeat()


def rate(tf, service, job, consumers, element_bytes, rounds, coordinated):
    """Rounds a second that all consumers get, from the first element that all of them have."""
    started, ended = threading.Barrier(consumers + 1), threading.Barrier(consumers + 1)

    def consume(index):
        options = {"consumer_index": index, "num_consumers": consumers} if coordinated else {}
        ds = dataset(tf, element_bytes).apply(
            tf.data.experimental.service.distribute(
                "parallel_epochs", service, job_name=job, **options
            )
        )
        elements = iter(ds)
        next(elements)
        started.wait()
        for _ in range(rounds):
            next(elements)
        ended.wait()

    threads = [threading.Thread(target=consume, args=(i,), daemon=True) for i in range(consumers)]
    for thread in threads:
        thread.start()
    started.wait()
    began = time.perf_counter()
    ended.wait()
    seconds = time.perf_counter() - began
    for thread in threads:
        thread.join()
    return rounds / seconds


def measure(tf, service, counts, number):
    row = {}
    for consumers in counts:
        for size, (element_bytes, elements) in SIZES.items():
            pair = {
                kind: rate(
                    tf,
                    service,
                    f"{kind}-{number}-{consumers}-{size}",
                    consumers,
                    element_bytes,
                    max(n // consumers, 50),
                    kind == "coordinated",
                )
                for kind, n in elements.items()
            }
            for kind, value in pair.items():
                row[f"tf.data: {consumers:2} consumers, {size}: {kind}, rounds/s"] = value
            row[f"tf.data: {consumers:2} consumers, {size}: coordinated / ordinary"] = (
                pair["coordinated"] / pair["ordinary"]
            )
    return row


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--consumers", default="1,4,16", type=lambda s: [int(n) for n in s.split(",")]
    )
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role:
        serve(*args.role)
        return
    tf = import_tensorflow()
    dispatcher = Server("dispatcher")
    worker = Server("worker", dispatcher.target.split("://")[1])
    rows = []
    try:
        for i in range(args.rounds):
            rows.append(measure(tf, dispatcher.target, args.consumers, i))
            print(f"round {i + 1} of {args.rounds}", file=sys.stderr, flush=True)
    finally:
        worker.end()
        dispatcher.end()
    print(f"TensorFlow {tf.__version__}")
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(
            f"{name:62}{statistics.median(values):12,.2f}   ({min(values):,.2f} .."
            f" {max(values):,.2f})"
        )


if __name__ == "__main__":
    main()
