"""
What sharing saves: k jobs with one pipeline whose production is costly, shared and unshared, beside
one job alone.

    make bench-sharing python3 bench/sharing.py [--rounds 5] [--jobs 1,2,4,8] [--elements 1500]
    [--loops 40] [--cpu N] [--json FILE] [--build build/release]

One worker on loopback, elements of 64 KiB that take it some 30 times the CPU time of handing one
out (with the --loops given); every job is a process of its own, which takes each element. CPU of
production is that of the worker's threads that run pipelines and write the window: of those that
come and go with a measurement (the threads that serve stay), but for those that take elements out
of the window. Every figure is the median of the rounds; a ratio is taken within its round, against
the job that ran alone in it. Wants an idle machine.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
ELEMENT_BYTES = 65536


def costly(mr, elements, loops):
    """Elements of ELEMENT_BYTES, each after @loops sums over 100,000 numbers."""

    def make(x):
        total = x
        for _ in range(loops):
            total += mr.cast(
                mr.reduce_sum(mr.range(100_000) + mr.cast(total, mr.int32)) * 0, mr.int64
            )
        return mr.broadcast_to(mr.cast(total, mr.uint8), [ELEMENT_BYTES])

    return mr.Dataset.range(elements).map(make)


class Job:
    """A process that reads jobs as it is told: this file with --reader."""

    def __init__(self, cpu):
        keep = [] if cpu is None else ["--cpu", str(cpu)]
        self._child = subprocess.Popen(
            [sys.executable, __file__, "--reader", *keep],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def tell(self, **command):
        self._child.stdin.write(json.dumps(command) + "\n")
        self._child.stdin.flush()

    def answer(self):
        line = self._child.stdout.readline()
        if not line:
            sys.exit("bench: a reader died")
        return json.loads(line)

    def end(self):
        self._child.stdin.close()
        self._child.wait()


def reader():
    """Commands are lines of JSON on standard input, answers on standard output."""
    import time

    import millrace as mr

    for line in sys.stdin:
        c = json.loads(line)
        how = {"job_name": c["job"]}
        if c["share"]:
            how["cross_trainer_cache"] = mr.service.CrossTrainerCache(c["trainer"])
        ds = costly(mr, c["elements"], c["loops"]).apply(
            mr.service.distribute("parallel_epochs", c["service"], **how)
        )
        began, count = time.perf_counter(), 0
        with iter(ds) as it:
            for element in it:
                count += 1
                if element[-1] != (count - 1) % 256 or len(element) != ELEMENT_BYTES:
                    sys.exit(f"element {count - 1} is not what was made")
            print(
                json.dumps(
                    {
                        "seconds": time.perf_counter() - began,
                        "elements": count,
                        "skipped": it.skipped,
                    }
                ),
                flush=True,
            )


DELIVERY = "mr-read"  # the threads of a worker that take elements out of a window for clients


def stat_of(stat):
    """(name, CPU seconds) of a process or thread."""
    before, after = stat.read_text().rsplit(")", 1)
    fields = after.split()
    return before.split("(", 1)[1], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Cpu:
    """
    CPU seconds of a process since this was made: all, and those for production. These are of the
    threads that came after it and do not deliver. A thread that delivers and ends takes its account
    with it, so these are looked at all the time.
    """

    def __init__(self, pid):
        self._home = pathlib.Path(f"/proc/{pid}")
        self._all, self._there = stat_of(self._home / "stat")[1], self._threads()
        self._delivered = {}  # thread -> CPU seconds when it was last seen
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample)
        self._sampler.start()

    def _threads(self):
        found = {}
        for t in (self._home / "task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                found[t.name] = stat_of(t / "stat")
        return found

    def _sample(self):
        while not self._over.wait(0.02):
            self._delivered.update(
                (t, cpu)
                for t, (name, cpu) in self._threads().items()
                if name == DELIVERY and t not in self._there
            )

    def used(self):
        self._over.set()
        self._sampler.join()
        now = self._threads()
        used = stat_of(self._home / "stat")[1] - self._all
        stayed = sum(now[t][1] - before for t, (_, before) in self._there.items() if t in now)
        return used, used - stayed - sum(self._delivered.values())


class Bench:
    def __init__(self, mr, service, worker, jobs, elements, loops):
        self._mr, self._service, self._worker, self._jobs = mr, service, worker, jobs
        self._elements, self._loops = elements, loops
        self._count = 0

    def measure(self, k, share, loops=None):
        """
        (CPU seconds of the worker, of those for production, seconds of the slowest job) of @k jobs
        that start together.
        """
        self._count += 1
        names = [f"bench-{self._count}" + ("" if share else f"-{i}") for i in range(k)]
        cpu = Cpu(self._worker.pid)
        for i, name in enumerate(names):
            self._jobs[i].tell(
                service=self._service,
                job=name,
                trainer=f"t{i}",
                share=share,
                elements=self._elements,
                loops=self._loops if loops is None else loops,
            )
        answers = [self._jobs[i].answer() for i in range(k)]
        used, production = cpu.used()
        for a in answers:
            if a["elements"] != self._elements or a["skipped"]:
                sys.exit(
                    f"bench: {a['elements']} of {self._elements} elements came, {a['skipped']} were"
                    " skipped"
                )
        for name in set(names):
            self._mr.service.delete_job(
                self._service, name, force=True
            )  # its window makes room for the next
        return used, production, max(a["seconds"] for a in answers)

    def round(self, counts):
        row = {}
        cpu, production, seconds = self.measure(1, False)
        delivery, _, _ = self.measure(1, False, 0)
        row["alone: CPU s of the worker"] = cpu
        row["alone: seconds"] = seconds
        row["CPU of the worker, costly / all but free"] = cpu / delivery
        for k in counts:
            for share in (True, False):
                what = f"{k} jobs, {'shared' if share else 'unshared'}"
                c, p, s = self.measure(k, share)
                row[f"{what}: CPU of production / alone"] = p / production
                row[f"{what}: CPU of the worker / alone"] = c / cpu
                row[f"{what}: seconds of the slowest / alone"] = s / seconds
        return row


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", default="1,2,4,8", help="how many at the same time")
    parser.add_argument("--elements", type=int, default=1500)
    parser.add_argument(
        "--loops", type=int, default=40, help="sums over 100,000 numbers that an element costs"
    )
    parser.add_argument(
        "--cpu", type=int, help="keep the readers to this one, as if they were on another machine"
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--json", type=pathlib.Path, help="also write all rounds here")
    parser.add_argument("--reader", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ.setdefault(
        "MILLRACE_LIBRARY", str(args.build.resolve() / "lib" / "libmillrace.so.0")
    )
    os.environ.setdefault("MILLRACE_PROGRAM", str(args.build.resolve() / "bin" / "millrace"))
    sys.path.insert(0, str(ROOT / "python"))
    if args.reader:
        if args.cpu is not None:
            os.sched_setaffinity(0, {args.cpu})
        reader()
        return
    import millrace as mr

    counts = [int(k) for k in args.jobs.split(",")]
    rows = []
    with contextlib.ExitStack() as stack:
        dispatcher = stack.enter_context(mr.service.DispatchServer())
        worker = stack.enter_context(
            mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address))
        )
        jobs = [Job(args.cpu) for _ in range(max(counts))]
        for job in jobs:
            stack.callback(job.end)
        bench = Bench(mr, dispatcher.target, worker, jobs, args.elements, args.loops)
        bench.measure(1, True)  # what opens the cache stays
        for i in range(args.rounds):
            rows.append(bench.round(counts))
            print(f"round {i + 1} of {args.rounds}", file=sys.stderr, flush=True)
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(
            f"{name:50} {statistics.median(values):10.3f}   ({min(values):.3f} .."
            f" {max(values):.3f})"
        )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
