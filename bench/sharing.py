"""What sharing saves: k jobs with one pipeline whose production is costly, shared and unshared, beside one job alone.

    make bench-sharing
    python3 bench/sharing.py [--rounds 5] [--jobs 1,2,4,8] [--elements 1500] [--json FILE] [--build build/release]

One worker on loopback, elements of 64 KiB that take it some 30 times the CPU time of handing one out; every job is a process of its own,
which takes each element. CPU of production is that of the worker's threads that run pipelines and write the window: of those that
come and go with a measurement; the threads that serve stay. Every figure is the median of the rounds; a ratio is taken within its round, against the
job that ran alone in it. Wants an idle machine.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ELEMENT_BYTES = 65536
LOOPS = 40  # of the costly pipeline, for each element


def costly(mr, elements, loops):
    """Elements of ELEMENT_BYTES, each after @loops sums over 100,000 numbers."""

    def make(x):
        total = x
        for _ in range(loops):
            total += mr.cast(mr.reduce_sum(mr.range(100_000) + mr.cast(total, mr.int32)) * 0, mr.int64)
        return mr.broadcast_to(mr.cast(total, mr.uint8), [ELEMENT_BYTES])

    return mr.Dataset.range(elements).map(make)


class Job:
    """A process that reads jobs as it is told: this file with --reader."""

    def __init__(self):
        self._child = subprocess.Popen([sys.executable, __file__, "--reader"], text=True, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)

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
        ds = costly(mr, c["elements"], c["loops"]).apply(mr.service.distribute("parallel_epochs", c["service"], **how))
        began, count = time.perf_counter(), 0
        with iter(ds) as it:
            for element in it:
                count += 1
                if element[-1] != (count - 1) % 256 or len(element) != ELEMENT_BYTES:
                    sys.exit(f"element {count - 1} is not what was made")
            print(json.dumps({"seconds": time.perf_counter() - began, "elements": count, "skipped": it.skipped}), flush=True)


def cpu_of(stat):
    fields = stat.read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Cpu:
    """CPU seconds of a process since this was made: (all, of the threads that came after it)."""

    def __init__(self, pid):
        self._home = pathlib.Path(f"/proc/{pid}")
        self._all, self._threads = cpu_of(self._home / "stat"), self._of_threads()

    def _of_threads(self):
        return {t.name: cpu_of(t / "stat") for t in (self._home / "task").iterdir()}

    def used(self):
        now = self._of_threads()
        used = cpu_of(self._home / "stat") - self._all
        return used, used - sum(now[t] - before for t, before in self._threads.items() if t in now)


class Bench:
    def __init__(self, mr, service, worker, jobs, elements):
        self._mr, self._service, self._worker, self._jobs, self._elements = mr, service, worker, jobs, elements
        self._count = 0

    def measure(self, k, share, loops=LOOPS):
        """(CPU seconds of the worker, of those for production, seconds of the slowest job) of @k jobs that start together."""
        self._count += 1
        names = [f"bench-{self._count}" + ("" if share else f"-{i}") for i in range(k)]
        cpu = Cpu(self._worker.pid)
        for i, name in enumerate(names):
            self._jobs[i].tell(service=self._service, job=name, trainer=f"t{i}", share=share, elements=self._elements, loops=loops)
        answers = [self._jobs[i].answer() for i in range(k)]
        used, production = cpu.used()
        for a in answers:
            if a["elements"] != self._elements or a["skipped"]:
                sys.exit(f"bench: {a['elements']} of {self._elements} elements came, {a['skipped']} were skipped")
        for name in set(names):
            self._mr.service.delete_job(self._service, name, force=True)  # its window makes room for the next
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", default="1,2,4,8", help="how many at the same time")
    parser.add_argument("--elements", type=int, default=1500)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--json", type=pathlib.Path, help="also write all rounds here")
    parser.add_argument("--reader", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ.setdefault("MILLRACE_LIBRARY", str(args.build.resolve() / "lib" / "libmillrace.so.0"))
    os.environ.setdefault("MILLRACE_PROGRAM", str(args.build.resolve() / "bin" / "millrace"))
    sys.path.insert(0, str(ROOT / "python"))
    if args.reader:
        reader()
        return
    import millrace as mr

    counts = [int(k) for k in args.jobs.split(",")]
    rows = []
    with contextlib.ExitStack() as stack:
        dispatcher = stack.enter_context(mr.service.DispatchServer())
        worker = stack.enter_context(mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address)))
        jobs = [Job() for _ in range(max(counts))]
        for job in jobs:
            stack.callback(job.end)
        bench = Bench(mr, dispatcher.target, worker, jobs, args.elements)
        bench.measure(1, True)  # what opens the cache stays
        for i in range(args.rounds):
            rows.append(bench.round(counts))
            print(f"round {i + 1} of {args.rounds}", file=sys.stderr, flush=True)
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(f"{name:50} {statistics.median(values):10.3f}   ({min(values):.3f} .. {max(values):.3f})")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
