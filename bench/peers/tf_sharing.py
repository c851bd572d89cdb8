"""
bench/sharing.py on tf.data service: its cross-trainer cache, against jobs that do not share.

    make bench-peers
    build/peers/bin/python bench/peers/tf_sharing.py [--rounds 5] [--jobs 1,2,4,8] [--elements 400]

The same shape of work: one dispatcher, one worker, elements of 64 KiB that cost the worker more
than 20 times what handing one out does, every job a process of its own. The cache wants an endless
dataset, so each job takes the first elements of one. Ratios are against a job alone, here as there.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
ELEMENT_BYTES = 65536
LOOPS = 300


def import_tensorflow():
    try:
        import tensorflow as tf
    except ImportError as e:
        sys.exit(
            f"tf_sharing: not measured: {e} (pip install tensorflow-cpu, in a virtual environment)"
        )
    return tf


def costly(tf, loops):
    def make(x):
        total = x
        for _ in range(loops):
            total += tf.cast(
                tf.reduce_sum(tf.range(100_000) + tf.cast(total, tf.int32)) * 0, tf.int64
            )
        return tf.fill([ELEMENT_BYTES], tf.cast(total % 256, tf.uint8))

    return tf.data.Dataset.range(1 << 40).map(make).repeat()


class Child:
    """This file in another role; it takes lines and answers lines, of JSON."""

    def __init__(self, *argv):
        self._process = subprocess.Popen(
            [sys.executable, __file__, *argv],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    @property
    def pid(self):
        return self._process.pid

    def tell(self, **command):
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def answer(self):
        line = self._process.stdout.readline()
        if not line:
            sys.exit("tf_sharing: a process died")
        return json.loads(line)

    def end(self):
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()  # TensorFlow's threads may keep a process from ending
            self._process.wait()


def serve_dispatcher():
    tf = import_tensorflow()
    server = tf.data.experimental.service.DispatchServer(
        tf.data.experimental.service.DispatcherConfig(
            job_gc_check_interval_ms=1000, job_gc_timeout_ms=1000
        )
    )
    print(json.dumps({"target": server.target}), flush=True)
    sys.stdin.read()


def serve_worker(dispatcher):
    tf = import_tensorflow()
    server = tf.data.experimental.service.WorkerServer(
        tf.data.experimental.service.WorkerConfig(
            dispatcher_address=dispatcher, heartbeat_interval_ms=200
        )
    )
    print(json.dumps({"ready": server is not None}), flush=True)
    sys.stdin.read()


def read():
    tf = import_tensorflow()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        c = json.loads(line)
        cache = (
            tf.data.experimental.service.CrossTrainerCache(trainer_id=c["trainer"])
            if c["share"]
            else None
        )
        ds = (
            costly(tf, c["loops"])
            .apply(
                tf.data.experimental.service.distribute(
                    "parallel_epochs", c["service"], job_name=c["job"], cross_trainer_cache=cache
                )
            )
            .take(c["elements"])
        )
        began, first, count = time.perf_counter(), None, 0
        for element in ds.as_numpy_iterator():
            first = int(element[0]) if first is None else first
            count += 1
        print(
            json.dumps({"seconds": time.perf_counter() - began, "elements": count, "first": first}),
            flush=True,
        )


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def settle(pid):
    """Wait until the worker has given up what the last measurement left: it rests."""
    used = cpu_s(pid)
    while True:
        time.sleep(0.5)
        now = cpu_s(pid)
        if now - used < 0.05:
            return
        used = now


class Bench:
    def __init__(self, target, worker, jobs, elements):
        self._target, self._worker, self._jobs, self._elements = target, worker, jobs, elements
        self._count = 0

    def measure(self, k, share, loops=LOOPS):
        self._count += 1
        settle(self._worker.pid)
        before = cpu_s(self._worker.pid)
        for i in range(k):
            name = f"bench-{self._count}" + ("" if share else f"-{i}")
            self._jobs[i].tell(
                service=self._target,
                job=name,
                trainer=f"t{i}",
                share=share,
                elements=self._elements,
                loops=loops,
            )
        answers = [self._jobs[i].answer() for i in range(k)]
        used = cpu_s(self._worker.pid) - before
        if any(a["elements"] != self._elements for a in answers):
            sys.exit(f"tf_sharing: elements are missing: {answers}")
        return used, max(a["seconds"] for a in answers)

    def round(self, counts):
        row = {}
        cpu, seconds = self.measure(1, False)
        delivery, _ = self.measure(1, False, 0)
        row["tf.data: alone: CPU s of the worker"] = cpu
        row["tf.data: alone: seconds"] = seconds
        row["tf.data: production / delivery"] = (cpu - delivery) / delivery
        for k in counts:
            for share in (True, False):
                what = f"tf.data: {k} jobs, {'shared' if share else 'unshared'}"
                c, s = self.measure(k, share)
                row[f"{what}: CPU / alone"] = c / cpu
                row[f"{what}: seconds of the slowest / alone"] = s / seconds
        return row


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", default="1,2,4,8", help="how many at the same time")
    parser.add_argument("--elements", type=int, default=400)
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role:
        {"dispatcher": serve_dispatcher, "worker": serve_worker, "reader": read}[args.role[0]](
            *args.role[1:]
        )
        return
    tf = import_tensorflow()
    counts = [int(k) for k in args.jobs.split(",")]
    dispatcher = Child("--role", "dispatcher")
    target = dispatcher.answer()["target"]
    worker = Child("--role", "worker", target.split("://")[1])
    jobs = [Child("--role", "reader") for _ in range(max(counts))]
    for child in [worker, *jobs]:
        child.answer()
    bench = Bench(target, worker, jobs, args.elements)
    rows = []
    try:
        for i in range(args.rounds):
            rows.append(bench.round(counts))
            print(f"round {i + 1} of {args.rounds}", file=sys.stderr, flush=True)
    finally:
        for child in [*jobs, worker, dispatcher]:
            child.end()
    print(f"TensorFlow {tf.__version__}")
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(
            f"{name:58} {statistics.median(values):10.3f}   ({min(values):.3f} .."
            f" {max(values):.3f})"
        )


if __name__ == "__main__":
    main()
