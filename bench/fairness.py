"""
How jobs of one worker share its cores: what a job gets beside an equal one, and beside a noisy one.

    bench/fairness.py [--build build/release] [--rounds 5] [--seconds 4] [--cores 1] [--json FILE]

One worker on loopback, kept to --cores cores; every reader is a process of its own, on the others
if there are any. Elements are eight bytes each, and cost the worker some 100 us, so that readers
and dispatcher hardly count. In each round a quiet job runs alone, then beside each of the others.

`part` is the quiet job's part of the CPU time that the worker used: its elements, times what one
costs when the job is alone, by the worker's CPU time; serving is in it, too. `by the other` is its
elements by those of the other job. Both hardly depend on what else the machine does. `rate` is its
elements a second, by those that it has alone: a half is fair, as long as it takes all of the cores
when it is alone. Figures are medians of the rounds.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOOPS = 6
QUIET = "one"
# How a job's pipeline makes its elements, and how many readers it has.
KINDS = {
    "one": ("in place", 1),
    "equal": ("in place", 1),
    "16 readers": ("in place", 16),
    "16 calls": ("16 calls", 1),
    "16 files": ("16 files", 1),
    "large blocks": ("large blocks", 1),
}
OTHERS = [kind for kind in KINDS if kind != QUIET]


def costly(mr: Any, x: Any) -> Any:
    total = x
    for _ in range(LOOPS):
        total += mr.cast(mr.reduce_sum(mr.range(20_000) + mr.cast(total, mr.int32)) * 0, mr.int64)
    return total


def pipeline(mr: Any, how: str) -> Any:
    """An endless dataset of numbers."""
    numbers = mr.Dataset.range(1 << 40)
    if how == "16 calls":
        return numbers.map(lambda x: costly(mr, x), num_parallel_calls=16)
    if how == "16 files":
        return mr.Dataset.range(1 << 20).interleave(
            lambda i: mr.Dataset.range(1 << 20).map(lambda x: costly(mr, x + i)),
            cycle_length=16,
            num_parallel_calls=16,
        )
    if how == "large blocks":
        return numbers.batch(256).map(lambda x: mr.map_fn(lambda y: costly(mr, y), x)).unbatch()
    return numbers.map(lambda x: costly(mr, x))


def read(target: str, how: str, job: str) -> None:
    """A reader: takes elements until its input ends, and says how many when it is asked."""
    import threading

    import millrace as mr

    count = 0

    def answer() -> None:
        for _ in sys.stdin:
            print(count, flush=True)
        os._exit(0)

    threading.Thread(target=answer, daemon=True).start()
    ds = pipeline(mr, how).apply(mr.service.distribute("parallel_epochs", target, job_name=job))
    for _ in ds.as_numpy_iterator():
        count += 1


class Reader:
    def __init__(self, target: str, how: str, job: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, __file__, "--read", target, how, job],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def count(self) -> int:
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        return int(self._child.stdout.readline())

    def end(self) -> None:
        self._child.communicate()


class Job:
    """A job with its readers, which have had elements."""

    serial = 0

    def __init__(self, target: str, kind: str) -> None:
        how, readers = KINDS[kind]
        Job.serial += 1
        self._readers = [Reader(target, how, f"job{Job.serial}") for _ in range(readers)]

    def wait(self) -> None:
        while min(reader.count() for reader in self._readers) == 0:
            time.sleep(0.05)

    def count(self) -> int:
        return sum(reader.count() for reader in self._readers)

    def end(self) -> None:
        for reader in self._readers:
            reader.end()


class Figures(NamedTuple):
    rates: list[float]  # elements a second, by job
    each: list[float]  # elements a second of the worker's CPU time


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(target: str, pid: int, kinds: list[str], seconds: float) -> Figures:
    """Of jobs that run at the same time."""
    jobs = [Job(target, kind) for kind in kinds]
    for job in jobs:
        job.wait()
    time.sleep(seconds / 4)
    begin, cpu = time.perf_counter(), cpu_seconds(pid)
    before = [job.count() for job in jobs]
    time.sleep(seconds)
    made = [job.count() - n for job, n in zip(jobs, before, strict=True)]
    passed, used = time.perf_counter() - begin, cpu_seconds(pid) - cpu
    for job in jobs:
        job.end()
    return Figures([n / passed for n in made], [n / used for n in made])


def run(rounds: int, seconds: float, cores: int) -> list[dict[str, Any]]:
    import millrace as mr

    mine = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, mine[:cores])
    dispatcher = mr.service.DispatchServer()
    worker = mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address))
    os.sched_setaffinity(0, mine[cores:] or mine)
    parts: dict[str, list[float]] = {kind: [] for kind in OTHERS}
    rates: dict[str, list[float]] = {kind: [] for kind in OTHERS}
    others: dict[str, list[float]] = {kind: [] for kind in OTHERS}
    for _ in range(rounds):
        alone = measure(dispatcher.target, worker.pid, [QUIET], seconds)
        for kind in OTHERS:
            beside = measure(dispatcher.target, worker.pid, [QUIET, kind], seconds)
            parts[kind].append(beside.each[0] / alone.each[0])
            rates[kind].append(beside.rates[0] / alone.rates[0])
            others[kind].append(beside.rates[0] / beside.rates[1])
    worker.stop()
    dispatcher.stop()
    return [
        {
            "beside": kind,
            "part": round(statistics.median(parts[kind]), 3),
            "rate": round(statistics.median(rates[kind]), 3),
            "by the other": [round(ratio, 3) for ratio in sorted(others[kind])],
        }
        for kind in OTHERS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="How jobs of one worker share its cores.")
    parser.add_argument("--build", help="a build directory; by default what is installed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of one measurement")
    parser.add_argument("--cores", type=int, default=1, help="that the worker may use")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--read", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        read(*args.read)
        return
    if args.build:
        library = next(pathlib.Path(args.build).resolve().glob("lib/libmillrace.so.*"))
        os.environ["MILLRACE_LIBRARY"] = str(library)
        os.environ["MILLRACE_PROGRAM"] = str(library.parents[1] / "bin" / "millrace")
        os.environ["PYTHONPATH"] = str(ROOT / "python")
        sys.path.insert(0, str(ROOT / "python"))
    rows = run(args.rounds, args.seconds, args.cores)
    for row in rows:
        figures = f"part {row['part']:5.2f}   rate {row['rate']:5.2f}"
        print(f"quiet beside {row['beside']:14} {figures}   by the other {row['by the other']}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows))


main()
