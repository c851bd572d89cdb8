"""
What coordination costs a reader: rounds a second beside uncoordinated reading; a worker killed
inside a round; writes to etcd.

    make bench-rounds
    python3 bench/rounds.py [--rounds 5] [--consumers 1,4,16] [--kills 5] [--build build/release]

One worker on loopback; consumers are threads of one process, in C, each of which takes so many
elements (ordinary small ones more: what is queued at the start must not count). Every figure is the
median of the rounds of measurement; a ratio is taken within its round. A kill is timed from the
signal to the first round that everybody has after the longest pause. The corpus is that of
examples/rounds, read by four consumers of three workers: what its padding costs with and without
coordination (nothing is killed, so it is not timed). `bench/peers/tf_rounds.py` has the rates of
tf.data service. Wants an idle machine.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = {
    "int64": (0, {"coordinated": 300_000, "ordinary": 20_000_000}),
    "1 MiB": (1 << 20, {"coordinated": 1000, "ordinary": 1000}),
}
WRITES_S = 30
CORPUS_STEPS = 400
PACE_S = 0.002


def show(rows):
    for name in rows[0]:
        values = [row[name] for row in rows]
        form = ",.2f" if statistics.median(values) >= 0.1 else ",.5f"
        print(
            (
                f"{name:65}{statistics.median(values):14{form}}   ({min(values):{form}} .."
                f" {max(values):{form}})"
            ),
            flush=True,
        )


def rates(args, service, measured):
    """Rounds a second of each kind, and the ratio, for one round of measurement."""
    row = {}
    for consumers in args.consumers:
        for size, (element_bytes, counts) in SIZES.items():
            pair = {}
            for kind, count in counts.items():
                rounds = max(count // consumers, 50)
                done = subprocess.run(
                    [
                        args.build / "bench" / "rounds_bench",
                        service,
                        f"{kind}-{measured}-{consumers}-{size}",
                        str(consumers),
                        str(element_bytes),
                        str(rounds),
                        kind,
                    ],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                pair[kind] = json.loads(done.stdout)["rounds_per_s"]
                row[f"{consumers:2} consumers, {size}: {kind}, rounds/s"] = pair[kind]
            row[f"{consumers:2} consumers, {size}: coordinated / ordinary"] = (
                pair["coordinated"] / pair["ordinary"]
            )
    return row


def bench_rates(mr, args):
    dispatcher = mr.service.DispatchServer()
    worker = mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address))
    rows = []
    for i in range(args.rounds):
        print(f"rates: round {i + 1} of {args.rounds}", file=sys.stderr, flush=True)
        rows.append(rates(args, dispatcher.target, i))
    worker.stop()
    dispatcher.stop()
    show(rows)


class Consumers:
    """Threads that read rounds and remember when."""

    def __init__(self, mr, service, of, job):
        self.at = [[] for _ in range(of)]
        self.stop = threading.Event()
        self.threads = [
            threading.Thread(target=self._read, args=(mr, service, i, of, job), daemon=True)
            for i in range(of)
        ]
        for thread in self.threads:
            thread.start()

    def _read(self, mr, service, index, of, job):
        ds = mr.Dataset.range(1 << 60).apply(
            mr.service.distribute(
                "parallel_epochs", service, job_name=job, num_consumers=of, consumer_index=index
            )
        )
        with iter(ds) as elements:
            while not self.stop.is_set():
                next(elements)
                self.at[index].append(time.monotonic())
                time.sleep(PACE_S)  # a step

    def wait_for(self, rounds):
        while min(len(at) for at in self.at) < rounds:
            time.sleep(0.01)

    def longest_pause(self, since):
        return max(b - a for at in self.at for a, b in zip(at, at[1:]) if b > since)


def bench_kills(mr, args):
    pauses = []
    for i in range(args.kills):
        dispatcher = mr.service.DispatchServer()
        workers = [
            mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address)) for _ in range(3)
        ]
        consumers = Consumers(mr, dispatcher.target, 4, f"kill-{i}")
        consumers.wait_for(300)
        killed = time.monotonic()
        workers[0].kill()
        consumers.wait_for(max(len(at) for at in consumers.at) + 500)
        pauses.append(consumers.longest_pause(killed - 0.1))
        consumers.stop.set()
        for server in (*workers, dispatcher):
            server.kill()
    print(
        (
            f"{'a worker killed inside a round: the pause, s':65}{statistics.median(pauses):14.2f} "
            f"  ({min(pauses):.2f} .. {max(pauses):.2f})"
        ),
        flush=True,
    )


def bench_writes(mr):
    from cluster import Cluster
    from dispatcher import received_bytes
    import random
    import tempfile

    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as directory:
        cluster = Cluster(directory, random.Random(), members=1, dispatchers=1, workers=2)
        try:
            cluster.start(60)
            consumers = Consumers(mr, cluster.service, 4, "writes")
            consumers.wait_for(300)
            revision, sent, rounds = (
                cluster_revision(cluster),
                received_bytes(cluster),
                len(consumers.at[0]),
            )
            time.sleep(WRITES_S)  # what is measured is a rate
            writes = (cluster_revision(cluster) - revision) / WRITES_S
            bytes_ = (received_bytes(cluster) - sent) / WRITES_S
            read = (len(consumers.at[0]) - rounds) / WRITES_S
            print(
                (
                    f"{'while 4 consumers read: transactions of etcd, /s':65}{writes:14.2f}  "
                    f" ({read:,.0f} rounds/s, {bytes_:,.0f} bytes/s sent to etcd)"
                ),
                flush=True,
            )
            consumers.stop.set()
        finally:
            cluster.kill()


def read_corpus(mr, service, directory, consumers, job, coordinated):
    """What each of the consumers had in each step."""
    from consumer import pipeline

    steps = [[] for _ in range(consumers)]

    def read(index):
        options = {"num_consumers": consumers, "consumer_index": index} if coordinated else {}
        ds = pipeline(directory, consumers).apply(
            mr.service.distribute("parallel_epochs", service, job_name=job, **options)
        )
        with iter(ds) as batches:
            for _ in range(CORPUS_STEPS):
                ids = next(batches)
                steps[index].append({"length": ids.shape[1], "words": int((ids != 0).sum())})
            through.wait()  # the others may still want what is kept until all have it

    through = threading.Barrier(consumers)
    threads = [threading.Thread(target=read, args=(i,), daemon=True) for i in range(consumers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return list(zip(*steps))


def bench_corpus(mr, args):
    import corpus
    import tempfile

    from cost import Cost

    dispatcher = mr.service.DispatchServer()
    workers = [
        mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address)) for _ in range(3)
    ]
    rows = []
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as home:
        directory = pathlib.Path(home)
        corpus.write(directory)
        for i in range(args.rounds):
            print(f"corpus: round {i + 1} of {args.rounds}", file=sys.stderr, flush=True)
            with_, without = (
                Cost(
                    read_corpus(
                        mr,
                        dispatcher.target,
                        directory,
                        4,
                        f"corpus-{i}-{coordinated}",
                        coordinated,
                    )
                )
                for coordinated in (True, False)
            )
            row = {}
            for name, field in (
                ("padding, share of what is computed", "padding"),
                ("step time for each word", "per_word"),
                ("waiting for the longest", "waiting"),
            ):
                row[f"corpus: {name}: coordinated"] = getattr(with_, field)
                row[f"corpus: {name}: ordinary"] = getattr(without, field)
                row[f"corpus: {name}: coordinated / ordinary"] = getattr(with_, field) / getattr(
                    without, field
                )
            rows.append(row)
    for server in (*workers, dispatcher):
        server.stop()
    show(rows)


def cluster_revision(cluster):
    from dispatcher import gateway

    return int(gateway(cluster, "range", key="YQ==")["header"]["revision"])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--consumers", default="1,4,16", type=lambda s: [int(n) for n in s.split(",")]
    )
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    args = parser.parse_args()
    sys.path[:0] = [
        str(ROOT / "tests" / "support"),
        str(ROOT / "bench"),
        str(ROOT / "examples" / "rounds"),
    ]
    import millrace as mr

    bench_rates(mr, args)
    bench_kills(mr, args)
    bench_writes(mr)
    bench_corpus(mr, args)


if __name__ == "__main__":
    main()
